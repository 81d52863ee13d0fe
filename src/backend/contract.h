/* contract.h -- what a back end offers for products of matrices: patches of c = a b that it holds in registers.
 *
 * The order of the sum is part of the meaning: the products of an element are added in the order of k, by fma where the
 * dtype has one, in blocks of CONTRACT_BLOCK; a block starts at +0 and is added to those before it. How a product is cut
 * into patches, which operand is copied before and who computes what changes no bit, and an instruction set does not
 * either: a contraction written in KIR (schedule/emit.c) has the same bits. */
#ifndef WEFT_CONTRACT_H
#define WEFT_CONTRACT_H
#include <stdbool.h>
#include "kernel/kir.h"

enum { CONTRACT_BLOCK = 512 };

/* Of c = a b or, if it adds, c = c + a b. Strides in bytes; the columns of b and of c are neighbours. At most a block of k.
 * The mask has a bit for each column of the last vector of a row. */
struct patch {
  const void *a, *b;
  void *c;
  int64_t a_row, a_k, b_k, c_row, k, adds;
  uint64_t mask;
  int64_t rows, columns;
};
typedef void patch_code(const struct patch *);

/* Elements as they stand in memory, copied to a panel: k rows of `width` columns each, in the register dtype. Columns
 * beyond n are 0. Strides in bytes, signed. */
struct panel {
  const void *from;
  void *to;
  int64_t k_stride, stride, k, n;
  int width;
  weft_dtype dtype;
};

enum { PATCH_ROWS = 16, PATCH_VECTORS = 8 }; /* at most */

struct contractor {
  const char *name;
  bool (*available)(void);
  int (*lanes)(weft_dtype);                    /* columns of a vector, by register dtype; 0: it cannot */
  int (*rows)(void);                           /* of a patch, at most */
  int (*vectors)(int rows);                    /* of a row of a patch with so many rows, at most */
  /* NULL: out of memory, or, if *is_forbidden, the system lets nobody make code. */
  patch_code *(*code)(weft_dtype, int rows, int vectors, bool is_masked, bool *is_forbidden);
  void (*pack)(const struct panel *);
};

extern const struct contractor contractor_vm, contractor_avx2, contractor_avx512;

#endif
