/* x86_prefix.c -- running combines: in order inside blocks of 4096, (total of the blocks before) o (so far in this block).
 * Along lanes that is one lane after the other; beside lanes, or outside, a step of each iteration. Total and what is so
 * far are in the frame. They begin at the neutral value, so nothing is special about the first; but a fn is not asked to
 * combine with it: its first element of a block stands alone, and so does its first block. */
#include "backend/x86/gen.h"

static bool is_row(const struct gen_loop *l) { return l->stmt->kind == KIR_LANE; }

static struct fold_side slots(const struct gen *g, const struct gen_fold *f, const int32_t at[PARTS], int copy) {
  struct fold_side s = { .vals = NULL };
  for (int p = 0; p < f->n; p++) s.at[p] = in_frame(at[p] + copy * g->vector_bytes);
  return s;
}

static int copies_of(const struct gen *g, const struct gen_loop *l) { return !is_row(l) && l->in_lane ? g->copies : 1; }

void prefixes_place(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_prefixes; i++) {
    struct gen_fold *f = &l->prefixes[i];
    int n = !is_row(l) && l->in_lane ? COPIES : 1;
    for (int p = 0; p < f->n; p++) {
      f->acc[p] = slot_vector(g, n);
      f->total[p] = slot_vector(g, n);
      f->result[p] = slot_vector(g, n);
      f->elements[p] = slot_vector(g, 2); /* read a vector at a time from any lane on */
    }
    f->filled = slot_scalar(g);
    f->has_total = slot_scalar(g);
  }
}

/* A value of the prefix, whatever its domain. */
static void set_value(struct gen *g, int val, int copy, int reg, int mask) {
  const struct gen_value *v = &g->vals[val];
  if (v->domain == SCALAR) { vec(enc(g), I_MOVQ_TO, 16, reg, 0, in_frame(v->home)); return; }
  if (v->domain == BOOL && g->e.evex) {
    int k = temp_mask(g);
    vec(enc(g), I_PMOVD2M, width_of(g, WEFT_I32), k, 0, rm_reg(reg));
    reg = k + MASK_BASE;
  }
  assign_home(g, val, copy, reg, mask);
}

static void set_values(struct gen *g, const struct gen_fold *f, int copy, const int out[PARTS], int mask) {
  for (int p = 0; p < f->n; p++) {
    uint64_t before = g->temps;
    set_value(g, f->stmt->out[p], copy, out[p], mask);
    g->temps = before;
  }
  registers_clear(emission_of(g));
}

/* ---- By a fn ---- */

static bool is_fn(const struct gen_fold *f) { return f->stmt->op == KIR_CALL; }

static void copy_side(struct gen *g, const struct gen_fold *f, const struct fold_side *to, const struct fold_side *from, int copy) {
  for (int p = 0; p < f->n; p++) {
    int r = from->vals ? lanes_of(g, in_reg(g, from->vals[p], copy)) : temp(g);
    if (!from->vals) vec(enc(g), I_MOVUPS, part_bytes(g, f, p), r, 0, from->at[p]);
    vec(enc(g), I_MOVUPS_TO, part_bytes(g, f, p), r, 0, to->at[p]);
    g->locked = g->temps = 0;
  }
  registers_clear(emission_of(g));
}

/* to = older o newer, or newer alone if the slot says that nothing is older. */
static void merge_if(struct gen *g, const struct gen_fold *f, int32_t slot, const struct fold_side *older,
                     const struct fold_side *newer, const struct fold_side *to, int copy, int mask) {
  struct encoder *e = enc(g);
  int both = label_new(e), done = label_new(e), out[PARTS];
  registers_clear(emission_of(g));
  gpr_imm(e, A_CMP, in_frame(slot), 0);
  jump_if(e, CC_NE, both);
  copy_side(g, f, to, newer, copy);
  jump_to(e, done);
  label_here(e, both);
  merge(g, f, older, newer, copy, 0, out);
  merge_store(g, f, out, to, mask, copy, 0);
  label_here(e, done);
}

/* ---- Blocks ---- */

void prefixes_start(struct gen *g, struct gen_loop *l) {
  registers_clear(emission_of(g));
  for (int i = 0; i < l->n_prefixes; i++) {
    const struct gen_fold *f = &l->prefixes[i];
    if (is_fn(f)) gpr_store_imm(enc(g), in_frame(f->filled), 0);
    if (is_fn(f)) gpr_store_imm(enc(g), in_frame(f->has_total), 0);
    for (int c = 0; c < copies_of(g, l); c++) {
      struct fold_side acc = slots(g, f, f->acc, c), total = slots(g, f, f->total, c);
      store_start(g, f, c, &acc);
      store_start(g, f, c, &total);
      for (int p = 0; !is_row(l) && p < f->n; p++) { /* the last value, if there is none */
        int r = temp(g);
        vec(enc(g), I_MOVUPS, part_bytes(g, f, p), r, 0, acc.at[p]);
        set_value(g, f->stmt->out[p], c, r, -1);
        g->temps = 0;
      }
    }
  }
  registers_clear(emission_of(g));
}

static void next_block_by_fn(struct gen *g, const struct gen_loop *l, const struct gen_fold *f) {
  struct encoder *e = enc(g);
  int none = label_new(e);
  gpr_imm(e, A_CMP, in_frame(f->filled), 0);
  jump_if(e, CC_E, none);
  for (int c = 0; c < copies_of(g, l); c++) {
    struct fold_side acc = slots(g, f, f->acc, c), total = slots(g, f, f->total, c);
    merge_if(g, f, f->has_total, &total, &acc, &total, c, -1);
  }
  gpr_store_imm(e, in_frame(f->has_total), 1);
  gpr_store_imm(e, in_frame(f->filled), 0);
  label_here(e, none);
}

static void next_block(struct gen *g, const struct gen_loop *l, const struct gen_fold *f) {
  if (is_fn(f)) { next_block_by_fn(g, l, f); return; }
  for (int c = 0; c < copies_of(g, l); c++) {
    struct fold_side acc = slots(g, f, f->acc, c), total = slots(g, f, f->total, c);
    int out[PARTS];
    merge(g, f, &total, &acc, c, part_bytes(g, f, 0), out);
    merge_store(g, f, out, &total, -1, c, 0);
    store_start(g, f, c, &acc);
  }
}

/* The position in its loop is in RAX. */
static void open_block(struct gen *g, const struct gen_loop *l, const struct gen_fold *f) {
  struct encoder *e = enc(g);
  int inside = label_new(e);
  gpr_imm(e, A_AND, rm_reg(RAX), KIR_ROW_BLOCK - 1);
  jump_if(e, CC_NE, inside);
  next_block(g, l, f);
  registers_clear(emission_of(g));
  label_here(e, inside);
}

/* ---- One lane after the other ---- */

static struct fold_side elements_at(const struct gen *g, const struct gen_fold *f, int lane) {
  struct fold_side s = { .vals = NULL };
  for (int p = 0; p < f->n; p++) s.at[p] = lane_at(lane, lane_bytes(part_dtype(g, f, p)) == 8 ? 3 : 2, f->elements[p]);
  return s;
}

static void store_element(struct gen *g, int dtype, int reg, struct rm m) {
  vec(enc(g), lane_bytes(dtype) == 8 ? I_MOVQ_TO : I_MOVD_TO, 16, reg, 0, m);
}

struct x86_prefix { const struct gen_fold *f; int acc, total, x; }; /* registers */

static void lane_by_fn(struct gen *g, int lane, void *ctx) {
  const struct gen_fold *f = ((struct x86_prefix *)ctx)->f;
  struct fold_side acc = slots(g, f, f->acc, 0), total = slots(g, f, f->total, 0), result = slots(g, f, f->result, 0),
              here = elements_at(g, f, lane);
  merge_if(g, f, f->filled, &acc, &here, &acc, 0, -1);
  gpr_store_imm(enc(g), in_frame(f->filled), 1);
  merge_if(g, f, f->has_total, &total, &acc, &result, 0, -1);
  for (int p = 0; p < f->n; p++) {
    int r = temp(g);
    vec(enc(g), I_MOVUPS, 16, r, 0, result.at[p]);
    store_element(g, part_dtype(g, f, p), r, here.at[p]);
    g->temps = 0;
  }
}

static void lane_by_op(struct gen *g, int lane, void *ctx) {
  const struct x86_prefix *r = ctx;
  int dtype = part_dtype(g, r->f, 0), op = r->f->stmt->op;
  struct rm here = elements_at(g, r->f, lane).at[0];
  vec(enc(g), lane_bytes(dtype) == 8 ? I_MOVQ : I_MOVD, 16, r->x, 0, here);
  combine(g, op, dtype, 16, r->acc, r->acc, rm_reg(r->x));
  combine(g, op, dtype, 16, r->x, r->total, rm_reg(r->acc));
  store_element(g, dtype, r->x, here);
}

/* 16 bytes of each, in registers. */
static void lanes_by_op(struct gen *g, struct x86_prefix *r, int mask, int copy) {
  struct encoder *e = enc(g);
  r->acc = temp(g), r->total = temp(g), r->x = temp(g);
  vec(e, I_MOVUPS, 16, r->acc, 0, in_frame(r->f->acc[0]));
  vec(e, I_MOVUPS, 16, r->total, 0, in_frame(r->f->total[0]));
  each_lane(g, mask, copy, SAVED_LOOP, true, lane_by_op, r);
  vec(e, I_MOVUPS_TO, 16, r->acc, 0, in_frame(r->f->acc[0]));
  g->temps = 0;
}

static void prefix_copy(struct gen *g, const struct gen_fold *f, int mask, int copy) {
  for (int p = 0; p < f->n; p++) {
    int r = lanes_of(g, in_reg(g, f->stmt->in[p], copy));
    vec(enc(g), I_MOVUPS_TO, part_bytes(g, f, p), r, 0, in_frame(f->elements[p]));
    g->locked = g->temps = 0;
  }
  struct x86_prefix r = { .f = f };
  registers_clear(emission_of(g));
  if (is_fn(f)) each_lane(g, mask, copy, SAVED_LOOP, true, lane_by_fn, &r);
  else lanes_by_op(g, &r, mask, copy);
  registers_clear(emission_of(g));
  int out[PARTS];
  for (int p = 0; p < f->n; p++) {
    vec(enc(g), I_MOVUPS, part_bytes(g, f, p), out[p] = temp(g), 0, in_frame(f->elements[p]));
  }
  set_values(g, f, copy, out, -1);
}

static void prefix_lanes(struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int mask) {
  if (l->is_flat) gpr(enc(g), G_MOV, RAX, rm_reg(R9));
  else gpr(enc(g), G_MOV, RAX, in_frame(l->j));
  open_block(g, l, f);
  for (int c = 0; c < g->copies; c++) prefix_copy(g, f, mask, c);
}

static void last_value(struct gen *g, const struct gen_fold *f) {
  struct fold_side acc = slots(g, f, f->acc, 0), total = slots(g, f, f->total, 0), result = slots(g, f, f->result, 0);
  int out[PARTS];
  registers_clear(emission_of(g));
  if (is_fn(f)) {
    merge_if(g, f, f->has_total, &total, &acc, &result, 0, -1);
  } else {
    merge(g, f, &total, &acc, 0, 16, out);
    merge_store(g, f, out, &result, -1, 0, 16);
  }
  for (int p = 0; p < f->n; p++) {
    int dtype = part_dtype(g, f, p);
    out[p] = temp(g);
    vec(enc(g), lane_bytes(dtype) == 8 ? I_BROADCASTSD : I_BROADCASTSS, width_of(g, dtype), out[p], 0, result.at[p]);
  }
  set_values(g, f, 0, out, -1);
}

void prefixes_last(struct gen *g, struct gen_loop *l) {
  for (int i = 0; i < l->n_prefixes; i++) last_value(g, &l->prefixes[i]);
}

/* ---- Beside lanes, or outside ---- */

static void beside_by_fn(struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int mask) {
  struct fold_side value = { .vals = f->stmt->in };
  for (int c = 0; c < copies_of(g, l); c++) {
    struct fold_side acc = slots(g, f, f->acc, c), total = slots(g, f, f->total, c), result = slots(g, f, f->result, c);
    int out[PARTS];
    merge_if(g, f, f->filled, &acc, &value, &acc, c, mask);
    merge_if(g, f, f->has_total, &total, &acc, &result, c, -1);
    for (int p = 0; p < f->n; p++) vec(enc(g), I_MOVUPS, part_bytes(g, f, p), out[p] = temp(g), 0, result.at[p]);
    set_values(g, f, c, out, mask);
  }
  gpr_store_imm(enc(g), in_frame(f->filled), 1);
}

static void prefix_beside(struct gen *g, const struct gen_loop *l, const struct gen_fold *f, int mask) {
  gpr(enc(g), G_MOV, RAX, in_frame(l->var));
  gpr(enc(g), G_SUB, RAX, in_frame(l->first));
  open_block(g, l, f);
  if (is_fn(f)) { beside_by_fn(g, l, f, mask); return; }
  for (int c = 0; c < copies_of(g, l); c++) {
    struct fold_side acc = slots(g, f, f->acc, c), total = slots(g, f, f->total, c), value = { .vals = f->stmt->in };
    int out[PARTS], bytes = part_bytes(g, f, 0);
    merge(g, f, &acc, &value, c, bytes, out);
    merge_store(g, f, out, &acc, mask, c, 0);
    merge(g, f, &total, &acc, c, bytes, out);
    set_values(g, f, c, out, mask);
  }
}

void prefix_step(struct gen *g, const struct kir_stmt *s, int mask) {
  struct gen_loop *l = &g->loops[g->loop];
  int f = 0;
  while (l->prefixes[f].stmt != s) f++;
  registers_clear(emission_of(g));
  if (is_row(l)) prefix_lanes(g, l, &l->prefixes[f], mask);
  else prefix_beside(g, l, &l->prefixes[f], mask);
  registers_clear(emission_of(g));
}
