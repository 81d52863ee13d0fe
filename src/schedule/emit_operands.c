/* emit_operands.c -- the parts of a group, and where each finds its operands: in another part, in memory, or in a number. */
#include <string.h>
#include "schedule/emit.h"

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

bool emit_collect(struct emit *e) {
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
