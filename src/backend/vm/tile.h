/* tile.h -- the precompiled loops the interpreter is made of: one function an instruction, dtype and shape of operands.
 *
 * The same source (tile_loops.h) is built for several instruction sets; tile_best() is the table for this machine. The
 * bits never depend on which table is used. Loops may write their result over an operand of the same width. */
#ifndef WEFT_VM_TILE_H
#define WEFT_VM_TILE_H
#include <stdint.h>
#include "kernel/kir.h"

enum { TILE_BOOL, TILE_I32, TILE_U32, TILE_I64, TILE_U64, TILE_F32, TILE_F64, TILE_REGS }; /* register dtypes */
enum { TILE_MEMS = WEFT_BF16 + 1, TILE_SHAPES = 8, TILE_FOLD = 32 };

typedef void tile_op(void *out, const void *a, const void *b, const void *c, int64_t n);
typedef void tile_fold(void *acc, const void *v, int64_t first, int64_t n); /* element i -> acc[(first + i) mod 32] */
typedef void tile_in(void *out, const char *p, int64_t stride, int64_t n);  /* strides in bytes */
typedef void tile_out(char *p, int64_t stride, const void *v, int64_t n);

struct tile_table {
  const char *name;
  tile_op *op[KIR_OPS][TILE_REGS][TILE_SHAPES];  /* shape: bit k set if operand k is a tile; 0: one value */
  tile_op *cast[TILE_REGS][TILE_MEMS][2];        /* 0: one value, 1: a tile */
  tile_fold *fold[KIR_OPS][TILE_REGS];
  tile_op *blend[9];                             /* by width: out = a ? b : out; a: bools */
  tile_op *move[9], *splat[9];                   /* by width: out = a */
  tile_op *both, *but;                           /* bools: out = a & b, out = a & !b */
  tile_op *within;                               /* bools: b <= a < c, a: i64 tile */
  tile_in *load[TILE_MEMS][2];                   /* 0: dense, 1: any stride */
  tile_out *store[TILE_MEMS][2];
};

extern const struct tile_table tile_plain;
#ifdef __x86_64__
extern const struct tile_table tile_avx2;
#endif
const struct tile_table *tile_best(void);
int tile_reg(weft_dtype);   /* TILE_* of a register dtype */
int tile_width(weft_dtype); /* bytes of an element in memory or in a register */

#endif
