/* library.c -- nodes of OP_LIBRARY: results that are computed by code of our own or of a library that was loaded, on arrays
 * that stand dense. All of them are batched by the axes in front of a problem's own, so there is one rule for map. */
#include "base/mem.h"
#include "op/operand.h"

/* Result k; a bad array if it would have too many axes. */
static weft_array *result(struct node *n, int k) {
  dim dims[2 * WEFT_RANK_MAX];
  int rank;
  n->op->many->type(n, k, &rank, dims);
  if (rank > WEFT_RANK_MAX)
    return array_bad(WEFT_ERR_SHAPE, "weft_%s: the result would have %d axes, and %d are the most", n->op->name, rank,
                     WEFT_RANK_MAX);
  return array_of(item_make(n, k));
}

void library_apply(const struct op *op, int n, struct node *const in[], const void *attr, size_t attr_bytes, int n_out,
                   weft_array *out[]) {
  struct node *y = node_make(op, WEFT_I64, 0, NULL, n, in, attr, attr_bytes);
  for (int k = 0; k < n_out; k++) out[k] = y ? result(y, k) : array_of(NULL);
  node_release(y);
}

weft_array *library_one(const struct op *op, int n, weft_array *const x[], const void *attr, size_t bytes, int n_out, int which) {
  struct node *in[LIBRARY_MOST];
  weft_array *out[LIBRARY_MOST];
  for (int k = 0; k < n; k++)
    if (!(in[k] = array_good_node(x[k]))) return nodes_release(k, in), x[k];
  library_apply(op, n, in, attr, bytes, n_out, out);
  nodes_release(n, in);
  return out[which];
}

static int batch_axes(const struct op *op, const void *attr, const struct node *first) {
  return op->library->batch_axes ? op->library->batch_axes(attr) : first->rank - op->library->core;
}

/* Of other sizes: results are of those that their types tell of the operands. Problems are counted by the first operand, so that
 * the others must have as many. */
struct node *library_again(const struct node *n, struct node *const in[], struct failure **why) {
  int batch = n->n_in ? batch_axes(n->op, n->attr, in[0]) : 0;
  struct shape_text a, b;
  for (int k = 0; k < n->n_in; k++) {
    bool fits = in[k]->rank == n->in[k]->rank && in[k]->dtype == n->in[k]->dtype;
    for (int i = 0; fits && i < batch; i++) fits = !dim_differs(dim_resolve(in[0]->dims[i]), dim_resolve(in[k]->dims[i]));
    if (fits) continue;
    *why = fail(WEFT_ERR_SHAPE, n->origin, "weft_%s: sizes that were taken to be equal differ: %s and %s", n->op->name,
                shape_show(in[0], &a), shape_show(in[k], &b));
    return NULL;
  }
  return node_make(n->op, (weft_dtype)n->dtype, n->rank, n->dims, n->n_in, in, n->attr, n->attr_bytes);
}

/* In every row the same. */
static weft_array *in_rows(weft_array *x, dim rows) {
  dim dims[WEFT_RANK_MAX + 1] = { rows };
  for (int k = 0; k < x->node->rank; k++) dims[k + 1] = x->node->dims[k];
  return array_broadcast("weft_map", x, x->node->rank + 1, dims);
}

void library_rows(const struct rule *r, const bool is_mapped[], const void *attr, weft_array *ys[], bool is_mapped_out[]) {
  int n_out = r->node->op->many->count(r->node);
  struct node **in = mem_alloc(sizeof *in * (size_t)(r->n_in + 1));
  struct failure *why = in ? NULL : fail(WEFT_ERR_MEMORY, 0, "weft_map: out of memory");
  dim rows = 0;
  for (int k = 0; k < r->n_in; k++) if (is_mapped[k]) rows = r->in[k]->node->dims[0];
  for (int k = 0; !why && k < r->n_in; k++) {
    if (!is_mapped[k] && r->in[k]->node->rank == WEFT_RANK_MAX)
      why = fail(WEFT_ERR_SHAPE, r->node->origin, "weft_map: an operand of %s has rank %d already", r->node->op->name,
                 WEFT_RANK_MAX);
    else in[k] = (is_mapped[k] ? r->in[k] : in_rows(r->in[k], rows))->node;
  }
  if (!why) library_apply(r->node->op, r->n_in, in, attr, r->node->attr_bytes, n_out, ys);
  for (int k = 0; k < n_out; k++) {
    is_mapped_out[k] = true;
    if (why) ys[k] = array_of_bad(failure_retain(why), 0, NULL);
  }
  failure_release(why);
  mem_free(in);
}

void library_batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  library_rows(r, is_mapped, r->node->attr, ys, is_mapped_out);
}
