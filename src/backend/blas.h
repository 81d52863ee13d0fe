/* blas.h -- products of matrices by a CBLAS, and factors of them by the LAPACK that comes with it, loaded at run time when somebody
 * asks for one, and never else. It adds in an order of its own: results have its bits and not weft's, which may differ from machine
 * to machine and with the number of threads. */
#ifndef WEFT_BLAS_H
#define WEFT_BLAS_H
#include <stdbool.h>
#include <stdint.h>
#include "weft.h"

/* c = a b, [m,k] x [k,n], of f32 or f64. Strides in elements; those of a row of c are neighbours. */
struct blas_product {
  weft_dtype dtype;
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t a_row, a_column, b_row, b_column, c_row;
};

const char *blas_load(void);    /* why there is none; NULL: there is one */
const char *blas_name(void);    /* the library that was asked for, or found */
bool blas_takes(const struct blas_product *); /* dtype and strides are such as it reads */
void blas_run(const struct blas_product *, int threads); /* loaded, and it takes it; on at most so many threads, where it lets
                                   itself be told */

/* ---- factors, of f64, row by row: as matrix_cholesky, matrix_lu and matrix_solve of op/matrix.h have them ---- */

/* A triangle of a matrix [n, n], or what stands there turned; n b's of m columns are solved in place. */
struct blas_triangle { const double *a; int64_t n, m; bool is_turned, is_upper, is_unit; };

bool blas_has_factors(void);    /* it is loaded, and has a LAPACK */
int64_t blas_cholesky(double *a, int64_t n, int threads);
int64_t blas_lu(double *a, int64_t n, int64_t order[], double *room, int threads); /* room: n n + n */
void blas_solve(const struct blas_triangle *, double *b, int threads);

void blas_use(const char *name); /* for tests: this library; NULL: as the environment says */

#endif
