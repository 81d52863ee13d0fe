/* codes.c -- products with rows of codes: see codes.h.
 *
 * Sixteen blocks of codes go side by side, one in a lane: shifting them all gives code c of each, which meets element c of theirs.
 * x w = sum of s (x q) + b (sum of x) over groups, so a lane has one scale, and biases meet sums that are made once. What is added
 * to what does not depend on how wide vectors are. */
#include "op/codes.h"
#include <stdbool.h>
#include <string.h>

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

enum { CODES_ROWS = 4 }; /* of x that share what is unpacked */

/* A block: a word, where codes do not cross words, else as many words as codes have bits: 32 codes. */
static inline __attribute__((always_inline)) int words_of(int bits) { return 32 % bits ? bits : 1; }
static inline __attribute__((always_inline)) int codes_of_block(int bits) { return 32 % bits ? 32 : 32 / bits; }

struct codes_row { const uint32_t *word, *rest; const float *scale; int64_t n_whole; };
typedef void row_dots(const struct codes_row *, const float *x, int64_t x_row, int rows, float out[]);

/* Sums stand in arrays of vectors of 64 bytes, which AddressSanitizer's stack of GCC does not align as the code expects. */
#define IN_VECTORS __attribute__((no_sanitize("address")))
#define LOOPS "op/codes_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

static row_dots *dots_here(int bits) { return HERE(dots)[bits]; }

/* ---- rows of x ---- */

static int64_t n_blocks(const struct codes_rows *x) { return x->k / codes_of_block(x->bits); }
static int64_t n_sides(const struct codes_rows *x) { return (n_blocks(x) + CODES_SIDE - 1) / CODES_SIDE; }
static int64_t y_row(const struct codes_rows *x) { return n_sides(x) * CODES_SIDE * codes_of_block(x->bits); }

size_t codes_room(const struct codes_rows *x) {
  return sizeof(float) * (size_t)(x->rows * y_row(x) + x->rows * (x->k / x->group) + n_sides(x) * CODES_SIDE + 1);
}

void codes_set(struct codes_rows *x, void *room, const float *from) {
  int64_t n = codes_of_block(x->bits), width = y_row(x), groups = x->k / x->group;
  x->y = room, x->sum = x->y + x->rows * width;
  memset(x->y, 0, sizeof(float) * (size_t)(x->rows * width));
  for (int64_t r = 0; r < x->rows; r++, from += x->k) {
    for (int64_t i = 0; i < x->k; i++) {
      int64_t block = i / n;
      x->y[r * width + (block / CODES_SIDE * n + i % n) * CODES_SIDE + block % CODES_SIDE] = from[i];
    }
    for (int64_t g = 0; g < groups; g++) {
      float sum = 0;
      for (int64_t i = 0; i < x->group; i++) sum += from[g * x->group + i];
      x->sum[r * groups + g] = sum;
    }
  }
}

/* ---- a row of codes ---- */

/* The scale of each block; 0 for those that only fill up. */
static void spread(const struct codes_rows *x, const float *s, float *scale) {
  int64_t groups = x->k / x->group, each = x->group / codes_of_block(x->bits);
  for (int64_t g = 0; g < groups; g++)
    for (int64_t i = 0; i < each; i++) scale[g * each + i] = s[g];
  for (int64_t i = groups * each; i < n_sides(x) * CODES_SIDE; i++) scale[i] = 0;
}

/* b (sum of x), by four sums of every fourth. */
static float biased(const float *b, const float *sum, int64_t n) {
  float part[4] = { 0 };
  for (int64_t i = 0; i < n; i++) part[i % 4] += b[i] * sum[i];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

void codes_dots(const struct codes_rows *x, const uint32_t *words, const float *s, const float *b, float *out, int64_t to_next) {
  int64_t width = y_row(x), groups = x->k / x->group, whole = n_blocks(x) / CODES_SIDE, left = n_blocks(x) % CODES_SIDE;
  int64_t each = words_of(x->bits);
  uint32_t rest[CODES_SIDE * 6] = { 0 };
  float *scale = x->sum + x->rows * groups, dot[CODES_ROWS];
  if (left) memcpy(rest, words + whole * CODES_SIDE * each, (size_t)(left * each) * sizeof *rest);
  spread(x, s, scale);
  struct codes_row w = { words, left ? rest : NULL, scale, whole };
  for (int64_t r = 0; r < x->rows; r += CODES_ROWS) {
    int rows = x->rows - r < CODES_ROWS ? (int)(x->rows - r) : CODES_ROWS;
    dots_here(x->bits)(&w, x->y + r * width, width, rows, dot);
    for (int i = 0; i < rows; i++) out[(r + i) * to_next] = dot[i] + biased(b, x->sum + (r + i) * groups, groups);
  }
}
