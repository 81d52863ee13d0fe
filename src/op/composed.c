/* composed.c -- operations written with others. The scheduler makes them one kernel; what is here is only how to compute
 * them well: f16 and bf16 are raised to f32 and come back at the end. */
#include "op/composed.h"

/* Bad in, bad out, named after the function that was called. */
static bool is_usable(const char *fn, weft_array *x, weft_array **bad) { return arrays_ok(fn, 1, &x, bad); }

/* How many elements there are along an axis, or in all. x is usable: what is made of it may be bad, for want of memory. */
static weft_array *count(weft_array *x, int axis) {
  struct node *n = array_node(x);
  return array_of(axis == WEFT_ALL ? node_size(n, -1, dim_count(n->rank, n->dims)) : node_size(n, axis, n->dims[axis]));
}

static weft_array *mean(weft_array *x, int axis) {
  weft_array *bad;
  if (!is_usable("weft_mean", x, &bad)) return bad;
  struct failure *why = axis_wrong("weft_mean", x, &axis);
  if (why) return array_failed(why);
  weft_array *a = raised(x);
  return lowered(weft_div(weft_sum(a, axis), weft_cast(count(x, axis), weft_dtype_of(a))), x);
}

weft_array *weft_mean(weft_array *x, int axis) { return COMPOSED(mean(x, axis)); }

/* |d|^2, a real number. */
static weft_array *squared_distance(weft_array *d) {
  if (!dtype_is_complex(weft_dtype_of(d))) return weft_mul(d, d);
  weft_array *re = weft_real(d), *im = weft_imag(d);
  return weft_add(weft_mul(re, re), weft_mul(im, im));
}

typedef weft_array *elementwise(weft_array *);

/* A sum of squares by n - ddof, which is 0 at least; real, also of complex numbers. after: NULL, or what follows before it is
 * rounded to the dtype of x. */
static weft_array *mean_square(weft_array *sum, weft_array *n, int64_t ddof, weft_array *x, elementwise *after) {
  weft_array *by = weft_maximum(weft_sub(n, weft_integer(ddof)), weft_integer(0));
  weft_array *y = weft_div(sum, weft_cast(by, weft_dtype_of(sum)));
  return weft_cast(after ? after(y) : y, dtype_part(dtype_float(weft_dtype_of(x))));
}

static struct failure *ddof_check(const char *fn, int64_t ddof) {
  return ddof < 0 ? fail(WEFT_ERR_ARG, scope_origin(), "%s: ddof is %lld", fn, (long long)ddof) : NULL;
}

static weft_array *variance(const char *fn, weft_array *x, int axis, int64_t ddof, elementwise *after) {
  weft_array *bad;
  if (!is_usable(fn, x, &bad)) return bad;
  struct failure *why = axis_wrong(fn, x, &axis);
  if (!why) why = ddof_check(fn, ddof);
  if (why) return array_failed(why);
  weft_array *a = raised(x), *d = weft_sub(a, weft_mean(a, axis));
  return mean_square(weft_sum(squared_distance(d), axis), count(x, axis), ddof, x, after);
}

weft_array *weft_var(weft_array *x, int axis, int64_t ddof) { return COMPOSED(variance("weft_var", x, axis, ddof, NULL)); }
weft_array *weft_std(weft_array *x, int axis, int64_t ddof) { return COMPOSED(variance("weft_std", x, axis, ddof, weft_sqrt)); }

/* ---- softmax: of nodes whose dtypes and sizes are known to meet, so that building it takes a microsecond from Python ---- */

extern const struct op op_exp, op_log, op_sum, op_max;

/* An element op of two nodes, the second as large as the first or of size 1 along an axis. Takes over both. */
static struct node *both(const struct op *op, struct node *x, struct node *y) {
  dim dims[WEFT_RANK_MAX] = { 0 };
  int rank = x ? x->rank : 0;
  for (int k = 0; k < rank; k++) dims[k] = dim_resolve(x->dims[k]);
  struct node *in[] = { node_broadcast(x, rank, dims), x ? node_broadcast(y, rank, dims) : y };
  struct node *n = in[0] && in[1] ? node_make(op, (weft_dtype)in[0]->dtype, rank, dims, 2, in, NULL, 0) : NULL;
  nodes_release(2, in);
  return n;
}

static struct node *of_one(const struct op *op, struct node *x) {
  struct node *n = x ? node_make(op, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, NULL, 0) : NULL;
  node_release(x);
  return n;
}

static struct node *reduced(const struct op *op, struct node *x, int axis) { return node_along(op, node_retain(x), axis); }

/* The largest exponent is 0. A row of -inf gives nan, as 0 / 0 should. */
static struct node *below_largest(struct node *a, int axis) {
  return both(&op_sub, a, of_one(&op_stop_gradient, reduced(&op_max, a, axis)));
}

static struct node *divided(struct node *d, int axis) { /* e^d / sum: one division a row, by at least 1 */
  struct node *e = of_one(&op_exp, d), *sum = e ? reduced(&op_sum, e, axis) : NULL;
  struct node *one = sum ? node_broadcast(number_node((weft_dtype)sum->dtype, 1, 0), sum->rank, sum->dims) : NULL;
  return both(&op_mul, e, both(&op_div, one, sum));
}

static struct node *log_divided(struct node *d, int axis) {
  struct node *e = d ? of_one(&op_exp, node_retain(d)) : NULL, *sum = e ? reduced(&op_sum, e, axis) : NULL;
  node_release(e);
  return both(&op_sub, d, of_one(&op_log, sum));
}

static weft_array *softmax(const char *fn, weft_array *x, int axis, struct node *finish(struct node *, int)) {
  weft_array *bad;
  struct node *n;
  if (axis == WEFT_ALL && arrays_ok(fn, 1, &x, &bad)) return array_bad(WEFT_ERR_SHAPE, "%s: along one axis, not all", fn);
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, n->dtype) : axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  weft_dtype out = dtype_float((weft_dtype)n->dtype);
  if (dim_resolve(n->dims[axis]) == 0) return array_of(node_cast(n, out));
  struct node *a = node_cast(n, dtype_is_narrow_float(out) ? WEFT_F32 : out), *d = a ? below_largest(a, axis) : NULL;
  return array_of(node_cast(finish(d, axis), out));
}

weft_array *weft_softmax(weft_array *x, int axis) { return softmax("weft_softmax", x, axis, divided); }
weft_array *weft_log_softmax(weft_array *x, int axis) { return softmax("weft_log_softmax", x, axis, log_divided); }

static weft_array *last_axis_bad(const char *fn, weft_array *x, weft_array *w) {
  weft_array *bad;
  if (!is_ordered(fn, x, &bad) || (w && !is_ordered(fn, w, &bad))) return bad;
  return weft_rank(x) < 1 ? array_bad(WEFT_ERR_SHAPE, "%s: a 0-d array has no last axis", fn) : NULL;
}

/* A weight or a bias, raised, as long as x. */
static weft_array *beside(const char *fn, weft_array *w, weft_array *x) {
  struct node *n = array_node(x);
  weft_array *y = array_broadcast(fn, raised(w), n->rank, n->dims);
  node_release(n);
  return y;
}

static weft_array *rms_norm(weft_array *x, weft_array *w, double eps) {
  weft_array *bad = last_axis_bad("weft_rms_norm", x, w);
  if (bad) return bad;
  weft_array *a = raised(x);
  weft_array *ms = weft_mean(weft_mul(a, a), -1);
  weft_array *y = weft_mul(a, weft_rsqrt(weft_add(ms, weft_scalar(eps))));
  return lowered(w ? weft_mul(y, beside("weft_rms_norm", w, x)) : y, x);
}

weft_array *weft_rms_norm(weft_array *x, weft_array *w, double eps) { return COMPOSED(rms_norm(x, w, eps)); }

static weft_array *layer_norm(weft_array *x, weft_array *w, weft_array *b, double eps) {
  weft_array *bad = last_axis_bad("weft_layer_norm", x, w);
  if (!bad && b) is_ordered("weft_layer_norm", b, &bad);
  if (bad) return bad;
  weft_array *a = raised(x), *d = weft_sub(a, weft_mean(a, -1));
  weft_array *y = weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), -1), weft_scalar(eps))));
  if (w) y = weft_mul(y, beside("weft_layer_norm", w, x));
  if (b) y = weft_add(y, beside("weft_layer_norm", b, x));
  return lowered(y, x);
}

weft_array *weft_layer_norm(weft_array *x, weft_array *w, weft_array *b, double eps) { return COMPOSED(layer_norm(x, w, b, eps)); }

/* ---- Over several axes ---- */

typedef weft_array *reduction(weft_array *x, int axis);

/* Whether reducing one axis after the other is the same as reducing them at once. */
static bool chains(reduction *reduce) {
  static reduction *const all[] = { weft_sum, weft_prod, weft_max, weft_min, weft_all, weft_any };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (reduce == all[i]) return true;
  return false;
}

static weft_array *chained(reduction *reduce, weft_array *x, const bool is_listed[]) {
  for (int k = weft_rank(x) - 1; k >= 0; k--)
    if (is_listed[k]) x = reduce(x, k);
  return x;
}

static weft_array *count_over(weft_array *x, const bool is_listed[]) {
  weft_array *n = weft_integer(1);
  for (int k = 0; k < weft_rank(x); k++)
    if (is_listed[k]) n = weft_mul(count(x, k), n);
  return n;
}

static weft_array *mean_over(weft_array *x, const bool is_listed[]) {
  weft_array *a = raised(x), *n = count_over(a, is_listed);
  return lowered(weft_div(chained(weft_sum, a, is_listed), weft_cast(n, weft_dtype_of(a))), x);
}

/* The listed axes behind the others and made one. */
static weft_array *merged(const char *fn, weft_array *x, const bool is_listed[]) {
  struct node *n = array_node(x);
  int axes[WEFT_RANK_MAX], rank = 0, at = 0;
  dim dims[WEFT_RANK_MAX + 1], many = 1;
  for (int k = 0; k < n->rank; k++) {
    if (is_listed[k]) many = dim_mul(many, n->dims[k]);
    else dims[rank++] = n->dims[axes[at++] = k];
  }
  for (int k = 0; k < n->rank; k++)
    if (is_listed[k]) axes[at++] = k;
  dims[rank++] = many;
  node_release(n);
  return array_reshape(fn, weft_transpose(x, axes), rank, dims);
}

/* What came of the merged axes of x stands where they were: as axes of size 1. */
static weft_array *spread_out(const char *fn, weft_array *y, weft_array *x, const bool is_listed[]) {
  struct node *n = array_node(x);
  dim kept[WEFT_RANK_MAX];
  int rank = n->rank;
  for (int k = 0; k < rank; k++) kept[k] = is_listed[k] ? 1 : n->dims[k];
  node_release(n);
  return array_reshape(fn, y, rank, kept);
}

static weft_array *merged_over(reduction *reduce, weft_array *x, int n, const bool is_listed[]) {
  return spread_out("weft_over", reduce(merged("weft_over", x, is_listed), weft_rank(x) - n), x, is_listed);
}

/* Usable, with these axes, each of which becomes true in is_listed. */
static bool has_axes(const char *fn, weft_array *x, int n, const int axes[], bool is_listed[], weft_array **bad) {
  int from_0[WEFT_RANK_MAX];
  if (!is_usable(fn, x, bad)) return false;
  struct node *node = array_node(x);
  struct failure *why = axes_check(fn, node, n, axes, from_0);
  for (int i = 0; i < n && !why; i++) is_listed[from_0[i]] = true;
  if (!why) why = count_check(fn, node->rank, node->dims);
  node_release(node);
  if (why) *bad = array_failed(why);
  return !why;
}

static weft_array *over(reduction *reduce, weft_array *x, int n, const int axes[]) {
  weft_array *bad;
  bool is_listed[WEFT_RANK_MAX] = { false };
  if (!reduce) return array_failed(fail(WEFT_ERR_ARG, scope_origin(), "weft_over: the reduction is NULL"));
  if (!has_axes("weft_over", x, n, axes, is_listed, &bad)) return bad;
  if (chains(reduce) && n) return chained(reduce, x, is_listed);
  return reduce == weft_mean && n ? mean_over(x, is_listed) : merged_over(reduce, x, n, is_listed);
}

/* What is wrong with the elements the reduction says, which is the caller's. */
weft_array *weft_over(reduction *reduce, weft_array *x, int n, const int axes[]) {
  struct composing c = composing_begin(NULL);
  return composing_end(c, over(reduce, x, n, axes));
}

/* Whether no other axis is behind one that is listed. */
static bool are_last(int rank, int n, const bool is_listed[]) {
  for (int k = rank - n; k < rank; k++)
    if (!is_listed[k]) return false;
  return true;
}

/* The last axes lie behind each other, and are one row. Others are folded where they lie, one after the other, about the very
 * mean that weft_over gives over them: as one row their elements would be far apart, or copied, and the mean another sum. */
static weft_array *variance_over(const char *fn, weft_array *x, int n, const int axes[], int64_t ddof, elementwise *after) {
  weft_array *bad;
  bool is_listed[WEFT_RANK_MAX] = { false };
  if (!has_axes(fn, x, n, axes, is_listed, &bad)) return bad;
  struct failure *why = ddof_check(fn, ddof);
  if (why) return array_failed(why);
  if (are_last(weft_rank(x), n, is_listed))
    return spread_out(fn, variance(fn, merged(fn, x, is_listed), -1, ddof, after), x, is_listed);
  weft_array *a = raised(x), *d = weft_sub(a, mean_over(a, is_listed));
  return mean_square(chained(weft_sum, squared_distance(d), is_listed), count_over(x, is_listed), ddof, x, after);
}

weft_array *weft_var_over(weft_array *x, int n, const int axes[], int64_t ddof) {
  return COMPOSED(variance_over("weft_var_over", x, n, axes, ddof, NULL));
}

weft_array *weft_std_over(weft_array *x, int n, const int axes[], int64_t ddof) {
  return COMPOSED(variance_over("weft_std_over", x, n, axes, ddof, weft_sqrt));
}
