/* scan.c -- a loop as one kernel: lanes beside the time loop, carries in registers, sequences streamed.
 *
 * For bodies that are elementwise and in which every carry, output and computed value has the same shape; sequences and
 * constants may be smaller. No lane ever needs another lane's value, so the time loop stands inside the lane loop. */
#include <string.h>
#include "schedule/body.h"
#include "schedule/draft.h"

enum { MOST_RESULTS = 16 }; /* carries; stacked outputs */

struct stream {                   /* something read or written in memory, with a stride for each axis and for time */
  int store;
  int64_t offset, stride[AXES], time;
  weft_dtype dtype;
  bool is_written;
  int buf, value;                 /* value -1: not loaded where we are */
};

struct scanning {
  struct body *b;
  const struct node *shape;       /* one node of the common shape */
  struct axes axes;               /* those of the shape that are not 1 */
  struct stream stream[DRAFT_BUFFERS];
  int n_streams;
  int *stream_of;                 /* by slot of a node that body_reads: its stream */
  int *value;                     /* by slot: what this step has computed */
  int init[MOST_RESULTS], all[MOST_RESULTS], last[MOST_RESULTS]; /* streams; -1: not wanted, or a number */
  int length;                     /* the buffer of the number of steps taken, or -1 */
  struct draft d;
  int size_t_, t;
};

/* ---- whether the body allows it ---- */

static bool same_dims(const struct node *a, const struct node *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * a->rank);
}

static bool is_lane_local(const struct node *n, const struct node *shape) {
  if (n->n_in > 3) return false;
  switch (n->op->kind) {
    case OP_LEAF: case OP_SIZE: return true;
    case OP_VIEW: return edge_of(n).aligned || edge_of(n).base->op->kind == OP_LEAF;
    case OP_ELEMENT: return same_dims(n, shape) || (node_count(n) == 1 && node_count(shape) == 1);
    default: return false;
  }
}

/* A carry is read at its own lane only. */
static bool reads_own_lane(const struct body *b, const struct node *x) {
  struct edge e = edge_of(x);
  if (!body_is_carry(b, e.base)) return true;
  if (!e.aligned || node_count(x) != node_count(e.base)) return false;
  for (int j = 0; j < e.base->rank; j++) if (e.base->dims[j] != 1 && e.map[j] != j) return false;
  return true;
}

static bool has_one_shape(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) if (!same_dims(b->in_node[l->n_seq + k], shape)) return false;
  for (int k = 0; k < l->n_carry + l->n_all; k++) if (!same_dims(b->target[k], shape)) return false;
  return true;
}

static bool fits(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  if (l->n_carry > MOST_RESULTS || l->n_all > MOST_RESULTS || !has_one_shape(b, shape)) return false;
  if ((l->until || b->length) && node_count(shape) != 1) return false; /* lanes would end at different times */
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (!is_lane_local(n, shape)) return false;
    for (int k = 0; n->op->kind != OP_VIEW && k < n->n_in; k++) if (!reads_own_lane(b, n->in[k])) return false;
  }
  return true;
}

/* ---- streams: all but -1 of these; NONE: too many ---- */

enum { NONE = -2 };

static bool same_stream(const struct stream *a, const struct stream *b) {
  return a->store == b->store && a->offset == b->offset && a->time == b->time && a->dtype == b->dtype &&
         a->is_written == b->is_written && !memcmp(a->stride, b->stride, sizeof a->stride);
}

static int add_stream(struct scanning *s, const struct node *n, const struct moving *m, bool is_written) {
  struct stream x = { .store = m->at.store, .offset = m->at.offset, .time = m->time, .dtype = (weft_dtype)n->dtype,
                      .is_written = is_written, .value = -1 };
  int axis = s->axes.n_live, d = s->shape->rank - n->rank; /* aligned on the right */
  for (int k = s->shape->rank - 1; k >= 0; k--) {
    if (s->shape->dims[k] == 1) continue;
    axis--;
    if (k >= d && n->dims[k - d] != 1) x.stride[axis] = m->at.stride[k - d];
  }
  for (int i = 0; i < s->n_streams; i++) if (same_stream(&s->stream[i], &x)) return i;
  if (s->n_streams == DRAFT_BUFFERS) return NONE;
  s->stream[s->n_streams] = x;
  return s->n_streams++;
}

static bool read_stream(struct scanning *s, const struct node *x) {
  struct moving m;
  if (!body_reads(s->b, x)) return true;
  return body_place(s->b, x, &m) && (s->stream_of[x->slot] = add_stream(s, x, &m, false)) != NONE;
}

static bool find_reads(struct scanning *s) {
  const struct body *b = s->b;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    for (int k = 0; n->op->kind != OP_VIEW && k < n->n_in; k++) if (!read_stream(s, n->in[k])) return false;
  }
  for (int i = 0; i < b->n_targets; i++) if (!read_stream(s, b->target[i])) return false;
  return true;
}

static bool find_results(struct scanning *s) {
  const struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->in_node[l->n_seq + k];
    struct moving from = { b->in[l->n_seq + k], 0 };
    s->init[k] = scalar_of(x) ? -1 : add_stream(s, x, &from, false);
    if (s->init[k] == NONE) return false;
  }
  for (int k = 0; k < l->n_all; k++) {
    struct moving to = b->all[k] ? body_stack(b, b->all[k]) : (struct moving){ 0 };
    s->all[k] = b->all[k] ? add_stream(s, b->target[l->n_carry + k], &to, true) : -1;
    if (s->all[k] == NONE) return false;
  }
  for (int k = 0; k < l->n_carry; k++) {
    struct moving to = b->last[k] ? (struct moving){ *b->last[k], 0 } : (struct moving){ 0 };
    s->last[k] = b->last[k] ? add_stream(s, b->target[k], &to, true) : -1;
    if (s->last[k] == NONE) return false;
  }
  return true;
}

static bool may_merge(void *scanning, int a, int b) {
  const struct scanning *s = scanning;
  for (int i = 0; i < s->n_streams; i++)
    if (s->stream[i].stride[a] != s->stream[i].stride[b] * s->axes.extent[b]) return false;
  return true;
}

/* ---- the kernel ---- */

static struct kir_lin lin(struct scanning *s, int v) { return draft_lin(&s->d, v); }

static void declare(struct scanning *s) {
  static const char *const names[] = { "A", "B", "C", "D", "E", "F", "G", "H" };
  struct axes *x = &s->axes;
  s->size_t_ = draft_size(&s->d, "T", s->b->steps);
  for (int i = 0; i < x->n_live; i++)
    x->size[x->live[i]] = draft_size(&s->d, x->n_live == 1 ? "N" : names[i], x->extent[x->live[i]]);
  for (int i = 0; i < s->n_streams; i++) {
    struct stream *m = &s->stream[i];
    struct reach r = { .store = m->store, .offset = m->offset };
    if (m->time) reach_along(&r, lin(s, s->size_t_), m->time);
    axes_reach(x, &s->d, m->stride, &r);
    m->buf = draft_buffer(&s->d, NULL, m->is_written ? KIR_OUT : KIR_IN, m->dtype, &r);
  }
  const struct place *n = s->b->length;
  s->length = n ? draft_buffer(&s->d, "n", KIR_OUT, WEFT_I64, &(struct reach){ .store = n->store, .offset = n->offset }) : -1;
}

static void subscripts(struct scanning *s, const struct stream *x, struct kir_lin at[]) {
  int rank = 0;
  if (x->time) at[rank++] = lin(s, s->t);
  axes_subscripts(&s->axes, &s->d, x->stride, rank, at);
}

static int load(struct scanning *s, struct stream *x) {
  struct kir_lin at[AXES + 1];
  if (x->value >= 0) return x->value;
  subscripts(s, x, at);
  return x->value = kir_load(&s->d.b, x->buf, at);
}

static void store(struct scanning *s, int stream, int value) {
  struct kir_lin at[AXES + 1];
  if (stream < 0) return;
  subscripts(s, &s->stream[stream], at);
  kir_store(&s->d.b, s->stream[stream].buf, at, KIR_SET, value);
}

static int value_of(struct scanning *s, const struct node *x, const int carry[]) {
  const struct node *base = edge_of(x).base, *number = body_number(s->b, x);
  if (body_is_carry(s->b, base)) return carry[(int)base->serial - s->b->loop->n_seq];
  if (number) return draft_number(&s->d, number);
  return base->op == &op_value ? load(s, &s->stream[s->stream_of[x->slot]]) : s->value[base->slot];
}

static void compute(struct scanning *s, struct node *n, const int carry[]) {
  int in[3] = { 0 };
  if (n->op->kind == OP_SIZE) s->value[n->slot] = kir_lit_int(s->d.k, WEFT_I64, ((const struct size_attr *)n->attr)->size);
  if (n->op->kind != OP_ELEMENT) return;
  for (int k = 0; k < n->n_in; k++) in[k] = value_of(s, n->in[k], carry);
  s->value[n->slot] = kir_cast(&s->d.b, (weft_dtype)n->dtype, n->op->lower(&s->d.b, n, in));
}

/* What one step computes; returns until's value, or -1. */
static int step(struct scanning *s, const int carry[], int next[]) {
  const struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int i = 0; i < b->list.n; i++) compute(s, b->list.node[i], carry);
  for (int k = 0; k < l->n_all; k++) if (s->all[k] >= 0) store(s, s->all[k], value_of(s, b->target[l->n_carry + k], carry));
  for (int k = 0; k < l->n_carry; k++) next[k] = value_of(s, b->target[k], carry);
  return l->until ? value_of(s, b->target[b->n_targets - 1], carry) : -1;
}

static void open_axes(struct scanning *s) {
  static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
  struct axes *x = &s->axes;
  for (int i = 0; i < x->n_live; i++) {
    enum kir_kind kind = i == x->n_live - 1 ? KIR_LANE : KIR_PAR;
    x->var[x->live[i]] = kir_loop(&s->d.b, kind, x->n_live == 1 ? "i" : names[i], lin(s, x->size[x->live[i]]));
  }
}

/* Before the time loop; what was loaded here is loaded again inside, where it may have moved on. */
static void first_carries(struct scanning *s, int init[]) {
  const struct loop *l = s->b->loop;
  for (int k = 0; k < l->n_carry; k++)
    init[k] = s->init[k] >= 0 ? load(s, &s->stream[s->init[k]]) : draft_number(&s->d, scalar_of(s->b->in_node[l->n_seq + k]));
  for (int i = 0; i < s->n_streams; i++) s->stream[i].value = -1;
}

static void nest(struct scanning *s) {
  const struct loop *l = s->b->loop;
  struct kir_builder *b = &s->d.b;
  int init[MOST_RESULTS], carry[MOST_RESULTS + 1], next[MOST_RESULTS + 1], n = l->n_carry;
  bool counts = s->length >= 0;
  open_axes(s);
  first_carries(s, init);
  s->t = kir_loop(b, KIR_SERIAL, "t", lin(s, s->size_t_));
  for (int k = 0; k < n; k++) carry[k] = kir_carry(b, NULL, init[k]);
  if (counts) carry[n] = kir_carry(b, "steps", kir_lit_int(s->d.k, WEFT_I64, 0));
  int stop = step(s, carry, next);
  if (counts) next[n] = kir_op2(b, KIR_ADD, carry[n], kir_lit_int(s->d.k, WEFT_I64, 1));
  kir_next(b, n + counts, carry, next);
  if (stop >= 0) kir_until(b, stop);
  kir_end(b);
  for (int k = 0; k < n; k++) store(s, s->last[k], carry[k]);
  if (counts) kir_store(b, s->length, NULL, KIR_SET, carry[n]);
  for (int i = 0; i < s->axes.n_live; i++) kir_end(b);
}

static bool find_axes(struct scanning *s) { /* time is one more */
  for (int k = 0; k < s->shape->rank; k++) {
    if (s->shape->dims[k] == 1) continue;
    if (s->axes.n_live == AXES - 1) return false;
    s->axes.live[s->axes.n_live] = s->axes.n_live;
    s->axes.extent[s->axes.n_live++] = s->shape->dims[k];
  }
  return true;
}

bool scan(struct body *b, bool *done) {
  const struct node *shape = b->loop->n_carry ? b->in_node[b->loop->n_seq] : NULL;
  if (!shape || !fits(b, shape)) return true;
  struct scanning *s = work_take(b->w, sizeof *s);
  int *by_slot = work_take(b->w, sizeof *by_slot * (size_t)(2 * b->list.n + 1));
  if (!s || !by_slot) return false;
  s->b = b;
  s->shape = shape;
  s->stream_of = by_slot;
  s->value = by_slot + b->list.n;
  if (!find_axes(s) || !find_reads(s) || !find_results(s)) return !b->w->no_memory;
  axes_merge(&s->axes, may_merge, s);
  if (!draft_begin(&s->d, b->w, "scan")) return false;
  declare(s);
  nest(s);
  if (s->d.is_full) return draft_drop(&s->d), true; /* too much for one kernel */
  *done = true;
  return draft_end(&s->d);
}
