/* linear.h -- the steps of linear.c: what runs, on the last two axes of dense arrays (linear_steps.c). */
#ifndef WEFT_OP_LINEAR_H
#define WEFT_OP_LINEAR_H
#include "op/library.h"

/* A matrix is factored by one step, and systems are solved with its factors by others, so that one matrix is factored once
 * however often it is used. These have the matrix as an operand too, since their derivatives are by it; only the adjugate of a
 * singular one is computed from it. */
enum { LU_A, LU_FACTORS, LU_ORDER, LU_STATUS, LU_RIGHT };

struct triangle_attr { int64_t is_upper, is_unit; };
struct turn_attr { int64_t is_turned; };

extern const struct library
    steps_cholesky,       /* a[.., n, n]: L, with zeros above; status[..] */
    steps_lu,             /* a: L and U in one, of f64; which row of a is row i of L U, [.., n]; status[..] */
    steps_solve,          /* turn_attr; LU_A .. LU_RIGHT, b[.., n, m]: x, a x = b */
    steps_inverse,        /* LU_A .. LU_STATUS: the inverse */
    steps_determinant,    /* LU_A .. LU_STATUS: its sign [..], the sizes of its pivots [.., n], itself [..] */
    steps_adjugate,       /* LU_A .. LU_STATUS: the matrix of cofactors, turned: the inverse times the determinant */
    steps_cofactors,      /* a, directions e.., of as many dims: the derivative of the adjugate of a in all of them */
    steps_triangle,       /* triangle_attr; a, b: x, t x = b, of a triangle t of a; status[..], 0 if it is unit */
    steps_cholesky_solve; /* l, b: x, l l' x = b, of lower triangles l; status[..] */

enum square_result { CHOLESKY, CHOLESKY_STATUS, INVERSE, LU_SINGULAR, TRIANGLE_SINGULAR, SIGN, LOG_SIZE, DETERMINANT };
enum system { BY_LU, BY_TRIANGLE, BY_CHOLESKY };

/* linear_complex.c: of square matrices, c64 or c128; right sides [.., n, m] of the same dtype and batch. */
weft_array *complex_of_square(weft_array *a, enum square_result);
weft_array *complex_solved(enum system, weft_array *a, weft_array *b, bool is_upper, bool is_unit);
void complex_determinant(weft_array *a, weft_array *y[3]); /* of size 1, the logarithm of its size, itself */

extern const struct library_values values_cholesky, values_triangle, values_cholesky_solve, values_lu, values_solve, values_inverse,
    values_determinant;

#endif
