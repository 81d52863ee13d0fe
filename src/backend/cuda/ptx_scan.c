/* ptx_scan.c -- prefixes over lanes: all threads of a block have the elements of a tile, and each is given what comes before
 * its own.
 *
 * Where an order can be seen one warp goes through the tile, 32 elements at a time in blocks of 4096; else warps combine what
 * their lanes have, and then each other. */
#include "backend/cuda/ptx_reduce.h"

/* The 31 steps from lane to lane are written out, unless a kernel has more prefixes: 64 of them are 315 KB of text, for which ptxas
 * takes 0.8 s and finds no registers. Then they are a loop. */
enum { SPELLED = 4 };

void ptx_scan_start(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && reduce_fits(p, s); i++) {
    weft_dtype d = ptx_dtype(p, s->out[i]);
    ptx_mov(p, d, p->carry[s->out[0]][i] = ptx_own_of(p, d), reduce_start(p, s, i));
  }
  struct ptx_counter *c = reduce_counter_of(p, s);
  if (!ptx_is_ordered(p->k, s) || !reduce_fits(p, s)) return;
  reduce_fresh(p, s, c->inside);
  reduce_fresh(p, s, c->before);
  c->has = ptx_own(p, OWN_PRED);
}

void ptx_scan_end(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_out && reduce_fits(p, s); i++)
    ptx_mov(p, ptx_dtype(p, s->out[i]), ptx_val(p, s->out[i]), p->carry[s->out[0]][i]);
}

/* r[lane] = r[0] o .. o r[lane], in each warp: distances 1, 2, 4, 8, 16 */
static void scan_warp(struct printer *p, const struct kir_stmt *s, const char *lane, const char *const r[]) {
  const char *by = ptx_own(p, OWN_WORD), *more = ptx_own(p, OWN_PRED), *has = ptx_own(p, OWN_PRED), *up = ptx_label(p, "up");
  const char *before[PTX_TUPLE], *sum[PTX_TUPLE];
  reduce_fresh(p, s, sum);
  ptx_line(p, "mov.u32 %s, 1", by);
  ptx_place(p, up);
  for (int i = 0; i < s->n_out; i++) before[i] = reduce_shuffle(p, ptx_dtype(p, s->out[i]), "up", r[i], by);
  reduce_combine(p, s, before, r, sum);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", has, lane, by);
  reduce_take_if(p, s, has, sum, r);
  ptx_line(p, "shl.b32 %s, %s, 1", by, by);
  ptx_line(p, "setp.lt.u32 %s, %s, 32", more, by);
  ptx_line(p, "@%s bra %s", more, up);
}

/* carry runs over the totals of all warps; on the way, offset becomes what comes before this one */
static void scan_warps(struct printer *p, const struct kir_stmt *s, const struct ptx_thread *t, const char *const carry[],
                       const char *const offset[]) {
  const char *i_warp = ptx_own(p, OWN_WORD), *is_mine = ptx_own(p, OWN_PRED), *more = ptx_own(p, OWN_PRED);
  const char *total[PTX_TUPLE], *next = ptx_label(p, "warps");
  reduce_fresh(p, s, total);
  ptx_line(p, "mov.u32 %s, 0", i_warp);
  ptx_place_loop(p, next);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is_mine, i_warp, t->warp);
  reduce_take_if(p, s, is_mine, carry, offset);
  const char *at = reduce_place(p, i_warp);
  for (int i = 0; i < s->n_out; i++) reduce_get(p, ptx_dtype(p, s->out[i]), NULL, at, i, total[i]);
  reduce_combine(p, s, carry, total, carry);
  ptx_line(p, "add.u32 %s, %s, 1", i_warp, i_warp);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", more, i_warp, t->n_warps);
  ptx_line(p, "@%s bra %s", more, next);
}

/* One warp and 32 elements from position on: in order inside a block, then what came before it. What lanes beyond the last element
 * have does not matter, as nothing follows them. */
static void scan_in_order(struct printer *p, const struct kir_stmt *s, const char *position, const char *n) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *next[PTX_TUPLE], *mine[PTX_TUPLE], *last[PTX_TUPLE];
  const char *is_first = ptx_own(p, OWN_PRED), *is = ptx_own(p, OWN_PRED), *lane = ptx_own(p, OWN_WORD), *k = ptx_own(p, OWN_WORD),
             *again = ptx_label(p, "element"), *within = ptx_label(p, "within"),
             *opened = ptx_label(p, "opened"), *alone = ptx_label(p, "alone");
  reduce_results(p, s, r);
  reduce_fresh(p, s, mine);
  ptx_line(p, "mov.u32 %s, %%laneid", lane);
  reduce_begins(p, position, is_first);
  reduce_from_lane(p, s, r, "0", next);
  ptx_line(p, "@!%s bra %s", is_first, within);
  ptx_line(p, "setp.ne.s64 %s, %s, 0", c->has, position);
  reduce_copy(p, s, c->before, p->carry[s->out[0]]);
  reduce_copy(p, s, c->inside, next);
  ptx_line(p, "bra %s", opened);
  ptx_place(p, within);
  reduce_combine(p, s, c->inside, next, c->inside);
  ptx_place(p, opened);
  reduce_copy(p, s, mine, c->inside);
  if (s->op != KIR_CALL && p->survey.n_prefixes <= SPELLED) {
    for (int l = 1; l < 32; l++) {
      reduce_from_lane(p, s, r, ptx_textf(p, "%d", l), next);
      reduce_combine(p, s, c->inside, next, c->inside);
      ptx_line(p, "setp.eq.u32 %s, %s, %d", is, lane, l);
      reduce_take_if(p, s, is, c->inside, mine);
    }
  } else {
    ptx_line(p, "mov.u32 %s, 1", k);
    ptx_place_loop(p, again);
    reduce_from_lane(p, s, r, k, next);
    reduce_combine(p, s, c->inside, next, c->inside);
    ptx_line(p, "setp.eq.u32 %s, %s, %s", is, lane, k);
    reduce_take_if(p, s, is, c->inside, mine);
    ptx_line(p, "add.u32 %s, %s, 1", k, k);
    ptx_line(p, "setp.lt.u32 %s, %s, 32", is, k);
    ptx_line(p, "@%s bra %s", is, again);
  }
  reduce_copy(p, s, r, mine);
  ptx_line(p, "@!%s bra %s", c->has, alone);
  reduce_combine(p, s, c->before, mine, r);
  ptx_place(p, alone);
  ptx_line(p, "sub.u32 %s, %s, 1", k, n);
  reduce_from_lane(p, s, r, k, last);
  reduce_copy(p, s, p->carry[s->out[0]], last);
}

/* The results hold this lane's values, or the start value where no lane is; they become the running values. */
void ptx_scan(struct printer *p, const struct kir_stmt *s, const char *position, const char *n) {
  const char *r[PTX_TUPLE], *offset[PTX_TUPLE], *is_last = ptx_own(p, OWN_PRED);
  if (!reduce_fits(p, s)) return;
  if (ptx_is_ordered(p->k, s)) { scan_in_order(p, s, position, n); return; }
  struct ptx_thread t = reduce_thread(p);
  reduce_results(p, s, r);
  reduce_fresh(p, s, offset);
  scan_warp(p, s, t.lane, r);
  ptx_line(p, "setp.eq.u32 %s, %s, 31", is_last, t.lane);
  const char *at = reduce_place(p, t.warp);
  for (int i = 0; i < s->n_out; i++) reduce_put(p, ptx_dtype(p, s->out[i]), is_last, at, i, r[i]);
  ptx_line(p, "bar.sync 0");
  scan_warps(p, s, &t, p->carry[s->out[0]], offset);
  reduce_combine(p, s, offset, r, r);
  ptx_line(p, "bar.sync 0");
}
