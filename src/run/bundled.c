/* bundled.c -- which runs of a plan are alike, and the bundles that are kept of them: see bundled.h.
 *
 * What tells runs apart is where the stores stand on the device, where checks are written, and whether memory is overwritten; sizes
 * and strides are the plan's. Addresses come again soon where results are dropped before the next ones are made, or overwritten in
 * place; where they do not, nothing is recorded. */
#include "run/bundled.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "run/device.h"

enum { SLOTS = 16, FEW_STEPS = 2, MOST_VAIN = 32 }; /* so many bundles in vain, and no more are tried */

struct bundled_slot { uint64_t *word; struct bundle *bundle; uint64_t used; };

struct bundled {
  pthread_mutex_t lock;
  uint64_t now;
  int n_vain;
  struct bundled_slot slot[SLOTS];
};

/* WEFT_BUNDLE=0 in the environment: steps are always enqueued one by one, to compare. */
static bool is_wanted(void) {
  const char *s = getenv("WEFT_BUNDLE");
  return !s || strcmp(s, "0");
}

bool bundled_may(const struct plan *p) {
  bool may = p->device && p->device->bundle_begin && is_wanted() && p->schedule->n_steps >= FEW_STEPS;
  for (int i = 0; may && i < p->schedule->n_steps; i++) may = plan_is_on_device(p, i) && !plan_looks(p, i);
  return may;
}

void bundled_free(struct bundled *b, const struct device *d) {
  if (!b) return;
  for (int i = 0; i < SLOTS; i++) {
    if (b->slot[i].bundle) d->bundle_free(d, b->slot[i].bundle);
    mem_free(b->slot[i].word);
  }
  pthread_mutex_destroy(&b->lock);
  mem_free(b);
}

static struct bundled *bundled_of(struct plan *p) {
  struct bundled *b = atomic_load_explicit(&p->bundled, memory_order_acquire), *none = NULL;
  if (b || !(b = mem_alloc(sizeof *b))) return b;
  pthread_mutex_init(&b->lock, NULL);
  if (atomic_compare_exchange_strong(&p->bundled, &none, b)) return b;
  bundled_free(b, p->device);
  return none;
}

/* ---- runs that are alike ---- */

static size_t n_words(const struct plan *p) { return (size_t)p->schedule->n_stores + 2; }

static void describe(const struct plan *p, const struct run *r, uint8_t *const there[], uint64_t word[]) {
  int n = p->schedule->n_stores;
  for (int i = 0; i < n; i++) word[i] = (uint64_t)(uintptr_t)there[i];
  word[n] = (uint64_t)(uintptr_t)r->checks;
  word[n + 1] = r->overwrites != 0;
}

static struct bundled_slot *find(struct bundled *b, const struct plan *p, const uint64_t word[]) {
  for (int i = 0; i < SLOTS; i++)
    if (b->slot[i].word && !memcmp(b->slot[i].word, word, n_words(p) * sizeof *word)) return &b->slot[i];
  return NULL;
}

/* The slot that is given up: one without a bundle if there is any, and of these the one that was not used for longest. */
static struct bundled_slot *oldest(struct bundled *b) {
  struct bundled_slot *x = &b->slot[0];
  for (int i = 1; i < SLOTS; i++) {
    struct bundled_slot *y = &b->slot[i];
    if (!y->bundle != !x->bundle ? !y->bundle : y->used < x->used) x = y;
  }
  return x;
}

static void remember(struct bundled *b, const struct plan *p, const uint64_t word[]) {
  struct bundled_slot *x = oldest(b);
  if (x->bundle) p->device->bundle_free(p->device, x->bundle), b->n_vain++;
  x->bundle = NULL, x->used = b->now;
  if (!x->word) x->word = mem_alloc(n_words(p) * sizeof *word);
  if (x->word) memcpy(x->word, word, n_words(p) * sizeof *word);
}

/* ---- running ---- */

/* The words of its checks move on from step to step. */
static struct failure *enqueue(const struct plan *p, struct run *r, uint8_t *const there[]) {
  struct failure *f = NULL;
  int64_t *checks = r->checks;
  for (int i = 0; !f && i < p->schedule->n_steps; i++) {
    f = plan_step(p, i, r, there);
    if (r->checks) r->checks += plan_checks(p, i);
  }
  r->checks = checks;
  return f;
}

/* Whatever goes wrong while it is recorded is met again, and told, when the steps are run. */
static int record(const struct plan *p, struct run *r, uint8_t *const there[], struct bundle **out) {
  const struct device *d = p->device;
  int how = d->bundle_begin(d);
  if (how) return DEVICE_CANNOT;
  struct failure *f = enqueue(p, r, there);
  how = d->bundle_end(d, !f, out);
  failure_release(f);
  return how;
}

static int start(struct bundled *b, struct plan *p, struct run *r, uint8_t *const there[], const uint64_t word[]) {
  struct bundled_slot *x = find(b, p, word);
  b->now++;
  if (!x) return remember(b, p, word), DEVICE_CANNOT;
  x->used = b->now;
  if (x->bundle) return p->device->bundle_start(p->device, x->bundle);
  if (b->n_vain >= MOST_VAIN) return DEVICE_CANNOT;
  int how = record(p, r, there, &x->bundle);
  if (how) x->bundle = NULL, b->n_vain++;
  return how;
}

bool bundled_run(struct plan *p, struct run *r, uint8_t *const there[], struct failure **failure) {
  uint64_t few[64], *word = n_words(p) <= 64 ? few : mem_alloc(n_words(p) * sizeof *word);
  struct bundled *b = bundled_of(p);
  int how = DEVICE_CANNOT;
  *failure = NULL;
  if (b && word && !pthread_mutex_trylock(&b->lock)) { /* another thread runs the same: this one does without */
    describe(p, r, there, word);
    how = start(b, p, r, there, word);
    pthread_mutex_unlock(&b->lock);
  }
  if (word != few) mem_free(word);
  if (how && how != DEVICE_CANNOT) *failure = device_failure(p->device, how);
  return how != DEVICE_CANNOT;
}
