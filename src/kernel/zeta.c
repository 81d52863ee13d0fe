/* zeta.c -- Hurwitz's zeta function, the sum of (q + k)^-s over k = 0, 1 .., and the derivatives of digamma. Of f64 alone.
 *
 * Ten terms are added one by one, and more while q + k < 10; the rest, from a = q + n on, is Euler and Maclaurin's:
 * a^(1 - s) / (s - 1) + a^-s / 2 + the sum over j of B_2j / (2j)! s (s + 1) .. (s + 2j - 2) a^(1 - s - 2j). */
#include "kernel/expansion.h"

enum { ROUNDS = 64 }; /* enough from q = -50 on */

static int rest_of_zeta(struct here h, int s, int a) {
  static const double c[] = { 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
                              0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
                              0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53 };
  int power = expand_pow(h, (int[]){ a, negative(h, s) }), over = quotient(h, number(h, 1), a), one = number(h, 1);
  int term = mul(h, mul(h, power, s), over), sum = number(h, 0), at = s;
  for (int j = 0; j < 10; j++) {
    sum = muladd(h, term, number(h, c[j]), sum);
    term = mul(h, mul(h, mul(h, term, add(h, at, one)), over), mul(h, add(h, at, number(h, 2)), over));
    at = add(h, at, number(h, 2));
  }
  int most = mul(h, power, add(h, quotient(h, a, sub(h, s, one)), number(h, 0.5)));
  return add(h, most, sum);
}

static int zeta_of(struct here h, int s, int q) {
  int zero = number(h, 0), ten = number(h, 10), one = number(h, 1);
  rounds(h, ROUNDS);
  int carry[] = { kir_carry(h.b, NULL, q), kir_carry(h.b, NULL, zero), kir_carry(h.b, NULL, zero) }, a = carry[0], n = carry[1];
  int term = expand_pow(h, (int[]){ a, negative(h, s) }), sum = add(h, carry[2], term);
  int more = add(h, a, one), n_more = add(h, n, one);
  kir_next(h.b, 3, carry, (int[]){ more, n_more, sum });
  int is_enough = op(h, KIR_AND, op(h, KIR_LE, ten, n_more), op(h, KIR_LE, ten, more));
  kir_until(h.b, op(h, KIR_OR, is_enough, op(h, KIR_NE, sum, sum)));
  kir_end(h.b);
  return add(h, carry[2], rest_of_zeta(h, s, carry[0]));
}

int expand_zeta(struct here h, const int x[]) {
  int s = op(h, KIR_MIN, x[0], number(h, 1e300)), q = x[1], zero = number(h, 0), one = number(h, 1), inf = number(h, INFINITY);
  int nan = number(h, NAN), y = zeta_of(h, s, q);
  int is_pole = op(h, KIR_AND, op(h, KIR_LE, q, zero), op(h, KIR_EQ, kir_op1(h.b, KIR_FLOOR, q), q));
  y = either(h, op(h, KIR_EQ, q, inf), zero, y);
  y = either(h, less(h, q, number(h, -50)), nan, y);
  y = either(h, op(h, KIR_OR, is_pole, op(h, KIR_EQ, s, one)), inf, y);
  y = either(h, less(h, s, one), nan, y);
  return either(h, op(h, KIR_EQ, add(h, s, q), add(h, s, q)), y, nan);
}

/* (-1)^(n + 1) n! zeta(n + 1, x); digamma for n = 0; NaN for what is no whole number */
int expand_polygamma(struct here h, const int x[]) {
  int one = number(h, 1), s = add(h, x[0], one), zero = number(h, 0), digamma = expand_digamma(h, &x[1]);
  int is_derivative = less(h, zero, x[0]);
  rarely(h, is_derivative);
  int y = mul(h, expand_gamma(h, &s), expand_zeta(h, (int[]){ s, x[1] })), half = mul(h, s, number(h, 0.5));
  int is_odd = op(h, KIR_NE, kir_op1(h.b, KIR_FLOOR, half), half);
  y = usually(h, is_derivative, either(h, is_odd, negative(h, y), y), digamma);
  int is_whole = op(h, KIR_AND, op(h, KIR_EQ, kir_op1(h.b, KIR_FLOOR, x[0]), x[0]), less(h, x[0], number(h, 0x1p52)));
  return either(h, op(h, KIR_AND, op(h, KIR_LE, zero, x[0]), is_whole), y, number(h, NAN));
}
