/* eighth.h -- floats of 8 bits, as core instructions on f32 and on their patterns, i32 in 0 .. 255. d: e4m3 or e5m2. */
#ifndef WEFT_EIGHTH_H
#define WEFT_EIGHTH_H
#include "kernel/kir.h"

int eighth_pattern(struct kir_builder *, weft_dtype d, int x);     /* of the nearest to the f32 x */
int eighth_value(struct kir_builder *, weft_dtype d, int pattern); /* the f32 that it is */
int eighth_rounded(struct kir_builder *, weft_dtype d, int x, int *pattern); /* the nearest to x, of any dtype, as an f32 */

#endif
