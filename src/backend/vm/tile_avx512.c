/* tile_avx512.c -- the tile loops for x86-64 with AVX-512. */
#include <stdint.h>
#include <string.h>
#include "kernel/kir.h"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))), apply_to = function)
#else
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma")
#endif
#define NUM_HAS_FMA
#define TILE_TABLE tile_avx512
#include "backend/vm/tile_loops.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
