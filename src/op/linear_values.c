/* linear_values.c -- factors and systems of small matrices inside a kernel, where every element is a value: a filter's step, or the
 * rows of a map, each in a lane. What is computed, and in which order, is what matrix_loops.h does for a lane, to the bit. */
#include "op/linear.h"
#include <math.h>
#include "graph/dtype.h"
#include "kernel/kir.h"

/* ---- f64 ---- */

static int number(struct kir_builder *b, double x) { return kir_lit(b->k, WEFT_F64, dtype_encode(WEFT_F64, x)); }
static int whole(struct kir_builder *b, int64_t x) { return kir_lit_int(b->k, WEFT_I64, x); }
static int either(struct kir_builder *b, int is, int x, int y) { return kir_op3(b, KIR_SELECT, is, x, y); }
static int equal(struct kir_builder *b, int x, int y) { return kir_op2(b, KIR_EQ, x, y); }

/* x - y z, rounded twice. */
static int take_off(struct kir_builder *b, int x, int y, int z) { return kir_op2(b, KIR_SUB, x, kir_op2(b, KIR_MUL, y, z)); }

static void widen(struct kir_builder *b, int64_t n, const int from[], int to[]) {
  for (int64_t i = 0; i < n; i++) to[i] = kir_cast(b, WEFT_F64, from[i]);
}

/* nan where is_wrong, else x, in another dtype; is_wrong -1: nowhere. */
static void narrow(struct kir_builder *b, weft_dtype t, int64_t n, int is_wrong, const int x[], int to[]) {
  for (int64_t i = 0; i < n; i++)
    to[i] = kir_cast(b, t, is_wrong < 0 ? x[i] : either(b, is_wrong, number(b, NAN), x[i]));
}

/* The first k, from 1, with which it was called where is_wrong; 0: none yet. */
static int noted(struct kir_builder *b, int found, int is_wrong, int64_t k) {
  return either(b, kir_op2(b, KIR_AND, is_wrong, equal(b, found, whole(b, 0))), whole(b, k), found);
}

/* ---- problems ---- */

enum { MOST = 256 }; /* elements of a matrix, as in schedule/body.h */

static int64_t axis_of(const struct node *x, int from_end) { return x->dims[x->rank - from_end]; }
static int64_t problems_of(const struct node *n) {
  int64_t problems = 1;
  for (int k = 0; k < n->in[0]->rank - 2; k++) problems *= n->in[0]->dims[k];
  return problems;
}
static weft_dtype dtype_of(const struct node *x) { return (weft_dtype)x->dtype; }

/* t x = b: a triangle of a [n, n], or of what stands there turned; b [n, m] becomes x. */
struct triangle_values { const int *a; int64_t n; bool is_turned, is_upper, is_unit; };

static void solve(struct kir_builder *b, const struct triangle_values *t, int x[], int64_t m) {
  int64_t row = t->is_turned ? 1 : t->n, column = t->is_turned ? t->n : 1;
  for (int64_t step = 0; step < t->n; step++) {
    int64_t i = t->is_upper ? t->n - 1 - step : step, from = t->is_upper ? i + 1 : 0, end = t->is_upper ? t->n : i;
    for (int64_t k = from; k < end; k++)
      for (int64_t j = 0; j < m; j++) x[i * m + j] = take_off(b, x[i * m + j], t->a[i * row + k * column], x[k * m + j]);
    for (int64_t j = 0; j < m && !t->is_unit; j++) x[i * m + j] = kir_op2(b, KIR_DIV, x[i * m + j], t->a[i * row + i * column]);
  }
}

/* The number, from 1, of the first element of the diagonal of a [n, n] that is 0 or nan; 0: none. */
static int missing_pivot(struct kir_builder *b, int64_t n, const int a[]) {
  int status = whole(b, 0);
  for (int64_t i = 0; i < n; i++) {
    int is_there = kir_op2(b, KIR_LT, number(b, 0), kir_op1(b, KIR_ABS, a[i * (n + 1)]));
    status = noted(b, status, kir_op1(b, KIR_NOT, is_there), i + 1);
  }
  return status;
}

/* ---- Cholesky ---- */

static int64_t cost_cholesky(const struct node *n) {
  int64_t m = axis_of(n->in[0], 1);
  return problems_of(n) * (m * (m + 1) * (m + 2) / 3 + 3 * m * m);
}

static void cholesky(struct kir_builder *b, int64_t n, int a[], int *status) {
  *status = whole(b, 0);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      int s = a[i * n + j];
      for (int64_t k = 0; k < j; k++) s = take_off(b, s, a[i * n + k], a[j * n + k]);
      if (i == j) *status = noted(b, *status, kir_op1(b, KIR_NOT, kir_op2(b, KIR_LT, number(b, 0), s)), i + 1);
      a[i * n + j] = i == j ? kir_op1(b, KIR_SQRT, s) : kir_op2(b, KIR_DIV, s, a[j * n + j]);
    }
}

static void write_cholesky(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[0], 1), each = n * n;
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int a[MOST], *l = out[0] + p * each;
    widen(b, each, in[0] + p * each, a);
    cholesky(b, n, a, &out[1][p]);
    narrow(b, dtype_of(of->in[0]), each, kir_op2(b, KIR_NE, out[1][p], whole(b, 0)), a, l);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = i + 1; j < n; j++) l[i * n + j] = kir_cast(b, dtype_of(of->in[0]), number(b, 0));
  }
}

/* ---- triangles ---- */

static int64_t cost_sides(const struct node *n) {
  int64_t rows = axis_of(n->in[0], 1), columns = axis_of(n->in[n->n_in - 1], 1);
  return problems_of(n) * rows * rows * (columns + 1);
}

static void write_triangle(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  const struct triangle_attr *t = of->attr;
  int64_t n = axis_of(of->in[0], 1), m = axis_of(of->in[1], 1);
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int a[MOST], x[MOST];
    widen(b, n * n, in[0] + p * n * n, a), widen(b, n * m, in[1] + p * n * m, x);
    solve(b, &(struct triangle_values){ a, n, false, t->is_upper, t->is_unit }, x, m);
    out[1][p] = t->is_unit ? whole(b, 0) : missing_pivot(b, n, a);
    narrow(b, dtype_of(of->in[1]), n * m, t->is_unit ? -1 : kir_op2(b, KIR_NE, out[1][p], whole(b, 0)), x, out[0] + p * n * m);
  }
}

static int64_t cost_cholesky_solve(const struct node *n) { return 2 * cost_sides(n); }

static void write_cholesky_solve(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[0], 1), m = axis_of(of->in[1], 1);
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int l[MOST], x[MOST];
    widen(b, n * n, in[0] + p * n * n, l), widen(b, n * m, in[1] + p * n * m, x);
    for (int k = 0; k < 2; k++) solve(b, &(struct triangle_values){ l, n, k, k, false }, x, m);
    out[1][p] = missing_pivot(b, n, l);
    narrow(b, dtype_of(of->in[1]), n * m, kir_op2(b, KIR_NE, out[1][p], whole(b, 0)), x, out[0] + p * n * m);
  }
}

/* ---- LU ---- */

static int64_t cost_lu(const struct node *n) {
  int64_t m = axis_of(n->in[0], 1);
  return problems_of(n) * (m * (m - 1) / 2 * (5 + 2 * m) + m * m * m * 2 / 3 + 4 * m);
}

static void exchange(struct kir_builder *b, int is_it, int *x, int *y) {
  int was = *x;
  *x = either(b, is_it, *y, was), *y = either(b, is_it, was, *y);
}

/* Row k becomes the row from there on whose first element is the largest. */
static void find_pivot(struct kir_builder *b, int64_t n, int64_t k, int a[], int order[]) {
  int largest = kir_op1(b, KIR_ABS, a[k * n + k]), at = whole(b, k);
  for (int64_t i = k + 1; i < n; i++) {
    int size = kir_op1(b, KIR_ABS, a[i * n + k]), is_larger = kir_op2(b, KIR_LT, largest, size);
    largest = either(b, is_larger, size, largest), at = either(b, is_larger, whole(b, i), at);
  }
  for (int64_t i = k + 1; i < n; i++) {
    int is_it = equal(b, at, whole(b, i));
    for (int64_t j = 0; j < n; j++) exchange(b, is_it, &a[k * n + j], &a[i * n + j]);
    exchange(b, is_it, &order[k], &order[i]);
  }
}

static void lu(struct kir_builder *b, int64_t n, int a[], int order[], int *status) {
  *status = whole(b, 0);
  for (int64_t i = 0; i < n; i++) order[i] = whole(b, i);
  for (int64_t k = 0; k < n; k++) {
    find_pivot(b, n, k, a, order);
    int pivot = a[k * n + k], is_none = equal(b, pivot, number(b, 0));
    *status = noted(b, *status, kir_op2(b, KIR_OR, is_none, kir_op2(b, KIR_NE, pivot, pivot)), k + 1);
    pivot = either(b, is_none, number(b, 1), pivot);
    for (int64_t i = k + 1; i < n; i++) {
      int f = a[i * n + k] = kir_op2(b, KIR_DIV, a[i * n + k], pivot);
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] = take_off(b, a[i * n + j], f, a[k * n + j]);
    }
  }
}

static void write_lu(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[0], 1);
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int *a = out[0] + p * n * n;
    widen(b, n * n, in[0] + p * n * n, a);
    lu(b, n, a, out[1] + p * n, &out[2][p]);
  }
}

/* ---- systems by LU ---- */

static int64_t cost_solve(const struct node *n) { return 3 * cost_sides(n); }

/* Row i of y is row order[i] of x; is_back: row order[i] of y is row i of x. */
static void arrange(struct kir_builder *b, int64_t n, int64_t m, const int order[], bool is_back, const int x[], int y[]) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      int v = x[j];
      for (int64_t k = 1; k < n; k++)
        v = either(b, equal(b, order[is_back ? k : i], whole(b, is_back ? i : k)), x[k * m + j], v);
      y[i * m + j] = v;
    }
}

static void solve_lu(struct kir_builder *b, const int a[], int64_t n, bool is_turned, int x[], int64_t m) {
  for (int k = 0; k < 2; k++) solve(b, &(struct triangle_values){ a, n, is_turned, k, is_turned == k }, x, m);
}

static void write_solve(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[LU_A], 1), m = axis_of(of->in[LU_RIGHT], 1);
  bool is_turned = ((const struct turn_attr *)of->attr)->is_turned;
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int x[MOST], y[MOST];
    const int *order = in[LU_ORDER] + p * n, *a = in[LU_FACTORS] + p * n * n;
    widen(b, n * m, in[LU_RIGHT] + p * n * m, x);
    if (!is_turned) arrange(b, n, m, order, false, x, y);
    solve_lu(b, a, n, is_turned, is_turned ? x : y, m);
    if (is_turned) arrange(b, n, m, order, true, x, y);
    narrow(b, dtype_of(of->in[LU_RIGHT]), n * m, kir_op2(b, KIR_NE, in[LU_STATUS][p], whole(b, 0)), y, out[0] + p * n * m);
  }
}

static int64_t cost_inverse(const struct node *n) {
  int64_t m = axis_of(n->in[LU_A], 1);
  return problems_of(n) * (2 * m * m * m + 3 * m * m);
}

static void write_inverse(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[LU_A], 1), each = n * n;
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int x[MOST];
    for (int64_t i = 0; i < each; i++)
      x[i] = either(b, equal(b, in[LU_ORDER][p * n + i / n], whole(b, i % n)), number(b, 1), number(b, 0));
    solve_lu(b, in[LU_FACTORS] + p * each, n, false, x, n);
    narrow(b, dtype_of(of->in[LU_A]), each, kir_op2(b, KIR_NE, in[LU_STATUS][p], whole(b, 0)), x, out[0] + p * each);
  }
}

/* ---- determinants ---- */

static int64_t cost_determinant(const struct node *n) {
  int64_t m = axis_of(n->in[LU_A], 1);
  return problems_of(n) * (m * m + 7 * m);
}

/* An order is odd if an odd number of its pairs are exchanged. */
static int sign_of(struct kir_builder *b, const int order[], int64_t n) {
  int sign = number(b, 1);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i + 1; j < n; j++)
      sign = either(b, kir_op2(b, KIR_LT, order[j], order[i]), kir_op1(b, KIR_NEG, sign), sign);
  return sign;
}

static void write_determinant(struct kir_builder *b, const struct node *of, const int *const in[], int *const out[]) {
  int64_t n = axis_of(of->in[LU_A], 1);
  weft_dtype t = dtype_of(of->in[LU_A]);
  for (int64_t p = 0, all = problems_of(of); p < all; p++) {
    int sign = sign_of(b, in[LU_ORDER] + p * n, n), det = sign;
    for (int64_t i = 0; i < n; i++) {
      int pivot = in[LU_FACTORS][p * n * n + i * n + i], is_above = kir_op2(b, KIR_LT, number(b, 0), pivot);
      int or_below = either(b, kir_op2(b, KIR_LT, pivot, number(b, 0)), kir_op1(b, KIR_NEG, sign), pivot);
      out[1][p * n + i] = kir_op1(b, KIR_ABS, pivot);
      sign = either(b, is_above, sign, or_below), det = kir_op2(b, KIR_MUL, det, pivot);
    }
    out[0][p] = kir_cast(b, t, either(b, equal(b, sign, number(b, 0)), number(b, 0), sign));
    out[2][p] = kir_cast(b, t, det);
  }
}

const struct library_values values_cholesky = { cost_cholesky, write_cholesky };
const struct library_values values_triangle = { cost_sides, write_triangle };
const struct library_values values_cholesky_solve = { cost_cholesky_solve, write_cholesky_solve };
const struct library_values values_lu = { cost_lu, write_lu };
const struct library_values values_solve = { cost_solve, write_solve };
const struct library_values values_inverse = { cost_inverse, write_inverse };
const struct library_values values_determinant = { cost_determinant, write_determinant };
