/* every_op.h -- the tables of every_op.c, for whoever wants to know what an operation can do. A row is a public call. */
#ifndef WEFT_TEST_EVERY_OP_H
#define WEFT_TEST_EVERY_OP_H
#include "values.h"

int every_rows(void);
const char *every_row_op(int row);                            /* of the node it makes */
bool every_row_is_of(int row, const char *op);                /* it makes such a node, and no other function calls it so */
bool every_row_named(const char *function);                   /* a public function, without weft_ */
bool every_row_takes(int row, weft_dtype);
weft_array *every_row_make(int row, weft_array *const x[]); /* of three; along axis 0 */
/* All layouts and shapes that are so, or, of a sample, layouts that are not dense on a third of the shapes; how many there were. */
int every_row_check(int row, weft_dtype, bool is_empty, bool is_sample);

int every_derivatives(void);
array_function every_derivative(int i, const char **name, const double **x); /* x: 6 numbers */

#endif
