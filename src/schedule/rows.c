/* rows.c -- leading axes that only the left operand of a product has are rows of it, not a batch.
 *
 *   [8,14,384] x [384,384]  is  [112,384] x [384,384]
 *
 * One by one, products of 14 rows read the matrix eight times and leave patches half empty. So such a product becomes one of two
 * axes, and what goes on with it follows: elements, folds over the last axis, and what is broadcast along it, for else they could
 * not share its kernel. Where that ends, the value is shown in its own shape by a reshape, which moves nothing. No sum changes its
 * order. An operand whose leading axes are not one axis in memory is left as it is: it is not copied for this. */
#include <string.h>
#include "schedule/work.h"

struct joining {
  struct work *w;
  struct place *place;  /* by slot, as if every computed value were dense */
  struct node **flat;   /* by slot: the value as [rows, last axis]; NULL: it is not so */
};

static struct node *made(struct joining *j, const struct op *op, const struct node *like, dim columns, dim rows, int n,
                         struct node *const in[], const void *attr, size_t bytes) {
  dim dims[2] = { rows, columns };
  struct node *x = node_local(j->w->arena, op, (weft_dtype)like->dtype, 2, dims, n, in, attr, bytes);
  if (!x) return j->w->no_memory = true, NULL;
  x->slot = -1, x->origin = like->origin;
  return x;
}

static dim columns_of(const struct node *x) { return x->dims[x->rank - 1]; }
static dim rows_of(const struct node *x) { return dim_count(x->rank - 1, x->dims); }

/* Its leading axes are one axis in memory. */
static bool is_joined(const struct node *x, const struct place *p) {
  int64_t next = 0, size = 1;
  bool ok = true;
  for (int k = x->rank - 2; k >= 0; k--) {
    if (x->dims[k] == 1) continue;
    if (size > 1) ok &= p->stride[k] == next * size;
    else next = p->stride[k];
    size *= x->dims[k];
  }
  return ok;
}

enum { DEPTH = 8 };

/* A reshape of an expression with one user sinks to its operands: they are looked at too, but for those far below. */
static bool joins(const struct joining *j, const struct node *x, int depth) {
  if (j->flat[x->slot] || scalar_of(x)) return true;
  if (!is_joined(x, &j->place[x->slot])) return false;
  if (x->op->kind != OP_ELEMENT || local_of(x)->n_uses != 1 || !depth) return true;
  for (int k = 0; k < x->n_in; k++) if (!joins(j, x->in[k], depth - 1)) return false;
  return true;
}

/* x, which joins, as [rows, columns]. */
static struct node *flat_of(struct joining *j, struct node *x) {
  struct node *s = (struct node *)scalar_of(x);
  if (j->flat[x->slot]) return j->flat[x->slot];
  if (!s && x->op == &op_broadcast && x->in[0]->rank <= 1) s = x->in[0]; /* the same in every row */
  return made(j, s ? &op_broadcast : &op_reshape, x, columns_of(x), rows_of(x), 1, s ? &s : &x, NULL, 0);
}

/* ---- products ---- */

static bool is_transposed(const struct node *v) { /* the last two axes and no others */
  const struct transpose_attr *t = v->op == &op_transpose ? v->attr : NULL;
  for (int k = 0; t && k < v->rank; k++)
    if (t->axes[k] != (k < v->rank - 2 ? k : 2 * v->rank - 3 - k)) return false;
  return t != NULL;
}

struct node *matrix_of_all(struct node *b, bool *is_turned) {
  if ((*is_turned = is_transposed(b))) b = b->in[0];
  struct node *x = b->in[0];
  if (b->op != &op_broadcast || x->rank < 2 || rows_of(x) != x->dims[x->rank - 2]) return NULL;
  return !memcmp(x->dims + x->rank - 2, b->dims + b->rank - 2, 2 * sizeof *x->dims) ? x : NULL;
}

static struct node *right_of(struct joining *j, struct node *x, bool is_turned) {
  struct transpose_attr swap;
  memset(&swap, 0, sizeof swap);
  swap.axes[0] = 1;
  if (x->rank > 2) x = made(j, &op_reshape, x, columns_of(x), rows_of(x), 1, &x, NULL, 0);
  if (!x || !is_turned) return x;
  return made(j, &op_transpose, x, x->dims[0], x->dims[1], 1, &x, &swap, sizeof(int[2]));
}

static struct node *product_flat(struct joining *j, struct node *x) {
  bool is_turned;
  struct node *b = x->rank > 2 ? matrix_of_all(x->in[1], &is_turned) : NULL;
  if (!b || rows_of(x) == x->dims[x->rank - 2] || !rows_of(x)) return NULL;
  if (!contract_is_by_patches(j->w, x) || !joins(j, x->in[0], DEPTH)) return NULL;
  struct node *in[2] = { flat_of(j, x->in[0]), right_of(j, b, is_turned) };
  return in[0] && in[1] ? made(j, x->op, x, columns_of(x), rows_of(x), 2, in, NULL, 0) : NULL;
}

/* ---- what follows ---- */

static struct node *element_flat(struct joining *j, struct node *x) {
  struct node *in[ELEMENT_MOST];
  bool is_wanted = false;
  if (x->rank < 2 || x->n_in > ELEMENT_MOST) return NULL;
  for (int k = 0; k < x->n_in; k++) {
    is_wanted |= j->flat[x->in[k]->slot] != NULL;
    if (!joins(j, x->in[k], DEPTH)) return NULL;
  }
  for (int k = 0; is_wanted && k < x->n_in; k++) if (!(in[k] = flat_of(j, x->in[k]))) return NULL;
  return is_wanted ? made(j, x->op, x, columns_of(x), rows_of(x), x->n_in, in, x->attr, x->attr_bytes) : NULL;
}

static struct node *fold_flat(struct joining *j, struct node *x) {
  struct axis_attr a = *(const struct axis_attr *)x->attr;
  struct node *in = j->flat[x->in[0]->slot];
  if (!in || a.axis != x->rank - 1) return NULL;
  a.axis = 1;
  return made(j, x->op, x, 1, rows_of(x), 1, &in, &a, sizeof a);
}

static struct node *broadcast_flat(struct joining *j, struct node *x) {
  const struct node *y = x->in[0];
  struct node *in = j->flat[y->slot];
  if (!in || x->op != &op_broadcast || y->rank != x->rank || memcmp(y->dims, x->dims, sizeof *x->dims * (size_t)(x->rank - 1)))
    return NULL;
  return made(j, x->op, x, columns_of(x), rows_of(x), 1, &in, NULL, 0);
}

static struct node *becomes(struct joining *j, struct node *x) {
  if (x->op->kind == OP_CONTRACT) return product_flat(j, x);
  if (x->op->kind == OP_ELEMENT) return element_flat(j, x);
  if (x->op->kind == OP_REDUCE) return fold_flat(j, x);
  return x->op->kind == OP_VIEW ? broadcast_flat(j, x) : NULL;
}

static void find_place(struct joining *j, const struct node *x) {
  struct place *p = &j->place[x->slot];
  if (x->op == &op_value) *p = j->w->leaf_place[local_of(x)->leaf];
  else if (x->op->kind != OP_VIEW || !place_view(x, &j->place[x->in[0]->slot], p)) place_dense(x, 0, p); /* copied where it must */
}

bool rows_join(struct work *w) {
  int n = w->list->n;
  struct joining j = { w, work_take(w, sizeof *j.place * (size_t)n), work_take(w, sizeof *j.flat * (size_t)n) };
  if (!j.place || !j.flat) return false;
  memset(j.flat, 0, sizeof *j.flat * (size_t)n);
  for (int i = 0; i < n; i++) {
    struct node *x = w->list->node[i], *y;
    find_place(&j, x);
    if (!(y = j.flat[i] = becomes(&j, x))) continue;
    struct node *shown = node_local(w->arena, &op_reshape, (weft_dtype)x->dtype, x->rank, x->dims, 1, &y, NULL, 0);
    if (!shown) return !(w->no_memory = true);
    local_become(x, shown);
  }
  return !w->no_memory;
}
