/* vm_order.c -- the order of sums in plain C: see vm_order.h. */
#include "backend/vm/vm_order.h"
#include "backend/vm/number.h"

#define ORDERED(op, d, T, e)                                                                          \
  static void fold_##op##_##d(void *acc_, const void *v_, int64_t n) {                                \
    T x = *(T *)acc_;                                                                                 \
    for (const T *v = v_, *end = v + n; v < end; v++) { T y = *v; x = (T)(e); }                       \
    *(T *)acc_ = x;                                                                                   \
  }                                                                                                   \
  static void run_##op##_##d(void *out_, void *carry_, const void *v_, int64_t n) {                   \
    T x = *(T *)carry_, *out = out_;                                                                  \
    const T *v = v_;                                                                                  \
    for (int64_t i = 0; i < n; i++) { T y = v[i]; out[i] = x = (T)(e); }                              \
    *(T *)carry_ = x;                                                                                 \
  }                                                                                                   \
  static void meet_##op##_##d(char *p, int64_t stride, const int64_t *at, int64_t scale, const void *v_, \
                              const uint8_t *mask, int64_t n) {                                       \
    const T *v = v_;                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                 \
      if (mask && !mask[i]) continue;                                                                 \
      T *m = (T *)(p + i * stride + (at ? at[i] * scale : 0)), x = *m, y = v[i];                      \
      *m = (T)(e);                                                                                    \
    }                                                                                                 \
  }
#define FLOATS(F, T)                                                                                  \
  ORDERED(add, F, T, x + y) ORDERED(mul, F, T, x * y)                                                 \
  ORDERED(min, F, T, num_min_##F(x, y)) ORDERED(max, F, T, num_max_##F(x, y))
#define LOGIC(d, T) ORDERED(and, d, T, x & y) ORDERED(or, d, T, x | y) ORDERED(xor, d, T, x ^ y)
#define INTEGERS(I, T, U)                                                                             \
  ORDERED(add, I, T, (U)x + (U)y) ORDERED(mul, I, T, (U)x * (U)y) ORDERED(min, I, T, x < y ? x : y)   \
  ORDERED(max, I, T, x > y ? x : y) LOGIC(I, T)
FLOATS(f32, num_f32)
FLOATS(f64, num_f64)
INTEGERS(i32, num_i32, uint32_t)
INTEGERS(u32, num_u32, uint32_t)
INTEGERS(i64, num_i64, uint64_t)
INTEGERS(u64, num_u64, uint64_t)
LOGIC(b8, num_bool)

#define ROW(OP, op, D, d) [KIR_##OP][TILE_##D] = {fold_##op##_##d, run_##op##_##d, meet_##op##_##d},
#define OF_INTEGERS(OP, op) ROW(OP, op, I32, i32) ROW(OP, op, U32, u32) ROW(OP, op, I64, i64) ROW(OP, op, U64, u64)
#define OF_NUMBERS(OP, op) ROW(OP, op, F32, f32) ROW(OP, op, F64, f64) OF_INTEGERS(OP, op)
#define OF_BITS(OP, op) OF_INTEGERS(OP, op) ROW(OP, op, BOOL, b8)
static const struct order_row rows[KIR_XOR + 1][TILE_REGS] = {
  OF_NUMBERS(ADD, add) OF_NUMBERS(MUL, mul) OF_NUMBERS(MIN, min) OF_NUMBERS(MAX, max)
  OF_BITS(AND, and) OF_BITS(OR, or) OF_BITS(XOR, xor)
};

const struct order_row *order_of(int op, weft_dtype d) { return &rows[op][tile_reg(d)]; }
bool order_has(int op, weft_dtype d) { return op <= KIR_XOR && rows[op][tile_reg(d)].fold; }

void order_put(void *at, weft_dtype d, uint64_t bits) {
  switch (tile_width(d)) {
    case 1: *(uint8_t *)at = (uint8_t)bits; break;
    case 4: *(num_u32 *)at = (uint32_t)bits; break;
    default: *(num_u64 *)at = bits;
  }
}

void order_fill(void *out, weft_dtype d, uint64_t bits, int64_t n) {
  uint64_t value;
  order_put(&value, d, bits);
  tile_best()->splat[tile_width(d)](out, &value, NULL, NULL, n);
}

void order_combine(int op, weft_dtype d, void *out, const void *older, const void *newer, int64_t n) {
  tile_best()->op[op][tile_reg(d)][3](out, older, newer, NULL, n);
}

void order_merge(int op, weft_dtype memory, char *p, int64_t stride, const void *total, int64_t n, bool from_empty) {
  enum { PIECE = 256 };
  uint64_t old[PIECE];
  weft_dtype d = kir_register_of(memory);
  const struct tile_table *t = tile_best();
  const char *more = total;
  for (int64_t m; n > 0; n -= m, p += m * stride, more += m * tile_width(d)) {
    m = n < PIECE ? n : PIECE;
    if (from_empty) order_fill(old, d, kir_empty(op, d), m);
    else t->load[memory][1](old, p, stride, m);
    order_combine(op, d, old, old, more, m);
    t->store[memory][1](p, stride, old, m);
  }
}
