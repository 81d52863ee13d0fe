/* ode.c -- ode [picture.svg]: a ship flies around Earth and Moon and comes back, in steps as long as they may be.
 *
 * The idiom: a `while` whose steps may fail. Each estimates its own error; where that is too large, the state stays and
 * the next is shorter. The loop is written for one tolerance and mapped over several, which take their own time. */
#include <weft_sugar.h>
#include "orbit.h"
#include "picture.h"

enum { STAGES = 7, MOST = 2000, TRIALS = 8 };

/* Dormand and Prince: stage i is at y + h sum a[i][j] k_j, the last where the step ends; its error: h sum e[j] k_j. */
static const double a[STAGES][STAGES] = {
  { 0 }, { 1 / 5. }, { 3 / 40., 9 / 40. }, { 44 / 45., -56 / 15., 32 / 9. },
  { 19372 / 6561., -25360 / 2187., 64448 / 6561., -212 / 729. },
  { 9017 / 3168., -355 / 33., 46732 / 5247., 49 / 176., -5103 / 18656. },
  { 35 / 384., 0, 500 / 1113., 125 / 192., -2187 / 6784., 11 / 84. },
}, e[STAGES] = { 71 / 57600., 0, -71 / 16695., 71 / 1920., -17253 / 339200., 22 / 525., -1 / 40. };

/* sum w[j] k_j[i] over the first n stages. */
static weft_array *mixed(int n, const double w[], weft_array *k[][N], int i) {
  weft_array *sum = weft_scalar(0);
  for (int j = 0; j < n; j++) sum = weft_add(sum, weft_mul(k[j][i], w[j]));
  return sum;
}

/* y is replaced by what it is h later. Returns the largest estimated error. */
static weft_array *advance(weft_array *y[N], weft_array *h) {
  weft_array *k[STAGES][N], *at[N], *worst = weft_scalar(0);
  for (int s = 0; s < STAGES; slope(at, k[s++]))
    for (int i = 0; i < N; i++) at[i] = weft_add(y[i], weft_mul(h, mixed(s, a[s], k, i)));
  for (int i = 0; i < N; y[i] = at[i], i++)
    worst = weft_maximum(worst, weft_abs(weft_mul(h, mixed(STAGES, e, k, i))));
  return worst;
}

/* Once around: the way [steps,2] in the picture; how far from the start it ends, and after how many steps. */
static void fly(weft_array *tolerance, weft_array **way, weft_array *end[2]) {
  weft_loop *loop = weft_loop_open(weft_integer(MOST));
  weft_array *t = weft_loop_carry(loop, weft_full_like(tolerance, 0)), *n = weft_loop_carry(loop, 0);
  weft_array *h = weft_loop_carry(loop, weft_full_like(tolerance, 1e-3)), *step = weft_minimum(h, weft_sub(period, t));
  weft_array *y[N], *next[N], *all[2];
  for (int i = 0; i < N; i++) next[i] = y[i] = weft_loop_carry(loop, weft_full_like(tolerance, begin[i]));
  weft_array *error = weft_div(advance(next, step), tolerance), *is_good = weft_le(error, 1);
  weft_array *t_next = weft_where(is_good, weft_add(t, step), t), *fit = weft_pow(weft_maximum(error, 1e-9), -0.2);
  for (int i = 0; i < N; i++) weft_loop_next(loop, y[i], weft_where(is_good, next[i], y[i]));
  weft_loop_next(loop, t, t_next), weft_loop_next(loop, n, weft_add(n, 1));
  weft_loop_next(loop, h, weft_mul(step, weft_clip(weft_mul(0.9, fit), 0.2, 5)));
  weft_loop_until(loop, weft_ge(t_next, period));
  for (int i = 0; i < 2; i++) all[i] = weft_loop_all(loop, y[i]), next[i] = weft_loop_last(loop, y[i]);
  end[1] = weft_loop_last(loop, n);
  weft_loop_close(loop);
  *way = weft_stack(1, WEFT_ARRAYS(weft_add(320, weft_mul(220, all[0])), weft_sub(280, weft_mul(220, all[1]))));
  end[0] = weft_hypot(weft_sub(next[0], begin[0]), weft_sub(next[1], begin[1]));
}

/* One flight; returns its steps, or -1. */
static int follow(weft_array *tolerance, double line[MOST][2]) {
  weft_array *way, *end[2];
  fly(tolerance, &way, end);
  int64_t n = weft_dim(way, 0);
  return weft_read(way, WEFT_F64, line, (size_t)(n > 0 ? n : 0) * sizeof *line) ? -1 : (int)n;
}

int main(int argc, char **argv) {
  static double miss[TRIALS], line[MOST][2], dot[MOST][2];
  static int32_t steps[TRIALS];
  weft_array *tolerances = weft_pow(10, weft_linspace(WEFT_F64, -4, -11, TRIALS)), *one = weft_input(WEFT_F64, 0, NULL);
  weft_array *way, *end[2], *ends[2];
  fly(one, &way, end);
  weft_map(1, &one, &tolerances, 2, end, ends);
  int n_line = follow(weft_at(tolerances, 0, TRIALS - 1), line), n_dots = follow(weft_at(tolerances, 0, 2), dot);
  if (n_line < 0 || n_dots < 0 || weft_eval(2, ends) || weft_read_to(ends[0], &miss) || weft_read_to(ends[1], &steps))
    return fprintf(stderr, "ode: %s\n", weft_message()), 1;
  for (int i = 0; i < TRIALS; i++)
    printf("tolerance 1e-%02d: %4d steps, back at the start but for %.1e\n", 4 + i, steps[i], miss[i]);
  const char *path = argc > 1 ? argv[1] : "ode.svg";
  FILE *out = picture_open(path, 620, 560);
  picture_box(out, 0, 0, 620, 560, "#10142a");
  picture_line(out, n_line, line, 1.5, "#6f86c9");
  for (int i = 0; i < n_dots; i++) picture_dot(out, dot[i][0], dot[i][1], 2.5, "#ffb454");
  picture_dot(out, 320 - 220 * moon, 280, 14, "#4aa3df"), picture_text(out, 338, 304, "#9fb3d9", "Earth");
  picture_dot(out, 320 + 220 * (1 - moon), 280, 4, "#e8e8e8"), picture_text(out, 548, 304, "#9fb3d9", "Moon");
  picture_text(out, 14, 546, "#9fb3d9", "once around, with a dot for every step at a tolerance of 1e-6");
  return picture_close(out, path) || miss[TRIALS - 1] > 1e-8;
}
