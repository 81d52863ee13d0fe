/* ptx_reduce.c -- folds and prefixes: in one thread, and over the threads of a block, in the order of docs/kir.md section 6.
 *
 * Along lanes a warp takes 4096 elements at a time, lane l those of accumulator l; their tree goes down by shuffles. The blocks
 * of a warp are an aligned power of two, so that they are a node of the tree of blocks: the warp counts them, entry k of its
 * counter in lane k. What the warps have found meets in shared memory, and every warp combines it again in the same order, so
 * that all threads hold the same bits and may branch on them. Along a serial loop each thread has a counter of its own, in
 * local memory. Where no order can be seen (integers, min, max) elements are dealt to all threads and nothing is counted. */
#include "backend/cuda/gpu_wide.h"

enum { SLOT = 32 * 8 }; /* bytes of `partials` for one value: a place a warp */
enum { LEVELS = 48 };   /* of a thread's counter: more blocks than anybody has elements */

static weft_dtype dtype_of(struct printer *p, int v) { return (weft_dtype)p->k->vals[v].dtype; }

/* Integers, min and max are the same in any order; sums and products of floats and what a fn does are not. */
bool ptx_is_ordered(const struct kir_kernel *k, const struct kir_stmt *s) {
  return s->op == KIR_CALL || ((s->op == KIR_ADD || s->op == KIR_MUL) && kir_is_float((weft_dtype)k->vals[s->out[0]].dtype));
}

void ptx_inline(struct printer *p, int fn, const char *const in[], const char *const out[]) {
  const struct kir_fn *f = &p->k->fns[fn];
  for (int i = 0; i < f->n_param; i++) ptx_mov(p, dtype_of(p, f->param[i]), ptx_val(p, f->param[i]), in[i]);
  ptx_block(p, &f->body, (struct where){ 0 });
  for (int i = 0; i < f->n_result; i++) ptx_mov(p, dtype_of(p, f->result[i]), out[i], ptx_val(p, f->result[i]));
}

/* out = a o b, all of them registers of the fold's dtypes */
static void combine(struct printer *p, const struct kir_stmt *s, const char *const a[], const char *const b[],
                    const char *const out[]) {
  const char *in[2 * PTX_TUPLE];
  for (int i = 0; i < s->n_out; i++) in[i] = a[i], in[s->n_out + i] = b[i];
  if (s->op == KIR_CALL) ptx_inline(p, s->fn, in, out);
  else ptx_instruction(p, (enum kir_op)s->op, dtype_of(p, s->out[0]), out[0], in);
}

static bool fits(struct printer *p, const struct kir_stmt *s) {
  if (s->n_out > PTX_TUPLE) ptx_refuse(p, "a fold of too many values");
  return s->n_out <= PTX_TUPLE;
}

static void results(struct printer *p, const struct kir_stmt *s, const char *r[PTX_TUPLE]) {
  for (int i = 0; i < s->n_out; i++) r[i] = ptx_val(p, s->out[i]);
}

static const char *start(struct printer *p, const struct kir_stmt *s, int i) {
  weft_dtype d = dtype_of(p, s->out[i]);
  if (s->n_from) return ptx_val(p, s->from[i]);
  enum kir_op op = (enum kir_op)s->op;
  uint64_t bits = s->kind == KIR_PREFIX ? kir_neutral(op, d) : kir_empty(op, d);
  if (d != WEFT_BOOL) return ptx_number(p, d, bits);
  p->uses_bool[bits != 0] = true;
  return bits ? "$true" : "$false";
}

void ptx_start(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && fits(p, s); i++) ptx_mov(p, dtype_of(p, s->out[i]), ptx_val(p, s->out[i]), start(p, s, i));
}

void ptx_accumulate(struct printer *p, const struct kir_stmt *s) {
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  if (!fits(p, s)) return;
  results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  combine(p, s, r, v, r);
}

static void fresh(struct printer *p, const struct kir_stmt *s, const char *r[PTX_TUPLE]) {
  for (int i = 0; i < s->n_out; i++) r[i] = ptx_own_of(p, dtype_of(p, s->out[i]));
}

static void copy(struct printer *p, const struct kir_stmt *s, const char *const to[], const char *const from[]) {
  for (int i = 0; i < s->n_out; i++) ptx_mov(p, dtype_of(p, s->out[i]), to[i], from[i]);
}

/* ---- Along a serial loop ------------------------------------------------------------------------------------------------ */

static struct ptx_counter *counter_of(struct printer *p, const struct kir_stmt *s) { return &p->counter[s->out[0]]; }

static const char *stack(struct printer *p, const struct kir_stmt *s) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, stack", at);
  if (counter_of(p, s)->offset) ptx_line(p, "add.u64 %s, %s, %d", at, at, counter_of(p, s)->offset);
  return at;
}

/* Entries are words of 8 bytes, those of a tuple side by side. */
static void get_entry(struct printer *p, const struct kir_stmt *s, const char *at, const char *const to[]) {
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = dtype_of(p, s->out[i]);
    const char *w = d == WEFT_BOOL ? ptx_own(p, OWN_WORD) : to[i];
    ptx_line(p, "ld.local.%s %s, [%s+%d]", d == WEFT_BOOL ? "u32" : ptx_bits(d), w, at, 8 * i);
    if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", to[i], w);
  }
}

static void put_entry(struct printer *p, const struct kir_stmt *s, const char *at, const char *const from[]) {
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = dtype_of(p, s->out[i]);
    const char *w = from[i];
    if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", w = ptx_own(p, OWN_WORD), from[i]);
    ptx_line(p, "st.local.%s [%s+%d], %s", d == WEFT_BOOL ? "u32" : ptx_bits(d), at, 8 * i, w);
  }
}

void ptx_serial_start(struct printer *p, const struct kir_stmt *s) {
  struct ptx_counter *c = counter_of(p, s);
  ptx_start(p, s);
  if (!ptx_is_ordered(p->k, s) || !fits(p, s)) return;
  if (s->kind == KIR_PREFIX) {
    fresh(p, s, c->inside);
    fresh(p, s, c->before);
    c->has = ptx_own(p, OWN_PRED);
    return;
  }
  c->count = ptx_own(p, OWN_WORD);
  c->offset = p->stack_bytes;
  p->stack_bytes += LEVELS * 8 * s->n_out;
  ptx_line(p, "mov.u32 %s, 0", c->count);
}

/* The results join the counter: while the newest entry is of the same rank they are combined with it, older on the left. */
static void push_block(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *at = stack(p, s), *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is_free = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *put = ptx_label(p, "put");
  results(p, s, r);
  fresh(p, s, older);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_place_loop(p, again);
  ptx_line(p, "and.b32 %s, %s, 1", bit, rest);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_free, bit);
  ptx_line(p, "@%s bra %s", is_free, put);
  get_entry(p, s, at, older);
  combine(p, s, older, r, r);
  ptx_line(p, "add.u64 %s, %s, %d", at, at, 8 * s->n_out);
  ptx_line(p, "shr.u32 %s, %s, 1", rest, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, put);
  put_entry(p, s, at, r);
  ptx_line(p, "add.u32 %s, %s, 1", c->count, c->count);
}

/* results = what the counter holds o results, from the newest entry to the oldest. */
static void total_of_blocks(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *at = stack(p, s), *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *skip = ptx_label(p, "skip"), *done = ptx_label(p, "total");
  results(p, s, r);
  fresh(p, s, older);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_line(p, "and.b32 %s, %s, 1", bit, rest);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, bit);
  ptx_line(p, "@%s bra %s", is, skip);
  get_entry(p, s, at, older);
  combine(p, s, older, r, r);
  ptx_place(p, skip);
  ptx_line(p, "add.u64 %s, %s, %d", at, at, 8 * s->n_out);
  ptx_line(p, "shr.u32 %s, %s, 1", rest, rest);
  ptx_line(p, "bra %s", again);
  ptx_place(p, done);
}

/* Whether the position begins a block. */
static void begins(struct printer *p, const char *position, const char *is) {
  const char *low = ptx_own(p, OWN_LONG);
  ptx_line(p, "and.b64 %s, %s, %d", low, position, KIR_ROW_BLOCK - 1);
  ptx_line(p, "setp.eq.s64 %s, %s, 0", is, low);
}

void ptx_serial_block(struct printer *p, const struct kir_stmt *s) {
  if (!ptx_is_ordered(p->k, s) || !fits(p, s)) return;
  push_block(p, s);
  ptx_start(p, s);
}

/* Inside a block in order, the first element alone; then what came before the block, if anything did. */
static void serial_prefix(struct printer *p, const struct kir_stmt *s, const char *position) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *v[PTX_TUPLE], *is_first = ptx_own(p, OWN_PRED), *within = ptx_label(p, "within"),
             *both = ptx_label(p, "both"), *done = ptx_label(p, "done");
  results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  begins(p, position, is_first);
  ptx_line(p, "@!%s bra %s", is_first, within);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", c->has, position);
  copy(p, s, c->before, r);
  copy(p, s, c->inside, v);
  ptx_line(p, "bra %s", both);
  ptx_place(p, within);
  combine(p, s, c->inside, v, c->inside);
  ptx_place(p, both);
  copy(p, s, r, c->inside);
  ptx_line(p, "@!%s bra %s", c->has, done);
  combine(p, s, c->before, c->inside, r);
  ptx_place(p, done);
}

void ptx_serial_step(struct printer *p, const struct kir_stmt *s, const char *position) {
  if (s->kind == KIR_FOLD || !ptx_is_ordered(p->k, s)) ptx_accumulate(p, s);
  else if (fits(p, s)) serial_prefix(p, s, position);
}

void ptx_serial_end(struct printer *p, const struct kir_stmt *s) {
  if (s->kind == KIR_FOLD && ptx_is_ordered(p->k, s) && fits(p, s)) total_of_blocks(p, s);
}

/* ---- Between threads --------------------------------------------------------------------------------------------------- */

const char *ptx_shuffle(struct printer *p, weft_dtype d, const char *how, const char *src, const char *by, const char *among) {
  const char *clamp = how[0] == 'u' ? "0" : "31", *r = ptx_own_of(p, d);
  if (d == WEFT_BOOL) {
    const char *w = ptx_own(p, OWN_WORD);
    ptx_line(p, "selp.u32 %s, 1, 0, %s", w, src);
    ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, %s, %s", how, w, w, by, clamp, among);
    ptx_line(p, "setp.ne.u32 %s, %s, 0", r, w);
  } else if (kir_width(d) == 8) {
    const char *low = ptx_own(p, OWN_WORD), *high = ptx_own(p, OWN_WORD);
    ptx_line(p, "mov.b64 {%s, %s}, %s", low, high, src);
    ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, %s, %s", how, low, low, by, clamp, among);
    ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, %s, %s", how, high, high, by, clamp, among);
    ptx_line(p, "mov.b64 %s, {%s, %s}", r, low, high);
  } else {
    ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, %s, %s", how, r, src, by, clamp, among);
  }
  return r;
}

static const char *shuffle(struct printer *p, weft_dtype d, const char *how, const char *src, const char *by) {
  return ptx_shuffle(p, d, how, src, by, "-1");
}

struct thread { const char *lane, *warp, *n_warps, *partial; }; /* partial: address of this warp's place */

static struct thread thread(struct printer *p) {
  struct thread t = { ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD), ptx_own(p, OWN_LONG) };
  ptx_line(p, "mov.u32 %s, %%tid.x", t.lane);
  ptx_line(p, "shr.u32 %s, %s, 5", t.warp, t.lane);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.lane);
  ptx_line(p, "mov.u32 %s, %%ntid.x", t.n_warps);
  ptx_line(p, "shr.u32 %s, %s, 5", t.n_warps, t.n_warps);
  return t;
}

static const char *place(struct printer *p, const char *at) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, partials", r);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", r, at, r);
  return r;
}

static const char *guard(struct printer *p, const char *if_) { return if_ ? ptx_textf(p, "@%s ", if_) : ""; }

static void put(struct printer *p, weft_dtype d, const char *if_, const char *at, int slot, const char *src) {
  const char *w = src;
  if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", w = ptx_own(p, OWN_WORD), src);
  ptx_line(p, "%sst.shared.%s [%s+%d], %s", guard(p, if_), d == WEFT_BOOL ? "u32" : ptx_type(d), at, slot * SLOT, w);
}

static void get(struct printer *p, weft_dtype d, const char *if_, const char *at, int slot, const char *dst) {
  const char *w = dst;
  if (d == WEFT_BOOL) w = ptx_own(p, OWN_WORD);
  if (d == WEFT_BOOL && if_) ptx_line(p, "selp.u32 %s, 1, 0, %s", w, dst);
  ptx_line(p, "%sld.shared.%s %s, [%s+%d]", guard(p, if_), d == WEFT_BOOL ? "u32" : ptx_type(d), w, at, slot * SLOT);
  if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, w);
}

static const struct kir_stmt *next_fold(const struct kir_stmt *s) {
  while (s && s->kind != KIR_FOLD) s = s->next;
  return s;
}

#define FOLDS(s, loop) (const struct kir_stmt *s = next_fold((loop)->body.first); s; s = next_fold(s->next))

/* to = if ? from : to */
static void take_if(struct printer *p, const struct kir_stmt *s, const char *if_,
                    const char *const from[], const char *const to[]) {
  for (int i = 0; i < s->n_out; i++)
    ptx_line(p, "@%s mov.%s %s, %s", if_, ptx_type(dtype_of(p, s->out[i])), to[i], from[i]);
}

/* Lane 0 of each warp ends up with the fold of its warp, as the tree of the accumulators says. */
static void fold_warp(struct printer *p, const struct kir_stmt *loop) {
  const char *by = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *down = ptx_label(p, "down");
  ptx_line(p, "mov.u32 %s, 16", by);
  ptx_place(p, down);
  for FOLDS(s, loop) {
    const char *r[PTX_TUPLE], *other[PTX_TUPLE];
    results(p, s, r);
    for (int i = 0; i < s->n_out; i++) other[i] = shuffle(p, dtype_of(p, s->out[i]), "down", r[i], by);
    combine(p, s, r, other, r);
  }
  ptx_line(p, "shr.u32 %s, %s, 1", by, by);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", more, by);
  ptx_line(p, "@%s bra %s", more, down);
}

/* Lane 0 ends up with the n first lanes' values as a counter combines them: neighbours, then pairs of them .. */
static void fold_pairs(struct printer *p, const struct kir_stmt *loop, const char *lane, const char *n) {
  const char *by = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *has = ptx_own(p, OWN_PRED);
  const char *other_lane = ptx_own(p, OWN_WORD), *pairs = ptx_label(p, "pairs");
  ptx_line(p, "mov.u32 %s, 1", by);
  ptx_place_loop(p, pairs);
  ptx_line(p, "add.u32 %s, %s, %s", other_lane, lane, by);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", has, other_lane, n);
  for FOLDS(s, loop) {
    const char *r[PTX_TUPLE], *other[PTX_TUPLE], *both[PTX_TUPLE];
    results(p, s, r);
    fresh(p, s, both);
    for (int i = 0; i < s->n_out; i++) other[i] = shuffle(p, dtype_of(p, s->out[i]), "down", r[i], by);
    combine(p, s, r, other, both);
    take_if(p, s, has, both, r);
  }
  ptx_line(p, "shl.b32 %s, %s, 1", by, by);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", more, by, n);
  ptx_line(p, "@%s bra %s", more, pairs);
}

static void put_all(struct printer *p, const struct kir_stmt *loop, const char *if_, const char *at) {
  int slot = 0;
  for FOLDS(s, loop)
    for (int i = 0; i < s->n_out; i++) put(p, dtype_of(p, s->out[i]), if_, at, slot++, ptx_val(p, s->out[i]));
}

static void get_all(struct printer *p, const struct kir_stmt *loop, const char *if_, const char *at) {
  int slot = 0;
  for FOLDS(s, loop) {
    ptx_start(p, s);
    for (int i = 0; i < s->n_out; i++) get(p, dtype_of(p, s->out[i]), if_, at, slot++, ptx_val(p, s->out[i]));
  }
}

static void broadcast(struct printer *p, const struct kir_stmt *loop) {
  for FOLDS(s, loop)
    for (int i = 0; i < s->n_out; i++) {
      weft_dtype d = dtype_of(p, s->out[i]);
      const char *r = ptx_val(p, s->out[i]);
      ptx_mov(p, d, r, shuffle(p, d, "idx", r, "0"));
    }
}

/* What the first n warps have found, in every thread. */
static void meet_warps(struct printer *p, const struct kir_stmt *loop, const struct thread *t, const char *n) {
  const char *is_first = ptx_own(p, OWN_PRED), *has_warp = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t->lane);
  put_all(p, loop, is_first, place(p, t->warp));
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "setp.lt.u32 %s, %s, %s", has_warp, t->lane, n);
  get_all(p, loop, has_warp, place(p, t->lane));
  fold_pairs(p, loop, t->lane, n);
  broadcast(p, loop);
  ptx_line(p, "bar.sync 0");
}

void ptx_meet(struct printer *p, const struct kir_stmt *loop) {
  if (!next_fold(loop->body.first) || p->why) return;
  struct thread t = thread(p);
  fold_warp(p, loop);
  meet_warps(p, loop, &t, t.n_warps);
}

/* ---- Blocks of lanes ---------------------------------------------------------------------------------------------------- */

/* A warp takes 2^shift blocks of 4096 elements, as few as the warps together need: they are a power of two. */
struct ptx_blocks ptx_blocks_open(struct printer *p, const struct kir_stmt *loop, const char *lo, const char *hi) {
  struct thread t = thread(p);
  struct ptx_blocks b = { .lane = t.lane, .warp = t.warp, .n_warps = t.n_warps, .n = ptx_own(p, OWN_WORD),
                          .shift = ptx_own(p, OWN_WORD), .at = ptx_own(p, OWN_WORD), .end = ptx_own(p, OWN_WORD),
                          .from = ptx_own(p, OWN_LONG), .to = ptx_own(p, OWN_LONG), .again = ptx_label(p, "block"),
                          .leave = ptx_label(p, "leave") };
  const char *n = ptx_own(p, OWN_LONG), *log = ptx_own(p, OWN_WORD), *over = ptx_own(p, OWN_PRED);
  ptx_line(p, "sub.s64 %s, %s, %s", n, hi, lo);
  ptx_line(p, "max.s64 %s, %s, 0", n, n);
  ptx_line(p, "add.s64 %s, %s, %d", n, n, KIR_ROW_BLOCK - 1);
  ptx_line(p, "shr.u64 %s, %s, 12", n, n);
  ptx_line(p, "cvt.u32.u64 %s, %s", b.n, n);
  ptx_line(p, "sub.u32 %s, %s, 1", b.shift, b.n);
  ptx_line(p, "bfind.u32 %s, %s", b.shift, b.shift); /* -1 of one block */
  ptx_line(p, "add.u32 %s, %s, 1", b.shift, b.shift);
  ptx_line(p, "bfind.u32 %s, %s", log, b.n_warps);
  ptx_line(p, "sub.s32 %s, %s, %s", b.shift, b.shift, log);
  ptx_line(p, "max.s32 %s, %s, 0", b.shift, b.shift);
  ptx_line(p, "shl.b32 %s, %s, %s", b.at, b.warp, b.shift);
  ptx_line(p, "shl.b32 %s, 1, %s", b.end, b.shift);
  ptx_line(p, "add.u32 %s, %s, %s", b.end, b.end, b.at);
  ptx_line(p, "min.u32 %s, %s, %s", b.end, b.end, b.n);
  for FOLDS(s, loop) {
    struct ptx_counter *c = counter_of(p, s);
    if (!fits(p, s)) return b;
    fresh(p, s, c->inside);
    ptx_line(p, "mov.u32 %s, 0", c->count = ptx_own(p, OWN_WORD));
    ptx_start(p, s);
  }
  ptx_place(p, b.again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", over, b.at, b.end);
  ptx_line(p, "@%s bra %s", over, b.leave);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", b.from, b.at, KIR_ROW_BLOCK);
  ptx_line(p, "add.s64 %s, %s, %s", b.from, b.from, lo);
  ptx_line(p, "add.s64 %s, %s, %d", b.to, b.from, KIR_ROW_BLOCK);
  ptx_line(p, "min.s64 %s, %s, %s", b.to, b.to, hi);
  for FOLDS(s, loop) ptx_start(p, s);
  return b;
}

static void from_lane(struct printer *p, const struct kir_stmt *s, const char *const of[], const char *lane, const char *to[]) {
  for (int i = 0; i < s->n_out; i++) to[i] = shuffle(p, dtype_of(p, s->out[i]), "idx", of[i], lane);
}

/* The value of a block, in lane 0, joins the counter of the warp, whose entry of rank k is in lane k. */
static void push_warp(struct printer *p, const struct kir_stmt *s, const char *lane) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *whole[PTX_TUPLE], *older[PTX_TUPLE], *k = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *put = ptx_label(p, "put");
  results(p, s, r);
  from_lane(p, s, r, "0", whole);
  copy(p, s, r, whole);
  ptx_line(p, "mov.u32 %s, 0", k);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u32 %s, %s, %s", bit, c->count, k);
  ptx_line(p, "and.b32 %s, %s, 1", bit, bit);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, bit);
  ptx_line(p, "@%s bra %s", is, put);
  from_lane(p, s, c->inside, k, older);
  combine(p, s, older, r, r);
  ptx_line(p, "add.u32 %s, %s, 1", k, k);
  ptx_line(p, "bra %s", again);
  ptx_place(p, put);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is, lane, k);
  take_if(p, s, is, r, c->inside);
  ptx_line(p, "add.u32 %s, %s, 1", c->count, c->count);
}

void ptx_blocks_close(struct printer *p, const struct kir_stmt *loop, const struct ptx_blocks *b) {
  if (next_fold(loop->body.first)) fold_warp(p, loop);
  for FOLDS(s, loop) push_warp(p, s, b->lane);
  ptx_line(p, "add.u32 %s, %s, 1", b->at, b->at);
  ptx_line(p, "bra %s", b->again);
  ptx_place(p, b->leave);
}

/* Lanes of a warp's counter, the lowest first: that of the newest entry. */
static void lowest(struct printer *p, const char *rest, const char *bit, const char *k) {
  ptx_line(p, "sub.u32 %s, 0, %s", bit, rest);
  ptx_line(p, "and.b32 %s, %s, %s", bit, bit, rest);
  ptx_line(p, "bfind.u32 %s, %s", k, bit);
  ptx_line(p, "xor.b32 %s, %s, %s", rest, rest, bit);
}

/* The results of a warp, from the newest entry of its counter to the oldest; the start value if there is none. */
static void total_warp(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD), *k = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *done = ptx_label(p, "total");
  results(p, s, r);
  ptx_start(p, s);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  lowest(p, rest, bit, k);
  from_lane(p, s, c->inside, k, older);
  copy(p, s, r, older);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  lowest(p, rest, bit, k);
  from_lane(p, s, c->inside, k, older);
  combine(p, s, older, r, r);
  ptx_line(p, "bra %s", again);
  ptx_place(p, done);
}

/* One warp has everything by itself. */
void ptx_blocks_meet(struct printer *p, const struct kir_stmt *loop, const struct ptx_blocks *b) {
  struct thread t = { .lane = b->lane, .warp = b->warp, .n_warps = b->n_warps };
  const char *n = ptx_own(p, OWN_WORD), *is_alone = ptx_own(p, OWN_PRED), *met = ptx_label(p, "met");
  if (!next_fold(loop->body.first) || p->why) return;
  for FOLDS(s, loop) total_warp(p, s);
  ptx_line(p, "setp.eq.u32 %s, %s, 1", is_alone, b->n_warps);
  ptx_line(p, "@%s bra %s", is_alone, met);
  ptx_line(p, "max.u32 %s, %s, 1", n, b->n);
  ptx_line(p, "sub.u32 %s, %s, 1", n, n);
  ptx_line(p, "shr.u32 %s, %s, %s", n, n, b->shift);
  ptx_line(p, "add.u32 %s, %s, 1", n, n);
  meet_warps(p, loop, &t, n);
  ptx_place(p, met);
}

/* ---- Values left in rows ---------------------------------------------------------------------------------------------------- */

/* The row that value i of a fold is left in: the one it is kept in, where it is. */
static int fold_row(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *fold, int i) {
  int slot = i;
  if (survey_keeps(loop, fold->in[i])) return ptx_kept_row(p, fold->in[i]);
  for FOLDS(s, loop) {
    if (s == fold) break;
    slot += s->n_out;
  }
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_FOLD && p->plan->rows[r].of == slot) return r;
  return -1;
}

static const char *row_element(struct printer *p, int row, const char *position) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, position, p->plan->rows[row].width, row);
  return at;
}

void ptx_deal_start(struct printer *p, const struct kir_stmt *loop) {
  for FOLDS(s, loop) {
    struct ptx_counter *c = counter_of(p, s);
    if (!fits(p, s)) return;
    fresh(p, s, c->inside);
    ptx_line(p, "mov.u32 %s, 0", c->count = ptx_own(p, OWN_WORD));
  }
}

void ptx_deal(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *position) {
  for (int i = 0; i < s->n_out && fits(p, s); i++) {
    weft_dtype d = dtype_of(p, s->in[i]);
    if (survey_keeps(loop, s->in[i])) continue;
    ptx_store(p, "", d, row_element(p, fold_row(p, loop, s, i), position), ptx_in_register(p, d, s->in[i]));
  }
}

struct dealt { const char *at[PTX_TUPLE]; int width[PTX_TUPLE]; }; /* where a lane reads, in each row */

/* acc = acc o what stands 32 `ahead` elements from there */
static void add_next(struct printer *p, const struct kir_stmt *s, const struct dealt *x, int ahead) {
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  results(p, s, r);
  fresh(p, s, v);
  for (int i = 0; i < s->n_out; i++)
    ptx_load(p, ptx_row_space(p), dtype_of(p, s->out[i]), v[i], ptx_textf(p, "%s+%d", x->at[i], 32 * ahead * x->width[i]));
  combine(p, s, r, v, r);
}

static void go_on(struct printer *p, const struct kir_stmt *s, const struct dealt *x, const char *left, int elements) {
  for (int i = 0; i < s->n_out; i++) ptx_line(p, "add.s64 %s, %s, %d", x->at[i], x->at[i], elements * x->width[i]);
  ptx_line(p, "sub.s32 %s, %s, %d", left, left, elements);
}

/* The n elements of the tile by one warp, lane l those of accumulator l. Kept rows begin with lo, others with the tile. */
static void add_tile(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *tile, const char *lo,
                     const char *lane, const char *n) {
  struct dealt x;
  const char *wide = ptx_own(p, OWN_LONG), *whole = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *many = ptx_label(p, "many"), *few = ptx_label(p, "few"), *done = ptx_label(p, "done");
  ptx_start(p, s);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, lane);
  ptx_line(p, "sub.s64 %s, %s, %s", whole, tile, lo);
  ptx_line(p, "add.s64 %s, %s, %s", whole, whole, wide);
  for (int i = 0; i < s->n_out; i++) {
    int row = fold_row(p, loop, s, i);
    x.width[i] = p->plan->rows[row].width;
    x.at[i] = row_element(p, row, p->plan->rows[row].kind == PTX_KEEP ? whole : wide);
  }
  ptx_line(p, "sub.s32 %s, %s, %s", left, n, lane); /* of this lane: while more than 0, in steps of 32 */
  ptx_place(p, many);
  ptx_line(p, "setp.le.s32 %s, %s, %d", is, left, 32 * 7);
  ptx_line(p, "@%s bra %s", is, few);
  for (int k = 0; k < 8; k++) add_next(p, s, &x, k);
  go_on(p, s, &x, left, 256);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.le.s32 %s, %s, 0", is, left);
  ptx_line(p, "@%s bra %s", is, done);
  add_next(p, s, &x, 0);
  go_on(p, s, &x, left, 32);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
}

/* Lane 0 ends up with the tree of the accumulators. */
static void fold_tree(struct printer *p, const struct kir_stmt *s) {
  const char *r[PTX_TUPLE], *other[PTX_TUPLE];
  results(p, s, r);
  for (int by = 16; by; by /= 2) {
    for (int i = 0; i < s->n_out; i++) other[i] = shuffle(p, dtype_of(p, s->out[i]), "down", r[i], ptx_textf(p, "%d", by));
    combine(p, s, r, other, r);
  }
}

/* Fold i is one warp's, counted round from another one in each block of threads: a processor has four parts, to which warps are
 * dealt by number, and blocks that are some 128 apart share one. */
static const char *unless_owner(struct printer *p, const struct thread *t, int i) {
  const char *owner = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED), *skip = ptx_label(p, "others"), *far = ptx_own(p, OWN_WORD);
  const char *last = ptx_own(p, OWN_WORD);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", owner);
  ptx_line(p, "shr.u32 %s, %s, 7", far, owner);
  ptx_line(p, "add.u32 %s, %s, %s", owner, owner, far);
  if (i) ptx_line(p, "add.u32 %s, %s, %d", owner, owner, i);
  ptx_line(p, "sub.u32 %s, %s, 1", last, t->n_warps);
  ptx_line(p, "and.b32 %s, %s, %s", owner, owner, last);
  ptx_line(p, "setp.ne.u32 %s, %s, %s", is, owner, t->warp);
  ptx_line(p, "@%s bra %s", is, skip);
  return skip;
}

void ptx_deal_add(struct printer *p, const struct kir_stmt *loop, const char *tile, const char *lo, const char *n) {
  struct thread t = thread(p);
  int i = 0;
  for FOLDS(s, loop) {
    if (!fits(p, s)) return;
    const char *skip = unless_owner(p, &t, i++);
    add_tile(p, loop, s, tile, lo, t.lane, n);
    fold_tree(p, s);
    push_warp(p, s, t.lane);
    ptx_place(p, skip);
  }
}

void ptx_add_kept(struct printer *p, const struct kir_stmt *loop, const char *lo, const char *hi) {
  struct ptx_blocks b = ptx_blocks_open(p, loop, lo, hi);
  const char *n = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_WORD);
  ptx_line(p, "sub.s64 %s, %s, %s", n, b.to, b.from);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  for FOLDS(s, loop) add_tile(p, loop, s, b.from, lo, b.lane, few);
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}

void ptx_deal_end(struct printer *p, const struct kir_stmt *loop) {
  struct thread t = thread(p);
  const char *first = place(p, "0"), *is_first = ptx_own(p, OWN_PRED);
  int i = 0, slot = 0;
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t.lane);
  for FOLDS(s, loop) {
    if (!fits(p, s)) return;
    const char *skip = unless_owner(p, &t, i++);
    total_warp(p, s);
    for (int k = 0; k < s->n_out; k++) put(p, dtype_of(p, s->out[k]), is_first, first, slot + k, ptx_val(p, s->out[k]));
    ptx_place(p, skip);
    slot += s->n_out;
  }
  ptx_line(p, "bar.sync 0");
  get_all(p, loop, NULL, first);
  ptx_line(p, "bar.sync 0");
}

enum { VALUES = 16, MOST_VALUES = 32 }; /* of a lane at a time */

/* acc = acc o value, n values of a lane at a time, as long as there are as many */
static void add_together(struct printer *p, const struct kir_stmt *s, const char *at, const char *odd, const char *left, int n) {
  weft_dtype d = dtype_of(p, s->out[0]);
  int width = kir_width(d);
  const char *v[MOST_VALUES], *r[PTX_TUPLE], *is = ptx_own(p, OWN_PRED), *many = ptx_label(p, "many"), *few = ptx_label(p, "few");
  results(p, s, r);
  for (int i = 0; i < n; i++) v[i] = ptx_own_of(p, d);
  ptx_place(p, many);
  ptx_line(p, "setp.le.s32 %s, %s, %d", is, left, 32 * (n - 1));
  ptx_line(p, "@%s bra %s", is, few);
  for (int i = 0; i < n; i++) ptx_load(p, ".shared", d, v[i], ptx_textf(p, "%s+%d", i % 2 ? odd : at, 32 * i * width));
  for (int i = 0; i < n; i++) combine(p, s, r, &v[i], r);
  ptx_line(p, "add.s64 %s, %s, %d", at, at, 32 * n * width);
  if (odd != at) ptx_line(p, "add.s64 %s, %s, %d", odd, odd, 32 * n * width);
  ptx_line(p, "sub.s32 %s, %s, %d", left, left, 32 * n);
  ptx_line(p, "bra %s", many);
  ptx_place(p, few);
}

/* The same, and then one by one; `left` of them, in steps of 32, every other one at `odd`. Where rows are streamed nobody else
 * computes meanwhile, and there are registers for more. */
static void add_values(struct printer *p, const struct kir_stmt *s, const char *at, const char *odd, const char *left) {
  weft_dtype d = dtype_of(p, s->out[0]);
  int width = kir_width(d);
  const char *v[1] = { ptx_own_of(p, d) }, *r[PTX_TUPLE], *is = ptx_own(p, OWN_PRED), *few = ptx_label(p, "one"),
             *done = ptx_label(p, "done"), *next = ptx_own(p, OWN_LONG);
  results(p, s, r);
  if (p->stream.n) add_together(p, s, at, odd, left, MOST_VALUES);
  add_together(p, s, at, odd, left, VALUES);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.le.s32 %s, %s, 0", is, left);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_load(p, ".shared", d, v[0], at);
  combine(p, s, r, v, r);
  ptx_line(p, "add.s64 %s, %s, %d", next, odd, 32 * width);
  if (odd != at) ptx_line(p, "add.s64 %s, %s, %d", odd, at, 32 * width);
  ptx_line(p, "mov.s64 %s, %s", at, next);
  ptx_line(p, "sub.s32 %s, %s, 32", left, left);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
}

/* at + what a lane reads elsewhere in 128 bytes whose pieces are crossed: the lane four away */
static const char *crossed(struct printer *p, const struct thread *t, const char *at, int width) {
  const char *bit = ptx_own(p, OWN_WORD), *by = ptx_own(p, OWN_LONG), *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "and.b32 %s, %s, 4", bit, t->lane);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", by, bit, 2 * width);
  ptx_line(p, "sub.s64 %s, %s, %s", r, at, by);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, 4 * width);
  return r;
}

/* The values of fold i, one value each, begin at folds + fold_bytes i n. What is found goes to a place of its own, behind those of
 * the eight warps that a block has here: it is written anew only behind another barrier, and ptx_meet does not touch it. */
void ptx_add_left(struct printer *p, const struct kir_stmt *loop, const char *n) {
  struct thread t = thread(p);
  const char *first = place(p, "16"), *is_first = ptx_own(p, OWN_PRED), *few = ptx_own(p, OWN_WORD);
  int i = 0;
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t.lane);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  ptx_line(p, "bar.sync 0");
  for FOLDS(s, loop) {
    weft_dtype d = dtype_of(p, s->out[0]);
    const char *skip = unless_owner(p, &t, i), *at = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD);
    ptx_line(p, "mov.u64 %s, folds", at);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * i, at);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, t.lane, kir_width(d), at);
    ptx_line(p, "sub.s32 %s, %s, %s", left, few, t.lane);
    ptx_start(p, s);
    add_values(p, s, at, ptx_is_crossed(p, kir_width(d)) ? crossed(p, &t, at, kir_width(d)) : at, left);
    fold_tree(p, s);
    put(p, d, is_first, first, i, ptx_val(p, s->out[0]));
    ptx_place(p, skip);
    i++;
  }
  ptx_line(p, "bar.sync 0");
  get_all(p, loop, NULL, first);
}

void ptx_add_left_blocks(struct printer *p, const struct kir_stmt *loop, const char *from, const char *n) {
  ptx_line(p, "bar.sync 0");
  struct ptx_blocks b = ptx_blocks_open(p, loop, "0", n);
  struct thread t = { .lane = b.lane };
  const char *first = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_LONG);
  int i = 0;
  ptx_line(p, "cvt.u64.u32 %s, %s", first, b.lane);
  ptx_line(p, "add.s64 %s, %s, %s", first, first, b.from);
  ptx_line(p, "sub.s64 %s, %s, %s", few, b.to, first);
  for FOLDS(s, loop) {
    int width = kir_width(dtype_of(p, s->out[0]));
    const char *at = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * i++, from);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, first, width, at);
    ptx_line(p, "cvt.u32.u64 %s, %s", left, few);
    add_values(p, s, at, ptx_is_crossed(p, width) ? crossed(p, &t, at, width) : at, left);
  }
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}

/* ---- Prefixes over lanes ------------------------------------------------------------------------------------------------ */

void ptx_scan_start(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && fits(p, s); i++) {
    weft_dtype d = dtype_of(p, s->out[i]);
    ptx_mov(p, d, p->carry[s->out[0]][i] = ptx_own_of(p, d), start(p, s, i));
  }
  struct ptx_counter *c = counter_of(p, s);
  if (!ptx_is_ordered(p->k, s) || !fits(p, s)) return;
  fresh(p, s, c->inside);
  fresh(p, s, c->before);
  c->has = ptx_own(p, OWN_PRED);
}

void ptx_scan_end(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && fits(p, s); i++)
    ptx_mov(p, dtype_of(p, s->out[i]), ptx_val(p, s->out[i]), p->carry[s->out[0]][i]);
}

/* r[lane] = r[0] o .. o r[lane], in each warp: distances 1, 2, 4, 8, 16 */
static void scan_warp(struct printer *p, const struct kir_stmt *s, const char *lane, const char *const r[]) {
  const char *by = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *has = ptx_own(p, OWN_PRED), *up = ptx_label(p, "up");
  const char *before[PTX_TUPLE], *sum[PTX_TUPLE];
  fresh(p, s, sum);
  ptx_line(p, "mov.u32 %s, 1", by);
  ptx_place(p, up);
  for (int i = 0; i < s->n_out; i++) before[i] = shuffle(p, dtype_of(p, s->out[i]), "up", r[i], by);
  combine(p, s, before, r, sum);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", has, lane, by);
  take_if(p, s, has, sum, r);
  ptx_line(p, "shl.b32 %s, %s, 1", by, by);
  ptx_line(p, "setp.lt.u32 %s, %s, 32", more, by);
  ptx_line(p, "@%s bra %s", more, up);
}

/* carry runs over the totals of all warps; on the way, offset becomes what comes before this one */
static void scan_warps(struct printer *p, const struct kir_stmt *s, const struct thread *t, const char *const carry[],
                       const char *const offset[]) {
  const char *i_warp = ptx_own(p, OWN_WORD), *is_mine = ptx_own(p, OWN_PRED), *more = ptx_own(p, OWN_PRED);
  const char *total[PTX_TUPLE], *next = ptx_label(p, "warps");
  fresh(p, s, total);
  ptx_line(p, "mov.u32 %s, 0", i_warp);
  ptx_place_loop(p, next);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is_mine, i_warp, t->warp);
  take_if(p, s, is_mine, carry, offset);
  const char *at = place(p, i_warp);
  for (int i = 0; i < s->n_out; i++) get(p, dtype_of(p, s->out[i]), NULL, at, i, total[i]);
  combine(p, s, carry, total, carry);
  ptx_line(p, "add.u32 %s, %s, 1", i_warp, i_warp);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", more, i_warp, t->n_warps);
  ptx_line(p, "@%s bra %s", more, next);
}

/* One warp and 32 elements from position on: in order inside a block, then what came before it. What lanes beyond the last element
 * have does not matter, as nothing follows them. */
static void scan_in_order(struct printer *p, const struct kir_stmt *s, const char *position, const char *n) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *next[PTX_TUPLE], *mine[PTX_TUPLE], *last[PTX_TUPLE];
  const char *is_first = ptx_own(p, OWN_PRED), *is = ptx_own(p, OWN_PRED), *lane = ptx_own(p, OWN_WORD), *k = ptx_own(p, OWN_WORD),
             *again = ptx_label(p, "element"), *within = ptx_label(p, "within"),
             *opened = ptx_label(p, "opened"), *alone = ptx_label(p, "alone");
  results(p, s, r);
  fresh(p, s, mine);
  ptx_line(p, "mov.u32 %s, %%laneid", lane);
  begins(p, position, is_first);
  from_lane(p, s, r, "0", next);
  ptx_line(p, "@!%s bra %s", is_first, within);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", c->has, position);
  copy(p, s, c->before, p->carry[s->out[0]]);
  copy(p, s, c->inside, next);
  ptx_line(p, "bra %s", opened);
  ptx_place(p, within);
  combine(p, s, c->inside, next, c->inside);
  ptx_place(p, opened);
  copy(p, s, mine, c->inside);
  if (s->op != KIR_CALL) {
    for (int l = 1; l < 32; l++) {
      from_lane(p, s, r, ptx_textf(p, "%d", l), next);
      combine(p, s, c->inside, next, c->inside);
      ptx_line(p, "setp.eq.u32 %s, %s, %d", is, lane, l);
      take_if(p, s, is, c->inside, mine);
    }
  } else {
    ptx_line(p, "mov.u32 %s, 1", k);
    ptx_place(p, again);
    from_lane(p, s, r, k, next);
    combine(p, s, c->inside, next, c->inside);
    ptx_line(p, "setp.eq.u32 %s, %s, %s", is, lane, k);
    take_if(p, s, is, c->inside, mine);
    ptx_line(p, "add.u32 %s, %s, 1", k, k);
    ptx_line(p, "setp.lt.u32 %s, %s, 32", is, k);
    ptx_line(p, "@%s bra %s", is, again);
  }
  copy(p, s, r, mine);
  ptx_line(p, "@!%s bra %s", c->has, alone);
  combine(p, s, c->before, mine, r);
  ptx_place(p, alone);
  ptx_line(p, "sub.u32 %s, %s, 1", k, n);
  from_lane(p, s, r, k, last);
  copy(p, s, p->carry[s->out[0]], last);
}

/* The results hold this lane's values, or the start value where no lane is; they become the running values. */
void ptx_scan(struct printer *p, const struct kir_stmt *s, const char *position, const char *n) {
  const char *r[PTX_TUPLE], *offset[PTX_TUPLE], *is_last = ptx_own(p, OWN_PRED);
  if (!fits(p, s)) return;
  if (ptx_is_ordered(p->k, s)) { scan_in_order(p, s, position, n); return; }
  struct thread t = thread(p);
  results(p, s, r);
  fresh(p, s, offset);
  scan_warp(p, s, t.lane, r);
  ptx_line(p, "setp.eq.u32 %s, %s, 31", is_last, t.lane);
  const char *at = place(p, t.warp);
  for (int i = 0; i < s->n_out; i++) put(p, dtype_of(p, s->out[i]), is_last, at, i, r[i]);
  ptx_line(p, "bar.sync 0");
  scan_warps(p, s, &t, p->carry[s->out[0]], offset);
  combine(p, s, offset, r, r);
  ptx_line(p, "bar.sync 0");
}

/* ---- Prefixes of a row in one thread ------------------------------------------------------------------------------------- */

/* before and inside are neutral at first: with that every element stands alone, and so does every block. */
void ptx_running_start(struct printer *p, const struct kir_stmt *s) {
  struct ptx_counter *c = counter_of(p, s);
  if (!fits(p, s)) return;
  fresh(p, s, c->inside);
  fresh(p, s, c->before);
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = dtype_of(p, s->out[i]);
    ptx_mov(p, d, p->carry[s->out[0]][i] = ptx_own_of(p, d), start(p, s, i));
  }
}

void ptx_running_block(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = counter_of(p, s);
  copy(p, s, c->before, p->carry[s->out[0]]);
  for (int i = 0; i < s->n_out; i++) ptx_mov(p, dtype_of(p, s->out[i]), c->inside[i], start(p, s, i));
}

void ptx_running_step(struct printer *p, const struct kir_stmt *s, bool is_last) {
  const struct ptx_counter *c = counter_of(p, s);
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  combine(p, s, c->inside, v, c->inside);
  combine(p, s, c->before, c->inside, r);
  if (is_last) copy(p, s, p->carry[s->out[0]], r);
}
