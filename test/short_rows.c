/* short_rows.c -- rows of few elements that are folded are gone through several at a time; the bits are those of the vm,
 * whatever their length and number. Also rows that are read again, and columns that are folded row by row. */
#include <math.h>
#include <stdlib.h>
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"

enum { MOST_BYTES = 1 << 16, MACHINES = 2 };
static const char *const machines[MACHINES] = { "x86", "avx2" };

/* Numbers of all sizes, and in some rows -0 alone, infinities, a NaN. */
static double element(int64_t r, int64_t c) {
  if (r % 11 == 5) return -0.0;
  if (r % 11 == 7 && c % 5 == 3) return NAN;
  if (r % 11 == 9 && c % 3 == 1) return r % 2 ? INFINITY : -INFINITY;
  return (double)((r * 37 + c * 101) % 199 - 99) / 16;
}

static weft_array *matrix(weft_dtype d, int64_t rows, int64_t cols) {
  float *x = malloc((size_t)(rows * cols) * sizeof *x);
  for (int64_t i = 0; x && i < rows * cols; i++) x[i] = (float)element(i / cols, i % cols);
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(rows, cols), x);
  free(x);
  weft_array *y = weft_cast(a, d);
  EXPECT_OK(weft_eval(1, &y));
  return y;
}

static size_t count(weft_array *x) {
  size_t n = 1;
  for (int i = 0; i < weft_rank(x); i++) n *= (size_t)weft_dim(x, i);
  return n;
}

typedef weft_array *work(weft_array *x, weft_array *w);

static weft_array *softmax(weft_array *x, weft_array *w) { return (void)w, weft_softmax(x, -1); }
static weft_array *scaled(weft_array *x, weft_array *w) { return weft_rms_norm(x, w, 1e-5); }
static weft_array *normed(weft_array *x, weft_array *w) { return weft_layer_norm(x, w, w, 1e-5); }
static weft_array *sums(weft_array *x, weft_array *w) { return weft_sum(weft_mul(x, w), 1); }
static weft_array *ranges(weft_array *x, weft_array *w) { return (void)w, weft_sub(weft_max(x, 1), weft_min(x, 1)); }
static weft_array *gradients(weft_array *x, weft_array *w) {
  weft_array *y = weft_layer_norm(x, w, w, 1e-5), *in[] = { x, w }, *out[2];
  weft_vjp(1, &y, &x, 2, in, out);
  return weft_add(weft_sum(out[0], 0), out[1]);
}
static weft_array *weights(weft_array *x, weft_array *w) { /* dx and dw of one kernel */
  weft_array *y = weft_rms_norm(x, w, 1e-5), *in[] = { x, w }, *out[2];
  weft_vjp(1, &y, &x, 2, in, out);
  return weft_concat(0, WEFT_ARRAYS(out[0], weft_reshape(out[1], WEFT_DIMS(1, weft_dim(w, 0)))));
}

static work *const works[] = { softmax, scaled, normed, sums, ranges, gradients, weights };
enum { WORKS = sizeof works / sizeof *works };

static size_t compute(const char *machine, work *f, weft_dtype d, int64_t rows, int64_t cols, void *out) {
  compiled_use(machine);
  plan_drop_all();
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(d, rows, cols), *w = weft_at(matrix(d, 1, cols), 0, weft_integer(0)), *y = f(x, w);
  size_t bytes = count(y) * sizeof(double);
  EXPECT(bytes <= MOST_BYTES);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, out, bytes));
  weft_scope_discard(s);
  compiled_use(NULL);
  return bytes / sizeof(double);
}

static void expect_bits_of_the_vm(weft_dtype d, int64_t rows, int64_t cols) {
  static double right[MOST_BYTES / sizeof(double)], got[MOST_BYTES / sizeof(double)];
  for (int k = 0; k < WORKS; k++)
    for (int m = 0; m < MACHINES; m++) {
      size_t n = compute("vm", works[k], d, rows, cols, right);
      EXPECT_INT(compute(machines[m], works[k], d, rows, cols, got), n);
      if (!are_same(right, got, n))
        test_fail(__FILE__, __LINE__, "work %d of %s [%d,%d] on %s", k, weft_dtype_name(d), (int)rows, (int)cols, machines[m]);
    }
}

TEST(rows_of_any_short_length_have_the_bits_of_the_vm) {
  static const int cols[] = { 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65 };
  for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) expect_bits_of_the_vm(WEFT_F32, 13, cols[c]);
}

TEST(any_number_of_short_rows_has_the_bits_of_the_vm) {
  for (int rows = 2; rows < 8; rows++) expect_bits_of_the_vm(WEFT_F32, rows, rows % 2 ? 16 : 40);
}

TEST(short_rows_of_other_dtypes_have_the_bits_of_the_vm) {
  static const int cols[] = { 3, 8, 16, 19, 32, 64 };
  for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
    for (int d = 0; d < 3; d++) expect_bits_of_the_vm((weft_dtype[]){ WEFT_F64, WEFT_BF16, WEFT_F16 }[d], 13, cols[c]);
}

TEST(short_rows_are_left_to_no_vm) {
  static double got[MOST_BYTES / sizeof(double)];
  int64_t before = weft_get(WEFT_KERNELS_VM);
  for (int k = 0; k < WORKS; k++) compute("x86", works[k], WEFT_F32, 9, 32, got), compute("avx2", works[k], WEFT_F32, 9, 32, got);
  EXPECT_INT(weft_get(WEFT_KERNELS_VM), before);
}

/* The last lanes of a row that is read again are masked: what lies behind it is not touched. */
TEST(rows_that_are_read_again_have_the_bits_of_the_vm) {
  static const int cols[] = { 66, 79, 127, 130, 321 };
  for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) expect_bits_of_the_vm(WEFT_F32, 5, cols[c]);
}

/* [4096,1024] is folded row by row, the same in two halves is not. */
TEST(columns_of_a_large_matrix_have_the_bits_of_those_of_a_small_one) {
  enum { ROWS = 4096, COLS = 1024, HALF = COLS / 2 };
  static float whole[COLS], parts[COLS];
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(WEFT_F32, ROWS, COLS);
  weft_array *low = weft_slice(x, 1, 0, HALF, 1), *high = weft_slice(x, 1, HALF, COLS, 1);
  EXPECT_OK(weft_read(weft_sum(x, 0), WEFT_F32, whole, sizeof whole));
  EXPECT_OK(weft_read(weft_sum(low, 0), WEFT_F32, parts, sizeof parts / 2));
  EXPECT_OK(weft_read(weft_sum(high, 0), WEFT_F32, parts + HALF, sizeof parts / 2));
  weft_scope_discard(s);
  for (int i = 0; i < COLS; i++) EXPECT((isnan(whole[i]) && isnan(parts[i])) || !memcmp(&whole[i], &parts[i], sizeof *whole));
}
