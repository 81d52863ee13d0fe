/* maker.c -- operands of products that are computed while they are packed: casts, scales, masks, gathered rows and whatever
 * else is element by element, if nobody but the product wants it. Their kernel runs on pieces of the operand, in scratch of a
 * thread; as a whole the operand stands nowhere.
 *
 * Pieces may be computed several times, as they are packed: the left operand once for each block of columns, the right one
 * for each block of rows. So it is a matter of cost, which depends on shapes alone. No choice made here changes a bit. */
#include <string.h>
#include "backend/patch.h"
#include "schedule/work.h"

enum { /* vector instructions for as many elements as a vector has */
  CHEAP = 2,
  PASS = 3,                     /* a piece written and read again, in L1 */
  FROM_CACHE = 6, FROM_MEMORY = 24, /* a whole operand written and read again */
  LEAST_BYTES = 1 << 18,        /* less stays in cache, and need not even be packed */
  LARGE_BYTES = 1 << 20,
  SMALL_PART = 16,              /* of the products' work: a sixteenth is worth the memory */
  BLOCK_COLUMNS = 512, BLOCK_ROWS = 112, FLAT_ROWS = 28, MOST_BLOCKS = 8, /* as run/product.c packs: */
  HELD_ROWS = 2048, SHARED = 1 << 22 /* elements of a right operand that is packed once */
};

/* ---- what it costs ---- */

static double cost_of(const struct node *n) {
  return n->op->is_cheap ? CHEAP : facts_of(n)->element_cost;
}

static double divide_up(double a, double b) { return (double)((int64_t)((a - 1) / b) + 1); }

/* How often an element of operand k is computed, but for batches. other: how many products it is part of. */
static double times_made(const struct node *product, int k, double other) {
  bool is_left = (k == 0) != contract_is_turned(product);
  if (is_left) return divide_up(other, BLOCK_COLUMNS);
  const struct node *x = product->in[k];
  double inner = (double)product->in[0]->dims[product->rank - 1], blocks = divide_up(other, BLOCK_ROWS);
  if (other <= FLAT_ROWS || (inner <= HELD_ROWS && product->rank == 2 && node_count(x) <= SHARED)) return 1;
  return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

/* Batches of the product that read the same elements of the operand. */
static double times_read(const struct node *product, const struct maker *m) {
  double n = 1;
  for (int k = 0, i = 0; k < product->rank - 2; k++)
    if (product->dims[k] != 1 && m->batch_axis[i++] < 0) n *= (double)product->dims[k];
  return n;
}

static bool pays(struct work *w, const struct group *g, const struct node *product, int k, const struct maker *m) {
  const struct node *x = product->in[k];
  double other = (double)product->dims[product->rank - (k == 0 ? 1 : 2)], work = 0;
  double bytes = (double)node_count(x) * kir_width(kir_register_of((weft_dtype)x->dtype)) / times_read(product, m);
  for (int i = 0; i < g->n_items; i++) work += cost_of(w->list->node[g->item[i]]);
  bool is_flat = other <= FLAT_ROWS && (k == 0) == contract_is_turned(product); /* read once, by few rows at a time */
  if (bytes < LEAST_BYTES || (is_flat && work >= kind_facts[OP_ELEMENT].element_cost)) return false;
  double made = times_made(product, k, other) * times_read(product, m) * (work + PASS);
  return made <= work + (bytes > LARGE_BYTES ? FROM_MEMORY : FROM_CACHE) || made * SMALL_PART <= other;
}

/* Long ones are cut into blocks that are read where they are. Large products of bf16 go in pairs, if all their numbers allow
 * it: they are looked at first. */
static bool needs_whole(struct work *w, const struct node *product) {
  int last = product->rank - 1;
  if (contract_is_long(w, product)) return true;
  return product->in[0]->dtype == WEFT_BF16 && product->in[1]->dtype == WEFT_BF16 && product->dims[last] > FLAT_ROWS &&
         product->dims[last - 1] > FLAT_ROWS;
}

/* ---- which ---- */

static bool is_elementwise(struct work *w, const struct group *g) {
  if (g->is_dead || g->product || g->has_contract || g->has_row || g->column >= 0 || !g->n_axes) return false;
  for (int i = 0; i < g->n_items; i++) if (!facts_of(w->list->node[g->item[i]])->may_be_made) return false;
  return true;
}

/* What the operand shows, axis by axis, if it is the only use of it. */
static const struct node *shown_by(const struct node *operand, struct edge *e) {
  *e = edge_of(operand);
  for (const struct node *x = operand; x != e->base; x = x->in[0]) if (local_of(x)->n_uses != 1) return NULL;
  return e->aligned && local_of(e->base)->n_uses == 1 ? e->base : NULL;
}

static void mark(struct work *w, const struct node *operand, int for_operand) {
  struct edge e;
  const struct node *x = shown_by(operand, &e);
  if (x && facts_of(x)->may_be_made && !w->item[x->slot].is_target) w->item[x->slot].for_operand = for_operand;
}

void makers_mark(struct work *w) {
  for (int i = w->list->n; i--;) { /* users before what they use */
    const struct node *n = w->list->node[i];
    bool is_product = n->op->kind == OP_CONTRACT && contract_is_by_patches(w, n) && !needs_whole(w, n) && n->n_in == 2;
    for (int k = 0; k < n->n_in; k++) {
      if (is_product) mark(w, n->in[k], 2 * i + k);
      else if (w->item[i].for_operand >= 0 && !needs_memory(n, k)) mark(w, n->in[k], w->item[i].for_operand);
    }
  }
}

/* The axis of the kernel that an axis of the operand is; -1: none. */
static int axis_of(const struct item *x, const struct edge *e, int axis) {
  for (int k = 0; k < x->node->rank; k++) if (x->node->dims[k] != 1 && e->map[k] == axis) return x->ax[k];
  return -1;
}

struct lie { double rows, columns; }; /* elements read whose neighbours are those of a row, of a column */

static double walked(const struct node *x, const struct place *p) {
  double n = 1;
  for (int k = 0; k < x->rank; k++) if (p->stride[k]) n *= (double)x->dims[k];
  return n;
}

/* Operand k of x, read from p: the last axes of what rows are taken from are those of the result. */
static void count_neighbours(const struct maker *m, const struct item *x, int k, const struct place *p, struct lie *l) {
  const struct node *in = x->node->in[k];
  int shift = x->node->op->kind == OP_TAKE && k == 0 ? x->node->rank - in->rank : 0;
  for (int j = 0; j < in->rank; j++) {
    bool moves_by_one = in->dims[j] != 1 && (p->stride[j] == 1 || p->stride[j] == -1);
    int axis = moves_by_one && j + shift >= 0 ? x->ax[j + shift] : -1;
    if (axis >= 0 && axis == m->column_axis) l->rows += walked(in, p);
    if (axis >= 0 && axis == m->row_axis) l->columns += walked(in, p);
  }
}

static bool lies_by_rows(struct work *w, const struct group *g, const struct maker *m) {
  struct lie l = { 0 };
  for (int i = 0; i < g->n_items; i++) {
    const struct item *x = &w->item[g->item[i]];
    for (int k = 0; k < x->node->n_in; k++) {
      struct place p;
      const struct node *in = x->node->in[k];
      bool is_inside = w->item[edge_of(in).base->slot].group == x->group;
      if (!is_inside && !scalar_of(in) && place_of(w, in, &p)) count_neighbours(m, x, k, &p, &l);
    }
  }
  return m->column_axis >= 0 && (l.rows >= l.columns || m->row_axis < 0);
}

static struct maker *maker_of(struct work *w, const struct group *g, const struct item *x, const struct edge *e, int rank,
                              const dim dims[]) {
  struct maker *m = work_take(w, sizeof *m);
  if (!m) return NULL;
  *m = (struct maker){ .step = -1, .piece = -1, .n_axes = g->n_axes };
  memset(m->start, -1, sizeof m->start);
  memset(m->batch_axis, -1, sizeof m->batch_axis);
  for (int k = 0, i = 0; k < rank - 2; k++) if (dims[k] != 1) m->batch_axis[i++] = axis_of(x, e, k);
  m->row_axis = axis_of(x, e, rank - 2);
  m->column_axis = axis_of(x, e, rank - 1);
  m->is_by_rows = lies_by_rows(w, g, m);
  return m;
}

static bool find_maker(struct work *w, struct group *g, int k) {
  const struct node *n = g->product, *operand = n->in[k];
  struct edge e;
  const struct node *x = shown_by(operand, &e);
  int h = x ? w->item[x->slot].group : -1;
  if (h < 0 || !is_elementwise(w, &w->group[h]) || !group_gives_only(w, &w->group[h], x) || needs_whole(w, n)) return true;
  struct maker *m = maker_of(w, &w->group[h], &w->item[x->slot], &e, n->rank, operand->dims);
  if (!m) return false;
  if ((m->row_axis < 0 && m->column_axis < 0) || !pays(w, &w->group[h], n, k, m)) return true;
  g->made_by[k] = h;
  w->group[h].maker = m;
  for (int a = 0; a < w->group[h].n_axes; a++) w->group[h].pinned[a] = true;
  w->out->store[w->item[x->slot].place.store].bytes = 0;
  return true;
}

/* ---- right operands that are turned while they are packed ----
 * Weights [o, c, places] as the columns of a product whose sums go through the places and then the channels: a reshape that no
 * strides can express, so that they are copied (prepare.c). If that is all that is done with them they are read where they are: a
 * copy of 512 x 512 x 9 takes as long as the products with 49 rows. */

enum {
  LEAST_TURNED = 33,            /* rows of the product: with more than two patches its right operand is packed (run/product.h) .. */
  LEAST_HELD = 1 << 18          /* .. so it is with more bytes than that */
};

static bool may_be_turned(const struct work *w, const struct group *g) {
  const struct node *n = g->product, *b = n->in[1];
  int64_t m = n->dims[n->rank - 2], columns = n->dims[n->rank - 1], k = b->dims[b->rank - 2];
  if (work_is_for_device(w) || g->feeds || g->made_by[1] >= 0 || contract_is_turned(n)) return false;
  if (node_count(n) != m * columns) return false;
  if (n->in[0]->dtype != b->dtype || (b->dtype != WEFT_F32 && b->dtype != WEFT_F64)) return false;
  return m >= LEAST_TURNED && node_count(b) == k * columns &&
         (double)k * (double)columns * kir_width((weft_dtype)b->dtype) > LEAST_HELD;
}

/* The copy that an operand shows, of an array that nobody else uses and that is nobody's result: no update overwrites it before
 * the product reads it. NULL: it is another. */
static const struct node *copy_shown(struct work *w, const struct node *operand) {
  const struct node *copy = edge_of(operand).base, *x = operand;
  if (copy->op != &op_cast || !local_of(copy)->is_alone || copy->in[0]->dtype != copy->dtype) return NULL;
  for (; x->op != &op_value; x = x->in[0])
    if (local_of(x)->n_uses != 1 || w->item[x->slot].is_target || (x != copy && x->op->kind != OP_VIEW)) return NULL;
  return local_of(x)->n_uses == 1 ? copy : NULL;
}

/* Whether the operand [k, n] is the copy [n, k], column by column. */
static bool shows_columns(struct work *w, const struct node *operand, const struct node *copy) {
  struct place p;
  const struct place *dense = &w->item[copy->slot].place;
  int64_t k = operand->dims[operand->rank - 2];
  return node_count(copy) == node_count(operand) && place_of(w, operand, &p) && p.store == dense->store &&
         p.offset == dense->offset && p.stride[operand->rank - 2] == 1 && p.stride[operand->rank - 1] == k;
}

/* Axes [n, places.., c] of what is copied, of which the places are neighbours and so are the channels behind them. Rows of a run;
 * 0: it lies otherwise. */
static int64_t run_of(const struct node *copy, const struct place *p, int64_t k, int64_t *column) {
  int64_t d[WEFT_RANK_MAX], s[WEFT_RANK_MAX], stride = 1;
  int n = 0;
  for (int i = 0; i < copy->rank; i++) if (copy->dims[i] != 1) d[n] = copy->dims[i], s[n++] = p->stride[i];
  if (n < 3 || d[0] * k != node_count(copy)) return 0;
  for (int i = n - 2; i > 0; stride *= d[i--]) if (s[i] != stride) return 0;
  *column = s[0];
  return s[n - 1] == stride && s[0] >= k ? d[n - 1] : 0;
}

static void find_runs(struct work *w, struct group *g) {
  const struct node *operand = g->product->in[1], *copy = may_be_turned(w, g) ? copy_shown(w, operand) : NULL;
  struct place from;
  int h = copy ? w->item[copy->slot].group : -1;
  if (h < 0 || w->group[h].n_items != 1 || !shows_columns(w, operand, copy) || !place_of(w, copy->in[0], &from)) return;
  int64_t k = operand->dims[operand->rank - 2], column, run = run_of(copy, &from, k, &column);
  if (!run) return;
  g->run = run, g->right = (struct binding){ .store = from.store, .offset = from.offset, .stride = { k / run, column } };
  w->group[h].is_dead = true;
  w->out->store[w->item[copy->slot].place.store].bytes = 0;
}

/* ---- right operands that stand in two places ----
 * A row by a matrix that two arrays make together, side by side: keys or values that are held and those of one token more. Each
 * element is read once, so to join them takes longer than the product. If that is all that is done with them they are read where
 * they are. */

enum { LEAST_JOINED = 1 << 12 }; /* elements: fewer are copied in no time */

static bool may_be_joined(const struct work *w, const struct group *g) {
  const struct node *n = g->product, *b = n->in[1];
  if (work_is_for_device(w) || g->made_by[1] >= 0 || n->dims[n->rank - 2] != 1 || contract_is_turned(n)) return false;
  return n->in[0]->dtype == WEFT_F32 && b->dtype == WEFT_F32 && n->dims[n->rank - 1] <= DOTS_COLUMNS &&
         node_count(b) >= LEAST_JOINED && !contract_is_long(w, n);
}

/* Nobody else uses it, and it is no result. */
static bool is_only_ours(const struct work *w, const struct node *x) {
  return local_of(x)->n_uses == 1 && !w->item[x->slot].is_target;
}

/* The two arrays side by side that an operand shows, its axes in another order; axis: which of theirs each is. */
static const struct node *joined_in(const struct work *w, const struct node *operand, int axis[]) {
  const struct node *x = operand;
  for (int k = 0; k < operand->rank; k++) axis[k] = k;
  for (; x->op == &op_transpose; x = x->in[0]) {
    if (!is_only_ours(w, x)) return NULL;
    for (int k = 0; k < operand->rank; k++) axis[k] = ((const struct transpose_attr *)x->attr)->axes[axis[k]];
  }
  return x->op == &op_concat && x->n_in == 2 && is_only_ours(w, x) && w->item[x->slot].into < 0 ? x : NULL;
}

/* An array that stands where it is until the product has read it: nothing but the join uses it, so nothing may overwrite it. */
static bool stays(const struct work *w, const struct node *part) {
  const struct node *base = edge_of(part).base;
  for (const struct node *x = part; x != base; x = x->in[0]) if (!is_only_ours(w, x)) return false;
  return is_only_ours(w, base) && (base->op == &op_value || w->item[base->slot].group >= 0);
}

/* Part of a join, as the operand shows it. What was to be stored in the joined array gets a place of its own. */
static bool part_place(struct work *w, const struct node *join, const struct node *part, const struct node *operand,
                       const int axis[], struct binding *b) {
  struct item *x = &w->item[part->slot];
  struct place p;
  if (x->into == join->slot) {
    int s = store_new(w, node_count(part) * (int64_t)weft_dtype_bytes((weft_dtype)part->dtype));
    if (s < 0) return false;
    place_dense(part, s, &x->place), x->into = -1;
  }
  if (!place_needed(w, part, &p)) return false;
  *b = (struct binding){ .store = p.store, .offset = p.offset };
  for (int k = 0, i = 0; k < operand->rank; k++)
    if (k >= operand->rank - 2 || operand->dims[k] != 1) b->stride[i++] = part->dims[axis[k]] == 1 ? 0 : p.stride[axis[k]];
  return true;
}

/* Neighbours are those along k if columns are split, and those of a row if rows are. */
static bool lies_for_dots(const struct node *operand, const struct binding *b, bool splits_rows) {
  int row = 0;
  for (int k = 0; k < operand->rank - 2; k++) row += operand->dims[k] != 1;
  return b->stride[row + splits_rows] == 1;
}

static bool find_joined(struct work *w, struct group *g) {
  const struct node *operand = g->product->in[1];
  int axis[WEFT_RANK_MAX], last = operand->rank - 1;
  const struct node *join = may_be_joined(w, g) ? joined_in(w, operand, axis) : NULL;
  if (!join || !stays(w, join->in[0]) || !stays(w, join->in[1])) return true;
  int along = ((const struct axis_attr *)join->attr)->axis;
  bool splits_rows = axis[last - 1] == along;
  struct binding part[2];
  struct place p;
  if ((!splits_rows && axis[last] != along) || !join->in[0]->dims[along] || !join->in[1]->dims[along]) return true;
  for (int i = 0; i < 2; i++) if (!place_of(w, join->in[i], &p)) return true;
  for (int i = 0; i < 2; i++) if (!part_place(w, join, join->in[i], operand, axis, &part[i])) return false;
  if (!lies_for_dots(operand, &part[0], splits_rows) || !lies_for_dots(operand, &part[1], splits_rows)) return true;
  g->first = join->in[0]->dims[along], g->splits_rows = splits_rows, g->right = part[0], g->rest = part[1];
  w->item[join->slot].ready_level = 0; /* nobody writes it */
  w->out->store[w->item[join->slot].place.store].bytes = 0;
  return true;
}

bool makers_find(struct work *w) {
  for (int i = 0; i < w->n_groups && w->fuse; i++) {
    struct group *g = &w->group[i];
    if (g->is_dead || !g->product || g->product->n_in > 2) continue; /* those that are added read what stands in memory */
    for (int k = 0; g->fed_by < 0 && k < (g->feeds ? 1 : 2); k++) /* one that feeds may leave out columns */
      if (!find_maker(w, g, k)) return false;
    if (g->fed_by < 0) find_runs(w, g);
    if (g->fed_by < 0 && !windows_find(w, g)) return false;
    if (!find_joined(w, g)) return false;
  }
  return true;
}
