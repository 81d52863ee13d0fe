/* garch.c -- garch [picture.svg]: how nervous a market is, day by day: AR(1) returns with GARCH(1,1) variance.
 *
 *   r_t = mu + phi r_{t-1} + e_t,   e_t ~ N(0, v_t),   v_t = omega + alpha e_{t-1}^2 + beta v_{t-1}
 *
 * The idiom: loops nest, and hold derivatives of loops. A step of the fit is a step of a loop around the gradient of
 * the loop over days; so the whole fit is one expression of the returns, and is mapped over many series. */
#include <weft_sugar.h>
#include "adam.h"
#include "market.h"

enum { SERIES = 48, STEPS = 400 };
static const double begin[N] = { 0, 0, -1.5, 1.5, -1 };

/* Any numbers u [5] -> parameters that make sense: |phi| < 1, omega > 0, alpha + beta < 1. */
static void parameters(weft_array *u, weft_array *p[N]) {
  for (int i = 0; i < N; i++) p[i] = weft_at(u, 0, i);
  weft_array *both = weft_sigmoid(p[3]), *share = weft_sigmoid(p[4]);
  p[1] = weft_tanh(p[1]), p[2] = weft_exp(p[2]), p[3] = weft_mul(both, share), p[4] = weft_sub(both, p[3]);
}

/* The variances of all days but the first, and the mean of -log p of a day, up to a constant. */
static weft_array *variances(weft_array *u, weft_array *r, weft_array **loss) {
  weft_array *p[N], *before = weft_slice(r, 0, 0, -1, 1), *today = weft_slice(r, 0, 1, WEFT_END, 1);
  parameters(u, p);
  weft_array *e2 = weft_square(weft_sub(weft_sub(today, p[0]), weft_mul(p[1], before)));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *e2_t = weft_loop_each(loop, e2), *v_t = weft_loop_carry(loop, weft_mean(weft_square(r), WEFT_ALL));
  weft_loop_next(loop, v_t, weft_add(p[2], weft_add(weft_mul(p[3], e2_t), weft_mul(p[4], v_t))));
  weft_array *v = weft_loop_all(loop, v_t);
  weft_loop_close(loop);
  *loss = weft_mean(weft_mul(0.5, weft_add(weft_log(v), weft_div(e2, v))), WEFT_ALL);
  return v;
}

/* Adam's steps from `begin`: u for the returns r. */
static weft_array *fit(weft_array *r) {
  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *zero = weft_full(WEFT_F64, WEFT_DIMS(N), 0), *t = weft_loop_carry(loop, weft_full(WEFT_F64, 0, NULL, 1));
  weft_array *u = weft_loop_carry(loop, weft_from(WEFT_F64, WEFT_DIMS(N), begin)), *loss, *g;
  weft_array *m = weft_loop_carry(loop, zero), *s = weft_loop_carry(loop, zero), *now[3] = { u, m, s };
  variances(u, r, &loss);
  weft_grad(loss, 1, &u, &g);
  adam(&now[0], &now[1], &now[2], g, t, 0.05);
  weft_loop_next(loop, u, now[0]), weft_loop_next(loop, m, now[1]), weft_loop_next(loop, s, now[2]);
  weft_loop_next(loop, t, weft_add(t, 1));
  weft_array *last = weft_loop_last(loop, u);
  weft_loop_close(loop);
  return last;
}

/* The fits of parameter i as dots, the truth as a bar. Returns how many deviations of one fit their mean is off. */
static double draw_parameter(FILE *out, int i, double p[SERIES][N]) {
  double mean = 0, square = 0, y = 322 + 34 * i;
  for (int k = 0; k < SERIES; k++) mean += p[k][i] / SERIES, square += p[k][i] * p[k][i] / SERIES;
  double deviation = sqrt(square - mean * mean);
  printf("%-5s %.3f, fitted %.3f; one fit is off by %.3f\n", name[i], truth[i], mean, deviation);
  picture_box(out, 90, y, 800, 0.6, "#999"), picture_text(out, 20, y + 5, "#000", name[i]);
  for (int k = 0; k < SERIES; k++) picture_dot(out, 490 + 5000 * (p[k][i] - truth[i]), y, 5, "rgba(36,113,163,0.35)");
  picture_box(out, 488.5, y - 11, 3, 22, "#c0392b");
  return fabs(mean - truth[i]) / deviation;
}

int main(int argc, char **argv) {
  static double r[SERIES][DAYS], v[SERIES][DAYS], p[SERIES][N], fitted[DAYS - 1], worst;
  for (int i = 0; i < SERIES; i++) simulate(r[i], v[i]);
  weft_array *all = weft_from(WEFT_F64, WEFT_DIMS(SERIES, DAYS), r), *one = weft_input(WEFT_F64, WEFT_DIMS(DAYS));
  weft_array *u = fit(one), *q[N], *loss, *out[2];
  parameters(u, q);
  weft_map(1, &one, &all, 2, (weft_array *[]){ weft_stack(0, N, q), variances(u, one, &loss) }, out);
  if (weft_eval(2, out) || weft_read_to(out[0], &p) || weft_read_to(weft_at(out[1], 0, 0), &fitted))
    return fprintf(stderr, "garch: %s\n", weft_message()), 1;
  const char *path = argc > 1 ? argv[1] : "garch.svg";
  FILE *file = picture_open(path, 900, 480);
  draw_days(file, r[0], v[0], fitted);
  picture_text(file, 10, 292, "#000", "48 such series, each fitted: the fits (blue) and the truth (red)");
  for (int i = 0; i < N; i++) worst = fmax(worst, draw_parameter(file, i, p));
  return picture_close(file, path) || !(worst < 1);
}
