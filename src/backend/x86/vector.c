/* vector.c -- the kernel's instructions on vectors and masks. A table says which machine instruction does it for
 * floats, signed and unsigned integers; what takes more than one instruction is a function below. Rows name the
 * instruction for 32-bit elements; the one for 64 bits follows it in encode.h. */
#include "backend/x86/gen.h"

enum form {
  F_NONE, F_BINARY, F_COMMUTES, F_UNARY, F_ROUND, F_COMPARE, F_MINMAX, F_LOGIC, F_NOT, F_SIGN, F_FMA, F_SELECT, F_MULHI,
  F_CAST, F_BITS
};
enum kind { FLOAT, SIGNED, UNSIGNED };
struct rule { uint8_t form, imm; int16_t insn; };

static const struct rule rules[KIR_OPS][3] = {
  [KIR_ADD] = { { F_COMMUTES, 0, I_ADDPS }, { F_COMMUTES, 0, I_PADDD }, { F_COMMUTES, 0, I_PADDD } },
  [KIR_SUB] = { { F_BINARY, 0, I_SUBPS }, { F_BINARY, 0, I_PSUBD }, { F_BINARY, 0, I_PSUBD } },
  [KIR_MUL] = { { F_COMMUTES, 0, I_MULPS }, { F_COMMUTES, 0, I_PMULLD }, { F_COMMUTES, 0, I_PMULLD } },
  [KIR_FMA] = { { F_FMA, 0, 0 } },
  [KIR_DIV] = { { F_BINARY, 0, I_DIVPS } },
  [KIR_SQRT] = { { F_UNARY, 0, I_SQRTPS } },
  [KIR_MIN] = { { F_MINMAX, 0, I_MINPS }, { F_COMMUTES, 0, I_PMINSD }, { F_COMMUTES, 0, I_PMINUD } },
  [KIR_MAX] = { { F_MINMAX, 1, I_MAXPS }, { F_COMMUTES, 0, I_PMAXSD }, { F_COMMUTES, 0, I_PMAXUD } },
  [KIR_NEG] = { { F_SIGN, 0, I_PXOR } },
  [KIR_ABS] = { { F_SIGN, 1, I_PAND } },
  [KIR_FLOOR] = { { F_ROUND, 9, I_ROUNDPS } },
  [KIR_CEIL] = { { F_ROUND, 10, I_ROUNDPS } },
  [KIR_TRUNC] = { { F_ROUND, 11, I_ROUNDPS } },
  [KIR_RINT] = { { F_ROUND, 8, I_ROUNDPS } },
  [KIR_AND] = { { 0 }, { F_LOGIC, 0, I_PAND }, { F_LOGIC, 0, I_PAND } },
  [KIR_OR] = { { 0 }, { F_LOGIC, 0, I_POR }, { F_LOGIC, 0, I_POR } },
  [KIR_XOR] = { { 0 }, { F_LOGIC, 0, I_PXOR }, { F_LOGIC, 0, I_PXOR } },
  [KIR_NOT] = { { 0 }, { F_NOT, 0, I_PXOR }, { F_NOT, 0, I_PXOR } },
  [KIR_SHL] = { { 0 }, { F_BINARY, 0, I_PSLLVD }, { F_BINARY, 0, I_PSLLVD } },
  [KIR_SHR] = { { 0 }, { F_BINARY, 0, I_PSRAVD }, { F_BINARY, 0, I_PSRLVD } },
  [KIR_MULHI] = { { 0 }, { F_MULHI, 0, I_PMULDQ }, { F_MULHI, 0, I_PMULUDQ } },
  [KIR_EQ] = { { F_COMPARE, CMP_EQ, 0 }, { F_COMPARE, 0, 0 }, { F_COMPARE, 0, 0 } },
  [KIR_NE] = { { F_COMPARE, CMP_NE, 0 }, { F_COMPARE, 4, 0 }, { F_COMPARE, 4, 0 } },
  [KIR_LT] = { { F_COMPARE, CMP_LT, 0 }, { F_COMPARE, 1, 0 }, { F_COMPARE, 1, 0 } },
  [KIR_LE] = { { F_COMPARE, CMP_LE, 0 }, { F_COMPARE, 2, 0 }, { F_COMPARE, 2, 0 } },
  [KIR_SELECT] = { { F_SELECT, 0, 0 }, { F_SELECT, 0, 0 }, { F_SELECT, 0, 0 } },
  [KIR_CAST] = { { F_CAST, 0, 0 }, { F_CAST, 0, 0 }, { F_CAST, 0, 0 } },
  [KIR_BITS] = { { F_BITS, 0, 0 }, { F_BITS, 0, 0 }, { F_BITS, 0, 0 } },
};

static enum kind kind_of(int dtype) {
  if (kir_is_float((weft_dtype)dtype)) return FLOAT;
  return dtype == WEFT_U32 || dtype == WEFT_U64 || dtype == WEFT_BOOL ? UNSIGNED : SIGNED;
}

/* The row for this element width; refuses rows that only AVX-512 has. */
static enum insn pick(struct gen *g, int insn, int dtype) {
  insn += lane_bytes(dtype) == 8;
  if (!g->e.evex && x86_rows[insn].flags & X86_EVEX) gen_cannot(g, "a 64-bit integer instruction that AVX2 lacks");
  return (enum insn)insn;
}

static struct rm constant(struct gen *g, int dtype, uint64_t bits) {
  return pool_scalar(enc(g), lane_bytes(dtype), bits);
}
static uint64_t sign_bit(int dtype) { return lane_bytes(dtype) == 8 ? (uint64_t)1 << 63 : 1u << 31; }
static uint64_t all_ones(int dtype) { return lane_bytes(dtype) == 8 ? UINT64_MAX : UINT32_MAX; }

/* The last operand of an instruction: in memory if the instruction takes it there. */
static struct rm operand(struct gen *g, enum insn insn, int val) {
  bool is_broadcast = g->k->vals[val].kind == KIR_LIT || g->vals[val].domain == SCALAR;
  if (is_broadcast && x86_rows[insn].flags & X86_NO_BC) return rm_reg(in_reg(g, val, g->now_copy));
  return in_rm(g, val, g->now_copy);
}

static bool held(const struct gen *g, int val, int copy) { return g->where[id_of(g, val, copy)] >= 0; }

/* ---- One instruction ---- */

static void binary(struct gen *g, enum insn insn, int dtype, int a, int b, bool commutes) {
  int c = g->now_copy;
  if (commutes && !held(g, a, c) && held(g, b, c)) {
    int t = a;
    a = b;
    b = t;
  }
  int x = in_reg(g, a, c);
  struct rm y = operand(g, insn, b);
  release(g);
  int d = out_reg(g);
  vec(enc(g), insn, width_of(g, dtype), d, x, y);
  define(g, d);
}

static void unary(struct gen *g, enum insn insn, int dtype, int a, int imm) {
  struct rm x = operand(g, insn, a);
  release(g);
  int d = out_reg(g);
  vec_imm(enc(g), insn, width_of(g, dtype), d, 0, x, imm);
  define(g, d);
}

static void with_constant(struct gen *g, enum insn insn, int dtype, int a, uint64_t bits) {
  int x = in_reg(g, a, g->now_copy);
  release(g);
  int d = out_reg(g);
  vec(enc(g), insn, width_of(g, dtype), d, x, constant(g, dtype, bits));
  define(g, d);
}

/* a*b + c: the form whose destination is an operand nobody needs any more; memory for at most one of the others. */
static void fused(struct gen *g, const struct kir_stmt *s, int dtype) {
  int c = g->now_copy, n = s->in[2], x = s->in[0], y = s->in[1], wide = lane_bytes(dtype) == 8,
      bytes = width_of(g, dtype);
  if (!held(g, x, c) && held(g, y, c)) {
    x = s->in[1];
    y = s->in[0];
  }
  int ix = x == s->in[0] ? 0 : 1, iy = 1 - ix;
  bool over_n = is_dying(g, 2) && n != x && n != y, over_x = is_dying(g, ix) && x != y && x != n,
       over_y = is_dying(g, iy) && x != y && y != n;
  if (over_n) {
    int d = g->where[id_of(g, n, c)];
    g->locked |= (uint64_t)1 << d;
    int rx = in_reg(g, x, c);
    struct rm ry = in_rm(g, y, c);
    release(g);
    vec(enc(g), (enum insn)(I_FMA231PS + wide), bytes, d, rx, ry);
    define(g, d);
  } else if (over_x || over_y) {
    int over = over_x ? x : y, other = over_x ? y : x, d = g->where[id_of(g, over, c)];
    g->locked |= (uint64_t)1 << d;
    bool n_in_memory = !held(g, n, c);
    int r = in_reg(g, n_in_memory ? other : n, c);
    struct rm m = in_rm(g, n_in_memory ? n : other, c);
    release(g);
    vec(enc(g), (enum insn)((n_in_memory ? I_FMA213PS : I_FMA132PS) + wide), bytes, d, r, m);
    define(g, d);
  } else {
    int rx = in_reg(g, x, c), ry = in_reg(g, y, c);
    struct rm m = in_rm(g, n, c);
    int d = fresh_reg(g);
    if (m.kind != RM_REG && m.broadcast) {
      m.broadcast = false;
      vec(enc(g), wide ? I_BROADCASTSD : I_BROADCASTSS, bytes, d, 0, m);
    } else {
      vec(enc(g), I_MOVUPS, bytes, d, 0, m);
    }
    vec(enc(g), (enum insn)(I_FMA231PS + wide), bytes, d, rx, rm_reg(ry));
    release(g);
    define(g, d);
  }
}

/* ---- min and max: NaN wins, -0 < +0 ---- */

/* One of a and b, chosen by the sign of a, becomes the second operand: the machine returns that one if the two are
 * equal (so it must be the right zero) or unordered (so only a NaN in the first must be put back). */
static void minmax_avx2(struct gen *g, bool is_max, int dtype, int bytes, int dst, int a, int b) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, x = temp(g), y = temp(g);
  enum insn blend = (enum insn)(I_BLENDVPS + wide);
  vec_imm(e, blend, bytes, is_max ? x : y, a, rm_reg(b), a << 4);
  vec_imm(e, blend, bytes, is_max ? y : x, b, rm_reg(a), a << 4);
  vec(e, (enum insn)((is_max ? I_MAXPS : I_MINPS) + wide), bytes, x, y, rm_reg(x));
  vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, dst, y, rm_reg(y), CMP_UNORD);
  vec_imm(e, blend, bytes, dst, x, rm_reg(y), dst << 4);
}

/* vrange orders the zeros but prefers numbers to NaN: a + b puts the NaN back. dst may be a. */
static void minmax_avx512(struct gen *g, bool is_max, int dtype, int bytes, int dst, int a, int b) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, k = temp_mask(g), t = temp(g);
  vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, k, a, rm_reg(b), CMP_UNORD);
  vec_imm(e, (enum insn)(I_RANGEPS + wide), bytes, t, a, rm_reg(b), is_max ? 5 : 4);
  vec_mask(e, (enum insn)(I_ADDPS + wide), bytes, k, false, t, a, rm_reg(b), 0);
  move_vector(g, bytes, dst, t);
}

static void minmax(struct gen *g, bool is_max, int dtype, int bytes, int dst, int a, int b) {
  if (g->e.evex) minmax_avx512(g, is_max, dtype, bytes, dst, a, b);
  else minmax_avx2(g, is_max, dtype, bytes, dst, a, b);
}

/* A literal that is no NaN as first operand: the machine returns x if x is NaN, and if both are zero. */
static bool minmax_literal(struct gen *g, const struct kir_stmt *s, bool is_max, int dtype) {
  int i = g->k->vals[s->in[1]].kind == KIR_LIT ? 1 : 0, lit = s->in[i], x = s->in[1 - i], wide = lane_bytes(dtype) == 8;
  if (g->k->vals[lit].kind != KIR_LIT) return false;
  uint64_t bits = g->k->vals[lit].bits, magnitude = bits & ~sign_bit(dtype),
           inf = wide ? (uint64_t)0x7FF << 52 : 0x7F800000u;
  bool is_plus_zero = !bits, is_minus_zero = !magnitude && bits;
  if (magnitude > inf || (is_minus_zero && !is_max)) return false;
  int r = in_reg(g, lit, g->now_copy), bytes = width_of(g, dtype);
  struct rm m = in_rm(g, x, g->now_copy);
  release(g);
  int d = out_reg(g);
  vec(enc(g), (enum insn)((is_max ? I_MAXPS : I_MINPS) + wide), bytes, d, r, m);
  if (is_plus_zero && is_max)
    vec(enc(g), (enum insn)(I_ADDPS + wide), bytes, d, d, constant(g, dtype, 0)); /* -0 + 0 = +0 */
  define(g, d);
  return true;
}

static void minmax_op(struct gen *g, const struct kir_stmt *s, bool is_max, int dtype) {
  if (minmax_literal(g, s, is_max, dtype)) return;
  int a = in_reg(g, s->in[0], g->now_copy), b = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g);
  minmax(g, is_max, dtype, width_of(g, dtype), d, a, b);
  release(g);
  define(g, d);
}

/* ---- Compare, select, bools ---- */

/* AVX2: masks of 64 bits become masks of 32. */
static void narrow_mask(struct gen *g, int dtype, int reg) {
  if (lane_bytes(dtype) == 4) return;
  int t = temp(g);
  vec_imm(enc(g), I_EXTRACTI128, 32, reg, 0, rm_reg(t), 1);
  vec_imm(enc(g), I_SHUFPS, 16, reg, reg, rm_reg(t), 0x88);
}

static void invert(struct gen *g, int bytes, int reg) {
  vec(enc(g), I_PXOR, bytes, reg, reg, constant(g, WEFT_I32, UINT32_MAX));
}

/* imm 0 eq, 1 lt, 2 le, 4 ne. Only eq and signed gt exist; unsigned ones flip the sign bits first. */
static void compare_int_avx2(struct gen *g, int imm, int dtype, int d, int a, int b) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, dtype), wide = lane_bytes(dtype) == 8;
  if (imm == 0 || imm == 4) {
    vec(e, (enum insn)(I_PCMPEQD + wide), bytes, d, a, rm_reg(b));
  } else {
    if (kind_of(dtype) == UNSIGNED) {
      int x = temp(g), y = temp(g);
      vec(e, I_PXOR, bytes, x, a, constant(g, dtype, sign_bit(dtype)));
      vec(e, I_PXOR, bytes, y, b, constant(g, dtype, sign_bit(dtype)));
      a = x;
      b = y;
    }
    vec(e, (enum insn)(I_PCMPGTD + wide), bytes, d, imm == 1 ? b : a, rm_reg(imm == 1 ? a : b));
  }
  narrow_mask(g, dtype, d);
  if (imm == 4 || imm == 2) invert(g, width_of(g, WEFT_BOOL), d);
}

static void compare(struct gen *g, const struct kir_stmt *s, int imm, int dtype) {
  struct encoder *e = enc(g);
  enum kind kind = kind_of(dtype);
  int a = in_reg(g, s->in[0], g->now_copy), wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype);
  if (e->evex) {
    struct rm m = in_rm(g, s->in[1], g->now_copy);
    enum insn insn = kind == FLOAT ? I_CMPPS : kind == SIGNED ? I_PCMPD : I_PCMPUD;
    int d = fresh_reg(g);
    vec_imm(e, (enum insn)(insn + wide), bytes, d - MASK_BASE, a, m, imm);
    release(g);
    define(g, d);
    return;
  }
  if (kind == FLOAT && !wide) {
    struct rm m = in_rm(g, s->in[1], g->now_copy);
    release(g);
    int d = out_reg(g);
    vec_imm(e, I_CMPPS, bytes, d, a, m, imm);
    define(g, d);
    return;
  }
  int b = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g);
  if (kind == FLOAT) {
    vec_imm(e, I_CMPPD, bytes, d, a, rm_reg(b), imm);
    narrow_mask(g, dtype, d);
  } else {
    compare_int_avx2(g, imm, dtype, d, a, b);
  }
  release(g);
  define(g, d);
}

static void select_masks(struct gen *g, const struct kir_stmt *s) { /* (c & a) | (~c & b) */
  struct encoder *e = enc(g);
  int k[3], d = 0, t = 0;
  for (int i = 0; i < 3; i++) k[i] = in_reg(g, s->in[i], g->now_copy) - MASK_BASE;
  d = fresh_reg(g);
  t = temp_mask(g);
  vec(e, I_KANDN, 32, t, k[0], rm_reg(k[2]));
  vec(e, I_KAND, 32, d - MASK_BASE, k[0], rm_reg(k[1]));
  vec(e, I_KOR, 32, d - MASK_BASE, d - MASK_BASE, rm_reg(t));
  release(g);
  define(g, d);
}

static void select_op(struct gen *g, const struct kir_stmt *s, int dtype) {
  struct encoder *e = enc(g);
  int c = g->now_copy, wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype);
  if (e->evex && dtype == WEFT_BOOL) { select_masks(g, s); return; }
  int mask = in_reg(g, s->in[0], c), b = in_reg(g, s->in[2], c), t = -1;
  if (!e->evex && wide) {
    t = temp(g);
    vec(e, I_PMOVSXDQ, 32, t, 0, rm_reg(mask));
  }
  struct rm a = in_rm(g, s->in[1], c);
  release(g);
  int d = out_reg(g);
  if (e->evex) vec_mask(e, (enum insn)(I_BLENDMPS + wide), bytes, mask - MASK_BASE, false, d, b, a, 0);
  else vec_imm(e, (enum insn)(I_BLENDVPS + wide), bytes, d, b, a, (t >= 0 ? t : mask) << 4);
  define(g, d);
}

static void mask_logic(struct gen *g, const struct kir_stmt *s) {
  int a = in_reg(g, s->in[0], g->now_copy) - MASK_BASE,
      b = s->n_in > 1 ? in_reg(g, s->in[1], g->now_copy) - MASK_BASE : 0;
  release(g);
  int d = out_reg(g);
  if (s->op == KIR_NOT) vec(enc(g), I_KNOT, 16, d - MASK_BASE, 0, rm_reg(a));
  else vec(enc(g), s->op == KIR_AND ? I_KAND : s->op == KIR_OR ? I_KOR : I_KXOR, 32, d - MASK_BASE, a, rm_reg(b));
  define(g, d);
}

/* ---- Casts ---- */

/* Each takes a register with the value and leaves the result in d, which is none of the operands. */
typedef void cast_fn(struct gen *, int d, int a, int to);

static void cast_f32_to_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g);
  (void)to;
  vec(e, I_CVTTPS2DQ, bytes, d, 0, rm_reg(a)); /* MIN if out of range or NaN */
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_CMPPS, bytes, k, a, constant(g, WEFT_F32, 0x4F000000), CMP_GE); /* 2^31 */
    vec(e, I_BROADCASTSS, bytes, t, 0, pool_vector(e, &(uint32_t){ INT32_MAX }, 4));
    vec_mask(e, I_MOVUPS, bytes, k, false, d, 0, rm_reg(t), 0);
    vec_imm(e, I_CMPPS, bytes, k, a, rm_reg(a), CMP_ORD);
    vec_mask(e, I_MOVUPS, bytes, k, true, d, 0, rm_reg(d), 0);
    return;
  }
  vec_imm(e, I_CMPPS, bytes, t, a, constant(g, WEFT_F32, 0x4F000000), CMP_GE);
  vec(e, I_PXOR, bytes, d, d, rm_reg(t));
  vec_imm(e, I_CMPPS, bytes, t, a, rm_reg(a), CMP_ORD);
  vec(e, I_PAND, bytes, d, d, rm_reg(t));
}

static void cast_f32_to_u32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), x = temp(g), big = temp(g), t = temp(g);
  (void)to;
  vec(e, I_PXOR, bytes, t, t, rm_reg(t));
  vec(e, I_MAXPS, bytes, x, a, rm_reg(t)); /* NaN and negatives: 0 */
  if (e->evex) {
    vec(e, I_CVTTPS2UDQ, bytes, d, 0, rm_reg(x)); /* MAX from 2^32 on */
    return;
  }
  vec_imm(e, I_CMPPS, bytes, big, x, constant(g, WEFT_F32, 0x4F000000), CMP_GE);
  vec(e, I_PAND, bytes, t, big, constant(g, WEFT_F32, 0x4F000000));
  vec(e, I_SUBPS, bytes, t, x, rm_reg(t));
  vec(e, I_CVTTPS2DQ, bytes, d, 0, rm_reg(t));
  vec(e, I_PAND, bytes, big, big, constant(g, WEFT_U32, 0x80000000));
  vec(e, I_PXOR, bytes, d, d, rm_reg(big));
  vec_imm(e, I_CMPPS, bytes, t, x, constant(g, WEFT_F32, 0x4F800000), CMP_GE); /* 2^32 */
  vec(e, I_POR, bytes, d, d, rm_reg(t));
}

static void cast_u32_to_f32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g);
  (void)to;
  if (e->evex) { vec(e, I_CVTUDQ2PS, bytes, d, 0, rm_reg(a)); return; }
  vec_imm(e, I_PSHIFTD, bytes, 2, t, rm_reg(a), 16);                      /* halves are exact, their sum rounds once */
  vec(e, I_CVTDQ2PS, bytes, t, 0, rm_reg(t));
  vec(e, I_MULPS, bytes, t, t, constant(g, WEFT_F32, 0x47800000));        /* 2^16 */
  vec(e, I_PAND, bytes, d, a, constant(g, WEFT_U32, 0xFFFF));
  vec(e, I_CVTDQ2PS, bytes, d, 0, rm_reg(d));
  vec(e, I_ADDPS, bytes, d, d, rm_reg(t));
}

static void wrap_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32), shift = to == WEFT_I8 ? 24 : 16;
  if (to == WEFT_U8 || to == WEFT_U16) {
    vec(e, I_PAND, bytes, d, a, constant(g, WEFT_I32, to == WEFT_U8 ? 0xFF : 0xFFFF));
    return;
  }
  vec_imm(e, I_PSHIFTD, bytes, 6, d, rm_reg(a), shift);
  vec_imm(e, I_PSHIFTD, bytes, 4, d, rm_reg(d), shift);
}

static void cast_f32_to_narrow(struct gen *g, int d, int a, int to) {
  static const struct { int dtype, low, high; } limits[] = {
    { WEFT_U8, 0, 255 }, { WEFT_I8, -128, 127 }, { WEFT_U16, 0, 65535 }, { WEFT_I16, -32768, 32767 } };
  int bytes = width_of(g, WEFT_I32);
  cast_f32_to_i32(g, d, a, to);
  for (int i = 0; i < 4; i++)
    if (limits[i].dtype == to) {
      vec(enc(g), I_PMAXSD, bytes, d, d, constant(g, WEFT_I32, (uint32_t)limits[i].low));
      vec(enc(g), I_PMINSD, bytes, d, d, constant(g, WEFT_I32, (uint32_t)limits[i].high));
    }
}

static void cast_f64_to_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), t = temp(g);
  (void)to;
  vec(e, I_MOVUPS, wide, t, 0, rm_reg(a));
  vec(e, I_PXOR, wide, d, d, rm_reg(d));
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_CMPPD, wide, k, a, rm_reg(a), CMP_ORD);
    vec_mask(e, I_MOVUPD, wide, k, true, t, 0, rm_reg(a), 0);
  } else {
    vec_imm(e, I_CMPPD, wide, d, a, rm_reg(a), CMP_ORD);
    vec(e, I_PAND, wide, t, t, rm_reg(d));
  }
  vec(e, I_MINPD, wide, t, t,
      constant(g, WEFT_F64, 0x41DFFFFFFFC00000)); /* 2^31 - 1; below MIN the machine gives MIN */
  vec(e, I_CVTTPD2DQ, wide, d, 0, rm_reg(t));
}

static void truncate_64(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  (void)to;
  if (e->evex) { vec(e, I_PMOVQD, 64, a, 0, rm_reg(d)); return; }
  vec_imm(e, I_EXTRACTI128, 32, a, 0, rm_reg(d), 1);
  vec_imm(e, I_SHUFPS, 16, d, a, rm_reg(d), 0x88);
}

/* Casts of one instruction: bytes are those of the wider side. */
struct plain_cast { uint8_t from, to; int16_t insn; bool evex; };
static const struct plain_cast plain_casts[] = {
  { WEFT_I32, WEFT_F32, I_CVTDQ2PS, false }, { WEFT_I32, WEFT_F64, I_CVTDQ2PD, false },
  { WEFT_F32, WEFT_F64, I_CVTPS2PD, false }, { WEFT_F64, WEFT_F32, I_CVTPD2PS, false },
  { WEFT_I32, WEFT_I64, I_PMOVSXDQ, false }, { WEFT_I32, WEFT_U64, I_PMOVSXDQ, false },
  { WEFT_U32, WEFT_I64, I_PMOVZXDQ, false }, { WEFT_U32, WEFT_U64, I_PMOVZXDQ, false },
  { WEFT_U32, WEFT_F64, I_CVTUDQ2PD, true }, { WEFT_I64, WEFT_F32, I_CVTQQ2PS, true },
  { WEFT_I64, WEFT_F64, I_CVTQQ2PD, true },  { WEFT_U64, WEFT_F32, I_CVTUQQ2PS, true },
  { WEFT_U64, WEFT_F64, I_CVTUQQ2PD, true },
};
struct long_cast { uint8_t from, to; cast_fn *fn; };
static const struct long_cast long_casts[] = {
  { WEFT_F32, WEFT_I32, cast_f32_to_i32 },
  { WEFT_F32, WEFT_U32, cast_f32_to_u32 },
  { WEFT_U32, WEFT_F32, cast_u32_to_f32 },
  { WEFT_F32, WEFT_BF16, cast_f32_to_bf16 },
  { WEFT_F32, WEFT_F16, cast_f32_to_f16 },
  { WEFT_F32, WEFT_U8, cast_f32_to_narrow },
  { WEFT_F32, WEFT_I8, cast_f32_to_narrow },
  { WEFT_F32, WEFT_U16, cast_f32_to_narrow },
  { WEFT_F32, WEFT_I16, cast_f32_to_narrow },
  { WEFT_I32, WEFT_U8, wrap_i32 },
  { WEFT_I32, WEFT_I8, wrap_i32 },
  { WEFT_I32, WEFT_U16, wrap_i32 },
  { WEFT_I32, WEFT_I16, wrap_i32 },
  { WEFT_U32, WEFT_U8, wrap_i32 },
  { WEFT_U32, WEFT_I8, wrap_i32 },
  { WEFT_U32, WEFT_U16, wrap_i32 },
  { WEFT_U32, WEFT_I16, wrap_i32 },
  { WEFT_F64, WEFT_I32, cast_f64_to_i32 },
  { WEFT_I64, WEFT_I32, truncate_64 },
  { WEFT_I64, WEFT_U32, truncate_64 },
  { WEFT_U64, WEFT_I32, truncate_64 },
  { WEFT_U64, WEFT_U32, truncate_64 },
};

static void move_op(struct gen *g, int a) {
  int id = id_of(g, a, g->now_copy), reg = g->where[id];
  if (reg >= 0 && is_dying(g, 0) && g->want < 0 && g->k->vals[a].kind != KIR_LIT) {
    release(g);
    define(g, reg);
    return;
  }
  int x = in_reg(g, a, g->now_copy);
  release(g);
  int d = out_reg(g);
  if (d >= MASK_BASE) vec(enc(g), I_KMOV, 16, d - MASK_BASE, 0, rm_reg(x - MASK_BASE));
  else move_vector(g, width_of(g, g->vals[a].dtype), d, x);
  define(g, d);
}

static void cast_to_bool(struct gen *g, int a, int from) {
  struct encoder *e = enc(g);
  int x = in_reg(g, a, g->now_copy), bytes = width_of(g, from), wide = lane_bytes(from) == 8, d = fresh_reg(g),
      zero = temp(g);
  vec(e, I_PXOR, bytes, zero, zero, rm_reg(zero));
  if (e->evex) {
    enum insn insn = kind_of(from) == FLOAT ? I_CMPPS : I_PCMPD;
    vec_imm(e, (enum insn)(insn + wide), bytes, d - MASK_BASE, x, rm_reg(zero), 4);
  } else if (kind_of(from) == FLOAT) {
    vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, d, x, rm_reg(zero), CMP_NE);
    narrow_mask(g, from, d);
  } else {
    compare_int_avx2(g, 4, from, d, x, zero);
  }
  release(g);
  define(g, d);
}

static void cast_from_bool(struct gen *g, int a, int to) {
  struct encoder *e = enc(g);
  uint64_t one = to == WEFT_F64 ? (uint64_t)0x3FF << 52 : kir_is_float((weft_dtype)to) ? 0x3F800000 : 1;
  int reg_dtype = kir_register_of((weft_dtype)to), wide = lane_bytes(reg_dtype) == 8, bytes = width_of(g, reg_dtype);
  int x = in_reg(g, a, g->now_copy);
  release(g);
  int d = out_reg(g);
  if (e->evex) {
    struct rm m = constant(g, reg_dtype, one);
    m.broadcast = false;
    vec_mask(e, wide ? I_BROADCASTSD : I_BROADCASTSS, bytes, x - MASK_BASE, true, d, 0, m, 0);
  } else {
    if (wide) vec(e, I_PMOVSXDQ, 32, d, 0, rm_reg(x));
    vec(e, I_PAND, bytes, d, wide ? d : x, constant(g, reg_dtype, one));
  }
  define(g, d);
}

static void cast_op(struct gen *g, const struct kir_stmt *s) {
  int a = s->in[0], from = g->vals[a].dtype, to = s->dtype;
  bool same_bits =
      from == to || ((int)kir_register_of((weft_dtype)to) == to && kind_of(from) != FLOAT && kind_of(to) != FLOAT &&
                     to != WEFT_BOOL && from != WEFT_BOOL && lane_bytes(from) == lane_bytes(to));
  if (same_bits) { move_op(g, a); return; }
  if (to == WEFT_BOOL) { cast_to_bool(g, a, from); return; }
  if (from == WEFT_BOOL) { cast_from_bool(g, a, to); return; }
  for (size_t i = 0; i < sizeof plain_casts / sizeof *plain_casts; i++)
    if (plain_casts[i].from == from && plain_casts[i].to == to && (g->e.evex || !plain_casts[i].evex)) {
      unary(g, (enum insn)plain_casts[i].insn, lane_bytes(from) == 8 ? from : to, a, 0);
      return;
    }
  for (size_t i = 0; i < sizeof long_casts / sizeof *long_casts; i++)
    if (long_casts[i].from == from && long_casts[i].to == to) {
      int x = in_reg(g, a, g->now_copy), d = fresh_reg(g);
          long_casts[i].fn(g, d, x, to);
      release(g);
      define(g, d);
      return;
    }
  gen_cannot(g, "a cast between these dtypes");
}

/* The high halves of 32 x 32 bits: products of the even lanes and of the odd ones, put together again. */
static void mulhi(struct gen *g, const struct kir_stmt *s, enum insn insn, int dtype) {
  struct encoder *e = enc(g);
  if (lane_bytes(dtype) == 8) { gen_cannot(g, "mulhi of 64 bits"); return; }
  int a = in_reg(g, s->in[0], g->now_copy), b = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g),
      bytes = width_of(g, dtype);
  int x = temp(g), y = temp(g);
  vec_imm(e, I_PSHIFTQ, bytes, 2, x, rm_reg(a), 32);
  vec_imm(e, I_PSHIFTQ, bytes, 2, y, rm_reg(b), 32);
  vec(e, insn, bytes, x, x, rm_reg(y));
  vec(e, insn, bytes, d, a, rm_reg(b));
  vec_imm(e, I_PSHIFTQ, bytes, 2, d, rm_reg(d), 32);
  uint64_t odd = 0xFFFFFFFF00000000;
  struct rm m = pool_scalar(e, 8, odd);
  vec(e, I_PANDQ, bytes, x, x, m);
  vec(e, I_POR, bytes, d, d, rm_reg(x));
  release(g);
  define(g, d);
}

/* ---- The table at work ---- */

void vector_op(struct gen *g, const struct kir_stmt *s) {
  int in = s->in[s->n_in - 1], dtype = g->vals[in].dtype;
  const struct rule *r = &rules[s->op][kind_of(dtype)];
  if (g->e.evex && dtype == WEFT_BOOL && (r->form == F_LOGIC || r->form == F_NOT)) { mask_logic(g, s); return; }
  switch (r->form) {
  case F_BINARY: binary(g, pick(g, r->insn, dtype), dtype, s->in[0], s->in[1], false); break;
  case F_COMMUTES: case F_LOGIC: binary(g, pick(g, r->insn, dtype), dtype, s->in[0], s->in[1], true); break;
  case F_UNARY: unary(g, pick(g, r->insn, dtype), dtype, s->in[0], 0); break;
  case F_ROUND: unary(g, pick(g, r->insn, dtype), dtype, s->in[0], r->imm); break;
  case F_NOT: with_constant(g, pick(g, r->insn, dtype), dtype, s->in[0], all_ones(dtype)); break;
  case F_SIGN:
    with_constant(g, pick(g, r->insn, dtype), dtype, s->in[0], r->imm ? ~sign_bit(dtype) : sign_bit(dtype));
    break;
  case F_COMPARE: compare(g, s, r->imm, dtype); break;
  case F_MINMAX: minmax_op(g, s, r->imm, dtype); break;
  case F_FMA: fused(g, s, dtype); break;
  case F_SELECT: select_op(g, s, dtype); break;
  case F_MULHI: mulhi(g, s, (enum insn)r->insn, dtype); break;
  case F_CAST: cast_op(g, s); break;
  case F_BITS: move_op(g, s->in[0]); break;
  default: gen_cannot(g, "an instruction on this dtype"); break;
  }
}

void combine(struct gen *g, int op, int dtype, int bytes, int dst, int a, struct rm b) {
  const struct rule *r = &rules[op][kind_of(dtype)];
  if (dtype == WEFT_BOOL && g->e.evex) { gen_cannot(g, "a combining store of bools"); return; } /* they are in masks */
  if (r->form != F_MINMAX) { vec(enc(g), pick(g, r->insn, dtype), bytes, dst, a, b); return; }
  uint64_t before = g->temps;
  g->temps |= (uint64_t)1 << a | (uint64_t)1 << dst | (b.kind == RM_REG ? (uint64_t)1 << b.reg : 0);
  int x = b.reg;
  if (b.kind != RM_REG) vec(enc(g), I_MOVUPS, bytes, x = temp(g), 0, b);
  minmax(g, r->imm, dtype, bytes, dst, a, x);
  g->temps = before;
}

uint64_t fold_start(int op, int dtype, const char **why) {
  bool is_float = kir_is_float((weft_dtype)dtype), is_signed = kind_of(dtype) == SIGNED;
  int bits = 8 * lane_bytes(dtype);
  uint64_t ones = bits == 64 ? UINT64_MAX : UINT32_MAX, top = (uint64_t)1 << (bits - 1);
  uint64_t one = dtype == WEFT_F32 ? 0x3F800000 : dtype == WEFT_F64 ? (uint64_t)0x3FF << 52 : 1;
  uint64_t inf = dtype == WEFT_F32 ? 0x7F800000 : (uint64_t)0x7FF << 52;
  switch (op) {
  case KIR_ADD: case KIR_OR: case KIR_XOR: return 0;
  case KIR_MUL: return one;
  case KIR_AND: return ones;
  case KIR_MAX: return is_float ? inf | top : is_signed ? top : 0;
  case KIR_MIN: return is_float ? inf : is_signed ? ones >> 1 : ones;
  default:
    if (!*why) *why = "a fold with this combiner";
    return 0;
  }
}

void extend_mask(struct gen *g, int dst) { vec(enc(g), I_PMOVSXDQ, 32, dst, 0, rm_reg(TAIL_V)); }

void blend_tail(struct gen *g, int dtype, int dst, int src) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, dtype), wide = lane_bytes(dtype) == 8;
  if (e->evex) { vec_mask(e, wide ? I_MOVUPD : I_MOVUPS, bytes, TAIL_K, false, dst, 0, rm_reg(src), 0); return; }
  int mask = TAIL_V;
  if (wide) extend_mask(g, mask = temp(g));
  vec_imm(e, (enum insn)(I_BLENDVPS + wide), bytes, dst, dst, rm_reg(src), mask << 4);
}
