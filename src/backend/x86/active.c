/* active.c -- which lanes act. A mask is a bool value of the encoder's own, numbered from the kernel's values on, that
 * lives in its home in the frame: a copy for each copy of the lanes. The last body of a lane loop has one, and so have
 * an if, the rest of a block after a check, and a serial loop that lanes leave one by one. */
#include "backend/x86/gen.h"

static struct rm home_at(const struct gen *g, int val, int copy) {
  return in_frame(g->vals[val].home + copy * g->vector_bytes);
}

static int all_lanes(const struct gen *g) { return (1 << g->lanes) - 1; }

/* The home has changed: copies in registers are old. */
static void forget_copies(struct gen *g, int val) {
  for (int c = 0; c < COPIES; c++) registers_forget(emission_of(g), val * COPIES + c);
}

/* ---- AVX-512: 16 bits in memory ---- */

static void load_bits(struct gen *g, int reg, int val, int copy) {
  if (val < 0) gpr_const(enc(g), reg, all_lanes(g));
  else gpr_move(enc(g), 2, false, reg, home_at(g, val, copy));
}

static void store_bits(struct gen *g, int reg, int val, int copy) { gpr_move(enc(g), 2, true, reg, home_at(g, val, copy)); }

/* RAX = a bit for each lane of a bool that is no mask of ours. */
static void bits_of(struct gen *g, int reg) {
  if (g->e.evex) vec(enc(g), I_KMOV_GPR, 16, RAX, 0, rm_reg(reg - MASK_BASE));
  else vec(enc(g), I_MOVMSKPS, width_of(g, WEFT_BOOL), RAX, 0, rm_reg(reg));
}

/* ---- Making masks ---- */

void active_first(struct gen *g, int val, int copy) {
  struct encoder *e = enc(g);
  static const int32_t window[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
  static const uint8_t shl_rax_cl[] = { 0x48, 0xD3, 0xE0 };
  if (e->evex) { /* (1 << n) - 1 */
    gpr_const(e, RAX, 1);
    code_bytes(e, shl_rax_cl, 3);
    gpr_imm(e, A_SUB, rm_reg(RAX), 1);
    store_bits(g, RAX, val, copy);
    return;
  }
  int t = take_register(g, false);
  gpr_unary(e, 3, RCX);
  gpr(e, G_LEA, RAX, pool_vector(e, window, 64));
  vec(e, I_MOVUPS, 32, t, 0, rm_index(RAX, RCX, 2, 32));
  vec(e, I_MOVUPS_TO, 32, t, 0, home_at(g, val, copy));
}

/* One copy of val = under and the bool in reg. */
static void and_copy(struct gen *g, int val, int under, int copy, int reg) {
  struct encoder *e = enc(g);
  if (e->evex) {
    bits_of(g, reg);
    load_bits(g, RCX, under, copy);
    gpr(e, G_AND, RAX, rm_reg(RCX));
    store_bits(g, RAX, val, copy);
    return;
  }
  int t = temp(g), bytes = width_of(g, WEFT_BOOL);
  if (under >= 0) vec(e, I_PAND, bytes, t, reg, home_at(g, under, copy));
  vec(e, I_MOVUPS_TO, bytes, under >= 0 ? t : reg, 0, home_at(g, val, copy));
}

void jump_if_none(struct gen *g, int val, int label) {
  struct encoder *e = enc(g);
  int t = e->evex ? -1 : temp(g);
  for (int c = 0; c < g->copies; c++) {
    if (e->evex) load_bits(g, c ? RCX : RAX, val, c);
    else vec(e, c ? I_POR : I_MOVUPS, width_of(g, WEFT_BOOL), t, c ? t : 0, home_at(g, val, c));
    if (e->evex && c) gpr(e, G_OR, RAX, rm_reg(RCX));
  }
  if (!e->evex) bits_of(g, t);
  gpr32(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, label);
}

int active_and(struct gen *g, int cond, int skip) {
  int val = active_new(g);
  for (int c = 0; c < g->copies; c++) {
    and_copy(g, val, g->active, c, in_reg(g, cond, c));
    g->locked = g->temps = 0;
  }
  jump_if_none(g, val, skip);
  g->temps = 0;
  return val;
}

void active_copy(struct gen *g, int val, int from) {
  struct encoder *e = enc(g);
  int t = e->evex ? -1 : temp(g), bytes = width_of(g, WEFT_BOOL);
  if (!e->evex && from < 0) vec(e, I_PCMPEQD, bytes, t, t, rm_reg(t));
  for (int c = 0; c < g->copies; c++) {
    if (e->evex) {
      load_bits(g, RAX, from, c);
      store_bits(g, RAX, val, c);
    } else {
      if (from >= 0) vec(e, I_MOVUPS, bytes, t, 0, home_at(g, from, c));
      vec(e, I_MOVUPS_TO, bytes, t, 0, home_at(g, val, c));
    }
  }
  g->temps = 0;
}

void active_drop(struct gen *g, int val, int stop, int under) {
  struct encoder *e = enc(g);
  for (int c = 0; c < g->copies; c++) {
    int r = in_reg(g, stop, c), bytes = width_of(g, WEFT_BOOL);
    if (e->evex) {
      bits_of(g, r);
      load_bits(g, RCX, under, c);
      gpr(e, G_AND, RAX, rm_reg(RCX));
      gpr_unary(e, 2, RAX);
      load_bits(g, RCX, val, c);
      gpr(e, G_AND, RAX, rm_reg(RCX));
      store_bits(g, RAX, val, c);
    } else {
      int t = temp(g);
      vec(e, I_PAND, bytes, t, r, home_at(g, under, c));
      vec(e, I_PANDN, bytes, t, t, home_at(g, val, c));
      vec(e, I_MOVUPS_TO, bytes, t, 0, home_at(g, val, c));
    }
    g->locked = g->temps = 0;
  }
  forget_copies(g, val);
}

/* ---- Checks ---- */

/* The finding of the site becomes this one, if its place is lower. RDX: the place; RAX: what it is of. Changes RCX. */
void check_report(struct gen *g, int site) {
  struct encoder *e = enc(g);
  int done = label_new(e), at = (int)sizeof(struct finding) * site;
  gpr(e, G_MOV, RCX, in_frame(FRAME_CHECKS));
  gpr(e, G_CMP, RDX, rm_at(RCX, at));
  jump_if(e, CC_GE, done);
  gpr(e, G_STORE, RDX, rm_at(RCX, at));
  gpr(e, G_STORE, RAX, rm_at(RCX, at + 8));
  label_here(e, done);
}

void check_place(struct gen *g, const struct kir_stmt *s) {
  if (s->n_at) lin_eval(g, RDX, &s->at[0]);
  else scalar_load(g, RDX, s->in[2]);
}

static bool is_of_lanes(const struct gen *g, int val) { return g->vals[val].domain != SCALAR; }

/* RAX = the number of lane RSI of a copy. */
static void lane_number(struct gen *g, int copy) {
  struct encoder *e = enc(g);
  const struct gen_loop *l = &g->loops[g->lane_loop];
  gpr(e, G_LEA, RAX, rm_at(RSI, copy * g->lanes));
  if (l->is_flat) gpr(e, G_ADD, RAX, rm_reg(R9));
  gpr(e, G_ADD, RAX, in_frame(l->var));
}

/* RDX = the place that belongs to lane RSI of a copy. Values of lanes stand in the second half of the buffer. */
static void place_of(struct gen *g, const struct kir_stmt *s, int copy) {
  struct encoder *e = enc(g);
  int var = g->loops[g->lane_loop].stmt->var;
  if (s->n_at) {
    lin_of_lane(g, &s->at[0], var); /* RDX, and RCX for every lane */
    lane_number(g, copy);
    gpr(e, G_IMUL, RCX, rm_reg(RAX));
    gpr(e, G_ADD, RDX, rm_reg(RCX));
  } else if (is_of_lanes(g, s->in[2])) {
    gpr(e, G_MOV, RDX, rm_index(RBX, RSI, 3, g->tail_buffer + g->vector_bytes));
  } else {
    scalar_load(g, RDX, s->in[2]);
  }
}

/* RAX = what the check is of in lane RSI. */
static void value_of(struct gen *g, const struct kir_stmt *s) {
  if (is_of_lanes(g, s->in[1])) gpr(enc(g), G_MOV, RAX, rm_index(RBX, RSI, 3, g->tail_buffer));
  else scalar_load(g, RAX, s->in[1]);
}

/* RAX: the lanes that failed. of, at: registers of what differs from lane to lane; -1: it does not. */
static void report_lanes(struct gen *g, const struct kir_stmt *s, int site, int copy, int of, int at) {
  struct encoder *e = enc(g);
  int again = label_new(e), bytes = width_of(g, WEFT_I64);
  if (of >= 0) vec(e, I_MOVUPS_TO, bytes, of, 0, in_frame(g->tail_buffer));
  if (at >= 0) vec(e, I_MOVUPS_TO, bytes, at, 0, in_frame(g->tail_buffer + g->vector_bytes));
  gpr(e, G_STORE, RSI, in_frame(g->saved));
  gpr(e, G_STORE, RDI, in_frame(g->saved + 8));
  gpr(e, G_MOV, RDI, rm_reg(RAX));
  label_here(e, again);
  first_bit(e, RSI, RDI);
  place_of(g, s, copy);
  value_of(g, s);
  check_report(g, site);
  drop_first_bit(e, RDI);
  jump_if(e, CC_NE, again);
  gpr(e, G_MOV, RSI, in_frame(g->saved));
  gpr(e, G_MOV, RDI, in_frame(g->saved + 8));
}

/* What is held in registers must not depend on whether a lane failed: all is fetched before. */
static void check_copy(struct gen *g, const struct kir_stmt *s, int site, int mask, int mask_after, int copy) {
  struct encoder *e = enc(g);
  int fine = label_new(e), r = in_reg(g, s->in[0], copy);
  int of = is_of_lanes(g, s->in[1]) ? in_reg(g, s->in[1], copy) : -1;
  int at = !s->n_at && is_of_lanes(g, s->in[2]) ? in_reg(g, s->in[2], copy) : -1;
  and_copy(g, mask_after, mask, copy, r);
  if (e->evex) {
    load_bits(g, RCX, mask, copy); /* RAX: the lanes that are fine */
  } else {
    int t = temp(g), bytes = width_of(g, WEFT_BOOL);
    if (mask >= 0) vec(e, I_MOVUPS, bytes, t, 0, home_at(g, mask, copy));
    if (mask >= 0) bits_of(g, t);
    else gpr_const(e, RAX, all_lanes(g));
    gpr(e, G_MOV, RCX, rm_reg(RAX));
    bits_of(g, r);
    gpr(e, G_AND, RAX, rm_reg(RCX));
  }
  gpr(e, G_XOR, RAX, rm_reg(RCX));
  jump_if(e, CC_E, fine);
  report_lanes(g, s, site, copy, of, at);
  label_here(e, fine);
  g->locked = g->temps = 0;
}

void check_lanes(struct gen *g, const struct kir_stmt *s, int site, int mask, int mask_after) {
  for (int c = 0; c < g->copies; c++) check_copy(g, s, site, mask, mask_after, c);
  forget_copies(g, mask_after);
  jump_if_none(g, mask_after, g->rest);
}

void check_all(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int sum = e->evex ? temp_mask(g) : temp(g), first = in_reg(g, s->in[0], 0);
  for (int c = 1; c < g->copies; c++) {
    uint64_t locked = g->locked;
    int r = in_reg(g, s->in[0], c), base = e->evex ? MASK_BASE : 0;
    vec(e, e->evex ? I_KAND : I_PAND, 32, sum, (c > 1 ? sum + base : first) - base, rm_reg(r - base));
    g->locked = locked;
  }
  bits_of(g, g->copies == 1 ? first : e->evex ? sum + MASK_BASE : sum);
  gpr_imm(e, A_AND, rm_reg(RAX), all_lanes(g));
  gpr_imm(e, A_CMP, rm_reg(RAX), all_lanes(g));
  jump_if(e, CC_NE, g->careful);
}
