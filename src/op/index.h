/* index.h -- what reading by index (index.c) and writing (put.c) share. */
#ifndef WEFT_INDEX_H
#define WEFT_INDEX_H
#include "op/operand.h"

/* Integers brought to i64 and one shape. NULL, or why not; the nodes stay the caller's to release. */
struct failure *indices_join(const char *fn, int n, struct node *index[]);

bool known_integer(weft_array *, int64_t *value); /* a 0-d integer that is a number already */
weft_array *array_take(weft_array *x, int n, weft_array *const index[], int by); /* by: of struct take_attr */

/* x with v, of dims I + rest of x, combined at the indices, which have the shape I. by: of struct scatter_attr */
weft_array *array_scatter(weft_array *x, weft_array *v, int n, weft_array *const index[], weft_how, int by);

/* x, if all of p is true; else whatever needs it fails so. */
weft_array *array_assert(weft_array *x, weft_array *p, weft_status, const char *message);
weft_array *array_spread(weft_array *x, dim rows); /* the same in every row */
/* Operands from `first` on as indices: mapped ones are 0, a legal index, in rows that are not active (r->active), where nobody
 * uses what is read or written. On an empty axis none is legal; but whenever the node is computed some row is active, and
 * fails rightly. */
void array_active_indices(const struct rule *r, int first, const bool is_mapped[], weft_array *out[]);
void array_row_indices(dim rows, int n, weft_array *const index[], const bool is_mapped[], weft_array *out[]); /* n + 1 */

#endif
