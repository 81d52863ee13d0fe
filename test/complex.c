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

/* ---- derivatives: complex functions as functions of real parts, so that both directions are tried ---- */

static weft_array *front(weft_array *x) { return weft_slice(x, 0, 0, 3, 1); }
static weft_array *back(weft_array *x) { return weft_slice(x, 0, 3, 6, 1); }
static weft_array *z_of(weft_array *x) { return weft_complex(front(x), back(x)); }
static weft_array *w_of(weft_array *x) { return weft_complex(weft_mul(back(x), back(x)), weft_sub(front(x), weft_scalar(0.25))); }
static weft_array *flat(weft_array *z) {
  weft_array *y = weft_reshape(z, WEFT_DIMS(WEFT_ANY));
  return weft_concat(0, WEFT_ARRAYS(weft_real(y), weft_imag(y)));
}
static weft_array *numbered(int n, const int32_t *i) { return weft_from(WEFT_I32, WEFT_DIMS(n), i); }
static weft_array *some(weft_array *z) {
  weft_array *i = numbered(4, (int32_t[]){ -1, 0, -2, -1 });
  return weft_take(z, 1, &i);
}
static weft_array *square(weft_array *z) {
  weft_array *row = weft_reshape(z, WEFT_DIMS(1, 3)), *i = weft_complex(weft_scalar(0), weft_scalar(1));
  return weft_concat(0, WEFT_ARRAYS(row, weft_conj(row), weft_mul(row, i)));
}
static weft_array *oscillator(weft_array *x) { /* y' = (-d + iw) y + z_t, damped */
  weft_array *z = z_of(x), *rate = weft_complex(weft_scalar(0.6), weft_scalar(0.7));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(loop, z), *y = weft_loop_carry(loop, weft_at(w_of(x), 0, weft_integer(0)));
  weft_array *next = weft_add(weft_mul(y, rate), weft_mul(z_t, weft_conj(y)));
  weft_loop_next(loop, y, next);
  weft_array *all = weft_loop_all(loop, next), *last = weft_loop_last(loop, y);
  weft_loop_close(loop);
  return weft_mul(all, last);
}

#define D(name, expression) static weft_array *d_##name(weft_array *x) { weft_array *z = z_of(x), *w = w_of(x); return (void)z, (void)w, (expression); }
D(neg, flat(weft_neg(z))) D(conj, flat(weft_conj(z))) D(abs, weft_abs(z)) D(real, weft_real(weft_mul(z, z)))
D(imag, weft_imag(weft_mul(z, z))) D(complex, flat(weft_complex(weft_abs(z), weft_real(weft_mul(z, w)))))
D(add, flat(weft_add(z, weft_mul(w, w)))) D(sub, flat(weft_sub(weft_mul(z, z), w))) D(mul, flat(weft_mul(z, w)))
D(div, flat(weft_div(z, w))) D(fma, flat(weft_fma(z, w, z))) D(mixed, flat(weft_mul(weft_mul(z, front(x)), weft_scalar(1.5))))
D(where, flat(weft_where(weft_gt(front(x), weft_scalar(0.8)), weft_mul(z, z), w)))
D(cast, flat(weft_cast(weft_cast(weft_mul(z, w), WEFT_F64), WEFT_C128)))
D(sum, flat(weft_mul(weft_sum(z, 0), w))) D(mean, flat(weft_mul(weft_mean(z, 0), z))) D(prod, flat(weft_prod(weft_mul(z, w), 0)))
D(prod_all, flat(weft_prod(square(z), WEFT_ALL))) D(cumsum, flat(weft_mul(weft_cumsum(z, 0), z))) D(cumprod, flat(weft_cumprod(z, 0)))
D(matmul, flat(weft_matmul(square(z), weft_transpose(square(w), NULL)))) D(take, flat(weft_mul(some(z), some(w))))
D(put_set, flat(weft_mul(weft_put(z, weft_slice(z, 0, 2, 0, -1), weft_slice(weft_mul(w, w), 0, 0, 2, 1), WEFT_SET), z)))
D(put_add, flat(weft_put(z, weft_slice(z, 0, 0, 2, 1), weft_slice(weft_mul(w, w), 0, 0, 2, 1), WEFT_ADD)))
D(put_mul, flat(weft_put(z, weft_slice(z, 0, 0, 2, 1), weft_slice(w, 0, 0, 2, 1), WEFT_MUL)))
D(scatter_add, flat(weft_put(z, some(z), some(weft_mul(w, w)), WEFT_ADD)))
D(scatter_set, flat(weft_put(z, some(z), some(weft_mul(w, w)), WEFT_SET)))
D(scatter_mul, flat(weft_put(z, some(z), some(w), WEFT_MUL)))
D(pad, flat(weft_mul(weft_pad(z, 0, 1, 1, weft_sum(w, WEFT_ALL)), weft_pad(w, 0, 1, 1, weft_sum(z, WEFT_ALL)))))
D(oscillator, flat(oscillator(x)))

static const struct { const char *name; array_function f; } derivatives[] = {
#define R(name) { #name, d_##name },
  R(neg) R(conj) R(abs) R(real) R(imag) R(complex) R(add) R(sub) R(mul) R(div) R(fma) R(mixed) R(where) R(cast) R(sum) R(mean) R(prod)
  R(prod_all) R(cumsum) R(cumprod) R(matmul) R(take) R(put_set) R(put_add) R(put_mul) R(scatter_add) R(scatter_set) R(scatter_mul) R(pad)
  R(oscillator)
};

TEST(complex_derivatives_maps_and_second_derivatives_are_right) {
  static const double x[6] = { 0.7, -1.3, 0.9, 0.4, 0.8, -0.6 };
  test_watchdog(300);
  for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++) check_function(derivatives[i].name, derivatives[i].f, 6, x);
}
