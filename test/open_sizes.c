/* open_sizes.c -- sizes and places that only a run tells: whoever needs one waits for the loop that tells it, and in a copy of
 * such a loop the sizes are its own. */
#include "values.h"

/* The rows of x as long as they are below 10: [n, ..]. */
static weft_array *rows_below_ten(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x);
  weft_loop_until(l, weft_gt(weft_sum(e, WEFT_ALL), weft_scalar(10)));
  weft_array *all = weft_loop_all(l, e);
  weft_loop_close(l);
  return all;
}

static const double FIVE[] = { 1, 2, 3, 40, 5 }, SIX[] = { 3, 1, 2, 5, 40, 7 };
static weft_array *three_by_two(void) { return weft_from(WEFT_F64, WEFT_DIMS(3, 2), SIX); }

static weft_array *pushed(weft_array *y, weft_array *x) {
  weft_array *dx = weft_full_like(x, 1), *dy;
  weft_jvp(1, &x, &dx, 1, &y, &dy);
  return dy;
}
static weft_array *pulled(weft_array *y, weft_array *dy, weft_array *x) {
  weft_array *dx;
  weft_vjp(1, &y, &dy, 1, &x, &dx);
  return dx;
}

/* Nothing leads from the last rows to the first: no carry, and sequences that are not read. */
SCOPED(the_last_rows_of_a_truncated_loop_without_state_are_where_they_are) {
  weft_array *x = f64s(5, FIVE);
  for (int64_t truncate = 1; truncate <= 5; truncate++) {
    weft_loop *l = weft_loop_open(NULL);
    weft_array *e = weft_loop_each(l, x);
    weft_loop_until(l, weft_gt(e, weft_scalar(10)));
    weft_loop_truncate(l, truncate);
    weft_array *tail = weft_loop_tail(l, weft_mul(e, weft_scalar(2)), 2), *three = weft_loop_tail(l, e, 3);
    weft_loop_close(l);
    EXPECT_F64(tail, 6, 80);
    EXPECT_F64(three, 2, 3, 40);
  }
}

SCOPED(running_extrema_and_products_of_rows_until_have_derivatives) {
  weft_array *x = three_by_two(), *y = weft_mul(rows_below_ten(x), weft_scalar(2));
  EXPECT_F64(pushed(weft_cummax(y, 1), x), 2, 2, 2, 2, 2, 2);
  EXPECT_F64(pushed(weft_cumprod(y, 0), x), 2, 2, 20, 24, 2 * 24 + 80 * 20, 2 * 20 + 14 * 24);
  EXPECT_F64(weft_sum(pulled(weft_cummin(y, 1), weft_full_like(y, 1), x), WEFT_ALL), 12);
  weft_array *z = weft_cumprod(weft_complex(y, weft_full_like(y, 0)), 1);
  EXPECT_F64(weft_real(z), 6, 12, 4, 40, 80, 80 * 14);
}

/* Sizes of a variable are those of what it goes through. */
SCOPED(a_carry_begins_with_the_sizes_of_the_elements_of_its_loop) {
  weft_array *rows = rows_below_ten(three_by_two());
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, weft_transpose(rows, NULL)), *c = weft_loop_carry(l, weft_full_like(e, 1));
  weft_array *d = weft_loop_carry(l, weft_full_like(c, 2));
  weft_loop_next(l, c, weft_add(c, weft_mul(d, e)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_F64(last, 9, 15, 95);
}

SCOPED(a_checkpoint_around_rows_until_has_a_gradient) {
  weft_array *x = three_by_two(), *y = weft_mul(rows_below_ten(x), rows_below_ten(x)), *seed = weft_from(WEFT_F64, WEFT_DIMS(3, 2), SIX);
  weft_checkpoint(1, &x, 1, &y);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_F64(pulled(y, seed, x), 18, 2, 8, 50, 3200, 98);
}

/* Own rules and checkpoints in a body whose sizes differ from step to step. */
static weft_array *with_regions(weft_array *x) {
  weft_loop *outer = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(outer, x);
  weft_array *rows = rows_below_three(c);
  weft_array *y = weft_mul(rows, weft_scalar(0.3)), *z = weft_sin(y), *w = weft_mul(z, y);
  weft_custom(1, &rows, 1, &y, &(weft_rules){ 0 });
  weft_checkpoint(1, &y, 1, &z);
  weft_checkpoint(1, &rows, 1, &w);
  weft_loop_next(outer, c, weft_squeeze(weft_sum(weft_mul(weft_add(z, w), weft_scalar(0.5)), 0), 0));
  weft_array *last = weft_loop_last(outer, c);
  weft_loop_close(outer);
  return last;
}
TEST(regions_stand_in_bodies_whose_sizes_differ_from_step_to_step) {
  const double x[] = { 0.3, 0.4, 0.6 };
  check_function("regions", with_regions, 3, x);
}

/* The last four of fewer rows: those before begin nowhere until their number is known. */
SCOPED(a_function_of_any_size_has_the_gradient_of_its_last_rows) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *dx;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *tail = weft_loop_tail(l, weft_mul(e, weft_scalar(3)), 4);
  weft_loop_close(l);
  weft_grad(weft_sum(tail, WEFT_ALL), 1, &x, &dx);
  weft_function *f = weft_compile(s, 1, &x, 1, &dx);
  for (int n = 0; n <= 6; n++) {
    weft_array *arg = f64s(n, SIX), *y;
    double got[6];
    weft_call(f, 1, &arg, 1, &y);
    if (read_f64(y, n, got)) for (int i = 0; i < n; i++) EXPECT_NEAR(got[i], i < n - 4 ? 0 : 3, 0);
  }
}

/* The loop that counts steps reads no input, and those of the stretches do: a copy of one must not leave the other behind. */
SCOPED(a_function_computes_a_loop_whose_length_no_input_changes) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(2)), *zeros = weft_full(WEFT_F64, WEFT_DIMS(5, 1), 0.5);
  weft_loop *l = weft_loop_open(weft_integer(4));
  weft_array *e = weft_loop_each(l, zeros), *c = weft_loop_carry(l, x);
  weft_array *at = weft_at(weft_slice(weft_add(e, weft_scalar(1)), 0, 0, 1, 1), 0, weft_integer(0));
  weft_loop_next(l, c, weft_mul(c, at));
  weft_loop_until(l, weft_lt(at, weft_scalar(0)));
  weft_array *tail = weft_loop_tail(l, c, 3), *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_array *y[] = { weft_sum(tail, WEFT_ALL), last };
  weft_function *f = weft_compile(s, 1, &x, 2, y);
  for (int times = 0; times < 2; times++) {
    weft_array *arg = f64s(2, FIVE), *z[2];
    weft_call(f, 1, &arg, 2, z);
    EXPECT_F64(z[1], 5.0625, 10.125);
    EXPECT_F64(z[0], 3 * (1.5 + 2.25 + 3.375));
  }
}

/* A loop that reads nothing at all, in a side of a choice, and one in a loop in it. */
static weft_array *chosen(weft_array *x, bool is_first) {
  weft_cond *c = weft_cond_open(weft_from(WEFT_BOOL, 0, NULL, &is_first));
  weft_loop *l = weft_loop_open(NULL);
  weft_loop_each(l, x);
  weft_array *ones = weft_loop_all(l, weft_cast(weft_scalar(1), WEFT_F64));
  weft_loop_close(l);
  weft_array *y = weft_cond_value(c, weft_mul(ones, weft_scalar(3)), weft_full(WEFT_F64, WEFT_DIMS(2), 5));
  weft_cond_close(c);
  return y;
}
SCOPED(a_loop_without_inputs_stands_in_a_side_of_a_choice) {
  weft_array *x = f64s(2, FIVE), *dx;
  EXPECT_F64(chosen(x, true), 3, 3);
  EXPECT_F64(chosen(x, false), 5, 5);
  weft_array *y = weft_mul(chosen(x, true), x);
  weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx);
  EXPECT_F64(dx, 3, 3);
}

/* Sizes that are not known yet are taken to be equal by all who want two that are, and it is told when they are not. */
SCOPED(carries_parts_and_derivatives_trust_open_sizes_as_sums_do) {
  weft_array *rows = rows_below_ten(f64s(5, FIVE)), *four = f64s(4, SIX), *three = f64s(3, SIX);
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, four), *d = weft_loop_carry(l, rows);
  weft_loop_next(l, c, d);
  weft_loop_next(l, d, four);
  weft_array *last = weft_loop_last(l, c), *other = weft_loop_last(l, d);
  weft_loop_close(l);
  EXPECT_F64(last, 3, 1, 2, 5);
  EXPECT_F64(other, 3, 1, 2, 5);
  weft_array *x = f64s(6, SIX), *part = weft_slice(x, 0, 1, 5, 1), *open = rows_below_ten(f64s(5, FIVE)), *dy;
  EXPECT_F64(weft_put(x, part, open, WEFT_SET), 3, 1, 2, 3, 40, 7);
  weft_array *a = rows_below_ten(f64s(5, FIVE)), *y = weft_mul(a, a), *dx;
  weft_jvp(1, &a, &four, 1, &y, &dy);
  EXPECT_F64(dy, 6, 4, 12, 400);
  weft_vjp(1, &y, &four, 1, &a, &dx);
  EXPECT_F64(dx, 6, 4, 12, 400);
  weft_array *b = rows_below_ten(f64s(5, FIVE)), *z = weft_mul(b, b);
  weft_vjp(1, &z, &three, 1, &b, &dx);
  EXPECT_INT(weft_eval(1, &dx), WEFT_ERR_SHAPE);
}

/* What is known of an array that is read in a body has become known since the body was written. */
SCOPED(a_gradient_goes_through_a_choice_that_reads_rows_whose_number_is_known_by_now) {
  weft_array *x = f64s(5, FIVE), *rows = rows_below_ten(weft_mul(x, weft_scalar(1))), *dx;
  weft_cond *c = weft_cond_open(weft_gt(weft_at(x, 0, weft_integer(0)), weft_scalar(0)));
  weft_array *side = weft_sum(weft_slice(weft_mul(rows, weft_scalar(2)), 0, 0, 2, 1), WEFT_ALL);
  weft_array *y = weft_cond_value(c, side, f64_of(1));
  weft_cond_close(c);
  EXPECT_F64(y, 6);
  weft_grad(y, 1, &x, &dx);
  EXPECT_F64(dx, 2, 2, 0, 0, 0);
}

SCOPED(what_a_map_over_open_rows_does_not_change_stands_in_every_row) {
  weft_array *rows = rows_below_ten(three_by_two()), *x = weft_input(WEFT_F64, WEFT_DIMS(2)), *y = weft_mul(f64_of(3), f64_of(2)), *ys;
  weft_map(1, &x, &rows, 1, &y, &ys);
  EXPECT_F64(ys, 6, 6, 6);
}

/* Where a part of a concatenation begins is told by those before it. */
SCOPED(a_concatenation_of_open_rows_has_derivatives) {
  weft_array *x = f64s(5, FIVE), *a = rows_below_ten(x), *y = weft_concat(0, WEFT_ARRAYS(a, x, a)), *dx;
  const double seed[] = { 1, 2, 3, 4, 10, 20, 30, 40, 50, 100, 200, 300, 400 };
  weft_array *dy = f64s(13, seed);
  weft_vjp(1, &y, &dy, 1, &x, &dx);
  EXPECT_F64(dx, 111, 222, 333, 444, 50);
  EXPECT_F64(pushed(weft_concat(0, WEFT_ARRAYS(rows_below_ten(x), x)), x), 1, 1, 1, 1, 1, 1, 1, 1, 1);
}

/* A function that wants three elements, of rows whose number only a run tells. */
SCOPED(a_function_of_a_known_size_takes_an_open_one_for_it) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(4)), *y = weft_mul(x, weft_scalar(2)), *z;
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  weft_array *rows = rows_below_ten(f64s(5, FIVE)), *fewer = rows_below_ten(f64s(3, FIVE));
  weft_call(f, 1, &rows, 1, &z);
  EXPECT_F64(z, 2, 4, 6, 80);
  weft_call(f, 1, &fewer, 1, &z);
  EXPECT_INT(weft_eval(1, &z), WEFT_ERR_SHAPE);
}

SCOPED(medians_and_grids_of_an_open_size_are_those_of_a_known_one) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y[] = { weft_nanmedian(x, 0), weft_nanquantile(x, weft_scalar(0.25), 0, WEFT_LINEAR) }, *z[2];
  weft_function *f = weft_compile(s, 1, &x, 2, y);
  for (int n = 0; n <= 5; n++) {
    weft_array *arg = f64s(n, FIVE);
    weft_call(f, 1, &arg, 2, z);
    EXPECT_SAME(z[0], weft_nanmedian(arg, 0));
    EXPECT_SAME(z[1], weft_nanquantile(arg, weft_scalar(0.25), 0, WEFT_LINEAR));
  }
  weft_array *in[] = { rows_below_ten(f64s(2, FIVE)), f64s(3, SIX) }, *grid[2];
  weft_meshgrid(2, in, true, grid);
  EXPECT_F64(grid[1], 3, 3, 1, 1, 2, 2);
}

/* What an evaluation has told cannot be mapped any more; to write a softmax is none. */
SCOPED(functions_of_rows_until_evaluate_nothing_when_they_are_written) {
  weft_array *x = f64s(5, FIVE), *rows = rows_below_ten(x), *xs = weft_stack(0, WEFT_ARRAYS(x, weft_flip(x, 0))), *ys;
  weft_array *y = weft_sum(weft_add(weft_softmax(rows, 0), weft_sum(weft_diff(rows, 1, 0), 0)), WEFT_ALL);
  weft_map(1, &x, &xs, 1, &y, &ys);
  EXPECT_F64(ys, 1 + 4 * 39, 1 + 2 * 35);
}

/* The operand that tells a size has no tangent; and a gradient that is 0 reads nothing that tells one. */
SCOPED(derivatives_of_open_sizes_that_read_no_rows_know_them) {
  weft_array *x = f64s(5, FIVE), *c = f64_of(2), *dx, *y = weft_sum(weft_sub(rows_below_ten(x), c), WEFT_ALL);
  EXPECT_F64(pushed(y, c), -4);
  weft_grad(weft_sum(weft_sub(rows_below_ten(x), c), WEFT_ALL), 1, &c, &dx);
  EXPECT_F64(dx, -4);
  weft_array *rows = rows_below_ten(x), *inner = weft_add(rows, c);
  weft_checkpoint(1, &c, 1, &inner);
  weft_array *outer = weft_mul(inner, weft_scalar(2));
  weft_checkpoint(1, &c, 1, &outer);
  EXPECT_OK(weft_eval(1, &outer));
  EXPECT_F64(pulled(outer, f64s(4, SIX), c), 22);
}

/* Tangents of a loop's rows, as a function: their own size is that of another input. */
SCOPED(a_tangent_waits_for_the_size_it_was_taken_to_have) {
  weft_scope *s = weft_scope_open();
  weft_array *u = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *v = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *x, *y, *z[2];
  x = weft_alias(weft_mul(rows_below_ten(v), weft_scalar(2)));
  y = weft_where(weft_gt(u, weft_scalar(2)), x, x);
  weft_jvp(1, &x, &u, 1, &y, &z[0]);
  weft_vjp(1, &y, &u, 1, &x, &z[1]);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ u, v }, 2, z);
  weft_call(f, 2, (weft_array *[]){ f64s(4, SIX), f64s(5, FIVE) }, 2, z);
  EXPECT_F64(z[0], 3, 1, 2, 5);
  EXPECT_F64(z[1], 3, 1, 2, 5);
  weft_call(f, 2, (weft_array *[]){ f64s(3, SIX), f64s(5, FIVE) }, 2, z);
  EXPECT_INT(weft_eval(1, z), WEFT_ERR_SHAPE);
}

/* y has run, and some of its sizes are numbers: the region computed again has the same. */
SCOPED(a_checkpoint_that_has_run_has_a_gradient) {
  weft_array *x = f64s(5, FIVE), *dy;
  weft_loop *l = weft_loop_open(NULL); /* its last rows are a loop of their own, behind one that counts */
  weft_array *e = weft_loop_each(l, x);
  weft_loop_until(l, weft_gt(e, weft_scalar(10)));
  weft_array *tail = weft_loop_tail(l, weft_mul(e, e), 3);
  weft_loop_close(l);
  weft_cond *c = weft_cond_open(weft_lt(weft_at(x, 0, weft_integer(0)), weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_sum(x, WEFT_ALL), weft_nansum(weft_slice(weft_flip(tail, 0), 0, 1, WEFT_END, 1), WEFT_ALL));
  weft_cond_close(c);
  weft_checkpoint(1, &x, 1, &y);
  weft_jvp(1, &x, &x, 1, &y, &dy);
  EXPECT_F64(dy, 2 * (9 + 4));
  EXPECT_F64(pulled(y, weft_full_like(y, 1), x), 0, 4, 6, 0, 0);
}

/* The body reads no row, but they say how often it runs; and no row reads what the region is of. */
SCOPED(a_checkpoint_around_a_loop_that_only_counts_rows_has_a_gradient) {
  weft_array *x = f64s(2, FIVE), *one = weft_from(WEFT_F64, 0, NULL, FIVE);
  weft_loop *rows = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(rows, x);
  weft_loop_next(rows, c, x);
  weft_loop_until(rows, weft_gt(one, weft_scalar(0)));
  weft_array *xs = weft_loop_all(rows, x), *ones = weft_loop_all(rows, one);
  weft_loop_close(rows);
  weft_loop *l = weft_loop_open(NULL);
  weft_loop_each(l, weft_nancumsum(ones, 0));
  weft_loop_each(l, xs);
  c = weft_loop_carry(l, x);
  weft_loop_next(l, c, weft_mul(x, x));
  weft_loop_recompute(l, 1);
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_checkpoint(1, &x, 1, &y);
  EXPECT_F64(pushed(y, x), 2, 4);
  EXPECT_F64(pulled(y, x, x), 2, 8);
}

/* As where the size is known: extrema of nothing are refused, whatever computes them; what is composed of one has its own value. */
SCOPED(extrema_of_an_open_size_that_turns_out_to_be_0_are_refused) {
  static const weft_dtype dtypes[] = { WEFT_I8, WEFT_I16, WEFT_U8, WEFT_I64, WEFT_BOOL, WEFT_BF16, WEFT_E4M3, WEFT_F32, WEFT_F64 };
  weft_array *(*const of[])(weft_array *, int) = { weft_max, weft_min, weft_argmax, weft_nanmax, weft_nanargmin };
  weft_array *none = weft_from(WEFT_F64, WEFT_DIMS(0, 2), NULL), *y;
  for (int t = 0; t < 8; t++)
    for (int k = 0; k < 5; k++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = weft_input(dtypes[t], WEFT_DIMS(WEFT_ANY, 2)), *r = of[k](x, 0);
      weft_function *f = weft_compile(s, 1, &x, 1, &r);
      weft_call(f, 1, (weft_array *[]){ weft_cast(none, dtypes[t]) }, 1, &y);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
      EXPECT(strstr(weft_message(), "nothing to choose from in [0,2] along axis 0") != NULL);
      weft_call(f, 1, (weft_array *[]){ weft_cast(three_by_two(), dtypes[t]) }, 1, &y);
      EXPECT_OK(weft_eval(1, &y));
    }
  weft_array *rows = weft_slice(rows_below_ten(f64s(5, FIVE)), 0, 4, WEFT_END, 1); /* [0] */
  y = weft_softmax(rows, 0);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(weft_dim(y, 0), 0);
  EXPECT(one_f64(weft_logsumexp(rows, 0)) == -INFINITY);
  EXPECT(isnan(one_f64(weft_nanmedian(rows, 0))));
  EXPECT(isnan(one_f64(weft_median(rows, 0))));
  EXPECT(isnan(one_f64(weft_quantile(rows, weft_scalar(0.5), 0, WEFT_LINEAR))));
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, f64_of(1));
  weft_loop_next(l, c, weft_add(c, weft_max(weft_mul(rows, c), WEFT_ALL)));
  y = weft_loop_last(l, c);
  weft_loop_close(l);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
}

/* The derivative is 0 and reads nothing, but x is no array: its operands have sizes that do not go together. */
SCOPED(a_derivative_of_0_by_an_array_that_cannot_be_is_an_error) {
  weft_scope *s = weft_scope_open();
  weft_array *u = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *v = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *x, *z[2];
  x = weft_alias(weft_where(weft_gt(rows_below_ten(v), weft_scalar(2)), rows_below_ten(v), u));
  weft_array *one = f64_of(1);
  weft_grad(one, 1, &x, &z[0]);
  weft_jvp(1, &one, &one, 1, &x, &z[1]);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ u, v }, 2, z);
  weft_call(f, 2, (weft_array *[]){ f64s(4, SIX), f64s(5, FIVE) }, 2, z);
  EXPECT_F64(z[0], 0, 0, 0, 0);
  EXPECT_F64(z[1], 0, 0, 0, 0);
  weft_call(f, 2, (weft_array *[]){ f64s(1, SIX), f64s(5, FIVE) }, 2, z);
  for (int k = 0; k < 2; k++) EXPECT_INT(weft_eval(1, &z[k]), WEFT_ERR_SHAPE);
}

/* One side of a choice knows its size, the other is as long as an input: its derivative is that of the input. */
SCOPED(the_gradient_of_a_choice_whose_sides_meet_has_the_sizes_of_its_x) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *p = weft_alias(x), *q = weft_alias(x), *dx[2];
  weft_array *sum = weft_logsumexp(p, 0);
  weft_cond *c = weft_cond_open(weft_from(WEFT_BOOL, 0, NULL, &(bool){ true }));
  weft_array *y = weft_cond_value(c, weft_sub(sum, x), f64s(3, SIX));
  weft_cond_close(c);
  weft_grad(y, 2, (weft_array *[]){ p, q }, dx);
  weft_function *f = weft_compile(s, 1, &x, 2, dx);
  weft_call(f, 1, (weft_array *[]){ f64s(3, (double[]){ 0, 0, 0 }) }, 2, dx);
  EXPECT_F64(dx[0], 1, 1, 1);
  EXPECT_F64(dx[1], 0, 0, 0);
  weft_call(f, 1, (weft_array *[]){ f64s(4, FIVE) }, 2, dx);
  EXPECT_INT(weft_eval(1, dx), WEFT_ERR_SHAPE);
}

/* Of two open sequences the shorter one ends the loop, be it of no rows. */
SCOPED(a_loop_that_recomputes_goes_through_the_shorter_of_two_open_sequences) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out[2];
  weft_loop *l = weft_loop_open(NULL);
  weft_loop_each(l, x);
  weft_array *b = weft_loop_each(l, y), *c = weft_loop_carry(l, y);
  weft_loop_next(l, c, c);
  weft_loop_until(l, weft_from(WEFT_BOOL, 0, NULL, &(bool){ true }));
  weft_loop_recompute(l, 3);
  weft_array *all = weft_loop_all(l, b);
  out[0] = weft_loop_last(l, c);
  weft_loop_close(l);
  out[1] = weft_sum(all, WEFT_ALL);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ x, y }, 2, out);
  weft_call(f, 2, (weft_array *[]){ f64s(0, FIVE), f64s(3, SIX) }, 2, out);
  EXPECT_F64(out[0], 3, 1, 2);
  EXPECT_F64(out[1], 0);
  weft_call(f, 2, (weft_array *[]){ f64s(5, FIVE), f64s(2, SIX) }, 2, out);
  EXPECT_F64(out[0], 3, 1);
  EXPECT_F64(out[1], 3);
}

/* c <- c + e over the n elements of x, as a function of x: all of c, with carries kept every three steps, or its last two. */
static weft_function *running_sum(bool is_tail) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x), *c = weft_loop_carry(l, weft_full(WEFT_F64, 0, NULL, 0)), *next = weft_add(c, e);
  weft_loop_next(l, c, next);
  if (!is_tail) weft_loop_recompute(l, 3);
  y = is_tail ? weft_loop_tail(l, next, 2) : weft_loop_all(l, next);
  weft_loop_close(l);
  return weft_compile(s, 1, &x, 1, &y);
}

/* A loop in parts (segments of three steps and what is left; the first steps and the last two) makes as many steps as the whole:
 * where sizes tell how many these are, what it gives has sizes that another loop may stack. */
SCOPED(what_a_loop_in_parts_gives_has_the_rows_of_its_sequence) {
  weft_array *xs = weft_from(WEFT_F64, WEFT_DIMS(2, 5), ((double[]){ 1, 2, 3, 4, 5, 10, 20, 30, 40, 50 }));
  for (int is_tail = 0; is_tail < 2; is_tail++) {
    weft_function *f = running_sum(is_tail);
    weft_loop *l = weft_loop_open(NULL);
    weft_array *row = weft_loop_each(l, xs), *y, *dx;
    weft_call(f, 1, &row, 1, &y);
    y = weft_loop_all(l, y);
    weft_loop_close(l);
    EXPECT_INT(weft_rank(y), 2);
    EXPECT_INT(weft_dim(y, 1), is_tail ? 2 : 5);
    weft_grad(weft_sum(weft_mul(y, y), WEFT_ALL), 1, &xs, &dx);
    if (is_tail) {
      EXPECT_F64(y, 10, 15, 100, 150);
      EXPECT_F64(dx, 50, 50, 50, 50, 30, 500, 500, 500, 500, 300);
    } else {
      EXPECT_F64(y, 1, 3, 6, 10, 15, 10, 30, 60, 100, 150);
      EXPECT_F64(dx, 70, 68, 62, 50, 30, 700, 680, 620, 500, 300);
    }
    for (int n = 0; n < 8; n++) {
      weft_array *x = weft_arange(WEFT_F64, 1, n + 1, 1), *sum;
      weft_call(f, 1, &x, 1, &sum);
      EXPECT_INT(weft_dim(sum, 0), is_tail && n > 2 ? 2 : n);
      if (n) EXPECT_F64(weft_at(sum, 0, weft_integer(-1)), n * (n + 1) / 2.0);
    }
  }
}

SCOPED(rows_of_an_open_length_are_mapped_as_those_of_the_length_they_should_have) {
  weft_array *row = weft_input(WEFT_F64, WEFT_DIMS(4)), *y = weft_mul(row, weft_scalar(2)), *out;
  weft_array *xs = weft_unsqueeze(rows_below_ten(f64s(5, FIVE)), 0); /* [1, n], and n turns out to be 4 */
  weft_map(1, &row, &xs, 1, &y, &out);
  EXPECT_F64(out, 2, 4, 6, 80);
  weft_array *three = weft_input(WEFT_F64, WEFT_DIMS(3)), *z = weft_mul(three, weft_scalar(2));
  xs = weft_unsqueeze(rows_below_ten(f64s(5, FIVE)), 0);
  weft_map(1, &three, &xs, 1, &z, &out);
  EXPECT_INT(weft_eval(1, &out), WEFT_ERR_SHAPE);
}

/* A result of a call that does not need the argument whose size only a run tells. */
SCOPED(a_checkpoint_around_a_call_plans_no_argument_that_has_no_size) {
  weft_scope *s = weft_scope_open();
  weft_array *p = weft_input(WEFT_F64, WEFT_DIMS(1)), *q = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *both[] = { q, p }, *y[2];
  weft_function *pair = weft_compile(s, 2, (weft_array *[]){ p, q }, 2, both);
  s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(5)), *one = weft_input(WEFT_F64, WEFT_DIMS(1)), *t;
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, x);
  weft_loop_until(l, weft_gt(e, weft_scalar(10)));
  t = weft_loop_tail(l, e, 3);
  weft_loop_close(l);
  weft_checkpoint(1, &x, 1, &t);
  t = weft_where(weft_gt(weft_sum(x, WEFT_ALL), weft_scalar(0)), t, weft_full_like(t, 0));
  weft_call(pair, 2, (weft_array *[]){ one, t }, 2, y);
  weft_checkpoint(2, (weft_array *[]){ x, one }, 1, &y[1]);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ x, one }, 1, &y[1]);
  weft_call(f, 2, (weft_array *[]){ f64s(5, FIVE), f64s(1, SIX) }, 1, y);
  EXPECT_F64(y[0], 3);
}

/* The first call of the function tells how many rows there are; the second copies the loop and tells it again. */
SCOPED(copies_of_a_loop_that_has_told_its_length_tell_their_own) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, 0, NULL), *k = weft_input(WEFT_I64, 0, NULL);
  weft_loop *l = weft_loop_open(k);
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, c, c);
  weft_loop_until(l, weft_from(WEFT_BOOL, 0, NULL, &(bool){ true }));
  weft_array *z = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_array *two = f64s(2, SIX), *n = weft_size(two, 0);
  l = weft_loop_open(weft_integer(2));
  weft_array *v = weft_loop_carry(l, two);
  weft_array *cut = weft_cut(two, 0, weft_sub(n, weft_integer(2)), weft_floor_divide(n, weft_integer(2)), weft_integer(2));
  weft_loop_next(l, v, two);
  weft_loop_until(l, weft_ge(weft_sum(cut, WEFT_ALL), weft_scalar(0.5)));
  weft_array *y = weft_loop_all(l, weft_from(WEFT_F64, 0, NULL, &(double){ 7 }));
  weft_loop_close(l);
  weft_checkpoint(2, (weft_array *[]){ z, x }, 1, &y);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ x, k }, 1, &y);
  for (int i = 0; i < 2; i++) {
    weft_array *in[] = { weft_from(WEFT_F64, 0, NULL, &(double){ 2 }), weft_from(WEFT_I64, 0, NULL, &(int64_t){ i }) };
    weft_call(f, 2, in, 1, &y);
    EXPECT_F64(y, 7);
  }
}

/* Where the rows of the last steps begin is told by a loop that reads none of them: it is computed before the outer loop. */
SCOPED(rows_in_a_body_begin_where_a_loop_outside_has_ended) {
  weft_array *init = f64s(1, SIX), *bound = weft_from(WEFT_I64, 0, NULL, &(int64_t){ 5 });
  weft_loop *outer = weft_loop_open(bound);
  weft_array *c = weft_loop_carry(outer, init);
  weft_loop *inner = weft_loop_open(weft_integer(1));
  weft_array *e = weft_loop_each(inner, c);
  weft_loop_until(inner, weft_from(WEFT_BOOL, 0, NULL, &(bool){ true }));
  weft_array *tail = weft_loop_tail(inner, e, 4);
  weft_loop_close(inner);
  weft_loop_next(outer, c, weft_add(c, weft_scalar(1)));
  weft_loop_until(outer, weft_ge(weft_sum(tail, WEFT_ALL), weft_scalar(5)));
  weft_array *y = weft_loop_last(outer, c);
  weft_loop_close(outer);
  EXPECT_F64(y, 6);
}

/* Where only a run tells the length of an axis, it is taken to be 1; if it is not, there is no value, nor one of what reads it. */
SCOPED(an_axis_that_turns_out_to_be_longer_cannot_be_squeezed) {
  for (int n = 0; n <= 3; n++) {
    weft_array *x = f64s(3, (double[]){ n > 0 ? 5 : -5, n > 1 ? 6 : -6, n > 2 ? 7 : -7 }), *dx, *other[1];
    weft_array *kept = weft_compress(x, weft_gt(x, weft_scalar(0))), *y = weft_squeeze(weft_mul(kept, weft_scalar(2)), 0);
    weft_grad(y, 1, &x, &dx);
    weft_array *out[] = { y, weft_add(y, x), dx };
    for (int k = 0; k < 3; k++) {
      other[0] = out[k];
      EXPECT_INT(weft_eval(1, other), n == 1 ? WEFT_OK : WEFT_ERR_SHAPE);
    }
    if (n == 1) {
      EXPECT_F64(y, 10);
      EXPECT_F64(dx, 2, 0, 0);
    }
  }
}
static weft_array *squeezed(weft_array *x) { return weft_squeeze(x, 0); }
static weft_array *squeezed_kept(weft_array *x) { return weft_squeeze(weft_compress(x, weft_gt(x, weft_scalar(0))), 0); }
static weft_array *like_squeezed(weft_array *x) { return weft_full_like(weft_squeeze(x, 0), 4); }

SCOPED(an_open_axis_that_is_not_1_at_a_call_cannot_be_squeezed) {
  static weft_array *(*const body[])(weft_array *) = { squeezed, squeezed_kept, like_squeezed };
  for (int i = 0; i < 3; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = body[i](in);
    weft_function *f = weft_compile(s, 1, &in, 1, &out);
    for (int n = 0; n <= 3; n++) {
      weft_array *x = f64s(n, (double[]){ 4, 5, 6 }), *y;
      weft_call(f, 1, &x, 1, &y);
      EXPECT_INT(weft_eval(1, &y), n == 1 ? WEFT_OK : WEFT_ERR_SHAPE);
      if (n == 1) EXPECT_F64(y, 4);
    }
  }
}

/* Of two masks that are alike, each has a size of its own; the cotangent of one is computed of the other. */
static weft_array *scan_of_positive(weft_array *x) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, weft_compress(x, weft_gt(x, weft_scalar(0))));
  weft_array *c = weft_loop_carry(l, weft_cast(weft_scalar(0), WEFT_F64));
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), e));
  weft_array *all = weft_loop_all(l, weft_add(c, e));
  weft_loop_close(l);
  return all;
}
static weft_array *product_of_scans(weft_array *x) {
  weft_array *dx, *y = weft_sum(weft_mul(scan_of_positive(x), scan_of_positive(x)), WEFT_ALL);
  return weft_grad(y, 1, &x, &dx), dx;
}
static weft_array *product_of_flat_scans(weft_array *x) { /* rank by rank */
  weft_array *a = weft_unsqueeze(scan_of_positive(x), 1), *b = weft_unsqueeze(scan_of_positive(x), 1), *dx;
  weft_array *y = weft_sum(weft_flatten(weft_mul(weft_flatten(a, 0, 1), weft_flatten(b, 0, 1)), 0, 0), WEFT_ALL);
  return weft_grad(y, 1, &x, &dx), dx;
}

SCOPED(a_gradient_of_two_sizes_that_are_taken_to_be_equal_waits_for_both) {
  static weft_array *(*const body[])(weft_array *) = { product_of_scans, product_of_flat_scans };
  for (int i = 0; i < 2; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = body[i](in);
    weft_function *f = weft_compile(s, 1, &in, 1, &out);
    for (int n = 0; n <= 3; n++) {
      weft_array *x = f64s(n, (double[]){ 1, -2, 3 }), *y;
      weft_call(f, 1, &x, 1, &y);
      /* of a and b that are kept: 2 a + 2 (a + b), 2 (a + b) */
      EXPECT_INT(weft_dim(y, 0), n);
      EXPECT_INT(weft_dim(body[i](x), 0), n);
      if (n == 1) EXPECT_F64(y, 2);
      if (n == 2) EXPECT_F64(y, 2, 0);
      if (n == 3) EXPECT_F64(y, 10, 0, 8);
      if (n == 3) EXPECT_F64(body[i](x), 10, 0, 8);
      if (n == 0) EXPECT_OK(weft_eval(1, &y));
    }
  }
}

/* n is trusted to be 3 where it meets 3; in a body nobody but the body's plan can see that it is not. */
SCOPED(sizes_taken_to_be_equal_in_a_body_that_differ_are_an_error_that_says_so) {
  for (int is_row = 0; is_row < 2; is_row++) {
    weft_array *rows = rows_below_ten(is_row ? f64s(1, FIVE) : f64s(5, FIVE)); /* one row, or four */
    weft_loop *l = weft_loop_open(weft_integer(2));
    weft_array *c = weft_loop_carry(l, rows), *three = weft_broadcast(c, WEFT_DIMS(2, 3));
    weft_loop_next(l, c, weft_add(c, weft_sum(three, WEFT_ALL)));
    weft_array *last = weft_loop_last(l, c);
    weft_loop_close(l);
    EXPECT_INT(weft_eval(1, &last), WEFT_ERR_SHAPE);
    EXPECT(strstr(weft_message(), "taken to be equal") != NULL);
  }
}

/* On the side of a choice: a loop that reads nothing, a loop over its rows, and their sum. */
static weft_array *sum_of_bare_rows(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *rows = weft_loop_all(l, weft_full(WEFT_F64, 0, NULL, 4.5));
  weft_loop_close(l);
  weft_loop *over = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(over, rows), *all = weft_loop_all(over, weft_add(weft_full_like(e, 1), weft_scalar(1)));
  weft_loop_close(over);
  return weft_add(weft_mul(x, x), weft_sum(weft_mul(all, rows), WEFT_ALL)); /* x^2 + 18 */
}

SCOPED(derivatives_and_maps_of_a_side_with_a_loop_without_inputs_share_nothing_with_it) {
  for (int is_first = 0; is_first < 2; is_first++) {
    weft_array *x = f64s(2, (double[]){ 2, 3 }), *p = weft_from(WEFT_BOOL, 0, NULL, &(bool){ is_first });
    weft_cond *choice = weft_cond_open(p);
    weft_array *side = sum_of_bare_rows(x), *y = weft_cond_value(choice, is_first ? side : x, is_first ? x : side);
    weft_cond_close(choice);
    weft_array *z = weft_mul(y, x), *dy = pushed(z, x), *dx = pulled(z, weft_full_like(z, 1), x);
    weft_array *many[] = { z, dy, dx };
    EXPECT_INT(weft_eval(3, many), WEFT_OK);
    EXPECT_F64(z, 2 * 22, 3 * 27);
    EXPECT_F64(dy, 22 + 8, 27 + 18);
    EXPECT_F64(dx, 22 + 8, 27 + 18);
    weft_array *xs = weft_stack(0, 2, (weft_array *[]){ x, weft_mul(x, weft_scalar(2)) }), *ys[3];
    weft_map(1, &x, &xs, 3, many, ys);
    EXPECT_F64(ys[0], 44, 81, 4 * 34, 6 * 54);
    EXPECT_F64(ys[1], 30, 45, 34 + 32, 54 + 72);
    EXPECT_F64(ys[2], 30, 45, 34 + 32, 54 + 72);
  }
}

/* Nothing of the second depends on the first, which tells how many rows there are. */
SCOPED(rows_that_are_mapped_wait_for_the_array_that_tells_their_number) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *b = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY));
  weft_loop *l = weft_loop_open(NULL);
  weft_loop_each(l, a);
  weft_loop_tail(l, weft_full(WEFT_F64, 0, NULL, 1), 2);
  weft_array *rows = weft_loop_all(l, weft_full(WEFT_F64, 0, NULL, 0.5));
  weft_loop_close(l);
  weft_array *x[] = { weft_input(WEFT_F64, 0, NULL), weft_input(WEFT_F64, WEFT_DIMS(2)) };
  weft_array *y = weft_mul(x[1], weft_scalar(2)), *ys;
  weft_map(2, x, (weft_array *[]){ rows, b }, 1, &y, &ys);
  weft_function *f = weft_compile(s, 2, (weft_array *[]){ a, b }, 1, &ys);
  weft_call(f, 2, (weft_array *[]){ f64s(3, FIVE), three_by_two() }, 1, &ys);
  EXPECT_F64(ys, 6, 2, 4, 10, 80, 14);
}

SCOPED(a_name_of_open_sizes_has_those_of_the_rows_that_it_is_mapped_to) {
  for (int is_open = 0; is_open < 2; is_open++) {
    weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *xs = is_open ? rows_below_ten(three_by_two()) : three_by_two(), *out[2];
    weft_array *y[] = { weft_mul(x, weft_mean(x, 0)), weft_add(weft_full_like(x, 3), weft_softmax(weft_mul(x, weft_scalar(0)), 0)) };
    weft_map(1, &x, &xs, 2, y, out);
    EXPECT_F64(out[0], 6, 2, 7, 17.5, 940, 164.5);
    EXPECT_F64(out[1], 3.5, 3.5, 3.5, 3.5, 3.5, 3.5);
  }
}

/* The length of what no input changes is told once; behind it a choice that an input makes has steps of its own in every call. */
SCOPED(a_length_that_a_function_has_told_once_stays_when_it_is_called_again) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(2)), *some = f64s(3, FIVE);
  weft_array *few = weft_compress(some, weft_gt(weft_arange(WEFT_F64, 0, 3, 1), weft_scalar(0))); /* 2, 3 */
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, few);
  weft_loop_recompute(l, 1);
  weft_array *all = weft_loop_all(l, weft_mul(weft_full(WEFT_F64, WEFT_DIMS(1), 2), weft_add(weft_mul(e, weft_scalar(0)), weft_scalar(1))));
  weft_loop_close(l);
  weft_array *total = weft_sum(all, WEFT_ALL), *out;
  weft_cond *c = weft_cond_open(weft_lt(total, weft_sum(x, WEFT_ALL)));
  out = weft_cond_value(c, weft_mul(x, total), x);
  weft_cond_close(c);
  weft_function *f = weft_compile(s, 1, &x, 1, &out);
  for (int k = 0; k < 3; k++) {
    weft_call(f, 1, (weft_array *[]){ f64s(2, (double[]){ 3, k }) }, 1, &out);
    EXPECT_F64(out, k < 2 ? 3 : 12, k < 2 ? k : 8);
  }
}

/* The last row of any number of them has a size that a run tells: beside x it is taken to be that of x, which it is of one row. */
SCOPED(what_no_row_of_a_map_changes_fails_where_the_rows_do) {
  for (int is_second = 0; is_second < 2; is_second++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *seven = weft_full(WEFT_F64, 0, NULL, 7), *out;
    weft_loop *l = weft_loop_open(NULL);
    weft_array *tail = weft_loop_tail(l, weft_mul(weft_loop_each(l, x), weft_scalar(2)), 1);
    weft_loop_close(l);
    weft_array *row[] = { weft_input(WEFT_F64, 0, NULL), weft_input(WEFT_F64, 0, NULL) };
    weft_array *rows[] = { is_second ? x : weft_add(tail, x), is_second ? tail : x };
    weft_map(2, row, rows, 1, &seven, &out);
    weft_function *f = weft_compile(s, 1, &x, 1, &out);
    for (int n = 1; n < 4; n++) {
      weft_call(f, 1, (weft_array *[]){ f64s(n, FIVE) }, 1, &out);
      if (n == 1) EXPECT_F64(out, 7);
      else EXPECT_INT(weft_eval(1, &out), WEFT_ERR_SHAPE);
    }
  }
}
