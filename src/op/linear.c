/* linear.c -- systems of linear equations: Cholesky factors, triangular systems, LU with row exchanges, and what is made of them.
 *
 * Each is a library step on the last two axes; those in front are the batch. f32 is computed in f64 and rounded once, so results
 * are those of f64 but for that. A matrix that is singular, or not positive definite, gives nan; a status says where: 0, or the
 * number, from 1, of the pivot that is 0 or nan or of the leading minor that is not positive. The pivots of a triangle are its
 * diagonal. Derivatives are composed, of the same
 * factors: equal nodes are one, so a matrix is factored once for its inverse, its determinant, all its systems and their
 * derivatives. */
#include "op/linear.h"
#include <string.h>
#include "op/composed.h"
#include "op/matrix.h"

/* ---- rules ---- */

static int one_result(const struct node *n) { return (void)n, 1; }
static int two_results(const struct node *n) { return (void)n, 2; }
static int three_results(const struct node *n) { return (void)n, 3; }

/* Result 0 is like the last operand; a status is one of the batch. */
static weft_dtype like_last(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[n->n_in - 1];
  *rank = k ? x->rank - 2 : x->rank;
  memcpy(dims, x->dims, (size_t)*rank * sizeof *dims);
  return k ? WEFT_I64 : (weft_dtype)x->dtype;
}

static weft_dtype like_first(const struct node *n, int k, int *rank, dim dims[]) {
  (void)k;
  *rank = n->in[0]->rank;
  memcpy(dims, n->in[0]->dims, (size_t)*rank * sizeof *dims);
  return (weft_dtype)n->in[0]->dtype;
}

/* One of the batch; result 1 one of each row, of f64. */
static weft_dtype of_batch(const struct node *n, int k, int *rank, dim dims[]) {
  weft_dtype d = like_first(n, k, rank, dims);
  *rank -= k == 1 ? 1 : 2;
  return k == 1 ? WEFT_F64 : d;
}

/* Factors, an order of rows, a status. */
static weft_dtype of_factors(const struct node *n, int k, int *rank, dim dims[]) {
  like_first(n, k, rank, dims);
  *rank -= k;
  return k ? WEFT_I64 : WEFT_F64;
}

static weft_array *turned(weft_array *a) { return weft_moveaxis(a, -1, -2); }

static weft_array *factors(weft_array *a, int which) { return library_one(&op_lu, 1, &a, NULL, 0, 3, which); }

/* Result `which` of an op of a, its factors, their order and status, and perhaps right sides. */
static weft_array *by_factors(const struct op *op, weft_array *a, weft_array *b, const struct turn_attr *t, int n_out, int which) {
  weft_array *in[] = { a, factors(a, 0), factors(a, 1), factors(a, 2), b };
  return library_one(op, b ? 5 : 4, in, t, t ? sizeof *t : 0, n_out, which);
}

static weft_array *lu_solve(weft_array *a, weft_array *b, bool is_turned) {
  return by_factors(&op_solve, a, b, &(struct turn_attr){ is_turned }, 1, 0);
}
static weft_array *lu_inverse(weft_array *a) { return by_factors(&op_inverse, a, NULL, NULL, 1, 0); }

/* The solution, or the status. */
static weft_array *triangle(weft_array *t, weft_array *b, const struct triangle_attr *attr, int which) {
  return library_one(&op_triangle, 2, (weft_array *[]){ t, b }, attr, sizeof *attr, 2, which);
}
static weft_array *lower_solve(weft_array *t, weft_array *b) { return triangle(t, b, &(struct triangle_attr){ 0, 0 }, 0); }
static weft_array *upper_solve(weft_array *t, weft_array *b) { return triangle(t, b, &(struct triangle_attr){ 1, 0 }, 0); }
static weft_array *two_solves(weft_array *l, weft_array *b) {
  return library_one(&op_cholesky_solve, 2, (weft_array *[]){ l, b }, NULL, 0, 2, 0);
}
static weft_array *no_sides(weft_array *a) { return weft_slice(a, -1, 0, 0, 1); }

/* The lower triangle, with half the diagonal. */
static weft_array *half_lower(weft_array *x) {
  return weft_mul(weft_add(weft_tril(x, 0), weft_tril(x, -1)), number_like(x, 0.5));
}

/* With L = chol(a): L^-1 da L^-T = M + M' for M = L^-1 dL, so dL = L half_lower(..). da is what stands in the lower triangle. */
static void cholesky_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (!dx[0]) return;
  weft_array *l = library_one(&op_cholesky, 1, r->in, NULL, 0, 2, 0);
  weft_array *da = weft_add(weft_tril(dx[0], 0), turned(weft_tril(dx[0], -1)));
  dy[0] = weft_matmul(l, half_lower(turned(lower_solve(l, turned(lower_solve(l, da))))));
}

/* The transpose of it: S = L^-T half_lower(L' dL) L^-1, made symmetric; below the diagonal two elements are one. */
static void cholesky_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!is_wanted[0] || !dy[0]) return;
  weft_array *l = library_one(&op_cholesky, 1, r->in, NULL, 0, 2, 0), *p = half_lower(weft_matmul(turned(l), weft_tril(dy[0], 0)));
  weft_array *s = upper_solve(turned(l), turned(upper_solve(turned(l), turned(p))));
  s = weft_mul(weft_add(s, turned(s)), number_like(s, 0.5));
  dx[0] = weft_add(weft_tril(s, 0), weft_tril(s, -1));
}

/* Derivatives go by the matrix, past its factors. */
static void lu_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  (void)r, (void)is_wanted, (void)dy, (void)dx;
}
static void lu_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) { (void)r, (void)dx, (void)dy; }

static weft_array *turned_if(weft_array *a, bool is_turned) { return is_turned ? turned(a) : a; }

/* a x = b: a dx = db - da x. */
static void solve_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  weft_array *a = r->in[LU_A], *d = dx[LU_RIGHT];
  bool t = ((const struct turn_attr *)r->node->attr)->is_turned;
  if (dx[LU_A]) {
    weft_array *x = lu_solve(a, r->in[LU_RIGHT], t), *by_a = weft_neg(weft_matmul(turned_if(dx[LU_A], t), x));
    d = d ? weft_add(d, by_a) : by_a;
  }
  if (d) dy[0] = lu_solve(a, d, t);
}

static void solve_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  bool t = ((const struct turn_attr *)r->node->attr)->is_turned;
  if (!dy[0]) return;
  weft_array *db = lu_solve(r->in[LU_A], dy[0], !t), *x;
  if (is_wanted[LU_A]) {
    x = lu_solve(r->in[LU_A], r->in[LU_RIGHT], t);
    dx[LU_A] = weft_neg(turned_if(weft_matmul(db, turned(x)), t));
  }
  if (is_wanted[LU_RIGHT]) dx[LU_RIGHT] = db;
}

/* y = a^-1: dy = -y da y. */
static void inverse_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (!dx[LU_A]) return;
  weft_array *y = lu_inverse(r->in[LU_A]);
  dy[0] = weft_neg(weft_matmul(weft_matmul(y, dx[LU_A]), y));
}

static void inverse_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!dy[0] || !is_wanted[LU_A]) return;
  weft_array *y = turned(lu_inverse(r->in[LU_A]));
  dx[LU_A] = weft_neg(weft_matmul(weft_matmul(y, dy[0]), y));
}

/* l l' x = b: l l' dx = db - dl l' x - l dl' x. */
static void cholesky_solve_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  weft_array *l = weft_tril(r->in[0], 0), *d = dx[1];
  if (dx[0]) {
    weft_array *x = two_solves(l, r->in[1]), *dl = weft_tril(dx[0], 0);
    weft_array *sum = weft_add(weft_matmul(dl, weft_matmul(turned(l), x)), weft_matmul(l, weft_matmul(turned(dl), x)));
    d = d ? weft_sub(d, sum) : weft_neg(sum);
  }
  if (d) dy[0] = two_solves(l, d);
}

/* -(db x' + x db') l, of its lower triangle. */
static void cholesky_solve_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!dy[0]) return;
  weft_array *l = weft_tril(r->in[0], 0), *db = two_solves(l, dy[0]), *x = two_solves(l, r->in[1]);
  weft_array *both = weft_add(weft_matmul(db, weft_matmul(turned(x), l)), weft_matmul(x, weft_matmul(turned(db), l)));
  if (is_wanted[0]) dx[0] = weft_neg(weft_tril(both, 0));
  if (is_wanted[1]) dx[1] = db;
}

static weft_array *triangle_of(const struct rule *r, weft_array *x) {
  const struct triangle_attr *t = r->node->attr;
  return t->is_upper ? weft_triu(x, t->is_unit != 0) : weft_tril(x, -(t->is_unit != 0));
}

static weft_array *triangle_solve(const struct rule *r, bool is_turned, weft_array *b) {
  struct triangle_attr t = *(const struct triangle_attr *)r->node->attr;
  t.is_upper ^= is_turned;
  return triangle(turned_if(r->in[0], is_turned), b, &t, 0);
}

static void triangle_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  weft_array *x = triangle_solve(r, false, r->in[1]), *d = dx[0] ? weft_neg(weft_matmul(triangle_of(r, dx[0]), x)) : NULL;
  if (dx[1]) d = d ? weft_add(d, dx[1]) : dx[1];
  if (d) dy[0] = triangle_solve(r, false, d);
}

static void triangle_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!dy[0]) return;
  weft_array *db = triangle_solve(r, true, dy[0]);
  if (is_wanted[0]) dx[0] = weft_neg(triangle_of(r, weft_matmul(db, turned(triangle_solve(r, false, r->in[1])))));
  if (is_wanted[1]) dx[1] = db;
}

static weft_array *as_matrix(weft_array *x) { return weft_unsqueeze(weft_unsqueeze(x, -1), -1); }

static weft_array *determinant(weft_array *a, int which) { return by_factors(&op_determinant, a, NULL, NULL, 3, which); }

static weft_array *adjugate(weft_array *a) { return by_factors(&op_adjugate, a, NULL, NULL, 1, 0); }

/* trace(x y), of matrices: [.., n, n] x [.., n, n] -> [..]. */
static weft_array *trace_of_product(weft_array *x, weft_array *y) {
  weft_array *rows = weft_sum(weft_mul(turned(x), y), -1);
  return weft_squeeze(weft_squeeze(weft_sum(rows, -2), -1), -1);
}

/* d det a = trace(adj a da): that is finite where det a is 0. Sizes of pivots have their derivative in log_size. */
static void determinant_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[LU_A]) dy[2] = trace_of_product(adjugate(r->in[LU_A]), dx[LU_A]);
}

static void determinant_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (is_wanted[LU_A] && dy[2]) dx[LU_A] = weft_mul(as_matrix(dy[2]), turned(adjugate(r->in[LU_A])));
}

/* d log|det a| = trace(a^-1 da). */
static int log_size_jvp(void *ctx, weft_array *const x[], weft_array *const dx[], weft_array *dy[]) {
  return (void)ctx, dy[0] = trace_of_product(lu_inverse(x[0]), dx[0]), 0;
}

static int log_size_vjp(void *ctx, weft_array *const x[], weft_array *const y[], weft_array *const dy[], weft_array *dx[]) {
  return (void)ctx, (void)y, dx[0] = weft_mul(as_matrix(dy[0]), turned(lu_inverse(x[0]))), 0;
}

/* log|det a|: the sum of the logarithms of its pivots, in kernels like all others. */
static weft_array *log_size(weft_array *a) {
  static const weft_rules rules = { .vjp = log_size_vjp, .jvp = log_size_jvp };
  weft_array *y = weft_cast(weft_squeeze(weft_sum(weft_log(determinant(a, 1)), -1), -1), weft_dtype_of(a));
  return weft_custom(1, &a, 1, &y, &rules), y;
}

/* The derivative of adj a in directions e_1 .. e_k, wherever a is. With one direction more it is the derivative of it. */
static weft_array *cofactors(weft_array *a, int k, weft_array *const e[]) {
  weft_array *in[1 + MATRIX_DIRECTIONS] = { a };
  if (k > MATRIX_DIRECTIONS)
    return array_failed(fail(WEFT_ERR_ARG, scope_origin(), "weft_det: a derivative of order %d; %d at most", k + 1,
                             MATRIX_DIRECTIONS + 1));
  for (int i = 0; i < k; i++) in[1 + i] = e[i];
  return library_one(&op_cofactors, 1 + k, in, NULL, 0, 1, 0);
}

static void adjugate_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[LU_A]) dy[0] = cofactors(r->in[LU_A], 1, &dx[LU_A]);
}

/* trace(e_0 (derivative of adj a in e_1 .. e_k)) is the derivative of det a in all of them, whatever their order. */
static void adjugate_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!dy[0] || !is_wanted[LU_A]) return;
  weft_array *e = turned(dy[0]);
  dx[LU_A] = turned(cofactors(r->in[LU_A], 1, &e));
}

/* The same with d as another direction of the k there are, in place of one of them; of none: k. */
static weft_array *cofactors_with(const struct rule *r, weft_array *d, int in_place_of) {
  weft_array *e[1 + MATRIX_DIRECTIONS];
  int k = r->node->n_in - 1;
  for (int i = 0; i < k; i++) e[i] = i == in_place_of ? d : r->in[1 + i];
  e[k] = d;
  return cofactors(r->in[0], k + (in_place_of == k), e);
}

static void cofactors_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  int k = r->node->n_in - 1;
  for (int i = 0; i <= k; i++) {
    if (!dx[i]) continue;
    weft_array *d = cofactors_with(r, dx[i], i ? i - 1 : k);
    dy[0] = dy[0] ? weft_add(dy[0], d) : d;
  }
}

static void cofactors_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  int k = r->node->n_in - 1;
  for (int i = 0; i <= k && dy[0]; i++)
    if (is_wanted[i]) dx[i] = turned(cofactors_with(r, turned(dy[0]), i ? i - 1 : k));
}

#define STEP(id, results_, type_)                                                                 \
  static const struct many id##_results = { results_, type_, id##_vjp, id##_jvp, library_batch }; \
  const struct op op_##id = { .name = #id, .kind = OP_LIBRARY, .again = library_again,            \
                              .many = &id##_results, .library = &steps_##id };
STEP(cholesky, two_results, like_last)
STEP(cholesky_solve, two_results, like_last)
STEP(triangle, two_results, like_last)
STEP(lu, three_results, of_factors)
STEP(solve, one_result, like_last)
STEP(inverse, one_result, like_first)
STEP(determinant, three_results, of_batch)
STEP(adjugate, one_result, like_first)
STEP(cofactors, one_result, like_first)

/* ---- the public calls ---- */

/* a as square matrices of f32, f64, c64 or c128. NULL: *bad. */
static weft_array *squares(const char *fn, weft_array *a, weft_array **bad) {
  struct node *n;
  if (!operands(fn, 1, &a, &n, bad)) return NULL;
  struct failure *why = square_check(fn, n);
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  dim rows = n->dims[n->rank - 2];
  return raised(array_with_size(array_of(n), -1, rows));
}

/* The right sides [.., n, m] and matrices in one batch and one dtype. */
static struct failure *meet(const char *fn, weft_array **a, weft_array **b) {
  struct node *n[] = { array_node(*a), array_node(*b) };
  struct shape_text s, t;
  dim dims[WEFT_RANK_MAX], batch[2][WEFT_RANK_MAX];
  int rank = 0, at = 0;
  struct failure *why = NULL;
  bool fits = n[1]->rank >= 2 && sizes_meet(fn, n[1]->dims[n[1]->rank - 2], n[0]->dims[n[0]->rank - 1]);
  if (!fits) why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s and %s", fn, shape_show(n[0], &s), shape_show(n[1], &t));
  int most = n[0]->rank > n[1]->rank ? n[0]->rank : n[1]->rank;
  for (at = 0; !why && at < most - 2; at++) {
    dim d[2];
    for (int k = 0; k < 2; k++) d[k] = at < most - n[k]->rank ? 1 : n[k]->dims[at - (most - n[k]->rank)];
    if (d[0] != 1 && d[1] != 1 && !sizes_meet(fn, d[0], d[1]))
      why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s and %s", fn, shape_show(n[0], &s), shape_show(n[1], &t));
    dims[at] = d[0] == 1 ? d[1] : d[0];
  }
  rank = most;
  for (int k = 0; !why && k < 2; k++) {
    memcpy(batch[k], dims, sizeof dims);
    batch[k][rank - 2] = n[k]->dims[n[k]->rank - 2], batch[k][rank - 1] = n[k]->dims[n[k]->rank - 1];
  }
  if (!why) batch[1][rank - 2] = n[0]->dims[n[0]->rank - 1], *b = array_with_size(*b, -2, batch[1][rank - 2]);
  nodes_release(2, n);
  if (why) return why;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(*a), weft_dtype_of(*b));
  *a = array_broadcast(fn, weft_cast(*a, d), rank, batch[0]);
  *b = array_broadcast(fn, weft_cast(*b, d), rank, batch[1]);
  return NULL;
}

static weft_array *real_solved(enum system system, weft_array *a, weft_array *b, bool is_upper, bool is_unit) {
  switch (system) {
    case BY_LU: return lu_solve(a, b, false);
    case BY_TRIANGLE: return triangle(a, b, &(struct triangle_attr){ is_upper, is_unit }, 0);
    case BY_CHOLESKY: return two_solves(a, b);
  }
  return b;
}

/* b [n] is one right side; else [.., n, m]. */
static weft_array *solved(const char *fn, enum system system, weft_array *a, weft_array *b, bool is_upper, bool is_unit) {
  weft_array *bad, *m = squares(fn, a, &bad);
  if (!m || !arrays_ok(fn, 1, &b, &bad)) return bad;
  bool is_vector = weft_rank(b) == 1;
  weft_array *right = raised(is_vector ? weft_unsqueeze(b, -1) : b);
  if (weft_rank(m) < 0 || weft_rank(right) < 0) return weft_rank(m) < 0 ? m : right;
  struct failure *why = meet(fn, &m, &right);
  if (why) return array_failed(why);
  bool is_complex = dtype_is_complex(weft_dtype_of(m));
  weft_array *y = (is_complex ? complex_solved : real_solved)(system, m, right, is_upper, is_unit);
  weft_dtype as = weft_dtype_promote(dtype_float(weft_dtype_of(a)), dtype_float(weft_dtype_of(b)));
  return weft_cast(is_vector ? weft_squeeze(y, -1) : y, as);
}

static weft_array *of_square(const char *fn, weft_array *a, enum square_result which) {
  weft_array *bad, *m = squares(fn, a, &bad), *y = NULL;
  if (!m) return bad;
  if (dtype_is_complex(weft_dtype_of(m))) return complex_of_square(m, which);
  switch (which) {
    case CHOLESKY: case CHOLESKY_STATUS: y = library_one(&op_cholesky, 1, &m, NULL, 0, 2, which - CHOLESKY); break;
    case INVERSE: y = lu_inverse(m); break;
    case LU_SINGULAR: y = factors(m, 2); break;
    case TRIANGLE_SINGULAR: y = triangle(m, no_sides(m), &(struct triangle_attr){ 0, 0 }, 1); break;
    case LOG_SIZE: y = log_size(m); break;
    case SIGN: case DETERMINANT: y = determinant(m, which - SIGN); break;
  }
  return weft_dtype_of(y) == WEFT_I64 ? y : lowered(y, a);
}

weft_array *weft_cholesky(weft_array *a) { return COMPOSED(of_square("weft_cholesky", a, CHOLESKY)); }
weft_array *weft_cholesky_status(weft_array *a) { return COMPOSED(of_square("weft_cholesky_status", a, CHOLESKY_STATUS)); }
weft_array *weft_cholesky_solve(weft_array *l, weft_array *b) {
  return COMPOSED(solved("weft_cholesky_solve", BY_CHOLESKY, l, b, false, false));
}
weft_array *weft_solve(weft_array *a, weft_array *b) { return COMPOSED(solved("weft_solve", BY_LU, a, b, false, false)); }
weft_array *weft_inverse(weft_array *a) { return COMPOSED(of_square("weft_inverse", a, INVERSE)); }
weft_array *weft_inverse_status(weft_array *a) { return COMPOSED(of_square("weft_inverse_status", a, LU_SINGULAR)); }
weft_array *weft_det(weft_array *a) { return COMPOSED(of_square("weft_det", a, DETERMINANT)); }

weft_array *weft_solve_triangular(weft_array *a, weft_array *b, int is_upper, int is_unit) {
  return COMPOSED(solved("weft_solve_triangular", BY_TRIANGLE, a, b, is_upper != 0, is_unit != 0));
}

weft_array *weft_solve_triangular_status(weft_array *a) {
  return COMPOSED(of_square("weft_solve_triangular_status", a, TRIANGLE_SINGULAR));
}

void weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm) {
  if (!has_places("weft_slogdet", 2, (weft_array **[]){ sign, logarithm })) return;
  *sign = COMPOSED(of_square("weft_slogdet", a, SIGN));
  *logarithm = COMPOSED(of_square("weft_slogdet", a, LOG_SIZE));
}
