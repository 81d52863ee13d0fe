/* laplace.c -- laplace [picture.svg]: a posterior and the Gaussian that touches it at its top.
 *
 * Twenty animals got a drug in four doses; how does the chance to die depend on the dose? The idiom: transforms take
 * expressions and nest. The Hessian is the gradient, differentiated forward along e, mapped over the rows e of the unit
 * matrix; the density on a grid is the same expression, mapped over points. */
#include <weft_sugar.h>
#include <math.h>
#include "picture.h"

enum { GRID = 160, N = 2 };
static const double dose[4] = { -0.86, -0.30, -0.05, 0.73 }, deaths[4] = { 0, 1, 3, 5 }, unit[N * N] = { 1, 0, 0, 1 };

/* log p(t | deaths) of t = (intercept, slope), up to a constant: 5 animals a dose, a wide normal prior. */
static weft_array *log_density(weft_array *t) {
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(4), dose), *y = weft_from(WEFT_F64, WEFT_DIMS(4), deaths);
  weft_array *z = weft_add(weft_at(t, 0, 0), weft_mul(weft_at(t, 0, 1), x));
  weft_array *soft = weft_add(weft_maximum(z, 0), weft_log1p(weft_exp(weft_neg(weft_abs(z))))); /* log(1 + e^z) */
  weft_array *likelihood = weft_sum(weft_sub(weft_mul(y, z), weft_mul(5, soft)), WEFT_ALL);
  return weft_sub(likelihood, weft_div(weft_sum(weft_mul(t, t), WEFT_ALL), 2 * 10. * 10));
}

/* t -> value, gradient, Hessian of the log density. */
static weft_function *derivatives(void) {
  weft_scope *body = weft_scope_open();
  weft_array *t = weft_input(WEFT_F64, WEFT_DIMS(N)), *e = weft_input(WEFT_F64, WEFT_DIMS(N));
  weft_array *rows = weft_from(WEFT_F64, WEFT_DIMS(N, N), unit), *value = log_density(t), *g, *h_e, *h;
  weft_grad(value, 1, &t, &g);
  weft_jvp(1, &t, &e, 1, &g, &h_e);
  weft_map(1, &e, &rows, 1, &h_e, &h);
  return weft_compile(body, 1, &t, WEFT_ARRAYS(value, g, h));
}

/* The density at the points of the picture, with its top at 1, as shades of grey. */
static weft_status shade(double top, float (*rgb)[GRID * GRID * 3]) {
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *cells = weft_full(WEFT_F64, WEFT_DIMS(GRID, GRID, 1), 0);
    weft_array *a = weft_sub(weft_mul(weft_iota(cells, 1), 10. / GRID), 4);
    weft_array *b = weft_sub(35, weft_mul(weft_iota(cells, 0), 40. / GRID));
    weft_array *points = weft_reshape(weft_concat(2, WEFT_ARRAYS(a, b)), WEFT_DIMS(GRID * GRID, N)), *on_grid;
    weft_array *t = weft_input(WEFT_F64, WEFT_DIMS(N)), *value = log_density(t);
    value = weft_reshape(value, WEFT_DIMS(1));
    weft_map(1, &t, &points, 1, &value, &on_grid);
    weft_array *grey = weft_cast(weft_sub(1, weft_mul(0.8, weft_exp(weft_sub(on_grid, top)))), WEFT_F32);
    weft_fetch_to(weft_concat(1, WEFT_ARRAYS(grey, grey, grey)), rgb);
  }
  return status;
}

int main(int argc, char **argv) {
  static float rgb[GRID * GRID * 3];
  double t[N] = { 0, 0 }, value = 0, g[N], h[N * N];
  weft_function *f = derivatives();
  for (int step = 0; step < 20; step++) { /* Newton's method, cautious while the step is long */
    weft_array *at = weft_from(WEFT_F64, WEFT_DIMS(N), t), *out[3];
    weft_call(f, 1, &at, 3, out);
    if (weft_read_to(out[0], &value) || weft_read_to(out[1], &g) || weft_read_to(out[2], &h))
      return fprintf(stderr, "laplace: %s\n", weft_message()), 1;
    double d = h[0] * h[3] - h[1] * h[2], a = (h[1] * g[1] - h[3] * g[0]) / d;
    double b = (h[2] * g[0] - h[0] * g[1]) / d, caution = 1 + sqrt(fmax(g[0] * a + g[1] * b, 0));
    t[0] += a / caution, t[1] += b / caution;
  }
  double det = h[0] * h[3] - h[1] * h[2], va = -h[3] / det, vb = -h[0] / det, c = h[1] / det;
  printf("Top at %.4f, %.4f; deviations %.4f, %.4f\n", t[0], t[1], sqrt(va), sqrt(vb));
  if (shade(value, &rgb)) return fprintf(stderr, "laplace: %s\n", weft_message()), 1;
  const char *path = argc > 1 ? argv[1] : "laplace.svg";
  FILE *out = picture_open(path, 480, 480);
  picture_image(out, 0, 0, 3, GRID, GRID, rgb);
  for (int ring = 1; ring <= 3; ring++) { /* t + ring L (cos, sin) with L L' the covariance */
    double line[73][2], l = sqrt(va), m = c / l, n = sqrt(vb - m * m);
    for (int i = 0; i < 73; i++) {
      double u = ring * cos(i * 0.0872664626), v = ring * sin(i * 0.0872664626);
      line[i][0] = 48 * (t[0] + l * u + 4), line[i][1] = 12 * (35 - (t[1] + m * u + n * v));
    }
    picture_line(out, 73, line, 2, "#c0392b");
  }
  picture_text(out, 12, 24, "#000", "the density (grey); 1, 2, 3 deviations of its Laplace approximation");
  return picture_close(out, path);
}
