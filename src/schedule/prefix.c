/* prefix.c -- running combines over one long axis, in three kernels: the totals of blocks of 4096, the blocks chained in
 * order, and each block again on top of what comes before it. The same bits as one loop, by more than one thread. */
#include "schedule/draft.h"

enum { LONG = 65536, BLOCK = 4096 };

/* One row, longer than threads are worth waking for. */
bool prefix_is_long(const struct node *n) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  return n->op->kind == OP_PREFIX && n->dims[axis] >= LONG && node_count(n) == n->dims[axis];
}

struct prefix {
  struct work *w;
  enum kir_op op;
  weft_dtype memory, value;                /* of x and y; of what is computed */
  int64_t n, q;                            /* elements, blocks */
};
struct line { int store; int64_t offset, stride; }; /* elements in memory, one after the other */

static struct kir_lin size(struct draft *d, const char *name, int64_t n) { return draft_lin(d, draft_size(d, name, n)); }

static int buffer(struct draft *d, const char *name, enum kir_buf_kind kind, weft_dtype t, struct kir_lin n, struct line l) {
  struct reach r = { .store = l.store, .offset = l.offset };
  reach_along(&r, n, l.stride);
  return draft_buffer(d, name, kind, t, &r);
}

/* t[q] = the combine of block q */
static bool totals(struct prefix *p, struct line x, struct line t) {
  struct draft d;
  if (!draft_begin(&d, p->w, "prefix_totals")) return false;
  struct kir_lin N = size(&d, "N", p->n), Q = size(&d, "Q", p->q);
  int in = buffer(&d, "x", KIR_IN, p->memory, N, x), out = buffer(&d, "t", KIR_OUT, p->value, Q, t);
  int q = kir_loop_blocks(&d.b, "q", N, kir_lin_const(d.k, BLOCK));
  struct kir_lin at = draft_lin(&d, q), i = draft_lin(&d, kir_loop_block(&d.b, KIR_LANE, "i", q));
  int sum = kir_prefix(&d.b, p->op, kir_load(&d.b, in, &i));
  kir_end(&d.b);
  kir_store(&d.b, out, &at, KIR_SET, sum);
  kir_end(&d.b);
  return draft_end(&d);
}

/* o[q] = t[0] .. t[q-1] combined in order */
static bool offsets(struct prefix *p, struct line t, struct line o) {
  struct draft d;
  if (!draft_begin(&d, p->w, "prefix_offsets")) return false;
  struct kir_lin Q = size(&d, "Q", p->q);
  int in = buffer(&d, "t", KIR_IN, p->value, Q, t), out = buffer(&d, "o", KIR_OUT, p->value, Q, o);
  struct kir_lin at = draft_lin(&d, kir_loop(&d.b, KIR_SERIAL, "q", Q));
  int a = kir_carry(&d.b, "a", kir_lit(d.k, p->value, kir_neutral(p->op, p->value)));
  kir_store(&d.b, out, &at, KIR_SET, a);
  int next = kir_op2(&d.b, p->op, a, kir_load(&d.b, in, &at));
  kir_next(&d.b, 1, &a, &next);
  kir_end(&d.b);
  return draft_end(&d);
}

/* y[i] = o[q] combined with the prefix inside block q */
static bool apply(struct prefix *p, struct line x, struct line o, struct line y) {
  struct draft d;
  if (!draft_begin(&d, p->w, "prefix_apply")) return false;
  struct kir_lin N = size(&d, "N", p->n), Q = size(&d, "Q", p->q);
  int in = buffer(&d, "x", KIR_IN, p->memory, N, x), off = buffer(&d, "o", KIR_IN, p->value, Q, o);
  int out = buffer(&d, "y", KIR_OUT, p->memory, N, y), q = kir_loop_blocks(&d.b, "q", N, kir_lin_const(d.k, BLOCK));
  struct kir_lin at = draft_lin(&d, q);
  int before = kir_load(&d.b, off, &at);
  struct kir_lin i = draft_lin(&d, kir_loop_block(&d.b, KIR_LANE, "i", q));
  int sum = kir_op2(&d.b, p->op, before, kir_prefix(&d.b, p->op, kir_load(&d.b, in, &i)));
  kir_store(&d.b, out, &i, KIR_SET, kir_cast(&d.b, p->memory, sum));
  kir_end(&d.b);
  kir_end(&d.b);
  return draft_end(&d);
}

bool step_long_prefix(struct work *w, struct node *n) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  struct place in, *out = &w->item[n->slot].place;
  struct prefix p = { w, n->op->fold->op, (weft_dtype)n->dtype, kir_register_of((weft_dtype)n->dtype), n->dims[axis], 0 };
  p.q = (p.n + BLOCK - 1) / BLOCK;
  if (!place_needed(w, n->in[0], &in)) return false;
  int64_t bytes = p.q * (int64_t)weft_dtype_bytes(p.value);
  struct line x = { in.store, in.offset, in.stride[axis] }, y = { out->store, out->offset, out->stride[axis] };
  struct line t = { store_new(w, bytes), 0, 1 }, o = { store_new(w, bytes), 0, 1 };
  cost_add(&w->out->moved_bytes, 3.0 * (double)p.n * (double)weft_dtype_bytes(p.memory)); /* x twice, y */
  cost_add(&w->out->operations, 2.0 * (double)p.n);
  return !w->no_memory && totals(&p, x, t) && offsets(&p, t, o) && apply(&p, x, o, y);
}
