/* gpu_products.c -- products of matrices on the GPU: of f16 and bf16, whose sums have no order to keep, against sums in plain C,
 * of f32 and f64 against the bits of the host: layouts, odd sizes, batches, what follows, numbers that overflow and NaN. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/blas.h"
#include "gpu.h"
#include "test.h"

static size_t a_step(void) { return getenv("WEFT_TEST_FEW") ? 4 : 1; } /* under a sanitizer */

static uint32_t seed = 1;
static float number(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / (1 << 23) - 1;
}

/* [batch, rows, columns] of halves, with what they are as floats; turned: columns stand one after the other. */
struct half_matrix { weft_array *x; float *at; int64_t rows, columns; };

static struct half_matrix half_matrix(weft_dtype t, int64_t batch, int64_t rows, int64_t columns, bool turned, float special) {
  int64_t n = batch * rows * columns, dims[] = { batch, turned ? columns : rows, turned ? rows : columns };
  struct half_matrix m = { .at = calloc((size_t)n + 1, sizeof(float)), .rows = rows, .columns = columns };
  float *raw = calloc((size_t)n + 1, sizeof *raw);
  for (int64_t i = 0; i < n; i++) raw[i] = number();
  if (special && n) raw[n / 2] = special;
  weft_array *x = weft_cast(weft_from(WEFT_F32, 3, dims, raw), t);
  EXPECT_OK(weft_read(weft_cast(x, WEFT_F32), WEFT_F32, raw, (size_t)n * sizeof *raw));
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++)
        m.at[(b * rows + i) * columns + j] = raw[b * rows * columns + (turned ? j * rows + i : i * columns + j)];
  m.x = turned ? weft_transpose(x, (const int[]){ 0, 2, 1 }) : x;
  free(raw);
  return m;
}

/* The sum and the sum of sizes, which bounds the error. */
static double sum_of(const struct half_matrix *a, const struct half_matrix *b, int64_t batch, int64_t i, int64_t j, double *size) {
  double sum = 0;
  *size = 0;
  for (int64_t k = 0; k < a->columns; k++) {
    double x = (double)a->at[(batch * a->rows + i) * a->columns + k] * b->at[(batch * b->rows + k) * b->columns + j];
    sum += x, *size += fabs(x);
  }
  return sum;
}

/* Rounded to the dtype once, or near where a sum in f32 may end up. f32: by tf32, each factor rounded by up to 2^-11 of it. */
static bool is_near(weft_dtype t, double want, double size, double got) {
  double unit = t == WEFT_BF16 ? 0x1p-8 : t == WEFT_F16 ? 0x1p-11 : 0, most = t == WEFT_F16 ? 65504 : 3.3e38;
  if (t == WEFT_F32) size *= 0x1p11;
  if (isnan(want)) return isnan(got);
  if (isinf(want) || fabs(want) > 1.01 * most) return isinf(got) && (got > 0) == (want > 0);
  return fabs(got - want) <= unit * fabs(want) + 0x1p-21 * size + 0x1p-24;
}

static const struct half_case { int64_t batch, m, n, k; bool turn_a, turn_b; float special; } cases[] = {
  { 1, 64, 64, 64, false, false, 0 }, { 1, 64, 64, 64, true, false, 0 }, { 1, 64, 64, 64, false, true, 0 },
  { 1, 64, 64, 64, true, true, 0 }, { 2, 72, 136, 200, false, false, 0 }, { 3, 40, 48, 72, true, true, 0 },
  { 1, 33, 47, 65, false, false, 0 }, { 2, 33, 47, 65, true, true, 0 }, { 1, 136, 264, 128, false, true, 0 },
  { 1, 32, 32, 8, false, false, 0 }, { 1, 40, 40, 1, false, false, 0 }, { 2, 64, 64, 0, false, false, 0 },
  { 1, 33, 64, 1, true, false, 0 }, { 2, 33, 63, 1, true, false, 0 }, { 1, 136, 72, 1, true, false, 0 }, { 1, 40, 33, 1, true, true, 0 },
  { 1, 33, 56, 1304, false, false, 0 }, /* a library may add such a long sum in parts: not in halves */
  { 1, 250, 704, 136, false, false, 0 }, { 1, 256, 520, 72, true, true, 0 }, { 1, 256, 512, 200, true, false, 0 },
  { 1, 8, 64, 64, false, false, 0 }, { 0, 64, 64, 64, false, false, 0 }, { 1, 48, 48, 600, false, false, NAN },
  { 1, 48, 48, 40, true, false, INFINITY }, { 1, 48, 48, 40, false, false, 60000 },
};

/* what: 0 the product, 1 with a row added to it, positive parts, 2 in f32 */
static void expect_product(weft_dtype t, const struct half_case *c, int what) {
  weft_scope *s = weft_scope_open();
  struct half_matrix a = half_matrix(t, c->batch, c->m, c->k, c->turn_a, c->special), b = half_matrix(t, c->batch, c->k, c->n, c->turn_b, c->special),
                     row = half_matrix(t, 1, 1, c->n, false, 0);
  size_t count = (size_t)(c->batch * c->m * c->n);
  float *got = calloc(count + 1, sizeof *got);
  weft_array *y = weft_matmul(a.x, b.x);
  if (what == 1) y = weft_maximum(weft_add(y, row.x), weft_scalar(0));
  weft_set(WEFT_DEVICE, 1);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F32), WEFT_F32, got, count * sizeof *got));
  weft_set(WEFT_DEVICE, 0);
  int n_wrong = 0;
  for (int64_t q = 0; q < c->batch; q++)
    for (int64_t i = 0; i < c->m; i++)
      for (int64_t j = 0; j < c->n; j++) {
        double size, want = sum_of(&a, &b, q, i, j, &size), x = got[(q * c->m + i) * c->n + j];
        if (what == 1) want += row.at[j], size += fabs(want) + 1, want = want > 0 || isnan(want) ? want : 0;
        if (what == 1 ? !is_near(t, want, size * (t == WEFT_BF16 ? 0x1p13 : 0x1p10), x) : !is_near(t, want, size, x)) {
          if (!n_wrong++) test_fail(__FILE__, __LINE__, "%s [%lld,%lld,%lld]x[%lld], %d%d, %d: element %lld,%lld,%lld is %g, not %g",
                                    weft_dtype_name(t), (long long)c->batch, (long long)c->m, (long long)c->k, (long long)c->n, c->turn_a,
                                    c->turn_b, what, (long long)q, (long long)i, (long long)j, x, want);
        }
      }
  free(a.at), free(b.at), free(row.at), free(got);
  weft_scope_discard(s);
}

TEST(cuda_products_of_halves_are_near_those_of_doubles) {
  test_watchdog(200);
  for (size_t i = 0; has_gpu() && i < sizeof cases / sizeof *cases; i += a_step())
    for (int what = 0; what < 2; what++) {
      expect_product(WEFT_BF16, &cases[i], what);
      expect_product(WEFT_F16, &cases[i], what);
    }
}

/* Operands whose rows begin anywhere are copied first, where that is worth it: by tensor cores all the same. An infinity is where it
 * was, and what is padded is multiplied by nothing. */
TEST(cuda_large_products_of_halves_that_are_not_aligned_are_near_those_of_doubles) {
  static const struct half_case odd[] = {
    { 1, 405, 411, 421, false, false, 0 }, { 1, 405, 411, 421, true, false, INFINITY }, { 1, 405, 411, 421, true, true, 0 },
    { 3, 301, 275, 277, false, true, 0 }, { 1, 408, 411, 420, false, false, 0 } };
  test_watchdog(200);
  for (size_t i = 0; has_gpu() && i < sizeof odd / sizeof *odd; i += a_step()) expect_product(i % 2 ? WEFT_F16 : WEFT_BF16, &odd[i], i == 2);
}

/* x w, and the derivative by w of something like it: what both read is copied once, and not once for each of a batch. */
TEST(cuda_operands_of_several_products_of_halves_are_aligned_once) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  setenv("WEFT_CUBLASLT", "0", 1);
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_reshape(matrix(WEFT_BF16, 2 * 256, 1001), WEFT_DIMS(2, 256, 1001)), *w = matrix(WEFT_BF16, 1001, 264);
  weft_array *flat = weft_reshape(x, WEFT_DIMS(512, 1001));
  weft_array *y[] = { weft_matmul(x, w), weft_matmul(weft_transpose(weft_mul(flat, weft_scalar(2)), NULL), flat),
                      weft_matmul(flat, weft_transpose(weft_slice(matrix(WEFT_BF16, 272, 1008), 1, 0, 1001, 1), NULL)) };
  const char *plan = weft_show(3, y, "plan");
  EXPECT_INT(n_times(plan, ": matmul"), 3);
  EXPECT_INT(n_times(plan, ": pad"), 2);
  setenv("WEFT_EXACT", "1", 1);
  EXPECT_INT(n_times(weft_show(1, y, "plan"), ": pad"), 0);
  setenv("WEFT_EXACT", "0", 1);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* Plain tiles: the bits of the host. */
static void expect_bits_of_host(void) {
  for (int half = 0; half < 2; half++) {
    weft_scope *s = weft_scope_open();
    weft_dtype t = half ? WEFT_F16 : WEFT_BF16;
    struct half_matrix a = half_matrix(t, 1, 72, 1100, false, 0), b = half_matrix(t, 1, 1100, 64, true, 0);
    float got[2][72 * 64];
    for (int device = 0; device < 2; device++) {
      weft_scope *one = weft_scope_open();
      weft_set(WEFT_DEVICE, device);
      EXPECT_OK(weft_read(weft_cast(weft_matmul(a.x, b.x), WEFT_F32), WEFT_F32, got[device], sizeof got[device]));
      weft_scope_discard(one);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT(!memcmp(got[0], got[1], sizeof got[0]));
    free(a.at), free(b.at);
    weft_scope_discard(s);
  }
}

TEST(cuda_products_by_tf32_are_near_those_of_doubles) {
  test_watchdog(200);
  if (!has_gpu()) return;
  EXPECT_INT(weft_set(WEFT_TF32, 1), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += a_step())
    for (int what = 0; what < 2; what++) expect_product(WEFT_F32, &cases[i], what);
  EXPECT_INT(weft_set(WEFT_TF32, 0), 1);
}

/* Of a row of ones and a column: read by the device, with WEFT_TF32 as it is. */
static float row_by_column(int64_t k, const float *column) {
  enum { M = 32 };
  weft_scope *s = weft_scope_open();
  float *a = calloc((size_t)(M * k), sizeof *a), *b = calloc((size_t)(M * k), sizeof *b), y[M * M];
  for (int64_t i = 0; i < M * k; i++) a[i] = 1, b[i] = column[i / M];
  weft_array *ones = weft_from(WEFT_F32, WEFT_DIMS(M, k), a), *x = weft_from(WEFT_F32, WEFT_DIMS(k, M), b);
  weft_set(WEFT_DEVICE, 1);
  EXPECT_OK(weft_eval(2, (weft_array *[]){ ones, x }));
  EXPECT_OK(weft_read(weft_matmul(ones, x), WEFT_F32, y, sizeof y));
  weft_set(WEFT_DEVICE, 0);
  for (int i = 1; i < M * M; i++) EXPECT(!memcmp(&y[i], &y[0], sizeof *y));
  free(a), free(b);
  weft_scope_discard(s);
  return y[0];
}

/* 11 bits of each factor where that is asked for, all of them otherwise; numbers that have no nearest one are as they are. */
TEST(cuda_products_of_f32_are_rounded_to_tf32_only_where_that_is_asked_for) {
  enum { K = 1024 }; /* 2^20 products: fewer are no tiles */
  static const uint32_t special[] = { 0x7f800001, 0x7fffffff, 0xffc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x7f7fe000 };
  static float column[K];
  if (!has_gpu()) return;
  column[5] = 1 + 0x1p-12f, column[700] = 2 + 3 * 0x1p-11f;
  EXPECT(row_by_column(K, column) == 3 + 7 * 0x1p-12f);
  EXPECT_INT(weft_set(WEFT_TF32, 2), -1);
  EXPECT_INT(weft_set(WEFT_TF32, 1), 0);
  setenv("WEFT_CUBLASLT", "0", 1); /* which rounds as it likes */
  float rounded = row_by_column(K, column);
  if (rounded != 3 + 4 * 0x1p-11f) test_fail(__FILE__, __LINE__, "rounded to %a", rounded);
  for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
    float want;
    memset(column, 0, sizeof column);
    memcpy(&column[700], &special[i], sizeof want);
    want = column[700];
    float got = row_by_column(K, column);
    if (isnan(want) ? !isnan(got) : isinf(want) ? got != want : !(fabsf(got) > 3.3e38f) || isinf(got))
      test_fail(__FILE__, __LINE__, "%08x gives %g", special[i], got);
  }
  weft_set(WEFT_TF32, 0);
}

/* Products of f32 and f64 are a library's where WEFT_BLAS says so: the numbers, alone and with what follows, whoever adds them, and
 * without it, or with WEFT_EXACT, the bits of the host. */
static void expect_asked_for(weft_dtype t, bool has_rest, bool is_librarys) {
  enum { M = 96, K = 200, N = 64 };
  weft_scope *s = weft_scope_open();
  weft_array *a = matrix(t, M, K), *b = matrix(t, N, K), *y = weft_matmul(a, weft_transpose(b, NULL));
  static double got[M * N], want[M * N];
  if (has_rest) y = weft_mul(weft_tanh(y), weft_slice(a, 1, 0, N, 1));
  weft_set(WEFT_DEVICE, 1);
  const char *plan = weft_show(1, &y, "plan");
  if (!strstr(plan, "by cublasLt") != !is_librarys)
    test_fail(__FILE__, __LINE__, "%s, %d: the library is to be %d:\n%s", weft_dtype_name(t), has_rest, is_librarys, plan);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, got, sizeof got));
  weft_set(WEFT_DEVICE, 0);
  int64_t blas = weft_set(WEFT_BLAS, 0);
  y = weft_matmul(matrix(t, M, K), weft_transpose(matrix(t, N, K), NULL));
  if (has_rest) y = weft_mul(weft_tanh(y), weft_slice(a, 1, 0, N, 1));
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, want, sizeof want));
  weft_set(WEFT_BLAS, blas);
  double most = 0;
  for (int i = 0; i < M * N; i++) most = fmax(most, fabs(got[i] - want[i]) / (1 + fabs(want[i])));
  if (most > (is_librarys ? t == WEFT_F64 ? 1e-13 : 1e-5 : 0))
    test_fail(__FILE__, __LINE__, "%s, %d, %d: %g apart", weft_dtype_name(t), has_rest, is_librarys, most);
  weft_scope_discard(s);
}

TEST(cuda_products_that_a_library_is_asked_for_are_its) {
  const char *lt = getenv("WEFT_CUBLASLT");
  if (!has_gpu()) return;
  bool is_there = lt ? strcmp(lt, "0") : !!strstr(weft_device_text(1), "NVIDIA");
  setenv("WEFT_BLAS", PLAIN_CBLAS, 1);
  for (int k = 0; k < 8; k++) {
    weft_set(WEFT_BLAS, k < 4);
    expect_asked_for(k % 2 ? WEFT_F64 : WEFT_F32, k / 2 % 2, k < 4 && is_there);
  }
}

/* Asked for with a device set, and asked for again where that of the host has been refused meanwhile. */
TEST(cuda_libraries_may_be_asked_for_where_the_host_has_none) {
  const char *lt = getenv("WEFT_CUBLASLT");
  if (!has_gpu()) return;
  bool is_there = lt ? strcmp(lt, "0") : !!strstr(weft_device_text(1), "NVIDIA");
  blas_use("libno-such-blas.so");
  weft_set(WEFT_DEVICE, 0);
  EXPECT_INT(weft_set(WEFT_BLAS, 1), -1);
  for (int k = 0; k < 5; k++) {
    weft_set(WEFT_DEVICE, 1);
    EXPECT_INT(weft_set(WEFT_BLAS, 1), is_there ? 0 : -1);
    weft_set(WEFT_DEVICE, 0);
    if (k < 4 && is_there) expect_asked_for(k % 2 ? WEFT_F64 : WEFT_F32, k / 2, true);
  }
  weft_scope *s = weft_scope_open();
  weft_array *of_host = weft_matmul(matrix(WEFT_F32, 96, 200), matrix(WEFT_F32, 200, 64));
  EXPECT_INT(weft_eval(1, &of_host), is_there ? WEFT_ERR_FILE : WEFT_OK);
  weft_scope_discard(s);
  weft_set(WEFT_BLAS, 0);
  blas_use(NULL);
}

TEST(cuda_exact_products_are_no_library_s_that_is_asked_for) {
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  setenv("WEFT_BLAS", PLAIN_CBLAS, 1);
  EXPECT(weft_set(WEFT_BLAS, 1) >= 0);
  for (int k = 0; k < 4; k++) expect_asked_for(k % 2 ? WEFT_F64 : WEFT_F32, k / 2, false);
  weft_set(WEFT_BLAS, 0);
}

TEST(cuda_exact_products_are_not_rounded_to_tf32) {
  static float column[1024];
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  weft_set(WEFT_TF32, 1);
  column[700] = 1 + 0x1p-20f;
  EXPECT(row_by_column(1024, column) == 1 + 0x1p-20f);
  weft_set(WEFT_TF32, 0);
}

TEST(cuda_exact_products_of_halves_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  expect_bits_of_host();
}

/* Also after the same was computed in the order of the machine. */
TEST(cuda_products_of_halves_in_the_order_of_k_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  weft_set(WEFT_HALVES, 2);
  weft_scope *s = weft_scope_open();
  struct half_matrix a = half_matrix(WEFT_BF16, 1, 72, 1100, false, 0), b = half_matrix(WEFT_BF16, 1, 1100, 64, true, 0);
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = weft_matmul(a.x, b.x);
  EXPECT_OK(weft_eval(1, &y));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
  free(a.at), free(b.at);
  EXPECT_INT(weft_set(WEFT_HALVES, 0), 2);
  expect_bits_of_host();
  weft_set(WEFT_HALVES, 2);
}

/* y = x w of a batch x: dw is the sum over the batch, which is one long sum where a library multiplies. */
TEST(cuda_derivatives_by_a_matrix_of_halves_add_up_the_batch) {
  static const int64_t sizes[][4] = { { 3, 40, 48, 33 }, { 2, 64, 64, 64 }, { 5, 1, 32, 40 }, { 1, 33, 40, 40 } };
  for (size_t i = 0; has_gpu() && i < sizeof sizes / sizeof *sizes; i++)
    for (int turn = 0; turn < 2; turn++) {
      weft_scope *s = weft_scope_open();
      int64_t batch = sizes[i][0], m = sizes[i][1], k = sizes[i][2], n = sizes[i][3];
      weft_dtype t = i % 2 ? WEFT_F16 : WEFT_BF16;
      struct half_matrix x = half_matrix(t, batch, m, k, turn, 0), w = half_matrix(t, 1, k, n, false, 0), dy = half_matrix(t, batch, m, n, false, 0);
      weft_array *one = weft_reshape(w.x, 2, (const int64_t[]){ k, n }), *dw;
      float *got = calloc((size_t)(k * n), sizeof *got);
      weft_set(WEFT_DEVICE, 1);
      EXPECT_OK(weft_eval(1, &one));
      weft_grad(weft_sum(weft_mul(weft_matmul(x.x, one), dy.x), WEFT_ALL), 1, &one, &dw);
      EXPECT_OK(weft_read(weft_cast(dw, WEFT_F32), WEFT_F32, got, (size_t)(k * n) * sizeof *got));
      weft_set(WEFT_DEVICE, 0);
      for (int64_t a = 0; a < k; a++)
        for (int64_t b = 0; b < n; b++) {
          double want = 0, size = 0, unit = t == WEFT_BF16 ? 0x1p-8 : 0x1p-11;
          for (int64_t j = 0; j < batch * m; j++) {
            double z = (double)x.at[j * k + a] * dy.at[j * n + b];
            want += z, size += fabs(z);
          }
          EXPECT(fabs(got[a * n + b] - want) <= 2 * unit * size);
        }
      free(x.at), free(w.at), free(dy.at), free(got);
      weft_scope_discard(s);
    }
}

/* ---- f32 and f64 ---- */

/* Numbers of all sizes, now and then an infinity, a nan, a zero of either sign or a denormal. */
static double number_of(weft_dtype t, int kind) {
  double x = number(), special[] = { INFINITY, -INFINITY, NAN, 0, -0.0, 0x1p-1060, 0x1p-140 };
  seed = seed * 1664525u + 1013904223u;
  unsigned r = seed >> 16;
  if (kind == 1) return ldexp(x, (int)(r % (t == WEFT_F64 ? 900 : 100)) - (t == WEFT_F64 ? 600 : 80));
  if (kind == 2 && r % 97 == 0) return special[r / 97 % 7];
  double tiny = t == WEFT_F64 ? 0x1p-600 : 0x1p-100;
  if (kind == 3 || kind == 4) return (kind == 3 ? -tiny : tiny) * (fabs(x) + 0.1); /* products of 3 and 4 vanish, as -0 */
  return x;
}

static weft_array *floats(weft_dtype t, const int64_t dims[3], bool turned, int kind) {
  int64_t n = dims[0] * dims[1] * dims[2], stored[] = { dims[0], dims[turned ? 2 : 1], dims[turned ? 1 : 2] };
  double *raw = calloc((size_t)n + 1, sizeof *raw);
  for (int64_t i = 0; i < n; i++) raw[i] = number_of(t, kind);
  weft_array *x = weft_cast(weft_from(WEFT_F64, 3, stored, raw), t);
  EXPECT_OK(weft_eval(1, &x));
  free(raw);
  return turned ? weft_transpose(x, (const int[]){ 0, 2, 1 }) : x;
}

static const struct float_case { int64_t batch, m, n, k; bool turn_a, turn_b; int kind, what; } float_cases[] = {
  { 1, 32, 32, 16, false, false, 0, 0 },   { 1, 33, 47, 65, false, false, 1, 0 },  { 1, 40, 70, 3, true, false, 0, 0 },
  { 1, 64, 64, 1, false, true, 0, 0 },     { 2, 65, 33, 30, true, true, 2, 1 },    { 1, 130, 200, 40, false, false, 0, 0 },
  { 1, 300, 310, 37, false, true, 1, 1 },  { 1, 256, 400, 21, true, false, 2, 0 }, { 3, 34, 36, 0, false, false, 0, 1 },
  { 1, 48, 40, 1100, false, false, 1, 0 }, { 1, 40, 40, 512, false, false, 0, 0 }, { 1, 32, 64, 513, true, true, 0, 1 },
  { 1, 320, 390, 1027, false, false, 0, 0 }, { 0, 32, 32, 8, false, false, 0, 0 }, { 1, 36, 44, 7, false, false, 3, 0 },
  { 1, 36, 44, 3, false, false, 3, 0 },    { 1, 40, 36, 17, true, true, 3, 0 },    { 1, 33, 36, 514, false, true, 3, 0 },
  { 1, 40, 50, 33, false, true, 1, 2 },    { 2, 130, 140, 600, false, false, 0, 2 },
  { 1, 300, 310, 9, false, false, 3, 0 },  { 2, 260, 388, 34, true, true, 1, 0 },  { 1, 384, 256, 24, false, true, 0, 0 },
  { 1, 300, 310, 530, false, true, 2, 1 }, { 1, 20, 13, 600, false, true, 1, 2 }, { 3, 12, 31, 129, true, false, 2, 0 },
};

/* what 1: a row is added, and positive parts taken; 2: each row times a number of its own, which is computed once a row */
static void expect_host(weft_dtype t, const struct float_case *c) {
  weft_scope *s = weft_scope_open();
  weft_array *a = floats(t, (const int64_t[]){ c->batch, c->m, c->k }, c->turn_a, c->kind),
             *b = floats(t, (const int64_t[]){ c->batch, c->k, c->n }, c->turn_b, c->kind == 3 ? 4 : c->kind),
             *row = floats(t, (const int64_t[]){ 1, 1, c->n }, false, 0), *column = floats(t, (const int64_t[]){ 1, c->m, 1 }, false, 0);
  size_t n = (size_t)(c->batch * c->m * c->n), bytes = n * (t == WEFT_F64 ? 8 : 4);
  char *got[2] = { calloc(bytes + 1, 1), calloc(bytes + 1, 1) };
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *y = weft_matmul(a, b);
    if (c->what == 1) y = weft_maximum(weft_add(y, row), weft_scalar(0));
    if (c->what == 2) y = weft_mul(y, weft_add(column, weft_scalar(1)));
    if (device) EXPECT(c->batch * c->k == 0 || strstr(weft_show(1, &y, "ptx"), "_floats0"));
    EXPECT_OK(weft_read(weft_where(weft_eq(y, y), y, weft_cast(weft_scalar(NAN), t)), t, got[device], bytes));
    weft_set(WEFT_DEVICE, 0);
    weft_scope_discard(one);
  }
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld,%lld]x[%lld], %d%d, kind %d, %d: not the bits of the host", weft_dtype_name(t),
              (long long)c->batch, (long long)c->m, (long long)c->k, (long long)c->n, c->turn_a, c->turn_b, c->kind, c->what);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_products_of_floats_have_the_bits_of_the_host) {
  test_watchdog(200);
  for (size_t i = 0; has_gpu() && i < sizeof float_cases / sizeof *float_cases; i += a_step()) {
    expect_host(WEFT_F32, &float_cases[i]);
    expect_host(WEFT_F64, &float_cases[i]);
  }
}
