/* table.c -- all ops, for tests that walk them. */
#include "op/operand.h"

extern const struct op op_sum, op_prod, op_max, op_min, op_all, op_any, op_logsumexp, op_argmax, op_argmin, op_cumsum,
    op_cumprod, op_cummax, op_cummin;

/* The rows of weft.h; a > b is made as b < a, x^2 as x x, 1 / x as such. */
#define op_gt op_lt
#define op_ge op_le
#define op_square op_mul
#define op_reciprocal op_div
#define ROW(name, doc) extern const struct op op_##name;
WEFT_UNARY(ROW)
WEFT_BINARY(ROW)
WEFT_TERNARY(ROW)
#undef ROW
#define ROW(name, doc) &op_##name,

const struct op *const op_table[] = {
  &op_value, &op_scalar, &op_input, &op_bad, &op_loop_var, &op_iota, &op_size,
  WEFT_UNARY(ROW) WEFT_BINARY(ROW) WEFT_TERNARY(ROW)
  &op_bits, &op_random_bits, &op_gamma_draw, &op_log_gamma_draw, &op_where, &op_choose, &op_scale, &op_fma, &op_cast, &op_complex,
  &op_sum, &op_prod, &op_max, &op_min, &op_all, &op_any, &op_logsumexp, &op_argmax, &op_argmin,
  &op_cumsum, &op_cumprod, &op_cummax, &op_cummin,
  &op_reshape, &op_broadcast, &op_transpose, &op_slice, &op_as_strided, &op_windows, &op_part, &op_pair,
  &op_take, &op_assert, &op_put, &op_scatter, &op_concat, &op_pad, &op_matmul,
  &op_alias, &op_stop_gradient, &op_depends, &op_to, &op_barrier, &op_checkpoint, &op_custom,
  &op_loop, &op_call, &op_later, &op_item, &op_sort, &op_select, &op_tally, &op_bins, &op_dequantize, &op_code_product,
  &op_depthwise, &op_fourier, &op_turns,
  &op_cholesky, &op_cholesky_solve, &op_triangle, &op_lu, &op_solve, &op_inverse, &op_determinant, &op_adjugate, &op_cofactors,
  &op_host, NULL
};
