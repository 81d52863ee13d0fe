/* digits.c -- sorting by the digits of keys, the lowest first: a pass moves every entry once, whatever the elements are. */
#include "op/digits.h"

enum {
  FEW = 40,         /* so many are put in order one by one: counting digits takes longer */
  SHORT = 1 << 14,  /* fewer than that are sorted by digits of 8 bits, whose counts are quickly cleared, more by 11 */
};

/* Calls DO(size) with a constant. */
#define BY_SIZE(size, DO)       \
  switch (size) {               \
    case 4: DO(4); break;       \
    case 8: DO(8); break;       \
    default: DO(16); break;     \
  }

struct digits digits_between(uint64_t least, uint64_t most, int low, int bits) {
  uint64_t span = (most >> low) - (least >> low); /* what is below `low` may be more in the least one */
  int all = span ? 64 - __builtin_clzll(span) : 1, n = (all + bits - 1) / bits;
  return (struct digits){ least >> low << low, low, (all + n - 1) / n, n };
}

/* ---- one digit ---- */

ORDER_INLINE void count_one(const struct digits *g, int k, const uint8_t *e, int64_t n, size_t size, int64_t count[]) {
  struct digits d = *g;
  for (int64_t i = 0; i < n; i++) count[digit_of(&d, k, entry_key(e, i, size))]++;
}

ORDER_INLINE void move_to(uint8_t *to, int64_t k, const uint8_t *from, int64_t i, size_t size) {
  memcpy(to + (size_t)k * size, from + (size_t)i * size, size);
}

ORDER_INLINE void move_one(const struct digits *g, int k, const uint8_t *e, int64_t n, size_t size, int64_t place[], uint8_t *to) {
  struct digits d = *g;
  for (int64_t i = 0; i < n; i++) move_to(to, place[digit_of(&d, k, entry_key(e, i, size))]++, e, i, size);
}

void digits_count(const struct digits *g, int k, const uint8_t *e, int64_t n, size_t size, int64_t count[DIGIT_VALUES]) {
  memset(count, 0, sizeof *count << g->width);
#define COUNT(bytes) count_one(g, k, e, n, bytes, count)
  BY_SIZE(size, COUNT)
#undef COUNT
}

void digits_move(const struct digits *g, int k, const uint8_t *e, int64_t n, size_t size, int64_t place[DIGIT_VALUES],
                 uint8_t *to) {
#define MOVE(bytes) move_one(g, k, e, n, bytes, place, to)
  BY_SIZE(size, MOVE)
#undef MOVE
}

bool digits_begin(const struct digits *g, int64_t count[DIGIT_VALUES], int64_t n) {
  int64_t at = 0;
  for (int k = 0; k < 1 << g->width; k++) {
    int64_t here = count[k];
    if (here == n) return false;
    count[k] = at;
    at += here;
  }
  return true;
}

/* ---- all of them ---- */

ORDER_INLINE void insert_all(uint8_t *e, int64_t n, size_t size, int low) {
  for (int64_t i = 1, j; i < n; i++) {
    uint8_t x[16];
    move_to(x, 0, e, i, size);
    uint64_t key = entry_key(x, 0, size) >> low;
    for (j = i; j > 0 && entry_key(e, j - 1, size) >> low > key; j--) move_to(e, j, e, j - 1, size);
    move_to(e, j, x, 0, size);
  }
}

ORDER_INLINE struct digits digits_among(const uint8_t *e, int64_t n, size_t size, int low, int bits) {
  uint64_t least = UINT64_MAX, most = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = entry_key(e, i, size);
    least = key < least ? key : least, most = key > most ? key : most;
  }
  return digits_between(least, most, low, bits);
}

/* How many there are of each digit, of all digits in one pass. */
ORDER_INLINE void count_all(const struct digits *g, const uint8_t *e, int64_t n, size_t size, int64_t count[]) {
  struct digits d = *g;
  memset(count, 0, sizeof *count * ((size_t)d.n << d.width));
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = entry_key(e, i, size);
    for (int k = 0; k < d.n; k++) count[((uint64_t)k << d.width) + digit_of(&d, k, key)]++;
  }
}

ORDER_INLINE uint8_t *sort_all(uint8_t *e, uint8_t *other, int64_t n, size_t size, int low, int64_t count[]) {
  if (n <= FEW) return insert_all(e, n, size, low), e;
  struct digits g = digits_among(e, n, size, low, n < SHORT ? 8 : DIGIT_BITS);
  count_all(&g, e, n, size, count);
  for (int k = 0; k < g.n; k++, count += (size_t)1 << g.width) {
    if (!digits_begin(&g, count, n)) continue;
    move_one(&g, k, e, n, size, count, other);
    uint8_t *t = e;
    e = other, other = t;
  }
  return e;
}

uint8_t *digits_sort(uint8_t *e, uint8_t *other, int64_t n, size_t size, int low, int64_t count[ORDER_COUNTS]) {
#define SORT(bytes) return sort_all(e, other, n, bytes, low, count)
  BY_SIZE(size, SORT)
#undef SORT
}

struct order_entry *order_sort(struct order_entry *e, struct order_entry *other, int64_t n, int64_t count[ORDER_COUNTS]) {
  return (void *)digits_sort((void *)e, (void *)other, n, sizeof *e, 0, count);
}
