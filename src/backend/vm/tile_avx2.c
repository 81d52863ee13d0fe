/* tile_avx2.c -- the tile loops for x86-64 with AVX2 and FMA. */
#include <stdint.h>
#include <string.h>
#include "kernel/kir.h"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx2,fma")
#endif
#define NUM_HAS_FMA
#define TILE_TABLE tile_avx2
#include "backend/vm/tile_loops.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
