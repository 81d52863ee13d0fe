/* loops.c -- loops over time: state in registers, batch columns or rows split over the parts. */
#include "tables.h"
#include "vec.h"

enum { WIDTH = 8, SPAN = WIDTH * LANES };

/* ---- y_t = 0.5 y_{t-1} - 0.2 y_{t-2} + e_t, by columns ---- */

INLINE void ar_forward(const struct task *t, int64_t col, float *y, int64_t step, bool is_large) {
  vec one[WIDTH], two[WIDTH];
  for (int k = 0; k < WIDTH; k++) one[k] = two[k] = v_set(0);
  for (int64_t r = 0; r < t->rows; r++)
    for (int k = 0; k < WIDTH; k++) {
      vec e = v_load(t->in[0] + r * t->cols + col + k * LANES);
      vec now = v_fma(v_set(0.5f), one[k], v_fnma(v_set(0.2f), two[k], e));
      two[k] = one[k], one[k] = now;
      v_put(y + r * step + k * LANES, now, is_large);
    }
}

static void ar(const struct task *t, int part, int parts) {
  int64_t hi = part_begin(t->cols, SPAN, part + 1, parts);
  for (int64_t c = part_begin(t->cols, SPAN, part, parts); c < hi; c += SPAN) ar_forward(t, c, t->out[0] + c, t->cols, true);
  _mm_sfence();
}

/* de of sum y^2: forwards into room of the part's own, then backwards. */
static void ar_grad(const struct task *t, int part, int parts) {
  int64_t hi = part_begin(t->cols, SPAN, part + 1, parts);
  for (int64_t c = part_begin(t->cols, SPAN, part, parts); c < hi; c += SPAN) {
    float *y = t->room + c * t->rows;
    vec one[WIDTH], two[WIDTH];
    ar_forward(t, c, y, SPAN, false);
    for (int k = 0; k < WIDTH; k++) one[k] = two[k] = v_set(0);
    for (int64_t r = t->rows - 1; r >= 0; r--)
      for (int k = 0; k < WIDTH; k++) {
        vec now = v_fma(v_set(2), v_load(y + r * SPAN + k * LANES), v_fma(v_set(0.5f), one[k], v_set(-0.2f) * two[k]));
        two[k] = one[k], one[k] = now;
        v_stream(t->out[0] + r * t->cols + c + k * LANES, now);
      }
  }
  _mm_sfence();
}

/* ---- h_t = tanh(x_t W + h_{t-1} U), [batch, n] x [n, n], by rows of the batch ---- */

enum { TILE_ROWS = 4, TILE_VECS = LANES == 16 ? 4 : 2 };

INLINE void multiply(vec acc[TILE_ROWS][TILE_VECS], const float *a, const float *b, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    vec line[TILE_VECS];
    for (int j = 0; j < TILE_VECS; j++) line[j] = v_load(b + k * n + j * LANES);
    for (int i = 0; i < TILE_ROWS; i++)
      for (int j = 0; j < TILE_VECS; j++) acc[i][j] = v_fma(v_set(a[i * n + k]), line[j], acc[i][j]);
  }
}

static void rnn(const struct task *t, int part, int parts) {
  int64_t n = t->cols, hi = part_begin(n, TILE_ROWS, part + 1, parts); /* the batch is as large as the state */
  for (int64_t step = 0; step < t->rows; step++)
    for (int64_t r = part_begin(n, TILE_ROWS, part, parts); r < hi; r += TILE_ROWS)
      for (int64_t c = 0; c < n; c += TILE_VECS * LANES) {
        vec acc[TILE_ROWS][TILE_VECS];
        float *h = t->out[0] + (step * n + r) * n;
        for (int i = 0; i < TILE_ROWS; i++)
          for (int j = 0; j < TILE_VECS; j++) acc[i][j] = v_set(0);
        multiply(acc, t->in[0] + (step * n + r) * n, t->in[1] + c, n);
        if (step) multiply(acc, h - n * n, t->in[2] + c, n);
        for (int i = 0; i < TILE_ROWS; i++)
          for (int j = 0; j < TILE_VECS; j++) v_store(h + i * n + c + j * LANES, v_tanh(acc[i][j]));
      }
}

/* ---- x = 0.999 x + 0.001, rows times ---- */

static void steps(const struct task *t, int part, int parts) {
  int64_t hi = part_begin(t->cols, SPAN, part + 1, parts);
  for (int64_t c = part_begin(t->cols, SPAN, part, parts); c < hi; c += SPAN) {
    vec x[WIDTH], scale = v_set(0.999f), shift = v_set(0.001f);
    for (int k = 0; k < WIDTH; k++) x[k] = v_load(t->in[0] + c + k * LANES);
    for (int64_t r = 0; r < t->rows; r++)
      for (int k = 0; k < WIDTH; k++) x[k] = x[k] * scale + shift;
    for (int k = 0; k < WIDTH; k++) v_store(t->out[0] + c + k * LANES, x[k]);
  }
}

const struct hand HAND(loops)[] = {
  { "AR(2) scan", { ar } }, { "AR(2) scan gradient", { ar_grad } }, { "RNN scan", { rnn } }, { "while", { steps } }, { 0 },
};
