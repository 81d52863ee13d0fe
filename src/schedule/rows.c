/* rows.c -- a loop whose body contracts rows with constant matrices, as one kernel: an RNN, a small filter.
 *
 * Rows of the batch never meet, so each is a par iteration with the time loop inside. A carry is a local array of two
 * rows, the one of this step and the one of the next; a computed row that is contracted is a local array too. Inside a
 * step there is one lane loop a phase and length: what a contraction reads is complete in an earlier phase. */
#include <string.h>
#include "schedule/loop.h"

enum { MOST = 40, LONGEST = 1024 };

struct stream {                     /* something in memory: strides of time, of the batch axes, of the lanes */
  int store, buf;
  int64_t offset, time, lead[AXES], lane, inner; /* inner: of the contracted axis */
  int64_t length;                   /* of the lane axis; 0: it does not move */
  int64_t inner_length;
  weft_dtype dtype;
};

struct rows {
  struct body *b;
  struct work inside;               /* places of views in the body */
  int n_lead;
  int64_t lead[AXES];               /* sizes of the batch axes that are not 1 */
  int *phase, *value, *local;       /* by slot */
  int n_phases;
  struct stream stream[MOST];
  int n_streams;
  int64_t length[MOST];             /* different lane lengths, and their sizes */
  int length_size[MOST], n_lengths;
  int carry_local[MOST], init[MOST], all[MOST], last[MOST];
  struct kir_kernel *k;
  struct kir_builder kb;
  int size_t_, lead_size[AXES], var[AXES], t, p, flip, j;
  struct binding bind[MOST];
  struct argument arg[MOST];
  int arg_value[MOST];
  weft_dtype arg_dtype[MOST];
  int64_t sizes[MOST];
  int n_sizes, n_args, n_bufs;
};

/* ---- whether the body allows it ---- */

static int64_t last_dim(const struct node *n) { return n->rank ? n->dims[n->rank - 1] : 1; }

static bool same_lead(const struct node *a, const struct node *b) {
  return a->rank == b->rank && a->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)(a->rank - 1));
}

static bool is_carry(const struct body *b, const struct node *x) {
  return x->op == &op_value && (int)x->serial >= b->loop->n_seq && (int)x->serial < b->loop->n_seq + b->loop->n_carry;
}
static bool is_const(const struct body *b, const struct node *x) {
  return x->op == &op_value && (int)x->serial >= b->loop->n_seq + b->loop->n_carry;
}

/* The number that an operand is, or NULL. */
static const struct node *number_below(const struct body *b, const struct node *x) {
  const struct node *base = edge_of(x).base;
  if (scalar_of(x)) return scalar_of(x);
  return base->op == &op_value && !is_carry(b, base) ? scalar_of(b->in_node[base->serial]) : NULL;
}

static bool row_of(const struct body *b, const struct node *x, const struct node *shape) { /* carries: as they are */
  return !is_carry(b, edge_of(x).base) || (x->op == &op_value && same_lead(x, shape));
}

static bool fits(const struct body *b, const struct node *shape) {
  bool contracts = false;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (n->op->kind == OP_LEAF || n->op->kind == OP_VIEW) continue;
    if ((n->op->kind != OP_ELEMENT && n->op->kind != OP_CONTRACT) || !same_lead(n, shape) || last_dim(n) > LONGEST || n->n_in > 3) return false;
    for (int k = 0; k < n->n_in; k++) {
      const struct node *base = edge_of(n->in[k]).base;
      if (!row_of(b, n->in[k], shape)) return false;
      bool is_computed = base->op->kind != OP_LEAF;
      if (is_computed && (n->in[k] != base || !same_lead(base, shape))) return false; /* no views of computed rows */
    }
    if (n->op->kind != OP_CONTRACT) continue;
    const struct node *w = n->in[1], *x = n->in[0];
    if (!is_const(b, edge_of(w).base) || number_below(b, w) || w->rank != 2 || x->rank != 2 || last_dim(x) > LONGEST || n->rank != 2) return false;
    if (edge_of(x).base->op->kind == OP_LEAF && !is_carry(b, edge_of(x).base)) return false;
    contracts = true;
  }
  return contracts;
}

static bool all_rows(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  if (!l->n_carry || l->until || b->length || l->n_carry > 8 || l->n_all > 8 || shape->rank < 1) return false;
  for (int k = 0; k < l->n_carry; k++) if (!same_lead(b->in_node[l->n_seq + k], shape)) return false;
  for (int k = 0; k < b->n_targets; k++) {
    const struct node *x = b->target[k], *base = edge_of(x).base;
    if (!same_lead(x, shape) || !row_of(b, x, shape) || (base->op->kind != OP_LEAF && x != base)) return false;
  }
  return true;
}

/* ---- phases ---- */

static int phase_of(struct rows *r, const struct node *x) {
  const struct node *base = edge_of(x).base;
  return base->op->kind == OP_LEAF ? 0 : r->phase[base->slot];
}

static void find_phases(struct rows *r) {
  r->n_phases = 1;
  for (int i = 0; i < r->b->list.n; i++) {
    struct node *n = r->b->list.node[i];
    r->value[i] = r->local[i] = -1;
    if (n->op->kind != OP_ELEMENT && n->op->kind != OP_CONTRACT) continue;
    for (int k = 0; k < n->n_in; k++) if (phase_of(r, n->in[k]) > r->phase[i]) r->phase[i] = phase_of(r, n->in[k]);
    if (n->op->kind == OP_CONTRACT && !is_carry(r->b, n->in[0])) r->phase[i] = phase_of(r, n->in[0]) + 1;
    if (r->phase[i] >= r->n_phases) r->n_phases = r->phase[i] + 1;
  }
}

/* ---- streams ---- */

static int add_stream(struct rows *r, const struct node *x, const struct place *p, int64_t time, int64_t offset, bool is_matrix) {
  struct stream s = { .store = p->store, .offset = p->offset + offset, .time = time, .dtype = (weft_dtype)x->dtype };
  if (r->n_streams == MOST) return -1;
  if (is_matrix) {
    s.inner = p->stride[0], s.inner_length = x->dims[0];
    s.lane = p->stride[1], s.length = x->dims[1];
  } else {
    int a = 0;
    for (int k = 0; k < x->rank - 1; k++) if (x->dims[k] != 1) s.lead[a++] = p->stride[k];
    if (x->rank && last_dim(x) != 1) s.lane = p->stride[x->rank - 1], s.length = last_dim(x);
  }
  for (int i = 0; i < r->n_streams; i++) {
    struct stream *o = &r->stream[i];
    if (o->store == s.store && o->offset == s.offset && o->time == s.time && o->lane == s.lane && o->inner == s.inner && o->length == s.length &&
        o->inner_length == s.inner_length && o->dtype == s.dtype && !memcmp(o->lead, s.lead, sizeof s.lead)) return i;
  }
  r->stream[r->n_streams] = s;
  return r->n_streams++;
}

/* The stream of an operand in memory, or -1. */
static int read_stream(struct rows *r, const struct node *x, bool is_matrix) {
  struct body *b = r->b;
  struct place p;
  int v = (int)edge_of(x).base->serial;
  if (!place_of(&r->inside, x, &p)) return -1;
  bool is_seq = v < b->loop->n_seq;
  int64_t time = is_seq ? b->in[v].stride[0] : 0, offset = 0;
  if (is_seq && b->loop->is_backward) offset = (b->steps - 1) * time, time = -time;
  return add_stream(r, x, &p, time, offset, is_matrix);
}

static bool in_memory(const struct body *b, const struct node *x) {
  const struct node *base = edge_of(x).base;
  return base->op == &op_value && !is_carry(b, base) && !number_below(b, x);
}

static bool find_streams(struct rows *r) {
  struct body *b = r->b;
  const struct loop *l = b->loop;
  r->inside = (struct work){ .arena = b->w->arena, .list = &b->list };
  r->inside.item = work_take(b->w, sizeof *r->inside.item * (size_t)(b->list.n + 1));
  if (!r->inside.item) return false;
  for (int i = 0; i < b->list.n; i++) {
    struct node *x = b->list.node[i];
    struct place *p = &r->inside.item[i].place;
    p->store = -1;
    if (x->op != &op_value) continue;
    *p = b->in[x->serial];
    if ((int)x->serial < l->n_seq) memmove(p->stride, p->stride + 1, sizeof *p->stride * (WEFT_RANK_MAX - 1));
  }
  for (int i = 0; i < b->list.n; i++) {
    struct node *n = b->list.node[i];
    if (n->op->kind != OP_ELEMENT && n->op->kind != OP_CONTRACT) continue;
    for (int k = 0; k < n->n_in; k++)
      if (in_memory(b, n->in[k]) && (n->op->kind == OP_CONTRACT) <= (k == 1) && read_stream(r, n->in[k], n->op->kind == OP_CONTRACT) < 0) return false;
  }
  for (int i = 0; i < b->n_targets; i++) if (in_memory(b, b->target[i]) && read_stream(r, b->target[i], false) < 0) return false;
  for (int k = 0; k < l->n_carry; k++) {
    r->init[k] = -1;
    if (!scalar_of(b->in_node[l->n_seq + k]) && (r->init[k] = add_stream(r, b->in_node[l->n_seq + k], &b->in[l->n_seq + k], 0, 0, false)) < 0) return false;
    r->last[k] = b->last[k] ? add_stream(r, b->target[k], b->last[k], 0, 0, false) : -1;
  }
  for (int k = 0; k < l->n_all; k++) {
    r->all[k] = -1;
    if (!b->all[k]) continue;
    struct place p = *b->all[k];
    int64_t time = p.stride[0], offset = 0;
    memmove(p.stride, p.stride + 1, sizeof *p.stride * (WEFT_RANK_MAX - 1));
    if (l->is_backward) offset = (b->steps - 1) * time, time = -time;
    if ((r->all[k] = add_stream(r, b->target[l->n_carry + k], &p, time, offset, false)) < 0) return false;
  }
  return r->n_streams < 28;
}

/* ---- the kernel ---- */

static struct kir_lin lin(struct rows *r, int v) { return kir_lin_val(r->k, v); }

static int add_size(struct rows *r, const char *name, int64_t n) {
  r->sizes[r->n_sizes++] = n;
  return kir_size(r->k, name);
}

static int size_of_length(struct rows *r, int64_t n) {
  for (int i = 0; i < r->n_lengths; i++) if (r->length[i] == n) return r->length_size[i];
  char name[] = { 'H', r->n_lengths ? (char)('0' + r->n_lengths) : 0, 0 };
  r->length[r->n_lengths] = n;
  return r->length_size[r->n_lengths++] = add_size(r, name, n);
}

static int dims_of(struct rows *r, const struct stream *s, struct kir_lin dims[], int64_t stride[]) {
  int n = 0;
  if (s->time) dims[n] = lin(r, r->size_t_), stride[n++] = s->time;
  for (int a = 0; a < r->n_lead; a++) if (s->lead[a]) dims[n] = lin(r, r->lead_size[a]), stride[n++] = s->lead[a];
  if (s->inner_length) dims[n] = lin(r, size_of_length(r, s->inner_length)), stride[n++] = s->inner;
  if (s->length && (s->lane || s->inner_length)) dims[n] = lin(r, size_of_length(r, s->length)), stride[n++] = s->lane;
  return n;
}

static void at(struct rows *r, const struct stream *s, int inner, int lane, struct kir_lin ix[]) {
  int n = 0;
  if (s->time) ix[n++] = lin(r, r->t);
  for (int a = 0; a < r->n_lead; a++) if (s->lead[a]) ix[n++] = lin(r, r->var[a]);
  if (s->inner_length) ix[n++] = lin(r, inner);
  if (s->length && (s->lane || s->inner_length)) ix[n++] = lin(r, lane);
}

static int number(struct rows *r, const struct node *x) {
  struct argument a = scalar_argument(x);
  weft_dtype t = kir_register_of((weft_dtype)x->dtype);
  for (int i = 0; i < r->n_args; i++)
    if (r->arg[i].leaf == a.leaf && r->arg[i].bits == a.bits && r->arg_dtype[i] == t) return r->arg_value[i];
  if (r->n_args == MOST) return 0;
  char name[] = { 's', (char)('0' + r->n_args % 10), r->n_args >= 10 ? (char)('0' + r->n_args / 10) : 0, 0 };
  r->arg[r->n_args] = a;
  r->arg_dtype[r->n_args] = t;
  return r->arg_value[r->n_args++] = kir_arg(r->k, name, t);
}

/* A row of a carry: of this step (p) or the next (1 - p). */
static int carry_load(struct rows *r, int k, int lane) {
  struct kir_lin ix[] = { lin(r, r->p), lin(r, lane) };
  return kir_load(&r->kb, r->carry_local[k], ix);
}

static int value_of(struct rows *r, const struct node *x) {
  const struct node *base = edge_of(x).base;
  if (number_below(r->b, x)) return number(r, number_below(r->b, x));
  if (is_carry(r->b, base)) return carry_load(r, (int)base->serial - r->b->loop->n_seq, r->j);
  if (base->op != &op_value) return r->value[base->slot];
  struct stream *s = &r->stream[read_stream(r, x, false)];
  struct kir_lin ix[AXES + 2];
  at(r, s, 0, r->j, ix);
  return kir_load(&r->kb, s->buf, ix);
}

/* u_j = sum_k row[k] w[k,j] */
static int contract(struct rows *r, const struct node *n) {
  const struct node *x = n->in[0], *base = edge_of(x).base;
  struct stream *w = &r->stream[read_stream(r, n->in[1], true)];
  weft_dtype t = kir_register_of((weft_dtype)n->dtype);
  struct kir_lin ix[AXES + 2];
  int k = kir_loop(&r->kb, KIR_SERIAL, "k", lin(r, size_of_length(r, last_dim(x)))), row, next;
  int u = kir_carry(&r->kb, NULL, kir_lit(r->k, t, 0));
  if (is_carry(r->b, base)) row = carry_load(r, (int)base->serial - r->b->loop->n_seq, k);
  else ix[0] = lin(r, k), row = kir_load(&r->kb, r->local[base->slot], ix);
  at(r, w, k, r->j, ix);
  int m = kir_load(&r->kb, w->buf, ix);
  next = kir_is_float(t) ? kir_op3(&r->kb, KIR_FMA, row, m, u) : kir_op2(&r->kb, KIR_ADD, u, kir_op2(&r->kb, KIR_MUL, row, m));
  kir_next(&r->kb, 1, &u, &next);
  kir_end(&r->kb);
  return u;
}

static void compute(struct rows *r, struct node *n) {
  int in[3] = { 0 }, v;
  if (n->op->kind == OP_CONTRACT) v = contract(r, n);
  else {
    for (int k = 0; k < n->n_in; k++) in[k] = value_of(r, n->in[k]);
    v = n->op->lower(&r->kb, n, in);
  }
  r->value[n->slot] = kir_cast(&r->kb, (weft_dtype)n->dtype, v);
}

static bool used_later(struct rows *r, const struct node *n, int phase) {
  for (int i = n->slot + 1; i < r->b->list.n; i++) {
    struct node *u = r->b->list.node[i];
    if (u->op->kind != OP_ELEMENT || r->phase[i] <= phase) continue;
    for (int k = 0; k < u->n_in; k++) if (edge_of(u->in[k]).base == n) return true;
  }
  return false;
}

static void store_row(struct rows *r, int stream, int value) {
  struct kir_lin ix[AXES + 2];
  if (stream < 0) return;
  at(r, &r->stream[stream], 0, r->j, ix);
  kir_store(&r->kb, r->stream[stream].buf, ix, KIR_SET, value);
}

/* The lane loop of one phase and length. */
static void lane_loop(struct rows *r, int phase, int64_t length) {
  struct body *b = r->b;
  const struct loop *l = b->loop;
  bool any = false;
  for (int i = 0; i < b->list.n; i++) any |= (b->list.node[i]->op->kind == OP_ELEMENT || b->list.node[i]->op->kind == OP_CONTRACT) && r->phase[i] == phase && last_dim(b->list.node[i]) == length;
  for (int k = 0; k < l->n_carry + l->n_all; k++) any |= phase_of(r, b->target[k]) == phase && last_dim(b->target[k]) == length;
  if (!any) return;
  r->j = kir_loop(&r->kb, KIR_LANE, "j", lin(r, size_of_length(r, length)));
  for (int i = 0; i < b->list.n; i++) {
    struct node *n = b->list.node[i];
    if ((n->op->kind != OP_ELEMENT && n->op->kind != OP_CONTRACT) || r->phase[i] != phase || last_dim(n) != length) continue;
    compute(r, n);
    if (r->local[i] >= 0) {
      struct kir_lin ix = lin(r, r->j);
      kir_store(&r->kb, r->local[i], &ix, KIR_SET, r->value[i]);
    }
    if (used_later(r, n, phase)) kir_keep(&r->kb, r->value[i]);
  }
  for (int k = 0; k < l->n_carry; k++) {
    if (phase_of(r, b->target[k]) != phase || last_dim(b->target[k]) != length) continue;
    struct kir_lin ix[] = { kir_lin_sub(r->k, kir_lin_const(r->k, 1), lin(r, r->p)), lin(r, r->j) };
    kir_store(&r->kb, r->carry_local[k], ix, KIR_SET, value_of(r, b->target[k]));
  }
  for (int k = 0; k < l->n_all; k++)
    if (phase_of(r, b->target[l->n_carry + k]) == phase && last_dim(b->target[l->n_carry + k]) == length && r->all[k] >= 0)
      store_row(r, r->all[k], value_of(r, b->target[l->n_carry + k]));
  kir_end(&r->kb);
}

static void declare(struct rows *r) {
  struct body *b = r->b;
  const struct loop *l = b->loop;
  static const char *const names[] = { "B", "B1", "B2", "B3", "B4", "B5", "B6", "B7" };
  bool written[MOST] = { 0 };
  int ins = 0, outs = 0;
  r->size_t_ = add_size(r, "T", b->steps);
  for (int a = 0; a < r->n_lead; a++) r->lead_size[a] = add_size(r, names[a], r->lead[a]);
  for (int k = 0; k < l->n_carry; k++) {
    size_of_length(r, last_dim(b->target[k]));
    if (r->last[k] >= 0) written[r->last[k]] = true;
  }
  for (int k = 0; k < l->n_all; k++) if (r->all[k] >= 0) written[r->all[k]] = true;
  for (int i = 0; i < r->n_streams; i++) {
    struct stream *s = &r->stream[i];
    struct kir_lin dims[AXES + 2];
    int n = written[i] ? outs++ : ins++;
    char name[] = { written[i] ? 'y' : 'x', (char)('0' + n % 10), n >= 10 ? (char)('0' + n / 10) : 0, 0 };
    struct binding *x = &r->bind[r->n_bufs++];
    *x = (struct binding){ .store = s->store, .offset = s->offset };
    int rank = dims_of(r, s, dims, x->stride);
    s->buf = kir_buf(r->k, name, written[i] ? KIR_OUT : KIR_IN, s->dtype, rank, dims);
  }
}

static void open_locals(struct rows *r) {
  struct body *b = r->b;
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->target[k];
    char name[] = { 'h', (char)('0' + k), 0 };
    struct kir_lin dims[] = { kir_lin_const(r->k, 2), lin(r, size_of_length(r, last_dim(x))) };
    r->carry_local[k] = kir_local(&r->kb, name, kir_register_of((weft_dtype)x->dtype), 2, dims);
  }
  for (int i = 0; i < b->list.n; i++) {
    struct node *n = b->list.node[i];
    if (n->op->kind != OP_CONTRACT || is_carry(b, n->in[0]) || edge_of(n->in[0]).base->op->kind == OP_LEAF) continue;
    const struct node *x = n->in[0];
    struct kir_lin dims = lin(r, size_of_length(r, last_dim(x)));
    if (r->local[x->slot] < 0) r->local[x->slot] = kir_local(&r->kb, "row", kir_register_of((weft_dtype)x->dtype), 1, &dims);
  }
}

static void copy_carry(struct rows *r, int k, bool is_last) {
  int64_t length = last_dim(r->b->target[k]);
  if (is_last && r->last[k] < 0) return;
  r->j = kir_loop(&r->kb, KIR_LANE, "j", lin(r, size_of_length(r, length)));
  if (is_last) store_row(r, r->last[k], carry_load(r, k, r->j));
  else {
    struct kir_lin ix[AXES + 2], to[] = { kir_lin_const(r->k, 0), lin(r, r->j) };
    int v = 0;
    if (r->init[k] < 0) v = number(r, scalar_of(r->b->in_node[r->b->loop->n_seq + k]));
    else at(r, &r->stream[r->init[k]], 0, r->j, ix), v = kir_load(&r->kb, r->stream[r->init[k]].buf, ix);
    kir_store(&r->kb, r->carry_local[k], to, KIR_SET, v);
  }
  kir_end(&r->kb);
}

static void nest(struct rows *r) {
  const struct loop *l = r->b->loop;
  static const char *const names[] = { "b", "b1", "b2", "b3", "b4", "b5", "b6", "b7" };
  for (int a = 0; a < r->n_lead; a++) r->var[a] = kir_loop(&r->kb, KIR_PAR, names[a], lin(r, r->lead_size[a]));
  open_locals(r);
  for (int k = 0; k < l->n_carry; k++) copy_carry(r, k, false);
  r->t = kir_loop(&r->kb, KIR_SERIAL, "t", lin(r, r->size_t_));
  r->p = kir_carry(&r->kb, "p", kir_lit_int(r->k, WEFT_I64, 0));
  for (int f = 0; f < r->n_phases; f++)
    for (int i = 0, n = r->n_lengths; i < n; i++) lane_loop(r, f, r->length[i]);
  int other = kir_op2(&r->kb, KIR_SUB, kir_lit_int(r->k, WEFT_I64, 1), r->p);
  kir_next(&r->kb, 1, &r->p, &other);
  kir_end(&r->kb);
  for (int k = 0; k < l->n_carry; k++) copy_carry(r, k, true);
  for (int a = 0; a < r->n_lead; a++) kir_end(&r->kb);
}

/* Lane lengths of everything the body computes. */
static void find_lengths(struct rows *r) {
  for (int i = 0; i < r->b->list.n; i++) {
    struct node *n = r->b->list.node[i];
    if (n->op->kind == OP_ELEMENT || n->op->kind == OP_CONTRACT) size_of_length(r, last_dim(n));
    if (n->op->kind == OP_CONTRACT) size_of_length(r, last_dim(n->in[0]));
  }
}

bool scan_rows(struct body *b, bool *done) {
  const struct loop *l = b->loop;
  const struct node *shape = l->n_carry ? b->in_node[l->n_seq] : NULL;
  if (!shape || !all_rows(b, shape) || !fits(b, shape)) return true;
  struct rows *r = work_take(b->w, sizeof *r);
  if (!r) return false;
  r->b = b;
  for (int k = 0; k < shape->rank - 1; k++) {
    if (shape->dims[k] == 1) continue;
    if (r->n_lead == AXES - 3) return true;
    r->lead[r->n_lead++] = shape->dims[k];
  }
  r->phase = work_take(b->w, sizeof(int) * (size_t)(b->list.n + 1));
  r->value = work_take(b->w, sizeof(int) * (size_t)(b->list.n + 1));
  r->local = work_take(b->w, sizeof(int) * (size_t)(b->list.n + 1));
  if (b->w->no_memory) return false;
  find_phases(r);
  if (!find_streams(r)) return !b->w->no_memory;
  if (!(r->k = kir_new("scan_rows"))) return !(b->w->no_memory = true);
  declare(r);
  find_lengths(r);
  kir_begin(&r->kb, r->k);
  nest(r);
  *done = true;
  return step_fill(b->w, r->k, r->n_sizes, r->sizes, r->n_args, r->arg, r->n_bufs, r->bind, 0, NULL);
}
