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

static const struct kir_stmt *par_inside(const struct kir_stmt *par) {
  const struct kir_stmt *s = par->body.first;
  while (s->kind != KIR_PAR) s = s->next;
  return s;
}

/* over, rest = number / by, number % by; number goes. Bit by bit, as div.u64 is a call, for which a kernel takes registers. */
static void divide_slowly(struct printer *p, const char *number, const char *by, const char *over, const char *rest) {
  const char *bit = ptx_long(p), *left = ptx_word(p), *fits = ptx_pred(p), *more = ptx_pred(p), *again = ptx_label(p, "bit");
  ptx_line(p, "mov.u64 %s, 0", over);
  ptx_line(p, "mov.u64 %s, 0", rest);
  ptx_line(p, "mov.u32 %s, 64", left);
  ptx_place_loop(p, again);
  ptx_line(p, "shr.u64 %s, %s, 63", bit, number);
  ptx_line(p, "shl.b64 %s, %s, 1", number, number);
  ptx_line(p, "shl.b64 %s, %s, 1", rest, rest);
  ptx_line(p, "add.s64 %s, %s, %s", rest, rest, bit);
  ptx_line(p, "shl.b64 %s, %s, 1", over, over);
  ptx_line(p, "setp.ge.u64 %s, %s, %s", fits, rest, by);
  ptx_line(p, "@%s sub.s64 %s, %s, %s", fits, rest, rest, by);
  ptx_line(p, "@%s add.s64 %s, %s, 1", fits, over, over);
  ptx_line(p, "sub.s32 %s, %s, 1", left, left);
  ptx_line(p, "setp.ne.s32 %s, %s, 0", more, left);
  ptx_line(p, "@%s bra %s", more, again);
}

static void divide_words(struct printer *p, const char *number, const char *by, const char *over, const char *rest) {
  const char *a = ptx_word(p), *b = ptx_word(p), *q = ptx_word(p), *whole = ptx_word(p);
  ptx_line(p, "cvt.u32.u64 %s, %s", a, number);
  ptx_line(p, "cvt.u32.u64 %s, %s", b, by);
  ptx_line(p, "div.u32 %s, %s, %s", q, a, b);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", whole, q, b);
  ptx_line(p, "sub.s32 %s, %s, %s", a, a, whole);
  ptx_line(p, "cvt.u64.u32 %s, %s", over, q);
  ptx_line(p, "cvt.u64.u32 %s, %s", rest, a);
}

void ptx_take_place(struct printer *p, const struct kir_stmt *par, const char *number, const char *are_words) {
  const char *by = ptx_long(p), *over = ptx_long(p), *words = ptx_label(p, "words"), *divided = ptx_label(p, "divided");
  ptx_line(p, "mov.s64 %s, %s", by, ptx_lin(p, par->at[0]));
  ptx_line(p, "@%s bra %s", are_words, words);
  divide_slowly(p, number, by, over, ptx_val(p, par->var));
  ptx_line(p, "bra %s", divided);
  ptx_place(p, words);
  divide_words(p, number, by, over, ptx_val(p, par->var));
  ptx_place(p, divided);
  ptx_line(p, "mov.s64 %s, %s", number, over);
}

/* Loops inside each other by one number, whose place in the innermost comes first. */
static void pars_together(struct printer *p, const struct kir_stmt *s, struct where w) {
  const struct kir_stmt *par[PTX_NEST_PARS] = { s };
  int n = p->survey.n_together;
  const char *row = ptx_long(p), *number = ptx_long(p), *all = ptx_long(p), *over = ptx_pred(p), *are_words = ptx_pred(p);
  const char *again = ptx_label(p, "loop"), *next = ptx_label(p, "next"), *leave = ptx_label(p, "leave");
  ptx_line(p, "mov.s64 %s, %s", all, ptx_lin(p, s->at[0]));
  for (int i = 1; i < n; i++) {
    par[i] = par_inside(par[i - 1]);
    ptx_line(p, "mul.lo.s64 %s, %s, %s", all, all, ptx_lin(p, par[i]->at[0]));
  }
  p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "setp.lt.u64 %s, %s, 4294967296", are_words, all);
  ptx_line(p, "mov.s64 %s, $row", row);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, row, all);
  ptx_line(p, "@%s bra %s", over, leave);
  ptx_line(p, "mov.s64 %s, %s", number, row);
  for (int i = n - 1; i > 0; i--) ptx_take_place(p, par[i], number, are_words);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, s->var), number);
  w.rest = next, w.pars = 1;
  ptx_block(p, &s->body, w);
  ptx_place(p, next);
  ptx_line(p, "add.s64 %s, %s, $rows", row, row);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

void nest_par_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  if (w.pars < p->survey.n_together) {
    if (!w.pars) { pars_together(p, s, w); return; }
    w.pars++;
    ptx_block(p, &s->body, w);
    return;
  }
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
