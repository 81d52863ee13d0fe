/* emit_values.c -- values of a kernel: what a part is at one place of the nest, written with the builder of KIR, and where it is
 * stored. */
#include <string.h>
#include "schedule/emit.h"

static int scalar_value(struct emit *e, const struct node *x) { return draft_number(&e->d, scalar_of(x)); }

static void subscripts(struct emit *e, const int64_t stride[], int rank, struct kir_lin at[]) {
  axes_subscripts(&e->axes, &e->d, stride, rank, at);
}

int emit_load(struct emit *e, struct emit_access *a) {
  struct kir_lin at[2 * AXES];
  subscripts(e, a->stride, 0, at);
  return kir_load(&e->d.b, a->buf, at);
}

int emit_in_value(struct emit *e, struct part *p, int k) {
  struct operand_source s = p->in[k];
  if (s.from == FROM_SCALAR) return scalar_value(e, p->node->in[k]);
  if (s.from == FROM_PART) return e->part[s.i].value;
  struct emit_access *a = &e->access[s.i];
  if (a->value < 0) a->value = emit_load(e, a);
  return a->value;
}

/* Where a cell or a piece begins along an axis. */
static int axis_first(struct emit *e, int axis) {
  if (e->first[axis] < 0) {
    e->start[axis] = e->d.n_sizes;
    e->first[axis] = draft_sized(&e->d, "at", axis, 0);
  }
  return e->first[axis];
}

/* The index along an axis: of a cell or a piece, from where that begins. */
static int axis_value(struct emit *e, int axis) {
  if (axis < 0) return kir_lit_int(e->d.k, WEFT_I64, 0);
  return e->start ? kir_op2(&e->d.b, KIR_ADD, e->axes.var[axis], axis_first(e, axis)) : e->axes.var[axis];
}

/* The same as part of a subscript. */
static struct kir_lin axis_lin(struct emit *e, int axis) {
  struct kir_lin l = emit_lin(e, e->axes.var[axis]);
  return e->start ? kir_lin_add(e->d.k, l, emit_lin(e, axis_first(e, axis))) : l;
}

static enum take_by by_of(const struct node *n) {
  return n->op == &op_scatter ? ((const struct scatter_attr *)n->attr)->by : ((const struct take_attr *)n->attr)->by;
}

const char *indices_typed(const struct node *n) {
  static const char *const typed[] = { [BY_TAKE] = "weft_take", [BY_AT] = "weft_at", [BY_WINDOW] = "weft_window",
                                       [BY_ALONG] = "weft_take_along", [BY_STRIDES] = "weft_as_strided",
                                       [BY_PAD] = "weft_pad_with", [BY_CHOICE] = "weft_random_choice",
                                       [BY_GATHER_MM] = "weft_gather_mm", [BY_GATHER_QMM] = "weft_gather_qmm",
                                       [BY_PUT] = "weft_put" };
  if (n->op == &op_assert) return assert_text(n);
  return typed[by_of(n)];
}

bool indices_are_window(const struct node *n) { return n->op != &op_assert && by_of(n) == BY_WINDOW; }

/* The place of an index among all of a take, counted through row by row. Along an axis on which all are the same, the first. */
static struct kir_lin place_of_index(struct emit *e, struct part *p, int n_index) {
  struct node *n = p->node;
  struct kir_lin at = { 0 };
  int64_t apart = 1;
  for (int k = n->rank - (n->in[0]->rank - n_index) - 1; k >= 0; apart *= n->dims[k--]) {
    int axis = emit_axis_at(p, k);
    if (axis < 0 || (axis == e->inner && !p->is_inner)) continue;
    struct kir_lin i = axis_lin(e, axis);
    if (apart > 1) i = kir_lin_mul(e->d.k, i, emit_lin(e, draft_sized(&e->d, "P", e->d.n_sizes, apart)));
    at = kir_lin_add(e->d.k, at, i);
  }
  return at;
}

/* x[i, j, .. rest]: negative indices count from the end, others must be in range. */
static int emit_take(struct emit *e, struct part *p) {
  struct node *n = p->node;
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin at[2 * AXES];
  bool is_told = n->op == &op_assert; /* whoever fails says the same */
  struct kir_lin where = is_told ? (struct kir_lin){ 0 } : place_of_index(e, p, a->n_index);
  for (int j = 0; j < a->n_index; j++) {
    struct site site = { indices_typed(n), n->origin, a->index_size[j], .is_window = indices_are_window(n), .is_told = is_told };
    if (is_told) site.status = assert_status(n);
    int i = draft_index(&e->d, emit_in_value(e, p, j + 1), a->index_val[j], where, site);
    at[j] = emit_lin(e, i);
  }
  subscripts(e, a->stride, a->n_index, at);
  return kir_load(&e->d.b, a->buf, at);
}

/* The element where there is one, else the value: the load happens under the condition. */
static int emit_pad(struct emit *e, struct part *p) {
  const struct pad_attr *t = p->node->attr;
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin at[2 * AXES];
  int lo = draft_sized(&e->d, "lo", e->d.n_sizes, t->before), i = axis_value(e, emit_axis_at(p, t->axis));
  int fill = emit_in_value(e, p, 1);
  int inside = kir_op2(&e->d.b, KIR_LT, kir_op2(&e->d.b, KIR_SUB, i, lo), a->index_val[0]);
  kir_if(&e->d.b, kir_op2(&e->d.b, KIR_AND, kir_op2(&e->d.b, KIR_LE, lo, i), inside));
  at[0] = kir_lin_sub(e->d.k, emit_lin(e, i), emit_lin(e, lo));
  subscripts(e, a->stride, 1, at);
  int v = kir_load(&e->d.b, a->buf, at), r = kir_yield(&e->d.b, v, fill);
  kir_end(&e->d.b);
  return r;
}

/* sum_k a[..,k] b[k,..] over n products from `from` on, in order of k: one fma a step. */
static int sum_of_products(struct emit *e, struct part *p, struct kir_lin from, struct kir_lin n) {
  struct emit_access *a = &e->access[p->in[0].i], *b = &e->access[p->in[1].i];
  struct kir_lin at[2 * AXES], bt[2 * AXES];
  weft_dtype t = kir_register_of((weft_dtype)p->node->in[0]->dtype);
  int k = kir_loop(&e->d.b, KIR_SERIAL, "k", n);
  int sum = kir_carry(&e->d.b, "u", kir_lit(e->d.k, t, 0));
  at[0] = bt[0] = kir_lin_add(e->d.k, from, emit_lin(e, k));
  subscripts(e, a->stride, 1, at);
  subscripts(e, b->stride, 1, bt);
  int x = kir_load(&e->d.b, a->buf, at), y = kir_load(&e->d.b, b->buf, bt), next;
  if (kir_is_float(t)) next = kir_op3(&e->d.b, KIR_FMA, x, y, sum);
  else next = kir_op2(&e->d.b, KIR_ADD, sum, kir_op2(&e->d.b, KIR_MUL, x, y));
  kir_next(&e->d.b, 1, &sum, &next);
  kir_end(&e->d.b);
  return sum;
}

/* Long sums in blocks, each from 0, added in order (backend/patch.h): the first, those between, the last. */
static int emit_contract(struct emit *e, struct part *p) {
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin zero = kir_lin_const(e->d.k, 0), block = kir_lin_const(e->d.k, KIR_PRODUCT_BLOCK);
  int64_t n = a->index_size[0], between = (n - 1) / KIR_PRODUCT_BLOCK - 1;
  if (n <= KIR_PRODUCT_BLOCK) return sum_of_products(e, p, zero, emit_lin(e, a->index_val[0]));
  int q_size = draft_sized(&e->d, "Q", e->d.n_sizes, between);
  int rest = draft_sized(&e->d, "R", e->d.n_sizes, n - (between + 1) * KIR_PRODUCT_BLOCK);
  int first = sum_of_products(e, p, zero, block);
  int q = kir_loop(&e->d.b, KIR_SERIAL, "q", emit_lin(e, q_size)), sum = kir_carry(&e->d.b, "v", first);
  struct kir_lin from = kir_lin_add(e->d.k, block, kir_lin_scale(e->d.k, emit_lin(e, q), KIR_PRODUCT_BLOCK));
  int next = kir_op2(&e->d.b, KIR_ADD, sum, sum_of_products(e, p, from, block));
  kir_next(&e->d.b, 1, &sum, &next);
  kir_end(&e->d.b);
  from = kir_lin_add(e->d.k, block, kir_lin_scale(e->d.k, emit_lin(e, q_size), KIR_PRODUCT_BLOCK));
  return kir_op2(&e->d.b, KIR_ADD, sum, sum_of_products(e, p, from, emit_lin(e, rest)));
}

/* A fold over an axis of length 1: the start combined with the element, as a loop would. */
static int fold_one(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int x = emit_in_value(e, p, 0), all[8], from[4], out[4];
  if (!f->n) {
    weft_dtype t = kir_register_of((weft_dtype)p->node->dtype);
    return f->op == KIR_ADD && kir_is_float(t) ? kir_op2(&e->d.b, KIR_ADD, kir_lit(e->d.k, t, 0), x) : x;
  }
  f->from(&e->d.b, p->node, from);
  f->lift(&e->d.b, p->node, x, kir_lit_int(e->d.k, WEFT_I64, 0), out);
  for (int i = 0; i < f->n; i++) all[i] = from[i], all[f->n + i] = out[i];
  kir_call(&e->d.b, f->combine(&e->d.b, p->node), 2 * f->n, all, out);
  return f->finish(&e->d.b, p->node, out);
}

/* Sizes are arguments: a new length is no new kernel. */
static int size_value(struct emit *e, const struct part *p) {
  const struct size_attr *a = p->node->attr;
  for (const struct part *q = e->part; q < p; q++)
    if (q->node->op->kind == OP_SIZE && q->size && ((const struct size_attr *)q->node->attr)->size == a->size) return q->size;
  return draft_sized(&e->d, "n", e->d.n_sizes, a->size);
}

static int compute(struct emit *e, struct part *p) {
  struct node *n = p->node;
  int in[MOST_OPERANDS];
  switch (n->op->kind) {
    case OP_TAKE: return emit_take(e, p);
    case OP_PAD: return emit_pad(e, p);
    case OP_CONTRACT: return n == e->g->product ? emit_in_value(e, p, 0) : emit_contract(e, p);
    case OP_IOTA: return kir_cast(&e->d.b, (weft_dtype)n->dtype, axis_value(e, emit_axis_at(p, emit_own_axis(p))));
    case OP_SIZE: return p->size = size_value(e, p);
    case OP_REDUCE: return fold_one(e, p);
    case OP_PREFIX:
      if (emit_axis_at(p, emit_own_axis(p)) < 0) return emit_in_value(e, p, 0);
      return kir_prefix(&e->d.b, n->op->fold->op, emit_in_value(e, p, 0));
    case OP_ELEMENT: case OP_LEAF: case OP_VIEW: case OP_PUT: case OP_SCATTER: case OP_CONCAT: case OP_PAIR: case OP_IDENTITY:
    case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: case OP_LIBRARY: break; /* only elements are in groups */
  }
  for (int k = 0; k < n->n_in; k++) in[k] = emit_in_value(e, p, k);
  return n->op->lower(&e->d.b, n, in);
}

static bool same_source(struct emit *e, const struct part *p, const struct part *q, int k) {
  struct operand_source a = p->in[k], b = q->in[k];
  if (a.from != b.from || p->node->in[k]->dtype != q->node->in[k]->dtype) return false;
  if (a.from == FROM_SCALAR) return scalar_value(e, p->node->in[k]) == scalar_value(e, q->node->in[k]);
  return a.i == b.i || (a.from == FROM_PART && e->part[a.i].value == e->part[b.i].value);
}

/* The same instruction on the same values, computed in the same block. */
static int computed_already(struct emit *e, struct part *p) {
  if (p->node->op->kind != OP_ELEMENT) return -1;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *q = &e->part[i];
    if (q == p || q->value < 0 || q->is_inner != p->is_inner || q->node->op != p->node->op || q->node->dtype != p->node->dtype ||
        q->node->attr_bytes != p->node->attr_bytes || memcmp(q->node->attr, p->node->attr, p->node->attr_bytes)) continue;
    bool same = true;
    for (int k = 0; k < p->node->n_in && same; k++) same = same_source(e, p, q, k);
    if (same) return q->value;
  }
  return -1;
}

void emit_evaluate(struct emit *e, struct part *p) {
  p->value = computed_already(e, p);
  if (p->value < 0) p->value = kir_cast(&e->d.b, (weft_dtype)p->node->dtype, compute(e, p));
}

void emit_store(struct emit *e, struct part *p, int op, int value) {
  struct kir_lin at[AXES];
  int64_t s[AXES];
  emit_stored_strides(p, s);
  subscripts(e, s, 0, at);
  kir_store(&e->d.b, p->buf, at, op, value);
  p->is_stored_already = true;
}
