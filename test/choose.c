/* choose.c -- choices of expressions that exist already: what only one side needs is computed, and fails, if that side is taken. */
#include <stdatomic.h>
#include "values.h"

/* ---- Something that counts, and something that fails ---- */

static _Atomic int n_called;

static int count_call(void *by, const weft_block in[], const weft_block out[]) {
  const double *x = in[0].data;
  double *y = out[0].data;
  atomic_fetch_add(&n_called, 1);
  for (int64_t i = 0; i < in[0].dims[0]; i++) y[i] = x[i] * (double)(intptr_t)by;
  return 0;
}

/* by x, by a function of the host that says how often it was called. */
static weft_array *called(weft_array *x, int by) {
  static int64_t three = 3;
  weft_block like = { .dtype = WEFT_F64, .rank = 1, .dims = &three };
  weft_host_function f = { (void *)(intptr_t)by, count_call, NULL };
  weft_array *y;
  weft_host(&f, 1, &x, 1, &like, &y);
  return y;
}

static weft_array *refused(weft_array *x) { return weft_assert(x, weft_lt(weft_sum(x, WEFT_ALL), weft_scalar(-1e9)), "not so"); }

static weft_array *out_of_range(weft_array *x) {
  weft_array *i = i64_of(99);
  return weft_add(x, weft_at(x, 0, i));
}

static const double ones[] = { 1, 2, 4 };
static weft_array *bool_of(bool yes) { return weft_from(WEFT_BOOL, 0, NULL, &(uint8_t){ yes }); }

/* f of p and x, compiled, called. */
typedef weft_array *body(weft_array *p, weft_array *x);

static weft_function *compiled(body *f, int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_BOOL, 0, NULL), weft_input(WEFT_F64, WEFT_DIMS(n)) }, *out = f(in[0], in[1]);
  return weft_compile(s, 2, in, 1, &out);
}

static weft_status run(weft_function *f, bool p, int n, double got[]) {
  weft_array *in[] = { bool_of(p), f64s(3, ones) }, *out;
  weft_call(f, 2, in, 1, &out);
  return weft_read(out, WEFT_F64, got, (size_t)n * sizeof *got);
}

/* ---- In functions ---- */

static weft_array *call_or_call(weft_array *p, weft_array *x) { return weft_choose(p, called(x, 2), called(x, 3)); }

SCOPED(a_function_calls_the_side_that_is_chosen) {
  for (int open = 0; open < 2; open++) {
    weft_function *f = compiled(call_or_call, open ? WEFT_ANY : 3);
    for (int p = 0; p < 2; p++) {
      double got[3];
      n_called = 0;
      EXPECT_OK(run(f, p, 3, got));
      EXPECT_INT(n_called, 1);
      for (int i = 0; i < 3; i++) EXPECT(got[i] == ones[i] * (p ? 2 : 3));
    }
  }
}

SCOPED(outside_of_a_function_both_sides_are_computed) {
  for (int p = 0; p < 2; p++) {
    double got[3];
    n_called = 0;
    weft_array *y = call_or_call(bool_of(p), f64s(3, ones));
    EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof got));
    EXPECT_INT(n_called, 2);
    for (int i = 0; i < 3; i++) EXPECT(got[i] == ones[i] * (p ? 2 : 3));
  }
}

static weft_array *assert_or(weft_array *p, weft_array *x) { return weft_choose(p, weft_exp(x), refused(x)); }
static weft_array *index_or(weft_array *p, weft_array *x) { return weft_choose(p, weft_sum(out_of_range(x), 0), weft_sum(x, 0)); }
static weft_array *factor_or(weft_array *p, weft_array *x) {
  weft_array *m = weft_matmul(weft_unsqueeze(x, 1), weft_unsqueeze(x, 0));
  return weft_choose(p, weft_sum(weft_sort(weft_reshape(m, WEFT_DIMS(WEFT_ANY)), 0), 0), weft_sum(weft_cumsum(x, 0), 0));
}

SCOPED(checks_of_the_other_side_do_not_fail) {
  double got[3];
  weft_function *f = compiled(assert_or, 3), *g = compiled(index_or, 3), *h = compiled(factor_or, 3);
  EXPECT_OK(run(f, true, 3, got));
  EXPECT(got[0] == exp(1));
  EXPECT_INT(run(f, false, 3, got), WEFT_ERR_ASSERT);
  EXPECT_INT(run(g, true, 1, got), WEFT_ERR_INDEX);
  EXPECT_OK(run(g, false, 1, got));
  EXPECT(got[0] == 7);
  EXPECT_OK(run(h, true, 1, got));
  EXPECT(got[0] == 49);
  EXPECT_OK(run(h, false, 1, got));
  EXPECT(got[0] == 1 + 3 + 7);
}

/* What both sides need, or what is needed outside, is computed once, whatever is chosen. */
static weft_array *shared(weft_array *p, weft_array *x) {
  weft_array *both = called(x, 2), *own = called(x, 3);
  return weft_choose(p, weft_add(both, own), weft_mul(both, weft_scalar(5)));
}
static weft_array *used_outside(weft_array *p, weft_array *x) {
  weft_array *own = called(x, 3);
  return weft_add(weft_choose(p, weft_exp(own), called(x, 5)), own);
}

SCOPED(what_both_sides_or_others_need_is_computed_once) {
  double got[3];
  weft_function *f = compiled(shared, 3), *g = compiled(used_outside, 3);
  for (int p = 0; p < 2; p++) {
    n_called = 0;
    EXPECT_OK(run(f, p, 3, got));
    EXPECT_INT(n_called, 1 + p);
    EXPECT(got[2] == (p ? 8 + 12 : 40));
    n_called = 0;
    EXPECT_OK(run(g, p, 3, got));
    EXPECT_INT(n_called, 2 - p);
    EXPECT(got[0] == (p ? exp(3) + 3 : 5 + 3));
  }
}

/* Two results of one choice share what they are made of. */
static weft_array *two_results(weft_array *p, weft_array *x) {
  weft_array *own = called(x, 2), *other = called(x, 3);
  weft_array *a = weft_choose(p, weft_exp(own), other), *b = weft_choose(p, own, weft_mul(other, other));
  return weft_add(a, weft_mul(b, weft_scalar(100)));
}

SCOPED(choices_by_one_condition_share_what_their_side_needs) {
  double got[3];
  weft_function *f = compiled(two_results, 3);
  for (int p = 0; p < 2; p++) {
    n_called = 0;
    EXPECT_OK(run(f, p, 3, got));
    EXPECT_INT(n_called, 1);
    EXPECT(got[0] == (p ? exp(2) + 200 : 3 + 900));
  }
}

static weft_array *nested(weft_array *p, weft_array *x) {
  weft_array *q = weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(100));
  weft_array *inner = weft_choose(q, refused(called(x, 2)), called(x, 3));
  return weft_choose(p, weft_cumsum(inner, 0), weft_choose(weft_logical_not(q), called(x, 7), out_of_range(x)));
}

SCOPED(choices_inside_of_choices_compute_one_side_each) {
  double got[3];
  weft_function *f = compiled(nested, 3);
  for (int p = 0; p < 2; p++) {
    n_called = 0;
    EXPECT_OK(run(f, p, 3, got));
    EXPECT_INT(n_called, 1);
    EXPECT(got[2] == (p ? 21 : 28));
  }
}

static weft_array *deep(weft_array *p, weft_array *x) {
  weft_array *y = x;
  for (int i = 0; i < 12; i++) y = weft_choose(p, weft_cumsum(weft_add(y, weft_scalar(i)), 0), called(y, i));
  return y;
}

SCOPED(a_chain_of_choices_is_right) {
  double got[3], want[3];
  weft_function *f = compiled(deep, 3);
  for (int p = 0; p < 2; p++) {
    n_called = 0;
    EXPECT_OK(run(f, p, 3, got));
    for (int i = 0; i < 3; i++) want[i] = ones[i];
    for (int i = 0; i < 12; i++) {
      for (int k = 0; k < 3; k++) want[k] = p ? want[k] + i : want[k] * i;
      for (int k = 1; p && k < 3; k++) want[k] += want[k - 1];
    }
    EXPECT_INT(n_called, p ? 0 : 12);
    for (int i = 0; i < 3; i++) EXPECT(got[i] == want[i]);
  }
}

/* ---- In loops ---- */

static weft_array *in_a_loop(weft_array *p, weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(6));
  weft_array *t = weft_loop_carry(l, weft_full(WEFT_I64, 0, NULL, 0)), *c = weft_loop_carry(l, x);
  weft_array *is_late = weft_logical_and(p, weft_ge(t, weft_integer(4)));
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  weft_loop_next(l, c, weft_choose(is_late, called(c, 2), weft_choose(weft_lt(t, weft_integer(3)), weft_add(c, weft_scalar(1)), weft_cumsum(c, 0))));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

/* Rows of a loop in one side, its last value, or other rows, outside: of one until, of as many steps as there are, in the condition. */
static weft_array *rows_of_a_loop(weft_array *p, weft_array *x, bool is_until, bool by_rows, bool in_condition) {
  weft_loop *l = weft_loop_open(weft_integer(5));
  weft_array *c = weft_loop_carry(l, weft_sum(x, WEFT_ALL)), *next = weft_mul(c, weft_scalar(0.5));
  weft_loop_next(l, c, next);
  if (is_until) weft_loop_until(l, weft_lt(next, weft_scalar(1)));
  weft_array *a = weft_loop_all(l, next), *b = weft_loop_all(l, c), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_array *other = by_rows ? weft_sum(b, WEFT_ALL) : last, *side = weft_mul(weft_cumsum(x, 0), weft_sum(a, WEFT_ALL));
  if (in_condition) return weft_choose(weft_and(p, weft_gt(other, weft_scalar(0))), side, x);
  return weft_add(weft_choose(p, side, x), other);
}

static bool is_until, by_rows, in_condition;
static weft_array *results_apart(weft_array *p, weft_array *x) { return rows_of_a_loop(p, x, is_until, by_rows, in_condition); }

SCOPED(results_of_one_loop_stand_in_a_side_and_outside) {
  for (int way = 0; way < 16; way++) {
    is_until = way & 1, by_rows = way & 2, in_condition = way & 4;
    weft_function *f = compiled(results_apart, way & 8 ? WEFT_ANY : 3);
    for (int p = 0; p < 2; p++) { /* 3.5, 1.75, 0.875, 0.4375, 0.21875; until 0.875 */
      double got[3], rows = is_until ? 6.125 : 6.78125, carries = is_until ? 12.25 : 13.5625, last = is_until ? 0.875 : 0.21875;
      double other = in_condition ? 0 : by_rows ? carries : last, sums[] = { 1, 3, 7 };
      EXPECT_OK(run(f, p, 3, got));
      for (int i = 0; i < 3; i++) EXPECT(got[i] == (p ? sums[i] * rows : ones[i]) + other);
    }
  }
}

SCOPED(in_the_body_of_a_loop_each_step_computes_one_side) {
  for (int where = 0; where < 2; where++)
    for (int p = 0; p < 2; p++) {
      double got[3], want[] = { 4, 5, 7 };
      n_called = 0;
      if (where) EXPECT_OK(run(compiled(in_a_loop, 3), p, 3, got));
      else EXPECT_OK(weft_read(in_a_loop(bool_of(p), f64s(3, ones)), WEFT_F64, got, sizeof got));
      for (int t = 3; t < 6; t++) {
        for (int k = 0; p && t >= 4 && k < 3; k++) want[k] *= 2;
        for (int k = 1; !(p && t >= 4) && k < 3; k++) want[k] += want[k - 1];
      }
      EXPECT_INT(n_called, p ? 2 : 0);
      for (int i = 0; i < 3; i++) EXPECT(got[i] == want[i]);
    }
}

/* ---- Derivatives ---- */

static weft_array *smooth(weft_array *p, weft_array *x) {
  weft_array *a = weft_sum(weft_exp(weft_cumsum(x, 0)), 0), *b = weft_sum(weft_log(refused(x)), 0);
  return weft_mul(weft_choose(p, a, weft_mul(b, b)), weft_sum(x, 0));
}

static weft_array *its_gradient(weft_array *p, weft_array *x) {
  weft_array *dx;
  weft_grad(smooth(p, x), 1, &x, &dx);
  return dx;
}

static weft_array *its_tangent(weft_array *p, weft_array *x) {
  weft_array *y = smooth(p, x), *dx = weft_mul(x, x), *dy;
  weft_jvp(1, &x, &dx, 1, &y, &dy);
  return dy;
}

static double plain_smooth(const double x[3]) {
  double a = exp(x[0]) + exp(x[0] + x[1]) + exp(x[0] + x[1] + x[2]);
  return a * (x[0] + x[1] + x[2]);
}

SCOPED(a_choice_is_differentiated_as_a_choice) {
  double got[3], tangent;
  weft_function *f = compiled(its_gradient, 3), *g = compiled(its_tangent, 3);
  EXPECT_OK(run(f, true, 3, got));
  EXPECT_OK(run(g, true, 1, &tangent));
  double sum = 0;
  for (int i = 0; i < 3; i++) {
    double up[3], down[3], h = 1e-5;
    for (int k = 0; k < 3; k++) up[k] = ones[k] + h * (k == i), down[k] = ones[k] - h * (k == i);
    double want = (plain_smooth(up) - plain_smooth(down)) / (2 * h);
    EXPECT(fabs(got[i] - want) < 1e-6 * fabs(want));
    sum += want * ones[i] * ones[i];
  }
  EXPECT(fabs(tangent - sum) < 1e-6 * fabs(sum));
  EXPECT_INT(run(f, false, 3, got), WEFT_ERR_ASSERT);
  EXPECT_INT(run(g, false, 1, got), WEFT_ERR_ASSERT);
  EXPECT_OK(weft_read(its_gradient(bool_of(true), f64s(3, ones)), WEFT_F64, got, sizeof got)); /* outside too */
}

/* A call is its function's work: where it stands in a side, so does that. */
static weft_array *asserted_call(weft_array *x) {
  weft_scope *s = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = refused(weft_mul(in, in));
  weft_function *f = weft_compile(s, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &out);
  return out;
}

SCOPED(derivatives_of_a_choice_do_not_call_the_other_side) {
  for (int p = 0; p < 2; p++) {
    weft_array *x = f64s(3, ones), *y = weft_choose(bool_of(p), weft_mul(x, weft_scalar(5)), weft_sort(asserted_call(x), 0)), *dx, *dy;
    double got[3];
    weft_grad(weft_sum(y, 0), 1, &x, &dx);
    weft_jvp(1, &x, &x, 1, &y, &dy);
    EXPECT_INT(weft_read(dx, WEFT_F64, got, sizeof got), p ? WEFT_OK : WEFT_ERR_ASSERT);
    for (int i = 0; p && i < 3; i++) EXPECT(got[i] == 5);
    EXPECT_INT(weft_read(dy, WEFT_F64, got, sizeof got), p ? WEFT_OK : WEFT_ERR_ASSERT);
    for (int i = 0; p && i < 3; i++) EXPECT(got[i] == 5 * ones[i]);
  }
}

/* A derivative by what stands inside of a side. */
static weft_array *by_a_side(weft_array *p, weft_array *x) {
  weft_array *a = weft_exp(weft_cumsum(x, 0)), *da;
  weft_grad(weft_sum(weft_choose(p, weft_mul(weft_sort(a, 0), a), x), 0), 1, &a, &da);
  return weft_div(da, a);
}

SCOPED(a_derivative_by_what_a_side_is_made_of_is_there) {
  double got[3];
  weft_function *f = compiled(by_a_side, 3);
  EXPECT_OK(run(f, true, 3, got));
  for (int i = 0; i < 3; i++) EXPECT(fabs(got[i] - 2) < 1e-12);
  EXPECT_OK(run(f, false, 3, got));
  for (int i = 0; i < 3; i++) EXPECT(got[i] == 0);
}

/* In a checkpoint of x = u^2, the other side is made of x, and of what fails and has no derivative but does not depend on x. */
static weft_array *kept_few(weft_array *p, weft_array *u) {
  weft_array *none = weft_sqrt(weft_cumsum(weft_sub(u, u), 0)), *call = weft_stop_gradient(called(weft_stop_gradient(u), 3));
  weft_array *other = weft_add(weft_log(weft_cumsum(refused(u), 0)), weft_add(none, call)); /* older than x */
  weft_array *x = weft_mul(u, u), *late = weft_exp(weft_cumsum(refused(u), 0)); /* younger */
  weft_array *sides[] = { weft_exp(weft_cumsum(x, 0)), weft_add(weft_mul(weft_cumsum(x, 0), other), late) };
  weft_array *y = weft_choose(p, sides[0], sides[1]);
  weft_checkpoint(1, &x, 1, &y);
  return weft_sum(y, WEFT_ALL);
}
static weft_array *kept_few_by_u(weft_array *p, weft_array *u) {
  weft_array *du;
  weft_grad(kept_few(p, u), 1, &u, &du);
  return du;
}
static weft_array *kept_few_twice(weft_array *p, weft_array *u) {
  weft_array *du;
  weft_grad(weft_sum(kept_few_by_u(p, u), 0), 1, &u, &du);
  return du;
}

/* y = sum_i exp(c_i), c_i = sum_{j <= i} u_j^2. */
static double of_sums(const double u[3], int power) {
  double c = 0, y = 0, d = 0;
  for (int i = 0; i < 3; i++) c += u[i] * u[i], d += 2 * u[i], y += exp(c) * (power ? d : 1);
  return y;
}

SCOPED(a_choice_in_a_checkpoint_computes_and_differentiates_one_side) {
  double got[3], want = 0;
  weft_function *value = compiled(kept_few, 3), *by_u = compiled(kept_few_by_u, 3), *twice = compiled(kept_few_twice, 3);
  n_called = 0;
  EXPECT_OK(run(value, true, 1, got));
  EXPECT(fabs(got[0] - of_sums(ones, 0)) < 1e-12 * got[0]);
  for (int in_function = 0; in_function < 2; in_function++) {
    if (in_function) EXPECT_OK(run(by_u, true, 3, got));
    else EXPECT_OK(weft_read(kept_few_by_u(bool_of(true), f64s(3, ones)), WEFT_F64, got, sizeof got));
    for (int i = 3; i-- > 0;) {
      want = (i == 2 ? 0 : want) + exp(i == 0 ? 1 : i == 1 ? 5 : 21);
      EXPECT(fabs(got[i] - 2 * ones[i] * want) < 1e-12 * got[i]);
    }
  }
  EXPECT_OK(run(twice, true, 3, got));
  for (int i = 0; i < 3; i++) {
    double up[3], down[3], h = 1e-5;
    for (int k = 0; k < 3; k++) up[k] = ones[k] + h * (k == i), down[k] = ones[k] - h * (k == i);
    want = (of_sums(up, 1) - of_sums(down, 1)) / (2 * h);
    EXPECT(fabs(got[i] - want) < 1e-6 * fabs(want));
  }
  EXPECT_INT(n_called, 0);
  EXPECT_INT(run(value, false, 1, got), WEFT_ERR_ASSERT);
}

/* ---- Maps ---- */

SCOPED(of_rows_that_choose_otherwise_each_fails_for_itself) {
  double xs[] = { 1, 2, 3, -1, -2, -3 }, want[] = { 1, 3, 6, 1, 3, 6 }, got[6];
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(3)), *rows = weft_from(WEFT_F64, WEFT_DIMS(2, 3), xs), *ys;
  weft_array *is_positive = weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0));
  weft_array *checked = weft_assert(x, weft_lt(weft_sum(x, 0), weft_scalar(0)), "below 0");
  weft_array *y = weft_choose(is_positive, weft_cumsum(x, 0), weft_neg(weft_cumsum(checked, 0)));
  weft_map(1, &x, &rows, 1, &y, &ys);
  EXPECT_OK(weft_read(ys, WEFT_F64, got, sizeof got));
  for (int i = 0; i < 6; i++) EXPECT(got[i] == want[i]);
  weft_array *other = weft_choose(weft_logical_not(is_positive), weft_cumsum(x, 0), weft_cumsum(checked, 0));
  weft_map(1, &x, &rows, 1, &other, &ys);
  EXPECT_INT(weft_read(ys, WEFT_F64, got, sizeof got), WEFT_ERR_ASSERT);
}

/* ---- Sizes ---- */

static weft_array *of_two_sizes(weft_array *p, weft_array *x) {
  return weft_choose(p, weft_cumsum(weft_concat(0, WEFT_ARRAYS(x, x)), 0), called(x, 2));
}
static weft_array *of_two_shapes(weft_array *p, weft_array *x) {
  weft_array *m = weft_matmul(weft_unsqueeze(x, 1), weft_unsqueeze(x, 0)); /* [3, 3] */
  return weft_choose(p, weft_slice(m, 0, 0, 2, 1), weft_slice(weft_slice(m, 0, 0, 1, 1), 1, 0, 2, 1));
}

static weft_array *total(weft_array *p, weft_array *x) { return weft_sum(of_two_sizes(p, x), 0); }
static weft_array *total_of_shapes(weft_array *p, weft_array *x) { return weft_sum(of_two_shapes(p, x), WEFT_ALL); }

SCOPED(sides_of_different_sizes_give_the_size_of_the_one_that_is_chosen) {
  for (int p = 0; p < 2; p++) {
    double got[6], one, sums[] = { 1, 3, 7 };
    n_called = 0;
    weft_array *y = of_two_sizes(bool_of(p), f64s(3, ones));
    EXPECT_INT(weft_dim(y, 0), p ? 6 : 3);
    EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof *got * (p ? 6 : 3)));
    for (int i = 0; i < 3; i++) EXPECT(got[i] == (p ? sums[i] : 2 * ones[i]));
    y = of_two_shapes(bool_of(p), f64s(3, ones));
    EXPECT_INT(weft_dim(y, 0), p ? 2 : 1);
    EXPECT_INT(weft_dim(y, 1), p ? 3 : 2);
    EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof *got * (p ? 6 : 2)));
    EXPECT(got[1] == 2 && (!p || got[5] == 8));
    for (int open = 0; open < 2; open++) {
      n_called = 0;
      EXPECT_OK(run(compiled(total, open ? WEFT_ANY : 3), p, 1, &one));
      EXPECT(one == (p ? 1 + 3 + 7 + 8 + 10 + 14 : 14));
      EXPECT_INT(n_called, !p);
      EXPECT_OK(run(compiled(total_of_shapes, open ? WEFT_ANY : 3), p, 1, &one));
      EXPECT(one == (p ? 7 + 14 : 3));
    }
  }
}

/* Of a side whose size only a run tells, what tells the size is computed outside of it. */
static weft_array *masked(weft_array *p, weft_array *x) {
  weft_array *few = weft_compress(x, weft_gt(x, weft_scalar(1.5)));
  return weft_sum(weft_choose(p, weft_cumsum(few, 0), called(x, 2)), 0);
}

SCOPED(a_side_whose_size_a_run_tells_is_right) {
  for (int p = 0; p < 2; p++)
    for (int inside = 0; inside < 2; inside++) {
      double one;
      n_called = 0;
      if (inside) EXPECT_OK(run(compiled(masked, 3), p, 1, &one));
      else EXPECT_OK(weft_read(masked(bool_of(p), f64s(3, ones)), WEFT_F64, &one, sizeof one));
      EXPECT(one == (p ? 2 + 6 : 14));
      if (inside) EXPECT_INT(n_called, !p);
    }
}

static weft_array *masked_or_refused(weft_array *p, weft_array *x) {
  weft_array *few = weft_compress(refused(called(x, 2)), weft_gt(x, weft_scalar(1.5)));
  return weft_sum(weft_choose(p, x, few), 0);
}

static weft_array *cut_or_refused(weft_array *p, weft_array *x) {
  weft_array *few = weft_compress(refused(called(x, 2)), weft_gt(x, weft_scalar(1.5)));
  return weft_sum(weft_choose(p, x, weft_cut(few, 0, weft_cast(weft_not(p), WEFT_I64), NULL, NULL)), 0);
}

SCOPED(a_side_whose_size_a_run_tells_fails_and_is_called_if_it_is_chosen) {
  body *const each[] = { masked_or_refused, cut_or_refused };
  for (int k = 0; k < 2; k++)
    for (int open = 0; open < 2; open++) {
      weft_function *f = compiled(each[k], open ? WEFT_ANY : 3);
      double one = 0;
      n_called = 0;
      EXPECT_OK(run(f, true, 1, &one));
      EXPECT(one == 7);
      EXPECT_INT(n_called, 0);
      EXPECT_INT(run(f, false, 1, &one), WEFT_ERR_ASSERT);
      EXPECT_INT(n_called, 1);
    }
}

/* ---- Operands ---- */

SCOPED(a_choice_of_numbers_and_what_is_no_condition) {
  double got[3];
  for (int p = 0; p < 2; p++) {
    EXPECT_OK(weft_read(weft_choose(bool_of(p), f64s(3, ones), weft_scalar(7)), WEFT_F64, got, sizeof got));
    EXPECT(got[1] == (p ? 2 : 7));
    EXPECT_INT(weft_dtype_of(weft_choose(bool_of(p), weft_full(WEFT_F32, 0, NULL, 1), weft_scalar(2))), WEFT_F32);
  }
  EXPECT_INT(weft_check(weft_choose(f64_of(1), f64s(3, ones), f64s(3, ones))), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_choose(weft_gt(f64s(3, ones), weft_scalar(0)), f64s(3, ones), f64s(3, ones))), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_choose(bool_of(1), f64s(3, ones), f64_of(1))), WEFT_ERR_SHAPE);
}

/* Rows: 0.5 times 1.5, again and again, until it is above 3; or twice that. The loops, which tell sizes that are seen outside, stay there. */
TEST(sides_as_long_as_loops_that_only_their_run_tells_have_the_rows_of_the_one_that_is_chosen) {
  enum { MOST = 8 };
  weft_scope *outer = weft_scope_open();
  for (int way = 0; way < 4; way++) { /* the first side or the second; rows, or what is computed from them */
    bool is_first = way & 1, is_reduced = way & 2;
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(WEFT_F64, 0, NULL), *p = weft_lt(x, weft_scalar(1)), *y;
    weft_array *a = rows_below_three(x), *b = weft_mul(rows_below_three(weft_mul(x, weft_scalar(0.25))), weft_scalar(2));
    weft_array *out = is_reduced ? weft_choose(p, weft_max(a, WEFT_ALL), weft_max(b, WEFT_ALL)) : weft_choose(p, a, b);
    weft_function *f = weft_compile(s, 1, &x, 1, &out);
    double at = is_first ? 0.5 : 2, row = is_first ? at : at / 4, got[MOST], want[MOST];
    int n = 0;
    do want[n++] = (row *= 1.5) * (is_first ? 1 : 2); while (row < 3);
    weft_array *in = f64_of(at);
    weft_call(f, 1, &in, 1, &y);
    EXPECT_OK(weft_eval(1, &y));
    EXPECT_INT(is_reduced ? 1 : (int)weft_dim(y, 0), is_reduced ? 1 : n);
    EXPECT_OK(weft_read(y, WEFT_F64, got, (size_t)(is_reduced ? 1 : n) * sizeof *got));
    for (int i = 0; i < (is_reduced ? 1 : n); i++) EXPECT(got[i] == want[is_reduced ? n - 1 : i]);
  }
  weft_array *x = f64_of(0.5), *y = weft_choose(weft_lt(x, weft_scalar(1)), rows_below_three(x), rows_below_three(weft_neg(x)));
  EXPECT_F64(weft_max(y, WEFT_ALL), 0.5 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5);
  weft_scope_discard(outer);
}
