/* special.c -- the special functions of statistics and physics: gamma and its kin, the normal distribution, Bessel functions. Each
 * is an instruction of the kernel language; its derivative is made of others. */
#include <math.h>
#include "op/element.h"

static weft_array *number(double x) { return weft_scalar(x); }
static weft_array *where_0(weft_array *x, double at_0, weft_array *otherwise) { /* at_0 where x = 0 */
  return weft_where(weft_eq(x, weft_integer(0)), number_like(otherwise, at_0), otherwise);
}
static weft_array *half_square(weft_array *x) { return weft_mul(weft_mul(x, x), number(0.5)); }

/* ---- Gamma ---- */

ONE_INSTRUCTION(lgamma, KIR_LGAMMA)
ONE_INSTRUCTION(gamma, KIR_GAMMA)
ONE_INSTRUCTION(digamma, KIR_DIGAMMA)
ONE_INSTRUCTION(trigamma, KIR_TRIGAMMA)

ONE_INSTRUCTION(zeta, KIR_ZETA)
ONE_INSTRUCTION(polygamma, KIR_POLYGAMMA)

PARTIAL(lgamma) { return (void)k, weft_digamma(X); }
PARTIAL(gamma) { return (void)k, weft_mul(Y, weft_digamma(X)); }
PARTIAL(digamma) { return (void)k, weft_trigamma(X); }
PARTIAL(trigamma) { return (void)k, weft_polygamma(number(2), X); }
/* Nobody has a formula for derivatives by the order. */
PARTIAL(zeta) {
  if (k == 0) return number(NAN);
  return weft_mul(weft_neg(X), weft_zeta(weft_add(X, number(1)), r->in[1]));
}
PARTIAL(polygamma) { return k == 0 ? number(NAN) : weft_polygamma(weft_add(X, number(1)), r->in[1]); }

UNARY(lgamma, FLOAT, false, DERIVATIVE)
UNARY(gamma, FLOAT, false, DERIVATIVE)
UNARY(digamma, FLOAT, false, DERIVATIVE)
UNARY(trigamma, FLOAT, false, DERIVATIVE)
BINARY(zeta, FLOAT, false, DERIVATIVE)
BINARY(polygamma, FLOAT, false, DERIVATIVE)

/* ---- Beta, and what is incomplete ---- */

ONE_INSTRUCTION(beta, KIR_BETA)
ONE_INSTRUCTION(betaln, KIR_BETALN)
ONE_INSTRUCTION(gammainc, KIR_GAMMAINC)
ONE_INSTRUCTION(gammaincc, KIR_GAMMAINCC)
ONE_INSTRUCTION(gammainc_da, KIR_GAMMAINC_DA)
ONE_INSTRUCTION(betainc, KIR_BETAINC)
ONE_INSTRUCTION(betainc_da, KIR_BETAINC_DA)

static weft_array *less_digamma_of_sum(const struct rule *r, int k) {
  return weft_sub(weft_digamma(r->in[k]), weft_digamma(weft_add(X, r->in[1])));
}
PARTIAL(beta) { return weft_mul(Y, less_digamma_of_sum(r, k)); }
PARTIAL(betaln) { return less_digamma_of_sum(r, k); }

/* x^(a - 1) e^-x / Gamma(a) */
static weft_array *gamma_density(weft_array *a, weft_array *x) {
  weft_array *power = weft_xlogy(weft_sub(a, number(1)), x);
  return weft_exp(weft_sub(weft_sub(power, x), weft_lgamma(a)));
}
PARTIAL(gammainc) { return k == 0 ? weft_gammainc_da(X, r->in[1]) : gamma_density(X, r->in[1]); }
PARTIAL(gammaincc) { return weft_neg(k == 0 ? weft_gammainc_da(X, r->in[1]) : gamma_density(X, r->in[1])); }
/* Nobody has a formula for second derivatives by the shape. */
PARTIAL(gammainc_da) {
  if (k == 0) return number(NAN);
  return weft_mul(gamma_density(X, r->in[1]), weft_sub(weft_log(r->in[1]), weft_digamma(X)));
}

/* x^(a - 1) (1 - x)^(b - 1) / B(a, b) */
static weft_array *beta_density(weft_array *a, weft_array *b, weft_array *x) {
  weft_array *power = weft_add(weft_xlogy(weft_sub(a, number(1)), x), weft_xlog1py(weft_sub(b, number(1)), weft_neg(x)));
  return weft_exp(weft_sub(power, weft_betaln(a, b)));
}
/* I_x(a, b) = 1 - I_(1-x)(b, a) */
PARTIAL(betainc) {
  weft_array *a = X, *b = r->in[1], *x = r->in[2];
  if (k == 2) return beta_density(a, b, x);
  return k == 0 ? weft_betainc_da(a, b, x) : weft_neg(weft_betainc_da(b, a, weft_sub(number(1), x)));
}
PARTIAL(betainc_da) {
  weft_array *a = X, *b = r->in[1], *x = r->in[2];
  if (k < 2) return number(NAN);
  weft_array *slope = weft_sub(weft_add(weft_log(x), weft_digamma(weft_add(a, b))), weft_digamma(a));
  return weft_mul(beta_density(a, b, x), slope);
}

BINARY(beta, FLOAT, false, DERIVATIVE)
BINARY(betaln, FLOAT, false, DERIVATIVE)
BINARY(gammainc, FLOAT, false, DERIVATIVE)
BINARY(gammaincc, FLOAT, false, DERIVATIVE)
BINARY(gammainc_da, FLOAT, false, DERIVATIVE)
TERNARY(betainc, FLOAT, false, DERIVATIVE)
TERNARY(betainc_da, FLOAT, false, DERIVATIVE)

/* ---- Their inverses: the slope of the one over that of the other ---- */

ONE_INSTRUCTION(gammaincinv, KIR_GAMMAINCINV)
ONE_INSTRUCTION(gammainccinv, KIR_GAMMAINCCINV)
ONE_INSTRUCTION(betaincinv, KIR_BETAINCINV)

PARTIAL(gammaincinv) {
  weft_array *up = k == 0 ? weft_neg(weft_gammainc_da(X, Y)) : number(1);
  return weft_div(up, gamma_density(X, Y));
}
PARTIAL(gammainccinv) {
  weft_array *up = k == 0 ? weft_gammainc_da(X, Y) : number(1);
  return weft_neg(weft_div(up, gamma_density(X, Y)));
}
PARTIAL(betaincinv) {
  weft_array *a = X, *b = r->in[1], *up = number(1);
  if (k == 0) up = weft_neg(weft_betainc_da(a, b, Y));
  if (k == 1) up = weft_betainc_da(b, a, weft_sub(number(1), Y));
  return weft_div(up, beta_density(a, b, Y));
}

BINARY(gammaincinv, FLOAT, false, DERIVATIVE)
BINARY(gammainccinv, FLOAT, false, DERIVATIVE)
TERNARY(betaincinv, FLOAT, false, DERIVATIVE)

/* ---- The normal distribution and probabilities ---- */

ONE_INSTRUCTION(erfcx, KIR_ERFCX)
ONE_INSTRUCTION(erfcinv, KIR_ERFCINV)
ONE_INSTRUCTION(ndtr, KIR_NDTR)
ONE_INSTRUCTION(ndtri, KIR_NDTRI)
ONE_INSTRUCTION(log_ndtr, KIR_LOG_NDTR)
ONE_INSTRUCTION(log1mexp, KIR_LOG1MEXP)
ONE_INSTRUCTION(logit, KIR_LOGIT)
ONE_INSTRUCTION(xlogy, KIR_XLOGY)
ONE_INSTRUCTION(xlog1py, KIR_XLOG1PY)

PARTIAL(erfcx) { return (void)k, weft_sub(weft_mul(weft_mul(X, number(2)), Y), number(1.1283791670955126)); }
PARTIAL(erfcinv) { return (void)k, weft_mul(number(-0.8862269254527580), weft_exp(weft_mul(Y, Y))); }
PARTIAL(ndtr) { return (void)k, weft_mul(number(0.3989422804014327), weft_exp(weft_neg(half_square(X)))); }
PARTIAL(ndtri) { return (void)k, weft_mul(number(2.5066282746310002), weft_exp(half_square(Y))); }
/* The density over ndtr, without e^(-x^2 / 2) in either */
PARTIAL(log_ndtr) {
  weft_array *turned = weft_mul(X, number(-0.7071067811865476));
  return (void)k, weft_div(number(0.7978845608028654), weft_erfcx(turned));
}
PARTIAL(log1mexp) { return (void)k, weft_div(number(-1), weft_expm1(weft_neg(X))); }
PARTIAL(logit) { return (void)k, weft_div(number(1), weft_mul(X, weft_sub(number(1), X))); }
PARTIAL(xlogy) { return k == 0 ? weft_log(r->in[1]) : where_0(X, 0, weft_div(X, r->in[1])); }
PARTIAL(xlog1py) { return k == 0 ? weft_log1p(r->in[1]) : where_0(X, 0, weft_div(X, weft_add(number(1), r->in[1]))); }

ONE_INSTRUCTION(owens_t, KIR_OWENS_T)
/* By h, -1/2 the density at h times erf(a h / sqrt 2); by a, what is integrated */
PARTIAL(owens_t) {
  weft_array *h = X, *a = r->in[1], *ah = weft_mul(a, h);
  if (k == 0) {
    weft_array *density = weft_mul(number(-0.19947114020071635), weft_exp(weft_neg(half_square(h))));
    return weft_mul(density, weft_erf(weft_mul(ah, number(0.7071067811865476))));
  }
  weft_array *e = weft_exp(weft_neg(weft_add(half_square(h), half_square(ah))));
  return weft_div(weft_mul(number(0.15915494309189535), e), weft_add(number(1), weft_mul(a, a)));
}

UNARY(erfcx, FLOAT, false, DERIVATIVE)
UNARY(erfcinv, FLOAT, false, DERIVATIVE)
UNARY(ndtr, FLOAT, false, DERIVATIVE)
UNARY(ndtri, FLOAT, false, DERIVATIVE)
UNARY(log_ndtr, FLOAT, false, DERIVATIVE)
UNARY(log1mexp, FLOAT, false, DERIVATIVE)
UNARY(logit, FLOAT, false, DERIVATIVE)
BINARY(xlogy, FLOAT, false, DERIVATIVE)
BINARY(xlog1py, FLOAT, false, DERIVATIVE)
BINARY(owens_t, FLOAT, false, DERIVATIVE)

/* ---- Waves ---- */

ONE_INSTRUCTION(sinc, KIR_SINC)
ONE_INSTRUCTION(i0, KIR_I0)
ONE_INSTRUCTION(i0e, KIR_I0E)
ONE_INSTRUCTION(i1, KIR_I1)
ONE_INSTRUCTION(i1e, KIR_I1E)
ONE_INSTRUCTION(j0, KIR_J0)
ONE_INSTRUCTION(j1, KIR_J1)

/* (cos(pi x) - sinc x) / x, which near 0 is -pi^2 x / 3 (1 - (pi x)^2 / 10 (1 - (pi x)^2 / 28)) */
PARTIAL(sinc) {
  weft_array *turn = weft_mul(X, number(3.141592653589793)), *z = weft_mul(turn, turn);
  weft_array *more = weft_sub(number(1), weft_mul(weft_mul(z, number(0.1)), weft_sub(number(1), weft_div(z, number(28)))));
  weft_array *near = weft_mul(weft_mul(X, number(-3.2898681336964529)), more), *far = weft_div(weft_sub(weft_cos(turn), Y), X);
  return (void)k, weft_where(weft_lt(weft_abs(X), number(0.003)), near, far);
}
PARTIAL(i0) { return (void)k, weft_i1(X); }
PARTIAL(i1) { return (void)k, where_0(X, 0.5, weft_sub(weft_i0(X), weft_div(Y, X))); }
PARTIAL(i0e) { return (void)k, weft_sub(weft_i1e(X), weft_mul(weft_sign(X), Y)); }
PARTIAL(i1e) {
  weft_array *d = weft_sub(weft_i0e(X), weft_mul(Y, weft_add(weft_sign(X), weft_div(number(1), X))));
  return (void)k, where_0(X, 0.5, d);
}
PARTIAL(j0) { return (void)k, weft_neg(weft_j1(X)); }
PARTIAL(j1) { return (void)k, where_0(X, 0.5, weft_sub(weft_j0(X), weft_div(Y, X))); }

UNARY(sinc, FLOAT, false, DERIVATIVE)
UNARY(i0, FLOAT, false, DERIVATIVE)
UNARY(i0e, FLOAT, false, DERIVATIVE)
UNARY(i1, FLOAT, false, DERIVATIVE)
UNARY(i1e, FLOAT, false, DERIVATIVE)
UNARY(j0, FLOAT, false, DERIVATIVE)
UNARY(j1, FLOAT, false, DERIVATIVE)

/* ---- Waves of any order ---- */

ONE_INSTRUCTION(iv, KIR_IV)
ONE_INSTRUCTION(ive, KIR_IVE)
ONE_INSTRUCTION(jv, KIR_JV)
ONE_INSTRUCTION(kv, KIR_KV)
ONE_INSTRUCTION(kve, KIR_KVE)

/* Derivatives by x are half the sum, or difference, of the orders beside. Nobody has a formula for those by the order. */
static weft_array *beside(const struct rule *r, weft_array *(*f)(weft_array *, weft_array *), double sign) {
  weft_array *below = f(weft_sub(X, number(1)), r->in[1]), *above = f(weft_add(X, number(1)), r->in[1]);
  return weft_mul(number(0.5), weft_add(below, weft_mul(number(sign), above)));
}
PARTIAL(jv) { return k == 0 ? number(NAN) : beside(r, weft_jv, -1); }
PARTIAL(iv) { return k == 0 ? number(NAN) : beside(r, weft_iv, 1); }
PARTIAL(kv) { return k == 0 ? number(NAN) : weft_neg(beside(r, weft_kv, 1)); }
PARTIAL(ive) { return k == 0 ? number(NAN) : weft_sub(beside(r, weft_ive, 1), weft_mul(weft_sign(r->in[1]), Y)); }
PARTIAL(kve) { return k == 0 ? number(NAN) : weft_sub(Y, beside(r, weft_kve, 1)); }

BINARY(iv, FLOAT, false, DERIVATIVE)
BINARY(ive, FLOAT, false, DERIVATIVE)
BINARY(jv, FLOAT, false, DERIVATIVE)
BINARY(kv, FLOAT, false, DERIVATIVE)
BINARY(kve, FLOAT, false, DERIVATIVE)
