/* ptx_blocks.c -- a lane loop whose folds have an order: warps take blocks of 4096 elements, lane l those of accumulator l.
 * Folds without an order that go the same way have shorter blocks (survey.c).
 *
 * The blocks of a warp are an aligned power of two of them, so that they are a node of the tree of blocks. The warp counts
 * them, entry k of its counter in lane k; what the warps have found meets in shared memory, in every warp again in the same
 * order. */
#include "backend/cuda/ptx_reduce.h"

/* A warp takes 2^shift blocks, as few as the warps together need: they are a power of two. */
struct ptx_blocks ptx_blocks_open(struct printer *p, const struct kir_stmt *loop, const char *lo, const char *hi) {
  struct ptx_thread t = reduce_thread(p);
  struct ptx_blocks b = { .lane = t.lane, .warp = t.warp, .n_warps = t.n_warps, .n = ptx_own(p, OWN_WORD),
                          .shift = ptx_own(p, OWN_WORD), .at = ptx_own(p, OWN_WORD), .end = ptx_own(p, OWN_WORD),
                          .from = ptx_own(p, OWN_LONG), .to = ptx_own(p, OWN_LONG), .again = ptx_label(p, "block"),
                          .leave = ptx_label(p, "leave") };
  const char *n = ptx_own(p, OWN_LONG), *log = ptx_own(p, OWN_WORD), *over = ptx_own(p, OWN_PRED);
  ptx_line(p, "sub.s64 %s, %s, %s", n, hi, lo);
  ptx_line(p, "max.s64 %s, %s, 0", n, n);
  ptx_line(p, "add.s64 %s, %s, %d", n, n, p->survey.a_warp - 1);
  ptx_line(p, "shr.u64 %s, %s, %d", n, n, ptx_log_2(p->survey.a_warp));
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
    struct ptx_counter *c = reduce_counter_of(p, s);
    if (!reduce_fits(p, s)) return b;
    reduce_fresh(p, s, c->inside);
    ptx_line(p, "mov.u32 %s, 0", c->count = ptx_own(p, OWN_WORD));
    ptx_start(p, s);
  }
  ptx_place(p, b.again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", over, b.at, b.end);
  ptx_line(p, "@%s bra %s", over, b.leave);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", b.from, b.at, p->survey.a_warp);
  ptx_line(p, "add.s64 %s, %s, %s", b.from, b.from, lo);
  ptx_line(p, "add.s64 %s, %s, %d", b.to, b.from, p->survey.a_warp);
  ptx_line(p, "min.s64 %s, %s, %s", b.to, b.to, hi);
  for FOLDS(s, loop) ptx_start(p, s);
  return b;
}

void reduce_from_lane(struct printer *p, const struct kir_stmt *s, const char *const of[], const char *lane, const char *to[]) {
  for (int i = 0; i < s->n_out; i++) to[i] = reduce_shuffle(p, ptx_dtype(p, s->out[i]), "idx", of[i], lane);
}

/* The value of a block, in lane 0, joins the counter of the warp, whose entry of rank k is in lane k. */
void reduce_push_warp(struct printer *p, const struct kir_stmt *s, const char *lane) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *whole[PTX_TUPLE], *older[PTX_TUPLE], *k = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *put = ptx_label(p, "put");
  reduce_results(p, s, r);
  reduce_from_lane(p, s, r, "0", whole);
  reduce_copy(p, s, r, whole);
  ptx_line(p, "mov.u32 %s, 0", k);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u32 %s, %s, %s", bit, c->count, k);
  ptx_line(p, "and.b32 %s, %s, 1", bit, bit);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, bit);
  ptx_line(p, "@%s bra %s", is, put);
  reduce_from_lane(p, s, c->inside, k, older);
  reduce_combine(p, s, older, r, r);
  ptx_line(p, "add.u32 %s, %s, 1", k, k);
  ptx_line(p, "bra %s", again);
  ptx_place(p, put);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is, lane, k);
  reduce_take_if(p, s, is, r, c->inside);
  ptx_line(p, "add.u32 %s, %s, 1", c->count, c->count);
}

void ptx_blocks_turn(struct printer *p, const struct kir_stmt *loop, const struct ptx_blocks *b, const char *by) {
  const char *from = ptx_own(p, OWN_WORD);
  ptx_line(p, "add.u32 %s, %s, %s", from, b->lane, by);
  ptx_line(p, "and.b32 %s, %s, 31", from, from);
  for FOLDS(s, loop) {
    const char *r[PTX_TUPLE], *own[PTX_TUPLE];
    reduce_results(p, s, r);
    reduce_from_lane(p, s, r, from, own);
    reduce_copy(p, s, r, own);
  }
}

void ptx_blocks_close(struct printer *p, const struct kir_stmt *loop, const struct ptx_blocks *b) {
  if (reduce_next_fold(loop->body.first)) reduce_fold_warp(p, loop);
  for FOLDS(s, loop) reduce_push_warp(p, s, b->lane);
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
void reduce_total_warp(struct printer *p, const struct kir_stmt *s) {
  const struct ptx_counter *c = reduce_counter_of(p, s);
  const char *r[PTX_TUPLE], *older[PTX_TUPLE], *rest = ptx_own(p, OWN_WORD), *bit = ptx_own(p, OWN_WORD), *k = ptx_own(p, OWN_WORD),
             *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "rank"), *done = ptx_label(p, "total");
  reduce_results(p, s, r);
  ptx_start(p, s);
  ptx_line(p, "mov.u32 %s, %s", rest, c->count);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  lowest(p, rest, bit, k);
  reduce_from_lane(p, s, c->inside, k, older);
  reduce_copy(p, s, r, older);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, done);
  lowest(p, rest, bit, k);
  reduce_from_lane(p, s, c->inside, k, older);
  reduce_combine(p, s, older, r, r);
  ptx_line(p, "bra %s", again);
  ptx_place(p, done);
}

/* One warp has everything by itself. */
void ptx_blocks_meet(struct printer *p, const struct kir_stmt *loop, const struct ptx_blocks *b) {
  struct ptx_thread t = { .lane = b->lane, .warp = b->warp, .n_warps = b->n_warps };
  const char *n = ptx_own(p, OWN_WORD), *is_alone = ptx_own(p, OWN_PRED), *met = ptx_label(p, "met");
  if (!reduce_next_fold(loop->body.first) || p->why) return;
  for FOLDS(s, loop) reduce_total_warp(p, s);
  ptx_line(p, "setp.eq.u32 %s, %s, 1", is_alone, b->n_warps);
  ptx_line(p, "@%s bra %s", is_alone, met);
  ptx_line(p, "max.u32 %s, %s, 1", n, b->n);
  ptx_line(p, "sub.u32 %s, %s, 1", n, n);
  ptx_line(p, "shr.u32 %s, %s, %s", n, n, b->shift);
  ptx_line(p, "add.u32 %s, %s, 1", n, n);
  reduce_meet_warps(p, loop, &t, n);
  ptx_place(p, met);
}
