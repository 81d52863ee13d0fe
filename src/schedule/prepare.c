/* prepare.c -- makes a graph easier to schedule without changing a bit of its results.
 *
 * Afterwards: slices and reshapes of a computed value that nobody else uses have moved below it, to its operands; an
 * update that combines is an update that sets; every reshape can be expressed by strides, because what it reads was
 * copied where it could not; scatters combine in a register dtype. */
#include <string.h>
#include "graph/dtype.h"
#include "schedule/work.h"

struct node *work_node(struct work *w, const struct op *op, weft_dtype t, int rank, const dim dims[], int n,
                       struct node *const in[], const void *attr, size_t bytes) {
  struct node *x = node_local(w->arena, op, t, rank, dims, n, in, attr, bytes);
  if (x) x->slot = -1;
  else w->no_memory = true;
  return x;
}

struct node *work_cast(struct work *w, struct node *x, weft_dtype t) {
  return work_node(w, &op_cast, t, x->rank, x->dims, 1, &x, NULL, 0);
}

/* ---- the order of nodes, after some were added or replaced ---- */

struct node_stack { struct node **node; int *next; int n, room; };

static bool push(struct work *w, struct node_stack *s, struct node *x) {
  if (s->n == s->room) {
    int room = s->room ? 2 * s->room : 256;
    struct node **node = arena_grow(w->arena, s->node, sizeof *node * (size_t)s->n, sizeof *node * (size_t)room);
    int *next = arena_grow(w->arena, s->next, sizeof *next * (size_t)s->n, sizeof *next * (size_t)room);
    if (!node || !next) return !(w->no_memory = true);
    s->node = node, s->next = next, s->room = room;
  }
  s->node[s->n] = x;
  s->next[s->n++] = 0;
  return true;
}

static bool append(struct work *w, struct node *x) {
  struct node_list *l = w->list;
  if (l->n == l->room) {
    int room = l->room ? 2 * l->room : 256;
    struct node **node = arena_grow(w->arena, l->node, sizeof *node * (size_t)l->n, sizeof *node * (size_t)room);
    if (!node) return !(w->no_memory = true);
    l->node = node, l->room = room;
  }
  x->slot = l->n;
  l->node[l->n++] = x;
  return true;
}

enum { UNSEEN = -1, OPEN = -2 };

/* Lists what the targets need, inputs before users. */
static bool order(struct work *w) {
  struct node_stack s = { 0 };
  for (int i = 0; i < w->list->n; i++) w->list->node[i]->slot = UNSEEN;
  *w->list = (struct node_list){ 0 };
  for (int t = 0; t < w->n_targets; t++) {
    if (w->target[t]->slot >= 0) continue;
    if (!push(w, &s, w->target[t])) return false;
    while (s.n) {
      struct node *x = s.node[s.n - 1];
      if (x->slot >= 0) { s.n--; continue; }
      x->slot = OPEN;
      bool deeper = false;
      while (s.next[s.n - 1] < x->n_in) {
        struct node *in = x->in[s.next[s.n - 1]++];
        if (in->slot >= 0) continue;
        if (!push(w, &s, in)) return false;
        deeper = true;
        break;
      }
      if (deeper) continue;
      s.n--;
      if (!append(w, x)) return false;
    }
  }
  return true;
}

static void count_uses(struct work *w) {
  for (int i = 0; i < w->list->n; i++) local_of(w->list->node[i])->n_uses = 0;
  for (int i = 0; i < w->list->n; i++)
    for (int k = 0; k < w->list->node[i]->n_in; k++) local_of(w->list->node[i]->in[k])->n_uses++;
  for (int t = 0; t < w->n_targets; t++) local_of(w->target[t])->n_uses++;
}

bool nodes_order(struct work *w) {
  if (!order(w)) return false;
  return count_uses(w), true;
}

/* ---- updates ---- */

const struct op *put_combiner(weft_how how, weft_dtype t) {
  bool b = t == WEFT_BOOL;
  switch (how) {
    case WEFT_ADD: return b ? &op_or : &op_add;
    case WEFT_MUL: return b ? &op_and : &op_mul;
    case WEFT_MIN: return b ? &op_and : &op_minimum;
    case WEFT_MAX: return b ? &op_or : &op_maximum;
    case WEFT_SET: break;
  }
  return NULL;
}

/* put(x, v, how) = put(x, how(part of x, v), set): the elements of an affine part are apart. */
static bool put_sets(struct work *w, struct node *n) {
  struct put_attr *a = n->attr;
  if (a->how == WEFT_SET) return true;
  struct node *part = n->in[0], *v = n->in[1];
  for (int k = 0; k < n->rank && part; k++) {
    dim dims[WEFT_RANK_MAX];
    memcpy(dims, part->dims, sizeof *dims * (size_t)part->rank);
    if (a->start[k] == 0 && a->step[k] == 1 && dims[k] == v->dims[k]) continue;
    dims[k] = v->dims[k];
    struct slice_attr s = { k, a->start[k], a->step[k] };
    part = work_node(w, &op_slice, (weft_dtype)part->dtype, part->rank, dims, 1, &part, &s, sizeof s);
  }
  struct node *both[] = { part, v };
  weft_dtype t = (weft_dtype)n->dtype;
  struct node *sum = part ? work_node(w, put_combiner((weft_how)a->how, t), t, v->rank, v->dims, 2, both, NULL, 0) : NULL;
  if (!sum) return false;
  n->in[1] = sum;
  a->how = WEFT_SET;
  return true;
}

/* A scatter that combines in bf16 would round at every update: it happens in the register dtype, rounded once. */
static bool scatter_wide(struct work *w, struct node *n) {
  struct scatter_attr *a = n->attr;
  weft_dtype wide = kir_register_of(n->dtype);
  if (a->how == WEFT_SET || wide == n->dtype) return true;
  struct node *in[WEFT_RANK_MAX + 2];
  memcpy(in, n->in, sizeof *in * (size_t)n->n_in);
  in[0] = work_cast(w, n->in[0], wide);
  in[1] = work_cast(w, n->in[1], wide);
  struct node *s = in[0] && in[1] ? work_node(w, &op_scatter, wide, n->rank, n->dims, n->n_in, in, a, n->attr_bytes) : NULL;
  if (!s) return false;
  s->origin = n->origin; /* who is blamed for its indices */
  n->op = &op_cast;
  n->n_in = 1;
  n->in[0] = s;
  return true;
}

/* Whether x counts 0 1 2 .. along an axis and is the same along all others. */
static bool counts_along(const struct node *x, int axis) {
  while (axis >= 0 && ((x->op == &op_cast && x->dtype == WEFT_I64) || x->op == &op_broadcast)) {
    const struct node *from = x->in[0];
    axis -= x->rank - from->rank;
    if (axis < 0 || from->dims[axis] != x->dims[axis + x->rank - from->rank]) return false;
    x = from;
  }
  return x->op->kind == OP_IOTA && x->dtype == WEFT_I64 && ((const struct axis_attr *)x->attr)->axis == axis;
}

/* Updates along an axis, as put_along_axis has them: the first axes of x are those of v, each row of which updates its own.
 * The indices that only count are left out, and rows are what threads share. Not where few slots take many updates, whose
 * sums have an order that depends on the number of them (`by_private_copies` of scatter.c). */
static void scatter_in_batches(const struct work *w, struct node *n) {
  struct scatter_attr *a = n->attr;
  const struct node *index = n->in[2];
  int batch = 0;
  int64_t rows = 1;
  if (!w->by_patches || node_count(index) < SCATTER_MANY || (a->how != WEFT_SET && scatter_is_by_copies(n))) return;
  int most = a->n < index->rank ? a->n - 1 : index->rank - 1;
  while (batch < most && index->dims[batch] == n->dims[batch] && counts_along(n->in[2 + batch], batch))
    rows *= index->dims[batch++];
  if (!batch || node_count(index) / rows < SCATTER_ROW) return;
  a->batch = batch, a->n -= batch, n->n_in -= batch;
  memmove(n->in + 2, n->in + 2 + batch, sizeof *n->in * (size_t)a->n);
}

/* Sums and products of matrices of 8-bit floats are of f32, rounded once: what adds outside of kernels, and copies of a result that
 * are merged, know no floats of 8 bits. */
static bool eighths_wide(struct work *w, struct node *n) {
  enum op_kind kind = n->op->kind;
  if (kind != OP_REDUCE && kind != OP_PREFIX && kind != OP_CONTRACT) return true;
  for (int k = 0; k < n->n_in; k++)
    if (kir_is_f8((weft_dtype)n->in[k]->dtype) && !(n->in[k] = work_cast(w, n->in[k], WEFT_F32))) return false;
  if (!kir_is_f8((weft_dtype)n->dtype)) return true;
  struct node *y = work_node(w, n->op, WEFT_F32, n->rank, n->dims, n->n_in, n->in, n->attr, n->attr_bytes);
  struct node *c = y ? work_cast(w, y, (weft_dtype)n->dtype) : NULL;
  if (!c) return false;
  y->origin = n->origin;
  local_become(n, c);
  return true;
}

/* ---- views ---- */

static bool is_scalar(const struct node *x) { return scalar_of(x) != NULL; }

static bool moves_elements(const struct node *v) { return v->op == &op_slice || v->op == &op_reshape; }

/* Reshape that only adds or drops axes of length 1. */
static bool only_ones(const struct node *v) {
  int i = 0, o = 0;
  const struct node *x = v->in[0];
  for (;;) {
    while (i < x->rank && x->dims[i] == 1) i++;
    while (o < v->rank && v->dims[o] == 1) o++;
    if (i == x->rank || o == v->rank) return i == x->rank && o == v->rank;
    if (x->dims[i++] != v->dims[o++]) return false;
  }
}

/* What a view shows of the indices along an axis: start + sum of weight times the index along an axis of the view. */
struct indices { int n, axis[WEFT_RANK_MAX]; int64_t weight[WEFT_RANK_MAX], start; };

/* The axes of a reshape that were this one before; false: it is mixed with others. */
static bool split_axis(const struct node *v, const struct node *x, int axis, struct indices *t) {
  int64_t before = 1, n = 1;
  int k = 0;
  for (int j = 0; j < axis; j++) before *= x->dims[j];
  for (; k < v->rank && before > 1 && before % (v->dims[k] + !v->dims[k]) == 0; k++) before /= v->dims[k] + !v->dims[k];
  for (; k < v->rank && before == 1 && n < x->dims[axis]; k++) {
    for (int j = 0; j < t->n; j++) t->weight[j] *= v->dims[k];
    t->axis[t->n] = k, t->weight[t->n++] = 1;
    n *= v->dims[k];
  }
  return before == 1 && n == x->dims[axis] && t->n;
}

static bool find_indices(const struct node *v, struct indices *t) {
  const struct node *x = v->in[0];
  int axis = x->op->kind == OP_IOTA ? ((const struct axis_attr *)x->attr)->axis : -1;
  if (axis < 0 || !node_count(v)) return false;
  if (v->op == &op_reshape) return split_axis(v, x, axis, t);
  const struct slice_attr *s = v->op == &op_slice ? v->attr : NULL;
  if (!s) return false;
  bool along = s->axis == axis;
  *t = (struct indices){ 1, { axis }, { along ? s->step : 1 }, along ? s->start : 0 };
  return true;
}

/* An index computed of two others; it floats if they do. */
static struct node *index_of(struct work *w, const struct op *op, struct node *x, struct node *y) {
  struct node *in[2] = { x, y }, *i = x && y ? work_node(w, op, WEFT_I64, x->rank, x->dims, 2, in, NULL, 0) : NULL;
  if (i) local_of(i)->is_floating = local_of(x)->is_floating;
  return i;
}

static struct node *number_like(struct work *w, struct node *x, int64_t number) {
  struct scalar_attr bits = { (uint64_t)number };
  struct node *s = work_node(w, &op_scalar, WEFT_I64, 0, NULL, 0, NULL, &bits, sizeof bits);
  return s && x ? work_node(w, &op_broadcast, WEFT_I64, x->rank, x->dims, 1, &s, NULL, 0) : NULL;
}

/* Views of indices are computed, without the indices they leave out. */
static bool view_of_iota(struct work *w, struct node *v) {
  struct indices t = { 0 };
  struct node *sum = NULL;
  if (!find_indices(v, &t)) return true;
  for (int k = 0; k < t.n; k++) {
    struct axis_attr axis = { t.axis[k] };
    struct node *i = work_node(w, &op_iota, WEFT_I64, v->rank, v->dims, 0, NULL, &axis, sizeof axis);
    if (i) local_of(i)->is_floating = local_of(v->in[0])->is_floating;
    if (t.weight[k] != 1) i = index_of(w, &op_mul, i, number_like(w, i, t.weight[k]));
    sum = k ? index_of(w, &op_add, sum, i) : i;
  }
  if (t.start) sum = index_of(w, &op_add, sum, number_like(w, sum, t.start));
  struct node *c = sum ? work_cast(w, sum, (weft_dtype)v->dtype) : NULL;
  if (!c) return false;
  bool is_floating = local_of(v->in[0])->is_floating;
  local_become(v, c);
  local_of(v)->is_floating = is_floating;
  return true;
}

/* view(f(a, b)) = f(view(a), view(b)), if nobody else needs f(a, b). The view node becomes the f node. */
static bool sink(struct work *w, struct node *v, struct node_stack *todo) {
  if (v->in[0]->op->kind == OP_IOTA) return view_of_iota(w, v);
  struct node *e = v->in[0], *in[ELEMENT_MOST];
  if (e->op->kind != OP_ELEMENT || local_of(e)->n_uses != 1 || e->n_in > ELEMENT_MOST || local_of(e)->is_alone) return true;
  if ((v->op == &op_reshape && only_ones(v)) || local_of(e)->is_after_product) return true;
  for (int k = 0; k < e->n_in; k++) {
    struct node *x = e->in[k];
    if (is_scalar(x)) {
      struct node *s = (struct node *)scalar_of(x);
      in[k] = work_node(w, &op_broadcast, x->dtype, v->rank, v->dims, 1, &s, NULL, 0);
    } else {
      in[k] = work_node(w, v->op, x->dtype, v->rank, v->dims, 1, &x, v->attr, v->attr_bytes);
      if (in[k] && !push(w, todo, in[k])) return false;
    }
    if (!in[k]) return false;
    local_of(in[k])->n_uses = 1;
  }
  struct node *f = work_node(w, e->op, e->dtype, v->rank, v->dims, e->n_in, in, e->attr, e->attr_bytes);
  if (!f) return false;
  f->origin = e->origin;
  local_become(v, f);
  local_of(v)->is_floating = local_of(e)->is_floating;
  return true;
}

static void find_after_products(struct work *w) {
  for (int i = 0; i < w->list->n; i++) {
    struct node *x = w->list->node[i];
    bool is_after = x->op->kind == OP_CONTRACT && contract_is_by_patches(w, x);
    for (int k = 0; x->op->kind == OP_ELEMENT && k < x->n_in; k++) is_after |= local_of(x->in[k])->is_after_product;
    local_of(x)->is_after_product = is_after;
  }
}

static bool sink_views(struct work *w) {
  find_after_products(w);
  struct node_stack todo = { 0 };
  for (int i = 0; i < w->list->n; i++) {
    if (moves_elements(w->list->node[i]) && !push(w, &todo, w->list->node[i])) return false;
    while (todo.n)
      if (!sink(w, todo.node[--todo.n], &todo)) return false;
  }
  return true;
}

/* reshape(broadcast(scalar)) is a broadcast of the scalar. */
static void reshape_of_scalar(struct node *v) {
  if (!moves_elements(v) || !is_scalar(v->in[0])) return;
  v->in[0] = (struct node *)scalar_of(v->in[0]);
  v->op = &op_broadcast;
}

/* x in memory of its own. */
static struct node *copied(struct work *w, struct node *x) {
  weft_dtype t = (weft_dtype)x->dtype;
  if (!dtype_is_complex(t)) return work_cast(w, x, t);
  struct node *part[2];
  for (int64_t k = 0; k < 2; k++) {
    part[k] = work_node(w, &op_part, dtype_part(t), x->rank, x->dims, 1, &x, &(struct part_attr){ k }, sizeof(struct part_attr));
    if (!part[k] || !(part[k] = work_cast(w, part[k], dtype_part(t)))) return NULL;
  }
  return work_node(w, &op_pair, t, x->rank, x->dims, 2, part, NULL, 0);
}

/* Copies what a reshape reads if no strides can express it. Places are tried as if every computed value were dense. */
static bool copy_for_reshapes(struct work *w) {
  int n = w->list->n;
  struct place *p = work_take(w, sizeof *p * (size_t)n);
  if (!p) return false;
  for (int i = 0; i < n; i++) {
    struct node *x = w->list->node[i];
    if (x->op == &op_value) p[i] = w->leaf_place[local_of(x)->leaf];
    else if (x->op->kind != OP_VIEW) place_dense(x, 0, &p[i]);
    else if (!place_view(x, &p[x->in[0]->slot], &p[i])) {
      struct node *copy = copied(w, x->in[0]);
      if (!copy) return false;
      local_of(copy)->is_alone = true; /* a copy for its own sake: keeps its place, see group.c */
      x->in[0] = copy;
      struct place dense = { 0 };
      place_dense(copy, 0, &dense);
      if (!place_view(x, &dense, &p[i])) return false;
    }
  }
  return true;
}

/* What a product's operands can be loaded from; floats of 8 bits are known to kernels alone. */
static bool is_loading(weft_dtype from, weft_dtype to) {
  return kir_width(from) && from != to && kir_register_of(from) == to && !kir_is_f8(from);
}
static bool is_widening(weft_dtype from, weft_dtype to) { return dtype_is_integer(from) && to == WEFT_I64; }

/* What x shows through some views, if that is a cast of the kind, shown before the cast; else NULL. */
static struct node *before_cast(struct work *w, struct node *x, bool (*is_kind)(weft_dtype from, weft_dtype to)) {
  enum { MOST_VIEWS = 16 };
  struct node *view[MOST_VIEWS], *y = x;
  int n = 0;
  while (n < MOST_VIEWS && y->op->kind == OP_VIEW) view[n++] = y, y = y->in[0];
  if (y->op != &op_cast || local_of(y)->is_alone || is_scalar(y)) return NULL;
  weft_dtype from = (weft_dtype)y->in[0]->dtype;
  if (!is_kind(from, (weft_dtype)y->dtype)) return NULL;
  y = y->in[0];
  while (n-- && y) y = work_node(w, view[n]->op, from, view[n]->rank, view[n]->dims, 1, &y, view[n]->attr, view[n]->attr_bytes);
  return y;
}

struct node *before_loading(struct work *w, struct node *x) { return before_cast(w, x, is_loading); }

/* On a device zeros around what was widened are put around what it was before: half the memory, and products load halves. */
static bool pad_of_narrow(struct work *w, struct node *n) {
  const struct node *number = scalar_of(n->in[1]);
  struct node *x = number && !scalar_bits(number, (weft_dtype)n->dtype) ? before_cast(w, n->in[0], is_loading) : NULL;
  if (!x) return !w->no_memory;
  uint64_t zero = 0;
  weft_dtype t = (weft_dtype)x->dtype;
  struct node *in[] = { x, work_node(w, &op_scalar, t, 0, NULL, 0, NULL, &zero, sizeof zero) };
  struct node *pad = in[1] ? work_node(w, n->op, t, n->rank, n->dims, 2, in, n->attr, n->attr_bytes) : NULL;
  struct node *wide = pad ? work_cast(w, pad, (weft_dtype)n->dtype) : NULL;
  if (!wide) return false;
  pad->origin = wide->origin = n->origin;
  return local_become(n, wide), true;
}

/* Operands of a product are cast while they are loaded or packed. */
static bool product_of_narrow(struct work *w, struct node *n) {
  for (int k = 0; k < 2; k++) {
    struct node *x = before_cast(w, n->in[k], is_loading);
    if (x) n->in[k] = x;
  }
  return !w->no_memory;
}

/* Kernels that scatter widen their indices themselves, those of a device also where they gather: a kernel less. */
static bool indices_of_narrow(struct work *w, struct node *n, int first) {
  for (int k = first; k < n->n_in; k++) {
    struct node *x = before_cast(w, n->in[k], is_widening);
    if (x) n->in[k] = x;
  }
  return !w->no_memory;
}

/* A scalar that must stand in memory is written there. */
static bool store_scalars(struct work *w) {
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *x = w->list->node[i];
    bool knows_numbers = x->op->kind == OP_LOOP || x->op == &op_problems; /* loops: see loop_step.c */
    if (x->op->kind == OP_VIEW || x->op->kind == OP_LEAF || knows_numbers) continue;
    for (int k = 0; k < x->n_in; k++) {
      if (!needs_memory(x, k) || !is_scalar(x->in[k])) continue;
      struct node *of = x->in[k], *number = of;
      while (x->op->kind == OP_TAKE && number->op->kind == OP_VIEW) number = number->in[0]; /* read at any index, it is one */
      struct node *copy = work_cast(w, number, (weft_dtype)of->dtype);
      if (!copy) return false;
      local_of(copy)->is_alone = true;
      x->in[k] = number == of ? copy : work_node(w, &op_broadcast, of->dtype, of->rank, of->dims, 1, &copy, NULL, 0);
      if (!x->in[k]) return false;
    }
  }
  return true;
}

/* ---- floating nodes: cheap, without a stream of their own; each user gets one of its own ---- */

enum { FLOAT_DEPTH = 6 }; /* every user computes it again: deeper, that is more work than reading a stored element. Enough for
                             masks, casts and scalings; not measured closely */

/* How deep a floating expression would be; 0: it does not float. depth: of nodes before it. */
static int float_depth(struct work *w, const struct node *n, const int depth[]) {
  for (int t = 0; t < w->n_targets; t++) if (w->target[t] == n) return 0;
  if (n->op->kind == OP_IOTA || n->op->kind == OP_SIZE) return 1;
  if (n->op->kind != OP_ELEMENT || !n->op->is_cheap || local_of(n)->is_alone || local_of(n)->is_together) return 0;
  int streams = 0, deepest = 0;
  for (int k = 0; k < n->n_in; k++) {
    const struct node *x = n->in[k];
    if (is_scalar(x)) continue;
    while (x->op->kind == OP_VIEW) x = x->in[0];
    if (x->op == &op_value) streams++;
    else if (depth[x->slot] && x->op->kind != OP_IOTA && edge_of(n->in[k]).aligned) /* else it would be read at other indices */
      deepest = depth[x->slot] > deepest ? depth[x->slot] : deepest;
    else return 0;
  }
  if (streams > 1 || (streams && local_of(n)->n_uses < 2) || deepest + 1 > FLOAT_DEPTH) return 0;
  return deepest + 1;
}

static struct node *copy_of(struct work *w, const struct node *x) { /* with one user */
  struct node *c = work_node(w, x->op, (weft_dtype)x->dtype, x->rank, x->dims, x->n_in, x->in, x->attr, x->attr_bytes);
  if (c) c->origin = x->origin, local_of(c)->n_uses = 1;
  return c;
}

/* A copy of the views from x down, on top of a copy of their base and of what floats below that. */
static struct node *copy_chain(struct work *w, struct node *x, const int depth[], struct node **base) {
  struct node *c = copy_of(w, x), *top = c, *below;
  while (c && c->op->kind == OP_VIEW) c = c->in[0] = copy_of(w, c->in[0]);
  for (int k = 0; c && k < c->n_in; k++) { /* at most FLOAT_DEPTH deep */
    struct node *y = c->in[k];
    while (y->op->kind == OP_VIEW) y = y->in[0];
    if (is_scalar(c->in[k]) || (y->slot >= 0 && !depth[y->slot])) continue; /* slot < 0: a copy made here */
    if (!(c->in[k] = copy_chain(w, c->in[k], depth, &below))) return NULL;
    local_of(below)->is_floating = true;
  }
  *base = c;
  return c ? top : NULL;
}

static bool float_nodes(struct work *w) {
  int n = w->list->n;
  bool *taken = work_take(w, (size_t)n);
  int *depth = work_take(w, sizeof *depth * (size_t)n);
  if (!taken || !depth) return false;
  for (int i = 0; i < n; i++) depth[i] = float_depth(w, w->list->node[i], depth);
  for (int i = 0; i < n; i++) {
    struct node *x = w->list->node[i];
    if (x->op->kind == OP_VIEW || x->op->kind == OP_LEAF) continue;
    for (int k = 0; k < x->n_in; k++) {
      struct node *base = x->in[k];
      while (base->op->kind == OP_VIEW) base = base->in[0];
      if (base->slot < 0 || !depth[base->slot]) continue;
      if (!taken[base->slot]) taken[base->slot] = true;
      else if (!(x->in[k] = copy_chain(w, x->in[k], depth, &base))) return false;
      local_of(base)->is_floating = !needs_memory(x, k);
    }
  }
  for (int t = 0; t < w->n_targets; t++) { /* what a target shows through views is stored */
    struct node *base = w->target[t];
    while (base->op->kind == OP_VIEW) base = base->in[0];
    local_of(base)->is_floating = false;
  }
  return true;
}

static bool unfold(struct work *w, struct node *n) {
  const struct fold *f = n->op->kind == OP_REDUCE ? n->op->fold : NULL;
  return !f || !f->unfold || f->unfold(w->arena, n) || !(w->no_memory = true);
}

/* Products of matrices with more axes than two, where there are some. */
static bool join_rows(struct work *w) {
  bool has_some = false;
  for (int i = 0; i < w->list->n; i++) has_some |= w->list->node[i]->op->kind == OP_CONTRACT && w->list->node[i]->rank > 2;
  if (!has_some) return true;
  if (!order(w)) return false; /* without what loops have taken in */
  count_uses(w);
  if (!rows_join(w) || !order(w)) return false;
  count_uses(w);
  if (!products_add(w) || !order(w)) return false;
  return count_uses(w), true;
}

bool prepare(struct work *w) {
  if (!order(w) || (w->fuse && !problems_find(w)) || !attention_find(w) || !sums_join_products(w) || !order(w)) return false;
  for (int i = 0, n = w->list->n; i < n; i++) {
    struct node *x = w->list->node[i];
    reshape_of_scalar(x);
    if ((x->op->kind == OP_VIEW && !view_of_iota(w, x)) || !unfold(w, x) || !argmax_in_groups(w, x)) return false;
    if (x->op == &op_put && !put_sets(w, x)) return false;
    if (w->fuse && x->op == &op_scatter && !indices_of_narrow(w, x, 2)) return false;
    if (w->fuse && x->op->kind == OP_TAKE && !w->by_patches && !indices_of_narrow(w, x, 1)) return false;
    if (x->op == &op_scatter) scatter_in_batches(w, x);
    if ((x->op == &op_scatter && !scatter_wide(w, x)) || !eighths_wide(w, x)) return false;
    if (w->fuse && x->op == &op_pad && work_is_for_device(w) && !pad_of_narrow(w, x)) return false;
    if (w->fuse && x->op->kind == OP_CONTRACT && !product_of_narrow(w, x)) return false;
  }
  if (!order(w)) return false;
  for (int i = 0; i < w->list->n; i++) reshape_of_scalar(w->list->node[i]); /* those that updates brought */
  for (int i = 0; i < w->list->n; i++) prefix_look(w, w->list->node[i]);
  if (w->fuse) {
    if (work_is_for_device(w) && !folds_unmerge(w)) return false;
    count_uses(w);
    if (w->by_patches && (!factors_take_in(w) || !join_rows(w))) return false;
    if (!sink_views(w) || !order(w)) return false;
    count_uses(w);
    if (work_is_for_device(w) && (!operands_align(w) || !windows_spell(w))) return false;
  }
  if (!copy_for_reshapes(w) || !store_scalars(w) || !order(w)) return false;
  count_uses(w);
  if (w->fuse) {
    if (!float_nodes(w) || !order(w)) return false;
    count_uses(w);
    if (!sink_views(w) || !order(w) || !copy_for_reshapes(w) || !order(w)) return false;
  }
  count_uses(w);
  return true;
}
