/* rows.c -- softmax, norms and their gradients along rows.
 *
 * A row of at most 8 vectors stays in registers; a longer one is read from cache a second time, and the row after it is
 * fetched meanwhile. Gradients of the weights are summed in a copy a part, and the copies added at the end. */
#include <string.h>
#include "tables.h"
#include "vec.h"

#define EPS 1e-5f

struct row { const float *x, *g; float *y; };

INLINE struct row row_at(const struct task *t, int64_t r, int gradient) {
  int64_t at = r * t->cols;
  return (struct row){ t->in[0] + at, gradient ? t->in[2] + at : NULL, t->out[0] + at };
}

INLINE void fetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* Runs BODY(t, r, n_vecs, is_large) for the rows of a part, n_vecs a constant where it is small: 0: a long row. */
#define OVER_ROWS(name, body)                                                                        \
  INLINE void name##_sized(const struct task *t, int part, int parts, int n, bool is_large) {        \
    int64_t hi = part_begin(t->rows, 1, part + 1, parts);                                            \
    for (int64_t r = part_begin(t->rows, 1, part, parts); r < hi; r++) body(t, r, n, is_large);      \
    _mm_sfence();                                                                                    \
  }                                                                                                  \
  static void name(const struct task *t, int part, int parts) {                                      \
    switch (t->cols / LANES * 2 + t->is_large) {                                                     \
      case 2: return name##_sized(t, part, parts, 1, false);                                         \
      case 3: return name##_sized(t, part, parts, 1, true);                                          \
      case 4: return name##_sized(t, part, parts, 2, false);                                         \
      case 5: return name##_sized(t, part, parts, 2, true);                                          \
      case 8: return name##_sized(t, part, parts, 4, false);                                         \
      case 9: return name##_sized(t, part, parts, 4, true);                                          \
      case 16: return name##_sized(t, part, parts, 8, false);                                        \
      case 17: return name##_sized(t, part, parts, 8, true);                                         \
    }                                                                                                \
    if (t->is_large) name##_sized(t, part, parts, 0, true);                                          \
    else name##_sized(t, part, parts, 0, false);                                                     \
  }

/* ---- softmax ---- */

INLINE void softmax_short(const struct row *w, int n, bool is_large) {
  vec x[8], top = v_load(w->x), sum = v_set(0);
  for (int k = 0; k < n; k++) x[k] = v_load(w->x + k * LANES), top = v_max(top, x[k]);
  top = v_set(v_top(top));
  for (int k = 0; k < n; k++) x[k] = v_exp(x[k] - top), sum += x[k];
  vec scale = v_set(1 / v_sum(sum));
  for (int k = 0; k < n; k++) v_put(w->y + k * LANES, x[k] * scale, is_large);
}

INLINE void softmax_row(const struct task *t, int64_t r, int n, bool is_large) {
  float e[16384] __attribute__((aligned(64)));
  struct row w = row_at(t, r, 0);
  if (n) return softmax_short(&w, n, is_large);
  int64_t cols = t->cols;
  vec top[4] = { v_load(w.x), v_load(w.x), v_load(w.x), v_load(w.x) }, sum[2] = { v_set(0), v_set(0) };
  for (int64_t c = 0; c < cols; c += 4 * LANES)
    for (int k = 0; k < 4; k++) top[k] = v_max(top[k], v_load(w.x + c + k * LANES));
  vec m = v_set(v_top(v_max(v_max(top[0], top[1]), v_max(top[2], top[3]))));
  for (int64_t c = 0; c < cols; c += 2 * LANES)
    for (int k = 0; k < 2; k++) {
      fetch(w.x + cols + c + k * LANES);
      vec y = v_exp(v_load(w.x + c + k * LANES) - m);
      v_store(e + c + k * LANES, y), sum[k] += y;
    }
  vec scale = v_set(1 / v_sum(sum[0] + sum[1]));
  for (int64_t c = 0; c < cols; c += 2 * LANES)
    for (int k = 0; k < 2; k++) v_put(w.y + c + k * LANES, v_load(e + c + k * LANES) * scale, is_large);
}
OVER_ROWS(softmax, softmax_row)

/* ---- norms ---- */

INLINE vec sum_of(const float *x, int64_t cols) {
  vec s[4] = { v_set(0), v_set(0), v_set(0), v_set(0) };
  int at_once = cols < 4 * LANES ? 1 : 4;
  for (int64_t c = 0; c < cols; c += at_once * LANES)
    for (int k = 0; k < at_once; k++) s[k] += v_load(x + c + k * LANES);
  return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE vec squares_of(const float *x, vec mean, int64_t cols) {
  vec s[4] = { v_set(0), v_set(0), v_set(0), v_set(0) };
  int at_once = cols < 4 * LANES ? 1 : 4;
  for (int64_t c = 0; c < cols; c += at_once * LANES)
    for (int k = 0; k < at_once; k++) {
      vec d = v_load(x + c + k * LANES) - mean;
      s[k] = v_fma(d, d, s[k]);
    }
  return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE void rms_row(const struct task *t, int64_t r, int n, bool is_large) {
  struct row w = row_at(t, r, 0);
  int64_t cols = n ? n * LANES : t->cols;
  vec scale = v_set(1 / sqrtf(v_sum(squares_of(w.x, v_set(0), cols)) / (float)cols + EPS));
  for (int64_t c = 0; c < cols; c += LANES) {
    if (!n) fetch(w.x + cols + c);
    v_put(w.y + c, v_load(w.x + c) * scale * v_load(t->in[1] + c), is_large);
  }
}
OVER_ROWS(rms, rms_row)

INLINE void layer_row(const struct task *t, int64_t r, int n, bool is_large) {
  struct row w = row_at(t, r, 0);
  int64_t cols = n ? n * LANES : t->cols;
  vec mean = v_set(v_sum(sum_of(w.x, cols)) / (float)cols);
  vec scale = v_set(1 / sqrtf(v_sum(squares_of(w.x, mean, cols)) / (float)cols + EPS));
  for (int64_t c = 0; c < cols; c += LANES) {
    if (!n) fetch(w.x + cols + c);
    v_put(w.y + c, v_fma((v_load(w.x + c) - mean) * scale, v_load(t->in[1] + c), v_load(t->in[2] + c)), is_large);
  }
}
OVER_ROWS(layer, layer_row)

/* ---- gradients: inputs x, w, dy; outputs dx, dw (, db) ---- */

enum { COPIES = 2 }; /* of a part: dw and db */

static float *copy_of(const struct task *t, int part, int which) { return t->room + (part * COPIES + which) * t->cols; }

INLINE void start(const struct task *t, int part) { memset(copy_of(t, part, 0), 0, sizeof(float) * COPIES * (size_t)t->cols); }

static void add_copies(const struct task *t, int parts, int n) {
  for (int k = 0; k < n; k++)
    for (int64_t c = 0; c < t->cols; c += LANES) {
      vec s = v_load(copy_of(t, 0, k) + c);
      for (int p = 1; p < parts; p++) s += v_load(copy_of(t, p, k) + c);
      v_store(t->out[1 + k] + c, s);
    }
}
static void add_weights(const struct task *t, int parts) { add_copies(t, parts, 1); }
static void add_weights_and_bias(const struct task *t, int parts) { add_copies(t, parts, 2); }

/* Two rows at a time share the load and the store of dw. */
INLINE void rms_grad_rows(const struct task *t, int64_t r, float *dw, int n, int rows, bool is_large) {
  int64_t cols = n ? n * LANES : t->cols;
  vec scale[2], slope[2];
  for (int u = 0; u < rows; u++) {
    struct row w = row_at(t, r + u, 1);
    vec square[2] = { v_set(0), v_set(0) }, dot[2] = { v_set(0), v_set(0) };
    int at_once = cols < 2 * LANES ? 1 : 2;
    for (int64_t c = 0; c < cols; c += at_once * LANES)
      for (int k = 0; k < at_once; k++) {
        vec x = v_load(w.x + c + k * LANES), gw = v_load(w.g + c + k * LANES) * v_load(t->in[1] + c + k * LANES);
        square[k] = v_fma(x, x, square[k]), dot[k] = v_fma(x, gw, dot[k]);
      }
    float q = 1 / sqrtf(v_sum(square[0] + square[1]) / (float)cols + EPS);
    scale[u] = v_set(q), slope[u] = v_set(-q * q * q / (float)cols * v_sum(dot[0] + dot[1]));
  }
  for (int64_t c = 0; c < cols; c += LANES) {
    vec weight = v_load(t->in[1] + c), sum = v_load(dw + c);
    for (int u = 0; u < rows; u++) {
      struct row w = row_at(t, r + u, 1);
      if (!n) fetch(w.x + rows * cols + c), fetch(w.g + rows * cols + c);
      vec x = v_load(w.x + c), g = scale[u] * v_load(w.g + c);
      sum = v_fma(g, x, sum);
      v_put(w.y + c, v_fma(x, slope[u], g * weight), is_large);
    }
    v_store(dw + c, sum);
  }
}

INLINE void layer_grad_row(const struct task *t, int64_t r, float *dw, float *db, int n, bool is_large) {
  struct row w = row_at(t, r, 1);
  int64_t cols = n ? n * LANES : t->cols;
  vec mean = v_set(v_sum(sum_of(w.x, cols)) / (float)cols), square = v_set(0), sum_k = square, dot = square;
  for (int64_t c = 0; c < cols; c += LANES) {
    vec d = v_load(w.x + c) - mean, k = v_load(w.g + c) * v_load(t->in[1] + c);
    square = v_fma(d, d, square), sum_k += k, dot = v_fma(k, d, dot);
  }
  float q = 1 / sqrtf(v_sum(square) / (float)cols + EPS), p = v_sum(sum_k) / (float)cols;
  vec scale = v_set(q), shift = v_set(p), slope = v_set(q * v_sum(dot) / (float)cols);
  for (int64_t c = 0; c < cols; c += LANES) {
    if (!n) fetch(w.x + cols + c), fetch(w.g + cols + c);
    vec h = (v_load(w.x + c) - mean) * scale, g = v_load(w.g + c);
    v_store(dw + c, v_fma(g, h, v_load(dw + c)));
    v_store(db + c, g + v_load(db + c));
    v_put(w.y + c, scale * (v_fma(g, v_load(t->in[1] + c), -shift) - h * slope), is_large);
  }
}

INLINE void rms_grad_sized(const struct task *t, int part, int parts, int n, bool is_large) {
  int64_t r = part_begin(t->rows, 1, part, parts), hi = part_begin(t->rows, 1, part + 1, parts);
  start(t, part);
  for (; r + 1 < hi; r += 2) rms_grad_rows(t, r, copy_of(t, part, 0), n, 2, is_large);
  if (r < hi) rms_grad_rows(t, r, copy_of(t, part, 0), n, 1, is_large);
  _mm_sfence();
}

INLINE void layer_grad_sized(const struct task *t, int part, int parts, int n, bool is_large) {
  int64_t hi = part_begin(t->rows, 1, part + 1, parts);
  start(t, part);
  for (int64_t r = part_begin(t->rows, 1, part, parts); r < hi; r++)
    layer_grad_row(t, r, copy_of(t, part, 0), copy_of(t, part, 1), n, is_large);
  _mm_sfence();
}

#define GRADIENT(name)                                                          \
  static void name(const struct task *t, int part, int parts) {                 \
    if (t->cols == 64 && t->is_large) name##_sized(t, part, parts, 64 / LANES, true); \
    else if (t->is_large) name##_sized(t, part, parts, 0, true);                \
    else name##_sized(t, part, parts, 0, false);                                \
  }
GRADIENT(rms_grad)
GRADIENT(layer_grad)

const struct hand HAND(rows)[] = {
  { "softmax", { softmax } },
  { "rms_norm", { rms } },
  { "layer_norm", { layer } },
  { "rms_norm gradient", { rms_grad }, add_weights },
  { "layer_norm gradient", { layer_grad }, add_weights_and_bias },
  { 0 },
};
