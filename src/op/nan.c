/* nan.c -- functions that leave nan out, and what takes its place. Composed: where x is nan it is replaced by what changes nothing,
 * and what is left is counted. Without nan, and of integers, they are the functions they are named after. */
#include <float.h>
#include <math.h>
#include "op/composed.h"

typedef weft_array *along(weft_array *, int axis);

static bool may_be_nan(weft_array *x) { return dtype_is_inexact(weft_dtype_of(x)); }

/* x with a number where it is nan. */
static weft_array *replaced(weft_array *x, double by) {
  return may_be_nan(x) ? weft_where(weft_isnan(x), number_like(x, by), x) : x;
}

/* x is usable, with an axis it has, and of those that choose with an element: the message is fn's. */
static bool fits(const char *fn, weft_array *x, int *axis, bool chooses, weft_array **bad) {
  if (chooses ? !is_ordered(fn, x, bad) : !arrays_ok(fn, 1, &x, bad)) return false;
  struct failure *why = axis_wrong(fn, x, axis);
  if (!why && chooses) why = empty_check(fn, x->node, *axis);
  if (why) *bad = array_failed(why);
  return !why;
}

/* ---- Sums ---- */

static weft_array *without(const char *fn, along *of, weft_array *x, int axis, double neutral) {
  weft_array *bad;
  bool runs = of == weft_cumsum || of == weft_cumprod;
  if (axis == WEFT_ALL && runs) return array_bad(WEFT_ERR_SHAPE, "%s: along one axis, not all", fn);
  return fits(fn, x, &axis, false, &bad) ? of(replaced(x, neutral), axis) : bad;
}

weft_array *weft_nansum(weft_array *x, int axis) { return without("weft_nansum", weft_sum, x, axis, 0); }
weft_array *weft_nanprod(weft_array *x, int axis) { return without("weft_nanprod", weft_prod, x, axis, 1); }
weft_array *weft_nancumsum(weft_array *x, int axis) { return without("weft_nancumsum", weft_cumsum, x, axis, 0); }
weft_array *weft_nancumprod(weft_array *x, int axis) { return without("weft_nancumprod", weft_cumprod, x, axis, 1); }

/* How many are there, in the dtype of a or of its real part. */
static weft_array *counted(weft_array *a, int axis) {
  weft_array *is_there = weft_logical_not(weft_isnan(a));
  return weft_cast(weft_sum(weft_cast(is_there, WEFT_I64), axis), dtype_part(weft_dtype_of(a)));
}

weft_array *weft_nanmean(weft_array *x, int axis) {
  weft_array *bad;
  if (!fits("weft_nanmean", x, &axis, false, &bad)) return bad;
  if (!may_be_nan(x)) return weft_mean(x, axis);
  weft_array *a = raised(x);
  return lowered(weft_div(weft_sum(replaced(a, 0), axis), counted(a, axis)), x);
}

/* Nan where there are no more than ddof. */
static weft_array *variance(const char *fn, weft_array *x, int axis, int64_t ddof, weft_array *after(weft_array *)) {
  weft_array *bad;
  if (!fits(fn, x, &axis, false, &bad)) return bad;
  if (ddof < 0) return array_bad(WEFT_ERR_ARG, "%s: ddof is %lld", fn, (long long)ddof);
  weft_array *a = raised(x), *is_nan = weft_isnan(a), *n = counted(a, axis), *b = replaced(a, 0);
  weft_array *mean = weft_div(weft_sum(b, axis), n), *d = weft_where(is_nan, number_like(a, 0), weft_sub(b, mean));
  weft_array *sum = weft_sum(weft_real(weft_mul(d, weft_conj(d))), axis), *left = weft_sub(n, weft_scalar((double)ddof));
  weft_array *y = weft_div(sum, weft_where(weft_gt(left, weft_scalar(0)), left, weft_scalar(NAN)));
  return weft_cast(after ? after(y) : y, dtype_part(dtype_float(weft_dtype_of(x))));
}

weft_array *weft_nanvar(weft_array *x, int axis, int64_t ddof) { return COMPOSED(variance("weft_nanvar", x, axis, ddof, NULL)); }
weft_array *weft_nanstd(weft_array *x, int axis, int64_t ddof) {
  return COMPOSED(variance("weft_nanstd", x, axis, ddof, weft_sqrt));
}

/* ---- Extrema ---- */

/* Where all are nan, so is the result. */
static weft_array *extremum(const char *fn, along *of, weft_array *x, int axis, double neutral) {
  weft_array *bad;
  if (!fits(fn, x, &axis, true, &bad)) return bad;
  if (!may_be_nan(x)) return of(x, axis);
  weft_array *a = with_infinities(x);
  weft_array *y = weft_where(weft_all(weft_isnan(a), axis), number_like(a, NAN), of(replaced(a, neutral), axis));
  return weft_cast(y, weft_dtype_of(x));
}

weft_array *weft_nanmax(weft_array *x, int axis) { return COMPOSED(extremum("weft_nanmax", weft_max, x, axis, -INFINITY)); }
weft_array *weft_nanmin(weft_array *x, int axis) { return COMPOSED(extremum("weft_nanmin", weft_min, x, axis, INFINITY)); }

/* Of the elements that are no nan the first that equals the extremum: a nan in front of an infinity is not it. */
static weft_array *place(const char *fn, along *extremum_of, along *place_of, weft_array *x, int axis) {
  weft_array *bad;
  if (!fits(fn, x, &axis, true, &bad)) return bad;
  if (!may_be_nan(x)) return place_of(x, axis);
  weft_array *is_it = weft_eq(x, extremum_of(x, axis)); /* nan equals nothing */
  return weft_where(weft_all(weft_isnan(x), axis), weft_integer(-1), weft_argmax(is_it, axis));
}

weft_array *weft_nanargmax(weft_array *x, int axis) { return COMPOSED(place("weft_nanargmax", weft_nanmax, weft_argmax, x, axis)); }
weft_array *weft_nanargmin(weft_array *x, int axis) { return COMPOSED(place("weft_nanargmin", weft_nanmin, weft_argmin, x, axis)); }

/* ---- Numbers instead ---- */

static double largest(weft_dtype d) {
  switch ((int)d) {
    case WEFT_F64: return DBL_MAX;
    case WEFT_F16: return 65504;
    case WEFT_BF16: return 0x1.fep127;
    case WEFT_E4M3: return 448;
    case WEFT_E5M2: return 57344;
  }
  return FLT_MAX;
}

static weft_array *numbers(weft_array *x, weft_array *nan, weft_array *above, weft_array *below) {
  weft_dtype d = weft_dtype_of(x);
  nan = weft_cast(nan ? nan : weft_scalar(0), d);
  above = weft_cast(above ? above : weft_scalar(largest(d)), d);
  below = weft_cast(below ? below : weft_scalar(-largest(d)), d);
  weft_array *y = weft_where(weft_eq(x, weft_scalar(INFINITY)), above, x);
  return weft_where(weft_isnan(x), nan, weft_where(weft_eq(x, weft_scalar(-INFINITY)), below, y));
}

static weft_array *nan_to_num(weft_array *x, weft_array *nan, weft_array *above, weft_array *below) {
  static const char fn[] = "weft_nan_to_num";
  weft_array *bad, *by[] = { nan, above, below };
  if (!arrays_ok(fn, 1, &x, &bad)) return bad;
  for (int k = 0; k < 3; k++)
    if (by[k] && !is_ordered(fn, by[k], &bad)) return bad;
  if (!may_be_nan(x)) return array_apart(x);
  if (!dtype_is_complex(weft_dtype_of(x))) return numbers(x, nan, above, below);
  return weft_complex(numbers(weft_real(x), nan, above, below), numbers(weft_imag(x), nan, above, below));
}

weft_array *weft_nan_to_num(weft_array *x, weft_array *nan, weft_array *above, weft_array *below) {
  return COMPOSED(nan_to_num(x, nan, above, below));
}
