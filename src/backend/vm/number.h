/* number.h -- what one value of each instruction is, to the bit: conversions, saturation, min and max, fma.
 *
 * Included by the tile loops after they have chosen an instruction set, so everything is inline and free of branches
 * where a loop over it should become vector code. Nothing here depends on the instruction set: where the machine has no
 * fused multiply-add, an exact one is computed from integers. */
#ifndef WEFT_VM_NUMBER_H
#define WEFT_VM_NUMBER_H
#include <stdint.h>
#include <string.h>

/* Register dtypes as they lie in tiles. may_alias: a tile is read as another dtype by `bits`. */
typedef uint8_t num_bool;
typedef int32_t num_i32 __attribute__((may_alias));
typedef uint32_t num_u32 __attribute__((may_alias));
typedef int64_t num_i64 __attribute__((may_alias));
typedef uint64_t num_u64 __attribute__((may_alias));
typedef float num_f32 __attribute__((may_alias));
typedef double num_f64 __attribute__((may_alias));
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 num_i128;
__extension__ typedef unsigned __int128 num_u128;
#endif

static inline uint32_t num_f32_bits(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
static inline uint64_t num_f64_bits(double x) { uint64_t u; memcpy(&u, &x, sizeof u); return u; }
static inline float num_bits_f32(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }
static inline double num_bits_f64(uint64_t u) { double x; memcpy(&x, &u, sizeof x); return x; }

/* IEEE 754-2019 minimum and maximum: NaN wins, -0 < +0. Equal numbers differ at most in the sign of zero, so the bits
 * of the two combine by or (min) and and (max). */
#define NUM_MIN_MAX(F, T, U)                                                                        \
  static inline T num_min_##F(T a, T b) {                                                           \
    T r = b < a ? b : a, equal = num_bits_##F((U)(num_##F##_bits(a) | num_##F##_bits(b)));          \
    r = a == b ? equal : r;                                                                         \
    return ((a != a) | (b != b)) ? a + b : r;                                                         \
  }                                                                                                 \
  static inline T num_max_##F(T a, T b) {                                                           \
    T r = a < b ? b : a, equal = num_bits_##F((U)(num_##F##_bits(a) & num_##F##_bits(b)));          \
    r = a == b ? equal : r;                                                                         \
    return ((a != a) | (b != b)) ? a + b : r;                                                         \
  }
NUM_MIN_MAX(f32, float, uint32_t)
NUM_MIN_MAX(f64, double, uint64_t)

/* Rounding to integers through the addition that shifts the fraction out: needs round-to-nearest, which run() sets. */
#define NUM_ROUND(F, T, U, SIGN, BIG)                                                               \
  static inline T num_sign_##F(T magnitude, T sign) {                                               \
    return num_bits_##F((num_##F##_bits(magnitude) & ~(U)SIGN) | (num_##F##_bits(sign) & (U)SIGN)); \
  }                                                                                                 \
  static inline T num_abs_##F(T a) { return num_bits_##F(num_##F##_bits(a) & ~(U)SIGN); }           \
  static inline T num_neg_##F(T a) { return num_bits_##F(num_##F##_bits(a) ^ (U)SIGN); }            \
  static inline T num_rint_##F(T a) {                                                               \
    T m = num_abs_##F(a), r = (m + BIG) - BIG;                                                      \
    return m < BIG ? num_sign_##F(r, a) : a;                                                        \
  }                                                                                                 \
  static inline T num_floor_##F(T a) { T r = num_rint_##F(a), d = r - 1; return num_sign_##F(r > a ? d : r, a); } \
  static inline T num_ceil_##F(T a) { T r = num_rint_##F(a), u = r + 1; return num_sign_##F(r < a ? u : r, a); }  \
  static inline T num_trunc_##F(T a) {                                                              \
    T m = num_abs_##F(a), r = num_rint_##F(m), d = r - 1;                                           \
    return num_sign_##F(r > m ? d : r, a);                                                          \
  }
NUM_ROUND(f32, float, uint32_t, 0x80000000u, 8388608.0f)
NUM_ROUND(f64, double, uint64_t, 0x8000000000000000u, 4503599627370496.0)

/* The low bits of t hold n + 2 bias: their halves are the exponents of two numbers whose product is 2^n. */
#define NUM_SCALE(F, T, U, FRACTION)                                                                \
  static inline T num_scale_##F(T a, T t) {                                                         \
    U n = num_##F##_bits(t), half = n >> 1;                                                         \
    return a * num_bits_##F(half << FRACTION) * num_bits_##F((n - half) << FRACTION);               \
  }
NUM_SCALE(f32, float, uint32_t, 23)
NUM_SCALE(f64, double, uint64_t, 52)

/* fma without the instruction. f32: the product is exact in f64; the sum is rounded to odd, so that the rounding to f32
 * is the only one that counts. */
static inline float num_soft_fma_f32(float a, float b, float c) {
  double p = (double)a * (double)b, z = c, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
  uint64_t u = num_f64_bits(s);
  int is_finite = (u & 0x7ff0000000000000u) != 0x7ff0000000000000u, inexact = (e < 0) | (e > 0);
  uint64_t odd = (e > 0) == (s > 0) ? u + 1 : u - 1;
  return (float)num_bits_f64((is_finite & inexact & !(u & 1)) ? odd : u);
}

#ifdef __SIZEOF_INT128__
struct num_parts { uint64_t m; int e; int sign; }; /* m * 2^e, m in [2^52, 2^53), of a finite number that is not 0 */
static inline struct num_parts num_split(double x) {
  uint64_t u = num_f64_bits(x);
  int e = (int)(u >> 52 & 0x7ff);
  struct num_parts r = {u & 0xfffffffffffffu, e ? e - 1075 : -1074, (int)(u >> 63)};
  if (e) r.m |= 1ull << 52;
  int up = __builtin_clzll(r.m) - 11;
  r.m <<= up, r.e -= up;
  return r;
}

static inline double num_two_to(int e) { return num_bits_f64((uint64_t)(e + 1023) << 52); } /* -1022 <= e <= 1023 */

/* x y + z from 128-bit integers, rounded once. The smaller term is shifted right with its lost bits or-ed into the last
 * one: that one lies far below the bit that rounds. */
static inline double num_soft_fma_f64(double x, double y, double z) {
  uint64_t special = 0x7ff0000000000000u;
  if ((num_f64_bits(x) & special) == special || (num_f64_bits(y) & special) == special || x == 0 || y == 0) return x * y + z;
  if ((num_f64_bits(z) & special) == special) return z;
  struct num_parts a = num_split(x), b = num_split(y), c = {0, -100000, 0};
  if (z != 0) c = num_split(z);
  num_u128 p = (num_u128)a.m * b.m << 19, q = (num_u128)c.m << 72;
  int ep = a.e + b.e - 19, eq = c.e - 72, minus = (a.sign ^ b.sign) != c.sign, sign = a.sign ^ b.sign, e = ep;
  num_u128 *small = ep >= eq ? &q : &p;
  int d = ep >= eq ? ep - eq : eq - ep;
  if (eq > ep) e = eq;
  if (d > 126) *small = *small != 0;
  else if (d) *small = *small >> d | ((*small << (128 - d)) != 0);
  num_u128 s = minus ? (p >= q ? p - q : q - p) : p + q;
  if (minus && q > p) sign = c.sign;
  if (!s) return 0.0;
  int top = 127 - (s >> 64 ? __builtin_clzll((uint64_t)(s >> 64)) : 64 + __builtin_clzll((uint64_t)s));
  int lowest = e + top - 52 < -1074 ? -1074 : e + top - 52, drop = lowest - e;
  if (drop > 127) drop = 127, s = 1;
  uint64_t k = drop > 0 ? (uint64_t)(s >> drop) : (uint64_t)s << -drop;
  if (drop > 0) {
    num_u128 rest = s & (((num_u128)1 << drop) - 1), half = (num_u128)1 << (drop - 1);
    k += rest > half || (rest == half && (k & 1));
  }
  double r = (double)k * num_two_to(lowest / 2) * num_two_to(lowest - lowest / 2);
  return sign ? -r : r;
}
#else
static inline double num_soft_fma_f64(double x, double y, double z) { return __builtin_fma(x, y, z); } /* libm's is exact */
#endif

#if defined(NUM_HAS_FMA) || defined(__FMA__) || defined(__aarch64__)
static inline float num_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double num_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static inline float num_fma_f32(float a, float b, float c) { return num_soft_fma_f32(a, b, c); }
static inline double num_fma_f64(double a, double b, double c) { return num_soft_fma_f64(a, b, c); }
#endif

/* ---- Half precision. NaN keeps as much of its payload as there is room for. ------------------------------------------ */

static inline float num_from_bf16(uint16_t h) { return num_bits_f32((uint32_t)h << 16); }
static inline uint16_t num_to_bf16(float x) {
  uint32_t u = num_f32_bits(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16;
  nan |= (uint32_t)((nan & 0x7f) == 0) << 6;
  return (uint16_t)(x != x ? nan : r);
}
static inline float num_from_f16(uint16_t h) {
  uint32_t u = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t r = num_f32_bits(num_bits_f32(u) * 0x1p112f); /* the exponent's bias, denormals included */
  r = (h & 0x7c00) == 0x7c00 ? u | 0x7f800000u : r;
  return num_bits_f32(r | sign);
}
static inline uint16_t num_to_f16(float x) {
  uint32_t u = num_f32_bits(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  uint32_t normal = (m + 0xfff + (m >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t small = num_f32_bits(num_bits_f32(m) + 0.5f) - 0x3f000000u; /* 0.5 has the ulp of f16's denormals, 2^-24 */
  uint32_t nan = 0x7c00 | (m >> 13 & 0x3ff);
  nan |= (uint32_t)((nan & 0x3ff) == 0) << 9;
  uint32_t r = m < 0x38800000u ? small : normal;
  r = m >= 0x477ff000u ? 0x7c00 : r;
  r = m > 0x7f800000u ? nan : r;
  return (uint16_t)(r | sign);
}

/* To f32, rounded to odd: a later rounding to a half type is then the only one. */
static inline float num_odd_from_f64(double x) {
  float s = (float)x;
  double back = s;
  uint32_t u = num_f32_bits(s), odd = num_abs_f64(back) > num_abs_f64(x) ? u - 1 : u + 1;
  return num_bits_f32(((x == x) & (back != x) & !(u & 1)) ? odd : u);
}
static inline double num_odd_from_u64(uint64_t x) {
  return x >> 53 ? (double)(x >> 11 | ((x & 2047) != 0)) * 2048.0 : (double)x;
}
static inline double num_odd_from_i64(int64_t x) {
  uint64_t m = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  double r = num_odd_from_u64(m);
  return x < 0 ? -r : r;
}

/* ---- Casts: num_<from>_to_<memory dtype>, a value of the register dtype that holds the target. ----------------------- */

/* Float to integer: clamp to what converts exactly, NaN -> 0; from `top` on the largest integer. */
#define NUM_SATURATE(F, T, name, R, I, lo, hi, top, max)                                            \
  static inline R num_##F##_to_##name(T x) {                                                        \
    T y = x < (T)lo ? (T)lo : x;                                                                    \
    y = y > (T)hi ? (T)hi : y;                                                                      \
    y = x == x ? y : 0;                                                                             \
    R r = (R)(I)y;                                                                                  \
    return x >= (T)top ? (R)max : r;                                                                \
  }
NUM_SATURATE(f32, float, u8, int32_t, int32_t, 0, 255, 255, 255)
NUM_SATURATE(f32, float, i8, int32_t, int32_t, -128, 127, 127, 127)
NUM_SATURATE(f32, float, u16, int32_t, int32_t, 0, 65535, 65535, 65535)
NUM_SATURATE(f32, float, i16, int32_t, int32_t, -32768, 32767, 32767, 32767)
NUM_SATURATE(f32, float, i32, int32_t, int32_t, -0x1p31, 2147483520.0, 0x1p31, INT32_MAX)
NUM_SATURATE(f32, float, u32, uint32_t, int64_t, 0, 4294967040.0, 0x1p32, UINT32_MAX)
NUM_SATURATE(f32, float, i64, int64_t, int64_t, -0x1p63, 9223371487098961920.0, 0x1p63, INT64_MAX)
NUM_SATURATE(f32, float, u64, uint64_t, uint64_t, 0, 18446742974197923840.0, 0x1p64, UINT64_MAX)
NUM_SATURATE(f64, double, u8, int32_t, int32_t, 0, 255, 255, 255)
NUM_SATURATE(f64, double, i8, int32_t, int32_t, -128, 127, 127, 127)
NUM_SATURATE(f64, double, u16, int32_t, int32_t, 0, 65535, 65535, 65535)
NUM_SATURATE(f64, double, i16, int32_t, int32_t, -32768, 32767, 32767, 32767)
NUM_SATURATE(f64, double, i32, int32_t, int32_t, -0x1p31, 2147483647.0, 0x1p31, INT32_MAX)
NUM_SATURATE(f64, double, u32, uint32_t, int64_t, 0, 4294967295.0, 0x1p32, UINT32_MAX)
NUM_SATURATE(f64, double, i64, int64_t, int64_t, -0x1p63, 9223372036854774784.0, 0x1p63, INT64_MAX)
NUM_SATURATE(f64, double, u64, uint64_t, uint64_t, 0, 18446744073709549568.0, 0x1p64, UINT64_MAX)

static inline float num_f32_to_f32(float x) { return x; }
static inline double num_f32_to_f64(float x) { return x; }
static inline float num_f64_to_f32(double x) { return (float)x; }
static inline double num_f64_to_f64(double x) { return x; }
static inline num_bool num_f32_to_b8(float x) { return x != 0; }
static inline num_bool num_f64_to_b8(double x) { return x != 0; }
static inline float num_f32_to_bf16(float x) { return num_from_bf16(num_to_bf16(x)); }
static inline float num_f32_to_f16(float x) { return num_from_f16(num_to_f16(x)); }
static inline float num_f64_to_bf16(double x) { return num_from_bf16(num_to_bf16(num_odd_from_f64(x))); }
static inline float num_f64_to_f16(double x) { return num_from_f16(num_to_f16(num_odd_from_f64(x))); }

/* Integers wrap; to a float they round once. */
#define NUM_INTEGER(I, T, odd)                                                                      \
  static inline num_bool num_##I##_to_b8(T x) { return x != 0; }                                  \
  static inline int32_t num_##I##_to_u8(T x) { return (uint8_t)x; }                                 \
  static inline int32_t num_##I##_to_i8(T x) { return (int8_t)x; }                                  \
  static inline int32_t num_##I##_to_u16(T x) { return (uint16_t)x; }                               \
  static inline int32_t num_##I##_to_i16(T x) { return (int16_t)x; }                                \
  static inline int32_t num_##I##_to_i32(T x) { return (int32_t)x; }                                \
  static inline uint32_t num_##I##_to_u32(T x) { return (uint32_t)x; }                              \
  static inline int64_t num_##I##_to_i64(T x) { return (int64_t)x; }                                \
  static inline uint64_t num_##I##_to_u64(T x) { return (uint64_t)x; }                              \
  static inline float num_##I##_to_f32(T x) { return (float)x; }                                    \
  static inline double num_##I##_to_f64(T x) { return (double)x; }                                  \
  static inline float num_##I##_to_bf16(T x) { return num_f64_to_bf16(odd(x)); }                    \
  static inline float num_##I##_to_f16(T x) { return num_f64_to_f16(odd(x)); }
NUM_INTEGER(b8, num_bool, (double))
NUM_INTEGER(i32, int32_t, (double))
NUM_INTEGER(u32, uint32_t, (double))
NUM_INTEGER(i64, int64_t, num_odd_from_i64)
NUM_INTEGER(u64, uint64_t, num_odd_from_u64)

/* ---- Integers -------------------------------------------------------------------------------------------------------- */

static inline int32_t num_mulhi_i32(int32_t a, int32_t b) { return (int32_t)((int64_t)a * b >> 32); }
static inline uint32_t num_mulhi_u32(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
#ifdef __SIZEOF_INT128__
static inline uint64_t num_mulhi_u64(uint64_t a, uint64_t b) { return (uint64_t)((num_u128)a * b >> 64); }
#else
static inline uint64_t num_mulhi_u64(uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32, middle = ah * bl + (al * bl >> 32);
  return ah * bh + (middle >> 32) + ((al * bh + (uint32_t)middle) >> 32);
}
#endif
static inline int64_t num_mulhi_i64(int64_t a, int64_t b) { /* a negative operand counts 2^64 too much of the other */
  return (int64_t)(num_mulhi_u64((uint64_t)a, (uint64_t)b) - (a < 0 ? (uint64_t)b : 0) - (b < 0 ? (uint64_t)a : 0));
}

/* x / 0 = 0, x % 0 = x, MIN / -1 = MIN. */
#define NUM_DIVIDE_SIGNED(I, T, U)                                                                  \
  static inline T num_idiv_##I(T a, T b) { return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b; }   \
  static inline T num_irem_##I(T a, T b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
#define NUM_DIVIDE_UNSIGNED(I, T)                                                                   \
  static inline T num_idiv_##I(T a, T b) { return b == 0 ? 0 : a / b; }                             \
  static inline T num_irem_##I(T a, T b) { return b == 0 ? a : a % b; }
NUM_DIVIDE_SIGNED(i32, int32_t, uint32_t)
NUM_DIVIDE_SIGNED(i64, int64_t, uint64_t)
NUM_DIVIDE_UNSIGNED(u32, uint32_t)
NUM_DIVIDE_UNSIGNED(u64, uint64_t)

#endif
