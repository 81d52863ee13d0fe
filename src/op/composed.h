/* composed.h -- what operations written with others share. */
#ifndef WEFT_COMPOSED_H
#define WEFT_COMPOSED_H
#include "op/operand.h"

/* Why nothing can be chosen along an axis, or among all: it is known to be empty. NULL: it is not. */
struct failure *empty_check(const char *fn, const struct node *x, int axis);

/* Usable, and of what has an order: no complex numbers. */
static inline bool is_ordered(const char *fn, weft_array *x, weft_array **bad) {
  if (!arrays_ok(fn, 1, &x, bad)) return false;
  bool ok = !dtype_is_complex(weft_dtype_of(x));
  if (!ok) *bad = array_failed(not_of(fn, weft_dtype_of(x)));
  return ok;
}

/* Why x has no such axis; NULL: it has, and it counts from 0. WEFT_ALL stays. */
static inline struct failure *axis_wrong(const char *fn, weft_array *x, int *axis) {
  struct node *n = array_node(x);
  struct failure *why = *axis == WEFT_ALL ? NULL : axis_check(fn, n, axis);
  node_release(n);
  return why;
}

/* Usable, with this axis: not all of them. */
static inline bool has_axis(const char *fn, weft_array *x, int *axis, weft_array **bad) {
  if (!arrays_ok(fn, 1, &x, bad)) return false;
  struct failure *why = *axis == WEFT_ALL ? fail(WEFT_ERR_SHAPE, scope_origin(), "%s: along one axis, not all", fn)
                                          : axis_wrong(fn, x, axis);
  if (why) *bad = array_failed(why);
  return !why;
}

/* x comes before y: nan is the largest. -0 and 0 are equal, and stand next to each other in what weft_sort has put in order. */
weft_array *array_before(weft_array *x, weft_array *y); /* search.c */

/* What the inside computes in: f32 at least. */
static inline weft_array *raised(weft_array *x) {
  weft_dtype d = dtype_float(weft_dtype_of(x));
  return weft_cast(x, dtype_is_narrow_float(d) ? WEFT_F32 : d);
}

/* What holds infinities beside the numbers of x: e4m3 has none. */
static inline weft_array *with_infinities(weft_array *x) { return weft_dtype_of(x) == WEFT_E4M3 ? weft_cast(x, WEFT_F32) : x; }

static inline weft_array *lowered(weft_array *y, weft_array *x) {
  return weft_cast(y, dtype_float(weft_dtype_of(x)));
}

/* The identity, as often as there are matrices in the last two axes of a. */
static inline weft_array *identity_like(weft_array *a) {
  weft_array *i = weft_iota(weft_cast(a, WEFT_I64), -1), *j = weft_iota(weft_cast(a, WEFT_I64), -2);
  return weft_cast(weft_eq(i, j), weft_dtype_of(a));
}

#endif
