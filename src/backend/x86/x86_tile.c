/* x86_tile.c -- arrays read across: lanes a stride apart, but the rows of the loop around side by side, as in a + b^T. A tile
 * of T rows by 256 lanes is transposed in registers into the frame, T x T elements at a time, and the lanes read it
 * there side by side. So a line of memory is read once, not once a row.
 *
 * Only for a par loop that holds nothing but a lane loop without state: its rows and lanes are gone through in another
 * order. Of a tile of fewer than T rows only these are loaded, under a mask: the weights of a convolution have 9 or 3 places side
 * by side, its images rows of 7. 128 x 9 x 128 of them took 61 us of one thread of Zen 4 element by element, and take 29 so.
 * Tiles of fewer than T lanes are copied element by element. */
#include "backend/x86/gen.h"

enum { WIDTH = 256, ROW_BYTES = 4 * WIDTH + 64, MAX_TILES = 4, SQUARES_AHEAD = 2 }; /* rows do not share lines of a cache */

static int tile_rows(const struct gen *g) { return g->vector_bytes / 4; }

/* ---- Which accesses ---- */

/* The address moves by one element with var, and by nothing else of it. */
bool moves_by_one(const struct gen *g, const struct kir_stmt *s, int var) {
  int n = 0;
  bool is_one = false;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      bool has = false;
      for (int j = 0; j < t->n; j++) has |= t->val[j] == var;
      n += has;
      is_one |= has && t->n == 1 && t->coef == 1 && stride_class(g, s->buf, d) == STRIDE_1;
    }
  return n == 1 && is_one;
}

static bool is_fixed(const struct gen *g, const struct kir_lin *l) {
  for (int i = 0; i < l->n; i++)
    for (int j = 0; j < l->term[i].n; j++)
      if (g->vals[l->term[i].val[j]].loop != -2) return false;
  return true;
}

static bool may_tile(const struct gen *g, const struct gen_loop *rows, const struct gen_loop *lanes) {
  const struct kir_stmt *s = lanes->stmt;
  return rows->stmt->kind == KIR_PAR && rows->stmt->extent == KIR_N && rows->stmt->body.first == s && !s->next &&
         lanes->is_flat && s->extent == KIR_N && is_fixed(g, &s->at[0]) && !lanes->n_folds && !lanes->n_prefixes &&
         !lanes->n_across && !lanes->rows && !lanes->has_check && !lanes->has_lane_check;
}

static bool is_across(const struct gen *g, const struct gen_access *a, int rows) {
  return a->stmt->kind == KIR_LOAD && !a->is_guarded && g->k->bufs[a->stmt->buf].kind == KIR_IN && a->cls == LANE_ANY &&
         a->element == 2 && a->owner == rows && moves_by_one(g, a->stmt, g->loops[rows].stmt->var);
}

static void take(struct gen *g, struct gen_loop *rows, struct gen_access *a) {
  if (!rows->n_tiles) {
    rows->tile_first = slot_scalar(g);
    rows->tile_from = slot_scalar(g);
    rows->tile_to = slot_scalar(g);
    rows->tile_extent = slot_scalar(g);
  }
  a->cls = LANE_UNIT;
  a->tile = slot_vector(g, tile_rows(g) * ROW_BYTES / g->vector_bytes);
  rows->n_tiles++;
}

void tiles_find(struct gen *g) {
  for (int i = 0; i < g->n_loops; i++) {
    struct gen_loop *lanes = &g->loops[i], *rows = lanes->parent >= 0 ? &g->loops[lanes->parent] : NULL;
    if (lanes->stmt->kind != KIR_LANE || !rows || !may_tile(g, rows, lanes)) continue;
    for (int j = lanes->access_first; j < lanes->access_end && rows->n_tiles < MAX_TILES; j++)
      if (is_across(g, &g->accesses[j], lanes->parent)) take(g, rows, &g->accesses[j]);
  }
}

/* ---- Transposing ---- */

/* Registers 0 .. n-1 are rows; afterwards they hold, in each 16 bytes, four rows of one column. Uses n more. */
static void transpose_fours(struct gen *g, int n, int spare) {
  struct encoder *e = enc(g);
  int bytes = g->vector_bytes;
  for (int k = 0; k < n; k += 2) {
    vec(e, I_UNPCKLPS, bytes, spare + k, k, rm_reg(k + 1));
    vec(e, I_UNPCKHPS, bytes, spare + k + 1, k, rm_reg(k + 1));
  }
  for (int q = 0; q < n; q += 4)
    for (int h = 0; h < 2; h++) {
      vec(e, I_UNPCKLPD, bytes, q + 2 * h, spare + q + h, rm_reg(spare + q + h + 2));
      vec(e, I_UNPCKHPD, bytes, q + 2 * h + 1, spare + q + h, rm_reg(spare + q + h + 2));
    }
}

static struct rm row_at(int row) { return rm_index(R8, R9, 2, row * ROW_BYTES); }
static void to_tile(struct gen *g, enum insn insn, int row, int reg) {
  vec(enc(g), insn, g->vector_bytes, reg, 0, row_at(row));
}

static void store_16(struct gen *g, enum insn insn, row_store *store) {
  struct encoder *e = enc(g);
  enum { EVEN = 0x88, ODD = 0xDD };
  for (int c = 0; c < 4; c++) {
    for (int i = 0; i < 4; i++) /* the even 16 bytes of two, then the odd ones; of the other two */
      vec_imm(e, I_SHUFF32X4, 64, 16 + i, c + (i & 2) * 4, rm_reg(c + (i & 2) * 4 + 4), i & 1 ? ODD : EVEN);
    for (int i = 0; i < 4; i++) {
      vec_imm(e, I_SHUFF32X4, 64, 20 + i, 16 + (i & 1), rm_reg(18 + (i & 1)), i & 2 ? ODD : EVEN);
      store(g, insn, c + 4 * i, 20 + i);
    }
  }
}

static void store_8(struct gen *g, enum insn insn, row_store *store) {
  struct encoder *e = enc(g);
  for (int c = 0; c < 4; c++)
    for (int i = 0; i < 2; i++) {
      vec_imm(e, I_PERM2F128, 32, 8 + i, c, rm_reg(c + 4), i ? 0x31 : 0x20);
      store(g, insn, c + 4 * i, 8 + i);
    }
}

void transpose(struct gen *g, enum insn insn, row_store *store) {
  int n = tile_rows(g);
  transpose_fours(g, n, n);
  if (n == 16) store_16(g, insn, store);
  else store_8(g, insn, store);
}

enum { ROWS_MASK = 1, ROWS_VECTOR = 15 }; /* k1, or where that is a vector ymm15: of as many elements as there are rows */

/* R11 = where the mask for R11 rows stands. */
static void point_to_mask(struct gen *g) {
  struct encoder *e = enc(g);
  static const uint16_t bits[32] = { 0x0000, 0x0001, 0x0003, 0x0007, 0x000F, 0x001F, 0x003F, 0x007F, 0x00FF,
                                     0x01FF, 0x03FF, 0x07FF, 0x0FFF, 0x1FFF, 0x3FFF, 0x7FFF, 0xFFFF };
  static const int32_t window[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
  gpr(e, G_LEA, RAX, e->evex ? pool_vector(e, bits, 64) : pool_vector(e, window, 64));
  if (!e->evex) gpr_unary(e, 3, R11);
  gpr(e, G_LEA, R11, e->evex ? rm_index(RAX, R11, 1, 0) : rm_index(RAX, R11, 2, 32));
}

static void load_mask(struct gen *g) {
  if (g->e.evex) vec(enc(g), I_KMOV, 16, ROWS_MASK, 0, rm_at(R11, 0));
  else vec(enc(g), I_MOVUPS, 32, ROWS_VECTOR, 0, rm_at(R11, 0));
}

/* The elements of one lane that the mask has, and 0 for the others, which are not touched. */
static void load_lane(struct gen *g, int reg, struct rm m) {
  if (g->e.evex) vec_mask(enc(g), I_MOVUPS, g->vector_bytes, ROWS_MASK, true, reg, 0, m, 0);
  else vec(enc(g), I_MASKMOVPS, 32, reg, ROWS_VECTOR, m);
}

/* RSI: the first element, RCX: bytes from lane to lane, R10: lanes, at least T, R11: rows, at most T. The last square may
 * overlap. */
static void copy_squares(struct gen *g) {
  struct encoder *e = enc(g);
  int again = label_new(e), n = tile_rows(g);
  point_to_mask(g);
  gpr_mul_imm(e, RDI, rm_reg(RCX), SQUARES_AHEAD * n);
  gpr_const(e, R9, 0);
  label_here(e, again);
  gpr(e, G_LEA, RAX, rm_at(R10, -n));
  gpr(e, G_CMP, R9, rm_reg(RAX));
  gpr(e, G_CMOV | CC_G, R9, rm_reg(RAX));
  gpr(e, G_MOV, RDX, rm_reg(R9));
  gpr(e, G_IMUL, RDX, rm_reg(RCX));
  gpr(e, G_ADD, RDX, rm_reg(RSI));
  load_mask(g);
  for (int k = 0; k < n; k++) {
    load_lane(g, k, rm_at(RDX, 0));
    prefetch_far(e, rm_index(RDX, RDI, 0, 0));
    if (k + 1 < n) gpr(e, G_ADD, RDX, rm_reg(RCX));
  }
  transpose(g, I_MOVUPS_TO, to_tile);
  gpr_imm(e, A_ADD, rm_reg(R9), n);
  gpr(e, G_CMP, R9, rm_reg(R10));
  jump_if(e, CC_L, again);
}

/* The same for any number of lanes. */
static void copy_elements(struct gen *g) {
  struct encoder *e = enc(g);
  int lane = label_new(e), row = label_new(e), done = label_new(e);
  gpr_const(e, R9, 0);
  label_here(e, lane);
  gpr(e, G_CMP, R9, rm_reg(R10));
  jump_if(e, CC_GE, done);
  gpr_const(e, RDI, 0);
  gpr(e, G_LEA, RDX, row_at(0));
  label_here(e, row);
  gpr_move(e, 4, false, RAX, rm_index(RSI, RDI, 2, 0));
  gpr_move(e, 4, true, RAX, rm_at(RDX, 0));
  gpr_imm(e, A_ADD, rm_reg(RDX), ROW_BYTES);
  gpr_imm(e, A_ADD, rm_reg(RDI), 1);
  gpr(e, G_CMP, RDI, rm_reg(R11));
  jump_if(e, CC_L, row);
  gpr(e, G_ADD, RSI, rm_reg(RCX));
  gpr_imm(e, A_ADD, rm_reg(R9), 1);
  jump_to(e, lane);
  label_here(e, done);
}

/* Fills the tile of an access, and points the access to it: lane j of the first row is at pointer + 4 j. */
static void fill(struct gen *g, const struct gen_loop *rows, struct gen_access *a, int lane_var) {
  struct encoder *e = enc(g);
  int slow = label_new(e), done = label_new(e);
  address_step(g, a, lane_var);
  gpr(e, G_STORE, RDX, in_frame(g->scratch));
  address_eval(g, a, lane_var);
  gpr(e, G_MOV, RSI, rm_reg(RDX));
  gpr(e, G_MOV, RCX, in_frame(g->scratch));
  gpr(e, G_MOV, RAX, in_frame(rows->tile_from));
  gpr(e, G_MOV, R10, in_frame(rows->tile_to));
  gpr(e, G_SUB, R10, rm_reg(RAX));
  gpr(e, G_LEA, R8, in_frame(a->tile));
  gpr(e, G_MOV, RDX, rm_reg(RAX));
  gpr_unary(e, 3, RDX);
  gpr(e, G_LEA, RDX, rm_index(R8, RDX, 2, 0));
  gpr(e, G_STORE, RDX, in_frame(a->pointer));
  gpr_store_imm(e, in_frame(a->step), ROW_BYTES);
  gpr(e, G_IMUL, RAX, rm_reg(RCX));
  gpr(e, G_ADD, RSI, rm_reg(RAX));
  gpr(e, G_MOV, R11, in_frame(rows->limit));
  gpr(e, G_SUB, R11, in_frame(rows->tile_first));
  gpr_imm(e, A_CMP, rm_reg(R10), tile_rows(g));
  jump_if(e, CC_L, slow);
  copy_squares(g);
  jump_to(e, done);
  label_here(e, slow);
  copy_elements(g);
  label_here(e, done);
}

/* ---- The nest ---- */

static void next_lanes(struct gen *g, const struct gen_loop *rows) { /* to = min(from + WIDTH, extent) */
  struct encoder *e = enc(g);
  gpr(e, G_MOV, RAX, in_frame(rows->tile_from));
  gpr_imm(e, A_ADD, rm_reg(RAX), WIDTH);
  gpr(e, G_CMP, RAX, in_frame(rows->tile_extent));
  gpr(e, G_CMOV | CC_G, RAX, in_frame(rows->tile_extent));
  gpr(e, G_STORE, RAX, in_frame(rows->tile_to));
}

static void copy_slot(struct gen *g, int32_t to, int32_t from) {
  gpr(enc(g), G_MOV, RAX, in_frame(from));
  gpr(enc(g), G_STORE, RAX, in_frame(to));
}

/* Rows from var to last: T at a time, and of these 256 lanes at a time. */
void tiles_run(struct gen *g, int id) {
  struct encoder *e = enc(g);
  struct gen_loop *rows = &g->loops[id], *lanes = &g->loops[id + 1];
  int block = label_new(e), part = label_new(e);
  lin_eval(g, RDX, &lanes->stmt->at[0]);
  gpr(e, G_STORE, RDX, in_frame(rows->tile_extent));
  label_here(e, block);
  copy_slot(g, rows->tile_first, rows->var);
  loop_limit(g, rows, tile_rows(g));
  gpr_store_imm(e, in_frame(rows->tile_from), 0);
  label_here(e, part);
  next_lanes(g, rows);
  copy_slot(g, rows->var, rows->tile_first);
  enter_accesses(g, rows);
  for (int i = rows->accesses; i >= 0; i = g->accesses[i].next)
    if (g->accesses[i].tile) fill(g, rows, &g->accesses[i], lanes->stmt->var);
  iterate(g, id);
  copy_slot(g, rows->tile_from, rows->tile_to);
  gpr(e, G_CMP, RAX, in_frame(rows->tile_extent));
  jump_if(e, CC_L, part);
  gpr(e, G_MOV, RAX, in_frame(rows->var));
  gpr(e, G_CMP, RAX, in_frame(rows->last));
  jump_if(e, CC_L, block);
}
