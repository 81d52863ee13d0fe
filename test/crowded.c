/* crowded.c -- graphs that ask more of one kernel than a kernel has: buffers, numbers, sizes, checks. They are computed all
 * the same, by several kernels or step by step. Loops that have nothing to do are here too. */
#include <stdlib.h>
#include <string.h>
#include "values.h"

enum { WIDTH = 3, STEPS = 5, MOST = 48 };

static weft_array *row_of(float first) {
  float x[WIDTH];
  for (int i = 0; i < WIDTH; i++) x[i] = first + (float)i;
  return weft_from(WEFT_F32, WEFT_DIMS(WIDTH), x);
}

static weft_array *f32_one(void) { return weft_from(WEFT_F32, 0, NULL, &(float){ 1 }); } /* an array, not a number */

static void expect_floats(weft_array *a, int n, const float want[], int line) {
  float *got = malloc((size_t)n * sizeof *got + 1);
  weft_status status = weft_read(a, WEFT_F32, got, (size_t)n * sizeof *got);
  if (status) test_fail(__FILE__, line, "status %d: %.300s", (int)status, weft_message());
  for (int i = 0; !status && i < n; i++)
    if (got[i] != want[i]) {
      test_fail(__FILE__, line, "element %d is %g, not %g", i, (double)got[i], (double)want[i]);
      break;
    }
  free(got);
}
#define EXPECT_FLOATS(a, n, want) expect_floats(a, n, want, __LINE__)

/* c_k <- c_k + x_k, all of c and x_k used, stacked and kept. */
static void check_carries(int n) {
  weft_scope *s = weft_scope_open();
  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *c[MOST], *last[MOST], *all[MOST], *every[2 * MOST];
  for (int k = 0; k < n; k++) c[k] = weft_loop_carry(loop, row_of((float)k));
  for (int k = 0; k < n; k++) {
    all[k] = weft_loop_all(loop, c[k]);
    weft_loop_next(loop, c[k], weft_add(c[k], row_of((float)(2 * k))));
  }
  for (int k = 0; k < n; k++) last[k] = weft_loop_last(loop, c[k]);
  weft_loop_close(loop);
  for (int k = 0; k < n; k++) every[k] = all[k], every[n + k] = last[k];
  EXPECT_OK(weft_eval(2 * n, every));
  for (int k = 0; k < n; k++) {
    float want[STEPS + 1][WIDTH];
    for (int t = 0; t <= STEPS; t++)
      for (int i = 0; i < WIDTH; i++) want[t][i] = (float)(k + i + t * (2 * k + i));
    EXPECT_FLOATS(all[k], STEPS * WIDTH, want[0]);
    EXPECT_FLOATS(last[k], WIDTH, want[STEPS]);
  }
  weft_scope_discard(s);
}

TEST(loops_with_any_number_of_carries_are_computed) {
  static const int count[] = { 1, 5, 7, 8, 9, 11, 12, 16, 17, MOST };
  for (size_t i = 0; i < sizeof count / sizeof *count; i++) check_carries(count[i]);
}

/* x <- x a_k + b_k, with so many numbers in one body. */
static float factor(int k) { return 0.5f + (float)k * 0x1p-20f; }
static float summand(int k) { return 0.5f + (float)k * 0x1p-19f; }

static weft_array *polynomial(weft_array *x, int n) {
  for (int k = 0; k < n; k++) x = weft_add(weft_mul(x, weft_scalar((double)factor(k))), weft_scalar((double)summand(k)));
  return x;
}

static void expect_polynomials(weft_array *a, int n) { /* of 1, 2, 3, after all steps */
  float want[WIDTH] = { 1, 2, 3 };
  for (int i = 0; i < WIDTH; i++)
    for (int t = 0; t < STEPS; t++)
      for (int k = 0; k < n; k++) want[i] = want[i] * factor(k) + summand(k);
  EXPECT_FLOATS(a, WIDTH, want);
}

TEST(a_loop_takes_any_number_of_numbers) {
  for (int n = 10; n <= 160; n *= 2) {
    weft_scope *s = weft_scope_open();
    weft_loop *loop = weft_loop_open(weft_integer(STEPS));
    weft_array *c = weft_loop_carry(loop, row_of(1));
    weft_loop_next(loop, c, polynomial(c, n));
    weft_array *last = weft_loop_last(loop, c);
    weft_loop_close(loop);
    expect_polynomials(last, n);
    weft_scope_discard(s);
  }
}

/* The same beside a contraction with the identity: a loop over rows. */
TEST(a_loop_with_a_contraction_takes_any_number_of_numbers) {
  for (int n = 10; n <= 160; n *= 2) {
    weft_scope *s = weft_scope_open();
    weft_array *one = weft_from(WEFT_F32, WEFT_DIMS(WIDTH, WIDTH), (float[]){ 1, 0, 0, 0, 1, 0, 0, 0, 1 });
    weft_loop *loop = weft_loop_open(weft_integer(STEPS));
    weft_array *c = weft_loop_carry(loop, weft_reshape(row_of(1), WEFT_DIMS(1, WIDTH)));
    weft_loop_next(loop, c, weft_matmul(polynomial(c, n), one));
    weft_array *last = weft_loop_last(loop, c);
    weft_loop_close(loop);
    expect_polynomials(last, n);
    weft_scope_discard(s);
  }
}

/* Carries of width 2, 3, .. n + 1, each doubled by a matrix of its own. */
static void check_widths(int n) {
  weft_scope *s = weft_scope_open();
  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *c[MOST], *all[MOST];
  float x[16], m[256];
  for (int k = 0; k < n; k++) {
    int w = k + 2;
    for (int i = 0; i < w; i++) x[i] = (float)(i + 1);
    for (int i = 0; i < w * w; i++) m[i] = i % (w + 1) ? 0 : 2;
    weft_array *matrix = weft_from(WEFT_F32, WEFT_DIMS(w, w), m);
    c[k] = weft_loop_carry(loop, weft_from(WEFT_F32, WEFT_DIMS(1, w), x));
    all[k] = weft_loop_all(loop, c[k]);
    weft_loop_next(loop, c[k], weft_matmul(c[k], matrix));
  }
  weft_loop_close(loop);
  EXPECT_OK(weft_eval(n, all));
  for (int k = 0; k < n; k++) {
    float want[STEPS * 16];
    int w = k + 2;
    for (int t = 0; t < STEPS; t++)
      for (int i = 0; i < w; i++) want[t * w + i] = (float)((i + 1) << t);
    EXPECT_FLOATS(all[k], STEPS * w, want);
  }
  weft_scope_discard(s);
}

TEST(loops_over_rows_of_many_lengths_are_computed) {
  for (int n = 1; n <= 12; n++) check_widths(n);
}

/* A sequence of tables, each row looked up with many indices at once: many checks in the body of a loop. */
TEST(a_body_may_check_any_number_of_indices) {
  enum { N = 70 };
  weft_scope *s = weft_scope_open();
  weft_array *table = row_of(1), *at = weft_from(WEFT_I32, WEFT_DIMS(2), (int32_t[]){ 0, 1 });
  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *c = weft_loop_carry(loop, weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 0, 0 })), *sum = c;
  for (int k = 0; k < N; k++) {
    weft_array *i = weft_add(at, weft_integer(k % 2));
    sum = weft_add(sum, weft_take(weft_add(table, weft_sum(c, WEFT_ALL)), 1, &i));
  }
  weft_loop_next(loop, c, weft_mul(sum, weft_scalar(0x1p-7)));
  weft_array *last = weft_loop_last(loop, c);
  weft_loop_close(loop);
  float x[2] = { 0, 0 };
  for (int t = 0; t < STEPS; t++) {
    float both = x[0] + x[1];
    for (int k = 0; k < N; k++)
      for (int i = 0; i < 2; i++) x[i] += (float)(1 + i + k % 2) + both;
    for (int i = 0; i < 2; i++) x[i] *= 0x1p-7f;
  }
  EXPECT_FLOATS(last, 2, x);
  weft_scope_discard(s);
}

/* ---- loops with nothing to do ---- */

/* y_t = 2 x_t + c, c <- y_t, or (rows) c <- y_t M, forwards and its gradient, which runs backwards. */
static void check_idle(int64_t steps, int64_t width, bool rows) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(steps, 2, width), 1), *c0 = weft_full(WEFT_F32, WEFT_DIMS(2, width), 1);
  weft_array *m = weft_full(WEFT_F32, WEFT_DIMS(width, width), 1);
  x = weft_mul(x, f32_one()), c0 = weft_mul(c0, f32_one()), m = weft_mul(m, f32_one());
  weft_array *of[] = { x, c0 }, *g[2];
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(loop, x), *c = weft_loop_carry(loop, c0), *y = weft_add(weft_mul(x_t, weft_scalar(2)), weft_mul(c, c));
  weft_loop_next(loop, c, rows ? weft_matmul(y, m) : y);
  weft_array *all = weft_loop_all(loop, y), *last = weft_loop_last(loop, c);
  weft_loop_close(loop);
  weft_grad(weft_add(weft_sum(all, WEFT_ALL), weft_sum(last, WEFT_ALL)), 2, of, g);
  weft_array *every[] = { all, last, g[0], g[1] };
  EXPECT_OK(weft_eval(4, every));
  if (!steps && width) {
    float want[] = { 1, 1, 1, 1 };
    EXPECT_INT(width, 2);
    EXPECT_FLOATS(last, 4, want);
    EXPECT_FLOATS(g[1], 4, want);
  }
  if (steps && width == 1) { /* 1, then 2 + 1 = 3, 2 + 9 = 11, 2 + 121 = 123 */
    EXPECT_FLOATS(all, 6, ((float[]){ 3, 3, 11, 11, 123, 123 }));
    EXPECT_FLOATS(last, 2, ((float[]){ 123, 123 }));
  }
  EXPECT_INT(weft_dim(all, 0), steps);
  weft_scope_discard(s);
}

TEST(loops_without_steps_or_elements_leave_things_as_they_are) {
  for (int rows = 0; rows < 2; rows++) {
    check_idle(0, 2, rows);
    check_idle(3, 0, rows);
    check_idle(0, 0, rows);
    check_idle(3, 2, rows);
    check_idle(3, 1, rows);
  }
}

/* Folded bodies are replayed. */
TEST(a_replay_without_steps_or_elements_leaves_things_as_they_are) {
  for (int64_t steps = 0; steps <= 3; steps += 3)
    for (int64_t width = 0; width <= 2; width += 2) {
      weft_scope *s = weft_scope_open();
      weft_array *x = weft_mul(weft_full(WEFT_F32, WEFT_DIMS(steps, width), 1), f32_one()), *c0 = weft_full(WEFT_F32, WEFT_DIMS(width), 1), *g[2];
      weft_array *of[] = { x, c0 };
      weft_loop *loop = weft_loop_open(NULL);
      weft_array *x_t = weft_loop_each(loop, x), *c = weft_loop_carry(loop, c0);
      weft_loop_next(loop, c, weft_add(weft_mul(c, x_t), weft_sum(c, WEFT_ALL)));
      weft_array *all = weft_loop_all(loop, weft_sum(c, WEFT_ALL)), *last = weft_loop_last(loop, c);
      weft_loop_close(loop);
      weft_grad(weft_add(weft_sum(all, WEFT_ALL), weft_sum(last, WEFT_ALL)), 2, of, g);
      weft_array *every[] = { all, last, g[0], g[1] };
      EXPECT_OK(weft_eval(4, every));
      float sums[] = { 2, 6, 18 }, none[] = { 0, 0, 0 }, grown[] = { 27, 27 }, same[] = { 1, 1 };
      EXPECT_FLOATS(all, (int)steps, width ? sums : none);
      EXPECT_FLOATS(last, (int)width, steps ? grown : same);
      weft_scope_discard(s);
    }
}

TEST(a_loop_without_carries_maps_its_body) {
  for (int64_t steps = 0; steps <= 4; steps += 2) {
    weft_scope *s = weft_scope_open();
    float x[12], want[12], sums[4];
    for (int i = 0; i < 12; i++) x[i] = (float)i, want[i] = (float)(3 * i);
    for (int i = 0; i < 4; i++) sums[i] = (float)(9 * i + 3);
    weft_loop *loop = weft_loop_open(NULL);
    weft_array *e = weft_loop_each(loop, weft_from(WEFT_F32, WEFT_DIMS(steps, 3), x));
    weft_array *each = weft_loop_all(loop, weft_mul(e, weft_scalar(3))), *sum = weft_loop_all(loop, weft_sum(e, WEFT_ALL));
    weft_loop_close(loop);
    EXPECT_FLOATS(each, (int)(3 * steps), want);
    EXPECT_FLOATS(sum, (int)steps, sums);
    weft_scope_discard(s);
  }
}
