/* merge.c -- older o newer, by an instruction or by a fn of the kernel: the one thing that folds and prefixes do. A fold
 * has one value, or the n of its fn, its parts. A part in memory is as wide as in a register, bools as 32 bits a lane.
 *
 * A fn's values are those of the kernel's table; they are lanes of one copy wherever the fn is used. Its statements are
 * emitted between runs: nothing is held in registers before or after, but for what is pinned. */
#include "backend/x86/gen.h"

int part_dtype(const struct gen *g, const struct gen_fold *f, int part) {
  int dtype = g->vals[f->stmt->in[part]].dtype;
  return dtype == WEFT_BOOL ? WEFT_I32 : dtype;
}

int part_bytes(const struct gen *g, const struct gen_fold *f, int part) { return width_of(g, part_dtype(g, f, part)); }

/* A register with the 32 bits a lane of a bool; any other value is what it is. */
int lanes_of(struct gen *g, int reg) {
  if (reg < MASK_BASE) return reg;
  int t = temp(g);
  vec(enc(g), I_PMOVM2D, width_of(g, WEFT_I32), t, 0, rm_reg(reg - MASK_BASE));
  return t;
}

static void load_lanes(struct gen *g, int bytes, int reg, struct rm m) {
  if (reg < MASK_BASE) { vec(enc(g), I_MOVUPS, bytes, reg, 0, m); return; }
  uint64_t before = g->temps;
  int t = temp(g);
  vec(enc(g), I_MOVUPS, bytes, t, 0, m);
  vec(enc(g), I_PMOVD2M, bytes, reg - MASK_BASE, 0, rm_reg(t));
  g->temps = before;
}

/* ---- Where folds begin ---- */

static uint64_t start_bits(const struct gen_fold *f, int dtype) {
  enum kir_op op = (enum kir_op)f->stmt->op;
  uint64_t bits = f->stmt->kind == KIR_PREFIX ? kir_neutral(op, (weft_dtype)dtype) : kir_empty(op, (weft_dtype)dtype);
  return dtype == WEFT_BOOL && bits ? UINT32_MAX : bits;
}

void fill_start(struct gen *g, const struct gen_fold *f, int part, int copy, int reg) {
  int dtype = part_dtype(g, f, part), bytes = width_of(g, dtype);
  if (f->stmt->n_from) {
    uint64_t before = g->temps;
    g->temps |= (uint64_t)1 << reg;
    move_vector(g, bytes, reg, lanes_of(g, in_reg(g, f->stmt->from[part], copy)));
    g->temps = before;
    g->locked = 0;
    return;
  }
  struct rm start = pool_scalar(enc(g), lane_bytes(dtype), start_bits(f, g->vals[f->stmt->in[part]].dtype));
  enum insn insn = !start.broadcast ? I_MOVUPS : lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS;
  start.broadcast = false;
  vec(enc(g), insn, bytes, reg, 0, start);
}

void store_start(struct gen *g, const struct gen_fold *f, int copy, const struct fold_side *to) {
  for (int p = 0; p < f->n; p++) {
    int r = temp(g);
    fill_start(g, f, p, copy, r);
    vec(enc(g), I_MOVUPS_TO, part_bytes(g, f, p), r, 0, to->at[p]);
    g->temps = 0;
  }
  registers_clear(emission_of(g));
}

/* ---- By a fn ---- */

static void define_param(struct gen *g, const struct gen_fold *f, const struct fold_side *side, int part, int param, int copy) {
  bool is_mask = g->vals[param].domain == BOOL && g->e.evex;
  int bytes = part_bytes(g, f, part), r;
  if (side->vals) {
    int x = in_reg(g, side->vals[part], copy);
    r = take_register(g, is_mask);
    if (is_mask) vec(enc(g), I_KMOV, 16, r - MASK_BASE, 0, rm_reg(x - MASK_BASE));
    else move_vector(g, bytes, r, x);
  } else {
    r = lock_register(g, take_register(g, is_mask));
    load_lanes(g, bytes, r, side->at[part]);
  }
  g->locked = g->temps = 0;
  define_value(g, param, 0, r);
}

static void merge_by_fn(struct gen *g, const struct gen_fold *f, const struct fold_side *left, const struct fold_side *right,
                        int copy, int out[PARTS]) {
  const struct kir_fn *fn = &g->k->fns[f->stmt->fn];
  int copies = g->copies;
  g->copies = 1;
  registers_clear(emission_of(g));
  int n = steps_collect_fn(emission_of(g), fn, g->fn_memory[f->stmt->fn]);
  g->copies = copies;
  for (int p = 0; p < f->n; p++) define_param(g, f, left, p, fn->param[p], copy);
  for (int p = 0; p < f->n; p++) define_param(g, f, right, p, fn->param[f->n + p], copy);
  g->copies = 1;
  run_emit(g, n);
  for (int p = 0; p < f->n; p++) out[p] = lanes_of(g, in_reg(g, fn->result[p], 0));
  g->copies = copies;
}

/* ---- By an instruction ---- */

static int operand_of(struct gen *g, const struct fold_side *side, int copy, int bytes) {
  if (side->vals) return lanes_of(g, in_reg(g, side->vals[0], copy));
  int r = temp(g);
  vec(enc(g), I_MOVUPS, bytes, r, 0, side->at[0]);
  return r;
}

void merge(struct gen *g, const struct gen_fold *f, const struct fold_side *left, const struct fold_side *right, int copy,
           int bytes, int out[PARTS]) {
  if (f->stmt->op == KIR_CALL) { merge_by_fn(g, f, left, right, copy, out); return; }
  int x = operand_of(g, left, copy, bytes), y = operand_of(g, right, copy, bytes), d = temp(g);
  combine(g, f->stmt->op, part_dtype(g, f, 0), bytes, d, x, rm_reg(y));
  out[0] = d;
}

/* Stores what merge gave, where the lanes of the mask act, and forgets it. */
void merge_store(struct gen *g, const struct gen_fold *f, const int out[PARTS], const struct fold_side *to, int mask, int copy,
                 int bytes) {
  for (int p = 0; p < f->n; p++) {
    int n = bytes ? bytes : part_bytes(g, f, p), r = out[p];
    uint64_t before = g->temps;
    if (mask >= 0) {
      vec(enc(g), I_MOVUPS, n, r = temp(g), 0, to->at[p]);
      blend(g, part_dtype(g, f, p), mask, copy, r, out[p]);
    }
    vec(enc(g), I_MOVUPS_TO, n, r, 0, to->at[p]);
    g->temps = before;
  }
  g->temps = g->locked = 0;
  if (f->stmt->op == KIR_CALL) registers_clear(emission_of(g));
}
