/* instructions.c -- the instructions as data, what combiners start from, and the dtypes a kernel knows. */
#include "kernel/kir.h"

const struct kir_row kir_rows[] = {
#define ROW_(name, text, cls, operands, result, level) { text, #cls[0], operands, #result[0], #level[0] },
  KIR_ROWS(ROW_)
#undef ROW_
  { "cast", 0, "T", 0, 'C' },
  { "bits", 0, "T", 0, 'C' },
  { "owns", 0, "TT", 'b', 'C' },
  { "call", 0, "", 0, 'C' },
  { "set", 0, "", 0, 'C' },
};

static const struct { const char *name; uint8_t bytes, in_register; } dtypes[] = {
  [WEFT_BOOL] = { "bool", 1, WEFT_BOOL }, [WEFT_U8] = { "u8", 1, WEFT_I32 },    [WEFT_U16] = { "u16", 2, WEFT_I32 },
  [WEFT_U32] = { "u32", 4, WEFT_U32 },    [WEFT_U64] = { "u64", 8, WEFT_U64 },  [WEFT_I8] = { "i8", 1, WEFT_I32 },
  [WEFT_I16] = { "i16", 2, WEFT_I32 },    [WEFT_I32] = { "i32", 4, WEFT_I32 },  [WEFT_I64] = { "i64", 8, WEFT_I64 },
  [WEFT_F16] = { "f16", 2, WEFT_F32 },    [WEFT_F32] = { "f32", 4, WEFT_F32 },  [WEFT_F64] = { "f64", 8, WEFT_F64 },
  [WEFT_BF16] = { "bf16", 2, WEFT_F32 },  [WEFT_E4M3] = { "e4m3", 1, WEFT_F32 }, [WEFT_E5M2] = { "e5m2", 1, WEFT_F32 },
  [WEFT_C64] = { "c64", 0, WEFT_C64 },  [WEFT_C128] = { "c128", 0, WEFT_C128 },
};

bool kir_is_register(weft_dtype d) { return kir_width(d) && dtypes[d].in_register == d; }
weft_dtype kir_register_of(weft_dtype d) { return (weft_dtype)dtypes[d].in_register; }
bool kir_is_float(weft_dtype d) { return d >= WEFT_F16 && d <= WEFT_E5M2; }
bool kir_is_f8(weft_dtype d) { return d == WEFT_E4M3 || d == WEFT_E5M2; }
bool kir_is_signed(weft_dtype d) { return d >= WEFT_I8 && d <= WEFT_I64; }
int kir_width(weft_dtype d) { return dtypes[d].bytes; }
const char *kir_dtype_name(weft_dtype d) { return dtypes[d].name; }

bool kir_is_combiner(int op) {
  return op == KIR_ADD || op == KIR_MUL || op == KIR_MIN || op == KIR_MAX || op == KIR_AND || op == KIR_OR || op == KIR_XOR;
}

static uint64_t sign_bit(weft_dtype d) { return UINT64_C(1) << (8 * kir_width(d) - 1); }
static uint64_t all_bits(weft_dtype d) { return d == WEFT_BOOL ? 1 : sign_bit(d) | (sign_bit(d) - 1); }

static uint64_t one(weft_dtype d) { return d == WEFT_F32 ? 0x3f800000 : d == WEFT_F64 ? 0x3ff0000000000000 : 1; }

static uint64_t least(weft_dtype d) { /* -inf, or the least integer */
  if (kir_is_float(d)) return d == WEFT_F32 ? 0xff800000 : 0xfff0000000000000;
  return kir_is_signed(d) ? sign_bit(d) : 0;
}

static uint64_t greatest(weft_dtype d) {
  if (kir_is_float(d)) return least(d) ^ sign_bit(d);
  return kir_is_signed(d) ? sign_bit(d) - 1 : all_bits(d);
}

uint64_t kir_empty(enum kir_op op, weft_dtype d) {
  switch ((int)op) {
  case KIR_MUL: return one(d);
  case KIR_MIN: return greatest(d);
  case KIR_MAX: return least(d);
  case KIR_AND: return all_bits(d);
  }
  return 0;
}

uint64_t kir_neutral(enum kir_op op, weft_dtype d) {
  return op == KIR_ADD && kir_is_float(d) ? sign_bit(d) : kir_empty(op, d);
}
