/* gpu_warp_rows.c -- many rows that are not aligned, of which something is kept from loop to loop, on the GPU against the host: a warp
 * has each, and makes again what is kept (backend/cuda/gpu_warp_rows.c). The same bits for every dtype and length, however rows stand. */
#include <math.h>
#include "gpu.h"

enum { PROGRAMS = 8, VIEWS = 5 };

static weft_array *widened(weft_array *x) {
  return weft_dtype_of(x) == WEFT_F64 ? x : weft_mul(weft_cast(x, WEFT_F32), weft_scalar(0.1)); /* last bits show the order */
}

static weft_array *made(int which, weft_array *x, weft_array *weights) {
  weft_array *a = which == 6 ? x : widened(x), *d;
  switch (which) {
    case 0: case 6: return weft_logsumexp(a, -1);
    case 1:
      d = weft_sub(a, weft_mean(a, -1));
      return weft_sum(weft_mul(d, d), -1);
    case 2: /* three loops, in whose last every element is stored: there is no such entry */
      d = weft_sub(a, weft_mean(a, -1));
      return weft_mul(weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), -1), weft_scalar(1e-5)))), weights);
    case 3: return weft_logsumexp(weft_add(weft_mul(a, weights), weft_scalar(0.5)), -1); /* kept is what few operations make */
    case 4: /* two folds in the second loop, of which one has no order */
      d = weft_sub(a, weft_max(a, -1));
      return weft_add(weft_sum(weft_mul(d, d), -1), weft_min(d, -1));
    case 7: /* what is kept is loaded where there is something, and given elsewhere: it is not loaded again */
      return weft_logsumexp(weft_pad(a, 0, 1, 1, weft_scalar(0.5)), -1);
    default: return weft_softmax(a, -1); /* nor here: exponentials are not computed twice */
  }
}

/* [rows, n] of x, which has two rows and five columns more: from its beginning, from the second column on, of every other of three
 * axes, turned around, the same row again. */
static weft_array *view(int seen, weft_array *x, int64_t rows, int64_t n) {
  weft_array *all = weft_slice(weft_slice(x, 0, 1, rows + 1, 1), 1, seen != 0, n + (seen != 0), 1);
  switch (seen) {
    case 2: return weft_transpose(weft_reshape(all, WEFT_DIMS(rows / 2, 2, n)), (int[]){ 1, 0, 2 });
    case 3: return weft_flip(all, 1);
    case 4: return weft_broadcast(weft_slice(all, 0, 2, 3, 1), 2, (int64_t[]){ rows, n });
    default: return all;
  }
}

static void expect_same(weft_dtype t, int64_t rows, int64_t n, int which, int seen) {
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(t, rows + 2, n + 5), *weights = matrix(WEFT_F32, 1, n);
  weights = weft_reshape(weights, WEFT_DIMS(n));
  void *got[2];
  size_t bytes = 0;
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(made(which, view(seen, x, rows, n), weights), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld], program %d of view %d", weft_dtype_name(t), (long long)rows, (long long)n, which, seen);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

static const weft_dtype dtypes[] = { WEFT_BF16, WEFT_F32, WEFT_F16, WEFT_F64, WEFT_U8 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

TEST(cuda_rows_of_warps_have_the_bits_of_the_host) {
  test_watchdog(400);
  for (int t = 0; has_gpu() && t < DTYPES; t++)
    for (int which = 0; which < PROGRAMS; which++)
      for (int seen = 0; seen < VIEWS; seen++)
        if (which != 6 || t != 4) expect_same(dtypes[t], 66 + 2 * seen, 133 + 2 * t + which, which, seen);
}

/* Lengths around those of a warp, of what it loads at a time, and of a block; and fewer rows than make it worth while. */
TEST(cuda_rows_of_warps_of_every_length_have_the_bits_of_the_host) {
  test_watchdog(400);
  if (!has_gpu()) return;
  for (int64_t n = 1, i = 0; n <= 4100; i++, n = n < 40 ? n + 3 : n < 300 ? n + 31 : n < 1500 ? n + 511 : n < 4000 ? 4093 : n + 1)
    for (int t = 0; t < 2; t++) expect_same(dtypes[t], i % 4 ? 66 : 6, n, (int)((i + t) % 5), (int)(i % VIEWS));
}

/* Of running maxima, which a function has for itself: elements that take their place, stored in the loop that folds them, and what
 * is made of the same rows behind it. */
TEST(cuda_rows_that_are_overwritten_are_not_loaded_again) {
  static const weft_dtype dtypes_of[] = { WEFT_F32, WEFT_BF16 };
  for (int t = 0; has_gpu() && t < 2; t++) {
    weft_scope *all = weft_scope_open();
    weft_array *given = matrix(dtypes_of[t], 130, 301), *y[2];
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(dtypes_of[t], WEFT_DIMS(130, 301)), *c = weft_cummax(x, 1);
    weft_array *more = weft_add(c, weft_cast(weft_scalar(0.5), dtypes_of[t])), *a = weft_cast(more, WEFT_F32);
    weft_array *d = weft_sub(a, weft_mean(a, 1));
    weft_function *f = weft_compile(s, 1, &x, 2, (weft_array *[]){ weft_cummax(more, 1), weft_sum(weft_mul(d, d), 1) });
    void *got[2][2];
    size_t bytes[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_call(f, 1, &given, 2, y);
      EXPECT_OK(weft_eval(2, y)); /* both at once */
      for (int k = 0; k < 2; k++) got[device][k] = bits_of(y[k], &bytes[k]);
    }
    weft_set(WEFT_DEVICE, 0);
    for (int k = 0; k < 2; k++) {
      EXPECT(!memcmp(got[0][k], got[1][k], bytes[k]));
      free(got[0][k]), free(got[1][k]);
    }
    weft_scope_discard(all);
  }
}

TEST(what_is_cheap_to_make_again_has_an_entry_of_warps) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = matrix(WEFT_BF16, 66, 301), *weights = matrix(WEFT_F32, 1, 301);
  for (int which = 0; which < PROGRAMS; which++) {
    weft_array *y = made(which, x, weights);
    const char *ptx = weft_show(1, &y, "ptx");
    EXPECT(ptx && (strstr(ptx, "_of_warps(") != NULL) == (which != 2 && which != 5 && which != 7));
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}
