/* buffer.h -- memory of arrays, with one state machine: absent -> loading -> resident, or failed.
 *
 * A kernel is bound only through buffer_hold, which waits until the bytes are resident and keeps them so; a launch on
 * memory that is not there cannot be written down. A buffer is counted by references; the last one gives the memory
 * back to the cache (own memory), unmaps it (files) or calls the release of its owner (external memory). */
#ifndef WEFT_BUFFER_H
#define WEFT_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weft.h"

enum buffer_state { BUFFER_ABSENT, BUFFER_LOADING, BUFFER_RESIDENT, BUFFER_FAILED };

struct buffer;
struct source; /* run/source.h */

struct buffer *buffer_new(size_t bytes);  /* resident, undefined content, 64-byte aligned. NULL: out of memory/budget */
struct buffer *buffer_external(void *data, size_t bytes, void (*release)(void *ctx), void *ctx); /* NULL: no memory;
                                             then release has not been called */
struct buffer *buffer_retain(struct buffer *);
void buffer_release(struct buffer *);     /* NULL: nothing. Any thread. An external release callback that would come on
                                             one of weft's own threads is queued instead: see buffer_callbacks */
void buffer_callbacks(void);              /* runs queued release callbacks; called by public calls, with no lock held */
void buffer_mark_own_thread(void);        /* this thread is weft's own: no callback may come on it */
bool buffer_is_only(struct buffer *);     /* exactly one reference, own memory, not pinned: may be overwritten */

/* Makes the bytes resident (starting and awaiting a load if need be) and keeps them. WEFT_OK, or why not: then
 * *why, if not NULL, is a text that lives as long as the buffer. *data is the first byte. */
weft_status buffer_hold(struct buffer *, void **data, const char **why);
void buffer_drop(struct buffer *);        /* once for every successful hold */
/* Never waits. A mapping whose file has been cut reads FAILED, held or not: its lost bytes read as zeros, so whoever has
 * computed from a held buffer asks here before the result is trusted. (For a mapping: a system call.) */
enum buffer_state buffer_state_of(struct buffer *);
void buffer_start(struct buffer *);       /* begins a background load if absent; does not wait */
size_t buffer_bytes(struct buffer *);
bool buffer_is_mapped(struct buffer *);   /* its bytes are pages of a file */
void buffer_pin(struct buffer *, bool on); /* pinned: never overwritten by donation */

/* Of a file: absent. Mapped when offset is a multiple of align, the alignment of an element; else copied by a background reader.
 * NULL: no memory. */
struct buffer *buffer_from_source(struct source *, int64_t offset, size_t bytes, size_t align);
/* The same for bools: copied, and each byte that is not 0 becomes 1, as kernels expect. */
struct buffer *buffer_of_bools(struct source *, int64_t offset, size_t bytes);

#endif
