/* cond.c -- choices: only the side that is chosen is computed, also in derivatives, loops, functions and maps. */
#include <math.h>
#include "values.h"

static const double POINT[] = { 0.3, -0.7, 1.2, 0.9, -0.4, 0.6 };

typedef weft_array *(*side)(weft_array *x);

static weft_array *choose(weft_array *p, side a, side b, weft_array *x) {
  weft_cond *c = weft_cond_open(p);
  weft_array *y = weft_cond_value(c, a(x), b(x));
  weft_cond_close(c);
  return y;
}

static weft_array *twice(weft_array *x) { return weft_mul(x, weft_scalar(2)); }
static weft_array *squared(weft_array *x) { return weft_mul(x, x); }
static weft_array *curved(weft_array *x) { return weft_mul(weft_exp(x), weft_sum(weft_tanh(x), WEFT_ALL)); }

/* An index that is out of range by far: whoever computes it fails. */
static weft_array *failing(weft_array *x) {
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(1), (int64_t[]){ 1000 });
  return weft_mul(x, weft_take(x, 1, &i));
}

static weft_array *is(bool p) { return weft_gt(f64_of(p), weft_scalar(0.5)); }
static weft_array *is_large(weft_array *x) { return weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(1)); }

/* ---- Values ---- */

TEST(a_choice_is_the_side_that_is_chosen) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, POINT);
  EXPECT_F64(choose(is(true), twice, squared, x), 0.6, -1.4, 2.4);
  EXPECT_F64(choose(is(false), twice, squared, x), 0.09, 0.49, 1.44);
  weft_scope_discard(s);
}

TEST(the_other_side_is_not_computed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, POINT), *bad = choose(is(false), twice, failing, x);
  EXPECT_F64(choose(is(true), twice, failing, x), 0.6, -1.4, 2.4);
  EXPECT_F64(choose(is(false), failing, squared, x), 0.09, 0.49, 1.44);
  EXPECT_INT(weft_eval(1, &bad), WEFT_ERR_INDEX);
  weft_scope_discard(s);
}

static weft_array *endless(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, weft_scalar(0.5));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(weft_sum(next, WEFT_ALL), weft_scalar(1e9)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  return last;
}

TEST(a_loop_that_never_ends_may_be_the_other_side) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(choose(is(true), twice, endless, f64s(2, POINT)), 0.6, -1.4);
  weft_scope_discard(s);
}

TEST(a_choice_has_any_number_of_results_of_any_shape_and_dtype) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, POINT);
  for (int p = 0; p < 2; p++) {
    weft_cond *c = weft_cond_open(is(p));
    weft_array *y = weft_exp(x);
    weft_array *sum = weft_cond_value(c, weft_sum(y, WEFT_ALL), weft_sum(x, WEFT_ALL));
    weft_array *n = weft_cond_value(c, weft_integer(7), weft_integer(9)), *old = weft_cond_value(c, x, y);
    weft_cond_close(c);
    EXPECT_INT(weft_dtype_of(n), WEFT_I32);
    EXPECT_F64(weft_cast(n, WEFT_F64), p ? 7 : 9);
    EXPECT_F64(sum, p ? exp(0.3) + exp(-0.7) + exp(1.2) : 0.3 - 0.7 + 1.2);
    EXPECT_F64(weft_slice(old, 0, 0, 1, 1), p ? 0.3 : exp(0.3));
  }
  weft_scope_discard(s);
}

TEST(empty_arrays_and_conditions_that_are_numbers_are_ordinary) {
  weft_scope *s = weft_scope_open();
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(0, 3), 1), *y = choose(is(true), twice, squared, none);
  EXPECT_OK(weft_eval(1, &y));
  weft_array *p = weft_full(WEFT_BOOL, 0, NULL, 1), *x = f64s(1, POINT);
  EXPECT_F64(choose(p, twice, failing, x), 0.6);
  EXPECT_F64(choose(weft_not(p), failing, twice, x), 0.6);
  weft_scope_discard(s);
}

TEST(choices_nest) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(1, POINT);
  for (int k = 0; k < 4; k++) {
    weft_cond *outer = weft_cond_open(is(k & 1));
    weft_array *inner = choose(is(k & 2), twice, squared, weft_add(x, weft_scalar(1)));
    weft_array *y = weft_cond_value(outer, inner, weft_neg(inner));
    weft_cond_close(outer);
    double want = k & 2 ? 2.6 : 1.3 * 1.3;
    EXPECT_F64(y, k & 1 ? want : -want);
  }
  weft_scope_discard(s);
}

/* ---- Refusals ---- */

static weft_status refused(weft_array *p, weft_array *a, weft_array *b) {
  weft_cond *c = weft_cond_open(p);
  weft_array *y = weft_cond_value(c, a, b);
  weft_cond_close(c);
  return weft_check(y);
}

TEST(a_choice_that_makes_no_sense_is_refused_when_it_is_built) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, POINT), *one = f64_of(1);
  EXPECT_INT(refused(one, x, x), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_cond_open: f64 [] is not a 0-d bool");
  EXPECT_INT(refused(weft_gt(x, one), x, x), WEFT_ERR_ARG);
  EXPECT_INT(refused(NULL, x, x), WEFT_ERR_ARG);
  EXPECT_INT(refused(is(true), x, one), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_cond_value: [3] or []");
  EXPECT_INT(refused(is(true), x, weft_cast(x, WEFT_F32)), WEFT_ERR_DTYPE);
  EXPECT_INT(refused(is(true), x, NULL), WEFT_ERR_ARG);
  EXPECT_INT(refused(is(true), x, x), WEFT_OK);
  weft_scope_discard(s);
}

TEST(a_choice_used_after_it_was_closed_or_left_open_is_noticed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(1, POINT);
  weft_cond *c = weft_cond_open(is(true));
  EXPECT_INT(weft_check(weft_keep(weft_exp(x))), WEFT_ERR_SCOPE);
  weft_cond_close(c);
  weft_cond_close(c);
  EXPECT_INT(weft_check(weft_cond_value(c, x, x)), WEFT_ERR_SCOPE);
  EXPECT_INT(weft_check(weft_cond_value(NULL, x, x)), WEFT_ERR_ARG);
  weft_cond_close(NULL);
  c = weft_cond_open(is(true));
  weft_array *y = weft_cond_value(c, x, x);
  (void)y;
  weft_scope_discard(s);
}

/* ---- Derivatives ---- */

static weft_array *by_sum(weft_array *x) { return choose(is_large(x), curved, squared, x); }
static weft_array *by_sum_not(weft_array *x) { return choose(weft_not(is_large(x)), curved, squared, x); }
static weft_array *of_constants(weft_array *x) { /* a side that is an older array, one that is another choice */
  weft_array *y = weft_tanh(x);
  weft_cond *c = weft_cond_open(is_large(x));
  weft_array *inner = choose(weft_gt(weft_sum(y, WEFT_ALL), weft_scalar(0)), squared, twice, weft_mul(y, x));
  weft_array *out = weft_cond_value(c, weft_mul(inner, y), y);
  weft_cond_close(c);
  return weft_mul(out, x);
}

TEST(derivatives_and_maps_of_choices_agree_with_differences) {
  check_function("by_sum", by_sum, 3, POINT);
  check_function("by_sum", by_sum, 4, POINT);
  check_function("by_sum_not", by_sum_not, 3, POINT);
  check_function("of_constants", of_constants, 4, POINT);
}

TEST(the_gradient_computes_one_side_only_too) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT), *y = choose(is(true), squared, failing, x), *d, *dd, *t, *one = f64s(2, (double[]){ 1, 1 });
  weft_grad(y, 1, &x, &d);
  weft_grad(d, 1, &x, &dd);
  weft_jvp(1, &x, &one, 1, &y, &t);
  EXPECT_F64(d, 0.6, -1.4);
  EXPECT_F64(dd, 2, 2);
  EXPECT_F64(t, 0.6, -1.4);
  y = choose(is(false), failing, squared, x);
  weft_grad(y, 1, &x, &d);
  weft_grad(d, 1, &x, &dd);
  EXPECT_F64(d, 0.6, -1.4);
  EXPECT_F64(dd, 2, 2);
  weft_scope_discard(s);
}

TEST(a_slope_that_is_infinite_on_the_other_side_is_no_nan) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(0), *p = weft_gt(x, weft_scalar(0)), *d, *ds, *rows = f64s(2, (double[]){ 0, 4 });
  weft_cond *c = weft_cond_open(p);
  weft_array *y = weft_cond_value(c, weft_sqrt(x), weft_mul(x, weft_scalar(3)));
  weft_cond_close(c);
  weft_grad(y, 1, &x, &d);
  EXPECT_F64(d, 3);
  weft_map(1, &x, &rows, 1, &d, &ds);
  EXPECT_F64(ds, 3, 0.25);
  weft_scope_discard(s);
}

/* ---- Map ---- */

static weft_array *mapped(weft_array *x, weft_array *y, weft_array *rows) {
  weft_array *ys;
  weft_map(1, &x, &rows, 1, &y, &ys);
  return ys;
}

TEST(under_a_map_a_condition_that_varies_chooses_in_every_row) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *rows = f64s(4, (double[]){ -2, 3, 0.5, 7 });
  weft_array *y = choose(weft_gt(x, weft_scalar(1)), twice, squared, x);
  EXPECT_F64(mapped(x, y, rows), 4, 6, 0.25, 14);
  weft_array *d;
  weft_grad(y, 1, &x, &d);
  EXPECT_F64(mapped(x, d, rows), -4, 2, 1, 2);
  weft_array *all = f64s(2, (double[]){ 5, 6 });
  EXPECT_F64(mapped(x, choose(weft_gt(x, weft_scalar(1)), twice, squared, x), all), 10, 12);
  weft_array *none = mapped(x, y, weft_full(WEFT_F64, WEFT_DIMS(0), 0));
  EXPECT_INT(weft_dim(none, 0), 0);
  EXPECT_OK(weft_eval(1, &none));
  weft_scope_discard(s);
}

TEST(under_a_map_a_condition_that_does_not_vary_still_computes_one_side) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(1)), *rows = weft_from(WEFT_F64, WEFT_DIMS(2, 1), (double[]){ 3, 4 });
  EXPECT_F64(mapped(x, choose(is(true), twice, failing, x), rows), 6, 8);
  weft_scope_discard(s);
}

/* ---- Rows that fail where they are not asked ----
 * Functions of a table [3] and a number k: each row reads, writes and loops as far as it alone would. */

typedef weft_array *(*lookup)(weft_array *table, weft_array *k);

static weft_array *lesser(weft_array *k, int64_t n) { return weft_lt(k, weft_integer(n)); }
static weft_array *minus_one(weft_array *table) { return weft_sub(weft_mul(weft_sum(table, WEFT_ALL), weft_scalar(0)), weft_scalar(1)); }

static weft_array *reads(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(lesser(k, 3));
  weft_array *at = weft_at(table, 0, k), *y = weft_cond_value(c, weft_mul(at, at), minus_one(table));
  weft_cond_close(c);
  return y;
}

static weft_array *writes(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(lesser(k, 3));
  weft_array *set = weft_put(table, weft_at(table, 0, k), weft_scalar(50), WEFT_SET);
  weft_array *y = weft_cond_value(c, weft_put(set, weft_at(set, 0, k), weft_sum(table, WEFT_ALL), WEFT_ADD), twice(table));
  weft_cond_close(c);
  return y;
}

static weft_array *reads_windows(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(weft_and(lesser(k, 2), weft_ge(k, weft_integer(0))));
  weft_array *y = weft_cond_value(c, curved(weft_window(table, 0, k, 2)), weft_slice(table, 0, 0, 2, 1));
  weft_cond_close(c);
  return y;
}

/* Both sides read where the other one would fail. */
static weft_array *reads_in_turn(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(lesser(k, 2)), *low, *high;
  low = weft_cond_open(lesser(k, 0));
  weft_array *a = weft_cond_value(low, minus_one(table), weft_at(table, 0, weft_add(k, weft_integer(1))));
  weft_cond_close(low);
  high = weft_cond_open(lesser(k, 5));
  weft_array *b = weft_cond_value(high, weft_at(table, 0, weft_sub(k, weft_integer(2))), weft_sum(table, WEFT_ALL));
  weft_cond_close(high);
  weft_array *y = weft_cond_value(c, squared(a), squared(b));
  weft_cond_close(c);
  return y;
}

/* From k to the end of the table, wherever k begins. */
static weft_array *reads_on(weft_array *table, weft_array *k) {
  weft_loop *l = weft_loop_open(weft_maximum(weft_sub(weft_integer(3), k), weft_integer(0)));
  weft_array *i = weft_loop_carry(l, k), *sum = weft_loop_carry(l, weft_mul(weft_sum(table, WEFT_ALL), weft_scalar(0.5)));
  weft_loop_next(l, i, weft_add(i, weft_integer(1)));
  weft_loop_next(l, sum, weft_add(weft_mul(sum, weft_scalar(0.5)), weft_at(table, 0, i)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  return last;
}

static weft_array *reads_until(weft_array *table, weft_array *k) {
  weft_loop *l = weft_loop_open(weft_integer(20));
  weft_array *i = weft_loop_carry(l, weft_minimum(k, weft_integer(2))), *sum = weft_loop_carry(l, weft_sum(table, WEFT_ALL));
  weft_array *next = weft_add(i, weft_integer(1));
  weft_loop_next(l, i, next);
  weft_loop_next(l, sum, weft_mul(sum, weft_at(table, 0, i)));
  weft_loop_until(l, weft_ge(next, weft_integer(3)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  return last;
}

/* As many steps in every row; the index is the row's own. */
static weft_array *loops_on_one_side(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(lesser(k, 3));
  weft_loop *l = weft_loop_open(weft_integer(4));
  weft_array *sum = weft_loop_carry(l, weft_sum(table, WEFT_ALL));
  weft_loop_next(l, sum, weft_mul(sum, weft_at(table, 0, k)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  weft_array *y = weft_cond_value(c, last, minus_one(table));
  weft_cond_close(c);
  return y;
}

/* Steps of k, until nothing is left: for ever if k is no step. */
static weft_array *would_never_end(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(weft_gt(k, weft_integer(0)));
  weft_loop *l = weft_loop_open(NULL);
  weft_array *left = weft_loop_carry(l, i64_of(9)), *n = weft_loop_carry(l, i64_of(0));
  weft_array *next = weft_sub(left, k);
  weft_loop_next(l, left, next);
  weft_loop_next(l, n, weft_add(n, weft_integer(1)));
  weft_loop_until(l, weft_le(next, weft_integer(0)));
  weft_array *last = weft_loop_last(l, n);
  weft_loop_close(l);
  weft_array *y = weft_cond_value(c, weft_mul(weft_sum(table, WEFT_ALL), weft_cast(last, WEFT_F64)), minus_one(table));
  weft_cond_close(c);
  return y;
}

static weft_array *chooses_in_a_loop(weft_array *table, weft_array *k) {
  weft_loop *l = weft_loop_open(weft_integer(5));
  weft_array *i = weft_loop_carry(l, k), *sum = weft_loop_carry(l, weft_sum(table, WEFT_ALL));
  weft_loop_next(l, i, weft_add(i, weft_integer(1)));
  weft_loop_next(l, sum, weft_add(weft_mul(sum, weft_scalar(0.5)), reads(table, i)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  return last;
}

static weft_array *calls_on_one_side(weft_array *table, weft_array *k) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(3)), weft_input(WEFT_I64, 0, NULL) }, *at = weft_at(in[0], 0, in[1]), *out;
  weft_function *f = weft_compile(body, 2, in, 1, &at);
  weft_cond *c = weft_cond_open(lesser(k, 3));
  weft_call(f, 2, (weft_array *[]){ table, k }, 1, &out);
  weft_array *y = weft_cond_value(c, squared(out), minus_one(table));
  weft_cond_close(c);
  return y;
}

static weft_array *gradient_of(weft_array *y, weft_array *x) {
  weft_array *d;
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
  return d;
}

static weft_array *stack_of_rows(lookup f, bool is_gradient, weft_array *table, int n, const int64_t rows[]) {
  weft_array *ys[8];
  for (int i = 0; i < n; i++) {
    ys[i] = f(table, i64_of(rows[i]));
    if (is_gradient) ys[i] = gradient_of(ys[i], table);
  }
  return weft_stack(0, n, ys);
}

static void expect_same(const char *name, const char *what, weft_array *a, weft_array *b) {
  size_t n, m;
  double *x = all_f64(a, &n), *y = all_f64(b, &m);
  bool same = n == m;
  for (size_t i = 0; same && i < n; i++) same = near(x[i], y[i], 1e-12);
  if (!same) test_fail(__FILE__, __LINE__, "%s: %s is not what the rows give one by one", name, what);
  free(x);
  free(y);
}

static weft_array *called(weft_scope *body, weft_array *table, weft_array *ks, weft_array *ys, weft_array *const in[2]) {
  weft_array *out;
  weft_function *f = weft_compile(body, 2, (weft_array *[]){ table, ks }, 1, &ys);
  weft_call(f, 2, in, 1, &out);
  return out;
}

static void check_rows(const char *name, lookup f, int n, const int64_t rows[]) {
  weft_scope *s = weft_scope_open();
  weft_array *table = f64s(3, (double[]){ 1.5, -0.5, 3 }), *ks = weft_from(WEFT_I64, WEFT_DIMS(n), rows);
  weft_array *k = weft_input(WEFT_I64, 0, NULL), *y = f(table, k), *ys = mapped(k, y, ks);
  weft_array *one = stack_of_rows(f, false, table, n, rows), *slopes = stack_of_rows(f, true, table, n, rows);
  expect_same(name, "the map", ys, one);
  expect_same(name, "the gradient of the map", gradient_of(ys, table), weft_sum(slopes, 0));
  expect_same(name, "the map of the gradient", mapped(k, gradient_of(y, table), ks), slopes);
  weft_array *two = weft_stack(0, 2, (weft_array *[]){ ks, weft_flip(ks, 0) }), *kk = weft_input(WEFT_I64, WEFT_DIMS(n));
  expect_same(name, "the map of the map", mapped(kk, mapped(k, y, kk), two),
              weft_stack(0, 2, (weft_array *[]){ one, weft_flip(one, 0) }));
  weft_array *tables = weft_stack(0, 2, (weft_array *[]){ table, weft_neg(table) }), *t = weft_input(WEFT_F64, WEFT_DIMS(3));
  expect_same(name, "the map by both", mapped(t, mapped(k, f(t, k), ks), tables),
              weft_stack(0, 2, (weft_array *[]){ one, stack_of_rows(f, false, weft_neg(table), n, rows) }));
  weft_scope *body = weft_scope_open();
  weft_array *in_table = weft_input(WEFT_F64, WEFT_DIMS(3)), *in_ks = weft_input(WEFT_I64, WEFT_DIMS(WEFT_ANY));
  weft_array *in_k = weft_input(WEFT_I64, 0, NULL), *out = mapped(in_k, f(in_table, in_k), in_ks);
  expect_same(name, "the function", called(body, in_table, in_ks, out, (weft_array *[]){ table, ks }), one);
  weft_scope_discard(s);
}

#define CHECK_ROWS(f, ...) check_rows(#f, f, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / 8), (int64_t[]){ __VA_ARGS__ })

TEST(a_row_of_a_map_fails_only_where_it_would_alone) {
  CHECK_ROWS(reads, 0, 1, 7, 2);
  CHECK_ROWS(reads, 1000000);
  CHECK_ROWS(writes, 0, 7, 2, -1);
  CHECK_ROWS(reads_windows, 0, 7, 1, -20);
  CHECK_ROWS(reads_in_turn, 0, 7, 2, -20, 1, 4);
  CHECK_ROWS(reads_on, 0, 7, 2, 1);
  CHECK_ROWS(reads_until, 2, 0, 7, 1);
  CHECK_ROWS(loops_on_one_side, 0, 7, 2, 1);
  CHECK_ROWS(would_never_end, 0, 7, 2, -1);
  CHECK_ROWS(chooses_in_a_loop, 0, 1, 7, -2);
  CHECK_ROWS(calls_on_one_side, 0, 1, 7, 2);
}

TEST(a_row_of_a_map_that_would_fail_alone_fails) {
  weft_scope *s = weft_scope_open();
  weft_array *table = f64s(3, POINT), *k = weft_input(WEFT_I64, 0, NULL);
  weft_array *rows = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 0, 7, -4 });
  weft_array *ys[] = { mapped(k, reads(table, k), rows), mapped(k, writes(table, k), rows), mapped(k, reads_on(table, k), rows) };
  for (int i = 0; i < 3; i++) EXPECT_INT(weft_eval(1, &ys[i]), WEFT_ERR_INDEX);
  weft_scope_discard(s);
}

/* No index is legal in an empty table; only the row that asks fails. */
static weft_array *reads_nothing(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(weft_eq(k, weft_integer(1)));
  weft_array *y = weft_cond_value(c, weft_at(table, 0, k), f64_of(-1));
  weft_cond_close(c);
  return y;
}

/* As many steps as k says; the one that would ask is beyond the last. */
static weft_array *reads_nothing_in_a_loop(weft_array *table, weft_array *k) {
  weft_loop *l = weft_loop_open(k);
  weft_array *sum = weft_loop_carry(l, f64_of(0)), *left = weft_loop_carry(l, weft_add(k, weft_integer(1)));
  weft_loop_next(l, left, weft_sub(left, weft_integer(1)));
  weft_loop_next(l, sum, weft_add(sum, reads_nothing(table, left)));
  weft_array *last = weft_loop_last(l, sum);
  weft_loop_close(l);
  return last;
}

static weft_array *writes_nothing(weft_array *table, weft_array *k) {
  weft_cond *c = weft_cond_open(weft_eq(k, weft_integer(1)));
  weft_array *y = weft_cond_value(c, weft_put(table, weft_at(table, 0, k), weft_scalar(5), WEFT_SET), table);
  weft_cond_close(c);
  return weft_sum(y, WEFT_ALL);
}

TEST(a_row_of_a_map_that_does_not_ask_for_an_empty_table_has_its_value) {
  weft_scope *s = weft_scope_open();
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(0), 0), *k = weft_input(WEFT_I64, 0, NULL);
  weft_array *idle = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 0, 7, 2 });
  weft_array *rows = weft_from(WEFT_I64, WEFT_DIMS(2), (int64_t[]){ 0, 1 });
  EXPECT_F64(mapped(k, reads_nothing(none, k), idle), -1, -1, -1);
  EXPECT_F64(mapped(k, writes_nothing(none, k), idle), 0, 0, 0);
  EXPECT_F64(mapped(k, reads_nothing_in_a_loop(none, k), idle), 0, -7, -2);
  weft_array *y = mapped(k, reads_nothing(none, k), rows);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  weft_scope_discard(s);
}

/* ---- In loops and functions ---- */

/* Collatz: 3n + 1 or n / 2. */
static weft_array *collatz(weft_array *n) {
  weft_loop *l = weft_loop_open(weft_integer(1000));
  weft_array *c = weft_loop_carry(l, n), *steps = weft_loop_carry(l, weft_integer(0));
  weft_cond *odd = weft_cond_open(weft_eq(weft_remainder(c, weft_integer(2)), weft_integer(1)));
  weft_array *next = weft_cond_value(odd, weft_add(weft_mul(c, weft_integer(3)), weft_integer(1)), weft_floor_divide(c, weft_integer(2)));
  weft_cond_close(odd);
  weft_loop_next(l, c, next);
  weft_loop_next(l, steps, weft_add(steps, weft_integer(1)));
  weft_loop_until(l, weft_eq(next, weft_integer(1)));
  weft_array *count = weft_loop_last(l, steps);
  weft_loop_close(l);
  return weft_cast(count, WEFT_F64);
}

TEST(a_choice_in_a_loop_is_made_in_every_step) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(collatz(i64_of(27)), 111);
  weft_array *n = weft_input(WEFT_I64, 0, NULL), *rows = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 27, 6, 1 });
  EXPECT_F64(mapped(n, collatz(n), rows), 111, 8, 3);
  weft_scope_discard(s);
}

static weft_array *stepwise(weft_array *x) { /* x of every step decides, and the state */
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_mul(weft_sum(x, WEFT_ALL), weft_scalar(0.1)));
  weft_cond *p = weft_cond_open(weft_gt(e, weft_scalar(0.5)));
  weft_array *next = weft_cond_value(p, weft_mul(weft_tanh(c), e), weft_add(weft_mul(c, c), e));
  weft_cond_close(p);
  weft_loop_next(l, c, next);
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  return all;
}

static weft_array *stepwise_unrolled(weft_array *x) {
  weft_array *c = weft_mul(weft_sum(x, WEFT_ALL), weft_scalar(0.1)), *all[6];
  for (int t = 0; t < 6; t++) {
    weft_array *e = weft_squeeze(weft_slice(x, 0, t, t + 1, 1), 0);
    c = POINT[t] > 0.5 ? weft_mul(weft_tanh(c), e) : weft_add(weft_mul(c, c), e);
    all[t] = c;
  }
  return weft_stack(0, 6, all);
}

TEST(choices_in_a_loop_and_their_derivatives_are_those_of_the_unrolled_graph) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *y = stepwise(x), *z = stepwise_unrolled(x), *dy, *dz;
  double a[6], b[6];
  weft_grad(y, 1, &x, &dy);
  weft_grad(z, 1, &x, &dz);
  if (read_f64(y, 6, a) && read_f64(z, 6, b)) EXPECT(!memcmp(a, b, sizeof a));
  if (read_f64(dy, 6, a) && read_f64(dz, 6, b))
    for (int i = 0; i < 6; i++) EXPECT_NEAR(a[i], b[i], 1e-14);
  weft_scope_discard(s);
  check_function("stepwise", stepwise, 6, POINT);
}

TEST(a_function_chooses_when_it_is_called) {
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = choose(is_large(x), twice, squared, x), *out, *d;
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  for (int k = 0; k < 6; k++) {
    weft_array *in = weft_add(f64s(1, POINT), weft_scalar(k & 1));
    weft_call(f, 1, &in, 1, &out);
    weft_grad(out, 1, &in, &d);
    EXPECT_F64(out, k & 1 ? 2.6 : 0.09);
    EXPECT_F64(d, k & 1 ? 2 : 0.6);
  }
  weft_scope_discard(s);
}

TEST(a_choice_built_again_is_planned_and_compiled_once) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, POINT), *y = choose(is(true), curved, squared, x);
  EXPECT_OK(weft_eval(1, &y));
  int64_t kernels = weft_get(WEFT_KERNELS);
  for (int p = 0; p < 2; p++) {
    y = choose(is(p), curved, squared, x);
    EXPECT_OK(weft_eval(1, &y));
  }
  EXPECT_INT(weft_get(WEFT_KERNELS), kernels);
  weft_scope_discard(s);
}

/* ---- Loops whose number of steps a loop around says ---- */

TEST(an_inner_loop_may_have_another_number_of_steps_in_every_step) {
  weft_scope *s = weft_scope_open();
  weft_loop *outer = weft_loop_open(NULL);
  weft_array *n = weft_loop_each(outer, weft_from(WEFT_I32, WEFT_DIMS(4), (int32_t[]){ 3, 0, 1, 5 }));
  weft_loop *inner = weft_loop_open(n);
  weft_array *c = weft_loop_carry(inner, f64_of(1));
  weft_loop_next(inner, c, weft_mul(c, weft_scalar(2)));
  weft_array *last = weft_loop_last(inner, c);
  weft_loop_close(inner);
  weft_array *all = weft_loop_all(outer, last);
  weft_loop_close(outer);
  EXPECT_F64(all, 8, 1, 2, 32);
  weft_scope_discard(s);
}

TEST(rows_of_a_map_may_have_their_own_number_of_steps) {
  weft_scope *s = weft_scope_open();
  weft_array *n = weft_input(WEFT_I64, 0, NULL), *rows = weft_from(WEFT_I64, WEFT_DIMS(4), (int64_t[]){ 3, 0, 1, 5 });
  weft_loop *l = weft_loop_open(n);
  weft_array *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, weft_mul(c, weft_scalar(2)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_F64(mapped(n, last, rows), 8, 1, 2, 32);
  weft_scope_discard(s);
}
