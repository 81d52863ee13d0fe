/* loops.c -- the loops of a kernel. Outside lanes: counters and addresses in the frame. A lane loop without loops
 * inside keeps j in R9, its end in R10, the last start of a full body in R11, and addresses in the general registers
 * that are left. A serial loop inside lanes keeps its carries in vector registers and steps its addresses. */
#include "backend/x86/gen.h"

static const uint8_t pointer_pool[] = { RSI, RDI, R8, R12, R13, R14, R15, RBP };
_Static_assert(sizeof pointer_pool == POINTERS, "one for each");

/* ---- Extents and addresses ---- */

static bool may_start_late(const struct gen_loop *l) { return l->is_outer || l->stmt->extent == KIR_BLOCK; }

/* RAX = ceil(n / b) with n in RAX, b in RCX > 0. */
static void divide_up(struct gen *g) {
  static const uint8_t cqo[] = { 0x48, 0x99 };
  gpr(enc(g), G_LEA, RAX, rm_index(RAX, RCX, 0, -1));
  code_bytes(enc(g), cqo, 2);
  gpr_unary(enc(g), 7, RCX);
}

static void block_bounds(struct gen *g, const struct gen_loop *l) { /* q*b and min(n, q*b + b) */
  struct encoder *e = enc(g);
  const struct gen_loop *q = &g->loops[g->vals[l->stmt->block_of].loop];
  gpr(e, G_MOV, RAX, in_frame(q->var));
  gpr(e, G_IMUL, RAX, in_frame(q->block));
  gpr(e, G_STORE, RAX, in_frame(l->var));
  gpr(e, G_ADD, RAX, in_frame(q->block));
  gpr(e, G_MOV, RCX, in_frame(q->extent));
  gpr(e, G_CMP, RAX, rm_reg(RCX));
  gpr(e, G_CMOV | CC_G, RAX, rm_reg(RCX));
  gpr(e, G_STORE, RAX, in_frame(l->last));
}

/* var = first, last = one behind the last. */
static void loop_bounds(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  const struct kir_stmt *s = l->stmt;
  if (s->extent == KIR_BLOCK) { block_bounds(g, l); return; }
  lin_eval(g, RDX, &s->at[0]);
  if (s->extent == KIR_BLOCKS) {
    gpr(e, G_STORE, RDX, in_frame(l->extent));
    lin_eval(g, RCX, &s->at[1]);
    gpr(e, G_STORE, RCX, in_frame(l->block));
    gpr(e, G_MOV, RAX, rm_reg(RDX));
    divide_up(g);
    gpr(e, G_MOV, RDX, rm_reg(RAX));
  }
  gpr_const(e, RAX, 0);
  if (l->is_outer) {
    gpr(e, G_MOV, RAX, in_frame(FRAME_LO));
    gpr(e, G_MOV, RCX, in_frame(FRAME_HI)); /* a launcher that does not know the extent gives the largest number */
    gpr(e, G_CMP, RDX, rm_reg(RCX));
    gpr(e, G_CMOV | CC_G, RDX, rm_reg(RCX));
  }
  gpr(e, G_STORE, RAX, in_frame(l->var));
  gpr(e, G_STORE, RDX, in_frame(l->last));
}

/* Does the distance the address moves with val depend on sizes and args alone? Then it is computed once. */
static bool step_is_fixed(const struct gen *g, const struct gen_access *a, int val) {
  const struct kir_stmt *s = a->stmt;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      bool has = false, fixed = true;
      for (int j = 0; j < t->n; j++) {
        has |= t->val[j] == val;
        fixed &= t->val[j] == val || g->vals[t->val[j]].loop == -2;
      }
      if (has && !fixed) return false;
    }
  return true;
}

static void eval_step(struct gen *g, const struct gen_access *a, int val, int32_t slot) {
  address_step(g, a, val);
  gpr(enc(g), G_STORE, RDX, in_frame(slot));
}

static void eval_pointer(struct gen *g, const struct gen_access *a, int skip) {
  address_eval(g, a, skip);
  gpr(enc(g), G_STORE, RDX, in_frame(a->pointer));
}

/* The lane variable if it is left out of the pointer. */
static int flat_axis(const struct gen *g, const struct gen_access *a) {
  return a->lane >= 0 && g->loops[a->lane].is_flat ? g->loops[a->lane].stmt->var : -1;
}

void enter_accesses(struct gen *g, const struct gen_loop *l) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    eval_pointer(g, a, flat_axis(g, a));
    if (!step_is_fixed(g, a, l->stmt->var)) eval_step(g, a, l->stmt->var, a->step);
  }
}

static void step_accesses(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    if (a->reg >= 0) {
      gpr(e, G_ADD, a->reg, in_frame(a->step));
    } else {
      gpr(e, G_MOV, RAX, in_frame(a->step));
      gpr(e, G_ADD_TO, RAX, in_frame(a->pointer));
    }
  }
}

/* ---- Registers that last ---- */

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

enum { FREE_WANTED = 6 }; /* registers that a statement may need at once */

/* ---- Serial and par loops ---- */

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
static bool has_fn(const struct gen_loop *l) {
  for (int f = 0; f < l->n_folds; f++)
    if (is_fn(&l->folds[f])) return true;
  return false;
}

static void pin_folds(struct gen *g, struct gen_loop *l) {
  for (int f = 0; f < l->n_folds; f++)
    l->folds[f].pin = (l->in_lane || !l->has_inner) && !is_fn(&l->folds[f])
                        ? pin_run(g, fold_copies(g, l, &l->folds[f]), FREE_WANTED) : -1;
}

static void unpin_folds(struct gen *g, struct gen_loop *l) {
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

/* What may go by without a look at the flag: steps inside lanes, steps with loops inside, lanes. */
enum { UNSEEN_STEPS = 4096, UNSEEN_ROWS = 64, UNSEEN_LANES = 1 << 16 };

void poll_cancel(struct gen *g) {
  struct encoder *e = enc(g);
  int go = label_new(e);
  static const uint8_t cmp_rax_0[] = { 0x83, 0x38, 0 };
  gpr(e, G_MOV, RAX, in_frame(FRAME_CANCEL));
  gpr(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, go);
  code_bytes(e, cmp_rax_0, 3);
  jump_if(e, CC_NE, g->finish);
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
static int count_live(const struct gen *g, const struct kir_block *b) {
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

/* ---- What stays the same in a loop ---- */

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
static void pin_invariants(struct gen *g, const struct gen_loop *l, int leave_free) {
  registers_clear(emission_of(g));
  if (l->n_prefixes || l->n_across || has_fn(l)) return;
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next)
    for (int i = 0; s->kind != KIR_KEEP && s->kind != KIR_IF && i < s->n_in; i++)
      if (is_invariant(g, s->in[i])) pin_invariant(g, s->in[i], leave_free);
}

static void unpin_invariants(struct gen *g) {
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

static void enter_lane_access(struct gen *g, struct gen_loop *l, struct gen_access *a, int *n) {
  struct encoder *e = enc(g);
  if (a->owner == OWNER_USE) address_eval(g, a, l->stmt->var);
  else gpr(e, G_MOV, RDX, in_frame(a->pointer));
  bool moves = a->cls == LANE_UNIT || a->cls == LANE_BACK || a->cls == LANE_ANY;
  if (may_start_late(l) && moves) {
    gpr(e, G_MOV, RAX, in_frame(l->var));
    if (a->cls == LANE_ANY) gpr(e, G_IMUL, RAX, in_frame(a->lane_step));
    else gpr_mul_imm(e, RAX, rm_reg(RAX), (a->cls == LANE_UNIT ? 1 : -1) * (1 << a->element));
    gpr(e, G_ADD, RDX, rm_reg(RAX));
  }
  if (*n < POINTERS) gpr(e, G_MOV, a->reg = (int8_t)pointer_pool[(*n)++], rm_reg(RDX));
  else gpr(e, G_STORE, RDX, in_frame(a->entry));
}

/* ---- The row after this one ---- */

static int count_statements(const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) n++;
  return n;
}

/* Of several lane loops of a row all but the first read little, and the longest one of these takes most time: meanwhile the
 * inputs of the next row come from memory. */
static bool is_longest_of_row(const struct gen *g, const struct gen_loop *l) {
  const struct gen_loop *rows = l->parent >= 0 ? &g->loops[l->parent] : NULL;
  const struct kir_stmt *longest = NULL;
  if (!rows || rows->lane >= 0 || rows->stmt->body.first == l->stmt || !l->is_flat) return false;
  for (const struct kir_stmt *s = rows->stmt->body.first->next; s; s = s->next)
    if (s->kind == KIR_LANE && (!longest || count_statements(&s->body) >= count_statements(&longest->body))) longest = s;
  return longest == l->stmt;
}

static bool is_fetched(const struct gen *g, const struct gen_loop *rows, int access) {
  for (int i = rows->access_first; i < access; i++)
    if (g->accesses[i].stmt->buf == g->accesses[access].stmt->buf) return false;
  const struct gen_access *a = &g->accesses[access];
  return a->stmt->kind == KIR_LOAD && a->cls == LANE_UNIT && a->owner >= 0 && &g->loops[a->owner] == rows;
}

static void next_rows(struct gen *g, const struct gen_loop *l, int n) {
  struct encoder *e = enc(g);
  g->n_next_rows = 0;
  if (!is_longest_of_row(g, l)) return;
  const struct gen_loop *rows = &g->loops[l->parent];
  for (int i = rows->access_first; i < rows->access_end && n < POINTERS && g->n_next_rows < NEXT_ROWS; i++) {
    if (!is_fetched(g, rows, i)) continue;
    int reg = pointer_pool[n++];
    gpr(e, G_MOV, reg, in_frame(g->accesses[i].pointer));
    gpr(e, G_ADD, reg, in_frame(g->accesses[i].step));
    g->next_row[g->n_next_rows].element = (int8_t)g->accesses[i].element;
    g->next_row[g->n_next_rows++].reg = (int8_t)reg;
  }
}

static void fetch_next_rows(struct gen *g, int copies) {
  for (int i = 0; i < g->n_next_rows; i++)
    for (int at = 0; at < copies * g->lanes << g->next_row[i].element; at += 64)
      prefetch_far(enc(g), rm_index(g->next_row[i].reg, R9, g->next_row[i].element, at));
}

/* ---- Lane loops ---- */

static void enter_lanes(struct gen *g, struct gen_loop *l) {
  int n = 0;
  for (int i = l->access_first; i < l->access_end; i++) {
    struct gen_access *a = &g->accesses[i];
    if (a->cls == LANE_ANY && !step_is_fixed(g, a, l->stmt->var)) eval_step(g, a, l->stmt->var, a->lane_step);
    if (l->is_flat) enter_lane_access(g, l, a, &n);
  }
  for (int r = 0; l->is_flat && r < g->n_rows && r < 64; r++)
    if (l->rows >> r & 1 && n < POINTERS)
      gpr(enc(g), G_MOV, g->row_reg[r] = (int8_t)pointer_pool[n++], in_frame(g->rows[r].pointer));
  next_rows(g, l, n);
}

static void leave_lanes(struct gen *g, struct gen_loop *l) {
  for (int i = l->access_first; i < l->access_end; i++) g->accesses[i].reg = -1;
  for (int r = 0; r < g->n_rows; r++) g->row_reg[r] = -1;
}

/* With loops inside, j and what depends on it is in the frame while the body runs. */
static void enter_group(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  if (l->is_flat) return;
  gpr(e, G_STORE, R9, in_frame(l->j));
  gpr(e, G_STORE, R10, in_frame(l->limit));
  gpr(e, G_MOV, RAX, in_frame(l->block));
  gpr(e, G_ADD, RAX, rm_reg(R9));
  gpr(e, G_STORE, RAX, in_frame(l->var));
  poll_cancel(g);
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) eval_pointer(g, &g->accesses[i], -1);
}

static void leave_group(struct gen *g, const struct gen_loop *l) {
  if (l->is_flat) return;
  gpr(enc(g), G_MOV, R9, in_frame(l->j));
  gpr(enc(g), G_MOV, R10, in_frame(l->limit));
}

static void lane_body(struct gen *g, int id, int copies, int active) {
  struct gen_loop *l = &g->loops[id];
  g->copies = copies;
  g->active = g->active_at_loop = g->tail = active;
  enter_group(g, l);
  registers_clear(emission_of(g));
  if (g->is_fetching) fetch_indexed(g, l);
  for (int c = 0; g->vals[l->stmt->var].is_operand && c < copies; c++) axis_value(g, id, c);
  body_of(g, id);
  leave_group(g, l);
  g->copies = 1;
  g->active = g->tail = -1;
  g->n_active = 0;
}

static void full_bodies(struct gen *g, int id, int copies) {
  struct encoder *e = enc(g);
  int again = label_new(e), done = label_new(e), step = copies * g->lanes;
  gpr(e, G_LEA, R11, rm_at(R10, -step - (g->is_fetching ? FETCH_AHEAD : 0)));
  gpr(e, G_CMP, R9, rm_reg(R11));
  jump_if(e, CC_G, done);
  code_align(e, 32);
  label_here(e, again);
  if (copies > 1) fetch_next_rows(g, copies);
  lane_body(g, id, copies, -1);
  gpr_imm(e, A_ADD, rm_reg(R9), step);
  if (!g->loops[id].is_flat) gpr(e, G_LEA, R11, rm_at(R10, -step));
  gpr(e, G_CMP, R9, rm_reg(R11));
  jump_if(e, CC_LE, again);
  label_here(e, done);
}

/* The lanes from R9 to R10, of which there may be more than G where bodies are left to come here. */
static int tail_mask(struct gen *g) {
  struct encoder *e = enc(g);
  int val = active_new(g);
  registers_clear(emission_of(g));
  gpr(e, G_MOV, RCX, rm_reg(R10));
  gpr(e, G_SUB, RCX, rm_reg(R9));
  if (g->careful >= 0) {
    gpr_const(e, RAX, g->lanes);
    gpr(e, G_CMP, RCX, rm_reg(RAX));
    gpr(e, G_CMOV | CC_G, RCX, rm_reg(RAX));
  }
  active_first(g, val, 0);
  return val;
}

/* Back to `again` if that was not all. */
static void tail_body(struct gen *g, int id, int again) {
  struct encoder *e = enc(g);
  int done = label_new(e);
  gpr(e, G_CMP, R9, rm_reg(R10));
  jump_if(e, CC_GE, done);
  if (g->careful >= 0) label_here(e, g->careful);
  lane_body(g, id, 1, tail_mask(g));
  if (g->careful >= 0) {
    gpr_imm(e, A_ADD, rm_reg(R9), g->lanes);
    gpr(e, G_CMP, R9, rm_reg(R10));
    jump_if(e, CC_L, again);
  }
  gpr(e, G_MOV, R9, rm_reg(R10));
  label_here(e, done);
}

/* ---- How many copies ---- */

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

static bool has_turns(const struct gen *g, int id) {
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

static int choose_copies(const struct gen *g, int id) {
  int n = copies_for(g, id);
  return n > TURN_COPIES && has_turns(g, id) ? TURN_COPIES : n;
}

static void pin_row_folds(struct gen *g, struct gen_loop *l, int copies) {
  int n = 0;
  l->copies = l->is_flat && copies * g->vector_bytes <= KIR_ROW_LANES * 8 ? copies : 0;
  for (int f = 0; f < l->n_folds; f++) n += fold_copies(g, l, &l->folds[f]);
  bool fits = l->is_flat && copies % (KIR_ROW_LANES / g->lanes) == 0 && n <= (g->e.evex ? 16 : 8) && !has_fn(l);
  for (int f = 0; f < l->n_folds; f++) l->folds[f].pin = fits ? pin_run(g, fold_copies(g, l, &l->folds[f]), 6) : -1;
}

/* The first store of the loop that could go around the caches, at or after `from`; -1: none. */
static int next_stream(const struct gen *g, const struct gen_loop *l, int from) {
  for (int i = from; i < l->access_end; i++)
    if (may_stream(g, &g->accesses[i])) return i;
  return -1;
}

/* Memory is the limit of short bodies alone; of others it is not worth a body more. */
static bool wants_streams(const struct gen *g, const struct gen_loop *l) {
  enum { SHORT = 48 };
  return count_statements(&l->stmt->body) <= SHORT && l->is_flat && !l->n_folds && next_stream(g, l, l->access_first) >= 0;
}

/* Whole bodies that store around the caches, if the launch says so and all these stores are aligned. */
static void streaming_bodies(struct gen *g, int id, int copies) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int plain = label_new(e), test_al = 0xA8;
  gpr_imm(e, A_CMP, in_frame(FRAME_STREAMS), 0);
  jump_if(e, CC_E, plain);
  for (int i = next_stream(g, l, l->access_first); i >= 0; i = next_stream(g, l, i + 1)) {
    const struct gen_access *a = &g->accesses[i];
    uint8_t test[] = { (uint8_t)test_al, (uint8_t)(g->vector_bytes - 1) };
    if (a->reg < 0) gpr(e, G_MOV, RDX, in_frame(a->entry));
    gpr(e, G_LEA, RAX, rm_index(a->reg < 0 ? RDX : a->reg, R9, a->element, 0));
    code_bytes(e, test, 2);
    jump_if(e, CC_NE, plain);
  }
  g->is_streaming = g->has_streams = true;
  full_bodies(g, id, copies);
  g->is_streaming = false;
  label_here(e, plain);
}

/* Whole bodies as long as there is something ahead. */
static void fetching_bodies(struct gen *g, int id, int copies) {
  g->is_fetching = true;
  full_bodies(g, id, copies);
  g->is_fetching = false;
}

/* Checks come before all that a body leaves behind: it can be left there and begun again. */
static bool checks_come_first(const struct gen_loop *l) {
  bool leaves = l->n_folds || l->n_prefixes || l->n_across;
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next) {
    if (s->kind == KIR_CHECK && leaves) return false;
    leaves |= s->kind == KIR_STORE || s->kind == KIR_IF;
  }
  return l->is_flat && l->has_lane_check;
}

/* The bodies from R9 to R10, and with folds the 32 accumulators of each brought together. */
static void lane_range(struct gen *g, int id, int copies) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int gather = label_new(e), again = label_new(e), pins[16];
  bool in_registers = l->n_folds && l->folds[0].pin >= 0;
  g->careful = checks_come_first(l) ? label_new(e) : -1;
  label_here(e, again);
  if (copies > 1 && wants_streams(g, l)) streaming_bodies(g, id, copies);
  if (copies > 1 && wants_fetch(g, l)) fetching_bodies(g, id, copies);
  if (copies > 1) full_bodies(g, id, copies);
  if (copies > 2 && !l->is_flat && !has_turns(g, id)) full_bodies(g, id, copies / 2); /* what a single one waits for is long */
  if (in_registers) {
    gpr(e, G_CMP, R9, rm_reg(R10));
    jump_if(e, CC_GE, gather);
    folds_to_memory(g, l);
    for (int f = 0; f < l->n_folds; f++) {
      pins[f] = l->folds[f].pin;
      l->folds[f].pin = -1;
    }
  }
  full_bodies(g, id, 1);
  tail_body(g, id, again);
  g->careful = -1;
  if (in_registers) {
    for (int f = 0; f < l->n_folds; f++) l->folds[f].pin = pins[f];
    folds_from_memory(g, l);
    label_here(e, gather);
  }
  if (l->n_folds) folds_tree(g, l);
}

/* A row that fits one vector: one masked body, no counter, no accumulators in memory. Jumps to done; longer rows fall
 * through. */
static void short_row(struct gen *g, int id, int done) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int other = label_new(e);
  gpr(e, G_MOV, R10, in_frame(l->extent));
  gpr(e, G_LEA, RAX, rm_at(R10, -1));
  gpr_imm(e, A_CMP, rm_reg(RAX), g->lanes - 1);
  jump_if(e, CC_A, other); /* none, too: no lane may be touched */
  int mask = tail_mask(g);
  l->in_one = true;
  for (int f = 0; f < l->n_folds; f++) l->folds[f].pin = pin_run(g, 1, 0);
  folds_start(g, l);
  lane_body(g, id, 1, mask);
  folds_of_one(g, l);
  unpin_folds(g, l);
  l->in_one = false;
  jump_to(e, done);
  label_here(e, other);
}

/* R10: the end of a block, or of the loop. */
static void lane_limit(struct gen *g, const struct gen_loop *l, int block) {
  struct encoder *e = enc(g);
  gpr(e, G_MOV, R10, in_frame(l->extent));
  gpr(e, G_LEA, RAX, rm_at(R9, block));
  gpr(e, G_CMP, R10, rm_reg(RAX));
  gpr(e, G_CMOV | CC_G, R10, rm_reg(RAX));
}

/* Nothing is folded: in blocks only so that somebody looks whether to stop. */
static void plain_lanes(struct gen *g, int id, int copies) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int block = label_new(e), range = label_new(e);
  gpr(e, G_MOV, R10, in_frame(l->extent));
  gpr_imm(e, A_CMP, rm_reg(R10), UNSEEN_LANES);
  jump_if(e, CC_LE, range);
  label_here(e, block);
  poll_cancel(g);
  lane_limit(g, l, UNSEEN_LANES);
  label_here(e, range);
  lane_range(g, id, copies);
  gpr(e, G_CMP, R9, in_frame(l->extent));
  jump_if(e, CC_L, block);
}

static void folded_lanes(struct gen *g, int id, int copies) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int block = label_new(e), total = label_new(e), done = label_new(e);
  if (l->is_flat && l->n_folds <= 4 && !has_fn(l)) short_row(g, id, done);
  gpr_store_imm(e, in_frame(l->count), 0);
  pin_row_folds(g, l, copies);
  label_here(e, block);
  lane_limit(g, l, KIR_ROW_BLOCK);
  folds_start(g, l);
  lane_range(g, id, copies);
  gpr(e, G_CMP, R9, in_frame(l->extent));
  jump_if(e, CC_GE, total);
  folds_push(g, l);
  poll_cancel(g);
  jump_to(e, block);
  label_here(e, total);
  folds_total(g, l);
  unpin_folds(g, l);
  label_here(e, done);
}

/* extent = lanes; block and, for flat loops, var = the first. An extent that is a size or an arg is used where it is. */
static void lane_bounds(struct gen *g, struct gen_loop *l) {
  struct encoder *e = enc(g);
  const struct kir_lin *n = &l->stmt->at[0];
  if (may_start_late(l)) {
    loop_bounds(g, l);
    gpr(e, G_MOV, RDX, in_frame(l->last));
    gpr(e, G_MOV, RAX, in_frame(l->var));
    gpr(e, G_STORE, RAX, in_frame(l->block));
    gpr(e, G_SUB, RDX, rm_reg(RAX));
    gpr(e, G_STORE, RDX, in_frame(l->extent));
    return;
  }
  if (!l->is_flat || l->has_lane_check || g->vals[l->stmt->var].is_operand) {
    gpr_store_imm(e, in_frame(l->block), 0);
    gpr_store_imm(e, in_frame(l->var), 0);
  }
  if (!l->has_check && n->n == 1 && n->term[0].n == 1 && n->term[0].coef == 1 && g->vals[n->term[0].val[0]].loop == -2) {
    l->extent = g->vals[n->term[0].val[0]].home;
    return;
  }
  lin_eval(g, RDX, n);
  gpr(e, G_STORE, RDX, in_frame(l->extent));
}

static void emit_lane(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int copies = choose_copies(g, id);
  lane_bounds(g, l);
  emit_hoisted(g, l);
  prefixes_start(g, l);
  across_start(g, l);
  prefixes_view(g, id);
  g->lane_loop = id;
  enter_lanes(g, l);
  if (l->is_flat) pin_invariants(g, l, g->n_vregs - g->n_vregs / 3); /* a third of the registers */
  bool is_tiled = l->parent >= 0 && g->loops[l->parent].n_tiles;
  gpr_const(e, R9, 0);
  if (is_tiled) gpr(e, G_MOV, R9, in_frame(g->loops[l->parent].tile_from));
  if (l->n_folds) folded_lanes(g, id, copies);
  else if (is_tiled) {
    gpr(e, G_MOV, R10, in_frame(g->loops[l->parent].tile_to));
    lane_range(g, id, copies);
  } else plain_lanes(g, id, copies);
  unpin_invariants(g);
  leave_lanes(g, l);
  g->lane_loop = -1;
  prefixes_view(g, -1);
  prefixes_last(g, l);
  across_end(g, l);
}

void emit_loop(struct gen *g, const struct kir_stmt *s) {
  int id = g->loop_cursor;
  if (!gen_grow(g, (void **)&g->marks, &g->mark_room, g->n_marks + 1, sizeof *g->marks)) return;
  g->marks[g->n_marks++] = (struct mark){ (uint32_t)g->e.n, s };
  if (s->kind == KIR_LANE) emit_lane(g, id);
  else emit_serial(g, id);
  g->loop_cursor = g->loops[id].end;
}

/* ---- The function ---- */

static void broadcast_arg(struct gen *g, int val) {
  struct encoder *e = enc(g);
  const struct gen_value *v = &g->vals[val];
  struct rm m = in_frame(FRAME_VALUES + 8 * (g->k->n_sizes + g->k->vals[val].index));
  if (v->domain == BOOL) {
    gpr(e, G_MOV, RAX, m);
    gpr_unary(e, 3, RAX);
    gpr(e, G_STORE, RAX, in_frame(g->scratch));
    m = in_frame(g->scratch);
  }
  vec(e, lane_bytes(v->dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, width_of(g, v->dtype), 0, 0, m);
  vec(e, I_MOVUPS_TO, width_of(g, v->dtype), 0, 0, in_frame(v->home));
  if (v->divides) guess_reciprocal(g, val);
}

/* Tables follow the constants, elements as in memory. */
static void place_table(struct gen *g, int buf) {
  struct encoder *e = enc(g);
  const struct kir_buf *b = &g->k->bufs[buf];
  gpr(e, G_LEA, RAX, pool_table(e, dtype_bytes(b->dtype), b->data, b->n_data));
  gpr(e, G_STORE, RAX, in_frame(g->data_at[buf]));
  gpr_store_imm(e, in_frame(g->data_at[buf] + 8), dtype_bytes(b->dtype));
}

static void prologue(struct gen *g) {
  struct encoder *e = enc(g);
  static const uint8_t saved[] = { RBX, RBP, R12, R13, R14, R15 };
  for (int i = 0; i < 6; i++) gpr_push(e, saved[i]);
  gpr(e, G_MOV, RBX, rm_reg(RDI));
  for (int b = 0; b < g->k->n_bufs; b++)
    if (g->k->bufs[b].kind == KIR_TABLE) place_table(g, b);
  for (int i = 0; i < g->k->n_args; i++) {
    int val = g->k->args[i];
    if (g->vals[val].domain != SCALAR && g->vals[val].home >= 0 && !is_read_as_given(g, val)) broadcast_arg(g, val);
  }
  for (int i = 0; i < g->n_accesses; i++) {
    const struct gen_access *a = &g->accesses[i];
    int owner_var = a->owner >= 0 ? g->loops[a->owner].stmt->var : -1,
        lane_var = a->lane >= 0 ? g->loops[a->lane].stmt->var : -1;
    if (a->owner == OWNER_START) eval_pointer(g, a, flat_axis(g, a));
    if (owner_var >= 0 && owner_var != lane_var && step_is_fixed(g, a, owner_var)) eval_step(g, a, owner_var, a->step);
    if (a->cls == LANE_ANY && step_is_fixed(g, a, lane_var)) eval_step(g, a, lane_var, a->lane_step);
  }
}

static void epilogue(struct gen *g) {
  struct encoder *e = enc(g);
  static const uint8_t saved[] = { R15, R14, R13, R12, RBP, RBX }, ret[] = { 0xC3 }, sfence[] = { 0x0F, 0xAE, 0xF8 };
  label_here(e, g->finish);
  if (g->has_streams) code_bytes(e, sfence, 3);
  vec(e, I_ZEROUPPER, 16, 0, 0, rm_reg(0));
  for (int i = 0; i < 6; i++) gpr_pop(e, saved[i]);
  code_bytes(e, ret, 1);
}

void emit_kernel(struct gen *g) {
  g->finish = label_new(enc(g));
  g->lane_loop = g->loop = g->active = g->active_at_loop = g->tail = g->short_loop = g->careful = -1;
  g->copies = g->group = 1;
  g->memory_cursor = g->first_memory;
  prologue(g);
  emit_block(g, &g->k->body);
  if (g->n_asides) jump_to(enc(g), g->finish);
  asides_emit(g);
  epilogue(g);
}
