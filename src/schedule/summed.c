/* summed.c -- products of halves, or of f32 by tf32, that are summed along an axis of their batch, on a device whose library
 * multiplies them: one product with longer sums. It is what the derivative by a matrix comes to that many batches are
 * multiplied by.
 *
 *   sum over b of a[b,m,k] c[b,k,n] = a'[m,(b k)] c'[(b k),n]
 *
 * Such sums have no order to keep there, and are rounded once instead of once a batch. */
#include <string.h>
#include "schedule/work.h"

extern const struct op op_sum;

/* Going along `axis` of x is going on along axis k. */
static bool goes_on(struct work *w, const struct node *x, int axis, int k) {
  struct place p;
  return place_if_dense(w, x, &p) && p.stride[k] && p.stride[axis] == p.stride[k] * x->dims[k];
}

/* x with its axis just before k, and both as one, at k; 1 stays in its place. */
static struct node *joined(struct work *w, struct node *x, int axis, int k) {
  struct transpose_attr t;
  dim dims[WEFT_RANK_MAX];
  int n = 0;
  for (int i = 0; i < x->rank; i++) {
    if (i == k) t.axes[n++] = axis;
    if (i != axis) t.axes[n++] = i;
  }
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[t.axes[i]];
  struct node *turned = work_node(w, &op_transpose, (weft_dtype)x->dtype, x->rank, dims, 1, &x, &t,
      sizeof *t.axes * (size_t)x->rank);
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[k] *= dims[axis];
  dims[axis] = 1;
  return turned ? work_node(w, &op_reshape, (weft_dtype)x->dtype, x->rank, dims, 1, &turned, NULL, 0) : NULL;
}

static int n_users(const struct work *w, const struct node *x) {
  int n = 0;
  for (int i = 0; i < w->list->n; i++)
    for (int k = 0; k < w->list->node[i]->n_in; k++) n += w->list->node[i]->in[k] == x;
  for (int t = 0; t < w->n_targets; t++) n += w->target[t] == x;
  return n;
}

static bool is_summed(struct work *w, const struct node *s) {
  const struct node *c = s->op == &op_sum ? s->in[0] : NULL;
  int axis = c ? ((const struct axis_attr *)s->attr)->axis : 0, n = c ? c->rank : 0;
  if (!c || c->op->kind != OP_CONTRACT || axis >= n - 2 || c->dims[axis] < 2) return false;
  weft_dtype t = (weft_dtype)c->dtype;
  if (!work_may_reorder(w, t) || c->in[0]->dtype != t || c->in[1]->dtype != t || s->dtype != t) return false;
  return goes_on(w, c->in[0], axis, n - 1) && goes_on(w, c->in[1], axis, n - 2) && n_users(w, c) == 1;
}

bool sums_join_products(struct work *w) {
  if (!w->fuse || !w->device || !w->device->multiplies_halves) return true;
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *s = w->list->node[i];
    if (!is_summed(w, s) || !w->device->multiplies_halves(w->device)) continue;
    struct node *c = s->in[0], *in[2];
    int axis = ((const struct axis_attr *)s->attr)->axis;
    for (int k = 0; k < 2; k++) if (!(in[k] = joined(w, c->in[k], axis, c->rank - 1 - k))) return false;
    struct node *one = work_node(w, c->op, (weft_dtype)s->dtype, s->rank, s->dims, 2, in, NULL, 0);
    if (!one) return false;
    one->origin = c->origin;
    local_become(s, one);
  }
  return true;
}
