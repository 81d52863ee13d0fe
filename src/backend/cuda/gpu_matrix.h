/* gpu_matrix.h -- what kernels for matrices share. */
#ifndef WEFT_CUDA_GPU_MATRIX_H
#define WEFT_CUDA_GPU_MATRIX_H
#include "backend/cuda/routine.h"

/* Of what each thread has found, the size `best` at the place `at`: the place of the largest, and of equal ones the first, as
 * `largest`. In shared memory size_of and place_of have room for a block. */
#define LARGEST_OF_BLOCK WRITTEN(    \
    size_of[tid] = best;             \
    place_of[tid] = at;              \
    bar;                             \
    u32 half = threads / 2;          \
    while (half > 0) {               \
      if (tid < half) {              \
        u64 other = size_of[tid + half];                                                                \
        u64 its_place = place_of[tid + half];                                                           \
        bool is_better = other > size_of[tid] || (other == size_of[tid] && its_place < place_of[tid]);  \
        if (is_better) { size_of[tid] = other; place_of[tid] = its_place; }                             \
      }                              \
      bar;                           \
      half = half / 2;               \
    }                                \
    u64 largest = place_of[0];       \
    bar;)

/* The largest that is left of a [n, n] f64, of the rows and columns from k on, becomes a[k][k]; a nan that is there already stays.
 * Its row and column change places with those at k, and so do `row` and `column`, which say whose they were; `sign` turns with
 * each. */
#define LARGEST_LEFT_IS_PIVOT(k) WRITTEN( \
    u64 left = n - k;                                                                                                  \
    u64 best = 0;                                                                                                      \
    u64 at = k * n + k;                                                                                                \
    i = u64(tid);                                                                                                      \
    while (i < left * left) {                                                                                          \
      u64 here = (k + i / left) * n + k + i % left;                                                                    \
      u64 bits = as_u64(a[here]) & 0x7fffffffffffffff;                                                                 \
      bits = bits > 0x7ff0000000000000 && i != 0 ? u64(0) : bits;                                                      \
      at = bits > best ? here : at;                                                                                    \
      best = max(bits, best);                                                                                          \
      i = i + u64(threads);                                                                                            \
    }                                                                                                                  \
  ) LARGEST_OF_BLOCK WRITTEN(                                                                                          \
    u64 r = largest / n;                                                                                               \
    u64 c = largest % n;                                                                                               \
    if (r != k) {                                                                                                      \
      i = u64(tid);                                                                                                    \
      while (i < n) { f64 was = a[r * n + i]; a[r * n + i] = a[k * n + i]; a[k * n + i] = was; i = i + u64(threads); } \
      sign = -sign;                                                                                                    \
    }                                                                                                                  \
    bar;                                                                                                               \
    if (c != k) {                                                                                                      \
      i = u64(tid);                                                                                                    \
      while (i < n) { f64 was = a[i * n + c]; a[i * n + c] = a[i * n + k]; a[i * n + k] = was; i = i + u64(threads); } \
      sign = -sign;                                                                                                    \
    }                                                                                                                  \
    if (tid == 0) {                                                                                                    \
      f64 was = row[r]; row[r] = row[k]; row[k] = was;                                                                 \
      was = column[c]; column[c] = column[k]; column[k] = was;                                                         \
    }                                                                                                                  \
    bar;)

#endif
