/* quick.h -- keys alone in order, by vectors (quick.c). */
#ifndef WEFT_QUICK_H
#define WEFT_QUICK_H
#include "op/order.h"

bool quick_is_there(void); /* this machine has what it is written for; else digits are as good, and it must not be called */

/* n keys in order, where they stand; `other` has room for as many. */
void quick_sort_32(uint32_t *e, uint32_t *other, int64_t n, int64_t count[ORDER_COUNTS]);
void quick_sort_64(uint64_t *e, uint64_t *other, int64_t n, int64_t count[ORDER_COUNTS]);

#endif
