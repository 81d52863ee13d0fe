/* log.c -- logarithms and the inverse hyperbolic functions, which are logarithms of sums.
 *
 * x = 2^k (1 + m), 1 + m near 1. With s = m / (2 + m), log(1 + m) = 2 s + s z R(z), z = s^2, which is m - (m^2/2 - s (m^2/2 +
 * z R)): m and m^2/2 are subtracted exactly, and what is small is added up before it meets what is large. */
#include "kernel/expansion.h"

/* What the polynomial cannot know: r where 0 < x < inf; inf, NaN pass; -inf at 0; NaN below. */
static int at_the_ends(struct here h, int x, int r) {
  int zero = number(h, 0);
  r = either(h, less(h, x, number(h, INFINITY)), r, x);
  r = either(h, less(h, x, zero), number(h, NAN), r);
  return either(h, op(h, KIR_EQ, x, zero), number(h, -INFINITY), r);
}

struct mantissa_split { int k, m; double unit; }; /* k as a float, times unit */

/* bits: of x > 0, normal: 2/3 <= 1 + m < 4/3 in f32, sqrt(1/2) <= 1 + m < sqrt(2) in f64. k_less is taken off k; 0: nothing. */
static struct mantissa_split split(struct here h, int bits, int k_less) {
  int least = integer(h, is_narrow(h) ? 0x3f2aaaab : 0x3fe6a09e667f3bcd);
  int exponent = op(h, KIR_AND, sub(h, bits, least), integer(h, is_narrow(h) ? 0xff800000 : 0xfff0000000000000));
  int one_m = as_float(h, sub(h, bits, exponent)), k;
  double unit = 1;
  if (is_narrow(h)) {
    k = kir_cast(h.b, WEFT_F32, kir_bits(h.b, WEFT_I32, exponent));
    if (k_less) k = muladd(h, k, number(h, 0x1p-23), negative(h, k_less));
    else unit = 0x1p-23;
  } else { /* k + 1023 in the low bits of 2^52; no machine converts vectors of 64-bit integers quickly */
    int biased = op(h, KIR_SHR, add(h, exponent, integer(h, 0x3ff0000000000000)), integer(h, 52));
    int wide = as_float(h, op(h, KIR_OR, biased, integer(h, 0x4330000000000000)));
    k = sub(h, wide, k_less ? add(h, k_less, number(h, 0x1p52 + 1023)) : number(h, 0x1p52 + 1023));
  }
  return (struct mantissa_split){ k, sub(h, one_m, number(h, 1)), unit };
}

static int exponent_of(struct here h, struct mantissa_split p) { return p.unit == 1 ? p.k : mul(h, p.k, number(h, p.unit)); }

/* log(1 + m) + c */
static struct two log_1m(struct here h, int m, int c) {
  static const double r_f32[] = { 0x1.e30524p-3, 0x1.24387ap-2, 0x1.999a7cp-2, 0x1.555554p-1 };
  static const double r_f64[] = { 0x1.0f7320058973ap-3, 0x1.0f5b06e746dafp-3, 0x1.3b20bf6fbe365p-3, 0x1.745cddc1ca088p-3,
                                  0x1.c71c725a6e553p-3, 0x1.249249242a09fp-2, 0x1.9999999999e0ep-2, 0x1.5555555555555p-1 };
  int s = quotient(h, m, add(h, m, number(h, 2))), z = mul(h, s, s);
  int r = is_narrow(h) ? polynomial(h, z, 4, r_f32) : polynomial(h, z, 8, r_f64);
  struct two half = product(h, mul(h, m, number(h, 0.5)), m), a = sum(h, m, negative(h, half.high));
  int low = muladd(h, s, muladd(h, z, r, half.high), sub(h, a.low, half.low));
  return (struct two){ a.high, c ? add(h, low, c) : low };
}

int log_split(struct here h, int x, int *k) {
  struct mantissa_split p = split(h, as_bits(h, x), 0);
  *k = exponent_of(h, p);
  return p.m;
}

/* The logarithm to another base: times its constant. k times high is exact. */
struct base { double high, low, k_high, k_low; };
static const struct base e_f32 = { 1, 0, 0x1.62e4p-1, 0x1.7f7d1cp-20 },
                         e_f64 = { 1, 0, 0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45 },
                         two_f32 = { 0x1.715476p0, 0x1.4ae0cp-26, 1, 0 },
                         two_f64 = { 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56, 1, 0 },
                         ten_f32 = { 0x1.bcb7b2p-2, -0x1.5b235ep-27, 0x1.344p-2, 0x1.3509f8p-18 },
                         ten_f64 = { 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f78p-2, 0x1.fef311f12b358p-46 };

static int in_base(struct here h, struct two l, int k, const struct base *b) {
  if (b->high != 1) {
    struct two p = product(h, l.high, number(h, b->high));
    p.low = muladd(h, l.low, number(h, b->high), muladd(h, l.high, number(h, b->low), p.low));
    l = p;
  }
  struct two s = sum(h, b->k_high == 1 ? k : mul(h, k, number(h, b->k_high)), l.high);
  int low = b->k_low != 0 ? muladd(h, k, number(h, b->k_low), l.low) : l.low;
  return add(h, s.high, add(h, s.low, low));
}

/* x, scaled if it is a denormal */
static struct mantissa_split split_any(struct here h, int x) {
  int is_tiny = less(h, x, VALUE(h, 0x1p-126, 0x1p-1022));
  int scaled = either(h, is_tiny, mul(h, x, VALUE(h, 0x1p23, 0x1p54)), x);
  return split(h, as_bits(h, scaled), either(h, is_tiny, VALUE(h, 23, 54), number(h, 0)));
}

/* log(1 + m), shorter, for the most frequent of them */
static int log_1m_f32(struct here h, int m) {
  int s = mul(h, m, m);
  int odd = polynomial(h, s, 3, (double[]){ 0.140869141f, 0.139814854f, 0.200120345f });
  int even = polynomial(h, s, 4, (double[]){ -0.130310059f, -0.121483512f, -0.166846126f, -0.249996200f });
  int r = muladd(h, muladd(h, odd, m, even), m, number(h, 0.333331972f));
  return muladd(h, muladd(h, r, m, number(h, -0.5)), s, m);
}

static int log_f32(struct here h, struct mantissa_split p) {
  return muladd(h, p.k, number(h, (double)0.693147182f * p.unit), log_1m_f32(h, p.m));
}

int log_parts(struct here h, int x, int *k) {
  struct mantissa_split p = split(h, as_bits(h, x), 0);
  *k = p.k;
  return log_1m_f32(h, p.m);
}

static int log_of(struct here h, struct mantissa_split p, const struct base *b) {
  return b == &e_f32 ? log_f32(h, p) : in_base(h, log_1m(h, p.m, 0), exponent_of(h, p), b);
}

static int log_any(struct here h, int x, const struct base *b) { return at_the_ends(h, x, log_of(h, split_any(h, x), b)); }

/* x is not positive, normal and finite: moved to the least integers, such numbers are below all others. */
static int is_odd_one(struct here h, int bits) {
  weft_dtype i = is_narrow(h) ? WEFT_I32 : WEFT_I64;
  int moved = kir_bits(h.b, i, add(h, bits, integer(h, is_narrow(h) ? 0x7f800000 : 0x7ff0000000000000)));
  return less(h, kir_lit(h.b->k, i, is_narrow(h) ? 0xfeffffff : 0xffdfffffffffffff), moved);
}

static int logarithm(struct here h, int x, const struct base *b) {
  if (!in_lanes(h)) return log_any(h, x, b); /* the same bits */
  int bits = as_bits(h, x), is_rare = is_odd_one(h, bits), y = log_of(h, split(h, bits, 0), b);
  rarely(h, is_rare);
  return usually(h, is_rare, log_any(h, x, b), y);
}

int expand_log(struct here h, const int x[]) { return logarithm(h, x[0], is_narrow(h) ? &e_f32 : &e_f64); }
int expand_log2(struct here h, const int x[]) { return logarithm(h, x[0], is_narrow(h) ? &two_f32 : &two_f64); }
int expand_log10(struct here h, const int x[]) { return logarithm(h, x[0], is_narrow(h) ? &ten_f32 : &ten_f64); }

/* ---- log(u + low): low / u is added after the reduction of u ----------------------------------------------------------- */

static int log_sum(struct here h, int u, int low, int k_more) {
  struct mantissa_split p = split(h, as_bits(h, u), k_more);
  return in_base(h, log_1m(h, p.m, quotient(h, low, u)), p.k, is_narrow(h) ? &e_f32 : &e_f64);
}

int expand_log1p(struct here h, const int x[]) {
  struct two u = sum(h, number(h, 1), x[0]);
  int r = at_the_ends(h, u.high, log_sum(h, u.high, u.low, number(h, 0)));
  return either(h, op(h, KIR_EQ, x[0], number(h, 0)), x[0], r); /* -0 stays */
}

/* a + s with s = sqrt(a^2 + sign), or 2 a where a^2 is too large to matter */
static int log_of_arc(struct here h, int a, double sign, bool s_is_larger) {
  int is_big = less(h, VALUE(h, 0x1p60, 0x1p500), a), in = either(h, is_big, number(h, 2), a), zero = number(h, 0);
  struct two square = product(h, in, in);
  struct two y = s_is_larger ? sum(h, number(h, sign), square.high) : sum(h, square.high, number(h, sign));
  struct two s = root_of(h, (struct two){ y.high, add(h, y.low, square.low) }, is_narrow(h) ? 0x1p-60 : 0x1p-500);
  struct two u = s_is_larger ? sum(h, s.high, in) : sum(h, in, s.high);
  int low = either(h, is_big, zero, add(h, u.low, s.low)), high = either(h, is_big, a, u.high);
  return at_the_ends(h, a, log_sum(h, high, low, either(h, is_big, number(h, -1), zero)));
}

int expand_asinh(struct here h, const int x[]) {
  int a = size_of(h, x[0]), r = log_of_arc(h, a, 1, true);
  return with_sign(h, either(h, op(h, KIR_EQ, a, number(h, 0)), a, r), x[0]);
}

int expand_acosh(struct here h, const int x[]) {
  int one = number(h, 1), r = log_of_arc(h, op(h, KIR_MAX, x[0], one), -1, false);
  return either(h, less(h, x[0], one), number(h, NAN), r);
}

/* log(1 + q) / 2 with q = 2 a / (1 - a) */
int expand_atanh(struct here h, const int x[]) {
  int a = size_of(h, x[0]), one = number(h, 1), twice = add(h, a, a);
  struct two d = sum(h, one, negative(h, a));
  int q = quotient(h, twice, d.high), left = mulsub(h, q, d.low, mulsub(h, q, d.high, twice));
  struct two u = sum(h, one, q);
  int r = mul(h, log_sum(h, u.high, add(h, u.low, quotient(h, left, d.high)), number(h, 0)), number(h, 0.5));
  r = either(h, less(h, a, one), r, either(h, op(h, KIR_EQ, a, one), number(h, INFINITY), number(h, NAN)));
  return with_sign(h, r, x[0]);
}

/* ---- Logarithms of probabilities, of f64 alone: f32 is rounded from them --------------------------------------------------- */

/* log(1 - e^x), x <= 0: log(-expm1 x) near 0, log1p(-e^x) far below */
int expand_log1mexp(struct here h, const int x[]) {
  int less_near = negative(h, expand_expm1(h, x)), near = expand_log(h, &less_near);
  int less_far = negative(h, expand_exp(h, x)), far = expand_log1p(h, &less_far);
  return either(h, less(h, x[0], number(h, -0x1.62e42fefa39efp-1)), far, near);
}

int expand_logit(struct here h, const int x[]) {
  int odds = quotient(h, x[0], sub(h, number(h, 1), x[0]));
  return expand_log(h, &odds);
}

/* x log y, 0 where x is, unless y is NaN */
static int times_log(struct here h, const int x[], int log_y) {
  int zero = number(h, 0), is_0 = op(h, KIR_AND, op(h, KIR_EQ, x[0], zero), op(h, KIR_EQ, x[1], x[1]));
  return either(h, is_0, zero, mul(h, x[0], log_y));
}

int expand_xlogy(struct here h, const int x[]) { return times_log(h, x, expand_log(h, &x[1])); }
int expand_xlog1py(struct here h, const int x[]) { return times_log(h, x, expand_log1p(h, &x[1])); }
