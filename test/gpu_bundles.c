/* gpu_bundles.c -- plans that are run again on the same addresses are handed to the GPU at once: right whatever has changed meanwhile,
 * and as few calls of the driver as that promises, where a driver counts them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"
#include "test.h"
#include "values.h"

enum { ROWS = 24, COLUMNS = 33 };

/* Calls of the driver so far: launches, points, others, bundles; NULL: nobody counts them. */
static int (*driver_calls(void))(int) {
  void *lib = has_gpu() ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL, *f = lib ? dlsym(lib, "test_driver_calls") : NULL;
  int (*calls)(int) = NULL;
  if (f) memcpy(&calls, &f, sizeof f);
  return calls;
}

/* Several kernels: running sums, a softmax of them, sums of columns, and what follows. */
static weft_function *some_steps(void) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(ROWS, COLUMNS)), *c = weft_cumsum(x, 1), *p = weft_softmax(c, -1);
  weft_array *y = weft_add(weft_cumsum(weft_sub(p, weft_mean(weft_mul(p, c), 0)), 0), weft_scalar(1));
  return weft_compile(body, 1, &x, 1, &y);
}

static weft_array *on_device(uint32_t seed) {
  weft_array *x = weft_mul(drawn_floats(WEFT_DIMS(ROWS, COLUMNS), seed), weft_scalar(1));
  weft_set(WEFT_DEVICE, 1);
  EXPECT_OK(weft_eval(1, &x));
  return x;
}

static void read_call(weft_function *f, weft_array *x, float got[ROWS * COLUMNS]) {
  weft_scope *s = weft_scope_open();
  weft_array *y;
  weft_call(f, 1, &x, 1, &y);
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof(float) * ROWS * COLUMNS));
  weft_scope_discard(s);
}

static void expect_same(const float *got, const float *want, size_t n) {
  EXPECT_INT(memcmp(got, want, n * sizeof *got), 0);
}

TEST(cuda_plans_that_run_again_are_handed_over_at_once) {
  int (*calls)(int) = driver_calls(), before[4];
  if (!calls) { test_skip("there is no driver that counts"); return; }
  weft_scope *s = weft_scope_open();
  weft_function *f = some_steps();
  float want[ROWS * COLUMNS], got[ROWS * COLUMNS];
  weft_array *x = on_device(3);
  weft_set(WEFT_DEVICE, 0);
  read_call(f, x, want);
  weft_set(WEFT_DEVICE, 1);
  int n_bundled = 0; /* the background may still hold the last result, and the next one stand elsewhere */
  for (int i = 0; i < 24; i++) {
    for (int k = 0; k < 4; k++) before[k] = calls(k);
    read_call(f, x, got);
    expect_same(got, want, ROWS * COLUMNS);
    n_bundled += calls(3) - before[3] == 1 && calls(0) == before[0];
  }
  EXPECT(n_bundled >= 12);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* Results that are held stand elsewhere than the next ones, and what is given to the function changes too. */
TEST(cuda_bundles_are_of_one_run_s_addresses) {
  enum { CALLS = 12 };
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_function *f = some_steps();
  weft_array *x[3], *y[CALLS];
  static float want[3][ROWS * COLUMNS], got[ROWS * COLUMNS];
  for (int i = 0; i < 3; i++) {
    x[i] = on_device((uint32_t)i + 1);
    weft_set(WEFT_DEVICE, 0);
    read_call(f, x[i], want[i]);
    weft_set(WEFT_DEVICE, 1);
  }
  for (int round = 0; round < 4; round++) {
    weft_scope *inside = weft_scope_open();
    for (int i = 0; i < CALLS; i++) {
      weft_call(f, 1, &x[(i + round) % 3], 1, &y[i]);
      EXPECT_OK(weft_eval_async(1, &y[i]));
    }
    for (int i = 0; i < CALLS; i++) {
      EXPECT_OK(weft_read(y[i], WEFT_F32, got, sizeof got));
      expect_same(got, want[(i + round) % 3], ROWS * COLUMNS);
    }
    weft_scope_discard(inside);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* An index is looked at by every run, whoever enqueued its kernels. */
TEST(cuda_bundles_check_indices) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F32, WEFT_DIMS(40)), weft_input(WEFT_I32, WEFT_DIMS(5)) };
  weft_array *y = weft_cumsum(weft_take(weft_cumsum(in[0], 0), 1, &in[1]), 0);
  weft_function *f = weft_compile(body, 2, in, 1, &y);
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_mul(drawn_floats(WEFT_DIMS(40), 2), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &x));
  for (int i = 0; i < 9; i++) {
    weft_scope *inside = weft_scope_open();
    bool is_bad = i % 3 == 2;
    weft_array *at = weft_from(WEFT_I32, WEFT_DIMS(5), (int32_t[]){ 1, 39, 0, is_bad ? 40 : 7, 3 }), *out;
    float got[5];
    weft_call(f, 2, (weft_array *[]){ x, at }, 1, &out);
    if (i % 2) EXPECT_OK(weft_eval_async(1, &out));
    EXPECT_INT(weft_read(out, WEFT_F32, got, sizeof got), is_bad ? WEFT_ERR_INDEX : WEFT_OK);
    if (is_bad) EXPECT(strstr(weft_message(), "the index 40 at place 3 is out of range for an axis of 40"));
    weft_scope_discard(inside);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* Kernels with memory to work in, which others may have taken meanwhile; some results are held, so that addresses change. */
TEST(cuda_bundles_have_memory_to_work_in) {
  if (!has_gpu()) return;
  const int64_t R = driver_calls() ? 300 : 4096, C = driver_calls() ? 40 : 4096;
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in[2] = { weft_input(WEFT_F32, WEFT_DIMS(R, C)), weft_input(WEFT_F32, WEFT_DIMS(C)) }, *d[2];
  weft_array *m = weft_mean(weft_mul(in[0], in[0]), 1), *y = weft_mul(weft_mul(in[0], weft_rsqrt(weft_add(m, weft_scalar(1)))), in[1]);
  weft_grad(weft_sum(weft_mul(y, y), WEFT_ALL), 2, in, d);
  weft_function *f = weft_compile(body, 2, in, 2, d);
  weft_array *x[2] = { weft_mul(drawn_floats(WEFT_DIMS(R, C), 1), weft_scalar(1)), weft_mul(drawn_floats(WEFT_DIMS(C), 2), weft_scalar(1)) };
  EXPECT_OK(weft_eval(2, x));
  float *want = malloc(sizeof(float) * (size_t)(R * C + C)), *got = malloc(sizeof(float) * (size_t)(R * C + C));
  for (int i = -1; i < 14; i++) {
    weft_scope *inside = i % 3 ? weft_scope_open() : NULL;
    weft_array *out[2], *other;
    weft_set(WEFT_DEVICE, i >= 0);
    weft_call(f, 2, x, 2, out);
    if (i % 2) EXPECT_OK(weft_eval_async(2, out));
    other = weft_cumsum(weft_mul(x[0], weft_scalar(i)), 0);
    EXPECT_OK(weft_eval_async(1, &other));
    EXPECT_OK(weft_read(out[0], WEFT_F32, i < 0 ? want : got, sizeof(float) * (size_t)(R * C)));
    EXPECT_OK(weft_read(out[1], WEFT_F32, (i < 0 ? want : got) + R * C, sizeof(float) * (size_t)C));
    if (i >= 0) expect_same(got, want, (size_t)(R * C + C));
    if (inside) weft_scope_discard(inside);
  }
  free(want);
  free(got);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* A state that is updated again and again, in place or not. */
TEST(cuda_bundles_update_states) {
  if (!has_gpu()) return;
  float got[2][ROWS * COLUMNS];
  for (int on = 0; on < 2; on++) {
    weft_set(WEFT_DEVICE, on);
    weft_scope *s = weft_scope_open();
    weft_array *state = weft_mul(drawn_floats(WEFT_DIMS(ROWS, COLUMNS), 5), weft_scalar(1));
    EXPECT_OK(weft_eval(1, &state));
    for (int i = 0; i < 8; i++) {
      weft_scope *step = weft_scope_open();
      weft_array *c = weft_cumsum(state, 1), *m = weft_mean(weft_mul(c, c), 0);
      weft_update(state, weft_sub(weft_mul(state, weft_scalar(0.99)), weft_mul(m, weft_scalar(0.01))));
      EXPECT_OK(weft_scope_close(step));
    }
    EXPECT_OK(weft_read(state, WEFT_F32, got[on], sizeof got[on]));
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  expect_same(got[1], got[0], ROWS * COLUMNS);
}

/* Steps of a loop whose body is no kernel are launches like others. */
TEST(cuda_bundles_hold_the_steps_of_loops) {
  int (*calls)(int) = driver_calls(), before = 0;
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(12, 12));
  weft_loop *loop = weft_loop_open(weft_integer(5));
  weft_array *h = weft_loop_carry(loop, x);
  weft_loop_next(loop, h, weft_sort(weft_matmul(weft_softmax(h, -1), x), 1));
  weft_array *y = weft_loop_last(loop, h);
  weft_loop_close(loop);
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  weft_array *in = weft_mul(drawn_floats(WEFT_DIMS(12, 12), 6), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &in));
  static float want[144], got[144];
  int n_bundled = 0;
  for (int i = -1; i < 5; i++) {
    weft_scope *inside = weft_scope_open();
    weft_array *out;
    weft_set(WEFT_DEVICE, i >= 0);
    if (calls) before = calls(3);
    weft_call(f, 1, &in, 1, &out);
    EXPECT_OK(weft_read(out, WEFT_F32, i < 0 ? want : got, sizeof got));
    if (i >= 0) expect_same(got, want, 144);
    n_bundled += calls && calls(3) - before == 1;
    weft_scope_discard(inside);
  }
  if (calls) EXPECT(n_bundled > 0);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* A library launches its products itself; two runs of them agree. */
TEST(cuda_bundles_hold_products_of_a_library) {
  if (!has_gpu()) return;
  enum { N = 64 };
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_BF16, WEFT_DIMS(N, N)), *p = weft_softmax(weft_matmul(in, in), -1);
  weft_array *y = weft_cast(weft_matmul(p, in), WEFT_F32);
  weft_function *f = weft_compile(body, 1, &in, 1, &y);
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_cast(drawn_floats(WEFT_DIMS(N, N), 3), WEFT_BF16), *out;
  EXPECT_OK(weft_eval(1, &x));
  static float want[N * N], got[N * N];
  for (int i = 0; i < 10; i++) {
    weft_scope *inside = i % 3 ? weft_scope_open() : NULL;
    weft_call(f, 1, &x, 1, &out);
    EXPECT_OK(weft_read(out, WEFT_F32, i ? got : want, sizeof got));
    if (i) expect_same(got, want, N * N);
    if (inside) weft_scope_discard(inside);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

struct caller_of { weft_function *f; weft_array *x; const float *want; int wrong; };

static void *call_often(void *of) {
  struct caller_of *c = of;
  float *got = malloc(sizeof(float) * ROWS * COLUMNS);
  weft_set(WEFT_DEVICE, 1);
  for (int i = 0; i < 12; i++) {
    read_call(c->f, c->x, got);
    c->wrong += memcmp(got, c->want, sizeof(float) * ROWS * COLUMNS) != 0;
  }
  free(got);
  return NULL;
}

TEST(cuda_bundles_serve_threads) {
  enum { THREADS = 4 };
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_function *f = some_steps();
  static float want[THREADS][ROWS * COLUMNS];
  struct caller_of c[THREADS];
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) {
    weft_array *x = on_device((uint32_t)i + 20);
    weft_set(WEFT_DEVICE, 0);
    read_call(f, x, want[i]);
    c[i] = (struct caller_of){ f, x, want[i], 0 };
  }
  for (int i = 0; i < THREADS; i++) EXPECT_INT(pthread_create(&thread[i], NULL, call_often, &c[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++) EXPECT_INT(c[i].wrong, 0);
  weft_scope_discard(s);
}
