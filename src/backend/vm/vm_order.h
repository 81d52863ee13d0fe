/* vm_order.h -- combining where the order is the meaning: in-order folds, running combines, stores that may meet, and the
 * values a fold starts from. */
#ifndef WEFT_VM_ORDER_H
#define WEFT_VM_ORDER_H
#include "backend/vm/tile.h"

enum { ORDER_LEVELS = 57 }; /* of the tree of blocks: those of 2^63 elements */

typedef void order_fold(void *acc, const void *v, int64_t n);   /* acc = acc o v[0] o v[1] .. */
typedef void order_run(void *out, void *carry, const void *v, int64_t n); /* out[i] = carry = carry o v[i] */
/* memory(p + i stride + scale at[i]) combines with v[i] for i = 0, 1, .. where mask; at, mask may be NULL */
typedef void order_meet(char *p, int64_t stride, const int64_t *at, int64_t scale, const void *v, const uint8_t *mask, int64_t n);

struct order_row { order_fold *fold; order_run *run; order_meet *meet; };
const struct order_row *order_of(int op, weft_dtype); /* of a combiner and register dtype */

bool order_has(int op, weft_dtype);            /* is it a combiner of this register dtype? */
void order_put(void *at, weft_dtype, uint64_t bits); /* one value of a register dtype */

/* For private copies: register dtype, dense. */
void order_fill(void *out, weft_dtype, uint64_t bits, int64_t n);
void order_combine(int op, weft_dtype, void *out, const void *older, const void *newer, int64_t n);
/* n elements of a memory dtype, stride in bytes: what is there (or the empty value) o total, rounded once. */
void order_merge(int op, weft_dtype memory, char *p, int64_t stride, const void *total, int64_t n, bool from_empty);

#endif
