/* copies.c -- private outputs: what a par loop combines into them meets in memory.
 *
 * Sums and products of floats have an order. There every iteration has copies of its own, in memory, and an entry that is
 * launched behind combines them as the language says: aligned powers of two of iterations, which are nodes of the tree, by a
 * thread each, and those by pairs.
 *
 * Else, and of what is scattered, nobody sees an order. Where the copies fit into shared memory, the launch says so: each
 * block of threads combines into its own copy, neutral at first, and at its end combines that once into the output. Where there is
 * room, and exchanges may fail, it has several sets of copies, and the lanes of a warp different ones: element e of set k stands at
 * e sets + k, so that lanes seldom meet in an element, and seldom in a bank. Otherwise it combines into the output at once. An
 * output that is not read before starts empty; that is an entry of its own, launched before. */
#include "backend/cuda/gpu_wide.h"

static const struct kir_buf *buf_of(struct printer *p, int b) { return &p->k->bufs[b]; }
static weft_dtype dtype_of(struct printer *p, int b) { return (weft_dtype)buf_of(p, b)->dtype; }
static weft_dtype register_of(struct printer *p, int b) { return kir_register_of(dtype_of(p, b)); }

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
  ptx_place_loop(p, s.again);
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

/* Bytes from an element of a copy in shared memory to the next. */
static const char *pitch(struct printer *p, int b) {
  const char *bytes = ptx_own(p, OWN_LONG);
  ptx_line(p, p->plan->has_sets ? "ld.param.s64 %s, [q_sets]" : "mov.s64 %s, 1", bytes);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", bytes, bytes, kir_width(register_of(p, b)));
  return bytes;
}

/* Where element e of the first set stands. */
static const char *copy_address(struct printer *p, int b, int row, const char *e) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, $row%d", at, e, pitch(p, b), row);
  return at;
}

/* From here on the buffer's address and strides are those of the copy, whose elements are so many bytes apart. */
static void move_to_copy(struct printer *p, int b, const char *copy, const char *bytes) {
  const struct kir_buf *buf = buf_of(p, b);
  const char *stride = ptx_own(p, OWN_LONG);
  p->base_used[b] = true;
  ptx_line(p, "mov.u64 %s, %s", p->base[b], copy);
  ptx_line(p, "mov.s64 %s, %s", stride, bytes);
  for (int d = buf->rank - 1; d >= 0; d--) {
    ptx_line(p, "mov.s64 %s, %s", ptx_stride(p, b, d), stride);
    if (d) ptx_line(p, "mul.lo.s64 %s, %s, %s", stride, stride, ptx_lin(p, buf->dims[d]));
  }
}

/* The copy of the set that this thread has. */
static const char *own_copy(struct printer *p, int row) {
  if (!p->plan->has_sets) return ptx_textf(p, "$row%d", row);
  const char *at = ptx_own(p, OWN_LONG), *set = ptx_own(p, OWN_LONG);
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "ld.param.s64 %s, [q_sets]", set);
  ptx_line(p, "sub.s64 %s, %s, 1", set, set);
  ptx_line(p, "and.b64 %s, %s, $lane", set, set);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, set, kir_width(register_of(p, p->plan->rows[row].of)), row);
  return at;
}

/* For each set, `at` being its element e, whose first one stands at `first`; neighbours begin with different sets, so that they do
 * not meet in a bank. */
struct sets_loop { const char *set, *n, *at, *again, *leave; };
static struct sets_loop open_sets(struct printer *p, int b, const char *first, const char *e) {
  struct sets_loop l = { ptx_own(p, OWN_LONG), ptx_own(p, OWN_LONG), ptx_own(p, OWN_LONG), ptx_label(p, "set"),
                         ptx_label(p, "leave") };
  const char *is_over = ptx_own(p, OWN_PRED), *last = ptx_own(p, OWN_LONG);
  if (!p->plan->has_sets) return l.at = first, l;
  ptx_line(p, "ld.param.s64 %s, [q_sets]", l.n);
  ptx_line(p, "sub.s64 %s, %s, 1", last, l.n);
  ptx_line(p, "mov.s64 %s, 0", l.set);
  ptx_place_loop(p, l.again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is_over, l.set, l.n);
  ptx_line(p, "@%s bra %s", is_over, l.leave);
  ptx_line(p, "add.s64 %s, %s, %s", l.at, l.set, e);
  ptx_line(p, "and.b64 %s, %s, %s", l.at, l.at, last);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", l.at, l.at, kir_width(register_of(p, b)), first);
  return l;
}
static void close_sets(struct printer *p, struct sets_loop l) {
  if (!p->plan->has_sets) return;
  ptx_line(p, "add.s64 %s, %s, 1", l.set, l.set);
  ptx_line(p, "bra %s", l.again);
  ptx_place(p, l.leave);
}

static void begin(struct printer *p, int row) {
  int b = p->plan->rows[row].of;
  const char *in_place = ptx_label(p, "in_place");
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  move_to_copy(p, b, own_copy(p, row), pitch(p, b));
  struct sweep s = open_sweep(p, b);
  uint64_t neutral = kir_neutral((enum kir_op)p->survey.bufs[b].private_op, dtype_of(p, b));
  struct sets_loop l = open_sets(p, b, copy_address(p, b, row, s.e), s.e);
  ptx_store(p, "", dtype_of(p, b), l.at, in_own(p, dtype_of(p, b), neutral));
  close_sets(p, l);
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

static const char *word_of(struct printer *p, const char *special) {
  const char *r = ptx_own(p, OWN_WORD);
  ptx_line(p, "mov.u32 %s, %s", r, special);
  return r;
}

/* The address of element e of the copy that iteration q, or block of threads q, has of the row's buffer. */
static const char *copy_element(struct printer *p, int row, const char *q, const char *e) {
  const char *at = ptx_own(p, OWN_LONG), *bytes = ptx_own(p, OWN_LONG);
  ptx_line(p, "ld.param.u64 %s, [q_copies]", at);
  ptx_line(p, "cvta.to.global.u64 %s, %s", at, at);
  ptx_line(p, "ld.param.s64 %s, [q_copy_bytes]", bytes);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", at, q, bytes, at);
  if (p->survey.in_order) {
    ptx_line(p, "ld.param.s64 %s, [q_row%d]", bytes, row);
    ptx_line(p, "add.s64 %s, %s, %s", at, at, bytes);
  }
  if (e) ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, e, p->plan->rows[row].width, at);
  return at;
}

const char *ptx_copy_at(struct printer *p, int buf, const char *q) {
  int row = 0;
  while (p->plan->rows[row].kind != PTX_COPY || p->plan->rows[row].of != buf) row++;
  return copy_element(p, row, q, NULL);
}

/* Counted through the grid. */
static const char *block_number(struct printer *p) {
  const char *n = word_of(p, "%ctaid.z"), *wide = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", n, n, word_of(p, "%nctaid.y"), word_of(p, "%ctaid.y"));
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", n, n, word_of(p, "%nctaid.x"), word_of(p, "%ctaid.x"));
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, n);
  return wide;
}

static void end(struct printer *p, int row) {
  int b = p->plan->rows[row].of;
  weft_dtype d = dtype_of(p, b);
  enum kir_op op = (enum kir_op)p->survey.bufs[b].private_op;
  const char *in_place = ptx_label(p, "in_place"), *v = ptx_own_of(p, d), *other = ptx_own_of(p, d);
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  struct sweep s = open_sweep(p, b);
  ptx_mov(p, d, v, ptx_number(p, d, kir_neutral(op, d)));
  struct sets_loop l = open_sets(p, b, copy_address(p, b, row, s.e), s.e);
  ptx_load(p, "", d, other, l.at);
  ptx_instruction(p, op, d, v, (const char *[]){ v, other });
  close_sets(p, l);
  if (p->survey.leaves) ptx_store(p, ".global", d, copy_element(p, row, block_number(p), s.e), v);
  else {
    skip_neutral(p, d, kir_neutral(op, d), v, s.next);
    ptx_combine(p, ".global", op, d, place_of(p, b, s.e), v);
  }
  close_sweep(p, s);
  ptx_place(p, in_place);
}

void ptx_copies_begin(struct printer *p) {
  if (p->survey.in_order) return;
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_COPY) begin(p, r);
  if (p->survey.has_private) ptx_line(p, "bar.sync 0");
}

void ptx_copies_end(struct printer *p) {
  if (p->survey.in_order) return;
  if (p->survey.has_private) ptx_line(p, "bar.sync 0");
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_COPY) end(p, r);
}

/* The copy is in shared memory, where the machine has instructions of its own, or it is the output itself. */
void ptx_combine_copy(struct printer *p, int b, enum kir_op op, const char *address, const char *src) {
  const char *in_place = ptx_label(p, "in_place"), *done = ptx_label(p, "done"), *at = ptx_own(p, OWN_LONG);
  int row = 0;
  while (p->plan->rows[row].kind != PTX_COPY || p->plan->rows[row].of != b) row++;
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  ptx_line(p, "cvta.to.shared.u64 %s, %s", at, address);
  ptx_combine(p, ".shared", op, dtype_of(p, b), at, src);
  ptx_line(p, "bra %s", done);
  ptx_place(p, in_place);
  ptx_line(p, "cvta.to.global.u64 %s, %s", at, address);
  ptx_combine(p, ".global", op, dtype_of(p, b), at, src);
  ptx_place(p, done);
}

/* One round of exchanges in shared memory: of those that others were ahead of, is[i] stays true. The others exchange a number for
 * itself, which is cheaper than a way around. */
static void exchange(struct printer *p, const struct ptx_meeting *m, enum kir_op op, weft_dtype d, const char *const at[]) {
  const char *bits = ptx_bits(d), *old[PTX_MEETING], *new[PTX_MEETING], *seen[PTX_MEETING];
  for (int i = 0; i < m->n; i++) {
    old[i] = ptx_own_of(p, d), new[i] = ptx_own_of(p, d), seen[i] = ptx_own_of(p, d);
    ptx_line(p, "ld.volatile.shared.%s %s, [%s]", bits, old[i], at[i]);
  }
  for (int i = 0; i < m->n; i++) {
    ptx_instruction(p, op, d, new[i], (const char *[]){ old[i], m->v[i] });
    ptx_line(p, "selp.%s %s, %s, %s, %s", bits, new[i], new[i], old[i], m->is[i]);
    ptx_line(p, "atom.shared.cas.%s %s, [%s], %s, %s", bits, seen[i], at[i], old[i], new[i]);
  }
  for (int i = 0; i < m->n; i++) ptx_line(p, "setp.ne.and.%s %s, %s, %s, %s", bits, m->is[i], seen[i], old[i], m->is[i]);
}

enum { ROUNDS = 4 }; /* few threads compete for a place: they have copies by lane */

/* What is left after some rounds is combined in the warp first, one after the other. */
static void exchange_all(struct printer *p, const struct ptx_meeting *m, enum kir_op op, weft_dtype d, const char *const at[]) {
  const char *left = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *again = ptx_label(p, "exchange");
  const char *done = ptx_label(p, "done");
  ptx_line(p, "mov.u32 %s, %d", left, ROUNDS);
  ptx_place_loop(p, again);
  exchange(p, m, op, d, at);
  ptx_line(p, "mov.pred %s, %s", more, m->is[0]);
  for (int i = 1; i < m->n; i++) ptx_line(p, "or.pred %s, %s, %s", more, more, m->is[i]);
  ptx_line(p, "@!%s bra %s", more, done);
  ptx_line(p, "sub.u32 %s, %s, 1", left, left);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", more, left);
  ptx_line(p, "@%s bra %s", more, again);
  for (int i = 0; i < m->n; i++) {
    const char *next = ptx_label(p, "next");
    ptx_line(p, "@!%s bra %s", m->is[i], next);
    ptx_combine(p, ".shared", op, d, at[i], m->v[i]);
    ptx_place(p, next);
  }
  ptx_place(p, done);
}

void ptx_combine_meeting(struct printer *p) {
  struct ptx_meeting *m = &p->meeting;
  int b = m->store->buf, row = 0;
  enum kir_op op = (enum kir_op)m->store->op;
  const char *in_place = ptx_label(p, "in_place"), *done = ptx_label(p, "done"), *at[PTX_MEETING];
  while (p->plan->rows[row].kind != PTX_COPY || p->plan->rows[row].of != b) row++;
  ptx_line(p, "@$in_place%d bra %s", row, in_place);
  for (int i = 0; i < m->n; i++) ptx_line(p, "cvta.to.shared.u64 %s, %s", at[i] = ptx_own(p, OWN_LONG), m->at[i]);
  exchange_all(p, m, op, dtype_of(p, b), at);
  ptx_line(p, "bra %s", done);
  ptx_place(p, in_place);
  for (int i = 0; i < m->n; i++) {
    const char *next = ptx_label(p, "next");
    ptx_line(p, "@!%s bra %s", m->is[i], next);
    ptx_line(p, "cvta.to.global.u64 %s, %s", at[i], m->at[i]);
    ptx_combine(p, ".global", op, dtype_of(p, b), at[i], m->v[i]);
    ptx_place(p, next);
  }
  ptx_place(p, done);
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

/* ---- In order ----------------------------------------------------------------------------------------------------------- */

void ptx_copy_of(struct printer *p, const struct kir_stmt *loop) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    if (p->plan->rows[r].kind != PTX_COPY) continue;
    int b = p->plan->rows[r].of;
    weft_dtype d = register_of(p, b);
    const char *copy = copy_element(p, r, ptx_val(p, loop->var), NULL), *at = ptx_own(p, OWN_LONG);
    move_to_copy(p, b, copy, ptx_textf(p, "%d", kir_width(d)));
    if (p->survey.is_once) continue;
    const char *v = in_own(p, d, kir_neutral((enum kir_op)p->survey.bufs[b].private_op, d));
    struct sweep s = open_sweep(p, b);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, s.e, kir_width(d), copy);
    ptx_store(p, ".global", d, at, v);
    close_sweep(p, s);
  }
  if (!p->survey.is_once) ptx_line(p, "bar.sync 0");
}

void ptx_combine_own(struct printer *p, int b, enum kir_op op, const char *address, const char *src) {
  weft_dtype d = register_of(p, b);
  const char *old = ptx_own_of(p, d), *new = ptx_own_of(p, d);
  if (p->survey.is_once) { ptx_store(p, ".global", d, address, src); return; } /* neutral o src */
  ptx_load(p, ".global", d, old, address);
  ptx_instruction(p, op, d, new, (const char *[]){ old, src });
  ptx_store(p, ".global", d, address, new);
}

enum { TOGETHER = 3, MOST_TOGETHER = 4, RANKS = 48 };

struct merging {
  int row, buf;
  enum kir_op op;
  weft_dtype d;
  const char *x, *y, *width, *height;     /* the thread in its block: along elements, along iterations */
  const char *from, *to, *shift, *parts;  /* iterations of this thread, 2^shift of them; threads that have some */
  const char *e, *is_inside;              /* the element, and whether there is such a one */
  const char *v;
};

static const char *n_copies(struct printer *p) {
  const struct kir_stmt *loop = p->survey.private_loop;
  if (!p->survey.leaves) return loop->extent == KIR_BLOCKS ? ptx_n_blocks(p, loop) : ptx_lin(p, loop->at[0]);
  const char *n = ptx_own(p, OWN_LONG);
  ptx_line(p, "ld.param.s64 %s, [q_left]", n);
  return n;
}

/* Iterations for each thread along y: a power of two, as few as all of them need. */
static void divide_iterations(struct printer *p, struct merging *m) {
  const char *n = ptx_own(p, OWN_WORD), *all = n_copies(p), *log = ptx_own(p, OWN_WORD);
  const char *most = ptx_own(p, OWN_LONG);
  m->shift = ptx_own(p, OWN_WORD), m->parts = ptx_own(p, OWN_WORD), m->from = ptx_own(p, OWN_WORD), m->to = ptx_own(p, OWN_WORD);
  ptx_line(p, "max.s64 %s, %s, 0", most, all);
  ptx_line(p, "cvt.u32.u64 %s, %s", n, most);
  ptx_line(p, "max.u32 %s, %s, 1", m->parts, n);
  ptx_line(p, "sub.u32 %s, %s, 1", m->parts, m->parts);
  ptx_line(p, "bfind.u32 %s, %s", m->shift, m->parts);
  ptx_line(p, "add.u32 %s, %s, 1", m->shift, m->shift);
  ptx_line(p, "bfind.u32 %s, %s", log, m->height);
  ptx_line(p, "sub.s32 %s, %s, %s", m->shift, m->shift, log);
  ptx_line(p, "max.s32 %s, %s, 0", m->shift, m->shift);
  ptx_line(p, "shr.u32 %s, %s, %s", m->parts, m->parts, m->shift);
  ptx_line(p, "add.u32 %s, %s, 1", m->parts, m->parts);
  ptx_line(p, "shl.b32 %s, %s, %s", m->from, m->y, m->shift);
  ptx_line(p, "shl.b32 %s, 1, %s", m->to, m->shift);
  ptx_line(p, "add.u32 %s, %s, %s", m->to, m->to, m->from);
  ptx_line(p, "min.u32 %s, %s, %s", m->to, m->to, n);
}

/* v, of 2^rank iterations, joins the counter: the stack holds an entry for each bit of count, whose lower bits are 0. */
static void push(struct printer *p, const struct merging *m, const char *count, int rank) {
  const char *at = ptx_own(p, OWN_LONG), *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD), *older = ptx_own_of(p, m->d);
  const char *is_free = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *put = ptx_label(p, "put");
  ptx_line(p, "mov.u64 %s, stack", at);
  if (rank) ptx_line(p, "add.u64 %s, %s, %d", at, at, 8 * rank);
  ptx_line(p, "shr.u32 %s, %s, %d", rest, count, rank);
  ptx_place_loop(p, again);
  ptx_line(p, "and.b32 %s, %s, 1", bit, rest);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_free, bit);
  ptx_line(p, "@%s bra %s", is_free, put);
  ptx_load(p, ".local", m->d, older, at);
  ptx_instruction(p, m->op, m->d, m->v, (const char *[]){ older, m->v });
  ptx_line(p, "add.u64 %s, %s, 8", at, at);
  ptx_line(p, "shr.u32 %s, %s, 1", rest, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, put);
  ptx_store(p, ".local", m->d, at, m->v);
  ptx_line(p, "add.u32 %s, %s, %d", count, count, 1 << rank);
}

/* v = the entries from the newest to the oldest; neutral if there is none. */
static void total(struct printer *p, const struct merging *m, const char *count) {
  const char *at = ptx_own(p, OWN_LONG), *bit = ptx_own(p, OWN_WORD), *older = ptx_own_of(p, m->d), *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "rank"), *skip = ptx_label(p, "skip"), *done = ptx_label(p, "total");
  ptx_mov(p, m->d, m->v, ptx_number(p, m->d, kir_neutral(m->op, m->d)));
  ptx_line(p, "mov.u64 %s, stack", at);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, count);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_line(p, "and.b32 %s, %s, 1", bit, count);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, bit);
  ptx_line(p, "@%s bra %s", is, skip);
  ptx_load(p, ".local", m->d, older, at);
  ptx_instruction(p, m->op, m->d, m->v, (const char *[]){ older, m->v }); /* o neutral changes no bit */
  ptx_place(p, skip);
  ptx_line(p, "add.u64 %s, %s, 8", at, at);
  ptx_line(p, "shr.u32 %s, %s, 1", count, count);
  ptx_line(p, "bra %s", again);
  ptx_place(p, done);
}

/* v = 2^rank iterations from q on, loaded together, by pairs. */
static void load_pairs(struct printer *p, const struct merging *m, const char *q, int rank) {
  const char *v[1 << MOST_TOGETHER], *q_long = ptx_own(p, OWN_LONG), *bytes = ptx_own(p, OWN_LONG), *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "cvt.u64.u32 %s, %s", q_long, q);
  ptx_line(p, "mov.u64 %s, %s", at, copy_element(p, m->row, q_long, m->e));
  ptx_line(p, "ld.param.s64 %s, [q_copy_bytes]", bytes);
  for (int i = 0; i < 1 << rank; i++) v[i] = ptx_own_of(p, m->d);
  if (ptx_is_one_number(p->plan)) ptx_access_pieces(p, true, ".global", at, 1 << rank, kir_width(m->d), v);
  else for (int i = 0; i < 1 << rank; i++) {
    if (i) ptx_line(p, "add.s64 %s, %s, %s", at, at, bytes);
    ptx_load(p, ".global", m->d, v[i], at);
  }
  for (int n = 1 << rank; n > 1; n /= 2)
    for (int i = 0; i < n / 2; i++) {
      const char *pair[] = { v[2 * i], v[2 * i + 1] };
      ptx_instruction(p, m->op, m->d, v[i] = ptx_own_of(p, m->d), pair);
    }
  ptx_mov(p, m->d, m->v, v[0]);
}

/* While 2^rank iterations are left. */
static void take_iterations(struct printer *p, const struct merging *m, const char *q, const char *count, int rank) {
  const char *end = ptx_own(p, OWN_WORD), *is_over = ptx_own(p, OWN_PRED), *again = ptx_label(p, "iteration"),
             *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "add.u32 %s, %s, %d", end, q, 1 << rank);
  ptx_line(p, "setp.gt.u32 %s, %s, %s", is_over, end, m->to);
  ptx_line(p, "@%s bra %s", is_over, leave);
  load_pairs(p, m, q, rank);
  push(p, m, count, rank);
  ptx_line(p, "mov.u32 %s, %s", q, end);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* Parts of 8 and more begin with a multiple of 8: eight of them are a node of the tree, and loaded together; so of 16. */
static void own_iterations(struct printer *p, const struct merging *m) {
  const char *q = ptx_own(p, OWN_WORD), *count = ptx_own(p, OWN_WORD), *none = ptx_label(p, "none");
  ptx_line(p, "mov.u32 %s, 0", count);
  ptx_line(p, "@!%s bra %s", m->is_inside, none);
  ptx_line(p, "mov.u32 %s, %s", q, m->from);
  for (int rank = MOST_TOGETHER; rank >= TOGETHER; rank--) take_iterations(p, m, q, count, rank);
  take_iterations(p, m, q, count, 0);
  ptx_place(p, none);
  total(p, m, count);
}

static const char *merged_place(struct printer *p, const struct merging *m, const char *y) {
  const char *i = ptx_own(p, OWN_WORD), *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", i, y, m->width, m->x);
  ptx_line(p, "mov.u64 %s, merged", at);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", at, i, at);
  return at;
}

/* Thread y has v of its part; neighbours combine, then pairs of them: y = 0 ends up with the total. */
static void pairs(struct printer *p, const struct merging *m) {
  const char *by = ptx_own(p, OWN_WORD), *other = ptx_own(p, OWN_WORD), *low = ptx_own(p, OWN_WORD), *v = ptx_own_of(p, m->d);
  const char *is_over = ptx_own(p, OWN_PRED), *takes = ptx_own(p, OWN_PRED), *again = ptx_label(p, "pairs"),
             *rest = ptx_label(p, "rest"), *leave = ptx_label(p, "leave"), *own = merged_place(p, m, m->y);
  ptx_store(p, ".shared", m->d, own, m->v);
  ptx_line(p, "mov.u32 %s, 1", by);
  ptx_place_loop(p, again);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is_over, by, m->parts);
  ptx_line(p, "@%s bra %s", is_over, leave);
  ptx_line(p, "add.u32 %s, %s, %s", other, m->y, by);
  ptx_line(p, "shl.b32 %s, %s, 1", by, by);
  ptx_line(p, "sub.u32 %s, %s, 1", low, by);
  ptx_line(p, "and.b32 %s, %s, %s", low, low, m->y);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", takes, low);
  ptx_line(p, "setp.lt.and.u32 %s, %s, %s, %s", takes, other, m->parts, takes);
  ptx_line(p, "@!%s bra %s", takes, rest);
  ptx_load(p, ".shared", m->d, v, merged_place(p, m, other));
  ptx_instruction(p, m->op, m->d, m->v, (const char *[]){ m->v, v });
  ptx_store(p, ".shared", m->d, own, m->v);
  ptx_place(p, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* The n first lanes of a warp, n at most 2^ranks of them, combine as pairs do: lane 0 ends up with their total. */
static void lanes(struct printer *p, const struct merging *m, const char *lane, const char *n, int ranks) {
  const char *other = ptx_own(p, OWN_WORD), *takes = ptx_own(p, OWN_PRED), *both = ptx_own_of(p, m->d);
  for (int by = 1; by < 1 << ranks; by *= 2) {
    const char *v = ptx_shuffle(p, m->d, "down", m->v, ptx_textf(p, "%d", by), "-1");
    ptx_line(p, "add.u32 %s, %s, %d", other, lane, by);
    ptx_line(p, "setp.lt.u32 %s, %s, %s", takes, other, n);
    ptx_instruction(p, m->op, m->d, both, (const char *[]){ m->v, v });
    ptx_line(p, "@%s mov.%s %s, %s", takes, ptx_bits(m->d), m->v, both);
  }
}

/* The same where copies are one number: all threads are along iterations, so that neighbours are lanes of a warp. */
static void pairs_of_lanes(struct printer *p, const struct merging *m) {
  const char *lane = ptx_own(p, OWN_WORD), *warp = ptx_own(p, OWN_WORD), *warps = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *left = ptx_own(p, OWN_LONG), *at = ptx_own(p, OWN_LONG);
  lanes(p, m, m->y, m->parts, 5);
  ptx_line(p, "and.b32 %s, %s, 31", lane, m->y);
  ptx_line(p, "shr.u32 %s, %s, 5", warp, m->y);
  ptx_line(p, "add.u32 %s, %s, 31", warps, m->parts);
  ptx_line(p, "shr.u32 %s, %s, 5", warps, warps);
  ptx_line(p, "mov.u64 %s, merged", at);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", left, warp, at);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", at, lane, at);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, lane);
  ptx_line(p, "@%s st.shared.%s [%s], %s", is, ptx_bits(m->d), left, m->v);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "setp.lt.u32 %s, %s, %s", is, lane, warps);
  ptx_line(p, "@%s ld.shared.%s %s, [%s]", is, ptx_bits(m->d), m->v, at);
  lanes(p, m, lane, warps, ptx_log_2(MERGE_THREADS / 32));
}

/* Onto what is there, or the empty value, which another entry has stored where copies are left. */
static void merge_out(struct printer *p, const struct merging *m) {
  const char *is = ptx_own(p, OWN_PRED), *others = ptx_label(p, "others"), *old = ptx_own_of(p, m->d);
  ptx_line(p, "setp.eq.and.u32 %s, %s, 0, %s", is, m->y, m->is_inside);
  ptx_line(p, "@!%s bra %s", is, others);
  const char *at = place_of(p, m->buf, m->e);
  if (buf_of(p, m->buf)->kind == KIR_OUT && !p->survey.leaves) ptx_mov(p, m->d, old, ptx_number(p, m->d, kir_empty(m->op, m->d)));
  else {
    skip_neutral(p, m->d, kir_neutral(m->op, m->d), m->v, others); /* a nan that nobody updates keeps its bits */
    ptx_load(p, ".global", dtype_of(p, m->buf), old, at);
  }
  ptx_instruction(p, m->op, m->d, m->v, (const char *[]){ old, m->v });
  ptx_store(p, ".global", dtype_of(p, m->buf), at, m->v);
  ptx_place(p, others);
  ptx_line(p, "bar.sync 0");
}

static void merge_row(struct printer *p, int row) {
  struct merging m = { .row = row, .buf = p->plan->rows[row].of };
  m.op = (enum kir_op)p->survey.bufs[m.buf].private_op, m.d = register_of(p, m.buf), m.v = ptx_own_of(p, m.d);
  m.x = word_of(p, "%tid.x"), m.y = word_of(p, "%tid.y"), m.width = word_of(p, "%ntid.x"), m.height = word_of(p, "%ntid.y");
  divide_iterations(p, &m);
  const char *n = count(p, m.buf), *first = ptx_own(p, OWN_LONG), *step = ptx_own(p, OWN_LONG), *x = ptx_own(p, OWN_LONG);
  const char *again = ptx_label(p, "elements"), *leave = ptx_label(p, "leave"), *is_over = ptx_own(p, OWN_PRED);
  m.e = ptx_own(p, OWN_LONG), m.is_inside = ptx_own(p, OWN_PRED);
  ptx_line(p, "mul.wide.u32 %s, %s, %s", first, word_of(p, "%ctaid.x"), m.width);
  ptx_line(p, "mul.wide.u32 %s, %s, %s", step, word_of(p, "%nctaid.x"), m.width);
  ptx_line(p, "cvt.u64.u32 %s, %s", x, m.x);
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.wait"); /* until the copies are there */
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is_over, first, n);
  ptx_line(p, "@%s bra %s", is_over, leave);
  ptx_line(p, "add.s64 %s, %s, %s", m.e, first, x);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", m.is_inside, m.e, n);
  own_iterations(p, &m);
  if (ptx_is_one_number(p->plan)) pairs_of_lanes(p, &m);
  else pairs(p, &m);
  merge_out(p, &m);
  ptx_line(p, "add.s64 %s, %s, %s", first, first, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

void ptx_merge_copies(struct printer *p) {
  p->stack_bytes = RANKS * 8;
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_COPY) merge_row(p, r);
}
