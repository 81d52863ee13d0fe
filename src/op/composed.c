/* composed.c -- operations written with others. The scheduler makes them one kernel; what is here is only how to compute
 * them well: f16 and bf16 are raised to f32 and come back at the end. */
#include "op/operand.h"

/* What the inside computes in. */
static weft_array *raised(weft_array *x) {
  weft_dtype d = dtype_float(weft_dtype_of(x));
  return weft_cast(x, dtype_is_narrow_float(d) ? WEFT_F32 : d);
}

static weft_array *lowered(weft_array *y, weft_array *x) { return weft_cast(y, dtype_float(weft_dtype_of(x))); }

/* Bad in, bad out, named after the function that was called. */
static bool is_usable(const char *fn, weft_array *x, weft_array **bad) { return arrays_ok(fn, 1, &x, bad); }

/* Of what has an order: no complex numbers. */
static bool is_ordered(const char *fn, weft_array *x, weft_array **bad) {
  if (!is_usable(fn, x, bad)) return false;
  bool ok = !dtype_is_complex(weft_dtype_of(x));
  if (!ok) *bad = array_failed(not_of(fn, weft_dtype_of(x)));
  return ok;
}

static weft_array *count(weft_array *x, int axis) {
  struct node *n = array_node(x);
  return array_of(axis == WEFT_ALL ? node_size(n, -1, dim_count(n->rank, n->dims)) : node_size(n, axis, n->dims[axis]));
}

static struct failure *axis_wrong(const char *fn, weft_array *x, int *axis) {
  struct node *n = array_node(x);
  struct failure *why = *axis == WEFT_ALL ? NULL : axis_check(fn, n, axis);
  node_release(n);
  return why;
}

weft_array *weft_mean(weft_array *x, int axis) {
  weft_array *bad;
  if (!is_usable("weft_mean", x, &bad)) return bad;
  struct failure *why = axis_wrong("weft_mean", x, &axis);
  if (why) return array_failed(why);
  weft_array *a = raised(x);
  return lowered(weft_div(weft_sum(a, axis), weft_cast(count(a, axis), weft_dtype_of(a))), x);
}

/* e^(x - max) / sum: the largest exponent is 0. A row of -inf gives nan, as 0 / 0 should. */
weft_array *weft_softmax(weft_array *x, int axis) {
  weft_array *bad;
  if (!is_ordered("weft_softmax", x, &bad)) return bad;
  if (axis == WEFT_ALL) return array_bad(WEFT_ERR_SHAPE, "weft_softmax: along one axis, not all");
  struct failure *why = axis_wrong("weft_softmax", x, &axis);
  if (why) return array_failed(why);
  if (weft_dim(x, axis) == 0) return lowered(x, x);
  weft_array *a = raised(x);
  weft_array *e = weft_exp(weft_sub(a, weft_stop_gradient(weft_max(a, axis))));
  return lowered(weft_div(e, weft_sum(e, axis)), x);
}

static weft_array *last_axis_bad(const char *fn, weft_array *x, weft_array *w) {
  weft_array *bad;
  if (!is_ordered(fn, x, &bad) || (w && !is_ordered(fn, w, &bad))) return bad;
  return weft_rank(x) < 1 ? array_bad(WEFT_ERR_SHAPE, "%s: a 0-d array has no last axis", fn) : NULL;
}

/* A weight or a bias, raised, as long as x. */
static weft_array *beside(const char *fn, weft_array *w, weft_array *x) {
  struct node *n = array_node(x);
  weft_array *y = array_broadcast(fn, raised(w), n->rank, n->dims);
  node_release(n);
  return y;
}

weft_array *weft_rms_norm(weft_array *x, weft_array *w, double eps) {
  weft_array *bad = last_axis_bad("weft_rms_norm", x, w);
  if (bad) return bad;
  weft_array *a = raised(x);
  weft_array *ms = weft_mean(weft_mul(a, a), -1);
  weft_array *y = weft_mul(a, weft_rsqrt(weft_add(ms, weft_scalar(eps))));
  return lowered(w ? weft_mul(y, beside("weft_rms_norm", w, x)) : y, x);
}

weft_array *weft_layer_norm(weft_array *x, weft_array *w, weft_array *b, double eps) {
  weft_array *bad = last_axis_bad("weft_layer_norm", x, w);
  if (!bad && b) is_ordered("weft_layer_norm", b, &bad);
  if (bad) return bad;
  weft_array *a = raised(x), *d = weft_sub(a, weft_mean(a, -1));
  weft_array *y = weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), -1), weft_scalar(eps))));
  if (w) y = weft_mul(y, beside("weft_layer_norm", w, x));
  if (b) y = weft_add(y, beside("weft_layer_norm", b, x));
  return lowered(y, x);
}
