/* distributions.c -- random draws follow what they claim: a million of each against its distribution function, written here in plain C;
 * derivatives against differences; the same draws however they are computed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "every_recipe.h"
#include "values.h"

enum { DRAWS = 1000000, BUCKETS = 1 << 16, CELLS = 64 };

/* ---- Whether draws may have come from a distribution ---- */

/* Kolmogorov: the probability of a distance as large as d or larger. */
static double chance_of(double d) {
  double p = 0, x = d * sqrt(DRAWS);
  for (int k = 1; k < 100; k++) p += (k % 2 ? 2 : -2) * exp(-2. * k * k * x * x);
  return x < 0.2 ? 1 : p;
}

/* From draws, and their distribution function with parameters q: u = F(x) is to be uniform. Buckets say it to 2^-16. */
static void expect_follows(int line, const char *name, weft_array *draws, double cdf(double x, const double q[]), const double q[]) {
  size_t n;
  double *x = all_f64(draws, &n), most = 0, below = 0;
  int *count = calloc(BUCKETS + 1, sizeof *count);
  for (size_t i = 0; i < n; i++) {
    double u = cdf(x[i], q);
    if (!(u >= 0 && u <= 1)) test_fail(__FILE__, line, "%s draws %g, where the distribution function is %g", name, x[i], u);
    else count[(int)(u * BUCKETS)]++;
  }
  for (int k = 0; k < BUCKETS; k++) {
    below += count[k];
    double d = fabs(below / (double)n - (k + 1.) / BUCKETS);
    if (d > most) most = d;
  }
  if (!(chance_of(most) > 1e-4)) test_fail(__FILE__, line, "%s is off by %g, chance %g", name, most, chance_of(most));
  free(count);
  free(x);
}

/* Whole numbers, against their probabilities: chi-square of those of which at least 10 are expected, by Wilson and Hilferty's z. */
static void expect_counts(int line, const char *name, weft_array *draws, double pmf(double k, const double q[]), const double q[]) {
  size_t n;
  double *x = all_f64(draws, &n), chi = 0, rest_want = (double)n, rest_got = (double)n;
  int cells = 0, count[CELLS] = { 0 };
  for (size_t i = 0; i < n; i++)
    if (x[i] >= 0 && x[i] < CELLS && x[i] == floor(x[i])) count[(int)x[i]]++;
  for (int k = 0; k < CELLS; k++) {
    double want = pmf(k, q) * (double)n, got = count[k];
    if (want < 10) continue;
    chi += (got - want) * (got - want) / want, cells++;
    rest_want -= want, rest_got -= got;
  }
  if (rest_want > 10) chi += (rest_got - rest_want) * (rest_got - rest_want) / rest_want, cells++;
  else if (rest_got > 60) test_fail(__FILE__, line, "%s draws %g beyond its cells", name, rest_got);
  double v = cells - 1, z = (cbrt(chi / v) - (1 - 2 / (9 * v))) / sqrt(2 / (9 * v));
  if (!(z < 3.72)) test_fail(__FILE__, line, "%s: chi-square %g of %d cells", name, chi, cells); /* 1e-4 above */
  free(x);
}

#define S(x) weft_scalar(x)
#define FOLLOWS(name, F, ...)                                                                        \
  do {                                                                                               \
    weft_scope *s_ = weft_scope_open();                                                              \
    weft_array *a_ = (weft_random_##name)(weft_random_key(2024), weft_full(WEFT_F32, WEFT_DIMS(DRAWS), 0), __VA_ARGS__); \
    weft_array *b_ = (weft_random_##name)(weft_random_key(77), weft_full(WEFT_F64, WEFT_DIMS(DRAWS), 0), __VA_ARGS__);   \
    expect_follows(__LINE__, #name " in f32", a_, F, q);                                             \
    expect_follows(__LINE__, #name " in f64", b_, F, q);                                             \
    weft_scope_discard(s_);                                                                          \
  } while (0)
#define COUNTS(name, P, ...)                                                                         \
  do {                                                                                               \
    weft_scope *s_ = weft_scope_open();                                                              \
    weft_array *a_ = (weft_random_##name)(weft_random_key(4711), weft_full(WEFT_I32, WEFT_DIMS(DRAWS), 0), __VA_ARGS__); \
    expect_counts(__LINE__, #name, a_, P, q);                                                        \
    weft_scope_discard(s_);                                                                          \
  } while (0)

static double phi(double z) { return 0.5 * erfc(-z * M_SQRT1_2); }
static double F_uniform(double x, const double q[]) { return (x - q[0]) / (q[1] - q[0]); }
static double F_normal(double x, const double q[]) { return phi((x - q[0]) / q[1]); }
static double F_truncated(double x, const double q[]) { /* phi has digits below 0 */
  if (q[0] > 0) return 1 - F_truncated(-x, (double[]){ -q[1], -q[0] });
  return (phi(x) - phi(q[0])) / (phi(q[1]) - phi(q[0]));
}
static double F_lognormal(double x, const double q[]) { return phi((log(x) - q[0]) / q[1]); }
static double F_halfnormal(double x, const double q[]) { return erf((x - q[0]) / q[1] * M_SQRT1_2); }
static double F_exponential(double x, const double q[]) { return -expm1(-x / q[0]); }
static double F_truncexpon(double x, const double q[]) { return expm1(-(x - q[1]) / q[2]) / expm1(-q[0]); }
static double F_laplace(double x, const double q[]) {
  double z = (x - q[0]) / q[1];
  return z < 0 ? exp(z) / 2 : 1 - exp(-z) / 2;
}
static double F_logistic(double x, const double q[]) { return 1 / (1 + exp(-(x - q[0]) / q[1])); }
static double F_gumbel(double x, const double q[]) { return exp(-exp(-(x - q[0]) / q[1])); }
static double F_cauchy(double x, const double q[]) { return 0.5 + atan((x - q[0]) / q[1]) / M_PI; }
static double F_halfcauchy(double x, const double q[]) { return atan((x - q[0]) / q[1]) / M_PI_2; }
static double F_rayleigh(double x, const double q[]) { return -expm1(-x * x / (2 * q[0] * q[0])); }
static double F_weibull(double x, const double q[]) { return -expm1(-pow(x / q[1], q[0])); }
static double F_pareto(double x, const double q[]) { return 1 - pow(q[1] / x, q[0]); }
static double F_triangular(double x, const double q[]) {
  double l = q[0], m = q[1], r = q[2];
  return x < m ? (x - l) * (x - l) / ((r - l) * (m - l)) : 1 - (r - x) * (r - x) / ((r - l) * (r - m));
}
static double F_wald(double x, const double q[]) {
  double r = sqrt(q[1] / x), up = phi(-r * (x / q[0] + 1));
  return phi(r * (x / q[0] - 1)) + (up > 0 ? exp(2 * q[1] / q[0] + log(up)) : 0);
}

TEST(draws_by_a_formula_follow_their_distributions) {
  test_watchdog(120);
  double q[3];
#define WITH(a, b, c) (q[0] = a, q[1] = b, q[2] = c)
  WITH(-1, 2, 0); FOLLOWS(uniform, F_uniform, S(-1), S(2));
  WITH(1, 2, 0); FOLLOWS(normal, F_normal, S(1), S(2));
  WITH(-1, 2, 0); FOLLOWS(truncated_normal, F_truncated, S(-1), S(2));
  WITH(-9, -8, 0); FOLLOWS(truncated_normal, F_truncated, S(-9), S(-8));
  WITH(8, 9, 0); FOLLOWS(truncated_normal, F_truncated, S(8), S(9));
  WITH(30, INFINITY, 0); FOLLOWS(truncated_normal, F_truncated, S(30), S(INFINITY));
  WITH(0, 0.5, 0); FOLLOWS(lognormal, F_lognormal, NULL, S(0.5));
  WITH(1, 2, 0); FOLLOWS(halfnormal, F_halfnormal, S(1), S(2));
  WITH(3, 0, 0); FOLLOWS(exponential, F_exponential, S(3));
  WITH(2, 1, 3); FOLLOWS(truncexpon, F_truncexpon, S(2), S(1), S(3));
  WITH(1, 2, 0); FOLLOWS(laplace, F_laplace, S(1), S(2));
  FOLLOWS(logistic, F_logistic, S(1), S(2));
  FOLLOWS(gumbel, F_gumbel, S(1), S(2));
  FOLLOWS(cauchy, F_cauchy, S(1), S(2));
  FOLLOWS(halfcauchy, F_halfcauchy, S(1), S(2));
  WITH(2, 0, 0); FOLLOWS(rayleigh, F_rayleigh, S(2));
  WITH(1.7, 2, 0); FOLLOWS(weibull, F_weibull, S(1.7), S(2));
  WITH(2.5, 2, 0); FOLLOWS(pareto, F_pareto, S(2.5), S(2));
  WITH(1, 2, 5); FOLLOWS(triangular, F_triangular, S(1), S(2), S(5));
  WITH(2, 3, 0); FOLLOWS(wald, F_wald, S(2), S(3));
}

/* ---- Gamma and what is made of it: closed forms where shapes are halves or whole ---- */

/* P(a, x) by its series, in long double. */
static long double lower_gamma(long double a, long double x) {
  if (!(x > 0)) return 0;
  long double term = 1 / a, sum = term;
  for (int k = 1; k < 5000 && term > sum * 1e-21L; k++) sum += term *= x / (a + k);
  return sum * expl(a * logl(x) - x - lgammal(a));
}
/* The same in double, for a million draws: the chance of a distance is told by its third digit. */
static double P_gamma(double a, double x) {
  if (!(x > 0)) return 0;
  double term = 1 / a, sum = term;
  for (int k = 1; k < 5000 && term > sum * 1e-16; k++) sum += term *= x / (a + k);
  double p = sum * exp(a * log(x) - x - lgamma(a));
  return p > 1 ? 1 : p; /* of inf it is nan, and so no chance at all */
}
static double F_gamma(double x, const double q[]) { return P_gamma(q[0], x / q[1]); }
static double F_invgamma(double x, const double q[]) { return 1 - P_gamma(q[0], q[1] / x); }
static double F_gengamma(double x, const double q[]) { return P_gamma(q[0] / q[1], pow(x / q[2], q[1])); }
static double F_chisquare(double x, const double q[]) { return P_gamma(q[0] / 2, x / 2); }
static double F_beta_2_3(double x, const double q[]) { return (void)q, x * x * (6 - 8 * x + 3 * x * x); }
static double F_arcsine(double x, const double q[]) { return (void)q, asin(sqrt(x)) / M_PI_2; }
static double F_student_2(double x, const double q[]) {
  double t = (x - q[1]) / q[2];
  return 0.5 + t / (2 * sqrt(2 + t * t));
}
static double F_f_2_4(double x, const double q[]) { return (void)q, 1 - 1 / ((1 + x / 2) * (1 + x / 2)); }

/* By Simpson's rule on a grid that is made once. */
static double F_vonmises_half(double x, const double q[]) {
  enum { GRID = 4096 };
  static double F[GRID + 1];
  double h = 2 * M_PI / GRID, at = (x + M_PI) / h;
  if (!F[GRID]) {
    for (int i = 0; i < GRID; i++) {
      double a = -M_PI + i * h;
      F[i + 1] = F[i] + h / 6 * (exp(q[0] * cos(a)) + 4 * exp(q[0] * cos(a + h / 2)) + exp(q[0] * cos(a + h)));
    }
    for (int i = 0; i <= GRID; i++) F[i] /= F[GRID];
  }
  int i = at < 0 ? 0 : at >= GRID ? GRID - 1 : (int)at;
  return fmin(1, fmax(0, F[i] + (at - i) * (F[i + 1] - F[i])));
}

TEST(draws_by_rejection_follow_their_distributions) {
  test_watchdog(120);
  double q[3];
  WITH(2.5, 2, 0); FOLLOWS(gamma, F_gamma, S(2.5), S(2));
  WITH(0.5, 1, 0); FOLLOWS(gamma, F_gamma, S(0.5), NULL);
  WITH(3, 2, 0); FOLLOWS(invgamma, F_invgamma, S(3), S(2));
  WITH(3, 2, 3); FOLLOWS(gengamma, F_gengamma, S(3), S(2), S(3));
  WITH(3, 0, 0); FOLLOWS(chisquare, F_chisquare, S(3));
  FOLLOWS(beta, F_beta_2_3, S(2), S(3));
  FOLLOWS(beta, F_arcsine, S(0.5), S(0.5));
  WITH(2, 1, 3); FOLLOWS(studentt, F_student_2, S(2), S(1), S(3));
  WITH(1, 3, 0); FOLLOWS(studentt, F_normal, S(INFINITY), S(1), S(3));
  FOLLOWS(f, F_f_2_4, S(2), S(4));
  WITH(0.5, 0, 0); FOLLOWS(vonmises, F_vonmises_half, NULL, S(0.5));
}

/* What is taken depends on a small difference of large numbers. */
TEST(gamma_draws_of_a_large_shape_in_f32_have_its_mean) {
  weft_scope *s = weft_scope_open();
  double a = 1e7, mean;
  weft_array *x = weft_random_gamma(weft_random_key(11), weft_full(WEFT_F32, WEFT_DIMS(DRAWS), 0), S(a), NULL);
  EXPECT_OK(weft_read(weft_mean(weft_sub(weft_cast(x, WEFT_F64), S(a)), 0), WEFT_F64, &mean, sizeof mean));
  EXPECT(fabs(mean) < 4 * sqrt(a / DRAWS));
  weft_scope_discard(s);
}

static double log_choose(double n, double k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }
static double P_poisson(double k, const double q[]) { return exp(k * log(q[0]) - q[0] - lgamma(k + 1)); }
static double P_binomial(double k, const double q[]) {
  return k > q[0] ? 0 : exp(log_choose(q[0], k) + k * log(q[1]) + (q[0] - k) * log1p(-q[1]));
}
static double P_geometric(double k, const double q[]) { return k < 1 ? 0 : q[0] * pow(1 - q[0], k - 1); }
static double P_negative(double k, const double q[]) {
  return exp(lgamma(k + q[0]) - lgamma(k + 1) - lgamma(q[0]) + q[0] * log(q[1]) + k * log1p(-q[1]));
}
static double P_hyper(double k, const double q[]) {
  if (k > q[0] || k > q[2] || q[2] - k > q[1]) return 0;
  return exp(log_choose(q[0], k) + log_choose(q[1], q[2] - k) - log_choose(q[0] + q[1], q[2]));
}
static double P_betabinomial(double k, const double q[]) {
  if (k > q[0]) return 0;
  double n = q[0], a = q[1], b = q[2];
  return exp(log_choose(n, k) + lgamma(k + a) + lgamma(n - k + b) - lgamma(n + a + b) + lgamma(a + b) - lgamma(a) - lgamma(b));
}

TEST(whole_draws_follow_their_distributions) {
  test_watchdog(120);
  double q[3];
  WITH(3, 0, 0); COUNTS(poisson, P_poisson, S(3));
  WITH(9.9, 0, 0); COUNTS(poisson, P_poisson, S(9.9));
  WITH(20, 0, 0); COUNTS(poisson, P_poisson, S(20));
  WITH(10, 0.3, 0); COUNTS(binomial, P_binomial, S(10), S(0.3));
  WITH(60, 0.4, 0); COUNTS(binomial, P_binomial, S(60), S(0.4));
  WITH(60, 0.8, 0); COUNTS(binomial, P_binomial, S(60), S(0.8));
  WITH(0.3, 0, 0); COUNTS(geometric, P_geometric, S(0.3));
  WITH(3.5, 0.3, 0); COUNTS(negative_binomial, P_negative, S(3.5), S(0.3));
  WITH(20, 2, 3); COUNTS(betabinomial, P_betabinomial, S(20), S(2), S(3));
  WITH(50, 20, 30); COUNTS(hypergeometric, P_hyper, S(50), S(20), S(30));
  WITH(50, 20, 60); COUNTS(hypergeometric, P_hyper, S(50), S(20), S(60));
  WITH(5, 10, 4); COUNTS(hypergeometric, P_hyper, S(5), S(10), S(4));
}

/* Probabilities q[0], q[1], .. */
static double P_listed(double k, const double q[]) { return q[(int)k]; }

TEST(draws_along_an_axis_follow_their_distributions) {
  test_watchdog(120);
  weft_scope *s = weft_scope_open();
  double p[CELLS] = { 0.1, 0.2, 0.3, 0.4 }, q[3];
  weft_array *logits = weft_log(f64s(4, p)), *key = weft_random_key(9);
  weft_array *one = weft_random_categorical(key, weft_full(WEFT_I32, WEFT_DIMS(DRAWS), 0), logits, -1);
  expect_counts(__LINE__, "categorical", one, P_listed, p);
  weft_array *counts = weft_random_multinomial(key, weft_full(WEFT_I32, WEFT_DIMS(DRAWS, 4), 0), weft_integer(20), f64s(4, p));
  uint8_t ok = 0;
  EXPECT_OK(weft_read(weft_all(weft_eq(weft_sum(counts, -1), weft_integer(20)), WEFT_ALL), WEFT_BOOL, &ok, 1));
  EXPECT(ok);
  for (int k = 0; k < 4; k++)
    WITH(20, p[k], 0), expect_counts(__LINE__, "multinomial", weft_slice(counts, 1, k, k + 1, 1), P_binomial, q);
  double alpha[] = { 1, 1 };
  weft_array *shares = weft_random_dirichlet(key, weft_full(WEFT_F64, WEFT_DIMS(DRAWS, 2), 0), f64s(2, alpha));
  WITH(0, 1, 0), expect_follows(__LINE__, "dirichlet", weft_slice(shares, 1, 0, 1, 1), F_uniform, q);
  weft_scope_discard(s);
}

static double P_even(double k, const double q[]) { return k < q[0] ? 1 / q[0] : 0; }

TEST(truths_integers_and_choices_follow_their_distributions) {
  test_watchdog(120);
  double q[3], p[CELLS] = { 0.7, 0.3 }, share[CELLS] = { 0.125, 0, 0.5, 0.375 };
  weft_scope *s = weft_scope_open();
  weft_array *key = weft_random_key(31), *like = weft_full(WEFT_I32, WEFT_DIMS(DRAWS), 0);
  weft_array *kinds = weft_iota(weft_full(WEFT_I32, WEFT_DIMS(4), 0), 0);
  expect_counts(__LINE__, "bernoulli", weft_random_bernoulli(key, like, S(0.3)), P_listed, p);
  WITH(50, 0, 0), expect_counts(__LINE__, "randint", weft_random_randint(key, like, weft_integer(0), weft_integer(50)), P_even, q);
  WITH(4, 0, 0), expect_counts(__LINE__, "choice", weft_random_choice(key, like, kinds, NULL, 0), P_even, q);
  expect_counts(__LINE__, "choice by shares", weft_random_choice(key, like, kinds, f64s(4, share), 0), P_listed, share);
  weft_array *bits = weft_random_bits(key, weft_full(WEFT_U8, WEFT_DIMS(DRAWS), 0));
  WITH(64, 0, 0), expect_counts(__LINE__, "bits", weft_shr(bits, weft_integer(2)), P_even, q);
  weft_scope_discard(s);
}

/* Orders of 4, [..,4], as a number below 24: how many of those behind each are smaller. */
static weft_array *order_number(weft_array *x) {
  static const int weight[] = { 6, 2, 1 };
  weft_array *all = weft_integer(0);
  for (int i = 0; i < 3; i++)
    for (int j = i + 1; j < 4; j++) {
      weft_array *is_below = weft_lt(weft_slice(x, -1, j, j + 1, 1), weft_slice(x, -1, i, i + 1, 1));
      all = weft_add(all, weft_mul(weft_cast(is_below, WEFT_I32), weft_integer(weight[i])));
    }
  return all;
}

/* What is drawn by each of a million keys. */
static weft_array *by_keys(weft_array *draw(weft_array *key)) {
  weft_array *key = weft_input(WEFT_U32, WEFT_DIMS(2)), *keys = weft_random_split(weft_random_key(12), DRAWS), *y = draw(key), *all;
  weft_map(1, &key, &keys, 1, &y, &all);
  return all;
}

static weft_array *four(void) { return weft_iota(weft_full(WEFT_I32, WEFT_DIMS(4), 0), 0); }
static weft_array *permuted(weft_array *key) { return order_number(weft_random_permutation(key, four(), 0)); }
static weft_array *all_once(weft_array *key) { return order_number(weft_random_choice(key, four(), four(), NULL, 1)); }
static weft_array *two_once(weft_array *key) { /* of 0.2, 0.3, 0.5: the first times 3, and the second */
  double p[] = { 0.2, 0.3, 0.5 };
  weft_array *three = weft_slice(four(), 0, 0, 3, 1);
  weft_array *x = weft_random_choice(key, weft_slice(four(), 0, 0, 2, 1), three, f64s(3, p), 1);
  return weft_add(weft_mul(weft_slice(x, 0, 0, 1, 1), weft_integer(3)), weft_slice(x, 0, 1, 2, 1));
}

TEST(orders_are_all_as_likely_and_no_row_is_chosen_twice) {
  test_watchdog(120);
  double q[3], p[] = { 0.2, 0.3, 0.5 }, pairs[CELLS] = { 0 };
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) pairs[3 * i + j] = i == j ? 0 : p[i] * p[j] / (1 - p[i]);
  weft_scope *s = weft_scope_open();
  WITH(24, 0, 0), expect_counts(__LINE__, "permutation", by_keys(permuted), P_even, q);
  expect_counts(__LINE__, "choice of all, once each", by_keys(all_once), P_even, q);
  expect_counts(__LINE__, "choice of two, once each", by_keys(two_once), P_listed, pairs);
  weft_array *rows = weft_broadcast(four(), WEFT_DIMS(DRAWS, 4));
  expect_counts(__LINE__, "shuffle", order_number(weft_random_shuffle(weft_random_key(5), rows, 1)), P_even, q);
  weft_scope_discard(s);
}

/* z = L^-1 (x - mean) is normal, its elements apart: then |z|^2 / 2 of two is exponential. */
TEST(normal_vectors_follow_their_distribution) {
  test_watchdog(120);
  double q[3], mean[] = { 1, -2 }, cov[] = { 4, 1.2, 1.2, 0.5 };
  for (int k = 0; k < 2; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *like = weft_full(k ? WEFT_F64 : WEFT_F32, WEFT_DIMS(DRAWS, 2), 0), *c = weft_from(WEFT_F64, WEFT_DIMS(2, 2), cov);
    weft_array *x = weft_cast(weft_random_multivariate_normal(weft_random_key(6), like, f64s(2, mean), c), WEFT_F64);
    weft_array *z = weft_transpose(weft_solve_triangular(weft_cholesky(c), weft_transpose(weft_sub(x, f64s(2, mean)), NULL), 0, 0), NULL);
    WITH(1, 2, 0), expect_follows(__LINE__, "the first of a normal vector", weft_slice(x, 1, 0, 1, 1), F_normal, q);
    WITH(-2, sqrt(0.5), 0), expect_follows(__LINE__, "the second", weft_slice(x, 1, 1, 2, 1), F_normal, q);
    WITH(2, 0, 0), expect_follows(__LINE__, "their distance", weft_sum(weft_square(z), 1), F_exponential, q);
    WITH(0, 1, 0), expect_follows(__LINE__, "what is apart", weft_slice(z, 1, 1, 2, 1), F_normal, q);
    weft_scope_discard(s);
  }
}

TEST(categorical_draws_are_those_recorded) {
  weft_scope *s = weft_scope_open();
  float logits[] = { 0.1f, 0.5f, 2, 1, 1, 1, 3, 0, 0, 0, 2, 1 };
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(4, 3), logits), *key = weft_random_key(8);
  EXPECT_F64(weft_cast(weft_random_categorical(key, NULL, x, -1), WEFT_F64), 2, 1, 0, 1);
  EXPECT_F64(weft_cast(weft_random_categorical(key, NULL, x, 0), WEFT_F64), 2, 3, 0);
  weft_scope_discard(s);
}

/* ---- However they are computed ---- */

/* One of each kind, of parameters that vary. */
static weft_array *some_of_each(weft_array *key, weft_array *a) {
  weft_array *keys = weft_random_split(key, 6), *k[6];
  for (int i = 0; i < 6; i++) k[i] = weft_at(keys, 0, weft_integer(i));
  weft_array *y = weft_random_gamma(k[0], NULL, a, NULL), *half = weft_mul(a, S(0.5));
  y = weft_add(y, weft_random_beta(k[1], NULL, a, half));
  y = weft_add(y, weft_cast(weft_random_poisson(k[2], NULL, weft_mul(a, S(6))), WEFT_F64));
  y = weft_add(y, weft_cast(weft_random_binomial(k[3], NULL, weft_floor(weft_mul(a, S(20))), S(0.3)), WEFT_F64));
  y = weft_add(y, weft_random_vonmises(k[4], NULL, NULL, a));
  return weft_add(y, weft_random_weibull(k[5], NULL, a, NULL));
}

static const double shapes_of[] = { 0.2, 0.7, 1, 1.5, 2, 3.25, 8, 40, 1.1, 0.9, 5, 6 };
enum { SHAPES_OF = sizeof shapes_of / sizeof *shapes_of };

TEST(rejections_have_the_same_bits_in_every_way_of_evaluation) {
  double *first = NULL;
  for (int i = 0; i < n_ways; i++) {
    size_t n;
    way_take(&ways[i]);
    weft_scope *s = weft_scope_open();
    weft_array *a = weft_reshape(weft_repeat(f64s(SHAPES_OF, shapes_of), 0, 11), WEFT_DIMS(11, SHAPES_OF));
    double *x = all_f64(some_of_each(weft_random_key(42), a), &n);
    if (first && !are_same(first, x, n)) test_fail(__FILE__, __LINE__, "%s draws others than %s", ways[i].name, ways[0].name);
    for (size_t k = 0; k < n; k++) EXPECT(isfinite(x[k]));
    weft_scope_discard(s);
    way_leave();
    if (first) free(x);
    else first = x;
  }
  free(first);
}

/* What is taken of a draw by rejection depends on the last bit of a bound: a function, which may round otherwise to be better
 * conditioned, draws others then, of f32 and large shapes one in a hundred. */
TEST(a_function_draws_what_is_drawn_outside_of_it) {
  enum { N = 4000 };
  for (int k = 0; k < 2; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *a = weft_full(k ? WEFT_F64 : WEFT_F32, WEFT_DIMS(N), k ? 1e16 : 1e5), *key = weft_random_key(3), *y;
    weft_scope *body = weft_scope_open();
    weft_array *in = weft_input(k ? WEFT_F64 : WEFT_F32, WEFT_DIMS(N)), *out = weft_random_gamma(key, NULL, in, NULL);
    weft_function *f = weft_compile(body, 1, &in, 1, &out);
    weft_call(f, 1, &a, 1, &y);
    EXPECT_SAME(y, weft_random_gamma(key, NULL, a, NULL));
    weft_scope_discard(s);
  }
}

TEST(rejections_mapped_over_keys_are_those_of_each_key) {
  weft_scope *s = weft_scope_open();
  weft_array *a = f64s(SHAPES_OF, shapes_of), *keys = weft_random_split(weft_random_key(1), 3);
  weft_array *key = weft_input(WEFT_U32, WEFT_DIMS(2)), *y = some_of_each(key, a), *ys;
  weft_map(1, &key, &keys, 1, &y, &ys);
  for (int64_t i = 0; i < 3; i++) {
    weft_array *i_ = weft_integer(i);
    EXPECT_SAME(weft_at(ys, 0, i_), some_of_each(weft_at(keys, 0, i_), a));
  }
  weft_scope_discard(s);
}

TEST(rejections_of_sizes_that_a_call_tells_are_those_of_known_sizes) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_U32, WEFT_DIMS(2)), weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) };
  weft_array *out = some_of_each(in[0], in[1]), *y;
  weft_function *f = weft_compile(body, 2, in, 1, &out);
  weft_array *key = weft_random_key(3);
  for (int n = 0; n <= SHAPES_OF; n += 6) {
    weft_array *a = f64s(n, shapes_of);
    weft_call(f, WEFT_ARRAYS(key, a), 1, &y);
    EXPECT_SAME(y, some_of_each(key, a));
  }
  weft_scope_discard(s);
}

/* Draws like an array, of which only the shape and the dtype matter; the last axis is one of 3. */
static weft_array *like_it(int kind, weft_array *key, weft_array *like) {
  weft_array *whole = weft_cast(like, WEFT_U8), *shares = f64s(3, (double[]){ 0.2, 0.5, 0.3 });
  switch (kind) {
    case 0: return weft_random_uniform(key, like, NULL, NULL);
    case 1: return weft_random_bits(key, whole);
    case 2: return weft_random_randint(key, whole, NULL, weft_integer(9));
    case 3: return weft_random_gamma(key, like, weft_scalar(0.7), NULL);
    case 4: return weft_random_poisson(key, like, weft_scalar(20));
    case 5: return weft_random_categorical(key, whole, weft_log(shares), -1);
    case 6: return weft_random_dirichlet(key, like, shares);
    case 7: return weft_random_multinomial(key, like, weft_integer(50), shares);
    default: return NULL;
  }
}

/* The rows of x up to the first that begins with 3 or more. */
static weft_array *rows_until(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x);
  weft_loop_until(l, weft_ge(weft_at(e, 0, weft_integer(0)), weft_scalar(3)));
  weft_array *all = weft_loop_all(l, e);
  weft_loop_close(l);
  return all;
}

TEST(draws_like_what_a_loop_has_made_are_those_of_known_sizes) {
  static const double x[] = { 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0 };
  for (int kind = 0; kind < 8; kind++) {
    weft_scope *s = weft_scope_open();
    weft_array *key = weft_random_key(7), *in = weft_from(WEFT_F64, WEFT_DIMS(4, 3), x), *out;
    weft_array *want = like_it(kind, key, weft_full(WEFT_F64, WEFT_DIMS(3, 3), 0));
    EXPECT_SAME(like_it(kind, key, rows_until(in)), want);
    weft_scope *body = weft_scope_open();
    weft_array *each = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, 3)), *y = like_it(kind, weft_random_key(7), rows_until(each));
    weft_function *f = weft_compile(body, 1, &each, 1, &y);
    weft_call(f, 1, &in, 1, &out);
    EXPECT_SAME(out, want);
    weft_scope_discard(s);
  }
}

TEST(rejections_in_a_loop_are_those_written_out) {
  weft_scope *s = weft_scope_open();
  weft_array *a = f64s(SHAPES_OF, shapes_of), *keys = weft_random_split(weft_random_key(8), 3), *want[3];
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *got = weft_loop_all(loop, some_of_each(weft_loop_each(loop, keys), a));
  weft_loop_close(loop);
  for (int i = 0; i < 3; i++) want[i] = some_of_each(weft_at(keys, 0, weft_integer(i)), a);
  EXPECT_SAME(got, weft_stack(0, 3, want));
  weft_scope_discard(s);
}

/* ---- Derivatives ---- */

static weft_array *key_of_tests(void) { return weft_random_key(31); }
#define OF_X(name, expression) static weft_array *name(weft_array *x) { return expression; }
OF_X(normal_by_both, weft_random_normal(key_of_tests(), NULL, weft_mul(x, x), weft_exp(x)))
OF_X(uniform_by_both, weft_random_uniform(key_of_tests(), NULL, x, weft_exp(x)))
OF_X(weibull_by_both, weft_random_weibull(key_of_tests(), NULL, weft_exp(x), weft_mul(x, x)))
OF_X(pareto_by_shape, weft_random_pareto(key_of_tests(), NULL, weft_exp(x), NULL))
OF_X(gumbel_by_both, weft_random_gumbel(key_of_tests(), NULL, x, weft_mul(x, x)))
OF_X(truncated_by_ends, weft_random_truncated_normal(key_of_tests(), NULL, weft_neg(weft_exp(x)), weft_mul(x, x)))
OF_X(triangular_by_right, weft_random_triangular(key_of_tests(), NULL, S(0), S(0.5), weft_add(S(1), weft_mul(x, x))))
OF_X(gamma_by_scale, weft_random_gamma(key_of_tests(), NULL, S(2.5), weft_mul(x, x)))

TEST(derivatives_by_parameters_are_those_of_the_formula) {
  const double x[] = { 0.3, -0.7, 1.2, 0.9 };
  check_function("normal", normal_by_both, 4, x);
  check_function("uniform", uniform_by_both, 4, x);
  check_function("weibull", weibull_by_both, 4, x);
  check_function("pareto", pareto_by_shape, 4, x);
  check_function("gumbel", gumbel_by_both, 4, x);
  check_function("truncated_normal", truncated_by_ends, 4, x);
  check_function("triangular", triangular_by_right, 4, x);
  check_function("gamma by its scale", gamma_by_scale, 4, x);
}

/* At a fixed value of P(a, x) dx / da = -(dP / da) / (dP / dx): by differences of the series in long double. */
static double quantile_slope(double a, double x) {
  long double h = 1e-5L * a, density = expl((a - 1) * logl(x) - x - lgammal(a));
  long double d1 = lower_gamma(a + h, x) - lower_gamma(a - h, x), d2 = lower_gamma(a + 2 * h, x) - lower_gamma(a - 2 * h, x);
  return (double)(-(8 * d1 - d2) / (12 * h) / density);
}

TEST(a_gamma_draw_moves_with_its_shape_as_the_quantile_does) {
  weft_scope *s = weft_scope_open();
  static const double shape[] = { 0.05, 0.3, 0.9, 1, 1.3, 2, 5, 17, 300, 9999, 10001, 30000 };
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
    double many[20], x[20], dx[20], forward[20];
    for (int k = 0; k < 20; k++) many[k] = shape[i];
    weft_array *a = f64s(20, many), *y = weft_random_gamma(weft_random_key(i), NULL, a, NULL), *da, *dy, *one = weft_full_like(a, 1);
    weft_grad(y, 1, &a, &da);
    weft_jvp(1, &a, &one, 1, &y, &dy);
    read_f64(y, 20, x), read_f64(da, 20, dx), read_f64(dy, 20, forward);
    for (int k = 0; k < 20; k++) {
      EXPECT_NEAR(dx[k], quantile_slope(shape[i], x[k]), 1e-7);
      EXPECT(dx[k] == forward[k]);
    }
  }
  weft_scope_discard(s);
}

/* By logarithms: log of 1 / x. In f32 most draws of such a shape are 0, and their logarithms are not. */
TEST(the_logarithm_of_a_gamma_draw_moves_with_its_shape_as_that_of_the_quantile_does) {
  weft_scope *s = weft_scope_open();
  static const double shape[] = { 0.05, 0.4, 1, 3, 20000 };
  for (int i = 0; i < 5; i++) {
    weft_array *a = f64_of(shape[i]), *da, *dy, *one = f64_of(1);
    weft_array *y = weft_neg(weft_log(weft_random_invgamma(weft_random_key((uint64_t)i), NULL, a, NULL)));
    weft_grad(y, 1, &a, &da);
    weft_jvp(1, &a, &one, 1, &y, &dy);
    double x = exp(one_f64(y)), want = quantile_slope(shape[i], x) / x;
    EXPECT_NEAR(one_f64(da) / want, 1, 1e-7);
    EXPECT_NEAR(one_f64(da) / one_f64(dy), 1, 1e-15);
  }
  weft_array *a = weft_from(WEFT_F32, 0, NULL, (float[]){ 0.004f }), *like = weft_full(WEFT_F32, WEFT_DIMS(1000), 0), *da;
  weft_grad(weft_sum(weft_random_gamma(weft_random_key(3), like, a, NULL), WEFT_ALL), 1, &a, &da);
  EXPECT(isfinite(one_f64(weft_cast(da, WEFT_F64))));
  weft_array *wide = weft_full(WEFT_F32, WEFT_DIMS(1000, 3), 0), *alpha = weft_broadcast(weft_reshape(a, WEFT_DIMS(1)), WEFT_DIMS(3));
  weft_array *first = weft_slice(weft_random_dirichlet(weft_random_key(4), wide, alpha), 1, 0, 1, 1);
  weft_grad(weft_sum(weft_mul(first, first), WEFT_ALL), 1, &a, &da);
  EXPECT(isfinite(one_f64(weft_cast(da, WEFT_F64))));
  weft_scope_discard(s);
}

/* Along the curve on which P(a, x) stays. */
TEST(second_derivatives_of_gamma_draws_are_those_of_the_quantile) {
  weft_scope *s = weft_scope_open();
  static const double shape[] = { 0.3, 0.8, 1.4, 6, 300 };
  for (int i = 0; i < 5; i++) {
    weft_array *a = f64_of(shape[i]), *y = weft_random_gamma(weft_random_key((uint64_t)i), NULL, a, NULL), *da, *second;
    weft_grad(y, 1, &a, &da);
    weft_grad(da, 1, &a, &second);
    double x = one_f64(y), slope = quantile_slope(shape[i], x), h = 1e-3 * shape[i], to = quantile_slope(shape[i] + h, x + slope * h);
    double from = quantile_slope(shape[i] - h, x - slope * h), want = (to - from) / (2 * h);
    EXPECT_NEAR(one_f64(second), want, 2e-3 * (fabs(want) + 1e-3));
  }
  weft_scope_discard(s);
}

/* d E f / da = E df / da: the mean of beta(a, b) is a / (a + b), its derivative b / (a + b)^2; a gamma draw's is its shape. */
TEST(gradients_of_means_are_means_of_gradients) {
  weft_scope *s = weft_scope_open();
  static const double shape[] = { 0.3, 0.8, 2, 6 };
  for (int i = 0; i < 4; i++) {
    double p = shape[i], want = 1.5 / ((p + 1.5) * (p + 1.5));
    weft_array *a = f64_of(p), *like = weft_full(WEFT_F64, WEFT_DIMS(100000), 0), *da;
    weft_grad(weft_mean(weft_random_beta(weft_random_key(5), like, a, S(1.5)), WEFT_ALL), 1, &a, &da);
    EXPECT_NEAR(one_f64(da), want, 4e-3);
    weft_grad(weft_mean(weft_random_gamma(weft_random_key(6), like, a, NULL), WEFT_ALL), 1, &a, &da);
    EXPECT_NEAR(one_f64(da), 1, 1e-2);
    weft_array *alpha = weft_stack(0, 3, (weft_array *[]){ a, f64_of(1), f64_of(2) }), *wide = weft_full(WEFT_F64, WEFT_DIMS(100000, 3), 0);
    weft_array *first = weft_slice(weft_random_dirichlet(weft_random_key(7), wide, alpha), 1, 0, 1, 1);
    weft_grad(weft_mean(first, WEFT_ALL), 1, &a, &da);
    EXPECT_NEAR(one_f64(da), 3 / ((p + 3) * (p + 3)), 4e-3);
  }
  weft_scope_discard(s);
}

TEST(whole_draws_have_no_derivative) {
  weft_scope *s = weft_scope_open();
  weft_array *m = f64_of(3), *dm, *y = weft_random_poisson(weft_random_key(1), weft_full(WEFT_F64, WEFT_DIMS(5), 0), m);
  weft_grad(y, 1, &m, &dm);
  EXPECT(one_f64(dm) == 0);
  weft_scope_discard(s);
}

/* ---- Nonsense ---- */

TEST(parameters_that_make_no_sense_give_nan_or_minus_one) {
  weft_scope *s = weft_scope_open();
  static const double odd[] = { -1, NAN, 0, INFINITY, 2 };
  weft_array *p = f64s(5, odd), *key = weft_random_key(1);
  double y[5];
  read_f64(weft_random_gamma(key, NULL, p, NULL), 5, y);
  EXPECT(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && y[4] > 0);
  read_f64(weft_cast(weft_random_poisson(key, NULL, p), WEFT_F64), 5, y);
  EXPECT(y[0] == -1 && y[1] == -1 && y[2] == 0 && y[3] == -1 && y[4] >= 0);
  read_f64(weft_cast(weft_random_binomial(key, NULL, p, NULL), WEFT_F64), 5, y);
  EXPECT(y[0] == -1 && y[1] == -1 && y[2] == 0 && y[3] == -1 && y[4] >= 0 && y[4] <= 2);
  read_f64(weft_random_poisson(key, weft_full(WEFT_F64, WEFT_DIMS(5), 0), p), 5, y);
  EXPECT(isnan(y[0]) && isnan(y[1]));
  read_f64(weft_random_f(key, NULL, p, p), 5, y); /* of no end of degrees of freedom each square is 1 */
  EXPECT(isnan(y[0]) && isnan(y[1]) && isnan(y[2]) && y[3] == 1 && y[4] > 0);
  weft_array *bad = weft_random_gamma(key, NULL, S(-2), NULL);
  EXPECT_INT(weft_check(bad), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_random_gamma: a is -2, not above 0");
  bad = weft_random_poisson(key, NULL, S(INFINITY));
  EXPECT_INT(weft_check(bad), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_random_poisson: mean is inf, not in [0, inf)");
  bad = weft_random_negative_binomial(key, NULL, S(INFINITY), S(0.5));
  EXPECT_INT(weft_check(bad), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_random_negative_binomial: n is inf, not in (0, inf)");
  bad = weft_random_weibull(key, NULL, NULL, NULL);
  EXPECT_INT(weft_check(bad), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_random_weibull: a is NULL");
  bad = weft_random_categorical(key, NULL, S(1), 0);
  EXPECT_INT(weft_check(bad), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_random_categorical: logits is a number and has no axis");
  read_f64(weft_cast(weft_random_hypergeometric(key, weft_full(WEFT_I64, 0, NULL, 0), S(0x1p50), S(0x1p50), S(0x1p50)), WEFT_F64), 1, y);
  EXPECT(y[0] == -1); /* too many steps */
  weft_scope_discard(s);
}

/* ---- What is refused ---- */

/* By the function that was called, in its own name. */
static void refused(int line, const char *call, weft_status status, weft_array *x) {
  size_t n = strcspn(call, "(");
  weft_status is = weft_check(x);
  bool is_named = is == WEFT_OK || strncmp(call, "weft_", 5) || (!strncmp(weft_message(), call, n) && weft_message()[n] == ':');
  if (is != status || !is_named) test_fail(__FILE__, line, "%s: status %d, not %d: %s", call, (int)is, (int)status, weft_message());
}
#define REFUSED(status, x) refused(__LINE__, #x, status, x)

/* How often each of two was drawn, by rows of p. */
static void expect_pairs(int line, weft_array *counts, const int32_t want[], int n) {
  int32_t got[16];
  EXPECT_OK(weft_read(counts, WEFT_I32, got, sizeof *got * (size_t)(2 * n)));
  for (int k = 0; k < 2 * n; k++)
    if (got[k] != want[k]) test_fail(__FILE__, line, "count %d is %d, not %d", k, got[k], want[k]);
}

TEST(multinomial_draws_refuse_what_is_no_count_and_say_so_of_what_are_no_shares) {
  weft_scope *s = weft_scope_open();
  double p[] = { 2, -1, -1, 2, 0, 2, NAN, 1, 1, INFINITY, 0, 0.3, 0.7, 0, 0.5, 0.5 }, n[] = { -1, 0x1p54, NAN, 2.75 }, even[] = { 0, 1 };
  weft_array *key = weft_random_key(1), *shares = weft_from(WEFT_F64, WEFT_DIMS(8, 2), p);
  REFUSED(WEFT_ERR_ARG, weft_random_multinomial(key, NULL, weft_integer(-3), shares));
  REFUSED(WEFT_ERR_ARG, weft_random_multinomial(key, NULL, S(1e300), shares));
  REFUSED(WEFT_ERR_ARG, weft_random_multinomial(key, NULL, S(NAN), shares));
  expect_pairs(__LINE__, weft_random_multinomial(key, NULL, weft_integer(9), weft_slice(shares, 0, 0, 7, 1)),
               (int32_t[]){ -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 9, 9, 0 }, 7);
  expect_pairs(__LINE__, weft_random_multinomial(key, NULL, weft_integer(0), shares),
               (int32_t[]){ -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0 }, 8);
  weft_array *like = weft_full(WEFT_I32, WEFT_DIMS(4, 2), 0);
  expect_pairs(__LINE__, weft_random_multinomial(key, like, f64s(4, n), f64s(2, even)), (int32_t[]){ -1, -1, -1, -1, -1, -1, 0, 2 }, 4);
  weft_scope_discard(s);
}

TEST(categorical_draws_of_nothing_are_minus_one) {
  weft_scope *s = weft_scope_open();
  double x[] = { NAN, 1, -INFINITY, -INFINITY, 3, -INFINITY, -INFINITY, INFINITY };
  int32_t got[4];
  EXPECT_OK(weft_read(weft_random_categorical(weft_random_key(1), NULL, weft_from(WEFT_F64, WEFT_DIMS(4, 2), x), -1), WEFT_I32, got, sizeof got));
  EXPECT(got[0] == -1 && got[1] == -1 && got[2] == 0 && got[3] == 1);
  weft_scope_discard(s);
}

TEST(choices_refuse_chances_that_are_none) {
  weft_scope *s = weft_scope_open();
  weft_array *key = weft_random_key(1), *x = weft_iota(weft_full(WEFT_I32, WEFT_DIMS(3), 0), 0), *two = weft_full(WEFT_I32, WEFT_DIMS(2), 0);
  static const double none[][3] = { { 0, 0, 0 }, { 1, -1, 1 }, { 1, NAN, 1 }, { 1, INFINITY, 1 }, { 1e308, 1e308, 0 } };
  for (int k = 0; k < 5; k++)
    for (int is_once = 0; is_once < 2; is_once++) {
      weft_array *y = weft_random_choice(key, two, x, f64s(3, none[k]), is_once);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ARG);
      EXPECT(!strncmp(weft_message(), "weft_random_choice: ", 20));
    }
  weft_array *p = f64s(3, (double[]){ 0, 2, 0 }), *y = weft_random_choice(key, two, x, p, 1);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_random_choice: fewer p are above 0 than different rows are drawn");
  EXPECT_F64(weft_cast(weft_random_choice(key, two, x, p, 0), WEFT_F64), 1, 1);
  EXPECT_F64(weft_cast(weft_random_choice(key, NULL, x, p, 1), WEFT_F64), 1);
  EXPECT_OK(weft_check(weft_random_choice(key, weft_slice(two, 0, 0, 0, 1), x, f64s(3, none[0]), 0))); /* nothing is drawn */
  weft_scope_discard(s);
}

TEST(vectors_and_covariances_that_do_not_fit_are_named) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_random_multivariate_normal(weft_random_key(1), NULL, weft_full(WEFT_F32, WEFT_DIMS(2), 0), weft_full(WEFT_F32, WEFT_DIMS(1, 1), 1));
  REFUSED(WEFT_ERR_SHAPE, y);
  EXPECT(strstr(weft_message(), "weft_random_multivariate_normal: mean [2] and cov [1,1]"));
  weft_scope_discard(s);
}

TEST(draws_along_an_axis_refuse_complex_numbers_and_what_has_no_axis_wherever_they_stand) {
  weft_scope *s = weft_scope_open();
  double p[] = { 0.25, 0.75 };
  weft_array *key = weft_random_key(1), *real = f64s(2, p), *complex = weft_complex(real, real), *zero_d = weft_cast(S(1), WEFT_F64);
  weft_array *like = weft_full(WEFT_I32, WEFT_DIMS(5, 2), 0), *complex_like = weft_complex(weft_full(WEFT_F64, WEFT_DIMS(5, 2), 0), S(0));
  REFUSED(WEFT_OK, weft_random_multinomial(key, like, weft_integer(3), real));
  REFUSED(WEFT_ERR_DTYPE, weft_random_multinomial(key, like, weft_complex(S(3), S(0)), real));
  REFUSED(WEFT_ERR_DTYPE, weft_random_multinomial(key, like, weft_integer(3), complex));
  REFUSED(WEFT_ERR_DTYPE, weft_random_multinomial(key, complex_like, weft_integer(3), real));
  REFUSED(WEFT_ERR_SHAPE, weft_random_multinomial(key, like, weft_integer(3), zero_d));
  REFUSED(WEFT_ERR_SHAPE, weft_random_multinomial(key, zero_d, weft_integer(3), real));
  REFUSED(WEFT_ERR_DTYPE, weft_random_dirichlet(key, NULL, complex));
  REFUSED(WEFT_ERR_DTYPE, weft_random_dirichlet(key, complex_like, real));
  REFUSED(WEFT_ERR_DTYPE, weft_random_dirichlet(key, like, real));
  REFUSED(WEFT_ERR_SHAPE, weft_random_dirichlet(key, NULL, zero_d));
  REFUSED(WEFT_ERR_SHAPE, weft_random_dirichlet(key, zero_d, real));
  REFUSED(WEFT_ERR_DTYPE, weft_random_categorical(key, NULL, complex, -1));
  REFUSED(WEFT_ERR_SHAPE, weft_random_categorical(key, NULL, real, 1));
  REFUSED(WEFT_ERR_SHAPE, weft_random_categorical(key, NULL, zero_d, 0));
  weft_scope_discard(s);
}

/* A key says what is drawn, today and later: what a distribution does with its words is part of what it promises. */
#define ONE(name, a) { #name, weft_random_##name(key, like, weft_scalar(a)) }
#define TWO(name, a, b) { #name, weft_random_##name(key, like, weft_scalar(a), weft_scalar(b)) }
#define THREE(name, a, b, c) { #name, weft_random_##name(key, like, weft_scalar(a), weft_scalar(b), weft_scalar(c)) }
TEST(draws_of_a_key_stay_what_they_are) {
  static const double want[][3] = {
    { 3.1784690701147937, 3.319501117528894, 3.4436855184158253 },
    { 0.044724322648364477, 0.10770237494931192, 0.16350493274212269 },
    { 0.78353660154206783, 0.99722217740218921, 1.2285798800631786 },
    { 1.5439375028437947, 1.3027816879067577, 1.0941410666983202 },
    { 1.4968049126947431, 1.738564756449485, 1.968875323037762 },
    { 2.245002221340656, 2.4356014200351987, 2.6140833614784005 },
    { 1.4824978203762034, 1.256422768427349, 1.0765317527734508 },
    { 0.12907776030040108, 0.51632604141908334, 0.84975743479849974 },
    { 1.1357097012395732, 1.3935910467418746, 1.6255538428691625 },
    { 1.7000709046705009, 1.3826033912454014, 1.1180816920756542 },
    { 3.819056339157056, 3.4188708970001049, 3.1215644811216321 },
    { 1.9978688062998486, 2.1531773461248598, 2.2913607735944521 },
    { 1.2581312773531796, 1.3901971916862572, 1.5104092489830219 },
    { 2.3618821857898507, 2.4261873717418903, 2.4890748751158283 },
    { 2.3007179251621692, 2.4073188530240701, 2.5049533218120548 },
    { 1.2810448751796322, 2.2523356531044301, 6.872253777179564 },
    { 4.3398789364076702, 1.6743106105429246, 5.4696317032366784 },
    { 0.086022313697792507, 0.026127243144371367, 0.23774570581477192 },
    { 0.92168469641943418, 2.3890429737543917, 0.73131066532925482 },
    { 2.0029641804615212, 0.72032817988775788, 2.5034817126156881 },
    { 2.3381373696473631, 0.58288347322191636, 3.1911284041256835 },
    { 0.3589822309980964, 0.15429540463942082, 0.35191416044054935 },
    { -0.92745427620490117, 2.6917336762395578, 3.0694666529579244 },
    { 0.83958574606401404, 0.28933605252167965, 0.81237307323332031 },
    { 0.97663099600825909, 0.17184723559991588, -0.70787079625821137 },
    { 2, 3, 3 },
    { 40, 31, 43 },
    { 3, 3, 3 },
    { 160, 146, 164 },
    { 3, 3, 3 },
    { 6, 9, 12 },
    { 15, 12, 7 },
    { 4, 8, 7 },
  };
  weft_scope *s = weft_scope_open();
  weft_array *key = weft_random_key(20), *like = weft_full(WEFT_F64, WEFT_DIMS(3), 0);
  struct { const char *name; weft_array *draws; } all[] = {
    TWO(uniform, 2, 5), TWO(truncated_normal, -0.5, 1), TWO(lognormal, 0.3, 2), TWO(halfnormal, 1, 2), ONE(exponential, 3),
    THREE(truncexpon, 2, 1, 3), TWO(laplace, 1, 2), TWO(logistic, 1, 2), TWO(gumbel, 1, 2), TWO(cauchy, 1, 2), TWO(halfcauchy, 1, 2),
    ONE(rayleigh, 2), TWO(weibull, 1.5, 2), TWO(pareto, 3, 2), THREE(triangular, 1, 2, 5), TWO(wald, 2, 3), TWO(gamma, 2.5, 2),
    TWO(gamma, 0.3, 2), TWO(invgamma, 2.5, 2), THREE(gengamma, 2, 1.5, 2), ONE(chisquare, 3), TWO(beta, 2, 3), THREE(studentt, 5, 1, 2),
    TWO(f, 4, 7), TWO(vonmises, 0.3, 2), ONE(poisson, 3), ONE(poisson, 40), TWO(binomial, 10, 0.3), TWO(binomial, 400, 0.4),
    ONE(geometric, 0.2), TWO(negative_binomial, 4, 0.3), THREE(betabinomial, 20, 2, 3), THREE(hypergeometric, 30, 20, 12),
  };
  EXPECT_INT(sizeof all / sizeof *all, sizeof want / sizeof *want);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    double got[3];
    EXPECT_OK(weft_read(all[i].draws, WEFT_F64, got, sizeof got));
    for (int k = 0; k < 3; k++)
      if (!(fabs(got[k] - want[i][k]) <= 1e-9 * fabs(want[i][k])))
        test_fail(__FILE__, __LINE__, "%s: draw %d is %.17g, not %.17g", all[i].name, k, got[k], want[i][k]);
  }
  weft_scope_discard(s);
}

/* Likewise of draws along an axis, in the dtype they are asked for and computed in. */
TEST(draws_along_an_axis_stay_what_they_are) {
  static const double want[][3] = {
    { 0.038245346371839448, 0.43863527009712305, 0.52311938353103737 },
    { 0.038245346371839448, 0.43863527009712305, 0.52311938353103737 },
    { 0.50729227148120515, -2.1663527916577778, 0.74923578166449911 },
    { 11, 33, 56 },
    { 2, 2, 2 },
    { 8.6892569015617482e-06, 0.55273151397705078, 0.44725987315177917 },
    { 8.6892569015617482e-06, 0.55273151397705078, 0.44725987315177917 },
    { -2.793724536895752, -3.6562018394470215, -0.70826280117034912 },
    { 11, 33, 56 },
    { 1, 2, 2 },
  };
  double alpha[] = { 0.5, 2, 3 }, mean[] = { 1, -2, 0 }, cov[] = { 2, 0.5, 0, 0.5, 1, 0.25, 0, 0.25, 3 };
  weft_scope *s = weft_scope_open();
  int n = 0;
  for (int k = 0; k < 2; k++) {
    weft_dtype t = k ? WEFT_F32 : WEFT_F64;
    weft_array *key = weft_random_key(21), *like = weft_full(t, WEFT_DIMS(3), 0), *p = weft_cast(f64s(3, alpha), t);
    weft_array *m = weft_cast(f64s(3, mean), t), *c = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(3, 3), cov), t);
    struct { const char *name; weft_array *draws; } all[] = {
      { "dirichlet", weft_random_dirichlet(key, like, p) },
      { "dirichlet of its own shape", weft_random_dirichlet(key, NULL, p) },
      { "multivariate_normal", weft_random_multivariate_normal(key, like, m, c) },
      { "multinomial", weft_random_multinomial(key, like, weft_integer(100), weft_div(p, weft_scalar(5.5))) },
      { "categorical", weft_random_categorical(key, weft_full(WEFT_I32, WEFT_DIMS(3), 0), p, -1) },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++, n++) {
      double got[3];
      EXPECT_OK(weft_read(weft_cast(all[i].draws, WEFT_F64), WEFT_F64, got, sizeof got));
      for (int j = 0; j < 3; j++)
        if (!(fabs(got[j] - want[n][j]) <= (k ? 2e-7 : 1e-9) * fabs(want[n][j])))
          test_fail(__FILE__, __LINE__, "%s of %s: draw %d is %.17g, not %.17g", all[i].name, weft_dtype_name(t), j, got[j], want[n][j]);
    }
  }
  EXPECT_INT(n, sizeof want / sizeof *want);
  weft_scope_discard(s);
}
