/* arena.h -- memory that is taken in small pieces and given back as a whole. */
#ifndef WEFT_ARENA_H
#define WEFT_ARENA_H
#include <stddef.h>

struct arena;
struct arena *arena_new(void);                     /* NULL: out of memory */
struct arena_room { _Alignas(16) char bytes[2048]; }; /* of the caller, as a variable: what fits there is taken from nowhere else */
struct arena *arena_in(struct arena_room *);       /* an arena there, never NULL; to be freed as others are, before the room ends */
void *arena_take(struct arena *, size_t bytes);    /* zeroed, aligned to 16; NULL: out of memory */
void *arena_grow(struct arena *, void *old, size_t old_bytes, size_t bytes); /* a larger copy */
char *arena_text(struct arena *, const char *);    /* a copy */
size_t arena_bytes(const struct arena *);          /* what it has taken from the system */
void arena_free(struct arena *);                   /* NULL: nothing */

#endif
