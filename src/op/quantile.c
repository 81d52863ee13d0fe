/* quantile.c -- medians and quantiles along an axis: elements of certain ranks, and what lies between two of them.
 *
 * Of n elements in order, quantile q stands at a place v = n q + a + (1 - a - b) q - 1, which is mostly between two elements; the
 * methods differ in a, in b, and in what they do about the distance from the element before, g = v - floor(v). Places are computed
 * in f64. A NaN among the elements makes the result NaN; those that leave NaN out count the others. */
#include <math.h>
#include "op/composed.h"
#include "op/index.h"
#include "op/select.h"

/* Checked, on the last axis, with all axes as one if need be. NULL: *bad. */
static weft_array *turned(const char *fn, weft_array *x, int *axis, weft_array **bad) {
  struct node *n;
  if (!operands(fn, 1, &x, &n, bad)) return NULL;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : NULL;
  dim count = dim_count(n->rank, n->dims);
  if (!why && *axis == WEFT_ALL) n = node_reshape(n, 1, &count);
  if (!n) return *bad = array_of(NULL), NULL;
  if (!why && *axis != WEFT_ALL) why = axis_check(fn, n, axis);
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  return weft_moveaxis(array_of(n), *axis == WEFT_ALL ? 0 : *axis, -1);
}

static weft_array *back(weft_array *y, int axis) { return axis == WEFT_ALL ? weft_squeeze(y, 0) : weft_moveaxis(y, -1, axis); }

static bool is_none(weft_array *x) {
  struct node *n = array_node(x);
  bool none = n->dims[n->rank - 1] == 0;
  node_release(n);
  return none;
}

static weft_array *no_number(weft_array *y) { return number_like(y, NAN); }

/* nan in rows of x that have a nan. */
static weft_array *spoilt(weft_array *y, weft_array *x) {
  if (!dtype_is_float(weft_dtype_of(x))) return y;
  return weft_where(weft_any(weft_isnan(x), -1), no_number(y), y);
}

/* [.., 1] or 0-d, i64: how many elements count. */
static weft_array *counted(weft_array *x, bool skips_nan) {
  if (!skips_nan || !dtype_is_float(weft_dtype_of(x))) return weft_size(x, -1);
  return weft_sum(weft_cast(weft_not(weft_isnan(x)), WEFT_I64), -1);
}

/* Nothing has no middle: an empty row is nan. */
static weft_array *nothing_like(weft_array *x) {
  weft_array *zero = weft_sum(weft_cast(x, dtype_float(weft_dtype_of(x))), -1);
  return weft_add(zero, no_number(zero));
}

/* ---- the middle ---- */

static weft_array *mean_of_two(weft_array *low, weft_array *high) {
  weft_array *a = raised(low), *b = raised(high);
  return weft_where(weft_eq(a, b), a, weft_div(weft_add(a, b), number_like(a, 2)));
}

static weft_array *median(weft_array *x, int axis) {
  weft_array *bad, *last = turned("weft_median", x, &axis, &bad), *two[2];
  if (!last) return bad;
  if (is_none(last)) return back(nothing_like(last), axis);
  array_select(last, &(struct select_attr){ .times = 1, .plus = -1, .over = 2, .count = 2 }, two);
  weft_array *low = weft_slice(two[0], -1, 0, 1, 1), *high = weft_slice(two[0], -1, 1, 2, 1), *n = weft_size(last, -1);
  weft_array *is_odd = weft_eq(weft_and(n, weft_integer(1)), weft_integer(1));
  weft_array *y = mean_of_two(low, weft_where(is_odd, low, high));
  y = weft_where(weft_eq(n, weft_integer(0)), no_number(y), y);
  return back(lowered(spoilt(y, last), last), axis);
}

static weft_array *nanmedian(weft_array *x, int axis) {
  weft_array *bad, *last = turned("weft_nanmedian", x, &axis, &bad);
  if (!last) return bad;
  if (is_none(last)) return back(nothing_like(last), axis);
  weft_array *sorted = weft_sort(last, -1), *n = counted(last, true), *one = weft_integer(1), *none = weft_integer(0);
  while (weft_rank(n) >= 0 && weft_rank(n) < weft_rank(last)) n = weft_unsqueeze(n, 0);
  weft_array *low = array_standing_at(sorted, weft_maximum(weft_shr(weft_sub(n, one), one), none));
  weft_array *high = array_standing_at(sorted, weft_shr(n, one));
  weft_array *is_odd = weft_eq(weft_and(n, one), one), *y = mean_of_two(low, weft_where(is_odd, low, high));
  return back(lowered(weft_where(weft_eq(n, none), no_number(y), y), last), axis);
}

weft_array *weft_median(weft_array *x, int axis) { return COMPOSED(median(x, axis)); }
weft_array *weft_nanmedian(weft_array *x, int axis) { return COMPOSED(nanmedian(x, axis)); }

/* ---- quantiles ---- */

enum at { BETWEEN, BEFORE, BEHIND, NEXT, IN_THE_MIDDLE, AVERAGE, INVERTED, CLOSEST };
static const struct method { double a, b; enum at at; } methods[] = {
  [WEFT_LINEAR] = { 1, 1, BETWEEN }, [WEFT_LOWER] = { 1, 1, BEFORE }, [WEFT_HIGHER] = { 1, 1, BEHIND },
  [WEFT_NEAREST] = { 1, 1, NEXT }, [WEFT_MIDPOINT] = { 1, 1, IN_THE_MIDDLE }, [WEFT_INVERTED_CDF] = { 0, 1, INVERTED },
  [WEFT_AVERAGED_INVERTED_CDF] = { 0, 1, AVERAGE }, [WEFT_CLOSEST_OBSERVATION] = { -0.5, 1.5, CLOSEST },
  [WEFT_INTERPOLATED_INVERTED_CDF] = { 0, 1, BETWEEN }, [WEFT_HAZEN] = { 0.5, 0.5, BETWEEN }, [WEFT_WEIBULL] = { 0, 0, BETWEEN },
  [WEFT_MEDIAN_UNBIASED] = { 1 / 3.0, 1 / 3.0, BETWEEN }, [WEFT_NORMAL_UNBIASED] = { 3 / 8.0, 3 / 8.0, BETWEEN },
};

static weft_array *exactly(double x) { return weft_cast(weft_scalar(x), WEFT_F64); }

/* v, of f64 n and q. With a = b = 1 it is (n - 1) q, rounded once. */
static weft_array *place_of(const struct method *m, weft_array *n, weft_array *q) {
  if (m->a == 1) return weft_mul(weft_sub(n, exactly(1)), q);
  weft_array *v = weft_mul(n, q);
  if (m->a || m->b != 1 - m->a) v = weft_add(v, weft_add(exactly(m->a), weft_mul(q, exactly(1 - m->a - m->b))));
  return weft_sub(v, exactly(1));
}

/* The place of the element before, and how far to go from there: 0 .. 1. */
static void divide(enum at at, weft_array *v, weft_array **before, weft_array **g) {
  weft_array *low = weft_floor(v), *past = weft_sub(v, low), *zero = exactly(0), *one = exactly(1), *half = exactly(0.5);
  weft_array *is_there = weft_eq(past, zero);
  *before = low, *g = past;
  switch (at) {
    case BETWEEN: return;
    case BEFORE: *g = weft_where(is_there, zero, zero); return;
    case BEHIND: case INVERTED: *g = weft_where(is_there, zero, one); return;
    case NEXT: *before = weft_round(v), *g = weft_where(is_there, zero, zero); return;
    case IN_THE_MIDDLE: *g = weft_where(is_there, zero, half); return;
    case AVERAGE: *g = weft_where(is_there, half, one); return;
    case CLOSEST: *g = weft_where(weft_and(is_there, weft_eq(weft_remainder(low, exactly(2)), one)), zero, one); return;
  }
}

/* Between two values: from the nearer one, so that the ends are exact. */
static weft_array *between(weft_array *a, weft_array *b, weft_array *g) {
  weft_array *d = weft_sub(b, a), *from_a = weft_add(a, weft_mul(d, g));
  weft_array *from_b = weft_sub(b, weft_mul(d, weft_sub(number_like(g, 1), g)));
  weft_array *is_a = weft_or(weft_eq(a, b), weft_eq(g, number_like(g, 0)));
  return weft_where(is_a, a, weft_where(weft_lt(g, number_like(g, 0.5)), from_a, from_b));
}

static bool chooses_one(enum at at) { return at == BEFORE || at == BEHIND || at == NEXT || at == INVERTED || at == CLOSEST; }

static weft_array *quantile_of(weft_array *last, weft_array *q, const struct method *m, bool skips_nan) {
  weft_array *count = counted(last, skips_nan), *n = weft_cast(count, WEFT_F64), *before, *g;
  weft_array *end = weft_sub(count, weft_integer(1));
  divide(m->at, place_of(m, n, q), &before, &g);
  weft_array *sorted = weft_sort(last, -1), *none = weft_cast(weft_integer(0), WEFT_I64), *at = weft_cast(before, WEFT_I64);
  weft_array *low = array_standing_at(sorted, weft_maximum(weft_minimum(at, end), none));
  weft_array *high = array_standing_at(sorted, weft_maximum(weft_minimum(weft_add(at, weft_integer(1)), end), none)), *y;
  if (chooses_one(m->at)) y = weft_where(weft_eq(g, exactly(0)), low, high);
  else y = between(raised(low), raised(high), weft_cast(g, weft_dtype_of(raised(low))));
  if (!dtype_is_float(weft_dtype_of(y))) return y;
  if (!skips_nan) y = spoilt(y, last);
  return weft_where(weft_or(weft_isnan(q), weft_eq(count, weft_integer(0))), no_number(y), y);
}

static struct failure *quantile_check(const char *fn, const struct node *q, weft_quantile_method method) {
  struct shape_text s;
  if ((unsigned)method > WEFT_NORMAL_UNBIASED)
    return fail(WEFT_ERR_ARG, scope_origin(), "%s: there is no method %d", fn, (int)method);
  if (dtype_is_complex(q->dtype)) return not_of(fn, (weft_dtype)q->dtype);
  if (q->rank > 1) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: q has one axis at most, not %s", fn, shape_show(q, &s));
  double x = q->op == &op_scalar ? dtype_decode(WEFT_F64, scalar_bits(q, WEFT_F64)) : 0;
  return x >= 0 && x <= 1 ? NULL : fail(WEFT_ERR_ARG, scope_origin(), "%s: q is %g, not in [0, 1]", fn, x);
}

/* q as f64 [m], nan where it is none. NULL: *bad. */
static weft_array *shares(const char *fn, weft_array *q, weft_quantile_method method, weft_array **bad) {
  struct node *n;
  if (!arrays_nodes(fn, 1, &q, &n, bad)) return NULL;
  struct failure *why = quantile_check(fn, n, method);
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  weft_array *x = weft_cast(array_of(n), WEFT_F64);
  if (weft_rank(x) == 0) x = weft_unsqueeze(x, 0);
  return weft_where(weft_and(weft_ge(x, exactly(0)), weft_le(x, exactly(1))), x, exactly(NAN));
}

/* The shares of integers, of which one is chosen, and none is nan. */
static weft_array *exact_shares(weft_array *q, weft_array *x, bool skips_nan) {
  weft_array *has_some = weft_gt(weft_size(x, -1), weft_integer(0));
  q = array_assert(q, weft_eq(q, q), WEFT_ERR_ARG, skips_nan ? "weft_nanquantile: a q is not in [0, 1], and no integer is nan"
                                                             : "weft_quantile: a q is not in [0, 1], and no integer is nan");
  return array_assert(q, has_some, WEFT_ERR_SHAPE, skips_nan ? "weft_nanquantile: nothing to choose from along an axis"
                                                             : "weft_quantile: nothing to choose from along an axis");
}

static weft_array *quantile(const char *fn, weft_array *x, weft_array *q, int axis, weft_quantile_method method, bool skips_nan) {
  weft_array *bad, *last = turned(fn, x, &axis, &bad);
  if (!last) return bad;
  weft_array *each = shares(fn, q, method, &bad);
  if (!each) return bad;
  if (weft_rank(last) < 1) return last;
  bool is_whole = chooses_one(methods[method].at) && !dtype_is_float(weft_dtype_of(last));
  struct failure *why = is_whole ? empty_check(fn, last->node, -1 + weft_rank(last)) : NULL;
  if (why) return array_failed(why);
  if (is_whole) each = exact_shares(each, last, skips_nan);
  weft_array *y = is_none(last) ? weft_add(nothing_like(last), weft_cast(weft_mul(each, exactly(0)), dtype_float(weft_dtype_of(x))))
                                : quantile_of(last, each, &methods[method], skips_nan);
  if (!chooses_one(methods[method].at)) y = lowered(y, last);
  if (axis != WEFT_ALL) return weft_moveaxis(y, -1, axis);
  return weft_rank(q) == 0 ? weft_squeeze(y, 0) : y;
}

weft_array *weft_quantile(weft_array *x, weft_array *q, int axis, weft_quantile_method m) {
  return COMPOSED(quantile("weft_quantile", x, q, axis, m, false));
}
weft_array *weft_nanquantile(weft_array *x, weft_array *q, int axis, weft_quantile_method m) {
  return COMPOSED(quantile("weft_nanquantile", x, q, axis, m, true));
}
