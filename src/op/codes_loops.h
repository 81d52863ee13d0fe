/* codes_loops.h -- the loops of codes.c, for vectors of LANES floats: included once for each instruction set (lanes.h). */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t NAME(bits) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t NAME(shorts) __attribute__((vector_size(2 * LANES), aligned(1), may_alias));
typedef uint8_t NAME(bytes) __attribute__((vector_size(LANES), aligned(1), may_alias));
#define floats NAME(floats)
#define bits_t NAME(bits)
#define ints NAME(ints)

#if LANES == 16
#define ROWS 12
#define EACH(F, h) F(h, 0), F(h, 1), F(h, 2), F(h, 3), F(h, 4), F(h, 5), F(h, 6), F(h, 7), F(h, 8), F(h, 9), F(h, 10), F(h, 11), \
                   F(h, 12), F(h, 13), F(h, 14), F(h, 15)
#elif LANES == 8
#define ROWS 6
#define EACH(F, h) F(h, 0), F(h, 1), F(h, 2), F(h, 3), F(h, 4), F(h, 5), F(h, 6), F(h, 7)
#else
#define ROWS 4
#define EACH(F, h) F(h, 0), F(h, 1), F(h, 2), F(h, 3)
#endif
#if LANES > 4
#define UNROLL_CODES _Pragma("GCC unroll 16")
#else
#define UNROLL_CODES
#endif
#define SELF(h, l) (l)

ALWAYS floats NAME(splat)(float x) { return x - (floats){ 0 }; }

/* ---- what instruction sets have ---- */

#if LANES == 16
ALWAYS floats NAME(fma)(floats a, floats b, floats c) { return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
ALWAYS bits_t NAME(pick)(const uint32_t w[8], bits_t i) {
  return (bits_t)_mm512_permutexvar_epi32((__m512i)i, _mm512_castsi256_si512(_mm256_loadu_si256((const void *)w)));
}
ALWAYS floats NAME(look)(bits_t q, bool is_fp4) {
  const floats whole = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
  const floats fp4 = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };
  return (floats)_mm512_permutexvar_ps((__m512i)q, (__m512)(is_fp4 ? fp4 : whole));
}
#elif LANES == 8
ALWAYS floats NAME(fma)(floats a, floats b, floats c) { return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
ALWAYS bits_t NAME(pick)(const uint32_t w[8], bits_t i) {
  return (bits_t)_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)w), (__m256i)i);
}
ALWAYS floats NAME(look)(bits_t q, bool is_fp4) {
  const floats sizes = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
  if (!is_fp4) return __builtin_convertvector((ints)(q & 15), floats);
  return (floats)((bits_t)_mm256_permutevar8x32_ps((__m256)sizes, (__m256i)q) | (q & 8) << 28);
}
#else
ALWAYS floats NAME(fma)(floats a, floats b, floats c) {
  for (int l = 0; l < LANES; l++) c[l] = fmaf(a[l], b[l], c[l]);
  return c;
}
ALWAYS bits_t NAME(pick)(const uint32_t w[8], bits_t i) {
  for (int l = 0; l < LANES; l++) i[l] = w[i[l]];
  return i;
}
ALWAYS floats NAME(look)(bits_t q, bool is_fp4) {
  static const float sizes[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
  floats x;
  if (!is_fp4) return __builtin_convertvector((ints)(q & 15), floats);
  for (int l = 0; l < LANES; l++) x[l] = sizes[q[l] & 7];
  return (floats)((bits_t)x | (q & 8) << 28);
}
#endif

/* v[i][j] = v[j][i] */
#if LANES == 16
ALWAYS void NAME(turn)(bits_t v[LANES]) {
  __m512i a[16], b[16];
  UNROLL_CODES for (int i = 0; i < 16; i += 2) {  /* pairs of rows, element by element */
    a[i] = _mm512_unpacklo_epi32((__m512i)v[i], (__m512i)v[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32((__m512i)v[i], (__m512i)v[i + 1]);
  }
  UNROLL_CODES for (int i = 0; i < 16; i++) {     /* b[4 r + c]: of rows 4 r .. 4 r + 3, columns c, c + 4, c + 8 and c + 12 */
    __m512i x = a[(i & 12) + (i >> 1 & 1)], y = a[(i & 12) + 2 + (i >> 1 & 1)];
    b[i] = i & 1 ? _mm512_unpackhi_epi64(x, y) : _mm512_unpacklo_epi64(x, y);
  }
  UNROLL_CODES for (int c = 0; c < 4; c++) {      /* four by four of those */
    __m512i even = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x88), odd = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xdd);
    __m512i even2 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x88), odd2 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xdd);
    v[c] = (bits_t)_mm512_shuffle_i32x4(even, even2, 0x88), v[c + 8] = (bits_t)_mm512_shuffle_i32x4(even, even2, 0xdd);
    v[c + 4] = (bits_t)_mm512_shuffle_i32x4(odd, odd2, 0x88), v[c + 12] = (bits_t)_mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
}
#elif LANES == 8
ALWAYS void NAME(turn)(bits_t v[LANES]) {
  __m256i a[8], b[8];
  UNROLL_CODES for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32((__m256i)v[i], (__m256i)v[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32((__m256i)v[i], (__m256i)v[i + 1]);
  }
  UNROLL_CODES for (int i = 0; i < 8; i++) {      /* b[4 r + c]: of rows 4 r .. 4 r + 3, columns c and c + 4 */
    __m256i x = a[(i & 4) + (i >> 1 & 1)], y = a[(i & 4) + 2 + (i >> 1 & 1)];
    b[i] = i & 1 ? _mm256_unpackhi_epi64(x, y) : _mm256_unpacklo_epi64(x, y);
  }
  UNROLL_CODES for (int c = 0; c < 4; c++)
    v[c] = (bits_t)_mm256_permute2x128_si256(b[c], b[4 + c], 0x20),
    v[c + 4] = (bits_t)_mm256_permute2x128_si256(b[c], b[4 + c], 0x31);
}
#else
ALWAYS void NAME(turn)(bits_t v[LANES]) {
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < i; j++) {
      uint32_t one = v[i][j];
      v[i][j] = v[j][i], v[j][i] = one;
    }
}
#endif

/* ---- what codes stand for ---- */

/* e4m3: 2^(e - 7) (1 + m / 8); 2^-6 m / 8 where e is 0; the last is nan. */
ALWAYS floats NAME(e4m3)(bits_t q) {
  bits_t size = q & 127, sign = (q & 128) << 24;
  floats near = (floats)(((size | 8) << 20) + (120u << 23)) - 0x1p-6f, far = (floats)((size << 20) + (120u << 23));
  bits_t is_near = (bits_t)(size < 8), nan = (bits_t)(size == 127) & 0x7fc00000;
  return (floats)(((bits_t)near & is_near) | ((bits_t)far & ~is_near) | sign | nan);
}

ALWAYS floats NAME(f16)(bits_t h) {
  bits_t size = (bits_t)((floats)((h & 0x7fff) << 13) * 0x1p112f), far = (bits_t)((h & 0x7c00) == 0x7c00) & 0x7f800000;
  return (floats)(size | far | (h & 0x8000) << 16);
}

/* LANES scales from p on. */
ALWAYS floats NAME(scale)(const void *p, enum code_scale kind) {
  switch (kind) {
  case SCALE_F32: return *(const floats *)p;
  case SCALE_F16: return NAME(f16)(__builtin_convertvector(*(const NAME(shorts) *)p, bits_t));
  case SCALE_BF16: return (floats)(__builtin_convertvector(*(const NAME(shorts) *)p, bits_t) << 16);
  case SCALE_E4M3: return NAME(e4m3)(__builtin_convertvector(*(const NAME(bytes) *)p, bits_t));
  case SCALE_E8M0: {
    bits_t e = __builtin_convertvector(*(const NAME(bytes) *)p, bits_t);
    return (floats)(e << 23 | ((bits_t)(e == 0) & 0x00400000));
  }
  }
  __builtin_unreachable();
}

/* Scales, or biases, i .. i + n - 1, n at most LANES; after them what follows in memory, or zero. */
APART floats NAME(scales)(const struct codes *w, bool are_biases, int64_t i, int n) {
  enum code_scale kind = are_biases ? w->bias : w->scale;
  const char *p = (const char *)(are_biases ? w->biases : w->scales) + i * scale_bytes[kind];
  char some[4 * LANES] = { 0 };
  if (i + LANES > w->rows * groups_of(w, w->n)) p = memcpy(some, p, (size_t)(n * scale_bytes[kind]));
  return NAME(scale)(p, kind);
}

/* Codes in the low bits of q; what is above them does not matter. */
ALWAYS floats NAME(value)(bits_t q, enum code_kind kind, int bits) {
  if (bits == 4) return NAME(look)(q, kind == CODE_FP4);
  if (kind == CODE_WHOLE) return __builtin_convertvector((ints)(q & ((1u << bits) - 1)), floats);
  return NAME(e4m3)(q);
}

ALWAYS floats NAME(weight)(bits_t q, floats s, floats b, enum code_kind kind, int bits) {
  floats x = NAME(value)(q, kind, bits) * s;
  if (kind == CODE_WHOLE) x += b;
  return x;
}

/* Code c of a block whose words are w[i]. */
ALWAYS bits_t NAME(code)(const bits_t *w, int64_t step, int c, int bits) {
  int first = c * bits / 32, shift = c * bits % 32;
  bits_t q = w[first * step] >> shift;
  if (shift + bits > 32) q |= w[(first + 1) * step] << (32 - shift);
  return q;
}

/* ---- lanes are rows: strips of LANES rows of w, from row `column` of it on; those beyond the last are the last again ---- */

enum { NAME(STRIPS) = LANES > 4 ? 4 : 2 };
#define STRIPS NAME(STRIPS)

struct NAME(turned) {                     /* of some strips, at most STRIPS */
  _Alignas(64) floats s[LANES][STRIPS], b[LANES][STRIPS];  /* of LANES groups; a vector is not to cross lines of the cache */
  bits_t w[LANES > 8 ? LANES : 8][STRIPS];    /* words of LANES blocks, or of one whose codes cross words */
  bits_t exponent;                            /* bits of floats' exponents: a constant that compilers shall not know */
  bool is_moderate;                           /* no scale is so large that its products by 2^23 are not finite */
};

/* ---- whole codes without a shift and a lookup each ----
 *
 * The float 2^(23 - m) + q has a code q in its bits from m on, where the code stands in a word already: a word whose exponent bits
 * are all set becomes that sum by one `and`. The product q s, rounded once, is fma(2^(23 - m) + q, s, -2^(23 - m) s), if that last
 * term is finite. So a weight is an and, an fma and a sum; by a shift, a lookup, a product and a sum products by a row take a ninth
 * longer (Zen 4). A product that is 0 is never -0 then, which no sum of products can tell. */

#define LARGE_SCALE 0x73800000u  /* 2^104 */
enum { NAME(SUMS) = 11 };        /* codes of a word that stand below its exponent bits, at most: of 2 bits */
#define SUMS NAME(SUMS)

/* Of so many bits each; those above them are shifted there. */
ALWAYS int NAME(n_low)(int bits) { return 23 / bits; }
ALWAYS bool NAME(may_be_sums)(enum code_kind kind, int bits) {
  return LANES > 4 && __builtin_constant_p(bits) && kind == CODE_WHOLE && 32 % bits == 0;
}

ALWAYS bool NAME(has_large)(const bits_t s[LANES]) {
  bits_t is_large = { 0 };
  bool any = false;
  for (int i = 0; i < LANES; i++) is_large |= (bits_t)((s[i] & 0x7fffffff) >= LARGE_SCALE);
  for (int l = 0; l < LANES; l++) any |= is_large[l] != 0;
  return any;
}

/* -2^(23 - m) s for codes from bit m on. */
ALWAYS void NAME(begin_sums)(const floats *s, int bits, int strips, floats less[SUMS][STRIPS]) {
  UNROLL_CODES for (int c = 0; c < NAME(n_low)(bits); c++)
    for (int u = 0; u < strips; u++) less[c][u] = s[u] * -(float)(1 << (23 - c * bits));
}

/* What code c of some words stands for; `low` and `high` are those words and the same shifted, with all bits of exponents set. That
 * they are set somewhere else leaves one operation here: a compiler that knows both constants makes two of it. */
ALWAYS floats NAME(weight_by_sum)(bits_t low, bits_t high, int c, int bits, floats s, floats b, floats less) {
  int m = c % NAME(n_low)(bits) * bits;
  uint32_t sum = (uint32_t)(127 + 23 - m) << 23 | ((1u << bits) - 1) << m;
  return NAME(fma)((floats)((c < NAME(n_low)(bits) ? low : high) & sum), s, less) + b;
}

/* ---- strips ---- */

ALWAYS int64_t NAME(row_at)(const struct codes *w, int64_t row) { return row < w->rows ? row : w->rows - 1; }

/* How far behind element `at` of a row of n stands what is read n_ahead elements later: in the same row, or, as strips are read to
 * their ends, at the beginning of the same row of the strips that come next. */
ALWAYS int64_t NAME(further)(int64_t n_ahead, int64_t at, int64_t n, int strips) {
  return n_ahead + (at + n_ahead < n ? 0 : (strips * LANES - 1) * n);
}

/* LANES scales of each of LANES rows, those of neighbours `apart` bytes apart, none beyond the array. Those that come next are
 * asked for: they are `next` bytes further. */
ALWAYS void NAME(scales_of_rows)(const char *p, int64_t apart, int64_t next, enum code_scale kind, bits_t v[LANES]) {
  for (int i = 0; i < LANES; i++) {
    const char *row = p + i * apart;
    __builtin_prefetch(row + next);
    v[i] = (bits_t)NAME(scale)(row, kind);
  }
}

/* LANES groups from g on. */
APART void NAME(turn_scales)(const struct codes *w, int64_t column, int64_t g, int strips, struct NAME(turned) *t) {
  int64_t groups = groups_of(w, w->n);
  int n = groups - g < LANES ? (int)(groups - g) : LANES;
  t->exponent = (bits_t){ 0 } + 0x7f800000u, t->is_moderate = true;
  for (int u = 0; u < strips; u++)
    for (int k = 0; k < 1 + (w->kind == CODE_WHOLE); k++) {
      bits_t v[LANES];
      int64_t row = column + u * LANES, at = row * groups + g;
      enum code_scale kind = k ? w->bias : w->scale;
      bool is_inside = row + LANES <= w->rows && at + (LANES - 1) * groups + LANES <= w->rows * groups;
      const char *p = (const char *)(k ? w->biases : w->scales) + at * scale_bytes[kind];
      int64_t next = scale_bytes[kind] * NAME(further)(LANES, g, groups, strips);
      if (is_inside && kind == SCALE_F32) NAME(scales_of_rows)(p, 4 * groups, next, SCALE_F32, v);
      else if (is_inside && kind == SCALE_BF16) NAME(scales_of_rows)(p, 2 * groups, next, SCALE_BF16, v);
      else if (is_inside && kind == SCALE_F16) NAME(scales_of_rows)(p, 2 * groups, next, SCALE_F16, v);
      else for (int i = 0; i < LANES; i++) v[i] = (bits_t)NAME(scales)(w, k, NAME(row_at)(w, row + i) * groups + g, n);
      t->is_moderate &= k || !NAME(has_large)(v);
      NAME(turn)(v);
      for (int i = 0; i < LANES; i++) (k ? t->b : t->s)[i][u] = (floats)v[i];
    }
}

/* The words of one block, whose codes cross words, from word `at` of each row on. */
APART void NAME(turn_block)(const struct codes *w, int64_t column, int64_t at, int strips, struct NAME(turned) *t) {
  int64_t words = w->n * w->bits / 32;
  for (int u = 0; u < strips; u++) {
    const uint32_t *row[LANES];
    for (int i = 0; i < LANES; i++) row[i] = w->words + NAME(row_at)(w, column + u * LANES + i) * words + at;
    for (int k = 0; k < w->bits; k++) {
      uint32_t lane[LANES];
      for (int i = 0; i < LANES; i++) lane[i] = row[i][k];
      memcpy(&t->w[k][u], lane, sizeof lane);
    }
  }
}

/* LANES words from word `at` of each row on, or as many as are left; those that come soon are asked for. */
APART void NAME(turn_words)(const struct codes *w, int64_t column, int64_t at, int strips, struct NAME(turned) *t) {
  int64_t words = w->n * w->bits / 32, left = words - at, next = NAME(further)(AHEAD * 16, at, words, strips);
  for (int u = 0; u < strips; u++) {
    int64_t row = column + u * LANES;
    const uint32_t *p = w->words + row * words + at;
    bits_t v[LANES];
    if (left >= LANES && row + LANES <= w->rows)
      UNROLL_CODES for (int i = 0; i < LANES; i++, p += words) {
        __builtin_prefetch(p + next, 0, 2); /* to the second cache: in the first one such rows share few sets */
        v[i] = *(const bits_t *)p;
      }
    else
      for (int i = 0; i < LANES; i++) {
        uint32_t some[LANES] = { 0 };
        memcpy(some, w->words + NAME(row_at)(w, row + i) * words + at, (size_t)(left < LANES ? left : LANES) * sizeof *some);
        memcpy(&v[i], some, sizeof some);
      }
    NAME(turn)(v);
    for (int i = 0; i < LANES; i++) t->w[i][u] = v[i];
  }
}

/* Blocks that are turned at a time, their codes, and what is left of them at code k. */
ALWAYS int NAME(blocks_of)(int bits) { return 32 % bits ? 1 : LANES; }
ALWAYS int NAME(blocks_at)(const struct codes *w, int64_t k, int bits) {
  int64_t left = (w->n - k) / codes_of(bits);
  return left < NAME(blocks_of)(bits) ? (int)left : NAME(blocks_of)(bits);
}
ALWAYS void NAME(turn_both)(const struct codes *w, int64_t column, int64_t k, int bits, int strips, struct NAME(turned) *t) {
  if (k % (w->group * LANES) == 0) NAME(turn_scales)(w, column, groups_of(w, k), strips, t);
  if (32 % bits) NAME(turn_block)(w, column, k * bits / 32, strips, t);
  else NAME(turn_words)(w, column, k * bits / 32, strips, t);
}

/* Stores a vector of results; of the last one, at the right edge, only the columns that there are. */
ALWAYS void NAME(put)(const struct codes_product *p, int64_t r, int64_t column, floats v) {
  float lane[LANES], *to = p->y + r * p->n + column;
  int64_t n = p->n - column < LANES ? p->n - column : LANES;
  if (n == LANES) { *(floats *)to = v; return; }
  memcpy(lane, &v, sizeof lane);
  for (int64_t i = 0; i < n; i++) to[i] = lane[i];
}

/* rows of x, of which those beyond the last are the last again, by `strips`. */
ALWAYS void NAME(few)(const struct codes_product *p, const struct codes *w, int64_t column, enum code_kind kind, int bits, int rows,
                      int strips) {
  const float *x[FEW];
  struct NAME(turned) t;
  _Alignas(64) floats total[FEW][STRIPS], sum[FEW][STRIPS], less[SUMS][STRIPS];
  const int n_words = words_of(bits), n_codes = codes_of(bits);
  for (int r = 0; r < rows; r++) {
    x[r] = row_of(p, r < p->m ? r : p->m - 1);
    for (int u = 0; u < strips; u++) total[r][u] = NAME(splat)(-0.0f), sum[r][u] = NAME(splat)(0);
  }
  for (int64_t k = 0; k < w->n; k += NAME(blocks_of)(bits) * n_codes) {
    if (k && k % BLOCK == 0)
      for (int r = 0; r < rows; r++)
        for (int u = 0; u < strips; u++) total[r][u] += sum[r][u], sum[r][u] = NAME(splat)(0);
    NAME(turn_both)(w, column, k, bits, strips, &t);
    int blocks = NAME(blocks_at)(w, k, bits);
    if (NAME(may_be_sums)(kind, bits) && t.is_moderate)
      for (int j = 0; j < blocks; j++) {
        int64_t first = k + j * n_codes;
        const floats *s = t.s[groups_of(w, first) % LANES], *b = t.b[groups_of(w, first) % LANES];
        bits_t low[STRIPS], high[STRIPS];
        if (!j || first % w->group == 0) NAME(begin_sums)(s, bits, strips, less);
        for (int u = 0; u < strips; u++)
          low[u] = t.w[j][u] | t.exponent, high[u] = t.w[j][u] >> NAME(n_low)(bits) * bits | t.exponent;
        UNROLL_CODES for (int c = 0; c < n_codes; c++)
          for (int u = 0; u < strips; u++) {
            floats v = NAME(weight_by_sum)(low[u], high[u], c, bits, s[u], b[u], less[c % NAME(n_low)(bits)][u]);
            for (int r = 0; r < rows; r++) sum[r][u] = NAME(fma)(NAME(splat)(x[r][first + c]), v, sum[r][u]);
          }
      }
    else
      for (int j = 0; j < blocks; j++) {
        int64_t first = k + j * n_codes;
        const floats *s = t.s[groups_of(w, first) % LANES], *b = t.b[groups_of(w, first) % LANES];
        UNROLL_CODES for (int c = 0; c < n_codes; c++)
          for (int u = 0; u < strips; u++) {
            bits_t q = NAME(code)(&t.w[j * n_words][u], STRIPS, c, bits);
            floats v = NAME(weight)(q, s[u], b[u], kind, bits);
            for (int r = 0; r < rows; r++) sum[r][u] = NAME(fma)(NAME(splat)(x[r][first + c]), v, sum[r][u]);
          }
      }
  }
  for (int r = 0; r < rows && r < p->m; r++)
    for (int u = 0; u < strips; u++)
      if (column + u * LANES < p->n) NAME(put)(p, r, column + u * LANES, total[r][u] + sum[r][u]);
}

/* w[k, ..] of PANEL rows from `column` on, k codes from `from` on: panel [k, PANEL]. */
ALWAYS void NAME(tile_of_rows)(const struct codes *w, int64_t column, int64_t from, int64_t n, float *panel, enum code_kind kind,
                               int bits) {
  const int n_words = words_of(bits), n_codes = codes_of(bits);
  struct NAME(turned) t;
  for (int u = 0; u < PANEL / LANES; u++) {
    if (from % (w->group * LANES)) NAME(turn_scales)(w, column + u * LANES, groups_of(w, from) / LANES * LANES, 1, &t);
    for (int64_t k = from; k < from + n; k += NAME(blocks_of)(bits) * n_codes) {
      NAME(turn_both)(w, column + u * LANES, k, bits, 1, &t);
      for (int j = 0, blocks = NAME(blocks_at)(w, k, bits); j < blocks; j++) {
        int64_t first = k + j * n_codes;
        floats s = t.s[groups_of(w, first) % LANES][0], b = t.b[groups_of(w, first) % LANES][0];
        UNROLL_CODES for (int c = 0; c < n_codes; c++)
          *(floats *)(panel + (first - from + c) * PANEL + u * LANES) =
              NAME(weight)(NAME(code)(&t.w[j * n_words][0], STRIPS, c, bits), s, b, kind, bits);
      }
    }
  }
}

/* ---- lanes are codes of one row ---- */

/* PANEL codes of row i from code `from` on; those beyond the row's last stand for nothing. Words and scales are loaded with what
 * follows them in memory, and copied where the array ends before. */
ALWAYS void NAME(line)(const struct codes *w, int64_t i, int64_t from, enum code_kind kind, int bits, float *to) {
  int64_t g = i * groups_of(w, w->n) + groups_of(w, from);
  int64_t at = (i * w->n + from) * bits / 32, left = w->rows * w->n * bits / 32 - at;
  int some = w->n - from > w->group ? 2 : 1;
  floats s = NAME(scales)(w, false, g, some), b = kind == CODE_WHOLE ? NAME(scales)(w, true, g, some) : s;
  const bits_t lane = { EACH(SELF, 0) };
  uint32_t last[8] = { 0 };
  const uint32_t *words = w->words + at;
  if (left < 8) words = memcpy(last, words, (size_t)left * sizeof *last);
  UNROLL_CODES for (int v = 0; v < PANEL / LANES; v++) {
    bits_t bit = (lane + (uint32_t)(v * LANES)) * (uint32_t)bits, first = bit >> 5, shift = bit & 31;
    bits_t q = NAME(pick)(words, first) >> shift;
    if (32 % bits) q |= NAME(pick)(words, (first + 1) & 7) << 1 << (31 - shift);
    bool is_first = v * LANES < w->group;
    floats one = NAME(splat)(is_first ? s[0] : s[1]), more = NAME(splat)(is_first ? b[0] : b[1]);
    *(floats *)(to + v * LANES) = NAME(weight)(q, one, more, kind, bits);
  }
}

ALWAYS void NAME(row_by)(const struct codes *w, int64_t i, float *to, enum code_kind kind, int bits) {
  for (int64_t k = 0; k < w->n; k += PANEL) {
    float some[PANEL];
    int n = w->n - k < PANEL ? (int)(w->n - k) : PANEL;
    NAME(line)(w, i, k, kind, bits, n == PANEL ? to + k : some);
    if (n < PANEL) memcpy(to + k, some, (size_t)n * sizeof *to);
  }
}

ALWAYS void NAME(tile_of_codes)(const struct codes *w, int64_t column, int64_t from, int64_t n, float *panel, enum code_kind kind,
                                int bits) {
  for (int64_t k = 0; k < n; k++) NAME(line)(w, from + k, column, kind, bits, panel + k * PANEL);
}

/* ---- patches: rows of x, packed [k, rows], by two vectors of a panel ---- */

ALWAYS void NAME(patch)(const float *x, const float *panel, int64_t k, floats sum[][2], int rows) {
  floats s[ROWS][2];
  for (int r = 0; r < rows; r++) s[r][0] = s[r][1] = NAME(splat)(0);
  for (int64_t i = 0; i < k; i++, x += rows, panel += PANEL) {
    floats b0 = *(const floats *)panel, b1 = *(const floats *)(panel + LANES);
    for (int r = 0; r < rows; r++) {
      floats a = NAME(splat)(x[r]);
      s[r][0] = NAME(fma)(a, b0, s[r][0]), s[r][1] = NAME(fma)(a, b1, s[r][1]);
    }
  }
  for (int r = 0; r < rows; r++) sum[r][0] = s[r][0], sum[r][1] = s[r][1];
}

static IN_VECTORS void NAME(patch_of)(const float *x, const float *panel, int64_t k, floats sum[][2], int rows) {
  switch (rows) {
#define PATCH(r) case r: NAME(patch)(x, panel, k, sum, r); break;
  PATCH(1) PATCH(2) PATCH(3) PATCH(4)
#if ROWS > 4
  PATCH(5) PATCH(6)
#endif
#if ROWS > 6
  PATCH(7) PATCH(8) PATCH(9) PATCH(10) PATCH(11) PATCH(12)
#endif
#undef PATCH
  }
}

/* Rows r .. of x, by columns of the panel that begin at `column` of y: the sum of a block, added to those before. */
static IN_VECTORS void NAME(multiply)(const struct codes_product *p, const float *x, const float *panel, int64_t k, int64_t r,
                                      int rows, int64_t column, bool adds) {
  for (int v = 0; v < PANEL && column + v < p->n; v += 2 * LANES) {
    floats sum[ROWS][2];
    NAME(patch_of)(x, panel + v, k, sum, rows);
    for (int i = 0; i < rows; i++)
      for (int h = 0; h < 2; h++) {
        int64_t at = column + v + h * LANES, n = p->n - at < LANES ? p->n - at : LANES;
        float *to = p->y + (r + i) * p->n + at, lane[LANES];
        if (n == LANES && adds) *(floats *)to += sum[i][h];
        else if (n == LANES) *(floats *)to = sum[i][h];
        else memcpy(lane, &sum[i][h], sizeof lane);
        for (int64_t j = 0; n < LANES && j < n; j++) to[j] = adds ? to[j] + lane[j] : lane[j];
      }
  }
}

/* Rows from .. from + n - 1 of x: blocks of BLOCK products, in each parts of ROWS rows, in each [k, rows]. */
static void NAME(pack)(const struct codes_product *p, int64_t from, int64_t n, float *to) {
  for (int64_t k = 0; k < p->k; k += BLOCK) {
    int64_t some = p->k - k < BLOCK ? p->k - k : BLOCK;
    for (int64_t r = 0; r < n; r += ROWS) {
      int64_t rows = n - r < ROWS ? n - r : ROWS;
      for (int64_t j = 0; j < rows; j++) {
        const float *x = row_of(p, from + r + j) + k;
        for (int64_t i = 0; i < some; i++) to[i * rows + j] = x[i];
      }
      to += rows * some;
    }
  }
}

typedef void NAME(tile)(const struct codes *, int64_t column, int64_t from, int64_t n, float *panel, bool is_transposed);

static IN_VECTORS void NAME(by_panels)(const struct codes_product *p, int64_t from, int64_t to, float *room, NAME(tile) *tile) {
  float *panel = room, *packed = room + BLOCK * PANEL;
  int64_t end = to * CODES_PART < p->n ? to * CODES_PART : p->n;
  for (int64_t first = 0; first < p->m; first += AT_ONCE) {
    int64_t n = p->m - first < AT_ONCE ? p->m - first : AT_ONCE;
    NAME(pack)(p, first, n, packed);
    for (int64_t column = from * CODES_PART; column < end; column += PANEL) {
      const float *x = packed;
      for (int64_t k = 0; k < p->k; k += BLOCK) {
        int64_t some = p->k - k < BLOCK ? p->k - k : BLOCK;
        tile(&p->w, column, k, some, panel, p->is_transposed);
        for (int64_t r = 0; r < n; r += ROWS) {
          int rows = n - r < ROWS ? (int)(n - r) : ROWS;
          NAME(multiply)(p, x, panel, some, first + r, rows, column, k > 0);
          x += rows * some;
        }
      }
    }
  }
}

static void NAME(nothing)(const struct codes_product *p, int64_t from, int64_t to) {
  int64_t end = to * CODES_PART < p->n ? to * CODES_PART : p->n, begin = from * CODES_PART;
  for (int64_t r = 0; r < p->m; r++) memset(p->y + r * p->n + begin, 0, sizeof(float) * (size_t)(end - begin));
}

/* ---- by form ---- */

/* Codes that cross words have one form for all bits; without vectors worth the name there is one form for all. */
#define FORM(name, kind, bits)                                                                                          \
  static IN_VECTORS void NAME(tile_##name)(const struct codes *w, int64_t column, int64_t from, int64_t n, float *panel,  \
                                           bool is_transposed) {                                                          \
    if (is_transposed) NAME(tile_of_rows)(w, column, from, n, panel, kind, bits);                                       \
    else NAME(tile_of_codes)(w, column, from, n, panel, kind, bits);                                                    \
  }                                                                                                                     \
  static IN_VECTORS void NAME(row_##name)(const struct codes *w, int64_t i, float *to) { NAME(row_by)(w, i, to, kind, bits); } \
  static IN_VECTORS void NAME(few_##name)(const struct codes_product *p, const struct codes *w, int64_t column, int64_t end) { \
    int strips = p->m == 1 ? STRIPS : 1;                                                                                \
    for (; column < end; column += strips * LANES)                                                                      \
      if (p->m == 1) NAME(few)(p, w, column, kind, bits, 1, STRIPS);                                                    \
      else NAME(few)(p, w, column, kind, bits, FEW, 1);                                                                 \
  }
#if LANES > 4
#define FORMS(F) F(whole2, CODE_WHOLE, 2) F(whole4, CODE_WHOLE, 4) F(whole8, CODE_WHOLE, 8) F(fp4, CODE_FP4, 4) \
                 F(fp8, CODE_FP8, 8) F(crossing, CODE_WHOLE, w->bits)
#else
#define FORMS(F) F(any, w->kind, w->bits)
#endif
FORMS(FORM)

static const struct NAME(form) {
  NAME(tile) *tile;
  codes_whole_row *row;
  void (*few)(const struct codes_product *, const struct codes *, int64_t column, int64_t end);
} NAME(forms)[] = {
#define FORM_ROW(name, kind, bits) { NAME(tile_##name), NAME(row_##name), NAME(few_##name) },
  FORMS(FORM_ROW)
#undef FORM_ROW
};

static const struct NAME(form) *NAME(form_of)(const struct codes *w) {
  if (LANES == 4) return &NAME(forms)[0];
  if (w->kind != CODE_WHOLE) return &NAME(forms)[w->kind == CODE_FP4 ? 3 : 4];
  return &NAME(forms)[32 % w->bits ? 5 : w->bits == 8 ? 2 : w->bits == 4];
}

static IN_VECTORS void NAME(range)(const struct codes_product *p, int64_t from, int64_t to, float *room) {
  const struct NAME(form) *f = NAME(form_of)(&p->w);
  if (!p->k) NAME(nothing)(p, from, to);
  else if (!p->is_transposed || p->m > FEW) NAME(by_panels)(p, from, to, room, f->tile);
  else f->few(p, &p->w, from * CODES_PART, to * CODES_PART < p->n ? to * CODES_PART : p->n);
}

static IN_VECTORS void NAME(row)(const struct codes *w, int64_t i, float *to) { NAME(form_of)(w)->row(w, i, to); }

#undef FORM
#undef FORMS
#undef STRIPS
#undef SUMS
#undef LARGE_SCALE
#undef UNROLL_CODES
#undef SELF
#undef floats
#undef bits_t
#undef ints
#undef ROWS
#undef EACH
