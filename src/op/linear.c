/* linear.c -- systems of linear equations: Cholesky factors, triangular systems, LU with row exchanges, and what is made of them.
 *
 * Each is a library step on the last two axes; those in front are the batch. f32 is computed in f64 and rounded once, so results
 * are those of f64 but for that. A matrix that is singular, or not positive definite, gives nan; a second result says where: 0,
 * or the number, from 1, of the pivot that is 0 or of the leading minor that is not positive. Derivatives are composed. */
#include <math.h>
#include <string.h>
#include "op/composed.h"

/* ---- one matrix, in f64 ---- */

/* The lower triangle of a becomes that of L, L L' = a. Returns the minor that is not positive; 0: none. */
static int64_t factor_cholesky(double *a, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double s = a[i * n + j];
      for (int64_t k = 0; k < j; k++) s -= a[i * n + k] * a[j * n + k];
      if (i == j && !(s > 0)) return i + 1;
      a[i * n + j] = i == j ? sqrt(s) : s / a[j * n + j];
    }
  return 0;
}

static void exchange(double *a, double *b, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    double t = a[k];
    a[k] = b[k], b[k] = t;
  }
}

static int64_t largest_below(const double *a, int64_t n, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; i++)
    if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
  return best;
}

/* a becomes L, without its diagonal of ones, and U; the rows of b [n, m] move with those of a and have L's part taken off.
 * *sign: of the exchanges. Returns the pivot that is 0, or nan; 0: none. */
static int64_t factor_lu(double *a, int64_t n, double *b, int64_t m, double *sign) {
  int64_t singular = 0;
  *sign = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t p = largest_below(a, n, k);
    if (p != k) exchange(a + k * n, a + p * n, n), exchange(b + k * m, b + p * m, m), *sign = -*sign;
    double pivot = a[k * n + k];
    if (!singular && !(fabs(pivot) > 0)) singular = k + 1;
    for (int64_t i = k + 1; i < n && pivot != 0; i++) {
      double f = a[i * n + k] / pivot;
      a[i * n + k] = f;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= f * b[k * m + j];
    }
  }
  return singular;
}

static void solve_upper(const double *a, int64_t n, double *b, int64_t m, bool is_unit) {
  for (int64_t i = n - 1; i >= 0; i--) {
    for (int64_t k = i + 1; k < n; k++)
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= a[i * n + k] * b[k * m + j];
    for (int64_t j = 0; j < m && !is_unit; j++) b[i * m + j] /= a[i * n + i];
  }
}

static void solve_lower(const double *a, int64_t n, double *b, int64_t m, bool is_unit) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < i; k++)
      for (int64_t j = 0; j < m; j++) b[i * m + j] -= a[i * n + k] * b[k * m + j];
    for (int64_t j = 0; j < m && !is_unit; j++) b[i * m + j] /= a[i * n + i];
  }
}

/* ---- in and out ---- */

static int64_t axis_of(const struct library_array *x, int from_end) { return x->dims[x->rank - from_end]; }

static void load(const struct library_array *x, int64_t problem, double *to) {
  int64_t n = x->each / (int64_t)weft_dtype_bytes(x->dtype);
  const void *data = x->data + problem * x->each;
  for (int64_t i = 0; i < n; i++) to[i] = x->dtype == WEFT_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void store(const struct library_array *y, int64_t problem, const double *from) {
  int64_t n = y->each / (int64_t)weft_dtype_bytes(y->dtype);
  void *data = y->data + problem * y->each;
  for (int64_t i = 0; i < n; i++)
    if (y->dtype == WEFT_F32) ((float *)data)[i] = (float)from[i];
    else ((double *)data)[i] = from[i];
}

static void store_status(const struct library_array *y, int64_t problem, int64_t status) {
  memcpy(y->data + problem * y->each, &status, sizeof status);
}

static size_t scratch(const struct library_call *c) {
  int64_t n = axis_of(&c->in[0], 1), m = c->n_in > 1 ? axis_of(&c->in[1], 1) : 0;
  return sizeof(double) * (size_t)(n * n + n * m + 1);
}

static double operations(const struct library_call *c) {
  double n = (double)axis_of(&c->in[0], 1), m = c->n_in > 1 ? (double)axis_of(&c->in[1], 1) : 0;
  return (double)c->n_problems * (n * n * n + 2 * n * n * m + 8);
}

/* ---- the steps: in a[.., n, n], b[.., n, m] ---- */

/* out: L, with zeros above; status[..] */
static struct failure *run_cholesky(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1);
  double *a = room;
  for (int64_t p = from; p < to; p++) {
    load(&c->in[0], p, a);
    int64_t status = factor_cholesky(a, n);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++)
        if (status || j > i) a[i * n + j] = j > i ? 0 : NAN;
    store(&c->out[0], p, a);
    store_status(&c->out[1], p, status);
  }
  return NULL;
}

/* out: x, a x = b; status[..] */
static struct failure *run_solve(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1), m = axis_of(&c->in[1], 1);
  double *a = room, *b = a + n * n, sign;
  for (int64_t p = from; p < to; p++) {
    load(&c->in[0], p, a), load(&c->in[1], p, b);
    int64_t status = factor_lu(a, n, b, m, &sign);
    solve_upper(a, n, b, m, false);
    for (int64_t i = 0; status && i < n * m; i++) b[i] = NAN;
    store(&c->out[0], p, b);
    store_status(&c->out[1], p, status);
  }
  return NULL;
}

/* out: the sign of the determinant, the logarithm of its size, the determinant, all [..] */
static struct failure *run_determinant(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1);
  double *a = room, sign;
  for (int64_t p = from; p < to; p++) {
    load(&c->in[0], p, a);
    factor_lu(a, n, a, 0, &sign);
    double size = 0, det = sign;
    for (int64_t i = 0; i < n; i++) {
      double pivot = a[i * n + i];
      det *= pivot;
      size += log(fabs(pivot));
      sign = pivot > 0 ? sign : pivot < 0 ? -sign : pivot;
    }
    store(&c->out[0], p, &(double){ sign == 0 ? 0 : sign }), store(&c->out[1], p, &size), store(&c->out[2], p, &det);
  }
  return NULL;
}

/* attr: struct triangle_attr; out: x, t x = b, of a triangle of a */
struct triangle_attr { int64_t is_upper, is_unit; };
static struct failure *run_triangle(const struct library_call *c, int64_t from, int64_t to, void *room) {
  const struct triangle_attr *t = c->attr;
  int64_t n = axis_of(&c->in[0], 1), m = axis_of(&c->in[1], 1);
  double *a = room, *b = a + n * n;
  for (int64_t p = from; p < to; p++) {
    load(&c->in[0], p, a), load(&c->in[1], p, b);
    (t->is_upper ? solve_upper : solve_lower)(a, n, b, m, t->is_unit);
    store(&c->out[0], p, b);
  }
  return NULL;
}

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

static weft_dtype of_batch(const struct node *n, int k, int *rank, dim dims[]) {
  (void)k;
  *rank = n->in[0]->rank - 2;
  memcpy(dims, n->in[0]->dims, (size_t)*rank * sizeof *dims);
  return (weft_dtype)n->in[0]->dtype;
}

static weft_array *turned(weft_array *a) { return weft_moveaxis(a, -1, -2); }
static weft_array *apply(const struct op *op, int n, weft_array *const x[], const void *attr, size_t bytes, int n_out, int which) {
  struct node *in[2];
  weft_array *out[3];
  for (int k = 0; k < n; k++)
    if (!(in[k] = array_good_node(x[k]))) return nodes_release(k, in), x[k];
  library_apply(op, n, in, attr, bytes, n_out, out);
  nodes_release(n, in);
  return out[which];
}

static weft_array *lower_solve(weft_array *t, weft_array *b) {
  return apply(&op_triangle, 2, (weft_array *[]){ t, b }, &(struct triangle_attr){ 0, 0 }, sizeof(struct triangle_attr), 1, 0);
}
static weft_array *upper_solve(weft_array *t, weft_array *b) {
  return apply(&op_triangle, 2, (weft_array *[]){ t, b }, &(struct triangle_attr){ 1, 0 }, sizeof(struct triangle_attr), 1, 0);
}
static weft_array *lu_solve(weft_array *a, weft_array *b) { return apply(&op_solve, 2, (weft_array *[]){ a, b }, NULL, 0, 2, 0); }

/* The lower triangle, with half the diagonal. */
static weft_array *half_lower(weft_array *x) {
  return weft_mul(weft_add(weft_tril(x, 0), weft_tril(x, -1)), number_like(x, 0.5));
}

/* With L = chol(a): L^-1 da L^-T = M + M' for M = L^-1 dL, so dL = L half_lower(..). da is what stands in the lower triangle. */
static void cholesky_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (!dx[0]) return;
  weft_array *l = apply(&op_cholesky, 1, r->in, NULL, 0, 2, 0), *da = weft_add(weft_tril(dx[0], 0), turned(weft_tril(dx[0], -1)));
  dy[0] = weft_matmul(l, half_lower(turned(lower_solve(l, turned(lower_solve(l, da))))));
}

/* The transpose of it: S = L^-T half_lower(L' dL) L^-1, made symmetric; below the diagonal two elements are one. */
static void cholesky_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!is_wanted[0] || !dy[0]) return;
  weft_array *l = apply(&op_cholesky, 1, r->in, NULL, 0, 2, 0), *p = half_lower(weft_matmul(turned(l), weft_tril(dy[0], 0)));
  weft_array *s = upper_solve(turned(l), turned(upper_solve(turned(l), turned(p))));
  s = weft_mul(weft_add(s, turned(s)), number_like(s, 0.5));
  dx[0] = weft_add(weft_tril(s, 0), weft_tril(s, -1));
}

/* a x = b: a dx = db - da x. */
static void solve_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  weft_array *x = lu_solve(r->in[0], r->in[1]), *d = dx[0] ? weft_neg(weft_matmul(dx[0], x)) : NULL;
  if (dx[1]) d = d ? weft_add(d, dx[1]) : dx[1];
  if (d) dy[0] = lu_solve(r->in[0], d);
}

static void solve_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  if (!dy[0]) return;
  weft_array *db = lu_solve(turned(r->in[0]), dy[0]);
  if (is_wanted[0]) dx[0] = weft_neg(weft_matmul(db, turned(lu_solve(r->in[0], r->in[1]))));
  if (is_wanted[1]) dx[1] = db;
}

static weft_array *triangle_of(const struct rule *r, weft_array *x) {
  const struct triangle_attr *t = r->node->attr;
  return t->is_upper ? weft_triu(x, t->is_unit != 0) : weft_tril(x, -(t->is_unit != 0));
}

static weft_array *triangle_solve(const struct rule *r, bool is_turned, weft_array *b) {
  struct triangle_attr t = *(const struct triangle_attr *)r->node->attr;
  t.is_upper ^= is_turned;
  return apply(&op_triangle, 2, (weft_array *[]){ is_turned ? turned(r->in[0]) : r->in[0], b }, &t, sizeof t, 1, 0);
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

/* d log|det a| = trace(a^-1 da), d det a = det a times that. */
static void determinant_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (!dx[0]) return;
  weft_array *d = weft_squeeze(weft_sum(weft_diagonal(lu_solve(r->in[0], dx[0]), 0, -2, -1), -1), -1);
  dy[1] = d;
  dy[2] = weft_mul(d, apply(&op_determinant, 1, r->in, NULL, 0, 3, 2));
}

static void determinant_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *d = dy[1];
  if (dy[2]) {
    weft_array *by_det = weft_mul(dy[2], apply(&op_determinant, 1, r->in, NULL, 0, 3, 2));
    d = d ? weft_add(d, by_det) : by_det;
  }
  if (is_wanted[0] && d) dx[0] = weft_mul(as_matrix(d), turned(lu_solve(r->in[0], identity_like(r->in[0]))));
}

#define STEP(id, results_, type_)                                                                                        \
  static const struct library id##_steps = { .core = 2, .operations = operations, .scratch = scratch, .run = run_##id };     \
  static const struct many id##_results = { results_, type_, id##_vjp, id##_jvp, library_batch };                        \
  const struct op op_##id = { .name = #id, .kind = OP_LIBRARY, .many = &id##_results, .library = &id##_steps };
STEP(cholesky, two_results, like_last)
STEP(solve, two_results, like_last)
STEP(triangle, one_result, like_last)
STEP(determinant, three_results, of_batch)

/* ---- the public calls ---- */

static struct failure *square_check(const char *fn, const struct node *a) {
  struct shape_text s;
  if (dtype_is_complex(a->dtype)) return not_of(fn, (weft_dtype)a->dtype);
  if (a->rank >= 2 && sizes_meet(fn, a->dims[a->rank - 2], a->dims[a->rank - 1])) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: a square matrix, not %s", fn, shape_show(a, &s));
}

/* a as square matrices of f32 or f64. NULL: *bad. */
static weft_array *squares(const char *fn, weft_array *a, weft_array **bad) {
  struct node *n;
  if (!operands(fn, 1, &a, &n, bad)) return NULL;
  struct failure *why = square_check(fn, n);
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  return raised(array_of(n));
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
  nodes_release(2, n);
  if (why) return why;
  weft_dtype d = weft_dtype_promote(weft_dtype_of(*a), weft_dtype_of(*b));
  *a = array_broadcast(fn, weft_cast(*a, d), rank, batch[0]);
  *b = array_broadcast(fn, weft_cast(*b, d), rank, batch[1]);
  return NULL;
}

/* b [n] is one right side; else [.., n, m]. */
static weft_array *solved(const char *fn, const struct op *op, weft_array *a, weft_array *b, const void *attr, size_t bytes,
                          int n_out, int which) {
  weft_array *bad, *m = squares(fn, a, &bad);
  if (!m || !is_ordered(fn, b, &bad)) return bad;
  bool is_vector = weft_rank(b) == 1;
  weft_array *right = raised(is_vector ? weft_unsqueeze(b, -1) : b);
  if (weft_rank(m) < 0 || weft_rank(right) < 0) return weft_rank(m) < 0 ? m : right;
  struct failure *why = meet(fn, &m, &right);
  if (why) return array_failed(why);
  weft_array *y = apply(op, 2, (weft_array *[]){ m, right }, attr, bytes, n_out, which);
  if (which) return y;
  weft_dtype as = weft_dtype_promote(dtype_float(weft_dtype_of(a)), dtype_float(weft_dtype_of(b)));
  return weft_cast(is_vector ? weft_squeeze(y, -1) : y, as);
}

static weft_array *of_square(const char *fn, const struct op *op, weft_array *a, int n_out, int which) {
  weft_array *bad, *m = squares(fn, a, &bad);
  if (!m) return bad;
  weft_array *y = apply(op, 1, &m, NULL, 0, n_out, which);
  return weft_dtype_of(y) == WEFT_I64 ? y : lowered(y, a);
}

static weft_array *inverse(weft_array *a, int which) {
  weft_array *bad, *m = squares("weft_inverse", a, &bad);
  if (!m) return bad;
  weft_array *y = apply(&op_solve, 2, (weft_array *[]){ m, identity_like(m) }, NULL, 0, 2, which);
  return which ? y : lowered(y, a);
}

weft_array *weft_cholesky(weft_array *a) { return COMPOSED(of_square("weft_cholesky", &op_cholesky, a, 2, 0)); }
weft_array *weft_cholesky_status(weft_array *a) { return COMPOSED(of_square("weft_cholesky_status", &op_cholesky, a, 2, 1)); }
weft_array *weft_solve(weft_array *a, weft_array *b) { return COMPOSED(solved("weft_solve", &op_solve, a, b, NULL, 0, 2, 0)); }
weft_array *weft_inverse(weft_array *a) { return COMPOSED(inverse(a, 0)); }
weft_array *weft_inverse_status(weft_array *a) { return COMPOSED(inverse(a, 1)); }
weft_array *weft_det(weft_array *a) { return COMPOSED(of_square("weft_det", &op_determinant, a, 3, 2)); }

weft_array *weft_solve_triangular(weft_array *a, weft_array *b, int is_upper, int is_unit) {
  struct triangle_attr t = { is_upper != 0, is_unit != 0 };
  return COMPOSED(solved("weft_solve_triangular", &op_triangle, a, b, &t, sizeof t, 1, 0));
}

void weft_slogdet(weft_array *a, weft_array **sign, weft_array **logarithm) {
  *sign = COMPOSED(of_square("weft_slogdet", &op_determinant, a, 3, 0));
  *logarithm = COMPOSED(of_square("weft_slogdet", &op_determinant, a, 3, 1));
}
