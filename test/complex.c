/* complex.c -- complex numbers, from numbers to derivatives. The reference is C's own arithmetic. */
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "every_recipe.h"
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

/* ---- every operation, on every layout, in every way of evaluation, against plain C on the parts ---- */

enum layout { DENSE, BACKWARDS, TURNED, STANDING, STRIDED, LAYOUTS };
struct operand { weft_array *array; void *memory; struct plain part[2]; };
struct pair { const struct plain *re, *im; }; /* im NULL: a real result */

static struct plain made[512];
static int n_made;
static const struct plain *keep(struct plain p) { return made[n_made] = p, &made[n_made++]; }
static void forget(void) { while (n_made) plain_free(&made[--n_made]); }

/* An operation of plain C on parts; its result has the dtype of the last operand, or bool. */
static const struct plain *real(const char *op, int n, ...) {
  const struct plain *x[3];
  va_list a;
  va_start(a, n);
  for (int k = 0; k < n; k++) x[k] = va_arg(a, const struct plain *);
  va_end(a);
  bool is_test = !strcmp(op, "eq") || !strcmp(op, "ne") || !strcmp(op, "le") || !strcmp(op, "isnan");
  return keep(plain_element(op, is_test ? WEFT_BOOL : x[n - 1]->dtype, n, x));
}
static const struct plain *number(const struct plain *like, double v) {
  struct plain p = plain_new(like->dtype, 0, NULL);
  plain_set_f(&p, 0, v);
  return keep(p);
}

static uint32_t state;
static uint32_t any(uint32_t below) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}

static double value(bool is_special) {
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0, 0x1p-149, 0x1p-1074, 3e38, -1e308, 1, -1, 1e-30 };
  return is_special && any(2) ? odd[any(12)] : (double)any(1u << 20) / (1 << 18) - 1.5;
}

static void nothing(void *ctx) { (void)ctx; }

static void lay_out(struct operand *x, weft_dtype t, int rank, const int64_t dims[], enum layout how, bool is_special) {
  weft_dtype d = t == WEFT_C64 ? WEFT_F32 : WEFT_F64;
  int64_t stride[4], step = how == STRIDED ? 3 : 1, far = how == STRIDED ? 5 : 1, offset = how == STRIDED ? 4 : 0;
  for (int i = rank - 1; i >= 0; i--) {
    int k = how == TURNED ? rank - 1 - i : i;
    int64_t n = dims[k] ? dims[k] : 1;
    stride[k] = how == STANDING && k == 0 ? 0 : step;
    far += stride[k] * (n - 1);
    step *= n;
    if (how == BACKWARDS) offset += stride[k] * (n - 1), stride[k] *= -1;
  }
  struct plain all = plain_new(d, 1, (int64_t[]){ 2 * far });
  for (int64_t i = 0; i < 2 * far; i++) plain_set_f(&all, i, value(is_special));
  x->memory = all.data;
  for (int p = 0; p < 2; p++) {
    x->part[p] = plain_new(d, rank, dims);
    for (int64_t i = 0; i < x->part[p].count; i++) {
      int64_t at[PLAIN_RANK], from = offset;
      plain_index(&x->part[p], i, at);
      for (int k = 0; k < rank; k++) from += at[k] * stride[k];
      plain_set_f(&x->part[p], i, plain_f(&all, 2 * from + p));
    }
  }
  weft_block b = { (char *)x->memory + (size_t)offset * weft_dtype_bytes(t), 0, t, rank, dims, stride };
  x->array = weft_external(&b, nothing, NULL);
}

struct call {
  const char *name;
  int n_in;
  char axes; /* 0: any shape; 1: once for every axis; 2: two elements along axis 0; 3: rank 2 at least */
  weft_array *(*make)(weft_array *const x[], int axis);
  struct pair (*want)(const struct pair x[], int axis);
};

#define MAKE(name, expression) static weft_array *make_##name(weft_array *const x[], int axis) { return (void)axis, (expression); }
#define WANT(name) static struct pair want_##name(const struct pair x[], int axis)
#define A x[0].re
#define B x[0].im
#define C x[1].re
#define D_ x[1].im

MAKE(neg, weft_neg(x[0])) WANT(neg) { return (void)axis, (struct pair){ real("neg", 1, A), real("neg", 1, B) }; }
MAKE(conj, weft_conj(x[0])) WANT(conj) { return (void)axis, (struct pair){ A, real("neg", 1, B) }; }
MAKE(real, weft_real(x[0])) WANT(real) { return (void)axis, (struct pair){ A, NULL }; }
MAKE(imag, weft_imag(x[0])) WANT(imag) { return (void)axis, (struct pair){ B, NULL }; }
MAKE(complex, weft_complex(weft_imag(x[0]), weft_real(x[1]))) WANT(complex) { return (void)axis, (struct pair){ B, C }; }
MAKE(add, weft_add(x[0], x[1])) WANT(add) { return (void)axis, (struct pair){ real("add", 2, A, C), real("add", 2, B, D_) }; }
MAKE(sub, weft_sub(x[0], x[1])) WANT(sub) { return (void)axis, (struct pair){ real("sub", 2, A, C), real("sub", 2, B, D_) }; }
MAKE(mul, weft_mul(x[0], x[1])) WANT(mul) {
  (void)axis;
  return (struct pair){ real("sub", 2, real("mul", 2, A, C), real("mul", 2, B, D_)), real("add", 2, real("mul", 2, A, D_), real("mul", 2, B, C)) };
}
MAKE(fma, weft_fma(x[0], x[1], x[0])) WANT(fma) {
  struct pair m = want_mul(x, axis);
  return (struct pair){ real("add", 2, m.re, A), real("add", 2, m.im, B) };
}
MAKE(div, weft_div(x[0], x[1])) WANT(div) { /* by the ratio of the parts of the divisor */
  const struct plain *p = real("le", 2, real("abs", 1, D_), real("abs", 1, C)), *zero = number(A, 0);
  const struct plain *large = real("where", 3, p, C, D_), *small = real("where", 3, p, D_, C);
  const struct plain *a = real("where", 3, p, A, B), *b = real("where", 3, p, B, A);
  const struct plain *r = real("where", 3, real("eq", 2, large, zero), zero, real("div", 2, small, large));
  const struct plain *by = real("add", 2, large, real("mul", 2, small, r)), *im = real("sub", 2, b, real("mul", 2, a, r));
  (void)axis;
  return (struct pair){ real("div", 2, real("add", 2, a, real("mul", 2, b, r)), by), real("div", 2, real("where", 3, p, im, real("neg", 1, im)), by) };
}
MAKE(eq, weft_eq(x[0], x[1])) WANT(eq) { return (void)axis, (struct pair){ real("and", 2, real("eq", 2, A, C), real("eq", 2, B, D_)), NULL }; }
MAKE(ne, weft_ne(x[0], x[1])) WANT(ne) { return (void)axis, (struct pair){ real("or", 2, real("ne", 2, A, C), real("ne", 2, B, D_)), NULL }; }
MAKE(isnan, weft_isnan(x[0])) WANT(isnan) { return (void)axis, (struct pair){ real("or", 2, real("isnan", 1, A), real("isnan", 1, B)), NULL }; }
MAKE(where, weft_where(weft_eq(x[0], x[0]), x[1], x[0])) WANT(where) {
  const struct plain *c = want_eq((struct pair[]){ x[0], x[0] }, axis).re;
  return (struct pair){ real("where", 3, c, C, A), real("where", 3, c, D_, B) };
}
MAKE(to_bool, weft_cast(x[0], WEFT_BOOL)) WANT(to_bool) {
  (void)axis;
  return (struct pair){ real("or", 2, keep(plain_cast(A, WEFT_BOOL)), keep(plain_cast(B, WEFT_BOOL))), NULL };
}
MAKE(to_i32, weft_cast(x[0], WEFT_I32)) WANT(to_i32) { return (void)axis, (struct pair){ keep(plain_cast(A, WEFT_I32)), NULL }; }
MAKE(to_c64, weft_cast(x[0], WEFT_C64)) WANT(to_c64) {
  return (void)axis, (struct pair){ keep(plain_cast(A, WEFT_F32)), keep(plain_cast(B, WEFT_F32)) };
}
MAKE(to_c128, weft_cast(x[0], WEFT_C128)) WANT(to_c128) {
  return (void)axis, (struct pair){ keep(plain_cast(A, WEFT_F64)), keep(plain_cast(B, WEFT_F64)) };
}

/* What treats both parts alike. */
#define EACH(name, expression, on_part)                                                                                 \
  MAKE(name, expression)                                                                                                \
  static struct plain part_##name(const struct plain *a, const struct plain *b, int axis) { return (void)b, (void)axis, (on_part); } \
  WANT(name) { return (struct pair){ keep(part_##name(A, C, axis)), keep(part_##name(B, D_, axis)) }; }

static struct plain taken(const struct plain *x) {
  struct plain i = plain_new(WEFT_I32, 1, (int64_t[]){ 4 });
  for (int k = 0; k < 4; k++) plain_set_i(&i, k, (int[]){ -1, 0, -2, -1 }[k]);
  struct plain y = plain_take(x, 1, (const struct plain *[]){ &i });
  plain_free(&i);
  return y;
}
static struct plain turned(const struct plain *x) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < x->rank; k++) axes[k] = x->rank - 1 - k;
  return plain_transpose(x, axes);
}
static const struct plain *numbers_of(const struct plain *x) {
  struct plain n = plain_new(WEFT_I64, x->rank, x->dims);
  for (int64_t i = 0; i < n.count; i++) plain_set_i(&n, i, i);
  return keep(n);
}
static struct plain stepped(const struct plain *x, int axis) { return plain_slice(x, axis, x->dims[axis] - 1, (x->dims[axis] + 1) / 2, -2); }
static struct plain put_in(const struct plain *x, const struct plain *v, int axis, weft_how how) {
  return plain_put(x, keep(stepped(numbers_of(x), axis)), keep(stepped(v, axis)), how);
}
static struct plain scattered(const struct plain *x, const struct plain *v, weft_how how) {
  return plain_put(x, keep(taken(numbers_of(x))), keep(taken(v)), how);
}
static struct plain broadcast_of(const struct plain *x) {
  int64_t dims[PLAIN_RANK] = { 2 };
  for (int k = 0; k < x->rank; k++) dims[k + 1] = x->dims[k];
  return plain_broadcast(x, x->rank + 1, dims);
}
static weft_array *more_rows(weft_array *x) {
  int64_t dims[PLAIN_RANK] = { 2 };
  for (int k = 0; k < weft_rank(x); k++) dims[k + 1] = WEFT_SAME;
  return weft_broadcast(x, weft_rank(x) + 1, dims);
}
#define PART(x, axis) weft_slice(x, axis, -1, WEFT_BEGIN, -2)
EACH(flat, weft_reshape(x[0], WEFT_DIMS(1, WEFT_ANY)), plain_reshape(a, 2, (int64_t[]){ 1, a->count }))
EACH(turn, weft_transpose(x[0], NULL), turned(a))
EACH(slice, weft_slice(x[0], axis, 1, WEFT_END, 2), plain_slice(a, axis, 1, a->dims[axis] / 2, 2))
EACH(flip, weft_flip(x[0], axis), plain_slice(a, axis, a->dims[axis] - 1, a->dims[axis], -1))
EACH(broadcast, more_rows(x[0]), broadcast_of(a))
EACH(sum, weft_sum(x[0], axis), plain_reduce("sum", a->dtype, a, axis))
EACH(cumsum, weft_cumsum(x[0], axis), plain_prefix("cumsum", a->dtype, a, axis))
EACH(take, some(x[0]), taken(a))
EACH(concat, weft_concat(axis, WEFT_ARRAYS(x[0], x[1], x[0])), plain_concat(axis, 3, (const struct plain *[]){ a, b, a }))
EACH(pad, weft_pad(x[0], axis, 2, 1, weft_scalar(0.5)), plain_pad(a, axis, 2, 1, b))
EACH(put_set, weft_put(x[0], PART(x[0], axis), PART(x[1], axis), WEFT_SET), put_in(a, b, axis, WEFT_SET))
EACH(put_add, weft_put(x[0], PART(x[0], axis), PART(x[1], axis), WEFT_ADD), put_in(a, b, axis, WEFT_ADD))
EACH(scatter_set, weft_put(x[0], some(x[0]), some(x[1]), WEFT_SET), scattered(a, b, WEFT_SET))
EACH(scatter_add, weft_put(x[0], some(x[0]), some(x[1]), WEFT_ADD), scattered(a, b, WEFT_ADD))
EACH(alias, weft_alias(x[0]), plain_cast(a, a->dtype))
EACH(depends, weft_depends(x[0], 1, x + 1), plain_cast(a, a->dtype))

static struct pair want_padded(const struct pair x[], int axis) { /* the number is 0.5 + 0i */
  return want_pad((struct pair[]){ x[0], { number(A, 0.5), number(A, 0) } }, axis);
}
MAKE(put_mul, weft_put(x[0], PART(x[0], axis), PART(x[1], axis), WEFT_MUL)) WANT(put_mul) {
  struct pair part[] = { { keep(stepped(A, axis)), keep(stepped(B, axis)) }, { keep(stepped(C, axis)), keep(stepped(D_, axis)) } };
  struct pair m = want_mul(part, axis);
  const struct plain *at = keep(stepped(numbers_of(A), axis));
  return (struct pair){ keep(plain_put(A, at, m.re, WEFT_SET)), keep(plain_put(B, at, m.im, WEFT_SET)) };
}
MAKE(scatter_mul, weft_put(x[0], some(x[0]), some(x[1]), WEFT_MUL)) WANT(scatter_mul) { /* one row after the other */
  struct pair y = x[0];
  for (int k = 0; k < 4; k++) {
    int64_t row = (int[]){ -1, 0, -2, -1 }[k];
    row += row < 0 ? A->dims[0] : 0;
    const struct plain *at = keep(plain_slice(numbers_of(A), 0, row, 1, 1));
    struct pair of[] = { { keep(plain_slice(y.re, 0, row, 1, 1)), keep(plain_slice(y.im, 0, row, 1, 1)) },
                         { keep(plain_slice(C, 0, row, 1, 1)), keep(plain_slice(D_, 0, row, 1, 1)) } };
    struct pair m = want_mul(of, axis);
    y = (struct pair){ keep(plain_put(y.re, at, m.re, WEFT_SET)), keep(plain_put(y.im, at, m.im, WEFT_SET)) };
  }
  return y;
}
static struct pair running(const struct pair x[], int axis, bool is_all) {
  int64_t dims[PLAIN_RANK];
  memcpy(dims, A->dims, sizeof dims);
  dims[axis] = 1;
  struct pair one = { keep(plain_broadcast(number(A, 1), A->rank, dims)), keep(plain_broadcast(number(A, 0), A->rank, dims)) }, y = one;
  const struct plain *re[64], *im[64];
  for (int64_t i = 0; i < A->dims[axis] && i < 64; i++) {
    y = want_mul((struct pair[]){ y, { keep(plain_slice(A, axis, i, 1, 1)), keep(plain_slice(B, axis, i, 1, 1)) } }, axis);
    re[i] = y.re, im[i] = y.im;
  }
  if (!is_all) return y;
  if (!A->dims[axis]) return x[0];
  return (struct pair){ keep(plain_concat(axis, (int)A->dims[axis], re)), keep(plain_concat(axis, (int)A->dims[axis], im)) };
}
MAKE(prod, weft_prod(x[0], axis)) WANT(prod) { return running(x, axis, false); }
MAKE(cumprod, weft_cumprod(x[0], axis)) WANT(cumprod) { return running(x, axis, true); }
MAKE(matmul, weft_matmul(x[0], weft_moveaxis(x[1], -1, -2))) WANT(matmul) {
  int axes[PLAIN_RANK];
  for (int k = 0; k < A->rank; k++) axes[k] = k;
  axes[A->rank - 1] = A->rank - 2, axes[A->rank - 2] = A->rank - 1;
  const struct plain *c = keep(plain_transpose(C, axes)), *d = keep(plain_transpose(D_, axes));
#define PRODUCT(a, b) keep(plain_matmul(a, b, A->dtype))
  return (void)axis, (struct pair){ real("sub", 2, PRODUCT(A, c), PRODUCT(B, d)), real("add", 2, PRODUCT(A, d), PRODUCT(B, c)) };
}
MAKE(iota, weft_iota(x[0], axis)) WANT(iota) {
  return (struct pair){ keep(plain_iota(A->dtype, A->rank, A->dims, axis)), keep(plain_new(A->dtype, A->rank, A->dims)) };
}
MAKE(all, weft_all(x[0], axis)) WANT(all) { return (struct pair){ keep(plain_reduce("all", WEFT_BOOL, want_to_bool(x, axis).re, axis)), NULL }; }
MAKE(any, weft_any(x[0], axis)) WANT(any) { return (struct pair){ keep(plain_reduce("any", WEFT_BOOL, want_to_bool(x, axis).re, axis)), NULL }; }

static const struct call calls[] = {
#define E(n, axes, name) { #name, n, axes, make_##name, want_##name },
  E(1, 0, neg) E(1, 0, conj) E(1, 0, real) E(1, 0, imag) E(2, 0, complex) E(2, 0, add) E(2, 0, sub) E(2, 0, mul) E(2, 0, fma) E(2, 0, div)
  E(2, 0, eq) E(2, 0, ne) E(1, 0, isnan) E(2, 0, where) E(1, 0, to_bool) E(1, 0, to_i32) E(1, 0, to_c64) E(1, 0, to_c128)
  E(1, 0, flat) E(1, 0, turn) E(1, 1, slice) E(1, 1, flip) E(1, 0, broadcast) E(1, 1, sum) E(1, 1, cumsum) E(1, 2, take) E(2, 1, concat)
  { "pad", 1, 1, make_pad, want_padded }, E(2, 1, put_set) E(2, 1, put_add) E(2, 2, scatter_set) E(2, 2, scatter_add) E(2, 1, put_mul)
  E(2, 2, scatter_mul) E(1, 1, prod) E(1, 1, cumprod) E(2, 3, matmul) E(1, 1, iota) E(1, 1, all) E(1, 1, any) E(1, 0, alias) E(2, 0, depends)
#undef E
};
static const struct { int rank; int64_t dims[3]; } shapes[] = {
  { 2, { 3, 5 } }, { 0, { 0 } }, { 1, { 1 } }, { 2, { 0, 4 } }, { 3, { 2, 3, 4 } }, { 1, { 45 } }, { 2, { 19, 33 } }, { 2, { 1, 7 } }
};

static bool fits(const struct call *c, int shape) {
  int rank = shapes[shape].rank;
  return c->axes == 0 || (c->axes == 1 && rank) || (c->axes == 2 && rank && shapes[shape].dims[0] > 1) || (c->axes == 3 && rank > 1);
}

/* The two parts as elements of a complex array. */
static struct plain joined(struct pair p) {
  int64_t dims[PLAIN_RANK];
  if (!p.im) return plain_cast(p.re, p.re->dtype);
  memcpy(dims, p.re->dims, sizeof dims);
  dims[p.re->rank] = 2;
  struct plain y = plain_new(p.re->dtype, p.re->rank + 1, dims);
  for (int64_t i = 0; i < p.re->count; i++) plain_set_f(&y, 2 * i, plain_f(p.re, i)), plain_set_f(&y, 2 * i + 1, plain_f(p.im, i));
  return y;
}

static void check_one(const struct call *c, weft_dtype t, enum layout how, bool is_special, int shape, int axis, const char *way) {
  struct operand in[2] = { 0 };
  struct pair x[2];
  weft_array *a[2];
  weft_scope *s = weft_scope_open();
  for (int k = 0; k < 2; k++) {
    lay_out(&in[k], t, shapes[shape].rank, shapes[shape].dims, k == 1 && how == TURNED ? DENSE : how, is_special);
    a[k] = in[k].array;
    x[k] = (struct pair){ &in[k].part[0], &in[k].part[1] };
  }
  weft_array *y = c->make(a, axis);
  struct pair p = c->want(x, axis);
  struct plain want = joined(p), got = plain_new(want.dtype, want.rank, want.dims);
  weft_dtype out = !p.im ? want.dtype : want.dtype == WEFT_F32 ? WEFT_C64 : WEFT_C128;
  bool ok = weft_rank(y) == p.re->rank && !weft_read(y, out, got.data, (size_t)want.count * weft_dtype_bytes(want.dtype));
  int64_t at = ok ? plain_differs(&want, got.data) : -1;
  if (!ok || at >= 0)
    test_fail(__FILE__, __LINE__, "weft_%s of %s, layout %d, shape %d, axis %d, %s: %s%s%s", c->name, weft_dtype_name(t), (int)how, shape, axis,
              way, ok ? plain_text(&got, at) : weft_message(), ok ? ", not " : "", ok ? plain_text(&want, at) : "");
  plain_free(&want), plain_free(&got);
  forget();
  weft_scope_discard(s);
  for (int k = 0; k < 2; k++) plain_free(&in[k].part[0]), plain_free(&in[k].part[1]), free(in[k].memory);
}

static void check_way(int way) {
  test_watchdog(300);
  way_take(&ways[way]);
  state = 1;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int t = WEFT_C64; t <= WEFT_C128; t++)
      for (int how = 0; how <= LAYOUTS; how++)
        for (int shape = 0; shape < (int)(sizeof shapes / sizeof *shapes); shape++)
          for (int axis = 0; axis < (calls[i].axes == 1 ? shapes[shape].rank : 1); axis++)
            if (fits(&calls[i], shape))
              check_one(&calls[i], (weft_dtype)t, how == LAYOUTS ? DENSE : (enum layout)how, how == LAYOUTS, shape, axis, ways[way].name);
  plain_end();
  way_leave();
}

TEST(every_op_on_complex_numbers_in_every_layout_fused_on_x86) { check_way(0); }
TEST(every_op_on_complex_numbers_in_every_layout_fused_on_the_vm) { check_way(1); }
TEST(every_op_on_complex_numbers_in_every_layout_alone_on_x86) { check_way(3); }
