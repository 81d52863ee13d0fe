/* linear.c -- systems of linear equations: what is singular, shapes, batches, open sizes. python/test/test_linalg.py has NumPy
 * beside them, every_op.c their derivatives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include "values.h"

SCOPED(what_is_singular_or_not_definite_is_nan_and_its_status_says_where) {
  double m[3][9] = { { 4, 0, 0, 2, 5, 0, 0, 0, 9 }, { 1, 0, 0, 2, 1, 0, 0, 0, 1 }, { 1, 2, 3, 2, 4, 6, 0, 0, 1 } }, l[27], inverse[27];
  int64_t chol[3], lu[3];
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(3, 3, 3), m);
  EXPECT_OK(weft_read(weft_cholesky(a), WEFT_F64, l, sizeof l));
  EXPECT_OK(weft_read(weft_cholesky_status(a), WEFT_I64, chol, sizeof chol));
  EXPECT_OK(weft_read(weft_inverse(a), WEFT_F64, inverse, sizeof inverse));
  EXPECT_OK(weft_read(weft_inverse_status(a), WEFT_I64, lu, sizeof lu));
  EXPECT(chol[0] == 0 && chol[1] == 2 && chol[2] == 2);
  EXPECT(l[0] == 2 && l[3] == 1 && l[4] == 2 && l[8] == 3 && l[1] == 0);
  EXPECT(isnan(l[9]) && isnan(l[12]) && l[10] == 0 && isnan(l[18]));
  EXPECT(lu[0] == 0 && lu[1] == 0 && lu[2] == 2);
  EXPECT(inverse[0] == 0.25 && inverse[9] == 1 && isnan(inverse[18]) && isnan(inverse[26]));
  EXPECT_F64(weft_det(a), 180, 1, -0.0);
}

SCOPED(matrices_and_right_sides_of_one_batch_and_of_several) {
  double m[8] = { 2, 0, 0, 4, 0, 1, 1, 0 }, b[4] = { 2, 4, 6, 8 };
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(2, 2, 2), m), *v = f64s(2, b), *both = weft_from(WEFT_F64, WEFT_DIMS(2, 2), b);
  EXPECT_F64(weft_solve(a, v), 1, 1, 4, 2);
  EXPECT_F64(weft_solve(a, both), 1, 2, 1.5, 2, 6, 8, 2, 4);
  EXPECT_F64(weft_solve(weft_flip(weft_flip(a, 1), 2), v), 0.5, 2, 4, 2);
  EXPECT_F64(weft_solve_triangular(weft_slice(a, 0, 0, 1, 1), v, 0, 0), 1, 1);
  EXPECT_F64(weft_solve_triangular(both, v, 0, 1), 2, -8);
  EXPECT_F64(weft_solve_triangular(both, v, 1, 0), 0, 0.5);
}

SCOPED(a_function_solves_systems_of_any_size) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY)), weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)) }, *out[3], *y[3];
  out[0] = weft_solve(in[0], in[1]), out[1] = weft_det(in[0]), out[2] = weft_cholesky(in[0]);
  weft_function *f = weft_compile(body, 2, in, 3, out);
  for (int n = 1; n < 4; n++) {
    weft_array *x[] = { weft_mul(weft_eye(WEFT_F64, n, n, 0), weft_scalar(4)), weft_full(WEFT_F64, WEFT_DIMS(n), 2) };
    weft_call(f, 2, x, 3, y);
    weft_array *sum[] = { weft_sum(y[0], WEFT_ALL), y[1], weft_sum(y[2], WEFT_ALL) };
    double got[3];
    for (int k = 0; k < 3; k++) EXPECT_OK(weft_read(sum[k], WEFT_F64, got + k, 8));
    EXPECT(got[0] == 0.5 * n && got[1] == pow(4, n) && got[2] == 2 * n);
  }
}

/* a = [2, i; -i, 3] = L L' with L = [r, 0; -i / r, sqrt(5 / 2)], r = sqrt 2; det a = 5. */
SCOPED(complex_matrices_have_factors_solutions_and_determinants) {
  double a[] = { 2, 0, 0, 1, 0, -1, 3, 0 }, b[] = { 1, 0, 0, 2 }, y[8], r = sqrt(2);
  weft_array *m = weft_from(WEFT_C128, WEFT_DIMS(2, 2), a), *v = weft_from(WEFT_C128, WEFT_DIMS(2), b), *x = weft_solve(m, v), *sign, *size;
#define NEAR(n, ...) do { double want[] = { __VA_ARGS__ }; for (int i_ = 0; i_ < n; i_++) EXPECT(fabs(y[i_] - want[i_]) < 1e-12); } while (0)
  EXPECT_OK(weft_read(weft_matmul(m, x), WEFT_C128, y, 32));
  NEAR(4, 1, 0, 0, 2);
  EXPECT_OK(weft_read(weft_cholesky(m), WEFT_C128, y, 64));
  NEAR(8, r, 0, 0, 0, 0, -1 / r, sqrt(2.5), 0);
  EXPECT_OK(weft_read(weft_sub(weft_cholesky_solve(weft_cholesky(m), v), x), WEFT_C128, y, 32));
  NEAR(4, 0, 0, 0, 0);
  EXPECT_OK(weft_read(weft_inverse(m), WEFT_C128, y, 64));
  NEAR(8, 0.6, 0, 0, -0.2, 0, 0.2, 0.4, 0);
  weft_slogdet(weft_mul(m, weft_complex(weft_scalar(0), weft_scalar(1))), &sign, &size);
  EXPECT_OK(weft_read(sign, WEFT_C128, y, 16));
  NEAR(2, -1, 0);
  EXPECT_OK(weft_read(size, WEFT_F64, y, 8));
  NEAR(1, log(5));
  EXPECT_OK(weft_read(weft_det(m), WEFT_C128, y, 16));
  NEAR(2, 5, 0);
#undef NEAR
}

SCOPED(shapes_that_do_not_fit_are_named) {
  weft_array *a = weft_full(WEFT_F64, WEFT_DIMS(2, 3), 1), *s = weft_full(WEFT_F64, WEFT_DIMS(3, 3), 1), *sign, *size;
#define REFUSED(array, text) EXPECT(weft_check(array) != WEFT_OK); EXPECT_TEXT(weft_message(), text)
  REFUSED(weft_cholesky(a), "weft_cholesky: a square matrix, not [2,3]");
  REFUSED(weft_inverse(weft_full(WEFT_F64, WEFT_DIMS(3), 1)), "weft_inverse: a square matrix, not [3]");
  REFUSED(weft_solve(s, weft_full(WEFT_F64, WEFT_DIMS(2), 1)), "weft_solve: [3,3] and [2,1]");
  weft_slogdet(a, &sign, &size);
  REFUSED(size, "weft_slogdet: a square matrix, not [2,3]");
  REFUSED(weft_random_multivariate_normal(weft_random_key(1), NULL, weft_scalar(0), s), "weft_random_multivariate_normal: mean is a number and has no axis");
}

static double noise(uint64_t *s) { return (double)((*s = *s * 6364136223846793005u + 1442695040888963407u) >> 40) / (1 << 24) - 0.5; }

/* Of sizes around those of blocks, panels and lanes: a x - b is small, by plain sums. */
static void expect_solved(int n, int m, int batch, bool is_definite) {
  size_t na = (size_t)(batch * n * n), nb = (size_t)(batch * n * m);
  double *a = calloc(na + 1, 8), *b = calloc(nb + 1, 8), *x = calloc(nb + 1, 8);
  uint64_t seed = (uint64_t)(n * 100 + m);
  for (size_t i = 0; i < na; i++) a[i] = noise(&seed);
  for (size_t i = 0; i < nb; i++) b[i] = noise(&seed);
  for (int p = 0; p < batch && is_definite; p++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j <= i; j++) a[p * n * n + i * n + j] = a[p * n * n + j * n + i] = a[p * n * n + i * n + j] + (i == j ? n : 0);
  weft_array *wa = weft_from(WEFT_F64, WEFT_DIMS(batch, n, n), a), *wb = weft_from(WEFT_F64, WEFT_DIMS(batch, n, m), b);
  weft_array *wx = is_definite ? weft_cholesky_solve(weft_cholesky(wa), wb) : weft_solve(wa, wb);
  EXPECT_OK(weft_read(wx, WEFT_F64, x, nb * 8));
  double worst = 0;
  for (int p = 0; p < batch; p++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < m; j++) {
        double s = -b[(p * n + i) * m + j], size = 1;
        for (int k = 0; k < n; k++) s += a[(p * n + i) * n + k] * x[(p * n + k) * m + j], size += fabs(x[(p * n + k) * m + j]);
        worst = fmax(worst, fabs(s) / size);
      }
  EXPECT(worst < 1e-13 * n);
  free(a), free(b), free(x);
}

SCOPED(systems_of_sizes_around_blocks_panels_and_lanes_are_solved) {
  static const int sizes[] = { 1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 65, 100 }, sides[] = { 1, 2, 7, 16, 17, 33 };
  for (int i = 0; i < 12; i++)
    for (int j = 0; j < 6; j++)
      for (int batch = 1; batch < 10; batch += 8)
        for (int d = 0; d < 2; d++) expect_solved(sizes[i], sides[j], batch, d);
}

/* ---- bits: what is added to what depends on sizes alone, so a GPU and every width of vectors give the same ---- */

enum { BLOCK = 32 }; /* columns that are eliminated at a time */

/* Row i of b less what rows k .. end - 1 take off it. */
static void take_off(double *b, int m, const double *a, int n, int i, int k, int end) {
  for (; k < end; k++)
    for (int j = 0; j < m; j++) b[i * m + j] -= b[k * m + j] * a[i * n + k];
}

/* One row after the other: first what blocks that are solved take off it, then its own. */
static void plain_solve(const double *a, int n, double *b, int m, bool is_upper) {
  int n_blocks = (n + BLOCK - 1) / BLOCK, ragged = n_blocks * BLOCK - n;
  for (int step = 0; step < n; step++) {
    int i = is_upper ? n - 1 - step : step, own = (is_upper ? i + ragged : i) / BLOCK, from = own * BLOCK - (is_upper ? ragged : 0);
    for (int k = is_upper ? n_blocks - 1 : 0; k != own; k += is_upper ? -1 : 1) {
      int first = k * BLOCK - (is_upper ? ragged : 0);
      take_off(b, m, a, n, i, first, first + BLOCK);
    }
    take_off(b, m, a, n, i, is_upper ? i + 1 : from, is_upper ? from + BLOCK : i);
    for (int j = 0; j < m; j++) b[i * m + j] /= a[i * n + i];
  }
}

/* Column by column; within a block by eight sums of every eighth product and one of what is left, before it one by one. */
static void plain_cholesky(double *a, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) {
      int from = j / BLOCK * BLOCK, whole = (j - from) / 8 * 8;
      double sum[8] = { 0 }, rest = 0, s = a[i * n + j];
      for (int k = 0; k < from; k++) s -= a[i * n + k] * a[j * n + k];
      for (int k = 0; k < j - from; k++) {
        double term = a[i * n + from + k] * a[j * n + from + k];
        if (k < whole) sum[k % 8] += term;
        else rest += term;
      }
      s -= (((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))) + rest;
      a[i * n + j] = i == j ? sqrt(s) : s / a[j * n + j];
    }
  for (int i = 0; i < n; i++) memset(a + i * n + i + 1, 0, sizeof *a * (size_t)(n - i - 1));
}

static void expect_bits(weft_array *got, const double *want, size_t n) {
  double *x = malloc(n * sizeof *x);
  EXPECT_OK(weft_read(got, WEFT_F64, x, n * sizeof *x));
  EXPECT(!memcmp(x, want, n * sizeof *x));
  free(x);
}

SCOPED(systems_and_factors_add_up_in_the_order_that_their_sizes_say) {
  static const int rows[] = { 17, 31, 32, 33, 40, 64, 71, 100 }, columns[] = { 2, 7, 8, 15, 16, 17, 32, 33, 50 };
  uint64_t seed = 5;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    int n = rows[r];
    double *a = malloc(sizeof *a * (size_t)(n * n)), *b = malloc(sizeof *b * (size_t)(n * 50));
    for (int i = 0; i < n; i++)
      for (int j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = noise(&seed) + (i == j ? n : 0);
    weft_array *matrix = weft_from(WEFT_F64, WEFT_DIMS(n, n), a);
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
      for (int is_upper = 0; is_upper < 2; is_upper++) {
        int m = columns[c];
        for (int i = 0; i < n * m; i++) b[i] = noise(&seed);
        weft_array *right = weft_from(WEFT_F64, WEFT_DIMS(n, m), b);
        plain_solve(a, n, b, m, is_upper);
        expect_bits(weft_solve_triangular(matrix, right, is_upper, 0), b, (size_t)(n * m));
      }
    plain_cholesky(a, n);
    expect_bits(weft_cholesky(matrix), a, (size_t)(n * n));
    free(a), free(b);
  }
}

/* Re(c phase) + 0.3 log of the size + Re(e det) of a 2x2 matrix of complex numbers. */
static double of_determinant(const double m[8], weft_array **gradient) {
  double c[] = { 0.75, -0.5 }, e[] = { 0.125, 0.25 };
  weft_array *a = weft_alias(weft_from(WEFT_C128, WEFT_DIMS(2, 2), m)), *sign, *size;
  weft_slogdet(a, &sign, &size);
  weft_array *y = weft_add(weft_real(weft_mul(sign, weft_from(WEFT_C128, 0, NULL, c))), weft_mul(size, weft_scalar(0.3)));
  y = weft_add(y, weft_real(weft_mul(weft_det(a), weft_from(WEFT_C128, 0, NULL, e))));
  if (gradient) weft_grad(y, 1, &a, gradient);
  return one_f64(y);
}

/* The gradient by a = u + iv is dy/du - i dy/dv. */
SCOPED(phase_size_and_determinant_of_complex_matrices_have_the_derivatives_of_differences) {
  double m[] = { 2, 0.5, -1, 1, 0.25, -1.5, 3, -0.75 }, got[8], h = 0x1p-13, p[8];
  weft_array *da;
  of_determinant(m, &da);
  EXPECT_OK(weft_read(da, WEFT_C128, got, sizeof got));
  for (int k = 0; k < 8; k++) {
    memcpy(p, m, sizeof p), p[k] += h;
    double above = of_determinant(p, NULL);
    p[k] -= 2 * h;
    double want = (above - of_determinant(p, NULL)) / (2 * h);
    EXPECT_NEAR(k % 2 ? -got[k] : got[k], want, 1e-6);
  }
}

SCOPED(a_matrix_is_factored_once_for_all_that_is_made_of_it) {
  double m[4] = { 4, 1, 1, 3 }, b[2] = { 1, 2 };
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(2, 2), m), *v = f64s(2, b), *sign, *size, *da;
  weft_slogdet(a, &sign, &size);
  weft_array *x = weft_solve(a, v), *all = weft_add(weft_add(weft_sum(weft_inverse(a), WEFT_ALL), weft_det(a)), weft_add(sign, size));
  weft_array *y = weft_add(all, weft_sum(weft_mul(x, weft_solve(a, weft_mul(x, v))), WEFT_ALL));
  weft_grad(y, 1, &a, &da);
  weft_array *both[] = { weft_add(y, weft_inverse_status(a)), da };
  int n = 0;
  for (const char *at = weft_show(2, both, "plan"); (at = strstr(at, ": lu ")); at++) n++;
  EXPECT(n == 1);
}

/* The gradient of det a, and its directional derivative along ones. */
static void expect_cofactors(weft_array *a, int n, const double *want) {
  double *got = calloc((size_t)n, sizeof *got), sum = 0, along;
  weft_array *det = weft_sum(weft_det(a), WEFT_ALL), *da, *dy, *ones = weft_add(weft_mul(a, weft_scalar(0)), weft_scalar(1));
  weft_grad(det, 1, &a, &da);
  weft_jvp(1, &a, &ones, 1, &det, &dy);
  EXPECT_OK(weft_read(da, WEFT_F64, got, (size_t)n * 8));
  EXPECT_OK(weft_read(dy, WEFT_F64, &along, 8));
  for (int i = 0; i < n; i++) {
    sum += want[i];
    EXPECT(fabs(got[i] - want[i]) <= 1e-13 * (1 + fabs(want[i])));
  }
  EXPECT(fabs(along - sum) <= 1e-12 * (1 + fabs(sum)));
  free(got);
}

SCOPED(the_derivative_of_a_determinant_is_its_cofactors_where_it_is_0_too) {
  double m[8][9] = { { 1, 2, 3, 2, 4, 6, 0, 0, 1 }, { 1, 2, 3, 2, 4, 6, 3, 6, 9 }, { 0 }, { 0, 1, 2, 0, 3, 4, 0, 5, 7 },
                     { 0, 1, 0, 0, 0, 1, 0, 0, 0 }, { 1, 2, 3, 4, 5, 6, 7, 8, 10 }, { 5, 0, 0, 0, 0, 0, 0, 0, -3 }, { 1, 1, 1, 1, 1, 1, 1, 1, 2 } };
  double want[8][9];
  for (int p = 0; p < 8; p++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) { /* signs come by themselves when rows and columns go round */
        const double *a = m[p];
        int r = (i + 1) % 3 * 3, s = (i + 2) % 3 * 3, c = (j + 1) % 3, d = (j + 2) % 3;
        want[p][i * 3 + j] = a[r + c] * a[s + d] - a[r + d] * a[s + c];
      }
  expect_cofactors(weft_from(WEFT_F64, WEFT_DIMS(8, 3, 3), m), 72, want[0]);
  expect_cofactors(weft_full(WEFT_F64, WEFT_DIMS(2, 1, 1), 0), 2, (double[]){ 1, 1 });
  expect_cofactors(weft_full(WEFT_F64, WEFT_DIMS(0, 0), 0), 0, NULL);
  enum { N = 20 }; /* beyond lanes: 1, 2, .. with a 0 among them, rows moved on by 3 */
  static double a[N * N], large[N * N];
  for (int i = 0; i < N; i++) a[i * N + (i + 3) % N] = i == 7 ? 0 : i % 3 + 1;
  double size = 1;
  for (int i = 0; i < N; i++) if (i != 7) size *= i % 3 + 1;
  large[7 * N + 10] = -size; /* moved on by 3 rows are 57 exchanges: odd */
  expect_cofactors(weft_from(WEFT_F64, WEFT_DIMS(N, N), a), N * N, large);
  double not_finite[4] = { NAN, 1, 2, 3 };
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(2, 2), not_finite), *det = weft_det(x), *dx;
  weft_grad(det, 1, &x, &dx);
  EXPECT_F64(weft_cast(weft_isnan(dx), WEFT_F64), 1, 1, 1, 1);
}

/* det a = sum_i (-1)^i a_0i det(a without row 0 and column i): without a division, so that derivatives of all orders are sums and
 * products. */
static weft_array *by_minors(weft_array *a, int n) {
  if (n == 1) return weft_reshape(a, 0, NULL);
  weft_array *below = weft_slice(a, 0, 1, n, 1), *det = NULL;
  for (int i = 0; i < n; i++) {
    weft_array *sides[] = { weft_slice(below, 1, 0, i, 1), weft_slice(below, 1, i + 1, n, 1) };
    weft_array *one = weft_reshape(weft_slice(weft_slice(a, 0, 0, 1, 1), 1, i, i + 1, 1), 0, NULL);
    weft_array *term = weft_mul(one, by_minors(weft_concat(1, 2, sides), n - 1));
    det = !det ? term : i % 2 ? weft_sub(det, term) : weft_add(det, term);
  }
  return det;
}

/* The derivative of y by x of this order, each time in a direction of its own. */
static weft_array *in_directions(weft_array *y, weft_array *x, int n, int order, bool is_forward) {
  for (int k = 0; k < order; k++) {
    double w[25];
    weft_array *dy, *d;
    for (int i = 0; i < n * n; i++) w[i] = (i * 7 + k * 5) % 11 - 4.5;
    d = weft_from(WEFT_F64, WEFT_DIMS(n, n), w);
    if (is_forward) weft_jvp(1, &x, &d, 1, &y, &dy), y = dy;
    else weft_grad(y, 1, &x, &dy), y = weft_sum(weft_mul(dy, d), WEFT_ALL), y = weft_reshape(y, 0, NULL);
  }
  return y;
}

/* Of rank n, n - 1, .., 0, and nearly of rank n - 1. */
static weft_array *of_rank(int n, int rank, bool nearly) {
  double a[16];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      a[i * n + j] = nearly && i == j ? 1e-9 * (i + 1) : 0;
      for (int k = 0; k < rank; k++) a[i * n + j] += ((i * 3 + k * 5) % 7 - 2.5) * ((j * 4 + k * 3) % 9 - 3.5);
    }
  return weft_from(WEFT_F64, WEFT_DIMS(n, n), a);
}

SCOPED(derivatives_of_a_determinant_are_there_at_every_rank_and_order) {
  for (int n = 1; n <= 4; n++)
    for (int rank = 0; rank <= n; rank++)
      for (int order = 1; order <= 4; order++)
        for (int form = 0; form < 4; form++) {
          double got, want;
          weft_array *x = of_rank(n, rank, form > 1);
          EXPECT_OK(weft_read(in_directions(weft_det(x), x, n, order, form % 2), WEFT_F64, &got, sizeof got));
          EXPECT_OK(weft_read(in_directions(by_minors(x, n), x, n, order, true), WEFT_F64, &want, sizeof want));
          if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
            test_fail(__FILE__, __LINE__, "n %d, rank %d, order %d, form %d: %g, not %g", n, rank, order, form, got, want);
        }
}

/* More pivots that are nearly 0, and equally so, than a derivative of this order has use for. */
SCOPED(derivatives_of_a_determinant_are_there_where_many_pivots_are_equally_small) {
  for (int k = 0; k < 3; k++)
    for (int order = 1; order <= 3; order++) {
      double small = k == 0 ? 1e-17 : k == 1 ? 1e-8 : 1e-3, a[25] = { 0 }, got, want;
      for (int i = 0; i < 5; i++) a[i * 6] = i ? i % 2 ? small : -small : 1;
      weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(5, 5), a);
      EXPECT_OK(weft_read(in_directions(weft_det(x), x, 5, order, order % 2), WEFT_F64, &got, sizeof got));
      EXPECT_OK(weft_read(in_directions(by_minors(x, 5), x, 5, order, true), WEFT_F64, &want, sizeof want));
      if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        test_fail(__FILE__, __LINE__, "pivots of %g, order %d: %g, not %g", small, order, got, want);
    }
}

SCOPED(second_derivatives_of_many_determinants_are_those_of_each_and_have_an_end) {
  static const double m[3][4] = { { 0 }, { 1, 2, 2, 4 }, { 3, 1, 2, 5 } };
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(2, 2)), *all = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(3, 2, 2), m), WEFT_F32), *dx, *ddx, *ys;
  weft_grad(weft_det(x), 1, &x, &dx);
  weft_array *first = weft_mul(weft_slice(weft_slice(dx, 0, 0, 1, 1), 1, 0, 1, 1), weft_scalar(3)); /* 3 d det / d a = 3 d */
  weft_grad(weft_sum(first, WEFT_ALL), 1, &x, &ddx);
  weft_map(1, &x, &all, 1, &ddx, &ys);
  EXPECT_F64(weft_cast(ys, WEFT_F64), 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 3);
  double bad[] = { 1, INFINITY, 2, 3 };
  weft_array *y = weft_from(WEFT_F64, WEFT_DIMS(2, 2), bad), *dy, *many = of_rank(4, 2, false), *sum = weft_det(many);
  weft_grad(weft_det(y), 1, &y, &dy);
  weft_grad(weft_sum(dy, WEFT_ALL), 1, &y, &dy);
  EXPECT_F64(weft_cast(weft_isnan(dy), WEFT_F64), 1, 1, 1, 1);
  for (int k = 0; k < 8; k++) weft_grad(sum, 1, &many, &sum), sum = weft_sum(sum, WEFT_ALL);
  EXPECT_INT(weft_eval(1, &sum), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_det: a derivative of order 8; 7 at most");
}

/* ---- triangles ---- */

enum { TRIANGLES = 7 };

/* Their diagonals: good, with a 0, a -0 and a nan, all zeros, a denormal and an inf, which are no pivots that are missing. */
static void fill_triangles(double *a, int64_t n) {
  uint64_t seed = (uint64_t)n;
  for (int64_t i = 0; i < TRIANGLES * n * n; i++) a[i] = noise(&seed) / (double)n;
  for (int64_t p = 0; p < TRIANGLES; p++)
    for (int64_t i = 0; i < n; i++) {
      double *d = a + p * n * n + i * (n + 1), last = p == 1 ? 0 : p == 2 ? -0.0 : p == 3 ? NAN : p == 5 ? 0x1p-1074 : p == 6 ? INFINITY : 2;
      *d = p == 4 ? 0 : i == n - 1 - n / 3 ? last : 1.5;
    }
}

/* The whole solution is nan where the status is not 0, and that is where a 0 or nan stands on the diagonal; as unit triangles they
 * are all good. */
static void expect_triangles(weft_dtype t, int64_t n, int64_t m, weft_array *(*seen)(weft_array *)) {
  weft_scope *s = weft_scope_open();
  double *v = calloc((size_t)(TRIANGLES * n * n) + 1, sizeof *v);
  fill_triangles(v, n);
  weft_array *a = seen(weft_cast(weft_from(WEFT_F64, WEFT_DIMS(TRIANGLES, n, n), v), t)), *b = weft_full(t, WEFT_DIMS(TRIANGLES, n, m), 1);
  weft_array *x[] = { weft_solve_triangular(a, b, 0, 0), weft_solve_triangular(a, b, 1, 0), weft_cholesky_solve(a, b),
                      weft_solve_triangular(a, b, 0, 1) };
  int64_t status[TRIANGLES], at = n - n / 3, gone = t == WEFT_F32 ? at : 0; /* f32 has no number as small as the last but one */
  int64_t want[TRIANGLES] = { 0, at, at, at, 1, gone, 0 };
  EXPECT_OK(weft_read(weft_solve_triangular_status(a), WEFT_I64, status, sizeof status));
  for (int p = 0; p < TRIANGLES; p++) EXPECT_INT(status[p], want[p]);
  for (int k = 0; k < 4; k++) {
    size_t count;
    double *y = all_f64(x[k], &count);
    EXPECT_INT((int64_t)count, TRIANGLES * n * m);
    for (int64_t i = 0; i < (int64_t)count; i++) {
      bool is_missing = k < 3 && want[i / (n * m)];
      if (i / (n * m) != 5 && is_missing != (isnan(y[i]) != 0))
        test_fail(__FILE__, __LINE__, "%s, %d rows, %d sides, way %d: %g in matrix %d", weft_dtype_name(t), (int)n, (int)m, k, y[i],
                  (int)(i / (n * m)));
    }
    free(y);
  }
  free(v);
  weft_scope_discard(s);
}

static weft_array *as_it_is(weft_array *a) { return a; }
static weft_array *seen_turned(weft_array *a) {
  weft_array *stored = weft_moveaxis(a, -1, -2);
  EXPECT_OK(weft_eval(1, &stored));
  return weft_moveaxis(stored, -1, -2);
}
static weft_array *seen_back(weft_array *a) {
  weft_array *stored = weft_flip(weft_flip(weft_flip(a, 0), 1), 2);
  EXPECT_OK(weft_eval(1, &stored));
  return weft_flip(weft_flip(weft_flip(stored, 0), 1), 2);
}

TEST(a_triangle_with_0_or_nan_on_its_diagonal_is_nan_as_a_whole_and_its_status_says_where) {
  static const int64_t rows[] = { 1, 2, 3, 16, 17, 33, 70 }, sides[] = { 1, 2, 17 };
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 6; k++)
        expect_triangles(k % 2 ? WEFT_F64 : WEFT_F32, rows[i], sides[j], k / 2 == 0 ? as_it_is : k / 2 == 1 ? seen_turned : seen_back);
}

SCOPED(triangles_without_rows_or_sides_have_a_status) {
  weft_array *none = weft_full(WEFT_F64, WEFT_DIMS(2, 0, 0), 0), *zeros = weft_full(WEFT_F64, WEFT_DIMS(2, 3, 3), 0);
  int64_t status[2] = { 7, 7 };
  EXPECT_OK(weft_read(weft_solve_triangular_status(none), WEFT_I64, status, sizeof status));
  EXPECT(status[0] == 0 && status[1] == 0);
  weft_array *x = weft_solve_triangular(none, weft_full(WEFT_F64, WEFT_DIMS(2, 0, 4), 0), 0, 0);
  EXPECT_OK(weft_eval(1, &x));
  EXPECT(weft_dim(x, 1) == 0 && weft_dim(x, 2) == 4);
  x = weft_solve_triangular(zeros, weft_full(WEFT_F64, WEFT_DIMS(2, 3, 0), 0), 0, 0);
  EXPECT_OK(weft_eval(1, &x));
  EXPECT(weft_dim(x, 1) == 3 && weft_dim(x, 2) == 0);
  EXPECT_OK(weft_read(weft_solve_triangular_status(weft_cast(zeros, WEFT_I32)), WEFT_I64, status, sizeof status));
  EXPECT(status[0] == 1 && status[1] == 1);
  EXPECT(weft_check(weft_solve_triangular_status(weft_full(WEFT_F64, WEFT_DIMS(2, 3), 1))) != WEFT_OK);
  EXPECT_TEXT(weft_message(), "weft_solve_triangular_status: a square matrix, not [2,3]");
}

/* As those of a singular matrix by weft_solve: nan, and nothing of it in the others of the batch. */
SCOPED(derivatives_of_a_singular_triangle_are_nan_and_those_beside_it_are_not) {
  double v[8] = { 2, 0, 1, 4, 2, 0, 1, 0 }, w[4] = { 1, 2, 3, 4 }, da[8], db[4];
  for (int complex = 0; complex < 2; complex++)
    for (int k = 0; k < 2; k++) {
      weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(2, 2, 2), v), *b = weft_from(WEFT_F64, WEFT_DIMS(2, 2, 1), w), *g[2], *x[] = { a, b };
      weft_array *ca = complex ? weft_cast(a, WEFT_C128) : a, *cb = complex ? weft_cast(b, WEFT_C128) : b;
      weft_array *y = k ? weft_cholesky_solve(ca, cb) : weft_solve_triangular(ca, cb, 0, 0);
      weft_grad(weft_sum(complex ? weft_real(y) : y, WEFT_ALL), 2, x, g);
      EXPECT_OK(weft_read(g[0], WEFT_F64, da, sizeof da));
      EXPECT_OK(weft_read(g[1], WEFT_F64, db, sizeof db));
      for (int i = 0; i < 4; i++) EXPECT(isfinite(da[i]));
      EXPECT(isfinite(db[0]) && isfinite(db[1]) && isnan(db[2]) && isnan(db[3]) && isnan(da[6]));
      if (!complex) EXPECT(isnan(da[4]) && isnan(da[7]) && da[5] == 0);
    }
}

/* Of both kinds of c64: what f32 cannot hold on the way, and roundings on the way. */
SCOPED(complex_matrices_of_single_precision_are_computed_in_double_precision_and_rounded_once) {
  enum { N = 6 };
  float a[2 * N * N], b[2 * N];
  for (int i = 0; i < N * N; i++) {
    float of_pivot = i % (N + 1) ? 1 : i % 2 ? 1e-25f : 3e-30f;
    a[2 * i] = of_pivot * (float)sin(3 * i + 1), a[2 * i + 1] = of_pivot * (float)cos(5 * i);
    if (i % (N + 1) && i % N < i / N) a[2 * i] *= 1e-28f, a[2 * i + 1] *= 1e-28f;
  }
  for (int i = 0; i < 2 * N; i++) b[i] = 1e-20f * (float)sin(7 * i + 2);
  weft_array *m = weft_from(WEFT_C64, WEFT_DIMS(N, N), a), *v = weft_from(WEFT_C64, WEFT_DIMS(N), b);
  weft_array *wide = weft_cast(m, WEFT_C128), *wide_v = weft_cast(v, WEFT_C128), *sign[2], *size[2];
  weft_slogdet(m, &sign[0], &size[0]), weft_slogdet(wide, &sign[1], &size[1]);
  weft_array *got[] = { weft_solve_triangular(m, v, 0, 0), weft_solve_triangular(m, v, 0, 1), weft_cholesky_solve(m, v), weft_det(m), sign[0] };
  weft_array *want[] = { weft_solve_triangular(wide, wide_v, 0, 0), weft_solve_triangular(wide, wide_v, 0, 1),
                         weft_cholesky_solve(wide, wide_v), weft_det(wide), sign[1] };
  for (int k = 0; k < 5; k++) {
    float x[2][2 * N] = { { 0 } };
    size_t bytes = (k < 3 ? N : 1) * 2 * sizeof **x;
    EXPECT_INT(weft_dtype_of(got[k]), WEFT_C64);
    EXPECT_OK(weft_read(got[k], WEFT_C64, x[0], bytes));
    EXPECT_OK(weft_read(weft_cast(want[k], WEFT_C64), WEFT_C64, x[1], bytes));
    if (memcmp(x[0], x[1], sizeof *x)) test_fail(__FILE__, __LINE__, "result %d: %g%+gi, not %g%+gi", k, x[0][0], x[0][1], x[1][0], x[1][1]);
    if (k < 2) EXPECT(isfinite(x[0][0]) && x[0][0] != 0);
  }
  EXPECT_INT(weft_dtype_of(size[0]), WEFT_F32);
}

SCOPED(a_complex_triangle_with_0_on_its_diagonal_is_nan_as_a_whole_and_its_status_says_where) {
  double v[] = { 1, 1, 0, 0, 2, 0, 0, -2,  1, 0, 0, 0, 2, 3, 0, -0.0,  1, 0, 0, 0, 2, 3, 4, NAN,  1, 0, 0, 0, 2, 3, NAN, INFINITY }, y[16];
  int64_t status[4];
  weft_array *a = weft_from(WEFT_C128, WEFT_DIMS(4, 2, 2), v), *b = weft_full(WEFT_C128, WEFT_DIMS(2), 1);
  EXPECT_OK(weft_read(weft_solve_triangular_status(a), WEFT_I64, status, sizeof status));
  EXPECT(status[0] == 0 && status[1] == 2 && status[2] == 2 && status[3] == 2);
  for (int k = 0; k < 2; k++) {
    EXPECT_OK(weft_read(k ? weft_cholesky_solve(a, b) : weft_solve_triangular(a, b, 0, 0), WEFT_C128, y, sizeof y));
    for (int i = 0; i < 4; i++) EXPECT(isfinite(y[i]));
    for (int i = 4; i < 16; i++) EXPECT(isnan(y[i]));
  }
  EXPECT_OK(weft_read(weft_solve_triangular(a, b, 0, 1), WEFT_C128, y, sizeof y));
  for (int i = 0; i < 16; i++) EXPECT(isfinite(y[i]));
}

/* What is not read has no derivative and is in none, be it nan; where the triangle is singular its derivative is 0 there, too. */
SCOPED(what_is_beside_a_triangle_is_in_no_derivative_of_it) {
  for (int way = 0; way < 8; way++) {
    bool is_complex = way & 1, is_singular = way & 2, by_cholesky = way & 4;
    double v[2][4] = { { 2, NAN, 1, is_singular ? 0 : 4 }, { 2, 0, 1, is_singular ? 0 : 4 } }, w[2] = { 1, 2 }, da[2][8], db[2][4];
    weft_dtype t = is_complex ? WEFT_C128 : WEFT_F64;
    size_t each = is_complex ? 2 : 1;
    for (int k = 0; k < 2; k++) {
      weft_array *x[] = { weft_cast(weft_from(WEFT_F64, WEFT_DIMS(2, 2), v[k]), t), weft_cast(weft_from(WEFT_F64, WEFT_DIMS(2, 1), w), t) }, *g[2];
      weft_array *y = by_cholesky ? weft_cholesky_solve(x[0], x[1]) : weft_solve_triangular(x[0], x[1], 0, 0);
      weft_grad(weft_sum(is_complex ? weft_real(y) : y, WEFT_ALL), 2, x, g);
      EXPECT_OK(weft_read(g[0], t, da[k], 4 * each * sizeof(double)));
      EXPECT_OK(weft_read(g[1], t, db[k], 2 * each * sizeof(double)));
      for (size_t i = 0; i < each; i++) EXPECT(da[k][each + i] == 0);
    }
    for (size_t i = 0; i < 4 * each; i++) EXPECT(da[0][i] == da[1][i] || (is_singular && isnan(da[0][i]) && isnan(da[1][i])));
    for (size_t i = 0; i < 2 * each; i++) EXPECT(db[0][i] == db[1][i] || (is_singular && isnan(db[0][i]) && isnan(db[1][i])));
  }
}
