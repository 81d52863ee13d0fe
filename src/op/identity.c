/* identity.c -- nodes that pass their first operand on: a new name, a wall for derivatives, an order of events, a
 * place (run/move.c). They are gone before anything is scheduled. */
#include "base/mem.h"
#include "op/operand.h"

static weft_array *pass_vjp(const struct rule *r, int k, weft_array *dy) { return (void)r, k == 0 ? dy : NULL; }
static weft_array *pass_batch(const struct rule *r, const bool is_mapped[]) { return (void)is_mapped, r->in[0]; }
static weft_array *stop_batch(const struct rule *r, const bool is_mapped[]) {
  return (void)is_mapped, weft_stop_gradient(r->in[0]);
}

/* All of the operands are to be computed before; a mapped one among them makes every row wait for all of it. */
static weft_array *depends_batch(const struct rule *r, const bool is_mapped[]) {
  weft_array *y = weft_depends(r->in[0], r->n_in - 1, r->in + 1);
  if (is_mapped[0]) return y;
  for (int k = 1; k < r->n_in; k++)
    if (is_mapped[k]) {
      dim d[WEFT_RANK_MAX + 1] = { r->in[k]->node->dims[0] };
      for (int i = 0; i < r->node->rank; i++) d[i + 1] = r->node->dims[i];
      return array_broadcast("weft_map", y, r->node->rank + 1, d);
    }
  return y;
}

/* A tangent waits as its array does: what reads it may need a size that becomes known so. */
static weft_array *depends_jvp(const struct rule *r, int k, weft_array *dx) {
  return k == 0 ? weft_depends(dx, r->n_in - 1, r->in + 1) : NULL;
}

static struct node *pass_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  return node_make(n->op, (weft_dtype)in[0]->dtype, in[0]->rank, in[0]->dims, n->n_made, in, n->attr, n->attr_bytes);
}

const struct op op_alias = { .name = "alias", .kind = OP_IDENTITY, .vjp = pass_vjp, .jvp = pass_vjp,
                             .batch = pass_batch, .again = pass_again };
const struct op op_stop_gradient = { .name = "stop_gradient", .kind = OP_IDENTITY, .batch = stop_batch,
                                     .again = pass_again };
const struct op op_depends = { .name = "depends", .kind = OP_IDENTITY, .vjp = pass_vjp, .jvp = depends_jvp,
                               .batch = depends_batch, .again = pass_again };

/* ---- Placing ---- */

static int device_of(const struct node *n) { return (int)((const struct to_attr *)n->attr)->device; }

/* A cotangent goes back to where the operand is placed. */
static weft_array *to_vjp(const struct rule *r, int k, weft_array *dy) { return (void)k, weft_to(dy, r->in[0]->node->place - 1); }
static weft_array *to_jvp(const struct rule *r, int k, weft_array *dx) { return (void)k, weft_to(dx, device_of(r->node)); }
static weft_array *to_batch(const struct rule *r, const bool is_mapped[]) {
  return (void)is_mapped, weft_to(r->in[0], device_of(r->node));
}

const struct op op_to = { .name = "to", .kind = OP_IDENTITY, .vjp = to_vjp, .jvp = to_jvp, .batch = to_batch, .again = pass_again };

static weft_array *passed(const char *fn, const struct op *op, weft_array *x) {
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct node *y = node_make(op, (weft_dtype)n->dtype, n->rank, n->dims, 1, &n, NULL, 0);
  node_release(n);
  return array_of(y);
}

weft_array *weft_stop_gradient(weft_array *x) { return passed("weft_stop_gradient", &op_stop_gradient, x); }

weft_array *weft_alias(weft_array *x) {
  struct weft_scope *s = scope_current();
  if (s) scope_mark_trace(s);
  return passed("weft_alias", &op_alias, x);
}

weft_array *weft_depends(weft_array *x, int n, weft_array *const on[]) {
  weft_array *bad;
  if (n < 0 || (n && !on)) return array_bad(WEFT_ERR_ARG, "weft_depends: on %d arrays", n);
  size_t m = (size_t)n + 1;
  weft_array **all = mem_alloc(m * sizeof *all);
  struct node **node = mem_alloc(m * sizeof *node);
  weft_array *y = all && node ? NULL : array_of(NULL);
  if (!y) {
    all[0] = x;
    for (int i = 0; i < n; i++) all[i + 1] = on[i];
    if (operands("weft_depends", n + 1, all, node, &bad)) {
      y = array_of(
          node_make(&op_depends, (weft_dtype)node[0]->dtype, node[0]->rank, node[0]->dims, n + 1, node, NULL, 0));
      nodes_release(n + 1, node);
    } else {
      y = bad;
    }
  }
  mem_free(all);
  mem_free(node);
  return y;
}

weft_array *array_with_size(weft_array *x, int axis, dim size) {
  struct node *n = array_good_node(x);
  dim dims[WEFT_RANK_MAX];
  if (!n) return x;
  for (int k = 0; k < n->rank; k++) dims[k] = k == axis || k == axis + n->rank ? size : n->dims[k];
  return array_of(node_agree(n, -1, dims));
}

weft_array *array_said_by(weft_array *y, weft_array *n) {
  struct node *node = n ? array_node(n) : NULL;
  bool is_trusting = node && node_is_trusting(node);
  node_release(node);
  return is_trusting ? weft_depends(y, 1, &n) : y;
}

weft_array *array_waits_with(weft_array *y, weft_array *x) {
  struct node *n = array_good_node(x);
  for (int k = 1; n && n->op == &op_depends && k < n->n_made; k++) {
    graph_lock(); /* an evaluation may drop what it waits for */
    struct node *other = n->n_in ? node_retain(n->in[k]) : NULL;
    graph_unlock();
    if (!other) break;
    weft_array *on = array_of(other);
    y = weft_depends(y, 1, &on);
  }
  node_release(n);
  return y;
}

weft_array *array_agrees(weft_array *x, weft_array *like) {
  return array_sized_by(array_of(node_agree(array_node(x), -1, like->node->dims)), like);
}

weft_array *array_sized_by(weft_array *y, weft_array *like) {
  struct node *n = array_good_node(like);
  weft_array *on[WEFT_RANK_MAX];
  int m = 0;
  for (int k = 0; n && k < n->rank; k++)
    if (!dim_is_known(n->dims[k]) || (k == 0 && (node_is_trusting(n) || node_is_told(n)))) on[m++] = weft_size(like, k);
  node_release(n);
  return m ? weft_depends(y, m, on) : y;
}
