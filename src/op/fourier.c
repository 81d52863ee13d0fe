/* fourier.c -- Fourier transforms of rows in memory: their turns, and the passes by vectors (fourier.h). */
#include "op/fourier.h"
#include <string.h>

#define IN_VECTORS __attribute__((no_sanitize("address"))) /* local vectors: see codes.c */
#define ALWAYS static inline __attribute__((always_inline)) IN_VECTORS

/* ---- turns ---- */

int64_t fourier_turns(int64_t n) {
  int64_t sum = 0;
  for (int64_t l = 1, r; l < n; l *= r) r = radix_next(n / l), sum += radix_turns(l, r);
  return sum;
}

/* a b - p, exactly, where p is a b rounded (Dekker): the halves of a and b have 26 bits. */
static double rest_of(double a, double b, double p) {
  double a_high = 134217729 * a - (134217729 * a - a), a_low = a - a_high;
  double b_high = 134217729 * b - (134217729 * b - b), b_low = b - b_high;
  return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
}

/* cos and sin of pi/2 k / n, an eighth of a turn at most. The angle is the sum of two doubles and the functions are their series up
 * to what an eighth of a turn makes of them, so that both are within 0.75 of the last place, and the bits are no matter of libm. */
static void eighth(double k, double n, double *c, double *s) {
  const double quarter = 1.57079632679489661923, quarter_low = 6.12323399573676603587e-17;
  double q = k / n, p = q * n, q_low = ((k - p) - rest_of(q, n, p)) / n;
  double t = q * quarter, low = rest_of(q, quarter, t) + (q * quarter_low + q_low * quarter);
  double z = t * t, half = z / 2, w = 1 - half, of_sine = 0, of_cosine = 0;
  static const double sine[] = { 1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0, 1 / 362880.0,
                                 -1 / 5040.0, 1 / 120.0, -1 / 6.0 };                             /* 1/17!, -1/15! .. */
  static const double cosine[] = { -1 / 6402373705728000.0, 1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0,
                                   -1 / 3628800.0, 1 / 40320.0, -1 / 720.0, 1 / 24.0 };          /* -1/18!, 1/16! .. */
  for (int i = 0; i < 8; i++) of_sine = of_sine * z + sine[i], of_cosine = of_cosine * z + cosine[i];
  *s = t + (t * z * of_sine + low * (1 - half));
  *c = w + (((1 - w) - half) + (z * z * of_cosine - (rest_of(t, t, z) / 2 + t * low)));
}

/* cos and sin of 2 pi j / n of j < n, exact at quarters of a turn: [n] cosines, [n] sines. Where n has eighths, only those of the
 * first are computed. */
static void write_roots(int64_t n, double *c, double *s) {
  int64_t all = n % 8 ? n : n / 8 + 1;
  for (int64_t j = 0; j < all; j++) {
    int64_t quarter = 4 * j / n, rest = 4 * j % n;
    double x, y;
    if (2 * rest <= n) eighth((double)rest, (double)n, &x, &y);
    else eighth((double)(n - rest), (double)n, &y, &x);
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
  int64_t r, l;
  bool are_beside;                                /* turns of elements side by side */
  bool turns_first;                               /* the first that has k beside k */
  const void *c, *s, *re, *im;
  void *to_re, *to_im;
};

#define LOOPS "op/fourier_loops.h"
#define LANE_BYTES 4
#include "op/lanes.h"

enum { VECTOR_RUN = 16 }; /* floats of the widest vector: where fewer b, and more k, are side by side, they are turned */

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

enum { MOST_PASSES = 40 }; /* 3^40 > 2^63 */

/* The passes of a row but for where they read and write. */
static int plan(int64_t n, size_t size, const uint8_t *c, const uint8_t *s, struct fourier_pass p[MOST_PASSES]) {
  int count = 0;
  bool are_beside = false;
  for (int64_t l = 1, r; l < n; l *= r) {
    r = radix_next(n / l);
    int64_t rest = n / (l * r), turns = radix_turns(l, r);
    bool turns_first = !are_beside && l > 1 && rest < VECTOR_RUN && rest < l && !radix_is_prime(r);
    are_beside |= turns_first;
    p[count++] = (struct fourier_pass){ .groups = are_beside ? rest : l, .run = are_beside ? l : rest,
                                        .in_group = are_beside ? l : n / l, .in_step = are_beside ? n / r : rest,
                                        .out_group = are_beside ? l * r : rest, .out_step = are_beside ? l : l * rest,
                                        .r = r, .l = l, .are_beside = are_beside, .turns_first = turns_first, .c = c, .s = s };
    c += (size_t)turns * size, s += (size_t)turns * size;
  }
  return count;
}

/* Passes go from where the row stands to one half of the room, from there to the other half and back, and at last to the result. */
static void run_row(int n_passes, struct fourier_pass pass[], int64_t n, bool is_wide, const uint8_t *re, const uint8_t *im,
                    uint8_t *to_re, uint8_t *to_im, uint8_t *room) {
  size_t row = (size_t)n * (is_wide ? sizeof(double) : sizeof(float));
  uint8_t *to = room, *other = room + 2 * row, *from;
  for (int k = 0; k < n_passes; k++) {
    struct fourier_pass *p = &pass[k];
    bool is_last = k + 1 == n_passes;
    if (p->turns_first) {
      turn(re, p->l, n / p->l, is_wide, to), turn(im, p->l, n / p->l, is_wide, to + row);
      re = to, im = to + row, from = to, to = other, other = from;
    }
    p->re = re, p->im = im, p->to_re = is_last ? to_re : to, p->to_im = is_last ? to_im : to + row;
    HERE(pass)(p, is_wide);
    re = to, im = to + row, from = to, to = other, other = from;
  }
}

void fourier_rows(int64_t n, bool is_wide, const void *turns, int64_t rows, const void *re, const void *im, void *to_re,
                  void *to_im, void *room) {
  size_t size = is_wide ? sizeof(double) : sizeof(float), row = (size_t)n * size;
  struct fourier_pass pass[MOST_PASSES];
  const uint8_t *x = re, *y = im, *c = turns;
  uint8_t *to = to_re, *too = to_im;
  if (!im) y = memset((uint8_t *)room + 4 * row, 0, row);
  int n_passes = plan(n, size, c, c + (size_t)fourier_turns(n) * size, pass);
  for (int64_t i = 0; i < rows; i++, x += row, y += im ? row : 0, to += row, too += row)
    if (n == 1) memcpy(to, x, row), memcpy(too, y, row);
    else run_row(n_passes, pass, n, is_wide, x, y, to, too, room);
}
