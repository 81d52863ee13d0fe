/* random_gamma.c -- gamma draws, and what is made of them.
 *
 * Marsaglia and Tsang: with d = a - 1/3 and c = 1 / (3 sqrt d), d v^3, v = 1 + c z, is a gamma draw of shape a >= 1 where
 * v > 0 and log u < z^2 / 2 + d (1 - v^3 + 3 log v): more than 95 of 100 attempts. With w = v - 1 that is
 * z^2 / 2 + d (3 (log1p(w) - w) - w^2 (3 + w)): of large shapes d is large and w small, and of 1 and v^3 nothing would be left.
 * Below 1 it is u^(1 / a) times one of shape a + 1.
 *
 * The derivative by the shape is that of the quantile: where the distribution P(a, x) stays, dx / da = -(dP / da) / (dP / dx).
 * With c_0 = 1, c_k = c_(k-1) x / (a + k) and h_k = 1 / (a + 1) + .. + 1 / (a + k),
 *   dx / da = -(x / a) (S (log x - digamma(a + 1)) - D), S = sum c_k, D = sum c_k h_k,
 * and of log x that over x, which has a value where x has none left. */
#include <math.h>
#include "op/element.h"
#include "op/random.h"

static weft_array *number(weft_dtype d, double x) { return weft_cast(weft_scalar(x), d); }

/* ---- Drawing ---- */

static weft_array *attempt_gamma(const struct draw *d, weft_array *const word[], weft_array *const p[], weft_array **value) {
  weft_array *less = weft_sub(p[0], number(d->in, 1. / 3)), *three = number(d->in, 3);
  weft_array *z = normal_of(word[0], d->in), *u = open_unit_of(word[1], d->in);
  weft_array *w = weft_div(z, weft_sqrt(weft_mul(less, number(d->in, 9)))), *v = weft_add(number(d->in, 1), w);
  weft_array *cube = weft_mul(weft_mul(v, v), v), *half = weft_mul(weft_mul(z, z), number(d->in, 0.5));
  weft_array *log = weft_mul(weft_sub(weft_log1p(w), w), three), *bend = weft_mul(weft_mul(w, w), weft_add(three, w));
  weft_array *most = weft_add(half, weft_mul(less, weft_sub(log, bend)));
  *value = weft_mul(less, cube);
  return weft_or(weft_lt(weft_log(u), most), weft_isnan(p[0])); /* below 0 the logarithm is nan, and nothing is below that */
}
static const struct rejection gamma_rejection = { 2, 32, attempt_gamma };

static weft_array *gamma_at(const struct op *op, weft_array *a, weft_array *x) {
  return element("weft_random_gamma", op, FLOAT, 2, (weft_array *[]){ a, x });
}

weft_array *random_gamma(const struct draw *all, weft_array *a, int j, int m, bool is_log) {
  struct draw d = random_part(all, j, m);
  weft_array *one = number(d.in, 1), *is_small = weft_lt(a, one), *large = weft_where(is_small, weft_add(a, one), a);
  weft_array *x = random_rejected(&d, &gamma_rejection, 1, &large);
  weft_array *log = weft_div(weft_log(random_open_unit(&d, 0, 1)), weft_where(is_small, a, one));
  if (is_log) return gamma_at(&op_log_gamma_draw, a, weft_add(weft_log(x), weft_where(is_small, log, number(d.in, 0))));
  return gamma_at(&op_gamma_draw, a, weft_where(is_small, weft_mul(x, weft_exp(log)), x));
}

/* ---- The derivative by the shape ---- */

/* By the series: all terms are positive. Its error is 2^-53 over the probability of what is above x. So many steps are more than a
 * shape below 10^4 takes; the bound is there for second derivatives, which go back through them. */
static weft_array *slope_sum(const void *ctx, weft_array *const x[]) {
  (void)ctx;
  weft_array *a = x[0], *z = x[1], *logs = x[2], *one = number(WEFT_F64, 1), *zero = number(WEFT_F64, 0);
  weft_loop *loop = weft_loop_open(weft_integer(4096));
  weft_array *k = weft_loop_carry(loop, zero), *c = weft_loop_carry(loop, one), *h = weft_loop_carry(loop, zero);
  weft_array *sum = weft_loop_carry(loop, one), *d = weft_loop_carry(loop, zero);
  weft_array *k_next = weft_add(k, one), *over = weft_div(one, weft_add(a, k_next));
  weft_array *c_next = weft_mul(c, weft_mul(z, over)), *h_next = weft_add(h, over);
  weft_array *sum_next = weft_add(sum, c_next), *more = weft_mul(c_next, h_next);
  weft_loop_next(loop, k, k_next), weft_loop_next(loop, c, c_next), weft_loop_next(loop, h, h_next);
  weft_loop_next(loop, sum, sum_next), weft_loop_next(loop, d, weft_add(d, more));
  weft_array *goes_on = weft_gt(c_next, weft_mul(sum_next, number(WEFT_F64, 0x1p-54)));
  weft_loop_until(loop, weft_not(goes_on));
  weft_array *s_last = weft_loop_last(loop, sum), *d_last = weft_loop_last(loop, d);
  weft_loop_close(loop);
  return weft_div(weft_sub(d_last, weft_mul(s_last, logs)), a);
}

/* Of large shapes x = a + q sqrt a + (q^2 - 1) / 3 + (q^3 - 7 q) / (36 sqrt a) - (3 q^4 + 7 q^2 - 16) / (810 a) .., where q is the
 * quantile of a normal number. */
static weft_array *slope_large(weft_array *a, weft_array *x) {
  weft_array *root = weft_sqrt(a), *q = weft_div(weft_sub(x, a), root), *f[3] = { 0 };
  for (int i = 0; i < 6; i++) {
    weft_array *q2 = weft_mul(q, q);
    f[0] = weft_div(weft_sub(q2, number(WEFT_F64, 1)), number(WEFT_F64, 3));
    f[1] = weft_div(weft_mul(q, weft_sub(q2, number(WEFT_F64, 7))), number(WEFT_F64, 36));
    f[2] = weft_div(weft_sub(weft_mul(q2, weft_add(weft_mul(q2, number(WEFT_F64, 3)), number(WEFT_F64, 7))), number(WEFT_F64, 16)),
                    number(WEFT_F64, -810));
    weft_array *rest = weft_add(f[0], weft_add(weft_div(f[1], root), weft_div(f[2], a)));
    if (i < 5) q = weft_div(weft_sub(weft_sub(x, a), rest), root);
  }
  weft_array *two = number(WEFT_F64, 2), *first = weft_div(q, weft_mul(root, two));
  weft_array *second = weft_div(f[1], weft_mul(weft_mul(root, a), two)), *third = weft_div(f[2], weft_mul(a, a));
  return weft_sub(weft_add(number(WEFT_F64, 1), first), weft_add(second, third));
}

/* d log x / da, of f64. Where x is too small for a number it is 0, and its logarithm is not. */
static weft_array *log_slope(weft_array *a, weft_array *x, weft_array *log) {
  weft_array *limit = number(WEFT_F64, 10000), *is_large = weft_ge(a, limit), *one = number(WEFT_F64, 1);
  weft_array *a_few = weft_where(is_large, one, a), *x_few = weft_where(is_large, one, x);
  weft_array *logs = weft_sub(weft_where(is_large, number(WEFT_F64, 0), log), weft_digamma(weft_add(a_few, one)));
  weft_array *few = lanes_map("weft_random_gamma", 3, (weft_array *[]){ a_few, x_few, logs }, slope_sum, NULL);
  weft_array *large = weft_where(weft_ge(a, number(WEFT_F64, 1e30)), weft_div(one, a), weft_div(slope_large(a, x), x));
  return weft_where(is_large, large, few); /* beyond 10^30 x is a to the last digit */
}

/* Draws that are too small for a number are 0, whatever the shape: they do not move. */
static weft_array *slope_of(weft_array *a, weft_array *x) {
  weft_dtype as = weft_dtype_of(a);
  a = weft_cast(a, WEFT_F64), x = weft_cast(x, WEFT_F64);
  weft_array *is_none = weft_eq(x, number(WEFT_F64, 0)), *some = weft_where(is_none, number(WEFT_F64, 1), x);
  weft_array *slope = weft_mul(some, log_slope(a, some, weft_log(some)));
  return weft_cast(weft_where(is_none, number(WEFT_F64, 0), slope), as);
}

static weft_array *slope_of_log(weft_array *a, weft_array *log) {
  weft_dtype as = weft_dtype_of(a);
  a = weft_cast(a, WEFT_F64), log = weft_cast(log, WEFT_F64);
  return weft_cast(log_slope(a, weft_exp(log), log), as);
}

/* x, that was drawn with the shape a, as a function of it; its logarithm likewise. */
LOWER(gamma_draw) { return (void)b, in[1]; }
PARTIAL(gamma_draw) { return k == 0 ? slope_of(X, Y) : NULL; }
ROW(gamma_draw, true, DERIVATIVE)

LOWER(log_gamma_draw) { return (void)b, in[1]; }
PARTIAL(log_gamma_draw) { return k == 0 ? slope_of_log(X, Y) : NULL; }
ROW(log_gamma_draw, true, DERIVATIVE)

/* ---- The family ---- */

RANDOM2(gamma, REALS, "a", ABOVE_0, NAN, "scale", FINITE_SCALE, 1) {
  return weft_mul(random_gamma(d, d->p[0], 0, 1, false), d->p[1]);
}

RANDOM2(invgamma, REALS, "a", ABOVE_0, NAN, "scale", FINITE_SCALE, 1) {
  return weft_mul(weft_exp(weft_neg(random_gamma(d, d->p[0], 0, 1, true))), d->p[1]);
}

/* x^p is a gamma draw of shape a / p. */
RANDOM3(gengamma, REALS, "a", ABOVE_0, NAN, "p", ABOVE_0, 1, "scale", FINITE_SCALE, 1) {
  weft_array *log = random_gamma(d, weft_div(d->p[0], d->p[1]), 0, 1, true);
  return weft_mul(weft_exp(weft_div(log, d->p[1])), d->p[2]);
}

RANDOM1(chisquare, REALS, "df", ABOVE_0, NAN) {
  return weft_mul(random_gamma(d, weft_mul(d->p[0], number(d->in, 0.5)), 0, 1, false), number(d->in, 2));
}

/* a / (a + b) of two gamma draws, by their logarithms. */
RANDOM2(beta, REALS, "a", ABOVE_0, NAN, "b", ABOVE_0, NAN) {
  return weft_sigmoid(weft_sub(random_gamma(d, d->p[0], 0, 2, true), random_gamma(d, d->p[1], 1, 2, true)));
}

/* log(chi^2 / df), by draw i of 2. Where there is no end of degrees of freedom, chi^2 / df is 1. */
static weft_array *log_mean_square(struct draw *d, weft_array *df, int i) {
  weft_array *is_endless = weft_isinf(df), *half = weft_mul(weft_where(is_endless, number(d->in, 1), df), number(d->in, 0.5));
  return weft_where(is_endless, number(d->in, 0), weft_sub(random_gamma(d, half, i, 2, true), weft_log(half)));
}

/* z sqrt(df / chi^2). */
RANDOM3(studentt, REALS, "df", ABOVE_0, NAN, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  weft_array *factor = weft_exp(weft_mul(log_mean_square(d, d->p[0], 0), number(d->in, -0.5)));
  return weft_add(weft_mul(weft_mul(random_normal(d, 1, 2), factor), d->p[2]), d->p[1]);
}

/* The ratio of two chi^2, each over its degrees of freedom. */
RANDOM2(f, REALS, "dfnum", ABOVE_0, NAN, "dfden", ABOVE_0, NAN) {
  return weft_exp(weft_sub(log_mean_square(d, d->p[0], 0), log_mean_square(d, d->p[1], 1)));
}
