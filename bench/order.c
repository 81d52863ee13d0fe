/* order.c -- the numbers behind the order of sums (docs/kir.md, section 6): how many accumulators a row fold has, how long
 * its blocks are, after how many elements a column fold begins a new block, and what all of these cost and gain.
 *
 *   order
 *
 * Loops are written by hand, as good as they can be: what is compared is the orders, not compilers. Times are the best
 * of many rounds, of one thread. Errors are against a sum in f64, in units of 2^-24 of the sum, root mean square. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEVELS = 40 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the binary counter that combines blocks ---- */

struct counter { uint64_t n; float level[LEVELS]; };

static void push(struct counter *c, float v) {
  int k = 0;
  for (uint64_t n = c->n++; n & 1; n >>= 1, k++) v = c->level[k] + v;
  c->level[k] = v;
}

static float total(const struct counter *c) {
  float sum = 0;
  int any = 0;
  for (int k = 0; k < LEVELS; k++)
    if (c->n >> k & 1) sum = any ? c->level[k] + sum : c->level[k], any = 1;
  return sum;
}

/* ---- loops for one instruction set: vectors of W lanes ---- */

#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_4(X) EACH_2(X) X(2) X(3)
#define EACH_8(X) EACH_4(X) X(4) X(5) X(6) X(7)

#define CLEAR(i) a[i] = zero;
#define ADD(i) a[i] += *(const vec *)(p + j + i * (int64_t)(sizeof(vec) / 4));
#define SPILL(i) memcpy(lane + i * (int64_t)(sizeof(vec) / 4), &a[i], sizeof(vec));

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* The sum of a row with K vectors of accumulators. */
#define ROW(NAME, TARGET, W, K)                                                            \
  TARGET static float NAME(const float *x, int64_t n, int64_t block) {                     \
    typedef float vec __attribute__((vector_size(4 * W), aligned(4), may_alias));          \
    enum { A = W * K };                                                                    \
    struct counter c = { 0 };                                                              \
    for (int64_t at = 0; at < n; at += block) {                                            \
      const float *p = x + at;                                                             \
      int64_t m = n - at < block ? n - at : block, j = 0;                                  \
      vec a[K], zero = { 0 };                                                              \
      float lane[A];                                                                       \
      EACH_##K(CLEAR)                                                                      \
      for (; j + A <= m; j += A) { EACH_##K(ADD) }                                         \
      EACH_##K(SPILL)                                                                      \
      for (int l = 0; j < m; j++, l++) lane[l] += p[j];                                    \
      for (int half = A / 2; half >= 4; half /= 2)                                         \
        for (int l = 0; l < half; l += 4) *(four *)(lane + l) += *(const four *)(lane + l + half); \
      lane[0] += lane[2], lane[1] += lane[3], lane[0] += lane[1];                          \
      push(&c, lane[0]);                                                                   \
    }                                                                                      \
    return total(&c);                                                                      \
  }

/* Sums over the rows of x[R,C], C a multiple of 4 W: 4 W columns side by side; every `block` rows the sums so far go to
 * the counter, a level of which is 4 W numbers. */
#define COLUMNS(NAME, TARGET, W)                                                           \
  TARGET static void NAME(const float *x, int64_t R, int64_t C, int64_t block, float *y) { \
    typedef float vec __attribute__((vector_size(4 * W), aligned(4), may_alias));          \
    enum { A = 4 * W };                                                                    \
    vec zero = { 0 };                                                                      \
    for (int64_t c = 0; c < C; c += A) {                                                   \
      float level[LEVELS][A];                                                              \
      uint64_t n = 0;                                                                      \
      for (int64_t at = 0; at < R; at += block, n++) {                                     \
        vec a[4];                                                                          \
        const int64_t j = c;                                                               \
        int64_t end = R - at < block ? R : at + block;                                     \
        EACH_4(CLEAR)                                                                      \
        for (const float *p = x + at * C; p < x + end * C; p += C) { EACH_4(ADD) }         \
        float lane[A];                                                                     \
        EACH_4(SPILL)                                                                      \
        int k = 0;                                                                         \
        for (uint64_t m = n; m & 1; m >>= 1, k++)                                          \
          for (int l = 0; l < A; l++) lane[l] = level[k][l] + lane[l];                     \
        memcpy(level[k], lane, sizeof lane);                                               \
      }                                                                                    \
      float sum[A];                                                                        \
      int any = 0;                                                                         \
      for (int k = 0; k < LEVELS; k++)                                                     \
        if (n >> k & 1) {                                                                  \
          for (int l = 0; l < A; l++) sum[l] = any ? level[k][l] + sum[l] : level[k][l];   \
          any = 1;                                                                         \
        }                                                                                  \
      memcpy(y + c, sum, sizeof sum);                                                      \
    }                                                                                      \
  }

/* The last sweep of a norm's gradient, with dw and db in private copies of `block` rows, merged as a counter. */
#define GRADIENT(NAME, TARGET, W)                                                                              \
  TARGET static void NAME(const float *x, const float *dy, const float *w, float *dx, int64_t R, int64_t C,    \
                          int64_t block, float *copies) {                                                      \
    typedef float vec __attribute__((vector_size(4 * W), aligned(4), may_alias));                              \
    uint64_t n = 0;                                                                                            \
    for (int64_t at = 0; at < R; at += block, n++) {                                                           \
      float *dw = copies, *db = copies + C;                                                                    \
      for (int64_t c = 0; c < 2 * C; c++) dw[c] = -0.0f;                                                       \
      for (int64_t r = at; r < R && r < at + block; r++) {                                                     \
        float mu = x[r * C], s = dy[r * C], p = mu * s, t = mu + s;                                            \
        for (int64_t c = 0; c < C; c += W) {                                                                   \
          vec g = *(const vec *)(dy + r * C + c), h = (*(const vec *)(x + r * C + c) - mu) * s;                \
          vec k = g * *(const vec *)(w + c);                                                                   \
          *(vec *)(dw + c) += g * h;                                                                           \
          *(vec *)(db + c) += g;                                                                               \
          *(vec *)(dx + r * C + c) = s * (k - p - h * t);                                                      \
        }                                                                                                      \
      }                                                                                                        \
      int level = 1;                                                                                           \
      for (uint64_t m = n; m & 1; m >>= 1, level++)                                                            \
        for (int64_t c = 0; c < 2 * C; c += W)                                                                 \
          *(vec *)(dw + c) = *(const vec *)(copies + level * 2 * C + c) + *(const vec *)(dw + c);              \
      memcpy(copies + level * 2 * C, dw, (size_t)(2 * C) * sizeof(float));                                     \
    }                                                                                                          \
  }

#if defined __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#else
#define AVX2
#define AVX512
#endif

ROW(row16_8, AVX2, 8, 2)
ROW(row32_8, AVX2, 8, 4)
ROW(row64_8, AVX2, 8, 8)
ROW(row16_16, AVX512, 16, 1)
ROW(row32_16, AVX512, 16, 2)
ROW(row64_16, AVX512, 16, 4)
COLUMNS(columns_8, AVX2, 8)
COLUMNS(columns_16, AVX512, 16)
GRADIENT(gradient_8, AVX2, 8)
GRADIENT(gradient_16, AVX512, 16)

struct machine {
  const char *name;
  float (*row[3])(const float *, int64_t n, int64_t block); /* 16, 32, 64 accumulators */
  void (*columns)(const float *, int64_t R, int64_t C, int64_t block, float *y);
  void (*gradient)(const float *x, const float *dy, const float *w, float *dx, int64_t R, int64_t C, int64_t block,
                   float *copies);
};

static const struct machine machines[] = {
  { "avx2", { row16_8, row32_8, row64_8 }, columns_8, gradient_8 },
  { "avx512", { row16_16, row32_16, row64_16 }, columns_16, gradient_16 },
};

static int is_here(int m) {
#if defined __x86_64__
  return m ? __builtin_cpu_supports("avx512f") : __builtin_cpu_supports("avx2");
#else
  return m == 0;
#endif
}

/* ---- speed ---- */

enum { MOST = 1 << 24 };
static float *data, *other, *third;
static volatile float sink;

static int rounds_for(int64_t elements) { return elements < 1 << 16 ? 2000 : elements < 1 << 21 ? 60 : 7; }

/* ps an element: rows of n out of `elements`. */
static double row_time(float (*sum)(const float *, int64_t, int64_t), int64_t n, int64_t elements, int64_t block) {
  double best = 1e18;
  for (int r = 0; r < rounds_for(elements); r++) {
    double start = now();
    int repeats = elements < 1 << 16 ? 20 : 1;
    for (int i = 0; i < repeats; i++)
      for (int64_t at = 0; at + n <= elements; at += n) sink = sum(data + at, n, block);
    double t = (now() - start) / repeats;
    if (t < best) best = t;
  }
  return best / (double)elements * 1e3;
}

static void show_rows(void) {
  static const struct { int64_t n, elements; const char *where; } cases[] = {
    { 64, 4096, "L1" }, { 256, 4096, "L1" }, { 1024, 4096, "L1" }, { 4096, 4096, "L1" }, { 65536, 65536, "L2" }, { MOST, MOST, "memory" }
  };
  printf("row folds: ps/element, blocks of 4096      accumulators    16      32      64\n");
  for (int m = 0; m < 2; m++)
    for (size_t i = 0; is_here(m) && i < sizeof cases / sizeof *cases; i++) {
      printf("  %-7s rows of %-9lld %-20s", machines[m].name, (long long)cases[i].n, cases[i].where);
      for (int k = 0; k < 3; k++) printf("  %6.1f", row_time(machines[m].row[k], cases[i].n, cases[i].elements, 4096));
      printf("\n");
      fflush(stdout);
    }
  printf("\nrow folds: ps/element, 32 accumulators     block         1024    4096   16384    none\n");
  for (int m = 0; m < 2; m++) {
    if (!is_here(m)) continue;
    printf("  %-7s rows of %-9d %-20s", machines[m].name, 65536, "L2");
    for (int64_t b = 1024; b <= 65536; b *= 4) printf("  %6.1f", row_time(machines[m].row[1], 65536, 65536, b));
    printf("\n");
  }
}

static double column_time(const struct machine *m, int64_t R, int64_t C, int64_t block) {
  static float y[4096];
  double best = 1e18;
  for (int r = 0; r < rounds_for(R * C); r++) {
    double start = now();
    m->columns(data, R, C, block, y);
    double t = now() - start;
    if (t < best) best = t;
    sink = y[r % C];
  }
  return best / (double)(R * C) * 1e3;
}

static void show_columns(void) {
  static const struct { int64_t R, C; const char *where; } cases[] = {
    { 1024, 64, "L2" }, { 1024, 256, "L2" }, { 4096, 1024, "L3" }, { 16384, 1024, "memory" }
  };
  static const int64_t blocks[] = { 32, 64, 128, 256, INT64_MAX };
  printf("\ncolumn folds: ps/element                   block            32      64     128     256    none\n");
  for (int m = 0; m < 2; m++)
    for (size_t i = 0; is_here(m) && i < sizeof cases / sizeof *cases; i++) {
      char shape[40];
      snprintf(shape, sizeof shape, "[%lld,%lld]", (long long)cases[i].R, (long long)cases[i].C);
      printf("  %-7s %-17s %-20s", machines[m].name, shape, cases[i].where);
      for (int b = 0; b < 5; b++) printf("  %6.1f", column_time(&machines[m], cases[i].R, cases[i].C, blocks[b] == INT64_MAX ? cases[i].R : blocks[b]));
      printf("\n");
      fflush(stdout);
    }
}

static double gradient_time(const struct machine *m, int64_t R, int64_t C, int64_t block, float *copies) {
  double best = 1e18;
  for (int r = 0; r < rounds_for(R * C); r++) {
    double start = now();
    m->gradient(data, other, data + 1, third, R, C, block, copies);
    double t = now() - start;
    if (t < best) best = t;
  }
  return best / (double)(R * C) * 1e3;
}

static void show_gradients(void) {
  static const int64_t widths[] = { 64, 256, 1024, 4096 }, blocks[] = { 32, 128, 512, 0 };
  float *copies = malloc((size_t)(LEVELS * 2 * 4096) * sizeof(float));
  if (!copies) return;
  printf("\nnorm's gradient, dw and db private: ps/element   rows a copy     32     128     512     one\n");
  for (int m = 0; m < 2; m++)
    for (int i = 0; is_here(m) && i < 4; i++) {
      int64_t R = (1 << 20) / widths[i], C = widths[i];
      printf("  %-7s [%lld,%lld]%-*s", machines[m].name, (long long)R, (long long)C, 38 - snprintf(NULL, 0, "%lld%lld", (long long)R, (long long)C), "");
      for (int b = 0; b < 4; b++) printf("  %6.1f", gradient_time(&machines[m], R, C, blocks[b] ? blocks[b] : R, copies));
      printf("\n");
      fflush(stdout);
    }
  free(copies);
}

/* ---- error ---- */

/* Row order with `lanes` accumulators, or (lanes 1) column order: in order inside a block. block 0: one block. */
static float sum_in_order(const float *x, int64_t n, int lanes, int64_t block) {
  struct counter c = { 0 };
  for (int64_t at = 0; at < n; at += block ? block : n) {
    float a[64] = { 0 };
    int64_t end = !block || n - at < block ? n : at + block;
    for (int64_t j = at; j < end; j++) a[(j - at) % lanes] += x[j];
    for (int half = lanes / 2; half; half /= 2)
      for (int l = 0; l < half; l++) a[l] += a[l + half];
    push(&c, a[0]);
  }
  return total(&c);
}

/* Steps of a linear congruential generator, in (-1, 1) around `middle`. */
static void fill(float *x, int64_t n, uint64_t seed, float middle) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x[i] = middle + (float)(int32_t)(seed >> 32) * 0x1p-31f;
  }
}

static double error(const float *x, int64_t n, int lanes, int64_t block) {
  double exact = 0, scale = 0;
  for (int64_t i = 0; i < n; i++) exact += x[i], scale += fabs((double)x[i]);
  return ((double)sum_in_order(x, n, lanes, block) - exact) / scale * 0x1p24;
}

static void show_errors(float middle, const char *what) {
  static const struct { const char *name; int lanes; int64_t block; } orders[] = {
    { "in order", 1, 0 },          { "row, 16 accumulators", 16, 4096 },   { "row, 32", 32, 4096 },
    { "row, 64", 64, 4096 },       { "row, 32, blocks of 1024", 32, 1024 }, { "row, 32, blocks of 16384", 32, 16384 },
    { "row, 32, one block", 32, 0 }, { "column, 32", 1, 32 },               { "column, 64", 1, 64 },
    { "column, 128", 1, 128 },     { "column, 256", 1, 256 }
  };
  printf("\nerror / 2^-24 sum|x|, %-20s n =   1000   10000  100000 1000000   10^7\n", what);
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    printf("  %-46s", orders[o].name);
    for (int64_t n = 1000; n <= 10000000; n *= 10) {
      double squares = 0;
      int draws = n < 1000000 ? 24 : n < 10000000 ? 6 : 2;
      for (int i = 0; i < draws; i++) {
        fill(data, n, (uint64_t)(n + i), middle);
        double e = error(data, n, orders[o].lanes, orders[o].block);
        squares += e * e;
      }
      printf("%8.2f", sqrt(squares / draws));
    }
    printf("\n");
    fflush(stdout);
  }
}

int main(void) {
  data = aligned_alloc(1 << 21, (size_t)MOST * 4);
  other = aligned_alloc(1 << 21, 1 << 23);
  third = aligned_alloc(1 << 21, 1 << 23);
  if (!data || !other || !third) return fprintf(stderr, "order: out of memory\n"), 1;
  fill(data, MOST, 1, 0);
  fill(other, 1 << 21, 2, 0);
  fill(third, 1 << 21, 3, 0);
  show_rows();
  show_columns();
  show_gradients();
  show_errors(1, "in (0,2)");
  show_errors(0, "in (-1,1)");
  free(data);
  free(other);
  free(third);
  return 0;
}
