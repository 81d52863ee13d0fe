/* fourier.c -- Fourier transforms of rows in memory: their turns, and the passes by vectors (fourier.h). */
#include "op/fourier.h"
#include <math.h>
#include <string.h>

#define IN_VECTORS __attribute__((no_sanitize("address"))) /* local vectors: see codes.c */
#define ALWAYS static inline __attribute__((always_inline)) IN_VECTORS

/* ---- turns ---- */

int64_t fourier_turns(int64_t n) {
  int64_t sum = 0;
  for (int64_t l = 1, r; l < n; l *= r) r = radix_next(n / l), sum += radix_turns(l, r);
  return sum;
}

/* cos and sin of 2 pi j / n of j < n, exact at quarters of a turn: [n] cosines, [n] sines. Where n has eighths, only those of the
 * first are computed. */
static void write_roots(int64_t n, double *c, double *s) {
  int64_t all = n % 8 ? n : n / 8 + 1;
  for (int64_t j = 0; j < all; j++) {
    int64_t quarter = 4 * j / n, rest = 4 * j % n;
    double angle = 1.57079632679489661923 * (double)rest / (double)n, x = cos(angle), y = sin(angle);
    c[j] = quarter == 0 ? x : quarter == 1 ? -y : quarter == 2 ? -x : y;
    s[j] = quarter == 0 ? y : quarter == 1 ? x : quarter == 2 ? -y : -x;
  }
  for (int64_t j = all; j <= n / 4 && !(n % 8); j++) c[j] = s[n / 4 - j], s[j] = c[n / 4 - j];
  for (int64_t j = n / 4 + 1; j < n && !(n % 8); j++) c[j] = -s[j - n / 4], s[j] = c[j - n / 4];
}

void fourier_write_turns(int64_t n, double *room, bool is_wide, void *to) {
  int64_t i = 0, total = fourier_turns(n);
  double *c = room, *s = room + n;
  write_roots(n, c, s);
  for (int64_t l = 1, r; l < n; l *= r) {
    r = radix_next(n / l);
    int64_t step = n / (l * r), count = radix_turns(l, r);
    for (int64_t j = 0; j < count; j++, i++) {
      int64_t at = radix_is_prime(r) ? j * step : (j / l + 1) * (j % l) * step;
      if (is_wide) ((double *)to)[i] = c[at], ((double *)to)[total + i] = -s[at];
      else ((float *)to)[i] = (float)c[at], ((float *)to)[total + i] = (float)-s[at];
    }
  }
}

/* ---- rows ---- */

/* A pass over a row. A_l lies with b beside b (k n / l + b) as long as there are enough of them for vectors, and is turned once
 * then: k beside k (b l + k). Either way elements go in groups side by side, and so do results; turns are of a group there, of an
 * element here. Steps are elements. */
struct fourier_pass {
  int64_t groups, run;                            /* groups of so many elements side by side */
  int64_t in_group, in_step, out_group, out_step; /* from group to group, and from v to v or u to u */
  int64_t l;
  bool are_beside;                                /* turns of elements side by side */
  const void *c, *s, *re, *im;
  void *to_re, *to_im;
};

#define LOOPS "op/fourier_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

enum { VECTOR_RUN = 16 }; /* as many floats as the widest vector has: where fewer b are side by side, they are turned */

/* Elements of two vectors by their numbers, those of b after those of a. */
#if defined __clang__ || __GNUC__ >= 12
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){ __VA_ARGS__ })
#endif

typedef uint32_t four_words __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));

/* [rows, columns] turned, by blocks of 4 x 4 floats, or 2 x 2 doubles, and what these leave one by one. */
static void turn_block(const uint32_t *x, int64_t columns, int64_t rows, uint32_t *y) {
  four_words a = *(const four_words *)x, b = *(const four_words *)(x + columns);
  four_words c = *(const four_words *)(x + 2 * columns), d = *(const four_words *)(x + 3 * columns);
  four_words ab = PICK(a, b, 0, 4, 1, 5), cd = PICK(c, d, 0, 4, 1, 5);
  four_words ba = PICK(a, b, 2, 6, 3, 7), dc = PICK(c, d, 2, 6, 3, 7);
  *(four_words *)y = PICK(ab, cd, 0, 1, 4, 5);
  *(four_words *)(y + rows) = PICK(ab, cd, 2, 3, 6, 7);
  *(four_words *)(y + 2 * rows) = PICK(ba, dc, 0, 1, 4, 5);
  *(four_words *)(y + 3 * rows) = PICK(ba, dc, 2, 3, 6, 7);
}
static void turn_wide_block(const uint64_t *x, int64_t columns, int64_t rows, uint64_t *y) {
  two_words a = *(const two_words *)x, b = *(const two_words *)(x + columns);
  *(two_words *)y = PICK(a, b, 0, 2), *(two_words *)(y + rows) = PICK(a, b, 1, 3);
}

#define TURN(word, each, block)                                                                               \
  do {                                                                                                        \
    const word *x = from;                                                                                     \
    word *y = to;                                                                                             \
    for (int64_t i = 0, j; i < rows; i += each) {                                                             \
      for (j = 0; i + each <= rows && j + each <= columns; j += each) block(x + i * columns + j, columns, rows, y + j * rows + i); \
      for (; j < columns; j++)                                                                                \
        for (int64_t k = i; k < rows && k < i + each; k++) y[j * rows + k] = x[k * columns + j];              \
    }                                                                                                         \
  } while (0)

static void turn(const void *from, int64_t rows, int64_t columns, bool is_wide, void *to) {
  if (is_wide) TURN(uint64_t, 2, turn_wide_block);
  else TURN(uint32_t, 4, turn_block);
}

size_t fourier_room(int64_t n, bool is_wide) { return (size_t)n * 5 * (is_wide ? sizeof(double) : sizeof(float)); }

/* Passes go from where the row stands to one half of the room, from there to the other half and back, and at last to the result. */
struct fourier_place { const uint8_t *re, *im; uint8_t *half[2]; int next; };

static struct fourier_place gone_on(struct fourier_place x, size_t row) {
  return (struct fourier_place){ x.half[x.next], x.half[x.next] + row, { x.half[0], x.half[1] }, !x.next };
}

void fourier_row(int64_t n, bool is_wide, const void *turns, const void *re, const void *im, void *to_re, void *to_im, void *room) {
  size_t size = is_wide ? sizeof(double) : sizeof(float), row = (size_t)n * size;
  const uint8_t *c = turns, *s = c + (size_t)fourier_turns(n) * size;
  struct fourier_place x = { re, im ? im : memset((uint8_t *)room + 4 * row, 0, row), { room, (uint8_t *)room + 2 * row }, 0 };
  bool are_beside = false;
  if (n == 1) memcpy(to_re, x.re, row), memcpy(to_im, x.im, row);
  for (int64_t l = 1, r; l < n; l *= r) {
    r = radix_next(n / l);
    int64_t rest = n / (l * r), count = radix_turns(l, r);
    if (!are_beside && l > 1 && rest < VECTOR_RUN && !radix_is_prime(r)) {
      turn(x.re, l, n / l, is_wide, x.half[x.next]), turn(x.im, l, n / l, is_wide, x.half[x.next] + row);
      x = gone_on(x, row), are_beside = true;
    }
    bool is_last = l * r == n;
    struct fourier_pass p = { .groups = are_beside ? rest : l, .run = are_beside ? l : rest, .in_group = are_beside ? l : n / l,
                              .in_step = are_beside ? n / r : rest, .out_group = are_beside ? l * r : rest,
                              .out_step = are_beside ? l : l * rest, .l = l, .are_beside = are_beside, .c = c, .s = s,
                              .re = x.re, .im = x.im,
                              .to_re = is_last ? to_re : x.half[x.next], .to_im = is_last ? to_im : x.half[x.next] + row };
    HERE(pass)(&p, r, is_wide);
    x = gone_on(x, row), c += (size_t)count * size, s += (size_t)count * size;
  }
}
