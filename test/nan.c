/* nan.c -- WEFT_CHECK: where a nan arose, whatever kernels computed it. */
#include <math.h>
#include <string.h>
#include "values.h"

static void checked_status(weft_array *y, weft_status expected, const char *message, int line) {
  int64_t before = weft_set(WEFT_CHECK, 1);
  weft_status status = weft_eval(1, &y);
  weft_set(WEFT_CHECK, before);
  if (status != expected) test_fail(__FILE__, line, "status %d, not %d: %s", status, expected, status ? weft_message() : "");
  else if (message && strcmp(weft_message(), message)) test_fail(__FILE__, line, "\"%s\"\n  not \"%s\"", weft_message(), message);
}

#define EXPECT_NAN(y, message) checked_status(y, WEFT_ERR_NAN, message, __LINE__)
#define EXPECT_NO_NAN(y) checked_status(y, WEFT_OK, NULL, __LINE__)

static weft_array *abc(void) { return f64s(3, (double[]){ 4, -1, 9 }); }

TEST(a_nan_is_found_in_the_operation_that_made_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = abc();
  weft_origin(7);
  weft_array *root = weft_sqrt(x);
  weft_origin(8);
  weft_array *y = weft_sum(weft_mul(weft_exp(root), x), 0);
  weft_origin(0);
  EXPECT_NAN(y, "weft_eval: a nan arises in weft_sqrt: f64 [3] at [1]");
  EXPECT_INT(weft_blame(), 7);
  double v;
  EXPECT_OK(weft_read(y, WEFT_F64, &v, sizeof v));
  EXPECT(isnan(v));
  weft_scope_discard(s);
}

TEST(a_nan_that_where_leaves_out_is_nobodys_fault) {
  weft_scope *s = weft_scope_open();
  weft_array *x = abc(), *root = weft_where(weft_ge(x, weft_scalar(0)), weft_sqrt(x), weft_scalar(0));
  EXPECT_NO_NAN(root);
  weft_array *mixed = weft_where(weft_ge(x, weft_scalar(0)), weft_sqrt(x), weft_log(weft_sub(x, weft_scalar(20))));
  EXPECT_NAN(mixed, "weft_eval: a nan arises in weft_log: f64 [3] at [0]");
  weft_scope_discard(s);
}

TEST(a_nan_that_was_given_is_named_if_a_result_has_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 2, NAN, 4 });
  EXPECT_NO_NAN(x);
  EXPECT_NAN(weft_add(x, weft_scalar(1)), "weft_eval: a nan is in what was given: f64 [4] at [2]");
  weft_scope_discard(s);
}

TEST(an_inf_counts_if_asked) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_mul(weft_div(abc(), f64s(3, (double[]){ 1, 1, 0 })), weft_scalar(2));
  EXPECT_NO_NAN(y);
  int64_t before = weft_set(WEFT_CHECK, 2);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_NAN);
  EXPECT_TEXT(weft_message(), "weft_eval: a nan or inf arises in weft_div: f64 [3] at [2]");
  EXPECT_INT(weft_set(WEFT_CHECK, 3), -1);
  EXPECT_INT(weft_set(WEFT_CHECK, before), 2);
  weft_scope_discard(s);
}

/* x falls by 1 a step; its square root is nan from the step on in which it is below 0. */
static weft_array *falling(weft_array *x, weft_array *steps, bool contracts, bool is_stacked) {
  weft_loop *l = weft_loop_open(steps);
  weft_array *c = weft_loop_carry(l, x), *sum = weft_loop_carry(l, weft_full_like(x, 0));
  weft_array *root = weft_sqrt(c);
  if (contracts) root = weft_add(root, weft_mul(weft_sum(root, -1), weft_scalar(0.5)));
  weft_loop_next(l, c, weft_sub(c, weft_scalar(1)));
  weft_loop_next(l, sum, weft_add(sum, root));
  weft_array *y = is_stacked ? weft_loop_all(l, root) : weft_loop_last(l, sum);
  weft_loop_close(l);
  return y;
}

TEST(a_nan_in_a_loop_names_the_step) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 40, 6, 1000 });
  const char *message = "weft_eval: a nan arises in weft_sqrt: f64 [3] at [1] (step 7 of the loop)";
  for (int k = 0; k < 4; k++) { /* as one kernel and step by step, the last and all */
    EXPECT_NAN(falling(x, weft_integer(100), k & 1, k & 2), message);
    EXPECT_NAN(falling(x, weft_add(i64_of(60), i64_of(40)), k & 1, k & 2), message);
    EXPECT_NO_NAN(falling(x, weft_integer(7), k & 1, k & 2));
  }
  weft_scope_discard(s);
}

TEST(a_nan_in_the_ten_thousandth_step_of_a_scalar_loop_is_found) {
  weft_scope *s = weft_scope_open();
  EXPECT_NAN(falling(f64_of(10000), weft_integer(100000), false, false),
             "weft_eval: a nan arises in weft_sqrt: f64 [] (step 10001 of the loop)");
  weft_scope_discard(s);
}

TEST(a_nan_in_a_sequence_or_a_first_state_is_what_was_given) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, f64s(4, (double[]){ 1, 2, NAN, 4 })), *c = weft_loop_carry(l, f64_of(0));
  weft_loop_next(l, c, weft_add(c, e));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_NAN(y, "weft_eval: a nan is in what was given: f64 [4] at [2]");
  weft_scope_discard(s);
}

/* until(error < tolerance) with an error that is nan runs to its bound. */
TEST(a_nan_in_a_loop_that_until_ends_names_the_step) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(weft_integer(50));
  weft_array *c = weft_loop_carry(l, f64_of(3)), *next = weft_log(c);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_lt(weft_abs(weft_sub(next, c)), weft_scalar(1e-9)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_NAN(y, "weft_eval: a nan arises in weft_log: f64 [] (step 3 of the loop)");
  weft_scope_discard(s);
}

/* Inner: from x in steps of 1 downwards, 4 roots. Outer: x from the inner loop. */
TEST(a_nan_in_a_loop_in_a_loop_names_both_steps) {
  weft_scope *s = weft_scope_open();
  weft_loop *outer = weft_loop_open(weft_integer(10));
  weft_array *x = weft_loop_carry(outer, f64s(2, (double[]){ 100, 13 })), *sum = weft_loop_carry(outer, f64s(2, (double[]){ 0, 0 }));
  weft_loop *inner = weft_loop_open(weft_integer(4));
  weft_array *c = weft_loop_carry(inner, x), *t = weft_loop_carry(inner, sum);
  weft_loop_next(inner, t, weft_add(t, weft_sqrt(c)));
  weft_loop_next(inner, c, weft_sub(c, weft_scalar(1)));
  weft_array *c_last = weft_loop_last(inner, c), *t_last = weft_loop_last(inner, t);
  weft_loop_close(inner);
  weft_loop_next(outer, x, c_last);
  weft_loop_next(outer, sum, t_last);
  weft_array *y = weft_loop_last(outer, sum);
  weft_loop_close(outer);
  EXPECT_NAN(y, "weft_eval: a nan arises in weft_sqrt: f64 [2] at [1] (step 2 of the loop) (step 3 of the loop)");
  weft_scope_discard(s);
}

/* d sqrt(c)/dc is inf where c is 0; times 0 it is nan. */
TEST(a_nan_in_the_gradient_of_a_loop_names_the_step_of_the_way_back) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 3, 50 }), *dx;
  weft_loop *l = weft_loop_open(weft_integer(10));
  weft_array *c = weft_loop_carry(l, x), *sum = weft_loop_carry(l, weft_full_like(x, 0));
  weft_array *zero = weft_mul(c, weft_scalar(0));
  weft_loop_next(l, c, weft_sub(c, weft_scalar(1)));
  weft_loop_next(l, sum, weft_add(sum, weft_sqrt(weft_mul(zero, zero))));
  weft_array *y = weft_loop_last(l, sum);
  weft_loop_close(l);
  EXPECT_NO_NAN(y);
  weft_grad(y, 1, &x, &dx);
  int64_t before = weft_set(WEFT_CHECK, 1);
  EXPECT_INT(weft_eval(1, &dx), WEFT_ERR_NAN);
  EXPECT(strstr(weft_message(), "f64 [2] at [0] (step 0 of the loop, going back)"));
  weft_set(WEFT_CHECK, before);
  weft_scope_discard(s);
}

TEST(a_nan_in_a_map_a_choice_and_a_function_is_found) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 40, 6, 1000 }), *xs = weft_from(WEFT_F64, WEFT_DIMS(2, 3), (double[]){ 9, 9, 9, 9, 4, 9 }), *ys;
  weft_array *y = falling(x, weft_integer(6), false, false);
  weft_map(1, &x, &xs, 1, &y, &ys);
  EXPECT_NAN(ys, "weft_eval: a nan arises in weft_sqrt: f64 [2,3] at [1,1] (step 5 of the loop)");
  weft_cond *choice = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *chosen = weft_cond_value(choice, weft_log(weft_neg(x)), x);
  weft_cond_close(choice);
  EXPECT_NAN(chosen, "weft_eval: a nan arises in weft_log: f64 [3] at [0]");
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = falling(in, weft_integer(50), false, false);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  EXPECT_NAN(y, "weft_eval: a nan arises in weft_sqrt: f64 [3] at [1] (step 7 of the loop)");
  weft_scope_discard(s);
}

TEST(a_scope_with_a_nan_changes_nothing_and_names_itself) {
  weft_scope *outside = weft_scope_open();
  weft_array *w = abc();
  int64_t before = weft_set(WEFT_CHECK, 1);
  weft_scope *s = weft_scope_open();
  weft_update(w, weft_log(w));
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_NAN);
  EXPECT_TEXT(weft_message(), "weft_scope_close: a nan arises in weft_log: f64 [3] at [1]");
  s = weft_scope_open();
  weft_update(w, weft_abs(w));
  EXPECT_OK(weft_scope_close(s));
  weft_set(WEFT_CHECK, before);
  EXPECT_F64(w, 4, 1, 9);
  weft_scope_discard(outside);
}

TEST(what_is_checked_in_the_background_fails_when_it_is_looked_at) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_mul(weft_sqrt(abc()), weft_scalar(3));
  int64_t before = weft_set(WEFT_CHECK, 1);
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_INT(weft_wait(0, NULL, -1), WEFT_ERR_NAN);
  double v[3];
  EXPECT_INT(weft_read(y, WEFT_F64, v, sizeof v), WEFT_ERR_NAN);
  weft_set(WEFT_CHECK, before);
  EXPECT_OK(weft_read(y, WEFT_F64, v, sizeof v));
  weft_scope_discard(s);
}

/* Each value is computed from the one before; what has been checked is forgotten as ever. */
TEST(checking_keeps_no_history) {
  weft_scope *s = weft_scope_open();
  int64_t before = weft_set(WEFT_CHECK, 1), nodes = 0;
  weft_scope *inner = weft_scope_open();
  weft_array *x = weft_own(weft_mul(abc(), weft_scalar(1)));
  weft_scope_discard(inner);
  for (int k = 0; k < 50; k++) {
    inner = weft_scope_open();
    weft_array *y = weft_own(weft_add(x, weft_scalar(k)));
    weft_scope_discard(inner);
    weft_disown(x);
    x = y;
    EXPECT_OK(weft_eval(1, &x));
    if (k == 5) nodes = weft_get(WEFT_NODES);
  }
  EXPECT_INT(weft_get(WEFT_NODES), nodes);
  weft_disown(x);
  weft_set(WEFT_CHECK, before);
  weft_scope_discard(s);
}
