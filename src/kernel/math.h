/* math.h -- functions such as exp and log as straight-line core instructions. */
#ifndef WEFT_KERNEL_MATH_H
#define WEFT_KERNEL_MATH_H
#include "kernel/kir.h"

int math_expand(struct kir_builder *, enum kir_op, const int x[]); /* a level-E instruction on f32 or f64; its value */

#endif
