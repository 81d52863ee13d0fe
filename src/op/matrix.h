/* matrix.h -- factors of square matrices of f64, and systems with them: one large matrix block by block, or some small ones side
 * by side, each in a lane of vectors. What is added to what, and in which order, depends on sizes alone: bits are the same
 * whatever vectors there are. Nothing is checked or allocated here. */
#ifndef WEFT_OP_MATRIX_H
#define WEFT_OP_MATRIX_H
#include <stdbool.h>
#include <stdint.h>

enum {
  MATRIX_SMALL = 16,           /* rows; a matrix of so many, and right sides of so many columns, is a lane */
  MATRIX_LANES = 8,            /* at most */
  MATRIX_BLOCK = 32,           /* columns that are eliminated before the rest of the matrix is touched */
  MATRIX_ROOM = 32 * MATRIX_BLOCK /* doubles that algorithms by blocks work in */
};

/* A triangle of a square matrix: element i, k stands at a[i row + k column]. */
struct matrix_triangle { const double *a; int64_t n, row, column; bool is_upper, is_unit; };

/* ---- one matrix, row by row ---- */

/* The lower triangle of a [n, n] becomes that of L, L L' = a. Returns the minor, from 1, that is not positive; 0: none. */
int64_t matrix_cholesky(double *a, int64_t n, double *room);

/* a [n, n] becomes L, without its diagonal of ones, and U; row i of L U is row order[i] of what a was. Returns the pivot, from 1,
 * that is 0 or nan; 0: none. */
int64_t matrix_lu(double *a, int64_t n, int64_t order[], double *room);

/* The adjugate of a [n, n], which is singular and is used up. Its elements are `step` doubles apart. */
enum { MATRIX_ADJUGATE = 4 };  /* times n: doubles of room */
void matrix_adjugate(double *a, int64_t n, double *to, int64_t step, double *room);

/* The derivative of order k of the adjugate of a [n, n], which is used up, in the directions e [k, n, n]: cofactors.c. */
enum { MATRIX_DIRECTIONS = 6 }; /* at most */
int64_t matrix_cofactors_room(int64_t n, int k); /* doubles */
void matrix_cofactors(double *a, const double *e, int k, int64_t n, double *to, double *room);

/* b [n, m] becomes x, t x = b. */
void matrix_solve(const struct matrix_triangle *t, double *b, int64_t m, double *room);

/* ---- some matrices, an element of all of them after the other ---- */

/* Where elements of matrices stand in memory: f32 or f64, element i of the matrix in lane k at `at` + each k + i. Lanes from
 * `valid` on are those of the last that is: they are read there, and not written. */
struct matrix_memory { void *at; bool is_f32; int64_t each, n; int valid; };

int matrix_lanes(void);
void matrix_lanes_load(const struct matrix_memory *, double *to);
void matrix_lanes_store(const struct matrix_memory *, const double *from);
void matrix_lanes_cholesky(double *a, int64_t n, double status[]); /* with zeros above the diagonal, and nan where there is none */
void matrix_lanes_lu(double *a, int64_t n, double *order, double status[]); /* order [n], of all lanes */
void matrix_lanes_solve(const struct matrix_triangle *t, double *b, int64_t m);

#endif
