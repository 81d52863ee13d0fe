/* quick.c -- keys in order by parting them at a pivot, a vector at a time, between two rooms; few are put where their ranks say.
 * For x86 with AVX-512: its compression parts a vector in one step, and elsewhere digits are faster (digits.c). Not stable, so
 * entries whose order matters must differ. What pivots do not bring apart in time is left to digits, so no keys take long. */
#include "op/quick.h"
#include "op/digits.h"

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
#endif
