/* graph_check.c -- the promises of a plan's graph, looked at again in the hard build: after rewriting, and after it was
 * prepared. Inputs stand before their users, sizes are numbers, kernels' dtypes are real, and the shapes of operands are
 * what the kind of their node says. */
#include "base/hard.h"
#include "graph/dtype.h"
#include "schedule/work.h"
#ifdef WEFT_HARD

static bool same_dims(const struct node *a, const struct node *b, int but) {
  for (int k = 0; a->rank == b->rank && k < a->rank; k++) if (k != but && a->dims[k] != b->dims[k]) return false;
  return a->rank == b->rank;
}

static int axis_of(const struct node *n) { return ((const struct axis_attr *)n->attr)->axis; }

static void check_axis(const struct node *n) { INVARIANT(axis_of(n) >= 0 && axis_of(n) < n->rank); }

static void check_slice(const struct node *n) {
  const struct slice_attr *a = n->attr;
  INVARIANT(a->axis >= 0 && a->axis < n->rank && same_dims(n, n->in[0], (int)a->axis));
  INVARIANT(dim_slice_fits(n->in[0]->dims[a->axis], a->start, n->dims[a->axis], a->step));
}

static void check_transpose(const struct node *n) {
  const struct transpose_attr *a = n->attr;
  uint64_t seen = 0;
  INVARIANT(n->rank == n->in[0]->rank);
  for (int k = 0; k < n->rank; k++) {
    INVARIANT(a->axes[k] >= 0 && a->axes[k] < n->rank && !(seen >> a->axes[k] & 1));
    INVARIANT(n->dims[k] == n->in[0]->dims[a->axes[k]]);
    seen |= 1ull << a->axes[k];
  }
}

static void check_broadcast(const struct node *n) {
  int d = n->rank - n->in[0]->rank;
  INVARIANT(d >= 0);
  for (int k = 0; k < n->in[0]->rank; k++) INVARIANT(n->in[0]->dims[k] == 1 || n->in[0]->dims[k] == n->dims[k + d]);
}

static void check_windows(const struct node *n) {
  const struct windows_attr *a = n->attr;
  int64_t size = n->in[0]->dims[a->axis], length = n->dims[n->rank - 1], count = n->dims[a->axis];
  INVARIANT(n->rank == n->in[0]->rank + 1 && a->axis >= 0 && a->axis < n->in[0]->rank);
  INVARIANT(!count || (count - 1) * a->step + (length - 1) * a->dilation < size);
}

static void check_view(const struct node *n) {
  INVARIANT(n->n_in == 1 && (n->dtype == n->in[0]->dtype || n->op == &op_part));
  if (n->op == &op_slice) check_slice(n);
  else if (n->op == &op_transpose) check_transpose(n);
  else if (n->op == &op_broadcast) check_broadcast(n);
  else if (n->op == &op_windows) check_windows(n);
  else if (n->op == &op_reshape) INVARIANT(node_count(n) == node_count(n->in[0]));
}

static void check_product(const struct node *n) {
  const struct node *a = n->in[0], *b = n->in[1];
  int last = n->rank - 1;
  INVARIANT(n->rank >= 2 && a->rank == n->rank && b->rank == n->rank && a->dims[last] == b->dims[last - 1]);
  INVARIANT(n->dims[last - 1] == a->dims[last - 1] && n->dims[last] == b->dims[last]);
  for (int k = 0; k < last - 1; k++) INVARIANT(a->dims[k] == n->dims[k] && b->dims[k] == n->dims[k]);
}

/* I + the axes of x that are not indexed. */
static void check_take(const struct node *n) {
  int indexed = ((const struct take_attr *)n->attr)->n, of_index = n->in[1]->rank;
  INVARIANT(n->n_in == indexed + 1 && n->rank == of_index + n->in[0]->rank - indexed);
  for (int k = 1; k <= indexed; k++) INVARIANT(same_dims(n->in[k], n->in[1], -1));
  for (int k = 0; k < n->rank; k++)
    INVARIANT(n->dims[k] == (k < of_index ? n->in[1]->dims[k] : n->in[0]->dims[k - of_index + indexed]));
}

static void check_concat(const struct node *n) {
  int64_t length = 0;
  check_axis(n);
  for (int k = 0; k < n->n_in; k++) {
    INVARIANT(same_dims(n, n->in[k], axis_of(n)));
    length += n->in[k]->dims[axis_of(n)];
  }
  INVARIANT(length == n->dims[axis_of(n)]);
}

static void check_pad(const struct node *n) {
  const struct pad_attr *a = n->attr;
  INVARIANT(a->axis >= 0 && a->axis < n->rank && same_dims(n, n->in[0], (int)a->axis) && a->before >= 0 && a->after >= 0);
  INVARIANT(n->dims[a->axis] == n->in[0]->dims[a->axis] + a->before + a->after);
}

static void check_item(const struct node *n) {
  const struct many *many = n->in[0]->op->many;
  INVARIANT(many && ((const struct item_attr *)n->attr)->k < many->count(n->in[0]));
}

static void check_shapes(const struct node *n) {
  switch (n->op->kind) {
    case OP_LEAF: INVARIANT(n->n_in == 0); break;
    case OP_ELEMENT: for (int k = 0; k < n->n_in; k++) INVARIANT(same_dims(n, n->in[k], -1)); break;
    case OP_IOTA: check_axis(n); break;
    case OP_REDUCE: check_axis(n), INVARIANT(same_dims(n, n->in[0], axis_of(n)) && n->dims[axis_of(n)] == 1); break;
    case OP_PREFIX: check_axis(n), INVARIANT(same_dims(n, n->in[0], -1)); break;
    case OP_VIEW: check_view(n); break;
    case OP_TAKE: check_take(n); break;
    case OP_PUT: case OP_SCATTER: INVARIANT(same_dims(n, n->in[0], -1)); break;
    case OP_CONTRACT: check_product(n); break;
    case OP_CONCAT: check_concat(n); break;
    case OP_PAIR: INVARIANT(n->n_in == 2 && same_dims(n, n->in[0], -1) && same_dims(n, n->in[1], -1)); break;
    case OP_PAD: check_pad(n); break;
    case OP_ITEM: check_item(n); break;
    case OP_CALL: case OP_LATER: INVARIANT(!"calls are expanded, and what waits for sizes is written, before a plan"); break;
    case OP_SIZE: case OP_IDENTITY: case OP_LOOP: case OP_LIBRARY: break;
  }
}

/* Complex numbers are in memory only: seen through views, stored in pairs, or what a library step has made. */
static bool may_be_complex(const struct node *n) {
  bool is_stored = n->op->kind == OP_LEAF || n->op->kind == OP_PAIR || n->op->kind == OP_ITEM || n->op->kind == OP_LIBRARY;
  return is_stored || n->op->kind == OP_VIEW;
}

void graph_check(const struct node_list *list) {
  for (int i = 0; i < list->n; i++) list->node[i]->slot = i;
  for (int i = 0; i < list->n; i++) {
    const struct node *n = list->node[i];
    for (int k = 0; k < n->n_in; k++) {
      int at = n->in[k]->slot;
      INVARIANT(at >= 0 && at < i && list->node[at] == n->in[k]);
    }
    for (int k = 0; k < n->rank; k++) INVARIANT(dim_is_known(n->dims[k]));
    INVARIANT(!dtype_is_complex((weft_dtype)n->dtype) || may_be_complex(n));
    check_shapes(n);
  }
}
#else
typedef int graph_check_is_off; /* a translation unit may not be empty */
#endif
