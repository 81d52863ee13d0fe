/* turn.c -- sequences that lie along time: a serial loop inside lanes whose elements are side by side from step to step
 * and a stride apart from lane to lane, as in a running sum of each row. Squares of T x T elements, some along time, are
 * transposed in registers into the frame, where the lanes of a step are side by side; what the steps store there goes back
 * the same way. Registers that last are in the frame meanwhile. The last steps, fewer than T, go element by
 * element, and so do lanes that rest for another reason than not being there. */
#include "backend/x86/gen.h"

enum { MOST = 4, SQUARES = 4 };                        /* arrays of a loop; squares along time at once */

static int square(const struct gen *g) { return g->vector_bytes / 4; }
static int step_bytes(const struct gen *g) { return g->copies * g->vector_bytes; }

/* ---- Which accesses ---- */

static int count_uses(const struct kir_block *b, int buf) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    n += (s->kind == KIR_LOAD || s->kind == KIR_STORE) && s->buf == buf;
    n += count_uses(&s->body, buf);
  }
  return n;
}

static bool may_turn(const struct gen *g, const struct gen_loop *l, const struct gen_access *a) {
  const struct kir_stmt *s = a->stmt;
  bool reads = s->kind == KIR_LOAD && g->k->bufs[s->buf].kind == KIR_IN;
  bool writes = s->kind == KIR_STORE && s->op == KIR_SET && g->k->bufs[s->buf].kind == KIR_OUT &&
                !g->is_private[s->buf] && count_uses(&g->k->body, s->buf) == 1;
  return (reads || writes) && a->cls == LANE_ANY && a->element == 2 && !a->is_guarded && g->lanes == square(g) &&
         moves_by_one(g, s, l->stmt->var);
}

void turns_find(struct gen *g) {
  for (int i = 0; i < g->n_loops; i++) {
    struct gen_loop *l = &g->loops[i];
    if (l->stmt->kind != KIR_SERIAL || !l->in_lane || l->has_inner || l->has_until ||
        l->n_prefixes || g->loops[l->lane].has_lane_check) continue;
    int n = 0, turned = 0;
    for (int j = l->accesses; j >= 0; j = g->accesses[j].next) n++;
    for (int j = l->accesses; j >= 0 && n <= POINTERS && turned < MOST; j = g->accesses[j].next)
      if (may_turn(g, l, &g->accesses[j])) {
        g->accesses[j].tile = slot_vector(g, TURN_COPIES * SQUARES * square(g));
        turned++;
      }
    l->has_turns = turned > 0;
    if (turned && !g->pins_at) {
      g->pins_at = slot_vector(g, g->n_vregs);
      g->turn_rows = slot_scalar(g);
      g->turn_copies = slot_scalar(g);
      g->turn_squares = slot_scalar(g);
      g->turn_end = slot_scalar(g);
    }
  }
}

/* ---- Squares ---- */

static void move_pins(struct gen *g, enum insn insn) {
  for (int r = 0; r < g->n_vregs; r++)
    if (g->pinned >> r & 1) vec(enc(g), insn, g->vector_bytes, r, 0, in_frame(g->pins_at + r * g->vector_bytes));
}

static bool is_tail(const struct gen *g) { return g->active >= 0; }

/* In the last lanes a row may not be there: then what follows up to the label is not for it. */
static int skip_row(struct gen *g, int row) {
  int skip = label_new(enc(g));
  gpr_imm(enc(g), A_CMP, in_frame(g->turn_rows), row);
  jump_if(enc(g), CC_LE, skip);
  return skip;
}

static void to_frame(struct gen *g, enum insn insn, int row, int reg) {
  vec(enc(g), insn, g->vector_bytes, reg, 0, rm_at(R11, row * step_bytes(g)));
}

/* RDX, R9, R10, R11: rows 0, 4, 8, 12; RCX: bytes from one to the next; RAX: three times that. */
static void to_memory(struct gen *g, enum insn insn, int row, int reg) {
  static const uint8_t base[] = { RDX, R9, R10, R11 };
  int b = base[row / 4], skip = is_tail(g) ? skip_row(g, row) : -1;
  struct rm m = row % 4 == 0 ? rm_at(b, 0) : row % 4 == 3 ? rm_index(b, RAX, 0, 0) : rm_index(b, RCX, row % 4 - 1, 0);
  vec(enc(g), insn, g->vector_bytes, reg, 0, m);
  if (skip >= 0) label_here(enc(g), skip);
}

/* Slots while squares are gone through: where that of the moment is, and the first of its copy of the lanes, in memory
 * and in the frame; how many squares are left of the copy. Memory is walked through along the rows first. */
static struct rm slot(const struct gen *g, int i) { return in_frame(g->saved + 8 * i); }
enum { MEMORY, FRAME, COPY_MEMORY, COPY_FRAME, LEFT };

static void add_to(struct gen *g, int i, int reg) { gpr(enc(g), G_ADD_TO, reg, slot(g, i)); }

/* R9 = how far it is to the squares after these: further along the rows, or to the beginning of other rows. */
static void look_ahead(struct gen *g, const struct gen_loop *l, const struct gen_access *a) {
  struct encoder *e = enc(g);
  gpr_mul_imm(e, R9, in_frame(a->lane_step), g->copies * g->lanes);
  gpr(e, G_MOV, RAX, in_frame(l->var));
  gpr_shift(e, 4, RAX, 2);
  gpr(e, G_SUB, R9, rm_reg(RAX));
  gpr(e, G_MOV, RAX, in_frame(g->turn_end));
  gpr_const(e, RCX, SQUARES * g->vector_bytes);
  gpr(e, G_CMP, RAX, in_frame(l->last));
  gpr(e, G_CMOV | CC_L, R9, rm_reg(RCX));
}

static void each_square(struct gen *g, const struct gen_access *a, enum insn store, void (*move)(struct gen *, enum insn)) {
  struct encoder *e = enc(g);
  int copy = label_new(e), again = label_new(e);
  gpr(e, G_MOV, RDX, in_frame(a->pointer));
  gpr(e, G_STORE, RDX, slot(g, COPY_MEMORY));
  gpr(e, G_LEA, RDX, in_frame(a->tile));
  gpr(e, G_STORE, RDX, slot(g, COPY_FRAME));
  gpr_store_imm(e, in_frame(g->turn_copies), g->copies);
  label_here(e, copy);
  for (int i = 0; i < 2; i++) {
    gpr(e, G_MOV, RAX, slot(g, COPY_MEMORY + i));
    gpr(e, G_STORE, RAX, slot(g, MEMORY + i));
  }
  gpr(e, G_MOV, RAX, in_frame(g->turn_squares));
  gpr(e, G_STORE, RAX, slot(g, LEFT));
  label_here(e, again);
  gpr(e, G_MOV, RCX, in_frame(a->lane_step));
  gpr(e, G_MOV, RDX, slot(g, MEMORY));
  gpr(e, G_MOV, R11, slot(g, FRAME));
  move(g, store);
  gpr_imm(e, A_ADD, slot(g, MEMORY), g->vector_bytes);
  gpr_imm(e, A_ADD, slot(g, FRAME), square(g) * step_bytes(g));
  gpr_imm(e, A_SUB, slot(g, LEFT), 1);
  jump_if(e, CC_NE, again);
  gpr_shift(e, 4, RCX, __builtin_ctz((unsigned)square(g)));
  add_to(g, COPY_MEMORY, RCX);
  gpr_imm(e, A_ADD, slot(g, COPY_FRAME), g->vector_bytes);
  gpr_imm(e, A_SUB, in_frame(g->turn_copies), 1);
  jump_if(e, CC_NE, copy);
}

/* RDX: the first row in memory, RCX: bytes to the next, R9: to what is wanted next, R11: the first step in the frame. */
static void read_square(struct gen *g, enum insn store) {
  for (int k = 0; k < square(g); k++) {
    int skip = is_tail(g) ? skip_row(g, k) : -1;
    vec(enc(g), I_MOVUPS, g->vector_bytes, k, 0, rm_at(RDX, 0));
    if (!is_tail(g)) prefetch_far(enc(g), rm_index(RDX, R9, 0, 0));
    if (skip >= 0) label_here(enc(g), skip);
    gpr(enc(g), G_ADD, RDX, rm_reg(RCX));
  }
  transpose(g, store, to_frame);
}

static void write_square(struct gen *g, enum insn store) {
  struct encoder *e = enc(g);
  for (int k = 0; k < square(g); k++) vec(e, I_MOVUPS, g->vector_bytes, k, 0, rm_at(R11, k * step_bytes(g)));
  gpr(e, G_LEA, RAX, rm_index(RCX, RCX, 1, 0));
  gpr(e, G_LEA, R9, rm_index(RDX, RCX, 2, 0));
  gpr(e, G_LEA, R10, rm_index(R9, RCX, 2, 0));
  gpr(e, G_LEA, R11, rm_index(R10, RCX, 2, 0));
  transpose(g, store, to_memory);
}

/* Around the caches if the launch says so and every row begins a line. */
static void write_back(struct gen *g, const struct gen_access *a) {
  struct encoder *e = enc(g);
  int plain = label_new(e), done = label_new(e);
  const uint8_t test_al[] = { 0xA8, (uint8_t)(g->vector_bytes - 1) };
  gpr_imm(e, A_CMP, in_frame(FRAME_STREAMS), 0);
  jump_if(e, CC_E, plain);
  gpr(e, G_MOV, RAX, in_frame(a->pointer));
  gpr(e, G_OR, RAX, in_frame(a->lane_step));
  code_bytes(e, test_al, 2);
  jump_if(e, CC_NE, plain);
  g->has_streams = true;
  each_square(g, a, I_MOVNTPS_TO, write_square);
  jump_to(e, done);
  label_here(e, plain);
  each_square(g, a, I_MOVUPS_TO, write_square);
  label_here(e, done);
}

static void move_all(struct gen *g, const struct gen_loop *l, bool is_store) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    if (!a->tile || (a->stmt->kind == KIR_STORE) != is_store) continue;
    if (is_store) write_back(g, a);
    if (is_store) continue;
    look_ahead(g, l, a);
    each_square(g, a, I_MOVUPS_TO, read_square);
  }
}

/* ---- Steps ---- */

/* The accesses read and write the frame, or memory again. */
static void point(struct gen *g, const struct gen_loop *l, bool to_frame) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    struct gen_access *a = &g->accesses[i];
    if (!a->tile) continue;
    a->cls = to_frame ? LANE_UNIT : LANE_ANY;
    if (to_frame) gpr(enc(g), G_LEA, a->reg, in_frame(a->tile));
  }
}

static void step_turned(struct gen *g, const struct gen_loop *l) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    if (a->tile) gpr_imm(enc(g), A_ADD, rm_reg(a->reg), step_bytes(g));
    else gpr(enc(g), G_ADD, a->reg, in_frame(a->step));
  }
}

static void steps(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int again = label_new(e);
  gpr(e, G_MOV, R10, in_frame(l->var));
  gpr(e, G_MOV, R11, in_frame(g->turn_end));
  code_align(e, 32);
  label_here(e, again);
  if (g->vals[l->stmt->var].is_operand) gpr(e, G_STORE, R10, in_frame(l->var));
  body_of(g, id);
  step_turned(g, l);
  gpr_imm(e, A_ADD, rm_reg(R10), 1);
  gpr(e, G_CMP, R10, rm_reg(R11));
  jump_if(e, CC_L, again);
  gpr(e, G_STORE, R10, in_frame(l->var));
}

/* Pointers of turned accesses: those steps on; in registers, or from there. */
static void advance(struct gen *g, const struct gen_loop *l) {
  gpr(enc(g), G_MOV, RAX, in_frame(g->turn_squares));
  gpr_mul_imm(enc(g), RAX, rm_reg(RAX), 4 * square(g));
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next)
    if (g->accesses[i].tile) gpr(enc(g), G_ADD_TO, RAX, in_frame(g->accesses[i].pointer));
}
static void move_pointers(struct gen *g, const struct gen_loop *l, int opcode) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next)
    if (g->accesses[i].tile) gpr(enc(g), opcode, g->accesses[i].reg, in_frame(g->accesses[i].pointer));
}

/* The lanes that are there. */
static void count_rows(struct gen *g) {
  const struct gen_loop *lanes = &g->loops[g->lane_loop];
  gpr(enc(g), G_MOV, RAX, in_frame(lanes->limit));
  gpr(enc(g), G_SUB, RAX, in_frame(lanes->j));
  gpr(enc(g), G_STORE, RAX, in_frame(g->turn_rows));
}

/* As many squares as there are steps for; flags: zero if none. */
static void count_squares(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  int shift = __builtin_ctz((unsigned)square(g));
  gpr(e, G_MOV, RAX, in_frame(l->limit));
  gpr(e, G_SUB, RAX, in_frame(l->var));
  gpr_shift(e, 7, RAX, shift);
  gpr_const(e, RCX, SQUARES);
  gpr(e, G_CMP, RAX, rm_reg(RCX));
  gpr(e, G_CMOV | CC_G, RAX, rm_reg(RCX));
  gpr(e, G_STORE, RAX, in_frame(g->turn_squares));
  gpr(e, G_MOV, RCX, rm_reg(RAX));
  gpr_shift(e, 4, RCX, shift);
  gpr(e, G_ADD, RCX, in_frame(l->var));
  gpr(e, G_STORE, RCX, in_frame(g->turn_end));
  gpr(e, G_TEST, RAX, rm_reg(RAX));
}

void turns_run(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[id];
  int again = label_new(e), rest = label_new(e), done = label_new(e);
  registers_clear(emission_of(g));
  if (is_tail(g)) count_rows(g);
  label_here(e, again);
  count_squares(g, l);
  jump_if(e, CC_E, rest);
  move_pins(g, I_MOVUPS_TO);
  move_all(g, l, false);
  move_pins(g, I_MOVUPS);
  point(g, l, true);
  steps(g, id);
  point(g, l, false);
  move_pins(g, I_MOVUPS_TO);
  move_all(g, l, true);
  move_pins(g, I_MOVUPS);
  advance(g, l);
  jump_to(e, again);
  label_here(e, rest);
  move_pointers(g, l, G_MOV);
  gpr(e, G_MOV, RAX, in_frame(l->var));
  gpr(e, G_CMP, RAX, in_frame(l->limit));
  jump_if(e, CC_GE, done);
  iterate(g, id);
  move_pointers(g, l, G_STORE);
  label_here(e, done);
}
