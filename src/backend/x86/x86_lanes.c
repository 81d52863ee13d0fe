/* x86_lanes.c -- lane loops: whole vectors as long as there are, several copies of the body at a time, then one body under a
 * mask.
 *
 * A lane loop without loops inside keeps j in R9, its end in R10, the last start of a full body in R11, and addresses in the
 * general registers that are left. A serial loop inside lanes keeps its carries in vector registers and steps its addresses.
 * While the longest loop of a row runs, what the next row reads is fetched. */
#include "backend/x86/loops.h"

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

int count_statements(const struct kir_block *b) {
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

void emit_lane(struct gen *g, int id) {
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
