/* prefix_kernel.c -- running combines along rows, rows side by side in the lanes: each goes through its own elements in order.
 * Rows longer than a block of 4096 take three kernels a piece: the totals of the blocks, these chained in order, and each
 * block again on top of what comes before it. The same bits as one loop over a row, by lanes and threads. On a device rows are
 * par loops and lanes go along them: neighbours are read together, and all blocks of a row at once. Few long columns are done there
 * as rows are here: lanes go across them, whose neighbours are neighbours in memory, and each goes through its own elements. */
#include <string.h>
#include "schedule/draft.h"

enum { ENOUGH = 16, SHORT = 16, LEAD = AXES - 2 }; /* rows or blocks that fill a vector of 64 bytes;
                                      shorter rows are not worth turning round in registers; most axes of rows */
enum { PIECE = 256, PIECES = 16 }; /* blocks of a piece, at least: 4 MiB of f32, which the last cache keeps; pieces of a row, at
                                      most: each is three steps of the plan */

static int axis_of(const struct node *n) { return ((const struct axis_attr *)n->attr)->axis; }

/* Columns of a device that a thread each would leave without work, and that are long: of more, memory is what they wait for, and
 * blocks are read twice. Not measured on a GPU. */
enum { FEW_COLUMNS = 16384, LONG_COLUMN = 512 };

void prefix_look(const struct work *w, struct node *n) {
  if (n->op->kind != OP_PREFIX || !work_is_for_device(w)) return;
  int axis = axis_of(n), others = 0, behind = 0;
  for (int k = 0; k < n->rank; k++) others += k != axis && n->dims[k] != 1;
  for (int k = axis + 1; k < n->rank; k++) behind += n->dims[k] != 1;
  if (!behind || others > LEAD || n->dims[axis] < LONG_COLUMN || !node_count(n)) return;
  local_of(n)->is_by_columns = node_count(n) / n->dims[axis] <= FEW_COLUMNS;
}

/* Many rows or blocks, and the axis is the last; or columns of that kind. */
bool prefix_is_apart(const struct node *n) {
  if (n->op->kind != OP_PREFIX) return false;
  if (local_of(n)->is_by_columns) return true;
  int axis = axis_of(n), lead = 0;
  for (int k = axis + 1; k < n->rank; k++) if (n->dims[k] != 1) return false;
  for (int k = 0; k < axis; k++) lead += n->dims[k] != 1;
  if (lead > LEAD || n->dims[axis] < SHORT) return false;
  int64_t blocks = (n->dims[axis] + KIR_ROW_BLOCK - 1) / KIR_ROW_BLOCK;
  return node_count(n) / n->dims[axis] * blocks >= ENOUGH;
}

struct lines {                    /* elements in memory: strides of the rows' axes and blocks, and along a row */
  int store;                      /* -1: none */
  int64_t offset, stride[AXES], step;
  weft_dtype dtype;
  int buf;
};

struct row_piece { int64_t from, n; }; /* blocks of a row */

struct prefix {
  struct work *w;
  enum kir_op op;
  weft_dtype memory, value;       /* of x and y; of what is computed */
  struct axes rows;
  int lead;                       /* so many of their axes stand before the one that is gone along: all, or it is columns */
  int64_t n, blocks;              /* elements of a row; whole blocks */
};

/* One kernel over rows: y = before o (x so far), or only the total. */
struct prefix_draft {
  struct draft d;
  struct axes axes;
  struct lines x, y, before, total;
  int i;                          /* the position in the row, once it is gone along */
  bool is_along;                  /* lanes go along the row, not across rows */
};

static struct lines none(void) { return (struct lines){ .store = -1 }; }

static bool may_merge(void *of, int a, int b) {
  const struct prefix_draft *r = of;
  const struct lines *all[] = { &r->x, &r->y, &r->before, &r->total };
  for (int i = 0; i < 4; i++)
    if (all[i]->store >= 0 && all[i]->stride[a] != all[i]->stride[b] * r->axes.extent[b]) return false;
  return true;
}

static void declare(struct prefix_draft *r, struct lines *l, const char *name, enum kir_buf_kind kind, int size) {
  struct reach x = { .store = l->store, .offset = l->offset };
  if (l->store < 0) return;
  axes_reach(&r->axes, &r->d, l->stride, &x);
  if (l->step) reach_along(&x, draft_lin(&r->d, size), l->step);
  l->buf = draft_buffer(&r->d, name, kind, l->dtype, &x);
}

static void subscripts(struct prefix_draft *r, const struct lines *l, struct kir_lin at[]) {
  int n = axes_subscripts(&r->axes, &r->d, l->stride, 0, at);
  if (l->step) at[n] = draft_lin(&r->d, r->i);
}

static int load(struct prefix_draft *r, const struct lines *l) {
  struct kir_lin at[AXES + 1];
  subscripts(r, l, at);
  return kir_load(&r->d.b, l->buf, at);
}

static void store(struct prefix_draft *r, const struct lines *l, int value) {
  struct kir_lin at[AXES + 1];
  subscripts(r, l, at);
  kir_store(&r->d.b, l->buf, at, KIR_SET, kir_cast(&r->d.b, l->dtype, value));
}

static bool begin(struct prefix *p, struct prefix_draft *r, const char *name, int64_t n) {
  static const char *const sizes[] = { "A", "B", "C", "D", "E", "F", "G", "H" },
                    *const vars[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
  struct axes *x = &r->axes;
  axes_merge(x, may_merge, r);
  if (!draft_begin(&r->d, p->w, name)) return false;
  int size = draft_size(&r->d, "N", n);
  for (int i = 0; i < x->n_live; i++) x->size[x->live[i]] = draft_size(&r->d, sizes[i], x->extent[x->live[i]]);
  declare(r, &r->x, "x", KIR_IN, size);
  declare(r, &r->before, "before", KIR_IN, size);
  declare(r, &r->y, "y", KIR_OUT, size);
  declare(r, &r->total, "total", KIR_OUT, size);
  for (int i = 0; i < x->n_live; i++)
    x->var[x->live[i]] = kir_loop(&r->d.b, i == x->n_live - 1 && !r->is_along ? KIR_LANE : KIR_PAR, vars[i],
                                  draft_lin(&r->d, x->size[x->live[i]]));
  r->i = size;
  return true;
}

static bool end(struct prefix_draft *r) {
  for (int i = 0; i < r->axes.n_live; i++) kir_end(&r->d.b);
  return draft_end(&r->d);
}

/* Before the first element is the neutral value, with which every element stands alone. */
static int neutral(struct prefix *p, struct prefix_draft *r) { return kir_lit(r->d.k, p->value, kir_neutral(p->op, p->value)); }
static int open_row(struct prefix_draft *r, int before) {
  r->i = kir_loop(&r->d.b, KIR_SERIAL, "i", draft_lin(&r->d, r->i));
  return kir_carry(&r->d.b, "so_far", before);
}

/* The same with lanes along the row, which is no longer than a block. */
static bool run_along(struct prefix *p, struct prefix_draft *r, const char *name, int64_t n) {
  r->is_along = true;
  if (!begin(p, r, name, n)) return false;
  struct kir_builder *b = &r->d.b;
  int before = r->before.store >= 0 ? load(r, &r->before) : -1;
  r->i = kir_loop(b, KIR_LANE, "i", draft_lin(&r->d, r->i));
  int so_far = kir_prefix(b, p->op, load(r, &r->x));
  if (r->y.store >= 0) store(r, &r->y, before < 0 ? so_far : kir_op2(b, p->op, before, so_far));
  kir_end(b);
  if (r->total.store >= 0) store(r, &r->total, so_far);
  return end(r);
}

/* The first n elements of each line, from left to right. */
static bool run(struct prefix *p, struct prefix_draft *r, const char *name, int64_t n) {
  if (!n) return true;
  if (!p->w->by_patches && p->lead == p->rows.n_live) return run_along(p, r, name, n);
  if (!begin(p, r, name, n)) return false;
  struct kir_builder *b = &r->d.b;
  int before = r->before.store >= 0 ? load(r, &r->before) : -1, a = open_row(r, neutral(p, r));
  int next = kir_op2(b, p->op, a, load(r, &r->x));
  if (r->y.store >= 0) store(r, &r->y, before < 0 ? next : kir_op2(b, p->op, before, next));
  kir_next(b, 1, &a, &next);
  kir_end(b);
  if (r->total.store >= 0) store(r, &r->total, a);
  return end(r);
}

/* The same lines without their first n elements, and element n of each line alone. */
static struct lines after(struct lines l, int64_t n) {
  l.offset += n * l.step;
  return l;
}
static struct lines at(struct lines l, int64_t n) {
  l = after(l, n);
  l.step = 0;
  return l;
}

/* y[q] = x[0] .. x[q-1] combined in order, for the q of a piece and the one behind it. What is before the first piece is
 * the neutral value; later ones find it where the one before has left it. */
static bool chain(struct prefix *p, struct lines x, struct lines y, struct row_piece of) {
  bool is_first = of.from == 0;
  struct prefix_draft r = { .axes = p->rows, .x = after(x, of.from), .y = after(y, of.from + !is_first),
                       .before = is_first ? none() : at(y, of.from), .total = is_first ? at(y, of.n) : none() };
  if (!begin(p, &r, "prefix_chain", of.n)) return false;
  int a = open_row(&r, is_first ? neutral(p, &r) : load(&r, &r.before));
  if (is_first) store(&r, &r.y, a);
  int next = kir_op2(&r.d.b, p->op, a, load(&r, &r.x));
  if (!is_first) store(&r, &r.y, next);
  kir_next(&r.d.b, 1, &a, &next);
  kir_end(&r.d.b);
  if (is_first) store(&r, &r.total, a);
  return end(&r);
}

/* The lines of a piece as blocks: one axis more. */
static struct lines in_blocks(const struct prefix *p, struct lines l, struct row_piece of) {
  l = after(l, of.from * KIR_ROW_BLOCK);
  l.stride[p->rows.n_live] = l.step * KIR_ROW_BLOCK;
  return l;
}
static struct lines by_block(const struct prefix *p, struct lines l, struct row_piece of) { /* one element a block */
  l = after(l, of.from);
  l.stride[p->rows.n_live] = l.step;
  l.step = 0;
  return l;
}
static struct axes with_blocks(const struct prefix *p, struct row_piece of) {
  struct axes x = p->rows;
  for (int i = x.n_live; i > p->lead; i--) x.live[i] = x.live[i - 1]; /* columns stay what is innermost */
  x.live[p->lead] = x.n_live;
  x.extent[x.n_live++] = of.n;
  return x;
}

/* Dense, an element a block and one more for each row. */
static struct lines lines_new(struct prefix *p) {
  struct lines l = { .dtype = p->value, .step = 1 };
  int64_t n = 1;
  for (int i = p->rows.n_live - 1; i >= 0; i--) {
    if (i == p->lead - 1) l.step = n, n *= p->blocks + 1;
    l.stride[i] = n;
    n *= p->rows.extent[i];
  }
  if (!p->lead) l.step = n, n *= p->blocks + 1;
  l.store = store_new(p->w, n * (int64_t)weft_dtype_bytes(p->value));
  return l;
}

static bool run_piece(struct prefix *p, struct lines x, struct lines y, struct lines total, struct lines before,
                      struct row_piece of) {
  struct prefix_draft of_blocks = { .axes = with_blocks(p, of), .x = in_blocks(p, x, of), .y = none(),
                               .before = none(), .total = by_block(p, total, of) },
                 again = { .axes = with_blocks(p, of), .x = in_blocks(p, x, of), .y = in_blocks(p, y, of),
                           .before = by_block(p, before, of), .total = none() };
  bool ok = run(p, &of_blocks, "prefix_totals", KIR_ROW_BLOCK) && chain(p, total, before, of) &&
            run(p, &again, "prefix_apply", KIR_ROW_BLOCK);
  if (ok) p->w->out->step[p->w->out->n_steps - 1].parts = p->blocks / of.n;
  return ok;
}

/* A row that does not fit the caches goes piece by piece: then its blocks are there when they are read again. Not one that was
 * computed, in whose memory the result may stand if a single step writes it. */
static int64_t longest_piece(const struct prefix *p, const struct lines *x) {
  int64_t n = (p->blocks + PIECES - 1) / PIECES;
  return p->rows.n_live || p->w->out->store[x->store].leaf < 0 || !p->w->by_patches ? p->blocks : n < PIECE ? PIECE : n;
}

static bool long_rows(struct prefix *p, struct lines x, struct lines y) {
  struct lines total = lines_new(p), before = lines_new(p);
  int64_t most = longest_piece(p, &x);
  if (p->w->no_memory) return false;
  for (int64_t from = 0; from < p->blocks; from += most) {
    struct row_piece of = { from, p->blocks - from < most ? p->blocks - from : most };
    if (!run_piece(p, x, y, total, before, of)) return false;
  }
  struct prefix_draft rest = { .axes = p->rows, .x = after(x, p->blocks * KIR_ROW_BLOCK), .y = after(y, p->blocks * KIR_ROW_BLOCK),
                          .before = at(before, p->blocks), .total = none() };
  return run(p, &rest, "prefix_rest", p->n - p->blocks * KIR_ROW_BLOCK);
}

/* The axes of the rows, and the lines of an array of them. */
static void find_rows(struct prefix *p, const struct node *n) {
  for (int k = 0; k < n->rank; k++) {
    if (k == axis_of(n)) p->lead = p->rows.n_live;
    if (k == axis_of(n) || n->dims[k] == 1) continue;
    p->rows.live[p->rows.n_live] = p->rows.n_live;
    p->rows.extent[p->rows.n_live++] = n->dims[k];
  }
}
static struct lines lines_of(const struct prefix *p, const struct node *n, const struct place *at) {
  struct lines l = { .store = at->store, .offset = at->offset, .step = at->stride[axis_of(n)], .dtype = p->memory };
  for (int k = 0, a = 0; k < n->rank; k++) if (k != axis_of(n) && n->dims[k] != 1) l.stride[a++] = at->stride[k];
  return l;
}

bool step_prefix(struct work *w, struct node *n) {
  struct place in, *out = &w->item[n->slot].place;
  struct prefix p = { .w = w, .op = n->op->fold->op, .memory = (weft_dtype)n->dtype, .value = kir_register_of((weft_dtype)n->dtype),
                      .n = n->dims[axis_of(n)] };
  if (!place_needed(w, n->in[0], &in)) return false;
  find_rows(&p, n);
  struct lines x = lines_of(&p, n, &in), y = lines_of(&p, n, out);
  p.blocks = p.n / KIR_ROW_BLOCK;
  double times = p.n > KIR_ROW_BLOCK ? 2 : 1; /* x is read */
  struct prefix_draft r = { .axes = p.rows, .x = x, .y = y, .before = none(), .total = none() };
  if (!(p.n > KIR_ROW_BLOCK ? long_rows(&p, x, y) : run(&p, &r, "prefix", p.n))) return false;
  double count = (double)node_count(n);
  return step_add_cost(w, (times + 1) * count * (double)weft_dtype_bytes(p.memory), times * count, 1), true;
}
