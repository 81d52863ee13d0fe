/* alike.c -- whether arrays are the same, or nearly so. */
#include "op/composed.h"

/* Equal, or nan both if that counts. */
static weft_array *or_nan(weft_array *is_alike, weft_array *a, weft_array *b, int equal_nan) {
  return equal_nan ? weft_or(is_alike, weft_and(weft_isnan(a), weft_isnan(b))) : is_alike;
}

/* |a - b| <= atol + rtol |b|; an infinity is near itself alone. Whole numbers are compared as f64: their difference may have
 * no place in their dtype, as 0 - 255 has none in u8. */
static weft_array *isclose(const char *fn, weft_array *a, weft_array *b, double rtol, double atol, int equal_nan) {
  struct node *n[2];
  weft_array *bad;
  int rank;
  dim dims[WEFT_RANK_MAX];
  if (!operands(fn, 2, (weft_array *[]){ a, b }, n, &bad)) return bad;
  struct failure *why = common_dims(fn, 2, n, &rank, dims);
  if (why) return array_of_bad(why, 2, n);
  nodes_release(2, n);
  weft_dtype both = weft_dtype_promote(weft_dtype_of(a), weft_dtype_of(b));
  if (both == WEFT_BOOL || dtype_is_integer(both)) a = weft_cast(a, WEFT_F64), b = weft_cast(b, WEFT_F64);
  weft_array *room = weft_add(weft_scalar(atol), weft_mul(weft_scalar(rtol), weft_abs(b)));
  weft_array *is_near = weft_and(weft_le(weft_abs(weft_sub(a, b)), room), weft_isfinite(b));
  return or_nan(weft_or(is_near, weft_eq(a, b)), a, b, equal_nan);
}

weft_array *weft_isclose(weft_array *a, weft_array *b, double rtol, double atol, int equal_nan) {
  return isclose("weft_isclose", a, b, rtol, atol, equal_nan);
}
weft_array *weft_allclose(weft_array *a, weft_array *b, double rtol, double atol, int equal_nan) {
  return weft_all(isclose("weft_allclose", a, b, rtol, atol, equal_nan), WEFT_ALL);
}

/* Arrays of different shapes are not the same; sizes that are not known yet are taken to be equal. */
weft_array *weft_array_equal(weft_array *a, weft_array *b, int equal_nan) {
  struct node *n[2];
  weft_array *bad;
  dim dims[WEFT_RANK_MAX];
  if (!operands("weft_array_equal", 2, (weft_array *[]){ a, b }, n, &bad)) return bad;
  bool meet = n[0]->rank == n[1]->rank && dims_meet("weft_array_equal", 2, n, -1, dims);
  for (int k = 0; k < 2 && meet; k++) n[k] = node_agree(n[k], -1, dims);
  if (!meet) return nodes_release(2, n), weft_full(WEFT_BOOL, 0, NULL, 0);
  weft_array *x[2] = { array_of(n[0]), array_of(n[1]) };
  return weft_all(or_nan(weft_eq(x[0], x[1]), x[0], x[1], equal_nan), WEFT_ALL);
}
