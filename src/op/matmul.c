/* matmul.c -- matrix products. [..,m,k] x [..,k,n] -> [..,m,n]; batch dims of the node are equal in both operands,
 * which have one dtype: that of the node or, of narrow integers, one whose sums have it. */
#include <string.h>
#include "op/operand.h"

/* ---- Rules ---- */

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }

/* Whether an operand shows a matrix with its last two axes exchanged, and the others as they are. */
static bool is_turned(const weft_array *x) {
  const struct node *n = x->node;
  if (n->op != &op_transpose || n->rank < 2) return false;
  const int *axes = n->attr;
  for (int k = 0; k < n->rank - 2; k++)
    if (axes[k] != k) return false;
  return axes[n->rank - 1] == n->rank - 2;
}

/* y = a b:  da = dy b',  db = a' dy. The derivative by a matrix that is shown turned is turned back behind this; so that it
 * comes to lie as the matrix does, and what is made of both (a step of an optimiser) reads rows of both, it is the transpose
 * of another product: a' dy = (dy' a)', whose elements are the same sums. */
static weft_array *matmul_vjp(const struct rule *r, int k, weft_array *dy) {
  weft_array *a = r->in[0], *b = r->in[1];
  if (is_turned(r->in[k])) return turned(k == 0 ? weft_matmul(b, turned(dy)) : weft_matmul(turned(dy), a));
  return k == 0 ? weft_matmul(dy, turned(b)) : weft_matmul(turned(a), dy);
}

static weft_array *matmul_jvp(const struct rule *r, int k, weft_array *dx) {
  return k == 0 ? weft_matmul(dx, r->in[1]) : weft_matmul(r->in[0], dx);
}

/* An operand that is not mapped broadcasts, for its batch dims stand on the right of the new axis. */
static weft_array *matmul_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  return weft_matmul(r->in[0], r->in[1]);
}

static struct node *matmul_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  dim d[WEFT_RANK_MAX];
  int rank = in[0]->rank;
  memcpy(d, in[0]->dims, (size_t)rank * sizeof *d);
  d[rank - 1] = in[1]->dims[in[1]->rank - 1];
  return node_make(n->op, (weft_dtype)n->dtype, rank, d, 2, in, NULL, 0);
}

const struct op op_matmul = { .name = "matmul", .kind = OP_CONTRACT, .vjp = matmul_vjp, .jvp = matmul_jvp,
                              .batch = matmul_batch, .again = matmul_again };

/* ---- Making nodes ---- */

static struct failure *fits(const char *fn, struct node *const n[2]) {
  struct shape_text a, b;
  for (int i = 0; i < 2; i++)
    if (n[i]->rank == 0)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: a 0-d operand: %s x %s", fn, shape_show(n[0], &a), shape_show(n[1], &b));
  dim left = n[0]->dims[n[0]->rank - 1], right = n[1]->dims[n[1]->rank > 1 ? n[1]->rank - 2 : 0];
  if (sizes_meet(fn, left, right)) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: inner lengths differ: %s x %s", fn, shape_show(n[0], &a), shape_show(n[1], &b));
}

/* The batch part of the shape that both broadcast to. */
static struct failure *batch_dims(const char *fn, struct node *const n[2], int *rank, dim dims[]) {
  struct shape_text a, b;
  int ra = n[0]->rank - 2, rb = n[1]->rank - 2;
  *rank = ra > rb ? ra : rb;
  for (int k = 0; k < *rank; k++) {
    dim x = k < *rank - ra ? 1 : n[0]->dims[k - (*rank - ra)], y = k < *rank - rb ? 1 : n[1]->dims[k - (*rank - rb)];
    if (x != 1 && y != 1 && !sizes_meet(fn, x, y))
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: batches do not broadcast: %s x %s", fn, shape_show(n[0], &a),
                  shape_show(n[1], &b));
    dims[k] = x == 1 ? y : x;
  }
  return NULL;
}

static struct node *with_batch(struct node *x, int n_batch, dim dims[]) {
  if (!x) return NULL;
  memcpy(dims + n_batch, x->dims + x->rank - 2, 2 * sizeof *dims);
  return node_broadcast(x, n_batch + 2, dims);
}

/* Operands of dtype t; integers give what their sums have. */
static weft_array *product(const char *fn, struct node *n[2], weft_dtype t) {
  dim d[WEFT_RANK_MAX];
  int n_batch;
  struct failure *why = batch_dims(fn, n, &n_batch, d);
  if (why) return array_of_bad(why, 2, n);
  dim rows = n[0]->dims[n[0]->rank - 2], columns = n[1]->dims[n[1]->rank - 1];
  for (int i = 0; i < 2; i++) n[i] = with_batch(node_cast(n[i], t), n_batch, d);
  d[n_batch] = rows;
  d[n_batch + 1] = columns;
  if (!n[0] || !n[1]) return nodes_release(2, n), array_of(NULL);
  return array_of(node_take(&op_matmul, dtype_of_sum(t), n_batch + 2, d, 2, n, NULL, 0));
}

/* b with the inner length of a, which it was taken to equal. */
static struct node *with_inner(struct node *b, dim length) {
  dim d[WEFT_RANK_MAX];
  memcpy(d, b->dims, (size_t)b->rank * sizeof *d);
  d[b->rank - 2] = length;
  return node_reshape(b, b->rank, d);
}

weft_array *array_matmul(const char *fn, weft_array *a, weft_array *b) {
  struct node *n[2];
  weft_array *bad;
  if (!operands(fn, 2, (weft_array *[]){ a, b }, n, &bad)) return bad;
  struct failure *why = fits(fn, n);
  if (why) return array_of_bad(why, 2, n);
  bool is_row = n[0]->rank == 1, is_column = n[1]->rank == 1;
  weft_dtype t = weft_dtype_promote((weft_dtype)n[0]->dtype, (weft_dtype)n[1]->dtype);
  if (is_row) n[0] = node_reshape(n[0], 2, (dim[]){ 1, n[0]->dims[0] });
  if (is_column) n[1] = node_reshape(n[1], 2, (dim[]){ n[1]->dims[0], 1 });
  if (n[0] && n[1]) n[1] = with_inner(n[1], n[0]->dims[n[0]->rank - 1]);
  if (!n[0] || !n[1]) return nodes_release(2, n), array_of(NULL);
  weft_array *y = product(fn, n, t == WEFT_BOOL ? WEFT_I32 : t);
  if (is_column) y = weft_squeeze(y, -1);
  return is_row ? weft_squeeze(y, is_column ? -1 : -2) : y;
}

weft_array *weft_matmul(weft_array *a, weft_array *b) { return array_matmul("weft_matmul", a, b); }
