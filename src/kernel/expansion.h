/* expansion.h -- how expansions of math functions are written: straight lines of core instructions on an f32 or f64.
 *
 * NaN goes in and comes out: numbers are clamped by min and max, where NaN wins, and scaled by multiplication, never by
 * adding to the exponent of a value that may be NaN. No tables, no branches. A result that must be closer than one rounding
 * allows is a sum of two values, the low one below half a unit of the high one. */
#ifndef WEFT_EXPANSION_H
#define WEFT_EXPANSION_H
#include <math.h>
#include <string.h>
#include "kernel/kir.h"

struct here { struct kir_builder *b; weft_dtype f, i; }; /* f: the float dtype at work; i: unsigned ones of its width */
struct two { int high, low; };                           /* the sum of two values */

static inline struct here here_in(struct kir_builder *b, weft_dtype f) {
  return (struct here){ b, f, f == WEFT_F32 ? WEFT_U32 : WEFT_U64 };
}
static inline bool is_narrow(struct here h) { return h.f == WEFT_F32; }

static inline int number(struct here h, double d) { /* d is a number of dtype f, exactly */
  float s = (float)d;
  uint32_t narrow;
  uint64_t wide;
  memcpy(&narrow, &s, sizeof s);
  memcpy(&wide, &d, sizeof d);
  return kir_lit(h.b->k, h.f, h.f == WEFT_F32 ? narrow : wide);
}

static inline int integer(struct here h, uint64_t bits) { return kir_lit(h.b->k, h.i, bits); }
static inline int as_bits(struct here h, int x) { return kir_bits(h.b, h.i, x); }
static inline int as_float(struct here h, int x) { return kir_bits(h.b, h.f, x); }
static inline int op(struct here h, enum kir_op o, int x, int y) { return kir_op2(h.b, o, x, y); }
static inline int add(struct here h, int x, int y) { return op(h, KIR_ADD, x, y); }
static inline int sub(struct here h, int x, int y) { return op(h, KIR_SUB, x, y); }
static inline int mul(struct here h, int x, int y) { return op(h, KIR_MUL, x, y); }
static inline int quotient(struct here h, int x, int y) { return op(h, KIR_DIV, x, y); }
static inline int muladd(struct here h, int x, int y, int z) { return kir_op3(h.b, KIR_FMA, x, y, z); }
static inline int negative(struct here h, int x) { return kir_op1(h.b, KIR_NEG, x); }
static inline int size_of(struct here h, int x) { return kir_op1(h.b, KIR_ABS, x); }
static inline int root(struct here h, int x) { return kir_op1(h.b, KIR_SQRT, x); }
static inline int less(struct here h, int x, int y) { return op(h, KIR_LT, x, y); }
static inline int either(struct here h, int cond, int x, int y) { return kir_op3(h.b, KIR_SELECT, cond, x, y); }

/* x - y z, rounded once */
static inline int mulsub(struct here h, int y, int z, int x) { return muladd(h, negative(h, y), z, x); }

static inline uint64_t sign_bit(struct here h) { return is_narrow(h) ? UINT64_C(1) << 31 : UINT64_C(1) << 63; }

/* x with the sign of s; x itself has none */
static inline int with_sign(struct here h, int x, int s) {
  int sign = op(h, KIR_AND, as_bits(h, s), integer(h, sign_bit(h)));
  return as_float(h, op(h, KIR_OR, as_bits(h, x), sign));
}

/* c[0] x^(n-1) + .. + c[n-1] */
static inline int polynomial(struct here h, int x, int n, const double c[]) {
  int r = number(h, c[0]);
  for (int i = 1; i < n; i++) r = muladd(h, r, x, number(h, c[i]));
  return r;
}

/* x + y, exactly. x is 0, or not smaller than y, or a multiple of the last place of y. */
static inline struct two sum(struct here h, int x, int y) {
  int s = add(h, x, y);
  return (struct two){ s, sub(h, y, sub(h, s, x)) };
}

/* x y, exactly but for underflow */
static inline struct two product(struct here h, int x, int y) {
  int p = mul(h, x, y);
  return (struct two){ p, muladd(h, x, y, negative(h, p)) };
}

/* sqrt(x.high + x.low), the high part not below 0. least: not above any root asked for but 0. */
static inline struct two root_of(struct here h, struct two x, double least) {
  int s = root(h, x.high), rest = add(h, mulsub(h, s, s, x.high), x.low);
  int half = quotient(h, number(h, 0.5), op(h, KIR_MAX, s, number(h, least)));
  return (struct two){ s, mul(h, rest, half) };
}

/* Coefficients and limits of a dtype: VALUE(h, of f32, of f64). */
#define VALUE(h, narrow, wide) number(h, is_narrow(h) ? (narrow) : (wide))

/* exp.c, log.c, trigonometry.c, arc.c, erf.c, power.c: the value, of the instruction's operands x[0], x[1] */
typedef int expansion(struct here, const int x[]);
expansion expand_exp, expand_exp2, expand_expm1, expand_sinh, expand_cosh, expand_tanh, expand_log, expand_log2, expand_log10,
    expand_log1p, expand_asinh, expand_acosh, expand_atanh, expand_sin, expand_cos, expand_tan, expand_asin, expand_acos,
    expand_atan, expand_atan2, expand_erf, expand_erfc, expand_erfinv, expand_pow, expand_hypot, expand_rsqrt, expand_sigmoid;

/* What several of them need. */
struct two exp_of(struct here, struct two x, int *scale_a, int *scale_b); /* e^x = value * *scale_a * *scale_b */
int log_split(struct here, int x, int *k); /* x = 2^k (1 + m), x positive and normal: m */

#endif
