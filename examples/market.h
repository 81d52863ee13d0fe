/* market.h -- daily returns, for something to fit: simulated by an AR(1) model with GARCH(1,1) variance, and drawn. */
#ifndef MARKET_H
#define MARKET_H
#include "chart.h"
#include "noise.h"

enum { DAYS = 2000, SHOWN = 1000, N = 5 };
static const char *const name[N] = { "mu", "phi", "omega", "alpha", "beta" };
static const double truth[N] = { 0.05, 0.15, 0.05, 0.18, 0.78 };

/* Returns r and their variances v. */
static inline void simulate(double r[DAYS], double v[DAYS]) {
  for (int t = 0; t < DAYS; t++) {
    double e = t ? r[t - 1] - truth[0] - truth[1] * (t > 1 ? r[t - 2] : 0) : 0;
    v[t] = t ? truth[2] + truth[3] * e * e + truth[4] * v[t - 1] : truth[2] / (1 - truth[3] - truth[4]);
    r[t] = truth[0] + truth[1] * (t ? r[t - 1] : 0) + sqrt(v[t]) * normal();
  }
}

/* The returns of one series, and twice their deviation: as it was, and as it was fitted. */
static inline void draw_days(FILE *out, const double r[], const double v[], const double fitted[]) {
  static double edge[4][SHOWN];
  struct chart c = { out, 10, 30, 880, 230, -6.5, 6.5 };
  for (int t = 0; t < SHOWN; t++)
    for (int k = 0; k < 4; k++) edge[k][t] = (k % 2 ? 2 : -2) * sqrt(k < 2 ? fitted[t] : v[t + 1]);
  chart_band(&c, SHOWN, edge[0], edge[1], "#bcd6ea");
  chart_curve(&c, SHOWN, r + 1, 0.8, "#333");
  for (int k = 2; k < 4; k++) chart_curve(&c, SHOWN, edge[k], 1.2, "#c0392b");
  picture_text(out, 10, 20, "#000", "daily returns, and twice their deviation: real (red), fitted (blue)");
}
#endif
