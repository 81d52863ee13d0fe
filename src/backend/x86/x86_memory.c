/* x86_memory.c -- loads and stores: one element for all lanes, or G elements that lie side by side, backwards, a stride
 * apart, or wherever indices of the lanes say. Under a mask only the lanes that act are touched. What no vector
 * instruction can do goes element by element, lanes in order, through a buffer in the frame. */
#include "backend/x86/gen.h"

/* The dtype of an element as stored. Private copies hold register dtypes. */
static int memory_dtype(const struct gen *g, const struct gen_access *a) {
  int buf = a->stmt->buf, dtype = g->k->bufs[buf].dtype;
  return g->is_private[buf] ? (int)kir_register_of((weft_dtype)dtype) : dtype;
}

static bool is_flat(const struct gen *g) { return g->lane_loop >= 0 && g->loops[g->lane_loop].is_flat; }
static bool is_one(const struct gen_access *a) { return a->cls == LANE_NONE || a->cls == LANE_ZERO; }

/* A register with the address at the start of the lane loop (flat), of the group of lanes, or of the one element. */
static int pointer_of(struct gen *g, struct gen_access *a) {
  if (a->reg >= 0) return a->reg;
  if (a->owner == OWNER_FN) address_eval(g, a, -1);
  else if (is_flat(g)) gpr(enc(g), G_MOV, RDX, in_frame(a->entry));
  else if (a->owner == OWNER_USE) address_eval(g, a, -1);
  else gpr(enc(g), G_MOV, RDX, in_frame(a->pointer));
  return RDX;
}

static struct rm unit_at(struct gen *g, struct gen_access *a, int copy) {
  if (g->short_loop >= 0) return short_row_at(g, a, copy / g->vectors, copy % g->vectors * g->lanes << a->element);
  int p = pointer_of(g, a), disp = copy * g->lanes << a->element;
  return is_flat(g) ? rm_index(p, R9, a->element, disp) : rm_at(p, disp);
}

/* RDX = address of the first lane of the copy, RCX = bytes from lane to lane. */
static void strided_at(struct gen *g, struct gen_access *a, int copy) {
  struct encoder *e = enc(g);
  int p = pointer_of(g, a);
  if (p != RDX) gpr(e, G_MOV, RDX, rm_reg(p));
  if (a->cls == LANE_INDEX) return;
  if (a->cls != LANE_ANY) gpr_const(e, RCX, is_one(a) ? 0 : (a->cls == LANE_UNIT ? 1 : -1) * (1 << a->element));
  else gpr(e, G_MOV, RCX, in_frame(a->lane_step));
  if (is_flat(g)) {
    gpr(e, G_LEA, RAX, rm_at(R9, copy * g->lanes));
    gpr(e, G_IMUL, RAX, rm_reg(RCX));
    gpr(e, G_ADD, RDX, rm_reg(RAX));
  } else if (copy) {
    gpr_mul_imm(e, RAX, rm_reg(RCX), copy * g->lanes);
    gpr(e, G_ADD, RDX, rm_reg(RAX));
  }
}

/* ---- Indices of the lanes ---- */

static void times_vector(struct gen *g, int x, int by) {
  uint64_t before = g->temps;
  int bytes = width_of(g, WEFT_I64);
  if (g->e.evex) vec(enc(g), I_PMULLQ, bytes, x, x, rm_reg(by));
  else integer_long(g, KIR_MUL, WEFT_I64, bytes, x, x, by);
  g->temps = before;
}

/* x *= the bytes that the axis moves, times coef. */
static void times_stride(struct gen *g, struct gen_access *a, int axis, int64_t coef, int x) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I64), t = temp(g);
  if (stride_class(g, a->stmt->buf, axis) == STRIDE_1) {
    if (coef == 1) vec_imm(e, I_PSHIFTQ, bytes, 6, x, rm_reg(x), a->element);
    if (coef == 1) return;
    gpr_const(e, RAX, coef * (1 << a->element));
  } else {
    gpr(e, G_MOV, RAX, in_frame(g->data_at[a->stmt->buf] + 8 + 8 * axis));
    if (coef != 1) gpr_mul_imm(e, RAX, rm_reg(RAX), (int32_t)coef);
  }
  gpr(e, G_STORE, RAX, in_frame(g->scratch));
  vec(e, I_PBROADCASTQ, bytes, t, 0, in_frame(g->scratch));
  times_vector(g, x, t);
}

/* The bytes each lane adds to the address: all terms of the subscripts in which lanes differ. A temporary. */
static int offsets_of(struct gen *g, struct gen_access *a, int copy) {
  int sum = -1, bytes = width_of(g, WEFT_I64);
  for (int d = 0; d < a->stmt->n_at; d++) {
    if (stride_class(g, a->stmt->buf, d) == STRIDE_0) continue;
    for (int i = 0; i < a->stmt->at[d].n; i++) {
      const struct kir_term *t = &a->stmt->at[d].term[i];
      if (!term_varies(g, t)) continue;
      uint64_t locked = g->locked;
      int x = temp(g);
      for (int j = 0; j < t->n; j++) {
        int r = in_reg(g, t->val[j], copy);
        if (j) times_vector(g, x, r);
        else move_vector(g, bytes, x, r);
        g->locked = locked;
      }
      times_stride(g, a, d, t->coef, x);
      if (sum >= 0) vec(enc(g), I_PADDQ, bytes, sum, sum, rm_reg(x));
      else sum = x;
    }
  }
  if (sum >= 0) return sum;
  sum = temp(g);
  vec(enc(g), I_PXOR, bytes, sum, sum, rm_reg(sum));
  return sum;
}

/* ---- Element by element ---- */

/* RAX = a bit for each lane of the copy that acts. */
static void acting_bits(struct gen *g, int mask, int copy) {
  struct encoder *e = enc(g);
  if (mask < 0) { gpr_const(e, RAX, (1 << g->lanes) - 1); return; }
  int r = in_reg(g, mask, copy);
  if (e->evex) vec(e, I_KMOV_GPR, 16, RAX, 0, rm_reg(r - MASK_BASE));
  else vec(e, I_MOVMSKPS, width_of(g, WEFT_BOOL), RAX, 0, rm_reg(r));
}

struct rm lane_at(int lane, int scale, int32_t at) {
  return lane < 0 ? rm_index(RBX, RSI, scale, at) : rm_at(RBX, at + (lane << scale));
}

/* One lane after the other without a counter, if all of them act. */
static void all_lanes(struct gen *g, lane_code *body, void *ctx) {
  for (int i = 0; i < g->lanes; i++) body(g, i, ctx);
}

/* Those of RAX. */
static void some_lanes(struct gen *g, int done, int saved, lane_code *body, void *ctx) {
  struct encoder *e = enc(g);
  int again = label_new(e);
  gpr32(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_E, done);
  gpr(e, G_STORE, RSI, in_frame(g->saved + saved));
  gpr(e, G_STORE, RDI, in_frame(g->saved + saved + 8));
  gpr(e, G_MOV, RDI, rm_reg(RAX));
  label_here(e, again);
  first_bit(e, RSI, RDI);
  body(g, -1, ctx);
  drop_first_bit(e, RDI);
  jump_if(e, CC_NE, again);
  gpr(e, G_MOV, RSI, in_frame(g->saved + saved));
  gpr(e, G_MOV, RDI, in_frame(g->saved + saved + 8));
}

void each_lane(struct gen *g, int mask, int copy, int saved, bool is_long, lane_code *body, void *ctx) {
  struct encoder *e = enc(g);
  int some = label_new(e), done = label_new(e);
  if (mask < 0 && !is_long) { all_lanes(g, body, ctx); return; }
  acting_bits(g, mask, copy);
  if (!is_long) {
    gpr_imm(e, A_CMP, rm_reg(RAX), (1 << g->lanes) - 1);
    jump_if(e, CC_NE, some);
    all_lanes(g, body, ctx);
    jump_to(e, done);
  }
  label_here(e, some);
  some_lanes(g, done, saved, body, ctx);
  label_here(e, done);
}

/* RAX = where the lane is, from RDX on; RCX is as strided_at leaves it. */
static void lane_offset(struct gen *g, const struct gen_access *a, int lane) {
  struct encoder *e = enc(g);
  if (a->cls == LANE_INDEX) { gpr(e, G_MOV, RAX, lane_at(lane, 3, g->tail_buffer + g->vector_bytes)); return; }
  if (lane >= 0) { gpr_mul_imm(e, RAX, rm_reg(RCX), lane); return; }
  gpr(e, G_MOV, RAX, rm_reg(RSI));
  gpr(e, G_IMUL, RAX, rm_reg(RCX));
}

/* In halves: elements are read from stores of 64 bytes only after these have left for the cache. */
static void spill_offsets(struct gen *g, int reg) {
  int32_t at = g->tail_buffer + g->vector_bytes;
  vec(enc(g), I_MOVUPS_TO, 32, reg, 0, in_frame(at));
  if (g->vector_bytes == 64) vec_imm(enc(g), I_EXTRACTI256, 64, reg, 0, in_frame(at + 32), 1);
}

static void place_lanes(struct gen *g, struct gen_access *a, int copy) {
  if (a->cls == LANE_INDEX) spill_offsets(g, offsets_of(g, a, copy));
  strided_at(g, a, copy);
}

struct elements { const struct gen_access *a; int op, dtype, x, y; }; /* x, y: temporaries */

static void load_element(struct gen *g, int lane, void *ctx) {
  const struct gen_access *a = ((struct elements *)ctx)->a;
  lane_offset(g, a, lane);
  gpr_move(enc(g), 1 << a->element, false, RAX, rm_index(RDX, RAX, 0, 0));
  gpr_move(enc(g), 1 << a->element, true, RAX, lane_at(lane, a->element, g->tail_buffer));
}

static void store_element(struct gen *g, int lane, void *ctx) {
  struct encoder *e = enc(g);
  const struct elements *m = ctx;
  struct rm here = lane_at(lane, m->a->element, g->tail_buffer);
  lane_offset(g, m->a, lane);
  gpr(e, G_ADD, RAX, rm_reg(RDX));
  if (m->a->element >= 2) {
    bool wide = m->a->element == 3;
    vec(e, wide ? I_MOVQ : I_MOVD, 16, m->x, 0, here);
    vec(e, wide ? I_MOVQ_TO : I_MOVD_TO, 16, m->x, 0, rm_at(RAX, 0));
    return;
  }
  gpr(e, G_STORE, RDX, in_frame(g->scratch));
  gpr_move(e, 1 << m->a->element, false, RDX, here);
  gpr_move(e, 1 << m->a->element, true, RDX, rm_at(RAX, 0));
  gpr(e, G_MOV, RDX, in_frame(g->scratch));
}

/* Copies the lanes that act between memory and the buffer in the frame. */
static void copy_elements(struct gen *g, struct gen_access *a, int copy, int mask, bool to_memory) {
  struct elements m = { .a = a, .x = to_memory && a->element >= 2 ? temp(g) : -1 };
  place_lanes(g, a, copy);
  each_lane(g, mask, copy, 0, false, to_memory ? store_element : load_element, &m);
}

static void combine_byte(struct gen *g, int lane, int op) { /* [RDX + RAX] = it op [buffer + lane] */
  struct encoder *e = enc(g);
  gpr(e, G_ADD, RAX, rm_reg(RDX));
  gpr(e, G_STORE, RDX, in_frame(g->scratch));
  gpr_move(e, 1, false, RDX, lane_at(lane, 0, g->tail_buffer));
  gpr_byte_to(e, op == KIR_AND ? A_AND : op == KIR_OR ? A_OR : A_XOR, RDX, rm_at(RAX, 0));
  gpr(e, G_MOV, RDX, in_frame(g->scratch));
}

static void combine_element(struct gen *g, int lane, void *ctx) {
  struct encoder *e = enc(g);
  const struct elements *m = ctx;
  int wide = m->a->element == 3;
  lane_offset(g, m->a, lane);
  if (m->dtype == WEFT_BOOL) { combine_byte(g, lane, m->op); return; }
  vec(e, wide ? I_MOVQ : I_MOVD, 16, m->x, 0, rm_index(RDX, RAX, 0, 0));
  vec(e, wide ? I_MOVQ : I_MOVD, 16, m->y, 0, lane_at(lane, m->a->element, g->tail_buffer));
  combine(g, m->op, m->dtype, 16, m->x, m->x, rm_reg(m->y));
  vec(e, wide ? I_MOVQ_TO : I_MOVD_TO, 16, m->x, 0, rm_index(RDX, RAX, 0, 0));
}

/* Places may meet: one lane after the other. The values are in the buffer, as stored. */
static void combine_elements(struct gen *g, struct gen_access *a, int copy, int mask, int op) {
  struct elements m = { .a = a, .op = op, .dtype = memory_dtype(g, a), .x = temp(g), .y = temp(g) };
  place_lanes(g, a, copy);
  reserve(g);
  each_lane(g, mask, copy, 0, false, combine_element, &m);
}

/* ---- Between memory and a register ---- */

/* A load under k, if that is not 0: lanes that rest are not touched and become 0. */
static void load_under(struct gen *g, enum insn insn, int bytes, int d, struct rm m, int k) {
  vec_mask(enc(g), insn, bytes, k, k != 0, d, 0, m, 0);
}

static void widen(struct gen *g, int dtype, int d, struct rm m, int k) {
  int bytes = width_of(g, WEFT_I32);
  switch (dtype) {
  case WEFT_BOOL: case WEFT_U8: load_under(g, I_PMOVZXBD, bytes, d, m, k); break;
  case WEFT_I8: load_under(g, I_PMOVSXBD, bytes, d, m, k); break;
  case WEFT_U16: load_under(g, I_PMOVZXWD, bytes, d, m, k); break;
  case WEFT_I16: load_under(g, I_PMOVSXWD, bytes, d, m, k); break;
  case WEFT_F16: f16_widen(g, d, m, g->vals[g->now->s->out[0]].moves, k); break;
  case WEFT_BF16: bf16_widen(g, d, m, k); break;
  default: load_under(g, lane_bytes(dtype) == 8 ? I_MOVUPD : I_MOVUPS, width_of(g, dtype), d, m, k); break;
  }
}

/* Bytes 0 and 1 as i32 lanes of t become the bool in d. */
static void bool_of_lanes(struct gen *g, int d, int t) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32);
  if (e->evex) { vec(e, I_PTESTMD, bytes, d - MASK_BASE, t, rm_reg(t)); return; }
  int zero = temp(g);
  vec(e, I_PXOR, bytes, zero, zero, rm_reg(zero));
  vec(e, I_PCMPGTD, bytes, d, t, rm_reg(zero));
}

static void load_from(struct gen *g, int dtype, int d, struct rm m, int k) {
  if (dtype != WEFT_BOOL) { widen(g, dtype, d, m, k); return; }
  int t = g->e.evex ? temp(g) : d;
  widen(g, dtype, t, m, k);
  bool_of_lanes(g, d, t);
}

static void lanes_of_bool(struct gen *g, int t, int reg) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32);
  struct rm one = pool_scalar(e, 4, 1);
  if (!e->evex) { vec(e, I_PAND, bytes, t, reg, one); return; }
  one.broadcast = false;
  vec_mask(e, I_BROADCASTSS, bytes, reg - MASK_BASE, true, t, 0, one, 0);
}

/* The first `bytes` of a register, 4 or 8 or a whole one. */
static void store_first(struct gen *g, int bytes, int reg, struct rm m) {
  vec(enc(g), bytes >= 16 ? I_MOVUPS_TO : bytes == 8 ? I_MOVQ_TO : I_MOVD_TO, bytes > 16 ? bytes : 16, reg, 0, m);
}

/* AVX2: the low bytes or words of 4 or 8 lanes, packed. t holds the lanes and is overwritten. */
static void pack_avx2(struct gen *g, int element_bytes, int t, struct rm m) {
  struct encoder *e = enc(g);
  int h = temp(g), bytes = width_of(g, WEFT_I32);
  vec(e, I_PAND, bytes, t, t, pool_scalar(e, 4, element_bytes == 1 ? 0xFF : 0xFFFF));
  if (g->lanes == 8) vec_imm(e, I_EXTRACTI128, 32, t, 0, rm_reg(h), 1);
  vec(e, I_PACKUSDW, 16, t, t, rm_reg(g->lanes == 8 ? h : t));
  if (element_bytes == 1) vec(e, I_PACKUSWB, 16, t, t, rm_reg(t));
  store_first(g, g->lanes * element_bytes, t, m);
}

static void store_f16(struct gen *g, int reg, struct rm m, bool exact, int k) {
  struct encoder *e = enc(g);
  if (!exact) { vec_mask(e, I_CVTPS2PH, width_of(g, WEFT_F32), k, false, reg, 0, m, 0); return; }
  int t = temp(g);
  f16_narrow(g, t, reg, true);
  if (!k) { store_first(g, 2 * g->lanes, t, m); return; }
  vec(e, I_PMOVZXWD, width_of(g, WEFT_F32), t, 0, rm_reg(t));
  vec_mask(e, I_PMOVDW, width_of(g, WEFT_F32), k, false, t, 0, m, 0);
}

static void store_narrow(struct gen *g, int dtype, int reg, struct rm m, int k) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32);
  bool exact = !g->vals[g->now->s->in[0]].is_quiet;
  if (dtype == WEFT_F16) { store_f16(g, reg, m, exact, k); return; }
  int t = temp(g), size = dtype_bytes(dtype);
  if (dtype == WEFT_BOOL) lanes_of_bool(g, t, reg);
  else if (dtype == WEFT_BF16) bf16_narrow(g, t, reg, exact);
  else move_vector(g, bytes, t, reg);
  if (e->evex) vec_mask(e, size == 1 ? I_PMOVDB : I_PMOVDW, bytes, k, false, t, 0, m, 0);
  else pack_avx2(g, size, t, m);
}

static void store_to(struct gen *g, int dtype, int reg, struct rm m, int k) {
  if (dtype_bytes(dtype) < 4) store_narrow(g, dtype, reg, m, k);
  else vec_mask(enc(g), lane_bytes(dtype) == 8 ? I_MOVUPD_TO : I_MOVUPS_TO, width_of(g, dtype), k, false, reg, 0, m, 0);
}

/* ---- Under a mask ---- */

/* AVX-512: its number; 0 if all lanes act. */
static int mask_number(struct gen *g, int mask, int copy) { return mask < 0 ? 0 : in_reg(g, mask, copy) - MASK_BASE; }

/* AVX2: a register with the mask, as wide as the dtype. */
static int mask_vector(struct gen *g, int mask, int copy, int dtype) {
  int r = in_reg(g, mask, copy);
  if (lane_bytes(dtype) == 4) return r;
  int t = temp(g);
  vec(enc(g), I_PMOVSXDQ, 32, t, 0, rm_reg(r));
  return t;
}

void blend(struct gen *g, int dtype, int mask, int copy, int dst, int src) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, dtype), wide = lane_bytes(dtype) == 8;
  if (e->evex && dtype == WEFT_BOOL) {
    int k = mask_number(g, mask, copy), t = temp_mask(g), d = dst - MASK_BASE;
    vec(e, I_KAND, 32, t, k, rm_reg(src - MASK_BASE));
    vec(e, I_KANDN, 32, d, k, rm_reg(d));
    vec(e, I_KOR, 32, d, d, rm_reg(t));
  } else if (e->evex) {
    vec_mask(e, wide ? I_MOVUPD : I_MOVUPS, bytes, mask_number(g, mask, copy), false, dst, 0, rm_reg(src), 0);
  } else {
    int m = mask_vector(g, mask, copy, dtype);
    vec_imm(e, (enum insn)(I_BLENDVPS + wide), bytes, dst, dst, rm_reg(src), m << 4);
  }
}

static void maskmov(struct gen *g, int dtype, int mask, int copy, bool to_memory, int reg, struct rm m) {
  int wide = lane_bytes(dtype) == 8, k = mask_vector(g, mask, copy, dtype);
  vec(enc(g), (enum insn)((to_memory ? I_MASKMOVPS_TO : I_MASKMOVPS) + wide), width_of(g, dtype), reg, k, m);
}

void load_masked(struct gen *g, int dtype, int mask, int copy, int d, struct rm m) {
  uint64_t before = g->temps;
  g->temps |= (uint64_t)1 << d;
  if (g->e.evex) load_under(g, lane_bytes(dtype) == 8 ? I_MOVUPD : I_MOVUPS, width_of(g, dtype), d, m, mask_number(g, mask, copy));
  else maskmov(g, dtype, mask, copy, false, d, m);
  g->temps = before;
}

/* ---- Backwards, strided, indexed ---- */

static void reverse(struct gen *g, int dtype, int d) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, dtype), size = lane_bytes(dtype);
  if (bytes == 16) { vec_imm(e, I_PSHUFD, 16, d, 0, rm_reg(d), 0x1B); return; }
  if (bytes == 32 && size == 8) { vec_imm(e, I_PERMQ, 32, d, 0, rm_reg(d), 0x1B); return; }
  uint32_t index32[16];
  uint64_t index64[8];
  int t = temp(g);
  for (int i = 0; i < g->lanes && i < 16; i++) index32[i] = (uint32_t)(g->lanes - 1 - i);
  for (int i = 0; i < g->lanes && i < 8; i++) index64[i] = (uint64_t)(g->lanes - 1 - i);
  vec(e, I_MOVUPS, bytes, t, 0, pool_vector(e, size == 8 ? (void *)index64 : (void *)index32, bytes));
  vec(e, size == 8 ? I_PERMQV : I_PERMD, bytes, d, t, rm_reg(d));
}

static struct rm back_at(struct gen *g, struct gen_access *a, int copy) {
  int p = pointer_of(g, a), disp = -((copy + 1) * g->lanes - 1) * (1 << a->element);
  if (!is_flat(g)) return rm_at(p, disp);
  gpr(enc(g), G_MOV, RAX, rm_reg(R9));
  gpr_unary(enc(g), 3, RAX);
  return rm_index(p, RAX, a->element, disp);
}

/* 16 bytes at a time by inserts, which beat gathers on most machines. */
static void load_strided(struct gen *g, struct gen_access *a, int copy, int d) {
  struct encoder *e = enc(g);
  int size = 1 << a->element, per = 16 / size, parts = g->lanes / per, t = parts > 1 ? temp(g) : d;
  strided_at(g, a, copy);
  for (int h = 0; h < parts; h++) {
    int r = h ? t : d;
    for (int i = 0; i < per; i++) {
      if (!i) vec(e, size == 8 ? I_MOVQ : I_MOVD, 16, r, 0, rm_at(RDX, 0));
      else vec_imm(e, size == 8 ? I_PINSRQ : I_PINSRD, 16, r, r, rm_at(RDX, 0), i);
      if (h + 1 < parts || i + 1 < per) gpr(e, G_ADD, RDX, rm_reg(RCX));
    }
    if (h) vec_imm(e, I_INSERTI128, g->lanes * size, d, d, rm_reg(t), h);
  }
}

static void store_strided(struct gen *g, struct gen_access *a, int copy, int reg) {
  struct encoder *e = enc(g);
  int size = 1 << a->element, per = 16 / size, parts = g->lanes / per, t = parts > 1 ? temp(g) : reg;
  strided_at(g, a, copy);
  for (int h = 0; h < parts; h++) {
    int r = h ? t : reg;
    if (h) vec_imm(e, I_EXTRACTI128, g->lanes * size, reg, 0, rm_reg(t), h);
    for (int i = 0; i < per; i++) {
      vec_imm(e, size == 8 ? I_PEXTRQ : I_PEXTRD, 16, r, 0, rm_at(RDX, 0), i);
      if (h + 1 < parts || i + 1 < per) gpr(e, G_ADD, RDX, rm_reg(RCX));
    }
  }
}

/* Elements of 4 or 8 bytes. The machine clears the mask it works with. */
static void gather(struct gen *g, struct gen_access *a, int copy, int mask, int d) {
  struct encoder *e = enc(g);
  int wide = a->element == 3, bytes = width_of(g, WEFT_I64), at = offsets_of(g, a, copy), p = pointer_of(g, a);
  enum insn insn = (enum insn)(I_GATHERQPS + wide);
  struct rm m = rm_index(p, at, 0, 0);
  if (e->evex) {
    int k = temp_mask(g);
    if (mask < 0) vec(e, I_KXNOR, 32, k, k, rm_reg(k));
    else vec(e, I_KMOV, 16, k, 0, rm_reg(mask_number(g, mask, copy)));
    vec_mask(e, insn, bytes, k, false, d, at & 16, m, 0);
    return;
  }
  int k = temp(g);
  if (mask < 0) vec(e, I_PCMPEQD, 32, k, k, rm_reg(k));
  else move_vector(g, bytes, k, mask_vector(g, mask, copy, wide ? WEFT_I64 : WEFT_I32));
  vec(e, insn, bytes, d, k, m);
}

/* ---- One element ---- */

static void load_one(struct gen *g, int dtype, int d, struct rm m) {
  struct encoder *e = enc(g);
  int size = dtype_bytes(dtype), reg_dtype = (int)kir_register_of((weft_dtype)dtype), bytes = width_of(g, reg_dtype);
  if (size >= 4) { vec(e, size == 8 ? I_BROADCASTSD : I_BROADCASTSS, bytes, d, 0, m); return; }
  gpr_move(e, size, false, RAX, m);
  gpr(e, G_STORE, RAX, in_frame(g->tail_buffer));
  int t = dtype == WEFT_BOOL && e->evex ? temp(g) : d;
  widen(g, dtype, t, in_frame(g->tail_buffer), 0);
  vec(e, I_BROADCASTSS, bytes, t, 0, rm_reg(t));
  if (dtype == WEFT_BOOL) bool_of_lanes(g, d, t);
}

static void store_one(struct gen *g, struct gen_access *a, int dtype, int reg) {
  struct encoder *e = enc(g);
  int size = dtype_bytes(dtype);
  if (size >= 4) {
    vec(e, size == 8 ? I_MOVQ_TO : I_MOVD_TO, 16, reg, 0, rm_at(pointer_of(g, a), 0));
    return;
  }
  store_narrow(g, dtype, reg, in_frame(g->tail_buffer), 0);
  int p = pointer_of(g, a);
  gpr(e, G_MOV, RAX, in_frame(g->tail_buffer));
  gpr_move(e, size, true, RAX, rm_at(p, 0));
}

/* ---- Statements ---- */

/* A whole vector by one instruction: side by side, and under a mask only if that instruction takes one. */
static bool is_whole(const struct gen *g, const struct gen_access *a, int mask) {
  return a->cls == LANE_UNIT && (mask < 0 || g->e.evex || !a->narrow);
}

/* Columns that are folded: a row has too few lines side by side for the machine to see them coming. Where there are others
 * besides, they are short and go on in the next lanes. */
static void fetch_ahead(struct gen *g, const struct gen_access *a, int copy) {
  enum { ROWS_AHEAD = 2, BODIES_AHEAD = 2 }; /* the first: log2 */
  const struct gen_loop *l = &g->loops[g->loop];
  int at = copy * g->lanes << a->element;
  if (g->short_loop >= 0 || l->lane == g->loop || !l->n_folds || a->owner != g->loop || a->reg < 0) return;
  if (g->loops[l->lane].is_outer) {
    if (!copy) gpr(enc(g), G_MOV, RAX, in_frame(a->step));
    prefetch_far(enc(g), rm_index(a->reg, RAX, ROWS_AHEAD, at));
  } else prefetch_far(enc(g), rm_at(a->reg, (BODIES_AHEAD * g->copies * g->lanes << a->element) + at));
}

static void load_whole(struct gen *g, struct gen_access *a, int copy, int mask, int d) {
  int dtype = memory_dtype(g, a);
  if (a->stmt->kind == KIR_LOAD && mask < 0) fetch_ahead(g, a, copy), fetch_next_step(g, a, copy);
  if (mask >= 0 && !g->e.evex) maskmov(g, dtype, mask, copy, false, d, unit_at(g, a, copy));
  else {
    int k = mask_number(g, mask, copy);
    load_from(g, dtype, d, unit_at(g, a, copy), k);
  }
}

static void load_into(struct gen *g, struct gen_access *a, int copy, int d) {
  int dtype = memory_dtype(g, a), mask = g->now->mask;
  if (is_one(a)) load_one(g, dtype, d, rm_at(pointer_of(g, a), 0));
  else if (is_whole(g, a, mask)) load_whole(g, a, copy, mask, d);
  else if (a->cls == LANE_INDEX && !a->narrow) gather(g, a, copy, mask, d);
  else if (mask >= 0 || a->narrow) {
    copy_elements(g, a, copy, mask, false);
    load_from(g, dtype, d, in_frame(g->tail_buffer), 0);
  } else if (a->cls == LANE_BACK) {
    vec(enc(g), I_MOVUPS, width_of(g, dtype), d, 0, back_at(g, a, copy));
    reverse(g, dtype, d);
  } else {
    load_strided(g, a, copy, d);
  }
}

bool may_stream(const struct gen *g, const struct gen_access *a) {
  return a->stmt->kind == KIR_STORE && a->stmt->op == KIR_SET && a->cls == LANE_UNIT && !a->is_guarded &&
         g->k->bufs[a->stmt->buf].kind == KIR_OUT && !g->is_private[a->stmt->buf] &&
         g->lanes << a->element == g->vector_bytes;
}

static void store_whole(struct gen *g, struct gen_access *a, int copy, int mask, int reg) {
  int dtype = memory_dtype(g, a);
  if (g->is_streaming && mask < 0 && may_stream(g, a)) {
    vec(enc(g), I_MOVNTPS_TO, g->vector_bytes, reg, 0, unit_at(g, a, copy));
    return;
  }
  if (mask < 0) fetch_next_step(g, a, copy);
  if (mask >= 0 && !g->e.evex) maskmov(g, dtype, mask, copy, true, reg, unit_at(g, a, copy));
  else {
    int k = mask_number(g, mask, copy);
    store_to(g, dtype, reg, unit_at(g, a, copy), k);
  }
}

static void store_from(struct gen *g, struct gen_access *a, int copy, int reg) {
  int dtype = memory_dtype(g, a), mask = g->now->mask;
  if (a->lane < 0 && g->group > 1) short_rows_store(g, a, reg);
  else if (a->lane < 0) store_one(g, a, dtype, reg);
  else if (is_whole(g, a, mask)) store_whole(g, a, copy, mask, reg);
  else if (mask >= 0 || a->narrow || is_one(a) || a->cls == LANE_INDEX) {
    store_to(g, dtype, reg, in_frame(g->tail_buffer), 0);
    copy_elements(g, a, copy, mask, true);
  } else if (a->cls == LANE_BACK) {
    int t = temp(g);
    move_vector(g, width_of(g, dtype), t, reg);
    reverse(g, dtype, t);
    vec(enc(g), I_MOVUPS_TO, width_of(g, dtype), t, 0, back_at(g, a, copy));
  } else {
    store_strided(g, a, copy, reg);
  }
}

void load_op(struct gen *g, const struct kir_stmt *s, struct gen_access *a) {
  if (g->vals[s->out[0]].domain == SCALAR) {
    gpr(enc(g), G_MOV, RAX, rm_at(pointer_of(g, a), 0));
    gpr(enc(g), G_STORE, RAX, in_frame(g->vals[s->out[0]].home));
    return;
  }
  int d = out_reg(g);
  g->temps |= (uint64_t)1 << d;
  load_into(g, a, g->now_copy, d);
  define(g, d);
}

static void store_scalar(struct gen *g, const struct kir_stmt *s, struct gen_access *a) {
  int p = pointer_of(g, a);
  scalar_load(g, RAX, s->in[0]);
  if (s->op != KIR_SET) {
    gpr(enc(g), G_MOV, RCX, rm_reg(RAX));
    gpr(enc(g), G_MOV, RAX, rm_at(p, 0));
    scalar_combine(g, s->op, g->vals[s->in[0]].dtype == WEFT_I64);
  }
  gpr(enc(g), G_STORE, RAX, rm_at(p, 0));
  release(g);
}

static void store_combined(struct gen *g, const struct kir_stmt *s, struct gen_access *a, int reg) {
  int dtype = g->vals[s->in[0]].dtype, is_mask = g->e.evex && dtype == WEFT_BOOL;
  if (a->lane >= 0 && (a->cls == LANE_INDEX || is_one(a))) {
    store_to(g, memory_dtype(g, a), reg, in_frame(g->tail_buffer), 0);
    combine_elements(g, a, g->now_copy, g->now->mask, s->op);
    return;
  }
  int t = is_mask ? temp_mask(g) + MASK_BASE : temp(g);
  load_into(g, a, g->now_copy, t);
  combine(g, s->op, dtype, width_of(g, dtype), t, t, rm_reg(reg));
  store_from(g, a, g->now_copy, t);
}

/* The rows of a group, one after the other, into the same place. */
static void store_rows(struct gen *g, const struct kir_stmt *s, struct gen_access *a) {
  int k = g->now_copy, n = g->group * g->vectors, dtype = g->vals[s->in[0]].dtype, t = temp(g);
  load_into(g, a, k, t);
  for (int c = k; c < n; c += g->vectors) combine(g, s->op, dtype, width_of(g, dtype), t, t, rm_reg(in_reg(g, s->in[0], c)));
  store_from(g, a, k, t);
  g->now_copies = n;
  for (g->now_copy = k; g->now_copy < n; g->now_copy += g->vectors) release(g);
  g->now_copy = k;
  g->now_copies = g->vectors;
  g->temps = 0;
}

void store_op(struct gen *g, const struct kir_stmt *s, struct gen_access *a) {
  if (g->short_loop >= 0 && a->lane >= 0 && a->owner != g->short_loop) { store_rows(g, s, a); return; }
  if (g->vals[s->in[0]].domain == SCALAR && a->lane < 0) { store_scalar(g, s, a); return; }
  int reg = in_reg(g, s->in[0], g->now_copy);
  if (s->op == KIR_SET) store_from(g, a, g->now_copy, reg);
  else store_combined(g, s, a, reg);
  release(g);
  g->temps = 0;
}

void axis_value(struct gen *g, int loop, int copy) {
  struct encoder *e = enc(g);
  struct gen_loop *l = &g->loops[loop];
  int64_t lanes[8];
  int bytes = width_of(g, WEFT_I64), d = take_register(g, false);
  for (int i = 0; i < g->lanes && i < 8; i++) lanes[i] = copy * g->lanes + i;
  gpr(e, G_MOV, RAX, in_frame(l->var));
  if (l->is_flat) gpr(e, G_ADD, RAX, rm_reg(R9));
  gpr(e, G_STORE, RAX, in_frame(g->scratch));
  vec(e, I_PBROADCASTQ, bytes, d, 0, in_frame(g->scratch));
  vec(e, I_PADDQ, bytes, d, d, pool_vector(e, lanes, bytes));
  define_value(g, l->stmt->var, copy, d);
}
