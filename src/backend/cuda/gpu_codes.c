/* gpu_codes.c -- weights of few bits on a GPU: what codes stand for, and products with them; op/codes.h says what they are.
 *
 * A product has the bits of the host's: products are added in the order of k by fma, in blocks of 512, whose sums are added
 * in order. A
 * warp has 32 columns of a block, so that blocks of one column are computed side by side; what codes stand for is never stored. */
#include "backend/cuda/routine.h"

/* s of `kind`, the number at[g] in memory: 0 f32, 1 f16, 2 bf16, 3 a power of two, 4 e4m3, 5 f64. Twice: of scales and of
 * biases. */
#define NUMBER_AT(s, kind, at) WRITTEN(                                                                                 \
  if (kind == 0 || kind == 5) { s = at[g]; }                                                                            \
  if (kind == 1) {                                                                                                      \
    u32 h = at[g];                                                                                                      \
    u32 far = (h & 0x7c00) == 0x7c00 ? u32(0x7f800000) : u32(0);                                                        \
    s = as_f32(as_u32(as_f32((h & 0x7fff) << 13) * as_f32(0x77800000)) | far | ((h & 0x8000) << 16));                   \
  }                                                                                                                     \
  if (kind == 2) { u32 h = at[g]; s = as_f32(h << 16); }                                                                \
  if (kind == 3) { u32 h = at[g]; s = as_f32(h != 0 ? h << 23 : u32(0x00400000)); }                                     \
  if (kind == 4) { u32 h = at[g]; ) E4M3_OF_H WRITTEN( s = f; })

/* h, a float e4m3, to f: 2^(e - 7) (1 + m / 8); 2^-6 m / 8 where e is 0; the last is nan. */
#define E4M3_OF_H WRITTEN(                                                                                              \
  u32 size = h & 127;                                                                                                   \
  f32 near = as_f32(((size | 8) << 20) + 1006632960) - as_f32(0x3c800000);                                              \
  u32 pattern = size < 8 ? as_u32(near) : (size << 20) + 1006632960;                                                    \
  f32 f = as_f32(pattern | ((h & 128) << 24) | (size == 127 ? u32(0x7fc00000) : u32(0)));)

/* s and bias: of group g. */
#define SCALES_AT WRITTEN(                                                                                              \
  W s = 0;                                                                                                              \
  W bias = 0; ) NUMBER_AT(s, SCALE, scales) WRITTEN(                                                                    \
  if (KIND == 0) { ) NUMBER_AT(bias, BIAS, biases) WRITTEN( })

/* v: what code q stands for. KIND 0: a whole number, 1: e2m1, 2: e4m3. */
#define VALUE_OF_Q WRITTEN(                                                                                             \
  W v = 0;                                                                                                              \
  if (KIND == 0) { v = W(q) * s + bias; }                                                                               \
  if (KIND == 1) {                                                                                                      \
    u32 m4 = q & 7;                                                                                                     \
    u32 far4 = (m4 << 22) + 1056964608;                                                                                 \
    u32 near4 = m4 == 1 ? u32(0x3f000000) : u32(0);                                                                     \
    v = as_f32((m4 < 2 ? near4 : far4) | ((q & 8) << 28)) * s;                                                          \
  }                                                                                                                     \
  if (KIND == 2) { u32 h = q; ) E4M3_OF_H WRITTEN( v = f * s; })

/* v: what code `pos` of row `row` stands for. row_words, row_groups: of a row. */
#define VALUE_AT WRITTEN(                                                                                               \
  u64 bit = pos * BITS;                                                                                                 \
  u64 word_at = row * row_words + bit / 32;                                                                             \
  u32 shift = u32(bit % 32);                                                                                            \
  u32 q = words[word_at] >> shift;                                                                                      \
  if (32 % BITS != 0) { if (shift + BITS > 32) { q = q | (words[word_at + 1] << (32 - shift)); } }                      \
  q = q & ((1 << BITS) - 1);                                                                                            \
  u64 g = row * row_groups + pos / GROUP; ) SCALES_AT VALUE_OF_Q

static const char values_text[] =
  WRITTEN(
entry codes_values(u32* words, S* scales, B* biases, W* y, u64 n, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  u64 row_words = n * BITS / 32;
  u64 row_groups = n / GROUP;
  if (i < all) {
    u64 row = i / n;
    u64 pos = i % n; ) VALUE_AT WRITTEN(
    y[i] = v;
  }
}
  );

static const char codes_text[] =
  /* y [m, n] = x w' or x w of every place; x [m, k], w [rows, per_row]. Rows of y go ROWS at a time, columns 32. */
  WRITTEN(
entry codes_product(f32* x, u32* all_words, S* all_scales, B* all_biases, s64* at_x, s64* at_w, s64* checks, f32* y, u64 m,
                    u64 n, u64 k,
                    u64 w_rows, u64 per_row, s64 xs, s64 ws, u32 row_cuts, u32 column_cuts) {
  shared f32 part[ROWS * 256];
  u64 row_words = per_row * BITS / 32;
  u64 row_groups = per_row / GROUP;
  u64 place = u64(block / (row_cuts * column_cuts));
  u64 first = u64(block / column_cuts % row_cuts) * ROWS;
  u64 column = u64(block % column_cuts) * 32 + u64(lane);
  u64 of_x = place;
  u64 of_w = place;
  if (IS_GATHERED) {
    s64 chosen_x = at_x[place];
    s64 chosen_w = at_w[place];
    if (chosen_x < 0 || chosen_x >= xs) {
      atom_min(checks[0], s64(place));
      repeat (i, 3) { atom_min(checks[1 + i], (s64(place) << 22) | s64((u64(chosen_x) >> (22 * i)) & 4194303)); }
      chosen_x = 0;
    }
    if (chosen_w < 0 || chosen_w >= ws) {
      atom_min(checks[4], s64(place));
      repeat (i, 3) { atom_min(checks[5 + i], (s64(place) << 22) | s64((u64(chosen_w) >> (22 * i)) & 4194303)); }
      chosen_w = 0;
    }
    of_x = u64(chosen_x);
    of_w = u64(chosen_w);
  }
  u32* words = all_words + of_w * w_rows * row_words;
  S* scales = all_scales + of_w * w_rows * row_groups;
  B* biases = all_biases + of_w * w_rows * row_groups;
  u64 j = min(column, n - 1);
  u64 row_at[ROWS];
  f32 sum[ROWS];
  f32 total[ROWS];
  repeat (r, ROWS) {
    row_at[r] = (of_x * m + min(first + r, m - 1)) * k;
    total[r] = k == 0 ? f32(0) : as_f32(0x80000000);
  }
  u64 base = 0;
  while (base < k) {
    u64 c = base + u64(tid / 32) * BLOCK;
    u64 end = min(c + BLOCK, k);
    repeat (r, ROWS) { sum[r] = 0; }
    if (IS_TRANSPOSED && 32 % BITS == 0) { /* a word at a time */
      while (c < end) {
        u32 word = words[j * row_words + c / (32 / BITS)];
        u64 g = j * row_groups + c / GROUP; ) SCALES_AT WRITTEN(
        repeat (e, 32 / BITS) {
          u32 q = (word >> (e * BITS)) & ((1 << BITS) - 1); ) VALUE_OF_Q WRITTEN(
          repeat (r, ROWS) { sum[r] = fma(x[row_at[r] + c + e], v, sum[r]); }
        }
        c = c + 32 / BITS;
      }
    }
    while (c < end) {
      u64 row = IS_TRANSPOSED ? j : c;
      u64 pos = IS_TRANSPOSED ? c : j; ) VALUE_AT WRITTEN(
      repeat (r, ROWS) { sum[r] = fma(x[row_at[r] + c], v, sum[r]); }
      c = c + 1;
    }
    repeat (r, ROWS) { part[r * 256 + tid] = sum[r]; }
    bar;
    if (tid < 32) {
      repeat (block_of_8, 8) {
        if (base + block_of_8 * BLOCK < k) { repeat (r, ROWS) { total[r] = total[r] + part[r * 256 + block_of_8 * 32 + tid]; } }
      }
    }
    bar;
    base = base + 8 * BLOCK;
  }
  if (tid < 32 && column < n) {
    repeat (r, ROWS) { if (first + r < m) { y[(place * m + first + r) * n + column] = total[r]; } }
  }
}
  );

/* ---- what they are given ---- */

/* number: group, bits, mode, is_transposed, is_gathered; modes as in weft.h. */
enum { GROUP, BITS, MODE, IS_TRANSPOSED, IS_GATHERED };

static int number_kind(weft_dtype t, int64_t mode) {
  switch (t) {
    case WEFT_F64: return 5;
    case WEFT_F32: return 0;
    case WEFT_F16: return 1;
    case WEFT_BF16: return 2;
    default: return mode == WEFT_CODES_NVFP4 ? 4 : 3;
  }
}

static const char *number_type(int kind) { return kind == 0 ? "f32" : kind == 5 ? "f64" : kind < 3 ? "u16" : "u8"; }

static int codes_load(struct gpu *g, const char *text, const struct routine_call *c, int first, weft_dtype w, int rows,
                      struct routine_module **m) {
  const int64_t *n = c->number;
  bool is_whole = n[MODE] == WEFT_CODES_AFFINE;
  int scale = number_kind(c->array[first + 1].dtype, n[MODE]), bias = is_whole ? number_kind(c->array[first + 2].dtype,
      n[MODE]) : 0;
  const struct written_name names[] = {
    { "S", 0, number_type(scale) }, { "B", 0, number_type(bias) }, { "W", 0, w == WEFT_F64 ? "f64" : "f32" }, { "SCALE",
        scale, NULL },
    { "BIAS", bias, NULL }, { "BITS", n[BITS], NULL }, { "GROUP", n[GROUP], NULL }, { "KIND",
                                                                                      is_whole ? 0 : n[BITS] == 4 ? 1 : 2, NULL },
    { "ROWS", rows, NULL }, { "IS_TRANSPOSED", n[IS_TRANSPOSED] != 0, NULL }, { "IS_GATHERED", n[IS_GATHERED] != 0, NULL },
    { "BLOCK", KIR_PRODUCT_BLOCK, NULL }, { NULL, 0, NULL },
  };
  bool is_wide = scale == 5 || bias == 5;
  if (is_wide && (scale != bias || w != WEFT_F64)) return DEVICE_CANNOT;
  return routine_load(g, text, names, m);
}

static int64_t count_of(const struct routine_array *a, int without) {
  int64_t n = 1;
  for (int k = 0; k < a->rank - without; k++) n *= a->dims[k];
  return n;
}

/* words, scales, biases if codes are whole numbers; what they stand for. */
int dequantize_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *a = c->array, *y = &a[c->n_arrays - 1];
  struct routine_module *m;
  int how = codes_load(g, values_text, c, 0, y->dtype, 1, &m);
  if (how || only_asks) return how;
  int64_t all = count_of(y, 0);
  return LAUNCH(g, m, "codes_values", all ? (all - 1) / 256 + 1 : 0, 256, a[0].at, a[1].at, a[2].at, y->at,
                (uint64_t)routine_last(y, 1),
                (uint64_t)all);
}

/* x, codes as above, places of x and of codes if they are gathered; the product. */
int code_product_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  const struct routine_array *a = c->array, *x = &a[0], *w = &a[1], *s = &a[2], *y = &a[c->n_arrays - 1];
  bool is_whole = c->number[MODE] == WEFT_CODES_AFFINE, is_gathered = c->number[IS_GATHERED] != 0;
  int places = is_whole ? 4 : 3;
  int64_t m = routine_last(y, 2), n = routine_last(y, 1), k = routine_last(x, 1), all = count_of(y, 2), rows = m == 1 ? 1 : 8;
  struct routine_module *module;
  int how = codes_load(g, codes_text, c, 1, WEFT_F32, (int)rows, &module);
  if (how || !m || !n || !all) return how;
  int64_t row_cuts = (m - 1) / rows + 1, column_cuts = (n - 1) / 32 + 1;
  if (row_cuts > INT32_MAX / column_cuts || all > INT32_MAX / (row_cuts * column_cuts)) return DEVICE_CANNOT;
  if (only_asks) return CUDA_OK;
  return LAUNCH(g, module, "codes_product", all * row_cuts * column_cuts, 256, x->at, w->at, s->at, is_whole ? a[3].at : 0,
                is_gathered ? a[places].at : 0, is_gathered ? a[places + 1].at : 0, (uint64_t)(uintptr_t)c->words, y->at,
                  (uint64_t)m,
                (uint64_t)n, (uint64_t)k, (uint64_t)routine_last(w, 2), (uint64_t)(routine_last(s, 1) * c->number[GROUP]),
                (uint64_t)count_of(x, 2), (uint64_t)count_of(w, 2), (uint64_t)row_cuts, (uint64_t)column_cuts);
}
