/* network.c -- sorting networks over short rows that stand side by side: a vector holds the entries at one place of several rows,
 * and an exchange puts two places of all of them in order. What is compared with what does not depend on the entries, so nothing
 * branches. For machines without AVX-512; beside.c is for those that have it. */
#include "op/beside.h"
#include "op/network.h"

/* Entries x and y of two places, of as many rows as a register holds: they swap where `is_after` has all bits set. */
#define SWAP(x, y, is_after)                                          \
  do {                                                                \
    __typeof__(x) a_ = (x), b_ = (y), both_ = (a_ ^ b_) & (is_after); \
    (x) = a_ ^ both_, (y) = b_ ^ both_;                               \
  } while (0)

#define EXCHANGE_KEYS(i, k)                                         \
  for (int64_t j = 0; j < PARTS; j++) {                             \
    __typeof__(e) x = &e[PARTS * (i) + j], y = &e[PARTS * (k) + j]; \
    SWAP(*x, *y, *x > *y);                                          \
  }

#define EXCHANGE_ENTRIES(i, k)                                                                                                \
  for (int64_t j = 0; j < PARTS; j++) {                                                                                       \
    __typeof__(e) x = &e[PARTS * (i) + j], y = &e[PARTS * (k) + j], x_at = &at[PARTS * (i) + j], y_at = &at[PARTS * (k) + j]; \
    __typeof__(*e) is_after = (*x > *y) | ((*x == *y) & (*x_at > *y_at));                                                     \
    SWAP(*x, *y, is_after);                                                                                                   \
    SWAP(*x_at, *y_at, is_after);                                                                                             \
  }

/* An x86 without AVX2 does not compare 64 bits in vectors; there rows are sorted one by one. */
#ifdef __x86_64__
enum { REGISTER = 32 };
#define TARGET __attribute__((target("avx2")))
bool order_has_networks(void) { return __builtin_cpu_supports("avx2"); }
#else
enum { REGISTER = 16 };
#define TARGET
bool order_has_networks(void) { return true; }
#endif

enum { PARTS = BESIDE_BYTES / REGISTER }; /* registers a place: vectors that are wider go through memory */
typedef int32_t register_i32 __attribute__((vector_size(REGISTER), aligned(8), may_alias));
typedef int64_t register_i64 __attribute__((vector_size(REGISTER), aligned(8), may_alias));

TARGET void order_network_i32(int32_t *keys, int64_t n) {
  register_i32 *e = (void *)keys;
  NETWORK(n, EXCHANGE_KEYS)
}

TARGET void order_network_i64(int64_t *keys, int64_t n) {
  register_i64 *e = (void *)keys;
  NETWORK(n, EXCHANGE_KEYS)
}

TARGET void order_network_entries(int64_t *keys, int64_t *places, int64_t n) {
  register_i64 *e = (void *)keys, *at = (void *)places;
  NETWORK(n, EXCHANGE_ENTRIES)
}
