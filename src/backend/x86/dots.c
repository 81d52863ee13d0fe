/* dots.c -- a vector by a matrix, by AVX2 and AVX-512; nothing is copied. Where the matrix lies along k, eight or sixteen columns
 * go through registers some products at a time, transposed, so that each sum keeps the order of k. Where columns are neighbours,
 * eight rows are read side by side, or one after the other, and the sums of all columns wait in the first cache. What is far is
 * asked for before it is needed, where the processor does not foresee it. */
#include "backend/x86/pack.h"
#include <string.h>
#include "backend/x86/cpu.h"
#include "backend/x86/lane.h"
#include "base/least.h"

AVX2 static inline float one_f32(address p) { float x; return memcpy(&x, p, sizeof x), x; }
AVX2 static inline float one_bf16(address p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  uint32_t u = (uint32_t)h << 16;
  float x;
  return memcpy(&x, &u, sizeof x), x;
}
AVX2 static inline float one_f16(address p) { uint16_t h; return memcpy(&h, p, sizeof h), _cvtsh_ss(h); }

/* Columns of at most SHORT_BYTES, keys of attention, are touched in the order of memory before they are read in that of sums: then
 * the processor foresees what comes. 512 keys of 32 numbers from afar: 11 to 17 GB/s on one thread of Zen 4, so 19 to 27. */
enum { SHORT_BYTES = 512 };

static inline void touch(address from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += CACHE_LINE) (void)*(const volatile uint8_t *)(from + i);
}

/* c = sum, or c + sum, of eight columns or of sixteen. */
AVX2 static inline void store_sums(float *c, const float sum[], bool both, bool adds) {
  for (int i = 0; i < 8 + 8 * both; i += 8) {
    __m256 s = _mm256_loadu_ps(sum + i);
    _mm256_storeu_ps(c + i, adds ? _mm256_add_ps(_mm256_loadu_ps(c + i), s) : s);
  }
}

#define NEXT(i, column) sum = _mm256_fmadd_ps(_mm256_broadcast_ss(x + (i) * step), column, sum)

/* sum + eight products of each of eight columns. x: the vector, `step` apart. */
AVX2 static inline __m256 eight(__m256 sum, const float *x, int64_t step, __m256 r0, __m256 r1, __m256 r2, __m256 r3,
                                __m256 r4, __m256 r5, __m256 r6, __m256 r7) {
  LANE_TURN;
  NEXT(0, c0); NEXT(1, c1); NEXT(2, c2); NEXT(3, c3);
  NEXT(4, c4); NEXT(5, c5); NEXT(6, c6); NEXT(7, c7);
  return sum;
}

/* The sums of columns that go together, over as many of n products as are whole lines, or quarters of them. next: what to ask for
 * meanwhile, `together` lines a step; NULL: nothing. */
typedef int64_t columns_code(const struct dots *, const float *x, address b, int64_t n, address next, float sum[]);

/* Column i of eight, or the last there is: nobody wants what lanes beyond it sum. */
#define COLUMN(i) (b + ((i) < last ? (i) : last) * s)

/* One or two groups of eight columns, whose sums do not wait for each other. So many runs of memory are more than some processors
 * foresee; then each step asks for as much of the next columns, `next`, in the order of memory, and what comes from afar goes in
 * single groups: lines of sixteen columns may share one set of the first cache, and push each other out. */
#define DOTS(t, size)                                                                                         \
  AVX2 static inline __m256 group_##t(__m256 sum, const float *x, int64_t step, address b, int64_t s, int64_t last) { \
    for (int i = 0; i < 2; i++, b += 8 * size, x += 8 * step) /* a line of cache at a time */                  \
      sum = eight(sum, x, step, load_##t(COLUMN(0)), load_##t(COLUMN(1)), load_##t(COLUMN(2)), load_##t(COLUMN(3)), \
                  load_##t(COLUMN(4)), load_##t(COLUMN(5)), load_##t(COLUMN(6)), load_##t(COLUMN(7)));        \
    return sum;                                                                                               \
  }                                                                                                           \
  AVX2 static inline int64_t groups_##t(const struct dots *d, const float *x, address b, int64_t n, address next, int64_t columns, \
                                        float sum[]) {                                                        \
    __m256 u0 = _mm256_setzero_ps(), u1 = u0;                                                                 \
    int64_t s = d->b_column, step = d->a_k / 4;                                                               \
    for (int64_t k = 0; k < n / 16; k++, b += 16 * size, x += 16 * step) {                                    \
      for (int i = 0; next && i < 2 * size; i++, next += CACHE_LINE) _mm_prefetch(next, _MM_HINT_T1);         \
      u0 = group_##t(u0, x, step, b, s, columns < 8 ? columns - 1 : 7);                                       \
      if (columns > 8) u1 = group_##t(u1, x, step, b + 8 * s, s, columns - 9);                                \
    }                                                                                                         \
    _mm256_storeu_ps(sum, u0), _mm256_storeu_ps(sum + 8, u1);                                                 \
    return n / 16 * 16;                                                                                       \
  }                                                                                                           \
  AVX2 static int64_t sixteen_##t(const struct dots *d, const float *x, address b, int64_t n, address next, float sum[]) { \
    return groups_##t(d, x, b, n, next, 16, sum);                                                             \
  }                                                                                                           \
  AVX2 static int64_t eight_##t(const struct dots *d, const float *x, address b, int64_t n, address next, float sum[]) { \
    return groups_##t(d, x, b, n, next, 8, sum);                                                              \
  }                                                                                                           \
  AVX2 static int64_t fewer_##t(const struct dots *d, const float *x, address b, int64_t n, int64_t columns, float sum[]) { \
    return groups_##t(d, x, b, n, NULL, columns, sum);                                                        \
  }                                                                                                           \
  /* Products from..n that are left. */                                                                       \
  AVX2 static void one_by_one_##t(const struct dots *d, const float *x, address b, int64_t columns, int64_t from, int64_t n, \
                                  float sum[]) {                                                              \
    for (int64_t j = 0; j < columns; j++)                                                                     \
      for (int64_t i = from; i < n; i++)                                                                      \
        sum[j] = __builtin_fmaf(x[i * (d->a_k / 4)], one_##t(b + j * d->b_column + i * size), sum[j]);        \
  }                                                                                                           \
  /* A block of products from k on, of the columns from j on that go together; whole: if all of them are there. */ \
  AVX2 static void block_##t(const struct dots *d, int64_t j, int64_t together, columns_code *whole, bool asks, int64_t k, \
                             int64_t n) {                                                                     \
    float sum[16] = { 0 }, *c = (float *)d->c + j;                                                            \
    const float *x = (const float *)d->a + k * (d->a_k / 4);                                                  \
    address b = (address)d->b + j * d->b_column + k * size;                                                   \
    int64_t columns = least(together, d->columns - j), done;                                                  \
    address next = asks && d->columns - j >= 16 ? b + 8 * d->b_column + 7 * k * size : NULL;                  \
    done = columns == together ? whole(d, x, b, n, next, sum) : fewer_##t(d, x, b, n, columns, sum);          \
    if (done < n) one_by_one_##t(d, x, b, columns, done, n, sum);                                             \
    if (columns == together) store_sums(c, sum, together > 8, d->adds || k);                                  \
    else for (int64_t i = 0; i < columns; i++) c[i] = d->adds || k ? c[i] + sum[i] : sum[i];                  \
  }                                                                                                           \
  AVX2 static void all_##t(const struct dots *d, columns_code *wide) {                                        \
    bool is_short = d->k * size <= SHORT_BYTES, asks = d->is_far && !is_short && !cpu_foresees_many();        \
    int64_t together = asks ? 8 : 16;                                                                         \
    for (int64_t j = 0; j < d->columns; j += together) {                                                      \
      if (d->is_far && is_short && d->b_column == d->k * size)                                                \
        touch((address)d->b + j * d->b_column, least(together, d->columns - j) * d->b_column);                \
      for (int64_t k = 0; k == 0 || k < d->k; k += KIR_PRODUCT_BLOCK)                                         \
        block_##t(d, j, together, asks ? eight_##t : wide, asks, k, least(KIR_PRODUCT_BLOCK, d->k - k));      \
    }                                                                                                         \
  }                                                                                                           \
  static void dots_##t(const struct dots *d) { all_##t(d, sixteen_##t); }
DOTS(f32, 4)
DOTS(bf16, 2)
DOTS(f16, 2)

/* ---- sixteen columns in vectors of AVX-512 ----
 * Quarters of vectors come from columns i, i + 4, i + 8, i + 12, so that squares of four are all that is left to transpose: half of
 * the shuffles of two groups, for which there is one unit in Sapphire Rapids. 4096^2 on its 16 cores: 233 us by groups, 213 so, 198
 * to read it. */

#define QUARTER(at, i) _mm_loadu_ps((const float *)(const void *)((at) + (i) * s))
#define PUT(v, mask, at, i) _mm512_mask_broadcast_f32x4(v, mask, QUARTER(at, i))
#define QUARTERS(at) PUT(PUT(PUT(_mm512_castps128_ps512(QUARTER(at, 0)), 0x00F0, at, 4), 0x0F00, at, 8), 0xF000, at, 12)
#define NEXT_WIDE(i, column) sum = _mm512_fmadd_ps(_mm512_set1_ps(x[(i) * step]), column, sum)

/* sum + four products of each of sixteen columns. */
AVX512 static inline __m512 four_wide(__m512 sum, const float *x, int64_t step, address b, int64_t s) {
  __m512 r0 = QUARTERS(b), r1 = QUARTERS(b + s), r2 = QUARTERS(b + 2 * s), r3 = QUARTERS(b + 3 * s);
  __m512 a0 = _mm512_unpacklo_ps(r0, r1), a1 = _mm512_unpackhi_ps(r0, r1);
  __m512 a2 = _mm512_unpacklo_ps(r2, r3), a3 = _mm512_unpackhi_ps(r2, r3);
  NEXT_WIDE(0, _mm512_shuffle_ps(a0, a2, 0x44)); NEXT_WIDE(1, _mm512_shuffle_ps(a0, a2, 0xEE));
  NEXT_WIDE(2, _mm512_shuffle_ps(a1, a3, 0x44)); NEXT_WIDE(3, _mm512_shuffle_ps(a1, a3, 0xEE));
  return sum;
}

AVX512 static int64_t wide_f32(const struct dots *d, const float *x, address b, int64_t n, address next, float sum[]) {
  __m512 u = _mm512_setzero_ps();
  int64_t step = d->a_k / 4, k = 0;
  for (; k + 4 <= n; k += 4) u = four_wide(u, x + k * step, step, b + 4 * k, d->b_column);
  _mm512_storeu_ps(sum, u);
  return (void)next, k;
}

static void dots_wide_f32(const struct dots *d) { all_f32(d, wide_f32); }

/* ---- columns are neighbours ----
 * Rows that follow one another are read one by one, all of memory from end to end, as processors foresee that best: 384 x 384 from
 * afar at 28 GB/s on one thread of Zen 4, eight rows side by side at 20, two at 12. Of longer rows, or if some columns of each are
 * read, it foresees what nobody wants; these go eight at a time, each step asking for lines eight rows on, or sixteen if rows are
 * short: 512 of 4096 columns so at 20 GB/s, one by one at 12. A Sapphire Rapids foresees eight rows: 4096^2 by its 16 cores takes
 * 288 us with asking, 264 without. */

enum { FOLLOWING_BYTES = 6144, GAP_BYTES = CACHE_LINE };

#define ADD_ROW(t, size, i) s = _mm256_fmadd_ps(x##i, load_##t(b + (i) * step + j * size), s)

#define ACROSS(t, size)                                                                                       \
  AVX2 static void eight_rows_##t(const struct dots *d, address a, address b, int64_t step, float sum[]) {    \
    __m256 x0 = one_of(a, d->a_k, 0), x1 = one_of(a, d->a_k, 1), x2 = one_of(a, d->a_k, 2), x3 = one_of(a, d->a_k, 3); \
    __m256 x4 = one_of(a, d->a_k, 4), x5 = one_of(a, d->a_k, 5), x6 = one_of(a, d->a_k, 6), x7 = one_of(a, d->a_k, 7); \
    int64_t ahead = step > FOLLOWING_BYTES ? 8 : 16;                                                          \
    bool asks = d->is_far && !cpu_foresees_many();                                                            \
    for (int64_t j = 0; j + 8 <= d->columns; j += 8) {                                                        \
      __m256 s = _mm256_loadu_ps(sum + j);                                                                    \
      for (int i = 0; asks && j * size % CACHE_LINE == 0 && i < 8; i++)                                       \
        _mm_prefetch(b + (i + ahead) * step + j * size, _MM_HINT_T1);                                         \
      ADD_ROW(t, size, 0); ADD_ROW(t, size, 1); ADD_ROW(t, size, 2); ADD_ROW(t, size, 3);                     \
      ADD_ROW(t, size, 4); ADD_ROW(t, size, 5); ADD_ROW(t, size, 6); ADD_ROW(t, size, 7);                     \
      _mm256_storeu_ps(sum + j, s);                                                                           \
    }                                                                                                         \
  }                                                                                                           \
  AVX2 static void one_row_##t(const struct dots *d, address a, address b, float sum[]) {                     \
    __m256 x0 = one_of(a, 0, 0);                                                                              \
    for (int64_t j = 0; j + 8 <= d->columns; j += 8) {                                                        \
      __m256 s = _mm256_loadu_ps(sum + j);                                                                    \
      _mm256_storeu_ps(sum + j, _mm256_fmadd_ps(x0, load_##t(b + j * size), s));                              \
    }                                                                                                         \
  }                                                                                                           \
  /* 32 columns of rows, whose sums stay in registers. */                                                     \
  AVX2 static void narrow_rows_##t(const struct dots *d, address a, address b, int64_t step, int64_t n, float sum[]) {\
    __m256 s0 = _mm256_loadu_ps(sum), s1 = _mm256_loadu_ps(sum + 8);                                          \
    __m256 s2 = _mm256_loadu_ps(sum + 16), s3 = _mm256_loadu_ps(sum + 24);                                    \
    for (int64_t k = 0; k < n; k++, a += d->a_k, b += step) {                                                 \
      __m256 x = one_of(a, 0, 0);                                                                             \
      s0 = _mm256_fmadd_ps(x, load_##t(b), s0), s1 = _mm256_fmadd_ps(x, load_##t(b + 8 * size), s1);          \
      s2 = _mm256_fmadd_ps(x, load_##t(b + 16 * size), s2), s3 = _mm256_fmadd_ps(x, load_##t(b + 24 * size), s3);\
    }                                                                                                         \
    _mm256_storeu_ps(sum, s0), _mm256_storeu_ps(sum + 8, s1), _mm256_storeu_ps(sum + 16, s2), _mm256_storeu_ps(sum + 24, s3);\
  }                                                                                                           \
  /* n rows, `step` bytes apart. */                                                                           \
  AVX2 static void some_rows_##t(const struct dots *d, address a, address b, int64_t step, int64_t n, float sum[]) { \
    int64_t k = 0, whole = d->columns / 8 * 8;                                                                \
    if (d->columns == 32) narrow_rows_##t(d, a, b, step, k = n, sum);                                         \
    else if (d->is_far && follows(step, d->columns * size))                                                   \
      for (; k < n; k++) one_row_##t(d, a + k * d->a_k, b + k * step, sum);                                   \
    for (; k + 8 <= n; k += 8) eight_rows_##t(d, a + k * d->a_k, b + k * step, step, sum);                    \
    for (int64_t i = 0; i < n; i++) /* the last columns, and the last rows of all */                          \
      for (int64_t j = i < k ? whole : 0; j < d->columns; j++)                                                \
        sum[j] = __builtin_fmaf(one_f32(a + i * d->a_k), one_##t(b + i * step + j * size), sum[j]);           \
  }                                                                                                           \
  AVX2 static void across_##t(const struct dots *d) {                                                         \
    _Alignas(CACHE_LINE) float sum[DOTS_COLUMNS];                                                             \
    float *c = d->c;                                                                                          \
    memset(sum, 0, (size_t)d->columns * sizeof *sum);                                                         \
    int64_t n = least(d->first, d->k);                                                                        \
    some_rows_##t(d, d->a, d->b, d->b_k, n, sum);                                                             \
    if (n < d->k) some_rows_##t(d, (address)d->a + n * d->a_k, d->rest, d->rest_k, d->k - n, sum);            \
    for (int64_t j = 0; j < d->columns; j++) c[j] = d->adds ? c[j] + sum[j] : sum[j];                         \
  }

static inline bool follows(int64_t step, int64_t row) {
  return row <= FOLLOWING_BYTES && step >= row && step < row + GAP_BYTES;
}

AVX2 static inline __m256 one_of(address a, int64_t step, int i) { return _mm256_set1_ps(one_f32(a + i * step)); }
ACROSS(f32, 4)
ACROSS(bf16, 2)
ACROSS(f16, 2)

dots_code *dots_avx2(weft_dtype t, bool along_k) {
  if (along_k) return t == WEFT_F32 ? dots_f32 : t == WEFT_BF16 ? dots_bf16 : t == WEFT_F16 ? dots_f16 : NULL;
  return t == WEFT_F32 ? across_f32 : t == WEFT_BF16 ? across_bf16 : t == WEFT_F16 ? across_f16 : NULL;
}

dots_code *dots_avx512(weft_dtype t, bool along_k) {
  return along_k && t == WEFT_F32 && cpu_foresees_many() ? dots_wide_f32 : dots_avx2(t, along_k);
}
