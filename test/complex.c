/* complex.c -- complex numbers, from numbers to derivatives. The reference is C's own arithmetic. */
#include <complex.h>
#include <math.h>
#include <string.h>
#include "test.h"
#include "values.h"
#include "weft.h"

#undef I
#define I 1.0fi
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
D(exp, flat(weft_exp(z))) D(log, flat(weft_log(z))) D(sin, flat(weft_sin(z))) D(cos, flat(weft_cos(z))) D(tan, flat(weft_tan(z)))
D(sinh, flat(weft_sinh(z))) D(cosh, flat(weft_cosh(z))) D(tanh, flat(weft_tanh(z))) D(sigmoid, flat(weft_sigmoid(z))) D(pow, flat(weft_pow(z, w)))
D(sqrt, flat(weft_sqrt(z))) D(rsqrt, flat(weft_rsqrt(w)))
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
  R(neg) R(conj) R(abs) R(real) R(imag) R(complex) R(exp) R(log) R(sin) R(cos) R(tan) R(sinh) R(cosh) R(tanh) R(sigmoid) R(pow)
  R(sqrt) R(rsqrt) R(add) R(sub) R(mul) R(div) R(fma) R(mixed) R(where) R(cast) R(sum) R(mean) R(prod)
  R(prod_all) R(cumsum) R(cumprod) R(matmul) R(take) R(put_set) R(put_add) R(put_mul) R(scatter_add) R(scatter_set) R(scatter_mul) R(pad)
  R(oscillator)
};

TEST(complex_derivatives_maps_and_second_derivatives_are_right) {
  static const double x[6] = { 0.7, -1.3, 0.9, 0.4, 0.8, -0.6 };
  test_watchdog(300);
  for (size_t i = 0; i < sizeof derivatives / sizeof *derivatives; i++) check_function(derivatives[i].name, derivatives[i].f, 6, x);
}

/* ---- numbers, texts, memory ---- */

TEST(complex_numbers_are_shown_with_both_parts) {
  z128 z[] = { 1.5 - 2 * I, CMPLX(-0.0, INFINITY), CMPLX(NAN, -0.0) };
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C128, WEFT_DIMS(3), z), *y = weft_cast(x, WEFT_C64), *i = weft_complex(weft_scalar(0.1), weft_integer(-1));
  EXPECT_TEXT(weft_show(1, &x, "value"), "[1.5-2i, -0+infi, nan-0i]\n");
  EXPECT_TEXT(weft_show(1, &y, "value"), "[1.5-2i, -0+infi, nan-0i]\n");
  EXPECT_TEXT(weft_show(1, &i, "value"), "0.1-1i\n");
  weft_scope_discard(s);
}

TEST(complex_numbers_remember_what_c64_would_lose) {
  z128 got;
  weft_scope *s = weft_scope_open();
  weft_array *z = weft_complex(weft_scalar(0.1), weft_scalar(1e300));
  EXPECT_OK(weft_eval(1, &z));
  EXPECT_OK(weft_read(weft_mul(z, weft_full(WEFT_F64, 0, NULL, 1)), WEFT_C128, &got, sizeof got));
  EXPECT(creal(got) == 0.1 && cimag(got) == 1e300);
  EXPECT_INT(weft_dtype_of(weft_cast(z, WEFT_C128)), WEFT_C128);
  double re;
  EXPECT_OK(weft_read(weft_cast(z, WEFT_F64), WEFT_F64, &re, sizeof re));
  EXPECT(re == 0.1);
  weft_scope_discard(s);
}

TEST(parts_of_a_complex_array_are_views_of_it) {
  z64 z[3][4], out[4][3];
  float im[4][3];
  for (int i = 0; i < 12; i++) z[i / 4][i % 4] = (float)i - 2 * (float)i * I;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C64, WEFT_DIMS(3, 4), z), *t = weft_transpose(x, NULL), *y = weft_imag(t);
  int64_t before = weft_get(WEFT_BYTES_USED);
  EXPECT_OK(weft_eval(WEFT_ARRAYS(t, y, weft_reshape(x, WEFT_DIMS(12)))));
  EXPECT_INT(weft_get(WEFT_BYTES_USED), before);
  EXPECT_OK(weft_read(t, WEFT_C64, out, sizeof out));
  EXPECT_OK(weft_read(y, WEFT_F32, im, sizeof im));
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) EXPECT(out[i][j] == z[j][i] && im[i][j] == cimagf(z[j][i]));
  weft_array *flat = weft_reshape(t, WEFT_DIMS(12)); /* which strides cannot say */
  EXPECT_OK(weft_read(flat, WEFT_C64, out, sizeof out));
  for (int k = 0; k < 12; k++) EXPECT(out[k / 3][k % 3] == z[k % 3][k / 3]);
  weft_scope_discard(s);
}

TEST(parts_of_an_array_at_an_offset_are_its_own) {
  z128 z[6] = { 0, 1 + 2 * I, 3 + 4 * I, 5 + 6 * I, 7, 8 };
  double im[2];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C128, WEFT_DIMS(6), z), *part = weft_slice(x, 0, 3, 0, -2);
  EXPECT_OK(weft_eval(1, &part));           /* a leaf that begins at element 3 and goes back by 2 */
  weft_array *y = weft_imag(weft_alias(part));
  EXPECT_OK(weft_read(y, WEFT_F64, im, sizeof im));
  EXPECT(im[0] == 6 && im[1] == 2);
  weft_block b;
  EXPECT_OK(weft_pin(y, 0, &b));
  EXPECT(*(double *)b.data == 6 && b.strides[0] == -4);
  weft_unpin(y);
  weft_scope_discard(s);
}

/* ---- accuracy: nothing overflows on the way ---- */

static void near_parts(z128 got, double re, double im, double ulp) {
  double size = hypot(re, im);
  EXPECT(fabs(creal(got) - re) <= ulp * size && fabs(cimag(got) - im) <= ulp * size);
}

TEST(complex_quotients_and_magnitudes_do_not_overflow) {
  static const double scale[] = { 1, 1e-300, 1e300, 0x1p-1060, 1e150 };
  weft_scope *s = weft_scope_open();
  for (int i = 0; i < 5; i++)
    for (int turn = 0; turn < 16; turn++) {
      double angle = 0.4 * turn, c = cos(angle) * scale[i], d = sin(angle) * scale[i], m;
      z128 w = CMPLX(c, d), z = CMPLX(3 * c, 3 * d), q;
      weft_array *b = weft_from(WEFT_C128, 0, NULL, &w), *a = weft_from(WEFT_C128, 0, NULL, &z);
      EXPECT_OK(weft_read(weft_div(a, b), WEFT_C128, &q, sizeof q));
      near_parts(q, 3, 0, i == 3 ? 0x1p-11 : 0x1p-50);
      EXPECT_OK(weft_read(weft_abs(b), WEFT_F64, &m, sizeof m));
      EXPECT(fabs(m - hypot(c, d)) <= 0x1p-51 * m + 0x1p-1074);
    }
  weft_scope_discard(s);
}

TEST(complex_roots_are_those_of_csqrt) {
  static const double part[] = { 0.0, -0.0, 1, -1, 3, -4, 1e-300, 1e300, -1.7e308, 0x1p-1074, -0x1p-1070, INFINITY, -INFINITY };
  enum { N = sizeof part / sizeof *part };
  weft_scope *s = weft_scope_open();
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      z128 z = CMPLX(part[i], part[j]), got, want = csqrt(z);
      EXPECT_OK(weft_read(weft_sqrt(weft_from(WEFT_C128, 0, NULL, &z)), WEFT_C128, &got, sizeof got));
      bool ok = fabs(creal(got) - creal(want)) <= 0x1p-50 * creal(want) || creal(got) == creal(want);
      ok &= fabs(cimag(got) - cimag(want)) <= 0x1p-50 * fabs(cimag(want)) + 0x1p-1074 || cimag(got) == cimag(want);
      ok &= signbit(creal(got)) == signbit(creal(want)) && signbit(cimag(got)) == signbit(cimag(want));
      if (!ok) test_fail(__FILE__, __LINE__, "sqrt(%g%+gi) is %.17g%+.17gi, not %.17g%+.17gi", part[i], part[j], creal(got), cimag(got), creal(want), cimag(want));
    }
  weft_scope_discard(s);
}

static bool is_close(z128 a, z128 b, double tolerance) {
  if (isinf(creal(b))) return creal(a) == creal(b) && fabs(cimag(a) - cimag(b)) <= 4 * tolerance;
  return cabs(a - b) <= tolerance * cabs(b);
}

static z128 logistic(z128 z) { return 1 / (1 + cexp(-z)); }

TEST(complex_functions_are_those_of_c) {
  static const struct { const char *name; weft_array *(*f)(weft_array *); z128 (*want)(z128); } rows[] = {
    { "exp", weft_exp, cexp }, { "log", weft_log, clog }, { "sin", weft_sin, csin }, { "cos", weft_cos, ccos }, { "tan", weft_tan, ctan },
    { "sinh", weft_sinh, csinh }, { "cosh", weft_cosh, ccosh }, { "tanh", weft_tanh, ctanh }, { "sigmoid", weft_sigmoid, logistic }
  };
  static const double part[] = { 0.0, -0.0, 0.3, -0.7, 1, -1.1, 2.5, -6, 20, -30 };
  enum { N = sizeof part / sizeof *part };
  z128 z[N * N], got[N * N];
  z64 narrow[N * N];
  for (int i = 0; i < N * N; i++) z[i] = CMPLX(part[i / N], part[i % N]);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_from(WEFT_C128, WEFT_DIMS(N * N), z);
    EXPECT_OK(weft_read(rows[r].f(x), WEFT_C128, got, sizeof got));
    EXPECT_OK(weft_read(rows[r].f(weft_cast(x, WEFT_C64)), WEFT_C64, narrow, sizeof narrow));
    for (int i = 0; i < N * N; i++) {
      z128 want = rows[r].want(z[i]);
      if (!is_close(got[i], want, 0x1p-49) || !is_close((z128)narrow[i], rows[r].want((z128)(z64)z[i]), 0x1p-19))
        test_fail(__FILE__, __LINE__, "%s(%g%+gi) is %.17g%+.17gi, not %.17g%+.17gi", rows[r].name, creal(z[i]), cimag(z[i]), creal(got[i]), cimag(got[i]), creal(want), cimag(want));
    }
    weft_scope_discard(s);
  }
}

static weft_array *Z(double re, double im) {
  z128 z = CMPLX(re, im);
  return weft_from(WEFT_C128, 0, NULL, &z);
}

TEST(nan_and_inf_spread_as_the_formulas_say) {
  const double inf = INFINITY;
  double m;
  z128 out;
  weft_scope *s = weft_scope_open();
#define IS(a, want_re, want_im)                                                                     \
  do {                                                                                              \
    EXPECT_OK(weft_read(a, WEFT_C128, &out, sizeof out));                                           \
    double r_ = (want_re), i_ = (want_im);                                                          \
    EXPECT((creal(out) == r_ || (r_ != r_ && creal(out) != creal(out))) && (cimag(out) == i_ || (i_ != i_ && cimag(out) != cimag(out)))); \
  } while (0)
  IS(weft_mul(Z(inf, 0), Z(1, 0)), inf, NAN);   /* inf 1 - 0 0 and inf 0 + 0 1 */
  IS(weft_mul(Z(inf, 1), Z(0, 1)), NAN, inf);
  IS(weft_mul(Z(inf, inf), Z(1, 1)), NAN, inf); /* no infinity is recovered */
  IS(weft_add(Z(inf, 1), Z(-inf, 1)), NAN, 2);
  IS(weft_div(Z(1, 1), Z(inf, 0)), 0, 0);
  IS(weft_div(Z(1, -1), Z(0, 0)), inf, -inf);
  IS(weft_div(Z(NAN, 1), Z(1, 0)), NAN, NAN);
  IS(weft_conj(Z(NAN, inf)), NAN, -inf);
  IS(weft_exp(Z(inf, 0)), inf, 0);
  IS(weft_exp(Z(-inf, 1)), 0, 0);
  IS(weft_exp(Z(0, inf)), NAN, NAN);
  IS(weft_log(Z(0, 0)), -inf, 0);
  IS(weft_log(Z(-inf, inf)), inf, 2.356194490192345);
  IS(weft_log(Z(1e300, 1e300)), 691.1221014884936, 0.7853981633974483);
  IS(weft_tanh(Z(400, 1)), 1, 0);
  IS(weft_pow(Z(0, 0), Z(2, 1)), 0, 0);
  IS(weft_pow(Z(0, 0), Z(0, 0)), 1, 0);
  IS(weft_pow(Z(0, 0), Z(NAN, 0)), NAN, NAN);
  IS(weft_pow(Z(0, 0), Z(-1, 0)), NAN, NAN);
  IS(weft_pow(Z(1, 1), Z(2, 0)), 0, 2); /* products, not logarithms */
  IS(weft_pow(Z(1, -2), Z(3, 0)), -11, 2);
  IS(weft_pow(Z(0, 2), Z(-2, 0)), -0.25, 0);
  IS(weft_pow(Z(0, 1), Z(15, 0)), 0, -1);
  EXPECT_OK(weft_read(weft_abs(Z(NAN, -inf)), WEFT_F64, &m, sizeof m));
  EXPECT(m == inf);
  EXPECT_OK(weft_read(weft_abs(Z(NAN, 0)), WEFT_F64, &m, sizeof m));
  EXPECT(m != m);
  EXPECT_OK(weft_read(weft_abs(Z(-0.0, 0)), WEFT_F64, &m, sizeof m));
  EXPECT(m == 0 && !signbit(m));
  weft_scope_discard(s);
}

TEST(the_gradient_of_a_real_loss_is_that_of_mlx) {
  z64 z[] = { 3 + 4 * I, 0, -1 * I }, dz[3];
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_C64, WEFT_DIMS(3), z), *dx;
  weft_grad(weft_sum(weft_abs(x), 0), 1, &x, &dx);
  EXPECT_OK(weft_read(dx, WEFT_C64, dz, sizeof dz));
  EXPECT(cabsf(dz[0] - (0.6f - 0.8f * I)) < 1e-6f && dz[1] == 0 && dz[2] == I); /* 0 at 0 */
  weft_grad(weft_imag(x), 1, &x, &dx);
  EXPECT_OK(weft_read(dx, WEFT_C64, dz, sizeof dz));
  for (int i = 0; i < 3; i++) EXPECT(dz[i] == -1 * I);
  weft_grad(weft_mul(x, x), 1, &x, &dx); /* holomorphic: f' */
  EXPECT_OK(weft_read(dx, WEFT_C64, dz, sizeof dz));
  for (int i = 0; i < 3; i++) EXPECT(dz[i] == 2 * z[i]);
  weft_scope_discard(s);
}

/* ---- functions, updates, loops ---- */

TEST(functions_and_scopes_take_complex_arrays) {
  z64 z[4] = { 1, I, -1, 2 - I }, out[4];
  weft_scope *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_C64, WEFT_DIMS(WEFT_ANY)), *w = weft_input(WEFT_C64, 0, NULL), *y = weft_mul(weft_conj(x), w);
  weft_function *f = weft_compile(body, 2, (weft_array *[]){ x, w }, 1, &y);
  weft_array *a = weft_from(WEFT_C64, WEFT_DIMS(4), z), *r;
  weft_call(f, 2, (weft_array *[]){ a, weft_complex(weft_scalar(0), weft_scalar(2)) }, 1, &r);
  EXPECT_OK(weft_read(r, WEFT_C64, out, sizeof out));
  for (int i = 0; i < 4; i++) EXPECT(out[i] == conjf(z[i]) * 2 * I);
  weft_scope *step = weft_scope_open();
  weft_update(a, weft_add(a, weft_complex(weft_scalar(1), weft_scalar(0))));
  weft_fetch(weft_flip(a, 0), WEFT_C64, out, sizeof out);
  EXPECT_OK(weft_scope_close(step));
  for (int i = 0; i < 4; i++) EXPECT(out[i] == z[3 - i]);
  EXPECT_OK(weft_read(a, WEFT_C64, out, sizeof out));
  for (int i = 0; i < 4; i++) EXPECT(out[i] == z[i] + 1);
  weft_scope_discard(s);
}

/* y' = y (0.99 e^{0.1 i}), until it is small: lengths that only the run tells, loops inside loops. */
TEST(a_damped_oscillator_turns_until_it_rests) {
  z128 rate = 0.99 * cexp(0.1 * I), last, all[200], want = 1;
  int64_t n;
  weft_scope *s = weft_scope_open();
  weft_loop *loop = weft_loop_open(weft_integer(200));
  weft_array *y = weft_loop_carry(loop, weft_complex(weft_full(WEFT_F64, 0, NULL, 1), weft_scalar(0)));
  weft_array *next = weft_mul(y, weft_from(WEFT_C128, 0, NULL, &rate));
  weft_loop_next(loop, y, next);
  weft_loop_until(loop, weft_lt(weft_abs(next), weft_scalar(0.5)));
  weft_array *path = weft_loop_all(loop, next), *end = weft_loop_last(loop, y);
  weft_loop_close(loop);
  n = weft_dim(path, 0);
  EXPECT_INT(n, 69); /* 0.99^69 < 0.5 */
  EXPECT_OK(weft_read(path, WEFT_C128, all, (size_t)n * sizeof *all));
  EXPECT_OK(weft_read(end, WEFT_C128, &last, sizeof last));
  for (int64_t t = 0; t < n; t++) {
    want = CMPLX(creal(want) * creal(rate) - cimag(want) * cimag(rate), creal(want) * cimag(rate) + cimag(want) * creal(rate));
    EXPECT(all[t] == want);
  }
  EXPECT(last == want);
  weft_scope_discard(s);
}

TEST(a_loop_inside_a_loop_has_complex_state) {
  z128 z[2][3] = { { 1, I, 2 }, { 3 - I, 1, I } }, got[2];
  weft_scope *s = weft_scope_open();
  weft_loop *rows = weft_loop_open(NULL);
  weft_array *row = weft_loop_each(rows, weft_from(WEFT_C128, WEFT_DIMS(2, 3), z)), *sum = weft_loop_carry(rows, weft_full(WEFT_C128, 0, NULL, 0));
  weft_array *next = weft_add(sum, weft_reshape(weft_prod(row, 0), 0, NULL)); /* a loop of its own */
  weft_loop_next(rows, sum, next);
  weft_array *all = weft_loop_all(rows, next);
  weft_loop_close(rows);
  EXPECT_OK(weft_read(all, WEFT_C128, got, sizeof got));
  EXPECT(got[0] == 2 * I && got[1] == 2 * I + (3 - I) * I);
  weft_scope_discard(s);
}

TEST(the_variance_of_complex_numbers_is_the_mean_of_squared_distances) {
  weft_scope *s = weft_scope_open();
  z128 z[] = { CMPLX(1, 2), CMPLX(-3, 0), CMPLX(0, 4), CMPLX(2, -2) }; /* mean i: distances^2 1 + 1, 9 + 1, 9, 4 + 9 */
  weft_array *x = weft_from(WEFT_C128, WEFT_DIMS(4), z), *narrow = weft_cast(x, WEFT_C64);
  EXPECT_F64(weft_var(x, WEFT_ALL, 0), 34. / 4);
  EXPECT_F64(weft_std(x, 0, 1), sqrt(34. / 3));
  EXPECT_INT(weft_dtype_of(weft_var(narrow, 0, 0)), WEFT_F32);
  EXPECT_F64(weft_cast(weft_var(narrow, 0, 0), WEFT_F64), 34. / 4);
  weft_array *v = weft_var(x, WEFT_ALL, 0), *dx;
  z128 got[4];
  weft_grad(v, 1, &x, &dx); /* 2 conj(z - mean) / n */
  EXPECT_OK(weft_read(dx, WEFT_C128, got, sizeof got));
  for (int i = 0; i < 4; i++) {
    z128 want = conj(z[i] - CMPLX(0, 1)) / 2;
    EXPECT_NEAR(creal(got[i]), creal(want), 1e-15);
    EXPECT_NEAR(cimag(got[i]), cimag(want), 1e-15);
  }
  weft_scope_discard(s);
}

TEST(parts_of_real_numbers_and_of_bad_arrays) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_I16, WEFT_DIMS(2), 3), *bad = weft_at(x, 7, x);
  EXPECT_INT(weft_dtype_of(weft_real(x)), WEFT_I16);
  EXPECT_INT(weft_dtype_of(weft_conj(x)), WEFT_I16);
  EXPECT_INT(weft_dtype_of(weft_complex(x, x)), WEFT_C64);
  EXPECT_INT(weft_dtype_of(weft_complex(weft_full(WEFT_F64, 0, NULL, 1), x)), WEFT_C128);
  EXPECT_INT(weft_check(weft_complex(x, bad)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_complex(x, weft_cast(x, WEFT_C64))), WEFT_ERR_DTYPE);
  EXPECT_TEXT(weft_message(), "weft_complex: not of c64");
  EXPECT_INT(weft_check(weft_complex(NULL, x)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_complex(weft_full(WEFT_F32, WEFT_DIMS(3), 1), x)), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_check(weft_softmax(weft_cast(x, WEFT_C64), 0)), WEFT_ERR_DTYPE);
  EXPECT_TEXT(weft_message(), "weft_softmax: not of c64");
  EXPECT_INT(weft_check(weft_layer_norm(weft_cast(x, WEFT_C128), NULL, NULL, 0)), WEFT_ERR_DTYPE);
  EXPECT_TEXT(weft_message(), "weft_layer_norm: not of c128");
  weft_scope_discard(s);
}

TEST(a_library_step_of_a_real_array_stands_among_complex_numbers) {
  weft_scope *s = weft_scope_open();
  double re[] = { 3, 1, 2 }, im[] = { 10, 20, 30 };
  weft_array *z = weft_complex(weft_from(WEFT_F64, WEFT_DIMS(3), re), weft_from(WEFT_F64, WEFT_DIMS(3), im));
  EXPECT_F64(weft_add(weft_sort(weft_real(weft_mul(z, z)), 0), weft_imag(z)), -896 + 10, -399 + 20, -91 + 30);
  weft_scope_discard(s);
}

/* ---- results ---- */

/* x of [2,3,4], seen as [4,3,2] or [12,2], and what it is made of, all wanted. */
TEST(complex_results_in_another_shape_or_order_are_written_once) {
  float re[24], im[24];
  z64 got[24];
  for (int i = 0; i < 24; i++) re[i] = (float)i, im[i] = (float)-i / 2;
  for (int way = 0; way < 4; way++)
    for (int wants_base = 0; wants_base < 2; wants_base++) {
      weft_scope *s = weft_scope_open();
      weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(2, 3, 4), re), *b = weft_from(WEFT_F32, WEFT_DIMS(2, 3, 4), im);
      weft_array *z = weft_complex(weft_add(a, b), weft_mul(a, b));                                      /* [2,3,4] */
      weft_array *t = weft_transpose(z, (int[]){ 2, 1, 0 });                                             /* [4,3,2] */
      weft_array *y = way == 0 ? t : way == 1 ? weft_reshape(t, WEFT_DIMS(12, 2)) : way == 2 ? weft_reshape(z, WEFT_DIMS(4, 3, 2))
                    : weft_transpose(weft_reshape(t, WEFT_DIMS(12, 2)), (int[]){ 1, 0 });
      weft_array *both[] = { y, z };
      weft_cost cost;
      EXPECT_OK(weft_plan(1, &y, &cost));
      EXPECT_INT(cost.kernels, way % 2 ? 3 : 1); /* a view of the only kernel; both parts, put in order where they stand */
      EXPECT_OK(weft_eval(1 + wants_base, both));
      EXPECT_OK(weft_read(y, WEFT_C64, got, sizeof got));
      for (int i = 0; i < 24; i++) {
        int j = way == 3 ? i % 12 * 2 + i / 12 : i, from = way == 2 ? j : j % 2 * 12 + j / 2 % 3 * 4 + j / 6;
        EXPECT(crealf(got[i]) == re[from] + im[from] && cimagf(got[i]) == re[from] * im[from]);
      }
      EXPECT_OK(weft_read(z, WEFT_C64, got, sizeof got));
      for (int i = 0; i < 24; i++) EXPECT(crealf(got[i]) == re[i] + im[i] && cimagf(got[i]) == re[i] * im[i]);
      weft_scope_discard(s);
    }
}
