/* elements.c -- element by element: one pass over contiguous memory. */
#include "tables.h"
#include "vec.h"

enum { UNROLL = 4, BLOCK = UNROLL * LANES };

INLINE vec gelu(vec x) { /* x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
  vec u = x * v_fma(x * x, v_set(-2 * 0.797884561f * 0.044715f), v_set(-2 * 0.797884561f));
  return x / (v_set(1) + v_exp(u));
}

/* The body sees a, b, c: vectors of the inputs. */
#define MAP(name, n_in, expression)                                                                        \
  INLINE void name##_stored(const struct task *t, int part, int parts, bool is_large) {                    \
    int64_t n = t->rows * t->cols, hi = part_begin(n, BLOCK, part + 1, parts);                             \
    for (int64_t i = part_begin(n, BLOCK, part, parts); i < hi; i += BLOCK)                                \
      for (int64_t k = i; k < i + BLOCK; k += LANES) {                                                     \
        vec a = v_load(t->in[0] + k), b = n_in > 1 ? v_load(t->in[1] + k) : a;                             \
        vec c = n_in > 2 ? v_load(t->in[2] + k) : a;                                                       \
        (void)b, (void)c;                                                                                  \
        v_put(t->out[0] + k, expression, is_large);                                                        \
      }                                                                                                    \
    _mm_sfence();                                                                                          \
  }                                                                                                        \
  static void name(const struct task *t, int part, int parts) {                                            \
    if (t->is_large) name##_stored(t, part, parts, true);                                                  \
    else name##_stored(t, part, parts, false);                                                             \
  }
MAP(mul_add, 3, a *b + c)
MAP(gelu_add, 2, b + gelu(a))
MAP(exps, 1, v_exp(a))
MAP(logs, 1, v_log(a))
MAP(tanhs, 1, v_tanh(a))
MAP(sines, 1, v_sin(a))
MAP(sigmoids, 1, v_set(1) / (v_set(1) + v_exp(-a)))

/* 200 multiplications and additions on what stays in registers. */
static void chain(const struct task *t, int part, int parts) {
  enum { AT_ONCE = 8 };
  int64_t n = t->rows * t->cols, unit = AT_ONCE * LANES, hi = part_begin(n, unit, part + 1, parts);
  for (int64_t i = part_begin(n, unit, part, parts); i < hi; i += unit) {
    vec x[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++) x[k] = v_load(t->in[0] + i + k * LANES);
    for (int j = 0; j < 200; j++)
      for (int k = 0; k < AT_ONCE; k++) x[k] = x[k] * v_set(0.5f) + v_set((float)(j % 7) * 0.25f);
    for (int k = 0; k < AT_ONCE; k++) v_store(t->out[0] + i + k * LANES, x[k]);
  }
}

const struct hand HAND(elements)[] = {
  { "a*b+c", { mul_add } }, { "gelu+residual", { gelu_add } }, { "exp", { exps } },           { "log", { logs } },
  { "tanh", { tanhs } },    { "sigmoid", { sigmoids } },       { "sin", { sines } },
  { "200 chained ops", { chain } }, { 0 },
};
