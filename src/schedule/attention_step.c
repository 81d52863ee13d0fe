/* attention_step.c -- the kernel of an op_attend node: what it computes row by row, as any back end may run it, and that it is
 * attention,
 * so that a back end may go tile by tile (struct kir_attention). */
#include <math.h>
#include <string.h>
#include "graph/dtype.h"
#include "schedule/attention_find.h"
#include "schedule/draft.h"

struct attend_draft {
  struct draft d;
  const struct attend_attr *attr;
  struct kir_attention a;
  int batch[KIR_ATTENTION_AXES]; /* values: loops */
  int length[2];                 /* values: d and e, which are numbers in the text: code by tiles is made for them */
};

/* A buffer with every axis of the array, those that it does not move along too. */
static bool buffer(struct attend_draft *x, struct work *w, const struct node *n, bool is_out, const char *name, int rows,
    int columns,
                   int *buf) {
  struct place p;
  if (is_out) p = w->item[n->slot].place;
  else if (!place_needed(w, n, &p)) return false;
  struct reach r = { .store = p.store, .offset = p.offset };
  for (int k = 0; k < n->rank; k++) {
    int size = k < x->a.n_batch ? x->a.batch[k] : k == n->rank - 2 ? rows : columns, axis = is_out ? attend_axis(x->attr, n->rank,
        k) : k;
    reach_along(&r, size < 0 ? kir_lin_const(x->d.k, 1) : draft_lin(&x->d, size), n->dims[axis] == 1 &&
        size >= 0 ? 0 : p.stride[axis]);
  }
  *buf = draft_buffer(&x->d, name, is_out ? KIR_OUT : KIR_IN, (weft_dtype)n->dtype, &r);
  return true;
}

static const struct node *item_of(const struct work *w, const struct node *n, int k) {
  for (int i = 0; i < w->list->n; i++) {
    const struct node *x = w->list->node[i];
    if (x->op->kind == OP_ITEM && x->in[0] == n && ((const struct item_attr *)x->attr)->k == k) return x;
  }
  return NULL;
}

/* Results that nobody wants are written to memory for the meantime. */
static bool out_buffer(struct attend_draft *x, struct work *w, const struct node *n, int k, const char *name, int rows,
    int columns, int *buf) {
  const struct node *item = item_of(w, n, k);
  dim dims[WEFT_RANK_MAX];
  int rank;
  if (item) return buffer(x, w, item, true, name, rows, columns, buf);
  weft_dtype t = n->op->many->type(n, k, &rank, dims);
  int64_t bytes = (int64_t)weft_dtype_bytes(t), stride = 1;
  for (int i = 0; i < rank; i++) bytes *= dims[i];
  struct reach r = { .store = store_new(w, bytes) };
  if (r.store < 0) return false;
  int64_t strides[WEFT_RANK_MAX];
  for (int i = rank - 1; i >= 0; i--) strides[i] = stride, stride *= dims[i];
  for (int i = 0; i < rank; i++) {
    int size = i < x->a.n_batch ? x->a.batch[i] : i == rank - 2 ? rows : columns;
    reach_along(&r, size < 0 ? kir_lin_const(x->d.k, 1) : draft_lin(&x->d, size), strides[attend_axis(x->attr, rank, i)]);
  }
  *buf = draft_buffer(&x->d, name, KIR_OUT, t, &r);
  return true;
}

static bool buffers(struct attend_draft *x, struct work *w, const struct node *n) {
  struct kir_attention *a = &x->a;
  int T = a->rows, S = a->columns, d = x->length[0], e = x->length[1], more = a->part == KIR_ATTEND ? 3 : 6;
  bool ok = buffer(x, w, n->in[0], false, "q", T, d, &a->q) && buffer(x, w, n->in[1], false, "k", S, d, &a->k) &&
            buffer(x, w, n->in[2], false, "v", S, e, &a->v);
  if (ok && more == 6)
    ok = buffer(x, w, n->in[3], false, "dy", T, e, &a->dy) && buffer(x, w, n->in[4], false, "lse", T, -1, &a->lse) &&
         buffer(x, w, n->in[5], false, "delta", T, -1, &a->delta);
  if (ok && x->attr->has_mask) ok = buffer(x, w, n->in[more], false, "mask", T, S, &a->mask);
  if (!ok) return false;
  switch (a->part) {
    case KIR_ATTEND: return out_buffer(x, w, n, 0, "y", T, e, &a->y) && out_buffer(x, w, n, 1, "lse", T, -1, &a->lse);
    case KIR_ATTEND_QUERY: return out_buffer(x, w, n, 0, "dq", T, d, &a->dq);
    case KIR_ATTEND_KEY: return out_buffer(x, w, n, 0, "dk", S, d, &a->dk) && out_buffer(x, w, n, 1, "dv", S, e, &a->dv);
  }
  return false;
}

/* ---- the text ---- */

static int element(struct attend_draft *x, int buf, int row, int column) { /* column -1: the first */
  struct kir_lin at[KIR_ATTENTION_AXES + 2];
  int n = x->a.n_batch;
  for (int i = 0; i < n; i++) at[i] = draft_lin(&x->d, x->batch[i]);
  at[n] = draft_lin(&x->d, row);
  at[n + 1] = column < 0 ? kir_lin_const(x->d.k, 0) : draft_lin(&x->d, column);
  return kir_load(&x->d.b, buf, at);
}

static void set_element(struct attend_draft *x, int buf, int row, int column, int value) {
  struct kir_lin at[KIR_ATTENTION_AXES + 2];
  int n = x->a.n_batch;
  for (int i = 0; i < n; i++) at[i] = draft_lin(&x->d, x->batch[i]);
  at[n] = draft_lin(&x->d, row);
  at[n + 1] = column < 0 ? kir_lin_const(x->d.k, 0) : draft_lin(&x->d, column);
  kir_store(&x->d.b, buf, at, KIR_SET, value);
}

static int number(struct attend_draft *x, double v) { return kir_lit(x->d.k, WEFT_F32, dtype_encode(WEFT_F32, v)); }

/* The sum of a[i,c] b[j,c] over c. */
static int dot(struct attend_draft *x, int a, int i, int b, int j, int size) {
  struct kir_builder *at = &x->d.b;
  int c = kir_loop(at, KIR_SERIAL, "c", draft_lin(&x->d, size)), u = kir_carry(at, "u", number(x, 0));
  int one = element(x, a, i, c), two = element(x, b, j, c), next = kir_op3(at, KIR_FMA, one, two, u);
  kir_next(at, 1, &u, &next);
  kir_end(at);
  return u;
}

/* The score of row i of q and column j of k', scaled and masked. */
static int score(struct attend_draft *x, int i, int j) {
  struct kir_builder *b = &x->d.b;
  int s = kir_op2(b, KIR_MUL, dot(x, x->a.q, i, x->a.k, j, x->length[0]), number(x, x->a.scale)), least = number(x, -INFINITY),
      sees;
  if (x->a.is_banded) {
    int band = x->a.band_is_difference ? kir_op2(b, KIR_SUB, x->a.columns, x->a.rows) : kir_lit_int(x->d.k, WEFT_I64, x->a.band);
    sees = kir_op2(b, KIR_LE, j, kir_op2(b, KIR_ADD, i, band));
    s = kir_op3(b, KIR_SELECT, sees, s, least);
  }
  if (x->a.mask < 0) return s;
  int m = element(x, x->a.mask, i, j);
  return x->d.k->bufs[x->a.mask].dtype == WEFT_BOOL ? kir_op3(b, KIR_SELECT, m, s, least) : kir_op2(b, KIR_ADD, s, m);
}

static int local_row(struct attend_draft *x, const char *name, int size) {
  struct kir_lin n = draft_lin(&x->d, size);
  return kir_local(&x->d.b, name, WEFT_F32, 1, &n);
}

static void set_local(struct attend_draft *x, int local, int at, int value) {
  struct kir_lin l = draft_lin(&x->d, at);
  kir_store(&x->d.b, local, &l, KIR_SET, value);
}

static int of_local(struct attend_draft *x, int local, int at) {
  struct kir_lin l = draft_lin(&x->d, at);
  return kir_load(&x->d.b, local, &l);
}

/* out[row,c] = by * the sum over i of weight[i] rows[i,c] */
static void weighted(struct attend_draft *x, int local, int n, int rows, int size, int out, int row, int by) {
  struct kir_builder *b = &x->d.b;
  int c = kir_loop(b, KIR_LANE, "c", draft_lin(&x->d, size)), i = kir_loop(b, KIR_SERIAL, "i", draft_lin(&x->d, n));
  int u = kir_carry(b, "u", number(x, 0)), weight = of_local(x, local, i), one = element(x, rows, i, c);
  int next = kir_op3(b, KIR_FMA, weight, one, u);
  kir_next(b, 1, &u, &next);
  kir_end(b);
  set_element(x, out, row, c, kir_op2(b, KIR_MUL, u, by));
  kir_end(b);
}

static void whole_row(struct attend_draft *x, int row) {
  struct kir_builder *b = &x->d.b;
  const struct kir_attention *a = &x->a;
  int s = local_row(x, "s", a->columns), j = kir_loop(b, KIR_LANE, "j", draft_lin(&x->d, a->columns)), u = score(x, row, j);
  set_local(x, s, j, u);
  int most = kir_fold(b, KIR_MAX, KIR_ROW, u);
  kir_end(b);
  j = kir_loop(b, KIR_LANE, "j", draft_lin(&x->d, a->columns));
  u = kir_op1(b, KIR_EXP, kir_op2(b, KIR_SUB, of_local(x, s, j), most));
  set_local(x, s, j, u);
  int sum = kir_fold(b, KIR_ADD, KIR_ROW, u);
  kir_end(b);
  set_element(x, a->lse, row, -1, kir_op2(b, KIR_ADD, most, kir_op1(b, KIR_LOG, sum)));
  weighted(x, s, a->columns, a->v, x->length[1], a->y, row, kir_op2(b, KIR_DIV, number(x, 1), sum));
}

/* Row i of the queries is `row`, or that of the keys; the other is along lanes. */
static void grad_row(struct attend_draft *x, int row, bool is_key) {
  struct kir_builder *b = &x->d.b;
  const struct kir_attention *a = &x->a;
  int across = is_key ? a->rows : a->columns, ps = local_row(x, "p", across), dss = local_row(x, "ds", across);
  int lane = kir_loop(b, KIR_LANE, "j", draft_lin(&x->d, across)), i = is_key ? lane : row, j = is_key ? row : lane;
  int s = score(x, i, j), p = kir_op1(b, KIR_EXP, kir_op2(b, KIR_SUB, s, element(x, a->lse, i, -1)));
  int dp = dot(x, a->dy, i, a->v, j, x->length[1]);
  int ds = kir_op2(b, KIR_MUL, p, kir_op2(b, KIR_SUB, dp, element(x, a->delta, i, -1)));
  set_local(x, ps, lane, p);
  set_local(x, dss, lane, ds);
  kir_end(b);
  weighted(x, dss, across, is_key ? a->q : a->k, x->length[0], is_key ? a->dk : a->dq, row, number(x, a->scale));
  if (is_key) weighted(x, ps, across, a->dy, x->length[1], a->dv, row, number(x, 1));
}

static void text(struct attend_draft *x) {
  struct kir_builder *b = &x->d.b;
  bool is_key = x->a.part == KIR_ATTEND_KEY;
  for (int i = 0; i < x->a.n_batch; i++)
    x->batch[i] = kir_loop(b, KIR_PAR, (char[]){ 'b', (char)('0' + i), 0 }, draft_lin(&x->d, x->a.batch[i]));
  int row = kir_loop(b, KIR_PAR, "r", draft_lin(&x->d, is_key ? x->a.columns : x->a.rows));
  if (x->a.part == KIR_ATTEND) whole_row(x, row);
  else grad_row(x, row, is_key);
  for (int i = 0; i <= x->a.n_batch; i++) kir_end(b);
}

/* ---- the step ---- */

static void sizes(struct attend_draft *x, const struct node *q, const struct node *k, const struct node *v) {
  int n = x->a.n_batch = q->rank - 2;
  for (int i = 0; i < n; i++) x->a.batch[i] = draft_sized(&x->d, "B", i, q->dims[i]);
  x->a.rows = draft_size(&x->d, "T", q->dims[n]);
  x->a.columns = draft_size(&x->d, "S", k->dims[n]);
  x->length[0] = kir_lit_int(x->d.k, WEFT_I64, q->dims[n + 1]);
  x->length[1] = kir_lit_int(x->d.k, WEFT_I64, v->dims[n + 1]);
}

static void account(struct work *w, const struct node *n, const struct kir_attention *a) {
  static const int products[] = { [KIR_ATTEND] = 2, [KIR_ATTEND_QUERY] = 3, [KIR_ATTEND_KEY] = 4 };
  double bytes = 0, pairs = (double)node_count(n->in[0]) / a->d * (double)n->in[1]->dims[n->in[1]->rank - 2];
  for (int k = 0; k < n->n_in; k++) bytes += (double)node_count(n->in[k]) * (double)weft_dtype_bytes((weft_dtype)n->in[k]->dtype);
  step_add_cost(w, bytes, products[a->part] * pairs * (a->d + a->e), 8);
}

bool step_attention(struct work *w, struct node *n) {
  static const char *const names[] = { [KIR_ATTEND] = "attend", [KIR_ATTEND_QUERY] = "attend_query",
      [KIR_ATTEND_KEY] = "attend_key" };
  const struct attend_attr *attr = n->attr;
  struct attend_draft x = { .attr = attr };
  x.a = (struct kir_attention){ .part = attr->part, .dtype = n->in[0]->dtype, .scale = attr->scale, .is_banded = attr->is_banded,
                                .band_is_difference = attr->band_is_difference, .band = attr->band,
                                .d = (int)n->in[0]->dims[n->in[0]->rank - 1], .e = (int)n->in[2]->dims[n->in[2]->rank - 1],
                                .q = -1, .k = -1, .v = -1, .mask = -1, .y = -1, .lse = -1, .dy = -1, .delta = -1, .dq = -1,
                                    .dk = -1,
                                .dv = -1 };
  if (!draft_begin(&x.d, w, names[attr->part])) return false;
  sizes(&x, n->in[0], n->in[1], n->in[2]);
  if (!buffers(&x, w, n)) return draft_drop(&x.d), false;
  text(&x);
  struct kir_attention *a = arena_take(x.d.k->arena, sizeof *a);
  if (a) *a = x.a, x.d.k->attention = a;
  else x.d.k->failed = true;
  if (!draft_end(&x.d)) return false;
  account(w, n, &x.a);
  return true;
}
