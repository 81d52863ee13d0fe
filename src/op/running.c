/* running.c -- along an axis, of all that came before: log sum e^x, and ways to run any such function. */
#include <math.h>
#include "op/composed.h"

typedef weft_array *along(weft_array *, int axis);

/* ---- log(e^x_0 + .. + e^x_i) ---- */

/* One step a time: y_i = log(e^y_(i-1) + e^x_i), and before the first nothing, whose logarithm is -inf. */
weft_array *weft_logcumsumexp(weft_array *x, int axis) {
  static const char fn[] = "weft_logcumsumexp";
  weft_array *bad;
  if (!is_ordered(fn, x, &bad) || !has_axis(fn, x, &axis, &bad)) return bad;
  weft_array *xs = weft_moveaxis(raised(x), axis, 0), *none = array_row_full(xs, -INFINITY);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_i = weft_loop_each(loop, xs), *y = weft_loop_carry(loop, none), *next = weft_logaddexp(y, x_i);
  weft_loop_next(loop, y, next);
  weft_array *all = weft_loop_all(loop, next);
  weft_loop_close(loop);
  return lowered(weft_moveaxis(all, 0, axis), x);
}

/* ---- Backwards, and without the element itself ---- */

weft_array *weft_backwards(along *run, weft_array *x, int axis) {
  weft_array *bad;
  if (!run) return array_bad(WEFT_ERR_ARG, "weft_backwards: the function is NULL");
  return has_axis("weft_backwards", x, &axis, &bad) ? weft_flip(run(weft_flip(x, axis), axis), axis) : bad;
}

/* What a function gives of no elements: it is put in front. */
static bool neutral(along *run, weft_dtype d, double *value) {
  static const struct { along *run; double of; } row[] = {
    { weft_cumsum, 0 },    { weft_cumprod, 1 },           { weft_nancumsum, 0 },      { weft_nancumprod, 1 },
    { weft_cummin, 1.0 / 0.0 }, { weft_cummax, -1.0 / 0.0 }, { weft_logcumsumexp, -1.0 / 0.0 },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (run == row[i].run) return *value = d == WEFT_BOOL && run == weft_cummax ? 0 : row[i].of, true;
  return false;
}

/* Running over one element more, the neutral one, and leaving the last result away: also of an axis without elements. */
weft_array *weft_before(along *run, weft_array *x, int axis) {
  weft_array *bad;
  double none;
  if (!has_axis("weft_before", x, &axis, &bad)) return bad;
  if (!neutral(run, weft_dtype_of(x), &none)) return array_bad(WEFT_ERR_ARG, "weft_before: of a function that is not cumulative");
  if (run == weft_logcumsumexp) x = weft_cast(x, dtype_float(weft_dtype_of(x)));
  weft_array *wide = isfinite(none) ? x : with_infinities(x); /* the nan instead of one would win everywhere */
  weft_array *y = weft_slice(run(weft_pad(wide, axis, 1, 0, number_like(wide, none)), axis), axis, 0, -1, 1);
  return wide == x ? y : weft_cast(y, weft_dtype_of(x));
}
