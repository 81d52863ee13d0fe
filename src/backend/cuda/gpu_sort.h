/* gpu_sort.h -- what sorting rows on a GPU (gpu_sort.c) and finding the elements of some ranks (gpu_select.c) share. */
#ifndef WEFT_GPU_SORT_H
#define WEFT_GPU_SORT_H
#include "backend/cuda/routine.h"

/* b, the pattern of an element, to its key; LAST_KEY has all bits of an element. KIND 0: unsigned, 1: signed, 2: a float. */
#define KEY_OF_B WRITTEN(                                                                                                 \
  if (KIND == 0) { key = b; }                                                                                             \
  if (KIND == 1) { key = b ^ SIGN; }                                                                                      \
  if (KIND == 2) {                                                                                                        \
    key = b >= SIGN ? b ^ LAST_KEY : b ^ SIGN;                                                                            \
    key = (b & (SIGN - 1)) >= LEAST_NAN ? LAST_KEY : key;                                                                 \
  })

/* .. and back. */
#define B_OF_KEY WRITTEN(                                                                                                 \
  if (KIND == 0) { b = key; }                                                                                             \
  if (KIND == 1) { b = key ^ SIGN; }                                                                                      \
  if (KIND == 2) { b = key >= SIGN ? key ^ SIGN : key ^ LAST_KEY; })

/* sum of each of 256 threads to the sum of those before it; part: 8 words in shared memory. */
#define SUMS_BEFORE WRITTEN(                                                                                              \
  u32 up_to = sum;                                                                                                        \
  repeat (k, 5) {                                                                                                         \
    u32 other = shfl_up(up_to, 1 << k);                                                                                   \
    up_to = lane >= (1 << k) ? up_to + other : up_to;                                                                     \
  }                                                                                                                       \
  if (lane == 31) { part[tid >> 5] = up_to; }                                                                             \
  bar;                                                                                                                    \
  up_to = up_to - sum;                                                                                                    \
  repeat (k, 7) { up_to = up_to + ((tid >> 5) > k ? part[k] : 0); }                                                       \
  bar;                                                                                                                    \
  sum = up_to;)

enum { TILE_THREADS = 256 };

/* What the texts are written for: elements, those with their places (pairs), so many a thread. */
struct sort_form { weft_dtype dtype; bool has_pairs; int items; };
int sort_load(struct gpu *, const struct sort_form *, const char *text, struct routine_module **);

static inline int64_t sort_tile(const struct sort_form *f) { return (int64_t)f->items * TILE_THREADS; }
static inline int sort_most_items(weft_dtype t) { return kir_width(t) == 8 ? 8 : 16; }

/* Rows of n elements x to y and, where they are wanted, their places. */
struct sorting { struct gpu *g; weft_dtype dtype; int64_t rows, n; uint64_t x, y, order; bool has_y, has_order; };
int sort_rows(const struct sorting *, bool only_asks);
bool sort_has_network(const struct sorting *); /* gpu_network.c: so short that a warp sorts a row */
int sort_by_network(const struct sorting *, bool only_asks);
int64_t sort_longest_tile(weft_dtype); /* of the rows that one block of threads sorts */

#endif
