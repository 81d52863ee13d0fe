/* prefix.c -- running sums, products, extrema along an axis. */
#include <math.h>
#include "op/complex.h"

#define X (r->in[0])

static int axis_of(const struct rule *r) { return ((const struct axis_attr *)r->node->attr)->axis; }

/* ---- Derivatives ---- */

/* h_i = a_i + c_i h_(i-1) along an axis, h before the first being 0. A bool c keeps h or drops it. */
static weft_array *linear_scan(weft_array *c, weft_array *a, int axis) {
  weft_array *cs = weft_moveaxis(c, axis, 0), *as = weft_moveaxis(a, axis, 0), *none = array_row_full(as, 0);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *c_i = weft_loop_each(loop, cs), *a_i = weft_loop_each(loop, as), *h = weft_loop_carry(loop, none);
  bool keeps = weft_dtype_of(c) == WEFT_BOOL;
  weft_array *next = weft_add(a_i, keeps ? weft_where(c_i, h, number_like(a, 0)) : weft_mul(c_i, h));
  weft_loop_next(loop, h, next);
  weft_array *all = weft_loop_all(loop, next);
  weft_loop_close(loop);
  return weft_moveaxis(all, 0, axis);
}

/* c one step later along the axis, 0 (or false) at the end. */
static weft_array *later(weft_array *c, int axis) {
  return weft_slice(weft_pad(c, axis, 0, 1, number_like(c, 0)), axis, 1, WEFT_END, 1);
}

/* g_i = dy_i + c_(i+1) g_(i+1) */
static weft_array *backward_scan(weft_array *c, weft_array *dy, int axis) {
  return weft_flip(linear_scan(weft_flip(later(c, axis), axis), weft_flip(dy, axis), axis), axis);
}

/* y one step before along the axis, `first` at its beginning; of an axis without elements nothing is read. */
static weft_array *before(weft_array *y, int axis, double first) {
  weft_array *padded = weft_pad(y, axis, 1, 0, number_like(y, first));
  return array_slice(padded, axis, 0, y->node->dims[axis], 1);
}

/* The product of all elements before each. */
static weft_array *product_before(weft_array *y, int axis) { return before(y, axis, 1); }

static weft_array *cumsum_jvp(const struct rule *r, int k, weft_array *dx) {
  return (void)k, weft_cumsum(dx, axis_of(r));
}
static weft_array *cumsum_vjp(const struct rule *r, int k, weft_array *dy) {
  int axis = axis_of(r);
  return (void)k, weft_flip(weft_cumsum(weft_flip(dy, axis), axis), axis);
}

/* y_i = x_i y_(i-1), so dy_i = y_(i-1) dx_i + x_i dy_(i-1): nothing is divided, zeros do no harm. */
static weft_array *cumprod_jvp(const struct rule *r, int k, weft_array *dx) {
  int axis = axis_of(r);
  return (void)k, linear_scan(X, weft_mul(product_before(r->out, axis), dx), axis);
}
static weft_array *cumprod_vjp(const struct rule *r, int k, weft_array *dy) {
  int axis = axis_of(r);
  return (void)k, weft_mul(product_before(r->out, axis), backward_scan(X, dy, axis));
}

/* Where y still is what it was one step before, it is not x's doing: the first of equal elements counts. NaN is like nothing. */
static weft_array *is_old(const struct rule *r) { return weft_eq(r->out, before(r->out, axis_of(r), NAN)); }

static weft_array *extremum_jvp(const struct rule *r, int k, weft_array *dx) {
  weft_array *old = is_old(r);
  return (void)k, linear_scan(old, weft_where(old, number_like(dx, 0), dx), axis_of(r));
}
static weft_array *extremum_vjp(const struct rule *r, int k, weft_array *dy) {
  weft_array *old = is_old(r);
  return (void)k, weft_where(old, number_like(dy, 0), backward_scan(old, dy, axis_of(r)));
}

/* ---- The rows ---- */

static const struct fold fold_add = { .op = KIR_ADD }, fold_mul = { .op = KIR_MUL }, fold_max = { .op = KIR_MAX },
                         fold_min = { .op = KIR_MIN };

static weft_array *prefix_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  return array_again(X, r->node->op, axis_of(r) + 1);
}

static struct node *prefix_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  return node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, in[0]->dims, 1, in, n->attr, n->attr_bytes);
}

static weft_array *prefix(const char *fn, const struct op *op, weft_dtype (*to)(weft_dtype), weft_array *x, int axis) {
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check(fn, n, &axis);
  if (!why && dtype_is_complex(n->dtype) && op->fold->op != KIR_ADD) why = not_of(fn, n->dtype);
  if (why) return array_of_bad(why, 1, &n);
  n = node_cast(n, to((weft_dtype)n->dtype));
  if (!n) return array_of(NULL);
  struct node *y = node_make(op, (weft_dtype)n->dtype, n->rank, n->dims, 1, &n, &(struct axis_attr){ axis },
                             sizeof(struct axis_attr));
  node_release(n);
  return array_of(y);
}

static weft_dtype as_number(weft_dtype d) { return d == WEFT_BOOL ? WEFT_U8 : d; }

/* Bools are compared as numbers and come back as bools. */
static weft_array *back_to(weft_dtype d, weft_array *y) { return d == WEFT_BOOL ? weft_cast(y, d) : y; }

#define ROW(id, how, backward, forward, choice)                                                               \
  const struct op op_##id = { .name = #id, .kind = OP_PREFIX, .fold = how, .vjp = backward, .jvp = forward,   \
                              .chooses = choice, .batch = prefix_batch, .again = prefix_again };
ROW(cumsum, &fold_add, cumsum_vjp, cumsum_jvp, false)
ROW(cumprod, &fold_mul, cumprod_vjp, cumprod_jvp, false)
ROW(cummax, &fold_max, extremum_vjp, extremum_jvp, true)
ROW(cummin, &fold_min, extremum_vjp, extremum_jvp, true)

weft_array *weft_cumsum(weft_array *x, int axis) { return prefix("weft_cumsum", &op_cumsum, dtype_of_sum, x, axis); }
weft_array *weft_cumprod(weft_array *x, int axis) {
  return dtype_is_complex(weft_dtype_of(x)) ? complex_cumprod(x, axis) : prefix("weft_cumprod", &op_cumprod, dtype_of_sum, x, axis);
}
weft_array *weft_cummax(weft_array *x, int axis) {
  return back_to(weft_dtype_of(x), prefix("weft_cummax", &op_cummax, as_number, x, axis));
}
weft_array *weft_cummin(weft_array *x, int axis) {
  return back_to(weft_dtype_of(x), prefix("weft_cummin", &op_cummin, as_number, x, axis));
}
