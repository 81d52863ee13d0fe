/* incomplete.c -- the beta function, and the incomplete gamma and beta functions. Of f64 alone.
 *
 * Each is a factor, D = x^a e^-x / Gamma(a + 1) or D = x^a y^b / B(a, b), y = 1 - x, times a series or a continued
 * fraction. A fraction f = b_0 + a_1 / (b_1 + a_2 / ..) is computed by Lentz: c = b_m + a_m / c, d = 1 / (b_m + a_m d), f =
 * f c d, until c d is 1. The factors of large a are Stirling's, with the difference that cancels, phi(m) = m - log(1 + m),
 * computed as such.
 *
 * Derivatives by a follow every step of the loop: beside each value goes its derivative. */
#include "kernel/gamma.h"

enum { TERMS = 2500, STEPS = 1000 }; /* rounds; NaN where they do not suffice */

/* m - log(1 + m), m > -1, and near_1 = 1 + m, which m has lost digits of far below 0: with s = m / (2 + m),
 * log(1 + m) = 2 s + 2 s^3 R(s^2) and m - 2 s = s m */
static int phi(struct here h, int m, int near_1) {
  static const double r[] = { 0x1.401d3f7e0253ap-4, 0x1.32e0d11621077p-5, 0x1.bc37f0658ce36p-5, 0x1.e0a2d57648bebp-5,
                              0x1.111abdc928abdp-4, 0x1.3b13515f68ep-4, 0x1.745d19937b5a4p-4, 0x1.c71c71bedea84p-4,
                              0x1.2492492499d46p-3, 0x1.9999999999944p-3, 0x1.5555555555555p-2 };
  int s = quotient(h, m, add(h, m, number(h, 2))), z = mul(h, s, s), twice = mul(h, mul(h, s, z), number(h, -2));
  int near = muladd(h, twice, polynomial(h, z, 11, r), mul(h, s, m)), far = sub(h, m, log_of(h, near_1));
  return either(h, less(h, size_of(h, m), number(h, 0.5)), near, far);
}

static int stirling_of(struct here h, int x) { return stirling(h, quotient(h, number(h, 1), x)); }

/* log(Gamma(l + s) / Gamma(l)), l >= 8 */
static int log_ratio(struct here h, int s, int l) {
  int t = add(h, l, s), more = sub(h, stirling_of(h, t), stirling_of(h, l));
  int grown = muladd(h, sub(h, l, number(h, 0.5)), log1p_of(h, quotient(h, s, l)), muladd(h, s, log_of(h, t), negative(h, s)));
  return add(h, grown, more);
}

/* ---- Beta ------------------------------------------------------------------------------------------------------------------ */

struct pair { int s, l; }; /* the smaller, the larger */
static struct pair ordered(struct here h, int a, int b) { return (struct pair){ op(h, KIR_MIN, a, b), op(h, KIR_MAX, a, b) }; }

/* Gamma(l) / Gamma(t) for 0 < l <= t <= 2 l, l <= 8: where both overflow it is t / l. */
static int gamma_ratio(struct here h, int l, int t) {
  return either(h, less(h, l, number(h, 1e-290)), quotient(h, t, l), quotient(h, gamma_of(h, l), gamma_of(h, t)));
}

/* Positive operands by the larger one: below 8 by Gamma, from 8 on by Stirling's series. */
static int log_beta(struct here h, int a, int b) {
  struct pair p = ordered(h, a, b);
  int eight = number(h, 8), l = op(h, KIR_MAX, p.l, eight), s = op(h, KIR_MAX, p.s, eight), half = number(h, 0.5);
  int is_large = op(h, KIR_LE, eight, p.s), is_mixed = op(h, KIR_LE, eight, p.l), t = add(h, s, l);
  int small = expand_lgamma(h, &p.s), l_small = op(h, KIR_MIN, p.l, eight), t_small = add(h, l_small, op(h, KIR_MIN, p.s, eight));
  int y = add(h, small, log_of(h, gamma_ratio(h, l_small, t_small)));
  y = either(h, is_mixed, sub(h, small, log_ratio(h, op(h, KIR_MIN, p.s, eight), l)), y);
  int r = quotient(h, s, l), more = sub(h, add(h, stirling_of(h, s), stirling_of(h, l)), stirling_of(h, t));
  more = add(h, more, muladd(h, log_of(h, l), number(h, -0.5), number(h, 0x1.d67f1c864beb5p-1)));
  int most = mul(h, sub(h, s, half), log_of(h, quotient(h, s, t)));
  int large = add(h, sub(h, most, mul(h, l, log1p_of(h, r))), more);
  return either(h, is_large, large, y);
}

/* Gamma has a pole at a, and none at a + b, though that may be rounded to one. */
static int is_alone_at_pole(struct here h, int a, int b) {
  int is_at = both(h, op(h, KIR_LE, a, number(h, 0)), op(h, KIR_EQ, kir_op1(h.b, KIR_FLOOR, a), a));
  return both(h, is_at, less(h, kir_op1(h.b, KIR_FLOOR, b), b));
}

/* With an operand below 0: log |Gamma(a) Gamma(b) / Gamma(a + b)| as it stands, but next to a pole */
int expand_betaln(struct here h, const int x[]) {
  int zero = number(h, 0), is_below = less(h, op(h, KIR_MIN, x[0], x[1]), zero), y = log_beta(h, x[0], x[1]);
  rarely(h, is_below);
  int t = add(h, x[0], x[1]), plain = sub(h, add(h, expand_lgamma(h, &x[0]), expand_lgamma(h, &x[1])), expand_lgamma(h, &t));
  int is_pole = op(h, KIR_OR, is_alone_at_pole(h, x[0], x[1]), is_alone_at_pole(h, x[1], x[0]));
  y = usually(h, is_below, either(h, is_pole, number(h, INFINITY), plain), y);
  int inf = number(h, INFINITY), is_far = op(h, KIR_EQ, op(h, KIR_MAX, x[0], x[1]), inf);
  return either(h, both(h, is_far, less(h, zero, op(h, KIR_MIN, x[0], x[1]))), negative(h, inf), y);
}

int expand_beta(struct here h, const int x[]) {
  int zero = number(h, 0), is_below = less(h, op(h, KIR_MIN, x[0], x[1]), zero), y = exp_plain(h, log_beta(h, x[0], x[1]));
  rarely(h, is_below);
  int plain = quotient(h, mul(h, gamma_of(h, x[0]), gamma_of(h, x[1])), gamma_of(h, add(h, x[0], x[1])));
  y = usually(h, is_below, plain, y);
  int is_far = op(h, KIR_EQ, op(h, KIR_MAX, x[0], x[1]), number(h, INFINITY));
  return either(h, both(h, is_far, less(h, zero, op(h, KIR_MIN, x[0], x[1]))), zero, y);
}

/* ---- Values with derivatives ----------------------------------------------------------------------------------------------- */

struct dual { int v, d; };                                    /* d: 0 where nobody asked */
struct ahead { struct here h; bool has_d; };

static struct dual constant(struct ahead e, int v) { return (struct dual){ v, number(e.h, 0) }; }
static struct dual d_add(struct ahead e, struct dual x, struct dual y) {
  return (struct dual){ add(e.h, x.v, y.v), e.has_d ? add(e.h, x.d, y.d) : x.d };
}
static struct dual d_mul(struct ahead e, struct dual x, struct dual y) {
  return (struct dual){ mul(e.h, x.v, y.v), e.has_d ? muladd(e.h, x.v, y.d, mul(e.h, x.d, y.v)) : x.d };
}
static struct dual d_over(struct ahead e, struct dual x) { /* 1 / x */
  int v = quotient(e.h, number(e.h, 1), x.v);
  return (struct dual){ v, e.has_d ? negative(e.h, mul(e.h, mul(e.h, v, v), x.d)) : x.d };
}
static struct dual d_div(struct ahead e, struct dual x, struct dual y) {
  int v = quotient(e.h, x.v, y.v);
  return (struct dual){ v, e.has_d ? quotient(e.h, mulsub(e.h, v, y.d, x.d), y.v) : x.d };
}
static struct dual d_carry(struct ahead e, struct dual x) {
  int v = kir_carry(e.h.b, NULL, x.v);
  return (struct dual){ v, e.has_d ? kir_carry(e.h.b, NULL, x.d) : x.d };
}

/* The value at the end of a loop; NaN if the last round still changed it */
static int settled(struct here h, int value, int change) {
  int is_done = op(h, KIR_LE, size_of(h, change), mul(h, size_of(h, value), number(h, 0x1p-45)));
  return either(h, is_done, value, number(h, NAN));
}

static int is_settled(struct ahead e, struct dual step, struct dual value, double close) { /* what is added no longer counts */
  int small = op(e.h, KIR_LE, size_of(e.h, step.v), mul(e.h, size_of(e.h, value.v), number(e.h, close)));
  if (e.has_d) small = both(e.h, small, op(e.h, KIR_LE, size_of(e.h, step.d), mul(e.h, size_of(e.h, value.d), number(e.h, close))));
  return one_of(e.h, small, is_nan(e.h, value.v));
}

/* ---- The incomplete gamma function ------------------------------------------------------------------------------------------ */

int gamma_factor(struct here h, int a, int x) {
  int eight = number(h, 8), is_small = less(h, a, eight), in = op(h, KIR_MIN, x, number(h, 800)), few = op(h, KIR_MIN, a, eight);
  int small = mul(h, expand_pow(h, (int[]){ in, few }), exp_plain(h, negative(h, in)));
  small = quotient(h, small, gamma_of(h, add(h, few, number(h, 1))));
  int l = op(h, KIR_MAX, a, eight), m = quotient(h, sub(h, x, l), l);
  int large = exp_plain(h, negative(h, muladd(h, l, phi(h, m, quotient(h, x, l)), stirling_of(h, l))));
  large = quotient(h, large, root(h, mul(h, l, number(h, 0x1.921fb54442d18p2))));
  return either(h, is_small, small, large);
}

/* The sum of x^n / ((a + 1) .. (a + n)) */
static struct dual gamma_series(struct ahead e, int a, int x) {
  struct here h = e.h;
  int one = number(h, 1), zero = number(h, 0);
  rounds(h, TERMS);
  struct dual carry[] = { d_carry(e, constant(e, one)), d_carry(e, constant(e, one)) };
  int at = kir_carry(h.b, NULL, a), at_next = add(h, at, one), over = quotient(h, x, at_next);
  struct dual term = { mul(h, carry[0].v, over), zero }, sum;
  if (e.has_d) term.d = mul(h, sub(h, carry[0].d, quotient(h, carry[0].v, at_next)), over);
  sum = d_add(e, carry[1], term);
  int c[] = { carry[0].v, carry[1].v, at, carry[0].d, carry[1].d }, v[] = { term.v, sum.v, at_next, term.d, sum.d };
  kir_next(h.b, e.has_d ? 5 : 3, c, v);
  kir_until(h.b, is_settled(e, term, sum, 0x1p-54));
  kir_end(h.b);
  return (struct dual){ settled(h, carry[1].v, carry[0].v), carry[1].d };
}

/* 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ..)): Gamma(a, x) e^x / x^a */
static struct dual gamma_fraction(struct ahead e, int a, int x) {
  struct here h = e.h;
  int one = number(h, 1), zero = number(h, 0);
  struct dual by = { a, e.has_d ? one : zero }, less_by = { negative(h, a), e.has_d ? number(h, -1) : zero };
  struct dual b0 = { sub(h, add(h, x, one), a), less_by.d }, d0 = d_over(e, b0);
  rounds(h, STEPS);
  struct dual b = d_carry(e, b0), c = d_carry(e, constant(e, number(h, 0x1p900))), d = d_carry(e, d0), f = d_carry(e, d0);
  int i = kir_carry(h.b, NULL, one), last = kir_carry(h.b, NULL, one);
  struct dual up = d_mul(e, constant(e, negative(h, i)), (struct dual){ sub(h, i, by.v), less_by.d });
  struct dual b_next = { add(h, b.v, number(h, 2)), b.d };
  struct dual d_next_ = d_over(e, d_add(e, d_mul(e, up, d), b_next)), c_next = d_add(e, b_next, d_div(e, up, c));
  struct dual step = d_mul(e, c_next, d_next_), f_next = d_mul(e, f, step);
  struct dual change = { sub(h, f_next.v, f.v), e.has_d ? sub(h, f_next.d, f.d) : zero };
  int n[] = { b.v, c.v, d.v, f.v, i, last, b.d, c.d, d.d, f.d };
  int v[] = { b_next.v, c_next.v, d_next_.v, f_next.v, add(h, i, one), change.v, b_next.d, c_next.d, d_next_.d, f_next.d };
  kir_next(h.b, e.has_d ? 10 : 6, n, v);
  kir_until(h.b, is_settled(e, change, f_next, 0x1p-53));
  kir_end(h.b);
  return (struct dual){ settled(h, f.v, last), f.d };
}

/* Q for x up to about 1: with E = x^a / Gamma(a + 1), 1 - E - a E times the sum of (-x)^n / (n! (a + n)), n >= 1 */
static int gamma_small_q(struct here h, int a, int x) {
  int one = number(h, 1), zero = number(h, 0), little = op(h, KIR_MIN, a, number(h, 1.5)), t = add(h, little, one);
  int low = log_gamma_1u(h, op(h, KIR_MIN, a, one)), log_gamma = either(h, less(h, a, one), low, expand_lgamma(h, &t));
  int power = sub(h, mul(h, little, log_of(h, x)), log_gamma), less_one = expand_expm1(h, &power);
  rounds(h, 40);
  int term = kir_carry(h.b, NULL, one), sum = kir_carry(h.b, NULL, zero), n = kir_carry(h.b, NULL, one);
  int next = mul(h, term, quotient(h, negative(h, x), n)), part = quotient(h, next, add(h, a, n)), all = add(h, sum, part);
  kir_next(h.b, 3, (int[]){ term, sum, n }, (int[]){ next, all, add(h, n, one) });
  kir_until(h.b, one_of(h, op(h, KIR_LE, size_of(h, part), mul(h, size_of(h, all), number(h, 0x1p-55))), is_nan(h, all)));
  kir_end(h.b);
  return negative(h, add(h, less_one, mul(h, mul(h, a, add(h, less_one, one)), sum)));
}

/* The smaller one of the two is computed, but for Q of small x. */
int gamma_incomplete(struct here h, int a, int x, bool is_upper) {
  struct ahead e = { h, false };
  int one = number(h, 1), zero = number(h, 0), inf = number(h, INFINITY), nan = number(h, NAN);
  int is_tail = both(h, less(h, number(h, 1.1), x), op(h, KIR_LE, a, x));
  int is_inside = both(h, less(h, zero, a), both(h, less(h, zero, x), less(h, x, inf)));
  is_inside = both(h, is_inside, less(h, a, inf));
  int p, q;
  rarely(h, is_inside);
  int factor = gamma_factor(h, a, x), by_fraction = both(h, is_inside, is_tail);
  rarely(h, by_fraction);
  int fraction = mul(h, mul(h, factor, a), gamma_fraction(e, a, x).v);
  fraction = usually(h, by_fraction, fraction, zero);
  int by_small = number(h, 0), small = zero;
  if (is_upper) { /* where P would be near 1 */
    int is_half = less(h, x, number(h, 0.5)), bound = quotient(h, number(h, -0.4), log_of(h, op(h, KIR_MIN, x, number(h, 0.5))));
    int is_little = either(h, is_half, op(h, KIR_LE, a, bound), op(h, KIR_LE, a, mul(h, x, number(h, 1.1))));
    by_small = both(h, both(h, is_inside, op(h, KIR_LE, x, number(h, 1.1))), is_little);
    rarely(h, by_small);
    small = usually(h, by_small, gamma_small_q(h, a, x), zero);
  }
  int by_series = both(h, is_inside, none(h, is_tail));
  if (is_upper) by_series = both(h, by_series, none(h, by_small));
  rarely(h, by_series);
  int series = op(h, KIR_MIN, mul(h, factor, gamma_series(e, a, x).v), one);
  series = usually(h, by_series, series, zero);
  p = either(h, is_tail, sub(h, one, fraction), series), q = either(h, is_tail, fraction, sub(h, one, series));
  if (is_upper) q = either(h, by_small, small, q);
  int y = usually(h, is_inside, is_upper ? q : p, nan);
  /* At the ends: nothing lies below 0, everything below inf; a = 0 is all at 0, a = inf all at inf. */
  int all = is_upper ? zero : one, nothing = is_upper ? one : zero;
  int is_bad = one_of(h, less(h, a, zero), less(h, x, zero)), is_0 = op(h, KIR_EQ, x, zero), a_is_0 = op(h, KIR_EQ, a, zero);
  y = either(h, op(h, KIR_EQ, a, inf), either(h, less(h, x, inf), nothing, nan), either(h, op(h, KIR_EQ, x, inf), all, y));
  y = either(h, is_0, either(h, a_is_0, nan, nothing), either(h, a_is_0, all, y));
  return either(h, one_of(h, is_bad, one_of(h, is_nan(h, a), is_nan(h, x))), nan, y);
}

int expand_gammainc(struct here h, const int x[]) { return gamma_incomplete(h, x[0], x[1], false); }
int expand_gammaincc(struct here h, const int x[]) { return gamma_incomplete(h, x[0], x[1], true); }

/* The derivative of P by a: P = D S, Q = D a F, where log D has the derivative log x - digamma(a + 1) */
int expand_gammainc_da(struct here h, const int in[]) {
  struct ahead e = { h, true };
  int a = in[0], x = in[1], zero = number(h, 0), one = number(h, 1), up = add(h, a, one), is_tail = less(h, up, x);
  int inf = number(h, INFINITY), is_inside = both(h, less(h, zero, op(h, KIR_MIN, a, x)), less(h, op(h, KIR_MAX, a, x), inf));
  int factor = gamma_factor(h, a, x), slope = sub(h, log_of(h, x), expand_digamma(h, &up));
  int by_series = both(h, is_inside, none(h, is_tail));
  rarely(h, by_series);
  struct dual s = gamma_series(e, a, x);
  int series = usually(h, by_series, mul(h, factor, muladd(h, s.v, slope, s.d)), zero), by_fraction = both(h, is_inside, is_tail);
  rarely(h, by_fraction);
  struct dual f = gamma_fraction(e, a, x);
  int tail = mul(h, factor, muladd(h, a, f.d, mul(h, f.v, muladd(h, a, slope, one))));
  tail = usually(h, by_fraction, negative(h, tail), zero);
  int is_known = both(h, op(h, KIR_LE, zero, a), op(h, KIR_LE, zero, x));
  return either(h, is_known, either(h, is_tail, tail, series), number(h, NAN));
}

/* ---- The incomplete beta function ------------------------------------------------------------------------------------------- */

/* From 8 on, with x0 = a / (a + b), a phi((x - x0) / x0) + b phi((x0 - x) / y0) is what the exponent loses. */
int beta_factor(struct here h, int a, int b, int x, int y) {
  int eight = number(h, 8), one = number(h, 1), t = add(h, a, b);
  struct pair p = ordered(h, a, b);
  int is_large = op(h, KIR_LE, eight, p.s), is_mixed = op(h, KIR_LE, eight, p.l);
  int less_x = negative(h, x), is_near_1 = less(h, number(h, 0.5), x);
  rarely(h, is_large);
  int d = either(h, is_near_1, sub(h, b, mul(h, t, y)), muladd(h, t, x, negative(h, a)));
  int lost_b = mul(h, b, phi(h, negative(h, quotient(h, d, b)), mul(h, y, quotient(h, t, b))));
  int lost = muladd(h, a, phi(h, quotient(h, d, a), mul(h, x, quotient(h, t, a))), lost_b);
  int more = sub(h, stirling_of(h, t), add(h, stirling_of(h, a), stirling_of(h, b)));
  int size = root(h, quotient(h, mul(h, quotient(h, a, t), b), number(h, 0x1.921fb54442d18p2)));
  int large = usually(h, is_large, mul(h, exp_plain(h, sub(h, more, lost)), size), one), is_small = none(h, is_large);
  rarely(h, is_small);
  int log_y = either(h, is_near_1, log_of(h, y), log1p_of(h, less_x));
  int log_x = either(h, is_near_1, log1p_of(h, negative(h, y)), log_of(h, x));
  int power = muladd(h, a, log_x, mul(h, b, log_y));
  int l = op(h, KIR_MAX, p.l, eight), s = op(h, KIR_MIN, p.s, eight), mixed = add(h, power, log_ratio(h, s, l));
  int e = exp_plain(h, either(h, is_mixed, mixed, power)), l_small = op(h, KIR_MIN, p.l, eight);
  int ratio = quotient(h, gamma_of(h, add(h, l_small, s)), gamma_of(h, l_small));
  int over = mul(h, s, quotient(h, one, gamma_of(h, add(h, s, one))));
  int small = mul(h, mul(h, e, over), either(h, is_mixed, one, ratio));
  small = usually(h, is_small, small, large);
  return either(h, is_large, large, small);
}

/* I = D / f */
static struct dual beta_fraction(struct ahead e, struct dual a, struct dual b, int x, int y) {
  struct here h = e.h;
  int one = number(h, 1), zero = number(h, 0), two = number(h, 2);
  struct dual X = constant(e, x), unit = constant(e, one), gap, first;
  gap = d_add(e, d_mul(e, a, constant(e, y)), d_mul(e, b, constant(e, negative(h, x))));
  gap = d_add(e, gap, unit); /* a y - b x + 1 */
  first = d_div(e, d_mul(e, a, gap), d_add(e, a, unit));
  struct dual over0 = d_over(e, d_add(e, a, unit)), both_ = d_add(e, a, b);
  int tiny = number(h, 0x1p-900);
  struct dual start = { either(h, op(h, KIR_EQ, first.v, zero), tiny, first.v), first.d };
  rounds(h, STEPS);
  struct dual c = d_carry(e, start), d = d_carry(e, constant(e, zero)), f = d_carry(e, start), over = d_carry(e, over0);
  int m = kir_carry(h.b, NULL, one), last = kir_carry(h.b, NULL, one);
  struct dual n = constant(e, m), minus_b = { negative(h, b.v), e.has_d ? negative(h, b.d) : zero }, m_b = d_add(e, n, minus_b);
  struct dual w = d_mul(e, d_mul(e, n, X), over); /* m x / (a + 2 m - 1) */
  struct dual less_m_b = { negative(h, m_b.v), e.has_d ? negative(h, m_b.d) : zero }, wb = d_mul(e, w, less_m_b);
  struct dual prior = constant(e, sub(h, m, one)), am = d_mul(e, d_add(e, a, prior), d_add(e, both_, prior));
  am = d_mul(e, d_mul(e, am, over), d_mul(e, wb, X));
  struct dual over_next = d_over(e, d_add(e, a, constant(e, muladd(h, m, two, one))));
  struct dual inner = d_add(e, gap, constant(e, mul(h, m, sub(h, two, x))));
  struct dual bm = d_add(e, d_add(e, n, wb), d_mul(e, d_mul(e, d_add(e, a, n), inner), over_next));
  struct dual d_new = d_over(e, d_add(e, d_mul(e, am, d), bm)), c_new = d_add(e, bm, d_div(e, am, c));
  struct dual f_new = d_mul(e, f, d_mul(e, c_new, d_new)), change = { sub(h, f_new.v, f.v), e.has_d ? sub(h, f_new.d, f.d) : zero };
  int names[] = { c.v, d.v, f.v, over.v, m, last, c.d, d.d, f.d, over.d };
  int values[] = { c_new.v, d_new.v, f_new.v, over_next.v, add(h, m, one), change.v, c_new.d, d_new.d, f_new.d, over_next.d };
  kir_next(h.b, e.has_d ? 10 : 6, names, values);
  kir_until(h.b, is_settled(e, change, f_new, 0x1p-52));
  kir_end(h.b);
  return (struct dual){ settled(h, f.v, last), f.d };
}

struct beta_case { int a, b, x, y, is_turned, is_inside; }; /* turned: I_x(a, b) = 1 - I_y(b, a), so that x is below the mean */

static struct beta_case beta_case(struct here h, int a, int b, int x, int y) {
  int zero = number(h, 0), inf = number(h, INFINITY);
  int is_turned = less(h, a, mul(h, add(h, a, b), x));
  int is_inside = both(h, both(h, less(h, zero, a), less(h, a, inf)), both(h, less(h, zero, b), less(h, b, inf)));
  is_inside = both(h, is_inside, both(h, less(h, zero, x), less(h, zero, y)));
  return (struct beta_case){ either(h, is_turned, b, a), either(h, is_turned, a, b), either(h, is_turned, y, x),
                             either(h, is_turned, x, y), is_turned, is_inside };
}

static int is_beta(struct here h, const int in[]) { /* the operands are some of the function's */
  int zero = number(h, 0), all = both(h, op(h, KIR_LE, zero, in[0]), op(h, KIR_LE, zero, in[1]));
  return both(h, all, both(h, op(h, KIR_LE, zero, in[2]), op(h, KIR_LE, in[2], number(h, 1))));
}

int beta_inside(struct here h, int a, int b, int x, int y) {
  struct ahead e = { h, false };
  struct beta_case c = beta_case(h, a, b, x, y);
  int one = number(h, 1);
  rarely(h, c.is_inside);
  int f = beta_fraction(e, constant(e, c.a), constant(e, c.b), c.x, c.y).v;
  int part = op(h, KIR_MIN, quotient(h, beta_factor(h, c.a, c.b, c.x, c.y), f), one);
  return usually(h, c.is_inside, either(h, c.is_turned, sub(h, one, part), part), number(h, NAN));
}

int expand_betainc(struct here h, const int in[]) {
  int zero = number(h, 0), one = number(h, 1), nan = number(h, NAN);
  int y = beta_inside(h, in[0], in[1], in[2], sub(h, one, in[2]));
  int at_0 = op(h, KIR_EQ, in[2], zero), at_1 = op(h, KIR_EQ, in[2], one);
  int a_0 = op(h, KIR_EQ, in[0], zero), b_0 = op(h, KIR_EQ, in[1], zero);
  y = either(h, b_0, zero, either(h, a_0, one, y));
  y = either(h, at_0, zero, either(h, at_1, one, y));
  y = either(h, both(h, a_0, b_0), nan, y);
  return either(h, is_beta(h, in), y, nan);
}

/* The derivative by a: log D has the derivative log x - digamma(a) + digamma(a + b), or by b, with y, if turned */
int expand_betainc_da(struct here h, const int in[]) {
  struct ahead e = { h, true };
  int zero = number(h, 0), one = number(h, 1);
  struct beta_case c = beta_case(h, in[0], in[1], in[2], sub(h, one, in[2]));
  int t = add(h, in[0], in[1]);
  rarely(h, c.is_inside);
  struct dual a = { c.a, either(h, c.is_turned, zero, one) }, b = { c.b, either(h, c.is_turned, one, zero) };
  struct dual f = beta_fraction(e, a, b, c.x, c.y);
  int value = quotient(h, beta_factor(h, c.a, c.b, c.x, c.y), f.v);
  int slope = add(h, log_of(h, in[2]), sub(h, expand_digamma(h, &t), expand_digamma(h, &in[0])));
  int d = mul(h, value, sub(h, slope, quotient(h, f.d, f.v)));
  d = usually(h, c.is_inside, either(h, c.is_turned, negative(h, d), d), zero);
  return either(h, is_beta(h, in), d, number(h, NAN));
}
