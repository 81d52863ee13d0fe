/* index_said.c -- an index out of range is told by its value, as it was given, and by its place: with the same words by every back
 * end, whatever threads and devices there are, in loops and behind what is computed from it. */
#include <stdio.h>
#include "far.h"
#include "gpu.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"

enum { WIDE = 70000, ROWS = 300, COLUMNS = 400 };

static weft_array *ramp(int64_t n) { return weft_iota(weft_full(WEFT_F32, 1, &n, 0), 0); }

/* 0 .. below - 1 again and again, but for a few. */
struct odd { int64_t place, index; };
static weft_array *indices(int rank, const int64_t dims[], int64_t below, int n, const struct odd odd[]) {
  int64_t all = 1;
  for (int k = 0; k < rank; k++) all *= dims[k];
  int64_t *i = malloc((size_t)all * sizeof *i);
  for (int64_t k = 0; k < all; k++) i[k] = k * 7 % below;
  for (int k = 0; k < n; k++) i[odd[k].place] = odd[k].index;
  weft_array *a = weft_from(WEFT_I64, rank, dims, i);
  free(i);
  return a;
}

/* ---- programs, each of which fails ---- */

static weft_array *taken_by(weft_array *x, weft_array *i) { return weft_take(x, 1, &i); }

static weft_array *take_many(void) {
  return taken_by(ramp(100), indices(WEFT_DIMS(WIDE), 100, 3, (struct odd[]){ { 69999, 100 }, { 41234, -101 }, { 51000, 1 << 30 } }));
}
static weft_array *take_and_sum(void) { return weft_sum(take_many(), WEFT_ALL); }
static weft_array *take_of_two_axes(void) {
  return weft_exp(taken_by(ramp(100), indices(WEFT_DIMS(ROWS, COLUMNS), 100, 2, (struct odd[]){ { 77777, 123 }, { 33333, INT64_MIN } })));
}
static weft_array *take_by_turned(void) {
  weft_array *i = indices(WEFT_DIMS(ROWS, COLUMNS), 100, 2, (struct odd[]){ { 5 * COLUMNS + 3, 123 }, { 3 * COLUMNS + 5, 321 } });
  return weft_sum(taken_by(ramp(100), weft_transpose(i, NULL)), 0);
}
static weft_array *take_rows(void) {
  return taken_by(weft_full(WEFT_F32, WEFT_DIMS(100, 40), 1),
                  indices(WEFT_DIMS(30, 50), 100, 2, (struct odd[]){ { 1001, -200 }, { 1400, 200 } }));
}
static weft_array *take_by_two(void) {
  weft_array *i[] = { indices(WEFT_DIMS(60, 1), 20, 0, NULL), indices(WEFT_DIMS(1, 50), 30, 1, (struct odd[]){ { 44, 30 } }) };
  return weft_take(weft_full(WEFT_F32, WEFT_DIMS(20, 30), 1), 2, i);
}
static weft_array *take_along(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(30, 7, 11), 1);
  return weft_take_along(x, 1, indices(WEFT_DIMS(30, 5, 11), 7, 2, (struct odd[]){ { 1000, -8 }, { 1500, 9 } }));
}
static weft_array *take_what_is_computed(void) {
  weft_array *i = weft_mul(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(50, 60), 0), 0), weft_integer(3));
  return taken_by(ramp(100), weft_add(i, weft_iota(i, 1)));
}
static weft_array *take_for_a_product(void) {
  weft_array *x = taken_by(weft_full(WEFT_F32, WEFT_DIMS(90, 120), 1), indices(WEFT_DIMS(200), 90, 2, (struct odd[]){ { 150, 90 }, { 160, -91 } }));
  return weft_matmul(x, weft_full(WEFT_F32, WEFT_DIMS(120, 130), 1));
}
static weft_array *at_one(void) { return weft_at(ramp(100), 0, weft_add(i64_of(-99), i64_of(-99))); }
static weft_array *window_behind(void) { return weft_window(ramp(100), 0, weft_add(i64_of(49), i64_of(49)), 5); }
static weft_array *window_before(void) { return weft_window(ramp(100), 0, weft_add(i64_of(-99), i64_of(-99)), 5); }
static weft_array *put_by(weft_how how, weft_array *x, weft_array *i, weft_array *v) { return weft_put(x, taken_by(x, i), v, how); }
static weft_array *put_many(weft_how how, int64_t slots) {
  weft_array *i = indices(WEFT_DIMS(WIDE), slots, 3, (struct odd[]){ { 66666, slots }, { 44444, -slots - 1 }, { 55555, 1 << 30 } });
  return put_by(how, weft_full(WEFT_F32, 1, &slots, 1), i, weft_full(WEFT_F32, WEFT_DIMS(WIDE), 2));
}
static weft_array *put_added(void) { return put_many(WEFT_ADD, 100); }
static weft_array *put_added_far(void) { return put_many(WEFT_ADD, 60000); }
static weft_array *put_set(void) { return put_many(WEFT_SET, 100); }
static weft_array *put_greatest(void) { return put_many(WEFT_MAX, 100); }
static weft_array *put_rows(void) {
  weft_array *i = indices(WEFT_DIMS(300), 50, 2, (struct odd[]){ { 222, 50 }, { 111, -51 } });
  return put_by(WEFT_ADD, weft_full(WEFT_F32, WEFT_DIMS(50, 60), 1), i, weft_full(WEFT_F32, WEFT_DIMS(300, 60), 2));
}
static weft_array *put_along(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(60, 50), 1);
  weft_array *i = indices(WEFT_DIMS(60, 70), 50, 2, (struct odd[]){ { 2222, 50 }, { 3333, -51 } });
  return weft_put(x, weft_take_along(x, 1, i), weft_scalar(1), WEFT_ADD);
}
static weft_array *put_one_a_row(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(300, 50), 0), *i = indices(WEFT_DIMS(300, 1), 50, 2, (struct odd[]){ { 222, 50 }, { 111, -51 } });
  return weft_put(x, weft_take_along(x, 1, i), weft_scalar(1), WEFT_SET);
}
static weft_array *take_one_a_row(void) {
  weft_array *x = weft_exp(weft_mul(indices(WEFT_DIMS(300, 50), 3, 0, NULL), weft_scalar(0.1)));
  return weft_take_along(x, 1, indices(WEFT_DIMS(300, 1), 50, 2, (struct odd[]){ { 222, 50 }, { 111, -51 } }));
}
/* Derivatives alone: what is put back where it was taken, and taken where it was put. */
static weft_array *slope(weft_array *y, weft_array *x) {
  weft_array *dx;
  return weft_grad(weft_sum(y, WEFT_ALL), 1, &x, &dx), dx;
}
static weft_array *slope_of_many(void) {
  weft_array *x = ramp(100);
  return slope(taken_by(x, indices(WEFT_DIMS(WIDE), 100, 2, (struct odd[]){ { 69999, 100 }, { 41234, -101 } })), x);
}
static weft_array *slope_of_one_a_row(void) {
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(300, 50), 1);
  weft_array *i = indices(WEFT_DIMS(300, 1), 50, 2, (struct odd[]){ { 222, 50 }, { 111, -51 } });
  return slope(weft_take_along(x, 1, i), x);
}
static weft_array *slope_at_one(void) {
  weft_array *x = ramp(100);
  return slope(weft_at(x, 0, weft_add(i64_of(-99), i64_of(-99))), x);
}
static weft_array *slope_of_window_before(void) {
  weft_array *x = ramp(100);
  return slope(weft_window(x, 0, weft_add(i64_of(-99), i64_of(-99)), 5), x);
}
static weft_array *slope_of_rows_put(void) {
  weft_array *i = indices(WEFT_DIMS(300), 50, 2, (struct odd[]){ { 222, 50 }, { 111, -51 } });
  weft_array *v = weft_full(WEFT_F32, WEFT_DIMS(300, 60), 2);
  return slope(put_by(WEFT_ADD, weft_full(WEFT_F32, WEFT_DIMS(50, 60), 1), i, v), v);
}
static weft_array *slope_of_slope(void) {
  weft_array *x = ramp(100), *y = taken_by(x, indices(WEFT_DIMS(WIDE), 100, 2, (struct odd[]){ { 69999, 100 }, { 41234, -101 } }));
  return slope(weft_mul(slope(weft_mul(y, weft_mul(y, y)), x), ramp(100)), x);
}
static weft_array *take_in_steps(void) {
  weft_loop *l = weft_loop_open(weft_integer(9));
  weft_array *c = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01)), *k = weft_loop_carry(l, i64_of(40));
  weft_array *i = weft_add(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(1, 64), 0), 1), k);
  weft_loop_next(l, k, weft_add(k, i64_of(3)));
  weft_loop_next(l, c, weft_add(weft_matmul(c, c), taken_by(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(110), 0), 0), i)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
static weft_array *take_in_little_steps(void) {
  weft_loop *l = weft_loop_open(weft_integer(9));
  weft_array *c = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(5), 1)), *k = weft_loop_carry(l, i64_of(-1));
  weft_array *i = weft_mul(weft_iota(weft_full(WEFT_I64, WEFT_DIMS(2, 2), 0), 1), k);
  weft_loop_next(l, k, weft_sub(k, i64_of(1)));
  weft_loop_next(l, c, weft_add(c, weft_sum(taken_by(c, i), WEFT_ALL)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}
/* One index a step. What is taken is but multiplied, so the gradient reads the indices on the way back alone. */
static weft_array *slope_of_steps(weft_array *x, weft_array *by, weft_array *product(weft_array *, weft_array *)) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *k = weft_loop_each(l, indices(WEFT_DIMS(5), 4, 1, (struct odd[]){ { 3, 9 } }));
  weft_array *y = weft_loop_all(l, product(taken_by(x, k), by));
  weft_loop_close(l);
  return slope(y, x);
}
static weft_array *slope_of_little_steps(void) {
  return slope_of_steps(weft_from(WEFT_F32, WEFT_DIMS(4), (float[]){ 1, 2, 3, 4 }), weft_scalar(2), weft_mul);
}
static weft_array *slope_of_large_steps(void) {
  return slope_of_steps(weft_full(WEFT_F32, WEFT_DIMS(4, 50, 40), 0.5), weft_full(WEFT_F32, WEFT_DIMS(40, 30), 0.5), weft_matmul);
}
static weft_array *index_in_a_choice(void) {
  weft_cond *choice = weft_cond_open(weft_gt(f64_of(2), f64_of(1)));
  weft_array *x = ramp(4), *y = weft_cond_value(choice, weft_at(x, 0, weft_add(i64_of(4), i64_of(5))), weft_scalar(0));
  weft_cond_close(choice);
  return y;
}
/* Complex products go through a loop of weft's own. */
static weft_array *multiplied(weft_dtype d, int rank) {
  weft_array *x = weft_cast(weft_full(WEFT_F32, rank, (int64_t[]){ 5, 4, 3 }, 1), d);
  weft_array *i = indices(WEFT_DIMS(6), 5, 0, NULL), *k = indices(WEFT_DIMS(2, 6), 4, 2, (struct odd[]){ { 8, 4 }, { 10, -5 } });
  weft_array *part = weft_take(x, 2, (weft_array *[]){ i, k });
  return weft_put(x, part, weft_cast(weft_scalar(2), d), WEFT_MUL);
}
static weft_array *put_multiplied(void) { return multiplied(WEFT_F32, 2); }
static weft_array *put_multiplied_complex(void) { return multiplied(WEFT_C64, 2); }
static weft_array *put_multiplied_rows(void) { return multiplied(WEFT_C128, 3); }
static weft_array *slope_of_complex_products(void) {
  weft_array *v = weft_cast(weft_full(WEFT_F32, WEFT_DIMS(3), 2), WEFT_C64), *x = weft_cast(ramp(4), WEFT_C64);
  weft_array *i = indices(WEFT_DIMS(3), 4, 1, (struct odd[]){ { 1, 9 } });
  return slope(weft_real(weft_put(x, taken_by(x, i), v, WEFT_MUL)), v);
}

static const struct { const char *name; weft_array *(*make)(void); const char *says; } programs[] = {
  { "many", take_many, "weft_take: the index -101 at place 41234 is out of range for an axis of 100" },
  { "summed", take_and_sum, "weft_take: the index -101 at place 41234 is out of range for an axis of 100" },
  { "two axes", take_of_two_axes, "weft_take: the index -9223372036854775808 at place 33333 is out of range for an axis of 100" },
  { "turned", take_by_turned, "weft_take: the index 123 at place 905 is out of range for an axis of 100" },
  { "rows", take_rows, "weft_take: the index -200 at place 1001 is out of range for an axis of 100" },
  { "by two", take_by_two, "weft_take: the index 30 at place 44 is out of range for an axis of 30" },
  { "along", take_along, "weft_take_along: the index -8 at place 1000 is out of range for an axis of 7" },
  { "computed", take_what_is_computed, "weft_take: the index 100 at place 898 is out of range for an axis of 100" },
  { "for a product", take_for_a_product, "weft_take: the index 90 at place 150 is out of range for an axis of 90" },
  { "at", at_one, "weft_at: the index -198 at place 0 is out of range for an axis of 100" },
  { "window behind", window_behind, "weft_window: the index 100 at place 2 is out of range for an axis of 100" },
  { "window before", window_before, "weft_window: the index -198 at place 0 is out of range for an axis of 100" },
  { "added", put_added, "weft_put: the index -101 at place 44444 is out of range for an axis of 100" },
  { "added far", put_added_far, "weft_put: the index -60001 at place 44444 is out of range for an axis of 60000" },
  { "set", put_set, "weft_put: the index -101 at place 44444 is out of range for an axis of 100" },
  { "greatest", put_greatest, "weft_put: the index -101 at place 44444 is out of range for an axis of 100" },
  { "rows put", put_rows, "weft_put: the index -51 at place 111 is out of range for an axis of 50" },
  { "put along", put_along, "weft_put: the index 50 at place 2222 is out of range for an axis of 50" },
  { "one put a row", put_one_a_row, "weft_put: the index -51 at place 111 is out of range for an axis of 50" },
  { "one taken a row", take_one_a_row, "weft_take_along: the index -51 at place 111 is out of range for an axis of 50" },
  { "the slope of many", slope_of_many, "weft_take: the index -101 at place 41234 is out of range for an axis of 100" },
  { "the slope of one a row", slope_of_one_a_row, "weft_take_along: the index -51 at place 111 is out of range for an axis of 50" },
  { "the slope at one", slope_at_one, "weft_at: the index -198 at place 0 is out of range for an axis of 100" },
  { "the slope of a window", slope_of_window_before, "weft_window: the index -198 at place 0 is out of range for an axis of 100" },
  { "the slope of rows put", slope_of_rows_put, "weft_put: the index -51 at place 111 is out of range for an axis of 50" },
  { "the slope of a slope", slope_of_slope, "weft_take: the index -101 at place 41234 is out of range for an axis of 100" },
  { "multiplied", put_multiplied, "weft_put: the index 4 at place 8 is out of range for an axis of 4" },
  { "multiplied, complex", put_multiplied_complex, "weft_put: the index 4 at place 8 is out of range for an axis of 4" },
  { "multiplied rows, complex", put_multiplied_rows, "weft_put: the index 4 at place 8 is out of range for an axis of 4" },
  { "the slope of complex products", slope_of_complex_products,
    "weft_put: the index 9 at place 1 is out of range for an axis of 4" },
  { "a choice", index_in_a_choice, "weft_at: the index 9 at place 0 is out of range for an axis of 4" },
  { "the slope of little steps", slope_of_little_steps,
    "weft_take: the index 9 at place 0 is out of range for an axis of 4 (step 1 of the loop, going back)" },
  { "the slope of large steps", slope_of_large_steps,
    "weft_take: the index 9 at place 0 is out of range for an axis of 4 (step 1 of the loop, going back)" },
  { "steps", take_in_steps, "weft_take: the index 110 at place 61 is out of range for an axis of 110 (step 3 of the loop)" },
  { "little steps", take_in_little_steps, "weft_take: the index -6 at place 1 is out of range for an axis of 5 (step 5 of the loop)" },
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void expect_said(const char *way, bool is_started) {
  plan_drop_all();
  for (int k = 0; k < PROGRAMS; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = programs[k].make();
    if (is_started) EXPECT_OK(weft_eval_async(1, &y));
    weft_status status = is_started ? weft_wait(1, &y, 100) : weft_eval(1, &y);
    if (status != WEFT_ERR_INDEX || strcmp(weft_message(), programs[k].says))
      test_fail(__FILE__, __LINE__, "%s, %s: %d, %s", way, programs[k].name, (int)status, weft_message());
    weft_scope_discard(s);
  }
}

TEST(an_index_out_of_range_is_told_by_its_value_on_the_host) {
  static const char *const backends[] = { "vm", "avx2", NULL };
  int64_t threads = weft_get(WEFT_THREADS), device = weft_get(WEFT_DEVICE);
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < 12; k++) {
    char way[64];
    snprintf(way, sizeof way, "%s by %d threads", backends[k / 4] ? backends[k / 4] : "the best", k % 2 ? 3 : 1);
    compiled_use(backends[k / 4]);
    plan_use_fusing(k / 2 % 2);
    weft_set(WEFT_THREADS, k % 2 ? 3 : 1);
    expect_said(way, k == 11);
  }
  compiled_use(NULL);
  plan_use_fusing(true);
  weft_set(WEFT_THREADS, threads);
  weft_set(WEFT_DEVICE, device);
}

TEST(an_index_out_of_range_is_told_by_its_value_on_a_device) {
  for (int k = 0; k < 2; k++) {
    far_begin(FAR_AT_ONCE);
    expect_said("far", k);
    far_end();
  }
}

TEST(cuda_tells_an_index_out_of_range_by_its_value) {
  if (!has_gpu()) return;
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < 2; k++) expect_said("cuda", k);
  weft_set(WEFT_DEVICE, 0);
}

/* ---- dtypes ---- */

#define OF(D, T, v, says) { D, sizeof(T), &(T){ v }, says }
TEST(an_index_of_any_dtype_is_told_as_it_was_given) {
  const struct { weft_dtype dtype; size_t bytes; const void *index; const char *says; } rows[] = {
    OF(WEFT_I8, int8_t, -128, "-128 "), OF(WEFT_U8, uint8_t, 255, "255 "), OF(WEFT_I16, int16_t, -32768, "-32768 "),
    OF(WEFT_U16, uint16_t, 65535, "65535 "), OF(WEFT_I32, int32_t, INT32_MIN, "-2147483648 "),
    OF(WEFT_U32, uint32_t, UINT32_MAX, "4294967295 "), OF(WEFT_I64, int64_t, INT64_MIN, "-9223372036854775808 "),
    OF(WEFT_I64, int64_t, INT64_MAX - 1, "9223372036854775806 "), OF(WEFT_U64, uint64_t, INT64_MAX - 1, "9223372036854775806 "),
    OF(WEFT_U64, uint64_t, UINT64_MAX, ""), /* beyond i64 it is not known */
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    weft_scope *s = weft_scope_open();
    char says[128], index[16] = { 0 };
    memcpy(index + rows[k].bytes, rows[k].index, rows[k].bytes);
    snprintf(says, sizeof says, "weft_take: the index %sat place 1 is out of range for an axis of 4", rows[k].says);
    weft_array *y = taken_by(ramp(4), weft_from(rows[k].dtype, WEFT_DIMS(2), index));
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
    EXPECT_TEXT(weft_message(), says);
    weft_scope_discard(s);
  }
}
