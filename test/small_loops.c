/* small_loops.c -- loops over small values, whatever ops their bodies are made of, are one kernel with the time loop inside,
 * with the bits of the same loop run step by step, one op a kernel. */
#include <math.h>
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"

enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS, STEPS = 6 };

/* ---- bodies: x and y are [3,4], y an element of a sequence ---- */

typedef weft_array *(*body)(weft_array *x, weft_array *y);

static weft_array *half(weft_array *x) { return weft_cast(weft_mul(x, weft_scalar(0.5)), weft_dtype_of(x)); }
static weft_array *like(weft_array *x, weft_array *to) { return weft_cast(weft_broadcast_like(x, to), weft_dtype_of(to)); }

#define BODY(name) static weft_array *name(__attribute__((unused)) weft_array *x, __attribute__((unused)) weft_array *y)
BODY(sums_of_rows) { return weft_add(half(weft_sub(x, weft_sum(x, 1))), y); }
BODY(sums_of_columns) { return weft_add(half(weft_sub(x, weft_sum(x, 0))), y); }
BODY(sums_of_all) { return weft_add(half(x), weft_sum(weft_mul(x, y), WEFT_ALL)); }
BODY(zeros_of_both_signs) { return weft_mul(y, like(weft_sum(weft_mul(x, weft_scalar(0)), 1), x)); }
BODY(products_and_extremes) { return weft_minimum(weft_maximum(weft_max(x, 0), weft_prod(y, 1)), weft_sub(weft_min(x, 1), y)); }
BODY(places_of_extremes) { return weft_add(half(x), like(weft_add(weft_argmax(weft_add(x, y), 1), weft_argmin(y, 1)), x)); }
BODY(place_among_all) { return weft_add(half(x), like(weft_argmax(weft_add(x, y), WEFT_ALL), x)); }
BODY(softmax_of_rows) { return weft_add(weft_softmax(x, 1), weft_logsumexp(y, 0)); }
BODY(running_sums) { return half(weft_add(weft_cumsum(x, 1), weft_cummax(weft_cumsum(y, 0), 0))); }
BODY(turned) { return weft_add(half(weft_flip(x, 1)), weft_reshape(weft_transpose(y, NULL), WEFT_DIMS(ROWS, COLUMNS))); }
BODY(sliced) {
  weft_array *part[] = { weft_slice(x, 1, 2, 4, 1), weft_slice(weft_add(x, y), 1, 1, WEFT_BEGIN, -1) };
  return half(weft_concat(1, 2, part));
}
BODY(stacked) {
  weft_array *row[] = { weft_sum(x, 0), weft_slice(y, 0, 1, 2, 1), weft_slice(x, 0, 2, 3, 1) };
  return half(weft_concat(0, 3, row));
}
BODY(padded) { return weft_add(half(x), weft_pad(weft_slice(y, 1, 1, 3, 1), 1, 1, 1, weft_cast(weft_scalar(2), weft_dtype_of(x)))); }
BODY(put) { return half(weft_put(x, weft_slice(x, 1, 1, 4, 2), weft_slice(y, 1, 0, 2, 1), WEFT_SET)); }
BODY(put_and_combined) {
  x = weft_put(x, weft_slice(x, 0, 2, WEFT_BEGIN, -2), weft_slice(y, 0, 0, 2, 1), WEFT_ADD);
  return half(weft_put(x, weft_slice(x, 1, 0, 1, 1), weft_sum(y, 1), WEFT_MAX));
}
static weft_array *places(int n, const int32_t at[]) { return weft_from(WEFT_I32, WEFT_DIMS(n), at); }
BODY(put_at_places) { /* one of them twice, one from the end */
  weft_array *at = places(4, (int32_t[]){ 2, 0, -1, 0 }), *z = weft_put(x, weft_take(x, 1, &at), weft_sum(y, 0), WEFT_SET);
  weft_array *d = weft_sub(x, y);
  return weft_add(half(z), weft_put(d, weft_take(d, 1, &at), weft_cast(weft_scalar(3), weft_dtype_of(x)), WEFT_ADD));
}
/* With each of these ways to combine, twice at one place. */
static weft_array *at_places(weft_array *x, weft_array *y, int n, const weft_how hows[]) {
  weft_array *at[] = { places(3, (int32_t[]){ 1, -2, 0 }), places(3, (int32_t[]){ 3, 3, 1 }) }, *z = x;
  weft_array *from = places(3, (int32_t[]){ 7, -1, 2 }), *flat = weft_reshape(y, WEFT_DIMS(COUNT)), *v = weft_take(flat, 1, &from);
  for (int k = 0; k < n; k++) z = weft_add(half(z), weft_put(x, weft_take(x, 2, at), v, hows[k]));
  return z;
}
BODY(combined_at_places) { return at_places(x, y, 3, (weft_how[]){ WEFT_ADD, WEFT_MUL, WEFT_SET }); }
BODY(least_and_most_at_places) { return at_places(x, y, 2, (weft_how[]){ WEFT_MIN, WEFT_MAX }); }
BODY(rows_at_places) { /* what the indices are is computed in the step */
  weft_array *at = weft_argmax(x, 1), *row = weft_minimum(weft_reshape(at, WEFT_DIMS(ROWS)), weft_integer(ROWS - 1));
  return half(weft_add(weft_put(x, weft_take(x, 1, &row), y, WEFT_ADD), weft_take_along(y, 1, at)));
}
BODY(rounded_at_places) { /* several factors a place, each with all its digits */
  weft_dtype t = weft_dtype_of(x);
  weft_array *at = places(5, (int32_t[]){ 0, 2, 0, 0, 2 }), *by = weft_cast(weft_scalar(1.0625), t), *z = weft_add(x, by);
  weft_array *v = weft_add(weft_mul(weft_take(y, 1, &at), weft_cast(weft_scalar(0.1640625), t)), by);
  return half(weft_put(z, weft_take(z, 1, &at), v, WEFT_MUL));
}
BODY(numbered) { return weft_add(half(x), weft_mul(weft_iota(x, 1), weft_cast(weft_size(x, 0), weft_dtype_of(x)))); }
BODY(multiplied) { return weft_add(half(half(weft_matmul(weft_matmul(x, weft_transpose(y, NULL)), x))), y); }
BODY(multiplied_in_batches) {
  weft_array *a = weft_reshape(x, WEFT_DIMS(ROWS, 2, 2)), *b = weft_reshape(y, WEFT_DIMS(ROWS, 2, 2));
  return weft_reshape(half(weft_matmul(a, b)), WEFT_DIMS(ROWS, COLUMNS));
}
BODY(chosen) { return weft_where(weft_any(weft_lt(x, y), 1), half(x), weft_add(x, weft_sum(y, 0))); }
BODY(chosen_by_a_number) { /* a side of a few operations, and one of many */
  weft_cond *c = weft_cond_open(weft_lt(weft_sum(x, WEFT_ALL), weft_sum(y, WEFT_ALL)));
  weft_array *few = weft_sum(y, 1), *many = half(weft_matmul(weft_matmul(x, weft_transpose(y, NULL)), y));
  weft_array *z = weft_cond_value(c, like(few, x), like(many, x));
  weft_cond_close(c);
  return half(z);
}
BODY(repeated_inside) {
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *a = weft_loop_carry(l, x), *n = weft_loop_carry(l, weft_cast(weft_size(x, 1), WEFT_I64));
  weft_loop_next(l, a, like(half(weft_add(weft_sub(a, weft_sum(a, 1)), y)), a));
  weft_loop_next(l, n, weft_add(n, weft_integer(1)));
  weft_array *z = weft_loop_last(l, a), *m = weft_loop_last(l, n);
  weft_loop_close(l);
  return weft_add(z, weft_cast(m, weft_dtype_of(x)));
}
BODY(ended_inside) {
  weft_loop *l = weft_loop_open(weft_integer(20));
  weft_array *a = weft_loop_carry(l, x);
  weft_loop_next(l, a, like(weft_add(half(a), half(half(y))), a));
  weft_loop_until(l, weft_lt(weft_max(weft_abs(a), WEFT_ALL), weft_cast(weft_scalar(2), weft_dtype_of(x))));
  weft_array *z = weft_loop_last(l, a);
  weft_loop_close(l);
  return weft_add(half(z), weft_max(y, 1));
}

/* x y' with a diagonal, in another order of its rows where LU is to exchange some. */
static weft_array *square_of(weft_array *x, weft_array *y, int along) {
  weft_array *far = weft_mul(weft_eye(WEFT_F64, ROWS, ROWS, 0), weft_scalar(9));
  return weft_add(weft_matmul(x, weft_transpose(y, NULL)), weft_cast(along ? weft_flip(far, 0) : far, weft_dtype_of(x)));
}
BODY(solved_by_cholesky) { return weft_add(weft_cholesky_solve(weft_cholesky(square_of(x, x, 0)), y), half(y)); }
BODY(solved_by_lu) { return weft_add(weft_solve(square_of(x, y, 1), y), half(y)); }
BODY(solved_turned) { /* the gradient of a solution solves with the transpose */
  weft_array *a = square_of(x, y, 1), *b = half(y), *d[2];
  weft_grad(weft_solve(a, b), 2, (weft_array *[]){ a, b }, d);
  return weft_add(half(d[1]), like(weft_sum(weft_mul(d[0], weft_cast(weft_scalar(0.125), weft_dtype_of(x))), 1), x));
}
BODY(solved_by_triangles) {
  weft_array *a = square_of(x, y, 0), *z = weft_solve_triangular(a, y, 1, 0);
  return half(weft_add(z, weft_mul(weft_solve_triangular(a, x, 0, 1), weft_cast(weft_scalar(0x1p-9), weft_dtype_of(x)))));
}
BODY(solved_by_singular_triangles) { /* what the status says, and zeros instead of nan */
  weft_array *a = square_of(x, y, 0), *none = weft_mul(a, weft_ne(weft_iota(a, 0), weft_integer(1)));
  weft_array *z = weft_add(weft_solve_triangular(none, y, 0, 0), weft_cholesky_solve(none, y)), *zero = weft_cast(weft_scalar(0), weft_dtype_of(x));
  weft_array *at = weft_add(weft_solve_triangular_status(none), weft_mul(weft_solve_triangular_status(a), weft_integer(16)));
  z = weft_add(weft_where(weft_isnan(z), zero, z), weft_solve_triangular(none, x, 1, 1));
  return weft_add(half(x), half(weft_tanh(weft_add(z, weft_cast(at, weft_dtype_of(x))))));
}
BODY(inverted) { return weft_add(weft_matmul(weft_inverse(square_of(x, y, 1)), y), half(y)); }
BODY(singular_and_not_definite) { /* what the statuses say, and zeros instead of nan */
  weft_array *a = square_of(x, y, 0), *none = weft_sub(a, a), *z = weft_cholesky(weft_neg(a));
  weft_array *at = weft_add(weft_cholesky_status(weft_neg(a)), weft_add(weft_inverse_status(none), weft_inverse_status(a)));
  z = weft_where(weft_isnan(z), weft_cast(weft_scalar(0), weft_dtype_of(x)), z);
  return weft_add(half(x), like(weft_add(weft_sum(z, 1), weft_cast(at, weft_dtype_of(x))), x));
}

static const struct { const char *name; body step; bool is_float; } bodies[] = {
#define ROW(name, is_float) { #name, name, is_float }
  ROW(sums_of_rows, false), ROW(sums_of_columns, false), ROW(sums_of_all, false), ROW(zeros_of_both_signs, false),
  ROW(products_and_extremes, false), ROW(places_of_extremes, false), ROW(place_among_all, false), ROW(softmax_of_rows, true),
  ROW(running_sums, false), ROW(turned, true), ROW(sliced, false), ROW(stacked, false), ROW(padded, false), ROW(put, false),
  ROW(put_and_combined, false), ROW(put_at_places, false), ROW(combined_at_places, false),
  ROW(least_and_most_at_places, false), ROW(rows_at_places, false), ROW(rounded_at_places, true), ROW(numbered, true), ROW(multiplied, false),
  ROW(multiplied_in_batches, false), ROW(chosen, false),
  ROW(chosen_by_a_number, false), ROW(repeated_inside, false), ROW(ended_inside, false), ROW(solved_by_cholesky, true),
  ROW(solved_by_lu, true), ROW(solved_turned, true), ROW(solved_by_triangles, true), ROW(solved_by_singular_triangles, true), ROW(inverted, true),
  ROW(singular_and_not_definite, true)
#undef ROW
};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* ---- the loop around them ---- */

/* c <- step(c, x_t), its last value and all of its rows; until some element is large, if asked. */
static void loop_of(body step, weft_dtype t, bool has_until, weft_array *out[2]) {
  double x[STEPS * COUNT];
  for (int i = 0; i < STEPS * COUNT; i++) x[i] = i % 11 == 3 ? -0.0 : (double)(i * 7 % 13) * 0.25 - 1.5;
  weft_array *xs = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(STEPS, ROWS, COLUMNS), x), t);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *y = weft_loop_each(l, xs), *c = weft_loop_carry(l, weft_cast(weft_from(WEFT_F64, WEFT_DIMS(ROWS, COLUMNS), x + 5), t));
  weft_array *next = weft_cast(step(c, y), t);
  weft_loop_next(l, c, next);
  if (has_until) weft_loop_until(l, weft_lt(weft_cast(weft_scalar(2), t), weft_max(next, WEFT_ALL)));
  out[0] = weft_loop_all(l, weft_sum(next, 0));
  out[1] = weft_loop_last(l, c);
  weft_loop_close(l);
}

struct results { int64_t rows; double all[STEPS * COLUMNS], last[COUNT]; };

static void read_results(weft_array *const out[2], struct results *r) {
  *r = (struct results){ 0 };
  EXPECT_OK(weft_eval(2, out));
  r->rows = weft_dim(out[0], 0);
  EXPECT_OK(weft_read(weft_cast(out[0], WEFT_F64), WEFT_F64, r->all, (size_t)(r->rows * COLUMNS) * sizeof *r->all));
  read_f64(weft_cast(out[1], WEFT_F64), COUNT, r->last);
}

static struct results run(body step, weft_dtype t, bool has_until, const char *backend, bool fuses, bool *is_one_kernel) {
  struct results r;
  weft_array *out[2];
  weft_scope *s = weft_scope_open();
  plan_drop_all();
  plan_use_fusing(fuses);
  compiled_use(backend);
  loop_of(step, t, has_until, out);
  const char *plan = weft_show(2, out, "plan");
  *is_one_kernel = plan && !strstr(plan, "step by step");
  read_results(out, &r);
  compiled_use(NULL);
  plan_use_fusing(true);
  plan_drop_all();
  weft_scope_discard(s);
  return r;
}

static void compare(int k, weft_dtype t, bool has_until) {
  bool is_one;
  struct results want = run(bodies[k].step, t, has_until, NULL, false, &is_one);
  EXPECT(has_until || !is_one); /* what until ends is more than one plan, of which the first is shown */
  static const char *const backends[] = { "vm", "avx2", NULL };
  for (int i = 0; i < 3; i++) {
    struct results got = run(bodies[k].step, t, has_until, backends[i], true, &is_one);
    const char *on = backends[i] ? backends[i] : "x86";
    if (!is_one) test_fail(__FILE__, __LINE__, "%s of %s is run step by step", bodies[k].name, weft_dtype_name(t));
    if (got.rows != want.rows || !are_same(got.all, want.all, (size_t)(got.rows * COLUMNS)) || !are_same(got.last, want.last, COUNT))
      test_fail(__FILE__, __LINE__, "%s of %s%s on %s: other bits", bodies[k].name, weft_dtype_name(t), has_until ? ", ended" : "", on);
  }
}

static void compare_all(weft_dtype t, bool is_float) {
  for (int k = 0; k < BODIES; k++)
    for (int has_until = 0; has_until < 2; has_until++)
      if (is_float || !bodies[k].is_float) compare(k, t, has_until);
}

TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_f32) { compare_all(WEFT_F32, true); }
TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_f64) { compare_all(WEFT_F64, true); }
TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_f16) { compare_all(WEFT_F16, true); }
TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_bf16) { compare_all(WEFT_BF16, true); }
TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_i32) { compare_all(WEFT_I32, false); }
TEST(a_loop_over_small_values_is_one_kernel_with_the_bits_of_its_steps_in_i8) { compare_all(WEFT_I8, false); }

/* ---- maps ---- */

enum { MANY = 37 }; /* rows of a map: more than a vector, and not whole ones */

/* c <- step(c, x) for each row x of a map, some steps, or until some element is large: rows have their own number of steps. */
static weft_array *mapped_loop(body step, weft_dtype t, bool has_until) {
  double x[MANY * COUNT];
  for (int i = 0; i < MANY * COUNT; i++) x[i] = (double)(i * 7 % 13) * 0.25 - 1.5;
  weft_array *rows = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(MANY, ROWS, COLUMNS), x), t), *out;
  weft_array *row = weft_input(t, WEFT_DIMS(ROWS, COLUMNS));
  weft_loop *l = weft_loop_open(weft_integer(STEPS));
  weft_array *c = weft_loop_carry(l, half(row)), *next = weft_cast(step(c, row), t);
  weft_loop_next(l, c, next);
  if (has_until) weft_loop_until(l, weft_lt(weft_cast(weft_scalar(1), t), weft_max(next, WEFT_ALL)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_map(1, &row, &rows, 1, &last, &out);
  return out;
}

static bool run_mapped(body step, weft_dtype t, bool has_until, const char *backend, bool fuses, double out[MANY * COUNT]) {
  weft_scope *s = weft_scope_open();
  plan_drop_all();
  plan_use_fusing(fuses);
  compiled_use(backend);
  weft_array *y = mapped_loop(step, t, has_until);
  const char *plan = weft_show(1, &y, "plan");
  bool is_replay = plan && strstr(plan, "step by step");
  read_f64(weft_cast(y, WEFT_F64), MANY * COUNT, out);
  compiled_use(NULL);
  plan_use_fusing(true);
  plan_drop_all();
  weft_scope_discard(s);
  return !is_replay;
}

static bool is_for_lanes(int k) { return bodies[k].step != chosen_by_a_number && !strstr(bodies[k].name, "at_places"); }

/* Rows of the map update side by side: on a device the updates of a place are to meet in the order of the host, too. */
static void compare_mapped(int k, weft_dtype t, bool has_until) {
  static double want[MANY * COUNT], got[MANY * COUNT];
  static const char *const backends[] = { "vm", "avx2", NULL };
  const char *exact = getenv("WEFT_EXACT");
  if (!exact) setenv("WEFT_EXACT", "1", 1);
  EXPECT(!run_mapped(bodies[k].step, t, has_until, NULL, false, want));
  for (int i = 0; i < 3; i++) {
    if (!run_mapped(bodies[k].step, t, has_until, backends[i], true, got) && is_for_lanes(k))
      test_fail(__FILE__, __LINE__, "%s%s is run step by step", bodies[k].name, has_until ? ", ended" : "");
    if (!are_same(got, want, MANY * COUNT))
      test_fail(__FILE__, __LINE__, "%s%s on %s: other bits", bodies[k].name, has_until ? ", ended" : "", backends[i] ? backends[i] : "x86");
  }
  if (!exact) unsetenv("WEFT_EXACT");
}

/* Steps 0 and 1 are in range; in step 2 update 1 is not, nor update 0 of those that follow. What only until ends, ends. */
static weft_array *index_that_grows(bool has_bound, weft_array *start) {
  weft_loop *l = weft_loop_open(has_bound ? weft_integer(9) : NULL);
  weft_array *c = weft_loop_carry(l, start), *t = weft_loop_carry(l, i64_of(0));
  weft_array *at = weft_mul(t, weft_from(WEFT_I64, WEFT_DIMS(2), (int64_t[]){ 1, 2 }));
  weft_loop_next(l, c, weft_put(c, weft_take(c, 1, &at), weft_sum(c, 0), WEFT_ADD));
  weft_loop_next(l, t, weft_add(t, weft_integer(1)));
  if (!has_bound) weft_loop_until(l, weft_lt(weft_sum(c, WEFT_ALL), weft_scalar(0)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

TEST(an_index_out_of_range_ends_a_small_loop_with_the_message_of_its_step) {
  static const char *const backends[] = { "vm", "avx2", NULL };
  for (int k = 0; k < 8; k++) {
    bool fuses = k < 6;
    weft_scope *s = weft_scope_open();
    plan_drop_all();
    plan_use_fusing(fuses);
    compiled_use(fuses ? backends[k / 2] : NULL);
    weft_array *y = index_that_grows(k % 2, f64s(3, (double[]){ 1, 2, 3 }));
    const char *plan = weft_show(1, &y, "plan");
    EXPECT(plan && !strstr(plan, "scan_small") == !fuses && !strstr(plan, "step by step") == fuses);
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
    EXPECT_TEXT(weft_message(), "weft_put: the index 4 at place 1 is out of range for an axis of 3 (step 2 of the loop)");
    compiled_use(NULL);
    plan_use_fusing(true);
    plan_drop_all();
    weft_scope_discard(s);
  }
}

TEST(rows_of_a_mapped_loop_go_side_by_side_in_one_kernel) {
  for (int k = 0; k < BODIES; k++) compare_mapped(k, WEFT_F32, false);
}
TEST(rows_of_a_mapped_loop_leave_one_kernel_each_when_it_has_stopped) {
  for (int k = 0; k < BODIES; k++) compare_mapped(k, WEFT_F32, true);
}
TEST(rows_of_a_mapped_loop_leave_one_kernel_each_when_it_has_stopped_in_f64) {
  for (int k = 0; k < BODIES; k++) compare_mapped(k, WEFT_F64, true);
}
