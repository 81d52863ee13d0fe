/* blas.c -- products by a CBLAS that was asked for, and factors by its LAPACK: the right numbers, wherever operands lie; nothing
 * else goes there; and a library that is not there is said to be so. */
#include "backend/blas.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "run/plan.h"
#include "values.h"
#include "weft.h"

enum { M = 70, N = 50, K = 90 };

static int *counter(const char *name) { return dlsym(dlopen(PLAIN_CBLAS, RTLD_NOW), name); }

/* Small integers: their sums are the same in any order. */
static weft_array *matrix(weft_dtype t, int64_t rows, int64_t columns) {
  double *x = malloc(sizeof *x * (size_t)(rows * columns));
  for (int64_t i = 0; i < rows * columns; i++) x[i] = (double)(i * 7919 % 13 - 6);
  weft_array *y = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(rows, columns), x), t);
  free(x);
  EXPECT_OK(weft_eval(1, &y));
  return y;
}

typedef weft_array *program(weft_dtype);

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }
static weft_array *plain(weft_dtype t) { return weft_matmul(matrix(t, M, K), matrix(t, K, N)); }
static weft_array *left_turned(weft_dtype t) { return weft_matmul(turned(matrix(t, K, M)), matrix(t, K, N)); }
static weft_array *right_turned(weft_dtype t) { return weft_matmul(matrix(t, M, K), turned(matrix(t, N, K))); }
static weft_array *parts(weft_dtype t) {
  return weft_matmul(weft_slice(matrix(t, M, K + 20), 1, 10, K + 10, 1), weft_slice(matrix(t, K + 5, N), 0, 5, K + 5, 1));
}
static weft_array *rows(weft_dtype t) { return weft_matmul(weft_reshape(matrix(t, 3 * M, K), WEFT_DIMS(3, M, K)), matrix(t, K, N)); }
static weft_array *batched(weft_dtype t) {
  weft_array *a = weft_reshape(matrix(t, 3 * M, K), WEFT_DIMS(3, M, K));
  return weft_matmul(a, weft_reshape(matrix(t, 3 * K, N), WEFT_DIMS(3, K, N)));
}
static weft_array *few_columns(weft_dtype t) { return weft_matmul(matrix(t, 900, K), matrix(t, K, 3)); }
static weft_array *with_rest(weft_dtype t) {
  return weft_maximum(weft_add(weft_matmul(matrix(t, M, K), matrix(t, K, N)), weft_slice(matrix(t, 1, N), 0, 0, 1, 1)), weft_integer(3));
}
static weft_array *with_folds(weft_dtype t) { return weft_max(weft_matmul(matrix(t, 300, K), matrix(t, K, N)), -1); }
static weft_array *reversed(weft_dtype t) { return weft_matmul(weft_slice(matrix(t, M, K), 1, -1, INT64_MIN, -1), matrix(t, K, N)); }
static weft_array *small(weft_dtype t) { return weft_matmul(matrix(t, 8, 8), matrix(t, 8, 9)); }

static double *values(program *f, weft_dtype t, size_t *n) {
  weft_scope *s = weft_scope_open();
  double *x = all_f64(f(t), n);
  weft_scope_discard(s);
  return x;
}

static void check(const char *name, program *f, weft_dtype t, int calls) {
  size_t n, m;
  weft_set(WEFT_BLAS, 0);
  double *want = values(f, t, &n);
  EXPECT_INT(weft_set(WEFT_BLAS, 1), 0);
  *counter("plain_calls") = 0;
  double *got = values(f, t, &m);
  if (n != m || memcmp(want, got, sizeof *got * n)) test_fail(__FILE__, __LINE__, "%s: other numbers", name);
  if (*counter("plain_calls") != calls) test_fail(__FILE__, __LINE__, "%s: %d calls, not %d", name, *counter("plain_calls"), calls);
  free(want), free(got);
}

static void leave(void) {
  weft_set(WEFT_BLAS, 0);
  blas_use(NULL);
}

TEST(a_cblas_that_is_asked_for_multiplies_what_it_can_read) {
  blas_use(PLAIN_CBLAS);
  for (int i = 0; i < 2; i++) {
    weft_dtype t = i ? WEFT_F64 : WEFT_F32;
    check("plain", plain, t, 1);
    check("left, turned", left_turned, t, 1);
    check("right, turned", right_turned, t, 1);
    check("parts", parts, t, 1);
    check("leading axes of the left alone", rows, t, 1);
    check("batched", batched, t, 3);
    check("few columns", few_columns, t, 1);
    check("with the rest", with_rest, t, 1);
    check("with folds", with_folds, t, 1);
    check("reversed", reversed, t, 0);
    check("small", small, t, 0);
  }
  check("bf16", plain, WEFT_BF16, 0);
  check("i32", plain, WEFT_I32, 0);
  leave();
}

TEST(a_cblas_is_told_how_many_threads_there_are_and_counted) {
  int64_t threads = weft_get(WEFT_THREADS);
  weft_scope *s = weft_scope_open();
  blas_use(PLAIN_CBLAS);
  EXPECT_INT(weft_get(WEFT_BLAS), 0);
  EXPECT_INT(weft_set(WEFT_BLAS, 1), 0);
  for (int n = 3; n--;) {
    weft_set(WEFT_THREADS, n + 1);
    weft_array *y = with_rest(WEFT_F32);
    weft_cost cost;
    EXPECT_OK(weft_plan(1, &y, &cost));
    EXPECT_INT(cost.library_calls, 1);
    EXPECT_OK(weft_eval(1, &y));
    EXPECT_INT(*counter("plain_threads"), n + 1);
  }
  weft_set(WEFT_THREADS, threads);
  leave();
  weft_scope_discard(s);
}

TEST(a_product_is_a_step_of_the_library_where_it_is_asked_for_when_it_runs) {
  blas_use(PLAIN_CBLAS);
  weft_scope *outside = weft_scope_open();
  weft_array *one = matrix(WEFT_F32, M, K), *w = matrix(WEFT_F32, K, N);
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(M, K)), *y = weft_matmul(x, w);
  weft_function *f = weft_compile(s, 1, &x, 1, &y);
  for (int asks = 0, i = 0; i < 4; i++, asks = !asks) {
    EXPECT_INT(weft_set(WEFT_BLAS, asks), !asks && i);
    weft_array *called, *graph = weft_matmul(one, w);
    weft_call(f, 1, &one, 1, &called);
    EXPECT(!!strstr(weft_show(1, &graph, "plan"), "product by ") == asks);
    *counter("plain_calls") = 0;
    EXPECT_OK(weft_eval(1, &called));
    EXPECT_INT(*counter("plain_calls"), asks);
    EXPECT_OK(weft_eval(1, &graph));
    EXPECT_INT(*counter("plain_calls"), 2 * asks);
  }
  leave();
  weft_scope_discard(outside);
}

TEST(a_cblas_that_is_not_there_is_refused_aloud) {
  blas_use("libno-such-blas.so");
  EXPECT_INT(weft_set(WEFT_BLAS, 1), -1);
  EXPECT_INT(weft_get(WEFT_BLAS), 0);
  blas_use(PLAIN_CBLAS);
  EXPECT_INT(weft_set(WEFT_BLAS, 1), 0);
  weft_scope *s = weft_scope_open();
  weft_array *y = plain(WEFT_F32), *z = plain(WEFT_I32);
  blas_use("libno-such-blas.so"); /* as it is where the environment asks for it */
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_FILE);
  EXPECT(strstr(weft_message(), "libno-such-blas.so"));
  EXPECT_OK(weft_eval(1, &z));
  leave();
  weft_scope_discard(s);
}

/* ---- factors ---- */

enum { SIDE = 530, RIGHT = 7 };

/* Well conditioned, symmetric where it is to be definite, and with rows that LU exchanges where it is not. */
static weft_array *square(weft_dtype t, bool is_definite) {
  static double x[SIDE * SIDE];
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      int k = is_definite ? (i + j) * (i < j ? j - i : i - j) : i * 7919 + j * 104729;
      x[i * SIDE + j] = k % 17 / 17. + (is_definite ? 80 * (i == j) : 80 * (i == SIDE - 1 - j));
    }
  return weft_cast(weft_from(WEFT_F64, WEFT_DIMS(SIDE, SIDE), x), t);
}

static weft_array *sides(weft_dtype t) { return matrix(t, SIDE, RIGHT); }
static weft_array *pair(weft_array *a) { return weft_stack(0, WEFT_ARRAYS(a, weft_mul(a, weft_integer(2)), weft_neg(a))); }
static weft_array *lower(weft_dtype t) { return weft_cholesky(square(t, true)); }
static weft_array *definite(weft_dtype t) { return weft_cholesky_solve(lower(t), sides(t)); }
static weft_array *general(weft_dtype t) { return weft_solve(square(t, false), sides(t)); }
static weft_array *several(weft_dtype t) { return weft_solve(pair(square(t, false)), sides(t)); }
static weft_array *inverted(weft_dtype t) { return weft_inverse(square(t, false)); }
static weft_array *upper(weft_dtype t) { return weft_solve_triangular(square(t, true), sides(t), 1, 0); }
static weft_array *upper_turned(weft_dtype t) { return weft_solve_triangular(turned(square(t, true)), sides(t), 1, 1); }
static weft_array *one_side(weft_dtype t) { return weft_solve(square(t, false), weft_slice(weft_reshape(sides(t), WEFT_DIMS(-1)), 0, 0, SIDE, 1)); }
static weft_array *by_matrix(weft_dtype t) {
  weft_array *a = square(t, false), *da;
  weft_grad(weft_solve(a, sides(t)), 1, &a, &da);
  return da;
}
static weft_array *statuses(weft_dtype t) { return weft_cholesky_status(pair(square(t, true))); }
static weft_array *singular(weft_dtype t) {
  weft_array *a = square(t, false);
  return weft_inverse_status(weft_put(a, weft_slice(a, 1, 100, 101, 1), weft_scalar(0), WEFT_SET));
}
static weft_array *singular_triangles(weft_dtype t) {
  weft_array *a = square(t, true), *d = weft_at(weft_at(a, 0, weft_integer(500)), 0, weft_integer(500));
  weft_array *none = weft_put(a, d, weft_scalar(0), WEFT_SET), *both = weft_stack(0, WEFT_ARRAYS(none, a));
  weft_array *y = weft_add(weft_solve_triangular(both, sides(t), 1, 0), weft_cholesky_solve(both, sides(t)));
  return weft_add(weft_cast(weft_isnan(y), t), weft_solve_triangular(both, sides(t), 0, 1));
}
static weft_array *with_nan(weft_dtype t) {
  weft_array *a = square(t, true);
  return weft_cholesky_status(weft_put(a, weft_at(weft_at(a, 0, weft_integer(50)), 0, weft_integer(50)), weft_scalar(NAN), WEFT_SET));
}

/* As weft itself has them, up to rounding. */
static void about(const char *name, program *f, weft_dtype t, int calls) {
  size_t n, m;
  weft_set(WEFT_BLAS, 0);
  double *want = values(f, t, &n);
  weft_set(WEFT_BLAS, 1);
  *counter("plain_factors") = 0;
  double *got = values(f, t, &m);
  if (n != m) test_fail(__FILE__, __LINE__, "%s: %zu numbers, not %zu", name, m, n);
  for (size_t i = 0; i < n && i < m; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-6 * (1 + fabs(want[i])) || (isnan(want[i]) && isnan(got[i])))) {
      test_fail(__FILE__, __LINE__, "%s: element %zu is %g, not %g", name, i, got[i], want[i]);
      break;
    }
  if (*counter("plain_factors") != calls)
    test_fail(__FILE__, __LINE__, "%s: %d calls, not %d", name, *counter("plain_factors"), calls);
  free(want), free(got);
}

TEST(a_lapack_that_is_asked_for_factors_large_matrices) {
  blas_use(PLAIN_CBLAS);
  for (int i = 0; i < 2; i++) {
    weft_dtype t = i ? WEFT_F64 : WEFT_F32;
    about("cholesky", lower, t, 1);
    about("cholesky_solve", definite, t, 3);
    about("solve", general, t, 3);
    about("solve of three", several, t, 9);
    about("inverse", inverted, t, 3);
    about("an upper triangle", upper, t, 1);
    about("one that stands turned, with ones", upper_turned, t, 1);
    about("one right side is solved here", one_side, t, 1);
    about("the gradient by a matrix", by_matrix, t, 5);
    about("what is not definite is said", statuses, t, 3);
    about("what is singular is said", singular, t, 1);
    about("nan is said", with_nan, t, 1);
    about("a singular triangle", singular_triangles, t, 5);
  }
  leave();
}

TEST(a_lapack_is_named_in_the_plan_and_small_matrices_stay) {
  blas_use(PLAIN_CBLAS);
  weft_scope *s = weft_scope_open();
  EXPECT_INT(weft_set(WEFT_BLAS, 1), 0);
  weft_array *y = lower(WEFT_F64), *few = weft_cholesky(weft_slice(weft_slice(square(WEFT_F64, true), 0, 0, 500, 1), 1, 0, 500, 1));
  weft_cost cost;
  EXPECT(strstr(weft_show(1, &y, "plan"), "cholesky by " PLAIN_CBLAS));
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.library_calls, 1);
  EXPECT(strstr(weft_show(1, &few, "plan"), "cholesky by weft"));
  leave();
  EXPECT(strstr(weft_show(1, &y, "plan"), "cholesky by weft"));
  weft_scope_discard(s);
}
