/* erf.c -- the error function, what it lacks to 1, and its inverse.
 *
 * Below 3/4 erf x = x (c + x^2 P(x^2)), c = 2 / sqrt pi. From 0.45 on erfc x = e^(-x^2) G(t) / (1 + 2 x) with t = (x - 4) /
 * (x + 4), for (1 + 2 x) e^(x^2) erfc x is nearly constant. So in f64 and for the inverse; erf and erfc of f32 have forms of their
 * own, a third as long, exact only where it would be missed. */
#include "kernel/expansion.h"

static struct two erf_small(struct here h, int x) {
  static const double p_f32[] = { -0x1.87c788p-17, 0x1.edc654p-14, -0x1.bf7eap-11, 0x1.565634p-8, -0x1.b82cb2p-6, 0x1.ce2f2p-4,
                                  -0x1.812746p-2 };
  static const double p_f64[] = { 0x1.3f663ae561bb5p-34, -0x1.489f8be7212e8p-30, 0x1.fbb4f16bef192p-27, -0x1.5f69f3672f42bp-23,
                                  0x1.b9e644b038ca4p-20, -0x1.f4d25797e15a3p-17, 0x1.f9a326dd557a6p-14, -0x1.c02db3ffcd0aap-11,
                                  0x1.565bcd0e6927ap-8, -0x1.b82ce31288b18p-6, 0x1.ce2f21a042be1p-4, -0x1.812746b0379e7p-2 };
  int z = mul(h, x, x), p = is_narrow(h) ? polynomial(h, z, 7, p_f32) : polynomial(h, z, 12, p_f64);
  struct two y = product(h, x, VALUE(h, 0x1.20dd76p0, 0x1.20dd750429b6dp0));
  int rest = muladd(h, z, p, VALUE(h, -0x1.f7ac92p-25, 0x1.1ae3a914fed8p-56));
  return (struct two){ y.high, muladd(h, x, rest, y.low) };
}

/* G(t), its last step exact */
static struct two nearly_constant(struct here h, int x) {
  static const double g_f32[] = { 0x1.15004p-13, -0x1.feb99p-13, -0x1.909dacp-11, 0x1.4af60cp-8, -0x1.094a12p-6, 0x1.3073a6p-5,
                                  -0x1.0fb1a6p-4, 0x1.7fee3cp-4, -0x1.9ddb0cp-4, 0x1.16eceep-4, 0x1.f7f5dap-7, -0x1.1df1aep-3 };
  static const double g_f64[] = { -0x1.1a644ea880d13p-32, 0x1.7d5586e3d5118p-30, 0x1.c36c43f89b26p-29, -0x1.ea402d734ea6ep-27,
                                  -0x1.6983d2e5eeec5p-26, 0x1.d834e1014151p-24, 0x1.50284dbf4b32ap-24, -0x1.baf08a96bfc1ap-21,
                                  0x1.38b60fbb8577cp-22, 0x1.7f26402bbf91bp-18, -0x1.78827662f582dp-17, -0x1.99590dd7225d7p-16,
                                  0x1.3be0361809287p-13, -0x1.a1df26e130a1bp-13, -0x1.8d4a99ae5ae5bp-11, 0x1.49c67287af036p-8,
                                  -0x1.09623885333a5p-6, 0x1.3079edf67ef2cp-5, -0x1.0fb06dfe48fd8p-4, 0x1.7fee004e12684p-4,
                                  -0x1.9ddb23c3e90ep-4, 0x1.16ecefcfa538fp-4, 0x1.f7f5df66fd7bap-7, -0x1.1df1ad154a28ep-3 };
  int four = number(h, 4), top = sub(h, x, four), t = quotient(h, top, add(h, x, four));
  int g = is_narrow(h) ? polynomial(h, t, 12, g_f32) : polynomial(h, t, 24, g_f64);
  return sum(h, VALUE(h, 0x1.3ba592p0, 0x1.3ba5916e9fd7fp0), mul(h, t, g));
}

struct scaled { struct two value; int a, b; struct two exp; }; /* value a b; exp a b = e^(-x^2) */

/* e^(x^2) erfc x, x >= 0.45, up to 30 */
static struct two erfcx_large(struct here h, int x) {
  struct two g = nearly_constant(h, x), d = sum(h, add(h, x, x), number(h, 1));
  int over = quotient(h, number(h, 1), d.high), q = mul(h, g.high, over);
  int left = add(h, mulsub(h, q, d.high, g.high), mulsub(h, q, d.low, g.low));
  return (struct two){ q, mul(h, left, over) };
}

/* erfc x; square: of x, which may be known better than x is */
static struct scaled erfc_with(struct here h, int x, struct two square) {
  struct scaled r;
  struct two q = erfcx_large(h, x);
  r.exp = exp_of(h, (struct two){ negative(h, square.high), negative(h, square.low) }, &r.a, &r.b);
  r.value = product(h, q.high, r.exp.high);
  r.value.low = add(h, r.value.low, muladd(h, q.high, r.exp.low, mul(h, q.low, r.exp.high)));
  return r;
}

static struct scaled erfc_large(struct here h, int x) { return erfc_with(h, x, product(h, x, x)); }

static int value_of(struct here h, struct scaled s) {
  int sum_ = add(h, s.value.high, s.value.low), most = mul(h, sum_, s.a);
  return mul(h, most, s.b);
}

static int at_most(struct here h, int x) { return op(h, KIR_MIN, x, number(h, 28)); } /* there erfc is 0 */

/* 1 - e^(-x^2) G / (1 + 2 x): beside 1 plain arithmetic is close enough */
static int erf_f64(struct here h, int x) {
  int size = size_of(h, x), in = op(h, KIR_MIN, size, number(h, 6)); /* there it is 1 */
  struct two y = erf_small(h, size), g = nearly_constant(h, in);
  int square = negative(h, mul(h, in, in)), e = expand_exp(h, &square);
  int rest = mul(h, e, quotient(h, g.high, muladd(h, in, number(h, 2), number(h, 1))));
  int small = add(h, y.high, y.low), large = sub(h, number(h, 1), rest);
  return with_sign(h, either(h, less(h, size, number(h, 0.75)), small, large), x);
}

static int erfc_f64(struct here h, int x) {
  int size = size_of(h, x), one = number(h, 1), is_below = less(h, x, number(h, 0));
  struct two y = erf_small(h, x), near = sum(h, one, negative(h, y.high));
  int small = add(h, near.high, sub(h, near.low, y.low)), large = value_of(h, erfc_large(h, at_most(h, size)));
  large = either(h, is_below, sub(h, number(h, 2), large), large);
  return either(h, less(h, size, number(h, 0.75)), small, large);
}

/* ---- In f32 without exact products --------------------------------------------------------------------------------------- */

/* Below 1 x + x R(x^2), from there on 1 - 2^P(x), P near log2 erfc. */
static int erf_f32(struct here h, int x) {
  static const double r[] = { 0x1.4771fcp-14, -0x1.a3515ep-11, 0x1.53f224p-8, -0x1.b7f71ap-6,
                              0x1.ce2ce6p-4, -0x1.81273ep-2, 0x1.06eba8p-3 };
  static const double p[] = { -0x1.b3d4ecp-10, 0x1.5db132p-6, -0x1.06086p-3, -0x1.e362e4p-1, -0x1.9cb9c4p0, -0x1.f5d5a4p-9 };
  static const double e[] = { 0x1.5fac26p-10, 0x1.3d373p-7, 0x1.c6adbep-5, 0x1.ebf862p-3, 0x1.62e432p-1, 0x1.000002p0 }; /* 2^f */
  int t, size = op(h, KIR_MIN, size_of(h, x), number(h, 4)), power = polynomial(h, size, 6, p); /* from 3.92 on it is 1 */
  int f = sub(h, power, whole_of(h, power, 1, 127 + 256, &t)), s = scale_of(h, as_bits(h, t)); /* -2^n: a bit above the exponent */
  int small = muladd(h, x, polynomial(h, mul(h, x, x), 7, r), x), large = muladd(h, s, polynomial(h, f, 6, e), number(h, 1));
  return either(h, less(h, size, number(h, 1)), small, with_sign(h, large, x));
}

/* With t = 2 / (x + k) and v = t - 0.43, ln(e^(x^2) erfc x) = ln t - ln 2 + c + a v + v G(v): erfc x = 2^(n-1) t e^f for x >= 0,
 * where f = -x^2 - n ln 2 + a v + c + v G(v). The first three cancel and are rounded once; what x^2, x + k and t lost in rounding
 * is small beside f, as c is. An error of t counts 1 + a t times, 1.2 to 2.5: what the division leaves, 2 - t (x + k), is twice
 * that error, which is close enough. ln 2 has 21 bits, so that n ln 2 + x^2 is exact; what it lacks, times n, is nearly a
 * multiple of x^2 and thus in G. */
static int erfc_f32(struct here h, int x) {
  static const double g[] = { 0x1.dff312p-2, -0x1.2d1a5p-1, -0x1.b12746p-3, 0x1.112246p-1, 0x1.8e71fp-3,
                              -0x1.db46b8p-2, -0x1.7105f8p-2, 0x1.dbcc96p-2, 0x1.fe148ap-9 };
  static const double q[] = { 0x1.6b32fcp-10, 0x1.127cd8p-7, 0x1.555758p-5, 0x1.555438p-3, 0.5 }; /* e^f = 1 + f + f^2 q(f) */
  int size = op(h, KIR_MIN, size_of(h, x), number(h, 11.5)); /* there it is 0 */
  int away = negative(h, size), square = mul(h, away, away);
  int k = number(h, 2.21484375), d = sub(h, away, k), t = quotient(h, number(h, -2), d), v = sub(h, t, number(h, 0x1.b68d4p-2));
  int scale, less_a = number(h, -0x1.9p0), n = whole_of(h, muladd(h, v, less_a, square), -0x1.715476p0, 2 * 127 - 1, &scale);
  int large = muladd(h, v, less_a, muladd(h, n, number(h, 0x1.62e43p-1), square));
  int lost = muladd(h, t, sub(h, away, add(h, d, k)), muladd(h, t, d, number(h, 2 + 0x1.2bp-12))); /* with c */
  int low = add(h, lost, muladd(h, size, away, square));
  int f = sub(h, muladd(h, v, polynomial(h, v, 9, g), low), large), e = muladd(h, mul(h, f, f), polynomial(h, f, 5, q), f);
  int y = op(h, KIR_SCALE, muladd(h, t, e, t), scale);
  return either(h, less(h, x, number(h, 0)), sub(h, number(h, 2), y), y);
}

int expand_erf(struct here h, const int x[]) { return is_narrow(h) ? erf_f32(h, x[0]) : erf_f64(h, x[0]); }
int expand_erfc(struct here h, const int x[]) { return is_narrow(h) ? erfc_f32(h, x[0]) : erfc_f64(h, x[0]); }

/* ---- The inverse ---------------------------------------------------------------------------------------------------------- */

/* From w = -log(1 - a^2), good to 15 bits; below = 1 - a */
static int roughly(struct here h, int a, int below) {
  static const double near[] = { 0x1.52ecbap-22, -0x1.ab9952p-19, -0x1.12c41cp-18, 0x1.c7c94p-13,
                                 -0x1.48e4ep-10, -0x1.11b1fcp-8,  0x1.f91f24p-3,   0x1.805c5ap0 };
  static const double far[] = { -0x1.01ffp-14,  0x1.d18c6p-13, -0x1.e6665ap-14, -0x1.e219a8p-15,
                                -0x1.b15ddp-11, 0x1.93803p-10, 0x1.026d68p0,    0x1.eb7cf6p1 };
  int rest = mul(h, below, add(h, number(h, 1), a));
  int w = negative(h, expand_log(h, &rest)), is_near = less(h, w, number(h, 5));
  int n = polynomial(h, sub(h, w, number(h, 2.5)), 8, near), f = polynomial(h, sub(h, root(h, w), number(h, 4)), 8, far);
  return mul(h, a, either(h, is_near, n, f));
}

/* With d = (a - erf y) / erf' y, a step of fifth order: y + d + y d^2 + (1 + 4 y^2) d^3 / 3 + (7 y / 6 + 2 y^3) d^4. */
static int improved(struct here h, int y, int d) {
  int z = mul(h, y, y),
      third = muladd(h, z, number(h, 0x1.5555555555555p0), number(h, 0x1.5555555555555p-2));
  int fourth = mul(h, y, muladd(h, z, number(h, 2), number(h, 0x1.2aaaaaaaaaaabp0)));
  int more = muladd(h, d, muladd(h, d, fourth, third), y);
  return add(h, y, muladd(h, mul(h, d, d), more, d));
}

/* y / a as a polynomial of log(1 - a^2) + 1, a x c beside it so that it is rounded once; one number in 300 is further out, where
 * it is one of log(1 - a^2) + 10.5. */
static int erfinv_of_f32(struct here h, int a) {
  static const double near[] = { 0x1.318e68p-27, 0x1.33c24p-23, 0x1.1d75c6p-21, -0x1.267488p-18, -0x1.40aefep-15,
                                 0x1.a47b94p-14, 0x1.377b8ep-9, 0x1.16924ep-8, -0x1.fb8fcep-3, -0x1.23071ap-26 };
  static const double far[] = { 0x1.298d94p-39, 0x1.59d1ep-35, 0x1.727918p-32, 0x1.0bbd0ep-29, -0x1.74f8f4p-33, -0x1.4a5c1cp-22,
                                -0x1.ffbc1ep-18, -0x1.461d4ap-13, -0x1.d2ec4ap-9, -0x1.3da462p-3, -0x1.e3aa1p-25 };
  int rest = mulsub(h, a, a, number(h, 1)), k, r = log_parts(h, rest, &k), is_far = less(h, rest, number(h, 0x1.b993fep-8));
  int u = add(h, muladd(h, k, number(h, LOG_STEP), number(h, 1)), r);
  int y = muladd(h, a, number(h, 0x1.209b9cp0), mul(h, a, polynomial(h, u, 10, near)));
  rarely(h, is_far);
  int v = add(h, muladd(h, k, number(h, LOG_STEP), number(h, 10.5)), r);
  int z = muladd(h, a, number(h, 0x1.897f94p1), mul(h, a, polynomial(h, v, 11, far)));
  return usually(h, is_far, z, y);
}

/* From a = 1/2 on, a - erf y is erfc y - (1 - a), where nothing is lost. */
static int erfinv_of_f64(struct here h, int size) {
  int one = number(h, 1), a = op(h, KIR_MIN, size, number(h, 0x1.fffffffffffffp-1));
  int y = roughly(h, a, sub(h, one, a));
  struct two s = erf_small(h, y);
  struct scaled c = erfc_large(h, y);
  int scale = mul(h, c.a, c.b), e = mul(h, c.exp.high, scale);
  int small = sub(h, sub(h, a, s.high), s.low);
  int large = muladd(h, c.value.low, scale, sub(h, mul(h, c.value.high, scale), sub(h, one, a)));
  int left = either(h, less(h, a, number(h, 0.5)), small, large);
  return improved(h, y, mul(h, left, quotient(h, number(h, 0x1.c5bf891b4ef6bp-1), e)));
}

int expand_erfinv(struct here h, const int x[]) {
  int size = size_of(h, x[0]), one = number(h, 1), r = is_narrow(h) ? erfinv_of_f32(h, size) : erfinv_of_f64(h, size);
  r = either(h, less(h, size, one), r, either(h, op(h, KIR_EQ, size, one), number(h, INFINITY), number(h, NAN)));
  return with_sign(h, r, x[0]);
}

/* ---- Of f64 alone: f32 is rounded from them ------------------------------------------------------------------------------ */

static int half_root_pi(struct here h) { return number(h, 0x1.c5bf891b4ef6bp-1); }

/* 1 / s, s a power of 2 */
static int over_scale(struct here h, int s) { return as_float(h, sub(h, integer(h, 0x7fe0000000000000), as_bits(h, s))); }

/* Below a = 1/2 as in erfinv; from there on by c = 1 - a, which may be as small as it likes: everything is divided by the scale
 * of e^(-y^2). Far out, from v = sqrt(-log(c (1 + a))), y = v D(1 / v). */
static int inverse_of(struct here h, int a, int c) {
  static const double deep[] = { -0x1.1661a839a3f83p2, 0x1.bd41925fbee6cp1, -0x1.2213799d83a1ep0, -0x1.e3ecded69f234p-6,
                                 0x1.0013d43499678p0 };
  int rest = mul(h, c, add(h, number(h, 1), a)), v = root(h, negative(h, expand_log(h, &rest)));
  int far = mul(h, v, polynomial(h, quotient(h, number(h, 1), v), 5, deep));
  int y = either(h, less(h, c, number(h, 0x1p-50)), far, roughly(h, a, c));
  struct two s = erf_small(h, y);
  struct scaled e = erfc_large(h, y);
  int small = quotient(h, sub(h, sub(h, a, s.high), s.low), mul(h, e.a, e.b));
  int scaled = mul(h, mul(h, c, over_scale(h, e.a)), over_scale(h, e.b));
  int large = add(h, sub(h, e.value.high, scaled), e.value.low);
  int left = either(h, less(h, a, number(h, 0.5)), small, large);
  return improved(h, y, mul(h, left, quotient(h, half_root_pi(h), e.exp.high)));
}

/* x < 1: y with erfc y = x; above 1 the other way round */
static int erfc_inverse(struct here h, int x) {
  int one = number(h, 1), two = number(h, 2), is_above = less(h, one, x);
  int c = either(h, is_above, sub(h, two, x), x), a = size_of(h, sub(h, one, x)), y = inverse_of(h, a, c);
  y = either(h, less(h, number(h, 0), c), y, either(h, op(h, KIR_EQ, c, number(h, 0)), number(h, INFINITY), number(h, NAN)));
  return either(h, is_above, negative(h, y), y);
}

int expand_erfcinv(struct here h, const int x[]) { return erfc_inverse(h, x[0]); }

/* The normal distribution: ndtr x = erfc(-x / sqrt 2) / 2. The square x^2 / 2 is known exactly, x / sqrt 2 is not. */
int expand_ndtri(struct here h, const int x[]) {
  return mul(h, erfc_inverse(h, add(h, x[0], x[0])), number(h, -0x1.6a09e667f3bcdp0));
}

/* For x >= 28: 1 / (x sqrt pi) (1 - 1/(2 x^2) + ..) */
static int erfcx_any(struct here h, int x) {
  static const double p[] = { 162.421875, -29.53125, 6.5625, -1.875, 0.75, -0.5, 1 };
  int over = quotient(h, number(h, 1), x), first = mul(h, over, number(h, 0x1.20dd750429b6dp-1));
  int far = mul(h, first, polynomial(h, mul(h, over, over), 7, p));
  struct two q = erfcx_large(h, at_most(h, x));
  return either(h, less(h, x, number(h, 28)), add(h, q.high, q.low), far);
}

int expand_erfcx(struct here h, const int x[]) {
  int size = size_of(h, x[0]), one = number(h, 1), in = at_most(h, size), square = mul(h, x[0], x[0]), a, b;
  struct two y = erf_small(h, x[0]), near = sum(h, one, negative(h, y.high));
  int small = mul(h, add(h, near.high, sub(h, near.low, y.low)), expand_exp(h, &square));
  int large = erfcx_any(h, size), is_below = less(h, x[0], number(h, 0));
  rarely(h, is_below);
  struct two e = exp_of(h, product(h, in, in), &a, &b);
  int most = add(h, e.high, e.low), twice = mul(h, mul(h, add(h, most, most), a), b), below = sub(h, twice, large);
  large = usually(h, is_below, below, large);
  return either(h, less(h, size, number(h, 0.75)), small, large);
}

struct normal { int small, large, z; }; /* ndtr x where |x| is small; ndtr -|x| where it is not; |x| / sqrt 2 */

static struct normal normal_of(struct here h, int x) {
  int in = op(h, KIR_MIN, size_of(h, x), number(h, 39)), half = number(h, 0.5), over_root = number(h, 0x1.6a09e667f3bcdp-1);
  struct two square = product(h, in, in), y = erf_small(h, mul(h, x, over_root)), near = sum(h, half, mul(h, y.high, half));
  square = (struct two){ mul(h, square.high, half), mul(h, square.low, half) };
  struct scaled e = erfc_with(h, mul(h, in, over_root), square);
  e.a = mul(h, e.a, half);
  int small = add(h, near.high, muladd(h, y.low, half, near.low));
  return (struct normal){ small, value_of(h, e), mul(h, size_of(h, x), over_root) };
}

int expand_ndtr(struct here h, const int x[]) {
  struct normal n = normal_of(h, x[0]);
  int large = either(h, less(h, x[0], number(h, 0)), n.large, sub(h, number(h, 1), n.large));
  return either(h, less(h, n.z, number(h, 0.75)), n.small, large);
}

/* Far below 0, log(erfcx(z) / 2) - x^2 / 2; from 0 on, log1p(-ndtr(-x)). */
int expand_log_ndtr(struct here h, const int x[]) {
  int turned = negative(h, size_of(h, x[0])), half = number(h, 0.5);
  struct normal n = normal_of(h, turned);
  int is_small = less(h, n.z, number(h, 0.75)), tail = either(h, is_small, n.small, n.large), less_tail = negative(h, tail);
  int above = expand_log1p(h, &less_tail), is_below = less(h, x[0], number(h, 0));
  rarely(h, is_below);
  int log_of = either(h, is_small, n.small, mul(h, erfcx_any(h, n.z), half)), l = expand_log(h, &log_of);
  int below = either(h, is_small, l, mulsub(h, mul(h, x[0], half), x[0], l));
  return usually(h, is_below, below, above);
}
