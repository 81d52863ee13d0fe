/* extent.c -- sizes that are computed: arrays as long as an integer says, slices by computed bounds, and the places where a
 * condition holds.
 *
 * An integer becomes a size by being the number of steps of a loop: its rows are as many. So everything that is true of loops
 * whose length only a run tells is true of these sizes: what depends on one is planned when it is known, in the body of a loop
 * it may be another one in every step, and rows of a map that differ in it are an error. Nothing else knows of them. */
#include "graph/dtype.h"
#include "op/composed.h"
#include "op/extent.h"
#include "op/said.h"
#include "op/sort.h"

weft_array *array_of_length(weft_array *n) {
  weft_loop *l = weft_loop_open(n);
  weft_array *rows = weft_loop_all(l, weft_cast(weft_integer(0), WEFT_U8));
  weft_loop_close(l);
  return rows;
}

/* 0, 1, .. as many as n says. */
static weft_array *places_below(weft_array *n) {
  weft_array *rows = array_of_length(n), *size = weft_size(rows, 0);
  if (weft_check(rows)) return rows;
  struct node like = { .dtype = WEFT_I64, .rank = 1, .dims = rows->node->dims };
  return weft_iota(weft_depends(zeros_of(&like), 1, &size), 0);
}

/* ---- Slices ---- */

static const char fn[] = "weft_cut";

static weft_array *number(int64_t n) { return weft_cast(weft_integer(n), WEFT_I64); }

/* A bound or a step as i64, not further from 0 than any size is. */
static weft_array *near(weft_array *b) {
  const int64_t far = (int64_t)1 << 61;
  if (weft_dtype_of(b) == WEFT_U64) b = weft_minimum(b, weft_integer(far));
  return weft_clip(weft_cast(b, WEFT_I64), number(-far), number(far));
}

static struct failure *bound_check(weft_array *b, const char *what) {
  if (!b) return NULL;
  struct node *n = array_node(b);
  struct shape_text s;
  struct failure *why = NULL;
  if (n->op == &op_bad) why = failure_retain(n->failure);
  else if (n->rank || !dtype_is_integer(n->dtype) || n->dtype == WEFT_BOOL)
    why = fail(WEFT_ERR_ARG, scope_origin(), "%s: the %s is %s %s, not a 0-d integer", fn, what, weft_dtype_name(n->dtype),
               shape_show(n, &s));
  node_release(n);
  return why;
}

/* Where a bound is, counted from the front and cut to fit: 0 .. size, or -1 .. size - 1 going down. */
static weft_array *cut_bound(weft_array *b, weft_array *size, weft_array *is_down) {
  weft_array *i = near(b), *low = weft_where(is_down, number(-1), number(0));
  i = weft_where(weft_lt(i, number(0)), weft_add(i, size), i);
  return weft_clip(i, low, weft_add(size, low));
}

/* Steps of 0 are as many as no loop makes. */
static weft_array *length_of(weft_array *from, weft_array *to, weft_array *step, weft_array *is_down) {
  weft_array *span = weft_where(is_down, weft_sub(from, to), weft_sub(to, from)), *stride = weft_abs(step);
  weft_array *n = weft_add(weft_floor_divide(weft_sub(span, number(1)), weft_maximum(stride, number(1))), number(1));
  return weft_where(weft_eq(stride, number(0)), number(-1), weft_where(weft_le(span, number(0)), number(0), n));
}

static weft_array *cut_open(weft_array *x, int axis, weft_array *start, weft_array *stop, weft_array *step) {
  weft_array *size = weft_size(x, axis), *by = step ? near(step) : number(1), *is_down = weft_lt(by, number(0));
  weft_array *low = weft_where(is_down, number(-1), number(0)), *high = weft_add(size, low);
  weft_array *from = start ? cut_bound(start, size, is_down) : weft_where(is_down, high, low);
  weft_array *to = stop ? cut_bound(stop, size, is_down) : weft_where(is_down, low, high);
  weft_array *index = weft_add(from, weft_mul(places_below(length_of(from, to, by, is_down)), by));
  return weft_moveaxis(array_take(weft_moveaxis(x, axis, 0), 1, &index, BY_TAKE), 0, axis);
}

/* A bound that is a number, or left out. */
static bool is_number(weft_array *b, int64_t otherwise, int64_t *value) {
  *value = otherwise;
  return !b || known_integer(b, value);
}

/* What sizes say of a bound; numbers not further from 0 than any size is. */
static dim said_near(weft_array *b) {
  const int64_t far = (int64_t)1 << 60;
  dim d = array_bound(b);
  int64_t n;
  return dim_is_integer(d, &n) && (n > far || n < -far) ? dim_integer(n < 0 ? -far : far) : d;
}

/* A slice by bounds that are expressions of sizes. Where these are not sizes of x itself the slice depends on the arrays that tell
 * them. */
static weft_array *cut_said(weft_array *x, int axis, weft_array *start, weft_array *stop, int64_t step) {
  weft_array *on[] = { start, stop };
  dim said[2];
  struct node *n = array_node(x);
  for (int k = 0; k < 2; k++) {
    said[k] = on[k] ? said_near(on[k]) : 0;
    if (on[k] && said[k] != DIM_BAD && !dim_mentions_only(said[k], n->rank, n->dims)) x = weft_depends(x, 1, &on[k]);
    else x = array_said_by(x, on[k]);
  }
  node_release(n);
  if (said[0] == DIM_BAD || said[1] == DIM_BAD) return NULL;
  return array_cut(fn, x, axis, start ? &said[0] : NULL, stop ? &said[1] : NULL, step);
}

static weft_array *cut(weft_array *x, int axis, weft_array *start, weft_array *stop, weft_array *step) {
  struct node *n;
  weft_array *bad;
  int64_t from, to, by;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check(fn, n, &axis);
  node_release(n);
  if (!why) why = bound_check(start, "start");
  if (!why) why = bound_check(stop, "stop");
  if (!why) why = bound_check(step, "step");
  if (why) return array_failed(why);
  if (is_number(step, 1, &by) && by == 0) return array_bad(WEFT_ERR_ARG, "%s: the step is 0", fn);
  if (!is_number(step, 1, &by)) return cut_open(x, axis, start, stop, step);
  if (is_number(start, by < 0 ? WEFT_END : WEFT_BEGIN, &from) && is_number(stop, by < 0 ? WEFT_BEGIN : WEFT_END, &to))
    return weft_slice(x, axis, from, to, by);
  weft_array *slice = cut_said(x, axis, start, stop, by);
  return slice ? slice : cut_open(x, axis, start, stop, step);
}

weft_array *weft_cut(weft_array *x, int axis, weft_array *start, weft_array *stop, weft_array *step) {
  return COMPOSED(cut(x, axis, start, stop, step));
}

/* ---- Where a condition holds ---- */

static weft_array *flat(weft_array *x) { return weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }); }

/* A stable sort puts the places where it holds first, as they stand; the others are left out. */
static weft_array *flatnonzero(weft_array *x) {
  weft_array *holds = flat(weft_cast(x, WEFT_BOOL)), *order = places_of_zeros(weft_cast(weft_logical_not(holds), WEFT_U8));
  weft_array *index = places_below(weft_sum(weft_cast(holds, WEFT_I64), WEFT_ALL));
  return array_take(order, 1, &index, BY_TAKE);
}

weft_array *weft_flatnonzero(weft_array *x) { return COMPOSED(flatnonzero(x)); }

void weft_nonzero(weft_array *x, weft_array *index[]) {
  int rank = weft_rank(x);
  if (rank <= 0 || !has_list("weft_nonzero", rank, index)) return;
  weft_array *place = weft_flatnonzero(x);
  for (int k = rank - 1; k >= 0; k--) {
    weft_array *size = weft_maximum(weft_size(x, k), number(1));
    index[k] = k ? weft_remainder(place, size) : place;
    if (k) place = weft_floor_divide(place, size);
  }
}

/* Why a mask does not stand over the first axes of x; NULL: it does, or that is taken on trust. */
static struct failure *mask_check(const struct node *x, const struct node *mask) {
  struct shape_text a, b;
  bool fits = mask->rank >= 1 && mask->rank <= x->rank && mask->dtype == WEFT_BOOL;
  for (int k = 0; fits && k < mask->rank; k++)
    fits = sizes_meet("weft_compress", dim_resolve(x->dims[k]), dim_resolve(mask->dims[k]));
  if (fits) return NULL;
  return fail(mask->dtype == WEFT_BOOL ? WEFT_ERR_SHAPE : WEFT_ERR_DTYPE, scope_origin(),
              "weft_compress: the mask is %s %s, and x %s: bools over its first axes are wanted", weft_dtype_name(mask->dtype),
              shape_show(mask, &b), shape_show(x, &a));
}

static weft_array *compress(weft_array *x, weft_array *mask) {
  struct node *n[2];
  weft_array *bad;
  if (!operands("weft_compress", 2, (weft_array *[]){ x, mask }, n, &bad)) return bad;
  int rank = n[1]->rank;
  struct failure *why = mask_check(n[0], n[1]);
  for (int k = 0; !why && k < rank; k++) mask = array_with_size(mask, k, n[0]->dims[k]);
  nodes_release(2, n);
  if (why) return array_failed(why);
  weft_array *place = weft_flatnonzero(mask);
  return array_take(weft_flatten(x, 0, rank - 1), 1, &place, BY_TAKE);
}

weft_array *weft_compress(weft_array *x, weft_array *mask) { return COMPOSED(compress(x, mask)); }

/* ---- What there is of each ---- */

static weft_array *is_nan(weft_array *x) { return weft_ne(x, x); }

/* -0 as 0, to which it is equal. */
static weft_array *without_minus_0(weft_array *x) { return dtype_is_float(weft_dtype_of(x)) ? weft_add(x, number_like(x, 0)) : x; }

weft_array *weft_unique(weft_array *x, weft_array **first, weft_array **inverse, weft_array **counts) {
  weft_array *bad, *all = is_ordered("weft_unique", x, &bad) ? flat(x) : bad;
  weft_array *order = weft_argsort(without_minus_0(all), 0), *sorted = array_take(all, 1, &order, BY_TAKE);
  weft_array *before = weft_roll(sorted, 0, 1), *place = weft_iota(order, 0);
  weft_array *differs = weft_ne(sorted, before);
  differs = weft_logical_and(differs, weft_logical_not(weft_logical_and(is_nan(sorted), is_nan(before))));
  weft_array *is_first = weft_logical_or(weft_eq(place, number(0)), differs), *at = weft_flatnonzero(is_first);
  if (first) *first = array_take(order, 1, &at, BY_TAKE);
  if (inverse) {
    weft_array *group = weft_sub(weft_cumsum(weft_cast(is_first, WEFT_I64), 0), number(1)), *zeros = weft_full_like(order, 0);
    *inverse = weft_put(zeros, weft_take(zeros, 1, &order), group, WEFT_SET);
  }
  if (counts) {
    weft_array *ends = weft_concat(0, WEFT_ARRAYS(at, weft_unsqueeze(weft_size(all, 0), 0)));
    *counts = weft_sub(weft_slice(ends, 0, 1, WEFT_END, 1), at);
  }
  return array_take(sorted, 1, &at, BY_TAKE);
}
