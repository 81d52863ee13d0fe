/* library.c -- library steps: sorting, and ops of these tests that no kernel computes either, through everything that happens
 * to other ops. */
#include <math.h>
#include "op/op.h"
#include "op/operand.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"

enum { ROWS = 37, LENGTH = 211 };

static float numbers[ROWS * LENGTH];

static weft_array *matrix(void) {
  uint32_t state = 1;
  for (int i = 0; i < ROWS * LENGTH; i++) {
    state = state * 1664525 + 1013904223;
    numbers[i] = (float)(state >> 20) / 16 - 100; /* some are equal */
  }
  return weft_from(WEFT_F32, WEFT_DIMS(ROWS, LENGTH), numbers);
}

static void sort_plain(float x[], int n) {
  for (int i = 1, j; i < n; i++) {
    float v = x[i];
    for (j = i; j > 0 && x[j - 1] > v; j--) x[j] = x[j - 1];
    x[j] = v;
  }
}

static const float *sorted_rows(void) {
  static float want[ROWS * LENGTH];
  memcpy(want, numbers, sizeof want);
  for (int r = 0; r < ROWS; r++) sort_plain(want + r * LENGTH, LENGTH);
  return want;
}

static void expect_floats(weft_array *y, const float *want, size_t n, const char *what) {
  float *got = malloc(n * sizeof *got);
  EXPECT_OK(weft_read(y, WEFT_F32, got, n * sizeof *got));
  for (size_t i = 0; i < n; i++)
    if (memcmp(&got[i], &want[i], sizeof *got)) {
      test_fail(__FILE__, __LINE__, "%s: element %zu is %g, not %g", what, i, (double)got[i], (double)want[i]);
      break;
    }
  free(got);
}

SCOPED(sorted_rows_are_the_same_for_any_layout_and_number_of_threads) {
  weft_array *x = matrix();
  const float *want = sorted_rows();
  int64_t threads = weft_get(WEFT_THREADS);
  for (int n = 1; n <= 8; n *= 2) {
    weft_set(WEFT_THREADS, n);
    expect_floats(weft_sort(x, 1), want, ROWS * LENGTH, "rows");
    expect_floats(weft_sort(weft_flip(x, 1), -1), want, ROWS * LENGTH, "reversed");
    expect_floats(weft_transpose(weft_sort(weft_transpose(x, NULL), 0), NULL), want, ROWS * LENGTH, "columns of the transposed");
    expect_floats(weft_sort(weft_mul(weft_add(x, weft_scalar(0)), weft_scalar(1)), 1), want, ROWS * LENGTH, "computed");
    expect_floats(weft_slice(weft_sort(weft_slice(x, 0, 3, 30, 2), 1), 0, 1, 2, 1), want + 5 * LENGTH, LENGTH, "a part");
    weft_array *twice = weft_sort(weft_broadcast(weft_slice(x, 0, 4, 5, 1), WEFT_DIMS(3, LENGTH)), 1);
    for (int r = 0; r < 3; r++) expect_floats(weft_slice(twice, 0, r, r + 1, 1), want + 4 * LENGTH, LENGTH, "broadcast");
  }
  weft_set(WEFT_THREADS, threads);
}

SCOPED(sorting_takes_the_elements_that_its_order_names) {
  weft_array *x = matrix(), *both[] = { weft_sort(x, 1), weft_take_along(x, 1, weft_argsort(x, 1)) };
  EXPECT_OK(weft_eval(2, both)); /* one step with two results */
  expect_floats(both[0], sorted_rows(), ROWS * LENGTH, "sorted");
  expect_floats(both[1], sorted_rows(), ROWS * LENGTH, "taken");
}

SCOPED(equal_elements_stay_in_order_with_negative_zeros_before_zeros_and_nans_last) {
  double x[] = { NAN, 0, -0.0, INFINITY, 1, -NAN, -INFINITY, -0.0, 1, 0, -1e-3, 1e-3 }, sorted[12];
  int64_t order[12], want[] = { 6, 10, 2, 7, 1, 9, 11, 4, 8, 3, 0, 5 };
  const weft_dtype dtypes[] = { WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64 };
  for (int d = 0; d < 4; d++) {
    weft_array *a = weft_cast(f64s(12, x), dtypes[d]), *both[] = { weft_sort(a, 0), weft_argsort(a, 0) };
    EXPECT_OK(weft_read(weft_cast(both[0], WEFT_F64), WEFT_F64, sorted, sizeof sorted));
    EXPECT_OK(weft_read(both[1], WEFT_I64, order, sizeof order));
    for (int i = 0; i < 12; i++) {
      EXPECT_INT(order[i], want[i]);
      EXPECT_INT(isnan(sorted[i]), isnan(x[want[i]]));
      if (!isnan(sorted[i])) EXPECT_INT(signbit(sorted[i]) != 0, signbit(x[want[i]]) != 0);
    }
  }
}

SCOPED(two_results_of_a_library_step_are_one_step) {
  if (weft_get(WEFT_DEVICE)) return test_skip("the plan is one of the host");
  weft_array *x = matrix(), *y = weft_add(weft_sort(x, 1), weft_cast(weft_argsort(x, 1), WEFT_F32));
  const char *plan = weft_show(1, &y, "plan");
  EXPECT(strstr(plan, "2 steps"));
  EXPECT(strstr(plan, "0: sort by weft(f32[37,211]=leaf0; f32[37,211]="));
  EXPECT(strstr(plan, ", i64[37,211]=out1)")); /* it has a name here, so it is kept */
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.library_calls, 0);
  EXPECT(cost.peak_bytes >= ROWS * LENGTH * 16);
}

SCOPED(a_loop_sorts_in_every_step) {
  double x[] = { 3, 1, 2, 9, 7, 8 };
  weft_array *a = f64s(6, x);
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *c = weft_loop_carry(l, a), *e = weft_loop_each(l, weft_from(WEFT_F64, WEFT_DIMS(3, 6), (double[]){
    0, 5, 0, 0, 0, 0, 0, 0, 0, -20, 0, 0, 100, 0, 0, 0, 0, 0 }));
  weft_loop_next(l, c, weft_sort(weft_add(c, e), 0));
  weft_array *y = weft_loop_last(l, c), *dx;
  weft_loop_close(l);
  EXPECT_F64(y, 2, 3, 6, 8, 9, 87);
  weft_grad(weft_mul(y, f64s(6, (double[]){ 1, 2, 3, 4, 5, 6 })), 1, &a, &dx);
  EXPECT_F64(dx, 2, 3, 1, 5, 6, 4);
}

SCOPED(a_function_sorts_what_it_is_given_of_any_length) {
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *out = weft_slice(weft_sort(weft_neg(in), 0), 0, 0, 2, 1);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_array *x = f64s(3, (double[]){ 1, 5, 2 }), *y, *z = f64s(5, (double[]){ 1, 5, 2, 8, 6 });
  weft_call(f, 1, &x, 1, &y);
  EXPECT_F64(y, -5, -2);
  weft_call(f, 1, &z, 1, &y);
  EXPECT_F64(y, -8, -6);
}

SCOPED(a_loop_that_ends_by_itself_is_sorted) {
  weft_loop *l = weft_loop_open(weft_integer(100));
  weft_array *c = weft_loop_carry(l, f64_of(1)), *next = weft_mul(c, weft_scalar(-2));
  weft_loop_next(l, c, next);
  weft_loop_until(l, weft_gt(next, weft_scalar(50)));
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  EXPECT_F64(weft_sort(all, 0), -32, -8, -2, 4, 16, 64);
}

SCOPED(nothing_and_one_element_are_sorted) {
  int64_t none[1];
  EXPECT_OK(weft_read(weft_sort(weft_full(WEFT_F32, WEFT_DIMS(3, 0), 1), 1), WEFT_F32, none, 0));
  EXPECT_OK(weft_read(weft_argsort(weft_full(WEFT_F32, WEFT_DIMS(0, 3), 1), 1), WEFT_I64, none, 0));
  EXPECT_OK(weft_read(weft_argsort(weft_full(WEFT_I8, WEFT_DIMS(1), 7), 0), WEFT_I64, none, 8));
  EXPECT_INT(none[0], 0);
  EXPECT_INT(weft_check(weft_sort(weft_full(WEFT_F32, 0, NULL, 1), 0)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_sort: there is no axis 0 in []");
  EXPECT_INT(weft_check(weft_sort(weft_full(WEFT_C64, WEFT_DIMS(2), 1), 0)), WEFT_ERR_DTYPE);
  EXPECT_TEXT(weft_message(), "weft_sort: not of c64");
}

SCOPED(the_memory_a_sort_works_in_is_limited_as_all_memory) {
  if (weft_get(WEFT_DEVICE)) return test_skip("the limit is that of the host");
  weft_array *x = weft_reshape(matrix(), WEFT_DIMS(WEFT_ANY)), *y = weft_sort(x, 0);
  int64_t before = weft_set(WEFT_BYTES_LIMIT, weft_get(WEFT_BYTES_USED) + ROWS * LENGTH * 20);
  float *none = malloc(sizeof numbers);
  EXPECT_INT(weft_read(y, WEFT_F32, none, sizeof numbers), WEFT_ERR_MEMORY);
  EXPECT(strstr(weft_message(), "a step needs"));
  weft_set(WEFT_BYTES_LIMIT, before);
  EXPECT_OK(weft_read(y, WEFT_F32, none, sizeof numbers));
  free(none);
}

SCOPED(a_sort_that_is_cancelled_is_sorted_later) {
  volatile int flag = 1;
  weft_array *x = matrix(), *y = weft_sort(weft_neg(x), 1);
  weft_cancel_when(&flag);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_OK(weft_eval(1, &y));
}

/* ---- searching what is sorted ---- */

static int64_t place_of(int n, const double a[], double v, bool is_right) {
  int64_t k = 0;
  for (int i = 0; i < n; i++) { /* nan is above all, and equal to nan */
    bool less = a[i] < v || (!isnan(a[i]) && isnan(v)), equal = a[i] == v || (isnan(a[i]) && isnan(v));
    k += less || (is_right && equal);
  }
  return k;
}

static void expect_places(weft_array *got, int n, const double a[], int m, const double v[], bool is_right) {
  int64_t out[64];
  EXPECT_OK(weft_read(got, WEFT_I64, out, sizeof *out * (size_t)m));
  for (int i = 0; i < m; i++)
    if (out[i] != place_of(n, a, v[i], is_right))
      test_fail(__FILE__, __LINE__, "%g in %d, right %d: %lld, not %lld", v[i], n, is_right, (long long)out[i],
                (long long)place_of(n, a, v[i], is_right));
}

SCOPED(values_are_found_in_a_sorted_row_of_any_length_from_both_sides) {
  const double all[] = { -INFINITY, -7, -7, -0.0, 0, 0, 1, 2, 2, 2, 3, 9, INFINITY, INFINITY, NAN, NAN };
  const double v[] = { -INFINITY, -8, -7, -1, -0.0, 0, 0.5, 1, 2, 2.5, 3, 8, 9, 10, INFINITY, NAN };
  for (int n = 0; n <= 16; n++)
    for (int is_right = 0; is_right < 2; is_right++) {
      weft_array *a = f64s(n, all), *x = f64s(16, v);
      expect_places(weft_searchsorted(a, x, is_right), n, all, 16, v, is_right);
      expect_places(weft_searchsorted(weft_cast(a, WEFT_F32), weft_reshape(x, WEFT_DIMS(4, 4)), is_right), n, all, 16, v, is_right);
      expect_places(weft_flip(weft_searchsorted(a, weft_flip(weft_mul(x, weft_scalar(1)), 0), is_right), 0), n, all, 16, v, is_right);
    }
}

SCOPED(values_are_found_in_rows_of_a_map_and_where_the_length_is_not_known) {
  const double rows[] = { 1, 2, 3, 4, 10, 20, 30, 40 }, v[] = { 3, 25, 0, 50 };
  weft_array *row = f64s(4, rows), *all = weft_from(WEFT_F64, WEFT_DIMS(2, 4), rows), *x = f64s(4, v), *y = weft_searchsorted(row, x, 0), *ys;
  weft_map(1, &row, &all, 1, &y, &ys);
  for (int r = 0; r < 2; r++) expect_places(weft_at(ys, 0, weft_integer(r)), 4, rows + 4 * r, 4, v, false);
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) };
  weft_array *out = weft_searchsorted(in[0], in[1], 1);
  weft_function *f = weft_compile(body, 2, in, 1, &out);
  for (int n = 0; n <= 8; n++) {
    weft_call(f, 2, (weft_array *[]){ f64s(n, rows), x }, 1, &y);
    expect_places(y, n, rows, 4, v, true);
  }
}

SCOPED(integers_are_found_and_what_has_no_order_or_rows_is_refused) {
  int32_t a[] = { -5, 0, 0, 7 };
  int64_t got[3], want[] = { 0, 1, 4 };
  weft_array *x = weft_from(WEFT_I32, WEFT_DIMS(4), a), *v = weft_from(WEFT_I8, WEFT_DIMS(3), (int8_t[]){ -6, 0, 100 });
  EXPECT_OK(weft_read(weft_searchsorted(x, v, 0), WEFT_I64, got, sizeof got));
  for (int i = 0; i < 3; i++) EXPECT_INT(got[i], want[i]);
  EXPECT_INT(weft_check(weft_searchsorted(weft_full(WEFT_F32, WEFT_DIMS(2, 3), 0), v, 0)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_searchsorted: the sorted array has one axis, not [2,3]");
  EXPECT_INT(weft_check(weft_searchsorted(x, weft_full(WEFT_C64, 0, NULL, 1), 0)), WEFT_ERR_DTYPE);
}

/* ---- An op of two complex operands and two results, of which one has another shape: s[i] = a[i] b, and the real part of the
 * sum of s. Problem 3 and those after 7 fail where the attribute says so. ---- */

struct scaled_attr { int64_t fails; };

static struct failure *scale_run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  int64_t n = c->in[0].dims[c->in[0].rank - 1], fails = ((const struct scaled_attr *)c->attr)->fails;
  (void)scratch;
  for (int64_t p = from; p < to; p++) {
    const float *a = (const float *)(const void *)(c->in[0].data + p * c->in[0].each),
                *b = (const float *)(const void *)(c->in[1].data + p * c->in[1].each);
    float *s = (float *)(void *)(c->out[0].data + p * c->out[0].each), *sum = (float *)(void *)(c->out[1].data + p * c->out[1].each);
    if (fails && (p == 3 || p > 7)) return fail(WEFT_ERR_ARG, c->origin, "weft_scaled: problem %lld", (long long)p);
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
      s[2 * i] = a[2 * i] * b[0] - a[2 * i + 1] * b[1];
      s[2 * i + 1] = a[2 * i] * b[1] + a[2 * i + 1] * b[0];
      *sum += s[2 * i];
    }
  }
  return NULL;
}

static double scale_operations(const struct library_call *c) { return 1e6 * (double)c->n_problems; }
static const char *scale_by(const struct library_call *c) { return (void)c, "libscale"; }
static int scale_count(const struct node *n) { return (void)n, 2; }
static weft_dtype scale_type(const struct node *n, int k, int *rank, dim dims[]) {
  *rank = n->in[0]->rank - (k == 1);
  memcpy(dims, n->in[0]->dims, sizeof *dims * (size_t)*rank);
  return k ? WEFT_F32 : WEFT_C64;
}
static const struct library scale_library = { .core = 1, .operations = scale_operations, .run = scale_run, .by = scale_by };
static const struct many scale_many = { .count = scale_count, .type = scale_type, .batch = library_batch };
static const struct op op_scaled = { .name = "scaled", .kind = OP_LIBRARY, .many = &scale_many, .library = &scale_library };

static void scaled(weft_array *a, weft_array *b, int64_t fails, weft_array *out[2]) {
  struct node *in[2];
  weft_array *bad;
  if (!operands("weft_scaled", 2, (weft_array *[]){ a, b }, in, &bad)) return;
  library_apply(&op_scaled, 2, in, &(struct scaled_attr){ fails }, sizeof(struct scaled_attr), 2, out);
  node_release(in[0]), node_release(in[1]);
}

static weft_array *pairs(int64_t rows, int64_t n) {
  weft_array *i = weft_cast(weft_reshape(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(rows * n), 0), 0), WEFT_DIMS(rows, n)), WEFT_F32);
  return weft_complex(i, weft_sub(weft_scalar(3), i));
}

static void expect_scaled(weft_array *a, weft_array *b, weft_array *const out[2], const char *what) {
  weft_array *want = weft_mul(a, weft_unsqueeze(b, -1)), *sum = weft_sum(weft_real(want), -1), *far[2];
  far[0] = weft_sum(weft_abs(weft_sub(out[0], want)), WEFT_ALL), far[1] = weft_sum(weft_abs(weft_sub(out[1], weft_squeeze(sum, -1))), WEFT_ALL);
  for (int k = 0; k < 2; k++) {
    float d = 1;
    EXPECT_OK(weft_read(far[k], WEFT_F32, &d, sizeof d));
    if (d != 0) test_fail(__FILE__, __LINE__, "%s: result %d is off by %g", what, k, (double)d);
  }
}

SCOPED(complex_operands_and_results_of_a_library_step_are_whole) {
  weft_array *a = pairs(5, 4), *b = weft_squeeze(weft_slice(pairs(5, 2), 1, 1, 2, 1), 1), *out[2], *stored = weft_mul(a, weft_scalar(2));
  scaled(a, b, 0, out);
  expect_scaled(a, b, out, "computed");
  scaled(weft_flip(weft_add(a, weft_conj(a)), 1), b, 0, out);
  expect_scaled(weft_flip(weft_add(a, weft_conj(a)), 1), b, out, "computed, reversed");
  EXPECT_OK(weft_eval(1, &stored));
  scaled(weft_transpose(weft_slice(stored, 0, 0, 4, 1), NULL), weft_slice(b, 0, 4, 0, -1), 0, out);
  expect_scaled(weft_transpose(weft_slice(stored, 0, 0, 4, 1), NULL), weft_slice(b, 0, 4, 0, -1), out, "stored, transposed");
  weft_cost cost;
  EXPECT_OK(weft_plan(2, out, &cost));
}

SCOPED(a_mapped_library_step_has_one_axis_more_whatever_is_mapped) {
  for (int mask = 1; mask < 4; mask++) {
    weft_array *as[] = { pairs(5, 4), pairs(15, 4) }, *x[2], *xs[2], *out[2], *ys[2];
    weft_array *b = weft_squeeze(weft_slice(pairs(5, 2), 1, 1, 2, 1), 1), *bs = weft_reshape(weft_squeeze(weft_slice(pairs(15, 2), 1, 1, 2, 1), 1), WEFT_DIMS(3, 5));
    as[1] = weft_reshape(as[1], WEFT_DIMS(3, 5, 4));
    int n = 0;
    if (mask & 1) x[n] = as[0], xs[n++] = as[1];
    if (mask & 2) x[n] = b, xs[n++] = bs;
    scaled(as[0], b, 0, out);
    weft_map(n, x, xs, 2, out, ys);
    for (int r = 0; r < 3; r++) {
      weft_array *row[2], *part[2] = { mask & 1 ? weft_at(as[1], 0, weft_integer(r)) : as[0], mask & 2 ? weft_at(bs, 0, weft_integer(r)) : b };
      for (int k = 0; k < 2; k++) row[k] = weft_at(ys[k], 0, weft_integer(r));
      expect_scaled(part[0], part[1], row, "a row");
    }
  }
}

SCOPED(the_first_problem_that_fails_is_the_one_that_is_reported) {
  weft_array *out[2];
  int64_t threads = weft_get(WEFT_THREADS);
  for (int n = 1; n <= 4; n++) {
    weft_set(WEFT_THREADS, n);
    scaled(pairs(40, 4), weft_squeeze(weft_slice(pairs(40, 2), 1, 1, 2, 1), 1), 1, out);
    EXPECT_INT(weft_eval(1, out), WEFT_ERR_ARG);
    EXPECT_TEXT(weft_message(), "weft_scaled: problem 3");
  }
  weft_set(WEFT_THREADS, threads);
}

SCOPED(a_library_that_is_called_has_its_name_in_the_plan) {
  weft_array *out[2];
  scaled(pairs(2, 4), weft_squeeze(weft_slice(pairs(2, 2), 1, 1, 2, 1), 1), 0, out);
  EXPECT(strstr(weft_show(1, out, "plan"), "scaled by libscale(c64[2,4]="));
  weft_cost cost;
  EXPECT_OK(weft_plan(1, out, &cost));
  EXPECT_INT(cost.library_calls, 1);
}

SCOPED(a_library_step_without_rules_is_not_differentiated) {
  weft_array *a = pairs(2, 4), *out[2], *da;
  scaled(a, weft_squeeze(weft_slice(pairs(2, 2), 1, 1, 2, 1), 1), 0, out);
  weft_grad(out[1], 1, &a, &da);
  EXPECT_INT(weft_check(da), WEFT_ERR_UNSUPPORTED);
  EXPECT(strstr(weft_message(), "weft_scaled has no derivative"));
  weft_array *dy, *one = weft_full_like(a, 1);
  weft_jvp(1, &a, &one, 1, &out[1], &dy);
  EXPECT_INT(weft_check(dy), WEFT_ERR_UNSUPPORTED);
}
