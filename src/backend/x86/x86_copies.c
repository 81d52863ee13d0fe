/* x86_copies.c -- how many copies of the body of a lane loop run side by side: enough to hide latencies, and no more than there are
 * registers for. */
#include "backend/x86/loops.h"

/* Vectors a copy of the lanes carries in the serial loops inside. */
static int count_carried(const struct gen *g, int id) {
  int most = 0;
  for (int i = id + 1; i < g->loops[id].end; i++) {
    int n = g->loops[i].n_folds;
    for (const struct kir_stmt *s = g->loops[i].stmt->body.first; s && s->kind == KIR_CARRY; s = s->next) n++;
    if (g->loops[i].has_inner) n += count_carried(g, i);
    if (n > most) most = n;
  }
  return most;
}

static bool has_across(const struct gen *g, int id) {
  for (int i = id; i < g->loops[id].end; i++)
    if (g->loops[i].n_across) return true;
  return false;
}

/* Registers that a copy of the lanes takes inside, carried and in between, roughly: what is computed and not yet read
 * for the last time. */
static int count_needed(const struct gen *g, int id) {
  int most = 0;
  for (int i = id + 1; i < g->loops[id].end; i++) {
    int live = count_live(g, &g->loops[i].stmt->body);
    if (live > most) most = live;
  }
  return count_carried(g, id) + most;
}

bool has_turns(const struct gen *g, int id) {
  for (int i = id; i < g->loops[id].end; i++)
    if (g->loops[i].has_turns) return true;
  return false;
}

/* So many statements that the machine cannot look ahead to the next body: there the copies alone hide how long each waits for
 * the one before. */
static bool is_long_chain(const struct gen *g, const struct gen_loop *l) {
  enum { LONG = 40 };
  return count_statements(&l->stmt->body) > LONG && 8 * count_live(g, &l->stmt->body) + FREE_WANTED <= g->n_vregs;
}

static int copies_for(const struct gen *g, int id) {
  const struct gen_loop *l = &g->loops[id];
  int per_fold = KIR_ROW_LANES / g->lanes, wanted = g->shape->unroll;
  if (has_across(g, id)) return 1;
  if (has_fn(l)) return wanted && wanted < per_fold ? 1 : per_fold; /* each copy has accumulators of its own */
  if (wanted) return wanted >= 8 ? 8 : wanted >= 4 ? 4 : wanted >= 2 ? 2 : 1;
  if (l->is_flat) return l->n_folds ? (per_fold > 4 ? per_fold : 4) : is_long_chain(g, l) ? 8 : 4;
  int needed = count_needed(g, id);
  if (!count_carried(g, id)) return 4;
  return 8 * needed <= g->n_vregs && l->is_outer ? 8 : 4 * needed <= g->n_vregs ? 4 : 2 * needed <= g->n_vregs ? 2 : 1;
}

int choose_copies(const struct gen *g, int id) {
  int n = copies_for(g, id);
  return n > TURN_COPIES && has_turns(g, id) ? TURN_COPIES : n;
}
