/* order.h -- the order of elements, which sorting and selecting share.
 *
 * An element has a key, an unsigned integer whose order is that of the elements: NaN is the largest, whatever its sign and payload,
 * and -0 comes before 0. Of equal keys the one that stands first comes first, so every order has one result, whatever finds it. */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H
#include <string.h>
#include "op/operand.h"

#define ORDER_INLINE static inline __attribute__((always_inline))

/* The lowest pattern, without its sign, that is a NaN. */
ORDER_INLINE uint64_t order_least_nan(weft_dtype d) {
  return d == WEFT_F16 ? 0x7c01 : d == WEFT_BF16 ? 0x7f81 : d == WEFT_F32 ? 0x7f800001
       : d == WEFT_E4M3 ? 0x7f : d == WEFT_E5M2 ? 0x7d : 0x7ff0000000000001;
}

ORDER_INLINE bool order_is_nan(weft_dtype d, int bytes, uint64_t bits) {
  uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  return dtype_is_float(d) && (bits & ~sign) >= order_least_nan(d);
}

/* Turns the sign of a float, and all its other bits too if all is 1, not 0. No branch: nobody foretells signs of elements. */
ORDER_INLINE uint64_t order_turn(uint64_t bits, uint64_t sign, uint64_t all) { return bits ^ (sign | ((sign - 1) & (0 - all))); }

/* A key that orders as the dtype does, as an unsigned integer; for dtypes of at most 4 bytes it has 32 bits. */
ORDER_INLINE uint64_t order_key(weft_dtype d, int bytes, uint64_t bits) {
  uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  if (dtype_is_signed(d)) return bits ^ sign;
  if (!dtype_is_float(d)) return bits;
  uint64_t nan = 0 - (uint64_t)order_is_nan(d, bytes, bits);
  return order_turn(bits, sign, bits / sign) | (bytes == 8 ? nan : (uint32_t)nan);
}

/* What has that key; not of a NaN. */
ORDER_INLINE uint64_t order_bits(weft_dtype d, int bytes, uint64_t key) {
  uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  if (dtype_is_signed(d)) return key ^ sign;
  if (!dtype_is_float(d)) return key;
  return order_turn(key, sign, (key / sign & 1) ^ 1);
}

ORDER_INLINE uint64_t order_load(const uint8_t *from, int64_t i, int bytes) {
  uint8_t one;
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  switch (bytes) {
    case 1: return memcpy(&one, from + i, 1), one;
    case 2: return memcpy(&two, from + 2 * i, 2), two;
    case 4: return memcpy(&four, from + 4 * i, 4), four;
  }
  return memcpy(&eight, from + 8 * i, 8), eight;
}

/* Calls DO(dtype, bytes) with constants, so that a loop over the elements knows what it reads. */
#define ORDER_BY_DTYPE(dtype, DO)                                                                       \
  switch (dtype) {                                                                                      \
    case WEFT_BOOL: case WEFT_U8: DO(WEFT_U8, 1); break;                                                \
    case WEFT_I8: DO(WEFT_I8, 1); break;                                                                \
    case WEFT_E4M3: DO(WEFT_E4M3, 1); break;                                                            \
    case WEFT_E5M2: DO(WEFT_E5M2, 1); break;                                                            \
    case WEFT_U16: DO(WEFT_U16, 2); break;                                                              \
    case WEFT_I16: DO(WEFT_I16, 2); break;                                                              \
    case WEFT_F16: DO(WEFT_F16, 2); break;                                                              \
    case WEFT_BF16: DO(WEFT_BF16, 2); break;                                                            \
    case WEFT_U32: DO(WEFT_U32, 4); break;                                                              \
    case WEFT_I32: DO(WEFT_I32, 4); break;                                                              \
    case WEFT_F32: DO(WEFT_F32, 4); break;                                                              \
    case WEFT_U64: DO(WEFT_U64, 8); break;                                                              \
    case WEFT_I64: DO(WEFT_I64, 8); break;                                                              \
    case WEFT_F64: case WEFT_C64: case WEFT_C128: DO(WEFT_F64, 8); break;                               \
  }

/* The same with numbers in the place of a dtype, for loops that know how many bytes an element has and no more. Keys have as many
 * bits as the elements: that of a NaN is `all`. */
struct order_keys { int bytes, top; uint64_t always, below, least_nan, all; };

static inline struct order_keys order_keys_of(weft_dtype d) {
  int bytes = (int)weft_dtype_bytes(d);
  uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  bool is_float = dtype_is_float(d);
  return (struct order_keys){ bytes, 8 * bytes - 1, is_float || dtype_is_signed(d) ? sign : 0, is_float ? sign - 1 : 0,
                              is_float ? order_least_nan(d) : UINT64_MAX, 2 * sign - 1 };
}

ORDER_INLINE bool order_is_no_number(const struct order_keys *k, uint64_t bits) { return (bits & k->below) >= k->least_nan; }

/* Negative floats have all bits turned, others the sign alone. */
ORDER_INLINE uint64_t order_key_of(const struct order_keys *k, uint64_t bits) {
  uint64_t key = bits ^ (k->always | (k->below & (0 - (bits >> k->top))));
  return key | (k->all & (0 - (uint64_t)order_is_no_number(k, bits)));
}

ORDER_INLINE uint64_t order_bits_of(const struct order_keys *k, uint64_t key) {
  return key ^ (k->always | (k->below & (0 - ((key >> k->top & 1) ^ 1))));
}

struct order_entry { uint64_t key; int64_t at; };

enum { ORDER_COUNTS = 6 * 2048 }; /* what a sort counts in */

/* e in order, there or in `other`: where it is returned. Stable. */
struct order_entry *order_sort(struct order_entry *e, struct order_entry *other, int64_t n, int64_t count[ORDER_COUNTS]);

/* n places of rows side by side (network.c), in order: a place is 64 bytes, an entry of each of 16 or 8 rows. With
 * `places` entries are pairs, of which the second decides where the first are equal. Not stable. */
bool order_has_networks(void); /* this machine has what they are written for; else they must not be called */
void order_network_i32(int32_t *keys, int64_t n);
void order_network_i64(int64_t *keys, int64_t n);
void order_network_entries(int64_t *keys, int64_t *places, int64_t n);

#endif
