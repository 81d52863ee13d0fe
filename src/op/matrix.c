/* matrix.c -- factors of matrices and systems with them: see matrix.h.
 *
 * A large matrix goes block by block: the columns of a block are eliminated among themselves, then what they take off all that is
 * right of them is one product. So nearly all of the work is products, from registers. */
#include "op/matrix.h"
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef __clang__
#pragma GCC optimize("O3", "no-math-errno") /* roots of all lanes at once */
#endif

/* c -= a b: [m, k] x [k, n], k at most MATRIX_BLOCK; the rows of c are neighbours. is_lower: nobody reads c above its diagonal. */
struct taking {
  double *c;
  int64_t c_row;
  const double *a;
  int64_t a_row, a_column;
  const double *b;
  int64_t b_row, b_column, m, n, k;
  bool is_lower;
  double *room;
};

struct loops {
  int lanes;
  void (*take_row)(double *y, const double *x, double f, int64_t n);
  double (*dot)(const double *x, const double *y, int64_t n);
  void (*take)(const struct taking *);
  void (*solve_block)(const struct matrix_triangle *, const struct taking *, double *b);
  void (*cholesky_rows)(double *a, int64_t n, int64_t from, int64_t to, int64_t first, int64_t rows, double *room);
  void (*lanes_load)(const struct matrix_memory *, double *to);
  void (*lanes_store)(const struct matrix_memory *, const double *from);
  void (*lanes_cholesky)(double *a, int64_t n, double status[]);
  void (*lanes_lu)(double *a, int64_t n, double *order, double status[]);
  void (*lanes_solve)(const struct matrix_triangle *, double *b, int64_t m);
};

/* Arrays of vectors are only local: no vector is passed or returned but by what is always inline, so there is no convention to
 * depend on. */
#define LOOPS "op/matrix_loops.h"
#define LANE_BYTES 8
#include "op/lanes.h"

static const struct loops *here(void) { return HERE(loops); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- systems ---- */

/* One right side: by rows of the matrix where they stand side by side, else by columns. */
static void solve_one(const struct loops *l, const struct matrix_triangle *t, double *b) {
  for (int64_t step = 0; step < t->n; step++) {
    int64_t i = t->is_upper ? t->n - 1 - step : step, from = t->is_upper ? i + 1 : 0, n = t->is_upper ? t->n - i - 1 : i;
    const double *row = t->a + i * t->row;
    if (t->column == 1) b[i] -= l->dot(row + from, b + from, n);
    if (!t->is_unit) b[i] /= row[i * t->column];
    if (t->column == 1) continue;
    int64_t rest = t->is_upper ? 0 : i + 1, n_rest = t->is_upper ? i : t->n - i - 1;
    l->take_row(b + rest, t->a + rest + i * t->column, b[i], n_rest);
  }
}

void matrix_solve(const struct matrix_triangle *t, double *b, int64_t m, double *room) {
  const struct loops *l = here();
  if (m == 1) { solve_one(l, t, b); return; }
  for (int64_t done = 0; done < t->n && m > 0; done += MATRIX_BLOCK) {
    int64_t rows = least(MATRIX_BLOCK, t->n - done), from = t->is_upper ? t->n - done - rows : done;
    int64_t rest = t->is_upper ? 0 : from + rows, n_rest = t->is_upper ? from : t->n - rest;
    struct matrix_triangle block = *t;
    block.a += from * (t->row + t->column), block.n = rows;
    l->solve_block(&block, &(struct taking){ .c = b + rest * m, .c_row = m, .a = t->a + rest * t->row + from * t->column,
                                             .a_row = t->row, .a_column = t->column, .b = b + from * m, .b_row = m, .b_column = 1,
                                             .m = n_rest, .n = m, .k = rows, .room = room }, b + from * m);
  }
}

/* ---- factors ---- */

/* Rows and columns from .. to - 1 of L, some rows at a time: first the columns before them, then their corner. What columns before
 * `from` take off is taken off. */
static int64_t cholesky_corner(const struct loops *l, double *a, int64_t n, int64_t from, int64_t to, double *room) {
  for (int64_t at = from, end; at < to; at = end) {
    end = least(at + l->lanes, to);
    if (at > from) l->cholesky_rows(a, n, from, at, at, end - at, room);
    for (int64_t i = at; i < end; i++)
      for (int64_t j = at; j <= i; j++) {
        double s = a[i * n + j] - l->dot(a + i * n + from, a + j * n + from, j - from);
        if (i == j && !(s > 0)) return i + 1;
        a[i * n + j] = i == j ? sqrt(s) : s / a[j * n + j];
      }
  }
  return 0;
}

int64_t matrix_cholesky(double *a, int64_t n, double *room) {
  const struct loops *l = here();
  int64_t status = 0;
  for (int64_t from = 0, to; from < n && !status; from = to) {
    to = least(from + MATRIX_BLOCK, n);
    status = cholesky_corner(l, a, n, from, to, room);
    for (int64_t at = to; at < n && !status; at += l->lanes) l->cholesky_rows(a, n, from, to, at, least(l->lanes, n - at), room);
    const double *below = a + to * n + from;
    if (!status)
      l->take(&(struct taking){ .c = a + to * n + to, .c_row = n, .a = below, .a_row = n, .a_column = 1, .b = below, .b_row = 1,
                                .b_column = n, .m = n - to, .n = n - to, .k = to - from, .is_lower = true, .room = room });
  }
  return status;
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

/* Columns from .. to - 1; rows are exchanged as a whole. */
static int64_t lu_columns(const struct loops *l, double *a, int64_t n, int64_t from, int64_t to, int64_t order[]) {
  int64_t status = 0;
  for (int64_t k = from; k < to; k++) {
    int64_t p = largest_below(a, n, k), was = order[k];
    if (p != k) exchange(a + k * n, a + p * n, n), order[k] = order[p], order[p] = was;
    double pivot = a[k * n + k];
    if (!status && !(fabs(pivot) > 0)) status = k + 1;
    for (int64_t i = k + 1; i < n && pivot != 0; i++) {
      a[i * n + k] /= pivot;
      l->take_row(a + i * n + k + 1, a + k * n + k + 1, a[i * n + k], to - k - 1);
    }
  }
  return status;
}

int64_t matrix_lu(double *a, int64_t n, int64_t order[], double *room) {
  const struct loops *l = here();
  int64_t status = 0;
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t from = 0, to; from < n; from = to) {
    to = least(from + MATRIX_BLOCK, n);
    int64_t found = lu_columns(l, a, n, from, to, order), rest = n - to;
    if (!status) status = found;
    for (int64_t i = from; i < to; i++)
      for (int64_t k = from; k < i; k++) l->take_row(a + i * n + to, a + k * n + to, a[i * n + k], rest);
    l->take(&(struct taking){ .c = a + to * n + to, .c_row = n, .a = a + to * n + from, .a_row = n, .a_column = 1,
                              .b = a + from * n + to, .b_row = n, .b_column = 1, .m = rest, .n = rest, .k = to - from,
                              .room = room });
  }
  return status;
}

/* ---- a singular matrix ---- */

/* Rows and columns of a [n, n] in another order: row i was row[i], column j was column[j]. */
struct arrangement { double *a, *row, *column; int64_t n; double sign; };

/* Brings the largest of what is left from k, k on there, and returns it. */
static double bring_largest(struct arrangement *m, int64_t k) {
  int64_t n = m->n, row = k, column = k;
  for (int64_t i = k; i < n; i++)
    for (int64_t j = k; j < n; j++)
      if (fabs(m->a[i * n + j]) > fabs(m->a[row * n + column])) row = i, column = j;
  if (row != k) exchange(m->a + row * n, m->a + k * n, n), exchange(m->row + row, m->row + k, 1), m->sign = -m->sign;
  if (column != k) {
    for (int64_t i = 0; i < n; i++) exchange(m->a + i * n + column, m->a + i * n + k, 1);
    exchange(m->column + column, m->column + k, 1);
    m->sign = -m->sign;
  }
  return m->a[k * n + k];
}

/* With the largest element as pivot, P a Q = L U, and only the last pivot is 0 if the rank is n - 1. Then
 * adj U = u_1 .. u_n-1 x e', U x = 0, and adj a = det P det Q  Q (adj U) L^-1 P, where e' L^-1 = y' for y' L = e'. Of a smaller
 * rank it is 0. */
void matrix_adjugate(double *a, int64_t n, double *to, int64_t step, double *room) {
  struct arrangement m = { a, room, room + n, n, 1 };
  double *x = room + 2 * n, *y = room + 3 * n, size = 1;
  for (int64_t i = 0; i < n * n; i++) size += a[i] * 0; /* nan of what is not finite */
  for (int64_t i = 0; i < n; i++) m.row[i] = m.column[i] = (double)i, x[i] = y[i] = i == n - 1;
  for (int64_t k = 0; k < n - 1; k++) {
    double pivot = bring_largest(&m, k);
    size *= pivot;
    for (int64_t i = k + 1; i < n && pivot != 0; i++) {
      a[i * n + k] /= pivot;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  }
  for (int64_t i = n - 2; i >= 0 && size != 0; i--) {
    for (int64_t j = i + 1; j < n; j++) x[i] -= a[i * n + j] * x[j], y[i] -= a[j * n + i] * y[j];
    x[i] /= a[i * n + i];
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) to[((int64_t)m.column[i] * n + (int64_t)m.row[j]) * step] = m.sign * size * x[i] * y[j];
}

/* ---- lanes ---- */

int matrix_lanes(void) { return here()->lanes; }
void matrix_lanes_load(const struct matrix_memory *m, double *to) { here()->lanes_load(m, to); }
void matrix_lanes_store(const struct matrix_memory *m, const double *from) { here()->lanes_store(m, from); }
void matrix_lanes_cholesky(double *a, int64_t n, double status[]) { here()->lanes_cholesky(a, n, status); }
void matrix_lanes_lu(double *a, int64_t n, double *order, double status[]) { here()->lanes_lu(a, n, order, status); }
void matrix_lanes_solve(const struct matrix_triangle *t, double *b, int64_t m) { here()->lanes_solve(t, b, m); }
