/* pattern.h -- numbers looked for in memory by their bits. */
#ifndef WEFT_PATTERN_H
#define WEFT_PATTERN_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether one of n neighbours has this pattern under the mask. Sixteen at a time: compilers make that a few instructions. */
#define PATTERN_ANY(bits)                                                                                    \
  static inline bool pattern_any_##bits(const uint8_t *at, int64_t n, uint##bits##_t mask, uint##bits##_t pattern) { \
    uint##bits##_t u[16], found = 0;                                                                          \
    for (; n >= 16; n -= 16, at += sizeof u) {                                                                \
      memcpy(u, at, sizeof u);                                                                                \
      for (int i = 0; i < 16; i++) found |= (u[i] & mask) == pattern;                                         \
    }                                                                                                         \
    for (; n > 0; n--, at += sizeof *u) memcpy(u, at, sizeof *u), found |= (u[0] & mask) == pattern;          \
    return found;                                                                                             \
  }
PATTERN_ANY(16)
PATTERN_ANY(32)
PATTERN_ANY(64)

#endif
