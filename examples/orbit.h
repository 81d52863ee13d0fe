/* orbit.h -- a ship near Earth and Moon, for something to solve: Arenstorf's orbit, which closes after one period. */
#ifndef ORBIT_H
#define ORBIT_H
#include <weft_sugar.h>

enum { N = 4 };                          /* x, y and their speeds, in a frame that turns with Earth and Moon */
static const double moon = 0.012277471;  /* its share of the mass; Earth is at (-moon, 0), the Moon at (1 - moon, 0) */
static const double period = 17.0652165601579625588917206249;
static const double begin[N] = { 0.994, 0, 0, -2.00158510637908252240537862224 };

/* k = dy/dt: the speeds; the pull of both, the centrifugal and the Coriolis force. */
static inline void slope(weft_array *const y[N], weft_array *k[N]) {
  weft_array *to_earth = weft_add(y[0], moon), *to_moon = weft_sub(y[0], 1 - moon), *up2 = weft_square(y[1]);
  weft_array *earth = weft_div(1 - moon, weft_pow(weft_add(weft_square(to_earth), up2), 1.5));
  weft_array *pull = weft_div(moon, weft_pow(weft_add(weft_square(to_moon), up2), 1.5));
  weft_array *both = weft_add(weft_mul(earth, to_earth), weft_mul(pull, to_moon));
  k[0] = y[2], k[1] = y[3];
  k[2] = weft_sub(weft_add(y[0], weft_mul(2, y[3])), both);
  k[3] = weft_sub(weft_sub(y[1], weft_mul(2, y[2])), weft_mul(weft_add(earth, pull), y[1]));
}
#endif
