/* guard.h -- mappings of files that may be cut while we read them. */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H
#include <stdatomic.h>
#include <stddef.h>

/* While [start, start + bytes) is guarded, touching a page of it that its file has lost sets *cut and reads zeros
 * instead of ending the process. Returns a number for guard_remove, or -1: no room. */
int guard_add(void *start, size_t bytes, atomic_int *cut);
void guard_remove(int guard);

#endif
