/* loop_rows.c -- a loop whose body contracts rows with constant matrices, as one kernel: an RNN, a small filter.
 *
 * Rows of the batch never meet, so some of them are a par iteration with the time loop inside: four, so that an element of
 * a matrix that is loaded serves four rows, and what is left one by one. A carry is a local array of two times these rows,
 * those of this step and those of the next; computed rows that are contracted, or used in a later phase, and contractions
 * are local arrays too. Inside a step, for each phase and length, there is a lane loop for the contractions of all rows and
 * one for everything else of each row: what a contraction reads is complete in an earlier phase.
 *
 * On a device, where rows are many threads, an iteration is one row, everything of a phase and length is one lane loop, what is
 * read is asked for before the contractions, and matrices that fit are local arrays too. */
#include <string.h>
#include "backend/patch.h"
#include "schedule/body.h"
#include "schedule/draft.h"

enum { MOST_RESULTS = 8, LONGEST = 1024, GROUP = 4 }; /* LONGEST: elements of a row, a local array: with a
                                       few others it stays in the first cache. GROUP: rows that share what is read of a matrix */
enum { MATRIX_BYTES = 64 << 10 };   /* of all matrices that are local arrays: beside the rows, what a second cache keeps */
enum { LARGE = 1 << 16 };           /* elements of a matrix that no longer stays in the second cache beside others */

struct row_stream {                     /* something in memory: strides of time, of the batch axes, of the lanes */
  int store, buf;
  int64_t offset, time, lead[AXES], lane, inner; /* inner: of the contracted axis */
  int64_t length, inner_length;     /* of the lane axis, 0: it does not move; of a matrix's contracted axis, else 0 */
  weft_dtype dtype;
  bool is_written;
};

struct turned { struct place from, to; }; /* a matrix, and its copy that lies along the lanes */

struct rows {
  struct body *b;
  struct axes lead;                 /* batch axes that are not 1 */
  int *phase, *value, *local;       /* by slot */
  int n_phases, now;                /* the phase being written */
  int64_t first_row, n_rows;        /* of the last batch axis: those of this kernel */
  int group;                        /* rows of an iteration */
  bool is_for_device;
  int loaded[DRAFT_BUFFERS];        /* by stream: what this lane loop has loaded, -1: nothing */
  int matrix[DRAFT_BUFFERS];        /* by stream: the local array that is a copy of it, -1: none */
  struct row_stream stream[DRAFT_BUFFERS];
  int n_streams;
  struct turned turned[DRAFT_BUFFERS];
  int n_turned;
  int64_t length[DRAFT_SIZES];      /* different lane lengths, and their sizes */
  int length_size[DRAFT_SIZES], n_lengths;
  int carry_local[MOST_RESULTS], init[MOST_RESULTS], all[MOST_RESULTS], last[MOST_RESULTS]; /* streams; -1: none */
  struct draft d;
  int size_t_, t, p, j;             /* time, which of the carries are this step's, the lane */
  struct kir_lin g;                 /* the row of the group */
};

static bool is_computed(const struct node *n) { return n->op->kind == OP_ELEMENT || n->op->kind == OP_CONTRACT; }

/* ---- whether the body allows it ---- */

static int64_t last_dim(const struct node *n) { return n->rank ? n->dims[n->rank - 1] : 1; }

static bool same_lead(const struct node *a, const struct node *b) {
  return a->rank == b->rank && a->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)(a->rank - 1));
}

/* A row that can stand in a local array. */
static bool is_row(const struct node *n, const struct node *shape) {
  return same_lead(n, shape) && last_dim(n) > 0 && last_dim(n) <= LONGEST;
}

/* Carries and computed rows are used as they are, not through views. */
static bool is_plain(const struct body *b, const struct node *x, const struct node *shape) {
  const struct node *base = edge_of(x).base;
  if (base->op->kind == OP_LEAF && !body_is_carry(b, base)) return true;
  return x == base && same_lead(x, shape);
}

/* [b, k] x [k, j], the rows carried, computed or read, the matrix constant. */
static bool contracts_rows(const struct body *b, const struct node *n) {
  const struct node *x = n->in[0], *w = n->in[1];
  if (n->rank != 2 || x->rank != 2 || w->rank != 2 || last_dim(x) == 0 || last_dim(x) > KIR_PRODUCT_BLOCK) return false;
  if (w->dims[0] * w->dims[1] > LARGE) return false;
  return !body_number(b, x) && body_is_constant(b, edge_of(w).base) && !body_number(b, w);
}

/* Rows computed in this step stand in a local array while they are contracted; others are there already. */
static bool needs_local(const struct body *b, const struct node *row) { return !body_is_carry(b, row) && !body_reads(b, row); }

static bool fits(const struct body *b, const struct node *shape) {
  bool contracts = false;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (n->op->kind == OP_LEAF || n->op->kind == OP_VIEW) continue;
    if (!is_computed(n) || !is_row(n, shape) || n->n_in > 3) return false;
    for (int k = 0; k < n->n_in; k++) if (!is_plain(b, n->in[k], shape)) return false;
    if (n->op->kind != OP_CONTRACT) continue;
    if (!contracts_rows(b, n)) return false;
    contracts = true;
  }
  return contracts;
}

static bool has_rows(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  if (l->until || b->length || b->steps == STEPS_AT_RUN || shape->rank < 1) return false;
  if (l->n_carry > MOST_RESULTS || l->n_all > MOST_RESULTS) return false;
  for (int k = 0; k < l->n_carry; k++) if (!is_row(b->in_node[l->n_seq + k], shape)) return false;
  for (int k = 0; k < b->n_targets; k++) if (!is_row(b->target[k], shape) || !is_plain(b, b->target[k], shape)) return false;
  return true;
}

bool rows_fit(const struct body *b) {
  const struct node *shape = b->loop->n_carry ? b->in_node[b->loop->n_seq] : NULL;
  return shape && has_rows(b, shape) && fits(b, shape);
}

/* ---- phases ---- */

static int phase_of(const struct rows *r, const struct node *x) {
  const struct node *base = edge_of(x).base;
  return base->op->kind == OP_LEAF ? 0 : r->phase[base->slot];
}

static void find_phases(struct rows *r) {
  r->n_phases = 1;
  for (int i = 0; i < r->b->list.n; i++) {
    const struct node *n = r->b->list.node[i];
    r->value[i] = r->local[i] = -1;
    if (!is_computed(n)) continue;
    for (int k = 0; k < n->n_in; k++) if (phase_of(r, n->in[k]) > r->phase[i]) r->phase[i] = phase_of(r, n->in[k]);
    if (n->op->kind == OP_CONTRACT && needs_local(r->b, n->in[0])) r->phase[i] = phase_of(r, n->in[0]) + 1;
    if (r->phase[i] >= r->n_phases) r->n_phases = r->phase[i] + 1;
  }
}

/* ---- streams; NONE: too many ---- */

enum { NONE = -2 };

static bool same_stream(const struct row_stream *a, const struct row_stream *b) {
  return a->store == b->store && a->offset == b->offset && a->dtype == b->dtype && a->is_written == b->is_written &&
         a->time == b->time && a->lane == b->lane && a->inner == b->inner && a->length == b->length &&
         a->inner_length == b->inner_length && !memcmp(a->lead, b->lead, sizeof a->lead);
}

static int add_stream(struct rows *r, struct row_stream s) {
  for (int i = 0; i < r->n_streams; i++) if (same_stream(&r->stream[i], &s)) return i;
  if (r->n_streams == DRAFT_BUFFERS) return NONE;
  r->stream[r->n_streams] = s;
  return r->n_streams++;
}

static struct row_stream stream_of(const struct node *x, const struct moving *m, bool is_written) {
  return (struct row_stream){ .store = m->at.store, .offset = m->at.offset, .time = m->time, .dtype = (weft_dtype)x->dtype,
                          .is_written = is_written };
}

/* Axes are aligned on the right with those of the loop's rows. What is written moves along its lanes even if it is one. */
static int add_rows(struct rows *r, const struct node *x, const struct moving *m, bool is_written) {
  struct row_stream s = stream_of(x, m, is_written);
  const struct node *shape = r->b->in_node[r->b->loop->n_seq];
  for (int k = 0, axis = 0; k < shape->rank - 1; k++) {
    int j = k - (shape->rank - x->rank);
    if (shape->dims[k] == 1) continue;
    if (j >= 0 && x->dims[j] != 1) s.lead[axis] = m->at.stride[j];
    axis++;
  }
  if (x->rank && (is_written || last_dim(x) != 1)) s.lane = m->at.stride[x->rank - 1], s.length = last_dim(x);
  return add_stream(r, s);
}

static bool is_same_place(const struct place *a, const struct place *b) {
  return a->store == b->store && a->offset == b->offset && a->stride[0] == b->stride[0] && a->stride[1] == b->stride[1];
}

/* Every step reads all of a matrix: one that lies across the lanes is copied before the first. false: failed, or too many. */
static bool lay_along(struct rows *r, const struct node *x, struct place *at) {
  struct turned *t = r->turned;
  if (at->stride[1] == 1 || x->dims[1] == 1) return true;
  while (t < r->turned + r->n_turned && !is_same_place(&t->from, at)) t++;
  if (t == r->turned + DRAFT_BUFFERS) return false;
  if (t == r->turned + r->n_turned) {
    struct work *w = r->b->w;
    t->from = *at;
    place_dense(x, store_new(w, node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype)), &t->to);
    if (w->no_memory || !step_copy(w, (weft_dtype)x->dtype, 2, x->dims, at, &t->to)) return false;
    r->n_turned++;
  }
  *at = t->to;
  return true;
}

static int add_matrix(struct rows *r, const struct node *x, struct moving *m) {
  if (!lay_along(r, x, &m->at)) return NONE;
  struct row_stream s = stream_of(x, m, false);
  s.inner = m->at.stride[0], s.inner_length = x->dims[0];
  s.lane = m->at.stride[1], s.length = x->dims[1];
  return add_stream(r, s);
}

/* The stream of an operand that the body reads. It is looked for again when it is loaded, and found. */
static int read_stream(struct rows *r, const struct node *x, bool is_matrix) {
  struct moving m;
  if (!body_place(r->b, x, &m)) return NONE;
  return is_matrix ? add_matrix(r, x, &m) : add_rows(r, x, &m, false);
}

static bool find_reads(struct rows *r) {
  const struct body *b = r->b;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    bool contracts = n->op->kind == OP_CONTRACT;
    for (int k = 0; is_computed(n) && k < n->n_in; k++)
      if (body_reads(b, n->in[k]) && read_stream(r, n->in[k], contracts && k == 1) == NONE) return false;
  }
  for (int i = 0; i < b->n_targets; i++)
    if (body_reads(b, b->target[i]) && read_stream(r, b->target[i], false) == NONE) return false;
  return true;
}

static bool find_results(struct rows *r) {
  const struct body *b = r->b;
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->in_node[l->n_seq + k];
    struct moving from = { b->in[l->n_seq + k], 0 }, to = b->last[k] ? (struct moving){ *b->last[k], 0 } : (struct moving){ 0 };
    r->init[k] = scalar_of(x) ? -1 : add_rows(r, x, &from, false);
    r->last[k] = b->last[k] ? add_rows(r, b->target[k], &to, true) : -1;
    if (r->init[k] == NONE || r->last[k] == NONE) return false;
  }
  for (int k = 0; k < l->n_all; k++) {
    struct moving to = b->all[k] ? body_stack(b, b->all[k]) : (struct moving){ 0 };
    r->all[k] = b->all[k] ? add_rows(r, b->target[l->n_carry + k], &to, true) : -1;
    if (r->all[k] == NONE) return false;
  }
  return true;
}

/* ---- the kernel ---- */

static struct kir_lin lin(struct rows *r, int v) { return draft_lin(&r->d, v); }
static struct kir_lin number(struct rows *r, int64_t n) { return kir_lin_const(r->d.k, n); }

/* Lead axes in a subscript; the last of them is made of the group and the row in it. */
static int lead_subscripts(struct rows *r, const int64_t stride[], int n, struct kir_lin at[]) {
  int last = r->lead.n_live - 1, end = axes_subscripts(&r->lead, &r->d, stride, n, at);
  if (last >= 0 && stride[last] && r->group > 1)
    at[end - 1] = kir_lin_add(r->d.k, kir_lin_scale(r->d.k, at[end - 1], r->group), r->g);
  return end;
}

static int size_of_length(struct rows *r, int64_t n) {
  for (int i = 0; i < r->n_lengths; i++) if (r->length[i] == n) return r->length_size[i];
  int size = r->n_lengths ? draft_sized(&r->d, "H", r->n_lengths, n) : draft_size(&r->d, "H", n);
  if (r->n_lengths == DRAFT_SIZES) return size; /* the draft is full */
  r->length[r->n_lengths] = n;
  return r->length_size[r->n_lengths++] = size;
}

static bool has_lanes(const struct row_stream *s) { return s->length && (s->lane || s->inner_length); }

static struct reach reach_of(struct rows *r, const struct row_stream *s) {
  struct reach x = { .store = s->store, .offset = s->offset };
  if (s->time) reach_along(&x, lin(r, r->size_t_), s->time);
  axes_reach(&r->lead, &r->d, s->lead, &x);
  if (s->inner_length) reach_along(&x, lin(r, size_of_length(r, s->inner_length)), s->inner);
  if (has_lanes(s)) reach_along(&x, lin(r, size_of_length(r, s->length)), s->lane);
  return x;
}

/* inner: of a matrix, the row. */
static void subscripts(struct rows *r, const struct row_stream *s, int inner, struct kir_lin at[]) {
  int n = 0;
  if (s->time) at[n++] = lin(r, r->t);
  n = lead_subscripts(r, s->lead, n, at);
  if (s->inner_length) at[n++] = lin(r, inner);
  if (has_lanes(s)) at[n++] = lin(r, r->j);
}

static int load(struct rows *r, int stream, int inner) {
  struct kir_lin at[2 * AXES];
  if (r->matrix[stream] >= 0) return kir_load(&r->d.b, r->matrix[stream], (struct kir_lin[]){ lin(r, inner), lin(r, r->j) });
  subscripts(r, &r->stream[stream], inner, at);
  return kir_load(&r->d.b, r->stream[stream].buf, at);
}

static void store(struct rows *r, int stream, int value) {
  struct kir_lin at[2 * AXES];
  subscripts(r, &r->stream[stream], 0, at);
  kir_store(&r->d.b, r->stream[stream].buf, at, KIR_SET, value);
}

/* Element `lane` of the carry that x is, in the row of this step. */
static int carry_load(struct rows *r, const struct node *x, int lane) {
  struct kir_lin at[] = { lin(r, r->p), r->g, lin(r, lane) };
  return kir_load(&r->d.b, r->carry_local[local_of(x)->leaf - r->b->loop->n_seq], at);
}

static int local_load(struct rows *r, const struct node *x, int lane) {
  struct kir_lin at[] = { r->g, lin(r, lane) };
  return kir_load(&r->d.b, r->local[x->slot], at);
}

/* An element of what is read; in a lane loop of a device once. */
static int read_once(struct rows *r, const struct node *x) {
  int stream = read_stream(r, x, false), value = r->loaded[stream];
  if (value < 0) value = load(r, stream, 0);
  if (r->is_for_device) r->loaded[stream] = value;
  return value;
}

static int value_of(struct rows *r, const struct node *x) {
  const struct node *base = edge_of(x).base, *number = body_number(r->b, x);
  if (number) return draft_number(&r->d, number);
  if (body_is_carry(r->b, base)) return carry_load(r, base, r->j);
  if (base->op == &op_value) return read_once(r, x);
  bool is_local = (base->op->kind == OP_CONTRACT && !r->is_for_device) || r->phase[base->slot] < r->now;
  return is_local ? local_load(r, base, r->j) : r->value[base->slot];
}

/* Element k of a row that is contracted. */
static int row_load(struct rows *r, const struct node *x, int k) {
  int lane = r->j;
  if (body_is_carry(r->b, x)) return carry_load(r, x, k);
  if (r->local[x->slot] >= 0) return local_load(r, x, k);
  r->j = k;
  int value = load(r, read_stream(r, x, false), 0);
  r->j = lane;
  return value;
}

/* u_j = sum_k row[k] w[k,j], for each row of the group */
static void contract(struct rows *r, const struct node *n) {
  struct kir_builder *b = &r->d.b;
  weft_dtype t = kir_register_of((weft_dtype)n->in[0]->dtype);
  int u[GROUP], next[GROUP], k = kir_loop(b, KIR_SERIAL, "k", lin(r, size_of_length(r, last_dim(n->in[0]))));
  for (int g = 0; g < r->group; g++) u[g] = kir_carry(b, NULL, kir_lit(r->d.k, t, 0));
  int m = load(r, read_stream(r, n->in[1], true), k);
  for (int g = 0; g < r->group; g++) {
    r->g = number(r, g);
    int row = row_load(r, n->in[0], k);
    next[g] = kir_is_float(t) ? kir_op3(b, KIR_FMA, row, m, u[g]) : kir_op2(b, KIR_ADD, u[g], kir_op2(b, KIR_MUL, row, m));
  }
  kir_next(b, r->group, u, next);
  kir_end(b);
  for (int g = 0; g < r->group; g++) {
    struct kir_lin at[] = { number(r, g), lin(r, r->j) };
    int sum = r->value[n->slot] = kir_cast(b, (weft_dtype)n->dtype, u[g]);
    if (r->local[n->slot] >= 0) kir_store(b, r->local[n->slot], at, KIR_SET, sum);
  }
}

static int compute(struct rows *r, struct node *n) {
  int in[ELEMENT_MOST] = { 0 };
  for (int k = 0; k < n->n_in; k++) in[k] = value_of(r, n->in[k]);
  return n->op->lower(&r->d.b, n, in);
}

static bool used_later(const struct rows *r, const struct node *n) {
  for (int i = n->slot + 1; i < r->b->list.n; i++) {
    const struct node *u = r->b->list.node[i];
    if (u->op->kind != OP_ELEMENT || r->phase[i] <= r->phase[n->slot]) continue;
    for (int k = 0; k < u->n_in; k++) if (edge_of(u->in[k]).base == n) return true;
  }
  return false;
}

static bool is_contracted(const struct rows *r, const struct node *n) {
  for (int i = n->slot + 1; i < r->b->list.n; i++)
    if (r->b->list.node[i]->op->kind == OP_CONTRACT && r->b->list.node[i]->in[0] == n) return true;
  return false;
}

/* Whether a contracted operand is copied into the kernel before it is used: one that is read, and another in each step. */
static bool is_copied(const struct rows *r, const struct node *n) {
  struct moving m;
  return is_contracted(r, n) && body_reads(r->b, n) && body_place(r->b, n, &m) && m.time && last_dim(n) > 1;
}

/* A lane loop is that of one phase and one length. */
struct turn { int phase; int64_t length; };

static bool is_due(const struct rows *r, const struct node *x, struct turn t) {
  return phase_of(r, x) == t.phase && last_dim(x) == t.length;
}

static bool has_work(const struct rows *r, struct turn t) {
  const struct body *b = r->b;
  for (int i = 0; i < b->list.n; i++) if (is_computed(b->list.node[i]) && is_due(r, b->list.node[i], t)) return true;
  for (int k = 0; k < b->n_targets; k++) if (is_due(r, b->target[k], t)) return true;
  return false;
}

static bool has_contraction(const struct rows *r, struct turn t) {
  for (int i = 0; i < r->b->list.n; i++)
    if (r->b->list.node[i]->op->kind == OP_CONTRACT && is_due(r, r->b->list.node[i], t)) return true;
  return false;
}

static void contract_lanes(struct rows *r, struct turn t) {
  for (int i = 0; i < r->b->list.n; i++)
    if (r->b->list.node[i]->op->kind == OP_CONTRACT && is_due(r, r->b->list.node[i], t)) contract(r, r->b->list.node[i]);
}

static void contract_rows(struct rows *r, struct turn t) {
  if (!has_contraction(r, t)) return;
  r->j = kir_loop(&r->d.b, KIR_LANE, "j", lin(r, size_of_length(r, t.length)));
  contract_lanes(r, t);
  kir_end(&r->d.b);
}

/* What the elements of this lane loop read: it is on its way while the contractions are computed. */
static void read_ahead(struct rows *r, struct turn t) {
  for (int i = 0; i < r->b->list.n; i++) {
    const struct node *n = r->b->list.node[i];
    for (int k = 0; n->op->kind == OP_ELEMENT && is_due(r, n, t) && k < n->n_in; k++)
      if (body_reads(r->b, n->in[k]) && !body_number(r->b, n->in[k])) read_once(r, n->in[k]);
  }
}

static void compute_row(struct rows *r, struct turn t) {
  struct kir_lin at[] = { r->g, lin(r, r->j) };
  for (int i = 0; i < r->b->list.n; i++) {
    struct node *n = r->b->list.node[i];
    if (n->op->kind != OP_ELEMENT || !is_due(r, n, t)) continue;
    r->value[i] = kir_cast(&r->d.b, (weft_dtype)n->dtype, compute(r, n));
    if (r->local[i] >= 0) kir_store(&r->d.b, r->local[i], at, KIR_SET, r->value[i]);
  }
}

static void store_results(struct rows *r, struct turn t) {
  struct node *const *target = r->b->target;
  const struct loop *l = r->b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    struct kir_lin at[] = { kir_lin_sub(r->d.k, number(r, 1), lin(r, r->p)), r->g, lin(r, r->j) };
    if (is_due(r, target[k], t)) kir_store(&r->d.b, r->carry_local[k], at, KIR_SET, value_of(r, target[k]));
  }
  for (int k = 0; k < l->n_all; k++)
    if (r->all[k] >= 0 && is_due(r, target[l->n_carry + k], t)) store(r, r->all[k], value_of(r, target[l->n_carry + k]));
}

/* Every row of the group, if there are several. */
static void open_group(struct rows *r) {
  r->g = r->group > 1 ? lin(r, kir_loop(&r->d.b, KIR_SERIAL, "g", number(r, r->group))) : number(r, 0);
}
static void close_group(struct rows *r) {
  if (r->group > 1) kir_end(&r->d.b);
}

static void take_turn(struct rows *r, struct turn t) {
  if (!has_work(r, t)) return;
  r->now = t.phase;
  if (!r->is_for_device) contract_rows(r, t);
  open_group(r);
  r->j = kir_loop(&r->d.b, KIR_LANE, "j", lin(r, size_of_length(r, t.length)));
  for (int i = 0; i < r->n_streams; i++) r->loaded[i] = -1;
  if (r->is_for_device && has_contraction(r, t)) read_ahead(r, t), contract_lanes(r, t), r->g = number(r, 0);
  compute_row(r, t);
  store_results(r, t);
  kir_end(&r->d.b);
  close_group(r);
}

/* Sizes in the order T, B.., H of the carries, of the streams, and of everything else that is computed. */
static void declare(struct rows *r) {
  static const char *const names[] = { "B", "B1", "B2", "B3", "B4", "B5", "B6", "B7" };
  const struct body *b = r->b;
  r->size_t_ = draft_size(&r->d, "T", b->steps);
  int last = r->lead.n_live - 1;
  for (int a = 0; a <= last; a++) r->lead.size[a] = draft_size(&r->d, names[a], a < last ? r->lead.extent[a] : r->n_rows);
  for (int k = 0; k < b->loop->n_carry; k++) size_of_length(r, last_dim(b->target[k]));
  for (int i = 0; i < r->n_streams; i++) {
    struct row_stream *s = &r->stream[i];
    struct reach x = reach_of(r, s);
    if (last >= 0) x.offset += r->first_row * s->lead[last];
    s->buf = draft_buffer(&r->d, NULL, s->is_written ? KIR_OUT : KIR_IN, s->dtype, &x);
  }
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (is_computed(n)) size_of_length(r, last_dim(n));
    if (n->op->kind == OP_CONTRACT) size_of_length(r, last_dim(n->in[0]));
  }
}

static void open_locals(struct rows *r) {
  const struct body *b = r->b;
  for (int k = 0; k < b->loop->n_carry; k++) {
    const struct node *x = b->target[k];
    struct kir_lin dims[] = { number(r, 2), number(r, r->group), lin(r, size_of_length(r, last_dim(x))) };
    char name[] = { 'h', (char)('0' + k), 0 };
    r->carry_local[k] = kir_local(&r->d.b, name, kir_register_of((weft_dtype)x->dtype), 3, dims);
  }
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    r->local[i] = -1;
    bool is_whole = n->op->kind == OP_CONTRACT && !r->is_for_device;
    if (!(is_computed(n) ? is_whole || is_contracted(r, n) || used_later(r, n) : is_copied(r, n))) continue;
    struct kir_lin dims[] = { number(r, r->group), lin(r, size_of_length(r, last_dim(n))) };
    r->local[i] = kir_local(&r->d.b, "row", kir_register_of((weft_dtype)n->dtype), 2, dims);
  }
}

/* On a device: matrices, as long as there is room for them beside the rows; each lane brings what it will read. */
static void open_matrices(struct rows *r) {
  int64_t room = MATRIX_BYTES;
  for (int i = 0; i < r->n_streams; i++) {
    const struct row_stream *s = &r->stream[i];
    int64_t bytes = s->length * s->inner_length * (int64_t)weft_dtype_bytes(kir_register_of(s->dtype));
    if (!r->is_for_device || !s->inner_length || s->time || bytes > room || s->length == 0) continue;
    struct kir_lin dims[] = { lin(r, size_of_length(r, s->inner_length)), lin(r, size_of_length(r, s->length)) };
    int copy = kir_local(&r->d.b, "m", kir_register_of(s->dtype), 2, dims);
    room -= bytes;
    r->j = kir_loop(&r->d.b, KIR_LANE, "j", dims[1]);
    int k = kir_loop(&r->d.b, KIR_SERIAL, "k", dims[0]);
    kir_store(&r->d.b, copy, (struct kir_lin[]){ lin(r, k), lin(r, r->j) }, KIR_SET, load(r, i, k));
    kir_end(&r->d.b);
    kir_end(&r->d.b);
    r->matrix[i] = copy;
  }
}

static int open_lanes(struct rows *r, int carry) {
  return r->j = kir_loop(&r->d.b, KIR_LANE, "j", lin(r, size_of_length(r, last_dim(r->b->target[carry]))));
}

static void begin_carry(struct rows *r, int k) {
  open_group(r);
  struct kir_lin at[] = { number(r, 0), r->g, lin(r, open_lanes(r, k)) };
  const struct node *scalar = scalar_of(r->b->in_node[r->b->loop->n_seq + k]);
  kir_store(&r->d.b, r->carry_local[k], at, KIR_SET, scalar ? draft_number(&r->d, scalar) : load(r, r->init[k], 0));
  kir_end(&r->d.b);
  close_group(r);
}

static void end_carry(struct rows *r, int k) {
  if (r->last[k] < 0) return;
  open_group(r);
  struct kir_lin at[] = { lin(r, r->p), r->g, lin(r, open_lanes(r, k)) };
  store(r, r->last[k], kir_load(&r->d.b, r->carry_local[k], at));
  kir_end(&r->d.b);
  close_group(r);
}

/* Rows of sequences that are contracted, all of them at the beginning of a step: they are read in lanes, so that those of the
 * next step are fetched, and not element by element when they are waited for. */
static void copy_row(struct rows *r, const struct node *x) {
  r->j = kir_loop(&r->d.b, KIR_LANE, "j", lin(r, size_of_length(r, last_dim(x))));
  for (int g = 0; g < r->group; g++) {
    r->g = number(r, g);
    struct kir_lin at[] = { r->g, lin(r, r->j) };
    kir_store(&r->d.b, r->local[x->slot], at, KIR_SET, load(r, read_stream(r, x, false), 0));
  }
  kir_end(&r->d.b);
}

static void copy_rows(struct rows *r) {
  for (int i = 0; i < r->b->list.n; i++)
    if (!is_computed(r->b->list.node[i]) && r->local[i] >= 0) copy_row(r, r->b->list.node[i]);
}

static void nest(struct rows *r) {
  static const char *const names[] = { "b", "b1", "b2", "b3", "b4", "b5", "b6", "b7" };
  struct kir_builder *b = &r->d.b;
  int n_carry = r->b->loop->n_carry, last = r->lead.n_live - 1,
      groups = r->group > 1 ? draft_size(&r->d, "Q", r->n_rows / r->group) : -1;
  for (int a = 0; a <= last; a++)
    r->lead.var[a] = kir_loop(b, KIR_PAR, names[a], lin(r, a == last && groups >= 0 ? groups : r->lead.size[a]));
  for (int i = 0; i < DRAFT_BUFFERS; i++) r->matrix[i] = r->loaded[i] = -1;
  open_locals(r);
  open_matrices(r);
  for (int k = 0; k < n_carry; k++) begin_carry(r, k);
  r->t = kir_loop(b, KIR_SERIAL, "t", lin(r, r->size_t_));
  r->p = kir_carry(b, "p", kir_lit_int(r->d.k, WEFT_I64, 0));
  copy_rows(r);
  for (int f = 0; f < r->n_phases; f++)
    for (int i = 0; i < r->n_lengths; i++) take_turn(r, (struct turn){ f, r->length[i] });
  int other = kir_op2(b, KIR_SUB, kir_lit_int(r->d.k, WEFT_I64, 1), r->p);
  kir_next(b, 1, &r->p, &other);
  kir_end(b);
  for (int k = 0; k < n_carry; k++) end_carry(r, k);
  for (int a = 0; a < r->lead.n_live; a++) kir_end(b);
}

static bool find_lead(struct rows *r, const struct node *shape) { /* time and two axes of a matrix are more */
  for (int k = 0; k < shape->rank - 1; k++) {
    if (shape->dims[k] == 1) continue;
    if (r->lead.n_live == AXES - 3) return false;
    r->lead.live[r->lead.n_live] = r->lead.n_live;
    r->lead.extent[r->lead.n_live++] = shape->dims[k];
  }
  return true;
}

/* Rows from the first on. *done = false: too much for one kernel, which the first one finds. */
static bool write_kernel(struct rows *r, int64_t first, int64_t n, int group, bool *done) {
  r->first_row = first, r->n_rows = n, r->group = group, r->n_lengths = 0;
  if (!draft_begin(&r->d, r->b->w, "scan_rows")) return false;
  declare(r);
  nest(r);
  if (r->d.is_full) return draft_drop(&r->d), *done = false, true;
  return draft_end(&r->d);
}

bool scan_rows(struct body *b, bool *done) {
  if (!rows_fit(b)) return true;
  const struct node *shape = b->in_node[b->loop->n_seq];
  struct rows *r = work_take(b->w, sizeof *r);
  int *by_slot = work_take(b->w, sizeof *by_slot * (size_t)(3 * b->list.n + 1));
  if (!r || !by_slot) return false;
  r->b = b;
  r->phase = by_slot, r->value = by_slot + b->list.n, r->local = by_slot + 2 * b->list.n;
  find_phases(r);
  if (!find_lead(r, shape) || !find_reads(r) || !find_results(r)) return !b->w->no_memory;
  r->is_for_device = work_is_for_device(b->w);
  int64_t n = r->lead.n_live ? r->lead.extent[r->lead.n_live - 1] : 1, in_groups = r->is_for_device ? 0 : n / GROUP * GROUP;
  *done = true;
  if (in_groups && !write_kernel(r, 0, in_groups, GROUP, done)) return false;
  return !*done || in_groups == n || write_kernel(r, in_groups, n - in_groups, 1, done);
}
