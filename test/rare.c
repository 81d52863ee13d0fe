/* rare.c -- what few numbers need (huge angles, logarithms of denormals) is skipped where no lane asks for
 * it. Which lanes do, and what else the kernel does, changes no bit: the vm, AVX2 and AVX-512 agree. */
#include <math.h>
#include <stdlib.h>
#include "backend/x86/cpu.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "values.h"

enum { MOST_BYTES = 1 << 15 };

/* Ordinary numbers; rows 1 and 2 of 4 have rare ones, alone or side by side. */
static double element(int64_t r, int64_t c) {
  static const double rare[] = { 1e30, -0.0, -INFINITY, 1e-42, NAN, -300000, INFINITY, 0, 262144, -17, 1e-310, -40, 1e300 };
  if (r % 4 == 1 && c % 9 == 4) return rare[(r + c) % 13];
  if (r % 4 == 2) return rare[c % 13];
  return (double)((r * 37 + c * 101) % 199 + 1) / 16;
}

static weft_array *matrix(weft_dtype d, int64_t rows, int64_t cols) {
  double *x = malloc((size_t)(rows * cols) * sizeof *x);
  for (int64_t i = 0; x && i < rows * cols; i++) x[i] = element(i / cols, i % cols);
  weft_array *y = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(rows, cols), x), d);
  free(x);
  EXPECT_OK(weft_eval(1, &y));
  return y;
}

typedef weft_array *work(weft_array *x);

static weft_array *sine(weft_array *x) { return weft_sin(x); }
static weft_array *tangent(weft_array *x) { return weft_add(weft_tan(x), x); }
static weft_array *both(weft_array *x) { return weft_sub(weft_sin(x), weft_mul(x, weft_cos(x))); }
static weft_array *nested(weft_array *x) { return weft_sin(weft_add(weft_mul(weft_scalar(1e6), weft_cos(x)), x)); }
static weft_array *logs(weft_array *x) { return weft_add(weft_log(x), weft_mul(weft_log2(x), weft_log10(x))); }
static weft_array *gate(weft_array *x) { return weft_mul(x, weft_sigmoid(x)); }
static weft_array *row_sums(weft_array *x) { return weft_sum(weft_sin(x), 1); }
static weft_array *entropy(weft_array *x) { return weft_sum(weft_mul(x, weft_log(x)), 1); }
static weft_array *column_sums(weft_array *x) { return weft_sum(weft_sigmoid(x), 0); }
static weft_array *normed(weft_array *x) { return weft_softmax(weft_cos(x), -1); }
static weft_array *running(weft_array *x) { return weft_cumsum(weft_sin(x), 1); }
static weft_array *crowd(weft_array *x) { /* many values at once */
  weft_array *a[12], *y = x;
  for (int i = 0; i < 12; i++) a[i] = weft_mul(x, weft_scalar(i + 0.5));
  for (int i = 0; i < 12; i++) y = weft_add(weft_mul(weft_sin(a[i]), a[11 - i]), y);
  return weft_sum(weft_mul(y, a[7]), 1);
}
static weft_array *steps(weft_array *x) {
  weft_loop *l = weft_loop_open(weft_integer(5));
  weft_array *y = weft_loop_carry(l, x);
  weft_loop_next(l, y, weft_add(weft_sin(y), weft_sigmoid(x)));
  weft_array *last = weft_loop_last(l, y);
  weft_loop_close(l);
  return last;
}

/* The result is the carry of the next step, as it is. */
static weft_array *again(weft_array *x, weft_array *(*f)(weft_array *)) {
  weft_loop *l = weft_loop_open(weft_integer(3));
  weft_array *y = weft_loop_carry(l, x), *z = weft_loop_carry(l, weft_mul(x, weft_scalar(0.5)));
  weft_loop_next(l, y, f(y));
  weft_loop_next(l, z, f(z));
  weft_array *last = weft_loop_last(l, y), *other = weft_loop_last(l, z);
  weft_loop_close(l);
  return weft_add(last, other);
}
static weft_array *sines(weft_array *x) { return again(x, weft_sin); }
static weft_array *cosines(weft_array *x) { return again(x, weft_cos); }
static weft_array *logs_of_logs(weft_array *x) { return again(x, weft_log); }
static weft_array *gates(weft_array *x) { return again(x, weft_sigmoid); }

static work *const works[] = { sines, cosines, logs_of_logs, gates, sine, tangent, both, nested, logs, gate, row_sums, entropy, column_sums, normed, running, crowd, steps };
enum { WORKS = sizeof works / sizeof *works };

static size_t compute(const char *machine, work *f, weft_dtype d, int64_t rows, int64_t cols, double *out) {
  size_t n = 1;
  compiled_use(machine);
  plan_drop_all();
  weft_scope *s = weft_scope_open();
  weft_array *y = f(matrix(d, rows, cols));
  for (int i = 0; i < weft_rank(y); i++) n *= (size_t)weft_dim(y, i);
  EXPECT(n * sizeof *out <= MOST_BYTES);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, out, n * sizeof *out));
  weft_scope_discard(s);
  compiled_use(NULL);
  return n;
}

static void expect_bits_of_the_vm(weft_dtype d, int64_t rows, int64_t cols) {
  static double right[MOST_BYTES / sizeof(double)], got[MOST_BYTES / sizeof(double)];
  for (int k = 0; k < WORKS; k++) {
    size_t n = compute("vm", works[k], d, rows, cols, right);
    for (int m = 0; m < 2; m++) {
      const char *machine = m ? "avx2" : "x86";
      EXPECT_INT(compute(machine, works[k], d, rows, cols, got), n);
      if (!are_same(right, got, n))
        test_fail(__FILE__, __LINE__, "work %d of %s [%d,%d] on %s", k, weft_dtype_name(d), (int)rows, (int)cols, machine);
    }
  }
}

TEST(rare_numbers_in_any_lanes_have_the_bits_of_the_vm) {
  static const int cols[] = { 1, 8, 15, 16, 33, 64, 65, 150, 321 };
  for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) expect_bits_of_the_vm(WEFT_F32, 9, cols[c]);
}

TEST(rare_numbers_of_other_dtypes_have_the_bits_of_the_vm) {
  static const int cols[] = { 8, 19, 64, 133 };
  for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
    for (int d = 0; d < 2; d++) expect_bits_of_the_vm(d ? WEFT_BF16 : WEFT_F64, 9, cols[c]);
}

TEST(kernels_with_rare_numbers_are_left_to_no_vm) {
  static double got[MOST_BYTES / sizeof(double)];
  int64_t before = weft_get(WEFT_KERNELS_VM);
  for (int k = 0; k < WORKS; k++)
    for (int m = 0; m < 2; m++) compute(m ? "avx2" : "x86", works[k], m ? WEFT_F64 : WEFT_F32, 9, k % 2 ? 32 : 130, got);
  EXPECT_INT(weft_get(WEFT_KERNELS_VM), before);
}

#if defined __x86_64__
/* ---- Too small for a number ---- */

static weft_array *exponentials(weft_array *x) { return weft_add(weft_exp(x), weft_exp2(x)); }
static weft_array *tails(weft_array *x) { return weft_erfc(weft_neg(weft_mul(x, weft_scalar(0.1)))); }

enum { DOWN = 4800 };

/* From 0 down to where everything is 0, by steps of a quarter, and what lies beyond. */
static weft_array *downwards(weft_dtype d) {
  static double x[DOWN];
  for (int i = 0; i < DOWN; i++) x[i] = -0.25 * i;
  x[DOWN - 3] = -INFINITY, x[DOWN - 2] = NAN, x[DOWN - 1] = -1e30;
  return weft_cast(weft_from(WEFT_F64, WEFT_DIMS(DOWN), x), d);
}

static void read_downwards(const char *machine, work *f, weft_dtype d, double *out, size_t bytes) {
  compiled_drop_all();
  plan_drop_all();
  compiled_use(machine);
  weft_scope *s = weft_scope_open();
  EXPECT_OK(weft_read(weft_cast(f(downwards(d)), WEFT_F64), WEFT_F64, out, bytes));
  weft_scope_discard(s);
  compiled_use(NULL);
}

TEST(results_too_small_for_a_number_have_the_bits_of_the_vm_on_machines_that_are_slow_with_them_and_others) {
  static double right[DOWN], got[DOWN];
  static work *const all[] = { exponentials, tails, weft_sigmoid };
  for (int k = 0; k < 6; k++) {
    weft_dtype d = k % 2 ? WEFT_F64 : WEFT_F32;
    read_downwards("vm", all[k / 2], d, right, sizeof right);
    EXPECT(right[DOWN - 3] == 0 && isnan(right[DOWN - 2]) && right[DOWN - 1] == 0 && right[0] > 0);
    for (int m = 0; m < 4; m++) {
      cpu_pretend(m & 1);
      read_downwards(m & 2 ? "avx2" : "x86", all[k / 2], d, got, sizeof got);
      if (!are_same(right, got, DOWN)) test_fail(__FILE__, __LINE__, "work %d of %s on machine %d", k / 2, weft_dtype_name(d), m);
    }
    cpu_pretend(-1);
  }
}
#endif
