/* elements.c -- every elementwise row, reduction and running fold on every dtype, over special values, against the
 * reference. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "graph/dtype.h"
#include "every_graph.h"
#include "test.h"

static const weft_dtype dtypes[] = { WEFT_BOOL, WEFT_U8,  WEFT_U16, WEFT_U32,  WEFT_U64, WEFT_I8, WEFT_I16,
                                     WEFT_I32,  WEFT_I64, WEFT_F16, WEFT_BF16, WEFT_E4M3, WEFT_E5M2, WEFT_F32, WEFT_F64 };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes, N_VALUES = 16 };

static const double floats[N_VALUES] = { 0.0, -0.0, 1, -1, 0.5, -2.25, 3, 1e-3, 100, -100, INFINITY, -INFINITY, NAN, 0x1p-20, 7, -0.1 };
static const double integers[N_VALUES] = { 0, 1, -1, 2, -2, 3, 5, 7, -7, 11, 13, 100, -100, 127, -128, 64 };

/* The values as an array of the dtype, the k-th rotation of them. */
static weft_array *values(weft_dtype d, int rotation) {
  uint8_t data[N_VALUES * 8];
  size_t size = weft_dtype_bytes(d);
  for (int i = 0; i < N_VALUES; i++) {
    const double *from = dtype_is_float(d) ? floats : integers;
    uint64_t bits = dtype_encode(d, from[(i + rotation) % N_VALUES]);
    memcpy(data + (size_t)i * size, &bits, size);
  }
  return weft_from(d, WEFT_DIMS(N_VALUES), data);
}

static double tolerance(weft_dtype d) {
  return d == WEFT_E4M3 ? 0x1p-3 : d == WEFT_E5M2 ? 0x1p-2 : d == WEFT_BF16 ? 0x1p-7 : d == WEFT_F16 ? 0x1p-9 : d == WEFT_F32 ? 0x1p-21 : d == WEFT_F64 ? 0x1p-49 : 0;
}

static bool agree(double a, double b, double tol) {
  if (a != a || b != b) return a != a && b != b;
  return a == b || fabs(a - b) <= tol * (fabs(a) + fabs(b)) + (tol ? 1e-9 * tol : 0);
}

static void check(const char *name, weft_dtype d, weft_array *y) {
  weft_dtype out = weft_dtype_of(y);
  if (weft_check(y)) return;
  double *want = reference(y, 0, NULL);
  uint8_t got[N_VALUES * 8];
  int64_t n = elements(y);
  weft_status status = weft_read(y, out, got, (size_t)n * weft_dtype_bytes(out));
  if (status) test_fail(__FILE__, __LINE__, "%s of %s: %s", name, weft_dtype_name(d), weft_message());
  for (int64_t i = 0; !status && want && i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, got + (size_t)i * weft_dtype_bytes(out), weft_dtype_bytes(out));
    double x = dtype_decode(out, bits);
    double loss = strcmp(name, "logaddexp") ? 1 : 256; /* it may be small beside its operands */
    if (agree(x, want[i], loss * tolerance(out))) continue;
    test_fail(__FILE__, __LINE__, "%s of %s: element %lld is %.17g, by the reference %.17g", name, weft_dtype_name(d), (long long)i, x, want[i]);
    break;
  }
  EXPECT(want);
  free(want);
}

TEST(unary_rows_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++) {
    weft_scope *s = weft_scope_open();
    weft_dtype d = dtypes[k];
    weft_array *x = values(d, 0);
#define CHECK_(name, doc) check(#name, d, weft_##name(x));
    WEFT_UNARY(CHECK_)
#undef CHECK_
    for (int to = 0; to < N_DTYPES; to++) check("cast", d, weft_cast(x, dtypes[to]));
    weft_scope_discard(s);
  }
}

TEST(binary_rows_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++)
    for (int turn = 0; turn < N_VALUES; turn += 3) {
      weft_scope *s = weft_scope_open();
      weft_dtype d = dtypes[k];
      weft_array *a = values(d, 0), *b = values(d, turn);
#define CHECK_(name, doc) check(#name, d, weft_##name(a, b));
      WEFT_BINARY(CHECK_)
#undef CHECK_
      check("where", d, weft_where(weft_lt(a, b), a, b));
      if (d != WEFT_F32 && !dtype_is_narrow_float(d)) check("fma", d, weft_fma(a, b, a));
      weft_scope_discard(s);
    }
}

TEST(folds_agree_with_the_reference_on_every_dtype) {
  for (int k = 0; k < N_DTYPES; k++)
    for (int cut = 1; cut < N_VALUES; cut += 4) {
      weft_scope *s = weft_scope_open();
      weft_dtype d = dtypes[k];
      weft_array *x = weft_slice(values(d, 2), 0, 0, cut, 1);
#define CHECK_(name, doc) check(#name, d, weft_##name(x, 0));
      WEFT_REDUCE(CHECK_)
      WEFT_ALONG(CHECK_)
#undef CHECK_
      weft_scope_discard(s);
    }
}

/* ---- Derivatives where formulas divide by 0 ---- */

static void slopes(weft_array *(*f)(weft_array *, weft_array *), double a, double b, double by_a, double by_b) {
  weft_scope *s = weft_scope_open();
  weft_array *x[2] = { weft_full(WEFT_F64, 0, NULL, a), weft_full(WEFT_F64, 0, NULL, b) }, *d[2];
  double got[2], want[2] = { by_a, by_b };
  weft_grad(f(x[0], x[1]), 2, x, d);
  for (int k = 0; k < 2; k++) {
    EXPECT_OK(weft_read(d[k], WEFT_F64, &got[k], sizeof got[k]));
    if (!agree(got[k], want[k], 1e-12)) test_fail(__FILE__, __LINE__, "at %g, %g by operand %d: %g, not %g", a, b, k, got[k], want[k]);
  }
  weft_scope_discard(s);
}

TEST(derivatives_of_powers_at_0_are_their_limits) {
  slopes(weft_pow, 0, 0, 0, 0), slopes(weft_pow, 0, 1, 1, 0), slopes(weft_pow, 0, 2, 0, 0), slopes(weft_pow, 3, 0, 0, log(3));
  slopes(weft_pow, 0, 0.5, INFINITY, 0), slopes(weft_pow, -2, 3, 12, NAN);
}

TEST(derivatives_at_the_origin_are_0) {
  slopes(weft_hypot, 0, 0, 0, 0), slopes(weft_hypot, 3, -4, 0.6, -0.8);
  slopes(weft_atan2, 0, 0, 0, 0), slopes(weft_atan2, 3, 4, 4.0 / 25, -3.0 / 25);
  slopes(weft_logaddexp, -INFINITY, -INFINITY, 0.5, 0.5), slopes(weft_logaddexp, 2, 2, 0.5, 0.5);
  slopes(weft_remainder, 7, -2, 1, 4);
}

static double slope(weft_array *(*f)(weft_array *), double at) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F64, 0, NULL, at), *d;
  double y;
  weft_grad(f(x), 1, &x, &d);
  EXPECT_OK(weft_read(d, WEFT_F64, &y, sizeof y));
  weft_scope_discard(s);
  return y;
}

TEST(derivatives_of_steps_and_corners) {
  EXPECT(slope(weft_abs, 0) == 0 && slope(weft_sign, 0) == 0 && slope(weft_floor, 2) == 0 && slope(weft_round, 0.5) == 0);
  EXPECT(slope(weft_sqrt, 0) == INFINITY && slope(weft_square, 0) == 0 && slope(weft_reciprocal, 0) == -INFINITY);
  EXPECT(slope(weft_asin, 1) == INFINITY && slope(weft_acosh, 1) == INFINITY && slope(weft_erf, 0) > 1.128);
}

TEST(a_number_that_is_0_in_the_dtype_it_meets_is_not_true) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 0, 3 }), WEFT_F16), *tiny = weft_scalar(1e-40);
  bool y[2];
  EXPECT_OK(weft_read(weft_logical_or(x, tiny), WEFT_BOOL, y, sizeof y));
  EXPECT(!y[0] && y[1]);
  EXPECT_OK(weft_read(weft_logical_and(tiny, x), WEFT_BOOL, y, sizeof y));
  EXPECT(!y[0] && !y[1]);
  EXPECT_OK(weft_read(weft_logical_or(weft_cast(x, WEFT_F64), tiny), WEFT_BOOL, y, sizeof y));
  EXPECT(y[0] && y[1]);
  weft_scope_discard(s);
}
