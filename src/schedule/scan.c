/* scan.c -- a loop as one kernel: lanes beside the time loop, carries in registers, sequences streamed.
 *
 * For bodies that are elementwise and in which every carry, output and computed value has the same shape; sequences and
 * constants may be smaller. No lane ever needs another lane's value, so the time loop stands inside the lane loop. */
#include <string.h>
#include "schedule/loop.h"

enum { MOST = 48 };

struct stream {                   /* something read or written in memory, with a stride for each axis and for time */
  int store;
  int64_t offset, stride[AXES], time;
  weft_dtype dtype;
  int buf, value;
};

struct scanning {
  struct body *b;
  struct work inner;              /* for views inside the body */
  const struct node *shape;       /* one node of the common shape */
  int n_axes, live[AXES], n_live;
  int64_t extent[AXES];
  struct stream stream[MOST];
  int n_streams;
  int *stream_of;                 /* by slot of a body node read as a whole: its stream, or -1 */
  int *value;                     /* by slot: -1 not computed */
  int init[MOST], next_of[MOST], all[MOST], last[MOST], length; /* streams; -1: none, or a scalar */
  struct kir_kernel *k;
  struct kir_builder kb;
  int size[AXES], size_t_, var[AXES], t;
  struct binding bind[MOST];
  struct argument arg[MOST];
  int arg_value[MOST];
  weft_dtype arg_dtype[MOST];
  int n_args, n_bufs;
};

/* ---- whether the body allows it ---- */

static bool same_dims(const struct node *a, const struct node *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof *a->dims * a->rank);
}

static bool is_lane_local(const struct body *b, const struct node *shape) {
  for (int i = 0; i < b->list.n; i++) {
    const struct node *n = b->list.node[i];
    switch (n->op->kind) {
      case OP_LEAF: case OP_VIEW: case OP_SIZE: break;
      case OP_ELEMENT: if (!same_dims(n, shape) && !n->is_floating && node_count(n) != 1) return false; break;
      default: return false;
    }
    if (n->op->kind == OP_VIEW && !edge_of(n).aligned && edge_of(n).base->op->kind != OP_LEAF) return false;
    if (n->op->kind == OP_ELEMENT && node_count(n) == 1 && node_count(shape) != 1 && !same_dims(n, shape)) return false;
    if (n->n_in > 3) return false;
  }
  return true;
}

/* The variable below aligned views, or NULL. */
static bool is_var(const struct body *b, const struct node *n, int first, int count) {
  (void)b;
  return n->op == &op_value && (int)n->serial >= first && (int)n->serial < first + count;
}

/* The number that an input is, or NULL. */
static const struct node *number_below(const struct body *b, const struct node *x) {
  const struct node *base = edge_of(x).base;
  if (scalar_of(x)) return scalar_of(x);
  return base->op == &op_value ? scalar_of(b->in_node[base->serial]) : NULL;
}

static bool fits(struct body *b, const struct node **shape) {
  const struct loop *l = b->loop;
  if (l->n_carry > 16 || l->n_all > 16) return false;
  *shape = l->n_carry ? b->in_node[l->n_seq] : l->n_all ? b->target[0] : NULL;
  if (!*shape) return false;
  for (int k = 0; k < l->n_carry; k++) if (!same_dims(b->in_node[l->n_seq + k], *shape)) return false;
  for (int k = 0; k < l->n_carry + l->n_all; k++) if (!same_dims(b->target[k], *shape)) return false;
  if (l->until && node_count(*shape) != 1) return false;
  for (int i = 0; i < b->list.n; i++) { /* carries are read at their own lane only */
    const struct node *n = b->list.node[i];
    for (int k = 0; k < n->n_in; k++) {
      struct edge e = edge_of(n->in[k]);
      if (n->op->kind == OP_VIEW || !is_var(b, e.base, l->n_seq, l->n_carry)) continue;
      if (!e.aligned || node_count(n->in[k]) != node_count(e.base)) return false;
      for (int j = 0; j < e.base->rank; j++) if (e.base->dims[j] != 1 && e.map[j] != j) return false;
    }
  }
  return is_lane_local(b, *shape);
}

/* ---- streams ---- */

static int add_stream(struct scanning *s, const struct place *p, const struct node *n, int skip, int64_t time, int64_t offset) {
  struct stream x = { .store = p->store, .offset = p->offset + offset, .time = time, .dtype = (weft_dtype)n->dtype, .value = -1 };
  int axis = s->n_axes, d = s->shape->rank - (n->rank - skip); /* aligned on the right */
  if (s->n_streams == MOST) return -2;
  for (int k = s->shape->rank - 1; k >= 0; k--) {
    if (s->shape->dims[k] == 1) continue;
    axis--;
    int j = k - d + skip;
    if (j >= skip && n->dims[j] != 1) x.stride[axis] = p->stride[j];
  }
  for (int i = 0; i < s->n_streams; i++) {
    struct stream *y = &s->stream[i];
    if (y->store == x.store && y->offset == x.offset && y->time == x.time && y->dtype == x.dtype && !memcmp(y->stride, x.stride, sizeof x.stride)) return i;
  }
  s->stream[s->n_streams] = x;
  return s->n_streams++;
}

/* A view of a sequence's element or of a constant, as a stream. */
static int read_stream(struct scanning *s, const struct node *x) {
  struct body *b = s->b;
  const struct node *base = edge_of(x).base;
  int v = (int)base->serial;
  struct place p;
  if (!place_of(&s->inner, x, &p)) return -2;
  bool is_seq = v < b->loop->n_seq;
  int64_t time = is_seq ? b->in[v].stride[0] : 0, offset = 0;
  if (is_seq && b->loop->is_backward) offset = (b->steps - 1) * time, time = -time;
  return add_stream(s, &p, x, 0, time, offset);
}

static int write_stream(struct scanning *s, const struct place *p, const struct node *body, bool is_stacked) {
  if (!p) return -1;
  struct place at = *p;
  int64_t time = 0, offset = 0;
  if (is_stacked) {
    time = p->stride[0];
    memmove(at.stride, at.stride + 1, sizeof *at.stride * (WEFT_RANK_MAX - 1));
    if (s->b->loop->is_backward) offset = (s->b->steps - 1) * time, time = -time;
  }
  return add_stream(s, &at, body, 0, time, offset);
}

static bool find_streams(struct scanning *s) {
  struct body *b = s->b;
  const struct loop *l = b->loop;
  int n = b->list.n;
  s->stream_of = work_take(b->w, sizeof(int) * (size_t)(n + 1));
  s->value = work_take(b->w, sizeof(int) * (size_t)(n + 1));
  s->inner = (struct work){ .arena = b->w->arena, .list = &b->list };
  s->inner.item = work_take(b->w, sizeof *s->inner.item * (size_t)(n + 1));
  if (b->w->no_memory) return false;
  for (int i = 0; i < n; i++) { /* variables stand where their inputs do, one row of a sequence */
    struct node *x = b->list.node[i];
    struct place *p = &s->inner.item[i].place;
    s->stream_of[i] = s->value[i] = -1;
    p->store = -1;
    if (x->op != &op_value) continue;
    int v = (int)x->serial;
    *p = b->in[v];
    if (v < l->n_seq) memmove(p->stride, p->stride + 1, sizeof *p->stride * (WEFT_RANK_MAX - 1));
  }
  bool ok = true;
  for (int i = 0; i < n && ok; i++) {
    struct node *x = b->list.node[i];
    if (x->op->kind == OP_VIEW || x->op->kind == OP_LEAF) continue;
    for (int k = 0; k < x->n_in && ok; k++) {
      const struct node *base = edge_of(x->in[k]).base;
      if (base->op != &op_value || is_var(b, base, l->n_seq, l->n_carry) || number_below(b, x->in[k])) continue;
      ok = (s->stream_of[x->in[k]->slot] = read_stream(s, x->in[k])) != -2;
    }
  }
  for (int i = 0; i < b->n_targets && ok; i++) {
    const struct node *base = edge_of(b->target[i]).base;
    if (base->op == &op_value && !is_var(b, base, l->n_seq, l->n_carry) && !number_below(b, b->target[i])) ok = (s->stream_of[b->target[i]->slot] = read_stream(s, b->target[i])) != -2;
  }
  for (int k = 0; k < l->n_carry && ok; k++) ok = (s->init[k] = scalar_of(b->in_node[l->n_seq + k]) ? -1 : add_stream(s, &b->in[l->n_seq + k], b->in_node[l->n_seq + k], 0, 0, 0)) != -2;
  for (int k = 0; k < l->n_all && ok; k++) ok = (s->all[k] = write_stream(s, b->all[k], b->target[l->n_carry + k], true)) != -2;
  for (int k = 0; k < l->n_carry && ok; k++) ok = (s->last[k] = write_stream(s, b->last[k], b->target[k], false)) != -2;
  return ok;
}

static bool mergeable(const struct scanning *s, int a, int b) {
  for (int i = 0; i < s->n_streams; i++)
    if (s->stream[i].stride[a] != s->stream[i].stride[b] * s->extent[b]) return false;
  return true;
}

static void find_axes(struct scanning *s) {
  for (int i = 0; i < s->n_axes; i++) s->live[s->n_live++] = i;
  for (int i = s->n_live - 2; i >= 0; i--) {
    if (!mergeable(s, s->live[i], s->live[i + 1])) continue;
    s->extent[s->live[i + 1]] *= s->extent[s->live[i]];
    for (int j = i; j + 1 < s->n_live; j++) s->live[j] = s->live[j + 1];
    s->n_live--;
  }
}

/* ---- the kernel ---- */

static struct kir_lin lin(struct scanning *s, int v) { return kir_lin_val(s->k, v); }

static int dims_of(struct scanning *s, const struct stream *x, struct kir_lin dims[], int64_t stride[], struct kir_lin at[]) {
  int rank = 0;
  if (x->time) {
    if (dims) dims[rank] = lin(s, s->size_t_), stride[rank] = x->time;
    if (at) at[rank] = lin(s, s->t);
    rank++;
  }
  for (int i = 0; i < s->n_live; i++) {
    int a = s->live[i];
    if (!x->stride[a]) continue;
    if (dims) dims[rank] = lin(s, s->size[a]), stride[rank] = x->stride[a];
    if (at) at[rank] = lin(s, s->var[a]);
    rank++;
  }
  return rank;
}

static void declare(struct scanning *s, struct stream *x, bool is_written, const char *name) {
  struct kir_lin dims[AXES + 1];
  struct binding *b = &s->bind[s->n_bufs++];
  *b = (struct binding){ .store = x->store, .offset = x->offset };
  int rank = dims_of(s, x, dims, b->stride, NULL);
  x->buf = kir_buf(s->k, name, is_written ? KIR_OUT : KIR_IN, x->dtype, rank, dims);
}

static int load(struct scanning *s, struct stream *x) {
  struct kir_lin at[AXES + 1];
  dims_of(s, x, NULL, NULL, at);
  return x->value >= 0 ? x->value : (x->value = kir_load(&s->kb, x->buf, at));
}

static void store(struct scanning *s, int stream, int value) {
  struct kir_lin at[AXES + 1];
  if (stream < 0) return;
  dims_of(s, &s->stream[stream], NULL, NULL, at);
  kir_store(&s->kb, s->stream[stream].buf, at, KIR_SET, value);
}

static int number(struct scanning *s, const struct node *x) {
  struct argument a = scalar_argument(x);
  weft_dtype t = kir_register_of((weft_dtype)x->dtype);
  for (int i = 0; i < s->n_args; i++)
    if (s->arg[i].leaf == a.leaf && s->arg[i].bits == a.bits && s->arg_dtype[i] == t) return s->arg_value[i];
  if (s->n_args == MOST) return 0;
  char name[] = { 's', (char)('0' + s->n_args / 10), (char)('0' + s->n_args % 10), 0 };
  s->arg[s->n_args] = a;
  s->arg_dtype[s->n_args] = t;
  return s->arg_value[s->n_args++] = kir_arg(s->k, name, t);
}

static int value_of(struct scanning *s, const struct node *x, const int carry[]) {
  const struct loop *l = s->b->loop;
  const struct node *base = edge_of(x).base;
  if (is_var(s->b, base, l->n_seq, l->n_carry)) return carry[(int)base->serial - l->n_seq];
  if (number_below(s->b, x)) return number(s, number_below(s->b, x));
  if (base->op == &op_value) return load(s, &s->stream[s->stream_of[x->slot]]);
  return s->value[base->slot];
}

static void compute(struct scanning *s, struct node *n, const int carry[]) {
  int in[3] = { 0 };
  if (n->op->kind == OP_SIZE) {
    s->value[n->slot] = kir_lit_int(s->k, WEFT_I64, ((const struct size_attr *)n->attr)->size);
    return;
  }
  if (n->op->kind != OP_ELEMENT) return;
  for (int k = 0; k < n->n_in; k++) in[k] = value_of(s, n->in[k], carry);
  s->value[n->slot] = kir_cast(&s->kb, (weft_dtype)n->dtype, n->op->lower(&s->kb, n, in));
}

static void declare_all(struct scanning *s) {
  const struct loop *l = s->b->loop;
  static const char *const axis[] = { "A", "B", "C", "D", "E", "F", "G", "H" };
  bool written[MOST] = { 0 };
  int ins = 0, outs = 0;
  s->size_t_ = kir_size(s->k, "T");
  for (int i = 0; i < s->n_live; i++) s->size[s->live[i]] = kir_size(s->k, s->n_live == 1 ? "N" : axis[i]);
  for (int k = 0; k < l->n_all; k++) if (s->all[k] >= 0) written[s->all[k]] = true;
  for (int k = 0; k < l->n_carry; k++) if (s->last[k] >= 0) written[s->last[k]] = true;
  for (int i = 0; i < s->n_streams; i++) {
    int n = written[i] ? outs++ : ins++;
    char name[] = { written[i] ? 'y' : 'x', (char)('0' + n % 10), n >= 10 ? (char)('0' + n / 10) : 0, 0 };
    declare(s, &s->stream[i], written[i], name);
  }
  if (s->b->length) {
    s->bind[s->n_bufs++] = (struct binding){ .store = s->b->length->store, .offset = s->b->length->offset };
    s->length = kir_buf(s->k, "n", KIR_OUT, WEFT_I64, 0, NULL);
  } else s->length = -1;
}

/* What one step computes; returns until's value, or -1. */
static int step(struct scanning *s, const int carry[], int next[]) {
  struct body *b = s->b;
  const struct loop *l = b->loop;
  for (int i = 0; i < b->list.n; i++) compute(s, b->list.node[i], carry);
  for (int k = 0; k < l->n_all; k++) if (s->all[k] >= 0) store(s, s->all[k], value_of(s, b->target[l->n_carry + k], carry));
  for (int k = 0; k < l->n_carry; k++) next[k] = value_of(s, b->target[k], carry);
  return l->until ? value_of(s, b->target[b->n_targets - 1], carry) : -1;
}

static void nest(struct scanning *s) {
  const struct loop *l = s->b->loop;
  static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
  int init[MOST], carry[MOST + 1], next[MOST + 1], n = l->n_carry;
  for (int i = 0; i < s->n_live; i++)
    s->var[s->live[i]] = kir_loop(&s->kb, i == s->n_live - 1 ? KIR_LANE : KIR_PAR, s->n_live == 1 ? "i" : names[i], lin(s, s->size[s->live[i]]));
  for (int k = 0; k < l->n_carry; k++) init[k] = s->init[k] < 0 ? number(s, scalar_of(s->b->in_node[l->n_seq + k])) : load(s, &s->stream[s->init[k]]);
  for (int i = 0; i < s->n_streams; i++) s->stream[i].value = -1;
  s->t = kir_loop(&s->kb, KIR_SERIAL, "t", lin(s, s->size_t_));
  for (int k = 0; k < l->n_carry; k++) carry[k] = kir_carry(&s->kb, NULL, init[k]);
  if (s->length >= 0) carry[n] = kir_carry(&s->kb, "steps", kir_lit_int(s->k, WEFT_I64, 0));
  int stop = step(s, carry, next);
  if (s->length >= 0) next[n] = kir_op2(&s->kb, KIR_ADD, carry[n], kir_lit_int(s->k, WEFT_I64, 1));
  kir_next(&s->kb, n + (s->length >= 0), carry, next);
  if (stop >= 0) kir_until(&s->kb, stop);
  kir_end(&s->kb);
  for (int k = 0; k < l->n_carry; k++) store(s, s->last[k], carry[k]);
  if (s->length >= 0 && !s->n_live) kir_store(&s->kb, s->length, NULL, KIR_SET, carry[n]);
  for (int i = 0; i < s->n_live; i++) kir_end(&s->kb);
}

static bool is_carry_free(const struct loop *l) { return l->n_carry == 0; }

bool scan(struct body *b, bool *done) {
  const struct node *shape;
  struct scanning *s = work_take(b->w, sizeof *s);
  if (!s) return false;
  if (!fits(b, &shape) || (b->length && (node_count(shape) != 1 || is_carry_free(b->loop)))) return true;
  s->b = b;
  s->shape = shape;
  for (int k = 0; k < shape->rank; k++) {
    if (shape->dims[k] == 1) continue;
    if (s->n_axes == AXES - 1) return true;
    s->extent[s->n_axes++] = shape->dims[k];
  }
  if (is_carry_free(b->loop)) return true;
  if (!find_streams(s)) return !b->w->no_memory; /* too much for one kernel: replay */
  find_axes(s);
  if (!(s->k = kir_new("scan"))) return !(b->w->no_memory = true);
  declare_all(s);
  kir_begin(&s->kb, s->k);
  nest(s);
  int64_t sizes[AXES + 1] = { b->steps };
  for (int i = 0; i < s->n_live; i++) sizes[i + 1] = s->extent[s->live[i]];
  *done = true;
  return step_fill(b->w, s->k, s->n_live + 1, sizes, s->n_args, s->arg, s->n_bufs, s->bind, 0, NULL);
}
