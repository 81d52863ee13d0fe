/* functions.c -- programs kept: sizes bound at the call, calls inside graphs, functions and loops, errors that name sizes. */
#include <math.h>
#include <string.h>
#include "graph/function.h"
#include "op/bins.h"
#include "op/op.h"
#include "op/select.h"
#include "values.h"

/* x -> (x * x + 1, sum of it) for a vector of any size. */
static weft_function *square_and_sum(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_add(weft_mul(x, x), weft_scalar(1));
  return weft_compile(s, 1, &x, 2, (weft_array *[]){ y, weft_sum(y, WEFT_ALL) });
}

TEST(a_function_serves_any_size_and_its_results_have_known_sizes) {
  weft_scope *s = weft_scope_open();
  weft_function *f = square_and_sum();
  int n, m;
  weft_function_arity(f, &n, &m);
  EXPECT_INT(n, 1);
  EXPECT_INT(m, 2);
  for (int size = 1; size < 5; size++) {
    double x[] = { 1, 2, 3, 4 }, want = 0;
    weft_array *in = f64s(size, x), *out[2];
    weft_call(f, 1, &in, 2, out);
    EXPECT_INT(weft_dim(out[0], 0), size);
    EXPECT_TEXT(weft_op(out[0]), "item");
    for (int i = 0; i < size; i++) want += x[i] * x[i] + 1;
    EXPECT_NEAR(one_f64(out[1]), want, 1e-13);
  }
  weft_scope_discard(s);
}

TEST(captured_arrays_keep_the_value_they_had) {
  weft_scope *outer = weft_scope_open();
  weft_array *w = f64s(2, (double[]){ 2, 3 }), *y;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(2));
  y = weft_mul(x, w);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  s = weft_scope_open();
  weft_update(w, weft_mul(w, weft_scalar(10)));
  EXPECT_OK(weft_scope_close(s));
  EXPECT_F64(w, 20, 30);
  weft_array *one = f64s(2, (double[]){ 1, 1 });
  weft_call(f, 1, &one, 1, &y);
  EXPECT_F64(y, 2, 3);
  weft_scope_discard(outer);
}

TEST(any_array_may_be_an_input) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 1, 2 }), *h = weft_mul(x, x), *y = weft_add(weft_exp(h), x);
  weft_function *f = weft_compile(s, 1, &h, 1, &y);
  weft_array *zero = f64s(2, (double[]){ 0, 0 });
  weft_call(f, 1, &zero, 1, &y);
  EXPECT_F64(y, 2, 3);
  weft_scope_discard(outer);
}

TEST(sizes_that_disagree_are_named_by_their_symbol) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, 2)), *b = weft_input(WEFT_F64, WEFT_DIMS(2, WEFT_ANY)), *y = weft_matmul(a, b);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ a, b }, 1, &y);
  weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(3, 4), 1), *out;
  weft_call(f, 2, (weft_array *[]){ x, x }, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_SHAPE);
  EXPECT(strstr(weft_message(), "argument 1") && strstr(weft_message(), "[3,4]"));
  weft_array *v = weft_full(WEFT_F32, WEFT_DIMS(3, 2), 1);
  weft_call(f, 2, (weft_array *[]){ v, x }, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_DTYPE);
  weft_call(f, 1, &x, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_ARG);
  weft_scope_discard(outer);
}

TEST(one_symbol_twice_must_be_one_size) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *b = weft_mul(a, a), *y = weft_add(a, b);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ a, b }, 1, &y);
  weft_array *three = weft_full(WEFT_F64, WEFT_DIMS(3), 1), *four = weft_full(WEFT_F64, WEFT_DIMS(4), 1), *out;
  weft_call(f, 2, (weft_array *[]){ three, four }, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_SHAPE);
  EXPECT(strstr(weft_message(), "the size [n"));
  EXPECT(strstr(weft_message(), "argument 2"));
  weft_scope_discard(outer);
}

/* x, y, w -> (x + y) w, with three sizes that nobody declared equal. */
static weft_function *of_three_sizes(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_array *w = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *z = weft_matmul(weft_add(x, y), w), *g[3];
  weft_grad(z, 3, (weft_array *[]){ x, y, w }, g);
  return weft_compile(s, 3, (weft_array *[]){ x, y, w }, 4, (weft_array *[]){ z, g[0], g[1], g[2] });
}

TEST(sizes_that_met_while_unknown_are_checked_at_the_call) {
  weft_scope *s = weft_scope_open();
  weft_function *f = of_three_sizes();
  double v[] = { 1, 2, 3, 4 }, got[3];
  weft_array *out[4], *in[3] = { f64s(3, v), f64s(3, v), f64s(3, v) };
  weft_call(f, 3, in, 4, out);
  EXPECT_NEAR(one_f64(out[0]), 28, 0);
  EXPECT_OK(weft_read(out[2], WEFT_F64, got, sizeof got));
  EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 3);
  EXPECT_OK(weft_read(out[3], WEFT_F64, got, sizeof got));
  EXPECT(got[0] == 2 && got[1] == 4 && got[2] == 6);
  for (int k = 0; k < 3; k++)
    for (int n = 1; n <= 4; n += 3) { /* a size that is 1 by chance does not stretch */
      weft_array *bad[3] = { in[0], in[1], in[2] };
      bad[k] = f64s(n, v);
      weft_call(f, 3, bad, 4, out);
      EXPECT_INT(weft_eval(1, out), WEFT_ERR_SHAPE);
      EXPECT(strstr(weft_message(), "taken to be equal differ"));
    }
  weft_scope_discard(s);
}

/* Two inputs of open sizes, and what becomes of them. */
static weft_function *of_two_sizes(weft_array *(*body)(weft_array *x, weft_array *y)) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) };
  weft_array *out = body(in[0], in[1]);
  return weft_compile(s, 2, in, 1, &out);
}

static weft_array *number_sum(weft_array *x, weft_array *y) { return weft_iota(weft_add(x, y), 0); }
static weft_array *number_pair(weft_array *x, weft_array *y) {
  return (void)y, weft_iota(weft_window(x, 0, weft_integer(1), 2), 0);
}
static weft_array *number_one(weft_array *x, weft_array *y) {
  return (void)x, weft_iota(weft_at(weft_unsqueeze(y, 1), 0, weft_integer(2)), 0);
}
static weft_array *number_square(weft_array *x, weft_array *y) {
  return (void)y, weft_iota(weft_reshape(x, WEFT_DIMS(2, 2)), 0);
}
static weft_array *number_sum_inside(weft_array *x, weft_array *y) {
  weft_scope *inner = weft_scope_open();
  weft_array *z = weft_keep(number_sum(x, y));
  weft_scope_discard(inner);
  return z;
}
static weft_array *number_sum_by_call(weft_array *x, weft_array *y) {
  weft_function *f = of_two_sizes(number_sum);
  weft_array *z;
  weft_call(f, 2, (weft_array *[]){ x, y }, 1, &z);
  return z;
}

/* x of 4 and y of 3: nothing but the shape of what does not fit is used. */
static void expect_refused(weft_array *(*body)(weft_array *, weft_array *), int n, int m, weft_status want, const char *told) {
  weft_scope *s = weft_scope_open();
  double v[] = { 1, 2, 3, 4 };
  weft_array *in[] = { f64s(n, v), f64s(m, v) }, *out;
  weft_call(of_two_sizes(body), 2, in, 1, &out);
  EXPECT_INT(weft_eval(1, &out), want);
  if (want) EXPECT(strstr(weft_message(), told));
  weft_scope_discard(s);
}

static weft_array *stacked(weft_array *x, weft_array *y) { return weft_sum(weft_stack(0, WEFT_ARRAYS(x, y)), 0); }
static weft_array *side_by_side(weft_array *x, weft_array *y) {
  return weft_sum(weft_concat(0, WEFT_ARRAYS(weft_unsqueeze(x, 0), weft_unsqueeze(y, 0))), 0);
}
static weft_array *chosen_of_two(weft_array *x, weft_array *y) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *z = weft_cond_value(c, weft_add(x, weft_scalar(1)), weft_mul(y, weft_scalar(2)));
  weft_cond_close(c);
  return weft_add(z, y);
}

TEST(whatever_joins_two_arrays_of_open_size_trusts_them_as_arithmetic_does) {
  static const struct { weft_array *(*f)(weft_array *, weft_array *); double want[3]; bool knows; } rows[] = {
    { stacked, { 2, 4, 6 } }, { side_by_side, { 2, 4, 6 } }, { chosen_of_two, { 3, 5, 7 } },
    { stacked, { 2, 4, 6 }, true }, { side_by_side, { 2, 4, 6 }, true }, { chosen_of_two, { 3, 5, 7 }, true },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
    weft_array *in[2] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(rows[i].knows ? 3 : WEFT_ANY)) };
    weft_array *out = rows[i].f(in[0], in[1]), *d;
    weft_grad(out, 1, &in[0], &d);
    weft_function *f = weft_compile(s, 2, in, 2, (weft_array *[]){ out, d });
    double v[] = { 1, 2, 3, 4 }, got[3];
    weft_array *y[2], *given[] = { f64s(3, v), f64s(3, v) }, *apart[] = { f64s(4, v), f64s(3, v) };
    weft_call(f, 2, given, 2, y);
    EXPECT_OK(weft_eval(2, y));
    y[0] = weft_reshape(y[0], WEFT_DIMS(3));
    EXPECT_OK(weft_read(y[0], WEFT_F64, got, sizeof got));
    for (int k = 0; k < 3; k++) EXPECT_NEAR(got[k], rows[i].want[k], 0);
    weft_call(f, 2, apart, 2, y);
    EXPECT_INT(weft_check(y[0]), WEFT_ERR_SHAPE);
    weft_scope_discard(outer);
  }
}

TEST(sizes_taken_on_trust_are_checked_where_only_the_shape_is_used) {
  weft_array *(*sums[])(weft_array *, weft_array *) = { number_sum, number_sum_inside, number_sum_by_call };
  for (int i = 0; i < 3; i++) {
    expect_refused(sums[i], 3, 3, WEFT_OK, "");
    expect_refused(sums[i], 4, 3, WEFT_ERR_SHAPE, "weft_add: sizes that were taken to be equal differ: [4] and [3]");
    expect_refused(sums[i], 1, 3, WEFT_ERR_SHAPE, "taken to be equal differ");
  }
  expect_refused(number_pair, 3, 1, WEFT_OK, "");
  expect_refused(number_pair, 2, 1, WEFT_ERR_INDEX, "weft_window: the bounds do not fit an axis of [2]");
  expect_refused(number_one, 1, 3, WEFT_OK, "");
  expect_refused(number_one, 1, 2, WEFT_ERR_INDEX, "weft_at: the bounds do not fit an axis of [2]");
  expect_refused(number_square, 4, 1, WEFT_OK, "");
  expect_refused(number_square, 3, 1, WEFT_ERR_SHAPE, "weft_reshape: sizes that were taken to be equal differ: [3] and [4]");
}

TEST(a_scope_with_updates_or_fetches_is_no_function) {
  weft_scope *outer = weft_scope_open();
  weft_array *w = f64_of(1), *out;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *y = weft_mul(x, w);
  weft_update(w, weft_add(w, weft_scalar(1)));
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  weft_call(f, 1, &w, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_SCOPE);
  weft_scope_discard(outer);
}

TEST(an_error_in_the_body_makes_the_function_and_its_calls_bad) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(3)), *y = weft_add(x, weft_full(WEFT_F64, WEFT_DIMS(4), 1)), *out;
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  weft_array *in = weft_full(WEFT_F64, WEFT_DIMS(3), 1);
  weft_call(f, 1, &in, 1, &out);
  EXPECT_INT(weft_check(out), WEFT_ERR_SHAPE);
  weft_scope_discard(outer);
}

TEST(functions_outlive_their_scope_while_owned_or_called) {
  weft_scope *outer = weft_scope_open();
  weft_function *f = weft_function_own(square_and_sum());
  weft_scope_discard(outer);
  outer = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 1, 2 }), *out[2];
  weft_call(f, 1, &x, 2, out);
  weft_function_disown(f);
  EXPECT_F64(out[0], 2, 5);
  weft_scope_discard(outer);
}

/* ---- Calls are operations ---- */

static weft_array *called(weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(3)), *q = weft_input(WEFT_F64, WEFT_DIMS(3));
  weft_array *y = weft_mul(weft_tanh(p), weft_exp(weft_mul(q, weft_scalar(0.5)))), *out[2];
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ p, q }, 2, (weft_array *[]){ y, weft_sum(y, 0) });
  weft_call(f, 2, (weft_array *[]){ x, weft_mul(x, x) }, 2, out);
  return weft_mul(out[0], out[1]);
}

static weft_array *called_twice(weft_array *x) { return called(called(x)); }

TEST(derivatives_and_maps_of_calls_are_those_of_the_body) {
  double x[] = { 0.3, -0.7, 1.2 };
  check_function("called", called, 3, x);
  check_function("called_twice", called_twice, 3, x);
}

/* Functions of three arguments that are one array: each path from it counts once, whatever the body is. */

typedef weft_array *(*body_of_three)(weft_array *p, weft_array *q, weft_array *r);

static weft_array *plain(weft_array *p, weft_array *q, weft_array *r) { return weft_mul(weft_tanh(p), weft_add(weft_mul(q, r), q)); }
static weft_array *looped(weft_array *p, weft_array *q, weft_array *r) {
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, r), *y;
  weft_loop_next(l, c, weft_add(weft_mul(weft_tanh(c), p), weft_mul(q, weft_scalar(0.3))));
  y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *looped_over(weft_array *p, weft_array *q, weft_array *r) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, p), *f = weft_loop_each(l, q), *c = weft_loop_carry(l, weft_sum(r, WEFT_ALL)), *y;
  weft_loop_next(l, c, weft_mul(weft_tanh(c), weft_add(e, weft_mul(f, weft_sum(r, WEFT_ALL)))));
  y = weft_loop_all(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *chosen(weft_array *p, weft_array *q, weft_array *r) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(p, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_mul(weft_exp(q), r), weft_mul(p, p));
  weft_cond_close(c);
  return y;
}
static weft_array *checkpointed(weft_array *p, weft_array *q, weft_array *r) {
  weft_array *y = weft_mul(weft_exp(weft_mul(p, weft_scalar(0.5))), weft_mul(weft_tanh(q), r));
  weft_checkpoint(1, &p, 1, &y);
  return y;
}

static weft_array *on_one_array(body_of_three body, weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *in[3], *y;
  for (int k = 0; k < 3; k++) in[k] = weft_input(WEFT_F64, WEFT_DIMS(3));
  y = body(in[0], in[1], in[2]);
  weft_function *f = weft_compile(s, 3, in, 1, &y);
  weft_call(f, 3, (weft_array *[]){ x, x, x }, 1, &y);
  return y;
}

static weft_array *plain_thrice(weft_array *x) { return on_one_array(plain, x); }
static weft_array *looped_thrice(weft_array *x) { return on_one_array(looped, x); }
static weft_array *looped_over_thrice(weft_array *x) { return on_one_array(looped_over, x); }
static weft_array *chosen_thrice(weft_array *x) { return on_one_array(chosen, x); }
static weft_array *checkpointed_thrice(weft_array *x) { return on_one_array(checkpointed, x); }
static weft_array *nested_thrice(weft_array *x) { return plain(looped_thrice(x), plain_thrice(x), plain_thrice(x)); }
static weft_array *of_functions(weft_array *p, weft_array *q, weft_array *r) {
  return weft_add(plain_thrice(weft_add(p, q)), looped_thrice(weft_mul(r, q)));
}
static weft_array *of_functions_thrice(weft_array *x) { return on_one_array(of_functions, x); }

TEST(a_function_given_one_array_for_several_arguments_is_differentiated_once_by_each_path) {
  double x[] = { 0.3, -0.7, 1.2 };
  check_function("plain", plain_thrice, 3, x);
  check_function("looped", looped_thrice, 3, x);
  check_function("looped_over", looped_over_thrice, 3, x);
  check_function("chosen", chosen_thrice, 3, x);
  check_function("checkpointed", checkpointed_thrice, 3, x);
  check_function("nested", nested_thrice, 3, x);
  check_function("of_functions", of_functions_thrice, 3, x);
}

/* A function that multiplies its argument by what it has captured: x, and an expression of x. */
static weft_array *by_captured(weft_array *x, weft_array *argument) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(3)), *y = weft_mul(weft_mul(weft_tanh(p), x), weft_exp(weft_mul(x, weft_scalar(0.5))));
  weft_function *f = weft_compile(s, 1, &p, 1, &y);
  weft_call(f, 1, &argument, 1, &y);
  return y;
}
static weft_array *captured_alone(weft_array *x) { return by_captured(x, weft_full(WEFT_F64, WEFT_DIMS(3), 0.7)); }
static weft_array *captured_and_given(weft_array *x) { return by_captured(x, weft_mul(x, x)); }
static weft_array *captured_twice(weft_array *x) { return by_captured(weft_sin(x), by_captured(x, x)); }
/* What is captured is what a function gave that captured x. */
static weft_array *captured_by_captured(weft_array *x) { return by_captured(captured_alone(x), weft_full(WEFT_F64, WEFT_DIMS(3), 0.4)); }
static weft_array *captured_by_three(weft_array *x) {
  weft_array *y = by_captured(captured_by_captured(x), weft_full(WEFT_F64, WEFT_DIMS(3), 0.3));
  return weft_mul(y, captured_alone(y));
}
static weft_array *captured_in_region(weft_array *x) {
  weft_array *h = weft_full(WEFT_F64, WEFT_DIMS(3), 0.4), *y = weft_mul(by_captured(x, h), h);
  weft_checkpoint(1, &h, 1, &y);
  return y;
}
/* One y of the region is not made of its x, and what is captured is made of that y. */
static weft_array *captured_beside_region(weft_array *x) {
  weft_array *h = weft_full(WEFT_F64, WEFT_DIMS(3), 0.4), *e = weft_sin(weft_mul(x, x));
  weft_array *y[] = { e, weft_mul(by_captured(weft_tanh(e), h), h) };
  weft_checkpoint(1, &h, 2, y);
  return weft_add(y[0], y[1]);
}
static weft_array *captured_in_side(weft_array *x) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, by_captured(x, x), captured_alone(x));
  weft_cond_close(c);
  return y;
}

TEST(what_a_function_has_captured_is_differentiated_and_mapped_too) {
  double x[] = { 0.3, -0.7, 1.2 };
  check_function("alone", captured_alone, 3, x);
  check_function("and given", captured_and_given, 3, x);
  check_function("twice", captured_twice, 3, x);
  check_function("by one who captured it", captured_by_captured, 3, x);
  check_function("by a third", captured_by_three, 3, x);
  check_function("in a region", captured_in_region, 3, x);
  check_function("beside a region", captured_beside_region, 3, x);
  check_function("in a side", captured_in_side, 3, x);
}

TEST(a_derivative_by_the_result_of_a_call_and_by_what_its_function_has_captured) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 0.3, -0.7, 1.2 }), *p, *y, *h, *d[2];
  weft_scope *body = weft_scope_open();
  p = weft_input(WEFT_F64, WEFT_DIMS(3)), y = weft_mul(p, x);
  weft_function *f = weft_compile(body, 1, &p, 1, &y);
  weft_call(f, 1, &x, 1, &h);
  weft_vjp(1, (weft_array *[]){ weft_mul(h, h) }, (weft_array *[]){ weft_full(WEFT_F64, WEFT_DIMS(3), 1) }, 2,
           (weft_array *[]){ x, h }, d);
  EXPECT_F64(d[0], 4 * 0.3 * 0.3 * 0.3, -4 * 0.7 * 0.7 * 0.7, 4 * 1.2 * 1.2 * 1.2);
  EXPECT_F64(d[1], 2 * 0.3 * 0.3, 2 * 0.7 * 0.7, 2 * 1.2 * 1.2);
  weft_scope_discard(s);
}

TEST(functions_call_functions) {
  weft_scope *outer = weft_scope_open();
  weft_function *f = square_and_sum();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y[2], *z[2];
  weft_call(f, 1, &x, 2, y);
  weft_call(f, 1, &y[0], 2, z);
  weft_function *g = weft_compile(s, 1, &x, 1, &z[1]);
  EXPECT_INT(g->out[0]->op->kind != OP_ITEM, 1);
  weft_array *in = f64s(2, (double[]){ 1, 2 }), *out;
  weft_call(g, 1, &in, 1, &out);
  EXPECT_F64(out, 5 + 26);
  weft_scope_discard(outer);
}

/* captured_by_three has calls that captured what calls gave: no call may be left in what a function, a loop or a side is made of. */
static weft_array *called_by_three(weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(3)), *y = captured_by_three(p);
  weft_function *f = weft_compile(s, 1, &p, 1, &y);
  weft_call(f, 1, &x, 1, &y);
  return y;
}
static weft_array *looped_by_three(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, captured_by_three(c));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *chosen_by_three(weft_array *x) {
  weft_cond *c = weft_cond_open(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, captured_by_three(x), captured_by_captured(x));
  weft_cond_close(c);
  return y;
}

TEST(what_functions_captured_of_each_other_is_expanded_in_functions_loops_and_sides) {
  double x[] = { 0.9, -0.7, 1.2 };
  check_function("function", called_by_three, 3, x);
  check_function("loop", looped_by_three, 3, x);
  check_function("side", chosen_by_three, 3, x);
  weft_scope *s = weft_scope_open();
  weft_array *in = f64s(3, x), *y = captured_by_three(in), *z = called_by_three(in);
  double a[3], b[3];
  EXPECT_INT(weft_read(y, WEFT_F64, a, sizeof a), WEFT_OK);
  EXPECT_INT(weft_read(z, WEFT_F64, b, sizeof b), WEFT_OK);
  for (int k = 0; k < 3; k++) EXPECT(a[k] == b[k]);
  weft_scope_discard(s);
}

TEST(calls_are_expanded_once_each_and_share_what_does_not_depend_on_them) {
  weft_scope *outer = weft_scope_open();
  weft_function *f = square_and_sum();
  weft_array *x = f64s(2, (double[]){ 1, 2 }), *a[2], *b[2];
  weft_call(f, 1, &x, 2, a);
  weft_call(f, 1, &a[0], 2, b);
  struct node *out[2] = { node_retain(weft_add(b[1], a[1])->node), node_retain(x->node) };
  EXPECT(!expand_calls_since(0, 2, out));
  struct node_list l = { 0 };
  graph_lock();
  EXPECT(walk(&l, 1, out, NULL));
  graph_unlock();
  for (int i = 0; i < l.n; i++) EXPECT(l.node[i]->op != &op_call && l.node[i]->op != &op_item);
  EXPECT(out[1] == x->node);
  node_list_free(&l);
  nodes_release(2, out);
  weft_scope_discard(outer);
}

TEST(a_long_chain_of_calls_is_expanded_without_recursion) {
  test_watchdog(120);
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *y = weft_mul(x, x);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  y = f64_of(1);
  for (int i = 0; i < 100000; i++) weft_call(f, 1, &y, 1, &y);
  struct node *out = node_retain(y->node);
  EXPECT(!expand_calls_since(0, 1, &out));
  node_release(out);
  weft_scope_discard(outer);
}

/* ---- Substitution ---- */

static struct node *substituted(weft_array *y, weft_array *from, weft_array *to, struct failure **why) {
  struct node *out = NULL;
  return graph_substitute(1, &from->node, &to->node, 1, &y->node, &out, why) ? out : NULL;
}

TEST(substitution_shares_what_does_not_depend_on_the_replaced_node) {
  weft_scope *s = weft_scope_open();
  weft_array *w = weft_exp(weft_full(WEFT_F64, WEFT_DIMS(2), 3)), *x = f64s(2, (double[]){ 1, 2 }), *z = f64s(2, (double[]){ 5, 6 });
  weft_array *y = weft_add(weft_mul(x, w), w);
  struct failure *why = NULL;
  struct node *out = substituted(y, x, z, &why);
  EXPECT(out && out->in[1] == w->node && out->in[0]->in[1] == w->node && out->in[0]->in[0] == z->node);
  EXPECT_F64(array_of(out), 6 * exp(3), 7 * exp(3));
  out = substituted(w, x, z, &why);
  EXPECT(out == w->node);
  node_release(out);
  weft_scope_discard(s);
}

TEST(substitution_by_another_size_infers_the_rest_again) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 1, 2, 3 }), *longer = f64s(5, (double[]){ 1, 2, 3, 4, 5 });
  weft_array *y = weft_sum(weft_mul(x, x), 0);
  struct failure *why = NULL;
  struct node *out = substituted(y, x, longer, &why);
  EXPECT(out != NULL);
  if (out) EXPECT_F64(array_of(out), 55);
  weft_array *fixed = weft_add(x, f64s(3, (double[]){ 1, 1, 1 }));
  EXPECT(!substituted(fixed, x, longer, &why));
  EXPECT_INT(failure_status(why), WEFT_ERR_SHAPE);
  failure_release(why);
  weft_scope_discard(s);
}

/* As where the argument of a call is made of a loop whose copy tells its length anew. */
TEST(substitution_by_another_size_takes_a_call_along) {
  for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
    weft_scope *s = weft_scope_open(), *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(is_fixed ? 2 : WEFT_ANY, 1)), *y = weft_mul(in, weft_scalar(10));
    weft_function *f = weft_compile(body, 1, &in, 1, &y);
    weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(2, 1), (double[]){ 1, 2 }), *rows = rows_below_three(f64s(1, (double[]){ is_fixed ? 1.5 : 1 }));
    weft_call(f, 1, &x, 1, &y);
    struct failure *why = NULL;
    struct node *out = substituted(weft_sum(y, 0), x, rows, &why);
    EXPECT(out != NULL);
    failure_release(why);
    if (out) EXPECT_F64(array_of(out), is_fixed ? 22.5 + 33.75 : 15 + 22.5 + 33.75);
    weft_scope_discard(s);
  }
}

TEST(substitution_by_another_size_takes_a_checkpoint_and_own_rules_along) {
  for (int is_custom = 0; is_custom < 2; is_custom++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(2, (double[]){ 1, 2 }), *longer = f64s(3, (double[]){ 1, 2, 3 }), *y = weft_mul(x, x);
    if (is_custom) weft_custom(1, &x, 1, &y, NULL);
    else weft_checkpoint(1, &x, 1, &y);
    struct failure *why = NULL;
    struct node *out = substituted(weft_sum(y, 0), x, longer, &why);
    EXPECT(out != NULL);
    if (out) EXPECT_F64(array_of(out), 14);
    failure_release(why);
    weft_scope_discard(s);
  }
}

/* Steps of libraries: what they compute of more rows and of longer ones is what they compute of these at once. */
static weft_array *sorted(weft_array *x) { return weft_sort(x, -1); }
static weft_array *order(weft_array *x) { return weft_argsort(x, -1); }
static weft_array *top(weft_array *x) {
  weft_array *y[2];
  return array_select(x, &(struct select_attr){ 1, -2, 1, 2 }, y), y[0];
}
static weft_array *bins(weft_array *x) { return array_bins(x, weft_sort(x, -1), BINS_OF_EDGES); }
static weft_array *factor(weft_array *x) { return weft_cholesky(weft_matmul(x, weft_moveaxis(x, -1, -2))); }
static weft_array *solved(weft_array *x) { return weft_solve(weft_matmul(x, weft_moveaxis(x, -1, -2)), x); }
static weft_array *inverted(weft_array *x) { return weft_inverse(weft_matmul(x, weft_moveaxis(x, -1, -2))); }

TEST(steps_of_libraries_are_inferred_again_for_other_sizes) {
  static weft_array *(*const body[])(weft_array *) = { sorted, order, top, bins, factor, solved, inverted };
  weft_scope *s = weft_scope_open();
  double v[30], got[36], want[36];
  for (int i = 0; i < 30; i++) v[i] = sin(3. * i * i);
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(1, 2, 3), v), *other = weft_from(WEFT_F64, WEFT_DIMS(2, 3, 5), v);
  for (size_t i = 0; i < sizeof body / sizeof *body; i++) {
    struct failure *why = NULL;
    struct node *out = substituted(body[i](x), x, other, &why);
    weft_array *plain = weft_cast(body[i](other), WEFT_F64), *y = out ? weft_cast(array_of(out), WEFT_F64) : NULL;
    EXPECT(out && !why);
    if (!out) { failure_release(why); continue; }
    size_t bytes = sizeof *want;
    EXPECT_INT(weft_rank(y), weft_rank(plain));
    for (int k = 0; k < weft_rank(plain); k++) {
      EXPECT_INT(weft_dim(y, k), weft_dim(plain, k));
      bytes *= (size_t)weft_dim(plain, k);
    }
    EXPECT_OK(weft_read(plain, WEFT_F64, want, bytes));
    EXPECT_OK(weft_read(y, WEFT_F64, got, bytes));
    EXPECT(!memcmp(got, want, bytes));
  }
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(1, 2, 2), (double[]){ 2, 1, 1, 3 }), *b = weft_from(WEFT_F64, WEFT_DIMS(1, 2, 1), v);
  struct failure *why = NULL; /* as many problems of each */
  EXPECT(!substituted(weft_solve_triangular(a, b, 0, 0), a, weft_from(WEFT_F64, WEFT_DIMS(3, 2, 2), v), &why));
  EXPECT_INT(failure_status(why), WEFT_ERR_SHAPE);
  failure_release(why);
  weft_scope_discard(s);
}

TEST(two_calls_of_one_function_have_lengths_of_their_own) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL);
  weft_loop *loop = weft_loop_open(weft_integer(100));
  weft_array *c = weft_loop_carry(loop, x), *next = weft_mul(c, weft_scalar(2));
  weft_loop_next(loop, c, next);
  weft_loop_until(loop, weft_gt(next, weft_scalar(10)));
  weft_array *all = weft_loop_all(loop, next), *out[2];
  weft_loop_close(loop);
  weft_function *f = weft_compile(s, 1, &x, 1, &all);
  weft_array *one = f64_of(1), *four = f64_of(4);
  weft_call(f, 1, &one, 1, &out[0]);
  weft_call(f, 1, &four, 1, &out[1]);
  EXPECT(out[0]->node->dims[0] < 0 && out[1]->node->dims[0] < 0);
  EXPECT(out[0]->node->dims[0] != out[1]->node->dims[0]);
  EXPECT_F64(out[0], 2, 4, 8, 16);
  EXPECT_F64(out[1], 8, 16);
  weft_scope_discard(outer);
}

/* i^2 + c, with i as long as the input and c of known length, depends on no value of the input. */
TEST(what_depends_on_open_sizes_alone_is_computed_at_the_call) {
  weft_scope *s = weft_scope_open();
  weft_array *c = f64s(3, (double[]){ 1, 2, 3 }), *in = f64s(3, (double[]){ 10, 20, 30 }), *out;
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *i = weft_iota(x, 0);
  weft_array *y = weft_add(weft_add(weft_mul(i, i), c), x);
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  weft_call(f, 1, &in, 1, &out);
  EXPECT_F64(out, 11, 23, 37);
  weft_scope_discard(s);
}

TEST(a_function_shows_the_plans_of_its_calls) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY)), *y = weft_exp(x), *out;
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  weft_array *in = weft_full(WEFT_F32, WEFT_DIMS(3), 0);
  EXPECT(strstr(weft_function_show(f, "graph"), "exp("));
  EXPECT_TEXT(weft_function_show(f, "kernels"), "");
  weft_call(f, 1, &in, 1, &out);
  EXPECT_OK(weft_eval(1, &out));
  EXPECT(strstr(weft_function_show(f, "kernels"), "kernel "));
  EXPECT(strstr(weft_function_show(f, "plan"), "1 steps"));
  EXPECT_TEXT(weft_function_show(f, "value"), "weft_function_show: \"value\" is none of graph, dot, plan, kernels, asm, ptx");
  weft_scope_discard(s);
}

/* How often a function's loop runs may depend on values: its body is then evaluated part by part. */
TEST(a_function_may_contain_a_loop_whose_steps_depend_on_values) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *n = weft_cast(weft_sum(x, WEFT_ALL), WEFT_I64);
  weft_loop *l = weft_loop_open(n);
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_mul(c, weft_scalar(2)));
  weft_array *all = weft_loop_all(l, c), *out[2] = { weft_loop_last(l, c), NULL }, *y[2];
  weft_loop_close(l);
  out[1] = weft_sum(all, WEFT_ALL);
  weft_function *f = weft_compile(body, 1, &x, 2, out);
  for (int k = 0; k < 3; k++) {
    weft_array *in = f64s(2, (double[]){ 1, k });
    weft_call(f, 1, &in, 2, y);
    EXPECT_F64(y[0], 2 << k, k * (2 << k));
    EXPECT_F64(y[1], (1 + k) * ((2 << k) - 1));
  }
  EXPECT_TEXT(weft_function_show(f, "kernels"), "");
  weft_scope_discard(s);
}

/* The loop depends on no input: it runs once, before a call is planned, and tells the size of everything behind it. */
TEST(a_call_behind_a_loop_that_until_ends_is_planned_with_the_length_it_had) {
  for (int every = 0; every < 3; every++) {
    weft_scope *s = weft_scope_open();
    weft_array *in = f64_of(3), *out[2];
    weft_scope *body = weft_scope_open();
    weft_array *x = weft_input(WEFT_F64, 0, NULL);
    weft_loop *l = weft_loop_open(NULL);
    weft_array *e = weft_loop_each(l, f64s(4, (double[]){ 3, 3, 12, 4 }));
    weft_loop_until(l, weft_ge(e, weft_scalar(12)));
    if (every) weft_loop_recompute(l, every);
    weft_array *all = weft_loop_all(l, e);
    weft_loop_close(l);
    weft_array *product = weft_mul(all, x), *y[2] = { NULL, weft_softmax(all, -1) };
    y[0] = weft_sqrt(product);
    weft_function *f = weft_compile(body, 1, &x, 2, y);
    for (int times = 0; times < 2; times++) {
      weft_call(f, 1, &in, 2, out);
      EXPECT_OK(weft_eval(2, out));
      EXPECT_F64(out[0], 3, 3, 6);
      EXPECT_NEAR(one_f64(weft_max(out[1], -1)), 1 / (1 + 2 * exp(-9)), 1e-15);
    }
    weft_scope_discard(s);
  }
}
