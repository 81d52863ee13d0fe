/* extent.h -- integers that are computed, as sizes (extent.c). */
#ifndef WEFT_EXTENT_H
#define WEFT_EXTENT_H
#include "op/index.h"

weft_array *array_of_length(weft_array *n); /* u8 [n] of no matter what: its size is n, a 0-d integer, once that is computed.
                                               Below 0 it is WEFT_ERR_ARG */

#endif
