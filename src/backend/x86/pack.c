#include "backend/x86/pack.h"
#include <immintrin.h>
#include <string.h>
#include "backend/vm/tile.h"

#define AVX2 __attribute__((target("avx2,f16c")))
typedef const char *address;

/* ---- eight numbers along k, or along columns ---- */

AVX2 static inline __m256 load_f32(address p) { return _mm256_loadu_ps((const float *)(const void *)p); }
AVX2 static inline __m256 load_bf16(address p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16));
}
AVX2 static inline __m256 load_f16(address p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }

/* ---- panels whose source lies along k ----
 * Eight by eight numbers are transposed in registers; written out, as arrays of vectors would stay in memory. A group of
 * columns is stored whole even if the panel ends inside it; what it spoils behind its row is written afterwards: groups go
 * from right to left, rows downwards. So a few bytes behind the panel are spoilt. */

#define PAIR(a, b, lo, hi) __m256 lo = _mm256_unpacklo_ps(a, b), hi = _mm256_unpackhi_ps(a, b)
#define FOUR(a, b, lo, hi) __m256 lo = _mm256_shuffle_ps(a, b, 0x44), hi = _mm256_shuffle_ps(a, b, 0xEE)
#define LOW(i, a, b) _mm256_storeu_ps(to + (i) * width, _mm256_permute2f128_ps(a, b, 0x20))
#define HIGH(i, a, b) _mm256_storeu_ps(to + (i) * width, _mm256_permute2f128_ps(a, b, 0x31))

AVX2 static inline void turn_8(__m256 r0, __m256 r1, __m256 r2, __m256 r3, __m256 r4, __m256 r5, __m256 r6, __m256 r7,
                               float *to, int64_t width) {
  PAIR(r0, r1, a0, a1); PAIR(r2, r3, a2, a3); PAIR(r4, r5, a4, a5); PAIR(r6, r7, a6, a7);
  FOUR(a0, a2, b0, b1); FOUR(a1, a3, b2, b3); FOUR(a4, a6, b4, b5); FOUR(a5, a7, b6, b7);
  LOW(0, b0, b4); LOW(1, b1, b5); LOW(2, b2, b6); LOW(3, b3, b7);
  HIGH(4, b0, b4); HIGH(5, b1, b5); HIGH(6, b2, b6); HIGH(7, b3, b7);
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
TURN(turn_f32, load_f32)
TURN(turn_bf16, load_bf16)
TURN(turn_f16, load_f16)

AVX2 static inline __m256d load_f64(address p, bool is_there) {
  return is_there ? _mm256_loadu_pd((const double *)(const void *)p) : _mm256_setzero_pd();
}

AVX2 static void turn_f64(const struct panel *p) {
  for (int64_t j = (p->width - 1) / 4 * 4; j >= 0; j -= 4)
    for (int64_t k = 0; k < p->k; k += 4) {
      double *to = (double *)p->to + k * p->width + j;
      address x = (address)p->from + j * p->stride + k * p->k_stride;
      __m256d r0 = load_f64(x, j < p->n), r1 = load_f64(x + p->stride, j + 1 < p->n);
      __m256d r2 = load_f64(x + 2 * p->stride, j + 2 < p->n), r3 = load_f64(x + 3 * p->stride, j + 3 < p->n);
      __m256d a0 = _mm256_unpacklo_pd(r0, r1), a1 = _mm256_unpackhi_pd(r0, r1), a2 = _mm256_unpacklo_pd(r2, r3), a3 = _mm256_unpackhi_pd(r2, r3);
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
ROWS(rows_f32, load_f32, 4)
ROWS(rows_bf16, load_bf16, 2)
ROWS(rows_f16, load_f16, 2)

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

void pack_avx2(const struct panel *p) {
  int size = tile_width(p->dtype);
  bool is_f32 = p->dtype == WEFT_F32, is_bf16 = p->dtype == WEFT_BF16, is_f16 = p->dtype == WEFT_F16;
  bool is_wide = p->dtype == WEFT_F64, is_known = is_f32 || is_bf16 || is_f16;
  if (p->k_stride == size && is_known) with_rest(p, is_f32 ? turn_f32 : is_bf16 ? turn_bf16 : turn_f16, 8);
  else if (p->k_stride == size && is_wide) with_rest(p, turn_f64, 4);
  else if (p->stride == size && p->n == p->width && p->width >= 8 && is_known) (is_f32 ? rows_f32 : is_bf16 ? rows_bf16 : rows_f16)(p);
  else if (p->stride == size && p->n == p->width && p->width >= 4 && is_wide) {
    struct panel q = *p; /* two of f32 each */
    q.width *= 2;
    rows_f32(&q);
  } else contractor_vm.pack(p);
}
