/* views.c -- reads that do not go straight: backwards, every third, transposed, by index; adding by index. */
#include <string.h>
#include "tables.h"
#include "vec.h"

enum { BLOCK = 4 * LANES };

static void reversed(const struct task *t, int part, int parts) {
  int64_t n = t->rows * t->cols, hi = part_begin(n, BLOCK, part + 1, parts);
  for (int64_t i = part_begin(n, BLOCK, part, parts); i < hi; i += LANES)
    v_put(t->out[0] + i, v_set(2) * v_reverse(v_load(t->in[0] + n - LANES - i)), t->is_large);
  _mm_sfence();
}

static void thirds(const struct task *t, int part, int parts) {
  int64_t n = (t->rows * t->cols + 2) / 3, hi = part + 1 < parts ? part_begin(n, BLOCK, part + 1, parts) : n;
  int64_t i = part_begin(n, BLOCK, part, parts);
  for (; i + LANES < hi; i += LANES) v_put(t->out[0] + i, v_set(2) * v_every_third(t->in[0] + 3 * i), t->is_large);
  for (; i < hi; i++) t->out[0][i] = 2 * t->in[0][3 * i];
  _mm_sfence();
}

/* Panels of 64 rows; the columns they need are fetched two tiles ahead. */
static void plus_transposed(const struct task *t, int part, int parts) {
  enum { PANEL = 64 };
  int64_t n = t->cols, hi = part_begin(n, PANEL, part + 1, parts);
  const float *x = t->in[0];
  for (int64_t i = part_begin(n, PANEL, part, parts); i < hi; i += PANEL)
    for (int64_t j = 0; j < n; j += LANES) {
      for (int k = 0; k < LANES; k++)
        for (int p = 0; p < PANEL; p += 16) _mm_prefetch((const char *)(x + (j + 2 * LANES + k) % n * n + i + p), _MM_HINT_T0);
      for (int64_t p = i; p < i + PANEL; p += LANES) {
        vec tile[LANES];
        for (int k = 0; k < LANES; k++) tile[k] = v_load(x + (j + k) * n + p);
        v_transpose(tile);
        for (int k = 0; k < LANES; k++) v_put(t->out[0] + (p + k) * n + j, v_load(x + (p + k) * n + j) + tile[k], t->is_large);
      }
    }
  _mm_sfence();
}

/* Indices lead cols * rows / 4 elements; fetched 64 ahead. */
static void gathered(const struct task *t, int part, int parts) {
  enum { AHEAD = 64 };
  int64_t n = t->rows * t->cols / 4, hi = part_begin(n, BLOCK, part + 1, parts);
  for (int64_t i = part_begin(n, BLOCK, part, parts); i < hi; i += LANES) {
    float some[LANES] __attribute__((aligned(64)));
    for (int k = 0; k < LANES && i + AHEAD + k < n; k++) _mm_prefetch((const char *)(t->in[0] + t->index[i + AHEAD + k]), _MM_HINT_T1);
    for (int k = 0; k < LANES; k++) some[k] = t->in[0][t->index[i + k]];
    v_put(t->out[0] + i, v_load(some), t->is_large);
  }
  _mm_sfence();
}

/* Sums of the elements of each of the `cols` slots, a copy a part. With several copies in turn, so that a slot met twice in a
 * row does not wait, it takes longer. */
static void scattered(const struct task *t, int part, int parts) {
  int64_t n = t->rows * t->cols, slots = t->cols, hi = part_begin(n, BLOCK, part + 1, parts);
  float *sum = t->room + part * slots;
  memset(sum, 0, sizeof *sum * (size_t)slots);
  for (int64_t i = part_begin(n, BLOCK, part, parts); i < hi; i++) sum[t->index[i]] += t->in[0][i];
}
static void add_slots(const struct task *t, int parts) {
  for (int64_t s = 0; s < t->cols; s += LANES) {
    vec sum = v_load(t->room + s);
    for (int p = 1; p < parts; p++) sum += v_load(t->room + p * t->cols + s);
    v_store(t->out[0] + s, sum);
  }
}

const struct hand HAND(views)[] = {
  { "2*x[::-1]", { reversed } }, { "2*x[::3]", { thirds } },
  { "x + x.T", { plus_transposed } }, { "gather", { gathered } },
  { "scatter-add, contended", { scattered }, add_slots }, { 0 },
};
