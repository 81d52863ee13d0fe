/* codes.h -- products of rows of f32 with rows of codes of few bits, which are unpacked in registers. quantize.c has
 * their layout. */
#ifndef WEFT_OP_CODES_H
#define WEFT_OP_CODES_H
#include <stddef.h>
#include <stdint.h>

enum { CODES_SIDE = 16 }; /* blocks of codes that go side by side through vectors, whatever these hold */

/* Rows x [rows, k] as `codes_dots` reads them: y. A block is a word, or as many as hold codes whole; element c of blocks side by
 * side is side by side, and the last of them are filled up with zeros. */
struct codes_rows { int bits, group; int64_t rows, k; float *y, *sum; /* [rows, k / group] */ };
size_t codes_room(const struct codes_rows *);  /* bytes of y, sum and what a dot needs besides */
void codes_set(struct codes_rows *, void *room, const float *x);

/* out[r to_next] = x_r w, for all rows, w = s q + b one row of codes. */
void codes_dots(const struct codes_rows *, const uint32_t *words, const float *s, const float *b, float *out, int64_t to_next);

#endif
