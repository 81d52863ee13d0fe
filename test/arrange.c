/* arrange.c -- arrays made from nothing, arranged anew and reduced over several axes: the numbers one expects, also where
 * sizes are known only later. */
#include <math.h>
#include <string.h>
#include "run/plan.h"
#include "values.h"
#include "ways.h"

static weft_array *counted(int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  return weft_reshape(weft_arange(WEFT_F64, 0, (double)n, 1), rank, dims);
}

static void expect_shape(int line, weft_array *a, int rank, const int64_t dims[]) {
  if (weft_rank(a) != rank) test_fail(__FILE__, line, "the rank is %d, not %d", weft_rank(a), rank);
  for (int k = 0; k < rank; k++)
    if (weft_dim(a, k) != dims[k])
      test_fail(__FILE__, line, "axis %d is %lld, not %lld", k, (long long)weft_dim(a, k), (long long)dims[k]);
}
#define EXPECT_SHAPE(a, ...) expect_shape(__LINE__, a, WEFT_DIMS(__VA_ARGS__))

/* ---- Made from nothing ---- */

TEST(arange_counts_up_and_down_and_stops_before_the_end) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(weft_arange(WEFT_F64, 1, 4, 1), 1, 2, 3);
  EXPECT_F64(weft_arange(WEFT_F64, 1, 0, -0.25), 1, 0.75, 0.5, 0.25);
  EXPECT_F64(weft_cast(weft_arange(WEFT_U8, 250, 262, 3), WEFT_F64), 250, 253, 0, 3); /* as numbers of 8 bits go on */
  EXPECT_F64(weft_cast(weft_arange(WEFT_I32, 0.5, 3, 1), WEFT_F64), 0, 1, 2);
  EXPECT_F64(weft_cast(weft_arange(WEFT_F16, 2048, 2054, 2), WEFT_F64), 2048, 2050, 2052);
  EXPECT_SHAPE(weft_arange(WEFT_I64, 3, 3, 1), 0);
  EXPECT_SHAPE(weft_arange(WEFT_I64, 3, 5, -1), 0);
  int64_t first[3];
  EXPECT_OK(weft_read(weft_arange(WEFT_I64, -0x1p63, -0x1p63 + 4096, 2048), WEFT_I64, first, 2 * sizeof *first));
  EXPECT_INT(first[1], INT64_MIN + 2048);
  weft_scope_discard(s);
}

TEST(linspace_ends_where_it_is_told) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(weft_linspace(WEFT_F64, 0, 1, 5), 0, 0.25, 0.5, 0.75, 1);
  EXPECT_F64(weft_linspace(WEFT_F64, 3, -3, 2), 3, -3);
  EXPECT_F64(weft_linspace(WEFT_F64, 7, 9, 1), 7);
  EXPECT_SHAPE(weft_linspace(WEFT_F32, 0, 1, 0), 0);
  double last[50];
  EXPECT_OK(weft_read(weft_linspace(WEFT_F64, 0.1, 0.7, 50), WEFT_F64, last, sizeof last));
  EXPECT(last[49] == 0.7 && last[0] == 0.1);
  weft_scope_discard(s);
}

TEST(eye_and_tri_mark_diagonals_and_what_is_below) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(weft_eye(WEFT_F64, 2, 3, 1), 0, 1, 0, 0, 0, 1);
  EXPECT_F64(weft_eye(WEFT_F64, 2, 2, -1), 0, 0, 1, 0);
  EXPECT_F64(weft_eye(WEFT_F64, 2, 2, INT64_MIN), 0, 0, 0, 0);
  EXPECT_F64(weft_tri(WEFT_F64, 2, 3, 0), 1, 0, 0, 1, 1, 0);
  EXPECT_F64(weft_tri(WEFT_F64, 2, 2, INT64_MAX), 1, 1, 1, 1);
  EXPECT_F64(weft_full_like(weft_eye(WEFT_F64, 1, 2, 0), 2.5), 2.5, 2.5);
  weft_array *one = weft_full_like(weft_full(WEFT_I8, WEFT_DIMS(2), 0), 300);
  EXPECT_INT(weft_dtype_of(one), WEFT_I8);
  weft_scope_discard(s);
}

static weft_array *lower(weft_array *x) { return weft_tril(x, 0); }
static weft_array *ones(weft_array *x) { return weft_full_like(x, 1); }
TEST(triangles_of_unknown_size_are_those_of_the_call) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(called_open(lower, counted(WEFT_DIMS(2, 3))), 0, 0, 0, 3, 4, 0);
  EXPECT_F64(called_open(lower, counted(WEFT_DIMS(1, 2))), 0, 0);
  EXPECT_F64(called_open(ones, counted(WEFT_DIMS(3))), 1, 1, 1);
  weft_scope_discard(s);
}

/* ---- Strides ---- */

static weft_array *windows(weft_array *x) { return weft_as_strided(x, WEFT_DIMS(3, 2), (int64_t[]){ 1, 2 }, 1); }

TEST(as_strided_shows_overlapping_windows_without_a_copy) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(6, (double[]){ 1, 2, 3, 4, 5, 6 }), *y = windows(x);
  weft_cost cost;
  EXPECT_F64(y, 2, 4, 3, 5, 4, 6);
  EXPECT_F64(weft_as_strided(x, WEFT_DIMS(2, 2), (int64_t[]){ -3, -1 }, 5), 6, 5, 3, 2);
  EXPECT_F64(weft_as_strided(x, WEFT_DIMS(3), (int64_t[]){ 0 }, 2), 3, 3, 3);
  EXPECT_F64(weft_as_strided(x, 0, NULL, NULL, 4), 5);
  EXPECT_SHAPE(weft_as_strided(x, WEFT_DIMS(0, 2), (int64_t[]){ 100, 100 }, 1000), 0, 2);
  weft_array *sum = weft_sum(weft_mul(windows(x), windows(x)), WEFT_ALL);
  EXPECT_OK(weft_plan(1, &sum, &cost));
  EXPECT_INT(cost.peak_bytes <= 3 * 64, true); /* sums, and no windows */
  EXPECT_F64(sum, 4 + 16 + 9 + 25 + 16 + 36);
  weft_scope_discard(s);
}

/* Element [a, b, c, d] of [6, 8] as [3, 2, 2, 4] is element 16 a + 8 b + 4 c + d of them. */
TEST(views_of_indices_are_computed_and_not_stored) {
  weft_scope *s = weft_scope_open();
  int64_t got[24];
  for (int axis = 0; axis < 2; axis++) {
    weft_array *i = weft_mul(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(6, 8), 0), axis), weft_integer(3));
    weft_array *y = weft_slice(weft_reshape(i, WEFT_DIMS(3, 2, 2, 4)), 3, 1, 3, 1);
    weft_cost cost;
    EXPECT_OK(weft_plan(1, &y, &cost));
    EXPECT_INT(cost.kernels, 1);
    EXPECT_INT(cost.peak_bytes, sizeof got);
    EXPECT_OK(weft_read(y, WEFT_I64, got, sizeof got));
    for (int k = 0; k < 24; k++) {
      int flat = 4 * (k / 2) + k % 2 + 1;
      EXPECT_INT(got[k], 3 * (axis ? flat % 8 : flat / 8));
    }
    y = weft_slice(weft_reshape(i, WEFT_DIMS(4, 12)), 1, 6, 12, 1); /* both axes are in both */
    EXPECT_OK(weft_read(y, WEFT_I64, got, sizeof got));
    for (int k = 0; k < 24; k++) {
      int flat = 12 * (k / 6) + 6 + k % 6;
      EXPECT_INT(got[k], 3 * (axis ? flat % 8 : flat / 8));
    }
  }
  weft_scope_discard(s);
}

TEST(as_strided_counts_the_elements_row_by_row_however_they_lie) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 3)), *turned = weft_transpose(x, NULL); /* 0 3 1 4 2 5 */
  EXPECT_F64(windows(turned), 3, 4, 1, 2, 4, 5);
  EXPECT_F64(windows(weft_flip(turned, 0)), 5, 4, 1, 0, 4, 3);
  EXPECT_F64(windows(weft_exp(weft_mul(turned, weft_scalar(0)))), 1, 1, 1, 1, 1, 1);
  EXPECT_F64(windows(windows(x)), 3, 4, 2, 3, 4, 5);
  EXPECT_F64(weft_flip(windows(x), 1), 3, 1, 4, 2, 5, 3);
  weft_scope_discard(s);
}

/* The transpose is copied for the windows; the windows of those, and their reshape, are copied once more. */
static void look_at_windows_of_a_transpose(void) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_moveaxis(weft_reshape(f64s(6, (double[]){ 1, 2, 3, 4, 5, 6 }), WEFT_DIMS(2, 3)), 0, 1); /* 1 4 2 5 3 6 */
  weft_array *w = weft_as_strided(x, WEFT_DIMS(2, 2, 2), (int64_t[]){ 2, 1, 1 }, 0); /* 1 4 4 2; 2 5 5 3 */
  EXPECT_F64(weft_as_strided(w, WEFT_DIMS(3), (int64_t[]){ 3 }, 0), 1, 2, 5);
  EXPECT_F64(weft_reshape(w, WEFT_DIMS(8)), 1, 4, 4, 2, 2, 5, 5, 3);
  EXPECT_F64(weft_flip(weft_reshape(weft_as_strided(w, WEFT_DIMS(2, 2), (int64_t[]){ -1, -2 }, 7), WEFT_DIMS(4)), 0), 2, 5, 5, 3);
  weft_scope_discard(s);
}

TEST(as_strided_and_reshape_of_windows_of_a_transpose_see_their_elements) {
  for (int fuse = 0; fuse < 2; fuse++) plan_drop_all(), plan_use_fusing(fuse), look_at_windows_of_a_transpose();
}

TEST(as_strided_of_an_unknown_size_checks_when_it_runs) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(called_open(windows, counted(WEFT_DIMS(6))), 1, 3, 2, 4, 3, 5);
  EXPECT_F64(called_open(windows, weft_transpose(counted(WEFT_DIMS(2, 3)), NULL)), 3, 4, 1, 2, 4, 5);
  weft_array *y = called_open(windows, counted(WEFT_DIMS(5)));
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_as_strided: the index 5 at place 5 is out of range for an axis of 5");
  weft_scope_discard(s);
}

TEST(a_map_of_windows_of_unknown_rows_is_that_of_each_row) {
  weft_scope *s = weft_scope_open();
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, 6)), *x = weft_input(WEFT_F64, WEFT_DIMS(6)), *y = windows(x), *ys, *out;
  weft_map(1, &x, &in, 1, &y, &ys);
  weft_function *f = weft_compile(body, 1, &in, 1, &ys);
  weft_array *rows = counted(WEFT_DIMS(2, 6));
  weft_call(f, 1, &rows, 1, &out);
  EXPECT_F64(out, 1, 3, 2, 4, 3, 5, 7, 9, 8, 10, 9, 11);
  weft_scope_discard(s);
}

TEST(windows_written_to_combine_where_they_overlap) {
  weft_scope *s = weft_scope_open();
  weft_array *x = f64s(4, (double[]){ 1, 1, 1, 1 }), *w = weft_as_strided(x, WEFT_DIMS(3, 2), (int64_t[]){ 1, 1 }, 0);
  EXPECT_F64(weft_put(x, w, weft_scalar(1), WEFT_ADD), 2, 3, 3, 2);
  EXPECT_F64(weft_put(x, w, weft_scalar(2), WEFT_MUL), 2, 4, 4, 2);
  weft_scope_discard(s);
}

/* ---- Arranged anew ---- */

/* ---- large arrays in the middle of others ---- */

static weft_array *surrounded(int form, weft_dtype t) {
  weft_array *x = weft_reshape(weft_cast(weft_remainder(weft_arange(WEFT_I32, 0, 40 * 30 * 36, 1), weft_integer(101)), t), WEFT_DIMS(40, 30, 36));
  EXPECT_OK(weft_eval(1, &x));
  weft_array *turned = weft_moveaxis(x, 0, -1), *n = weft_integer(7);
  switch (form) {
    case 0: return weft_pad(turned, 0, 1, 1, n);
    case 1: return weft_pad(weft_pad(turned, 1, 2, 0, n), 2, 0, 3, n);
    case 2: return weft_pad(weft_pad(weft_pad(x, 0, 1, 1, n), 0, 1, 2, weft_integer(3)), 1, 5, 5, n);
    case 3: return weft_pad(weft_add(turned, weft_cast(n, t)), 2, 1, 1, n);
    case 4: return weft_add(weft_pad(weft_mul(x, x), 1, 1, 0, n), weft_cast(n, t));
    case 5: return weft_pad(weft_flatten(x, 0, 2), 0, 1, 0, n);
    case 6: return weft_pad(weft_flip(weft_flatten(turned, 0, 2), 0), 0, 0, 1, n);
    case 7: return weft_concat(1, 2, (weft_array *[]){ weft_pad(turned, 2, 1, 1, n), weft_pad(weft_neg(turned), 2, 1, 1, n) });
    case 8: return weft_pad(weft_pad(turned, 0, 0, 0, n), 1, 0, 0, n);
    case 9: return weft_pad(x, 1, 1, 1, weft_at(weft_flatten(x, 0, 2), 0, weft_integer(5))); /* no number yet */
    case 10: {
      weft_array *y = weft_add(x, weft_cast(n, t)), *wide = weft_pad(y, 2, 1, 1, n); /* y is wanted as it is, too */
      return weft_add(weft_sum(wide, 2), weft_sum(y, 2));
    }
    default: return weft_matmul(weft_pad(weft_slice(weft_flatten(x, 0, 1), 1, 1, 35, 1), 1, 1, 1, n), weft_moveaxis(weft_flatten(x, 0, 1), 0, 1));
  }
}

TEST(large_arrays_are_surrounded_in_parts_with_the_bits_of_one_op_at_a_time) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I8, WEFT_U16, WEFT_I64 };
  enum { FORMS = 12 };
  int64_t threads = weft_get(WEFT_THREADS);
  bool is_in_parts = false;
  test_watchdog(120);
  for (int i = 0; i < FORMS * 6; i++) {
    size_t n, m;
    weft_scope *s = weft_scope_open();
    way_take(&(struct way){ "", "vm", false, 1 });
    double *want = all_f64(surrounded(i % FORMS, types[i / FORMS]), &n);
    for (int k = 0; k < FUSED_WAYS; k++) {
      way_take(&fused_ways[k]);
      weft_array *y = surrounded(i % FORMS, types[i / FORMS]);
      is_in_parts |= strstr(weft_show(1, &y, "plan"), "fill") != NULL;
      double *got = all_f64(y, &m);
      if (n != m || !are_same(got, want, n))
        test_fail(__FILE__, __LINE__, "form %d of %s on %s", i % FORMS, weft_dtype_name(types[i / FORMS]), fused_ways[k].name);
      free(got);
    }
    free(want);
    weft_scope_discard(s);
  }
  EXPECT(is_in_parts);
  way_take(&(struct way){ "", NULL, true, (int)threads });
}

TEST(stacks_and_splits_undo_each_other) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 2)), *part[2];
  EXPECT_F64(weft_stack(-1, WEFT_ARRAYS(x, weft_neg(x))), 0, -0.0, 1, -1, 2, -2, 3, -3);
  EXPECT_SHAPE(weft_stack(0, WEFT_ARRAYS(x)), 1, 2, 2);
  weft_split(x, 1, 2, part);
  EXPECT_F64(part[1], 1, 3);
  EXPECT_SHAPE(part[0], 2, 1);
  EXPECT_F64(weft_stack(0, WEFT_ARRAYS(weft_scalar(1.5), f64_of(2))), 1.5, 2);
  weft_scope_discard(s);
}

TEST(repeat_tile_and_roll_arrange_the_same_elements) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 2));
  EXPECT_F64(weft_repeat(x, 0, 2), 0, 1, 0, 1, 2, 3, 2, 3);
  EXPECT_F64(weft_repeat(x, -1, 2), 0, 0, 1, 1, 2, 2, 3, 3);
  EXPECT_SHAPE(weft_repeat(x, 0, 0), 0, 2);
  EXPECT_F64(weft_tile(x, WEFT_DIMS(2)), 0, 1, 0, 1, 2, 3, 2, 3);
  EXPECT_F64(weft_tile(x, WEFT_DIMS(2, 1)), 0, 1, 2, 3, 0, 1, 2, 3);
  EXPECT_SHAPE(weft_tile(x, WEFT_DIMS(3, 1, 2)), 3, 2, 4);
  EXPECT_F64(weft_roll(x, 1, 1), 1, 0, 3, 2);
  EXPECT_F64(weft_roll(weft_arange(WEFT_F64, 0, 5, 1), 0, -7), 2, 3, 4, 0, 1);
  EXPECT_F64(weft_roll(weft_arange(WEFT_F64, 0, 3, 1), 0, INT64_MIN), 2, 0, 1);
  EXPECT_SHAPE(weft_roll(weft_full(WEFT_F64, WEFT_DIMS(0), 0), 0, 3), 0);
  EXPECT_SHAPE(weft_flatten(counted(WEFT_DIMS(2, 3, 4)), 1, -1), 2, 12);
  EXPECT_SHAPE(weft_flatten(f64_of(1), 0, -1), 1);
  weft_scope_discard(s);
}

static weft_array *rolled(weft_array *x) { return weft_roll(x, 0, 2); }
static weft_array *rolled_back(weft_array *x) { return weft_roll(x, 0, -1); }
static weft_array *twice(weft_array *x) { return weft_tile(weft_repeat(x, 0, 2), WEFT_DIMS(2)); }
static weft_array *half(weft_array *x) {
  weft_array *part[2];
  weft_split(weft_concat(0, WEFT_ARRAYS(x, x)), 0, 2, part);
  return part[1];
}
TEST(arrays_of_unknown_size_are_arranged_too) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(called_open(rolled, counted(WEFT_DIMS(5))), 3, 4, 0, 1, 2);
  EXPECT_F64(called_open(rolled, counted(WEFT_DIMS(1))), 0);
  EXPECT_F64(called_open(rolled_back, counted(WEFT_DIMS(3))), 1, 2, 0);
  EXPECT_SHAPE(called_open(rolled, counted(WEFT_DIMS(0))), 0);
  EXPECT_SHAPE(called_open(rolled_back, counted(WEFT_DIMS(0))), 0);
  EXPECT_F64(called_open(twice, counted(WEFT_DIMS(2))), 0, 0, 1, 1, 0, 0, 1, 1);
  EXPECT_F64(called_open(half, counted(WEFT_DIMS(3))), 0, 1, 2);
  weft_scope_discard(s);
}

TEST(diagonals_are_taken_out_and_put_in) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 3, 2));
  EXPECT_F64(weft_diagonal(x, 0, 1, 2), 0, 3, 6, 9);
  EXPECT_F64(weft_diagonal(x, -1, 1, 2), 2, 5, 8, 11);
  EXPECT_F64(weft_diagonal(x, 1, 0, 1), 2, 10, 3, 11);
  EXPECT_SHAPE(weft_diagonal(x, 5, 1, 2), 2, 0);
  EXPECT_F64(weft_diag(f64s(2, (double[]){ 7, 8 }), 1), 0, 7, 0, 0, 0, 8, 0, 0, 0);
  EXPECT_F64(weft_diag(weft_diag(f64s(2, (double[]){ 7, 8 }), -1), -1), 7, 8);
  weft_array *m = counted(WEFT_DIMS(2, 2));
  EXPECT_F64(weft_put(m, weft_diagonal(m, 0, 0, 1), weft_scalar(9), WEFT_SET), 9, 1, 2, 9);
  weft_scope_discard(s);
}

TEST(taking_and_putting_along_an_axis_broadcasts_the_others) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 3)), *i = weft_from(WEFT_I32, WEFT_DIMS(2, 1), (int32_t[]){ 2, -3 });
  EXPECT_F64(weft_take_along(x, 1, i), 2, 3);
  EXPECT_F64(weft_take_along(x, 0, weft_from(WEFT_I32, WEFT_DIMS(1, 3), (int32_t[]){ 1, 0, -1 })), 3, 1, 5);
  EXPECT_F64(weft_take_along(weft_slice(x, 0, 0, 1, 1), 1, i), 2, 0);
  EXPECT_F64(weft_put(x, weft_take_along(x, 1, i), weft_scalar(9), WEFT_SET), 0, 1, 9, 9, 4, 5);
  EXPECT_F64(weft_take_along(x, 1, weft_argmax(x, 1)), 2, 5);
  weft_array *far = weft_from(WEFT_I32, WEFT_DIMS(2, 1), (int32_t[]){ 0, 3 }), *y = weft_take_along(x, 1, far);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take_along: the index 3 at place 1 is out of range for an axis of 3");
  weft_scope_discard(s);
}

/* Of 3 to 12 axes, by each of them, with one index for every line: as a plain loop does it; the derivative counts who was taken. */
TEST(taking_along_an_axis_of_many_is_taking_along_one_of_few) {
  enum { MOST_AXES = 12 };
  for (int rank = 3; rank <= MOST_AXES; rank++)
    for (int axis = 0; axis < rank; axis++) {
      int64_t dims[MOST_AXES], few[MOST_AXES], behind = 1, all = 1, n = 3;
      for (int k = 0; k < rank; k++) few[k] = dims[k] = k == axis ? n : k == 0 || k == rank - 1 || k == rank / 2 ? 2 : 1;
      for (int k = axis + 1; k < rank; k++) behind *= dims[k];
      for (int k = 0; k < rank; k++) all *= dims[k];
      few[axis] = 2;
      int64_t n_taken = all / n * 2;
      int32_t at[64];
      double want[64], got[64], slope[64] = { 0 }, found[64];
      EXPECT(n_taken <= 64 && all <= 64);
      for (int64_t i = 0; i < n_taken; i++) {
        at[i] = (int32_t)((i * 7 + i / 3) % (2 * n) - n); /* -3 .. 2 */
        int64_t from = (i / behind / 2 * n + (at[i] + n) % n) * behind + i % behind;
        want[i] = (double)from;
        slope[from] += (double)(i + 1);
      }
      weft_scope *s = weft_scope_open();
      weft_array *x = counted(rank, dims), *y = weft_take_along(x, axis, weft_from(WEFT_I32, rank, few, at));
      weft_array *w = weft_add(counted(rank, few), weft_scalar(1)), *dx;
      weft_grad(weft_sum(weft_mul(y, w), WEFT_ALL), 1, &x, &dx);
      EXPECT_INT(weft_read(y, WEFT_F64, got, sizeof *got * (size_t)n_taken), WEFT_OK);
      EXPECT_INT(weft_read(dx, WEFT_F64, found, sizeof *found * (size_t)all), WEFT_OK);
      if (memcmp(got, want, sizeof *got * (size_t)n_taken)) test_fail(__FILE__, __LINE__, "axis %d of %d: other elements", axis, rank);
      if (memcmp(found, slope, sizeof *found * (size_t)all)) test_fail(__FILE__, __LINE__, "axis %d of %d: another derivative", axis, rank);
      weft_scope_discard(s);
    }
}

/* v along the middle axis of [40, 50, c], 70 updates a line: as a plain loop does it, in order. */
enum { LINES = 40, SLOTS = 50, UPDATES = 70, MOST_BEHIND = 3 };

static double combined(weft_how how, double x, double v) {
  switch (how) {
    case WEFT_SET: return v;
    case WEFT_ADD: return x + v;
    case WEFT_MUL: return x * v;
    case WEFT_MIN: return x < v ? x : v;
    case WEFT_MAX: return x > v ? x : v;
  }
  return 0;
}

static void expect_lines_updated(weft_dtype t, weft_how how, int behind, bool is_reversed, bool is_whole) {
  weft_scope *s = weft_scope_open();
  static double x[LINES * SLOTS * MOST_BEHIND], v[LINES * UPDATES * MOST_BEHIND], y[LINES * SLOTS * MOST_BEHIND];
  static int32_t at[LINES * UPDATES * MOST_BEHIND];
  for (int k = 0; k < LINES * SLOTS * behind; k++) x[k] = 1 + k % 3;
  for (int k = 0; k < LINES * UPDATES * behind; k++) {
    v[k] = how == WEFT_MUL ? 1 + (k % 97 == 0) : k % 5 - 2;
    at[k] = k * 31 % 101 % (2 * SLOTS) - SLOTS;
  }
  int n_at = is_whole ? 1 : behind; /* whole: one index for all that is behind */
  for (int l = 0; l < LINES; l++)
    for (int u = 0; u < UPDATES; u++)
      for (int c = 0; c < behind; c++) {
        int from = is_reversed ? UPDATES - 1 - u : u, k = at[(l * UPDATES + from) * n_at + c % n_at];
        double *slot = &x[(l * SLOTS + (k < 0 ? k + SLOTS : k)) * behind + c];
        *slot = combined(how, *slot, v[(l * UPDATES + from) * behind + c]);
      }
  memcpy(y, x, sizeof x);
  for (int k = 0; k < LINES * SLOTS * behind; k++) x[k] = 1 + k % 3;
  weft_array *a = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(LINES, SLOTS, behind), x), t);
  weft_array *i = weft_from(WEFT_I32, WEFT_DIMS(LINES, UPDATES, n_at), at);
  weft_array *b = weft_from(WEFT_F64, WEFT_DIMS(LINES, UPDATES, behind), v);
  if (is_reversed) i = weft_slice(i, 1, UPDATES - 1, WEFT_BEGIN, -1), b = weft_slice(b, 1, UPDATES - 1, WEFT_BEGIN, -1);
  weft_array *line = weft_iota(weft_full(WEFT_I64, WEFT_DIMS(LINES, UPDATES), 0), 0);
  weft_array *part = is_whole ? weft_take(a, 2, (weft_array *[]){ line, weft_squeeze(i, 2) }) : weft_take_along(a, 1, i);
  weft_array *got = weft_put(a, part, weft_cast(b, t), how);
  EXPECT_SAME(weft_cast(got, WEFT_F64), weft_from(WEFT_F64, WEFT_DIMS(LINES, SLOTS, behind), y));
  weft_scope_discard(s);
}

TEST(lines_that_are_updated_each_by_their_own_indices_are_those_of_a_plain_loop) {
  for (int how = WEFT_SET; how <= WEFT_MAX; how++)
    for (int k = 0; k < 16; k++)
      expect_lines_updated(k & 8 ? WEFT_BF16 : WEFT_F32, (weft_how)how, k & 4 ? MOST_BEHIND : 1, k & 2, k & 1);
}

TEST(an_index_out_of_range_is_counted_through_the_lines_before_it) {
  weft_scope *s = weft_scope_open();
  static int32_t at[LINES * 200];
  at[17 * 200 + 5] = 300;
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(LINES, 300), 0), *i = weft_from(WEFT_I32, WEFT_DIMS(LINES, 200), at);
  weft_array *y = weft_put(x, weft_take_along(x, 1, i), weft_scalar(1), WEFT_SET);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_put: the index 300 at place 3405 is out of range for an axis of 300");
  weft_scope_discard(s);
}

/* ---- Updates of what is computed for them ---- */

static weft_array *rows_added(weft_array *x, int64_t n, int64_t slots, weft_array *v) { /* row i is added to row 7 i of the slots */
  weft_array *i = weft_remainder(weft_mul(weft_reshape(weft_linspace(WEFT_I32, 0, (double)n - 1, n), WEFT_DIMS(n)), weft_integer(7)), weft_integer(slots));
  EXPECT_OK(weft_eval(1, &i));
  return weft_put(x, weft_take(x, 1, &i), v, WEFT_ADD);
}

static bool has_copy(weft_array *y) {
  const char *plan = weft_show(1, &y, "plan");
  return !plan || strstr(plan, "copy");
}

TEST(updates_go_where_what_is_computed_for_them_stands) {
  enum { N = 100, ROW = 8 };
  weft_scope *s = weft_scope_open();
  weft_array *v = counted(WEFT_DIMS(N, ROW)), *x = counted(WEFT_DIMS(SLOTS, ROW)), *e = weft_exp(x);
  EXPECT_OK(weft_eval(3, (weft_array *[]){ v, x, e }));
  weft_array *kept = weft_exp(x), *sums = rows_added(kept, N, SLOTS, v), *apart = rows_added(e, N, SLOTS, v);
  EXPECT(!has_copy(rows_added(weft_full(WEFT_F64, WEFT_DIMS(SLOTS, ROW), 0), N, SLOTS, v)));
  EXPECT(!has_copy(rows_added(weft_exp(x), N, SLOTS, v)));
  EXPECT(has_copy(apart));
  EXPECT(has_copy(weft_mul(sums, kept))); /* which is wanted as it was */
  EXPECT_SAME(rows_added(weft_exp(x), N, SLOTS, v), apart);
  EXPECT_SAME(weft_mul(sums, kept), weft_mul(apart, e));
  EXPECT_SAME(rows_added(rows_added(weft_exp(x), N, SLOTS, v), N, SLOTS, v), rows_added(apart, N, SLOTS, v));
  weft_scope_discard(s);
}

/* ---- Several axes at once ---- */

static weft_array *spread(weft_array *x, int axis) { return weft_sub(weft_max(x, axis), weft_min(x, axis)); }

TEST(reductions_over_several_axes_are_those_over_one_that_runs_through_them) {
  weft_scope *s = weft_scope_open();
  weft_array *x = counted(WEFT_DIMS(2, 3, 2));
  EXPECT_F64(weft_over(weft_sum, x, WEFT_AXES(0, 2)), 14, 22, 30);
  EXPECT_SHAPE(weft_over(weft_sum, x, WEFT_AXES(2, 0)), 1, 3, 1);
  EXPECT_F64(weft_over(weft_mean, x, WEFT_AXES(-1, 0)), 3.5, 5.5, 7.5);
  EXPECT_F64(weft_cast(weft_over(weft_argmax, x, WEFT_AXES(0, 2)), WEFT_F64), 3, 3, 3);
  EXPECT_F64(weft_cast(weft_over(weft_argmin, weft_flip(x, 0), WEFT_AXES(0, 2)), WEFT_F64), 2, 2, 2);
  EXPECT_F64(weft_over(spread, x, WEFT_AXES(1, 2)), 5, 5);
  EXPECT_SHAPE(weft_over(spread, x, WEFT_AXES(0, 1)), 1, 1, 2);
  EXPECT_F64(weft_over(weft_prod, counted(WEFT_DIMS(2, 2)), WEFT_AXES(0, 1)), 0);
  EXPECT_F64(weft_over(weft_max, f64_of(3), 0, NULL), 3);
  EXPECT_F64(weft_cast(weft_over(weft_argmax, f64_of(3), 0, NULL), WEFT_F64), 0);
  weft_scope_discard(s);
}

TEST(means_of_narrow_floats_over_several_axes_are_rounded_once) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_cast(weft_linspace(WEFT_F32, 0, 1, 60), WEFT_BF16), *m = weft_reshape(x, WEFT_DIMS(5, 12));
  float once, chained;
  EXPECT_OK(weft_read(weft_cast(weft_over(weft_mean, m, WEFT_AXES(0, 1)), WEFT_F32), WEFT_F32, &once, sizeof once));
  EXPECT_OK(weft_read(weft_cast(weft_cast(weft_mean(weft_cast(x, WEFT_F32), 0), WEFT_BF16), WEFT_F32), WEFT_F32, &chained, sizeof chained));
  EXPECT(once == chained);
  weft_scope_discard(s);
}

static weft_array *variance(weft_array *x, int axis) { return weft_var(x, axis, 1); }

TEST(variances_over_the_last_axes_are_those_of_one_row) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_sin(weft_reshape(weft_linspace(WEFT_F32, 0, 99, 5 * 40 * 50), WEFT_DIMS(5, 40, 50)));
  EXPECT_SAME(weft_var_over(x, WEFT_AXES(1, 2), 1), weft_over(variance, x, WEFT_AXES(1, 2)));
  EXPECT_SAME(weft_var_over(x, WEFT_AXES(2), 1), weft_var(x, 2, 1));
  EXPECT_F64(weft_var_over(f64_of(3), 0, NULL, 0), 0);
  EXPECT_F64(weft_std_over(counted(WEFT_DIMS(2, 3)), WEFT_AXES(1, 0), 0), sqrt(35. / 12));
  weft_scope_discard(s);
}

/* How often a plan sums what it reads of memory that stands before it. */
static int n_sums_of_leaves(weft_array *y[], int n) {
  int times = 0;
  for (const char *at = weft_show(n, y, "plan"); at && (at = strstr(at, ": ")); at++) {
    const char *end = strchr(at, '\n'), *sum = strstr(at, "sum"), *leaf = strstr(at, "leaf");
    times += sum && leaf && end && sum < end && leaf < end;
  }
  return times;
}

TEST(variances_over_other_axes_are_about_the_mean_that_is_there) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_sin(weft_reshape(weft_linspace(WEFT_F32, 0, 99, 40 * 30 * 20), WEFT_DIMS(40, 30, 20)));
  EXPECT_OK(weft_eval(1, &x));
  weft_array *m = weft_over(weft_mean, x, WEFT_AXES(0, 1)), *d = weft_sub(x, m), *squares = weft_over(weft_sum, weft_mul(d, d), WEFT_AXES(0, 1));
  weft_array *v = weft_var_over(x, WEFT_AXES(0, 1), 1), *y[] = { m, v };
  EXPECT_SHAPE(v, 1, 1, 20);
  EXPECT_INT(n_sums_of_leaves(y, 2), 2);
  EXPECT_SAME(v, weft_div(squares, weft_scalar(40 * 30 - 1)));
  EXPECT_F64(weft_var_over(counted(WEFT_DIMS(2, 2, 2)), WEFT_AXES(0, 1), 0), 5, 5);
  EXPECT_F64(weft_std_over(counted(WEFT_DIMS(2, 2, 2)), WEFT_AXES(0, 2), 1), sqrt(17. / 3), sqrt(17. / 3));
  weft_scope_discard(s);
}

static weft_array *unlike(weft_array *x) { return weft_var_over(x, WEFT_AXES(0, 1), 0); }
static weft_array *both(weft_array *x) { return weft_over(weft_mean, x, WEFT_AXES(0, 1)); }
static weft_array *deviation(weft_array *x) { return weft_std(x, 0, 1); }
TEST(means_and_deviations_of_unknown_sizes_divide_by_those_of_the_call) {
  weft_scope *s = weft_scope_open();
  EXPECT_F64(called_open(both, counted(WEFT_DIMS(2, 3))), 2.5);
  EXPECT_F64(called_open(deviation, f64s(2, (double[]){ 1, 3 })), sqrt(2));
  EXPECT_F64(called_open(unlike, counted(WEFT_DIMS(2, 2, 2))), 5, 5);
  EXPECT_F64(weft_var(counted(WEFT_DIMS(2, 3)), 1, 0), 2. / 3, 2. / 3);
  EXPECT_F64(weft_var(counted(WEFT_DIMS(4)), WEFT_ALL, 1), 5. / 3);
  double none;
  EXPECT_OK(weft_read(weft_var(f64_of(3), WEFT_ALL, 1), WEFT_F64, &none, sizeof none));
  EXPECT(isnan(none));
  weft_scope_discard(s);
}

static weft_array *where_largest(weft_array *x) { return weft_argmax(x, 0); }
static weft_array *largest(weft_array *x) { return weft_max(x, 0); }
TEST(the_largest_of_nothing_and_its_index_are_errors) {
  weft_scope *s = weft_scope_open();
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(0), 0), *y = called_open(where_largest, none);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_argmax: nothing to choose from in [0]");
  EXPECT_F64(weft_cast(called_open(where_largest, counted(WEFT_DIMS(3))), WEFT_F64), 2);
  y = called_open(largest, none);
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_max: nothing to choose from in [0]");
  EXPECT_F64(weft_sum(none, 0), 0);
  EXPECT_F64(weft_prod(none, 0), 1);
  EXPECT(one_f64(weft_logsumexp(none, 0)) == -INFINITY);
  weft_scope_discard(s);
}

/* ---- Activations where they are hard ---- */

TEST(activations_keep_nan_and_do_not_overflow) {
  weft_scope *s = weft_scope_open();
  double x[] = { NAN, INFINITY, -INFINITY, 1e4, -1e4, -0.0 }, y[6];
  weft_array *a = f64s(6, x);
  EXPECT(read_f64(weft_relu(a), 6, y) && isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1e4 && y[4] == 0);
  EXPECT(read_f64(weft_softplus(a), 6, y) && isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1e4 && y[4] == 0);
  EXPECT_NEAR(y[5], log(2), 1e-15);
  EXPECT(read_f64(weft_gelu(a), 6, y) && isnan(y[0]) && y[1] == INFINITY && y[3] == 1e4 && y[4] == 0);
  EXPECT(read_f64(weft_gelu_approx(a), 6, y) && isnan(y[0]) && y[1] == INFINITY && y[3] == 1e4 && y[4] == 0);
  EXPECT(read_f64(weft_silu(a), 6, y) && isnan(y[0]) && y[1] == INFINITY && y[3] == 1e4 && y[4] == 0);
  weft_array *dx, *ddx, *soft = weft_softplus(a);
  weft_grad(soft, 1, &a, &dx);
  weft_grad(dx, 1, &a, &ddx);
  EXPECT(read_f64(dx, 6, y) && isnan(y[0]) && y[1] == 1 && y[2] == 0 && y[3] == 1 && y[4] == 0 && y[5] == 0.5);
  EXPECT(read_f64(ddx, 6, y) && y[3] == 0 && y[4] == 0 && y[5] == 0.25);
  weft_array *large = f64s(2, (double[]){ 1e300, 1e300 });
  EXPECT_F64(weft_log_softmax(large, 0), -log(2), -log(2));
  weft_scope_discard(s);
}
