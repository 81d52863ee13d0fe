/* tape.c -- see tape.h. A tape is a tree of cues. What follows a cue is a list of alternatives: they differ in the integer that
 * was told. Cues only join, at the end of such a list, under the lock of calls; so players read without it. */
#include "run/tape.h"
#include <string.h>
#include "base/mem.h"
#include "run/evaluation.h"

enum { MOST_CUES = 256, MOST_MADE = 64, MOST_KEPT = 1024, MOST_MISSES = 64 }; /* of a call; of a tape: cues, calls that left it */

/* A node of the graph that was evaluated: an argument, a value that was there before, or made by a cue of this tape. */
enum taped_from { ARGUMENT, CAPTURED, MADE };
struct taped { enum taped_from from; int at; struct node *node; }; /* which argument, or place among what was made; a reference */

struct made { weft_dtype dtype; int rank; dim dims[WEFT_RANK_MAX]; };

struct cue {
  _Atomic(struct cue *) next, other;  /* the first that follows; an alternative to this one */
  struct plan *plan;                    /* a reference; NULL: an integer is told */
  bool is_last;                         /* its targets are the items */
  int n_leaves, n;                      /* of the plan: leaves, and targets, which are made in this order */
  struct taped *leaf;                  /* or the one that tells */
  struct made *made;
  int64_t value;                        /* that was told */
};

struct tape { _Atomic(struct cue *) first; _Atomic int n_cues, n_missed, n_played; };

struct recorder {
  int n_in, n_cues, n_made, n_pending;
  struct node **in;                     /* arguments, each a node of its own. Borrowed */
  struct node *const *item;
  uint64_t begin;                       /* what is older was there before */
  bool is_spoilt;
  struct cue *cue[MOST_CUES];
  struct node *made[MOST_MADE];         /* references */
  struct { struct node *node; int64_t value; } pending[MOST_MADE]; /* told by what is running: it is made a moment later */
  struct recorder *outer;
};
_Thread_local struct recorder *tape_here;

/* ---- cues ---- */

static void cue_free(struct cue *e) {
  for (int i = 0; e->leaf && i < e->n_leaves; i++) node_release(e->leaf[i].node);
  if (e->plan) plan_release(e->plan);
  mem_free(e->leaf);
  mem_free(e->made);
  mem_free(e);
}

static struct cue *cue_new(int n_leaves, int n) {
  struct cue *e = mem_alloc(sizeof *e);
  if (!e) return NULL;
  e->leaf = mem_alloc(sizeof *e->leaf * (size_t)(n_leaves + 1));
  e->made = mem_alloc(sizeof *e->made * (size_t)(n + 1));
  if (e->leaf && e->made) return e;
  cue_free(e);
  return NULL;
}

/* Trees are as deep as a tape has cues, which are few. */
static void cues_free(struct cue *e) {
  for (struct cue *next; e; e = next) {
    next = atomic_load(&e->other);
    cues_free(atomic_load(&e->next));
    cue_free(e);
  }
}

void tape_free(struct tape *t) {
  if (!t) return;
  cues_free(atomic_load(&t->first));
  mem_free(t);
}

/* ---- writing ---- */

static void spoil(struct recorder *r) { r->is_spoilt = true; }
void tape_note_other(void) { spoil(tape_here); }

static bool find(const struct recorder *r, struct node *n, struct taped *s) {
  for (int i = 0; i < r->n_in; i++) if (r->in[i] == n) return *s = (struct taped){ ARGUMENT, i, NULL }, true;
  for (int i = 0; i < r->n_made; i++) if (r->made[i] == n) return *s = (struct taped){ MADE, i, NULL }, true;
  if (n->serial > r->begin) return false;
  return *s = (struct taped){ CAPTURED, 0, node_retain(n) }, true;
}

static void append(struct recorder *r, struct cue *e) {
  if (r->n_cues < MOST_CUES) r->cue[r->n_cues++] = e;
  else cue_free(e), spoil(r);
}

static bool append_told(struct recorder *r, struct node *n, int64_t value) {
  struct taped s;
  if (!find(r, n, &s)) return false;
  struct cue *e = cue_new(1, 0);
  if (!e) return node_release(s.node), spoil(r), true;
  e->leaf[0] = s, e->n_leaves = 1, e->value = value;
  append(r, e);
  return true;
}

void tape_told(struct node *n, int64_t value) {
  struct recorder *r = tape_here;
  if (!r || r->is_spoilt || append_told(r, n, value)) return;
  if (r->n_pending == MOST_MADE) return spoil(r);
  r->pending[r->n_pending].node = n;
  r->pending[r->n_pending++].value = value;
}

static bool make_known(struct recorder *r, struct cue *e, struct node *n) {
  if (r->n_made == MOST_MADE) return false;
  r->made[r->n_made++] = node_retain(n);
  struct made *m = &e->made[e->n++];
  m->dtype = (weft_dtype)n->dtype, m->rank = n->rank;
  memcpy(m->dims, n->dims, sizeof *n->dims * n->rank);
  return true;
}

void tape_note_run(const struct eval *v) {
  struct recorder *r = tape_here;
  if (r->is_spoilt) return;
  struct cue *e = v->plan->device || v->plan->needs_caller ? NULL : cue_new(v->n_leaves, v->n);
  if (!e) return spoil(r);
  plan_retain(e->plan = v->plan);
  bool ok = true;
  for (; ok && e->n_leaves < v->n_leaves; e->n_leaves += ok) ok = find(r, v->leaf[e->n_leaves], &e->leaf[e->n_leaves]);
  e->is_last = v->target[0] == r->item[0];
  for (int i = 0; ok && !e->is_last && i < v->n; i++) ok = make_known(r, e, v->target[i]);
  append(r, e);
  for (int i = 0; ok && i < r->n_pending; i++) ok = append_told(r, r->pending[i].node, r->pending[i].value);
  r->n_pending = 0;
  if (!ok) spoil(r);
}

struct recorder *tape_begin(int n_in, struct node *const in[], int n, struct node *const item[]) {
  struct recorder *r = n ? mem_alloc(sizeof *r) : NULL;
  if (!r) return NULL;
  r->n_in = n_in, r->in = (struct node **)in, r->item = item, r->begin = node_serial(), r->outer = tape_here;
  if (tape_here) spoil(tape_here); /* a call inside a call */
  return tape_here = r;
}

/* ---- joining ---- */

static bool is_same_source(const struct taped *a, const struct taped *b) {
  return a->from == b->from && a->at == b->at && a->node == b->node;
}

static bool is_same(const struct cue *a, const struct cue *b) {
  bool same = a->plan == b->plan && a->is_last == b->is_last && a->n_leaves == b->n_leaves && a->n == b->n && a->value == b->value;
  for (int i = 0; same && i < a->n_leaves; i++) same = is_same_source(&a->leaf[i], &b->leaf[i]);
  for (int i = 0; same && i < a->n; i++)
    same = a->made[i].dtype == b->made[i].dtype && a->made[i].rank == b->made[i].rank &&
           !memcmp(a->made[i].dims, b->made[i].dims, sizeof(dim) * (size_t)a->made[i].rank);
  return same;
}

/* Alternatives are integers that one source tells: of other cues there is but one. */
static bool may_stand_beside(const struct cue *a, const struct cue *b) {
  return !a->plan && !b->plan && is_same_source(&a->leaf[0], &b->leaf[0]) && a->value != b->value;
}

/* Of a list of alternatives the one that e is, where e joins if there is none. NULL: it does not fit. */
static struct cue *join(_Atomic(struct cue *) *list, struct cue *e, bool *is_new) {
  struct cue *a = atomic_load(list), *last = NULL;
  for (; a; last = a, a = atomic_load(&a->other)) {
    if (is_same(a, e)) return a;
    if (!may_stand_beside(a, e)) return NULL;
  }
  atomic_store(last ? &last->other : list, e);
  return *is_new = true, e;
}

static void join_all(struct tape *t, struct recorder *r) {
  _Atomic(struct cue *) *list = &t->first;
  int i = 0;
  for (bool goes_on = t->n_cues + r->n_cues <= MOST_KEPT; goes_on && i < r->n_cues;) {
    bool is_new = false;
    struct cue *at = join(list, r->cue[i], &is_new);
    if (!(goes_on = at != NULL)) break;
    if (is_new) r->cue[i] = NULL, t->n_cues++;
    i++;
    list = &at->next;
  }
}

void tape_end(struct recorder *r, _Atomic(struct tape *) *tape, pthread_mutex_t *lock, bool is_wanted) {
  tape_here = r->outer;
  if (is_wanted && !r->is_spoilt && !r->n_pending && r->n_cues && r->cue[r->n_cues - 1]->is_last) {
    pthread_mutex_lock(lock);
    struct tape *t = atomic_load(tape);
    if (!t && (t = mem_alloc(sizeof *t))) atomic_store(tape, t);
    if (t) join_all(t, r);
    pthread_mutex_unlock(lock);
  }
  for (int k = 0; k < r->n_cues; k++) if (r->cue[k]) cue_free(r->cue[k]);
  nodes_release(r->n_made, r->made);
  mem_free(r);
}

static int number(const _Atomic int *n) { return atomic_load_explicit(n, memory_order_relaxed); }
bool tape_is_full(const struct tape *t) { return t && number(&t->n_cues) >= MOST_KEPT - MOST_CUES; }

bool tape_is_useless(const struct tape *t) { return number(&t->n_missed) > MOST_MISSES + number(&t->n_played); }

/* ---- playing ---- */

struct player { int n, n_made; struct node **item, *const *in; struct node *made[MOST_MADE]; };

static struct node *node_of(const struct player *p, const struct taped *s) {
  return s->from == ARGUMENT ? p->in[s->at] : s->from == MADE ? p->made[s->at] : s->node;
}

/* Targets that nobody else knows. */
static bool make_targets(struct player *p, const struct cue *e) {
  for (int i = 0; i < e->n; i++) {
    const struct made *m = &e->made[i];
    struct node *n = node_make(&op_value, m->dtype, m->rank, m->dims, 0, NULL, NULL, 0);
    if (!n) return false;
    p->made[p->n_made++] = n;
  }
  return true;
}

static bool play(struct player *p, const struct cue *e) {
  struct node *few[32], **leaf = e->n_leaves <= 32 ? few : mem_alloc(sizeof *leaf * (size_t)e->n_leaves);
  bool none[MOST_MADE] = { 0 };
  struct failure *f = NULL;
  int at = p->n_made;
  if (!leaf) return false;
  for (int i = 0; i < e->n_leaves; i++) leaf[i] = node_of(p, &e->leaf[i]);
  bool ok = e->is_last || make_targets(p, e);
  if (ok && e->is_last) f = eval_claimed(p->n, p->item, e->plan, e->n_leaves, leaf, NULL, NULL);
  else if (ok) {
    struct eval v = { .n = e->n, .n_asked = e->n, .target = p->made + at, .forgets = none, .n_leaves = e->n_leaves, .leaf = leaf,
                      .plan = e->plan, .settings = *eval_settings(), .only_targets = true };
    f = eval_run(&v);
  }
  if (leaf != few) mem_free(leaf);
  ok = ok && !f;
  failure_release(f); /* part by part it is found again, and told */
  return ok;
}

/* The alternative for what is told. NULL: there is none. */
static const struct cue *alternative(const struct player *p, const struct cue *e) {
  int64_t value;
  struct failure *f = eval_integer(node_of(p, &e->leaf[0]), &value);
  if (f) return failure_release(f), NULL;
  while (e && e->value != value) e = atomic_load_explicit(&e->other, memory_order_acquire);
  return e;
}

bool tape_play(struct tape *t, int n, struct node *item[], struct node *const in[]) {
  struct player p = { n, 0, item, in, { NULL } };
  const struct cue *e = atomic_load_explicit(&t->first, memory_order_acquire);
  bool is_done = false;
  while (e && !is_done) {
    if (!e->plan) e = alternative(&p, e);
    if (e && e->plan && !play(&p, e)) e = NULL;
    if (!e) break;
    is_done = e->is_last;
    e = atomic_load_explicit(&e->next, memory_order_acquire);
  }
  nodes_release(p.n_made, p.made);
  atomic_fetch_add_explicit(is_done ? &t->n_played : &t->n_missed, 1, memory_order_relaxed);
  return is_done;
}
