/* search.c -- where values belong in a sorted row: a binary search, composed of a loop whose body is elementwise but for a take,
 * so all values are searched for side by side.
 *
 * Invariant: all elements before lo come before the value, none from hi on does. A step halves what is between; once lo = hi it
 * changes nothing, so that every value may take as many steps as the worst. */
#include "op/composed.h"

weft_array *array_before(weft_array *x, weft_array *y) {
  return weft_or(weft_lt(x, y), weft_and(weft_isnan(y), weft_not(weft_isnan(x))));
}

/* So many halvings of n elements leave none; 63 are enough for a size that is not known. */
static int64_t halvings(dim n) {
  int64_t steps = 0;
  for (; dim_is_known(n) && n; n /= 2) steps++;
  return dim_is_known(n) ? steps : 63;
}

static struct failure *search_check(const struct node *a, const struct node *v) {
  struct shape_text s;
  if (dtype_is_complex(a->dtype) || dtype_is_complex(v->dtype)) return not_of("weft_searchsorted", WEFT_C64);
  if (a->rank == 1) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_searchsorted: the sorted array has one axis, not %s", shape_show(a, &s));
}

/* The last place that is read is n: it is one behind the elements, so that there is one even if there is none. */
static weft_array *searchsorted(weft_array *a, weft_array *v, int is_right) {
  struct node *n[2];
  weft_array *bad;
  if (!operands("weft_searchsorted", 2, (weft_array *[]){ a, v }, n, &bad)) return bad;
  struct failure *why = search_check(n[0], n[1]);
  if (why) return array_of_bad(why, 2, n);
  dim length = n[0]->dims[0];
  bool has_some = dim_is_known(length) && length > 0;
  a = array_of(n[0]), v = array_of(n[1]);
  weft_dtype places = dim_is_known(length) && length < INT32_MAX / 2 ? WEFT_I32 : WEFT_I64; /* lo + hi is one, too */
  weft_array *size = weft_cast(weft_size(a, 0), places), *none = weft_cast(weft_full_like(v, 0), places);
  weft_array *row = has_some ? a : weft_pad(a, 0, 0, 1, weft_integer(0));
  weft_loop *l = weft_loop_open(weft_integer(halvings(length)));
  weft_array *lo = weft_loop_carry(l, none), *hi = weft_loop_carry(l, weft_add(none, size));
  weft_array *middle = weft_shr(weft_add(lo, hi), weft_integer(1));
  weft_array *at = has_some ? weft_minimum(middle, weft_sub(size, weft_integer(1))) : middle, *x = weft_take(row, 1, &at);
  weft_array *is_above = weft_and(weft_lt(lo, hi), is_right ? weft_not(array_before(v, x)) : array_before(x, v));
  weft_loop_next(l, lo, weft_where(is_above, weft_add(middle, weft_integer(1)), lo));
  weft_loop_next(l, hi, weft_where(is_above, hi, middle));
  weft_array *y = weft_loop_last(l, lo);
  weft_loop_close(l);
  return weft_cast(y, WEFT_I64);
}

weft_array *weft_searchsorted(weft_array *a, weft_array *v, int is_right) { return COMPOSED(searchsorted(a, v, is_right)); }
