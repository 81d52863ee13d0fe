/* nest_loop.c -- what any loop is made of: where it begins and ends, and which threads take its iterations; and par loops,
 * which are no more than that. */
#include "backend/cuda/ptx_nest.h"
#include <string.h>

static const char *thread_names[PTX_AXES] = { "lane", "row", "plane", "volume" };

static const char *block_length(struct printer *p, const struct kir_stmt *blocks) {
  return p->survey.may_reblock && blocks == p->survey.private_loop ? "$block" : ptx_lin(p, blocks->at[1]);
}

/* The text says how long a block is, and it is a power of two: which; else -1. A division takes a hundred instructions. */
static int rank_of(const struct printer *p, const struct kir_stmt *blocks) {
  struct kir_lin l = blocks->at[1];
  bool is_number = l.n == 1 && !l.term[0].n && l.term[0].coef > 0 && l.term[0].coef <= 1 << 30;
  if (!is_number || (p->survey.may_reblock && blocks == p->survey.private_loop)) return -1;
  int rank = ptx_log_2((int)l.term[0].coef);
  return 1 << rank == l.term[0].coef ? rank : -1;
}

const char *ptx_n_blocks(struct printer *p, const struct kir_stmt *s) {
  const char *b = ptx_own(p, OWN_LONG), *n = ptx_own(p, OWN_LONG);
  int rank = rank_of(p, s);
  if (rank >= 0) {
    ptx_line(p, "add.s64 %s, %s, %d", n, ptx_lin(p, s->at[0]), (1 << rank) - 1);
    ptx_line(p, "shr.s64 %s, %s, %d", n, n, rank);
    return n;
  }
  ptx_line(p, "max.s64 %s, %s, 1", b, block_length(p, s));
  ptx_line(p, "add.s64 %s, %s, %s", n, ptx_lin(p, s->at[0]), b);
  ptx_line(p, "sub.s64 %s, %s, 1", n, n);
  ptx_line(p, "div.s64 %s, %s, %s", n, n, b);
  return n;
}

struct ptx_range nest_block_range(struct printer *p, int q) {
  const struct kir_stmt *blocks = survey_blocks_of(p->k, q);
  const char *b = block_length(p, blocks), *lo = ptx_own(p, OWN_LONG), *hi = ptx_own(p, OWN_LONG);
  ptx_line(p, "mul.lo.s64 %s, %s, %s", lo, ptx_val(p, q), b);
  ptx_line(p, "add.s64 %s, %s, %s", hi, lo, b);
  ptx_line(p, "min.s64 %s, %s, %s", hi, hi, ptx_lin(p, blocks->at[0]));
  return (struct ptx_range){ lo, hi };
}

struct ptx_range ptx_range_of(struct printer *p, const struct kir_stmt *s) {
  if (s->extent == KIR_BLOCK) return nest_block_range(p, s->block_of);
  return (struct ptx_range){ "0", s->extent == KIR_BLOCKS ? ptx_n_blocks(p, s) : ptx_lin(p, s->at[0]) };
}

struct head { const char *next, *leave, *again, *step; };

/* for (var = lo + own; var < hi; var += step) */
static struct head open_loop(struct printer *p, const struct kir_stmt *s, struct ptx_range r, int axis) {
  struct head h = { ptx_label(p, "next"), ptx_label(p, "leave"), ptx_label(p, "loop"), "1" };
  const char *var = ptx_val(p, s->var), *over = ptx_own(p, OWN_PRED);
  if (axis >= 0) {
    p->uses_thread[axis] = true;
    h.step = ptx_textf(p, "$%ss", thread_names[axis]);
    if (!strcmp(r.lo, "0")) ptx_line(p, "mov.s64 %s, $%s", var, thread_names[axis]);
    else ptx_line(p, "add.s64 %s, %s, $%s", var, r.lo, thread_names[axis]);
  } else {
    ptx_line(p, "mov.s64 %s, %s", var, r.lo);
  }
  ptx_place_loop(p, h.again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, var, r.hi);
  ptx_line(p, "@%s bra %s", over, h.leave);
  return h;
}

static void close_loop(struct printer *p, const struct kir_stmt *s, struct head h) {
  const char *var = ptx_val(p, s->var);
  ptx_place(p, h.next);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, h.step);
  ptx_line(p, "bra %s", h.again);
  ptx_place(p, h.leave);
}

void nest_par_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  int depth = p->survey.is_cooperative ? 3 : 2;
  if (depth > p->survey.grid_depth) depth = p->survey.grid_depth;
  struct head h = open_loop(p, s, ptx_range_of(p, s), w.pars < depth ? PTX_ROWS + w.pars : -1);
  w.rest = h.next, w.pars++;
  if (p->survey.in_order && s == p->survey.private_loop) ptx_copy_of(p, s);
  ptx_block(p, &s->body, w);
  close_loop(p, s, h);
}

static bool has_lane(const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (s->kind == KIR_LANE || has_lane(&s->body)) return true;
  return false;
}

/* The loop over updates when nobody owns their targets: a row of the grid or a thread each. */
void nest_swept_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  bool in_rows = has_lane(&s->body);
  struct ptx_range r = ptx_range_of(p, s);
  struct head h = open_loop(p, s, r, in_rows ? PTX_ROWS : PTX_LANES);
  w.rest = h.next, w.lo = r.lo;
  if (!in_rows) w.lane = s;
  ptx_block(p, &s->body, w);
  close_loop(p, s, h);
}
