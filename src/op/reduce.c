/* reduce.c -- one axis folded into one element. The axis stays, with length 1. */
#include <stdio.h>
#include <string.h>
#include "op/complex.h"
#include "op/composed.h"

/* ---- Folds of tuples ---- */

static int lowest(struct kir_builder *b, weft_dtype d) {
  if (dtype_is_float(d)) return kir_lit(b->k, d, dtype_encode(d, -__builtin_inf()));
  return kir_lit(b->k, d, dtype_encode(d, dtype_is_signed(d) ? -0x1p63 : 0));
}

static int highest(struct kir_builder *b, weft_dtype d) {
  return kir_lit(b->k, d, dtype_encode(d, dtype_is_float(d) ? __builtin_inf() : 0x1p64));
}

/* argmax: (value, index). The first nan wins, else the largest, among equals the first. */
static weft_dtype arg_state(const struct node *n, int i) { return i ? WEFT_I64 : operand_register(n); }

static void arg_lift(struct kir_builder *b, const struct node *n, int x, int index, int out[]) {
  (void)b, (void)n;
  out[0] = x;
  out[1] = index;
}

static int arg_better(struct kir_builder *b, const struct node *n, bool is_max) {
  weft_dtype d = operand_register(n);
  int v[4], out[2];
  int fn = kir_fn_begin(b, "better", 4, (weft_dtype[]){ d, WEFT_I64, d, WEFT_I64 }, v);
  int av = v[0], ai = v[1], bv = v[2], bi = v[3];
  int a_nan = kir_op2(b, KIR_NE, av, av), b_nan = kir_op2(b, KIR_NE, bv, bv);
  int equal = kir_op2(b, KIR_EQ, av, bv), tie = kir_op2(b, KIR_OR, equal, kir_op2(b, KIR_AND, a_nan, b_nan));
  int beyond = is_max ? kir_op2(b, KIR_LT, av, bv) : kir_op2(b, KIR_LT, bv, av);
  int a_number = kir_op1(b, KIR_NOT, a_nan), win = kir_op2(b, KIR_AND, a_number, kir_op2(b, KIR_OR, b_nan, beyond));
  int take = kir_op2(b, KIR_OR, win, kir_op2(b, KIR_AND, tie, kir_op2(b, KIR_LT, bi, ai)));
  out[0] = kir_op3(b, KIR_SELECT, take, bv, av);
  out[1] = kir_op3(b, KIR_SELECT, take, bi, ai);
  kir_fn_end(b, fn, 2, out);
  return fn;
}

static int argmax_combine(struct kir_builder *b, const struct node *n) { return arg_better(b, n, true); }
static int argmin_combine(struct kir_builder *b, const struct node *n) { return arg_better(b, n, false); }

static void argmax_from(struct kir_builder *b, const struct node *n, int out[]) {
  out[0] = lowest(b, operand_register(n));
  out[1] = kir_lit(b->k, WEFT_I64, INT64_MAX);
}

static void argmin_from(struct kir_builder *b, const struct node *n, int out[]) {
  out[0] = highest(b, operand_register(n));
  out[1] = kir_lit(b->k, WEFT_I64, INT64_MAX);
}

static int arg_finish(struct kir_builder *b, const struct node *n, const int state[]) {
  return (void)b, (void)n, state[1];
}

static const struct fold fold_add = { .op = KIR_ADD }, fold_mul = { .op = KIR_MUL }, fold_max = { .op = KIR_MAX },
                         fold_min = { .op = KIR_MIN }, fold_and = { .op = KIR_AND }, fold_or = { .op = KIR_OR };
static const struct fold fold_argmax = { KIR_CALL, 2, arg_state, arg_lift, argmax_combine, argmax_from, arg_finish, NULL };
static const struct fold fold_argmin = { KIR_CALL, 2, arg_state, arg_lift, argmin_combine, argmin_from, arg_finish, NULL };
extern const struct fold fold_lse; /* logsumexp.c */

/* ---- Derivatives ---- */

#define X (r->in[0])
#define Y (r->out)

static int axis_of(const struct rule *r) { return ((const struct axis_attr *)r->node->attr)->axis; }

/* Nothing else need read X, whose sizes it has. */
static weft_array *sum_vjp(const struct rule *r, int k, weft_array *dy) {
  return (void)k, array_sized_by(array_broadcast("weft_sum", dy, X->node->rank, X->node->dims), X);
}
static weft_array *sum_jvp(const struct rule *r, int k, weft_array *dx) { return (void)k, weft_sum(dx, axis_of(r)); }

/* d prod / dx_i is the product of the others: those before times those behind, so that a zero divides nothing. */
static weft_array *others(weft_array *x, int axis) {
  weft_array *before = weft_before(weft_cumprod, x, axis), *behind = weft_before(weft_cumprod, weft_flip(x, axis), axis);
  return weft_mul(before, weft_flip(behind, axis));
}

static weft_array *prod_vjp(const struct rule *r, int k, weft_array *dy) {
  return (void)k, weft_mul(dy, others(X, axis_of(r)));
}
static weft_array *prod_jvp(const struct rule *r, int k, weft_array *dx) {
  return (void)k, weft_sum(weft_mul(dx, others(X, axis_of(r))), axis_of(r));
}

/* Elements that equal the extremum share equally; if it is nan, they are the nans. */
static weft_array *winners(const struct rule *r) {
  return dtype_is_float(weft_dtype_of(Y)) ? weft_or(weft_eq(X, Y), weft_isnan(X)) : weft_eq(X, Y);
}
static weft_array *n_winners(const struct rule *r) {
  return weft_sum(weft_cast(winners(r), weft_dtype_of(Y)), axis_of(r));
}

static weft_array *extremum_vjp(const struct rule *r, int k, weft_array *dy) {
  return (void)k, weft_where(winners(r), weft_div(dy, n_winners(r)), number_like(Y, 0));
}
static weft_array *extremum_jvp(const struct rule *r, int k, weft_array *dx) {
  return (void)k, weft_div(weft_sum(weft_where(winners(r), dx, number_like(Y, 0)), axis_of(r)), n_winners(r));
}

/* d logsumexp / dx = softmax */
static weft_array *lse_vjp(const struct rule *r, int k, weft_array *dy) {
  return (void)k, weft_mul(dy, weft_exp(weft_sub(X, Y)));
}
static weft_array *lse_jvp(const struct rule *r, int k, weft_array *dx) {
  return (void)k, weft_sum(weft_mul(dx, weft_exp(weft_sub(X, Y))), axis_of(r));
}

/* ---- The rows ---- */

static weft_array *array_again_of(weft_array *x, const struct op *op, int axis, int needs_one) {
  const struct node *n = x->node;
  dim d[WEFT_RANK_MAX];
  if (n->rank) memcpy(d, n->dims, n->rank * sizeof *d);
  if (op->kind == OP_REDUCE) d[axis] = 1;
  weft_dtype out = op->fold->finish == arg_finish ? WEFT_I64 : (weft_dtype)n->dtype;
  return array_of(node_make(op, out, n->rank, d, 1, &x->node, &(struct axis_attr){ axis, needs_one }, sizeof(struct axis_attr)));
}

weft_array *array_again(weft_array *x, const struct op *op, int axis) { return array_again_of(x, op, axis, false); }

static weft_array *reduce_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  return array_again_of(X, r->node->op, axis_of(r) + 1, ((const struct axis_attr *)r->node->attr)->needs_one);
}

static struct node *reduce_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  dim d[WEFT_RANK_MAX];
  memcpy(d, in[0]->dims, in[0]->rank * sizeof *d);
  d[((const struct axis_attr *)n->attr)->axis] = 1;
  return node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, d, 1, in, n->attr, n->attr_bytes);
}

static struct failure *no_element(const char *name, uint64_t origin, const struct node *x, int axis) {
  struct shape_text s;
  char along[32] = "";
  if (axis != WEFT_ALL && x->rank > 1) snprintf(along, sizeof along, " along axis %d", axis);
  return fail(WEFT_ERR_SHAPE, origin, "weft_%s: nothing to choose from in %s%s", name, shape_show(x, &s), along);
}

/* A size that was not known has become 0, and there is no element to choose. The largest of bools is whether any is true. */
static struct failure *reduce_agree(const struct node *n) {
  const struct axis_attr *a = n->attr;
  if (!a->needs_one || n->in[0]->dims[a->axis] != 0) return NULL;
  return no_element(n->op->fold == &fold_or ? "max" : n->op->fold == &fold_and ? "min" : n->op->name, n->origin, n->in[0], a->axis);
}

#define ROW(id, how, backward, forward, more)                                                                    \
  const struct op op_##id = { .name = #id, .kind = OP_REDUCE, .fold = how, .vjp = backward, .jvp = forward,      \
                              .batch = reduce_batch, .again = reduce_again, .agree = reduce_agree, more };
ROW(sum, &fold_add, sum_vjp, sum_jvp, .chooses = false)
ROW(prod, &fold_mul, prod_vjp, prod_jvp, .chooses = false)
ROW(max, &fold_max, extremum_vjp, extremum_jvp, .chooses = true)
ROW(min, &fold_min, extremum_vjp, extremum_jvp, .chooses = true)
ROW(all, &fold_and, NULL, NULL, .chooses = false)
ROW(any, &fold_or, NULL, NULL, .chooses = false)
ROW(logsumexp, &fold_lse, lse_vjp, lse_jvp, .chooses = false)
ROW(argmax, &fold_argmax, NULL, NULL, .chooses = false)
ROW(argmin, &fold_argmin, NULL, NULL, .chooses = false)

/* ---- Making nodes ---- */

static struct node *along(const struct op *op, weft_dtype out, struct node *x, int axis, bool has_neutral) {
  dim d[WEFT_RANK_MAX];
  if (!x) return NULL;
  memcpy(d, x->dims, x->rank * sizeof *d);
  d[axis] = 1;
  struct axis_attr attr = { axis, !has_neutral && !dim_is_known(x->dims[axis]) };
  struct node *y = node_make(op, out, x->rank, d, 1, &x, &attr, sizeof attr);
  node_release(x);
  return y;
}

struct node *node_along(const struct op *op, struct node *x, int axis) {
  return along(op, x ? (weft_dtype)x->dtype : WEFT_F32, x, axis, true);
}

struct failure *empty_check(const char *fn, const struct node *x, int axis) {
  bool is_empty = axis == WEFT_ALL ? dim_count(x->rank, x->dims) == 0 : x->dims[axis] == 0;
  return is_empty ? no_element(fn + sizeof "weft_" - 1, scope_origin(), x, axis) : NULL;
}

/* Several axes: the last first. */
static struct node *over_all(const struct op *op, weft_dtype d, struct node *x, bool has_neutral) {
  for (int axis = x ? x->rank - 1 : -1; x && axis >= 0; axis--) x = along(op, d, x, axis, has_neutral);
  return node_reshape(x, 0, NULL);
}

/* in: what the operand is cast to; out: what the node is. An index over all axes counts row by row; a logsumexp takes one
 * logarithm, not one an axis, each of which would round. */
static weft_array *reduce(const char *fn, const struct op *op, weft_dtype in, weft_dtype out, struct node *x, int axis,
                          bool has_neutral) {
  struct failure *why = axis == WEFT_ALL ? NULL : axis_check(fn, x, &axis);
  if (!why && !has_neutral) why = empty_check(fn, x, axis);
  if (why) return array_of_bad(why, 1, &x);
  bool is_flat = op->fold->finish == arg_finish || op == &op_logsumexp;
  dim count = dim_count(x->rank, x->dims);
  x = node_cast(x, in);
  if (axis != WEFT_ALL) return array_of(along(op, out, x, axis, has_neutral));
  return array_of(over_all(op, out, is_flat ? node_reshape(x, 1, &count) : x, has_neutral));
}

/* Sums and products of small integers and bools have 32 bits at least. */
weft_dtype dtype_of_sum(weft_dtype d) {
  if (d == WEFT_BOOL || (dtype_is_signed(d) && d < WEFT_I32)) return WEFT_I32;
  return d == WEFT_U8 || d == WEFT_U16 ? WEFT_U32 : d;
}

static weft_dtype as_bool(weft_dtype d) { return (void)d, WEFT_BOOL; }

static weft_array *reduce_array(const char *fn, const struct op *op, weft_dtype (*to)(weft_dtype), weft_array *x,
                                int axis, bool has_neutral) {
  struct node *n;
  weft_array *bad;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  if (dtype_is_complex(n->dtype) && op != &op_sum && to != as_bool) return array_of_bad(not_of(fn, n->dtype), 1, &n);
  weft_dtype in = to((weft_dtype)n->dtype), out = op->fold->finish == arg_finish ? WEFT_I64 : in;
  return reduce(fn, op, in, out, n, axis, has_neutral);
}

static weft_dtype as_it_is(weft_dtype d) { return d; }
static weft_dtype as_number(weft_dtype d) { return d == WEFT_BOOL ? WEFT_U8 : d; }

weft_array *weft_sum(weft_array *x, int axis) { return reduce_array("weft_sum", &op_sum, dtype_of_sum, x, axis, true); }
weft_array *weft_prod(weft_array *x, int axis) {
  if (dtype_is_complex(weft_dtype_of(x))) return complex_prod(x, axis);
  return reduce_array("weft_prod", &op_prod, dtype_of_sum, x, axis, true);
}
weft_array *weft_all(weft_array *x, int axis) { return reduce_array("weft_all", &op_all, as_bool, x, axis, true); }
weft_array *weft_any(weft_array *x, int axis) { return reduce_array("weft_any", &op_any, as_bool, x, axis, true); }
weft_array *weft_argmax(weft_array *x, int axis) {
  return reduce_array("weft_argmax", &op_argmax, as_number, x, axis, false);
}
weft_array *weft_argmin(weft_array *x, int axis) {
  return reduce_array("weft_argmin", &op_argmin, as_number, x, axis, false);
}
weft_array *weft_logsumexp(weft_array *x, int axis) {
  return reduce_array("weft_logsumexp", &op_logsumexp, dtype_float, x, axis, true);
}

/* The largest of bools is whether any is true. */
weft_array *weft_max(weft_array *x, int axis) {
  bool is_bool = weft_dtype_of(x) == WEFT_BOOL;
  return reduce_array("weft_max", is_bool ? &op_any : &op_max, as_it_is, x, axis, false);
}

weft_array *weft_min(weft_array *x, int axis) {
  bool is_bool = weft_dtype_of(x) == WEFT_BOOL;
  return reduce_array("weft_min", is_bool ? &op_all : &op_min, as_it_is, x, axis, false);
}
