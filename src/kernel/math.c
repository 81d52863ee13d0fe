/* math.c -- exp, log, log1p and tanh, written once in core instructions, so that every back end gives the same bits.
 *
 * NaN goes in and comes out: numbers are clamped by min and max, where NaN wins, and scaled by multiplication, never by
 * adding to the exponent of a value that may be NaN. No tables, no branches; each function is one straight line. The
 * polynomials are Chebyshev fits; errors in ulp are asserted by test/kir_math.c. */
#include "kernel/math.h"
#include <math.h>
#include <string.h>

/* ---- Shorthand ------------------------------------------------------------------------------------------------------ */

struct here { struct kir_builder *b; weft_dtype f, i; }; /* f: the float dtype at work; i: integers of its width */

static struct here here_for(struct kir_builder *b, int x) {
  weft_dtype f = (weft_dtype)b->k->vals[x].dtype;
  return (struct here){ b, f, f == WEFT_F32 ? WEFT_U32 : WEFT_U64 };
}

static int number(struct here h, double d) { /* d is a number of dtype f, exactly */
  float s = (float)d;
  uint32_t narrow;
  uint64_t wide;
  memcpy(&narrow, &s, sizeof s);
  memcpy(&wide, &d, sizeof d);
  return kir_lit(h.b->k, h.f, h.f == WEFT_F32 ? narrow : wide);
}

static int integer(struct here h, uint64_t bits) { return kir_lit(h.b->k, h.i, bits); }
static int as_bits(struct here h, int x) { return kir_bits(h.b, h.i, x); }
static int as_float(struct here h, int x) { return kir_bits(h.b, h.f, x); }
static int add(struct here h, int x, int y) { return kir_op2(h.b, KIR_ADD, x, y); }
static int sub(struct here h, int x, int y) { return kir_op2(h.b, KIR_SUB, x, y); }
static int mul(struct here h, int x, int y) { return kir_op2(h.b, KIR_MUL, x, y); }
static int quotient(struct here h, int x, int y) { return kir_op2(h.b, KIR_DIV, x, y); }
static int muladd(struct here h, int x, int y, int z) { return kir_op3(h.b, KIR_FMA, x, y, z); }
static int either(struct here h, int cond, int x, int y) { return kir_op3(h.b, KIR_SELECT, cond, x, y); }
static int op(struct here h, enum kir_op o, int x, int y) { return kir_op2(h.b, o, x, y); }

/* c[0] x^(n-1) + .. + c[n-1] */
static int polynomial(struct here h, int x, int n, const double c[]) {
  int r = number(h, c[0]);
  for (int i = 1; i < n; i++) r = muladd(h, r, x, number(h, c[i]));
  return r;
}

/* ---- exp: x = n ln 2 + f, |f| <= ln 2 / 2; e^x = 2^n (1 + f + f^2 q(f)) ----------------------------------------------- */

struct exp_constants {
  double low, high;        /* beyond these the result is 0 or inf */
  double magic;            /* 1.5 * 2^(bits of the fraction) + bias: adding it rounds to an integer, kept in the low bits */
  double half_magic;       /* the same with half the bias */
  double ln2_high, ln2_low; /* n * ln2_high is exact */
  int fraction, n_q;
  double q[11];
};

/* magic carries twice the exponent's bias: the low bits of t hold n + 2 bias, whose halves are the biased exponents of
 * two scales whose product is 2^n, for n beyond the exponents of the dtype. */
static const struct exp_constants exp_f32 = {
  -104, 89, 0x1.8p23 + 254, 0x1.8p23 + 127, 0x1.62e4p-1, 0x1.7f7d1cp-20, 23, 5,
  { 0x1.6d127ep-10, 0x1.120ce4p-7, 0x1.555518p-5, 0x1.5554dcp-3, 0.5 } };
static const struct exp_constants exp_f64 = {
  -746, 710, 0x1.8p52 + 2046, 0x1.8p52 + 1023, 0x1.62e42fefa3p-1, 0x1.3de6af278ece6p-42, 52, 11,
  { 0x1.1f7340dbc337ep-29, 0x1.af4e554377204p-26, 0x1.27e4db46cddd1p-22, 0x1.71de01fdbf9cap-19, 0x1.a01a01a6e1e2ap-16,
    0x1.a01a01abf85abp-13, 0x1.6c16c16c162c3p-10, 0x1.11111111100bep-7, 0x1.5555555555556p-5, 0x1.5555555555557p-3, 0.5 } };

static const struct exp_constants *constants(struct here h) { return h.f == WEFT_F32 ? &exp_f32 : &exp_f64; }

static double log2_e(struct here h) { return h.f == WEFT_F32 ? 0x1.715476p0 : 0x1.71547652b82fep0; }

/* f, the rest of x after n = rint(x / ln 2); *t holds n + bias in its low bits */
static int reduce(struct here h, int x, double magic, int *t) {
  const struct exp_constants *c = constants(h);
  *t = muladd(h, x, number(h, log2_e(h)), number(h, magic));
  int n = sub(h, *t, number(h, magic));
  return muladd(h, n, number(h, -c->ln2_low), muladd(h, n, number(h, -c->ln2_high), x));
}

static int scale_of(struct here h, int biased) { /* 2^(biased - bias), from the low bits */
  return as_float(h, op(h, KIR_SHL, biased, integer(h, (uint64_t)constants(h)->fraction)));
}

static int expand_exp(struct here h, int x) {
  const struct exp_constants *c = constants(h);
  int t, one = number(h, 1);
  int clamped = op(h, KIR_MAX, op(h, KIR_MIN, x, number(h, c->high)), number(h, c->low));
  int f = reduce(h, clamped, c->magic, &t);
  int q = polynomial(h, f, c->n_q, c->q);
  int r = muladd(h, muladd(h, q, f, one), f, one);
  int n = as_bits(h, t), half = op(h, KIR_SHR, n, integer(h, 1));
  int most = mul(h, r, scale_of(h, half));
  return mul(h, most, scale_of(h, sub(h, n, half)));
}

/* ---- tanh |x| = e / (e + 2) with e = e^(2|x|) - 1 = 2^n p + (2^n - 1), p = f + f^2 q(f) --------------------------------
 * Where e is small, h - h r with h = e / 2 and r = e / (e + 2) is closer: the rounding of e + 2 counts little. */

static int expand_tanh(struct here h, int x) {
  const struct exp_constants *c = constants(h);
  int t, size = op(h, KIR_MIN, kir_op1(h.b, KIR_ABS, x), number(h, h.f == WEFT_F32 ? 10 : 20)); /* there it is 1 */
  int f = reduce(h, add(h, size, size), c->half_magic, &t);
  int p = muladd(h, mul(h, f, f), polynomial(h, f, c->n_q, c->q), f);
  int s = scale_of(h, as_bits(h, t));
  int e = muladd(h, s, p, sub(h, s, number(h, 1)));
  int r = quotient(h, e, add(h, e, number(h, 2))), half = mul(h, e, number(h, 0.5));
  int close = muladd(h, kir_op1(h.b, KIR_NEG, half), r, half);
  r = either(h, op(h, KIR_LT, e, number(h, 0.75)), close, r);
  uint64_t sign = h.f == WEFT_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
  return as_float(h, op(h, KIR_OR, as_bits(h, r), op(h, KIR_AND, as_bits(h, x), integer(h, sign))));
}

/* ---- log: x = 2^k (1 + m), 1 + m near 1 ------------------------------------------------------------------------------- */

/* What the polynomial cannot know: r where 0 < x < inf; inf, NaN pass; -inf at 0; NaN below. */
static int at_the_ends(struct here h, int x, int r) {
  int zero = number(h, 0);
  r = either(h, op(h, KIR_LT, x, number(h, INFINITY)), r, x);
  r = either(h, op(h, KIR_LT, x, zero), number(h, NAN), r);
  return either(h, op(h, KIR_EQ, x, zero), number(h, -INFINITY), r);
}

struct split { int k, m, one_m; }; /* k as a float; m; 1 + m */

/* x > 0, scaled if it is a denormal: 2/3 <= 1 + m < 4/3 in f32, sqrt(1/2) <= 1 + m < sqrt(2) in f64 */
static struct split split(struct here h, int x, int k_of_scale) {
  bool is_narrow = h.f == WEFT_F32;
  int bits = as_bits(h, x), least = integer(h, is_narrow ? 0x3f2aaaab : 0x3fe6a09e667f3bcd);
  int exponent = op(h, KIR_AND, sub(h, bits, least), integer(h, is_narrow ? 0xff800000 : 0xfff0000000000000));
  int one_m = as_float(h, sub(h, bits, exponent)), k;
  if (is_narrow) {
    k = muladd(h, kir_cast(h.b, WEFT_F32, kir_bits(h.b, WEFT_I32, exponent)), number(h, 0x1p-23), k_of_scale);
  } else { /* k + 1023 in the low bits of 2^52; no machine converts vectors of 64-bit integers quickly */
    int biased = op(h, KIR_SHR, add(h, exponent, integer(h, 0x3ff0000000000000)), integer(h, 52));
    int wide = as_float(h, op(h, KIR_OR, biased, integer(h, 0x4330000000000000)));
    k = sub(h, wide, k_of_scale);
  }
  return (struct split){ k, sub(h, one_m, number(h, 1)), one_m };
}

/* log(1 + m) + k ln 2 */
static int sum_f32(struct here h, int m, int k) {
  int s = mul(h, m, m);
  int odd = polynomial(h, s, 3, (double[]){ 0.140869141f, 0.139814854f, 0.200120345f });
  int even = polynomial(h, s, 4, (double[]){ -0.130310059f, -0.121483512f, -0.166846126f, -0.249996200f });
  int r = muladd(h, odd, m, even);
  r = muladd(h, r, m, number(h, 0.333331972f));
  r = muladd(h, muladd(h, r, m, number(h, -0.5)), s, m);
  return muladd(h, k, number(h, 0.693147182f), r);
}

/* With s = m / (2 + m), log(1 + m) = 2 s + s R(s^2) = m - (m^2/2 - s (m^2/2 + R)); c is added to the sum.
 * k ln2_high is exact, and everything small is added up before it. */
static int sum_f64(struct here h, int m, int k, int c) {
  static const double r_of[] = { 0x1.2b9f7fb3de73fp-3, 0x1.39f8963ccbdc2p-3, 0x1.7462e17b4cdd0p-3, 0x1.c71c6247410e3p-3,
                                 0x1.2492492e6dfddp-2, 0x1.9999999994e76p-2, 0x1.5555555555558p-1 };
  int s = quotient(h, m, add(h, m, number(h, 2))), z = mul(h, s, s);
  int r = mul(h, z, polynomial(h, z, 7, r_of));
  int half = mul(h, mul(h, m, number(h, 0.5)), m);
  int tail = muladd(h, s, add(h, half, r), mul(h, k, number(h, exp_f64.ln2_low)));
  if (c) tail = add(h, tail, c);
  return muladd(h, k, number(h, exp_f64.ln2_high), sub(h, m, sub(h, half, tail)));
}

static int expand_log(struct here h, int x) {
  bool is_narrow = h.f == WEFT_F32;
  double up = is_narrow ? 0x1p23 : 0x1p54, k_plain = is_narrow ? 0 : 0x1p52 + 1023;
  double k_up = is_narrow ? -23 : k_plain + 54;
  int is_tiny = op(h, KIR_LT, x, number(h, is_narrow ? 0x1p-126 : 0x1p-1022));
  int scaled = either(h, is_tiny, mul(h, x, number(h, up)), x);
  struct split p = split(h, scaled, either(h, is_tiny, number(h, k_up), number(h, k_plain)));
  return at_the_ends(h, x, is_narrow ? sum_f32(h, p.m, p.k) : sum_f64(h, p.m, p.k, 0));
}

/* ---- log1p: u = 1 + x loses x - (u - 1); that over u is put back after the reduction of u ----------------------------- */

static int expand_log1p(struct here h, int x) {
  bool is_narrow = h.f == WEFT_F32;
  int one = number(h, 1), u = add(h, x, one), lost = sub(h, x, sub(h, u, one)), c = quotient(h, lost, u);
  struct split p = split(h, u, number(h, is_narrow ? 0 : 0x1p52 + 1023));
  int r = is_narrow ? sum_f32(h, muladd(h, c, p.one_m, p.m), p.k) : sum_f64(h, p.m, p.k, c);
  r = at_the_ends(h, u, r);
  return either(h, op(h, KIR_EQ, x, number(h, 0)), x, r); /* -0 stays */
}

int math_expand(struct kir_builder *b, enum kir_op o, int x) {
  struct here h = here_for(b, x);
  switch ((int)o) {
  case KIR_EXP: return expand_exp(h, x);
  case KIR_LOG: return expand_log(h, x);
  case KIR_LOG1P: return expand_log1p(h, x);
  case KIR_TANH: return expand_tanh(h, x);
  }
  return x;
}
