/* bundled.c -- which runs of a plan are alike, and the bundles that are kept of them: see bundled.h.
 *
 * What tells runs apart is where the stores stand on the device, where checks are written, and whether memory is overwritten; sizes
 * and strides are the plan's. Addresses come again soon where results are dropped before the next ones are made, or overwritten in
 * place: a few bundles are kept, of whatever addresses come first. For other ones the bundle that was not used for longest is
 * renewed; one with copies or a library's work cannot be: then only addresses that came before are recorded. */
#include "run/bundled.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "run/device.h"

enum { SLOTS = 16, FEW_BUNDLES = 4 };
enum { MOST_VAIN = 32, IMPOSSIBLE = 16 }; /* after so many bundles that were forgotten no more are tried; one that cannot be made
                                             counts for some */

struct bundled_slot { uint64_t *word; struct bundle *bundle; uint64_t used; };

struct bundled {
  pthread_mutex_t lock;
  uint64_t now;
  int n_vain, n_bundles;
  struct bundled_slot slot[SLOTS];
};

/* WEFT_BUNDLE=0 in the environment: steps are always enqueued one by one, to compare. */
static bool is_wanted(void) {
  const char *s = getenv("WEFT_BUNDLE");
  return !s || strcmp(s, "0");
}

/* One launch is enqueued sooner than one graph: bench/device calls. */
bool bundled_may(const struct plan *p) {
  bool may = p->device && p->device->bundle_begin && is_wanted() && p->schedule->n_steps > 1;
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
  word[n] = (uint64_t)(uintptr_t)r->words;
  word[n + 1] = r->overwrites != 0;
}

static struct bundled_slot *find(struct bundled *b, const struct plan *p, const uint64_t word[]) {
  for (int i = 0; i < SLOTS; i++)
    if (b->slot[i].word && !memcmp(b->slot[i].word, word, n_words(p) * sizeof *word)) return &b->slot[i];
  return NULL;
}

/* The slot that was not used for longest, of those with a bundle or of those without; NULL: there is none. */
static struct bundled_slot *oldest(struct bundled *b, bool has_bundle) {
  struct bundled_slot *x = NULL;
  for (int i = 0; i < SLOTS; i++)
    if ((b->slot[i].bundle != NULL) == has_bundle && (!x || b->slot[i].used < x->used)) x = &b->slot[i];
  return x;
}

static void forget(struct bundled *b, struct bundled_slot *x) { x->bundle = NULL, b->n_bundles--, b->n_vain++; }

/* NULL: out of memory. */
static struct bundled_slot *remember(struct bundled *b, const struct plan *p, const uint64_t word[]) {
  struct bundled_slot *x = oldest(b, false);
  if (!x) {
    x = oldest(b, true);
    p->device->bundle_free(p->device, x->bundle);
    forget(b, x);
  }
  x->used = b->now;
  if (!x->word) x->word = mem_alloc(n_words(p) * sizeof *word);
  if (x->word) memcpy(x->word, word, n_words(p) * sizeof *word);
  return x->word ? x : NULL;
}

/* ---- running ---- */

/* The words of its checks move on from step to step. */
static struct failure *enqueue(const struct plan *p, struct run *r, uint8_t *const there[]) {
  struct failure *f = NULL;
  struct finding_words *words = r->words;
  for (int i = 0; !f && i < p->schedule->n_steps; i++) {
    f = plan_step(p, i, r, there);
    if (r->words) r->words += plan_checks(p, i);
  }
  r->words = words;
  return f;
}

/* Whatever goes wrong between begin and end is met again, and told, when the steps are run. */
static int end(const struct plan *p, struct run *r, uint8_t *const there[], struct bundle **out) {
  struct failure *f = enqueue(p, r, there);
  int how = p->device->bundle_end(p->device, !f, out);
  failure_release(f);
  return how;
}

static int record(struct bundled *b, const struct plan *p, struct run *r, uint8_t *const there[], struct bundled_slot *x) {
  if (b->n_vain >= MOST_VAIN || p->device->bundle_begin(p->device)) return DEVICE_CANNOT;
  int how = end(p, r, there, &x->bundle);
  if (how) b->n_vain += IMPOSSIBLE;
  else b->n_bundles++;
  return how;
}

/* The oldest bundle, for these addresses. *is_done false: none can be. */
static int renew(struct bundled *b, const struct plan *p, struct run *r, uint8_t *const there[], const uint64_t word[],
                 bool *is_done) {
  struct bundled_slot *x = oldest(b, true);
  *is_done = x && !p->device->bundle_renew(p->device, x->bundle);
  if (!*is_done) return DEVICE_CANNOT;
  int how = end(p, r, there, &x->bundle);
  x->used = b->now;
  memcpy(x->word, word, n_words(p) * sizeof *word);
  if (how) forget(b, x);
  return how;
}

/* The first run is remembered, the second recorded. */
static int start(struct bundled *b, struct plan *p, struct run *r, uint8_t *const there[], const uint64_t word[]) {
  struct bundled_slot *x = find(b, p, word);
  bool is_new = !x, is_done = false;
  if (x && x->bundle) return x->used = ++b->now, p->device->bundle_start(p->device, x->bundle);
  bool is_first = b->now++ == 0;
  if (is_new && b->n_bundles >= FEW_BUNDLES) {
    int how = renew(b, p, r, there, word, &is_done);
    if (is_done) return how;
  }
  if (is_new) x = remember(b, p, word);
  bool waits = is_first || (is_new && b->n_bundles >= FEW_BUNDLES); /* for these addresses to come again */
  return x && !waits ? record(b, p, r, there, x) : DEVICE_CANNOT;
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
  if (how && how != DEVICE_CANNOT) *failure = device_failure(p->device, how, 0);
  return how != DEVICE_CANNOT;
}
