/* argmax_groups.c -- the indices of extremes (argmax, argmin) along few long rows or columns, on a device with many more threads
 * than there are of these: groups of an axis are folded side by side, and then their extremes.
 *
 *   m_g = max of group g, i_g = its first index;  m = max m_g, i = the least i_g of those groups whose m_g is m
 *
 * If there is a nan, the first one is what is looked for: then m is nan, and so is m_g of the groups that have one. The index is
 * that of the plain fold whatever the groups are, and groups may overlap. Nothing depends on their length but time. */
#include <string.h>
#include "op/parts.h"
#include "schedule/work.h"

extern const struct op op_argmax, op_argmin, op_max, op_min;

/* Elements of a group, at most, but for what overlaps: a column is a thread's, a row belongs to a block of threads. Columns are cut
 * that are longer, and rows that are, where there are not many of them. Not measured on a GPU. */
enum { COLUMN_GROUP = 128, MOST_OF_COLUMN = 512, ROW_GROUP = 512, MOST_OF_ROW = 1 << 17, MANY_ROWS = 256 };

struct argmax_groups {
  struct work *w;
  const struct node *node;      /* the plain fold */
  const struct op *extreme;
  int axis, rank;               /* of rows the axis is the last */
  bool is_rows;
};
struct firsts { struct node *m, *i; }; /* of groups: their extreme, and the first index that has it */

static struct node *made(struct argmax_groups *u, const struct op *op, weft_dtype t, int rank, const dim dims[], int n,
                         struct node *const in[], const void *attr, size_t bytes) {
  for (int k = 0; k < n; k++) if (!in[k]) return NULL;
  struct node *x = work_node(u->w, op, t, rank, dims, n, in, attr, bytes);
  if (x) x->origin = u->node->origin;
  return x;
}

/* Element by element, of x and of others like it. */
static struct node *each(struct argmax_groups *u, const struct op *op, weft_dtype t, int n, struct node *const in[]) {
  return in[0] ? made(u, op, t, in[0]->rank, in[0]->dims, n, in, NULL, 0) : NULL;
}

static struct node *number(struct argmax_groups *u, int64_t value, const struct node *like) {
  struct scalar_attr bits = { (uint64_t)value };
  struct node *s = made(u, &op_scalar, WEFT_I64, 0, NULL, 0, NULL, &bits, sizeof bits);
  return like ? made(u, &op_broadcast, WEFT_I64, like->rank, like->dims, 1, &s, NULL, 0) : NULL;
}

static struct node *folded(struct argmax_groups *u, const struct op *op, weft_dtype t, struct node *x, int axis) {
  dim d[WEFT_RANK_MAX];
  if (!x) return NULL;
  memcpy(d, x->dims, x->rank * sizeof *d);
  d[axis] = 1;
  return made(u, op, t, x->rank, d, 1, &x, &(struct axis_attr){ axis }, sizeof(struct axis_attr));
}

struct cutting { dim n, step, length; }; /* group g begins with element g step, and has so many */

/* As long as they may be, but with as little overlap as half of that can have. */
static struct cutting cutting_of(dim n, dim most) {
  dim step = most;
  for (dim s = most; 2 * s >= most; s--) if (n % s < n % step) step = s;
  return (struct cutting){ n / step, step, step + n % step };
}

/* The axis of x as groups, whose elements are an axis behind it. */
static struct node *cut(struct argmax_groups *u, struct node *x, const struct cutting *c) {
  int a = u->axis, behind = x->rank - a - 1;
  dim d[WEFT_RANK_MAX];
  weft_dtype t = (weft_dtype)x->dtype;
  memcpy(d, x->dims, x->rank * sizeof *d);
  d[a] = c->n;
  if (c->length == c->step) { /* views that do not overlap may move below what is computed */
    d[a + 1] = c->length;
    memcpy(d + a + 2, x->dims + a + 1, (size_t)behind * sizeof *d);
    return made(u, &op_reshape, t, x->rank + 1, d, 1, &x, NULL, 0);
  }
  struct transpose_attr turn;
  d[x->rank] = c->length;
  struct windows_attr windows = { a, c->step, 1 };
  struct node *y = made(u, &op_windows, t, x->rank + 1, d, 1, &x, &windows, sizeof windows);
  for (int k = 0; k <= x->rank; k++) turn.axes[k] = k <= a ? k : k == a + 1 ? x->rank : k - 1;
  d[a + 1] = c->length;
  memcpy(d + a + 2, x->dims + a + 1, (size_t)behind * sizeof *d);
  return behind ? made(u, &op_transpose, t, x->rank + 1, d, 1, &y, &turn, sizeof *turn.axes * (size_t)(x->rank + 1)) : y;
}

/* Without the axis of a group, which has length 1 now. */
static struct node *joined(struct argmax_groups *u, struct node *x, dim n) {
  dim d[WEFT_RANK_MAX];
  memcpy(d, u->node->dims, (size_t)u->rank * sizeof *d);
  d[u->axis] = n;
  return made(u, &op_reshape, x ? (weft_dtype)x->dtype : WEFT_I64, u->rank, d, 1, &x, NULL, 0);
}

/* Of elements along an axis, which both folds read in one kernel. */
static struct firsts of_elements(struct argmax_groups *u, struct node *x, int axis) {
  weft_dtype t = x ? kir_register_of((weft_dtype)x->dtype) : WEFT_F32;
  x = each(u, &op_cast, t, 1, &x);
  if (x) local_of(x)->is_together = true;
  return (struct firsts){ folded(u, u->extreme, t, x, axis), folded(u, u->node->op, WEFT_I64, x, axis) };
}

/* Of groups along an axis, whose indices are those of the whole. */
static struct firsts of_groups(struct argmax_groups *u, struct firsts x, int axis) {
  weft_dtype t = x.m ? (weft_dtype)x.m->dtype : WEFT_F32;
  struct node *m = folded(u, u->extreme, t, x.m, axis);
  struct node *all = m ? made(u, &op_broadcast, t, x.m->rank, x.m->dims, 1, &m, NULL, 0) : NULL;
  struct node *is = each(u, &op_eq, WEFT_BOOL, 2, (struct node *[]){ x.m, all });
  if (kir_is_float(t)) is = each(u, &op_or, WEFT_BOOL, 2, (struct node *[]){ is, each(u, &op_isnan, WEFT_BOOL, 1, &x.m) });
  struct node *i = each(u, &op_where, WEFT_I64, 3, (struct node *[]){ is, x.i, number(u, INT64_MAX, is) });
  return (struct firsts){ m, folded(u, &op_min, WEFT_I64, i, axis) };
}

/* i + step times the number of the group, which nothing else reads. */
static struct node *counted(struct argmax_groups *u, struct node *i, dim step) {
  struct axis_attr axis = { u->axis };
  struct node *g = i ? made(u, &op_iota, WEFT_I64, i->rank, i->dims, 0, NULL, &axis, sizeof axis) : NULL;
  struct node *first = each(u, &op_mul, WEFT_I64, 2, (struct node *[]){ g, number(u, step, g) });
  if (first) local_of(first)->is_floating = local_of(g)->is_floating = true;
  return each(u, &op_add, WEFT_I64, 2, (struct node *[]){ i, first });
}

/* The axis in groups; of elements where there are no indices yet. */
static struct firsts in_groups(struct argmax_groups *u, struct firsts x) {
  struct cutting c = cutting_of(x.m->dims[u->axis], u->is_rows ? ROW_GROUP : COLUMN_GROUP);
  struct node *m = cut(u, x.m, &c);
  struct firsts of = x.i ? of_groups(u, (struct firsts){ m, cut(u, x.i, &c) }, u->axis + 1) : of_elements(u, m, u->axis + 1);
  struct node *i = joined(u, of.i, c.n);
  return (struct firsts){ joined(u, of.m, c.n), x.i ? i : counted(u, i, c.step) };
}

static bool is_worth_while(const struct argmax_groups *u, const struct node *x) {
  int64_t n = x->dims[u->axis], all = node_count(u->node);
  return u->is_rows ? n > MOST_OF_ROW && all < MANY_ROWS : n > MOST_OF_COLUMN && fold_is_narrow(u->w, true, 1, all, n);
}

static bool has_room(const struct node *x) {
  int n = 0;
  for (int k = 0; k < x->rank; k++) n += x->dims[k] != 1;
  return x->rank < WEFT_RANK_MAX && n < AXES;
}

bool argmax_in_groups(struct work *w, struct node *n) {
  bool is_max = n->op == &op_argmax;
  if (!w->fuse || !work_is_for_device(w) || (!is_max && n->op != &op_argmin)) return true;
  int axis = ((const struct axis_attr *)n->attr)->axis;
  struct argmax_groups u = { w, n, is_max ? &op_max : &op_min, axis, n->rank, true };
  struct node *x = n->in[0];
  for (int k = axis + 1; k < n->rank; k++) u.is_rows &= n->dims[k] == 1;
  if (!is_worth_while(&u, x) || !has_room(x)) return true;
  if (u.is_rows) u.rank = axis + 1;
  if (u.rank < n->rank) x = made(&u, &op_reshape, (weft_dtype)x->dtype, u.rank, x->dims, 1, &x, NULL, 0);
  struct firsts of = { x, NULL };
  while (of.m && of.m->dims[axis] > (u.is_rows ? ROW_GROUP : COLUMN_GROUP)) of = in_groups(&u, of);
  struct node *i = of_groups(&u, of, axis).i;
  if (i && u.rank < n->rank) i = made(&u, &op_reshape, WEFT_I64, n->rank, n->dims, 1, &i, NULL, 0);
  if (!i || w->no_memory) return false;
  return local_become(n, i), true;
}
