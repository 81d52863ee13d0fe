/* beside.c -- short rows in order: 16 or 8 of them side by side, a vector for each place with an entry of every row.
 *
 * A square of rows and columns is loaded as its rows are, becomes keys (order.h), and is turned in registers, so that its columns
 * are vectors; a sorting network puts the columns in order, for all rows at once; then squares are turned back and stored. What is
 * compared with what does not depend on the entries, so nothing branches.
 *
 * Entries are a key alone where nobody asks for places. Else they are a word with the key above and the place below it, or of
 * elements of 8 bytes a key and a place, which stand in two vectors: all differ, so their one order is the stable one.
 *
 * For x86 with AVX-512. Elsewhere network.c has the networks alone, and rows are turned element by element (sort.c). */
#include "op/beside.h"
#include "op/network.h"

#ifdef __x86_64__
#include <immintrin.h>

/* Arrays of vectors are local: see codes.c. */
#define BESIDE_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,popcnt"), no_sanitize("address")))
#define BESIDE_INLINE BESIDE_TARGET static inline __attribute__((always_inline))

/* X(0) X(1) .. with constants as indices: only so does the compiler keep an array of vectors in registers. */
#define EACH_8(X, ...) X(0, __VA_ARGS__) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) \
                       X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)
#define EACH_16(X, ...) EACH_8(X, __VA_ARGS__) X(8, __VA_ARGS__) X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__) \
                        X(12, __VA_ARGS__) X(13, __VA_ARGS__) X(14, __VA_ARGS__) X(15, __VA_ARGS__)

/* What becomes of a pair of vectors that are h apart in a square of n, lane by lane: the first takes from the second the lanes
 * with bit h not set, and gives for them its own that have it set. Lanes of the second count from n. */
#define FIRST(j, h, n) ((j) & (h) ? (n) + (j) - (h) : (j))
#define SECOND(j, h, n) ((j) & (h) ? (n) + (j) : (j) + (h))

/* The network of network.h for 8 or 16 places in registers, round by round. */
#define EXCHANGE_IF(i, p, r, d, n) if (((i) & (p)) == (r) && (i) + (d) < (n)) EXCHANGE(v[i], v[((i) + (d)) % (n)]);
#define ROUND_8(p, r, d) EACH_8(EXCHANGE_IF, p, r, d, 8)
#define ROUND_16(p, r, d) EACH_16(EXCHANGE_IF, p, r, d, 16)
#define NETWORK_8 ROUND_8(4, 0, 4) ROUND_8(2, 0, 2) ROUND_8(2, 2, 2) ROUND_8(1, 0, 1) ROUND_8(1, 1, 3) ROUND_8(1, 1, 1)
#define NETWORK_16                                                                                       \
  ROUND_16(8, 0, 8) ROUND_16(4, 0, 4) ROUND_16(4, 4, 4) ROUND_16(2, 0, 2) ROUND_16(2, 2, 6) ROUND_16(2, 2, 2) \
  ROUND_16(1, 0, 1) ROUND_16(1, 1, 7) ROUND_16(1, 1, 3) ROUND_16(1, 1, 1)

#define BITS 32
#include "op/beside_loops.h"
#undef BITS
#define BITS 64
#include "op/beside_loops.h"
#undef BITS

/* ---- words of keys and places ---- */

/* A place of 8 rows as it stands after they are in order: the lower half of a word says which it was. */
BESIDE_INLINE __m512i place_of(__m512i word) { return _mm512_and_si512(word, _mm512_set1_epi64(UINT32_MAX)); }

BESIDE_INLINE void sort_words(const struct beside_rows *b, int bytes) {
  int64_t n_nan[8];
  fill_64(b, bytes, true, n_nan);
  order_64(b->room, b->n);
#define PUT(i, c, m) _mm512_mask_storeu_epi64(b->order + (i) * b->order_each + 8 * (c), m, place_of(v[i]));
  for (int64_t c = 0; c < b->n; c += 8) {
    __m512i v[8];
    __mmask8 m = first_64(b->n - c);
    turned_64((const __m512i *)b->room + c, v);
    EACH_8(PUT, c, m)
  }
#undef PUT
}

/* ---- pairs: the second decides where the first are equal ---- */

BESIDE_INLINE void exchange_pairs(__m512i *x, __m512i *y, __m512i *x_at, __m512i *y_at) {
  __m512i a = *x, b = *y, a_at = *x_at, b_at = *y_at;
  __mmask8 is_equal = _mm512_cmpeq_epu64_mask(a, b);
  __mmask8 is_after = (__mmask8)(_mm512_cmpgt_epu64_mask(a, b) | _mm512_mask_cmpgt_epu64_mask(is_equal, a_at, b_at));
  *x = _mm512_mask_mov_epi64(a, is_after, b), *y = _mm512_mask_mov_epi64(b, is_after, a);
  *x_at = _mm512_mask_mov_epi64(a_at, is_after, b_at), *y_at = _mm512_mask_mov_epi64(b_at, is_after, a_at);
}

BESIDE_TARGET static void sort_pairs(const struct beside_rows *b) {
  int64_t n = b->n, n_nan[8];
  __m512i *e = b->room, *at = e + BESIDE_MOST;
  fill_64(b, 8, false, n_nan);
  for (int64_t i = 0; i < n; i++) at[i] = _mm512_set1_epi64(i);
#define EXCHANGE_PAIRS(i, k) exchange_pairs(e + (i), e + (k), at + (i), at + (k))
  NETWORK(n, EXCHANGE_PAIRS)
#undef EXCHANGE_PAIRS
#define PUT(i, c, m) _mm512_mask_storeu_epi64(b->order + (i) * b->order_each + 8 * (c), m, v[i]);
  for (int64_t c = 0; c < n; c += 8) {
    __m512i v[8];
    __mmask8 m = first_64(n - c);
    turned_64(at + c, v);
    EACH_8(PUT, c, m)
  }
#undef PUT
}

/* ---- the interface ---- */

bool beside_is_there(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

BESIDE_TARGET static void keys_1(const struct beside_rows *b, int64_t n_nan[]) { sort_keys_32(b, 1, n_nan); }
BESIDE_TARGET static void keys_2(const struct beside_rows *b, int64_t n_nan[]) { sort_keys_32(b, 2, n_nan); }
BESIDE_TARGET static void keys_4(const struct beside_rows *b, int64_t n_nan[]) { sort_keys_32(b, 4, n_nan); }
BESIDE_TARGET static void keys_8(const struct beside_rows *b, int64_t n_nan[]) { sort_keys_64(b, 8, n_nan); }
BESIDE_TARGET static void words_1(const struct beside_rows *b) { sort_words(b, 1); }
BESIDE_TARGET static void words_2(const struct beside_rows *b) { sort_words(b, 2); }
BESIDE_TARGET static void words_4(const struct beside_rows *b) { sort_words(b, 4); }

void beside_sort(const struct beside_rows *b, int64_t n_nan[]) {
  size_t bytes = weft_dtype_bytes(b->dtype);
  if (b->order) (bytes == 1 ? words_1 : bytes == 2 ? words_2 : bytes == 4 ? words_4 : sort_pairs)(b);
  else (bytes == 1 ? keys_1 : bytes == 2 ? keys_2 : bytes == 4 ? keys_4 : keys_8)(b, n_nan);
}
#else
bool beside_is_there(void) { return false; }
void beside_sort(const struct beside_rows *b, int64_t n_nan[]) { (void)b, (void)n_nan; }
#endif

int beside_at_once(weft_dtype d, bool has_order) { return BESIDE_BYTES / (has_order || weft_dtype_bytes(d) == 8 ? 8 : 4); }
