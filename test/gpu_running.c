/* gpu_running.c -- running combines along rows on the GPU against the host: the same bits for every dtype, for lengths around tiles
 * and blocks, for rows that are reversed or not aligned, and whatever is computed before and behind. */
#include <string.h>
#include "gpu.h"

/* A zero below 0 and a number below the normal ones among them. */
static weft_array *rare(weft_dtype t, int64_t rows, int64_t columns) {
  int64_t n = rows * columns;
  float *x = drawn(t, n);
  if (n > 7 && (t == WEFT_F32 || t == WEFT_F64)) x[n / 2] = -0.0f, x[n - 1] = 1e-42f;
  weft_array *a = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(rows, columns), x), t);
  free(x);
  return a;
}

enum { PROGRAMS = 10 };

static weft_array *made(int which, weft_dtype t, int64_t rows, int64_t columns) {
  weft_array *x = rare(t, rows, columns);
  switch (which) {
    case 0: return weft_cumsum(x, 1);
    case 1: return weft_cumprod(x, 1);
    case 2: return weft_cummax(x, 1);
    case 3: return weft_flip(weft_cumsum(weft_flip(x, 1), 1), 1);
    case 4: return weft_cumsum(weft_slice(rare(t, rows, columns + 1), 1, 1, columns + 1, 1), 1);
    case 5: return weft_cumsum(weft_mul(weft_flip(x, 1), weft_cast(weft_scalar(3), t)), 1);
    case 6: return weft_cumsum(weft_slice(rare(t, 2 * rows, columns), 0, 0, 2 * rows, 2), 1);
    case 7: return weft_logcumsumexp(weft_cast(x, t == WEFT_F64 ? WEFT_F64 : WEFT_F32), 1);
    case 8: { /* both in one loop; the last bits of tenths show the order */
      x = weft_mul(x, weft_scalar(0.1));
      EXPECT_OK(weft_eval(1, &x));
      weft_array *both[] = { weft_cumsum(x, 1), weft_sum(x, 1) };
      EXPECT_OK(weft_eval(2, both));
      return weft_add(both[0], both[1]);
    }
    case 10:
      for (int i = 0; i < 12; i++) x = i % 2 ? weft_cumsum(x, 1) : weft_mul(weft_cumsum(x, 1), weft_scalar(0.1));
      return x;
    default: return weft_cumsum(weft_reshape(rare(t, 2 * rows, columns), 3, (int64_t[]){ 2, rows, columns }), 2);
  }
}

static void expect_same(int what, weft_dtype t, int64_t rows, int64_t columns) {
  weft_scope *s = weft_scope_open();
  void *got[2];
  size_t bytes = 0;
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(made(what, t, rows, columns), &bytes);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld], program %d", weft_dtype_name(t), (long long)rows, (long long)columns, what);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_running_combines_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64, WEFT_U8, WEFT_I16, WEFT_I64, WEFT_C64 };
  static const int64_t lengths[] = { 1, 16, 20, 32, 40, 64, 100, 128, 272 }, rows[] = { 1, 7, 8, 9, 16, 17 };
  test_watchdog(200);
  int n = 0;
  for (size_t l = 0; has_gpu() && l < sizeof lengths / sizeof *lengths; l++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++, n++) {
      int what = (n + n / 9) % PROGRAMS;
      if ((dtypes[t] == WEFT_C64 || dtypes[t] < WEFT_F16) && (what == 2 || what == 7)) what = 0;
      expect_same(what, dtypes[t], rows[n % 6], lengths[l]);
    }
  expect_same(2, WEFT_F32, 1030, 32);
  expect_same(0, WEFT_I32, 1030, 16);
}

TEST(cuda_running_sums_of_long_rows_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (!has_gpu()) return;
  expect_same(0, WEFT_F32, 1, 4096 * 3);
  expect_same(0, WEFT_F32, 2, 4096 * 2 + 100);
  expect_same(3, WEFT_F32, 1, 4096 * 17);
  expect_same(0, WEFT_F32, 1, 4096 * 35);
  expect_same(1, WEFT_F64, 1, 4096 * 2 + 1);
  expect_same(0, WEFT_BF16, 3, 4096);
}

/* The blocks of a sum that shares its loop with a running one. */
TEST(cuda_sums_beside_running_ones_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  expect_same(8, WEFT_F32, 2, 4097);
  expect_same(8, WEFT_F64, 1, 4096 * 3 + 100);
  expect_same(8, WEFT_F16, 1, 8192);
}

/* More of them in a kernel than are written out: the text of each is a loop then. */
TEST(cuda_many_running_sums_of_each_other_are_short_texts_with_the_bits_of_the_host) {
  if (!has_gpu()) return;
  expect_same(10, WEFT_F32, 1, 101);
  expect_same(10, WEFT_F64, 3, 33);
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = made(10, WEFT_F32, 1, 100);
  EXPECT(strlen(weft_show(1, &y, "ptx")) < 40000);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}
