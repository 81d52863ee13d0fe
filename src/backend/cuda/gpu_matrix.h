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

#endif
