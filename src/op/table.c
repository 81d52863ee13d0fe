/* table.c -- all ops, for tests that walk them. */
#include "op/operand.h"

extern const struct op op_abs, op_rsqrt, op_exp, op_log, op_log1p, op_tanh, op_sigmoid, op_isnan, op_not, op_eq, op_ne,
    op_lt, op_xor, op_sum, op_prod, op_max, op_min, op_all, op_any, op_logsumexp, op_argmax, op_argmin, op_cumsum,
    op_cumprod, op_cummax, op_cummin;

const struct op *const op_table[] = {
  &op_value, &op_scalar, &op_input, &op_bad, &op_loop_var, &op_iota, &op_size,
  &op_neg, &op_abs, &op_sqrt, &op_rsqrt, &op_exp, &op_log, &op_log1p, &op_tanh, &op_sigmoid, &op_isnan, &op_not,
  &op_add, &op_sub, &op_mul, &op_div, &op_maximum, &op_minimum, &op_eq, &op_ne, &op_lt, &op_le, &op_and, &op_or, &op_xor,
  &op_where, &op_fma, &op_cast,
  &op_sum, &op_prod, &op_max, &op_min, &op_all, &op_any, &op_logsumexp, &op_argmax, &op_argmin,
  &op_cumsum, &op_cumprod, &op_cummax, &op_cummin,
  &op_reshape, &op_broadcast, &op_transpose, &op_slice,
  &op_take, &op_put, &op_scatter, &op_concat, &op_pad, &op_matmul,
  &op_alias, &op_stop_gradient, &op_depends, &op_barrier, &op_checkpoint, &op_custom,
  &op_loop, &op_call, &op_item, NULL
};
