/* dtype.c -- element types: their names and widths, promotion, and numbers as bit patterns. */
#include "graph/dtype.h"
#include <string.h>

static const struct { const char *name; uint8_t bytes; } rows[] = {
  [WEFT_BOOL] = { "bool", 1 }, [WEFT_U8] = { "u8", 1 },   [WEFT_U16] = { "u16", 2 },   [WEFT_U32] = { "u32", 4 },
  [WEFT_U64] = { "u64", 8 },   [WEFT_I8] = { "i8", 1 },   [WEFT_I16] = { "i16", 2 },   [WEFT_I32] = { "i32", 4 },
  [WEFT_I64] = { "i64", 8 },   [WEFT_F16] = { "f16", 2 }, [WEFT_F32] = { "f32", 4 },   [WEFT_F64] = { "f64", 8 },
  [WEFT_BF16] = { "bf16", 2 }, [WEFT_E4M3] = { "e4m3", 1 }, [WEFT_E5M2] = { "e5m2", 1 },
  [WEFT_C64] = { "c64", 8 }, [WEFT_C128] = { "c128", 16 },
};

size_t weft_dtype_bytes(weft_dtype d) { return dtype_is_valid(d) ? rows[d].bytes : 0; }
const char *weft_dtype_name(weft_dtype d) { return dtype_is_valid(d) ? rows[d].name : "no dtype"; }

static weft_dtype wider(weft_dtype a, weft_dtype b) { return rows[a].bytes >= rows[b].bytes ? a : b; }

/* A signed type that holds both, as far as there is one: u64 meets signed in f32. */
static weft_dtype mixed_integers(weft_dtype is_signed, weft_dtype is_unsigned) {
  static const weft_dtype holds[] = { [1] = WEFT_I16, [2] = WEFT_I32, [4] = WEFT_I64, [8] = WEFT_F32 };
  weft_dtype h = holds[rows[is_unsigned].bytes];
  return h == WEFT_F32 ? h : wider(is_signed, h);
}

/* f16 and bf16 hold every number of 8 bits; of the others none holds the other, up to f32. */
static weft_dtype floats(weft_dtype a, weft_dtype b) {
  if (dtype_is_f8(a) != dtype_is_f8(b)) return dtype_is_f8(a) ? b : a;
  return a == b ? a : a == WEFT_F64 || b == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/* Classes in which a higher one wins: bool, integer, float, complex. */
static int rank_of(weft_dtype d) { return dtype_is_complex(d) ? 3 : dtype_is_float(d) ? 2 : d != WEFT_BOOL; }

weft_dtype weft_dtype_promote(weft_dtype a, weft_dtype b) {
  if (!dtype_is_valid(a) || !dtype_is_valid(b)) return WEFT_BOOL;
  int ra = rank_of(a), rb = rank_of(b);
  if (ra == 3 || rb == 3) return wider(dtype_complex(a), dtype_complex(b)); /* f64 with c64 is c128: nothing is lost */
  if (ra != rb) return ra > rb ? a : b;
  if (ra == 2) return floats(a, b);
  if (ra == 1 && dtype_is_signed(a) != dtype_is_signed(b))
    return dtype_is_signed(a) ? mixed_integers(a, b) : mixed_integers(b, a);
  return wider(a, b);
}

static int64_t lowest(weft_dtype d) { return dtype_is_signed(d) ? INT64_MIN >> (64 - 8 * rows[d].bytes) : 0; }
static uint64_t highest(weft_dtype d) { return UINT64_MAX >> (64 - 8 * rows[d].bytes + dtype_is_signed(d)); }
static uint64_t low_bits(weft_dtype d) { return UINT64_MAX >> (64 - 8 * rows[d].bytes); }

bool dtype_fits(weft_dtype d, int64_t x) { return x < 0 ? x >= lowest(d) : (uint64_t)x <= highest(d); }

static uint64_t bits_of(double x) { uint64_t b; memcpy(&b, &x, 8); return b; }
static double double_of(uint64_t b) { double x; memcpy(&x, &b, 8); return x; }

struct float_format { int exponent_bits, mantissa_bits; bool has_no_infinity; }; /* all bits set: nan; all else: numbers */
static struct float_format format_of(weft_dtype d) {
  static const struct float_format formats[] = { [WEFT_F16] = { 5, 10 }, [WEFT_F32] = { 8, 23 }, [WEFT_BF16] = { 8, 7 },
                                                 [WEFT_E4M3] = { 4, 3, true }, [WEFT_E5M2] = { 5, 2 } };
  return formats[d];
}

/* The upper bits of m, `drop` bits fewer, to nearest even. A carry out of the mantissa counts the exponent up. */
static uint64_t rounded(uint64_t m, int drop) {
  if (drop > 62) return 0;
  uint64_t half = (uint64_t)1 << (drop - 1), rest = m & (2 * half - 1), kept = m >> drop;
  return kept + (rest > half || (rest == half && (kept & 1)));
}

static uint64_t encode_narrow(struct float_format f, double x) {
  uint64_t b = bits_of(x), sign = b >> 63 << (f.exponent_bits + f.mantissa_bits), m = b & (((uint64_t)1 << 52) - 1);
  uint64_t top = ((uint64_t)1 << f.exponent_bits) - 1, infinity = top << f.mantissa_bits;
  uint64_t beyond = f.has_no_infinity ? infinity | (infinity - 1) : infinity;
  int e = (int)(b >> 52 & 2047), drop = 52 - f.mantissa_bits, bias = (int)(top >> 1), to = e - 1023 + bias;
  if (e == 2047 && m && !f.has_no_infinity) return sign | infinity | (m >> drop ? m >> drop : (uint64_t)1 << (f.mantissa_bits - 1));
  if (e == 2047 || to > (int)top) return sign | beyond;
  if (e == 0) return sign;
  uint64_t code = to <= 0 ? rounded(m | (uint64_t)1 << 52, drop + 1 - to) : rounded((uint64_t)to << 52 | m, drop);
  return sign | (code < beyond ? code : beyond);
}

static uint64_t encode_saturated(weft_dtype d, double x) {
  if (x != x) return 0;
  if (x <= (double)lowest(d)) return (uint64_t)lowest(d) & low_bits(d);
  if (x >= (double)highest(d)) return highest(d);
  return (x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x) & low_bits(d);
}

uint64_t dtype_encode(weft_dtype d, double x) {
  if (d == WEFT_BOOL) return x != 0;
  if (dtype_is_integer(d)) return encode_saturated(d, x);
  return d == WEFT_F64 ? bits_of(x) : encode_narrow(format_of(d), x);
}

/* Through a double rounded to odd: its 53 bits and the sticky last one round once more to any narrower float. */
static double to_odd(int64_t x) {
  uint64_t m = x < 0 ? -(uint64_t)x : (uint64_t)x;
  if (m >> 53) m = (m & ~(uint64_t)2047) | ((m & 2047) != 0) << 11;
  return x < 0 ? -(double)m : (double)m;
}

uint64_t dtype_encode_integer(weft_dtype d, int64_t x) {
  if (d == WEFT_BOOL) return x != 0;
  if (dtype_is_integer(d)) return (uint64_t)x & low_bits(d);
  return dtype_encode(d, d == WEFT_F64 ? (double)x : to_odd(x));
}

static double decode_narrow(struct float_format f, uint64_t b) {
  uint64_t top = ((uint64_t)1 << f.exponent_bits) - 1, e = b >> f.mantissa_bits & top;
  uint64_t m = b & (((uint64_t)1 << f.mantissa_bits) - 1), sign = b >> (f.exponent_bits + f.mantissa_bits) << 63;
  int bias = (int)(top >> 1);
  if (f.has_no_infinity && e == top && m == ((uint64_t)1 << f.mantissa_bits) - 1) return double_of(sign | (uint64_t)0xfff << 51);
  if (e == top && !f.has_no_infinity) return double_of(sign | (uint64_t)2047 << 52 | m << (52 - f.mantissa_bits));
  if (e) return double_of(sign | (e + 1023 - (uint64_t)bias) << 52 | m << (52 - f.mantissa_bits));
  double unit = double_of((uint64_t)(1023 + 1 - bias - f.mantissa_bits) << 52);
  return sign ? -((double)m * unit) : (double)m * unit;
}

double dtype_decode(weft_dtype d, uint64_t b) {
  if (d == WEFT_BOOL) return b != 0;
  if (dtype_is_signed(d)) return (double)((int64_t)(b << (64 - 8 * rows[d].bytes)) >> (64 - 8 * rows[d].bytes));
  if (dtype_is_integer(d)) return (double)b;
  return d == WEFT_F64 ? double_of(b) : decode_narrow(format_of(d), b);
}

uint64_t dtype_widen(weft_dtype t, uint64_t b) {
  switch (t) {
    case WEFT_BF16: return (b & 0xffff) << 16;
    case WEFT_I8: return (uint32_t)(int32_t)(int8_t)b;
    case WEFT_I16: return (uint32_t)(int32_t)(int16_t)b;
    case WEFT_U8: return (uint8_t)b;
    case WEFT_U16: return (uint16_t)b;
    case WEFT_F16: return dtype_encode(WEFT_F32, dtype_decode(WEFT_F16, b & 0xffff));
    case WEFT_E4M3: case WEFT_E5M2: return dtype_encode(WEFT_F32, dtype_decode(t, b & 0xff));
    default: return b;
  }
}
