/* small.c -- a loop whose values are small, as one kernel: every element is a value of the kernel.
 *
 * For bodies of a few hundred operations on elements, whatever ops they are made of: a filter, a solver, a choice. Views,
 * concatenations and updates cost nothing, for they only say which element is meant; an index chooses among all that it may
 * mean; folds and products are written out in the order of docs/kir.md. Carries are in registers, sequences are read and
 * outputs stored element by element. A loop inside is a loop of the kernel, a choice an `if`, or a select where a side is
 * computed sooner than a jump is missed.
 * Computations that do not meet, such as the rows of a map, go side by side in lanes (lane.c). */
#include <string.h>
#include "op/loop.h"
#include "schedule/body.h"
#include "schedule/draft.h"

enum {
  MOST_ELEMENTS = 64,   /* of a value of a loop */
  MOST_CARRIED = 60,    /* elements of all carries of a loop */
  WORK = 768,           /* operations of a step: they are compiled one by one */
  WORK_A_FOLD = 256,    /* more of them for each sum and product of a step: run step by step it would be a kernel of its own, which
                           takes 0.15 us to begin, where 256 operations of a Kalman filter take 0.1 (bench/pytensor) */
  MOST_WORK = 3072,     /* whatever folds there are */
  MOST_INSIDE = 4,      /* loops in one another */
  CHEAP = 16,           /* operations of a side that is computed in any case */
  ROW_ACCUMULATORS = 32 /* of the order of sums */
};

/* The body of a loop while it is written. Slots are those of its own list. */
struct small_loop {
  struct body *b;              /* of a loop inside: its nodes and targets only */
  int **element;               /* by slot: values, row by row; those of loops inside: of all carries */
  struct small_loop **inside;       /* by slot: of a loop node */
  int *var;                    /* by variable: the slot of its leaf, or -1 */
  int n_carried;               /* elements of all carries */
  bool *is_needed;
  struct small_loop *around;        /* NULL: the loop itself */
  int64_t lanes;
  int64_t work;                /* operations of a step */
  int n_folds;                 /* sums and products among them */
};

/* An array in memory: whether it moves with time and lanes, and its axes that are neither, nor 1. */
struct cells { int buf; bool has_time, has_lanes; int rank; int axis[WEFT_RANK_MAX]; };

struct small {
  struct draft d;
  struct body *whole;            /* what all lanes see; that of the frame is what one does */
  struct small_loop *top;
  struct cells *in, *all, *last; /* by variable, output, carry */
  int64_t lanes;                 /* 0: none, one computation for all */
  int size_t_, t, size_n, lane;
  int count, length;             /* buffers: how many steps, where it is computed before; how many were taken. -1: none */
  int is_out;                    /* whether an index of this step is out of range; -1: there are none */
};

/* ---- whether the body allows it ---- */

/* Of a take or scatter: indices stand from operand `first` on, `n` arrays of `places` elements each. Such a place is one of
 * `slots`, of `row` elements. */
struct indexing { const char *typed; int first, n; int64_t places, slots, row; };

static struct indexing indexing_of(const struct node *n) {
  const struct node *x = n->in[0];
  bool takes = n->op->kind == OP_TAKE;
  struct indexing g = { indices_typed(n), takes ? 1 : 2, .slots = 1, .row = 1 };
  g.n = n->n_in - g.first;
  g.places = node_count(n->in[g.first]);
  for (int k = 0; k < x->rank; k++) *(k < g.n ? &g.slots : &g.row) *= x->dims[k];
  return g;
}

/* Every place is compared with every slot: in registers there are no addresses. */
static int64_t cost_of_indexing(const struct node *n) {
  struct indexing g = indexing_of(n);
  return !g.slots ? -1 : g.places * (6 * g.n + g.slots * (1 + g.row * (n->op->kind == OP_TAKE ? 1 : 2)));
}

static int64_t contracted(const struct node *n) { return n->in[0]->dims[n->in[0]->rank - 1]; }

/* Elements of the results of a library op before result k. */
static int64_t results_before(const struct node *n, int k) {
  int64_t all = 0;
  while (k--) {
    dim dims[WEFT_RANK_MAX];
    int rank;
    int64_t count = 1;
    n->op->many->type(n, k, &rank, dims);
    for (int i = 0; i < rank; i++) count *= dims[i];
    all += count;
  }
  return all;
}

static bool has_small_results(const struct node *n, int64_t most) {
  for (int k = 0; k < n->n_in; k++) if (node_count(n->in[k]) > most) return false;
  return results_before(n, n->op->many->count(n)) <= 2 * most;
}

/* Operations of one step; -1: not to be written element by element. most: elements of a value. */
static int64_t cost_of(const struct node *n, int64_t most) {
  switch (n->op->kind) {
    case OP_LEAF: case OP_SIZE: case OP_IOTA: case OP_CONCAT: case OP_PAD: case OP_LOOP: case OP_ITEM: return 0;
    case OP_VIEW: return n->op == &op_part ? -1 : 0;
    case OP_PUT: return node_count(n->in[1]);
    case OP_ELEMENT: return n->n_in <= ELEMENT_MOST ? node_count(n) : -1;
    case OP_REDUCE: return node_count(n->in[0]);
    case OP_PREFIX: return n->op->fold->n ? -1 : node_count(n);
    case OP_CONTRACT: return node_count(n) * contracted(n);
    case OP_TAKE: case OP_SCATTER: return cost_of_indexing(n);
    case OP_LIBRARY: return n->op->library->values && has_small_results(n, most) ? n->op->library->values->cost(n) : -1;
    case OP_PAIR: case OP_IDENTITY: case OP_CALL: case OP_LATER: break;
  }
  return -1;
}

static bool is_small(const struct node *n, int64_t most) {
  return node_count(n) <= most && kir_width((weft_dtype)n->dtype) && n->rank < AXES;
}

/* Elements of the carries before carry k. */
static int64_t carried(const struct body *b, int k) {
  int64_t n = 0;
  while (k--) n += node_count(b->target[k]);
  return n;
}

static bool frame_take(struct work *, struct small_loop *, bool *fits);

/* A loop of the kernel: it goes through no sequences, keeps nothing but its carries, and cannot fail. */
static bool take_inside(struct work *w, struct small_loop *f, const struct node *n, bool *fits) {
  struct small_loop *in = work_take(w, sizeof *in);
  struct body *b = work_take(w, sizeof *b);
  if (!in || !b) return false;
  *b = (struct body){ .w = w, .loop = ((const struct loop_attr *)n->attr)->loop };
  *in = (struct small_loop){ .b = b, .around = f, .lanes = f->lanes };
  f->inside[n->slot] = in;
  b->steps = dim_resolve(b->loop->steps);
  *fits = !b->loop->n_seq && (b->loop->is_branch || dim_is_known(b->steps) || loop_runs_blind(b->loop, n->in[0]));
  if (!*fits) return true;
  if (!body_nodes(b) || (f->lanes && !body_lane(b, f->lanes, fits))) return false;
  if (*fits && !frame_take(w, in, fits)) return false;
  f->work += in->work;
  f->n_folds += in->n_folds;
  return !*fits || (f->element[n->slot] = work_take(w, sizeof(int) * (size_t)(in->n_carried + 1)));
}

static int depth_of(const struct small_loop *f) { return f->around ? 1 + depth_of(f->around) : 0; }

/* Whether n is a result of a library op, or a carry after the last step of a loop inside: the only results of one that a small loop
 * has room for. */
static bool is_small_item(const struct node *n) {
  if (n->in[0]->op->kind == OP_LIBRARY) return true;
  if (n->in[0]->op->kind != OP_LOOP) return false;
  const struct loop *l = ((const struct loop_attr *)n->in[0]->attr)->loop;
  int k = ((const struct item_attr *)n->attr)->k - l->n_all;
  return k >= 0 && k < l->n_carry;
}

/* Memory for the elements of every node, and where the variables are. */
static bool make_room(struct work *w, struct small_loop *f) {
  const struct node_list *l = &f->b->list;
  int m = body_variables(f->b->loop);
  f->element = work_take(w, sizeof *f->element * (size_t)(l->n + 1));
  f->inside = work_take(w, sizeof *f->inside * (size_t)(l->n + 1));
  f->is_needed = work_take(w, (size_t)l->n + 1);
  f->var = work_take(w, sizeof *f->var * (size_t)(m + 1));
  for (int k = 0; f->var && k < m; k++) f->var[k] = -1;
  return !w->no_memory;
}

/* n as a lane sees it. */
static struct node *shown_to_lane(struct work *w, const struct node *n, int64_t lanes, int n_in, struct node *const in[]) {
  dim dims[WEFT_RANK_MAX];
  if (n->rank) memcpy(dims, n->dims, sizeof *dims * n->rank);
  if (n->rank && dims[0] == lanes) dims[0] = 1;
  return work_node(w, n->op, (weft_dtype)n->dtype, n->rank, dims, n_in, in, n->attr, n->attr_bytes);
}

int64_t small_cost(struct work *w, const struct node *n, int64_t lanes) {
  struct node **in = work_take(w, sizeof *in * (size_t)(n->n_in + 1)), *x = NULL;
  bool may_fail = n->op->kind == OP_TAKE || n->op->kind == OP_SCATTER;
  if (may_fail || !lane_keeps(n, lanes)) return -1;
  for (int k = 0; in && k < n->n_in; k++)
    if (!(in[k] = shown_to_lane(w, n->in[k], lanes, 0, NULL)) || !is_small(in[k], SMALL_ELEMENTS)) return -1;
  if (in) x = shown_to_lane(w, n, lanes, n->n_in, in);
  if (!x || !is_small(x, SMALL_ELEMENTS) || (n->op->kind == OP_ITEM && !is_small_item(n))) return -1;
  return cost_of(x, SMALL_ELEMENTS);
}

static bool take_node(struct work *w, struct small_loop *f, const struct node *n, bool *fits) {
  int64_t most = f->b->is_once ? SMALL_ELEMENTS : MOST_ELEMENTS, cost = cost_of(n, most);
  bool may_fail = n->op->kind == OP_TAKE || n->op->kind == OP_SCATTER;
  *fits = cost >= 0 && is_small(n, most) && (n->op->kind != OP_ITEM || is_small_item(n)) && !(may_fail && (f->around || f->lanes));
  if (!*fits) return true;
  if (n->op == &op_value) f->var[local_of(n)->leaf] = n->slot;
  f->work += cost;
  f->n_folds += n->op->kind == OP_REDUCE || n->op->kind == OP_CONTRACT;
  if (n->op->kind == OP_LOOP) return take_inside(w, f, n, fits);
  int64_t count = n->op->kind == OP_LIBRARY ? results_before(n, n->op->many->count(n)) : node_count(n);
  return (f->element[n->slot] = work_take(w, sizeof(int) * (size_t)(count + 1))) != NULL;
}

/* Whether compiling a step element by element pays. */
static bool is_little_work(const struct small_loop *f) {
  int64_t most = WORK + WORK_A_FOLD * (int64_t)f->n_folds;
  return f->work <= (most < MOST_WORK ? most : MOST_WORK);
}

/* *fits = false: too large, or of another kind. false: out of memory. */
static bool frame_take(struct work *w, struct small_loop *f, bool *fits) {
  const struct body *b = f->b;
  if (!make_room(w, f)) return false;
  *fits = depth_of(f) < MOST_INSIDE;
  for (int i = 0; *fits && i < b->list.n; i++) {
    if (!take_node(w, f, b->list.node[i], fits)) return false;
    *fits &= b->is_once || f->work <= MOST_WORK;
  }
  if (*fits) *fits = b->is_once || (is_little_work(f) && carried(b, b->loop->n_carry) <= MOST_CARRIED);
  if (*fits) f->n_carried = (int)carried(b, b->loop->n_carry);
  return true;
}

/* What the results need; outputs that nobody wants are none. */
static void find_needed(struct small_loop *f) {
  const struct body *b = f->b;
  const struct loop *l = b->loop;
  for (int k = 0; k < b->n_targets; k++) {
    bool is_output = k >= l->n_carry && k < l->n_carry + l->n_all;
    if (!is_output || (!f->around && b->all[k - l->n_carry])) f->is_needed[b->target[k]->slot] = true;
  }
  for (int i = b->list.n - 1; i >= 0; i--) {
    const struct node *n = b->list.node[i];
    for (int k = 0; f->is_needed[i] && k < n->n_in; k++) f->is_needed[n->in[k]->slot] = true;
    if (f->is_needed[i] && f->inside[i]) find_needed(f->inside[i]);
  }
}

/* ---- memory ---- */

static struct kir_lin number(struct small *s, int64_t n) { return kir_lin_const(s->d.k, n); }

/* Elements of `like`, of its axes from `first` on. */
static struct cells declare(struct small *s, const struct node *like, int first, struct moving m, int rows, bool is_written) {
  bool is_laned = s->lanes && like->rank > first && like->dims[first] == s->lanes;
  struct cells c = { .has_time = m.time != 0, .has_lanes = is_laned && m.at.stride[0] };
  struct reach r = { .store = m.at.store, .offset = m.at.offset };
  if (c.has_time) reach_along(&r, draft_lin(&s->d, rows), m.time);
  if (c.has_lanes) reach_along(&r, draft_lin(&s->d, s->size_n), m.at.stride[0]);
  for (int k = first + is_laned; k < like->rank; k++) {
    if (like->dims[k] == 1) continue;
    reach_along(&r, number(s, like->dims[k]), m.at.stride[k - first]);
    c.axis[c.rank++] = k;
  }
  c.buf = draft_buffer(&s->d, NULL, is_written ? KIR_OUT : KIR_IN, (weft_dtype)like->dtype, &r);
  return c;
}

/* Subscripts of element i of a row-major walk over its axes. */
static void subscripts(struct small *s, const struct cells *c, const struct node *like, int64_t i, struct kir_lin at[]) {
  int n = 0;
  if (c->has_time) at[n++] = draft_lin(&s->d, s->t);
  if (c->has_lanes) at[n++] = draft_lin(&s->d, s->lane);
  for (int k = c->rank - 1; k >= 0; k--) {
    int64_t d = like->dims[c->axis[k]];
    at[n + k] = number(s, i % d);
    i /= d;
  }
}

static int load(struct small *s, const struct cells *c, const struct node *like, int64_t i) {
  struct kir_lin at[AXES + 1];
  subscripts(s, c, like, i, at);
  return kir_load(&s->d.b, c->buf, at);
}

static void store(struct small *s, const struct cells *c, const struct node *like, int64_t i, int value) {
  struct kir_lin at[AXES + 1];
  subscripts(s, c, like, i, at);
  kir_store(&s->d.b, c->buf, at, KIR_SET, value);
}

static bool is_read(const struct small_loop *f, int k) { return f->var[k] >= 0 && f->is_needed[f->var[k]]; }

static bool writes_rows(const struct body *b) {
  for (int k = 0; k < b->loop->n_all; k++) if (b->all[k]) return true;
  return false;
}

static struct moving stacked(const struct body *b, const struct place *p) {
  return b->is_once ? (struct moving){ *p, 0 } : body_stack(b, p);
}

static void declare_all(struct small *s) {
  struct body *b = s->whole;
  const struct loop *l = b->loop;
  bool is_counted = b->steps == STEPS_AT_RUN;
  s->size_t_ = is_counted || b->is_once ? -1 : draft_size(&s->d, "T", b->steps); /* -1: then nothing moves with time */
  s->size_n = s->lanes ? draft_size(&s->d, "N", s->lanes) : -1;
  int rows = !is_counted && b->rows < b->steps && writes_rows(b) ? draft_size(&s->d, "R", b->rows) : s->size_t_;
  for (int k = 0; k < body_variables(l); k++) {
    bool is_carry = k >= l->n_seq && k < l->n_seq + l->n_carry;
    if (b->in[k].store < 0 || (!is_carry && !is_read(s->top, k))) continue;
    struct moving m = k < l->n_seq ? body_stack(b, &b->in[k]) : (struct moving){ b->in[k], 0 };
    s->in[k] = declare(s, b->in_node[k], k < l->n_seq, m, s->size_t_, false);
  }
  for (int k = 0; k < l->n_all; k++)
    if (b->all[k]) s->all[k] = declare(s, b->target[l->n_carry + k], 0, stacked(b, b->all[k]), rows, true);
  for (int k = 0; k < l->n_carry; k++)
    if (b->last[k]) s->last[k] = declare(s, b->target[k], 0, (struct moving){ *b->last[k], 0 }, rows, true);
  s->count = is_counted ? body_count(b, &s->d) : -1;
  const struct place *n = b->length;
  s->length = n ? draft_buffer(&s->d, "n", KIR_OUT, WEFT_I64, &(struct reach){ .store = n->store, .offset = n->offset }) : -1;
}

/* All elements of what the loop is given as variable k, of a sequence those of this step. */
static void read(struct small *s, int k, int64_t n, int out[]) {
  const struct node *x = s->whole->in_node[k], *scalar = scalar_of(x);
  for (int64_t i = 0; i < n; i++) out[i] = scalar ? draft_number(&s->d, scalar) : load(s, &s->in[k], x, i);
}

/* ---- one node ---- */

/* Element i of the view is element at(i) of what it shows, whose elements are row by row. */
static void view(struct small_loop *f, const struct node *n) {
  struct place dense, p;
  place_dense(n->in[0], 0, &dense);
  place_view(n, &dense, &p);
  for (int64_t i = 0, count = node_count(n); i < count; i++) {
    int64_t at = p.offset, rest = i;
    for (int k = n->rank - 1; k >= 0; rest /= n->dims[k--]) at += rest % n->dims[k] * p.stride[k];
    f->element[n->slot][i] = f->element[n->in[0]->slot][at];
  }
}

static void element(struct small *s, struct small_loop *f, const struct node *n) {
  int in[ELEMENT_MOST] = { 0 };
  for (int64_t i = 0, count = node_count(n); i < count; i++) {
    for (int k = 0; k < n->n_in; k++) in[k] = f->element[n->in[k]->slot][i];
    f->element[n->slot][i] = kir_cast(&s->d.b, (weft_dtype)n->dtype, n->op->lower(&s->d.b, n, in));
  }
}

/* An array as [before, length, behind] around one of its axes. */
struct axis_lines { int64_t before, length, behind; };
static struct axis_lines lines_of(const struct node *n, int axis) {
  struct axis_lines l = { 1, n->dims[axis], 1 };
  for (int k = 0; k < axis; k++) l.before *= n->dims[k];
  for (int k = axis + 1; k < n->rank; k++) l.behind *= n->dims[k];
  return l;
}
static int axis_of(const struct node *n) { return ((const struct axis_attr *)n->attr)->axis; }

enum { MOST_PARTS = 4 };                /* of a tuple that is folded */
struct tuple { int part[MOST_PARTS]; }; /* part[0] -1: nothing yet */

static struct tuple combine(struct small *s, const struct fold *f, int fn, struct tuple a, struct tuple b) {
  int in[2 * MOST_PARTS];
  struct tuple out = a;
  if (a.part[0] < 0) return b;
  if (b.part[0] < 0) return a;
  for (int i = 0; i < f->n; i++) in[i] = a.part[i], in[f->n + i] = b.part[i];
  if (f->n) kir_call(&s->d.b, fn, 2 * f->n, in, out.part);
  else out.part[0] = kir_op2(&s->d.b, f->op, a.part[0], b.part[0]);
  return out;
}

/* Rows: element j to accumulator j mod 32, then their tree. Columns: in order. Starts change nothing but -0 in a sum. */
static struct tuple fold_all(struct small *s, const struct fold *f, int fn, bool is_row, int n, const struct tuple x[]) {
  struct tuple acc[ROW_ACCUMULATORS];
  int width = is_row ? ROW_ACCUMULATORS : 1;
  for (int j = 0; j < ROW_ACCUMULATORS; j++) acc[j].part[0] = -1;
  for (int j = 0; j < n; j++) acc[j % width] = combine(s, f, fn, acc[j % width], x[j]);
  for (int half = width / 2; half; half /= 2)
    for (int j = 0; j < half; j++) acc[j] = combine(s, f, fn, acc[j], acc[j + half]);
  return acc[0];
}

static int start_of(struct small *s, const struct node *n) {
  weft_dtype t = kir_register_of((weft_dtype)n->dtype);
  return kir_lit(s->d.k, t, kir_empty(n->op->fold->op, t));
}

/* The value of a fold. */
static int finished(struct small *s, const struct node *n, struct tuple t) {
  const struct fold *f = n->op->fold;
  if (f->n && t.part[0] < 0) f->from(&s->d.b, n, t.part);
  if (f->n) return f->finish(&s->d.b, n, t.part);
  if (t.part[0] < 0) return start_of(s, n);
  bool has_zero = f->op == KIR_ADD && kir_is_float(kir_register_of((weft_dtype)n->dtype));
  return has_zero ? kir_op2(&s->d.b, KIR_ADD, start_of(s, n), t.part[0]) : t.part[0];
}

static void reduce(struct small *s, struct small_loop *f, const struct node *n) {
  const struct fold *how = n->op->fold;
  struct axis_lines l = lines_of(n->in[0], axis_of(n));
  struct tuple x[SMALL_ELEMENTS]; /* as many as a row may have */
  int fn = how->n ? how->combine(&s->d.b, n) : -1;
  bool is_row = axis_of(n) == n->rank - 1;
  for (int64_t i = 0; i < l.before * l.behind; i++) {
    for (int64_t j = 0; j < l.length; j++) {
      int e = f->element[n->in[0]->slot][(i / l.behind * l.length + j) * l.behind + i % l.behind];
      if (how->n) how->lift(&s->d.b, n, e, kir_lit_int(s->d.k, WEFT_I64, j), x[j].part);
      else x[j].part[0] = e;
    }
    int y = finished(s, n, fold_all(s, how, fn, is_row, (int)l.length, x));
    f->element[n->slot][i] = kir_cast(&s->d.b, (weft_dtype)n->dtype, y);
  }
}

static void prefix(struct small *s, struct small_loop *f, const struct node *n) {
  struct axis_lines l = lines_of(n, axis_of(n));
  const int *x = f->element[n->in[0]->slot];
  for (int64_t i = 0; i < l.before * l.behind; i++) {
    int so_far = -1;
    for (int64_t j = 0; j < l.length; j++) {
      int64_t at = (i / l.behind * l.length + j) * l.behind + i % l.behind;
      so_far = so_far < 0 ? x[at] : kir_op2(&s->d.b, n->op->fold->op, so_far, x[at]);
      f->element[n->slot][at] = kir_cast(&s->d.b, (weft_dtype)n->dtype, so_far);
    }
  }
}

/* y[i,j] = sum_k a[i,k] b[k,j], in order of k, of each matrix of the batch */
static void contract(struct small *s, struct small_loop *f, const struct node *n) {
  int64_t rows = n->dims[n->rank - 2], columns = n->dims[n->rank - 1], inner = contracted(n);
  weft_dtype t = kir_register_of((weft_dtype)n->in[0]->dtype);
  for (int64_t e = 0, count = node_count(n); e < count; e++) {
    int64_t j = e % columns, i = e / columns % rows, batch = e / columns / rows;
    int sum = kir_lit(s->d.k, t, 0);
    for (int64_t k = 0; k < inner; k++) {
      int a = f->element[n->in[0]->slot][(batch * rows + i) * inner + k];
      int b = f->element[n->in[1]->slot][(batch * inner + k) * columns + j];
      sum = kir_is_float(t) ? kir_op3(&s->d.b, KIR_FMA, a, b, sum)
                            : kir_op2(&s->d.b, KIR_ADD, sum, kir_op2(&s->d.b, KIR_MUL, a, b));
    }
    f->element[n->slot][e] = kir_cast(&s->d.b, (weft_dtype)n->dtype, sum);
  }
}

static void concat(struct small_loop *f, const struct node *n) {
  struct axis_lines whole = lines_of(n, axis_of(n));
  int64_t first = 0;
  for (int k = 0; k < n->n_in; k++) {
    struct axis_lines l = lines_of(n->in[k], axis_of(n));
    int64_t run = l.length * l.behind;
    for (int64_t i = 0; i < l.before * run; i++)
      f->element[n->slot][(i / run * whole.length + first) * whole.behind + i % run] = f->element[n->in[k]->slot][i];
    first += l.length;
  }
}

static void pad(struct small_loop *f, const struct node *n) {
  const struct pad_attr *a = n->attr;
  struct axis_lines whole = lines_of(n, (int)a->axis), l = lines_of(n->in[0], (int)a->axis);
  int64_t run = l.length * l.behind;
  for (int64_t i = 0, count = node_count(n); i < count; i++) f->element[n->slot][i] = f->element[n->in[1]->slot][0];
  for (int64_t i = 0; i < l.before * run; i++)
    f->element[n->slot][(i / run * whole.length + a->before) * whole.behind + i % run] = f->element[n->in[0]->slot][i];
}

static void put(struct small *s, struct small_loop *f, const struct node *n) {
  const struct put_attr *a = n->attr;
  const struct node *v = n->in[1];
  const struct op *op = a->how == WEFT_SET ? NULL : put_combiner((weft_how)a->how, (weft_dtype)n->dtype);
  struct place dense, part;
  place_dense(n, 0, &dense);
  put_place(n, &dense, &part);
  memcpy(f->element[n->slot], f->element[n->in[0]->slot], sizeof(int) * (size_t)node_count(n));
  for (int64_t i = 0, count = node_count(v); i < count; i++) {
    int64_t at = part.offset, rest = i;
    for (int k = v->rank - 1; k >= 0; rest /= v->dims[k--]) at += rest % v->dims[k] * part.stride[k];
    int *e = &f->element[n->slot][at], both[2] = { *e, f->element[v->slot][i] };
    *e = op ? kir_cast(&s->d.b, (weft_dtype)n->dtype, op->lower(&s->d.b, n, both)) : both[1];
  }
}

/* ---- indices ---- */

/* The first index that is out of range, and where, counted through all steps: looked for again where one is known to be. */
static void find_out(struct small *s, int size, const struct indexing *g, const int index[], struct kir_lin *at, int *of) {
  struct kir_builder *b = &s->d.b;
  int is_there, where = -1;
  for (int64_t i = g->places - 1; i >= 0; i--) {
    int k = draft_place(&s->d, index[i], size, &is_there), number = kir_lit_int(s->d.k, WEFT_I64, i);
    *of = where < 0 ? k : kir_op3(b, KIR_SELECT, is_there, *of, k);
    where = where < 0 ? number : kir_op3(b, KIR_SELECT, is_there, where, number);
  }
  int before = kir_op2(b, KIR_MUL, s->t, kir_lit_int(s->d.k, WEFT_I64, g->places));
  *at = draft_lin(&s->d, kir_op2(b, KIR_ADD, before, where));
}

/* An index that is out of range is told, the first of them, and this step is the last: what it has computed is nobody's. The
 * rest of the step is computed all the same, for `until` is part of it. */
static void check_indices(struct small *s, const struct node *n, const struct indexing *g, int j, const int index[],
                          const int is_there[]) {
  struct kir_builder *b = &s->d.b;
  int all = is_there[g->places - 1], of = kir_lit_int(s->d.k, WEFT_I64, 0), size = kir_lit_int(s->d.k, WEFT_I64, n->in[0]->dims[j]);
  struct kir_lin at = { 0 };
  for (int64_t i = g->places - 2; i >= 0; i--) all = kir_op2(b, KIR_AND, all, is_there[i]);
  int is_out = kir_op1(b, KIR_NOT, all);
  kir_if(b, is_out);
  struct site site = { .text = g->typed, .origin = n->origin, .bound = n->in[0]->dims[j], .a_step = g->places };
  site.is_backward = s->whole->loop->is_backward, site.is_window = indices_are_window(n), site.is_told = n->op == &op_assert;
  if (site.is_told) site.status = assert_status(n);
  else find_out(s, size, g, index, &at, &of);
  draft_check(&s->d, all, at, of, site);
  kir_end(b);
  s->is_out = s->is_out < 0 ? is_out : kir_op2(b, KIR_OR, s->is_out, is_out);
}

/* The slot of every place; none where an index is out of range, or one that is not meant. */
static void find_slots(struct small *s, struct small_loop *f, const struct node *n, const struct indexing *g, int slot[]) {
  struct kir_builder *b = &s->d.b;
  int is_there[MOST_ELEMENTS];
  for (int j = 0; j < g->n; j++) {
    int size = kir_lit_int(s->d.k, WEFT_I64, n->in[0]->dims[j]);
    const int *index = f->element[n->in[g->first + j]->slot];
    for (int64_t i = 0; i < g->places; i++) {
      int k = draft_place(&s->d, index[i], size, &is_there[i]);
      if (!j) slot[i] = k;
      else slot[i] = kir_op2(b, KIR_MUL, slot[i], size), slot[i] = kir_op2(b, KIR_ADD, slot[i], k);
    }
    if (g->places) check_indices(s, n, g, j, index, is_there);
  }
}

static int is_slot(struct small *s, int slot, int64_t k) {
  return kir_op2(&s->d.b, KIR_EQ, slot, kir_lit_int(s->d.k, WEFT_I64, k));
}

static void take(struct small *s, struct small_loop *f, const struct node *n) {
  struct indexing g = indexing_of(n);
  int slot[MOST_ELEMENTS];
  const int *x = f->element[n->in[0]->slot];
  find_slots(s, f, n, &g, slot);
  for (int64_t i = 0; i < g.places; i++) {
    int *y = f->element[n->slot] + i * g.row;
    memcpy(y, x, sizeof *y * (size_t)g.row);
    for (int64_t k = 1; k < g.slots; k++) {
      int is_this = is_slot(s, slot[i], k);
      for (int64_t c = 0; c < g.row; c++) y[c] = kir_op3(&s->d.b, KIR_SELECT, is_this, x[k * g.row + c], y[c]);
    }
  }
}

/* Halves are rounded once, behind all updates, as everywhere (`scatter_wide` of prepare.c). */
static void scatter(struct small *s, struct small_loop *f, const struct node *n) {
  struct indexing g = indexing_of(n);
  enum kir_op op = scatter_combines(n);
  int slot[MOST_ELEMENTS], *y = f->element[n->slot];
  find_slots(s, f, n, &g, slot);
  memcpy(y, f->element[n->in[0]->slot], sizeof *y * (size_t)node_count(n));
  for (int64_t i = 0; i < g.places; i++) {
    const int *v = f->element[n->in[1]->slot] + i * g.row;
    for (int64_t e = 0; e < g.slots * g.row; e++) {
      int is_this = is_slot(s, slot[i], e / g.row), now = v[e % g.row];
      if (op != KIR_SET) now = kir_op2(&s->d.b, op, y[e], now);
      y[e] = kir_op3(&s->d.b, KIR_SELECT, is_this, now, y[e]);
    }
  }
  for (int64_t e = 0; op != KIR_SET && e < g.slots * g.row; e++) y[e] = kir_cast(&s->d.b, (weft_dtype)n->dtype, y[e]);
}

static void iota(struct small *s, struct small_loop *f, const struct node *n) {
  struct axis_lines l = lines_of(n, axis_of(n));
  for (int64_t i = 0, count = node_count(n); i < count; i++)
    f->element[n->slot][i] = kir_cast(&s->d.b, (weft_dtype)n->dtype, kir_lit_int(s->d.k, WEFT_I64, i / l.behind % l.length));
}

/* ---- bodies ---- */

/* A leaf: a number, or a variable, which has its elements already; what is read once is read where it is needed. */
static void leaf(struct small *s, struct small_loop *f, const struct node *n) {
  if (n->op == &op_value && s->whole->is_once) return read(s, local_of(n)->leaf, node_count(n), f->element[n->slot]);
  for (int64_t i = 0, count = node_count(n); n->op == &op_scalar && i < count; i++)
    f->element[n->slot][i] = draft_number(&s->d, n);
}

/* Result k of a library op, or carry k of the loop inside. */
static void item(struct small_loop *f, const struct node *n) {
  const struct small_loop *in = f->inside[n->in[0]->slot];
  int k = ((const struct item_attr *)n->attr)->k;
  const int *from = f->element[n->in[0]->slot] + (in ? carried(in->b, k - in->b->loop->n_all) : results_before(n->in[0], k));
  memcpy(f->element[n->slot], from, sizeof *from * (size_t)node_count(n));
}

enum { MOST_OPERANDS = 8 }; /* and results, of a library op that has values */

static void library(struct small *s, struct small_loop *f, const struct node *n) {
  const int *in[MOST_OPERANDS];
  int *out[MOST_OPERANDS];
  for (int k = 0; k < n->n_in; k++) in[k] = f->element[n->in[k]->slot];
  for (int k = 0; k < n->op->many->count(n); k++) out[k] = f->element[n->slot] + results_before(n, k);
  n->op->library->values->write(&s->d.b, n, in, out);
}

static void write_loop(struct small *, struct small_loop *around, const struct node *loop);

static void write(struct small *s, struct small_loop *f, const struct node *n) {
  switch (n->op->kind) {
    case OP_LEAF: return leaf(s, f, n);
    case OP_VIEW: return view(f, n);
    case OP_ELEMENT: return element(s, f, n);
    case OP_SIZE: f->element[n->slot][0] = kir_lit_int(s->d.k, WEFT_I64, ((const struct size_attr *)n->attr)->size); return;
    case OP_IOTA: return iota(s, f, n);
    case OP_REDUCE: return reduce(s, f, n);
    case OP_PREFIX: return prefix(s, f, n);
    case OP_CONTRACT: return contract(s, f, n);
    case OP_CONCAT: return concat(f, n);
    case OP_PAD: return pad(f, n);
    case OP_PUT: return put(s, f, n);
    case OP_LOOP: return write_loop(s, f, n);
    case OP_ITEM: return item(f, n);
    case OP_TAKE: return take(s, f, n);
    case OP_SCATTER: return scatter(s, f, n);
    case OP_LIBRARY: return library(s, f, n);
    case OP_PAIR: case OP_IDENTITY: case OP_CALL: case OP_LATER: return;
  }
}

static void write_body(struct small *s, struct small_loop *f) {
  for (int i = 0; i < f->b->list.n; i++) if (f->is_needed[i]) write(s, f, f->b->list.node[i]);
}

static const int *target_of(const struct small_loop *f, int k) { return f->element[f->b->target[k]->slot]; }

/* What the carries are in a step: given to their variables. */
static void set_carries(struct small_loop *f, const int carry[]) {
  const struct loop *l = f->b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    int slot = f->var[l->n_seq + k];
    size_t n = (size_t)node_count(f->b->target[k]);
    if (slot >= 0) memcpy(f->element[slot], carry + carried(f->b, k), sizeof *carry * n);
  }
}

static void next_carries(const struct small_loop *f, int next[]) {
  for (int k = 0; k < f->b->loop->n_carry; k++)
    memcpy(next + carried(f->b, k), target_of(f, k), sizeof *next * (size_t)node_count(f->b->target[k]));
}

/* init becomes the carries of a loop that has just been opened. */
static void open_carries(struct small *s, struct small_loop *f, int carry[]) {
  for (int i = 0; i < f->n_carried; i++) carry[i] = kir_carry(&s->d.b, NULL, carry[i]);
  set_carries(f, carry);
}

/* The end of a step: its next carries and, if there is one, until. */
static void close_step(struct small *s, const struct small_loop *f, int n, const int carry[], const int next[]) {
  int stop = f->b->loop->until ? target_of(f, f->b->n_targets - 1)[0] : -1;
  if (!f->around && s->is_out >= 0) stop = stop < 0 ? s->is_out : kir_op2(&s->d.b, KIR_OR, stop, s->is_out);
  draft_next(&s->d, n, carry, next, stop);
  kir_end(&s->d.b);
}

/* One side of a choice: carry becomes next where it is chosen. */
static void write_branch(struct small *s, struct small_loop *f, int steps, int carry[]) {
  struct kir_builder *b = &s->d.b;
  int next[MOST_CARRIED + 1], is_chosen = kir_op2(b, KIR_LT, kir_lit_int(s->d.k, WEFT_I64, 0), steps);
  bool jumps = f->work > CHEAP;
  if (jumps) kir_if(b, is_chosen);
  set_carries(f, carry);
  write_body(s, f);
  next_carries(f, next);
  for (int i = 0; i < f->n_carried; i++)
    carry[i] = jumps ? kir_yield(b, next[i], carry[i]) : kir_op3(b, KIR_SELECT, is_chosen, next[i], carry[i]);
  if (jumps) kir_end(b);
}

/* A number of steps that is computed: each lane has its own, and leaves the loop when it has made them. */
static void open_loop(struct small *s, struct small_loop *around, const struct node *n, int carry[]) {
  struct small_loop *f = around->inside[n->slot];
  struct kir_builder *b = &s->d.b;
  bool is_known = dim_is_known(f->b->steps);
  int steps = is_known ? -1 : kir_cast(b, WEFT_I64, around->element[n->in[0]->slot][0]);
  bool leaves = s->lanes && !is_known;
  struct kir_lin most = leaves ? number(s, INT64_MAX) : is_known ? number(s, f->b->steps) : draft_lin(&s->d, steps);
  int u = kir_loop(b, KIR_SERIAL, "u", most);
  open_carries(s, f, carry);
  if (leaves) kir_until(b, kir_op2(b, KIR_LE, steps, u));
}

static void write_loop(struct small *s, struct small_loop *around, const struct node *n) {
  struct small_loop *f = around->inside[n->slot];
  const struct loop *l = f->b->loop;
  int *carry = around->element[n->slot], next[MOST_CARRIED + 1];
  for (int k = 0; k < body_variables(l); k++) {
    const struct node *x = n->in[l->has_steps + k];
    const int *from = around->element[x->slot];
    int *to = k < l->n_carry ? carry + carried(f->b, k) : is_read(f, k) ? f->element[f->var[k]] : NULL;
    if (to) memcpy(to, from, sizeof *to * (size_t)node_count(x));
  }
  if (l->is_branch) return write_branch(s, f, around->element[n->in[0]->slot][0], carry);
  open_loop(s, around, n, carry);
  write_body(s, f);
  next_carries(f, next);
  close_step(s, f, f->n_carried, carry, next);
}

/* ---- the kernel ---- */

static void read_variables(struct small *s, int first, int n) {
  for (int k = first; k < first + n; k++)
    if (is_read(s->top, k)) read(s, k, node_count(s->top->b->list.node[s->top->var[k]]), s->top->element[s->top->var[k]]);
}

static void store_outputs(struct small *s) {
  const struct body *b = s->top->b;
  for (int k = 0; k < b->loop->n_all; k++) {
    int at = b->loop->n_carry + k;
    for (int64_t i = 0, n = b->all[k] ? node_count(b->target[at]) : 0; i < n; i++)
      store(s, &s->all[k], s->whole->target[at], i, target_of(s->top, at)[i]);
  }
}

static void store_carries(struct small *s, const int carry[]) {
  const struct body *b = s->top->b;
  for (int k = 0; k < b->loop->n_carry; k++)
    for (int64_t i = 0, n = node_count(b->target[k]), first = carried(b, k); b->last[k] && i < n; i++)
      store(s, &s->last[k], s->whole->target[k], i, carry[first + i]);
}

static void lanes_alone(struct small *s) {
  s->lane = kir_loop(&s->d.b, KIR_LANE, "i", draft_lin(&s->d, s->size_n));
  write_body(s, s->top);
  store_outputs(s);
  kir_end(&s->d.b);
}

static void nest(struct small *s) {
  struct small_loop *f = s->top;
  const struct loop *l = f->b->loop;
  struct kir_builder *b = &s->d.b;
  int carry[MOST_CARRIED + 1], next[MOST_CARRIED + 1], n = f->n_carried;
  bool counts = s->length >= 0;
  if (s->count >= 0) s->size_t_ = kir_cast(b, WEFT_I64, kir_load(b, s->count, NULL));
  if (s->lanes) s->lane = kir_loop(b, KIR_LANE, "i", draft_lin(&s->d, s->size_n));
  read_variables(s, l->n_seq + l->n_carry, l->n_const);
  for (int k = 0; k < l->n_carry; k++) read(s, l->n_seq + k, node_count(f->b->target[k]), carry + carried(f->b, k));
  s->t = kir_loop(b, KIR_SERIAL, "t", draft_lin(&s->d, s->size_t_));
  open_carries(s, f, carry);
  if (counts) carry[n] = kir_carry(b, "steps", kir_lit_int(s->d.k, WEFT_I64, 0));
  read_variables(s, 0, l->n_seq);
  write_body(s, f);
  store_outputs(s);
  next_carries(f, next);
  if (counts) next[n] = kir_op2(b, KIR_ADD, carry[n], kir_lit_int(s->d.k, WEFT_I64, 1));
  close_step(s, f, n + counts, carry, next);
  store_carries(s, carry);
  if (counts) kir_store(b, s->length, NULL, KIR_SET, carry[n]);
  if (s->lanes) kir_end(b);
}

/* *done = false: too much for one kernel. */
static bool write_kernel(struct body *whole, struct small_loop *f, bool *done) {
  struct work *w = whole->w;
  const struct loop *l = whole->loop;
  struct small *s = work_take(w, sizeof *s);
  if (!s) return false;
  s->whole = whole;
  s->is_out = -1;
  s->top = f;
  s->lanes = f->lanes;
  s->in = work_take(w, sizeof *s->in * (size_t)(body_variables(l) + 1));
  s->all = work_take(w, sizeof *s->all * (size_t)(l->n_all + 1));
  s->last = work_take(w, sizeof *s->last * (size_t)(l->n_carry + 1));
  if (w->no_memory || !draft_begin(&s->d, w, whole->is_once ? "problems" : "scan_small")) return false;
  find_needed(f);
  declare_all(s);
  if (whole->is_once) lanes_alone(s);
  else nest(s);
  if (s->d.is_full) return draft_drop(&s->d), true;
  *done = true;
  return draft_end(&s->d);
}

/* Lanes only store what is theirs, and nobody counts for all of them. */
static bool gives_lanes(const struct body *b, int64_t lanes) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry + l->n_all; k++) {
    const struct node *x = b->target[k];
    bool is_wanted = k < l->n_carry ? b->last[k] != NULL : b->all[k - l->n_carry] != NULL;
    if (is_wanted && !(x->rank && x->dims[0] == lanes)) return false;
  }
  return !b->length;
}

/* Tries to write the loop with rows of a map side by side in so many lanes; 0: as one computation, without lanes. */
static bool attempt(struct body *whole, int64_t lanes, bool *done) {
  struct small_loop *f = work_take(whole->w, sizeof *f);
  struct body *b = work_take(whole->w, sizeof *b);
  struct node **target = work_take(whole->w, sizeof *target * (size_t)(whole->n_targets + 1));
  bool fits = true;
  if (!f || !b || !target) return false;
  *b = *whole;
  b->target = memcpy(target, whole->target, sizeof *target * (size_t)whole->n_targets);
  *f = (struct small_loop){ .b = b, .lanes = lanes };
  if (lanes && !body_lane(b, lanes, &fits)) return false;
  if (fits && !frame_take(whole->w, f, &fits)) return false;
  return !fits || write_kernel(whole, f, done);
}

/* The first axis of the carries, if it is more than 1. */
static int64_t lanes_of(const struct body *b) {
  const struct loop *l = b->loop;
  for (int k = 0; k < l->n_carry; k++) {
    const struct node *x = b->in_node[l->n_seq + k];
    if (x->rank) return x->dims[0] > 1 ? x->dims[0] : 0;
  }
  return 0;
}

bool scan_small(struct body *b, bool *done) {
  int64_t lanes = lanes_of(b);
  if (lanes && gives_lanes(b, lanes) && !attempt(b, lanes, done)) return false;
  return *done || attempt(b, 0, done);
}

bool small_lanes(struct body *b, int64_t lanes, bool *done) { return attempt(b, lanes, done); }
