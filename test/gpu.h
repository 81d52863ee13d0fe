/* gpu.h -- what tests on a GPU against the host share: whether there is one, numbers to compute with, and the bits of a result. */
#ifndef WEFT_TEST_GPU_H
#define WEFT_TEST_GPU_H
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "test.h"

static inline bool has_gpu(void) {
  if (cuda_device(0)) return true;
  test_skip("there is no device");
  return false;
}

/* How often the word stands in the text. */
static inline int n_times(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text++) n++;
  return n;
}

/* In [-2, 6), the same ones for the same count and dtype; to be freed. */
static inline float *drawn(weft_dtype t, int64_t n) {
  float *x = calloc((size_t)n + 1, sizeof *x);
  uint32_t seed = (uint32_t)(n + t);
  for (int64_t i = 0; i < n; i++) seed = seed * 1664525u + 1013904223u, x[i] = (float)(seed >> 8) / (1 << 21) - 2;
  return x;
}

/* In memory, so that kernels load elements of this dtype. */
static inline weft_array *numbers(weft_dtype t, int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= dims[d];
  float *x = drawn(t, n);
  weft_array *a = weft_cast(weft_from(WEFT_F32, rank, dims, x), t);
  free(x);
  EXPECT_OK(weft_eval(1, &a));
  return a;
}

static inline weft_array *matrix(weft_dtype t, int64_t rows, int64_t columns) { return numbers(t, 2, (int64_t[]){ rows, columns }); }

/* The elements of y, computed, to be freed; *bytes: how many. */
static inline void *bits_of(weft_array *y, size_t *bytes) {
  *bytes = weft_dtype_bytes(weft_dtype_of(y));
  for (int d = 0; d < weft_rank(y); d++) *bytes *= (size_t)weft_dim(y, d);
  void *x = calloc(1, *bytes + 1);
  EXPECT_OK(weft_read(y, weft_dtype_of(y), x, *bytes));
  return x;
}

#endif
