/* complex.h -- complex numbers as pairs: rules by which rows become operations on parts, and products of many. */
#ifndef WEFT_COMPLEX_H
#define WEFT_COMPLEX_H
#include "op/operand.h"

typedef struct parts parts_rule(struct splitting *, const struct node *, const struct parts in[]);
parts_rule parts_neg, parts_abs, parts_sqrt, parts_rsqrt, parts_isnan, parts_isinf, parts_isfinite, parts_add, parts_sub,
    parts_mul, parts_div, parts_eq, parts_ne, parts_where, parts_fma, parts_cast;
parts_rule parts_exp, parts_log, parts_sin, parts_cos, parts_tan, parts_sinh, parts_cosh, parts_tanh, parts_sigmoid,
    parts_pow; /* complex_function.c */

/* A fold combines one number at a time: products of pairs are loops. */
weft_array *complex_prod(weft_array *x, int axis), *complex_cumprod(weft_array *x, int axis);
weft_array *complex_scatter_mul(weft_array *x, weft_array *v, int n, weft_array *const index[], int by);

weft_array *complex_unit(weft_array *z, weft_array *abs_z); /* z / |z|; 0 at 0 */

#endif
