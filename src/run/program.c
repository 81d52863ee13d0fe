/* program.c -- the program of an evaluation: local copies of the graph that its targets need, the leaves that it reads, and the
 * plan for it, found by its key or made. */
#include "run/evaluation.h"
#include <string.h>
#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"
#include "run/device.h"
#include "run/held.h"
#include "run/key.h"

bool eval_add_held(struct eval *e, const struct node_list *l, bool only_looks) {
  struct held h;
  if (!held_find(&h, l, e->n, e->target, only_looks, e->has_names)) return false;
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

/* Results of a loop that has not run yet have room for the most steps there can be. */
static dim most_steps(const struct node *item) {
  return dim_resolve(((const struct loop_attr *)item->in[0]->attr)->loop->steps);
}

static struct node *local_copy(struct program *g, struct node *const made[], const struct node *n, int *n_leaves) {
  bool leaf = node_has_value(n);
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
    local_of(x)->leaf = (*n_leaves)++;
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
    struct node *x = local_copy(g, g->list.node, l->node[i], &leaves);
    ok = x != NULL;
    if (x) x->slot = i;
    g->list.node[g->list.n++] = x;
  }
  for (int i = 0; ok && i < n; i++) g->target[i] = g->list.node[target[i]->slot];
  g->list.room = g->list.n;
  if (!ok) arena_free(g->arena);
  return ok;
}

/* What a plan reads; numbers are part of it. */
static bool is_memory(const struct node *n) { return n->op != &op_scalar && node_has_value(n); }

static bool is_called(const struct node *n) { return (n->op == &op_host || n->op == &op_loop) && !node_has_value(n); }

/* Holds what the plan will call: in one block a list, then attributes, which hold pointers and sizes. false: out of memory. */
static bool borrow(struct eval *e, const struct node_list *l) {
  int n = 0;
  size_t bytes = 0;
  for (int i = 0; i < l->n; i++)
    if (is_called(l->node[i])) n++, bytes += (l->node[i]->attr_bytes + 15) & ~15u;
  if (!n) return true;
  e->lent = mem_alloc(sizeof *e->lent * (size_t)n + bytes);
  char *at = e->lent ? (char *)(e->lent + n) : NULL;
  for (int i = 0; at && i < l->n; i++) {
    const struct node *x = l->node[i];
    if (!is_called(x)) continue;
    e->lent[e->n_lent++] = (struct lent){ x->op, memcpy(at, x->attr, x->attr_bytes) };
    x->op->hold(at);
    at += (x->attr_bytes + 15) & ~15u;
  }
  return at;
}

bool eval_take_leaves(struct eval *e, const struct node_list *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += is_memory(l->node[i]);
  e->leaf = mem_alloc(sizeof *e->leaf * (size_t)(n + 1));
  if (!e->leaf) return false;
  for (int i = 0; i < l->n; i++)
    if (is_memory(l->node[i])) e->leaf[e->n_leaves++] = node_retain(l->node[i]);
  return true;
}

/* Local copies have the attributes of nodes, and what these own: bodies of loops, texts, functions of the host. Another thread may
 * compute the same targets while a plan is made, and drop their history. Lock held. NULL: out of memory. */
static struct node **hold_owners(const struct node_list *l, int *n) {
  *n = 0;
  for (int i = 0; i < l->n; i++) *n += l->node[i]->op->drop != NULL;
  struct node **held = mem_alloc(sizeof *held * (size_t)(*n + 1));
  for (int i = 0, at = 0; held && i < l->n; i++) if (l->node[i]->op->drop) held[at++] = node_retain(l->node[i]);
  return held;
}

/* Loops among them whose number of steps nobody has told. Another thread may tell it while a plan is made, whose key says that it
 * is open: such a plan is good for these loops, and not for others of that key. */
static int n_untold(int n, struct node *const held[]) {
  int untold = 0;
  for (int i = 0; i < n; i++)
    if (held[i]->op->kind == OP_LOOP) untold += !dim_is_known(dim_resolve(((const struct loop_attr *)held[i]->attr)->loop->steps));
  return untold;
}

/* Why there is no device for it. Bodies of functions that are written out may meet places that their names did not have. */
static struct failure *misplaced(const struct eval *e) {
  struct failure *f = NULL;
  if (e->settings.strange) return environment_failure(e->settings.strange);
  if (e->settings.device < 0) return device_unnamed();
  for (int i = 0; !f && i < e->n; i++) f = node_torn(e->target[i], NULL);
  return f || !e->settings.device || device_numbered(e->settings.device) ? f : device_missing("weft_eval", e->settings.device);
}

struct failure *eval_find_plan(struct eval *e, const struct node_list *l, enum rule_tag rewrites) {
  static _Thread_local struct key key;
  struct failure *failure = NULL;
  key_clear(&key);
  key_int(&key, rewrites);
  key_int(&key, e->settings.device);
  key_int(&key, eval_products(&e->settings));
  key_graph(&key, l, e->n, e->target);
  if (key.failed) return eval_no_memory();
  uint64_t hash = hash_bytes(key.bytes, key.n);
  e->plan = plan_find(key.bytes, key.n, hash);
  if (e->plan) return e->plan->calls_some && !borrow(e, l) ? eval_no_memory() : NULL;
  const struct device *device = device_numbered(e->settings.device);
  struct program g;
  if ((failure = misplaced(e))) return failure;
  if (!make_program(&g, l, e->n_leaves, e->n, e->target, rewrites)) return eval_no_memory();
  if ((failure = unsized_in(&g.list))) return arena_free(g.arena), failure;
  int n_held;
  struct node **held = borrow(e, l) ? hold_owners(l, &n_held) : NULL;
  if (!held) return arena_free(g.arena), eval_no_memory();
  g.device = device;
  int untold = n_untold(n_held, held);
  graph_unlock();
  eval_before_long();
  e->plan = plan_for(&g, &failure);
  if (e->plan) e->plan->calls_some = e->n_lent != 0;
  if (e->plan && n_untold(n_held, held) == untold) plan_keep(e->plan, key.bytes, key.n, hash);
  nodes_release(n_held, held);
  mem_free(held);
  graph_lock();
  return failure;
}
