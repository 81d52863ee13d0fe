/* emit_form.c -- which of its two forms a kernel has, which axis its inner loops go along, the phase of each value, and whether
 * folds of few long rows or columns are cut into spans that threads share. Shapes alone decide, so that bits do. */
#include <stdlib.h>
#include <string.h>
#include "schedule/emit.h"

enum {
  LONG_ROW = 32768, LONG_COLUMN = 8192,   /* folds with few results that are longer than this are cut into spans */
  ROWS_APART = 8, LEAST_SHARED = 1024,    /* of views that share rows: how far they are apart, and elements of a row */
  DEVICE_COLUMNS = 1 << 17, DEVICE_ROWS = 1024, /* on a device: fewer leave most of its threads without work */
  FEW_ROWS = 16, FEW_COLUMNS = 1024,
  MANY_COLUMNS = 65536, LARGE = 1 << 22   /* arrays beyond caches are folded row by row, if a row of sums fits one */
};

void emit_stored_strides(const struct part *p, int64_t stride[]);

bool emit_all_move(struct emit *e, int axis) { /* all that is stored differs along it */
  int64_t s[AXES];
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && (emit_stored_strides(&e->part[i], s), !s[axis])) return false;
  return true;
}

static bool moves_along(const struct part *p, int axis) {
  bool moves = false;
  for (int k = 0; k < p->node->rank; k++) moves |= emit_axis_at(p, k) == axis;
  return moves;
}

/* Folds along the axis are stored, and nothing comes after them. What else is stored moves along it: parts of the axis, each by
 * itself, would all store what does not. */
static bool ends_in_folds(const struct emit *e, int axis) {
  for (int i = 0; i < e->n_parts; i++) {
    const struct part *p = &e->part[i];
    if (p->item->is_stored && !emit_is_fold(p) && !moves_along(p, axis)) return false;
    if (p->node->op->kind == OP_PREFIX || (emit_is_fold(p) && (p->node->op->fold->n || !p->item->is_stored))) return false;
    for (int k = 0; k < p->n_in; k++)
      if (p->in[k].from == FROM_PART && emit_is_fold(&e->part[p->in[k].i])) return false;
  }
  return true;
}

/* Columns of a large matrix: memory is faster along its rows. Blocks of 128 have the bits of the plain fold. */
bool columns_go_by_rows(const struct work *w, const struct group *g) {
  int64_t n;
  return w->by_patches && g->n_axes == 2 && g->column == 0 && !g->product && g->extent[0] >= 4 * KIR_COLUMN_BLOCK &&
         g->extent[1] >= FEW_COLUMNS && g->extent[1] <= MANY_COLUMNS &&
         (__builtin_mul_overflow(g->extent[0], g->extent[1], &n) || n >= LARGE);
}

/* The piece has its neighbours along the axis of the lanes. */
static void lay_out_piece(struct emit *e) {
  struct maker *m = e->maker;
  e->inner = m->is_by_rows ? m->column_axis : m->row_axis;
  for (int i = 0; i < e->n_parts; i++) {
    struct item *x = e->part[i].item;
    for (int k = 0; x->is_stored && k < x->node->rank; k++) x->place.stride[k] = x->ax[k] == e->inner ? 1 : 2; /* 2: any */
  }
}

/* Lanes run along a much longer axis where they are fewer than a vector has; of a product on a device along the longest, where
 * they are fewer than tiles are worth while for. */
static void lengthen_lanes(struct emit *e) {
  const struct group *g = e->g;
  bool is_product = work_is_for_device(e->w) && g->is_tiled;
  int last = g->n_axes - 1, enough = is_product ? 32 : 16;
  if (g->lane >= 0 || last < 0 || g->extent[last] >= enough || !emit_all_move(e, last)) return;
  if (work_is_for_device(e->w) && !is_product) return; /* its threads go along several axes at a time, neighbours first */
  for (int a = 0; a <= last; a++)
    if (is_product ? g->extent[a] >= g->extent[e->inner] : g->extent[a] > 4 * g->extent[e->inner]) e->inner = a;
}

void emit_choose_form(struct emit *e) {
  struct group *g = e->g;
  int last = g->n_axes - 1;
  bool is_by_rows = columns_go_by_rows(e->w, g) && ends_in_folds(e, g->column);
  e->form = !g->has_row && g->column >= 0 && !is_by_rows ? FORM_COLUMNS : FORM_ROWS;
  e->lane = e->column = -1;
  if (e->form == FORM_COLUMNS) {
    e->inner = g->column;
    for (int a = 0; a <= last; a++) if (a != g->column) e->lane = a;
  } else {
    e->inner = g->lane >= 0 ? g->lane : last;
    e->column = g->column;
    if (e->maker) lay_out_piece(e);
    else lengthen_lanes(e);
    e->is_private = e->column >= 0 && g->n_axes == 2;
  }
  memcpy(e->axes.extent, g->extent, sizeof e->axes.extent);
  for (int a = 0; a <= last; a++) e->axes.live[e->axes.n_live++] = a;
}

/* The axis of the group an axis of the node moves along; -1: length 1. */
int emit_axis_at(const struct part *p, int64_t k) { return p->node->dims[k] == 1 ? -1 : p->item->ax[k]; }

static bool varies(struct emit *e, struct part *p) {
  struct node *n = p->node;
  if (e->inner < 0 || emit_is_fold(p)) return false;
  if ((n->op->kind == OP_PREFIX || n->op->kind == OP_IOTA) && emit_axis_at(p, emit_own_axis(p)) == e->inner) return true;
  if (n->op->kind == OP_PAD && emit_axis_at(p, ((const struct pad_attr *)n->attr)->axis) == e->inner) return true;
  for (int k = 0; k < p->n_in; k++) {
    if (p->in[k].from == FROM_ACCESS && e->access[p->in[k].i].is_inner) return true;
    if (p->in[k].from == FROM_PART && e->part[p->in[k].i].is_inner) return true;
  }
  return false;
}

void emit_find_phases(struct emit *e) {
  e->n_phases = 1;
  for (int i = 0; i < e->n_access; i++) e->access[i].is_inner = e->inner >= 0 && e->access[i].stride[e->inner] != 0;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    for (int k = 0; k < p->n_in; k++)
      if (p->in[k].from == FROM_PART && e->part[p->in[k].i].phase > p->phase) p->phase = e->part[p->in[k].i].phase;
    p->fold_phase = p->phase;
    p->is_inner = varies(e, p);
    if (emit_runs_inside(e, p)) p->phase++;
    if (p->phase >= e->n_phases) e->n_phases = p->phase + 1;
  }
}

/* Strides of a stored value, by axis of the group. */
void emit_stored_strides(const struct part *p, int64_t stride[]) {
  memset(stride, 0, sizeof *stride * AXES);
  for (int k = 0; k < p->node->rank; k++)
    if (p->item->ax[k] >= 0 && p->node->dims[k] != 1) stride[(int)p->item->ax[k]] = p->item->place.stride[k];
}

/* Both read one array, and rows of one, along a, are rows of the other. */
static bool share_rows(const struct emit *e, const struct emit_access *x, const struct emit_access *y, int a) {
  int64_t row = llabs(x->stride[a]), apart = llabs(x->offset - y->offset);
  if (x->store != y->store || x->dtype != y->dtype || x->n_index || y->n_index) return false;
  if (memcmp(x->stride, y->stride, sizeof x->stride)) return false;
  int64_t rows = row ? (apart + row / 2) / row : 0;
  return rows && rows <= ROWS_APART && rows < e->axes.extent[a];
}

/* On a device elements are read more than once where views of one array are a few rows apart: there a block of threads has several
 * rows (backend/cuda/gpu_tall.c), which stay an axis of their own. Short ones stand in one block anyway. */
static bool reads_rows_again(const struct emit *e, int a, int b) {
  bool has_rows = work_is_for_device(e->w) && b == e->inner && e->form == FORM_ROWS && !e->g->has_row && e->column < 0;
  if (!has_rows || e->maker || e->product || e->axes.extent[b] < LEAST_SHARED) return false;
  for (int i = 0; i < e->n_access; i++)
    for (int j = 0; j < i; j++) if (share_rows(e, &e->access[i], &e->access[j], a)) return true;
  return false;
}

/* Everything walks through the neighbours a, b as through one axis. */
bool emit_may_merge(void *emit, int a, int b) {
  struct emit *e = emit;
  int64_t s[AXES], n = e->axes.extent[b];
  bool is_special = a == e->column || b == e->column || a == e->lane || a == e->inner;
  if (e->g->pinned[a] || e->g->pinned[b] || is_special || reads_rows_again(e, a, b)) return false;
  for (int i = 0; i < e->n_access; i++) if (e->access[i].stride[a] != e->access[i].stride[b] * n) return false;
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && (emit_stored_strides(&e->part[i], s), s[a] != s[b] * n)) return false;
  return true;
}

/* The same on a device: of columns, every block of 128 may have threads of its own. */
static bool is_narrow_there(bool is_columns, int64_t around, int64_t lanes, int64_t n) {
  int64_t all;
  if (__builtin_mul_overflow(around, lanes, &all)) return false;
  return is_columns ? all < DEVICE_COLUMNS && n >= 4 * KIR_COLUMN_BLOCK : around < DEVICE_ROWS && n > LONG_ROW;
}

bool fold_is_narrow(const struct work *w, bool is_columns, int64_t around, int64_t lanes, int64_t n) {
  if (!w->by_patches) return is_narrow_there(is_columns, around, lanes, n);
  if (around >= FEW_ROWS) return false;
  return is_columns ? lanes <= FEW_COLUMNS && n > LONG_COLUMN : n > LONG_ROW;
}

static bool is_narrow(const struct emit *e) {
  bool is_columns = e->form == FORM_COLUMNS;
  int64_t around = 1;
  if (e->inner < 0 || e->column >= 0 || (!is_columns && !e->g->has_row)) return false;
  for (int i = 0; i < e->axes.n_live; i++) {
    int a = e->axes.live[i];
    if (a != e->inner && a != e->lane && __builtin_mul_overflow(around, e->axes.extent[a], &around)) return false;
  }
  return fold_is_narrow(e->w, is_columns, around, e->lane >= 0 ? e->axes.extent[e->lane] : 1, e->axes.extent[e->inner]);
}

/* Folds of a few long rows or columns, stored and nothing else: spans for threads, combined in the order of the plain fold. */
bool emit_splits(struct emit *e) { return is_narrow(e) && ends_in_folds(e, e->inner); }
