/* codes.c -- codes in memory: see codes.h.
 *
 * Few rows by the transpose: lanes are rows of w. Words of as many rows as there are lanes are turned in registers, so that a
 * shift gives one code of each; what it stands for is multiplied at once, and stands nowhere. Otherwise what 512 by 32 codes
 * stand for is written to a panel, once, and multiplied by patches of rows that are held in registers. */
#include "op/codes.h"
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef __clang__
#pragma GCC optimize("O3")
#endif
/* Arrays of vectors of 64 bytes are local, and AddressSanitizer's stack of GCC does not align them as the code expects. */
#define IN_VECTORS __attribute__((no_sanitize("address")))
#define ALWAYS static inline __attribute__((always_inline)) IN_VECTORS

enum {
  BLOCK = 512,        /* products that are added before their sum is */
  PANEL = 32,         /* columns of a panel: the codes of as many whole words as a code has bits */
  FEW = 4,            /* rows that are multiplied with what is unpacked in registers */
  AT_ONCE = 240,      /* rows that share a panel: 512 of each stay in the second cache */
  AHEAD = 4           /* lines of 64 bytes that a row of words is asked for before */
};

/* A block: a word, where codes do not cross words, else as many words as codes have bits: 32 codes. */
ALWAYS int words_of(int bits) { return 32 % bits ? bits : 1; }
ALWAYS int codes_of(int bits) { return 32 % bits ? 32 : 32 / bits; }

ALWAYS uint32_t as_bits(float x) { uint32_t b; memcpy(&b, &x, sizeof b); return b; }
ALWAYS float as_float(uint32_t b) { float x; memcpy(&x, &b, sizeof x); return x; }

/* Scales i .. i + n - 1. */
ALWAYS void scales_at(const void *from, enum code_scale kind, int64_t i, int n, float to[]) {
  switch (kind) {
  case SCALE_F32: memcpy(to, (const float *)from + i, (size_t)n * sizeof *to); break;
  case SCALE_BF16: for (int j = 0; j < n; j++) to[j] = as_float((uint32_t)((const uint16_t *)from)[i + j] << 16); break;
  case SCALE_F16:
    for (int j = 0; j < n; j++) {
      uint32_t h = ((const uint16_t *)from)[i + j], sign = (h & 0x8000) << 16, is_far = (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
      to[j] = as_float(as_bits(as_float((h & 0x7fff) << 13) * 0x1p112f) | is_far | sign);
    }
    break;
  case SCALE_E8M0:
    for (int j = 0; j < n; j++) {
      uint32_t e = ((const uint8_t *)from)[i + j];
      to[j] = as_float(e ? e << 23 : 0x00400000);
    }
    break;
  case SCALE_E4M3: /* 2^(e - 7) (1 + m / 8); 2^-6 m / 8 where e is 0; the last is nan */
    for (int j = 0; j < n; j++) {
      uint32_t q = ((const uint8_t *)from)[i + j], size = q & 127;
      float near = as_float(((size | 8) << 20) + (120u << 23)) - 0x1p-6f, far = as_float((size << 20) + (120u << 23));
      to[j] = as_float(as_bits(size < 8 ? near : far) | (q & 128) << 24 | (size == 127 ? 0x7fc00000 : 0));
    }
    break;
  }
}

/* Row r of x. */
ALWAYS const float *row_of(const struct codes_product *p, int64_t r) {
  return p->x + (p->at ? p->at[r / p->each] * p->each + r % p->each : r) * p->k;
}

typedef void codes_range(const struct codes_product *, int64_t from, int64_t to, float *room);
typedef void codes_whole_row(const struct codes *, int64_t i, float *w);

#define LOOPS "op/codes_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

void codes_product(const struct codes_product *p, int64_t from, int64_t to, void *room) { HERE(range)(p, from, to, room); }
void codes_row(const struct codes *w, int64_t i, float *out) { HERE(row)(w, i, out); }

size_t codes_room(const struct codes_product *p) {
  if (p->is_transposed && p->m <= FEW) return 0;
  return sizeof(float) * (size_t)(BLOCK * PANEL + (p->m < AT_ONCE ? p->m : AT_ONCE) * p->k + 16);
}
