/* least.h -- the smaller of two sizes. */
#ifndef WEFT_LEAST_H
#define WEFT_LEAST_H
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
