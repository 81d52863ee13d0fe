/* hmm.c -- hmm [picture.svg]: which state was a machine in, when all there is are noisy readings?
 *
 * The idiom: one recursion, and its gradients. With weft_logsumexp it is the likelihood: its gradient by the parameters
 * fits them, and by the scores of the readings it is the chance of each state at each time. With weft_max it is the
 * score of the best path, and the same gradient is that path. Nobody writes a backward pass. */
#include <weft_sugar.h>
#include "adam.h"
#include "machine.h"

enum { STEPS = 1000, STRIPS = 4 };
static const double begin[ROWS][STATES] = { { -1, 0.3, 1 }, { 0 }, { 2, 0, 0 }, { 0, 2, 0 }, { 0, 0, 2 } };

/* Any numbers u [ROWS,STATES] -> means, log deviations and log chances as rows. */
static weft_array *parameters(weft_array *u) {
  return weft_concat(0, WEFT_ARRAYS(weft_slice(u, 0, 0, 2, 1), weft_log_softmax(weft_slice(u, 0, 2, ROWS, 1), 1)));
}

/* log p(z_t | state), up to a constant: [TIMES,STATES]. */
static weft_array *scores(weft_array *p, weft_array *z) {
  weft_array *off = weft_div(weft_sub(weft_unsqueeze(z, 1), weft_at(p, 0, 0)), weft_exp(weft_at(p, 0, 1)));
  return weft_sub(weft_mul(-0.5, weft_square(off)), weft_at(p, 0, 1));
}

/* log p(z), up to a constant: summed over all paths of states by weft_logsumexp; of the best path by weft_max. */
static weft_array *forward(weft_array *over(weft_array *, int axis), weft_array *p, weft_array *score) {
  weft_array *move = weft_slice(p, 0, 2, ROWS, 1);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *score_t = weft_loop_each(loop, score), *a = weft_loop_carry(loop, weft_full_like(weft_at(p, 0, 0), 0));
  weft_loop_next(loop, a, weft_squeeze(over(weft_add(weft_unsqueeze(weft_add(a, score_t), 1), move), 0), 0));
  weft_array *last = weft_loop_last(loop, a);
  weft_loop_close(loop);
  return over(last, WEFT_ALL);
}

/* Adam's steps from `begin` until the slope is gone: the parameters, and the step that was next. */
static weft_array *fit(weft_array *z, weft_array **count) {
  weft_loop *loop = weft_loop_open(weft_integer(STEPS));
  weft_array *first = weft_from(WEFT_F64, WEFT_DIMS(ROWS, STATES), begin), *zero = weft_full_like(first, 0);
  weft_array *u = weft_loop_carry(loop, first), *m = weft_loop_carry(loop, zero), *v = weft_loop_carry(loop, zero);
  weft_array *t = weft_loop_carry(loop, 1.), *now[3] = { u, m, v }, *p = parameters(u), *g;
  weft_grad(weft_neg(forward(weft_logsumexp, p, scores(p, z))), 1, &u, &g);
  adam(&now[0], &now[1], &now[2], g, t, 0.03);
  weft_loop_next(loop, u, now[0]), weft_loop_next(loop, m, now[1]), weft_loop_next(loop, v, now[2]);
  weft_loop_next(loop, t, weft_add(t, 1));
  weft_loop_until(loop, weft_lt(weft_max(weft_abs(g), WEFT_ALL), 1e-3));
  weft_array *last = weft_loop_last(loop, u);
  *count = weft_loop_last(loop, t);
  weft_loop_close(loop);
  return parameters(last);
}

int main(int argc, char **argv) {
  static const char *name[STRIPS] = { "the states", "by each reading alone", "the chances", "the best path" };
  static double z[TIMES], p[ROWS][STATES], steps, best, share, worst;
  static weights w[STRIPS];
  simulate(w[0], z);
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *seen = weft_from(WEFT_F64, WEFT_DIMS(TIMES), z), *count, *q = fit(seen, &count);
    weft_array *score = scores(q, seen), *all = forward(weft_logsumexp, q, score), *top = forward(weft_max, q, score);
    weft_array *chance, *is_path;
    weft_grad(all, 1, &score, &chance);
    weft_grad(top, 1, &score, &is_path);
    weft_array *shown[STRIPS] = { NULL, weft_softmax(score, 1), chance, is_path };
    for (int i = 1; i < STRIPS; i++) weft_fetch_to(shown[i], &w[i]);
    weft_fetch_to(q, &p), weft_fetch_to(all, &best), weft_fetch_to(weft_cast(count, WEFT_F64), &steps);
  }
  if (status) return fprintf(stderr, "hmm: %s\n", weft_message()), 1;
  printf("After %.0f steps log p is %.3f.\n", steps - 1, best);
  for (int k = 0; k < STATES; k++) {
    printf("state %d: mean %.2f, fitted %.2f; deviation %.2f, fitted %.2f; stays by %.3f, fitted %.3f\n", k,
           truth[0][k], p[0][k], truth[1][k], exp(p[1][k]), truth[2 + k][k], exp(p[2 + k][k]));
    worst = fmax(worst, fmax(fabs(truth[0][k] - p[0][k]), fabs(truth[1][k] - exp(p[1][k]))));
  }
  const char *path = argc > 1 ? argv[1] : "hmm.svg";
  FILE *out = picture_open(path, 920, 500);
  for (int t = 0; t < TIMES; t++)
    picture_dot(out, 10 + 1.5 * t, 130 - 28 * z[t], 2.5, w[3][t][0] ? "#2980b9" : w[3][t][1] ? "#d4ac0d" : "#c0392b");
  for (int i = 0; i < STRIPS; i++) {
    share = draw_strip(out, 270 + 58 * i, w[i], w[0]);
    picture_text(out, 10, 264 + 58 * i, "#000", name[i]);
    printf("%s: %.1f%% right\n", name[i], 100 * share);
  }
  return picture_close(out, path) || !(worst < 0.2 && share > 0.9);
}
