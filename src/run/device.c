#include "run/device.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "run/buffer.h"
#include "run/memory.h"

/* ---- which ---- */

static _Atomic(const struct device *) first; /* NULL: the GPU */

void device_use(const struct device *d) { atomic_store(&first, d); }

const struct device *device_numbered(int n) {
  const struct device *d = n == 1 ? atomic_load(&first) : NULL;
  if (n == 1 && !d) d = &device_cuda;
  return d && d->backend->available() ? d : NULL;
}

int device_count(void) { return device_numbered(1) ? 2 : 1; }

int device_default(void) {
  static _Atomic int known; /* 0: not asked yet; else 1 + the number */
  int k = atomic_load_explicit(&known, memory_order_relaxed);
  if (k) return k - 1;
  const char *s = getenv("WEFT_DEVICE");
  int n = s && !strcmp(s, "1") && device_numbered(1) ? 1 : 0;
  atomic_store(&known, 1 + n);
  return n;
}

struct failure *device_failure(const struct device *d, int how) {
  if (how == DEVICE_NO_MEMORY) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory on the device (%s)", d->backend->name);
  return fail(WEFT_ERR_DEVICE, 0, "weft_eval: %s", d->message());
}

/* ---- where the bytes of stores are ---- */

struct stay { uint8_t *at; bool has_memory, on_device, on_host; }; /* at: of the store's base on the device */

struct tour {                /* one run of a plan */
  const struct device *d;
  const struct plan *p;
  struct run *r;
  uint8_t *const *host;      /* by store, as the two below */
  uint8_t **there;
  struct stay *stay;
  uint64_t block;            /* of temporaries, on the device */
  struct failure *failure;
};

static const struct store *store_of(const struct tour *t, int i) { return &t->p->schedule->store[i]; }
static struct buffer *buffer_of(const struct tour *t, int i) { return t->r->leaf[store_of(t, i)->leaf].buf; }
static bool is_leaf(const struct tour *t, int i) { return store_of(t, i)->leaf >= 0; }

/* A leaf may be any view of its buffer, so all of the buffer goes with it: bytes in front of the store's base .. */
static int64_t bytes_before(const struct tour *t, int i) { return is_leaf(t, i) ? t->r->leaf[store_of(t, i)->leaf].offset : 0; }
/* .. and all in all. */
static size_t bytes_of(const struct tour *t, int i) {
  return is_leaf(t, i) ? buffer_bytes(buffer_of(t, i)) : (size_t)store_of(t, i)->bytes;
}

/* An element more: a kernel may load that of an empty array and not use it. */
static size_t room_for(size_t bytes) { return bytes + 16; }

static void note(struct tour *t, int how) {
  if (how && !t->failure) t->failure = device_failure(t->d, how);
}

/* Another view of the same buffer that is there already, or -1. */
static int twin(const struct tour *t, int i) {
  for (int k = 0; is_leaf(t, i) && k < t->p->schedule->n_stores; k++)
    if (k != i && t->stay[k].has_memory && is_leaf(t, k) && buffer_of(t, k) == buffer_of(t, i)) return k;
  return -1;
}

static void take(struct tour *t, int i) {
  const struct store *s = store_of(t, i);
  struct stay *y = &t->stay[i];
  uint64_t at = 0;
  if (y->at) return;
  if (s->leaf < 0 && !s->is_output) at = t->block + (uint64_t)s->offset;
  else {
    note(t, t->d->take(room_for(bytes_of(t, i)), &at));
    y->has_memory = at != 0;
  }
  if (at) y->at = (uint8_t *)(uintptr_t)(at + (uint64_t)bytes_before(t, i));
}

static void give(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  if (y->has_memory) t->d->give((uint64_t)(uintptr_t)y->at - (uint64_t)bytes_before(t, i), room_for(bytes_of(t, i)));
}

/* ---- moving ---- */

enum { PIECE = 4 << 20 };

/* Pages of a file may vanish while they are read: that must happen to us, who expect it (guard.h), and not to the driver. */
static int upload_pages(const struct tour *t, uint64_t to, const uint8_t *from, size_t bytes) {
  size_t most = bytes < PIECE ? bytes : PIECE;
  void *piece = memory_take(most);
  int how = piece ? DEVICE_OK : DEVICE_NO_MEMORY;
  for (size_t at = 0, n; !how && at < bytes; at += n) {
    n = bytes - at < most ? bytes - at : most;
    memcpy(piece, from + at, n);
    how = t->d->upload(to + at, piece, n);
  }
  if (piece) memory_give(piece, most);
  return how;
}

static void upload(struct tour *t, int i) {
  const uint8_t *from = t->host[i] - bytes_before(t, i);
  uint64_t to = (uint64_t)(uintptr_t)t->stay[i].at - (uint64_t)bytes_before(t, i);
  if (is_leaf(t, i) && buffer_is_mapped(buffer_of(t, i))) note(t, upload_pages(t, to, from, bytes_of(t, i)));
  else note(t, t->d->upload(to, from, bytes_of(t, i)));
}

static void bring(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  int k;
  if (t->failure || y->on_device) return;
  if (!y->at && (k = twin(t, i)) >= 0) y->at = t->stay[k].at - bytes_before(t, k) + bytes_before(t, i);
  else {
    take(t, i);
    if (!t->failure && y->on_host && bytes_of(t, i)) upload(t, i);
  }
  y->on_device = y->on_host;
  t->there[i] = y->at;
}

static void take_home(struct tour *t, int i) {
  struct stay *y = &t->stay[i];
  if (t->failure || y->on_host || !y->on_device) return;
  note(t, t->d->download(t->host[i], (uint64_t)(uintptr_t)y->at, bytes_of(t, i)));
  y->on_host = true;
}

/* ---- steps ---- */

/* What is written may be written in parts, so what is there of it comes along. */
static void to_device(void *t, int *store, enum store_use use) { (void)use, bring(t, *store); }
static void to_host(void *t, int *store, enum store_use use) { (void)use, take_home(t, *store); }
static void made_there(void *of, int *store, enum store_use use) {
  struct stay *y = &((struct tour *)of)->stay[*store];
  if (use & STORE_WRITTEN) y->on_device = true, y->on_host = false;
}
static void made_here(void *of, int *store, enum store_use use) {
  struct stay *y = &((struct tour *)of)->stay[*store];
  if (use & STORE_WRITTEN) y->on_device = false, y->on_host = true;
}

static void run_step(struct tour *t, int i) {
  bool there = plan_is_on_device(t->p, i);
  step_stores(t->p->schedule, i, there ? to_device : to_host, t);
  if (!t->failure) t->failure = plan_step(t->p, i, t->r, there ? t->there : t->host);
  step_stores(t->p->schedule, i, there ? made_there : made_here, t);
}

static void run_steps(struct tour *t) {
  const struct schedule *s = t->p->schedule;
  for (int i = 0; i < s->n_stores; i++) t->stay[i].on_host = s->store[i].leaf >= 0;
  note(t, t->d->take(room_for((size_t)s->block_bytes), &t->block));
  for (int i = 0; !t->failure && i < s->n_steps; i++) run_step(t, i);
  for (int i = 0; !t->failure && i < s->n_stores; i++) if (s->store[i].is_output) take_home(t, i);
  for (int i = 0; i < s->n_stores; i++) give(t, i);
  t->d->give(t->block, room_for((size_t)s->block_bytes));
}

struct failure *device_steps(const struct plan *p, struct run *r, uint8_t *const base[]) {
  size_t n = (size_t)p->schedule->n_stores + 1;
  struct tour t = { .d = p->device, .p = p, .r = r, .host = base, .there = mem_alloc(sizeof *t.there * n),
                    .stay = mem_alloc(sizeof *t.stay * n) };
  if (t.there && t.stay) run_steps(&t);
  else t.failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  mem_free(t.there);
  mem_free(t.stay);
  return t.failure;
}
