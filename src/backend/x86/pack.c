/* pack.c -- panels, copied and transposed in registers: see pack.h. */
#include "backend/x86/pack.h"
#include <string.h>
#include "backend/vm/tile.h"
#include "backend/x86/lane.h"

/* ---- panels whose source lies along k ----
 * Eight by eight numbers are transposed in registers. A group of columns is stored whole even if the panel ends inside
 * it; what it spoils behind its row is written afterwards: groups go from right to left, rows downwards. So a few bytes
 * behind the panel are spoilt. */

AVX2 static inline void turn_8(__m256 r0, __m256 r1, __m256 r2, __m256 r3, __m256 r4, __m256 r5, __m256 r6, __m256 r7,
                               float *to, int64_t width) {
  LANE_TURN;
  _mm256_storeu_ps(to, c0), _mm256_storeu_ps(to + width, c1), _mm256_storeu_ps(to + 2 * width, c2);
  _mm256_storeu_ps(to + 3 * width, c3), _mm256_storeu_ps(to + 4 * width, c4), _mm256_storeu_ps(to + 5 * width, c5);
  _mm256_storeu_ps(to + 6 * width, c6), _mm256_storeu_ps(to + 7 * width, c7);
}

/* Eight rows from k on of the columns g .. g + 7; those beyond the last are 0. */
#define TURN(name, load)                                                                                      \
  AVX2 static inline void name##_group(const struct panel *p, int64_t k, int64_t g) {                         \
    float *to = (float *)p->to + k * p->width + g;                                                            \
    int64_t s = p->stride, n = p->n - g;                                                                      \
    address x = (address)p->from + g * s + k * p->k_stride;                                                   \
    __m256 o = _mm256_setzero_ps();                                                                           \
    if (n >= 8) turn_8(load(x), load(x + s), load(x + 2 * s), load(x + 3 * s), load(x + 4 * s), load(x + 5 * s), \
                       load(x + 6 * s), load(x + 7 * s), to, p->width);                                       \
    else turn_8(n > 0 ? load(x) : o, n > 1 ? load(x + s) : o, n > 2 ? load(x + 2 * s) : o, n > 3 ? load(x + 3 * s) : o, \
                n > 4 ? load(x + 4 * s) : o, n > 5 ? load(x + 5 * s) : o, n > 6 ? load(x + 6 * s) : o, o, to, p->width); \
  }                                                                                                           \
  AVX2 static void name(const struct panel *p) {                                                              \
    for (int64_t j = (p->width - 1) / 16 * 16; j >= 0; j -= 16)                                               \
      for (int64_t k = 0; k < p->k; k += 8) {                                                                 \
        if (j + 8 < p->width) name##_group(p, k, j + 8);                                                      \
        name##_group(p, k, j);                                                                                \
      }                                                                                                       \
  }
TURN(turn_32, load_f32)
TURN(turn_bf16, load_bf16)
TURN(turn_f16, load_f16)
TURN(turn_i8, load_i8)
TURN(turn_u8, load_u8)
TURN(turn_i16, load_i16)
TURN(turn_u16, load_u16)

AVX2 static inline __m256d load_f64(address p, bool is_there) {
  return is_there ? _mm256_loadu_pd((const double *)(const void *)p) : _mm256_setzero_pd();
}

AVX2 static void turn_64(const struct panel *p) {
  for (int64_t j = (p->width - 1) / 4 * 4; j >= 0; j -= 4)
    for (int64_t k = 0; k < p->k; k += 4) {
      double *to = (double *)p->to + k * p->width + j;
      address x = (address)p->from + j * p->stride + k * p->k_stride;
      __m256d r0 = load_f64(x, j < p->n), r1 = load_f64(x + p->stride, j + 1 < p->n);
      __m256d r2 = load_f64(x + 2 * p->stride, j + 2 < p->n), r3 = load_f64(x + 3 * p->stride, j + 3 < p->n);
      __m256d a0 = _mm256_unpacklo_pd(r0, r1), a1 = _mm256_unpackhi_pd(r0, r1),
              a2 = _mm256_unpacklo_pd(r2, r3), a3 = _mm256_unpackhi_pd(r2, r3);
      _mm256_storeu_pd(to, _mm256_permute2f128_pd(a0, a2, 0x20));
      _mm256_storeu_pd(to + p->width, _mm256_permute2f128_pd(a1, a3, 0x20));
      _mm256_storeu_pd(to + 2 * p->width, _mm256_permute2f128_pd(a0, a2, 0x31));
      _mm256_storeu_pd(to + 3 * p->width, _mm256_permute2f128_pd(a1, a3, 0x31));
    }
}

/* ---- panels whose source lies along the columns: whole rows of them ---- */

#define ROWS(name, load, size)                                                                                \
  AVX2 static void name(const struct panel *p) {                                                              \
    float *to = p->to;                                                                                        \
    for (int64_t k = 0; k < p->k; k++, to += p->width) {                                                      \
      address from = (address)p->from + k * p->k_stride;                                                      \
      for (int j = 0; j + 8 <= p->width; j += 8) _mm256_storeu_ps(to + j, load(from + j * size));             \
      if (p->width % 8) _mm256_storeu_ps(to + p->width - 8, load(from + (p->width - 8) * size));              \
    }                                                                                                         \
  }
ROWS(rows_32, load_f32, 4)
ROWS(rows_bf16, load_bf16, 2)
ROWS(rows_f16, load_f16, 2)
ROWS(rows_i8, load_i8, 1)
ROWS(rows_u8, load_u8, 1)
ROWS(rows_i16, load_i16, 2)
ROWS(rows_u16, load_u16, 2)

static void rows_64(const struct panel *p) {
  struct panel q = *p; /* two of 32 bits each */
  q.width *= 2;
  rows_32(&q);
}

/* ---- which ---- */

/* k rows at a time; the rest is left to the loops of the vm. */
static void with_rest(const struct panel *p, void (*pack)(const struct panel *), int step) {
  struct panel most = *p, rest = *p;
  most.k = p->k / step * step;
  rest.k = p->k - most.k;
  rest.from = (address)p->from + most.k * p->k_stride;
  rest.to = (char *)p->to + most.k * p->width * tile_width(kir_register_of(p->dtype));
  if (most.k) pack(&most);
  if (rest.k) contractor_vm.pack(&rest);
}

typedef void packer(const struct panel *);

void pack_avx2(const struct panel *p) {
  static packer *const turn[] = { [WEFT_F32] = turn_32, [WEFT_I32] = turn_32, [WEFT_U32] = turn_32, [WEFT_F64] = turn_64,
    [WEFT_I64] = turn_64, [WEFT_U64] = turn_64, [WEFT_BF16] = turn_bf16, [WEFT_F16] = turn_f16, [WEFT_I8] = turn_i8,
    [WEFT_U8] = turn_u8, [WEFT_I16] = turn_i16, [WEFT_U16] = turn_u16 };
  static packer *const rows[] = { [WEFT_F32] = rows_32, [WEFT_I32] = rows_32, [WEFT_U32] = rows_32, [WEFT_F64] = rows_64,
    [WEFT_I64] = rows_64, [WEFT_U64] = rows_64, [WEFT_BF16] = rows_bf16, [WEFT_F16] = rows_f16, [WEFT_I8] = rows_i8,
    [WEFT_U8] = rows_u8, [WEFT_I16] = rows_i16, [WEFT_U16] = rows_u16 };
  int size = tile_width(p->dtype);
  if (p->k_stride == size) with_rest(p, turn[p->dtype], size == 8 ? 4 : 8);
  else if (p->stride == size && p->n == p->width && p->width >= 8) rows[p->dtype](p);
  else contractor_vm.pack(p);
}

/* ---- pairs ----
 * Lanes of 32 bits: the earlier of two neighbours along k in the upper half. */

AVX2 static inline __m256 swapped(__m256i x) { /* the halves of each lane */
  return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(x, 16), _mm256_srli_epi32(x, 16)));
}
AVX2 static inline __m256 load_16s(address p) { return swapped(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
AVX2 static inline __m256 load_i8s(address p) {
  return swapped(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
AVX2 static inline __m256 load_u8s(address p) {
  return swapped(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
TURN(turn_16s, load_16s)
TURN(turn_i8s, load_i8s)
TURN(turn_u8s, load_u8s)

AVX2 static inline __m256i wide_16(address p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
AVX2 static inline __m256i wide_i8(address p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
AVX2 static inline __m256i wide_u8(address p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }

/* Two rows of columns at a time become one of pairs. */
#define ROW_PAIRS(name, wide, size)                                                                           \
  AVX2 static inline void name##_at(float *to, address even, address odd) {                                   \
    __m256i high = _mm256_slli_epi32(wide(even), 16), low = _mm256_and_si256(wide(odd), _mm256_set1_epi32(0xFFFF)); \
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_or_si256(high, low)));                                    \
  }                                                                                                           \
  AVX2 static void name(const struct panel *p) {                                                              \
    float *to = p->to;                                                                                        \
    for (int64_t k = 0; k + 1 < p->k; k += 2, to += p->width) {                                               \
      address even = (address)p->from + k * p->k_stride, odd = even + p->k_stride;                            \
      for (int j = 0; j + 8 <= p->width; j += 8) name##_at(to + j, even + j * size, odd + j * size);          \
      if (p->width % 8) name##_at(to + p->width - 8, even + (p->width - 8) * size, odd + (p->width - 8) * size); \
    }                                                                                                         \
  }
ROW_PAIRS(rows_16s, wide_16, 2)
ROW_PAIRS(rows_i8s, wide_i8, 1)
ROW_PAIRS(rows_u8s, wide_u8, 1)

static uint32_t half_at(const struct panel *p, int64_t k, int64_t j, uint16_t missing) {
  address at = (address)p->from + k * p->k_stride + j * p->stride;
  uint16_t h;
  if (k >= p->k || j >= p->n) return j >= p->n ? 0 : missing;
  if (p->dtype == WEFT_I8) return (uint16_t)*(const int8_t *)at;
  if (p->dtype == WEFT_U8) return *(const uint8_t *)at;
  return memcpy(&h, at, sizeof h), h;
}

/* Pairs from row `first` on, one by one. */
static void pairs_one_by_one(const struct panel *p, int64_t first, uint16_t missing) {
  uint32_t *to = (uint32_t *)p->to + first * p->width;
  for (int64_t k = 2 * first; k < p->k; k += 2)
    for (int64_t j = 0; j < p->width; j++) *to++ = half_at(p, k, j, missing) << 16 | half_at(p, k + 1, j, missing);
}

void pairs_avx2(const struct panel *p, bool is_left) {
  int size = tile_width(p->dtype);
  uint16_t missing = is_left && p->dtype == WEFT_BF16 ? 0x8000 : 0;
  bool is_8 = size == 1, is_signed = p->dtype == WEFT_I8;
  int64_t done = 0;
  struct panel q = *p;
  if (p->k_stride == size) {
    q.k = done = p->k / 16 * 8, q.k_stride = 2 * size;
    (is_8 ? is_signed ? turn_i8s : turn_u8s : turn_16s)(&q);
  } else if (p->stride == size && p->n == p->width && p->width >= 8) {
    done = p->k / 2;
    (is_8 ? is_signed ? rows_i8s : rows_u8s : rows_16s)(p);
  }
  pairs_one_by_one(p, done, missing);
}

/* ---- whether pairs of bf16 have the bits of one product after the other ----
 * The instruction takes denormal numbers for 0. With numbers from 2^-55 to 2^63, or 0, all products and sums are multiples of
 * 2^-124 and none is infinite before it would be. */

enum { LEAST = 0x2400, MOST = 0x5F00 };

static bool is_ordinary(address p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  h &= 0x7FFF;
  return !h || (h >= LEAST && h < MOST);
}

AVX2 static bool are_ordinary(address p, int64_t n) {
  __m256i all = _mm256_set1_epi16(-1), zero = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i h = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(p + 2 * i)), _mm256_set1_epi16(0x7FFF));
    __m256i in = _mm256_and_si256(_mm256_cmpgt_epi16(h, _mm256_set1_epi16(LEAST - 1)),
                                  _mm256_cmpgt_epi16(_mm256_set1_epi16(MOST), h));
    all = _mm256_and_si256(all, _mm256_or_si256(in, _mm256_cmpeq_epi16(h, zero)));
  }
  bool good = _mm256_movemask_epi8(all) == -1;
  for (; i < n && good; i++) good = is_ordinary(p + 2 * i);
  return good;
}

bool pairs_are_exact(const struct panel *p) {
  bool good = true;
  if (p->dtype != WEFT_BF16) return true;
  for (int64_t k = 0; k < p->k && good; k++) {
    address row = (address)p->from + k * p->k_stride;
    if (p->stride == 2) good = are_ordinary(row, p->n);
    else for (int64_t j = 0; j < p->n && good; j++) good = is_ordinary(row + j * p->stride);
  }
  return good;
}
