/* vector.c -- the kernel's instructions on vectors and masks. A table says which machine instruction does it for
 * floats, signed and unsigned integers; what takes more than one instruction is a function below. Rows name the
 * instruction for 32-bit elements; the one for 64 bits follows it in encode.h. */
#include "backend/x86/cpu.h"
#include "backend/x86/gen.h"

enum form {
  F_NONE, F_BINARY, F_COMMUTES, F_UNARY, F_ROUND, F_COMPARE, F_MINMAX, F_LOGIC, F_NOT, F_SIGN, F_FMA, F_SELECT, F_CAST,
  F_BITS, F_SCALE
};
enum kind { FLOAT, SIGNED, UNSIGNED };
struct vector_rule { uint8_t form, imm; int16_t insn; };

static const struct vector_rule rules[KIR_OPS][3] = {
  [KIR_ADD] = { { F_COMMUTES, 0, I_ADDPS }, { F_COMMUTES, 0, I_PADDD }, { F_COMMUTES, 0, I_PADDD } },
  [KIR_SUB] = { { F_BINARY, 0, I_SUBPS }, { F_BINARY, 0, I_PSUBD }, { F_BINARY, 0, I_PSUBD } },
  [KIR_MUL] = { { F_COMMUTES, 0, I_MULPS }, { F_COMMUTES, 0, I_PMULLD }, { F_COMMUTES, 0, I_PMULLD } },
  [KIR_FMA] = { { F_FMA, 0, 0 } },
  [KIR_DIV] = { { F_BINARY, 0, I_DIVPS } },
  [KIR_SQRT] = { { F_UNARY, 0, I_SQRTPS } },
  [KIR_SCALE] = { { F_SCALE, 0, 0 } },
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

/* The row for this element width. */
static enum insn pick(int insn, int dtype) { return (enum insn)(insn + (lane_bytes(dtype) == 8)); }

struct rm constant(struct gen *g, int dtype, uint64_t bits) {
  return pool_scalar(enc(g), lane_bytes(dtype), bits);
}
static uint64_t sign_bit(int dtype) { return lane_bytes(dtype) == 8 ? (uint64_t)1 << 63 : 1u << 31; }
static uint64_t all_ones(int dtype) { return lane_bytes(dtype) == 8 ? UINT64_MAX : UINT32_MAX; }

/* The last operand of an instruction: in memory if the instruction takes it there. */
static struct rm operand(struct gen *g, enum insn insn, int val) {
  bool is_broadcast = is_literal(g, val) || g->vals[val].domain == SCALAR;
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

void unary_op(struct gen *g, enum insn insn, int dtype, int a, int imm) {
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
  int wide = lane_bytes(dtype) == 8, k = temp_mask(g), t = dst != a && dst != b ? dst : temp(g);
  vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, k, a, rm_reg(b), CMP_UNORD);
  vec_imm(e, (enum insn)(I_RANGEPS + wide), bytes, t, a, rm_reg(b), is_max ? 5 : 4);
  vec_mask(e, (enum insn)(I_ADDPS + wide), bytes, k, false, t, a, rm_reg(b), 0);
  move_vector(g, bytes, dst, t);
}

/* The same where masks are vectors: that of the NaNs is all ones, a NaN itself. */
static void minmax_range(struct gen *g, bool is_max, int dtype, int bytes, int dst, int a, int b) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, t = temp(g);
  vec_imm(e, (enum insn)(I_RANGEPS + wide), bytes, t, a, rm_reg(b), is_max ? 5 : 4);
  vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, dst, a, rm_reg(b), CMP_UNORD);
  vec(e, I_POR, bytes, dst, dst, rm_reg(t));
}

static void minmax(struct gen *g, bool is_max, int dtype, int bytes, int dst, int a, int b) {
  if (g->e.evex) minmax_avx512(g, is_max, dtype, bytes, dst, a, b);
  else if (g->has_range) minmax_range(g, is_max, dtype, bytes, dst, a, b);
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

/* An arg likewise, if it turns out to be neither NaN nor 0: then its number is there before. */
static bool minmax_arg(struct gen *g, const struct kir_stmt *s, bool is_max, int dtype) {
  struct encoder *e = enc(g);
  int i = g->k->vals[s->in[1]].kind == KIR_ARG ? 1 : 0, wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype);
  if (!g->is_latent || g->loop < 0 || g->k->vals[s->in[i]].kind != KIR_ARG) return false;
  int arg = in_reg(g, s->in[i], 0), x = in_reg(g, s->in[1 - i], 0), d = fresh_reg(g), t = temp(g), usual = label_new(e);
  reserve(g);
  vec(e, (enum insn)((is_max ? I_MAXPS : I_MINPS) + wide), bytes, d, arg, rm_reg(x));
  vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, t, arg, constant(g, dtype, 0), CMP_NE_ORDERED);
  bool_test(g, t);
  jump_if(e, CC_NE, usual);
  minmax(g, is_max, dtype, bytes, d, arg, x);
  label_here(e, usual);
  release(g);
  define(g, d);
  return true;
}

/* Patterns without a sign bit are ordered as their numbers are, and NaN is above all. */
static bool is_max_of_patterns(const struct gen *g, const struct kir_stmt *s, int dtype) {
  bool all = g->vals[s->in[0]].is_magnitude && g->vals[s->in[1]].is_magnitude;
  return all && (g->e.evex || lane_bytes(dtype) == 4);
}

static void minmax_op(struct gen *g, const struct kir_stmt *s, bool is_max, int dtype) {
  if (minmax_literal(g, s, is_max, dtype) || minmax_arg(g, s, is_max, dtype)) return;
  if (is_max && is_max_of_patterns(g, s, dtype)) {
    binary(g, pick(I_PMAXUD, dtype), dtype, s->in[0], s->in[1], true);
    return;
  }
  int a = in_reg(g, s->in[0], g->now_copy), b = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g);
  minmax(g, is_max, dtype, width_of(g, dtype), d, a, b);
  release(g);
  define(g, d);
}

/* ---- Compare, select, bools ---- */

/* AVX2: masks of 64 bits become masks of 32. */
void narrow_mask(struct gen *g, int dtype, int reg) {
  if (lane_bytes(dtype) == 4) return;
  int t = temp(g);
  vec_imm(enc(g), I_EXTRACTI128, 32, reg, 0, rm_reg(t), 1);
  vec_imm(enc(g), I_SHUFPS, 16, reg, reg, rm_reg(t), 0x88);
}

static void invert(struct gen *g, int bytes, int reg) {
  vec(enc(g), I_PXOR, bytes, reg, reg, constant(g, WEFT_I32, UINT32_MAX));
}

/* imm 0 eq, 1 lt, 2 le, 4 ne. Only eq and signed gt exist; unsigned ones flip the sign bits first. */
void compare_int_avx2(struct gen *g, int imm, int dtype, int d, int a, int b) {
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

static enum insn mask_insn(int op) { return op == KIR_AND ? I_KAND : op == KIR_OR ? I_KOR : I_KXOR; }

static void mask_logic(struct gen *g, const struct kir_stmt *s) {
  int a = in_reg(g, s->in[0], g->now_copy) - MASK_BASE,
      b = s->n_in > 1 ? in_reg(g, s->in[1], g->now_copy) - MASK_BASE : 0;
  release(g);
  int d = out_reg(g);
  if (s->op == KIR_NOT) vec(enc(g), I_KNOT, 16, d - MASK_BASE, 0, rm_reg(a));
  else vec(enc(g), mask_insn(s->op), 32, d - MASK_BASE, a, rm_reg(b));
  define(g, d);
}

/* ---- The table at work ---- */

void move_op(struct gen *g, int a) {
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

/* d = x 2^n with n = t less the constant it was rounded by. Where it takes long to find that a result is too small for a number,
 * lanes whose n says so are 0 without being scaled: e^-inf is common. */
static void scale_evex(struct gen *g, int dtype, int d, int x, int t) {
  int wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype), k = cpu_is_slow_with_tiny() ? temp_mask(g) : -1;
  uint64_t magic = wide ? 0x43380000000007fe : 0x4b4000fe; /* 1.5 2^52 + 2046, 1.5 2^23 + 254 */
  vec(enc(g), (enum insn)(I_SUBPS + wide), bytes, d, t, constant(g, dtype, magic));
  if (k < 0) {
    vec(enc(g), (enum insn)(I_SCALEFPS + wide), bytes, d, x, rm_reg(d));
    return;
  }
  uint64_t least = wide ? 0xc091500000000000 : 0xc3360000; /* -1108, -182: then x, below 2^32, ends in 0 */
  vec_imm(enc(g), (enum insn)(I_CMPPS + wide), bytes, k, d, constant(g, dtype, least), CMP_NLT);
  vec_mask(enc(g), (enum insn)(I_SCALEFPS + wide), bytes, k, true, d, x, rm_reg(d), 0);
}

/* x times 2^n, n in the low bits of t: multiplied by two powers of two, of half the exponent each, so that neither overflows. */
static void scale_avx2(struct gen *g, int dtype, int d, int x, int t) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype), half = temp(g), kept = cpu_is_slow_with_tiny() ? temp(g) : -1;
  struct rm one = constant(g, dtype, 1), fraction = constant(g, dtype, wide ? 52 : 23);
  if (kept >= 0) { /* as above, n is still in t */
    uint64_t least = wide ? 0x43380000000003aa : 0x4b400048;
    vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, kept, t, constant(g, dtype, least), CMP_NLT);
    vec(e, I_PAND, bytes, kept, kept, rm_reg(x));
    x = kept;
  }
  vec(e, (enum insn)(I_PSRLVD + wide), bytes, half, t, one);
  vec(e, (enum insn)(I_PSUBD + wide), bytes, d, t, rm_reg(half));
  vec(e, (enum insn)(I_PSLLVD + wide), bytes, half, half, fraction);
  vec(e, (enum insn)(I_PSLLVD + wide), bytes, d, d, fraction);
  vec(e, (enum insn)(I_MULPS + wide), bytes, half, x, rm_reg(half));
  vec(e, (enum insn)(I_MULPS + wide), bytes, d, half, rm_reg(d));
}

static void scale_op(struct gen *g, const struct kir_stmt *s, int dtype) {
  int x = in_reg(g, s->in[0], g->now_copy), t = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g);
  if (g->e.evex) scale_evex(g, dtype, d, x, t);
  else scale_avx2(g, dtype, d, x, t);
  release(g);
  define(g, d);
}

static void long_op(struct gen *g, const struct kir_stmt *s, int dtype) {
  int a = in_reg(g, s->in[0], g->now_copy), b = in_reg(g, s->in[1], g->now_copy), d = fresh_reg(g);
  integer_long(g, s->op, dtype, width_of(g, dtype), d, a, b);
  release(g);
  define(g, d);
}

void vector_op(struct gen *g, const struct kir_stmt *s) {
  int in = s->in[s->n_in - 1], dtype = g->vals[in].dtype;
  const struct vector_rule *r = &rules[s->op][kind_of(dtype)];
  if (integer_is_long(g, s->op, dtype)) { long_op(g, s, dtype); return; }
  if (g->e.evex && dtype == WEFT_BOOL && (r->form == F_LOGIC || r->form == F_NOT)) { mask_logic(g, s); return; }
  if (guess_quotient(g, s, dtype)) return;
  switch ((enum form)r->form) {
  case F_BINARY: binary(g, pick(r->insn, dtype), dtype, s->in[0], s->in[1], false); break;
  case F_COMMUTES: case F_LOGIC: binary(g, pick(r->insn, dtype), dtype, s->in[0], s->in[1], true); break;
  case F_UNARY: unary_op(g, pick(r->insn, dtype), dtype, s->in[0], 0); break;
  case F_ROUND: unary_op(g, pick(r->insn, dtype), dtype, s->in[0], r->imm); break;
  case F_NOT: with_constant(g, pick(r->insn, dtype), dtype, s->in[0], all_ones(dtype)); break;
  case F_SIGN:
    with_constant(g, pick(r->insn, dtype), dtype, s->in[0], r->imm ? ~sign_bit(dtype) : sign_bit(dtype));
    break;
  case F_COMPARE: compare(g, s, r->imm, dtype); break;
  case F_MINMAX: minmax_op(g, s, r->imm, dtype); break;
  case F_FMA: fused(g, s, dtype); break;
  case F_SELECT: select_op(g, s, dtype); break;
  case F_CAST: cast_op(g, s); break;
  case F_BITS: move_op(g, s->in[0]); break;
  case F_SCALE: scale_op(g, s, dtype); break;
  case F_NONE: gen_cannot(g, "an instruction on this dtype"); break;
  }
}

/* Temporaries it takes are given back. */
void combine(struct gen *g, int op, int dtype, int bytes, int dst, int a, struct rm b) {
  const struct vector_rule *r = &rules[op][kind_of(dtype)];
  bool is_long = integer_is_long(g, op, dtype);
  if (dtype == WEFT_BOOL && g->e.evex) {
    vec(enc(g), mask_insn(op), 32, dst - MASK_BASE, a - MASK_BASE, rm_reg(b.reg - MASK_BASE));
    return;
  }
  if (r->form != F_MINMAX && !is_long) { vec(enc(g), pick(r->insn, dtype), bytes, dst, a, b); return; }
  uint64_t before = g->temps;
  g->temps |= (uint64_t)1 << a | (uint64_t)1 << dst | (b.kind == RM_REG ? (uint64_t)1 << b.reg : 0);
  int x = b.reg;
  if (b.kind != RM_REG) vec(enc(g), I_MOVUPS, bytes, x = temp(g), 0, b);
  if (is_long) integer_long(g, op, dtype, bytes, dst, a, x);
  else minmax(g, r->imm, dtype, bytes, dst, a, x);
  g->temps = before;
}
