/* hypergeometric.c -- Gauss's function against mpmath: its values, its derivatives, its ends. */
#include <math.h>
#include "values.h"

struct point { double x[4], value, by[3]; bool has_by; };

/* Made by mpmath with 40 digits. The third is one whose terms are 10^9 times as large as their sum. */
static const struct point points[] = {
  { { 3.5, 1.25, 2.75, -0.2 }, 0x1.80306345c57a0p-1, { -0x1.e0f230ebd0561p-5, -0x1.63d64bf62780bp-3, 0x1.356a47914dc2fp-4 }, true },
  { { 2.5, 7.5, 4, 0.8 }, 0x1.606e63997480ep+12, { 0x1.aa5b078ce2d62p+13, 0x1.ea6ca2c0dd2afp+12, -0x1.5567bace63487p+13 }, true },
  { { 15.5, 18.25, 2.5, -0.9 }, -0x1.aa0db6aa942b7p-27, { -0x1.08e4b63f46e7cp-23, -0x1.a5595b22c6fd0p-24, 0x1.88e9916969a3cp-22 }, true },
  { { 0.5, 0.5, 1.5, -50 }, 0x1.805b9ce7b71abp-2, { -0x1.2ed83a25f28e3p-1, -0x1.2ed83a25f28e3p-1, 0x1.e25fb995d49aap-4 }, true },
  { { 1, 31, 41, 1 }, 0x1.1c71c71c71c72p+2, { 0 }, false },
  { { -3, 2, 5, 4 }, -0x1.83a83a83a83a8p+0, { 0 }, false },
  { { 2, -4, 3, -7 }, 0x1.7af3333333333p+10, { 0 }, false },
  { { 2, 3, 4, 0 }, 1, { 0 }, true },
  { { 2, 3, 4, 1.5 }, NAN, { 0 }, false },
  { { 2, 3, 4, 1 }, INFINITY, { 0 }, false },
  { { 2, 3, -1, 0.5 }, INFINITY, { 0 }, false },
  { { NAN, 3, 1, 0.5 }, NAN, { 0 }, false },
};
enum { N = sizeof points / sizeof *points };

static bool is_near(double x, double y, double far) {
  return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= far * fmax(fabs(y), 1e-300);
}

static weft_array *operand(int k) {
  double x[N];
  for (int i = 0; i < N; i++) x[i] = points[i].x[k];
  return weft_from(WEFT_F64, WEFT_DIMS(N), x);
}

TEST(gauss_function_is_that_of_mpmath_with_its_derivatives) {
  weft_scope *s = weft_scope_open();
  weft_array *x[4], *d[4];
  double y[N], by[N];
  for (int k = 0; k < 4; k++) x[k] = operand(k);
  weft_array *f = weft_hyp2f1(x[0], x[1], x[2], x[3]);
  EXPECT_OK(weft_read(f, WEFT_F64, y, sizeof y));
  for (int i = 0; i < N; i++)
    if (!is_near(y[i], points[i].value, 1e-13)) test_fail(__FILE__, __LINE__, "value %d is %.17g, not %.17g", i, y[i], points[i].value);
  weft_grad(f, 4, x, d);
  for (int k = 0; k < 3; k++) {
    EXPECT_OK(weft_read(d[k], WEFT_F64, by, sizeof by));
    for (int i = 0; i < N; i++)
      if (points[i].has_by && !is_near(by[i], points[i].by[k], 1e-12))
        test_fail(__FILE__, __LINE__, "slope %d of %d is %.17g, not %.17g", k, i, by[i], points[i].by[k]);
  }
  EXPECT_OK(weft_read(d[3], WEFT_F64, by, sizeof by));
  EXPECT(is_near(by[7], 1.5, 1e-15)); /* a b / c at 0 */
  weft_scope_discard(s);
}

TEST(gauss_function_of_arrays_that_stretch_and_of_rows_is_that_of_each_element) {
  weft_scope *s = weft_scope_open();
  double a[2] = { 1.5, 2.5 }, z[3] = { -0.5, 0.25, 0.75 }, all[6], rows[6], one;
  weft_array *A = weft_from(WEFT_F64, WEFT_DIMS(2, 1), a), *Z = weft_from(WEFT_F64, WEFT_DIMS(3), z), *row;
  weft_array *f = weft_hyp2f1(A, weft_scalar(2), weft_scalar(3), Z);
  EXPECT_OK(weft_read(f, WEFT_F64, all, sizeof all));
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(1), a), *y = weft_hyp2f1(x, weft_scalar(2), weft_scalar(3), Z);
  weft_map(1, &x, &A, 1, &y, &row);
  EXPECT_OK(weft_read(row, WEFT_F64, rows, sizeof rows));
  for (int i = 0; i < 6; i++) {
    weft_array *e = weft_hyp2f1(weft_full(WEFT_F64, 0, NULL, a[i / 3]), weft_scalar(2), weft_scalar(3),
                                weft_full(WEFT_F64, 0, NULL, z[i % 3]));
    EXPECT_OK(weft_read(e, WEFT_F64, &one, sizeof one));
    EXPECT(one == all[i] && one == rows[i]);
  }
  EXPECT_INT(weft_dtype_of(weft_hyp2f1(weft_full(WEFT_F32, 0, NULL, 1), weft_scalar(1), weft_scalar(1), weft_scalar(0.5))), WEFT_F32);
  weft_array *bad = weft_hyp2f1(A, Z, weft_full(WEFT_F64, WEFT_DIMS(5), 1), weft_scalar(0.5));
  EXPECT_INT(weft_check(bad), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}
