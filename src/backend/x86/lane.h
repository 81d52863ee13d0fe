/* lane.h -- eight numbers of memory as a vector of AVX2 (integers too: nothing computes with it here), and eight such
 * vectors transposed. Written out, as arrays of vectors would stay in memory. */
#ifndef WEFT_X86_LANE_H
#define WEFT_X86_LANE_H
#include <immintrin.h>
#include <stdint.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")))
typedef const char *address;

AVX2 static inline __m256 load_f32(address p) { return _mm256_loadu_ps((const float *)(const void *)p); }
AVX2 static inline __m256 load_bf16(address p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16));
}
AVX2 static inline __m256 load_f16(address p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
#define LANE_WIDEN(t, move, load) \
  AVX2 static inline __m256 load_##t(address p) { return _mm256_castsi256_ps(move(load((const __m128i *)(const void *)p))); }
LANE_WIDEN(i8, _mm256_cvtepi8_epi32, _mm_loadl_epi64)
LANE_WIDEN(u8, _mm256_cvtepu8_epi32, _mm_loadl_epi64)
LANE_WIDEN(i16, _mm256_cvtepi16_epi32, _mm_loadu_si128)
LANE_WIDEN(u16, _mm256_cvtepu16_epi32, _mm_loadu_si128)

/* r0 .. r7 become c0 .. c7: element i of r_j is element j of c_i. */
#define LANE_PAIR(a, b, lo, hi) __m256 lo = _mm256_unpacklo_ps(a, b), hi = _mm256_unpackhi_ps(a, b)
#define LANE_FOUR(a, b, lo, hi) __m256 lo = _mm256_shuffle_ps(a, b, 0x44), hi = _mm256_shuffle_ps(a, b, 0xEE)
#define LANE_TURN                                                                                             \
  LANE_PAIR(r0, r1, a0, a1); LANE_PAIR(r2, r3, a2, a3); LANE_PAIR(r4, r5, a4, a5); LANE_PAIR(r6, r7, a6, a7); \
  LANE_FOUR(a0, a2, b0, b1); LANE_FOUR(a1, a3, b2, b3); LANE_FOUR(a4, a6, b4, b5); LANE_FOUR(a5, a7, b6, b7); \
  __m256 c0 = _mm256_permute2f128_ps(b0, b4, 0x20), c1 = _mm256_permute2f128_ps(b1, b5, 0x20);                \
  __m256 c2 = _mm256_permute2f128_ps(b2, b6, 0x20), c3 = _mm256_permute2f128_ps(b3, b7, 0x20);                \
  __m256 c4 = _mm256_permute2f128_ps(b0, b4, 0x31), c5 = _mm256_permute2f128_ps(b1, b5, 0x31);                \
  __m256 c6 = _mm256_permute2f128_ps(b2, b6, 0x31), c7 = _mm256_permute2f128_ps(b3, b7, 0x31)

#endif
