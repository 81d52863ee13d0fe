/* tile_loops.h -- the text of the tile loops; a file that includes it chooses the instruction set and defines
 * TILE_TABLE, the name of the table. Simple loops on purpose: the compiler makes the vector code. */
#include "backend/vm/number.h"
#include "backend/vm/tile.h"

#ifdef __clang__
#define EACH _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; i++)
#else
#define EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif
#define SIGNATURE(name) \
  static void name(void *o_, const void *a_, const void *b_, const void *c_, int64_t n)
#define UNUSED2 (void)b_, (void)c_
#define UNUSED1 (void)c_

/* ---- Instructions: expressions in x, y, z ---------------------------------------------------------------------------- */

#define UNARY(op, d, T, R, e)                                                                         \
  SIGNATURE(op##_##d##_0) { UNUSED2, (void)n; T x = *(const T *)a_; *(R *)o_ = (R)(e); }              \
  SIGNATURE(op##_##d##_1) { UNUSED2; R *o = o_; const T *a = a_; EACH { T x = a[i]; o[i] = (R)(e); } }

#define BINARY(op, d, T, R, e)                                                                        \
  SIGNATURE(op##_##d##_0) { UNUSED1, (void)n; T x = *(const T *)a_, y = *(const T *)b_; *(R *)o_ = (R)(e); } \
  SIGNATURE(op##_##d##_1) { UNUSED1; R *o = o_; const T *a = a_, y = *(const T *)b_; EACH { T x = a[i]; o[i] = (R)(e); } } \
  SIGNATURE(op##_##d##_2) { UNUSED1; R *o = o_; const T *b = b_, x = *(const T *)a_; EACH { T y = b[i]; o[i] = (R)(e); } } \
  SIGNATURE(op##_##d##_3) { UNUSED1; R *o = o_; const T *a = a_, *b = b_; EACH { T x = a[i], y = b[i]; o[i] = (R)(e); } }

#define TERNARY_SHAPE(op, d, s, T, e, ai, bi, ci)                                                     \
  SIGNATURE(op##_##d##_##s) {                                                                         \
    T *o = o_; const T *a = a_, *b = b_, *c = c_, a0 = *a, b0 = *b, c0 = *c;                          \
    (void)a0, (void)b0, (void)c0;                                                                     \
    EACH { T x = ai, y = bi, z = ci; o[i] = (e); }                                                    \
  }
#define TERNARY(op, d, T, e)                                                                          \
  SIGNATURE(op##_##d##_0) { (void)n; T x = *(const T *)a_, y = *(const T *)b_, z = *(const T *)c_; *(T *)o_ = (e); } \
  TERNARY_SHAPE(op, d, 1, T, e, a[i], b0, c0)                                                         \
  TERNARY_SHAPE(op, d, 2, T, e, a0, b[i], c0)                                                         \
  TERNARY_SHAPE(op, d, 3, T, e, a[i], b[i], c0)                                                       \
  TERNARY_SHAPE(op, d, 4, T, e, a0, b0, c[i])                                                         \
  TERNARY_SHAPE(op, d, 5, T, e, a[i], b0, c[i])                                                       \
  TERNARY_SHAPE(op, d, 6, T, e, a0, b[i], c[i])                                                       \
  TERNARY_SHAPE(op, d, 7, T, e, a[i], b[i], c[i])

#define SELECT_SHAPE(d, s, T, bi, ci)                                                                 \
  SIGNATURE(select_##d##_##s) {                                                                       \
    T *o = o_; const num_bool *a = a_; const T *b = b_, *c = c_, b0 = *b, c0 = *c;                    \
    (void)b0, (void)c0;                                                                               \
    EACH { T y = bi, z = ci; o[i] = a[i] ? y : z; }                                                   \
  }
#define SELECT(d, T)                                                                                  \
  SIGNATURE(select_##d##_0) { (void)n; *(T *)o_ = *(const num_bool *)a_ ? *(const T *)b_ : *(const T *)c_; } \
  SELECT_SHAPE(d, 1, T, b0, c0)                                                                       \
  SELECT_SHAPE(d, 3, T, b[i], c0)                                                                     \
  SELECT_SHAPE(d, 5, T, b0, c[i])                                                                     \
  SELECT_SHAPE(d, 7, T, b[i], c[i])

#define FLOATS(F, T)                                                                                  \
  BINARY(add, F, T, T, x + y)                                                                         \
  BINARY(sub, F, T, T, x - y)                                                                         \
  BINARY(mul, F, T, T, x * y)                                                                         \
  BINARY(div, F, T, T, x / y)                                                                         \
  BINARY(scale, F, T, T, num_scale_##F(x, y))                                                         \
  BINARY(min, F, T, T, num_min_##F(x, y))                                                             \
  BINARY(max, F, T, T, num_max_##F(x, y))                                                             \
  TERNARY(fma, F, T, num_fma_##F(x, y, z))                                                            \
  UNARY(neg, F, T, T, num_neg_##F(x))                                                                 \
  UNARY(abs, F, T, T, num_abs_##F(x))                                                                 \
  UNARY(floor, F, T, T, num_floor_##F(x))                                                             \
  UNARY(ceil, F, T, T, num_ceil_##F(x))                                                               \
  UNARY(trunc, F, T, T, num_trunc_##F(x))                                                             \
  UNARY(rint, F, T, T, num_rint_##F(x))                                                               \
  COMPARES(F, T)
#define COMPARES(d, T)                                                                                \
  BINARY(eq, d, T, num_bool, x == y)                                                                  \
  BINARY(ne, d, T, num_bool, x != y)                                                                  \
  BINARY(lt, d, T, num_bool, x < y)                                                                   \
  BINARY(le, d, T, num_bool, x <= y)
#define INTEGERS(I, T, U, bits, sign_fill)                                                            \
  BINARY(add, I, T, T, (U)x + (U)y)                                                                   \
  BINARY(sub, I, T, T, (U)x - (U)y)                                                                   \
  BINARY(mul, I, T, T, (U)x * (U)y)                                                                   \
  BINARY(min, I, T, T, x < y ? x : y)                                                                 \
  BINARY(max, I, T, T, x > y ? x : y)                                                                 \
  BINARY(shl, I, T, T, (U)y < bits ? (U)x << ((U)y & (bits - 1)) : 0)                                 \
  BINARY(shr, I, T, T, (U)y < bits ? x >> ((U)y & (bits - 1)) : (sign_fill))                          \
  BINARY(mulhi, I, T, T, num_mulhi_##I(x, y))                                                         \
  BINARY(idiv, I, T, T, num_idiv_##I(x, y))                                                           \
  BINARY(irem, I, T, T, num_irem_##I(x, y))                                                           \
  LOGIC(I, T)                                                                                         \
  UNARY(not, I, T, T, ~x)                                                                             \
  COMPARES(I, T)
#define LOGIC(d, T)                                                                                   \
  BINARY(and, d, T, T, x & y)                                                                         \
  BINARY(or, d, T, T, x | y)                                                                          \
  BINARY(xor, d, T, T, x ^ y)

FLOATS(f32, num_f32)
FLOATS(f64, num_f64)
UNARY(sqrt, f32, num_f32, num_f32, __builtin_sqrtf(x))
UNARY(sqrt, f64, num_f64, num_f64, __builtin_sqrt(x))
INTEGERS(i32, num_i32, uint32_t, 32, x >> 31)
INTEGERS(u32, num_u32, uint32_t, 32, 0)
INTEGERS(i64, num_i64, uint64_t, 64, x >> 63)
INTEGERS(u64, num_u64, uint64_t, 64, 0)
LOGIC(b8, num_bool)
UNARY(not, b8, num_bool, num_bool, x ^ 1)
SELECT(w1, num_bool)
SELECT(w4, num_u32)
SELECT(w8, num_u64)

/* ---- Casts ----------------------------------------------------------------------------------------------------------- */

#define CASTS_FROM(X, s, T)                                                                           \
  X(s, T, b8, num_bool) X(s, T, u8, num_i32) X(s, T, u16, num_i32) X(s, T, u32, num_u32)            \
  X(s, T, u64, num_u64) X(s, T, i8, num_i32) X(s, T, i16, num_i32) X(s, T, i32, num_i32)              \
  X(s, T, i64, num_i64) X(s, T, f16, num_f32) X(s, T, f32, num_f32) X(s, T, f64, num_f64) X(s, T, bf16, num_f32)
#define CASTS(X)                                                                                      \
  CASTS_FROM(X, b8, num_bool) CASTS_FROM(X, i32, num_i32) CASTS_FROM(X, u32, num_u32)               \
  CASTS_FROM(X, i64, num_i64) CASTS_FROM(X, u64, num_u64) CASTS_FROM(X, f32, num_f32) CASTS_FROM(X, f64, num_f64)
#define CAST(s, T, d, R) UNARY(cast_##s, d, T, R, num_##s##_to_##d(x))
CASTS(CAST)

/* ---- Folds over lanes: 32 accumulators ------------------------------------------------------------------------------- */

#define FOLD(op, d, T, e)                                                                             \
  static void fold_##op##_##d(void *acc_, const void *v_, int64_t first, int64_t n) {                 \
    T *acc = acc_, r[TILE_FOLD];                                                                      \
    const T *v = v_;                                                                                  \
    for (; n && first % TILE_FOLD; n--, first++, v++) {                                               \
      T x = acc[first % TILE_FOLD], y = *v;                                                           \
      acc[first % TILE_FOLD] = (T)(e);                                                                \
    }                                                                                                 \
    if (n >= TILE_FOLD) {                                                                             \
      memcpy(r, acc, sizeof r);                                                                       \
      for (; n >= TILE_FOLD; n -= TILE_FOLD, v += TILE_FOLD)                                          \
        for (int l = 0; l < TILE_FOLD; l++) { T x = r[l], y = v[l]; r[l] = (T)(e); }                  \
      memcpy(acc, r, sizeof r);                                                                       \
    }                                                                                                 \
    for (int64_t i = 0; i < n; i++) { T x = acc[i], y = v[i]; acc[i] = (T)(e); }                      \
  }
#define FOLD_FLOATS(F, T)                                                                             \
  FOLD(add, F, T, x + y) FOLD(mul, F, T, x * y) FOLD(min, F, T, num_min_##F(x, y)) FOLD(max, F, T, num_max_##F(x, y))
#define FOLD_INTEGERS(I, T, U)                                                                        \
  FOLD(add, I, T, (U)x + (U)y) FOLD(mul, I, T, (U)x * (U)y) FOLD(min, I, T, x < y ? x : y)            \
  FOLD(max, I, T, x > y ? x : y) FOLD_LOGIC(I, T)
#define FOLD_LOGIC(d, T) FOLD(and, d, T, x & y) FOLD(or, d, T, x | y) FOLD(xor, d, T, x ^ y)
FOLD_FLOATS(f32, num_f32)
FOLD_FLOATS(f64, num_f64)
FOLD_INTEGERS(i32, num_i32, uint32_t)
FOLD_INTEGERS(u32, num_u32, uint32_t)
FOLD_INTEGERS(i64, num_i64, uint64_t)
FOLD_INTEGERS(u64, num_u64, uint64_t)
FOLD_LOGIC(b8, num_bool)

/* ---- Moves and masks ------------------------------------------------------------------------------------------------- */

#define MOVES(w, T)                                                                                   \
  SIGNATURE(move_##w) { UNUSED2; memmove(o_, a_, (size_t)n * sizeof(T)); }                            \
  SIGNATURE(splat_##w) { UNUSED2; T *o = o_, x = *(const T *)a_; EACH o[i] = x; }                     \
  SIGNATURE(blend_##w) {                                                                              \
    UNUSED1; T *o = o_; const num_bool *a = a_; const T *b = b_;                                      \
    EACH { T y = b[i], z = o[i]; o[i] = a[i] ? y : z; }                                               \
  }
MOVES(1, num_bool)
MOVES(4, num_u32)
MOVES(8, num_u64)
SIGNATURE(but) {
  UNUSED1;
  num_bool *o = o_;
  const num_bool *a = a_, *b = b_;
  EACH o[i] = a[i] & (b[i] ^ 1);
}
SIGNATURE(within) {
  num_bool *o = o_;
  const num_i64 *a = a_, lo = *(const num_i64 *)b_, hi = *(const num_i64 *)c_;
  EACH o[i] = (num_bool)((lo <= a[i]) & (a[i] < hi));
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

#define MEMORY(m, M, R, in, out)                                                                      \
  static void load_##m##_0(void *o_, const char *p, int64_t stride, int64_t n) {                      \
    (void)stride; R *o = o_; const M *a = (const M *)p; EACH { M x = a[i]; o[i] = (R)(in); }          \
  }                                                                                                   \
  static void load_##m##_1(void *o_, const char *p, int64_t stride, int64_t n) {                      \
    R *o = o_; EACH { M x = *(const M *)(p + i * stride); o[i] = (R)(in); }                           \
  }                                                                                                   \
  static void store_##m##_0(char *p, int64_t stride, const void *v_, int64_t n) {                     \
    (void)stride; M *o = (M *)p; const R *v = v_; EACH { R x = v[i]; o[i] = (M)(out); }               \
  }                                                                                                   \
  static void store_##m##_1(char *p, int64_t stride, const void *v_, int64_t n) {                     \
    const R *v = v_; for (int64_t i = 0; i < n; i++) { R x = v[i]; *(M *)(p + i * stride) = (M)(out); } \
  }
typedef int8_t mem_i8 __attribute__((may_alias));
typedef uint16_t mem_u16 __attribute__((may_alias));
typedef int16_t mem_i16 __attribute__((may_alias));
#define MEMS(X)                                                                                       \
  X(b8, num_bool, num_bool, x != 0, x) X(u8, uint8_t, num_i32, x, x) X(i8, mem_i8, num_i32, x, x)   \
  X(u16, mem_u16, num_i32, x, x) X(i16, mem_i16, num_i32, x, x)                                       \
  X(i32, num_u32, num_u32, x, x) X(u32, num_u32, num_u32, x, x) X(f32, num_u32, num_u32, x, x)        \
  X(i64, num_u64, num_u64, x, x) X(u64, num_u64, num_u64, x, x) X(f64, num_u64, num_u64, x, x)        \
  X(f16, mem_u16, num_f32, num_from_f16(x), num_to_f16(x)) X(bf16, mem_u16, num_f32, num_from_bf16(x), num_to_bf16(x))
MEMS(MEMORY)

/* ---- The table ------------------------------------------------------------------------------------------------------- */

#define ROW1(OP, op, D, d) [KIR_##OP][TILE_##D] = {op##_##d##_0, op##_##d##_1},
#define ROW2(OP, op, D, d) [KIR_##OP][TILE_##D] = {op##_##d##_0, op##_##d##_1, op##_##d##_2, op##_##d##_3},
#define ROW3(OP, op, D, d)                                                                            \
  [KIR_##OP][TILE_##D] = {op##_##d##_0, op##_##d##_1, op##_##d##_2, op##_##d##_3,                     \
                          op##_##d##_4, op##_##d##_5, op##_##d##_6, op##_##d##_7},
#define ROW_SELECT(D, w)                                                                              \
  [KIR_SELECT][TILE_##D] = {[0] = select_##w##_0, [1] = select_##w##_1, [3] = select_##w##_3,         \
                            [5] = select_##w##_5, [7] = select_##w##_7},
#define OF_FLOATS(ROW, OP, op) ROW(OP, op, F32, f32) ROW(OP, op, F64, f64)
#define OF_INTEGERS(ROW, OP, op) ROW(OP, op, I32, i32) ROW(OP, op, U32, u32) ROW(OP, op, I64, i64) ROW(OP, op, U64, u64)
#define OF_NUMBERS(ROW, OP, op) OF_FLOATS(ROW, OP, op) OF_INTEGERS(ROW, OP, op)
#define OF_BITS(ROW, OP, op) OF_INTEGERS(ROW, OP, op) ROW(OP, op, BOOL, b8)
#define ROW_FOLD(OP, op, D, d) [KIR_##OP][TILE_##D] = fold_##op##_##d,
#define ROW_CAST(s, T, d, R) [TILE_##s][MEM_##d] = {cast_##s##_##d##_0, cast_##s##_##d##_1},
#define ROW_LOAD(m, ...) [MEM_##m] = {load_##m##_0, load_##m##_1},
#define ROW_STORE(m, ...) [MEM_##m] = {store_##m##_0, store_##m##_1},
enum { TILE_b8 = TILE_BOOL, TILE_i32 = TILE_I32, TILE_u32 = TILE_U32, TILE_i64 = TILE_I64, TILE_u64 = TILE_U64,
       TILE_f32 = TILE_F32, TILE_f64 = TILE_F64 };
enum { MEM_b8 = WEFT_BOOL, MEM_u8 = WEFT_U8, MEM_u16 = WEFT_U16, MEM_u32 = WEFT_U32, MEM_u64 = WEFT_U64,
       MEM_i8 = WEFT_I8, MEM_i16 = WEFT_I16, MEM_i32 = WEFT_I32, MEM_i64 = WEFT_I64, MEM_f16 = WEFT_F16,
       MEM_f32 = WEFT_F32, MEM_f64 = WEFT_F64, MEM_bf16 = WEFT_BF16 };

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
const struct tile_table TILE_TABLE = {
  .name = TEXT(TILE_TABLE),
  .op = {
    OF_NUMBERS(ROW2, ADD, add) OF_NUMBERS(ROW2, SUB, sub) OF_NUMBERS(ROW2, MUL, mul) OF_NUMBERS(ROW2, MIN, min)
    OF_NUMBERS(ROW2, MAX, max) OF_NUMBERS(ROW2, EQ, eq) OF_NUMBERS(ROW2, NE, ne) OF_NUMBERS(ROW2, LT, lt)
    OF_NUMBERS(ROW2, LE, le)
    OF_FLOATS(ROW3, FMA, fma) OF_FLOATS(ROW2, DIV, div) OF_FLOATS(ROW1, SQRT, sqrt) OF_FLOATS(ROW2, SCALE, scale)
    OF_FLOATS(ROW1, NEG, neg)
    OF_FLOATS(ROW1, ABS, abs) OF_FLOATS(ROW1, FLOOR, floor) OF_FLOATS(ROW1, CEIL, ceil) OF_FLOATS(ROW1, TRUNC, trunc)
    OF_FLOATS(ROW1, RINT, rint)
    OF_BITS(ROW2, AND, and) OF_BITS(ROW2, OR, or) OF_BITS(ROW2, XOR, xor) OF_BITS(ROW1, NOT, not)
    OF_INTEGERS(ROW2, SHL, shl) OF_INTEGERS(ROW2, SHR, shr) OF_INTEGERS(ROW2, MULHI, mulhi)
    OF_INTEGERS(ROW2, IDIV, idiv) OF_INTEGERS(ROW2, IREM, irem)
    ROW_SELECT(BOOL, w1) ROW_SELECT(I32, w4) ROW_SELECT(U32, w4) ROW_SELECT(F32, w4)
    ROW_SELECT(I64, w8) ROW_SELECT(U64, w8) ROW_SELECT(F64, w8)
  },
  .cast = { CASTS(ROW_CAST) },
  .fold = {
    OF_NUMBERS(ROW_FOLD, ADD, add) OF_NUMBERS(ROW_FOLD, MUL, mul) OF_NUMBERS(ROW_FOLD, MIN, min)
    OF_NUMBERS(ROW_FOLD, MAX, max) OF_BITS(ROW_FOLD, AND, and) OF_BITS(ROW_FOLD, OR, or) OF_BITS(ROW_FOLD, XOR, xor)
  },
  .blend = {[1] = blend_1, [4] = blend_4, [8] = blend_8},
  .move = {[1] = move_1, [4] = move_4, [8] = move_8},
  .splat = {[1] = splat_1, [4] = splat_4, [8] = splat_8},
  .both = and_b8_3, .but = but, .within = within,
  .load = { MEMS(ROW_LOAD) },
  .store = { MEMS(ROW_STORE) },
};
