/* windows.c -- windows that slide along an axis: y[.., i, .., j] = x[.., i step + j dilation, ..], a view whatever the
 * strides of x are. What convolutions and pools are made of. Unlike as_strided, it needs no elements row by row. */
#include <string.h>
#include "op/index.h"

enum { FEW = 16 }; /* places of a window that are added one by one rather than through indices */

static const struct windows_attr *attr_of(const struct node *n) { return n->attr; }

/* Elements between the first and the last of a window. */
static int64_t span(const struct windows_attr *a, int64_t n) { return (n - 1) * a->dilation; }

/* How many windows an axis has room for: floor((size - 1 - span) / step) + 1. DIM_BAD: it cannot be said. */
static dim count_of(dim size, const struct windows_attr *a, int64_t n) {
  if (dim_is_known(size)) return size <= span(a, n) ? 0 : (size - 1 - span(a, n)) / a->step + 1;
  dim rest = dim_sub(size, span(a, n));
  return a->step == 1 ? rest : dim_quotient(dim_add(rest, a->step - 1), a->step);
}

static struct node *windows_node(struct node *x, const struct windows_attr *a, int64_t n, dim count) {
  dim d[WEFT_RANK_MAX];
  for (int k = 0; k < x->rank; k++) d[k] = k == a->axis ? count : x->dims[k];
  d[x->rank] = n;
  return node_make(&op_windows, (weft_dtype)x->dtype, x->rank + 1, d, 1, &x, a, sizeof *a);
}

/* ---- Rules ---- */

static int64_t length_of(const struct node *n) { return n->dims[n->rank - 1]; }

static weft_array *windows_of(weft_array *x, const struct windows_attr *a, const struct node *like, int shift) {
  struct windows_attr b = *a;
  struct node *n = array_good_node(x), *y;
  if (!n) return x;
  b.axis += shift;
  y = windows_node(n, &b, length_of(like), like->dims[a->axis]);
  node_release(n);
  return array_of(y);
}

static weft_array *windows_jvp(const struct rule *r, int k, weft_array *dx) {
  return (void)k, windows_of(dx, attr_of(r->node), r->node, 0);
}

static weft_array *windows_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  if (r->node->rank == WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "weft_map: the rank would be %d", r->node->rank + 1);
  return windows_of(r->in[0], attr_of(r->node), r->node, 1);
}

/* Element j of every window, where it was read: x's i step + j dilation. */
static weft_array *part_of(weft_array *x, const struct node *y, int64_t j) {
  const struct windows_attr *a = attr_of(y);
  return array_slice(x, (int)a->axis, j * a->dilation, y->dims[a->axis], a->step);
}

/* dx gathers what each place of the windows read: a sum of n shifted arrays. */
static weft_array *add_parts(const struct node *x, const struct node *y, weft_array *dy) {
  weft_array *dx = zeros_of(x);
  for (int64_t j = 0; j < length_of(y); j++)
    dx = weft_put(dx, part_of(dx, y, j), weft_at(dy, -1, weft_integer(j)), WEFT_ADD);
  return dx;
}

/* The same through indices, for long windows. */
static weft_array *add_at_indices(const struct node *x, const struct node *y, weft_array *dy) {
  const struct windows_attr *a = attr_of(y);
  int axis = (int)a->axis;
  weft_array *parts = weft_moveaxis(weft_moveaxis(dy, -1, 0), axis + 1, 0);
  struct node like = { .dtype = WEFT_I64, .rank = 2, .dims = (dim[]){ y->dims[axis], length_of(y) } };
  weft_array *zeros = zeros_of(&like);
  weft_array *at = weft_add(weft_mul(weft_iota(zeros, 0), weft_integer(a->step)),
                            weft_mul(weft_iota(zeros, 1), weft_integer(a->dilation)));
  return weft_moveaxis(array_scatter(weft_moveaxis(zeros_of(x), axis, 0), parts, 1, &at, WEFT_ADD, BY_PUT), 0, axis);
}

static weft_array *windows_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  const struct node *x = r->in[0]->node, *y = r->node;
  bool is_short = length_of(y) <= FEW && dim_is_known(y->dims[attr_of(y)->axis]);
  return (is_short ? add_parts : add_at_indices)(x, y, dy);
}

static struct failure *no_count(const struct node *x, const struct windows_attr *a, int64_t n) {
  struct shape_text s;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_windows: how many windows of %lld in steps of %lld fit axis %lld of %s "
              "is not known yet", (long long)n, (long long)a->step, (long long)a->axis, shape_show(x, &s));
}

static struct node *windows_again(const struct node *n, struct node *const in[], struct failure **why) {
  dim count = count_of(in[0]->dims[attr_of(n)->axis], attr_of(n), length_of(n));
  if (count == DIM_BAD) return *why = no_count(in[0], attr_of(n), length_of(n)), NULL;
  return windows_node(in[0], attr_of(n), length_of(n), count);
}

/* Sizes that became known later have room for the windows that were counted. */
static struct failure *windows_agree(const struct node *n) {
  dim size = n->in[0]->dims[attr_of(n)->axis], count = n->dims[attr_of(n)->axis];
  bool is_short = dim_is_known(size) && size <= span(attr_of(n), length_of(n));
  if (!is_short && (!dim_is_known(count) || count_of(size, attr_of(n), length_of(n)) == count)) return NULL;
  return fail(WEFT_ERR_SHAPE, n->origin, "weft_windows: a window of %lld, dilated by %lld, is longer than an axis of %lld",
              (long long)length_of(n), (long long)attr_of(n)->dilation, (long long)size);
}

const struct op op_windows = { .name = "windows", .kind = OP_VIEW, .chooses = true, .vjp = windows_vjp, .jvp = windows_jvp,
                               .batch = windows_batch, .again = windows_again, .agree = windows_agree };

/* ---- weft_windows ---- */

static struct failure *check(const struct node *x, int *axis, int64_t n, int64_t step, int64_t dilation) {
  struct failure *why = axis_check("weft_windows", x, axis);
  int64_t reach;
  struct shape_text s;
  if (why) return why;
  if (x->rank == WEFT_RANK_MAX) return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_windows: the rank would be %d", x->rank + 1);
  if (n < 1 || step < 1 || dilation < 1)
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_windows: length %lld, step %lld, dilation %lld: all are at least 1",
                (long long)n, (long long)step, (long long)dilation);
  dim size = x->dims[*axis];
  if (!__builtin_mul_overflow(n - 1, dilation, &reach) && (!dim_is_known(size) || reach < size)) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_windows: a window of %lld, dilated by %lld, is longer than axis %d of %s",
              (long long)n, (long long)dilation, *axis, shape_show(x, &s));
}

weft_array *weft_windows(weft_array *x, int axis, int64_t n, int64_t step, int64_t dilation) {
  struct node *v, *y;
  weft_array *bad;
  if (!operands("weft_windows", 1, &x, &v, &bad)) return bad;
  struct failure *why = check(v, &axis, n, step, dilation);
  struct windows_attr a = { axis, step, dilation };
  dim count = why ? DIM_BAD : count_of(v->dims[axis], &a, n);
  if (!why && count == DIM_BAD) why = no_count(v, &a, n);
  if (why) return array_of_bad(why, 1, &v);
  y = windows_node(v, &a, n, count);
  node_release(v);
  return array_of(y);
}
