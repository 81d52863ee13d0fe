/* donate.c -- which leaves die with an evaluation, and their memory for its results: see donate.h. */
#include "run/donate.h"
#include <string.h>
#include "base/mem.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/undo.h"
#include "run/verdict.h"

/* ---- Who dies ---- */

/* All that the targets are made of, down to what has a value. By slot: */
struct view {
  struct node_list list;
  int *refs;             /* references that are known */
  bool *is_seen;         /* somebody else can get at it afterwards */
};

static bool is_ready(const struct node *n) { return atomic_load_explicit(&n->state, memory_order_acquire) == NODE_READY; }
static bool is_in(const struct node_list *l, const struct node *n) {
  return n->slot >= 0 && n->slot < l->n && l->node[n->slot] == n;
}

bool donate_may(const struct node *n) {
  const struct value *v = n->value;
  return v && is_ready(n) && !v->offset && (int64_t)buffer_bytes(v->buf) >= gift_least() && buffer_is_only(v->buf);
}

/* The inputs of a node that is ready are its history: whoever has it can ask for them, so their references do not count. */
static int n_inputs(const struct node *n) { return is_ready(n) ? 0 : n->n_in; }

static void count_references(const struct donation *d, const struct view *v) {
  const struct node_list *l = &v->list;
  int *refs = v->refs;
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < n_inputs(l->node[i]); k++)
      if (is_in(l, l->node[i]->in[k])) refs[l->node[i]->in[k]->slot]++;
  for (int i = 0; i < d->n; i++) refs[d->target[i]->slot] += i < d->n_asked ? 2 : 1;
  for (int i = 0; i < d->n_leaves; i++) if (is_in(l, d->leaf[i])) refs[d->leaf[i]->slot]++;
  if (d->call && is_in(l, d->call)) refs[d->call->slot]++;
  for (int i = 0; i < d->n_heirs; i++)
    if (d->heir[i].leaf && is_in(l, d->heir[i].was)) refs[d->heir[i].was->slot] += 2; /* the name's, and the heir's own */
}

static bool has_others(const struct node *n, int known) { return atomic_load_explicit(&n->refs, memory_order_acquire) > known; }

/* Whoever sees a node that keeps its history sees all it was made of. */
static void find_seen(const struct donation *d, const struct view *v) {
  const struct node_list *l = &v->list;
  for (int i = 0; i < l->n; i++) v->is_seen[i] = has_others(l->node[i], v->refs[i]);
  for (int i = 0; i < d->n; i++) if (d->forgets[i]) v->is_seen[d->target[i]->slot] = false;
  for (int i = l->n; i-- > 0;)
    for (int k = 0; v->is_seen[i] && k < n_inputs(l->node[i]); k++) {
      const struct node *in = l->node[i]->in[k];
      if (is_in(l, in)) v->is_seen[in->slot] = true;
    }
}

/* Names of dying leaves go over to the heirs. Somebody may have read such a name just before. */
static void name_heirs(struct donation *d, const struct view *v) {
  for (int i = 0; i < d->n_heirs; i++) {
    struct heir *h = &d->heir[i];
    bool has_reason = h->leaf && is_in(&v->list, h->was) && donate_may(h->was) && !v->is_seen[h->was->slot];
    if (!has_reason) continue;
    node_retain(h->leaf);
    h->is_named = array_replace(h->outer, h->was, h->leaf);
    if (!h->is_named) node_release(h->leaf);
    if (!h->is_named || has_others(h->was, v->refs[h->was->slot])) v->is_seen[h->was->slot] = true;
  }
}

static bool mark_dying(struct donation *d, const struct view *v) {
  bool some = false;
  for (int i = 0; i < d->n_leaves; i++) {
    const struct node *n = d->leaf[i];
    some |= d->dies[i] = donate_may(n) && is_in(&v->list, n) && !v->is_seen[n->slot];
  }
  return some;
}

static bool is_end(const struct node *n) { return is_ready(n) || n->op->kind == OP_LEAF; }

static bool look_round(const struct donation *d, struct view *v) {
  if (!walk(&v->list, d->n, d->target, is_end)) return false;
  v->refs = mem_alloc(sizeof *v->refs * (size_t)(v->list.n + 1));
  v->is_seen = mem_alloc((size_t)v->list.n + 1);
  if (!v->refs || !v->is_seen) return false;
  count_references(d, v);
  find_seen(d, v);
  return true;
}

bool donate_find(struct donation *d) {
  struct view v = { 0 };
  bool some = look_round(d, &v) && mark_dying(d, &v);
  if (some) {
    name_heirs(d, &v);
    some = mark_dying(d, &v);
  }
  mem_free(v.refs);
  mem_free(v.is_seen);
  node_list_free(&v.list);
  return some;
}

/* ---- Heirs ---- */

void heir_fill(struct node *leaf, const struct node *from) {
  struct value *v = leaf->value;
  v->buf = buffer_retain(from->value->buf);
  if (!v->verdict) v->verdict = verdict_retain(from->value->verdict);
  v->offset = from->value->offset;
  if (leaf->rank) memcpy(v->stride, from->value->stride, sizeof *v->stride * (size_t)leaf->rank);
  node_set_state(leaf, NODE_READY);
}

void heirs_settle(int n, struct heir heir[], bool is_done) {
  for (int i = 0; i < n; i++) {
    struct heir *h = &heir[i];
    if (!h->is_named) continue;
    if (!is_done && h->was->failure) { /* overwritten in vain */
      h->leaf->failure = failure_retain(h->was->failure);
      node_set_state(h->leaf, NODE_FAILED);
    } else heir_fill(h->leaf, is_done ? h->value : h->was);
    h->is_named = false;
    h->is_done = is_done;
    bool is_back = !is_done && array_replace(h->outer, h->leaf, h->was);
    node_release(is_back ? h->leaf : h->was); /* never the last reference: the heir has one */
  }
}

/* ---- Memory ---- */

/* The first step from which on none fails, whatever happens: nor does any read a file that may be cut. On a device a kernel may be
 * refused all the same: see run/device.c. */
static int safe_from(const struct plan *p, const struct run *r) {
  const struct schedule *s = p->schedule;
  int from = s->n_steps;
  while (from > 0 && !plan_may_fail(p, from - 1)) from--;
  for (int i = 0; i < s->n_stores; i++) {
    const struct store *t = &s->store[i];
    if (t->leaf >= 0 && t->last >= from && buffer_is_mapped(r->leaf[t->leaf].buf)) from = t->last + 1;
  }
  return from;
}

struct touch { int store; bool is_seen; };

static void touches(void *of, int *store, enum store_use use) {
  struct touch *t = of;
  (void)use;
  t->is_seen |= *store == t->store;
}

/* Steps that touch the output before the leaf is overwritten copy what is there already: on a device, if they run there. */
static bool is_in_one_space(const struct plan *p, const struct gift *g) {
  struct touch t = { g->to, false };
  for (int i = p->schedule->store[g->to].first; p->device && i < g->step; i++)
    if (!plan_is_on_device(p, i)) step_stores(p->schedule, i, touches, &t);
  return !t.is_seen;
}

static bool is_given(const struct plan *p, const struct gift *g, const struct run *r, int from) {
  const struct schedule *s = p->schedule;
  const struct leaf *l = &r->leaf[s->store[g->from].leaf];
  return l->dies && !l->offset && (int64_t)buffer_bytes(l->buf) == s->store[g->to].bytes && is_in_one_space(p, g) &&
         (g->step >= from || undo_may(p, g));
}

int64_t donate_memory(const struct plan *p, struct run *r, gift_taker *take, void *of) {
  const struct schedule *s = p->schedule;
  int from = -1, last = -1;
  int64_t bytes = 0;
  for (int i = 0; i < s->n_gifts; i++) {
    const struct gift *g = &s->gift[i];
    if (from < 0) from = safe_from(p, r);
    if (g->to == last || !is_given(p, g, r, from)) continue;
    bool is_undone = g->step < from; /* should a later step fail */
    if (take && ((is_undone && !undo_plan(p, r, g)) || !take(of, g))) continue;
    r->leaf[s->store[g->from].leaf].dies = false; /* once */
    last = g->to;
    bytes += s->store[g->to].bytes;
    if (!is_undone && (!r->overwrites || g->step < r->overwrites - 1)) r->overwrites = g->step + 1;
  }
  return bytes;
}

/* ---- Forks wait ---- */

static int n_overwriting; /* graph lock */
static _Thread_local bool is_overwriting;

void overwriting_begin(void) {
  if (is_overwriting) return;
  graph_lock();
  n_overwriting++;
  is_overwriting = true;
  graph_unlock();
}

void overwriting_end(void) {
  if (!is_overwriting) return;
  n_overwriting--; /* whoever calls this sets states in the same section, which wakes */
  is_overwriting = false;
}

void overwriting_await(void) {
  while (n_overwriting) graph_wait(-1);
}
