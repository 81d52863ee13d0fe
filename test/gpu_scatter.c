/* gpu_scatter.c -- updates that meet in places, by exchanges in shared memory and beyond it, on the GPU against the host. Numbers
 * are such that no order shows: sums of small integers, products of few powers of two; so the bits are the same, whatever meets
 * first. */
#include <math.h>
#include <string.h>
#include "gpu.h"

enum { POWERS = 40 }; /* numbers of a product that are not 1 or -1: all of them together neither overflow nor underflow */

struct scatter { weft_dtype t; weft_how how; int64_t slots, n, places; bool has_nan; }; /* places: how many slots are hit */

static weft_array *updates(const struct scatter *s) {
  float *v = drawn(s->t, s->n);
  for (int64_t i = 0; i < s->n; i++) {
    if (s->how == WEFT_ADD) v[i] = (float)(i * 37 % 17 - 8);
    if (s->how == WEFT_MUL) v[i] = i % 3 ? 1 : -1;
  }
  for (int64_t i = 0; s->how == WEFT_MUL && i < POWERS; i++) v[i * 7919 % s->n] = i % 2 ? 2 : s->t < WEFT_F16 ? 3 : 0.5f;
  for (int64_t i = 0; s->has_nan && i < s->n; i += 97) v[i] = NAN;
  weft_array *r = weft_cast(weft_from(WEFT_F32, 1, &s->n, v), s->t);
  free(v);
  EXPECT_OK(weft_eval(1, &r));
  return r;
}

static weft_array *places(const struct scatter *s) {
  int32_t *i = calloc((size_t)s->n + 1, sizeof *i);
  for (int64_t k = 0; k < s->n; k++) i[k] = (int32_t)(((uint64_t)k * 2654435761u >> 9) % (uint64_t)s->places);
  weft_array *r = weft_from(WEFT_I32, 1, &s->n, i);
  free(i);
  return r;
}

static weft_array *scattered(const struct scatter *s) {
  weft_array *x = weft_cast(weft_full(WEFT_F32, 1, &s->slots, 1), s->t), *i = places(s);
  return weft_put(x, weft_take(x, 1, &i), updates(s), s->how);
}

/* The pattern of a NaN is nobody's concern here. */
static bool is_same(const struct scatter *s, const void *a, const void *b, size_t bytes) {
  if (!s->has_nan) return !memcmp(a, b, bytes);
  for (size_t i = 0; i < bytes / sizeof(float); i++) {
    float x = ((const float *)a)[i], y = ((const float *)b)[i];
    if (isnan(x) ? !isnan(y) : x != y) return false;
  }
  return true;
}

static void expect_same(const struct scatter *s) {
  weft_scope *scope = weft_scope_open();
  size_t bytes = 0;
  void *got[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(scattered(s), &bytes);
  }
  weft_set(WEFT_DEVICE, 0);
  if (!is_same(s, got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s, %lld updates into %lld of %lld places, how %d", weft_dtype_name(s->t), (long long)s->n,
              (long long)s->places, (long long)s->slots, (int)s->how);
  free(got[0]), free(got[1]);
  weft_scope_discard(scope);
}

TEST(cuda_updates_that_meet_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_U32 };
  static const weft_how hows[] = { WEFT_MUL, WEFT_ADD, WEFT_MAX, WEFT_MIN };
  static const int64_t slots[] = { 1, 3, 100, 1024, 9001, 70000 }, n[] = { 5, 4099, 40009 }; /* 70000: no room in shared memory */
  test_watchdog(200);
  for (int k = 0; has_gpu() && k < 120; k++) {
    int64_t m = slots[k % 6];
    expect_same(&(struct scatter){ dtypes[k / 24], hows[k % 4], m, n[k % 3], k % 7 ? m : 1 + m / 50, false });
  }
}

TEST(cuda_updates_with_nan_among_them_end) {
  test_watchdog(200);
  for (int k = 0; has_gpu() && k < 16; k++) {
    static const weft_how hows[] = { WEFT_MUL, WEFT_ADD, WEFT_MAX, WEFT_MIN };
    static const int64_t slots[] = { 1, 100, 1024, 70000 };
    expect_same(&(struct scatter){ WEFT_F32, hows[k % 4], slots[k / 4], 9011, slots[k / 4], true });
  }
}

/* An update that is out of range is the error that the host has, also where it is one of several that a thread does at a time. */
TEST(cuda_updates_out_of_range_are_found) {
  for (int k = 0; has_gpu() && k < 4; k++) {
    weft_scope *scope = weft_scope_open();
    char said[2][400];
    int32_t i[5000] = { 0 };
    i[k == 0 ? 0 : k == 1 ? 4999 : 1024 * k + 7] = k % 2 ? 100 : -101;
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_array *x = weft_full(WEFT_F32, 1, (int64_t[]){ 100 }, 1), *at = weft_from(WEFT_I32, 1, (int64_t[]){ 5000 }, i);
      weft_array *v = weft_full(WEFT_F32, 1, (int64_t[]){ 5000 }, 1);
      weft_array *y = weft_put(x, weft_take(x, 1, &at), v, k < 2 ? WEFT_MUL : WEFT_ADD);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
      snprintf(said[device], sizeof said[device], "%s", weft_message());
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT_TEXT(said[1], said[0]);
    weft_scope_discard(scope);
  }
}
