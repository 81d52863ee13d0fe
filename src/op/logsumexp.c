/* logsumexp.c -- log sum e^x along an axis.
 *
 * (m, s) stands for s e^m. Few elements are folded one by one. Of many, m is their maximum and s = sum e^(x - m), two plain
 * folds; of more than stay in a cache, groups are, and then the groups: m = max m_i, s = sum s_i e^(m_i - m). Which of these
 * it is depends on the length and on whether the axis is the last, and so do bits. */
#include <string.h>
#include "graph/dtype.h"
#include "op/op.h"
#include "op/operand.h"

/* ---- One by one: a fold of tuples ---- */

static weft_dtype state(const struct node *n, int i) { return (void)i, operand_register(n); }
static int number(struct kir_builder *b, const struct node *n, double x) {
  return lower_number(b, operand_register(n), x);
}

static void lift(struct kir_builder *b, const struct node *n, int x, int index, int out[]) {
  (void)index;
  out[0] = x;
  out[1] = number(b, n, 1);
}

/* One of the two has the maximum and keeps its scale, so one exponential is enough. Equal maxima are not subtracted, for
 * inf - inf is nan. */
static int combine(struct kir_builder *b, const struct node *n) {
  weft_dtype d = operand_register(n);
  int v[4], out[2], one = number(b, n, 1);
  int fn = kir_fn_begin(b, "lse", 4, (weft_dtype[]){ d, d, d, d }, v);
  int m = kir_op2(b, KIR_MAX, v[0], v[2]);
  int is_first = kir_op2(b, KIR_EQ, v[0], m), other = kir_op3(b, KIR_SELECT, is_first, v[2], v[0]);
  int e = kir_op1(b, KIR_EXP, kir_op2(b, KIR_SUB, other, m));
  e = kir_op3(b, KIR_SELECT, kir_op2(b, KIR_EQ, other, m), one, e);
  int ea = kir_op3(b, KIR_SELECT, is_first, one, e), eb = kir_op3(b, KIR_SELECT, is_first, e, one);
  out[0] = m;
  out[1] = kir_op3(b, KIR_FMA, v[1], ea, kir_op2(b, KIR_MUL, v[3], eb));
  kir_fn_end(b, fn, 2, out);
  return fn;
}

static void from(struct kir_builder *b, const struct node *n, int out[]) {
  out[0] = number(b, n, -__builtin_inf());
  out[1] = number(b, n, 0);
}

static int finish(struct kir_builder *b, const struct node *n, const int state[]) {
  return (void)n, kir_op2(b, KIR_ADD, state[0], kir_op1(b, KIR_LOG, state[1]));
}

/* ---- Many: other nodes ---- */

extern const struct op op_exp, op_log, op_max, op_sum;

struct many_exps { struct arena *arena; const struct node *node; weft_dtype dtype; bool no_memory; };
struct exps { struct node *m, *s; }; /* s NULL: all of them 1 */

enum { FEW = 64, MOST_AXES = 6 };    /* one by one; of an array whose axis is cut in two */
static const struct { dim most, group; } rows = { 16384, 4096 }, columns = { 512, 64 }; /* at once, else in groups of */

static struct node *made(struct many_exps *u, const struct op *op, int rank, const dim dims[], int n, struct node *const in[],
                         const void *attr, size_t bytes) {
  for (int k = 0; k < n; k++) if (!in[k]) return NULL;
  struct node *x = node_local(u->arena, op, u->dtype, rank, dims, n, in, attr, bytes);
  if (x) x->slot = -1, x->origin = u->node->origin;
  else u->no_memory = true;
  return x;
}

static struct node *of_one(struct many_exps *u, const struct op *op, struct node *x) {
  return x ? made(u, op, x->rank, x->dims, 1, &x, NULL, 0) : NULL;
}
static struct node *of_two(struct many_exps *u, const struct op *op, struct node *x, struct node *y) {
  return x ? made(u, op, x->rank, x->dims, 2, (struct node *[]){ x, y }, NULL, 0) : NULL;
}
static struct node *like(struct many_exps *u, const struct op *view, struct node *x, const struct node *y) {
  return y ? made(u, view, y->rank, y->dims, 1, &x, NULL, 0) : NULL;
}

/* An op that leaves x another length along an axis. */
static struct node *along(struct many_exps *u, const struct op *op, struct node *x, int axis, dim length, const void *attr,
                          size_t bytes) {
  dim d[WEFT_RANK_MAX];
  if (!x) return NULL;
  memcpy(d, x->dims, x->rank * sizeof *d);
  d[axis] = length;
  return made(u, op, x->rank, d, 1, &x, attr, bytes);
}
static struct node *folded(struct many_exps *u, const struct op *op, struct node *x, int axis) {
  return along(u, op, x, axis, 1, &(struct axis_attr){ axis }, sizeof(struct axis_attr));
}
static struct node *sliced(struct many_exps *u, struct node *x, int axis, dim start, dim length) {
  if (x && x->dims[axis] == length) return x;
  return along(u, &op_slice, x, axis, length, &(struct slice_attr){ axis, start, 1 }, sizeof(struct slice_attr));
}

/* The number nearest to x that is finite: what infinities and finite ones can be compared with. */
static struct node *nearest_finite(struct many_exps *u, struct node *x) {
  double most = u->dtype == WEFT_F64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  for (int k = 0; k < 2; k++) {
    struct scalar_attr bits = { dtype_encode(u->dtype, k ? most : -most) };
    struct node *limit = made(u, &op_scalar, 0, NULL, 0, NULL, &bits, sizeof bits);
    x = of_two(u, k ? &op_minimum : &op_maximum, x, like(u, &op_broadcast, limit, x));
  }
  return x;
}

/* All of an axis, at once. */
static struct exps at_once(struct many_exps *u, struct exps x, int axis) {
  struct node *m = folded(u, &op_max, x.m, axis), *top = like(u, &op_broadcast, nearest_finite(u, m), x.m);
  struct node *e = of_one(u, &op_exp, of_two(u, &op_sub, x.m, top));
  if (x.s) e = of_two(u, &op_mul, x.s, e);
  return (struct exps){ m, folded(u, &op_sum, e, axis) };
}

/* The first n groups of an axis become an axis of groups and one of their elements. */
static struct node *cut(struct many_exps *u, struct node *x, int axis, dim n, dim group) {
  dim d[WEFT_RANK_MAX];
  x = x ? sliced(u, x, axis, 0, n * group) : NULL;
  if (!x) return NULL;
  memcpy(d, x->dims, axis * sizeof *d);
  d[axis] = n, d[axis + 1] = group;
  memcpy(d + axis + 2, x->dims + axis + 1, (size_t)(x->rank - axis - 1) * sizeof *d);
  return made(u, &op_reshape, x->rank + 1, d, 1, &x, NULL, 0);
}

static struct node *joined(struct many_exps *u, struct node *x, struct node *rest, int axis, dim n) {
  dim d[WEFT_RANK_MAX];
  if (!x) return NULL;
  memcpy(d, u->node->dims, u->node->rank * sizeof *d);
  d[axis] = n;
  x = made(u, &op_reshape, u->node->rank, d, 1, &x, NULL, 0);
  d[axis] = n + 1;
  return rest && x ? made(u, &op_concat, u->node->rank, d, 2, (struct node *[]){ x, rest }, &(struct axis_attr){ axis },
                          sizeof(struct axis_attr)) : x;
}

/* As long as possible, all of one length if there is one not below half of the most. */
static dim length_of_groups(dim n, dim most) {
  for (dim g = most; 2 * g >= most; g--) if (n % g == 0) return g;
  return most;
}

/* Groups of an axis; the last may be shorter. */
static struct exps in_groups(struct many_exps *u, struct exps x, int axis, dim most) {
  dim group = length_of_groups(x.m->dims[axis], most), n = x.m->dims[axis] / group, left = x.m->dims[axis] % group;
  struct exps rest = { 0 }, of = { cut(u, x.m, axis, n, group), x.s ? cut(u, x.s, axis, n, group) : NULL };
  of = at_once(u, of, axis + 1);
  if (left) {
    rest = (struct exps){ sliced(u, x.m, axis, n * group, left), x.s ? sliced(u, x.s, axis, n * group, left) : NULL };
    rest = at_once(u, rest, axis);
  }
  return (struct exps){ joined(u, of.m, rest.m, axis, n), joined(u, of.s, rest.s, axis, n) };
}

static int n_long_axes(const struct node *x) {
  int n = 0;
  for (int k = 0; k < x->rank; k++) n += x->dims[k] != 1;
  return n;
}

static bool unfold(struct arena *arena, struct node *n) {
  struct many_exps u = { arena, n, operand_register(n) };
  struct node *x = n->in[0];
  int axis = ((const struct axis_attr *)n->attr)->axis;
  if (x->dims[axis] <= FEW) return true;
  struct exps of = { x->dtype == u.dtype ? x : of_one(&u, &op_cast, x), NULL };
  bool may_cut = x->rank < WEFT_RANK_MAX && n_long_axes(x) <= MOST_AXES, is_row = axis == x->rank - 1;
  while (may_cut && of.m && of.m->dims[axis] > (is_row ? rows.most : columns.most))
    of = in_groups(&u, of, axis, is_row ? rows.group : columns.group);
  if (of.m) of = at_once(&u, of, axis);
  struct node *y = of_two(&u, &op_add, of.m, of_one(&u, &op_log, of.s));
  if (y && n->dtype != u.dtype) u.dtype = (weft_dtype)n->dtype, y = of_one(&u, &op_cast, y);
  if (!y || u.no_memory) return false;
  local_become(n, y);
  return true;
}

const struct fold fold_lse = { KIR_CALL, 2, state, lift, combine, from, finish, unfold };
