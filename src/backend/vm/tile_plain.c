/* tile_plain.c -- the tile loops for any machine. */
#ifndef __clang__
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "no-math-errno", "no-trapping-math")
#endif
#define TILE_TABLE tile_plain
#include "backend/vm/tile_loops.h"
