/* ways.h -- ways to evaluate: fused or one op a kernel, by which back end, on how many threads, on which device. */
#ifndef WEFT_TEST_WAYS_H
#define WEFT_TEST_WAYS_H
#include <stdbool.h>

struct way { const char *name, *backend; bool fuse; int threads, device; };
extern const struct way ways[];
extern const int n_ways;
enum { FUSED_WAYS = 4 };
extern const struct way fused_ways[FUSED_WAYS]; /* each back end, on one thread or several */
void way_take(const struct way *);      /* from now on; forgets plans and kernels */
void way_leave(void);

#endif
