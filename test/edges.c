/* edges.c -- derivatives where they are hard: ties, zeros in products, repeated targets, branches that are not taken; first
 * and second ones, by reverse and by forward mode. What is right is written down by hand. */
#include <math.h>
#include "values.h"

static weft_array *gradient(weft_array *y, weft_array *x) {
  weft_array *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}

/* The gradient by forward mode: the map over unit directions of the sum of what each contributes. */
static weft_array *forward(weft_array *y, weft_array *x) {
  int64_t n = weft_dim(x, 0);
  weft_array *u = weft_input(WEFT_F64, WEFT_DIMS(n)), *units = weft_eye(WEFT_F64, n, n, 0), *dy, *all;
  weft_jvp(1, &x, &u, 1, &y, &dy);
  dy = weft_sum(dy, WEFT_ALL);
  weft_map(1, &u, &units, 1, &dy, &all);
  return all;
}

#define EXPECT_GRADIENT(y, x, ...)            \
  do {                                        \
    EXPECT_F64(gradient(y, x), __VA_ARGS__);  \
    EXPECT_F64(forward(y, x), __VA_ARGS__);   \
  } while (0)

/* Of the sum of the gradient: the sum of each row of the Hessian. */
#define EXPECT_SECOND(y, x, ...)                             \
  do {                                                       \
    weft_array *g_ = gradient(y, x);                         \
    EXPECT_GRADIENT(g_, x, __VA_ARGS__);                     \
    weft_array *f_ = forward(y, x);                          \
    EXPECT_F64(gradient(f_, x), __VA_ARGS__);                \
  } while (0)

TEST(products_with_zeros_have_the_derivatives_of_products) {
  weft_scope *s = weft_scope_open();
  weft_array *one = f64s(3, (double[]){ 2, 0, 3 }), *two = f64s(3, (double[]){ 2, 0, 0 }), *all = f64s(3, (double[]){ 0, 0, 0 });
  EXPECT_GRADIENT(weft_prod(one, 0), one, 0, 6, 0);
  EXPECT_SECOND(weft_prod(one, 0), one, 3, 5, 2);
  EXPECT_GRADIENT(weft_prod(two, 0), two, 0, 0, 0);
  EXPECT_SECOND(weft_prod(two, 0), two, 0, 2, 2);
  EXPECT_GRADIENT(weft_prod(all, WEFT_ALL), all, 0, 0, 0);
  EXPECT_SECOND(weft_prod(all, WEFT_ALL), all, 0, 0, 0);
  weft_scope_discard(s);
}

TEST(running_products_with_zeros_have_the_derivatives_of_products) {
  weft_scope *s = weft_scope_open();
  weft_array *one = f64s(3, (double[]){ 2, 0, 3 }), *two = f64s(3, (double[]){ 0, 0, 3 }); /* x + xy + xyz */
  EXPECT_GRADIENT(weft_cumprod(one, 0), one, 1, 8, 0);
  EXPECT_SECOND(weft_cumprod(one, 0), one, 4, 6, 2); /* xy: 1 + z = 4, xz: y = 0, yz: x = 2 */
  EXPECT_GRADIENT(weft_cumprod(two, 0), two, 1, 0, 0);
  EXPECT_SECOND(weft_cumprod(two, 0), two, 4, 4, 0);
  weft_scope_discard(s);
}

/* x with v multiplied in at places, some of them twice. */
static weft_array *multiplied(weft_array *x, weft_array *v, int n, const int64_t at[]) {
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(n), at);
  return weft_put(x, weft_take(x, 1, &i), v, WEFT_MUL);
}

TEST(zeros_multiplied_into_one_place_have_the_derivatives_of_products) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 2, 0 }), *v = f64s(3, (double[]){ 0, 3, 0 });
  weft_array *y = multiplied(x, v, 3, (int64_t[]){ 0, 0, 1 }); /* x0 v0 v1 + x1 v2 */
  EXPECT_GRADIENT(y, x, 0, 0);
  EXPECT_GRADIENT(y, v, 6, 0, 0);
  EXPECT_SECOND(y, v, 2, 2, 0);
  EXPECT_F64(gradient(gradient(y, v), x), 3, 1); /* v0 + v1, and of x1 v2 */
  weft_array *none = f64s(3, (double[]){ 0, 0, 5 }), *z = multiplied(x, none, 3, (int64_t[]){ 0, 0, 0 }); /* x0 v0 v1 v2 + x1 */
  EXPECT_GRADIENT(z, none, 0, 0, 0);
  EXPECT_SECOND(z, none, 10, 10, 0);
  EXPECT_GRADIENT(z, x, 0, 1);
  weft_scope_discard(s);
}

TEST(what_a_later_update_overwrites_has_derivative_zero) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 1, 2, 3 }), *v = f64s(4, (double[]){ 4, 5, 6, 7 });
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(4), (int64_t[]){ 0, 2, 0, -1 }), *y = weft_put(x, weft_take(x, 1, &i), v, WEFT_SET);
  EXPECT_F64(y, 6, 2, 7);
  EXPECT_GRADIENT(y, x, 0, 1, 0);
  EXPECT_GRADIENT(y, v, 0, 0, 1, 1);
  EXPECT_SECOND(weft_mul(y, y), v, 0, 0, 2, 2);
  weft_array *back = weft_put(x, weft_slice(x, 0, 2, WEFT_BEGIN, -2), weft_slice(v, 0, 0, 2, 1), WEFT_SET);
  EXPECT_F64(back, 5, 2, 4);
  EXPECT_GRADIENT(weft_mul(back, back), v, 8, 10, 0, 0);
  EXPECT_GRADIENT(weft_mul(back, back), x, 0, 4, 0);
  weft_scope_discard(s);
}

TEST(ties_share_the_derivative_of_an_extremum) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 5, 5, -2 }), *v = f64s(3, (double[]){ 5, 7, 7 });
  EXPECT_GRADIENT(weft_max(x, 0), x, 0, 0.5, 0.5, 0);
  EXPECT_GRADIENT(weft_min(x, 0), x, 0, 0, 0, 1);
  EXPECT_GRADIENT(weft_maximum(x, weft_scalar(5)), x, 0, 0.5, 0.5, 0);
  EXPECT_GRADIENT(weft_cummax(x, 0), x, 1, 3, 0, 0); /* the first of equal ones */
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 1, 3, 3 });
  weft_array *high = weft_put(x, weft_take(x, 1, &i), v, WEFT_MAX), *low = weft_put(x, weft_take(x, 1, &i), v, WEFT_MIN);
  EXPECT_GRADIENT(high, x, 1, 0.5, 1, 0);
  EXPECT_GRADIENT(high, v, 0.5, 0.5, 0.5);
  EXPECT_GRADIENT(low, x, 1, 0.5, 1, 1);
  EXPECT_GRADIENT(low, v, 0.5, 0, 0);
  EXPECT_SECOND(weft_mul(high, high), x, 2, 0.5, 2, 0);
  weft_scope_discard(s);
}

TEST(nans_that_win_have_the_derivative_of_an_extremum_forward_and_backward) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, NAN, 9, NAN }), *dx = f64s(4, (double[]){ 1, 2, 4, 8 }), *y[2] = { weft_max(x, 0), weft_min(x, 0) }, *dy[2];
  EXPECT_GRADIENT(y[0], x, 0, 0.5, 0, 0.5);
  EXPECT_GRADIENT(y[1], x, 0, 0.5, 0, 0.5);
  weft_jvp(1, &x, &dx, 2, y, dy);
  EXPECT_F64(dy[0], 5);
  EXPECT_F64(dy[1], 5);
  weft_scope_discard(s);
}

TEST(repeated_indices_and_overlapping_windows_collect_all_derivatives) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 2, 3, 4 }), *i = weft_from(WEFT_I64, WEFT_DIMS(5), (int64_t[]){ 1, 1, -1, 1, 3 });
  weft_array *t = weft_take(x, 1, &i), *w = weft_as_strided(x, WEFT_DIMS(3, 2), (int64_t[]){ 1, -1 }, 1), *b = weft_as_strided(x, WEFT_DIMS(3), (int64_t[]){ 0 }, 2);
  EXPECT_GRADIENT(t, x, 0, 3, 0, 2);
  EXPECT_SECOND(weft_mul(t, weft_mul(t, t)), x, 0, 36, 0, 48);
  EXPECT_GRADIENT(weft_mul(w, w), x, 2, 8, 12, 8);
  EXPECT_SECOND(weft_mul(w, w), x, 2, 4, 4, 2);
  EXPECT_GRADIENT(weft_mul(b, b), x, 0, 0, 18, 0);
  weft_scope_discard(s);
}

TEST(views_backwards_and_joints_pass_derivatives_to_their_places) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 2, 3, 4 }), *odd = weft_slice(x, 0, 3, WEFT_BEGIN, -2), *flipped = weft_flip(x, 0);
  weft_array *c = weft_arange(WEFT_F64, 1, 3, 1), *p = weft_pad(odd, 0, 1, 2, weft_at(x, 0, weft_integer(0)));
  EXPECT_GRADIENT(weft_mul(odd, c), x, 0, 2, 0, 1);
  EXPECT_GRADIENT(weft_mul(flipped, weft_mul(x, x)), x, 24, 21, 16, 9); /* x_i^2 x_j + x_j^2 x_i */
  EXPECT_GRADIENT(weft_mul(p, p), x, 6, 4, 0, 8);
  EXPECT_SECOND(weft_mul(p, p), x, 6, 2, 0, 2);
  weft_array *joint = weft_concat(0, WEFT_ARRAYS(x, odd, x));
  EXPECT_GRADIENT(weft_mul(joint, joint), x, 4, 12, 12, 24);
  weft_scope_discard(s);
}

TEST(a_branch_that_is_not_taken_passes_on_neither_nan_nor_inf) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ -1, 2, 0 }), *is_above = weft_gt(x, weft_scalar(0)), *nan = weft_scalar(NAN);
  EXPECT_GRADIENT(weft_where(is_above, weft_log(x), weft_mul(x, weft_scalar(3))), x, 3, 0.5, 3);
  EXPECT_GRADIENT(weft_where(is_above, weft_mul(x, x), weft_scalar(-INFINITY)), x, 0, 4, 0);
  EXPECT_GRADIENT(weft_where(is_above, weft_exp(weft_mul(x, weft_scalar(1))), nan), x, 0, exp(2), 0);
  weft_array *large = f64s(2, (double[]){ 1000, 1 }), *is_small = weft_lt(large, weft_scalar(10));
  EXPECT_GRADIENT(weft_where(is_small, weft_exp(large), large), large, 1, exp(1));
  EXPECT_SECOND(weft_where(is_small, weft_exp(large), large), large, 0, exp(1));
  weft_scope_discard(s);
}

TEST(what_is_not_read_passes_on_neither_nan_nor_inf) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(3, (double[]){ 0, 2, NAN }), *i = weft_from(WEFT_I64, WEFT_DIMS(2), (int64_t[]){ 1, 1 }), *l = weft_log(x);
  EXPECT_GRADIENT(weft_take(l, 1, &i), x, 0, 1, 0);
  EXPECT_GRADIENT(weft_slice(l, 0, 1, 2, 1), x, 0, 0.5, 0);
  EXPECT_SECOND(weft_slice(l, 0, 1, 2, 1), x, 0, -0.25, 0);
  EXPECT_GRADIENT(weft_as_strided(l, WEFT_DIMS(1), (int64_t[]){ 1 }, 1), x, 0, 0.5, 0);
  EXPECT_GRADIENT(weft_max(weft_slice(weft_sqrt(x), 0, 0, 2, 1), 0), x, 0, 0.5 / sqrt(2), 0);
  weft_array *w = f64s(3, (double[]){ 1, 1, 1 }), *known = weft_where(weft_isnan(x), weft_scalar(0), weft_mul(x, w));
  EXPECT_GRADIENT(known, w, 0, 2, 0);
  EXPECT_GRADIENT(known, x, 1, 1, 0);
  weft_scope_discard(s);
}

/* As where(x > 0, log(x), x), in something that has a body of its own. */
static weft_array *guarded(weft_array *x) {
  weft_array *l = weft_log(x);
  return weft_where(weft_gt(x, weft_scalar(0)), l, x);
}
static weft_array *in_call(weft_array *x) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(2)), *out = weft_log(in), *y;
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  return weft_where(weft_gt(x, weft_scalar(0)), y, x);
}
static weft_array *in_checkpoint(weft_array *x) {
  weft_array *l = weft_log(x);
  weft_checkpoint(1, &x, 1, &l);
  return weft_where(weft_gt(x, weft_scalar(0)), l, x);
}
static weft_array *in_loop(weft_array *x) {
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(loop, x), *all = weft_loop_all(loop, weft_log(x_t));
  weft_loop_close(loop);
  return weft_where(weft_gt(x, weft_scalar(0)), all, x);
}

TEST(a_branch_not_taken_is_the_same_in_calls_checkpoints_and_loops) {
  array_function of[] = { guarded, in_call, in_checkpoint, in_loop };
  for (int k = 0; k < 4; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(2, (double[]){ 0, 4 }), *y = of[k](x);
    EXPECT_GRADIENT(y, x, 1, 0.25);
    EXPECT_SECOND(y, x, 0, -0.0625);
    weft_scope_discard(s);
  }
}

TEST(a_cotangent_that_happens_to_be_zero_has_its_slope) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(2, (double[]){ 1, 3 }), *d = weft_sub(x, weft_scalar(1)), *e = weft_exp(x);
  weft_array *y = weft_slice(weft_mul(weft_mul(d, d), e), 0, 0, 1, 1); /* (x - 1)^2 e^x at 1: the second is 2 e */
  EXPECT_GRADIENT(y, x, 0, 0);
  EXPECT_SECOND(y, x, 2 * exp(1), 0);
  weft_scope_discard(s);
}

TEST(a_broadcast_batch_of_matrices_sums_its_derivative) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 2, 3, 4 }), *m = weft_reshape(x, WEFT_DIMS(2, 2));
  weft_array *many = weft_reshape(weft_arange(WEFT_F64, 1, 13, 1), WEFT_DIMS(3, 2, 2));
  weft_array *y = weft_matmul(many, m), *z = weft_matmul(weft_reshape(x, WEFT_DIMS(2, 1, 1, 2)), many);
  EXPECT_GRADIENT(y, x, 36, 36, 42, 42);
  EXPECT_GRADIENT(z, x, 33, 45, 33, 45);
  EXPECT_SECOND(weft_mul(y, y), x, 1216, 1216, 1372, 1372);
  weft_scope_discard(s);
}

SCOPED(beta_of_the_smallest_numbers_is_the_sum_of_their_inverses) {
  const double a[] = { 4.9406564584124654e-324, 1e-310, 1e-291 }, ten = 2.302585092994045684, two = 0.69314718055994531;
  EXPECT_F64(weft_betaln(f64s(3, a), f64s(3, a)), 745.13321910194122, 310 * ten + two, 291 * ten + two);
  EXPECT_F64(weft_div(weft_beta(f64_of(1e-307), f64_of(1e-307)), f64_of(2e307)), 1);
}
