/* indices.c -- what is taken by index of values that nobody has to store, and what is put by index among equal ones. All exact.
 *
 *   take(f(x, y), i) = f(take(x, i), take(y, i))     where far fewer are taken than there are, and x and y stand in memory anyway
 *   scatter(c, v, .., i, ..) = where(j == i, v, c)   where c is a number and every row along j has one v
 *
 * The first is what a loss takes of the logarithm of a softmax, or of logits in another dtype; the second its gradient, and rows
 * of 0 with a 1 in each. Whoever reads them computes them then. An index out of range is found as before, in the same words. */
#include "graph/dtype.h"
#include "op/parts.h"
#include "rewrite/rewriting.h"

/* -1: a size is no number yet, or there are more than can be counted. */
static int64_t count_of(int rank, const dim dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++)
    if (!dim_is_known(dims[k]) || __builtin_mul_overflow(n, dims[k], &n)) return -1;
  return n;
}

/* ---- Of values that are made element by element ---- */

enum {
  FEW = 8,                           /* so many times fewer than there are */
  MOST_MADE = 16, MOST_READ = 4, MOST_VIEWS = 4
};

struct few {
  struct rewriting *w;
  struct node *n, *of;               /* the take, and what it takes of, below views */
  struct node *view[MOST_VIEWS];     /* between, outermost first */
  struct node *node[MOST_MADE + MOST_READ], *by[MOST_MADE + MOST_READ]; /* inputs before users, and what stands for them */
  bool is_read[MOST_MADE + MOST_READ];
  int n_views, n_nodes, n_made, n_read;
};

static struct node *below_views(struct node *n) {
  while (n->op->kind == OP_VIEW) n = n->in[0];
  return n;
}

/* Is in memory whoever reads it, or may be: it is small beside what is made of it. */
static bool stands(const struct few *t, struct node *x) {
  struct node *base = below_views(x);
  int64_t n = count_of(base->rank, base->dims);
  if (base->op->kind == OP_LEAF || base->op->kind == OP_ITEM || base->op->kind == OP_CALL) return true;
  return n >= 0 && n <= count_of(t->of->rank, t->of->dims) / FEW;
}

static int place_of(const struct few *t, const struct node *x) {
  for (int i = 0; i < t->n_nodes; i++) if (t->node[i] == x) return i;
  return -1;
}

static void note(struct few *t, struct node *x, bool is_read) {
  t->is_read[t->n_nodes] = is_read;
  t->node[t->n_nodes++] = x;
}

/* Notes x and what it is made of, down to what stands; at most MOST_MADE deep. */
static bool collect(struct few *t, struct node *x) {
  bool is_read = x->op->kind != OP_ELEMENT;
  if (scalar_below(x) || place_of(t, x) >= 0) return true;
  if (is_read ? !stands(t, x) || t->n_read++ == MOST_READ : t->n_made++ == MOST_MADE) return false;
  for (int k = 0; !is_read && k < x->n_in; k++) if (!collect(t, x->in[k])) return false;
  note(t, x, is_read);
  return true;
}

/* What is made is narrower in memory before a cast than behind it, so that is taken whatever it is. */
static bool is_widened(const struct node *x) {
  return x->op == &op_cast && weft_dtype_bytes((weft_dtype)x->in[0]->dtype) < weft_dtype_bytes((weft_dtype)x->dtype);
}

static bool find(struct few *t) {
  if (collect(t, t->of)) return t->n_read > 0;
  if (!is_widened(t->of)) return false;
  t->n_nodes = 0;
  note(t, t->of->in[0], true), note(t, t->of, false);
  return true;
}

static struct node *taken(const struct few *t, struct node *x) {
  struct node *in[WEFT_RANK_MAX + 1];
  for (int i = t->n_views - 1; x && i >= 0; i--) {
    const struct node *v = t->view[i];
    x = made(t->w, v->op, v, v->rank, v->dims, (weft_dtype)x->dtype, 1, &x, v->attr, v->attr_bytes);
  }
  in[0] = x;
  for (int k = 1; k < t->n->n_in; k++) in[k] = t->n->in[k];
  return x ? made(t->w, &op_take, t->n, t->n->rank, t->n->dims, (weft_dtype)x->dtype, t->n->n_in, in, t->n->attr, t->n->attr_bytes)
           : NULL;
}

/* A number in the shape of what is taken. */
static struct node *number_there(const struct few *t, const struct node *x) {
  const struct node *s = scalar_below(x);
  struct node like = { .dtype = s->dtype, .rank = t->n->rank, .dims = t->n->dims, .origin = s->origin };
  return number_of(t->w, &like, scalar_bits(s, (weft_dtype)s->dtype));
}

static struct node *again(const struct few *t, const struct node *x) {
  struct node *in[ELEMENT_MOST];
  for (int k = 0; k < x->n_in; k++) {
    in[k] = scalar_below(x->in[k]) ? number_there(t, x->in[k]) : t->by[place_of(t, x->in[k])];
    if (!in[k]) return NULL;
  }
  return made(t->w, x->op, x, t->n->rank, t->n->dims, (weft_dtype)x->dtype, x->n_in, in, x->attr, x->attr_bytes);
}

struct node *rewrite_take(struct rewriting *w, struct node *n) {
  struct few t = { .w = w, .n = n, .of = n->in[0] };
  for (; t.of->op->kind == OP_VIEW && t.n_views < MOST_VIEWS; t.of = t.of->in[0]) t.view[t.n_views++] = t.of;
  int64_t few = count_of(n->rank, n->dims), all = count_of(t.of->rank, t.of->dims);
  if (n->op != &op_take || t.of->op->kind != OP_ELEMENT || few < 0 || all / FEW < few || !find(&t)) return n;
  for (int i = 0; i < t.n_nodes; i++)
    if (!(t.by[i] = t.is_read[i] ? taken(&t, t.node[i]) : again(&t, t.node[i]))) return NULL;
  return t.by[t.n_nodes - 1];
}

/* ---- Among equal ones ---- */

/* The axis along which n counts 0 1 2 .., the same along all others; -1: it does not, or has fewer than two to count, or lies below
 * more than so many views. */
static int axis_counted(const struct node *n, int most) {
  enum { EXACT = 1 << 24 }; /* f32 counts so far */
  if (n->op == &op_iota) {
    int axis = ((const struct axis_attr *)n->attr)->axis;
    return n->dims[axis] > 1 ? axis : -1;
  }
  if (!most || (n->op != &op_cast && n->op != &op_broadcast && n->op != &op_reshape)) return -1;
  const struct node *x = n->in[0];
  int axis = axis_counted(x, most - 1), at = axis + n->rank - x->rank;
  if (axis < 0) return -1;
  bool is_exact = weft_dtype_bytes((weft_dtype)x->dtype) >= 4 && n->dtype == WEFT_I64 && x->dims[axis] <= EXACT;
  if (n->op == &op_cast) return is_exact ? axis : -1;
  if (n->op == &op_broadcast) return x->dims[axis] == n->dims[at] ? at : -1;
  if (count_of(x->rank, x->dims) != x->dims[axis]) return -1;
  for (at = 0; n->dims[at] == 1;) at++;
  return n->dims[at] == x->dims[axis] ? at : -1;
}

/* The one axis of x whose index is not the place itself. The others are counted along axes of the indices, in order, and along
 * those that are left indices have one element: each row has one. -1: it is not so. */
static int axis_found(const struct node *n, int n_index) {
  const struct node *x = n->in[0];
  bool is_counted[WEFT_RANK_MAX] = { false };
  int found = -1, last = -1;
  for (int k = 0; k < n_index; k++) {
    const struct node *i = n->in[2 + k];
    int axis = axis_counted(i, MOST_VIEWS);
    if (axis > last && i->dims[axis] == x->dims[k]) is_counted[last = axis] = true;
    else if (found < 0) found = k;
    else return -1;
  }
  for (int k = 0; k < n->in[2]->rank; k++) if (!is_counted[k] && n->in[2]->dims[k] != 1) return -1;
  return found;
}

static struct node *like(struct rewriting *w, const struct op *op, const struct node *n, weft_dtype dtype, int n_in,
                         struct node *const in[]) {
  return made(w, op, n, n->rank, n->dims, dtype, n_in, in, NULL, 0);
}

static struct node *shaped(struct rewriting *w, const struct op *op, const struct node *n, int rank, const dim dims[],
                           struct node *x) {
  return x ? made(w, op, n, rank, dims, (weft_dtype)x->dtype, 1, &x, NULL, 0) : NULL;
}

/* Of 32 bits where these suffice: a vector has twice as many. */
static weft_dtype counts_in(const struct node *n, int axis) { return n->dims[axis] <= INT32_MAX ? WEFT_I32 : WEFT_I64; }

static struct node *counted(struct rewriting *w, const struct node *n, int axis) {
  struct axis_attr a = { .axis = axis };
  return made(w, &op_iota, n, n->rank, n->dims, counts_in(n, axis), 0, NULL, &a, sizeof a);
}

static struct node *integer_like(struct rewriting *w, const struct node *n, int64_t value) {
  return number_of(w, n, dtype_encode_integer((weft_dtype)n->dtype, value));
}

/* 0, where all indices have been looked at. */
static struct node *looked_at(struct rewriting *w, const struct node *n, int n_index) {
  struct node of = { .dtype = WEFT_I64, .rank = n_index, .dims = n->dims, .origin = n->origin }, *in[WEFT_RANK_MAX + 1];
  struct take_attr a = { n_index, ((const struct scatter_attr *)n->attr)->by };
  for (int k = 0; k < n_index; k++) in[k + 1] = n->in[2 + k];
  if (!(in[0] = integer_like(w, &of, 0))) return NULL;
  return made(w, &op_take, n, n->in[2]->rank, n->in[2]->dims, WEFT_I64, n_index + 1, in, &a, sizeof a);
}

/* The index as a place, counted from the front. */
static struct node *place(struct rewriting *w, const struct node *n, int n_index, int axis) {
  struct node *i = n->in[2 + axis];
  struct node *from_end[2] = { i, integer_like(w, i, n->dims[axis]) }, *below[2] = { i, integer_like(w, i, 0) };
  if (!from_end[1] || !below[1]) return NULL;
  struct node *in[3] = { like(w, &op_lt, i, WEFT_BOOL, 2, below), like(w, &op_add, i, WEFT_I64, 2, from_end), i };
  if (!in[0] || !in[1]) return NULL;
  struct node *both[2] = { like(w, &op_where, i, WEFT_I64, 3, in), looked_at(w, n, n_index) };
  struct node *at = both[0] && both[1] ? like(w, &op_add, i, WEFT_I64, 2, both) : NULL;
  return at && counts_in(n, axis) == WEFT_I32 ? like(w, &op_cast, i, WEFT_I32, 1, &at) : at;
}

struct node *rewrite_scatter(struct rewriting *w, struct node *n) {
  const struct scatter_attr *a = n->attr;
  const struct node *number = scalar_below(n->in[0]);
  int axis = number && (a->how == WEFT_SET || a->how == WEFT_ADD) && !a->batch ? axis_found(n, a->n) : -1;
  if (axis < 0 || count_of(n->rank, n->dims) < 0) return n;
  dim row[WEFT_RANK_MAX], v_row[WEFT_RANK_MAX];
  for (int k = 0; k < n->rank; k++) v_row[k] = k == axis ? 1 : n->dims[k], row[k] = k < a->n ? v_row[k] : 1;
  struct node *at = shaped(w, &op_reshape, n, n->rank, row, place(w, n, a->n, axis));
  struct node *v = shaped(w, &op_reshape, n, n->rank, v_row, n->in[1]);
  struct node *is[2] = { counted(w, n, axis), shaped(w, &op_broadcast, n, n->rank, n->dims, at) };
  struct node *both[2] = { n->in[0], shaped(w, &op_broadcast, n, n->rank, n->dims, v) };
  if (!is[0] || !is[1] || !both[1]) return NULL;
  struct node *value = a->how == WEFT_ADD ? like(w, &op_add, n, (weft_dtype)n->dtype, 2, both) : both[1];
  struct node *in[3] = { like(w, &op_eq, n, WEFT_BOOL, 2, is), value, n->in[0] };
  return in[0] && value ? like(w, &op_where, n, (weft_dtype)n->dtype, 3, in) : NULL;
}
