/* arc.c -- inverse trigonometric functions, all as the angle of a point (b, a) of the first quadrant.
 *
 * The angle is k pi/4 + atan(t): t = a / b near the first axis, (a - b) / (a + b) in the middle, -b / a near the other one, so
 * that |t| <= tan(pi/8); atan t = t + t^3 P(t^2). Coordinates are sums of two values, and t is put right by what the quotient
 * leaves. */
#include "kernel/expansion.h"

/* x - y, exactly, whichever is larger */
static struct two difference(struct here h, int x, int y) {
  int d = sub(h, x, y), part = sub(h, d, x);
  return (struct two){ d, sub(h, sub(h, x, sub(h, d, part)), add(h, y, part)) };
}

static struct two chosen(struct here h, int cond, struct two x, struct two y) {
  return (struct two){ either(h, cond, x.high, y.high), either(h, cond, x.low, y.low) };
}

static struct two opposite(struct here h, struct two x) { return (struct two){ negative(h, x.high), negative(h, x.low) }; }

static struct two ratio(struct here h, struct two x, struct two y) {
  int over = quotient(h, number(h, 1), y.high), q = mul(h, x.high, over);
  int left = add(h, mulsub(h, q, y.high, x.high), mulsub(h, q, y.low, x.low));
  return (struct two){ q, mul(h, left, over) };
}

/* The angle of (b, a), or of (-b, a) where is_left. a, b >= 0, not both 0, neither inf. */
static int angle(struct here h, struct two a, struct two b, int is_left) {
  static const double p_f32[] = { 0x1.84cd64p-5, -0x1.5b3c16p-4, 0x1.c4666cp-4, -0x1.247ef6p-3, 0x1.99991ap-3, -0x1.555554p-2 };
  static const double p_f64[] = { -0x1.a93dd30fa7606p-7, 0x1.e51de2a44d58dp-6, -0x1.4c3021d91f5bap-5, 0x1.817b73d1e2fd8p-5,
                                  -0x1.ae892ecddc7bbp-5, 0x1.e1d2a71c5be36p-5, -0x1.11108d08977f4p-4, 0x1.3b13aafd1943dp-4,
                                  -0x1.745d1712a03d4p-4, 0x1.c71c71c60e14fp-4, -0x1.2492492490a36p-3, 0x1.999999999997p-3,
                                  -0x1.5555555555555p-2 };
  int tan_pi_8 = VALUE(h, 0x1.a8279ap-2, 0x1.a827999fcef32p-2); /* or so */
  int is_low = less(h, a.high, mul(h, b.high, tan_pi_8)), is_high = less(h, b.high, mul(h, a.high, tan_pi_8));
  struct two top = difference(h, a.high, b.high), below = difference(h, a.high, negative(h, b.high));
  top.low = add(h, top.low, sub(h, a.low, b.low));
  below.low = add(h, below.low, add(h, a.low, b.low));
  top = chosen(h, is_low, a, chosen(h, is_high, opposite(h, b), top));
  below = chosen(h, is_low, b, chosen(h, is_high, a, below));
  struct two t = ratio(h, top, below);
  int k = either(h, is_low, number(h, 0), either(h, is_high, number(h, 2), number(h, 1)));
  if (is_left) {
    t = chosen(h, is_left, opposite(h, t), t);
    k = either(h, is_left, sub(h, number(h, 4), k), k);
  }
  int z = mul(h, t.high, t.high), p = is_narrow(h) ? polynomial(h, z, 6, p_f32) : polynomial(h, z, 13, p_f64);
  struct two s = sum(h, mul(h, k, VALUE(h, 0x1.921fbp-1, 0x1.921fb54442d18p-1)), t.high);
  int low = muladd(h, k, VALUE(h, 0x1.5110b4p-23, 0x1.1a62633145c07p-55), add(h, s.low, t.low));
  return add(h, s.high, muladd(h, mul(h, t.high, z), p, low));
}

static struct two just(struct here h, int x) { return (struct two){ x, number(h, 0) }; }
static double largest(struct here h) { return is_narrow(h) ? 0x1.fffffep127 : 0x1.fffffffffffffp1023; }

int expand_atan(struct here h, const int x[]) {
  int a = op(h, KIR_MIN, size_of(h, x[0]), number(h, largest(h)));
  return with_sign(h, angle(h, just(h, a), just(h, number(h, 1)), 0), x[0]);
}

/* sqrt(1 - x^2) */
static struct two other_side(struct here h, int x) {
  struct two square = product(h, x, x), y = sum(h, number(h, 1), negative(h, square.high));
  return root_of(h, (struct two){ y.high, sub(h, y.low, square.low) }, is_narrow(h) ? 0x1p-60 : 0x1p-500);
}

int expand_asin(struct here h, const int x[]) {
  int r = angle(h, just(h, size_of(h, x[0])), other_side(h, x[0]), 0);
  return with_sign(h, r, x[0]);
}

int expand_acos(struct here h, const int x[]) {
  return angle(h, other_side(h, x[0]), just(h, size_of(h, x[0])), less(h, x[0], number(h, 0)));
}

/* Scaled away from the ends of the exponents; of infinities only which they are matters, and of (0, 0) the signs. */
int expand_atan2(struct here h, const int in[]) {
  weft_dtype whole = is_narrow(h) ? WEFT_I32 : WEFT_I64;
  int y = in[0], x = in[1], zero = number(h, 0), one = number(h, 1), inf = number(h, INFINITY);
  int a = size_of(h, y), b = size_of(h, x), most = op(h, KIR_MAX, a, b), is_inf = op(h, KIR_EQ, most, inf);
  int scale = either(h, less(h, most, VALUE(h, 0x1p-60, 0x1p-500)), VALUE(h, 0x1p60, 0x1p500), one);
  scale = either(h, less(h, VALUE(h, 0x1p120, 0x1p1016), most), VALUE(h, 0x1p-8, 0x1p-8), scale);
  int a_inf = either(h, op(h, KIR_EQ, a, inf), one, zero), b_inf = either(h, op(h, KIR_EQ, b, inf), one, zero);
  a = either(h, is_inf, a_inf, mul(h, a, scale));
  b = either(h, is_inf, b_inf, mul(h, b, scale));
  b = either(h, op(h, KIR_EQ, most, zero), one, b);
  int is_left = less(h, kir_bits(h.b, whole, x), kir_lit(h.b->k, whole, 0));
  int r = angle(h, just(h, a), just(h, b), is_left);
  return with_sign(h, either(h, op(h, KIR_EQ, most, most), r, most), y);
}
