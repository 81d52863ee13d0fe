/* gpu_narrow_rows.c -- rows of elements of 1 and 2 bytes that are folded in order, on the GPU against the host: the same bits for
 * every dtype and length, wherever rows begin and however they stand. Lanes load words of them where they can (nest_words.c). */
#include <math.h>
#include <string.h>
#include "gpu.h"

enum { ROWS = 3, PROGRAMS = 11, VIEWS = 9 };

static weft_array *floats(weft_array *x) { return weft_mul(weft_cast(x, WEFT_F32), weft_scalar(0.1)); } /* last bits show the order */

static weft_array *without_nan(weft_array *x) { return weft_where(weft_isnan(x), weft_scalar(-5), x); } /* whose bits are nobody's */

static weft_array *made(int which, weft_array *x, weft_array *y, weft_array *weights) {
  weft_array *a = floats(x);
  switch (which) {
    case 0: return weft_sum(a, -1);
    case 1: return weft_sum(weft_mul(weft_cast(x, WEFT_F32), weft_cast(y, WEFT_F32)), -1);
    case 2: return weft_sub(weft_mean(weft_mul(a, a), -1), weft_sum(a, -1)); /* two folds in one loop */
    case 3: return weft_prod(weft_add(weft_mul(a, weft_scalar(1e-2)), weft_scalar(1)), -1);
    case 4: return weft_argmax(weft_cast(x, WEFT_F32), -1);
    case 5: return weft_sum(weft_where(weft_gt(a, weft_scalar(0.2)), a, weft_mul(a, a)), -1);
    case 6: return weft_sum(weft_mul(a, weights), -1); /* beside elements that are no narrow ones */
    case 8: return without_nan(weft_max(weft_where(weft_gt(a, weft_scalar(0.59)), weft_scalar(NAN), weft_neg(a)), -1)); /* no order to keep */
    case 9: return weft_sum(weft_cast(x, WEFT_I32), -1);
    case 10: return weft_any(weft_gt(a, weft_scalar(0.5995)), -1);
    default: return weft_add(weft_sum(weft_mul(a, floats(weft_cast(y, WEFT_U8))), -1), weft_cast(weft_any(weft_gt(a, weft_scalar(0.58)), -1), WEFT_F32));
  }
}

/* [ROWS, n] of [ROWS + 1, 2 n + 4 or 5]: from an element between words on, turned around, apart, along columns, the same row again. */
static weft_array *view(int seen, weft_array *x, int64_t n) {
  weft_array *rows = weft_slice(x, 0, 1, ROWS + 1, 1);
  switch (seen) {
    case 5: return weft_flip(weft_slice(rows, 1, 0, n, 1), 1);
    case 6: return weft_slice(rows, 1, 1, 2 * n + 1, 2);
    case 7: return weft_broadcast(weft_slice(weft_slice(x, 0, 1, 2, 1), 1, 2, n + 2, 1), 2, (int64_t[]){ ROWS, n });
    case 8: return weft_slice(rows, 1, n % 4, n % 4 + n, 1);
    default: return weft_slice(rows, 1, seen, seen + n, 1);
  }
}

static void expect_same(weft_dtype t, int64_t n, int which, int seen) {
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(t, ROWS + 1, 2 * n + 4 + n % 2), *weights = matrix(WEFT_F32, 1, n);
  void *got[2];
  size_t bytes = 0;
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(made(which, view(seen, x, n), view((seen + 2) % VIEWS, x, n), weights), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s rows of %lld, program %d of view %d", weft_dtype_name(t), (long long)n, which, seen);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

static const weft_dtype dtypes[] = { WEFT_BF16, WEFT_U8, WEFT_F16, WEFT_BOOL, WEFT_I16, WEFT_I8, WEFT_U16, WEFT_E4M3, WEFT_E5M2 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Every dtype, program and view, of a length at which words, copies of the body one by one, and a part of a warp follow each other. */
TEST(cuda_narrow_rows_of_every_dtype_have_the_bits_of_the_host) {
  test_watchdog(400);
  for (int t = 0; has_gpu() && t < DTYPES; t++)
    for (int which = 0; which < PROGRAMS; which++)
      for (int seen = 0; seen < VIEWS; seen += getenv("WEFT_TEST_FEW") ? 3 : 1)
        if (which != 4 || t != 3) expect_same(dtypes[t], 3 * 2048 + 517 + (t + which) % 4 * 3, which, seen);
}

/* Lengths around those of words of a warp, of its copies of the body, and of a block; the others of a few. */
TEST(cuda_narrow_rows_of_every_length_have_the_bits_of_the_host) {
  test_watchdog(400);
  if (!has_gpu()) return;
  for (int64_t n = 1, i = 0; n <= 4200; i++, n = n == 200 ? 1000 : n == 1100 ? 2040 : n == 2120 ? 4090 : n + 1) {
    expect_same(WEFT_BF16, n, 0, 2 * (int)(i % 2));
    expect_same(dtypes[1 + i % 2], n, (int)(i % 2), (int)(i % 5));
    if (i % 4 == 0) expect_same(dtypes[i / 4 % DTYPES], n, (int)(i / 8 % 3), (int)(i / 3 % VIEWS));
    if (i % 4 == 2) expect_same(dtypes[i / 4 % 3], n, 8 + (int)(i / 8 % 3), (int)(i / 3 % 5));
  }
  expect_same(WEFT_F16, 0, 0, 0);
  expect_same(WEFT_BF16, 70000, 1, 0);
  expect_same(WEFT_U8, 131072, 0, 4);
}

/* The kernel asks for words, and for elements where they are no neighbours. */
TEST(cuda_narrow_rows_are_loaded_by_words) {
  weft_scope *s = weft_scope_open();
  if (!has_gpu()) return;
  weft_array *x = matrix(WEFT_BF16, 4, 6000);
  for (int apart = 0; apart < 2; apart++) {
    weft_array *y = weft_sum(floats(apart ? weft_slice(x, 1, 0, 6000, 2) : x), -1);
    weft_set(WEFT_DEVICE, 1);
    const char *text = weft_show(1, &y, "ptx");
    EXPECT_INT(strstr(text, "shfl.sync.bfly.b32") && strstr(text, "ld.global.nc.b32"), !apart);
    weft_set(WEFT_DEVICE, 0);
  }
  weft_scope_discard(s);
}
