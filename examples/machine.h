/* machine.h -- a machine that changes between states, for something to guess: its readings, and pictures of guesses. */
#ifndef MACHINE_H
#define MACHINE_H
#include "noise.h"
#include "picture.h"

enum { TIMES = 600, STATES = 3, ROWS = 2 + STATES, HIGH = 24 };
typedef double weights[TIMES][STATES];
static const double truth[ROWS][STATES] = { { -1.2, 0, 1.8 }, { 0.8, 0.6, 1.1 }, /* means, deviations, and moves */
                                            { 0.97, 0.02, 0.01 }, { 0.02, 0.96, 0.02 }, { 0.01, 0.03, 0.96 } };

/* The states of a machine, as weights of 0 and 1, and its readings. */
static inline void simulate(weights is_state, double z[TIMES]) {
  for (int t = 0, now = 0; t < TIMES; t++) {
    double u = uniform();
    int next = 0;
    while (next < STATES - 1 && (u -= truth[2 + now][next]) > 0) next++;
    z[t] = truth[0][next] + truth[1][next] * normal();
    is_state[t][now = next] = 1;
  }
}

/* Weights, stacked: one colour where the state is certain. Returns how often the heaviest is the true one. */
static inline double draw_strip(FILE *out, double top, weights w, weights is_state) {
  static const float colour[STATES][3] = { { 0.16f, 0.5f, 0.73f }, { 0.95f, 0.77f, 0.06f }, { 0.75f, 0.22f, 0.17f } };
  static float rgb[HIGH][TIMES][3];
  int n_right = 0;
  for (int i = 0; i < HIGH * TIMES; i++) {
    int k = 0, y = i / TIMES, t = i % TIMES;
    double left = (y + 0.5) / HIGH, most = fmax(fmax(w[t][0], w[t][1]), w[t][2]);
    while (k < STATES - 1 && left > w[t][k]) left -= w[t][k++];
    memcpy(rgb[y][t], colour[k], sizeof colour[k]);
    for (k = 0; y == 0 && k < STATES; k++) n_right += is_state[t][k] == 1 && w[t][k] == most;
  }
  picture_image(out, 10, top, 1.5, TIMES, HIGH, &rgb[0][0][0]);
  return (double)n_right / TIMES;
}
#endif
