/* verdict.c -- verdicts: open, then fine or failed. See verdict.h.
 *
 * The words, the plan that says what they mean, and those before it are needed until it is settled. Any number of threads may be
 * reading them then: the last one who leaves lets go of them. `state` is set once, under the lock, and read without it. */
#include "run/verdict.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "graph/node.h"
#include "run/device.h"
#include "run/kernel_step.h"
#include "run/space.h"

enum { OPEN, FINE, FAILED };
enum { DEEP = 32 }; /* open verdicts in a row: who adds one more waits first, so that they do not become ever more */

struct verdict {
  _Atomic int refs, state;
  bool is_closed;            /* all that writes the words is enqueued */
  bool has_lent;             /* the words are the device's, and not memory that was taken for them */
  int depth, n_checks, n_readers, n_before;
  int n_parts;               /* that are open: they read the words too, also once it has failed */
  struct failure *failure;   /* once failed */
  struct plan *plan;
  struct space_copy words;
  struct verdict *whole;     /* a part's: whose words it reads; NULL: it is none */
  const bool *counts;        /* by step of that plan: its words are the part's, too; NULL: all are */
  struct verdict *before[];
};

pthread_mutex_t verdict_mutex = PTHREAD_MUTEX_INITIALIZER; /* of states and of who reads */

/* ---- Beginning and end ---- */

static size_t word_bytes(const struct verdict *v) { return (size_t)v->n_checks * sizeof(struct finding_words); }

static void leave_whole(struct verdict *);

/* Nobody reads it and nobody will. */
static void drop_parts(struct verdict *v) {
  const struct device *d = v->words.device;
  if (v->has_lent) d->words_give(d, v->words.at, v->n_checks, atomic_load(&v->state) == FINE);
  else if (v->words.at) space_give(&v->words, word_bytes(v));
  v->has_lent = false, v->words.at = 0;
  plan_release(v->plan);
  for (int i = 0; i < v->n_before; i++) verdict_release(v->before[i]);
  if (v->whole) leave_whole(v->whole);
  v->plan = NULL, v->whole = NULL, v->n_before = 0;
}

/* The last part that reads the words of what has failed lets go of them. */
static void leave_whole(struct verdict *whole) {
  pthread_mutex_lock(&verdict_mutex);
  bool is_over = --whole->n_parts == 0 && !whole->n_readers && atomic_load(&whole->state) == FAILED;
  pthread_mutex_unlock(&verdict_mutex);
  if (is_over) drop_parts(whole);
  verdict_release(whole);
}

struct verdict *verdict_retain(struct verdict *v) { return v ? atomic_fetch_add(&v->refs, 1), v : NULL; }

void verdict_release(struct verdict *v) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  drop_parts(v);
  failure_release(v->failure);
  mem_free(v);
}

bool verdict_is_open(const struct verdict *v) { return v && atomic_load(&v->state) == OPEN; }

bool verdict_has_failed(const struct verdict *v) { return v && atomic_load(&v->state) == FAILED; }

struct failure *verdict_known(const struct verdict *v) { return verdict_has_failed(v) ? failure_retain(v->failure) : NULL; }

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory"); }

static struct failure *set_out(struct verdict *v, const struct device *d) {
  v->words.device = d;
  int lent = d->words_take ? d->words_take(d, v->n_checks, &v->words.at) : DEVICE_CANNOT;
  if (lent != DEVICE_CANNOT) return v->has_lent = !lent, lent ? device_failure(d, lent, 0) : NULL;
  struct finding_words *none = mem_alloc(word_bytes(v));
  if (!none) return no_memory();
  words_clear(none, v->n_checks);
  int how = space_take(&v->words, word_bytes(v));
  if (!how) how = d->upload(d, QUEUE_COMPUTE, v->words.at, none, word_bytes(v));
  mem_free(none);
  return how ? device_failure(d, how, 0) : NULL;
}

static bool is_among(const struct verdict *v, int n, struct verdict *const list[]) {
  for (int i = 0; i < n; i++) if (list[i] == v) return true;
  return false;
}

/* Those that are open, each once; a failure if one has failed, or more would be too deep and one does. */
static struct failure *gather(struct verdict *v, int n, struct verdict *const before[]) {
  for (int i = 0; i < n; i++) {
    struct verdict *b = before[i];
    struct failure *f = !verdict_is_open(b) ? verdict_known(b) : b->depth >= DEEP ? verdict_await(b) : NULL;
    if (f) return f;
    if (!verdict_is_open(b) || is_among(b, v->n_before, v->before)) continue;
    v->before[v->n_before++] = verdict_retain(b);
    if (b->depth >= v->depth) v->depth = b->depth + 1;
  }
  return NULL;
}

struct failure *verdict_open(const struct plan *p, int n_checks, int n, struct verdict *const before[], struct verdict **out) {
  *out = NULL;
  if (!n_checks && !n) return NULL;
  struct verdict *v = mem_alloc(sizeof *v + sizeof *v->before * (size_t)n);
  if (!v) return no_memory();
  atomic_init(&v->refs, 1);
  v->depth = 1;
  v->n_checks = n_checks;
  v->is_closed = !n_checks;
  struct failure *f = gather(v, n, before);
  if (!f && n_checks) {
    v->plan = (struct plan *)p;
    plan_retain(v->plan);
    f = set_out(v, p->device);
  }
  bool is_of_others = !f && !n_checks && v->n_before <= 1;
  if (is_of_others) *out = v->n_before ? verdict_retain(v->before[0]) : NULL;
  if (f || is_of_others) verdict_release(v);
  else *out = v;
  return f;
}

static bool has_checks(const struct plan *p, const bool is_step[]) {
  for (int i = 0; i < p->schedule->n_steps; i++) if (is_step[i] && plan_checks(p, i)) return true;
  return false;
}

struct failure *verdict_part(struct verdict *whole, const struct plan *p, const bool is_step[], int n,
                             struct verdict *const before[], struct verdict **out) {
  size_t n_steps = (size_t)p->schedule->n_steps;
  *out = NULL;
  if (!verdict_is_open(whole)) return verdict_known(whole);
  if (!has_checks(p, is_step)) return verdict_open(p, 0, n, before, out);
  struct verdict *v = mem_alloc(sizeof *v + sizeof *v->before * (size_t)n + n_steps);
  if (!v) return no_memory();
  atomic_init(&v->refs, 1);
  v->depth = whole->depth;
  v->is_closed = true;
  v->whole = verdict_retain(whole);
  v->counts = memcpy(v->before + n, is_step, n_steps);
  whole->n_parts++;
  struct failure *f = gather(v, n, before);
  if (f) verdict_release(v);
  else *out = v;
  return f;
}

struct failure *verdict_join(int n, struct node *const node[], struct verdict **out) {
  struct verdict **all = mem_alloc(sizeof *all * (size_t)(n + 1));
  int some = 0;
  if (!all) return no_memory();
  for (int i = 0; i < n; i++) if (node[i]->value && node[i]->value->verdict) all[some++] = node[i]->value->verdict;
  struct failure *f = verdict_open(NULL, 0, some, all, out);
  mem_free(all);
  return f;
}

struct finding_words *verdict_words(const struct verdict *v) {
  return v && v->n_checks ? (struct finding_words *)(uintptr_t)v->words.at : NULL;
}

/* ---- Asking ---- */

static struct failure *first_failed(const struct plan *p, const bool *counts, const struct finding_words *found) {
  const struct schedule *s = p->schedule;
  for (int i = 0; i < s->n_steps; i++)
    for (int j = 0, n = plan_checks(p, i); j < n; j++, found++)
      if (found->place != NOTHING_FOUND && (!counts || counts[i])) return plan_found(p, i, j, found);
  return NULL;
}

/* *is_final: it will say so for ever. */
static struct failure *read_words(const struct verdict *v, const bool *counts, bool *is_final) {
  if (!v->n_checks) return NULL;
  struct finding_words *found = mem_alloc(word_bytes(v));
  if (!found) return no_memory();
  int how = space_read(&v->words, 0, word_bytes(v), found);
  struct failure *f = how ? device_failure(v->words.device, how, 0) : first_failed(v->plan, counts, found);
  *is_final = f && !how;
  mem_free(found);
  return f;
}

/* Whether the caller is to read. If so he leaves with what he has found. */
static bool enter(struct verdict *v, bool is_part) {
  pthread_mutex_lock(&verdict_mutex);
  int state = atomic_load(&v->state);
  bool yes = state == OPEN || (is_part && state == FAILED);
  v->n_readers += yes;
  pthread_mutex_unlock(&verdict_mutex);
  return yes;
}

static void leave(struct verdict *v, struct failure *f, bool is_final) {
  pthread_mutex_lock(&verdict_mutex);
  bool is_first = atomic_load(&v->state) == OPEN;
  if (is_first && is_final) {
    v->failure = f ? failure_retain(f) : NULL;
    atomic_store(&v->state, f ? FAILED : FINE);
  }
  int state = atomic_load(&v->state);
  bool is_over = --v->n_readers == 0 && (state == FINE || (state == FAILED && !v->n_parts));
  pthread_mutex_unlock(&verdict_mutex);
  if (is_over) drop_parts(v);
}

/* Where all is fine nothing is left to read. */
static struct failure *read_part(const struct verdict *v, bool *is_final) {
  if (!enter(v->whole, true)) return NULL;
  struct failure *f = read_words(v->whole, v->counts, is_final);
  leave(v->whole, NULL, false);
  return f;
}

static struct failure *ask(const struct verdict *v, bool *is_final) {
  for (int i = 0; i < v->n_before; i++) {
    struct failure *f = verdict_await(v->before[i]);
    *is_final = f && !verdict_is_open(v->before[i]);
    if (f) return f;
  }
  return v->whole ? read_part(v, is_final) : read_words(v, NULL, is_final);
}

struct failure *verdict_await(struct verdict *v) {
  bool is_final = false;
  if (!v) return NULL;
  if (!enter(v, false)) return verdict_known(v);
  struct failure *f = ask(v, &is_final);
  leave(v, f, f ? is_final : v->is_closed);
  struct failure *known = verdict_known(v); /* what another thread has found first is what all are told */
  if (!known) return f;
  failure_release(f);
  return known;
}

struct failure *verdict_so_far(struct verdict *v) {
  if (!v->is_closed) v->words.event = event_now(v->words.device, QUEUE_COMPUTE);
  return verdict_await(v);
}

void verdict_close(struct verdict *v) {
  if (v->is_closed) return; /* it may be that of another run, at which other threads look */
  v->words.event = event_now(v->words.device, QUEUE_COMPUTE);
  v->is_closed = true;
}

bool verdict_is_past(const struct verdict *v) {
  if (!verdict_is_open(v)) return true;
  if (!enter((struct verdict *)v, false)) return true;
  bool yes = v->whole ? verdict_is_past(v->whole) : !v->n_checks || event_is_over(&v->words.event);
  for (int i = 0; yes && i < v->n_before; i++) yes = verdict_is_past(v->before[i]);
  leave((struct verdict *)v, NULL, false);
  return yes;
}

static __attribute__((noinline)) struct failure *await_node(struct node *n, struct verdict *v) {
  struct failure *f = verdict_await(v);
  if (!f || verdict_is_open(v)) return f;
  graph_lock();
  if (atomic_load(&n->state) == NODE_READY) {
    n->failure = failure_retain(f);
    node_set_state(n, NODE_FAILED);
  }
  graph_unlock();
  return f;
}

struct failure *node_verdict(struct node *n) {
  struct verdict *v = atomic_load_explicit(&n->state, memory_order_acquire) == NODE_READY && n->value ? n->value->verdict : NULL;
  return v ? await_node(n, v) : NULL; /* values of the host have none */
}
