/* radix.h -- by which divisors r a Fourier transform of n goes, on every device: pass by pass, from l = 1 to l r, up to n. */
#ifndef WEFT_RADIX_H
#define WEFT_RADIX_H
#include <stdbool.h>
#include <stdint.h>

/* r of the next pass, of n / l = rest > 1: odd primes first, then 4. */
static inline int64_t radix_next(int64_t rest) {
  int64_t odd = rest, p = 3;
  while (odd % 2 == 0) odd /= 2;
  if (odd == 1) return rest % 4 == 0 ? 4 : 2;
  while (odd % p && p * p <= odd) p += 2;
  return odd % p ? odd : p;
}

static inline bool radix_is_prime(int64_t r) { return r != 2 && r != 4; } /* .. and odd */

/* How many turns a pass reads: e^(-2 pi i v k / (l r)) of v = 1 .. r - 1, of k < l each; of an odd r e^(-2 pi i j / (l r)) of
 * j < l r. They stand one pass after the other, all cosines, then all sines. */
static inline int64_t radix_turns(int64_t l, int64_t r) { return radix_is_prime(r) ? r * l : (r - 1) * l; }

#endif
