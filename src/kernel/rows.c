/* rows.c -- the instructions as data, and the dtypes a kernel knows. */
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
  [WEFT_BF16] = { "bf16", 2, WEFT_F32 },  [WEFT_C64] = { "c64", 0, WEFT_C64 },  [WEFT_C128] = { "c128", 0, WEFT_C128 },
};

bool kir_is_register(weft_dtype d) { return kir_width(d) && dtypes[d].in_register == d; }
weft_dtype kir_register_of(weft_dtype d) { return (weft_dtype)dtypes[d].in_register; }
bool kir_is_float(weft_dtype d) { return d == WEFT_F32 || d == WEFT_F64 || d == WEFT_F16 || d == WEFT_BF16; }
bool kir_is_signed(weft_dtype d) { return d >= WEFT_I8 && d <= WEFT_I64; }
int kir_width(weft_dtype d) { return dtypes[d].bytes; }
const char *kir_dtype_name(weft_dtype d) { return dtypes[d].name; }
