/* contract.c -- patches of products for any machine: a row at a time, by the tile loops of the interpreter. */
#include "backend/contract.h"
#include <string.h>
#include "backend/vm/tile.h"

enum { LANES = 64, ROWS = 8, B_AND_SUM_ARE_TILES = 6, BOTH_ARE_TILES = 3 };

static void multiply(const struct patch *p, weft_dtype t) {
  const struct tile_table *loops = tile_best();
  tile_op *fma = loops->op[KIR_FMA][tile_reg(t)][B_AND_SUM_ARE_TILES], *add = loops->op[KIR_ADD][tile_reg(t)][BOTH_ARE_TILES];
  _Alignas(64) char sum[LANES * PATCH_VECTORS * 8];
  size_t bytes = (size_t)p->columns * (size_t)tile_width(t);
  for (int64_t i = 0; i < p->rows; i++) {
    const char *a = (const char *)p->a + i * p->a_row, *b = p->b;
    char *c = (char *)p->c + i * p->c_row;
    if (p->start) memcpy(sum, (const char *)p->start + i * p->start_row, bytes);
    else memset(sum, 0, bytes);
    for (int64_t k = 0; k < p->k; k++, a += p->a_k, b += p->b_k) fma(sum, a, b, sum, p->columns);
    if (p->adds) add(sum, c, sum, NULL, p->columns);
    memcpy(c, sum, bytes);
  }
}

static void patch_f32(const struct patch *p) { multiply(p, WEFT_F32); }
static void patch_f64(const struct patch *p) { multiply(p, WEFT_F64); }

static bool available(void) { return true; }
static int lanes(weft_dtype t) { return t == WEFT_F32 || t == WEFT_F64 ? LANES : 0; }
static int rows(void) { return ROWS; }
static int vectors(int of_rows) { return (void)of_rows, 2; }

static patch_code *code(weft_dtype t, int of_rows, int n_vectors, bool is_masked, bool *is_forbidden) {
  (void)of_rows, (void)n_vectors, (void)is_masked;
  *is_forbidden = false;
  return t == WEFT_F32 ? patch_f32 : patch_f64;
}

static dots_code *dots(weft_dtype t) { return (void)t, NULL; }

static void pack(const struct panel *p) {
  int from = tile_width(p->dtype), to = tile_width(kir_register_of(p->dtype));
  tile_in *load = tile_best()->load[p->dtype][p->stride != from];
  size_t rest = (size_t)(p->width - p->n) * (size_t)to;
  for (int64_t k = 0; k < p->k; k++) {
    char *row = (char *)p->to + k * p->width * to;
    load(row, (const char *)p->from + k * p->k_stride, p->stride, p->n);
    if (rest) memset(row + p->n * to, 0, rest);
  }
}

const struct contractor contractor_vm = { "vm", available, lanes, rows, vectors, code, pack, dots };
