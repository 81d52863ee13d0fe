/* nest_copies.c -- the body of a loop, printed several times: copies of it run together while there are as many steps to come,
 * then one by one.
 *
 * What the copies load is asked for ahead of all of them where the compiler would not do so by itself, since a thread waits
 * hundreds of cycles for memory. What they combine in a private output by exchanges meets behind the last copy. */
#include "backend/cuda/ptx_nest.h"
#include "backend/cuda/gpu_wide.h"

/* A body of few statements is written four times: its loads are under way together. Those of serial loops wait for each other, so
 * there it pays for longer ones too. */
enum { UNROLLED = 4, UNROLLED_SHORT = 8, SHORT_SERIAL = 120 };
enum { TINY = 12, UNROLLED_TINY = 16 }; /* the terms of a sum of products, of which each waits for the one before */
enum { A_SUM = 4 }; /* statements: a load and a fold, of which 16 loads of a lane are under way */

int nest_length(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n += s->body.first ? SHORT_SERIAL : 1;
  return n;
}

static int copies_of(const struct kir_stmt *s) {
  int n = nest_length(&s->body);
  if (s->kind == KIR_SERIAL) return n <= TINY ? UNROLLED_TINY : n <= NEST_SHORT ? UNROLLED_SHORT : n < SHORT_SERIAL ? UNROLLED : 0;
  return n <= A_SUM && ptx_has_fold(s) ? UNROLLED_TINY : n < NEST_SHORT ? UNROLLED : 0;
}

void nest_one_copy(struct printer *p, const struct kir_stmt *s, const char *step, struct where w) {
  const char *var = ptx_val(p, s->var);
  w.rest = ptx_label(p, "next");
  if (w.lane == s) nest_load_kept(p, s, w.lo);
  ptx_block(p, &s->body, w);
  ptx_place(p, w.rest);
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  if (p->walks && p->walks->loop == s) ptx_walks_step(p, p->walks);
}

/* Subscripts are loops over all of their axes: wherever the lane goes, the element is there. */
static bool is_always_there(const struct kir_kernel *k, const struct kir_stmt *s) {
  for (int d = 0; d < s->n_at; d++) {
    struct kir_lin l = s->at[d];
    if (l.n != 1 || l.term[0].coef != 1 || l.term[0].n != 1 || k->vals[l.term[0].val[0]].kind != KIR_AXIS) return false;
    const struct kir_stmt *loop = survey_blocks_of(k, l.term[0].val[0]);
    if (loop && loop->extent == KIR_BLOCK) loop = survey_blocks_of(k, loop->block_of);
    else if (loop && loop->extent == KIR_BLOCKS) return false;
    if (!loop || !kir_lin_equal(loop->at[0], k->bufs[s->buf].dims[d])) return false;
  }
  return true;
}

static bool holds_up(const struct kir_stmt *s) { return s->kind == KIR_CHECK || (s->kind == KIR_STORE && s->op != KIR_SET); }

bool ptx_is_steady(const struct kir_stmt *loop, const struct kir_stmt *load) {
  for (int d = 0; d < load->n_at; d++) {
    for (const struct kir_stmt *x = loop->body.first; x; x = x->next)
      for (int i = 0; i < x->n_out; i++) if (survey_mentions(load->at[d], x->out[i])) return false;
    for (int i = 0; i < load->at[d].n; i++) {
      int n = 0;
      for (int j = 0; j < load->at[d].term[i].n; j++) n += load->at[d].term[i].val[j] == loop->var;
      if (n > 1) return false;
    }
  }
  return true;
}

/* Nothing in the body of a serial loop keeps a later step from being reached. */
static bool goes_through(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind != KIR_OP && s->kind != KIR_LOAD && s->kind != KIR_FOLD && s->kind != KIR_CARRY && s->kind != KIR_NEXT)
      return false;
  return true;
}

/* Blocks of threads that are to find room on a processor where lanes load several neighbours. The linker's compiler asks for what
 * all copies load ahead by itself, unless there are calls, but takes 72 registers for five loads and 128 for seven, most of them
 * for addresses, so that few threads have room. With one step from copy to copy 48 and 64 are enough, or 80 where several par loops
 * are one (ptxas -c 13.0). */
enum { MANY_LOADS = 6, BLOCKS_OF_FEW = 5, BLOCKS_OF_MANY = 4, BLOCKS_TOGETHER = 3 };

static bool moves(const struct printer *p, const struct kir_stmt *load, int lane) {
  for (int d = 0; d < load->n_at; d++)
    if (survey_mentions(load->at[d], lane) && p->shape->stride[load->buf][d] != STRIDE_0) return true;
  return false;
}

static bool is_of_neighbours(const struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s) {
  return s->kind == KIR_LOAD && p->k->bufs[s->buf].kind == KIR_IN && ptx_is_neighbours(p, s, loop) && ptx_is_steady(loop, s);
}

/* Loads of a lane's body, if all are of neighbours, or of what is the same for all lanes; else 0. */
static int count_neighbours(const struct printer *p, const struct kir_stmt *loop) {
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (is_of_neighbours(p, loop, s)) n++;
    else if (s->kind == KIR_LOAD && moves(p, s, loop->var)) return 0;
  }
  return n;
}

static int blocks_for(const struct printer *p, int n_loads) {
  return n_loads < MANY_LOADS ? BLOCKS_OF_FEW : p->survey.n_together ? BLOCKS_TOGETHER : BLOCKS_OF_MANY;
}

/* Why loads of all copies of a body are printed ahead of them. */
enum haste { AS_IT_IS, OF_STEPS, OVER_CHECKS, OF_MANY };

/* The compiler would not move them ahead of the copy before: of a serial loop it would rather save registers, over checks and
 * combining in memory it may not, and for many loads of lanes it takes more registers than they need. */
static enum haste haste_of(const struct printer *p, const struct kir_stmt *loop) {
  if (loop->kind == KIR_SERIAL) return goes_through(loop) ? OF_STEPS : AS_IT_IS;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (holds_up(s)) return OVER_CHECKS;
  return !p->survey.is_cooperative && count_neighbours(p, loop) > 1 ? OF_MANY : AS_IT_IS;
}

static bool is_early(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, enum haste why) {
  if (s->kind != KIR_LOAD || p->k->bufs[s->buf].kind != KIR_IN) return false;
  if (why == OF_MANY) return is_of_neighbours(p, loop, s);
  return why == OVER_CHECKS ? is_always_there(p->k, s) : ptx_is_steady(loop, s);
}

/* Bytes from what this step loads, at `first`, to what the next one does. Many loads of neighbours share the register of it. */
static const char *bytes_to_next(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *step,
                                 const char *first, enum haste why) {
  const char *by = ptx_own(p, OWN_LONG), *var = ptx_val(p, loop->var);
  if (why == OF_MANY) {
    ptx_line(p, "mul.lo.s64 %s, %s, %d", by, step, kir_width((weft_dtype)p->k->bufs[s->buf].dtype));
    return by;
  }
  ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
  ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), first);
  ptx_line(p, "sub.s64 %s, %s, %s", var, var, step);
  return by;
}

static void early_loads(struct printer *p, const struct kir_stmt *loop, const char *step, int copies) {
  enum haste why = haste_of(p, loop);
  p->early = (struct ptx_early){ .turn = -1 };
  if (why == OF_MANY && !p->blocks) p->blocks = blocks_for(p, count_neighbours(p, loop));
  if (why == AS_IT_IS || copies > PTX_EARLY_COPIES) return;
  for (const struct kir_stmt *s = loop->body.first; s && p->early.n < (why == OF_MANY ? PTX_MOST_EARLY : PTX_EARLY); s = s->next) {
    if (!is_early(p, loop, s, why)) continue;
    const char *first = ptx_address(p, s->buf, s->at), *by, *at = ptx_own(p, OWN_LONG);
    by = bytes_to_next(p, loop, s, step, first, why);
    ptx_line(p, "mov.s64 %s, %s", at, first);
    for (int i = 0; i < copies; i++) {
      p->early.reg[p->early.n][i] = ptx_own_of(p, ptx_dtype(p, s->out[0]));
      ptx_load(p, ".global.nc", (weft_dtype)p->k->bufs[s->buf].dtype, p->early.reg[p->early.n][i], at);
      if (i < copies - 1) ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
    }
    p->early.s[p->early.n++] = s;
  }
}

/* Steps of a serial loop wait for each other: there the compiler may write even more of them. */
static void place_copies(struct printer *p, const struct kir_stmt *loop, const char *label) {
  if (loop->kind == KIR_SERIAL) ptx_place(p, label);
  else ptx_place_loop(p, label);
}

/* The body ends with what combines in a private output, of which other iterations may hit any place; NULL: it does not. */
static const struct kir_stmt *scatters_at_end(struct printer *p, const struct kir_stmt *loop) {
  const struct kir_stmt *s = loop->body.last;
  if (!s || loop->kind != KIR_LANE || s->kind != KIR_STORE || s->op == KIR_SET || survey_is_own(&p->survey, s->buf)) return NULL;
  if (p->survey.bufs[s->buf].private_op == KIR_OPS) return NULL;
  for (const struct kir_stmt *x = loop->body.first; x != s; x = x->next)
    if (x->kind == KIR_STORE && x->buf == s->buf) return NULL;
  return s;
}

/* .. by exchanges, of which those of a thread need not wait for each other. */
static const struct kir_stmt *exchanges_at_end(struct printer *p, const struct kir_stmt *loop) {
  const struct kir_stmt *s = scatters_at_end(p, loop);
  bool is_float = s && kir_is_float((weft_dtype)p->k->bufs[s->buf].dtype);
  return s && (s->op == KIR_MUL || (is_float && (s->op == KIR_MIN || s->op == KIR_MAX))) ? s : NULL;
}

static void begin_meeting(struct printer *p, const struct kir_stmt *loop, int copies) {
  struct ptx_meeting *m = &p->meeting;
  *m = (struct ptx_meeting){ .store = copies <= PTX_MEETING ? exchanges_at_end(p, loop) : NULL };
  for (int i = 0; m->store && i < copies; i++) {
    ptx_line(p, "mov.pred %s, 0", m->is[i] = ptx_own(p, OWN_PRED));
    ptx_line(p, "mov.s64 %s, %s", m->at[i] = ptx_own(p, OWN_LONG), p->base[m->store->buf]);
    ptx_line(p, "mov.%s %s, 0", ptx_bits(ptx_dtype(p, m->store->in[0])), m->v[i] = ptx_own_of(p, ptx_dtype(p, m->store->in[0])));
  }
}

/* The copies of a body, one after the other; what they load was asked for before if `is_early`. */
static void all_copies(struct printer *p, const struct kir_stmt *s, const char *step, int copies, bool is_early, struct where w) {
  int n_checks = p->n_checks;
  begin_meeting(p, s, copies);
  for (int i = 0; i < copies; i++) {
    p->early.turn = is_early ? i : -1;
    p->n_checks = n_checks;
    nest_one_copy(p, s, step, w);
  }
  if (p->meeting.store) ptx_combine_meeting(p);
  p->meeting.store = NULL;
  p->n_checks = n_checks;
}

/* What the copies after these load, from `next` on, into registers of its own, if there are as many. */
static struct ptx_early ask_for_next(struct printer *p, const struct kir_stmt *s, const char *next, const char *is,
                                     const char *step, int copies) {
  struct ptx_early now = p->early, later;
  const char *var = ptx_val(p, s->var);
  p->reg[s->var] = next, p->guard = is;
  early_loads(p, s, step, copies);
  p->reg[s->var] = var, p->guard = NULL;
  later = p->early, p->early = now;
  return later;
}

/* So many copies of a body that scatters, while there are as many steps to come: what the next of them load is on its way while
 * these combine. Where an index is out of range the thread goes on step by step, from the first of these copies on: what has been
 * combined twice then is of a result that fails. To tell the index here, in all of them, takes the registers of three more. */
static void scatter_together(struct printer *p, const struct kir_stmt *s, const char *end, const char *step, int copies,
                             struct where w) {
  const char *var = ptx_val(p, s->var), *ahead = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED), *next = ptx_own(p, OWN_LONG);
  const char *many = ptx_label(p, "many"), *few = ptx_label(p, "few"), *last = ptx_own(p, OWN_LONG), *all = ptx_own(p, OWN_LONG);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", last, step, copies - 1);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", all, step, copies);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, var, last);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, ahead, end);
  ptx_line(p, "@%s bra %s", is, few);
  early_loads(p, s, step, copies);
  place_copies(p, s, many);
  ptx_line(p, "add.s64 %s, %s, %s", next, var, all);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, next, last);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, ahead, end);
  struct ptx_early later = ask_for_next(p, s, next, is, step, copies);
  w.alone = ptx_label(p, "alone");
  all_copies(p, s, step, copies, true, w);
  ptx_line(p, "@!%s bra %s", is, few);
  for (int k = 0; k < later.n; k++)
    for (int i = 0; i < copies; i++) ptx_mov(p, ptx_dtype(p, later.s[k]->out[0]), p->early.reg[k][i], later.reg[k][i]);
  ptx_line(p, "bra %s", many);
  ptx_place(p, w.alone);
  ptx_line(p, "sub.s64 %s, %s, %s", var, next, all);
  place_copies(p, s, few);
}

/* So many copies of the body at a time, while there are as many steps to come. */
static void together(struct printer *p, const struct kir_stmt *s, const char *end, const char *step, int copies, struct where w) {
  const char *var = ptx_val(p, s->var), *ahead = ptx_own(p, OWN_LONG), *over = ptx_own(p, OWN_PRED), *more = ptx_own(p, OWN_LONG);
  const char *many = ptx_label(p, "many"), *few = ptx_label(p, "few");
  bool walks = p->walks && p->walks->loop == s, is_ahead = false;
  if (!walks && scatters_at_end(p, s)) { scatter_together(p, s, end, step, copies, w); return; }
  ptx_line(p, "mul.lo.s64 %s, %s, %d", more, step, copies - 1);
  place_copies(p, s, many);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, var, more);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, ahead, end);
  ptx_line(p, "@%s bra %s", over, few);
  nest_look(p, s, copies);
  if (walks) is_ahead = ptx_walks_ahead(p, p->walks, copies, NULL);
  else early_loads(p, s, step, copies);
  all_copies(p, s, step, copies, is_ahead || !walks, w);
  if (is_ahead) p->walks->is_ahead = false;
  if (walks) ptx_walks_settle(p, p->walks);
  ptx_line(p, "bra %s", many);
  place_copies(p, s, few);
}

/* The first steps of a loop, of which something is held. */
static void held_steps(struct printer *p, const struct kir_stmt *s, const char *end, const char *leave, const char *step,
                       int copies, struct where w) {
  const char *over = ptx_own(p, OWN_PRED);
  if (!p->held.is_straight || p->held.loop != s || !p->walks || p->walks->loop != s) return;
  if (ptx_walks_ahead(p, p->walks, copies, &p->held)) {
    for (int i = 0; i < copies; i++) {
      p->early.turn = i;
      nest_one_copy(p, s, step, w);
    }
    p->walks->is_ahead = false;
    ptx_walks_settle(p, p->walks);
    ptx_line(p, "setp.ge.s64 %s, %s, %s", over, ptx_val(p, s->var), end); /* often that was all */
    ptx_line(p, "@%s bra %s", over, leave);
  }
}

/* A sum of products in every step of time, of which each waits for the one before. */
bool nest_is_sum_in_time(const struct kir_stmt *s, const struct where *w) {
  return s->kind == KIR_SERIAL && w->time && copies_of(s) == UNROLLED_TINY && goes_through(s);
}

/* Folds of lanes that no loop is around are few: a thread has to ask for more of its steps at a time, as there are not many others
 * that do. What logsumexp along 8192 rows of 4096 does with the 128 parts it has left took 18 us on an H200, 5 so. Lanes of several
 * folds read again what few steps before they have read: the parts of it take 8 us less so. */
enum { DEEP = 4, BLOCKS_OF_DEEP = 2 }; /* blocks of threads that are to find room on a processor: registers for 64 numbers */

static bool has_several_folds(const struct kir_stmt *lane) {
  int n = 0;
  for (const struct kir_stmt *s = lane->body.first; s; s = s->next) n += s->kind == KIR_SERIAL && ptx_has_fold(s);
  return n > 1;
}

static int deep_copies(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  int copies = DEEP * copies_of(s);
  if (s->kind != KIR_SERIAL || !ptx_has_fold(s) || !goes_through(s)) return 0;
  if (!w->lane || w->time || p->survey.is_cooperative || (w->pars && !has_several_folds(w->lane))) return 0;
  return copies <= PTX_EARLY_COPIES && copies * nest_length(&s->body) <= NEST_MOST_COPIED ? copies : 0;
}

/* The body for var, var + step, .. while that is below `end`; several of them at a time if it is short. Lanes that fail a check go
 * on with the next. */
void nest_repeat(struct printer *p, const struct kir_stmt *s, const char *end, const char *step, struct where w) {
  const char *var = ptx_val(p, s->var), *again = ptx_label(p, "one"), *leave = ptx_label(p, "leave"), *over = ptx_own(p, OWN_PRED);
  int copies = copies_of(s);
  struct ptx_early around = p->early;
  if (nest_is_sum_in_time(s, &w)) {
    held_steps(p, s, end, leave, step, NEST_UNROLLED_IN_TIME, w);
    if (!p->held.is_straight && !p->held.is_elsewhere) together(p, s, end, step, NEST_UNROLLED_IN_TIME, w);
  }
  int deep = deep_copies(p, s, &w);
  if (deep && !p->lane_loop) p->blocks = BLOCKS_OF_DEEP;
  if (deep) together(p, s, end, step, deep, w);
  if (copies) together(p, s, end, step, copies, w);
  p->early.turn = -1;
  place_copies(p, s, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, var, end);
  ptx_line(p, "@%s bra %s", over, leave);
  if (!copies) nest_look(p, s, 1);
  nest_one_copy(p, s, step, w);
  if (p->walks && p->walks->loop == s) ptx_walks_settle(p, p->walks);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  p->early = around;
}
