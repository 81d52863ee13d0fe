/* copies.c -- private outputs: what a par loop combines into them meets in memory.
 *
 * Where the copies fit into shared memory, the launch says so: each block of threads combines into its own copy, neutral
 * at first, and at its end combines that once into the output. Otherwise it combines into the output at once. Addresses are
 * generic, so the statements in between are the same. An output that is not read before starts empty; that is an entry of its
 * own, launched before. */
#include "backend/cuda/printer.h"

static const struct kir_buf *buf_of(struct printer *p, int b) { return &p->k->bufs[b]; }
static weft_dtype dtype_of(struct printer *p, int b) { return (weft_dtype)buf_of(p, b)->dtype; }

static const char *in_own(struct printer *p, weft_dtype d, uint64_t bits) {
  const char *r = ptx_own_of(p, d);
  ptx_mov(p, d, r, ptx_number(p, d, bits));
  return r;
}

static const char *count(struct printer *p, int b) {
  const char *n = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 1", n);
  for (int d = 0; d < buf_of(p, b)->rank; d++)
    ptx_line(p, "mul.lo.s64 %s, %s, %s", n, n, ptx_lin(p, buf_of(p, b)->dims[d]));
  return n;
}

/* The address of element e, counted row by row, with the strides of the launch. */
static const char *place_of(struct printer *p, int b, const char *e) {
  const struct kir_buf *buf = buf_of(p, b);
  const char *at = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_LONG), *q = ptx_own(p, OWN_LONG), *i = ptx_own(p, OWN_LONG);
  const char *stride = ptx_own(p, OWN_LONG), *name = p->base[b] + 1;
  ptx_line(p, "ld.param.u64 %s, [p_%s]", at, name);
  ptx_line(p, "mov.s64 %s, %s", left, e);
  for (int d = buf->rank - 1; d >= 0; d--) {
    const char *dim = ptx_lin(p, buf->dims[d]);
    ptx_line(p, "div.s64 %s, %s, %s", q, left, dim);
    ptx_line(p, "mul.lo.s64 %s, %s, %s", i, q, dim);
    ptx_line(p, "sub.s64 %s, %s, %s", i, left, i);
    ptx_line(p, "ld.param.s64 %s, [p_%s_%d]", stride, name, d);
    ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", at, i, stride, at);
    ptx_line(p, "mov.s64 %s, %s", left, q);
  }
  return at;
}

struct sweep { const char *e, *again, *next, *leave; };

/* for every element e of the buffer, strided over the threads */
static struct sweep open_sweep(struct printer *p, int b) {
  struct sweep s = { ptx_own(p, OWN_LONG), ptx_label(p, "element"), ptx_label(p, "next"), ptx_label(p, "leave") };
  const char *n = count(p, b), *over = ptx_own(p, OWN_PRED);
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mov.s64 %s, $lane", s.e);
  ptx_place(p, s.again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, s.e, n);
  ptx_line(p, "@%s bra %s", over, s.leave);
  return s;
}

static void close_sweep(struct printer *p, struct sweep s) {
  ptx_place(p, s.next);
  ptx_line(p, "add.s64 %s, %s, $lanes", s.e, s.e);
  ptx_line(p, "bra %s", s.again);
  ptx_place(p, s.leave);
}

static const char *copy_address(struct printer *p, int b, int row, const char *e) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, e, kir_width(dtype_of(p, b)), row);
  return at;
}

/* From here on the buffer's address and strides are those of the copy. */
static void move_to_copy(struct printer *p, int b, int row) {
  const struct kir_buf *buf = buf_of(p, b);
  const char *stride = ptx_own(p, OWN_LONG);
  p->base_used[b] = true;
  ptx_line(p, "mov.u64 %s, $row%d", p->base[b], row);
  ptx_line(p, "mov.s64 %s, %d", stride, kir_width((weft_dtype)buf->dtype));
  for (int d = buf->rank - 1; d >= 0; d--) {
    ptx_line(p, "mov.s64 %s, %s", ptx_stride(p, b, d), stride);
    if (d) ptx_line(p, "mul.lo.s64 %s, %s, %s", stride, stride, ptx_lin(p, buf->dims[d]));
  }
}

static void begin(struct printer *p, int row) {
  int b = p->plan->rows[row].of;
  const char *in_place = ptx_label(p, "in_place");
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  move_to_copy(p, b, row);
  struct sweep s = open_sweep(p, b);
  uint64_t neutral = kir_neutral((enum kir_op)p->survey.bufs[b].private_op, dtype_of(p, b));
  const char *at = copy_address(p, b, row, s.e);
  ptx_store(p, "", dtype_of(p, b), at, in_own(p, dtype_of(p, b), neutral));
  close_sweep(p, s);
  ptx_place(p, in_place);
}

/* What is still neutral would change nothing. */
static void skip_neutral(struct printer *p, weft_dtype d, uint64_t neutral, const char *v, const char *next) {
  const char *is_neutral = ptx_own(p, OWN_PRED);
  if (d == WEFT_BOOL) return;
  ptx_line(p, "setp.eq.%s %s, %s, 0x%llx", ptx_bits(d), is_neutral, v, (unsigned long long)neutral);
  ptx_line(p, "@%s bra %s", is_neutral, next);
}

static void end(struct printer *p, int row) {
  int b = p->plan->rows[row].of;
  weft_dtype d = dtype_of(p, b);
  enum kir_op op = (enum kir_op)p->survey.bufs[b].private_op;
  const char *in_place = ptx_label(p, "in_place"), *v = ptx_own_of(p, d);
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  struct sweep s = open_sweep(p, b);
  ptx_load(p, "", d, v, copy_address(p, b, row, s.e));
  skip_neutral(p, d, kir_neutral(op, d), v, s.next);
  ptx_combine(p, ".global", op, d, place_of(p, b, s.e), v);
  close_sweep(p, s);
  ptx_place(p, in_place);
}

void ptx_copies_begin(struct printer *p) {
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_COPY) begin(p, r);
  if (p->survey.has_private) ptx_line(p, "bar.sync 0");
}

void ptx_copies_end(struct printer *p) {
  if (p->survey.has_private) ptx_line(p, "bar.sync 0");
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_COPY) end(p, r);
}

void ptx_empty_outputs(struct printer *p) {
  for (int b = 0; b < p->k->n_bufs; b++) {
    uint8_t op = p->survey.bufs[b].private_op;
    if (op == KIR_OPS || buf_of(p, b)->kind != KIR_OUT) continue;
    struct sweep s = open_sweep(p, b);
    const char *v = in_own(p, dtype_of(p, b), kir_empty((enum kir_op)op, dtype_of(p, b)));
    ptx_store(p, ".global", dtype_of(p, b), place_of(p, b, s.e), v);
    close_sweep(p, s);
  }
}
