/* gpu_thin.c -- products of few rows or columns on the GPU, by the bits of the host: however operands lie, of all lengths around the
 * 512 steps of a block, with what follows. */
#include <math.h>
#include <string.h>
#include "gpu.h"
#include "kernel/kir.h"

enum layout { PLAIN, TURNED, SPACED, BACKWARDS, SHIFTED, LAYOUTS };

/* [.., rows, columns] that lies so: its columns are neighbours, or its rows; every second one; backwards; not aligned. */
static weft_array *lying(weft_dtype t, int64_t batch, int64_t rows, int64_t columns, enum layout how) {
  if (how == TURNED) return weft_moveaxis(numbers(t, 3, (int64_t[]){ batch, columns, rows }), -1, -2);
  if (how == SPACED) return weft_slice(numbers(t, 3, (int64_t[]){ batch, rows, 2 * columns }), 2, 1, WEFT_END, 2);
  if (how == BACKWARDS) return weft_flip(weft_flip(numbers(t, 3, (int64_t[]){ batch, rows, columns }), 1), 2);
  if (how == SHIFTED) return weft_slice(numbers(t, 3, (int64_t[]){ batch, rows, columns + 3 }), 2, 1, columns + 1, 1);
  return numbers(t, 3, (int64_t[]){ batch, rows, columns });
}

/* what: 0 the product, 1 with something behind it, 2 a softmax of it */
static weft_array *product(weft_array *a, weft_array *b, int what) {
  weft_array *y = weft_matmul(a, b);
  if (what == 1) y = weft_maximum(weft_mul(weft_add(y, weft_slice(y, -1, 0, 1, 1)), weft_scalar(0.25)), weft_scalar(-1));
  return what == 2 && kir_is_float(weft_dtype_of(y)) ? weft_softmax(y, -1) : y;
}

static void expect_host(weft_dtype t, const int64_t n[4], enum layout how_a, enum layout how_b, int what) {
  weft_scope *s = weft_scope_open();
  size_t bytes[2];
  void *bits[2];
  weft_array *a = lying(t, n[0], n[1], n[3], how_a), *b = lying(t, n[0], n[3], n[2], how_b);
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    bits[device] = bits_of(product(a, b, what), &bytes[device]);
  }
  weft_set(WEFT_DEVICE, 0);
  if (bytes[0] != bytes[1] || memcmp(bits[0], bits[1], bytes[0]))
    test_fail(__FILE__, __LINE__, "%s %lld x [%lld,%lld] x [%lld,%lld], layouts %d and %d, %d: other bits", weft_dtype_name(t), (long long)n[0],
              (long long)n[1], (long long)n[3], (long long)n[3], (long long)n[2], how_a, how_b, what);
  free(bits[0]), free(bits[1]);
  weft_scope_discard(s);
}

static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_F16, WEFT_I32, WEFT_I64, WEFT_U8, WEFT_I16, WEFT_U32 };

TEST(cuda_products_of_few_rows_have_the_bits_of_the_host) {
  static const int64_t sizes[][4] = { /* batch, m, n, k */
    { 1, 1, 300, 512 }, { 1, 1, 64, 2048 }, { 1, 1, 70, 2600 }, { 1, 3, 200, 700 }, { 1, 8, 129, 513 }, { 1, 9, 64, 1100 }, { 3, 2, 100, 400 },
    { 5, 1, 64, 260 }, { 1, 31, 96, 2049 }, { 2, 17, 65, 511 }, { 1, 5, 4096, 33 }, { 1, 1, 2100, 31 },
    { 3, 2, 100, 2600 }, { 4, 1, 64, 2048 }, { 1, 1, 1, 5000 }, { 2, 40, 33, 2100 }, { 6, 3, 5, 3000 }, { 0, 3, 70, 2100 } };
  test_watchdog(240);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int how = 0; how < LAYOUTS; how++) {
      expect_host(dtypes[(i + (size_t)how) % 9], sizes[i], (enum layout)(i % LAYOUTS), (enum layout)how, (int)(i + (size_t)how) % 3);
      if (how <= TURNED) expect_host(i % 2 ? WEFT_F32 : WEFT_BF16, sizes[i], PLAIN, (enum layout)how, 0);
    }
}

/* Rows are the lanes then. */
TEST(cuda_products_of_few_columns_have_the_bits_of_the_host) {
  static const int64_t sizes[][4] = { { 1, 300, 1, 512 }, { 1, 100, 1, 2100 }, { 1, 200, 3, 700 }, { 1, 129, 8, 2500 }, { 1, 64, 13, 1100 },
                                      { 3, 100, 2, 400 }, { 4, 70, 1, 600 }, { 1, 96, 20, 2049 }, { 1, 3, 2, 9000 } };
  test_watchdog(240);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int how = 0; how < LAYOUTS; how++)
      expect_host(dtypes[(i + (size_t)how) % 9], sizes[i], (enum layout)how, (enum layout)(i % LAYOUTS), (int)(i + (size_t)how) % 3);
}

/* A vector by a matrix has no rows at all; products of vectors by many matrices, and what is made of them. */
static weft_array *of_vectors(weft_array *const x[], int which) { /* [4,7,600], [4,7,600,40] */
  weft_array *q = weft_unsqueeze(x[0], -2);
  if (which == 0) return weft_matmul(q, x[1]);
  if (which == 1) return weft_add(weft_matmul(weft_at(weft_at(x[0], 0, weft_integer(1)), 0, weft_integer(2)), weft_flatten(weft_moveaxis(x[1], 2, 0), 1, -1)), weft_scalar(1));
  weft_array *scores = weft_matmul(weft_slice(q, -1, 0, 40, 1), weft_moveaxis(x[1], -1, -2)); /* a query of attention */
  return weft_matmul(weft_softmax(scores, -1), x[1]);
}

TEST(cuda_products_of_vectors_have_the_bits_of_the_host) {
  test_watchdog(120);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (int i = 0; i < 12; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x[] = { numbers(dtypes[i % 4], 3, (int64_t[]){ 4, 7, 600 }), numbers(dtypes[i % 4], 4, (int64_t[]){ 4, 7, 600, 40 }) };
    size_t bytes[2];
    void *bits[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      bits[device] = bits_of(of_vectors(x, i / 4), &bytes[device]);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT(bytes[0] == bytes[1] && !memcmp(bits[0], bits[1], bytes[0]));
    free(bits[0]), free(bits[1]);
    weft_scope_discard(s);
  }
}

/* Sums of products that vanish are -0 where all of them are; an infinity, a nan and a denormal are ordinary numbers. */
TEST(cuda_products_of_few_rows_keep_signs_of_zeros_and_are_infinite_where_they_are) {
  static const float special[] = { -0.f, 0, INFINITY, NAN, 0x1p-140f, -0x1p-149f, 3e38f, 1 };
  if (!has_gpu()) return;
  for (int64_t k = 500; k < 2600; k += 524) {
    float *a = calloc((size_t)k, sizeof *a), *b = calloc((size_t)(k * 64), sizeof *b), got[2][64];
    for (int64_t i = 0; i < k; i++) a[i] = -0x1p-100f;
    for (int64_t i = 0; i < k * 64; i++) b[i] = i % 64 < 8 ? 0x1p-100f : i / 64 % 511 == 7 ? special[i % 8] : 0;
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(1, k), a), *z = weft_from(WEFT_F32, WEFT_DIMS(k, 64), b);
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      EXPECT_OK(weft_read(weft_matmul(x, z), WEFT_F32, got[device], sizeof got[device]));
    }
    weft_set(WEFT_DEVICE, 0);
    for (int j = 0; j < 64; j++) EXPECT((isnan(got[0][j]) && isnan(got[1][j])) || !memcmp(&got[0][j], &got[1][j], sizeof(float)));
    weft_scope_discard(s);
    free(a), free(b);
  }
}

/* Blocks of 512 steps belong to threads of their own, whose sums a kernel adds; none of it is the host's. */
TEST(cuda_long_products_of_few_rows_go_by_blocks) {
  if (!has_gpu()) return;
  for (int i = 0; i < 3; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = matrix(WEFT_BF16, i == 2 ? 3000 : 5, i == 2 ? 4096 : 3000), *z = matrix(WEFT_BF16, i == 2 ? 4096 : 3000, i == 2 ? 7 : 2048);
    weft_array *y = weft_matmul(i ? x : weft_slice(x, 0, 0, 1, 1), z);
    weft_set(WEFT_DEVICE, 1);
    const char *text = weft_show(1, &y, "kernels");
    EXPECT(n_times(text, "kernel matmul") && n_times(text, "kernel blocks") == 1);
    EXPECT_INT(n_times(weft_show(1, &y, "plan"), " on x86"), 0);
    weft_set(WEFT_DEVICE, 0);
    weft_scope_discard(s);
  }
}

/* Rows of a batch that share their right operand are rows of one product, which reads it once; others are not. */
TEST(cuda_long_products_of_a_batch_read_what_it_shares_once) {
  static const int64_t sizes[][5] = { /* batch, rows, columns, k; whether the left operand's axes are turned */
    { 8, 1, 300, 2048, 0 }, { 8, 1, 300, 2048, 1 }, { 3, 5, 70, 2100, 0 }, { 3, 5, 70, 2100, 1 }, { 40, 2, 9, 2048, 0 }, { 1, 6, 64, 1024, 0 } };
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int what = 0; what < 2; what++) {
      const int64_t *n = sizes[i];
      weft_scope *s = weft_scope_open();
      weft_array *a = n[4] ? weft_moveaxis(numbers(WEFT_F32, 4, (int64_t[]){ n[1], n[0], 2, n[3] }), 0, 2)
                           : numbers(WEFT_F32, 4, (int64_t[]){ n[0], 2, n[1], n[3] });
      weft_array *b = matrix(i % 2 ? WEFT_BF16 : WEFT_F32, n[3], n[2]);
      size_t bytes[2];
      void *bits[2];
      for (int device = 0; device < 2; device++) {
        weft_set(WEFT_DEVICE, device);
        weft_array *y = product(a, weft_cast(b, WEFT_F32), what);
        if (device && !what && !n[4]) {
          const char *text = weft_show(1, &y, "kernels");
          EXPECT(strstr(text, "kernel matmul") && strstr(text, "size K, Q, R, C\n"));
        }
        bits[device] = bits_of(y, &bytes[device]);
      }
      weft_set(WEFT_DEVICE, 0);
      EXPECT(bytes[0] == bytes[1] && !memcmp(bits[0], bits[1], bytes[0]));
      free(bits[0]), free(bits[1]);
      weft_scope_discard(s);
    }
}

/* Experts: matrices that are chosen of turned ones are copied row by row as they stand, whoever asks. */
static weft_array *by_experts(weft_array *x, weft_array *w, weft_array *at, int which) {
  weft_array *turned = weft_moveaxis(w, -1, -2);
  if (which == 0) return weft_gather_mm(x, turned, NULL, at);
  if (which == 1) return weft_matmul(x, weft_take(turned, 1, &at));
  weft_array *chosen = weft_take(turned, 1, &at); /* seen by another as well */
  return weft_add(weft_matmul(x, chosen), weft_max(chosen, -2));
}

TEST(cuda_products_by_chosen_matrices_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (int i = 0; i < 6; i++) {
    weft_scope *s = weft_scope_open();
    weft_dtype t = i % 2 ? WEFT_BF16 : WEFT_F32;
    weft_array *x = numbers(t, 4, (int64_t[]){ 5, 2, 1, 70 }), *w = numbers(t, 3, (int64_t[]){ 4, 90, 70 });
    int32_t places[] = { 0, 3, -1, 2, 2, 1, 0, 0, 3, -4 };
    weft_array *at = weft_from(WEFT_I32, WEFT_DIMS(5, 2), places);
    size_t bytes[2];
    void *bits[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      bits[device] = bits_of(by_experts(x, w, at, i / 2), &bytes[device]);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT(bytes[0] == bytes[1] && !memcmp(bits[0], bits[1], bytes[0]));
    free(bits[0]), free(bits[1]);
    weft_scope_discard(s);
  }
}

TEST(cuda_chosen_matrices_are_copied_as_they_stand) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = numbers(WEFT_BF16, 4, (int64_t[]){ 5, 2, 1, 70 }), *w = numbers(WEFT_BF16, 3, (int64_t[]){ 4, 90, 70 });
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = by_experts(x, w, weft_from(WEFT_I32, WEFT_DIMS(5, 2), (int32_t[10]){ 1 }), 0);
  EXPECT(strstr(weft_show(1, &y, "plan"), "C=90, D=70"));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}
