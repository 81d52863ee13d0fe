/* memory.c -- loads and stores: one element for all lanes, or G elements that lie side by side, backwards, or a stride
 * apart. A masked body touches only the lanes that are there. What no vector instruction can do under a mask (narrow
 * dtypes, strides) goes element by element through a buffer in the frame. */
#include "backend/x86/gen.h"

/* The dtype of an element as stored. Private copies hold register dtypes. */
static int memory_dtype(const struct gen *g, const struct access *a) {
  int buf = a->stmt->buf, dtype = g->k->bufs[buf].dtype;
  return g->is_private[buf] ? (int)kir_register_of((weft_dtype)dtype) : dtype;
}

static bool is_flat(const struct gen *g) { return g->lane_loop >= 0 && g->loops[g->lane_loop].is_flat; }

/* A register with the address at the start of the lane loop (flat), of the group of lanes, or of the one element. */
static int pointer_of(struct gen *g, struct access *a) {
  if (a->reg >= 0) return a->reg;
  if (is_flat(g)) gpr(enc(g), G_MOV, RDX, in_frame(a->entry));
  else if (a->owner == OWNER_USE) address_eval(g, a, -1);
  else gpr(enc(g), G_MOV, RDX, in_frame(a->pointer));
  return RDX;
}

static struct rm unit_at(struct gen *g, struct access *a, int copy) {
  int p = pointer_of(g, a), disp = copy * g->lanes << a->element;
  return is_flat(g) ? rm_index(p, R9, a->element, disp) : rm_at(p, disp);
}

/* RDX = address of the first lane of the copy, RCX = bytes from lane to lane. */
static void strided_at(struct gen *g, struct access *a, int copy) {
  struct encoder *e = enc(g);
  int p = pointer_of(g, a);
  if (p != RDX) gpr(e, G_MOV, RDX, rm_reg(p));
  if (a->cls == LANE_UNIT || a->cls == LANE_BACK) gpr_const(e, RCX, (a->cls == LANE_UNIT ? 1 : -1) * (1 << a->element));
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

/* ---- Element by element ---- */

static void lanes_left(struct gen *g) { /* RAX = lanes of this copy that are there */
  struct encoder *e = enc(g);
  if (!g->masked) { gpr_const(e, RAX, g->lanes); return; }
  if (is_flat(g)) {
    gpr(e, G_MOV, RAX, rm_reg(R10));
    gpr(e, G_SUB, RAX, rm_reg(R9));
  } else {
    gpr(e, G_MOV, RAX, in_frame(g->loops[g->lane_loop].limit));
    gpr(e, G_SUB, RAX, in_frame(g->loops[g->lane_loop].j));
  }
}

/* Copies the lanes that are there between memory and the buffer in the frame. */
static void copy_elements(struct gen *g, struct access *a, int copy, bool to_memory) {
  struct encoder *e = enc(g);
  int loop = label_new(e), bytes = 1 << a->element;
  strided_at(g, a, copy);
  lanes_left(g);
  gpr(e, G_STORE, RAX, in_frame(g->scratch));
  gpr_push(e, RSI);
  gpr_const(e, RSI, 0);
  label_here(e, loop);
  struct rm there = rm_at(RDX, 0), here = rm_index(RBX, RSI, a->element, g->tail_buffer);
  gpr_move(e, bytes, false, RAX, to_memory ? here : there);
  gpr_move(e, bytes, true, RAX, to_memory ? there : here);
  gpr(e, G_ADD, RDX, rm_reg(RCX));
  gpr_imm(e, A_ADD, rm_reg(RSI), 1);
  gpr(e, G_CMP, RSI, in_frame(g->scratch));
  jump_if(e, CC_L, loop);
  gpr_pop(e, RSI);
}

/* ---- Between memory and a register ---- */

static void widen(struct gen *g, int dtype, int d, struct rm m) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32);
  switch (dtype) {
  case WEFT_BOOL: case WEFT_U8: vec(e, I_PMOVZXBD, bytes, d, 0, m); break;
  case WEFT_I8: vec(e, I_PMOVSXBD, bytes, d, 0, m); break;
  case WEFT_U16: vec(e, I_PMOVZXWD, bytes, d, 0, m); break;
  case WEFT_I16: vec(e, I_PMOVSXWD, bytes, d, 0, m); break;
  case WEFT_F16: f16_widen(g, d, m, g->vals[g->now->s->out[0]].moves); break;
  case WEFT_BF16: bf16_widen(g, d, m); break;
  default: vec(e, I_MOVUPS, width_of(g, dtype), d, 0, m); break;
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

static void load_from(struct gen *g, int dtype, int d, struct rm m) {
  if (dtype != WEFT_BOOL) { widen(g, dtype, d, m); return; }
  int t = g->e.evex ? temp(g) : d;
  widen(g, dtype, t, m);
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

static void store_f16(struct gen *g, int reg, struct rm m, bool exact) {
  if (!exact) { vec_imm(enc(g), I_CVTPS2PH, width_of(g, WEFT_F32), reg, 0, m, 0); return; }
  int t = temp(g);
  f16_narrow(g, t, reg, true);
  store_first(g, 2 * g->lanes, t, m);
}

static void store_narrow(struct gen *g, int dtype, int reg, struct rm m) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32);
  bool exact = !g->vals[g->now->s->in[0]].is_quiet;
  if (dtype == WEFT_F16) { store_f16(g, reg, m, exact); return; }
  int t = temp(g), size = dtype_bytes(dtype);
  if (dtype == WEFT_BOOL) lanes_of_bool(g, t, reg);
  else if (dtype == WEFT_BF16) bf16_narrow(g, t, reg, exact);
  else move_vector(g, bytes, t, reg);
  if (e->evex) vec(e, size == 1 ? I_PMOVDB : I_PMOVDW, bytes, t, 0, m);
  else pack_avx2(g, size, t, m);
}

static void store_to(struct gen *g, int dtype, int reg, struct rm m) {
  if (dtype_bytes(dtype) < 4) store_narrow(g, dtype, reg, m);
  else vec(enc(g), I_MOVUPS_TO, width_of(g, dtype), reg, 0, m);
}

/* ---- Whole vectors under a mask ---- */

static void masked_move(struct gen *g, int dtype, bool to_memory, int reg, struct rm m) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype), mask = TAIL_V;
  if (e->evex) {
    vec_mask(e, (enum insn)((to_memory ? I_MOVUPS_TO : I_MOVUPS) + wide), bytes, TAIL_K, !to_memory, reg, 0, m, 0);
    return;
  }
  if (wide) extend_mask(g, mask = temp(g));
  vec(e, (enum insn)((to_memory ? I_MASKMOVPS_TO : I_MASKMOVPS) + wide), bytes, reg, mask, m);
}

/* ---- Backwards and strided ---- */

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

static struct rm back_at(struct gen *g, struct access *a, int copy) {
  int p = pointer_of(g, a), disp = -((copy + 1) * g->lanes - 1) * (1 << a->element);
  if (!is_flat(g)) return rm_at(p, disp);
  gpr(enc(g), G_MOV, RAX, rm_reg(R9));
  gpr_unary(enc(g), 3, RAX);
  return rm_index(p, RAX, a->element, disp);
}

/* 16 bytes at a time by inserts, which beat gathers on most machines. */
static void load_strided(struct gen *g, struct access *a, int copy, int d) {
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

static void store_strided(struct gen *g, struct access *a, int copy, int reg) {
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

/* ---- One element ---- */

static void load_one(struct gen *g, int dtype, int d, struct rm m) {
  struct encoder *e = enc(g);
  int size = dtype_bytes(dtype), reg_dtype = (int)kir_register_of((weft_dtype)dtype), bytes = width_of(g, reg_dtype);
  if (size >= 4) { vec(e, size == 8 ? I_BROADCASTSD : I_BROADCASTSS, bytes, d, 0, m); return; }
  gpr_move(e, size, false, RAX, m);
  gpr(e, G_STORE, RAX, in_frame(g->tail_buffer));
  int t = dtype == WEFT_BOOL && e->evex ? temp(g) : d;
  widen(g, dtype, t, in_frame(g->tail_buffer));
  vec(e, I_BROADCASTSS, bytes, t, 0, rm_reg(t));
  if (dtype == WEFT_BOOL) bool_of_lanes(g, d, t);
}

static void store_one(struct gen *g, struct access *a, int dtype, int reg) {
  struct encoder *e = enc(g);
  int size = dtype_bytes(dtype);
  if (size >= 4) {
    vec(e, size == 8 ? I_MOVQ_TO : I_MOVD_TO, 16, reg, 0, rm_at(pointer_of(g, a), 0));
    return;
  }
  store_narrow(g, dtype, reg, in_frame(g->tail_buffer));
  int p = pointer_of(g, a);
  gpr(e, G_MOV, RAX, in_frame(g->tail_buffer));
  gpr_move(e, size, true, RAX, rm_at(p, 0));
}

/* ---- Statements ---- */

static bool is_one(const struct access *a) { return a->cls == LANE_NONE || a->cls == LANE_ZERO; }

static void load_into(struct gen *g, struct access *a, int copy, int d) {
  int dtype = memory_dtype(g, a);
  bool by_element = g->masked ? a->cls != LANE_UNIT || a->narrow : a->narrow && a->cls != LANE_UNIT;
  if (is_one(a)) load_one(g, dtype, d, rm_at(pointer_of(g, a), 0));
  else if (by_element) {
    copy_elements(g, a, copy, false);
    load_from(g, dtype, d, in_frame(g->tail_buffer));
  } else if (a->cls == LANE_UNIT) {
    if (g->masked) masked_move(g, dtype, false, d, unit_at(g, a, copy));
    else load_from(g, dtype, d, unit_at(g, a, copy));
  } else if (a->cls == LANE_BACK) {
    vec(enc(g), I_MOVUPS, width_of(g, dtype), d, 0, back_at(g, a, copy));
    reverse(g, dtype, d);
  } else {
    load_strided(g, a, copy, d);
  }
}

static void store_from(struct gen *g, struct access *a, int copy, int reg) {
  int dtype = memory_dtype(g, a);
  bool by_element = g->masked ? a->cls != LANE_UNIT || a->narrow : a->narrow && a->cls != LANE_UNIT;
  if (is_one(a)) store_one(g, a, dtype, reg);
  else if (by_element) {
    store_to(g, dtype, reg, in_frame(g->tail_buffer));
    copy_elements(g, a, copy, true);
  } else if (a->cls == LANE_UNIT) {
    if (g->masked) masked_move(g, dtype, true, reg, unit_at(g, a, copy));
    else store_to(g, dtype, reg, unit_at(g, a, copy));
  } else if (a->cls == LANE_BACK) {
    int t = temp(g);
    move_vector(g, width_of(g, dtype), t, reg);
    reverse(g, dtype, t);
    vec(enc(g), I_MOVUPS_TO, width_of(g, dtype), t, 0, back_at(g, a, copy));
  } else {
    store_strided(g, a, copy, reg);
  }
}

void load_op(struct gen *g, const struct kir_stmt *s, struct access *a) {
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

static void store_scalar(struct gen *g, const struct kir_stmt *s, struct access *a) {
  if (s->op != KIR_SET || dtype_bytes(memory_dtype(g, a)) != 8) gen_cannot(g, "a combining store of a 64-bit integer");
  int p = pointer_of(g, a);
  if (g->k->vals[s->in[0]].kind == KIR_LIT) gpr_const(enc(g), RAX, (int64_t)g->k->vals[s->in[0]].bits);
  else scalar_load(g, RAX, s->in[0]);
  gpr(enc(g), G_STORE, RAX, rm_at(p, 0));
  release(g);
}

void store_op(struct gen *g, const struct kir_stmt *s, struct access *a) {
  int val = s->in[0], dtype = g->vals[val].dtype;
  if (g->vals[val].domain == SCALAR && is_one(a)) { store_scalar(g, s, a); return; }
  int reg = in_reg(g, val, g->now_copy);
  if (s->op != KIR_SET) {
    int t = temp(g);
    load_into(g, a, g->now_copy, t);
    combine(g, s->op, dtype, width_of(g, dtype), t, t, rm_reg(reg));
    reg = t;
  }
  store_from(g, a, g->now_copy, reg);
  release(g);
  g->temps = 0;
}

void axis_value(struct gen *g, int loop, int copy) {
  struct encoder *e = enc(g);
  struct loop *l = &g->loops[loop];
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
