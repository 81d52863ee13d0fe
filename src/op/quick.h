/* quick.h -- keys alone in order, by vectors (quick.c). */
#ifndef WEFT_QUICK_H
#define WEFT_QUICK_H
#include "op/digits.h"

bool quick_is_there(void); /* this machine has what it is written for; else digits are as good, and it must not be called */

/* n keys in order, where they stand; `other` has room for as many. */
void quick_sort_32(uint32_t *e, uint32_t *other, int64_t n, int64_t count[ORDER_COUNTS]);
void quick_sort_64(uint64_t *e, uint64_t *other, int64_t n, int64_t count[ORDER_COUNTS]);

/* n words that have the digits of `g` from the highest one on in common, in order, in `to`: by one digit more, which brings most of
 * them apart, and then neighbour by neighbour. False: there are too few or too many of them, or too many have that digit too. */
enum { QUICK_SPREAD = 2048 }; /* more of them are too many */
bool quick_spread(const struct digits *g, const uint64_t *e, int64_t n, uint64_t to[QUICK_SPREAD]);

#endif
