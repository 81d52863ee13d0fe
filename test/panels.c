/* panels.c -- constants of functions are packed once: bits are those of a plain loop, and what was kept goes when the bytes may have
 * changed or the memory is wanted. */
#include "run/panels.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "run/memory.h"
#include "values.h"

enum { K = 530, CALLS = 4 };   /* products in two blocks, */
static int64_t N = 130;        /* and columns that are no whole vector: more than product_small.c takes, unless a test says so */

static float number(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) / 512.0f; }

static float *numbers(int64_t n, int64_t seed) {
  float *x = malloc(sizeof *x * (size_t)n);
  for (int64_t i = 0; i < n; i++) x[i] = number(i + seed);
  return x;
}

static weft_array *array_of(int64_t rows, int64_t columns, int64_t seed) {
  float *x = numbers(rows * columns, seed);
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(rows, columns), x);
  free(x);
  return a;
}

/* How a constant stands: as [K,N], as its transpose, backwards, as a part of something larger, or as the weights of a convolution,
 * [N, channels, places], whose rows go through the places and then the channels. */
enum layout { ROWS, COLUMNS, BACKWARDS, PART, RUNS, LAYOUTS };
enum { PLACES = 10, CHANNELS = K / PLACES };

/* [N, channels, places] -> [K, N] */
static weft_array *turned(weft_array *w) {
  weft_array *apart = weft_reshape(w, WEFT_DIMS(N, CHANNELS, PLACES));
  return weft_transpose(weft_reshape(weft_transpose(apart, (int[]){ 0, 2, 1 }), WEFT_DIMS(N, K)), NULL);
}

static weft_array *laid(enum layout how, int64_t seed) {
  if (how == COLUMNS) return weft_transpose(array_of(N, K, seed), NULL);
  if (how == BACKWARDS) return weft_flip(array_of(K, N, seed), 0);
  if (how == PART) return weft_slice(weft_slice(array_of(K + 3, N + 5, seed), 0, 2, K + 2, 1), 1, 3, N + 3, 1);
  if (how == RUNS) return turned(array_of(N, K, seed));
  return array_of(K, N, seed);
}

static float element(enum layout how, int64_t seed, int64_t i, int64_t j) {
  if (how == COLUMNS) return number(seed + j * K + i);
  if (how == BACKWARDS) return number(seed + (K - 1 - i) * N + j);
  if (how == PART) return number(seed + (i + 2) * (N + 5) + j + 3);
  if (how == RUNS) return number(seed + j * K + i % CHANNELS * PLACES + i / CHANNELS);
  return number(seed + i * N + j);
}

/* x w, and what a plain loop makes of it: by fma in the order of k, in blocks of 512. */
static float plain(enum layout how, int64_t seed, const float *row, int64_t j) {
  float all = 0;
  for (int64_t k = 0; k < K; k += 512) {
    float sum = 0;
    for (int64_t i = k; i < K && i < k + 512; i++) sum = fmaf(row[i], element(how, seed, i, j), sum);
    all = k ? all + sum : sum;
  }
  return all;
}

static void expect_product(weft_array *y, int64_t m, int64_t x_seed, enum layout how, int64_t seed) {
  float *got = malloc(sizeof *got * (size_t)(m * N)), *x = numbers(m * K, x_seed);
  int wrong = 0;
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof *got * (size_t)(m * N)));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < N; j++) {
      float want = plain(how, seed, x + i * K, j);
      wrong += memcmp(&want, &got[i * N + j], sizeof want) != 0;
    }
  EXPECT_INT(wrong, 0);
  free(got);
  free(x);
}

static weft_function *times(weft_array *w) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, K)), *y = weft_matmul(x, w);
  return weft_compile(s, 1, &x, 1, &y);
}

static weft_array *call(weft_function *f, int64_t m, int64_t seed) {
  weft_array *x = array_of(m, K, seed), *y;
  weft_call(f, 1, &x, 1, &y);
  return y;
}

/* Calls, and how often something was packed to be kept. */
static int64_t packs(weft_function *f, int calls, int64_t m, enum layout how, int64_t seed) {
  uint64_t before = panels_packed();
  for (int i = 0; i < calls; i++) expect_product(call(f, m, i), m, i, how, seed);
  return (int64_t)(panels_packed() - before);
}

SCOPED(a_constant_of_a_function_is_packed_by_its_second_call_alone) {
  for (int threads = 1; threads < 3; threads++)
    for (int how = 0; how < LAYOUTS; how++) {
      weft_set(WEFT_THREADS, threads);
      weft_function *f = times(laid((enum layout)how, 5));
      EXPECT_INT(packs(f, 1, 40, how, 5), 0);
      EXPECT_INT(packs(f, 1, 40, how, 5), 1);
      EXPECT_INT(packs(f, CALLS, 40, how, 5), 0);
    }
  weft_set(WEFT_THREADS, 0);
}

SCOPED(products_by_kept_panels_have_the_bits_of_a_plain_loop_for_any_number_of_rows) {
  for (N = 33; N < 140; N += 48) /* small ones too */
    for (int how = 0; how < LAYOUTS; how++) {
      weft_function *f = times(laid((enum layout)how, how));
      for (int64_t m = 1; m < 40; m += m < 4 ? 1 : 9) packs(f, 3, m, how, how);
    }
  N = 130;
}

SCOPED(weights_that_are_turned_are_packed_from_where_they_are) {
  for (int64_t m = 30; m < 70; m += 13) {
    weft_array *w = array_of(N, K, 3), *y = weft_matmul(array_of(m, K, 1), turned(w));
    EXPECT_INT(!!strstr(weft_show(1, &y, "plan"), "in runs of 53"), m > 32);
    expect_product(y, m, 1, RUNS, 3);
  }
}

/* What else is done with the weights is done to what they were. */
SCOPED(weights_that_are_turned_and_updated_are_multiplied_first) {
  for (int i = 0; i < 2; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(40, K)), weft_input(WEFT_F32, WEFT_DIMS(N, K)) };
    weft_array *more = i ? weft_add(in[1], weft_scalar(0)) : in[1], *v = weft_scalar(9);
    weft_array *out[] = { weft_put(more, weft_slice(more, 0, 0, 7, 1), v, WEFT_SET), weft_matmul(in[0], turned(more)) };
    weft_function *f = weft_compile(s, 2, in, 2, out);
    weft_array *x[] = { array_of(40, K, 1), array_of(N, K, 3) }, *y[2];
    weft_call(f, 2, x, 2, y);
    expect_product(y[1], 40, 1, RUNS, 3);
    float first;
    EXPECT_OK(weft_read(weft_slice(weft_flatten(y[0], 0, 1), 0, 0, 1, 1), WEFT_F32, &first, sizeof first));
    EXPECT(first == 9);
  }
}

SCOPED(functions_that_share_a_constant_share_its_panels) {
  weft_array *w = laid(COLUMNS, 3);
  weft_function *f = times(w), *g = times(w);
  EXPECT_INT(packs(f, 2, 40, COLUMNS, 3), 1);
  EXPECT_INT(packs(g, 2, 40, COLUMNS, 3), 0);
}

/* The key of a plan has no values in it: both functions run by one plan. */
SCOPED(functions_of_one_plan_have_panels_of_their_own) {
  weft_function *f = times(laid(COLUMNS, 3)), *g = times(laid(COLUMNS, 4));
  for (int i = 0; i < CALLS; i++) {
    EXPECT_INT(packs(f, 1, 40, COLUMNS, 3), i == 1);
    EXPECT_INT(packs(g, 1, 40, COLUMNS, 4), i == 1);
  }
}

SCOPED(two_parts_of_one_array_have_panels_of_their_own) {
  weft_array *both = array_of(2 * K, N, 0);
  weft_function *f = times(weft_slice(both, 0, 0, K, 1)), *g = times(weft_slice(both, 0, K, 2 * K, 1));
  EXPECT_INT(packs(f, CALLS, 40, ROWS, 0), 1);
  EXPECT_INT(packs(g, CALLS, 40, ROWS, K * N), 1);
  EXPECT_INT(packs(f, CALLS, 40, ROWS, 0), 0);
}

SCOPED(a_constant_that_is_shown_to_others_is_read_again) {
  weft_array *w = array_of(K, N, 1);
  weft_function *f = times(w);
  weft_block b;
  EXPECT_INT(packs(f, 3, 40, ROWS, 1), 1);
  EXPECT_OK(weft_pin(w, 0, &b));
  for (int64_t i = 0; i < (int64_t)K * N; i++) ((float *)b.data)[i] = number(i + 9);
  EXPECT_INT(packs(f, 2, 40, ROWS, 9), 0);
  for (int64_t i = 0; i < (int64_t)K * N; i++) ((float *)b.data)[i] = number(i + 2);
  EXPECT_INT(packs(f, 2, 40, ROWS, 2), 0);
  weft_unpin(w);
  EXPECT_INT(packs(f, 2, 40, ROWS, 2), 1);
}

SCOPED(memory_of_others_is_not_packed_to_be_kept) {
  float *x = numbers(K * N, 4);
  weft_scope *s = weft_scope_open();
  weft_block b = { x, 0, WEFT_F32, 2, (int64_t[]){ K, N }, (int64_t[]){ N, 1 } };
  weft_function *f = times(weft_external(&b, NULL, NULL));
  EXPECT_INT(packs(f, CALLS, 40, ROWS, 4), 0);
  weft_scope_discard(s);
  free(x);
}

/* After the function has ended the array is overwritten in place, and another function is made of it. */
SCOPED(an_array_that_is_overwritten_has_lost_its_panels) {
  weft_array *w = array_of(K, N, 1);
  weft_scope *life = weft_scope_open();
  EXPECT_INT(packs(times(w), 3, 40, ROWS, 1), 1);
  weft_scope_discard(life);
  weft_scope *s = weft_scope_open();
  weft_update(w, weft_add(weft_mul(w, weft_scalar(0)), array_of(K, N, 6)));
  EXPECT_OK(weft_scope_close(s));
  EXPECT_INT(packs(times(w), 3, 40, ROWS, 6), 1);
}

SCOPED(panels_count_as_cached_and_are_given_back_with_the_cache) {
  int64_t limit = weft_get(WEFT_BYTES_CACHE);
  weft_function *f = times(laid(COLUMNS, 3));
  packs(f, 1, 40, COLUMNS, 3);
  weft_set(WEFT_BYTES_CACHE, 0);
  weft_set(WEFT_BYTES_CACHE, limit);
  int64_t used = weft_get(WEFT_BYTES_USED);
  EXPECT_INT(packs(f, 1, 40, COLUMNS, 3), 1);
  weft_set(WEFT_BYTES_CACHE, 2 * K * N * 4);
  EXPECT(weft_get(WEFT_BYTES_CACHED) >= K * N * 4);
  weft_set(WEFT_BYTES_CACHE, 0);
  EXPECT_INT(weft_get(WEFT_BYTES_CACHED), 0);
  EXPECT(weft_get(WEFT_BYTES_USED) >= used);
  EXPECT_INT(packs(f, 2, 40, COLUMNS, 3), 0); /* there is no room to keep them */
  weft_set(WEFT_BYTES_CACHE, limit);
  EXPECT_INT(packs(f, 2, 40, COLUMNS, 3), 1);
}

SCOPED(panels_go_before_memory_is_short) {
  int64_t limit = weft_get(WEFT_BYTES_LIMIT);
  weft_function *f = times(laid(COLUMNS, 3));
  packs(f, 3, 40, COLUMNS, 3);
  weft_set(WEFT_BYTES_LIMIT, weft_get(WEFT_BYTES_USED) + (1 << 20));
  weft_array *large = weft_full(WEFT_F32, WEFT_DIMS((1 << 18) - 64), 1), *y = weft_add(large, weft_scalar(1));
  EXPECT_OK(weft_eval(1, &y)); /* all of what is left */
  EXPECT_INT(weft_get(WEFT_BYTES_CACHED), 0);
  weft_set(WEFT_BYTES_LIMIT, limit);
  EXPECT_INT(packs(f, 2, 40, COLUMNS, 3), 1);
}

/* ---- several threads ---- */

/* Threads that are asked for: else a busy machine may have short work done by one, which packs in another way. */
static void *calls(void *ctx) {
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_THREADS, 2);
  for (int i = 0; i < 8; i++) expect_product(call(ctx, 30, i), 30, i, COLUMNS, 8);
  weft_scope_discard(s);
  return NULL;
}

SCOPED(threads_that_call_one_function_find_the_same_panels) {
  weft_set(WEFT_THREADS, 2);
  weft_function *f = times(laid(COLUMNS, 8));
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, calls, f);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  EXPECT_INT(packs(f, 2, 30, COLUMNS, 8), 0);
}

/* ---- other dtypes: the same bits as the product that keeps nothing ---- */

static void check_dtype(weft_dtype t, int64_t m) {
  weft_array *w = weft_cast(weft_mul(laid(COLUMNS, 3), weft_scalar(8)), t), *in = weft_cast(array_of(m, K, 2), t), *y;
  EXPECT_OK(weft_eval(2, (weft_array *[]){ w, in }));
  weft_array *want = weft_matmul(in, w);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(t, WEFT_DIMS(WEFT_ANY, K)), *out = weft_matmul(x, w);
  weft_function *f = weft_compile(s, 1, &x, 1, &out);
  for (int i = 0; i < 3; i++) {
    weft_call(f, 1, &in, 1, &y);
    EXPECT_SAME(y, want);
  }
}

SCOPED(kept_panels_of_every_dtype_have_the_bits_of_others) {
  static const weft_dtype all[] = { WEFT_F64, WEFT_F16, WEFT_BF16, WEFT_I8, WEFT_U8, WEFT_I16, WEFT_I32, WEFT_I64, WEFT_C64 };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int64_t m = 1; m < 120; m = m * 5 + 1) check_dtype(all[i], m);
}
