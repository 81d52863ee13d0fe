/* scan.c -- a loop as one kernel: lanes beside the time loop, carries in registers, sequences streamed.
 *
 * For bodies that are elementwise and in which every carry, output and computed value has the same shape, or is a number;
 * sequences and constants may be smaller. No lane ever needs another lane's value, so the time loop stands inside the lane
 * loop. Numbers beside lanes depend on numbers alone: they, and after how many steps until ends the loop, are found by a
 * kernel of their own, and what lanes need of them is computed again beside the lanes.
 *
 * On a device few lanes leave most of it without work, and each step costs what it computes. What depends on sequences alone, and
 * is not cheap, is computed before, of all steps at once, and read by the loop. */
#include <string.h>
#include "schedule/body.h"
#include "schedule/draft.h"

enum { MOST_RESULTS = 16 }; /* carries; stacked outputs */

struct lane_stream {                   /* something read or written in memory, with a stride for each axis and for time */
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
  struct lane_stream stream[DRAFT_BUFFERS];
  int n_streams;
  int *stream_of;                 /* by slot of a node that body_reads: its stream */
  int *value;                     /* by slot: what this step has computed */
  bool of_numbers;                /* the kernel of the numbers, not of the lanes */
  bool *is_needed;                /* by slot: computed by this kernel; carries: kept */
  bool *is_ahead;                 /* by slot: computed of all steps by a kernel before, and .. */
  int *ahead_store;               /* .. dense there, one step after the other */
  int init[MOST_RESULTS], all[MOST_RESULTS], last[MOST_RESULTS]; /* streams; -1: not wanted, or a number */
  const struct place *steps;      /* where the number of steps taken stands, or NULL */
  int length, count;              /* its buffer, or -1; that of the steps that are computed before, or -1 */
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
    case OP_LEAF: case OP_SIZE: case OP_VIEW: return true; /* of a view, whoever uses it is asked (reads_own_lane) */
    case OP_ELEMENT: return same_dims(n, shape) || node_count(n) == 1;
    case OP_IOTA: case OP_REDUCE: case OP_PREFIX: case OP_TAKE: case OP_PUT: case OP_SCATTER: case OP_CONTRACT: case OP_CONCAT:
    case OP_PAIR: case OP_PAD: case OP_IDENTITY: case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: case OP_LIBRARY:
      break;
  }
  return false;
}

/* What a lane carries or computes is used at that lane only: whoever uses x, an operation or a result, has no other's. What
 * stands in memory is read where it is, by any view. */
static bool reads_own_lane(const struct body *b, const struct node *x) {
  struct edge e = edge_of(x);
  if (e.base->op->kind == OP_LEAF && !body_is_carry(b, e.base)) return true;
  if (node_count(e.base) == 1) return e.aligned;
  if (!e.aligned || node_count(x) != node_count(e.base)) return false;
  for (int j = 0; j < e.base->rank; j++) if (e.base->dims[j] != 1 && e.map[j] != j) return false;
  return true;
}

/* The shape of the lanes: that of a carry, of one that is no number if there is one. */
static const struct node *shape_of(const struct body *b) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) if (node_count(b->in_node[l->n_seq + k]) != 1) return b->in_node[l->n_seq + k];
  return l->n_carry ? b->in_node[l->n_seq] : NULL;
}

static bool has_shape(const struct node *n, const struct node *shape) { return same_dims(n, shape) || node_count(n) == 1; }

static bool has_one_shape(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) if (!has_shape(b->in_node[l->n_seq + k], shape)) return false;
  for (int k = 0; k < l->n_carry + l->n_all; k++) if (!has_shape(b->target[k], shape)) return false;
  return true;
}

static bool fits(const struct body *b, const struct node *shape) {
  const struct loop *l = b->loop;
  if (l->n_carry > MOST_RESULTS || l->n_all > MOST_RESULTS || !has_one_shape(b, shape)) return false;
  if (l->until && node_count(b->target[b->n_targets - 1]) != 1) return false; /* lanes would end at different times */
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (!is_lane_local(n, shape)) return false;
    for (int k = 0; n->op->kind != OP_VIEW && k < n->n_in; k++) if (!reads_own_lane(b, n->in[k])) return false;
  }
  for (int k = 0; k < b->n_targets; k++) if (!reads_own_lane(b, b->target[k])) return false;
  return true;
}

/* ---- what a kernel computes ---- */

static bool is_ours(const struct scanning *s, const struct node *result) { return (node_count(result) == 1) == s->of_numbers; }

static int carry_of(const struct body *b, const struct node *x) { return local_of(x)->leaf - b->loop->n_seq; }

static bool need(struct scanning *s, const struct node *x) {
  if (s->is_needed[x->slot]) return false;
  return s->is_needed[x->slot] = true;
}

/* Everything below what is needed already; whether that needs another carry, whose next is needed from then on. */
static bool need_below(struct scanning *s) {
  const struct body *b = s->b;
  bool changes = false;
  for (int i = b->list.n - 1; i >= 0; i--) {
    const struct node *n = b->list.node[i];
    for (int k = 0; s->is_needed[i] && !s->is_ahead[i] && k < n->n_in; k++) need(s, n->in[k]);
    if (s->is_needed[i] && body_is_carry(b, n)) changes |= need(s, b->target[carry_of(b, n)]);
  }
  return changes;
}

static void find_needed(struct scanning *s) {
  const struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int i = 0; i < b->list.n; i++) s->is_needed[i] = false;
  for (int k = 0; k < l->n_carry; k++) if (b->last[k] && is_ours(s, b->target[k])) need(s, b->target[k]);
  for (int k = 0; k < l->n_all; k++) if (b->all[k] && is_ours(s, b->target[l->n_carry + k])) need(s, b->target[l->n_carry + k]);
  if (l->until && s->of_numbers) need(s, b->target[b->n_targets - 1]);
  while (need_below(s)) {}
}

/* Carries are needed if somebody reads them, or wants their last value. */
static bool carries(const struct scanning *s, int k) {
  const struct body *b = s->b;
  if (b->last[k] && is_ours(s, b->target[k])) return true;
  for (int i = 0; i < b->list.n; i++)
    if (s->is_needed[i] && body_is_carry(b, b->list.node[i]) && carry_of(b, b->list.node[i]) == k) return true;
  return false;
}

/* ---- streams: all but -1 of these; NONE: too many ---- */

enum { NONE = -2 };

static bool same_stream(const struct lane_stream *a, const struct lane_stream *b) {
  return a->store == b->store && a->offset == b->offset && a->time == b->time && a->dtype == b->dtype &&
         a->is_written == b->is_written && !memcmp(a->stride, b->stride, sizeof a->stride);
}

static int add_stream(struct scanning *s, const struct node *n, const struct moving *m, bool is_written) {
  struct lane_stream x = { .store = m->at.store, .offset = m->at.offset, .time = m->time, .dtype = (weft_dtype)n->dtype,
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

static struct moving ahead_place(const struct scanning *s, const struct node *n) {
  struct moving m = { .time = node_count(n) };
  place_dense(n, s->ahead_store[n->slot], &m.at);
  return m;
}

static bool read_stream(struct scanning *s, const struct node *x) {
  struct moving m;
  const struct node *base = edge_of(x).base;
  if (s->is_ahead[base->slot]) {
    m = ahead_place(s, base);
    return (s->stream_of[base->slot] = add_stream(s, base, &m, false)) != NONE;
  }
  if (!body_reads(s->b, x)) return true;
  return body_place(s->b, x, &m) && (s->stream_of[x->slot] = add_stream(s, x, &m, false)) != NONE;
}

static bool find_reads(struct scanning *s) {
  const struct body *b = s->b;
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    bool reads = s->is_needed[i] && !s->is_ahead[i] && n->op->kind != OP_VIEW;
    for (int k = 0; reads && k < n->n_in; k++) if (!read_stream(s, n->in[k])) return false;
  }
  for (int i = 0; i < b->n_targets; i++) if (s->is_needed[b->target[i]->slot] && !read_stream(s, b->target[i])) return false;
  return true;
}

static bool find_results(struct scanning *s) {
  const struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->in_node[l->n_seq + k];
    struct moving from = { b->in[l->n_seq + k], 0 };
    s->init[k] = scalar_of(x) || !carries(s, k) ? -1 : add_stream(s, x, &from, false);
    if (s->init[k] == NONE) return false;
  }
  for (int k = 0; k < l->n_all; k++) {
    bool is_wanted = b->all[k] && is_ours(s, b->target[l->n_carry + k]);
    struct moving to = is_wanted ? body_stack(b, b->all[k]) : (struct moving){ 0 };
    s->all[k] = is_wanted ? add_stream(s, b->target[l->n_carry + k], &to, true) : -1;
    if (s->all[k] == NONE) return false;
  }
  for (int k = 0; k < l->n_carry; k++) {
    bool is_wanted = b->last[k] && is_ours(s, b->target[k]);
    struct moving to = is_wanted ? (struct moving){ *b->last[k], 0 } : (struct moving){ 0 };
    s->last[k] = is_wanted ? add_stream(s, b->target[k], &to, true) : -1;
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

static bool writes_rows(const struct scanning *s) {
  for (int i = 0; i < s->n_streams; i++) if (s->stream[i].is_written && s->stream[i].time) return true;
  return false;
}

static void declare(struct scanning *s) {
  static const char *const names[] = { "A", "B", "C", "D", "E", "F", "G", "H" };
  struct axes *x = &s->axes;
  bool is_counted = s->b->steps == STEPS_AT_RUN;
  s->size_t_ = is_counted ? -1 : draft_size(&s->d, "T", s->b->steps); /* counted: then nothing moves with time */
  for (int i = 0; i < x->n_live; i++)
    x->size[x->live[i]] = draft_size(&s->d, x->n_live == 1 ? "N" : names[i], x->extent[x->live[i]]);
  int rows = !is_counted && s->b->rows < s->b->steps && writes_rows(s) ? draft_size(&s->d, "R", s->b->rows) : s->size_t_;
  for (int i = 0; i < s->n_streams; i++) {
    struct lane_stream *m = &s->stream[i];
    struct reach r = { .store = m->store, .offset = m->offset };
    if (m->time) reach_along(&r, lin(s, m->is_written ? rows : s->size_t_), m->time);
    axes_reach(x, &s->d, m->stride, &r);
    m->buf = draft_buffer(&s->d, NULL, m->is_written ? KIR_OUT : KIR_IN, m->dtype, &r);
  }
  s->count = is_counted ? body_count(s->b, &s->d) : -1;
  const struct place *n = s->steps;
  enum kir_buf_kind kind = s->of_numbers ? KIR_OUT : KIR_IN;
  s->length = n ? draft_buffer(&s->d, "n", kind, WEFT_I64, &(struct reach){ .store = n->store, .offset = n->offset }) : -1;
}

static void subscripts(struct scanning *s, const struct lane_stream *x, struct kir_lin at[]) {
  int rank = 0;
  if (x->time) at[rank++] = lin(s, s->t);
  axes_subscripts(&s->axes, &s->d, x->stride, rank, at);
}

static int load(struct scanning *s, struct lane_stream *x) {
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
  if (body_is_carry(s->b, base)) return carry[local_of(base)->leaf - s->b->loop->n_seq];
  if (number) return draft_number(&s->d, number);
  if (s->is_ahead[base->slot]) return load(s, &s->stream[s->stream_of[base->slot]]);
  return base->op == &op_value ? load(s, &s->stream[s->stream_of[x->slot]]) : s->value[base->slot];
}

static void compute(struct scanning *s, struct node *n, const int carry[]) {
  int in[ELEMENT_MOST] = { 0 };
  if (n->op->kind == OP_SIZE) s->value[n->slot] = kir_lit_int(s->d.k, WEFT_I64, ((const struct size_attr *)n->attr)->size);
  if (n->op->kind != OP_ELEMENT) return;
  for (int k = 0; k < n->n_in; k++) in[k] = value_of(s, n->in[k], carry);
  s->value[n->slot] = kir_cast(&s->d.b, (weft_dtype)n->dtype, n->op->lower(&s->d.b, n, in));
}

/* What one step computes; returns until's value, or -1. */
static int step(struct scanning *s, const int carry[], int next[]) {
  const struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int i = 0; i < b->list.n; i++) if (s->is_needed[i] && !s->is_ahead[i]) compute(s, b->list.node[i], carry);
  for (int k = 0; k < l->n_all; k++) if (s->all[k] >= 0) store(s, s->all[k], value_of(s, b->target[l->n_carry + k], carry));
  for (int k = 0; k < l->n_carry; k++) next[k] = carries(s, k) ? value_of(s, b->target[k], carry) : -1;
  return l->until && s->of_numbers ? value_of(s, b->target[b->n_targets - 1], carry) : -1;
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
static int first_carry(struct scanning *s, int k) {
  if (s->init[k] >= 0) return load(s, &s->stream[s->init[k]]);
  return draft_number(&s->d, scalar_of(s->b->in_node[s->b->loop->n_seq + k]));
}

static void first_carries(struct scanning *s, int init[]) {
  for (int k = 0; k < s->b->loop->n_carry; k++) init[k] = carries(s, k) ? first_carry(s, k) : -1;
  for (int i = 0; i < s->n_streams; i++) s->stream[i].value = -1;
}

/* All of them at once, but for those nobody needs. stop: until's value, or -1. */
static void next_carries(struct scanning *s, const int carry[], const int next[], int n, int stop) {
  int from[MOST_RESULTS + 1], to[MOST_RESULTS + 1], count = 0;
  for (int k = 0; k < n; k++)
    if (next[k] >= 0) from[count] = carry[k], to[count++] = next[k];
  draft_next(&s->d, count, from, to, stop);
}

static void nest(struct scanning *s) {
  const struct loop *l = s->b->loop;
  struct kir_builder *b = &s->d.b;
  int init[MOST_RESULTS], carry[MOST_RESULTS + 1], next[MOST_RESULTS + 1], n = l->n_carry;
  bool counts = s->length >= 0 && s->of_numbers;
  if (s->count >= 0) s->size_t_ = kir_cast(b, WEFT_I64, kir_load(b, s->count, NULL));
  int taken = s->length >= 0 && !counts ? kir_load(b, s->length, NULL) : s->size_t_;
  open_axes(s);
  first_carries(s, init);
  s->t = kir_loop(b, KIR_SERIAL, "t", lin(s, taken));
  for (int k = 0; k < n; k++) carry[k] = init[k] >= 0 ? kir_carry(b, NULL, init[k]) : -1;
  if (counts) carry[n] = kir_carry(b, "steps", kir_lit_int(s->d.k, WEFT_I64, 0));
  int stop = step(s, carry, next);
  if (counts) next[n] = kir_op2(b, KIR_ADD, carry[n], kir_lit_int(s->d.k, WEFT_I64, 1));
  next_carries(s, carry, next, n + counts, stop);
  kir_end(b);
  for (int k = 0; k < n; k++) if (s->last[k] >= 0) store(s, s->last[k], carry[k]);
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

/* *done = false: too much for one kernel. */
static bool write_kernel(struct scanning *s, bool *done) {
  *done = false;
  s->n_streams = s->axes.n_live = 0;
  find_needed(s);
  if (!find_axes(s) || !find_reads(s) || !find_results(s)) return !s->b->w->no_memory;
  axes_merge(&s->axes, may_merge, s);
  if (!draft_begin(&s->d, s->b->w, s->of_numbers && s->steps != s->b->length ? "scan_numbers" : "scan")) return false;
  declare(s);
  nest(s);
  if (s->d.is_full) return draft_drop(&s->d), true;
  *done = true;
  return draft_end(&s->d);
}

/* ---- what is computed ahead ---- */

/* A kernel more and an array of all steps pay where few lanes leave a GPU without work, and not for a few steps; MOST_AHEAD
 * arrays of 256 MiB are 1 GiB that the user did not ask for. The bounds are round numbers, not measured closely. */
enum { LEAST_STEPS = 32, MOST_LANES = 1 << 16, MOST_AHEAD = 4 };
#define MOST_AHEAD_BYTES ((double)(1 << 28))

enum moves_with { WITH_NOTHING, WITH_SEQUENCES, WITH_CARRIES };
struct origin_of { uint8_t moves; bool costs; }; /* what a value depends on; something on the way is not cheap */

static struct origin_of origin_of(struct body *b, const struct node *n, const struct origin_of of[]) {
  struct origin_of x = { .costs = n->op->kind == OP_ELEMENT && !n->op->is_cheap };
  struct moving m;
  if (body_is_carry(b, n)) x.moves = WITH_CARRIES;
  else if (n->op->kind == OP_LEAF && body_reads(b, n) && body_place(b, n, &m) && m.time) x.moves = WITH_SEQUENCES;
  for (int k = 0; k < n->n_in; k++) {
    const struct origin_of *in = &of[n->in[k]->slot];
    if (in->moves > x.moves) x.moves = in->moves;
    x.costs |= in->costs;
  }
  return x;
}

static bool may_be_ahead(const struct scanning *s, const struct node *n, struct origin_of x) {
  double bytes = (double)s->b->steps * (double)node_count(n) * (double)weft_dtype_bytes((weft_dtype)n->dtype);
  return n->op->kind == OP_ELEMENT && x.moves == WITH_SEQUENCES && x.costs && same_dims(n, s->shape) && bytes <= MOST_AHEAD_BYTES;
}

/* Those that something which depends on carries reads; how many. */
static int find_ahead(struct scanning *s, struct origin_of of[]) {
  struct body *b = s->b;
  int n_ahead = 0;
  for (int i = 0; i < b->list.n; i++) of[i] = origin_of(b, b->list.node[i], of);
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    for (int k = 0; of[i].moves == WITH_CARRIES && n->op->kind == OP_ELEMENT && k < n->n_in && n_ahead < MOST_AHEAD; k++) {
      const struct node *x = edge_of(n->in[k]).base;
      if (s->is_ahead[x->slot] || !may_be_ahead(s, x, of[x->slot])) continue;
      s->is_ahead[x->slot] = true;
      n_ahead++;
    }
  }
  return n_ahead;
}

/* Everything below these, by a kernel over steps and lanes. */
static void nest_ahead(struct scanning *s, const int stream[]) {
  struct kir_builder *b = &s->d.b;
  s->t = kir_loop(b, KIR_PAR, "t", lin(s, s->size_t_));
  open_axes(s);
  for (int i = 0; i < s->b->list.n; i++) {
    if (!s->is_needed[i]) continue;
    compute(s, s->b->list.node[i], NULL);
    if (stream[i] >= 0) store(s, stream[i], s->value[i]);
  }
  for (int i = 0; i <= s->axes.n_live; i++) kir_end(b);
}

static bool write_ahead(struct scanning *s, const bool wanted[], int stream[]) {
  const struct body *b = s->b;
  bool fits = true;
  s->n_streams = s->axes.n_live = 0;
  for (int i = 0; i < b->list.n; i++) s->is_needed[i] = wanted[i], s->is_ahead[i] = false, stream[i] = -1;
  while (need_below(s)) {}
  fits = find_axes(s) && find_reads(s);
  for (int i = 0; fits && i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    if (!wanted[i]) continue;
    s->ahead_store[i] = store_new(b->w, b->steps * node_count(n) * (int64_t)weft_dtype_bytes((weft_dtype)n->dtype));
    struct moving to = ahead_place(s, n);
    fits = !b->w->no_memory && (stream[i] = add_stream(s, n, &to, true)) != NONE;
  }
  if (!fits) return !b->w->no_memory;
  axes_merge(&s->axes, may_merge, s);
  if (!draft_begin(&s->d, b->w, "ahead")) return false;
  declare(s);
  nest_ahead(s, stream);
  if (s->d.is_full) return draft_drop(&s->d), true;
  for (int i = 0; i < b->list.n; i++) s->is_ahead[i] = wanted[i];
  return draft_end(&s->d);
}

/* false: failed. */
static bool compute_ahead(struct scanning *s) {
  const struct body *b = s->b;
  size_t n = (size_t)b->list.n + 1;
  if (!work_is_for_device(b->w) || b->loop->until || b->length || b->steps < LEAST_STEPS || node_count(s->shape) > MOST_LANES)
    return true;
  struct origin_of *of = work_take(b->w, n * sizeof *of);
  bool *wanted = work_take(b->w, n);
  int *stream = work_take(b->w, n * sizeof *stream);
  if (!of || !wanted || !stream) return false;
  if (!find_ahead(s, of)) return true;
  memcpy(wanted, s->is_ahead, n);
  return write_ahead(s, wanted, stream);
}

/* A place for the number of steps that until leaves to lanes, if nobody else wants it. */
static bool find_steps(struct scanning *s, bool has_lanes) {
  s->steps = s->b->length;
  if (s->steps || !s->b->loop->until || !has_lanes) return true;
  struct place *p = work_take(s->b->w, sizeof *p);
  if (!p) return false;
  *p = (struct place){ .store = store_new(s->b->w, sizeof(int64_t)) };
  s->steps = p;
  return !s->b->w->no_memory;
}

static bool has_results_of(const struct body *b, bool numbers) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) if (b->last[k] && (node_count(b->target[k]) == 1) == numbers) return true;
  for (int k = 0; k < l->n_all; k++) if (b->all[k] && (node_count(b->target[l->n_carry + k]) == 1) == numbers) return true;
  return false;
}

bool scan(struct body *b, bool *done) {
  const struct node *shape = shape_of(b), one = { .rank = 0 };
  if (!shape || !fits(b, shape)) return true;
  bool has_lanes = node_count(shape) != 1, has_numbers = !has_lanes || b->loop->until || b->length || has_results_of(b, true);
  struct scanning *s = work_take(b->w, sizeof *s);
  int *by_slot = work_take(b->w, sizeof *by_slot * (size_t)(3 * b->list.n + 1));
  bool *is_needed = work_take(b->w, 2 * ((size_t)b->list.n + 1));
  if (!s || !by_slot || !is_needed) return false;
  *s = (struct scanning){ .b = b, .shape = has_lanes ? &one : shape, .stream_of = by_slot, .value = by_slot + b->list.n,
                          .ahead_store = by_slot + 2 * b->list.n, .is_needed = is_needed, .is_ahead = is_needed + b->list.n + 1,
                          .of_numbers = true };
  if (!find_steps(s, has_lanes)) return false;
  if (has_numbers && !write_kernel(s, done)) return false;
  if (has_numbers && !*done) return true;
  if (!has_lanes || !has_results_of(b, false)) return *done = true;
  s->shape = shape, s->of_numbers = false;
  return compute_ahead(s) && write_kernel(s, done);
}
