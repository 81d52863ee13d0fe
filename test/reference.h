/* reference.h -- an independent evaluator: one node at a time, one element at a time, in double. It shares no arithmetic
 * with the library, and is slow on purpose. Sizes must be numbers. */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H
#include "op/op.h"

struct binding { weft_array *x; const double *data; }; /* an input, or any array, and the elements it stands for */

/* The elements of y, row by row, as doubles rounded to its dtype; to be freed. NULL: something it cannot do. */
double *reference(weft_array *y, int n, const struct binding given[]);
int64_t elements(weft_array *);

#endif
