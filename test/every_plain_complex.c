/* every_plain_complex.c -- complex arrays in plain C: pairs of real ones, and what every operation does to the parts. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "every_plain.h"

bool plain_is_complex(weft_dtype t) { return t == WEFT_C64 || t == WEFT_C128; }
weft_dtype plain_part_dtype(weft_dtype t) { return t == WEFT_C64 ? WEFT_F32 : t == WEFT_C128 ? WEFT_F64 : t; }

struct plain plain_parts(const struct plain *x) {
  struct plain p = { .dtype = plain_part_dtype(x->dtype), .data = x->data, .count = x->count * (plain_is_complex(x->dtype) ? 2 : 1) };
  return p;
}

struct plain plain_part(const struct plain *x, int k) {
  struct plain y = plain_new(plain_part_dtype(x->dtype), x->rank, x->dims);
  int64_t size = (int64_t)weft_dtype_bytes(y.dtype), n = plain_is_complex(x->dtype) ? 2 : 1;
  for (int64_t i = 0; k < n && i < x->count; i++) memcpy(y.data + i * size, x->data + (n * i + k) * size, (size_t)size);
  return y;
}

struct plain plain_pair(const struct plain *re, const struct plain *im) {
  struct plain y = plain_new(re->dtype == WEFT_F32 ? WEFT_C64 : WEFT_C128, re->rank, re->dims);
  int64_t size = (int64_t)weft_dtype_bytes(re->dtype);
  for (int64_t i = 0; i < y.count; i++) {
    memcpy(y.data + 2 * i * size, re->data + i * size, (size_t)size);
    memcpy(y.data + (2 * i + 1) * size, im->data + i * size, (size_t)size);
  }
  return y;
}

/* ---- formulas on parts: their steps are kept until the whole is done ---- */

struct pair { const struct plain *re, *im; };

static struct plain **kept;
static int n_kept, kept_room;

static const struct plain *keep(struct plain p) {
  if (n_kept == kept_room && !(kept = realloc(kept, sizeof *kept * (size_t)(kept_room = 2 * kept_room + 64)))) abort();
  if (!(kept[n_kept] = malloc(sizeof p))) abort();
  *kept[n_kept] = p;
  return kept[n_kept++];
}

/* The result, and nothing of what was kept since. */
static struct plain ended(int since, struct plain y) {
  while (n_kept > since) plain_free(kept[--n_kept]), free(kept[n_kept]);
  if (!n_kept) free(kept), kept = NULL, kept_room = 0;
  return y;
}

static struct pair parts(const struct plain *x) { return (struct pair){ keep(plain_part(x, 0)), keep(plain_part(x, 1)) }; }
static struct plain joined(struct pair p) { return plain_pair(p.re, p.im); }

static const struct plain *real(const char *op, int n, ...) {
  const struct plain *x[3];
  va_list a;
  va_start(a, n);
  for (int k = 0; k < n; k++) x[k] = va_arg(a, const struct plain *);
  va_end(a);
  bool is_test = !strcmp(op, "eq") || !strcmp(op, "ne") || !strcmp(op, "le") || !strcmp(op, "lt") || !strncmp(op, "is", 2);
  return keep(plain_element(op, is_test ? WEFT_BOOL : x[n - 1]->dtype, n, x));
}

static const struct plain *number(const struct plain *like, double v) {
  struct plain p = plain_new(like->dtype, 0, NULL);
  plain_set_f(&p, 0, v);
  return keep(p);
}

#define OP1(op, a) real(#op, 1, a)
#define OP2(op, a, b) real(#op, 2, a, b)
#define WHERE(c, a, b) real("where", 3, c, a, b)

static struct pair product(struct pair x, struct pair y) {
  return (struct pair){ OP2(sub, OP2(mul, x.re, y.re), OP2(mul, x.im, y.im)), OP2(add, OP2(mul, x.re, y.im), OP2(mul, x.im, y.re)) };
}

static struct pair sum(struct pair x, struct pair y) { return (struct pair){ OP2(add, x.re, y.re), OP2(add, x.im, y.im) }; }

static struct pair quotient(struct pair x, struct pair y) { /* by the ratio of the parts of the divisor */
  const struct plain *p = OP2(le, OP1(abs, y.im), OP1(abs, y.re)), *zero = number(x.re, 0);
  const struct plain *large = WHERE(p, y.re, y.im), *small = WHERE(p, y.im, y.re), *a = WHERE(p, x.re, x.im), *b = WHERE(p, x.im, x.re);
  const struct plain *r = WHERE(OP2(eq, large, zero), zero, OP2(div, small, large));
  const struct plain *by = OP2(add, large, OP2(mul, small, r)), *im = OP2(sub, b, OP2(mul, a, r));
  return (struct pair){ OP2(div, OP2(add, a, OP2(mul, b, r)), by), OP2(div, WHERE(p, im, OP1(neg, im)), by) };
}

static const struct plain *magnitude(struct pair x) { return OP2(hypot, x.re, x.im); }

static struct pair root(struct pair z) {
  bool is_wide = z.re->dtype == WEFT_F64;
#define N(wide, narrow) number(z.re, is_wide ? wide : narrow)
  const struct plain *zero = N(0, 0), *one = N(1, 1), *inf = number(z.re, __builtin_inf()), *larger = OP2(maximum, OP1(abs, z.re), OP1(abs, z.im));
  const struct plain *is_small = OP2(lt, larger, N(0x1p-900, 0x1p-100)), *is_large = OP2(lt, N(0x1p900, 0x1p100), larger);
  const struct plain *by = WHERE(is_small, N(0x1p200, 0x1p60), WHERE(is_large, N(0x1p-200, 0x1p-60), one));
  const struct plain *behind = WHERE(is_small, N(0x1p-100, 0x1p-30), WHERE(is_large, N(0x1p100, 0x1p30), one));
  const struct plain *a = OP2(mul, z.re, by), *b = OP2(mul, z.im, by), *m = magnitude((struct pair){ a, b });
  const struct plain *t = OP1(sqrt, OP2(mul, N(0.5, 0.5), OP2(add, m, OP1(abs, a)))), *u = WHERE(OP2(eq, t, zero), b, OP2(div, b, OP2(add, t, t)));
  const struct plain *is_right = OP2(le, zero, a), *is_below = OP2(or, OP2(lt, b, zero), OP2(lt, OP2(div, one, b), zero));
  const struct plain *re = WHERE(is_right, t, OP1(abs, u)), *im = WHERE(is_right, u, WHERE(is_below, OP1(neg, t), t)), *is_far = OP2(eq, OP1(abs, b), inf);
#undef N
  return (struct pair){ WHERE(is_far, inf, OP2(mul, re, behind)), WHERE(is_far, b, OP2(mul, im, behind)) };
}

static struct pair exponential(struct pair z) {
  const struct plain *e = OP1(exp, z.re);
  return (struct pair){ OP2(mul, e, OP1(cos, z.im)), WHERE(OP2(eq, z.im, number(z.re, 0)), z.im, OP2(mul, e, OP1(sin, z.im))) };
}

static struct pair logarithm(struct pair z) {
  const struct plain *a = OP1(abs, z.re), *b = OP1(abs, z.im), *half = number(a, 0.5), *one = number(a, 1), *zero = number(a, 0), *inf = number(a, __builtin_inf());
  const struct plain *m = OP2(maximum, a, b), *l = OP2(minimum, a, b);
  const struct plain *r = WHERE(OP2(le, l, zero), zero, WHERE(OP2(eq, l, m), one, OP2(div, l, m)));
  const struct plain *away = OP2(add, OP1(log, m), OP2(mul, half, OP1(log1p, OP2(mul, r, r))));
  const struct plain *near = OP2(mul, half, OP1(log1p, real("fma", 3, OP2(sub, m, one), OP2(add, m, one), OP2(mul, l, l))));
  const struct plain *re = WHERE(OP2(and, OP2(lt, half, m), OP2(lt, m, number(a, 2))), near, away);
  return (struct pair){ WHERE(OP2(or, OP2(eq, a, inf), OP2(eq, b, inf)), inf, re), OP2(atan2, z.im, z.re) };
}

/* f(a) g(b) + i h(a) k(b) */
static struct pair crossed(struct pair z, const char *f, const char *g, const char *h, const char *k, bool is_negative) {
  const struct plain *im = OP2(mul, real(h, 1, z.re), real(k, 1, z.im));
  return (struct pair){ OP2(mul, real(f, 1, z.re), real(g, 1, z.im)), is_negative ? OP1(neg, im) : im };
}

static struct pair logistic(struct pair z) {
  const struct plain *one = number(z.re, 1), *zero = number(z.re, 0), *is_left = OP2(lt, z.re, zero);
  struct pair w = exponential((struct pair){ WHERE(is_left, z.re, OP1(neg, z.re)), WHERE(is_left, z.im, OP1(neg, z.im)) });
  return quotient((struct pair){ WHERE(is_left, w.re, one), WHERE(is_left, w.im, zero) }, (struct pair){ OP2(add, one, w.re), w.im });
}

static struct pair either(const struct plain *c, struct pair a, struct pair b) {
  return (struct pair){ WHERE(c, a.re, b.re), WHERE(c, a.im, b.im) };
}

/* Whole powers below 16 by squaring. */
static struct pair power(struct pair z, struct pair w) {
  const struct plain *zero = number(z.re, 0), *one = number(z.re, 1), *nan = number(z.re, NAN), *k = OP1(abs, w.re), *left = k;
  struct pair up = { one, zero }, f = z, none = { zero, zero };
  for (int bit = 0; bit < 4; bit++, f = product(f, f)) {
    const struct plain *half = OP1(floor, OP2(mul, left, number(z.re, 0.5)));
    up = either(OP2(lt, OP2(add, half, half), left), bit ? product(up, f) : f, up);
    left = half;
  }
  up = either(OP2(lt, w.re, zero), quotient((struct pair){ one, zero }, up), up);
  const struct plain *is_real = OP2(eq, w.im, zero), *is_whole = OP2(and, is_real, OP2(and, OP2(eq, k, OP1(floor, k)), OP2(lt, k, number(z.re, 16))));
  const struct plain *is_number = OP2(and, OP2(eq, up.re, up.re), OP2(eq, up.im, up.im));
  struct pair y = either(OP2(and, is_whole, is_number), up, exponential(product(w, logarithm(z))));
  const struct plain *is_zero = OP2(and, OP2(eq, z.re, zero), OP2(eq, z.im, zero));
  const struct plain *is_up = OP2(and, OP2(lt, zero, w.re), OP2(eq, w.im, w.im));
  y = either(is_zero, either(is_up, none, (struct pair){ nan, nan }), y);
  return either(OP2(and, OP2(eq, w.re, zero), is_real), (struct pair){ one, zero }, y);
}

/* ---- operations ---- */

struct plain plain_complex_cast(const struct plain *x, weft_dtype t) {
  int since = n_kept;
  struct pair p = parts(x);
  weft_dtype part = plain_part_dtype(t);
  const struct plain *re = keep(plain_cast(p.re, part)), *im = keep(plain_cast(p.im, part));
  if (plain_is_complex(t)) return ended(since, plain_pair(re, im));
  return ended(since, t == WEFT_BOOL ? plain_element("or", t, 2, (const struct plain *[]){ re, im }) : plain_cast(re, t));
}

#define IS(name) (*op == *name && !strcmp(op, name))

bool plain_is_complex_element(const char *op, int n, const struct plain *const x[]) {
  bool is = IS("real") || IS("imag") || IS("conj");
  for (int k = 0; k < n; k++) is |= plain_is_complex(x[k]->dtype);
  return is;
}

/* Operands of one dtype, the condition of where apart. */
struct plain plain_complex_element(const char *op, weft_dtype out, int n, const struct plain *const given[]) {
  int since = n_kept, first = (IS("where") || IS("choose"));
  if (!strncmp(op, "logical", 7)) {
    const struct plain *truth[2];
    for (int k = 0; k < n; k++) truth[k] = keep(plain_cast(given[k], WEFT_BOOL));
    return ended(since, plain_element(op, out, n, truth));
  }
  weft_dtype met = given[n - 1]->dtype;
  struct pair x[3];
  for (int k = first; k < n; k++) met = weft_dtype_promote(met, given[k]->dtype);
  for (int k = first; k < n; k++) x[k] = parts(keep(plain_cast(given[k], met)));
  const struct plain *c = first ? keep(plain_cast(given[0], WEFT_BOOL)) : NULL;
  struct pair y = { NULL, NULL };
  if (IS("neg")) y = (struct pair){ OP1(neg, x[0].re), OP1(neg, x[0].im) };
  else if (IS("conj")) y = (struct pair){ x[0].re, plain_is_complex(met) ? OP1(neg, x[0].im) : NULL };
  else if (IS("real")) y.re = x[0].re;
  else if (IS("imag")) y.re = x[0].im;
  else if (IS("abs")) y.re = magnitude(x[0]);
  else if (IS("add")) y = sum(x[0], x[1]);
  else if (IS("sub")) y = (struct pair){ OP2(sub, x[0].re, x[1].re), OP2(sub, x[0].im, x[1].im) };
  else if (IS("mul")) y = product(x[0], x[1]);
  else if (IS("fma")) y = sum(product(x[0], x[1]), x[2]);
  else if (IS("exp")) y = exponential(x[0]);
  else if (IS("log")) y = logarithm(x[0]);
  else if (IS("sin")) y = crossed(x[0], "sin", "cosh", "cos", "sinh", false);
  else if (IS("cos")) y = crossed(x[0], "cos", "cosh", "sin", "sinh", true);
  else if (IS("sinh")) y = crossed(x[0], "sinh", "cos", "cosh", "sin", false);
  else if (IS("cosh")) y = crossed(x[0], "cosh", "cos", "sinh", "sin", false);
  else if (IS("sigmoid")) y = logistic(x[0]);
  else if (IS("pow")) y = power(x[0], x[1]);
  else if (IS("tanh") || IS("tan")) {
    const struct plain *t = real(op, 1, x[0].re), *u = real(IS("tan") ? "tanh" : "tan", 1, x[0].im), *both = OP2(mul, t, u);
    y = quotient((struct pair){ t, u }, (struct pair){ number(t, 1), IS("tan") ? OP1(neg, both) : both });
  }
  else if (IS("sqrt")) y = root(x[0]);
  else if (IS("rsqrt")) y = quotient((struct pair){ number(x[0].re, 1), number(x[0].re, 0) }, root(x[0]));
  else if (IS("div")) y = quotient(x[0], x[1]);
  else if (IS("eq")) y.re = OP2(and, OP2(eq, x[0].re, x[1].re), OP2(eq, x[0].im, x[1].im));
  else if (IS("ne")) y.re = OP2(or, OP2(ne, x[0].re, x[1].re), OP2(ne, x[0].im, x[1].im));
  else if (IS("isinf")) y.re = OP2(or, OP1(isinf, x[0].re), OP1(isinf, x[0].im));
  else if (IS("isfinite")) y.re = OP2(and, OP1(isfinite, x[0].re), OP1(isfinite, x[0].im));
  else if (IS("square")) y = product(x[0], x[0]);
  else if (IS("reciprocal")) y = quotient((struct pair){ number(x[0].re, 1), number(x[0].re, 0) }, x[0]);
  else if (IS("isnan")) y.re = OP2(or, OP1(isnan, x[0].re), OP1(isnan, x[0].im));
  else if ((IS("where") || IS("choose"))) y = (struct pair){ WHERE(c, x[1].re, x[2].re), WHERE(c, x[1].im, x[2].im) };
  else plain_missing = op, y.re = x[0].re;
  return ended(since, y.im ? joined(y) : plain_cast(y.re, out));
}

/* One slice after the other, from 1. */
static struct pair products(const struct plain *x, int axis, struct pair all[]) {
  int64_t dims[PLAIN_RANK];
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = 1;
  struct plain one = plain_new(x->dtype, 0, NULL);
  plain_set_f(&one, 0, 1);
  struct pair y = parts(keep(plain_broadcast(keep(one), x->rank, dims)));
  for (int64_t i = 0; i < x->dims[axis]; i++) {
    y = product(y, parts(keep(plain_slice(x, axis, i, 1, 1))));
    if (all) all[i] = y;
  }
  return y;
}

struct plain plain_complex_reduce(const char *op, weft_dtype out, const struct plain *x, int axis) {
  int since = n_kept;
  if (!plain_is_complex(out)) return ended(since, plain_reduce(op, out, keep(plain_cast(x, out)), axis));
  if (IS("prod")) return ended(since, joined(products(x, axis, NULL)));
  struct pair p = parts(x);
  return ended(since, joined((struct pair){ keep(plain_reduce(op, p.re->dtype, p.re, axis)), keep(plain_reduce(op, p.im->dtype, p.im, axis)) }));
}

struct plain plain_complex_prefix(const char *op, const struct plain *x, int axis) {
  int since = n_kept;
  struct pair p = parts(x);
  if (IS("cumsum")) return ended(since, joined((struct pair){ keep(plain_prefix(op, p.re->dtype, p.re, axis)), keep(plain_prefix(op, p.im->dtype, p.im, axis)) }));
  if (!x->count) return ended(since, plain_cast(x, x->dtype));
  struct pair *all = malloc(sizeof *all * (size_t)x->dims[axis]);
  const struct plain **slice = malloc(sizeof *slice * (size_t)x->dims[axis]);
  if (!all || !slice) abort();
  products(x, axis, all);
  for (int64_t i = 0; i < x->dims[axis]; i++) slice[i] = keep(joined(all[i]));
  struct plain y = ended(since, plain_concat(axis, (int)x->dims[axis], slice));
  free(all), free(slice);
  return y;
}

struct plain plain_complex_put(const struct plain *x, const struct plain *at, const struct plain *v, weft_how how) {
  int since = n_kept;
  if (how == WEFT_ADD) {
    struct pair p = parts(x), w = parts(v);
    return ended(since, joined((struct pair){ keep(plain_put(p.re, at, w.re, how)), keep(plain_put(p.im, at, w.im, how)) }));
  }
  struct plain y = plain_cast(x, x->dtype);
  int64_t size = (int64_t)weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < v->count; i++) {
    int inner = n_kept;
    uint8_t *to = y.data + plain_i(at, i) * size;
    struct plain a = { .dtype = x->dtype, .count = 1, .data = to }, b = { .dtype = x->dtype, .count = 1, .data = v->data + i * size };
    struct plain m = ended(inner, joined(product(parts(&a), parts(&b))));
    memcpy(to, m.data, (size_t)size);
    plain_free(&m);
  }
  return ended(since, y);
}

struct plain plain_complex_matmul(const struct plain *a, const struct plain *b) {
  int since = n_kept;
  struct pair x = parts(a), y = parts(b);
  const struct plain *p[4] = { keep(plain_matmul(x.re, y.re, x.re->dtype)), keep(plain_matmul(x.im, y.im, x.re->dtype)),
                               keep(plain_matmul(x.re, y.im, x.re->dtype)), keep(plain_matmul(x.im, y.re, x.re->dtype)) };
  return ended(since, joined((struct pair){ OP2(sub, p[0], p[1]), OP2(add, p[2], p[3]) }));
}
