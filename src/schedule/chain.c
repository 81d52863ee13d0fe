/* chain.c -- products that feed each other: y = f(a b) c, where f works row by row and nobody else wants f(a b).
 *
 * Attention is the case that matters: softmax(q k') v. The step of a b hands its rows to the step of c while they are in
 * cache; as a whole they stand nowhere. Every sum keeps its order, so no bit changes. If f masks what lies above a diagonal
 * (where(column <= row + band, x, -inf) and a softmax), rows end there: what is left out would be zeros. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "graph/dtype.h"
#include "schedule/work.h"

enum { LEAST_BYTES = 1 << 18 }; /* of what is handed over: less stays in cache in any case */

extern const struct op op_exp, op_sum, op_max, op_lt;

/* ---- which products ---- */

/* The operand is the value itself, perhaps with axes of length 1 put in or left out, and the only use of it. */
static const struct node *only_use(const struct node *x) {
  struct edge e = edge_of(x);
  int last = -1;
  for (; x != e.base; x = x->in[0]) if (local_of(x)->n_uses != 1) return NULL;
  if (!e.aligned || local_of(e.base)->n_uses != 1) return NULL;
  for (int k = 0; k < e.base->rank; k++) {
    if (e.base->dims[k] == 1) continue;
    if (e.map[k] <= last) return NULL;
    last = e.map[k];
  }
  return e.base;
}

static bool has_shape_of(const struct node *a, const struct node *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank);
}

/* The rank - 2 first axes of both are the same, but for those of length 1. */
static bool has_rows_of(const struct node *a, const struct node *b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a->rank - 1 && a->dims[i] == 1) i++;
    while (j < b->rank - 1 && b->dims[j] == 1) j++;
    if (i == a->rank - 1 || j == b->rank - 1) return i == a->rank - 1 && j == b->rank - 1;
    if (a->dims[i++] != b->dims[j++]) return false;
  }
}

bool group_gives_only(struct work *w, const struct group *g, const struct node *x) {
  for (int i = 0; i < g->n_items; i++)
    if (w->item[g->item[i]].is_stored && w->list->node[g->item[i]] != x) return false;
  return w->item[x->slot].is_stored && !w->item[x->slot].is_target && w->item[x->slot].into < 0;
}

/* One query: there is nothing to gain but that memory does not grow with the number of keys, token by token (product_pack.c). */
static bool is_one_row(const struct node *x) { return x->rank >= 2 && x->dims[x->rank - 2] == 1; }

static bool may_feed(struct work *w, const struct node *x, const struct node *product) {
  int g = w->item[x->slot].group;
  if (g < 0 || !w->group[g].product || w->group[g].fed_by >= 0 || w->group[g].n_items < 2) return false;
  const struct node *first = w->group[g].product;
  int64_t bytes = node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype);
  return first->n_in == 2 && (bytes >= LEAST_BYTES || is_one_row(x)) && has_shape_of(x, first) && has_rows_of(product, x) &&
         group_gives_only(w, &w->group[g], x) && contract_takes_rows(first) && contract_takes_rows(product);
}

void chains_find(struct work *w) {
  for (int g = 0; g < w->n_groups && w->fuse; g++) {
    const struct node *n = w->group[g].is_dead || w->group[g].feeds ? NULL : w->group[g].product;
    const struct node *x = n && n->n_in == 2 ? only_use(n->in[0]) : NULL;
    if (!x || !may_feed(w, x, n)) continue;
    w->group[g].fed_by = w->item[x->slot].group;
    w->group[w->group[g].fed_by].feeds = true;
    w->out->store[w->item[x->slot].place.store].bytes = 0;
  }
}

/* ---- what lies above a diagonal ---- */

struct row_column { int64_t row, column, start; }; /* row i + column j + start */

enum { DEEPEST = 8, LARGEST = 1 << 22 }; /* so nothing on the way can be beyond 2^30 */

static bool affine_of(const struct node *, int row_axis, int column_axis, int depth, struct row_column *);

static struct row_column sum_of(struct row_column a, struct row_column b, int64_t sign) {
  return (struct row_column){ a.row + sign * b.row, a.column + sign * b.column, a.start + sign * b.start };
}

static bool is_number(struct row_column a, int64_t number) { return !a.row && !a.column && a.start == number; }

static bool combined(const struct node *n, int r, int c, int depth, struct row_column *out) {
  struct row_column a, b;
  if (!affine_of(n->in[0], r, c, depth, &a) || !affine_of(n->in[1], r, c, depth, &b)) return false;
  if (n->op == &op_mul) return *out = is_number(b, 1) ? a : b, is_number(a, 1) || is_number(b, 1);
  *out = sum_of(a, b, n->op == &op_add ? 1 : -1);
  return true;
}

static bool number_of(int64_t x, struct row_column *out) {
  *out = (struct row_column){ .start = x };
  return llabs(x) < LARGEST;
}

/* Along an axis that is really there; one of length 1 has the index 0 only. */
static bool index_of(const struct node *n, int r, int c, struct row_column *out) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  *out = (struct row_column){ .row = axis == r, .column = axis == c };
  return (axis == r || axis == c) && n->dims[axis] > 1 && n->dims[axis] < LARGEST;
}

/* Where the two last axes of what an edge leads from are, in its base; -1: nowhere. */
static void find_axes(const struct edge *e, int row, int column, int *r, int *c) {
  *r = *c = -1;
  for (int k = 0; k < e->base->rank; k++) {
    if (e->map[k] >= 0 && e->map[k] == row) *r = k;
    if (e->map[k] >= 0 && e->map[k] == column) *c = k;
  }
}

/* Integers as a function of the row and column, which are the indices along two axes of n. */
static bool affine_of(const struct node *n, int row_axis, int column_axis, int depth, struct row_column *out) {
  struct edge e = edge_of(n);
  int r, c;
  weft_dtype t = (weft_dtype)e.base->dtype;
  if (!e.aligned || !depth || !dtype_is_signed(t) || weft_dtype_bytes(t) < 4) return false;
  find_axes(&e, row_axis, column_axis, &r, &c);
  const struct op *op = e.base->op;
  if (op == &op_scalar) return number_of((int64_t)scalar_bits(e.base, WEFT_I64), out);
  if (op == &op_size) return number_of(((const struct size_attr *)e.base->attr)->size, out);
  if (op == &op_iota) return index_of(e.base, r, c, out);
  if (op == &op_cast) return affine_of(e.base->in[0], r, c, depth - 1, out);
  return (op == &op_add || op == &op_sub || op == &op_mul) && combined(e.base, r, c, depth - 1, out);
}

/* mask: column <= row + *band. */
bool mask_is_band(const struct node *mask, int64_t *band) {
  struct edge e = edge_of(mask);
  struct row_column left, right;
  int r, c;
  find_axes(&e, mask->rank - 2, mask->rank - 1, &r, &c);
  if (!e.aligned || (e.base->op != &op_le && e.base->op != &op_lt)) return false;
  if (!affine_of(e.base->in[0], r, c, DEEPEST, &left) || !affine_of(e.base->in[1], r, c, DEEPEST, &right)) return false;
  struct row_column d = sum_of(right, left, -1);
  *band = d.start - (e.base->op == &op_lt);
  return d.row == 1 && d.column == -1;
}

static const struct node *plain(const struct node *x) { /* before casts between floats */
  for (;;) {
    x = edge_of(x).base;
    if (x->op != &op_cast || !dtype_is_float((weft_dtype)x->in[0]->dtype)) return x;
    x = x->in[0];
  }
}

static bool folds_last(const struct node *x, const struct op *op, const struct node *of) {
  const struct node *f = plain(x);
  return f->op == op && ((const struct axis_attr *)f->attr)->axis == f->in[0]->rank - 1 && plain(f->in[0]) == of;
}

/* The mask of what is -inf where that is false; NULL: there is none. */
static const struct node *mask_of(const struct node *x) {
  const struct node *low = x->op == &op_where ? scalar_of(x->in[2]) : NULL;
  return low && scalar_bits(low, WEFT_F64) == dtype_encode(WEFT_F64, -INFINITY) ? x->in[0] : NULL;
}

/* One divided by the sum of the rows of e. */
static bool is_over_sum(const struct node *x, const struct node *e) {
  const struct node *q = plain(x), *top = q->op == &op_div ? scalar_of(q->in[0]) : NULL;
  return top && scalar_bits(top, WEFT_F64) == dtype_encode(WEFT_F64, 1) && folds_last(q->in[1], &op_sum, e);
}

/* y = e (1 / sum(e)), e = exp(x - max(x)), x = where(column <= row + band, .., -inf), all in one group and so axis by axis. */
bool chain_is_banded(struct work *w, const struct node *y, int64_t *band) {
  const struct node *q = plain(y), *of[3];
  int n = 0;
  if (q->op != &op_mul || (of[n++] = plain(q->in[0]))->op != &op_exp || !is_over_sum(q->in[1], of[0])) return false;
  if ((of[n++] = plain(of[0]->in[0]))->op != &op_sub) return false;
  of[n++] = plain(of[1]->in[0]);
  for (int i = 0; i < n; i++)
    if (!has_shape_of(of[i], y) || w->item[of[i]->slot].group != w->item[y->slot].group) return false;
  const struct node *mask = mask_of(of[2]);
  return mask && folds_last(of[1]->in[1], &op_max, of[2]) && mask_is_band(mask, band);
}
