/* plan.c -- plans: made, kept in a table, run. See plan.h. */
#include "run/plan.h"
#include <alloca.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/hard.h"
#include "base/hash.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "op/op.h"
#include "rewrite/rewrite.h"
#include "run/buffer.h"
#include "run/bundled.h"
#include "run/device.h"
#include "run/donate.h"
#include "run/eval.h"
#include "run/kernel_step.h"
#include "run/launch.h"
#include "run/memory.h"
#include "run/pool.h"
#include "run/show.h"
#include "run/undo.h"

/* ---- making ---- */

static _Atomic int fuses; /* 0: not asked yet; 1: yes; 2: no */

void plan_use_fusing(bool is_wanted) { atomic_store(&fuses, is_wanted ? 1 : 2); }

static bool fusing(void) { /* WEFT_FUSE=0: one op a kernel, a way to find whose fault it is */
  int k = atomic_load_explicit(&fuses, memory_order_relaxed);
  if (k) return k == 1;
  const char *s = getenv("WEFT_FUSE");
  plan_use_fusing(!s || strcmp(s, "0"));
  return fusing();
}

static void destroy(struct plan *p) {
  bundled_free(atomic_load(&p->bundled), p->device); /* before the code that it starts */
  for (int i = 0; p->schedule && i < p->schedule->n_steps; i++) {
    if (p->code) compiled_release(p->code[i]);
    if (p->body) plan_release(p->body[i]);
    for (int k = 0; p->product && k < 4; k++) mem_free(atomic_load(&p->product[4 * i + k]));
  }
  schedule_drop_kernels(p->schedule); /* those that were not compiled */
  mem_free(p->code);
  mem_free(p->is_there);
  mem_free(p->body);
  mem_free(p->product);
  mem_free(p->key);
  arena_free(p->arena);
  mem_free(p);
}

void plan_retain(struct plan *p) { atomic_fetch_add(&p->refs, 1); }
void plan_release(struct plan *p) {
  INVARIANT(!p || atomic_load(&p->refs) > 0);
  if (p && atomic_fetch_sub(&p->refs, 1) == 1) destroy(p);
}

static struct failure *stopped(void) { return fail(WEFT_ERR_CANCELLED, 0, "weft_eval: cancelled"); }
struct failure *plan_stopped(const volatile int *flag) { return flag_is_set(flag) ? stopped() : NULL; }
struct failure *run_stopped(struct cancel *c) { return cancel_is_set(c) ? stopped() : NULL; }

bool plan_is_on_device(const struct plan *p, int i) { return p->is_there[i]; }

int plan_checks(const struct plan *p, int i) {
  const struct step *s = &p->schedule->step[i];
  return !p->is_there[i] ? 0 : s->kind->checks ? s->kind->checks(p, i) : s->n_sites;
}

struct failure *plan_found(const struct plan *p, int i, int check, const struct finding_words *w) {
  const struct step *s = &p->schedule->step[i];
  if (s->kind->found) return s->kind->found(p, i, check, w);
  struct finding f;
  bool has_value = found_there(w, &f);
  return step_index_failure(s, check, f, has_value);
}

bool plan_looks(const struct plan *p, int i) {
  const struct step_kind *k = p->schedule->step[i].kind;
  return p->is_there[i] && k->looks && k->looks(p, i);
}

static bool compile_step(struct plan *p, int i, const volatile int *cancel, struct failure **failure) {
  const struct step_kind *k = p->schedule->step[i].kind;
  return !(*failure = plan_stopped(cancel)) && (!k->compile || k->compile(p, i, failure));
}

/* The kernels of a plan for a device, which a driver takes milliseconds to compile, are compiled side by side, the longest first:
 * nobody is left waiting for one that was begun last. */
struct compiling {
  struct plan *p;
  const volatile int *cancel;
  _Atomic bool is_over;
  bool *is_bad;
  struct failure **failure;
  struct to_compile { int step, length; } *order;
};

static int by_length(const void *a, const void *b) {
  const struct to_compile *x = a, *y = b;
  return x->length != y->length ? (x->length < y->length) - (x->length > y->length) : x->step - y->step;
}

/* About: what goes by tiles, and routines, are longer than their kernels say. */
static int length_of(const struct step *s) {
  enum { TILES = 1 << 20 };
  if (s->kind == &step_library) return TILES;
  return s->kernel ? s->kernel->n_vals + (s->kernel->attention ? TILES : 0) : 0;
}

static void put_in_order(struct compiling *c) {
  int n = c->p->schedule->n_steps;
  for (int i = 0; i < n; i++) c->order[i] = (struct to_compile){ i, length_of(&c->p->schedule->step[i]) };
  qsort(c->order, (size_t)n, sizeof *c->order, by_length);
}

static void compile_one(void *of, int k) {
  struct compiling *c = of;
  int i = c->order[k].step;
  if (c->p->schedule->step[i].kind->where != STEP_WHERE_COMPILED || atomic_load(&c->is_over)) return;
  c->is_bad[i] = !compile_step(c->p, i, c->cancel, &c->failure[i]);
  if (c->is_bad[i]) atomic_store(&c->is_over, true);
}

/* False: *failure is that of the first step that has one, or there is no memory. */
static bool compile_at_once(struct plan *p, struct failure **failure) {
  int n = p->schedule->n_steps;
  struct compiling c = { .p = p, .cancel = eval_settings()->cancel, .is_bad = mem_alloc((size_t)n + 1),
                         .failure = mem_alloc((size_t)(n + 1) * sizeof *c.failure),
                         .order = mem_alloc((size_t)(n + 1) * sizeof *c.order) };
  bool ok = c.is_bad && c.failure && c.order;
  if (ok) put_in_order(&c), pool_run(n, eval_threads(), compile_one, &c);
  for (int i = 0; c.is_bad && c.failure && i < n; i++) {
    ok = ok && !c.is_bad[i];
    if (!*failure) *failure = c.failure[i];
    else failure_release(c.failure[i]);
  }
  mem_free(c.is_bad);
  mem_free(c.failure);
  mem_free(c.order);
  return ok;
}

/* A schedule whose steps are compiled; takes over their kernels. */
struct plan *plan_of_schedule(struct arena *arena, struct schedule *s, const struct device *device, struct failure **failure) {
  struct plan *p = mem_alloc(sizeof *p);
  if (!p) {
    schedule_drop_kernels(s);
    arena_free(arena);
    return NULL;
  }
  *p = (struct plan){ .refs = 1, .arena = arena, .schedule = s, .device = device };
  p->code = mem_alloc(sizeof *p->code * (size_t)(s->n_steps + 1));
  p->is_there = mem_alloc((size_t)s->n_steps + 1);
  p->body = mem_alloc(sizeof *p->body * (size_t)(s->n_steps + 1));
  p->product = mem_alloc(sizeof *p->product * (size_t)(4 * s->n_steps + 1));
  if (!p->code || !p->is_there || !p->body || !p->product) return destroy(p), NULL;
  if (device && !compile_at_once(p, failure)) return destroy(p), NULL;
  p->only_enqueues = device != NULL;
  for (int i = 0; i < s->n_steps; i++) {
    if (!p->code[i] && !p->is_there[i] && !compile_step(p, i, eval_settings()->cancel, failure)) return destroy(p), NULL;
    p->only_enqueues &= p->is_there[i] && !plan_checks(p, i) && !plan_looks(p, i);
    p->needs_caller |= s->step[i].kind->where == STEP_BY_CALLER || (p->body[i] && p->body[i]->needs_caller);
  }
  p->may_be_bundled = bundled_may(p);
  return p;
}

enum { MOST_BITS = 48 }; /* of a number of elements: nobody would wait for more */

static bool is_too_large(const struct node *n) {
  int64_t count = 1;
  for (int k = 0; k < n->rank; k++) if (!n->dims[k]) return false;
  for (int k = 0; k < n->rank && count <= INT64_C(1) << MOST_BITS; k++)
    if (__builtin_mul_overflow(count, n->dims[k], &count)) count = INT64_MAX;
  return count > INT64_C(1) << MOST_BITS;
}

/* What no memory holds and no lifetime computes; so sizes in bytes do not overflow further on. */
static struct failure *too_large(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) {
    const struct node *n = l->node[i];
    struct shape_text t;
    if (n->op->kind == OP_VIEW || n->op->kind == OP_LEAF || !is_too_large(n)) continue;
    return n->op->kind == OP_ITEM
             ? fail(WEFT_ERR_MEMORY, n->origin, "weft_loop_open: %s, kept of every step, is too much: give the loop a bound, or "
                    "recompute", shape_show(n, &t))
             : fail(WEFT_ERR_MEMORY, n->origin, "weft_%s: %s has too many elements to be computed", n->op->name, shape_show(n, &t));
  }
  return NULL;
}

struct plan *plan_for(struct program *g, struct failure **failure) {
  *failure = NULL;
  struct schedule *s = NULL;
  const struct eval_settings *e = eval_settings();
  if (rewrite(g->arena, &g->list, g->n_targets, g->target, g->rewrites) && !(*failure = too_large(&g->list)))
    s = schedule_make(g->arena, &g->list, g->n_targets, g->target, g->n_leaves, g->leaf_place,
                      &(struct schedule_options){ fusing(), !g->device, e->blas, eval_is_loose(e, g->device),
                                                 e->tf32 && g->device, g->rewrites, g->device }, failure);
  struct plan *p = s ? plan_of_schedule(g->arena, s, g->device, failure) : NULL;
  if (!s) arena_free(g->arena);
  if (!p && !*failure) *failure = fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory while planning");
  if (p) plan_show_if_asked(p);
  return p;
}

/* ---- the table ---- */

enum { BUCKETS = 1024, MOST = 2048, FEW = 16 }; /* FEW are kept whatever they take */
pthread_mutex_t plan_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plan *bucket[BUCKETS];
static int n_plans;
static size_t table_bytes;
static uint64_t clock_now;

/* Numbers are part of a plan: a rate that changes with every step makes a plan a step. */
static bool is_full(void) { return n_plans >= MOST || (n_plans >= FEW && table_bytes > PLAN_TABLE_BYTES); }

size_t plan_table_bytes(void) {
  pthread_mutex_lock(&plan_mutex);
  size_t bytes = table_bytes;
  pthread_mutex_unlock(&plan_mutex);
  return bytes;
}

struct plan *plan_find(const void *key, size_t bytes, uint64_t hash) {
  pthread_mutex_lock(&plan_mutex);
  struct plan *p = bucket[hash % BUCKETS];
  while (p && (p->hash != hash || p->key_bytes != bytes || memcmp(p->key, key, bytes))) p = p->next;
  if (p) {
    plan_retain(p);
    p->used = ++clock_now;
  }
  pthread_mutex_unlock(&plan_mutex);
  return p;
}

/* Forgets plans not used since `before`; lock held. The list of them, to be released without the lock. */
static struct plan *forget(uint64_t before) {
  struct plan *gone = NULL;
  for (int i = 0; i < BUCKETS; i++)
    for (struct plan **at = &bucket[i], *p; (p = *at);) {
      if (p->used >= before) { at = &p->next; continue; }
      *at = p->next;
      p->next = gone;
      gone = p;
      n_plans--;
      table_bytes -= p->bytes;
    }
  return gone;
}

static void release_list(struct plan *p) {
  for (struct plan *next; p; p = next) {
    next = p->next;
    plan_release(p);
  }
}

void plan_drop_all(void) {
  pthread_mutex_lock(&plan_mutex);
  struct plan *gone = forget(UINT64_MAX);
  pthread_mutex_unlock(&plan_mutex);
  release_list(gone);
}

void plan_keep(struct plan *p, const void *key, size_t bytes, uint64_t hash) {
  void *copy = mem_alloc(bytes);
  if (!copy) return; /* it will be made again */
  memcpy(copy, key, bytes);
  pthread_mutex_lock(&plan_mutex);
  uint64_t recent = (uint64_t)n_plans / 2; /* what was used since then is at most half of them */
  struct plan *gone = is_full() ? forget(clock_now > recent ? clock_now - recent : 0) : NULL;
  p->key = copy, p->key_bytes = bytes, p->hash = hash, p->used = ++clock_now;
  p->bytes = arena_bytes(p->arena) + bytes;
  table_bytes += p->bytes;
  p->next = bucket[hash % BUCKETS];
  bucket[hash % BUCKETS] = p;
  n_plans++;
  plan_retain(p);
  pthread_mutex_unlock(&plan_mutex);
  release_list(gone);
}

/* ---- running ---- */

struct failure *plan_step(const struct plan *p, int i, struct run *r, uint8_t *const base[]) {
  const struct step_kind *k = p->schedule->step[i].kind;
  return k->run ? k->run(p, i, r, base) : NULL;
}

/* *is_mapped: some are pages of a file, which may be cut while the kernels run. */
static struct failure *hold_leaves(const struct plan *p, const struct run *r, uint8_t *base[], int *held, bool *is_mapped) {
  const struct schedule *s = p->schedule;
  for (*held = 0; *held < s->n_stores; ++*held) {
    int leaf = s->store[*held].leaf;
    const char *why = NULL;
    void *data = NULL;
    if (leaf < 0) continue;
    weft_status status = buffer_hold(r->leaf[leaf].buf, NULL, &data, &why);
    if (status) return fail(status, 0, "weft_eval: %s", why ? why : "a value cannot be read");
    base[*held] = (uint8_t *)data + r->leaf[leaf].offset;
    *is_mapped |= buffer_is_mapped(r->leaf[leaf].buf);
  }
  return NULL;
}

static void drop_leaves(const struct plan *p, const struct run *r, int held) {
  for (int i = 0; i < held; i++)
    if (p->schedule->store[i].leaf >= 0) buffer_drop(r->leaf[p->schedule->store[i].leaf].buf);
}

static struct failure *take_memory(const struct plan *p, struct run *r, uint8_t *base[], uint8_t **block) {
  const struct schedule *s = p->schedule;
  *block = s->block_bytes ? memory_take((size_t)s->block_bytes) : NULL;
  if (s->block_bytes && !*block) goto no_memory;
  for (int i = 0; i < s->n_stores; i++) {
    const struct store *t = &s->store[i];
    if (t->leaf >= 0) continue;
    if (!t->is_output) { base[i] = *block ? *block + t->offset : NULL; continue; }
    if (r->out[i]) continue; /* given by a leaf */
    void *data;
    if (!(r->out[i] = buffer_to_fill((size_t)t->bytes, &data))) goto no_memory;
    base[i] = data;
  }
  return NULL;
no_memory:
  return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory: %lld bytes are needed at the same time",
              (long long)plan_peak(p, r->threads));
}

/* Mapped files that were cut while the kernels ran: what was computed from them is not to be trusted. */
static struct failure *look_again(const struct plan *p, const struct run *r) {
  for (int i = 0; i < p->schedule->n_stores; i++) {
    int leaf = p->schedule->store[i].leaf;
    const char *why = NULL;
    void *data;
    if (leaf < 0 || buffer_state_of(r->leaf[leaf].buf) != BUFFER_FAILED) continue;
    weft_status status = buffer_hold(r->leaf[leaf].buf, NULL, &data, &why);
    if (!status) buffer_drop(r->leaf[leaf].buf);
    return fail(WEFT_ERR_FILE, 0, "weft_eval: %s", why ? why : "a file was cut while it was read");
  }
  return NULL;
}

int plan_library_calls(const struct plan *p, int i) {
  const struct step_kind *k = p->schedule->step[i].kind;
  return k->library_calls ? k->library_calls(p, i) : 0;
}

/* What a step of the host needs of a plan for a device has to be brought home. */
bool plan_may_fail(const struct plan *p, int i) {
  const struct step_kind *k = p->schedule->step[i].kind;
  return !k->may_fail || (p->device && !plan_is_on_device(p, i)) || k->may_fail(p, i);
}

struct failure *plan_pass(const struct plan *p, struct run *r) {
  struct failure *f = run_stopped(r->cancel);
  if (!f) f = look_again(p, r);
  if (f) return f;
  r->cancel = NULL;
  overwriting_begin();
  return NULL;
}

/* ---- steps abreast: at the same time, each by one thread ---- */

struct abreast {
  const struct plan *p;
  const struct run *r;
  uint8_t *const *base;
  int first;                     /* step */
  struct failure *failure[STEPS_ABREAST];
};

static void step_abreast(void *of, int i) {
  struct abreast *a = of;
  struct run own = *a->r;
  own.threads = 1;
  a->failure[i] = plan_step(a->p, a->first + i, &own, a->base);
}

static struct failure *run_abreast(const struct plan *p, int i, int n, const struct run *r, uint8_t *const base[]) {
  struct abreast a = { .p = p, .r = r, .base = base, .first = i };
  pool_run(n, r->threads, step_abreast, &a);
  for (int k = 1; k < n; k++) {
    if (!a.failure[0]) a.failure[0] = a.failure[k];
    else failure_release(a.failure[k]);
  }
  return a.failure[0];
}

/* Bodies of loops, which have no outputs of their own, share memory in ways of theirs. */
static int count_abreast(const struct plan *p, int i, const struct run *r) {
  const struct step *s = &p->schedule->step[i];
  bool may = r->out && !r->undo && !r->overwrites && s->kind->abreast;
  int n = may ? s->kind->abreast(p, i, r->threads) : 1;
  return n > 1 && pool_pays(n * (double)s->cost.operations) ? n : 1;
}

struct failure *plan_steps(const struct plan *p, struct run *r, uint8_t *const base[]) {
  struct failure *f = NULL;
  for (int i = 0, n; !f && i < p->schedule->n_steps; i += n) {
    n = count_abreast(p, i, r);
    if (r->overwrites == i + 1) f = plan_pass(p, r);
    if (!f && r->undo) undo_keep(p, r, i, base);
    if (!f) f = n > 1 ? run_abreast(p, i, n, r, base) : plan_step(p, i, r, base);
  }
  return f;
}

enum { MOMENT = 1 << 17 }; /* operations and bytes; some ten microseconds */

static bool takes_long(const struct plan *p, const struct run *r) {
  const struct schedule *s = p->schedule;
  if (p->device || s->cost.effort > MOMENT || s->cost.moved_bytes > MOMENT) return true;
  for (int i = 0; i < s->n_stores; i++) {
    int leaf = s->store[i].leaf;
    if (leaf >= 0 && (buffer_is_mapped(r->leaf[leaf].buf) || buffer_state_of(r->leaf[leaf].buf) != BUFFER_RESIDENT)) return true;
  }
  return false;
}

struct giving { const struct plan *p; struct run *r; uint8_t **base; };

static bool take_gift(void *of, const struct gift *g) {
  struct giving *h = of;
  struct buffer *b = h->r->leaf[h->p->schedule->store[g->from].leaf].buf;
  h->r->out[g->to] = buffer_retain(b);
  buffer_wrote(b, NULL, NULL);
  h->base[g->to] = h->base[g->from];
  return true;
}

static struct failure *run_on_host(const struct plan *p, struct run *r) {
  const struct schedule *s = p->schedule;
  uint8_t *few[64], **base = s->n_stores <= 64 ? few : mem_alloc(sizeof *base * (size_t)s->n_stores), *block = NULL;
  int held = 0;
  bool is_mapped = false;
  struct failure *f = base ? hold_leaves(p, r, base, &held, &is_mapped) : fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory");
  if (!f && r->gives) donate_memory(p, r, take_gift, &(struct giving){ p, r, base });
  if (!f) f = take_memory(p, r, base, &block);
  if (!f) f = plan_steps(p, r, base);
  if (!f && is_mapped && !r->overwrites) f = look_again(p, r);
  if (r->undo) undo_end(p, r, base, f != NULL);
  drop_leaves(p, r, held);
  if (block) memory_give(block, (size_t)s->block_bytes);
  if (base != few) mem_free(base);
  return f;
}

weft_status plan_run(struct plan *p, struct run *r, struct failure **failure) {
  if (p->needs_caller && job_put_off()) {
    *failure = fail(WEFT_ERR_CANCELLED, 0, "weft_eval: put off until somebody waits for it");
    return WEFT_ERR_CANCELLED;
  }
  if (eval_is_to_tell() && takes_long(p, r)) eval_before_long();
  *failure = p->device ? device_run(p, r) : run_on_host(p, r);
  if (!*failure && p->device && !r->overwrites) *failure = look_again(p, r);
  if (!*failure) return WEFT_OK;
  for (int i = 0; i < p->schedule->n_stores; i++) {
    buffer_release(r->out[i]);
    r->out[i] = NULL;
  }
  return failure_status(*failure);
}

int64_t plan_scratch(const struct plan *p, int threads) {
  int64_t most = 0;
  for (int i = 0; i < p->schedule->n_steps; i++) {
    const struct step_kind *k = p->schedule->step[i].kind;
    int64_t n = k->scratch ? k->scratch(p, i, threads) : 0, together = 0;
    int abreast = k->abreast && k->scratch ? k->abreast(p, i, threads) : 0;
    for (int j = 0; j < abreast; j++) together += k->scratch(p, i + j, 1);
    if (n > most) most = n;
    if (together > most) most = together;
  }
  return most;
}

int64_t plan_peak(const struct plan *p, int threads) {
  int64_t n = (int64_t)p->schedule->block_bytes + plan_scratch(p, threads);
  for (int i = 0; i < p->schedule->n_stores; i++)
    if (p->schedule->store[i].is_output) n += (int64_t)p->schedule->store[i].bytes;
  return n;
}
