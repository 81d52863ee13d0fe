/* sort.h -- where bytes are 0, by the sort of sort.c: for masks (extent.c). */
#ifndef WEFT_OP_SORT_H
#define WEFT_OP_SORT_H
#include "weft.h"

/* is_front: of bytes, only the places of zeros, which come first, are read; those behind may be anything. */
struct sort_attr { int64_t is_front; };

weft_array *places_of_zeros(weft_array *bytes); /* of a vector: i64 [n], of which as many count as there are zeros */

#endif
