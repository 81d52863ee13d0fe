/* eighth.c -- floats of 8 bits, e4m3 and e5m2, in core instructions: the only definition of how they are read and rounded.
 *
 * Back ends never see them. The legaliser makes u8 of such memory, puts these lines around its loads and stores, and in place of
 * casts. In a register such a number is the f32 of the same value; of a NaN sign and payload are kept, as far as there are any. */
#include "kernel/eighth.h"
#include "kernel/expansion.h"

struct eighth {
  int digits, bias;  /* of the fraction; of the exponent */
  uint32_t beyond;   /* what is too large: nan, or inf */
};
static struct eighth eighth_of(weft_dtype d) {
  return d == WEFT_E4M3 ? (struct eighth){ 3, 7, 0x7F } : (struct eighth){ 2, 15, 0x7C };
}

static int masked(struct here h, int x, uint32_t mask) { return op(h, KIR_AND, x, integer(h, mask)); }
static int right(struct here h, int x, int by) { return op(h, KIR_SHR, x, integer(h, (uint64_t)by)); }
static int left(struct here h, int x, int by) { return op(h, KIR_SHL, x, integer(h, (uint64_t)by)); }

/* The upper bits of the payload, and if none is set the highest. */
static int nan_of_e5m2(struct here h, int size) {
  int payload = masked(h, right(h, size, 21), 3), is_empty = op(h, KIR_EQ, payload, integer(h, 0));
  return op(h, KIR_OR, either(h, is_empty, integer(h, 2), payload), integer(h, 0x7C));
}

/* To the nearest, halves to the even one. Below the normal numbers all are multiples of the smallest: added to the f32 whose last
 * place that is, the sum is rounded to one. */
int eighth_pattern(struct kir_builder *b, weft_dtype d, int x) {
  struct here h = here_in(b, WEFT_F32);
  struct eighth f = eighth_of(d);
  int shift = 23 - f.digits, all = as_bits(h, x), size = masked(h, all, 0x7FFFFFFF);
  int e = 24 - f.bias - f.digits, coarse = number(h, ldexp(1, e));
  int tiny = sub(h, as_bits(h, add(h, as_float(h, size), coarse)), integer(h, (uint64_t)(127 + e) << 23));
  int up = add(h, masked(h, right(h, size, shift), 1), integer(h, (1u << (shift - 1)) - 1));
  int normal = sub(h, right(h, add(h, size, up), shift), integer(h, (uint64_t)(127 - f.bias) << f.digits));
  int is_tiny = less(h, size, integer(h, (uint64_t)(128 - f.bias) << 23));
  int code = op(h, KIR_MIN, either(h, is_tiny, tiny, normal), integer(h, f.beyond));
  if (d == WEFT_E5M2) code = either(h, less(h, integer(h, 0x7F800000), size), nan_of_e5m2(h, size), code);
  return kir_cast(b, WEFT_I32, op(h, KIR_OR, code, masked(h, right(h, all, 24), 0x80)));
}

/* The bits moved to where an f32 has them are the number times a power of two, the smallest ones included. */
int eighth_value(struct kir_builder *b, weft_dtype d, int pattern) {
  struct here h = here_in(b, WEFT_F32);
  struct eighth f = eighth_of(d);
  int all = kir_cast(b, WEFT_U32, pattern), moved = left(h, masked(h, all, 0x7F), 23 - f.digits);
  int size = as_bits(h, mul(h, as_float(h, moved), number(h, ldexp(1, 127 - f.bias))));
  uint64_t first = (uint64_t)(d == WEFT_E4M3 ? 0x7F : 0x7C) << (23 - f.digits); /* from here on: nan, or inf and nan */
  int odd = d == WEFT_E4M3 ? integer(h, 0x7FC00000) : op(h, KIR_OR, moved, integer(h, 0x7F800000));
  size = either(h, less(h, moved, integer(h, first)), size, odd);
  return as_float(h, op(h, KIR_OR, size, left(h, masked(h, all, 0x80), 24)));
}

/* f64 goes to the nearest f32 towards 0, made odd unless it is exact: rounding that again is as if done once. Integers are exact in
 * f32 as far as these numbers reach. */
static int as_f32(struct kir_builder *b, int x) {
  weft_dtype from = (weft_dtype)b->k->vals[x].dtype;
  int near = kir_cast(b, WEFT_F32, x);
  if (from != WEFT_F64) return near;
  struct here h = here_in(b, WEFT_F32), wide = here_in(b, WEFT_F64);
  int back = kir_cast(b, WEFT_F64, near), bits = as_bits(h, near);
  bits = either(h, less(wide, size_of(wide, x), size_of(wide, back)), sub(h, bits, integer(h, 1)), bits);
  return as_float(h, either(h, op(wide, KIR_NE, back, x), op(h, KIR_OR, bits, integer(h, 1)), bits));
}

int eighth_rounded(struct kir_builder *b, weft_dtype d, int x, int *pattern) {
  return eighth_value(b, d, *pattern = eighth_pattern(b, d, as_f32(b, x)));
}
