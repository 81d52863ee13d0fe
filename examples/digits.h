/* digits.h -- pictures of digits, for something to read. */
#ifndef DIGITS_H
#define DIGITS_H
#include "noise.h"

enum { SIDE = 16 };

/* A digit as bars of a display, turned, stretched, moved, and blurred by noise. */
static inline void draw_digit(int digit, float pixel[SIDE * SIDE]) {
  static const double bar[7][4] = { { 0, 0, 1, 0 }, { 1, 0, 1, 1 }, { 1, 1, 1, 2 }, { 0, 2, 1, 2 },
                                    { 0, 1, 0, 2 }, { 0, 0, 0, 1 }, { 0, 1, 1, 1 } };
  static const int lit[10] = { 63, 6, 91, 79, 102, 109, 125, 7, 127, 111 };
  double turn = 0.2 * normal(), size = 4.5 + uniform(), thick = 0.6 + 0.5 * uniform();
  double x0 = 7.5 + normal(), y0 = 7.5 + normal();
  for (int i = 0; i < SIDE * SIDE; i++) {
    double dx = (i % SIDE - x0) / size, dy = (i / SIDE - y0) / size, far = 9;
    double x = dx * cos(turn) + dy * sin(turn) + 0.5, y = dy * cos(turn) - dx * sin(turn) + 1;
    for (int k = 0; k < 7; k++) {
      if (!(lit[digit] >> k & 1)) continue;
      double px = fmin(fmax(x, bar[k][0]), bar[k][2]), py = fmin(fmax(y, bar[k][1]), bar[k][3]);
      far = fmin(far, hypot(x - px, y - py));
    }
    pixel[i] = (float)(fmin(fmax(thick + 0.5 - far * size, 0), 1) + 0.15 * normal());
  }
}
#endif
