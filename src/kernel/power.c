/* power.c -- x^y, sqrt(x^2 + y^2), 1 / sqrt x. Powers and hypotenuses of f32 are computed in f64. */
#include "kernel/expansion.h"

/* ---- log x of a positive x to 65 bits -----------------------------------------------------------------------------------
 * With s = m / (2 + m) and z = s^2, log(1 + m) = 2 s + s z (2/3 + z R(z)), everything but R in sums of two values. */

static struct two times(struct here h, struct two x, struct two y) {
  struct two p = product(h, x.high, y.high);
  p.low = add(h, p.low, muladd(h, x.high, y.low, mul(h, x.low, y.high)));
  return p;
}

static struct two long_log_1m(struct here h, int m) {
  static const double r_of[] = { 0x1.eb3155204f864p-4, 0x1.de2f9346fabfep-4, 0x1.1120cdfdaca61p-3, 0x1.3b13621404f6bp-3,
                                 0x1.745d1834b2676p-3, 0x1.c71c71c57b759p-3, 0x1.249249249305ep-2, 0x1.9999999999995p-2 };
  struct two d = sum(h, number(h, 2), m);
  int over = quotient(h, number(h, 1), d.high), q = mul(h, m, over);
  int left = mulsub(h, q, d.low, mulsub(h, q, d.high, m));
  struct two s = sum(h, q, mul(h, left, over)), z = times(h, s, s);
  struct two v = sum(h, number(h, 0x1.5555555555555p-1), mul(h, z.high, polynomial(h, z.high, 8, r_of)));
  v.low = add(h, v.low, number(h, 0x1.5555555555555p-55));
  struct two u = times(h, s, times(h, z, v)), y = sum(h, add(h, s.high, s.high), u.high);
  return (struct two){ y.high, add(h, y.low, muladd(h, s.low, number(h, 2), u.low)) };
}

struct two long_log(struct here h, int x) {
  int k, is_tiny = less(h, x, number(h, 0x1p-1022)), in = either(h, is_tiny, mul(h, x, number(h, 0x1p54)), x);
  int m = log_split(h, in, &k);
  k = sub(h, k, either(h, is_tiny, number(h, 54), number(h, 0)));
  struct two l = long_log_1m(h, m), s = sum(h, mul(h, k, number(h, 0x1.62e42fefa38p-1)), l.high);
  int low = add(h, s.low, muladd(h, k, number(h, 0x1.ef35793c7673p-45), l.low));
  return sum(h, s.high, low);
}

/* |x|^y in f64, x neither 0 nor inf. */
static int power_f64(struct here h, int x, int y) {
  int a, b;
  struct two l = long_log(h, x), p = product(h, y, l.high);
  int low = muladd(h, y, l.low, p.low);
  low = either(h, less(h, size_of(h, p.high), number(h, 0x1p11)), low, number(h, 0));
  struct two e = exp_of(h, (struct two){ p.high, low }, &a, &b);
  int most = mul(h, add(h, e.high, e.low), a);
  return mul(h, most, b);
}

/* The same for an x and y that are f32: one rounding of the logarithm is enough. */
static int power_f32(struct here h, int x, int y) {
  int l = expand_log(h, &x), p = mul(h, y, l);
  return expand_exp(h, &p);
}

/* The cases of C: 1^y = x^0 = 1 even of NaN; signs of odd whole y; below 0 other y give NaN. */
static int with_cases(struct here h, int x, int y, int size, int r) {
  int zero = number(h, 0), one = number(h, 1), inf = number(h, INFINITY), is_below = less(h, y, zero);
  int half = mul(h, y, number(h, 0.5)), is_whole = op(h, KIR_EQ, kir_op1(h.b, KIR_RINT, y), y);
  int is_odd = op(h, KIR_AND, is_whole, op(h, KIR_NE, kir_op1(h.b, KIR_RINT, half), half));
  r = either(h, op(h, KIR_EQ, size, zero), either(h, is_below, inf, zero), r);
  r = either(h, op(h, KIR_EQ, size, inf), either(h, is_below, zero, inf), r);
  r = either(h, is_odd, with_sign(h, r, x), r);
  int is_negative = op(h, KIR_AND, less(h, x, zero), less(h, size, inf));
  r = either(h, op(h, KIR_AND, is_negative, kir_op1(h.b, KIR_NOT, is_whole)), number(h, NAN), r);
  int both = add(h, x, y), is_unknown = op(h, KIR_OR, op(h, KIR_NE, x, x), op(h, KIR_NE, y, y));
  r = either(h, is_unknown, both, r);
  return either(h, op(h, KIR_OR, op(h, KIR_EQ, x, one), op(h, KIR_EQ, y, zero)), one, r);
}

int expand_pow(struct here h, const int in[]) {
  struct here wide = here_in(h.b, WEFT_F64);
  int x = kir_cast(h.b, WEFT_F64, in[0]), y = kir_cast(h.b, WEFT_F64, in[1]), size = size_of(wide, x);
  int few = op(wide, KIR_MAX, op(wide, KIR_MIN, y, number(wide, 0x1p80)), number(wide, -0x1p80)); /* beyond it nothing changes */
  int r = is_narrow(h) ? power_f32(wide, size, few) : power_f64(wide, size, few);
  return kir_cast(h.b, h.f, with_cases(wide, x, y, size, r));
}

/* ---- Roots -------------------------------------------------------------------------------------------------------------- */

static int hypot_f64(struct here h, int a, int b) {
  int one = number(h, 1), is_big = less(h, number(h, 0x1p500), a), is_small = less(h, a, number(h, 0x1p-400));
  int scale = either(h, is_big, number(h, 0x1p-600), either(h, is_small, number(h, 0x1p600), one));
  int back = either(h, is_big, number(h, 0x1p600), either(h, is_small, number(h, 0x1p-600), one));
  int x = mul(h, a, scale), y = mul(h, b, scale);
  struct two xx = product(h, x, x), yy = product(h, y, y), s = sum(h, xx.high, yy.high);
  struct two r = root_of(h, (struct two){ s.high, add(h, s.low, add(h, xx.low, yy.low)) }, 0x1p-1000);
  return mul(h, add(h, r.high, r.low), back);
}

int expand_hypot(struct here h, const int in[]) {
  int x = size_of(h, in[0]), y = size_of(h, in[1]), inf = number(h, INFINITY), r;
  if (is_narrow(h)) {
    struct here wide = here_in(h.b, WEFT_F64);
    int a = kir_cast(h.b, WEFT_F64, x), b = kir_cast(h.b, WEFT_F64, y);
    r = kir_cast(h.b, WEFT_F32, root(wide, muladd(wide, a, a, mul(wide, b, b))));
  } else {
    int most = op(h, KIR_MAX, x, y), least = op(h, KIR_MIN, x, y);
    r = hypot_f64(h, most, least);
  }
  int is_inf = op(h, KIR_OR, op(h, KIR_EQ, x, inf), op(h, KIR_EQ, y, inf));
  return either(h, is_inf, inf, r);
}

/* With s = sqrt x = s' (1 - ..) and y = 1 / s, what both roundings lost is t - y^2 e / 2, t = 1 - y s, e = x - s^2. */
int expand_rsqrt(struct here h, const int in[]) {
  int x = in[0], one = number(h, 1), zero = number(h, 0), is_tiny = less(h, x, VALUE(h, 0x1p-80, 0x1p-900));
  int scaled = either(h, is_tiny, mul(h, x, VALUE(h, 0x1p80, 0x1p200)), x), s = root(h, scaled), y = quotient(h, one, s);
  int t = mulsub(h, y, s, one), e = mulsub(h, s, s, scaled);
  int lost = mulsub(h, mul(h, e, number(h, 0.5)), mul(h, y, y), t);
  int is_plain = op(h, KIR_AND, less(h, zero, x), less(h, x, number(h, INFINITY)));
  int r = either(h, is_plain, muladd(h, y, lost, y), y);
  return either(h, is_tiny, mul(h, r, VALUE(h, 0x1p40, 0x1p100)), r);
}
