/* limits.c -- what must not grow: kernels with sizes and numbers, memory beyond what the plan says, the stack with the depth
 * of a graph; and that the number of threads shows in no result. */
#include <unistd.h>
#include <pthread.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "every_recipe.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one kernel for many sizes ---- */

static weft_array *ramp(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x + 1);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 13) - 6;
  weft_array *a = weft_from(WEFT_F32, 1, &n, x);
  free(x);
  return a;
}

static float sum_of_exp(int64_t n) { /* what the next two compute, by hand */
  float s = 0;
  for (int64_t i = 0; i < n; i++) s += expf((float)(i % 13) - 6);
  return s;
}

TEST(five_hundred_lengths_are_one_kernel) {
  int64_t before = 0;
  for (int64_t n = 17; n < 517; n++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = weft_mul(weft_exp(ramp(n)), weft_scalar(2));
    float *out = malloc((size_t)n * sizeof *out);
    EXPECT_OK(weft_read(y, WEFT_F32, out, (size_t)n * sizeof *out));
    if (fabsf(out[n - 1] - 2 * expf((float)((n - 1) % 13) - 6)) > 1e-4f * out[n - 1]) test_fail(__FILE__, __LINE__, "length %lld is wrong", (long long)n);
    free(out);
    weft_scope_discard(s);
    if (n == 17) before = weft_get(WEFT_KERNELS);
  }
  EXPECT_INT(weft_get(WEFT_KERNELS), before);
}

TEST(five_hundred_lengths_of_a_sum_are_one_kernel) {
  int64_t before = 0;
  for (int64_t n = 17; n < 517; n++) {
    weft_scope *s = weft_scope_open();
    float got = 0, want = sum_of_exp(n);
    EXPECT_OK(weft_read(weft_sum(weft_exp(ramp(n)), WEFT_ALL), WEFT_F32, &got, sizeof got));
    EXPECT(fabsf(got - want) < 1e-4f * want);
    weft_scope_discard(s);
    if (n == 17) before = weft_get(WEFT_KERNELS);
  }
  EXPECT_INT(weft_get(WEFT_KERNELS), before);
}

TEST(five_hundred_slice_starts_are_one_kernel) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ramp(600);
  int64_t before = 0;
  for (int64_t i = 1; i <= 500; i++) {
    weft_scope *inner = weft_scope_open();
    float got[50];
    EXPECT_OK(weft_read(weft_tanh(weft_slice(x, 0, i, i + 50, 1)), WEFT_F32, got, sizeof got));
    EXPECT(fabsf(got[49] - tanhf((float)((i + 49) % 13) - 6)) < 1e-5f);
    weft_scope_discard(inner);
    if (i == 1) before = weft_get(WEFT_KERNELS);
  }
  EXPECT_INT(weft_get(WEFT_KERNELS), before);
  weft_scope_discard(s);
}

TEST(five_hundred_numbers_are_one_kernel) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ramp(50);
  int64_t before = 0;
  for (int i = 0; i < 500; i++) {
    weft_scope *inner = weft_scope_open();
    float got[50], c = 1.5f + 0.25f * (float)i; /* not 0, 1, -1, 2: rewrites look at those */
    EXPECT_OK(weft_read(weft_exp(weft_div(x, weft_scalar((double)c))), WEFT_F32, got, sizeof got));
    EXPECT(fabsf(got[1] - expf(-5 / c)) < 1e-5f);
    weft_scope_discard(inner);
    if (i == 3) before = weft_get(WEFT_KERNELS);
  }
  EXPECT_INT(weft_get(WEFT_KERNELS), before);
  weft_scope_discard(s);
}

/* ---- memory ---- */

typedef weft_array *(*maker)(weft_array *x);

static weft_array *chain(weft_array *x) { return weft_tanh(weft_matmul(weft_tanh(weft_matmul(x, x)), weft_exp(x))); }
static weft_array *norm_gradient(weft_array *x) {
  weft_array *y = weft_layer_norm(weft_matmul(x, x), NULL, NULL, 1e-5), *dx;
  weft_grad(weft_mul(y, y), 1, &x, &dx);
  return dx;
}
static weft_array *scattered(weft_array *x) {
  weft_array *i = weft_cast(weft_abs(weft_slice(x, 1, 0, 1, 1)), WEFT_I32), *flat = weft_reshape(i, WEFT_DIMS(WEFT_ANY));
  weft_array *z = weft_put(x, weft_take(x, 1, &flat), weft_mul(x, weft_scalar(0.5)), WEFT_ADD);
  return weft_add(weft_cumsum(z, 0), weft_sum(z, 0));
}
static weft_array *joined(weft_array *x) { return weft_softmax(weft_concat(0, WEFT_ARRAYS(weft_exp(x), weft_cumsum(x, 1), weft_flip(x, 0))), 0); }

static weft_array *column_sum(weft_array *x) { return weft_sum(weft_exp(x), 0); }
static weft_array *whole_sum(weft_array *x) { return weft_sum(x, WEFT_ALL); }
static weft_array *largest(weft_array *x) { return weft_argmax(weft_reshape(x, WEFT_DIMS(WEFT_ANY)), 0); }
static weft_array *histogram(weft_array *x) {
  weft_array *i = weft_cast(weft_reshape(weft_mul(x, weft_scalar(100)), WEFT_DIMS(WEFT_ANY)), WEFT_I32), *z = weft_full(WEFT_F32, WEFT_DIMS(17), 0);
  return weft_put(z, weft_take(z, 1, &i), weft_scalar(1), WEFT_ADD);
}
static weft_array *weight_gradient(weft_array *x) {
  weft_array *w = weft_slice(x, 0, 0, 1, 1), *y = weft_layer_norm(x, w, NULL, 1e-5), *dw;
  weft_grad(weft_mul(y, y), 1, &w, &dw);
  return dw;
}
static weft_array *replayed(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_slice(x, 0, 0, 1, 1));
  weft_array *next = weft_tanh(weft_add(weft_matmul(c, x), weft_cumsum(e, 0)));
  weft_loop_next(l, c, next);
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  return all;
}

static weft_array *product_and_rest(weft_array *x) { return weft_softmax(weft_add(weft_matmul(x, x), x), -1); }
static weft_array *product_of_bf16(weft_array *x) {
  weft_array *y = weft_cast(x, WEFT_BF16);
  return weft_matmul(y, weft_transpose(y, NULL));
}
static weft_array *product_of_made(weft_array *x) {
  return weft_matmul(weft_mul(x, weft_scalar(3)), weft_where(weft_lt(x, weft_scalar(0.1)), x, weft_scalar(0)));
}
static weft_array *products_that_feed(weft_array *x) {
  return weft_matmul(weft_softmax(weft_matmul(x, weft_transpose(x, NULL)), -1), x);
}
static weft_array *product_by_vector(weft_array *x) { return weft_matmul(x, weft_slice(x, 1, 0, 1, 1)); }

static void expect_peak(const char *name, maker f) {
  enum { N = 400 };
  weft_scope *s = weft_scope_open();
  float *data = malloc(N * N * sizeof *data);
  for (int i = 0; i < N * N; i++) data[i] = (float)(i % 17) * 0.01f;
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(N, N), data), *y = f(x);
  free(data);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  int64_t used = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_eval(1, &y));
  int64_t measured = weft_get(WEFT_BYTES_PEAK) - used;
  if (measured > cost.peak_bytes || (double)cost.peak_bytes > 1.1 * (double)measured)
    test_fail(__FILE__, __LINE__, "%s: %lld bytes predicted, %lld measured", name, (long long)cost.peak_bytes, (long long)measured);
  weft_scope_discard(s);
}

TEST(the_peak_is_predicted_to_a_tenth) {
  expect_peak("chain", chain);
  expect_peak("norm_gradient", norm_gradient);
  expect_peak("scattered", scattered);
  expect_peak("joined", joined);
  expect_peak("column_sum", column_sum);
  expect_peak("whole_sum", whole_sum);
  expect_peak("largest", largest);
  expect_peak("histogram", histogram);
  expect_peak("weight_gradient", weight_gradient);
  expect_peak("replayed", replayed);
  expect_peak("product_and_rest", product_and_rest);
  expect_peak("product_of_bf16", product_of_bf16);
  expect_peak("product_of_made", product_of_made);
  expect_peak("products_that_feed", products_that_feed);
  expect_peak("product_by_vector", product_by_vector);
}

/* What a product works in is part of the budget: with all but a byte of it, it is refused and nothing is lost. */
TEST(the_limit_is_hard_for_what_products_work_in) {
  int64_t threads = weft_get(WEFT_THREADS);
  for (int n = 1; n < 4; n += 2) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_THREADS, n);
    weft_array *x = weft_reshape(ramp(300 * 400), WEFT_DIMS(300, 400)), *y = weft_matmul(weft_transpose(x, NULL), x);
    weft_cost cost;
    EXPECT_OK(weft_plan(1, &y, &cost));
    EXPECT(cost.scratch_bytes > 0);
    int64_t used = weft_get(WEFT_BYTES_USED), limit = weft_set(WEFT_BYTES_LIMIT, used + cost.peak_bytes - 1);
    weft_set(WEFT_BYTES_CACHE, 0);
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_MEMORY);
    EXPECT_INT(weft_get(WEFT_BYTES_USED), used);
    weft_set(WEFT_BYTES_LIMIT, used + cost.peak_bytes);
    EXPECT_OK(weft_eval(1, &y));
    weft_set(WEFT_BYTES_LIMIT, limit);
    weft_scope_discard(s);
  }
  weft_set(WEFT_THREADS, threads);
}

static int64_t limit_now;
static _Atomic int n_refused, n_done;

static void *evaluate_much(void *unused) {
  for (int i = 0; i < 40; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_iota(weft_full(WEFT_F32, WEFT_DIMS(1 << 18), 0), 0), *y = weft_cumsum(weft_exp(x), 0);
    weft_status status = weft_eval(1, &y);
    if (status) n_refused += status == WEFT_ERR_MEMORY; else n_done++;
    if (status && status != WEFT_ERR_MEMORY) test_fail(__FILE__, __LINE__, "%s", weft_message());
    weft_scope_discard(s);
  }
  return unused;
}

/* Each thread holds a mebibyte and takes another for a while: there is room for one and a half. */
TEST(the_limit_is_hard_for_any_number_of_threads) {
  pthread_t t[4];
  int n = 0;
  n_refused = n_done = 0;
  weft_set(WEFT_BYTES_CACHE, 0);
  int64_t limit = weft_set(WEFT_BYTES_LIMIT, limit_now = weft_get(WEFT_BYTES_USED) + (5 << 19));
  weft_set(WEFT_BYTES_PEAK, 0);
  while (n < 4 && !pthread_create(&t[n], NULL, evaluate_much, NULL)) n++;
  for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
  EXPECT_INT(n_refused + n_done, 40 * n);
  EXPECT(n_done > 0);
  EXPECT(weft_get(WEFT_BYTES_PEAK) <= limit_now);
  weft_set(WEFT_BYTES_LIMIT, limit);
}

TEST(the_limit_is_hard_for_loops_that_are_replayed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_reshape(ramp(1 << 16), WEFT_DIMS(256, 256)), *y = replayed(weft_mul(x, weft_scalar(1e-6)));
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  int64_t used = weft_get(WEFT_BYTES_USED), limit = weft_set(WEFT_BYTES_LIMIT, used + cost.peak_bytes / 2);
  weft_set(WEFT_BYTES_CACHE, 0);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_MEMORY);
  EXPECT(weft_get(WEFT_BYTES_PEAK) <= used + cost.peak_bytes / 2);
  weft_set(WEFT_BYTES_LIMIT, used + cost.peak_bytes);
  EXPECT_OK(weft_eval(1, &y));
  weft_set(WEFT_BYTES_LIMIT, limit);
  weft_scope_discard(s);
}

/* A bool is read into memory of weft's own: each byte becomes 0 or 1. */
TEST(the_limit_is_hard_for_files_and_they_can_be_read_later) {
  enum { N = 1 << 20 };
  char folder[] = "/tmp/weft-limit-XXXXXX", path[64];
  if (!mkdtemp(folder)) { test_skip("cannot write to /tmp"); return; }
  snprintf(path, sizeof path, "%s/x.npy", folder);
  weft_scope *s = weft_scope_open();
  weft_array *ones = weft_full(WEFT_BOOL, WEFT_DIMS(N), 1);
  EXPECT_OK(weft_save(path, 1, NULL, &ones, NULL));
  weft_array *x = weft_file_get(weft_file_open(path), NULL), *n = weft_sum(x, WEFT_ALL);
  int64_t used = weft_get(WEFT_BYTES_USED), limit = weft_set(WEFT_BYTES_LIMIT, used + N / 2);
  int32_t got = 0;
  weft_set(WEFT_BYTES_CACHE, 0);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_INT(weft_read(n, WEFT_I32, &got, sizeof got), WEFT_ERR_MEMORY);
  EXPECT(weft_get(WEFT_BYTES_PEAK) <= used + N / 2);
  weft_set(WEFT_BYTES_LIMIT, limit);
  EXPECT_OK(weft_read(n, WEFT_I32, &got, sizeof got));
  EXPECT_INT(got, N);
  weft_scope_discard(s);
  unlink(path);
  rmdir(folder);
}

TEST(beyond_the_limit_is_an_error_and_work_goes_on) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ramp(1 << 20), *y = weft_exp(x), *z = weft_exp(weft_slice(x, 0, 0, 10, 1));
  int64_t limit = weft_set(WEFT_BYTES_LIMIT, weft_get(WEFT_BYTES_USED) + 1000000);
  float got[10];
  weft_set(WEFT_BYTES_CACHE, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_MEMORY);
  EXPECT_OK(weft_read(z, WEFT_F32, got, sizeof got));
  weft_set(WEFT_BYTES_LIMIT, limit);
  EXPECT_OK(weft_eval(1, &y));
  weft_scope_discard(s);
}

/* ---- depth ---- */

TEST(a_chain_of_a_million_ops_is_built_differentiated_evaluated_and_freed) {
  enum { OPS = UNDER_ASAN || UNDER_TSAN ? 100000 : 1000000 }; /* ten times slower, and more */
  test_watchdog(300);
  double t0 = now();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(2), (double[]){ 1, 0.5 }), *y = x, *dx;
  weft_array *half = weft_from(WEFT_F64, 0, NULL, &(double){ 0.5 });
  for (int i = 0; i < OPS / 2; i++) y = weft_add(weft_mul(y, half), x); /* tends to 2 x */
  double t1 = now(), got[2], d[2];
  weft_grad(y, 1, &x, &dx);
  double t2 = now();
  EXPECT_OK(weft_eval(2, (weft_array *[]){ y, dx }));
  double t3 = now();
  EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof got));
  EXPECT_OK(weft_read(dx, WEFT_F64, d, sizeof d));
  EXPECT(fabs(got[0] - 2) < 1e-12 && fabs(got[1] - 1) < 1e-12);
  EXPECT(fabs(d[0] - 2) < 1e-12 && fabs(d[1] - 2) < 1e-12);
  weft_scope_discard(s);
  plan_drop_all();
  printf("a chain of %d ops: built in %.2f s, differentiated in %.2f s, evaluated in %.2f s, freed in %.2f s\n", OPS, t1 - t0, t2 - t1, t3 - t2, now() - t3);
}

/* ---- more than 2^31 elements ---- */

TEST(three_thousand_million_elements_of_one_are_indexed_and_reduced) {
  enum { ROWS = 60000, COLUMNS = 50000 };
  weft_scope *s = weft_scope_open();
  static const uint8_t one = 7;
  weft_array *x = weft_broadcast(weft_from(WEFT_U8, 0, NULL, &one), WEFT_DIMS(ROWS, COLUMNS)); /* stride 0 */
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(2), (int64_t[]){ -1, ROWS - 1 }), *rows = weft_take(x, 1, &i);
  uint64_t sum = 0;
  EXPECT_OK(weft_read(weft_sum(weft_cast(rows, WEFT_U64), WEFT_ALL), WEFT_U64, &sum, sizeof sum));
  EXPECT_INT(sum, 7 * 2 * (int64_t)COLUMNS);
  uint8_t corner[4] = { 0 };
  weft_array *end = weft_slice(weft_slice(x, 0, -1, -3, -1), 1, COLUMNS - 2, WEFT_END, 1);
  EXPECT_OK(weft_read(weft_add(end, weft_integer(1)), WEFT_U8, corner, sizeof corner));
  for (int k = 0; k < 4; k++) EXPECT_INT(corner[k], 8);
  weft_array *flat = weft_reshape(x, WEFT_DIMS(WEFT_ANY));
  EXPECT_INT(weft_dim(flat, 0), (int64_t)ROWS * COLUMNS);
  weft_array *far = weft_from(WEFT_I64, WEFT_DIMS(1), (int64_t[]){ (int64_t)ROWS * COLUMNS - 1 }), *last = weft_take(flat, 1, &far);
  EXPECT_OK(weft_read(last, WEFT_U8, corner, 1));
  EXPECT_INT(corner[0], 7);
  far = weft_from(WEFT_I64, WEFT_DIMS(1), (int64_t[]){ (int64_t)ROWS * COLUMNS });
  last = weft_take(flat, 1, &far);
  EXPECT_INT(weft_eval(1, &last), WEFT_ERR_INDEX);
  weft_scope_discard(s);
}

/* ---- threads ---- */

static weft_array *threaded(int k) {
  weft_array *x = ramp(120000), *m = weft_reshape(x, WEFT_DIMS(300, 400));
  weft_array *i = weft_cast(weft_mul(weft_abs(x), weft_scalar(3)), WEFT_I32), *zeros = weft_full(WEFT_F32, WEFT_DIMS(30), 0);
  weft_array *y, *w = weft_exp(weft_mul(weft_slice(m, 0, 0, 1, 1), weft_scalar(0.1)));
  switch (k) {
    case 0: return weft_softmax(m, -1);
    case 1: return weft_sum(weft_exp(x), WEFT_ALL);
    case 2: return weft_sum(weft_exp(m), 0);
    case 3: return weft_cumsum(weft_exp(x), 0);
    case 4: return weft_put(zeros, weft_take(zeros, 1, &i), weft_exp(x), WEFT_ADD);
    case 5: return weft_matmul(m, weft_transpose(m, NULL));
    case 6: return weft_logsumexp(m, 0);
    default: break;
  }
  weft_array *norm = weft_layer_norm(m, weft_squeeze(w, 0), NULL, 1e-5);
  weft_grad(weft_mul(norm, norm), 1, &w, &y);
  return y;
}

TEST(results_are_the_same_with_1_2_3_and_8_threads) {
  static const int threads[] = { 1, 2, 3, 8 };
  int64_t before = weft_get(WEFT_THREADS);
  for (int k = 0; k < 8; k++) {
    struct plain want = { 0 };
    for (int t = 0; t < 4; t++) {
      weft_scope *s = weft_scope_open();
      weft_set(WEFT_THREADS, threads[t]);
      weft_array *y = threaded(k);
      int64_t dims[PLAIN_RANK];
      for (int d = 0; d < weft_rank(y); d++) dims[d] = weft_dim(y, d);
      struct plain got = plain_new(weft_dtype_of(y), weft_rank(y), dims);
      EXPECT_OK(weft_read(y, got.dtype, got.data, (size_t)got.count * weft_dtype_bytes(got.dtype)));
      int64_t at = t ? plain_differs(&want, got.data) : -1;
      if (at >= 0) test_fail(__FILE__, __LINE__, "program %d, %d threads: element %lld is %s, not %s", k, threads[t], (long long)at, plain_text(&got, at), plain_text(&want, at));
      if (t) plain_free(&got);
      else want = got;
      weft_scope_discard(s);
    }
    plain_free(&want);
  }
  weft_set(WEFT_THREADS, before);
}

/* A fold that is computed by itself, if it is to be, before others are made of it. */
static weft_array *first(weft_array *fold, bool is_apart) {
  if (is_apart) EXPECT_OK(weft_eval(1, &fold));
  return fold;
}

/* Long folds with few results: scaled, or compared with another one, as means, losses and gradients of parameters are. */
static weft_array *tail_of(weft_array *x, weft_array *c, int k, bool is_apart) {
  weft_array *square = weft_mul(x, x), *flat = weft_reshape(x, 1, (int64_t[]){ -1 });
  weft_array *all = first(weft_sum(square, WEFT_ALL), is_apart), *columns = first(weft_sum(square, 0), is_apart);
  if (k == 0) return weft_add(weft_mul(all, weft_scalar(0.5)), first(weft_sum(flat, 0), is_apart));
  if (k == 1) return weft_mul(columns, c);
  if (k == 2) return weft_sub(weft_div(columns, first(weft_sum(weft_abs(x), 0), is_apart)), c);
  return weft_exp(weft_neg(weft_mul(first(weft_max(flat, 0), is_apart), first(weft_mean(flat, 0), is_apart))));
}

TEST(what_is_made_of_a_long_fold_leaves_its_spans_to_threads) {
  enum { ROWS = 20011, COLUMNS = 5 };
  static double values[ROWS * COLUMNS], c[COLUMNS] = { 1, -2, 3, 0.5, 7 };
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = sin(i) * (i % 7 ? 1 : 1e6);
  for (int k = 0; k < 4; k++) {
    double got[2][COLUMNS] = { { 0 } };
    for (int is_apart = 0; is_apart < 2; is_apart++) {
      weft_scope *s = weft_scope_open();
      weft_array *y = tail_of(weft_from(WEFT_F64, WEFT_DIMS(ROWS, COLUMNS), values), weft_from(WEFT_F64, WEFT_DIMS(COLUMNS), c), k,
                              is_apart);
      const char *text = weft_show(1, &y, "kernels");
      if (!is_apart && (!text || !strstr(text, "blocks("))) test_fail(__FILE__, __LINE__, "program %d has no spans: %s", k, text);
      EXPECT_OK(weft_read(y, WEFT_F64, got[is_apart], (k == 0 || k == 3 ? 1 : COLUMNS) * sizeof **got));
      weft_scope_discard(s);
    }
    EXPECT(!memcmp(got[0], got[1], sizeof got[0]));
  }
}

/* A sum over rows of x c, or over columns of its transpose, and values of c alone, which have no axis that is folded. */
static void fold_and_beside(int64_t rows, int64_t columns, bool is_turned, int order, bool is_apart, weft_array *y[3]) {
  double *values = malloc((size_t)(rows * columns) * sizeof *values);
  for (int64_t i = 0; i < rows * columns; i++) values[i] = sin((double)i) * (i % 7 ? 1 : 1e6);
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(is_turned ? columns : rows, is_turned ? rows : columns), values);
  weft_array *c = weft_from(WEFT_F64, WEFT_DIMS(is_turned ? columns : 1, is_turned ? 1 : columns), values + 1), *product = weft_mul(x, c);
  free(values);
  y[order > 0] = first(weft_sum(product, is_turned), is_apart);
  y[order == 0] = weft_tanh(c);
  y[2] = order == 2 ? weft_add(weft_abs(c), y[1]) : weft_neg(c);
}

TEST(what_is_beside_a_long_fold_is_stored_once) {
  static const int64_t sizes[][2] = { { 20011, 5 }, { 40001, 3 }, { 2100, 2048 } }; /* the last: row by row, in blocks of rows */
  for (int i = 0; i < 3 * 2 * 3; i++) {
    int64_t rows = sizes[i / 6][0], columns = sizes[i / 6][1];
    double *got[2][3];
    for (int is_apart = 0; is_apart < 2; is_apart++) {
      weft_scope *s = weft_scope_open();
      weft_array *y[3];
      fold_and_beside(rows, columns, i / 3 % 2, i % 3, is_apart, y);
      EXPECT_OK(weft_eval(3, y));
      for (int k = 0; k < 3; k++) {
        got[is_apart][k] = calloc((size_t)columns, sizeof(double));
        EXPECT_OK(weft_read(y[k], WEFT_F64, got[is_apart][k], (size_t)columns * sizeof(double)));
      }
      weft_scope_discard(s);
    }
    for (int k = 0; k < 3; k++) {
      if (memcmp(got[0][k], got[1][k], (size_t)columns * sizeof(double)))
        test_fail(__FILE__, __LINE__, "sums of [%d,%d], %d: other bits of %d", (int)rows, (int)columns, i % 6, k);
      free(got[0][k]), free(got[1][k]);
    }
  }
}

/* ---- many operands ---- */

static weft_array *ones(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = 1;
  weft_array *a = weft_from(WEFT_F32, 1, &n, x);
  free(x);
  return a;
}

static void expect_every(weft_array *a, float want, int line) {
  int n = (int)weft_dim(a, 0);
  float *got = malloc((size_t)n * sizeof *got + 1);
  int status = (int)weft_read(a, WEFT_F32, got, (size_t)n * sizeof *got);
  if (status) test_fail(__FILE__, line, "status %d: %.200s", status, weft_message());
  for (int i = 0; !status && i < n; i++)
    if (got[i] != want) test_fail(__FILE__, line, "element %d is %g, not %g", i, (double)got[i], (double)want), status = 1;
  free(got);
}
#define EXPECT_EVERY(a, want) expect_every(a, want, __LINE__)

TEST(kernels_are_split_where_they_would_read_too_much) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ones(400), *head = weft_slice(x, 0, 0, 100, 1), *part = weft_slice(x, 0, 0, 40, 1);
  weft_array *slices = head, *leaves = head, *takes = head, *pads = head, *sizes = head, *i = weft_cast(weft_iota(head, 0), WEFT_I32);
  for (int k = 1; k < 60; k++) {
    weft_array *at = weft_add(i, weft_integer(k)), *n = weft_size(weft_slice(x, 0, 0, k + 5, 1), 0);
    slices = weft_add(slices, weft_slice(x, 0, k, k + 100, 1));
    leaves = weft_add(leaves, ones(100));
    takes = weft_add(takes, weft_take(x, 1, &at));
    pads = weft_add(pads, weft_pad(part, 0, k, 60 - k, weft_scalar(1)));
    sizes = weft_add(sizes, weft_div(weft_cast(n, WEFT_F32), weft_scalar(k + 5)));
  }
  EXPECT_EVERY(slices, 60);
  EXPECT_EVERY(leaves, 60);
  EXPECT_EVERY(takes, 60);
  EXPECT_EVERY(pads, 60);
  EXPECT_EVERY(sizes, 60);
  weft_scope_discard(s);
}

TEST(a_kernel_takes_any_number_of_numbers) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ones(100);
  float want = 1;
  for (int k = 0; k < 200; k++) {
    float a = 0.5f + (float)k * 0x1p-20f, b = 0.5f + (float)k * 0x1p-19f;
    x = weft_add(weft_mul(x, weft_scalar((double)a)), weft_scalar((double)b));
    want = want * a + b;
  }
  EXPECT_EVERY(x, want);
  weft_scope_discard(s);
}

TEST(a_view_of_a_view_of_three_hundred_views_is_a_view) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(4), (float[]){ 1, 2, 3, 4 });
  float got[4], want[4] = { 1, 2, 3, 4 };
  for (int k = 0; k < 101; k++) {
    x = weft_reshape(weft_transpose(weft_flip(weft_reshape(x, WEFT_DIMS(2, 2)), 0), NULL), WEFT_DIMS(4));
    float next[4] = { want[2], want[0], want[3], want[1] }; /* rows swapped, then transposed */
    memcpy(want, next, sizeof want);
  }
  EXPECT_OK(weft_read(x, WEFT_F32, got, sizeof got));
  for (int k = 0; k < 4; k++) EXPECT(got[k] == want[k]);
  EXPECT_OK(weft_read(weft_mul(x, weft_scalar(1.5)), WEFT_F32, got, sizeof got));
  for (int k = 0; k < 4; k++) EXPECT(got[k] == 1.5f * want[k]);
  weft_scope_discard(s);
}

TEST(two_hundred_results_and_joined_arrays_are_computed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = ones(8), *y[200];
  for (int k = 0; k < 200; k++) y[k] = weft_div(weft_mul(weft_add(x, weft_scalar(k)), ones(8)), weft_scalar(k + 1));
  weft_array *all = weft_concat(0, 200, y);
  EXPECT_EVERY(weft_add(all, weft_scalar(1)), 2);
  EXPECT_OK(weft_eval(200, y));
  EXPECT_EVERY(y[199], 1);
  weft_scope_discard(s);
}

TEST(eight_indices_are_taken_and_put) {
  weft_scope *s = weft_scope_open();
  int64_t dims[8];
  float x[256], got[256];
  weft_array *i[8];
  for (int k = 0; k < 8; k++) dims[k] = 2, i[k] = weft_from(WEFT_I32, WEFT_DIMS(2), (int32_t[]){ k % 2, -1 });
  for (int k = 0; k < 256; k++) x[k] = (float)k;
  weft_array *a = weft_from(WEFT_F32, 8, dims, x), *part = weft_take(a, 8, i);
  EXPECT_OK(weft_read(part, WEFT_F32, got, 8));
  EXPECT(got[0] == 0x55 && got[1] == 255);
  EXPECT_OK(weft_read(weft_put(a, part, weft_scalar(1000), WEFT_ADD), WEFT_F32, got, sizeof got));
  EXPECT(got[0x55] == 1000 + 0x55 && got[255] == 1255 && got[1] == 1);
  weft_scope_discard(s);
}

TEST(twelve_axes_that_do_not_merge_are_computed_and_thirteen_refused_in_words) {
  static float x[8192], got[8192];
  int64_t dims[13];
  for (int k = 0; k < 13; k++) dims[k] = 2;
  for (int k = 0; k < 8192; k++) x[k] = (float)k;
  for (int rank = 12; rank <= 13; rank++) {
    weft_scope *s = weft_scope_open();
    int axes[13];
    for (int k = 0; k < rank; k++) axes[k] = k * 5 % rank;
    weft_array *a = weft_from(WEFT_F32, rank, dims, x), *z = weft_add(weft_transpose(a, axes), a);
    weft_status status = weft_read(z, WEFT_F32, got, sizeof(float) << rank);
    EXPECT_INT(status, rank == 12 ? WEFT_OK : WEFT_ERR_UNSUPPORTED);
    if (status) EXPECT_TEXT(weft_message(), "weft_add: more than 12 axes longer than 1");
    for (int i = 0; i < 4096 && !status; i++) {
      int from = 0; /* axis k of z is axis axes[k] of a */
      for (int k = 0; k < 12; k++) from |= (i >> (11 - k) & 1) << (11 - axes[k]);
      EXPECT(got[i] == (float)(from + i));
    }
    weft_scope_discard(s);
  }
}
