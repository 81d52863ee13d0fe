/* gpu_spread.c -- lane loops whose elements need nothing of each other: a thread loads 16 bytes of each array along the lane,
 * computes element by element, and stores 16.
 *
 * Elements at the end that are too few for that go one by one, and so do those of which one fails a check: nothing is stored before
 * a check. Rows that are not aligned, but all alike, as those of one odd length, have an entry of their own, in which the first
 * thread of a row begins before it, by so many elements that all others are aligned, and takes one by one those that are there. */
#include "backend/cuda/gpu_wide.h"

/* Blocks of threads that are to find room on a processor, of kernels with quotients: arithmetic hides loads only if there are
 * others to compute meanwhile, and the linker's compiler takes as many registers as it likes unless it is told (GELU in bf16:
 * 85, and 48 so). Where the body is longer than so many statements registers are better left to it. */
enum { QUOTIENT_BLOCKS = 5, MOST_OF_QUOTIENTS = 400 };
/* The same of kernels with columns, so that as many loads are under way as ptx_columns asks for. */
enum { COLUMN_BLOCKS = 3 };

/* Neighbours of which one fails a check, and those at the end that are too few, go one by one, from `var` to `stop`. */
static void one_by_one(struct printer *p, const struct kir_stmt *loop, const char *stop, struct where w) {
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED);
  const char *again = ptx_label(p, "tail"), *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, stop);
  ptx_line(p, "@%s bra %s", is, leave);
  w.rest = ptx_label(p, "next");
  ptx_block(p, &loop->body, w);
  ptx_place(p, w.rest);
  ptx_line(p, "add.s64 %s, %s, 1", var, var);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* The neighbours that come next on this processor are brought to its cache while these are computed: those of the block of threads
 * that is as many blocks away as processors have room for (GELU of 64M bf16 on an H200: 0.112 ms, 0.128 without). */
static void fetch_ahead(struct printer *p, const struct kir_stmt *loop, const char *end, const char *n) {
  const char *away = ptx_own(p, OWN_WORD), *threads = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *ahead = ptx_own(p, OWN_LONG), *last = ptx_own(p, OWN_LONG), *var = ptx_val(p, loop->var);
  ptx_line(p, "mov.u32 %s, %%nsmid", away);
  ptx_line(p, "mov.u32 %s, %%ntid.x", threads);
  ptx_line(p, "mul.lo.u32 %s, %s, %s", away, away, threads);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", ahead, away, p->blocks * p->each);
  ptx_line(p, "add.s64 %s, %s, %s", last, end, ahead);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, var, ahead);
  ptx_line(p, "setp.le.s64 %s, %s, %s", is, last, n);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (!ptx_is_early(p, s, loop)) continue;
    p->reg[loop->var] = ahead;
    const char *at = ptx_address(p, s->buf, s->at);
    p->reg[loop->var] = var;
    ptx_line(p, "@%s prefetch.global.L2 [%s]", is, at);
  }
}

/* Two groups of neighbours, a step apart, as long as both are there: what they load is asked for together. */
static void two_groups(struct printer *p, const struct kir_stmt *loop, const char *n, const char *step, struct where w) {
  int each = p->each;
  const char *var = ptx_val(p, loop->var), *other = p->wide[each][loop->var], *end = ptx_own(p, OWN_LONG);
  const char *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "two"), *leave = ptx_label(p, "leave");
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %s", other, var, step);
  ptx_line(p, "add.s64 %s, %s, %d", end, other, each);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", is, end, n);
  ptx_line(p, "@%s bra %s", is, leave);
  w.rest = leave; /* where a check fails, as nothing is stored yet: one group after the other */
  for (int e = 0; e < 2 * each; e += each) {
    ptx_number_elements(p, loop, e, each);
    ptx_early_loads(p, loop, e, each);
    ptx_element_body(p, loop, e, each, w);
  }
  ptx_line(p, "add.s64 %s, %s, %s", var, other, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* How many elements stand between 16 whole bytes and the beginning of this row. */
static const char *shift_of(struct printer *p, const struct kir_stmt *loop) {
  const struct kir_stmt *s = p->plan->wide.along;
  int width = kir_width((weft_dtype)p->k->bufs[s->buf].dtype);
  const char *low = ptx_own(p, OWN_LONG), *shift = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, loop->var));
  ptx_line(p, "and.b64 %s, %s, 15", low, ptx_address(p, s->buf, s->at));
  ptx_line(p, "shr.u64 %s, %s, %d", shift, low, width == 8 ? 3 : width == 4 ? 2 : 1);
  return shift;
}

static void wide_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each;
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED), *end = ptx_own(p, OWN_LONG), *step = ptx_own(p, OWN_LONG);
  const char *again = ptx_label(p, "wide"), *apart = ptx_label(p, "apart"), *leave = ptx_label(p, "leave");
  struct where together = w;
  together.rest = apart;
  const char *shift = p->is_shifted ? shift_of(p, loop) : NULL;
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lane, %d", var, each);
  if (shift) ptx_line(p, "sub.s64 %s, %s, %s", var, var, shift);
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, each);
  if (p->groups > 1) two_groups(p, loop, n, step, w);
  ptx_place_loop(p, again);
  ptx_line(p, "add.s64 %s, %s, %d", end, var, each);
  ptx_line(p, "setp.gt.s64 %s, %s, %s", is, end, n);
  if (shift) ptx_line(p, "setp.lt.or.s64 %s, %s, 0, %s", is, var, is);
  ptx_line(p, "@%s bra %s", is, apart);
  ptx_number_elements(p, loop, 0, each);
  ptx_early_loads(p, loop, 0, each);
  if (p->blocks && !p->plan->wide.has_columns) fetch_ahead(p, loop, end, n);
  ptx_element_body(p, loop, 0, each, together);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "bra %s", again);
  ptx_place(p, apart);
  ptx_line(p, "min.s64 %s, %s, %s", end, end, n);
  if (shift) ptx_line(p, "max.s64 %s, %s, 0", var, var);
  one_by_one(p, loop, end, w);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, n);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "sub.s64 %s, %s, %d", var, var, each);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

/* Statements of a block, and of all blocks in it. */
static int length(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n += 1 + length(&s->body);
  return n;
}

/* Whether a lane loop divides, and is not so long that its registers are better left to the compiler. */
static bool has_quotients(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE && p->each * length(&s->body) > MOST_OF_QUOTIENTS) return false;
    if (ptx_is_of_number(p, s) || has_quotients(p, &s->body)) return true;
  }
  return false;
}

/* Whether rows stand where a loaded number says, as in a gather: a thread waits for the number and then for the row, so it asks for
 * two pieces of the row at a time. Nothing is stored before the check of the number, so that all can begin again. */
static bool is_of_rows_by_number(struct printer *p) {
  const struct kir_stmt *s = p->k->body.first, *row = NULL;
  while (s && s->kind != KIR_LANE) {
    if (s->kind == KIR_PAR) row = s;
    s = s->kind == KIR_PAR ? s->body.first : s->next;
  }
  for (const struct kir_stmt *x = s && row ? s->body.first : NULL; x; x = x->next)
    if (x->kind == KIR_CHECK) return p->wide[1][x->in[0]] == p->wide[0][x->in[0]];
  return false;
}

void ptx_shifted_spread_body(struct printer *p) {
  p->is_shifted = true;
  ptx_spread_body(p);
}

void ptx_spread_body(struct printer *p) {
  p->each = p->plan->wide.each;
  p->blocks = p->plan->wide.has_columns ? COLUMN_BLOCKS : has_quotients(p, &p->k->body) ? QUOTIENT_BLOCKS : 0;
  if (!ptx_name_elements(p, p->each)) return;
  p->groups = !p->blocks && p->each > 1 && !p->is_shifted && is_of_rows_by_number(p) ? 2 : 1;
  if (p->groups > 1 && !ptx_name_elements(p, 2 * p->each)) return;
  p->lane_loop = wide_loop;
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.launch_dependents");
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}
