/* gpu_sums.c -- sums of everything, and what is folded along columns, whose parts stand in memory and are combined behind, on the GPU
 * against the host: the same bits, run after run, recorded ones included. */
#include <string.h>
#include "backend/cuda/cuda.h"
#include "gpu.h"

enum { RUNS = 3 };

typedef int summing(weft_array *x, weft_array *y[]); /* how many */

static int all(weft_array *x, weft_array *y[]) { return y[0] = weft_sum(x, WEFT_ALL), 1; }
static int two(weft_array *x, weft_array *y[]) { /* of one kernel */
  return y[0] = weft_sum(x, WEFT_ALL), y[1] = weft_sum(weft_mul(x, x), WEFT_ALL), 2;
}
static int norm(weft_array *x, weft_array *y[]) { /* of which one is an operand of the next: recorded, and replayed */
  weft_array *d = weft_sub(x, weft_mean(x, WEFT_ALL));
  return y[0] = weft_sum(weft_mul(d, d), WEFT_ALL), y[1] = weft_prod(weft_add(weft_mul(d, weft_scalar(1e-3)), weft_scalar(1)), WEFT_ALL), 2;
}
static int columns(weft_array *x, weft_array *y[]) { return y[0] = weft_sum(x, 0), 1; }
static int two_columns(weft_array *x, weft_array *y[]) {
  return y[0] = weft_sum(x, 0), y[1] = weft_prod(weft_add(weft_mul(x, weft_scalar(1e-3)), weft_scalar(1)), 0), 2;
}
static int weighed(weft_array *x, weft_array *y[]) { /* sums along columns, of what sums along columns say */
  weft_array *m = weft_mean(x, 0);
  return y[0] = weft_sum(weft_mul(weft_sub(x, m), weft_sub(x, m)), 0), y[1] = weft_sum(m, WEFT_ALL), 2;
}

/* Sums along rows, and of these. */
static int losses(weft_array *x, weft_array *y[]) {
  return y[0] = weft_mean(weft_logsumexp(x, 1), WEFT_ALL), y[1] = weft_sum(weft_mul(x, x), WEFT_ALL), 2;
}
static int channels(weft_array *x, weft_array *y[]) { /* a batch norm */
  weft_array *z = weft_reshape(x, WEFT_DIMS(weft_dim(x, 0), 3, 2, weft_dim(x, 1) / 6));
  weft_array *d = weft_sub(z, weft_over(weft_mean, z, WEFT_AXES(0, 2, 3)));
  weft_array *v = weft_over(weft_mean, weft_mul(d, d), WEFT_AXES(0, 2, 3));
  return y[0] = weft_mul(d, weft_rsqrt(weft_add(v, weft_scalar(1e-5)))), y[1] = weft_over(weft_max, z, WEFT_AXES(2, 3)), 2;
}

static int in_groups(weft_array *x, weft_array *y[]) { return y[0] = weft_logsumexp(x, 0), 1; } /* of which few lanes are left */

static void *read_all(summing *make, weft_array *x, int device, size_t *bytes) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2];
  weft_set(WEFT_DEVICE, device);
  int n = make(x, y);
  EXPECT_OK(weft_eval(n, y));
  uint8_t *all_of = NULL;
  *bytes = 0;
  for (int i = 0; i < n; i++) {
    size_t more = 0;
    void *one = bits_of(y[i], &more);
    all_of = realloc(all_of, *bytes + more + 1);
    memcpy(all_of + *bytes, one, more);
    *bytes += more;
    free(one);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
  return all_of;
}

static void expect_same(const char *what, summing *make, weft_dtype t, int64_t rows, int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_cast(weft_mul(weft_cast(matrix(WEFT_F32, rows, n), WEFT_F32), weft_scalar(0.1)), t);
  EXPECT_OK(weft_eval(1, &x));
  size_t bytes[2];
  void *host = read_all(make, x, 0, &bytes[0]);
  for (int run = 0; run < RUNS; run++) {
    void *gpu = read_all(make, x, 1, &bytes[1]);
    if (bytes[0] != bytes[1] || memcmp(host, gpu, bytes[0]))
      test_fail(__FILE__, __LINE__, "%s of %s [%lld,%lld], run %d", what, weft_dtype_name(t), (long long)rows, (long long)n, run);
    free(gpu);
  }
  free(host);
  weft_scope_discard(s);
}

static bool is_slow(void) { return getenv("WEFT_TEST_FEW") || strstr(cuda_text(cuda_gpu(0)), "machine for PTX"); }

/* Parts of 16384; combined 16 at a time, 8 at a time, and one by one. */
TEST(cuda_sums_of_everything_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 1, 31, 4097, 16384, 16385, 49153, 300001, 1 << 20, (1 << 25) + 3, (1 << 28) + 5 };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 7 : 10); i++) {
    expect_same("a sum", all, WEFT_F32, 1, lengths[i]);
    if (lengths[i] > 1 << 25) continue;
    expect_same("two sums", two, WEFT_F32, 1, lengths[i]);
    if (i % 2) expect_same("a norm", norm, WEFT_F32, 1, lengths[i]);
    else expect_same("a sum", all, i % 4 ? WEFT_F64 : WEFT_BF16, 1, lengths[i]);
  }
  expect_same("no sum", all, WEFT_F32, 0, 5);
}

/* Parts of 128 rows; threads have a column each. */
TEST(cuda_sums_along_columns_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 1, 1 }, { 128, 3 }, { 129, 1 }, { 1000, 7 }, { 700, 300 }, { 300, 1100 }, { 40000, 3 }, { 500, 2048 }, { 391, 4100 },
                                      { 8192, 4096 }, { 4096, 4099 }, { 300, 300000 }, { 100000, 64 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 9 : 13); i++) {
    expect_same("columns", columns, WEFT_F32, sizes[i][0], sizes[i][1]);
    if (sizes[i][0] * sizes[i][1] > 1 << 22) continue;
    expect_same("columns", columns, i % 2 ? WEFT_F64 : WEFT_BF16, sizes[i][0], sizes[i][1]);
    expect_same("logsumexp", in_groups, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("two columns", two_columns, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("deviations", weighed, WEFT_F32, sizes[i][0], sizes[i][1]);
  }
}

/* Rows that are added up belong to as many blocks of threads as there are rows. */
TEST(cuda_sums_of_sums_along_rows_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 1, 6 }, { 8, 600 }, { 9, 12 }, { 128, 126 }, { 129, 606 }, { 700, 66 }, { 520, 1206 }, { 3, 30000 }, { 2000, 18 },
                                      { 8192, 4098 }, { 300, 300000 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 9 : 11); i++) {
    expect_same("losses", losses, i % 2 ? WEFT_F32 : WEFT_BF16, sizes[i][0], sizes[i][1]);
    expect_same("channels", channels, i % 3 ? WEFT_F32 : WEFT_F64, sizes[i][0], sizes[i][1]);
  }
  weft_scope *s = weft_scope_open();
  weft_array *y[2], *x = matrix(WEFT_F32, 9, 12);
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    const char *text = weft_show(losses(x, y), y, "kernels"), *rows = strstr(text, "serial r in block q {");
    EXPECT(!device == (rows && strstr(rows, "lane")));
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* What has no order to keep, of columns and of planes of them. */
static int extremes(weft_array *x, weft_array *y[]) {
  weft_array *z = weft_reshape(x, WEFT_DIMS(2, weft_dim(x, 0) / 2, weft_dim(x, 1)));
  return y[0] = weft_max(x, 0), y[1] = weft_min(z, 1), 2;
}
static int truths(weft_array *x, weft_array *y[]) {
  weft_array *z = weft_reshape(x, WEFT_DIMS(2, weft_dim(x, 0) / 2, weft_dim(x, 1))), *some = weft_gt(x, weft_scalar(0.59));
  return y[0] = weft_add(weft_cast(weft_any(some, 0), WEFT_I32), weft_cast(weft_all(some, 0), WEFT_I32)),
         y[1] = weft_all(weft_lt(z, weft_scalar(0.58)), 1), 2;
}
static int strange(weft_array *x, weft_array *y[]) { /* nan, infinite and zeros of both signs among them */
  weft_array *r = weft_max(weft_sqrt(weft_add(x, weft_scalar(0.199))), 0), *z = weft_mul(weft_floor(x), weft_scalar(-0.0));
  y[0] = weft_where(weft_isnan(r), weft_scalar(-1), r); /* whose bits are nobody's */
  return y[1] = weft_add(weft_min(weft_div(weft_scalar(1), z), 0), weft_max(z, 0)), 2;
}
static int integers(weft_array *x, weft_array *y[]) {
  weft_array *i = weft_cast(weft_mul(x, weft_scalar(1000)), WEFT_I32);
  return y[0] = weft_max(i, 0), y[1] = weft_min(weft_cast(weft_abs(i), WEFT_U8), 0), 2;
}

TEST(cuda_extremes_of_columns_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 2, 1 }, { 512, 1 }, { 130000, 1 }, { 514, 3 }, { 1300, 7 }, { 700, 260 }, { 514, 6400 }, { 4098, 33 },
                                      { 8192, 4096 }, { 1 << 22, 8 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 8 : 10); i++) {
    weft_dtype t = i % 3 == 1 ? WEFT_F64 : i % 3 ? WEFT_BF16 : WEFT_F32;
    expect_same("extremes", extremes, t, sizes[i][0], sizes[i][1]);
    expect_same("truths", truths, t, sizes[i][0], sizes[i][1]);
    expect_same("strange numbers", strange, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("integers", integers, WEFT_F32, sizes[i][0], sizes[i][1]);
  }
}

/* Columns that are gone along again with what they fold to. */
static int of_columns(weft_array *x, weft_array *y[]) { return y[0] = weft_softmax(x, 0), y[1] = weft_log_softmax(x, 0), 2; }
static int standard(weft_array *x, weft_array *y[]) {
  weft_array *low = weft_min(x, 0), *high = weft_max(x, 0), *d = weft_sub(x, weft_mean(x, 0));
  y[0] = weft_div(weft_sub(x, low), weft_sub(high, low));
  return y[1] = weft_div(d, weft_sqrt(weft_add(weft_mean(weft_mul(d, d), 0), weft_scalar(1e-5)))), 2;
}
static int of_planes(weft_array *x, weft_array *y[]) { /* with an axis around them */
  weft_array *z = weft_reshape(x, WEFT_DIMS(2, weft_dim(x, 0) / 2, weft_dim(x, 1)));
  return y[0] = weft_softmax(z, 1), y[1] = weft_sub(z, weft_max(z, 1)), 2;
}
static int by_columns(weft_array *x, weft_array *y[]) { /* a gradient */
  weft_array *p = weft_softmax(x, 0), *loss = weft_sum(weft_mul(p, weft_mul(x, x)), WEFT_ALL);
  weft_grad(loss, 1, &x, &y[0]);
  return y[1] = p, 2;
}

/* Beside a fold of columns what is made of a vector that it reads, too. */
static int beside_columns(weft_array *x, weft_array *y[]) {
  weft_array *c = numbers(weft_dtype_of(x), 1, (int64_t[]){ weft_dim(x, 1) });
  return y[0] = weft_sum(weft_mul(x, c), 0), y[1] = weft_tanh(c), 2;
}

static int n_kernels(const char *text) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "kernel ")); at++) n += at == text || at[-1] == '\n';
  return n;
}

/* Of how many kernels the first result is. */
static int kernels_of(summing *make, int device, int rank, const int64_t dims[]) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2];
  weft_set(WEFT_DEVICE, device);
  make(numbers(WEFT_F32, rank, dims), y);
  int n = n_kernels(weft_show(1, y, "kernels"));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
  return n;
}

/* A fold of columns that is shared by threads, row by row, and another kernel that goes along them again. */
TEST(cuda_few_columns_that_are_read_again_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 2, 5 }, { 512, 1 }, { 514, 3 }, { 1300, 7 }, { 700, 260 }, { 4098, 33 }, { 8192, 4096 }, { 300000, 8 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 6 : 8); i++) {
    weft_dtype t = i % 3 == 1 ? WEFT_F64 : i % 3 ? WEFT_BF16 : WEFT_F32;
    expect_same("softmax", of_columns, t, sizes[i][0], sizes[i][1]);
    expect_same("standard columns", standard, i % 2 ? WEFT_F32 : t, sizes[i][0], sizes[i][1]);
    expect_same("softmax of planes", of_planes, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("its gradient", by_columns, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("what is beside", beside_columns, t, sizes[i][0], sizes[i][1]);
  }
  EXPECT_INT(kernels_of(of_columns, 0, 2, (int64_t[]){ 1024, 64 }), 1);
  EXPECT_INT(kernels_of(of_columns, 1, 2, (int64_t[]){ 1024, 64 }), 5); /* the inverse of a sum is one, too, .. */
  EXPECT_INT(kernels_of(of_planes, 1, 2, (int64_t[]){ 2048, 8 }), 5); /* .. and exponentials, as few threads sum them */
  EXPECT_INT(kernels_of(of_columns, 1, 4, (int64_t[]){ 64, 16, 12, 12 }), 1); /* many lanes, of few rows */
}

/* The first of equals, of rows and columns that are gone along in groups. */
static int firsts(weft_array *x, weft_array *y[]) {
  weft_array *r = weft_floor(weft_mul(x, weft_scalar(40)));
  y[0] = weft_add(weft_argmax(r, 0), weft_mul(weft_argmin(x, 0), weft_scalar(1000000)));
  return y[1] = weft_add(weft_argmax(x, 1), weft_mul(weft_argmin(r, 1), weft_scalar(1000000))), 2;
}
static int strange_firsts(weft_array *x, weft_array *y[]) { /* nan, infinite and zeros of both signs among them */
  weft_array *r = weft_sqrt(weft_add(x, weft_scalar(0.199))), *z = weft_mul(weft_floor(x), weft_scalar(-0.0));
  y[0] = weft_add(weft_argmax(r, 0), weft_mul(weft_argmin(z, 0), weft_scalar(1000000)));
  return y[1] = weft_add(weft_argmax(weft_log(z), 0), weft_mul(weft_argmax(weft_div(z, weft_scalar(0)), 0), weft_scalar(1000000))), 2;
}
static int firsts_of_integers(weft_array *x, weft_array *y[]) {
  weft_array *z = weft_reshape(x, WEFT_DIMS(2, weft_dim(x, 0) / 2, weft_dim(x, 1))), *i = weft_cast(weft_mul(z, weft_scalar(50)), WEFT_I8);
  return y[0] = weft_argmin(i, 1), y[1] = weft_add(weft_argmax(weft_gt(z, weft_scalar(0.55)), 1), weft_argmax(weft_flip(i, 1), 1)), 2;
}

TEST(cuda_indices_of_extremes_are_those_of_the_host) {
  static const int64_t sizes[][2] = { { 2, 3 }, { 514, 1 }, { 140000, 1 }, { 2, 140001 }, { 514, 3 }, { 1300, 7 }, { 700, 260 }, { 17002, 5 }, { 4098, 33 },
                                      { 8192, 4096 }, { 1 << 22, 8 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 9 : 11); i++) {
    weft_dtype t = i % 3 == 1 ? WEFT_F64 : i % 3 ? WEFT_BF16 : WEFT_F32;
    expect_same("firsts", firsts, t, sizes[i][0], sizes[i][1]);
    expect_same("strange firsts", strange_firsts, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("firsts of integers", firsts_of_integers, WEFT_F32, sizes[i][0], sizes[i][1]);
  }
  EXPECT_INT(kernels_of(firsts_of_integers, 1, 2, (int64_t[]){ 8, 4096 }), 1);
  EXPECT_INT(kernels_of(firsts_of_integers, 1, 2, (int64_t[]){ 8192, 4 }), 2);
  EXPECT_INT(kernels_of(firsts_of_integers, 0, 2, (int64_t[]){ 8192, 4 }), 1);
}

/* Running combines along few long columns, by blocks of 4096 steps that threads share. */
static int running(weft_array *x, weft_array *y[]) {
  return y[0] = weft_cumsum(x, 0), y[1] = weft_cummax(weft_flip(x, 0), 0), 2;
}
static int running_planes(weft_array *x, weft_array *y[]) { /* with axes around, of what was computed, and read again */
  weft_array *z = weft_reshape(x, WEFT_DIMS(2, weft_dim(x, 0) / 2, weft_dim(x, 1)));
  weft_array *p = weft_cumprod(weft_add(weft_mul(z, weft_scalar(1e-3)), weft_scalar(1)), 1);
  return y[0] = weft_mul(p, z), y[1] = weft_cumsum(weft_cast(weft_mul(z, weft_scalar(50)), WEFT_I16), 1), 2;
}
static int running_twice(weft_array *x, weft_array *y[]) { return y[0] = weft_cummin(weft_transpose(weft_cumsum(x, 0), NULL), 1), 1; }

TEST(cuda_running_columns_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 2, 3 }, { 512, 2 }, { 1026, 70 }, { 4096, 3 }, { 4098, 33 }, { 8192, 5 }, { 20002, 7 }, { 8192, 4096 },
                                      { 1000000, 8 }, { 600, 20000 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < (is_slow() ? 7 : 10); i++) {
    weft_dtype t = i % 3 == 1 ? WEFT_F64 : i % 3 ? WEFT_BF16 : WEFT_F32;
    expect_same("running", running, t, sizes[i][0], sizes[i][1]);
    expect_same("running", running, WEFT_F32, sizes[i][0], sizes[i][1]);
    expect_same("running planes", running_planes, t, sizes[i][0], sizes[i][1]);
    expect_same("running twice", running_twice, WEFT_F32, sizes[i][0], sizes[i][1]);
  }
  EXPECT_INT(kernels_of(running, 1, 2, (int64_t[]){ 4096, 8 }), 1);
  EXPECT_INT(kernels_of(running, 1, 2, (int64_t[]){ 20000, 8 }), 4);
  EXPECT_INT(kernels_of(running, 0, 2, (int64_t[]){ 20000, 8 }), 1);
}

/* Few threads fold: what is computed of each element, product and logarithm and all, has threads of its own. */
static int log_density(weft_array *x, weft_array *y[]) {
  weft_array *b = weft_slice(x, 0, 0, 1, 1), *eta = weft_sum(weft_mul(x, b), 1);
  y[0] = weft_sum(weft_sub(eta, weft_logaddexp(eta, weft_scalar(0))), WEFT_ALL);
  y[1] = weft_sum(weft_exp(weft_mul(x, weft_scalar(0.01))), 0);
  return 2;
}

TEST(cuda_sums_of_few_threads_leave_arithmetic_to_others_with_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 700, 30 }, { 5000, 7 }, { 4097, 1 }, { 3, 2 } };
  for (size_t i = 0; has_gpu() && i < sizeof sizes / sizeof *sizes; i++)
    for (int t = 0; t < 2; t++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = matrix(t ? WEFT_F64 : WEFT_F32, sizes[i][0], sizes[i][1]), *y[2];
      void *bits[2][2];
      size_t bytes[2];
      for (int device = 0; device < 2; device++) {
        weft_set(WEFT_DEVICE, device);
        log_density(x, y);
        if (device && i < 2) EXPECT(strstr(weft_show(2, y, "plan"), ": sum on ") && strstr(weft_show(2, y, "plan"), "_exp on "));
        for (int k = 0; k < 2; k++) bits[device][k] = bits_of(y[k], &bytes[k]);
      }
      weft_set(WEFT_DEVICE, 0);
      for (int k = 0; k < 2; k++) {
        EXPECT(!memcmp(bits[0][k], bits[1][k], bytes[k]));
        free(bits[0][k]), free(bits[1][k]);
      }
      weft_scope_discard(s);
    }
}

/* A row is the threads' of one processor, unless rows are few and long: then its folds are all processors', and what is made of them
 * is a kernel behind. */
static weft_array *of_long_rows(weft_array *x, int which) {
  weft_array *m = weft_mean(x, 1), *d = weft_sub(x, weft_unsqueeze(m, 1));
  if (which == 0) return weft_softmax(x, 1);
  if (which == 1) return weft_div(d, weft_sqrt(weft_add(weft_unsqueeze(weft_mean(weft_mul(d, d), 1), 1), weft_scalar(1e-5))));
  return which == 2 ? weft_max(x, 1) : weft_add(weft_flip(x, 1), weft_unsqueeze(weft_min(weft_mul(x, x), 1), 1));
}

TEST(cuda_few_long_rows_are_folded_by_all_processors_with_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 1, 40001 }, { 3, 32769 }, { 9, 36864 }, { 2, 70000 } };
  test_watchdog(240);
  for (size_t i = 0; has_gpu() && i < sizeof sizes / sizeof *sizes; i++)
    for (int which = 0; which < 4; which++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = matrix((i + (size_t)which) % 3 ? WEFT_F32 : WEFT_BF16, sizes[i][0], sizes[i][1]);
      size_t bytes[2];
      void *bits[2];
      for (int device = 0; device < 2; device++) {
        weft_set(WEFT_DEVICE, device);
        weft_array *y = of_long_rows(x, which);
        if (device && which != 2) EXPECT(n_times(weft_show(1, &y, "kernels"), "kernel ") >= 2);
        bits[device] = bits_of(y, &bytes[device]);
      }
      weft_set(WEFT_DEVICE, 0);
      if (bytes[0] != bytes[1] || memcmp(bits[0], bits[1], bytes[0]))
        test_fail(__FILE__, __LINE__, "[%lld,%lld], %d: other bits", (long long)sizes[i][0], (long long)sizes[i][1], which);
      free(bits[0]), free(bits[1]);
      weft_scope_discard(s);
    }
}
