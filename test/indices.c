/* indices.c -- what few indices take of values that are made element by element, and what one index a row puts among equal ones:
 * the bits are those of values that stand in memory, whatever is around them. */
#include <stdio.h>
#include "values.h"

static uint32_t drawn(uint32_t *state, uint32_t below) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % below;
}

/* As it is, but in memory. */
static weft_array *stored(weft_array *x) {
  EXPECT_OK(weft_eval(1, &x));
  return x;
}

static void expect_bits(const char *what, int round, weft_array *y, weft_array *z) {
  size_t n, m;
  double *a = all_f64(y, &n), *b = all_f64(z, &m);
  if (n != m || weft_dtype_of(y) != weft_dtype_of(z) || !are_same(a, b, n))
    test_fail(__FILE__, __LINE__, "%s differs, round %d", what, round);
  free(a);
  free(b);
}

/* ---- Taken ---- */

static const weft_dtype floats[] = { WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16 };

/* Numbers with special ones among them. */
static weft_array *odd_floats(weft_dtype t, int rank, const int64_t dims[], uint32_t *state) {
  static const double special[] = { 0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-45, -1e-45, 3e38 };
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  double *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = drawn(state, 9) ? drawn(state, 4000) / 1000.0 - 2 : special[drawn(state, 8)];
  weft_array *y = stored(weft_cast(weft_from(WEFT_F64, rank, dims, x), t));
  free(x);
  return y;
}

static weft_array *some_indices(int rank, const int64_t dims[], int64_t below, uint32_t *state) {
  int64_t n = 1, i[4096];
  for (int k = 0; k < rank; k++) n *= dims[k];
  for (int64_t k = 0; k < n; k++) i[k] = (int64_t)drawn(state, (uint32_t)(2 * below)) - below;
  return weft_from(WEFT_I64, rank, dims, i);
}

/* A few operations on x, of any size, some of them beside arrays that broadcast. */
static weft_array *made_of(weft_array *x, uint32_t *state) {
  weft_array *y = x;
  int64_t dims[] = { weft_dim(x, 0), weft_dim(x, 1), weft_dim(x, 2) };
  for (int n = 1 + (int)drawn(state, 6); n; n--) {
    switch (drawn(state, 9)) {
      case 0: y = weft_exp(y); break;
      case 1: y = weft_mul(y, y); break;
      case 2: y = weft_add(y, weft_scalar(drawn(state, 3))); break;
      case 3: y = weft_sub(y, odd_floats(weft_dtype_of(x), 1, dims + 2, state)); break;
      case 4: y = weft_where(weft_lt(y, weft_scalar(0.5)), y, x); break;
      case 5: y = weft_cast(y, floats[drawn(state, 4)]); break;
      case 6: y = weft_mul(odd_floats(WEFT_F32, WEFT_DIMS(dims[1], 1), state), y); break;
      case 7: y = weft_log_softmax(y, 2); break;
      default: y = weft_transpose(weft_neg(weft_transpose(y, NULL)), NULL);
    }
  }
  return y;
}

TEST(what_is_taken_of_a_function_has_the_bits_of_the_function) {
  for (int round = 0; round < 400; round++) {
    weft_scope *s = weft_scope_open();
    uint32_t state = 77u + (uint32_t)round;
    int64_t d[] = { 1 + drawn(&state, 12), 1 + drawn(&state, 12), 1 + drawn(&state, 40) };
    weft_array *x = odd_floats(floats[drawn(&state, 4)], 3, d, &state), *y = made_of(x, &state), *part[2];
    int axis = (int)drawn(&state, 3), n_rows = 1 + (int)drawn(&state, 2);
    bool is_along = drawn(&state, 2), is_read_whole = drawn(&state, 2);
    int64_t few[3] = { d[0], d[1], d[2] };
    few[axis] = n_rows;
    weft_array *i = is_along ? some_indices(3, few, d[axis], &state) : some_indices(WEFT_DIMS(n_rows), d[axis], &state);
    for (int k = 0; k < 2; k++) {
      weft_array *from = k ? stored(y) : y;
      part[k] = is_along ? weft_take_along(from, axis, i) : weft_take(weft_moveaxis(from, axis, 0), 1, &i);
      if (is_read_whole) part[k] = weft_add(part[k], weft_max(from, WEFT_ALL));
      part[k] = stored(part[k]);
    }
    expect_bits("what is taken", round, part[0], part[1]);
    weft_scope_discard(s);
  }
}

TEST(a_loss_of_one_place_a_row_has_the_gradient_of_a_softmax) {
  weft_scope *s = weft_scope_open();
  uint32_t state = 5;
  weft_array *x = weft_cast(drawn_floats(WEFT_DIMS(40, 30), 3), WEFT_F64), *i = some_indices(WEFT_DIMS(40, 1), 30, &state), *d;
  weft_grad(weft_neg(weft_sum(weft_take_along(weft_log_softmax(x, 1), 1, i), WEFT_ALL)), 1, &x, &d);
  weft_array *at = weft_remainder(i, weft_scalar(30)), *hot = weft_eq(weft_iota(weft_cast(x, WEFT_I64), 1), at);
  double most = one_f64(weft_max(weft_abs(weft_sub(d, weft_sub(weft_softmax(x, 1), weft_cast(hot, WEFT_F64)))), WEFT_ALL));
  EXPECT(most < 1e-15);
  weft_scope_discard(s);
}

/* ---- Put ---- */

/* The axis that is found stands anywhere; the other indices count, from the front or as columns, in i32 or i64. */
TEST(one_index_a_row_puts_what_it_puts_into_memory) {
  for (int round = 0; round < 400; round++) {
    weft_scope *s = weft_scope_open();
    uint32_t state = 1234u + (uint32_t)round;
    int64_t d[] = { 1 + drawn(&state, 9), 1 + drawn(&state, 9), 1 + drawn(&state, 9) };
    int n_index = 2 + (int)drawn(&state, 2), axis = (int)drawn(&state, (uint32_t)n_index);
    weft_dtype t = round % 5 == 4 ? WEFT_I32 : floats[drawn(&state, 4)];
    int64_t rows[3], n_rows = 0, with[4];
    weft_array *index[3], *y[2];
    for (int k = 0; k < n_index; k++) if (k != axis) rows[n_rows++] = d[k];
    bool is_column = drawn(&state, 2);
    int rank = (int)n_rows + is_column;
    if (is_column) rows[n_rows] = 1;
    weft_array *like = weft_full(drawn(&state, 2) ? WEFT_I64 : WEFT_I32, rank, rows, 0);
    for (int k = 0, at = 0; k < n_index; k++)
      index[k] = k == axis ? some_indices(rank, rows, d[k], &state) : weft_iota(like, at++);
    memcpy(with, rows, sizeof rows);
    for (int k = n_index; k < 3; k++) with[rank++] = d[k];
    weft_array *v = weft_cast(odd_floats(WEFT_F32, rank, with, &state), t);
    if (t == WEFT_I32) v = weft_iota(v, rank - 1);
    if (!drawn(&state, 4)) v = weft_scalar(2);
    weft_how how = drawn(&state, 2) ? WEFT_SET : WEFT_ADD;
    double c = (int)drawn(&state, 3) - 1;
    for (int k = 0; k < 2; k++) {
      weft_array *x = weft_full(t, 3, d, c);
      if (k) x = stored(weft_add(x, stored(weft_full(t, 3, d, 0))));
      y[k] = weft_put(x, weft_take(x, n_index, index), v, how);
    }
    expect_bits("what is put", round, y[0], y[1]);
    for (int k = 0; k < 2; k++) y[k] = weft_sum(weft_exp(weft_cast(k ? stored(y[k]) : y[k], WEFT_F64)), 1);
    expect_bits("what is made of it", round, y[0], y[1]);
    weft_scope_discard(s);
  }
}

/* In f32 two rows of the last three have one number. */
TEST(rows_that_f32_cannot_count_are_put_where_it_says) {
  weft_scope *s = weft_scope_open();
  int64_t n = (1 << 24) + 3, last = n - 1;
  weft_array *zeros = weft_full(WEFT_I8, WEFT_DIMS(n, 2), 0), *rows = weft_iota(weft_full(WEFT_F32, WEFT_DIMS(n), 0), 0);
  weft_array *i[] = { weft_cast(rows, WEFT_I64), weft_full(WEFT_I64, WEFT_DIMS(n), 1) };
  weft_array *y = weft_put(zeros, weft_take(zeros, 2, i), weft_scalar(1), WEFT_ADD);
  EXPECT(one_f64(weft_cast(weft_sum(weft_cast(y, WEFT_I64), WEFT_ALL), WEFT_F64)) == n);
  EXPECT(one_f64(weft_cast(weft_max(weft_slice(y, 0, last - 1, last, 1), WEFT_ALL), WEFT_F64)) == 0);
  weft_scope_discard(s);
}

TEST(one_index_a_row_is_put_in_every_step_of_a_loop) {
  weft_scope *s = weft_scope_open();
  int64_t at[] = { 2, 0, -1, 4, 4, -5 };
  weft_array *labels = weft_from(WEFT_I64, WEFT_DIMS(6), at);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *i = weft_loop_each(loop, labels), *c = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(2, 5), 0));
  weft_array *zeros = weft_full(WEFT_F32, WEFT_DIMS(2, 5), 0);
  weft_array *two = weft_broadcast(weft_reshape(i, WEFT_DIMS(1, 1)), WEFT_DIMS(2, 1));
  weft_loop_next(loop, c, weft_add(c, weft_put(zeros, weft_take_along(zeros, 1, two), weft_scalar(1), WEFT_SET)));
  weft_array *l = weft_loop_last(loop, c);
  weft_loop_close(loop);
  float got[10];
  static const float counts[] = { 2, 0, 1, 0, 3, 2, 0, 1, 0, 3 };
  EXPECT_OK(weft_read(l, WEFT_F32, got, sizeof got));
  EXPECT(!memcmp(got, counts, sizeof got));
  weft_scope_discard(s);
}
