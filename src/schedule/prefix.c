/* prefix.c -- running combines over one long axis, in three kernels: the totals of blocks of 4096, the blocks chained in
 * order, and each block again on top of what comes before it. The same bits as one loop, by more than one thread. */
#include "schedule/work.h"

enum { LONG = 65536, BLOCK = 4096 };

/* One row, longer than threads are worth waking for. */
bool prefix_is_long(const struct node *n) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  return n->op->kind == OP_PREFIX && n->dims[axis] >= LONG && node_count(n) == n->dims[axis];
}

struct side { struct work *w; enum kir_op op; weft_dtype memory, value; struct kir_kernel *k; struct kir_builder b; };

static struct kir_lin of(struct side *s, int v) { return kir_lin_val(s->k, v); }

static bool begin(struct side *s, const char *name) { return (s->k = kir_new(name)) || !(s->w->no_memory = true); }

static uint64_t neutral(enum kir_op op, weft_dtype t) {
  bool f64 = t == WEFT_F64, f = kir_is_float(t), wide = f64 || t == WEFT_I64 || t == WEFT_U64;
  uint64_t top = wide ? (uint64_t)1 << 63 : (uint64_t)1 << 31, ones = wide ? UINT64_MAX : UINT32_MAX;
  bool is_unsigned = t == WEFT_U32 || t == WEFT_U64;
  switch (op) {
    case KIR_ADD: return f ? top : 0; /* -0.0 */
    case KIR_MUL: return f64 ? 0x3ff0000000000000u : f ? 0x3f800000u : 1;
    case KIR_MAX: return f64 ? 0xfff0000000000000u : f ? 0xff800000u : t == WEFT_BOOL || is_unsigned ? 0 : top;
    case KIR_MIN: return f64 ? 0x7ff0000000000000u : f ? 0x7f800000u : t == WEFT_BOOL ? 1 : is_unsigned ? ones : ones ^ top;
    default: return 0;
  }
}

/* t[q] = the combine of block q */
static bool totals(struct side *s, int64_t n, int64_t q, struct binding x, struct binding t) {
  if (!begin(s, "prefix_totals")) return false;
  struct kir_lin N = of(s, kir_size(s->k, "N")), Q = of(s, kir_size(s->k, "Q"));
  int in = kir_buf(s->k, "x", KIR_IN, s->memory, 1, &N), out = kir_buf(s->k, "t", KIR_OUT, s->value, 1, &Q);
  kir_begin(&s->b, s->k);
  struct kir_lin at = of(s, kir_loop_blocks(&s->b, "q", N, kir_lin_const(s->k, BLOCK)));
  struct kir_lin i = of(s, kir_loop_block(&s->b, KIR_LANE, "i", at.term[0].val[0]));
  int p = kir_prefix(&s->b, s->op, kir_load(&s->b, in, &i));
  kir_end(&s->b);
  kir_store(&s->b, out, &at, KIR_SET, p);
  kir_end(&s->b);
  return step_fill(s->w, s->k, 2, (int64_t[]){ n, q }, 0, NULL, 2, (struct binding[]){ x, t }, 0, NULL);
}

/* o[q] = t[0] .. t[q-1] combined in order */
static bool offsets(struct side *s, int64_t q, struct binding t, struct binding o) {
  if (!begin(s, "prefix_offsets")) return false;
  struct kir_lin Q = of(s, kir_size(s->k, "Q"));
  int in = kir_buf(s->k, "t", KIR_IN, s->value, 1, &Q), out = kir_buf(s->k, "o", KIR_OUT, s->value, 1, &Q);
  kir_begin(&s->b, s->k);
  struct kir_lin at = of(s, kir_loop(&s->b, KIR_SERIAL, "q", Q));
  int a = kir_carry(&s->b, "a", kir_lit(s->k, s->value, neutral(s->op, s->value)));
  kir_store(&s->b, out, &at, KIR_SET, a);
  int next = kir_op2(&s->b, s->op, a, kir_load(&s->b, in, &at));
  kir_next(&s->b, 1, &a, &next);
  kir_end(&s->b);
  return step_fill(s->w, s->k, 1, &q, 0, NULL, 2, (struct binding[]){ t, o }, 0, NULL);
}

/* y[i] = o[q] combined with the prefix inside block q */
static bool apply(struct side *s, int64_t n, int64_t q, struct binding x, struct binding o, struct binding y) {
  if (!begin(s, "prefix_apply")) return false;
  struct kir_lin N = of(s, kir_size(s->k, "N")), Q = of(s, kir_size(s->k, "Q"));
  int in = kir_buf(s->k, "x", KIR_IN, s->memory, 1, &N), off = kir_buf(s->k, "o", KIR_IN, s->value, 1, &Q);
  int out = kir_buf(s->k, "y", KIR_OUT, s->memory, 1, &N);
  kir_begin(&s->b, s->k);
  struct kir_lin at = of(s, kir_loop_blocks(&s->b, "q", N, kir_lin_const(s->k, BLOCK)));
  int before = kir_load(&s->b, off, &at);
  struct kir_lin i = of(s, kir_loop_block(&s->b, KIR_LANE, "i", at.term[0].val[0]));
  int p = kir_prefix(&s->b, s->op, kir_load(&s->b, in, &i));
  kir_store(&s->b, out, &i, KIR_SET, kir_cast(&s->b, s->memory, kir_op2(&s->b, s->op, before, p)));
  kir_end(&s->b);
  kir_end(&s->b);
  return step_fill(s->w, s->k, 2, (int64_t[]){ n, q }, 0, NULL, 3, (struct binding[]){ x, o, y }, 0, NULL);
}

bool step_long_prefix(struct work *w, struct node *n) {
  int axis = ((const struct axis_attr *)n->attr)->axis;
  struct side s = { .w = w, .op = n->op->fold->op, .memory = (weft_dtype)n->dtype, .value = kir_register_of((weft_dtype)n->dtype) };
  struct place in, *out = &w->item[n->slot].place;
  int64_t len = n->dims[axis], q = (len + BLOCK - 1) / BLOCK, bytes = q * (int64_t)weft_dtype_bytes(s.value);
  if (!place_of(w, n->in[0], &in)) return work_fail(w, fail(WEFT_ERR_INTERNAL, n->origin, "weft_eval: %s has no operand", n->op->name));
  struct binding x = { in.store, in.offset, { in.stride[axis] } }, y = { out->store, out->offset, { out->stride[axis] } };
  struct binding t = { store_new(w, bytes), 0, { 1 } }, o = { store_new(w, bytes), 0, { 1 } };
  return !w->no_memory && totals(&s, len, q, x, t) && offsets(&s, q, t, o) && apply(&s, len, q, x, o, y);
}
