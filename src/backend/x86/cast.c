/* cast.c -- casts between dtypes, each rounding once. Every cast goes from one register to another that is none of its
 * operands; the long way round (integers to bf16, f64 to f16) keeps what rounding needs to know in a last, odd bit. */
#include "backend/x86/gen.h"

typedef void cast_fn(struct gen *, int d, int a, int to);

/* A part of a longer cast: its own temporaries are given back. */
static void stage(struct gen *g, cast_fn *f, int d, int a, int to) {
  uint64_t before = g->temps;
  f(g, d, a, to);
  g->temps = before;
}

static uint64_t f64_bits(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}

static struct rm f64(struct gen *g, double x) { return constant(g, WEFT_F64, f64_bits(x)); }
static struct rm i32(struct gen *g, uint32_t x) { return constant(g, WEFT_I32, x); }
static struct rm i64(struct gen *g, uint64_t x) { return constant(g, WEFT_I64, x); }

/* ---- Floats to 32-bit integers: saturate, NaN becomes 0 ---- */

static void f32_to_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g);
  (void)to;
  vec(e, I_CVTTPS2DQ, bytes, d, 0, rm_reg(a)); /* MIN if out of range or NaN */
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_CMPPS, bytes, k, a, i32(g, 0x4F000000), CMP_GE); /* 2^31 */
    vec(e, I_BROADCASTSS, bytes, t, 0, pool_vector(e, &(uint32_t){ INT32_MAX }, 4));
    vec_mask(e, I_MOVUPS, bytes, k, false, d, 0, rm_reg(t), 0);
    vec_imm(e, I_CMPPS, bytes, k, a, rm_reg(a), CMP_ORD);
    vec_mask(e, I_MOVUPS, bytes, k, true, d, 0, rm_reg(d), 0);
    return;
  }
  vec_imm(e, I_CMPPS, bytes, t, a, i32(g, 0x4F000000), CMP_GE);
  vec(e, I_PXOR, bytes, d, d, rm_reg(t));
  vec_imm(e, I_CMPPS, bytes, t, a, rm_reg(a), CMP_ORD);
  vec(e, I_PAND, bytes, d, d, rm_reg(t));
}

static void f32_to_u32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), x = temp(g), big = temp(g), t = temp(g);
  (void)to;
  vec(e, I_PXOR, bytes, t, t, rm_reg(t));
  vec(e, I_MAXPS, bytes, x, a, rm_reg(t)); /* NaN and negatives: 0 */
  if (e->evex) {
    vec(e, I_CVTTPS2UDQ, bytes, d, 0, rm_reg(x)); /* MAX from 2^32 on */
    return;
  }
  vec_imm(e, I_CMPPS, bytes, big, x, i32(g, 0x4F000000), CMP_GE);
  vec(e, I_PAND, bytes, t, big, i32(g, 0x4F000000));
  vec(e, I_SUBPS, bytes, t, x, rm_reg(t));
  vec(e, I_CVTTPS2DQ, bytes, d, 0, rm_reg(t));
  vec(e, I_PAND, bytes, big, big, i32(g, 0x80000000));
  vec(e, I_PXOR, bytes, d, d, rm_reg(big));
  vec_imm(e, I_CMPPS, bytes, t, x, i32(g, 0x4F800000), CMP_GE); /* 2^32 */
  vec(e, I_POR, bytes, d, d, rm_reg(t));
}

struct integer_range { int dtype, low, high; };
static struct integer_range narrow_range(int dtype) {
  static const struct integer_range ranges[] = {
    { WEFT_U8, 0, 255 }, { WEFT_I8, -128, 127 }, { WEFT_U16, 0, 65535 }, { WEFT_I16, -32768, 32767 } };
  int i = 0;
  while (i < 3 && ranges[i].dtype != dtype) i++;
  return ranges[i];
}

static void f32_to_narrow(struct gen *g, int d, int a, int to) {
  struct integer_range r = narrow_range(to);
  int bytes = width_of(g, WEFT_I32);
  f32_to_i32(g, d, a, to);
  vec(enc(g), I_PMAXSD, bytes, d, d, i32(g, (uint32_t)r.low));
  vec(enc(g), I_PMINSD, bytes, d, d, i32(g, (uint32_t)r.high));
}

/* t = a, 0 where a is NaN. */
static void without_nan(struct gen *g, int t, int a) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64);
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_CMPPD, wide, k, a, rm_reg(a), CMP_ORD);
    vec_mask(e, I_MOVUPD, wide, k, true, t, 0, rm_reg(a), 0);
  } else {
    vec_imm(e, I_CMPPD, wide, t, a, rm_reg(a), CMP_ORD);
    vec(e, I_PAND, wide, t, t, rm_reg(a));
  }
}

static void f64_to_i32_between(struct gen *g, int d, int a, double low, double high) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), t = temp(g);
  without_nan(g, t, a);
  vec(e, I_MINPD, wide, t, t, f64(g, high));
  vec(e, I_MAXPD, wide, t, t, f64(g, low));
  vec(e, I_CVTTPD2DQ, wide, d, 0, rm_reg(t));
}

static void f64_to_i32(struct gen *g, int d, int a, int to) {
  (void)to;
  f64_to_i32_between(g, d, a, INT32_MIN, INT32_MAX);
}

static void f64_to_narrow(struct gen *g, int d, int a, int to) {
  struct integer_range r = narrow_range(to);
  f64_to_i32_between(g, d, a, r.low, r.high);
}

static void f64_to_u32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), t = temp(g);
  (void)to;
  without_nan(g, t, a);
  vec(e, I_MINPD, wide, t, t, f64(g, UINT32_MAX));
  vec(e, I_MAXPD, wide, t, t, f64(g, 0));
  vec_imm(e, I_ROUNDPD, wide, t, 0, rm_reg(t), 11);
  vec(e, I_SUBPD, wide, t, t, f64(g, 0x1p31));
  vec(e, I_CVTTPD2DQ, wide, d, 0, rm_reg(t));
  vec(e, I_PXOR, width_of(g, WEFT_I32), d, d, i32(g, 0x80000000));
}

/* ---- Floats to 64-bit integers ---- */

static void f64_to_int_avx512(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), k = temp_mask(g), t = temp(g);
  if (to == WEFT_U64) { /* negatives and NaN: 0; MAX from 2^64 on */
    vec(e, I_PXOR, wide, t, t, rm_reg(t));
    vec(e, I_MAXPD, wide, t, a, rm_reg(t));
    vec(e, I_CVTTPD2UQQ, wide, d, 0, rm_reg(t));
    return;
  }
  vec(e, I_CVTTPD2QQ, wide, d, 0, rm_reg(a)); /* MIN if out of range or NaN */
  vec_imm(e, I_CMPPD, wide, k, a, f64(g, 0x1p63), CMP_GE);
  vec(e, I_PBROADCASTQ, wide, t, 0, pool_vector(e, &(uint64_t){ INT64_MAX }, 8));
  vec_mask(e, I_MOVUPD, wide, k, false, d, 0, rm_reg(t), 0);
  vec_imm(e, I_CMPPD, wide, k, a, rm_reg(a), CMP_ORD);
  vec_mask(e, I_MOVUPD, wide, k, true, d, 0, rm_reg(d), 0);
}

/* d = the whole number x with |x| < 2^63, or 0 <= x < 2^64: its upper 32 bits and its lower ones, both exact. */
static void whole_to_int(struct gen *g, int d, int x, bool is_signed) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), high = temp(g);
  vec(e, I_MULPD, wide, high, x, f64(g, 0x1p-32));
  vec_imm(e, I_ROUNDPD, wide, high, 0, rm_reg(high), 9);
  vec(e, I_MULPD, wide, d, high, f64(g, 0x1p32));
  vec(e, I_SUBPD, wide, d, x, rm_reg(d));                                 /* 0 <= low < 2^32 */
  vec(e, I_ADDPD, wide, d, d, f64(g, 0x1p52));
  vec(e, I_PXOR, wide, d, d, f64(g, 0x1p52));
  vec(e, I_ADDPD, wide, high, high, f64(g, is_signed ? 0x1.8p52 : 0x1p52)); /* two's complement in the low 32 bits */
  vec_imm(e, I_PSHIFTQ, wide, 6, high, rm_reg(high), 32);
  vec(e, I_POR, wide, d, d, rm_reg(high));
}

static void f64_to_int_avx2(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  bool is_signed = to == WEFT_I64;
  int wide = width_of(g, WEFT_F64), x = temp(g), most = temp(g);
  without_nan(g, x, a);
  if (is_signed) {
    vec(e, I_MAXPD, wide, x, x, f64(g, -0x1p63));
    vec(e, I_MINPD, wide, x, x, f64(g, 0x1.fffffffffffffp62));
  } else {
    vec(e, I_MAXPD, wide, x, x, f64(g, 0));
    vec(e, I_MINPD, wide, x, x, f64(g, 0x1.fffffffffffffp63));
  }
  vec_imm(e, I_ROUNDPD, wide, x, 0, rm_reg(x), 11);
  whole_to_int(g, d, x, is_signed);
  vec_imm(e, I_CMPPD, wide, most, a, f64(g, is_signed ? 0x1p63 : 0x1p64), CMP_GE);
  if (is_signed) vec_imm(e, I_PSHIFTQ, wide, 2, x, rm_reg(most), 1);
  vec(e, I_PANDN, wide, d, most, rm_reg(d));
  vec(e, I_POR, wide, d, d, rm_reg(is_signed ? x : most));
}

static void f64_to_int64(struct gen *g, int d, int a, int to) {
  if (g->e.evex) f64_to_int_avx512(g, d, a, to);
  else f64_to_int_avx2(g, d, a, to);
}

static void f32_to_int64(struct gen *g, int d, int a, int to) {
  int t = temp(g);
  vec(enc(g), I_CVTPS2PD, width_of(g, WEFT_F64), t, 0, rm_reg(a));
  f64_to_int64(g, d, t, to);
}

/* ---- Integers to integers ---- */

static void wrap_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32), shift = to == WEFT_I8 ? 24 : 16;
  if (to == WEFT_U8 || to == WEFT_U16) {
    vec(e, I_PAND, bytes, d, a, i32(g, to == WEFT_U8 ? 0xFF : 0xFFFF));
    return;
  }
  vec_imm(e, I_PSHIFTD, bytes, 6, d, rm_reg(a), shift);
  vec_imm(e, I_PSHIFTD, bytes, 4, d, rm_reg(d), shift);
}

static void int64_to_i32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  (void)to;
  if (e->evex) { vec(e, I_PMOVQD, 64, a, 0, rm_reg(d)); return; }
  vec_imm(e, I_EXTRACTI128, 32, a, 0, rm_reg(d), 1);
  vec_imm(e, I_SHUFPS, 16, d, a, rm_reg(d), 0x88);
}

static void int64_to_narrow(struct gen *g, int d, int a, int to) {
  int t = temp(g);
  int64_to_i32(g, t, a, to);
  wrap_i32(g, d, t, to);
}

/* ---- Integers to floats ---- */

static void u32_to_f32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_F32), t = temp(g);
  (void)to;
  if (e->evex) { vec(e, I_CVTUDQ2PS, bytes, d, 0, rm_reg(a)); return; }
  vec_imm(e, I_PSHIFTD, bytes, 2, t, rm_reg(a), 16);               /* halves are exact, their sum rounds once */
  vec(e, I_CVTDQ2PS, bytes, t, 0, rm_reg(t));
  vec(e, I_MULPS, bytes, t, t, i32(g, 0x47800000));                /* 2^16 */
  vec(e, I_PAND, bytes, d, a, i32(g, 0xFFFF));
  vec(e, I_CVTDQ2PS, bytes, d, 0, rm_reg(d));
  vec(e, I_ADDPS, bytes, d, d, rm_reg(t));
}

static void u32_to_f64(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64);
  (void)to;
  if (e->evex) { vec(e, I_CVTUDQ2PD, wide, d, 0, rm_reg(a)); return; }
  vec(e, I_PMOVZXDQ, wide, d, 0, rm_reg(a));
  vec(e, I_POR, wide, d, d, f64(g, 0x1p52));
  vec(e, I_SUBPD, wide, d, d, f64(g, 0x1p52));
}

/* Halves are exact as 2^84 + high and 2^52 + low; their sum rounds once. Signed ones have 2^63 added first. */
static void int64_to_f64_as(struct gen *g, int d, int a, int is_signed) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), high = temp(g);
  if (e->evex) { vec(e, is_signed ? I_CVTQQ2PD : I_CVTUQQ2PD, wide, d, 0, rm_reg(a)); return; }
  vec_imm(e, I_PSHIFTQ, wide, 2, high, rm_reg(a), 32);
  if (is_signed) vec(e, I_PXOR, wide, high, high, i64(g, 0x80000000));
  vec(e, I_POR, wide, high, high, f64(g, 0x1p84));
  vec(e, I_SUBPD, wide, high, high, f64(g, is_signed ? 0x1p84 + 0x1p63 + 0x1p52 : 0x1p84 + 0x1p52));
  vec(e, I_PAND, wide, d, a, i64(g, UINT32_MAX));
  vec(e, I_POR, wide, d, d, f64(g, 0x1p52));
  vec(e, I_ADDPD, wide, d, d, rm_reg(high));
}

/* Whether the value that is being cast is signed. */
static bool from_signed(const struct gen *g) { return kir_is_signed((weft_dtype)g->vals[g->now->s->in[0]].dtype); }

static void int64_to_f64(struct gen *g, int d, int a, int to) {
  (void)to;
  int64_to_f64_as(g, d, a, from_signed(g));
}

/* An integer of 2^40 or more gets its lower 16 bits replaced by one that says whether any was set: it fits an f64
 * exactly, and rounds to a shorter float as before. */
static void int64_shorten(struct gen *g, int d, int a, int to) {
  (void)to;
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_I64), t = temp(g), is_small = temp(g);
  vec(e, I_PANDQ, wide, d, a, i64(g, 0xFFFF));
  vec(e, I_PADDQ, wide, d, d, i64(g, 0xFFFF));
  vec_imm(e, I_PSHIFTQ, wide, 2, d, rm_reg(d), 1);
  vec(e, I_PANDQ, wide, d, d, i64(g, 0x8000));
  vec(e, I_PANDQ, wide, t, a, i64(g, ~(uint64_t)0xFFFF));
  vec(e, I_PORQ, wide, d, d, rm_reg(t));
  if (from_signed(g)) vec(e, I_PADDQ, wide, t, a, i64(g, (uint64_t)1 << 40));
  else move_vector(g, wide, t, a);
  vec_imm(e, I_PSHIFTQ, wide, 2, t, rm_reg(t), 41);
  vec(e, I_PXOR, wide, is_small, is_small, rm_reg(is_small));
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_PCMPQ, wide, k, t, rm_reg(is_small), CMP_EQ);
    vec_mask(e, I_MOVUPD, wide, k, false, d, 0, rm_reg(a), 0);
  } else {
    vec(e, I_PCMPEQQ, wide, is_small, is_small, rm_reg(t));
    vec_imm(e, I_BLENDVPD, wide, d, d, rm_reg(a), is_small << 4);
  }
}

static void int64_to_f32(struct gen *g, int d, int a, int to) {
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64);
  if (e->evex) { vec(e, from_signed(g) ? I_CVTQQ2PS : I_CVTUQQ2PS, wide, d, 0, rm_reg(a)); return; }
  int x = temp(g), y = temp(g);
  stage(g, int64_shorten, x, a, to);
  stage(g, int64_to_f64_as, y, x, from_signed(g));
  vec(e, I_CVTPD2PS, wide, d, 0, rm_reg(y));
}

/* ---- To f16 and bf16 ---- */

/* To the nearest f32 towards 0, and odd unless exact: rounding that again to fewer bits is as if done once. */
static void f64_to_odd_f32(struct gen *g, int d, int a, int to) {
  (void)to;
  struct encoder *e = enc(g);
  int wide = width_of(g, WEFT_F64), bytes = width_of(g, WEFT_F32), back = temp(g), t = temp(g);
  vec(e, I_CVTPD2PS, wide, d, 0, rm_reg(a));
  vec(e, I_CVTPS2PD, wide, back, 0, rm_reg(d));
  if (e->evex) {
    int k = temp_mask(g), grew = temp_mask(g);
    vec_imm(e, I_CMPPD, wide, k, back, rm_reg(a), CMP_NE_ORDERED);
    vec(e, I_PANDQ, wide, back, back, i64(g, INT64_MAX));
    vec(e, I_PANDQ, wide, t, a, i64(g, INT64_MAX));
    vec_imm(e, I_CMPPD, wide, grew, t, rm_reg(back), CMP_LT);
    vec_mask(e, I_PSUBD, bytes, grew, false, d, d, i32(g, 1), 0);
    vec_mask(e, I_POR, bytes, k, false, d, d, i32(g, 1), 0);
    return;
  }
  int inexact = temp(g);
  vec_imm(e, I_CMPPD, wide, inexact, back, rm_reg(a), CMP_NE_ORDERED);
  vec(e, I_PAND, wide, back, back, i64(g, INT64_MAX));
  vec(e, I_PAND, wide, t, a, i64(g, INT64_MAX));
  vec_imm(e, I_CMPPD, wide, t, t, rm_reg(back), CMP_LT);
  narrow_mask(g, WEFT_F64, t);
  narrow_mask(g, WEFT_F64, inexact);
  vec(e, I_PADDD, bytes, d, d, rm_reg(t));
  vec(e, I_PAND, bytes, inexact, inexact, i32(g, 1));
  vec(e, I_POR, bytes, d, d, rm_reg(inexact));
}

static void f32_to_half(struct gen *g, int d, int a, int to) {
  if (to == WEFT_F16) cast_f32_to_f16(g, d, a, to);
  else cast_f32_to_bf16(g, d, a, to);
}

static void f64_to_half(struct gen *g, int d, int a, int to) {
  int t = temp(g);
  stage(g, f64_to_odd_f32, t, a, to);
  f32_to_half(g, d, t, to);
}

/* Beyond 2^24 the lower 9 bits become one that says whether any was set: 24 bits remain, which an f32 holds. */
static void int32_shorten(struct gen *g, int d, int a, int to) {
  (void)to;
  struct encoder *e = enc(g);
  int bytes = width_of(g, WEFT_I32), t = temp(g), m = temp(g);
  vec(e, I_PAND, bytes, d, a, i32(g, 0x1FF));
  vec(e, I_PADDD, bytes, d, d, i32(g, 0x1FF));
  vec_imm(e, I_PSHIFTD, bytes, 2, d, rm_reg(d), 1);
  vec(e, I_PAND, bytes, d, d, i32(g, 0x100));
  vec(e, I_PAND, bytes, t, a, i32(g, ~0x1FFu));
  vec(e, I_POR, bytes, d, d, rm_reg(t));
  if (from_signed(g)) vec(e, I_PADDD, bytes, t, a, i32(g, 1 << 24));
  else move_vector(g, bytes, t, a);
  vec(e, I_PMINUD, bytes, m, t, i32(g, 1 << (from_signed(g) ? 25 : 24)));
  if (e->evex) {
    int k = temp_mask(g);
    vec_imm(e, I_PCMPD, bytes, k, t, rm_reg(m), CMP_EQ);
    vec_mask(e, I_MOVUPS, bytes, k, false, d, 0, rm_reg(a), 0);
  } else {
    vec(e, I_PCMPEQD, bytes, m, m, rm_reg(t));
    vec_imm(e, I_BLENDVPS, bytes, d, d, rm_reg(a), m << 4);
  }
}

/* From 65520 on all is infinite in f16, and below all is exact in f32. */
static void int32_to_half(struct gen *g, int d, int a, int to) {
  int x = temp(g), f = temp(g);
  if (to == WEFT_BF16) stage(g, int32_shorten, x, a, to);
  else move_vector(g, width_of(g, WEFT_I32), x, a);
  if (from_signed(g)) vec(enc(g), I_CVTDQ2PS, width_of(g, WEFT_F32), f, 0, rm_reg(x));
  else stage(g, u32_to_f32, f, x, to);
  f32_to_half(g, d, f, to);
}

static void int64_to_half(struct gen *g, int d, int a, int to) {
  int x = temp(g), f = temp(g);
  stage(g, int64_shorten, x, a, to);
  stage(g, int64_to_f64_as, f, x, from_signed(g));
  stage(g, f64_to_odd_f32, x, f, to);
  f32_to_half(g, d, x, to);
}

/* ---- Bools ---- */

static void to_bool(struct gen *g, int a, int from) {
  struct encoder *e = enc(g);
  bool is_float = kir_is_float((weft_dtype)from);
  int x = in_reg(g, a, g->now_copy), bytes = width_of(g, from), wide = lane_bytes(from) == 8, d = fresh_reg(g),
      zero = temp(g);
  vec(e, I_PXOR, bytes, zero, zero, rm_reg(zero));
  if (e->evex) {
    vec_imm(e, (enum insn)((is_float ? I_CMPPS : I_PCMPD) + wide), bytes, d - MASK_BASE, x, rm_reg(zero), 4);
  } else if (is_float) {
    vec_imm(e, (enum insn)(I_CMPPS + wide), bytes, d, x, rm_reg(zero), CMP_NE);
    narrow_mask(g, from, d);
  } else {
    compare_int_avx2(g, 4, from, d, x, zero);
  }
  release(g);
  define(g, d);
}

static void from_bool(struct gen *g, int a, int to) {
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

/* ---- Which cast it is ---- */

/* Casts of one instruction: bytes are those of the wider side. */
static const struct { uint8_t from, to; int16_t insn; } plain_casts[] = {
  { WEFT_I32, WEFT_F32, I_CVTDQ2PS }, { WEFT_I32, WEFT_F64, I_CVTDQ2PD }, { WEFT_F32, WEFT_F64, I_CVTPS2PD },
  { WEFT_F64, WEFT_F32, I_CVTPD2PS }, { WEFT_I32, WEFT_I64, I_PMOVSXDQ }, { WEFT_I32, WEFT_U64, I_PMOVSXDQ },
  { WEFT_U32, WEFT_I64, I_PMOVZXDQ }, { WEFT_U32, WEFT_U64, I_PMOVZXDQ },
};

enum source { FROM_INT32, FROM_INT64, FROM_F32, FROM_F64, SOURCES };
static enum source source_of(int from) {
  bool wide = lane_bytes(from) == 8;
  return kir_is_float((weft_dtype)from) ? (wide ? FROM_F64 : FROM_F32) : wide ? FROM_INT64 : FROM_INT32;
}

/* By what the value is and what it becomes; u32 differs from i32 only where it becomes a float. */
static cast_fn *const long_casts[SOURCES][WEFT_C128 + 1] = {
  [FROM_INT32] = { [WEFT_U8] = wrap_i32, [WEFT_I8] = wrap_i32, [WEFT_U16] = wrap_i32, [WEFT_I16] = wrap_i32,
                   [WEFT_F16] = int32_to_half, [WEFT_BF16] = int32_to_half, [WEFT_F32] = u32_to_f32,
                   [WEFT_F64] = u32_to_f64 },
  [FROM_INT64] = { [WEFT_U8] = int64_to_narrow, [WEFT_I8] = int64_to_narrow, [WEFT_U16] = int64_to_narrow,
                   [WEFT_I16] = int64_to_narrow, [WEFT_I32] = int64_to_i32, [WEFT_U32] = int64_to_i32,
                   [WEFT_F16] = int64_to_half, [WEFT_BF16] = int64_to_half, [WEFT_F32] = int64_to_f32,
                   [WEFT_F64] = int64_to_f64 },
  [FROM_F32] = { [WEFT_U8] = f32_to_narrow, [WEFT_I8] = f32_to_narrow, [WEFT_U16] = f32_to_narrow,
                 [WEFT_I16] = f32_to_narrow, [WEFT_I32] = f32_to_i32, [WEFT_U32] = f32_to_u32,
                 [WEFT_I64] = f32_to_int64, [WEFT_U64] = f32_to_int64, [WEFT_F16] = f32_to_half,
                 [WEFT_BF16] = f32_to_half },
  [FROM_F64] = { [WEFT_U8] = f64_to_narrow, [WEFT_I8] = f64_to_narrow, [WEFT_U16] = f64_to_narrow,
                 [WEFT_I16] = f64_to_narrow, [WEFT_I32] = f64_to_i32, [WEFT_U32] = f64_to_u32,
                 [WEFT_I64] = f64_to_int64, [WEFT_U64] = f64_to_int64, [WEFT_F16] = f64_to_half,
                 [WEFT_BF16] = f64_to_half },
};

static bool is_same_bits(int from, int to) {
  if (from == to) return true;
  return (int)kir_register_of((weft_dtype)to) == to && !kir_is_float((weft_dtype)from) &&
         !kir_is_float((weft_dtype)to) && to != WEFT_BOOL && from != WEFT_BOOL && lane_bytes(from) == lane_bytes(to);
}

static bool plain_cast(struct gen *g, int a, int from, int to) {
  for (size_t i = 0; i < sizeof plain_casts / sizeof *plain_casts; i++)
    if (plain_casts[i].from == from && plain_casts[i].to == to) {
      unary_op(g, (enum insn)plain_casts[i].insn, lane_bytes(from) == 8 ? from : to, a, 0);
      return true;
    }
  return false;
}

int cast_value(struct gen *g, const struct kir_stmt *s) {
  int from = g->vals[s->in[0]].dtype, x = in_reg(g, s->in[0], g->now_copy), d = temp(g);
  long_casts[source_of(from)][s->dtype](g, d, x, s->dtype);
  return d;
}

void cast_op(struct gen *g, const struct kir_stmt *s) {
  int a = s->in[0], from = g->vals[a].dtype, to = s->dtype;
  if (is_same_bits(from, to)) { move_op(g, a); return; }
  if (to == WEFT_BOOL) { to_bool(g, a, from); return; }
  if (from == WEFT_BOOL) { from_bool(g, a, to); return; }
  if (plain_cast(g, a, from, to)) return;
  int d = cast_value(g, s);
  release(g);
  define(g, d);
}
