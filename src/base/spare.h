/* spare.h -- blocks of one size that are used again, the oldest first, and never given back to the system: whoever still
 * points to one that has ended finds zeros there for as long as possible, instead of what is not his. */
#ifndef WEFT_SPARE_H
#define WEFT_SPARE_H
#include <stddef.h>

struct spare { void *first, *last; };

/* The list of a thread. */
void *spare_pop(struct spare *);                         /* zeros; NULL: there is none */
void spare_push(struct spare *, void *, size_t bytes);   /* its first word is the list's from now on, the rest is zeros */

/* That of all threads; one lock for all kinds. */
void *spare_take(struct spare *, size_t bytes);          /* zeros; NULL: out of memory */
void spare_give(struct spare *, void *, size_t bytes);

#endif
