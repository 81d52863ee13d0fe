/* transforms.c -- derivatives and maps: against differences, against each other, nested, and where they must refuse. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "graph/scope.h"
#include "values.h"

static const double POINT[] = { 0.3, -0.7, 1.2, 0.9, -0.4, 0.6 };

/* ---- Functions of six numbers ---- */

static weft_array *smooth(weft_array *x) { return weft_tanh(weft_mul(x, weft_exp(weft_sub(weft_scalar(0.5), weft_mul(x, x))))); }
static weft_array *rms(weft_array *x) {
  return weft_div(x, weft_sqrt(weft_add(weft_mean(weft_mul(x, x), -1), weft_scalar(1e-5))));
}
static weft_array *matrix(weft_array *x) {
  weft_array *m = weft_reshape(x, WEFT_DIMS(2, 3));
  return weft_matmul(m, weft_transpose(weft_sigmoid(m), NULL));
}
static weft_array *views(weft_array *x) {
  weft_array *back = weft_flip(x, 0), *part = weft_slice(x, 0, 1, 6, 2);
  return weft_concat(0, WEFT_ARRAYS(weft_mul(x, back), weft_mul(part, part)));
}
static weft_array *branches(weft_array *x) {
  return weft_where(weft_gt(x, weft_scalar(0)), weft_log(weft_add(weft_abs(x), weft_scalar(1))), weft_mul(x, weft_maximum(x, weft_scalar(-0.5))));
}
static weft_array *folds(weft_array *x) {
  weft_array *m = weft_reshape(x, WEFT_DIMS(2, 3));
  return weft_add(weft_logsumexp(m, 0), weft_mul(weft_softmax(m, 1), weft_cumsum(m, 0)));
}
static weft_array *many_uses(weft_array *x) {
  weft_array *y = x;
  for (int i = 0; i < 12; i++) y = weft_sub(weft_mul(y, weft_scalar(0.5)), weft_mul(y, weft_mul(x, weft_scalar(0.1))));
  return y;
}
static weft_array *picked(weft_array *x) {
  int64_t at[] = { 4, 0, 4, 2 };
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(4), at);
  return weft_mul(weft_take(x, 1, &i), weft_scalar(3));
}
static weft_array *replaced(weft_array *x) {
  weft_array *y = weft_put(x, weft_slice(x, 0, 0, 3, 1), weft_mul(weft_slice(x, 0, 3, 6, 1), weft_scalar(2)), WEFT_SET);
  return weft_mul(y, y);
}
static weft_array *saved(weft_array *x) {
  weft_array *w = weft_mul(x, weft_scalar(0.7)), *y[2] = { weft_tanh(weft_mul(x, x)), weft_exp(weft_mul(w, x)) };
  weft_checkpoint(1, &x, 2, y);
  return weft_mul(y[0], y[1]);
}
static weft_array *half_saved(weft_array *x) { /* the region uses w, which depends on x but is not listed */
  weft_array *w = weft_sigmoid(x), *a = weft_mul(x, weft_scalar(2)), *y = weft_mul(weft_tanh(a), w);
  weft_checkpoint(1, &a, 1, &y);
  return y;
}

/* The tangent of a concatenation is that of tangents: -0 stays, and rows that stand still cost nothing but zeros. */
SCOPED(forward_mode_of_a_concatenation_moves_bits) {
  weft_array *x = f64s(2, (double[]){ 1, 2 }), *still = f64s(1, (double[]){ 5 }), *dx = f64s(2, (double[]){ -0.0, 3 }), *dy;
  weft_array *y = weft_concat(0, WEFT_ARRAYS(x, still, weft_flip(x, 0)));
  weft_jvp(1, &x, &dx, 1, &y, &dy);
  EXPECT_SAME(dy, f64s(5, (double[]){ -0.0, 3, 0, 3, -0.0 }));
}

#define CHECK(f) check_function(#f, f, 6, POINT)
TEST(derivatives_and_maps_of_elementwise_functions_agree_with_differences) { CHECK(smooth); CHECK(branches); }
TEST(derivatives_and_maps_of_norms_and_folds_agree_with_differences) { CHECK(rms); CHECK(folds); }
TEST(derivatives_and_maps_of_contractions_agree_with_differences) { CHECK(matrix); }
TEST(derivatives_and_maps_of_views_agree_with_differences) { CHECK(views); }
TEST(derivatives_and_maps_of_indexing_agree_with_differences) { CHECK(picked); CHECK(replaced); }
TEST(a_node_used_many_times_collects_all_its_cotangents) { CHECK(many_uses); }
TEST(a_checkpoint_changes_no_derivative) { CHECK(saved); CHECK(half_saved); }

/* ---- Structure ---- */

static int n_nodes(weft_array *a) {
  struct node_list l = { 0 };
  struct node *n = a->node;
  graph_lock();
  walk(&l, 1, &n, NULL);
  graph_unlock();
  int count = l.n;
  node_list_free(&l);
  return count;
}

TEST(the_gradient_of_a_sum_of_products_multiplies_nothing_by_one) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *w = f64s(6, POINT), *dx;
  weft_array *y = weft_sum(weft_add(weft_mul(w, x), x), WEFT_ALL);
  weft_grad(y, 1, &x, &dx);
  EXPECT(n_nodes(dx) < 12);
  weft_scope_discard(s);
}

TEST(an_unrelated_x_has_zeros_of_its_shape) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *other = weft_from(WEFT_F64, WEFT_DIMS(1, 2), POINT), *i = i64_of(3);
  weft_array *y = weft_sum(weft_mul(x, x), WEFT_ALL), *d[3];
  weft_grad(y, WEFT_ARRAYS(other, x, i), d);
  EXPECT_INT(weft_rank(d[0]), 2);
  EXPECT_INT(weft_dim(d[0], 1), 2);
  EXPECT_F64(d[0], 0, 0);
  EXPECT_F64(d[1], 0.6, -1.4, 2.4, 1.8, -0.8, 1.2);
  EXPECT_INT(weft_check(d[2]), WEFT_ERR_DTYPE);
  weft_scope_discard(s);
}

TEST(stop_gradient_and_integers_pass_no_derivative) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *dx;
  weft_array *y = weft_mul(weft_stop_gradient(x), weft_add(x, weft_cast(weft_cast(x, WEFT_I64), WEFT_F64)));
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx);
  EXPECT_F64(dx, 0.3, -0.7, 1.2, 0.9, -0.4, 0.6);
  weft_scope_discard(s);
}

TEST(aliases_of_one_array_are_differentiated_apart) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(3), *a = weft_alias(x), *b = weft_alias(x), *d[2];
  weft_grad(weft_mul(weft_mul(a, a), b), WEFT_ARRAYS(a, b), d);
  EXPECT_F64(d[0], 18);
  EXPECT_F64(d[1], 9);
  weft_scope_discard(s);
}

TEST(the_gradient_by_an_inner_node_and_by_its_argument_are_total) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(2), *h = weft_mul(x, x), *d[2];
  weft_grad(weft_mul(h, x), WEFT_ARRAYS(x, h), d);
  EXPECT_F64(d[0], 12);
  EXPECT_F64(d[1], 2);
  weft_scope_discard(s);
}

/* Views that change nothing for some sizes: v(x) of 2 rows or 1. */
static weft_array *one_flipped(weft_array *x) { return weft_flip(x, 0); }
static weft_array *one_rolled(weft_array *x) { return weft_roll(x, 0, 2); }
static weft_array *one_sliced(weft_array *x) { return weft_slice(x, 0, 0, 2, 1); }
static weft_array *one_reshaped(weft_array *x) { return weft_reshape(x, WEFT_DIMS(WEFT_ANY, 3)); }
static weft_array *one_broadcast(weft_array *x) { return weft_broadcast(x, WEFT_DIMS(WEFT_SAME, WEFT_SAME)); }
static weft_array *one_like(weft_array *x) { return weft_broadcast_like(x, weft_mul(x, x)); }
static weft_array *one_reshaped_like(weft_array *x) { return weft_reshape_like(x, weft_mul(x, x)); }

static weft_array *one_windowed(weft_array *x) { return weft_window(x, 0, weft_integer(0), weft_dim(x, 0)); }
static weft_array *one_repeated(weft_array *x) { return weft_repeat(x, 0, 1); }
static weft_array *one_tiled(weft_array *x) { return weft_tile(x, 2, (int64_t[]){ 1, 1 }); }
static weft_array *one_split(weft_array *x) {
  weft_array *part;
  return weft_split(x, 0, 1, &part), part;
}

TEST(the_gradient_by_a_view_is_by_the_view_whether_it_changes_anything_or_not) {
  array_function views[] = { one_flipped, one_rolled, one_sliced, one_reshaped, one_broadcast, one_like, one_reshaped_like, one_windowed, one_repeated, one_tiled, one_split };
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    for (int rows = 1; rows <= 2; rows++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(rows, 3), POINT), *v = views[i](x), *dv, *dx;
      weft_grad(weft_sum(weft_mul(v, x), WEFT_ALL), 1, &v, &dv); /* d sum(v x) / dv = x */
      double got[6];
      if (read_f64(dv, 3 * rows, got)) for (int k = 0; k < 3 * rows; k++) EXPECT_NEAR(got[k], POINT[k], 0);
      weft_grad(weft_sum(weft_mul(v, weft_scalar(3)), WEFT_ALL), 1, &x, &dx);
      if (read_f64(dx, 3 * rows, got)) for (int k = 0; k < 3 * rows; k++) EXPECT_NEAR(got[k], 3, 0);
      weft_array *set = weft_put(x, v, weft_scalar(7), WEFT_SET); /* it is still a part of x */
      if (i != 1 && read_f64(set, 3 * rows, got)) for (int k = 0; k < 3 * rows; k++) EXPECT_NEAR(got[k], 7, 0);
      weft_scope_discard(s);
    }
}

TEST(third_derivatives_are_derivatives_of_second_ones) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(0.5), *y = weft_exp(weft_mul(x, weft_scalar(2))), *d = y;
  for (int i = 0; i < 3; i++) weft_grad(d, 1, &x, &d);
  EXPECT_NEAR(one_f64(d), 8 * exp(1), 1e-12);
  weft_scope_discard(s);
}

TEST(a_hessian_is_the_map_of_a_gradient_of_a_gradient) {
  weft_scope *s = weft_scope_open();
  double p[] = { 0.5, -0.25 }, unit[] = { 1, 0, 0, 1 }, h[4];
  weft_array *x = f64s(2, p), *a = weft_slice(x, 0, 0, 1, 1), *b = weft_slice(x, 0, 1, 2, 1), *g, *hv, *hessian;
  weft_grad(weft_mul(weft_mul(a, a), weft_exp(b)), 1, &x, &g);
  weft_array *v = weft_input(WEFT_F64, WEFT_DIMS(2)), *eye = weft_from(WEFT_F64, WEFT_DIMS(2, 2), unit);
  weft_vjp(1, &g, &v, 1, &x, &hv);
  weft_map(1, &v, &eye, 1, &hv, &hessian);
  double e = exp(-0.25);
  if (read_f64(hessian, 4, h)) {
    EXPECT_NEAR(h[0], 2 * e, 1e-12);
    EXPECT_NEAR(h[1], e, 1e-12);
    EXPECT_NEAR(h[2], e, 1e-12);
    EXPECT_NEAR(h[3], 0.25 * e, 1e-12);
  }
  weft_scope_discard(s);
}

TEST(what_does_not_depend_on_a_mapped_x_is_shared) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT), *xs = weft_from(WEFT_F64, WEFT_DIMS(3, 2), POINT), *w = weft_exp(f64s(2, POINT));
  weft_array *y[2] = { weft_mul(x, w), w }, *ys[2];
  weft_map(1, &x, &xs, 2, y, ys);
  EXPECT_INT(weft_dim(ys[0], 0), 3);
  EXPECT_INT(weft_rank(ys[1]), 2);
  EXPECT_INT(weft_dim(ys[1], 0), 3);
  EXPECT_INT(n_nodes(ys[1]), n_nodes(w) + 1);
  weft_scope_discard(s);
}

TEST(a_chain_of_a_million_ops_differentiates_in_linear_time) {
  test_watchdog(120);
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(1), *c = weft_cast(weft_scalar(1), WEFT_F64), *y = x, *dx;
  for (int i = 0; i < 1000000; i++) y = weft_mul(y, c);
  weft_grad(y, 1, &x, &dx);
  EXPECT_INT(weft_check(dx), WEFT_OK);
  EXPECT_INT(n_nodes(dx) > 0, 1);
  weft_scope_discard(s);
}

/* ---- Refusals ---- */

TEST(differentiating_what_is_no_float_is_refused) {
  weft_scope *s = weft_scope_open();
  weft_array *i = i64_of(3), *d;
  weft_grad(weft_mul(i, i), 1, &i, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_DTYPE);
  weft_array *x = f64s(6, POINT), *seed = f64_of(1), *y = weft_mul(x, x);
  weft_vjp(1, &y, &seed, 1, &x, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_SHAPE);
  weft_array *of_both[] = { weft_sum(y, WEFT_ALL), weft_gt(x, weft_scalar(0)) }, *both[2], *vars[] = { x, i };
  weft_grad(weft_mul(of_both[0], i), 2, vars, both); /* by the float, not by the integer */
  EXPECT_OK(weft_check(both[0]));
  EXPECT_INT(weft_check(both[1]), WEFT_ERR_DTYPE);
  weft_jvp(1, &i, &i, 1, &y, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_DTYPE);
  weft_jvp(1, &x, &x, 2, of_both, both); /* of the float, not of the comparison */
  EXPECT_NEAR(one_f64(both[0]), 2 * one_f64(of_both[0]), 1e-14);
  EXPECT_INT(weft_check(both[1]), WEFT_ERR_DTYPE);
  EXPECT(strstr(weft_message(), "y 2 is bool"));
  weft_scope_discard(s);
}

TEST(a_number_is_no_variable) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_scalar(3), *d;
  weft_grad(weft_mul(x, f64_of(2)), 1, &x, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_ARG);
  weft_scope_discard(s);
}

TEST(mapping_over_rows_that_do_not_fit_is_refused) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *y = weft_mul(x, x), *ys, *rows = weft_from(WEFT_F64, WEFT_DIMS(2, 3), POINT);
  weft_map(1, &x, &rows, 1, &y, &ys);
  EXPECT_INT(weft_check(ys), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

TEST(bad_arrays_stay_bad_through_transforms) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, POINT), *y = weft_add(x, f64s(4, POINT)), *d;
  weft_grad(y, 1, &x, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_SHAPE);
  weft_jvp(1, &x, &x, 1, &y, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_SHAPE);
  weft_map(1, &x, &x, 1, &y, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

/* x, a = x x, y = a + w a: dy/da = 1 + w, dy/dx = 2 x (1 + w), dy/dw = a. */
TEST(a_gradient_by_an_array_inside_a_checkpoint_is_that_without_it) {
  for (int how = 0; how < 3; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(2, (double[]){ 3, -2 }), *w = f64s(2, (double[]){ 10, 20 }), *d[4];
    weft_array *a = weft_mul(x, x), *y = weft_add(a, weft_mul(w, a)), *inside = y;
    weft_checkpoint(1, &x, 1, &y);
    if (how == 1) weft_checkpoint(1, &x, 1, &y);
    if (how == 2) y = weft_mul(y, weft_scalar(1)), weft_checkpoint(WEFT_ARRAYS(x, w), 1, &y);
    weft_grad(y, 1, &a, &d[0]);
    EXPECT_F64(d[0], 11, 21);
    weft_grad(y, WEFT_ARRAYS(inside, w, a, x), d);
    EXPECT_F64(d[0], 1, 1);
    EXPECT_F64(d[1], 9, 4);
    EXPECT_F64(d[2], 11, 21);
    EXPECT_F64(d[3], 66, -84);
    weft_jvp(1, &a, &w, 1, &y, d);
    EXPECT_F64(d[0], 110, 420);
    weft_scope_discard(s);
  }
}

/* (k + p) q by a function that has captured q and a constant of its own, called with p inside a region that x is named in; squared
 * in a checkpoint that is told of p alone, or in none. */
static void gradients_around_a_call(int checkpoints, bool is_second, double r[7]) {
  weft_scope *all = weft_scope_open();
  weft_array *p = f64s(1, (double[]){ 0.5 }), *q = f64s(3, (double[]){ 1, 2, 3 }), *x, *d[3];
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(1)), *out = weft_mul(weft_add(in, f64s(3, (double[]){ 1, 3, 5 })), q);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &p, 1, &out);
  x = weft_alias(weft_mul(out, weft_scalar(2)));
  weft_array *y = weft_mul(x, weft_mul(x, x)), *by[] = { x, p, q };
  while (checkpoints-- > 0) weft_checkpoint(1, &p, 1, &y);
  weft_grad(weft_sum(y, WEFT_ALL), 3, by, d);
  if (is_second) weft_grad(weft_add(weft_sum(d[0], WEFT_ALL), weft_sum(d[2], WEFT_ALL)), 3, by, d);
  EXPECT_OK(weft_read(d[0], WEFT_F64, r, 3 * sizeof *r));
  EXPECT_OK(weft_read(d[1], WEFT_F64, r + 3, sizeof *r));
  EXPECT_OK(weft_read(d[2], WEFT_F64, r + 4, 3 * sizeof *r));
  const char *plan = weft_show(3, d, "plan");
  EXPECT(plan && !strstr(plan, "checkpoint"));
  weft_scope_discard(all);
}

TEST(a_gradient_by_what_a_call_inside_a_checkpoint_gave_or_captured_is_that_without_it) {
  for (int is_second = 0; is_second < 2; is_second++) {
    double want[7], got[7];
    gradients_around_a_call(0, is_second, want);
    for (int n = 1; n < 3; n++) {
      gradients_around_a_call(n, is_second, got);
      for (int i = 0; i < 7; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * fabs(want[i])) || want[i] == 0)
          test_fail(__FILE__, __LINE__, "%d checkpoints, derivative %d: element %d is %g, not %g", n, is_second + 1, i, got[i], want[i]);
    }
  }
}

/* w = 2 a by a choice, or not; y = w w w by a choice, or not; by a, and then by w: 6 w times 2. */
TEST(a_derivative_of_choices_is_made_of_the_arrays_that_users_have) {
  for (int how = 0; how < 8; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *a = f64s(3, (double[]){ 1, 2, 3 }), *one = f64s(3, (double[]){ 1, 1, 1 }), *d;
    weft_array *p = weft_gt(weft_sum(a, WEFT_ALL), weft_scalar(0));
    weft_array *w = weft_mul(a, weft_scalar(2));
    w = weft_alias(how & 1 ? weft_choose(p, w, weft_exp(a)) : w);
    weft_array *y = weft_mul(w, weft_mul(w, w));
    if (how & 2) y = weft_choose(p, y, weft_sin(w));
    if (how & 4) weft_jvp(1, &a, &one, 1, &y, &d);
    else weft_grad(weft_sum(y, WEFT_ALL), 1, &a, &d);
    weft_grad(weft_sum(d, WEFT_ALL), 1, &w, &d);
    EXPECT_F64(d, 24, 48, 72);
    weft_scope_discard(s);
  }
}

TEST(a_gradient_by_a_constant_that_a_checkpoint_reads_is_that_without_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 3, -2 }), *k = weft_full(WEFT_F64, 0, NULL, 5), *y[] = { weft_mul(x, k), weft_exp(k) }, *d;
  weft_checkpoint(1, &x, 2, y);
  weft_grad(weft_add(y[0], y[1]), 1, &k, &d);
  EXPECT_F64(d, 3 - 2 + 2 * exp(5));
  weft_scope_discard(s);
}

/* What a region reads besides its x may be made of what the x becomes: of rows, when it is mapped, or of an argument. */
TEST(a_gradient_by_what_a_checkpoint_reads_is_that_without_it_where_its_x_becomes_what_that_is_made_of) {
  for (int how = 0; how < 2; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *rows = f64s(2, (double[]){ 3, -2 }), *v = f64s(2, (double[]){ 5, 7 }), *read = weft_mul(rows, v), *y, *d[2];
    weft_scope *body = how ? weft_scope_open() : NULL;
    weft_array *x = how ? weft_input(WEFT_F64, WEFT_DIMS(2)) : weft_input(WEFT_F64, 0, NULL);
    y = weft_mul(x, weft_sum(read, WEFT_ALL));
    weft_checkpoint(1, &x, 1, &y);
    if (how) weft_call(weft_compile(body, 1, &x, 1, &y), 1, &rows, 1, &y);
    else weft_map(1, &x, &rows, 1, &y, &y);
    weft_grad(weft_sum(y, WEFT_ALL), 2, (weft_array *[]){ v, rows }, d);
    EXPECT_F64(d[0], 3, -2);           /* (r0 + r1) (r0 v0 + r1 v1) */
    EXPECT_F64(d[1], 1 + 5, 1 + 7);
    weft_scope_discard(s);
  }
}

TEST(a_jacobian_through_a_checkpoint_is_a_map_of_its_vjp) {
  weft_scope *s = weft_scope_open();
  double p[] = { 0.5, -0.25 }, unit[] = { 1, 0, 0, 1 };
  weft_array *x = f64s(2, p), *y = weft_exp(weft_mul(x, x)), *row, *jacobian;
  weft_checkpoint(1, &x, 1, &y);
  weft_array *v = weft_input(WEFT_F64, WEFT_DIMS(2)), *eye = weft_from(WEFT_F64, WEFT_DIMS(2, 2), unit);
  weft_vjp(1, &y, &v, 1, &x, &row);
  weft_map(1, &v, &eye, 1, &row, &jacobian);
  EXPECT_F64(jacobian, exp(0.25), 0, 0, -0.5 * exp(0.0625));
  weft_scope_discard(s);
}

/* ---- Own rules ---- */

struct counts { int vjp, jvp, map, release; };

static int twice_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)y;
  ((struct counts *)ctx)->vjp++;
  dx[0] = weft_mul(weft_mul(x[0], dy[0]), weft_scalar(10));
  return 0;
}
static int twice_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  ((struct counts *)ctx)->jvp++;
  dy[0] = weft_mul(weft_mul(x[0], dx[0]), weft_scalar(10));
  return 0;
}
static int failing_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx, (void)x, (void)y, (void)dy, (void)dx;
  return 7;
}
static void count_release(void *ctx) { ((struct counts *)ctx)->release++; }

TEST(own_rules_replace_the_ordinary_ones_and_are_released_once) {
  struct counts c = { 0 };
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT), *y = weft_mul(x, x), *d, *u = f64s(2, (double[]){ 1, 1 });
  weft_custom(1, &x, 1, &y, &(weft_rules){ &c, twice_vjp, twice_jvp, NULL, count_release });
  EXPECT_F64(y, 0.09, 0.49);
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
  EXPECT_F64(d, 3, -7);
  weft_jvp(1, &x, &u, 1, &y, &d);
  EXPECT_F64(d, 3, -7);
  EXPECT_INT(c.vjp, 1);
  EXPECT_INT(c.jvp, 1);
  EXPECT_INT(c.release, 0);
  weft_scope_discard(s);
  EXPECT_INT(c.release, 1);
}

TEST(own_derivative_rules_hold_for_every_row_of_a_map) {
  struct counts c = { 0 };
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT), *y = weft_mul(x, x), *xs = weft_from(WEFT_F64, WEFT_DIMS(3, 2), POINT), *ys, *d;
  weft_custom(1, &x, 1, &y, &(weft_rules){ &c, twice_vjp, twice_jvp, NULL, count_release });
  weft_map(1, &x, &xs, 1, &y, &ys);
  EXPECT_F64(ys, 0.09, 0.49, 1.44, 0.81, 0.16, 0.36);
  weft_grad(weft_sum(ys, WEFT_ALL), 1, &xs, &d);
  EXPECT_F64(d, 3, -7, 12, 9, -4, 6);
  weft_jvp(1, &xs, &xs, 1, &ys, &d);
  EXPECT_F64(d, 0.9, 4.9, 14.4, 8.1, 1.6, 3.6);
  weft_scope_discard(s);
  EXPECT_INT(c.release, 1);
}

TEST(a_rule_that_fails_makes_the_derivative_bad) {
  struct counts c = { 0 };
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT), *y = weft_mul(x, x), *d;
  weft_custom(1, &x, 1, &y, &(weft_rules){ &c, failing_vjp, NULL, NULL, count_release });
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
  EXPECT_INT(weft_check(d), WEFT_ERR_RULE);
  weft_scope_discard(s);
  EXPECT_INT(c.release, 1);
}

TEST(a_gradient_through_history_that_was_dropped_is_refused_and_never_zero) {
  weft_scope *outer = weft_scope_open();
  weft_array *x = weft_own(f64s(2, POINT)), *y;
  weft_scope *s = weft_scope_open();
  y = weft_own(weft_exp(weft_mul(x, x)));
  weft_scope_discard(s);
  EXPECT_OK(weft_eval(1, &y));
  weft_scope_discard(outer);
  outer = weft_scope_open();
  weft_array *d;
  weft_grad(weft_sum(weft_mul(y, y), WEFT_ALL), 1, &x, &d);
  weft_status status = weft_check(d);
  EXPECT(status == WEFT_ERR_NO_HISTORY || status == WEFT_OK);
  if (status == WEFT_OK) { /* the expression is still there: then the value is right */
    double e0 = 0.3 * 0.3, e1 = 0.7 * 0.7;
    EXPECT_F64(d, 4 * 0.3 * exp(2 * e0), -4 * 0.7 * exp(2 * e1));
  }
  weft_scope_discard(outer);
  weft_disown(x);
  weft_disown(y);
}

/* ---- Threads ---- */

struct shared { weft_array *x, *y; _Atomic int wrong; };

static void *transform_again_and_again(void *arg) {
  struct shared *s = arg;
  for (int i = 0; i < 30; i++) {
    weft_scope *scope = weft_scope_open();
    weft_array *d, *t, *rows, *xs = weft_full(WEFT_F64, WEFT_DIMS(2, 2), 0.5);
    double got[2] = { 0, 0 };
    weft_grad(s->y, 1, &s->x, &d);
    weft_jvp(1, &s->x, &s->x, 1, &d, &t);
    weft_map(1, &s->x, &xs, 1, &d, &rows);
    if (weft_check(t) || weft_check(rows) || weft_read(d, WEFT_F64, got, sizeof got)) s->wrong++;
    for (int k = 0; k < 2; k++) s->wrong += !near(2 * POINT[k] * exp(POINT[k] * POINT[k]), got[k], 1e-12);
    weft_scope_discard(scope);
  }
  return NULL;
}

TEST(threads_transform_and_evaluate_one_graph_at_the_same_time) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, POINT);
  struct shared all = { .x = x, .y = weft_exp(weft_mul(x, x)) };
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) EXPECT_INT(pthread_create(&thread[i], NULL, transform_again_and_again, &all), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  EXPECT_INT(all.wrong, 0);
  weft_scope_discard(s);
}

/* ---- Out of memory ---- */

static weft_array *loops_and_calls(weft_array *x) {
  weft_scope *body = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *q = weft_mul(weft_tanh(p), p);
  weft_function *f = weft_compile(body, 1, &p, 1, &q);
  weft_array *y = x;
  weft_call(f, 1, &x, 1, &y);
  weft_loop *loop = weft_loop_open(weft_integer(3));
  if (!loop) return weft_scalar(0);
  weft_array *c = weft_loop_carry(loop, y);
  weft_call(f, 1, &c, 1, &q);
  weft_loop_next(loop, c, weft_mul(q, x));
  weft_array *all = weft_loop_all(loop, q), *last = weft_loop_last(loop, c);
  weft_loop_close(loop);
  y = weft_add(weft_sum(all, 0), last);
  weft_checkpoint(1, &x, 1, &y);
  weft_custom(1, &x, 1, &y, &(weft_rules){ 0 });
  return y;
}

/* Builds what all of the above build; evaluates nothing. */
static void build_everything(void) {
  weft_scope *s = weft_scope_open();
  if (!s) return;
  weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(4), 0.5), *xs = weft_full(WEFT_F64, WEFT_DIMS(3, 4), 0.5);
  x = weft_exp(x);
  weft_array *y = loops_and_calls(x), *d, *t, *rows;
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &d);
  weft_jvp(1, &x, &x, 1, &d, &t);
  weft_map(1, &x, &xs, 1, &d, &rows);
  weft_scope_discard(s);
}

TEST(every_allocation_may_fail_while_graphs_are_transformed) {
  test_watchdog(300);
  build_everything();
  int64_t blocks = mem_live();
  for (int sticky = 0; sticky < 2; sticky++) {
    int64_t step = sticky ? 7 : 1;
    for (int64_t at = 1;; at += step) {
      mem_fail_at(at, sticky);
      build_everything();
      int64_t made = mem_count();
      mem_fail_at(0, 0);
      int64_t left = weft_get(WEFT_NODES), more = mem_live() - blocks;
      if (left || more > 4) { /* the last message, and what stands for a function without memory, are kept */
        test_fail(__FILE__, __LINE__, "%lld nodes and %lld blocks are left when allocation %lld fails%s", (long long)left,
                  (long long)more, (long long)at, sticky ? " and all after it" : "");
        return;
      }
      if (made < at) break;
    }
  }
  weft_scope *s = weft_scope_open();
  double x[] = { 1, 2 };
  EXPECT_F64(weft_mul(f64s(2, x), f64s(2, x)), 1, 4);
  weft_scope_discard(s);
}

TEST(results_of_a_checkpoint_and_of_own_rules_are_read_one_after_the_other) {
  for (int is_custom = 0; is_custom < 2; is_custom++) {
    weft_scope *s = weft_scope_open();
    weft_array *x[] = { f64s(3, (double[]){ 1, 2, 3 }), i64_of(7) }, *y[] = { weft_alias(x[1]), weft_alias(x[0]), weft_exp(x[0]) };
    if (is_custom) weft_custom(2, x, 3, y, &(weft_rules){ 0 });
    else weft_checkpoint(2, x, 3, y);
    int64_t seven = 0;
    EXPECT_OK(weft_read(y[0], WEFT_I64, &seven, sizeof seven));
    EXPECT_INT(seven, 7);
    EXPECT_F64(y[1], 1, 2, 3);
    EXPECT_OK(weft_eval(1, &y[2]));
    weft_scope_discard(s);
  }
}

TEST(a_number_behind_an_alias_a_checkpoint_or_rules_has_a_value) {
  for (int how = 0; how < 4; how++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(3, (double[]){ 1, 2, 3 }), *y = weft_alias(weft_full(WEFT_F64, WEFT_DIMS(3), 7)), *z = weft_alias(f64_of(2));
    weft_array *w = weft_alias(weft_cast(weft_scalar(5), WEFT_F64));
    if (how == 1) weft_checkpoint(1, &x, 1, &y), weft_checkpoint(1, &x, 1, &w);
    if (how == 2) weft_custom(1, &x, 1, &y, &(weft_rules){ 0 }), weft_custom(1, &x, 1, &w, &(weft_rules){ 0 });
    if (how == 3) y = weft_stop_gradient(y), w = weft_depends(w, 1, &x);
    EXPECT_F64(y, 7, 7, 7);
    EXPECT_F64(w, 5);
    EXPECT_F64(z, 2);
    weft_scope_discard(s);
  }
}

/* ---- Factors of what a branch has not read ---- */

static const char *slope_of_branch(double factor) {
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(4)), *c = weft_input(WEFT_BOOL, WEFT_DIMS(4)), *dx = NULL;
  weft_array *y = weft_where(c, weft_mul(x, weft_scalar(factor)), weft_scalar(0)), *dy = weft_input(WEFT_F32, WEFT_DIMS(4));
  weft_vjp(1, &y, &dy, 1, &x, &dx);
  return weft_op(dx);
}

TEST(zeros_of_a_branch_are_multiplied_plainly_by_positive_numbers_alone) {
  weft_scope *s = weft_scope_open();
  EXPECT(!strcmp(slope_of_branch(0.5), "mul"));
  EXPECT(!strcmp(slope_of_branch(-0.5), "scale"));
  EXPECT(!strcmp(slope_of_branch(0), "scale"));
  EXPECT(!strcmp(slope_of_branch(INFINITY), "scale"));
  EXPECT(!strcmp(slope_of_branch(1e300), "scale")); /* infinite in f32 */
  EXPECT(!strcmp(slope_of_branch(NAN), "scale"));
  weft_scope_discard(s);
}

/* ---- By arrays that a body copies ---- */

enum { COPIED_NUMBER, COPIED_IOTA, COPIED_INSIDE, COPIED_BROADCAST, COPIED_ALIAS, COPIED_FULL, COPIED_VIEW, N_COPIED };

static weft_array *copied(int kind, weft_array *like) {
  if (kind == COPIED_NUMBER) return weft_full(WEFT_F64, 0, NULL, 2);
  if (kind == COPIED_IOTA) return weft_iota(like, 0);
  if (kind == COPIED_BROADCAST) return weft_broadcast(weft_sum(like, 0), WEFT_DIMS(3));
  if (kind == COPIED_ALIAS) return weft_alias(weft_full(WEFT_F64, 0, NULL, 2));
  weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(3), 2);
  return kind == COPIED_VIEW ? weft_flip(x, 0) : x;
}

/* c x x by a loop, one in a loop, a choice in a loop; x, owned, is made before it or in the body. */
static weft_array *two_products(int form, int kind, weft_array *c0, weft_array **x) {
  bool is_inside = kind == COPIED_INSIDE || kind == COPIED_BROADCAST;
  if (!is_inside) *x = weft_own(copied(kind, c0));
  weft_loop *l = weft_loop_open(weft_integer(form == 1 ? 1 : 2)), *in = NULL;
  weft_array *c = weft_loop_carry(l, c0), *last = weft_loop_last(l, c), *inner = c, *next = c;
  if (form == 1) in = weft_loop_open(weft_integer(2)), inner = weft_loop_carry(in, c);
  weft_cond *choice = form == 2 ? weft_cond_open(weft_all(weft_gt(weft_abs(c), weft_scalar(-1)), WEFT_ALL)) : NULL;
  if (is_inside) *x = weft_own(copied(kind, c0));
  next = weft_mul(inner, *x);
  if (choice) next = weft_cond_value(choice, next, c), weft_cond_close(choice);
  if (in) {
    weft_loop_next(in, inner, next);
    next = weft_loop_last(in, inner);
    weft_loop_close(in);
  }
  weft_loop_next(l, c, next);
  weft_loop_close(l);
  return last;
}

TEST(a_derivative_by_an_array_that_a_body_copies_is_refused_and_never_zero) {
  for (int form = 0; form < 3; form++)
    for (int kind = 0; kind < N_COPIED; kind++) {
      weft_scope *s = weft_scope_open();
      weft_array *c0 = f64s(3, (double[]){ 1, -2, 3 }), *x, *d, *t, *y = two_products(form, kind, c0, &x);
      weft_grad(y, 1, &x, &d);
      weft_jvp(1, &x, &x, 1, &y, &t);
      if (kind < COPIED_ALIAS) {
        EXPECT_INT(weft_check(d), WEFT_ERR_ARG);
        EXPECT(strstr(weft_message(), "weft_grad: x 1 was copied into a loop or choice"));
        EXPECT_INT(weft_check(t), WEFT_ERR_ARG);
        EXPECT(strstr(weft_message(), "weft_jvp: x 1 was copied into a loop or choice"));
      } else {
        if (kind == COPIED_ALIAS) EXPECT_F64(d, 8);
        else EXPECT_F64(d, 4, -8, 12);
        EXPECT_F64(t, 8, -16, 24);
      }
      weft_disown(x);
      weft_scope_discard(s);
    }
}

TEST(a_constant_that_no_body_copies_may_be_asked_for) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F64, 0, NULL, 2), *d, *z;
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x), *last = weft_loop_last(l, c);
  weft_loop_next(l, c, weft_mul(weft_mul(c, c), weft_full(WEFT_F64, 0, NULL, 2)));
  weft_loop_close(l);
  weft_grad(last, 1, &x, &d);                        /* 8 x^4 */
  EXPECT_F64(d, 256);
  weft_scope *body = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, 0, NULL), *one = weft_full(WEFT_F64, 0, NULL, 1);
  l = weft_loop_open(weft_integer(3));
  c = weft_loop_carry(l, one), last = weft_loop_last(l, c);
  weft_loop_next(l, c, weft_mul(c, p));
  weft_loop_close(l);
  weft_function *f = weft_compile(body, 1, &p, 1, &last);
  weft_call(f, 1, &x, 1, &z);
  weft_grad(z, 1, &x, &d);                           /* x^3 */
  EXPECT_F64(d, 12);
  weft_scope_discard(s);
}

/* x that is doubled until it is over 5, in checkpoints of checkpoints; it may have been computed before. */
static weft_array *doubled_in_checkpoints(weft_array *x, int n) {
  weft_loop *loop = weft_loop_open(weft_from(WEFT_I64, 0, NULL, &(int64_t){ 8 }));
  weft_array *at = weft_loop_carry(loop, x), *next = weft_add(at, at);
  weft_loop_next(loop, at, next);
  weft_loop_until(loop, weft_gt(next, weft_scalar(5)));
  weft_array *all = weft_loop_all(loop, next);
  weft_loop_close(loop);
  while (n-- > 0) weft_checkpoint(1, &x, 1, &all);
  return all;
}

TEST(a_gradient_of_checkpoints_in_checkpoints_of_a_loop_that_has_run_is_that_without_them) {
  for (int n = 0; n < 4; n++)
    for (int has_run = 0; has_run < 2; has_run++) {
      weft_scope *scope = weft_scope_open();
      double one = 1, slope = 0;
      weft_array *x = weft_from(WEFT_F64, 0, NULL, &one), *y = doubled_in_checkpoints(x, n), *dx;
      if (has_run) EXPECT_OK(weft_eval(1, &y));
      weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx);
      EXPECT_OK(weft_read(dx, WEFT_F64, &slope, sizeof slope));
      EXPECT(slope == 2 + 4 + 8);
      weft_scope_discard(scope);
    }
}

/* Zeros with a part that was set, evaluated, and without a memory of how it was made. */
static weft_array *evaluated_part(int at) {
  weft_scope *s = weft_scope_open();
  weft_array *zeros = weft_full(WEFT_F32, WEFT_DIMS(8), 0);
  weft_array *v = weft_add(weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 1, 2 }), weft_scalar(at));
  weft_array *y = weft_own(weft_put(zeros, weft_slice(zeros, 0, at, at + 2, 1), v, WEFT_SET));
  weft_scope_discard(s);
  EXPECT_OK(weft_eval(1, &y));
  return y;
}

static weft_array *evaluated_zeros(void) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_own(weft_reshape(weft_broadcast(weft_scalar(0), WEFT_DIMS(2, 4)), WEFT_DIMS(8)));
  weft_scope_discard(s);
  EXPECT_OK(weft_eval(1, &y));
  return y;
}

TEST(cotangents_that_have_forgotten_what_they_are_made_of_are_added_by_their_values) {
  static const float want[3][8] = { { 2, 4, 0, 0, 10, 12, 0, 0 }, { 0, 0, 0, 0, 10, 12, 0, 0 }, { 2, 4, 0, 0, 0, 0, 0, 0 } };
  weft_array *first = evaluated_part(0), *second = evaluated_part(4), *zeros = evaluated_zeros();
  weft_array *const seed[3][2] = { { first, second }, { zeros, second }, { first, zeros } };
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < 64; k++) { /* in the memory of what is gone */
    weft_array *other = weft_add(weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 77, 78 }), weft_scalar(k));
    EXPECT_OK(weft_eval(1, &other));
  }
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(8), 3), *y = weft_mul(x, weft_scalar(2)), *dx;
  for (int k = 0; k < 3; k++) {
    float got[8] = { 0 };
    weft_vjp(2, (weft_array *[]){ y, y }, seed[k], 1, &x, &dx);
    EXPECT_OK(weft_read(dx, WEFT_F32, got, sizeof got));
    for (int i = 0; i < 8; i++) if (got[i] != want[k][i]) test_fail(__FILE__, __LINE__, "%d: element %d is %g", k, i, (double)got[i]);
  }
  weft_scope_discard(s);
  weft_disown(first), weft_disown(second), weft_disown(zeros);
}
