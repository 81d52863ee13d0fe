/* loop_step.c -- loops: one kernel with the time loop inside where the body allows (scan.c, loop_rows.c, small.c), else a
 * replay of the body's own schedule, step by step. */
#include <math.h>
#include <string.h>
#include "op/loop.h"
#include "schedule/body.h"

enum { SPARE_BYTES = 64 }; /* for what until says */

/* Every target in dense memory of its own. */
static bool separate_targets(struct body *b) {
  for (int i = 0; i < b->n_targets; i++) {
    struct node *x = b->target[i];
    bool is_own = x->op->kind != OP_VIEW && x->op->kind != OP_LEAF && x->op->kind != OP_ITEM;
    for (int j = 0; j < i; j++) is_own &= b->target[j] != x;
    if (is_own) continue;
    struct node *copy = node_local(b->w->arena, &op_cast, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, NULL, 0);
    if (!copy) return !(b->w->no_memory = true);
    local_of(copy)->is_alone = true;
    copy->slot = -1;
    b->target[i] = copy;
  }
  return true;
}

static struct binding binding_of(struct moving m) { 
  return (struct binding){ .store = m.at.store, .offset = m.at.offset, .stride = { m.time } };
}
static struct binding still(const struct place *p) { /* NULL: not wanted */
  return p ? (struct binding){ .store = p->store, .offset = p->offset } : (struct binding){ .store = -1 };
}

/* Inputs that are numbers, in memory. */
static bool store_numbers(struct body *b) {
  for (int k = 0; k < body_variables(b->loop); k++) {
    struct node *x = b->in_node[k];
    if (b->in[k].store >= 0) continue;
    place_dense(x, store_new(b->w, node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype)), &b->in[k]);
    if (b->w->no_memory || !step_number(b->w, scalar_of(x), (weft_dtype)x->dtype, node_count(x), b->in[k].store)) return false;
  }
  return true;
}

/* Where one element of a sequence, a carry or a constant stands for the body. */
static struct place *leaf_places(struct body *b) {
  const struct loop *l = b->loop;
  struct place *leaf = work_take(b->w, sizeof *leaf * (size_t)(body_variables(l) + 1));
  for (int k = 0; leaf && k < body_variables(l); k++) {
    const struct node *x = b->in_node[k];
    int skip = k < l->n_seq;
    if (k >= l->n_seq && k < l->n_seq + l->n_carry) place_dense(x, 0, &leaf[k]);
    else memcpy(leaf[k].stride, b->in[k].stride + skip, sizeof *leaf[k].stride * (size_t)(x->rank - skip));
  }
  return leaf;
}

static struct replay *replay_new(struct body *b) {
  struct work *w = b->w;
  const struct loop *l = b->loop;
  int m = body_variables(l);
  struct replay *r = work_take(w, sizeof *r);
  if (!r) return NULL;
  *r = (struct replay){ .n_seq = l->n_seq, .n_carry = l->n_carry, .n_const = l->n_const, .n_all = l->n_all,
                        .has_until = l->until != NULL, .is_branch = l->is_branch, .is_backward = l->is_backward,
                        .steps = b->steps };
  r->in = work_take(w, sizeof *r->in * (size_t)(m + 1));
  r->leaf_size = work_take(w, sizeof *r->leaf_size * (size_t)(m + 1));
  r->all = work_take(w, sizeof *r->all * (size_t)(l->n_all + 1));
  r->all_size = work_take(w, sizeof *r->all_size * (size_t)(l->n_all + 1));
  r->last = work_take(w, sizeof *r->last * (size_t)(l->n_carry + 1));
  r->carry_bytes = work_take(w, sizeof *r->carry_bytes * (size_t)(l->n_carry + 1));
  r->ping = work_take(w, sizeof *r->ping * (size_t)(2 * l->n_carry + 1));
  return w->no_memory ? NULL : r;
}

/* Leaves of the body; sequences move. */
static void bind_inputs(struct body *b, struct replay *r) {
  for (int k = 0; k < body_variables(b->loop); k++) {
    r->in[k] = k < r->n_seq ? binding_of(body_stack(b, &b->in[k])) : still(&b->in[k]);
    r->leaf_size[k] = (int64_t)weft_dtype_bytes((weft_dtype)b->in_node[k]->dtype);
  }
}

/* Stacked outputs; those nobody wants stand in memory of the plan, over and over again. */
static void bind_stacks(struct body *b, struct replay *r) {
  for (int k = 0; k < r->n_all; k++) {
    const struct store *s = &r->body->store[r->body->output[r->n_carry + k].place.store];
    r->all_size[k] = (int64_t)weft_dtype_bytes((weft_dtype)b->loop->all[k]->dtype);
    if (b->all[k]) r->all[k] = binding_of(body_stack(b, b->all[k]));
    else r->all[k] = (struct binding){ .store = store_new(b->w, s->bytes) };
  }
}

/* The first of the two stores of a carry begins as a copy of the initial value. */
static bool bind_carries(struct body *b, struct replay *r) {
  struct work *w = b->w;
  for (int k = 0; k < r->n_carry; k++) {
    int v = r->n_seq + k;
    const struct node *x = b->in_node[v];
    struct place dense;
    r->carry_bytes[k] = node_count(x) * r->leaf_size[v];
    r->last[k] = still(b->last[k]);
    for (int side = 0; side < 2; side++) r->ping[2 * k + side] = store_new(w, r->carry_bytes[k]);
    place_dense(x, r->ping[2 * k], &dense);
    if (w->no_memory || !step_copy(w, (weft_dtype)x->dtype, x->rank, x->dims, &b->in[v], &dense)) return false;
  }
  return true;
}

static bool bind_all(struct body *b, struct replay *r) {
  bind_inputs(b, r);
  bind_stacks(b, r);
  r->length = still(b->length);
  r->count = still(b->steps == STEPS_AT_RUN ? &b->count : NULL);
  r->count_dtype = r->count.store >= 0 ? (weft_dtype)b->node->in[0]->dtype : WEFT_I64;
  r->body_block = store_new(b->w, r->body->block_bytes);
  r->spare = store_new(b->w, SPARE_BYTES);
  return !b->w->no_memory && bind_carries(b, r);
}

/* Steps of the host in a body keep all of it there: products by patches then, whatever the plan is for. */
static bool stays_on_host(const struct body *b) {
  for (int i = 0; i < b->list.n; i++) {
    const struct op *op = b->list.node[i]->op;
    if (op->kind == OP_LIBRARY && op->library->is_callers) return true;
  }
  return false;
}

static bool replay(struct body *b) {
  struct work *w = b->w;
  struct failure *f = NULL;
  if (!separate_targets(b) || !store_numbers(b)) return false;
  struct place *leaf = leaf_places(b);
  struct replay *r = leaf ? replay_new(b) : NULL;
  if (!r) return false;
  bool by_patches = w->by_patches || stays_on_host(b), is_loose = w->is_loose && (w->by_patches || !by_patches),
       tf32 = w->tf32 && !by_patches;
  r->body = schedule_make(w->arena, &b->list, b->n_targets, b->target, body_variables(b->loop), leaf,
                          &(struct schedule_options){ w->fuse, by_patches, w->by_library, is_loose, tf32, w->rewrites,
                                                     by_patches ? NULL : w->device }, &f);
  if (!r->body) return f ? work_fail(w, f) : !(w->no_memory = true);
  struct step *s = bind_all(b, r) ? step_new(w, &step_replay) : NULL;
  if (!s) return schedule_drop_kernels(r->body), false;
  s->replay = r;
  return true;
}

/* All of the body in every step there may be; nobody can say how many a run will tell. */
static void account(struct body *b) {
  double points = 0, bytes = 0, steps = b->steps == STEPS_AT_RUN ? INFINITY : (double)b->steps;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (n->op->kind != OP_LEAF && n->op->kind != OP_VIEW) points += (double)node_count(n);
    if (n->op->kind == OP_LEAF) bytes += (double)node_count(n) * (double)weft_dtype_bytes((weft_dtype)n->dtype);
  }
  step_add_cost(b->w, steps * bytes, steps * points, 1);
}

bool step_loop(struct work *w, struct node *n) {
  struct body *b = work_take(w, sizeof *b);
  if (!b || !body_take(b, w, n)) return false;
  for (int i = 0; i < b->list.n; i++)
    if (facts_of(b->list.node[i])->is_gone)
      return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_loop: %s inside a loop", b->list.node[i]->op->name));
  bool done = false;
  bool may_fuse = w->fuse && (b->steps != STEPS_AT_RUN || (!b->loop->is_branch && loop_runs_blind(b->loop, n->in[0])));
  if (may_fuse && !scan(b, &done)) return false;
  if (may_fuse && !done && !scan_rows(b, &done)) return false;
  if (may_fuse && !done && !scan_small(b, &done)) return false;
  if (!done && !replay(b)) return false;
  account(b);
  return true;
}
