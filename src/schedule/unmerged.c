/* unmerged.c -- on a device, folds along an axis that a reshape has made of several go along these one after the other instead, the
 * last one first, where no order can be seen.
 *
 *   max over k of x[.., k], k = (i, j)   is   max over i of max over j of x[.., i, j]
 *
 * So windows of an image, whose two axes are apart in memory, are read where they are, by a thread each (gpu_short_rows.c), and
 * not copied side by side first. Where strides express the reshape nothing is gained, and nothing done. Sums of floats along one
 * axis have another order than along several: they stay. */
#include <string.h>
#include "graph/dtype.h"
#include "schedule/work.h"

static bool has_no_order(const struct node *n) {
  const struct fold *f = n->op->fold;
  if (f->n) return false;
  bool is_arithmetic = f->op == KIR_ADD || f->op == KIR_MUL;
  return !is_arithmetic || dtype_is_integer((weft_dtype)n->dtype) || n->dtype == WEFT_BOOL;
}

/* The axes [*from, *to) of x, one after the other, are `axis` of its reshape v, and nothing else. */
static bool axes_of(const struct node *v, int axis, int *from, int *to) {
  const struct node *x = v->in[0];
  dim before = dim_count(axis, v->dims), n = 1, count = 1;
  for (*from = 0; *from < x->rank && n != before; ++*from) n *= x->dims[*from];
  if (n != before) return false;
  for (*to = *from; *to < x->rank && count != v->dims[axis]; ++*to) count *= x->dims[*to];
  return count == v->dims[axis];
}

static bool unmerge(struct work *w, struct node *n) {
  struct axis_attr a = *(const struct axis_attr *)n->attr;
  struct node *v = n->in[0], *y = v->in[0];
  struct place p;
  int from, to;
  if (!node_count(v) || !axes_of(v, a.axis, &from, &to) || !place_if_dense(w, y, &p) || place_if_dense(w, v, &p)) return true;
  for (int k = to - 1; k >= from && y; k--) {
    dim dims[WEFT_RANK_MAX];
    if (y->dims[k] == 1) continue;
    memcpy(dims, y->dims, sizeof *dims * (size_t)y->rank);
    dims[k] = 1, a.axis = k;
    y = work_node(w, n->op, (weft_dtype)n->dtype, y->rank, dims, 1, &y, &a, sizeof a);
    if (y) y->origin = n->origin;
  }
  struct node *shown = y ? work_node(w, &op_reshape, (weft_dtype)n->dtype, n->rank, n->dims, 1, &y, NULL, 0) : NULL;
  if (!shown) return false;
  shown->origin = n->origin;
  local_become(n, shown);
  return true;
}

bool folds_unmerge(struct work *w) {
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *x = w->list->node[i];
    if (x->op->kind == OP_REDUCE && x->in[0]->op == &op_reshape && has_no_order(x) && !unmerge(w, x)) return false;
  }
  return nodes_order(w);
}
