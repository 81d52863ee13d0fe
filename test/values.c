/* values.c -- see values.h. Everything is compared with differences of f itself, evaluated apart. */
#include "values.h"
#include <math.h>

enum { MOST = 64 };
static const double STEP = 1e-5;

bool reads_unrolled;

/* ---- data ---- */

static uint32_t drawn(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

weft_array *drawn_floats(int rank, const int64_t dims[], uint32_t seed) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = ((float)drawn(&seed) / (1 << 23) - 1) * 3;
  weft_array *a = weft_from(WEFT_F32, rank, dims, x);
  free(x);
  return a;
}

weft_array *drawn_indices(int64_t n, int32_t below, uint32_t seed) {
  int32_t *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = (int32_t)(drawn(&seed) % (2 * (uint32_t)below)) - below;
  weft_array *a = weft_from(WEFT_I32, WEFT_DIMS(n), x);
  free(x);
  return a;
}

/* ---- differences ---- */

static int size_of(weft_array *a) {
  int n = 1;
  if (reads_unrolled && weft_rank(a) >= 0) a = unrolled(a);
  for (int k = 0; k < weft_rank(a); k++) n *= (int)weft_dim(a, k);
  return n;
}

/* f(x) read into y; returns how many elements it has. */
static int apply(array_function f, int n, const double x[], double y[]) {
  weft_scope *s = weft_scope_open();
  weft_array *out = f(f64s(n, x));
  int m = size_of(out);
  if (m > MOST || m < 1) test_fail(__FILE__, __LINE__, "a result of %d elements", m), m = 0;
  else read_f64(out, m, y);
  weft_scope_discard(s);
  return m;
}

/* d f / dx in direction u, by central differences. */
static int slope(array_function f, int n, const double x[], const double u[], double dy[]) {
  double up[MOST], down[MOST], a[MOST], b[MOST];
  for (int i = 0; i < n; i++) up[i] = x[i] + STEP * u[i], down[i] = x[i] - STEP * u[i];
  int m = apply(f, n, up, a);
  apply(f, n, down, b);
  for (int i = 0; i < m; i++) dy[i] = (a[i] - b[i]) / (2 * STEP);
  return m;
}

static double weight(int i) { return 0.3 + 0.17 * ((i * 7) % 5) - 0.25 * (i % 3); }

static void expect_all(const char *name, const char *what, int n, const double got[], const double want[], double tolerance) {
  for (int i = 0; i < n; i++)
    if (!near(want[i], got[i], tolerance))
      test_fail(__FILE__, __LINE__, "%s: %s: element %d is %.12g, not %.12g", name, what, i, got[i], want[i]);
}

static weft_array *like_result(weft_array *y, const double v[]) { return weft_reshape_like(f64s(size_of(y), v), y); }

void check_jvp(const char *name, array_function f, int n, const double x[]) {
  double u[MOST], want[MOST], got[MOST];
  for (int i = 0; i < n; i++) u[i] = weight(i);
  int m = slope(f, n, x, u, want);
  weft_scope *s = weft_scope_open();
  weft_array *in = f64s(n, x), *du = f64s(n, u), *y = f(in), *dy;
  weft_jvp(1, &in, &du, 1, &y, &dy);
  if (read_f64(dy, m, got)) expect_all(name, "jvp", m, got, want, 1e-7);
  weft_scope_discard(s);
}

void check_vjp(const char *name, array_function f, int n, const double x[]) {
  double v[MOST], dy[MOST], u[MOST], want[MOST], got[MOST], y0[MOST];
  int m = apply(f, n, x, y0);
  for (int i = 0; i < m; i++) v[i] = weight(i + 1);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) u[j] = i == j;
    slope(f, n, x, u, dy);
    want[i] = 0;
    for (int j = 0; j < m; j++) want[i] += v[j] * dy[j];
  }
  weft_scope *s = weft_scope_open();
  weft_array *in = f64s(n, x), *y = f(in), *seed = like_result(y, v), *dx;
  weft_vjp(1, &y, &seed, 1, &in, &dx);
  if (read_f64(dx, n, got)) expect_all(name, "vjp", n, got, want, 1e-7);
  weft_scope_discard(s);
}

/* <v, J u> = <J' v, u> to rounding. */
static void check_adjoint(const char *name, array_function f, int n, const double x[]) {
  double u[MOST], v[MOST];
  weft_scope *s = weft_scope_open();
  weft_array *in = f64s(n, x), *y = f(in), *dx, *dy;
  for (int i = 0; i < n; i++) u[i] = weight(i + 2);
  for (int i = 0; i < size_of(y); i++) v[i] = weight(i + 3);
  weft_array *du = f64s(n, u), *seed = like_result(y, v);
  weft_jvp(1, &in, &du, 1, &y, &dy);
  weft_vjp(1, &y, &seed, 1, &in, &dx);
  double a = one_f64(weft_sum(weft_mul(dy, seed), WEFT_ALL)), b = one_f64(weft_sum(weft_mul(dx, du), WEFT_ALL));
  if (!near(a, b, 1e-11)) test_fail(__FILE__, __LINE__, "%s: <v, Ju> is %.17g, <J'v, u> is %.17g", name, a, b);
  weft_scope_discard(s);
}

void check_map(const char *name, array_function f, int n, const double x[]) {
  enum { ROWS = 3 };
  double rows[ROWS * MOST], want[ROWS * MOST], got[ROWS * MOST];
  int m = 0;
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < n; i++) rows[r * n + i] = x[i] * (1 + 0.1 * r);
    m = apply(f, n, rows + r * n, want + r * (m ? m : 0));
  }
  weft_scope *s = weft_scope_open();
  weft_array *in = f64s(n, x), *y = f(in), *full = weft_from(WEFT_F64, WEFT_DIMS(ROWS, n), rows), *ys;
  weft_map(1, &in, &full, 1, &y, &ys);
  if (read_f64(ys, ROWS * m, got)) expect_all(name, "map", ROWS * m, got, want, 1e-12);
  weft_scope_discard(s);
}

static array_function current;

static weft_array *gradient(weft_array *x) {
  weft_array *y = current(x), *dx;
  weft_grad(y, 1, &x, &dx);
  return dx;
}

void check_function(const char *name, array_function f, int n, const double x[]) {
  check_jvp(name, f, n, x);
  check_vjp(name, f, n, x);
  check_adjoint(name, f, n, x);
  check_map(name, f, n, x);
  current = f;
  char text[128];
  snprintf(text, sizeof text, "gradient of %s", name);
  check_jvp(text, gradient, n, x);
  check_vjp(text, gradient, n, x);
  check_adjoint(text, gradient, n, x);
  check_map(text, gradient, n, x);
}
