/* tails.c -- weft_loop_tail: outputs of the last steps are rows of those of all, in less memory. */
#include <string.h>
#include "graph/function.h"
#include "values.h"

enum { ROWS = 7 };
static const double POINT[] = { 0.3, -0.8, 0.5, 1.1, -0.2, 0.7, 0.9 };

enum how { ALL, TAIL };
static enum how how;        /* whether the functions below stack all rows and slice them, or ask for the last */
static bool is_short, is_late, has_until, has_two, recomputes, truncates, has_all;

static weft_array *late(int64_t n) { return weft_add(i64_of(n - 1), i64_of(1)); }

static weft_array *tail(weft_loop *l, weft_array *y, int64_t k) {
  return how == TAIL ? weft_loop_tail(l, y, k) : weft_loop_all(l, y);
}

static weft_array *cut(weft_array *y, int64_t n, int64_t k) {
  return how == TAIL || n <= k ? y : weft_slice(y, 0, n - k, n, 1);
}

/* c' = tanh(c x_t) + 0.5 x_t, d' = d + c x_t; rows of c' and of c d. */
static weft_array *recurrence(weft_array *x) {
  int64_t n = is_short ? 2 : has_until ? 5 : ROWS, k = 3, k2 = has_two ? 2 : 3;
  weft_loop *l = weft_loop_open(is_late ? late(is_short ? 2 : ROWS) : is_short ? weft_integer(2) : NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, f64_of(0.4)), *d = weft_loop_carry(l, weft_at(x, 0, i64_of(1)));
  weft_array *t = weft_loop_carry(l, i64_of(0));
  weft_array *next = weft_add(weft_tanh(weft_mul(c, e)), weft_mul(weft_scalar(0.5), e));
  weft_loop_next(l, c, next);
  weft_loop_next(l, d, weft_add(d, weft_mul(c, e)));
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  if (has_until) weft_loop_until(l, weft_ge(t, weft_integer(4)));
  if (recomputes) weft_loop_recompute(l, 2);
  if (truncates) weft_loop_truncate(l, 2);
  weft_array *all = has_all ? weft_loop_all(l, weft_mul(next, d)) : NULL;
  weft_array *a = tail(l, next, k), *b = tail(l, weft_mul(c, d), k2), *last = weft_loop_last(l, d);
  weft_loop_close(l);
  if (how == ALL && has_until) a = weft_slice(a, 0, 0, 5, 1), b = weft_slice(b, 0, 0, 5, 1);
  a = cut(a, n, k), b = cut(b, n, k2);
  weft_array *y = weft_concat(0, WEFT_ARRAYS(a, b, weft_unsqueeze(last, 0)));
  return all ? weft_concat(0, WEFT_ARRAYS(y, all)) : y;
}

static void same_bits(const char *what, weft_array *a, weft_array *b) {
  double x[64], y[64];
  int64_t n = weft_dim(a, 0);
  if (weft_rank(a) == 2) n *= weft_dim(a, 1);
  if (n < 0 || n > 64) { test_fail(__FILE__, __LINE__, "%s: %lld numbers: %s", what, (long long)n, weft_message()); return; }
  if (read_f64(a, (int)n, x) && read_f64(b, (int)n, y) && memcmp(x, y, (size_t)n * sizeof *x))
    test_fail(__FILE__, __LINE__, "%s: other bits", what);
}

static void near_all(const char *what, weft_array *a, weft_array *b) {
  double x[64], y[64];
  int64_t n = weft_dim(a, 0);
  if (n < 0 || n > 64) { test_fail(__FILE__, __LINE__, "%s: %lld numbers: %s", what, (long long)n, weft_message()); return; }
  if (read_f64(a, (int)n, x) && read_f64(b, (int)n, y))
    for (int i = 0; i < n; i++)
      if (!near(x[i], y[i], 1e-13)) test_fail(__FILE__, __LINE__, "%s[%d]: %.17g, not %.17g", what, i, y[i], x[i]);
}

struct results { weft_array *y, *dx, *dy, *ys; };

static struct results results(array_function f, enum how h) {
  struct results r;
  how = h;
  weft_array *x = f64s(ROWS, POINT), *w = f64s(ROWS, (double[]){ 1, 2, -1, 0.5, 0.25, 3, -2 });
  r.y = f(x);
  weft_array *weighted = weft_mul(r.y, weft_add(weft_iota(r.y, 0), weft_scalar(1)));
  weft_grad(weighted, 1, &x, &r.dx);
  weft_jvp(1, &x, &w, 1, &r.y, &r.dy);
  weft_array *xs = weft_stack(0, WEFT_ARRAYS(x, w, weft_flip(x, 0)));
  weft_map(1, &x, &xs, 1, &r.y, &r.ys);
  return r;
}

static void check(const char *name, array_function f) {
  weft_scope *s = weft_scope_open();
  struct results a = results(f, ALL), b = results(f, TAIL);
  same_bits(name, a.y, b.y);
  near_all(name, a.dx, b.dx); /* of parameters: phases are summed one after the other */
  same_bits(name, a.dy, b.dy);
  same_bits(name, a.ys, b.ys);
  weft_scope_discard(s);
}

TEST(the_last_rows_are_those_of_all) { check("last 3 of 7", recurrence); }
TEST(fewer_steps_than_rows_give_all_of_them) { is_short = true; check("last 3 of 2", recurrence); }
TEST(the_last_rows_of_a_number_of_steps_known_when_it_runs) { is_late = true; check("of 7, late", recurrence); }
TEST(fewer_steps_than_rows_known_when_it_runs) { is_late = is_short = true; check("of 2, late", recurrence); }
TEST(outputs_may_ask_for_different_numbers_of_rows) { has_two = true; check("last 3, last 2", recurrence); }
TEST(different_numbers_of_rows_of_steps_known_when_it_runs) { has_two = is_late = true; check("last 3, last 2, late", recurrence); }
TEST(all_rows_and_the_last_stand_beside_each_other) { has_all = has_two = true; check("all, last 3, last 2", recurrence); }
TEST(the_last_rows_before_until_ends_the_loop) { has_until = true; check("until", recurrence); }
TEST(the_last_rows_of_a_loop_that_recomputes) { recomputes = true; check("recomputes", recurrence); }
TEST(the_last_rows_of_a_gradient_that_is_truncated) { truncates = has_two = has_all = true; check("truncated", recurrence); }
TEST(the_last_rows_of_a_late_gradient_that_is_truncated) { truncates = is_late = has_all = true; check("truncated, late", recurrence); }

/* No carries at all. */
static weft_array *stateless(weft_array *x) {
  weft_loop *l = weft_loop_open(is_late ? late(6) : weft_integer(6));
  weft_array *e = weft_loop_each(l, x), *y = tail(l, weft_exp(e), 2);
  weft_loop_close(l);
  return cut(y, 6, 2);
}

TEST(the_last_rows_of_a_loop_without_state) { check("stateless", stateless); }
TEST(the_last_rows_of_a_loop_without_state_known_when_it_runs) { is_late = true; check("stateless, late", stateless); }

/* h' = tanh(x_t W + h U) */
static weft_array *network(weft_array *x) {
  weft_array *rows = weft_mul(weft_unsqueeze(x, 1), f64s(2, (double[]){ 1, -0.5 }));
  weft_array *w = weft_from(WEFT_F64, WEFT_DIMS(2, 2), (double[]){ 0.5, 0.25, -0.75, 1 }), *h0 = f64s(2, (double[]){ 0.1, 0.2 });
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, rows), *h = weft_loop_carry(l, h0);
  weft_array *next = weft_tanh(weft_add(weft_matmul(e, w), weft_matmul(h, w)));
  weft_loop_next(l, h, next);
  weft_array *y = tail(l, next, 2);
  weft_loop_close(l);
  return weft_reshape(cut(y, ROWS, 2), WEFT_DIMS(4));
}

TEST(the_last_rows_of_a_loop_with_contractions) { check("network", network); }

TEST(second_derivatives_of_the_last_rows_agree_with_differences) {
  how = TAIL;
  check_function("recurrence", recurrence, ROWS, POINT);
  has_two = true;
  check_function("two", recurrence, ROWS, POINT);
}

TEST(no_steps_give_no_rows) {
  weft_scope *s = weft_scope_open();
  how = TAIL;
  for (int k = 0; k < 2; k++) {
    weft_loop *l = weft_loop_open(k ? late(0) : weft_integer(0));
    weft_array *c = weft_loop_carry(l, f64s(2, (double[]){ 1, 2 })), *y = weft_loop_tail(l, c, 3), *last = weft_loop_last(l, c);
    weft_loop_close(l);
    EXPECT_INT(weft_dim(y, 0), 0);
    EXPECT_F64(last, 1, 2);
  }
  weft_scope_discard(s);
}

TEST(a_loop_that_only_until_ends_gives_its_last_rows_and_their_gradient) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *dx;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, c);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(1000)));
  weft_array *y = weft_loop_tail(l, next, 2); /* 9, 81, 6561 */
  weft_loop_close(l);
  EXPECT_F64(y, 81, 6561);
  weft_grad(y, 1, &x, &dx); /* x^4 + x^8 */
  EXPECT_F64(dx, 4 * 27 + 8 * 2187);
  weft_scope_discard(s);
}

static int count_call(void *calls, const weft_block in[], const weft_block out[]) {
  *(double *)out[0].data = *(const double *)in[0].data + 1;
  return ++*(int *)calls, 0;
}

/* Once for its length, whatever is computed from that, and once for the rows. */
TEST(a_loop_that_until_ends_is_run_once_more_to_count_its_steps) {
  for (int has_bound = 0; has_bound < 2; has_bound++) {
    weft_scope *s = weft_scope_open();
    int calls = 0;
    weft_loop *l = weft_loop_open(has_bound ? weft_integer(100) : NULL);
    weft_array *c = weft_loop_carry(l, f64_of(0)), *next;
    weft_host(&(weft_host_function){ &calls, count_call }, 1, &c, 1, &(weft_block){ .dtype = WEFT_F64 }, &next);
    weft_loop_next(l, c, next);
    weft_loop_until(l, weft_ge(next, weft_scalar(9)));
    weft_array *two = weft_loop_tail(l, next, 2), *four = weft_loop_tail(l, next, 4), *y[] = { two, four };
    weft_loop_close(l);
    EXPECT_OK(weft_eval(2, y));
    EXPECT_INT(calls, 2 * 9);
    EXPECT_F64(two, 8, 9);
    EXPECT_F64(four, 6, 7, 8, 9);
    weft_scope_discard(s);
  }
}

/* The sum of the last two of p, 1.5 p, .. beyond q, and of the last row of them by itself: two lengths. */
static weft_function *last_two(void) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, 0, NULL), weft_input(WEFT_F64, 0, NULL) }, *row[2];
  for (int k = 0; k < 2; k++) {
    weft_loop *l = weft_loop_open(weft_integer(100));
    weft_array *c = weft_loop_carry(l, in[k]), *next = weft_mul(c, weft_scalar(1.5));
    weft_loop_next(l, c, next);
    weft_loop_until(l, weft_gt(next, weft_scalar(100)));
    row[k] = weft_loop_tail(l, next, 2);
    weft_loop_close(l);
  }
  weft_array *y = weft_add(weft_sum(row[0], WEFT_ALL), weft_mul(weft_sum(row[1], WEFT_ALL), weft_scalar(1000)));
  return weft_compile(s, 2, in, 1, &y);
}

static double last_two_plainly(double x) {
  double before = 0, now = x * 1.5;
  for (; !(now > 100); now *= 1.5) before = now;
  return before + now;
}

TEST(calls_that_tell_the_lengths_of_one_before_run_its_plans_and_make_no_graph) {
  static const double start[] = { 1, 70, 1.2, 30, 1 };
  weft_scope *outer = weft_scope_open();
  weft_function *f = last_two();
  eval_write_calls(INT64_MAX);
  uint64_t most = 0;
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < 5; i++)
      for (int k = 0; k < 5; k++) {
        weft_scope *s = weft_scope_open();
        weft_array *in[] = { f64_of(start[i]), f64_of(start[k]) }, *y;
        if (i == k) in[1] = in[0]; /* one array for both */
        uint64_t before = node_serial();
        weft_call(f, 2, in, 1, &y);
        EXPECT_F64(y, last_two_plainly(start[i]) + 1000 * last_two_plainly(start[k]));
        uint64_t made = node_serial() - before;
        bool is_one_step = start[i] == 70 || start[k] == 70; /* its first stretch has none: that is written anew */
        if (round == 3 && made > most && !is_one_step) most = made;
        weft_scope_discard(s);
      }
  if (most > 24) test_fail(__FILE__, __LINE__, "a call made %llu nodes", (unsigned long long)most);
  weft_scope_discard(outer);
}

TEST(the_last_rows_and_the_last_state_of_a_loop_that_until_ends_are_computed_together) {
  weft_scope *s = weft_scope_open();
  int calls = 0;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, f64_of(0)), *next;
  weft_host(&(weft_host_function){ &calls, count_call }, 1, &c, 1, &(weft_block){ .dtype = WEFT_F64 }, &next);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_ge(next, weft_scalar(9)));
  weft_array *y[] = { weft_loop_tail(l, next, 2), weft_loop_last(l, c) };
  weft_loop_close(l);
  EXPECT_OK(weft_eval(2, y));
  EXPECT_INT(calls, 2 * 9);
  EXPECT_F64(y[0], 8, 9);
  EXPECT_F64(y[1], 9);
  weft_scope_discard(s);
}

TEST(a_function_of_any_size_gives_the_last_rows) {
  weft_scope *s = weft_scope_open();
  how = TAIL;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, in), *c = weft_loop_carry(l, f64_of(0)), *next = weft_add(c, e);
  weft_loop_next(l, c, next);
  weft_array *y = weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  weft_function *f = weft_compile(body, 1, &in, 1, &y);
  weft_array *four = f64s(4, (double[]){ 1, 2, 3, 4 }), *one = f64s(1, (double[]){ 5 }), *out;
  weft_call(f, 1, &four, 1, &out);
  EXPECT_F64(out, 6, 10);
  weft_call(f, 1, &one, 1, &out);
  EXPECT_F64(out, 5);
  weft_scope_discard(s);
}

/* 100000 steps of 64 numbers would be 51 MB. */
TEST(the_last_rows_take_memory_for_them_only) {
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < 2; k++) {
    weft_loop *l = weft_loop_open(k ? late(100000) : weft_integer(100000));
    weft_array *c = weft_loop_carry(l, weft_full(WEFT_F64, WEFT_DIMS(64), 1)), *next = weft_mul(c, weft_scalar(0.999));
    weft_loop_next(l, c, next);
    weft_array *y = weft_loop_tail(l, next, 10);
    weft_loop_close(l);
    weft_set(WEFT_BYTES_PEAK, 0);
    EXPECT_OK(weft_eval(1, &y));
    EXPECT(weft_get(WEFT_BYTES_PEAK) < 100000);
  }
  weft_scope_discard(s);
}

TEST(no_rows_at_all_are_refused) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, f64_of(1)), *y = weft_loop_tail(l, c, 0);
  weft_loop_close(l);
  EXPECT_INT(weft_check(y), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_loop_tail: the last 0 steps");
  weft_scope_discard(s);
}

/* The rows of y are a symbol in z, and a number by the time z is differentiated. */
TEST(a_size_that_a_run_has_told_since_is_the_same_size) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *one = f64_of(1), *dz;
  weft_loop *l = weft_loop_open(weft_integer(10));
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, c);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(1000)));
  weft_array *y = weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  weft_array *z = weft_concat(0, WEFT_ARRAYS(weft_unsqueeze(x, 0), weft_mul(y, weft_scalar(2))));
  EXPECT_INT(weft_dim(y, 0), 2);
  weft_jvp(1, &x, &one, 1, &z, &dz);
  EXPECT_F64(dz, 1, 2 * 4 * 27, 2 * 8 * 2187);
  weft_scope_discard(s);
}

TEST(a_sequence_that_is_too_short_for_the_last_rows_says_how_long_it_must_be) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(late(9));
  weft_array *e = weft_loop_each(l, f64s(ROWS, POINT)), *y = weft_loop_tail(l, e, 2);
  weft_loop_close(l);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_eval: a slice, or a loop over a sequence, needs 9 elements of an axis that has 7");
  weft_scope_discard(s);
}

/* ---- Sizes that only a run tells ---- */

static weft_array *four_of_seven(void) { /* 1, 2, 3, 4 */
  weft_loop *l = weft_loop_open(weft_integer(7));
  weft_array *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, weft_add(c, weft_scalar(1)));
  weft_loop_until(l, weft_ge(c, weft_scalar(4)));
  weft_array *y = weft_loop_all(l, c);
  weft_loop_close(l);
  return y;
}

TEST(what_has_the_size_of_an_array_waits_for_the_loop_that_tells_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(2), *dx = f64_of(1), *y = four_of_seven(), *d, *size = weft_size(four_of_seven(), 0);
  EXPECT_F64(weft_full_like(four_of_seven(), 2), 2, 2, 2, 2);
  EXPECT_F64(weft_iota(four_of_seven(), 0), 0, 1, 2, 3);
  EXPECT_F64(weft_sum(weft_iota(four_of_seven(), 0), 0), 6);
  EXPECT_F64(weft_broadcast_like(x, four_of_seven()), 2, 2, 2, 2);
  EXPECT_F64(weft_reshape_like(weft_iota(weft_full(WEFT_F64, WEFT_DIMS(4), 0), 0), four_of_seven()), 0, 1, 2, 3);
  EXPECT_F64(weft_sized(WEFT_F64, 1, &size), 0, 0, 0, 0);
  weft_jvp(1, &x, &dx, 1, &y, &d);
  EXPECT_F64(d, 0, 0, 0, 0);
  y = four_of_seven();
  weft_grad(weft_mul(x, x), 1, &y, &d);
  EXPECT_F64(d, 0, 0, 0, 0);
  y = four_of_seven();
  weft_grad(y, 1, &y, &d);
  EXPECT_F64(d, 1, 1, 1, 1);
  weft_scope_discard(s);
}

TEST(a_loop_over_rows_it_does_not_read_makes_as_many_steps) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(NULL);
  (void)weft_loop_each(l, four_of_seven());
  weft_array *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, weft_mul(c, weft_scalar(2)));
  weft_array *all = weft_loop_all(l, c), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_F64(last, 16);
  EXPECT_F64(all, 1, 2, 4, 8);
  weft_scope_discard(s);
}

/* A loop of a function that no input changes, and what has its sizes without reading it. */
TEST(a_loop_that_until_ends_stands_in_a_function_whose_inputs_it_does_not_read) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *rows = four_of_seven(), *y[2] = { weft_add(x, weft_sum(rows, WEFT_ALL)), weft_add(weft_iota(rows, 0), x) }, *z[2];
  weft_function *f = weft_compile(body, 1, &x, 2, y);
  for (int times = 1; times < 4; times++) {
    weft_array *at = f64_of(times);
    weft_call(f, 1, &at, 2, z);
    EXPECT_F64(z[0], times + 10);
    EXPECT_F64(z[1], times, times + 1, times + 2, times + 3);
  }
  weft_scope_discard(s);
}

/* Sizes inside a body: those of what it captured are known once that has run. */
TEST(a_body_folds_rows_whose_number_only_a_run_tells) {
  weft_scope *s = weft_scope_open();
  uint8_t yes = 1;
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *rows = four_of_seven(), *c = weft_loop_carry(l, f64_of(2));
  weft_loop_next(l, c, weft_sum(weft_mul(c, rows), WEFT_ALL));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_F64(last, 200);
  weft_cond *choice = weft_cond_open(weft_from(WEFT_BOOL, 0, NULL, &yes));
  rows = four_of_seven();
  weft_array *y = weft_cond_value(choice, weft_mean(rows, WEFT_ALL), f64_of(-1)), *z = weft_cond_value(choice, weft_argmax(rows, WEFT_ALL), i64_of(-1));
  weft_cond_close(choice);
  EXPECT_F64(y, 2.5);
  EXPECT_F64(weft_cast(z, WEFT_F64), 3);
  weft_scope_discard(s);
}
