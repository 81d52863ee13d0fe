/* hash.h -- a hash of bytes, for keys that are compared in full on a hit. */
#ifndef WEFT_HASH_H
#define WEFT_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

static inline uint64_t hash_bytes(const void *data, size_t n) {
  const unsigned char *p = data;
  uint64_t h = n, w;
  for (; n >= 8; p += 8, n -= 8) h = (memcpy(&w, p, 8), hash_mix(h, w));
  w = 0;
  if (n) h = (memcpy(&w, p, n), hash_mix(h, w));
  return h;
}

#endif
