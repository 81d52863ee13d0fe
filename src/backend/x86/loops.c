/* loops.c -- serial and par loops: counters and addresses are in the frame, carries and folds of an innermost loop in
 * registers, as many as there are. loops.h says where lane loops are. */
#include "backend/x86/loops.h"

enum { TREE_FREE = 4 }; /* registers that a tree needs besides */

int pin_run(struct gen *g, int n, int leave_free) {
  int total = g->n_vregs, in_use = __builtin_popcountll(g->pinned & 0xFFFFFFFFu);
  if (total - in_use - n < leave_free || (g->no_pins && leave_free > TREE_FREE)) return -1;
  for (int first = 0, r = 0; r < total; r++) {
    if (g->pinned >> r & 1) first = r + 1;
    else if (r - first + 1 == n) {
      for (int i = first; i <= r; i++) pin(g, i);
      return first;
    }
  }
  return -1;
}

static int carry_copies(const struct gen *g, const struct gen_value *c) { return c->lane ? g->copies : 1; }

/* Beside lanes, and where nothing inside would miss the register. */
static bool may_pin(const struct gen *g, const struct gen_value *c) {
  return c->domain == VECTOR && (c->lane || !g->loops[c->loop].has_inner);
}

static void enter_carry(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  struct gen_value *c = &g->vals[s->out[0]];
  if (c->domain == SCALAR) {
    scalar_load(g, RAX, s->in[0]);
    gpr(e, G_STORE, RAX, in_frame(c->home));
    return;
  }
  int n = carry_copies(g, c);
  registers_clear(emission_of(g)); /* what is pinned next must not be a cached copy of something else */
  c->pin = may_pin(g, c) ? pin_run(g, n, FREE_WANTED) : -1;
  for (int u = 0; u < n; u++) {
    int r = in_reg(g, s->in[0], u);
    if (c->pin >= 0) {
      move_vector(g, width_of(g, c->dtype), c->pin + u, r);
      g->where[id_of(g, s->out[0], u)] = (int8_t)(c->pin + u);
      g->holder[c->pin + u] = id_of(g, s->out[0], u);
    } else if (r >= MASK_BASE) {
      vec(e, I_KMOV_TO, 16, r - MASK_BASE, 0, home_of(g, s->out[0], u));
    } else {
      vec(e, I_MOVUPS_TO, width_of(g, c->dtype), r, 0, home_of(g, s->out[0], u));
    }
    g->locked = 0;
  }
}

static void leave_carry(struct gen *g, const struct kir_stmt *s) {
  struct gen_value *c = &g->vals[s->out[0]];
  for (int u = 0; c->pin >= 0 && u < carry_copies(g, c); u++) {
    int r = c->pin + u;
    vec(enc(g), I_MOVUPS_TO, width_of(g, c->dtype), r, 0, home_of(g, s->out[0], u));
    g->where[id_of(g, s->out[0], u)] = -1;
    g->holder[r] = -1;
    unpin(g, r);
  }
  c->pin = -1;
}

static void each_carry(struct gen *g, const struct gen_loop *l, void (*act)(struct gen *, const struct kir_stmt *)) {
  registers_clear(emission_of(g));
  for (const struct kir_stmt *s = l->stmt->body.first; s && s->kind == KIR_CARRY; s = s->next) act(g, s);
  registers_clear(emission_of(g));
}

static bool is_fn(const struct gen_fold *f) { return f->stmt->op == KIR_CALL; }
bool has_fn(const struct gen_loop *l) {
  for (int f = 0; f < l->n_folds; f++)
    if (is_fn(&l->folds[f])) return true;
  return false;
}

static void pin_folds(struct gen *g, struct gen_loop *l) {
  for (int f = 0; f < l->n_folds; f++)
    l->folds[f].pin = (l->in_lane || !l->has_inner) && !is_fn(&l->folds[f])
                        ? pin_run(g, fold_copies(g, l, &l->folds[f]), FREE_WANTED) : -1;
}

void unpin_folds(struct gen *g, struct gen_loop *l) {
  for (int f = 0; f < l->n_folds; f++) {
    for (int i = 0; l->folds[f].pin >= 0 && i < fold_copies(g, l, &l->folds[f]); i++) unpin(g, l->folds[f].pin + i);
    l->folds[f].pin = -1;
  }
}

/* The loop may keep its counter and addresses in general registers: nothing inside needs them. */
static bool is_innermost(const struct gen_loop *l) { return l->stmt->kind == KIR_SERIAL && !l->has_inner; }

static void take_pointers(struct gen *g, const struct gen_loop *l) {
  int n = 0;
  for (int i = l->accesses; i >= 0 && n < POINTERS; i = g->accesses[i].next) {
    g->accesses[i].reg = (int8_t)pointer_pool[n++];
    gpr(enc(g), G_MOV, g->accesses[i].reg, in_frame(g->accesses[i].pointer));
  }
}

static void drop_pointers(struct gen *g, const struct gen_loop *l) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) g->accesses[i].reg = -1;
}

/* cancel_is_set */
void poll_cancel(struct gen *g) {
  struct encoder *e = enc(g);
  int go = label_new(e);
  static const uint8_t cmp_rax_0[] = { 0x83, 0x38, 0 };
  static const uint8_t set_seen[] = { 0xc7, 0x40, offsetof(struct cancel, is_seen), 1, 0, 0, 0 }; /* mov dword [rax + ..], 1 */
  gpr(e, G_MOV, RAX, in_frame(FRAME_CANCEL));
  gpr(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, go);
  gpr(e, G_MOV, RAX, rm_at(RAX, offsetof(struct cancel, flag)));
  code_bytes(e, cmp_rax_0, 3);
  jump_if(e, CC_E, go);
  gpr(e, G_MOV, RAX, in_frame(FRAME_CANCEL));
  code_bytes(e, set_seen, sizeof set_seen);
  jump_to(e, g->finish);
  label_here(e, go);
}

void body_of(struct gen *g, int id) {
  struct gen_loop *l = &g->loops[id];
  int outer = g->loop;
  g->loop = id;
  g->loop_cursor = id + 1;
  g->memory_cursor = l->first_memory;
  g->check_cursor = l->first_check;
  emit_block(g, &l->stmt->body);
  g->loop = outer;
}

void iterate(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  bool fast = is_innermost(l);
  int again = label_new(e);
  if (fast) {
    gpr(e, G_MOV, R10, in_frame(l->var));
    gpr(e, G_MOV, R11, in_frame(l->limit));
    code_align(e, 32);
  }
  label_here(e, again);
  if (l->parent < 0 && !fast) poll_cancel(g);
  if (fast && g->vals[l->stmt->var].is_operand) gpr(e, G_STORE, R10, in_frame(l->var));
  body_of(g, id);
  step_accesses(g, l);
  if (fast) {
    gpr_imm(e, A_ADD, rm_reg(R10), 1);
    gpr(e, G_CMP, R10, rm_reg(R11));
  } else {
    gpr(e, G_MOV, RAX, in_frame(l->var));
    gpr_imm(e, A_ADD, rm_reg(RAX), 1);
    gpr(e, G_STORE, RAX, in_frame(l->var));
    gpr(e, G_CMP, RAX, in_frame(l->limit));
  }
  jump_if(e, CC_L, again);
  if (fast) gpr(e, G_STORE, R10, in_frame(l->var));
}

void loop_limit(struct gen *g, const struct gen_loop *l, int block) {
  struct encoder *e = enc(g);
  gpr(e, G_MOV, RAX, in_frame(l->last));
  if (block) {
    gpr(e, G_MOV, RCX, in_frame(l->var));
    gpr_imm(e, A_ADD, rm_reg(RCX), block);
    gpr(e, G_CMP, RAX, rm_reg(RCX));
    gpr(e, G_CMOV | CC_G, RAX, rm_reg(RCX));
  }
  gpr(e, G_STORE, RAX, in_frame(l->limit));
}

/* Where an until goes: the loop is at its end. */
static void leave_early(struct gen *g, const struct gen_loop *l, int all) {
  struct encoder *e = enc(g);
  jump_to(e, all);
  label_here(e, g->leave);
  gpr(e, G_MOV, RAX, in_frame(l->last));
  gpr(e, G_STORE, RAX, in_frame(l->var));
  label_here(e, all);
}

/* In blocks of 128 if anything is folded; else of as many steps as may go by until somebody looks whether to stop. */
static void run_blocks(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int block = label_new(e), total = label_new(e), all = label_new(e), outer_leave = g->leave;
  int unseen = is_innermost(l) ? UNSEEN_STEPS : UNSEEN_ROWS;
  if (l->n_folds) gpr_store_imm(e, in_frame(l->count), 0);
  label_here(e, block);
  loop_limit(g, l, l->n_folds ? KIR_COLUMN_BLOCK : unseen);
  folds_start(g, l);
  g->leave = label_new(e);
  if (l->has_turns && (g->active < 0 || g->active == g->tail)) turns_run(g, id);
  else iterate(g, id);
  if (l->has_until) leave_early(g, l, all);
  g->leave = outer_leave;
  if (l->n_folds) folds_to_memory(g, l);
  gpr(e, G_MOV, RAX, in_frame(l->var));
  gpr(e, G_CMP, RAX, in_frame(l->last));
  jump_if(e, CC_GE, total);
  if (l->n_folds) folds_push(g, l);
  poll_cancel(g);
  jump_to(e, block);
  label_here(e, total);
  if (l->n_folds) folds_total(g, l);
}

/* The most values of the lanes that a block has computed and not yet read for the last time. */
int count_live(const struct gen *g, const struct kir_block *b) {
  int at = 0, live = 0, most = 0, next = NEVER;
  for (const struct kir_stmt *s = b->first; s; s = s->next, at++) {
    for (int i = 0; i < s->n_in; i++) g->upcoming[s->in[i]] = at;
    if (s->kind == KIR_NEXT) next = at; /* what is used there last takes the register of its carry */
  }
  at = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next, at++) {
    bool has_result = s->kind == KIR_OP || s->kind == KIR_LOAD;
    for (int i = 0; i < s->n_in; i++) {
      const struct gen_value *v = &g->vals[s->in[i]];
      if (g->upcoming[s->in[i]] != at) continue;
      live -= v->lane && !v->of_loop && v->domain == VECTOR && v->is_counted;
      g->vals[s->in[i]].is_counted = false;
    }
    if (has_result && g->vals[s->out[0]].lane && g->vals[s->out[0]].domain == VECTOR && g->upcoming[s->out[0]] < next) {
      g->vals[s->out[0]].is_counted = true;
      live++;
    }
    if (live > most) most = live;
  }
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    for (int i = 0; i < s->n_in; i++) g->upcoming[s->in[i]] = NEVER;
  return most;
}

static bool is_invariant(const struct gen *g, int val) {
  const struct gen_value *v = &g->vals[val];
  return !v->lane && v->domain == VECTOR && !is_literal(g, val) && v->home >= 0;
}

static void pin_invariant(struct gen *g, int val, int leave_free) {
  int id = id_of(g, val, 0), reg = g->where[id] < 0 ? pin_run(g, 1, leave_free) : -1;
  if (reg < 0 || g->n_invariants == INVARIANTS) return;
  fill_register(g, val, 0, reg, in_memory(g, val, 0));
  g->where[id] = (int8_t)reg;
  g->holder[reg] = id;
  g->invariants[g->n_invariants++] = val;
}

/* As many as may be are loaded once, before the bodies. */
void pin_invariants(struct gen *g, const struct gen_loop *l, int leave_free) {
  registers_clear(emission_of(g));
  if (l->n_prefixes || l->n_across || has_fn(l)) return;
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next)
    for (int i = 0; s->kind != KIR_KEEP && s->kind != KIR_IF && i < s->n_in; i++)
      if (is_invariant(g, s->in[i])) pin_invariant(g, s->in[i], leave_free);
}

void unpin_invariants(struct gen *g) {
  while (g->n_invariants) {
    int id = id_of(g, g->invariants[--g->n_invariants], 0), reg = g->where[id];
    g->where[id] = -1;
    g->holder[reg] = -1;
    unpin(g, reg);
  }
}

/* The steps of a time loop inside lanes take what their carries and values leave. */
static void pin_for_steps(struct gen *g, const struct gen_loop *l) {
  bool is_straight = l->in_lane && is_innermost(l) && !l->has_turns && !l->n_tiles && !l->group;
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next) is_straight &= !s->body.first;
  if (is_straight) pin_invariants(g, l, count_live(g, &l->stmt->body) * g->copies + FREE_WANTED);
}

static void emit_serial(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int leave = label_new(e), go = label_new(e), active = g->active, n_active = g->n_active,
      active_at_loop = g->active_at_loop;
  loop_bounds(g, l);
  each_carry(g, l, enter_carry);
  prefixes_start(g, l);
  across_start(g, l);
  pin_folds(g, l);
  gpr(e, G_MOV, RAX, in_frame(l->var));
  if (l->n_prefixes || l->n_across) gpr(e, G_STORE, RAX, in_frame(l->first));
  gpr(e, G_CMP, RAX, in_frame(l->last));
  jump_if(e, CC_L, go);
  if (l->n_folds) {
    folds_start(g, l);
    folds_to_memory(g, l);
    folds_results(g, l);
  }
  jump_to(e, leave);
  label_here(e, go);
  enter_accesses(g, l);
  if (is_innermost(l)) take_pointers(g, l);
  pin_for_steps(g, l);
  if (l->has_until && l->in_lane) {
    g->active = active_new(g);
    active_copy(g, g->active, active);
  }
  g->active_at_loop = g->active;
  if (l->n_tiles) tiles_run(g, id);
  else if (l->group) short_rows_run(g, id);
  else run_blocks(g, id);
  g->active = active;
  g->n_active = n_active;
  g->active_at_loop = active_at_loop;
  drop_pointers(g, l);
  label_here(e, leave);
  if (l->in_lane) unpin_invariants(g);
  unpin_folds(g, l);
  across_end(g, l);
  each_carry(g, l, leave_carry);
}

void emit_loop(struct gen *g, const struct kir_stmt *s) {
  int id = g->loop_cursor;
  if (!gen_grow(g, (void **)&g->marks, &g->mark_room, g->n_marks + 1, sizeof *g->marks)) return;
  g->marks[g->n_marks++] = (struct mark){ (uint32_t)g->e.n, s };
  if (s->kind == KIR_LANE) emit_lane(g, id);
  else emit_serial(g, id);
  g->loop_cursor = g->loops[id].end;
}
