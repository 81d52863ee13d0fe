/* contract.c -- products of matrices: how much of the processor's fma they use, or of its memory where there is little to
 * compute.
 *
 *   contract [seconds a row [which [processor]]]   which: rows with this in their names; products: the first table; epilogue
 *
 * Each product takes turns with a loop that does nothing but fma, on one thread and on all. GFLOP/s count two operations a
 * product; the fraction is of what that loop reached in f32 on as many threads; of both the best round counts. bf16 and
 * small integers may go beyond 1: they are multiplied in pairs. With `processor` only the products, on one thread, by the time of
 * the processor: for a machine that others use.
 *
 * Where there is a CBLAS (WEFT_BLAS names one, else the first that is found), some of them take turns with it: a ratio above 1
 * says that asking for it pays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/blas.h"
#include "measure.h"
#include "run/pool.h"
#include "weft.h"
#if defined __x86_64__
#include <immintrin.h>
#endif

static double seconds = 0.4;

/* ---- fma and nothing else ---- */

enum { FMA_STEPS = 100000 };
struct fma { int threads; double operations; };

#if defined __x86_64__
#define CHAINS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define BEGIN(i) V u##i = x;
#define STEP(i) u##i = FMA(x, x, u##i); __asm__ volatile("" : "+v"(u##i));
#define SPIN(name, set, vector, splat, fma, n)                              \
  __attribute__((target(set))) static void name(void *ctx, int part) {      \
    (void)ctx, (void)part;                                                  \
    vector x = splat(1e-30f);                                               \
    CHAINS(BEGIN)                                                           \
    for (int k = 0; k < FMA_STEPS; k++) { CHAINS(STEP) }                    \
  }
#define V __m512
#define FMA _mm512_fmadd_ps
SPIN(spin_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
#undef V
#undef FMA
#define V __m256
#define FMA _mm256_fmadd_ps
SPIN(spin_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)

static void run_fma(void *ctx) {
  struct fma *f = ctx;
  bool wide = __builtin_cpu_supports("avx512f");
  f->operations = 2.0 * 12 * FMA_STEPS * (wide ? 16 : 8) * f->threads;
  pool_run(f->threads, f->threads, wide ? spin_avx512 : spin_avx2, NULL);
}
#else
static void run_fma(void *ctx) {
  struct fma *f = ctx;
  volatile float u = 0;
  f->operations = 2.0 * FMA_STEPS;
  for (int k = 0; k < FMA_STEPS; k++) u = __builtin_fmaf(u, u, 1);
}
#endif

/* ---- products ---- */

typedef weft_array *build(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest);

static weft_array *plain(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) { return (void)bias, (void)rest, weft_matmul(a, b); }
static weft_array *a_turned(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return (void)bias, (void)rest, weft_matmul(weft_transpose(a, NULL), b);
}
static weft_array *b_turned(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return (void)bias, (void)rest, weft_matmul(a, weft_transpose(b, NULL));
}
static weft_array *with_gelu(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return weft_add(weft_gelu(weft_add(weft_matmul(a, b), bias)), rest);
}
static weft_array *with_approx(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return weft_add(weft_gelu_approx(weft_add(weft_matmul(a, b), bias)), rest);
}
static weft_array *with_tanh(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) { /* gelu_approx, as it is often written */
  weft_array *h = weft_add(weft_matmul(a, b), bias), *cubic = weft_mul(weft_scalar(0.044715), weft_mul(h, weft_mul(h, h)));
  weft_array *bend = weft_tanh(weft_mul(weft_scalar(0.7978845608), weft_add(h, cubic)));
  return weft_add(weft_mul(weft_mul(weft_scalar(0.5), h), weft_add(weft_scalar(1), bend)), rest);
}
static weft_array *with_silu(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return weft_add(weft_silu(weft_add(weft_matmul(a, b), bias)), rest);
}
static weft_array *with_relu(weft_array *a, weft_array *b, weft_array *bias, weft_array *rest) {
  return weft_add(weft_relu(weft_add(weft_matmul(a, b), bias)), rest);
}

struct product { const char *name; weft_dtype t; int64_t m, n, k; build *build; };
struct run { weft_function *f; weft_array *in[4]; int threads; bool blas; };

static weft_array *numbers(weft_dtype t, int64_t rows, int64_t columns) {
  float *x = malloc(sizeof *x * (size_t)(rows * columns));
  for (int64_t i = 0; i < rows * columns; i++) x[i] = (float)((i * 7919) % 1000) / 500 - 1;
  weft_array *y = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(rows, columns), x), t);
  if (weft_eval(1, &y)) puts(weft_message());
  free(x);
  return y;
}

static weft_function *function_of(const struct product *p) {
  weft_scope *body = weft_scope_open();
  bool at = p->build == a_turned, bt = p->build == b_turned;
  weft_array *in[] = { weft_input(p->t, WEFT_DIMS(at ? p->k : p->m, at ? p->m : p->k)), weft_input(p->t, WEFT_DIMS(bt ? p->n : p->k, bt ? p->k : p->n)),
                       weft_input(p->t, WEFT_DIMS(1, p->n)), weft_input(p->t, WEFT_DIMS(p->m, p->n)) };
  weft_array *y = p->build(in[0], in[1], in[2], in[3]);
  return weft_compile(body, 4, in, 1, &y);
}

static void run_product(void *ctx) {
  struct run *r = ctx;
  weft_array *y;
  weft_set(WEFT_THREADS, r->threads);
  weft_set(WEFT_BLAS, r->blas);
  weft_scope *s = weft_scope_open();
  weft_call(r->f, 4, r->in, 1, &y);
  if (weft_eval(1, &y)) puts(weft_message());
  weft_scope_discard(s);
}

static double best(const struct entrant *e, int rounds) {
  double t = e->ns[0];
  for (int i = 1; i < rounds; i++) if (e->ns[i] < t) t = e->ns[i];
  return t;
}

/* The function of p and what it is called with. */
static struct run run_of(const struct product *p, int threads, bool blas) {
  bool at = p->build == a_turned, bt = p->build == b_turned;
  return (struct run){ function_of(p), { numbers(p->t, at ? p->k : p->m, at ? p->m : p->k), numbers(p->t, bt ? p->n : p->k, bt ? p->k : p->n),
                                         numbers(p->t, 1, p->n), numbers(p->t, p->m, p->n) }, threads, blas };
}

static void row(const struct product *p) {
  static struct entrant spin[2], product[2];
  struct fma fma[2];
  weft_scope *s = weft_scope_open();
  struct run runs[2] = { run_of(p, 1, false) };
  runs[1] = runs[0];
  runs[1].threads = pool_threads();
  for (int i = 0; i < 2; i++) {
    fma[i].threads = runs[i].threads;
    spin[i] = (struct entrant){ .run = run_fma, .ctx = &fma[i] };
    product[i] = (struct entrant){ .run = run_product, .ctx = &runs[i] };
  }
  int sides = measures_processor ? 1 : 2;
  int rounds = measure_turns(2 * sides, (struct entrant *[]){ &spin[0], &product[0], &spin[1], &product[1] }, seconds);
  double work = 2.0 * (double)p->m * (double)p->n * (double)p->k;
  double bytes = (double)weft_dtype_bytes(p->t) * ((double)p->m * (double)p->k + (double)p->k * (double)p->n + (double)p->m * (double)p->n);
  printf("  %-26s %-5s", p->name, weft_dtype_name(p->t));
  for (int i = 0; i < sides; i++) {
    double t = best(&product[i], rounds), peak = fma[i].operations / best(&spin[i], rounds);
    printf("  %10.1f %8.1f %6.2f %7.1f", t / 1e3, work / t, work / t / peak, bytes / t);
  }
  printf("\n");
  fflush(stdout);
  weft_scope_discard(s);
}

/* What comes after a product, in turns with the bare one: by how much each is longer, on one thread and on all. */
static void epilogue_row(int64_t size) {
  static const struct { const char *name; build *build; } after[] = {
    { "bare", plain }, { "relu", with_relu }, { "silu", with_silu }, { "gelu_approx", with_approx }, { "by tanh", with_tanh }, { "gelu", with_gelu } };
  enum { AFTER = sizeof after / sizeof *after };
  static struct entrant turns[AFTER];
  struct run runs[AFTER];
  printf("  %4lld^3 + bias, then       ", (long long)size);
  for (int k = 1; k < AFTER; k++) printf("%14s", after[k].name);
  printf("\n");
  for (int t = 0; t < 2; t++) {
    weft_scope *s = weft_scope_open();
    struct entrant *order[AFTER];
    for (int k = 0; k < AFTER; k++) {
      runs[k] = run_of(&(struct product){ after[k].name, WEFT_F32, size, size, size, after[k].build }, t ? pool_threads() : 1, false);
      if (k) memcpy(runs[k].in, runs[0].in, sizeof runs[k].in);
      turns[k] = (struct entrant){ .run = run_product, .ctx = &runs[k] };
      order[k] = &turns[k];
    }
    int rounds = measure_turns(AFTER, order, 8 * seconds);
    printf("    on %d thread%s, %%         ", runs[0].threads, t ? "s" : " ");
    for (int k = 1; k < AFTER; k++) {
      struct figure f = figure_ratio(&turns[k], &turns[0], rounds);
      printf("%7.1f (%4.1f)", 100 * (f.middle - 1), 100 * (best(&turns[k], rounds) / best(&turns[0], rounds) - 1));
    }
    printf("\n");
    fflush(stdout);
    weft_scope_discard(s);
  }
}

/* Own and the library's, by one thread and by all. */
static void blas_row(const struct product *p) {
  static struct entrant turns[4];
  struct run runs[4];
  weft_scope *s = weft_scope_open();
  runs[0] = run_of(p, 1, false);
  for (int i = 0; i < 4; i++) {
    runs[i] = runs[0];
    runs[i].threads = i < 2 ? 1 : pool_threads(), runs[i].blas = i % 2;
    turns[i] = (struct entrant){ .run = run_product, .ctx = &runs[i] };
  }
  int rounds = measure_turns(4, (struct entrant *[]){ &turns[0], &turns[1], &turns[2], &turns[3] }, seconds);
  printf("  %-26s %-5s", p->name, weft_dtype_name(p->t));
  for (int i = 0; i < 4; i += 2) {
    double own = best(&turns[i], rounds), library = best(&turns[i + 1], rounds);
    printf("  %10.1f %10.1f %6.2f", own / 1e3, library / 1e3, own / library);
  }
  printf("\n");
  fflush(stdout);
  weft_set(WEFT_BLAS, 0);
  weft_scope_discard(s);
}

int main(int argc, char **argv) {
  static const struct product products[] = {
    { "16^3", WEFT_F32, 16, 16, 16, plain },
    { "64^3", WEFT_F32, 64, 64, 64, plain },
    { "64x128 by 128^2", WEFT_F32, 64, 128, 128, plain },
    { "256^3", WEFT_F32, 256, 256, 256, plain },
    { "1024^3", WEFT_F32, 1024, 1024, 1024, plain },
    { "1024^3, a'", WEFT_F32, 1024, 1024, 1024, a_turned },
    { "1024^3, b'", WEFT_F32, 1024, 1024, 1024, b_turned },
    { "2048^3", WEFT_F32, 2048, 2048, 2048, plain },
    { "512^2 by vector", WEFT_F32, 512, 1, 512, plain },
    { "4096^2 by vector", WEFT_F32, 4096, 1, 4096, plain },
    { "vector by 4096^2", WEFT_F32, 1, 4096, 4096, plain },
    { "vector by 4096^2, b'", WEFT_F32, 1, 4096, 4096, b_turned },
    { "4096x8 by 8x4096", WEFT_F32, 4096, 4096, 8, plain },
    { "8x4096 by 4096^2", WEFT_F32, 8, 4096, 4096, plain },
    { "8x4096 by 4096^2, b'", WEFT_F32, 8, 4096, 4096, b_turned },
    { "encoder, 5376x384 by 384^2", WEFT_F32, 5376, 384, 384, plain }, /* 64x84 tokens (bench/compare); of 24, 6 and 6 such products */
    { "encoder, by 384x1536", WEFT_F32, 5376, 1536, 384, plain },
    { "encoder, by 1536x384", WEFT_F32, 5376, 384, 1536, plain },
    { "512^3", WEFT_F64, 512, 512, 512, plain },
    { "1024^3", WEFT_BF16, 1024, 1024, 1024, plain },
    { "vector by 4096^2, b'", WEFT_BF16, 1, 4096, 4096, b_turned },
    { "1024^3", WEFT_F16, 1024, 1024, 1024, plain },
    { "1024^3", WEFT_I8, 1024, 1024, 1024, plain },
    { "512^3", WEFT_I32, 512, 512, 512, plain },
  };
  if (argc > 1) seconds = atof(argv[1]);
  measures_processor = argc > 3 && !strcmp(argv[3], "processor");
  bool has_all_rows = argc > 2 && !strcmp(argv[2], "products"), is_first_only = has_all_rows || measures_processor;
  const char *which = argc > 2 && !has_all_rows ? argv[2] : "";
  printf("products of matrices, one thread and %d; us, GFLOP/s, fraction of the fma of f32, GB/s of operands and result\n", pool_threads());
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) if (strstr(products[i].name, which)) row(&products[i]);
  if (is_first_only) return 0;
  printf("what comes after a product (bias, this, and another matrix added): percent beyond the bare one, the median of turns (the best of each)\n");
  static const int64_t sizes[] = { 256, 1024 };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) if (strstr("epilogue", which)) epilogue_row(sizes[i]);
  const char *why = blas_load();
  if (why) return printf("no CBLAS: %s\n", why), 0;
  printf("own products and those of %s, one thread and %d: us, us, ratio (above 1: WEFT_BLAS pays)\n", blas_name(), pool_threads());
  static const struct product both[] = {
    { "64^3", WEFT_F32, 64, 64, 64, plain }, { "256^3", WEFT_F32, 256, 256, 256, plain }, { "1024^3", WEFT_F32, 1024, 1024, 1024, plain },
    { "1024^3 + bias, gelu, rest", WEFT_F32, 1024, 1024, 1024, with_gelu }, { "2048^3", WEFT_F32, 2048, 2048, 2048, plain },
    { "8x4096 by 4096^2", WEFT_F32, 8, 4096, 4096, plain }, { "1024^3", WEFT_F64, 1024, 1024, 1024, plain } };
  for (size_t i = 0; i < sizeof both / sizeof *both; i++) if (strstr(both[i].name, which)) blas_row(&both[i]);
  return 0;
}
