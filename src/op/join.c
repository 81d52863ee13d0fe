/* join.c -- arrays put beside one another, and beside a number; and taken apart again. */
#include <string.h>
#include "base/mem.h"
#include "op/index.h"
#include "op/later.h"

/* ---- Concatenate ---- */

static int axis_of(const struct rule *r) { return ((const struct axis_attr *)r->node->attr)->axis; }

static dim start_of(const struct rule *r, int k) {
  dim at = 0;
  for (int i = 0; i < k; i++) at = dim_add(at, r->in[i]->node->dims[axis_of(r)]);
  return at;
}

/* d, which has the sizes of the result: where operand k begins is told by those before it. */
static weft_array *told(const struct rule *r, int k, weft_array *d) {
  for (int j = 0; j <= k; j++) {
    if (dim_is_known(r->in[j]->node->dims[axis_of(r)])) continue;
    weft_array *size = weft_size(r->in[j], axis_of(r));
    d = weft_depends(d, 1, &size);
  }
  return d;
}

static weft_array *concat_vjp(const struct rule *r, int k, weft_array *dy) {
  return array_slice(told(r, k, dy), axis_of(r), start_of(r, k), r->in[k]->node->dims[axis_of(r)], 1);
}

static weft_array *concat_push(const struct rule *r, weft_array *const dx[]) {
  weft_array **part = mem_alloc((size_t)r->n_in * sizeof *part);
  for (int k = 0; part && k < r->n_in; k++) part[k] = dx[k] ? dx[k] : zeros_like(r->in[k]);
  weft_array *y = part ? weft_concat(axis_of(r), r->n_in, part) : array_of(NULL);
  mem_free(part);
  return y;
}

/* What is not mapped is the same in every row. */
static const struct node *first_mapped(const struct rule *r, const bool is_mapped[]) {
  for (int k = 0; k < r->n_in; k++)
    if (is_mapped[k]) return r->in[k]->node;
  return r->in[0]->node;
}

static weft_array *concat_batch(const struct rule *r, const bool is_mapped[]) {
  int n = r->n_in;
  weft_array **x = mem_alloc((size_t)n * sizeof *x);
  if (!x) return array_of(NULL);
  for (int k = 0; k < n; k++)
    x[k] = is_mapped[k] ? r->in[k] : array_spread(r->in[k], first_mapped(r, is_mapped)->dims[0]);
  weft_array *y = weft_concat(axis_of(r) + 1, n, x);
  mem_free(x);
  return y;
}

static struct node *concat_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  dim d[WEFT_RANK_MAX];
  int axis = ((const struct axis_attr *)n->attr)->axis;
  memcpy(d, in[0]->dims, in[0]->rank * sizeof *d);
  for (int i = 1; i < n->n_made; i++) d[axis] = dim_add(d[axis], in[i]->dims[axis]);
  return d[axis] == DIM_BAD
             ? NULL
             : node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, d, n->n_made, in, n->attr, n->attr_bytes);
}

const struct op op_concat = { .name = "concat", .kind = OP_CONCAT, .vjp = concat_vjp, .push = concat_push,
                              .batch = concat_batch, .again = concat_again };

static struct failure *concat_dims(int axis, int n, struct node *const node[], dim d[]) {
  struct shape_text a, b;
  dim pair[WEFT_RANK_MAX];
  for (int i = 1; i < n; i++)
    if (!dims_meet("weft_concat", 2, (struct node *[]){ node[0], node[i] }, axis, pair))
      return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_concat: %s and %s do not fit beside axis %d",
                  shape_show(node[0], &a), shape_show(node[i], &b), axis);
  (void)dims_meet("weft_concat", n, node, axis, d); /* a number, where one of them knows it */
  d[axis] = node[0]->dims[axis];
  for (int i = 1; i < n; i++) d[axis] = dim_add(d[axis], node[i]->dims[axis]);
  return count_check("weft_concat", node[0]->rank, d);
}

static weft_array *concat(int axis, int n, struct node *node[]) {
  dim d[WEFT_RANK_MAX];
  weft_dtype dtype;
  struct failure *why = axis_check("weft_concat", node[0], &axis);
  if (!why) why = concat_dims(axis, n, node, d);
  if (!why) why = common_dtype("weft_concat", n, node, &dtype);
  if (why) return array_of_bad(why, n, node);
  int rank = node[0]->rank;
  bool ok = true;
  for (int i = 0; i < n; i++) ok &= (node[i] = node_agree(node_cast(node[i], dtype), axis, d)) != NULL;
  struct node *y =
      ok ? node_make(&op_concat, dtype, rank, d, n, node, &(struct axis_attr){ axis }, sizeof(struct axis_attr)) : NULL;
  nodes_release(n, node);
  return array_of(y);
}

/* Counts the new axis from 0; they all have one shape. */
static struct failure *stack_check(int *axis, int n, weft_array *const x[]) {
  struct shape_text a, b;
  struct node *first = array_node(x[0]);
  struct failure *why = NULL;
  int rank = first->rank + 1, k = *axis < 0 ? *axis + rank : *axis;
  if (k < 0 || k >= rank || rank > WEFT_RANK_MAX)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_stack: no axis %d in a stack of %s", *axis, shape_show(first, &a));
  for (int i = 1; i < n && !why; i++) {
    struct node *next = array_node(x[i]);
    dim d[WEFT_RANK_MAX];
    if (!dims_meet("weft_stack", 2, (struct node *[]){ first, next }, -1, d))
      why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_stack: %s and %s differ", shape_show(first, &a),
                 shape_show(next, &b));
    node_release(next);
  }
  node_release(first);
  *axis = k;
  return why;
}

weft_array *weft_concat(int axis, int n, weft_array *const x[]) {
  weft_array *bad;
  if (n < 1) return array_bad(WEFT_ERR_ARG, "weft_concat: of %d arrays", n);
  if (!x) return array_bad(WEFT_ERR_ARG, "weft_concat: the list of %d arrays is NULL", n);
  struct node **node = mem_alloc((size_t)n * sizeof *node);
  if (!node) return array_of(NULL);
  weft_array *y = operands("weft_concat", n, x, node, &bad) ? concat(axis, n, node) : bad;
  mem_free(node);
  return y;
}

/* Each with the new axis, beside one another along it. */
weft_array *weft_stack(int axis, int n, weft_array *const x[]) {
  weft_array *bad;
  if (n < 1) return array_bad(WEFT_ERR_ARG, "weft_stack: of %d arrays", n);
  if (!x) return array_bad(WEFT_ERR_ARG, "weft_stack: the list of %d arrays is NULL", n);
  if (!arrays_ok("weft_stack", n, x, &bad)) return bad;
  struct failure *why = stack_check(&axis, n, x);
  if (why) return array_failed(why);
  weft_array **thin = mem_alloc((size_t)n * sizeof *thin);
  if (!thin) return array_of(NULL);
  for (int i = 0; i < n; i++) thin[i] = weft_unsqueeze(x[i], axis);
  weft_array *y = weft_concat(axis, n, thin);
  mem_free(thin);
  return y;
}

/* ---- Split ---- */

struct split_options { int axis, n, which; };

static weft_array *write_part(const void *options, weft_array *const in[]) {
  const struct split_options *o = options;
  weft_array **parts = mem_alloc((size_t)o->n * sizeof *parts), *part = NULL;
  if (parts) weft_split(in[0], o->axis, o->n, parts), part = parts[o->which];
  return mem_free(parts), part ? part : array_of(NULL);
}

/* Whether an axis has parts of one length is not known yet. */
static weft_array *part_later(weft_array *x, int axis, int n, int which) {
  dim dims[WEFT_RANK_MAX];
  const struct node *of = x->node;
  struct split_options o = { axis, n, which };
  memcpy(dims, of->dims, of->rank * sizeof *dims);
  dims[axis] = dim_quotient(dims[axis], n);
  return array_later(write_part, &o, sizeof o, 1, &x, (weft_dtype)of->dtype, of->rank, dims);
}

/* *length: DIM_BAD where that is not known. */
static struct failure *split_check(const struct node *x, int *axis, int n, dim *length) {
  struct shape_text s;
  struct failure *why = axis_check("weft_split", x, axis);
  bool is_whole = !why && dim_divide(x->dims[*axis], n, length);
  if (!why && !is_whole) *length = DIM_BAD;
  if (!why && !is_whole && dim_is_known(dim_resolve(x->dims[*axis])))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_split: axis %d of %s is not %d equal parts", *axis,
               shape_show(x, &s), n);
  return why;
}

static void split(struct node *x, int axis, int n, weft_array *parts[]) {
  dim length = 0, at = 0;
  struct failure *why = split_check(x, &axis, n, &length);
  weft_array *bad = why ? array_failed(why) : NULL, *all = array_of(x);
  for (int i = 0; i < n; i++) {
    if (bad) parts[i] = bad;
    else if (length == DIM_BAD) parts[i] = part_later(all, axis, n, i);
    else parts[i] = array_apart_from(all, array_slice(all, axis, at, length, 1)), at = dim_add(at, length);
  }
}

void weft_split(weft_array *x, int axis, int n, weft_array *parts[]) {
  struct node *node;
  weft_array *bad;
  if (n < 1 || !parts) {
    scope_blame(fail(WEFT_ERR_ARG, scope_origin(), n < 1 ? "weft_split: into %d parts"
                                                         : "weft_split: the list of %d parts is NULL", n));
    return;
  }
  if (operands("weft_split", 1, &x, &node, &bad)) split(node, axis, n, parts);
  else
    for (int i = 0; i < n; i++) parts[i] = bad;
}

/* ---- Pad ---- */

static const struct pad_attr *pad_of(const struct rule *r) { return r->node->attr; }

/* The sum over what the padding covers: all of dy but the part that is x. */
static weft_array *pad_vjp(const struct rule *r, int k, weft_array *dy) {
  int axis = (int)pad_of(r)->axis;
  weft_array *inside = array_slice(dy, axis, pad_of(r)->before, r->in[0]->node->dims[axis], 1);
  return k == 0 ? inside : weft_sum(weft_put(dy, inside, number_like(dy, 0), WEFT_SET), WEFT_ALL);
}

static weft_array *pad_jvp(const struct rule *r, int k, weft_array *dx) {
  const struct pad_attr *a = pad_of(r);
  weft_array *zero = number_like(dx, 0);
  return k == 0 ? weft_pad(dx, (int)a->axis, a->before, a->after, zero)
                : weft_pad(weft_broadcast_like(zero, r->in[0]), (int)a->axis, a->before, a->after, dx);
}

/* A padding that differs from row to row is put where the array is not. */
static weft_array *pad_batch(const struct rule *r, const bool is_mapped[]) {
  const struct pad_attr *a = pad_of(r);
  int axis = (int)a->axis + 1;
  if (!is_mapped[1]) return weft_pad(r->in[0], axis, a->before, a->after, r->in[1]);
  weft_array *x = is_mapped[0] ? r->in[0] : array_spread(r->in[0], r->in[1]->node->dims[0]), *value = r->in[1];
  weft_array *padded = weft_pad(x, axis, a->before, a->after, number_like(x, 0));
  for (int k = 1; k < x->node->rank; k++) value = weft_unsqueeze(value, -1);
  weft_array *all = weft_broadcast_like(value, padded);
  return weft_put(all, array_slice(all, axis, a->before, x->node->dims[axis], 1), x, WEFT_SET);
}

static struct node *pad_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  const struct pad_attr *a = n->attr;
  dim d[WEFT_RANK_MAX];
  memcpy(d, in[0]->dims, in[0]->rank * sizeof *d);
  d[a->axis] = dim_add(d[a->axis], a->before + a->after);
  return d[a->axis] == DIM_BAD ? NULL
                               : node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, d, 2, in, n->attr, n->attr_bytes);
}

const struct op op_pad = { .name = "pad", .kind = OP_PAD, .vjp = pad_vjp, .jvp = pad_jvp, .batch = pad_batch,
                           .again = pad_again };

static struct failure *pad_check(struct node *const n[2], int *axis, int64_t before, int64_t after, dim d[]) {
  struct shape_text s;
  int64_t more;
  struct failure *why = axis_check("weft_pad", n[0], axis);
  if (why) return why;
  if (before < 0 || after < 0)
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_pad: %lld before and %lld after; see weft_slice", (long long)before,
                (long long)after);
  if (n[1]->rank)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_pad: the value is %s, not 0-d", shape_show(n[1], &s));
  memcpy(d, n[0]->dims, n[0]->rank * sizeof *d);
  if (__builtin_add_overflow(before, after, &more))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_pad: %lld before and %lld after are too many", (long long)before,
                (long long)after);
  d[*axis] = dim_add(d[*axis], more);
  return count_check("weft_pad", n[0]->rank, d);
}

weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, weft_array *value) {
  struct node *n[2];
  weft_array *bad;
  weft_dtype dtype;
  dim d[WEFT_RANK_MAX];
  if (!arrays_nodes("weft_pad", 2, (weft_array *[]){ x, value }, n, &bad)) return bad;
  struct failure *why = pad_check(n, &axis, before, after, d);
  if (!why) why = common_dtype("weft_pad", 2, n, &dtype);
  if (why) return array_of_bad(why, 2, n);
  int rank = n[0]->rank;
  for (int i = 0; i < 2; i++) n[i] = node_cast(n[i], dtype);
  struct node *y = n[0] && n[1] ? node_make(&op_pad, dtype, rank, d, 2, n, &(struct pad_attr){ axis, before, after },
                                            sizeof(struct pad_attr))
                                : NULL;
  nodes_release(2, n);
  return array_of(y);
}
