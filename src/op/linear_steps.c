/* linear_steps.c -- factors and systems as library steps: elements become doubles, matrix.c computes with them, and results are
 * rounded once. Matrices of at most MATRIX_SMALL rows go through in groups, each a lane of vectors. Large ones are left to a LAPACK
 * where WEFT_BLAS asks for a library that has one. */
#include "op/linear.h"
#include <math.h>
#include <string.h>
#include "backend/blas.h"
#include "graph/dtype.h"
#include "op/matrix.h"

/* ---- in and out ---- */

static int64_t axis_of(const struct library_array *x, int from_end) { return x->dims[x->rank - from_end]; }
static int64_t *integers(const struct library_array *x, int64_t problem) {
  return (int64_t *)(void *)(x->data + problem * x->each);
}

/* Rows of m elements, each of them `step` doubles from the next; of 0 there may be no memory. order: row i is what stands at
 * order[i]; NULL: at i. */
static void load(const struct library_array *x, int64_t problem, const int64_t order[], double *to, int64_t step) {
  int64_t m = axis_of(x, 1), n = axis_of(x, 2);
  const float *f32 = (const void *)(x->data + problem * x->each);
  const double *f64 = (const void *)f32;
  for (int64_t i = 0; m && i < n; i++) {
    int64_t from = (order ? order[i] : i) * m;
    if (x->dtype == WEFT_F64 && step == 1) memcpy(to + i * m, f64 + from, (size_t)m * sizeof *to);
    else if (x->dtype == WEFT_F32) for (int64_t j = 0; j < m; j++) to[(i * m + j) * step] = f32[from + j];
    else for (int64_t j = 0; j < m; j++) to[(i * m + j) * step] = f64[from + j];
  }
}

/* order: row i goes to order[i]. */
static void store(const struct library_array *y, int64_t problem, const int64_t order[], const double *from, int64_t step) {
  int64_t m = axis_of(y, 1), n = axis_of(y, 2);
  float *f32 = (void *)(y->data + problem * y->each);
  double *f64 = (void *)f32;
  for (int64_t i = 0; m && i < n; i++) {
    int64_t to = (order ? order[i] : i) * m;
    if (y->dtype == WEFT_F64 && step == 1) memcpy(f64 + to, from + i * m, (size_t)m * sizeof *from);
    else if (y->dtype == WEFT_F32) for (int64_t j = 0; j < m; j++) f32[to + j] = (float)from[(i * m + j) * step];
    else for (int64_t j = 0; j < m; j++) f64[to + j] = from[(i * m + j) * step];
  }
}

/* A matrix as doubles: where it stands, if it is of f64, else what is loaded into the room. */
static const double *doubles(const struct library_array *x, int64_t problem, double *room) {
  const void *at = x->data + problem * x->each;
  if (x->dtype == WEFT_F64 && !((uintptr_t)at % sizeof(double))) return at;
  load(x, problem, NULL, room, 1);
  return room;
}

/* Where doubles become a result: where it will stand, if it is of f64, else in the room. Then it is finished. */
static double *begun(const struct library_array *y, int64_t problem, double *room) {
  return y->dtype == WEFT_F64 ? (double *)(void *)(y->data + problem * y->each) : room;
}
static void finish(const struct library_array *y, int64_t problem, const double *from) {
  if (y->dtype != WEFT_F64) store(y, problem, NULL, from, 1);
}

static void store_number(const struct library_array *y, int64_t problem, double x) {
  void *to = y->data + problem * y->each;
  if (y->dtype == WEFT_F32) *(float *)to = (float)x;
  else *(double *)to = x;
}

static void refuse(double *y, int64_t n, int64_t step) { for (int64_t i = 0; i < n; i++) y[i * step] = NAN; }

/* ---- groups ---- */

/* m: the columns of the right sides; 0: there are none. */
static bool is_small(int64_t n, int64_t m) { return n <= MATRIX_SMALL && m <= MATRIX_SMALL; }

/* Problems p .. that are computed together: one, or as many as there are lanes. Where the range ends, lanes repeat its last. */
struct matrix_group { int64_t p, end, lanes; };
static struct matrix_group group_at(int64_t p, int64_t to, bool small) {
  return (struct matrix_group){ p, to, small ? matrix_lanes() : 1 };
}
static int64_t problem_of(const struct matrix_group *g, int64_t lane) { return g->p + lane < g->end ? g->p + lane : g->end - 1; }

/* The group as it stands in memory; it has as many lanes as a vector. */
static struct matrix_memory memory_of(const struct library_array *x, const struct matrix_group *g) {
  int64_t bytes = (int64_t)weft_dtype_bytes(x->dtype), left = g->end - g->p;
  return (struct matrix_memory){ x->data + g->p * x->each, x->dtype == WEFT_F32, x->each / bytes, x->each / bytes,
                                 (int)(left < g->lanes ? left : g->lanes) };
}

static void load_group(const struct library_array *x, const struct matrix_group *g, const struct library_array *order, double *a) {
  struct matrix_memory m = memory_of(x, g);
  if (g->lanes > 1 && !order) { matrix_lanes_load(&m, a); return; }
  for (int64_t k = 0; k < g->lanes; k++) {
    int64_t p = problem_of(g, k);
    load(x, p, order ? integers(order, p) : NULL, a + k, g->lanes);
  }
}

static void store_group(const struct library_array *y, const struct matrix_group *g, const struct library_array *order,
                        const double *a) {
  struct matrix_memory m = memory_of(y, g);
  if (g->lanes > 1 && !order) { matrix_lanes_store(&m, a); return; }
  for (int64_t k = 0; k < g->lanes && g->p + k < g->end; k++)
    store(y, g->p + k, order ? integers(order, g->p + k) : NULL, a + k, g->lanes);
}

/* Whole numbers that lanes hold as doubles. */
static void store_whole(const struct library_array *y, const struct matrix_group *g, const double *a) {
  int64_t n = y->each / (int64_t)sizeof(int64_t);
  for (int64_t k = 0; k < g->lanes && g->p + k < g->end; k++)
    for (int64_t i = 0; i < n; i++) integers(y, g->p + k)[i] = (int64_t)a[i * g->lanes + k];
}

/* ---- by whom ---- */

/* Rows: who asks for a LAPACK gets it, and its bits, from here on. Times of ours over OpenBLAS's on Zen 4, of a Cholesky factor,
 * of a system with as many right sides and of one with one: 384 rows 0.80, 0.82, 0.94 on one thread and 0.86, 0.98, 0.66 on two;
 * 512 rows 0.86, 1.05, 0.90 and 1.10, 1.26, 0.76; 1024 rows 1.27, 1.22, 1.14 and 1.18, 1.81, 1.25. */
enum { LEAST_FOR_LAPACK = 512 };

static bool is_for_lapack(const struct library_call *c) {
  int64_t n = axis_of(&c->in[0], 1);
  return c->is_by_blas && n >= LEAST_FOR_LAPACK && n <= INT32_MAX && blas_has_factors();
}
static const char *by_lapack(const struct library_call *c) { return is_for_lapack(c) ? blas_name() : NULL; }

/* How a system is solved: in lanes; or, where threads are more than 0, by a LAPACK on so many; or here. */
struct matrix_way { bool is_small; int threads; };

static struct matrix_way way_of(const struct library_call *c, int64_t n, int64_t m) {
  return (struct matrix_way){ is_small(n, m), m > 1 && m <= INT32_MAX && is_for_lapack(c) ? c->threads : 0 };
}

static void solve(struct matrix_triangle t, bool is_turned, double *b, int64_t m, struct matrix_way way, double *room) {
  t.row = is_turned ? 1 : t.n, t.column = is_turned ? t.n : 1;
  if (way.is_small) matrix_lanes_solve(&t, b, m);
  else if (way.threads) blas_solve(&(struct blas_triangle){ t.a, t.n, m, is_turned, t.is_upper, t.is_unit }, b, way.threads);
  else matrix_solve(&t, b, m, room);
}

/* Doubles: of matrices [n, n] and [n, m], an order and a status, each as often as there are lanes. */
static size_t room_for(int64_t n, int64_t m) {
  size_t lanes = is_small(n, m) ? MATRIX_LANES : 1;
  return sizeof(double) * ((size_t)(n * n + n * m + n + 1) * lanes + MATRIX_ROOM);
}

static double n_of(const struct library_call *c) { return (double)axis_of(&c->in[0], 1); }
static double problems_of(const struct library_call *c) { return (double)c->n_problems; }

/* ---- Cholesky ---- */

static size_t scratch_square(const struct library_call *c) { return room_for(axis_of(&c->in[0], 1), 0); }
static double operations_cholesky(const struct library_call *c) { return problems_of(c) * (n_of(c) * n_of(c) * n_of(c) / 3 + 8); }

static void finish_cholesky(double *a, int64_t n, bool is_wrong) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = is_wrong ? 0 : i + 1; j < n; j++) a[i * n + j] = j > i ? 0 : NAN;
}

static void small_cholesky(const struct library_call *c, int64_t from, int64_t to, double *a) {
  struct matrix_group g = group_at(from, to, true);
  double status[MATRIX_LANES];
  for (; g.p < to; g.p += g.lanes) {
    load_group(&c->in[0], &g, NULL, a);
    matrix_lanes_cholesky(a, axis_of(&c->in[0], 1), status);
    store_group(&c->out[0], &g, NULL, a);
    store_whole(&c->out[1], &g, status);
  }
}

static struct failure *run_cholesky(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1);
  if (is_small(n, 0)) return small_cholesky(c, from, to, room), NULL;
  for (int64_t p = from; p < to; p++) {
    double *a = begun(&c->out[0], p, room);
    load(&c->in[0], p, NULL, a, 1);
    int64_t status = is_for_lapack(c) ? blas_cholesky(a, n, c->threads) : matrix_cholesky(a, n, (double *)room + n * n);
    finish_cholesky(a, n, status != 0);
    finish(&c->out[0], p, a);
    *integers(&c->out[1], p) = status;
  }
  return NULL;
}

const struct library steps_cholesky = { .core = 2, .operations = operations_cholesky, .scratch = scratch_square,
                                        .run = run_cholesky, .routine = "cholesky", .by = by_lapack, .values = &values_cholesky };

/* ---- triangles ---- */

static size_t scratch_sides(const struct library_call *c) { return room_for(axis_of(&c->in[0], 1), axis_of(&c->out[0], 1)); }
static double operations_sides(const struct library_call *c) {
  return problems_of(c) * (2 * n_of(c) * n_of(c) * (double)axis_of(&c->out[0], 1) + 8);
}

/* Solves systems with the matrices of in[0] and the right sides of in[1]: by `all` of the triangles a step has, in their order. */
typedef void triangles(const struct library_call *c, const double *a, double *b, struct matrix_way way, double *room);

/* is_unit: nobody looks at the diagonal. */
struct triangle_step { triangles *all; bool is_unit; };

/* The number, from 1, of the first element of the diagonal that is 0 or nan; 0: none. Elements are `step` doubles apart. */
static int64_t missing_pivot(const double *a, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; i++) if (!(fabs(a[i * (n + 1) * step]) > 0)) return i + 1;
  return 0;
}

static void all_small(const struct library_call *c, int64_t from, int64_t to, double *a, struct triangle_step s) {
  int64_t n = axis_of(&c->in[0], 1), m = axis_of(&c->in[1], 1);
  struct matrix_group g = group_at(from, to, true);
  double *b = a + n * n * g.lanes, status[MATRIX_LANES];
  for (; g.p < to; g.p += g.lanes) {
    load_group(&c->in[0], &g, NULL, a), load_group(&c->in[1], &g, NULL, b);
    s.all(c, a, b, way_of(c, n, m), b + n * m);
    for (int64_t k = 0; k < g.lanes; k++) {
      status[k] = s.is_unit ? 0 : (double)missing_pivot(a + k, n, g.lanes);
      if (status[k] != 0) refuse(b + k, n * m, g.lanes);
    }
    store_group(&c->out[0], &g, NULL, b), store_whole(&c->out[1], &g, status);
  }
}

static struct failure *solve_all(const struct library_call *c, int64_t from, int64_t to, double *room, struct triangle_step s) {
  int64_t n = axis_of(&c->in[0], 1), m = axis_of(&c->in[1], 1);
  struct matrix_way way = way_of(c, n, m);
  if (way.is_small) return all_small(c, from, to, room, s), NULL;
  for (int64_t p = from; p < to; p++) {
    double *b = begun(&c->out[0], p, room + n * n);
    const double *a = doubles(&c->in[0], p, room);
    load(&c->in[1], p, NULL, b, 1);
    int64_t status = s.is_unit ? 0 : missing_pivot(a, n, 1);
    if (status) refuse(b, n * m, 1);
    else s.all(c, a, b, way, room + n * n + n * m);
    finish(&c->out[0], p, b);
    *integers(&c->out[1], p) = status;
  }
  return NULL;
}

static void one_triangle(const struct library_call *c, const double *a, double *b, struct matrix_way way, double *room) {
  const struct triangle_attr *t = c->attr;
  struct matrix_triangle of = { .a = a, .n = axis_of(&c->in[0], 1), .is_upper = t->is_upper, .is_unit = t->is_unit };
  solve(of, false, b, axis_of(&c->in[1], 1), way, room);
}

static void factor_and_turned(const struct library_call *c, const double *l, double *b, struct matrix_way way, double *room) {
  for (int k = 0; k < 2; k++)
    solve((struct matrix_triangle){ .a = l, .n = axis_of(&c->in[0], 1), .is_upper = k }, k, b, axis_of(&c->in[1], 1), way, room);
}

static struct failure *run_triangle(const struct library_call *c, int64_t from, int64_t to, void *room) {
  bool is_unit = ((const struct triangle_attr *)c->attr)->is_unit;
  return solve_all(c, from, to, room, (struct triangle_step){ one_triangle, is_unit });
}

static struct failure *run_cholesky_solve(const struct library_call *c, int64_t from, int64_t to, void *room) {
  return solve_all(c, from, to, room, (struct triangle_step){ factor_and_turned, false });
}

static void triangle_numbers(const struct library_call *c, int64_t number[]) {
  const struct triangle_attr *t = c->attr;
  number[0] = t->is_upper, number[1] = t->is_unit;
}

const struct library steps_triangle = { .core = 2, .operations = operations_sides, .scratch = scratch_sides, .run = run_triangle,
                                        .routine = "triangle", .numbers = triangle_numbers, .by = by_lapack,
                                        .values = &values_triangle };
const struct library steps_cholesky_solve = { .core = 2, .operations = operations_sides, .scratch = scratch_sides,
                                              .run = run_cholesky_solve, .routine = "cholesky_solve", .by = by_lapack,
                                              .values = &values_cholesky_solve };

/* ---- LU ---- */

static double operations_lu(const struct library_call *c) { return problems_of(c) * (2 * n_of(c) * n_of(c) * n_of(c) / 3 + 8); }

static void small_lu(const struct library_call *c, int64_t from, int64_t to, double *a) {
  int64_t n = axis_of(&c->in[0], 1);
  struct matrix_group g = group_at(from, to, true);
  double status[MATRIX_LANES], *order = a + n * n * g.lanes;
  for (; g.p < to; g.p += g.lanes) {
    load_group(&c->in[0], &g, NULL, a);
    matrix_lanes_lu(a, n, order, status);
    store_group(&c->out[0], &g, NULL, a);
    store_whole(&c->out[1], &g, order), store_whole(&c->out[2], &g, status);
  }
}

static struct failure *run_lu(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1);
  if (is_small(n, 0)) return small_lu(c, from, to, room), NULL;
  for (int64_t p = from; p < to; p++) {
    double *a = (double *)(void *)(c->out[0].data + p * c->out[0].each);
    load(&c->in[0], p, NULL, a, 1);
    int64_t *order = integers(&c->out[1], p);
    *integers(&c->out[2], p) = is_for_lapack(c) ? blas_lu(a, n, order, room, c->threads) : matrix_lu(a, n, order, room);
  }
  return NULL;
}

const struct library steps_lu = { .core = 2, .operations = operations_lu, .scratch = scratch_square, .run = run_lu,
                                  .routine = "lu", .by = by_lapack, .values = &values_lu };

/* L U is a with its rows in order, so a x = b is L U x = b in that order; a' x = b is U' L' y = b, with x = y back in place. */
static void solve_lu(const double *lu, int64_t n, bool is_turned, double *b, int64_t m, struct matrix_way way, double *room) {
  for (int k = 0; k < 2; k++)
    solve((struct matrix_triangle){ .a = lu, .n = n, .is_upper = k, .is_unit = is_turned == k }, is_turned, b, m, way, room);
}

/* b holds right sides as they are to be solved, and becomes what solves them. */
static void solve_group(const struct library_call *c, const struct matrix_group *g, bool is_turned, double *b, int64_t m,
                        double *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  struct matrix_way way = way_of(c, n, m);
  const double *lu = (const void *)(c->in[LU_FACTORS].data + g->p * c->in[LU_FACTORS].each);
  if (way.is_small) load_group(&c->in[LU_FACTORS], g, NULL, room), lu = room;
  solve_lu(lu, n, is_turned, b, m, way, room);
  for (int64_t k = 0; k < g->lanes; k++)
    if (*integers(&c->in[LU_STATUS], problem_of(g, k))) refuse(b + k, n * m, g->lanes);
}

static struct failure *run_solve(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[LU_A], 1), m = axis_of(&c->in[LU_RIGHT], 1);
  bool is_turned = ((const struct turn_attr *)c->attr)->is_turned;
  struct matrix_group g = group_at(from, to, is_small(n, m));
  double *b = room;
  for (; g.p < to; g.p += g.lanes) {
    load_group(&c->in[LU_RIGHT], &g, is_turned ? NULL : &c->in[LU_ORDER], b);
    solve_group(c, &g, is_turned, b, m, b + n * m * g.lanes);
    store_group(&c->out[0], &g, is_turned ? &c->in[LU_ORDER] : NULL, b);
  }
  return NULL;
}

static void invert_group(const struct library_call *c, const struct matrix_group *g, double *b) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  for (int64_t k = 0; k < g->lanes; k++)
    for (int64_t i = 0, *order = integers(&c->in[LU_ORDER], problem_of(g, k)); i < n; i++)
      for (int64_t j = 0; j < n; j++) b[(i * n + j) * g->lanes + k] = order[i] == j;
  solve_group(c, g, false, b, n, b + n * n * g->lanes);
}

static struct failure *run_inverse(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  struct matrix_group g = group_at(from, to, is_small(n, n));
  for (; g.p < to; g.p += g.lanes) {
    invert_group(c, &g, room);
    store_group(&c->out[0], &g, NULL, room);
  }
  return NULL;
}

static void solve_numbers(const struct library_call *c, int64_t number[]) {
  number[0] = ((const struct turn_attr *)c->attr)->is_turned;
}

const struct library steps_solve = { .core = 2, .operations = operations_sides, .scratch = scratch_sides, .run = run_solve,
                                     .routine = "solve", .numbers = solve_numbers, .by = by_lapack, .values = &values_solve };
const struct library steps_inverse = { .core = 2, .operations = operations_sides, .scratch = scratch_sides, .run = run_inverse,
                                       .routine = "inverse", .by = by_lapack, .values = &values_inverse };

/* ---- determinants ---- */

static double operations_determinant(const struct library_call *c) { return problems_of(c) * (10 * n_of(c) + 8); }

/* An order is made of as many exchanges as it has elements more than rounds. `seen` is room for n. */
static double sign_of(const int64_t order[], int64_t n, double *seen) {
  double sign = 1;
  for (int64_t i = 0; i < n; i++) seen[i] = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = i; !seen[k]; k = order[k]) {
      seen[k] = 1;
      if (order[k] != i) sign = -sign;
    }
  return sign;
}

static size_t scratch_determinant(const struct library_call *c) { return sizeof(double) * (size_t)(axis_of(&c->in[0], 1) + 1); }

static double det_of(const struct library_call *c, int64_t p, double *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  const double *lu = (const void *)(c->in[LU_FACTORS].data + p * c->in[LU_FACTORS].each);
  double det = sign_of(integers(&c->in[LU_ORDER], p), n, room);
  for (int64_t i = 0; i < n; i++) det *= lu[i * n + i];
  return det;
}

static struct failure *run_determinant(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  for (int64_t p = from; p < to; p++) {
    const double *lu = (const void *)(c->in[LU_FACTORS].data + p * c->in[LU_FACTORS].each);
    double sign = sign_of(integers(&c->in[LU_ORDER], p), n, room), *size = (void *)(c->out[1].data + p * c->out[1].each);
    for (int64_t i = 0; i < n; i++) {
      double pivot = lu[i * n + i];
      size[i] = fabs(pivot);
      sign = pivot > 0 ? sign : pivot < 0 ? -sign : pivot;
    }
    store_number(&c->out[0], p, sign == 0 ? 0 : sign), store_number(&c->out[2], p, det_of(c, p, room));
  }
  return NULL;
}

const struct library steps_determinant = { .core = 2, .operations = operations_determinant, .scratch = scratch_determinant,
                                           .run = run_determinant, .routine = "determinant", .values = &values_determinant };

/* ---- adjugates ---- */

static size_t scratch_adjugate(const struct library_call *c) {
  int64_t n = axis_of(&c->in[0], 1);
  return room_for(n, n) + sizeof(double) * (size_t)(n * n + MATRIX_ADJUGATE * n);
}

/* The adjugate of a singular matrix p, to where its inverse would be. */
static void adjugate_alone(const struct library_call *c, int64_t p, double *to, int64_t step, double *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  load(&c->in[LU_A], p, NULL, room, 1);
  matrix_adjugate(room, n, to, step, room + n * n);
}

static struct failure *run_adjugate(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[LU_A], 1);
  struct matrix_group g = group_at(from, to, is_small(n, n));
  double *b = room, *rest = b + room_for(n, n) / sizeof *b;
  for (; g.p < to; g.p += g.lanes) {
    invert_group(c, &g, b);
    for (int64_t k = 0; k < g.lanes && g.p + k < to; k++) {
      double det = det_of(c, g.p + k, rest);
      if (*integers(&c->in[LU_STATUS], g.p + k)) adjugate_alone(c, g.p + k, b + k, g.lanes, rest);
      else for (int64_t i = 0; i < n * n; i++) b[i * g.lanes + k] *= det;
    }
    store_group(&c->out[0], &g, NULL, b);
  }
  return NULL;
}

const struct library steps_adjugate = { .core = 2, .operations = operations_sides, .scratch = scratch_adjugate,
                                        .run = run_adjugate, .routine = "adjugate" };

/* ---- derivatives of adjugates ---- */

static size_t scratch_cofactors(const struct library_call *c) {
  int64_t n = axis_of(&c->in[0], 1), k = c->n_in - 1;
  return sizeof(double) * (size_t)(n * n * (k + 2) + matrix_cofactors_room(n, (int)k));
}
static double operations_cofactors(const struct library_call *c) {
  double sets = (double)(1 << (c->n_in - 1));
  return problems_of(c) * (4 * (c->n_in + sets * c->n_in) * n_of(c) * n_of(c) * n_of(c) + 8);
}

static struct failure *run_cofactors(const struct library_call *c, int64_t from, int64_t to, void *room) {
  int64_t n = axis_of(&c->in[0], 1), k = c->n_in - 1;
  double *a = room, *e = a + n * n, *y = e + k * n * n;
  for (int64_t p = from; p < to; p++) {
    for (int i = 0; i <= k; i++) load(&c->in[i], p, NULL, a + i * n * n, 1);
    matrix_cofactors(a, e, (int)k, n, y, y + n * n);
    store(&c->out[0], p, NULL, y, 1);
  }
  return NULL;
}

const struct library steps_cofactors = { .core = 2, .operations = operations_cofactors, .scratch = scratch_cofactors,
                                         .run = run_cofactors, .routine = "cofactors" };
