/* encode.c -- bytes of instructions: prefixes, operands, jumps that are filled in later. See encode.h. */
#include "backend/x86/encode.h"
#include <string.h>
#include "base/mem.h"

#define NO_BC X86_NO_BC
#define TO X86_TO
#define VEX X86_VEX
#define EVEX X86_EVEX
#define VW0 X86_VW0
#define IMM X86_IMM
#define TWO X86_TWO
#define DIGIT X86_DIGIT
#define KD X86_KD
#define KS X86_KS
#define GD X86_GD
#define GS X86_GS
#define BARE X86_BARE
#define VSIB X86_VSIB

const struct insn_row x86_rows[X86_INSNS] = {
#define X86_ROW_(id, name, map, pp, w, opcode, flags) { name, map, pp, w, opcode, flags },
  X86_ROWS(X86_ROW_)
#undef X86_ROW_
};

enum { INSN_MAX = 16 };

struct rm rm_reg(int reg) { return (struct rm){ .kind = RM_REG, .reg = (int8_t)reg, .base = -1, .index = -1 }; }
struct rm rm_at(int base, int32_t disp) {
  return (struct rm){ .kind = RM_MEM, .reg = -1, .base = (int8_t)base, .index = -1, .disp = disp };
}
struct rm rm_index(int base, int index, int scale, int32_t disp) {
  return (struct rm){
    .kind = RM_MEM, .reg = -1, .base = (int8_t)base, .index = (int8_t)index, .scale = (uint8_t)scale, .disp = disp
  };
}

void encoder_free(struct encoder *e) {
  mem_free(e->code);
  mem_free(e->pool);
  mem_free(e->fixups);
  mem_free(e->jumps);
  mem_free(e->labels);
  *e = (struct encoder){ 0 };
}

/* Makes room for n items of size bytes in *array; false: out of memory, and the encoder is marked. */
static bool room_for(struct encoder *e, void **array, int *room, int n, size_t size) {
  if (n <= *room) return true;
  int more = *room ? 2 * *room : 64;
  void *p = e->failed ? NULL : mem_resize(*array, (size_t)more * size);
  if (!p) return e->failed = true, false;
  *array = p;
  *room = more;
  return true;
}

static bool bytes_for(struct encoder *e, uint8_t **bytes, size_t *room, size_t n) {
  if (n <= *room) return true;
  size_t more = *room ? 2 * *room : 4096;
  while (more < n) more *= 2;
  void *p = e->failed ? NULL : mem_resize(*bytes, more);
  if (!p) return e->failed = true, false;
  *bytes = p;
  *room = more;
  return true;
}

static bool begin(struct encoder *e) { return bytes_for(e, &e->code, &e->room, e->n + INSN_MAX) && !e->failed; }
static void put(struct encoder *e, int b) { e->code[e->n++] = (uint8_t)b; }
static void put32(struct encoder *e, int32_t v) {
  memcpy(e->code + e->n, &v, 4);
  e->n += 4;
}

void code_bytes(struct encoder *e, const void *p, int n) {
  if (!bytes_for(e, &e->code, &e->room, e->n + (size_t)n) || e->failed) return;
  memcpy(e->code + e->n, p, (size_t)n);
  e->n += (size_t)n;
}

void code_align(struct encoder *e, int to) {
  static const uint8_t nops[][8] = { { 0x90 },
                                     { 0x66, 0x90 },
                                     { 0x0F, 0x1F, 0 },
                                     { 0x0F, 0x1F, 0x40, 0 },
                                     { 0x0F, 0x1F, 0x44, 0, 0 },
                                     { 0x66, 0x0F, 0x1F, 0x44, 0, 0 },
                                     { 0x0F, 0x1F, 0x80, 0, 0, 0, 0 },
                                     { 0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0 } };
  int n = (int)(-e->n & (size_t)(to - 1));
  for (int k; n; n -= k) {
    k = n < 8 ? n : 8;
    code_bytes(e, nops[k - 1], k);
  }
}

/* ---- Constants ---- */

static struct rm pool_rm(uint32_t at, bool broadcast) {
  return (
      struct rm){ .kind = RM_POOL, .reg = -1, .base = -1, .index = -1, .disp = (int32_t)at, .broadcast = broadcast };
}

/* The pool is searched at the alignment of the constant: kernels have tens of constants, not thousands. */
static uint32_t pool_add(struct encoder *e, const void *data, size_t n) {
  for (size_t at = 0; at + n <= e->n_pool; at += n)
    if (!memcmp(e->pool + at, data, n)) return (uint32_t)at;
  size_t at = (e->n_pool + n - 1) / n * n;
  if (!bytes_for(e, &e->pool, &e->pool_room, at + n)) return 0;
  memset(e->pool + e->n_pool, 0, at - e->n_pool);
  memcpy(e->pool + at, data, n);
  e->n_pool = at + n;
  return (uint32_t)at;
}

struct rm pool_vector(struct encoder *e, const void *data, int bytes) {
  return pool_rm(pool_add(e, data, (size_t)bytes), false);
}

struct rm pool_scalar(struct encoder *e, int element_bytes, uint64_t bits) {
  uint8_t row[32];
  for (int i = 0; i < 32; i += element_bytes) memcpy(row + i, &bits, (size_t)element_bytes);
  return e->evex ? pool_rm(pool_add(e, row, (size_t)element_bytes), true) : pool_rm(pool_add(e, row, 32), false);
}

struct rm pool_table(struct encoder *e, int element_bytes, const uint64_t *data, int n) {
  size_t at = (e->n_pool + 63) & ~(size_t)63, end = at + (size_t)n * (size_t)element_bytes;
  if (!bytes_for(e, &e->pool, &e->pool_room, end)) return pool_rm(0, false);
  memset(e->pool + e->n_pool, 0, at - e->n_pool);
  for (int i = 0; i < n; i++) memcpy(e->pool + at + (size_t)i * (size_t)element_bytes, &data[i], (size_t)element_bytes);
  e->n_pool = end;
  return pool_rm((uint32_t)at, false);
}

/* ---- Operands ---- */

static void put_pool(struct encoder *e, int reg, uint32_t at, int tail) {
  put(e, (reg & 7) << 3 | 5);
  if (room_for(e, (void **)&e->fixups, &e->fixup_room, e->n_fixups + 1, sizeof *e->fixups))
    e->fixups[e->n_fixups++] = (struct fixup){ (uint32_t)e->n, at, (uint8_t)tail };
  put32(e, 0);
}

/* Memory: mod, base, index, displacement. EVEX scales 8-bit displacements by the operand, so it gets 32-bit ones. */
static void put_memory(struct encoder *e, int reg, struct rm m, bool may_disp8) {
  bool none = !m.disp && (m.base & 7) != RBP, is8 = may_disp8 && m.disp >= -128 && m.disp < 128;
  int mod = none ? 0 : is8 ? 1 : 2, sib = m.index >= 0 || (m.base & 7) == RSP;
  put(e, mod << 6 | (reg & 7) << 3 | (sib ? 4 : m.base & 7));
  if (sib) put(e, m.scale << 6 | (m.index >= 0 ? m.index & 7 : 4) << 3 | (m.base & 7));
  if (mod == 1) put(e, m.disp);
  if (mod == 2) put32(e, m.disp);
}

static void put_operand(struct encoder *e, int reg, struct rm m, bool may_disp8, int tail) {
  if (m.kind == RM_REG) put(e, 0xC0 | (reg & 7) << 3 | (m.reg & 7));
  else if (m.kind == RM_POOL) put_pool(e, reg, (uint32_t)m.disp, tail);
  else put_memory(e, reg, m, may_disp8);
}

/* ---- Vector instructions ---- */

static int high(int reg, int bit) { return reg >= 0 ? reg >> bit & 1 : 0; }

static void put_vex(struct encoder *e, const struct insn_row *r, int bytes, int reg, int src, struct rm m) {
  int R = !high(reg, 3), X = !high(m.kind == RM_MEM ? m.index : -1, 3), B = !high(m.kind == RM_REG ? m.reg : m.base, 3);
  int w = r->flags & X86_VW0 ? 0 : r->w, low = (~src & 15) << 3 | (bytes == 32) << 2 | r->pp;
  if (r->map == 1 && !w && X && B) {
    put(e, 0xC5);
    put(e, R << 7 | low);
  } else {
    put(e, 0xC4);
    put(e, R << 7 | X << 6 | B << 5 | r->map);
    put(e, w << 7 | low);
  }
  put(e, r->opcode);
}

static void put_evex(struct encoder *e, const struct insn_row *r, int bytes, int k, bool zero, int reg, int src,
                     struct rm m) {
  int X = m.kind == RM_REG ? high(m.reg, 4) : m.kind == RM_MEM ? high(m.index, 3) : 0;
  int B = high(m.kind == RM_REG ? m.reg : m.base, 3), length = bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
  put(e, 0x62);
  put(e, !high(reg, 3) << 7 | !X << 6 | !B << 5 | !high(reg, 4) << 4 | r->map);
  put(e, r->w << 7 | (~src & 15) << 3 | 4 | r->pp);
  put(e, zero << 7 | length << 5 | (m.kind != RM_REG && m.broadcast) << 4 | !high(src, 4) << 3 | k);
  put(e, r->opcode);
}

void vec_mask(struct encoder *e, enum insn insn, int bytes, int k, bool zero, int dst, int src, struct rm m, int imm) {
  const struct insn_row *r = &x86_rows[insn];
  bool evex = (e->evex && !(r->flags & X86_VEX)) || r->flags & X86_EVEX;
  if (!begin(e)) return;
  if (r->flags & X86_TWO || r->flags & X86_TO) src = r->flags & X86_VEX && !(r->flags & X86_TWO) ? src : 0;
  if (evex) put_evex(e, r, bytes, k, zero, dst, src, m);
  else put_vex(e, r, bytes, dst, src, m);
  if (r->flags & X86_BARE) return;
  put_operand(e, dst, m, !evex, r->flags & X86_IMM ? 1 : 0);
  if (r->flags & X86_IMM) put(e, imm);
}

void vec(struct encoder *e, enum insn insn, int bytes, int dst, int src, struct rm m) {
  vec_mask(e, insn, bytes, 0, false, dst, src, m, 0);
}
void vec_imm(struct encoder *e, enum insn insn, int bytes, int dst, int src, struct rm m, int imm) {
  vec_mask(e, insn, bytes, 0, false, dst, src, m, imm);
}

/* ---- Scalar instructions ---- */

static void put_rex(struct encoder *e, int w, int reg, struct rm m, bool force) {
  int x = high(m.kind == RM_MEM ? m.index : -1, 3), b = high(m.kind == RM_REG ? m.reg : m.base, 3);
  int rex = 0x40 | w << 3 | high(reg, 3) << 2 | x << 1 | b;
  if (rex != 0x40 || force) put(e, rex);
}

static void put_opcode(struct encoder *e, int opcode) {
  if (opcode > 255) put(e, 0x0F);
  put(e, opcode);
}

static void scalar(struct encoder *e, int w, int opcode, int reg, struct rm m, int tail) {
  put_rex(e, w, reg, m, false);
  put_opcode(e, opcode);
  put_operand(e, reg, m, true, tail);
}

void gpr(struct encoder *e, int opcode, int reg, struct rm m) {
  if (begin(e)) scalar(e, 1, opcode, reg, m, 0);
}
void gpr32(struct encoder *e, int opcode, int reg, struct rm m) {
  if (begin(e)) scalar(e, 0, opcode, reg, m, 0);
}

void gpr_move(struct encoder *e, int width, bool to_memory, int reg, struct rm m) {
  if (!begin(e)) return;
  if (width == 2 && to_memory) put(e, 0x66);
  put_rex(e, width == 8, reg, m, width == 1);
  put_opcode(e, to_memory ? (width == 1 ? 0x88 : 0x89) : width == 1 ? 0x0FB6 : width == 2 ? 0x0FB7 : 0x8B);
  put_operand(e, reg, m, true, 0);
}

void gpr_imm(struct encoder *e, int alu, struct rm m, int32_t imm) {
  if (!begin(e)) return;
  bool is8 = imm >= -128 && imm < 128;
  scalar(e, 1, is8 ? 0x83 : 0x81, alu, m, is8 ? 1 : 4);
  if (is8) put(e, imm);
  else put32(e, imm);
}

void gpr_const(struct encoder *e, int reg, int64_t v) {
  if (!begin(e)) return;
  if (!v) {
    scalar(e, 0, G_XOR, reg, rm_reg(reg), 0);
  } else if (v == (int32_t)v) {
    scalar(e, 1, 0xC7, 0, rm_reg(reg), 4);
    put32(e, (int32_t)v);
  } else {
    put_rex(e, 1, 0, rm_reg(reg), true);
    put(e, 0xB8 | (reg & 7));
    memcpy(e->code + e->n, &v, 8);
    e->n += 8;
  }
}

void gpr_mul_imm(struct encoder *e, int reg, struct rm m, int32_t imm) {
  if (!begin(e)) return;
  scalar(e, 1, 0x69, reg, m, 4);
  put32(e, imm);
}

void gpr_store_imm(struct encoder *e, struct rm m, int32_t imm) {
  if (!begin(e)) return;
  scalar(e, 1, 0xC7, 0, m, 4);
  put32(e, imm);
}

void gpr_shift(struct encoder *e, int digit, int reg, int count) {
  if (!begin(e)) return;
  scalar(e, 1, 0xC1, digit, rm_reg(reg), 1);
  put(e, count);
}

void gpr_unary(struct encoder *e, int digit, int reg) {
  if (begin(e)) scalar(e, 1, 0xF7, digit, rm_reg(reg), 0);
}

void gpr_push(struct encoder *e, int reg) {
  if (!begin(e)) return;
  if (reg > 7) put(e, 0x41);
  put(e, 0x50 | (reg & 7));
}
void gpr_pop(struct encoder *e, int reg) {
  if (!begin(e)) return;
  if (reg > 7) put(e, 0x41);
  put(e, 0x58 | (reg & 7));
}

void gpr_setcc(struct encoder *e, enum cc cc, int reg) {
  if (!begin(e)) return;
  put_opcode(e, 0x0F90 | (int)cc);
  put(e, 0xC0 | reg);
  scalar(e, 0, 0x0FB6, reg, rm_reg(reg), 0);
}

void gpr_byte_to(struct encoder *e, int alu, int reg, struct rm m) {
  if (!begin(e)) return;
  put_rex(e, 0, reg, m, true);
  put(e, alu << 3);
  put_operand(e, reg, m, true, 0);
}

void first_bit(struct encoder *e, int dst, int src) { /* tzcnt */
  if (!begin(e)) return;
  put(e, 0xF3);
  scalar(e, 0, 0x0FBC, dst, rm_reg(src), 0);
}

void drop_first_bit(struct encoder *e, int reg) { /* blsr */
  static const struct insn_row blsr = { .map = 2, .opcode = 0xF3 };
  if (!begin(e)) return;
  put_vex(e, &blsr, 16, 1, reg, rm_reg(reg));
  put(e, 0xC8 | (reg & 7));
}

void prefetch(struct encoder *e, struct rm m) { gpr32(e, 0x0F18, 1, m); }
void prefetch_written(struct encoder *e, struct rm m) { gpr32(e, 0x0F0D, 1, m); }
void prefetch_far(struct encoder *e, struct rm m) { gpr32(e, 0x0F18, 2, m); }

/* ---- Jumps ---- */

int label_new(struct encoder *e) {
  if (!room_for(e, (void **)&e->labels, &e->label_room, e->n_labels + 1, sizeof *e->labels)) return 0;
  e->labels[e->n_labels] = -1;
  return e->n_labels++;
}

void label_here(struct encoder *e, int label) {
  if (!e->failed) e->labels[label] = (int64_t)e->n;
}

static void go(struct encoder *e, int opcode, int label) {
  put_opcode(e, opcode);
  if (room_for(e, (void **)&e->jumps, &e->jump_room, e->n_jumps + 1, sizeof *e->jumps))
    e->jumps[e->n_jumps++] = (struct jump){ (uint32_t)e->n, label };
  put32(e, 0);
}

/* Backward jumps within reach are short; forward ones are patched at the end and always have 32 bits. */
static void jump(struct encoder *e, int short_op, int long_op, int label) {
  if (!begin(e)) return;
  int64_t back = e->labels[label] - (int64_t)e->n - 2;
  if (e->labels[label] < 0 || back < -128) {
    go(e, long_op, label);
    return;
  }
  put(e, short_op);
  put(e, (int)back);
}

void call_to(struct encoder *e, int label) {
  if (begin(e)) go(e, 0xE8, label);
}
void jump_to(struct encoder *e, int label) { jump(e, 0xEB, 0xE9, label); }
void jump_if(struct encoder *e, enum cc cc, int label) { jump(e, 0x70 | (int)cc, 0x0F80 | (int)cc, label); }

size_t encoder_pool_at(const struct encoder *e) { return (e->n + 63) & ~(size_t)63; }

bool encoder_finish(struct encoder *e) {
  if (e->failed) return false;
  for (int i = 0; i < e->n_jumps; i++) {
    int32_t d = (int32_t)(e->labels[e->jumps[i].label] - (int64_t)e->jumps[i].at - 4);
    memcpy(e->code + e->jumps[i].at, &d, 4);
  }
  for (int i = 0; i < e->n_fixups; i++) {
    const struct fixup *f = &e->fixups[i];
    int32_t d = (int32_t)(encoder_pool_at(e) + f->pool - (f->at + 4 + f->tail));
    memcpy(e->code + f->at, &d, 4);
  }
  return true;
}
