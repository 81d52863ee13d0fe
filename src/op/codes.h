/* codes.h -- matrices of codes of few bits, in memory: what the codes stand for, and products of rows with them.
 *
 * A row is codes of 2 to 8 bits, one after the other in words, the first in the lowest bits. Every group of neighbours has a scale,
 * and where codes are whole numbers a bias: w = q s + b, rounded twice; codes that are floats: w = q s. A product has the bits of
 * the product with w: products are added in the order of k by fma, in blocks of 512. So it does not matter how wide vectors are,
 * who computes what, or how many rows there are. */
#ifndef WEFT_OP_CODES_H
#define WEFT_OP_CODES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum code_kind { CODE_WHOLE, CODE_FP4, CODE_FP8 };  /* a whole number; e2m1; e4m3 */
enum code_scale { SCALE_F32, SCALE_F16, SCALE_BF16, SCALE_E8M0, SCALE_E4M3 };

struct codes {                    /* [rows, n] */
  enum code_kind kind;
  int bits, group;                /* group: a power of two, 16 or more */
  int64_t rows, n;                /* n: whole groups, and whole words */
  const uint32_t *words;
  const void *scales, *biases;    /* [rows, n / group]; biases of CODE_WHOLE */
  enum code_scale scale, bias;
};

/* Row i, as floats. */
void codes_row(const struct codes *, int64_t i, float *w);

/* y = x w' or x w, x [m, k]. */
struct codes_product {
  struct codes w;
  bool is_transposed;
  int64_t m, n, k;
  const float *x;
  const int64_t *at;              /* rows of x go `each` at a time, the i-th of these from row at[i] each on; NULL: one by one */
  int64_t each;
  float *y;                       /* [m, n] */
};

/* A part: so many columns of y. */
enum { CODES_PART = 64 };
static inline int64_t codes_parts(int64_t n) { return (n + CODES_PART - 1) / CODES_PART; }
size_t codes_room(const struct codes_product *);  /* bytes that a thread works in */
void codes_product(const struct codes_product *, int64_t from, int64_t to, void *room);  /* parts from .. to - 1 */

#endif
