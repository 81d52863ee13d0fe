/* random_whole.c -- whole numbers drawn: counts of events, trials and successes. Computed in f64; no derivatives.
 *
 * Where few are expected they are found by going up the distribution from 0, else by rejection from a hat, u -> (2 a / (1/2 -
 * |u|) + b) u + c (Hoermann's PTRS and BTRS), which takes most attempts without a logarithm. log k! is (k + 1/2) log(k + 1) -
 * (k + 1) + log sqrt(2 pi) + tail(k + 1); what of it cancels between large numbers is written so that it does not. */
#include <math.h>
#include "op/random.h"

/* FEW: below such a mean a draw climbs the distribution function term by term, above it is a rejection (Hormann's, made for
 * means of 10 and more). An attempt is taken more often than not, so 128 all fail once in 2^128; a climb from a mean of 10 that
 * passes 192 is as rare. MOST_TAKEN: steps of a hypergeometric draw, one for each that is taken. */
enum { MOST_ATTEMPTS = 128, MOST_CLIMB = 192, MOST_TAKEN = 1 << 24, FEW = 10 };

static weft_array *number(double x) { return weft_cast(weft_scalar(x), WEFT_F64); }
static weft_array *plus(weft_array *a, double b) { return weft_add(a, number(b)); }
static weft_array *times(weft_array *a, double b) { return weft_mul(a, number(b)); }
static weft_array *over(double a, weft_array *b) { return weft_div(number(a), b); }

/* log gamma(x) less its three large terms: a continued fraction, good to 2^-20 at 1 and to the last digits from 10 on. */
static weft_array *tail(weft_array *x) {
  weft_array *f = over(22999. / 22737, x);
  f = weft_div(number(195. / 371), weft_add(x, f));
  f = weft_div(number(53. / 210), weft_add(x, f));
  f = weft_div(number(1. / 30), weft_add(x, f));
  return weft_div(number(1. / 12), weft_add(x, f));
}

/* The parameter of one of two ways to draw: where the other is taken it is nan, and its lane leaves at once. */
static weft_array *only(weft_array *c, weft_array *p) { return weft_where(c, p, number(NAN)); }

/* ---- Poisson ---- */

/* x[0]: uniform, x[1]: the mean. p_k = p_(k-1) mean / k. */
static weft_array *climb_poisson(const void *ctx, weft_array *const x[]) {
  (void)ctx;
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *first = weft_exp(weft_neg(x[1])), *k = weft_loop_carry(loop, number(0)), *p = weft_loop_carry(loop, first);
  weft_array *sum = weft_loop_carry(loop, first), *is_over = weft_gt(x[0], sum), *k_next = plus(k, 1);
  weft_array *p_next = weft_mul(p, weft_div(x[1], k_next));
  weft_loop_next(loop, k, weft_where(is_over, k_next, k));
  weft_loop_next(loop, p, p_next);
  weft_loop_next(loop, sum, weft_add(sum, p_next));
  weft_loop_until(loop, weft_or(weft_not(is_over), weft_ge(k, number(MOST_CLIMB))));
  weft_array *last = weft_loop_last(loop, k);
  weft_loop_close(loop);
  return last;
}

/* log of m^k e^-m / k!: with x = k + 1 and e = (x - m) / m,
 * -m ((1 + e) log(1 + e) - e) + log(1 + e) - log sqrt(2 pi x) - tail(x). */
static weft_array *log_poisson(weft_array *m, weft_array *k) {
  weft_array *x = plus(k, 1), *e = weft_div(weft_sub(x, m), m), *log = weft_log1p(e);
  weft_array *bend = weft_mul(m, weft_sub(weft_mul(plus(e, 1), log), e));
  weft_array *root = weft_add(times(weft_log1p(k), 0.5), number(0.91893853320467274178)); /* as functions have log(k + 1) */
  return weft_sub(weft_sub(weft_sub(log, bend), root), tail(x));
}

static weft_array *attempt_poisson(const struct draw *d, weft_array *const word[], weft_array *const p[], weft_array **value) {
  weft_array *m = p[0], *u = plus(open_unit_of(word[0], d->in), -0.5), *v = open_unit_of(word[1], d->in);
  weft_array *b = plus(times(weft_sqrt(m), 2.53), 0.931), *a = plus(times(b, 0.02483), -0.059);
  weft_array *less = weft_sub(number(0.5), weft_abs(u));
  weft_array *k = weft_floor(weft_add(weft_add(weft_mul(weft_add(weft_div(times(a, 2), less), b), u), m), number(0.43)));
  weft_array *is_quick = weft_and(weft_ge(less, number(0.07)), weft_le(v, weft_sub(number(0.9277), over(3.6224, plus(b, -2)))));
  weft_array *hat = weft_log(weft_div(weft_mul(v, plus(over(1.1328, plus(b, -3.4)), 1.1239)),
                                      weft_add(weft_div(a, weft_mul(less, less)), b)));
  weft_array *is_below = weft_and(weft_ge(k, number(0)), weft_le(hat, log_poisson(m, weft_maximum(k, number(0)))));
  *value = k;
  return weft_or(weft_or(is_quick, is_below), weft_isnan(m));
}
static const struct rejection poisson_rejection = { 2, MOST_ATTEMPTS, attempt_poisson };

static weft_array *poisson_few(const struct draw *d, weft_array *m) {
  return lanes_map(d->fn, 2, (weft_array *[]){ random_unit(d, 0, 1), weft_stop_gradient(m) }, climb_poisson, NULL);
}
static weft_array *poisson_many(const struct draw *d, weft_array *m) { return random_rejected(d, &poisson_rejection, 1, &m); }

static weft_array *poisson(const struct draw *d, weft_array *m) {
  double known;
  if (random_is_number(m, &known)) return known < FEW ? poisson_few(d, m) : poisson_many(d, m);
  weft_array *is_few = weft_lt(m, number(FEW)), *is_many = weft_not(is_few);
  weft_array *k = weft_where(is_few, poisson_few(d, only(is_few, m)), poisson_many(d, only(is_many, m)));
  return only(weft_ge(m, number(0)), k);
}

/* There is nothing to draw for an infinite mean. */
RANDOM1(poisson, WHOLES, "mean", RATE, NAN) { return poisson(d, d->p[0]); }

/* ---- Binomial: p <= 1/2, the rest is its mirror image ---- */

/* x: uniform, n, p. p_k = p_(k-1) (n - k + 1) / k p / (1 - p). */
static weft_array *climb_binomial(const void *ctx, weft_array *const x[]) {
  (void)ctx;
  weft_array *n = x[1], *odds = weft_div(x[2], weft_sub(number(1), x[2]));
  weft_array *first = weft_exp(weft_mul(n, weft_log1p(weft_neg(x[2]))));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *k = weft_loop_carry(loop, number(0)), *p = weft_loop_carry(loop, first), *sum = weft_loop_carry(loop, first);
  weft_array *goes_on = weft_and(weft_gt(x[0], sum), weft_lt(k, n)), *k_next = plus(k, 1);
  weft_array *p_next = weft_mul(p, weft_div(weft_mul(weft_sub(n, k), odds), k_next));
  weft_loop_next(loop, k, weft_where(goes_on, k_next, k));
  weft_loop_next(loop, p, p_next);
  weft_loop_next(loop, sum, weft_add(sum, p_next));
  weft_loop_until(loop, weft_or(weft_not(goes_on), weft_ge(k, number(MOST_CLIMB))));
  weft_array *last = weft_loop_last(loop, k);
  weft_loop_close(loop);
  return last;
}

/* (k + 1/2) log x of a large k: differences of such are all that is left of factorials. */
static weft_array *weighted(weft_array *k, weft_array *x) { return weft_mul(k, weft_log(x)); }

static weft_array *attempt_binomial(const struct draw *d, weft_array *const word[], weft_array *const p[], weft_array **value) {
  weft_array *n = p[0], *q = p[1], *one = number(1), *r = weft_div(q, weft_sub(one, q));
  weft_array *u = plus(open_unit_of(word[0], d->in), -0.5), *v = open_unit_of(word[1], d->in);
  weft_array *spread = weft_sqrt(weft_mul(weft_mul(n, q), weft_sub(one, q))), *b = plus(times(spread, 2.53), 1.15);
  weft_array *a = weft_add(plus(times(b, 0.0248), -0.0873), times(q, 0.01)), *less = weft_sub(number(0.5), weft_abs(u));
  weft_array *k = weft_floor(weft_add(weft_mul(weft_add(weft_div(times(a, 2), less), b), u), plus(weft_mul(n, q), 0.5)));
  weft_array *is_quick = weft_and(weft_ge(less, number(0.07)), weft_le(v, weft_sub(number(0.92), over(4.2, b))));
  weft_array *alpha = weft_mul(plus(over(5.1, b), 2.83), spread);
  weft_array *hat = weft_log(weft_div(weft_mul(v, alpha), weft_add(weft_div(a, weft_mul(less, less)), b)));
  weft_array *m = weft_floor(weft_mul(plus(n, 1), q)), *at = weft_maximum(weft_minimum(k, n), number(0));
  weft_array *m1 = plus(m, 1), *k1 = plus(at, 1), *nm1 = plus(weft_sub(n, m), 1), *nk1 = plus(weft_sub(n, at), 1);
  weft_array *most = weft_add(weighted(plus(m, 0.5), weft_div(m1, weft_mul(r, nm1))), weighted(plus(n, 1), weft_div(nm1, nk1)));
  most = weft_add(most, weighted(plus(at, 0.5), weft_div(weft_mul(r, nk1), k1)));
  most = weft_add(most, weft_sub(weft_add(tail(m1), tail(nm1)), weft_add(tail(k1), tail(nk1))));
  weft_array *is_below = weft_and(weft_eq(at, k), weft_le(hat, most));
  *value = k;
  return weft_or(weft_or(weft_and(is_quick, weft_eq(at, k)), is_below), weft_isnan(weft_add(n, q)));
}
static const struct rejection binomial_rejection = { 2, MOST_ATTEMPTS, attempt_binomial };

static weft_array *binomial_few(const struct draw *d, weft_array *n, weft_array *p) {
  weft_array *x[] = { random_unit(d, 0, 1), weft_stop_gradient(n), weft_stop_gradient(p) };
  return lanes_map(d->fn, 3, x, climb_binomial, NULL);
}
static weft_array *binomial_many(const struct draw *d, weft_array *n, weft_array *p) {
  return random_rejected(d, &binomial_rejection, 2, (weft_array *[]){ n, p });
}

weft_array *random_binomial(const struct draw *d, weft_array *n, weft_array *p) {
  weft_array *is_flipped = weft_gt(p, number(0.5)), *q = weft_where(is_flipped, weft_sub(number(1), p), p), *k;
  double known_n, known_p;
  if (random_is_number(n, &known_n) && random_is_number(p, &known_p)) {
    bool is_few = known_n * (known_p > 0.5 ? 1 - known_p : known_p) < FEW;
    k = is_few ? binomial_few(d, n, q) : binomial_many(d, n, q);
  } else {
    weft_array *is_few = weft_lt(weft_mul(n, q), number(FEW)), *is_many = weft_not(is_few);
    k = weft_where(is_few, binomial_few(d, only(is_few, n), q), binomial_many(d, only(is_many, n), q));
  }
  k = weft_where(is_flipped, weft_sub(n, k), k);
  return only(weft_and(weft_ge(n, number(0)), weft_ge(q, number(0))), k);
}

RANDOM2(binomial, WHOLES, "n", COUNT, NAN, "p", PROBABILITY, 0.5) { return random_binomial(d, d->p[0], d->p[1]); }

/* ---- Others ---- */

/* Trials up to the first success: 1 + floor(log u / log(1 - p)). */
RANDOM1(geometric, WHOLES, "p", CHANCE, NAN) {
  weft_array *e = random_exponential(d, 0, 1);
  return plus(weft_floor(weft_div(e, weft_neg(weft_log1p(weft_neg(d->p[0]))))), 1);
}

/* Failures before n successes: Poisson, of a mean that is gamma. */
RANDOM2(negative_binomial, WHOLES, "n", SHAPE, NAN, "p", CHANCE, NAN) {
  struct draw second = random_part(d, 1, 2);
  weft_array *odds = weft_div(weft_sub(number(1), d->p[1]), d->p[1]);
  return poisson(&second, weft_mul(random_gamma(d, d->p[0], 0, 2, false), odds));
}

RANDOM3(betabinomial, WHOLES, "n", COUNT, NAN, "a", ABOVE_0, NAN, "b", ABOVE_0, NAN) {
  struct draw third = random_part(d, 2, 3);
  weft_array *p = weft_sigmoid(weft_sub(random_gamma(d, d->p[1], 0, 3, true), random_gamma(d, d->p[2], 1, 3, true)));
  return random_binomial(&third, d->p[0], p);
}

/* One is taken out after the other. p: how many are left of the kind that counts, how many in all, how many to take; the number of
 * steps is the last of these. */
static weft_array *take_out(const void *ctx, weft_array *const x[]) {
  const struct draw *d = ctx;
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *good = weft_loop_carry(loop, x[1]), *all = weft_loop_carry(loop, x[2]), *left = weft_loop_carry(loop, x[3]);
  weft_array *t = weft_loop_carry(loop, weft_cast(weft_integer(1), WEFT_U32));
  weft_array *k0 = weft_add(d->k0, weft_mul(t, weft_cast(weft_integer(0x9E3779B9), WEFT_U32)));
  weft_array *u = unit_of(random_word(WEFT_U64, k0, d->k1, x[0], d->n_draws), WEFT_F64);
  weft_array *is_taking = weft_gt(left, number(0)), *is_good = weft_and(is_taking, weft_lt(weft_mul(u, all), good));
  weft_array *left_next = plus(left, -1);
  weft_loop_next(loop, good, weft_where(is_good, plus(good, -1), good));
  weft_loop_next(loop, all, plus(all, -1));
  weft_loop_next(loop, left, left_next);
  weft_loop_next(loop, t, weft_add(t, weft_integer(1)));
  weft_loop_until(loop, weft_not(weft_gt(left_next, number(0))));
  weft_array *last = weft_loop_last(loop, good);
  weft_loop_close(loop);
  return weft_sub(x[1], last);
}

/* The good among those taken: taken and good change places, and either with what is left of it, so that few are taken. */
RANDOM3(hypergeometric, WHOLES, "good", COUNT, NAN, "bad", COUNT, NAN, "taken", COUNT, NAN) {
  weft_array *all = weft_add(d->p[0], d->p[1]), *good = d->p[0], *taken = d->p[2], *half = times(all, 0.5);
  double count[3];
  if (random_is_number(d->p[0], &count[0]) && random_is_number(d->p[1], &count[1]) && random_is_number(taken, &count[2])
      && count[2] > count[0] + count[1])
    return array_bad(WEFT_ERR_ARG, "%s: %.17g taken of %.17g good and %.17g bad", d->fn, count[2], count[0], count[1]);
  weft_array *is_mostly = weft_gt(taken, half), *few = weft_where(is_mostly, weft_sub(all, taken), taken);
  weft_array *is_good = weft_gt(good, half), *rare = weft_where(is_good, weft_sub(all, good), good);
  weft_array *steps = weft_minimum(few, rare), *kind = weft_maximum(few, rare), *most = number(MOST_TAKEN);
  weft_array *x[] = { random_shaped(d, d->places), kind, all, only(weft_le(steps, most), steps) };
  for (int i = 1; i < 4; i++) x[i] = weft_stop_gradient(x[i]);
  weft_array *k = lanes_map(d->fn, 4, x, take_out, d);
  k = weft_where(is_good, weft_sub(few, k), k);      /* of the few */
  k = weft_where(is_mostly, weft_sub(good, k), k);   /* of those taken */
  return only(weft_and(weft_le(taken, all), weft_le(steps, most)), k);
}
