/* linear_complex.c -- complex matrices, by real ones of twice the size: every element is a block [re, -im; im, re], and products,
 * solutions, inverses and Cholesky's factors are those of the blocks. Blocks keep neighbours together, so that a triangle with a
 * real diagonal stays one. Determinants, of which blocks tell the size alone, are by elimination. What takes several steps is
 * computed in c128, and c64 rounded once: as a real matrix of f32 is in f64. */
#include <math.h>
#include "op/composed.h"
#include "op/linear.h"

static weft_array *conjugate_turned(weft_array *a) { return weft_conj(weft_moveaxis(a, -1, -2)); }
static weft_array *even(weft_array *x, int axis) { return weft_slice(x, axis, 0, WEFT_END, 2); }
static weft_array *odd(weft_array *x, int axis) { return weft_slice(x, axis, 1, WEFT_END, 2); }

/* [.., n, m] -> [.., 2n, 2m] */
static weft_array *blocks(weft_array *a) {
  weft_array *re = weft_real(a), *im = weft_imag(a);
  weft_array *upper = weft_flatten(weft_stack(-1, 2, (weft_array *[]){ re, weft_neg(im) }), -2, -1);
  weft_array *lower = weft_flatten(weft_stack(-1, 2, (weft_array *[]){ im, re }), -2, -1);
  return weft_flatten(weft_stack(-2, 2, (weft_array *[]){ upper, lower }), -3, -2);
}

/* The first column of each block: what a matrix of blocks is multiplied by. [.., n, m] -> [.., 2n, m] */
static weft_array *columns(weft_array *b) {
  return weft_flatten(weft_stack(-2, 2, (weft_array *[]){ weft_real(b), weft_imag(b) }), -3, -2);
}
static weft_array *of_columns(weft_array *x) { return weft_complex(even(x, -2), odd(x, -2)); }
static weft_array *of_blocks(weft_array *x) { return of_columns(even(x, -1)); }

static bool is_c64(weft_array *x) { return weft_dtype_of(x) == WEFT_C64; }
static weft_array *widened(weft_array *x) { return is_c64(x) ? weft_cast(x, WEFT_C128) : x; }

static weft_array *is_diagonal(weft_array *a) {
  weft_array *like = weft_cast(weft_real(a), WEFT_I64);
  return weft_eq(weft_iota(like, -1), weft_iota(like, -2));
}
static weft_array *diagonal(weft_array *a) { return weft_diagonal(a, 0, -2, -1); }

/* Of each pair of pivots the first that is 0, or not positive, is that of the element. */
static weft_array *of_pair(weft_array *status) {
  return weft_floor_divide(weft_add(status, weft_integer(1)), weft_integer(2));
}

/* Nothing but the real part of the diagonal is read of it. */
static weft_array *with_real_diagonal(weft_array *a) {
  return weft_where(is_diagonal(a), weft_cast(weft_real(a), weft_dtype_of(a)), a);
}

/* ---- determinants: elimination with row exchanges, a column a step ---- */

/* Column k of the rows from k on is eliminated below its largest element. */
struct elimination { weft_array *k, *m, *phase, *log, *det; };

static void eliminate(struct elimination *e) {
  weft_array *like = weft_cast(weft_real(e->m), WEFT_I64), *row = weft_iota(like, -2);               /* [.., n, n] */
  weft_array *column = weft_unsqueeze(weft_at(e->m, -1, e->k), -1);                                  /* [.., n, 1] */
  weft_array *at = weft_unsqueeze(weft_at(row, -1, e->k), -1); /* its places; a slice of one would be as long as there are */
  weft_array *none = weft_scalar(-1), *size = weft_where(weft_ge(at, e->k), weft_abs(column), none);
  weft_array *p = weft_argmax(weft_pad(size, -2, 0, 1, none), -2), /* of one at least, whatever a size turns out to be */
              *is_k = weft_eq(p, e->k);                                     /* [.., 1, 1] */
  weft_array *here = weft_take_along(e->m, -2, p), *there = weft_window(e->m, -2, e->k, 1);            /* [.., 1, n] */
  weft_array *pivot = weft_unsqueeze(weft_at(here, -1, e->k), -1), *is_0 = weft_eq(pivot, weft_scalar(0));
  weft_array *m = weft_where(weft_eq(row, e->k), here, weft_where(weft_eq(row, p), there, e->m));
  weft_array *below = weft_div(weft_unsqueeze(weft_at(m, -1, e->k), -1), weft_where(is_0, weft_scalar(1), pivot));
  weft_array *factor = weft_where(weft_gt(at, e->k), below, weft_scalar(0));
  weft_array *signed_pivot = weft_squeeze(weft_squeeze(weft_where(is_k, pivot, weft_neg(pivot)), -1), -1);
  weft_array *length = weft_abs(signed_pivot);
  weft_array *unit = weft_div(signed_pivot, weft_where(weft_eq(length, weft_scalar(0)), weft_scalar(1), length));
  *e = (struct elimination){ weft_add(e->k, weft_integer(1)), weft_sub(m, weft_mul(factor, here)), weft_mul(e->phase, unit),
                             weft_add(e->log, weft_log(length)), weft_mul(e->det, signed_pivot) };
}

/* The identity of products, one for each matrix. */
static weft_array *one_each(weft_array *a) {
  weft_array *first = weft_squeeze(weft_squeeze(weft_sum(weft_sum(weft_real(a), -1), -2), -1), -1);
  return weft_full_like(first, 1);
}

static bool is_empty(weft_array *a) {
  struct node *n = array_good_node(a);
  bool is = !n || n->dims[n->rank - 1] == 0;
  node_release(n);
  return is;
}

static void determinant(weft_array *a, weft_array *y[3]) {
  weft_array *one = one_each(a), *whole = weft_cast(one, weft_dtype_of(a)), *zero = weft_full_like(one, 0);
  y[0] = y[2] = whole, y[1] = zero;
  if (is_empty(a)) return;
  weft_loop *loop = weft_loop_open(weft_size(a, -1));
  struct elimination e = { weft_loop_carry(loop, weft_cast(weft_integer(0), WEFT_I64)), weft_loop_carry(loop, a),
                           weft_loop_carry(loop, whole), weft_loop_carry(loop, zero), weft_loop_carry(loop, whole) }, before = e;
  eliminate(&e);
  weft_loop_next(loop, before.k, e.k), weft_loop_next(loop, before.m, e.m), weft_loop_next(loop, before.phase, e.phase);
  weft_loop_next(loop, before.log, e.log), weft_loop_next(loop, before.det, e.det);
  y[0] = weft_loop_last(loop, before.phase), y[1] = weft_loop_last(loop, before.log), y[2] = weft_loop_last(loop, before.det);
  weft_loop_close(loop);
}

static weft_array *as_matrix(weft_array *x) { return weft_unsqueeze(weft_unsqueeze(x, -1), -1); }
static weft_array *times_i(weft_array *x) { return weft_complex(weft_full_like(x, 0), x); } /* of real x */

/* With t = trace(a^-1 da): d log = Re t, d det = det t, d phase = phase i Im t. */
static int determinant_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  (void)ctx;
  weft_array *by_phase = weft_imag(weft_mul(y[0], dy[0]));
  weft_array *sum = weft_add(weft_add(dy[1], weft_mul(y[2], dy[2])), times_i(by_phase));
  dx[0] = weft_mul(as_matrix(sum), weft_moveaxis(weft_inverse(x[0]), -1, -2));
  return 0;
}

static int determinant_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  (void)ctx;
  weft_array *y[3], *inverse = weft_moveaxis(weft_inverse(x[0]), -1, -2);
  weft_array *t = weft_squeeze(weft_squeeze(weft_sum(weft_sum(weft_mul(inverse, dx[0]), -1), -2), -1), -1);
  complex_determinant(x[0], y);
  dy[0] = weft_mul(y[0], times_i(weft_imag(t))), dy[1] = weft_real(t), dy[2] = weft_mul(y[2], t);
  return 0;
}

void complex_determinant(weft_array *a, weft_array *y[3]) {
  static const weft_rules rules = { .vjp = determinant_vjp, .jvp = determinant_jvp };
  weft_array *x = widened(a);
  determinant(x, y);
  weft_custom(1, &x, 3, y, &rules);
  for (int i = 0; i < 3 && is_c64(a); i++) y[i] = weft_cast(y[i], i == 1 ? WEFT_F32 : WEFT_C64);
}

/* ---- what linear.c asks for ---- */

weft_array *complex_of_square(weft_array *a, enum square_result which) {
  weft_array *y[3];
  switch (which) {
    case CHOLESKY: return of_blocks(weft_cholesky(blocks(with_real_diagonal(a))));
    case CHOLESKY_STATUS: return of_pair(weft_cholesky_status(blocks(with_real_diagonal(a))));
    case INVERSE: return of_blocks(weft_inverse(blocks(a)));
    case LU_SINGULAR: return of_pair(weft_inverse_status(blocks(a)));
    case TRIANGLE_SINGULAR: return weft_solve_triangular_status(weft_add(weft_abs(weft_real(a)), weft_abs(weft_imag(a))));
    case SIGN: case LOG_SIZE: case DETERMINANT: break;
  }
  complex_determinant(a, y);
  return y[which - SIGN];
}

/* Rows over their diagonals, which are 1 then, and real. All of a singular triangle is nan. What is beside the triangle is left
 * out: divided, it would be in the derivative by the diagonal. */
static weft_array *triangle(weft_array *a, weft_array *b, bool is_upper, bool is_unit) {
  weft_array *one = weft_full_like(a, 1), *is_singular = weft_ne(as_matrix(weft_solve_triangular_status(a)), weft_integer(0));
  weft_array *d = weft_where(is_singular, weft_scalar(NAN), weft_unsqueeze(diagonal(a), -1));
  weft_array *t = is_upper ? weft_triu(a, 0) : weft_tril(a, 0);
  weft_array *rows = is_unit ? a : weft_div(t, d), *right = is_unit ? b : weft_div(b, d);
  return of_columns(weft_solve_triangular(blocks(weft_where(is_diagonal(a), one, rows)), columns(right), is_upper, 1));
}

weft_array *complex_solved(enum system system, weft_array *a, weft_array *b, bool is_upper, bool is_unit) {
  weft_array *m = widened(a), *right = widened(b), *y = right;
  switch (system) {
    case BY_LU: return of_columns(weft_solve(blocks(a), columns(b)));
    case BY_TRIANGLE: y = triangle(m, right, is_upper, is_unit); break;
    case BY_CHOLESKY: y = triangle(conjugate_turned(m), triangle(m, right, false, false), true, false); break;
  }
  return weft_cast(y, weft_dtype_of(b));
}
