/* loop.c -- loops: the body brought into the plan's arena, then one kernel with the time loop inside where the body allows
 * (scan.c, rows.c), else a replay of the body's own schedule, step by step. */
#include "schedule/loop.h"
#include <string.h>
#include "graph/subgraph.h"
#include "rewrite/rewrite.h"

/* ---- the body as local nodes ---- */

static int n_vars(const struct loop *l) { return l->n_seq + l->n_carry + l->n_const; }
static int n_bodies(const struct loop *l) { return l->n_carry + l->n_all + !!l->until; }

static struct node *var_of(const struct loop *l, int k) {
  if (k < l->n_seq) return l->seq_var[k];
  return k < l->n_seq + l->n_carry ? l->carry_var[k - l->n_seq] : l->const_var[k - l->n_seq - l->n_carry];
}

/* Variables become leaves numbered as the inputs of the loop are; numbers become leaves with their pattern beside. */
static struct node *local_of(struct body *b, const struct subgraph *g, int i, struct node *const made[]) {
  struct work *w = b->w;
  const struct node *n = g->node[i];
  int n_in = n->op->kind == OP_SIZE ? 0 : subgraph_arity(g, i);
  struct node **in = work_take(w, sizeof *in * (size_t)(n_in + 1));
  if (!in) return NULL;
  for (int k = 0; k < n_in; k++) in[k] = made[g->operand[g->first[i] + k]];
  const struct op *op = n->op == &op_loop_var ? &op_value : n->op;
  struct node *x = node_local(w->arena, op, (weft_dtype)n->dtype, n->rank, n->dims, n_in, in, n->attr, n->attr_bytes);
  if (!x) return w->no_memory = true, NULL;
  x->origin = n->origin;
  x->slot = i;
  if (n->op == &op_scalar) x->serial = MADE_SCALAR;
  for (int k = 0; n->op == &op_loop_var && k < n_vars(b->loop); k++)
    if (var_of(b->loop, k) == n) x->serial = (uint64_t)k;
  return x;
}

static bool is_scheduled(const struct node *n) { return n->op->kind != OP_LOOP && n->op->kind != OP_CALL && n->op->kind != OP_IDENTITY; }

static bool take_body(struct body *b) {
  struct loop *l = b->loop;
  struct work *w = b->w;
  struct subgraph g;
  int n = n_bodies(l), m = n_vars(l);
  struct node **target = work_take(w, sizeof *target * (size_t)(n + 1)), **wall = work_take(w, sizeof *wall * (size_t)(m + 1));
  if (!target || !wall) return false;
  for (int k = 0; k < l->n_carry; k++) target[k] = l->next[k];
  for (int k = 0; k < l->n_all; k++) target[l->n_carry + k] = l->all[k];
  if (l->until) target[n - 1] = l->until;
  for (int k = 0; k < m; k++) wall[k] = var_of(l, k);
  if (!subgraph_take(&g, n, target, m, wall, 0)) return !(w->no_memory = true);
  b->list.node = work_take(w, sizeof *b->list.node * (size_t)(g.n + 1));
  b->target = work_take(w, sizeof *b->target * (size_t)(n + 1));
  b->n_targets = n;
  bool ok = b->list.node && b->target;
  for (int i = 0; ok && i < g.n; i++) {
    ok = (b->list.node[i] = local_of(b, &g, i, b->list.node)) != NULL;
    b->list.n++;
  }
  b->list.room = b->list.n;
  for (int i = 0; ok && i < n; i++) b->target[i] = b->list.node[g.target[i]];
  subgraph_free(&g);
  return ok && (rewrite(w->arena, &b->list, n, b->target, false) || !(w->no_memory = true));
}

/* ---- inputs and outputs ---- */

static bool find_places(struct body *b) {
  struct work *w = b->w;
  const struct loop *l = b->loop;
  int m = n_vars(l);
  b->in = work_take(w, sizeof *b->in * (size_t)(m + 1));
  b->in_node = work_take(w, sizeof *b->in_node * (size_t)(m + 1));
  b->all = work_take(w, sizeof *b->all * (size_t)(l->n_all + 1));
  b->last = work_take(w, sizeof *b->last * (size_t)(l->n_carry + 1));
  if (w->no_memory) return false;
  for (int k = 0; k < m; k++) {
    b->in_node[k] = b->node->in[l->has_steps + k];
    if (scalar_of(b->in_node[k])) b->in[k].store = -1;
    else if (!place_of(w, b->in_node[k], &b->in[k])) return work_fail(w, fail(WEFT_ERR_INTERNAL, b->node->origin, "weft_loop: an input has no place"));
  }
  for (int k = 0; k < l->n_all; k++) b->all[k] = NULL;
  for (int k = 0; k < l->n_carry; k++) b->last[k] = NULL;
  for (int i = 0; i < w->list->n; i++) {
    struct node *n = w->list->node[i];
    if (n->op->kind != OP_ITEM || n->in[0] != b->node) continue;
    int k = ((const struct item_attr *)n->attr)->k;
    const struct place *p = &w->item[i].place;
    if (k < l->n_all) b->all[k] = p;
    else if (k < l->n_all + l->n_carry) b->last[k - l->n_all] = p;
    else b->length = p;
  }
  return true;
}

/* ---- replay ---- */

/* Every target in dense memory of its own. */
static bool separate_targets(struct body *b) {
  for (int i = 0; i < b->n_targets; i++) {
    struct node *x = b->target[i];
    bool is_own = x->op->kind != OP_VIEW && x->op->kind != OP_LEAF && x->op->kind != OP_ITEM;
    for (int j = 0; j < i; j++) is_own &= b->target[j] != x;
    if (is_own) continue;
    struct node *copy = node_local(b->w->arena, &op_cast, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, NULL, 0);
    if (!copy) return !(b->w->no_memory = true);
    copy->is_marked = true;
    copy->slot = -1;
    b->target[i] = copy;
  }
  return true;
}

static struct binding binding_of(const struct place *p, int64_t row) {
  return p ? (struct binding){ p->store, p->offset, { row } } : (struct binding){ .store = -1 };
}

/* Inputs that are numbers, in memory. */
static bool store_numbers(struct body *b) {
  for (int k = 0; k < n_vars(b->loop); k++) {
    struct node *x = b->in_node[k];
    if (b->in[k].store >= 0) continue;
    place_dense(x, store_new(b->w, node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype)), &b->in[k]);
    if (b->w->no_memory || !step_number(b->w, scalar_of(x), (weft_dtype)x->dtype, node_count(x), b->in[k].store)) return false;
  }
  return true;
}

static bool replay(struct body *b) {
  struct work *w = b->w;
  const struct loop *l = b->loop;
  int m = n_vars(l);
  struct place *leaf = work_take(w, sizeof *leaf * (size_t)(m + 1));
  struct replay *r = work_take(w, sizeof *r);
  if (!leaf || !r || !separate_targets(b) || !store_numbers(b)) return false;
  for (int k = 0; k < m; k++) { /* one element of a sequence; carries are dense */
    const struct node *x = b->in_node[k];
    int skip = k < l->n_seq;
    if (k >= l->n_seq && k < l->n_seq + l->n_carry) place_dense(x, 0, &leaf[k]);
    else memcpy(leaf[k].stride, b->in[k].stride + skip, sizeof *leaf[k].stride * (size_t)(x->rank - skip));
  }
  struct failure *f;
  r->body = schedule_make(w->arena, &b->list, b->n_targets, b->target, m, leaf, NULL, w->fuse, &f);
  if (!r->body) return f ? work_fail(w, f) : !(w->no_memory = true);
  r->n_seq = l->n_seq, r->n_carry = l->n_carry, r->n_const = l->n_const, r->n_all = l->n_all;
  r->has_until = l->until != NULL;
  r->steps = b->steps;
  r->in = work_take(w, sizeof *r->in * (size_t)(m + 1));
  r->carry_bytes = work_take(w, sizeof *r->carry_bytes * (size_t)(l->n_carry + 1));
  r->all = work_take(w, sizeof *r->all * (size_t)(l->n_all + 1));
  r->last = work_take(w, sizeof *r->last * (size_t)(l->n_carry + 1));
  r->ping = work_take(w, sizeof *r->ping * (size_t)(2 * l->n_carry + 1));
  r->leaf_size = work_take(w, sizeof *r->leaf_size * (size_t)(m + 1));
  r->all_size = work_take(w, sizeof *r->all_size * (size_t)(l->n_all + 1));
  if (w->no_memory) return false;
  for (int k = 0; k < m; k++) {
    r->in[k] = binding_of(&b->in[k], k < l->n_seq ? b->in[k].stride[0] : 0);
    r->leaf_size[k] = (int64_t)weft_dtype_bytes((weft_dtype)b->in_node[k]->dtype);
    if (k < l->n_seq && l->is_backward) r->in[k].offset += (b->steps - 1) * r->in[k].stride[0], r->in[k].stride[0] *= -1;
  }
  for (int k = 0; k < l->n_all; k++) {
    struct binding *a = &r->all[k];
    *a = binding_of(b->all[k], b->all[k] ? b->all[k]->stride[0] : 0);
    r->all_size[k] = (int64_t)weft_dtype_bytes((weft_dtype)l->all[k]->dtype);
    if (a->store >= 0 && l->is_backward) a->offset += (b->steps - 1) * a->stride[0], a->stride[0] *= -1;
  }
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->in_node[l->n_seq + k];
    r->carry_bytes[k] = node_count(x) * r->leaf_size[l->n_seq + k];
    r->last[k] = binding_of(b->last[k], 0);
    for (int side = 0; side < 2; side++) r->ping[2 * k + side] = store_new(w, r->carry_bytes[k]);
    if (w->no_memory) return false;
    struct place dense; /* the first carry is a copy of the initial value */
    place_dense(x, r->ping[2 * k], &dense);
    if (!step_copy(w, (weft_dtype)x->dtype, x->rank, x->dims, &b->in[l->n_seq + k], &dense)) return false;
  }
  r->length = binding_of(b->length, 0);
  r->body_block = store_new(w, r->body->block_bytes);
  r->spare = store_new(w, 64);
  for (int i = 0; i < r->body->n_targets; i++) { /* outputs nobody wants stand in memory of the plan */
    bool is_all = i >= l->n_carry && i < l->n_carry + l->n_all;
    if (is_all && r->all[i - l->n_carry].store < 0) {
      struct store *s = &r->body->store[r->body->output[i].place.store];
      r->all[i - l->n_carry] = (struct binding){ .store = store_new(w, s->bytes) };
    }
  }
  struct step *s = w->no_memory ? NULL : step_new(w);
  if (!s) return false;
  s->replay = r;
  return true;
}

bool step_loop(struct work *w, struct node *n) {
  struct body *b = work_take(w, sizeof *b);
  if (!b) return false;
  b->w = w;
  b->node = n;
  b->loop = ((const struct loop_attr *)n->attr)->loop;
  b->steps = dim_resolve(b->loop->steps);
  if (!dim_is_known(b->steps)) return work_fail(w, fail(WEFT_ERR_INTERNAL, n->origin, "weft_loop: the number of steps is not known"));
  if (!take_body(b) || !find_places(b)) return false;
  for (int i = 0; i < b->list.n; i++)
    if (!is_scheduled(b->list.node[i]) && b->list.node[i]->op->kind != OP_LOOP)
      return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_loop: %s inside a loop", b->list.node[i]->op->name));
  bool done = false;
  if (w->fuse && !scan(b, &done)) return false;
  if (w->fuse && !done && !scan_rows(b, &done)) return false;
  return done || replay(b);
}
