/* chart.h -- a rectangle of a picture with a scale: values against their index, as a curve or as a band between two. */
#ifndef CHART_H
#define CHART_H
#include "picture.h"

struct chart { FILE *out; double left, top, width, height, low, high; }; /* low is at the bottom */

static inline void chart_place(const struct chart *c, int i, int n, double y, double at[2]) {
  at[0] = c->left + c->width * i / (n > 1 ? n - 1 : 1);
  at[1] = c->top + c->height * (c->high - y) / (c->high - c->low);
}

static inline void chart_curve(const struct chart *c, int n, const double y[], double width, const char *stroke) {
  double(*at)[2] = malloc((size_t)n * sizeof *at);
  for (int i = 0; at && i < n; i++) chart_place(c, i, n, y[i], at[i]);
  if (at) picture_line(c->out, n, at, width, stroke);
  free(at);
}

static inline void chart_band(const struct chart *c, int n, const double a[], const double b[], const char *fill) {
  double(*at)[2] = malloc(2 * (size_t)n * sizeof *at);
  for (int i = 0; at && i < n; i++) chart_place(c, i, n, a[i], at[i]), chart_place(c, i, n, b[i], at[2 * n - 1 - i]);
  if (at) picture_area(c->out, 2 * n, at, fill);
  free(at);
}
#endif
