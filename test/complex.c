/* complex.c -- complex numbers, from numbers to derivatives. The reference is C's own arithmetic. */
#include <complex.h>
#include <math.h>
#include <string.h>
#include "test.h"
#include "values.h"
#include "weft.h"

typedef double complex z128;
typedef float complex z64;

TEST(complex_numbers_go_in_and_out_unchanged) {
  z64 in[] = { 1 + 2 * I, -0.0f - 3 * I, CMPLXF(INFINITY, NAN), CMPLXF(0, -0.0f) }, out[4];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C64, WEFT_DIMS(4), in);
  EXPECT(!weft_read(x, WEFT_C64, out, sizeof out));
  EXPECT(!memcmp(in, out, sizeof in));
  weft_array *y = weft_flip(x, 0);
  EXPECT(!weft_read(y, WEFT_C64, out, sizeof out));
  for (int i = 0; i < 4; i++) EXPECT(!memcmp(&out[i], &in[3 - i], sizeof *in));
  weft_scope_discard(s);
}

TEST(complex_product_is_the_plain_formula) {
  z128 a[] = { 1 + 2 * I, 3 - I, -2 }, b[] = { 4 - I, 0.5 * I, 1 + I }, out[3];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C128, WEFT_DIMS(3), a), *y = weft_from(WEFT_C128, WEFT_DIMS(3), b);
  EXPECT(!weft_read(weft_mul(x, y), WEFT_C128, out, sizeof out));
  for (int i = 0; i < 3; i++) EXPECT(out[i] == a[i] * b[i]);
  double re[3];
  EXPECT(!weft_read(weft_real(weft_add(x, y)), WEFT_F64, re, sizeof re));
  for (int i = 0; i < 3; i++) EXPECT(re[i] == creal(a[i] + b[i]));
  EXPECT(!weft_read(weft_imag(x), WEFT_F64, re, sizeof re));
  for (int i = 0; i < 3; i++) EXPECT(re[i] == cimag(a[i]));
  weft_scope_discard(s);
}
