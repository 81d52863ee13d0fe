/* said.h -- what integers say about sizes (said.c). */
#ifndef WEFT_SAID_H
#define WEFT_SAID_H
#include "op/operand.h"

/* What a 0-d integer is, as arithmetic of sizes and numbers; it may be below 0 (dim_integer). DIM_BAD: only a run tells. */
dim dim_said(const struct node *);
dim array_said(weft_array *, bool *is_checked); /* checked: something is asserted on the way; may be NULL */

#endif
