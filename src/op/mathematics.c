/* mathematics.c -- functions of one or two real numbers that are no arithmetic. Each is an instruction of the kernel language,
 * expanded once for all back ends, or made of such. */
#include <math.h>
#include "op/complex.h"
#include "op/element.h"

static weft_array *number(double x) { return weft_scalar(x); }
static weft_array *one_minus_square(weft_array *x) { /* (1 - x)(1 + x) */
  return weft_mul(weft_sub(number(1), x), weft_add(number(1), x));
}
static weft_array *where_0(weft_array *x, weft_array *otherwise) { /* 0 where x = 0 */
  return weft_where(weft_eq(x, weft_integer(0)), number_like(otherwise, 0), otherwise);
}

/* ---- Kernel code ---- */

ONE_INSTRUCTION(rsqrt, KIR_RSQRT)
ONE_INSTRUCTION(exp, KIR_EXP)
ONE_INSTRUCTION(exp2, KIR_EXP2)
ONE_INSTRUCTION(expm1, KIR_EXPM1)
ONE_INSTRUCTION(log, KIR_LOG)
ONE_INSTRUCTION(log2, KIR_LOG2)
ONE_INSTRUCTION(log10, KIR_LOG10)
ONE_INSTRUCTION(log1p, KIR_LOG1P)
ONE_INSTRUCTION(sigmoid, KIR_SIGMOID)
ONE_INSTRUCTION(sin, KIR_SIN)
ONE_INSTRUCTION(cos, KIR_COS)
ONE_INSTRUCTION(tan, KIR_TAN)
ONE_INSTRUCTION(asin, KIR_ASIN)
ONE_INSTRUCTION(acos, KIR_ACOS)
ONE_INSTRUCTION(atan, KIR_ATAN)
ONE_INSTRUCTION(sinh, KIR_SINH)
ONE_INSTRUCTION(cosh, KIR_COSH)
ONE_INSTRUCTION(tanh, KIR_TANH)
ONE_INSTRUCTION(asinh, KIR_ASINH)
ONE_INSTRUCTION(acosh, KIR_ACOSH)
ONE_INSTRUCTION(atanh, KIR_ATANH)
ONE_INSTRUCTION(erf, KIR_ERF)
ONE_INSTRUCTION(erfc, KIR_ERFC)
ONE_INSTRUCTION(erfinv, KIR_ERFINV)
ONE_INSTRUCTION(atan2, KIR_ATAN2)
ONE_INSTRUCTION(hypot, KIR_HYPOT)

/* max + log1p(e^-|a - b|); where a = b, infinite or not, max + log 2 */
LOWER(logaddexp) {
  int most = kir_op2(b, KIR_MAX, in[0], in[1]), d = kir_op1(b, KIR_ABS, kir_op2(b, KIR_SUB, in[0], in[1]));
  d = kir_op3(b, KIR_SELECT, kir_op2(b, KIR_EQ, in[0], in[1]), zero(b, n), d);
  int e = kir_op1(b, KIR_EXP, kir_op1(b, KIR_NEG, d));
  return kir_op2(b, KIR_ADD, most, kir_op1(b, KIR_LOG1P, e));
}

/* Integers by squaring: a factor for every bit of the exponent. x^-n is the whole part of 1 / x^n, and 0 at 0. */
static int integer_power(struct kir_builder *b, const struct node *n, int x, int y) {
  int bits = 8 * (int)weft_dtype_bytes(kir_register_of(operand_dtype(n))) - on_signed(n), r = one(b, n), none = zero(b, n), f = x;
  for (int i = 0; i < bits; i++) {
    int mask = kir_lit(b->k, kir_register_of(operand_dtype(n)), UINT64_C(1) << i);
    int is_set = kir_op2(b, KIR_NE, kir_op2(b, KIR_AND, y, mask), none);
    r = kir_op2(b, KIR_MUL, r, kir_op3(b, KIR_SELECT, is_set, f, one(b, n)));
    if (i + 1 < bits) f = kir_op2(b, KIR_MUL, f, f);
  }
  return r;
}

LOWER(pow) {
  if (on_float(n)) return kir_op2(b, KIR_POW, in[0], in[1]);
  if (on_bool(n)) return kir_op2(b, KIR_OR, in[0], negated(b, in[1]));
  int r = integer_power(b, n, in[0], in[1]);
  if (!on_signed(n)) return r;
  int is_one = kir_op2(b, KIR_EQ, in[0], one(b, n)), is_other = kir_op2(b, KIR_EQ, in[0], lower_number(b, operand_dtype(n), -1));
  int is_unit = kir_op2(b, KIR_OR, is_one, is_other);
  int odd = kir_op2(b, KIR_AND, in[1], one(b, n)), is_even = kir_op2(b, KIR_EQ, odd, zero(b, n));
  int unit = kir_op3(b, KIR_SELECT, is_even, one(b, n), in[0]);
  int small = kir_op3(b, KIR_SELECT, is_unit, unit, zero(b, n));
  return kir_op3(b, KIR_SELECT, kir_op2(b, KIR_LT, in[1], zero(b, n)), small, r);
}

/* ---- Derivatives ---- */

PARTIAL(rsqrt) { return (void)k, weft_div(weft_mul(number(-0.5), Y), X); }
PARTIAL(exp) { return (void)k, Y; }
PARTIAL(exp2) { return (void)k, weft_mul(Y, number(0.6931471805599453)); }
PARTIAL(expm1) { return (void)k, weft_exp(X); }
PARTIAL(log) { return (void)k, weft_div(number(1), X); }
PARTIAL(log2) { return (void)k, weft_div(number(1.4426950408889634), X); }
PARTIAL(log10) { return (void)k, weft_div(number(0.4342944819032518), X); }
PARTIAL(log1p) { return (void)k, weft_div(number(1), weft_add(number(1), X)); }
PARTIAL(sin) { return (void)k, weft_cos(X); }
PARTIAL(cos) { return (void)k, weft_neg(weft_sin(X)); }
PARTIAL(tan) { return (void)k, weft_add(number(1), weft_square(Y)); }
PARTIAL(asin) { return (void)k, weft_rsqrt(one_minus_square(X)); }
PARTIAL(acos) { return (void)k, weft_neg(weft_rsqrt(one_minus_square(X))); }
PARTIAL(atan) { return (void)k, weft_div(number(1), weft_add(number(1), weft_square(X))); }
PARTIAL(sinh) { return (void)k, weft_cosh(X); }
PARTIAL(cosh) { return (void)k, weft_sinh(X); }
PARTIAL(tanh) { return (void)k, weft_sub(number(1), weft_mul(Y, Y)); }
PARTIAL(asinh) { return (void)k, weft_div(number(1), weft_hypot(X, number(1))); }
PARTIAL(acosh) { return (void)k, weft_rsqrt(weft_mul(weft_sub(X, number(1)), weft_add(X, number(1)))); }
PARTIAL(atanh) { return (void)k, weft_div(number(1), one_minus_square(X)); }
PARTIAL(erf) { return (void)k, weft_mul(number(1.1283791670955126), weft_exp(weft_neg(weft_square(X)))); }
PARTIAL(erfc) { return (void)k, weft_mul(number(-1.1283791670955126), weft_exp(weft_neg(weft_square(X)))); }
PARTIAL(erfinv) { return (void)k, weft_mul(number(0.8862269254527580), weft_exp(weft_square(Y))); }
PARTIAL(sigmoid) { return (void)k, weft_mul(Y, weft_sub(number(1), Y)); }

/* At (0, 0), where there is no derivative, it is 0: the mean over all directions. */
PARTIAL(hypot) { return where_0(Y, weft_div(r->in[k], Y)); }
PARTIAL(atan2) {
  weft_array *h = weft_hypot(X, r->in[1]), *d = weft_div(weft_div(r->in[1 - k], h), h);
  return where_0(h, k == 0 ? d : weft_neg(d));
}

PARTIAL(logaddexp) {
  weft_array *d = weft_sigmoid(weft_sub(r->in[k], r->in[1 - k]));
  return weft_where(weft_eq(X, r->in[1]), number_like(d, 0.5), d);
}

/* y x^(y - 1), which is 0 where y is, and x^y log x, which is 0 at x = 0 from y = 0 on. */
PARTIAL(pow) {
  weft_array *x = X, *y = r->in[1];
  if (k == 0) return where_0(y, weft_mul(y, weft_pow(x, weft_sub(y, number(1)))));
  weft_array *is_flat = weft_eq(x, weft_integer(0)), *d = weft_mul(Y, weft_log(x));
  if (!dtype_is_complex(weft_dtype_of(y))) is_flat = weft_and(is_flat, weft_ge(y, weft_integer(0)));
  return weft_where(is_flat, number_like(d, 0), d);
}

UNARY(rsqrt, FLOAT, true, HOLOMORPHIC)
UNARY(exp, FLOAT, false, HOLOMORPHIC)
UNARY(exp2, FLOAT, false, DERIVATIVE)
UNARY(expm1, FLOAT, false, DERIVATIVE)
UNARY(log, FLOAT, false, HOLOMORPHIC)
UNARY(log2, FLOAT, false, DERIVATIVE)
UNARY(log10, FLOAT, false, DERIVATIVE)
UNARY(log1p, FLOAT, false, DERIVATIVE)
UNARY(sin, FLOAT, false, HOLOMORPHIC)
UNARY(cos, FLOAT, false, HOLOMORPHIC)
UNARY(tan, FLOAT, false, HOLOMORPHIC)
UNARY(asin, FLOAT, false, DERIVATIVE)
UNARY(acos, FLOAT, false, DERIVATIVE)
UNARY(atan, FLOAT, false, DERIVATIVE)
UNARY(sinh, FLOAT, false, HOLOMORPHIC)
UNARY(cosh, FLOAT, false, HOLOMORPHIC)
UNARY(tanh, FLOAT, false, HOLOMORPHIC)
UNARY(asinh, FLOAT, false, DERIVATIVE)
UNARY(acosh, FLOAT, false, DERIVATIVE)
UNARY(atanh, FLOAT, false, DERIVATIVE)
UNARY(erf, FLOAT, false, DERIVATIVE)
UNARY(erfc, FLOAT, false, DERIVATIVE)
UNARY(erfinv, FLOAT, false, DERIVATIVE)
UNARY(sigmoid, FLOAT, false, HOLOMORPHIC)

BINARY(atan2, FLOAT, false, DERIVATIVE)
BINARY(hypot, FLOAT, false, DERIVATIVE)
BINARY(logaddexp, FLOAT, false, DERIVATIVE)
BINARY(pow, NUMBER, false, HOLOMORPHIC)
