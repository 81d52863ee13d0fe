/* patch.h -- what a back end offers for products of matrices: patches of c = a b that it holds in registers.
 *
 * The order of the sum is part of the meaning: the products of an element are added in the order of k, by fma where the
 * dtype has one, in blocks of KIR_PRODUCT_BLOCK; a block starts at +0 and is added to those before it. How a product is cut
 * into patches, which operand is copied before and who computes what changes no bit, and an instruction set does not
 * either: a contraction written in KIR (schedule/emit_values.c) has the same bits. */
#ifndef WEFT_PATCH_H
#define WEFT_PATCH_H
#include <stdbool.h>
#include "kernel/kir.h"

enum { CACHE_LINE = 64 }; /* bytes */

/* sum = start + a b in the order of k, then c = sum or, if it adds, c = c + sum. Strides in bytes; the columns of b, c and
 * start are neighbours. Sums of a block that is cut go on from `start`; NULL: from 0. The mask has a bit for each column of
 * the last vector of a row. With each of the first fetch_n products of k something is fetched that is read later: what is at
 * `fetch`, as many lines of the cache as whole patches are wide, fetch_k bytes further each time. It may be any address. */
struct patch {
  const void *a, *b, *start;
  void *c;
  int64_t a_row, a_k, b_k, start_row, c_row, k, adds;
  const void *fetch;
  int64_t fetch_k, fetch_n;     /* at most k */
  uint64_t mask;
  int64_t rows, columns;
};
typedef void patch_code(const struct patch *);

/* Elements as they stand in memory, copied to a panel: k rows of `width` columns each, in the register dtype. Columns
 * beyond n are 0. Strides in bytes, signed. Up to PANEL_SLACK bytes behind the panel may be spoilt. */
enum { PANEL_SLACK = 64 };
struct panel {
  const void *from;
  void *to;
  int64_t k_stride, stride, k, n;
  int width;
  weft_dtype dtype;
};

/* A row by a matrix: c[j] = a b[.,j] or c[j] + a b[.,j]. Strides in bytes; of the matrix, in its dtype of memory, the products
 * of a column are neighbours, or the columns are: then at most a block of k, and DOTS_COLUMNS, and rows of b from `first` on may be
 * those of `rest`; a and c have the register dtype.
 * is_far: more than caches hold, and columns, if they are not neighbours, follow one another: what is behind that at hand is
 * asked for before it is needed. */
enum { DOTS_COLUMNS = 2048 };
struct dots {
  const void *a, *b;
  void *c;
  int64_t a_k, b_k, b_column, k, columns;
  const void *rest;
  int64_t rest_k, first;        /* first >= k: all rows are b's */
  bool adds, is_far;
};
typedef void dots_code(const struct dots *);

enum { PATCH_ROWS = 16, PATCH_VECTORS = 8 }; /* at most */

/* Pairs: neighbours along k in one lane of 32 bits, multiplied two at a time. A panel of pairs has (k + 1) / 2 rows; in a
 * pair the later element is the lower half, as that is added last. What is missing of the last pair is 0 or, of the left
 * operand, -0, whose product changes no sum. Sums of bf16 are in the order of k and the same bits, unless numbers are so
 * small that the instruction would flush them: then `pairs_are_exact` says no. Fours are four neighbours of i8, the left ones
 * shifted up by 128; so sums begin at -128 times the sum of a column of b, which is what a left row of FOURS_SHIFT gives. */
enum { FOURS_SHIFT = 0x01010101 };

struct contractor {
  const char *name;
  bool (*available)(void);
  int (*lanes)(weft_dtype);                    /* columns of a vector, by register dtype; 0: it cannot */
  int (*rows)(void);                           /* of a patch, at most */
  int (*vectors)(weft_dtype, int rows);        /* of a row of a patch with so many rows, at most */
  int (*together)(weft_dtype);                 /* products along k at a time, by dtype of memory: 4: fours, 2: pairs, 1 */
  /* By register dtype, or by dtype of memory for pairs and fours. NULL: out of memory, or, if *is_forbidden, the system lets nobody
   * make code. */
  patch_code *(*code)(weft_dtype, int rows, int vectors, bool is_masked, bool *is_forbidden);
  void (*pack)(const struct panel *);
  void (*pack_together)(const struct panel *, bool is_left);
  bool (*pairs_are_exact)(const struct panel *); /* of k rows of n elements; `to` and width are ignored */
  /* Whole tiles: panels of a have so many rows, and rows of panels are a multiple of `deep`. 0: as many as there are. */
  int high, deep;
  void (*enter)(void), (*leave)(void);         /* by each thread before it multiplies, and after; NULL: nothing has to be done */
  const struct contractor *tiles;              /* for large products of some dtypes, if that is available; NULL: there is none */
  int (*least_run)(void);                      /* bytes of each row of a matrix below which a part of it is not worth a thread */
  dots_code *(*dots)(weft_dtype, bool along_k); /* by dtype of memory, whose products are neighbours; NULL: it cannot */
  int (*turn_columns)(void);                   /* that lie along k, of a thread's turn at dots, at least; a multiple of 16 */
};

extern const struct contractor contractor_vm, contractor_avx2, contractor_avx512, contractor_tiles;
void contractor_leave_tiles(bool); /* for tests: as if there were none */

#endif
