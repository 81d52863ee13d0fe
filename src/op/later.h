/* later.h -- expressions that are written when sizes are known.
 *
 * Some functions become other expressions for other sizes: how many products a transform of n elements is, how a convolution is
 * summed. Where such a size is not known yet, the function is one node (op_later) that says how it is written; wherever the node
 * is made again on operands whose sizes are numbers (a call, a step of a loop), or is asked for (run/obstacle.c), it is. So it is
 * the expression that it would have been with these sizes from the first, with its bits and messages. What is written may stand in
 * the body of a loop: it is made of its operands, numbers and counters, and has no array of its own. */
#ifndef WEFT_OP_LATER_H
#define WEFT_OP_LATER_H
#include "op/op.h"

/* Writes it by public functions; where a size that it needs is still open it gives what array_later gives. */
typedef weft_array *later_write(const void *options, weft_array *const in[]);

/* A node for what `write` will give, which has this dtype and these sizes; options are copied. */
weft_array *array_later(later_write *, const void *options, size_t bytes, int n, weft_array *const in[], weft_dtype, int rank,
                        const dim dims[]);

/* What an op_later is on these operands, whose sizes are numbers: a reference. NULL: *why. */
struct node *later_written(const struct node *, struct node *const in[], struct failure **why);
bool later_is_sized(const struct node *); /* those it has are */

#endif
