/* vm_tiles.c -- every (instruction, dtype) row of the vm against scalar C, in every shape of operands and for every
 * instruction set this machine has. The references go through libm, long double and comparisons, not through the code
 * they check. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include "backend/vm/number.h"
#include "backend/vm/vm_order.h"
#include "backend/vm/tile.h"
#include "test.h"
#include "vm_case.h"

static const weft_dtype regs[] = {WEFT_BOOL, WEFT_I32, WEFT_U32, WEFT_I64, WEFT_U64, WEFT_F32, WEFT_F64};
enum { REGS = 7, LANES = 67 };

static int tables(const struct tile_table **t) {
  int n = 0;
  t[n++] = &tile_plain;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) t[n++] = &tile_avx2;
#endif
  return n;
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

static const float f32s[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-45f, -1e-45f, 1.17549435e-38f, 3.4028235e38f, -3.4028235e38f, 1, -1, 0.5f, -0.5f,
  1.5f, 2.5f, -2.5f, 0.49999997f, 8388607.5f, 8388608, 2147483520.f, 2147483648.f, -2147483648.f, 4294967040.f, 4294967296.f, 9.2233715e18f,
  9.223372e18f, 1.8446743e19f, 1.8446744e19f, 65504, 65519.996f, 65520, 5.9604645e-08f, 2.9802322e-08f, 6.1035156e-05f, 127.5f, 255.7f, -128.9f, 1e10f, 3.3333333f};
static const double f64s[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308,
  1, -1, 0.5, -0.5, 1.5, 2.5, 0.49999999999999994, 4503599627370495.5, 4503599627370496, 9007199254740992.0, 2147483647.5, 2147483648, -2147483648.5, 4294967295.5,
  9223372036854774784.0, 9223372036854775808.0, 18446744073709549568.0, 18446744073709551616.0, 65519.99999999999, 65520, 1.00390625, 1.0039062500000002,
  3.3895313892515355e38, 3.4e38, 1e-45, 5.877471754111438e-39, 2.9802322387695312e-08, 2.9802322387695319e-08, -32768.9, 1e300};
static const int64_t ints[] = {0, 1, -1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 32767, 65535, -128, -129, INT32_MAX, INT32_MIN, UINT32_MAX,
  INT64_MAX, INT64_MIN, (1ll << 53) + 1, (1ll << 24) + 1, 0x7fffffbfffffffffll, 0x4000004000000001ll};

static uint64_t bits_of(weft_dtype d, int i) {
  if (d == WEFT_BOOL) return (uint64_t)i & 1;
  if (d == WEFT_F32) return i < 40 ? num_f32_bits(f32s[i]) : (uint32_t)case_random();
  if (d == WEFT_F64) return i < 40 ? num_f64_bits(f64s[i]) : case_random();
  uint64_t u = i < 30 ? (uint64_t)ints[i] : case_random() >> (case_random() & 63);
  return d == WEFT_I32 || d == WEFT_U32 ? (uint32_t)u : u;
}

/* What scale is defined on: 1/2 to 4, and n beside the number that rounding was done by. */
static uint64_t bits_of_scale(weft_dtype d, int k, int i) {
  double x = d == WEFT_F32 ? 0x1.8p23 + 254 + (i * 23 % 505 - 252) : 0x1.8p52 + 2046 + (i * 61 % 4089 - 2044);
  if (!k) x = i % 20 ? 0.5 + (double)(case_random() >> 40) * 0x1.cp-23 : NAN;
  return d == WEFT_F32 ? num_f32_bits((float)x) : num_f64_bits(x);
}
static uint64_t get(weft_dtype d, const void *p) {
  uint64_t u = 0;
  if (d == WEFT_BOOL) return *(const uint8_t *)p;
  if (tile_width(d) == 4) { uint32_t v; memcpy(&v, p, 4); return v; }
  memcpy(&u, p, 8);
  return u;
}

/* ---- What an instruction means --------------------------------------------------------------------------------------- */

#define OF_FLOAT(T, F, sq, fl, ce, tr, ri, fm, ld)                                                     \
  static T float_##F(int op, T x, T y, T z) {                                                        \
    switch (op) {                                                                                    \
      case KIR_ADD: return x + y;                                                                    \
      case KIR_SUB: return x - y;                                                                    \
      case KIR_MUL: return x * y;                                                                    \
      case KIR_DIV: return x / y;                                                                    \
      case KIR_FMA: return fm(x, y, z);                                                              \
      case KIR_SQRT: return sq(x);                                                                   \
      case KIR_NEG: return -x;                                                                       \
      case KIR_ABS: return signbit(x) ? -x : x;                                                      \
      case KIR_FLOOR: return fl(x);                                                                  \
      case KIR_CEIL: return ce(x);                                                                   \
      case KIR_TRUNC: return tr(x);                                                                  \
      case KIR_RINT: return ri(x);                                                                   \
      case KIR_SCALE: return isnan(x) ? x : ld(x, (int)(y - (T)(sizeof(T) == 4 ? 0x1.8p23 + 254 : 0x1.8p52 + 2046))); \
      case KIR_MIN: return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? x : y) : x < y ? x : y; \
      default: return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? y : x) : x > y ? x : y;    \
    }                                                                                                \
  }
OF_FLOAT(float, f32, sqrtf, floorf, ceilf, truncf, nearbyintf, fmaf, ldexpf)
OF_FLOAT(double, f64, sqrt, floor, ceil, trunc, nearbyint, fma, ldexp)

static bool compare(int op, bool less, bool equal, bool ordered) {
  return op == KIR_EQ ? equal : op == KIR_NE ? !ordered || !equal : op == KIR_LT ? less : ordered && (less || equal);
}

static uint64_t integer(int op, weft_dtype d, uint64_t a, uint64_t b) {
  bool is_signed = d == WEFT_I32 || d == WEFT_I64;
  int n = tile_width(d) * 8;
  num_i128 x = is_signed ? (n == 32 ? (int32_t)a : (int64_t)a) : (num_i128)a, y = is_signed ? (n == 32 ? (int32_t)b : (int64_t)b) : (num_i128)b;
  switch (op) {
    case KIR_ADD: return (uint64_t)(x + y);
    case KIR_SUB: return (uint64_t)(x - y);
    case KIR_MUL: return (uint64_t)a * b;
    case KIR_MIN: return (uint64_t)(x < y ? x : y);
    case KIR_MAX: return (uint64_t)(x > y ? x : y);
    case KIR_AND: return a & b;
    case KIR_OR: return a | b;
    case KIR_XOR: return a ^ b;
    case KIR_NOT: return d == WEFT_BOOL ? !a : ~a;
    case KIR_SHL: return b >= (uint64_t)n ? 0 : a << b;
    case KIR_SHR: return (uint64_t)(b >= (uint64_t)n ? (x < 0 ? -1 : 0) : x >> b);
    case KIR_MULHI: return is_signed ? (uint64_t)(x * y >> n) : (uint64_t)((num_u128)a * b >> n);
    case KIR_IDIV: return y == 0 ? 0 : (uint64_t)(x / y);
    case KIR_IREM: return y == 0 ? a : (uint64_t)(x % y);
    default: return compare(op, x < y, x == y, true);
  }
}

static uint64_t expected(int op, weft_dtype d, const uint64_t *v) {
  bool compares = op == KIR_EQ || op == KIR_NE || op == KIR_LT || op == KIR_LE;
  if (op == KIR_SELECT) return v[0] ? v[1] : v[2];
  if (d == WEFT_F32) {
    float x = num_bits_f32((uint32_t)v[0]), y = num_bits_f32((uint32_t)v[1]);
    if (compares) return compare(op, x < y, x == y, !isunordered(x, y));
    return num_f32_bits(float_f32(op, x, y, num_bits_f32((uint32_t)v[2])));
  }
  if (d == WEFT_F64) {
    double x = num_bits_f64(v[0]), y = num_bits_f64(v[1]);
    if (compares) return compare(op, x < y, x == y, !isunordered(x, y));
    return num_f64_bits(float_f64(op, x, y, num_bits_f64(v[2])));
  }
  uint64_t r = integer(op, d, v[0], v[1]);
  return compares ? r : tile_width(d) == 4 ? (uint32_t)r : r;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

static void try_shape(const struct tile_table *t, int op, weft_dtype d, int shape, int first) {
  const struct kir_row *row = &kir_rows[op];
  weft_dtype result = row->result == 'b' ? WEFT_BOOL : d;
  int n_in = (int)strlen(row->operands);
  uint64_t v[3][LANES];
  char in[3][LANES * 8], out[LANES * 8];
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < LANES; i++) {
      weft_dtype dk = k < n_in && row->operands[k] == 'b' ? WEFT_BOOL : d;
      int lane = shape >> k & 1 ? i : 0;
      if (lane == i && op == KIR_SCALE) v[k][i] = bits_of_scale(d, k, first + i);
      else if (lane == i) v[k][i] = bits_of(dk, k == 0 ? (first + i) % 90 : k == 1 ? (first / 7 + i * 3) % 50 : (int)(case_random() % 60));
      else v[k][i] = v[k][0];
      order_put(in[k] + i * tile_width(dk), dk, v[k][i]);
    }
  int64_t n = shape ? LANES - first % 3 : 1;
  t->op[op][tile_reg(d)][shape](out, in[0], in[1], in[2], n);
  for (int i = 0; i < n; i++) {
    uint64_t want = expected(op, d, (uint64_t[]){v[0][i], v[1][i], v[2][i]}), got = get(result, out + i * tile_width(result));
    if (case_same(result, &got, &want)) continue;
    test_fail(__FILE__, __LINE__, "%s: %s.%s of %llx %llx %llx is %llx, not %llx", t->name, row->name, weft_dtype_name(d), (long long)v[0][i],
              (long long)v[1][i], (long long)v[2][i], (long long)got, (long long)want);
    return;
  }
}

TEST(vm_tile_loops_compute_each_instruction_as_scalar_c_does) {
  const struct tile_table *t[3];
  int n = tables(t), rows = 0;
  for (int i = 0; i < n; i++)
    for (int op = 0; op < KIR_CAST; op++)
      for (int d = 0; d < REGS; d++)
        for (int shape = 0; shape < TILE_SHAPES; shape++) {
          if (!t[i]->op[op][tile_reg(regs[d])][shape]) continue;
          rows += i == 0 && shape == 0;
          for (int first = 0; first < 90; first += 5) try_shape(t[i], op, regs[d], shape, first);
        }
  EXPECT(rows >= 111);
}

TEST(vm_has_a_tile_loop_for_every_core_instruction_and_dtype_of_the_table) {
  for (int op = 0; op < KIR_CAST; op++)
    for (int d = 0; d < REGS; d++) {
      char c = kir_rows[op].cls;
      bool is_float = regs[d] == WEFT_F32 || regs[d] == WEFT_F64, is_bool = regs[d] == WEFT_BOOL;
      bool legal = c == 'A' || (c == 'F' && is_float) || (c == 'I' && !is_float && !is_bool) || (c == 'N' && !is_bool) || (c == 'B' && !is_float);
      if (kir_rows[op].level == 'C') EXPECT_INT(tile_plain.op[op][tile_reg(regs[d])][0] != NULL, legal);
    }
}

/* ---- Casts ----------------------------------------------------------------------------------------------------------- */

static long double as_number(weft_dtype d, uint64_t u) {
  switch (d) {
    case WEFT_F32: return num_bits_f32((uint32_t)u);
    case WEFT_F64: return num_bits_f64(u);
    case WEFT_I32: return (int32_t)u;
    case WEFT_I64: return (int64_t)u;
    default: return u;
  }
}
/* To p bits of precision, nothing below 2^lowest, infinity from `top` on: one rounding, ties to even. */
static long double to_half(long double x, int p, int lowest, long double top) {
  int e;
  if (isnan(x) || isinf(x) || x == 0) return x;
  frexpl(x, &e);
  int q = e - p < lowest ? lowest : e - p;
  long double r = ldexpl(nearbyintl(ldexpl(x, -q)), q);
  return fabsl(r) >= top ? copysignl(INFINITY, x) : copysignl(r, x);
}
static uint64_t cast_expected(weft_dtype from, weft_dtype to, uint64_t u) {
  static const struct { weft_dtype d; num_i128 lo, hi; } range[] = {
    {WEFT_U8, 0, 255}, {WEFT_I8, -128, 127}, {WEFT_U16, 0, 65535}, {WEFT_I16, -32768, 32767}, {WEFT_I32, INT32_MIN, INT32_MAX},
    {WEFT_U32, 0, UINT32_MAX}, {WEFT_I64, INT64_MIN, INT64_MAX}, {WEFT_U64, 0, UINT64_MAX}};
  long double x = as_number(from, u);
  bool from_float = from == WEFT_F32 || from == WEFT_F64;
  if (to == WEFT_BOOL) return x != 0;
  if (to == WEFT_F32) return num_f32_bits(from == WEFT_F64 ? (float)num_bits_f64(u) : (float)x);
  if (to == WEFT_F64) return num_f64_bits((double)x);
  if (to == WEFT_BF16) return num_f32_bits((float)to_half(x, 8, -133, 0x1p128L));
  if (to == WEFT_F16) return num_f32_bits((float)to_half(x, 11, -24, 65536.0L));
  for (int i = 0; i < 8; i++) {
    if (range[i].d != to) continue;
    num_i128 v = 0;
    if (from_float) v = isnan(x) ? 0 : x <= (long double)range[i].lo ? range[i].lo : x >= (long double)range[i].hi ? range[i].hi : (num_i128)x;
    else {
      num_i128 width = range[i].hi - range[i].lo + 1;
      v = (((num_i128)x - range[i].lo) % width + width) % width + range[i].lo;
    }
    return tile_width(kir_register_of(to)) == 4 ? (uint32_t)(int64_t)v : (uint64_t)v;
  }
  return 0;
}

TEST(vm_casts_round_once_saturate_and_wrap) {
  const struct tile_table *t[3];
  int n = tables(t);
  for (int i = 0; i < n; i++)
    for (int s = 0; s < REGS; s++)
      for (int to = 0; to < TILE_MEMS; to++)
        for (int round = 0; round < 40; round++) {
          weft_dtype d = regs[s], r = kir_register_of((weft_dtype)to);
          char in[LANES * 8], out[LANES * 8];
          uint64_t v[LANES];
          for (int k = 0; k < LANES; k++) v[k] = bits_of(d, round ? 1000 : k), order_put(in + k * tile_width(d), d, v[k]);
          if (round > 20 && d == WEFT_F64) /* near ties of f32 and the half types */
            for (int k = 0; k < LANES; k++) {
              double x = num_bits_f64((v[k] & 0x800ff00000000000u) | (uint64_t)(1023 - 160 + v[k] % 320) << 52 | 1ull << (v[k] >> 20) % 48);
              memcpy(in + k * 8, &x, 8), v[k] = num_f64_bits(x);
            }
          t[i]->cast[tile_reg(d)][to][1](out, in, NULL, NULL, LANES);
          for (int k = 0; k < LANES; k++) {
            uint64_t want = cast_expected(d, (weft_dtype)to, v[k]), got = get(r, out + k * tile_width(r));
            if (case_same(r, &got, &want)) continue;
            test_fail(__FILE__, __LINE__, "%s: cast.%s of %s %llx is %llx, not %llx", t[i]->name, weft_dtype_name((weft_dtype)to), weft_dtype_name(d),
                      (long long)v[k], (long long)got, (long long)want);
            return;
          }
        }
}

TEST(vm_half_types_survive_memory_with_every_pattern) {
  for (int to = WEFT_F16; to <= WEFT_BF16; to += WEFT_BF16 - WEFT_F16)
    for (uint32_t u = 0; u < 65536; u++) {
      uint16_t in = (uint16_t)u, out;
      float x;
      tile_plain.load[to][0](&x, (char *)&in, 2, 1);
      tile_plain.store[to][0]((char *)&out, 2, &x, 1);
      if (in != out) test_fail(__FILE__, __LINE__, "%s %x becomes %x", weft_dtype_name((weft_dtype)to), in, out);
      int e = to == WEFT_F16 ? in >> 10 & 31 : in >> 7 & 255, m = to == WEFT_F16 ? in & 1023 : in & 127;
      if (e == (to == WEFT_F16 ? 31 : 255)) continue;
      double want = to == WEFT_F16 ? ldexp(e ? m + 1024 : m, (e ? e : 1) - 25) : ldexp(e ? m + 128 : m, (e ? e : 1) - 134);
      if (in & 0x8000) want = -want;
      if (x != (float)want || !signbit(x) != !signbit(want)) test_fail(__FILE__, __LINE__, "%x is %g, not %g", in, (double)x, want);
    }
}

TEST(vm_emulated_fma_has_the_bits_of_a_real_one) {
  for (int i = 0; i < 400000; i++) {
    uint64_t r = case_random();
    float a = num_bits_f32((uint32_t)r), b = num_bits_f32((uint32_t)(r >> 32)), c = num_bits_f32((uint32_t)case_random());
    double x = num_bits_f64(case_random()), y = num_bits_f64(case_random()), z = num_bits_f64(case_random());
    if (i & 1) { /* the sum nearly cancels, or is near the ends of the range */
      c = -a * b * (1 + (float)((int)(r % 5) - 2) * 0x1p-23f);
      y = num_bits_f64((num_f64_bits(y) & 0x800fffffffffffffu) | (2046 - (num_f64_bits(x) >> 52 & 0x7ff)) << 52);
      z = -x * y * (1 + (double)((int)(r % 5) - 2) * 0x1p-52);
    } else if (i & 2) z = ldexp(x * 0.5, -(int)(r % 1080)), y = ldexp(1 + (double)(r >> 12) * 0x1p-52, -(int)(r % 1077));
    uint32_t f[2] = {num_f32_bits(num_soft_fma_f32(a, b, c)), num_f32_bits(fmaf(a, b, c))};
    uint64_t d[2] = {num_f64_bits(num_soft_fma_f64(x, y, z)), num_f64_bits(fma(x, y, z))};
    if (!case_same(WEFT_F32, &f[0], &f[1])) { test_fail(__FILE__, __LINE__, "fma(%a, %a, %a) is %x, not %x", (double)a, (double)b, (double)c, f[0], f[1]); return; }
    if (!case_same(WEFT_F64, &d[0], &d[1])) { test_fail(__FILE__, __LINE__, "fma(%a, %a, %a) is %llx, not %llx", x, y, z, (long long)d[0], (long long)d[1]); return; }
  }
}

/* ---- Folds and combiners --------------------------------------------------------------------------------------------- */

TEST(vm_neutral_values_are_neutral_to_the_bit_and_empty_ones_start_folds) {
  for (int op = 0; op <= KIR_XOR; op++)
    for (int d = 0; d < REGS; d++) {
      if (!order_has(op, regs[d])) continue;
      uint64_t e = kir_neutral(op, regs[d]);
      for (int i = 0; i < 60; i++) {
        uint64_t x = bits_of(regs[d], i), left = expected(op, regs[d], (uint64_t[]){e, x, 0}), right = expected(op, regs[d], (uint64_t[]){x, e, 0});
        EXPECT(case_same(regs[d], &left, &x));
        EXPECT(case_same(regs[d], &right, &x));
      }
      uint64_t zero = op == KIR_ADD ? 0 : e;
      EXPECT_INT(kir_empty(op, regs[d]), zero);
    }
}

TEST(vm_folds_over_lanes_use_accumulator_j_mod_32) {
  const struct tile_table *t[3];
  int n = tables(t);
  for (int i = 0; i < n; i++)
    for (int op = 0; op <= KIR_XOR; op++)
      for (int d = 0; d < REGS; d++)
        for (int first = 0; first < 70; first += 13) {
          if (!order_has(op, regs[d])) continue;
          int w = tile_width(regs[d]);
          char v[200 * 8], acc[32 * 8], row[200 * 8];
          uint64_t want[32], run = 0;
          for (int l = 0; l < 32; l++) want[l] = kir_empty(op, regs[d]), order_put(acc + l * w, regs[d], want[l]);
          int m = 200 - first;
          for (int k = 0; k < m; k++) {
            uint64_t x = bits_of(regs[d], regs[d] == WEFT_F32 || regs[d] == WEFT_F64 ? 3 + k % 30 : k);
            order_put(v + k * w, regs[d], x);
            want[(first + k) % 32] = expected(op, regs[d], (uint64_t[]){want[(first + k) % 32], x, 0});
          }
          t[i]->fold[op][tile_reg(regs[d])](acc, v, first, m);
          for (int l = 0; l < 32; l++) { uint64_t got = get(regs[d], acc + l * w); EXPECT(case_same(regs[d], &got, &want[l])); }
          order_put(acc, regs[d], want[0]);
          order_of(op, regs[d])->run(row, acc, v, m);
          run = want[0];
          for (int k = 0; k < m; k++) {
            run = expected(op, regs[d], (uint64_t[]){run, get(regs[d], v + k * w), 0});
            uint64_t got = get(regs[d], row + k * w);
            EXPECT(case_same(regs[d], &got, &run));
          }
        }
}
