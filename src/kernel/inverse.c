/* inverse.c -- the inverses of the incomplete gamma and beta functions. Of f64 alone.
 *
 * Newton's method on log F(e^u) - log p, with u = log x for gamma and u = log(x / (1 - x)) for beta. The densities of u are
 * log-concave, hence so are F and 1 - F: a tangent lies above the curve, so that from any start the second value is on the near
 * side and each one after it closer, without a bracket. What is solved for is the smaller one of p and 1 - p. */
#include "kernel/gamma.h"

enum { TANGENTS = 80 };

/* Goes on from `at` by at exp(-step) until a step no longer counts. Where the value is lost, below all numbers, a fixed step leads
 * back to where it is not. */
struct newton { int at, last; }; /* carries: the value, and the step before it */
static struct newton newton_open(struct here h, int start) {
  rounds(h, TANGENTS);
  return (struct newton){ kir_carry(h.b, NULL, start), kir_carry(h.b, NULL, number(h, 1)) };
}
static int newton_close(struct here h, struct newton n, int value, int target, int slope, int back) { /* slope: of log value by u */
  int far = number(h, 60), step = quotient(h, log_of(h, quotient(h, value, target)), slope);
  step = op(h, KIR_MAX, op(h, KIR_MIN, step, far), negative(h, far));
  step = either(h, op(h, KIR_EQ, value, number(h, 0)), back, step);
  int size = size_of(h, step), is_done = op(h, KIR_LE, size, number(h, 0x1p-36));
  kir_next(h.b, 2, (int[]){ n.at, n.last }, (int[]){ mul(h, n.at, exp_plain(h, negative(h, step))), size });
  kir_until(h.b, one_of(h, is_done, is_nan(h, step)));
  kir_end(h.b);
  return either(h, op(h, KIR_LE, n.last, number(h, 0x1p-30)), n.at, number(h, NAN));
}

/* ---- Gamma ------------------------------------------------------------------------------------------------------------------ */

/* x^a / Gamma(a + 1) is above P: where it is p lies below the solution, and is it where that is tiny. */
static int gamma_low(struct here h, int a, int below, int above, int by_q) {
  int log_p = either(h, by_q, log1p_of(h, negative(h, above)), log_of(h, below)), up = add(h, a, number(h, 1));
  return exp_plain(h, quotient(h, add(h, log_p, expand_lgamma(h, &up)), a));
}

/* The x with x^(a - 1) e^-x / Gamma(a) = q, where that is far beyond a */
static int gamma_tail(struct here h, int a, int q) {
  int one = number(h, 1), log_q = log_of(h, q), from = negative(h, add(h, log_q, expand_lgamma(h, &a)));
  int x = from, power = sub(h, a, one), least = op(h, KIR_MAX, a, one);
  for (int i = 0; i < 4; i++) x = muladd(h, power, log_of(h, op(h, KIR_MAX, x, least)), from);
  return x;
}

/* From a = 1 on, Wilson and Hilferty's normal approximation of the cube root; below, Q is below e^-x. */
static int gamma_start(struct here h, int a, int above, int low, int tail, int by_q) {
  int one = number(h, 1), z = expand_ndtri(h, &tail), over = quotient(h, number(h, 1.0 / 3), root(h, a));
  z = either(h, by_q, negative(h, z), z);
  int cube = add(h, sub(h, one, mul(h, over, over)), mul(h, z, over)), is_close = less(h, number(h, 0.1), cube);
  int middle = either(h, is_close, mul(h, a, mul(h, cube, mul(h, cube, cube))), low), far = gamma_tail(h, a, above);
  int beyond = either(h, less(h, add(h, a, a), far), far, middle), few = either(h, by_q, negative(h, log_of(h, above)), low);
  return either(h, less(h, a, one), few, either(h, by_q, beyond, op(h, KIR_MAX, middle, low)));
}

/* The x with P(a, x) = below, Q(a, x) = above */
static int gamma_inverse(struct here h, int a, int below, int above) {
  int zero = number(h, 0), inf = number(h, INFINITY), nan = number(h, NAN), tiny = number(h, 1e-18);
  int is_known = both(h, less(h, zero, a), less(h, a, inf));
  int is_inside = both(h, is_known, both(h, less(h, zero, below), less(h, zero, above)));
  int by_q = less(h, above, below);
  rarely(h, is_inside);
  int target = either(h, by_q, above, below), by_p = none(h, by_q), low = gamma_low(h, a, below, above, by_q);
  struct newton n = newton_open(h, op(h, KIR_MAX, gamma_start(h, a, above, low, target, by_q), tiny));
  rarely(h, by_q);
  int q = usually(h, by_q, gamma_incomplete(h, a, n.at, true), zero);
  rarely(h, by_p);
  int value = usually(h, by_p, gamma_incomplete(h, a, n.at, false), q);
  value = either(h, by_q, q, value);
  int slope = quotient(h, mul(h, a, gamma_factor(h, a, n.at)), value);
  int back = either(h, by_q, number(h, 0.3), number(h, -2));
  int x = newton_close(h, n, value, target, either(h, by_q, negative(h, slope), slope), back);
  x = usually(h, is_inside, either(h, less(h, low, tiny), low, x), nan);
  x = either(h, both(h, is_known, op(h, KIR_EQ, below, zero)), zero, x);
  return either(h, both(h, is_known, op(h, KIR_EQ, above, zero)), inf, x);
}

int expand_gammaincinv(struct here h, const int x[]) { return gamma_inverse(h, x[0], x[1], sub(h, number(h, 1), x[1])); }
int expand_gammainccinv(struct here h, const int x[]) { return gamma_inverse(h, x[0], sub(h, number(h, 1), x[1]), x[1]); }

/* ---- Beta ------------------------------------------------------------------------------------------------------------------- */

/* Of r = x / (1 - x), r^a / (a B) is above I: where it is p lies below the solution, and is it where that is tiny. */
static int beta_low(struct here h, int a, int log_p, int log_beta) {
  return exp_plain(h, quotient(h, add(h, log_p, add(h, log_of(h, a), log_beta)), a));
}

/* Where both are beyond 1, the normal approximation of Abramowitz and Stegun, 26.5.22 */
static int beta_start(struct here h, int a, int b, int p, int low) {
  int one = number(h, 1), two = number(h, 2);
  int is_wide = less(h, one, op(h, KIR_MIN, a, b)), a_in = op(h, KIR_MAX, a, one), b_in = op(h, KIR_MAX, b, one);
  int over_a = quotient(h, one, sub(h, mul(h, a_in, two), one)), over_b = quotient(h, one, sub(h, mul(h, b_in, two), one));
  int y = negative(h, expand_ndtri(h, &p)), l = quotient(h, sub(h, mul(h, y, y), number(h, 3)), number(h, 6));
  int mean = quotient(h, two, add(h, over_a, over_b)), spread = root(h, op(h, KIR_MAX, add(h, mean, l), number(h, 0)));
  int shift = sub(h, add(h, l, number(h, 5.0 / 6)), quotient(h, number(h, 2.0 / 3), mean));
  int w = sub(h, quotient(h, mul(h, y, spread), mean), mul(h, sub(h, over_b, over_a), shift));
  int middle = mul(h, quotient(h, a, b), exp_plain(h, mul(h, w, number(h, -2))));
  return either(h, is_wide, op(h, KIR_MAX, middle, low), low);
}

/* Turned, I_x(a, b) = p is I_y(b, a) = 1 - p, so that p is at most a half. */
int expand_betaincinv(struct here h, const int in[]) {
  int zero = number(h, 0), one = number(h, 1), inf = number(h, INFINITY), nan = number(h, NAN);
  int q = sub(h, one, in[2]), is_turned = less(h, q, in[2]), a = either(h, is_turned, in[1], in[0]);
  int b = either(h, is_turned, in[0], in[1]), p = either(h, is_turned, q, in[2]);
  int is_known = both(h, less(h, zero, op(h, KIR_MIN, a, b)), less(h, op(h, KIR_MAX, a, b), inf));
  int is_inside = both(h, is_known, less(h, zero, p));
  rarely(h, is_inside);
  int log_beta = expand_betaln(h, (int[]){ a, b }), tiny = quotient(h, number(h, 1e-18), add(h, one, add(h, a, b)));
  int low = beta_low(h, a, log_of(h, p), log_beta), other = beta_low(h, b, log1p_of(h, negative(h, p)), log_beta);
  int start = op(h, KIR_MAX, beta_start(h, a, b, p, low), number(h, 1e-300));
  struct newton n = newton_open(h, op(h, KIR_MIN, start, number(h, 1e300)));
  int y = quotient(h, one, add(h, one, n.at)), x = mul(h, n.at, y), value = beta_inside(h, a, b, x, y);
  int r = newton_close(h, n, value, p, quotient(h, beta_factor(h, a, b, x, y), value), number(h, -2));
  int over = quotient(h, one, add(h, one, r));
  x = mul(h, r, over);
  int is_high = less(h, other, tiny), is_low = less(h, low, tiny); /* 1 - x, or x, is tiny */
  x = either(h, is_high, one, either(h, is_low, low, x)), over = either(h, is_high, other, either(h, is_low, one, over));
  x = usually(h, is_inside, either(h, is_turned, over, x), nan);
  int at_end = both(h, is_known, one_of(h, op(h, KIR_EQ, in[2], zero), op(h, KIR_EQ, in[2], one)));
  return either(h, at_end, in[2], x);
}
