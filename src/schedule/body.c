/* body.c -- the body of a loop as part of a kernel: see body.h. */
#include "schedule/body.h"
#include <string.h>
#include "graph/dtype.h"
#include "graph/subgraph.h"
#include "rewrite/rewrite.h"
#include "schedule/draft.h"

/* ---- the body as local nodes ---- */

int body_variables(const struct loop *l) { return l->n_seq + l->n_carry + l->n_const; }
static int n_bodies(const struct loop *l) { return l->n_carry + l->n_all + !!l->until; }

static struct node *var_of(const struct loop *l, int k) {
  if (k < l->n_seq) return l->seq_var[k];
  return k < l->n_seq + l->n_carry ? l->carry_var[k - l->n_seq] : l->const_var[k - l->n_seq - l->n_carry];
}

/* Variables become leaves numbered as the inputs of the loop are. Sizes that a loop outside has told are numbers here. */
static struct node *local_copy(struct body *b, const struct subgraph *g, int i, struct node *const made[]) {
  struct work *w = b->w;
  const struct node *n = g->node[i];
  dim dims[WEFT_RANK_MAX];
  int n_in = n->op->kind == OP_SIZE ? 0 : subgraph_arity(g, i);
  struct node **in = work_take(w, sizeof *in * (size_t)(n_in + 1));
  if (!in) return NULL;
  for (int k = 0; k < n_in; k++) in[k] = made[g->operand[g->first[i] + k]];
  const struct op *op = n->op == &op_loop_var ? &op_value : n->op;
  for (int k = 0; k < n->rank; k++) dims[k] = dim_resolve(n->dims[k]);
  struct node *x = node_local(w->arena, op, (weft_dtype)n->dtype, n->rank, dims, n_in, in, n->attr, n->attr_bytes);
  if (!x || (op->settle && !op->settle(x))) return w->no_memory = true, NULL;
  x->origin = n->origin;
  x->slot = i;
  for (int k = 0; n->op == &op_loop_var && k < body_variables(b->loop); k++)
    if (var_of(b->loop, k) == n) local_of(x)->leaf = k;
  return x;
}

static bool is_variable(const struct node *x, int first, int n) {
  return x->op == &op_value && local_of(x)->leaf >= first && local_of(x)->leaf < first + n;
}

static struct node *leaf_of(struct body *b, int variable, const struct node *like, int rank, const dim dims[]) {
  struct node *x = node_local(b->w->arena, &op_value, (weft_dtype)like->dtype, rank, dims, 0, NULL, NULL, 0);
  if (!x) return b->w->no_memory = true, NULL;
  local_of(x)->leaf = variable;
  return x;
}

/* x stands for the elements of a sequence, multiplied by its factor: it becomes their product. */
static bool multiply_elements(struct body *b, struct node *x) {
  const struct loop *l = b->loop;
  int k = local_of(x)->leaf, factor = l->n_seq + l->n_carry + l->factor[k];
  const struct node *rows = b->node->in[l->has_steps + k], *matrix = b->node->in[l->has_steps + factor];
  struct node *in[] = { leaf_of(b, k, rows, rows->rank - 1, rows->dims + 1), leaf_of(b, factor, matrix, 2, matrix->dims) };
  if (!in[0] || !in[1]) return false;
  struct node *y = node_local(b->w->arena, &op_matmul, (weft_dtype)x->dtype, x->rank, x->dims, 2, in, NULL, 0);
  if (!y) return !(b->w->no_memory = true);
  local_become(x, y);
  b->list.node[b->list.n++] = in[0], b->list.node[b->list.n++] = in[1], b->list.node[b->list.n++] = x;
  return true;
}

/* The list again, with the products of sequences that have a factor and what they are made of. */
static bool multiply_sequences(struct body *b) {
  struct node_list old = b->list;
  if (!b->loop->factor) return true;
  b->list = (struct node_list){ work_take(b->w, sizeof *old.node * (size_t)(3 * old.n + 1)), 0, 3 * old.n + 1 };
  bool ok = b->list.node != NULL;
  for (int i = 0; ok && i < old.n; i++) {
    struct node *x = old.node[i];
    if (is_variable(x, 0, b->loop->n_seq) && b->loop->factor[local_of(x)->leaf] >= 0) ok = multiply_elements(b, x);
    else b->list.node[b->list.n++] = x;
  }
  return ok;
}

bool body_nodes(struct body *b) {
  struct loop *l = b->loop;
  struct work *w = b->w;
  struct subgraph g;
  int n = n_bodies(l), m = body_variables(l);
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
    ok = (b->list.node[i] = local_copy(b, &g, i, b->list.node)) != NULL;
    b->list.n++;
  }
  b->list.room = b->list.n;
  for (int i = 0; ok && i < n; i++) b->target[i] = b->list.node[g.target[i]];
  subgraph_free(&g);
  struct failure *why = ok ? unsized_in(&b->list) : NULL;
  if (!why && ok) why = disagreement_in(&b->list);
  if (why) return work_fail(w, why);
  return ok && multiply_sequences(b) && (rewrite(w->arena, &b->list, n, b->target, w->rewrites) || !(w->no_memory = true));
}

/* ---- inputs and outputs ---- */

static void find_results(struct body *b) {
  const struct loop *l = b->loop;
  for (int i = 0; i < b->w->list->n; i++) {
    const struct node *n = b->w->list->node[i];
    if (n->op->kind != OP_ITEM || n->in[0] != b->node) continue;
    int k = ((const struct item_attr *)n->attr)->k;
    const struct place *p = &b->w->item[i].place;
    if (k < l->n_all) b->all[k] = p, b->rows = n->dims[0];
    else if (k < l->n_all + l->n_carry) b->last[k - l->n_all] = p;
    else b->length = p;
  }
}

static bool find_places(struct body *b) {
  struct work *w = b->w;
  const struct loop *l = b->loop;
  int m = body_variables(l);
  b->in = work_take(w, sizeof *b->in * (size_t)(m + 1));
  b->in_node = work_take(w, sizeof *b->in_node * (size_t)(m + 1));
  b->all = work_take(w, sizeof *b->all * (size_t)(l->n_all + 1));
  b->last = work_take(w, sizeof *b->last * (size_t)(l->n_carry + 1));
  if (w->no_memory) return false;
  for (int k = 0; k < m; k++) {
    b->in_node[k] = b->node->in[l->has_steps + k];
    if (scalar_of(b->in_node[k])) b->in[k].store = -1;
    else if (!place_needed(w, b->in_node[k], &b->in[k])) return false;
  }
  find_results(b);
  return true;
}

/* The axes of one element of a sequence. */
static void drop_time(struct place *p) { memmove(p->stride, p->stride + 1, sizeof *p->stride * (WEFT_RANK_MAX - 1)); }

static bool look_inside(struct body *b) {
  b->inside = (struct work){ .arena = b->w->arena, .list = &b->list };
  b->inside.item = work_take(b->w, sizeof *b->inside.item * (size_t)(b->list.n + 1));
  for (int i = 0; b->inside.item && i < b->list.n; i++) {
    const struct node *x = b->list.node[i];
    struct place *p = &b->inside.item[i].place;
    p->store = -1;
    if (x->op != &op_value) continue;
    *p = b->in[local_of(x)->leaf];
    if (local_of(x)->leaf < b->loop->n_seq) drop_time(p);
  }
  return b->inside.item != NULL;
}

/* A number of steps that only the run can tell: it may differ from step to step of a loop around. */
static bool find_count(struct body *b) {
  struct work *w = b->w;
  struct node *count = b->loop->has_steps ? b->node->in[0] : NULL;
  const struct node *number = count ? scalar_of(count) : NULL;
  b->steps = STEPS_AT_RUN;
  if (!count || b->loop->n_seq || b->loop->n_all)
    return work_fail(w, fail(WEFT_ERR_INTERNAL, b->node->origin, "weft_loop: the sizes of a loop inside are not known"));
  if (!number) return place_needed(w, count, &b->count);
  b->steps = (int64_t)dtype_decode((weft_dtype)number->dtype, scalar_bits(number, (weft_dtype)number->dtype));
  if (b->steps >= 0) return true;
  return work_fail(w, fail(WEFT_ERR_ARG, b->node->origin, "weft_loop_open: %lld steps", (long long)b->steps));
}

bool body_take(struct body *b, struct work *w, struct node *n) {
  *b = (struct body){ .w = w, .node = n, .loop = ((const struct loop_attr *)n->attr)->loop };
  b->steps = dim_resolve(b->loop->steps);
  if (!dim_is_known(b->steps) && !find_count(b)) return false;
  return body_nodes(b) && find_places(b) && look_inside(b);
}

/* ---- questions ---- */

bool body_is_carry(const struct body *b, const struct node *x) { return is_variable(x, b->loop->n_seq, b->loop->n_carry); }
bool body_is_constant(const struct body *b, const struct node *x) {
  return is_variable(x, b->loop->n_seq + b->loop->n_carry, b->loop->n_const);
}

const struct node *body_number(const struct body *b, const struct node *x) {
  const struct node *base = edge_of(x).base;
  if (base->op == &op_scalar) return base;
  return base->op == &op_value && !body_is_carry(b, base) ? scalar_of(b->in_node[local_of(base)->leaf]) : NULL;
}

bool body_reads(const struct body *b, const struct node *x) {
  const struct node *base = edge_of(x).base;
  return base->op == &op_value && !body_is_carry(b, base) && !body_number(b, x);
}

int body_count(const struct body *b, struct draft *d) {
  struct reach r = { .store = b->count.store, .offset = b->count.offset };
  return draft_buffer(d, "steps", KIR_IN, (weft_dtype)b->node->in[0]->dtype, &r);
}

/* A backward loop begins at the last element. */
static struct moving from_first_step(const struct body *b, struct place at, int64_t time) {
  if (!b->loop->is_backward) return (struct moving){ at, time };
  if (b->steps) at.offset += (b->steps - 1) * time;
  return (struct moving){ at, -time };
}

bool body_place(struct body *b, const struct node *x, struct moving *out) {
  const struct node *base = edge_of(x).base;
  struct place p;
  if (!place_of(&b->inside, x, &p)) return b->w->no_memory |= b->inside.no_memory, false;
  bool is_element = is_variable(base, 0, b->loop->n_seq);
  *out = is_element ? from_first_step(b, p, b->in[local_of(base)->leaf].stride[0]) : (struct moving){ p, 0 };
  return true;
}

struct moving body_stack(const struct body *b, const struct place *stacked) {
  struct place p = *stacked;
  drop_time(&p);
  return from_first_step(b, p, stacked->stride[0]);
}
