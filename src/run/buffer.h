/* buffer.h -- memory of arrays, in one space or several, with one state machine: absent -> loading -> resident, or failed.
 *
 * A buffer has a copy in each space that has asked for it, and each goes through these states; those that are resident have the
 * same bytes, those in the memory of a device once their event is past. A kernel is bound only through buffer_hold, which
 * brings the bytes and keeps them; a launch on memory that is not there cannot be written down. Being written makes
 * the other copies absent. While a buffer is shown to others, pinned or external, its copy there alone counts, since they may
 * write to it at any time: whoever needs it in another space takes a copy of his own and forgets it.
 *
 * A buffer is counted by references; the last one gives the memory back (own memory), unmaps it (files) or calls the release of
 * its owner (external memory). A space is a device (backend/backend.h), or NULL: the host. */
#ifndef WEFT_BUFFER_H
#define WEFT_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weft.h"

enum buffer_state { BUFFER_ABSENT, BUFFER_LOADING, BUFFER_RESIDENT, BUFFER_FAILED };

struct buffer;
struct device; /* backend/backend.h, as the next */
struct event;
struct source; /* run/source.h */

struct buffer *buffer_new(size_t bytes);  /* resident, undefined content, 64-byte aligned. NULL: out of memory/budget */
struct buffer *buffer_to_fill(size_t bytes, void **data); /* the same, and where it is: while it is the caller's alone it stays
                                             there, without a hold */
struct buffer *buffer_new_in(const struct device *, size_t bytes, weft_status *); /* the same in the memory of a device; nothing is
                                             on the host. NULL: why not, MEMORY or DEVICE */
struct buffer *buffer_external(void *data, size_t bytes, void (*release)(void *ctx), void *ctx); /* NULL: no memory;
                                             then release has not been called */
struct buffer *buffer_external_in(const struct device *, uint64_t at, size_t bytes, void (*release)(void *ctx), void *ctx); /* the
                                             same in the memory of a device, for what its compute queue is given from now on */
struct buffer *buffer_retain(struct buffer *);
void buffer_release(struct buffer *);     /* NULL: nothing. Any thread. An external release callback that would come on
                                             one of weft's own threads is queued instead: see buffer_callbacks */
void buffer_callbacks(void);              /* runs queued release callbacks; called by public calls, with no lock held */
void buffer_mark_own_thread(void);        /* this thread is weft's own: no callback may come on it */
bool buffer_is_only(struct buffer *);     /* exactly one reference, own memory, not pinned: may be overwritten */

/* Makes the bytes resident in a space (starting and awaiting a load if need be) and keeps them. WEFT_OK, or why not: then
 * *why, if not NULL, is a text that lives as long as the buffer, or until the thread's next failure on a device. *data is the first
 * byte; on a device, for what is enqueued in its compute queue from now on. */
weft_status buffer_hold(struct buffer *, const struct device *space, void **data, const char **why);
void buffer_drop(struct buffer *);        /* once for every successful hold */
/* A buffer without memory, which gets that of another one's copy on the device; both are the caller's alone. The other one keeps
 * what it has elsewhere, and may be nowhere from then on. */
struct buffer *buffer_heir(const struct device *, size_t bytes); /* NULL: out of memory */
void buffer_inherit(struct buffer *heir, struct buffer *from, const struct device *);
/* Of a buffer that is the caller's alone: it was written there, and is what it should be once the event is past (NULL: now). */
void buffer_wrote(struct buffer *, const struct device *space, const struct event *);
weft_status buffer_await(struct buffer *, const char **why); /* until what was enqueued for its copies is done */
bool buffer_is_done(struct buffer *);     /* whether it is; never waits */
/* The bytes to the host's memory, straight from where they are: no copy is kept. */
weft_status buffer_read(struct buffer *, int64_t at, size_t bytes, void *to, const char **why);
bool buffer_is_lost(struct buffer *);     /* it was in the memory of a lost device alone */
bool buffer_is_here(struct buffer *);     /* the host has or can read them without a device */
bool buffer_is_only_here(struct buffer *); /* and no other space has a copy, or had */
bool buffer_is_there(struct buffer *, const struct device *); /* the device has, and what runs there may use them as they are */
const struct device *buffer_space(struct buffer *); /* one that has a copy; NULL: the host, if it has one */
bool buffer_is_shown(struct buffer *, const struct device **where); /* pinned or external: where */
/* Never waits, and is about the host's copy, or about that of a device if there is no other. A mapping whose file has been cut
 * reads FAILED, held or not: its lost bytes read as zeros, so whoever has computed from a held buffer asks here before the result
 * is trusted. (For a mapping: a system call.) */
enum buffer_state buffer_state_of(struct buffer *);
void buffer_start(struct buffer *);       /* begins a background load if absent; does not wait */
size_t buffer_bytes(struct buffer *);
bool buffer_is_mapped(struct buffer *);   /* its bytes are pages of a file */
/* Shown in a space in which it is held: never overwritten by donation, and other copies are void. */
enum buffer_pinned { PINNED, PINNED_ELSEWHERE, PIN_VOID }; /* VOID: the copy became void since it was held: hold it again */
struct panels; /* run/panels.h */
struct panels **buffer_panels(struct buffer *); /* the list of those that were packed from it: panels.c's */
uint64_t buffer_version(struct buffer *); /* another one after it was written to, or shown to who might */
enum buffer_pinned buffer_pin(struct buffer *, const struct device *space);
void buffer_unpin(struct buffer *);

/* Of a file: absent. Mapped when offset is a multiple of align, the alignment of an element; else copied by a background reader.
 * NULL: no memory. */
struct buffer *buffer_from_source(struct source *, int64_t offset, size_t bytes, size_t align);
/* The same for bools: copied, and each byte that is not 0 becomes 1, as kernels expect. */
struct buffer *buffer_of_bools(struct source *, int64_t offset, size_t bytes);

#endif
