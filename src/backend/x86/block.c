/* block.c -- runs of statements between loops. Each statement is emitted once for every copy of the lanes before the
 * next one is, so that the copies run side by side. */
#include "backend/x86/gen.h"

/* Ends a run: a loop, a branch, or what takes turns with itself. */
static bool is_apart(const struct gen *g, const struct kir_stmt *s) {
  if (s->kind == KIR_PREFIX) return true;
  return s->kind == KIR_FOLD && (s->op == KIR_CALL || fold_is_across(&g->loops[g->loop], s));
}
static bool ends_run(const struct gen *g, const struct kir_stmt *s) {
  if (s->kind == KIR_IF) return !aside_of(g, s);
  return s->kind == KIR_PAR || s->kind == KIR_SERIAL || s->kind == KIR_LANE || is_apart(g, s);
}

static bool reads_memory(const struct kir_stmt *s) { return s->kind == KIR_LOAD || s->kind == KIR_STORE; }

static void mark(struct gen *g, const struct kir_stmt *s) {
  if (!gen_grow(g, (void **)&g->marks, &g->mark_room, g->n_marks + 1, sizeof *g->marks)) return;
  g->marks[g->n_marks++] = (struct mark){ (uint32_t)g->e.n, s };
}

/* ---- Next uses ---- */

static bool is_hoisted(const struct gen *g, const struct kir_stmt *s, int site) {
  if (s->kind == KIR_CHECK) return g->hoisted_check[site];
  return (s->kind == KIR_OP || s->kind == KIR_LOAD) && g->vals[s->out[0]].hoisted;
}

/* The mask that a statement acts under. State of a loop only heeds what has happened since its iteration began. */
static int mask_for(const struct gen *g, const struct kir_stmt *s, int active) {
  bool is_state = s->kind == KIR_NEXT || ((s->kind == KIR_FOLD || s->kind == KIR_PREFIX) && g->loop != g->lane_loop);
  switch (s->kind) {
  case KIR_LOAD: case KIR_STORE: case KIR_FOLD: case KIR_PREFIX: case KIR_NEXT: case KIR_YIELD: case KIR_CHECK: case KIR_UNTIL:
    return is_state && active == g->active_at_loop && !g->loops[g->loop].has_until ? -1 : active;
  default: return -1;
  }
}

static void pass_over(struct gen *g, const struct kir_block *b) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    g->memory_cursor += reads_memory(s);
    g->check_cursor += s->kind == KIR_CHECK;
    pass_over(g, &s->body);
  }
}

/* The statements up to the next loop or branch; of those hoisted, all: nothing inside a branch is. A check in lanes gives
 * the rest of the block another mask, or is expected to hold for all of them. */
static int collect(struct gen *g, const struct kir_stmt *s, bool hoisted) {
  int n = 0, active = g->active;
  bool in_lanes = g->lane_loop >= 0 && !hoisted;
  for (; s && (hoisted || !ends_run(g, s)); s = s->next) {
    pass_over(g, &s->body);
    int access = reads_memory(s) ? g->access_of[g->memory_cursor++] : -1;
    int site = s->kind == KIR_CHECK ? g->check_cursor++ : -1;
    if (ends_run(g, s) || is_hoisted(g, s, site) != hoisted) continue;
    if (!gen_grow(g, (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int mask = in_lanes ? mask_for(g, s, active) : -1;
    if (in_lanes && s->kind == KIR_CHECK && (active >= 0 || g->careful < 0)) active = active_new(g);
    const struct kir_stmt *other = s->kind == KIR_OP ? g->vals[s->out[0]].stand_in : aside_of(g, s);
    g->steps[n++] = (struct gen_step){ .s = other ? other : s, .access = access, .site = site, .mask = mask, .mask_after = active };
  }
  g->active = active;
  return n;
}

static bool has_operands(const struct kir_stmt *s) { return s->kind != KIR_CARRY && s->kind != KIR_KEEP; }
static bool has_result(const struct kir_stmt *s) { return s->kind == KIR_OP || s->kind == KIR_LOAD || s->kind == KIR_IF; }

/* Whether the run itself gives its result a register. */
static bool defines(const struct gen *g, const struct kir_stmt *s) {
  return has_result(s) || (g->short_loop >= 0 && s->kind == KIR_FOLD);
}

static void set_next(struct gen *g, int val, int32_t at) {
  for (int c = 0; c < (g->vals[val].lane ? g->copies : 1); c++) g->next[val * COPIES + c] = at;
}

static void set_first_use(struct gen *g, int val) {
  if (g->upcoming[val] == NEVER) return;
  set_next(g, val, g->upcoming[val]);
  g->upcoming[val] = NEVER;
}

/* Nobody will read its result: it is left out, and does not use its operands. */
static bool is_dead(const struct gen *g, const struct gen_step *t) {
  if (!defines(g, t->s)) return t->s->kind == KIR_CARRY || t->s->kind == KIR_LOCALS;
  const struct gen_value *v = &g->vals[t->s->out[0]];
  return t->next_out == NEVER && !v->crosses && v->row < 0 && v->domain != SCALAR;
}

/* From the back: where each operand and result is used next within the run. */
static void find_next_uses(struct gen *g, int n) {
  for (int i = n - 1; i >= 0; i--) {
    struct gen_step *t = &g->steps[i];
    const struct kir_stmt *s = t->s;
    t->next_out = defines(g, s) ? g->upcoming[s->out[0]] : NEVER;
    t->is_dead = is_dead(g, t);
    if (t->is_dead || !has_operands(s)) continue;
    for (int j = 0; j < s->n_in && j < 3; j++) t->next_in[j] = g->upcoming[s->in[j]];
    for (int j = 0; j < s->n_in; j++) g->upcoming[s->in[j]] = i;
    if (t->mask >= 0) t->next_in[MASK_USE] = g->upcoming[t->mask];
    if (t->mask >= 0) g->upcoming[t->mask] = i;
  }
  for (int i = 0; i < n; i++) {
    const struct gen_step *t = &g->steps[i];
    if (t->is_dead || !has_operands(t->s)) continue;
    for (int j = 0; j < t->s->n_in; j++) set_first_use(g, t->s->in[j]);
    if (t->mask >= 0) set_first_use(g, t->mask);
  }
}

static bool uses(const struct kir_stmt *s, int val) {
  for (int i = 0; has_operands(s) && i < s->n_in; i++)
    if (s->in[i] == val) return true;
  return false;
}

static bool may_leave(const struct kir_stmt *s) { return s->kind == KIR_UNTIL || s->kind == KIR_CHECK; }

/* A carry that nobody reads after its next value is computed lends its register to that value. Who leaves before `next` reads
 * it: it stays what it is. */
static void lend_carries(struct gen *g, int n, const struct kir_stmt *next, bool on) {
  for (int i = 0; i < next->n_in; i++) {
    int carry = next->out[i], val = next->in[i], at = n - 1;
    struct gen_value *v = &g->vals[val];
    if (!on) {
      v->want = -1;
      continue;
    }
    if (g->vals[carry].pin < 0 || v->want >= 0 || v->of_loop || v->crosses) continue;
    if (v->region != g->vals[carry].region || v->lane != g->vals[carry].lane) continue;
    bool is_before = false;
    while (at >= 0 && !(has_result(g->steps[at].s) && g->steps[at].s->out[0] == val)) {
      const struct kir_stmt *s = g->steps[at].s;
      is_before |= s == next;
      at = uses(s, carry) || (is_before && may_leave(s)) ? -1 : at - 1;
    }
    if (at >= 0) v->want = g->vals[carry].pin;
  }
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
  registers_clear(g);
  for (const struct kir_stmt *y = s->body.first; y; y = y->next)
    if (y->kind == KIR_YIELD) set_yield(g, y, y->in[1], -1);
  if (g->lane_loop >= 0) {
    g->active = active_and(g, s->in[0], skip);
  } else {
    bool_test(g, in_reg(g, s->in[0], 0));
    jump_if(enc(g), CC_E, skip);
  }
  registers_clear(g);
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
  scalar_load(g, RDX, s->in[1]);
  check_report(g, g->now->site);
  jump_to(e, g->rest);
  label_here(e, ok);
  release(g);
}

/* ---- Statements ---- */

static void emit_copy(struct gen *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  struct gen_access *a = t->access >= 0 ? &g->accesses[t->access] : NULL;
  switch (s->kind) {
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
  default: break;
  }
  statement_end(g);
}

/* Of short rows: loads of what is the same in all of them, and sums over them. */
static bool is_for_all_rows(const struct gen *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  return s->kind == KIR_LOAD ? g->vals[s->out[0]].repeats : s->kind == KIR_STORE && g->accesses[t->access].owner != g->short_loop;
}

static int copies_of(const struct gen *g, const struct gen_step *t) {
  const struct kir_stmt *s = t->s;
  if (g->short_loop >= 0 && (s->kind == KIR_FOLD || !t->in_lanes)) return 1;
  if (g->short_loop >= 0 && is_for_all_rows(g, t)) return g->vectors;
  if (has_result(s)) return g->vals[s->out[0]].lane ? g->copies : 1;
  if (s->kind == KIR_STORE || s->kind == KIR_FOLD) return g->copies;
  return 1;
}

static void emit_step(struct gen *g, int at, bool is_last) {
  const struct gen_step *t = &g->steps[at];
  if (t->is_dead) return;
  mark(g, t->s);
  g->now = t;
  g->now_at = at;
  g->now_copies = copies_of(g, t);
  int done = straight_store(g, t, is_last);
  for (int c = 0; c < g->now_copies && !g->why && !g->no_memory; c++) {
    g->now_copy = c;
    g->want = has_result(t->s) && g->vals[t->s->out[0]].want >= 0 ? g->vals[t->s->out[0]].want + c : -1;
    emit_copy(g, t);
  }
  if (done >= 0) label_here(enc(g), done);
}

int run_prepare(struct gen *g, const struct kir_fn *fn, int memory) {
  int n = 0;
  for (const struct kir_stmt *s = fn->body.first; s; s = s->next) {
    if (!gen_grow(g, (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int access = reads_memory(s) ? g->access_of[memory++] : -1;
    g->steps[n++] = (struct gen_step){ .s = s, .access = access, .site = -1, .mask = -1, .mask_after = -1 };
  }
  for (int i = 0; i < fn->n_result; i++)
    if (!is_literal(g, fn->result[i])) g->upcoming[fn->result[i]] = n;
  find_next_uses(g, n);
  for (int i = 0; i < fn->n_result; i++) set_first_use(g, fn->result[i]);
  return n;
}

void run_emit(struct gen *g, int n) {
  for (int i = 0; i < n && !g->why && !g->no_memory; i++) emit_step(g, i, i + 1 == n);
}

static void emit_run(struct gen *g, const struct kir_stmt *first, bool hoisted) {
  int n = collect(g, first, hoisted);
  const struct kir_stmt *next = NULL; /* if all lanes take part */
  for (int i = 0; i < n; i++)
    if (g->steps[i].s->kind == KIR_NEXT && g->steps[i].mask < 0) next = g->steps[i].s;
  registers_clear(g);
  find_next_uses(g, n);
  if (next) lend_carries(g, n, next, true);
  run_emit(g, n);
  if (next) {
    for (int i = 0; i < next->n_in; i++)
      for (int c = 0; g->vals[next->in[i]].want >= 0 && c < g->copies; c++) g->where[id_of(g, next->in[i], c)] = -1;
    lend_carries(g, n, next, false);
  }
  registers_clear(g);
}

/* Whether a statement of a short row is done for each copy of the lanes. */
static bool is_of_lanes(const struct gen *g, const struct kir_stmt *s, bool in_lanes) {
  return s->kind != KIR_IF && has_result(s) ? g->vals[s->out[0]].lane : in_lanes;
}

static int collect_row(struct gen *g, const struct kir_block *b, int n, bool in_lanes, bool fixed) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE) n = collect_row(g, &s->body, n, true, fixed);
    if (s->kind == KIR_LANE || s->kind == KIR_KEEP) continue;
    if (!gen_grow(g, (void **)&g->steps, &g->step_room, n + 1, sizeof *g->steps)) return 0;
    int access = reads_memory(s) ? g->access_of[g->memory_cursor++] : -1;
    bool of_lanes = is_of_lanes(g, s, in_lanes), is_masked = of_lanes && s->kind != KIR_OP && s->kind != KIR_IF;
    if ((s->kind == KIR_OP && g->vals[s->out[0]].is_fixed) != fixed) continue;
    const struct kir_stmt *aside = aside_of(g, s);
    g->steps[n++] = (struct gen_step){ .s = aside ? aside : s, .access = access, .site = -1, .mask = is_masked ? g->row_mask : -1,
                                   .mask_after = -1, .in_lanes = of_lanes };
  }
  return n;
}

void emit_row(struct gen *g, const struct kir_block *b, bool fixed) {
  int n = collect_row(g, b, 0, false, fixed);
  registers_clear(g);
  find_next_uses(g, n);
  run_emit(g, n);
  registers_clear(g);
}

static void emit_apart(struct gen *g, const struct kir_stmt *s) {
  int mask = g->lane_loop >= 0 ? mask_for(g, s, g->active) : -1;
  mark(g, s);
  if (s->kind == KIR_PREFIX) prefix_step(g, s, mask);
  else if (fold_is_across(&g->loops[g->loop], s)) across_step(g, s, mask);
  else fold_by_fn(g, s, mask);
}

void emit_block(struct gen *g, const struct kir_block *b) {
  int outer = g->rest, active = g->active, n_active = g->n_active;
  g->rest = label_new(enc(g));
  for (const struct kir_stmt *s = b->first; s && !g->why && !g->no_memory;) {
    if ((s->kind == KIR_IF && !aside_of(g, s)) || is_apart(g, s)) {
      if (s->kind == KIR_IF) emit_if(g, s);
      else emit_apart(g, s);
      s = s->next;
    } else if (ends_run(g, s)) {
      emit_loop(g, s);
      s = s->next;
    } else {
      emit_run(g, s, false);
      while (s && !ends_run(g, s)) s = s->next;
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
