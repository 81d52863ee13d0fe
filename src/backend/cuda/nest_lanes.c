/* nest_lanes.c -- lane loops: elements go to all threads of a block, to warps in blocks where a fold has an order, or to one warp
 * where there is a prefix.
 *
 * Threads meet at a barrier around a lane loop that touches what others have stored. */
#include "backend/cuda/ptx_nest.h"
#include <string.h>

static bool touches_shared(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (((s->kind == KIR_LOAD || s->kind == KIR_STORE) && nest_meets_others(p, s->buf)) || touches_shared(p, &s->body)) return true;
  return false;
}

static const struct kir_stmt *find_prefix(const struct kir_stmt *s) {
  while (s && s->kind != KIR_PREFIX) s = s->next;
  return s;
}

/* The statements from s up to a prefix, for lanes that take part; its values go into its results, which else are empty. */
static const struct kir_stmt *segment(struct printer *p, const struct kir_stmt *s, struct where w, bool is_first,
                                      const char *position, const char *n) {
  const struct kir_stmt *prefix = find_prefix(s);
  w.rest = ptx_label(p, "rest");
  if (prefix) ptx_start(p, prefix);
  ptx_line(p, "@!%s bra %s", w.active, w.rest);
  if (is_first) nest_load_kept(p, w.lane, w.lo);
  for (; s != prefix; s = s->next) nest_statement(p, s, w);
  for (int i = 0; prefix && i < prefix->n_out; i++)
    ptx_mov(p, ptx_dtype(p, prefix->in[i]), ptx_val(p, prefix->out[i]), ptx_val(p, prefix->in[i]));
  ptx_place(p, w.rest);
  if (!prefix) return NULL;
  ptx_scan(p, prefix, position, n);
  return prefix->next;
}

/* Lanes of a loop with prefixes: all threads go through each tile of them together. */
static void scan_tiles(struct printer *p, const struct kir_stmt *s, const char *from, const char *to, struct where w) {
  const char *tile = ptx_own(p, OWN_LONG), *over = ptx_own(p, OWN_PRED),
             *again = ptx_label(p, "tile"), *leave = ptx_label(p, "leave");
  w.active = ptx_own(p, OWN_PRED);
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mov.s64 %s, %s", tile, from);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, tile, to);
  ptx_line(p, "@%s bra %s", over, leave);
  ptx_line(p, "add.s64 %s, %s, $lane", ptx_val(p, s->var), tile);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", w.active, ptx_val(p, s->var), to);
  const char *position = ptx_own(p, OWN_LONG), *n = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_WORD);
  ptx_line(p, "sub.s64 %s, %s, %s", position, tile, w.lo);
  ptx_line(p, "sub.s64 %s, %s, %s", n, to, tile);
  ptx_line(p, "min.s64 %s, %s, 32", n, n);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  bool is_first = true;
  for (const struct kir_stmt *x = s->body.first; x; is_first = false) x = segment(p, x, w, is_first, position, few);
  ptx_line(p, "add.s64 %s, %s, $lanes", tile, tile);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* A fold in order beside the prefixes has a value for each block of 4096, as everywhere: there is one warp, which goes block by
 * block. */
static void scanned_loop(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  bool has_blocks = nest_has_ordered_fold(p, s);
  struct ptx_blocks b = { .from = r.lo, .to = r.hi };
  for (const struct kir_stmt *x = find_prefix(s->body.first); x; x = find_prefix(x->next)) ptx_scan_start(p, x);
  if (has_blocks) b = ptx_blocks_open(p, s, r.lo, r.hi);
  scan_tiles(p, s, b.from, b.to, w);
  if (has_blocks) ptx_blocks_close(p, s, &b), ptx_blocks_meet(p, s, &b);
  else ptx_meet(p, s);
  for (const struct kir_stmt *x = find_prefix(s->body.first); x; x = find_prefix(x->next)) ptx_scan_end(p, x);
}

/* for (var = from + lane; var < to; var += 32), in each block of the warp */
static void blocked_loop(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  struct ptx_blocks b = ptx_blocks_open(p, s, r.lo, r.hi);
  const char *own = ptx_own(p, OWN_LONG);
  ptx_line(p, "cvt.u64.u32 %s, %s", own, b.lane);
  ptx_line(p, "add.s64 %s, %s, %s", ptx_val(p, s->var), b.from, own);
  const char *by = nest_by_words(p, s, &b, own, w);
  nest_repeat(p, s, b.to, "32", w);
  if (by) ptx_blocks_turn(p, s, &b, by);
  ptx_blocks_close(p, s, &b);
  ptx_blocks_meet(p, s, &b);
  if (by) ptx_line(p, "bar.warp.sync -1"); /* words of a lane have elements that others may overwrite now */
}

/* 4096 elements at a time: all threads compute, then warps add up. */
static void dealt_loop(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  const char *tile = ptx_own(p, OWN_LONG), *end = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_LONG), *n = ptx_own(p, OWN_WORD),
             *over = ptx_own(p, OWN_PRED), *again = ptx_label(p, "tile"), *leave = ptx_label(p, "leave");
  p->uses_thread[PTX_LANES] = true;
  w.tile = tile;
  ptx_deal_start(p, s);
  ptx_line(p, "mov.s64 %s, %s", tile, r.lo);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, tile, r.hi);
  ptx_line(p, "@%s bra %s", over, leave);
  ptx_line(p, "add.s64 %s, %s, %d", end, tile, KIR_ROW_BLOCK);
  ptx_line(p, "min.s64 %s, %s, %s", end, end, r.hi);
  ptx_line(p, "add.s64 %s, %s, $lane", ptx_val(p, s->var), tile);
  nest_repeat(p, s, end, "$lanes", w);
  ptx_line(p, "sub.s64 %s, %s, %s", few, end, tile);
  ptx_line(p, "cvt.u32.u64 %s, %s", n, few);
  ptx_line(p, "bar.sync 0");
  ptx_deal_add(p, s, tile, r.lo, n);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.s64 %s, %s", tile, end);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  ptx_deal_end(p, s);
}

/* All that is folded is kept: the whole row is there before warps add up, each its blocks of it. */
static bool keeps_all_folded(const struct kir_stmt *loop) {
  for (const struct kir_stmt *x = loop->body.first; x; x = x->next)
    for (int i = 0; x->kind == KIR_FOLD && i < x->n_in; i++) if (!survey_keeps(loop, x->in[i])) return false;
  return true;
}

static void kept_loop(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  p->uses_thread[PTX_LANES] = true;
  w.tile = r.lo;
  ptx_line(p, "add.s64 %s, %s, $lane", ptx_val(p, s->var), r.lo);
  nest_repeat(p, s, r.hi, "$lanes", w);
  ptx_line(p, "bar.sync 0");
  ptx_add_kept(p, s, r.lo, r.hi);
}

/* A thread has one lane of it or none. */
static bool is_one_lane(struct printer *p, const struct kir_stmt *s, const char *end) {
  return p->held.is_straight && s->extent == KIR_N && !strcmp(end, ptx_lin(p, p->held.lane->at[0]));
}

/* Whether there is another step is known before the barrier, where the threads wait for each other anyway. */
static void one_lane(struct printer *p, const struct kir_stmt *s, struct where w) {
  const char *skip = ptx_label(p, "none");
  ptx_line(p, "@!%s bra %s", p->held.is, skip);
  nest_one_copy(p, s, "$lanes", w);
  ptx_place(p, skip);
  if (p->held.lane == s) ptx_step_held(p, p->held.more);
}

void nest_lane_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  struct ptx_range r = ptx_range_of(p, s);
  w.lane = s, w.lo = r.lo, w.serial = NULL;
  if (p->lane_loop) {
    p->lane_loop(p, s, r.hi, w);
    return;
  }
  if (p->survey.is_dealt ? nest_has_ordered_fold(p, s) : p->survey.is_ordered && !find_prefix(s->body.first)) {
    if (!p->survey.is_dealt) blocked_loop(p, s, r, w);
    else if (keeps_all_folded(s)) kept_loop(p, s, r, w);
    else dealt_loop(p, s, r, w);
    if (touches_shared(p, &s->body)) ptx_line(p, "bar.sync 0");
    return;
  }
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_FOLD) ptx_start(p, x);
  if (find_prefix(s->body.first)) {
    scanned_loop(p, s, r, w);
  } else {
    p->uses_thread[PTX_LANES] = true;
    ptx_line(p, "add.s64 %s, %s, $lane", ptx_val(p, s->var), r.lo);
    if (is_one_lane(p, s, r.hi)) one_lane(p, s, w);
    else nest_repeat(p, s, r.hi, "$lanes", w);
    ptx_meet(p, s);
  }
  if (touches_shared(p, &s->body)) ptx_line(p, "bar.sync 0");
}
