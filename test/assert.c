/* assert.c -- checks with a message: where they count, where not, and what becomes of the value that was asked for. */
#include "test.h"
#include "values.h"

static weft_array *numbers(void) { return f64s(4, (double[]){ 1, 2, 3, 4 }); }
static weft_array *positive(weft_array *x) { return weft_assert(x, weft_gt(x, weft_scalar(0)), "x must be positive"); }

SCOPED(a_check_passes_its_array_on_or_fails_with_the_message_as_given) {
  weft_array *x = numbers(), *y = weft_mul(positive(x), weft_scalar(2));
  EXPECT_F64(y, 2, 4, 6, 8);
  uint64_t before = weft_origin(17);
  weft_array *bad = weft_add(weft_assert(x, weft_lt(x, weft_scalar(4)), "100% of x: %s below weft_four"), x);
  weft_origin(before);
  EXPECT_INT(weft_eval(1, &bad), WEFT_ERR_ASSERT);
  EXPECT_TEXT(weft_message(), "100% of x: %s below weft_four");
  EXPECT_INT(weft_blame(), 17);
  EXPECT_F64(weft_add(x, y), 3, 6, 9, 12); /* and all else is as before */
}

TEST(the_message_of_a_check_in_the_background_outlives_its_array) {
  for (int round = 0; round < 3; round++) {
    char text[40];
    weft_scope *s = weft_scope_open();
    snprintf(text, sizeof text, "below three, in round %d", round);
    weft_array *x = weft_own(weft_assert(numbers(), weft_lt(numbers(), weft_scalar(3)), text));
    weft_scope_discard(s);
    EXPECT_OK(weft_eval_async(1, &x));
    EXPECT_INT(weft_wait(0, NULL, 30), WEFT_ERR_ASSERT);
    EXPECT_TEXT(weft_message(), text);
    weft_disown(x);
  }
}

SCOPED(conditions_have_any_shape_and_x_any_dtype) {
  weft_array *is = weft_lt(numbers(), weft_scalar(5)), *one = weft_full(WEFT_BOOL, 0, NULL, 1);
  weft_array *flags = weft_ge(numbers(), weft_scalar(2)), *none = weft_slice(weft_lt(numbers(), weft_scalar(0)), 0, 0, 0, 1);
  EXPECT_F64(weft_assert(weft_full(WEFT_F64, 0, NULL, 7), is, "m"), 7);
  EXPECT_F64(weft_assert(weft_full(WEFT_F64, WEFT_DIMS(2, 2), 7), one, "m"), 7, 7, 7, 7);
  EXPECT_F64(weft_cast(weft_assert(flags, is, "m"), WEFT_F64), 0, 1, 1, 1);
  EXPECT_F64(weft_imag(weft_assert(weft_complex(numbers(), numbers()), is, "m")), 1, 2, 3, 4);
  EXPECT_F64(weft_assert(numbers(), none, "all of nothing"), 1, 2, 3, 4);
  EXPECT_INT(weft_dtype_of(weft_assert(weft_full(WEFT_I8, 0, NULL, 7), is, "m")), WEFT_I8);
}

SCOPED(arguments_that_are_none_are_refused) {
  EXPECT_INT(weft_check(weft_assert(numbers(), numbers(), "m")), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_check(weft_assert(numbers(), weft_eq(numbers(), numbers()), NULL)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_assert(NULL, weft_eq(numbers(), numbers()), "m")), WEFT_ERR_ARG);
}

/* In rows that are not above 0 the other side is taken. */
SCOPED(a_check_counts_in_active_rows_alone) {
  weft_array *x = weft_alias(weft_full(WEFT_F64, 0, NULL, 3));
  weft_cond *c = weft_cond_open(weft_gt(x, weft_scalar(0)));
  weft_array *y = weft_cond_value(c, weft_sqrt(positive(x)), weft_neg(x));
  weft_cond_close(c);
  weft_array *xs = f64s(4, (double[]){ 4, -9, 16, 0 }), *ys;
  weft_map(1, &x, &xs, 1, &y, &ys);
  EXPECT_F64(ys, 2, 9, 4, 0);
  weft_array *z = positive(x), *zs;
  weft_map(1, &x, &xs, 1, &z, &zs);
  EXPECT_INT(weft_eval(1, &zs), WEFT_ERR_ASSERT);
  EXPECT_TEXT(weft_message(), "x must be positive");
}

static weft_array *climb(weft_array *x, double below) {
  weft_loop *l = weft_loop_open(weft_integer(5));
  weft_array *v = weft_loop_carry(l, x);
  weft_loop_next(l, v, weft_add(weft_assert(v, weft_lt(v, weft_scalar(below)), "too high"), weft_scalar(1)));
  weft_array *last = weft_loop_last(l, v);
  weft_loop_close(l);
  return last;
}

SCOPED(checks_in_loops_are_made_in_every_step) {
  weft_array *x = weft_full(WEFT_F64, 0, NULL, 0), *wide = weft_full(WEFT_F64, WEFT_DIMS(1000), 0), *y;
  EXPECT_F64(climb(x, 5), 5);
  y = climb(x, 4);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ASSERT);
  EXPECT_TEXT(weft_message(), "too high");
  EXPECT_F64(weft_sum(climb(wide, 5), WEFT_ALL), 5000);
  y = climb(wide, 4);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ASSERT);
}

SCOPED(derivatives_pass_a_check_and_are_checked_too) {
  weft_array *x = weft_alias(numbers()), *y = weft_sum(weft_square(positive(x)), WEFT_ALL), *dx;
  weft_grad(y, 1, &x, &dx);
  EXPECT_F64(dx, 2, 4, 6, 8);
  weft_array *low = weft_alias(weft_sub(numbers(), weft_scalar(1))), *z = weft_sum(positive(low), WEFT_ALL), *dz;
  weft_grad(z, 1, &low, &dz);
  EXPECT_INT(weft_eval(1, &dz), WEFT_ERR_ASSERT);
  weft_array *dy, *tangent = weft_full(WEFT_F64, WEFT_DIMS(4), 1);
  weft_jvp(1, &x, &tangent, 1, &y, &dy);
  EXPECT_F64(dy, 20);
}

SCOPED(a_compiled_function_checks_each_call_and_stays_usable) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_exp(weft_sub(positive(x), positive(x))), *out;
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  for (int k = 0; k < 3; k++) {
    weft_array *in = numbers(), *low = weft_neg(numbers());
    weft_call(f, 1, &in, 1, &out);
    EXPECT_F64(out, 1, 1, 1, 1);
    weft_call(f, 1, &low, 1, &out);
    EXPECT_INT(weft_eval(1, &out), WEFT_ERR_ASSERT);
    EXPECT_TEXT(weft_message(), "x must be positive");
  }
}

/* A size that is asserted is taken on trust, in the words that whoever fails it will read; those of a function inside come through. */
SCOPED(what_is_asserted_of_a_size_fails_a_call_in_its_own_words) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *n = weft_size(x, 0), *out;
  weft_array *y = weft_cut(x, 0, NULL, weft_assert(n, weft_gt(n, weft_integer(3)), "100% of four elements"), NULL);
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  body = weft_scope_open();
  x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY));
  weft_call(f, 1, &x, 1, &y);
  weft_function *g = weft_compile(body, 1, &x, 1, &y);
  weft_array *few = weft_slice(numbers(), 0, 0, 3, 1), *enough = numbers();
  for (int k = 0; k < 2; k++) {
    weft_call(k ? g : f, 1, &few, 1, &out);
    EXPECT_INT(weft_eval(1, &out), WEFT_ERR_ASSERT);
    EXPECT_TEXT(weft_message(), "100% of four elements");
    weft_call(k ? g : f, 1, &enough, 1, &out);
    EXPECT_F64(out, 1, 2, 3, 4);
  }
}

/* Two that differ in nothing but their message are two, whatever is cached. */
SCOPED(messages_are_those_of_the_array_that_fails) {
  for (int k = 0; k < 8; k++) {
    char text[16];
    weft_scope *s = weft_scope_open();
    snprintf(text, sizeof text, "number %d", k);
    weft_array *y = weft_assert(numbers(), weft_lt(numbers(), weft_scalar(2)), text);
    text[0] = 'N';
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ASSERT);
    text[0] = 'n';
    EXPECT_TEXT(weft_message(), text);
    weft_scope_discard(s);
  }
}

/* A check counts where there is an element that needs it, and for nobody else. */
SCOPED(a_check_counts_for_nobody_where_there_is_no_element) {
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(0), 1), *no = weft_full(WEFT_BOOL, 0, NULL, 0), *x = weft_alias(weft_full(WEFT_F64, 0, NULL, 3));
  EXPECT_F64(weft_sum(weft_assert(none, no, "m"), WEFT_ALL), 0);
  weft_array *y = weft_assert(x, no, "m"), *ys, *z = positive(weft_neg(x)), *zs;
  weft_map(1, &x, &none, 1, &y, &ys);
  weft_map(1, &x, &none, 1, &z, &zs);
  EXPECT_OK(weft_eval(1, &ys));
  EXPECT_OK(weft_eval(1, &zs));
  weft_array *far = weft_add(weft_cast(none, WEFT_I32), weft_integer(7)), *four = numbers(), *index[] = { far };
  EXPECT_OK(weft_eval(1, (weft_array *[]){ weft_take(four, 1, index) }));
  EXPECT_F64(weft_concat(0, 2, (weft_array *[]){ weft_take(four, 1, index), four }), 1, 2, 3, 4);
  EXPECT_F64(weft_sum(weft_take(four, 1, index), 0), 0);
  EXPECT_F64(weft_put(four, weft_take(four, 1, index), weft_scalar(5), WEFT_SET), 1, 2, 3, 4);
  weft_array *most = weft_full(WEFT_I64, WEFT_DIMS(2, 0), 9), *at[] = { most };
  EXPECT_F64(weft_sum(weft_take(four, 1, at), 1), 0, 0);
  EXPECT_INT(weft_eval(1, (weft_array *[]){ weft_assert(four, no, "m") }), WEFT_ERR_ASSERT);
}

SCOPED(a_check_in_a_loop_over_no_elements_counts_for_nobody) {
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(0), 9), *x = weft_alias(weft_full(WEFT_F64, 0, NULL, 9)), *y = climb(x, 1), *ys;
  weft_map(1, &x, &none, 1, &y, &ys);
  EXPECT_OK(weft_eval(1, &ys));
  EXPECT_OK(weft_eval(1, (weft_array *[]){ climb(none, 1) }));
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_ASSERT);
}

/* What is multiplied by 0, or subtracted from itself, is computed all the same if an index or a check may fail in it. */
SCOPED(what_may_fail_is_not_simplified_away) {
  weft_array *ints = weft_alias(weft_arange(WEFT_I64, 0, 4, 1)), *bad = weft_alias(weft_full(WEFT_I64, WEFT_DIMS(2), 9));
  weft_array *taken = weft_take(ints, 1, &bad), *zero = weft_integer(0), *is = weft_gt(taken, zero);
  weft_array *checked = weft_assert(ints, weft_lt(ints, weft_integer(2)), "no");
  weft_array *wrong[] = { weft_mul(taken, zero), weft_mul(zero, weft_add(taken, taken)), weft_sub(taken, taken),
                          weft_where(is, weft_slice(ints, 0, 0, 2, 1), weft_slice(ints, 0, 0, 2, 1)),
                          weft_where(weft_full(WEFT_BOOL, WEFT_DIMS(2), 1), weft_slice(ints, 0, 0, 2, 1), taken) };
  for (int k = 0; k < 5; k++) EXPECT_INT(weft_eval(1, &wrong[k]), WEFT_ERR_INDEX);
  weft_array *none = weft_mul(weft_neg(checked), zero);
  EXPECT_INT(weft_eval(1, &none), WEFT_ERR_ASSERT);
}

/* What stands in the place of a value that fails its check is 0: where 0 is checked both sides of the choice are one expression. */
SCOPED(a_check_of_zeros_fails_as_any_other) {
  weft_array *x = weft_alias(f64s(1, (double[]){ -1 })), *holds = weft_gt(x, weft_scalar(0));
  for (int d = WEFT_BOOL; d <= WEFT_C128; d++) {
    weft_array *zeros = weft_full((weft_dtype)d, WEFT_DIMS(3), 0);
    weft_array *made = weft_where(weft_full(WEFT_BOOL, WEFT_DIMS(3), 1), zeros, weft_full((weft_dtype)d, WEFT_DIMS(3), 1));
    weft_array *several[] = { zeros, made, weft_full((weft_dtype)d, 0, NULL, 0) };
    for (int k = 0; k < 3; k++) {
      weft_array *checked = weft_assert(several[k], holds, "no"), *used = weft_stack(0, 2, (weft_array *[]){ checked, several[k] });
      EXPECT_INT(weft_eval(1, &used), WEFT_ERR_ASSERT);
      EXPECT_INT(weft_eval(1, &checked), WEFT_ERR_ASSERT);
      EXPECT_TEXT(weft_message(), "no");
    }
  }
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out;
  weft_array *none = weft_assert(weft_mul(weft_cast(in, WEFT_I64), weft_integer(0)), weft_gt(in, weft_scalar(0)), "no");
  weft_function *f = weft_compile(body, 1, &in, 1, &none);
  weft_call(f, 1, &x, 1, &out);
  EXPECT_INT(weft_eval(1, &out), WEFT_ERR_ASSERT);
  weft_array *row = weft_alias(weft_full(WEFT_F64, 0, NULL, 3)), *rows = f64s(2, (double[]){ 1, -1 });
  weft_array *y = weft_assert(weft_full(WEFT_F64, 0, NULL, 0), weft_gt(row, weft_scalar(0)), "no"), *ys;
  weft_map(1, &row, &rows, 1, &y, &ys);
  EXPECT_INT(weft_eval(1, &ys), WEFT_ERR_ASSERT);
}
