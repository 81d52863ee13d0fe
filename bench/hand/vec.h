/* vec.h -- a vector of floats, 16 with AVX-512 and 8 with AVX2, under the same names; elementary functions of 1 to 2 ULP
 * on finite numbers. + - * / are those of the compiler's vectors. */
#ifndef BENCH_VEC_H
#define BENCH_VEC_H
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include "hand.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define HAND_JOIN_(a, b) a##_##b
#define HAND_JOIN(a, b) HAND_JOIN_(a, b)
#define HAND(name) HAND_JOIN(name, TIER) /* TIER: avx2 or avx512, from the command line */

#ifdef __AVX512F__
enum { LANES = 16 };
typedef __m512 vec;
typedef __m512i ivec;
INLINE vec v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vec x) { _mm512_storeu_ps(p, x); }
INLINE void v_stream(float *p, vec x) { _mm512_stream_ps(p, x); }
INLINE vec v_set(float x) { return _mm512_set1_ps(x); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vec v_max(vec a, vec b) { return _mm512_max_ps(a, b); }
INLINE vec v_min(vec a, vec b) { return _mm512_min_ps(a, b); }
INLINE vec v_bits(uint32_t x) { return _mm512_castsi512_ps(_mm512_set1_epi32((int)x)); }
INLINE vec v_and(vec a, vec b) { return _mm512_and_ps(a, b); }
INLINE vec v_or(vec a, vec b) { return _mm512_or_ps(a, b); }
INLINE vec v_xor(vec a, vec b) { return _mm512_xor_ps(a, b); }
INLINE vec v_add_bits(vec a, vec b) { return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b))); }
INLINE vec v_shift_left(vec a, int n) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), (unsigned)n)); }
INLINE vec v_shift_right(vec a, int n) { return _mm512_castsi512_ps(_mm512_srai_epi32(_mm512_castps_si512(a), (unsigned)n)); }
INLINE vec v_from_int(vec a) { return _mm512_cvtepi32_ps(_mm512_castps_si512(a)); }
INLINE float v_sum(vec x) { return _mm512_reduce_add_ps(x); }
INLINE float v_top(vec x) { return _mm512_reduce_max_ps(x); }
INLINE vec v_reverse(vec x) {
  return _mm512_permutexvar_ps(_mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), x);
}
INLINE vec v_last(vec x) { return _mm512_permutexvar_ps(_mm512_set1_epi32(15), x); }
/* The lanes n higher, zeros below; n = 1, 2, 4, 8. */
#define V_UP(x, n) _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(x), _mm512_setzero_si512(), 16 - (n)))
INLINE vec v_prefix(vec x) {
  x += V_UP(x, 1), x += V_UP(x, 2), x += V_UP(x, 4);
  return x + V_UP(x, 8);
}
INLINE vec v_every_third(const float *p) {
  ivec low = _mm512_set_epi32(0, 0, 0, 0, 0, 30, 27, 24, 21, 18, 15, 12, 9, 6, 3, 0);
  ivec high = _mm512_set_epi32(29, 26, 23, 20, 17, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_permutex2var_ps(_mm512_permutex2var_ps(v_load(p), low, v_load(p + 16)), high, v_load(p + 32));
}
INLINE void v_transpose(vec r[LANES]) {
  vec t[16];
  for (int i = 0; i < 16; i += 2) t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; k++) {
      __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + k + 2]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 16; k += 8) {
      t[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0x88);
      t[i + k + 4] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0xdd);
    }
  for (int i = 0; i < 8; i++) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
  }
}
#else
enum { LANES = 8 };
typedef __m256 vec;
typedef __m256i ivec;
INLINE vec v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vec x) { _mm256_storeu_ps(p, x); }
INLINE void v_stream(float *p, vec x) { _mm256_stream_ps(p, x); }
INLINE vec v_set(float x) { return _mm256_set1_ps(x); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vec v_max(vec a, vec b) { return _mm256_max_ps(a, b); }
INLINE vec v_min(vec a, vec b) { return _mm256_min_ps(a, b); }
INLINE vec v_bits(uint32_t x) { return _mm256_castsi256_ps(_mm256_set1_epi32((int)x)); }
INLINE vec v_and(vec a, vec b) { return _mm256_and_ps(a, b); }
INLINE vec v_or(vec a, vec b) { return _mm256_or_ps(a, b); }
INLINE vec v_xor(vec a, vec b) { return _mm256_xor_ps(a, b); }
INLINE vec v_add_bits(vec a, vec b) { return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b))); }
INLINE vec v_shift_left(vec a, int n) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), n)); }
INLINE vec v_shift_right(vec a, int n) { return _mm256_castsi256_ps(_mm256_srai_epi32(_mm256_castps_si256(a), n)); }
INLINE vec v_from_int(vec a) { return _mm256_cvtepi32_ps(_mm256_castps_si256(a)); }
INLINE float v_sum(vec x) {
  __m128 s = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
  s += _mm_movehl_ps(s, s);
  return s[0] + s[1];
}
INLINE float v_top(vec x) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return s[0] > s[1] ? s[0] : s[1];
}
INLINE vec v_reverse(vec x) { return _mm256_permutevar8x32_ps(x, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
INLINE vec v_last(vec x) { return _mm256_permutevar8x32_ps(x, _mm256_set1_epi32(7)); }
INLINE vec v_prefix(vec x) {
  x += _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(x), 4));
  x += _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(x), 8));
  vec low = _mm256_permutevar8x32_ps(x, _mm256_set1_epi32(3));
  return x + _mm256_blend_ps(_mm256_setzero_ps(), low, 0xf0);
}
INLINE vec v_every_third(const float *p) {
  vec a = v_load(p), b = v_load(p + 8), c = v_load(p + 16);
  vec mixed = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24); /* element 3 i is in lane 3 i mod 8 */
  return _mm256_permutevar8x32_ps(mixed, _mm256_set_epi32(5, 2, 7, 4, 1, 6, 3, 0));
}
INLINE void v_transpose(vec r[LANES]) {
  vec t[8];
  for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; k++) {
      r[i + 2 * k] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0x44);
      r[i + 2 * k + 1] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0xee);
    }
  for (int i = 0; i < 4; i++) t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  for (int i = 0; i < 8; i++) r[i] = t[i];
}
#endif

INLINE void v_put(float *p, vec x, bool past_caches) {
  if (past_caches) v_stream(p, x);
  else v_store(p, x);
}
INLINE vec v_fnma(vec a, vec b, vec c) { return v_fma(-a, b, c); }
INLINE vec v_abs(vec x) { return v_and(x, v_bits(0x7fffffff)); }

/* x = n log 2 + r; *shifted has n in its low bits. */
INLINE vec v_reduce(vec x, vec *shifted) {
  vec magic = v_set(12582912), t = v_fma(x, v_set(1.44269504f), magic), n = t - magic;
  *shifted = t;
  return v_fnma(n, v_set(1.42860677e-6f), v_fnma(n, v_set(0.693145752f), x));
}

/* (e^r - 1 - r) / r^2 for |r| <= log 2 / 2. */
INLINE vec v_exp_tail(vec r) {
  vec p = v_fma(v_set(1.98412698e-4f), r, v_set(1.3930436e-3f));
  p = v_fma(p, r, v_set(8.3333610e-3f));
  p = v_fma(p, r, v_set(4.1666485e-2f));
  p = v_fma(p, r, v_set(1.6666667e-1f));
  return v_fma(p, r, v_set(0.5f));
}

INLINE vec v_exp(vec x) {
  vec t, r = v_reduce(v_min(v_max(x, v_set(-87.3f)), v_set(88.7f)), &t);
  vec p = v_fma(v_fma(v_exp_tail(r), r, v_set(1)), r, v_set(1));
  return v_add_bits(p, v_shift_left(t, 23));
}

/* log(m 2^e) = e log 2 + 2 atanh(f / (2 + f)), f = m - 1, 2/3 <= m < 4/3. */
INLINE vec v_log(vec x) {
  vec base = v_bits(0x3f2aaaab), above = v_add_bits(x, v_bits(0u - 0x3f2aaaabu));
  vec e = v_from_int(v_shift_right(above, 23)), m = v_add_bits(v_and(above, v_bits(0x007fffff)), base);
  vec f = m - v_set(1), s = f / (v_set(2) + f), z = s * s;
  vec p = v_fma(v_set(1.f / 11), z, v_set(1.f / 9));
  p = v_fma(p, z, v_set(1.f / 7));
  p = v_fma(p, z, v_set(1.f / 5));
  p = v_fma(p, z, v_set(1.f / 3)) * z;
  vec half = s * (f - p - p); /* f - 2 s = f s, so 2 s + 2 s p = f - s (f - 2 p) */
  return v_fma(e, v_set(0.693145752f), v_fma(e, v_set(1.42860677e-6f), f - half));
}

/* tanh |x| = t / (t + 2), t = e^(2|x|) - 1. */
INLINE vec v_tanh(vec x) {
  vec n, a = v_min(v_abs(x), v_set(9.1f)), r = v_reduce(a + a, &n);
  vec scale = v_shift_left(v_add_bits(n, v_bits(127)), 23);
  vec t = v_fma(scale, v_fma(r * r, v_exp_tail(r), r), scale - v_set(1));
  return v_or(t / (t + v_set(2)), v_and(x, v_bits(0x80000000)));
}

/* x = n pi + r, below 2^18: sin x = (-1)^n (r + r^3 p(r^2)). */
INLINE vec v_sin(vec x) {
  vec magic = v_set(12582912), t = v_fma(x, v_set(0.318309873f), magic), n = t - magic;
  vec r = v_fnma(n, v_set(-3.43024902e-15f), v_fnma(n, v_set(-8.74227766e-8f), v_fnma(n, v_set(3.14159274f), x))), z = r * r;
  vec p = v_fma(v_set(2.60575575e-6f), z, v_set(-1.98096604e-4f));
  p = v_fma(p, z, v_set(8.33306834e-3f));
  p = v_fma(p, z, v_set(-1.66666597e-1f));
  return v_xor(v_fma(r * z, p, r), v_shift_left(t, 31));
}

/* Part of n in multiples of unit. */
INLINE int64_t part_begin(int64_t n, int64_t unit, int part, int parts) { return n / unit * part / parts * unit; }

#endif
