/* fold.c -- folds in the order of the language. Along lanes: element j goes to accumulator j mod 32, the 32 meet in a
 * tree 16, 8, 4, 2, 1, every 4096 elements. Along a serial loop: 128 in order. Either way blocks then combine like a
 * binary counter, older ones on the left.
 *
 * A fold's accumulators are vectors: 32/G of them along lanes, one a copy of the lane body along a serial loop. They
 * are in registers while the hot loop runs and in the frame between. A level of the counter has room for one block's
 * result of every fold of the loop. */
#include "backend/x86/gen.h"

static bool is_row(const struct loop *l) { return l->stmt->kind == KIR_LANE; }

static int fold_dtype(const struct gen *g, const struct loop *l, int f) { return g->vals[l->fold[f]->out[0]].dtype; }

int folds_copies(const struct gen *g, const struct loop *l) {
  return l->in_one ? 1 : is_row(l) ? LANES / g->lanes : l->in_lane ? g->copies : 1;
}

static struct rm acc_at(const struct gen *g, const struct loop *l, int f, int i) {
  return in_frame(l->acc[f] + i * (is_row(l) ? width_of(g, fold_dtype(g, l, f)) : g->vector_bytes));
}

void folds_place(struct gen *g, struct loop *l) {
  int vectors = is_row(l) ? 1 : l->in_lane ? COPIES : 1;
  for (int f = 0; f < l->n_folds; f++) {
    l->acc_pin[f] = -1;
    l->acc[f] = is_row(l) ? slot_vector(g, LANES * 8 / g->vector_bytes) : g->vals[l->fold[f]->out[0]].home;
  }
  if (l->n_folds) l->counter = slot_vector(g, LEVELS * l->n_folds * vectors);
}

/* Bools are masks of 32 bits. */
static uint64_t start_bits(int op, int dtype) {
  uint64_t bits = kir_empty((enum kir_op)op, (weft_dtype)dtype);
  return dtype == WEFT_BOOL && bits ? UINT32_MAX : bits;
}

static void fill_start(struct gen *g, const struct loop *l, int f, int reg) {
  int dtype = fold_dtype(g, l, f);
  struct rm start = pool_scalar(enc(g), lane_bytes(dtype), start_bits(l->fold[f]->op, dtype));
  enum insn insn = !start.broadcast ? I_MOVUPS : lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS;
  start.broadcast = false;
  vec(enc(g), insn, width_of(g, dtype), reg, 0, start);
}

void folds_start(struct gen *g, struct loop *l) {
  for (int f = 0; f < l->n_folds; f++) {
    bool is_pinned = l->acc_pin[f] >= 0;
    int r = is_pinned ? l->acc_pin[f] : temp(g);
    fill_start(g, l, f, r);
    for (int i = 0; i < folds_copies(g, l); i++)
      if (!is_pinned) vec(enc(g), I_MOVUPS_TO, width_of(g, fold_dtype(g, l, f)), r, 0, acc_at(g, l, f, i));
      else if (i) fill_start(g, l, f, r + i);
  }
  g->temps = 0;
}

static void move_all(struct gen *g, struct loop *l, enum insn insn) {
  for (int f = 0; f < l->n_folds; f++)
    for (int i = 0; l->acc_pin[f] >= 0 && i < folds_copies(g, l); i++)
      vec(enc(g), insn, width_of(g, fold_dtype(g, l, f)), l->acc_pin[f] + i, 0, acc_at(g, l, f, i));
}
void folds_to_memory(struct gen *g, struct loop *l) { move_all(g, l, I_MOVUPS_TO); }
void folds_from_memory(struct gen *g, struct loop *l) { move_all(g, l, I_MOVUPS); }

/* ---- One element ---- */

/* The accumulator of the current copy of lanes: known now if the body starts at a multiple of 32, else found by j. */
static struct rm row_acc(struct gen *g, const struct loop *l, int f) {
  struct encoder *e = enc(g);
  int bytes = lane_bytes(fold_dtype(g, l, f)), scale = bytes == 8 ? 3 : 2;
  if (g->copies * g->lanes % LANES == 0) return acc_at(g, l, f, g->now_copy % (LANES / g->lanes));
  if (l->is_flat) gpr(e, G_LEA, RAX, rm_at(R9, g->now_copy * g->lanes));
  else {
    gpr(e, G_MOV, RAX, in_frame(l->j));
    gpr_imm(e, A_ADD, rm_reg(RAX), g->now_copy * g->lanes);
  }
  gpr_imm(e, A_AND, rm_reg(RAX), LANES - 1);
  return rm_index(RBX, RAX, scale, l->acc[f]);
}

static void step_in_memory(struct gen *g, const struct loop *l, int f, struct rm acc) {
  struct encoder *e = enc(g);
  const struct kir_stmt *s = l->fold[f];
  int dtype = fold_dtype(g, l, f), bytes = width_of(g, dtype), v = in_reg(g, s->in[0], g->now_copy), t = temp(g);
  vec(e, I_MOVUPS, bytes, t, 0, acc);
  if (g->now->mask >= 0) {
    int sum = temp(g);
    combine(g, s->op, dtype, bytes, sum, t, rm_reg(v));
    blend(g, dtype, g->now->mask, g->now_copy, t, sum);
  } else {
    combine(g, s->op, dtype, bytes, t, t, rm_reg(v));
  }
  vec(e, I_MOVUPS_TO, bytes, t, 0, acc);
}

void fold_step(struct gen *g, const struct kir_stmt *s) {
  struct loop *l = &g->loops[g->loop];
  int f = 0, copy = is_row(l) ? g->now_copy % (LANES / g->lanes) : g->now_copy;
  while (l->fold[f] != s) f++;
  if (l->acc_pin[f] >= 0) {
    int dtype = fold_dtype(g, l, f), acc = l->acc_pin[f] + copy, v = in_reg(g, s->in[0], g->now_copy);
    int sum = g->now->mask >= 0 ? temp(g) : acc;
    combine(g, s->op, dtype, width_of(g, dtype), sum, acc, rm_reg(v));
    if (sum != acc) blend(g, dtype, g->now->mask, g->now_copy, acc, sum);
  } else {
    step_in_memory(g, l, f, is_row(l) ? row_acc(g, l, f) : acc_at(g, l, f, copy));
  }
  release(g);
  g->temps = 0;
}

/* ---- The tree ---- */

/* t = the upper half of the first `bytes` bytes of r. */
static void upper_half(struct gen *g, int bytes, int t, int r) {
  struct encoder *e = enc(g);
  if (bytes == 64) vec_imm(e, I_EXTRACTI256, 64, r, 0, rm_reg(t), 1);
  else if (bytes == 32) vec_imm(e, I_EXTRACTI128, 32, r, 0, rm_reg(t), 1);
  else vec_imm(e, I_PSHUFD, 16, t, 0, rm_reg(r), bytes == 16 ? 0x4E : 0x55);
}

static void tree(struct gen *g, int op, int dtype, int first, int n) {
  int bytes = width_of(g, dtype), t = temp(g);
  for (int h = n / 2; h; h /= 2)
    for (int i = 0; i < h; i++) combine(g, op, dtype, bytes, first + i, first + i, rm_reg(first + i + h));
  for (int b = bytes; b > lane_bytes(dtype); b /= 2) {
    upper_half(g, b, t, first);
    combine(g, op, dtype, b > 32 ? 32 : 16, first, first, rm_reg(t));
  }
}

/* Leaves the result of each fold in lane 0 of its first accumulator in the frame. */
void folds_tree(struct gen *g, struct loop *l) {
  int n = folds_copies(g, l);
  for (int f = 0; f < l->n_folds; f++) {
    int dtype = fold_dtype(g, l, f), bytes = width_of(g, dtype), first = l->acc_pin[f];
    bool borrowed = first < 0;
    if (borrowed) {
      first = pin_run(g, n, 4);
      for (int i = 0; i < n; i++) vec(enc(g), I_MOVUPS, bytes, first + i, 0, acc_at(g, l, f, i));
    }
    tree(g, l->fold[f]->op, dtype, first, n);
    vec(enc(g), I_MOVUPS_TO, 16, first, 0, acc_at(g, l, f, 0));
    for (int i = 0; borrowed && i < n; i++) unpin(g, first + i);
    g->temps = 0;
  }
}

/* ---- The counter ---- */

static int block_vectors(const struct gen *g, const struct loop *l) { return is_row(l) ? 1 : folds_copies(g, l); }

static struct rm level_at(const struct gen *g, const struct loop *l, int f, int i) {
  return rm_at(RDX, (f * block_vectors(g, l) + i) * g->vector_bytes);
}

static void merge_level(struct gen *g, struct loop *l) {
  struct encoder *e = enc(g);
  int older = temp(g), v = temp(g);
  for (int f = 0; f < l->n_folds; f++)
    for (int i = 0; i < block_vectors(g, l); i++) {
      int dtype = fold_dtype(g, l, f), bytes = is_row(l) ? 16 : width_of(g, dtype);
      vec(e, I_MOVUPS, bytes, older, 0, level_at(g, l, f, i));
      vec(e, I_MOVUPS, bytes, v, 0, acc_at(g, l, f, i));
      combine(g, l->fold[f]->op, dtype, bytes, older, older, rm_reg(v));
      vec(e, I_MOVUPS_TO, bytes, older, 0, acc_at(g, l, f, i));
    }
  g->temps = 0;
}

static void store_level(struct gen *g, struct loop *l) {
  int v = temp(g);
  for (int f = 0; f < l->n_folds; f++)
    for (int i = 0; i < block_vectors(g, l); i++) {
      int bytes = is_row(l) ? 16 : width_of(g, fold_dtype(g, l, f));
      vec(enc(g), I_MOVUPS, bytes, v, 0, acc_at(g, l, f, i));
      vec(enc(g), I_MOVUPS_TO, bytes, v, 0, level_at(g, l, f, i));
    }
  g->temps = 0;
}

static void next_level(struct gen *g, struct loop *l) {
  gpr_imm(enc(g), A_ADD, rm_reg(RDX), l->n_folds * block_vectors(g, l) * g->vector_bytes);
  gpr_shift(enc(g), 5, RAX, 1);
}

static void counter_open(struct gen *g, struct loop *l) { /* RAX = blocks so far, RDX = level 0 */
  gpr(enc(g), G_MOV, RAX, in_frame(l->count));
  gpr(enc(g), G_LEA, RDX, in_frame(l->counter));
}

static void test_bit(struct gen *g) {
  static const uint8_t test_al_1[] = { 0xA8, 1 };
  code_bytes(enc(g), test_al_1, 2);
}

void folds_push(struct gen *g, struct loop *l) {
  struct encoder *e = enc(g);
  int again = label_new(e), store = label_new(e);
  counter_open(g, l);
  label_here(e, again);
  test_bit(g);
  jump_if(e, CC_E, store);
  merge_level(g, l);
  next_level(g, l);
  jump_to(e, again);
  label_here(e, store);
  store_level(g, l);
  gpr_imm(e, A_ADD, in_frame(l->count), 1);
}

static void broadcast_results(struct gen *g, struct loop *l) {
  struct encoder *e = enc(g);
  int r = temp(g);
  for (int f = 0; f < l->n_folds; f++) {
    int val = l->fold[f]->out[0], dtype = fold_dtype(g, l, f);
    vec(e, lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, width_of(g, dtype), r, 0, acc_at(g, l, f, 0));
    vec(e, I_MOVUPS_TO, width_of(g, dtype), r, 0, home_of(g, val, 0));
  }
  g->temps = 0;
}

/* Accumulators that no element reached hold the start value, which changes nothing: the tree over them is skipped. */
void folds_of_one(struct gen *g, struct loop *l) {
  struct encoder *e = enc(g);
  for (int f = 0; f < l->n_folds; f++) {
    int dtype = fold_dtype(g, l, f), r = l->acc_pin[f], bytes = width_of(g, dtype);
    tree(g, l->fold[f]->op, dtype, r, 1);
    vec(e, lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, bytes, r, 0, rm_reg(r));
    vec(e, I_MOVUPS_TO, bytes, r, 0, home_of(g, l->fold[f]->out[0], 0));
    g->temps = 0;
  }
}

void folds_total(struct gen *g, struct loop *l) {
  struct encoder *e = enc(g);
  int again = label_new(e), skip = label_new(e), done = label_new(e);
  counter_open(g, l);
  label_here(e, again);
  gpr(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, done);
  test_bit(g);
  jump_if(e, CC_E, skip);
  merge_level(g, l);
  label_here(e, skip);
  next_level(g, l);
  jump_to(e, again);
  label_here(e, done);
  if (is_row(l)) broadcast_results(g, l);
}
