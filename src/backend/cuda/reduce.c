/* reduce.c -- folds and prefixes: in one thread, and over the threads of a block.
 *
 * A fold of a lane loop is accumulated by each thread over its lanes, then combined down each warp by shuffles; the
 * partial results of the warps meet in shared memory, and every warp combines them again, in the same order, so that all
 * threads hold the same bits and may branch on them. */
#include "backend/cuda/printer.h"

enum { SLOT = 32 * 8 }; /* bytes of `partials` for one value: a place a warp */

static weft_dtype dtype_of(struct printer *p, int v) { return (weft_dtype)p->k->vals[v].dtype; }
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

/* Lane 0 of each warp ends up with the fold of its warp. */
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

void ptx_meet(struct printer *p, const struct kir_stmt *loop) {
  if (!next_fold(loop->body.first) || p->why) return;
  struct thread t = thread(p);
  const char *is_first = ptx_own(p, OWN_PRED), *has_warp = ptx_own(p, OWN_PRED);
  fold_warp(p, loop);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t.lane);
  put_all(p, loop, is_first, place(p, t.warp));
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "setp.lt.u32 %s, %s, %s", has_warp, t.lane, t.n_warps);
  get_all(p, loop, has_warp, place(p, t.lane));
  fold_warp(p, loop);
  broadcast(p, loop);
  ptx_line(p, "bar.sync 0");
}

/* ---- Prefixes over lanes ------------------------------------------------------------------------------------------------ */

void ptx_scan_start(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && fits(p, s); i++) {
    weft_dtype d = dtype_of(p, s->out[i]);
    ptx_mov(p, d, p->carry[s->out[0]][i] = ptx_own_of(p, d), start(p, s, i));
  }
}

void ptx_scan_end(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && fits(p, s); i++)
    ptx_mov(p, dtype_of(p, s->out[i]), ptx_val(p, s->out[i]), p->carry[s->out[0]][i]);
}

static void fresh(struct printer *p, const struct kir_stmt *s, const char *r[PTX_TUPLE]) {
  for (int i = 0; i < s->n_out; i++) r[i] = ptx_own_of(p, dtype_of(p, s->out[i]));
}

/* to = if ? from : to */
static void take_if(struct printer *p, const struct kir_stmt *s, const char *if_,
                    const char *const from[], const char *const to[]) {
  for (int i = 0; i < s->n_out; i++)
    ptx_line(p, "@%s mov.%s %s, %s", if_, ptx_type(dtype_of(p, s->out[i])), to[i], from[i]);
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
  ptx_place(p, next);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is_mine, i_warp, t->warp);
  take_if(p, s, is_mine, carry, offset);
  const char *at = place(p, i_warp);
  for (int i = 0; i < s->n_out; i++) get(p, dtype_of(p, s->out[i]), NULL, at, i, total[i]);
  combine(p, s, carry, total, carry);
  ptx_line(p, "add.u32 %s, %s, 1", i_warp, i_warp);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", more, i_warp, t->n_warps);
  ptx_line(p, "@%s bra %s", more, next);
}

/* The results hold this lane's values, or the start value where no lane is; they become the running values. */
void ptx_scan(struct printer *p, const struct kir_stmt *s) {
  const char *r[PTX_TUPLE], *offset[PTX_TUPLE], *is_last = ptx_own(p, OWN_PRED);
  if (!fits(p, s)) return;
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
