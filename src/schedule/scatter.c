/* scatter.c -- updates at places that are known at run time. They act as if in the order of the indices.
 *
 *   few slots, many updates, combining:  par blocks of 4096 updates, private copies, merged in order; on a device that need not
 *                                        keep the order, as many slots as there is room for
 *   single elements:                     one lane loop of ordered stores: to go through all updates for each of several
 *                                        owners takes longer than the stores themselves
 *   rows:                                each block owns a range of slots and sees all updates in order, lanes over the row
 *   along an axis:                       each row of x, of its first axes, takes its own updates in order; rows are independent
 *   setting, on a device:                the last update of each slot is found, as a maximum; then every slot takes its own
 *   floats, on a device that has to      updates are sorted by slot, and each slot takes its own, side by side (scatter_runs.c)
 *   keep their order:
 *
 * Which one depends on shapes, and on whether it is a device, only. Indices are checked in all of them; the result is a copy
 * of x, so a failed check
 * leaves nothing half done. */
#include "schedule/scatter.h"

enum { FEW_SLOTS = 4096, FEW_BYTES = 32768, MANY = 65536, PARTS = 8 };
enum { UPDATES_A_SLOT = 128 }; /* a device has about as many copies, and each slot of each is combined once more. Products of 16M
                                  f32 into 8192 and 40000 slots: 0.068 and 0.094 ms on an H200, 4.9 and 2.4 in its memory */

static enum kir_op combine(weft_how how, weft_dtype t) {
  bool b = t == WEFT_BOOL;
  switch (how) {
    case WEFT_ADD: return b ? KIR_OR : KIR_ADD;
    case WEFT_MUL: return b ? KIR_AND : KIR_MUL;
    case WEFT_MIN: return b ? KIR_AND : KIR_MIN;
    case WEFT_MAX: return b ? KIR_OR : KIR_MAX;
    case WEFT_SET: break;
  }
  return KIR_SET;
}

enum kir_op scatter_combines(const struct node *n) {
  return combine(((const struct scatter_attr *)n->attr)->how, (weft_dtype)n->dtype);
}

/* Private copies are merged, so the order of sums depends on how many updates there are. */
static bool is_by_copies(enum kir_op op, weft_dtype t, int64_t updates, int64_t slots, int64_t row) {
  bool is_small = slots <= FEW_SLOTS && slots * (int64_t)weft_dtype_bytes(t) <= FEW_BYTES;
  return op != KIR_SET && row == 1 && updates > SCATTER_BLOCK && is_small;
}

static bool is_by_copies_there(const struct scatter *s) {
  const struct device *d = work_is_for_device(s->w) ? s->w->device : NULL;
  weft_dtype t = (weft_dtype)s->n->dtype;
  if (!d || !d->reorders || !d->reorders(d) || s->op == KIR_SET || s->row > 1 || !kir_is_register(t)) return false;
  return s->updates / UPDATES_A_SLOT >= s->slots && s->slots <= (int64_t)(d->row_bytes / weft_dtype_bytes(t));
}

/* Sums and products of floats on a device whose threads would combine them as they come, and may not. */
static bool is_by_runs(const struct scatter *s) {
  const struct device *d = work_is_for_device(s->w) ? s->w->device : NULL;
  bool has_order = (s->op == KIR_ADD || s->op == KIR_MUL) && kir_is_float((weft_dtype)s->n->dtype);
  return d && has_order && d->reorders && !d->reorders(d);
}

bool scatter_is_by_copies(const struct node *n) {
  const struct scatter_attr *a = n->attr;
  int64_t slots = 1, row = 1;
  for (int k = 0; k < n->rank; k++) *(k < a->n ? &slots : &row) *= n->dims[k];
  return is_by_copies(scatter_combines(n), kir_register_of(n->dtype), node_count(n->in[2]), slots, row);
}

/* The operand as a batch of rows, copied first where its strides do not allow that. */
static bool as_rows(struct work *w, struct node *x, int n_batch, int n_outer, struct strided_rows *out) {
  struct place p;
  if (!place_needed(w, x, &p)) return false;
  bool fits = true;
  int64_t last[3] = { 0, 0, 0 }, size[3] = { 1, 1, 1 };
  for (int k = x->rank - 1; k >= 0; k--) {
    int side = k < n_batch ? 0 : k < n_outer ? 1 : 2;
    if (x->dims[k] == 1) continue;
    if (size[side] == 1) last[side] = p.stride[k];
    else if (p.stride[k] != last[side] * size[side]) fits = false;
    size[side] *= x->dims[k];
  }
  if (!fits) {
    struct place dense;
    place_dense(x, store_new(w, node_count(x) * (int64_t)weft_dtype_bytes((weft_dtype)x->dtype)), &dense);
    if (w->no_memory || !step_copy(w, (weft_dtype)x->dtype, x->rank, x->dims, &p, &dense)) return false;
    p = dense;
    last[0] = size[1] * size[2], last[1] = size[2], last[2] = 1;
  }
  *out = (struct strided_rows){ p.store, p.offset, { last[0], last[1], last[2] } };
  return true;
}

static struct kir_lin val(struct scatter *s, int v) { return draft_lin(&s->d, v); }

int scatter_rows(struct scatter *s, const char *name, enum kir_buf_kind kind, int size, const struct strided_rows *x) {
  struct reach r = { .store = x->store, .offset = x->offset };
  if (s->size_r >= 0) reach_along(&r, val(s, s->size_r), x->stride[0]);
  reach_along(&r, val(s, size), x->stride[1]);
  if (s->size_c >= 0) reach_along(&r, val(s, s->size_c), x->stride[2]);
  return draft_buffer(&s->d, name, kind, (weft_dtype)s->n->dtype, &r);
}

void scatter_indices(struct scatter *s) {
  for (int i = 0; i < s->n_index; i++) {
    struct reach r = { .store = s->index[i].store, .offset = s->index[i].offset };
    char name[] = { 'i', 'n', 'd', 'e', 'x', (char)('0' + i), 0 };
    s->size_v[i] = draft_sized(&s->d, "V", i, s->slot_dims[i]);
    if (s->size_r >= 0) reach_along(&r, val(s, s->size_r), s->index[i].stride[0]);
    reach_along(&r, val(s, s->size_n), s->index[i].stride[1]);
    s->buf_index[i] = draft_buffer(&s->d, name, KIR_IN, (weft_dtype)s->n->in[2 + i]->dtype, &r);
  }
}

static void declare(struct scatter *s) {
  s->size_r = s->batch > 1 ? draft_size(&s->d, "R", s->batch) : -1;
  s->size_n = draft_size(&s->d, "N", s->updates);
  s->size_s = draft_size(&s->d, "S", s->slots);
  s->size_c = s->row > 1 ? draft_size(&s->d, "C", s->row) : -1;
  scatter_indices(s);
  s->buf_v = scatter_rows(s, "v", KIR_IN, s->size_n, &s->v);
  s->buf_y = scatter_rows(s, "y", KIR_INOUT, s->size_s, &s->y);
}

/* Subscripts: that of the batch, if there is one, i, and that of the row; c -1: rows of one element, or of indices. */
static void subscripts(struct scatter *s, struct kir_lin at[3], int r, int i, int c) {
  int n = 0;
  if (s->size_r >= 0) at[n++] = val(s, r);
  at[n++] = val(s, i);
  if (c >= 0) at[n] = val(s, c);
}

struct site scatter_site(const struct scatter *s, int j) {
  return (struct site){ indices_typed(s->n), s->n->origin, s->slot_dims[j], .is_window = indices_are_window(s->n) };
}

/* The slot of update i of row r: indices normalised, checked, and counted through row by row. */
static int slot_of(struct scatter *s, int r, int i) {
  struct kir_builder *b = &s->d.b;
  int slot = -1;
  struct kir_lin place = val(s, i); /* as messages count */
  if (r >= 0) place = kir_lin_add(s->d.k, kir_lin_mul(s->d.k, val(s, r), val(s, s->size_n)), place);
  for (int j = 0; j < s->n_index; j++) {
    struct kir_lin at[3];
    subscripts(s, at, r, i, -1);
    int k = draft_index(&s->d, kir_load(b, s->buf_index[j], at), s->size_v[j], place, scatter_site(s, j));
    slot = j ? kir_op2(b, KIR_ADD, kir_op2(b, KIR_MUL, slot, s->size_v[j]), k) : k;
  }
  return slot;
}

static void update(struct scatter *s, int slot, int r, int i, int c) {
  struct kir_lin from[3], to[3];
  subscripts(s, from, r, i, c), subscripts(s, to, r, slot, c);
  kir_store(&s->d.b, s->buf_y, to, s->op, kir_load(&s->d.b, s->buf_v, from));
}

static void by_private_copies(struct scatter *s) {
  int q = kir_loop_blocks(&s->d.b, "q", val(s, s->size_n), kir_lin_const(s->d.k, SCATTER_BLOCK));
  kir_private(&s->d.b, s->buf_y, s->op);
  int i = kir_loop_block(&s->d.b, KIR_LANE, "i", q);
  update(s, slot_of(s, -1, i), -1, i, -1);
  kir_end(&s->d.b);
  kir_end(&s->d.b);
}

static void in_one_loop(struct scatter *s) {
  int i = kir_loop(&s->d.b, KIR_LANE, "i", val(s, s->size_n));
  update(s, slot_of(s, -1, i), -1, i, -1);
  kir_end(&s->d.b);
}

static void in_batches(struct scatter *s) {
  int r = kir_loop(&s->d.b, KIR_PAR, "r", val(s, s->size_r)), i, c = -1;
  i = kir_loop(&s->d.b, s->row > 1 ? KIR_SERIAL : KIR_LANE, "i", val(s, s->size_n));
  int slot = slot_of(s, r, i);
  if (s->row > 1) c = kir_loop(&s->d.b, KIR_LANE, "c", val(s, s->size_c));
  update(s, slot, r, i, c);
  for (int depth = s->row > 1 ? 3 : 2; depth > 0; depth--) kir_end(&s->d.b);
}

/* Blocks of slots, as many as threads are worth. */
static int open_owners(struct scatter *s) {
  int width = draft_size(&s->d, "B", s->slots < s->parts ? 1 : (s->slots + s->parts - 1) / s->parts);
  return kir_loop_blocks(&s->d.b, "q", val(s, s->size_s), val(s, width));
}

static void rows_by_owners(struct scatter *s) {
  int q = open_owners(s), i = kir_loop(&s->d.b, KIR_SERIAL, "i", val(s, s->size_n)), slot = slot_of(s, -1, i);
  kir_if(&s->d.b, kir_owns(&s->d.b, q, slot));
  update(s, slot, -1, i, kir_loop(&s->d.b, KIR_LANE, "c", val(s, s->size_c)));
  for (int k = 0; k < 4; k++) kir_end(&s->d.b);
}

/* win[k] = the last i whose slot is k; -2^63 if there is none */
static bool find_winners(struct scatter *s, int win) {
  struct reach r = { .store = win };
  if (!draft_begin(&s->d, s->w, "scatter_winner")) return false;
  s->size_r = -1;
  s->size_n = draft_size(&s->d, "N", s->updates);
  scatter_indices(s);
  reach_along(&r, val(s, draft_size(&s->d, "S", s->slots)), 1);
  int buf = draft_buffer(&s->d, "win", KIR_OUT, WEFT_I64, &r);
  int q = kir_loop_blocks(&s->d.b, "q", val(s, s->size_n), kir_lin_const(s->d.k, SCATTER_BLOCK));
  kir_private(&s->d.b, buf, KIR_MAX);
  int i = kir_loop_block(&s->d.b, KIR_LANE, "i", q);
  struct kir_lin to = val(s, slot_of(s, -1, i));
  kir_store(&s->d.b, buf, &to, KIR_MAX, i);
  kir_end(&s->d.b);
  kir_end(&s->d.b);
  return draft_end(&s->d);
}

/* y[k] = v[win[k]] where there is one */
static bool set_winners(struct scatter *s, int win) {
  struct reach r = { .store = win };
  if (!draft_begin(&s->d, s->w, "scatter_set")) return false;
  s->size_r = -1;
  s->size_n = draft_size(&s->d, "N", s->updates);
  s->size_s = draft_size(&s->d, "S", s->slots);
  s->size_c = s->row > 1 ? draft_size(&s->d, "C", s->row) : -1;
  reach_along(&r, val(s, s->size_s), 1);
  int buf = draft_buffer(&s->d, "win", KIR_IN, WEFT_I64, &r);
  s->buf_v = scatter_rows(s, "v", KIR_IN, s->size_n, &s->v);
  s->buf_y = scatter_rows(s, "y", KIR_INOUT, s->size_s, &s->y);
  int k = kir_loop(&s->d.b, s->row > 1 ? KIR_PAR : KIR_LANE, "k", val(s, s->size_s));
  struct kir_lin at = val(s, k), from[2], to[2] = { at };
  int i = kir_load(&s->d.b, buf, &at);
  from[0] = val(s, i);
  kir_if(&s->d.b, kir_op2(&s->d.b, KIR_LE, kir_lit_int(s->d.k, WEFT_I64, 0), i));
  if (s->row > 1) from[1] = to[1] = val(s, kir_loop(&s->d.b, KIR_LANE, "c", val(s, s->size_c)));
  kir_store(&s->d.b, s->buf_y, to, KIR_SET, kir_load(&s->d.b, s->buf_v, from));
  for (int depth = s->row > 1 ? 3 : 2; depth > 0; depth--) kir_end(&s->d.b);
  return draft_end(&s->d);
}

static bool set_on_device(struct scatter *s) {
  int win = store_new(s->w, s->slots * (int64_t)sizeof(int64_t));
  return !s->w->no_memory && find_winners(s, win) && set_winners(s, win);
}

static bool find_shape(struct scatter *s) {
  const struct scatter_attr *a = s->n->attr;
  const struct node *x = s->n->in[0], *v = s->n->in[1];
  int first = a->batch, n_outer = v->rank - (x->rank - first - a->n);
  s->n_index = a->n;
  s->op = scatter_combines(s->n);
  s->batch = s->updates = s->slots = s->row = 1;
  if (a->n > SCATTER_INDICES)
    return work_fail(s->w, fail(WEFT_ERR_UNSUPPORTED, s->n->origin, "weft_put: more than %d index arrays", SCATTER_INDICES));
  for (int k = 0; k < n_outer; k++) *(k < first ? &s->batch : &s->updates) *= v->dims[k];
  for (int k = 0; k < a->n; k++) s->slots *= s->slot_dims[k] = x->dims[first + k];
  for (int k = first + a->n; k < x->rank; k++) s->row *= x->dims[k];
  for (int i = 0; i < a->n; i++)
    if (!as_rows(s->w, s->n->in[2 + i], first, s->n->in[2 + i]->rank, &s->index[i])) return false;
  return as_rows(s->w, s->n->in[1], first, n_outer, &s->v);
}

static void write_kernel(struct scatter *s) {
  if (s->batch > 1) in_batches(s);
  else if (s->row > 1) rows_by_owners(s);
  else if (s->has_copies || is_by_copies_there(s)) by_private_copies(s);
  else in_one_loop(s);
}

static bool in_one_kernel(struct scatter *s) {
  if (!draft_begin(&s->d, s->w, "scatter")) return false;
  declare(s);
  write_kernel(s);
  return draft_end(&s->d);
}

static bool write_steps(struct scatter *s) {
  if (s->op == KIR_SET && work_is_for_device(s->w)) return set_on_device(s);
  return is_by_runs(s) ? scatter_by_runs(s) : in_one_kernel(s);
}

bool step_scatter(struct work *w, struct node *n) {
  struct scatter s = { .w = w, .n = n };
  if (!find_shape(&s)) return false;
  if (!s.batch || !s.updates || !s.row) return true;
  const struct place *y = &w->item[n->slot].place; /* dense: a fresh copy of x */
  s.y = (struct strided_rows){ y->store, y->offset, { s.slots * s.row, s.row, 1 } };
  s.parts = s.updates * s.row >= MANY ? PARTS : 1;
  s.has_copies = is_by_copies(s.op, (weft_dtype)n->dtype, s.updates, s.slots, s.row);
  if (!write_steps(&s)) return false;
  double elements = (double)s.batch * (double)s.updates * (double)s.row;
  step_add_cost(w, 3.0 * elements * (double)weft_dtype_bytes((weft_dtype)n->dtype), 0, 1);
  return true;
}
