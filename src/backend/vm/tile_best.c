/* tile_best.c -- which tile loops this machine runs, and the sizes of elements. */
#include "backend/vm/tile.h"

const struct tile_table *tile_best(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tile_avx2;
#endif
  return &tile_plain;
}

int tile_reg(weft_dtype d) {
  static const int8_t of[] = {[WEFT_BOOL] = TILE_BOOL, [WEFT_I32] = TILE_I32, [WEFT_U32] = TILE_U32, [WEFT_I64] = TILE_I64,
                              [WEFT_U64] = TILE_U64,   [WEFT_F32] = TILE_F32, [WEFT_F64] = TILE_F64, [WEFT_BF16] = 0};
  return of[d];
}

int tile_width(weft_dtype d) {
  static const int8_t of[] = {[WEFT_BOOL] = 1, [WEFT_U8] = 1,  [WEFT_I8] = 1,  [WEFT_U16] = 2, [WEFT_I16] = 2,
                              [WEFT_F16] = 2,  [WEFT_BF16] = 2, [WEFT_U32] = 4, [WEFT_I32] = 4, [WEFT_F32] = 4,
                              [WEFT_U64] = 8,  [WEFT_I64] = 8,  [WEFT_F64] = 8};
  return of[d];
}
