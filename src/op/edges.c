/* edges.c -- an array with more elements before and after an axis that continue it: its own again, or what leads from them to a
 * number. */
#include <math.h>
#include "op/composed.h"
#include "op/index.h"

/* Places of the elements at -before .. n + after - 1; outside they repeat. */
static weft_array *places(weft_padding how, weft_array *i, weft_array *n) {
  weft_array *one = weft_integer(1), *none = weft_integer(0);
  if (how == WEFT_PAD_EDGE) return weft_maximum(weft_minimum(i, weft_sub(n, one)), none);
  if (how == WEFT_PAD_WRAP) return weft_remainder(i, n);
  weft_array *twice = weft_integer(how == WEFT_PAD_SYMMETRIC); /* whether the last one comes twice */
  weft_array *period = weft_maximum(weft_mul(weft_integer(2), weft_add(weft_sub(n, one), twice)), one);
  weft_array *at = weft_remainder(i, period);
  return weft_minimum(at, weft_sub(weft_sub(period, twice), at));
}

/* -before .. n + after - 1 as a vector, known or not. */
static weft_array *counted(weft_array *x, int axis, int64_t before, int64_t after) {
  struct node *n = array_node(x), like = { .dtype = WEFT_I64, .rank = 1, .dims = &n->dims[axis] };
  weft_array *line = array_sized_by(zeros_of(&like), x);
  node_release(n);
  weft_array *longer = weft_pad(line, 0, before, after, weft_integer(0));
  return weft_sub(weft_iota(longer, 0), weft_integer(before));
}

static weft_array *taken(weft_array *x, int axis, weft_array *at) {
  return weft_moveaxis(array_take(weft_moveaxis(x, axis, 0), 1, &at, BY_PAD), 0, axis);
}

static weft_array *standing(weft_array *v, weft_array *x, int axis) {
  for (int k = axis + 1; k < weft_rank(x); k++) v = weft_unsqueeze(v, -1);
  return v;
}

/* Padding that goes in equal steps from the element at the edge to the number `end`, which the outermost element has. */
static weft_array *ramp(weft_array *x, int axis, int64_t before, int64_t after, weft_array *end) {
  weft_dtype d = weft_dtype_of(x), in = dtype_is_float(d) || dtype_is_complex(d) ? d : WEFT_F64;
  weft_array *i = counted(x, axis, before, after), *n = weft_size(x, axis), *at = places(WEFT_PAD_EDGE, i, n);
  weft_array *edge = weft_cast(taken(x, axis, at), in);
  weft_array *out = weft_maximum(weft_neg(i), weft_sub(weft_add(i, weft_integer(1)), n)); /* how far outside; 0 and less: inside */
  weft_array *width = weft_where(weft_lt(i, weft_integer(0)), weft_integer(before ? before : 1), weft_integer(after ? after : 1));
  weft_array *part = weft_div(weft_cast(weft_maximum(out, weft_integer(0)), WEFT_F64), weft_cast(width, WEFT_F64));
  part = standing(weft_cast(part, dtype_part(in)), x, axis);
  weft_array *y = weft_add(edge, weft_mul(weft_sub(weft_cast(end, in), edge), part));
  weft_array *is_out = standing(weft_gt(out, weft_integer(0)), x, axis);
  if (in != d) y = weft_floor(y);
  return weft_where(is_out, weft_cast(y, d), weft_cast(edge, d));
}

/* The same number everywhere outside: a fold of all that is inside. A size that was open may turn out to be 0. */
static weft_array *around(weft_array *x, int axis, int64_t before, int64_t after, weft_array *fold(weft_array *, int)) {
  weft_array *y = fold(x, axis), *has_some = weft_gt(weft_size(x, axis), weft_integer(0));
  if (!dim_is_known(x->node->dims[axis]))
    y = array_assert(y, has_some, WEFT_ERR_SHAPE, "weft_pad_with: an axis is empty: there is nothing to continue");
  weft_dtype d = weft_dtype_of(x);
  if (weft_dtype_of(y) != d) y = weft_cast(dtype_is_inexact(d) ? y : weft_round(y), d);
  weft_array *part[3], *in[] = { weft_repeat(y, axis, before), x, weft_repeat(y, axis, after) };
  int n = 0;
  for (int k = 0; k < 3; k++)
    if (k == 1 || (k == 0 ? before : after)) part[n++] = in[k];
  return n > 1 ? weft_concat(axis, n, part) : array_apart(x);
}

weft_array *weft_pad_with(weft_array *x, int axis, int64_t before, int64_t after, weft_padding how, weft_array *end) {
  static const char fn[] = "weft_pad_with";
  weft_array *bad;
  if (!has_axis(fn, x, &axis, &bad) || (end && !arrays_ok(fn, 1, &end, &bad))) return bad;
  if (before < 0 || after < 0)
    return array_bad(WEFT_ERR_ARG, "%s: %lld before and %lld after", fn, (long long)before, (long long)after);
  if ((unsigned)how > WEFT_PAD_MEAN) return array_bad(WEFT_ERR_ARG, "%s: there is no way %d", fn, (int)how);
  if (end && weft_rank(end)) return array_bad(WEFT_ERR_SHAPE, "%s: the end is no number: it has %d axes", fn, weft_rank(end));
  if (!before && !after) return array_apart(x);
  struct node *n = array_node(x);
  bool is_empty = n->dims[axis] == 0;
  node_release(n);
  if (is_empty) return array_bad(WEFT_ERR_SHAPE, "%s: axis %d is empty: there is nothing to continue", fn, axis);
  if ((how == WEFT_PAD_MAX || how == WEFT_PAD_MIN) && !is_ordered(fn, x, &bad)) return bad;
  switch (how) {
    case WEFT_PAD_RAMP: return ramp(x, axis, before, after, end ? end : weft_integer(0));
    case WEFT_PAD_MAX: return around(x, axis, before, after, weft_max);
    case WEFT_PAD_MIN: return around(x, axis, before, after, weft_min);
    case WEFT_PAD_MEAN: return around(x, axis, before, after, weft_mean);
    case WEFT_PAD_EDGE: case WEFT_PAD_REFLECT: case WEFT_PAD_SYMMETRIC: case WEFT_PAD_WRAP: break;
  }
  return taken(x, axis, places(how, counted(x, axis, before, after), weft_size(x, axis)));
}
