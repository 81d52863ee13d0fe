/* math.c -- which expansion an instruction of level E has. */
#include "kernel/math.h"
#include "kernel/expansion.h"

static expansion *const expansions[KIR_OPS] = {
  [KIR_EXP] = expand_exp,     [KIR_EXP2] = expand_exp2,   [KIR_EXPM1] = expand_expm1, [KIR_SINH] = expand_sinh,
  [KIR_COSH] = expand_cosh,   [KIR_TANH] = expand_tanh,   [KIR_LOG] = expand_log,     [KIR_LOG2] = expand_log2,
  [KIR_LOG10] = expand_log10, [KIR_LOG1P] = expand_log1p, [KIR_ASINH] = expand_asinh, [KIR_ACOSH] = expand_acosh,
  [KIR_ATANH] = expand_atanh, [KIR_SIN] = expand_sin,     [KIR_COS] = expand_cos,     [KIR_TAN] = expand_tan,
  [KIR_ASIN] = expand_asin,   [KIR_ACOS] = expand_acos,   [KIR_ATAN] = expand_atan,   [KIR_ATAN2] = expand_atan2,
  [KIR_ERF] = expand_erf,     [KIR_ERFC] = expand_erfc,   [KIR_ERFINV] = expand_erfinv,
  [KIR_POW] = expand_pow,     [KIR_HYPOT] = expand_hypot, [KIR_RSQRT] = expand_rsqrt, [KIR_SIGMOID] = expand_sigmoid,
};

int math_expand(struct kir_builder *b, enum kir_op o, const int x[]) {
  return expansions[o](here_in(b, (weft_dtype)b->k->vals[x[0]].dtype), x);
}
