/* group.c -- which nodes share a kernel.
 *
 * Nodes are taken in order; each joins the group of a value it uses if the iteration spaces agree axis by axis, the
 * group can still be written as one kernel, and no path leaves the group and comes back. Groups have levels: a group
 * reads stored values only of groups with smaller levels, so the last condition is a comparison of two numbers.
 *
 * A group can be written as one kernel (emit.c) if
 *   rows:    its folds run over the lane axis (any number, results used again at will), and folds over at most one
 *            other axis end in it: their results are used by other groups only; or
 *   columns: all its folds run over one axis that is not the last; lanes run beside. */
#include <string.h>
#include "schedule/work.h"

enum { MOST_BASES = 14 }; /* arrays a group reads: with its results they find room in the buffers of a draft, and a kernel that goes
                             along more streams than that is no faster than two. Not measured closely */

/* ---- edges: an operand, seen through views that keep axes apart ---- */

static bool through(const struct node *v, int8_t map[]) { /* map: axis of v -> axis of the operand; becomes that of v->in[0] */
  const struct node *x = v->in[0];
  int8_t m[WEFT_RANK_MAX];
  memset(m, -1, sizeof m);
  if (v->op == &op_transpose) {
    const struct transpose_attr *t = v->attr;
    for (int k = 0; k < v->rank; k++) m[t->axes[k]] = map[k];
  } else if (v->op == &op_broadcast) {
    for (int k = 0; k < x->rank; k++) m[k] = map[k + v->rank - x->rank];
  } else if (v->op == &op_reshape) {
    int i = 0, o = 0;
    for (;;) {
      while (i < x->rank && x->dims[i] == 1) i++;
      while (o < v->rank && v->dims[o] == 1) o++;
      if (i == x->rank || o == v->rank) break;
      if (x->dims[i] != v->dims[o]) return false;
      m[i++] = map[o++];
    }
    if (i != x->rank || o != v->rank) return false;
    if (x->rank == v->rank) /* same axes: ones keep their place too */
      for (int k = 0; k < x->rank; k++) if (x->dims[k] == 1 && v->dims[k] == 1) m[k] = map[k];
  } else if (v->op == &op_part) {
    return true;
  } else if (v->op == &op_as_strided || v->op == &op_windows) {
    return false;
  } else {
    const struct slice_attr *s = v->attr;
    if (s->start || s->step != 1 || v->dims[s->axis] != x->dims[s->axis]) return false;
    memcpy(m, map, sizeof m);
  }
  memcpy(map, m, sizeof m);
  return true;
}

struct edge edge_of(const struct node *x) {
  struct edge e = { .aligned = true };
  for (int k = 0; k < WEFT_RANK_MAX; k++) e.map[k] = (int8_t)k;
  while (x->op->kind == OP_VIEW) {
    if (e.aligned) e.aligned = through(x, e.map);
    x = x->in[0];
  }
  e.base = (struct node *)x;
  return e;
}

/* ---- groups ---- */

static struct group *group_new(struct work *w, int *index) {
  if (w->n_groups == w->room_groups) {
    int room = w->room_groups ? 2 * w->room_groups : 8;
    struct group *more = arena_grow(w->arena, w->group, sizeof *more * (size_t)w->n_groups, sizeof *more * (size_t)room);
    if (!more) return w->no_memory = true, NULL;
    w->group = more;
    w->room_groups = room;
  }
  struct group *g = &w->group[w->n_groups];
  *g = (struct group){ .lane = -1, .column = -1, .fed_by = -1, .made_by = { -1, -1 } };
  *index = w->n_groups++;
  return g;
}

static bool group_add(struct work *w, struct group *g, int slot) {
  if (g->n_items == g->room) {
    int room = g->room ? 2 * g->room : 8;
    int *more = arena_grow(w->arena, g->item, sizeof *more * (size_t)g->n_items, sizeof *more * (size_t)room);
    if (!more) return !(w->no_memory = true);
    g->item = more;
    g->room = room;
  }
  g->item[g->n_items++] = slot;
  return true;
}

static bool group_reads(struct group *g, int slot) {
  for (int i = 0; i < g->n_bases; i++) if (g->base[i] == slot) return true;
  if (g->n_bases == MOST_BASES) return false;
  g->base[g->n_bases++] = slot;
  return true;
}

/* The space a node iterates over: its own dims, or those of what it folds. */
static const struct node *space(const struct node *n) {
  return n->op->kind == OP_REDUCE || n->op->kind == OP_PREFIX ? n->in[0] : n;
}
static int fold_axis(const struct node *n) { /* -1: none, or of length 1 */
  if (n->op->kind != OP_REDUCE && n->op->kind != OP_PREFIX) return -1;
  int axis = ((const struct axis_attr *)n->attr)->axis;
  return n->in[0]->dims[axis] == 1 ? -1 : axis;
}
static bool is_row(const struct node *n) { return fold_axis(n) == space(n)->rank - 1; }

/* Operands that must stand in memory: read by index, not element by element. */
bool needs_memory(const struct node *n, int k) {
  int reads = facts_of(n)->reads;
  return reads == READS_WHOLE || (reads == READS_FIRST_WHOLE && k == 0) || prefix_is_apart(n);
}

static bool joins_groups(const struct node *n) {
  return facts_of(n)->joins_groups && !local_of(n)->is_alone && !prefix_is_apart(n);
}

/* What a candidate group says about the axes of n: -1 unknown. false: it contradicts itself. The axes of an operand that
 * is read element by element are those of the node, but for the number that pads. */
static bool axes_from(struct work *w, const struct node *n, int group, int8_t ax[]) {
  const struct node *sp = space(n);
  for (int k = 0; k < n->n_in; k++) {
    if (needs_memory(n, k) || n->op->kind == OP_PAD) continue;
    struct edge e = edge_of(n->in[k]);
    struct item *b = &w->item[e.base->slot];
    const int8_t *from = b->group == group ? b->ax : b->group < 0 && b->seen_group == group ? b->seen_ax : NULL;
    if (!from || !e.aligned) continue;
    int base_rank = b->group == group ? space(e.base)->rank : e.base->rank;
    for (int j = 0; j < base_rank; j++) {
      if (from[j] < 0 || e.map[j] < 0) continue;
      int a = e.map[j];
      if (sp->dims[a] == 1 && (e.base->dims[j] != 1 || ax[a] >= 0)) continue; /* length 1: remembers what it was folded from */
      if (sp->dims[a] != 1 && sp->dims[a] != w->group[group].extent[from[j]]) continue; /* stretched to something else */
      if (ax[a] >= 0 && ax[a] != from[j]) return false;
      ax[a] = from[j];
    }
  }
  return true;
}

static bool distinct(const struct node *sp, const int8_t ax[]) {
  unsigned seen = 0;
  for (int k = 0; k < sp->rank; k++) {
    if (ax[k] < 0) continue;
    if (seen >> ax[k] & 1) return false;
    seen |= 1u << ax[k];
  }
  return true;
}

static bool complete(const struct node *sp, const int8_t ax[]) {
  for (int k = 0; k < sp->rank; k++) if (ax[k] < 0 && sp->dims[k] != 1) return false;
  return true;
}

/* Whether n uses the result of a column fold of the group. */
static bool uses_column(struct work *w, const struct node *n, int group) {
  for (int k = 0; k < n->n_in; k++) {
    struct item *b = &w->item[edge_of(n->in[k]).base->slot];
    if (b->group == group && b->after_column) return true;
  }
  return false;
}

/* A block of threads goes through rows that are added up one after the other, 128 of them or all: few. */
static bool is_short_column(const struct group *g) { enum { FEW = 8 }; return g->extent[g->column] <= FEW; }

/* On a device a kernel has rows, or columns with a sum for each lane: those of all rows at once are faster by themselves, unless
 * its processors hand rows on. */
static bool writable(const struct work *w, const struct group *g) {
  bool goes_both_ways = g->has_row && g->column >= 0;
  if (work_is_for_device(w) && goes_both_ways && !(g->column_wide ? group_may_be_relayed(w, g) : is_short_column(g))) return false;
  if (g->is_tiled && (g->has_row || g->column >= 0)) return false;
  if (g->product && (g->column >= 0 || (g->has_row && !(g->lane == g->n_axes - 1 && contract_takes_rows(g->product)))))
    return false;
  if (!g->has_row) return !(g->has_contract && g->column >= 0);
  if (g->column < 0) return true;
  if (g->column_used || g->column == g->lane) return false;
  return g->n_axes == 2 || (!g->column_wide && g->lane == g->n_axes - 1);
}

/* The group with n in it, if that can be written. */
static bool with_node(struct work *w, const struct node *n, int group, const int8_t ax[], struct group *out) {
  *out = w->group[group];
  int axis = fold_axis(n), a = axis < 0 ? -1 : ax[axis];
  bool after = uses_column(w, n, group);
  out->column_used |= after;
  if (a >= 0 && is_row(n)) {
    if (out->lane >= 0 && out->lane != a) return false;
    out->lane = a;
    out->has_row = true;
  } else if (a >= 0) {
    if (out->column >= 0 && out->column != a) return false;
    out->column = a;
    if (n->op->kind == OP_PREFIX || n->op->fold->n) out->column_used = true; /* needs the column form */
    int lane = out->lane >= 0 ? out->lane : out->n_axes - 1;
    for (int k = 0; k < space(n)->rank; k++) /* a value for each lane */
      if (ax[k] >= 0 && space(n)->dims[k] != 1 && ax[k] == lane) out->column_wide = true;
  }
  return out->n_items < w->most_nodes && writable(w, out);
}

/* Whether the kernel of g can store n: it must move along every axis whose iterations may run at once, or be told apart. */
static bool can_store(const struct group *g, const struct node *n, const int8_t ax[]) {
  bool is_columns = !g->has_row && g->column >= 0;
  int inner = is_columns ? g->column : g->lane >= 0 ? g->lane : g->n_axes - 1, axis = fold_axis(n);
  bool is_sink = !is_columns && axis >= 0 && ax[axis] == g->column;
  unsigned moves = 0;
  for (int k = 0; k < n->rank; k++) if (ax[k] >= 0 && n->dims[k] != 1) moves |= 1u << ax[k];
  for (int a = 0; a < g->n_axes; a++)
    if (!(moves >> a & 1) && a != inner && !(is_sink && a == g->column)) return false;
  return true;
}

/* The same of all that is in `from`, once its axes a have become to[a] (NULL: stay). */
static bool can_store_all(struct work *w, const struct group *g, const struct group *from, const int8_t to[]) {
  for (int i = 0; i < from->n_items; i++) {
    const struct item *x = &w->item[from->item[i]];
    int8_t ax[WEFT_RANK_MAX];
    if (local_of(x->node)->is_floating) continue;
    for (int k = 0; k < WEFT_RANK_MAX; k++) ax[k] = x->ax[k] < 0 || !to ? x->ax[k] : to[x->ax[k]];
    if (!can_store(g, x->node, ax)) return false;
  }
  return true;
}

static bool has_same_form(const struct group *a, const struct group *b) {
  return a->has_row == b->has_row && a->lane == b->lane && a->column == b->column;
}

static bool may_raise(const struct group *g, int level) { return g->level >= level || !g->has_readers; }

/* Floating, and not in a group yet. */
static bool is_open(struct work *w, const struct node *n) { return local_of(n)->is_floating && w->item[n->slot].group < 0; }

/* The level a group must have at least if n is in it, given that it stores what n reads from other groups. */
static int level_needed(struct work *w, const struct node *n, int group) {
  int level = 0;
  for (int k = 0; k < n->n_in; k++) {
    struct edge e = edge_of(n->in[k]);
    struct item *b = &w->item[e.base->slot];
    if (group >= 0 && b->group == group) continue;
    int l = b->group >= 0 ? w->group[b->group].level + 1 : b->ready_level;
    if (is_open(w, e.base)) { /* joins the group, or is computed by one of its own; at most FLOAT_DEPTH deep */
      bool joins = e.aligned && !needs_memory(n, k);
      l = level_needed(w, e.base, joins ? group : -1) + !joins;
    }
    if (l > level) level = l;
  }
  return level;
}

static bool all_ins_readable(struct work *w, const struct node *n, struct group *g) {
  struct group trial = *g;
  for (int k = 0; k < n->n_in; k++) {
    struct node *b = edge_of(n->in[k]).base;
    if (b->op == &op_scalar || (w->item[b->slot].group >= 0 && &w->group[w->item[b->slot].group] == g)) continue;
    if (!group_reads(&trial, b->slot)) return false;
  }
  memcpy(g->base, trial.base, sizeof g->base);
  g->n_bases = trial.n_bases;
  return true;
}

/* ---- merging two groups that meet in a node ---- */

/* Axis a of h cannot be axis b of g: h runs lanes along it, g along another. */
static bool clash(const struct group *g, int b, const struct group *h, int a) {
  return h->lane == a && g->lane >= 0 && g->lane != b;
}

static bool axis_lists_meet(const struct group *g, const struct group *h, const struct node *sp, const int8_t ga[],
                            const int8_t ha[], int8_t to[]) {
  unsigned used = 0;
  memset(to, -1, AXES);
  for (int k = 0; k < sp->rank; k++) {
    if (ga[k] < 0 || ha[k] < 0) continue;
    if (g->extent[ga[k]] != h->extent[ha[k]]) return false; /* folded from axes of other lengths */
    if (to[ha[k]] >= 0 || used >> ga[k] & 1) return false;  /* two axes of n, alike, that one of the groups runs over as one */
    to[ha[k]] = ga[k];
    used |= 1u << ga[k];
  }
  for (int a = 0; a < h->n_axes; a++) { /* an axis n has lost: the folded ones of both, if alike */
    if (to[a] >= 0) continue;
    for (int b = 0; b < g->n_axes && to[a] < 0; b++)
      if (!(used >> b & 1) && g->extent[b] == h->extent[a] && !clash(g, b, h, a) && !clash(h, a, g, b)) to[a] = (int8_t)b;
    if (to[a] < 0) return false;
    used |= 1u << to[a];
  }
  return g->n_axes == h->n_axes;
}

/* g with h in it, whose axes a become to[a], if that can be written and no path leaves it and comes back. */
static bool both_of(struct work *w, const struct group *g, const struct group *h, const int8_t to[], struct group *both) {
  *both = *g;
  both->level = g->level > h->level ? g->level : h->level;
  if (!may_raise(g, both->level) || !may_raise(h, both->level) || g->n_items + h->n_items > w->most_nodes) return false;
  if (h->lane >= 0) both->lane = to[h->lane];
  if (h->column >= 0) both->column = to[h->column];
  if ((g->lane >= 0 && g->lane != both->lane) || (g->column >= 0 && g->column != both->column)) return false;
  both->has_row |= h->has_row;
  both->column_used |= h->column_used;
  both->column_wide |= h->column_wide;
  if ((g->product && h->product) || (g->is_tiled && h->is_tiled)) return false; /* tiles are of one product */
  both->has_contract |= h->has_contract;
  both->is_tiled |= h->is_tiled;
  if (h->product) both->product = h->product;
  for (int a = 0; h->product && a < h->n_axes; a++) if (to[a] != a) return false; /* a contraction names them by number */
  both->has_readers |= h->has_readers;
  for (int a = 0; a < h->n_axes; a++) both->pinned[to[a]] |= h->pinned[a];
  for (int i = 0; i < h->n_bases; i++) if (!group_reads(both, h->base[i])) return false;
  return writable(w, both) && can_store_all(w, both, g, NULL) && can_store_all(w, both, h, to);
}

static void rename_axes(int8_t ax[], const int8_t to[]) {
  for (int k = 0; k < WEFT_RANK_MAX; k++) if (ax[k] >= 0) ax[k] = to[ax[k]];
}

static bool merge(struct work *w, int into, int from, const struct node *sp, const int8_t ga[], const int8_t ha[]) {
  struct group *g = &w->group[into], *h = &w->group[from], both;
  int8_t to[AXES];
  if (g->is_alone || h->is_alone || g->is_apart || h->is_apart) return false;
  if (!axis_lists_meet(g, h, sp, ga, ha, to) || !both_of(w, g, h, to, &both)) return false;
  for (int i = 0; i < h->n_items; i++) if (!group_add(w, &both, h->item[i])) return false;
  for (int i = 0; i < h->n_items; i++) {
    struct item *x = &w->item[h->item[i]];
    x->group = into;
    rename_axes(x->ax, to);
  }
  for (int i = 0; i < h->n_bases; i++) {
    struct item *x = &w->item[h->base[i]];
    if (x->seen_group != from) continue;
    x->seen_group = into;
    rename_axes(x->seen_ax, to);
  }
  *g = both;
  h->is_dead = true;
  return true;
}

/* ---- one node ---- */

static void remember_leaf_axes(struct work *w, const struct node *n, int group, const int8_t ax[]) {
  for (int k = 0; k < n->n_in; k++) {
    if (needs_memory(n, k)) continue;
    struct edge e = edge_of(n->in[k]);
    struct item *b = &w->item[e.base->slot];
    if (b->group >= 0 || !e.aligned || e.base->op == &op_scalar) continue;
    b->seen_group = group;
    for (int j = 0; j < e.base->rank; j++)
      b->seen_ax[j] = e.map[j] >= 0 && e.base->dims[j] != 1 ? ax[(int)e.map[j]] : -1;
  }
}

static void pin_axes(struct group *g, const struct node *n, const int8_t ax[]) {
  int axis = n->op->kind == OP_PAD ? ((const struct pad_attr *)n->attr)->axis : fold_axis(n);
  if (axis >= 0 && ax[axis] >= 0 && space(n)->dims[axis] != 1) g->pinned[(int)ax[axis]] = true;
  if (n->op->kind == OP_IOTA) {
    axis = ((const struct axis_attr *)n->attr)->axis;
    if (ax[axis] >= 0) g->pinned[(int)ax[axis]] = true;
  }
  if (n->op->kind == OP_TAKE)
    for (int k = 0; k < n->rank; k++) if (ax[k] >= 0 && n->dims[k] != 1) g->pinned[(int)ax[k]] = true;
}

static bool in_memory(struct work *, struct node *);
static bool start_group(struct work *, struct node *);

/* The axes of an operand's base, where the node that reads it has ax. */
static void axes_below(const struct edge *e, const int8_t ax[], int8_t of[]) {
  memset(of, -1, WEFT_RANK_MAX);
  for (int j = 0; j < e->base->rank; j++)
    if (e->map[j] >= 0 && e->base->dims[j] != 1) of[j] = ax[(int)e->map[j]];
}

static bool enter(struct work *w, struct node *n, int group, const int8_t ax[]) {
  struct item *x = &w->item[n->slot];
  struct group *g = &w->group[group];
  int level = level_needed(w, n, group);
  if (level > g->level) g->level = level;
  bool after = uses_column(w, n, group);
  x->group = group;
  memcpy(x->ax, ax, sizeof x->ax);
  int axis = fold_axis(n);
  x->after_column = after || (axis >= 0 && n->op->kind == OP_REDUCE && !is_row(n) && ax[axis] >= 0);
  pin_axes(g, n, ax);
  remember_leaf_axes(w, n, group, ax);
  for (int k = 0; k < n->n_in; k++) { /* what other groups computed is read from memory */
    struct edge e = edge_of(n->in[k]);
    if (is_open(w, e.base) && e.aligned && !needs_memory(n, k)) {
      int8_t of[WEFT_RANK_MAX];
      axes_below(&e, ax, of);
      if (!enter(w, e.base, group, of)) return false;
    } else if (w->item[e.base->slot].group != group && !in_memory(w, e.base)) return false;
  }
  return group_add(w, &w->group[group], n->slot);
}

/* Somebody reads the value from memory. */
static bool in_memory(struct work *w, struct node *b) {
  struct item *x = &w->item[b->slot];
  if (is_open(w, b) && !start_group(w, b)) return false;
  if (x->group < 0) return true; /* a leaf, or a step of its own */
  x->is_stored = true;
  w->group[x->group].has_readers = true;
  return true;
}

/* Groups that n might join, best first: those that hold something it uses, or else those that read what it reads and are for
 * the same operand of a product, or for none. */
static int candidates(struct work *w, const struct node *n, int out[], int max) {
  int m = 0;
  for (int pass = 0; pass < 2 && (pass == 0 || m == 0); pass++)
    for (int k = 0; k < n->n_in; k++) {
      if (needs_memory(n, k)) continue;
      struct edge e = edge_of(n->in[k]);
      struct item *b = &w->item[e.base->slot];
      int g = !e.aligned ? -1 : pass == 0 ? b->group : b->group < 0 ? b->seen_group : -1;
      if (g < 0 || w->group[g].is_alone || w->group[g].is_dead) continue;
      if (pass == 1 && w->group[g].for_operand != w->item[n->slot].for_operand) continue;
      bool known = false;
      for (int i = 0; i < m; i++) known |= out[i] == g;
      if (!known && m < max) out[m++] = g;
    }
  for (int i = 1; i < m; i++) /* higher levels first */
    for (int j = i; j > 0 && w->group[out[j]].level > w->group[out[j - 1]].level; j--) {
      int t = out[j];
      out[j] = out[j - 1], out[j - 1] = t;
    }
  return m;
}

/* Reads a value of the group otherwise than element by element: it cannot share its kernel. */
static bool reads_across(struct work *w, const struct node *n, int group) {
  for (int k = 0; k < n->n_in; k++) {
    struct edge e = edge_of(n->in[k]);
    if (w->item[e.base->slot].group == group && (!e.aligned || needs_memory(n, k))) return true;
  }
  return false;
}

/* Every value of the group that n reads is wanted at the very axes it has, also by what floats into the kernel with n. */
static bool reads_in_place(struct work *w, const struct node *n, int group, const int8_t ax[]) {
  for (int k = 0; k < n->n_in; k++) {
    struct edge e = edge_of(n->in[k]);
    struct item *b = &w->item[e.base->slot];
    int8_t of[WEFT_RANK_MAX];
    if (!e.aligned || needs_memory(n, k)) continue;
    axes_below(&e, ax, of);
    for (int j = 0; b->group == group && j < e.base->rank; j++)
      if (e.base->dims[j] != 1 && of[j] != b->ax[j]) return false;
    if (is_open(w, e.base) && (reads_across(w, e.base, group) || !reads_in_place(w, e.base, group, of))) return false;
  }
  return true;
}

static bool is_fold(const struct node *n) { return n->op->kind == OP_REDUCE && fold_axis(n) >= 0; }

/* Whether n, or what floats into its kernel with it, reads a fold of the group. */
static bool reads_fold(struct work *w, const struct node *n, int group) {
  for (int k = 0; k < n->n_in; k++) {
    struct node *b = edge_of(n->in[k]).base;
    if (w->item[b->slot].group == group ? is_fold(b) : is_open(w, b) && reads_fold(w, b, group)) return true;
  }
  return false;
}

/* The axis that the folds of a group run along. */
static int folded_axis(const struct group *g) { return g->has_row ? g->lane : g->column; }

/* Folds of few long rows or columns, or of columns by rows, and nothing after them: their spans are shared by threads
 * (emit_form.c), which what reads them would prevent in the same kernel. */
static bool is_shared(struct work *w, int group) {
  const struct group *g = &w->group[group];
  bool is_columns = !g->has_row;
  int inner = folded_axis(g), lane = -1;
  int64_t around = 1;
  if (inner < 0 || (g->has_row && g->column >= 0) || g->has_contract || g->product) return false;
  for (int a = 0; is_columns && a < g->n_axes; a++) if (a != inner) lane = a;
  for (int a = 0; a < g->n_axes; a++)
    if (a != inner && a != lane && __builtin_mul_overflow(around, g->extent[a], &around)) return false;
  for (int i = 0; i < g->n_items; i++) {
    const struct node *n = w->item[g->item[i]].node;
    if (n->op->kind == OP_PREFIX || (is_fold(n) && n->op->fold->n) || reads_fold(w, n, group)) return false;
  }
  if (is_columns && columns_go_by_rows(w, g)) return true;
  return fold_is_narrow(w, is_columns, around, lane >= 0 ? g->extent[lane] : 1, g->extent[inner]);
}

/* On a device a row is a block of threads': fewer rows leave processors without work. Estimated: a softmax of one row of 128256
 * takes 0.081 ms in one kernel, 0.011 in three. */
enum { FEW_ROWS = 128 };

static bool has_few_rows(const struct group *g, int inner) {
  int64_t rows = 1;
  for (int a = 0; a < g->n_axes; a++) if (a != inner && __builtin_mul_overflow(rows, g->extent[a], &rows)) return false;
  return rows < FEW_ROWS;
}

/* What is made of the results of folds that threads share, or has no element for each that they fold: it has a kernel of its own.
 * What goes along rows with them reads these while a cache has them. So it is with columns, but not on a device, where few lanes,
 * or rows, leave most of its threads without work. */
static bool is_tail(struct work *w, const struct node *n, int group, const int8_t ax[]) {
  const struct group *g = &w->group[group];
  int inner = folded_axis(g);
  bool goes_along = false;
  if (inner < 0) return false; /* nothing is folded */
  for (int k = 0; k < space(n)->rank; k++) goes_along |= ax[k] == inner && space(n)->dims[k] != 1;
  if (goes_along && (!work_is_for_device(w) || (g->has_row && !has_few_rows(g, inner)))) return false;
  return (!goes_along || reads_fold(w, n, group)) && is_shared(w, group);
}

/* On a device a warp folds 4096 elements of a row, a thread 128 of a column: fewer threads than this, of so many elements each,
 * have arithmetic done for them better, by a thread an element. Estimated: the sum of 10000 log densities, a product of 30 terms in
 * each took 0.29 ms in one kernel. */
enum { FEW_THREADS = 8192, MANY_ELEMENTS = 16 };

bool fold_is_starved(const struct node *n, bool has_product) {
  if (!is_fold(n)) return false;
  const struct node *x = n->in[0];
  int axis = fold_axis(n), after = axis + 1;
  while (after < x->rank && x->dims[after] == 1) after++;
  bool is_row = after >= x->rank;
  if (is_row && x->dims[axis] <= KIR_ROW_BLOCK && !has_product) return false; /* a block of threads computes such a row */
  int64_t length = x->dims[axis], span = is_row ? KIR_ROW_BLOCK : KIR_COLUMN_BLOCK, together = is_row ? 32 : 1;
  int64_t each = (length < span ? length : span) / together, spans = (length + span - 1) / span;
  return each >= MANY_ELEMENTS && (double)node_count(n) * (double)(spans * together) < FEW_THREADS;
}

/* Or loads of more arrays than two, one after the other. */
static bool has_arithmetic(const struct work *w, const struct group *g) {
  bool is = g->has_contract || g->n_bases > 2;
  for (int i = 0; i < g->n_items; i++) {
    const struct node *x = w->item[g->item[i]].node;
    is |= x->op->kind == OP_TAKE || (x->op->kind == OP_ELEMENT && !x->op->is_cheap);
    if (is_fold(x)) return false; /* rows that are kept, or folded already: their threads are there */
  }
  return is;
}

/* The product of a library, rounded: it stores what is rounded. */
static bool only_rounds(struct work *w, const struct node *n, const struct group *g) {
  const struct node *x = n->in[0];
  return g->n_items == 1 && n->op == &op_cast && g->item[0] == x->slot && local_of(x)->n_uses == 1 &&
         !w->item[x->slot].is_target && (n->dtype == x->in[0]->dtype);
}

static bool try_join(struct work *w, struct node *n, int group) {
  int8_t ax[WEFT_RANK_MAX];
  struct group trial;
  const struct node *sp = space(n);
  memset(ax, -1, sizeof ax);
  if (w->group[group].is_apart && !only_rounds(w, n, &w->group[group])) return false;
  bool is_starved = work_is_for_device(w) && fold_is_starved(n, w->group[group].has_contract);
  if (is_starved && has_arithmetic(w, &w->group[group])) return false;
  if (reads_across(w, n, group) || !axes_from(w, n, group, ax) || !distinct(sp, ax) || !complete(sp, ax)) return false;
  if (!reads_in_place(w, n, group, ax) || is_tail(w, n, group, ax)) return false;
  if (!with_node(w, n, group, ax, &trial) || !can_store(&trial, n, ax)) return false;
  if (!has_same_form(&trial, &w->group[group]) && !can_store_all(w, &trial, &trial, NULL)) return false;
  int level = level_needed(w, n, group);
  if (!may_raise(&w->group[group], level)) return false;
  if (!all_ins_readable(w, n, &w->group[group])) return false;
  memcpy(trial.base, w->group[group].base, sizeof trial.base);
  trial.n_bases = w->group[group].n_bases;
  w->group[group] = trial;
  return enter(w, n, group, ax);
}

static bool merge_candidates(struct work *w, const struct node *n, int m, int c[]) {
  bool merged = false;
  for (int i = 1; i < m; i++) {
    int8_t a[WEFT_RANK_MAX], b[WEFT_RANK_MAX];
    memset(a, -1, sizeof a), memset(b, -1, sizeof b);
    if (reads_across(w, n, c[0]) || reads_across(w, n, c[i])) continue;
    if (!axes_from(w, n, c[0], a) || !axes_from(w, n, c[i], b)) continue;
    if (merge(w, c[0], c[i], space(n), a, b)) merged = true;
    if (w->no_memory) return false;
  }
  return merged;
}

static bool start_group(struct work *w, struct node *n) {
  int index;
  struct group *g = group_new(w, &index);
  if (!g) return false;
  const struct node *sp = space(n);
  int8_t ax[WEFT_RANK_MAX];
  memset(ax, -1, sizeof ax);
  g->for_operand = w->item[n->slot].for_operand;
  for (int k = 0; k < sp->rank; k++) {
    if (sp->dims[k] == 1) continue;
    if (g->n_axes == AXES) {
      const char *why = "weft_%s: more than %d axes longer than 1";
      return work_fail(w, fail(WEFT_ERR_UNSUPPORTED, n->origin, why, n->op->name, AXES));
    }
    g->extent[g->n_axes] = sp->dims[k];
    ax[k] = (int8_t)g->n_axes++;
  }
  g->is_alone = local_of(n)->is_alone || !w->fuse || !(joins_groups(n) || n->op->kind == OP_CONTRACT);
  g->has_contract = n->op->kind == OP_CONTRACT;
  g->is_tiled = g->has_contract && contract_is_by_itself(w, n);
  g->is_apart = g->has_contract && contract_is_apart(w, n);
  if (g->has_contract && (contract_is_by_patches(w, n) || contract_is_long(w, n))) {
    g->product = n;
    g->is_alone |= contract_is_long(w, n);
    for (int a = 0; a < g->n_axes; a++) g->pinned[a] = true;
  }
  struct group trial;
  if (with_node(w, n, index, ax, &trial)) w->group[index] = trial;
  all_ins_readable(w, n, &w->group[index]);
  return enter(w, n, index, ax);
}

static bool is_own_step(const struct node *n) { return facts_of(n)->is_own_step || prefix_is_apart(n); }

static bool place_node(struct work *w, struct node *n) {
  struct item *x = &w->item[n->slot];
  if (n->op->kind == OP_VIEW || n->op->kind == OP_LEAF || local_of(n)->is_floating) return true;
  for (int k = 0; k < n->n_in; k++) { /* what cannot float into the kernel of n stands in memory before it */
    struct edge e = edge_of(n->in[k]);
    if (is_open(w, e.base) && (!e.aligned || needs_memory(n, k)) && !in_memory(w, e.base)) return false;
  }
  if (is_own_step(n)) {
    for (int k = 0; k < n->n_in; k++) if (!in_memory(w, edge_of(n->in[k]).base)) return false;
    x->is_stored = true;
    x->ready_level = level_needed(w, n, -1) + 1;
    return true;
  }
  if (w->fuse && joins_groups(n)) {
    int c[8], m = candidates(w, n, c, 8);
    if (m > 1 && merge_candidates(w, n, m, c)) m = candidates(w, n, c, 8);
    for (int i = 0; i < m; i++) {
      if (try_join(w, n, c[i])) return true;
      if (w->no_memory || w->failure) return false;
    }
  }
  return start_group(w, n);
}

bool group_nodes(struct work *w) {
  w->n_groups = 0;
  for (int i = 0; i < w->list->n; i++) {
    struct item *x = &w->item[i];
    *x = (struct item){ .node = w->list->node[i] };
    x->group = x->seen_group = x->into = x->for_operand = -1;
    x->place.store = -1;
    memset(x->ax, -1, sizeof x->ax);
  }
  for (int t = 0; t < w->n_targets; t++) {
    struct node *b = edge_of(w->target[t]).base;
    struct item *x = &w->item[b->slot];
    if (b->op != &op_value && b->op != &op_scalar) x->is_target = x->is_stored = true;
  }
  if (w->fuse) makers_mark(w);
  for (int i = 0; i < w->list->n; i++)
    if (!place_node(w, w->list->node[i])) return false;
  return true;
}
