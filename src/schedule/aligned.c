/* aligned.c -- operands of products of halves whose rows do not begin with whole 16 bytes, on a device: copied into rows that do.
 *
 *   [m,1001] x [1001,n]  is  pad([m,1001] to 1008)[:, :1001] x pad(..)[..]
 *
 * Tensor cores are fed by 16 bytes at a time (backend/cuda/gpu_halves.c); what stands otherwise goes by plain tiles, ten times
 * slower. A copy costs what reading and writing the operand does, so it is made where its elements are multiplied often. What
 * is padded is not read: a slice shows the operand, with strides that are aligned. Products keep the number of their terms.
 *
 * And matrices that are chosen from turned ones, as those of experts, are chosen as they stand in memory, and turned then: rows are
 * copied as rows. */
#include <string.h>
#include "schedule/work.h"

/* Bytes that stand together; products of which each element of an operand has so many, and that a product must have, to be worth
 * copies. Estimated (tools/estimate), not measured. */
enum { VIEWS = 3, CHUNK = 16, LEAST_USES = 32, LEAST_PRODUCTS = 1 << 26, LEAST_SIDE = 32 };

struct aligning {
  struct work *w;
  struct node **aligned; /* by slot: the copy that shows the value; NULL: none was made */
};

static int chunk_of(const struct node *x) { return CHUNK / (int)weft_dtype_bytes((weft_dtype)x->dtype); }

/* Which of the last two axes has neighbours in memory; -1: none. */
static int neighbours(const struct node *x, const struct place *p) {
  for (int k = x->rank - 1; k >= x->rank - 2; k--) if (p->stride[k] == 1 || x->dims[k] == 1) return k;
  return -1;
}

static bool is_aligned(struct work *w, const struct node *x) {
  struct place p;
  if (!place_if_dense(w, x, &p)) return x->dims[x->rank - 1] % chunk_of(x) == 0; /* it is copied, row by row */
  int along = neighbours(x, &p);
  bool ok = along >= 0 && p.offset % chunk_of(x) == 0;
  for (int k = 0; k < x->rank; k++) ok &= k == along || x->dims[k] == 1 || p.stride[k] % chunk_of(x) == 0;
  return ok;
}

static struct node *view(struct aligning *a, const struct op *op, const struct node *like, const dim dims[], struct node *x,
                         const void *attr, size_t bytes) {
  struct node *v = x ? work_node(a->w, op, (weft_dtype)x->dtype, like->rank, dims, 1, &x, attr, bytes) : NULL;
  if (v) v->origin = like->origin;
  return v;
}

/* The last two axes change places. */
static struct node *turned(struct aligning *a, struct node *x) {
  struct transpose_attr t;
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; x && k < x->rank; k++) {
    t.axes[k] = k < x->rank - 2 ? k : 2 * x->rank - 3 - k;
    dims[k] = x->dims[t.axes[k]];
  }
  return x ? view(a, &op_transpose, x, dims, x, &t, sizeof *t.axes * (size_t)x->rank) : NULL;
}

/* A copy whose rows have some elements more, shown without them. */
static struct node *padded(struct aligning *a, struct node *x) {
  int last = x->rank - 1;
  uint64_t zero = 0;
  int64_t length = x->dims[last], more = chunk_of(x) - 1 - (length - 1) % chunk_of(x);
  dim dims[WEFT_RANK_MAX];
  if (!more) return work_cast(a->w, x, (weft_dtype)x->dtype);
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[last] = length + more;
  struct node *in[] = { x, work_node(a->w, &op_scalar, (weft_dtype)x->dtype, 0, NULL, 0, NULL, &zero, sizeof zero) };
  struct pad_attr pad = { last, 0, more };
  struct node *all = in[1] ? work_node(a->w, &op_pad, (weft_dtype)x->dtype, x->rank, dims, 2, in, &pad, sizeof pad) : NULL;
  if (all) all->origin = x->origin;
  return view(a, &op_slice, x, x->dims, all, &(struct slice_attr){ last, 0, 1 }, sizeof(struct slice_attr));
}

static bool is_turned(const struct node *x) { /* the last two axes, and no others */
  const struct transpose_attr *t = x->op == &op_transpose ? x->attr : NULL;
  for (int k = 0; t && k < x->rank; k++) if (t->axes[k] != (k < x->rank - 2 ? k : 2 * x->rank - 3 - k)) return false;
  return t != NULL;
}

static bool is_repeated(const struct node *x) { /* for a batch */
  const struct node *y = x->op == &op_broadcast ? x->in[0] : NULL;
  return y && y->rank >= 2 && !memcmp(y->dims + y->rank - 2, x->dims + x->rank - 2, 2 * sizeof *x->dims);
}

static bool keeps_rows(const struct node *x) { /* other axes in front of the last one */
  const struct node *y = x->op == &op_reshape ? x->in[0] : NULL;
  return y && y->rank >= 2 && y->dims[y->rank - 1] == x->dims[x->rank - 1];
}

/* What other products have of it is copied once. */
static struct node *base_aligned(struct aligning *a, struct node *x) {
  struct place p;
  struct node **known = x->slot >= 0 ? &a->aligned[x->slot] : NULL;
  if (known && *known) return *known;
  bool is_across = place_if_dense(a->w, x, &p) && neighbours(x, &p) == x->rank - 2;
  struct node *t = is_across ? turned(a, x) : x, *y = t ? padded(a, t) : NULL;
  if (is_across) y = turned(a, y);
  return known ? *known = y : y;
}

/* Views that a copy would undo, or by which others may see the same, stand above it; at most so many. */
static struct node *aligned(struct aligning *a, struct node *x, int depth) {
  struct node *below = depth && (is_turned(x) || is_repeated(x) || keeps_rows(x)) ? aligned(a, x->in[0], depth - 1) : NULL;
  if (below && is_turned(x)) return turned(a, below);
  if (below) return view(a, x->op, x, x->dims, below, NULL, 0);
  return a->w->no_memory ? NULL : base_aligned(a, x);
}

static bool is_worth_it(struct work *w, const struct node *n) {
  if (n->op->kind != OP_CONTRACT || n->n_in != 2 || n->rank < 2 || contract_is_apart(w, n)) return false;
  int64_t m = n->dims[n->rank - 2], columns = n->dims[n->rank - 1], k = n->in[0]->dims[n->rank - 1];
  weft_dtype t = (weft_dtype)n->in[0]->dtype;
  if ((t != WEFT_F16 && t != WEFT_BF16) || !work_may_reorder(w, t) || n->in[1]->dtype != t) return false;
  return k && m >= LEAST_SIDE && columns >= LEAST_SIDE && (double)node_count(n) * (double)k >= LEAST_PRODUCTS;
}

/* Each element of operand k is multiplied by all columns, or rows, but for a batch's that are repeated. */
static bool is_used_often(const struct node *n, int k) { return n->dims[n->rank - 1 - k] >= LEAST_USES; }

/* x is turned matrices [.., k, n] of [.., n, k] in memory, and only this product has what was chosen of them. */
static struct node *turned_later(struct aligning *a, struct node *x) {
  struct node *v = x->op->kind == OP_TAKE ? x->in[0] : NULL, *in[WEFT_RANK_MAX + 1];
  dim dims[WEFT_RANK_MAX];
  if (!v || !is_turned(v) || v->rank - ((const struct take_attr *)x->attr)->n < 2 || local_of(x)->n_uses != 1) return x;
  memcpy(in, x->in, sizeof *in * (size_t)x->n_in), in[0] = v->in[0];
  memcpy(dims, x->dims, sizeof *dims * (size_t)x->rank);
  dims[x->rank - 2] = x->dims[x->rank - 1], dims[x->rank - 1] = x->dims[x->rank - 2];
  struct node *y = work_node(a->w, x->op, (weft_dtype)x->dtype, x->rank, dims, x->n_in, in, x->attr, x->attr_bytes);
  if (y) y->origin = x->origin;
  return turned(a, y);
}

static bool choose_as_they_stand(struct aligning *a) {
  for (int i = 0; i < a->w->list->n; i++) {
    struct node *n = a->w->list->node[i];
    for (int k = 0; n->op->kind == OP_CONTRACT && k < n->n_in; k++) if (!(n->in[k] = turned_later(a, n->in[k]))) return false;
  }
  return nodes_order(a->w);
}

bool operands_align(struct work *w) {
  struct aligning a = { .w = w };
  if (!choose_as_they_stand(&a)) return false;
  if (!w->device || !w->device->reorders || !w->device->reorders(w->device)) return true;
  if (!(a.aligned = work_take(w, sizeof *a.aligned * (size_t)(w->list->n + 1)))) return false;
  memset(a.aligned, 0, sizeof *a.aligned * (size_t)w->list->n);
  for (int i = 0; i < w->list->n; i++) {
    struct node *n = w->list->node[i];
    if (!is_worth_it(w, n)) continue;
    bool is[2] = { is_aligned(w, n->in[0]), is_aligned(w, n->in[1]) };
    if ((!is[0] && !is_used_often(n, 0)) || (!is[1] && !is_used_often(n, 1))) continue;
    for (int k = 0; k < 2; k++) if (!is[k] && !(n->in[k] = aligned(&a, n->in[k], VIEWS))) return false;
  }
  return nodes_order(w);
}
