/* block.c -- runs of statements between loops. Each statement is emitted once for every copy of the lanes before the
 * next one is, so that the copies run side by side. */
#include "backend/x86/gen.h"

static void mark(struct gen *g, const struct kir_stmt *s) {
  if (!gen_grow(g, (void **)&g->marks, &g->mark_room, g->n_marks + 1, sizeof *g->marks)) return;
  g->marks[g->n_marks++] = (struct mark){ (uint32_t)g->e.n, s };
}

/* ---- next ---- */

static void store_home(struct gen *g, int dtype, int reg, struct rm m) {
  if (reg >= MASK_BASE) vec(enc(g), I_KMOV_TO, 16, reg - MASK_BASE, 0, m);
  else vec(enc(g), I_MOVUPS_TO, width_of(g, dtype), reg, 0, m);
}

static void assign_scalar(struct gen *g, int carry, int val, int32_t saved) {
  if (saved >= 0) gpr(enc(g), G_MOV, RAX, in_frame(saved));
  else scalar_load(g, RAX, val);
  gpr(enc(g), G_STORE, RAX, in_frame(g->vals[carry].home));
}

static void load_home(struct gen *g, int dtype, int reg, struct rm m) {
  if (reg >= MASK_BASE) vec(enc(g), I_KMOV, 16, reg - MASK_BASE, 0, m);
  else vec(enc(g), I_MOVUPS, width_of(g, dtype), reg, 0, m);
}

static bool is_in_mask(const struct gen *g, int val) { return g->vals[val].domain == BOOL && g->e.evex; }

/* The home of val, or its register if it has one, becomes r; where the lanes of the mask act. */
void assign_home(struct gen *g, int val, int copy, int r, int mask) {
  const struct gen_value *v = &g->vals[val];
  int to = v->pin >= 0 ? v->pin + copy : -1;
  if (mask < 0 && to >= 0) { move_vector(g, width_of(g, v->dtype), to, r); return; }
  if (mask < 0) { store_home(g, v->dtype, r, home_of(g, val, copy)); return; }
  if (to < 0) {
    to = is_in_mask(g, val) ? temp_mask(g) + MASK_BASE : temp(g);
    load_home(g, v->dtype, to, home_of(g, val, copy));
  }
  blend(g, v->dtype, mask, copy, to, r);
  if (v->pin < 0) store_home(g, v->dtype, to, home_of(g, val, copy));
}

/* carry = val, or what was saved of it. */
static void assign_carry(struct gen *g, int carry, int val, int32_t saved) {
  struct gen_value *c = &g->vals[carry];
  if (c->domain == SCALAR) { assign_scalar(g, carry, val, saved); return; }
  for (int u = 0; u < (c->lane ? g->copies : 1); u++) {
    if (saved < 0 && c->pin >= 0 && g->where[id_of(g, val, u)] == c->pin + u) continue;
    int r = saved < 0 ? in_reg(g, val, u) : is_in_mask(g, carry) ? temp_mask(g) + MASK_BASE : temp(g);
    if (saved >= 0) load_home(g, c->dtype, r, in_frame(saved + u * g->vector_bytes));
    assign_home(g, carry, u, r, g->now->mask);
    g->locked = g->temps = 0;
  }
}

static int32_t save_carry(struct gen *g, int carry) {
  struct gen_value *c = &g->vals[carry];
  int32_t at = c->domain == SCALAR ? slot_scalar(g) : slot_vector(g, COPIES);
  if (c->domain == SCALAR) {
    scalar_load(g, RAX, carry);
    gpr(enc(g), G_STORE, RAX, in_frame(at));
  }
  for (int u = 0; c->domain != SCALAR && u < (c->lane ? g->copies : 1); u++) {
    store_home(g, c->dtype, in_reg(g, carry, u), in_frame(at + u * g->vector_bytes));
    g->locked = 0;
  }
  return at;
}

/* All carries change at once: those first that no other pending one reads. In a cycle one is saved before it
 * changes. */
static void emit_next(struct gen *g, const struct kir_stmt *s) {
  bool done[MAX_NEXTS] = { false };
  int32_t saved[MAX_NEXTS];
  if (s->n_in > MAX_NEXTS) { gen_cannot(g, "too many carries in a loop"); return; }
  for (int i = 0; i < MAX_NEXTS; i++) saved[i] = -1;
  for (int left = s->n_in; left;) {
    int at = -1, stuck = -1;
    for (int i = 0; i < s->n_in && at < 0; i++) {
      bool is_read = false;
      for (int j = 0; j < s->n_in; j++) is_read |= !done[j] && j != i && s->in[j] == s->out[i] && saved[i] < 0;
      if (!done[i] && !is_read) at = i;
      if (!done[i] && stuck < 0) stuck = i;
    }
    if (at < 0) {
      saved[stuck] = save_carry(g, s->out[stuck]);
      continue;
    }
    int32_t from = -1;
    for (int j = 0; j < s->n_in; j++)
      if (s->out[j] == s->in[at]) from = saved[j];
    if (s->in[at] != s->out[at]) assign_carry(g, s->out[at], s->in[at], from);
    done[at] = true;
    left--;
  }
}

/* Other values are stored to their rows when they are defined. */
static void emit_keep(struct gen *g, const struct kir_stmt *s) {
  for (int i = 0; i < s->n_in; i++)
    if (g->vals[s->in[i]].of_loop && g->vals[s->in[i]].lane) keep_value(g, s->in[i]);
}

static void emit_until(struct gen *g, const struct kir_stmt *s) {
  if (g->lane_loop >= 0) {
    if (g->now->mask != g->active_at_loop) active_drop(g, g->active_at_loop, s->in[0], g->now->mask);
    active_drop(g, g->now->mask, s->in[0], g->now->mask);
    jump_if_none(g, g->active_at_loop, g->leave);
    return;
  }
  bool_test(g, in_reg(g, s->in[0], 0));
  release(g);
  jump_if(enc(g), CC_NE, g->leave);
}

/* The home of an if region's value: set to the other value before the region, to its own inside, for lanes that act. */
static void set_yield(struct gen *g, const struct kir_stmt *s, int val, int mask) {
  struct gen_value *v = &g->vals[s->out[0]];
  if (v->domain == SCALAR) {
    scalar_load(g, RAX, val);
    gpr(enc(g), G_STORE, RAX, in_frame(v->home));
    return;
  }
  for (int c = 0; c < (v->lane ? g->copies : 1); c++) {
    assign_home(g, s->out[0], c, in_reg(g, val, c), mask);
    g->locked = g->temps = 0;
  }
}

/* Outside lanes an if is a branch; inside it is a mask, and a branch if no lane acts. */
static void emit_if(struct gen *g, const struct kir_stmt *s) {
  int skip = label_new(enc(g)), outer = g->active, n_active = g->n_active;
  mark(g, s);
  registers_clear(emission_of(g));
  for (const struct kir_stmt *y = s->body.first; y; y = y->next)
    if (y->kind == KIR_YIELD) set_yield(g, y, y->in[1], -1);
  if (g->lane_loop >= 0) {
    g->active = active_and(g, s->in[0], skip);
  } else {
    bool_test(g, in_reg(g, s->in[0], 0));
    jump_if(enc(g), CC_E, skip);
  }
  registers_clear(emission_of(g));
  emit_block(g, &s->body);
  label_here(enc(g), skip);
  g->active = outer;
  g->n_active = n_active;
}

/* If false it is reported, and the rest of the block is skipped; in lanes, by those that fail. */
static void emit_check(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int ok = label_new(e);
  if (g->now->mask_after >= 0) {
    check_lanes(g, s, g->now->site, g->now->mask, g->now->mask_after);
    release(g);
    return;
  }
  if (g->lane_loop >= 0) {
    check_all(g, s);
    release(g);
    return;
  }
  bool_test(g, in_reg(g, s->in[0], 0));
  jump_if(e, CC_NE, ok);
  check_place(g, s);
  scalar_load(g, RAX, s->in[1]);
  check_report(g, g->now->site);
  jump_to(e, g->rest);
  label_here(e, ok);
  release(g);
}

/* ---- Statements ---- */

static void emit_copy(struct gen *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  struct gen_access *a = t->access >= 0 ? &g->accesses[t->access] : NULL;
  switch ((enum kir_kind)s->kind) {
  case KIR_OP: if (!scalar_op(g, s)) vector_op(g, s); break;
  case KIR_LOAD: load_op(g, s, a); break;
  case KIR_STORE: store_op(g, s, a); break;
  case KIR_FOLD:
    if (g->short_loop >= 0) short_rows_fold(g, s);
    else fold_step(g, s);
    break;
  case KIR_NEXT: emit_next(g, s); break;
  case KIR_KEEP: emit_keep(g, s); break;
  case KIR_YIELD: set_yield(g, s, s->in[0], t->mask); break;
  case KIR_CHECK: emit_check(g, s); break;
  case KIR_UNTIL: emit_until(g, s); break;
  case KIR_IF: aside_op(g, s); break;
  case KIR_PAR: case KIR_SERIAL: case KIR_LANE: case KIR_CARRY: case KIR_PREFIX: case KIR_LOCALS: case KIR_KINDS: break;
  }
  registers_end(emission_of(g));
}

static void emit_step(struct gen *g, int at, bool is_last) {
  const struct gen_step *t = &g->steps[at];
  if (t->is_dead) return;
  mark(g, t->s);
  g->now = t;
  g->now_at = at;
  g->now_copies = step_copies(emission_of(g), t);
  int done = straight_store(g, t, is_last);
  for (int c = 0; c < g->now_copies && !g->why && !g->no_memory; c++) {
    g->now_copy = c;
    g->want = has_result(t->s) && g->vals[t->s->out[0]].want >= 0 ? g->vals[t->s->out[0]].want + c : -1;
    emit_copy(g, t);
  }
  if (done >= 0) label_here(enc(g), done);
}

void run_emit(struct gen *g, int n) {
  for (int i = 0; i < n && !g->why && !g->no_memory; i++) emit_step(g, i, i + 1 == n);
}

static void emit_run(struct gen *g, const struct kir_stmt *first, bool hoisted) {
  int n = steps_collect(emission_of(g), first, hoisted);
  const struct kir_stmt *next = NULL; /* if all lanes take part */
  for (int i = 0; i < n; i++)
    if (g->steps[i].s->kind == KIR_NEXT && g->steps[i].mask < 0) next = g->steps[i].s;
  registers_clear(emission_of(g));
  steps_find_next_uses(emission_of(g), n);
  if (next) steps_lend_carries(emission_of(g), n, next, true);
  run_emit(g, n);
  if (next) {
    for (int i = 0; i < next->n_in; i++)
      for (int c = 0; g->vals[next->in[i]].want >= 0 && c < g->copies; c++) g->where[id_of(g, next->in[i], c)] = -1;
    steps_lend_carries(emission_of(g), n, next, false);
  }
  registers_clear(emission_of(g));
}

void emit_row(struct gen *g, const struct kir_block *b, bool fixed) {
  int n = steps_collect_row(emission_of(g), b, 0, false, fixed);
  registers_clear(emission_of(g));
  steps_find_next_uses(emission_of(g), n);
  run_emit(g, n);
  registers_clear(emission_of(g));
}

static void emit_apart(struct gen *g, const struct kir_stmt *s) {
  int mask = g->lane_loop >= 0 ? mask_for(emission_of(g), s, g->active) : -1;
  mark(g, s);
  if (s->kind == KIR_PREFIX) prefix_step(g, s, mask);
  else if (fold_is_across(&g->loops[g->loop], s)) across_step(g, s, mask);
  else fold_by_fn(g, s, mask);
}

void emit_block(struct gen *g, const struct kir_block *b) {
  int outer = g->rest, active = g->active, n_active = g->n_active;
  g->rest = label_new(enc(g));
  for (const struct kir_stmt *s = b->first; s && !g->why && !g->no_memory;) {
    if ((s->kind == KIR_IF && !aside_of(g, s)) || is_apart(emission_of(g), s)) {
      if (s->kind == KIR_IF) emit_if(g, s);
      else emit_apart(g, s);
      s = s->next;
    } else if (ends_run(emission_of(g), s)) {
      emit_loop(g, s);
      s = s->next;
    } else {
      emit_run(g, s, false);
      while (s && !ends_run(emission_of(g), s)) s = s->next;
    }
  }
  label_here(enc(g), g->rest);
  g->rest = outer;
  g->active = active;
  g->n_active = n_active;
}

void emit_hoisted(struct gen *g, struct gen_loop *l) {
  struct encoder *e = enc(g);
  int outer = g->loop, rest = g->rest, done = label_new(e), fail = label_new(e);
  if (!l->n_hoisted) return;
  g->loop = (int)(l - g->loops);
  g->rest = fail;
  g->memory_cursor = l->first_memory;
  g->check_cursor = l->first_check;
  gpr(e, G_MOV, RAX, in_frame(l->extent)); /* without lanes nothing is loaded or checked */
  gpr(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_LE, done);
  emit_run(g, l->stmt->body.first, true);
  if (l->has_check) {
    jump_to(e, done);
    label_here(e, fail);
    gpr_store_imm(e, in_frame(l->extent), 0);
  }
  label_here(e, done);
  g->loop = outer;
  g->rest = rest;
}
