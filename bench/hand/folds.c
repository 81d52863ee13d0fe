/* folds.c -- sums over rows, columns and all, logsumexp over columns, running sums. */
#include <string.h>
#include "tables.h"
#include "vec.h"

INLINE vec sum_run(const float *x, int64_t n) {
  vec s[8];
  for (int k = 0; k < 8; k++) s[k] = v_set(0);
  for (int64_t i = 0; i < n; i += 8 * LANES)
    for (int k = 0; k < 8; k++) s[k] += v_load(x + i + k * LANES);
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

enum { RUN = 8 * LANES };

/* ---- all of it ---- */

static void sum_all(const struct task *t, int part, int parts) {
  int64_t n = t->rows * t->cols, lo = part_begin(n, RUN, part, parts);
  t->room[part * 16] = v_sum(sum_run(t->in[0] + lo, part_begin(n, RUN, part + 1, parts) - lo));
}
static void add_parts(const struct task *t, int parts) {
  t->out[0][0] = 0;
  for (int p = 0; p < parts; p++) t->out[0][0] += t->room[p * 16];
}

/* ---- rows ---- */

static void sum_rows(const struct task *t, int part, int parts) {
  int64_t hi = part_begin(t->rows, 1, part + 1, parts);
  for (int64_t r = part_begin(t->rows, 1, part, parts); r < hi; r++) t->out[0][r] = v_sum(sum_run(t->in[0] + r * t->cols, t->cols));
}

/* ---- columns: a part adds its rows, 8 at a time ---- */

enum { AT_ONCE = 8 };

static void sum_columns(const struct task *t, int part, int parts) {
  float *sum = t->room + part * t->cols;
  int64_t hi = part_begin(t->rows, AT_ONCE, part + 1, parts);
  memset(sum, 0, sizeof *sum * (size_t)t->cols);
  for (int64_t r = part_begin(t->rows, AT_ONCE, part, parts); r < hi; r += AT_ONCE)
    for (int64_t c = 0; c < t->cols; c += LANES) {
      const float *x = t->in[0] + r * t->cols + c;
      vec s = v_load(sum + c);
      for (int k = 0; k < AT_ONCE; k++) s += v_load(x + k * t->cols);
      v_store(sum + c, s);
    }
}
static void add_columns(const struct task *t, int parts) {
  for (int64_t c = 0; c < t->cols; c += LANES) {
    vec s = v_load(t->room + c);
    for (int p = 1; p < parts; p++) s += v_load(t->room + p * t->cols + c);
    v_store(t->out[0] + c, s);
  }
}

/* ---- logsumexp of columns: the largest so far, and the sum relative to it ---- */

static void lse_columns(const struct task *t, int part, int parts) {
  float *top = t->room + 2 * part * t->cols, *sum = top + t->cols;
  int64_t hi = part_begin(t->rows, AT_ONCE, part + 1, parts);
  for (int64_t c = 0; c < t->cols; c += LANES) v_store(top + c, v_set(-1e30f)), v_store(sum + c, v_set(0));
  for (int64_t r = part_begin(t->rows, AT_ONCE, part, parts); r < hi; r += AT_ONCE)
    for (int64_t c = 0; c < t->cols; c += LANES) {
      const float *x = t->in[0] + r * t->cols + c;
      vec v[AT_ONCE], old = v_load(top + c), m = old;
      for (int k = 0; k < AT_ONCE; k++) v[k] = v_load(x + k * t->cols), m = v_max(m, v[k]);
      vec s = v_load(sum + c) * v_exp(old - m), other = v_set(0);
      for (int k = 0; k < AT_ONCE; k += 2) s += v_exp(v[k] - m), other += v_exp(v[k + 1] - m);
      v_store(top + c, m), v_store(sum + c, s + other);
    }
}
static void lse_merge(const struct task *t, int parts) {
  for (int64_t c = 0; c < t->cols; c += LANES) {
    vec m = v_load(t->room + c), s = v_load(t->room + t->cols + c);
    for (int p = 1; p < parts; p++) {
      const float *at = t->room + 2 * p * t->cols + c;
      vec other = v_load(at), both = v_max(m, other);
      s = s * v_exp(m - both) + v_load(at + t->cols) * v_exp(other - both), m = both;
    }
    v_store(t->out[0] + c, m + v_log(s));
  }
}

/* ---- running sums: parts first add what they have, then start from the sum of those before ---- */

enum { QUAD = 4 * LANES };

static void part_sums(const struct task *t, int part, int parts) {
  int64_t n = t->rows * t->cols, lo = part_begin(n, RUN, part, parts);
  if (part + 1 < parts) t->room[part * 16] = v_sum(sum_run(t->in[0] + lo, part_begin(n, RUN, part + 1, parts) - lo));
}
static void running(const struct task *t, int part, int parts) {
  int64_t n = t->rows * t->cols, hi = part_begin(n, RUN, part + 1, parts);
  vec before = v_set(0);
  for (int p = 0; p < part; p++) before += v_set(t->room[p * 16]);
  for (int64_t i = part_begin(n, RUN, part, parts); i < hi; i += QUAD)
    for (int k = 0; k < QUAD; k += LANES) {
      vec x = v_prefix(v_load(t->in[0] + i + k));
      v_put(t->out[0] + i + k, x + before, t->is_large);
      before += v_last(x);
    }
  _mm_sfence();
}

const struct hand HAND(folds)[] = {
  { "sum all", { sum_all }, add_parts },         { "sum axis 1", { sum_rows } },
  { "sum axis 0", { sum_columns }, add_columns }, { "logsumexp axis 0", { lse_columns }, lse_merge },
  { "cumsum", { part_sums, running } },          { 0 },
};
