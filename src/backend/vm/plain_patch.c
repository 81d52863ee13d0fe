/* plain_patch.c -- patches of products for any machine: a row at a time, by the tile loops of the interpreter. */
#include "backend/patch.h"
#include <string.h>
#include "backend/vm/tile.h"
#include "base/least.h"

enum { LANES = 64, ROWS = 8, VECTORS = 2, B_AND_SUM_ARE_TILES = 6, BOTH_ARE_TILES = 3, B_IS_A_TILE = 2 };

static void multiply(const struct patch *p, weft_dtype t) {
  const struct tile_table *loops = tile_best();
  tile_op *fma = loops->op[KIR_FMA][tile_reg(t)][B_AND_SUM_ARE_TILES], *add = loops->op[KIR_ADD][tile_reg(t)][BOTH_ARE_TILES];
  tile_op *mul = loops->op[KIR_MUL][tile_reg(t)][B_IS_A_TILE];
  _Alignas(64) char sum[LANES * VECTORS * 8], product[LANES * VECTORS * 8];
  size_t bytes = (size_t)p->columns * (size_t)tile_width(t);
  for (int64_t i = 0; i < p->rows; i++) {
    const char *a = (const char *)p->a + i * p->a_row, *b = p->b;
    char *c = (char *)p->c + i * p->c_row;
    if (p->start) memcpy(sum, (const char *)p->start + i * p->start_row, bytes);
    else memset(sum, 0, bytes);
    for (int64_t k = 0; k < p->k; k++, a += p->a_k, b += p->b_k) {
      if (kir_is_float(t)) fma(sum, a, b, sum, p->columns);
      else mul(product, a, b, NULL, p->columns), add(sum, sum, product, NULL, p->columns);
    }
    if (p->adds) add(sum, c, sum, NULL, p->columns);
    memcpy(c, sum, bytes);
  }
}

static void patch_f32(const struct patch *p) { multiply(p, WEFT_F32); }
static void patch_f64(const struct patch *p) { multiply(p, WEFT_F64); }
static void patch_i32(const struct patch *p) { multiply(p, WEFT_I32); }
static void patch_i64(const struct patch *p) { multiply(p, WEFT_I64); }

static bool available(void) { return true; }
static int lanes(weft_dtype t) { return (void)t, LANES; }
static int rows(void) { return ROWS; }
static int vectors(weft_dtype t, int of_rows) { return (void)t, (void)of_rows, VECTORS; }
static int together(weft_dtype t) { return (void)t, 1; }

static patch_code *code(weft_dtype t, int of_rows, int n_vectors, bool is_masked, bool *is_forbidden) {
  (void)of_rows, (void)n_vectors, (void)is_masked;
  *is_forbidden = false;
  return t == WEFT_F32 ? patch_f32 : t == WEFT_F64 ? patch_f64 : tile_width(t) == 4 ? patch_i32 : patch_i64;
}

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

/* ---- a row by a matrix ---- */

enum { AT_A_TIME = 32 }; /* rows of the matrix, packed before they are multiplied */

/* sum + n products of some columns, n at most AT_A_TIME. */
static void add_rows(const struct dots *d, const char *a, const char *b, int64_t step, int64_t n, int64_t columns, float sum[]) {
  _Alignas(64) float panel[AT_A_TIME * LANES];
  pack(&(struct panel){ b, panel, step, d->b_column, n, columns, LANES, WEFT_F32 });
  multiply(&(struct patch){ .a = a, .b = panel, .start = sum, .c = sum, .a_k = d->a_k, .b_k = sizeof(float) * LANES, .k = n,
                            .rows = 1, .columns = columns }, WEFT_F32);
}

/* A block of products from k on, of some columns from j on. */
static void dot_block(const struct dots *d, int64_t j, int64_t columns, int64_t k, int64_t end) {
  float sum[LANES] = { 0 }, *c = (float *)d->c + j;
  bool adds = d->adds || k;
  for (int64_t n; k < end; k += n) {
    bool is_rest = k >= d->first;
    const char *b = is_rest ? (const char *)d->rest + (k - d->first) * d->rest_k : (const char *)d->b + k * d->b_k;
    n = least(AT_A_TIME, (is_rest || end < d->first ? end : d->first) - k);
    add_rows(d, (const char *)d->a + k * d->a_k, b + j * d->b_column, is_rest ? d->rest_k : d->b_k, n, columns, sum);
  }
  for (int64_t i = 0; i < columns; i++) c[i] = adds ? c[i] + sum[i] : sum[i];
}

static void dots_f32(const struct dots *d) {
  for (int64_t j = 0; j < d->columns; j += LANES)
    for (int64_t k = 0; k == 0 || k < d->k; k += KIR_PRODUCT_BLOCK)
      dot_block(d, j, least(LANES, d->columns - j), k, least(k + KIR_PRODUCT_BLOCK, d->k));
}

static dots_code *dots(weft_dtype t, bool along_k) { return (void)along_k, t == WEFT_F32 ? dots_f32 : NULL; }

static int least_run(void) { return 4 * CACHE_LINE; }
static int turn_columns(void) { return 16; }

const struct contractor contractor_vm = { .name = "vm", .available = available, .lanes = lanes, .rows = rows, .vectors = vectors,
                                         .together = together, .code = code, .pack = pack, .least_run = least_run, .dots = dots,
                                         .turn_columns = turn_columns };
