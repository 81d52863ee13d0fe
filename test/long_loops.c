/* long_loops.c -- loops of many steps: what they cost to compile and to hold, and which step it was that failed. */
#include <math.h>
#include "values.h"

static weft_array *decayed(weft_array *x) { return weft_add(weft_mul(x, weft_scalar(0.75)), weft_scalar(1)); }
static weft_array *turned(weft_array *x) { /* a replay: a sum over the carry in every step */
  return weft_sub(decayed(x), weft_mul(weft_sum(x, WEFT_ALL), weft_scalar(1e-3)));
}

struct cost { int64_t kernels, bytes; };

static struct cost cost_of(int64_t steps, array_function body) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_exp(weft_full(WEFT_F64, WEFT_DIMS(4), 0.5)), *y;
  EXPECT_OK(weft_eval(1, &x));
  struct cost before = { weft_get(WEFT_KERNELS), weft_get(WEFT_BYTES_USED) };
  weft_set(WEFT_BYTES_PEAK, 0);
  y = repeated(steps, x, body);
  EXPECT_OK(weft_eval(1, &y));
  struct cost c = { weft_get(WEFT_KERNELS) - before.kernels, weft_get(WEFT_BYTES_PEAK) - before.bytes };
  weft_scope_discard(s);
  return c;
}

TEST(a_million_steps_take_the_kernels_and_the_memory_of_ten) {
  struct cost few = cost_of(10, decayed), many = cost_of(1000000, decayed);
  EXPECT(few.kernels > 0);
  EXPECT_INT(many.kernels, 0); /* those of the ten steps serve */
  EXPECT_INT(many.bytes, few.bytes);
  few = cost_of(10, turned), many = cost_of(100000, turned);
  EXPECT_INT(many.kernels, 0);
  EXPECT_INT(many.bytes, few.bytes);
}

TEST(a_loop_that_is_long_at_once_compiles_what_a_short_one_does) {
  weft_scope *s = weft_scope_open();
  int64_t kernels[2];
  for (int k = 0; k < 2; k++) { /* kernels nobody has seen: another power each time */
    weft_array *x = f64s(2, (double[]){ 0.5, 0.25 });
    weft_loop *l = weft_loop_open(weft_integer(k ? 1000000 : 10));
    weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, c);
    for (int i = 0; i < 17 + k; i++) next = weft_sub(next, weft_mul(next, c));
    weft_loop_next(l, c, next);
    weft_array *y = weft_loop_last(l, c);
    weft_loop_close(l);
    kernels[k] = weft_get(WEFT_KERNELS);
    EXPECT_OK(weft_eval(1, &y));
    kernels[k] = weft_get(WEFT_KERNELS) - kernels[k];
  }
  EXPECT(kernels[0] > 0);
  EXPECT_INT(kernels[1], kernels[0]);
  weft_scope_discard(s);
}

/* ---- Which step ---- */

static const int64_t AT[] = { 0, 2, 1, 7, 0 };

TEST(a_step_that_fails_is_named) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(NULL);
  weft_array *i = weft_loop_each(l, weft_from(WEFT_I64, WEFT_DIMS(5, 1), AT)), *c = weft_loop_carry(l, f64s(3, (double[]){ 1, 2, 3 }));
  weft_loop_next(l, c, weft_mul(c, weft_take(c, 1, &i)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take: the index 7 at place 0 is out of range for an axis of 3 (step 3 of the loop)");
  weft_scope_discard(s);
}

/* log of what goes below 0 in step 3 is nan. */
TEST(the_step_of_the_first_nan_is_found_by_until) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(weft_integer(100));
  weft_array *c = weft_loop_carry(l, f64s(2, (double[]){ 10, 3.5 })), *next = weft_sub(c, weft_scalar(1));
  weft_array *logarithm = weft_log(next);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_any(weft_isnan(logarithm), WEFT_ALL));
  weft_array *all = weft_loop_all(l, logarithm);
  weft_loop_close(l);
  EXPECT_INT(weft_dim(all, 0), 4);
  double v[8];
  if (read_f64(all, 8, v)) EXPECT(isnan(v[7]) && !isnan(v[6]) && !isnan(v[5]));
  weft_scope_discard(s);
}

/* ---- What only the run can know ---- */

static weft_array *summed(weft_array *x, weft_array *steps) {
  weft_loop *l = weft_loop_open(steps);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, e));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

TEST(steps_below_zero_and_sequences_too_short_fail_when_it_runs_and_lose_nothing) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 1, 2, 4 });
  weft_array *below = summed(x, weft_sub(i64_of(1), i64_of(3))), *beyond = summed(x, weft_add(i64_of(1), i64_of(3)));
  EXPECT_INT(weft_eval(1, &below), WEFT_ERR_ARG);
  EXPECT(strstr(weft_message(), "-2 steps"));
  EXPECT_INT(weft_eval(1, &beyond), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_eval: a slice, or a loop over a sequence, needs 4 elements of an axis that has 3");
  EXPECT_F64(x, 1, 2, 4);
  EXPECT_F64(summed(x, weft_add(i64_of(1), i64_of(1))), 3);
  weft_scope_discard(s);
}

TEST(an_initial_state_that_is_missing_is_refused) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, NULL);
  EXPECT_INT(weft_check(c), WEFT_ERR_ARG);
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_INT(weft_check(y), WEFT_ERR_ARG);
  weft_scope_discard(s);
}

/* y <- y / 2 + 1, as often as p says: 5 times or not at all; small or not, ended before or not. */
static weft_array *if_at_all(weft_array *p, weft_array *y, bool sums, bool ends) {
  weft_loop *l = weft_loop_open(weft_where(p, weft_integer(5), weft_integer(0)));
  weft_array *c = weft_loop_carry(l, y), *one = sums ? weft_mean(weft_add(weft_mul(c, weft_scalar(0)), weft_scalar(1)), -1) : weft_scalar(1);
  weft_array *next = weft_add(weft_mul(c, weft_scalar(0.5)), one);
  weft_loop_next(l, c, next);
  if (ends) weft_loop_until(l, weft_lt(weft_scalar(1.8), weft_max(next, WEFT_ALL)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

/* A number of steps that is computed, but not below 0 whatever it is, is no reason to stop and look at it. */
TEST(a_loop_that_may_not_run_at_all_is_in_one_plan_with_what_says_so) {
  static const int64_t length[] = { 1, 4, 300 };
  for (int i = 0; i < 24; i++) {
    weft_scope *s = weft_scope_open();
    bool runs = i & 1, sums = i & 2 && length[i / 8] < 300, ends = i & 4 && !(length[i / 8] == 300);
    weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(length[i / 8]), 0), *limit = f64_of(runs ? 1 : -1);
    weft_array *y = if_at_all(weft_lt(weft_scalar(0), limit), weft_exp(x), sums, ends);
    const char *plan = weft_show(1, &y, "plan");
    EXPECT(plan && strstr(plan, "scan") && strstr(plan, "steps=") && !strstr(plan, "step by step"));
    double want = 1, got[300];
    for (int k = 0; runs && k < 5 && !(ends && want > 1.8); k++) want = want * 0.5 + 1;
    if (read_f64(y, (int)length[i / 8], got))
      for (int k = 0; k < length[i / 8]; k++) EXPECT(got[k] == want);
    weft_scope_discard(s);
  }
}
