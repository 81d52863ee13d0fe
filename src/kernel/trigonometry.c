/* trigonometry.c -- sin, cos and tan, for arguments of any size.
 *
 * x = n pi/2 + rest, |rest| <= pi/4. Near 0 pi/2 is a sum of three floats, and n of them are taken off x. Numbers farther away,
 * which are rare, are reduced where a lane has one: |x| 2/pi = n + f, |f| <= 1/2, modulo 4. 2/pi is a sum of five floats. Of
 * larger x, which are multiples of a large power of two, the leading bits of 2/pi give multiples of 4 only and are left out, so
 * that five floats still reach far enough behind the point: one row for every range of x. A row's products, taken modulo 4 and
 * added exactly from the largest on, leave an error far below the smallest f that any x of the dtype has. */
#include "kernel/expansion.h"

struct angle { int n; struct two rest; }; /* n pi/2 + rest; n modulo 4 in the low bits of an integer */

/* 1.5 2^23, or of f64: adding it rounds to an integer, kept in the low bits */
static double magic(struct here h) { return is_narrow(h) ? 0x1.8p23 : 0x1.8p52; }

/* ---- Near 0 ------------------------------------------------------------------------------------------------------------- */

static int is_far(struct here h, int x) { return less(h, VALUE(h, 0x1p18, 0x1p30), size_of(h, x)); }

/* pi/2 = -(half[0] + half[1] + half[2]) */
static const double *half_of(struct here h) {
  static const double f32[] = { -0x1.921fb6p0, 0x1.777a5cp-25, 0x1.ee59dap-50 };
  static const double f64[] = { -0x1.921fb54442d18p0, -0x1.1a62633145c07p-54, 0x1.f1976b7ed8fbcp-110 };
  return is_narrow(h) ? f32 : f64;
}

/* n quarter turns, as a float; the low bits of *t hold n + more */
static int quarters(struct here h, int x, int more, int *t) {
  int round = number(h, magic(h) + more), turns = muladd(h, x, VALUE(h, 0x1.45f306p-1, 0x1.45f306dc9c883p-1), round);
  int n = sub(h, turns, round);
  *t = as_bits(h, turns);
  return n;
}

/* x - n half[0] is exact, and a multiple of the last place of n half[1]. */
static struct angle near(struct here h, int x, int more) {
  const double *half = half_of(h);
  int t, n = quarters(h, x, more, &t), a = muladd(h, n, number(h, half[0]), x);
  struct two b = product(h, n, number(h, half[1])), r = sum(h, a, b.high);
  r.low = add(h, r.low, muladd(h, n, number(h, half[2]), b.low));
  return (struct angle){ t, r };
}

/* ---- Far away ----------------------------------------------------------------------------------------------------------- */

enum { PARTS = 5 };
struct pi_part { double from; double part[PARTS]; }; /* from: x is not below it; part: times 2^80 or 2^500, see small_enough */

static const struct pi_part ranges_f32[] = {
  { 0, { 0x1.45f306p-1, 0x1.b9391p-26, 0x1.529fc2p-52, 0x1.d5f47ep-78, -0x1.65912p-103 } },
  { 0x1p59, { 0x1.391054p46, 0x1.4fe13ap21, 0x1.7d1f54p-4, -0x1.6447e4p-29, -0x1.275a9ap-54 } },
  { 0x1p91, { 0x1.f09d6p14, -0x1.70565ap-11, 0x1.dc0db6p-36, 0x1.4acc9ep-63, 0x1.0e4108p-90 } },
  { 0x1p123, { 0x1.d4d378p-18, -0x1.f924ecp-43, 0x1.5993c4p-68, 0x1.c821p-95, -0x1.ae9c54p-120 } } };

static const struct pi_part ranges_f64[] = {
  { 0, { 0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55, -0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163,
         -0x1.508510ea79237p-218 } },
  { 0x1p146, { 0x1.1f534ddc0db63p-92, -0x1.a99b0ef1bef8p-146, -0x1.ae9c5421443aap-200, 0x1.b7246e3a424ddp-256,
               0x1.700324977504fp-311 } },
  { 0x1p236, { 0x1.07f9458eaf7afp-186, -0x1.d4f246dc8e2dfp-243, 0x1.374b801924bbbp-298, -0x1.f62e6de301e21p-352,
               -0x1.38d3b5963045ep-406 } },
  { 0x1p326, { 0x1.b8e909374b802p-274, -0x1.b6d115f62e6dep-328, -0x1.80f10a71a76b3p-383, 0x1.cfba208d7d4bbp-438,
               -0x1.2edec598e3f65p-494 } },
  { 0x1p416, { 0x1.464873f877ac7p-362, 0x1.62534e7dd1047p-417, -0x1.0568a25dbd8b3p-471, -0x1.c7eca5d040df6p-527,
               -0x1.9b8a719f2b318p-582 } },
  { 0x1p506, { 0x1.1046bea5d7689p47, 0x1.3a671c09ad17ep-10, -0x1.bec66e29c67cbp-68, 0x1.9cfa4e422fc5ep-123,
               -0x1.036be27003b4p-179 } },
  { 0x1p596, { 0x1.ad17df904e647p-42, 0x1.639835339f49dp-96, -0x1.ee81d1081b5f1p-150, -0x1.c00ed00043f4dp-205,
               0x1.fde5e2316b415p-265 } },
  { 0x1p686, { 0x1.f49c845f8bbep-132, -0x1.b5f13801da001p-186, 0x1.e05980fef2f12p-240, -0x1.d297d64b824b2p-294,
               -0x1.8130d834f648bp-348 } },
  { 0x1p776, { 0x1.7ffde05980fefp-224, 0x1.788c5ad05369p-279, -0x1.25930261b069fp-333, 0x1.b74f463f669e6p-388,
               -0x1.5d28ad8453814p-448 } },
  { 0x1p866, { 0x1.4da3eda6cfd9ep-313, 0x1.3e584dba7a32p-367, -0x1.32c3402ba515bp-421, -0x1.14e050683a131p-478,
               0x1.0739f78a5292fp-532 } },
  { 0x1p956, { 0x1.d18fd9a797fa9p-402, -0x1.28ad84538141ap-456, -0x1.d0985f18c10ebp-513, -0x1.6b68aca025027p-567,
               -0x1.c0e545ef53f9ap-621 } } };

enum { N_F32 = sizeof ranges_f32 / sizeof *ranges_f32, N_F64 = sizeof ranges_f64 / sizeof *ranges_f64 };

/* The parts of 2/pi for each lane's x. */
static void choose(struct here h, int x, int part[PARTS]) {
  const struct pi_part *rows = is_narrow(h) ? ranges_f32 : ranges_f64;
  for (int k = 0; k < PARTS; k++) part[k] = number(h, rows[0].part[k]);
  for (int i = 1; i < (is_narrow(h) ? N_F32 : N_F64); i++) {
    int is_below = less(h, x, number(h, rows[i].from));
    for (int k = 0; k < PARTS; k++) part[k] = either(h, is_below, part[k], number(h, rows[i].part[k]));
  }
}

/* x, or x with a smaller exponent, where the parts would be too small for the dtype and have a larger one instead */
static int small_enough(struct here h, int x) {
  int is_below = less(h, x, VALUE(h, 0x1p59, 0x1p506));
  return either(h, is_below, x, mul(h, x, VALUE(h, 0x1p-80, 0x1p-500)));
}

static int modulo_4(struct here h, int x) {
  int fours = kir_op1(h.b, KIR_RINT, mul(h, x, number(h, 0.25)));
  return muladd(h, fours, number(h, -4), x);
}

/* The sum so far is n + s, and low, which is what additions to s lost. */
struct collected { int n, s, low; };

static void collect(struct here h, struct collected *c, int x) {
  struct two t = sum(h, c->s, x);
  c->s = t.high;
  c->low = add(h, c->low, t.low);
}

/* The whole part goes to n, before anything smaller is added. */
static void take_whole(struct here h, struct collected *c) {
  int n = kir_op1(h.b, KIR_RINT, c->s);
  c->s = sub(h, c->s, n);
  c->n = c->n ? add(h, c->n, n) : n;
}

/* x >= 0 */
static struct angle far(struct here h, int x, int more) {
  int part[PARTS], in = small_enough(h, x);
  struct two p[PARTS - 1];
  choose(h, x, part);
  for (int k = 0; k < PARTS - 1; k++) p[k] = product(h, in, part[k]);
  struct collected c = { 0, modulo_4(h, p[0].high), muladd(h, in, part[4], p[3].low) };
  for (int k = 0; k < 2; k++) {
    take_whole(h, &c);
    collect(h, &c, modulo_4(h, p[k].low));
    collect(h, &c, modulo_4(h, p[k + 1].high));
  }
  take_whole(h, &c);
  collect(h, &c, p[2].low);
  collect(h, &c, p[3].high);
  struct two f = sum(h, c.s, c.low);
  int half_pi = VALUE(h, 0x1.921fb6p0, 0x1.921fb54442d18p0), half_low = VALUE(h, -0x1.777a5cp-25, 0x1.1a62633145c07p-54);
  struct two r = product(h, f.high, half_pi);
  r.low = add(h, r.low, muladd(h, f.high, half_low, mul(h, f.low, half_pi)));
  return (struct angle){ as_bits(h, add(h, c.n, number(h, magic(h) + more))), r };
}

/* ---- The functions ------------------------------------------------------------------------------------------------------ */

/* sin r = r + r^3 S(r^2) */
static struct two sine(struct here h, struct two r, int z) {
  static const double s_f32[] = { 0x1.6cd5f4p-19, -0x1.a00f94p-13, 0x1.111108p-7, -0x1.555556p-3 };
  static const double s_f64[] = { -0x1.aaa37e3df633cp-41, 0x1.61208f2d8d169p-33, -0x1.ae645292d6e7fp-26, 0x1.71de3a53355b7p-19,
                                  -0x1.a01a01a018ab2p-13, 0x1.111111111110bp-7, -0x1.5555555555555p-3 };
  int s = is_narrow(h) ? polynomial(h, z, 4, s_f32) : polynomial(h, z, 7, s_f64);
  int low = muladd(h, mul(h, z, number(h, -0.5)), r.low, r.low);
  return (struct two){ r.high, muladd(h, mul(h, r.high, z), s, low) };
}

/* cos r = 1 - r^2/2 + r^4 C(r^2), where z is r^2 rounded: the rest of the square is small beside 1 */
static struct two cosine(struct here h, struct two r, int z) {
  static const double c_f32[] = { -0x1.242914p-22, 0x1.a01118p-16, -0x1.6c16b8p-10, 0x1.555556p-5 };
  static const double c_f64[] = { 0x1.aac3f4fd76abbp-45, -0x1.9393347cf22p-37, 0x1.1eed8ca0618bcp-29, -0x1.27e4fb75fa95p-22,
                                  0x1.a01a01a018dbfp-16, -0x1.6c16c16c16c1p-10, 0x1.5555555555555p-5 };
  int c = is_narrow(h) ? polynomial(h, z, 4, c_f32) : polynomial(h, z, 7, c_f64);
  struct two w = sum(h, number(h, 1), mul(h, z, number(h, -0.5)));
  return (struct two){ w.high, add(h, w.low, muladd(h, mul(h, z, z), c, mul(h, negative(h, r.high), r.low))) };
}

static int bit(struct here h, int n, uint64_t which) {
  return op(h, KIR_NE, op(h, KIR_AND, n, integer(h, which)), integer(h, 0));
}

/* x, negative where bit 1 of n is set */
static int turned(struct here h, int x, int n) {
  int sign = op(h, KIR_SHL, op(h, KIR_AND, n, integer(h, 2)), integer(h, is_narrow(h) ? 30 : 62));
  return as_float(h, op(h, KIR_XOR, as_bits(h, x), sign));
}

static int sine_of(struct here h, struct angle a) {
  int z = mul(h, a.rest.high, a.rest.high), is_odd = bit(h, a.n, 1);
  struct two s = sine(h, a.rest, z), c = cosine(h, a.rest, z);
  int high = either(h, is_odd, c.high, s.high), low = either(h, is_odd, c.low, s.low);
  return turned(h, add(h, high, low), a.n);
}

/* sin(x + more pi/2) of f32 near 0, shorter: the rest is one float, and what it lacks costs another half ulp. */
static int short_sine(struct here h, int x, int more) {
  int t, n = quarters(h, x, more, &t), r = x;
  for (int i = 0; i < 3; i++) r = muladd(h, n, number(h, half_of(h)[i]), r);
  int z = mul(h, r, r), s = polynomial(h, z, 3, (double[]){ -0x1.991be6p-13, 0x1.1106c6p-7, -0x1.555544p-3 });
  int c = polynomial(h, z, 5, (double[]){ 0x1.99e41p-16, -0x1.6c0c2p-10, 0x1.55554ap-5, -0.5, 1 });
  return turned(h, either(h, bit(h, t, 1), c, muladd(h, mul(h, r, z), s, r)), t);
}

static int sine_near(struct here h, int x, int more) {
  return is_narrow(h) ? short_sine(h, x, more) : sine_of(h, near(h, x, more));
}

/* y, negative where x is */
static int odd(struct here h, int y, int x) {
  return as_float(h, op(h, KIR_XOR, as_bits(h, y), op(h, KIR_AND, as_bits(h, x), integer(h, sign_bit(h)))));
}

int expand_sin(struct here h, const int x[]) {
  int y = sine_near(h, x[0], 0), is_zero = op(h, KIR_EQ, x[0], number(h, 0));
  y = either(h, is_zero, x[0], y); /* -0 stays */
  int is_rare = is_far(h, x[0]);
  rarely(h, is_rare);
  return usually(h, is_rare, odd(h, sine_of(h, far(h, size_of(h, x[0]), 0)), x[0]), y);
}

int expand_cos(struct here h, const int x[]) {
  int y = sine_near(h, x[0], 1), is_rare = is_far(h, x[0]);
  rarely(h, is_rare);
  return usually(h, is_rare, sine_of(h, far(h, size_of(h, x[0]), 1)), y);
}

/* s / c, or -c / s; the quotient put right by what it leaves */
static int tangent_of(struct here h, struct angle a) {
  int z = mul(h, a.rest.high, a.rest.high), is_odd = bit(h, a.n, 1);
  struct two s = sine(h, a.rest, z), c = cosine(h, a.rest, z);
  struct two top = sum(h, either(h, is_odd, c.high, s.high), either(h, is_odd, c.low, s.low));
  struct two below = sum(h, either(h, is_odd, s.high, c.high), either(h, is_odd, s.low, c.low));
  int over = quotient(h, number(h, 1), below.high), q = mul(h, top.high, over);
  int left = add(h, mulsub(h, q, below.high, top.high), mulsub(h, q, below.low, top.low));
  return turned(h, muladd(h, left, over, q), op(h, KIR_SHL, a.n, integer(h, 1)));
}

int expand_tan(struct here h, const int x[]) {
  int y = tangent_of(h, near(h, x[0], 0)), is_itself = less(h, size_of(h, x[0]), VALUE(h, 0x1p-13, 0x1p-27));
  y = either(h, is_itself, x[0], y);
  int is_rare = is_far(h, x[0]);
  rarely(h, is_rare);
  return usually(h, is_rare, odd(h, tangent_of(h, far(h, size_of(h, x[0]), 0)), x[0]), y);
}
