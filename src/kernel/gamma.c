/* gamma.c -- the gamma function, its logarithm and the derivatives of that. In f64 alone: f32 is rounded from it.
 *
 * From 8 on Stirling's series. Below, x = n + u with 0 <= u < 1, Gamma(x) = (x - 1) .. (x - n + 1) Gamma(1 + u), and Gamma(x) =
 * Gamma(1 + x) / x below 1. Below 0, Gamma(-y) = -pi / (y sin(pi y) Gamma(y)): there y sin(pi y), with the sine's argument taken
 * modulo 2 exactly, knows the poles. */
#include "kernel/gamma.h"

static int floor_of(struct here h, int x) { return kir_op1(h.b, KIR_FLOOR, x); }

/* ---- Sines of multiples of pi --------------------------------------------------------------------------------------------- */

/* x = n + r, |r| <= 1/2, exactly; of infinities r is NaN */
struct turns turns_of(struct here h, int x) {
  int n = kir_op1(h.b, KIR_RINT, x);
  return (struct turns){ n, sub(h, x, n) };
}

/* x or, where n is odd, -x. A float from 2^53 on is even. */
int signed_by(struct here h, int n, int x) {
  int half = mul(h, n, number(h, 0.5)), is_odd = op(h, KIR_NE, kir_op1(h.b, KIR_RINT, half), half);
  return either(h, is_odd, negative(h, x), x);
}

/* sin(pi r) / r, |r| <= 1/2 */
int sine_over(struct here h, int r) {
  static const double s[] = { 0x1.9d462020fcc78p-21, -0x1.6f7acdb8f658p-16, 0x1.e8f3675ee37ddp-12, -0x1.e3074dfaf87afp-8,
                              0x1.5078348551854p-4, -0x1.32d2cce627c86p-1, 0x1.466bc6775aa7dp1, -0x1.4abbce625be52p2,
                              0x1.921fb54442d18p1 };
  return polynomial(h, mul(h, r, r), 9, s);
}

static int cosine(struct here h, int r) { /* of pi r */
  static const double c[] = { -0x1.2084dd432a1bep-23, 0x1.209de0f1701fdp-18, -0x1.b6e1921f719a3p-14, 0x1.f9d3881e49dfdp-10,
                              -0x1.a6d1f29e543bcp-6, 0x1.e1f5068913c52p-3, -0x1.55d3c7e3cbf5ep0, 0x1.03c1f081b5ac3p2,
                              -0x1.3bd3cc9be45dep2, 0x1p0 };
  return polynomial(h, mul(h, r, r), 10, c);
}

/* ---- Between 0 and 8 ------------------------------------------------------------------------------------------------------ */

struct near { int n, u; }; /* x = n + u, the integer below */

static struct near near_of(struct here h, int x) {
  int in = op(h, KIR_MIN, x, number(h, 0x1.fffffffffffffp2)), n = floor_of(h, in);
  return (struct near){ n, sub(h, in, n) };
}

/* log Gamma(1 + u) = u (u - 1) L(u - 1/2), 0 <= u < 1: it is 0 at both ends. */
int log_gamma_1u(struct here h, int u) {
  static const double l[] = { 0x1.8ca55ab6b8718p-17, -0x1.36d84fee907ffp-16, 0x1.c7d009a4fae3ap-17, -0x1.6880fac68f031p-16,
                              0x1.672b94917149fp-15, -0x1.1cf3272629995p-14, 0x1.ba26ce28a34bp-14, -0x1.61854b057e6e9p-13,
                              0x1.1c7b46046a59cp-12, -0x1.cb502b140a127p-12, 0x1.750aa27fe4301p-11, -0x1.313e5323120b7p-10,
                              0x1.f814b951d538bp-10, -0x1.a5035375acabep-9, 0x1.64f0664fb6518p-8, -0x1.34dbda128eee5p-7,
                              0x1.133423527ae27p-6, -0x1.007aa83cef9abp-5, 0x1.01af62a2929e1p-4, -0x1.2aed059bd6085p-3,
                              0x1.eeb95b094c191p-2 };
  int s = sub(h, u, number(h, 0.5));
  return mul(h, mul(h, u, sub(h, u, number(h, 1))), polynomial(h, s, 21, l));
}

/* 1 / Gamma(1 + u) */
static int over_gamma_1u(struct here h, int u) {
  static const double r[] = { 0x1.21263fe0d7581p-26, -0x1.82a4ea6702998p-24, 0x1.f2ae41d5b51adp-25, 0x1.2172c2ddcbee9p-19,
                              -0x1.d24cdaed928e6p-17, 0x1.a96374da02946p-16, 0x1.3f84605541cc3p-13, -0x1.232bd852d67ecp-10,
                              0x1.15f7f0609c138p-9, 0x1.b16203e548491p-8, -0x1.5955cc3972186p-5, 0x1.a18540be33653p-5,
                              0x1.669be41a93892p-3, -0x1.0da5a671c048cp-1, -0x1.514d3d90584b3p-5, 0x1.20dd750429b6dp0 };
  return polynomial(h, sub(h, u, number(h, 0.5)), 16, r);
}

/* (x - 1) .. (x - n + 1), of which there are none below 2 */
static struct two falling(struct here h, int x, int n) {
  int one = number(h, 1);
  struct two p = { one, number(h, 0) };
  for (int k = 1; k < 7; k++) {
    int f = either(h, less(h, number(h, k), n), sub(h, x, number(h, k)), one);
    struct two q = product(h, p.high, f);
    p = (struct two){ q.high, k == 1 ? p.low : muladd(h, p.low, f, q.low) };
  }
  return p;
}

/* ---- From 8 on ------------------------------------------------------------------------------------------------------------ */

/* log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), over = 1 / x */
int stirling(struct here h, int over) {
  static const double s[] = { 0x1.4bffc9d8b455bp-8, -0x1.ef8d748aeb0f2p-10, 0x1.b92c33f9445e5p-11, -0x1.38134d4f8896fp-11,
                              0x1.a01a017dcf9e1p-11, -0x1.6c16c16c149f4p-9, 0x1.5555555555555p-4 };
  return mul(h, over, polynomial(h, mul(h, over, over), 7, s));
}

/* ---- log |Gamma| ---------------------------------------------------------------------------------------------------------- */

struct log_gamma { int value, poly; }; /* poly, below 1: log Gamma(1 + x) */

static struct log_gamma log_gamma_above(struct here h, int x) { /* x >= 0 */
  int one = number(h, 1), is_near = less(h, x, number(h, 8)), is_low = less(h, x, one);
  struct near p = near_of(h, x);
  int f = falling(h, x, p.n).high, log_of = either(h, is_near, either(h, is_low, x, f), x), l = expand_log(h, &log_of);
  int poly = log_gamma_1u(h, p.u), near = add(h, poly, either(h, is_low, negative(h, l), l));
  int more = add(h, number(h, 0x1.acfe390c97d69p-2), stirling(h, quotient(h, one, x))); /* log(2 pi) / 2 - 1/2 */
  int far = muladd(h, sub(h, x, number(h, 0.5)), sub(h, l, one), more);
  return (struct log_gamma){ either(h, is_near, near, far), poly };
}

/* Between -3 and -2 log |Gamma| has a minimum of -0.12, where the difference of two logarithms is not good enough;
 * s = x + 2.59375 */
static int log_gamma_dip(struct here h, int s) {
  static const double dip[] = { -0x1.775ac7301a601p21, 0x1.563316a4049c9p19, -0x1.90bd92fcb514ap17, 0x1.bb414fd56a67ap16,
                                -0x1.864a804c1fa39p15, 0x1.50217164fbe03p14, -0x1.22727abfbc1f6p13, 0x1.0475e8a868074p12,
                                -0x1.c1e1a7d68c442p10, 0x1.a1897e6d7fcf6p9, -0x1.648a7003d4fe1p8, 0x1.612dd5603827bp7,
                                -0x1.22f7d043aa51bp6, 0x1.474d5e0803e96p5, -0x1.ec3ce94acd491p3, 0x1.69e190d2c785fp3,
                                -0x1.b868e0ce9e0cbp1, 0x1.4ea2123b21da9p2, 0x1.72030fdee3488p-3, -0x1.df97311d4f4d8p-4 };
  return polynomial(h, s, 20, dip);
}

/* Far below 0 the two logarithms are of one size; near a zero the result is exact to the last place of either. */
int expand_lgamma(struct here h, const int x[]) {
  int y = size_of(h, x[0]), one = number(h, 1), is_below = less(h, x[0], number(h, -0x1p-60));
  struct log_gamma l = log_gamma_above(h, y);
  rarely(h, is_below);
  struct turns t = turns_of(h, y);
  int sine = size_of(h, mul(h, t.r, sine_over(h, t.r))), is_low = less(h, y, one);
  int over = quotient(h, number(h, 0x1.921fb54442d18p1), mul(h, sine, either(h, is_low, one, y)));
  int below = sub(h, expand_log(h, &over), either(h, is_low, l.poly, l.value));
  int is_pole = op(h, KIR_OR, op(h, KIR_EQ, t.r, number(h, 0)), op(h, KIR_EQ, y, number(h, INFINITY)));
  below = either(h, is_pole, number(h, INFINITY), below);
  int dip = add(h, x[0], number(h, 2.59375)), is_dip = less(h, size_of(h, add(h, dip, number(h, 0.01))), number(h, 0.1));
  below = either(h, is_dip, log_gamma_dip(h, dip), below);
  return usually(h, is_below, below, l.value);
}

/* ---- Gamma ---------------------------------------------------------------------------------------------------------------- */

/* e^v: a logarithm of 700 leaves e^v no more than its low half can say, so v is a sum of two. */
static struct two log_gamma_far(struct here h, int x) {
  int w = sub(h, x, number(h, 0.5));
  struct two l = long_log(h, x), p = product(h, w, l.high), d = sum(h, p.high, negative(h, x));
  struct two s = sum(h, d.high, number(h, 0x1.d67f1c864beb5p-1)); /* log(2 pi) / 2 */
  int low = add(h, muladd(h, w, l.low, p.low), add(h, d.low, s.low));
  return sum(h, s.high, add(h, low, stirling(h, quotient(h, number(h, 1), x))));
}

int expand_gamma(struct here h, const int x[]) {
  int y = size_of(h, x[0]), one = number(h, 1), is_near = less(h, y, number(h, 8)), is_low = less(h, y, one);
  int is_below = less(h, x[0], number(h, 0)), a, b;
  struct near p = near_of(h, y);
  struct two f = falling(h, y, p.n);
  int r = over_gamma_1u(h, p.u), up = either(h, is_low, one, f.high), down = either(h, is_low, mul(h, x[0], r), r);
  int q = quotient(h, up, down), near = add(h, q, quotient(h, either(h, is_low, number(h, 0), f.low), down));
  near = either(h, less(h, near, number(h, INFINITY)), near, q);
  struct two v = log_gamma_far(h, op(h, KIR_MAX, op(h, KIR_MIN, y, number(h, 200)), number(h, 8)));
  v.high = either(h, is_below, negative(h, v.high), v.high), v.low = either(h, is_below, negative(h, v.low), v.low);
  struct two e = exp_of(h, v, &a, &b);
  int far = add(h, e.high, e.low), above = either(h, is_near, near, mul(h, mul(h, far, a), b));
  rarely(h, is_below);
  struct turns t = turns_of(h, y);
  int sine = signed_by(h, t.n, mul(h, t.r, sine_over(h, t.r))), less_pi = number(h, -0x1.921fb54442d18p1);
  int near_low = mul(h, sine, either(h, is_low, one, mul(h, y, f.high)));
  int near_below = quotient(h, mul(h, less_pi, r), near_low);
  int far_below = mul(h, mul(h, quotient(h, mul(h, less_pi, far), mul(h, y, sine)), a), b);
  int below = either(h, op(h, KIR_EQ, t.r, number(h, 0)), number(h, NAN), either(h, is_near, near_below, far_below));
  return usually(h, is_below, below, above);
}

/* ---- Digamma, the derivative of log Gamma, and trigamma, that of digamma ------------------------------------------------------
 * psi(x) = psi(x + 5) - 1/x - .. - 1/(x + 4) below 5; psi(-y) = psi(y) + 1/y + pi cot(pi y). */

/* 1/(x + 1) + .. + 1/(x + 4) with q = x (x + 5): (x + 1)(x + 4) = q + 4, (x + 2)(x + 3) = q + 6 */
static int four_over(struct here h, int x) {
  int q = muladd(h, x, x, mul(h, x, number(h, 5))), two = number(h, 2), up = muladd(h, q, two, number(h, 10));
  int down = mul(h, add(h, q, number(h, 4)), add(h, q, number(h, 6)));
  return quotient(h, mul(h, up, muladd(h, x, two, number(h, 5))), down);
}

int expand_digamma(struct here h, const int x[]) {
  static const double d[] = { 0x1.cc6b1a38c1a0ap-1, -0x1.4cd7b5ac330bcp-2, 0x1.44862b742c497p-4, -0x1.582128f973c01p-6,
                              0x1.f06889c29fd2p-8, -0x1.1110eb52b2e9dp-8, 0x1.041040df28355p-8, -0x1.111111110a0dbp-7,
                              0x1.5555555555554p-4 };
  int y = size_of(h, x[0]), zero = number(h, 0), one = number(h, 1);
  int is_near = less(h, y, number(h, 5)), is_below = less(h, x[0], zero);
  struct two up = sum(h, number(h, 5), y);
  int w = either(h, is_near, up.high, y), over = quotient(h, one, w), t = mul(h, over, over);
  int half_less = sub(h, number(h, 0.5), either(h, is_near, up.low, zero)); /* log(w + low) = log w + low / w */
  int rest = muladd(h, t, polynomial(h, t, 9, d), mul(h, over, half_less));
  int first = quotient(h, one, x[0]), four = either(h, is_near, four_over(h, op(h, KIR_MIN, y, number(h, 5))), zero);
  int most = sub(h, expand_log(h, &w), four), far = sub(h, most, rest);
  int above = sub(h, most, either(h, is_near, add(h, rest, first), rest));
  rarely(h, is_below);
  struct turns r = turns_of(h, y);
  int cotangent = quotient(h, cosine(h, r.r), mul(h, r.r, sine_over(h, r.r)));
  int below = muladd(h, cotangent, number(h, 0x1.921fb54442d18p1), either(h, is_near, far, sub(h, far, first)));
  below = either(h, op(h, KIR_EQ, r.r, zero), number(h, NAN), below);
  return usually(h, is_below, below, above);
}

/* 1/a^2 + 1/b^2 of what is not too large: one quotient for two */
static int two_squares(struct here h, int a, int b) {
  int aa = mul(h, a, a), bb = mul(h, b, b);
  return quotient(h, add(h, aa, bb), mul(h, aa, bb));
}

int expand_trigamma(struct here h, const int x[]) {
  static const double t[] = { 0x1.b7a5f47721ecbp-1, -0x1.f9d9c7216c73ap-3, 0x1.360bc3ac05fb3p-4, -0x1.11105c888595ep-5,
                              0x1.86186098270b1p-6, -0x1.11111110f37eep-5, 0x1.5555555555551p-3 };
  int y = size_of(h, x[0]), zero = number(h, 0), one = number(h, 1);
  int is_near = less(h, y, number(h, 8)), is_below = less(h, x[0], zero);
  int w = either(h, is_near, add(h, y, number(h, 8)), y), over = quotient(h, one, w), z = mul(h, over, over);
  int tail = muladd(h, mul(h, z, over), polynomial(h, z, 7, t), mul(h, z, number(h, 0.5)));
  int few = op(h, KIR_MIN, y, number(h, 8)), some = quotient(h, one, mul(h, add(h, few, one), add(h, few, one)));
  for (int k = 6; k > 1; k -= 2) some = add(h, two_squares(h, add(h, few, number(h, k)), add(h, few, number(h, k + 1))), some);
  int later = add(h, add(h, tail, over), either(h, is_near, some, zero)), first = quotient(h, one, mul(h, y, y));
  int above = either(h, is_near, add(h, later, first), later);
  rarely(h, is_below);
  struct turns r = turns_of(h, y);
  int c = quotient(h, number(h, 0x1.921fb54442d18p1), mul(h, r.r, sine_over(h, r.r)));
  int below = sub(h, mul(h, c, c), either(h, is_near, later, sub(h, later, first)));
  return usually(h, is_below, below, above);
}

/* sin(pi x) / (pi x) */
int expand_sinc(struct here h, const int x[]) {
  struct turns t = turns_of(h, x[0]);
  int y = mul(h, quotient(h, t.r, x[0]), mul(h, sine_over(h, t.r), number(h, 0x1.45f306dc9c883p-2)));
  return either(h, op(h, KIR_EQ, x[0], number(h, 0)), number(h, 1), signed_by(h, t.n, y));
}
