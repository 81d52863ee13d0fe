/* expansion.h -- how expansions of math functions are written: straight lines of core instructions on an f32 or f64.
 *
 * NaN goes in and comes out: numbers are clamped by min and max, where NaN wins, and scaled by multiplication, never by
 * adding to the exponent of a value that may be NaN. No tables, and no branches but around what few numbers need. A result that
 * must be closer than one rounding allows is a sum of two values, the low one below half a unit of the high one. */
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

int number(struct here h, double d); /* d is a number of dtype f, exactly */

int integer(struct here h, uint64_t bits);
int as_bits(struct here h, int x);
int as_float(struct here h, int x);
int op(struct here h, enum kir_op o, int x, int y);
int add(struct here h, int x, int y);
int sub(struct here h, int x, int y);
int mul(struct here h, int x, int y);
int quotient(struct here h, int x, int y);
int muladd(struct here h, int x, int y, int z);
int negative(struct here h, int x);
int size_of(struct here h, int x);
int root(struct here h, int x);
int less(struct here h, int x, int y);
int either(struct here h, int cond, int x, int y);

/* What is written between the two is left out where no lane of a vector has the condition; the value is x where one has it, y
 * elsewhere. It is cheapest with one value of outside. Beside lanes, and in a fn, all is computed. */
bool in_lanes(struct here h);
void rarely(struct here h, int cond);
int usually(struct here h, int cond, int x, int y);

/* Opens a loop of at most n rounds: carries, what happens, kir_next, kir_until lane by lane, and kir_end follow. What ends by
 * a comparison of numbers goes round n times of NaN unless that ends it too. */
void rounds(struct here h, int n);

/* x - y z, rounded once */
int mulsub(struct here h, int y, int z, int x);

static inline uint64_t sign_bit(struct here h) { return is_narrow(h) ? UINT64_C(1) << 31 : UINT64_C(1) << 63; }

/* x with the sign of s; x itself has none */
int with_sign(struct here h, int x, int s);

/* c[0] x^(n-1) + .. + c[n-1] */
int polynomial(struct here h, int x, int n, const double c[]);

/* x + y, exactly. x is 0, or not smaller than y, or a multiple of the last place of y. */
struct two sum(struct here h, int x, int y);

/* x y, exactly but for underflow */
struct two product(struct here h, int x, int y);

/* sqrt(x.high + x.low), the high part not below 0. least: not above any root asked for but 0. */
struct two root_of(struct here h, struct two x, double least);

/* Coefficients and limits of a dtype: VALUE(h, of f32, of f64). */
#define VALUE(h, narrow, wide) number(h, is_narrow(h) ? (narrow) : (wide))

/* exp.c, log.c, trigonometry.c, arc.c, erf.c, power.c, gamma.c, zeta.c, bessel.c, cylinder.c, incomplete.c, inverse.c: the value,
 * of the instruction's operands x[0], x[1] */
typedef int expansion(struct here, const int x[]);
expansion expand_exp, expand_exp2, expand_expm1, expand_sinh, expand_cosh, expand_tanh, expand_log, expand_log2, expand_log10,
    expand_log1p, expand_asinh, expand_acosh, expand_atanh, expand_sin, expand_cos, expand_tan, expand_asin, expand_acos,
    expand_atan, expand_atan2, expand_erf, expand_erfc, expand_erfinv, expand_pow, expand_hypot, expand_rsqrt, expand_sigmoid;

/* These are of f64; f32 is rounded from them. */
expansion expand_lgamma, expand_gamma, expand_digamma, expand_trigamma, expand_sinc, expand_erfcx, expand_erfcinv, expand_ndtr,
    expand_ndtri, expand_log_ndtr, expand_log1mexp, expand_logit, expand_xlogy, expand_xlog1py, expand_i0, expand_i0e, expand_i1,
    expand_i1e, expand_j0, expand_j1, expand_zeta, expand_polygamma,
    expand_beta, expand_betaln, expand_gammainc, expand_gammaincc, expand_gammainc_da, expand_betainc, expand_betainc_da,
    expand_gammaincinv, expand_gammainccinv, expand_betaincinv, expand_iv, expand_ive, expand_jv, expand_kv, expand_kve,
    expand_owens_t;

/* What several of them need. */
int whole_of(struct here, int x, double times, int bias, int *t); /* n = rint(times x); *t holds n + bias in its low bits */
int scale_of(struct here, int biased);                            /* 2^(biased - bias of the exponent), from the low bits */
struct two exp_of(struct here, struct two x, int *scale_a, int *scale_b); /* e^x = value * *scale_a * *scale_b */
struct two long_log(struct here, int x);   /* log x of a positive f64, to 65 bits */
#define LOG_STEP ((double)0.693147182f * 0x1p-23)
int log_parts(struct here, int x, int *k); /* of an f32, positive and normal: log x = *k LOG_STEP + what is given, which is small */
int log_split(struct here, int x, int *k); /* x = 2^k (1 + m), x positive and normal: m */

#endif
