/* across.c -- folds whose order is not that of their loop: fold.col along lanes takes one lane after the other, 128 a
 * block; fold.row along a serial loop has 32 accumulators, 4096 elements a block. Blocks are counted as everywhere, by
 * the functions of x86_fold.c on a loop that holds this one fold. Nothing is pinned, and lanes go in one copy. */
#include "backend/x86/gen.h"

static const struct kir_stmt along_lanes = { .kind = KIR_LANE }, beside_lanes = { .kind = KIR_SERIAL };

static bool is_row(const struct gen_loop *l) { return l->stmt->kind == KIR_LANE; }

static int row_bytes(const struct gen *g) { return COPIES * g->vector_bytes; } /* from accumulator to accumulator */

void across_place(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_across; i++) {
    struct across *a = &l->across[i];
    a->blocks = (struct gen_loop){ .stmt = is_row(l) ? &along_lanes : &beside_lanes, .in_lane = l->in_lane };
    a->blocks.folds = &a->fold;
    a->blocks.n_folds = 1;
    a->blocks.count = slot_scalar(g);
    a->fold.is_apart = true;
    folds_place(g, &a->blocks);
    for (int p = 0; p < a->fold.n; p++) {
      if (!is_row(l)) a->fold.acc[p] = slot_vector(g, KIR_ROW_LANES * COPIES);
      a->fold.elements[p] = slot_vector(g, 2);
    }
  }
}

static struct fold_side row_at(const struct gen *g, const struct gen_fold *f, int row) {
  struct fold_side s = { .vals = NULL };
  for (int p = 0; p < f->n; p++) s.at[p] = in_frame(f->acc[p] + row * row_bytes(g));
  return s;
}

static void start_block(struct gen *g, const struct gen_loop *l, struct across *a) {
  if (is_row(l)) { folds_start(g, &a->blocks); return; }
  for (int r = 0; r < KIR_ROW_LANES; r++) {
    struct fold_side to = row_at(g, &a->fold, r);
    store_start(g, &a->fold, 0, &to);
  }
}

/* The block's result to the first accumulator. */
static void close_block(struct gen *g, const struct gen_loop *l, struct across *a) {
  for (int h = KIR_ROW_LANES / 2; h && !is_row(l); h /= 2)
    for (int r = 0; r < h; r++) {
      struct fold_side left = row_at(g, &a->fold, r), right = row_at(g, &a->fold, r + h);
      int out[PARTS];
      merge(g, &a->fold, &left, &right, 0, part_bytes(g, &a->fold, 0), out);
      merge_store(g, &a->fold, out, &left, -1, 0, 0);
    }
}

void across_start(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_across; i++) {
    registers_clear(emission_of(g));
    gpr_store_imm(enc(g), in_frame(l->across[i].blocks.count), 0);
    start_block(g, l, &l->across[i]);
  }
}

void across_end(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_across; i++) {
    registers_clear(emission_of(g));
    close_block(g, l, &l->across[i]);
    folds_total(g, &l->across[i].blocks);
  }
}

/* The position in the loop is in RAX: at the beginning of a block, but for the first, the one before is pushed. */
static void open_block(struct gen *g, const struct gen_loop *l, struct across *a) {
  struct encoder *e = enc(g);
  int inside = label_new(e);
  gpr(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, inside);
  gpr_imm(e, A_AND, rm_reg(RAX), (is_row(l) ? KIR_COLUMN_BLOCK : KIR_ROW_BLOCK) - 1);
  jump_if(e, CC_NE, inside);
  close_block(g, l, a);
  folds_push(g, &a->blocks);
  start_block(g, l, a);
  registers_clear(emission_of(g));
  label_here(e, inside);
}

static void lane_step(struct gen *g, int lane, void *ctx) {
  struct across *a = ctx;
  struct fold_side acc = row_at(g, &a->fold, 0), here = acc;
  int out[PARTS];
  for (int p = 0; p < a->fold.n; p++)
    here.at[p] = lane_at(lane, lane_bytes(part_dtype(g, &a->fold, p)) == 8 ? 3 : 2, a->fold.elements[p]);
  merge(g, &a->fold, &acc, &here, 0, 16, out);
  merge_store(g, &a->fold, out, &acc, -1, 0, a->fold.stmt->op == KIR_CALL ? 0 : 16);
  registers_clear(emission_of(g));
}

static void lane_steps(struct gen *g, const struct gen_loop *l, struct across *a, int mask) {
  if (l->is_flat) gpr(enc(g), G_MOV, RAX, rm_reg(R9));
  else gpr(enc(g), G_MOV, RAX, in_frame(l->j));
  open_block(g, l, a);
  for (int p = 0; p < a->fold.n; p++) {
    int r = lanes_of(g, in_reg(g, a->fold.stmt->in[p], 0));
    vec(enc(g), I_MOVUPS_TO, part_bytes(g, &a->fold, p), r, 0, in_frame(a->fold.elements[p]));
    g->locked = g->temps = 0;
  }
  registers_clear(emission_of(g));
  each_lane(g, mask, 0, SAVED_LOOP, true, lane_step, a);
  registers_clear(emission_of(g));
}

static void row_step(struct gen *g, const struct gen_loop *l, struct across *a, int mask) {
  struct encoder *e = enc(g);
  struct fold_side acc = row_at(g, &a->fold, 0), value = { .vals = a->fold.stmt->in };
  int out[PARTS];
  gpr(e, G_MOV, RAX, in_frame(l->var));
  gpr(e, G_SUB, RAX, in_frame(l->first));
  open_block(g, l, a);
  gpr(e, G_STORE, RSI, in_frame(g->saved + SAVED_LOOP));
  gpr(e, G_MOV, RSI, in_frame(l->var));
  gpr(e, G_SUB, RSI, in_frame(l->first));
  gpr_imm(e, A_AND, rm_reg(RSI), KIR_ROW_LANES - 1);
  gpr_mul_imm(e, RSI, rm_reg(RSI), row_bytes(g));
  for (int p = 0; p < a->fold.n; p++) acc.at[p] = rm_index(RBX, RSI, 0, a->fold.acc[p]);
  merge(g, &a->fold, &acc, &value, 0, part_bytes(g, &a->fold, 0), out);
  merge_store(g, &a->fold, out, &acc, mask, 0, 0);
  gpr(e, G_MOV, RSI, in_frame(g->saved + SAVED_LOOP));
}

void across_step(struct gen *g, const struct kir_stmt *s, int mask) {
  struct gen_loop *l = &g->loops[g->loop];
  int i = 0;
  while (l->across[i].fold.stmt != s) i++;
  registers_clear(emission_of(g));
  if (is_row(l)) lane_steps(g, l, &l->across[i], mask);
  else row_step(g, l, &l->across[i], mask);
  registers_clear(emission_of(g));
}
