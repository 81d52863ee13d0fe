/* fours.c -- panels of i8 for the instruction that adds four products of bytes: neighbours along k in one lane of 32 bits. It
 * wants the left bytes unsigned, so they are shifted up by 128. */
#include <string.h>
#include "backend/vm/tile.h"
#include "backend/x86/lane.h"
#include "backend/x86/pack.h"

enum { UP = 0x80 };

/* Dwords that lie along k are lanes already: four steps of k are one of a panel of 32 bits. Eight of those at a time, which
 * need not be aligned; returns how many. */
static int64_t turn_fours(const struct panel *p) {
  struct panel q = *p;
  q.k = p->k / 32 * 8, q.dtype = WEFT_I32, q.k_stride = 4;
  pack_avx2(&q);
  return q.k;
}

AVX2 static inline void four_rows(char *to, __m128i a, __m128i b, __m128i c, __m128i d) {
  __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d),
          ab_high = _mm_unpackhi_epi8(a, b), cd_high = _mm_unpackhi_epi8(c, d);
  __m128i *y = (__m128i *)(void *)to;
  _mm_storeu_si128(y, _mm_unpacklo_epi16(ab, cd));
  _mm_storeu_si128(y + 1, _mm_unpackhi_epi16(ab, cd));
  _mm_storeu_si128(y + 2, _mm_unpacklo_epi16(ab_high, cd_high));
  _mm_storeu_si128(y + 3, _mm_unpackhi_epi16(ab_high, cd_high));
}

AVX2 static inline __m128i load_16(address p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* Four rows of columns at a time become one; the width is a multiple of 16. */
AVX2 static void rows_fours(const struct panel *p) {
  char *to = p->to;
  for (int64_t k = 0; k + 3 < p->k; k += 4, to += 4 * p->width) {
    address x = (address)p->from + k * p->k_stride;
    int64_t s = p->k_stride;
    for (int j = 0; j < p->width; j += 16)
      four_rows(to + 4 * j, load_16(x + j), load_16(x + s + j), load_16(x + 2 * s + j), load_16(x + 3 * s + j));
  }
}

/* Rows of fours from `first` on, byte by byte; what is missing is 0. */
static void one_by_one(const struct panel *p, int64_t first) {
  char *to = (char *)p->to + 4 * first * p->width;
  for (int64_t k = 4 * first; k < p->k; k += 4)
    for (int64_t j = 0; j < p->width; j++)
      for (int64_t i = k; i < k + 4; i++) *to++ = i < p->k && j < p->n ? ((address)p->from)[i * p->k_stride + j * p->stride] : 0;
}

AVX2 static void shift_up(char *x, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i *y = (__m256i *)(void *)(x + i);
    _mm256_storeu_si256(y, _mm256_xor_si256(_mm256_loadu_si256(y), _mm256_set1_epi8((char)UP)));
  }
  for (; i < n; i++) x[i] = (char)(x[i] ^ UP);
}

void fours_avx2(const struct panel *p, bool is_left) {
  int64_t done = 0;
  if (p->k_stride == 1) done = turn_fours(p);
  else if (p->stride == 1 && p->n == p->width && p->width % 16 == 0) done = p->k / 4, rows_fours(p);
  one_by_one(p, done);
  if (is_left) shift_up(p->to, (p->k + 3) / 4 * 4 * p->width);
}
