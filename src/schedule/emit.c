/* emit.c -- writes the kernel of a group.
 *
 * The nest, from outside in: par loops; a loop over the column axis if row folds end in column folds; in column form the
 * lane loop; then the inner loops, one a phase. A value's phase is the number of folds along the longest path to it; the
 * results of the folds of phase p are values of phase p + 1. Values that vary along the inner axis are computed in the
 * inner loop of the first phase that needs them and kept for later ones (rows) or computed again (columns, or rows too
 * long to keep); all others stand between the inner loops. */
#include <string.h>
#include "backend/patch.h"
#include "schedule/draft.h"

enum {
  KEEP_LIMIT = 16384,   /* longer rows are loaded and computed again, unless a device has room to keep them */
  ROW_SPAN = 4 * KIR_ROW_BLOCK, COLUMN_SPAN = 16 * KIR_COLUMN_BLOCK, /* pieces for threads of folds with few results: nodes
                                             of the tree of blocks, so bits stay .. */
  LONG_ROW = 32768, LONG_COLUMN = 8192,   /* .. that are longer than this */
  DEVICE_COLUMNS = 1 << 17, DEVICE_ROWS = 1024, /* on a device: fewer leave most of its threads without work */
  FEW_ROWS = 16, FEW_COLUMNS = 1024,
  MANY_COLUMNS = 65536, LARGE = 1 << 22,  /* arrays beyond caches are folded row by row, if a row of sums fits one */
  MOST_OPERANDS = 9, MOST_ACCESSES = 40
};

/* Something read from memory: a place, with a stride for each axis of the group. */
struct emit_access {
  int store;
  int64_t offset, stride[AXES];
  weft_dtype dtype;
  int n_index;                            /* axes indexed by values (take), shifted (pad) or contracted (matmul) */
  int64_t index_stride[AXES], index_size[AXES];
  int index_val[AXES];                    /* those sizes, as values of the kernel */
  int buf, value;                         /* value -1: not loaded in the open blocks */
  int kept_from, kept_to;                 /* phases that make it, and that use it last */
  bool is_inner, is_kept, need, need_mid;
};

enum form { FORM_ROWS, FORM_COLUMNS };     /* phases in lane loops; in serial loops inside a lane loop */

enum from { FROM_PART, FROM_ACCESS, FROM_SCALAR };
struct operand_source { enum from from; int i; };

struct part {                             /* an item of the group, being emitted */
  struct item *item;
  struct node *node;
  int n_in;
  struct operand_source in[MOST_OPERANDS];
  int value;                              /* -1: not computed in the open blocks */
  int phase, fold_phase;                  /* of the value; of the inner loop a fold runs in */
  int kept_from, kept_to;                 /* as of struct emit_access */
  bool is_inner, is_kept, need, need_mid, is_stored_already;
  int result[4];                          /* folds: before finishing */
  int buf;                                /* stored: its kernel buffer */
  int fn;                                 /* tuple folds: the fn that combines */
  int size;                               /* sizes: the value, 0: none yet */
};

struct emit {
  struct work *w;
  struct group *g;
  struct draft d;
  enum form form;
  int inner;                              /* axis of the inner loops, or -1 */
  int lane;                               /* column form: the lane axis beside, or -1 */
  int column;                             /* rows form: axis of folds that end here, or -1 */
  bool is_private, is_split;              /* column folds through private copies; folds cut into spans */
  struct axes axes;
  int block_var;                          /* is_split: the variable of the spans */
  struct emit_access access[MOST_ACCESSES];
  struct part *part;
  int n_access, n_parts, n_phases;
  bool keeps;                             /* values of one phase that a later one uses again */
  int first[AXES];                        /* the size where a cell or piece begins, as a value; -1: none yet */
  struct contraction *product;            /* by patches; its value is loaded, from a cell */
  int cell;                               /* that access */
  struct maker *maker;                    /* the result is an operand of a product, and made piece by piece */
  int *start;                             /* by axis: where a cell or piece begins is a size of this number; NULL: at 0 */
};

/* ---- operands ---- */

static bool reject(struct emit *e, const struct node *n, const char *why) {
  return work_fail(e->w, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_%s: %s", n->op->name, why));
}

static bool crowded(struct emit *e) { return e->w->is_crowded = true, false; }

static int part_of(struct emit *e, int slot) {
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].node->slot == slot) return i;
  return -1;
}

static bool same_access(const struct emit_access *a, const struct emit_access *b) {
  return a->store == b->store && a->offset == b->offset && a->dtype == b->dtype && a->n_index == b->n_index &&
         !memcmp(a->index_stride, b->index_stride, sizeof a->index_stride) &&
         !memcmp(a->index_size, b->index_size, sizeof a->index_size) && !memcmp(a->stride, b->stride, sizeof a->stride);
}

static int access_add(struct emit *e, const struct emit_access *a) {
  for (int i = 0; i < e->n_access && !a->n_index; i++) if (same_access(&e->access[i], a)) return i;
  if (e->n_access == MOST_ACCESSES) return crowded(e), -1;
  e->access[e->n_access] = *a;
  return e->n_access++;
}

/* The operand stands in memory: strides of its axes become strides of the group's, but for those read by index. -1: it
 * has no place, or there are too many. */
enum { BY_INDEX = -2 };
static int access_of(struct emit *e, const struct node *x, const int axis_of[]) {
  struct place p;
  struct emit_access a = { .value = -1, .dtype = (weft_dtype)x->dtype, .buf = -1 };
  if (!place_needed(e->w, x, &p)) return -1;
  bool is_empty = !node_count(x); /* then it is read inside the loop that does not run, even if it stands still */
  a.store = p.store;
  a.offset = p.offset;
  for (int k = 0; k < x->rank; k++) {
    if (axis_of[k] == BY_INDEX) {
      if (a.n_index == AXES) return crowded(e), -1;
      a.index_stride[a.n_index] = p.stride[k];
      a.index_size[a.n_index++] = x->dims[k];
    } else if (x->dims[k] != 1 && axis_of[k] >= 0) a.stride[axis_of[k]] += p.stride[k] || !is_empty ? p.stride[k] : 1;
  }
  return access_add(e, &a);
}

const struct node *scalar_of(const struct node *x) {
  while (x->op->kind == OP_VIEW) x = x->in[0];
  return x->op == &op_scalar ? x : NULL;
}

/* Axes of the group for the axes of operand k of n. */
static void operand_axes(const struct node *n, int k, const int8_t ax[], int of[]) {
  const struct node *x = n->in[k];
  for (int j = 0; j < x->rank; j++) of[j] = ax[j];
  if (n->op->kind == OP_TAKE && k == 0) {
    int lead = ((const struct take_attr *)n->attr)->n, shared = n->rank - (x->rank - lead);
    for (int j = 0; j < x->rank; j++) of[j] = j < lead ? BY_INDEX : ax[shared + j - lead];
  }
  if (n->op->kind == OP_PAD && k == 0) of[((const struct pad_attr *)n->attr)->axis] = BY_INDEX;
  if (n->op->kind == OP_CONTRACT) of[x->rank - (k == 0 ? 1 : 2)] = BY_INDEX;
}

static bool find_operand(struct emit *e, struct part *p, int k) {
  struct node *n = p->node, *x = n->in[k];
  int of[WEFT_RANK_MAX], q = part_of(e, edge_of(x).base->slot);
  if (q >= 0) return p->in[k] = (struct operand_source){ FROM_PART, q }, true;
  if (scalar_of(x)) return p->in[k] = (struct operand_source){ FROM_SCALAR, 0 }, true;
  operand_axes(n, k, p->item->ax, of);
  p->in[k] = (struct operand_source){ FROM_ACCESS, access_of(e, x, of) };
  return p->in[k].i >= 0;
}

static int own_axis(const struct part *p) { return ((const struct axis_attr *)p->node->attr)->axis; }
static int folded(const struct part *p) { /* axis of the group; -1: length 1 */
  return p->node->in[0]->dims[own_axis(p)] == 1 ? -1 : p->item->ax[own_axis(p)];
}
/* A fold over an axis of length 1 is none: it varies with its operand, element by element. */
static bool is_fold(const struct part *p) { return p->node->op->kind == OP_REDUCE && folded(p) >= 0; }
static bool runs_inside(const struct emit *e, const struct part *p) { return is_fold(p) && folded(p) == e->inner; }
static bool is_sink(const struct emit *e, const struct part *p) { return is_fold(p) && folded(p) != e->inner; }

static void sort_ints(int *v, int n) { /* insertion: nearly sorted already */
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
      int t = v[j];
      v[j] = v[j - 1], v[j - 1] = t;
    }
}

/* The value of a product by patches is loaded from a cell of it, whose rows or columns are neighbours. */
static void read_cell(struct emit *e, struct part *p) {
  struct emit_access a = { .store = -1, .value = -1, .dtype = kir_register_of((weft_dtype)p->node->in[0]->dtype), .buf = -1 };
  const struct contraction *c = e->product;
  if (c->row_axis >= 0) a.stride[c->row_axis] = c->is_turned ? 1 : 2; /* 2: any */
  if (c->column_axis >= 0) a.stride[c->column_axis] = c->is_turned ? 2 : 1;
  p->n_in = 1;
  p->in[0] = (struct operand_source){ FROM_ACCESS, e->cell = access_add(e, &a) };
}

static bool collect(struct emit *e) {
  struct group *g = e->g;
  e->part = work_take(e->w, sizeof *e->part * (size_t)(g->n_items + 1));
  if (!e->part) return false;
  sort_ints(g->item, g->n_items);
  for (int i = 0; i < g->n_items; i++) {
    struct item *x = &e->w->item[g->item[i]];
    e->part[e->n_parts++] = (struct part){ .item = x, .node = x->node, .n_in = x->node->n_in, .value = -1, .buf = -1 };
  }
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    bool is_product = p->node == e->g->product;
    if (p->node->n_in > MOST_OPERANDS && !is_product) return reject(e, p->node, "more than 8 index arrays");
    if (is_product) read_cell(e, p);
    else for (int k = 0; k < p->n_in; k++) if (!find_operand(e, p, k)) return false;
  }
  return true;
}

/* ---- form, phases, axes ---- */

static void stored_strides(const struct part *p, int64_t stride[]);

static bool all_move(struct emit *e, int axis) { /* all that is stored differs along it */
  int64_t s[AXES];
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && (stored_strides(&e->part[i], s), !s[axis])) return false;
  return true;
}

/* Folds are stored, and nothing comes after them. */
static bool ends_in_folds(const struct emit *e) {
  for (int i = 0; i < e->n_parts; i++) {
    const struct part *p = &e->part[i];
    if (p->node->op->kind == OP_PREFIX || (is_fold(p) && (p->node->op->fold->n || !p->item->is_stored))) return false;
    for (int k = 0; k < p->n_in; k++)
      if (p->in[k].from == FROM_PART && is_fold(&e->part[p->in[k].i])) return false;
  }
  return true;
}

/* Columns of a large matrix: memory is faster along its rows. Blocks of 128 have the bits of the plain fold. */
static bool folds_by_rows(const struct emit *e) {
  const struct group *g = e->g;
  int64_t n;
  return e->w->by_patches && g->n_axes == 2 && g->column == 0 && !g->product && g->extent[0] >= 4 * KIR_COLUMN_BLOCK &&
         g->extent[1] >= FEW_COLUMNS && g->extent[1] <= MANY_COLUMNS &&
         (__builtin_mul_overflow(g->extent[0], g->extent[1], &n) || n >= LARGE) && ends_in_folds(e);
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

static void choose_form(struct emit *e) {
  struct group *g = e->g;
  int last = g->n_axes - 1;
  e->form = !g->has_row && g->column >= 0 && !folds_by_rows(e) ? FORM_COLUMNS : FORM_ROWS;
  e->lane = e->column = -1;
  if (e->form == FORM_COLUMNS) {
    e->inner = g->column;
    for (int a = 0; a <= last; a++) if (a != g->column) e->lane = a;
  } else {
    e->inner = g->lane >= 0 ? g->lane : last;
    e->column = g->column;
    if (e->maker) lay_out_piece(e);
    else if (g->lane < 0 && last >= 0 && g->extent[last] < 16 && all_move(e, last)) /* short lanes: run along a longer axis */
      for (int a = 0; a <= last; a++) if (g->extent[a] > 4 * g->extent[e->inner]) e->inner = a;
    e->is_private = e->column >= 0 && g->n_axes == 2;
  }
  memcpy(e->axes.extent, g->extent, sizeof e->axes.extent);
  for (int a = 0; a <= last; a++) e->axes.live[e->axes.n_live++] = a;
}

/* The axis of the group an axis of the node moves along; -1: length 1. */
static int axis_at(const struct part *p, int64_t k) { return p->node->dims[k] == 1 ? -1 : p->item->ax[k]; }

static bool varies(struct emit *e, struct part *p) {
  struct node *n = p->node;
  if (e->inner < 0 || is_fold(p)) return false;
  if ((n->op->kind == OP_PREFIX || n->op->kind == OP_IOTA) && axis_at(p, own_axis(p)) == e->inner) return true;
  if (n->op->kind == OP_PAD && axis_at(p, ((const struct pad_attr *)n->attr)->axis) == e->inner) return true;
  for (int k = 0; k < p->n_in; k++) {
    if (p->in[k].from == FROM_ACCESS && e->access[p->in[k].i].is_inner) return true;
    if (p->in[k].from == FROM_PART && e->part[p->in[k].i].is_inner) return true;
  }
  return false;
}

static void find_phases(struct emit *e) {
  e->n_phases = 1;
  for (int i = 0; i < e->n_access; i++) e->access[i].is_inner = e->inner >= 0 && e->access[i].stride[e->inner] != 0;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    for (int k = 0; k < p->n_in; k++)
      if (p->in[k].from == FROM_PART && e->part[p->in[k].i].phase > p->phase) p->phase = e->part[p->in[k].i].phase;
    p->fold_phase = p->phase;
    p->is_inner = varies(e, p);
    if (runs_inside(e, p)) p->phase++;
    if (p->phase >= e->n_phases) e->n_phases = p->phase + 1;
  }
}

/* Strides of a stored value, by axis of the group. */
static void stored_strides(const struct part *p, int64_t stride[]) {
  memset(stride, 0, sizeof *stride * AXES);
  for (int k = 0; k < p->node->rank; k++)
    if (p->item->ax[k] >= 0 && p->node->dims[k] != 1) stride[(int)p->item->ax[k]] = p->item->place.stride[k];
}

/* Everything walks through the neighbours a, b as through one axis. */
static bool may_merge(void *emit, int a, int b) {
  struct emit *e = emit;
  int64_t s[AXES], n = e->axes.extent[b];
  bool is_special = a == e->column || b == e->column || a == e->lane || a == e->inner;
  if (e->g->pinned[a] || e->g->pinned[b] || is_special) return false;
  for (int i = 0; i < e->n_access; i++) if (e->access[i].stride[a] != e->access[i].stride[b] * n) return false;
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && (stored_strides(&e->part[i], s), s[a] != s[b] * n)) return false;
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
static bool splits(struct emit *e) { return is_narrow(e) && ends_in_folds(e); }

/* ---- the kernel's header ---- */

static struct kir_lin lin(struct emit *e, int value) { return draft_lin(&e->d, value); }

/* Along n axes, of sizes (0) and of variables that go along them (1). */
static const char *axis_name(int n, int i, int kind) {
  static const char *const one[] = { "N", "i" }, *const two[][2] = { { "R", "C" }, { "r", "c" } };
  static const char *const more[][AXES] = { { "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L" },
                                            { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" } };
  _Static_assert(AXES == 12, "a letter for each axis");
  return n == 1 ? one[kind] : n == 2 ? two[kind][i] : more[kind][i];
}

static const char *var_name(struct emit *e, int axis) {
  const struct axes *x = &e->axes;
  for (int i = 0; i < x->n_live; i++) if (x->live[i] == axis) return axis_name(x->n_live, i, 1);
  return "i";
}

/* Indexed axes first, then the axes it moves along. */
static void declare_access(struct emit *e, struct emit_access *a) {
  struct reach r = { .store = a->store, .offset = a->offset };
  for (int j = 0; j < a->n_index; j++) {
    a->index_val[j] = draft_sized(&e->d, "V", e->d.n_sizes, a->index_size[j]);
    reach_along(&r, lin(e, a->index_val[j]), a->index_stride[j]);
  }
  axes_reach(&e->axes, &e->d, a->stride, &r);
  a->buf = draft_buffer(&e->d, NULL, KIR_IN, a->dtype, &r);
}

static void declare_stored(struct emit *e, struct part *p) {
  struct reach r = { .store = p->item->place.store, .offset = p->item->place.offset };
  int64_t stride[AXES];
  stored_strides(p, stride);
  axes_reach(&e->axes, &e->d, stride, &r);
  p->buf = draft_buffer(&e->d, NULL, KIR_OUT, (weft_dtype)p->node->dtype, &r);
}

static void kernel_name(struct emit *e, char name[48]) {
  int n = 0;
  const char *last = "";
  for (int i = 0; i < e->n_parts; i++) {
    const char *s = e->part[i].node->op->name;
    if (!strcmp(s, last) || n + (int)strlen(s) + 1 > 40) continue;
    last = s;
    if (n) name[n++] = '_';
    for (; *s; s++) name[n++] = *s;
  }
  name[n] = 0;
}

static bool declare(struct emit *e) {
  struct axes *x = &e->axes;
  char name[48];
  kernel_name(e, name);
  if (!draft_begin(&e->d, e->w, name)) return false;
  for (int i = 0; i < x->n_live; i++)
    x->size[x->live[i]] = draft_size(&e->d, axis_name(x->n_live, i, 0), x->extent[x->live[i]]);
  for (int i = 0; i < e->n_access; i++) declare_access(e, &e->access[i]);
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].item->is_stored) declare_stored(e, &e->part[i]);
  return true;
}

/* ---- values ---- */

static int scalar_value(struct emit *e, const struct node *x) { return draft_number(&e->d, scalar_of(x)); }

static void subscripts(struct emit *e, const int64_t stride[], int rank, struct kir_lin at[]) {
  axes_subscripts(&e->axes, &e->d, stride, rank, at);
}

static int load(struct emit *e, struct emit_access *a) {
  struct kir_lin at[2 * AXES];
  subscripts(e, a->stride, 0, at);
  return kir_load(&e->d.b, a->buf, at);
}

static int in_value(struct emit *e, struct part *p, int k) {
  struct operand_source s = p->in[k];
  if (s.from == FROM_SCALAR) return scalar_value(e, p->node->in[k]);
  if (s.from == FROM_PART) return e->part[s.i].value;
  struct emit_access *a = &e->access[s.i];
  if (a->value < 0) a->value = load(e, a);
  return a->value;
}

/* Where a cell or a piece begins along an axis. */
static int axis_first(struct emit *e, int axis) {
  if (e->first[axis] < 0) {
    e->start[axis] = e->d.n_sizes;
    e->first[axis] = draft_sized(&e->d, "at", axis, 0);
  }
  return e->first[axis];
}

/* The index along an axis: of a cell or a piece, from where that begins. */
static int axis_value(struct emit *e, int axis) {
  if (axis < 0) return kir_lit_int(e->d.k, WEFT_I64, 0);
  return e->start ? kir_op2(&e->d.b, KIR_ADD, e->axes.var[axis], axis_first(e, axis)) : e->axes.var[axis];
}

/* The same as part of a subscript. */
static struct kir_lin axis_lin(struct emit *e, int axis) {
  struct kir_lin l = lin(e, e->axes.var[axis]);
  return e->start ? kir_lin_add(e->d.k, l, lin(e, axis_first(e, axis))) : l;
}

const char *take_typed(const struct node *n) {
  static const char *const typed[] = { [BY_TAKE] = "weft_take", [BY_AT] = "weft_at", [BY_WINDOW] = "weft_window",
                                       [BY_ALONG] = "weft_take_along", [BY_STRIDES] = "weft_as_strided" };
  if (n->op == &op_assert) return assert_text(n);
  return typed[((const struct take_attr *)n->attr)->by];
}

bool take_is_window(const struct node *n) { return n->op == &op_take && ((const struct take_attr *)n->attr)->by == BY_WINDOW; }

/* The place of an index among all of a take, counted through row by row. Along an axis on which all are the same, the first. */
static struct kir_lin place_of_index(struct emit *e, struct part *p, int n_index) {
  struct node *n = p->node;
  struct kir_lin at = { 0 };
  int64_t apart = 1;
  for (int k = n->rank - (n->in[0]->rank - n_index) - 1; k >= 0; apart *= n->dims[k--]) {
    int axis = axis_at(p, k);
    if (axis < 0 || (axis == e->inner && !p->is_inner)) continue;
    struct kir_lin i = axis_lin(e, axis);
    if (apart > 1) i = kir_lin_mul(e->d.k, i, lin(e, draft_sized(&e->d, "P", e->d.n_sizes, apart)));
    at = kir_lin_add(e->d.k, at, i);
  }
  return at;
}

/* x[i, j, .. rest]: negative indices count from the end, others must be in range. */
static int emit_take(struct emit *e, struct part *p) {
  struct node *n = p->node;
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin at[2 * AXES];
  bool is_told = n->op == &op_assert; /* whoever fails says the same */
  struct kir_lin where = is_told ? (struct kir_lin){ 0 } : place_of_index(e, p, a->n_index);
  for (int j = 0; j < a->n_index; j++) {
    struct site site = { take_typed(n), n->origin, a->index_size[j], .is_window = take_is_window(n), .is_told = is_told };
    if (is_told) site.status = assert_status(n);
    int i = draft_index(&e->d, in_value(e, p, j + 1), a->index_val[j], where, site);
    at[j] = lin(e, i);
  }
  subscripts(e, a->stride, a->n_index, at);
  return kir_load(&e->d.b, a->buf, at);
}

/* The element where there is one, else the value: the load happens under the condition. */
static int emit_pad(struct emit *e, struct part *p) {
  const struct pad_attr *t = p->node->attr;
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin at[2 * AXES];
  int lo = draft_sized(&e->d, "lo", e->d.n_sizes, t->before), i = axis_value(e, axis_at(p, t->axis)), fill = in_value(e, p, 1);
  int inside = kir_op2(&e->d.b, KIR_LT, kir_op2(&e->d.b, KIR_SUB, i, lo), a->index_val[0]);
  kir_if(&e->d.b, kir_op2(&e->d.b, KIR_AND, kir_op2(&e->d.b, KIR_LE, lo, i), inside));
  at[0] = kir_lin_sub(e->d.k, lin(e, i), lin(e, lo));
  subscripts(e, a->stride, 1, at);
  int v = kir_load(&e->d.b, a->buf, at), r = kir_yield(&e->d.b, v, fill);
  kir_end(&e->d.b);
  return r;
}

/* sum_k a[..,k] b[k,..] over n products from `from` on, in order of k: one fma a step. */
static int sum_of_products(struct emit *e, struct part *p, struct kir_lin from, struct kir_lin n) {
  struct emit_access *a = &e->access[p->in[0].i], *b = &e->access[p->in[1].i];
  struct kir_lin at[2 * AXES], bt[2 * AXES];
  weft_dtype t = kir_register_of((weft_dtype)p->node->in[0]->dtype);
  int k = kir_loop(&e->d.b, KIR_SERIAL, "k", n);
  int sum = kir_carry(&e->d.b, "u", kir_lit(e->d.k, t, 0));
  at[0] = bt[0] = kir_lin_add(e->d.k, from, lin(e, k));
  subscripts(e, a->stride, 1, at);
  subscripts(e, b->stride, 1, bt);
  int x = kir_load(&e->d.b, a->buf, at), y = kir_load(&e->d.b, b->buf, bt), next;
  if (kir_is_float(t)) next = kir_op3(&e->d.b, KIR_FMA, x, y, sum);
  else next = kir_op2(&e->d.b, KIR_ADD, sum, kir_op2(&e->d.b, KIR_MUL, x, y));
  kir_next(&e->d.b, 1, &sum, &next);
  kir_end(&e->d.b);
  return sum;
}

/* Long sums in blocks, each from 0, added in order (backend/patch.h): the first, those between, the last. */
static int emit_contract(struct emit *e, struct part *p) {
  struct emit_access *a = &e->access[p->in[0].i];
  struct kir_lin zero = kir_lin_const(e->d.k, 0), block = kir_lin_const(e->d.k, KIR_PRODUCT_BLOCK);
  int64_t n = a->index_size[0], between = (n - 1) / KIR_PRODUCT_BLOCK - 1;
  if (n <= KIR_PRODUCT_BLOCK) return sum_of_products(e, p, zero, lin(e, a->index_val[0]));
  int q_size = draft_sized(&e->d, "Q", e->d.n_sizes, between);
  int rest = draft_sized(&e->d, "R", e->d.n_sizes, n - (between + 1) * KIR_PRODUCT_BLOCK);
  int first = sum_of_products(e, p, zero, block);
  int q = kir_loop(&e->d.b, KIR_SERIAL, "q", lin(e, q_size)), sum = kir_carry(&e->d.b, "v", first);
  struct kir_lin from = kir_lin_add(e->d.k, block, kir_lin_scale(e->d.k, lin(e, q), KIR_PRODUCT_BLOCK));
  int next = kir_op2(&e->d.b, KIR_ADD, sum, sum_of_products(e, p, from, block));
  kir_next(&e->d.b, 1, &sum, &next);
  kir_end(&e->d.b);
  from = kir_lin_add(e->d.k, block, kir_lin_scale(e->d.k, lin(e, q_size), KIR_PRODUCT_BLOCK));
  return kir_op2(&e->d.b, KIR_ADD, sum, sum_of_products(e, p, from, lin(e, rest)));
}

/* A fold over an axis of length 1: the start combined with the element, as a loop would. */
static int fold_one(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int x = in_value(e, p, 0), all[8], from[4], out[4];
  if (!f->n) {
    weft_dtype t = kir_register_of((weft_dtype)p->node->dtype);
    return f->op == KIR_ADD && kir_is_float(t) ? kir_op2(&e->d.b, KIR_ADD, kir_lit(e->d.k, t, 0), x) : x;
  }
  f->from(&e->d.b, p->node, from);
  f->lift(&e->d.b, p->node, x, kir_lit_int(e->d.k, WEFT_I64, 0), out);
  for (int i = 0; i < f->n; i++) all[i] = from[i], all[f->n + i] = out[i];
  kir_call(&e->d.b, f->combine(&e->d.b, p->node), 2 * f->n, all, out);
  return f->finish(&e->d.b, p->node, out);
}

/* Sizes are arguments: a new length is no new kernel. */
static int size_value(struct emit *e, const struct part *p) {
  const struct size_attr *a = p->node->attr;
  for (const struct part *q = e->part; q < p; q++)
    if (q->node->op->kind == OP_SIZE && q->size && ((const struct size_attr *)q->node->attr)->size == a->size) return q->size;
  return draft_sized(&e->d, "n", e->d.n_sizes, a->size);
}

static int compute(struct emit *e, struct part *p) {
  struct node *n = p->node;
  int in[MOST_OPERANDS];
  switch (n->op->kind) {
    case OP_TAKE: return emit_take(e, p);
    case OP_PAD: return emit_pad(e, p);
    case OP_CONTRACT: return n == e->g->product ? in_value(e, p, 0) : emit_contract(e, p);
    case OP_IOTA: return kir_cast(&e->d.b, (weft_dtype)n->dtype, axis_value(e, axis_at(p, own_axis(p))));
    case OP_SIZE: return p->size = size_value(e, p);
    case OP_REDUCE: return fold_one(e, p);
    case OP_PREFIX:
      if (axis_at(p, own_axis(p)) < 0) return in_value(e, p, 0);
      return kir_prefix(&e->d.b, n->op->fold->op, in_value(e, p, 0));
    case OP_ELEMENT: case OP_LEAF: case OP_VIEW: case OP_PUT: case OP_SCATTER: case OP_CONCAT: case OP_PAIR: case OP_IDENTITY:
    case OP_LOOP: case OP_CALL: case OP_LATER: case OP_ITEM: case OP_LIBRARY: break; /* only elements are in groups */
  }
  for (int k = 0; k < n->n_in; k++) in[k] = in_value(e, p, k);
  return n->op->lower(&e->d.b, n, in);
}

static bool same_source(struct emit *e, const struct part *p, const struct part *q, int k) {
  struct operand_source a = p->in[k], b = q->in[k];
  if (a.from != b.from || p->node->in[k]->dtype != q->node->in[k]->dtype) return false;
  if (a.from == FROM_SCALAR) return scalar_value(e, p->node->in[k]) == scalar_value(e, q->node->in[k]);
  return a.i == b.i || (a.from == FROM_PART && e->part[a.i].value == e->part[b.i].value);
}

/* The same instruction on the same values, computed in the same block. */
static int computed_already(struct emit *e, struct part *p) {
  if (p->node->op->kind != OP_ELEMENT) return -1;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *q = &e->part[i];
    if (q == p || q->value < 0 || q->is_inner != p->is_inner || q->node->op != p->node->op || q->node->dtype != p->node->dtype ||
        q->node->attr_bytes != p->node->attr_bytes || memcmp(q->node->attr, p->node->attr, p->node->attr_bytes)) continue;
    bool same = true;
    for (int k = 0; k < p->node->n_in && same; k++) same = same_source(e, p, q, k);
    if (same) return q->value;
  }
  return -1;
}

static void evaluate(struct emit *e, struct part *p) {
  p->value = computed_already(e, p);
  if (p->value < 0) p->value = kir_cast(&e->d.b, (weft_dtype)p->node->dtype, compute(e, p));
}

static bool is_ready(const struct part *p) { return p->value >= 0; }

static void store(struct emit *e, struct part *p, int op, int value) {
  struct kir_lin at[AXES];
  int64_t s[AXES];
  stored_strides(p, s);
  subscripts(e, s, 0, at);
  kir_store(&e->d.b, p->buf, at, op, value);
  p->is_stored_already = true;
}

/* ---- what a phase needs ---- */

static bool moves_inside(const struct emit *e, const struct part *p) { /* where it is stored; its value may stand still */
  int64_t s[AXES];
  if (!p->item->is_stored || e->inner < 0) return false;
  stored_strides(p, s);
  return s[e->inner] != 0;
}

static bool stores_inside(const struct emit *e, const struct part *p) { return !is_fold(p) && moves_inside(e, p); }

static void need_operands(struct emit *e, struct part *p) {
  for (int k = 0; k < p->n_in; k++) {
    if (p->in[k].from == FROM_PART) {
      struct part *q = &e->part[p->in[k].i];
      *(q->is_inner ? &q->need : &q->need_mid) = true;
    } else if (p->in[k].from == FROM_ACCESS) {
      struct emit_access *a = &e->access[p->in[k].i];
      if (!a->n_index) *(a->is_inner ? &a->need : &a->need_mid) = true;
    }
  }
}

/* Whether part p has something to do in the inner loop of phase f. */
static bool is_root(const struct emit *e, const struct part *p, int f) {
  if (runs_inside(e, p)) return p->fold_phase == f;
  if (is_sink(e, p)) return p->fold_phase == f && p->in[0].from != FROM_ACCESS && moves_inside(e, p);
  return stores_inside(e, p) && p->phase == f;
}
static bool sinks_access(const struct emit *e, const struct part *p, int f) { /* a fold straight from memory */
  return is_sink(e, p) && p->in[0].from == FROM_ACCESS && p->fold_phase == f && moves_inside(e, p);
}

/* Marks what the inner loop of phase f computes. false: nothing to do there. */
static bool need_phase(struct emit *e, int f, const bool had_part[]) {
  bool any = false;
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (!is_root(e, p, f) && !sinks_access(e, p, f)) continue;
    any = true;
    if (is_fold(p)) need_operands(e, p);
    else if (p->is_inner) p->need = true;
    else p->need_mid = true;
  }
  for (int i = e->n_parts - 1; i >= 0; i--) {
    struct part *p = &e->part[i];
    if (p->need && !(had_part[i] && e->keeps)) need_operands(e, p);
  }
  return any;
}

/* Which values of one phase a later one uses again: those are kept, if any are. */
static bool mark_kept(struct emit *e) {
  bool *had_part = work_take(e->w, (size_t)e->n_parts), *had_access = work_take(e->w, MOST_ACCESSES);
  if (!had_part || !had_access) return false;
  for (int f = 0; f < e->n_phases; f++) {
    need_phase(e, f, had_part);
    for (int i = 0; i < e->n_parts; i++) {
      struct part *p = &e->part[i];
      if (p->need && had_part[i] && e->keeps) p->is_kept = true, p->kept_to = f;
      if (p->need && !had_part[i]) p->kept_from = f;
      had_part[i] |= p->need;
      p->need = p->need_mid = false;
    }
    for (int i = 0; i < e->n_access; i++) {
      struct emit_access *a = &e->access[i];
      if (a->need && had_access[i] && e->keeps) a->is_kept = true, a->kept_to = f;
      if (a->need && !had_access[i]) a->kept_from = f;
      had_access[i] |= a->need;
      a->need = a->need_mid = false;
    }
  }
  return true;
}

static int64_t bytes_in_row(weft_dtype t) { return kir_width(t) < 4 ? 4 : kir_width(t); }

/* Of all that is kept from a phase to the next, for an element of the row, where that is most. */
static int64_t most_kept(const struct emit *e) {
  int64_t most = 0;
  for (int f = 0; f < e->n_phases; f++) {
    int64_t all = 0;
    for (int i = 0; i < e->n_parts; i++)
      if (e->part[i].is_kept && e->part[i].kept_from <= f && f < e->part[i].kept_to) all += bytes_in_row(e->part[i].node->dtype);
    for (int i = 0; i < e->n_access; i++)
      if (e->access[i].is_kept && e->access[i].kept_from <= f && f < e->access[i].kept_to) all += bytes_in_row(e->access[i].dtype);
    if (all > most) most = all;
  }
  return most;
}

/* Rows that are long are kept if the device has room for them near its threads. */
static bool find_kept(struct emit *e) {
  bool is_rows = e->form == FORM_ROWS && e->inner >= 0, is_short = is_rows && e->axes.extent[e->inner] <= KEEP_LIMIT;
  int64_t room = is_rows && !e->is_split && e->w->device ? (int64_t)e->w->device->row_bytes : 0;
  e->keeps = is_short || room;
  if (!mark_kept(e)) return false;
  if (is_short || !e->keeps || most_kept(e) <= room / e->axes.extent[e->inner]) return true;
  e->keeps = false;
  for (int i = 0; i < e->n_parts; i++) e->part[i].is_kept = false;
  for (int i = 0; i < e->n_access; i++) e->access[i].is_kept = false;
  return true;
}

/* ---- the nest ---- */

/* How a part that folds combines; a tuple has a function instead. */
static enum kir_op combiner(const struct part *p) { return p->node->op->fold->op; }

static void open_axis(struct emit *e, enum kir_kind kind, int axis) {
  e->axes.var[axis] = kir_loop(&e->d.b, kind, var_name(e, axis), lin(e, e->axes.size[axis]));
}

static void fold_inside(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int x = in_value(e, p, 0), in[4], from[4];
  if (!f->n) {
    p->result[0] = kir_fold(&e->d.b, f->op, KIR_PLAIN, x);
    return;
  }
  f->lift(&e->d.b, p->node, x, e->axes.var[e->inner], in);
  f->from(&e->d.b, p->node, from);
  kir_fold_fn(&e->d.b, p->fn, KIR_PLAIN, f->n, in, from, p->result);
}

/* A part that is the index itself is that of the loop: nobody need keep it. */
static bool is_index(const struct part *p, int var) { return p->is_inner && is_ready(p) && p->value == var; }

static void open_inner(struct emit *e) {
  enum kir_kind kind = e->form == FORM_ROWS ? KIR_LANE : KIR_SERIAL;
  int before = e->axes.var[e->inner];
  if (e->is_split) e->axes.var[e->inner] = kir_loop_block(&e->d.b, kind, var_name(e, e->inner), e->block_var);
  else open_axis(e, kind, e->inner);
  for (int i = 0; i < e->n_parts; i++) if (is_index(&e->part[i], before)) e->part[i].value = e->axes.var[e->inner];
}

/* One inner loop: what phase f computes, folds, keeps and stores. */
static void inner_loop(struct emit *e, int f, const bool had_part[], const bool had_access[]) {
  open_inner(e);
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (p->need && !is_ready(p)) evaluate(e, p);
    if (is_root(e, p, f) || sinks_access(e, p, f)) {
      if (runs_inside(e, p)) fold_inside(e, p);
      else if (is_sink(e, p)) store(e, p, combiner(p), in_value(e, p, 0));
      else store(e, p, KIR_SET, p->value);
    }
  }
  for (int i = 0; i < e->n_access; i++)
    if (e->access[i].is_kept && e->access[i].value >= 0 && !had_access[i]) kir_keep(&e->d.b, e->access[i].value);
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].is_kept && is_ready(&e->part[i]) && !had_part[i] && !is_index(&e->part[i], e->axes.var[e->inner]))
      kir_keep(&e->d.b, e->part[i].value);
  kir_end(&e->d.b);
}

static void forget_inner(struct emit *e) { /* what was not kept is gone with its loop */
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].is_inner && !e->part[i].is_kept) e->part[i].value = -1;
  for (int i = 0; i < e->n_access; i++) if (e->access[i].is_inner && !e->access[i].is_kept) e->access[i].value = -1;
}

/* Whether p is a plain value that stands between the inner loops. */
static bool stands_between(const struct emit *e, const struct part *p) {
  return !p->is_inner && !runs_inside(e, p) && !is_sink(e, p);
}

/* The value of a fold, once its loop is over. */
static int finished(struct emit *e, struct part *p) {
  const struct fold *f = p->node->op->fold;
  int v = f->n ? f->finish(&e->d.b, p->node, p->result) : p->result[0];
  return kir_cast(&e->d.b, (weft_dtype)p->node->dtype, v);
}

/* Values between the loops of phases f - 1 and f: results of folds, and what is wanted now or stored. */
static void between(struct emit *e, int f) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (stands_between(e, p) && p->phase == f && p->item->is_stored && !stores_inside(e, p)) p->need_mid = true;
  }
  for (int i = e->n_parts - 1; i >= 0; i--) {
    struct part *p = &e->part[i];
    if (p->need_mid && stands_between(e, p) && !is_ready(p)) need_operands(e, p);
  }
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (p->phase > f || p->is_inner) continue;
    if (runs_inside(e, p) && p->phase == f && !is_ready(p) && !e->is_split) p->value = finished(e, p);
    else if (p->need_mid && !is_ready(p) && !is_fold(p)) evaluate(e, p);
    bool is_due = p->item->is_stored && !p->is_stored_already && is_ready(p);
    if (is_due && !stores_inside(e, p) && !is_sink(e, p)) store(e, p, KIR_SET, p->value);
  }
}

/* Column folds of values that stand between the loops: private stores, or folds of the loop over the column axis. */
static void sink_values(struct emit *e, int f) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (!is_sink(e, p) || p->fold_phase != f || is_root(e, p, f) || sinks_access(e, p, f)) continue;
    int v = in_value(e, p, 0);
    if (e->is_private) store(e, p, combiner(p), v);
    else p->result[0] = kir_fold(&e->d.b, combiner(p), KIR_PLAIN, v);
  }
}

static bool phases(struct emit *e) {
  bool *had_part = work_take(e->w, (size_t)e->n_parts), *had_access = work_take(e->w, MOST_ACCESSES);
  if (!had_part || !had_access) return false;
  for (int f = 0; f < e->n_phases; f++) {
    bool any = need_phase(e, f, had_part);
    for (int i = 0; i < e->n_parts; i++) { /* column folds of this phase want their operand */
      struct part *p = &e->part[i];
      if (is_sink(e, p) && p->fold_phase == f && !is_root(e, p, f) && !sinks_access(e, p, f)) need_operands(e, p);
    }
    for (int i = 0; i < e->n_access; i++) /* loads that do not vary stand before the loop */
      if (e->access[i].need_mid && e->access[i].value < 0 && !e->access[i].is_inner) e->access[i].value = load(e, &e->access[i]);
    between(e, f);
    sink_values(e, f);
    if (any) inner_loop(e, f, had_part, had_access);
    for (int i = 0; i < e->n_parts; i++) had_part[i] |= e->part[i].need;
    for (int i = 0; i < e->n_access; i++) had_access[i] |= e->access[i].need;
    forget_inner(e);
    for (int i = 0; i < e->n_parts; i++) e->part[i].need = e->part[i].need_mid = false;
    for (int i = 0; i < e->n_access; i++) e->access[i].need = e->access[i].need_mid = false;
  }
  return true;
}

static void make_fns(struct emit *e) {
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (is_fold(p) && p->node->op->fold->n) p->fn = p->node->op->fold->combine(&e->d.b, p->node);
  }
}

/* Blocks of an axis, each with copies of what is folded over it; merged in order. */
static int open_blocks(struct emit *e, int axis, int width) {
  int q = kir_loop_blocks(&e->d.b, "q", lin(e, e->axes.size[axis]), kir_lin_const(e->d.k, width));
  for (int i = 0; i < e->n_parts; i++) {
    struct part *p = &e->part[i];
    if (e->is_split ? is_fold(p) : is_sink(e, p)) kir_private(&e->d.b, p->buf, combiner(p));
  }
  return q;
}

static int64_t span_of(const struct emit *e) {
  return e->form == FORM_ROWS ? ROW_SPAN : e->w->by_patches ? COLUMN_SPAN : KIR_COLUMN_BLOCK;
}

/* Opens the loops around the phases; how many. */
static int open_loops(struct emit *e) {
  int opened = 0;
  if (e->is_split) e->block_var = open_blocks(e, e->inner, span_of(e)), opened++;
  for (int i = 0; i < e->axes.n_live; i++) {
    int a = e->axes.live[i];
    if (a != e->inner && a != e->lane && a != e->column) open_axis(e, KIR_PAR, a), opened++;
  }
  if (e->column >= 0 && e->is_private) {
    int q = open_blocks(e, e->column, KIR_COLUMN_BLOCK);
    e->axes.var[e->column] = kir_loop_block(&e->d.b, KIR_SERIAL, var_name(e, e->column), q);
    opened += 2;
  } else if (e->column >= 0) open_axis(e, KIR_SERIAL, e->column), opened++;
  if (e->lane >= 0) open_axis(e, KIR_LANE, e->lane), opened++;
  return opened;
}

static bool nest(struct emit *e) {
  make_fns(e);
  int opened = open_loops(e);
  if (!phases(e)) return false;
  for (int i = 0; e->is_split && i < e->n_parts; i++) /* into the copies of the block */
    if (is_fold(&e->part[i])) store(e, &e->part[i], combiner(&e->part[i]), e->part[i].result[0]);
  if (e->column >= 0 && !e->is_private) {
    kir_end(&e->d.b);
    opened--;
    for (int i = 0; i < e->n_parts; i++)
      if (is_sink(e, &e->part[i])) store(e, &e->part[i], KIR_SET, finished(e, &e->part[i]));
  }
  while (opened--) kir_end(&e->d.b);
  return true;
}

/* ---- the step ---- */

static double walked(const struct emit *e, const int64_t stride[]) {
  double n = 1;
  for (int i = 0; i < e->axes.n_live; i++) if (stride[e->axes.live[i]]) n *= (double)e->axes.extent[e->axes.live[i]];
  return n;
}

static void account(struct emit *e) {
  const struct schedule *s = e->w->out;
  int64_t stride[AXES];
  double points = 1, bytes = 0;
  for (int i = 0; i < e->n_access; i++)
    bytes += walked(e, e->access[i].stride) * (double)weft_dtype_bytes(e->access[i].dtype);
  for (int i = 0; i < e->n_parts; i++)
    if (e->part[i].item->is_stored && s->store[e->part[i].item->place.store].bytes) {
      stored_strides(&e->part[i], stride);
      bytes += walked(e, stride) * (double)weft_dtype_bytes((weft_dtype)e->part[i].node->dtype);
    }
  for (int i = 0; i < e->axes.n_live; i++) points *= (double)e->axes.extent[e->axes.live[i]];
  step_add_cost(e->w, bytes, points * e->n_parts, 1);
}

/* What the runner has to know about rows of cells. */
static void name_rows(struct emit *e) {
  struct contraction *c = e->product;
  c->has_whole_rows = e->g->has_row || e->g->feeds;
  c->feeds = e->g->feeds;
  for (int axis = 0; axis < c->n_axes; axis++)
    if (!(c->has_whole_rows && axis == c->column_axis) && !all_move(e, axis)) c->has_still = true;
  for (int i = 0; c->feeds && i < e->n_parts; i++) {
    if (!e->part[i].item->is_stored) continue;
    c->fed = e->part[i].buf;
    c->is_banded = chain_is_banded(e->w, e->part[i].node, &c->band);
  }
}

static void name_piece(struct emit *e) {
  struct schedule *s = e->w->out;
  e->maker->step = s->n_steps - 1;
  s->step[s->n_steps - 1].kind = &step_maker;
  for (int i = 0; i < e->n_parts; i++) if (e->part[i].item->is_stored) e->maker->piece = e->part[i].buf;
}

bool step_group(struct work *w, struct group *g) {
  struct emit *e = w->emit; /* one for all groups: it is large */
  if (e) memset(e, 0, sizeof *e);
  else e = w->emit = work_take(w, sizeof *e);
  if (!e) return false;
  e->w = w;
  e->g = g;
  memset(e->first, -1, sizeof e->first);
  if (g->product) {
    const struct item *x = &w->item[g->product->slot];
    if (!(e->product = contraction_of(w, g))) return false;
    if (g->n_items == 1 && contraction_fits(e->product, x)) return step_contract(w, e->product, x);
  }
  e->maker = g->maker;
  e->start = g->maker ? g->maker->start : e->product ? e->product->start : NULL;
  if (!collect(e)) return false;
  choose_form(e);
  find_phases(e);
  axes_merge(&e->axes, may_merge, e);
  e->is_split = splits(e);
  if (!find_kept(e) || !declare(e)) return false;
  if (!nest(e)) return draft_drop(&e->d), false;
  bool folds_rows = e->form == FORM_ROWS && e->g->has_row && e->axes.n_live > 1;
  if (folds_rows && !e->product) e->d.row = e->axes.extent[e->inner]; /* cells of a product have extents of their own */
  if (!draft_end(&e->d)) return false;
  account(e);
  if (e->maker) name_piece(e);
  if (e->product) {
    struct step *s = &w->out->step[w->out->n_steps - 1];
    e->product->cell = e->access[e->cell].buf;
    name_rows(e);
    s->kind = &step_product, s->contraction = e->product;
    contract_account(w, e->product);
  }
  return true;
}
