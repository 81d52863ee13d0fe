/* gpu_fourier.c -- Fourier transforms of rows on a GPU: the passes of op/fourier.h, in its order, all b side by side.
 *
 * A pass is a kernel. A thread has the elements that belong together, or of an odd prime one result. */
#include "backend/cuda/routine.h"
#include "base/radix.h"

/* from: where the thread's first element stands, `rest` before the next; to: its first result, l rest before the next. */
#define PLACE(r)                                                                                                   \
  "  u64 i = u64(block) * 256 + u64(tid);\n"                                                                       \
  "  if (i < all) {\n"                                                                                             \
  "    u64 rest = n / (l * " r ");\n"                                                                              \
  "    u64 each = n / " r ";\n"                                                                                    \
  "    u64 k = i % each / rest;\n"                                                                                 \
  "    u64 from = i / each * n + k * rest * " r " + i % rest;\n"                                                   \
  "    u64 to = i / each * n + k * rest + i % rest;\n"

static const char fourier_text[] =
  "entry fourier_two(T* re, T* im, T* to_re, T* to_im, T* turns, u64 sines, u64 n, u64 l, u64 has_im, u64 all) {\n"
  PLACE("2")
  WRITTEN(
    T a0 = re[from];
    T a1 = re[from + rest];
    T b0 = T(0);
    T b1 = T(0);
    if (has_im != 0) { b0 = im[from]; b1 = im[from + rest]; }
    if (l > 1) {
      T c = turns[k];
      T s = turns[sines + k];
      T t = a1 * c - b1 * s;
      b1 = a1 * s + b1 * c;
      a1 = t;
    }
    to_re[to] = a0 + a1;
    to_im[to] = b0 + b1;
    to_re[to + l * rest] = a0 - a1;
    to_im[to + l * rest] = b0 - b1;
  }
}
  )
  "entry fourier_four(T* re, T* im, T* to_re, T* to_im, T* turns, u64 sines, u64 n, u64 l, u64 has_im, u64 all) {\n"
  PLACE("4")
  WRITTEN(
    T a[4];
    T b[4];
    repeat (v, 4) { a[v] = re[from + v * rest]; b[v] = T(0); }
    if (has_im != 0) { repeat (v, 4) { b[v] = im[from + v * rest]; } }
    if (l > 1) {
      repeat (v, 3) {
        T c = turns[v * l + k];
        T s = turns[sines + v * l + k];
        T t = a[v + 1] * c - b[v + 1] * s;
        b[v + 1] = a[v + 1] * s + b[v + 1] * c;
        a[v + 1] = t;
      }
    }
    T ar = a[0] + a[2];
    T ai = b[0] + b[2];
    T br = a[0] - a[2];
    T bi = b[0] - b[2];
    T cr = a[1] + a[3];
    T ci = b[1] + b[3];
    T dr = a[1] - a[3];
    T di = b[1] - b[3];
    u64 step = l * rest;
    to_re[to] = ar + cr;
    to_im[to] = ai + ci;
    to_re[to + step] = br + di;
    to_im[to + step] = bi - dr;
    to_re[to + 2 * step] = ar - cr;
    to_im[to + 2 * step] = ai - ci;
    to_re[to + 3 * step] = br - di;
    to_im[to + 3 * step] = bi + dr;
  }
}
  )
  WRITTEN(
entry fourier_prime(T* re, T* im, T* to_re, T* to_im, T* turns, u64 sines, u64 n, u64 l, u64 has_im, u64 r, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    u64 rest = n / (l * r);
    u64 by = i % n / rest;
    u64 from = i / n * n + by % l * rest * r + i % rest;
    T a = re[from];
    T b = T(0);
    if (has_im != 0) { b = im[from]; }
    u64 v = 1;
    u64 j = by;
    while (v < r) {
      from = from + rest;
      T c = turns[j];
      T s = turns[sines + j];
      T x = re[from];
      T y = T(0);
      if (has_im != 0) { y = im[from]; }
      a = a + (x * c - y * s);
      b = b + (x * s + y * c);
      j = j + by;
      if (j >= l * r) { j = j - l * r; }
      v = v + 1;
    }
    to_re[i] = a;
    to_im[i] = b;
  }
}
entry fourier_one(T* re, T* im, T* to_re, T* to_im, u64 has_im, u64 all) {
  u64 i = u64(block) * 256 + u64(tid);
  if (i < all) {
    to_re[i] = re[i];
    to_im[i] = T(0);
    if (has_im != 0) { to_im[i] = im[i]; }
  }
}
  );

/* One pass over all rows. */
static int go(struct gpu *g, struct routine_module *m, int64_t r, int64_t l, int64_t n, int64_t all, const uint64_t from[2],
              const uint64_t to[2], uint64_t turns, int64_t sines) {
  bool has_im = from[1] != 0;
  int64_t threads = radix_is_prime(r) ? all : all / r;
  if (radix_is_prime(r))
    return LAUNCH(g, m, "fourier_prime", (threads - 1) / 256 + 1, 256, from[0], from[1], to[0], to[1], turns, (uint64_t)sines,
                  (uint64_t)n, (uint64_t)l, has_im, (uint64_t)r, (uint64_t)threads);
  return LAUNCH(g, m, r == 4 ? "fourier_four" : "fourier_two", (threads - 1) / 256 + 1, 256, from[0], from[1], to[0], to[1], turns,
                (uint64_t)sines, (uint64_t)n, (uint64_t)l, has_im, (uint64_t)threads);
}

/* Arrays: re, im if it is there, turns, and both parts of the result. */
int fourier_there(struct gpu *g, const struct routine_call *c, bool only_asks) {
  bool has_im = c->n_arrays == 5;
  const struct routine_array *x = c->array, *turns = &x[1 + has_im], *y = turns + 1;
  int64_t n = routine_last(x, 1), all = 1, sines = routine_last(turns, 1) / 2;
  size_t width = x->dtype == WEFT_F64 ? 8 : 4;
  const struct written_name names[] = { { "T", 0, x->dtype == WEFT_F64 ? "f64" : "f32" }, { NULL, 0, NULL } };
  struct routine_room room = { .gpu = g };
  struct routine_module *m;
  uint64_t from[2] = { x[0].at, has_im ? x[1].at : 0 }, half[2][2] = { { 0 } }, at = turns->at;
  for (int k = 0; k < x->rank; k++) all *= x->dims[k];
  if (all / 256 >= INT32_MAX) return DEVICE_CANNOT;
  int how = routine_load(g, fourier_text, names, &m);
  if (how || only_asks || !all) return how;
  if (n == 1)
    return LAUNCH(g, m, "fourier_one", (all - 1) / 256 + 1, 256, from[0], from[1], y[0].at, y[1].at, has_im, (uint64_t)all);
  for (int k = 0; !how && k < 4; k++) how = room_take(&room, (size_t)all * width, &half[k / 2][k % 2]);
  int next = 0;
  for (int64_t l = 1, r; !how && l < n; l *= r, next = !next) {
    r = radix_next(n / l);
    const uint64_t last[2] = { y[0].at, y[1].at }, *to = l * r == n ? last : half[next];
    how = go(g, m, r, l, n, all, from, to, at, sines);
    at += (uint64_t)radix_turns(l, r) * width, from[0] = half[next][0], from[1] = half[next][1];
  }
  return room_give(&room), how;
}
