/* complex_function.c -- functions of complex numbers in terms of functions of their parts. Branch cuts are those of C: of the
 * logarithm along the negative real axis, whose lower side is where the imaginary part is -0. */
#include "op/complex.h"
#include "op/parts.h"

extern const struct op op_exp, op_log, op_log1p, op_sin, op_cos, op_tan, op_sinh, op_cosh, op_tanh, op_atan2, op_floor;

static struct parts times(struct splitting *s, const struct node *n, struct parts a, struct parts b) {
  return parts_mul(s, n, (struct parts[]){ a, b });
}
static struct parts over(struct splitting *s, const struct node *n, struct parts a, struct parts b) {
  return parts_div(s, n, (struct parts[]){ a, b });
}

/* e^(a + ib) = e^a cos b + i e^a sin b; real on the real axis, for inf 0 is not 0. */
RULE(exp) {
  struct node *b = in[0].im, *e = REAL(exp, in[0].re);
  return (struct parts){ REAL(mul, e, REAL(cos, b)), REAL(where, BOOL(eq, b, NUMBER(0)), b, REAL(mul, e, REAL(sin, b))) };
}

/* log |z| + i angle. With l <= m the magnitudes of the parts, log |z| = log m + log1p((l/m)^2) / 2, or, near the unit circle,
 * where these cancel, log1p((m - 1)(m + 1) + l^2) / 2. */
RULE(log) {
  struct node *a = REAL(abs, in[0].re), *b = REAL(abs, in[0].im), *half = NUMBER(0.5), *one = NUMBER(1);
  struct node *m = REAL(maximum, a, b), *l = REAL(minimum, a, b), *ratio = REAL(div, l, m);
  struct node *r = REAL(where, BOOL(le, l, NUMBER(0)), NUMBER(0), REAL(where, BOOL(eq, l, m), one, ratio)); /* inf, inf: 1 */
  struct node *far = REAL(add, REAL(log, m), REAL(mul, half, REAL(log1p, REAL(mul, r, r))));
  struct node *near = REAL(mul, half, REAL(log1p, REAL(fma, REAL(sub, m, one), REAL(add, m, one), REAL(mul, l, l))));
  struct node *is_near = BOOL(and, BOOL(lt, half, m), BOOL(lt, m, NUMBER(2)));
  struct node *infinity = NUMBER(__builtin_inf()), *is_far = BOOL(or, BOOL(eq, a, infinity), BOOL(eq, b, infinity));
  return (struct parts){ REAL(where, is_far, infinity, REAL(where, is_near, near, far)), REAL(atan2, in[0].im, in[0].re) };
}

RULE(sin) {
  struct node *a = in[0].re, *b = in[0].im;
  return (struct parts){ REAL(mul, REAL(sin, a), REAL(cosh, b)), REAL(mul, REAL(cos, a), REAL(sinh, b)) };
}
RULE(cos) {
  struct node *a = in[0].re, *b = in[0].im;
  return (struct parts){ REAL(mul, REAL(cos, a), REAL(cosh, b)), REAL(neg, REAL(mul, REAL(sin, a), REAL(sinh, b))) };
}
RULE(sinh) {
  struct node *a = in[0].re, *b = in[0].im;
  return (struct parts){ REAL(mul, REAL(sinh, a), REAL(cos, b)), REAL(mul, REAL(cosh, a), REAL(sin, b)) };
}
RULE(cosh) {
  struct node *a = in[0].re, *b = in[0].im;
  return (struct parts){ REAL(mul, REAL(cosh, a), REAL(cos, b)), REAL(mul, REAL(sinh, a), REAL(sin, b)) };
}

/* tanh(a + ib) = (t + iu) / (1 + itu) with t = tanh a, u = tan b: nothing overflows. */
RULE(tanh) {
  struct node *t = REAL(tanh, in[0].re), *u = REAL(tan, in[0].im);
  return over(s, n, (struct parts){ t, u }, (struct parts){ NUMBER(1), REAL(mul, t, u) });
}
RULE(tan) {
  struct node *u = REAL(tan, in[0].re), *t = REAL(tanh, in[0].im);
  return over(s, n, (struct parts){ u, t }, (struct parts){ NUMBER(1), REAL(neg, REAL(mul, u, t)) });
}

/* w / (1 + w) with w = e^z where a < 0, else 1 / (1 + w) with w = e^-z: w does not overflow. */
RULE(sigmoid) {
  struct node *is_left = BOOL(lt, in[0].re, NUMBER(0)), *one = NUMBER(1), *zero = NUMBER(0);
  struct parts down = { REAL(where, is_left, in[0].re, REAL(neg, in[0].re)), REAL(where, is_left, in[0].im, REAL(neg, in[0].im)) };
  struct parts w = parts_exp(s, n, &down);
  struct parts top = { REAL(where, is_left, w.re, one), REAL(where, is_left, w.im, zero) };
  return over(s, n, top, (struct parts){ REAL(add, one, w.re), w.im });
}

static struct parts where(struct splitting *s, const struct node *n, struct node *c, struct parts a, struct parts b) {
  return (struct parts){ REAL(where, c, a.re, b.re), REAL(where, c, a.im, b.im) };
}

/* z^k by squaring, for whole k of 0 .. 15: z^(1, 2, 4, 8) where k has the bit. */
static struct parts whole_power(struct splitting *s, const struct node *n, struct parts z, struct node *k) {
  struct parts y = { NUMBER(1), NUMBER(0) };
  for (int bit = 0; bit < 4; bit++) {
    struct node *half = REAL(floor, REAL(mul, k, NUMBER(0.5))), *is_odd = BOOL(lt, REAL(add, half, half), k);
    y = where(s, n, is_odd, bit ? times(s, n, y, z) : z, y);
    if (bit < 3) z = times(s, n, z, z);
    k = half;
  }
  return y;
}

/* z^w = e^(w log z), and products for small whole w, which are as exact as they can be: (1 + i)^2 is 2i. z^0 = 1; 0^w = 0
 * where Re w > 0, else nan. */
RULE(pow) {
  struct node *zero = NUMBER(0), *one = NUMBER(1), *nan = NUMBER(__builtin_nan(""));
  struct parts z = in[0], w = in[1], root = parts_log(s, n, &z), exponent = times(s, n, w, root), y = parts_exp(s, n, &exponent);
  struct node *k = REAL(abs, w.re), *is_real = BOOL(eq, w.im, zero);
  struct node *is_whole = BOOL(and, BOOL(and, is_real, BOOL(eq, k, REAL(floor, k))), BOOL(lt, k, NUMBER(16)));
  struct parts up = whole_power(s, n, z, k), down = over(s, n, (struct parts){ one, zero }, up);
  up = where(s, n, BOOL(lt, w.re, zero), down, up);
  struct node *is_number = BOOL(and, BOOL(eq, up.re, up.re), BOOL(eq, up.im, up.im)); /* what inf 0 is the logarithm knows */
  y = where(s, n, BOOL(and, is_whole, is_number), up, y);
  struct node *is_zero = BOOL(and, BOOL(eq, z.re, zero), BOOL(eq, z.im, zero)),
              *is_flat = BOOL(and, BOOL(eq, w.re, zero), is_real), *is_up = BOOL(and, BOOL(lt, zero, w.re), BOOL(eq, w.im, w.im));
  y = where(s, n, is_zero, where(s, n, is_up, (struct parts){ zero, zero }, (struct parts){ nan, nan }), y);
  return where(s, n, is_flat, (struct parts){ one, zero }, y);
}
