/* fourier.h -- Fourier transforms of rows in memory, sum over j of x_j e^(-2 pi i j k / n), by the divisors of n:
 *
 * With A_l[k, b] = sum over a < l of x[a n / l + b] e^(-2 pi i a k / l), k < l and b < n / l, A_1 is x, A_n the result, and for
 * L = l r
 *   A_L[k + l u, b] = sum over v < r of e^(-2 pi i u v / r) (e^(-2 pi i v k / L) A_l[k, b + v n / L]).
 * A pass goes from l to L. Where r is 2 or 4 the inner factors are turns first, unless l is 1, and the outer ones sums and
 * differences; for another r, a prime, both are one factor, and the sum begins with v = 0. How passes lie in memory does not change
 * what they compute. */
#ifndef WEFT_OP_FOURIER_H
#define WEFT_OP_FOURIER_H
#include <stdbool.h>
#include <stddef.h>
#include "base/radix.h"

int64_t fourier_turns(int64_t n); /* of all passes (radix.h) */
void fourier_write_turns(int64_t n, double *room, bool is_wide, void *to); /* room: 2 n; to: 2 fourier_turns(n), wide: doubles */

size_t fourier_room(int64_t n, bool is_wide); /* bytes that a thread works in */
/* Rows of n floats, or doubles; im NULL: it is 0. */
void fourier_rows(int64_t n, bool is_wide, const void *turns, int64_t rows, const void *re, const void *im, void *to_re,
                  void *to_im, void *room);

#endif
