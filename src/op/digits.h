/* digits.h -- entries moved to where a digit of their keys says (digits.c): what sorts by digits, the lowest first, is made of.
 *
 * An entry has 4, 8 or 16 bytes and begins with its key, or is a word of 64 bits whose upper bits are the key: what counts are the
 * bits from `low` on of how far the key is from the least one. A move is stable. */
#ifndef WEFT_DIGITS_H
#define WEFT_DIGITS_H
#include "op/order.h"

enum { DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS, DIGITS = 6 };
_Static_assert((int)DIGITS * DIGIT_VALUES == ORDER_COUNTS && DIGITS * DIGIT_BITS >= 64, "all digits of a key can be counted");

struct digits { uint64_t least; int low, width, n; };

/* The digits of keys from `least` to `most`, of at most so many bits; at least one. */
struct digits digits_between(uint64_t least, uint64_t most, int low, int bits);

ORDER_INLINE uint64_t entry_key(const uint8_t *e, int64_t i, size_t size) {
  return order_load(e, size == 16 ? 2 * i : i, size == 16 ? 8 : (int)size);
}

ORDER_INLINE uint64_t digit_of(const struct digits *g, int k, uint64_t key) {
  return (key - g->least) >> (g->low + k * g->width) & (((uint64_t)1 << g->width) - 1);
}

void digits_count(const struct digits *, int k, const uint8_t *e, int64_t n, size_t size, int64_t count[DIGIT_VALUES]);
void digits_move(const struct digits *, int k, const uint8_t *e, int64_t n, size_t size, int64_t place[DIGIT_VALUES], uint8_t *to);
/* Counts become the places where each digit begins. False: all n have the same, and may stay. */
bool digits_begin(const struct digits *, int64_t count[DIGIT_VALUES], int64_t n);

/* n entries in the order of their keys, in e or in `other`: where they are is returned. */
uint8_t *digits_sort(uint8_t *e, uint8_t *other, int64_t n, size_t size, int low, int64_t count[ORDER_COUNTS]);

#endif
