/* schedule.c -- the order of the work: prepare, group, place, emit level by level, plan memory. */
#include "schedule/schedule.h"
#include <string.h>
#include "base/hard.h"
#include "schedule/attention_find.h"
#include "schedule/work.h"

void *work_take(struct work *w, size_t bytes) {
  void *p = arena_take(w->arena, bytes);
  if (!p) w->no_memory = true;
  return p;
}

bool work_fail(struct work *w, struct failure *f) {
  if (w->failure) failure_release(f);
  else w->failure = f;
  return false;
}

/* ---- places ---- */

static bool place_leaf(struct work *w, struct item *x) {
  int leaf = local_of(x->node)->leaf;
  if (w->leaf_store[leaf] < 0) {
    int s = store_new(w, 0);
    if (s < 0) return false;
    w->out->store[s].leaf = leaf;
    w->leaf_store[leaf] = s;
  }
  x->place = w->leaf_place[leaf];
  x->place.store = w->leaf_store[leaf];
  return true;
}

/* One node reads the value of `x`, and nobody else wants it. */
static bool is_of_one(const struct work *w, const struct node *x) {
  const struct item *i = &w->item[x->slot];
  return x->op->kind != OP_VIEW && x->op->kind != OP_LEAF && local_of(x)->n_uses == 1 && !i->is_target && i->is_stored &&
         i->place.store < 0;
}

/* It is stored straight into part of another's place: there by the kernel of a group, or by other parts. */
static bool may_stand_in(const struct work *w, const struct node *x) {
  return is_of_one(w, x) && (w->item[x->slot].group >= 0 || x->op == &op_concat);
}

/* It is stored densely, and then updated there. */
static bool may_be_updated(const struct work *w, const struct node *x) {
  return is_of_one(w, x) && (w->item[x->slot].group >= 0 || x->op == &op_concat || x->op == &op_scatter);
}

/* What the operand of a concatenation is a result of: a loop that says before it runs how many rows it gives; also one
 * of its last carries, seen as a row. */
static const struct node *loop_result(const struct node *x) {
  if (x->op == &op_reshape && local_of(x)->n_uses == 1 && x->rank == x->in[0]->rank + 1 && x->dims[0] == 1) x = x->in[0];
  if (x->op->kind != OP_ITEM || x->in[0]->op->kind != OP_LOOP) return NULL;
  return ((const struct loop_attr *)x->in[0]->attr)->loop->until ? NULL : x;
}

/* Loops store their results densely: as neighbours in a concatenation of rows. */
static bool stand_in_rows(struct work *w, const struct node *n, const struct node *operand, int64_t row) {
  const struct place *p = &w->item[n->slot].place;
  const struct node *x = loop_result(operand);
  struct item *i = x ? &w->item[x->slot] : NULL;
  if (!x || ((const struct axis_attr *)n->attr)->axis || !place_is_dense(n, p)) return false;
  if (i->is_target || !i->is_stored || i->place.store >= 0) return false;
  place_dense(x, p->store, &i->place);
  i->place.offset = p->offset + row * p->stride[0];
  i->into = n->slot;
  return true;
}

/* What the operand of a concatenation shows all of, in some order: a result of attention. */
static const struct node *attention_result(const struct work *w, const struct node *x) {
  while (x->op->kind == OP_VIEW && local_of(x)->n_uses == 1 && !w->item[x->slot].is_stored) x = x->in[0];
  return x->op->kind == OP_ITEM && x->in[0]->op == &op_attend && local_of(x)->n_uses == 1 ? x : NULL;
}

/* Attention stores by chunks: neighbours along its last axis, all others aligned. */
static bool attention_stores_at(const struct node *x, const struct place *p) {
  enum { CHUNK = 8 };
  bool is_aligned = p->offset % CHUNK == 0 && p->stride[x->rank - 1] == 1;
  for (int k = 0; k < x->rank - 1; k++) is_aligned &= x->dims[k] == 1 || p->stride[k] % CHUNK == 0;
  return is_aligned;
}

static bool stand_in_parts(struct work *w, const struct node *n, const struct node *operand, int64_t offset) {
  const struct node *x = attention_result(w, operand);
  struct item *i = x ? &w->item[x->slot] : NULL;
  struct place p = w->item[n->slot].place, behind;
  if (!x || i->is_target || !i->is_stored || i->place.store >= 0) return false;
  p.offset = offset;
  for (const struct node *v = operand; v != x; v = v->in[0], p = behind)
    if (!place_behind(v, &p, &behind)) return false;
  if (!attention_stores_at(x, &p)) return false;
  i->place = p;
  i->into = n->slot;
  return true;
}

/* x is written where it stands in n; what is in n twice stands there once. */
static bool stands_in(const struct work *w, const struct node *x, const struct node *n, int64_t offset) {
  const struct node *result = loop_result(x);
  if (!result) result = attention_result(w, x);
  const struct item *i = &w->item[(result ? result : x)->slot];
  return i->into == n->slot && i->place.offset == offset;
}

static void stand_in_concat(struct work *w, const struct node *n) {
  const struct place *p = &w->item[n->slot].place;
  int axis = ((const struct axis_attr *)n->attr)->axis;
  int64_t at = 0;
  for (int k = 0; k < n->n_in; k++) {
    struct item *x = &w->item[n->in[k]->slot];
    int64_t offset = p->offset + at * p->stride[axis];
    if (!stand_in_rows(w, n, n->in[k], at) && !stand_in_parts(w, n, n->in[k], offset) && may_stand_in(w, n->in[k])) {
      x->place = *p;
      x->place.offset = offset;
      x->into = n->slot;
    }
    at += n->in[k]->dims[axis];
  }
}

static void stand_in_pair(struct work *w, const struct node *n) {
  for (int k = 0; k < 2; k++) {
    struct item *x = &w->item[n->in[k]->slot];
    if (!may_stand_in(w, n->in[k])) continue;
    place_part(&w->item[n->slot].place, n->rank, k, &x->place);
    x->into = n->slot;
  }
}

void put_place(const struct node *n, const struct place *whole, struct place *part) {
  const struct put_attr *a = n->attr;
  *part = *whole;
  for (int k = 0; k < n->rank; k++) {
    if (node_count(n->in[1])) part->offset += a->start[k] * whole->stride[k];
    part->stride[k] *= a->step[k];
  }
}

/* v goes straight into the copy of x, if x is there before the kernel of v runs. */
static void stand_in_put(struct work *w, const struct node *n) {
  struct item *v = &w->item[n->in[1]->slot], *x = &w->item[edge_of(n->in[0]).base->slot];
  if (!may_stand_in(w, n->in[1]) || v->group < 0) return;
  int ready = x->group >= 0 ? w->group[x->group].level + 1 : x->ready_level;
  if (ready > w->group[v->group].level) return;
  put_place(n, &w->item[n->slot].place, &v->place);
  v->into = n->slot;
}

/* What nobody else wants stands where its updates go. */
static void stand_in_scatter(struct work *w, const struct node *n) {
  struct item *x = &w->item[n->in[0]->slot];
  if (!may_be_updated(w, n->in[0])) return;
  x->place = w->item[n->slot].place;
  x->into = n->slot;
}

/* What is surrounded by a number is stored within it. */
static void stand_in_pad(struct work *w, const struct node *n) {
  struct item *x = &w->item[n->in[0]->slot];
  if (!pad_is_in_parts(w, n) || !may_stand_in(w, n->in[0])) return;
  pad_inside(n, &w->item[n->slot].place, &x->place);
  x->into = n->slot;
}

static bool place_all(struct work *w) {
  for (int i = w->list->n - 1; i >= 0; i--) {
    struct item *x = &w->item[i];
    if (x->node->op == &op_value && !place_leaf(w, x)) return false;
    if (x->node->op->kind == OP_LEAF || !x->is_stored || facts_of(x->node)->is_several) continue;
    if (x->place.store < 0) {
      int s = store_new(w, node_count(x->node) * (int64_t)weft_dtype_bytes((weft_dtype)x->node->dtype));
      if (s < 0) return false;
      place_dense(x->node, s, &x->place);
    }
    if (x->node->op == &op_concat) stand_in_concat(w, x->node);
    if (x->node->op == &op_pair) stand_in_pair(w, x->node);
    if (x->node->op == &op_put) stand_in_put(w, x->node);
    if (x->node->op == &op_scatter) stand_in_scatter(w, x->node);
    if (x->node->op == &op_pad) stand_in_pad(w, x->node);
  }
  for (int t = 0; t < w->n_targets; t++) {
    struct item *x = &w->item[edge_of(w->target[t]).base->slot];
    if (x->place.store >= 0 && w->out->store[x->place.store].leaf < 0) w->out->store[x->place.store].is_output = true;
  }
  return true;
}

/* ---- steps ---- */

static bool copy_operand(struct work *w, const struct node *x, const struct place *to) {
  struct place from;
  return place_needed(w, x, &from) && step_copy(w, (weft_dtype)x->dtype, x->rank, x->dims, &from, to);
}

/* Of a device, whose threads write neighbours: operands of one element along the last axis, none of which is there already. */
static bool emit_woven(struct work *w, struct node *n, bool *is_done) {
  struct place from[WOVEN_MOST], to = w->item[n->slot].place;
  int axis = ((const struct axis_attr *)n->attr)->axis;
  *is_done = false;
  if (!work_is_for_device(w) || n->n_in > WOVEN_MOST || to.stride[axis] != 1) return true;
  for (int k = 0; k < n->n_in; k++) {
    if (n->in[k]->dims[axis] != 1 || stands_in(w, n->in[k], n, to.offset + k)) return true;
    if (!place_needed(w, n->in[k], &from[k])) return false;
    from[k].stride[axis] = 0; /* of one element, and as good as any other */
  }
  *is_done = places_weave(n->rank, n->in[0]->dims, n->n_in, from, &to);
  return !*is_done || step_weave(w, (weft_dtype)n->dtype, n->rank, n->in[0]->dims, n->n_in, from, &to);
}

static bool emit_concat(struct work *w, struct node *n) {
  bool is_done;
  if (!emit_woven(w, n, &is_done)) return false;
  if (is_done) return true;
  struct place to = w->item[n->slot].place;
  int axis = ((const struct axis_attr *)n->attr)->axis;
  for (int k = 0; k < n->n_in; k++) {
    if (!stands_in(w, n->in[k], n, to.offset) && !copy_operand(w, n->in[k], &to)) return false;
    to.offset += n->in[k]->dims[axis] * to.stride[axis];
  }
  return true;
}

static bool emit_pair(struct work *w, struct node *n) {
  for (int k = 0; k < 2; k++) {
    struct place to;
    place_part(&w->item[n->slot].place, n->rank, k, &to);
    if (w->item[n->in[k]->slot].into != n->slot && !copy_operand(w, n->in[k], &to)) return false;
  }
  return true;
}

static bool emit_put(struct work *w, struct node *n) {
  struct place part;
  if (w->item[n->in[1]->slot].into == n->slot) return true; /* the kernel of v has written it */
  put_place(n, &w->item[n->slot].place, &part);
  return copy_operand(w, n->in[0], &w->item[n->slot].place) && copy_operand(w, n->in[1], &part);
}

static bool emit_scatter(struct work *w, struct node *n) {
  bool is_there = w->item[n->in[0]->slot].into == n->slot;
  return (is_there || copy_operand(w, n->in[0], &w->item[n->slot].place)) && step_scatter(w, n);
}

static bool emit_own(struct work *w, struct node *n) {
  switch (n->op->kind) {
    case OP_CONCAT: return emit_concat(w, n);
    case OP_PAIR: return emit_pair(w, n);
    case OP_PUT: return emit_put(w, n);
    case OP_SCATTER: return emit_scatter(w, n);
    case OP_PREFIX: return step_prefix(w, n);
    case OP_LOOP: return step_loop(w, n);
    case OP_LIBRARY:
      if (n->op == &op_problems) return step_problems(w, n);
      return n->op->library ? step_of_library(w, n) : step_attention(w, n);
    case OP_ITEM: return true; /* what it is a result of has stored it */
    case OP_LEAF: case OP_ELEMENT: case OP_IOTA: case OP_SIZE: case OP_REDUCE: case OP_VIEW: case OP_TAKE: case OP_CONTRACT:
    case OP_PAD: case OP_IDENTITY: case OP_CALL: case OP_LATER: break;
  }
  return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_%s: cannot be scheduled", n->op->name));
}

/* Values of the group that stand in an updated array: what they are put into must be there first. */
static bool before_group(struct work *w, struct group *g) {
  for (int i = 0; i < g->n_items; i++) {
    struct item *x = &w->item[g->item[i]];
    struct node *n = x->into >= 0 ? w->list->node[x->into] : NULL;
    if (n && n->op == &op_put && !copy_operand(w, n->in[0], &w->item[n->slot].place)) return false;
  }
  return true;
}

/* What runs as part of the group comes just before it; a group that feeds it is fed by none. */
static bool emit_group(struct work *w, struct group *g) {
  if (!before_group(w, g) || (g->fed_by >= 0 && !emit_group(w, &w->group[g->fed_by]))) return false;
  for (int k = 0; k < 2; k++)
    if (g->made_by[k] >= 0 && !step_group(w, &w->group[g->made_by[k]])) return false;
  const struct node *only = g->n_items == 1 ? w->list->node[g->item[0]] : NULL;
  return only && pad_is_in_parts(w, only) ? step_pad(w, only) : step_group(w, g);
}

struct unit { int level, group; struct node *node; int next; };

/* Whose line the steps of a unit are: nodes that rules have made have none. */
static uint64_t origin_of(const struct work *w, const struct unit *u) {
  const struct group *g = u->node ? NULL : &w->group[u->group];
  uint64_t origin = u->node ? u->node->origin : 0;
  for (int i = 0, last = -1; g && i < g->n_items; i++) {
    const struct node *n = w->list->node[g->item[i]];
    if (n->origin && g->item[i] > last) last = g->item[i], origin = n->origin;
  }
  return origin;
}

/* Groups and steps of their own in the order of their levels. */
static bool emit_all(struct work *w) {
  int n = 0, room = w->n_groups + w->list->n, top = 0;
  struct unit *u = work_take(w, sizeof *u * (size_t)(room + 1));
  if (!u) return false;
  for (int g = 0; g < w->n_groups; g++)
    if (!w->group[g].is_dead) u[n++] = (struct unit){ w->group[g].level, g, NULL, -1 };
  for (int i = 0; i < w->list->n; i++)
    if (w->item[i].group < 0 && w->item[i].is_stored && w->item[i].ready_level)
      u[n++] = (struct unit){ w->item[i].ready_level - 1, -1, w->list->node[i], -1 };
  for (int i = 0; i < n; i++) if (u[i].level > top) top = u[i].level;
  int *first = work_take(w, sizeof *first * (size_t)(top + 1)), *last = work_take(w, sizeof *last * (size_t)(top + 1));
  if (!first || !last) return false;
  for (int l = 0; l <= top; l++) first[l] = last[l] = -1;
  for (int i = 0; i < n; i++) {
    if (last[u[i].level] >= 0) u[last[u[i].level]].next = i;
    else first[u[i].level] = i;
    last[u[i].level] = i;
  }
  for (int l = 0; l <= top; l++)
    for (int i = first[l]; i >= 0; i = u[i].next) {
      struct group *g = u[i].node ? NULL : &w->group[u[i].group];
      if (g && (g->feeds || g->maker)) continue;
      w->origin = origin_of(w, &u[i]);
      if (!(g ? emit_group(w, g) : emit_own(w, u[i].node))) return false;
    }
  return true;
}

static bool find_outputs(struct work *w) {
  for (int t = 0; t < w->n_targets; t++) {
    const struct node *s = scalar_of(w->target[t]);
    struct output *o = &w->out->output[t];
    o->is_number = s != NULL;
    if (s) o->bits = scalar_bits(s, (weft_dtype)w->target[t]->dtype);
    else if (!place_needed(w, w->target[t], &o->place)) return false;
    else w->out->store[o->place.store].target = t;
  }
  return true;
}

void schedule_drop_kernels(struct schedule *s) {
  for (int i = 0; s && i < s->n_steps; i++) {
    struct step *p = &s->step[i];
    if (p->kind->drop) p->kind->drop(p);
  }
}

/* Nodes of a group: on a device a launch takes as long as some hundred operations on few elements. More take longer to compile than
 * they save: 256, a hundred sines among them, 1.1 s. */
enum { MOST_NODES = 64, MOST_NODES_THERE = 128 };

static bool take_items(struct work *w) {
  w->item = work_take(w, sizeof *w->item * (size_t)(w->list->n + 1));
  return w->item != NULL;
}

/* Nodes in groups; on a device what is read again may be made again. */
static bool group_all(struct work *w) {
  bool any = false;
  if (!group_nodes(w)) return false;
  if (!w->fuse || !work_is_for_device(w) || w->is_remade) return true;
  w->is_remade = true;
  if (!values_remake(w, &any)) return false;
  return !any || (nodes_order(w) && take_items(w) && group_nodes(w));
}

/* Groups as large as kernels allow; if one would need too many buffers, smaller ones, and if one cannot hand rows on, others. */
static bool fit(struct work *w) {
  for (w->most_nodes = work_is_for_device(w) ? MOST_NODES_THERE : MOST_NODES; w->most_nodes;) {
    bool kept_apart = w->keeps_columns_apart;
    w->is_crowded = false;
    w->out->n_stores = 0;
    for (int i = 0; i < w->n_leaves; i++) w->leaf_store[i] = -1;
    if (group_all(w) && place_all(w) && (chains_find(w), makers_find(w)) && emit_all(w)) return true;
    if (!w->is_crowded && kept_apart == w->keeps_columns_apart) return false;
    if (w->is_crowded) w->most_nodes /= 4;
    schedule_drop_kernels(w->out);
    w->out->n_steps = 0;
  }
  return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, 0, "weft_eval: an operation reads and writes too many arrays for one kernel"));
}

static bool make(struct work *w) {
  struct schedule *s = w->out = work_take(w, sizeof *s);
  w->leaf_store = work_take(w, sizeof *w->leaf_store * (size_t)(w->n_leaves + 1));
#ifdef WEFT_HARD
  graph_check(w->list);
#endif
  if (!s || !w->leaf_store || !prepare(w)) return false;
#ifdef WEFT_HARD
  graph_check(w->list);
#endif
  take_items(w);
  s->output = work_take(w, sizeof *s->output * (size_t)(w->n_targets + 1));
  s->n_leaves = w->n_leaves;
  s->n_targets = w->n_targets;
  if (w->no_memory) return false;
  if (!fit(w)) return false;
  if (w->by_library) contractions_to_library(s);
  if (w->is_loose) contractions_loosen(s);
  contractions_find_far(s);
  if (!find_outputs(w) || !memory_plan(w) || !gifts_find(w)) return false;
  abreast_find(s);
  costs_sum(s);
#ifdef WEFT_HARD
  schedule_check(w);
#endif
  return true;
}

struct schedule *schedule_make(struct arena *arena, struct node_list *list, int n_targets, struct node *const target[],
                               int n_leaves, const struct place leaf_place[], const struct schedule_options *o,
                               struct failure **failure) {
  struct work *w = arena_take(arena, sizeof *w);
  struct node **t = arena_take(arena, sizeof *t * (size_t)(n_targets + 1));
  *failure = NULL;
  if (!w || !t) return NULL;
  memcpy(t, target, sizeof *t * (size_t)n_targets);
  *w = (struct work){ .arena = arena, .list = list, .n_targets = n_targets, .target = t, .n_leaves = n_leaves,
                      .leaf_place = leaf_place, .fuse = o->fuse, .by_patches = o->by_patches, .by_library = o->by_library,
                      .is_loose = o->is_loose, .tf32 = o->tf32, .rewrites = o->rewrites, .device = o->device };
  if (make(w)) return w->out;
  schedule_drop_kernels(w->out);
  *failure = w->failure;
  return NULL;
}
