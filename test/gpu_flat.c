/* gpu_flat.c -- nests of short rows without folds, of which the GPU goes along all elements as if they were one row: the bits of the
 * host, for rows of all kinds of lengths, vectors along rows and across them, and whatever a row computes once. */
#include "gpu.h"

enum { PROGRAMS = 8 };

/* [rows, more, columns], of which rows * more * columns are elements enough for all processors of a small device. */
static weft_array *made(int which, weft_dtype t, const int64_t n[3]) {
  weft_array *x = numbers(t, 3, n), *row = numbers(t, 1, &n[2]), *each = numbers(t, 3, (int64_t[]){ n[0], n[1], 1 });
  switch (which) {
    case 0: return weft_mul(weft_sub(x, row), weft_cast(weft_scalar(3), t)); /* an image less what its channels are on average */
    case 1: return weft_add(weft_mul(each, each), row); /* nothing of its own */
    case 2: return weft_cast(weft_eq(each, weft_reshape(row, WEFT_DIMS(1, 1, n[2]))), WEFT_F32); /* one hot */
    case 3: return weft_where(weft_gt(x, row), weft_add(x, each), weft_cast(weft_scalar(0), t));
    case 4: { /* windows, copied; zeros around */
      weft_array *wide = weft_pad(x, 1, 1, 1, weft_cast(weft_scalar(0), t));
      return weft_flatten(weft_windows(wide, 1, 2, 1, 1), 1, -1);
    }
    case 5: return weft_flip(weft_add(weft_flip(x, 2), weft_log(weft_abs(weft_flip(row, 0)))), 0);
    case 6: return weft_add(weft_transpose(numbers(t, 3, (int64_t[]){ n[1], n[0], n[2] }), (const int[]){ 1, 0, 2 }), row);
    default: return weft_add(weft_slice(numbers(t, 3, (int64_t[]){ n[0], n[1], n[2] + 1 }), 2, 1, WEFT_END, 1), row);
  }
}

static void expect_host(int which, weft_dtype t, const int64_t n[3]) {
  weft_scope *s = weft_scope_open();
  size_t bytes[2] = { 0 };
  void *bits[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    bits[device] = bits_of(made(which, t, n), &bytes[device]);
  }
  weft_set(WEFT_DEVICE, 0);
  if (bytes[0] != bytes[1] || memcmp(bits[0], bits[1], bytes[0]))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld,%lld], program %d", weft_dtype_name(t), (long long)n[0], (long long)n[1], (long long)n[2],
              which);
  free(bits[0]), free(bits[1]);
  weft_scope_discard(s);
}

TEST(cuda_nests_of_short_rows_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_U8, WEFT_F64, WEFT_F16, WEFT_I32, WEFT_I64 };
  static const int64_t sizes[][3] = { { 64, 64, 3 }, { 1, 5001, 3 }, { 2731, 1, 3 }, { 4097, 2, 1 }, { 33, 31, 10 }, { 7, 50, 101 },
                                      { 3, 11, 511 }, { 2, 20, 513 }, { 9000, 1, 1 }, { 2, 3, 3 }, { 0, 100, 3 } };
  test_watchdog(200);
  int k = 0;
  for (size_t i = 0; has_gpu() && i < sizeof sizes / sizeof *sizes; i++)
    for (int which = 0; which < PROGRAMS; which++) expect_host(which, dtypes[k++ % 7], sizes[i]);
}

/* The entry is there, and its rows are not those that 16 bytes at a time are read of. */
TEST(cuda_nests_of_short_rows_are_printed_as_one_row_too) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *y = made(0, WEFT_U8, (int64_t[]){ 64, 64, 3 }), *z = weft_sin(matrix(WEFT_F32, 100, 3));
  EXPECT(strstr(weft_show(1, &y, "ptx"), "sub_mul_flat"));
  EXPECT(!strstr(weft_show(1, &z, "ptx"), "_flat"));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}
