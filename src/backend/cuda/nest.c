/* nest.c -- statements and loops.
 *
 * A uniform statement, one outside lane loops, is computed by every thread that passes it, which costs nothing; what it
 * stores is stored by the first of them. In a cooperative kernel all threads of a block take the same way through uniform
 * statements, so barriers may stand there: around each lane loop or uniform access of a buffer in which threads meet. */
#include "backend/cuda/printer.h"
#include <string.h>

static weft_dtype dtype_of(struct printer *p, int v) { return (weft_dtype)p->k->vals[v].dtype; }

static const char *thread_names[PTX_AXES] = { "lane", "row", "plane", "volume" };

/* ---- Extents ----------------------------------------------------------------------------------------------------------- */

static const char *block_length(struct printer *p, const struct kir_stmt *blocks) {
  return p->survey.may_reblock && blocks == p->survey.private_loop ? "$block" : ptx_lin(p, blocks->at[1]);
}

const char *ptx_n_blocks(struct printer *p, const struct kir_stmt *s) {
  const char *b = ptx_own(p, OWN_LONG), *n = ptx_own(p, OWN_LONG);
  ptx_line(p, "max.s64 %s, %s, 1", b, block_length(p, s));
  ptx_line(p, "add.s64 %s, %s, %s", n, ptx_lin(p, s->at[0]), b);
  ptx_line(p, "sub.s64 %s, %s, 1", n, n);
  ptx_line(p, "div.s64 %s, %s, %s", n, n, b);
  return n;
}

static struct ptx_range block_range(struct printer *p, int q) {
  const struct kir_stmt *blocks = survey_blocks_of(p->k, q);
  const char *b = block_length(p, blocks), *lo = ptx_own(p, OWN_LONG), *hi = ptx_own(p, OWN_LONG);
  ptx_line(p, "mul.lo.s64 %s, %s, %s", lo, ptx_val(p, q), b);
  ptx_line(p, "add.s64 %s, %s, %s", hi, lo, b);
  ptx_line(p, "min.s64 %s, %s, %s", hi, hi, ptx_lin(p, blocks->at[0]));
  return (struct ptx_range){ lo, hi };
}

struct ptx_range ptx_range_of(struct printer *p, const struct kir_stmt *s) {
  if (s->extent == KIR_BLOCK) return block_range(p, s->block_of);
  return (struct ptx_range){ "0", s->extent == KIR_BLOCKS ? ptx_n_blocks(p, s) : ptx_lin(p, s->at[0]) };
}

/* ---- Instructions, loads, stores ---------------------------------------------------------------------------------------- */

static void owns(struct printer *p, const struct kir_stmt *s) {
  const struct kir_stmt *blocks = survey_blocks_of(p->k, s->in[0]);
  struct ptx_range r = { "0", NULL };
  if (blocks == p->survey.owned) r.hi = ptx_lin(p, blocks->at[0]);
  else r = block_range(p, s->in[0]);
  const char *from = ptx_own(p, OWN_PRED), *k = ptx_val(p, s->in[1]);
  ptx_line(p, "setp.le.s64 %s, %s, %s", from, r.lo, k);
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", ptx_val(p, s->out[0]), k, r.hi, from);
}

static void call(struct printer *p, const struct kir_stmt *s) {
  const char *in[2 * PTX_TUPLE], *out[PTX_TUPLE];
  if (s->n_in > 2 * PTX_TUPLE || s->n_out > PTX_TUPLE) { ptx_refuse(p, "a fn of too many values"); return; }
  for (int i = 0; i < s->n_in; i++) in[i] = ptx_val(p, s->in[i]);
  for (int i = 0; i < s->n_out; i++) out[i] = ptx_val(p, s->out[i]);
  ptx_inline(p, s->fn, in, out);
}

static void instruction(struct printer *p, const struct kir_stmt *s) {
  if (s->op == KIR_OWNS) { owns(p, s); return; }
  if (s->op == KIR_CALL) { call(p, s); return; }
  const char *in[3] = { 0 }, *dst = ptx_val(p, s->out[0]);
  weft_dtype d = dtype_of(p, s->in[s->n_in - 1]);
  bool on_bits = s->op == KIR_CAST || s->op == KIR_BITS || s->op == KIR_NEG || s->op == KIR_ABS;
  for (int i = 0; i < s->n_in; i++) in[i] = on_bits ? ptx_in_register(p, d, s->in[i]) : ptx_val(p, s->in[i]);
  if (s->op == KIR_CAST && ptx_is_narrow(p, s->in[0], (weft_dtype)s->dtype)) ptx_mov(p, d, dst, in[0]);
  else if (s->op == KIR_CAST) ptx_cast(p, d, (weft_dtype)s->dtype, dst, in[0], ptx_is_made(p, s->in[0]));
  else if (s->op == KIR_BITS) ptx_line(p, "mov.%s %s, %s", ptx_bits(d), dst, in[0]);
  else ptx_instruction(p, (enum kir_op)s->op, d, dst, in);
  if (s->op == KIR_CAST) p->narrow[s->out[0]] = s->dtype;
  ptx_note_made(p, s);
}

static bool meets_others(struct printer *p, int buf) { return p->survey.is_cooperative && p->survey.bufs[buf].is_shared; }

void ptx_load_plain(struct printer *p, int buf, int value, const char *at) {
  const char *space = ptx_space(p, buf);
  if (p->k->bufs[buf].kind == KIR_IN) space = ".global.nc"; /* nobody stores before it: it may go ahead of stores elsewhere */
  ptx_load_value(p, space, (weft_dtype)p->k->bufs[buf].dtype, value, at);
}

static bool early_load(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->early.turn >= 0 && i < p->early.n; i++) {
    if (p->early.s[i] != s) continue;
    ptx_mov(p, dtype_of(p, s->out[0]), ptx_val(p, s->out[0]), p->early.reg[i][p->early.turn]);
    return true;
  }
  return false;
}

static void load(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  p->narrow[s->out[0]] = p->k->bufs[s->buf].dtype;
  if (early_load(p, s) || ptx_load_held(p, s)) return;
  if (!ptx_turned_load(p, s) && !ptx_walk_load(p, s)) {
    const char *at = ptx_swing(p, s);
    ptx_load_plain(p, s->buf, s->out[0], at ? at : ptx_address(p, s->buf, s->at));
    ptx_ask_ahead(p, s, w);
  }
  if (!w->lane && meets_others(p, s->buf)) ptx_line(p, "bar.sync 0");
}

/* For later, with what the other copies of the body combine. */
static void meet(struct printer *p, const struct kir_stmt *s) {
  struct ptx_meeting *m = &p->meeting;
  weft_dtype d = dtype_of(p, s->in[0]);
  ptx_line(p, "mov.s64 %s, %s", m->at[m->n], ptx_address(p, s->buf, s->at));
  ptx_mov(p, d, m->v[m->n], ptx_val(p, s->in[0]));
  ptx_line(p, "mov.pred %s, 1", m->is[m->n++]);
}

static void store(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
  const char *space = ptx_space(p, s->buf), *guard = p->guard;
  const char *others = w->lane || s->op == KIR_SET ? NULL : ptx_label(p, "others");
  bool meets = !w->lane && meets_others(p, s->buf);
  if (p->meeting.store == s) { meet(p, s); return; }
  if (ptx_chain_store(p, s) || ptx_walk_store(p, s)) return;
  if (meets) ptx_line(p, "bar.sync 0");
  if (others) ptx_line(p, "@!$first bra %s", others);
  else if (!w->lane) p->guard = "$first";
  p->uses_first |= !w->lane;
  const char *at = ptx_store_held(p, s), *v = ptx_in_register(p, dtype_of(p, s->in[0]), s->in[0]);
  if (!at) at = ptx_walk_address(p, s);
  if (!at) at = ptx_address(p, s->buf, s->at);
  if (s->op == KIR_SET) ptx_store_value(p, space, d, at, s->in[0]), ptx_move_held(p, s);
  else if (survey_is_own(&p->survey, s->buf)) ptx_combine_own(p, s->buf, (enum kir_op)s->op, at, v);
  else if (p->survey.bufs[s->buf].private_op != KIR_OPS) ptx_combine_copy(p, s->buf, (enum kir_op)s->op, at, v);
  else ptx_combine(p, space, (enum kir_op)s->op, d, at, v);
  if (s->op == KIR_MUL) p->contended = 1 + s->buf; /* min and max soon find nothing to change */
  p->guard = guard;
  if (others) ptx_place(p, others);
  if (meets) ptx_line(p, "bar.sync 0");
}

static void lower(struct printer *p, int at, const char *word) { ptx_line(p, "red.global.min.s64 [$checks+%d], %s", at, word); }

/* What is at the place, in parts below its number: see struct finding_words. */
static void lower_parts(struct printer *p, int at, const char *place, const char *value) {
  const char *part = ptx_own(p, OWN_LONG);
  for (int i = 0; i < FINDING_PARTS; i++) {
    if (i) ptx_line(p, "shr.u64 %s, %s, %d", part, value, i * FINDING_BITS);
    ptx_line(p, "bfi.b64 %s, %s, %s, %d, %d", part, place, i ? part : value, FINDING_BITS, 64 - FINDING_BITS);
    lower(p, at + 8 * i, part);
  }
}

static const char *place_of(struct printer *p, const struct kir_stmt *s) {
  const char *at = s->n_at ? ptx_lin(p, s->at[0]) : ptx_val(p, s->in[2]);
  if (*at != '-' && (*at < '0' || *at > '9')) return at;
  const char *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, %s", r, at);
  return r;
}

static void found(struct printer *p, const struct kir_stmt *s) {
  int at = (int)sizeof(struct finding_words) * p->n_checks++;
  const char *place = place_of(p, s);
  lower(p, at, place);
  if (p->k->vals[s->in[1]].kind != KIR_LIT) lower_parts(p, at + 8, place, ptx_val(p, s->in[1]));
}

static void check(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  const char *pass = ptx_label(p, "pass"), *ok = ptx_val(p, s->in[0]);
  ptx_line(p, "@%s bra %s", ok, pass);
  found(p, s);
  if (w->active) ptx_line(p, "and.pred %s, %s, %s", w->active, w->active, ok);
  ptx_line(p, "bra %s", w->rest);
  ptx_place(p, pass);
}

/* ---- Kept rows ---------------------------------------------------------------------------------------------------------- */

static const char *kept_address(struct printer *p, int row, const struct kir_stmt *loop, const char *lo) {
  const char *at = ptx_own(p, OWN_LONG), *i = ptx_val(p, loop->var);
  if (loop->extent == KIR_BLOCK) {
    const char *from_lo = ptx_own(p, OWN_LONG);
    ptx_line(p, "sub.s64 %s, %s, %s", from_lo, i, lo);
    i = from_lo;
  }
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, i, p->plan->rows[row].width, row);
  return at;
}

int ptx_kept_row(struct printer *p, int value) {
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_KEEP && p->plan->rows[r].of == value) return r;
  return -1;
}

static void keep(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  for (int i = 0; i < s->n_in; i++) {
    weft_dtype d = dtype_of(p, s->in[i]);
    ptx_store(p, "", d, kept_address(p, ptx_kept_row(p, s->in[i]), w->lane, w->lo), ptx_in_register(p, d, s->in[i]));
  }
}

static void load_kept(struct printer *p, const struct kir_stmt *loop, const char *lo) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    int v = p->plan->rows[r].of;
    if (p->plan->rows[r].kind != PTX_KEEP || survey_keeps(loop, v) || !survey_uses(&loop->body, v)) continue;
    ptx_load(p, "", dtype_of(p, v), ptx_val(p, v), kept_address(p, r, loop, lo));
  }
}

/* ---- Loops -------------------------------------------------------------------------------------------------------------- */

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

/* A body of few statements is written four times: its loads are under way together. Those of serial loops wait for each other, so
 * there it pays for longer ones too. */
enum { UNROLLED = 4, UNROLLED_SHORT = 8, SHORT = 40, SHORT_SERIAL = 120 };
enum { TINY = 12, UNROLLED_TINY = 16 }; /* the terms of a sum of products, of which each waits for the one before */
enum { UNROLLED_IN_TIME = 64 }; /* .. in each step of a loop over time, where nothing else is done meanwhile: while 16 of them wait
                                   for each other (64 cycles) the loads of the next come, instead of 60 cycles later */
enum { A_SUM = 4 }; /* statements: a load and a fold, of which 16 loads of a lane are under way */
/* Steps that are fetched ahead: memory answers after some 700 cycles, the caches after 270; a step of few statements takes 20 to
 * 40, one that only adds 5. */
enum { A_CHAIN = 6, DEPTH_OF_CHAIN = 48, FEW = 20, DEPTH_OF_FEW = 16, DEPTH = 8, DEPTH_OF_LONG = 4 };
/* Statements of all copies of a step, unless it has more by itself: beyond some 32 KB of machine code a warp waits for
 * instructions. A step of Kalman's, of 232 statements, took 0.19 us on an H200 with four or six copies, 0.20 with one or two,
 * 0.29 with eight. */
enum { MOST_COPIED = 1500 };

static int length(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n += s->body.first ? SHORT_SERIAL : 1;
  return n;
}

/* ---- Stopping ------------------------------------------------------------------------------------------------------------ */

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
static void look(struct printer *p, const struct kir_stmt *loop, int steps) {
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

/* The body for var, var + step, .. while that is below `end`; four of them at a time if it is short. Lanes that fail a check go
 * on with the next. */
static bool folds(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_FOLD) return true;
  return false;
}

static int copies_of(const struct kir_stmt *s) {
  int n = length(&s->body);
  if (s->kind == KIR_SERIAL) return n <= TINY ? UNROLLED_TINY : n <= SHORT ? UNROLLED_SHORT : n < SHORT_SERIAL ? UNROLLED : 0;
  return n <= A_SUM && folds(s) ? UNROLLED_TINY : n < SHORT ? UNROLLED : 0;
}

static void one_copy(struct printer *p, const struct kir_stmt *s, const char *step, struct where w) {
  const char *var = ptx_val(p, s->var);
  w.rest = ptx_label(p, "next");
  if (w.lane == s) load_kept(p, s, w.lo);
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

/* Loads of all copies of a body are printed here where the compiler would not move them ahead of the copy before: over checks and
 * combining in memory it may not, and of a serial loop it would rather save registers. */
static void early_loads(struct printer *p, const struct kir_stmt *loop, const char *step, int copies) {
  bool is_serial = loop->kind == KIR_SERIAL, is_held = is_serial && goes_through(loop);
  p->early = (struct ptx_early){ .turn = -1 };
  for (const struct kir_stmt *s = loop->body.first; s && !is_serial; s = s->next) is_held |= holds_up(s);
  if (!is_held || copies > PTX_EARLY_COPIES) return;
  for (const struct kir_stmt *s = loop->body.first; s && p->early.n < PTX_EARLY; s = s->next) {
    if (s->kind != KIR_LOAD || p->k->bufs[s->buf].kind != KIR_IN) continue;
    if (is_serial ? !ptx_is_steady(loop, s) : !is_always_there(p->k, s)) continue;
    const char *var = ptx_val(p, loop->var), *first = ptx_address(p, s->buf, s->at);
    const char *at = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG);
    ptx_line(p, "add.s64 %s, %s, %s", var, var, step);
    ptx_line(p, "sub.s64 %s, %s, %s", by, ptx_address(p, s->buf, s->at), first);
    ptx_line(p, "sub.s64 %s, %s, %s", var, var, step);
    ptx_line(p, "mov.s64 %s, %s", at, first);
    for (int i = 0; i < copies; i++) {
      p->early.reg[p->early.n][i] = ptx_own_of(p, dtype_of(p, s->out[0]));
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
    ptx_line(p, "mov.%s %s, 0", ptx_bits(dtype_of(p, m->store->in[0])), m->v[i] = ptx_own_of(p, dtype_of(p, m->store->in[0])));
  }
}

/* The copies of a body, one after the other; what they load was asked for before if `is_early`. */
static void all_copies(struct printer *p, const struct kir_stmt *s, const char *step, int copies, bool is_early, struct where w) {
  int n_checks = p->n_checks;
  begin_meeting(p, s, copies);
  for (int i = 0; i < copies; i++) {
    p->early.turn = is_early ? i : -1;
    p->n_checks = n_checks;
    one_copy(p, s, step, w);
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
 * these combine. */
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
  all_copies(p, s, step, copies, true, w);
  ptx_line(p, "@!%s bra %s", is, few);
  for (int k = 0; k < later.n; k++)
    for (int i = 0; i < copies; i++) ptx_mov(p, dtype_of(p, later.s[k]->out[0]), p->early.reg[k][i], later.reg[k][i]);
  ptx_line(p, "bra %s", many);
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
  look(p, s, copies);
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
      one_copy(p, s, step, w);
    }
    p->walks->is_ahead = false;
    ptx_walks_settle(p, p->walks);
    ptx_line(p, "setp.ge.s64 %s, %s, %s", over, ptx_val(p, s->var), end); /* often that was all */
    ptx_line(p, "@%s bra %s", over, leave);
  }
}

/* A sum of products in every step of time, of which each waits for the one before. */
static bool is_sum_in_time(const struct kir_stmt *s, const struct where *w) {
  return s->kind == KIR_SERIAL && w->time && copies_of(s) == UNROLLED_TINY && goes_through(s);
}

/* Folds of lanes that no loop is around are few: a thread has to ask for more of its steps at a time, as there are not many others
 * that do. What logsumexp along 8192 rows of 4096 does with the 128 parts it has left took 18 us on an H200, 5 so. Lanes of several
 * folds read again what few steps before they have read: the parts of it take 8 us less so. */
enum { DEEP = 4, BLOCKS_OF_DEEP = 2 }; /* blocks of threads that are to find room on a processor: registers for 64 numbers */

static bool has_several_folds(const struct kir_stmt *lane) {
  int n = 0;
  for (const struct kir_stmt *s = lane->body.first; s; s = s->next) n += s->kind == KIR_SERIAL && folds(s);
  return n > 1;
}

static int deep_copies(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  int copies = DEEP * copies_of(s);
  if (s->kind != KIR_SERIAL || !folds(s) || !goes_through(s)) return 0;
  if (!w->lane || w->time || p->survey.is_cooperative || (w->pars && !has_several_folds(w->lane))) return 0;
  return copies <= PTX_EARLY_COPIES && copies * length(&s->body) <= MOST_COPIED ? copies : 0;
}

static void repeat(struct printer *p, const struct kir_stmt *s, const char *end, const char *step, struct where w) {
  const char *var = ptx_val(p, s->var), *again = ptx_label(p, "one"), *leave = ptx_label(p, "leave"), *over = ptx_own(p, OWN_PRED);
  int copies = copies_of(s);
  struct ptx_early around = p->early;
  if (is_sum_in_time(s, &w)) {
    held_steps(p, s, end, leave, step, UNROLLED_IN_TIME, w);
    if (!p->held.is_straight && !p->held.is_elsewhere) together(p, s, end, step, UNROLLED_IN_TIME, w);
  }
  int deep = deep_copies(p, s, &w);
  if (deep && !p->lane_loop) p->blocks = BLOCKS_OF_DEEP;
  if (deep) together(p, s, end, step, deep, w);
  if (copies) together(p, s, end, step, copies, w);
  p->early.turn = -1;
  place_copies(p, s, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", over, var, end);
  ptx_line(p, "@%s bra %s", over, leave);
  if (!copies) look(p, s, 1);
  one_copy(p, s, step, w);
  if (p->walks && p->walks->loop == s) ptx_walks_settle(p, p->walks);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
  p->early = around;
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
  look(p, s, walks->depth);
  for (walks->turn = 0; walks->turn < walks->depth; walks->turn++) one_copy(p, s, "1", w);
  walks->turn = -1;
  ptx_walks_settle(p, walks);
  ptx_line(p, "add.s64 %s, %s, %d", ahead, var, 2 * walks->depth);
  ptx_line(p, "setp.le.s64 %s, %s, %s", over, ahead, end);
  ptx_line(p, "@%s bra %s", over, many);
  ptx_place(p, rest);
}

/* Of the first sum of products in a step of time. */
static void hold(struct printer *p, const struct kir_stmt *time) {
  struct where inside = { .time = time };
  for (const struct kir_stmt *l = time->body.first; l; l = l->next)
    for (const struct kir_stmt *s = l->kind == KIR_LANE ? l->body.first : NULL; s; s = s->next)
      if (is_sum_in_time(s, &inside)) { ptx_hold(p, time, l, s, UNROLLED_IN_TIME); return; }
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
  look(p, s, UNLOOKED + 1);
  ptx_line(p, "add.s64 %s, %s, %d", last, t, UNLOOKED);
  ptx_line(p, "min.s64 %s, %s, %s", last, last, end);
  ptx_place_loop(p, again);
  one_copy(p, s, "1", w);
  if (p->walks && p->walks->loop == s) ptx_walks_settle(p, p->walks);
  ptx_line(p, "@%s bra %s", p->held.more, again);
  ptx_line(p, "bra %s", piece);
  ptx_place(p, others);
  p->held = (struct ptx_held){ .is_elsewhere = true };
  p->n_checks = n_checks;
}

static void steps(struct printer *p, const struct kir_stmt *s, const char *end, struct where w) {
  int n = length(&s->body);
  int depth = n <= A_CHAIN ? DEPTH_OF_CHAIN : n <= FEW ? DEPTH_OF_FEW : n < SHORT ? DEPTH : DEPTH_OF_LONG;
  while (depth > 1 && depth * n > MOST_COPIED) depth /= 2;
  struct ptx_held around = p->held;
  const char *done = NULL;
  if (p->plan->chain == s) ptx_chain_steps(p, s, end, w, look, one_copy);
  if (w.time == s && p->survey.is_cooperative) hold(p, s);
  struct ptx_walks walks = ptx_walks_begin(p, s, depth, w.lane && !p->survey.is_cooperative);
  p->walks = &walks;
  if (walks.depth) fetched_steps(p, s, end, &walks, w);
  else if (w.time == s && p->held.lane) straight_steps(p, s, end, done = ptx_label(p, "done"), w);
  repeat(p, s, end, "1", w);
  if (done) ptx_place(p, done);
  p->walks = walks.before, p->held = around;
}

static bool has_ordered_fold(struct printer *p, const struct kir_stmt *loop) {
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
  repeat(p, s, end, "1", w);
  ptx_line(p, "bra %s", again);
}

static void serial_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  for (const struct kir_stmt *x = s->body.first; x; x = x->next) {
    if (x->kind == KIR_CARRY) ptx_mov(p, dtype_of(p, x->out[0]), ptx_val(p, x->out[0]), ptx_val(p, x->in[0]));
    if (x->kind == KIR_FOLD || x->kind == KIR_PREFIX) ptx_serial_start(p, x);
  }
  struct ptx_range r = ptx_range_of(p, s);
  begin_looking(p, s, &w);
  w.leave = ptx_label(p, "over"), w.active = NULL, w.serial = s, w.serial_lo = r.lo;
  if (!w.lane) w.time = s, w.time_end = r.hi;
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, s->var), r.lo);
  if (has_ordered_fold(p, s)) in_blocks(p, s, r, w);
  else steps(p, s, r.hi, w);
  ptx_place(p, w.leave);
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_FOLD || x->kind == KIR_PREFIX) ptx_serial_end(p, x);
}

/* A fold or prefix of the innermost loop around it. */
static void fold(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  if (!w->serial && w->tile) {
    const char *from_tile = ptx_own(p, OWN_LONG);
    ptx_line(p, "sub.s64 %s, %s, %s", from_tile, ptx_val(p, w->lane->var), w->tile);
    ptx_deal(p, w->lane, s, from_tile);
    return;
  }
  if (!w->serial) { ptx_accumulate(p, s); return; }
  const char *position = ptx_val(p, w->serial->var);
  if (strcmp(w->serial_lo, "0")) {
    const char *from_lo = ptx_own(p, OWN_LONG);
    ptx_line(p, "sub.s64 %s, %s, %s", from_lo, position, w->serial_lo);
    position = from_lo;
  }
  ptx_serial_step(p, s, position);
}

/* All new values are read before any carry changes. */
static void next(struct printer *p, const struct kir_stmt *s) {
  const char **from = arena_take(p->arena, (size_t)(s->n_in + 1) * sizeof *from);
  if (!from) { ptx_refuse(p, ""); return; }
  for (int i = 0; i < s->n_in; i++) {
    from[i] = ptx_val(p, s->in[i]);
    for (int j = 0; j < i; j++) {
      if (s->out[j] != s->in[i]) continue;
      weft_dtype d = dtype_of(p, s->in[i]);
      ptx_mov(p, d, from[i] = ptx_own_of(p, d), ptx_val(p, s->in[i]));
    }
  }
  for (int i = 0; i < s->n_in; i++) ptx_mov(p, dtype_of(p, s->in[i]), ptx_val(p, s->out[i]), from[i]);
}

static void par_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
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
static void swept_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  bool in_rows = has_lane(&s->body);
  struct ptx_range r = ptx_range_of(p, s);
  struct head h = open_loop(p, s, r, in_rows ? PTX_ROWS : PTX_LANES);
  w.rest = h.next, w.lo = r.lo;
  if (!in_rows) w.lane = s;
  ptx_block(p, &s->body, w);
  close_loop(p, s, h);
}

/* ---- Lane loops --------------------------------------------------------------------------------------------------------- */

static bool touches_shared(struct printer *p, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    if (((s->kind == KIR_LOAD || s->kind == KIR_STORE) && meets_others(p, s->buf)) || touches_shared(p, &s->body)) return true;
  return false;
}

static const struct kir_stmt *find_prefix(const struct kir_stmt *s) {
  while (s && s->kind != KIR_PREFIX) s = s->next;
  return s;
}

static void statement(struct printer *p, const struct kir_stmt *s, struct where w);

/* The statements from s up to a prefix, for lanes that take part; its values go into its results, which else are empty. */
static const struct kir_stmt *segment(struct printer *p, const struct kir_stmt *s, struct where w, bool is_first,
                                      const char *position, const char *n) {
  const struct kir_stmt *prefix = find_prefix(s);
  w.rest = ptx_label(p, "rest");
  if (prefix) ptx_start(p, prefix);
  ptx_line(p, "@!%s bra %s", w.active, w.rest);
  if (is_first) load_kept(p, w.lane, w.lo);
  for (; s != prefix; s = s->next) statement(p, s, w);
  for (int i = 0; prefix && i < prefix->n_out; i++)
    ptx_mov(p, dtype_of(p, prefix->in[i]), ptx_val(p, prefix->out[i]), ptx_val(p, prefix->in[i]));
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
  bool has_blocks = has_ordered_fold(p, s);
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
  repeat(p, s, b.to, "32", w);
  ptx_blocks_close(p, s, &b);
  ptx_blocks_meet(p, s, &b);
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
  repeat(p, s, end, "$lanes", w);
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
  repeat(p, s, r.hi, "$lanes", w);
  ptx_line(p, "bar.sync 0");
  ptx_add_kept(p, s, r.lo, r.hi);
}

/* In order, by the first thread. */
static void one_by_one(struct printer *p, const struct kir_stmt *s, struct ptx_range r, struct where w) {
  const char *others = ptx_label(p, "others");
  p->uses_first = true;
  ptx_line(p, "@!$first bra %s", others);
  ptx_line(p, "mov.s64 %s, %s", ptx_val(p, s->var), r.lo);
  repeat(p, s, r.hi, "1", w);
  ptx_place(p, others);
  if (touches_shared(p, &s->body)) ptx_line(p, "bar.sync 0");
}

/* A thread has one lane of it or none. */
static bool is_one_lane(struct printer *p, const struct kir_stmt *s, const char *end) {
  return p->held.is_straight && s->extent == KIR_N && !strcmp(end, ptx_lin(p, p->held.lane->at[0]));
}

/* Whether there is another step is known before the barrier, where the threads wait for each other anyway. */
static void one_lane(struct printer *p, const struct kir_stmt *s, struct where w) {
  const char *skip = ptx_label(p, "none");
  ptx_line(p, "@!%s bra %s", p->held.is, skip);
  one_copy(p, s, "$lanes", w);
  ptx_place(p, skip);
  if (p->held.lane == s) ptx_step_held(p, p->held.more);
}

static void lane_loop(struct printer *p, const struct kir_stmt *s, struct where w) {
  struct ptx_range r = ptx_range_of(p, s);
  w.lane = s, w.lo = r.lo, w.serial = NULL;
  if (p->lane_loop) {
    p->lane_loop(p, s, r.hi, w);
    return;
  }
  if (survey_is_one_by_one(&p->survey, s)) {
    one_by_one(p, s, r, w);
    return;
  }
  if (p->survey.is_dealt ? has_ordered_fold(p, s) : p->survey.is_ordered && !find_prefix(s->body.first)) {
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
    else repeat(p, s, r.hi, "$lanes", w);
    ptx_meet(p, s);
  }
  if (touches_shared(p, &s->body)) ptx_line(p, "bar.sync 0");
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------------- */

static void if_region(struct printer *p, const struct kir_stmt *s, struct where w) {
  w.rest = ptx_label(p, "endif"), w.active = NULL;
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_YIELD) ptx_mov(p, dtype_of(p, x->out[0]), ptx_val(p, x->out[0]), ptx_val(p, x->in[1]));
  ptx_line(p, "@!%s bra %s", ptx_val(p, s->in[0]), w.rest);
  ptx_block(p, &s->body, w);
  ptx_place(p, w.rest);
}

static void statement(struct printer *p, const struct kir_stmt *s, struct where w) {
  switch ((enum kir_kind)s->kind) {
  case KIR_OP: instruction(p, s); break;
  case KIR_LOAD: load(p, s, &w); break;
  case KIR_STORE: store(p, s, &w); break;
  case KIR_PAR:
    if (s == p->survey.owned) swept_loop(p, p->survey.swept, w);
    else par_loop(p, s, w);
    break;
  case KIR_SERIAL: serial_loop(p, s, w); break;
  case KIR_LANE: lane_loop(p, s, w); break;
  case KIR_IF: if_region(p, s, w); break;
  case KIR_YIELD: ptx_mov(p, dtype_of(p, s->out[0]), ptx_val(p, s->out[0]), ptx_val(p, s->in[0])); break;
  case KIR_NEXT: next(p, s); break;
  case KIR_UNTIL: ptx_line(p, "@%s bra %s", ptx_val(p, s->in[0]), w.leave); break;
  case KIR_FOLD: case KIR_PREFIX: fold(p, s, &w); break;
  case KIR_KEEP: keep(p, s, &w); break;
  case KIR_CHECK: check(p, s, &w); break;
  case KIR_CARRY: case KIR_LOCALS: case KIR_KINDS: break; /* carries are set where their loop begins, locals have their place */
  }
}

enum { MOST_QUOTIENTS = 16 };

static bool is_quotient(struct printer *p, const struct kir_stmt *s) {
  return s && s->kind == KIR_OP && s->op == KIR_DIV && dtype_of(p, s->in[1]) == WEFT_F32;
}

/* Quotients by one number that follow each other, at once; the last of them. NULL: it stands alone, and is a statement like others.
 * In a loop over time, which waits for it, one alone goes so too: the call that div.rn may be takes registers, and predicates, from
 * all that lives across it; and beside wgmma, which the compiler has wait for each other where there are calls. */
static const struct kir_stmt *quotients(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  struct ptx_quotient q[MOST_QUOTIENTS];
  const struct kir_stmt *last = s;
  int n = 0;
  for (const struct kir_stmt *x = s; n < MOST_QUOTIENTS && is_quotient(p, x) && x->in[1] == s->in[1]; last = x, x = x->next) {
    for (const struct kir_stmt *y = s; y != x; y = y->next) if (y->out[0] == x->in[0]) n = MOST_QUOTIENTS;
    if (n == MOST_QUOTIENTS) return NULL;
    q[n++] = (struct ptx_quotient){ ptx_val(p, x->in[0]), ptx_val(p, x->in[1]), ptx_val(p, x->out[0]), ptx_is_of_number(p, x), 0 };
  }
  if (n < 2 && !(w->time && p->held.is_straight) && !p->has_groups) return NULL;
  ptx_quotients(p, n, q);
  for (const struct kir_stmt *x = s; x != last->next; x = x->next) ptx_note_made(p, x);
  return last;
}

void ptx_block(struct printer *p, const struct kir_block *b, struct where w) {
  for (const struct kir_stmt *s = b->first, *last; s && !p->why; s = last->next) {
    last = is_quotient(p, s) ? quotients(p, s, &w) : NULL;
    if (!last) statement(p, last = s, w);
  }
}
