/* codes.c -- codes in memory: see codes.h.
 *
 * Few rows by the transpose: lanes are rows of w. Words of as many rows as there are lanes are turned in registers, so that a
 * shift gives one code of each; what it stands for is multiplied at once, and stands nowhere. Otherwise what 512 by 32 codes
 * stand for is written to a panel, once, and multiplied by patches of rows that are held in registers. */
#include "op/codes.h"
#include <math.h>
#include <string.h>
#include "kernel/kir.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef __clang__
#pragma GCC optimize("O3")
#endif
/* Arrays of vectors of 64 bytes are local, and AddressSanitizer's stack of GCC does not align them as the code expects. */
#define IN_VECTORS __attribute__((no_sanitize("address")))
#define ALWAYS static inline __attribute__((always_inline)) IN_VECTORS
#define APART static __attribute__((noinline)) IN_VECTORS  /* once, not in each of the forms that call it */

enum {
  BLOCK = KIR_PRODUCT_BLOCK,
  PANEL = 32,         /* columns of a panel: the codes of as many whole words as a code has bits */
  FEW = 4,            /* rows that are multiplied with what is unpacked in registers */
  AT_ONCE = 240,      /* rows that share a panel: 512 of each stay in the second cache */
  AHEAD = 4           /* lines of 64 bytes that a row of words is asked for before */
};

/* A block: a word, where codes do not cross words, else as many words as codes have bits: 32 codes. */
ALWAYS int words_of(int bits) { return 32 % bits ? bits : 1; }
ALWAYS int codes_of(int bits) { return 32 % bits ? 32 : 32 / bits; }

static const int scale_bytes[] = { [SCALE_F32] = 4, [SCALE_F16] = 2, [SCALE_BF16] = 2, [SCALE_E8M0] = 1, [SCALE_E4M3] = 1 };

/* Groups of n codes; how many codes a group has is a power of two. */
ALWAYS int64_t groups_of(const struct codes *w, int64_t n) { return n >> __builtin_ctz((unsigned)w->group); }

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
