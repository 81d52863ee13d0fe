/* kalman.c -- kalman [picture.svg]: follows something that is seen badly, and for a while not at all.
 *
 * The idiom: derivatives through a loop, of any order. How hard it is pushed and how badly it is seen are fitted by
 * Newton's method to the likelihood of what was seen, with gradient and Hessian through the filter's loop over time. */
#include <weft_sugar.h>
#include "drift.h"

static const double unit[4] = { 1, 0, 0, 1 }, second[4] = { 0, 0, 0, 1 };

static weft_array *matrix(const double a[4]) { return weft_from(WEFT_F64, WEFT_DIMS(2, 2), a); }
static weft_array *corner(weft_array *a) { return weft_at(weft_at(a, 0, 0), 0, 0); }

/* What is seen z [TIMES,2], t = log deviations -> estimates [TIMES,2], their variances [TIMES]; returns -log p(z)
 * but for a constant. The state is [place and speed, x and y]; p is the covariance of place and speed, of x as of y. */
static weft_array *filter(weft_array *t, weft_array *z, weft_array *is_seen, weft_array **place, weft_array **var) {
  weft_array *push = weft_exp(weft_mul(2, weft_at(t, 0, 0))), *blur = weft_exp(weft_mul(2, weft_at(t, 0, 1)));
  weft_array *f = matrix(move), *q = weft_mul(push, matrix(second));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *z_t = weft_loop_each(loop, z), *seen_t = weft_loop_each(loop, is_seen);
  weft_array *x = weft_loop_carry(loop, weft_mul(matrix(unit), 0)), *p = weft_loop_carry(loop, matrix(unit));
  weft_array *ahead = weft_matmul(f, x), *spread = weft_add(weft_matmul(weft_matmul(f, p), weft_transpose(f, NULL)), q);
  weft_array *s = weft_add(corner(spread), blur), *off = weft_sub(z_t, weft_at(ahead, 0, 0));
  weft_array *gain = weft_where(seen_t, weft_div(weft_slice(spread, 1, 0, 1, 1), s), 0);
  weft_array *x_now = weft_add(ahead, weft_mul(gain, off));
  weft_array *p_now = weft_sub(spread, weft_mul(gain, weft_slice(spread, 0, 0, 1, 1)));
  weft_array *cost = weft_add(weft_log(s), weft_div(weft_mul(0.5, weft_sum(weft_square(off), WEFT_ALL)), s));
  weft_loop_next(loop, x, x_now), weft_loop_next(loop, p, p_now);
  weft_array *costs = weft_loop_all(loop, weft_where(seen_t, cost, 0));
  *place = weft_loop_all(loop, weft_at(x_now, 0, 0));
  *var = weft_loop_all(loop, corner(p_now));
  weft_loop_close(loop);
  return weft_sum(costs, WEFT_ALL);
}

/* t -> -log p, its gradient and Hessian, and what the filter says. */
static weft_function *make_fit(weft_array *z, weft_array *is_seen) {
  weft_scope *body = weft_scope_open();
  weft_array *t = weft_input(WEFT_F64, WEFT_DIMS(N)), *e = weft_input(WEFT_F64, WEFT_DIMS(N)), *rows = matrix(unit);
  weft_array *place, *variance, *cost = filter(t, z, is_seen, &place, &variance), *g, *h_e, *h;
  weft_grad(cost, 1, &t, &g);
  weft_jvp(1, &t, &e, 1, &g, &h_e);
  weft_map(1, &e, &rows, 1, &h_e, &h);
  return weft_compile(body, 1, &t, WEFT_ARRAYS(cost, g, h, place, variance));
}

/* A step of Newton's method, shorter where the slope g is steep; returns its length. h becomes the covariance of t. */
static double improve(double t[N], const double g[N], double h[N * N]) {
  double steep = hypot(g[0], g[1]), a = h[0] + steep, b = h[1], c = h[3] + steep, d = a * c - b * b;
  double dx = (c * g[0] - b * g[1]) / d, dy = (a * g[1] - b * g[0]) / d;
  t[0] -= dx, t[1] -= dy, h[0] = c / d, h[1] = h[2] = -b / d, h[3] = a / d;
  return hypot(dx, dy);
}

int main(int argc, char **argv) {
  static double way[TIMES][2], z[TIMES][2], place[TIMES][2], variance[TIMES], t[N], g[N], h[N * N], cost, far = 1;
  static _Bool is_seen[TIMES];
  int steps = 0, is_wrong = 0;
  simulate(way, z, is_seen);
  weft_array *seen = weft_from(WEFT_F64, WEFT_DIMS(TIMES, 2), z), *is = weft_from(WEFT_BOOL, WEFT_DIMS(TIMES), is_seen);
  weft_function *f = make_fit(seen, is);
  for (weft_status status = WEFT_OK; far > 1e-8 && steps < 50; steps++, far = improve(t, g, h)) {
    WEFT_SCOPE(&status) {
      weft_array *at = weft_from(WEFT_F64, WEFT_DIMS(N), t), *out[5];
      weft_call(f, 1, &at, 5, out);
      weft_fetch_to(out[0], &cost), weft_fetch_to(out[1], &g), weft_fetch_to(out[2], &h);
      weft_fetch_to(out[3], &place), weft_fetch_to(out[4], &variance);
    }
    if (status) return fprintf(stderr, "kalman: %s\n", weft_message()), 1;
  }
  printf("After %d steps of Newton's method -log p is %.3f, its slope %.0e.\n", steps, cost, hypot(g[0], g[1]));
  for (int i = 0; i < N; i++) {
    double deviation = sqrt(h[3 * i]);
    printf("%s %.3f, fitted %.3f; from %.3f to %.3f within two deviations\n", name[i], truth[i], exp(t[i]),
           exp(t[i] - 2 * deviation), exp(t[i] + 2 * deviation));
    is_wrong |= !(fabs(log(truth[i]) - t[i]) < 3 * deviation);
  }
  const char *path = argc > 1 ? argv[1] : "kalman.svg";
  FILE *out = picture_open(path, 760, 520);
  draw(out, way, z, is_seen, place, variance);
  return picture_close(out, path) || is_wrong || !(far < 1e-8);
}
