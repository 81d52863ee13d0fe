/* bessel.c -- Bessel functions of orders 0 and 1: I, also divided by e^|x|, and J. In f64 alone: f32 is rounded from it.
 *
 * Near 0 a polynomial of x^2; far away, I(x) = e^x / sqrt x P(1/x), and J(x) = sqrt(2 / (pi x)) (P cos(x - c) - Q / x
 * sin(x - c)) with P and Q of 1/x^2, c = pi/4 or 3 pi/4, where sqrt 2 cos(x - pi/4) = cos x + sin x. */
#include "kernel/expansion.h"

/* ---- I: up to 12 all terms are positive --------------------------------------------------------------------------------- */

static int i0_near(struct here h, int x) { /* 1 + a P(a), a = x^2 / 4 */
  static const double p[] = { 0x1.a33865ff323dfp-113, 0x1.57894ce14bf7ap-107, 0x1.8399027c01fbcp-97, 0x1.582545164bb0cp-89,
                              0x1.6d5ac5fe7ce0ap-81, 0x1.3da8b6816bbcbp-73, 0x1.e73f682f3baep-66, 0x1.41958729accd7p-58,
                              0x1.69cae14993942p-51, 0x1.560181ceb629dp-44, 0x1.0b31330406ec8p-37, 0x1.522a43e90cb32p-31,
                              0x1.522a43f7611d6p-25, 0x1.02e85c0889d6ep-19, 0x1.23456789ace5ep-14, 0x1.c71c71c71c58bp-10,
                              0x1.c71c71c71c72fp-6, 0x1.fffffffffffffp-3, 0x1p0 };
  int half = mul(h, x, number(h, 0.5)), a = mul(h, half, half);
  return muladd(h, a, polynomial(h, a, 19, p), number(h, 1));
}

static int i1_near(struct here h, int x) { /* x / 2 (1 + a P(a)) */
  static const double p[] = { 0x1.f0ec4b3a0851bp-109, 0x1.8888eaed992b5p-103, 0x1.9abde5f458861p-93, 0x1.58979589b9634p-85,
                              0x1.56662064889eap-77, 0x1.15f97e2684bb8p-69, 0x1.8be1e7dd60725p-62, 0x1.e2609e9a85ed6p-55,
                              0x1.f176e90fb1882p-48, 0x1.ab81e3b243f1ep-41, 0x1.2c975945bc3c1p-34, 0x1.522a43ecce261p-28,
                              0x1.27e4fb7821ca9p-22, 0x1.845c8a0cd890ep-17, 0x1.6c16c16c1761cp-12, 0x1.c71c71c71c695p-8,
                              0x1.5555555555558p-4, 0x1p-1 };
  int half = mul(h, x, number(h, 0.5)), a = mul(h, half, half);
  return mul(h, half, muladd(h, a, polynomial(h, a, 18, p), number(h, 1)));
}

static int i_far(struct here h, int x, int order) { /* e^-x I(x), from 12 on */
  static const double p_0[] = { 0x1.c862dbd8aaf3p32, -0x1.3725978466402p32, 0x1.75fdec56f67bep30, -0x1.078683b4be2a4p28,
                                0x1.e7fdfd4829738p24, -0x1.3a4d3cb466facp21, 0x1.228c38fa1450ep17, -0x1.85f62e947cba9p12,
                                0x1.83e0292d4654fp7, -0x1.c75dec6e3b843p1, 0x1.2e5a99a8767d7p-2, 0x1.7024d8400952p-4,
                                0x1.6e91f7b44f306p-5, 0x1.debafa1fd599ep-6, 0x1.cb94ddb2435c5p-6, 0x1.9884533d41e68p-5,
                                0x1.9884533d43651p-2 };
  static const double p_1[] = { -0x1.ceaec1e53137fp32, 0x1.3cb31e976f05p32, -0x1.7dd24238cad4p30, 0x1.0dab30fe31226p28,
                                -0x1.f449d7df7aa58p24, 0x1.42b22c2cf2715p21, -0x1.2aad4a0d3153fp17, 0x1.9135a2bb4b54ep12,
                                -0x1.8ff2bc69578b7p7, 0x1.ca644fe10a66bp1, -0x1.5b01da2eedb8ap-2, -0x1.c284e5ab2532bp-4,
                                -0x1.d74b3b6097b2p-5, -0x1.4f1c8031b872ep-5, -0x1.7efc0e1052448p-5, -0x1.32633e6df2291p-3,
                                0x1.9884533d4365p-2 };
  int t = quotient(h, number(h, 1), x);
  return quotient(h, polynomial(h, t, 17, order ? p_1 : p_0), root(h, x));
}

/* e^x from e^(x - 8): e^x overflows before I does. */
static int i_plain(struct here h, int x, int order) {
  int size = size_of(h, x), in = op(h, KIR_MIN, size, number(h, 800)), a, b;
  int near = order ? i1_near(h, size) : i0_near(h, size), zero = number(h, 0);
  int far = i_far(h, op(h, KIR_MAX, in, number(h, 12)), order);
  struct two e = exp_of(h, (struct two){ sub(h, in, number(h, 8)), zero }, &a, &b);
  int y = mul(h, add(h, e.high, e.low), mul(h, far, number(h, 0x1.749ea7d470c6ep11)));
  return either(h, less(h, size, number(h, 12)), near, mul(h, mul(h, y, a), b));
}

/* Of x^2 / 4 what was rounded off, d, counts x times where e^-x has taken the growth away: I(x) 2 d / (x + 0.55), nearly. */
static int i_scaled(struct here h, int x, int order) {
  int size = size_of(h, x), in = op(h, KIR_MIN, size, number(h, 12)), less_in = negative(h, in), e = expand_exp(h, &less_in);
  int lost = quotient(h, mul(h, product(h, in, in).low, number(h, 0.5)), add(h, in, number(h, 0.55)));
  int near = mul(h, order ? i1_near(h, in) : i0_near(h, in), muladd(h, e, lost, e));
  return either(h, less(h, size, number(h, 12)), near, i_far(h, op(h, KIR_MAX, size, number(h, 12)), order));
}

int expand_i0(struct here h, const int x[]) { return i_plain(h, x[0], 0); }
int expand_i1(struct here h, const int x[]) { return with_sign(h, i_plain(h, x[0], 1), x[0]); }
int expand_i0e(struct here h, const int x[]) { return i_scaled(h, x[0], 0); }
int expand_i1e(struct here h, const int x[]) { return with_sign(h, i_scaled(h, x[0], 1), x[0]); }

/* ---- J ------------------------------------------------------------------------------------------------------------------ */

/* J(x) / x^order: below 2.75 from x^2 = z, up to 6 from x^2 - 22, where the digits that it loses matter least */
static int j_near(struct here h, int x, int order) {
  static const double small_0[] = { 0x1.39ca2dba5c2a2p-64, -0x1.0a373eb737063p-55, 0x1.52206c1b38198p-47,
                                    -0x1.522a062cba16ap-39, 0x1.02e85b0f1b2acp-31, -0x1.234567849ce07p-24,
                                    0x1.c71c71c6fbb1dp-18, -0x1.c71c71c71bf61p-12, 0x1.fffffffffffe2p-7, -0x1p-2, 0x1p0 };
  static const double small_1[] = { -0x1.883e0728b0ed5p-60, 0x1.2b7fd7931e474p-51, -0x1.52209de66dd38p-43,
                                    0x1.27e4c7cb5de1fp-35, -0x1.845c88b5ded9bp-28, 0x1.6c16c166ab573p-21,
                                    -0x1.c71c71c703401p-15, 0x1.555555555519dp-9, -0x1.ffffffffffff2p-5, 0x1p-1 };
  static const double middle_0[] = { -0x1.48cd201397a64p-92, 0x1.a31a624e4e161p-83, -0x1.c5b152e4e20c2p-74,
                                     0x1.9a56c748ad269p-65, -0x1.2fd3133ab4111p-56, 0x1.67bbb352aaea2p-48,
                                     -0x1.4a5c0b3063ac8p-40, 0x1.c3c336abe80d4p-33, -0x1.b1b559fb3cd9bp-26,
                                     0x1.0a0a79bd13638p-19, -0x1.59b906d032a21p-14, 0x1.ca55687cf3ec5p-11, 0x1.e3e2e9ceee783p-6,
                                     -0x1.1686165eaf775p-2 };
  static const double middle_1[] = { 0x1.0b2bd089827e8p-87, -0x1.3a5d4996a8dfep-78, 0x1.37e9db0ab1996p-69,
                                     -0x1.007637e2c305dp-60, 0x1.55cd75ac23daep-52, -0x1.67bbb355f8d1dp-44,
                                     0x1.211089ca51dcbp-36, -0x1.52d26900ec03dp-29, 0x1.0f11583d060cap-22,
                                     -0x1.0a0a79bd13657p-16, 0x1.034ac51c25f98p-11, -0x1.ca55687cf3ec3p-9,
                                     -0x1.e3e2e9ceee783p-5 };
  int small = mul(h, x, x), middle = muladd(h, x, x, number(h, -22));
  small = order ? polynomial(h, small, 10, small_1) : polynomial(h, small, 11, small_0);
  middle = order ? polynomial(h, middle, 13, middle_1) : polynomial(h, middle, 14, middle_0);
  return either(h, less(h, x, number(h, 2.75)), small, middle);
}

/* sqrt x times J, x >= 6, from the parts of the waves that P and Q / x go with */
static int j_far(struct here h, int over, int order, int p_wave, int q_wave) {
  static const double p_0[] = { -0x1.ddb6507c18429p50, 0x1.c6b145f063589p48, -0x1.8fe1c8923b572p45, 0x1.b16aba14dcd3p41,
                                -0x1.470d8d66ea54cp37, 0x1.72f4c2fec03ddp32, -0x1.52583836979dcp27, 0x1.0d57e49fbcf77p22,
                                -0x1.a413d476de483p16, 0x1.7507f00e54becp11, -0x1.b751b0a6f30cap6, 0x1.84b5d14bf9509p2,
                                -0x1.251ed1f73a3bap-1, 0x1.cb5fffdc37f13p-4, -0x1.1ffffffffd12cp-4, 0x1p0 };
  static const double q_0[] = { 0x1.f5deddc89ac61p53, -0x1.db892f91e123ap51, 0x1.9fa990d03a479p48, -0x1.beaa5afbad5e1p44,
                                0x1.4cd558e34be8ep40, -0x1.7249c5fab9038p35, 0x1.4769e9097673ap30, -0x1.ef2da3a407b7fp24,
                                0x1.63062575ddebap19, -0x1.1584685ffe8ebp14, 0x1.12cfef018dacfp9, -0x1.86061eb1eb5fp4,
                                0x1.ba4bf5f80a22p0, -0x1.d11dff5ed29bbp-3, 0x1.2bffffffe5ac4p-4, -0x1.ffffffffffffap-4 };
  static const double p_1[] = { 0x1.fa4e161a686a4p50, -0x1.e209caee00bc1p48, 0x1.a816dad0aa29ap45, -0x1.cbe619dd5f22ap41,
                                0x1.5b4ff742ac20fp37, -0x1.8a6e34a6f52ap32, 0x1.68827b1987445p27, -0x1.2008b9a39e711p22,
                                0x1.c415711aa985ep16, -0x1.95af94eef7549p11, 0x1.e599cc2de49cp6, -0x1.b88a5c4516768p2,
                                0x1.5a6a40bceaffdp-1, -0x1.274fffed1c19dp-3, 0x1.dffffffffce8ep-4, 0x1p0 };
  static const double q_1[] = { 0x1.c5da8fedd14adp48, -0x1.9756709bfda01p46, 0x1.508d62d52dc4bp43, -0x1.55c262282335ap39,
                                0x1.e3181587163bp34, -0x1.01f7bed772e26p30, 0x1.c298473d81ab6p24, -0x1.64938c2c37bbap19,
                                0x1.26bbffc81bdf6p14, -0x1.2c3dd8c677e1dp9, 0x1.b3d6338433ce5p4, -0x1.fe571ae888c8bp0,
                                0x1.1c3cff167a5f4p-2, -0x1.a3ffffffa944dp-4, 0x1.7fffffffffffbp-2 };
  int t = mul(h, over, over), p = polynomial(h, t, 16, order ? p_1 : p_0);
  int q = mul(h, over, order ? polynomial(h, t, 15, q_1) : polynomial(h, t, 16, q_0));
  return mul(h, muladd(h, p, p_wave, mul(h, q, q_wave)), number(h, 0x1.20dd750429b6dp-1));
}

static int j_of(struct here h, int x, int order) {
  int size = size_of(h, x), in = op(h, KIR_MIN, size, number(h, 6)), near = j_near(h, in, order);
  if (order) near = mul(h, in, near);
  int is_far = less(h, number(h, 6), size);
  rarely(h, is_far);
  int c = expand_cos(h, &size), s = expand_sin(h, &size), over = quotient(h, number(h, 1), op(h, KIR_MAX, size, number(h, 6)));
  int plus = add(h, c, s), minus = sub(h, s, c);
  int far = order ? j_far(h, over, 1, minus, plus) : j_far(h, over, 0, plus, negative(h, minus));
  far = either(h, less(h, size, number(h, INFINITY)), quotient(h, far, root(h, size)), number(h, 0));
  return usually(h, is_far, far, near);
}

int expand_j0(struct here h, const int x[]) { return j_of(h, x[0], 0); }

int expand_j1(struct here h, const int x[]) {
  int y = j_of(h, x[0], 1);
  return either(h, less(h, x[0], number(h, 0)), negative(h, y), either(h, op(h, KIR_EQ, x[0], number(h, 0)), x[0], y));
}
