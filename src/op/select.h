/* select.h -- elements by their ranks along the last axis (select.c), for those who compose with them. */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H
#include "op/op.h"

/* Of n elements those of rank (n times + plus) / over, rounded down, and the count - 1 that follow. A rank beyond an end is the
 * element at that end. */
struct select_attr { int64_t times, plus, over, count; };

static inline int64_t select_first(const struct select_attr *a, int64_t n) {
  int64_t x = n * a->times + a->plus;
  return x / a->over - (x % a->over < 0);
}

void array_select(weft_array *x, const struct select_attr *, weft_array *y[2]); /* in order, and where they stood */
weft_array *array_standing_at(weft_array *rows, weft_array *at); /* elements of rows [..,n] at places, i64 [..,m] or [m] */

#endif
