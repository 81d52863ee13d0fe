/* nest.c -- statements of a kernel: instructions, loads, stores, checks, conditions, and the blocks they stand in. ptx_nest.h
 * says where the loops are. */
#include "backend/cuda/ptx_nest.h"
#include <string.h>

static void owns(struct printer *p, const struct kir_stmt *s) {
  const struct kir_stmt *blocks = survey_blocks_of(p->k, s->in[0]);
  struct ptx_range r = { "0", NULL };
  if (blocks == p->survey.owned) r.hi = ptx_lin(p, blocks->at[0]);
  else r = nest_block_range(p, s->in[0]);
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
  weft_dtype d = ptx_dtype(p, s->in[s->n_in - 1]);
  bool on_bits = s->op == KIR_CAST || s->op == KIR_BITS || s->op == KIR_NEG || s->op == KIR_ABS;
  for (int i = 0; i < s->n_in; i++) in[i] = on_bits ? ptx_in_register(p, d, s->in[i]) : ptx_val(p, s->in[i]);
  if (s->op == KIR_CAST && ptx_is_narrow(p, s->in[0], (weft_dtype)s->dtype)) ptx_mov(p, d, dst, in[0]);
  else if (s->op == KIR_CAST) ptx_cast(p, d, (weft_dtype)s->dtype, dst, in[0], ptx_is_made(p, s->in[0]));
  else if (s->op == KIR_BITS) ptx_line(p, "mov.%s %s, %s", ptx_bits(d), dst, in[0]);
  else ptx_instruction(p, (enum kir_op)s->op, d, dst, in);
  if (s->op == KIR_CAST) p->narrow[s->out[0]] = s->dtype;
  ptx_note_made(p, s);
}

bool nest_meets_others(struct printer *p, int buf) { return p->survey.is_cooperative && p->survey.bufs[buf].is_shared; }

void ptx_load_plain(struct printer *p, int buf, int value, const char *at) {
  const char *space = ptx_space(p, buf);
  if (p->k->bufs[buf].kind == KIR_IN) space = ".global.nc"; /* nobody stores before it: it may go ahead of stores elsewhere */
  ptx_load_value(p, space, (weft_dtype)p->k->bufs[buf].dtype, value, at);
}

static bool early_load(struct printer *p, const struct kir_stmt *s) {
  for (int i = 0; p->early.turn >= 0 && i < p->early.n; i++) {
    if (p->early.s[i] != s) continue;
    if (i < PTX_EARLY && p->early.words[i].parts) nest_take_word(p, i);
    else ptx_mov(p, ptx_dtype(p, s->out[0]), ptx_val(p, s->out[0]), p->early.reg[i][p->early.turn]);
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
  if (!w->lane && nest_meets_others(p, s->buf)) ptx_line(p, "bar.sync 0");
}

/* Puts a combining store off until all copies of the body have come to theirs: ptx_combine_meeting does them together. */
static void meet(struct printer *p, const struct kir_stmt *s) {
  struct ptx_meeting *m = &p->meeting;
  weft_dtype d = ptx_dtype(p, s->in[0]);
  ptx_line(p, "mov.s64 %s, %s", m->at[m->n], ptx_address(p, s->buf, s->at));
  ptx_mov(p, d, m->v[m->n], ptx_val(p, s->in[0]));
  ptx_line(p, "mov.pred %s, 1", m->is[m->n++]);
}

static void store(struct printer *p, const struct kir_stmt *s, const struct where *w) {
  weft_dtype d = (weft_dtype)p->k->bufs[s->buf].dtype;
  const char *space = ptx_space(p, s->buf), *guard = p->guard;
  const char *others = w->lane || s->op == KIR_SET ? NULL : ptx_label(p, "others");
  bool meets = !w->lane && nest_meets_others(p, s->buf);
  if (p->meeting.store == s) { meet(p, s); return; }
  if (ptx_chain_store(p, s) || ptx_walk_store(p, s)) return;
  if (meets) ptx_line(p, "bar.sync 0");
  if (others) ptx_line(p, "@!$first bra %s", others);
  else if (!w->lane) p->guard = "$first";
  p->uses_first |= !w->lane;
  const char *at = ptx_store_held(p, s), *v = ptx_in_register(p, ptx_dtype(p, s->in[0]), s->in[0]);
  if (!at) at = ptx_walk_address(p, s);
  if (!at) at = ptx_address(p, s->buf, s->at);
  if (s->op == KIR_SET) ptx_store_value(p, space, d, at, s->in[0]), ptx_move_held(p, s);
  else if (survey_is_own(&p->survey, s->buf)) ptx_combine_own(p, s->buf, (enum kir_op)s->op, at, v);
  else if (p->survey.bufs[s->buf].private_op != KIR_OPS) ptx_combine_copy(p, s->buf, (enum kir_op)s->op, at, v);
  else ptx_combine(p, space, (enum kir_op)s->op, d, at, v);
  bool is_exchanged = s->op == KIR_MUL && !survey_is_own(&p->survey, s->buf); /* min and max soon find nothing to change */
  if (is_exchanged) p->contended = 1 + s->buf;
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
  const char *ok = ptx_val(p, s->in[0]);
  if (w->alone) {
    p->n_checks++;
    ptx_line(p, "@!%s bra %s", ok, w->alone);
    return;
  }
  const char *pass = ptx_label(p, "pass");
  ptx_line(p, "@%s bra %s", ok, pass);
  found(p, s);
  if (w->active) ptx_line(p, "and.pred %s, %s, %s", w->active, w->active, ok);
  ptx_line(p, "bra %s", w->rest);
  ptx_place(p, pass);
}

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
    weft_dtype d = ptx_dtype(p, s->in[i]);
    ptx_store(p, "", d, kept_address(p, ptx_kept_row(p, s->in[i]), w->lane, w->lo), ptx_in_register(p, d, s->in[i]));
  }
}

void nest_load_kept(struct printer *p, const struct kir_stmt *loop, const char *lo) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    int v = p->plan->rows[r].of;
    if (p->plan->rows[r].kind != PTX_KEEP || survey_keeps(loop, v) || !survey_uses(&loop->body, v)) continue;
    ptx_load(p, "", ptx_dtype(p, v), ptx_val(p, v), kept_address(p, r, loop, lo));
  }
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
      weft_dtype d = ptx_dtype(p, s->in[i]);
      ptx_mov(p, d, from[i] = ptx_own_of(p, d), ptx_val(p, s->in[i]));
    }
  }
  for (int i = 0; i < s->n_in; i++) ptx_mov(p, ptx_dtype(p, s->in[i]), ptx_val(p, s->out[i]), from[i]);
}

static void if_region(struct printer *p, const struct kir_stmt *s, struct where w) {
  w.rest = ptx_label(p, "endif"), w.active = NULL;
  for (const struct kir_stmt *x = s->body.first; x; x = x->next)
    if (x->kind == KIR_YIELD) ptx_mov(p, ptx_dtype(p, x->out[0]), ptx_val(p, x->out[0]), ptx_val(p, x->in[1]));
  ptx_line(p, "@!%s bra %s", ptx_val(p, s->in[0]), w.rest);
  ptx_block(p, &s->body, w);
  ptx_place(p, w.rest);
}

void nest_statement(struct printer *p, const struct kir_stmt *s, struct where w) {
  switch ((enum kir_kind)s->kind) {
  case KIR_OP: instruction(p, s); break;
  case KIR_LOAD: load(p, s, &w); break;
  case KIR_STORE: store(p, s, &w); break;
  case KIR_PAR:
    if (s == p->survey.owned) nest_swept_loop(p, p->survey.swept, w);
    else nest_par_loop(p, s, w);
    break;
  case KIR_SERIAL: nest_serial_loop(p, s, w); break;
  case KIR_LANE: nest_lane_loop(p, s, w); break;
  case KIR_IF: if_region(p, s, w); break;
  case KIR_YIELD: ptx_mov(p, ptx_dtype(p, s->out[0]), ptx_val(p, s->out[0]), ptx_val(p, s->in[0])); break;
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
  return s && s->kind == KIR_OP && s->op == KIR_DIV && ptx_dtype(p, s->in[1]) == WEFT_F32;
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
    if (!last) nest_statement(p, last = s, w);
  }
}
