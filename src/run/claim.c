/* claim.c -- who computes what. An evaluation claims its targets, all or none, before it runs; then they get their values, or are
 * as before, or fail. What is claimed nobody else computes; a list of the evaluations under way says whose they are. Leaves that
 * die with an evaluation give their memory to its results (donate.h). */
#include "run/evaluation.h"
#include <string.h>
#include "base/hard.h"
#include "base/mem.h"
#include "run/buffer.h"
#include "run/pool.h"
#include "run/tape.h"
#include "run/verdict.h"

/* ---- results ---- */

/* A target that is a number: memory of one element that every index reads. */
static struct value *number_value(struct node *n, uint64_t bits) {
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  void *data;
  struct buffer *b = buffer_to_fill(size, &data);
  struct value *v = b ? value_make(n) : NULL;
  if (!v) return buffer_release(b), NULL;
  v->buf = b;
  memcpy(data, &bits, size);
  return v;
}

/* Where a leaf begins, in elements of a target that shows it: parts of a complex number are half as long. */
static int64_t offset_as(const struct node *leaf, weft_dtype d) {
  return leaf->value->offset * (int64_t)(weft_dtype_bytes((weft_dtype)leaf->dtype) / weft_dtype_bytes(d));
}

static struct failure *part_of(const struct eval *e, const struct run *r, int store, bool is_store[], struct verdict *before[],
                               struct verdict **out) {
  struct schedule *s = e->plan->schedule;
  int n = 0;
  steps_behind(s, store, is_store, is_store + s->n_stores);
  for (int i = 0; i < s->n_stores; i++) {
    struct verdict *v = is_store[i] && s->store[i].leaf >= 0 ? e->leaf[s->store[i].leaf]->value->verdict : NULL;
    if (v) before[n++] = v;
  }
  return verdict_part(r->verdict, e->plan, is_store + s->n_stores, n, before, out);
}

/* What was asked for fails together. What is only held, and was stored on the way, fails with what it is made of. */
static struct failure *verdict_of(const struct eval *e, const struct run *r, int i, struct verdict **out) {
  const struct schedule *s = e->plan->schedule;
  bool is_held = !e->only_targets && i >= e->n_asked;
  if (!r->verdict || !is_held) return *out = verdict_retain(r->verdict), NULL;
  if (s->output[i].is_number) return NULL;
  bool *is_store = mem_alloc((size_t)s->n_stores + (size_t)s->n_steps);
  struct verdict **before = mem_alloc(sizeof *before * (size_t)(s->n_stores + 1));
  struct failure *f = is_store && before ? part_of(e, r, s->output[i].place.store, is_store, before, out) : eval_no_memory();
  mem_free(is_store);
  mem_free(before);
  return f;
}

/* The buffer of a target, with a reference: that of the run, if it is the last one that stands there. */
static struct buffer *buffer_of(const struct eval *e, const struct run *r, int i, int store) {
  const struct store *s = &e->plan->schedule->store[store];
  struct buffer *b = s->leaf >= 0 ? e->leaf[s->leaf]->value->buf : r->out[store];
  if (s->leaf >= 0 || s->target != i) return buffer_retain(b);
  r->out[store] = NULL;
  return b;
}

static void value_set(const struct eval *e, const struct run *r, int i, struct value *v) {
  const struct output *o = &e->plan->schedule->output[i];
  if (o->is_number) return;
  const struct store *s = &e->plan->schedule->store[o->place.store];
  v->buf = buffer_of(e, r, i, o->place.store);
  v->offset = o->place.offset + (s->leaf >= 0 ? offset_as(e->leaf[s->leaf], (weft_dtype)e->target[i]->dtype) : 0);
  memcpy(v->stride, o->place.stride, sizeof *v->stride * e->target[i]->rank);
}

static void free_values(const struct eval *e, struct value *v[]) {
  for (int i = 0; i < e->n; i++) {
    if (!v[i]) continue;
    buffer_release(v[i]->buf);
    verdict_release(v[i]->verdict);
    value_free(e->target[i], v[i]);
  }
}

/* Room for the values of all targets, so that nothing fails once they are computed. */
static bool values_make(const struct eval *e, struct value *v[]) {
  bool ok = true;
  for (int i = 0; i < e->n; i++) {
    const struct output *o = &e->plan->schedule->output[i];
    v[i] = !ok ? NULL : o->is_number ? number_value(e->target[i], o->bits) : value_make(e->target[i]);
    ok = v[i];
  }
  return ok;
}

/* ---- evaluations under way: who has claimed what ---- */

static struct eval *under_way; /* graph lock */

static void leave(struct eval *e) {
  if (!e->link) return;
  *e->link = e->older;
  if (e->older) e->older->link = e->link;
  e->link = NULL;
}

/* Claims the targets for this evaluation, all or none; lock held. */
bool eval_claim(struct eval *e) {
  for (int i = 0; i < e->n; i++) if (!node_is_free(e->target[i])) return false;
  for (int i = 0; i < e->n; i++) {
    struct node *n = e->target[i];
    if (node_state_of(n) != NODE_RUNNING) n->was_queued = node_state_of(n) == NODE_QUEUED; /* not the same node twice */
    node_set_state(n, NODE_RUNNING);
  }
  e->thread = eval_settings();
  e->older = under_way;
  e->link = &under_way;
  if (e->older) e->older->link = &e->older;
  under_way = e;
  return true;
}

/* A function of the host that this evaluation calls asks for n, which waits for the function; lock held. In a job nothing is
 * there to be waited for: jobs come one after the other. */
static bool waits_for_itself(const struct node *n) {
  for (const struct eval *e = under_way; e; e = e->older) {
    if (e->thread != eval_settings()) continue;
    for (int i = 0; i < e->n; i++) if (job_is_here() || e->target[i] == n) return true;
  }
  return false;
}

struct failure *eval_circle(int n, struct node *const node[]) {
  for (int i = 0; under_way && i < n; i++)
    if (!node_has_value(node[i]) && !node_is_free(node[i]) && waits_for_itself(node[i]))
      return fail(WEFT_ERR_ARG, node[i]->origin, "weft_host: the function asks for what waits for it");
  return NULL;
}

/* What is to be checked first is forgotten later. */
bool eval_may_forget(const struct eval *e, int i) { return e->forgets[i] && !e->settings.check; }

/* A target that shows a part of a file may still fail to be read. */
static bool shows_file(const struct eval *e) {
  const struct schedule *s = e->plan->schedule;
  for (int i = 0; i < e->n; i++) {
    int leaf = !s->output[i].is_number ? s->store[s->output[i].place.store].leaf : -1;
    if (leaf >= 0 && buffer_is_mapped(e->leaf[leaf]->value->buf)) return true;
  }
  return false;
}

static bool some_leaf_may(const struct eval *e) {
  int i = 0;
  while (i < e->n_leaves && !donate_may(e->leaf[i])) i++;
  return i < e->n_leaves;
}

/* Updates must be all that is left to do, and nothing may fail behind them. What a job does on the way to its targets, and the
 * updates of a scope that is closed by one, overwrite nothing. */
bool eval_may_donate(const struct eval *e) {
  if (!e->plan->schedule->n_gifts || e->settings.check || !some_leaf_may(e)) return false;
  bool is_on_the_way = job_is_here() && !e->in_background, closes = e->in_background && e->n_heirs;
  return !is_on_the_way && !closes && !(e->n_heirs && (e->had_ready || shows_file(e)));
}

/* Finds the leaves that die. What is seen of the targets by others has no history from now on. Lock held. */
void eval_donate(struct eval *e) {
  bool *dies = mem_alloc((size_t)e->n_leaves + 1), *forgets = mem_alloc((size_t)e->n + 1);
  for (int i = 0; forgets && i < e->n; i++) forgets[i] = eval_may_forget(e, i) && !scope_trace_open();
  struct donation d = { e->n, e->n_asked, e->target, forgets, e->n_heirs, e->heir, e->n_leaves, e->leaf, dies, e->call };
  if (!dies || !forgets || !donate_find(&d)) {
    mem_free(dies);
    mem_free(forgets);
    return;
  }
  e->dies = dies;
  e->hides = forgets;
  for (int i = 0; i < e->n; i++)
    if ((e->hides[i] = forgets[i] && e->target[i]->n_in)) node_hide_history(e->target[i]);
}

/* The end of what donate began; lock held. */
void eval_end_donation(struct eval *e, bool is_done) {
  if (!e->dies && !e->n_heirs) return;
  overwriting_end();
  heirs_settle(e->n_heirs, e->heir, is_done);
  for (int i = 0; e->hides && i < e->n; i++) {
    if (!e->hides[i]) continue;
    node_show_history(e->target[i]);
    if (is_done) node_drop_history(e->target[i]);
  }
  mem_free(e->hides);
  e->hides = NULL;
}

/* What a job is to compute it still is, if what it did on the way was given up. */
static enum node_state state_before(const struct node *n) { return n->was_queued ? NODE_QUEUED : NODE_LAZY; }

/* The targets are as before they were claimed: a job has still to compute its own. Lock held. */
void eval_unclaim(struct eval *e) {
  for (int i = 0; i < e->n; i++) {
    struct node *n = e->target[i];
    bool is_asked = e->in_background && i < e->n_asked;
    if (node_state_of(n) == NODE_RUNNING) node_set_state(n, is_asked ? NODE_QUEUED : state_before(n));
  }
  leave(e);
  eval_end_donation(e, false);
}

/* In a child nobody computes them any more; what a job was to compute it will, as the child goes on with it. */
void eval_after_fork(void) { while (under_way) eval_unclaim(under_way); }

/* A target gets its value; lock held. From here on others read it without the lock, so its sizes are numbers by now. */
static void publish_one(struct eval *e, int i, struct value *v[]) {
  struct node *n = e->target[i];
  if (node_state_of(n) == NODE_READY) return; /* the same node twice */
  eval_settle_sizes(n);
  INVARIANT(node_is_known(n));
  n->value = v[i];
  v[i] = NULL;
  node_set_state(n, NODE_READY);
  if (eval_may_forget(e, i) && !(e->hides && e->hides[i])) node_forget(n);
}

/* Whoever finds rows finds how many they are: their number is told while nobody else sees them. */
static struct failure *tell_length(struct eval *e, struct value *v[]) {
  if (!e->length) return NULL;
  graph_lock();
  publish_one(e, e->n - 1, v);
  graph_unlock();
  return eval_tell_length(e->target[e->n - 1], e->length);
}

/* All targets get their values. */
static struct failure *publish(struct eval *e, struct run *r, struct value *v[]) {
  struct failure *f = NULL;
  for (int i = 0; i < e->n && !f; i++) value_set(e, r, i, v[i]), f = verdict_of(e, r, i, &v[i]->verdict);
  if (!f) f = tell_length(e, v);
  if (f) return f;
  graph_lock();
  for (int i = 0; i < e->n; i++) publish_one(e, i, v);
  eval_end_donation(e, true);
  leave(e);
  graph_unlock();
  return NULL;
}

/* A job that somebody else will begin again. */
static void put_off(struct eval *e) {
  graph_lock();
  if (e->link) eval_unclaim(e);
  graph_unlock();
}

/* Whether what was to be computed cannot be, ever. What reads a name may be used where it is one of something; an update is not. */
static bool is_final(const struct eval *e, const struct failure *f) {
  return failure_status(f) != WEFT_ERR_CANCELLED && (e->n_heirs || failure_status(f) != WEFT_ERR_NO_VALUE);
}

/* What was asked for in the background fails, unless it was cancelled or reads a name; everything else is lazy again. */
void eval_give_up(struct eval *e, struct failure *f) {
  if (job_is_put_off()) return put_off(e);
  bool fails = e->in_background && is_final(e, f);
  graph_lock(); /* neighbours change e->link when they leave */
  for (int i = 0; (e->link || e->in_background) && i < e->n; i++) {
    struct node *n = e->target[i];
    if (node_state_of(n) != (e->link ? NODE_RUNNING : NODE_QUEUED)) continue;
    if (fails && i < e->n_asked) n->failure = failure_retain(f);
    node_set_state(n, fails && i < e->n_asked ? NODE_FAILED : e->in_background ? NODE_LAZY : state_before(n));
  }
  eval_end_donation(e, false);
  leave(e);
  graph_unlock();
}

static void give_back(struct eval *e) {
  for (int i = 0; i < e->n_lent; i++) e->lent[i].op->drop(e->lent[i].attr);
  mem_free(e->lent);
  e->lent = NULL, e->n_lent = 0;
}

void eval_drop_plan(struct eval *e) {
  if (e->lent) give_back(e);
  nodes_release(e->n_leaves, e->leaf);
  mem_free(e->leaf);
  mem_free(e->dies);
  plan_release(e->plan);
  e->leaf = NULL, e->dies = NULL, e->n_leaves = 0, e->plan = NULL;
}

void eval_free(struct eval *e) {
  eval_drop_plan(e);
  nodes_release(e->n, e->target);
  mem_free(e->target);
  mem_free(e->forgets);
}

static struct leaf leaf_of(const struct node *n) {
  weft_dtype t = (weft_dtype)n->dtype;
  return (struct leaf){ .buf = n->value->buf, .offset = n->value->offset * (int64_t)weft_dtype_bytes(t) };
}

void eval_leaves(const struct eval *e, struct leaf leaf[]) {
  for (int i = 0; i < e->n_leaves; i++) {
    leaf[i] = leaf_of(e->leaf[i]);
    leaf[i].dies = e->dies && e->dies[i];
    leaf[i].is_constant = e->is_constant && e->is_constant[i];
  }
}

/* The leaves' verdicts that are open. What runs on the host waits for them; a device goes on. */
static struct failure *weigh_leaves(const struct eval *e, struct run *r) {
  for (int i = 0; i < e->n_leaves; i++) {
    struct verdict *v = e->leaf[i]->value->verdict;
    if (!v) continue;
    struct failure *f = e->plan->device ? verdict_known(v) : verdict_await(v);
    if (f) return f;
    if (!verdict_is_open(v)) continue;
    if (!r->before && !(r->before = mem_alloc(sizeof *r->before * (size_t)e->n_leaves))) return eval_no_memory();
    r->before[r->n_before++] = v;
  }
  return NULL;
}

/* Updates that have taken their names over are done once their values are there: on a device that is waited for. */
static struct failure *await_heirs(const struct eval *e, const struct run *r) {
  const char *why = NULL;
  bool some = false;
  for (int i = 0; i < e->n_heirs; i++) some |= e->heir[i].is_named;
  for (int i = 0; some && e->plan->device && i < e->plan->schedule->n_stores; i++) {
    weft_status status = r->out[i] ? buffer_await(r->out[i], &why) : WEFT_OK;
    if (status) return fail(status, 0, "weft_eval: %s", why);
  }
  return NULL;
}

/* Leaves that were overwritten in vain, on a device that failed half-way, and are nowhere else. */
static void lose_leaves(const struct eval *e, const struct leaf leaf[], struct failure *f) {
  graph_lock();
  for (int i = 0; i < e->n_leaves; i++) {
    struct node *n = e->leaf[i];
    if (!leaf[i].is_taken || buffer_is_here(leaf[i].buf) || node_state_of(n) != NODE_READY) continue;
    n->failure = failure_retain(f);
    node_set_state(n, NODE_FAILED);
  }
  graph_unlock();
}

struct failure *eval_run(struct eval *e) {
  int n_stores = e->plan->schedule->n_stores;
  struct leaf few[32], *leaf = e->n_leaves <= 32 ? few : mem_alloc(sizeof *leaf * (size_t)e->n_leaves);
  struct buffer *some[32], **out = n_stores <= 32 ? some : mem_alloc(sizeof *out * (size_t)n_stores);
  struct value *one[16], **v = e->n <= 16 ? one : mem_alloc(sizeof *v * (size_t)e->n);
  bool has_room = v && values_make(e, v);
  struct failure *f = leaf && out && has_room ? NULL : eval_no_memory();
  int threads = e->settings.threads ? e->settings.threads : pool_threads();
  bool stays_open = e->plan->device && job_is_here();
  struct cancel cancel = { e->settings.cancel, 0 };
  struct run r = { .leaf = leaf, .cancel = cancel.flag ? &cancel : NULL, .threads = threads, .gives = e->dies, .out = out,
                   .stays_open = stays_open };
  if (!f) f = weigh_leaves(e, &r);
  if (!f) {
    memset(out, 0, sizeof *out * (size_t)n_stores);
    eval_leaves(e, leaf);
    if (plan_run(e->plan, &r, &f) == WEFT_OK && !(f = await_heirs(e, &r))) f = publish(e, &r, v);
    if (!f) tape_ran(e);
    if (f) lose_leaves(e, leaf, f);
    for (int i = 0; i < n_stores; i++) buffer_release(out[i]);
  }
  if (r.verdict) verdict_release(r.verdict);
  if (r.before) mem_free(r.before);
  if (v) free_values(e, v);
  if (v != one) mem_free(v);
  if (leaf != few) mem_free(leaf);
  if (out != some) mem_free(out);
  return f;
}

struct failure *eval_run_or_give_up(struct eval *e) {
  struct failure *f = eval_run(e);
  if (f) eval_give_up(e, f);
  return f;
}

/* An argument that was given twice is two leaves to the plan of a call: while one is overwritten the other may still be read. */
static void spare_twins(const struct eval *e) {
  for (int i = 0; e->dies && i < e->n_leaves; i++)
    for (int k = 0; k < i; k++)
      if (e->leaf[i] == e->leaf[k]) e->dies[i] = e->dies[k] = false;
}

/* Claims the items, unless somebody has; then runs a plan whose leaves are known. Of targets that are for heirs there is but the
 * reference of whoever closes the scope. */
struct failure *eval_claimed(int n, struct node *item[], struct plan *plan, int n_leaves, struct node *leaf[],
                             const bool *is_constant, const struct heirs *heirs) {
  bool few[64] = { 0 }, *forgets = n <= 64 ? few : mem_alloc((size_t)n);
  struct eval e = { .n = n, .n_asked = heirs ? 0 : n, .target = item, .forgets = forgets, .n_leaves = n_leaves, .leaf = leaf,
                    .is_constant = is_constant, .plan = plan, .settings = *eval_settings(), .only_targets = true };
  if (!forgets) return eval_no_memory();
  if (heirs) e.n_heirs = heirs->n, e.heir = heirs->heir, e.call = heirs->call;
  for (int i = 0; heirs && i < n; i++) forgets[i] = heirs->forgets[i];
  bool may_donate = heirs && eval_may_donate(&e);
  for (int i = 0; may_donate && i < n_leaves; i++) node_retain(leaf[i]);
  graph_lock();
  bool is_ours = eval_claim(&e);
  if (is_ours && may_donate) eval_donate(&e), spare_twins(&e);
  graph_unlock();
  struct failure *f = is_ours ? eval_run_or_give_up(&e) : NULL;
  if (may_donate) nodes_release(n_leaves, leaf);
  mem_free(e.dies);
  if (forgets != few) mem_free(forgets);
  return f;
}
