/* buffer.c -- memory of arrays and the one state machine: absent -> loading -> resident, or failed.
 *
 * The host's copy is in the buffer itself, those in the memory of devices (run/space.h) in a list that only grows. `state` is
 * that of the host's copy; own memory that is absent is resident on a device, and to load it is to bring it home. The copies'
 * states are changed and read under the lock.
 *
 * `counts` holds references in its low half and holds in its high half; the memory goes when both are 0. A state is
 * changed under the lock and read without it. Whoever turns absent into loading does the load, or queues it for a reader;
 * the load has a reference of its own and is listed in `loads`, so that a child after fork can take it back. A load that
 * waits in the queue is done by the first thread that needs it, so nothing depends on a reader being there. */
#define _GNU_SOURCE
#include "run/buffer.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "run/guard.h"
#include "run/memory.h"
#include "run/panels.h"
#include "run/reader.h"
#include "run/source.h"
#include "run/space.h"

enum kind { OWN, EXTERNAL, MAPPED, COPIED }; /* the last two: from a file, in its mapping or in memory of ours */

struct buffer {
  struct errand errand;          /* first: an errand's address is its buffer's */
  _Atomic uint64_t counts;
  atomic_int state, pins;
  enum kind kind;
  bool is_bool;
  void *data;
  size_t bytes;
  struct source *source;
  int64_t offset;
  char *why;                     /* once failed */
  void (*release)(void *ctx);
  void *ctx;
  struct buffer *before, *after; /* in `loads`, or in the queue of releases */
  _Atomic(struct space_copy *) copies;
  _Atomic(const struct device *) shown; /* pinned or external in the memory of this device; NULL: on the host, or nowhere */
  struct old *old;               /* of the host's copy: those that somebody may still hold */
  _Atomic uint64_t version;
  struct panels *panels;
};

struct old { struct old *next; void *data; };

#define REF UINT64_C(1)
#define HOLD (UINT64_C(1) << 32)

pthread_mutex_t buffer_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct buffer *loads;
static _Atomic(struct buffer *) releases; /* newest first */
static _Thread_local bool is_own_thread;
static _Alignas(64) uint8_t nothing[64];  /* where empty buffers point */

void buffer_mark_own_thread(void) { is_own_thread = true; }

static struct buffer *make(enum kind kind, size_t bytes, enum buffer_state state) {
  struct buffer *b = mem_alloc(sizeof *b);
  if (!b) return NULL;
  atomic_init(&b->counts, REF);
  atomic_init(&b->state, state);
  b->kind = kind;
  b->bytes = bytes;
  return b;
}

struct buffer *buffer_new(size_t bytes) {
  struct buffer *b = make(OWN, bytes, BUFFER_RESIDENT);
  if (!b) return NULL;
  b->data = bytes ? memory_take(bytes) : nothing;
  if (b->data) return b;
  mem_free(b);
  return NULL;
}

struct buffer *buffer_to_fill(size_t bytes, void **data) {
  struct buffer *b = buffer_new(bytes);
  if (b) *data = b->data;
  return b;
}

struct buffer *buffer_external(void *data, size_t bytes, void (*release)(void *ctx), void *ctx) {
  struct buffer *b = make(EXTERNAL, bytes, BUFFER_RESIDENT);
  if (!b) return NULL;
  b->data = data ? data : nothing;
  b->release = release;
  b->ctx = ctx;
  return b;
}

static void free_copies(struct buffer *b) {
  for (struct space_copy *c = atomic_load_explicit(&b->copies, memory_order_acquire), *next; c; c = next) {
    next = c->next;
    if (c->is_foreign) (void)event_wait(&(struct event){ c->device, QUEUE_COMPUTE, c->device->record(c->device, QUEUE_COMPUTE) });
    space_give(c, b->bytes);
    mem_free(c);
  }
}

static void free_old(struct buffer *b) {
  for (struct old *o = b->old, *next; o; o = next) {
    next = o->next;
    memory_give(o->data, b->bytes);
    mem_free(o);
  }
  b->old = NULL;
}

static void free_here(struct buffer *b) {
  if (b->old) free_old(b);
  if (b->data && b->data != nothing) memory_give(b->data, b->bytes);
  b->data = NULL;
}

static void call_release(struct buffer *b) {
  bool is_there = atomic_load(&b->shown) != NULL;
  free_copies(b);
  if (is_there) free_here(b); /* what was brought home of it */
  if (b->release) b->release(b->ctx);
  mem_free(b);
}

static void queue_release(struct buffer *b) {
  b->after = atomic_load(&releases);
  while (!atomic_compare_exchange_weak(&releases, &b->after, b)) {}
}

void buffer_callbacks(void) {
  if (!atomic_load_explicit(&releases, memory_order_relaxed) || is_own_thread) return;
  struct buffer *oldest = NULL;
  for (struct buffer *b = atomic_exchange(&releases, NULL), *rest; b; b = rest) {
    rest = b->after;
    b->after = oldest;
    oldest = b;
  }
  for (struct buffer *b = oldest, *rest; b; b = rest) {
    rest = b->after;
    call_release(b);
  }
}

static void end(struct buffer *b) {
  if (b->panels) panels_forget(b);
  if (b->kind == EXTERNAL) {
    if (is_own_thread && b->release) queue_release(b);
    else call_release(b);
    return;
  }
  if (atomic_load_explicit(&b->copies, memory_order_acquire)) free_copies(b);
  if (b->kind != MAPPED) free_here(b);
  if (b->source) source_release(b->source);
  if (b->why) mem_free(b->why);
  mem_free(b);
}

static void take(struct buffer *b, uint64_t what) { atomic_fetch_add_explicit(&b->counts, what, memory_order_relaxed); }

/* Who has all that is counted gives it up to nobody. */
static void give(struct buffer *b, uint64_t what) {
  if (atomic_load_explicit(&b->counts, memory_order_acquire) == what ||
      atomic_fetch_sub_explicit(&b->counts, what, memory_order_acq_rel) == what) end(b);
}

struct buffer *buffer_retain(struct buffer *b) { return take(b, REF), b; }
void buffer_release(struct buffer *b) { if (b) give(b, REF); }
void buffer_drop(struct buffer *b) { give(b, HOLD); }
size_t buffer_bytes(struct buffer *b) { return b->bytes; }
bool buffer_is_mapped(struct buffer *b) { return b->kind == MAPPED; }

bool buffer_is_only(struct buffer *b) {
  bool one = (uint32_t)atomic_load_explicit(&b->counts, memory_order_acquire) == 1;
  return one && b->kind == OWN && !atomic_load(&b->pins);
}

static const char no_memory[] = "out of memory while reading a file";

static void say_cut(struct buffer *b, struct text *why) {
  text_addf(why, "%s: the file was cut or could not be read while it was in use; it had %lld bytes when it was opened",
            source_path(b->source), (long long)source_bytes(b->source));
}

/* Brings the pages of [p, p + bytes) in, unless they would take half of the memory: those of so large an array come one by one,
 * when they are touched, so that a slice of it costs what it has. The kernel does it at once and reports a fault as an error;
 * where it cannot, each page is touched. All that is touched is, here or later, under the eyes of guard.c. */
static void fault_in(uint8_t *p, size_t bytes) {
  if (bytes > (size_t)memory_limit() / 2) return;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), head = (uintptr_t)p & (page - 1);
  madvise(p - head, bytes + head, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
  if (!madvise(p - head, bytes + head, MADV_POPULATE_READ)) return;
#endif
  for (size_t i = 0; i < bytes; i += page) (void)*(volatile uint8_t *)(p + i);
  (void)*(volatile uint8_t *)(p + bytes - 1);
}

static void make_bools(uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = p[i] != 0;
}

static weft_status copy_in(struct buffer *b, struct text *why) {
  b->data = memory_take(b->bytes);
  if (!b->data) return WEFT_ERR_MEMORY;
  weft_status status = source_read(b->source, b->offset, b->data, b->bytes, why);
  if (status == WEFT_OK) {
    if (b->is_bool) make_bools(b->data, b->bytes);
    return WEFT_OK;
  }
  memory_give(b->data, b->bytes);
  b->data = NULL;
  return status;
}

/* ---- Copies in the memory of devices ---- */

static weft_status status_of(int how) {
  return how == DEVICE_OK ? WEFT_OK : how == DEVICE_NO_MEMORY ? WEFT_ERR_MEMORY : WEFT_ERR_DEVICE;
}

static const char *message_of(const struct device *d, int how) {
  return how == DEVICE_NO_MEMORY ? "out of memory on the device" : d->message();
}

/* Lock held, or the buffer is the caller's alone. */
static struct space_copy *find_copy(struct buffer *b, const struct device *d) {
  struct space_copy *c = atomic_load_explicit(&b->copies, memory_order_acquire);
  while (c && c->device != d) c = c->next;
  return c;
}

static struct space_copy *add_copy(struct buffer *b, const struct device *d) {
  struct space_copy *c = mem_alloc(sizeof *c);
  if (!c) return NULL;
  *c = (struct space_copy){ .next = atomic_load(&b->copies), .device = d, .state = BUFFER_ABSENT };
  atomic_store_explicit(&b->copies, c, memory_order_release);
  return c;
}

/* One that has the bytes; false: none has. */
static bool some_copy(struct buffer *b, struct space_copy *out) {
  pthread_mutex_lock(&buffer_mutex);
  struct space_copy *c = atomic_load(&b->copies);
  while (c && c->state != BUFFER_RESIDENT) c = c->next;
  if (c) *out = *c;
  pthread_mutex_unlock(&buffer_mutex);
  return c != NULL;
}

/* Memory for the host's copy: the same as before, unless somebody besides the caller may hold that. */
static bool make_room(struct buffer *b) {
  if (!b->bytes) return b->data = nothing, true;
  if (b->data && atomic_load(&b->counts) >> 32 > 1) {
    struct old *o = mem_alloc(sizeof *o);
    if (!o) return false;
    *o = (struct old){ b->old, b->data };
    b->old = o;
    b->data = NULL;
  }
  return b->data || (b->data = memory_take(b->bytes));
}

static weft_status bring_home(struct buffer *b) {
  struct space_copy c;
  if (!some_copy(b, &c)) return WEFT_ERR_INTERNAL;
  return make_room(b) ? status_of(space_read(&c, 0, b->bytes, b->data)) : WEFT_ERR_MEMORY;
}

static weft_status load(struct buffer *b, struct text *why) {
  if (!b->source) return bring_home(b);
  if (source_is_cut(b->source)) return say_cut(b, why), WEFT_ERR_FILE;
  if (source_is_changed(b->source)) {
    text_addf(why, "%s: the file was changed after it was opened and before this array was read", source_path(b->source));
    return WEFT_ERR_FILE;
  }
  if (b->kind == COPIED) return copy_in(b, why);
  fault_in(b->data, b->bytes);
  return source_is_cut(b->source) ? say_cut(b, why), WEFT_ERR_FILE : WEFT_OK;
}

static void list(struct buffer *b) {
  b->before = NULL;
  b->after = loads;
  if (loads) loads->before = b;
  loads = b;
}

static void unlist(struct buffer *b) {
  *(b->before ? &b->before->after : &loads) = b->after;
  if (b->after) b->after->before = b->before;
}

static void fail(struct buffer *b, struct text *why) {
  if (!b->why && why->s && !why->failed) {
    b->why = why->s;
    *why = (struct text){ 0 };
  }
  atomic_store(&b->state, BUFFER_FAILED);
}

/* Lack of memory is not a property of the file, nor is what a device does one of the buffer: it is absent again, and may be asked
 * for later. */
static void finish(struct buffer *b, enum buffer_state state, struct text *why) {
  pthread_mutex_lock(&buffer_mutex);
  unlist(b);
  if (state == BUFFER_RESIDENT && atomic_load(&b->shown)) state = BUFFER_ABSENT; /* pinned on a device meanwhile */
  if (state == BUFFER_FAILED) fail(b, why);
  else atomic_store(&b->state, state);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&buffer_mutex);
}

/* Does the load that the caller has claimed, and gives back its reference. */
static weft_status do_load(struct buffer *b) {
  struct text why = { 0 };
  weft_status status = load(b, &why);
  finish(b, status == WEFT_OK ? BUFFER_RESIDENT : status == WEFT_ERR_FILE ? BUFFER_FAILED : BUFFER_ABSENT, &why);
  text_free(&why);
  give(b, REF);
  return status;
}

static void run_errand(struct errand *e) {
  struct buffer *b = (struct buffer *)e;
  bool is_wanted = atomic_load(&b->counts) != REF;
  if (is_wanted) (void)do_load(b);
  else {
    finish(b, BUFFER_ABSENT, NULL);
    give(b, REF);
  }
}

static bool claim(struct buffer *b) {
  pthread_mutex_lock(&buffer_mutex);
  bool ok = atomic_load(&b->state) == BUFFER_ABSENT;
  if (ok) {
    atomic_store(&b->state, BUFFER_LOADING);
    list(b);
    take(b, REF);
  }
  pthread_mutex_unlock(&buffer_mutex);
  return ok;
}

/* In the child nobody is loading any more. */
static void take_back_loads(void) {
  changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  for (struct buffer *b; (b = loads);) {
    if (b->kind == COPIED && b->data) memory_give(b->data, b->bytes);
    if (b->kind == COPIED) b->data = NULL;
    finish(b, BUFFER_ABSENT, NULL);
    give(b, REF);
  }
}

/* Handlers run in the child in the order of registration: after those of run/fork.c, which gives all locks back, and after those
 * of the devices that are in use. */
static void watch_forks(void) { pthread_atfork(NULL, NULL, take_back_loads); }

static void watch_forks_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
}

static struct buffer *from_source(struct source *s, int64_t offset, size_t bytes, bool is_mapped) {
  watch_forks_once();
  struct buffer *b = make(is_mapped ? MAPPED : COPIED, bytes, bytes ? BUFFER_ABSENT : BUFFER_RESIDENT);
  if (!b) return NULL;
  b->errand.run = run_errand;
  b->source = source_retain(s);
  b->offset = offset;
  b->data = is_mapped ? source_map(s) + offset : bytes ? NULL : nothing;
  return b;
}

struct buffer *buffer_from_source(struct source *s, int64_t offset, size_t bytes, size_t align) {
  return from_source(s, offset, bytes, bytes && source_map(s) && offset % (int64_t)(align ? align : 1) == 0);
}

struct buffer *buffer_of_bools(struct source *s, int64_t offset, size_t bytes) {
  struct buffer *b = from_source(s, offset, bytes, false);
  if (b) b->is_bool = true;
  return b;
}

void buffer_start(struct buffer *b) {
  if (atomic_load(&b->state) != BUFFER_ABSENT || !claim(b) || reader_add(&b->errand)) return;
  finish(b, BUFFER_ABSENT, NULL);
  give(b, REF);
}

static void await_load(struct buffer *b) {
  pthread_mutex_lock(&buffer_mutex);
  while (atomic_load(&b->state) == BUFFER_LOADING) pthread_cond_wait(&changed, &buffer_mutex);
  pthread_mutex_unlock(&buffer_mutex);
}

static void fail_cut(struct buffer *b) {
  struct text why = { 0 };
  say_cut(b, &why);
  pthread_mutex_lock(&buffer_mutex);
  fail(b, &why);
  pthread_mutex_unlock(&buffer_mutex);
  text_free(&why);
}

static const char *why_of(struct buffer *b) {
  pthread_mutex_lock(&buffer_mutex);
  const char *why = b->why ? b->why : "a file could not be read, and there was no memory to say why";
  pthread_mutex_unlock(&buffer_mutex);
  return why;
}

/* Resident, failed, out of memory, or a device's failure. */
static weft_status settle(struct buffer *b) {
  for (;;) {
    int state = atomic_load_explicit(&b->state, memory_order_acquire);
    if (state == BUFFER_FAILED) return WEFT_ERR_FILE;
    if (state == BUFFER_RESIDENT) {
      if (b->kind != MAPPED || !source_was_cut(b->source)) return WEFT_OK;
      fail_cut(b);
    } else if (state == BUFFER_ABSENT ? claim(b) : b->source && reader_withdraw(&b->errand)) {
      weft_status status = do_load(b);
      if (status != WEFT_ERR_FILE) return status;
    } else {
      await_load(b);
    }
  }
}

static const char *why_not(struct buffer *b, weft_status status) {
  struct space_copy c;
  if (status == WEFT_ERR_FILE) return why_of(b);
  if (status == WEFT_ERR_DEVICE && some_copy(b, &c)) return c.device->message();
  return b->source ? no_memory : "out of memory on the host for a value of a device";
}

/* Held before it is looked for: a copy that is held is not brought anew in its place. */
static inline weft_status hold_here(struct buffer *b, void **data, const char **why) {
  take(b, HOLD);
  bool is_there = b->kind != MAPPED && atomic_load_explicit(&b->state, memory_order_acquire) == BUFFER_RESIDENT;
  weft_status status = is_there ? WEFT_OK : settle(b);
  if (status == WEFT_OK) return *data = b->data, status;
  if (why) *why = why_not(b, status);
  give(b, HOLD);
  return status;
}

/* Brings the bytes to a space whose copy the caller has claimed. */
static weft_status bring_there(struct buffer *b, struct space_copy *c, const char **why) {
  void *from;
  weft_status status = hold_here(b, &from, why);
  if (status) return status;
  int how = space_fill(c, from, b->bytes, b->kind == MAPPED);
  status = status_of(how);
  if (how && why) *why = message_of(c->device, how);
  if (!how && buffer_state_of(b) == BUFFER_FAILED) {
    status = settle(b);
    if (why) *why = why_not(b, status);
  }
  buffer_drop(b);
  return status;
}

/* The copy, claimed if it is absent; NULL: out of memory. */
static struct space_copy *claim_copy(struct buffer *b, const struct device *d, bool *is_ours) {
  pthread_mutex_lock(&buffer_mutex);
  struct space_copy *c = find_copy(b, d);
  if (!c) c = add_copy(b, d);
  while (c && c->state == BUFFER_LOADING) pthread_cond_wait(&changed, &buffer_mutex);
  *is_ours = c && c->state == BUFFER_ABSENT;
  if (*is_ours) c->state = BUFFER_LOADING;
  pthread_mutex_unlock(&buffer_mutex);
  return c;
}

/* While it was brought it may have been pinned elsewhere: then it serves its caller alone. */
static void end_claim(struct buffer *b, struct space_copy *c, bool is_there) {
  pthread_mutex_lock(&buffer_mutex);
  bool is_shown_elsewhere = (b->kind == EXTERNAL || atomic_load(&b->pins)) && atomic_load(&b->shown) != c->device;
  c->state = is_there && !is_shown_elsewhere ? BUFFER_RESIDENT : BUFFER_ABSENT;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&buffer_mutex);
}

static weft_status hold_there(struct buffer *b, const struct device *d, void **data, const char **why) {
  bool is_ours = false;
  const char *unused;
  if (!why) why = &unused;
  watch_forks_once();
  if (!d->available(d)) return *why = "the device is not there any more", WEFT_ERR_DEVICE;
  struct space_copy *c = claim_copy(b, d, &is_ours);
  if (!c) return *why = "out of memory", WEFT_ERR_MEMORY;
  weft_status status = is_ours ? bring_there(b, c, why) : WEFT_OK;
  if (is_ours) end_claim(b, c, status == WEFT_OK);
  if (status) return status;
  int how = event_follow(d, QUEUE_COMPUTE, &c->event);
  if (how) return *why = message_of(d, how), status_of(how);
  take(b, HOLD);
  *data = (void *)(uintptr_t)c->at;
  return WEFT_OK;
}

weft_status buffer_hold(struct buffer *b, const struct device *space, void **data, const char **why) {
  return space ? hold_there(b, space, data, why) : hold_here(b, data, why);
}

struct buffer *buffer_new_in(const struct device *d, size_t bytes, weft_status *status) {
  struct buffer *b = make(OWN, bytes, BUFFER_ABSENT);
  struct space_copy *c = b ? add_copy(b, d) : NULL;
  watch_forks_once();
  *status = c ? status_of(space_take(c, bytes)) : WEFT_ERR_MEMORY;
  if (*status == WEFT_OK) return c->state = BUFFER_RESIDENT, c->event = (struct event){ 0 }, b;
  if (b) end(b);
  return NULL;
}

struct buffer *buffer_heir(const struct device *d, size_t bytes) {
  struct buffer *b = make(OWN, bytes, BUFFER_ABSENT);
  if (b && add_copy(b, d)) return b;
  if (b) end(b);
  return NULL;
}

void buffer_inherit(struct buffer *heir, struct buffer *from, const struct device *d) {
  pthread_mutex_lock(&buffer_mutex);
  struct space_copy *to = find_copy(heir, d), *c = find_copy(from, d);
  to->at = c->at, to->event = c->event, to->state = BUFFER_RESIDENT;
  c->at = 0, c->event = (struct event){ 0 }, c->state = BUFFER_ABSENT;
  pthread_mutex_unlock(&buffer_mutex);
}

struct buffer *buffer_external_in(const struct device *d, uint64_t at, size_t bytes, void (*release)(void *ctx), void *ctx) {
  struct buffer *b = make(EXTERNAL, bytes, BUFFER_ABSENT);
  struct space_copy *c = b ? add_copy(b, d) : NULL;
  watch_forks_once();
  if (!c) return mem_free(b), NULL;
  c->at = at, c->is_foreign = true, c->state = BUFFER_RESIDENT;
  b->release = release, b->ctx = ctx;
  atomic_store(&b->shown, d);
  return b;
}

/* ---- Being written, shown, read ---- */

/* All copies but one are absent from now on. */
static void forget_others(struct buffer *b, const struct device *space) {
  for (struct space_copy *c = atomic_load(&b->copies); c; c = c->next)
    if (c->device != space && c->state == BUFFER_RESIDENT) c->state = BUFFER_ABSENT;
}

struct panels **buffer_panels(struct buffer *b) { return &b->panels; }
uint64_t buffer_version(struct buffer *b) { return atomic_load(&b->version); }

void buffer_wrote(struct buffer *b, const struct device *space, const struct event *e) {
  atomic_fetch_add(&b->version, 1);
  if (b->panels) panels_forget(b);
  if (!atomic_load_explicit(&b->copies, memory_order_relaxed)) return; /* there is one copy, the host's */
  pthread_mutex_lock(&buffer_mutex);
  forget_others(b, space);
  struct space_copy *c = space ? find_copy(b, space) : NULL;
  if (c) c->event = e ? *e : (struct event){ 0 };
  pthread_mutex_unlock(&buffer_mutex);
  atomic_store(&b->state, space ? BUFFER_ABSENT : BUFFER_RESIDENT);
  if (space) free_here(b);
}

/* Lock held. */
static bool is_valid_in(struct buffer *b, const struct device *space) {
  const struct space_copy *c = space ? find_copy(b, space) : NULL;
  return (space ? c && c->state == BUFFER_RESIDENT : atomic_load(&b->state) == BUFFER_RESIDENT);
}

/* Somebody may have pinned it elsewhere, and let go of it, since the caller held it: then his copy is void, and to make it the
 * only one would lose the bytes. */
enum buffer_pinned buffer_pin(struct buffer *b, const struct device *space) {
  bool is_free = true;
  pthread_mutex_lock(&buffer_mutex);
  if (b->kind == EXTERNAL || atomic_load(&b->pins)) is_free = atomic_load(&b->shown) == space;
  bool is_void = is_free && !is_valid_in(b, space);
  if (is_free && !is_void) {
    atomic_fetch_add(&b->pins, 1);
    atomic_fetch_add(&b->version, 1);
    atomic_store(&b->shown, space);
    forget_others(b, space);
    if (space && b->kind != MAPPED && atomic_load(&b->state) == BUFFER_RESIDENT) atomic_store(&b->state, BUFFER_ABSENT);
  }
  pthread_mutex_unlock(&buffer_mutex);
  panels_forget(b);
  return !is_free ? PINNED_ELSEWHERE : is_void ? PIN_VOID : PINNED;
}

void buffer_unpin(struct buffer *b) {
  pthread_mutex_lock(&buffer_mutex);
  if (atomic_fetch_sub(&b->pins, 1) == 1 && b->kind != EXTERNAL) atomic_store(&b->shown, NULL);
  pthread_mutex_unlock(&buffer_mutex);
}

bool buffer_is_shown(struct buffer *b, const struct device **where) {
  *where = atomic_load(&b->shown);
  return b->kind == EXTERNAL || atomic_load(&b->pins);
}

weft_status buffer_await(struct buffer *b, const char **why) {
  for (struct space_copy *c = atomic_load_explicit(&b->copies, memory_order_acquire); c; c = c->next) {
    pthread_mutex_lock(&buffer_mutex);
    struct event e = c->state == BUFFER_RESIDENT ? c->event : (struct event){ 0 };
    pthread_mutex_unlock(&buffer_mutex);
    int how = event_wait(&e);
    if (how) return *why = message_of(c->device, how), status_of(how);
  }
  return WEFT_OK;
}

bool buffer_is_done(struct buffer *b) {
  struct space_copy *c = atomic_load_explicit(&b->copies, memory_order_acquire);
  if (!c) return true;
  bool done = true;
  pthread_mutex_lock(&buffer_mutex);
  for (; done && c; c = c->next) done = c->state != BUFFER_RESIDENT || event_is_over(&c->event);
  pthread_mutex_unlock(&buffer_mutex);
  return done;
}

bool buffer_is_lost(struct buffer *b) {
  struct space_copy c;
  return !buffer_is_here(b) && some_copy(b, &c) && c.device->is_lost(c.device);
}

bool buffer_is_only_here(struct buffer *b) {
  return buffer_is_here(b) && !atomic_load_explicit(&b->copies, memory_order_acquire);
}

bool buffer_is_here(struct buffer *b) {
  return b->source || atomic_load_explicit(&b->state, memory_order_acquire) == BUFFER_RESIDENT;
}

const struct device *buffer_space(struct buffer *b) {
  struct space_copy c;
  return !buffer_is_here(b) && some_copy(b, &c) ? c.device : NULL;
}

bool buffer_is_there(struct buffer *b, const struct device *d) {
  bool yes = false;
  const struct device *where;
  if (buffer_is_shown(b, &where) && where != d) return false;
  pthread_mutex_lock(&buffer_mutex);
  for (struct space_copy *c = atomic_load(&b->copies); c && !yes; c = c->next) yes = c->device == d && c->state == BUFFER_RESIDENT;
  pthread_mutex_unlock(&buffer_mutex);
  return yes;
}

weft_status buffer_read(struct buffer *b, int64_t at, size_t bytes, void *to, const char **why) {
  struct space_copy c;
  if (!some_copy(b, &c)) return *why = "its memory is nowhere", WEFT_ERR_INTERNAL;
  int how = space_read(&c, at, bytes, to);
  if (how) *why = message_of(c.device, how);
  return status_of(how);
}

/* Without a file the bytes are somewhere: here, or on a device. */
enum buffer_state buffer_state_of(struct buffer *b) {
  int state = atomic_load_explicit(&b->state, memory_order_acquire);
  if (!b->source) return BUFFER_RESIDENT;
  bool depends = state == BUFFER_ABSENT || (state == BUFFER_RESIDENT && b->kind == MAPPED);
  return depends && source_is_cut(b->source) ? BUFFER_FAILED : (enum buffer_state)state;
}
