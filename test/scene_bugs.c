/* scene_bugs.c -- what the demo and the scenes have found, reduced. */
#include <math.h>
#include <pthread.h>
#include <weft.h>
#include "base/mem.h"
#include "test.h"

enum { ROWS = 40, COLUMNS = 9 };

static weft_array *ramp(int rank, const int64_t dims[], double scale) {
  float values[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)(scale * (i * 7 % 23 - 11) / 11);
  return weft_from(WEFT_F32, rank, dims, values);
}

TEST(a_fold_over_a_length_of_one_shares_a_kernel_with_the_fold_after_it) {
  weft_scope *scope = weft_scope_open();
  weft_array *z = ramp(WEFT_DIMS(ROWS, 1), 3), *loss = weft_mean(weft_mul(z, z), WEFT_ALL), *dz;
  float mean, gradient[ROWS], right = 0;
  weft_grad(loss, 1, &z, &dz);
  EXPECT_OK(weft_eval(WEFT_ARRAYS(loss, dz)));
  EXPECT_OK(weft_read(loss, WEFT_F32, &mean, sizeof mean));
  EXPECT_OK(weft_read(dz, WEFT_F32, gradient, sizeof gradient));
  for (int i = 0; i < ROWS; i++) {
    float x = (float)(3.0 * (i * 7 % 23 - 11) / 11);
    right += x * x / ROWS;
    EXPECT(fabsf(gradient[i] - 2 * x / ROWS) < 1e-6f);
  }
  EXPECT(fabsf(mean - right) < 1e-5f);
  weft_scope_discard(scope);
}

/* [n,C] -> [n,1], with two norms whose gradients all divide by the same size. */
static weft_array *network(weft_array *const p[4], weft_array *x) {
  weft_array *h = weft_rms_norm(weft_tanh(weft_matmul(x, p[0])), p[1], 1e-5);
  return weft_matmul(weft_rms_norm(weft_tanh(weft_matmul(h, p[2])), p[3], 1e-5), weft_slice(p[0], 1, 0, 1, 1));
}

static void gradients(weft_array *p[4], weft_array *g[5]) {
  p[0] = ramp(WEFT_DIMS(COLUMNS, COLUMNS), 0.5);
  p[1] = ramp(WEFT_DIMS(COLUMNS), 1);
  p[2] = ramp(WEFT_DIMS(COLUMNS, COLUMNS), 0.25);
  p[3] = ramp(WEFT_DIMS(COLUMNS), 2);
  weft_array *z = network(p, ramp(WEFT_DIMS(ROWS, COLUMNS), 1));
  g[4] = weft_mean(weft_mul(z, z), WEFT_ALL);
  weft_grad(g[4], 4, p, g);
}

TEST(gradients_asked_for_together_are_those_asked_for_alone) {
  weft_scope *scope = weft_scope_open();
  weft_array *p[4], *together[5], *alone[5];
  gradients(p, together);
  EXPECT_OK(weft_eval(5, together));
  gradients(p, alone);
  for (int i = 0; i < 5; i++) {
    float a[COLUMNS * COLUMNS], b[COLUMNS * COLUMNS];
    size_t bytes = sizeof *a * (i == 4 ? 1 : i % 2 ? COLUMNS : COLUMNS * COLUMNS);
    EXPECT_OK(weft_read(together[i], WEFT_F32, a, bytes));
    EXPECT_OK(weft_read(alone[i], WEFT_F32, b, bytes));
    EXPECT(!memcmp(a, b, bytes));
  }
  weft_scope_discard(scope);
}

static void *evaluate_and_end(void *unused) {
  weft_scope *scope = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y = weft_exp(x);
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  weft_array *in = ramp(WEFT_DIMS(COLUMNS), 1), *out;
  weft_call(f, 1, &in, 1, &out);
  EXPECT_OK(weft_eval(WEFT_ARRAYS(out, weft_tanh(in))));
  weft_scope_discard(scope);
  return unused;
}

TEST(a_thread_that_has_evaluated_leaves_nothing) {
  int64_t live = 0;
  for (int i = 0; i < 4; i++) {
    pthread_t thread;
    EXPECT_INT(pthread_create(&thread, NULL, evaluate_and_end, NULL), 0);
    pthread_join(thread, NULL);
    if (i == 1) live = mem_live(); /* plans stay */
  }
  EXPECT_INT(mem_live(), live);
}
