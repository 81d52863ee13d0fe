/* eighth.c -- floats of 8 bits, e4m3 and e5m2: each pattern and each rounding, against their definition; what is computed of them is
 * computed in f32 and rounded once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "every_plain.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "weft.h"

static const weft_dtype eighths[] = { WEFT_E4M3, WEFT_E5M2 };
static const char *const backends[] = { "vm", "avx2", "x86" };

static void use_backend(const char *name) {
  plan_drop_all();
  compiled_drop_all();
  compiled_use(name);
}

static weft_array *codes(weft_dtype d) {
  uint8_t all[256];
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  return weft_from(d, WEFT_DIMS(256), all);
}

static void expect_bytes(const char *what, weft_dtype d, weft_array *y, int n, const uint8_t want[]) {
  uint8_t *got = calloc((size_t)n, 1);
  EXPECT_OK(weft_read(y, d, got, (size_t)n));
  for (int i = 0; i < n; i++)
    if (got[i] != want[i]) {
      test_fail(__FILE__, __LINE__, "%s of %s: element %d is %02x, not %02x", what, weft_dtype_name(d), i, got[i], want[i]);
      break;
    }
  free(got);
}

TEST(every_pattern_of_8_bits_moves_unharmed) {
  for (int b = 0; b < 3; b++) {
    use_backend(backends[b]);
    for (int k = 0; k < 2; k++) {
      weft_scope *s = weft_scope_open();
      weft_dtype d = eighths[k];
      uint8_t same[256], back[256], turned[256], negative[256];
      for (int i = 0; i < 256; i++)
        same[i] = (uint8_t)i, back[i] = (uint8_t)(255 - i), turned[i] = (uint8_t)(i % 16 * 16 + i / 16), negative[i] = (uint8_t)(i ^ 128);
      weft_array *x = codes(d), *yes = weft_isfinite(weft_full(WEFT_F32, WEFT_DIMS(256), 0));
      expect_bytes("itself", d, weft_where(yes, x, weft_full(d, 0, NULL, 0)), 256, same);
      expect_bytes("flip", d, weft_flip(x, 0), 256, back);
      expect_bytes("a copy of it", d, weft_concat(0, 1, &x), 256, same);
      expect_bytes("transpose", d, weft_reshape(weft_transpose(weft_reshape(x, WEFT_DIMS(16, 16)), NULL), WEFT_DIMS(256)), 256, turned);
      expect_bytes("neg", d, weft_neg(x), 256, negative);
      expect_bytes("f32 and back", d, weft_cast(weft_cast(x, WEFT_F32), d), 256, same);
      expect_bytes("f16 and back", d, weft_cast(weft_cast(x, WEFT_F16), d), 256, same);
      expect_bytes("u8 and back", d, weft_view(weft_view(x, WEFT_U8), d), 256, same);
      expect_bytes("u8", WEFT_U8, weft_view(x, WEFT_U8), 256, same);
      weft_scope_discard(s);
    }
  }
  use_backend(NULL);
}

/* Rounded once, from every dtype: numbers, the middle between two of them, and what is just beside it in f64. */
TEST(numbers_are_rounded_to_8_bits_once) {
  enum { N = 256 * 7 };
  static double x[N];
  static uint8_t want[N];
  for (int k = 0; k < 2; k++) {
    struct plain all = plain_new(eighths[k], 1, (int64_t[]){ 256 }), y = plain_new(eighths[k], 1, (int64_t[]){ N });
    for (int i = 0; i < 256; i++) all.data[i] = (uint8_t)i;
    int n = 0;
    for (int i = 0; i < 256; i++) {
      double a = plain_f(&all, i), b = i % 128 < 127 ? plain_f(&all, i + 1) : a, middle = (a + b) / 2;
      if (!isfinite(middle)) middle = copysign(k ? 61440 : 464, i < 128 ? 1 : -1);
      double few[] = { a, middle, middle * (1 + 0x1p-50), middle * (1 - 0x1p-50), middle * (1 + 0x1p-22), a * 1e30, a * 1e-30 };
      for (int j = 0; j < 7; j++) x[n++] = few[j];
    }
    for (int i = 0; i < N; i++) plain_set_f(&y, i, x[i]), want[i] = isnan(x[i]) ? 0 : y.data[i];
    for (int b = 0; b < 3; b++) {
      use_backend(backends[b]);
      weft_scope *s = weft_scope_open();
      weft_array *from = weft_from(WEFT_F64, WEFT_DIMS(N), x), *no = weft_isnan(from), *zero = weft_full(eighths[k], 0, NULL, 0);
      expect_bytes("a cast of f64", eighths[k], weft_where(no, zero, weft_cast(from, eighths[k])), N, want);
      weft_scope_discard(s);
    }
    use_backend(NULL);
    plain_free(&all), plain_free(&y);
  }
}

TEST(integers_are_rounded_to_8_bits_once) {
  static const weft_dtype from[] = { WEFT_I8, WEFT_U8, WEFT_I16, WEFT_U16, WEFT_I32, WEFT_U32, WEFT_I64, WEFT_U64, WEFT_BOOL };
  static const int64_t x[] = { 0, 1, 17, 19, 200, 464, 465, 480, 57344, 61439, 61440, 61441, 65535, 1 << 24, (1 << 24) + 1, -3, -464, -465, INT64_MAX, INT64_MIN };
  enum { N = sizeof x / sizeof *x };
  for (int k = 0; k < 2; k++)
    for (int f = 0; f < 9; f++) {
      weft_scope *s = weft_scope_open();
      struct plain in = plain_new(from[f], 1, (int64_t[]){ N }), y = plain_new(eighths[k], 1, (int64_t[]){ N });
      for (int i = 0; i < N; i++) plain_set_i(&in, i, x[i]);
      for (int i = 0; i < N; i++) plain_set_f(&y, i, from[f] == WEFT_U64 ? (long double)(uint64_t)plain_i(&in, i) : (long double)plain_i(&in, i));
      expect_bytes(weft_dtype_name(from[f]), eighths[k], weft_cast(weft_from(from[f], WEFT_DIMS(N), in.data), eighths[k]), N, y.data);
      plain_free(&in), plain_free(&y);
      weft_scope_discard(s);
    }
}

/* y = the same of f32, rounded; sums over rows and columns long enough to go in blocks, products of matrices, sorts, scatters. */
typedef weft_array *of_two(weft_array *x, weft_array *y);
static weft_array *products(weft_array *x, weft_array *y) { return weft_matmul(x, weft_moveaxis(y, 0, 1)); }
static weft_array *over_rows(weft_array *x, weft_array *y) { return (void)y, weft_sum(x, 0); }
static weft_array *over_columns(weft_array *x, weft_array *y) { return (void)y, weft_sum(x, 1); }
static weft_array *over_all(weft_array *x, weft_array *y) { return (void)y, weft_max(x, WEFT_ALL); }
static weft_array *running(weft_array *x, weft_array *y) { return (void)y, weft_cumsum(x, 0); }
static weft_array *softmaxes(weft_array *x, weft_array *y) { return (void)y, weft_softmax(x, 1); }
static weft_array *sorted(weft_array *x, weft_array *y) { return (void)y, weft_sort(x, 1); }
static weft_array *middles(weft_array *x, weft_array *y) { return (void)y, weft_median(x, 0); }
static weft_array *scattered(weft_array *x, weft_array *y) {
  weft_array *at = weft_cast(weft_remainder(weft_iota(weft_full(WEFT_I32, WEFT_DIMS(300), 0), 0), weft_integer(7)), WEFT_I64);
  return weft_put(x, weft_take(x, 1, &at), y, WEFT_ADD);
}
static weft_array *convolved(weft_array *x, weft_array *y) {
  weft_array *a = weft_reshape(x, WEFT_DIMS(1, 300, 40, 1)), *w = weft_reshape(weft_slice(weft_slice(y, 0, 0, 3, 1), 1, 0, 3, 1), WEFT_DIMS(1, 3, 3, 1));
  return weft_conv(a, w, NULL);
}
static weft_array *pooled(weft_array *x, weft_array *y) {
  weft_pool_options how = { (int64_t[]){ 3, 3 }, NULL, (int64_t[]){ 1, 1 }, (int64_t[]){ 1, 1 } };
  return (void)y, weft_max_pool(weft_reshape(x, WEFT_DIMS(1, 300, 40, 1)), &how);
}
static weft_array *in_a_loop(weft_array *x, weft_array *y) { /* rounded at every step: not the same as f32, so the step is of f32 here */
  weft_loop *l = weft_loop_open(NULL);
  weft_array *r = weft_loop_each(l, x), *q = weft_loop_each(l, y), *all = weft_loop_all(l, weft_cast(weft_mul(weft_cast(r, WEFT_F32), weft_cast(q, WEFT_F32)), weft_dtype_of(x)));
  weft_loop_close(l);
  return all;
}

static void compare(const char *name, of_two *f) {
  enum { N = 300, M = 40 };
  static float a[N * M], b[N * M];
  uint32_t seed = 7;
  for (int i = 0; i < N * M; i++) {
    seed = seed * 1664525 + 1013904223, a[i] = (float)((int)(seed >> 20) % 64 - 32) / 32;
    seed = seed * 1664525 + 1013904223, b[i] = (float)((int)(seed >> 20) % 64 - 32) / 256;
  }
  for (int k = 0; k < 2; k++)
    for (int back = 0; back < (weft_get(WEFT_DEVICE) ? 1 : 3); back++) { /* a device has one, and may be interpreted */
      use_backend(backends[back]);
      weft_scope *s = weft_scope_open();
      weft_dtype d = eighths[k];
      weft_array *x = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(N, M), a), d), *y = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(N, M), b), d);
      EXPECT_OK(weft_eval(WEFT_ARRAYS(x, y)));
      weft_array *got = f(x, y), *want = weft_cast(f(weft_cast(x, WEFT_F32), weft_cast(y, WEFT_F32)), d);
      EXPECT_INT(weft_dtype_of(got), d);
      int64_t differ = -1;
      weft_array *wrong = weft_sum(weft_cast(weft_ne(weft_view(weft_reshape(got, WEFT_DIMS(WEFT_ANY)), WEFT_U8), weft_view(weft_reshape(want, WEFT_DIMS(WEFT_ANY)), WEFT_U8)), WEFT_I64), WEFT_ALL);
      EXPECT_OK(weft_read(wrong, WEFT_I64, &differ, sizeof differ));
      if (differ) test_fail(__FILE__, __LINE__, "%s of %s on %s: %lld elements differ", name, weft_dtype_name(d), backends[back], (long long)differ);
      weft_scope_discard(s);
    }
  use_backend(NULL);
}

TEST(what_is_computed_of_8_bits_is_that_of_f32_rounded_once) {
  test_watchdog(300);
  compare("matmul", products), compare("sums of columns", over_rows), compare("sums of rows", over_columns), compare("max", over_all);
  compare("cumsum", running), compare("softmax", softmaxes), compare("sort", sorted), compare("median", middles);
  compare("scatter", scattered), compare("conv", convolved), compare("max_pool", pooled), compare("loop", in_a_loop);
}

/* A device has the bits of the CPU: of every pattern, of every rounding, of sums and of what is sorted. */
static void both_ways(const char *what, weft_array *make(weft_array *), weft_array *x, int n) {
  uint8_t *y[2] = { calloc((size_t)n, 1), calloc((size_t)n, 1) };
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    EXPECT_OK(weft_read(make(x), weft_dtype_of(make(x)), y[device], (size_t)n));
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(y[0], y[1], (size_t)n)) test_fail(__FILE__, __LINE__, "%s of %s differs on a device", what, weft_dtype_name(weft_dtype_of(x)));
  free(y[0]), free(y[1]);
}
static weft_array *to_e4m3(weft_array *x) { return weft_cast(x, WEFT_E4M3); }
static weft_array *to_e5m2(weft_array *x) { return weft_cast(x, WEFT_E5M2); }
static weft_array *but_nan(weft_array *y) { return weft_where(weft_isnan(y), weft_full_like(y, 1), y); } /* arithmetic says no more */
static weft_array *product_with_itself(weft_array *x) { return but_nan(weft_mul(x, x)); }
static weft_array *in_order(weft_array *x) { return weft_sort(x, 0); }
static weft_array *sums(weft_array *x) { return but_nan(weft_sum(weft_reshape(but_nan(x), WEFT_DIMS(64, 4)), 0)); }
static weft_array *copied(weft_array *x) { return weft_flip(weft_reshape(weft_transpose(weft_reshape(x, WEFT_DIMS(16, 16)), NULL), WEFT_DIMS(256)), 0); }

TEST(a_device_has_the_bits_of_the_cpu_in_8_bits) {
  if (weft_get(WEFT_DEVICE_COUNT) < 2) return test_skip("there is no device");
  weft_scope *s = weft_scope_open();
  static double x[65536];
  for (int i = 0; i < 65536; i++) x[i] = ldexp(1 + (i & 255) / 256. + ((i >> 13) % 3 - 1) * 0x1p-40, (i >> 8 & 31) - 18) * (i >> 15 ? -1 : 1);
  weft_array *wide = weft_from(WEFT_F64, WEFT_DIMS(65536), x), *narrow = weft_cast(wide, WEFT_F32);
  EXPECT_OK(weft_eval(1, &narrow));
  both_ways("a cast", to_e4m3, wide, 65536), both_ways("a cast", to_e5m2, wide, 65536);
  both_ways("a cast", to_e4m3, narrow, 65536), both_ways("a cast", to_e5m2, narrow, 65536);
  for (int k = 0; k < 2; k++) {
    weft_array *all = codes(eighths[k]);
    both_ways("a product", product_with_itself, all, 256), both_ways("a sort", in_order, all, 256);
    both_ways("a copy", copied, all, 256), both_ways("a sum", sums, all, 4);
  }
  weft_scope_discard(s);
}

TEST(floats_of_8_bits_meet_wider_ones_in_those) {
  EXPECT_INT(weft_dtype_promote(WEFT_E4M3, WEFT_E4M3), WEFT_E4M3);
  EXPECT_INT(weft_dtype_promote(WEFT_E4M3, WEFT_E5M2), WEFT_F32);
  EXPECT_INT(weft_dtype_promote(WEFT_E5M2, WEFT_F16), WEFT_F16);
  EXPECT_INT(weft_dtype_promote(WEFT_BF16, WEFT_E4M3), WEFT_BF16);
  EXPECT_INT(weft_dtype_promote(WEFT_E4M3, WEFT_I64), WEFT_E4M3);
  EXPECT_INT(weft_dtype_promote(WEFT_E4M3, WEFT_F64), WEFT_F64);
  EXPECT_INT(weft_dtype_promote(WEFT_C64, WEFT_E5M2), WEFT_C64);
}

/* d/dx of sums of products: cotangents are rounded to 8 bits as any value is. */
TEST(derivatives_go_through_floats_of_8_bits) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 1, 2, -3 }), WEFT_E4M3), *dx;
  weft_grad(weft_sum(weft_mul(x, weft_mul(x, x)), 0), 1, &x, &dx);
  EXPECT_INT(weft_dtype_of(dx), WEFT_E4M3);
  float got[3];
  EXPECT_OK(weft_read(weft_cast(dx, WEFT_F32), WEFT_F32, got, sizeof got));
  EXPECT(got[0] == 3 && got[1] == 12 && (got[2] == 26 || got[2] == 28));
  weft_scope_discard(s);
}
