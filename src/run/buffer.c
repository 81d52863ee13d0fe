/* buffer.c -- memory of arrays and the one state machine: absent -> loading -> resident, or failed.
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
#include "run/reader.h"
#include "run/source.h"

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
};

#define REF UINT64_C(1)
#define HOLD (UINT64_C(1) << 32)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

struct buffer *buffer_external(void *data, size_t bytes, void (*release)(void *ctx), void *ctx) {
  struct buffer *b = make(EXTERNAL, bytes, BUFFER_RESIDENT);
  if (!b) return NULL;
  b->data = data ? data : nothing;
  b->release = release;
  b->ctx = ctx;
  return b;
}

static void call_release(struct buffer *b) {
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
  if (b->kind == EXTERNAL) {
    if (is_own_thread && b->release) queue_release(b);
    else call_release(b);
    return;
  }
  if (b->kind != MAPPED && b->data != nothing) memory_give(b->data, b->bytes);
  source_release(b->source);
  mem_free(b->why);
  mem_free(b);
}

static void take(struct buffer *b, uint64_t what) { atomic_fetch_add_explicit(&b->counts, what, memory_order_relaxed); }

static void give(struct buffer *b, uint64_t what) {
  if (atomic_fetch_sub_explicit(&b->counts, what, memory_order_acq_rel) == what) end(b);
}

struct buffer *buffer_retain(struct buffer *b) { return take(b, REF), b; }
void buffer_release(struct buffer *b) { if (b) give(b, REF); }
void buffer_drop(struct buffer *b) { give(b, HOLD); }
size_t buffer_bytes(struct buffer *b) { return b->bytes; }
bool buffer_is_mapped(struct buffer *b) { return b->kind == MAPPED; }
void buffer_pin(struct buffer *b, bool on) { atomic_fetch_add(&b->pins, on ? 1 : -1); }

bool buffer_is_only(struct buffer *b) {
  bool one = (uint32_t)atomic_load_explicit(&b->counts, memory_order_acquire) == 1;
  return one && b->kind == OWN && !atomic_load(&b->pins);
}

static const char no_memory[] = "out of memory while reading a file";

static void say_cut(struct buffer *b, struct text *why) {
  text_addf(why, "%s: the file was cut or could not be read while it was in use; it had %lld bytes when it was opened",
            source_path(b->source), (long long)source_bytes(b->source));
}

/* Brings the pages of [p, p + bytes) in. The kernel does it at once and reports a fault as an error; where it cannot, each
 * page is touched, under the eyes of guard.c. */
static void fault_in(uint8_t *p, size_t bytes) {
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

static weft_status load(struct buffer *b, struct text *why) {
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

/* Lack of memory is not a property of the file: the buffer is absent again, and may be asked for later. */
static void finish(struct buffer *b, enum buffer_state state, struct text *why) {
  pthread_mutex_lock(&lock);
  unlist(b);
  if (state == BUFFER_FAILED) fail(b, why);
  else atomic_store(&b->state, state);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

/* Does the load that the caller has claimed, and gives back its reference. */
static weft_status do_load(struct buffer *b) {
  struct text why = { 0 };
  weft_status status = load(b, &why);
  finish(b, status == WEFT_OK ? BUFFER_RESIDENT : status == WEFT_ERR_MEMORY ? BUFFER_ABSENT : BUFFER_FAILED, &why);
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
  pthread_mutex_lock(&lock);
  bool ok = atomic_load(&b->state) == BUFFER_ABSENT;
  if (ok) {
    atomic_store(&b->state, BUFFER_LOADING);
    list(b);
    take(b, REF);
  }
  pthread_mutex_unlock(&lock);
  return ok;
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }

/* In the child nobody is loading any more. */
static void after_fork(void) {
  changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  give_lock();
  for (struct buffer *b; (b = loads);) {
    if (b->kind == COPIED && b->data) memory_give(b->data, b->bytes);
    if (b->kind == COPIED) b->data = NULL;
    finish(b, BUFFER_ABSENT, NULL);
    give(b, REF);
  }
}

/* Handlers run in the child in the order of registration: what after_fork above uses must be ready by then. */
static void watch_forks(void) {
  (void)memory_used(); /* its first use registers */
  guard_watch_forks();
  reader_watch_forks();
  pthread_atfork(take_lock, give_lock, after_fork);
}

static struct buffer *from_source(struct source *s, int64_t offset, size_t bytes, bool is_mapped) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
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
  pthread_mutex_lock(&lock);
  while (atomic_load(&b->state) == BUFFER_LOADING) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static void fail_cut(struct buffer *b) {
  struct text why = { 0 };
  say_cut(b, &why);
  pthread_mutex_lock(&lock);
  fail(b, &why);
  pthread_mutex_unlock(&lock);
  text_free(&why);
}

static const char *why_of(struct buffer *b) {
  pthread_mutex_lock(&lock);
  const char *why = b->why ? b->why : "a file could not be read, and there was no memory to say why";
  pthread_mutex_unlock(&lock);
  return why;
}

/* Resident, failed, or out of memory. */
static weft_status settle(struct buffer *b) {
  for (;;) {
    int state = atomic_load_explicit(&b->state, memory_order_acquire);
    if (state == BUFFER_FAILED) return WEFT_ERR_FILE;
    if (state == BUFFER_RESIDENT) {
      if (b->kind != MAPPED || !source_was_cut(b->source)) return WEFT_OK;
      fail_cut(b);
    } else if (state == BUFFER_ABSENT ? claim(b) : reader_withdraw(&b->errand)) {
      weft_status status = do_load(b);
      if (status == WEFT_ERR_MEMORY) return status;
    } else {
      await_load(b);
    }
  }
}

weft_status buffer_hold(struct buffer *b, void **data, const char **why) {
  weft_status status = settle(b);
  if (status == WEFT_OK) {
    take(b, HOLD);
    *data = b->data;
  } else if (why) {
    *why = status == WEFT_ERR_MEMORY ? no_memory : why_of(b);
  }
  return status;
}

enum buffer_state buffer_state_of(struct buffer *b) {
  int state = atomic_load_explicit(&b->state, memory_order_acquire);
  bool depends = state == BUFFER_ABSENT || (state == BUFFER_RESIDENT && b->kind == MAPPED);
  return depends && source_is_cut(b->source) ? BUFFER_FAILED : (enum buffer_state)state;
}
