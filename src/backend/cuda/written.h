/* written.h -- kernels that are written for a GPU by hand: a small language of statements, and its way to PTX.
 *
 * KIR says nothing of threads, and should not. What is about threads (sorting, factors of matrices) is written in this language,
 * which looks like C and means what PTX does:
 *
 *   entry name(T* x, u64 n, u32 shift) { .. }        parameters are slots of 8 bytes; T* is an address of such elements
 *   entry name(..) of 512 { .. }                     blocks of at most so many threads, whose registers are bounded by that
 *   shared u32 count[256];                           of the block of threads
 *   u32 i = tid + 256 * block;   i = i + 1;          variables are of one entry; a second declaration is an assignment
 *   u32 key[16];                                     so many registers, whose indices are constants
 *   if (c) { .. } else { .. }   while (c) { .. }     a condition that is a constant leaves one side out
 *   repeat (k, 16) { .. }                            written so often, with k a constant
 *   bar;   warp;   return;                           the threads of a block meet, those of a warp; a thread ends
 *   y[i] = x[i];   p + i                             memory, and addresses, by elements
 *
 * Types: u32 s32 u64 s64 f32 f64 bool, in memory u8 s8 u16 s16 too. Operators are those of C with its precedence; && and || look at
 * both sides, c ? a : b takes both. Operands have the same type; constants take that of the other. Products are never contracted.
 * Words: tid block blocks lane grid_y (the block's second index). Functions: u32(x) and the like convert, as_u32(x) as_f32 as_u64
 * as_f64 keep bits; min max abs sqrt fma popc; ballot(c), shfl_up shfl_down shfl_xor shfl of a register by so many lanes, of whole
 * warps; atom_add atom_min(x[i], v) give what was there. */
#ifndef WEFT_CUDA_WRITTEN_H
#define WEFT_CUDA_WRITTEN_H
#include <stdbool.h>
#include <stdint.h>
#include "base/text.h"

#define WRITTEN(...) #__VA_ARGS__

/* What names of a text stand for: a constant, or the name of a type. Ends with name NULL. */
struct written_name { const char *name; int64_t number; const char *type; };

bool written_print(const char *text, const struct written_name[], struct text *ptx, const char **why); /* why: "" out of memory */

#endif
