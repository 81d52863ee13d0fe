/* bins.h -- in which bin each element is, and how many there are in each (bins.c).
 *
 * Bin i of ascending edges e_0 .. e_n has e_i <= x < e_(i+1), the last one also x = e_n. What is outside, and nan, is in none.
 * Without edges, integers are their own bins: one that is negative, or not below n, fails. */
#ifndef WEFT_BINS_H
#define WEFT_BINS_H
#include "op/operand.h"

enum bins_of { BINS_OF_INTEGERS, BINS_OF_EDGES };

/* x: [N], ruler: edges [n+1], f32 with x of f32, else f64; or, of integers, anything [n] whose size counts. */
weft_array *array_tally(weft_array *x, weft_array *ruler, enum bins_of); /* i64 [n] */
weft_array *array_bins(weft_array *x, weft_array *ruler, enum bins_of);  /* i64 [N]; n: in none */

#endif
