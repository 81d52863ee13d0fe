/* spare.h -- blocks of one size that are used again, the oldest first, and never given back to the system: whoever still
 * points to one that has ended finds zeros there for as long as possible, instead of what is not his. */
#ifndef WEFT_SPARE_H
#define WEFT_SPARE_H
#include <stddef.h>

struct spare { void *first, *last; }; /* under one lock for all kinds */

void *spare_take(struct spare *, size_t bytes);          /* zeros; NULL: out of memory */
void spare_give(struct spare *, void *, size_t bytes);   /* its first word is the list's from now on, the rest is zeros */

#endif
