/* order.c -- ranks along an axis: the largest, partitions, medians and quantiles; orders that are drawn. Values of every dtype
 * and layout are in every_op.c and program_rows.h, and python/test/test_order.py has NumPy beside them. */
#include <math.h>
#include <stdlib.h>
#include "op/digits.h"
#include "op/quick.h"
#include "test.h"
#include "values.h"

enum { MANY = 50000 };

#define EXPECT_I64(a, ...)                                                                     \
  do {                                                                                         \
    int64_t want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_];                     \
    EXPECT_OK(weft_read(a, WEFT_I64, got_, sizeof got_));                                      \
    for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++) EXPECT_INT(got_[i_], want_[i_]); \
  } while (0)

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Rows on which narrowing down goes wrong if it can: of few values, of one, of two far apart, in order, with powers of 2. */
static double *hard_row(int which) {
  double *x = malloc(sizeof *x * MANY);
  uint32_t state = 7;
  for (int i = 0; i < MANY; i++) {
    state = state * 1664525 + 1013904223;
    double u = (double)state / 0x1p32;
    switch (which) {
      case 0: x[i] = u; break;
      case 1: x[i] = floor(4 * u); break;
      case 2: x[i] = 3; break;
      case 3: x[i] = u < 0.5 ? -1e300 : 1e300; break;
      case 4: x[i] = i; break;
      case 5: x[i] = -i; break;
      case 6: x[i] = ldexp(u, (int)(state % 600) - 300); break;
      default: x[i] = i == 777 ? INFINITY : u; break;
    }
  }
  return x;
}

TEST(ranks_of_hard_rows_are_those_of_the_sorted_row) {
  for (int which = 0; which < 8; which++) {
    weft_scope *s = weft_scope_open();
    double *x = hard_row(which), top[100], middle, low, cut;
    weft_array *a = f64s(MANY, x), *all[] = { weft_topk(a, 0, 100), weft_median(a, 0), weft_slice(weft_partition(a, 0, 17), 0, 17, 18, 1),
                                              weft_slice(weft_partition(a, 0, -3), 0, -3, -2, 1) };
    EXPECT_OK(weft_eval(4, all));
    EXPECT_OK(weft_read(all[0], WEFT_F64, top, sizeof top));
    EXPECT_OK(weft_read(all[1], WEFT_F64, &middle, sizeof middle));
    EXPECT_OK(weft_read(all[2], WEFT_F64, &low, sizeof low));
    EXPECT_OK(weft_read(all[3], WEFT_F64, &cut, sizeof cut));
    qsort(x, MANY, sizeof *x, by_value);
    for (int k = 0; k < 100; k++) EXPECT(top[k] == x[MANY - 1 - k]);
    EXPECT(middle == (x[MANY / 2 - 1] == x[MANY / 2] ? x[MANY / 2] : (x[MANY / 2 - 1] + x[MANY / 2]) / 2));
    EXPECT(low == x[17] && cut == x[MANY - 3]);
    free(x);
    weft_scope_discard(s);
  }
}

SCOPED(a_partition_keeps_each_side_as_it_stood) {
  double x[] = { 5, 1, NAN, 3, -0.0, 0, 3, -2 };
  weft_array *a = f64s(8, x);
  EXPECT_F64(weft_partition(weft_slice(a, 0, 3, 8, 1), 0, 2), -0.0, -2, 0, 3, 3);
  EXPECT_I64(weft_argpartition(a, 0, 4), 1, 4, 5, 7, 3, 0, 2, 6);
  EXPECT_I64(weft_argpartition(a, -1, -1), 0, 1, 3, 4, 5, 6, 7, 2);
  EXPECT_I64(weft_argpartition(a, 0, 1), 7, 4, 0, 1, 2, 3, 5, 6);
  EXPECT_I64(weft_argpartition(a, 0, 2), 4, 7, 5, 0, 1, 2, 3, 6);
}

SCOPED(a_partition_has_minus_0_before_0_in_every_float) {
  static const weft_dtype types[] = { WEFT_E4M3, WEFT_E5M2, WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64 };
  double x[] = { 1, 0, -2, -0.0, 0, 3, -0.0 };
  for (int i = 0; i < 6; i++) {
    weft_array *a = weft_cast(f64s(7, x), types[i]);
    EXPECT_I64(weft_argpartition(a, 0, 2), 2, 3, 6, 0, 1, 4, 5);
    EXPECT_I64(weft_argpartition(a, 0, 3), 2, 3, 6, 1, 0, 4, 5);
  }
}

SCOPED(a_function_selects_from_what_it_is_given_of_any_length) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_array *out[] = { weft_topk(in, 0, 2), weft_median(in, 0), weft_quantile(in, weft_scalar(0.25), 0, WEFT_LINEAR), weft_partition(in, 0, 1) }, *y[4];
  weft_function *f = weft_compile(body, 1, &in, 4, out);
  weft_array *x = f64s(5, (double[]){ 4, 0, 8, 2, 6 });
  weft_call(f, 1, &x, 4, y);
  EXPECT_F64(y[0], 8, 6);
  EXPECT_F64(y[1], 4);
  EXPECT_F64(y[2], 2);
  EXPECT_F64(y[3], 0, 2, 4, 8, 6);
  weft_array *one = f64s(1, (double[]){ 3 });
  weft_call(f, 1, &one, 4, y);
  EXPECT_INT(weft_eval(1, y), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_topk: the bounds do not fit an axis of [1]");
}

SCOPED(a_function_of_any_length_gives_the_median_of_one_and_of_none) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = weft_median(in, 0), *y;
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_array *x = f64s(3, (double[]){ 3, 9, 4 });
  for (int n = 3; n >= 0; n--) {
    weft_array *some = weft_slice(x, 0, 0, n, 1);
    weft_call(f, 1, &some, 1, &y);
    double got;
    EXPECT_OK(weft_read(y, WEFT_F64, &got, sizeof got));
    static const double want[] = { 0, 3, 6, 4 };
    EXPECT(n ? got == want[n] : isnan(got));
  }
}

SCOPED(what_makes_no_sense_is_named) {
  weft_array *x = f64s(3, (double[]){ 1, 2, 3 }), *key = weft_random_key(1), *p = f64s(2, (double[]){ 1, 2 });
#define REFUSED(array, status, text) EXPECT_INT(weft_check(array), status); EXPECT_TEXT(weft_message(), text)
  REFUSED(weft_topk(x, 0, 4), WEFT_ERR_SHAPE, "weft_topk: k is 4, beyond axis 0 of [3]");
  REFUSED(weft_argtopk(x, 0, -1), WEFT_ERR_ARG, "weft_argtopk: k is -1");
  REFUSED(weft_partition(x, 0, 3), WEFT_ERR_SHAPE, "weft_partition: k is 3, beyond axis 0 of [3]");
  REFUSED(weft_argpartition(x, 1, 0), WEFT_ERR_SHAPE, "weft_argpartition: there is no axis 1 in [3]");
  REFUSED(weft_median(weft_full(WEFT_C64, WEFT_DIMS(2), 1), 0), WEFT_ERR_DTYPE, "weft_median: not of c64");
  REFUSED(weft_quantile(x, weft_scalar(1.5), 0, WEFT_LINEAR), WEFT_ERR_ARG, "weft_quantile: q is 1.5, not in [0, 1]");
  REFUSED(weft_nanquantile(x, weft_scalar(NAN), 0, WEFT_LINEAR), WEFT_ERR_ARG, "weft_nanquantile: q is nan, not in [0, 1]");
  REFUSED(weft_quantile(x, weft_scalar(0.5), 0, (weft_quantile_method)99), WEFT_ERR_ARG, "weft_quantile: there is no method 99");
  REFUSED(weft_random_choice(key, weft_full(WEFT_I32, WEFT_DIMS(4), 0), x, NULL, 1), WEFT_ERR_SHAPE, "weft_random_choice: 4 different rows of [3]");
  REFUSED(weft_random_choice(key, NULL, x, p, 0), WEFT_ERR_SHAPE, "weft_random_choice: p [2] of x [3]");
  REFUSED(weft_random_choice(key, NULL, weft_slice(x, 0, 0, 0, 1), NULL, 0), WEFT_ERR_SHAPE, "weft_random_choice: there is nothing to choose from in [0]");
  REFUSED(weft_random_permutation(x, x, 0), WEFT_ERR_ARG, "weft_random_permutation: a key is u32 [2], not f64 [3]; see weft_random_key");
}

SCOPED(quantiles_of_arrays_outside_of_0_to_1_are_nan) {
  weft_array *x = f64s(4, (double[]){ 4, NAN, 1, 2 }), *q = f64s(4, (double[]){ 0, 1, -0.1, 0.5 });
  weft_array *without = weft_nanquantile(x, q, 0, WEFT_LINEAR);
  EXPECT_F64(weft_where(weft_isnan(without), weft_scalar(-9), without), 1, 4, -9, 2);
  EXPECT_F64(weft_cast(weft_isnan(weft_quantile(x, q, 0, WEFT_LINEAR)), WEFT_F64), 1, 1, 1, 1);
  EXPECT_F64(weft_nanmedian(x, 0), 2);
  EXPECT_F64(weft_cast(weft_isnan(weft_median(weft_slice(x, 0, 1, 2, 1), 0)), WEFT_F64), 1);
}

/* More axes than a kernel takes indices: those beside the one that is taken along are one. */
SCOPED(elements_are_taken_along_one_of_many_axes) {
  enum { RANK = 11 };
  int64_t dims[RANK] = { 2, 1, 3, 1, 2, 1, 1, 2, 1, 1, 5 }, last[] = { 24, 5 };
  double v[120];
  for (int i = 0; i < 120; i++) v[i] = i % 7 == 3 ? NAN : (double)(i * 37 % 101);
  weft_array *x = weft_from(WEFT_F64, RANK, dims, v), *flat = weft_from(WEFT_F64, 2, last, v);
  weft_array *many = weft_nanmedian(x, -1), *two = weft_nanmedian(flat, -1), *dx, *dflat;
  EXPECT_SAME(weft_reshape(many, WEFT_DIMS(24)), weft_reshape(two, WEFT_DIMS(24)));
  weft_array *f = weft_where(weft_isnan(x), weft_scalar(0), x), *g = weft_where(weft_isnan(flat), weft_scalar(0), flat);
  EXPECT_SAME(weft_reshape(weft_median(weft_moveaxis(f, 0, -1), -1), WEFT_DIMS(60)),
              weft_reshape(weft_median(weft_moveaxis(weft_reshape(f, WEFT_DIMS(2, 60)), 0, -1), -1), WEFT_DIMS(60)));
  weft_array *w = weft_arange(WEFT_F64, 0, 5, 1), *y = weft_sum(weft_mul(weft_sort(f, -1), w), WEFT_ALL), *z = weft_sum(weft_mul(weft_sort(g, -1), w), WEFT_ALL);
  weft_grad(y, 1, &f, &dx);
  weft_grad(z, 1, &g, &dflat);
  EXPECT_SAME(weft_reshape(dx, WEFT_DIMS(120)), weft_reshape(dflat, WEFT_DIMS(120)));
  weft_array *first = weft_full(WEFT_I64, RANK, (int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 1), *at = weft_take_along(f, 2, first), *put;
  EXPECT_SAME(weft_reshape(at, WEFT_DIMS(40)), weft_reshape(weft_slice(f, 2, 1, 2, 1), WEFT_DIMS(40)));
  put = weft_put(f, at, weft_scalar(9), WEFT_SET);
  EXPECT_SAME(weft_slice(put, 2, 1, 2, 1), weft_full(WEFT_F64, RANK, (int64_t[]){ 2, 1, 1, 1, 2, 1, 1, 2, 1, 1, 5 }, 9));
  EXPECT_SAME(weft_slice(put, 2, 2, 3, 1), weft_slice(f, 2, 2, 3, 1));
}

SCOPED(draws_by_order_are_permutations) {
  weft_array *key = weft_random_key(5), *x = weft_arange(WEFT_I64, 0, 1000, 1), *m = weft_reshape(x, WEFT_DIMS(10, 100));
  EXPECT_INT(weft_check(weft_random_permutation(key, x, 0)), WEFT_OK);
  weft_array *all[] = { weft_all(weft_eq(weft_sort(weft_random_permutation(key, x, 0), 0), x), WEFT_ALL),
                        weft_all(weft_eq(weft_sort(weft_random_shuffle(key, m, 1), 1), m), WEFT_ALL),
                        weft_all(weft_eq(weft_sort(weft_random_choice(key, x, x, NULL, 1), 0), x), WEFT_ALL),
                        weft_any(weft_ne(weft_random_shuffle(key, m, 1), m), WEFT_ALL) };
  uint8_t is[4];
  for (int k = 0; k < 4; k++) {
    EXPECT_OK(weft_read(all[k], WEFT_BOOL, is + k, 1));
    EXPECT(is[k]);
  }
}

/* More rows than a network sorts side by side, of no elements, and no memory behind them. */
SCOPED(rows_of_nothing_are_sorted) {
  static const weft_dtype dtypes[] = { WEFT_I8, WEFT_U16, WEFT_F32, WEFT_F64, WEFT_I64 };
  for (int k = 0; k < 5; k++) {
    weft_array *x = weft_full(dtypes[k], WEFT_DIMS(7, 0, 5), 0), *y[] = { weft_argsort(x, 1), weft_sort(x, -2), weft_median(x, 1) };
    weft_array *z = weft_ne(y[0], y[0]);
    EXPECT_OK(weft_eval(3, y));
    EXPECT_OK(weft_eval(1, &z));
    EXPECT_INT(weft_dim(z, 1), 0);
  }
}

/* ---- short rows ---- */

/* Whether element i of a row of dtype t comes before element k: NaN last, -0 before 0, else by value, then as they stand. */
static bool comes_before(weft_dtype t, const void *row, const double *as_f64, int i, int k) {
  if (t == WEFT_I64 && ((const int64_t *)row)[i] != ((const int64_t *)row)[k]) return ((const int64_t *)row)[i] < ((const int64_t *)row)[k];
  if (t == WEFT_U64 && ((const uint64_t *)row)[i] != ((const uint64_t *)row)[k]) return ((const uint64_t *)row)[i] < ((const uint64_t *)row)[k];
  double x = as_f64[i], y = as_f64[k];
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? i < k : isnan(y);
  if (x != y) return x < y;
  if (signbit(x) != signbit(y)) return signbit(x);
  return i < k;
}

/* Rows of random bits, of a few patterns that are near an edge, and of few values; NaN of any payload among them. */
static void random_rows(weft_dtype t, size_t bytes, int n, uint8_t *x) {
  static uint64_t state = 88172645463325252u;
  for (int i = 0; i < n; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    uint64_t bits = state >> 20, sign = (uint64_t)1 << (8 * bytes - 1);
    if (state % 4 == 0) bits = state % 8 ? sign * (state >> 8 & 1) : (sign - 1) ^ (state >> 9 & 3);
    if (state % 4 == 1) bits = state >> 10 & 3;
    if (state % 4 == 2) bits <<= 20;
    if (t == WEFT_BOOL) bits &= 1;
    memcpy(x + (size_t)i * bytes, &bits, bytes);
  }
}

TEST(short_rows_of_every_dtype_are_in_their_one_order) {
  enum { ROWS = 41, MOST = 70 };
  static const weft_dtype types[] = { WEFT_BOOL, WEFT_U8, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_I32, WEFT_U64, WEFT_I64,
                                      WEFT_E4M3, WEFT_E5M2, WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64 };
  static uint8_t x[8 * ROWS * MOST], y[8 * ROWS * MOST], both[8 * ROWS * MOST];
  static double as_f64[ROWS * MOST];
  static int64_t at[ROWS * MOST], again[ROWS * MOST];
  test_watchdog(200);
  for (int i = 0; i < 15 * MOST; i++) {
    weft_scope *scope = weft_scope_open();
    weft_dtype t = types[i / MOST];
    int n = i % MOST + 1, wrong = 0;
    size_t size = weft_dtype_bytes(t), bytes = size * (size_t)(ROWS * n);
    random_rows(t, size, ROWS * n, x);
    weft_array *a = weft_from(t, WEFT_DIMS(ROWS, n), x), *pair[] = { weft_sort(a, 1), weft_argsort(a, 1) };
    EXPECT_OK(weft_read(weft_cast(a, WEFT_F64), WEFT_F64, as_f64, sizeof *as_f64 * (size_t)(ROWS * n)));
    EXPECT_OK(weft_read(weft_sort(a, 1), t, y, bytes));
    EXPECT_OK(weft_read(weft_argsort(a, 1), WEFT_I64, at, sizeof *at * (size_t)(ROWS * n)));
    EXPECT_OK(weft_eval(2, pair));
    EXPECT_OK(weft_read(pair[0], t, both, bytes));
    EXPECT_OK(weft_read(pair[1], WEFT_I64, again, sizeof *at * (size_t)(ROWS * n)));
    EXPECT(!memcmp(y, both, bytes) && !memcmp(at, again, sizeof *at * (size_t)(ROWS * n)));
    for (int k = 0; k < ROWS * n; k++) {
      const uint8_t *row = x + (size_t)(k / n * n) * size;
      wrong += at[k] < 0 || at[k] >= n || memcmp(y + (size_t)k * size, row + (size_t)at[k] * size, size) != 0;
      wrong += k % n && !wrong && !comes_before(t, row, as_f64 + k / n * n, (int)at[k - 1], (int)at[k]);
    }
    if (wrong) test_fail(__FILE__, __LINE__, "rows of %d of %s", n, weft_dtype_name(t));
    weft_scope_discard(scope);
  }
}

/* Bytes are counted; of two values only, which masks have, more simply still. */
TEST(bytes_are_sorted_as_a_stable_sort_would) {
  enum { N = 3000 };
  static const weft_dtype types[] = { WEFT_BOOL, WEFT_U8, WEFT_I8 };
  static const int kinds[] = { 1, 2, 3, 256 };
  for (int i = 0; i < 12; i++) {
    weft_scope *scope = weft_scope_open();
    static uint8_t x[2 * N], y[2 * N];
    static int64_t at[2 * N];
    weft_dtype t = types[i / 4];
    uint32_t bits = 7;
    for (int k = 0; k < 2 * N; k++) bits = bits * 1664525u + 1013904223u, x[k] = (uint8_t)((bits >> 16) % (unsigned)(t == WEFT_BOOL ? 1 + i % 2 : kinds[i % 4]) * 77u);
    for (int k = 0; t == WEFT_BOOL && k < 2 * N; k++) x[k] = x[k] != 0;
    weft_array *a = weft_from(t, WEFT_DIMS(2, N), x);
    EXPECT_OK(weft_read(weft_sort(a, 1), t, y, sizeof y));
    EXPECT_OK(weft_read(weft_argsort(a, 1), WEFT_I64, at, sizeof at));
    for (int k = 0, bad = 0; k < 2 * N && !bad; k++) {
      const uint8_t *row = x + k / N * N;
      bad = at[k] < 0 || at[k] >= N || y[k] != row[at[k]];
      if (bad || k % N == 0) continue;
      int before = t == WEFT_I8 ? (int8_t)y[k - 1] : y[k - 1], here = t == WEFT_I8 ? (int8_t)y[k] : y[k];
      bad = before > here || (before == here && at[k - 1] >= at[k]);
      if (bad) test_fail(__FILE__, __LINE__, "%s of %d: element %d", weft_dtype_name(t), kinds[i % 4], k);
    }
    weft_scope_discard(scope);
  }
}

/* Long rows are cut where there are several threads: by keys that are spread, that are nearly all in one place, all the same. */
TEST(a_long_row_is_sorted_alike_by_any_number_of_threads) {
  enum { N = (1 << 18) + 77 };
  static const weft_dtype types[] = { WEFT_F32, WEFT_I64, WEFT_U16, WEFT_F64, WEFT_U8, WEFT_I8, WEFT_BOOL, WEFT_BF16, WEFT_E4M3 };
  static double x[N];
  static uint8_t y[2][8 * N];
  static int64_t at[2][N];
  test_watchdog(200);
  for (int i = 0; i < 36; i++) {
    weft_scope *scope = weft_scope_open();
    weft_dtype t = types[i / 4];
    uint64_t bits = 88172645463325252u;
    for (int k = 0; k < N; k++) {
      bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
      double u = (double)(bits >> 11) / 9007199254740992.;
      x[k] = i % 4 == 0 ? u * 60000 : i % 4 == 1 ? floor(u * 3) : i % 4 == 2 ? 5 : k % 1000 == 3 ? u * 1e4 : 40000 + floor(u * 100);
      if (i / 4 >= 4) x[k] = fmod(x[k], 100);
      if (t != WEFT_U16 && t != WEFT_U8 && i % 4 != 2 && bits % 3 == 0) x[k] = -x[k];
      if ((t == WEFT_F32 || t == WEFT_F64 || t >= WEFT_BF16) && i % 4 == 0 && k % 5000 == 0) x[k] = NAN;
    }
    weft_array *a = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(N), x), t);
    EXPECT_OK(weft_eval(1, &a));
    size_t bytes = weft_dtype_bytes(t) * N;
    for (int k = 0; k < 2; k++) {
      weft_set(WEFT_THREADS, k ? 2 + i % 5 : 1);
      EXPECT_OK(weft_read(weft_sort(a, 0), t, y[k], bytes));
      EXPECT_OK(weft_read(weft_argsort(a, 0), WEFT_I64, at[k], sizeof at[k]));
    }
    EXPECT(!memcmp(y[0], y[1], bytes));
    EXPECT(!memcmp(at[0], at[1], sizeof at[0]));
    weft_scope_discard(scope);
  }
}

/* Rows from the largest to the least, which are a power of two apart: the places beside keys say the other way around than the keys
 * which is less. All are in order then, each place once. */
TEST(rows_whose_ends_are_a_power_of_two_apart_are_in_order) {
  static const int lengths[] = { 50, 1000, (1 << 16) + 1, (1 << 17) + 3 };
  static int32_t x[(1 << 17) + 3];
  static int64_t at[(1 << 17) + 3];
  test_watchdog(200);
  for (int i = 0; i < 4 * 31; i++) {
    weft_scope *scope = weft_scope_open();
    int n = lengths[i % 4], shift = i / 4;
    int64_t apart = (int64_t)1 << shift, wrong = 0;
    for (int k = 0; k < n; k++) x[k] = (int32_t)(apart - apart * k / (n - 1) - (shift > 16 ? 1000 : 0));
    weft_array *a = weft_from(WEFT_I32, WEFT_DIMS(n), x);
    weft_set(WEFT_THREADS, 1 + i / 4 % 3);
    EXPECT_OK(weft_read(weft_argsort(a, 0), WEFT_I64, at, sizeof *at * (size_t)n));
    for (int k = 1; k < n; k++) {
      int32_t before = x[at[k - 1]], here = x[at[k]];
      wrong += before > here || (before == here && at[k - 1] >= at[k]);
    }
    EXPECT(wrong == 0);
    weft_scope_discard(scope);
  }
}

/* Keys on which every sample that quick.c takes has the smallest ones: it parts off a few a time, and has to give up. */
static void misleading(int64_t n, uint64_t x[]) {
  int64_t *left = malloc(sizeof *left * (size_t)n), next = 0;
  for (int64_t i = 0; i < n; i++) left[i] = i, x[i] = (uint64_t)(n + i * 7919 % n);
  for (int64_t m = n, round = 0; m > 2000 && round < 80; round++) {
    int64_t step = m / 32, kept = 0;
    for (int64_t i = 0; i < 32; i++) x[left[i * step + step / 2]] = (uint64_t)next++;
    for (int64_t i = 0; i < m; i++)
      if (!(i % step == step / 2 && i / step < 16)) left[kept++] = left[i];
    m = kept;
  }
  free(left);
}

/* By pivots as by digits, of lengths around those of vectors and of what is ranked, whatever the keys are. */
TEST(keys_are_in_the_same_order_by_pivots_and_by_digits) {
  enum { MOST = 40000 };
  static const int lengths[] = { 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 34, 47, 48, 49, 64, 65, 255, 1000, 1023, 1024, 1025, MOST };
  static uint64_t x[MOST], e[2][MOST], other[MOST];
  static uint32_t e32[2][MOST], other32[MOST];
  static int64_t count[ORDER_COUNTS];
  if (!quick_is_there()) return test_skip("no vectors that part words");
  for (int i = 0; i < 24 * 7; i++) {
    int64_t n = lengths[i / 7];
    uint64_t bits = 88172645463325252u;
    for (int64_t k = 0; k < n; k++) {
      bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
      uint64_t kinds[] = { bits, bits % 3, 5, (uint64_t)k, (uint64_t)(n - k), k % 2 ? UINT64_MAX - bits % 4 : bits % 4, bits >> 40 << 20 };
      x[k] = kinds[i % 7];
    }
    if (i == 24 * 7 - 1) misleading(n, x);
    for (int64_t k = 0; k < n; k++) e[0][k] = e[1][k] = x[k], e32[0][k] = e32[1][k] = (uint32_t)(x[k] ^ x[k] >> 32);
    quick_sort_64(e[0], other, n, count), quick_sort_32(e32[0], other32, n, count);
    EXPECT(!memcmp(e[0], digits_sort((uint8_t *)e[1], (uint8_t *)other, n, 8, 0, count), sizeof *other * (size_t)n));
    EXPECT(!memcmp(e32[0], digits_sort((uint8_t *)e32[1], (uint8_t *)other32, n, 4, 0, count), sizeof *other32 * (size_t)n));
  }
}

/* Words with the highest digit in common, by one digit more, as by all digits; what that does not bring apart is refused. */
TEST(words_that_are_near_are_in_the_same_order_by_one_digit_more) {
  if (!quick_is_there()) return test_skip("no vectors that part words");
  static const int lengths[] = { 1, 63, 64, 65, 127, 128, 129, 1000, 1024, 1025, 2047, 2048, 2049, 3000 };
  static uint64_t x[3000], e[3000], near[3000], other[3000];
  static int64_t count[ORDER_COUNTS];
  int n_done = 0, n_refused = 0;
  for (int i = 0; i < 14 * 6; i++) {
    int64_t n = lengths[i / 6];
    uint64_t bits = 88172645463325252u, least = (uint64_t)7 << 40;
    struct digits g = digits_between(least, least + ((uint64_t)0xffffffff << 20), i % 2 ? 20 : 0, 11);
    uint64_t first = (uint64_t)3 << (g.low + (g.n - 1) * g.width), each = first / 3;
    for (int64_t k = 0; k < n; k++) {
      bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
      uint64_t kinds[] = { bits, bits << 30, (uint64_t)k, bits % 40 << 30 | (bits >> 50), bits % 7, ~bits << 8 };
      x[k] = e[k] = g.least + first + kinds[i % 6] % each;
    }
    bool is_done = quick_spread(&g, x, n, near);
    n_done += is_done, n_refused += !is_done;
    EXPECT(n >= 64 && n <= 2048 ? i % 6 != 4 || !is_done : !is_done);
    if (is_done) EXPECT(!memcmp(near, digits_sort((uint8_t *)e, (uint8_t *)other, n, 8, 0, count), sizeof *other * (size_t)n));
  }
  EXPECT(n_done >= 20 && n_refused >= 20);
}

/* Where select.c takes its sample of a row of n, so that a row can be made for which it says nothing true. */
static int64_t sampled_place(int64_t n, int64_t i) {
  int64_t each = n / (n < 1 << 18 ? 1024 : 4096);
  uint64_t word = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
  return each * i + (int64_t)((word ^ word >> 29) * 0xbf58476d1ce4e5b9u >> 32) % each;
}

/* Ranks of long rows, by one thread and by several, are where a sorted row has them, with the places of a stable order: of rows that
 * are spread, nearly all the same, ascending, with NaNs and both zeros, and of one whose sample misleads. */
TEST(ranks_of_long_rows_are_those_of_the_sorted_row_for_any_number_of_threads) {
  enum { N = (1 << 18) + 5, K = 70 };
  static const weft_dtype types[] = { WEFT_F32, WEFT_I64, WEFT_U16, WEFT_F64, WEFT_I32, WEFT_BF16, WEFT_I8, WEFT_E5M2 };
  static double x[N];
  test_watchdog(200);
  for (int i = 0; i < 8 * 6; i++) {
    weft_scope *scope = weft_scope_open();
    weft_dtype t = types[i / 6];
    bool is_float = t == WEFT_F32 || t == WEFT_F64 || t >= WEFT_BF16;
    int64_t n = i % 2 ? N : (1 << 16) + 1;
    uint64_t bits = 88172645463325252u;
    for (int64_t k = 0; k < n; k++) {
      bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
      double u = (double)(bits >> 11) / 9007199254740992.;
      x[k] = i % 6 == 0 ? u * 100 : i % 6 == 1 ? floor(u * 3) : i % 6 == 2 ? 5 : i % 6 == 3 ? (double)(k % 120) : u < 0.9 ? 7 : u * 50;
      if (is_float && i % 3 == 0) x[k] = k % 5000 == 0 ? NAN : k % 7 ? x[k] : k % 2 ? -0.0 : 0;
    }
    for (int64_t k = 0; i % 6 == 5 && k < (n < 1 << 18 ? 1024 : 4096); k++) x[sampled_place(n, k)] = 100 + (double)(k % 20);
    weft_array *a = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(n), x), t), *order = weft_argsort(a, 0);
    EXPECT_OK(weft_eval(2, (weft_array *[]){ a, order }));
    for (int k = 0; k < 2; k++) {
      weft_set(WEFT_THREADS, k ? 2 + i % 5 : 1);
      weft_array *last = weft_flip(weft_slice(order, 0, n - K, n, 1), 0), *at = weft_argtopk(a, 0, K);
      weft_array *middle = weft_slice(weft_argpartition(a, 0, n / 2), 0, n / 2, n / 2 + 1, 1);
      EXPECT_SAME(at, last);
      EXPECT_SAME(weft_cast(weft_topk(a, 0, K), WEFT_F64), weft_cast(weft_take(a, 1, &last), WEFT_F64));
      EXPECT_SAME(middle, weft_slice(order, 0, n / 2, n / 2 + 1, 1));
    }
    weft_scope_discard(scope);
  }
}
