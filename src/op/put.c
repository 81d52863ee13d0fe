/* put.c -- writing where a view or an indexing reads: OP_PUT for parts that step evenly along each axis of x, OP_SCATTER
 * for parts that are found by index.
 *
 * Derivatives of both are one set of rules, in terms of two movements: `part` reads from an array like x what the node
 * writes, `place` writes it. y depends linearly on dx and dv, with a coefficient for each element:
 * y' = cx dx + place(cv dv). */
#include <string.h>
#include "base/mem.h"
#include "op/complex.h"
#include "op/index.h"

/* ---- The two movements ---- */

static weft_how how_of(const struct node *n) {
  return n->op == &op_put ? (weft_how)((const struct put_attr *)n->attr)->how
                          : ((const struct scatter_attr *)n->attr)->how;
}

static int by_of(const struct rule *r) { return (int)((const struct scatter_attr *)r->node->attr)->by; }

static struct node *put_node(struct node *x, struct node *v, const struct put_attr *a) {
  return node_make(&op_put, (weft_dtype)x->dtype, x->rank, x->dims, 2, (struct node *[]){ x, v }, a, sizeof *a);
}

static weft_array *array_put(weft_array *x, weft_array *v, const struct put_attr *a, weft_how how) {
  struct node *n[2];
  weft_array *bad;
  struct put_attr with = *a;
  with.how = how;
  if (!operands("weft_put", 2, (weft_array *[]){ x, v }, n, &bad)) return bad;
  n[1] = node_cast(n[1], (weft_dtype)n[0]->dtype);
  struct node *y = n[1] ? put_node(n[0], n[1], &with) : NULL;
  nodes_release(2, n);
  return array_of(y);
}

static struct node *scatter_node(int n, struct node *const in[], weft_how how, int by) {
  return node_make(&op_scatter, (weft_dtype)in[0]->dtype, in[0]->rank, in[0]->dims, n + 2, in,
                   &(struct scatter_attr){ how, n, 0, (enum take_by)by }, sizeof(struct scatter_attr));
}

static struct failure *scatter_join(int n, struct node *in[]) {
  dim d[2 * WEFT_RANK_MAX];
  struct failure *why = indices_join("weft_put", n, in + 2);
  if (why) return why;
  int rank = in[2]->rank, rest = in[0]->rank - n;
  if (rank) memcpy(d, in[2]->dims, (size_t)rank * sizeof *d);
  if (rest) memcpy(d + rank, in[0]->dims + n, (size_t)rest * sizeof *d);
  in[1] = node_broadcast(node_cast(in[1], (weft_dtype)in[0]->dtype), rank + rest, d);
  return in[1] ? NULL : fail(WEFT_ERR_MEMORY, scope_origin(), "weft_put: out of memory");
}

weft_array *array_scatter(weft_array *x, weft_array *v, int n, weft_array *const index[], weft_how how, int by) {
  struct node *in[WEFT_RANK_MAX + 3];
  weft_array *all[WEFT_RANK_MAX + 3] = { x, v }, *bad;
  memcpy(all + 2, index, (size_t)n * sizeof *all);
  if (!operands("weft_put", n + 2, all, in, &bad)) return bad;
  struct failure *why = scatter_join(n, in);
  if (why) return array_of_bad(why, n + 2, in);
  if (dtype_is_complex(in[0]->dtype) && how == WEFT_MUL) {
    for (int k = 0; k < n + 2; k++) all[k] = array_of(in[k]);
    return complex_scatter_mul(all[0], all[1], n, all + 2, by);
  }
  struct node *y = scatter_node(n, in, how, by);
  nodes_release(n + 2, in);
  return array_of(y);
}

static weft_array *place(const struct rule *r, weft_array *x, weft_array *v, weft_how how) {
  v = array_broadcast("weft_put", v, r->in[1]->node->rank, r->in[1]->node->dims);
  return r->node->op == &op_put ? array_put(array_waits_with(x, r->in[0]), v, r->node->attr, how)
                                : array_scatter(x, v, r->n_in - 2, r->in + 2, how, by_of(r));
}

static weft_array *part(const struct rule *r, weft_array *x) {
  if (r->node->op == &op_scatter) return array_take(x, r->n_in - 2, r->in + 2, by_of(r));
  const struct put_attr *a = r->node->attr;
  const dim *length = r->in[1]->node->dims;
  x = array_waits_with(x, r->in[0]);
  for (int k = 0; k < r->node->rank; k++) x = array_slice(x, k, a->start[k], length[k], a->step[k]);
  return x;
}

/* ---- Coefficients ---- */

#define X (r->in[0])
#define V (r->in[1])
#define Y (r->out)

static weft_array *zero_like(weft_array *a) { return number_like(a, 0); }
static weft_array *flag(weft_array *c, weft_array *like) { return weft_cast(c, weft_dtype_of(like)); }

/* Which elements of v stay: of several with one target the last. Each puts its own number there, and stays if it finds it again. */
static weft_array *stays(const struct rule *r) {
  struct node like = *V->node, like_x = *X->node;
  like.dtype = like_x.dtype = WEFT_I64;
  dim count = dim_count(like.rank, like.dims);
  struct node flat = { .dtype = WEFT_I64, .rank = 1, .dims = &count };
  weft_array *number = array_reshape("weft_put", weft_iota(zeros_of(&flat), 0), like.rank, like.dims);
  return weft_eq(part(r, place(r, zeros_of(&like_x), number, WEFT_SET)), number);
}

/* x times the product of the other v at the same target: y / v, unless v is 0. Zeros are kept apart so that nothing is
 * divided by them. Beside one other zero the product is 0 but has a slope, so that zero itself is a factor: the sum of
 * the zeros less this one. */
static weft_array *times_others(const struct rule *r) {
  weft_array *zero = zero_like(V), *is_zero = weft_eq(V, zero), *one = number_like(V, 1), *none = zeros_like(X);
  weft_array *n_zeros = part(r, place(r, none, flag(is_zero, X), WEFT_ADD));
  weft_array *rest = weft_where(is_zero, one, V), *product = part(r, place(r, X, rest, WEFT_MUL));
  weft_array *sum = part(r, place(r, none, weft_where(is_zero, V, zero), WEFT_ADD));
  weft_array *beside_one = weft_where(weft_eq(n_zeros, number_like(V, 2)), weft_mul(product, weft_sub(sum, V)), zero);
  weft_array *of_zero = weft_where(weft_eq(n_zeros, one), product, beside_one);
  return weft_where(is_zero, of_zero, weft_div(part(r, Y), rest));
}

/* Those who equal the extremum share equally, x among them. */
static weft_array *n_equal(const struct rule *r) {
  return place(r, flag(weft_eq(X, Y), X), flag(weft_eq(V, part(r, Y)), X), WEFT_ADD);
}

static weft_array *times_cx(const struct rule *r, weft_array *d) {
  weft_how how = how_of(r->node);
  if (how == WEFT_ADD) return d;
  if (how == WEFT_SET) return place(r, d, zero_like(d), WEFT_SET);
  if (how == WEFT_MUL) return weft_mul(d, place(r, weft_broadcast_like(number_like(X, 1), X), V, WEFT_MUL));
  return weft_where(weft_eq(X, Y), weft_div(d, n_equal(r)), zero_like(d));
}

static weft_array *times_cv(const struct rule *r, weft_array *d) {
  weft_how how = how_of(r->node);
  bool is_unique = r->node->op == &op_put;
  if (how == WEFT_ADD) return d;
  if (how == WEFT_SET) return is_unique ? d : weft_where(stays(r), d, zero_like(d));
  if (how == WEFT_MUL) return weft_mul(d, is_unique ? part(r, X) : times_others(r));
  return weft_where(weft_eq(V, part(r, Y)), weft_div(d, part(r, n_equal(r))), zero_like(d));
}

static weft_array *put_vjp(const struct rule *r, int k, weft_array *dy) {
  return k == 0 ? times_cx(r, dy) : k == 1 ? times_cv(r, part(r, dy)) : NULL;
}

static weft_array *put_jvp(const struct rule *r, int k, weft_array *dx) {
  return k == 0 ? times_cx(r, dx) : k == 1 ? place(r, zeros_like(X), times_cv(r, dx), WEFT_ADD) : NULL;
}

/* ---- Mapping ---- */

static dim rows_of(const struct rule *r, const bool is_mapped[]) {
  for (int k = 0; k < r->n_in; k++)
    if (is_mapped[k]) return r->in[k]->node->dims[0];
  return 1;
}

static weft_array *put_batch(const struct rule *r, const bool is_mapped[]) {
  dim rows = rows_of(r, is_mapped);
  const struct put_attr *a = r->node->attr;
  struct put_attr with = { .how = a->how, .step = { 1 } };
  memcpy(with.start + 1, a->start, (WEFT_RANK_MAX - 1) * sizeof *a->start);
  memcpy(with.step + 1, a->step, (WEFT_RANK_MAX - 1) * sizeof *a->step);
  weft_array *x = is_mapped[0] ? X : array_spread(X, rows), *v = is_mapped[1] ? V : array_spread(V, rows);
  return array_put(x, v, &with, (weft_how)a->how);
}

static weft_array *scatter_batch(const struct rule *r, const bool is_mapped[]) {
  dim rows = rows_of(r, is_mapped);
  int n = r->n_in - 2;
  weft_array *active[WEFT_RANK_MAX], *index[WEFT_RANK_MAX + 1];
  weft_array *x = is_mapped[0] ? X : array_spread(X, rows), *v = is_mapped[1] ? V : array_spread(V, rows);
  array_active_indices(r, 2, is_mapped, active);
  array_row_indices(rows, n, active, is_mapped + 2, index);
  return array_scatter(x, v, n + 1, index, how_of(r->node), by_of(r));
}

/* ---- Other sizes ---- */

static struct node *put_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  return node_make(n->op, (weft_dtype)n->dtype, in[0]->rank, in[0]->dims, n->n_made, in, n->attr, n->attr_bytes);
}

static void put_hold(const void *attr) {
  for (int k = 0; k < WEFT_RANK_MAX; k++) dim_retain(((const struct put_attr *)attr)->start[k]);
}
static void put_drop(const void *attr) {
  for (int k = 0; k < WEFT_RANK_MAX; k++) dim_release(((const struct put_attr *)attr)->start[k]);
}

static bool put_resize(const struct node *n, struct node *const in[], void *attr, struct dim_table *t, bool is_copied,
                       struct failure **why) {
  (void)is_copied;
  struct put_attr *a = attr;
  struct shape_text x, v;
  bool fits = true;
  for (int k = 0; k < n->rank; k++) {
    if (t->n) a->start[k] = dim_substitute(a->start[k], t->n, t->symbol, t->value);
    if (in[1]->dims[k] == 0) a->start[k] = 0;
    if (in[1]->dims[k] == 0 || in[1]->dims[k] == 1) a->step[k] = 1; /* a step beyond memory is none */
    fits &= a->start[k] != DIM_BAD && dim_slice_fits(in[0]->dims[k], a->start[k], in[1]->dims[k], a->step[k]);
  }
  if (!fits)
    *why = fail(WEFT_ERR_SHAPE, n->origin, "weft_put: the part %s does not lie in %s", shape_show(in[1], &v),
                shape_show(in[0], &x));
  else put_hold(a);
  return fits;
}

static bool put_settle(struct node *n) {
  struct put_attr *a = n->attr;
  bool ok = true;
  for (int k = 0; k < n->rank; k++) {
    dim length = n->n_in ? dim_resolve(n->in[1]->dims[k]) : DIM_BAD;
    dim now = length == 0 ? 0 : dim_resolve(a->start[k]); /* of nothing, wherever it begins */
    if (length == 0 || length == 1) a->step[k] = 1;
    if (dim_is_known(now)) node_tell(n, n->rank + k, &a->start[k], now);
    ok &= now != DIM_BAD;
  }
  return ok;
}

static bool put_is_open(const struct node *n) {
  for (int k = 0; k < n->rank; k++)
    if (!dim_is_known(((const struct put_attr *)n->attr)->start[k])) return true;
  return false;
}

const struct op op_put = { .name = "put", .kind = OP_PUT, .chooses = true, .vjp = put_vjp, .jvp = put_jvp, .batch = put_batch,
                           .again = put_again, .resize = put_resize, .settle = put_settle, .is_open = put_is_open,
                           .hold = put_hold, .drop = put_drop };
const struct op op_scatter = { .name = "scatter", .kind = OP_SCATTER, .chooses = true, .vjp = put_vjp, .jvp = put_jvp,
                               .batch = scatter_batch, .again = put_again };

/* ---- From the part back to x ----
 * The chain of nodes between: node[0] was made from x, node[n-1] is the part. Its own references to the indices of takes,
 * because evaluation on another thread may make the nodes forget theirs. */

struct chain { int n, n_index; struct node **node, **index; int *first; }; /* indices of node i: from index[first[i]] on */

static void chain_free(struct chain *c) {
  nodes_release(c->n, c->node);
  nodes_release(c->n_index, c->index);
  mem_free(c->node);
  mem_free(c->index);
  mem_free(c->first);
}

static bool leads_on(const struct node *n) {
  return n->n_in && (n->op->kind == OP_VIEW || n->op->kind == OP_TAKE || n->op->kind == OP_IDENTITY);
}

static int n_indices(const struct node *n) { return n->op->kind == OP_TAKE ? n->n_in - 1 : 0; }

/* false: the way does not end at x. */
static bool chain_measure(const struct node *x, const struct node *p, int *n, int *n_index) {
  for (*n = *n_index = 0; p != x; p = p->in[0], ++*n) {
    if (!leads_on(p)) return false;
    *n_index += n_indices(p);
  }
  return true;
}

static bool chain_fill(struct chain *c, struct node *p, int n, int n_index) {
  c->node = mem_alloc((size_t)n * sizeof *c->node);
  c->index = mem_alloc((size_t)n_index * sizeof *c->index);
  c->first = mem_alloc((size_t)n * sizeof *c->first);
  if (!c->node || !c->index || !c->first) return false;
  for (int i = n - 1, at = n_index; i >= 0; i--, p = p->in[0]) {
    c->node[i] = node_retain(p);
    c->first[i] = at -= n_indices(p);
    for (int k = 0; k < n_indices(p); k++) c->index[at + k] = node_retain(p->in[k + 1]);
  }
  c->n = n;
  c->n_index = n_index;
  return true;
}

static struct failure *chain_of(struct node *x, struct node *p, struct chain *c) {
  int n, n_index;
  *c = (struct chain){ 0 };
  graph_lock();
  bool ends_at_x = chain_measure(x, p, &n, &n_index), ok = ends_at_x && chain_fill(c, p, n, n_index);
  graph_unlock();
  if (ok) return NULL;
  chain_free(c);
  if (ends_at_x) return fail(WEFT_ERR_MEMORY, scope_origin(), "weft_put: out of memory");
  return fail(WEFT_ERR_ARG, scope_origin(), "weft_put: the part was not made from x by views and indexing");
}

/* ---- Parts that step evenly ----
 * Each axis of the part moves along one axis of x, or (-1) along none, being of length 1. Axes of x that no axis of the
 * part moves along stand still. */

struct affine { int rank, axis[WEFT_RANK_MAX]; dim length[WEFT_RANK_MAX]; struct put_attr at; };

static void affine_begin(struct affine *a, const struct node *x) {
  *a = (struct affine){ .rank = x->rank };
  for (int k = 0; k < x->rank; k++) a->axis[k] = k, a->at.step[k] = 1, a->length[k] = x->dims[k];
}

static bool affine_slice(struct affine *a, const struct slice_attr *s, dim length) {
  int k = a->axis[s->axis];
  if (k < 0) return false;
  int64_t step = a->at.step[k];
  dim far = dim_mul(step < 0 ? -step : step, s->start);
  a->at.start[k] = step < 0 ? dim_sub(a->at.start[k], far) : dim_add(a->at.start[k], far);
  a->length[k] = length;
  return a->at.start[k] != DIM_BAD && !__builtin_mul_overflow(step, s->step, &a->at.step[k]);
}

static bool affine_transpose(struct affine *a, const int axes[]) {
  int before[WEFT_RANK_MAX];
  memcpy(before, a->axis, sizeof before);
  for (int k = 0; k < a->rank; k++) a->axis[k] = before[axes[k]];
  return true;
}

/* Only axes of length 1 come and go. */
static bool affine_reshape(struct affine *a, const struct node *from, const struct node *to) {
  int before[WEFT_RANK_MAX], i = 0;
  memcpy(before, a->axis, sizeof before);
  for (int k = 0; k < to->rank; k++) {
    while (i < from->rank && from->dims[i] == 1 && to->dims[k] != 1) i++;
    bool fits = i < from->rank && dim_same(from->dims[i], to->dims[k]);
    if (!fits && to->dims[k] != 1) return false;
    a->axis[k] = fits ? before[i++] : -1;
  }
  for (; i < from->rank; i++)
    if (from->dims[i] != 1) return false;
  a->rank = to->rank;
  return true;
}

static bool affine_step(struct affine *a, const struct node *from, const struct node *n) {
  if (n->op->kind == OP_IDENTITY) return true;
  if (n->op == &op_slice) return affine_slice(a, n->attr, n->dims[((const struct slice_attr *)n->attr)->axis]);
  if (n->op == &op_transpose) return affine_transpose(a, n->attr);
  return n->op == &op_reshape && affine_reshape(a, from, n);
}

static bool affine_of(struct affine *a, const struct node *x, const struct chain *c) {
  affine_begin(a, x);
  for (int i = 0; i < c->n; i++)
    if (!affine_step(a, i ? c->node[i - 1] : x, c->node[i])) return false;
  return true;
}

/* v has the shape of the part; the node wants it with the axes of x in their order. */
static weft_array *as_x_lies(weft_array *v, const struct affine *a, int rank) {
  int axes[WEFT_RANK_MAX], where[WEFT_RANK_MAX], n = 0;
  dim d[WEFT_RANK_MAX];
  for (int k = 0; k < rank; k++) where[k] = -1;
  for (int k = 0; k < a->rank; k++)
    if (a->axis[k] >= 0) where[a->axis[k]] = k;
  for (int k = 0; k < rank; k++) {
    d[k] = where[k] < 0 ? 1 : a->length[k];
    if (where[k] >= 0) axes[n++] = where[k];
  }
  for (int k = 0; k < a->rank; k++)
    if (a->axis[k] < 0) axes[n++] = k;
  return array_reshape("weft_put", weft_transpose(v, axes), rank, d);
}

/* ---- Parts found by index ---- */

static weft_array *undo(const struct node *before, const struct node *n, weft_array *v) {
  int back[WEFT_RANK_MAX];
  const int *axes = n->attr;
  if (n->op == &op_reshape) return array_reshape("weft_put", v, before->rank, before->dims);
  if (n->op != &op_transpose) return v;
  for (int k = 0; k < n->rank; k++) back[axes[k]] = k;
  return weft_transpose(v, back);
}

static bool is_bijective(const struct node *n) {
  return n->op == &op_reshape || n->op == &op_transpose || n->op->kind == OP_IDENTITY;
}

/* The place of the one take among bijective views; -1: it is not so simple. */
static int only_take(const struct chain *c) {
  int at = -1;
  for (int i = 0; i < c->n; i++) {
    if (is_bijective(c->node[i])) continue;
    if (at >= 0 || c->node[i]->op != &op_take) return -1;
    at = i;
  }
  return at;
}

static const struct node *before(const struct chain *c, const struct node *x, int i) { return i ? c->node[i - 1] : x; }

/* Views before the take are done to x and undone behind; those behind it are undone on v. */
static weft_array *scatter_one(struct node *x, const struct chain *c, int at, weft_array *v, weft_how how) {
  int n = ((const struct take_attr *)c->node[at]->attr)->n;
  weft_array *index[WEFT_RANK_MAX], *base = array_of(node_retain(at ? c->node[at - 1] : x));
  for (int i = c->n - 1; i > at; i--) v = undo(before(c, x, i), c->node[i], v);
  for (int k = 0; k < n; k++) index[k] = array_of(node_retain(c->index[c->first[at] + k]));
  weft_array *y = array_scatter(base, v, n, index, how, BY_PUT);
  for (int i = at - 1; i >= 0; i--) y = undo(before(c, x, i), c->node[i], y);
  return y;
}

/* The same chain on the numbers of the elements says which element of x each one of the part is. */
static struct node *chain_on(struct node *base, const struct chain *c) {
  struct node *in[WEFT_RANK_MAX + 1];
  for (int i = 0; i < c->n && base; i++) {
    const struct node *n = c->node[i];
    if (n->op->kind == OP_IDENTITY) continue;
    int n_index = n->op == &op_take ? ((const struct take_attr *)n->attr)->n : 0;
    in[0] = base;
    for (int k = 0; k < n_index; k++) in[k + 1] = c->index[c->first[i] + k];
    struct node *next = node_make(n->op, WEFT_I64, n->rank, n->dims, n_index + 1, in, n->attr, n->attr_bytes);
    node_release(base);
    base = next;
  }
  return base;
}

static weft_array *scatter_any(struct node *x, const struct chain *c, weft_array *v, weft_how how) {
  dim count = dim_count(x->rank, x->dims);
  struct node flat = { .dtype = WEFT_I64, .rank = 1, .dims = &count };
  weft_array *number = array_reshape("weft_put", weft_iota(zeros_of(&flat), 0), x->rank, x->dims);
  weft_array *index = array_of(chain_on(array_good_node(number), c));
  weft_array *all = array_reshape("weft_put", array_of(node_retain(x)), 1, &count);
  return array_reshape("weft_put", array_scatter(all, v, 1, &index, how, BY_PUT), x->rank, x->dims);
}

/* ---- weft_put ---- */

/* v as an array of the part's shape and x's dtype; takes over v. */
static weft_array *prepared(const struct node *x, const struct node *p, struct node *v) {
  struct shape_text a, b;
  struct failure *why = common_dtype("weft_put", 2, (struct node *[]){ (struct node *)x, v },
                                     &(weft_dtype){ WEFT_BOOL });
  bool fits = v->rank <= p->rank;
  for (int k = 0; fits && k < v->rank; k++) {
    dim have = dim_resolve(v->dims[k]);
    fits = have == 1 || sizes_meet("weft_put", have, dim_resolve(p->dims[p->rank - v->rank + k]));
  }
  if (!why && !fits)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_put: %s does not broadcast to the part, %s", shape_show(v, &a),
               shape_show(p, &b));
  if (why) return array_of_bad(why, 1, &v);
  return array_of(node_broadcast(node_cast(v, (weft_dtype)x->dtype), p->rank, p->dims));
}

static weft_array *put(struct node *x, struct node *p, weft_array *v, weft_how how) {
  struct chain c;
  struct affine a;
  struct failure *why = chain_of(x, p, &c);
  if (why) return array_failed(why);
  int at = only_take(&c);
  bool is_affine = affine_of(&a, x, &c);
  if (is_affine && dtype_is_complex(x->dtype) && how == WEFT_MUL) /* its elements are apart */
    v = weft_mul(array_of(node_retain(p)), v), how = WEFT_SET;
  weft_array *y = is_affine ? array_put(array_of(node_retain(x)), as_x_lies(v, &a, x->rank), &a.at, how)
                  : at >= 0            ? scatter_one(x, &c, at, v, how)
                                       : scatter_any(x, &c, v, how);
  chain_free(&c);
  return y;
}

weft_array *weft_put(weft_array *x, weft_array *part_of_x, weft_array *v, weft_how how) {
  struct node *n[3];
  weft_array *bad;
  if ((unsigned)how > WEFT_MAX) return array_bad(WEFT_ERR_ARG, "weft_put: there is no way %d to combine", (int)how);
  if (!arrays_nodes("weft_put", 3, (weft_array *[]){ x, part_of_x, v }, n, &bad)) return bad;
  bool is_complex = dtype_is_complex(n[0]->dtype), is_ordered = how == WEFT_MIN || how == WEFT_MAX;
  weft_array *value = is_complex && is_ordered ? array_of_bad(not_of("weft_put", n[0]->dtype), 1, n + 2)
                                               : prepared(n[0], n[1], n[2]);
  weft_array *y = arrays_ok("weft_put", 1, &value, &bad) ? put(n[0], n[1], value, how) : bad;
  nodes_release(2, n);
  return y;
}
