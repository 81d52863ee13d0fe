/* nest_serial.c -- serial loops: steps in order, what is loaded ahead of them (ptx_walk.c), blocks of folds that have an order, and
 * long loops that look now and then whether they are to end. */
#include "backend/cuda/ptx_nest.h"

/* Steps that are fetched ahead: memory answers after some 700 cycles, the caches after 270; a step of few statements takes 20 to
 * 40, one that only adds 5. */
enum { A_CHAIN = 6, DEPTH_OF_CHAIN = 48, FEW = 20, DEPTH_OF_FEW = 16, DEPTH = 8, DEPTH_OF_LONG = 4 };

enum { UNLOOKED = 512 }; /* steps between two looks: some 10 to 500 us */

/* All threads of a block see what one has seen, so that none waits at a barrier for others that have ended. */
static void look_together(struct printer *p, const char *word) {
  size_t at = p->plan->partial_bytes - PTX_STOP_BYTES;
  p->uses_first = true;
  ptx_line(p, "@$first ld.volatile.global.u64 %s, [$stop]", word);
  ptx_line(p, "@$first st.shared.u64 [partials+%zu], %s", at, word);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "ld.shared.u64 %s, [partials+%zu]", word, at);
  ptx_line(p, "bar.sync 0");
}

/* Before so many steps of a loop. */
void nest_look(struct printer *p, const struct kir_stmt *loop, int steps) {
  if (p->looking != loop) return;
  const char *on = ptx_label(p, "on"), *is = ptx_own(p, OWN_PRED), *word = ptx_own(p, OWN_LONG);
  p->uses_stop = true;
  ptx_line(p, "sub.s32 %s, %s, %d", p->unlooked, p->unlooked, steps);
  ptx_line(p, "setp.ge.s32 %s, %s, 0", is, p->unlooked);
  ptx_line(p, "@%s bra %s", is, on);
  ptx_line(p, "mov.b32 %s, %d", p->unlooked, UNLOOKED);
  ptx_line(p, "setp.eq.u64 %s, $stop, 0", is);
  ptx_line(p, "@%s bra %s", is, on);
  if (p->survey.is_cooperative) look_together(p, word);
  else ptx_line(p, "ld.volatile.global.u64 %s, [$stop]", word);
  if (p->plan->chain) word = ptx_shuffle(p, WEFT_I64, "idx", word, "0", "-1"); /* all lanes end, or none */
  ptx_line(p, "setp.eq.u64 %s, %s, $stop_number", is, word);
  ptx_line(p, "@%s ret", is);
  ptx_place(p, on);
}

static void begin_looking(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  if (w->serial || w->time || (w->lane && p->survey.is_cooperative) || !p->plan->has_stop || !survey_is_long(s)) return;
  p->looking = s;
  p->unlooked = ptx_own(p, OWN_WORD);
  ptx_line(p, "mov.b32 %s, 0", p->unlooked);
}

/* As long as there are twice as many steps to come as are fetched ahead. What is left over is loaded again by whoever takes the
 * rest. */
static void fetched_steps(struct printer *p, const struct kir_stmt *s, const char *end, struct ptx_walks *walks, struct where w) {
  const char *var = ptx_val(p, s->var), *ahead = ptx_own(p, OWN_LONG), *over = ptx_own(p, OWN_PRED);
  const char *many = ptx_label(p, "fetched"), *rest = ptx_label(p, "rest");
  ptx_line(p, "add.s64 %s, %s, %d", ahead, var, 2 * walks->depth);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", over, ahead, end);
  ptx_line(p, "@%s bra %s", over, rest);
  ptx_walks_part(p, walks, rest);
  ptx_walks_fetch(p, walks);
  ptx_place(p, many);
  nest_look(p, s, walks->depth);
  for (walks->turn = 0; walks->turn < walks->depth; walks->turn++) nest_one_copy(p, s, "1", w);
  walks->turn = -1;
  ptx_walks_settle(p, walks);
  ptx_line(p, "add.s64 %s, %s, %d", ahead, var, 2 * walks->depth);
  ptx_line(p, "setp.le.s64 %s, %s, %s", over, ahead, end);
  ptx_line(p, "@%s bra %s", over, many);
  ptx_place(p, rest);
}

/* Finds what of a step of time can be held in registers from step to step: what its first sum of products loads. */
static void hold(struct printer *p, const struct kir_stmt *time) {
  struct where inside = { .time = time };
  for (const struct kir_stmt *l = time->body.first; l; l = l->next)
    for (const struct kir_stmt *s = l->kind == KIR_LANE ? l->body.first : NULL; s; s = s->next)
      if (nest_is_sum_in_time(s, &inside)) { ptx_hold(p, time, l, s, NEST_UNROLLED_IN_TIME); return; }
}

/* All steps of time, where a thread has at most one lane and holds what it can: lanes are no loops then. Whether to end is looked
 * at between pieces of time, not in each step. Other launches go on with what is printed behind it. */
static void straight_steps(struct printer *p, const struct kir_stmt *s, const char *end, const char *done, struct where w) {
  const char *others = ptx_label(p, "others"), *piece = ptx_label(p, "piece"), *again = ptx_label(p, "straight"),
             *t = ptx_val(p, s->var), *over = ptx_own(p, OWN_PRED), *last = ptx_own(p, OWN_LONG);
  int n_checks = p->n_checks;
  ptx_line(p, "@!%s bra %s", p->held.all, others);
  p->held.is_straight = true, p->held.more = ptx_own(p, OWN_PRED), p->held.time = t, p->held.last = last;
  ptx_place_loop(p, piece);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, t, end);
  ptx_line(p, "@%s bra %s", over, done);
  ptx_fetch_held(p);
  nest_look(p, s, UNLOOKED + 1);
  ptx_line(p, "add.s64 %s, %s, %d", last, t, UNLOOKED);
  ptx_line(p, "min.s64 %s, %s, %s", last, last, end);
  ptx_place_loop(p, again);
  nest_one_copy(p, s, "1", w);
  if (p->walks && p->walks->loop == s) ptx_walks_settle(p, p->walks);
  ptx_line(p, "@%s bra %s", p->held.more, again);
  ptx_line(p, "bra %s", piece);
  ptx_place(p, others);
  p->held = (struct ptx_held){ .is_elsewhere = true };
  p->n_checks = n_checks;
}

static void steps(struct printer *p, const struct kir_stmt *s, const char *end, struct where w) {
  int n = nest_length(&s->body);
  int depth = n <= A_CHAIN ? DEPTH_OF_CHAIN : n <= FEW ? DEPTH_OF_FEW : n < NEST_SHORT ? DEPTH : DEPTH_OF_LONG;
  while (depth > 1 && depth * n > NEST_MOST_COPIED) depth /= 2;
  struct ptx_held around = p->held;
  const char *done = NULL;
  if (p->plan->chain == s) ptx_chain_steps(p, s, end, w, nest_look, nest_one_copy);
  if (w.time == s && p->survey.is_cooperative) hold(p, s);
  struct ptx_walks walks = ptx_walks_begin(p, s, depth, w.lane && !p->survey.is_cooperative);
  p->walks = &walks;
  if (walks.depth) fetched_steps(p, s, end, &walks, w);
  else if (w.time == s && p->held.lane) straight_steps(p, s, end, done = ptx_label(p, "done"), w);
  nest_repeat(p, s, end, "1", w);
  if (done) ptx_place(p, done);
  p->walks = walks.before, p->held = around;
}

bool nest_has_ordered_fold(struct printer *p, const struct kir_stmt *loop) {
  for (const struct kir_stmt *x = loop->body.first; x; x = x->next)
    if (x->kind == KIR_FOLD && ptx_is_ordered(p->k, x)) return true;
  return false;
}

/* Blocks of 128 steps; what the folds have of one joins their counters where the next begins. */
static void in_blocks(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  const char *var = ptx_val(p, s->var), *end = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "block"), *first = ptx_label(p, "first");
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, r.hi);
  ptx_line(p, "@%s bra %s", is, w.leave);
  ptx_line(p, "setp.eq.s64 %s, %s, %s", is, var, r.lo);
  ptx_line(p, "@%s bra %s", is, first);
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_FOLD) ptx_serial_block(p, x);
  ptx_place(p, first);
  ptx_line(p, "add.s64 %s, %s, %d", end, var, KIR_COLUMN_BLOCK);
  ptx_line(p, "min.s64 %s, %s, %s", end, end, r.hi);
  nest_repeat(p, s, end, "1", w);
  ptx_line(p, "bra %s", again);
}

void nest_serial_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) {
    if (x->kind == KIR_CARRY) ptx_mov(p, ptx_dtype(p, x->out[0]), ptx_val(p, x->out[0]), ptx_val(p, x->in[0]));
    if (x->kind == KIR_FOLD || x->kind == KIR_PREFIX) ptx_serial_start(p, x);
  }
  struct ptx_range r = ptx_range_of(p, s);
  begin_looking(p, s, &w);
  w.leave = ptx_label(p, "over"), w.active = NULL, w.serial = s, w.serial_lo = r.lo;
  if (!w.lane) w.time = s, w.time_end = r.hi;
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, s->var), r.lo);
  if (nest_has_ordered_fold(p, s)) in_blocks(p, s, r, w);
  else steps(p, s, r.hi, w);
  ptx_place(p, w.leave);
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_FOLD || x->kind == KIR_PREFIX) ptx_serial_end(p, x);
}
