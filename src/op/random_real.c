/* random_real.c -- real numbers drawn by a formula: of one or two uniform numbers, by the inverse of the distribution where it has
 * one. Derivatives by the parameters are those of the formula. */
#include <math.h>
#include "op/random.h"

static weft_array *number(const struct draw *d, double x) { return weft_cast(weft_scalar(x), d->in); }
static weft_array *placed(weft_array *x, weft_array *scale, weft_array *loc) { return weft_add(weft_mul(x, scale), loc); }

/* In (-1, 1). */
static weft_array *both_sides(const struct draw *d) {
  double least = d->in == WEFT_F64 ? -0x1.fffffffffffffp-1 : -0x1.fffffep-1;
  return weft_add(weft_mul(random_unit(d, 0, 1), weft_integer(2)), number(d, least));
}

/* The inverse of P at a place between P(low) and P(high), in f64. What is above 0 is drawn as its mirror image, since P has digits
 * where it is near 0, and none where it is near 1. Beyond 37 it is 0, and the end that is nearer to 0 is drawn. */
RANDOM2(truncated_normal, REALS, "low", REAL, -INFINITY, "high", REAL, INFINITY) {
  weft_array *bad = random_unordered(d, 0, "low", "high");
  if (bad) return bad;
  weft_array *low = weft_cast(d->p[0], WEFT_F64), *one = weft_cast(weft_integer(1), WEFT_F64), *end[2];
  weft_array *sign = weft_where(weft_gt(low, weft_integer(0)), weft_neg(one), one);
  for (int i = 0; i < 2; i++) end[i] = weft_ndtr(weft_mul(weft_cast(d->p[i], WEFT_F64), sign));
  weft_array *u = weft_cast(random_open_unit(d, 0, 1), WEFT_F64), *p = weft_add(weft_mul(weft_sub(end[1], end[0]), u), end[0]);
  weft_array *x = weft_mul(weft_ndtri(weft_maximum(p, weft_cast(weft_scalar(0x1p-1022), WEFT_F64))), sign);
  x = weft_minimum(weft_maximum(weft_cast(x, d->in), d->p[0]), d->p[1]);
  return weft_where(weft_le(d->p[0], d->p[1]), x, number(d, NAN));
}

RANDOM2(gumbel, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  return placed(weft_neg(weft_log(weft_neg(weft_log(random_open_unit(d, 0, 1))))), d->p[1], d->p[0]);
}

/* u in (-1, 1): -sign(u) e, e exponential. */
RANDOM2(laplace, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  weft_array *u = both_sides(d);
  return placed(weft_mul(weft_sign(u), weft_log1p(weft_neg(weft_abs(u)))), d->p[1], d->p[0]);
}

RANDOM2(logistic, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  weft_array *u = random_open_unit(d, 0, 1);
  return placed(weft_sub(weft_log(u), weft_log1p(weft_neg(u))), d->p[1], d->p[0]);
}

RANDOM1(exponential, REALS, "scale", FINITE_SCALE, 1) { return weft_mul(random_exponential(d, 0, 1), d->p[0]); }

/* cot(pi u) has its long tail where u has most digits. */
static weft_array *cotangent(const struct draw *d, double by) {
  return weft_div(number(d, 1), weft_tan(weft_mul(random_open_unit(d, 0, 1), number(d, by))));
}
RANDOM2(cauchy, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) { return placed(cotangent(d, M_PI), d->p[1], d->p[0]); }
RANDOM2(halfcauchy, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) { return placed(cotangent(d, M_PI_2), d->p[1], d->p[0]); }

RANDOM2(halfnormal, REALS, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  return placed(weft_abs(random_normal(d, 0, 1)), d->p[1], d->p[0]);
}

RANDOM2(lognormal, REALS, "mean", REAL, 0, "sd", FINITE_SCALE, 1) {
  return weft_exp(placed(random_normal(d, 0, 1), d->p[1], d->p[0]));
}

RANDOM1(rayleigh, REALS, "scale", FINITE_SCALE, 1) {
  return weft_mul(weft_sqrt(weft_mul(random_exponential(d, 0, 1), weft_integer(2))), d->p[0]);
}

RANDOM2(weibull, REALS, "a", ABOVE_0, NAN, "scale", FINITE_SCALE, 1) {
  return weft_mul(weft_pow(random_exponential(d, 0, 1), weft_div(number(d, 1), d->p[0])), d->p[1]);
}

RANDOM2(pareto, REALS, "a", ABOVE_0, NAN, "scale", FINITE_SCALE, 1) {
  return weft_mul(weft_exp(weft_div(random_exponential(d, 0, 1), d->p[0])), d->p[1]);
}

/* Left of the mode sqrt(u (right - left)(mode - left)) from the left, else likewise from the right. */
RANDOM3(triangular, REALS, "left", REAL, 0, "mode", REAL, 0.5, "right", REAL, 1) {
  weft_array *bad = random_unordered(d, 0, "left", "mode");
  if (!bad) bad = random_unordered(d, 1, "mode", "right");
  if (bad) return bad;
  weft_array *left = d->p[0], *mode = d->p[1], *right = d->p[2], *u = random_unit(d, 0, 1);
  weft_array *all = weft_sub(right, left), *before = weft_sub(mode, left), *behind = weft_sub(right, mode);
  weft_array *low = weft_add(left, weft_sqrt(weft_mul(weft_mul(u, all), before)));
  weft_array *high = weft_sub(right, weft_sqrt(weft_mul(weft_mul(weft_sub(number(d, 1), u), all), behind)));
  weft_array *x = weft_where(weft_lt(weft_mul(u, all), before), low, high);
  return weft_where(weft_and(weft_le(left, mode), weft_le(mode, right)), x, number(d, NAN));
}

/* x / mean and its inverse solve a quadratic equation, 1 + w -+ sqrt(w (w + 2)), w = mean z^2 / (2 scale); the smaller is taken
 * with the probability mean / (mean + x). */
RANDOM2(wald, REALS, "mean", ABOVE_0, NAN, "scale", ABOVE_0, 1) {
  weft_array *mean = d->p[0], *one = number(d, 1), *z = random_normal(d, 0, 2), *u = random_unit(d, 1, 2);
  weft_array *w = weft_div(weft_mul(mean, weft_mul(z, z)), weft_mul(d->p[1], weft_integer(2)));
  weft_array *large = weft_add(weft_add(one, w), weft_sqrt(weft_mul(w, weft_add(w, weft_integer(2)))));
  weft_array *small = weft_div(one, large);
  return weft_mul(mean, weft_where(weft_lt(weft_mul(u, weft_add(one, small)), one), small, large));
}

/* Exponential below b. */
RANDOM3(truncexpon, REALS, "b", ABOVE_0, NAN, "loc", REAL, 0, "scale", FINITE_SCALE, 1) {
  weft_array *u = random_unit(d, 0, 1), *x = weft_neg(weft_log1p(weft_mul(u, weft_expm1(weft_neg(d->p[0])))));
  return placed(x, d->p[2], d->p[1]);
}

/* ---- Angles ---- */

/* Best and Fisher: with z = cos(pi u) and c = kappa (r - f), f = (1 + r z) / (r + z) is the cosine of the angle where
 * c (2 - c) > v or log(c / v) + 1 - c >= 0: at least two of three attempts. */
static weft_array *attempt_vonmises(const struct draw *d, weft_array *const word[], weft_array *const p[], weft_array **value) {
  weft_array *one = number(d, 1), *two = number(d, 2), *kappa = p[0], *k2 = weft_mul(kappa, kappa);
  weft_array *t = weft_add(one, weft_sqrt(weft_add(one, weft_mul(k2, number(d, 4)))));
  weft_array *rho = weft_div(weft_mul(kappa, two), weft_add(t, weft_sqrt(weft_mul(t, two))));
  weft_array *r = weft_div(weft_add(one, weft_mul(rho, rho)), weft_mul(rho, two));
  weft_array *z = weft_cos(weft_mul(unit_of(word[0], d->in), number(d, M_PI))), *v = open_unit_of(word[1], d->in);
  weft_array *f = weft_div(weft_add(one, weft_mul(r, z)), weft_add(r, z)), *c = weft_mul(kappa, weft_sub(r, f));
  weft_array *is_quick = weft_gt(weft_mul(c, weft_sub(two, c)), v);
  weft_array *is_below = weft_ge(weft_add(weft_log(weft_div(c, v)), weft_sub(one, c)), number(d, 0));
  *value = f;
  return weft_or(weft_or(is_quick, is_below), weft_isnan(kappa));
}
static const struct rejection vonmises_rejection = { 2, 128, attempt_vonmises };

/* In [-pi, pi]; in f64 inside. Below 1e-8 kappa is as good as 0, beyond 1e8 the angle normal. The derivative is that by mu. */
RANDOM2(vonmises, REALS, "mu", REAL, 0, "kappa", FINITE_SCALE, NAN) {
  d->in = WEFT_F64;
  weft_array *mu = weft_cast(d->p[0], d->in), *kappa = weft_cast(d->p[1], d->in), *pi = number(d, M_PI);
  weft_array *few = weft_minimum(weft_maximum(kappa, number(d, 1e-8)), number(d, 1e8));
  weft_array *f = random_rejected(d, &vonmises_rejection, 1, &few), *one = number(d, 1);
  weft_array *wide = weft_acos(weft_maximum(weft_minimum(f, one), weft_neg(one)));
  weft_array *narrow = weft_abs(weft_div(random_normal(d, 0, 2), weft_sqrt(kappa)));
  weft_array *size = weft_where(weft_gt(kappa, number(d, 1e8)), narrow, wide), *side = random_unit(d, 1, 2);
  weft_array *angle = weft_where(weft_lt(side, number(d, 0.5)), size, weft_neg(size));
  weft_array *all = weft_add(mu, weft_stop_gradient(angle)), *turns = weft_round(weft_div(all, weft_mul(pi, number(d, 2))));
  return weft_sub(all, weft_mul(weft_stop_gradient(turns), weft_mul(pi, number(d, 2))));
}
