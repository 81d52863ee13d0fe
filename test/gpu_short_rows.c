/* gpu_short_rows.c -- many short rows, which lanes of a warp share or a thread has alone, on the GPU against the host: the same bits
 * for every dtype and length, for rows that are aligned, lie apart, or are windows of an image. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "every_recipe.h"
#include "gpu.h"
#include "schedule/draft.h"

enum { ROWS = 3 * 5462 }; /* more than have to be many, and no whole number of blocks of threads */

/* What a NaN is has no order to keep. */
static weft_array *without_nan(weft_array *x) { return weft_where(weft_isnan(x), weft_scalar(-5), x); }
static weft_array *smaller(weft_array *x) { return weft_mul(x, weft_scalar(0.1)); } /* last bits of sums show the order */
static weft_array *floats(weft_array *x) { return weft_cast(x, weft_dtype_of(x) == WEFT_F64 ? WEFT_F64 : WEFT_F32); }

static weft_array *weighed(weft_array *x, int64_t n) {
  weft_array *w = weft_add(weft_cast(weft_iota(weft_reshape(weft_slice(weft_slice(x, 0, 0, 1, 1), 1, 0, 1, 1), 1, &n), 0), WEFT_F32), weft_scalar(0.5));
  return weft_add(weft_mean(weft_mul(x, x), -1), weft_sum(weft_mul(x, w), -1));
}

static weft_array *rms_gradient(weft_array *x) {
  weft_array *d = weft_mul(x, weft_rsqrt(weft_add(weft_mean(weft_mul(x, x), -1), weft_scalar(1e-5))));
  return weft_grad(weft_sum(weft_mul(weft_mul(d, d), d), WEFT_ALL), 1, &x, &x), x;
}

static weft_array *truths(weft_array *x) { /* beside a sum in order, and kept */
  weft_array *is = weft_gt(x, weft_scalar(0)), *d = weft_sum(smaller(x), -1);
  d = weft_where(weft_any(is, -1), d, weft_scalar(-3));
  return weft_where(weft_and(is, weft_lt(x, d)), x, weft_where(weft_all(weft_lt(x, weft_scalar(3)), -1), d, weft_scalar(-1)));
}

enum { PROGRAMS = 17 };
static weft_array *made(int which, weft_array *x, int64_t n) {
  switch (which) {
    case 0: return weft_sum(smaller(x), -1);
    case 1: return without_nan(weft_max(weft_where(weft_gt(x, weft_scalar(3)), weft_scalar(NAN), weft_neg(x)), -1));
    case 2: return weighed(smaller(x), n);
    case 3: return weft_prod(smaller(x), -1);
    case 4: return weft_sum(weft_where(weft_gt(x, weft_scalar(0)), weft_scalar(-0.0), weft_mul(x, weft_scalar(-0.0))), -1);
    case 5: return weft_softmax(floats(x), -1);
    case 6: return weft_layer_norm(x, NULL, NULL, 1e-5);
    case 7: return weft_argmax(weft_round(x), -1);
    case 8: return weft_add(weft_argmin(weft_where(weft_gt(x, weft_scalar(4)), weft_scalar(NAN), x), -1), weft_integer(1));
    case 9: return weft_any(weft_gt(x, weft_scalar(5.9)), -1);
    case 10: return weft_min(x, -1);
    case 11: return weft_var(x, -1, 0);
    case 12: return weft_logsumexp(x, -1);
    case 13: return rms_gradient(x);
    case 14: return truths(x);
    case 15: return weft_sub(weft_cast(weft_max(weft_cast(x, WEFT_I8), -1), WEFT_I32), weft_sum(weft_cast(x, WEFT_I32), -1));
    default: return weft_softmax(weft_cast(smaller(x), WEFT_BF16), -1);
  }
}

/* The bits of what f makes on each device. */
typedef weft_array *making(void *of);
static bool is_same(making *f, void *of) {
  void *got[2];
  size_t bytes = 0;
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(f(of), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  bool is = !memcmp(got[0], got[1], bytes);
  free(got[0]), free(got[1]);
  return is;
}

struct rows { weft_array *x; int which; int64_t n; };
static weft_array *make_rows(void *of) { const struct rows *r = of; return made(r->which, r->x, r->n); }

/* [3, 5462, n] as it stands, with its first axes turned, with a column before each row, which is then not aligned, turned around, or
 * with its neighbours two apart. */
static weft_array *view(int seen, weft_dtype t, int64_t n) {
  int64_t columns = seen == 2 ? n + 1 : seen == 4 ? 2 * n : n;
  weft_array *x = weft_reshape(matrix(t, ROWS, columns), 3, (int64_t[]){ 3, ROWS / 3, columns });
  switch (seen) {
    case 1: return weft_transpose(x, (const int[]){ 1, 0, 2 });
    case 2: return weft_slice(x, 2, 1, n + 1, 1);
    case 3: return weft_flip(x, 2);
    case 4: return weft_slice(x, 2, 0, 2 * n, 2);
    default: return x;
  }
}

static void expect_same(weft_dtype t, int64_t n, int which, int seen) {
  weft_scope *s = weft_scope_open();
  struct rows r = { view(seen, t, n), which, n };
  if (!is_same(make_rows, &r))
    test_fail(__FILE__, __LINE__, "%s rows of %lld, program %d of view %d", weft_dtype_name(t), (long long)n, which, seen);
  weft_scope_discard(s);
}

TEST(cuda_many_short_rows_have_the_bits_of_the_host) {
  test_watchdog(400);
  if (!has_gpu()) return;
  for (int which = 0; which < PROGRAMS; which++)
    expect_same(WEFT_F32, which % 2 ? 36 : 8, which, which % 3), expect_same(WEFT_F32, which % 2 ? 5 : 33, which, 0);
}

TEST(cuda_short_rows_of_every_length_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 1, 2, 3, 4, 6, 7, 9, 12, 13, 16, 17, 24, 31, 32, 40, 63, 64, 65, 100, 127, 128, 160, 200, 255, 256, 257 };
  static const int of[] = { 0, 5, 6, 8, 1, 13, 14 };
  test_watchdog(400);
  for (int i = 0; has_gpu() && i < (int)(sizeof lengths / sizeof *lengths); i += getenv("WEFT_TEST_FEW") ? 4 : 1)
    for (int k = 0; k < 2; k++) expect_same(WEFT_F32, lengths[i], of[(i + 3 * k) % 7], (i + k) % 5);
}

TEST(cuda_short_rows_of_every_dtype_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_BF16, WEFT_F16, WEFT_F64, WEFT_BOOL, WEFT_U8, WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64,
                                      WEFT_E4M3, WEFT_E5M2 };
  static const int64_t lengths[] = { 2, 4, 8, 16, 24, 40, 64, 34, 15, 128, 20 };
  static const int of_floats[] = { 0, 6, 7, 5, 16, 10, 12 }, of_others[] = { 10, 7, 5, 0 };
  test_watchdog(400);
  for (int t = 0, n = 0; has_gpu() && t < (int)(sizeof dtypes / sizeof *dtypes); t++)
    for (int k = 0; k < 4; k++, n++)
      expect_same(dtypes[t], lengths[n % 11], t < 3 ? of_floats[n % 7] : of_others[n % (dtypes[t] == WEFT_BOOL ? 2 : 4)], n % 3);
}

/* ---- windows of images ---- */

struct pooling { weft_array *x; int which; bool last; };

/* [batch, channels, h, k, w, k], or with the channels last. */
static weft_array *make_windows(void *of) {
  static weft_array *(*const how[])(weft_array *, int) = { weft_max, weft_sum, weft_mean, weft_min, weft_prod, weft_argmax, weft_any, weft_sum, weft_mean,
                                                           weft_all };
  const struct pooling *w = of;
  weft_array *x = w->x;
  switch (w->which) {
    case 1: case 4: x = smaller(x); break;
    case 6: case 9: x = weft_gt(x, weft_scalar(w->which == 6 ? 5 : -1)); break;
    case 7: x = weft_where(weft_gt(x, weft_scalar(5)), smaller(x), weft_scalar(-0.0)); break;
    case 8: x = weft_maximum(weft_mul(smaller(x), x), weft_scalar(0.3)); break; /* and something behind */
  }
  if (w->which == 8) return weft_add(weft_over(weft_mean, x, 2, w->last ? (int[]){ 2, 4 } : (int[]){ 3, 5 }), smaller(weft_scalar(7)));
  return weft_over(how[w->which], x, 2, w->last ? (int[]){ 2, 4 } : (int[]){ 3, 5 });
}

static weft_array *largest(weft_array *x, int axis) { return weft_max(x, axis); } /* one that is not known to go axis by axis */
static weft_array *make_turned(void *of) {
  const struct pooling *w = of;
  weft_array *x = w->which ? weft_maximum(w->x, weft_scalar(0)) : w->x;
  return weft_mul(weft_over(largest, x, 2, w->last ? (int[]){ 2, 4 } : (int[]){ 3, 5 }), weft_scalar(3));
}

static void expect_windows(weft_dtype t, int64_t k, int which, bool last, int64_t crop) {
  weft_scope *s = weft_scope_open();
  int64_t side = 48 / k * k;
  weft_array *x = numbers(t, 4, last ? (int64_t[]){ 8, side, side, 24 } : (int64_t[]){ 32, 6, side, side + crop });
  if (crop) x = weft_slice(x, 3, 1, side + 1, 1);
  x = last ? weft_reshape(x, WEFT_DIMS(8, side / k, k, side / k, k, 24)) : weft_reshape(x, WEFT_DIMS(32, 6, side / k, k, side / k, k));
  struct pooling w = { x, which, last };
  if (!is_same(make_windows, &w) || (which < 2 && !is_same(make_turned, &w)))
    test_fail(__FILE__, __LINE__, "%s windows of %lld, program %d, channels %s", weft_dtype_name(t), (long long)k, which,
              last ? "last" : "first");
  weft_scope_discard(s);
}

TEST(cuda_windows_of_images_have_the_bits_of_the_host) {
  test_watchdog(400);
  for (int which = 0; has_gpu() && which < 10; which++)
    for (int k = 2; k <= 5; k += k == 2 && which % 2 ? 2 : 1) {
      expect_windows((which + k) % 2 ? WEFT_F32 : WEFT_BF16, k, which, false, k == 3);
      expect_windows((which + k) % 2 ? WEFT_BF16 : WEFT_F32, k, which, true, 0);
    }
}

/* ---- random programs, where any number of short rows is many ---- */

/* With WEFT_PROGRAMS in the environment so many instead of 150. */
TEST(cuda_short_rows_of_random_programs_have_the_bits_of_the_host) {
  static const struct way on_gpu = { "on the GPU", "x86", true, 2, 1 };
  const char *many = getenv("WEFT_PROGRAMS");
  uint64_t first = 20001, n = many ? (uint64_t)atoll(many) : 150;
  test_watchdog(400);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  draft_use_many_rows(1);
  for (uint64_t seed = first; seed < first + n; seed++)
    if (!recipe_check_way(seed, &on_gpu, false)) test_fail(__FILE__, __LINE__, "seed %lld", (long long)seed);
  draft_use_many_rows(0);
}
