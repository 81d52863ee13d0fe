/* x86_integer.c -- integer instructions that take more than one machine instruction: on 64 bits what AVX2 lacks, the high
 * halves of products, and division, which goes lane by lane through general registers. */
#include "backend/x86/gen.h"

/* ---- 64 bits on AVX2 ---- */

/* The low halves crossed with the high ones, moved up, plus the product of the low halves. */
static void mul_64(struct gen *g, int bytes, int d, int a, int b) {
  struct encoder *e = enc(g);
  int x = temp(g), y = temp(g);
  vec_imm(e, I_PSHIFTQ, bytes, 2, x, rm_reg(a), 32);
  vec(e, I_PMULUDQ, bytes, x, x, rm_reg(b));
  vec_imm(e, I_PSHIFTQ, bytes, 2, y, rm_reg(b), 32);
  vec(e, I_PMULUDQ, bytes, y, y, rm_reg(a));
  vec(e, I_PADDQ, bytes, x, x, rm_reg(y));
  vec_imm(e, I_PSHIFTQ, bytes, 6, x, rm_reg(x), 32);
  vec(e, I_PMULUDQ, bytes, y, a, rm_reg(b));
  vec(e, I_PADDQ, bytes, d, x, rm_reg(y));
}

static void minmax_64(struct gen *g, bool is_max, bool is_signed, int bytes, int d, int a, int b) {
  struct encoder *e = enc(g);
  int x = temp(g), y = temp(g);
  if (is_signed) {
    vec(e, I_PCMPGTQ, bytes, x, a, rm_reg(b));
  } else {
    vec(e, I_PXOR, bytes, x, a, constant(g, WEFT_I64, (uint64_t)1 << 63));
    vec(e, I_PXOR, bytes, y, b, constant(g, WEFT_I64, (uint64_t)1 << 63));
    vec(e, I_PCMPGTQ, bytes, x, x, rm_reg(y));
  }
  vec_imm(e, I_BLENDVPD, bytes, d, is_max ? b : a, rm_reg(is_max ? a : b), x << 4);
}

/* With the sign in all bits of s: ((a ^ s) >> n) ^ s. */
static void shift_signed_64(struct gen *g, int bytes, int d, int a, int b) {
  struct encoder *e = enc(g);
  int s = temp(g), t = temp(g);
  vec(e, I_PXOR, bytes, s, s, rm_reg(s));
  vec(e, I_PCMPGTQ, bytes, s, s, rm_reg(a));
  vec(e, I_PXOR, bytes, t, a, rm_reg(s));
  vec(e, I_PSRLVQ, bytes, t, t, rm_reg(b));
  vec(e, I_PXOR, bytes, d, t, rm_reg(s));
}

bool integer_is_long(const struct gen *g, int op, int dtype) {
  bool wide = lane_bytes(dtype) == 8, is_signed = kir_is_signed((weft_dtype)dtype);
  if (op == KIR_MULHI || op == KIR_IDIV || op == KIR_IREM) return true;
  if (kir_is_float((weft_dtype)dtype) || !wide || g->e.evex) return false;
  return op == KIR_MUL || op == KIR_MIN || op == KIR_MAX || (op == KIR_SHR && is_signed);
}

/* ---- High halves ---- */

/* Of 32 x 32 bits: products of the even lanes and of the odd ones, put together again. */
static void mulhi_32(struct gen *g, bool is_signed, int bytes, int d, int a, int b) {
  struct encoder *e = enc(g);
  enum insn insn = is_signed ? I_PMULDQ : I_PMULUDQ;
  int x = temp(g), y = temp(g);
  vec_imm(e, I_PSHIFTQ, bytes, 2, x, rm_reg(a), 32);
  vec_imm(e, I_PSHIFTQ, bytes, 2, y, rm_reg(b), 32);
  vec(e, insn, bytes, x, x, rm_reg(y));
  vec(e, insn, bytes, y, a, rm_reg(b));
  vec_imm(e, I_PSHIFTQ, bytes, 2, y, rm_reg(y), 32);
  vec(e, I_PANDQ, bytes, x, x, pool_scalar(e, 8, 0xFFFFFFFF00000000));
  vec(e, I_POR, bytes, d, x, rm_reg(y));
}

/* ---- Lane by lane ---- */

/* RAX = RAX / RCX, or the remainder: x/0 = 0, x%0 = x, and by -1 without the trap that MIN would be. */
void divide_scalar(struct gen *g, bool is_remainder, bool is_signed) {
  struct encoder *e = enc(g);
  static const uint8_t cqo[] = { 0x48, 0x99 };
  int by_zero = label_new(e), by_minus = label_new(e), done = label_new(e);
  gpr(e, G_TEST, RCX, rm_reg(RCX));
  jump_if(e, CC_E, by_zero);
  if (is_signed) {
    gpr_imm(e, A_CMP, rm_reg(RCX), -1);
    jump_if(e, CC_E, by_minus);
    code_bytes(e, cqo, 2);
  } else {
    gpr_const(e, RDX, 0);
  }
  gpr_unary(e, is_signed ? 7 : 6, RCX);
  if (is_remainder) gpr(e, G_MOV, RAX, rm_reg(RDX));
  jump_to(e, done);
  label_here(e, by_minus);
  if (is_remainder) gpr_const(e, RAX, 0);
  else gpr_unary(e, 3, RAX);
  jump_to(e, done);
  label_here(e, by_zero);
  if (!is_remainder) gpr_const(e, RAX, 0);
  label_here(e, done);
}

static void element_op(struct gen *g, int op, bool is_signed) {
  if (op != KIR_MULHI) { divide_scalar(g, op == KIR_IREM, is_signed); return; }
  gpr_unary(enc(g), is_signed ? 5 : 4, RCX);
  gpr(enc(g), G_MOV, RAX, rm_reg(RDX));
}

static void load_element(struct gen *g, int bytes, bool is_signed, int reg, struct rm m) {
  if (bytes == 8) gpr(enc(g), G_MOV, reg, m);
  else if (is_signed) gpr(enc(g), G_MOVSXD, reg, m);
  else gpr32(enc(g), G_MOV, reg, m);
}

static void by_lane(struct gen *g, int op, int dtype, int bytes, int d, int a, int b) {
  struct encoder *e = enc(g);
  bool is_signed = kir_is_signed((weft_dtype)dtype);
  int again = label_new(e), size = lane_bytes(dtype), scale = size == 8 ? 3 : 2;
  struct rm x = rm_index(RBX, RSI, scale, g->tail_buffer),
            y = rm_index(RBX, RSI, scale, g->tail_buffer + g->vector_bytes);
  vec(e, I_MOVUPS_TO, bytes, a, 0, in_frame(g->tail_buffer));
  vec(e, I_MOVUPS_TO, bytes, b, 0, in_frame(g->tail_buffer + g->vector_bytes));
  gpr(e, G_STORE, RSI, in_frame(g->scratch));
  gpr_const(e, RSI, 0);
  label_here(e, again);
  load_element(g, size, is_signed, RAX, x);
  load_element(g, size, is_signed, RCX, y);
  element_op(g, op, is_signed);
  gpr_move(e, size, true, RAX, x);
  gpr_imm(e, A_ADD, rm_reg(RSI), 1);
  gpr_imm(e, A_CMP, rm_reg(RSI), bytes / size);
  jump_if(e, CC_L, again);
  gpr(e, G_MOV, RSI, in_frame(g->scratch));
  vec(e, I_MOVUPS, bytes, d, 0, in_frame(g->tail_buffer));
}

/* d = op(a, b); d may be one of the operands. */
void integer_long(struct gen *g, int op, int dtype, int bytes, int d, int a, int b) {
  bool is_signed = kir_is_signed((weft_dtype)dtype);
  if (op == KIR_IDIV || op == KIR_IREM || (op == KIR_MULHI && lane_bytes(dtype) == 8))
    by_lane(g, op, dtype, bytes, d, a, b);
  else if (op == KIR_MULHI) mulhi_32(g, is_signed, bytes, d, a, b);
  else if (op == KIR_MUL) mul_64(g, bytes, d, a, b);
  else if (op == KIR_SHR) shift_signed_64(g, bytes, d, a, b);
  else minmax_64(g, op == KIR_MAX, is_signed, bytes, d, a, b);
}
