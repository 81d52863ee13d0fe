/* masked.c -- exponentials of those elements that a mask lets count: the others are -inf inside, and 0 or -inf in the result, also
 * where none counts. */
#include <math.h>
#include "op/composed.h"

typedef weft_array *along(weft_array *, int axis);

static weft_array *counted(const char *fn, along *of, weft_array *x, weft_array *mask, int axis, bool keeps, double otherwise) {
  weft_array *bad;
  if (!is_ordered(fn, x, &bad) || !is_ordered(fn, mask, &bad)) return bad;
  struct failure *why = axis == WEFT_ALL && keeps ? fail(WEFT_ERR_SHAPE, scope_origin(), "%s: along one axis, not all", fn)
                                                  : axis_wrong(fn, x, &axis);
  struct node *n = array_node(x);
  if (!why) mask = array_broadcast(fn, weft_cast(mask, WEFT_BOOL), n->rank, n->dims);
  node_release(n);
  if (why || weft_check(mask)) return why ? array_failed(why) : mask;
  weft_array *a = with_infinities(weft_cast(x, dtype_float(weft_dtype_of(x))));
  weft_array *y = of(weft_where(mask, a, number_like(a, -INFINITY)), axis);
  return lowered(weft_where(keeps ? mask : weft_any(mask, axis), y, number_like(y, otherwise)), x); /* no tangent but 0 there */
}

weft_array *weft_softmax_where(weft_array *x, weft_array *mask, int axis) {
  return counted("weft_softmax_where", weft_softmax, x, mask, axis, true, 0);
}
weft_array *weft_log_softmax_where(weft_array *x, weft_array *mask, int axis) {
  return counted("weft_log_softmax_where", weft_log_softmax, x, mask, axis, true, -INFINITY);
}
weft_array *weft_logsumexp_where(weft_array *x, weft_array *mask, int axis) {
  return counted("weft_logsumexp_where", weft_logsumexp, x, mask, axis, false, -INFINITY);
}
