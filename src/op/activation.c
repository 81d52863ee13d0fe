/* activation.c -- functions of one element written with others; f16 and bf16 are raised to f32 and come back at the end. */
#include "op/composed.h"

/* x where it is not above 0 would hide a nan: 0 where it is at most 0. */
static weft_array *relu(weft_array *x) {
  weft_array *bad, *zero;
  if (!is_ordered("weft_relu", x, &bad)) return bad;
  zero = number_like(x, 0);
  return weft_where(weft_le(x, zero), zero, x);
}

weft_array *weft_relu(weft_array *x) { return COMPOSED(relu(x)); }

static weft_array *silu(weft_array *x) {
  weft_array *bad, *a;
  if (!is_ordered("weft_silu", x, &bad)) return bad;
  a = raised(x);
  return lowered(weft_mul(a, weft_sigmoid(a)), x);
}

weft_array *weft_silu(weft_array *x) { return COMPOSED(silu(x)); }

/* erfc keeps the digits that 1 + erf loses far below 0. */
static weft_array *gelu(weft_array *x) {
  weft_array *bad, *a;
  if (!is_ordered("weft_gelu", x, &bad)) return bad;
  a = raised(x);
  weft_array *tail = weft_erfc(weft_mul(a, weft_scalar(-0.70710678118654752440)));
  return lowered(weft_mul(weft_mul(a, weft_scalar(0.5)), tail), x);
}

weft_array *weft_gelu(weft_array *x) { return COMPOSED(gelu(x)); }

/* (1 + tanh u) / 2 = sigmoid 2u, which keeps the digits that 1 + tanh loses far below 0. */
static weft_array *gelu_approx(weft_array *x) {
  weft_array *bad, *a;
  if (!is_ordered("weft_gelu_approx", x, &bad)) return bad;
  a = raised(x);
  weft_array *cubic = weft_mul(weft_mul(weft_mul(a, a), a), weft_scalar(0.044715));
  weft_array *bend = weft_sigmoid(weft_mul(weft_add(a, cubic), weft_scalar(1.59576912160573071176)));
  return lowered(weft_mul(a, bend), x);
}

weft_array *weft_gelu_approx(weft_array *x) { return COMPOSED(gelu_approx(x)); }

/* max(x, 0) + log(1 + e^-|x|), written so that derivatives at 0 are those from below, which are those of softplus. */
static weft_array *softplus(weft_array *x) {
  weft_array *bad, *a;
  if (!is_ordered("weft_softplus", x, &bad)) return bad;
  a = raised(x);
  weft_array *is_above = weft_gt(a, number_like(a, 0)), *size = weft_where(is_above, a, weft_neg(a));
  weft_array *above = weft_where(is_above, a, number_like(a, 0));
  return lowered(weft_add(above, weft_log1p(weft_exp(weft_neg(size)))), x);
}

weft_array *weft_softplus(weft_array *x) { return COMPOSED(softplus(x)); }

/* A missing bound is none. */
static weft_array *clip(weft_array *x, weft_array *low, weft_array *high) {
  weft_array *all[3] = { x }, *bad;
  int n = 1;
  if (low) all[n++] = low;
  if (high) all[n++] = high;
  if (!arrays_ok("weft_clip", n, all, &bad)) return bad;
  weft_array *y = low ? element("weft_clip", &op_maximum, NUMBER, 2, (weft_array *[]){ x, low }) : array_of(array_node(x));
  return high ? element("weft_clip", &op_minimum, NUMBER, 2, (weft_array *[]){ y, high }) : y;
}

weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high) { return COMPOSED(clip(x, low, high)); }
