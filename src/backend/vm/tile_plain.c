/* tile_plain.c -- the tile loops for any machine. */
#ifndef __clang__
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#endif
#define TILE_TABLE tile_plain
#include "backend/vm/tile_loops.h"
