/* quotient.c -- whole quotients and what they leave: floor_divide, remainder (floored, the sign of b) and fmod (truncated,
 * the sign of a).
 *
 * a = b q + r holds to the last bit wherever the quotient is a number: for integers always, with a / 0 = 0 and hence
 * a % 0 = a; of bools 1 is the only divisor. For floats the remainder is exact while |a / b| < 2^72, or 2^159 in f64, and nan
 * beyond; b = 0 gives nan, and a / b for the quotient. */
#include <math.h>
#include "op/element.h"

static int op1(struct kir_builder *b, enum kir_op o, int x) { return kir_op1(b, o, x); }
static int op2(struct kir_builder *b, enum kir_op o, int x, int y) { return kir_op2(b, o, x, y); }
static int either(struct kir_builder *b, int c, int x, int y) { return kir_op3(b, KIR_SELECT, c, x, y); }
static int number(struct kir_builder *b, const struct node *n, double x) { return lower_number(b, operand_dtype(n), x); }

/* ---- Floats ---- */

/* x with the sign of s: x has none */
static int with_sign(struct kir_builder *b, int x, int s) {
  weft_dtype f = (weft_dtype)b->k->vals[x].dtype, i = f == WEFT_F32 ? WEFT_U32 : WEFT_U64;
  int sign = kir_lit(b->k, i, f == WEFT_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
  int bits = op2(b, KIR_OR, kir_bits(b, i, x), op2(b, KIR_AND, kir_bits(b, i, s), sign));
  return kir_bits(b, f, bits);
}

/* r - q d with q the whole part of r / d, as far as a float can say it. The difference is exact; it has the other sign
 * where q was rounded up. Each step takes the 24 or 53 bits of a q away. */
static int step(struct kir_builder *b, int r, int d) {
  int q = op1(b, KIR_TRUNC, op2(b, KIR_DIV, r, d));
  return kir_op3(b, KIR_FMA, op1(b, KIR_NEG, q), d, r);
}

static int float_fmod(struct kir_builder *b, const struct node *n, int a, int divisor) {
  int d = op1(b, KIR_ABS, divisor), size = op1(b, KIR_ABS, a), r = step(b, step(b, step(b, size, d), d), d);
  r = either(b, op2(b, KIR_LT, op1(b, KIR_ABS, r), d), r, number(b, n, NAN));
  r = either(b, op2(b, KIR_LT, r, zero(b, n)), op2(b, KIR_ADD, r, d), r);
  r = either(b, op2(b, KIR_LT, size, d), size, r); /* also of an infinite d */
  return with_sign(b, op1(b, KIR_ABS, r), a);
}

static int is_apart(struct kir_builder *b, const struct node *n, int r, int d) { /* one of them is below 0 */
  return op2(b, KIR_XOR, op2(b, KIR_LT, r, zero(b, n)), op2(b, KIR_LT, d, zero(b, n)));
}

/* r, or r + b if their signs differ; a zero has the sign of b */
static int float_remainder(struct kir_builder *b, const struct node *n, int r, int d) {
  int y = either(b, is_apart(b, n, r, d), op2(b, KIR_ADD, r, d), r);
  return either(b, op2(b, KIR_EQ, r, zero(b, n)), with_sign(b, zero(b, n), d), y);
}

/* (a - r) / b is a whole number but for rounding, and one too large if r has another sign than b. Without an r the quotient
 * itself is whole, or that of 0 or an infinity. */
static int float_quotient(struct kir_builder *b, const struct node *n, int a, int d) {
  int q = op2(b, KIR_DIV, a, d), r = float_fmod(b, n, a, d), inf = number(b, n, INFINITY), none = zero(b, n);
  int whole = op1(b, KIR_RINT, op2(b, KIR_DIV, op2(b, KIR_SUB, a, r), d));
  int less = op2(b, KIR_AND, is_apart(b, n, r, d), op2(b, KIR_NE, r, none));
  whole = either(b, less, op2(b, KIR_SUB, whole, one(b, n)), whole);
  whole = either(b, op2(b, KIR_EQ, whole, none), with_sign(b, none, q), whole);
  int has_other = op2(b, KIR_OR, op2(b, KIR_LT, op1(b, KIR_ABS, a), inf), op2(b, KIR_EQ, d, none));
  int other = either(b, has_other, q, number(b, n, NAN));
  return either(b, op2(b, KIR_EQ, r, r), whole, other);
}

/* ---- Integers: the truncated quotient is one too large where the remainder has another sign than b ---- */

static int is_too_large(struct kir_builder *b, const struct node *n, int r, int d) {
  int none = zero(b, n), matters = op2(b, KIR_AND, op2(b, KIR_NE, r, none), op2(b, KIR_NE, d, none));
  return op2(b, KIR_AND, matters, op2(b, KIR_LT, op2(b, KIR_XOR, r, d), none));
}

LOWER(floor_divide) {
  if (on_float(n)) return float_quotient(b, n, in[0], in[1]);
  if (on_bool(n)) return op2(b, KIR_AND, in[0], in[1]);
  int q = op2(b, KIR_IDIV, in[0], in[1]);
  if (!on_signed(n)) return q;
  int r = op2(b, KIR_SUB, in[0], op2(b, KIR_MUL, q, in[1])); /* a second division would take as long as the first */
  return either(b, is_too_large(b, n, r, in[1]), op2(b, KIR_SUB, q, one(b, n)), q);
}

LOWER(remainder) {
  if (on_float(n)) return float_remainder(b, n, float_fmod(b, n, in[0], in[1]), in[1]);
  if (on_bool(n)) return op2(b, KIR_AND, in[0], negated(b, in[1]));
  int r = op2(b, KIR_IREM, in[0], in[1]);
  if (!on_signed(n)) return r;
  return either(b, is_too_large(b, n, r, in[1]), op2(b, KIR_ADD, r, in[1]), r);
}

LOWER(fmod) {
  if (on_float(n)) return float_fmod(b, n, in[0], in[1]);
  if (on_bool(n)) return op2(b, KIR_AND, in[0], negated(b, in[1]));
  return op2(b, KIR_IREM, in[0], in[1]);
}

PARTIAL(remainder) { return k == 0 ? weft_scalar(1) : weft_neg(weft_floor_divide(X, r->in[1])); }
PARTIAL(fmod) { return k == 0 ? weft_scalar(1) : weft_neg(weft_trunc(weft_div(X, r->in[1]))); }

BINARY(floor_divide, NUMBER, false, NONE)
BINARY(remainder, NUMBER, false, DERIVATIVE)
BINARY(fmod, NUMBER, false, DERIVATIVE)
