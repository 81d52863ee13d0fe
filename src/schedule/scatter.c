/* scatter.c -- updates at places that are known at run time. They act as if in the order of the indices.
 *
 *   few slots, many updates, combining:  par blocks of 4096 updates, private copies, merged in order
 *   single elements:                     one lane loop of ordered stores; many slots: each block owns a range of them
 *   rows:                                each block owns a range of slots and sees all updates in order, lanes over the row
 *
 * Which one depends on shapes only. Indices are checked in all of them; the result is a copy of x, so a failed check
 * leaves nothing half done. */
#include <string.h>
#include "schedule/work.h"

enum { UPDATES = 4096, FEW_SLOTS = 4096, FEW_BYTES = 32768, MANY = 65536, PARTS = 8, MOST_INDICES = 8 };

struct scatter {
  struct work *w;
  struct node *n;
  enum kir_op op;                          /* or KIR_SET */
  int n_index;
  int64_t updates, slots, row;             /* N, S, C */
  int64_t slot_dims[MOST_INDICES];
  struct binding index[MOST_INDICES], v, y;
  struct kir_kernel *k;
  struct kir_builder b;
  int size_n, size_s, size_c, size_v[MOST_INDICES], buf_index[MOST_INDICES], buf_v, buf_y;
  struct site site[MOST_INDICES];
};

static enum kir_op combine(weft_how how, weft_dtype t) {
  bool b = t == WEFT_BOOL;
  switch (how) {
    case WEFT_ADD: return b ? KIR_OR : KIR_ADD;
    case WEFT_MUL: return b ? KIR_AND : KIR_MUL;
    case WEFT_MIN: return b ? KIR_AND : KIR_MIN;
    case WEFT_MAX: return b ? KIR_OR : KIR_MAX;
    default: return KIR_SET;
  }
}

/* The operand as [outer, inner] with one stride each, copied first where its strides do not allow that. */
static bool as_rows(struct work *w, struct node *x, int n_outer, struct binding *out) {
  struct place p;
  if (!place_of(w, x, &p)) return work_fail(w, fail(WEFT_ERR_INTERNAL, x->origin, "weft_put: an operand has no place"));
  bool fits = true;
  int64_t last[2] = { 0, 0 }, size[2] = { 1, 1 };
  for (int k = x->rank - 1; k >= 0; k--) {
    int side = k >= n_outer;
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
    last[0] = size[1], last[1] = 1;
  }
  *out = (struct binding){ p.store, p.offset, { last[0], last[1] } };
  return true;
}

static struct kir_lin val(struct scatter *s, int v) { return kir_lin_val(s->k, v); }

static void declare(struct scatter *s) {
  struct kir_lin dims[2];
  s->size_n = kir_size(s->k, "N");
  s->size_s = kir_size(s->k, "S");
  if (s->row > 1) s->size_c = kir_size(s->k, "C");
  for (int i = 0; i < s->n_index; i++) {
    char name[] = { 'V', (char)('0' + i), 0 }, idx[] = { 'i', 'n', 'd', 'e', 'x', (char)('0' + i), 0 };
    s->size_v[i] = kir_size(s->k, name);
    dims[0] = val(s, s->size_n);
    s->buf_index[i] = kir_buf(s->k, idx, KIR_IN, (weft_dtype)s->n->in[2 + i]->dtype, 1, dims);
  }
  dims[0] = val(s, s->size_n);
  if (s->row > 1) dims[1] = val(s, s->size_c);
  s->buf_v = kir_buf(s->k, "v", KIR_IN, (weft_dtype)s->n->dtype, s->row > 1 ? 2 : 1, dims);
  dims[0] = val(s, s->size_s);
  s->buf_y = kir_buf(s->k, "y", KIR_INOUT, (weft_dtype)s->n->dtype, s->row > 1 ? 2 : 1, dims);
}

/* The slot of update i: indices normalised, checked, and counted through row by row. */
static int slot_of(struct scatter *s, int i) {
  int zero = kir_lit_int(s->k, WEFT_I64, 0), slot = zero;
  for (int j = 0; j < s->n_index; j++) {
    struct kir_lin at = val(s, i);
    int k = kir_cast(&s->b, WEFT_I64, kir_load(&s->b, s->buf_index[j], &at));
    k = kir_op3(&s->b, KIR_SELECT, kir_op2(&s->b, KIR_LT, k, zero), kir_op2(&s->b, KIR_ADD, k, s->size_v[j]), k);
    kir_check(&s->b, kir_op2(&s->b, KIR_AND, kir_op2(&s->b, KIR_LE, zero, k), kir_op2(&s->b, KIR_LT, k, s->size_v[j])), i);
    slot = j ? kir_op2(&s->b, KIR_ADD, kir_op2(&s->b, KIR_MUL, slot, s->size_v[j]), k) : k;
  }
  return slot;
}

static void update(struct scatter *s, int slot, int i) {
  struct kir_lin from = val(s, i), to = val(s, slot);
  kir_store(&s->b, s->buf_y, &to, s->op, kir_load(&s->b, s->buf_v, &from));
}

static void by_private_copies(struct scatter *s) {
  int q = kir_loop_blocks(&s->b, "q", val(s, s->size_n), kir_lin_const(s->k, UPDATES));
  kir_private(&s->b, s->buf_y, s->op);
  int i = kir_loop_block(&s->b, KIR_LANE, "i", q);
  update(s, slot_of(s, i), i);
  kir_end(&s->b);
  kir_end(&s->b);
}

static void in_one_loop(struct scatter *s) {
  int i = kir_loop(&s->b, KIR_LANE, "i", val(s, s->size_n));
  update(s, slot_of(s, i), i);
  kir_end(&s->b);
}

static int open_owners(struct scatter *s) {
  int width = kir_size(s->k, "B");
  return kir_loop_blocks(&s->b, "q", val(s, s->size_s), val(s, width));
}

static void by_owners(struct scatter *s) {
  int q = open_owners(s), i = kir_loop(&s->b, KIR_LANE, "i", val(s, s->size_n)), slot = slot_of(s, i);
  kir_if(&s->b, kir_owns(&s->b, q, slot));
  update(s, slot, i);
  for (int k = 0; k < 3; k++) kir_end(&s->b);
}

static void rows_by_owners(struct scatter *s) {
  int q = open_owners(s), i = kir_loop(&s->b, KIR_SERIAL, "i", val(s, s->size_n)), slot = slot_of(s, i);
  kir_if(&s->b, kir_owns(&s->b, q, slot));
  int c = kir_loop(&s->b, KIR_LANE, "c", val(s, s->size_c));
  struct kir_lin from[] = { val(s, i), val(s, c) }, to[] = { val(s, slot), val(s, c) };
  kir_store(&s->b, s->buf_y, to, s->op, kir_load(&s->b, s->buf_v, from));
  for (int k = 0; k < 4; k++) kir_end(&s->b);
}

static bool find_shape(struct scatter *s) {
  const struct scatter_attr *a = s->n->attr;
  const struct node *x = s->n->in[0], *v = s->n->in[1];
  int n_outer = v->rank - (x->rank - a->n);
  s->n_index = a->n;
  s->op = combine(a->how, (weft_dtype)s->n->dtype);
  s->updates = s->slots = s->row = 1;
  if (a->n > MOST_INDICES) return work_fail(s->w, fail(WEFT_ERR_UNSUPPORTED, s->n->origin, "weft_put: more than %d index arrays", MOST_INDICES));
  for (int k = 0; k < n_outer; k++) s->updates *= v->dims[k];
  for (int k = 0; k < a->n; k++) s->slots *= s->slot_dims[k] = x->dims[k];
  for (int k = a->n; k < x->rank; k++) s->row *= x->dims[k];
  for (int i = 0; i < a->n; i++)
    if (!as_rows(s->w, s->n->in[2 + i], s->n->in[2 + i]->rank, &s->index[i])) return false;
  return as_rows(s->w, s->n->in[1], n_outer, &s->v);
}

bool step_scatter(struct work *w, struct node *n) {
  struct scatter s = { .w = w, .n = n };
  if (!find_shape(&s)) return false;
  if (!s.updates || !s.row) return true;
  const struct place *y = &w->item[n->slot].place; /* dense: a fresh copy of x */
  s.y = (struct binding){ y->store, y->offset, { s.row > 1 ? s.row : 1, 1 } };
  if (!(s.k = kir_new("scatter"))) return !(w->no_memory = true);
  declare(&s);
  kir_begin(&s.b, s.k);
  int64_t bytes = s.slots * (int64_t)weft_dtype_bytes((weft_dtype)n->dtype), parts = s.updates * s.row >= MANY ? PARTS : 1;
  bool has_owners = false;
  if (s.row > 1) rows_by_owners(&s), has_owners = true;
  else if (s.op != KIR_SET && s.updates > UPDATES && s.slots <= FEW_SLOTS && bytes <= FEW_BYTES) by_private_copies(&s);
  else if (parts > 1 && s.slots > FEW_SLOTS) by_owners(&s), has_owners = true;
  else in_one_loop(&s);
  int64_t sizes[4 + MOST_INDICES];
  int n_sizes = 0;
  sizes[n_sizes++] = s.updates, sizes[n_sizes++] = s.slots;
  if (s.row > 1) sizes[n_sizes++] = s.row;
  for (int i = 0; i < s.n_index; i++) {
    sizes[n_sizes++] = s.slot_dims[i];
    s.site[i] = (struct site){ "weft_put", n->origin, s.slot_dims[i] };
  }
  if (has_owners) sizes[n_sizes++] = s.slots < parts ? 1 : (s.slots + parts - 1) / parts;
  struct binding bind[MOST_INDICES + 2];
  memcpy(bind, s.index, sizeof *bind * (size_t)s.n_index);
  bind[s.n_index] = s.v;
  bind[s.n_index + 1] = s.y;
  w->out->moved_bytes += s.updates * s.row * 3 * (int64_t)weft_dtype_bytes((weft_dtype)n->dtype);
  return step_fill(w, s.k, n_sizes, sizes, 0, NULL, s.n_index + 2, bind, s.n_index, s.site);
}
