/* gpu_turned.c -- kernels that read arrays across their rows, by tiles in shared memory, on the GPU against the host: the same
 * bits for every dtype, for lengths around a tile's, for views that are reversed, broadcast, overlapping, and for several axes. */
#include <string.h>
#include "gpu.h"

static weft_array *turn(weft_array *x) { return weft_transpose(x, NULL); }

enum { PROGRAMS = 9 };

/* [rows, columns], of arrays that stand the other way. */
static weft_array *made(int which, weft_dtype t, int64_t rows, int64_t columns) {
  weft_array *x = turn(matrix(t, columns, rows)), *y = matrix(t, rows, columns);
  switch (which) {
    case 0: return weft_add(x, x);
    case 1: return weft_mul(weft_add(x, y), turn(matrix(t, columns, rows)));
    case 2: return weft_add(turn(weft_flip(matrix(t, columns, rows), 1)), y);
    case 3: return weft_add(turn(weft_flip(matrix(t, columns, rows), 0)), weft_slice(matrix(t, rows, 1), 1, 0, 1, 1));
    case 4: return weft_sub(weft_broadcast(turn(matrix(t, 1, rows)), 2, (int64_t[]){ rows, columns }), x);
    case 5: return weft_add(turn(weft_slice(matrix(t, columns + 3, rows + 5), 1, 2, rows + 2, 1)), weft_scalar(1));
    case 6: return weft_add(weft_slice(turn(matrix(t, columns, 2 * rows + 1)), 0, 1, 2 * rows + 1, 2), weft_scalar(1));
    case 7: return weft_where(weft_gt(x, weft_scalar(0)), y, weft_cast(weft_scalar(3), t));
    default: return weft_cast(weft_add(x, turn(weft_cast(matrix(WEFT_I8, columns, rows), t))), WEFT_F32);
  }
}

/* Three and four axes in another order. */
static weft_array *permuted(int which, weft_dtype t, int64_t n) {
  static const int orders[][4] = { { 2, 0, 1 }, { 1, 2, 0 }, { 2, 1, 0 }, { 0, 2, 1 } };
  static const int four[][4] = { { 0, 3, 1, 2 }, { 0, 2, 3, 1 }, { 3, 2, 1, 0 }, { 0, 1, 3, 2 } };
  weft_array *x = which < 4 ? numbers(t, 3, (int64_t[]){ n, 5, n + 3 }) : numbers(t, 4, (int64_t[]){ 3, n, 2, n + 1 });
  x = weft_transpose(x, which < 4 ? orders[which] : four[which - 4]);
  return weft_add(x, x);
}

/* What is read overlaps itself: windows of one row of numbers. */
static weft_array *overlapping(weft_dtype t, int64_t rows, int64_t columns) {
  weft_array *x = weft_reshape(matrix(t, 1, rows + columns), 1, (int64_t[]){ rows + columns });
  return weft_mul(turn(weft_slice(weft_windows(x, 0, rows, 1, 1), 0, 0, columns, 1)), weft_scalar(2));
}

static void compare(weft_array *const y[2], weft_dtype t, int64_t rows, int64_t columns, int what) {
  size_t bytes = 0;
  void *got[] = { bits_of(y[0], &bytes), bits_of(y[1], &bytes) };
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld], program %d", weft_dtype_name(t), (long long)rows, (long long)columns, what);
  free(got[0]), free(got[1]);
}

static weft_array *any(int what, weft_dtype t, int64_t rows, int64_t columns) {
  if (what < PROGRAMS) return made(what, t, rows, columns);
  return what < PROGRAMS + 8 ? permuted(what - PROGRAMS, t, rows) : overlapping(t, rows, columns);
}

static void expect_same(int what, weft_dtype t, int64_t rows, int64_t columns) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    y[device] = any(what, t, rows, columns);
    EXPECT_OK(weft_eval(1, &y[device]));
  }
  weft_set(WEFT_DEVICE, 0);
  compare(y, t, rows, columns, what);
  weft_scope_discard(s);
}

static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64, WEFT_U8, WEFT_I8, WEFT_I16, WEFT_I64, WEFT_C64 };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

TEST(cuda_turned_tiles_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 1, 15, 16, 31, 33, 64, 127, 128, 130 };
  test_watchdog(200);
  int n = 0;
  for (size_t l = 0; has_gpu() && l < sizeof lengths / sizeof *lengths; l++)
    for (int t = 0; t < N_DTYPES; t++, n++)
      for (int k = 0; k < 3; k++) {
        int what = (n + 3 * k) % PROGRAMS;
        if (dtypes[t] == WEFT_C64 && what >= 7) what = 0;
        expect_same(what, dtypes[t], lengths[l], lengths[(l * 5 + (size_t)n + (size_t)k) % 9]);
      }
}

TEST(cuda_axes_in_another_order_have_the_bits_of_the_host) {
  test_watchdog(200);
  for (int what = 0; has_gpu() && what < 9; what++)
    for (int t = 0; t < N_DTYPES; t += 2) expect_same(PROGRAMS + what, dtypes[t], 17 + 16 * (what % 2), 40);
}

TEST(cuda_turned_rows_may_be_none) {
  if (!has_gpu()) return;
  expect_same(0, WEFT_F32, 0, 40);
  expect_same(1, WEFT_F32, 40, 0);
}

/* A short last axis has the lanes on a device, whose neighbouring threads then touch neighbours; a CPU's go along a long one. */
TEST(cuda_lanes_of_short_rows_are_neighbours) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(WEFT_F32, 3000, 8), *y = matrix(WEFT_F32, 3000, 7), *z = weft_mul(weft_unsqueeze(x, 2), weft_unsqueeze(y, 1));
  void *bits[2];
  size_t bytes;
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    EXPECT(strstr(weft_show(1, &z, "kernels"), device ? "lane c in C" : "lane a in A"));
    bits[device] = bits_of(weft_mul(weft_unsqueeze(x, 2), weft_unsqueeze(y, 1)), &bytes);
  }
  weft_set(WEFT_DEVICE, 0);
  EXPECT(!memcmp(bits[0], bits[1], bytes));
  free(bits[0]), free(bits[1]);
  weft_scope_discard(s);
}
