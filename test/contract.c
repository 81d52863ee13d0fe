/* contract.c -- products of matrices against a plain triple loop in the order that backend/patch.h promises, to the bit:
 * every size, layout and dtype, on the vm, AVX2 and AVX-512, fused or not, on any number of threads. */
#include "backend/patch.h"
#include "backend/x86/cpu.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"
#include "weft.h"

static void use_backend(const char *name) {
  plan_drop_all();
  compiled_drop_all();
  compiled_use(name);
}

/* Those that this machine has; the last one is put back. */
static const char *backend_number(int i) {
  bool is_here = i == 0 || (i == 1 && contractor_avx2.available()) || (i == 2 && contractor_avx512.available());
  const char *name = is_here ? (const char *[]){ "vm", "avx2", "x86" }[i] : NULL;
  use_backend(name);
  return name;
}
#define EACH_BACKEND(name) for (const char *name = backend_number(0), *at_ = name; name; name = backend_number(*at_ == 'v' ? 1 : *at_ == 'a' ? 2 : 3), at_ = name)

/* ---- numbers ---- */

static uint32_t seed;
static uint32_t next_bits(void) { return seed = seed * 1664525u + 1013904223u; }

/* A number that the dtype has. */
static double number(weft_dtype t) {
  double x = (double)(int32_t)(next_bits() ^ next_bits() >> 16) / 2147483648.0;
  if (t == WEFT_F64) return x;
  int keep = t == WEFT_F32 ? 24 : t == WEFT_F16 ? 11 : 8;
  int e;
  double f = frexp(x, &e);
  e = e < -6 ? -6 : e;
  return ldexp(trunc(ldexp(f, keep)), e - keep);
}

/* x rounded to the dtype; numbers of ordinary size. */
static double rounded(weft_dtype t, double x) {
  int e, keep = t == WEFT_F16 ? 11 : 8;
  if (t == WEFT_F64 || t == WEFT_F32 || x == 0 || !isfinite(x)) return x;
  double f = frexp(x, &e);
  if (t == WEFT_F16 && e < -13) keep = 11 + e + 13;
  return ldexp(nearbyint(ldexp(f, keep)), e - keep);
}

/* The value as it was computed, then as f64. */
static weft_status read_wide(weft_array *y, double *out, size_t bytes) {
  weft_status status = weft_eval(1, &y);
  return status ? status : weft_read(weft_cast(y, WEFT_F64), WEFT_F64, out, bytes);
}

/* ---- layouts ---- */

enum layout { PLAIN, TRANSPOSED, REVERSED, STRIDED, OFFSET, STILL, LAYOUTS };
static const char *const layout_names[] = { "plain", "transposed", "reversed", "strided", "offset", "broadcast" };

static weft_array *flipped(weft_array *x, int axis) { return weft_slice(x, axis, -1, INT64_MIN, -1); }

/* The matrix x[r,c] as a view of memory with this layout. */
static weft_array *laid_out(weft_dtype t, enum layout how, int64_t r, int64_t c, const double *x) {
  int64_t rows = how == TRANSPOSED ? c : how == OFFSET ? r + 3 : how == STILL ? 1 : r;
  int64_t columns = how == TRANSPOSED ? r : how == STRIDED ? 3 * c + 2 : how == OFFSET ? c + 5 : c;
  double *m = calloc((size_t)(rows * columns + 1), sizeof *m);
  for (int64_t i = 0; m && i < r; i++)
    for (int64_t j = 0; j < c; j++) {
      int64_t at = how == TRANSPOSED ? j * r + i : how == REVERSED ? (r - 1 - i) * c + c - 1 - j
                 : how == STRIDED ? i * columns + 3 * j + 1 : how == OFFSET ? (i + 2) * columns + j + 4 : how == STILL ? j : i * c + j;
      m[at] = x[i * c + j];
    }
  weft_array *y = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(rows, columns), m), t);
  free(m);
  if (weft_eval(1, &y)) return y; /* so that the view is one of memory */
  switch (how) {
    case TRANSPOSED: return weft_transpose(y, NULL);
    case REVERSED: return flipped(flipped(y, 0), 1);
    case STRIDED: return weft_slice(y, 1, 1, 3 * c + 1, 3);
    case OFFSET: return weft_slice(weft_slice(y, 0, 2, r + 2, 1), 1, 4, c + 4, 1);
    case STILL: return weft_broadcast(y, WEFT_DIMS(r, c));
    default: return y;
  }
}

/* ---- what is right ---- */

static double right(weft_dtype t, int64_t n, const double *a, const double *b, int64_t step) {
  double sum = 0;
  for (int64_t k = 0; k < n;) {
    double block = 0;
    for (int64_t end = k + KIR_PRODUCT_BLOCK < n ? k + KIR_PRODUCT_BLOCK : n; k < end; k++)
      block = t == WEFT_F64 ? fma(a[k], b[k * step], block) : (double)fmaf((float)a[k], (float)b[k * step], (float)block);
    sum = k <= KIR_PRODUCT_BLOCK ? block : t == WEFT_F64 ? sum + block : (double)((float)sum + (float)block);
  }
  return rounded(t, sum);
}

static inline __attribute__((always_inline)) void add_each(weft_dtype t, int64_t m, double x, const double *b, double *sum) {
  if (t == WEFT_F64) for (int64_t j = 0; j < m; j++) sum[j] = fma(x, b[j], sum[j]);
  else for (int64_t j = 0; j < m; j++) sum[j] = (double)fmaf((float)x, (float)b[j], (float)sum[j]);
}

/* sum += x b, m elements, each rounded once. By the instruction where there is one: calls of libm were most of what these tests took. */
#ifdef __x86_64__
__attribute__((target("fma"))) static void add_by_instruction(weft_dtype t, int64_t m, double x, const double *b, double *sum) {
  add_each(t, m, x, b, sum);
}
static void add_products(weft_dtype t, int64_t m, double x, const double *b, double *sum) {
  if (__builtin_cpu_supports("fma")) add_by_instruction(t, m, x, b, sum);
  else add_each(t, m, x, b, sum);
}
#else
static void add_products(weft_dtype t, int64_t m, double x, const double *b, double *sum) { add_each(t, m, x, b, sum); }
#endif

/* A row of a [n] by b [n, m] at once, so that b is read as it lies: each element is that of `right`. */
static void right_row(weft_dtype t, int64_t n, int64_t m, const double *a, const double *b, double *sum) {
  double *block = malloc(sizeof *block * (size_t)(m + 1));
  for (int64_t j = 0; j < m; j++) sum[j] = 0;
  for (int64_t k = 0; k < n;) {
    for (int64_t j = 0; j < m; j++) block[j] = 0;
    for (int64_t end = k + KIR_PRODUCT_BLOCK < n ? k + KIR_PRODUCT_BLOCK : n; k < end; k++)
      add_products(t, m, a[k], b + k * m, block);
    for (int64_t j = 0; j < m; j++)
      sum[j] = k <= KIR_PRODUCT_BLOCK ? block[j] : t == WEFT_F64 ? sum[j] + block[j] : (double)((float)sum[j] + (float)block[j]);
  }
  for (int64_t j = 0; j < m; j++) sum[j] = rounded(t, sum[j]);
  free(block);
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

struct product { weft_dtype t; int64_t m, n, k; enum layout la, lb; double *a, *b, *want, *got; };

enum { ORDINARY, WITH_TINY, WITH_INFINITE };

static void fill(struct product *p, int how) {
  p->a = malloc(sizeof *p->a * (size_t)(p->m * p->k + 1)), p->b = malloc(sizeof *p->b * (size_t)(p->k * p->n + 1));
  p->want = malloc(sizeof *p->want * (size_t)(p->m * p->n + 1)), p->got = malloc(sizeof *p->got * (size_t)(p->m * p->n + 1));
  for (int64_t i = 0; i < p->m * p->k; i++) p->a[i] = p->la == STILL && i >= p->k ? p->a[i % p->k] : number(p->t);
  for (int64_t i = 0; i < p->k * p->n; i++) p->b[i] = p->lb == STILL && i >= p->n ? p->b[i % p->n] : number(p->t);
  if (how == WITH_TINY) p->a[p->k / 2] = 0x1p-130, p->b[p->n / 2] = -0x1p-70;
  if (how == WITH_INFINITE) p->a[p->k / 2] = INFINITY, p->b[p->n / 2] = 0x1p120;
  for (int64_t i = 0; i < p->m; i++) right_row(p->t, p->k, p->n, p->a + i * p->k, p->b, p->want + i * p->n);
}

static void drop(struct product *p) { free(p->a), free(p->b), free(p->want), free(p->got); }

static void expect_product(struct product *p, const char *backend, weft_array *y) {
  weft_status status = read_wide(y, p->got, sizeof *p->got * (size_t)(p->m * p->n));
  for (int64_t i = 0; !status && i < p->m * p->n; i++)
    if (!same(p->got[i], p->want[i])) {
      test_fail(__FILE__, __LINE__, "%s [%d,%d] %s x [%d,%d] %s on %s: element %d is %.17g, not %.17g", weft_dtype_name(p->t),
                (int)p->m, (int)p->k, layout_names[p->la], (int)p->k, (int)p->n, layout_names[p->lb], backend, (int)i, p->got[i], p->want[i]);
      return;
    }
  if (status) test_fail(__FILE__, __LINE__, "[%d,%d,%d] on %s: %s", (int)p->m, (int)p->n, (int)p->k, backend, weft_message());
}

static void multiply(struct product *p, const char *backend) {
  weft_scope *s = weft_scope_open();
  weft_array *a = laid_out(p->t, p->la, p->m, p->k, p->a), *b = laid_out(p->t, p->lb, p->k, p->n, p->b);
  expect_product(p, backend, weft_matmul(a, b));
  weft_scope_discard(s);
}

static const int sizes[] = { 0, 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 100, 257 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* All triples of sizes below a limit; layouts and dtypes take turns, so that each pair of them meets many sizes. */
static void every_size(const char *backend, int limit, const weft_dtype *types, int n_types, int turn) {
  for (int i = 0; i < SIZES; i++)
    for (int j = 0; j < SIZES; j++)
      for (int k = 0; k < SIZES; k++, turn++) {
        if (sizes[i] > limit || sizes[j] > limit || sizes[k] > limit) continue;
        struct product p = { types[turn % n_types], sizes[i], sizes[j], sizes[k], (enum layout)(turn / 2 % LAYOUTS),
                             (enum layout)(turn / 13 % LAYOUTS), NULL, NULL, NULL, NULL };
        fill(&p, ORDINARY);
        multiply(&p, backend);
        drop(&p);
      }
}

static const weft_dtype floats[] = { WEFT_F32, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };

TEST(products_of_every_size_and_layout_are_right_to_the_bit) {
  test_watchdog(200);
  EACH_BACKEND(backend) {
    bool is_fast = *backend == 'x';
    every_size(backend, is_fast ? 257 : 64, floats, 5, is_fast ? 0 : 1);
  }
}

TEST(products_in_every_pair_of_layouts_are_right_to_the_bit) {
  static const int shape[][3] = { { 40, 50, 60 }, { 1, 300, 700 }, { 300, 1, 700 }, { 150, 3, 520 }, { 3, 150, 520 }, { 600, 530, 30 }, { 70, 90, 1100 } };
  test_watchdog(200);
  EACH_BACKEND(backend)
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
      for (int a = 0; a < LAYOUTS; a++)
        for (int b = 0; b < LAYOUTS; b++) {
          struct product p = { floats[(s + (size_t)a) % 5], shape[s][0], shape[s][1], shape[s][2], (enum layout)a, (enum layout)b, NULL, NULL, NULL, NULL };
          if ((a + b + (int)s) % 3 && *backend != 'x') continue;
          fill(&p, ORDINARY);
          multiply(&p, backend);
          drop(&p);
        }
}

TEST(large_products_are_right_to_the_bit) {
  static const int shape[][3] = { { 700, 600, 800 }, { 200, 1100, 3000 }, { 9, 500, 4100 }, { 513, 7, 2000 } };
  test_watchdog(200);
  for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
    struct product p = { WEFT_F32, shape[s][0], shape[s][1], shape[s][2], (enum layout)(s % 4), (enum layout)((s + 1) % 4), NULL, NULL, NULL, NULL };
    fill(&p, ORDINARY);
    EACH_BACKEND(backend) if (*backend != 'v' || s != 1) multiply(&p, backend);
    drop(&p);
  }
}

/* Few results of many terms: blocks of k are computed apart and added in order. */
TEST(a_product_of_few_results_and_many_terms_is_right_to_the_bit) {
  static const int shape[][3] = { { 33, 20, 8200 }, { 64, 64, 4096 }, { 5, 130, 7000 } };
  static const weft_dtype types[] = { WEFT_F32, WEFT_F64 };
  test_watchdog(200);
  EACH_BACKEND(backend)
    for (int i = 0; i < 3 * LAYOUTS; i++) {
      const int *n = shape[i % 3];
      struct product p = { types[i / 3 % 2], n[0], n[1], n[2], (enum layout)(i / 3 % LAYOUTS), (enum layout)((i / 3 + i) % LAYOUTS), NULL, NULL, NULL, NULL };
      if (*backend == 'v' && i > 3) break;
      fill(&p, ORDINARY);
      multiply(&p, backend);
      drop(&p);
    }
}

TEST(sums_that_underflow_keep_their_sign_however_many_terms_they_have) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_full(WEFT_F32, WEFT_DIMS(16, 20000), -1e-30), *b = weft_full(WEFT_F32, WEFT_DIMS(20000, 16), 1e-30), *y = weft_matmul(a, b);
  EXPECT(strstr(weft_show(1, &y, "plan"), "blocks"));
  float got[16 * 16];
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof got));
  for (int i = 0; i < 256; i++) EXPECT(got[i] == 0 && signbit(got[i]));
  weft_scope_discard(s);
}

TEST(a_vector_by_a_large_matrix_is_right_to_the_bit) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_BF16, WEFT_F16 };
  EACH_BACKEND(backend)
    for (int i = 0; i < 12; i++) {
      bool is_row = i / 3 % 2;
      enum layout how = i / 6 ? TRANSPOSED : PLAIN;
      struct product p = { types[i % 3], is_row ? 1 : 2101, is_row ? 2101 : 1, 530, is_row ? PLAIN : how, is_row ? how : PLAIN, NULL, NULL, NULL, NULL };
      fill(&p, ORDINARY);
      multiply(&p, backend);
      drop(&p);
    }
}

/* Threads share columns or blocks of k; rows are read one by one or eight at a time; a kernel goes on with all or with parts. */
TEST(a_vector_by_a_matrix_is_right_to_the_bit_on_any_number_of_threads) {
  static const struct { weft_dtype t; int64_t n, k; enum layout how; bool goes_on; } cases[] = {
    { WEFT_F32, 384, 1536, PLAIN, false }, { WEFT_F32, 384, 1536, OFFSET, true },  { WEFT_F32, 397, 1025, OFFSET, false },
    { WEFT_F32, 1500, 513, PLAIN, true },  { WEFT_F32, 2101, 530, STRIDED, true }, { WEFT_F32, 700, 512, PLAIN, true },
    { WEFT_F32, 4100, 90, PLAIN, false },  { WEFT_F32, 70, 5000, PLAIN, true },    { WEFT_F32, 384, 1100, TRANSPOSED, true },
    { WEFT_BF16, 403, 1537, PLAIN, true }, { WEFT_F16, 900, 1300, OFFSET, false }, { WEFT_F64, 300, 1100, PLAIN, true },
    { WEFT_F32, 384, 1100, REVERSED, true } };
  int64_t before = weft_get(WEFT_THREADS);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct product p = { cases[i].t, 1, cases[i].n, cases[i].k, PLAIN, cases[i].how, NULL, NULL, NULL, NULL };
    fill(&p, i % 4 == 1 ? WITH_INFINITE : ORDINARY);
    for (int64_t k = 0; cases[i].goes_on && k < p.n; k++) p.want[k] = -p.want[k];
    for (int threads = 1; threads <= 17; threads += threads < 5 ? 1 : 12) {
      weft_scope *s = weft_scope_open();
      weft_set(WEFT_THREADS, threads);
      weft_array *y = weft_matmul(laid_out(p.t, PLAIN, 1, p.k, p.a), laid_out(p.t, p.lb, p.k, p.n, p.b));
      expect_product(&p, threads == 1 ? "one thread" : "threads", cases[i].goes_on ? weft_neg(y) : y);
      weft_scope_discard(s);
    }
    drop(&p);
  }
  weft_set(WEFT_THREADS, before);
}

TEST(long_rows_by_a_vector_are_right_to_the_bit) {
  EACH_BACKEND(backend) {
    struct product p = { WEFT_F32, 150, 1, 17003, PLAIN, PLAIN, NULL, NULL, NULL, NULL };
    fill(&p, ORDINARY);
    multiply(&p, backend);
    drop(&p);
  }
}

/* Patches of small products have the shape that suits them best: up to seven vectors, the last one with some of its lanes. */
TEST(small_products_are_right_to_the_bit_in_patches_of_every_shape) {
  static const int rows[] = { 29, 40, 64, 97 }, columns[] = { 37, 48, 64, 80, 90, 96, 112, 130 }, lengths[] = { 7, 65, 260 };
  EACH_BACKEND(backend)
    for (int i = 0; i < 4 * 8 * 3; i++) {
      struct product p = { i % 5 ? WEFT_F32 : WEFT_F64, rows[i % 4], columns[i / 4 % 8], lengths[i / 32], i % 7 ? PLAIN : TRANSPOSED, i % 3 ? PLAIN : OFFSET,
                           NULL, NULL, NULL, NULL };
      fill(&p, ORDINARY);
      multiply(&p, backend);
      drop(&p);
    }
}

#if defined __x86_64__
/* Rows go sixteen or eight at a time, the last ones by fewer; processors that do not foresee so many are asked to fetch them. */
TEST(any_number_of_rows_by_a_vector_is_right_to_the_bit_whatever_the_processor_foresees) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_BF16, WEFT_F16 };
  static const int rows[] = { 1, 3, 7, 8, 9, 15, 16, 17, 24, 31, 33, 300 }, lengths[] = { 15, 64, 403, 513, 1046 };
  enum { ROWS = sizeof rows / sizeof *rows, LENGTHS = sizeof lengths / sizeof *lengths };
  int64_t before = weft_get(WEFT_THREADS);
  for (int i = 0; i < 3 * ROWS * LENGTHS; i++) {
    struct product p = { types[i % 3], rows[i / 3 % ROWS], 1, lengths[i / 3 / ROWS], i % 5 ? PLAIN : OFFSET, i % 4 ? PLAIN : STRIDED, NULL, NULL, NULL, NULL };
    fill(&p, i % 21 ? ORDINARY : WITH_INFINITE); /* of f32 */
    for (int how = 0; how < 4; how++) {
      use_backend(how & 2 ? "x86" : "avx2");
      cpu_pretend_to_foresee(how & 1);
      weft_set(WEFT_THREADS, how == 3 ? 3 : 1);
      multiply(&p, how & 2 ? "x86" : "avx2");
    }
    drop(&p);
  }
  cpu_pretend_to_foresee(-1);
  weft_set(WEFT_THREADS, before);
  use_backend(NULL);
}
#endif

/* Pairs of bf16 are multiplied at a time where the machine can, unless a number is too small for that. */
TEST(large_products_of_bf16_are_right_to_the_bit) {
  static const int shape[][3] = { { 120, 300, 801 }, { 70, 200, 1500 }, { 200, 90, 1023 } };
  test_watchdog(200);
  EACH_BACKEND(backend)
    for (int s = 0; s < 3; s++)
      for (int how = 0; how < 3; how++) {
        struct product p = { WEFT_BF16, shape[s][0], shape[s][1], shape[s][2], (enum layout)((s + how) % 4), (enum layout)(s + how > 3), NULL, NULL, NULL, NULL };
        fill(&p, how);
        multiply(&p, backend);
        drop(&p);
      }
}

/* ---- integers ---- */

static const weft_dtype integers[] = { WEFT_I8, WEFT_U8, WEFT_I16, WEFT_U16, WEFT_I32, WEFT_U32, WEFT_I64, WEFT_U64 };
static const int integer_bits[] = { 8, 8, 16, 16, 32, 32, 40, 40 };

static void expect_integers(const char *backend, int which, int64_t m, int64_t n, int64_t k, enum layout la, enum layout lb) {
  weft_scope *scope = weft_scope_open();
  double *a = malloc(sizeof *a * (size_t)(m * k + 1)), *b = malloc(sizeof *b * (size_t)(k * n + 1));
  int64_t *got = malloc(sizeof *got * (size_t)(m * n + 1)), half = which % 2 ? 0 : INT64_C(1) << (integer_bits[which] - 1);
  uint64_t range = (UINT64_C(1) << integer_bits[which]) - 1;
  for (int64_t i = 0; i < m * k; i++) a[i] = (double)((int64_t)(((uint64_t)next_bits() << 20 ^ next_bits() >> 7) & range) - half);
  for (int64_t i = 0; i < k * n; i++) b[i] = (double)((int64_t)(((uint64_t)next_bits() << 20 ^ next_bits() >> 7) & range) - half);
  weft_array *y = weft_matmul(laid_out(integers[which], la, m, k, a), laid_out(integers[which], lb, k, n, b));
  weft_dtype t = which < 4 ? which % 2 ? WEFT_U32 : WEFT_I32 : integers[which];
  EXPECT_INT(weft_dtype_of(y), t);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_I64), WEFT_I64, got, sizeof *got * (size_t)(m * n)));
  for (int64_t i = 0; i < m * n; i++) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < k; j++) sum += (uint64_t)(int64_t)a[i / n * k + j] * (uint64_t)(int64_t)b[j * n + i % n];
    int64_t want = t == WEFT_I32 ? (int32_t)sum : t == WEFT_U32 ? (int64_t)(uint32_t)sum : (int64_t)sum;
    if (got[i] == want) continue;
    test_fail(__FILE__, __LINE__, "%s [%d,%d,%d] on %s: element %d is %lld, not %lld", weft_dtype_name(integers[which]), (int)m, (int)n,
              (int)k, backend, (int)i, (long long)got[i], (long long)want);
    break;
  }
  free(a), free(b), free(got);
  weft_scope_discard(scope);
}

TEST(products_of_integers_are_exact_and_wrap_around) {
  static const int shape[][3] = { { 2, 3, 4 }, { 1, 70, 33 }, { 40, 1, 30 }, { 17, 19, 23 }, { 33, 5, 600 }, { 64, 130, 1201 }, { 0, 3, 3 }, { 3, 3, 0 } };
  test_watchdog(200);
  EACH_BACKEND(backend)
    for (int which = 0; which < 8; which++)
      for (int s = 0; s < 8; s++)
        expect_integers(backend, which, shape[s][0], shape[s][1], shape[s][2], (enum layout)((which + s) % 5), (enum layout)((which / 2 + s) % 5));
}

/* Large enough for instructions that multiply several bytes at once, and for tiles of them. */
TEST(products_of_bytes_are_exact_in_every_pair_of_layouts) {
  use_backend(NULL);
  for (int i = 0; i < 4; i++)
    for (int la = 0; la < STILL; la++)
      for (int lb = 0; lb < STILL; lb++) {
        contractor_leave_tiles(i / 2);
        expect_integers(i / 2 ? "the best but tiles" : "the best", i % 2, 62, 75, 1203, (enum layout)la, (enum layout)lb);
      }
  contractor_leave_tiles(false);
}

/* A tile is 16 rows, 16 columns and 64 bytes along k; a patch has four of them. */
TEST(products_of_bytes_are_exact_at_the_edges_of_tiles) {
  static const int around[] = { 16, 17, 31, 32, 33, 64, 65 }, deep[] = { 32, 63, 64, 65, 2048, 2049, 4100 };
  use_backend(NULL);
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++)
      expect_integers("the best", (i + j) % 2, around[i], around[6 - j], deep[(i + 2 * j) % 7], (enum layout)((i + j) % STILL), PLAIN);
  expect_integers("the best", 0, 300, 2100, 70, PLAIN, TRANSPOSED);
}

/* [2,M,K] x [K,N] cast inside the product, one batch after the other, and a kernel that goes on with it, on several threads. */
TEST(bytes_that_are_made_are_multiplied_exactly_and_gone_on_with) {
  enum { M = 70, K = 200, N = 90 };
  weft_scope *scope = weft_scope_open();
  static int8_t x[2 * M * K], w[K * N];
  static int32_t y[2 * M * N];
  for (int i = 0; i < 2 * M * K; i++) x[i] = (int8_t)(next_bits() >> 24);
  for (int i = 0; i < K * N; i++) w[i] = (int8_t)(next_bits() >> 24);
  weft_array *a = weft_from(WEFT_I8, WEFT_DIMS(2, M, K), x), *b = weft_from(WEFT_I8, WEFT_DIMS(K, N), w);
  weft_array *turned = weft_xor(a, weft_cast(weft_integer(1), WEFT_I8)), *sum = weft_matmul(turned, weft_neg(b));
  weft_set(WEFT_THREADS, 3);
  EXPECT_OK(weft_read(weft_add(weft_mul(sum, weft_cast(weft_integer(3), WEFT_I32)), weft_cast(weft_integer(7), WEFT_I32)), WEFT_I32, y, sizeof y));
  for (int i = 0; i < 2 * M * N; i++) {
    int32_t want = 0;
    for (int k = 0; k < K; k++) want += (int8_t)(x[i / N * K + k] ^ 1) * (int8_t)-w[k * N + i % N];
    if (y[i] != want * 3 + 7) { test_fail(__FILE__, __LINE__, "element %d is %d, not %d", i, y[i], want * 3 + 7); break; }
  }
  weft_scope_discard(scope);
}

/* In the order of k unless it is allowed to leave it; then close, and infinities and nan where they belong. */
TEST(products_of_bf16_leave_their_order_only_where_that_is_allowed) {
  enum { M = 70, K = 700, N = 50 };
  static double a[M * K], b[K * N], y[M * N], exact[M * N];
  int64_t before = weft_get(WEFT_HALVES);
  use_backend(NULL);
  for (int i = 0; i < M * K; i++) a[i] = number(WEFT_BF16);
  for (int i = 0; i < K * N; i++) b[i] = number(WEFT_BF16);
  a[3 * K + 5] = INFINITY, a[4 * K + 699] = NAN;
  for (int loose = 0; loose < 2; loose++) {
    weft_scope *scope = weft_scope_open();
    EXPECT_INT(weft_set(WEFT_HALVES, loose), loose ? 0 : before);
    weft_array *x = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(M, K), a), WEFT_BF16);
    weft_array *w = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(K, N), b), WEFT_BF16);
    EXPECT_OK(read_wide(weft_matmul(x, w), loose ? y : exact, sizeof y));
    weft_scope_discard(scope);
  }
  EXPECT_INT(weft_set(WEFT_HALVES, 3), -1);
  EXPECT_INT(weft_set(WEFT_HALVES, -1), -1);
  EXPECT_INT(weft_set(WEFT_HALVES, before), 1);
  for (int i = 0; i < M * N; i++) {
    bool is_like = isfinite(exact[i]) ? fabs(y[i] - exact[i]) <= 0.01 * fabs(exact[i]) + 0.01 : isnan(exact[i]) ? isnan(y[i]) : y[i] == exact[i];
    if (!is_like) { test_fail(__FILE__, __LINE__, "element %d is %g, not %g", i, y[i], exact[i]); break; }
  }
}

TEST(products_of_bools_count) {
  weft_scope *scope = weft_scope_open();
  int32_t y[4];
  weft_array *x = weft_from(WEFT_BOOL, WEFT_DIMS(2, 3), (uint8_t[]){ 1, 0, 1, 1, 1, 1 });
  EXPECT_OK(weft_read(weft_matmul(x, weft_transpose(x, NULL)), WEFT_I32, y, sizeof y));
  EXPECT(y[0] == 2 && y[1] == 2 && y[2] == 2 && y[3] == 3);
  weft_scope_discard(scope);
}

/* ---- batches ---- */

TEST(a_batch_of_products_has_the_bits_of_each_alone) {
  weft_scope *scope = weft_scope_open();
  enum { B = 3, C = 2, M = 21, K = 33, N = 18 };
  static double a[B * M * K], b[C * K * N], y[B * C * M * N];
  for (int i = 0; i < B * M * K; i++) a[i] = number(WEFT_F32);
  for (int i = 0; i < C * K * N; i++) b[i] = number(WEFT_F32);
  EACH_BACKEND(backend) {
    weft_array *x = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(B, 1, M, K), a), WEFT_F32);
    weft_array *w = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(C, K, N), b), WEFT_F32);
    EXPECT_OK(read_wide(weft_matmul(x, w), y, sizeof y));
    for (int i = 0, bad = 0; i < B * C * M * N && !bad; i++) {
      int which = i / (M * N), row = i / N % M, column = i % N;
      double want = right(WEFT_F32, K, a + (which / C * M + row) * K, b + which % C * K * N + column, N);
      if ((bad = y[i] != want)) test_fail(__FILE__, __LINE__, "element %d on %s is %.17g, not %.17g", i, backend, y[i], want);
    }
  }
  weft_scope_discard(scope);
}

TEST(a_mapped_product_has_the_bits_of_each_alone) {
  weft_scope *scope = weft_scope_open();
  enum { B = 4, M = 17, K = 40 };
  static double a[M * K], v[B * K], ys[B * M];
  for (int i = 0; i < M * K; i++) a[i] = number(WEFT_F32);
  for (int i = 0; i < B * K; i++) v[i] = number(WEFT_F32);
  weft_array *m = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(M, K), a), WEFT_F32), *all;
  weft_array *vs = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(B, K), v), WEFT_F32);
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(K)), *y = weft_matmul(m, x);
  weft_map(1, &x, &vs, 1, &y, &all);
  EXPECT_OK(read_wide(all, ys, sizeof ys));
  for (int i = 0; i < B * M; i++)
    EXPECT(ys[i] == right(WEFT_F32, K, a + i % M * K, v + i / M * K, 1));
  weft_scope_discard(scope);
}

/* ---- numbers that are none ---- */

TEST(nothing_is_skipped_because_it_is_zero) {
  weft_scope *scope = weft_scope_open();
  enum { N = 20 };
  static double a[N * N], b[N * N], y[N * N];
  EACH_BACKEND(backend) {
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    b[3 * N + 5] = INFINITY, b[4 * N + 6] = NAN, a[7 * N + 1] = 1, b[1 * N + 8] = -INFINITY;
    weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(N, N), a), *w = weft_from(WEFT_F64, WEFT_DIMS(N, N), b);
    EXPECT_OK(read_wide(weft_matmul(x, w), y, sizeof y));
    for (int i = 0; i < N * N; i++) {
      int row = i / N, column = i % N;
      bool is_nan = column == 5 || column == 6 || (column == 8 && row != 7);
      if (is_nan != (bool)isnan(y[i])) test_fail(__FILE__, __LINE__, "element %d on %s is %g", i, backend, y[i]);
    }
    EXPECT(y[7 * N + 8] == -INFINITY);
  }
  weft_scope_discard(scope);
}

TEST(a_product_over_nothing_is_zero) {
  weft_scope *scope = weft_scope_open();
  EACH_BACKEND(backend) {
    double y[6] = { 1, 2, 3, 4, 5, 6 };
    (void)backend;
    EXPECT_OK(read_wide(weft_matmul(weft_full(WEFT_F32, WEFT_DIMS(2, 0), 1), weft_full(WEFT_F32, WEFT_DIMS(0, 3), 1)), y, sizeof y));
    for (int i = 0; i < 6; i++) EXPECT(y[i] == 0 && !signbit(y[i]));
  }
  weft_scope_discard(scope);
}

/* ---- what follows a product ---- */

/* gelu-like of a x + bias, with a residual, a mask by index and a taken row. */
static weft_array *layer(weft_array *x, weft_array *w, weft_array *bias, weft_array *rest, weft_array *at) {
  weft_array *h = weft_add(weft_matmul(x, w), bias), *g = weft_mul(h, weft_tanh(weft_mul(h, weft_scalar(0.5))));
  weft_array *column = weft_iota(g, 1), *row = weft_iota(g, 0);
  weft_array *masked = weft_where(weft_le(column, row), g, weft_scalar(-1));
  return weft_add(weft_add(masked, rest), weft_take(bias, 1, &at));
}

static void make_layer(weft_dtype t, int64_t m, int64_t n, int64_t k, weft_array *out[2]) {
  seed = 7;
  double *x = malloc(sizeof *x * (size_t)(m * k)), *w = malloc(sizeof *w * (size_t)(n * k)), *r = malloc(sizeof *r * (size_t)(m * n));
  int64_t *at = malloc(sizeof *at * (size_t)n);
  for (int64_t i = 0; i < m * k; i++) x[i] = number(t);
  for (int64_t i = 0; i < n * k; i++) w[i] = number(t);
  for (int64_t i = 0; i < m * n; i++) r[i] = number(t);
  for (int64_t i = 0; i < n; i++) at[i] = (i * 7 + 3) % n;
  weft_array *a = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(m, k), x), t), *b = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(n, k), w), t);
  weft_array *rest = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(m, n), r), t), *bias = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(n), r), t);
  weft_array *dx;
  out[0] = layer(a, weft_transpose(b, NULL), bias, rest, weft_from(WEFT_I64, WEFT_DIMS(n), at));
  weft_grad(weft_sum(out[0], WEFT_ALL), 1, &a, &dx);
  out[1] = dx;
  free(x), free(w), free(r), free(at);
}

static double *layer_bits(weft_dtype t, int64_t m, int64_t n, int64_t k) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2];
  double *bits = malloc(sizeof *bits * (size_t)(m * (n + k)));
  make_layer(t, m, n, k, y);
  EXPECT_OK(read_wide(y[0], bits, sizeof *bits * (size_t)(m * n)));
  EXPECT_OK(read_wide(y[1], bits + m * n, sizeof *bits * (size_t)(m * k)));
  weft_scope_discard(s);
  return bits;
}

static const int layers[][3] = { { 40, 70, 30 }, { 230, 1100, 90 }, { 1, 900, 600 }, { 700, 1, 40 }, { 600, 5, 700 } };
enum { N_LAYERS = sizeof layers / sizeof *layers };

TEST(what_follows_a_product_has_the_bits_of_one_op_at_a_time) {
  test_watchdog(120);
  for (int l = 0; l < N_LAYERS; l++)
    for (int d = 0; d < 3; d++) {
      weft_dtype t = (weft_dtype[]){ WEFT_F32, WEFT_F64, WEFT_BF16 }[d];
      int64_t m = layers[l][0], n = layers[l][1], k = layers[l][2];
      use_backend("vm");
      plan_use_fusing(false);
      double *want = layer_bits(t, m, n, k);
      plan_use_fusing(true);
      EACH_BACKEND(backend) {
        double *got = layer_bits(t, m, n, k);
        if (memcmp(got, want, sizeof *got * (size_t)(m * (n + k))))
          test_fail(__FILE__, __LINE__, "%s [%d,%d,%d] on %s", weft_dtype_name(t), (int)m, (int)n, (int)k, backend);
        free(got);
      }
      free(want);
    }
}

static void check_threads(weft_dtype t, int layer, int n, const int threads[]) {
  int64_t m = layers[layer][0], columns = layers[layer][1], k = layers[layer][2];
  weft_set(WEFT_THREADS, 1);
  double *one = layer_bits(t, m, columns, k);
  for (int i = 0; i < n; i++) {
    weft_set(WEFT_THREADS, threads[i]);
    double *many = layer_bits(t, m, columns, k);
    if (memcmp(one, many, sizeof *one * (size_t)(m * (columns + k))))
      test_fail(__FILE__, __LINE__, "%s, layer %d on %d threads", weft_dtype_name(t), layer, threads[i]);
    free(many);
  }
  free(one);
}

/* m x k by k x n, with nothing after it. */
static void expect_on_threads(weft_dtype t, int64_t m, int64_t n, int64_t k, enum layout a, enum layout b, int threads) {
  struct product p = { t, m, n, k, a, b, NULL, NULL, NULL, NULL };
  weft_scope *s = weft_scope_open();
  char name[64];
  fill(&p, ORDINARY);
  weft_set(WEFT_THREADS, threads);
  snprintf(name, sizeof name, "%d threads", threads);
  expect_product(&p, name, weft_matmul(laid_out(t, a, m, k, p.a), laid_out(t, b, k, n, p.b)));
  drop(&p);
  weft_scope_discard(s);
}

/* Columns go in tracts: fewer or more than there are strips, more threads than parts, the last of them narrow; in all layouts. */
TEST(many_threads_share_the_columns_of_a_product) {
  int64_t before = weft_get(WEFT_THREADS);
  for (int i = 0; i < 4; i++) {
    enum layout a = i % 2 ? TRANSPOSED : PLAIN, b = i / 2 ? TRANSPOSED : PLAIN;
    expect_on_threads(WEFT_F32, 301, 333, 700, a, b, 16);
    expect_on_threads(WEFT_F64, 130, 517, 300, a, b, 9);
    expect_on_threads(WEFT_BF16, 200, 300, 600, a, b, 12);
    expect_integers("12 threads", i % 2, 200, 300, 1100, a, b);
  }
  expect_on_threads(WEFT_F32, 43, 2000, 300, PLAIN, PLAIN, 16);
  expect_on_threads(WEFT_F32, 2000, 40, 300, PLAIN, PLAIN, 16);
  expect_on_threads(WEFT_F32, 700, 300, 1000, PLAIN, PLAIN, 100);
  weft_set(WEFT_THREADS, before);
}

/* Of so many rows a sixteenth of what a thread has is more than the scratch of a cell holds. */
TEST(many_threads_share_the_rows_of_a_tall_product) {
  int64_t before = weft_get(WEFT_THREADS);
  expect_on_threads(WEFT_BF16, 20011, 40, 24, PLAIN, PLAIN, 9);
  expect_on_threads(WEFT_F32, 40009, 24, 16, TRANSPOSED, PLAIN, 9);
  expect_integers("12 threads", 1, 60000, 24, 16, PLAIN, PLAIN);
  weft_set(WEFT_THREADS, before);
}

TEST(products_have_the_same_bits_on_any_number_of_threads) {
  int64_t before = weft_get(WEFT_THREADS);
  for (int l = 0; l < N_LAYERS; l++) check_threads(WEFT_F32, l, 2, (int[]){ 2, 3 });
  check_threads(WEFT_F32, 1, 3, (int[]){ 7, 16, 64 });
  check_threads(WEFT_F64, 1, 2, (int[]){ 2, 5 });
  check_threads(WEFT_BF16, 1, 2, (int[]){ 2, 5 });
  weft_set(WEFT_THREADS, before);
}

/* Rows by matrices that need nothing of each other run at the same time, each by a thread; those of a chain do not. */
static void rows_of_one(bool is_chain, int64_t k, int64_t n, float *got) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_sin(weft_cast(weft_arange(WEFT_F64, 1, (double)(k + 1), 1), WEFT_F32)), *y[4], *all = NULL;
  x = weft_reshape(x, WEFT_DIMS(1, k));
  for (int i = 0; i < 4; i++) {
    weft_array *w = weft_reshape(weft_sin(weft_mul(weft_cast(weft_arange(WEFT_F64, 1, (double)(k * n + 1), 1), WEFT_F32), weft_scalar(i + 1.5))), WEFT_DIMS(k, n));
    EXPECT_OK(weft_eval(1, &w));
    y[i] = weft_add(weft_matmul(is_chain && i ? weft_div(y[i - 1], weft_scalar(16)) : x, w), weft_scalar(i));
  }
  for (int i = 0; i < 4; i++) all = all ? weft_sub(weft_mul(all, weft_scalar(0.5)), weft_exp(weft_sin(y[i]))) : weft_sin(y[i]);
  weft_array *out[] = { weft_sum(weft_concat(0, 4, y), 0), all };
  EXPECT_OK(weft_eval(2, out));
  EXPECT_OK(weft_read(out[0], WEFT_F32, got, sizeof *got * (size_t)n));
  EXPECT_OK(weft_read(out[1], WEFT_F32, got + n, sizeof *got * (size_t)n));
  EXPECT_OK(weft_scope_close(s));
}

TEST(rows_by_several_matrices_have_the_same_bits_on_any_number_of_threads) {
  enum { K = 400, N = 200 };
  float one[2 * K], many[2 * K];
  int64_t before = weft_get(WEFT_THREADS);
  for (int is_chain = 0; is_chain < 2; is_chain++)
    EACH_BACKEND(backend)
      for (int threads = 1; threads <= 4; threads++) {
        int64_t n = is_chain ? K : N;
        weft_set(WEFT_THREADS, threads);
        rows_of_one(is_chain, K, n, threads == 1 ? one : many);
        if (threads > 1 && memcmp(one, many, sizeof *one * (size_t)(2 * n)))
          test_fail(__FILE__, __LINE__, "%s of four on %d threads, %s", is_chain ? "a chain" : "rows", threads, backend);
      }
  weft_set(WEFT_THREADS, before);
}

static weft_function *product_function(int64_t m, int64_t n, int64_t k, bool goes_on) {
  weft_scope *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(m, k)), weft_input(WEFT_F32, WEFT_DIMS(k, n)) };
  weft_array *y = weft_matmul(in[0], in[1]);
  if (goes_on) y = weft_neg(y);
  return weft_compile(body, 2, in, 1, &y);
}

/* How a product is multiplied is chosen once; memory, threads and back end may be others the next time. */
TEST(a_function_multiplies_other_arrays_in_other_ways_to_the_same_bits) {
  static const int shape[][3] = { { 16, 16, 16 }, { 64, 64, 64 }, { 1, 700, 90 }, { 130, 100, 70 }, { 60, 1, 600 } };
  int64_t before = weft_get(WEFT_THREADS);
  for (int i = 0; i < 10; i++) {
    const int *d = shape[i / 2];
    weft_scope *s = weft_scope_open();
    weft_function *f = product_function(d[0], d[1], d[2], i % 2);
    for (int turn = 0; turn < 12; turn++) {
      struct product p = { WEFT_F32, d[0], d[1], d[2], PLAIN, PLAIN, NULL, NULL, NULL, NULL };
      weft_array *y;
      fill(&p, ORDINARY);
      for (int64_t k = 0; i % 2 && k < p.m * p.n; k++) p.want[k] = -p.want[k];
      compiled_use(turn % 4 == 3 ? "vm" : turn % 4 == 2 && contractor_avx2.available() ? "avx2" : NULL);
      weft_set(WEFT_THREADS, 1 + turn / 2 % 3);
      weft_call(f, 2, (weft_array *[]){ laid_out(p.t, PLAIN, p.m, p.k, p.a), laid_out(p.t, PLAIN, p.k, p.n, p.b) }, 1, &y);
      expect_product(&p, "a function", y);
      drop(&p);
    }
    weft_scope_discard(s);
  }
  compiled_use(NULL);
  weft_set(WEFT_THREADS, before);
}

TEST(a_product_is_one_step_with_what_follows_it) {
  weft_scope *scope = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(64, 32), 1), *w = weft_full(WEFT_F32, WEFT_DIMS(48, 32), 2), *b = weft_full(WEFT_F32, WEFT_DIMS(48), 3);
  weft_array *in[] = { x, w, b };
  EXPECT_OK(weft_eval(3, in));
  weft_array *y = weft_tanh(weft_add(weft_matmul(x, weft_transpose(w, NULL)), b));
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.kernels, 1);
  EXPECT_INT(cost.peak_bytes - cost.scratch_bytes, 2 * 64 * 48 * 4); /* the scope holds the product too */
  EXPECT(strstr(weft_show(1, &y, "plan"), "product(f32, M=64, N=48, K=32"));
  weft_scope_discard(scope);
}

/* The cast happens while the operand is packed: no copy of it in f32. */
/* The window's kernel runs over its indices first, the product over its batches. */
TEST(a_product_shares_no_kernel_that_has_its_axes_in_another_order) {
  enum { B = 8, C = 16, M = 3, K = 5, N = 2 };
  static float x[B * C * K * N], a[B * C * M * K], b[B * C * K * N], y[B * C * M * N];
  for (int i = 0; i < (int)(sizeof a / sizeof *a); i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < (int)(sizeof b / sizeof *b); i++) b[i] = (float)(i % 5 - 2), x[i] = (float)(i % 97);
  EACH_BACKEND(name) {
    weft_scope *s = weft_scope_open();
    weft_array *ax = weft_from(WEFT_F32, WEFT_DIMS(B, C, K, N), x), *start = weft_from(WEFT_I64, 0, NULL, &(int64_t){ 1 });
    weft_array *window = weft_window(ax, 2, start, M);
    weft_array *product = weft_matmul(weft_from(WEFT_F32, WEFT_DIMS(B, C, M, K), a), weft_from(WEFT_F32, WEFT_DIMS(B, C, K, N), b));
    weft_array *sum = weft_add(window, product);
    EXPECT_OK(weft_eval(2, (weft_array *[]){ sum, product }));
    EXPECT_OK(weft_read(sum, WEFT_F32, y, sizeof y));
    for (int i = 0; i < B * C * M * N; i++) {
      int batch = i / (M * N), m = i / N % M, n = i % N;
      float want = x[(batch * K + 1 + m) * N + n];
      for (int k = 0; k < K; k++) want += a[(batch * M + m) * K + k] * b[(batch * K + k) * N + n];
      if (y[i] != want) test_fail(__FILE__, __LINE__, "%s: element %d is %g, not %g", name, i, (double)y[i], (double)want), i = B * C * M * N;
    }
    weft_scope_discard(s);
  }
}

/* ---- products of other lengths beside one ---- */

/* Quarters, of which sums are exact in any order: [m,k] x [k,n] and the result. */
struct quarters { int m, k, n; weft_array *y; double *sum; };

static struct quarters quarters_of(int m, int k, int n) {
  double *a = malloc(sizeof *a * (size_t)(m * k)), *b = malloc(sizeof *b * (size_t)(k * n));
  struct quarters q = { m, k, n, NULL, calloc((size_t)(m * n), sizeof *q.sum) };
  for (int i = 0; i < m * k; i++) a[i] = (int)(next_bits() >> 28) * 0.25;
  for (int i = 0; i < k * n; i++) b[i] = (int)(next_bits() >> 28) * 0.25 - 2;
  for (int i = 0; i < m * n; i++) for (int j = 0; j < k; j++) q.sum[i] += a[i / n * k + j] * b[j * n + i % n];
  q.y = weft_matmul(weft_from(WEFT_F64, WEFT_DIMS(m, k), a), weft_from(WEFT_F64, WEFT_DIMS(k, n), b));
  free(a), free(b);
  return q;
}

static void check_lengths(int m, int n, int k0, int k1) {
  weft_scope *s = weft_scope_open();
  struct quarters p = quarters_of(m, k0, n), q = quarters_of(m, k1, n), r = quarters_of(m, 3, n);
  double *got = malloc(sizeof *got * (size_t)(m * n));
  weft_array *y = weft_sub(weft_add(weft_mul(p.y, weft_scalar(2)), q.y), r.y);
  EXPECT_OK(weft_read(y, WEFT_F64, got, sizeof *got * (size_t)(m * n)));
  for (int i = 0; i < m * n; i++) {
    double want = 2 * p.sum[i] + q.sum[i] - r.sum[i];
    if (got[i] == want) continue;
    test_fail(__FILE__, __LINE__, "[%d,%d], lengths %d and %d: element %d is %g, not %g", m, n, k0, k1, i, got[i], want);
    break;
  }
  free(p.sum), free(q.sum), free(r.sum), free(got);
  weft_scope_discard(s);
}

TEST(products_of_any_lengths_are_added_element_by_element) {
  static const int LENGTH[] = { 1, 2, 15, 64, 511, 512, 513, 2048 }, SHAPE[][2] = { { 1, 1 }, { 1, 7 }, { 5, 1 }, { 4, 9 }, { 24, 24 } };
  enum { LENGTHS = sizeof LENGTH / sizeof *LENGTH, SHAPES = sizeof SHAPE / sizeof *SHAPE };
  EACH_BACKEND(name)
    for (int i = 0; i < SHAPES * LENGTHS * LENGTHS; i++)
      check_lengths(SHAPE[i % SHAPES][0], SHAPE[i % SHAPES][1], LENGTH[i / SHAPES % LENGTHS], LENGTH[i / SHAPES / LENGTHS]);
}

TEST(products_of_single_elements_are_summed_over_their_batches) {
  enum { A = 9, B = 8, K = 8 };
  static double x[A * B * K], y[A * B * K], got[A];
  for (int i = 0; i < A * B * K; i++) x[i] = i % 7 - 3, y[i] = i % 5;
  EACH_BACKEND(name) {
    weft_scope *s = weft_scope_open();
    weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(A, B, 1, K), x), *b = weft_from(WEFT_F64, WEFT_DIMS(A, B, K, 1), y);
    weft_array *sum = weft_sum(weft_reshape(weft_matmul(a, b), WEFT_DIMS(A, B)), 1);
    EXPECT_OK(weft_read(sum, WEFT_F64, got, sizeof got));
    for (int i = 0; i < A; i++) {
      double want = 0;
      for (int k = i * B * K; k < (i + 1) * B * K; k++) want += x[k] * y[k];
      if (got[i] != want) test_fail(__FILE__, __LINE__, "%s: sum %d is %g, not %g", name, i, got[i], want);
    }
    weft_scope_discard(s);
  }
}

TEST(an_operand_is_cast_inside_the_product) {
  weft_scope *scope = weft_scope_open();
  static float want[40 * 300], got[40 * 300];
  weft_array *x = weft_cast(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(40, 700), 0), 1), WEFT_F32);
  weft_array *w = weft_cast(weft_sigmoid(weft_cast(weft_iota(weft_full(WEFT_F32, WEFT_DIMS(300, 700), 0), 0), WEFT_F32)), WEFT_BF16), *in[] = { x, w };
  EXPECT_OK(weft_eval(2, in));
  EACH_BACKEND(backend)
    for (int rows = 1; rows <= 40; rows += 39) {
      weft_scope *s = weft_scope_open();
      weft_array *a = weft_slice(x, 0, 0, rows, 1), *wide = weft_cast(w, WEFT_F32), *y = weft_matmul(a, weft_transpose(w, NULL));
      weft_cost cost;
      EXPECT_OK(weft_plan(1, &y, &cost));
      EXPECT_INT(cost.kernels, 1);
      EXPECT_INT(cost.peak_bytes - cost.scratch_bytes, rows * 300 * 4);
      EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof *got * (size_t)(rows * 300)));
      EXPECT_OK(weft_eval(1, &wide));
      EXPECT_OK(weft_read(weft_matmul(a, weft_transpose(wide, NULL)), WEFT_F32, want, sizeof *want * (size_t)(rows * 300)));
      if (memcmp(got, want, sizeof *got * (size_t)(rows * 300))) test_fail(__FILE__, __LINE__, "%d rows on %s", rows, backend);
      weft_scope_discard(s);
    }
  weft_scope_discard(scope);
}

/* Against exact products summed in long double: a block of sums, the sum of blocks, and one rounding of the result. */
static void check_error(weft_dtype t, int64_t m, int64_t n, int64_t k) {
  struct product p = { .t = t, .m = m, .n = n, .k = k };
  double u = t == WEFT_F64 ? 0x1p-53 : 0x1p-24, last = t == WEFT_BF16 ? 0x1p-8 : t == WEFT_F16 ? 0x1p-11 : 0, worst = 0;
  double most = ((double)KIR_PRODUCT_BLOCK + ceil((double)k / KIR_PRODUCT_BLOCK)) * u;
  weft_scope *scope = weft_scope_open();
  fill(&p, ORDINARY);
  weft_array *y = weft_matmul(laid_out(t, PLAIN, m, k, p.a), laid_out(t, PLAIN, k, n, p.b));
  EXPECT_OK(read_wide(y, p.got, sizeof *p.got * (size_t)(m * n)));
  for (int64_t i = 0; i < m * n; i++) {
    long double exact = 0, size = 0;
    for (int64_t j = 0; j < k; j++) {
      long double x = (long double)p.a[i / n * k + j] * p.b[j * n + i % n];
      exact += x, size += fabsl(x);
    }
    double error = (double)fabsl(p.got[i] - exact), allowed = most * (double)size + last * fabs((double)exact) * (1 + most);
    if (error / allowed > worst) worst = error / allowed;
  }
  if (worst > 1) test_fail(__FILE__, __LINE__, "%s [%d,%d,%d]: %g times the bound", weft_dtype_name(t), (int)m, (int)n, (int)k, worst);
  drop(&p);
  weft_scope_discard(scope);
}

TEST(the_error_of_a_product_stays_below_what_is_promised) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16 };
  EACH_BACKEND(backend)
    for (int i = 0; i < 4; i++) {
      (void)backend;
      check_error(types[i], 1, 1, 20000);
      check_error(types[i], 37, 45, 1300);
      check_error(types[i], 5, 40, 3000);
    }
}

/* a^2 b, in which the left operand is made. K is some blocks and a part of one, of which a piece could have more rows. What the
 * product worked in goes back to the system at once, which looks at it. */
static void check_made(weft_dtype t, int64_t m, int64_t k, int64_t n) {
  weft_scope *scope = weft_scope_open();
  double *x = calloc((size_t)(m * k), sizeof *x), *w = malloc(sizeof *w * (size_t)(k * n)), *y = malloc(sizeof *y * (size_t)(m * n));
  for (int64_t i = 0; i < k * n; i++) w[i] = 2;
  for (int64_t i = 0; i < m; i++) x[i * k] = x[i * k + k - 1] = (double)i;
  weft_array *a = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(m, k), x), t), *b = weft_cast(weft_from(WEFT_F64, WEFT_DIMS(k, n), w), t);
  EXPECT_OK(weft_eval(2, (weft_array *[]){ a, b }));
  EXPECT_OK(read_wide(weft_matmul(weft_mul(a, a), b), y, sizeof *y * (size_t)(m * n)));
  int64_t i = 0;
  while (i < m * n && y[i] == 4.0 * (double)(i / n * (i / n))) i++;
  if (i < m * n) test_fail(__FILE__, __LINE__, "%s [%d,%d]: row %d is %g", weft_dtype_name(t), (int)m, (int)k, (int)(i / n), y[i]);
  free(x), free(w), free(y);
  weft_scope_discard(scope);
}

TEST(a_last_block_that_is_shorter_makes_no_larger_piece_of_an_operand) {
  static const int rows[] = { 6, 8, 16, 24, 31, 32, 64, 130 }, deep[] = { 513, 700, 1100, 1440, 1500, 2047 };
  weft_set(WEFT_THREADS, 1);
  weft_set(WEFT_BYTES_CACHE, 0);
  EACH_BACKEND(backend)
    for (int i = 0; i < 8 * 6; i++) {
      (void)backend;
      check_made(WEFT_F64, rows[i / 6], deep[i % 6], 64);
      check_made(WEFT_F32, rows[i / 6], deep[i % 6], 33);
    }
}

/* ---- no memory ---- */

/* tanh(a b + 1) with `rows` rows, in which allocation n fails. Whether it got that far. */
static bool fails_at(int64_t n, int64_t rows, weft_dtype t) {
  enum { N = 37, K = 41 };
  static float y[PATCH_ROWS * N], want[PATCH_ROWS * N];
  weft_status status[2];
  int64_t made = 0;
  for (int again = 0; again < 2; again++) {
    weft_scope *s = weft_scope_open();
    weft_array *a = weft_full(t, WEFT_DIMS(rows, K), 0.25), *b = weft_full(t, WEFT_DIMS(K, N), 0.125);
    if (weft_eval(2, (weft_array *[]){ a, b })) test_fail(__FILE__, __LINE__, "%s", weft_message());
    weft_array *x = weft_cast(weft_tanh(weft_add(weft_matmul(a, b), weft_scalar(1))), WEFT_F32);
    if (!again) mem_fail_at(n, 0);
    status[again] = weft_read(x, WEFT_F32, again ? want : y, sizeof *y * (size_t)(rows * N));
    if (!again) made = mem_count();
    mem_fail_at(0, 0);
    weft_scope_discard(s);
    plan_drop_all();
    compiled_drop_all();
  }
  EXPECT_INT(status[1], WEFT_OK);
  if (status[0]) EXPECT_INT(status[0], WEFT_ERR_MEMORY);
  else EXPECT(!memcmp(y, want, sizeof *y * (size_t)(rows * N)));
  return made >= n;
}

TEST(a_product_survives_each_failing_allocation) {
  test_watchdog(200);
  use_backend("avx2");
  for (int64_t rows = 1; rows < 7; rows++)
    for (int64_t n = 1; fails_at(n, rows, WEFT_F64); n++) {}
  use_backend(NULL);
  for (int64_t n = 1; fails_at(n, 9, WEFT_BF16); n++) {}
}

/* ---- threads ---- */

static int n_tasks(void) {
  DIR *d = opendir("/proc/self/task");
  int n = 0;
  for (const struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* Nobody is awake at first: now and then one is woken, and stays so while there is more of it. */
TEST(products_of_a_few_microseconds_find_a_second_thread) {
  int before = n_tasks();
  if (!before) { test_skip("no /proc/self/task here"); return; }
  weft_scope *all = weft_scope_open(), *body = weft_scope_open();
  weft_array *in[] = { weft_input(WEFT_F32, WEFT_DIMS(64, 64)), weft_input(WEFT_F32, WEFT_DIMS(64, 64)) };
  weft_array *y = weft_matmul(in[0], in[1]);
  weft_function *f = weft_compile(body, 2, in, 1, &y);
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.5);
  weft_set(WEFT_THREADS, 2);
  for (int i = 0; i < 300; i++) {
    weft_scope *s = weft_scope_open();
    weft_call(f, 2, (weft_array *[]){ x, x }, 1, &y);
    EXPECT_OK(weft_eval(1, &y));
    weft_scope_discard(s);
  }
  EXPECT(n_tasks() > before);
  weft_scope_discard(all);
}
