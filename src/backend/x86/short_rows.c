/* short_rows.c -- rows of at most four vectors, such as those of a softmax over 32 columns. Each of its lane loops would
 * have one iteration, so the whole row is one run of statements: what is kept stays in registers, and a fold is an
 * instruction with a result.
 *
 * A group of rows is gone through side by side; copy c of the lanes is vector c mod V of row c / V. What the lanes of a
 * row share is computed for the group at once, packed: row i is the i-th part of a register, the same in all lanes of
 * that part. Lanes that use such a value get their row's part in all lanes (`row_spread`). Rows that are left go one by one.
 *
 * How long rows are at most is part of a kernel's key (shape_class.row), and whether they are just as long. */
#include "backend/x86/gen.h"

enum { GROUP = 4, FEW_STEPS = 40 }; /* of lanes, whose values may fill 8 copies */

/* ---- Which loops ---- */

struct look {
  struct gen *g;
  int rows, memory;   /* the loop; the next load or store in text order */
  int n_steps, n_folds;
  bool goes_alone;    /* a row at a time */
};

/* As many bytes a lane as all other values have. */
static bool is_regular(const struct gen *g, int val) {
  const struct gen_value *v = &g->vals[val];
  return v->domain == BOOL || (v->domain == VECTOR && lane_bytes(v->dtype) == (g->wide ? 8 : 4));
}

/* An operand of lanes: of lanes itself, or a vector that they share. */
static bool serves_lanes(const struct gen *g, int val) {
  const struct gen_value *v = &g->vals[val];
  return is_literal(g, val) || (is_regular(g, val) && (v->lane || v->domain == VECTOR));
}

/* Made of sizes and args alone. */
static void note_fixed(struct gen *g, const struct kir_stmt *s) {
  struct gen_value *v = &g->vals[s->out[0]];
  v->is_fixed = v->domain == VECTOR && !v->lane;
  for (int i = 0; i < s->n_in; i++)
    v->is_fixed &= is_literal(g, s->in[i]) || g->vals[s->in[i]].loop == -2 || g->vals[s->in[i]].is_fixed;
  if (!v->is_fixed) return;
  v->crosses = true;
  if (v->home < 0) v->home = slot_vector(g, 1);
}

static bool op_fits(const struct gen *g, const struct kir_stmt *s) {
  bool fits = is_regular(g, s->out[0]);
  for (int i = 0; g->vals[s->out[0]].lane && i < s->n_in; i++) fits &= serves_lanes(g, s->in[i]);
  return fits;
}

static bool fold_fits(const struct gen *g, const struct gen_loop *lanes, const struct kir_stmt *s) {
  return s->op != KIR_CALL && !fold_is_across(lanes, s) && g->vals[s->in[0]].lane && g->vals[s->in[0]].domain == VECTOR &&
         is_regular(g, s->in[0]) && g->vals[s->out[0]].domain == VECTOR;
}

static bool access_fits(struct look *w, const struct kir_stmt *s, bool in_lanes) {
  struct gen *g = w->g;
  const struct gen_access *a = &g->accesses[g->access_of[w->memory++]];
  int val = s->kind == KIR_LOAD ? s->out[0] : s->in[0];
  bool is_masked = in_lanes && !g->shape->row_is_full, moves = a->owner == w->rows;
  if (a->is_guarded || a->owner == OWNER_USE || a->owner == OWNER_FN || a->tile || !is_regular(g, val)) return false;
  if (in_lanes && a->cls == LANE_UNIT && s->kind == KIR_LOAD) g->vals[val].repeats = !moves;
  if (in_lanes && a->cls == LANE_UNIT)
    return (!is_masked || g->e.evex || !a->narrow) && (s->kind == KIR_LOAD || serves_lanes(g, val)) &&
           (s->kind == KIR_LOAD || (s->op == KIR_SET ? moves : g->vals[val].domain == VECTOR));
  if (s->kind == KIR_LOAD) w->goes_alone |= moves;
  else w->goes_alone |= a->narrow || !moves;
  return s->kind == KIR_LOAD ? a->cls == LANE_NONE || a->cls == LANE_ZERO
                             : !in_lanes && s->op == KIR_SET && g->vals[val].domain == VECTOR;
}

static bool block_fits(struct look *, const struct kir_block *, const struct gen_loop *lanes);

static bool lanes_fit(struct look *w, const struct kir_stmt *s, int id) {
  const struct gen_loop *l = &w->g->loops[id], *first = &w->g->loops[w->rows + 1];
  return l->is_flat && s->extent == KIR_N && !l->is_outer && !l->n_prefixes && !l->n_across && !l->has_check &&
         !l->has_lane_check && !w->g->vals[s->var].is_operand &&
         kir_lin_equal(s->at[0], first->stmt->at[0]) && block_fits(w, &s->body, l);
}

static bool block_fits(struct look *w, const struct kir_block *b, const struct gen_loop *lanes) {
  int loop = w->rows + 1;
  bool fits = true;
  for (const struct kir_stmt *s = b->first; s && fits; s = s->next) {
    w->n_steps += lanes != NULL && s->kind != KIR_KEEP;
    switch ((enum kir_kind)s->kind) {
    case KIR_OP: fits = op_fits(w->g, s), note_fixed(w->g, s); break;
    case KIR_LOAD: case KIR_STORE: fits = access_fits(w, s, lanes != NULL); break;
    case KIR_FOLD: fits = lanes && fold_fits(w->g, lanes, s), w->n_folds++; break;
    case KIR_KEEP: break;
    case KIR_IF: fits = lanes && aside_of(w->g, s) && block_fits(w, &s->body, lanes); break;
    case KIR_YIELD: fits = op_fits(w->g, s); break;
    case KIR_LANE: fits = !lanes && lanes_fit(w, s, loop), loop++; break;
    case KIR_PAR: case KIR_SERIAL: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX:
    case KIR_LOCALS: case KIR_CHECK: case KIR_KINDS: fits = false;
    }
  }
  return fits;
}

static bool is_row_loop(const struct gen *g, const struct gen_loop *l) {
  const struct kir_stmt *s = l->stmt;
  bool is_plain = s->kind == KIR_PAR ? s->extent == KIR_N : s->kind == KIR_SERIAL && s->extent != KIR_BLOCKS;
  return is_plain && !l->in_lane && l->has_inner && !l->n_folds && !l->n_prefixes && !l->n_across && !l->has_until &&
         !l->n_tiles && !g->vals[s->var].is_operand;
}

/* Packed values have parts of 16 bytes at least. */
static int group_of(const struct look *w, int vectors) {
  int copies = w->g->e.evex && w->n_steps <= FEW_STEPS ? 8 : 4, most = w->g->vector_bytes / 16, n = copies / vectors;
  if (most > GROUP) most = GROUP;
  return w->goes_alone ? 1 : n < most ? n : most;
}

void short_rows_find(struct gen *g) {
  int vectors = g->shape->row / g->lanes;
  if (g->no_pins || (vectors != 1 && vectors != 2 && vectors != 4)) return;
  for (int i = 0; i < g->n_loops; i++) {
    struct look w = { .g = g, .rows = i, .memory = g->loops[i].first_memory };
    if (!is_row_loop(g, &g->loops[i]) || !block_fits(&w, &g->loops[i].stmt->body, NULL) || !w.n_folds) continue;
    g->loops[i].group = group_of(&w, vectors);
  }
}

/* ---- Where a row is ---- */

static const uint8_t pool[] = { RSI, RDI, R8, R12, R13, R14, R15, RBP, R9, R10, R11 };

static void take_pointers(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  int n = 0, most = sizeof pool;
  for (int i = l->access_first; i < l->access_end; i++) {
    struct gen_access *a = &g->accesses[i];
    bool moves = g->group > 1 && g->loops[a->owner < 0 ? 0 : a->owner].stmt == l->stmt && a->owner >= 0;
    if (n + (moves ? g->group > 2 ? 3 : 2 : 1) > most) continue;
    gpr(e, G_MOV, a->reg = (int8_t)pool[n++], in_frame(a->pointer));
    if (!moves) continue;
    gpr(e, G_MOV, a->step_reg = (int8_t)pool[n++], in_frame(a->step));
    if (g->group > 2) gpr(e, G_LEA, a->steps_reg = (int8_t)pool[n++], rm_index(a->step_reg, a->step_reg, 1, 0));
  }
}

static void drop_pointers(struct gen *g, const struct gen_loop *l) {
  for (int i = l->access_first; i < l->access_end; i++) g->accesses[i].reg = -1;
}

struct rm short_row_at(struct gen *g, const struct gen_access *a, int row, int32_t disp) {
  struct encoder *e = enc(g);
  if (a->owner != g->short_loop) row = 0;
  if (a->reg < 0) {
    gpr(e, G_MOV, RDX, in_frame(a->pointer));
    if (row) gpr_mul_imm(e, RAX, in_frame(a->step), row);
    if (row) gpr(e, G_ADD, RDX, rm_reg(RAX));
    return rm_at(RDX, disp);
  }
  if (!row) return rm_at(a->reg, disp);
  return row == 3 ? rm_index(a->reg, a->steps_reg, 0, disp) : rm_index(a->reg, a->step_reg, row - 1, disp);
}

static void step_pointers(struct gen *g, const struct gen_loop *l) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    gpr_mul_imm(enc(g), RAX, in_frame(g->accesses[i].step), g->group);
    gpr(enc(g), G_ADD_TO, RAX, in_frame(g->accesses[i].pointer));
  }
}

/* ---- Packed values ---- */

/* d = a part of 16 or 32 bytes of a, then one of b: of each the low or the high ones. */
static void pick_parts(struct gen *g, int part, bool high, int d, int a, int b) {
  struct encoder *e = enc(g);
  if (g->vector_bytes == 64) vec_imm(e, I_SHUFF32X4, 64, d, a, rm_reg(b), part == 32 ? (high ? 0xEE : 0x44) : (high ? 0xDD : 0x88));
  else if (e->evex) vec_imm(e, I_SHUFF32X4, 32, d, a, rm_reg(b), high ? 3 : 0);
  else vec_imm(e, I_PERM2F128, 32, d, a, rm_reg(b), high ? 0x31 : 0x20);
}

/* d = a with neighbouring parts of these bytes exchanged. */
static void swap_parts(struct gen *g, int part, int d, int a) {
  struct encoder *e = enc(g);
  int bytes = g->vector_bytes;
  if (part < 16) vec_imm(e, I_PSHUFD, bytes, d, 0, rm_reg(a), part == 8 ? 0x4E : 0xB1);
  else if (bytes == 64) vec_imm(e, I_SHUFF32X4, 64, d, a, rm_reg(a), part == 32 ? 0x4E : 0xB1);
  else if (e->evex) vec_imm(e, I_SHUFF32X4, 32, d, a, rm_reg(a), 1);
  else vec_imm(e, I_PERM2F128, 32, d, a, rm_reg(a), 1);
}

void row_spread(struct gen *g, int row, int d, int packed) {
  struct encoder *e = enc(g);
  if (g->vector_bytes == 64) vec_imm(e, I_SHUFF32X4, 64, d, packed, rm_reg(packed), g->group == 4 ? row * 0x55 : row ? 0xEE : 0x44);
  else if (e->evex) vec_imm(e, I_SHUFF32X4, 32, d, packed, rm_reg(packed), row ? 3 : 0);
  else vec_imm(e, I_PERM2F128, 32, d, packed, rm_reg(packed), row ? 0x11 : 0);
}

/* y[r] = what the lanes of row r share. */
void short_rows_store(struct gen *g, const struct gen_access *a, int reg) {
  struct encoder *e = enc(g);
  int lanes_of_16 = g->vector_bytes / 16 / g->group;
  for (int row = 0; row < g->group; row++) {
    int t = row ? temp(g) : reg;
    if (row) vec_imm(e, I_EXTRACTI128, g->vector_bytes, reg, 0, rm_reg(t), row * lanes_of_16);
    vec(e, a->element == 3 ? I_MOVQ_TO : I_MOVD_TO, 16, t, 0, short_row_at(g, a, row, 0));
  }
}

/* ---- Folds ---- */

/* The operand in one copy of the lanes; lanes that are not there have the start value. */
static int fold_operand(struct gen *g, const struct gen_fold *f, int copy) {
  int x = in_reg(g, f->stmt->in[0], copy);
  if (g->now->mask < 0) return x;
  uint64_t other = g->locked & ~((uint64_t)1 << x);
  int t = temp(g);
  fill_start(g, f, 0, 0, t);
  blend(g, part_dtype(g, f, 0), g->now->mask, copy, t, x);
  g->locked = other;
  return t;
}

static int combined(struct gen *g, const struct gen_fold *f, int a, int b) {
  int dtype = part_dtype(g, f, 0), d = g->temps >> a & 1 ? a : temp(g);
  combine(g, f->stmt->op, dtype, width_of(g, dtype), d, a, rm_reg(b));
  return d;
}

/* The vectors of a row, as 32 accumulators would take them, brought together to one. */
static int fold_vectors(struct gen *g, const struct gen_fold *f, int row) {
  int acc[GROUP], most = KIR_ROW_LANES / g->lanes, n = g->vectors < most ? g->vectors : most;
  for (int k = 0; k < g->vectors; k++) {
    int x = fold_operand(g, f, row * g->vectors + k);
    acc[k % n] = k < n ? x : combined(g, f, acc[k % n], x);
  }
  for (int h = n / 2; h; h /= 2)
    for (int i = 0; i < h; i++) acc[i] = combined(g, f, acc[i], acc[i + h]);
  return acc[0];
}

/* Rows two and two: the low parts of both beside each other, with the high ones. */
static int fold_group(struct gen *g, const struct gen_fold *f, int r[GROUP]) {
  int part = g->vector_bytes, high = temp(g), dtype = part_dtype(g, f, 0), bytes = width_of(g, dtype);
  for (int n = g->group; n > 1; n /= 2) {
    part /= 2;
    for (int i = 0; i < n; i += 2) {
      int low = temp(g);
      pick_parts(g, part, false, low, r[i], r[i + 1]);
      pick_parts(g, part, true, high, r[i], r[i + 1]);
      combine(g, f->stmt->op, dtype, bytes, low, low, rm_reg(high));
      r[i / 2] = low;
    }
  }
  while ((part /= 2) >= lane_bytes(dtype)) {
    swap_parts(g, part, high, r[0]);
    r[0] = combined(g, f, r[0], high);
  }
  return r[0];
}

/* Sums start at +0: that only shows if all elements are -0. */
static void from_start(struct gen *g, const struct gen_fold *f, int r) {
  int dtype = part_dtype(g, f, 0);
  if (f->stmt->op == KIR_ADD && kir_is_float((weft_dtype)dtype))
    combine(g, KIR_ADD, dtype, width_of(g, dtype), r, r, constant(g, dtype, 0));
}

void short_rows_fold(struct gen *g, const struct kir_stmt *s) {
  struct gen_fold f = { .stmt = s, .n = 1, .pin = -1 };
  int r[GROUP], copies = g->group * g->vectors;
  for (int i = 0; i < g->group; i++) r[i] = fold_vectors(g, &f, i);
  int all = fold_group(g, &f, r);
  if (!(g->temps >> all & 1)) {
    int t = temp(g);
    move_vector(g, g->vector_bytes, t, all);
    all = t;
  }
  from_start(g, &f, all);
  uint64_t temps = g->temps;
  g->now_copies = copies;
  for (g->now_copy = 0; g->now_copy < copies; g->now_copy++) release(g);
  g->now_copy = 0;
  g->now_copies = 1;
  g->temps = temps;
  define(g, all);
}

/* ---- The loop ---- */

/* Which lanes of each copy are there: -1, all of them. */
static int row_mask(struct gen *g, const struct gen_loop *lanes) {
  struct encoder *e = enc(g);
  if (g->shape->row_is_full) return -1;
  int val = active_new(g);
  registers_clear(emission_of(g));
  for (int c = 0; c < g->group * g->vectors; c++) {
    lin_eval(g, RCX, &lanes->stmt->at[0]);
    gpr_imm(e, A_SUB, rm_reg(RCX), c % g->vectors * g->lanes);
    gpr_const(e, RAX, 0);
    gpr_imm(e, A_CMP, rm_reg(RCX), 0);
    gpr(e, G_CMOV | CC_L, RCX, rm_reg(RAX));
    gpr_const(e, RAX, g->lanes);
    gpr(e, G_CMP, RCX, rm_reg(RAX));
    gpr(e, G_CMOV | CC_G, RCX, rm_reg(RAX));
    active_first(g, val, c);
  }
  return val;
}

/* Groups of rows from var on, as long as there are whole ones. */
static void groups(struct gen *g, int id, int group) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int again = label_new(e), done = label_new(e);
  g->group = group;
  g->copies = group * g->vectors;
  label_here(e, again);
  if (l->parent < 0) poll_cancel(g);
  gpr(e, G_MOV, RAX, in_frame(l->var));
  gpr_imm(e, A_ADD, rm_reg(RAX), group);
  gpr(e, G_CMP, RAX, in_frame(l->limit));
  jump_if(e, CC_G, done);
  gpr(e, G_STORE, RAX, in_frame(l->var));
  take_pointers(g, l);
  g->memory_cursor = l->first_memory;
  emit_row(g, &l->stmt->body, false);
  drop_pointers(g, l);
  step_pointers(g, l);
  jump_to(e, again);
  label_here(e, done);
}

static bool has_stream(const struct gen *g, const struct gen_loop *l) {
  for (int i = l->access_first; i < l->access_end; i++)
    if (may_stream(g, &g->accesses[i])) return true;
  return false;
}

/* Around the caches, if the launch says so and all rows begin at a multiple of a vector. */
static void streaming_groups(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int plain = label_new(e);
  gpr_imm(e, A_CMP, in_frame(FRAME_STREAMS), 0);
  jump_if(e, CC_E, plain);
  for (int i = l->access_first; i < l->access_end; i++) {
    const struct gen_access *a = &g->accesses[i];
    uint8_t test_al[] = { 0xA8, (uint8_t)(g->vector_bytes - 1) };
    if (!may_stream(g, a)) continue;
    gpr(e, G_MOV, RAX, in_frame(a->pointer));
    if (a->owner == id) gpr(e, G_OR, RAX, in_frame(a->step));
    code_bytes(e, test_al, 2);
    jump_if(e, CC_NE, plain);
  }
  g->is_streaming = g->has_streams = true;
  groups(g, id, l->group);
  g->is_streaming = false;
  label_here(e, plain);
}

void short_rows_run(struct gen *g, int id) {
  struct gen_loop *l = &g->loops[id];
  int n_active = g->n_active, outer = g->loop;
  g->short_loop = g->loop = id;
  g->vectors = g->shape->row / g->lanes;
  g->group = l->group;
  loop_limit(g, l, 0);
  g->row_mask = row_mask(g, &g->loops[id + 1]);
  g->copies = g->group = 1;
  g->memory_cursor = l->first_memory;
  emit_row(g, &l->stmt->body, true);
  if (g->shape->row_is_full && has_stream(g, l)) streaming_groups(g, id);
  if (l->group > 1) groups(g, id, l->group);
  groups(g, id, 1);
  g->short_loop = -1;
  g->loop = outer;
  g->copies = g->group = 1;
  g->n_active = n_active;
}
