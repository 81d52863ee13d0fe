/* ptx_reduce.c -- folds: how values combine, and how the threads of a block come to have one result. The head of ptx_reduce.h says
 * which file has which order. */
#include "backend/cuda/ptx_reduce.h"

enum { SLOT = 32 * 8 }; /* bytes of `partials` for one value: a place a warp */

/* Integers, min and max are the same in any order; sums and products of floats and what a fn does are not. */
bool ptx_is_ordered(const struct kir_kernel *k, const struct kir_stmt *s) {
  return s->op == KIR_CALL || ((s->op == KIR_ADD || s->op == KIR_MUL) && kir_is_float((weft_dtype)k->vals[s->out[0]].dtype));
}

void ptx_inline(struct printer *p, int fn, const char *const in[], const char *const out[]) {
  const struct kir_fn *f = &p->k->fns[fn];
  for (int i = 0; i < f->n_param; i++) ptx_mov(p, ptx_dtype(p, f->param[i]), ptx_val(p, f->param[i]), in[i]);
  ptx_block(p, &f->body, (struct where){ 0 });
  for (int i = 0; i < f->n_result; i++) ptx_mov(p, ptx_dtype(p, f->result[i]), out[i], ptx_val(p, f->result[i]));
}

/* out = a o b, all of them registers of the fold's dtypes */
void reduce_combine(struct printer *p, const struct kir_stmt *s, const char *const a[], const char *const b[],
                    const char *const out[]) {
  const char *in[2 * PTX_TUPLE];
  for (int i = 0; i < s->n_out; i++) in[i] = a[i], in[s->n_out + i] = b[i];
  if (s->op == KIR_CALL) ptx_inline(p, s->fn, in, out);
  else ptx_instruction(p, (enum kir_op)s->op, ptx_dtype(p, s->out[0]), out[0], in);
}

bool reduce_fits(struct printer *p, const struct kir_stmt *s) {
  if (s->n_out > PTX_TUPLE) ptx_refuse(p, "a fold of too many values");
  return s->n_out <= PTX_TUPLE;
}

void reduce_results(struct printer *p, const struct kir_stmt *s, const char *r[PTX_TUPLE]) {
  for (int i = 0; i < s->n_out; i++) r[i] = ptx_val(p, s->out[i]);
}

const char *reduce_start(struct printer *p, const struct kir_stmt *s, int i) {
  weft_dtype d = ptx_dtype(p, s->out[i]);
  if (s->n_from) return ptx_val(p, s->from[i]);
  enum kir_op op = (enum kir_op)s->op;
  uint64_t bits = s->kind == KIR_PREFIX ? kir_neutral(op, d) : kir_empty(op, d);
  if (d != WEFT_BOOL) return ptx_number(p, d, bits);
  p->uses_bool[bits != 0] = true;
  return bits ? "$true" : "$false";
}

void ptx_start(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && reduce_fits(p, s); i++)
    ptx_mov(p, ptx_dtype(p, s->out[i]), ptx_val(p, s->out[i]), reduce_start(p, s, i));
}

void ptx_accumulate(struct printer *p, const struct kir_stmt *s) {
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  if (!reduce_fits(p, s)) return;
  reduce_results(p, s, r);
  for (int i = 0; i < s->n_out; i++) v[i] = ptx_val(p, s->in[i]);
  reduce_combine(p, s, r, v, r);
}

void reduce_fresh(struct printer *p, const struct kir_stmt *s, const char *r[PTX_TUPLE]) {
  for (int i = 0; i < s->n_out; i++) r[i] = ptx_own_of(p, ptx_dtype(p, s->out[i]));
}

void reduce_copy(struct printer *p, const struct kir_stmt *s, const char *const to[], const char *const from[]) {
  for (int i = 0; i < s->n_out; i++) ptx_mov(p, ptx_dtype(p, s->out[i]), to[i], from[i]);
}

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

const char *reduce_shuffle(struct printer *p, weft_dtype d, const char *how, const char *src, const char *by) {
  return ptx_shuffle(p, d, how, src, by, "-1");
}

struct ptx_thread reduce_thread(struct printer *p) {
  struct ptx_thread t = { ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD), ptx_own(p, OWN_LONG) };
  ptx_line(p, "mov.u32 %s, %%tid.x", t.lane);
  ptx_line(p, "shr.u32 %s, %s, 5", t.warp, t.lane);
  ptx_line(p, "and.b32 %s, %s, 31", t.lane, t.lane);
  ptx_line(p, "mov.u32 %s, %%ntid.x", t.n_warps);
  ptx_line(p, "shr.u32 %s, %s, 5", t.n_warps, t.n_warps);
  return t;
}

const char *reduce_place(struct printer *p, const char *at) {
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, partials", r);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", r, at, r);
  return r;
}

static const char *guard(struct printer *p, const char *if_) { return if_ ? ptx_textf(p, "@%s ", if_) : ""; }

void reduce_put(struct printer *p, weft_dtype d, const char *if_, const char *at, int slot, const char *src) {
  const char *w = src;
  if (d == WEFT_BOOL) ptx_line(p, "selp.u32 %s, 1, 0, %s", w = ptx_own(p, OWN_WORD), src);
  ptx_line(p, "%sst.shared.%s [%s+%d], %s", guard(p, if_), d == WEFT_BOOL ? "u32" : ptx_type(d), at, slot * SLOT, w);
}

void reduce_get(struct printer *p, weft_dtype d, const char *if_, const char *at, int slot, const char *dst) {
  const char *w = dst;
  if (d == WEFT_BOOL) w = ptx_own(p, OWN_WORD);
  if (d == WEFT_BOOL && if_) ptx_line(p, "selp.u32 %s, 1, 0, %s", w, dst);
  ptx_line(p, "%sld.shared.%s %s, [%s+%d]", guard(p, if_), d == WEFT_BOOL ? "u32" : ptx_type(d), w, at, slot * SLOT);
  if (d == WEFT_BOOL) ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, w);
}

const struct kir_stmt *reduce_next_fold(const struct kir_stmt *s) {
  while (s && s->kind != KIR_FOLD) s = s->next;
  return s;
}

bool ptx_has_fold(const struct kir_stmt *loop) { return reduce_next_fold(loop->body.first); }

/* to = if ? from : to */
void reduce_take_if(struct printer *p, const struct kir_stmt *s, const char *if_,
                    const char *const from[], const char *const to[]) {
  for (int i = 0; i < s->n_out; i++)
    ptx_line(p, "@%s mov.%s %s, %s", if_, ptx_type(ptx_dtype(p, s->out[i])), to[i], from[i]);
}

/* Lane 0 of each warp ends up with the fold of its warp, as the tree of the accumulators says. */
void reduce_fold_warp(struct printer *p, const struct kir_stmt *loop) {
  const char *by = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *down = ptx_label(p, "down");
  ptx_line(p, "mov.u32 %s, 16", by);
  ptx_place(p, down);
  for FOLDS(s, loop) {
    const char *r[PTX_TUPLE], *other[PTX_TUPLE];
    reduce_results(p, s, r);
    for (int i = 0; i < s->n_out; i++) other[i] = reduce_shuffle(p, ptx_dtype(p, s->out[i]), "down", r[i], by);
    reduce_combine(p, s, r, other, r);
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
    reduce_results(p, s, r);
    reduce_fresh(p, s, both);
    for (int i = 0; i < s->n_out; i++) other[i] = reduce_shuffle(p, ptx_dtype(p, s->out[i]), "down", r[i], by);
    reduce_combine(p, s, r, other, both);
    reduce_take_if(p, s, has, both, r);
  }
  ptx_line(p, "shl.b32 %s, %s, 1", by, by);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", more, by, n);
  ptx_line(p, "@%s bra %s", more, pairs);
}

static void put_all(struct printer *p, const struct kir_stmt *loop, const char *if_, const char *at) {
  int slot = 0;
  for FOLDS(s, loop)
    for (int i = 0; i < s->n_out; i++) reduce_put(p, ptx_dtype(p, s->out[i]), if_, at, slot++, ptx_val(p, s->out[i]));
}

void reduce_get_all(struct printer *p, const struct kir_stmt *loop, const char *if_, const char *at) {
  int slot = 0;
  for FOLDS(s, loop) {
    ptx_start(p, s);
    for (int i = 0; i < s->n_out; i++) reduce_get(p, ptx_dtype(p, s->out[i]), if_, at, slot++, ptx_val(p, s->out[i]));
  }
}

static void broadcast(struct printer *p, const struct kir_stmt *loop) {
  for FOLDS(s, loop)
    for (int i = 0; i < s->n_out; i++) {
      weft_dtype d = ptx_dtype(p, s->out[i]);
      const char *r = ptx_val(p, s->out[i]);
      ptx_mov(p, d, r, reduce_shuffle(p, d, "idx", r, "0"));
    }
}

/* What the first n warps have found, in every thread. */
void reduce_meet_warps(struct printer *p, const struct kir_stmt *loop, const struct ptx_thread *t, const char *n) {
  const char *is_first = ptx_own(p, OWN_PRED), *has_warp = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t->lane);
  put_all(p, loop, is_first, reduce_place(p, t->warp));
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "setp.lt.u32 %s, %s, %s", has_warp, t->lane, n);
  reduce_get_all(p, loop, has_warp, reduce_place(p, t->lane));
  fold_pairs(p, loop, t->lane, n);
  broadcast(p, loop);
  ptx_line(p, "bar.sync 0");
}

void ptx_meet(struct printer *p, const struct kir_stmt *loop) {
  if (!reduce_next_fold(loop->body.first) || p->why) return;
  struct ptx_thread t = reduce_thread(p);
  reduce_fold_warp(p, loop);
  reduce_meet_warps(p, loop, &t, t.n_warps);
}
