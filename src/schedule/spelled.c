/* spelled.c -- on a device, a fold along few elements of what was folded along few others is written out, element by element.
 *
 *   sum over i of sum over j of x[.., i, j]   is   0 + (sum over j of x[.., 0, j]) + (sum over j of x[.., 1, j]) ..
 *
 * So windows of an image are one kernel with all that follows them: a group cannot use the sums of its columns itself, nor add
 * along two axes that are not its lanes'. The order is that of a fold along columns (docs/kir.md section 6), which are shorter
 * than a block. What is folded stands in memory or is cheap to compute of that, and each element is computed once, as before. */
#include <string.h>
#include "graph/dtype.h"
#include "schedule/work.h"

enum { FEW = 4, FEW_NODES = 6, FEW_READ = 24 }; /* elements of an axis; nodes between memory and the inner fold, which are there for
                                                   each element; elements that a result reads, each a buffer of its kernel */

static int axis_of(const struct node *n) { return (int)((const struct axis_attr *)n->attr)->axis; }
static dim length_of(const struct node *n) { return n->in[0]->dims[axis_of(n)]; }
static bool is_fold(const struct node *n) { return n->op->kind == OP_REDUCE && !n->op->fold->n; }

/* Along few elements, of an axis that is not the last one. */
static bool is_short(const struct node *n) { return axis_of(n) < n->rank - 1 && length_of(n) > 1 && length_of(n) <= FEW; }

static bool is_inside(const struct node *x) {
  return x->op->kind == OP_ELEMENT && local_of(x)->n_uses == 1 && !local_of(x)->is_alone;
}

struct below { int n_nodes, n_read; bool can; };

/* What x is made of, down to memory; can: of nothing that would not stand there by itself. */
static void look_below(const struct node *x, struct below *b) {
  if (scalar_of(x) || !b->can) return;
  if (is_inside(x)) {
    b->can = ++b->n_nodes <= FEW_NODES;
    for (int k = 0; k < x->n_in; k++) look_below(x->in[k], b);
    return;
  }
  while (x->op->kind == OP_VIEW) x = x->in[0];
  b->n_read++;
  b->can = x->op == &op_value || x->op->kind == OP_CONTRACT || facts_of(x)->is_own_step;
}

/* Element i of x along the axis, which stays. */
static struct node *element(struct work *w, struct node *x, int axis, int64_t i) {
  struct node *in[ELEMENT_MOST], *scalar = (struct node *)scalar_of(x);
  struct slice_attr s = { axis, i, 1 };
  dim dims[WEFT_RANK_MAX];
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[axis] = 1;
  if (scalar) return work_node(w, &op_broadcast, (weft_dtype)x->dtype, x->rank, dims, 1, &scalar, NULL, 0);
  if (!is_inside(x)) return work_node(w, &op_slice, (weft_dtype)x->dtype, x->rank, dims, 1, &x, &s, sizeof s);
  for (int k = 0; k < x->n_in; k++) if (!(in[k] = element(w, x->in[k], axis, i))) return NULL;
  struct node *y = work_node(w, x->op, (weft_dtype)x->dtype, x->rank, dims, x->n_in, in, x->attr, x->attr_bytes);
  if (y) y->origin = x->origin, local_of(y)->n_uses = 1;
  return y;
}

static struct node *spell(struct work *w, struct node *n);

/* The same of a fold, and of what it folds. */
static struct node *folded(struct work *w, struct node *n, int axis, int64_t i) {
  dim dims[WEFT_RANK_MAX];
  struct node *x = element(w, n->in[0], axis, i);
  memcpy(dims, n->dims, sizeof *dims * (size_t)n->rank);
  dims[axis] = 1;
  struct node *y = x ? work_node(w, n->op, (weft_dtype)n->dtype, n->rank, dims, 1, &x, n->attr, n->attr_bytes) : NULL;
  if (!y) return NULL;
  y->origin = n->origin;
  return is_short(y) ? spell(w, y) : y;
}

static struct node *as(struct work *w, struct node *x, weft_dtype t) { return x && x->dtype != t ? work_cast(w, x, t) : x; }

static const struct op *combiner_of(const struct node *n) {
  switch ((int)n->op->fold->op) {
    case KIR_ADD: return &op_add;
    case KIR_MUL: return &op_mul;
    case KIR_MIN: return &op_minimum;
    case KIR_MAX: return &op_maximum;
    case KIR_AND: return &op_and;
    case KIR_OR: return &op_or;
    default: return NULL;
  }
}

/* 0 + x, which is not -0; what other folds start at changes nothing. */
static struct node *begun(struct work *w, const struct node *n, struct node *x) {
  struct scalar_attr zero = { 0 };
  if (!x || n->op->fold->op != KIR_ADD || !dtype_is_float((weft_dtype)x->dtype)) return x;
  struct node *s = work_node(w, &op_scalar, (weft_dtype)x->dtype, 0, NULL, 0, NULL, &zero, sizeof zero), *both[2] = { NULL, x };
  if (s) both[0] = work_node(w, &op_broadcast, (weft_dtype)x->dtype, x->rank, x->dims, 1, &s, NULL, 0);
  return both[0] ? work_node(w, &op_add, (weft_dtype)x->dtype, x->rank, x->dims, 2, both, NULL, 0) : NULL;
}

/* A fold rounds once, at its end: its elements combine in the register dtype. */
static struct node *spell(struct work *w, struct node *n) {
  weft_dtype wide = kir_register_of((weft_dtype)n->dtype);
  struct node *x = n->in[0], *all = NULL;
  int axis = axis_of(n);
  for (int64_t i = 0; i < x->dims[axis]; i++) {
    struct node *one = as(w, is_fold(x) ? folded(w, x, axis, i) : element(w, x, axis, i), wide), *both[2] = { all, one };
    if (!one) return NULL;
    all = i ? work_node(w, combiner_of(n), wide, n->rank, n->dims, 2, both, NULL, 0) : begun(w, n, one);
    if (!all) return NULL;
    all->origin = n->origin;
  }
  return as(w, all, (weft_dtype)n->dtype);
}

static bool is_window(const struct node *n) {
  struct below b = { .can = true };
  if (!is_fold(n) || !combiner_of(n) || !is_short(n)) return false;
  const struct node *x = n->in[0];
  if (!is_fold(x) || !combiner_of(x) || local_of(x)->n_uses != 1 || local_of(x)->is_alone) return false;
  if (axis_of(x) <= axis_of(n) || length_of(x) > FEW) return false;
  look_below(x->in[0], &b);
  return b.can && b.n_read * length_of(n) * (is_short(x) ? length_of(x) : 1) <= FEW_READ;
}

bool windows_spell(struct work *w) {
  for (int i = w->list->n - 1; i >= 0; i--) {
    struct node *n = w->list->node[i], *y;
    if (!is_window(n)) continue;
    if (!(y = spell(w, n))) return false;
    local_become(n, y);
  }
  return nodes_order(w);
}
