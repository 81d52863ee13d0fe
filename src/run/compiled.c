/* compiled.c -- kernels that were compiled, found again by their text: see compiled.h. */
#include "run/compiled.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "backend/processor.h"
#include "base/hard.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "run/device.h"

enum { BUCKETS = 1024, MOST = 4096 }; /* kernels kept, of some KiB each; beyond, those not used since the last sweep go */

pthread_mutex_t compiled_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct compiled *bucket[BUCKETS];
static int n_kept;
static struct compiled *making;   /* being compiled by some thread: who wants the same waits for it. Through `next` */
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static _Atomic int64_t n_compiled, n_fallbacks;
static _Atomic int tile; /* of the vm, for tests; 0: its own */
static _Atomic(const struct processor *) processor; /* NULL: not asked yet */

int64_t compiled_count(void) { return atomic_load(&n_compiled); }
int64_t compiled_fallbacks(void) { return atomic_load(&n_fallbacks); }

void compiled_use(const char *name) {
  atomic_store(&processor, processor_named(name && !strcmp(name, "x86") ? NULL : name));
}

void compiled_use_tile(int lanes) { atomic_store(&tile, lanes); }

static const struct processor *chosen(void) {
  const struct processor *p = atomic_load_explicit(&processor, memory_order_relaxed);
  if (p) return p;
  const char *jit = getenv("WEFT_JIT");
  compiled_use(jit && !strcmp(jit, "0") ? "vm" : jit && !strcmp(jit, "avx2") ? "avx2" : NULL);
  return atomic_load(&processor);
}

const char *compiled_by(void) { return chosen()->text; }
const struct contractor *compiled_contractor(void) { return chosen()->contractor; }

static void destroy(struct compiled *c) {
  if (c->code) c->backend->free(c->code);
  kir_free(c->kernel);
  mem_free(c->text);
  mem_free(c);
}

void compiled_release(struct compiled *c) {
  INVARIANT(!c || atomic_load(&c->refs) > 0);
  if (c && atomic_fetch_sub(&c->refs, 1) == 1) destroy(c);
}

/* Forgets kernels that only the table knows; lock held. */
static void sweep(void) {
  for (int i = 0; i < BUCKETS; i++)
    for (struct compiled **at = &bucket[i], *c; (c = *at);) {
      if (atomic_load(&c->refs) > 1) { at = &c->next; continue; }
      *at = c->next;
      n_kept--;
      compiled_release(c);
    }
}

void compiled_drop_all(void) {
  pthread_mutex_lock(&compiled_mutex);
  sweep();
  pthread_mutex_unlock(&compiled_mutex);
}

static bool is_same(const struct compiled *a, const struct compiled *b) {
  return a->hash == b->hash && a->device == b->device && !strcmp(a->text, b->text) &&
         !memcmp(&a->shape, &b->shape, sizeof a->shape);
}

static struct compiled *find(struct compiled *in, const struct compiled *wanted) {
  while (in && !is_same(in, wanted)) in = in->next;
  return in;
}

/* Compiles a kernel for its device. One that the device's printer cannot translate is left to the host. */
static struct failure *compile_there(struct compiled *c) {
  const char *why = "";
  switch (c->device->compile(c->device, c->kernel, &c->shape, &c->code, &why)) {
    case DEVICE_OK: c->backend = c->device->backend, c->is_on_device = true; return NULL;
    case DEVICE_CANNOT: atomic_fetch_add(&n_fallbacks, 1); return NULL;
    case DEVICE_NO_MEMORY: return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory while compiling a kernel");
    default: return device_refuses(c->device, 0, c->text);
  }
}

/* Where the processor's own cannot, that which takes every kernel does. */
static const char *compile(struct compiled *c, const struct processor *p) {
  const char *why = "";
  c->backend = p->backend;
  c->code = c->backend->compile(c->kernel, &c->shape, &why);
  if (c->code || p == processor_any()) return c->code ? NULL : why;
  if (!c->device) atomic_fetch_add(&n_fallbacks, 1);
  c->backend = processor_any()->backend;
  c->code = c->backend->compile(c->kernel, &c->shape, &why);
  return c->code ? NULL : why;
}

static struct failure *build(struct compiled *c, const struct processor *p) {
  const char *wrong = kir_verify(c->kernel);
  if (c->kernel->failed) return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory while compiling a kernel");
  if (wrong) return fail(WEFT_ERR_INTERNAL, 0, "weft: a kernel is not well formed: %s\n%s", wrong, c->text);
  if (!kir_legalise(c->kernel)) return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory while compiling a kernel");
  struct failure *failed = c->device ? compile_there(c) : NULL;
  if (failed) return failed;
  wrong = c->code ? NULL : compile(c, p);
  if (wrong && *wrong) return fail(WEFT_ERR_INTERNAL, 0, "weft: a kernel cannot be compiled: %s\n%s", wrong, c->text);
  if (wrong) return fail(WEFT_ERR_MEMORY, 0, "weft: out of memory while compiling a kernel");
  c->facts = kir_facts(c->kernel);
  atomic_fetch_add(&n_compiled, 1);
  return NULL;
}

/* The one that there is already, with a reference, waiting if it is being made; NULL: it is now this one that is being made. */
static struct compiled *find_or_claim(struct compiled *c) {
  struct compiled *other;
  pthread_mutex_lock(&compiled_mutex);
  while (!(other = find(bucket[c->hash % BUCKETS], c)) && find(making, c)) pthread_cond_wait(&made, &compiled_mutex);
  if (other) atomic_fetch_add(&other->refs, 1);
  else c->next = making, making = c;
  pthread_mutex_unlock(&compiled_mutex);
  return other;
}

static void end_claim(struct compiled *c, bool is_kept) {
  struct compiled **at = &making;
  pthread_mutex_lock(&compiled_mutex);
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  if (is_kept) {
    if (n_kept >= MOST) sweep();
    c->next = bucket[c->hash % BUCKETS];
    bucket[c->hash % BUCKETS] = c;
    n_kept++;
    atomic_store(&c->refs, 2);
  }
  pthread_cond_broadcast(&made);
  pthread_mutex_unlock(&compiled_mutex);
}

/* The threads that were making them are gone. */
void compiled_after_fork(void) {
  making = NULL;
  pthread_cond_init(&made, NULL);
}

struct compiled *compiled_get(struct kir_kernel *k, const struct shape_class *given, const struct device *device,
                              struct failure **failure) {
  struct text t = { 0 };
  const struct processor *p = chosen();
  struct compiled wanted = { .kernel = k, .shape = *given, .device = device, .refs = 1 }, *c = NULL, *other;
  wanted.shape.set = p->set;
  if (atomic_load(&tile)) wanted.shape.tile = atomic_load(&tile);
  kir_print(k, &t);
  wanted.hash = hash_mix(hash_mix(hash_bytes(text_of(&t), t.n), hash_bytes(&wanted.shape, sizeof wanted.shape)),
                         (uint64_t)(uintptr_t)p);
  if (!t.failed) c = mem_alloc(sizeof *c);
  if (!c) {
    text_free(&t);
    kir_free(k);
    *failure = fail(WEFT_ERR_MEMORY, 0, "weft: out of memory while compiling a kernel");
    return NULL;
  }
  wanted.text = t.s;
  *c = wanted;
  if ((other = find_or_claim(c))) return destroy(c), other;
  *failure = build(c, p);
  end_claim(c, !*failure);
  return *failure ? destroy(c), NULL : c;
}
