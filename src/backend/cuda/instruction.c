/* instruction.c -- the instructions of KIR on PTX registers.
 *
 * Floats are rounded to nearest, never flushed, never approximated, and written as bit patterns. Where PTX leaves an
 * edge open (NaN to integer, division by zero, wide shifts, f64 min and max of NaN) the rule of docs/kir.md is spelled out.
 * Instructions on bits (b32, b64) take registers of any type of that width. */
#include "backend/cuda/printer.h"
#include <inttypes.h>
#include <string.h>

static const struct { const char *type, *bits; } types[] = {
  [WEFT_BOOL] = { "pred", "pred" }, [WEFT_I32] = { "s32", "b32" }, [WEFT_U32] = { "u32", "b32" },
  [WEFT_I64] = { "s64", "b64" },    [WEFT_U64] = { "u64", "b64" }, [WEFT_F32] = { "f32", "b32" },
  [WEFT_F64] = { "f64", "b64" },
};

const char *ptx_type(weft_dtype d) { return types[d].type; }
const char *ptx_bits(weft_dtype d) { return types[d].bits; }

static bool is_wide(weft_dtype d) { return kir_width(d) == 8; }
const char *ptx_own_of(struct printer *p, weft_dtype d) {
  return ptx_own(p, d == WEFT_BOOL ? OWN_PRED : is_wide(d) ? OWN_LONG : OWN_WORD);
}

const char *ptx_number(struct printer *p, weft_dtype d, uint64_t bits) {
  switch (d) {
  case WEFT_F32: return ptx_textf(p, "0f%08" PRIx64, bits);
  case WEFT_F64: return ptx_textf(p, "0d%016" PRIx64, bits);
  case WEFT_BOOL: return bits ? "1" : "0";
  case WEFT_I32: return ptx_textf(p, "%" PRId32, (int32_t)bits);
  case WEFT_I64: if ((int64_t)bits != INT64_MIN) return ptx_textf(p, "%" PRId64, (int64_t)bits); /* fall through */
  default: return ptx_textf(p, "0x%" PRIx64, bits);
  }
}

void ptx_mov(struct printer *p, weft_dtype d, const char *dst, const char *src) {
  ptx_line(p, "mov.%s %s, %s", ptx_type(d), dst, src);
}

const char *ptx_in_register(struct printer *p, weft_dtype d, int v) {
  const char *src = ptx_val(p, v);
  if (p->k->vals[v].kind != KIR_LIT) return src;
  const char *r = ptx_own_of(p, d);
  ptx_mov(p, d, r, src);
  return r;
}

static uint64_t one(weft_dtype d) { return d == WEFT_F32 ? 0x3f800000u : d == WEFT_F64 ? 0x3ff0000000000000u : 1; }

/* ---- Instructions whose PTX is one line ------------------------------------------------------------------------------- */

static const struct { const char *on_floats, *on_integers; } names[] = {
  [KIR_ADD] = { "add.rn", "add" },     [KIR_SUB] = { "sub.rn", "sub" },   [KIR_MUL] = { "mul.rn", "mul.lo" },
  [KIR_FMA] = { "fma.rn", NULL },      [KIR_DIV] = { "div.rn", NULL },    [KIR_SQRT] = { "sqrt.rn", NULL },
  [KIR_MIN] = { "min.NaN", "min" },    [KIR_MAX] = { "max.NaN", "max" },  [KIR_MULHI] = { NULL, "mul.hi" },
  [KIR_EQ] = { "setp.eq", "setp.eq" }, [KIR_NE] = { "setp.neu", "setp.ne" },
  [KIR_LT] = { "setp.lt", "setp.lt" }, [KIR_LE] = { "setp.le", "setp.le" },
};

static const char *rounding[] = { [KIR_FLOOR] = "rmi", [KIR_CEIL] = "rpi", [KIR_TRUNC] = "rzi", [KIR_RINT] = "rni" };

static void plain(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *const in[]) {
  const char *name = kir_is_float(d) ? names[op].on_floats : names[op].on_integers;
  switch (strlen(kir_rows[op].operands)) {
  case 1: ptx_line(p, "%s.%s %s, %s", name, ptx_type(d), dst, in[0]); break;
  case 2: ptx_line(p, "%s.%s %s, %s, %s", name, ptx_type(d), dst, in[0], in[1]); break;
  default: ptx_line(p, "%s.%s %s, %s, %s, %s", name, ptx_type(d), dst, in[0], in[1], in[2]); break;
  }
}

/* or(c, c), a copy of a condition that is read when c has changed, goes through a word: a driver's compiler was seen to take
 * the predicate for c itself, after the change (a_carry_that_ends_a_loop_is_that_of_the_step). */
static void copied(struct printer *p, const char *dst, const char *c) {
  const char *word = ptx_own(p, OWN_WORD);
  ptx_line(p, "selp.u32 %s, 1, 0, %s", word, c);
  ptx_line(p, "setp.ne.u32 %s, %s, 0", dst, word);
}

static void logic(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *const in[]) {
  if (d == WEFT_BOOL && op == KIR_OR && !strcmp(in[0], in[1])) { copied(p, dst, in[0]); return; }
  if (op == KIR_NOT) ptx_line(p, "not.%s %s, %s", ptx_bits(d), dst, in[0]);
  else ptx_line(p, "%s.%s %s, %s, %s", kir_rows[op].name, ptx_bits(d), dst, in[0], in[1]);
}

/* ---- Instructions with edges ------------------------------------------------------------------------------------------- */

/* PTX's min and max order -0 below +0; only their f64 forms do not let NaN win. */
static void extreme_f64(struct printer *p, enum kir_op op, const char *dst, const char *const in[]) {
  const char *is_nan = ptx_own(p, OWN_PRED), *best = ptx_own(p, OWN_LONG), *nan = ptx_own(p, OWN_LONG);
  ptx_line(p, "setp.nan.f64 %s, %s, %s", is_nan, in[0], in[1]);
  ptx_line(p, "add.rn.f64 %s, %s, %s", nan, in[0], in[1]);
  ptx_line(p, "%s.f64 %s, %s, %s", kir_rows[op].name, best, in[0], in[1]);
  ptx_line(p, "selp.b64 %s, %s, %s, %s", dst, nan, best, is_nan);
}

/* in[0] times 2^n, n in the low bits of in[1]: multiplied by two powers of two, of half the exponent each, so that neither
 * overflows. */
static void scale(struct printer *p, weft_dtype d, const char *dst, const char *const in[]) {
  weft_dtype bits = is_wide(d) ? WEFT_U64 : WEFT_U32;
  const char *half = ptx_own_of(p, bits), *rest = ptx_own_of(p, bits), *u = ptx_type(bits), *b = ptx_bits(d), *t = ptx_type(d);
  int fraction = is_wide(d) ? 52 : 23;
  ptx_line(p, "mov.%s %s, %s", t, rest, in[1]);
  ptx_line(p, "shr.%s %s, %s, 1", u, half, rest);
  ptx_line(p, "sub.%s %s, %s, %s", u, rest, rest, half);
  ptx_line(p, "shl.%s %s, %s, %d", b, half, half, fraction);
  ptx_line(p, "shl.%s %s, %s, %d", b, rest, rest, fraction);
  ptx_line(p, "mul.rn.%s %s, %s, %s", t, half, in[0], half);
  ptx_line(p, "mul.rn.%s %s, %s, %s", t, dst, half, rest);
}

/* PTX clamps a count to the width, and reads it as u32. */
static void shift(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *const in[]) {
  const char *count = in[1];
  if (is_wide(d)) {
    const char *least_64 = ptx_own(p, OWN_LONG);
    count = ptx_own(p, OWN_WORD);
    ptx_line(p, "min.u64 %s, %s, 64", least_64, in[1]);
    ptx_line(p, "cvt.u32.u64 %s, %s", count, least_64);
  }
  ptx_line(p, "%s.%s %s, %s, %s", kir_rows[op].name, op == KIR_SHL ? ptx_bits(d) : ptx_type(d), dst, in[0], count);
}

static void sign_bit(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *src) {
  uint64_t sign = is_wide(d) ? UINT64_C(1) << 63 : 0x80000000u;
  if (op == KIR_NEG) ptx_line(p, "xor.%s %s, %s, 0x%" PRIx64, ptx_bits(d), dst, src, sign);
  else ptx_line(p, "and.%s %s, %s, 0x%" PRIx64, ptx_bits(d), dst, src, sign - 1);
}

static void select(struct printer *p, weft_dtype d, const char *dst, const char *const in[]) {
  if (d != WEFT_BOOL) { ptx_line(p, "selp.%s %s, %s, %s, %s", ptx_type(d), dst, in[1], in[2], in[0]); return; }
  const char *a = ptx_own(p, OWN_PRED), *b = ptx_own(p, OWN_PRED), *no = ptx_own(p, OWN_PRED);
  ptx_line(p, "and.pred %s, %s, %s", a, in[1], in[0]);
  ptx_line(p, "not.pred %s, %s", no, in[0]);
  ptx_line(p, "and.pred %s, %s, %s", b, in[2], no);
  ptx_line(p, "or.pred %s, %s, %s", dst, a, b);
}

/* x/0 = 0, x%0 = x, MIN/-1 = MIN, x%-1 = 0: divides by 1 instead, and mends. */
static void divide(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *const in[]) {
  const char *t = ptx_type(d), *bits = ptx_bits(d);
  const char *is_zero = ptx_own(p, OWN_PRED), *by = ptx_own_of(p, d), *q = ptx_own_of(p, d);
  ptx_line(p, "setp.eq.%s %s, %s, 0", t, is_zero, in[1]);
  ptx_line(p, "selp.%s %s, 1, %s, %s", bits, by, in[1], is_zero);
  const char *is_minus = NULL;
  if (kir_is_signed(d)) {
    is_minus = ptx_own(p, OWN_PRED);
    ptx_line(p, "setp.eq.%s %s, %s, -1", t, is_minus, in[1]);
    ptx_line(p, "selp.%s %s, 1, %s, %s", bits, by, by, is_minus);
  }
  ptx_line(p, "%s.%s %s, %s, %s", op == KIR_IDIV ? "div" : "rem", t, q, in[0], by);
  if (is_minus && op == KIR_IDIV) {
    const char *back = ptx_own_of(p, d);
    ptx_line(p, "sub.%s %s, 0, %s", t, back, in[0]);
    ptx_line(p, "selp.%s %s, %s, %s, %s", bits, q, back, q, is_minus);
  }
  ptx_line(p, "selp.%s %s, %s, %s, %s", bits, dst, op == KIR_IDIV ? "0" : in[0], q, is_zero);
}

void ptx_instruction(struct printer *p, enum kir_op op, weft_dtype d, const char *dst, const char *const in[]) {
  switch (op) {
  case KIR_MIN: case KIR_MAX:
    if (d == WEFT_F64) extreme_f64(p, op, dst, in);
    else plain(p, op, d, dst, in);
    break;
  case KIR_FLOOR: case KIR_CEIL: case KIR_TRUNC: case KIR_RINT:
    ptx_line(p, "cvt.%s.%s.%s %s, %s", rounding[op], ptx_type(d), ptx_type(d), dst, in[0]);
    break;
  case KIR_AND: case KIR_OR: case KIR_XOR: case KIR_NOT: logic(p, op, d, dst, in); break;
  case KIR_SCALE: scale(p, d, dst, in); break;
  case KIR_SHL: case KIR_SHR: shift(p, op, d, dst, in); break;
  case KIR_NEG: case KIR_ABS: sign_bit(p, op, d, dst, in[0]); break;
  case KIR_SELECT: select(p, d, dst, in); break;
  case KIR_IDIV: case KIR_IREM: divide(p, op, d, dst, in); break;
  default:
    if (op < sizeof names / sizeof *names && (names[op].on_floats || names[op].on_integers)) plain(p, op, d, dst, in);
    else ptx_refuse(p, "an instruction it does not know");
  }
}

/* ---- Casts ------------------------------------------------------------------------------------------------------------- */

/* src rounded towards zero to f32, its last bit set if anything was lost: rounding that further is rounding once. */
static const char *to_odd(struct printer *p, weft_dtype from, const char *src) {
  const char *near = ptx_own(p, OWN_WORD), *odd = ptx_own(p, OWN_WORD), *back = ptx_own(p, OWN_LONG);
  const char *is_inexact = ptx_own(p, OWN_PRED), *t = ptx_type(from);
  ptx_line(p, "cvt.rz.f32.%s %s, %s", t, near, src);
  if (from == WEFT_F64) ptx_line(p, "cvt.f64.f32 %s, %s", back, near);
  else ptx_line(p, "cvt.rzi.%s.f32 %s, %s", t, back, near);
  ptx_line(p, "setp.ne.%s %s, %s, %s", t, is_inexact, back, src);
  ptx_line(p, "or.b32 %s, %s, 1", odd, near);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", odd, odd, near, is_inexact);
  return odd;
}

static const char *widened(struct printer *p, weft_dtype from, const char *src) {
  const char *wide = ptx_own(p, OWN_LONG);
  ptx_line(p, "cvt.%s64.%s %s, %s", from == WEFT_I32 ? "s" : "u", ptx_type(from), wide, src);
  return wide;
}

static const char *bool_as_word(struct printer *p, const char *src) {
  const char *w = ptx_own(p, OWN_WORD);
  ptx_line(p, "selp.b32 %s, 1, 0, %s", w, src);
  return w;
}

/* The pattern of a NaN becomes quiet if it has none of the payload bits. */
static void quiet_if_empty(struct printer *p, const char *pattern, unsigned payload, unsigned quiet) {
  const char *rest = ptx_own(p, OWN_WORD), *is_empty = ptx_own(p, OWN_PRED);
  ptx_line(p, "and.b32 %s, %s, 0x%x", rest, pattern, payload);
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_empty, rest);
  ptx_line(p, "@%s or.b32 %s, %s, 0x%x", is_empty, pattern, pattern, quiet);
}

/* The upper half of a word is a bf16, and with zeros behind it the f32 of the same value. Of a NaN the machine would forget sign
 * and payload. */
void ptx_to_bf16(struct printer *p, weft_dtype from, const char *dst, const char *src, bool is_made) {
  const char *u = src;
  if (from == WEFT_BOOL) { src = bool_as_word(p, src); from = WEFT_U32; }
  if (from == WEFT_I32 || from == WEFT_U32) { src = widened(p, from, src); from = from == WEFT_I32 ? WEFT_I64 : WEFT_U64; }
  if (from != WEFT_F32) u = to_odd(p, from, src), is_made = true;
  const char *r = ptx_own(p, OWN_WORD), *nan = ptx_own(p, OWN_WORD), *is_nan = ptx_own(p, OWN_PRED);
  ptx_line(p, "cvt.rn.bf16x2.f32 %s, %s, 0f00000000", r, u);
  if (is_made) { ptx_line(p, "mov.b32 %s, %s", dst, r); return; }
  ptx_line(p, "and.b32 %s, %s, 0xffff0000", nan, u);
  quiet_if_empty(p, nan, 0x7f0000, 0x400000);
  ptx_line(p, "setp.nan.f32 %s, %s, %s", is_nan, u, u);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", dst, nan, r, is_nan);
}

/* r = the f16 of the f32 u where that is a NaN: the machine would forget sign and payload. */
static void nan_to_f16(struct printer *p, const char *r, const char *u) {
  const char *w = ptx_own(p, OWN_WORD), *sign = ptx_own(p, OWN_WORD), *nan = ptx_own(p, OWN_HALF), *is_nan = ptx_own(p, OWN_PRED);
  ptx_line(p, "shr.b32 %s, %s, 13", w, u);
  ptx_line(p, "and.b32 %s, %s, 0x7fff", w, w);
  quiet_if_empty(p, w, 0x3ff, 0x200);
  ptx_line(p, "shr.b32 %s, %s, 16", sign, u);
  ptx_line(p, "and.b32 %s, %s, 0x8000", sign, sign);
  ptx_line(p, "or.b32 %s, %s, %s", w, w, sign);
  ptx_line(p, "cvt.u16.u32 %s, %s", nan, w);
  ptx_line(p, "setp.nan.f32 %s, %s, %s", is_nan, u, u);
  ptx_line(p, "selp.b16 %s, %s, %s, %s", r, nan, r, is_nan);
}

const char *ptx_to_f16(struct printer *p, weft_dtype from, const char *src, bool is_made) {
  const char *r = ptx_own(p, OWN_HALF);
  if (from == WEFT_BOOL) { src = bool_as_word(p, src); from = WEFT_U32; }
  ptx_line(p, "cvt.rn.f16.%s %s, %s", ptx_type(from), r, src);
  if (from == WEFT_F32 && !is_made) nan_to_f16(p, r, src);
  return r;
}

/* Of a NaN the pattern is shifted into place: its exponent has ones to fill the wider one with. */
void ptx_from_f16(struct printer *p, const char *dst, const char *src, bool is_made) {
  const char *nan = ptx_own(p, OWN_WORD), *is_nan = ptx_own(p, OWN_PRED);
  if (is_made) { ptx_line(p, "cvt.f32.f16 %s, %s", dst, src); return; }
  ptx_line(p, "cvt.s32.s16 %s, %s", nan, src);
  ptx_line(p, "shl.b32 %s, %s, 13", nan, nan);
  ptx_line(p, "or.b32 %s, %s, 0x70000000", nan, nan);
  ptx_line(p, "cvt.f32.f16 %s, %s", dst, src);
  ptx_line(p, "setp.nan.f32 %s, %s, %s", is_nan, dst, dst);
  ptx_line(p, "selp.b32 %s, %s, %s, %s", dst, nan, dst, is_nan);
}

static void cast_to_f16(struct printer *p, weft_dtype from, const char *dst, const char *src, bool is_made) {
  ptx_from_f16(p, dst, ptx_to_f16(p, from, src, is_made), is_made || from != WEFT_F32);
}

static void cast_to_bool(struct printer *p, weft_dtype from, const char *dst, const char *src) {
  if (from == WEFT_BOOL) ptx_mov(p, from, dst, src);
  else ptx_line(p, "setp.%s.%s %s, %s, %s", kir_is_float(from) ? "neu" : "ne", ptx_type(from), dst, src,
                from == WEFT_F32 ? "0f00000000" : from == WEFT_F64 ? "0d0000000000000000" : "0");
}

static void cast_from_bool(struct printer *p, weft_dtype to, const char *dst, const char *src) {
  const char *yes = ptx_number(p, to, one(to)), *no = ptx_number(p, to, 0);
  ptx_line(p, "selp.%s %s, %s, %s, %s", ptx_type(to), dst, yes, no, src);
}

/* The range of a narrow integer, whose register is s32. */
static const struct { int32_t low, high; } narrow[] = {
  [WEFT_U8] = { 0, UINT8_MAX }, [WEFT_I8] = { INT8_MIN, INT8_MAX },
  [WEFT_U16] = { 0, UINT16_MAX }, [WEFT_I16] = { INT16_MIN, INT16_MAX },
};

/* Saturates; NaN becomes 0. */
static void float_to_integer(struct printer *p, weft_dtype from, weft_dtype to, const char *dst, const char *src) {
  weft_dtype reg = kir_register_of(to);
  const char *is_number = ptx_own(p, OWN_PRED), *r = ptx_own_of(p, reg);
  ptx_line(p, "setp.num.%s %s, %s, %s", ptx_type(from), is_number, src, src);
  ptx_line(p, "cvt.rzi.%s.%s %s, %s", ptx_type(reg), ptx_type(from), r, src);
  if (reg != to) {
    ptx_line(p, "max.s32 %s, %s, %d", r, r, narrow[to].low);
    ptx_line(p, "min.s32 %s, %s, %d", r, r, narrow[to].high);
  }
  ptx_line(p, "selp.%s %s, %s, 0, %s", ptx_bits(reg), dst, r, is_number);
}

static void integer_to_integer(struct printer *p, weft_dtype from, weft_dtype to, const char *dst, const char *src) {
  weft_dtype reg = kir_register_of(to);
  if (kir_width(reg) == kir_width(from)) ptx_line(p, "mov.%s %s, %s", ptx_bits(reg), dst, src);
  else ptx_line(p, "cvt.%s.%s %s, %s", ptx_type(reg), ptx_type(from), dst, src);
  if (reg == to) return;
  if (narrow[to].low == 0) { ptx_line(p, "and.b32 %s, %s, %d", dst, dst, narrow[to].high); return; }
  ptx_line(p, "shl.b32 %s, %s, %d", dst, dst, to == WEFT_I8 ? 24 : 16);
  ptx_line(p, "shr.s32 %s, %s, %d", dst, dst, to == WEFT_I8 ? 24 : 16);
}

static void to_float(struct printer *p, weft_dtype from, weft_dtype to, const char *dst, const char *src) {
  if (from == to) ptx_mov(p, to, dst, src);
  else ptx_line(p, "cvt%s.%s.%s %s, %s", from == WEFT_F32 ? "" : ".rn", ptx_type(to), ptx_type(from), dst, src);
}

void ptx_cast(struct printer *p, weft_dtype from, weft_dtype to, const char *dst, const char *src, bool is_made) {
  if (to == WEFT_BOOL) cast_to_bool(p, from, dst, src);
  else if (to == WEFT_BF16) ptx_to_bf16(p, from, dst, src, is_made);
  else if (to == WEFT_F16) cast_to_f16(p, from, dst, src, is_made);
  else if (from == WEFT_BOOL) cast_from_bool(p, kir_register_of(to), dst, src);
  else if (kir_is_float(to)) to_float(p, from, to, dst, src);
  else if (kir_is_float(from)) float_to_integer(p, from, to, dst, src);
  else integer_to_integer(p, from, to, dst, src);
}
