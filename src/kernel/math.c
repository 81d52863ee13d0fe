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

/* Expansions in f64. In f32 these functions are the f64 result rounded: within 0.501 ulp wherever that one is good to 1e-10. */
static expansion *const expansions_f64[KIR_OPS] = {
  [KIR_LGAMMA] = expand_lgamma,     [KIR_GAMMA] = expand_gamma,     [KIR_DIGAMMA] = expand_digamma,
  [KIR_TRIGAMMA] = expand_trigamma, [KIR_SINC] = expand_sinc,       [KIR_ERFCX] = expand_erfcx,
  [KIR_ERFCINV] = expand_erfcinv,   [KIR_NDTR] = expand_ndtr,       [KIR_NDTRI] = expand_ndtri,
  [KIR_LOG_NDTR] = expand_log_ndtr, [KIR_LOG1MEXP] = expand_log1mexp, [KIR_LOGIT] = expand_logit,
  [KIR_XLOGY] = expand_xlogy,       [KIR_XLOG1PY] = expand_xlog1py, [KIR_I0] = expand_i0,
  [KIR_I0E] = expand_i0e,           [KIR_I1] = expand_i1,           [KIR_I1E] = expand_i1e,
  [KIR_J0] = expand_j0,             [KIR_J1] = expand_j1,             [KIR_ZETA] = expand_zeta,
  [KIR_POLYGAMMA] = expand_polygamma, [KIR_BETA] = expand_beta,     [KIR_BETALN] = expand_betaln,
  [KIR_GAMMAINC] = expand_gammainc, [KIR_GAMMAINCC] = expand_gammaincc, [KIR_GAMMAINC_DA] = expand_gammainc_da,
  [KIR_BETAINC] = expand_betainc,   [KIR_BETAINC_DA] = expand_betainc_da, [KIR_GAMMAINCINV] = expand_gammaincinv,
  [KIR_GAMMAINCCINV] = expand_gammainccinv, [KIR_BETAINCINV] = expand_betaincinv, [KIR_OWENS_T] = expand_owens_t,
  [KIR_IV] = expand_iv, [KIR_IVE] = expand_ive, [KIR_JV] = expand_jv, [KIR_KV] = expand_kv, [KIR_KVE] = expand_kve,
};

static int in_f64(struct kir_builder *b, enum kir_op o, const int x[]) {
  int wide[4], n = (int)strlen(kir_rows[o].operands);
  for (int i = 0; i < n; i++) wide[i] = kir_cast(b, WEFT_F64, x[i]);
  return kir_cast(b, (weft_dtype)b->k->vals[x[0]].dtype, expansions_f64[o](here_in(b, WEFT_F64), wide));
}

int math_expand(struct kir_builder *b, enum kir_op o, const int x[]) {
  if (expansions_f64[o]) return in_f64(b, o, x);
  return expansions[o](here_in(b, (weft_dtype)b->k->vals[x[0]].dtype), x);
}
