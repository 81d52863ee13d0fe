/* view.c -- the same elements under other indices: reshape, broadcast, transpose, slice. */
#include <string.h>
#include "op/operand.h"

/* ---- Rules ----
 * Views are linear: forward they act on tangents as on values, backward by their transpose. Mapped ones have one more
 * axis in front. */

static const struct node *in_node(const struct rule *r) { return r->in[0]->node; }

static int with_first(const struct node *mapped, int rank, const dim dims[], dim out[]) {
  out[0] = mapped->dims[0];
  if (rank) memcpy(out + 1, dims, (size_t)rank * sizeof *dims);
  return rank + 1;
}

static bool counts_differ(const struct node *x, int rank, const dim dims[]) {
  return dim_differs(dim_resolve(dim_count(x->rank, x->dims)), dim_resolve(dim_count(rank, dims)));
}

static weft_array *reshape_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  return array_reshape("weft_reshape", dy, in_node(r)->rank, in_node(r)->dims);
}

static weft_array *reshape_jvp(const struct rule *r, int k, weft_array *dx) {
  (void)k;
  return array_reshape("weft_reshape", dx, r->node->rank, r->node->dims);
}

static weft_array *reshape_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  dim d[WEFT_RANK_MAX + 1];
  int rank = with_first(in_node(r), r->node->rank, r->node->dims, d);
  return array_reshape("weft_map", r->in[0], rank, d);
}

/* The transpose of stretching is summing. */
static weft_array *broadcast_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  const struct node *x = in_node(r), *y = r->node;
  for (int axis = y->rank - 1, at = y->rank - x->rank; axis >= 0; axis--)
    if (axis < at ? y->dims[axis] != 1 : !dim_same(x->dims[axis - at], y->dims[axis])) dy = weft_sum(dy, axis);
  return array_reshape("weft_broadcast", dy, x->rank, x->dims);
}

static weft_array *broadcast_jvp(const struct rule *r, int k, weft_array *dx) {
  (void)k;
  return array_broadcast("weft_broadcast", dx, r->node->rank, r->node->dims);
}

static weft_array *broadcast_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  const struct node *x = in_node(r), *y = r->node;
  dim d[WEFT_RANK_MAX + 1];
  int rank = with_first(x, y->rank, y->dims, d), at = y->rank - (x->rank - 1);
  dim thin[WEFT_RANK_MAX + 1];
  for (int k = 0; k < rank; k++) thin[k] = k == 0 ? x->dims[0] : k <= at ? 1 : x->dims[k - at];
  return array_broadcast("weft_map", array_reshape("weft_map", r->in[0], rank, thin), rank, d);
}

static weft_array *transpose_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  const int *axes = r->node->attr;
  int back[WEFT_RANK_MAX];
  for (int i = 0; i < r->node->rank; i++) back[axes[i]] = i;
  return weft_transpose(dy, back);
}

static weft_array *transpose_jvp(const struct rule *r, int k, weft_array *dx) {
  (void)k;
  return weft_transpose(dx, r->node->attr);
}

static weft_array *transpose_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  const int *axes = r->node->attr;
  int further[WEFT_RANK_MAX + 1] = { 0 };
  for (int i = 0; i < r->node->rank; i++) further[i + 1] = axes[i] + 1;
  return weft_transpose(r->in[0], further);
}

static struct node *transpose_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  const int *axes = n->attr;
  dim d[WEFT_RANK_MAX];
  for (int k = 0; k < n->rank; k++) d[k] = in[0]->dims[axes[k]];
  return node_make(n->op, (weft_dtype)in[0]->dtype, n->rank, d, 1, in, n->attr, n->attr_bytes);
}

/* Axes that are not stretched are as long as those of x. */
static struct node *broadcast_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  dim d[WEFT_RANK_MAX];
  for (int k = 0, at = n->rank - in[0]->rank; k < n->rank; k++)
    d[k] = k < at || dim_resolve(in[0]->dims[k - at]) == 1 ? n->dims[k] : in[0]->dims[k - at];
  return node_make(n->op, (weft_dtype)in[0]->dtype, n->rank, d, 1, in, NULL, 0);
}

static weft_array *slice_of(const struct rule *r, weft_array *x, int shift) {
  const struct slice_attr *a = r->node->attr;
  return array_slice(x, (int)a->axis + shift, a->start, r->node->dims[a->axis], a->step);
}

/* dx is 0 but for the part that was read. */
static weft_array *slice_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  const struct node *x = in_node(r);
  bool is_all = dims_equal(x->rank, x->dims, r->node->rank, r->node->dims) && ((const struct slice_attr *)r->node->attr)->step == 1;
  if (is_all) return dy;
  weft_array *zeros = array_waits_with(zeros_like(r->in[0]), r->in[0]);
  return weft_put(zeros, slice_of(r, zeros, 0), dy, WEFT_SET);
}

static weft_array *slice_jvp(const struct rule *r, int k, weft_array *dx) { return (void)k, slice_of(r, dx, 0); }
static weft_array *slice_batch(const struct rule *r, const bool is_mapped[]) {
  return (void)is_mapped, slice_of(r, r->in[0], 1);
}

static void slice_hold(const void *attr) { dim_retain(((const struct slice_attr *)attr)->start); }
static void slice_drop(const void *attr) { dim_release(((const struct slice_attr *)attr)->start); }

static bool slice_resize(const struct node *n, struct node *const in[], void *attr, struct dim_table *t, bool is_copied,
                         struct failure **why) {
  (void)is_copied;
  struct slice_attr *a = attr;
  struct shape_text s;
  a->start = t->n ? dim_substitute(a->start, t->n, t->symbol, t->value) : a->start;
  dim length = t->n ? dim_substitute(n->dims[a->axis], t->n, t->symbol, t->value) : n->dims[a->axis];
  if (length == 0) a->start = 0; /* what was the last element is none now */
  if (length == 0 || length == 1) a->step = 1; /* a step beyond memory is none */
  if (a->start != DIM_BAD && length != DIM_BAD && dim_slice_fits(in[0]->dims[a->axis], a->start, length, a->step))
    return slice_hold(a), true;
  *why = fail(WEFT_ERR_SHAPE, n->origin, "weft_slice: the bounds do not fit axis %d of %s", (int)a->axis,
              shape_show(in[0], &s));
  return false;
}

/* Bounds that turn out not to fit stay as they are: slice_agree says so. */
static bool slice_settle(struct node *n) {
  struct slice_attr *a = n->attr;
  if (dim_is_negative(a->start)) return true;
  dim length = dim_resolve(n->dims[a->axis]), now = length == 0 ? 0 : dim_resolve(a->start); /* of nothing, wherever it begins */
  if (length == 0 || length == 1) a->step = 1;
  if (dim_is_known(now)) node_tell(n, n->rank, &a->start, now);
  return now != DIM_BAD;
}

static bool slice_is_open(const struct node *n) { return !dim_is_known(((const struct slice_attr *)n->attr)->start); }

/* A sequence that is cut to steps known only now, or bounds of a size known only now. */
static struct failure *slice_agree(const struct node *n) {
  const struct slice_attr *a = n->attr;
  struct shape_text s;
  dim size = n->in[0]->dims[a->axis], length = n->dims[a->axis];
  if (dim_is_negative(a->start) || dim_is_negative(length))
    return fail(WEFT_ERR_SHAPE, n->origin, "weft_slice: the bounds do not fit axis %d of %s, whose size was not known before: "
                "they are not cut to fit there", (int)a->axis, shape_show(n->in[0], &s));
  if (dim_slice_fits(size, a->start, length, a->step)) return NULL;
  dim last = a->start + (length - 1) * a->step, reach = (last > a->start ? last : a->start) + 1;
  return fail(WEFT_ERR_SHAPE, n->origin,
              "weft_eval: a slice, or a loop over a sequence, needs %lld elements of an axis that has %lld",
              (long long)reach, (long long)size);
}

static struct failure *reshape_agree(const struct node *n) {
  struct shape_text a, b;
  if (!counts_differ(n->in[0], n->rank, n->dims)) return NULL;
  return fail(WEFT_ERR_SHAPE, n->origin, "weft_reshape: sizes that were taken to be equal differ: %s and %s",
              shape_show(n->in[0], &a), dims_show(n->rank, n->dims, &b));
}

const struct op op_reshape = { .name = "reshape", .kind = OP_VIEW, .vjp = reshape_vjp, .jvp = reshape_jvp,
                               .batch = reshape_batch, .agree = reshape_agree };
const struct op op_broadcast = { .name = "broadcast", .kind = OP_VIEW, .vjp = broadcast_vjp, .jvp = broadcast_jvp,
                                 .batch = broadcast_batch, .again = broadcast_again };
const struct op op_transpose = { .name = "transpose", .kind = OP_VIEW, .vjp = transpose_vjp, .jvp = transpose_jvp,
                                 .batch = transpose_batch, .again = transpose_again };
const struct op op_slice = { .name = "slice", .kind = OP_VIEW, .chooses = true, .vjp = slice_vjp, .jvp = slice_jvp,
                             .batch = slice_batch, .resize = slice_resize, .settle = slice_settle, .is_open = slice_is_open,
                             .agree = slice_agree, .hold = slice_hold, .drop = slice_drop };

/* ---- Views that show all of an array as it is ----
 * Whether a view changes anything depends on sizes: a flip of one row, a roll by a multiple of the length. What a user gets is
 * a node of its own all the same, so that a derivative by it means the same for every size; rewrites take it away. A number
 * stays a number: there is no derivative by it. Views that rules make for themselves are left out where they change nothing. */

static weft_array *whole(struct node *x, const struct op *op) {
  if (x->op == &op_scalar || x->weak) return array_of(x);
  struct slice_attr all = { 0, 0, 1 };
  struct node *y = node_make(op, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, &all, op == &op_slice ? sizeof all : 0);
  node_release(x);
  return array_of(y);
}

/* y as a node that is not x; takes over the reference to x. */
static weft_array *apart(weft_array *y, struct node *x, const struct op *op) {
  if (y->node == x) return whole(x, op);
  node_release(x);
  return y;
}

weft_array *array_apart(weft_array *x) {
  struct node *n;
  weft_array *bad;
  return operands("weft_slice", 1, &x, &n, &bad) ? whole(n, &op_reshape) : bad;
}

weft_array *array_apart_from(weft_array *x, weft_array *y) { return y == x || y->node == x->node ? array_apart(y) : y; }

/* ---- Reshape ---- */

static struct failure *reshape_misfit(const char *fn, const struct node *x, int rank, const dim dims[]) {
  struct shape_text a, b;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s cannot become %s: other numbers of elements", fn,
              shape_show(x, &a), dims_show(rank, dims, &b));
}

static weft_array *reshaped(const char *fn, struct node *x, int rank, const dim dims[]) {
  if (dims_equal(x->rank, x->dims, rank, dims)) return array_of(x);
  struct failure *why = count_check(fn, x->rank, x->dims);
  if (!why) why = count_check(fn, rank, dims);
  if (!why && !sizes_meet(fn, dim_resolve(dim_count(x->rank, x->dims)), dim_resolve(dim_count(rank, dims))))
    why = reshape_misfit(fn, x, rank, dims);
  return why ? array_of_bad(why, 1, &x) : array_of(node_reshape(x, rank, dims));
}

weft_array *array_reshape(const char *fn, weft_array *x, int rank, const dim dims[]) {
  struct node *n;
  weft_array *bad;
  return operands(fn, 1, &x, &n, &bad) ? reshaped(fn, n, rank, dims) : bad;
}

/* dims of the user with SAME looked up; *any is the axis of ANY, or -1. */
static struct failure *wished(const char *fn, const struct node *x, int at, int rank, const int64_t dims[], dim out[],
                              int *any) {
  dim known[WEFT_RANK_MAX];
  *any = -1;
  for (int k = 0; k < rank && rank <= WEFT_RANK_MAX; k++) {
    int axis = k - at;
    out[k] = known[k] = dims[k];
    if (dims[k] == WEFT_SAME && (axis < 0 || axis >= x->rank))
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: WEFT_SAME on axis %d, which the array does not have", fn, k);
    if (dims[k] == WEFT_SAME) out[k] = x->dims[axis], known[k] = 1;
    if (dims[k] == WEFT_ANY && *any >= 0) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: more than one WEFT_ANY", fn);
    if (dims[k] == WEFT_ANY) *any = k, out[k] = known[k] = 1;
  }
  return dims_check(fn, rank, known);
}

static struct failure *dims_given(const char *fn, int rank, const int64_t dims[]) {
  if (rank < 0 || rank > WEFT_RANK_MAX)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the rank %d is not in 0..%d", fn, rank, WEFT_RANK_MAX);
  return rank && !dims ? fail(WEFT_ERR_ARG, scope_origin(), "%s: dims is NULL", fn) : NULL;
}

weft_array *weft_reshape(weft_array *x, int rank, const int64_t dims[]) {
  struct node *n;
  weft_array *bad;
  dim d[WEFT_RANK_MAX];
  int any;
  if (!operands("weft_reshape", 1, &x, &n, &bad)) return bad;
  struct failure *why = dims_given("weft_reshape", rank, dims);
  if (!why) why = wished("weft_reshape", n, 0, rank, dims, d, &any);
  dim count = dim_count(n->rank, n->dims), others = why ? 0 : dim_count(rank, d);
  if (!why && any >= 0 && !dim_divide(count, others, &d[any]) &&
      (dim_is_known(count) || (d[any] = dim_quotient(count, others)) == DIM_BAD)) { /* what is not known is taken to divide */
    struct shape_text s;
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_reshape: no size fits for WEFT_ANY on axis %d of %s", any,
               shape_show(n, &s));
  }
  return why ? array_of_bad(why, 1, &n) : apart(reshaped("weft_reshape", node_retain(n), rank, d), n, &op_reshape);
}

weft_array *weft_reshape_like(weft_array *x, weft_array *like) {
  struct node *n[2];
  weft_array *bad;
  if (!operands("weft_reshape_like", 2, (weft_array *[]){ x, like }, n, &bad)) return bad;
  weft_array *y = apart(reshaped("weft_reshape_like", node_retain(n[0]), n[1]->rank, n[1]->dims), n[0], &op_reshape);
  node_release(n[1]);
  return array_sized_by(y, like);
}

weft_array *weft_unsqueeze(weft_array *x, int axis) {
  struct node *n;
  weft_array *bad;
  dim d[WEFT_RANK_MAX];
  if (!operands("weft_unsqueeze", 1, &x, &n, &bad)) return bad;
  int rank = n->rank + 1, k = axis < 0 ? axis + rank : axis;
  struct failure *why = NULL;
  if (rank > WEFT_RANK_MAX) why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_unsqueeze: the rank would be %d", rank);
  else if (k < 0 || k >= rank)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_unsqueeze: no axis %d in an array of rank %d", axis, rank);
  if (why) return array_of_bad(why, 1, &n);
  for (int i = 0; i < rank; i++) d[i] = i == k ? 1 : n->dims[i - (i > k)];
  return array_of(node_reshape(n, rank, d));
}

weft_array *weft_squeeze(weft_array *x, int axis) {
  struct node *n;
  weft_array *bad;
  dim d[WEFT_RANK_MAX];
  struct shape_text s;
  if (!operands("weft_squeeze", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_squeeze", n, &axis);
  if (!why && !sizes_meet("weft_squeeze", dim_resolve(n->dims[axis]), 1))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_squeeze: axis %d of %s is not of length 1", axis,
               shape_show(n, &s));
  if (why) return array_of_bad(why, 1, &n);
  for (int i = 0; i < n->rank - 1; i++) d[i] = n->dims[i + (i >= axis)];
  return array_of(node_reshape(n, n->rank - 1, d));
}

/* A 0-d array becomes one of length 1. */
weft_array *weft_flatten(weft_array *x, int first, int last) {
  struct node *n;
  weft_array *bad;
  dim d[WEFT_RANK_MAX], one = 1;
  struct shape_text s;
  if (!operands("weft_flatten", 1, &x, &n, &bad)) return bad;
  if (!n->rank && first >= -1 && first <= 0 && last >= -1 && last <= 0) return array_of(node_reshape(n, 1, &one));
  struct failure *why = axis_check("weft_flatten", n, &first);
  if (!why) why = axis_check("weft_flatten", n, &last);
  if (!why && first > last)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_flatten: axis %d comes after axis %d in %s", first, last,
               shape_show(n, &s));
  if (!why) why = count_check("weft_flatten", n->rank, n->dims);
  if (why) return array_of_bad(why, 1, &n);
  for (int k = 0; k < n->rank - (last - first); k++) d[k] = n->dims[k <= first ? k : k + last - first];
  d[first] = dim_count(last - first + 1, n->dims + first);
  return array_of(node_reshape(n, n->rank - (last - first), d));
}

/* ---- Broadcast ---- */

static weft_array *broadcasted(const char *fn, struct node *x, int rank, const dim dims[]) {
  struct shape_text a, b;
  bool fits = x->rank <= rank;
  for (int k = 0; fits && k < x->rank; k++) {
    dim have = dim_resolve(x->dims[k]);
    fits = have == 1 || sizes_meet(fn, have, dim_resolve(dims[rank - x->rank + k]));
  }
  if (fits) return array_of(node_broadcast(x, rank, dims));
  struct failure *why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s does not broadcast to %s", fn, shape_show(x, &a),
                             dims_show(rank, dims, &b));
  return array_of_bad(why, 1, &x);
}

weft_array *array_broadcast(const char *fn, weft_array *x, int rank, const dim dims[]) {
  struct node *n;
  weft_array *bad;
  return operands(fn, 1, &x, &n, &bad) ? broadcasted(fn, n, rank, dims) : bad;
}

weft_array *weft_broadcast(weft_array *x, int rank, const int64_t dims[]) {
  struct node *n;
  weft_array *bad;
  dim d[WEFT_RANK_MAX];
  int any = -1;
  if (!operands("weft_broadcast", 1, &x, &n, &bad)) return bad;
  struct failure *why = dims_given("weft_broadcast", rank, dims);
  if (!why) why = wished("weft_broadcast", n, rank - n->rank, rank, dims, d, &any);
  if (!why && any >= 0)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_broadcast: WEFT_ANY says nothing here; see WEFT_SAME");
  return why ? array_of_bad(why, 1, &n) : apart(broadcasted("weft_broadcast", node_retain(n), rank, d), n, &op_broadcast);
}

weft_array *weft_broadcast_like(weft_array *x, weft_array *like) {
  struct node *n[2];
  weft_array *bad;
  if (!operands("weft_broadcast_like", 2, (weft_array *[]){ x, like }, n, &bad)) return bad;
  weft_array *y = apart(broadcasted("weft_broadcast_like", node_retain(n[0]), n[1]->rank, n[1]->dims), n[0], &op_broadcast);
  node_release(n[1]);
  return array_sized_by(y, like);
}

/* ---- Transpose ---- */

static bool is_identity(int rank, const int axes[]) {
  for (int k = 0; k < rank; k++)
    if (axes[k] != k) return false;
  return true;
}

static weft_array *transposed(struct node *x, const int axes[]) {
  dim d[WEFT_RANK_MAX];
  if (is_identity(x->rank, axes)) return array_of(x);
  for (int k = 0; k < x->rank; k++) d[k] = x->dims[axes[k]];
  struct node *y = node_make(&op_transpose, (weft_dtype)x->dtype, x->rank, d, 1, &x, axes, x->rank * sizeof *axes);
  node_release(x);
  return array_of(y);
}

weft_array *weft_transpose(weft_array *x, const int axes[]) {
  struct node *n;
  weft_array *bad;
  int a[WEFT_RANK_MAX];
  if (!operands("weft_transpose", 1, &x, &n, &bad)) return bad;
  for (int k = 0; k < n->rank; k++) a[k] = n->rank - 1 - k;
  struct failure *why = axes ? axes_check("weft_transpose", n, n->rank, axes, a) : NULL;
  return why ? array_of_bad(why, 1, &n) : transposed(n, a);
}

weft_array *weft_moveaxis(weft_array *x, int from, int to) {
  struct node *n;
  weft_array *bad;
  int a[WEFT_RANK_MAX];
  if (!operands("weft_moveaxis", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_moveaxis", n, &from);
  if (!why) why = axis_check("weft_moveaxis", n, &to);
  if (why) return array_of_bad(why, 1, &n);
  for (int k = 0, next = 0; k < n->rank; k++) {
    if (k == to) { a[k] = from; continue; }
    next += next == from;
    a[k] = next++;
  }
  return transposed(n, a);
}

/* ---- Slice ---- */

static int64_t clip(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* As Python: bounds are counted from the end when negative, and cut to fit. */
static void cut(int64_t n, int64_t start, int64_t stop, int64_t step, dim *first, dim *length) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  if (start < 0 && start != WEFT_BEGIN) start += n;
  if (stop < 0 && stop != WEFT_BEGIN) stop += n;
  start = clip(start, low, high);
  stop = clip(stop, low, high);
  uint64_t span = step > 0 ? (stop > start ? (uint64_t)(stop - start) : 0)
                           : (start > stop ? (uint64_t)(start - stop) : 0);
  uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
  *length = (int64_t)(span / stride + (span % stride != 0));
  *first = *length ? start : 0;
}

#define BEYOND ((int64_t)1 << 60) /* no axis is that long */

/* A bound of an axis whose size is not known yet, cut to fit: 0 .. n. */
static dim bound(dim n, int64_t at) {
  if (at >= BEYOND || at <= -BEYOND) return at < 0 ? 0 : n;
  return at >= 0 ? dim_min(n, at) : dim_above(n, -at);
}

/* Going down, places are counted from one further on. */
static void steps_between(dim from, dim to, int64_t step, dim *first, dim *length) {
  bool is_down = step < 0;
  dim span = is_down ? dim_above(from, to) : dim_above(to, from);
  uint64_t stride = is_down ? -(uint64_t)step : (uint64_t)step;
  *length = stride >= BEYOND ? dim_min(span, 1) : dim_quotient(dim_add(span, (int64_t)stride - 1), (int64_t)stride);
  *first = is_down ? dim_above(from, 1) : from;
}

/* The same of an unknown size. Going down, bounds are counted from one further on, so that -1 is 0. */
static void cut_open(dim n, int64_t start, int64_t stop, int64_t step, dim *first, dim *length) {
  bool is_down = step < 0;
  if (is_down && start != WEFT_END && start != WEFT_BEGIN) start = start == -1 ? WEFT_END : start + 1;
  if (is_down && stop != WEFT_END && stop != WEFT_BEGIN) stop = stop == -1 ? WEFT_END : stop + 1;
  steps_between(bound(n, start), bound(n, stop), step, first, length);
}

static weft_array *slice_node(struct node *x, int axis, dim start, dim length, int64_t step) {
  dim d[WEFT_RANK_MAX];
  if (length == 0 || length == 1) step = 1;
  if (start == 0 && step == 1 && length == x->dims[axis]) return array_of(x);
  if (x->rank) memcpy(d, x->dims, x->rank * sizeof *d);
  d[axis] = length;
  struct node *y = node_make(&op_slice, (weft_dtype)x->dtype, x->rank, d, 1, &x,
                             &(struct slice_attr){ axis, start, step }, sizeof(struct slice_attr));
  node_release(x);
  return array_of(y);
}

static weft_array *sliced(const char *fn, struct node *x, int axis, dim first, dim length, int64_t step) {
  struct shape_text s;
  if (first != DIM_BAD && length != DIM_BAD) return apart(slice_node(node_retain(x), axis, first, length, step), x, &op_slice);
  struct failure *why = fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory for the bounds of axis %d of %s", fn, axis,
                             shape_show(x, &s));
  return array_of_bad(why, 1, &x);
}

weft_array *weft_slice(weft_array *x, int axis, int64_t start, int64_t stop, int64_t step) {
  struct node *n;
  weft_array *bad;
  dim first, length;
  if (!operands("weft_slice", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_slice", n, &axis);
  if (!why && step == 0) why = fail(WEFT_ERR_ARG, scope_origin(), "weft_slice: the step is 0");
  if (why) return array_of_bad(why, 1, &n);
  dim size = dim_resolve(n->dims[axis]);
  if (dim_is_known(size)) cut(size, start, stop, step, &first, &length);
  else cut_open(size, start, stop, step, &first, &length);
  return sliced("weft_slice", n, axis, first, length, step);
}

/* The place that a bound stands for, 0 .. n. Going down places are counted from one further on. */
static dim place(dim n, dim at, bool is_down) {
  dim more = is_down ? dim_reckon(DIM_PLUS, at, 1) : at, from_end = dim_reckon(DIM_PLUS, more, n);
  if (at == dim_reckon(DIM_MINUS, n, 1)) return is_down ? n : dim_above(n, 1); /* of no elements -1, and cut to fit */
  return dim_choose(dim_reckon(DIM_PLUS, at, 1), dim_reckon(DIM_LEAST, n, more), dim_reckon(DIM_LARGEST, from_end, 0));
}

weft_array *array_cut(const char *fn, weft_array *x, int axis, const dim *start, const dim *stop, int64_t step) {
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  bool is_down = step < 0;
  dim size = dim_resolve(n->dims[axis]), first, length;
  dim from = start ? place(size, *start, is_down) : is_down ? size : 0;
  dim to = stop ? place(size, *stop, is_down) : is_down ? 0 : size;
  steps_between(from, to, step, &first, &length);
  return sliced(fn, n, axis, first, length, step);
}

weft_array *array_slice(weft_array *x, int axis, dim start, dim length, int64_t step) {
  struct node *n;
  weft_array *bad;
  return operands("weft_slice", 1, &x, &n, &bad) ? slice_node(n, axis, start, length, step) : bad;
}

weft_array *weft_flip(weft_array *x, int axis) {
  struct node *n;
  weft_array *bad;
  if (!operands("weft_flip", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_flip", n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  dim size = n->dims[axis];
  return apart(slice_node(node_retain(n), axis, dim_above(size, 1), size, -1), n, &op_slice);
}
