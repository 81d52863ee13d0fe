/* x86_fold.c -- folds in the order of the language. Along lanes: element j goes to accumulator j mod 32, the 32 meet in a
 * tree 16, 8, 4, 2, 1, every 4096 elements. Along a serial loop: 128 in order. Either way blocks then combine like a
 * binary counter, older ones on the left.
 *
 * A fold's accumulators are vectors: 32/G of them along lanes, one a copy of the lane body along a serial loop. They
 * are in registers while the hot loop runs, unless a fn combines them, and in the frame between. A level of the counter
 * has room for one block's result of every fold of the loop. */
#include "backend/x86/gen.h"

static bool is_row(const struct gen_loop *l) { return l->stmt->kind == KIR_LANE; }
static bool is_fn(const struct gen_fold *f) { return f->stmt->op == KIR_CALL; }

/* Whether the order of its elements cannot be told from the result: then each copy has an accumulator of its own. */
static bool is_free(const struct gen *g, const struct gen_fold *f) {
  return !is_fn(f) && !(kir_is_float((weft_dtype)part_dtype(g, f, 0)) && (f->stmt->op == KIR_ADD || f->stmt->op == KIR_MUL));
}

int fold_copies(const struct gen *g, const struct gen_loop *l, const struct gen_fold *f) {
  int n = KIR_ROW_LANES / g->lanes;
  if (l->in_one) return 1;
  if (!is_row(l)) return l->in_lane ? g->copies : 1;
  return is_free(g, f) && l->copies > n ? l->copies : n;
}

static struct rm acc_at(const struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int part, int i) {
  return in_frame(f->acc[part] + i * (is_row(l) ? part_bytes(g, f, part) : g->vector_bytes));
}

static struct fold_side accs_at(const struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int i) {
  struct fold_side s = { .vals = NULL };
  for (int p = 0; p < f->n; p++) s.at[p] = acc_at(g, l, f, p, i);
  return s;
}

/* Where the result lives is also where it is accumulated, if it looks the same there. */
static bool is_in_home(const struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int part) {
  return !is_row(l) && !f->is_apart && g->vals[f->stmt->out[part]].domain == VECTOR;
}

void folds_place(struct gen *g, struct gen_loop *l) {
  int copies = l->in_lane ? COPIES : 1;
  l->n_parts = 0;
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    f->pin = -1;
    f->first = l->n_parts;
    l->n_parts += f->n;
    for (int p = 0; p < f->n; p++)
      f->acc[p] = is_row(l)                  ? slot_vector(g, KIR_ROW_LANES * 8 / g->vector_bytes + 1)
                  : is_in_home(g, l, f, p) ? g->vals[f->stmt->out[p]].home
                                           : slot_vector(g, copies);
  }
  if (l->n_folds) l->counter = slot_vector(g, LEVELS * l->n_parts * (is_row(l) ? 1 : copies));
}

void folds_start(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    for (int c = 0; c < fold_copies(g, l, f); c++) {
      struct fold_side to = accs_at(g, l, f, c);
      if (f->pin < 0) store_start(g, f, is_row(l) ? 0 : c, &to);
      else fill_start(g, f, 0, is_row(l) ? 0 : c, f->pin + c);
    }
  }
}

static void move_all(struct gen *g, struct gen_loop *l, enum insn insn) {
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    for (int c = 0; f->pin >= 0 && c < fold_copies(g, l, f); c++)
      vec(enc(g), insn, part_bytes(g, f, 0), f->pin + c, 0, acc_at(g, l, f, 0, c));
  }
}
void folds_to_memory(struct gen *g, struct gen_loop *l) { move_all(g, l, I_MOVUPS_TO); }
void folds_from_memory(struct gen *g, struct gen_loop *l) { move_all(g, l, I_MOVUPS); }

/* ---- One element ---- */

static const struct gen_fold *fold_of(const struct gen_loop *l, const struct kir_stmt *s) {
  int f = 0;
  while (l->folds[f].stmt != s) f++;
  return &l->folds[f];
}

/* Is the accumulator of a copy of the lanes known now? The body starts at a multiple of 32. */
static bool is_aligned(const struct gen *g) { return g->copies * g->lanes % KIR_ROW_LANES == 0; }

/* reg = which of the 32 accumulators the first lane of the copy goes to. */
static void first_accumulator(struct gen *g, const struct gen_loop *l, int copy, int reg) {
  struct encoder *e = enc(g);
  if (l->is_flat) gpr(e, G_LEA, reg, rm_at(R9, copy * g->lanes));
  else {
    gpr(e, G_MOV, reg, in_frame(l->j));
    gpr_imm(e, A_ADD, rm_reg(reg), copy * g->lanes);
  }
  gpr_imm(e, A_AND, rm_reg(reg), KIR_ROW_LANES - 1);
}

static struct rm indexed(const struct gen *g, const struct gen_fold *f, int part, int reg) {
  return rm_index(RBX, reg, lane_bytes(part_dtype(g, f, part)) == 8 ? 3 : 2, f->acc[part]);
}

static struct rm row_acc(struct gen *g, const struct gen_loop *l, const struct gen_fold *f) {
  if (is_aligned(g)) return acc_at(g, l, f, 0, g->now_copy % (KIR_ROW_LANES / g->lanes));
  first_accumulator(g, l, g->now_copy, RAX);
  return indexed(g, f, 0, RAX);
}

static void step_in_memory(struct gen *g, const struct gen_fold *f, int v, struct rm acc) {
  struct encoder *e = enc(g);
  int dtype = part_dtype(g, f, 0), bytes = width_of(g, dtype), t = temp(g);
  vec(e, I_MOVUPS, bytes, t, 0, acc);
  if (g->now->mask >= 0) {
    int sum = temp(g);
    combine(g, f->stmt->op, dtype, bytes, sum, t, rm_reg(v));
    blend(g, dtype, g->now->mask, g->now_copy, t, sum);
  } else {
    combine(g, f->stmt->op, dtype, bytes, t, t, rm_reg(v));
  }
  vec(e, I_MOVUPS_TO, bytes, t, 0, acc);
}

void fold_step(struct gen *g, const struct kir_stmt *s) {
  struct gen_loop *l = &g->loops[g->loop];
  const struct gen_fold *f = fold_of(l, s);
  int copy = is_row(l) ? g->now_copy % fold_copies(g, l, f) : g->now_copy;
  int v = lanes_of(g, in_reg(g, s->in[0], g->now_copy));
  if (f->pin >= 0) {
    int dtype = part_dtype(g, f, 0), acc = f->pin + copy, sum = g->now->mask >= 0 ? temp(g) : acc;
    combine(g, s->op, dtype, width_of(g, dtype), sum, acc, rm_reg(v));
    if (sum != acc) blend(g, dtype, g->now->mask, g->now_copy, acc, sum);
  } else {
    step_in_memory(g, f, v, is_row(l) ? row_acc(g, l, f) : acc_at(g, l, f, 0, copy));
  }
  release(g);
  g->temps = 0;
}

/* By a fn: between runs, from the homes of its operands. RSI is the first accumulator if that is found at run time. */
static void fn_copy(struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int mask, int copy) {
  bool is_found = is_row(l) && !is_aligned(g);
  struct fold_side acc = accs_at(g, l, f, copy), value = { .vals = f->stmt->in };
  int out[PARTS];
  if (is_found) {
    gpr(enc(g), G_STORE, RSI, in_frame(g->saved + SAVED_LOOP));
    first_accumulator(g, l, copy, RSI);
    for (int p = 0; p < f->n; p++) acc.at[p] = indexed(g, f, p, RSI);
  }
  merge(g, f, &acc, &value, copy, 0, out);
  merge_store(g, f, out, &acc, mask, copy, 0);
  if (is_found) gpr(enc(g), G_MOV, RSI, in_frame(g->saved + SAVED_LOOP));
}

void fold_by_fn(struct gen *g, const struct kir_stmt *s, int mask) {
  struct gen_loop *l = &g->loops[g->loop];
  registers_clear(emission_of(g));
  for (int c = 0; c < (l->lane >= 0 ? g->copies : 1); c++) fn_copy(g, l, fold_of(l, s), mask, c);
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

/* In memory, whole vectors at a time: below G the lanes behind the half are of no use to anybody. */
static void tree_by_fn(struct gen *g, const struct gen_fold *f) {
  for (int h = KIR_ROW_LANES / 2; h; h /= 2)
    for (int i = 0; i < h; i += g->lanes) {
      struct fold_side left = { .vals = NULL }, right = left;
      int out[PARTS];
      for (int p = 0; p < f->n; p++) {
        int size = lane_bytes(part_dtype(g, f, p));
        left.at[p] = in_frame(f->acc[p] + i * size);
        right.at[p] = in_frame(f->acc[p] + (i + h) * size);
      }
      merge(g, f, &left, &right, 0, 0, out);
      merge_store(g, f, out, &left, -1, 0, 0);
    }
}

static void tree_by_op(struct gen *g, struct gen_loop *l, struct gen_fold *f) {
  int n = fold_copies(g, l, f), dtype = part_dtype(g, f, 0), bytes = width_of(g, dtype), first = f->pin;
  if (first < 0) {
    first = pin_run(g, n, 0);
    for (int i = 0; i < n; i++) vec(enc(g), I_MOVUPS, bytes, first + i, 0, acc_at(g, l, f, 0, i));
  }
  tree(g, f->stmt->op, dtype, first, n);
  vec(enc(g), I_MOVUPS_TO, 16, first, 0, acc_at(g, l, f, 0, 0));
  for (int i = 0; f->pin < 0 && i < n; i++) unpin(g, first + i);
  g->temps = 0;
}

/* Leaves the result of each fold in lane 0 of its first accumulator in the frame. */
void folds_tree(struct gen *g, struct gen_loop *l) {
  registers_clear(emission_of(g));
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    if (is_fn(f)) tree_by_fn(g, f);
    else tree_by_op(g, l, f);
  }
}

/* ---- The counter ---- */

static int block_vectors(const struct gen *g, const struct gen_loop *l) { return is_row(l) ? 1 : fold_copies(g, l, &l->folds[0]); }

static struct fold_side level_at(const struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int i) {
  struct fold_side s = { .vals = NULL };
  for (int p = 0; p < f->n; p++) s.at[p] = rm_at(RDX, ((f->first + p) * block_vectors(g, l) + i) * g->vector_bytes);
  return s;
}

/* A fn may use the general registers that count. */
static void keep_counter(struct gen *g, bool back) {
  gpr(enc(g), back ? G_MOV : G_STORE, RAX, in_frame(g->saved + SAVED_LOOP));
  gpr(enc(g), back ? G_MOV : G_STORE, RDX, in_frame(g->saved + SAVED_LOOP + 8));
}

static void merge_level(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    for (int c = 0; c < block_vectors(g, l); c++) {
      int out[PARTS], bytes = is_fn(f) ? 0 : is_row(l) ? 16 : part_bytes(g, f, 0);
      struct fold_side older = level_at(g, l, f, c), newer = accs_at(g, l, f, c);
      if (is_fn(f)) keep_counter(g, false);
      merge(g, f, &older, &newer, 0, bytes, out);
      merge_store(g, f, out, &newer, -1, 0, bytes);
      if (is_fn(f)) keep_counter(g, true);
    }
  }
}

static void store_level(struct gen *g, struct gen_loop *l) {
  int v = temp(g);
  for (int i = 0; i < l->n_folds; i++)
    for (int c = 0; c < block_vectors(g, l); c++) {
      struct gen_fold *f = &l->folds[i];
      struct fold_side level = level_at(g, l, f, c);
      for (int p = 0; p < f->n; p++) {
        int bytes = is_row(l) ? 16 : part_bytes(g, f, p);
        vec(enc(g), I_MOVUPS, bytes, v, 0, acc_at(g, l, f, p, c));
        vec(enc(g), I_MOVUPS_TO, bytes, v, 0, level.at[p]);
      }
    }
  g->temps = 0;
}

static void next_level(struct gen *g, struct gen_loop *l) {
  gpr_imm(enc(g), A_ADD, rm_reg(RDX), l->n_parts * block_vectors(g, l) * g->vector_bytes);
  gpr_shift(enc(g), 5, RAX, 1);
}

static void counter_open(struct gen *g, struct gen_loop *l) { /* RAX = blocks so far, RDX = level 0 */
  gpr(enc(g), G_MOV, RAX, in_frame(l->count));
  gpr(enc(g), G_LEA, RDX, in_frame(l->counter));
}

static void test_bit(struct gen *g) {
  static const uint8_t test_al_1[] = { 0xA8, 1 };
  code_bytes(enc(g), test_al_1, 2);
}

void folds_push(struct gen *g, struct gen_loop *l) {
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

/* ---- Results ---- */

/* All lanes of reg to the home of a fold's result, or one of them to a scalar's. */
static void set_result(struct gen *g, int val, int copy, int reg) {
  const struct gen_value *v = &g->vals[val];
  struct rm home = home_of(g, val, copy);
  if (v->domain == SCALAR) { vec(enc(g), I_MOVQ_TO, 16, reg, 0, home); return; }
  if (v->domain == BOOL && g->e.evex) {
    int k = temp_mask(g);
    vec(enc(g), I_PMOVD2M, width_of(g, WEFT_I32), k, 0, rm_reg(reg));
    vec(enc(g), I_KMOV_TO, 16, k, 0, home);
    return;
  }
  vec(enc(g), I_MOVUPS_TO, width_of(g, v->dtype), reg, 0, home);
}

static void broadcast(struct gen *g, int dtype, int reg, struct rm m) {
  vec(enc(g), lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, width_of(g, dtype), reg, 0, m);
}

void folds_results(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    for (int p = 0; p < f->n; p++)
      for (int c = 0; !is_in_home(g, l, f, p) && c < block_vectors(g, l); c++) {
        int r = temp(g), dtype = part_dtype(g, f, p);
        if (is_row(l)) broadcast(g, dtype, r, acc_at(g, l, f, p, 0));
        else vec(enc(g), I_MOVUPS, width_of(g, dtype), r, 0, acc_at(g, l, f, p, c));
        set_result(g, f->stmt->out[p], c, r);
        g->temps = 0;
      }
  }
}

/* Accumulators that no element reached hold the start value, which changes nothing: the tree over them is skipped. */
void folds_of_one(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_folds; i++) {
    struct gen_fold *f = &l->folds[i];
    int dtype = part_dtype(g, f, 0), r = f->pin;
    tree(g, f->stmt->op, dtype, r, 1);
    broadcast(g, dtype, r, rm_reg(r));
    set_result(g, f->stmt->out[0], 0, r);
    g->temps = 0;
  }
}

void folds_total(struct gen *g, struct gen_loop *l) {
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
  folds_results(g, l);
}
