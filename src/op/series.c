/* series.c -- numbers at even distances. */
#include <math.h>
#include "op/operand.h"

static weft_array *counter(weft_dtype d, int64_t n) { return weft_iota(weft_full(d, 1, &n, 0), 0); }

static struct failure *number_dtype(const char *fn, weft_dtype d) {
  struct failure *why = dtype_check(fn, d);
  return why || d != WEFT_BOOL ? why : fail(WEFT_ERR_DTYPE, scope_origin(), "%s: of numbers, not of bool", fn);
}

/* ---- arange ---- */

static struct failure *arange_check(double start, double stop, double step, int64_t *n) {
  if (!isfinite(start) || !isfinite(stop) || !isfinite(step))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_arange: from %g to %g in steps of %g", start, stop, step);
  if (step == 0) return fail(WEFT_ERR_ARG, scope_origin(), "weft_arange: the step is 0");
  double count = ceil((stop - start) / step);
  if (!(count < 0x1p60))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_arange: from %g to %g in steps of %g are too many elements",
                start, stop, step);
  *n = count > 0 ? (int64_t)count : 0;
  return NULL;
}

/* A number as the dtype has it, in 64 bits. */
static int64_t whole(weft_dtype d, double x) {
  uint64_t bits = dtype_encode(d, x);
  return d == WEFT_I64 || d == WEFT_U64 ? (int64_t)bits : (int64_t)dtype_decode(d, bits);
}

weft_array *weft_arange(weft_dtype dtype, double start, double stop, double step) {
  int64_t n = 0;
  struct failure *why = number_dtype("weft_arange", dtype);
  if (!why) why = arange_check(start, stop, step, &n);
  if (why) return array_failed(why);
  weft_array *first = weft_scalar(start), *distance = weft_scalar(step);
  bool is_whole = dtype_is_integer(dtype);
  if (is_whole) {
    int64_t a = whole(dtype, start), b = whole(dtype, start + step);
    first = weft_integer(a);
    distance = weft_integer((int64_t)((uint64_t)b - (uint64_t)a));
  }
  weft_array *i = counter(is_whole ? WEFT_I64 : WEFT_F64, n);
  return weft_cast(weft_add(weft_mul(i, distance), first), dtype);
}

/* ---- linspace ---- */

weft_array *weft_linspace(weft_dtype dtype, double start, double stop, int64_t n) {
  struct failure *why = number_dtype("weft_linspace", dtype);
  if (!why) why = dims_check("weft_linspace", 1, &n);
  if (why) return array_failed(why);
  weft_array *i = counter(WEFT_F64, n), *distance = weft_scalar(n > 1 ? (stop - start) / (double)(n - 1) : 0);
  weft_array *even = weft_add(weft_mul(i, distance), weft_scalar(start));
  weft_array *is_last = weft_eq(i, weft_scalar(n > 1 ? (double)(n - 1) : -1));
  return weft_cast(weft_where(is_last, weft_scalar(stop), even), dtype);
}
