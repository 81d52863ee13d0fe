/* noise.h -- random numbers for the examples, the same on every machine. */
#ifndef NOISE_H
#define NOISE_H
#include <math.h>
#include <stdint.h>

static inline double uniform(void) { /* in [0, 1) */
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) / (1ull << 53);
}

static inline double normal(void) { return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform()); }
#endif
