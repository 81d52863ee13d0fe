#include "run/eval.h"
#include <alloca.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"
#include "graph/dtype.h"
#include "graph/shape.h"
#include "op/loop.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/held.h"
#include "run/key.h"
#include "run/pool.h"

struct eval_settings *eval_settings(void) {
  static _Thread_local struct eval_settings own;
  struct eval_settings *s = &own; /* its address is not found twice: that is a call in a shared library */
  if (!s->is_known)
    *s = (struct eval_settings){ .is_known = true, .device = device_default(), .check = check_default(), .blas = blas_default(),
                                 .rewrites = RULE_STABLE };
  return s;
}

int eval_device(const struct node *n) {
  const struct eval_settings *s = eval_settings();
  return n->place ? n->place - 1 : s->place ? s->place - 1 : s->device;
}

int eval_threads(void) {
  int asked = eval_settings()->threads;
  return asked ? asked : pool_threads();
}

static _Thread_local struct { void (*call)(void *); void *ctx; } before_long;

void weft_before_long(void (*call)(void *ctx), void *ctx) { before_long.call = call, before_long.ctx = ctx; }
bool eval_is_to_tell(void) { return before_long.call != NULL; }
void eval_before_long(void) { if (before_long.call) before_long.call(before_long.ctx); }

/* An evaluation under way. */
struct eval {
  struct job job;                 /* first: in the background it is one */
  int n, n_leaves, n_asked;       /* targets; those of them that were asked for come first */
  bool had_ready;                 /* something that was asked for was there already */
  struct node **target;           /* with references */
  bool *forgets;
  struct node **leaf;             /* in the order of the plan, with references */
  struct plan *plan;
  struct eval_settings settings;
  bool in_background, only_targets, is_asked; /* by a user */
  int n_heirs;
  struct heir *heir;
  bool *dies;                     /* by leaf: nobody will ask for it; NULL: none of them */
  bool *hides;                    /* by target: its history is hidden; NULL: of none */
  struct eval *older, **link;     /* among those under way: graph lock */
  const void *thread;             /* whose evaluation it is: the address of its settings */
};

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory"); }

static enum node_state state_of(const struct node *n) { return atomic_load_explicit(&n->state, memory_order_acquire); }
static void set_state(struct node *n, enum node_state s) { atomic_store_explicit(&n->state, s, memory_order_release); }
static bool has_value(const struct node *n) { return state_of(n) == NODE_READY || n->op == &op_scalar; }
/* Nobody computes it, nor will before this thread is done. */
static bool is_free(const struct node *n) {
  enum node_state s = state_of(n);
  return s == NODE_LAZY || (s == NODE_QUEUED && job_is_here());
}
/* A size that is known needs no array: it may be that of a name, mapped over or called with another array since. */
static bool is_known_size(const struct node *n) {
  return n->op->kind == OP_SIZE && dim_is_known(dim_resolve(((const struct size_attr *)n->attr)->size));
}
bool eval_stops(const struct node *n) { return has_value(n) || n->op->kind == OP_LEAF || is_known_size(n); }

/* ---- what is in the way of a plan ---- */

static struct failure *unusable(const struct node *n) {
  struct shape_text t;
  const char *dtype = weft_dtype_name((weft_dtype)n->dtype);
  if (n->op == &op_bad || state_of(n) == NODE_FAILED) return failure_retain(n->failure);
  if (n->op == &op_input)
    return fail(WEFT_ERR_NO_VALUE, n->origin, "weft_eval: a weft_input %s %s is a name, not a value: call the function", dtype,
                shape_show(n, &t));
  if (n->op == &op_loop_var)
    return fail(WEFT_ERR_NO_VALUE, n->origin, "weft_eval: a loop variable %s %s has no value outside its loop", dtype,
                shape_show(n, &t));
  return n->op->agree && n->n_in ? n->op->agree(n) : NULL;
}

enum obstacle { CLEAR, BLOCKED, WAITS, CALLS, UNSIZED, MOVES };

/* A result of a loop whose number of steps, or executed length, is to be known before anything is planned: sizes depend on
 * it, and kernels. Not so that of a branch, or of a loop that only computes its carries. And one of a loop in whose body
 * sizes are to be known in each step. */
static bool is_unsized(const struct node *item) {
  if (item->in[0]->op->kind != OP_LOOP) return false;
  const struct node *loop = item->in[0];
  const struct loop *l = ((const struct loop_attr *)loop->attr)->loop;
  bool runs_blind = l->is_branch || loop_runs_blind(l, l->has_steps && loop->n_in ? loop->in[0] : NULL);
  return l->is_uneven || !node_is_known(item) || (!runs_blind && !dim_is_known(dim_resolve(l->steps)));
}

/* The length of a loop that must have run before this one, in whose body sizes depend on it. NULL: none is unknown. */
static struct node *unknown_length(const struct node *loop) {
  if (!((const struct loop_attr *)loop->attr)->loop->needs_length) return NULL;
  for (int k = 0; k < loop->n_in; k++) {
    struct node *n = loop->in[k];
    if (loop_is_length(n) && !dim_is_known(dim_resolve(((const struct loop_attr *)n->in[0]->attr)->loop->length))) return n;
  }
  return NULL;
}

static bool settle_sizes(const struct node_list *);

static bool settle_node(struct node *n) {
  if (n->op->settle && !n->op->settle(n)) return false;
  for (int k = 0; k < n->rank; k++) {
    dim d = n->dims[k], now = dim_resolve(d);
    if (now == d || !dim_is_known(now)) continue;
    n->dims[k] = now;
    dim_release(d);
  }
  return true;
}

/* What a body has captured may have had no size when the loop was made. A body whose sizes are all known is not looked at
 * again; sizes that differ from step to step are found in each. */
static bool settle_bodies(struct loop *l) {
  if (l->is_settled || l->is_uneven) return true;
  struct node_list list = { 0 };
  int n = 0;
  struct node **body = mem_alloc(sizeof *body * (size_t)(l->n_carry + l->n_all + 1));
  if (!body) return false;
  for (int k = 0; k < l->n_carry; k++) body[n++] = l->next[k];
  for (int k = 0; k < l->n_all; k++) body[n++] = l->all[k];
  if (l->until) body[n++] = l->until;
  bool ok = walk(&list, n, body, NULL) && settle_sizes(&list), is_known = true;
  int n_vars = l->n_seq + l->n_carry + l->n_const; /* carries and constants stand behind sequences */
  for (int k = 0; ok && k < n_vars; k++) ok = settle_node(l->seq_var[k]);
  for (int k = 0; ok && k < list.n; k++) is_known &= node_is_known(list.node[k]);
  l->is_settled = ok && is_known;
  node_list_free(&list);
  mem_free(body);
  return ok;
}

/* Sizes that have become known since the nodes were made; lock held. false: out of memory. */
static bool settle_sizes(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) {
    if (!settle_node(l->node[i])) return false;
    if (l->node[i]->op == &op_loop && !settle_bodies(((const struct loop_attr *)l->node[i]->attr)->loop)) return false;
  }
  return true;
}

/* All that the targets need, with the sizes that are known by now: who plans walks so. Lock held; false: out of memory. */
static bool walk_sized(struct node_list *l, int n, struct node *const target[]) {
  if (!walk(l, n, target, eval_stops)) return false;
  if (settle_sizes(l)) return true;
  node_list_free(l);
  return false;
}

/* Looks through the list: a node that fails, one somebody else is computing, a call, a size only a loop can tell. */
static enum obstacle look(const struct node_list *l, struct failure **failure, struct node **which) {
  enum obstacle found = CLEAR;
  for (int i = 0; i < l->n; i++) {
    struct node *n = l->node[i];
    if ((*failure = unusable(n))) return BLOCKED;
    if (found == CLEAR && !has_value(n) && !is_free(n)) found = WAITS;
    else if (found == CLEAR && n->op == &op_to && eval_moves(n)) found = MOVES, *which = n;
    else if (found == CLEAR && n->op->kind == OP_CALL && !has_value(n)) found = CALLS, *which = n;
    else if (found == CLEAR && n->op->kind == OP_ITEM && !has_value(n) && is_unsized(n)) found = UNSIZED, *which = n;
    else if (found == CLEAR && n->op->kind == OP_LOOP && unknown_length(n)) found = UNSIZED, *which = unknown_length(n);
  }
  return found;
}

/* ---- values somebody will want again ---- */

/* They join the targets. Lock held. */
static bool add_held(struct eval *e, const struct node_list *l, bool only_looks) {
  struct held h;
  if (!held_find(&h, l, e->n, e->target, only_looks)) return false;
  struct node **target = h.n ? mem_resize(e->target, sizeof *target * (size_t)(e->n + h.n)) : e->target;
  if (target) e->target = target;
  bool *forgets = h.n ? mem_resize(e->forgets, (size_t)(e->n + h.n)) : e->forgets;
  if (forgets) e->forgets = forgets;
  bool ok = target && forgets;
  for (int i = 0; ok && i < h.n; i++) {
    e->forgets[e->n] = h.forgets[i];
    e->target[e->n++] = node_retain(h.node[i]);
  }
  held_free(&h);
  return ok;
}

/* ---- the program ---- */

/* Results of a loop that has not run yet have room for the most steps there can be. */
static dim most_steps(const struct node *item) {
  return dim_resolve(((const struct loop_attr *)item->in[0]->attr)->loop->steps);
}

static struct node *local_of(struct program *g, struct node *const made[], const struct node *n, int *n_leaves) {
  bool leaf = has_value(n);
  struct node *in[64], **ins = n->n_in <= 64 ? in : arena_take(g->arena, sizeof *ins * (size_t)n->n_in);
  int n_in = leaf || n->op->kind == OP_SIZE ? 0 : n->n_in;
  if (!ins) return NULL;
  for (int k = 0; k < n_in; k++) ins[k] = made[n->in[k]->slot];
  const struct op *op = !leaf ? n->op : n->op == &op_scalar ? &op_scalar : &op_value;
  size_t attr_bytes = op == &op_value ? 0 : n->attr_bytes;
  struct node *x = node_local(g->arena, op, (weft_dtype)n->dtype, n->rank, n->dims, n_in, ins, n->attr, attr_bytes);
  if (!x) return NULL;
  bool is_of_loop = n->op->kind == OP_ITEM && n->n_in && n->in[0]->op->kind == OP_LOOP;
  if (is_of_loop && n->rank && !dim_is_known(n->dims[0])) x->dims[0] = most_steps(n);
  x->origin = n->origin;
  x->weak = n->weak;
  if (op == &op_value) {
    struct place *p = &g->leaf_place[*n_leaves];
    memcpy(p->stride, n->value->stride, sizeof *p->stride * n->rank);
    x->value = n->value; /* scalar folding may look at it */
    x->serial = (uint64_t)(*n_leaves)++;
  }
  return x;
}

/* Local copies of the list; graph lock held. */
static bool make_program(struct program *g, const struct node_list *l, int n_leaves,
                         int n, struct node *const target[], enum rule_tag rewrites) {
  *g = (struct program){ .arena = arena_new(), .n_targets = n, .n_leaves = n_leaves, .rewrites = rewrites };
  if (!g->arena) return false;
  g->list.node = arena_take(g->arena, sizeof *g->list.node * (size_t)(l->n + 1));
  g->target = arena_take(g->arena, sizeof *g->target * (size_t)(n + 1));
  g->leaf_place = arena_take(g->arena, sizeof *g->leaf_place * (size_t)(n_leaves + 1));
  bool ok = g->list.node && g->target && g->leaf_place;
  int leaves = 0;
  for (int i = 0; ok && i < l->n; i++) {
    struct node *x = local_of(g, g->list.node, l->node[i], &leaves);
    ok = x != NULL;
    if (x) x->slot = i;
    g->list.node[g->list.n++] = x;
  }
  for (int i = 0; ok && i < n; i++) g->target[i] = g->list.node[target[i]->slot];
  g->list.room = g->list.n;
  if (!ok) arena_free(g->arena);
  return ok;
}

static bool is_open_view(const struct node *n) { return n->op->kind == OP_VIEW && !node_is_known(n); }

/* The first whose sizes, or those of what it reads, are not all numbers: a plan of it would compute nothing, or anything. A loop
 * that runs blind may have its sequences cut to steps that only its run tells. NULL: there is none. */
static const struct node *sizeless(const struct program *g) {
  for (int i = 0; i < g->list.n; i++) {
    const struct node *n = g->list.node[i];
    if (is_open_view(n) || n->op->kind == OP_LOOP) continue;
    if (!node_is_known(n)) return n;
    for (int k = 0; k < n->n_in; k++) if (is_open_view(n->in[k])) return n->in[k];
  }
  for (int i = 0; i < g->n_targets; i++) if (!node_is_known(g->target[i])) return g->target[i];
  return NULL;
}

/* What a plan reads; numbers are part of it. */
static bool is_memory(const struct node *n) { return n->op != &op_scalar && has_value(n); }

static bool take_leaves(struct eval *e, const struct node_list *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += is_memory(l->node[i]);
  e->leaf = mem_alloc(sizeof *e->leaf * (size_t)(n + 1));
  if (!e->leaf) return false;
  for (int i = 0; i < l->n; i++)
    if (is_memory(l->node[i])) e->leaf[e->n_leaves++] = node_retain(l->node[i]);
  return true;
}

/* Finds or makes the plan. Lock held on entry and on return; not while a plan is made. */
static struct failure *find_plan(struct eval *e, const struct node_list *l, enum rule_tag rewrites) {
  static _Thread_local struct key key;
  struct failure *failure = NULL;
  key_clear(&key);
  key_int(&key, rewrites);
  key_int(&key, e->settings.device);
  key_int(&key, e->settings.blas);
  key_graph(&key, l, e->n, e->target);
  if (key.failed) return no_memory();
  uint64_t hash = hash_bytes(key.bytes, key.n);
  e->plan = plan_find(key.bytes, key.n, hash);
  if (e->plan) return NULL;
  const struct device *device = device_numbered(e->settings.device);
  struct program g;
  if (e->settings.device && !device)
    return device_missing(e->settings.device);
  if (!make_program(&g, l, e->n_leaves, e->n, e->target, rewrites)) return no_memory();
  const struct node *open = sizeless(&g);
  if (open) failure = fail(WEFT_ERR_INTERNAL, open->origin, "weft_eval: %s is planned before its size is known", open->op->name);
  if (failure) return arena_free(g.arena), failure;
  g.device = device;
  graph_unlock();
  eval_before_long();
  e->plan = plan_for(&g, &failure);
  if (e->plan) plan_keep(e->plan, key.bytes, key.n, hash);
  graph_lock();
  return failure;
}

/* ---- results ---- */

static struct value *value_new(int rank, struct buffer *buf) {
  struct value *v = mem_alloc(sizeof *v + sizeof *v->stride * (size_t)rank);
  if (v) v->buf = buf;
  return v;
}

/* A target that is a number: memory of one element that every index reads. */
static struct value *number_value(const struct node *n, uint64_t bits) {
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  struct buffer *b = buffer_new(size);
  struct value *v = b ? value_new(n->rank, b) : NULL;
  void *data;
  if (!v) return buffer_release(b), NULL;
  buffer_hold(b, NULL, &data, NULL);
  memcpy(data, &bits, size);
  buffer_drop(b);
  return v;
}

/* Where a leaf begins, in elements of a target that shows it: parts of a complex number are half as long. */
static int64_t offset_as(const struct node *leaf, weft_dtype d) {
  return leaf->value->offset * (int64_t)(weft_dtype_bytes((weft_dtype)leaf->dtype) / weft_dtype_bytes(d));
}

static void value_set(const struct eval *e, const struct run *r, int i, struct value *v) {
  const struct output *o = &e->plan->schedule->output[i];
  if (o->is_number) return;
  const struct store *s = &e->plan->schedule->store[o->place.store];
  v->buf = buffer_retain(s->leaf >= 0 ? e->leaf[s->leaf]->value->buf : r->out[o->place.store]);
  v->offset = o->place.offset + (s->leaf >= 0 ? offset_as(e->leaf[s->leaf], (weft_dtype)e->target[i]->dtype) : 0);
  memcpy(v->stride, o->place.stride, sizeof *v->stride * e->target[i]->rank);
}

static void free_values(int n, struct value *v[]) {
  for (int i = 0; i < n; i++) {
    if (v[i]) buffer_release(v[i]->buf);
    mem_free(v[i]);
  }
}

/* Room for the values of all targets, so that nothing fails once they are computed. */
static bool values_make(const struct eval *e, struct value *v[]) {
  bool ok = true;
  memset(v, 0, sizeof *v * (size_t)e->n);
  for (int i = 0; ok && i < e->n; i++) {
    const struct output *o = &e->plan->schedule->output[i];
    ok = (v[i] = o->is_number ? number_value(e->target[i], o->bits) : value_new(e->target[i]->rank, NULL)) != NULL;
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
static bool claim(struct eval *e) {
  for (int i = 0; i < e->n; i++) if (!is_free(e->target[i])) return false;
  for (int i = 0; i < e->n; i++) set_state(e->target[i], NODE_RUNNING);
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

static struct failure *circle_in(int n, struct node *const node[]) {
  for (int i = 0; under_way && i < n; i++)
    if (!has_value(node[i]) && !is_free(node[i]) && waits_for_itself(node[i]))
      return fail(WEFT_ERR_ARG, node[i]->origin, "weft_host: the function asks for what waits for it");
  return NULL;
}

/* What is to be checked first is forgotten later. */
static bool may_forget(const struct eval *e, int i) { return e->forgets[i] && !e->settings.check; }

/* A target that shows a part of a file may still fail to be read. */
static bool shows_file(const struct eval *e) {
  const struct schedule *s = e->plan->schedule;
  for (int i = 0; i < e->n; i++) {
    int leaf = !s->output[i].is_number ? s->store[s->output[i].place.store].leaf : -1;
    if (leaf >= 0 && buffer_is_mapped(e->leaf[leaf]->value->buf)) return true;
  }
  return false;
}

/* Updates must be all that is left to do, and nothing may fail behind them. */
static bool may_donate(const struct eval *e) {
  return e->plan->schedule->n_gifts && !e->settings.check && !e->in_background && !job_is_here() && !e->plan->device &&
         !(e->n_heirs && (e->had_ready || shows_file(e)));
}

/* Finds the leaves that die. What is seen of the targets by others has no history from now on. Lock held. */
static void donate(struct eval *e) {
  bool *dies = mem_alloc((size_t)e->n_leaves + 1), *forgets = mem_alloc((size_t)e->n + 1);
  for (int i = 0; forgets && i < e->n; i++) forgets[i] = may_forget(e, i) && !scope_trace_open();
  struct donation d = { e->n, e->n_asked, e->target, forgets, e->n_heirs, e->heir, e->n_leaves, e->leaf, dies };
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
static void end_donation(struct eval *e, bool is_done) {
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

/* The targets are as before they were claimed: a job has still to compute its own. Lock held. */
static void unclaim(struct eval *e) {
  for (int i = 0; i < e->n; i++)
    if (state_of(e->target[i]) == NODE_RUNNING)
      set_state(e->target[i], e->in_background && i < e->n_asked ? NODE_QUEUED : NODE_LAZY);
  leave(e);
  end_donation(e, false);
}

/* In a child nobody computes them any more; what a job was to compute it will, as the child goes on with it. */
void eval_after_fork(void) { while (under_way) unclaim(under_way); }

/* All targets get their values. */
static void publish(struct eval *e, struct run *r, struct value *v[]) {
  for (int i = 0; i < e->n; i++) value_set(e, r, i, v[i]);
  graph_lock();
  for (int i = 0; i < e->n; i++) {
    struct node *n = e->target[i];
    if (state_of(n) == NODE_READY) continue; /* the same node twice */
    n->value = v[i];
    v[i] = NULL;
    set_state(n, NODE_READY);
    if (may_forget(e, i) && !(e->hides && e->hides[i])) node_forget(n);
  }
  end_donation(e, true);
  leave(e);
  graph_changed();
  graph_unlock();
}

/* A job that somebody else will begin again. */
static void put_off(struct eval *e) {
  graph_lock();
  if (e->link) unclaim(e);
  graph_changed();
  graph_unlock();
}

/* What was asked for in the background fails, unless it was cancelled; everything else is lazy again. */
static void give_up(struct eval *e, struct failure *f) {
  if (job_is_put_off()) return put_off(e);
  bool fails = e->in_background && failure_status(f) != WEFT_ERR_CANCELLED;
  graph_lock(); /* neighbours change e->link when they leave */
  for (int i = 0; (e->link || e->in_background) && i < e->n; i++) {
    struct node *n = e->target[i];
    if (state_of(n) != (e->link ? NODE_RUNNING : NODE_QUEUED)) continue;
    if (fails && i < e->n_asked) n->failure = failure_retain(f);
    set_state(n, fails && i < e->n_asked ? NODE_FAILED : NODE_LAZY);
  }
  end_donation(e, false);
  leave(e);
  graph_changed();
  graph_unlock();
}

static void drop_plan(struct eval *e) {
  nodes_release(e->n_leaves, e->leaf);
  mem_free(e->leaf);
  mem_free(e->dies);
  plan_release(e->plan);
  e->leaf = NULL, e->dies = NULL, e->n_leaves = 0, e->plan = NULL;
}

static void eval_free(struct eval *e) {
  drop_plan(e);
  nodes_release(e->n, e->target);
  mem_free(e->target);
  mem_free(e->forgets);
}

static struct leaf leaf_of(const struct node *n) {
  weft_dtype t = (weft_dtype)n->dtype;
  return (struct leaf){ .buf = n->value->buf, .offset = n->value->offset * (int64_t)weft_dtype_bytes(t) };
}

static void leaves_of(const struct eval *e, struct leaf leaf[]) {
  for (int i = 0; i < e->n_leaves; i++) {
    leaf[i] = leaf_of(e->leaf[i]);
    leaf[i].dies = e->dies && e->dies[i];
  }
}

static struct failure *run(struct eval *e) {
  int n_stores = e->plan->schedule->n_stores;
  struct leaf few[32], *leaf = e->n_leaves <= 32 ? few : mem_alloc(sizeof *leaf * (size_t)e->n_leaves);
  struct buffer *some[32], **out = n_stores <= 32 ? some : mem_alloc(sizeof *out * (size_t)n_stores);
  struct value *one[16], **v = e->n <= 16 ? one : mem_alloc(sizeof *v * (size_t)e->n);
  bool has_room = v && values_make(e, v);
  struct failure *f = leaf && out && has_room ? NULL : no_memory();
  int threads = e->settings.threads ? e->settings.threads : pool_threads();
  struct run r = { .leaf = leaf, .cancel = e->settings.cancel, .threads = threads, .out = out };
  if (!f) {
    memset(out, 0, sizeof *out * (size_t)n_stores);
    leaves_of(e, leaf);
    if (plan_run(e->plan, &r, &f) == WEFT_OK) publish(e, &r, v);
    for (int i = 0; i < n_stores; i++) buffer_release(out[i]);
  }
  if (v) free_values(e->n, v);
  if (v != one) mem_free(v);
  if (leaf != few) mem_free(leaf);
  if (out != some) mem_free(out);
  return f;
}

static struct failure *run_or_give_up(struct eval *e) {
  struct failure *f = run(e);
  if (f) give_up(e, f);
  return f;
}

/* ---- the way there ---- */

static struct failure *size_loop(int n, struct node *const item[]);
static struct failure *tell_length(struct node *n, dim length);

static bool is_asked(const struct eval_options *o) { return o->fn || !o->only_targets; }
static bool is_loose(const struct node *n) { return atomic_load_explicit(&n->n_loose, memory_order_relaxed) > 0; }

static bool begin(struct eval *e, int n, struct node *const target[], const struct eval_options *o) {
  *e = (struct eval){ .n = n, .n_asked = n, .settings = *eval_settings(), .in_background = o->in_background,
                      .only_targets = o->only_targets, .is_asked = is_asked(o), .n_heirs = o->n_heirs, .heir = o->heir };
  if (n) e->settings.device = eval_device(target[0]);
  e->target = mem_alloc(sizeof *e->target * (size_t)(n + 1));
  e->forgets = mem_alloc((size_t)n + 1);
  if (!e->target || !e->forgets) {
    mem_free(e->target);
    mem_free(e->forgets);
    return false;
  }
  for (int i = 0; i < n; i++) {
    e->target[i] = node_retain(target[i]);
    e->forgets[i] = is_asked(o) && is_loose(target[i]);
  }
  return true;
}

/* Leaves out what is there already: since long, or as the result of a call or loop that came first. */
static void drop_ready(struct eval *e) {
  int n = 0, asked = 0;
  for (int i = 0; i < e->n; i++) {
    if (state_of(e->target[i]) == NODE_READY) {
      if (may_forget(e, i)) node_forget(e->target[i]);
      node_release(e->target[i]), e->had_ready = true;
      continue;
    }
    e->forgets[n] = e->forgets[i];
    e->target[n++] = e->target[i];
    asked += i < e->n_asked;
  }
  e->n = n;
  e->n_asked = asked;
}

static bool is_item_of(const struct node *n, const struct node *many) {
  return n->op->kind == OP_ITEM && !has_value(n) && n->in[0] == many;
}

/* The results of a call or loop that the list wants, with references. -1: out of memory. */
static int items_of(const struct node_list *l, const struct node *many, struct node ***item) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += is_item_of(l->node[i], many);
  if (!(*item = mem_alloc(sizeof **item * (size_t)(n + 1)))) return -1;
  n = 0;
  for (int i = 0; i < l->n; i++) if (is_item_of(l->node[i], many)) (*item)[n++] = node_retain(l->node[i]);
  return n;
}

/* Whether jobs lay idle, and have been made to go on; lock held, but not meanwhile. */
static bool resumed(void) {
  if (!job_is_stuck()) return false;
  graph_unlock();
  job_resume();
  graph_lock();
  return true;
}

/* Until somebody has computed, failed or given up something; lock held. */
static struct failure *await_change(const struct eval_settings *s) {
  eval_before_long();
  if (!resumed()) graph_wait(s->cancel ? 0.02 : -1);
  return plan_stopped(s->cancel);
}

/* Up to the point where a plan can run: e->plan is set and the targets are claimed, or nothing is left to do. */
static struct failure *approach(struct eval *e) {
  struct failure *f = NULL;
  for (;;) {
    struct node_list l;
    struct node *which = NULL;
    graph_lock();
    drop_ready(e);
    if (!e->n) return graph_unlock(), NULL;
    if (!walk_sized(&l, e->n, e->target)) return graph_unlock(), no_memory();
    enum obstacle in_the_way = look(&l, &f, &which);
    if (in_the_way == CLEAR) {
      bool ok = (!e->is_asked || held_forget(&l, e->n, e->target, e->forgets)) &&
                (e->only_targets || add_held(e, &l, false)) && take_leaves(e, &l);
      f = ok ? find_plan(e, &l, RULE_EXACT) : no_memory();
      /* while a plan was made somebody may have computed or claimed a target: then once more */
      bool again = !f && !claim(e);
      if (!f && !again && may_donate(e)) donate(e);
      node_list_free(&l);
      graph_unlock();
      if (!again) return f;
      drop_plan(e);
      continue;
    }
    if (in_the_way == WAITS && !(f = circle_in(l.n, l.node))) f = await_change(&e->settings);
    struct node **item = NULL;
    const struct node *many = in_the_way == CALLS ? which : in_the_way == UNSIZED ? which->in[0] : NULL;
    int n_items = many ? items_of(&l, many, &item) : 0;
    dim length = in_the_way == UNSIZED ? ((const struct loop_attr *)many->attr)->loop->length : 0;
    which = in_the_way == UNSIZED || in_the_way == MOVES ? node_retain(which) : NULL;
    node_list_free(&l);
    graph_unlock();
    if (n_items < 0) return node_release(which), no_memory();
    if (in_the_way == MOVES) f = eval_move(which);
    if (in_the_way == CALLS) f = eval_call(n_items, item);
    if (in_the_way == UNSIZED) f = n_items ? size_loop(n_items, item) : tell_length(which, length);
    node_release(which);
    nodes_release(n_items, item);
    mem_free(item);
    if (f) return f;
  }
}

static struct failure *attempt(struct eval *e) {
  drop_plan(e); /* there is one if a child of fork begins a job again */
  struct failure *f = approach(e);
  return !f && e->plan ? run(e) : f;
}

/* What nobody has asked for is stored only if there is room for it. */
static bool asks_for_less(struct eval *e, const struct failure *f) {
  if (failure_status(f) != WEFT_ERR_MEMORY || e->n == e->n_asked) return false;
  graph_lock();
  if (e->link) unclaim(e);
  graph_changed();
  graph_unlock();
  nodes_release(e->n - e->n_asked, e->target + e->n_asked);
  e->n = e->n_asked;
  return e->only_targets = true;
}

static struct failure *compute(struct eval *e) {
  struct failure *f = attempt(e);
  if (f && asks_for_less(e, f)) failure_release(f), f = attempt(e);
  if (f) give_up(e, f);
  return f;
}

/* Of what was asked for, has its value and, if need be, was checked. */
static void forget(int n, struct node *const asked[]) {
  bool some = false;
  for (int i = 0; i < n; i++) some |= is_loose(asked[i]);
  if (!some) return;
  graph_lock();
  for (int i = 0; i < n; i++)
    if (is_loose(asked[i]) && state_of(asked[i]) == NODE_READY) node_forget(asked[i]);
  graph_unlock();
}

/* The same, and a nan in the targets is a failure; their values stay. */
static struct failure *compute_checked(struct eval *e) {
  int n = e->n;
  struct node **asked = mem_alloc(sizeof *asked * (size_t)(n + 1));
  for (int i = 0; asked && i < n; i++) asked[i] = node_retain(e->target[i]);
  struct failure *f = asked ? compute(e) : no_memory();
  if (!f) f = nan_find(n, asked);
  if (!f) forget(n, asked);
  nodes_release(asked ? n : 0, asked);
  mem_free(asked);
  return f;
}

static struct failure *run_job(struct job *j) {
  struct eval *e = (struct eval *)j;
  return e->settings.check ? compute_checked(e) : compute(e);
}

static void end_job(struct job *j) { eval_free((struct eval *)j); }

/* What can be seen to fail does so at once, and nothing has happened. Lock held. */
static struct failure *look_ahead(int n, struct node *const target[]) {
  struct node_list l;
  struct node *which;
  struct failure *f = NULL;
  if (!walk(&l, n, target, eval_stops)) return no_memory();
  (void)look(&l, &f, &which);
  node_list_free(&l);
  return f;
}

struct failure *eval_look(int n, struct node *const target[]) {
  graph_lock();
  struct failure *f = look_ahead(n, target);
  graph_unlock();
  return f;
}

static struct failure *start(int n, struct node *const target[], const struct eval_options *o) {
  struct eval *e = mem_alloc(sizeof *e);
  if (!e || !begin(e, n, target, o)) return mem_free(e), no_memory();
  graph_lock();
  struct failure *f = look_ahead(n, target);
  for (int i = 0; !f && i < n; i++) if (state_of(target[i]) == NODE_LAZY) set_state(target[i], NODE_QUEUED);
  graph_unlock();
  e->job.run = run_job;
  e->job.end = end_job;
  if (!f) return job_start(&e->job), NULL;
  eval_free(e);
  mem_free(e);
  return f;
}

weft_status eval_nodes(int n, struct node *const target[], const struct eval_options *o, struct failure **failure) {
  struct eval e;
  bool there = true, checks = is_asked(o) && eval_settings()->check;
  *failure = NULL;
  for (int i = 0; i < n; i++) there &= state_of(target[i]) == NODE_READY;
  if (there && !checks) return forget(is_asked(o) ? n : 0, target), WEFT_OK;
  if (!eval_is_one_place(n, target)) return eval_by_place(n, target, o, failure);
  if (o->in_background) *failure = start(n, target, o);
  else if (!begin(&e, n, target, o)) *failure = no_memory();
  else {
    *failure = checks ? compute_checked(&e) : compute(&e);
    eval_free(&e);
  }
  if (*failure && o->fn) *failure = failure_for(*failure, o->fn);
  return *failure ? failure_status(*failure) : WEFT_OK;
}

/* ---- loops whose sizes only a run can tell ---- */

/* Items of one loop, evaluated with its capacity for a length (make_program knows). What they need must be clear. */
static struct failure *eval_unsized(int n, struct node *const target[]) {
  struct eval e;
  struct node_list l;
  struct failure *f = NULL;
  struct node *loop = target[0]->in[0];
  if (loop->n_in && eval_nodes(loop->n_in, loop->in, &(struct eval_options){ .only_targets = true }, &f)) return f;
  if (!begin(&e, n, target, &(struct eval_options){ .only_targets = true })) return no_memory();
  graph_lock();
  bool go = false;
  if (!walk_sized(&l, e.n, e.target)) f = no_memory();
  else {
    f = take_leaves(&e, &l) ? find_plan(&e, &l, false) : no_memory();
    go = !f && claim(&e);
    node_list_free(&l);
  }
  graph_unlock();
  if (go) f = run_or_give_up(&e);
  eval_free(&e);
  return f;
}

static struct failure *read_integer(struct node *n, int64_t *out) {
  struct failure *f = NULL;
  union { int64_t i64; int32_t i32; int16_t i16; int8_t i8; uint64_t u64; uint32_t u32; uint16_t u16; uint8_t u8; } v = { 0 };
  if (eval_nodes(1, &n, &(struct eval_options){ .only_targets = true }, &f) || value_copy(n, &v, &f)) return f;
  switch (n->dtype) {
    case WEFT_I64: *out = v.i64; break;
    case WEFT_I32: *out = v.i32; break;
    case WEFT_I16: *out = v.i16; break;
    case WEFT_I8: *out = v.i8; break;
    case WEFT_U64: *out = v.u64 > INT64_MAX ? INT64_MAX : (int64_t)v.u64; break;
    case WEFT_U32: *out = v.u32; break;
    case WEFT_U16: *out = v.u16; break;
    default: *out = v.u8;
  }
  return NULL;
}

/* Runs the loop for its items, with memory for the most steps there can be, and binds its length to those it took. */
static struct failure *run_unsized(struct loop *l, struct node *loop, int n, struct node *const item[]) {
  struct node **target = mem_alloc(sizeof *target * (size_t)(n + 1)), *length = item_make(loop, l->n_all + l->n_carry);
  struct failure *f = target && length ? NULL : no_memory();
  int64_t taken;
  if (!f) {
    memcpy(target, item, sizeof *target * (size_t)n);
    target[n] = length;
    f = l->is_uneven ? eval_uneven(n + 1, target) : eval_unsized(n + 1, target);
  }
  if (!f) f = read_integer(length, &taken);
  if (!f && l->until && !dim_bind(l->length, taken)) f = no_memory();
  if (!f) {
    graph_lock();
    if (!settle_sizes(&(struct node_list){ .node = target, .n = n })) f = no_memory();
    graph_unlock();
  }
  node_release(length);
  mem_free(target);
  return f;
}

/* n is the length of a loop that has run. */
static struct failure *tell_length(struct node *n, dim length) {
  int64_t taken;
  struct failure *f = read_integer(n, &taken);
  return f ? f : dim_bind(length, taken) ? NULL : no_memory();
}

static struct failure *size_loop(int n, struct node *const item[]) {
  struct node *loop = item[0]->in[0];
  struct loop *l = ((const struct loop_attr *)loop->attr)->loop;
  int64_t steps;
  if (dim_is_known(dim_resolve(l->steps))) return run_unsized(l, loop, n, item);
  struct failure *f = read_integer(loop->in[0], &steps);
  if (f) return f;
  if (steps < 0) return fail(WEFT_ERR_ARG, loop->origin, "weft_loop_open: %lld steps", (long long)steps);
  return dim_bind(l->steps, steps) ? NULL : no_memory();
}

/* Claims the items, unless somebody has; then runs a plan whose leaves are known. */
struct failure *eval_claimed(int n, struct node *item[], struct plan *plan, int n_leaves, struct node *leaf[]) {
  bool few[64] = { 0 }, *forgets = n <= 64 ? few : mem_alloc((size_t)n);
  struct eval e = { .n = n, .n_asked = n, .target = item, .forgets = forgets, .n_leaves = n_leaves, .leaf = leaf, .plan = plan,
                    .settings = *eval_settings(), .only_targets = true };
  if (!forgets) return no_memory();
  graph_lock();
  bool is_ours = claim(&e);
  graph_unlock();
  struct failure *f = is_ours ? run_or_give_up(&e) : NULL;
  if (forgets != few) mem_free(forgets);
  return f;
}

/* ---- plans that are not run ---- */

/* Bytes of targets that would stand in leaves that die; lock held. */
static int64_t would_give(struct eval *e) {
  struct leaf *leaf = may_donate(e) ? mem_alloc(sizeof *leaf * (size_t)(e->n_leaves + 1)) : NULL;
  int64_t bytes = 0;
  if (!leaf) return 0;
  donate(e);
  leaves_of(e, leaf);
  if (e->dies) bytes = donate_memory(e->plan, &(struct run){ .leaf = leaf }, NULL);
  end_donation(e, false);
  mem_free(leaf);
  return bytes;
}

static struct failure *plan_only(struct eval *e, enum rule_tag rewrites, int64_t *given) {
  struct node_list l;
  struct node *which;
  struct failure *f = NULL;
  graph_lock();
  if (!walk_sized(&l, e->n, e->target)) return graph_unlock(), no_memory();
  if (look(&l, &f, &which) == CLEAR) {
    f = (e->only_targets || add_held(e, &l, true)) && take_leaves(e, &l) ? find_plan(e, &l, rewrites) : no_memory();
    if (!f && given) *given = would_give(e);
  } else if (!f) f = fail(WEFT_ERR_UNSUPPORTED, 0, "weft_plan: a part must be computed before the rest can be planned");
  node_list_free(&l);
  graph_unlock();
  return f;
}

bool eval_is_sized(int n, struct node *const target[]) {
  struct node_list l;
  struct node *which;
  struct failure *f = NULL;
  bool is_sized = true;
  graph_lock();
  if (walk_sized(&l, n, target)) {
    enum obstacle found = look(&l, &f, &which);
    is_sized = f || (found != UNSIZED && found != MOVES); /* what fails says so when it is planned */
    node_list_free(&l);
  }
  graph_unlock();
  failure_release(f);
  return is_sized;
}

struct plan *eval_plan_leaves(int n, struct node *const target[], enum rule_tag rewrites, int *n_leaves, struct node ***leaf,
                              struct failure **failure) {
  struct eval e;
  struct plan *p = NULL;
  if (!begin(&e, n, target, &(struct eval_options){ .only_targets = true })) return *failure = no_memory(), NULL;
  if (!(*failure = plan_only(&e, rewrites, NULL))) {
    plan_retain(p = e.plan);
    if (leaf) *leaf = e.leaf, *n_leaves = e.n_leaves, e.leaf = NULL, e.n_leaves = 0;
  }
  eval_free(&e);
  return p;
}

struct plan *eval_plan_asked(int n, struct node *const target[], struct failure **failure) {
  struct eval e;
  if (!begin(&e, n, target, &(struct eval_options){ 0 })) return *failure = no_memory(), NULL;
  *failure = plan_only(&e, RULE_EXACT, NULL);
  struct plan *p = *failure ? NULL : e.plan;
  if (p) plan_retain(p);
  eval_free(&e);
  return p;
}

struct failure *eval_cost(int n, struct node *const target[], weft_cost *out) {
  struct eval e;
  int64_t given = 0;
  if (!begin(&e, n, target, &(struct eval_options){ 0 })) return no_memory();
  struct failure *f = plan_only(&e, RULE_EXACT, &given);
  if (!f) {
    const struct schedule *s = e.plan->schedule;
    *out = (weft_cost){ plan_peak(e.plan, eval_threads()) - given, s->cost.moved_bytes, s->cost.operations, s->n_steps, 0,
                        plan_scratch(e.plan, eval_threads()) };
    for (int i = 0; i < s->n_steps; i++) out->library_calls += plan_library_calls(e.plan, i);
  }
  eval_free(&e);
  return f;
}

static bool is_awaited(const struct node *n) { return state_of(n) == NODE_QUEUED || state_of(n) == NODE_RUNNING; }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of so many seconds that end then; below 0: for ever. */
static double left(double seconds, double end) {
  double s = seconds >= 0 ? end - now() : -1;
  return seconds >= 0 && s < 0 ? 0 : s;
}

weft_status eval_wait(int n, struct node *const target[], double seconds, struct failure **failure) {
  weft_status status = WEFT_OK;
  double end = now() + seconds;
  graph_lock();
  *failure = circle_in(n, target);
  if (*failure) status = failure_status(*failure);
  for (int i = 0; i < n && !status; i++) {
    bool is_started = is_awaited(target[i]);
    while (!status && is_awaited(target[i]))
      if (!resumed() && !graph_wait(left(seconds, end)) && is_awaited(target[i])) status = WEFT_ERR_TIMEOUT;
    if (!status && state_of(target[i]) == NODE_FAILED) *failure = failure_retain(target[i]->failure);
    if (!status && is_started && state_of(target[i]) == NODE_LAZY)
      *failure = fail(WEFT_ERR_CANCELLED, target[i]->origin, "weft_wait: whoever computed it gave up");
    if (*failure) status = failure_status(*failure);
  }
  graph_unlock();
  return status;
}
