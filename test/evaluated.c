/* evaluated.c -- graphs of which parts are evaluated before they are transformed. Sizes that a run has told are those of that run:
 * a value, a derivative or one of a derivative is what it is without the evaluation, and so is a map, or it is refused; a map of
 * what has other sizes in other rows may not be that of the row that was evaluated. The truth is each row by itself, with nothing
 * evaluated on the way. */
#include <math.h>
#include "op/operand.h"
#include "values.h"

enum { WIDE = 3, ROWS = 3 };
static const double ROW[ROWS][WIDE] = { { 0.5, 1.5, -0.3 }, { 0.9, 2.1, 0.7 }, { -0.2, 0.4, -1.1 } };

/* When parts are evaluated. */
enum stage {
  AT_ONCE = 1,   /* when they are made */
  BEHIND = 2,    /* when all is made */
  WHOLE = 4,     /* the value, before it is transformed */
  BETWEEN = 8,   /* the first of two derivatives */
  RESULT = 16,   /* the derivative, before it is mapped */
  ASKED = 32,    /* sizes are asked for */
};
static enum stage stage;

static weft_array *part[8];
static int n_parts;
static bool is_inside;   /* of a body or function, where variables have no value */

static weft_array *made(weft_array *a) {
  if (is_inside) return a;
  part[n_parts++] = a;
  if (stage & AT_ONCE) EXPECT_OK(weft_eval(1, &a));
  return a;
}

static weft_array *all_of(weft_array *a) { return weft_sum(a, WEFT_ALL); }
static weft_array *above(weft_array *x) { return made(weft_compress(x, weft_gt(x, weft_scalar(0)))); }
static weft_array *places(weft_array *x) { return weft_cast(weft_iota(x, 0), WEFT_F64); }
static weft_array *product_of(weft_array *a, weft_array *b) { return all_of(weft_mul(a, b)); }

static weft_array *n_above(weft_array *x) {
  return weft_add(weft_sum(weft_cast(weft_gt(x, weft_scalar(0)), WEFT_I64), WEFT_ALL), weft_integer(1));
}

enum kept { ALL, LAST, TAIL };
static weft_array *until(weft_array *x, bool is_linear, enum kept kept) {
  weft_loop *l = weft_loop_open(weft_integer(9));
  weft_array *c = weft_loop_carry(l, x), *next = is_linear ? weft_add(c, c) : plus(weft_mul(weft_mul(c, c), weft_scalar(1.3)), 0.4);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(weft_max(next, WEFT_ALL), weft_scalar(5)));
  weft_array *y = kept == ALL ? weft_loop_all(l, next) : kept == LAST ? weft_loop_last(l, c) : weft_loop_tail(l, next, 2);
  weft_loop_close(l);
  return made(y);
}

static weft_array *counted(weft_array *x, enum kept kept) {
  weft_loop *l = weft_loop_open(n_above(x));
  weft_array *c = weft_loop_carry(l, x), *next = weft_mul(c, weft_scalar(1.5));
  weft_loop_next(l, c, next);
  weft_array *y = kept == ALL ? weft_loop_all(l, next) : weft_loop_last(l, c);
  weft_loop_close(l);
  return made(y);
}

static weft_array *called(weft_array *x, weft_array *(*story)(weft_array *)) {
  bool was_inside = is_inside;
  weft_scope *s = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WIDE)), *y;
  is_inside = true;
  weft_array *out = story(in);
  is_inside = was_inside;
  weft_function *f = weft_compile(s, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &y);
  return y;
}

static weft_array *steps_doubled(weft_array *x) { return all_of(until(x, true, ALL)); }
static weft_array *steps_squared(weft_array *x) { return all_of(until(x, false, ALL)); }
static weft_array *last_of_steps(weft_array *x) { return all_of(until(x, false, LAST)); }
static weft_array *tail_of_steps(weft_array *x) { return all_of(until(x, true, TAIL)); }
static weft_array *mean_of_steps(weft_array *x) { return weft_mean(until(x, true, ALL), WEFT_ALL); }
static weft_array *last_row(weft_array *x) { return all_of(weft_at(until(x, true, ALL), 0, weft_integer(-1))); }
static weft_array *mask(weft_array *x) { return all_of(above(x)); }
static weft_array *mean_of_mask(weft_array *x) { return weft_mean(above(x), WEFT_ALL); }
static weft_array *size_of_mask(weft_array *x) { return weft_mul(all_of(x), weft_cast(weft_size(above(x), 0), WEFT_F64)); }
static weft_array *full_as_mask(weft_array *x) { return weft_mul(all_of(weft_full_like(above(x), 1)), all_of(x)); }
static weft_array *wide_as_mask(weft_array *x) { return all_of(weft_broadcast_like(all_of(x), above(x))); }
static weft_array *places_in_mask(weft_array *x) { weft_array *m = above(x); return product_of(m, places(m)); }
static weft_array *sorted_mask(weft_array *x) { weft_array *m = weft_sort(above(x), 0); return product_of(m, places(m)); }
static weft_array *sums_of_mask(weft_array *x) { weft_array *m = above(x); return product_of(weft_cumsum(weft_flip(m, 0), 0), m); }
static weft_array *weight_of_mask(weft_array *x) {
  weft_array *m = above(x);
  return weft_mul(all_of(weft_logsumexp(weft_mul(m, m), 0)), all_of(m));
}
static weft_array *outer_mask(weft_array *x) {
  weft_array *m = above(x);
  return all_of(weft_matmul(weft_unsqueeze(m, 1), weft_unsqueeze(m, 0)));
}
static weft_array *nonzero(weft_array *x) {
  weft_array *i;
  weft_nonzero(weft_gt(x, weft_scalar(0)), &i);
  return product_of(weft_take(x, 1, &i), weft_cast(made(i), WEFT_F64));
}
static weft_array *unique(weft_array *x) { return all_of(weft_square(made(weft_unique(weft_floor(x), NULL, NULL, NULL)))); }
static weft_array *cut(weft_array *x) {
  weft_array *c = made(weft_cut(x, 0, NULL, weft_sub(n_above(x), weft_integer(1)), NULL));
  return product_of(c, c);
}
static weft_array *counted_steps(weft_array *x) { return all_of(counted(x, ALL)); }
static weft_array *counted_last(weft_array *x) { return all_of(counted(x, LAST)); }
static weft_array *joined(weft_array *x) {
  weft_array *both = made(weft_concat(0, WEFT_ARRAYS(until(x, true, ALL), weft_unsqueeze(x, 0))));
  return product_of(both, both);
}
static weft_array *flat_steps(weft_array *x) {
  weft_array *r = weft_reshape(until(x, true, ALL), WEFT_DIMS(-1));
  return product_of(r, weft_div(places(r), weft_cast(weft_size(r, 0), WEFT_F64)));
}
static weft_array *both_kinds(weft_array *x) {
  weft_array *r = until(x, true, ALL), *m = above(x);
  return weft_add(product_of(r, r), product_of(m, all_of(r)));
}
static weft_array *choice(weft_array *x) {
  weft_cond *c = weft_cond_open(weft_gt(all_of(x), weft_scalar(1)));
  weft_array *y = weft_cond_value(c, mean_of_steps(x), weft_mul(steps_squared(x), all_of(until(x, true, LAST))));
  weft_cond_close(c);
  n_parts = 0; /* they have ended with it */
  return y;
}
static weft_array *inside(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  bool was_inside = is_inside;
  is_inside = true;
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), steps_squared(c)));
  is_inside = was_inside;
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return all_of(made(y));
}
static weft_array *captured(weft_array *x) {
  weft_array *m = above(x);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e = weft_loop_each(l, m), *c = weft_loop_carry(l, all_of(x));
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_mean(m, WEFT_ALL)), weft_mul(e, all_of(weft_full_like(m, 1)))));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *kept_less(weft_array *x) {
  weft_array *y = steps_squared(x);
  weft_checkpoint(1, &x, 1, &y);
  return y;
}
static weft_array *steps_below(weft_array *x) { /* told below a call and a choice, which derivatives write out */
  weft_array *p = weft_gt(all_of(x), weft_scalar(-9));
  weft_array *a = until(weft_choose(p, x, weft_mul(x, weft_scalar(2))), true, ALL);
  weft_array *b = until(weft_mul(x, called(x, mask)), true, ALL);
  return weft_add(all_of(a), all_of(b));
}
static weft_array *called_steps(weft_array *x) { return called(x, steps_doubled); }
static weft_array *called_mask(weft_array *x) { return weft_mul(called(x, mean_of_mask), all_of(x)); }
static weft_array *called_size(weft_array *x) { return weft_mul(called(x, size_of_mask), all_of(above(x))); }

static const struct { const char *name; weft_array *(*of)(weft_array *); } STORY[] = {
#define S(name) { #name, name }
  S(steps_doubled), S(steps_squared), S(last_of_steps), S(tail_of_steps), S(mean_of_steps), S(last_row), S(mask), S(mean_of_mask),
  S(size_of_mask), S(full_as_mask), S(wide_as_mask), S(places_in_mask), S(sorted_mask), S(sums_of_mask), S(weight_of_mask),
  S(outer_mask), S(nonzero), S(unique), S(cut), S(counted_steps), S(counted_last), S(joined), S(flat_steps), S(both_kinds),
  S(choice), S(inside), S(captured), S(kept_less), S(called_steps), S(called_mask), S(called_size),
  S(steps_below),
#undef S
};
enum { N_STORIES = sizeof STORY / sizeof *STORY };

/* ---- What is done with it ---- */

static weft_array *slope(weft_array *y, weft_array *x) {
  weft_array *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}

static weft_array *along(weft_array *y, weft_array *x) {
  weft_array *dy, *one = weft_full_like(x, 1);
  weft_jvp(1, &x, &one, 1, &y, &dy);
  return dy;
}

static weft_array *first(weft_array *d) {
  if (stage & BETWEEN) EXPECT_OK(weft_eval(1, &d));
  return weft_mul(d, plus(d, 1));
}

static weft_array *value(weft_array *y, weft_array *x) { return (void)x, y; }
static weft_array *slope_and_value(weft_array *y, weft_array *x) { return weft_add(slope(y, x), y); }
static weft_array *slope_of_slope(weft_array *y, weft_array *x) { return slope(all_of(first(slope(y, x))), x); }
static weft_array *along_slope(weft_array *y, weft_array *x) { return along(all_of(first(slope(y, x))), x); }
static weft_array *slope_along(weft_array *y, weft_array *x) { return slope(first(along(y, x)), x); }

static const struct { const char *name; weft_array *(*of)(weft_array *y, weft_array *x); } MADE_OF[] = {
  { "value", value }, { "grad", slope }, { "jvp", along }, { "grad + value", slope_and_value }, { "grad of grad", slope_of_slope },
  { "jvp of grad", along_slope }, { "grad of jvp", slope_along },
};
enum { N_MADE = sizeof MADE_OF / sizeof *MADE_OF };

static weft_array *built(int story, int made_of, weft_array *x) {
  n_parts = 0;
  weft_array *y = STORY[story].of(x);
  if (stage & BEHIND) EXPECT_OK(weft_eval(n_parts, part));
  for (int i = 0; stage & ASKED && i < n_parts; i++)
    for (int k = 0; k < weft_rank(part[i]); k++) EXPECT(weft_dim(part[i], k) >= -1);
  if (stage & WHOLE) EXPECT_OK(weft_eval(1, &y));
  weft_array *d = MADE_OF[made_of].of(y, x);
  if (stage & RESULT) EXPECT_OK(weft_eval(1, &d));
  return d;
}

static void compare(int story, int made_of, int row, int n, const double *got, const double *want) {
  for (int k = 0; k < n; k++) {
    if (fabs(got[k] - want[k]) <= 1e-9 * (1 + fabs(want[k]))) continue;
    test_fail(__FILE__, __LINE__, "%s of %s, stage %d, row %d: %g, not %g", MADE_OF[made_of].name, STORY[story].name, (int)stage,
              row, got[k], want[k]);
    return;
  }
}

static int n_refused;

static void try(int story, int made_of, bool is_mapped, const double want[ROWS][WIDE], int n) {
  weft_scope *s = weft_scope_open();
  double got[ROWS * WIDE];
  int n_rows = is_mapped ? ROWS : 1;
  weft_array *x = f64s(WIDE, ROW[0]), *xs = weft_from(WEFT_F64, WEFT_DIMS(ROWS, WIDE), ROW), *d = built(story, made_of, x);
  if (is_mapped) weft_map(1, &x, &xs, 1, &d, &d);
  weft_status status = weft_read(d, WEFT_F64, got, sizeof *got * (size_t)(n_rows * n));
  bool is_refused = status == WEFT_ERR_NO_HISTORY && is_mapped && stage;
  n_refused += is_refused;
  if (status && !is_refused)
    test_fail(__FILE__, __LINE__, "%s of %s, stage %d, %d rows: %s", MADE_OF[made_of].name, STORY[story].name, (int)stage, n_rows,
              weft_message());
  for (int row = 0; !status && row < n_rows; row++) compare(story, made_of, row, n, got + row * n, want[row]);
  weft_scope_discard(s);
}

static int row_by_row(int story, int made_of, double want[ROWS][WIDE]) {
  int n = 1;
  stage = 0;
  for (int row = 0; row < ROWS; row++) {
    weft_scope *s = weft_scope_open();
    weft_array *d = built(story, made_of, f64s(WIDE, ROW[row]));
    n = weft_rank(d) ? WIDE : 1;
    EXPECT_OK(weft_read(d, WEFT_F64, want[row], sizeof **want * (size_t)n));
    weft_scope_discard(s);
  }
  return n;
}

TEST(what_is_evaluated_on_the_way_changes_no_derivative_and_no_row_of_a_map) {
  static const enum stage STAGE[] = { 0, AT_ONCE, BEHIND, WHOLE, BETWEEN, RESULT, ASKED, AT_ONCE | WHOLE | BETWEEN, BEHIND | RESULT,
                                      WHOLE | RESULT, ASKED | WHOLE | BETWEEN | RESULT };
  n_refused = 0;
  for (int i = 0; i < N_STORIES; i++)
    for (int k = 0; k < N_MADE; k++) {
      double want[ROWS][WIDE];
      int n = row_by_row(i, k, want);
      for (size_t j = 0; j < sizeof STAGE / sizeof *STAGE; j++)
        for (int is_mapped = 0; is_mapped < 2; is_mapped++) stage = STAGE[j], try(i, k, is_mapped, want, n);
    }
  stage = 0;
  EXPECT(n_refused > 0);
}

/* x doubled until it is above 5, in at most 8 steps, and all of it: 2 + 4 + 8 times x from 1, 2 + 4 times x from 2. */
TEST(a_map_of_the_slope_of_a_loop_that_has_run_says_that_it_has) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64_of(1), *xs = f64s(2, (double[]){ 1, 2 }), *ys;
  weft_loop *l = weft_loop_open(weft_integer(8));
  weft_array *at = weft_loop_carry(l, x), *next = weft_add(at, at);
  weft_loop_next(l, at, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(5)));
  weft_array *y = weft_loop_all(l, next);
  weft_loop_close(l);
  weft_array *before = slope(all_of(y), x);
  weft_map(1, &x, &xs, 1, &before, &ys);
  EXPECT_F64(ys, 14, 6);
  EXPECT_OK(weft_eval(1, &y));
  weft_array *dx = slope(all_of(y), x);
  EXPECT_F64(dx, 14);
  weft_map(1, &x, &xs, 1, &dx, &ys);
  EXPECT_INT(weft_check(ys), WEFT_ERR_NO_HISTORY);
  EXPECT_TEXT(weft_message(), "weft_map: a loop that makes another number of steps in every row has run already, and what it "
              "kept has the size of that run: map before it is evaluated");
  weft_scope_discard(s);
}

/* What is read of x while a choice is written is a number of x; the side that is not taken costs nothing and fails nothing. */
TEST(what_a_side_of_a_choice_has_evaluated_stays_outside) {
  for (int taken = 0; taken < 2; taken++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = f64s(WIDE, ROW[0]);
    stage = AT_ONCE;
    weft_cond *c = weft_cond_open(weft_gt(all_of(x), weft_scalar(taken ? 0 : 9)));
    weft_array *m = above(x), *y = weft_cond_value(c, product_of(m, weft_sqrt(m)), all_of(x));
    weft_cond_close(c);
    stage = 0;
    EXPECT(fabs(one_f64(y) - (taken ? pow(0.5, 1.5) + pow(1.5, 1.5) : 1.7)) < 1e-12);
    double dx[WIDE];
    read_f64(slope(y, x), WIDE, dx);
    for (int k = 0; k < WIDE; k++) EXPECT(fabs(dx[k] - (!taken ? 1 : ROW[0][k] > 0 ? 1.5 * sqrt(ROW[0][k]) : 0)) < 1e-12);
    weft_scope_discard(s);
  }
}

/* A function of any width, whose body has a loop that only depends on a size that is known, and keeps every second carry. */
TEST(what_a_function_has_evaluated_while_it_was_written_is_so_in_every_call) {
  weft_scope *outer = weft_scope_open();
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(1, WEFT_ANY)), *y;
  weft_loop *l = weft_loop_open(weft_integer(6));
  weft_array *c = weft_loop_carry(l, weft_cast(weft_size(x, 0), WEFT_F64)), *next = weft_add(c, c);
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(5)));
  weft_loop_recompute(l, 2);
  weft_array *rows = weft_loop_all(l, next);
  weft_loop_close(l);
  EXPECT_INT(weft_dim(rows, 0), 3);
  weft_function *f = weft_compile(body, 1, &x, 1, &rows);
  for (int64_t n = 1; n < 4; n++) {
    weft_array *arg = weft_full(WEFT_F64, WEFT_DIMS(1, n), 1);
    weft_call(f, 1, &arg, 1, &y);
    EXPECT_F64(y, 2, 4, 8);
  }
  weft_scope_discard(outer);
}

/* A number made of the size of a carry needs no value of it: it may be evaluated while the body is written and after, and forgets
 * then what it was made of. The body does not. */
SCOPED(what_is_made_of_sizes_in_a_body_may_be_evaluated) {
  for (int how = 0; how < 32; how++) {
    weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(5), ((float[]){ 1, 2, 3, 4, 5 })), *y, *z;
    weft_loop *l = weft_loop_open(weft_integer(4));
    weft_array *c = weft_loop_carry(l, x), *n = weft_own(weft_size(how & 1 ? weft_neg(c) : c, 0));
    weft_array *k = weft_own(weft_cast(weft_add(n, n), WEFT_F32)), *b = weft_broadcast(k, WEFT_DIMS(5));
    if (how & 2) EXPECT_OK(weft_eval(1, &b));
    if (how & 4) EXPECT_OK(weft_eval(1, &n));
    weft_loop_next(l, c, how & 8 ? weft_add(c, b) : b);
    y = weft_loop_last(l, c);
    weft_loop_close(l);
    if (how & 16) EXPECT_OK(weft_eval(2, (weft_array *[]){ n, k }));
    z = weft_add(k, weft_scalar(1));
    EXPECT_OK(weft_eval(2, (weft_array *[]){ y, z }));
    if (how & 8) EXPECT_F64(weft_cast(y, WEFT_F64), 41, 42, 43, 44, 45);
    else EXPECT_F64(weft_cast(y, WEFT_F64), 10, 10, 10, 10, 10);
    EXPECT_F64(weft_cast(z, WEFT_F64), 11);
    weft_disown(n);
    weft_disown(k);
  }
}

/* k for every row of x. In a map, of what a checkpoint of the row passes on, which is made of the row until the map puts zeros in
 * its place; or of that size, and nothing else of x. */
static weft_array *as_many_as(weft_array *x, bool is_mapped) {
  weft_array *row = weft_input(WEFT_F64, 0, NULL), *k = f64s(WIDE, ROW[0]), *ys = k;
  if (!is_mapped) return array_broadcast("weft_broadcast", k, 2, (dim[]){ x->node->dims[0], WIDE });
  weft_checkpoint(2, (weft_array *[]){ weft_neg(row), k }, 1, &ys);
  weft_map(1, &row, &x, 1, &ys, &ys);
  return ys;
}

/* Jobs fail for good: what has a size of a name can be had in a call, whoever has asked for it before. */
TEST(what_has_a_size_of_a_name_is_refused_outside_of_a_call_and_computed_in_it) {
  for (int how = 0; how < 24; how++) {
    weft_scope *outer = weft_scope_open();
    weft_scope *body = weft_scope_open();
    bool is_mapped = how & 1, has_rows = how & 2; /* rows: a size that only a loop tells, which is computed first */
    weft_array *x = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *y = weft_neg(as_many_as(x, is_mapped)), *z, *r;
    if (has_rows) y = weft_mul(y, weft_sum(rows_below_three(f64_of(1)), WEFT_ALL));
    z = weft_add(y, weft_scalar(0));
    if (how / 4 == 1) EXPECT_INT(weft_eval(1, &y), WEFT_ERR_NO_VALUE);
    if (how / 4 == 2) EXPECT_INT(weft_read(y, WEFT_F64, &r, sizeof r), WEFT_ERR_NO_VALUE);
    bool is_late = has_rows && !is_mapped; /* a job finds it out */
    if (how / 4 > 2) EXPECT_INT(weft_eval_async(1, &y), is_late ? WEFT_OK : WEFT_ERR_NO_VALUE);
    if (how / 4 == 4) EXPECT_INT(weft_wait(1, &y, -1) != WEFT_OK, is_late);
    if (how / 4 == 5) EXPECT_INT(weft_wait(0, NULL, -1), is_late ? WEFT_ERR_NO_VALUE : WEFT_OK);
    weft_function *f = weft_compile(body, 1, &x, 1, &z);
    x = f64s(2, (double[]){ 5, 6 });
    weft_call(f, 1, &x, 1, &r);
    double by = has_rows ? -1.5 - 2.25 - 3.375 : -1;
    EXPECT_F64(r, 0.5 * by, 1.5 * by, -0.3 * by, 0.5 * by, 1.5 * by, -0.3 * by);
    weft_status of_job = weft_wait(0, NULL, -1);
    EXPECT(of_job == WEFT_OK || (is_late && of_job == WEFT_ERR_NO_VALUE));
    weft_scope_discard(outer);
  }
}
