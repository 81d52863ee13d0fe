/* attention_find.c -- finds attention in a graph for a device that does it tile by tile, and its derivatives.
 *
 *   p = softmax(mask(scale q k')), y = p v           becomes  y, lse = attend(q, k, v, mask)
 *   ds = p (dy v' - delta) through the mask, scaled,
 *   dq = ds k, dk = ds' q, dv = p' dy                become   dq = attend_query(.., dy, lse, delta), dk, dv = attend_key(..)
 *
 * where delta is the sum of dy y along rows. What is found is what weft_attention, softmax and their rules write, after
 * rewriting; so
 * a graph that says the same in those words is found too. A product is replaced where it stands: p and the scores are computed
 * only if somebody else wants them. Of f16, bf16 and f32: the device's sums are of another order (backend/cuda/gpu_attention.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "graph/dtype.h"
#include "schedule/attention_find.h"

extern const struct op op_exp, op_sum, op_max;

enum { LEAST_ROWS = 16, LONGEST_ROW = 128, LONGEST = 1 << 30, MOST_OPS = 4, MOST_FOUND = 64 };

/* ---- the nodes that stand for it ---- */

static int count(const struct node *n) {
  return ((const struct attend_attr *)n->attr)->part == KIR_ATTEND_QUERY ? 1 : 2;
}

/* y [..,T,e], lse [..,T,1]; dq [..,T,d]; dk [..,S,d], dv [..,S,e] */
static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct attend_attr *a = n->attr;
  const struct node *like = n->in[a->part == KIR_ATTEND ? 0 : a->part == KIR_ATTEND_QUERY ? 0 : 1 + k];
  *rank = like->rank;
  memcpy(dims, like->dims, sizeof *dims * (size_t)like->rank);
  if (a->part == KIR_ATTEND) dims[*rank - 1] = k ? 1 : n->in[2]->dims[n->in[2]->rank - 1];
  if (a->is_by_rows) { dim heads = dims[*rank - 3]; dims[*rank - 3] = dims[*rank - 2], dims[*rank - 2] = heads; }
  return (weft_dtype)(a->part == KIR_ATTEND && k ? WEFT_F32 : a->out[k]);
}

static const struct many attend_many = { .count = count, .type = type };
const struct op op_attend = { .name = "attend", .kind = OP_LIBRARY, .many = &attend_many };

static struct node *result(struct work *w, struct node *of, int k) {
  dim dims[WEFT_RANK_MAX];
  int rank;
  weft_dtype t = type(of, k, &rank, dims);
  struct node *item = work_node(w, &op_item, t, rank, dims, 1, &of, &(struct item_attr){ k }, sizeof(struct item_attr));
  const struct attend_attr *a = of->attr;
  struct transpose_attr axes;
  if (!item || !a->is_by_rows) return item;
  for (int i = 0; i < rank; i++) axes.axes[i] = attend_axis(a, rank, i), dims[i] = item->dims[axes.axes[i]];
  return work_node(w, &op_transpose, t, rank, dims, 1, &item, &axes, sizeof *axes.axes * (size_t)rank);
}

/* ---- looking ---- */

struct soft_found {
  struct node *p, *e, *inverse, *sum; /* p = e inverse, e = exp(x - max x), inverse = 1 / sum e */
  struct node *scores;             /* the product q k' */
  struct node *op[MOST_OPS];       /* what was done with it, the last first */
  int n_ops;
  struct node *mask;               /* NULL: none but the band */
  double scale;
  bool is_banded;
  int64_t band;
  struct node *attend, *y, *lse;   /* NULL until y is found */
  struct node *values;             /* v as it is multiplied */
};

static bool is_same_shape(const struct node *a, const struct node *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank);
}

/* What stands once a row: x is it, stretched along the last axis. */
static struct node *of_rows(const struct node *x) {
  struct edge e = edge_of(x);
  for (int k = 0; e.aligned && k < e.base->rank; k++)
    if (e.base->dims[k] != 1 && (e.map[k] != k || x->rank != e.base->rank)) return NULL;
  return e.aligned && e.base->rank == x->rank && e.base->dims[x->rank - 1] == 1 ? e.base : NULL;
}

static bool folds(const struct node *x, const struct op *op, const struct node *of) {
  return x && x->op == op && x->in[0] == of && ((const struct axis_attr *)x->attr)->axis == of->rank - 1;
}

static bool is_number(const struct node *x, double number) {
  const struct node *s = scalar_of(x);
  return s && dtype_is_float((weft_dtype)s->dtype) && scalar_bits(s, WEFT_F64) == dtype_encode(WEFT_F64, number);
}

static bool number_of(const struct node *x, double *number) {
  const struct node *s = scalar_of(x);
  uint64_t bits = s ? scalar_bits(s, WEFT_F64) : 0;
  if (s) memcpy(number, &bits, sizeof bits);
  return s != NULL;
}

/* One step from what softmax is given towards the product. */
static struct node *below(struct soft_found *f, struct node *x, bool *is_scaled) {
  double number;
  if (x->op == &op_where && is_number(x->in[2], -INFINITY)) {
    if (!f->is_banded && mask_is_band(x->in[0], &f->band)) f->is_banded = true;
    else if (!f->mask) f->mask = x->in[0];
    else return NULL;
    return x->in[1];
  }
  if (x->op == &op_mul && number_of(x->in[1], &number)) return f->scale *= number, *is_scaled = true, x->in[0];
  if (x->op == &op_add && !f->mask && !*is_scaled) {
    struct node *left = edge_of(x->in[0]).base;
    bool is_first = left->op->kind == OP_CONTRACT || left->op == &op_mul || left->op == &op_where;
    f->mask = x->in[is_first];
    return x->in[!is_first];
  }
  return NULL;
}

static bool find_scores(struct soft_found *f, struct node *x) {
  bool is_scaled = false;
  for (f->scale = 1; x && x->op->kind != OP_CONTRACT; f->n_ops++) {
    if (f->n_ops == MOST_OPS || x->dtype != WEFT_F32 || !is_same_shape(x, f->p)) return false;
    f->op[f->n_ops] = x;
    x = below(f, x, &is_scaled);
  }
  f->scores = x;
  return x && x->dtype == WEFT_F32 && is_same_shape(x, f->p);
}

static bool find_soft(struct node *p, struct soft_found *f) {
  *f = (struct soft_found){ .p = p };
  if (p->op != &op_mul || p->dtype != WEFT_F32 || p->rank < 2 || p->in[0]->op != &op_exp) return false;
  f->e = p->in[0], f->inverse = of_rows(p->in[1]);
  if (!f->inverse || f->inverse->op != &op_div || !is_number(f->inverse->in[0], 1)) return false;
  f->sum = f->inverse->in[1];
  struct node *minus = f->e->in[0];
  return folds(f->sum, &op_sum, f->e) && minus->op == &op_sub && folds(of_rows(minus->in[1]), &op_max, minus->in[0]) &&
         find_scores(f, minus->in[0]);
}

/* ---- operands ---- */

static struct node *turned(struct work *w, struct node *x) {
  struct transpose_attr t;
  dim dims[WEFT_RANK_MAX];
  int n = x->rank;
  for (int k = 0; k < n; k++) t.axes[k] = k < n - 2 ? k : k == n - 2 ? n - 1 : n - 2;
  for (int k = 0; k < n; k++) dims[k] = x->dims[t.axes[k]];
  return work_node(w, &op_transpose, (weft_dtype)x->dtype, n, dims, 1, &x, &t, sizeof *t.axes * (size_t)n);
}

/* Through transposes: what is shown, axis k of x being axis[k] of that. */
static const struct node *untransposed(const struct node *x, int axis[]) {
  for (int k = 0; k < x->rank; k++) axis[k] = k;
  for (; x->op == &op_transpose; x = x->in[0])
    for (int k = 0; k < x->rank; k++) axis[k] = ((const struct transpose_attr *)x->attr)->axes[axis[k]];
  return x;
}

/* b is a, or a with its last two axes turned. */
static bool is_matrix(const struct node *a, const struct node *b, bool is_turned) {
  int i[WEFT_RANK_MAX], j[WEFT_RANK_MAX], n = a->rank;
  if (n != b->rank || untransposed(a, i) != untransposed(b, j)) return false;
  if (is_turned) { int t = i[n - 1]; i[n - 1] = i[n - 2], i[n - 2] = t; }
  return !memcmp(i, j, sizeof *i * (size_t)n);
}

static bool is_half(weft_dtype t) { return t == WEFT_F16 || t == WEFT_BF16; }
static bool is_attended(weft_dtype t) { return is_half(t) || t == WEFT_F32; }

static int64_t last(const struct node *x, int k) { return x->dims[x->rank - k]; }

static bool has_good_sizes(const struct soft_found *f, const struct node *v) {
  int64_t d = last(f->scores->in[0], 1), e = last(v, 1);
  return last(f->p, 2) >= LEAST_ROWS && last(f->p, 1) >= LEAST_ROWS && last(f->p, 2) < LONGEST && last(f->p, 1) < LONGEST &&
      d >= 1 &&
         d <= LONGEST_ROW && e >= 1 && e <= LONGEST_ROW && f->p->rank - 2 <= KIR_ATTENTION_AXES && llabs(f->band) < LONGEST &&
         isfinite(f->scale);
}

/* ---- putting nodes in the place of others ---- */

static void replace(struct work *w, const struct node *old, struct node *new) {
  for (int i = 0; i < w->list->n; i++)
    for (int k = 0; k < w->list->node[i]->n_in; k++)
      if (w->list->node[i]->in[k] == old) w->list->node[i]->in[k] = new;
  for (int t = 0; t < w->n_targets; t++) if (w->target[t] == old) w->target[t] = new;
}

/* All that is made of x, perhaps through one view, is rounded to the dtype. */
static bool is_only_rounded(struct work *w, const struct node *x, weft_dtype to, int depth) {
  int n = 0;
  for (int t = 0; t < w->n_targets; t++) if (w->target[t] == x) return false;
  for (int i = 0; i < w->list->n; i++) {
    const struct node *u = w->list->node[i];
    for (int k = 0; k < u->n_in; k++) {
      if (u->in[k] != x) continue;
      n++;
      if (u->op == &op_cast && u->dtype == to) continue;
      if (!depth || u->op != &op_transpose || !is_only_rounded(w, u, to, depth - 1)) return false;
    }
  }
  return n > 0;
}

/* x is y, which is rounded already: so are its views, and their casts are not needed. */
static bool put_rounded(struct work *w, const struct node *x, struct node *y) {
  if (!y) return false;
  for (int i = 0; i < w->list->n; i++) {
    struct node *u = w->list->node[i];
    if (!u->n_in || u->in[0] != x) continue;
    if (u->op == &op_cast) { replace(w, u, y); continue; }
    struct node *v = work_node(w, u->op, (weft_dtype)y->dtype, u->rank, u->dims, 1, &y, u->attr, u->attr_bytes);
    if (!put_rounded(w, u, v)) return false;
  }
  return true;
}

static bool put(struct work *w, const struct node *x, struct node *y) {
  if (!y) return false;
  if (is_half((weft_dtype)y->dtype)) return put_rounded(w, x, y);
  replace(w, x, y);
  return true;
}

static uint8_t stored_as(struct work *w, const struct node *x, weft_dtype half) {
  return (uint8_t)(is_only_rounded(w, x, half, 1) ? half : WEFT_F32);
}

/* ---- forward ---- */

/* The axis of heads is nearer in memory than that of rows: what is computed of it will be wanted so. */
static bool is_by_rows(const struct node *q) {
  int axis[WEFT_RANK_MAX], n = q->rank;
  untransposed(q, axis);
  for (int k = 0; k < n; k++) if (axis[k] != (k == n - 3 ? n - 2 : k == n - 2 ? n - 3 : k)) return false;
  return n > 2;
}

/* q, k', v: halves if all three are of one kind, else as they are multiplied, in f32. */
static weft_dtype find_operands(struct work *w, const struct soft_found *f, struct node *v, struct node *in[3]) {
  struct node *x[3] = { f->scores->in[0], f->scores->in[1], v };
  bool are_halves = true;
  for (int k = 0; k < 3; k++) {
    in[k] = before_loading(w, x[k]);
    are_halves = are_halves && in[k] && is_half((weft_dtype)in[k]->dtype) && in[k]->dtype == in[0]->dtype;
  }
  for (int k = 0; k < 3 && !are_halves; k++) in[k] = x[k];
  return (weft_dtype)in[0]->dtype;
}

static bool has_room(const struct work *w, enum kir_attention_part part, weft_dtype t, int64_t d, int64_t e) {
  return w->device->attends(w->device, &(struct kir_attention){ .part = part, .dtype = (uint8_t)t, .d = (int)d, .e = (int)e });
}

/* y: the product p v; NULL: only derivatives are wanted. */
static bool find_whole(struct work *w, struct node *y, struct node *v, struct soft_found *f) {
  struct node *in[4] = { 0 };
  weft_dtype t = find_operands(w, f, v, in);
  if (in[1]->dtype != t || in[2]->dtype != t || !is_attended(t) || !has_good_sizes(f, v) ||
      !has_room(w, KIR_ATTEND, t, last(f->scores->in[0], 1), last(v, 1))) return !w->no_memory;
  struct attend_attr a = { .part = KIR_ATTEND, .scale = (float)f->scale, .is_banded = f->is_banded, .band = f->band,
      .has_mask = f->mask != NULL,
                           .out = { y ? stored_as(w, y, t) : (uint8_t)t } };
  a.band_is_difference = f->band == last(f->p, 1) - last(f->p, 2);
  if (f->mask) {
    struct node *narrow = f->mask->dtype == WEFT_BOOL ? NULL : before_loading(w, f->mask);
    in[3] = narrow ? narrow : f->mask;
  }
  if (!(in[1] = turned(w, in[1]))) return false;
  a.is_by_rows = is_by_rows(in[0]);
  f->attend = work_node(w, &op_attend, WEFT_I64, 0, NULL, f->mask ? 4 : 3, in, &a, sizeof a);
  if (!f->attend) return false;
  f->y = result(w, f->attend, 0), f->lse = result(w, f->attend, 1), f->values = v;
  return f->y && f->lse && (!y || put(w, y, f->y));
}

/* ---- derivatives ---- */

static struct node *user_of(struct work *w, const struct node *x, bool (*is)(const struct soft_found *, const struct node *op,
                            const struct node *u, const struct node *x), const struct soft_found *f, const struct node *op) {
  for (int i = 0; i < w->list->n; i++) if (is(f, op, w->list->node[i], x)) return w->list->node[i];
  return NULL;
}

/* u: what the derivative of op makes of x. */
static bool is_through(const struct soft_found *f, const struct node *op, const struct node *u, const struct node *x) {
  (void)f;
  if (op->op == &op_where) return u->op == &op_where && u->in[0] == op->in[0] && u->in[1] == x && is_number(u->in[2], 0);
  return u->op == &op_mul && u->in[0] == x && u->in[1] == op->in[1];
}

/* either of two operands */
static struct node *other(const struct node *n, const struct op *op, const struct node *one) {
  if (!n || n->op != op) return NULL;
  return n->in[0] == one ? n->in[1] : n->in[1] == one ? n->in[0] : NULL;
}

/* x = (dp inverse + sum(dp e) (-(inverse / sum))) e; dp, or NULL */
static struct node *find_dp(const struct soft_found *f, const struct node *x) {
  struct node *a = other(x, &op_mul, f->e);
  if (!a || a->op != &op_add) return NULL;
  for (int k = 0; k < 2; k++) {
    const struct node *m = a->in[k], *r = of_rows(a->in[1 - k]);
    if (m->op != &op_mul || !r || r->op != &op_mul) continue;
    struct node *dp = of_rows(m->in[1]) == f->inverse ? m->in[0] : of_rows(m->in[0]) == f->inverse ? m->in[1] : NULL;
    for (int j = 0; dp && j < 2; j++) {
      const struct node *s = r->in[j], *q = r->in[1 - j];
      if (s->op != &op_sum || ((const struct axis_attr *)s->attr)->axis != f->p->rank - 1 || other(s->in[0], &op_mul,
          f->e) != dp) continue;
      if (q->op == &op_neg && q->in[0]->op == &op_div && q->in[0]->in[0] == f->inverse && q->in[0]->in[1] == f->sum) return dp;
    }
  }
  return NULL;
}

/* The derivative by the scores as they were multiplied; NULL: it is another expression. */
static struct node *find_ds(struct work *w, const struct soft_found *f, struct node *x) {
  for (int i = 0; x && i < f->n_ops; i++)
    if (f->op[i]->op != &op_add) x = user_of(w, x, is_through, f, f->op[i]);
  return x;
}

/* sum(dy y) along rows: [..,T,1] */
static struct node *delta_of(struct work *w, struct node *dy, struct node *y) {
  struct node *in[2] = { dy, y }, *m;
  for (int k = 0; k < 2; k++)
    if (in[k]->dtype != WEFT_F32 && !(in[k] = work_node(w, &op_cast, WEFT_F32, y->rank, y->dims, 1, &in[k], NULL, 0))) return NULL;
  dim dims[WEFT_RANK_MAX];
  struct axis_attr axis = { .axis = y->rank - 1 };
  memcpy(dims, y->dims, sizeof *dims * (size_t)y->rank);
  dims[y->rank - 1] = 1;
  m = work_node(w, &op_mul, WEFT_F32, y->rank, y->dims, 2, in, NULL, 0);
  return m ? work_node(w, &op_sum, WEFT_F32, y->rank, dims, 1, &m, &axis, sizeof axis) : NULL;
}

struct grad_found { struct node *product; bool is_turned; };  /* product NULL: nobody wants it; it may be the derivative turned */
struct grads_found { struct grad_found dq, dk, dv; };

static bool multiplies(const struct node *c, const struct node *a, bool a_is_turned, const struct node *b, bool b_is_turned) {
  return is_matrix(a, c->in[0], a_is_turned) && is_matrix(b, c->in[1], b_is_turned);
}

/* The derivative of a product a b by b is a' dy, or, turned, dy' a: as op/matmul.c writes it. */
static void find_products(struct work *w, const struct soft_found *f, const struct node *ds, const struct node *dy,
    struct grads_found *g) {
  const struct node *q = f->scores->in[0], *turned_k = f->scores->in[1];
  for (int i = 0; i < w->list->n; i++) {
    struct node *c = w->list->node[i];
    if (c->op->kind != OP_CONTRACT || c->dtype != WEFT_F32) continue;
    if (multiplies(c, ds, false, turned_k, true)) g->dq = (struct grad_found){ c, false };
    if (multiplies(c, turned_k, false, ds, true)) g->dq = (struct grad_found){ c, true };
    if (multiplies(c, ds, true, q, false)) g->dk = (struct grad_found){ c, false };
    if (multiplies(c, q, true, ds, false)) g->dk = (struct grad_found){ c, true };
    if (multiplies(c, f->p, true, dy, false)) g->dv = (struct grad_found){ c, false };
    if (multiplies(c, dy, true, f->p, false)) g->dv = (struct grad_found){ c, true };
  }
}

static struct node *grad_node(struct work *w, const struct soft_found *f, enum kir_attention_part part, struct node *const more[3],
                              uint8_t out0, uint8_t out1) {
  const struct node *a = f->attend;
  struct attend_attr attr = *(const struct attend_attr *)a->attr;
  struct node *in[7] = { a->in[0], a->in[1], a->in[2], more[0], more[1], more[2], a->n_in > 3 ? a->in[3] : NULL };
  attr.part = part, attr.out[0] = out0, attr.out[1] = out1;
  return work_node(w, &op_attend, WEFT_I64, 0, NULL, a->n_in + 3, in, &attr, sizeof attr);
}

/* Result k of n stands for what was found, if anything was. */
static bool put_grad(struct work *w, const struct grad_found *g, struct node *n, int k) {
  if (!g->product) return true;
  struct node *r = result(w, n, k);
  return r && put(w, g->product, g->is_turned ? turned(w, r) : r);
}

static uint8_t grad_stored_as(struct work *w, const struct grad_found *g, weft_dtype t) {
  return g->product ? stored_as(w, g->product, t) : (uint8_t)t;
}

static bool put_grads(struct work *w, const struct soft_found *f, const struct grads_found *g, struct node *dy, weft_dtype t) {
  struct node *more[3] = { dy, f->lse, delta_of(w, dy, f->y) }, *n;
  int64_t d = last(f->scores->in[0], 1), e = last(f->values, 1);
  if (!more[2]) return false;
  if (g->dq.product && has_room(w, KIR_ATTEND_QUERY, t, d, e)) {
    n = grad_node(w, f, KIR_ATTEND_QUERY, more, grad_stored_as(w, &g->dq, t), 0);
    if (!n || !put_grad(w, &g->dq, n, 0)) return false;
  }
  if ((!g->dk.product && !g->dv.product) || !has_room(w, KIR_ATTEND_KEY, t, d, e)) return true;
  n = grad_node(w, f, KIR_ATTEND_KEY, more, grad_stored_as(w, &g->dk, t), grad_stored_as(w, &g->dv, t));
  return n && put_grad(w, &g->dk, n, 0) && put_grad(w, &g->dv, n, 1);
}

static bool find_grads(struct work *w, const struct soft_found *f) {
  weft_dtype t = (weft_dtype)f->attend->in[0]->dtype;
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *dp = find_dp(f, w->list->node[i]), *ds = dp ? find_ds(w, f, w->list->node[i]) : NULL, *dy;
    if (!ds || dp->op->kind != OP_CONTRACT || !is_matrix(f->values, dp->in[1], true)) continue;
    if (!(dy = t == WEFT_F32 ? dp->in[0] : before_loading(w, dp->in[0])) || dy->dtype != t) continue;
    struct grads_found g = { 0 };
    find_products(w, f, ds, dp->in[0], &g);
    if (!put_grads(w, f, &g, dy, t)) return false;
  }
  return true;
}

/* ---- all of it ---- */

/* The product p v; NULL: there is none. */
static struct node *find_y(struct work *w, const struct node *p) {
  for (int i = 0; i < w->list->n; i++) {
    struct node *y = w->list->node[i];
    if (y->op->kind == OP_CONTRACT && y->dtype == WEFT_F32 && y->in[0] == p) return y;
  }
  return NULL;
}

/* v turned, as a derivative multiplies by it; NULL: there is none. */
static struct node *find_turned_v(struct work *w, const struct soft_found *f) {
  for (int i = 0; i < w->list->n; i++) {
    struct node *dp = find_dp(f, w->list->node[i]);
    if (dp && dp->op->kind == OP_CONTRACT) return dp->in[1];
  }
  return NULL;
}

static bool find_one(struct work *w, struct soft_found *f) {
  struct node *y = find_y(w, f->p), *v = y ? y->in[1] : find_turned_v(w, f);
  if (!v || (!y && !(v = turned(w, v)))) return !w->no_memory;
  return find_whole(w, y, v, f);
}

bool attention_find(struct work *w) {
  struct soft_found found[MOST_FOUND];
  int n_found = 0;
  if (!w->fuse || !w->is_loose || !w->device || !w->device->attends) return true;
  for (int i = 0, n = w->list->n; i < n && n_found < MOST_FOUND; i++) {
    struct soft_found *f = &found[n_found];
    if (!find_soft(w->list->node[i], f)) continue;
    if (!find_one(w, f)) return false;
    n_found += f->attend != NULL;
  }
  for (int i = n_found - 1; i >= 0; i--) if (!find_grads(w, &found[i])) return false; /* the last one comes first in a derivative */
  return true;
}
