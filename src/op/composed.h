/* composed.h -- what operations written with others share. */
#ifndef WEFT_COMPOSED_H
#define WEFT_COMPOSED_H
#include "op/operand.h"

/* Usable, and of what has an order: no complex numbers. */
static inline bool is_ordered(const char *fn, weft_array *x, weft_array **bad) {
  if (!arrays_ok(fn, 1, &x, bad)) return false;
  bool ok = !dtype_is_complex(weft_dtype_of(x));
  if (!ok) *bad = array_failed(not_of(fn, weft_dtype_of(x)));
  return ok;
}

/* What the inside computes in: f32 at least. */
static inline weft_array *raised(weft_array *x) {
  weft_dtype d = dtype_float(weft_dtype_of(x));
  return weft_cast(x, dtype_is_narrow_float(d) ? WEFT_F32 : d);
}

static inline weft_array *lowered(weft_array *y, weft_array *x) {
  return weft_cast(y, dtype_float(weft_dtype_of(x)));
}

#endif
