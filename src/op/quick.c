/* quick.c -- keys in order by parting them at a pivot, a vector at a time, between two rooms; few are put where their ranks say.
 * For x86 with AVX-512: its compression parts a vector in one step, and elsewhere digits are faster (digits.c). Not stable, so
 * entries whose order matters must differ. What pivots do not bring apart in time is left to digits, so no keys take long. */
#include "op/quick.h"

#ifdef __x86_64__
#include <immintrin.h>

enum { QUICK_FEW = 32 };
#define QUICK_TARGET __attribute__((target("avx512f,avx512dq,popcnt"), no_sanitize("address")))
#define BITS 32
#include "op/quick_loops.h"
#undef BITS
#define BITS 64
#include "op/quick_loops.h"
#undef BITS

/* ---- words that are near each other ---- */

enum { LEAST_SPREAD = 64, TOGETHER = 16 };

/* Counts become places, four of 16 bits at a time: times 2^48 + 2^32 + 2^16 + 1 each is the sum of those up to it. False: some
 * count is TOGETHER or more. */
static bool begin_spread(uint64_t count[], int n) {
  const uint64_t sums = 0x0001000100010001, many = sums * (uint16_t)-TOGETHER;
  uint64_t at = 0, any = 0;
  for (int k = 0; k < n; k++) {
    uint64_t here = count[k], upto = here * sums;
    any |= here & many, count[k] = (upto << 16) + at, at += (upto >> 48) * sums;
  }
  return !any;
}

/* Puts the lesser of every two neighbours first. True: some were not so before. */
QUICK_TARGET static bool order_pairs(uint64_t *e, int64_t n) {
  int64_t i = 0;
  __mmask8 any = 0;
  for (; i + 8 <= n; i += 8) {
    __m512i v = _mm512_loadu_si512(e + i), w = _mm512_permutex_epi64(v, 0xB1);
    __m512i y = _mm512_mask_blend_epi64(0xAA, _mm512_min_epu64(v, w), _mm512_max_epu64(v, w));
    any |= _mm512_cmpneq_epu64_mask(y, v);
    _mm512_storeu_si512(e + i, y);
  }
  for (; i + 2 <= n; i += 2) {
    uint64_t a = e[i], b = e[i + 1];
    if (a > b) e[i] = b, e[i + 1] = a, any = 1;
  }
  return any;
}

/* A digit a word, as many as that are of it on average. They go where most belong, and few have far to go. */
bool quick_spread(const struct digits *g, const uint64_t *e, int64_t n, uint64_t to[QUICK_SPREAD]) {
  if (n < LEAST_SPREAD || n > QUICK_SPREAD) return false;
  int bits = 64 - __builtin_clzll((uint64_t)n - 1), low = g->low + (g->n - 1) * g->width - bits;
  uint64_t least = g->least, mask = ((uint64_t)1 << bits) - 1;
  union { uint64_t four[QUICK_SPREAD / 4]; uint16_t one[QUICK_SPREAD]; } count;
  if (low < 0) return false;
  memset(&count, 0, sizeof *count.one << bits);
  for (int64_t i = 0; i < n; i++) count.one[(e[i] - least) >> low & mask]++;
  if (!begin_spread(count.four, 1 << (bits - 2))) return false;
  for (int64_t i = 0; i < n; i++) to[count.one[(e[i] - least) >> low & mask]++] = e[i];
  for (bool is_moved = true; is_moved;) is_moved = order_pairs(to, n), is_moved |= order_pairs(to + 1, n - 1);
  return true;
}

bool quick_is_there(void) { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"); }

/* Twice as deep as halves go. */
static int depth_of(int64_t n) { return 2 * (64 - __builtin_clzll((uint64_t)n | 1)); }

void quick_sort_32(uint32_t *e, uint32_t *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  sort_32(e, other, n, false, depth_of(n), count);
}
void quick_sort_64(uint64_t *e, uint64_t *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  sort_64(e, other, n, false, depth_of(n), count);
}
#else
bool quick_is_there(void) { return false; }
void quick_sort_32(uint32_t *e, uint32_t *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  (void)e, (void)other, (void)n, (void)count;
}
void quick_sort_64(uint64_t *e, uint64_t *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  (void)e, (void)other, (void)n, (void)count;
}
bool quick_spread(const struct digits *g, const uint64_t *e, int64_t n, uint64_t to[QUICK_SPREAD]) {
  return (void)g, (void)e, (void)n, (void)to, false;
}
#endif
