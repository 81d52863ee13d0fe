/* said.h -- what integers say about sizes (said.c). */
#ifndef WEFT_SAID_H
#define WEFT_SAID_H
#include "op/operand.h"

/* What a 0-d integer is, as arithmetic of sizes and numbers; it may be below 0 (dim_integer). DIM_BAD: only a run tells. */
dim array_said(weft_array *);

/* The same for who is bounded by it: what is asserted of the integer is taken on trust (trust.h). */
dim array_bound(weft_array *);
dim dim_said(struct node *);

#endif
