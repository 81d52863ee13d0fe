/* cofactors.c -- the derivative of order k of the adjugate of a matrix, in k directions, wherever the matrix is: singular too.
 *
 * With the largest element as pivot, a = P' L D R Q', L and R triangles with ones on their diagonal. In directions e = P' L f R Q'
 * the derivative is det P det Q  Q R^-1 y L^-1 P, of y that of the adjugate of the diagonal D in directions f. That is a sum over
 * sets S of directions, adj = det x inverse:
 *   inverse_S = - sum_{i in S} D^-1 f_i inverse_{S - i},
 *   det_S = sum_{T in S - i} det_T trace(f_i inverse_{S - i - T}) for any i of S,    y = sum_S det_S inverse_{all - S}.
 * Where s elements of D are nearly 0, the same is a polynomial of degree s in z, of D with z in addition there: it is computed at
 * s + 1 other places, and is at 0 what these say. Nothing is checked or allocated here. */
#include "op/matrix.h"
#include <math.h>

#define NEARLY 1e-5 /* of a pivot, as a part of the largest: inverses lose five digits at most */

/* Of one matrix: a becomes L, below its diagonal, and R, above; d are the pivots, f k directions, inverse 2^k matrices. */
struct cofactors {
  int64_t n;
  int k;
  double *a, *d, *f, *inverse, *y, *row, *column, sign, det[1 << MATRIX_DIRECTIONS];
};

static void swap(double *x, double *y, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; i++) { double t = x[i * step]; x[i * step] = y[i * step], y[i * step] = t; }
}

/* Brings the largest of what is left from k, k on there. */
static void bring(struct cofactors *c, int64_t k) {
  int64_t n = c->n, row = k, column = k;
  for (int64_t i = k; i < n; i++)
    for (int64_t j = k; j < n; j++)
      if (fabs(c->a[i * n + j]) > fabs(c->a[row * n + column])) row = i, column = j;
  if (row != k) swap(c->a + row * n, c->a + k * n, n, 1), swap(c->row + row, c->row + k, 1, 1), c->sign = -c->sign;
  if (column != k) swap(c->a + column, c->a + k, n, n), swap(c->column + column, c->column + k, 1, 1), c->sign = -c->sign;
}

static void factor(struct cofactors *c) {
  int64_t n = c->n;
  double *a = c->a;
  for (int64_t i = 0; i < n; i++) c->row[i] = c->column[i] = (double)i;
  for (int64_t k = 0; k < n; k++) {
    bring(c, k);
    double pivot = c->d[k] = a[k * n + k];
    for (int64_t i = k + 1; i < n && pivot != 0; i++) {
      a[i * n + k] /= pivot;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
    for (int64_t j = k + 1; j < n && pivot != 0; j++) a[k * n + j] /= pivot;
  }
}

/* f = L^-1 P e Q R^-1. */
static void turn_direction(const struct cofactors *c, const double *e, double *f) {
  int64_t n = c->n;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) f[i * n + j] = e[(int64_t)c->row[i] * n + (int64_t)c->column[j]];
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < i; k++)
      for (int64_t j = 0; j < n; j++) f[i * n + j] -= c->a[i * n + k] * f[k * n + j];
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++)
      for (int64_t j = k + 1; j < n; j++) f[i * n + j] -= f[i * n + k] * c->a[k * n + j];
}

/* y = R^-1 y L^-1. */
static void turn_back(const struct cofactors *c) {
  int64_t n = c->n;
  double *y = c->y;
  for (int64_t i = n; i-- > 0;)
    for (int64_t k = i + 1; k < n; k++)
      for (int64_t j = 0; j < n; j++) y[i * n + j] -= c->a[i * n + k] * y[k * n + j];
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = n; k-- > 0;)
      for (int64_t j = 0; j < k; j++) y[i * n + j] -= y[i * n + k] * c->a[k * n + j];
}

static double *inverse_of(const struct cofactors *c, int set) { return c->inverse + set * c->n * c->n; }

/* inverse_S, all smaller ones being there; d: the diagonal. */
static void find_inverse(const struct cofactors *c, int set, const double *d) {
  int64_t n = c->n;
  double *to = inverse_of(c, set);
  for (int64_t i = 0; i < n * n; i++) to[i] = 0;
  for (int64_t i = 0; i < n && !set; i++) to[i * n + i] = 1 / d[i];
  for (int q = 0; q < c->k; q++) {
    if (!(set >> q & 1)) continue;
    const double *f = c->f + q * n * n, *rest = inverse_of(c, set & ~(1 << q));
    for (int64_t i = 0; i < n; i++)
      for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < n; j++) to[i * n + j] -= f[i * n + k] * rest[k * n + j] / d[i];
  }
}

static double trace_of(const struct cofactors *c, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < c->n; i++)
    for (int64_t k = 0; k < c->n; k++) sum += x[i * c->n + k] * y[k * c->n + i];
  return sum;
}

static void find_det(struct cofactors *c, int set, const double *d) {
  int q = 0;
  while (set && !(set >> q & 1)) q++;
  c->det[set] = !set;
  for (int64_t i = 0; i < c->n && !set; i++) c->det[0] *= d[i];
  int rest = set & ~(1 << q);
  for (int t = rest; set; t = (t - 1) & rest) { /* all sets in the rest, the empty one last */
    c->det[set] += c->det[t] * trace_of(c, c->f + q * c->n * c->n, inverse_of(c, rest & ~t));
    if (!t) break;
  }
}

/* y += weight times the derivative for the diagonal d. */
static void add_at(struct cofactors *c, const double *d, double weight) {
  int all = (1 << c->k) - 1;
  for (int set = 0; set <= all; set++) find_inverse(c, set, d), find_det(c, set, d);
  for (int set = 0; set <= all; set++)
    for (int64_t i = 0; i < c->n * c->n; i++) c->y[i] += weight * c->det[set] * inverse_of(c, all & ~set)[i];
}

/* Marks the pivots that get z in addition: the smallest, at most k + 2 of them; returns how many. *size: the smallest of the
 * others. -1: so many are 0 that the derivative is. */
static int find_small(const struct cofactors *c, bool is_small[], double *size) {
  double largest = 0;
  int n = 0, zeros = 0;
  for (int64_t i = 0; i < c->n; i++) largest = fmax(largest, fabs(c->d[i])), zeros += c->d[i] == 0, is_small[i] = false;
  if (zeros > c->k + 1) return -1;
  for (; n < c->k + 2; n++) {
    int64_t least = -1;
    for (int64_t i = 0; i < c->n; i++)
      if (!is_small[i] && (least < 0 || fabs(c->d[i]) < fabs(c->d[least]))) least = i;
    if (least < 0 || !(fabs(c->d[least]) <= NEARLY * largest)) break;
    is_small[least] = true;
  }
  *size = 0;
  for (int64_t i = 0; i < c->n; i++)
    if (!is_small[i] && (*size == 0 || fabs(c->d[i]) < *size)) *size = fabs(c->d[i]);
  if (*size == 0) *size = 1;
  return n;
}

/* Places 1, -1, 2, -2 .., and what the value of a polynomial there is worth at 0. */
static double place(int m) { return m % 2 ? -(m / 2 + 1) : m / 2 + 1; }
static double weight_of(int m, int places) {
  double w = 1;
  for (int k = 0; k < places; k++) if (k != m) w *= place(k) / (place(k) - place(m));
  return w;
}

static void add_all(struct cofactors *c, bool is_small[], double *d) {
  double size;
  int n = find_small(c, is_small, &size);
  if (n == 0) add_at(c, c->d, 1);
  for (int m = 0; n > 0 && m <= n; m++) {
    for (int64_t i = 0; i < c->n; i++) d[i] = c->d[i] + (is_small[i] ? 1.25 * place(m) * size : 0); /* no sum is 0 */
    add_at(c, d, weight_of(m, n + 1));
  }
}

int64_t matrix_cofactors_room(int64_t n, int k) { return n * n * (k + 2 + (1 << k)) + 5 * n; }

void matrix_cofactors(double *a, const double *e, int k, int64_t n, double *to, double *room) {
  struct cofactors c = { .n = n, .k = k, .a = a, .sign = 1, .f = room, .inverse = room + k * n * n };
  double none = 0, *d;
  c.y = c.inverse + n * n * (1 << k), c.d = c.y + n * n, c.row = c.d + n, c.column = c.row + n, d = c.column + n;
  for (int64_t i = 0; i < n * n; i++) none += a[i] * 0, c.y[i] = 0; /* nan of what is not finite */
  for (int64_t i = 0; i < k * n * n; i++) none += e[i] * 0;
  if (k < n && !isnan(none)) {
    factor(&c);
    for (int q = 0; q < k; q++) turn_direction(&c, e + q * n * n, c.f + q * n * n);
    add_all(&c, (bool *)(void *)(d + n), d);
    turn_back(&c);
  } else for (int64_t i = 0; i < n; i++) c.row[i] = c.column[i] = (double)i;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) to[(int64_t)c.column[i] * n + (int64_t)c.row[j]] = c.sign * c.y[i * n + j] + none;
}
