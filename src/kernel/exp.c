/* exp.c -- e^x, 2^x, e^x - 1 and the hyperbolic functions. x = n ln 2 + f, |f| <= ln 2 / 2, e^f = 1 + f + f^2 q(f). */
#include "kernel/expansion.h"

struct exp_constants {
  double low, high;         /* beyond these the result is 0, and 2^n so small that it need not be looked at, or inf */
  double magic;             /* 1.5 * 2^(bits of the fraction): adding it rounds to an integer, kept in the low bits */
  double ln2_high, ln2_low; /* n * ln2_high is exact */
  double log2_e, ln2, ln2_rest;
  int fraction, bias, n_q;
  double q[11];
};

static const struct exp_constants exp_f32 = {
  -128, 89, 0x1.8p23, 0x1.62e4p-1, 0x1.7f7d1cp-20, 0x1.715476p0, 0x1.62e43p-1, -0x1.05c61p-29, 23, 127, 5,
  { 0x1.6d127ep-10, 0x1.120ce4p-7, 0x1.555518p-5, 0x1.5554dcp-3, 0.5 } };
static const struct exp_constants exp_f64 = {
  -772, 710, 0x1.8p52, 0x1.62e42fefa3p-1, 0x1.3de6af278ece6p-42, 0x1.71547652b82fep0, 0x1.62e42fefa39efp-1,
  0x1.abc9e3b39803fp-56, 52, 1023, 11,
  { 0x1.1f7340dbc337ep-29, 0x1.af4e554377204p-26, 0x1.27e4db46cddd1p-22, 0x1.71de01fdbf9cap-19, 0x1.a01a01a6e1e2ap-16,
    0x1.a01a01abf85abp-13, 0x1.6c16c16c162c3p-10, 0x1.11111111100bep-7, 0x1.5555555555556p-5, 0x1.5555555555557p-3, 0.5 } };

static const struct exp_constants *constants(struct here h) { return is_narrow(h) ? &exp_f32 : &exp_f64; }

static int clamped(struct here h, int x, double low, double high) {
  return op(h, KIR_MAX, op(h, KIR_MIN, x, number(h, high)), number(h, low));
}

static int q_of(struct here h, int f) { return polynomial(h, f, constants(h)->n_q, constants(h)->q); }

int whole_of(struct here h, int x, double times, int bias, int *t) {
  int magic = number(h, constants(h)->magic + bias);
  *t = times == 1 ? add(h, x, magic) : muladd(h, x, number(h, times), magic);
  return sub(h, *t, magic);
}

/* x - n ln 2 */
static int rest(struct here h, int x, int n) {
  const struct exp_constants *c = constants(h);
  return muladd(h, n, number(h, -c->ln2_low), muladd(h, n, number(h, -c->ln2_high), x));
}

static struct two exact_rest(struct here h, int x, int n) {
  const struct exp_constants *c = constants(h);
  int low = number(h, -c->ln2_low), r = muladd(h, n, number(h, -c->ln2_high), x), f = muladd(h, n, low, r);
  return (struct two){ f, muladd(h, n, low, sub(h, r, f)) };
}

int scale_of(struct here h, int biased) {
  return as_float(h, op(h, KIR_SHL, biased, integer(h, (uint64_t)constants(h)->fraction)));
}

/* The low bits of t hold n + 2 bias, whose halves are the biased exponents of two scales whose product is 2^n, for n beyond
 * the exponents of the dtype. */
static void scales(struct here h, int t, int *a, int *b) {
  int n = as_bits(h, t), half = op(h, KIR_SHR, n, integer(h, 1));
  *a = scale_of(h, half);
  *b = scale_of(h, sub(h, n, half));
}

int expand_exp(struct here h, const int x[]) {
  const struct exp_constants *c = constants(h);
  int t, one = number(h, 1), in = clamped(h, x[0], c->low, c->high);
  int f = rest(h, in, whole_of(h, in, c->log2_e, 2 * c->bias, &t));
  return op(h, KIR_SCALE, muladd(h, muladd(h, q_of(h, f), f, one), f, one), t);
}

int expand_exp2(struct here h, const int x[]) {
  const struct exp_constants *c = constants(h);
  int t, in = is_narrow(h) ? clamped(h, x[0], -185, 129) : clamped(h, x[0], -1113, 1025), ln2 = number(h, c->ln2);
  int f = sub(h, in, whole_of(h, in, 1, 2 * c->bias, &t));
  struct two p = product(h, f, ln2);
  int low = muladd(h, f, number(h, c->ln2_rest), p.low), high = p.high;
  int tail = muladd(h, mul(h, high, high), q_of(h, high), low);
  return op(h, KIR_SCALE, add(h, add(h, tail, high), number(h, 1)), t);
}

/* 1 + f + f^2 q, and what is missing in f and x times that */
struct two exp_of(struct here h, struct two x, int *scale_a, int *scale_b) {
  const struct exp_constants *c = constants(h);
  int t, in = clamped(h, x.high, c->low, c->high), n = whole_of(h, in, c->log2_e, 2 * c->bias, &t);
  struct two f = exact_rest(h, in, n), one = sum(h, number(h, 1), f.high);
  int tail = mul(h, mul(h, f.high, f.high), q_of(h, f.high)), missing = add(h, f.low, x.low);
  struct two y = sum(h, one.high, tail);
  scales(h, t, scale_a, scale_b);
  return (struct two){ y.high, muladd(h, missing, y.high, add(h, one.low, y.low)) };
}

/* ---- part (e^x - 1) = (s - part) + s (f + f^2 / 2 + f^3 r), s = part 2^n, part = 1/2 or 1/4: no overflow too early ------- */

static struct two part_of_expm1(struct here h, int x, double part) {
  static const double r_f32[] = { 0x1.a1b98cp-13, 0x1.6d98cap-10, 0x1.11107cp-7, 0x1.55547ep-5, 0x1.555556p-3 };
  const struct exp_constants *c = constants(h);
  int t, less_one = number(h, part), n = whole_of(h, x, c->log2_e, c->bias - (part < 0.5 ? 2 : 1), &t);
  int s = scale_of(h, as_bits(h, t));
  struct two f = exact_rest(h, x, n), half = product(h, mul(h, f.high, number(h, 0.5)), f.high);
  int cube = mul(h, mul(h, f.high, f.high), f.high);
  int r = is_narrow(h) ? polynomial(h, f.high, 5, r_f32) : polynomial(h, f.high, c->n_q - 1, c->q);
  int tail = muladd(h, cube, r, add(h, half.low, f.low));
  int a = sub(h, s, less_one), lost = sub(h, sub(h, s, a), less_one);
  struct two y = sum(h, a, mul(h, s, f.high)), z = sum(h, y.high, mul(h, s, half.high));
  return sum(h, z.high, muladd(h, s, tail, add(h, add(h, y.low, z.low), lost)));
}

/* There the function is x. */
static int or_itself(struct here h, int x, int y) { return either(h, less(h, size_of(h, x), VALUE(h, 0x1p-26, 0x1p-55)), x, y); }

int expand_expm1(struct here h, const int x[]) {
  int in = is_narrow(h) ? clamped(h, x[0], -20, 89) : clamped(h, x[0], -40, 710);
  int e = part_of_expm1(h, in, 0.5).high;
  return or_itself(h, x[0], add(h, e, e));
}

/* sinh |x| / 2 = e + e / (4 e + 1), cosh x / 2 = d + 1 / (16 d) with e = (e^|x| - 1) / 4, d = e + 1/4 */
static struct two quarter_of_size(struct here h, int x) {
  return part_of_expm1(h, op(h, KIR_MIN, size_of(h, x), VALUE(h, 89.5, 710.6)), 0.25);
}

int expand_sinh(struct here h, const int x[]) {
  struct two e = quarter_of_size(h, x[0]);
  int more = quotient(h, e.high, muladd(h, e.high, number(h, 4), number(h, 1)));
  more = either(h, less(h, e.high, number(h, 0x1p60)), add(h, more, e.low), number(h, 0));
  int r = add(h, e.high, more);
  return or_itself(h, x[0], with_sign(h, add(h, r, r), x[0]));
}

int expand_cosh(struct here h, const int x[]) {
  int d = add(h, quarter_of_size(h, x[0]).high, number(h, 0.25)), r = add(h, d, quotient(h, number(h, 0.0625), d));
  return add(h, r, r);
}

/* ---- tanh |x| = e / (e + 1) with e = (e^(2|x|) - 1) / 2 = 2^(n-1) p + (2^(n-1) - 1/2), p = f + f^2 q(f) ----------------
 * Where e is small, e - e r with r = e / (e + 1) is closer: the rounding of e + 1 counts little. */
static int tanh_f32(struct here h, int x) {
  const struct exp_constants *c = constants(h);
  int t, size = op(h, KIR_MIN, size_of(h, x), number(h, 10)); /* there it is 1 */
  int twice = add(h, size, size), f = rest(h, twice, whole_of(h, twice, c->log2_e, c->bias - 1, &t));
  int p = muladd(h, mul(h, f, f), q_of(h, f), f), s = scale_of(h, as_bits(h, t));
  int e = muladd(h, s, p, sub(h, s, number(h, 0.5))), r = quotient(h, e, add(h, e, number(h, 1)));
  r = either(h, less(h, e, number(h, 0.375)), muladd(h, negative(h, e), r, e), r);
  return with_sign(h, r, x);
}

/* tanh x = y / (1 + y), y = (e^2x - 1) / 2 as a sum of two numbers; the quotient is put right by the remainder it leaves. */
static int tanh_f64(struct here h, int x) {
  int size = op(h, KIR_MIN, size_of(h, x), number(h, 20));
  struct two y = part_of_expm1(h, add(h, size, size), 0.5), d = sum(h, number(h, 1), y.high);
  int over = quotient(h, number(h, 1), d.high), q = mul(h, y.high, over);
  int left = add(h, mulsub(h, q, d.high, y.high), mulsub(h, q, add(h, d.low, y.low), y.low));
  return or_itself(h, x, with_sign(h, muladd(h, left, over, q), x));
}

int expand_tanh(struct here h, const int x[]) { return is_narrow(h) ? tanh_f32(h, x[0]) : tanh_f64(h, x[0]); }

/* ---- sigmoid = 1 / (1 + e^-x) = u / (u + u e^-x), e^-x = 2^n (1 - g + g^2 q(-g)) ----------------------------------------
 * u is so small that u e^-x does not overflow where the result is not 0, and so large that it does where it is: the quotient of
 * what would be too small is slow. Below `low` the largest n makes the scale u 2^n infinite. */
int expand_sigmoid(struct here h, const int x[]) {
  const struct exp_constants *c = constants(h);
  double turned[11]; /* q(-g) */
  for (int i = 0; i < c->n_q; i++) turned[i] = (c->n_q - i) % 2 ? c->q[i] : -c->q[i];
  int down = is_narrow(h) ? 24 : 53, t, u = VALUE(h, 0x1p-24, 0x1p-53);
  int in = is_narrow(h) ? clamped(h, x[0], -105.3125, 20) : clamped(h, x[0], -746.5, 40);
  int n = whole_of(h, in, -c->log2_e, c->bias - down, &t), scale = scale_of(h, as_bits(h, t));
  int g = muladd(h, n, number(h, c->ln2_low), muladd(h, n, number(h, c->ln2_high), in));
  int p = muladd(h, muladd(h, polynomial(h, g, c->n_q, turned), g, number(h, -1)), g, number(h, 1));
  return quotient(h, u, muladd(h, p, scale, u));
}
