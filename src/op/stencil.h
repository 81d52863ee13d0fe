/* stencil.h -- planes of floats by small kernels, one for each channel, in memory:
 *
 *   y[n, i, j, c O + o] = sum over p of (sum over k of x[n, i sh + p dh - top, j sw + k dw - left, c] f[c O + o, p, k])
 *
 * What lies outside of x is 0. Each product is rounded, sums over k begin at +0, and their sums are added in the order of p: the
 * bits of so many shifted arrays, so that it does not matter how wide vectors are, or who computes what. */
#ifndef WEFT_OP_STENCIL_H
#define WEFT_OP_STENCIL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stencil {
  bool are_planes;                  /* x and y are [N, C, ..], else [N, .., C] */
  int64_t n, h, w, c;               /* of x */
  int64_t o, kh, kw;                /* f [c o, kh, kw] */
  int64_t sh, sw, dh, dw, top, left, oh, ow;
  const float *x, *f;
  float *y;
};

/* A part: some rows of y, of one plane or of 16 channels. */
int64_t stencil_parts(const struct stencil *);
size_t stencil_room(const struct stencil *);  /* bytes that a thread works in */
void stencil_run(const struct stencil *, int64_t from, int64_t to, void *room); /* parts from .. to - 1 */

#endif
