/* evaluate.c -- what evaluation got wrong once, as small as it can be said; and random programs, for a moment. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "every_recipe.h"
#include "base/mem.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"

/* In all ways of evaluation: the array that `make` builds has these elements. */
#define EXPECT_ALL_WAYS(make, type, weft_type, ...)                                                  \
  for (int w_ = 0; w_ < n_ways; w_++) {                                                              \
    type want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_] = { 0 };                      \
    weft_scope *scope_ = weft_scope_open();                                                           \
    way_take(&ways[w_]);                                                                             \
    EXPECT_OK(weft_read(make(), weft_type, got_, sizeof got_));                                      \
    for (int i_ = 0; i_ < (int)(sizeof want_ / sizeof *want_); i_++)                                 \
      if (memcmp(&got_[i_], &want_[i_], sizeof *want_) && !(got_[i_] != got_[i_] && want_[i_] != want_[i_])) \
        test_fail(__FILE__, __LINE__, "%s, %s: element %d is %.17g, not %.17g", #make, ways[w_].name, i_, \
                  (double)got_[i_], (double)want_[i_]);                                              \
    weft_scope_discard(scope_);                                                                       \
    way_leave();                                                                                     \
  }

static weft_array *bool_rows(void) {
  weft_array *x = weft_from(WEFT_BOOL, WEFT_DIMS(3, 1), (bool[]){ true, false, true });
  return weft_cast(weft_broadcast(x, WEFT_DIMS(3, 4)), WEFT_I64);
}
TEST(a_64_bit_value_that_is_the_same_in_a_row_fills_the_row) {
  EXPECT_ALL_WAYS(bool_rows, int64_t, WEFT_I64, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
}

enum { LONG = 9001, WIDE = 1100, FEW = 3, ROWS = 20, ROW = 50001 };

/* Numbers whose sum depends on its order. */
static weft_array *uneven(int64_t rows, int64_t cols) {
  float *x = malloc(sizeof *x * (size_t)(rows * cols));
  for (int64_t i = 0; i < rows * cols; i++) x[i] = (float)(i * 2654435761 % 1000003) / 1000;
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(rows, cols), x);
  free(x);
  return a;
}

/* The first sums of many, and the sums of a copy of these alone, which threads share otherwise. */
static void expect_same_sums(weft_array *many, int axis, int across) {
  float some[FEW], alone[FEW];
  weft_array *few = weft_mul(weft_slice(many, across, 0, FEW, 1), weft_scalar(1));
  EXPECT_OK(weft_eval(1, &few));
  EXPECT_OK(weft_read(weft_slice(weft_sum(many, axis), across, 0, FEW, 1), WEFT_F32, some, sizeof some));
  EXPECT_OK(weft_read(weft_sum(few, axis), WEFT_F32, alone, sizeof alone));
  EXPECT(!memcmp(some, alone, sizeof some));
}
TEST(few_long_rows_and_columns_are_summed_in_the_order_of_many) {
  for (int w = 0; w < n_ways; w++) {
    weft_scope *s = weft_scope_open();
    way_take(&ways[w]);
    expect_same_sums(uneven(LONG, WIDE), 0, 1);
    expect_same_sums(uneven(ROWS, ROW), 1, 0);
    weft_scope_discard(s);
    way_leave();
  }
}

static weft_array *through_a_float(void) {
  weft_array *x = weft_from(WEFT_I8, WEFT_DIMS(3), (int8_t[]){ -24, 0, 100 });
  return weft_cast(weft_cast(x, WEFT_F64), WEFT_U64);
}
TEST(a_cast_through_a_float_saturates) { EXPECT_ALL_WAYS(through_a_float, uint64_t, WEFT_U64, 0, 0, 100); }

static weft_array *empty_and_full(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3, 0, 2), 1);
  return weft_sum(weft_abs(x), 1);
}
TEST(a_sum_over_an_empty_axis_is_zero) { EXPECT_ALL_WAYS(empty_and_full, float, WEFT_F32, 0, 0, 0, 0, 0, 0); }

static weft_array *turned_count(void) { /* the index stands in memory before the kernel that reads it in another shape */
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2, 3), (float[]){ 0, 5, 0, 5, 0, 5 });
  return weft_cast(weft_reshape(weft_le(weft_iota(x, 1), x), WEFT_DIMS(3, 2)), WEFT_F32);
}
TEST(a_reshaped_count_is_there_before_it_is_read) { EXPECT_ALL_WAYS(turned_count, float, WEFT_F32, 1, 1, 0, 1, 0, 1); }

static weft_array *least_put(void) {
  weft_array *x = weft_cast(weft_from(WEFT_I64, WEFT_DIMS(4), (int64_t[]){ 5, 6, 7, 8 }), WEFT_I16);
  return weft_put(x, weft_slice(x, 0, 2, 0, -1), weft_from(WEFT_I16, WEFT_DIMS(2), (int16_t[]){ -3, 9 }), WEFT_MIN);
}
TEST(an_update_of_a_computed_array_reads_it_after_it_was_computed) { EXPECT_ALL_WAYS(least_put, int16_t, WEFT_I16, 5, 6, -3, 8); }

static weft_array *beside_a_sum(void) { /* log1p has no axis of the sum: it may not be stored by its kernel */
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 0, 0, 0 }), *wide = weft_broadcast(x, WEFT_DIMS(5, 2, 3));
  weft_array *i = weft_from(WEFT_I32, 0, NULL, (int32_t[]){ 1 }), *log = weft_log1p(x);
  return weft_maximum(weft_mean(wide, 0), weft_take(log, 1, &i));
}
TEST(a_value_without_the_axes_of_a_kernel_is_stored_elsewhere) { EXPECT_ALL_WAYS(beside_a_sum, float, WEFT_F32, 0, 0, 0, 0, 0, 0); }

static void nothing(void *ctx) { (void)ctx; }
static weft_array *of_nowhere(void) { /* no elements, at address NULL, all of them at the same place */
  weft_block b = { NULL, 0, WEFT_F32, 2, (int64_t[]){ 2, 0 }, (int64_t[]){ 0, 0 } };
  weft_array *x = weft_external(&b, nothing, NULL);
  return weft_sum(weft_exp(x), 1);
}
TEST(an_empty_array_is_not_read) { EXPECT_ALL_WAYS(of_nowhere, float, WEFT_F32, 0, 0); }

/* Operands of [2,1,2], [1,2,2] and [2,2,1]: what is computed of the first two in one kernel over two rows is no reason to run over
 * the four rows of the third as over two. */
static weft_array *meeting_rows(void) {
  weft_array *a = weft_sqrt(weft_cast(weft_from(WEFT_I16, WEFT_DIMS(2, 1, 2), (int16_t[]){ 1, 4, 9, 16 }), WEFT_F32));
  weft_array *b = weft_cast(weft_from(WEFT_U64, WEFT_DIMS(1, 2, 2), (uint64_t[]){ 5, 6, 7, 8 }), WEFT_F32);
  weft_array *c = weft_cast(weft_from(WEFT_U64, WEFT_DIMS(2, 2, 1), (uint64_t[]){ 10, 20, 30, 40 }), WEFT_F32);
  return weft_min(weft_fma(b, a, c), 2);
}
TEST(two_axes_of_one_length_stay_two) { EXPECT_ALL_WAYS(meeting_rows, float, WEFT_F32, 15, 27, 45, 61); }

static weft_array *any_and_sum(void) { /* row sums, and whether any is not 0: a bool in private copies */
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2, 3), (float[]){ 0, 0, 0, 1, 2, 3 }), *s = weft_sum(x, 1);
  return weft_add(s, weft_cast(weft_any(weft_cast(s, WEFT_BOOL), 0), WEFT_F32));
}
TEST(bools_are_combined_over_rows) { EXPECT_ALL_WAYS(any_and_sum, float, WEFT_F32, 1, 7); }

static weft_array *sum_in_another_shape(void) { /* no strides say reshape(transpose(x)): it is copied, twice used or not */
  weft_array *x = weft_transpose(weft_from(WEFT_F32, WEFT_DIMS(2, 3), (float[]){ 1, 2, 3, 4, 5, 6 }), NULL), *y = weft_cast(x, WEFT_F64);
  return weft_reshape(weft_add(y, y), WEFT_DIMS(2, 3));
}
TEST(a_reshape_that_moves_elements_finds_them) { EXPECT_ALL_WAYS(sum_in_another_shape, double, WEFT_F64, 2, 8, 4, 10, 6, 12); }

static weft_array *sums_of_two_lengths(void) {
  weft_array *a = weft_full(WEFT_F32, WEFT_DIMS(7), 1), *b = weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 5, 6, 7 });
  a = weft_exp(weft_sub(weft_from(WEFT_F32, WEFT_DIMS(7), (float[]){ 1, 1, 1, 1, 1, 1, 1 }), a));
  return weft_minimum(weft_mean(a, 0), weft_sum(b, 0));
}
TEST(sums_over_axes_of_two_lengths_do_not_share_a_loop) { EXPECT_ALL_WAYS(sums_of_two_lengths, float, WEFT_F32, 1); }

static weft_array *column_of_the_same(void) { /* a row of equal values is folded over the columns, each for itself */
  weft_array *x = weft_broadcast(weft_from(WEFT_F32, WEFT_DIMS(2, 1), (float[]){ 3, 5 }), WEFT_DIMS(2, 2));
  return weft_max(weft_softmax(x, 1), 0);
}
TEST(equal_values_of_a_row_are_folded_for_each_column) { EXPECT_ALL_WAYS(column_of_the_same, float, WEFT_F32, 0.5f, 0.5f); }

static weft_array *turned_round(void) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(2, WEFT_ANY)), *y = weft_sum(weft_flip(x, 1), 1), *out;
  weft_function *f = weft_compile(body, 1, &x, 1, &y);
  weft_array *nothing_at_all = weft_full(WEFT_F32, WEFT_DIMS(2, 0), 1);
  weft_call(f, 1, &nothing_at_all, 1, &out);
  return out;
}
TEST(an_axis_of_unknown_size_that_is_empty_is_turned_round) { EXPECT_ALL_WAYS(turned_round, float, WEFT_F32, 0, 0); }

static weft_array *same_index(void) { /* read once, outside the loop, and checked there */
  weft_array *i = weft_broadcast(weft_from(WEFT_I64, 0, NULL, (int64_t[]){ -2 }), WEFT_DIMS(3)), *x = weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 4, 5 });
  return weft_add(weft_take(x, 1, &i), weft_cast(weft_sum(weft_cumsum(i, 0), 0), WEFT_F32));
}
TEST(an_index_that_is_the_same_everywhere_is_checked) {
  EXPECT_ALL_WAYS(same_index, float, WEFT_F32, -8, -8, -8);
  weft_scope *s = weft_scope_open();
  weft_array *i = weft_broadcast(weft_from(WEFT_I64, 0, NULL, (int64_t[]){ 2 }), WEFT_DIMS(3)), *x = weft_full(WEFT_F32, WEFT_DIMS(2), 1);
  weft_array *y = weft_exp(weft_take(x, 1, &i));
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take: the index 2 at place 0 is out of range for an axis of 2");
  weft_scope_discard(s);
}

TEST(values_are_shown_as_people_write_them) {
  weft_scope *s = weft_scope_open();
  float some[] = { 10, 0.1f, -200, 123456, 1e-5f, 1.0f / 3 };
  double more[] = { 1000, 0.1, 1e6, 1e300 };
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(6), some), *y = weft_from(WEFT_F64, WEFT_DIMS(4), more);
  EXPECT_TEXT(weft_show(1, &x, "value"), "[10, 0.1, -200, 123456, 1e-05, 0.33333334]\n");
  EXPECT_TEXT(weft_show(1, &y, "value"), "[1000, 0.1, 1e+06, 1e+300]\n");
  weft_scope_discard(s);
}

TEST(an_empty_array_of_very_many_rows_is_too_long_to_show) {
  weft_scope *s = weft_scope_open();
  weft_array *rows = weft_full(WEFT_F32, WEFT_DIMS(INT64_C(1) << 40, INT64_C(1) << 40, 0), 0), *none = weft_full(WEFT_F32, WEFT_DIMS(2, 0, 1 << 20), 0);
  EXPECT_TEXT(weft_show(1, &rows, "value"), "weft_show: [1099511627776,1099511627776,0] is too long to show");
  EXPECT_TEXT(weft_show(1, &none, "value"), "[[],\n []]\n");
  weft_scope_discard(s);
}

TEST(random_programs_have_the_bits_of_plain_c_in_every_way) {
  time_t end = time(NULL) + 3;
  uint64_t seed = 1;
  for (bool ok = true; ok && time(NULL) < end; seed++) {
    ok = recipe_check(seed) && (seed % 4 || recipe_check_gradient(seed)) && (seed % 4 != 1 || recipe_check_forms(seed));
    if (!ok) test_fail(__FILE__, __LINE__, "seed %llu: build/release/fuzz/graph 0 %llu 1", (unsigned long long)seed, (unsigned long long)seed);
  }
  EXPECT_INT(plain_off, 0);
  plain_end();
}

TEST(a_long_prefix_of_a_number_that_is_nowhere_in_memory_is_right) {
  enum { N = 1000000 };
  static int32_t y[N];
  weft_scope *s = weft_scope_open();
  EXPECT_OK(weft_read(weft_cumsum(weft_full(WEFT_I32, WEFT_DIMS(N), 3), 0), WEFT_I32, y, sizeof y));
  for (int i = 0; i < N; i++)
    if (y[i] != 3 * (i + 1)) { EXPECT_INT(y[i], 3 * (i + 1)); break; }
  weft_scope_discard(s);
}

TEST(plans_that_differ_in_a_number_do_not_pile_up) {
  enum { PLANS = 80, OPS = 400 };
  size_t most = 0;
  int64_t live = 0;
  for (int i = -1; i < PLANS; i++) {
    if (i == 0) plan_drop_all(), live = mem_live(); /* and the kernels are there */
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_full(WEFT_F64, WEFT_DIMS(3), 1);
    for (int k = 0; k < OPS; k++) x = weft_cumsum(weft_add(x, weft_scalar(i)), 0);
    EXPECT_OK(weft_eval(1, &x));
    most = plan_table_bytes() > most ? plan_table_bytes() : most;
    weft_scope_discard(s);
  }
  EXPECT(most > PLAN_TABLE_BYTES / 2 && most < PLAN_TABLE_BYTES / 8 * 9);
  plan_drop_all();
  EXPECT_INT(plan_table_bytes(), 0);
  EXPECT_INT(mem_live(), live); /* nor what makes room for others */
}

/* What is computed from an element elsewhere is not computed from the element here. */
TEST(cheap_values_read_elsewhere_are_those_of_elsewhere) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(2, 3), (float[]){ 0, 1, 2, 0, 3, 0 });
  weft_array *is = weft_logical_and(x, x), *one = weft_as_strided(is, 0, NULL, NULL, 3);
  weft_array *y = weft_sub(weft_cast(one, WEFT_F32), weft_transpose(x, NULL));
  weft_array *back = weft_sub(weft_cast(weft_slice(is, 1, WEFT_END, WEFT_BEGIN, -1), WEFT_F32), x);
  float got[6], want[6] = { 0, 0, -1, -3, -2, 0 }, want_back[6] = { 1, 0, -2, 0, -2, 0 };
  EXPECT_OK(weft_eval(WEFT_ARRAYS(one, y, back)));
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof got));
  EXPECT(!memcmp(got, want, sizeof got));
  EXPECT_OK(weft_read(back, WEFT_F32, got, sizeof got));
  EXPECT(!memcmp(got, want_back, sizeof got));
  weft_scope_discard(s);
}

/* The cast to f32 floats into the kernel of the quotient: what it reads is there already, but with its axes the other way. */
TEST(what_floats_into_a_kernel_finds_values_at_their_own_axes) {
  weft_scope *s = weft_scope_open();
  float data[12], got[12];
  for (int i = 0; i < 12; i++) data[i] = (float)(i + 1);
  weft_array *m = weft_from(WEFT_F32, WEFT_DIMS(3, 2, 2), data), *t = weft_transpose(m, (int[]){ 0, 2, 1 }), *i = weft_cast(m, WEFT_I8);
  weft_array *y[] = { weft_exp(t), weft_broadcast(i, WEFT_DIMS(2, 3, 2, 2)), weft_div(t, i) };
  EXPECT_OK(weft_eval(3, y));
  EXPECT_OK(weft_read(y[2], WEFT_F32, got, sizeof got));
  for (int k = 0; k < 12; k++) EXPECT(got[k] == data[k / 4 * 4 + k % 2 * 2 + k / 2 % 2] / data[k]);
  weft_scope_discard(s);
}

/* Both loops over a row have the index as they go: nobody keeps it. */
TEST(an_index_is_used_before_and_after_a_fold_of_it) {
  int64_t plain[11], times[11];
  for (int k = 0; k < 3; k++) {
    plan_drop_all();
    compiled_drop_all();
    compiled_use((const char *[]){ "vm", "avx2", NULL }[k]);
    weft_scope *s = weft_scope_open();
    weft_array *i = weft_iota(weft_full(WEFT_I64, WEFT_DIMS(11), 0), 0), *c = weft_ceil(i), *y[] = { weft_mul(weft_sum(i, 0), c), c };
    EXPECT_OK(weft_eval(2, y));
    EXPECT_OK(weft_read(y[0], WEFT_I64, times, sizeof times));
    EXPECT_OK(weft_read(y[1], WEFT_I64, plain, sizeof plain));
    for (int j = 0; j < 11; j++) EXPECT(plain[j] == j && times[j] == 55 * j);
    weft_scope_discard(s);
  }
}

/* Threads have copies of their own of such sums, and add them to what stands in rows of a larger array. */
TEST(sums_over_the_first_axis_stand_in_part_of_an_array_on_any_number_of_threads) {
  enum { N_ROWS = 20000, A = 3, B = 5 };
  int64_t threads = weft_get(WEFT_THREADS);
  weft_scope *s = weft_scope_open();
  double *x = malloc(sizeof *x * N_ROWS * A * B), want[A][2 * B] = { 0 };
  for (int i = 0; i < N_ROWS * A * B; i++) x[i] = i % 1009 * 7919 % 31 - 15, want[i / B % A][i % B] += x[i];
  for (int a = 0; a < A; a++) for (int b = 0; b < B; b++) want[a][B + b] = 2 * want[a][b];
  weft_array *in = weft_from(WEFT_F64, WEFT_DIMS(N_ROWS, A, B), x);
  EXPECT_OK(weft_eval(1, &in));
  for (int n = 1; n <= 4; n++) {
    size_t count;
    weft_set(WEFT_THREADS, n);
    weft_array *parts[2] = { weft_sum(in, 0), weft_sum(weft_mul(in, weft_scalar(2)), 0) };
    double *got = all_f64(weft_concat(2, 2, parts), &count);
    EXPECT_INT(count, 2 * A * B);
    EXPECT(!memcmp(got, want, sizeof want));
    free(got);
  }
  free(x);
  weft_set(WEFT_THREADS, threads);
  weft_scope_discard(s);
}
