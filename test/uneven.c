/* uneven.c -- loops that make another number of steps in each row of a map, or in each step of a loop around, and what
 * depends on how many they made. */
#include <string.h>
#include "values.h"

/* x doubled until it is above 10, at most 40 times: its slope says how often. */
static weft_array *doubling(weft_array *x, bool keeps_all) {
  weft_loop *l = weft_loop_open(weft_integer(40));
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, weft_scalar(2));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(10)));
  weft_array *y = keeps_all ? weft_loop_all(l, next) : weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *doubled(weft_array *x) { return doubling(x, false); }
static weft_array *doublings(weft_array *x) { return doubling(x, true); }
static weft_array *slope(weft_array *y, weft_array *x) {
  weft_array *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}
static weft_array *mapped(weft_array *x, weft_array *xs, weft_array *y) {
  weft_array *ys;
  weft_map(1, &x, &xs, 1, &y, &ys);
  return ys;
}

static const double START[] = { 1, 6, 0.03, 2.6 };

TEST(the_mean_of_rows_kept_until_a_condition_counts_the_steps_made) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(weft_mean(doublings(f64_of(1)), WEFT_ALL), (2 + 4 + 8 + 16) / 4.0);
  weft_scope_discard(s);
}

TEST(gradients_are_mapped_over_rows_that_stop_at_different_steps) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *xs = f64s(4, START);
  EXPECT_F64(mapped(x, xs, slope(doubled(x), x)), 16, 2, 512, 4);
  EXPECT_F64(mapped(x, xs, slope(weft_sum(doublings(x), WEFT_ALL), x)), 30, 2, 1022, 6);
  EXPECT_F64(mapped(x, xs, weft_mean(doublings(x), WEFT_ALL)), 7.5, 12, 0.03 * 1022 / 9, 2.6 * 3);
  weft_array *none = mapped(x, weft_slice(xs, 0, 0, 0, 1), slope(doubled(x), x));
  EXPECT_OK(weft_eval(1, &none));
  EXPECT_INT(weft_dim(none, 0), 0);
  weft_scope_discard(s);
}

/* y <- doubled(e) - y, and all y */
static weft_array *whiles_in_a_scan(weft_array *xs, weft_array **last) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, xs), *c = weft_loop_carry(l, f64_of(0));
  weft_array *next = weft_sub(doubled(e), c);
  weft_loop_next(l, c, next);
  weft_array *all = weft_loop_all(l, next);
  if (last) *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return all;
}

TEST(a_bounded_while_inside_a_scan_is_differentiated_in_reverse) {
  weft_scope *s = weft_scope_open();
  weft_array *xs = f64s(4, START), *last;
  whiles_in_a_scan(xs, &last);
  EXPECT_F64(slope(last, xs), -16, 2, -512, 4);
  weft_array *rows = weft_stack(0, WEFT_ARRAYS(xs, weft_flip(xs, 0)));
  EXPECT_F64(mapped(xs, rows, slope(last, xs)), -16, 2, -512, 4, -4, 512, -2, 16);
  weft_scope_discard(s);
}

TEST(a_function_with_lengths_that_differ_from_step_to_step_serves_any_values) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *xs = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *last;
  whiles_in_a_scan(xs, &last);
  weft_array *y = slope(last, xs);
  weft_function *f = weft_compile(s, 1, &xs, 1, &y);
  weft_array *x = f64s(4, START);
  for (int64_t n = 1; n <= 4; n++) {
    weft_array *part = weft_slice(x, 0, 4 - n, 4, 1), *dx;
    weft_call(f, 1, &part, 1, &dx);
    double want[] = { -16, 2, -512, 4 }, got[4];
    if (read_f64(dx, (int)n, got)) EXPECT(!memcmp(got, want + 4 - n, (size_t)n * sizeof *got));
  }
  weft_scope_discard(outer);
}

TEST(rows_of_different_lengths_are_no_array) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *xs = f64s(4, START);
  EXPECT_INT(weft_check(mapped(x, xs, doublings(x))), WEFT_ERR_SHAPE);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, xs), *all = weft_loop_all(l, doublings(e));
  weft_loop_close(l);
  EXPECT_INT(weft_check(all), WEFT_ERR_SHAPE);
  EXPECT(strstr(weft_message(), "it cannot be carried or stacked"));
  weft_scope_discard(s);
}

TEST(what_has_the_length_of_one_run_is_not_mapped) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *xs = f64s(4, START), *all = doublings(x);
  weft_array *y = slope(doubled(x), x), *z = slope(weft_sum(weft_mul(all, all), WEFT_ALL), x);
  EXPECT_F64(y, 4);
  EXPECT_F64(mapped(x, xs, y), 16, 2, 512, 4); /* nothing in it has that length */
  EXPECT_F64(z, 2 * 3 * (4 + 16));
  EXPECT_INT(weft_check(mapped(x, xs, z)), WEFT_ERR_NO_HISTORY);
  weft_scope_discard(s);
}

/* The index is the number of steps that the loop inside has made. */
TEST(a_failing_step_of_a_loop_with_lengths_that_differ_is_named) {
  weft_scope *s = weft_scope_open();
  weft_array *xs = f64s(4, START), *table = f64s(6, (double[]){ 0, 1, 2, 3, 4, 5 });
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, xs), *y = weft_loop_all(l, weft_at(table, 0, weft_size(doublings(e), 0)));
  weft_loop_close(l);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT(strstr(weft_message(), "(step 2 of the loop)"));
  weft_scope_discard(s);
}

TEST(a_loop_with_lengths_that_differ_can_be_stopped) {
  static volatile int flag = 1;
  weft_scope *s = weft_scope_open();
  weft_array *xs = f64s(4, START), *last;
  whiles_in_a_scan(xs, &last);
  weft_array *y = slope(last, xs);
  weft_cancel_when(&flag);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_F64(y, -16, 2, -512, 4);
  weft_scope_discard(s);
}

/* Complex numbers, no steps, steps that only the run tells. */
TEST(lengths_that_differ_go_with_whatever_loops_are) {
  weft_scope *s = weft_scope_open();
  weft_array *xs = f64s(4, START);
  for (int64_t n = 0; n <= 4; n++) {
    weft_loop *l = weft_loop_open(weft_add(i64_of(n), i64_of(0)));
    weft_array *e = weft_loop_each(l, xs), *c = weft_loop_carry(l, weft_cast(f64_of(1), WEFT_C128));
    weft_array *z = weft_mul(c, weft_complex(weft_cast(weft_size(doublings(e), 0), WEFT_F64), f64_of(1)));
    weft_loop_next(l, c, z);
    weft_array *last = weft_loop_last(l, c), *all = weft_loop_all(l, z);
    weft_loop_close(l);
    static const double want[5][2] = { { 1, 0 }, { 4, 1 }, { 3, 5 }, { 22, 48 }, { -4, 118 } };
    EXPECT_F64(weft_real(last), want[n][0]);
    EXPECT_F64(weft_imag(last), want[n][1]);
    EXPECT_F64(weft_cast(weft_size(all, 0), WEFT_F64), (double)n);
  }
  weft_scope_discard(s);
}

/* A loop over rows that does not look at them has no input left, and still as many steps as there are rows. */
static weft_array *rows_nobody_reads(weft_array *x) {
  weft_loop *outer = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(outer, x);
  weft_array *rows = rows_below_three(c);
  weft_loop *blind = weft_loop_open(NULL);
  weft_loop_each(blind, rows);
  weft_array *t = weft_loop_carry(blind, f64_of(0.25));
  weft_loop_next(blind, t, weft_add(t, weft_scalar(0.1)));
  weft_array *times = weft_loop_all(blind, t);
  weft_loop_close(blind);
  weft_loop *empty = weft_loop_open(NULL);
  weft_loop_each(empty, rows);
  weft_array *halves = weft_loop_all(empty, weft_cast(weft_scalar(0.5), WEFT_F64));
  weft_loop_close(empty);
  weft_array *sum = weft_squeeze(weft_sum(weft_mul(rows, weft_unsqueeze(weft_mul(times, halves), 1)), 0), 0);
  weft_loop_next(outer, c, weft_sin(weft_mul(sum, weft_scalar(0.1))));
  weft_array *y = weft_loop_last(outer, c);
  weft_loop_close(outer);
  return y;
}

TEST(a_loop_with_as_many_steps_as_another_and_no_input_is_part_of_its_step) {
  const double x[] = { 0.3, 0.4, 0.6 };
  check_function("rows nobody reads", rows_nobody_reads, 3, x);
}

/* v doubled until it is 3 or more, while r is multiplied by what v was: 2^n v and 2^(n(n-1)/2) v^n r after n steps. In a map over r
 * the first is the same in every row, so there are two loops of one length; the reverse of one tells it before anybody has asked
 * how many steps the other makes. */
static weft_array *doubled_beside(weft_array *v, weft_array *rs, bool is_bounded) {
  weft_array *r = weft_input(WEFT_F64, 0, NULL), *most = weft_integer(7), *ys[2];
  if (!is_bounded) most = weft_where(weft_lt(v, weft_scalar(3)), most, weft_integer(0));
  weft_loop *l = weft_loop_open(most);
  weft_array *a = weft_loop_carry(l, v), *b = weft_loop_carry(l, r), *next = weft_add(a, a);
  weft_loop_next(l, a, next);
  weft_loop_next(l, b, weft_mul(b, a));
  weft_loop_until(l, weft_ge(next, weft_scalar(3)));
  weft_array *y[2] = { weft_loop_last(l, a), weft_loop_last(l, b) };
  weft_loop_close(l);
  weft_map(1, &r, &rs, 2, y, ys);
  return weft_sum(weft_mul(ys[0], ys[1]), WEFT_ALL); /* 2^(n(n+1)/2) v^(n+1) sum(r) */
}

static void expect_slopes(int n, double v, weft_array *y, weft_array *dv, weft_array *drs, weft_array *ddv) {
  double scale = pow(2, n * (n + 1) / 2), sum = 1 + 6 + 0.03 + 2.6, dr = scale * pow(v, n + 1);
  EXPECT_F64(y, dr * sum);
  EXPECT_F64(dv, scale * (n + 1) * pow(v, n) * sum);
  EXPECT_F64(drs, dr, dr, dr, dr);
  EXPECT_F64(ddv, n ? scale * (n + 1) * n * pow(v, n - 1) * sum : 0);
}

TEST(loops_of_one_length_that_a_map_has_made_of_one_are_differentiated) {
  for (int how = 0; how < 2 * 3 * 16; how++) {
    weft_scope *s = weft_scope_open();
    bool is_bounded = how % 2;
    int first = how / 6, n = how / 2 % 3;
    double start[] = { 4, 1.75, 0.5 }, at = is_bounded && !n ? 2 : start[n]; /* a bounded one makes a step in any case */
    weft_array *v = f64_of(at), *rs = f64s(4, START), *y = doubled_beside(v, rs, is_bounded), *dv = slope(y, v);
    weft_array *drs = slope(y, rs), *ddv = slope(dv, v), *all[] = { y, dv, drs, ddv };
    for (int k = 0; k < 4; k++) if (first >> k & 1) EXPECT_OK(weft_eval(1, &all[k]));
    int steps = n == 2 ? 3 : n == 1 || is_bounded ? 1 : 0;
    expect_slopes(steps, at, y, dv, drs, ddv);
    weft_scope_discard(s);
  }
}

TEST(a_function_with_such_slopes_serves_any_values) {
  weft_scope *outer = weft_scope_open();
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, 0, NULL), weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) }, *out[4], *y[4];
  out[0] = doubled_beside(in[0], in[1], false);
  weft_grad(out[0], 2, in, &out[1]);
  out[3] = slope(out[1], in[0]);
  weft_function *f = weft_compile(s, 2, in, 4, out);
  static const double start[] = { 4, 1.75, 0.5, 4, 0.9, 0.3 };
  static const int steps[] = { 0, 1, 3, 0, 2, 4 };
  for (int k = 0; k < 6; k++) {
    weft_call(f, 2, (weft_array *[]){ f64_of(start[k]), f64s(4, START) }, 4, y);
    expect_slopes(steps[k], start[k], y[0], y[1], y[2], y[3]);
  }
  weft_scope_discard(outer);
}
