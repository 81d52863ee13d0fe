/* memory.h -- the memory of the host below all arrays: a cache of blocks on huge pages, with a budget.
 *
 * The limit is the memory of the machine (or its cgroup), that of the cache a quarter of it, until set otherwise; a negative one
 * means none. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H
#include <stddef.h>
#include <stdint.h>

int64_t memory_used(void), memory_cached(void), memory_peak(void), memory_limit(void), memory_cache_limit(void);
void memory_set_peak(int64_t), memory_set_limit(int64_t), memory_set_cache_limit(int64_t); /* cache 0: gives back all */
void *memory_take(size_t bytes); /* NULL: out of memory or beyond the limit */
void memory_give(void *, size_t bytes);
/* The same for scratch of a kernel while it runs, a few rows a thread: it is not counted as used, so that what is used and
 * its peak are arrays and temporaries, which a plan predicts. */
void *memory_borrow(size_t bytes);
void memory_return(void *, size_t bytes);

#endif
