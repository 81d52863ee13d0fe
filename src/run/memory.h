/* memory.h -- the memory of the host below all arrays: a cache of blocks on huge pages, with a budget.
 *
 * The limit is the memory of the machine (or its cgroup), that of the cache a quarter of it, until set otherwise; a negative one
 * means none. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H
#include <stdbool.h>
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

/* A hoard is a block that is kept for what is in it, until its memory is wanted: it counts as cached, and goes after the blocks
 * with nothing in them, the longest unused first. While it is held it stays. It is gone, or there never was one, where `at` is
 * NULL. */
struct memory_link { struct memory_link *before, *after; }; /* a ring with a head */
struct hoard { struct memory_link by_age; void *at; size_t bytes; int holds; };
int64_t memory_for_hoards(void);                                 /* bytes that the cache has room for beside the hoards it has */
bool memory_hoard(struct hoard *, void *borrowed, size_t bytes); /* held by the caller. false: the cache has no room for it */
bool memory_has(struct hoard *);
void *memory_hold(struct hoard *);                               /* NULL: it is gone */
void memory_let_go(struct hoard *);                              /* once for every hold */
void memory_drop(struct hoard *);                                /* nobody holds it: its memory is free */

#endif
