/* fold.h -- elementwise operations on numbers, done once and for all. */
#ifndef WEFT_FOLD_H
#define WEFT_FOLD_H
#include "op/op.h"

/* The result of an ELEMENT node on scalars, as a pattern of its dtype. Computed by the kernel language's own arithmetic:
 * the node's lowering, run by the vm. false: out of memory. */
bool fold_element(const struct node *, const struct node *const scalar[], uint64_t *bits);

#endif
