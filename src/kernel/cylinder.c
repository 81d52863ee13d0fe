/* cylinder.c -- Bessel functions I, K and J of any order, and Owen's T. Of f64 alone.
 *
 * I e^-x = sum of D(k) D(v + k), D(a) = (x / 2)^a e^(-x / 2) / Gamma(a + 1): all positive, and summed from the largest on.
 *
 * K = 1/2 integral of e^(v t - x cosh t), t from -inf to inf, which is largest at t = asinh(v / x). Around it, with
 * R = sqrt(x^2 + v^2), the exponent falls by R (cosh s - 1) + v (sinh s - s): so fast, and analytic, that the trapezoidal rule is
 * exact to all digits with steps of half a width.
 *
 * J near 0 by its series; far out by Hankel's, P cos - Q sin; between, by recurrence from an order downwards where J is
 * nothing, whose factor (x/2)^u = sum of (u + 2 i) Gamma(u + i) / i! J_(u + 2 i) gives (Miller). */
#include "kernel/gamma.h"

enum { TERMS = 2500, POINTS = 4000 }; /* rounds; NaN where they do not suffice */

static int power_of(struct here h, int x, int y) { return expand_pow(h, (int[]){ x, y }); }
static int length(struct here h, int x, int y) { return expand_hypot(h, (int[]){ x, y }); }
static int half(struct here h, int x) { return mul(h, x, number(h, 0.5)); }
static int floor_of(struct here h, int x) { return kir_op1(h.b, KIR_FLOOR, x); }
static int is_whole(struct here h, int x) { return op(h, KIR_EQ, floor_of(h, x), x); }
static int sine_of_turns(struct here h, int x) { /* of pi x */
  struct turns t = turns_of(h, x);
  return signed_by(h, t.n, mul(h, t.r, sine_over(h, t.r)));
}

/* ---- K ---------------------------------------------------------------------------------------------------------------------- */

static int sinh_less(struct here h, int s) { /* sinh s - s, 0 <= s < 1 */
  static const double p[] = { 0x1.952c77030ad4ap-49, 0x1.ae7f3e733b81fp-41, 0x1.6124613a86d09p-33, 0x1.ae64567f544e4p-26,
                              0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-13, 0x1.1111111111111p-7, 0x1.5555555555555p-3 };
  int z = mul(h, s, s);
  return mul(h, mul(h, s, z), polynomial(h, z, 8, p));
}

/* K e^(x or 0), v >= 0, x > 0 */
static int k_of(struct here h, int v, int x, bool is_scaled) {
  int one = number(h, 1), r = length(h, x, v), more = add(h, r, v), less_v = mul(h, x, quotient(h, x, more)); /* r + v, r - v */
  int step = op(h, KIR_MIN, quotient(h, number(h, 0.48), root(h, r)), number(h, 0.19));
  rounds(h, POINTS);
  int sum = kir_carry(h.b, NULL, one), i = kir_carry(h.b, NULL, one), last = kir_carry(h.b, NULL, one);
  int s = mul(h, i, step), s_half = half(h, s), near = expand_sinh(h, &s_half), less_s = negative(h, s);
  int fall = mul(h, r, mul(h, number(h, 2), mul(h, near, near))); /* r (cosh s - 1) */
  int is_near = less(h, s, one), skew = mul(h, v, sinh_less(h, op(h, KIR_MIN, s, one)));
  int grown = expand_expm1(h, &s), shrunk = expand_expm1(h, &less_s), vs = mul(h, v, s);
  int right_far = muladd(h, half(h, more), grown, muladd(h, half(h, less_v), shrunk, negative(h, vs)));
  int left_far = muladd(h, half(h, less_v), grown, muladd(h, half(h, more), shrunk, vs));
  int right = either(h, is_near, add(h, fall, skew), right_far), left = either(h, is_near, sub(h, fall, skew), left_far);
  int term = add(h, exp_plain(h, negative(h, right)), exp_plain(h, negative(h, left))), all = add(h, sum, term);
  kir_next(h.b, 3, (int[]){ sum, i, last }, (int[]){ all, add(h, i, one), term });
  kir_until(h.b, one_of(h, op(h, KIR_LE, term, mul(h, all, number(h, 0x1p-57))), is_nan(h, all)));
  kir_end(h.b);
  int at = quotient(h, v, x), top = mul(h, v, expand_asinh(h, &at));
  int from = is_scaled ? mul(h, v, quotient(h, v, add(h, x, r))) : r; /* r - x, or r */
  int y = mul(h, half(h, mul(h, step, sum)), exp_plain(h, sub(h, top, from)));
  return either(h, op(h, KIR_LE, last, mul(h, sum, number(h, 0x1p-45))), y, number(h, NAN));
}

static int k_any(struct here h, const int in[], bool is_scaled) {
  int zero = number(h, 0), inf = number(h, INFINITY), v = size_of(h, in[0]), x = in[1];
  int is_inside = both(h, both(h, less(h, zero, x), less(h, x, inf)), less(h, v, inf));
  rarely(h, is_inside);
  int y = usually(h, is_inside, k_of(h, v, x, is_scaled), number(h, NAN));
  int is_order = less(h, v, inf);
  y = either(h, both(h, is_order, op(h, KIR_EQ, x, zero)), inf, y);
  return either(h, both(h, is_order, op(h, KIR_EQ, x, inf)), zero, y);
}

int expand_kv(struct here h, const int in[]) { return k_any(h, in, false); }
int expand_kve(struct here h, const int in[]) { return k_any(h, in, true); }

/* ---- I ---------------------------------------------------------------------------------------------------------------------- */

/* of_k of_m e, which may be something where of_m = q^m e^-q / m! is not: q^m / m! = (q e / m)^m m^m e^-m / m!. Of q = 0 it is
 * right, and a quarter of the least m would be 0, too. */
static int i_largest(struct here h, int of_k, int of_m, int m, int q, int e) {
  int is_tiny = both(h, less(h, of_m, number(h, 1e-280)), less(h, number(h, 0), q)), y = mul(h, of_k, mul(h, of_m, e));
  rarely(h, is_tiny);
  int p = power_of(h, quotient(h, mul(h, q, number(h, 0x1.5bf0a8b145769p+1)), m), mul(h, m, number(h, 0.25)));
  int tiny = mul(h, mul(h, mul(h, mul(h, mul(h, of_k, p), p), gamma_factor(h, m, m)), p), p);
  return usually(h, is_tiny, tiny, y);
}

/* I e^-x, v >= 0, x >= 0; I where `e`, e^(x / 2), is not below 0. The k-th of the sum is x^2 / (4 k (v + k)) times the one
 * before it. */
static int i_of(struct here h, int order, int x, int e) {
  int one = number(h, 1), v = op(h, KIR_MIN, order, number(h, 1e100)), q = half(h, x);
  int by = op(h, KIR_MAX, q, number(h, 1e-150)), least = number(h, 1e-300);
  int k = floor_of(h, half(h, mul(h, x, quotient(h, x, op(h, KIR_MAX, add(h, length(h, x, v), v), least)))));
  int m = add(h, v, k), of_k = gamma_factor(h, k, q), of_m = gamma_factor(h, m, q);
  int largest = e < 0 ? mul(h, of_k, of_m) : i_largest(h, mul(h, of_k, e), of_m, m, q, e);
  rounds(h, TERMS);
  int sum = kir_carry(h.b, NULL, one), up = kir_carry(h.b, NULL, one), down = kir_carry(h.b, NULL, one);
  int i = kir_carry(h.b, NULL, one), next = mul(h, up, mul(h, quotient(h, q, add(h, k, i)), quotient(h, q, add(h, m, i))));
  int j = sub(h, i, one), before = mul(h, down, mul(h, quotient(h, sub(h, k, j), by), quotient(h, sub(h, m, j), by)));
  int term = add(h, next, before), all = add(h, sum, term);
  kir_next(h.b, 4, (int[]){ sum, up, down, i }, (int[]){ all, next, before, add(h, i, one) });
  kir_until(h.b, one_of(h, op(h, KIR_LE, term, mul(h, all, number(h, 0x1p-56))), is_nan(h, all)));
  kir_end(h.b);
  int is_done = op(h, KIR_LE, add(h, up, down), mul(h, sum, number(h, 0x1p-45)));
  return either(h, is_done, mul(h, largest, sum), number(h, NAN));
}

/* The same from 1000 on, v^2 <= 4 x: the k-th of Hankel's sum is ((2k - 1)^2 - 4 v^2) / (8 k x) times the one before it */
static int i_far(struct here h, int v, int x) {
  int one = number(h, 1), mu = mul(h, number(h, 4), mul(h, v, v)), eight = mul(h, number(h, 8), x);
  rounds(h, 60);
  int sum = kir_carry(h.b, NULL, one), term = kir_carry(h.b, NULL, one), k = kir_carry(h.b, NULL, one);
  int odd = sub(h, add(h, k, k), one), next = mul(h, term, quotient(h, sub(h, mul(h, odd, odd), mu), mul(h, k, eight)));
  kir_next(h.b, 3, (int[]){ sum, term, k }, (int[]){ add(h, sum, next), next, add(h, k, one) });
  kir_until(h.b, one_of(h, op(h, KIR_LE, size_of(h, next), number(h, 0x1p-58)), is_nan(h, next)));
  kir_end(h.b);
  return mul(h, sum, quotient(h, number(h, 0x1.9884533d43651p-2), root(h, x)));
}

/* I_-v = I_v + 2 / pi sin(pi v) K_v; of whole v they are equal. I(-x) = (-1)^v I(x) */
static int i_any(struct here h, const int in[], bool is_scaled) {
  int zero = number(h, 0), inf = number(h, INFINITY), nan = number(h, NAN), v = size_of(h, in[0]), x = size_of(h, in[1]);
  int is_inside = both(h, less(h, x, inf), less(h, v, inf)), whole = is_whole(h, v);
  int is_far = both(h, is_inside, both(h, less(h, number(h, 1000), x), op(h, KIR_LE, mul(h, v, v), mul(h, number(h, 4), x))));
  int by_sum = both(h, is_inside, none(h, is_far)), e = is_scaled ? -1 : exp_plain(h, half(h, x));
  rarely(h, by_sum);
  int y = usually(h, by_sum, i_of(h, v, x, e), nan);
  rarely(h, is_far);
  int far = i_far(h, v, x);
  y = usually(h, is_far, is_scaled ? far : mul(h, mul(h, far, e), e), y);
  int is_mixed = both(h, both(h, is_inside, less(h, zero, x)), both(h, less(h, in[0], zero), none(h, whole)));
  rarely(h, is_mixed);
  int part = mul(h, mul(h, number(h, 0x1.45f306dc9c883p-1), sine_of_turns(h, v)), k_of(h, v, x, is_scaled));
  if (is_scaled) part = mul(h, part, exp_plain(h, mul(h, x, number(h, -2))));
  y = usually(h, is_mixed, add(h, y, part), y);
  int pole = mul(h, sine_of_turns(h, v), inf), is_below = both(h, less(h, in[0], zero), none(h, whole));
  y = either(h, both(h, is_below, op(h, KIR_EQ, x, zero)), pole, y);
  y = either(h, both(h, less(h, v, inf), op(h, KIR_EQ, x, inf)), is_scaled ? zero : inf, y);
  int turned = either(h, whole, signed_by(h, v, y), nan);
  return either(h, less(h, in[1], zero), turned, y);
}

int expand_iv(struct here h, const int in[]) { return i_any(h, in, false); }
int expand_ive(struct here h, const int in[]) { return i_any(h, in, true); }

/* ---- J ---------------------------------------------------------------------------------------------------------------------- */

/* x^2 / 4 <= v + 1 */
static int j_series(struct here h, int v, int x) {
  int one = number(h, 1), q = half(h, x), z = negative(h, mul(h, q, q)), first = mul(h, gamma_factor(h, v, q), exp_plain(h, q));
  rounds(h, 200);
  int sum = kir_carry(h.b, NULL, one), term = kir_carry(h.b, NULL, one), k = kir_carry(h.b, NULL, one);
  int next = mul(h, term, quotient(h, z, mul(h, k, add(h, v, k)))), all = add(h, sum, next);
  kir_next(h.b, 3, (int[]){ sum, term, k }, (int[]){ all, next, add(h, k, one) });
  kir_until(h.b, one_of(h, op(h, KIR_LE, size_of(h, next), number(h, 0x1p-58)), is_nan(h, all)));
  kir_end(h.b);
  return mul(h, first, sum);
}

/* x >= 35, v^2 <= 4 x: the k-th of the alternating sums is ((2k - 1)^2 - 4 v^2) / (8 k x) times the one before it */
static int j_waves(struct here h, int v, int x) {
  int zero = number(h, 0), one = number(h, 1), mu = mul(h, number(h, 4), mul(h, v, v)), eight = mul(h, number(h, 8), x);
  rounds(h, 60);
  int p = kir_carry(h.b, NULL, one), q = kir_carry(h.b, NULL, zero), term = kir_carry(h.b, NULL, one);
  int k = kir_carry(h.b, NULL, one), odd = sub(h, add(h, k, k), one), up = add(h, odd, number(h, 2)), k_next = add(h, k, one);
  int first = mul(h, term, quotient(h, sub(h, mu, mul(h, odd, odd)), mul(h, k, eight))); /* of Q */
  int second = mul(h, first, quotient(h, sub(h, mul(h, up, up), mu), mul(h, k_next, eight)));
  kir_next(h.b, 4, (int[]){ p, q, term, k }, (int[]){ add(h, p, second), add(h, q, first), second, add(h, k_next, one) });
  int is_small = op(h, KIR_LE, op(h, KIR_MAX, size_of(h, first), size_of(h, second)), number(h, 0x1p-57));
  kir_until(h.b, one_of(h, is_small, is_nan(h, second)));
  kir_end(h.b);
  int c = expand_cos(h, &x), s = expand_sin(h, &x), turn = muladd(h, v, number(h, 0.5), number(h, 0.25)); /* x - pi turn */
  int turn_c = sine_of_turns(h, add(h, turn, number(h, 0.5))), turn_s = sine_of_turns(h, turn);
  int cosine = muladd(h, c, turn_c, mul(h, s, turn_s)), sine = sub(h, mul(h, s, turn_c), mul(h, c, turn_s));
  int wave = sub(h, mul(h, p, cosine), mul(h, q, sine));
  return mul(h, wave, quotient(h, number(h, 0x1.9884533d43651p-1), root(h, x)));
}

/* Two orders a round, u + 2 i + 1 and u + 2 i; below u, of orders that are negative, the recurrence goes on without the sum. */
static int j_downwards(struct here h, int v, int x) {
  int zero = number(h, 0), one = number(h, 1), two = number(h, 2), n = floor_of(h, v), u = sub(h, v, n), over = quotient(h, two, x);
  int reach = op(h, KIR_MAX, x, n), cube_root = power_of(h, reach, number(h, 1.0 / 3));
  int top = floor_of(h, half(h, muladd(h, cube_root, number(h, 12), add(h, reach, number(h, 14)))));
  int end = op(h, KIR_MIN, zero, floor_of(h, half(h, n)));
  rounds(h, TERMS);
  int i = kir_carry(h.b, NULL, top), high = kir_carry(h.b, NULL, zero), low = kir_carry(h.b, NULL, number(h, 1e-200));
  int weight = kir_carry(h.b, NULL, one), sum = kir_carry(h.b, NULL, zero), got = kir_carry(h.b, NULL, zero);
  int since = kir_carry(h.b, NULL, one); /* what the others were scaled by since got was got */
  int order = add(h, i, i), at = add(h, u, order), i_less = sub(h, i, one);
  /* Gamma(u + i) / i!, up to a factor; that of i = 1 is the whole of i = 0. */
  int by = either(h, less(h, zero, i), mul(h, weight, at), either(h, op(h, KIR_EQ, i, zero), weight, zero));
  int sum_next = muladd(h, by, low, sum), is_low = op(h, KIR_EQ, n, order), is_high = op(h, KIR_EQ, n, add(h, order, one));
  int got_next = either(h, is_low, low, either(h, is_high, high, got));
  int weight_next = either(h, less(h, one, i), mul(h, weight, quotient(h, i, add(h, u, i_less))), weight);
  int high_next = sub(h, mul(h, mul(h, at, over), low), high);
  int low_next = sub(h, mul(h, mul(h, sub(h, at, one), over), high_next), low);
  int is_large = less(h, number(h, 1e150), op(h, KIR_MAX, size_of(h, low_next), size_of(h, high_next)));
  int by_scale = either(h, is_large, number(h, 1e-250), one), is_end = op(h, KIR_LE, i, end);
  int since_next = either(h, op(h, KIR_LE, order, n), mul(h, since, by_scale), one);
  kir_next(h.b, 7, (int[]){ i, high, low, weight, sum, got, since },
           (int[]){ i_less, mul(h, high_next, by_scale), mul(h, low_next, by_scale), weight_next,
                    mul(h, sum_next, by_scale), got_next, since_next });
  kir_until(h.b, one_of(h, is_end, is_nan(h, low_next)));
  kir_end(h.b);
  int up = add(h, u, one), factor = quotient(h, mul(h, power_of(h, half(h, x), u), weight), mul(h, sum, gamma_of(h, up)));
  return either(h, less(h, i, end), mul(h, mul(h, got, factor), since), number(h, NAN));
}

/* J_-v = (-1)^v J_v of whole v, J(-x) = (-1)^v J(x). Of other negative orders near 0, the first term is all of it. */
int expand_jv(struct here h, const int in[]) {
  int zero = number(h, 0), one = number(h, 1), inf = number(h, INFINITY), nan = number(h, NAN), x = size_of(h, in[1]);
  int whole = is_whole(h, in[0]), v = either(h, whole, size_of(h, in[0]), in[0]), is_below = less(h, v, zero);
  int is_inside = both(h, less(h, x, inf), less(h, size_of(h, v), inf)), q = half(h, x);
  int by_waves = both(h, op(h, KIR_LE, number(h, 35), x), op(h, KIR_LE, mul(h, v, v), mul(h, number(h, 4), x)));
  by_waves = both(h, is_inside, by_waves);
  rarely(h, by_waves);
  int waves = usually(h, by_waves, j_waves(h, v, x), nan);
  int by_series = both(h, is_inside, both(h, none(h, is_below), op(h, KIR_LE, mul(h, q, q), add(h, v, one))));
  rarely(h, by_series);
  int y = usually(h, by_series, j_series(h, v, x), waves);
  int by_first = both(h, is_inside, both(h, is_below, less(h, x, number(h, 1e-8))));
  rarely(h, by_first);
  y = usually(h, by_first, quotient(h, power_of(h, q, v), gamma_of(h, add(h, v, one))), y);
  int by_steps = both(h, is_inside, none(h, one_of(h, by_waves, one_of(h, by_series, by_first))));
  rarely(h, by_steps);
  y = usually(h, by_steps, j_downwards(h, v, x), y);
  y = either(h, both(h, op(h, KIR_EQ, x, inf), less(h, size_of(h, v), inf)), zero, y);
  int turned = both(h, whole, less(h, in[0], zero)), flipped = less(h, in[1], zero);
  y = either(h, turned, signed_by(h, v, y), y);
  return either(h, flipped, either(h, whole, signed_by(h, v, y), nan), y);
}

/* ---- Owen's T --------------------------------------------------------------------------------------------------------------- */

/* 1 / (2 pi) integral of e^(-h^2 (1 + x^2) / 2) / (1 + x^2), x from 0 to a <= 1, by Gauss with 24 points up to where it ends */
static int owen_near(struct here h, int y, int a) {
  static const double at[] = { 0x1.3b690cb733ec7p-9, 0x1.9e0c1e680f139p-7, 0x1.f9a7a58f55b36p-6, 0x1.d13df3cd9785bp-5,
                               0x1.70a2cc7cb2401p-4, 0x1.0a1ce248c4454p-3, 0x1.685a2340bdef4p-3, 0x1.d17d08a7651aap-3,
                               0x1.21e5d13f0eda5p-2, 0x1.5eb2b9d3b8b78p-2, 0x1.9e25aaf51ac1dp-2, 0x1.df33ef5824ba3p-2,
                               0x1.10660853eda2ep-1, 0x1.30ed2a85729f2p-1, 0x1.50a6a31623a44p-1, 0x1.6f0d17607892dp-1,
                               0x1.8ba0bdd626b95p-1, 0x1.a5e9772fd0843p-1, 0x1.bd78c76dceeebp-1, 0x1.d1eba67069b80p-1,
                               0x1.e2ec20c32687ap-1, 0x1.f032c2d385526p-1, 0x1.f987cf865fc3bp-1, 0x1.fec496f348cc1p-1 };
  static const double weight[] = { 0x1.9465bd3112202p-8, 0x1.d375514486f1dp-7, 0x1.6ab884f57c979p-6, 0x1.e5c6255d25edap-6,
                                   0x1.2c6d5c2eff064p-5, 0x1.6108ef504463ap-5, 0x1.8fd8936444b16p-5, 0x1.b8177ba4a68dcp-5,
                                   0x1.d91c78acb1b2dp-5, 0x1.f25cbce1d1ff6p-5, 0x1.01b7117cf8bd8p-4, 0x1.060475e763736p-4 };
  int one = number(h, 1), end = op(h, KIR_MIN, a, quotient(h, number(h, 8.8), op(h, KIR_MAX, y, number(h, 1)))), sum = number(h, 0);
  for (int i = 0; i < 24; i++) {
    int x = mul(h, end, number(h, at[i])), z = mul(h, x, y), e = exp_plain(h, mul(h, mul(h, z, z), number(h, -0.5)));
    sum = muladd(h, quotient(h, e, muladd(h, x, x, one)), number(h, weight[i < 12 ? i : 23 - i]), sum);
  }
  struct two square = product(h, y, y);
  int scale_a, scale_b, less_half = number(h, -0.5);
  struct two power = { mul(h, square.high, less_half), mul(h, square.low, less_half) }, e = exp_of(h, power, &scale_a, &scale_b);
  int all = mul(h, mul(h, sum, mul(h, end, number(h, 0x1.45f306dc9c883p-3))), add(h, e.high, e.low));
  return mul(h, mul(h, all, scale_a), scale_b);
}

/* Beyond a = 1, T(h, a) = (p + q) / 2 - p q - T(a h, 1 / a), where p and q are the normal tails beyond h and a h. */
int expand_owens_t(struct here h, const int in[]) {
  int one = number(h, 1), zero = number(h, 0), far = number(h, 40);
  int y = op(h, KIR_MIN, size_of(h, in[0]), far), a = size_of(h, in[1]);
  int is_turned = less(h, one, a), ay = op(h, KIR_MIN, mul(h, a, y), far);
  ay = either(h, op(h, KIR_EQ, y, zero), zero, ay); /* of infinite a too */
  int part = owen_near(h, either(h, is_turned, ay, y), either(h, is_turned, quotient(h, one, a), a));
  rarely(h, is_turned);
  int less_y = negative(h, y), less_ay = negative(h, ay), p = expand_ndtr(h, &less_y), q = expand_ndtr(h, &less_ay);
  int turned = sub(h, sub(h, half(h, add(h, p, q)), mul(h, p, q)), part);
  part = usually(h, is_turned, turned, part);
  int t = with_sign(h, size_of(h, part), in[1]);
  return either(h, one_of(h, is_nan(h, in[0]), is_nan(h, in[1])), number(h, NAN), t);
}
