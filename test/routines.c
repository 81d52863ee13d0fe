/* routines.c -- library steps on a GPU against the host: the same bits, and nothing of them on the host. Skipped where there is no
 * device; `make emulated` runs them on a driver that interprets PTX. Their PTX is assembled by ptxas, where that is. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include "assembling.h"
#include "backend/cuda/routine.h"
#include "gpu.h"
#include "test.h"
#include "values.h"

/* ---- PTX ---- */

static void add_text(void *to, const char *ptx) { assembling_add(to, "routine", ptx, (int)strlen(ptx)); }

static void ask(const char *name, weft_dtype t, const int64_t dims[2], const int64_t numbers[2]) {
  struct routine_array a[7] = { { t, 2, dims, true, 0 }, { t, 2, dims, true, 0 }, { WEFT_I64, 2, dims, true, 0 } };
  for (int k = 3; k < 7; k++) a[k] = a[0];
  struct routine_call c = { .name = name, .n_arrays = 7, .array = a, .n_problems = dims[0], .number = { numbers[0], numbers[1] } };
  for (int has_order = 0; has_order < 2; has_order++) {
    a[2].is_wanted = has_order;
    if (cuda_routine(cuda_gpu(0), &c, true)) test_fail(__FILE__, __LINE__, "%s of %s: %s", name, weft_dtype_name(t), cuda_message());
  }
}

static void ask_stencil(bool are_planes, int64_t columns) {
  const int64_t x[] = { 2, 3, 4, columns }, f[] = { are_planes ? 3 : columns, 1, 1, 1 };
  struct routine_array a[] = { { WEFT_F32, 4, x, true, 0 }, { WEFT_F32, 4, f, true, 0 }, { WEFT_F32, 4, x, true, 0 } };
  struct routine_call c = { .name = "stencil", .n_arrays = 3, .array = a, .n_problems = 1, .number = { are_planes, 1, 1, 1, 1 } };
  if (cuda_routine(cuda_gpu(0), &c, true)) test_fail(__FILE__, __LINE__, "stencil: %s", cuda_message());
}

TEST(routines_are_assembled) {
  struct assembling a;
  static const weft_dtype dtypes[] = { WEFT_BOOL, WEFT_I8, WEFT_F16, WEFT_I32, WEFT_F32, WEFT_I64, WEFT_F64 };
  test_watchdog(300);
  if (!assembling_begin(&a)) return;
  routine_show(add_text, &a);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    for (int n = 100; n <= 10000; n *= 100) ask("sort", dtypes[i], (int64_t[]){ 3, n }, (int64_t[]){ 0, 0 });
  static const char *const matrices[] = { "cholesky", "cholesky_solve", "triangle", "lu", "solve", "inverse", "determinant", "adjugate", "cofactors" };
  for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
    for (int wide = 0; wide < 2; wide++) ask(matrices[i], wide ? WEFT_F64 : WEFT_F32, (int64_t[]){ 5, 5 }, (int64_t[]){ 0, 0 });
  for (int n = 100; n <= 10000; n *= 100) ask("select", WEFT_F32, (int64_t[]){ 3, n }, (int64_t[]){ 2, 5 });
  ask("select", WEFT_I64, (int64_t[]){ 3, 10000 }, (int64_t[]){ 2, 5 });
  for (int wide = 0; wide < 2; wide++) ask("fourier", wide ? WEFT_F64 : WEFT_F32, (int64_t[]){ 3, 60 }, (int64_t[]){ 0, 0 });
  for (int k = 0; k < 4; k++) ask_stencil(k & 1, k & 2 ? (int64_t)1 << 32 : 5);
  routine_show(NULL, NULL);
  EXPECT(a.n_different > 20);
  assembling_end(&a, "-O0 -arch=sm_90");
}

/* ---- values ---- */

typedef int maker(weft_array *x, weft_array *y[]);

static int64_t count_of(weft_array *x) {
  int64_t n = 1;
  for (int k = 0; k < weft_rank(x); k++) n *= weft_dim(x, k);
  return n;
}

static bool any_zero; /* is as good as another: large factors of singular matrices do not keep its sign (docs/gpu.md) */

/* Bits, or both nan: of arithmetic one is as good as another. */
static bool is_same(weft_dtype t, const uint8_t *a, const uint8_t *b) {
  size_t width = weft_dtype_bytes(t);
  float f[2];
  double d[2];
  if (!memcmp(a, b, width)) return true;
  if (t == WEFT_F32) memcpy(&f[0], a, 4), memcpy(&f[1], b, 4), d[0] = (double)f[0], d[1] = (double)f[1];
  else if (t == WEFT_F64) memcpy(&d[0], a, 8), memcpy(&d[1], b, 8);
  else return false;
  return (isnan(d[0]) && isnan(d[1])) || (any_zero && d[0] == 0 && d[1] == 0);
}

static bool every_nan; /* has its bits */

/* The same on the device and on the host. */
static void compare(const char *what, maker *make, weft_array *x) {
  weft_array *y[2][4];
  int n = 0;
  int64_t on_host = weft_get(WEFT_KERNELS_HOST);
  EXPECT_OK(weft_eval(1, &x));
  for (int there = 0; there < 2; there++) {
    weft_set(WEFT_DEVICE, there);
    n = make(x, y[there]);
    if (weft_eval(n, y[there])) { test_fail(__FILE__, __LINE__, "%s: %s", what, weft_message()); return; }
  }
  if (weft_get(WEFT_KERNELS_HOST) != on_host) test_fail(__FILE__, __LINE__, "%s: a step ran on the host", what);
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < n; k++) {
    size_t bytes = (size_t)count_of(y[0][k]) * weft_dtype_bytes(weft_dtype_of(y[0][k]));
    uint8_t *a = calloc(bytes + 1, 1), *b = calloc(bytes + 1, 1);
    EXPECT_OK(weft_read(y[0][k], weft_dtype_of(y[0][k]), a, bytes));
    EXPECT_OK(weft_read(y[1][k], weft_dtype_of(y[1][k]), b, bytes));
    size_t width = weft_dtype_bytes(weft_dtype_of(y[0][k]));
    for (size_t i = 0; i < bytes; i += width)
      if (every_nan ? memcmp(a + i, b + i, width) : !is_same(weft_dtype_of(y[0][k]), a + i, b + i)) {
        test_fail(__FILE__, __LINE__, "%s, %s, %lld elements: result %d differs at %lld", what, weft_dtype_name(weft_dtype_of(x)),
                  (long long)count_of(x), k, (long long)(i / width));
        break;
      }
    free(a), free(b);
  }
}

/* Patterns of all kinds, many of them equal; of floats NaNs with signs and payloads, infinities, zeros of both signs, denormals. */
static weft_array *patterns(weft_dtype t, int64_t rows, int64_t n, uint64_t seed) {
  size_t width = weft_dtype_bytes(t);
  uint8_t *at = calloc((size_t)(rows * n) + 1, width);
  for (int64_t i = 0; i < rows * n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = seed >> 20, dice = seed >> 60;
    if (dice < 3) bits &= ~UINT64_C(0) << (8 * width - 2 > 63 ? 62 : 8 * width - 2); /* few bits: many are equal */
    if (dice == 4) bits = 0;
    if (dice == 5) bits = UINT64_MAX >> (64 - 8 * width) >> (seed >> 58 & 3); /* NaNs */
    if (t == WEFT_BOOL) bits &= 1;
    memcpy(at + (size_t)i * width, &bits, width);
  }
  weft_array *x = weft_from(t, WEFT_DIMS(rows, n), at);
  free(at);
  return x;
}

static int sorted(weft_array *x, weft_array *y[]) { return y[0] = weft_sort(x, -1), 1; }
static int order(weft_array *x, weft_array *y[]) { return y[0] = weft_argsort(x, -1), 1; }
static int both(weft_array *x, weft_array *y[]) { return y[0] = weft_sort(x, -1), y[1] = weft_argsort(x, -1), 2; }
static int columns(weft_array *x, weft_array *y[]) { return y[0] = weft_sort(x, 0), y[1] = weft_sort(weft_flip(x, 1), 1), 2; }
static int largest(weft_array *x, weft_array *y[]) {
  int64_t n = weft_dim(x, 1) < 7 ? weft_dim(x, 1) : 7;
  return y[0] = weft_topk(x, 1, n), y[1] = weft_argtopk(x, 1, n), 2;
}
static int middle(weft_array *x, weft_array *y[]) { return y[0] = weft_median(weft_cast(x, WEFT_F32), 1), 1; }

static const weft_dtype dtypes[] = { WEFT_BOOL, WEFT_U8, WEFT_I8, WEFT_U16, WEFT_I16, WEFT_U32, WEFT_I32, WEFT_U64, WEFT_I64, WEFT_F16,
                                     WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_F32, WEFT_F64 };

/* An interpreted device takes its time, and so does one that is watched: fewer lengths and dtypes. */
static bool is_slow(void) { return getenv("WEFT_TEST_FEW") || strstr(cuda_text(cuda_gpu(0)), "machine for PTX"); }

static void compare_rows(int64_t rows, int64_t n, bool some) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (some && is_slow() && dtypes[i] != WEFT_F32 && dtypes[i] != WEFT_I64 && dtypes[i] != WEFT_F16) continue;
    weft_scope *s = weft_scope_open();
    weft_array *x = patterns(dtypes[i], rows, n, (uint64_t)(rows * 1000 + n));
    every_nan = true;
    compare("sort", sorted, x), compare("argsort", order, x);
    if (n < 100) compare("both", both, x), compare("columns", columns, x), compare("topk", largest, x), compare("median", middle, x);
    weft_scope_discard(s);
  }
}

TEST(cuda_sorts_short_rows_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  static const int64_t lengths[] = { 33, 257, 513, 1, 2, 31, 32, 64, 255, 256, 511, 512, 1025 };
  for (int i = 0; i < (is_slow() ? 2 : 13); i++) compare_rows(i ? 3 : 9, lengths[i], i);
  if (!is_slow()) compare_rows(2011, 100, false);
}

TEST(cuda_sorts_long_rows_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  compare_rows(1, 4097, true);
  if (!is_slow()) compare_rows(2, 9000, false), compare_rows(3, 100000, false), compare_rows(1, 3000001, false);
}

/* Ranks at both ends and inside, few and many, some beyond the row's. */
static int at_ranks(weft_array *x, weft_array *y[]) {
  int64_t n = weft_dim(x, 1);
  y[0] = weft_topk(x, 1, 100), y[1] = weft_argtopk(x, 1, n / 5);
  return y[2] = weft_topk(x, 1, 1), y[3] = weft_median(weft_cast(x, WEFT_F32), 1), 4;
}

TEST(cuda_selects_from_long_rows_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (is_slow() && dtypes[i] != WEFT_F32 && dtypes[i] != WEFT_I64 && dtypes[i] != WEFT_F16) continue;
    weft_scope *s = weft_scope_open();
    every_nan = true;
    compare("ranks", at_ranks, patterns(dtypes[i], 2, 4500, 7));
    if (!is_slow()) compare("ranks", at_ranks, patterns(dtypes[i], 3, 100000, 8)), compare("ranks", at_ranks, patterns(dtypes[i], 1, 3000001, 9));
    weft_scope_discard(s);
  }
}

/* ---- matrices ---- */

/* [rows, n, n], which are good, not definite, singular, or have no numbers. */
static weft_array *squares(weft_dtype t, int64_t rows, int64_t n, int kind) {
  weft_array *x = weft_cast(drawn_floats(WEFT_DIMS(rows, n, n), (uint32_t)(n + kind)), t), *turned = weft_moveaxis(x, 1, 2);
  weft_array *eye = weft_mul(weft_eye(t, n, n, 0), weft_cast(weft_scalar((double)n), t));
  if (kind == 0) x = weft_add(weft_matmul(x, turned), eye);
  if (kind == 2) x = weft_put(x, weft_slice(x, 1, n - 1, n, 1), weft_slice(x, 1, 0, 1, 1), WEFT_SET);
  if (kind == 3) x = weft_put(x, weft_slice(x, 2, 0, 1, 1), weft_cast(weft_scalar(NAN), t), WEFT_SET);
  if (kind == 4) x = weft_mul(x, weft_cast(weft_scalar(0), t));
  return x;
}

static int by_cholesky(weft_array *x, weft_array *y[]) {
  weft_array *l = weft_cholesky(x), *b = weft_slice(x, 2, 0, (weft_dim(x, 2) + 1) / 2, 1);
  return y[0] = l, y[1] = weft_cholesky_status(x), y[2] = weft_cholesky_solve(l, b), y[3] = weft_solve_triangular(x, b, 1, 0), 4;
}
static int one_side(weft_array *x, weft_array *y[]) {
  weft_array *b = weft_slice(x, 2, 0, 1, 1);
  return y[0] = weft_solve(x, b), y[1] = weft_cholesky_solve(x, b), y[2] = weft_solve_triangular(x, b, 0, 1), 3;
}
/* Of every second matrix the last row and its diagonal are 0. */
static int by_triangles(weft_array *x, weft_array *y[]) {
  weft_array *row = weft_eq(weft_iota(x, 1), weft_integer(weft_dim(x, 1) - 1)), *some = weft_eq(weft_remainder(weft_iota(x, 0), weft_integer(2)), weft_integer(0));
  weft_array *a = weft_where(weft_and(row, some), weft_cast(weft_scalar(0), weft_dtype_of(x)), x), *b = weft_slice(x, 2, 0, (weft_dim(x, 2) + 1) / 2, 1);
  y[0] = weft_solve_triangular(a, b, 0, 0), y[1] = weft_solve_triangular(a, weft_slice(x, 2, 0, 1, 1), 1, 0), y[2] = weft_cholesky_solve(a, b);
  return y[3] = weft_solve_triangular_status(a), 4;
}
static int by_lu(weft_array *x, weft_array *y[]) {
  return y[0] = weft_inverse(x), y[1] = weft_det(x), y[2] = weft_inverse_status(x), y[3] = weft_solve(x, weft_slice(x, 2, 0, 2, 1)), 4;
}
static int by_gradient(weft_array *x, weft_array *y[]) {
  weft_array *sign, *log, *f;
  weft_slogdet(x, &sign, &log);
  f = weft_add(weft_sum(weft_solve(x, x), WEFT_ALL), weft_sum(weft_det(x), WEFT_ALL));
  return weft_grad(f, 1, &x, y), y[1] = sign, 2;
}

/* Work is in f64 whatever the dtype: a sanitizer, under which a matrix takes seconds, sees all of it with f64, good and singular. */
static bool is_left_out(bool wide, int kind) { return getenv("WEFT_TEST_FEW") && (!wide || kind % 2 || kind > 2); }

static void compare_matrices(int64_t rows, int64_t n) {
  every_nan = false;
  for (int wide = 0; wide < 2; wide++)
    for (int kind = 0; kind < 5; kind++) {
      if (is_left_out(wide, kind)) continue;
      weft_scope *s = weft_scope_open();
      weft_array *x = squares(wide ? WEFT_F64 : WEFT_F32, rows, n, kind);
      any_zero = n > 128 && kind >= 2;
      if (kind < 3) compare("cholesky", by_cholesky, x);
      if (n > 1) compare("lu", by_lu, x);
      if (n < 40) compare("gradient", by_gradient, x);
      if (kind == 0) compare("one side", one_side, x);
      if (kind != 2) compare("triangles", by_triangles, x);
      weft_scope_discard(s);
    }
}

TEST(cuda_factors_matrices_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  compare_matrices(3, 1);
  compare_matrices(3, 5);
  compare_matrices(2, 17);
  if (!is_slow()) compare_matrices(100, 40);
}

static int long_triangles(weft_array *x, weft_array *y[]) {
  weft_array *b = weft_slice(x, 2, 0, 1, 1);
  return y[0] = weft_solve_triangular(x, b, 0, 0), y[1] = weft_solve_triangular(x, b, 1, 0), 2;
}

/* Rows of more products than are multiplied at a time. */
TEST(cuda_solves_long_triangles_of_one_right_side_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  compare("long triangles", long_triangles, squares(WEFT_F64, 1, 1091, 0));
  weft_scope_discard(s);
}

TEST(cuda_factors_matrices_of_several_blocks_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  compare_matrices(1, 67);
  if (!is_slow()) compare_matrices(2, 500);
}

/* Derivatives of adjugates, in one and two directions. */
static int by_second_gradient(weft_array *x, weft_array *y[]) {
  weft_array *g, *h, *f = weft_sum(weft_det(x), WEFT_ALL);
  weft_grad(f, 1, &x, &g);
  f = weft_sum(weft_mul(g, weft_add(g, weft_flip(x, 2))), WEFT_ALL);
  weft_grad(f, 1, &x, &h);
  f = weft_sum(weft_mul(h, weft_flip(x, 1)), WEFT_ALL);
  return y[0] = h, weft_grad(f, 1, &x, y + 1), 2;
}

/* Kind 5 has two rows that are others, 6 a number beyond all bounds. */
TEST(cuda_differentiates_adjugates_as_the_host_does) {
  static const int64_t sizes[] = { 1, 2, 3, 5, 34 };
  test_watchdog(300);
  if (!has_gpu()) return;
  every_nan = any_zero = false;
  for (int i = 0; i < 5; i++)
    for (int kind = 0; kind < 7; kind++) {
      int64_t n = sizes[i];
      if (n == 34 && kind % 3) continue;
      weft_scope *s = weft_scope_open();
      weft_array *x = squares(i % 2 ? WEFT_F32 : WEFT_F64, 3, n, kind);
      if (kind == 5 && n > 2) {
        x = weft_put(x, weft_slice(x, 1, n - 1, n, 1), weft_slice(x, 1, 0, 1, 1), WEFT_SET);
        x = weft_put(x, weft_slice(x, 1, n - 2, n - 1, 1), weft_slice(x, 1, 0, 1, 1), WEFT_SET);
      }
      if (kind == 6) x = weft_put(x, weft_slice(weft_slice(x, 1, 0, 1, 1), 2, 0, 1, 1), weft_scalar(INFINITY), WEFT_SET);
      compare("second gradient", by_second_gradient, x);
      weft_scope_discard(s);
    }
}

/* Columns of large matrices go by panels in registers. */
static void compare_large(const char *what, int (*make)(weft_array *, weft_array *[]), int kinds, int64_t large, int kind_of_large) {
  every_nan = false;
  for (int kind = 0; kind < kinds; kind++) {
    if (is_left_out(true, kind)) continue;
    weft_scope *s = weft_scope_open();
    any_zero = kind >= 2;
    compare(what, make, squares(WEFT_F64, kind == 0 ? 2 : 1, 141, kind));
    weft_scope_discard(s);
  }
  weft_scope *s = weft_scope_open();
  any_zero = false;
  if (!is_slow()) compare(what, make, squares(WEFT_F32, 1, large, kind_of_large));
  weft_scope_discard(s);
}

TEST(cuda_factors_large_matrices_as_the_host_does) {
  test_watchdog(300);
  if (has_gpu()) compare_large("lu", by_lu, 5, 2077, 1);
}

TEST(cuda_factors_large_definite_matrices_as_the_host_does) {
  test_watchdog(300);
  if (has_gpu()) compare_large("cholesky", by_cholesky, 2, 1500, 0);
}

/* ---- bins ---- */

static int counted(weft_array *x, weft_array *y[]) {
  weft_array *whole = weft_cast(weft_mul(weft_abs(x), weft_scalar(20)), WEFT_I32), *edges = weft_linspace(WEFT_F32, -2.5, 3, 11);
  y[0] = weft_bincount(whole, NULL, 61, 0), y[1] = weft_histogram(x, edges, NULL, 0);
  float uneven[] = { -INFINITY, -1, -1, -0.0f, 0.3f, 0.3000001f, 0.3000001f, 5, INFINITY };
  y[2] = weft_histogram(weft_div(x, weft_sub(x, weft_floor(x))), weft_from(WEFT_F32, WEFT_DIMS(9), uneven), NULL, 0);
  return y[3] = weft_digitize(weft_cast(x, WEFT_F64), weft_cast(edges, WEFT_F64), 0), 4;
}
static int widely(weft_array *x, weft_array *y[]) {
  weft_array *both[] = { x, weft_flip(x, 0) }, *edges[] = { weft_linspace(WEFT_F32, -3, 3, 80), weft_linspace(WEFT_F32, -3, 3, 90) };
  y[0] = weft_histogram(weft_cast(x, WEFT_I8), weft_linspace(WEFT_F64, -2, 2, 5), NULL, 1);
  return y[1] = weft_histogramdd(2, both, edges, NULL, 0), y[2] = weft_histogram(x, edges[0], weft_abs(x), 0), 3;
}

TEST(cuda_counts_in_bins_as_the_host_does) {
  test_watchdog(120);
  if (!has_gpu()) return;
  static const int64_t lengths[] = { 0, 1, 300, 9000, 1000000 };
  setenv("WEFT_EXACT", "1", 1);
  for (int i = 0; i < (is_slow() ? 4 : 5); i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = drawn_floats(WEFT_DIMS(lengths[i]), 3);
    compare("counts", counted, x), compare("wide", widely, x);
    weft_scope_discard(s);
  }
}

TEST(cuda_says_what_is_in_no_bin) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  int32_t whole[] = { 1, 5, 2, 9 };
  float edges[] = { 0, 2, 1 };
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_from(WEFT_I32, WEFT_DIMS(4), whole), *y = weft_bincount(x, NULL, 6, 0);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT(strstr(weft_message(), "weft_bincount: element 3 is 9, and there are 6 bins"));
  weft_array *z = weft_histogram(weft_cast(x, WEFT_F32), weft_from(WEFT_F32, WEFT_DIMS(3), edges), NULL, 0);
  EXPECT_INT(weft_eval(1, &z), WEFT_ERR_ARG);
  EXPECT(strstr(weft_message(), "weft_histogram: edges ascend: edge 2 is nan, or below the one before"));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

TEST(cuda_shows_the_ptx_of_routines) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = weft_sort(drawn_floats(WEFT_DIMS(100), 1), 0);
  const char *ptx = weft_show(1, &y, "ptx");
  EXPECT(strstr(ptx, "// sort\n") && strstr(ptx, ".visible .entry "));
  EXPECT_OK(weft_eval(1, &y)); /* what was shown is not what runs: it is compiled */
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* ---- one channel a group ---- */

static weft_conv_options sliding;
static int64_t kernel_rows, kernel_columns;

static int by_channels(weft_array *x, weft_array *y[]) {
  weft_conv_options o = sliding;
  int64_t c = weft_dim(x, 3), planes = weft_dim(x, 1);
  weft_array *w = drawn_floats(WEFT_DIMS(2 * c, kernel_rows, kernel_columns, 1), 8);
  weft_array *v = drawn_floats(WEFT_DIMS(planes, kernel_rows, kernel_columns, 1), 9), *f, *in[] = { x, w };
  o.groups = c, y[0] = weft_conv(x, w, &o);
  o.groups = planes, y[1] = weft_conv(weft_transpose(x, (int[]){ 0, 2, 3, 1 }), v, &o); /* channels are planes there */
  o.groups = c, f = weft_sum(weft_conv(weft_mul(x, x), w, &o), WEFT_ALL);
  return weft_grad(f, 2, in, y + 2), 4;
}

TEST(cuda_convolves_channels_as_the_host_does) {
  static const int64_t kernels[][2] = { { 3, 3 }, { 1, 7 }, { 5, 2 }, { 1, 1 }, { 7, 7 }, { 8, 3 }, { 2, 8 } };
  const weft_conv_options forms[] = {
    { .before = (int64_t[]){ 1, 1 }, .after = (int64_t[]){ 1, 1 } }, { .stride = (int64_t[]){ 2, 3 }, .before = (int64_t[]){ 0, 4 } },
    { .dilation = (int64_t[]){ 2, 3 }, .is_flipped = 1 }, { .before = (int64_t[]){ -1, -2 }, .after = (int64_t[]){ 2, -1 } },
  };
  test_watchdog(120);
  if (!has_gpu()) return;
  every_nan = any_zero = false;
  for (int k = 0; k < 19; k++) {
    weft_scope *s = weft_scope_open();
    int of = k < 16 ? k % 4 : k - 12; /* large kernels in the first form alone */
    kernel_rows = kernels[of][0], kernel_columns = kernels[of][1], sliding = forms[k < 16 ? k / 4 : 0];
    weft_array *x = drawn_floats(WEFT_DIMS(k < 16 ? 2 : 1, 11, k < 16 ? 23 : 17, 22), 7);
    if (k % 3 == 0) x = weft_put(x, weft_slice(x, 2, 3, 4, 1), weft_scalar(INFINITY), WEFT_SET);
    compare("channels", by_channels, x);
    weft_scope_discard(s);
  }
}

static int by_passes(weft_array *x, weft_array *y[]) {
  weft_array *z = weft_complex(x, weft_flip(x, 0)), *f = weft_fft(z, 1, 0.5), *d;
  y[0] = weft_real(weft_fft(x, 0, 1)), y[1] = weft_imag(f), y[2] = weft_imag(weft_fft(x, 1, 3));
  weft_array *loss = weft_sum(weft_mul(weft_real(weft_fft(weft_mul(x, x), 0, 1)), x), WEFT_ALL);
  return weft_grad(loss, 1, &x, &d), y[3] = d, 4;
}

TEST(cuda_transforms_rows_as_the_host_does) {
  static const int64_t lengths[] = { 1, 2, 3, 4, 8, 15, 64, 98, 256, 97, 512, 720 };
  test_watchdog(240);
  if (!has_gpu()) return;
  every_nan = any_zero = false;
  for (int k = 0; k < 24; k++) {
    weft_scope *s = weft_scope_open();
    int64_t n = lengths[k % 12];
    weft_array *x = weft_cast(drawn_floats(WEFT_DIMS(n < 90 ? 5 : 2, n), 7), k < 12 ? WEFT_F32 : WEFT_F64);
    if (k % 5 == 4) x = weft_put(x, weft_slice(x, 1, 0, 1, 1), weft_scalar(INFINITY), WEFT_SET);
    if (!is_slow() || n < 512) compare("transforms", by_passes, x);
    weft_scope_discard(s);
  }
}

/* What is traced for one device is called on another: no step is left behind. */
TEST(cuda_calls_what_was_traced_for_the_host) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 0);
  weft_array *x = drawn_floats(WEFT_DIMS(2, 9, 10, 4), 1), *w = drawn_floats(WEFT_DIMS(4, 3, 3, 1), 2), *y[2];
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(2, 9, 10, 4)), *out = weft_tanh(weft_conv(in, w, &(weft_conv_options){ .groups = 4 }));
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  int64_t on_host = weft_get(WEFT_KERNELS_HOST);
  for (int there = 0; there < 2; there++) {
    weft_set(WEFT_DEVICE, there);
    weft_call(f, 1, &x, 1, &y[there]);
    EXPECT_OK(weft_eval(1, &y[there]));
  }
  weft_set(WEFT_DEVICE, 0);
  EXPECT_INT(weft_get(WEFT_KERNELS_HOST) - on_host, 0);
  size_t bytes[2];
  void *bits[2] = { bits_of(y[0], &bytes[0]), bits_of(y[1], &bytes[1]) };
  EXPECT(bytes[0] == bytes[1] && !memcmp(bits[0], bits[1], bytes[0]));
  free(bits[0]), free(bits[1]);
  weft_scope_discard(s);
}

/* ---- codes ---- */

static weft_code_form form;
static weft_dtype scale_dtype;

static int by_codes(weft_array *x, weft_array *y[]) {
  weft_array *w = weft_cast(drawn_floats(WEFT_DIMS(2, 32, 640), 5), scale_dtype), *words, *scales, *biases;
  weft_array *one = weft_slice(w, 0, 0, 1, 1), *places = drawn_indices(3, 2, 1);
  weft_quantize(w, &form, &words, &scales, &biases);
  y[0] = weft_dequantize(words, scales, biases, &form, WEFT_F32);
  y[1] = weft_gather_qmm(x, words, scales, biases, NULL, places, 1, &form);
  weft_quantize(weft_squeeze(one, 0), &form, &words, &scales, &biases);
  y[2] = weft_quantized_matmul(x, words, scales, biases, 1, &form);
  return y[3] = weft_quantized_matmul(weft_slice(x, 2, 0, 32, 1), words, scales, biases, 0, &form), 4;
}

TEST(cuda_multiplies_codes_as_the_host_does) {
  static const weft_code_form forms[] = {
    { .mode = WEFT_CODES_AFFINE, .bits = 4 }, { .mode = WEFT_CODES_AFFINE, .bits = 3, .group = 32 }, { .mode = WEFT_CODES_MXFP4 },
    { .mode = WEFT_CODES_NVFP4 }, { .mode = WEFT_CODES_MXFP8 }, { .mode = WEFT_CODES_AFFINE, .bits = 8 }, { .mode = WEFT_CODES_AFFINE, .bits = 6 },
  };
  static const weft_dtype scales[] = { WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_F64 };
  test_watchdog(120);
  if (!has_gpu()) return;
  for (int i = 0; i < 7; i++)
    for (int k = 0; k < 4; k++) {
      if (is_slow() && (i + k) % 3) continue;
      weft_scope *s = weft_scope_open();
      form = forms[i], scale_dtype = scales[k];
      compare("codes", by_codes, drawn_floats(WEFT_DIMS(1, k == 1 ? 1 : 9, 640), 7));
      weft_scope_discard(s);
    }
}
