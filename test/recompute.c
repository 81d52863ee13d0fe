/* recompute.c -- what the gradient of a loop keeps: all carries, those before every k-th step, or the square root of them. */
#include "values.h"

enum { KEEP_ALL = -1, WIDTH = 32 };
static const double POINT[] = { 0.3, -0.7, 1.2, 0.9, -0.4, 0.6, 0.1, -0.2 };

/* y <- tanh(a y) + x_t; every: KEEP_ALL, or what weft_loop_recompute gets. */
static weft_array *recurrence(weft_array *x, weft_array *a, weft_array *y0, int64_t every) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(l, x), *y = weft_loop_carry(l, y0);
  weft_array *next = weft_add(weft_tanh(weft_mul(a, y)), x_t);
  weft_loop_next(l, y, next);
  if (every != KEEP_ALL) weft_loop_recompute(l, every);
  weft_array *all = weft_loop_all(l, weft_mul(next, y)), *last = weft_loop_last(l, y);
  weft_loop_close(l);
  return weft_add(weft_sum(all, WEFT_ALL), weft_mul(last, last));
}

static int64_t every_now;
static weft_array *of_eight(weft_array *x) {
  weft_array *a = weft_squeeze(weft_slice(x, 0, 0, 1, 1), 0), *y0 = weft_squeeze(weft_slice(x, 0, 3, 4, 1), 0);
  return recurrence(x, a, y0, every_now);
}

TEST(values_of_a_loop_that_recomputes_are_the_same_bit_for_bit) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(8, POINT);
  every_now = KEEP_ALL;
  double want = one_f64(of_eight(x));
  for (every_now = 0; every_now < 10; every_now++) EXPECT(one_f64(of_eight(x)) == want);
  weft_scope_discard(s);
}

TEST(gradients_of_a_loop_that_recomputes_are_the_same) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(8, POINT), *d;
  double want[8], got[8];
  every_now = KEEP_ALL;
  weft_grad(of_eight(x), 1, &x, &d);
  if (!read_f64(d, 8, want)) return;
  for (every_now = 0; every_now < 10; every_now++) {
    weft_grad(of_eight(x), 1, &x, &d);
    if (read_f64(d, 8, got))
      for (int i = 0; i < 8; i++) EXPECT_NEAR(got[i], want[i], 1e-14);
  }
  weft_scope_discard(s);
}

TEST(derivatives_and_maps_of_a_loop_that_recomputes_agree_with_differences) {
  every_now = 3;
  check_function("every 3", of_eight, 8, POINT);
  every_now = 0;
  check_function("square root", of_eight, 8, POINT);
}

/* The most bytes that the gradient of so many steps needs at a time, beyond what was there. */
static int64_t peak_of(weft_array *(*number)(int64_t), int64_t steps, int64_t every) {
  weft_scope *s = weft_scope_open();
  weft_array *y0 = weft_full(WEFT_F64, WEFT_DIMS(WIDTH), 0.5), *x = weft_exp(y0), *d;
  EXPECT_OK(weft_eval(1, &x));
  weft_loop *l = weft_loop_open(number(steps));
  weft_array *y = weft_loop_carry(l, x);
  weft_loop_next(l, y, weft_sub(y, weft_mul(weft_mul(y, y), weft_scalar(1e-3))));
  if (every != KEEP_ALL) weft_loop_recompute(l, every);
  weft_array *last = weft_loop_last(l, y);
  weft_loop_close(l);
  weft_grad(last, 1, &x, &d);
  int64_t before = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_eval(1, &d));
  int64_t peak = weft_get(WEFT_BYTES_PEAK) - before;
  weft_scope_discard(s);
  return peak;
}

TEST(what_a_gradient_keeps_is_all_or_every_kth_or_the_square_root) {
  enum { ROW = WIDTH * 8, STEPS = 10000, OTHERS = 20 }; /* rows that are no kept carries */
  int64_t all = peak_of(weft_integer, STEPS, KEEP_ALL), tenth = peak_of(weft_integer, STEPS, 10);
  int64_t root = peak_of(weft_integer, STEPS, 0), root4 = peak_of(weft_integer, 4 * STEPS, 0), late = peak_of(i64_of, STEPS, 10);
  if (all < STEPS * ROW || all > (STEPS + OTHERS) * ROW || tenth > (STEPS / 10 + 10 + OTHERS) * ROW ||
      late > (STEPS / 10 + 10 + OTHERS) * ROW || root > (100 + 100 + OTHERS) * ROW || root4 > (200 + 200 + OTHERS) * ROW)
    test_fail(__FILE__, __LINE__, "in rows: all %lld, every tenth %lld, of late steps %lld, root %lld, of four times as many %lld",
              (long long)all / ROW, (long long)tenth / ROW, (long long)late / ROW, (long long)root / ROW, (long long)root4 / ROW);
}

TEST(a_function_of_any_length_recomputes) {
  weft_scope *outer = weft_scope_open();
  weft_function *f[2];
  for (int k = 0; k < 2; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *d;
    weft_grad(recurrence(x, f64_of(0.7), f64_of(0.2), k ? 3 : KEEP_ALL), 1, &x, &d);
    f[k] = weft_compile(s, 1, &x, 1, &d);
  }
  for (int64_t n = 0; n <= 8; n++) {
    weft_array *x = weft_slice(f64s(8, POINT), 0, 0, n, 1), *d[2];
    double want[8], got[8];
    for (int k = 0; k < 2; k++) weft_call(f[k], 1, &x, 1, &d[k]);
    if (read_f64(d[0], (int)n, want) && read_f64(d[1], (int)n, got))
      for (int i = 0; i < n; i++) EXPECT_NEAR(got[i], want[i], 1e-14);
  }
  weft_scope_discard(outer);
}

TEST(recomputing_what_is_not_known_is_refused) {
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < 3; k++) {
    weft_loop *l = weft_loop_open(k == 1 ? i64_of(9) : weft_integer(9));
    weft_array *c = weft_loop_carry(l, f64_of(1)), *last = weft_loop_last(l, c);
    if (k == 0) weft_loop_until(l, weft_gt(c, weft_scalar(3)));
    weft_loop_recompute(l, k == 2 ? -1 : 0);
    weft_loop_close(l);
    EXPECT_INT(weft_check(last), k == 2 ? WEFT_ERR_ARG : WEFT_ERR_UNSUPPORTED);
  }
  weft_loop_recompute(NULL, 3);
  weft_scope_discard(s);
}
