/* drift.h -- something that drifts about, for something to follow: its way, what is seen of it, and a picture. */
#ifndef DRIFT_H
#define DRIFT_H
#include "noise.h"
#include "picture.h"

enum { TIMES = 400, LOST = 225, FOUND = 245, SCALE = 7, N = 2 };
static const char *const name[N] = { "push", "blur" };
static const double truth[N] = { 0.15, 1 }; /* deviations of a push, which changes the speed, and of a measurement */
static const double move[4] = { 1, 1, 0, 0.98 }; /* of place and speed, in a step: place += speed, speed *= 0.98 */

/* Something drifts about; it is measured at all times, but not from LOST on until it is FOUND again. */
static inline void simulate(double way[TIMES][2], double z[TIMES][2], _Bool is_seen[TIMES]) {
  double speed[2] = { 0, 0 };
  for (int t = 0; t < TIMES; t++) {
    is_seen[t] = t < LOST || t >= FOUND;
    for (int k = 0; k < 2; k++) {
      speed[k] = move[3] * speed[k] + truth[0] * normal();
      way[t][k] = (t ? way[t - 1][k] : 0) + speed[k];
      z[t][k] = way[t][k] + truth[1] * normal();
    }
  }
}

/* The arrays of places become the picture's coordinates. */
static inline void draw(FILE *out, double way[TIMES][2], double z[TIMES][2], const _Bool is_seen[TIMES],
                        double place[TIMES][2], const double variance[TIMES]) {
  for (int i = 0; i < TIMES; i++)
    for (int k = 0; k < 2; k++) {
      double *at[3] = { way[i], z[i], place[i] };
      for (int j = 0; j < 3; j++) at[j][k] = (k ? 320 : 650) + SCALE * at[j][k];
    }
  for (int i = 0; i < TIMES; i += 3)
    picture_dot(out, place[i][0], place[i][1], 2 * SCALE * sqrt(variance[i]), "rgba(93,173,226,0.09)");
  for (int i = 0; i < TIMES; i++)
    if (is_seen[i]) picture_dot(out, z[i][0], z[i][1], 2, "#85929e");
  picture_line(out, TIMES, way, 2, "#c0392b");
  picture_line(out, TIMES, place, 2, "#1a5276");
  picture_text(out, 14, 504, "#000", "its way (red), what was seen (dots), the estimate and two deviations (blue)");
}
#endif
