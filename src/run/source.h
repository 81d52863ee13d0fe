/* source.h -- a file being read: shared by the buffers of all its arrays, closed with the last of them.
 *
 * A file may be cut or changed while it is in use. Whoever has read from it asks here before what was read is trusted. */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weft.h"

struct text; /* base/text.h */

struct source;
struct source *source_open(const char *path, struct text *why); /* NULL: why says what is wrong; errno: ENOMEM if memory is */
struct source *source_retain(struct source *);
void source_release(struct source *);
const char *source_path(struct source *);
int64_t source_bytes(struct source *);        /* when it was opened */
uint8_t *source_map(struct source *);         /* private mapping of the whole file, or NULL if reading with pread */
weft_status source_read(struct source *, int64_t offset, void *dst, size_t bytes, struct text *why); /* checked */
bool source_was_cut(struct source *);         /* somebody has found bytes missing that were there when it was opened */
bool source_is_cut(struct source *);          /* the same, looking at the file now (a system call) */
bool source_is_changed(struct source *);      /* its length or its time of change is another: it holds other data */

#endif
