/* gpu_plans.c -- programs on the GPU against the same programs on the host: the same bits, or close where floats are
 * summed. Run by make gpu, which shows the time of each; skipped where there is no device. The kernels that graphs become
 * are also assembled by ptxas, where that is. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "assembling.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/ptx.h"
#include "digest.h"
#include "every_recipe.h"
#include "gpu.h"
#include "test.h"
#include "values.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- programs ---- */

enum { MOST = 3 };

static bool is_interpreted(void) {
  const char *text = cuda_text(cuda_gpu(0));
  return text && strstr(text, "machine for PTX");
}

/* Of millions of elements a device that is interpreted gets the sixteenth part, which is many blocks too. */
static int64_t many(int64_t rows) { return is_interpreted() ? rows / 16 : rows; }

static int chain(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(many(4096), 1024), 1);
  return y[0] = weft_mul(weft_tanh(weft_mul(x, weft_scalar(0.7))), weft_exp(weft_neg(weft_mul(x, x)))), 1;
}
/* Every function of one float, in f32 and in f64, and those of two. */
static int functions(weft_array *y[]) {
  weft_array *x[2] = { drawn_floats(WEFT_DIMS(64, 101), 1) }, *sum = NULL;
  x[1] = weft_cast(x[0], WEFT_F64);
  for (int k = 0; k < 2; k++) {
    weft_array *z = weft_flip(x[k], 1), *terms[] = {
      weft_exp2(x[k]), weft_expm1(x[k]), weft_log2(x[k]), weft_log10(x[k]), weft_log1p(x[k]), weft_sin(x[k]), weft_cos(x[k]), weft_tan(x[k]),
      weft_asin(x[k]), weft_acos(x[k]), weft_atan(x[k]), weft_sinh(x[k]), weft_cosh(x[k]), weft_asinh(x[k]), weft_acosh(x[k]), weft_atanh(x[k]),
      weft_erf(x[k]), weft_erfc(x[k]), weft_erfinv(x[k]), weft_sigmoid(x[k]), weft_rsqrt(x[k]), weft_pow(x[k], z), weft_atan2(x[k], z),
      weft_hypot(x[k], z), weft_logaddexp(x[k], z) };
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
      weft_array *known = weft_where(weft_isfinite(terms[i]), terms[i], weft_scalar(0.5));
      sum = i ? weft_add(sum, known) : known;
    }
    y[k] = sum;
  }
  return 2;
}
static int doubles(weft_array *y[]) { return y[0] = weft_exp(weft_tanh(weft_cast(drawn_floats(WEFT_DIMS(1000, 100), 1), WEFT_F64))), 1; }
static int halves(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(1000, 101), 1);
  y[0] = weft_exp(weft_mul(weft_cast(x, WEFT_BF16), weft_scalar(0.3)));
  y[1] = weft_exp(weft_mul(weft_cast(x, WEFT_F16), weft_scalar(0.3)));
  return 2;
}
static int integers(weft_array *y[]) {
  weft_array *i = drawn_indices(100000, 1000, 3);
  y[0] = weft_sum(i, 0), y[1] = weft_cumsum(weft_mul(i, i), 0), y[2] = weft_max(weft_cast(i, WEFT_U8), 0);
  return 3;
}
static int reversed(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(300, 1001), 1);
  y[0] = weft_mul(weft_flip(weft_flip(x, 0), 1), weft_scalar(2));
  y[1] = weft_add(weft_slice(x, 1, WEFT_END, WEFT_BEGIN, -3), weft_scalar(1));
  return 2;
}
static int transposed(weft_array *y[]) { return y[0] = weft_exp(weft_transpose(drawn_floats(WEFT_DIMS(500, 333), 1), NULL)), 1; }
static int largest(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(300, 1000), 1);
  y[0] = weft_max(x, 1), y[1] = weft_argmax(x, 0), y[2] = weft_cummax(x, 1);
  return 3;
}
static int joined(weft_array *y[]) {
  weft_array *a = weft_tanh(drawn_floats(WEFT_DIMS(70, 20), 1)), *b = drawn_floats(WEFT_DIMS(70, 30), 2);
  y[0] = weft_exp(weft_concat(1, WEFT_ARRAYS(a, b))), y[1] = weft_exp(weft_pad(b, 1, 2, 3, weft_scalar(-1)));
  return 2;
}
static int gathered(weft_array *y[]) {
  weft_array *i = drawn_indices(5000, 90, 2);
  return y[0] = weft_exp(weft_take(drawn_floats(WEFT_DIMS(90, 160), 1), 1, &i)), 1;
}
static int put(weft_array *y[], weft_how how, bool as_integers) {
  weft_array *x = drawn_floats(WEFT_DIMS(200), 1), *i = drawn_indices(100000, 200, 2), *v = drawn_floats(WEFT_DIMS(100000), 3);
  if (as_integers) x = weft_cast(x, WEFT_I32), v = weft_cast(v, WEFT_I32);
  return y[0] = weft_put(x, weft_take(x, 1, &i), v, how), 1;
}
static int put_set(weft_array *y[]) { return put(y, WEFT_SET, false); }
static int put_add(weft_array *y[]) { return put(y, WEFT_ADD, false); }
static int put_max(weft_array *y[]) { return put(y, WEFT_MAX, false); }
static int put_integers(weft_array *y[]) { return put(y, WEFT_ADD, true); }
static int softmax(weft_array *y[]) { return y[0] = weft_softmax(drawn_floats(WEFT_DIMS(many(2000), 1500), 1), -1), 1; }
static int layer_norm_gradient(weft_array *y[]) {
  weft_array *x[] = { drawn_floats(WEFT_DIMS(many(3000), 700), 1), drawn_floats(WEFT_DIMS(700), 2), drawn_floats(WEFT_DIMS(700), 3) };
  weft_array *norm = weft_layer_norm(x[0], x[1], x[2], 1e-5), *dy = drawn_floats(WEFT_DIMS(many(3000), 700), 4);
  weft_vjp(1, &norm, &dy, 3, x, y);
  return 3;
}
static int sums(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(1500, 400), 1);
  y[0] = weft_sum(x, 0), y[1] = weft_logsumexp(x, 1), y[2] = weft_mean(x, WEFT_ALL);
  return 3;
}
/* Sums of floats, which have an order, beside one of integers, which has none. */
static int counts_beside(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(50, 1024), 1), *is_low = weft_lt(x, weft_scalar(0.3));
  weft_array *sum = weft_sum(weft_where(is_low, x, weft_scalar(0)), 1), *n = weft_sum(weft_cast(is_low, WEFT_I64), 1);
  return y[0] = weft_div(sum, weft_cast(n, WEFT_F32)), y[1] = weft_sub(x, y[0]), 2;
}
static int cumulative(weft_array *y[]) { return y[0] = weft_cumsum(drawn_floats(WEFT_DIMS(100000), 1), 0), 1; }
static int product(weft_array *y[]) {
  return y[0] = weft_tanh(weft_matmul(drawn_floats(WEFT_DIMS(300, 200), 1), drawn_floats(WEFT_DIMS(200, 150), 2))), 1;
}
static int long_products(weft_array *y[]) {
  weft_array *a = drawn_floats(WEFT_DIMS(33, 1300), 1), *b = drawn_floats(WEFT_DIMS(1300, 50), 2);
  y[0] = weft_matmul(a, b);
  y[1] = weft_matmul(weft_cast(a, WEFT_BF16), weft_cast(b, WEFT_BF16));
  y[2] = weft_matmul(weft_cast(weft_mul(a, weft_scalar(50)), WEFT_I8), weft_cast(weft_mul(b, weft_scalar(50)), WEFT_I8));
  return 3;
}
/* Tiles: all layouts of operands, edges, long sums, what follows, batches. */
static weft_array *operand(weft_dtype t, int rank, const int64_t dims[], uint32_t seed) { return weft_cast(drawn_floats(rank, dims, seed), t); }
static int tiles(weft_array *y[]) {
  weft_array *a = drawn_floats(WEFT_DIMS(150, 513), 1), *b = drawn_floats(WEFT_DIMS(140, 513), 2), *bias = drawn_floats(WEFT_DIMS(140), 3);
  weft_array *back = weft_flip(weft_transpose(b, NULL), 0);
  y[0] = weft_maximum(weft_add(weft_matmul(a, back), bias), weft_scalar(0));
  y[1] = weft_matmul(weft_transpose(a, NULL), drawn_floats(WEFT_DIMS(150, 40), 4));
  y[2] = weft_matmul(drawn_floats(WEFT_DIMS(2, 3, 33, 20), 5), drawn_floats(WEFT_DIMS(3, 20, 35), 6));
  return 3;
}
static int tiles_of(weft_array *y[], const weft_dtype t[]) {
  for (int i = 0; i < 3; i++) y[i] = weft_matmul(operand(t[i], WEFT_DIMS(40, 1100), 1), operand(t[i], WEFT_DIMS(1100, 70), 2));
  return 3;
}
static int wide_tiles(weft_array *y[]) { return tiles_of(y, (weft_dtype[]){ WEFT_F64, WEFT_I64, WEFT_F32 }); }
static int narrow_tiles(weft_array *y[]) { return tiles_of(y, (weft_dtype[]){ WEFT_BF16, WEFT_F16, WEFT_I8 }); }
static int no_products(weft_array *y[]) {
  y[0] = weft_matmul(weft_slice(drawn_floats(WEFT_DIMS(140, 3), 1), 1, 1, 1, 1), weft_slice(drawn_floats(WEFT_DIMS(3, 33), 2), 0, 1, 1, 1));
  return 1;
}
static int narrow_sum(weft_array *y[]) { return y[0] = weft_sum(weft_cast(drawn_floats(WEFT_DIMS(1000, 30), 1), WEFT_BF16), WEFT_ALL), 1; }

/* y_t = 0.5 y_(t-1) - 0.3 y_(t-2) + e_t in many lanes: one kernel. */
static int scan(weft_array *y[]) {
  weft_array *e = drawn_floats(WEFT_DIMS(200, 1000), 1), *zero = weft_full(WEFT_F32, WEFT_DIMS(1000), 0);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *e_t = weft_loop_each(loop, e), *y1 = weft_loop_carry(loop, zero), *y2 = weft_loop_carry(loop, zero);
  weft_array *y_t = weft_add(weft_sub(weft_mul(y1, weft_scalar(0.5)), weft_mul(y2, weft_scalar(0.3))), e_t);
  weft_loop_next(loop, y1, y_t);
  weft_loop_next(loop, y2, y1);
  y[0] = weft_loop_all(loop, y_t), y[1] = weft_loop_last(loop, y1);
  weft_loop_close(loop);
  return 2;
}
static int until(weft_array *y[]) {
  weft_loop *loop = weft_loop_open(weft_integer(1000));
  weft_array *c = weft_loop_carry(loop, weft_full(WEFT_F32, 0, NULL, 1)), *next = weft_mul(c, weft_scalar(1.1));
  weft_loop_next(loop, c, next);
  weft_loop_until(loop, weft_lt(weft_scalar(50), next));
  y[0] = weft_loop_last(loop, c);
  weft_loop_close(loop);
  return 1;
}
static int recurrent(weft_array *y[]) {
  weft_array *w = weft_mul(drawn_floats(WEFT_DIMS(64, 64), 1), weft_scalar(0.05)), *x = drawn_floats(WEFT_DIMS(20, 8, 64), 2);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(loop, x), *h = weft_loop_carry(loop, weft_full(WEFT_F32, WEFT_DIMS(8, 64), 0));
  weft_loop_next(loop, h, weft_tanh(weft_add(weft_matmul(h, w), x_t)));
  weft_array *last = weft_loop_last(loop, h);
  weft_loop_close(loop);
  return y[0] = weft_exp(last), 1;
}
/* A value in bf16 and the same in f32 are kept once. */
static int kept_twice(weft_array *y[]) {
  weft_array *e = weft_tanh(weft_exp(weft_cast(drawn_floats(WEFT_DIMS(5, 70), 1), WEFT_BF16)));
  return y[0] = weft_mul(weft_softmax(e, 1), e), 1;
}
static int empty(weft_array *y[]) {
  weft_array *x = weft_slice(drawn_floats(WEFT_DIMS(10, 5), 1), 0, 3, 3, 1);
  y[0] = weft_exp(x), y[1] = weft_sum(x, 0), y[2] = weft_sum(x, WEFT_ALL);
  return 3;
}
static int one(weft_array *y[]) { return y[0] = weft_exp(drawn_floats(0, NULL, 5)), 1; }

/* close: how far floats may be off, 0: same bits. */
/* What a step computes of its sequence alone is computed ahead on a device; forwards, backwards, and the gradient. */
static weft_array *autoregress(weft_array *e) {
  weft_array *first = weft_reshape(weft_slice(e, 0, 0, 1, 1), 1, (int64_t[]){ weft_dim(e, 1) });
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e_t = weft_loop_each(l, e), *a = weft_loop_carry(l, first), *b = weft_loop_carry(l, first), *f = weft_tanh(e_t);
  weft_array *m = weft_add(weft_sub(weft_mul(a, weft_scalar(0.5)), weft_mul(b, weft_scalar(0.3))), f);
  weft_loop_next(l, a, m);
  weft_loop_next(l, b, weft_mul(a, weft_exp(weft_neg(f))));
  weft_array *all = weft_loop_all(l, weft_mul(m, f));
  weft_loop_close(l);
  return all;
}
static int autoregression(weft_array *y[]) {
  weft_array *e = drawn_floats(WEFT_DIMS(75, 40), 1);
  y[0] = autoregress(e), y[1] = autoregress(weft_flip(e, 0));
  weft_grad(weft_sum(weft_mul(y[0], y[0]), WEFT_ALL), 1, &e, &y[2]);
  return 3;
}
static int long_product(weft_array *y[]) {
  weft_array *a = drawn_floats(WEFT_DIMS(4500, 32), 1), *b = drawn_floats(WEFT_DIMS(4500, 32), 2);
  return y[0] = weft_matmul(weft_transpose(a, NULL), b), 1;
}

static const struct program { const char *name; int (*make)(weft_array *y[]); double close; } programs[] = {
  { "an elementwise chain", chain, 0 }, { "f64", doubles, 0 }, { "functions", functions, 0 }, { "bf16 and f16", halves, 0 }, { "integers", integers, 0 },
  { "reversed and strided reads", reversed, 0 }, { "transposed reads", transposed, 0 }, { "max, argmax, cummax", largest, 0 },
  { "concat and pad", joined, 0 }, { "checked gather", gathered, 0 }, { "scatter set", put_set, 0 },
  { "scatter add", put_add, 1e-3 }, { "scatter max", put_max, 0 }, { "scatter add, i32", put_integers, 0 },
  { "softmax", softmax, 0 }, { "layer norm gradient", layer_norm_gradient, 0 }, { "sum, logsumexp, mean", sums, 0 },
  { "sums beside counts", counts_beside, 0 }, { "cumulative sum", cumulative, 0 }, { "matmul and tanh", product, 0 }, { "long products", long_products, 0.02 },
  { "tiles of f32", tiles, 0 }, { "tiles of f64, i64, f32", wide_tiles, 0 }, { "tiles of bf16, f16, i8", narrow_tiles, 0.02 },
  { "a sum of no products", no_products, 0 }, { "sum of bf16", narrow_sum, 0 },
  { "scan", scan, 0 }, { "until", until, 0 }, { "recurrent network", recurrent, 0 },
  { "autoregression", autoregression, 0 }, { "long product", long_product, 0 },
  { "kept twice", kept_twice, 0 }, { "empty", empty, 0 }, { "0-d", one, 0 },
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* Reads the results; the time of an evaluation whose plan is known. */
static double run(const struct program *p, int device, struct plain out[MOST]) {
  double seconds = 0;
  weft_set(WEFT_DEVICE, device);
  for (int again = 0; again < 2; again++) {
    weft_scope *s = weft_scope_open();
    weft_array *y[MOST];
    int n = p->make(y);
    double begin = now();
    EXPECT_OK(weft_eval(n, y));
    seconds = now() - begin;
    for (int i = 0; again && i < n; i++) {
      int64_t dims[PLAIN_RANK];
      for (int k = 0; k < weft_rank(y[i]); k++) dims[k] = weft_dim(y[i], k);
      out[i] = plain_new(weft_dtype_of(y[i]), weft_rank(y[i]), dims);
      EXPECT_OK(weft_read(y[i], out[i].dtype, out[i].data, (size_t)out[i].count * weft_dtype_bytes(out[i].dtype)));
    }
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  return seconds;
}

static int64_t first_apart(const struct plain *want, const struct plain *got, double close) {
  if (!close || !plain_is_float(want->dtype)) return plain_differs(want, got->data);
  for (int64_t i = 0; i < want->count; i++)
    if (!(fabs(plain_f(want, i) - plain_f(got, i)) <= close * fmax(1, fabs(plain_f(want, i))))) return i;
  return -1;
}

static void compare(const struct program *p, const struct plain want[MOST], const struct plain got[MOST]) {
  for (int i = 0; i < MOST; i++) {
    if (!want[i].data || !got[i].data) continue;
    int64_t at = first_apart(&want[i], &got[i], p->close);
    if (at >= 0)
      test_fail(__FILE__, __LINE__, "%s: result %d, element %lld is %s, not %s", p->name, i, (long long)at,
                plain_text(&got[i], at), plain_text(&want[i], at));
  }
}

TEST(cuda_programs_give_what_the_host_gives) {
  test_watchdog(200);
  for (int p = 0; has_gpu() && p < PROGRAMS; p++) {
    struct plain want[MOST] = { 0 }, got[MOST] = { 0 };
    double host = run(&programs[p], 0, want);
    int64_t kernels = weft_get(WEFT_KERNELS), refused = weft_get(WEFT_KERNELS_HOST);
    double gpu = run(&programs[p], 1, got);
    compare(&programs[p], want, got);
    printf("%9.3f ms  %s, transfers included; on the host %.3f ms (kernels: %d, left to the host: %d)\n", 1e3 * gpu, programs[p].name,
           1e3 * host, (int)(weft_get(WEFT_KERNELS) - kernels), (int)(weft_get(WEFT_KERNELS_HOST) - refused));
    EXPECT_INT(weft_get(WEFT_KERNELS_HOST), refused);
    for (int i = 0; i < MOST; i++) plain_free(&want[i]), plain_free(&got[i]);
  }
}

/* Programs whose floats meet through indices or in products of halves, in any order unless WEFT_EXACT asks for that of the host. */
static int put_rows(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(20, 33), 1), *i = drawn_indices(3000, 20, 2), *v = drawn_floats(WEFT_DIMS(3000, 33), 3);
  return y[0] = weft_put(x, weft_take(x, 1, &i), v, WEFT_ADD), 1;
}
static int put_apart(weft_array *y[]) {
  weft_array *x = drawn_floats(WEFT_DIMS(30000), 1), *i = drawn_indices(20000, 30000, 2), *v = drawn_floats(WEFT_DIMS(20000), 3);
  weft_array *narrow = weft_cast(x, WEFT_BF16), *wide = weft_cast(x, WEFT_F64);
  y[0] = weft_put(x, weft_take(x, 1, &i), v, WEFT_MUL);
  y[1] = weft_put(narrow, weft_take(narrow, 1, &i), weft_cast(v, WEFT_BF16), WEFT_ADD);
  y[2] = weft_put(wide, weft_take(wide, 1, &i), weft_cast(v, WEFT_F64), WEFT_ADD);
  return 3;
}
static const struct program exact[] = { { "few slots", put_add, 0 }, { "rows", put_rows, 0 }, { "many slots", put_apart, 0 },
  { "long products", long_products, 0 }, { "tiles of bf16, f16, i8", narrow_tiles, 0 } };

TEST(cuda_exact_scatters_and_products_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t p = 0; p < sizeof exact / sizeof *exact; p++) {
    struct plain want[MOST] = { 0 }, got[MOST] = { 0 };
    run(&exact[p], 0, want);
    run(&exact[p], 1, got);
    compare(&exact[p], want, got);
    for (int i = 0; i < MOST; i++) plain_free(&want[i]), plain_free(&got[i]);
  }
}

static const struct way on_gpu = { "on the GPU", "x86", true, 2, 1 }, one_op_a_kernel = { "on the GPU, one op a kernel", "x86", false, 2, 1 };

/* With WEFT_PROGRAMS in the environment so many instead of 100, from WEFT_PROGRAMS_FROM on, and with WEFT_DIGESTS a line for each. */
static bool check_program(int64_t seed) {
  char what[64];
  snprintf(what, sizeof what, "random program %lld", (long long)seed);
  bool ok = recipe_check_way((uint64_t)seed, seed % 4 ? &on_gpu : &one_op_a_kernel, false);
  if (ok && digest_is_wanted()) digest_note(what, 0);
  return ok;
}

TEST(cuda_runs_random_programs_with_the_bits_of_the_host) {
  test_watchdog(digest_is_wanted() ? 900 : 200);
  double begin = now();
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  const char *many = getenv("WEFT_PROGRAMS"), *from = getenv("WEFT_PROGRAMS_FROM");
  int64_t most = many ? atoi(many) : 100, first = from ? atoll(from) : 1;
  int n = 0;
  for (int64_t seed = first; seed < first + most; seed++) {
    if (!digest_is_ours(seed)) continue;
    n++;
    if (!check_program(seed)) test_fail(__FILE__, __LINE__, "seed %lld", (long long)seed);
  }
  printf("%9.3f ms  %d random programs, steps on the host: %lld\n", 1e3 * (now() - begin), n, (long long)weft_get(WEFT_KERNELS_HOST));
}

/* 4043, 9957: a value that two nodes are was kept twice, and read where nobody had stored it. 4185: the least of a row took the place of
 * a number that the row's other threads had still to read. */
TEST(cuda_random_programs_that_were_wrong_once_are_right) {
  static const int seeds[] = { 4043, 4185, 9957 };
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    if (!check_program(seeds[i])) test_fail(__FILE__, __LINE__, "seed %d", seeds[i]);
}

/* Whatever shares a kernel, and whatever a kernel overwrites. */
TEST(cuda_gradients_of_random_programs_do_not_depend_on_what_is_fused) {
  test_watchdog(200);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  setenv("WEFT_DEVICE", "1", 1); /* all ways are there */
  for (uint64_t seed = 4; seed <= 24; seed += 4) if (!recipe_check_gradient(seed)) test_fail(__FILE__, __LINE__, "seed %d", (int)seed);
}

TEST(cuda_counts_beyond_2_to_the_31) {
  if (!has_gpu()) return;
  if (is_interpreted()) { test_skip("so many elements take an interpreter too long"); return; }
  const int64_t n = INT64_C(3000000000);
  weft_scope *s = weft_scope_open();
  weft_array *i = weft_iota(weft_broadcast(weft_from(WEFT_I64, WEFT_DIMS(1), &n), 1, &n), 0);
  int64_t sum = 0;
  uint32_t bytes = 0;
  weft_set(WEFT_DEVICE, 1);
  weft_fetch(weft_sum(i, WEFT_ALL), WEFT_I64, &sum, sizeof sum);
  weft_fetch(weft_sum(weft_cummax(weft_cast(i, WEFT_U8), 0), WEFT_ALL), WEFT_U32, &bytes, sizeof bytes); /* through memory */
  EXPECT_OK(weft_scope_close(s));
  EXPECT_INT(sum, n / 2 * (n - 1));
  EXPECT_INT(bytes, (uint32_t)(255 * 254 / 2 + 255 * (n - 255)));
}

/* ---- failures ---- */

TEST(cuda_finds_indices_out_of_range_and_goes_on) {
  if (!has_gpu()) return;
  int32_t at[] = { 0, 1, -3, 2, 7 };
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < 2; k++) {
    weft_scope *s = weft_scope_open();
    at[4] = k ? 1 : 7;
    weft_array *x = drawn_floats(WEFT_DIMS(3, 4), 1), *i = weft_from(WEFT_I32, WEFT_DIMS(5), at), *y = weft_take(x, 1, &i);
    EXPECT_INT(weft_eval(1, &y), k ? WEFT_OK : WEFT_ERR_INDEX);
    if (!k) EXPECT_TEXT(weft_message(), "weft_take: the index 7 at place 4 is out of range for an axis of 3");
    weft_scope_discard(s);
  }
}

/* One side is a loop of one step, if any: what it finds is told whole, inside a loop too. */
TEST(cuda_finds_indices_out_of_range_in_a_choice_with_their_numbers) {
  if (!has_gpu()) return;
  for (int in_loop = 0; in_loop < 2; in_loop++) {
    char said[2][200];
    for (int device = 0; device < 2; device++) {
      weft_scope *s = weft_scope_open();
      int32_t at[] = { 0, 1, -3, 2, 7 };
      weft_set(WEFT_DEVICE, device);
      weft_array *x = drawn_floats(WEFT_DIMS(3, 4), 1), *i = weft_from(WEFT_I32, WEFT_DIMS(5), at), *yes = weft_from(WEFT_BOOL, 0, NULL, &(char){ 1 });
      weft_loop *l = in_loop ? weft_loop_open(weft_integer(2)) : NULL;
      weft_array *from = l ? weft_loop_carry(l, x) : x;
      weft_cond *c = weft_cond_open(yes);
      weft_array *y = weft_cond_value(c, weft_put(from, weft_take(from, 1, &i), weft_scalar(2), WEFT_ADD), from);
      weft_cond_close(c);
      if (l) weft_loop_next(l, from, y), y = weft_loop_last(l, from), weft_loop_close(l);
      EXPECT_INT(weft_eval(1, &y), WEFT_ERR_INDEX);
      snprintf(said[device], sizeof said[device], "%s", weft_message());
      weft_scope_discard(s);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT_TEXT(said[1], said[0]);
  }
}

TEST(cuda_out_of_memory_is_a_status_and_the_next_program_runs) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  float got = 0;
  weft_set(WEFT_DEVICE, 1);
  weft_array *like = weft_broadcast(drawn_floats(WEFT_DIMS(1), 1), 1, (int64_t[]){ INT64_C(100000000000) });
  weft_fetch(weft_sum(weft_flip(weft_cumsum(like, 0), 0), WEFT_ALL), WEFT_F32, &got, sizeof got);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_MEMORY);
  s = weft_scope_open();
  EXPECT_OK(weft_read(weft_add(drawn_floats(0, NULL, 1), weft_scalar(1)), WEFT_F32, &got, sizeof got));
  weft_scope_discard(s);
  EXPECT_INT(weft_get(WEFT_BYTES_USED), 0);
}

TEST(cuda_keeps_its_limits) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  enum { MANY = 1 << 20 };
  weft_set(WEFT_DEVICE, 1);
  int64_t limit = weft_get(WEFT_BYTES_LIMIT);
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(MANY), 1), *y, *z;
  y = weft_exp(weft_add(x, drawn_floats(WEFT_DIMS(1), 1)));
  EXPECT_OK(weft_eval(1, &y));
  int64_t used = weft_get(WEFT_BYTES_USED);
  EXPECT(used >= 4 * MANY);
  EXPECT_INT(weft_set(WEFT_BYTES_LIMIT, used + 2 * MANY), limit);
  weft_origin(99);
  z = weft_exp(y);
  weft_origin(0);
  EXPECT_INT(weft_eval(1, &z), WEFT_ERR_MEMORY);
  EXPECT_INT(weft_blame(), 99);
  EXPECT(strstr(weft_message(), "out of memory on device 1 (cuda): 4194304 bytes for exp"));
  EXPECT_INT(weft_get(WEFT_BYTES_USED), used);
  weft_set(WEFT_BYTES_LIMIT, limit);
  EXPECT_OK(weft_eval(1, &z));
  weft_scope_discard(s);
  EXPECT(weft_get(WEFT_BYTES_CACHED) >= 8 * MANY);
  weft_set(WEFT_BYTES_CACHE, 5 * MANY);
  EXPECT(weft_get(WEFT_BYTES_CACHED) <= 5 * MANY);
  EXPECT_INT(weft_set(WEFT_BYTES_CACHE, 0), 5 * MANY);
  EXPECT_INT(weft_get(WEFT_BYTES_CACHED), 0);
  weft_set(WEFT_BYTES_CACHE, -1);
}

/* Memory of others that is gone when the kernel comes to it. The device is lost for this process. */
TEST(cuda_a_kernel_that_goes_wrong_is_named_and_the_host_works_on) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  enum { BYTES = 64 << 20 };
  const struct device *d = cuda_device(0);
  struct event since;
  uint64_t at;
  int64_t n = BYTES / 4, one = 1;
  float got;
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = drawn_floats(WEFT_DIMS(10), 1), *there = weft_exp(x), *gone;
  EXPECT_OK(weft_eval(1, &there));
  EXPECT_INT(d->take(d, BYTES, &at, &since), DEVICE_OK);
  gone = weft_external(&(weft_block){ (void *)(uintptr_t)at, 1, WEFT_F32, 1, &n, &one }, NULL, NULL);
  EXPECT_OK(weft_check(gone));
  d->give(d, at, BYTES);
  weft_set(WEFT_BYTES_CACHE, 0);
  weft_array *y = weft_sqrt(weft_add(weft_slice(gone, 0, n / 2, n / 2 + 1000, 1), weft_scalar(1)));
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_DEVICE);
  EXPECT(strstr(weft_message(), "the device is lost, in one of the kernels"));
  EXPECT(strstr(weft_message(), "sqrt"));
  EXPECT_INT(weft_state_of(there, NULL), WEFT_FAILED);
  EXPECT_INT(weft_read(weft_sum(there, WEFT_ALL), WEFT_F32, &got, sizeof got), WEFT_ERR_DEVICE);
  weft_array *z = weft_sin(x);
  EXPECT_INT(weft_eval(1, &z), WEFT_ERR_DEVICE);
  weft_set(WEFT_DEVICE, 0);
  EXPECT_OK(weft_eval(1, &z));
  EXPECT_OK(weft_read(weft_sum(x, WEFT_ALL), WEFT_F32, &got, sizeof got));
  weft_scope_discard(s);
}

TEST(cuda_stops_when_cancelled) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  static volatile int flag = 1;
  weft_array *y[MOST];
  weft_set(WEFT_DEVICE, 1);
  cumulative(y);
  weft_cancel_when(&flag);
  EXPECT_INT(weft_eval(1, y), WEFT_ERR_CANCELLED);
  weft_cancel_when(NULL);
  EXPECT_OK(weft_eval(1, y));
  weft_scope_discard(s);
}

static void *set_soon(void *flag) {
  usleep(100000);
  __atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* The last value of a loop that is one kernel: of elements, or of rows that threads compute together. */
static weft_array *iterated(int64_t steps, bool rows) {
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *w = weft_mul(drawn_floats(WEFT_DIMS(64, 64), 1), weft_scalar(0.1));
  weft_array *c = weft_loop_carry(l, rows ? drawn_floats(WEFT_DIMS(8, 64), 2) : drawn_floats(WEFT_DIMS(1000), 2));
  weft_loop_next(l, c, rows ? weft_tanh(weft_matmul(c, w)) : weft_add(weft_mul(c, weft_scalar(0.5)), weft_scalar(1)));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  return y;
}

static float sum_of_three(void) {
  float sum = 0;
  EXPECT_OK(weft_read(weft_sum(weft_add(weft_scalar(1), drawn_floats(WEFT_DIMS(3), 1)), WEFT_ALL), WEFT_F32, &sum, sizeof sum));
  return sum;
}

/* 10^10 steps in one kernel, in lanes and in a row that threads compute together; the array is lazy again. Fewer steps come first,
 * by the same kernels, so that no compiling is timed. Not on the driver that interprets: it would not come back from the launch. */
TEST(cuda_loops_in_kernels_stop_when_cancelled) {
  if (!has_gpu()) return;
  weft_set(WEFT_DEVICE, 1);
  for (int rows = 0; rows < 2; rows++) {
    weft_scope *s = weft_scope_open();
    static volatile int flag;
    pthread_t other;
    weft_array *few = iterated(50, rows), *y = iterated(is_interpreted() ? 60 : INT64_C(10000000000), rows);
    EXPECT_OK(weft_eval(1, &few));
    float sum = sum_of_three();
    int64_t kernels = weft_get(WEFT_KERNELS);
    flag = is_interpreted();
    if (!is_interpreted()) EXPECT(!pthread_create(&other, NULL, set_soon, (void *)(uintptr_t)&flag));
    weft_cancel_when(&flag);
    double begin = now();
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
    weft_cancel_when(NULL);
    EXPECT(sum_of_three() == sum); /* comes after the kernel */
    double took = now() - begin;
    EXPECT_INT(weft_get(WEFT_KERNELS), kernels);
    printf("%9.3f ms  until the kernel was gone, of which 100 are the wait\n", 1e3 * took);
    EXPECT(took < 2);
    EXPECT_INT(weft_state_of(y, NULL), WEFT_LAZY);
    if (is_interpreted()) EXPECT_OK(weft_eval(1, &y));
    else pthread_join(other, NULL);
    EXPECT_INT(weft_get(WEFT_KERNELS), kernels);
    weft_scope_discard(s);
  }
}

/* A loop that takes its time, and behind it what takes an array of the host, which its upload is behind the loop for if it goes to
 * memory that was given back shortly before: `rows` of 1000 floats. */
static weft_array *iterated_and_more(int64_t steps, int64_t rows) {
  weft_array *y = weft_mul(weft_reshape(drawn_floats(WEFT_DIMS(1000), 2), WEFT_DIMS(1, 1000)), weft_scalar(0.5));
  float *host = calloc((size_t)(rows * 1000), sizeof *host);
  int64_t dims[] = { rows, 1000 };
  EXPECT_OK(weft_eval(1, &y));
  weft_scope *s = weft_scope_open();
  weft_array *given[8];
  for (int i = 0; i < 8; i++) given[i] = weft_mul(weft_full(WEFT_F32, WEFT_DIMS(rows, 1000), i + 1), y);
  EXPECT_OK(weft_eval(8, given));
  weft_scope_discard(s);
  weft_loop *l = weft_loop_open(weft_integer(steps));
  weft_array *c = weft_loop_carry(l, y);
  weft_loop_next(l, c, weft_add(weft_mul(c, weft_scalar(0.5)), weft_scalar(1)));
  weft_array *last = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_array *more = weft_from(WEFT_F32, 2, dims, host);
  free(host);
  return weft_cumsum(weft_add(last, more), 0);
}

/* .. and as soon where an upload is behind the loop: few bytes, and more than go through pinned memory at a time. */
TEST(cuda_loops_with_uploads_behind_them_stop_when_cancelled) {
  static const int64_t rows[] = { 1, 8000 };
  if (!has_gpu()) return;
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < (is_interpreted() ? 1 : 2); k++) {
    weft_scope *s = weft_scope_open();
    static volatile int flag;
    pthread_t other;
    weft_array *few = iterated_and_more(50, rows[k]);
    EXPECT_OK(weft_eval(1, &few));
    weft_array *y = iterated_and_more(is_interpreted() ? 60 : INT64_C(10000000000), rows[k]);
    flag = is_interpreted();
    if (!is_interpreted()) EXPECT(!pthread_create(&other, NULL, set_soon, (void *)(uintptr_t)&flag));
    weft_cancel_when(&flag);
    double begin = now();
    EXPECT_INT(weft_eval(1, &y), WEFT_ERR_CANCELLED);
    weft_cancel_when(NULL);
    float sum = sum_of_three(), took = (float)(now() - begin);
    printf("%9.3f ms  until the kernel was gone, of which 100 are the wait\n", 1e3 * took);
    EXPECT(took < 2 && sum == sum);
    if (is_interpreted()) EXPECT_OK(weft_eval(1, &y));
    else pthread_join(other, NULL);
    weft_scope_discard(s);
  }
}

/* ---- Callers that use the driver, too ---- */

static int (*context_of_thread)(void **);
static const char *entered_by; /* NULL: no call has changed the context */

static void expect_context(void *own, const char *after) {
  void *now = NULL;
  EXPECT_INT(context_of_thread(&now), 0);
  if (now != own && !entered_by) entered_by = after;
}

/* The context that a thread comes with is its own after every call, whatever that enqueues, waits for or gives back. */
TEST(cuda_leaves_the_context_of_the_caller) {
  static char others;
  void *lib = has_gpu() && is_interpreted() ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
  void *of[2] = { lib ? dlsym(lib, "cuCtxSetCurrent") : NULL, lib ? dlsym(lib, "cuCtxGetCurrent") : NULL };
  int (*enter)(void *) = NULL;
  float got[64];
  if (!of[0] || !of[1]) { test_skip("there is no driver with contexts that are nobody's"); return; }
  memcpy(&enter, &of[0], sizeof enter), memcpy(&context_of_thread, &of[1], sizeof context_of_thread);
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  EXPECT_INT(enter(&others), 0);
  entered_by = NULL;
#define KEEPS_(call) do { call; expect_context(&others, #call); } while (0)
  weft_array *x = drawn_floats(WEFT_DIMS(64, 64), 1), *y, *z, *i = weft_arange(WEFT_I32, 0, 8, 1);
  KEEPS_(EXPECT_OK(weft_eval(1, &x)));
  y = weft_matmul(weft_exp(x), x);
  KEEPS_(EXPECT_OK(weft_eval(1, &y)));
  KEEPS_(EXPECT_OK(weft_read(weft_slice(y, 1, 0, 1, 1), WEFT_F32, got, sizeof got)));
  y = weft_sort(weft_take(x, 1, &i), 0);
  KEEPS_(EXPECT_OK(weft_eval_async(1, &y)));
  KEEPS_(EXPECT_OK(weft_wait(1, &y, 60)));
  KEEPS_((void)weft_state_of(y, NULL));
  y = iterated(10, 1);
  KEEPS_(EXPECT_OK(weft_eval(1, &y)));
  z = weft_add(x, drawn_floats(WEFT_DIMS(64), 2));
  KEEPS_((void)weft_show(1, &z, "ptx"));
  KEEPS_((void)weft_show(1, &z, "plan"));
  KEEPS_((void)weft_stream(1));
  KEEPS_((void)weft_get(WEFT_BYTES_USED));
  weft_scope *function = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(64, 64)), *out = weft_tanh(weft_matmul(in, in));
  weft_function *f = weft_compile(function, 1, &in, 1, &out);
  for (int k = 0; k < 4; k++) {
    KEEPS_(weft_call(f, 1, &x, 1, &y));
    KEEPS_(EXPECT_OK(weft_eval(1, &y)));
  }
  KEEPS_(weft_set(WEFT_BYTES_CACHE, 0));
  KEEPS_(weft_set(WEFT_BYTES_CACHE, -1));
  KEEPS_(weft_scope_discard(s));
  weft_set(WEFT_DEVICE, 0);
#undef KEEPS_
  if (entered_by) printf("after %s\n", entered_by);
  EXPECT(!entered_by);
  EXPECT_INT(enter(NULL), 0);
}

/* In a child of a process that uses the device: an error with a text, no crash. */
TEST(cuda_in_a_forked_child_is_an_error) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = drawn_floats(WEFT_DIMS(10), 1), *y = weft_exp(x);
  int status = 1;
  weft_set(WEFT_DEVICE, 1);
  EXPECT_OK(weft_eval(1, &y));
  pid_t child = fork();
  if (child == 0) {
    weft_array *same = weft_exp(weft_mul(x, weft_scalar(2))), *known = weft_exp(drawn_floats(WEFT_DIMS(10), 2));
    bool ok = weft_eval(1, &same) == WEFT_ERR_DEVICE && weft_eval(1, &known) == WEFT_ERR_DEVICE;
    ok = ok && strstr(weft_message(), "the device (cuda) is not there any more: a child of fork has 0 alone");
    ok = ok && weft_set(WEFT_DEVICE, 1) == -1 && weft_set(WEFT_DEVICE, 0) == 1 && weft_eval(1, &same) == WEFT_OK;
    _exit(!ok);
  }
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT_INT(status, 0);
  weft_scope_discard(s);
}

/* ---- threads, files, settings ---- */

/* An element of x for each index, started: gathers[k] of 40 are one each, `bad` of them out of range. */
enum { GATHERS = 40 };
static void start_gathers(weft_array *x, int bad, weft_array *y[]) {
  for (int k = 0; k < GATHERS; k++) {
    weft_array *i = weft_cast(weft_add(weft_arange(WEFT_I64, 0, 8, 1), weft_scalar(k == bad ? 60 : k % 50)), WEFT_I32);
    y[k] = weft_take(x, 1, &i);
    EXPECT_OK(weft_eval_async(1, &y[k]));
  }
}

/* The words that checks write to are not set before every run: those in which nothing was found are as they were. What a run has
 * written, read or not, is nothing to the next one. */
TEST(cuda_words_of_checks_are_found_as_they_should_be) {
  if (!has_gpu()) return;
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *f = lib ? dlsym(lib, "test_driver_uploads") : NULL;
  int (*uploads)(void) = NULL;
  if (f) memcpy(&uploads, &f, sizeof f);
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_add(drawn_floats(WEFT_DIMS(64), 1), weft_scalar(1)), *y[GATHERS];
  EXPECT_OK(weft_eval(1, &x));
  for (int round = 0; round < 8; round++) { /* in rounds 2 and 5 one fails; in 5 and 6 nobody asks */
    weft_scope *own = weft_scope_open();
    int before = uploads ? uploads() : 0, bad = round == 2 || round == 5 ? 7 : -1;
    start_gathers(x, bad, y);
    for (int k = 0; k < GATHERS && round != 5 && round != 6; k++) {
      float got[8], all[64];
      EXPECT_INT(weft_wait(1, &y[k], 60), k == bad ? WEFT_ERR_INDEX : WEFT_OK);
      if (k == bad) continue;
      EXPECT_OK(weft_read(y[k], WEFT_F32, got, sizeof got));
      EXPECT_OK(weft_read(x, WEFT_F32, all, sizeof all));
      EXPECT(!memcmp(got, all + k % 50, sizeof got));
    }
    if (uploads && round) EXPECT_INT(uploads() - before, 0);
    weft_scope_discard(own);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

static void *evaluate_often(void *arg) {
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < 20; k++) {
    weft_scope *s = weft_scope_open();
    float got = -1;
    weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(1000 + k), (double)(k + 1));
    weft_array *y = weft_sum(weft_mul(weft_add(x, drawn_floats(WEFT_DIMS(1), 0)), weft_scalar(0)), WEFT_ALL);
    if (weft_eval_async(1, &y) || weft_read(y, WEFT_F32, &got, sizeof got) || got != 0) *(int *)arg += 1;
    weft_scope_discard(s);
  }
  return NULL;
}

/* Calls of a compiled function in a row: a launch or a bundle each, now and then a point of the queue, and nothing else that costs
 * time. Up to four bundles are recorded, by a launch and a start. */
TEST(cuda_calls_take_a_launch_and_few_events) {
  void *lib = cuda_device(0) ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL, *f = lib ? dlsym(lib, "test_driver_calls") : NULL;
  int (*calls)(int) = NULL, before[4];
  enum { CALLS = 50 };
  weft_array *out[CALLS];
  if (!f) { test_skip("there is no driver that counts"); return; }
  memcpy(&calls, &f, sizeof f);
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  weft_array *x = weft_add(drawn_floats(WEFT_DIMS(64), 1), weft_scalar(1));
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(64)), *y = weft_neg(in);
  weft_function *neg = weft_compile(body, 1, &in, 1, &y);
  EXPECT_OK(weft_eval(1, &x));
  for (int round = 0; round < 2; round++) {
    weft_scope *calling = weft_scope_open();
    for (int k = 0; k < 4; k++) before[k] = calls(k);
    for (int k = 0; k < CALLS; k++) {
      weft_call(neg, 1, &x, 1, &out[k]);
      EXPECT_OK(weft_eval_async(1, &out[k]));
    }
    EXPECT_OK(weft_wait(CALLS, out, 60));
    int started = calls(0) - before[0] + calls(3) - before[3];
    if (round) EXPECT(started >= CALLS && started <= CALLS + 4); /* the first round has compiled, and taken memory */
    if (round) EXPECT(calls(1) - before[1] <= CALLS);
    if (round) EXPECT(calls(2) - before[2] <= 2);
    weft_scope_discard(calling);
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

TEST(cuda_serves_threads_and_the_background) {
  pthread_t thread[4];
  int wrong[4] = { 0 };
  if (!has_gpu()) return;
  for (int i = 0; i < 4; i++) EXPECT_INT(pthread_create(&thread[i], NULL, evaluate_often, &wrong[i]), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++) EXPECT_INT(wrong[i], 0);
}

/* Results of 16 KB, for which there is room or not. */
static void *take_often(void *other) {
  int *n = other;
  weft_set(WEFT_DEVICE, 1);
  for (int i = 0; i < 40; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = weft_add(weft_full(WEFT_F32, WEFT_DIMS(4096), i), drawn_floats(WEFT_DIMS(1), 1));
    weft_status status = weft_eval(1, &y);
    n[0] += status == WEFT_OK, n[1] += status != WEFT_OK && status != WEFT_ERR_MEMORY;
    weft_scope_discard(s);
  }
  return NULL;
}

TEST(cuda_threads_keep_its_limit_together) {
  pthread_t thread[4];
  int n[4][2] = { { 0 } };
  if (!has_gpu()) return;
  weft_set(WEFT_DEVICE, 1);
  int64_t limit = weft_get(WEFT_BYTES_LIMIT), few = weft_get(WEFT_BYTES_USED) + 70000;
  weft_set(WEFT_BYTES_LIMIT, few);
  weft_set(WEFT_BYTES_PEAK, 0);
  for (int i = 0; i < 4; i++) EXPECT_INT(pthread_create(&thread[i], NULL, take_often, n[i]), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  EXPECT(weft_get(WEFT_BYTES_PEAK) <= few);
  EXPECT(n[0][0] + n[1][0] + n[2][0] + n[3][0] > 0);
  for (int i = 0; i < 4; i++) EXPECT_INT(n[i][1], 0);
  weft_set(WEFT_BYTES_LIMIT, limit);
}

TEST(cuda_reads_mapped_files) {
  if (!has_gpu()) return;
  char path[] = "/tmp/weft-gpu-XXXXXX.safetensors";
  weft_scope *s = weft_scope_open();
  int64_t dims[] = { 3000, 1000 };
  struct plain want = plain_new(WEFT_F32, 2, dims), got = plain_new(WEFT_F32, 2, dims);
  EXPECT(close(mkstemps(path, 12)) == 0);
  weft_array *x = drawn_floats(2, dims, 9), *y;
  EXPECT_OK(weft_save(path, 1, (const char *[]){ "w" }, &x, NULL));
  EXPECT_OK(weft_read(weft_exp(x), WEFT_F32, want.data, (size_t)want.count * 4));
  weft_set(WEFT_DEVICE, 1);
  y = weft_exp(weft_file_get(weft_file_open(path), "w"));
  EXPECT_OK(weft_eval_async(1, &y));
  EXPECT_OK(weft_read(y, WEFT_F32, got.data, (size_t)got.count * 4));
  EXPECT_INT(plain_differs(&want, got.data), -1);
  weft_scope_discard(s);
  unlink(path);
  plain_free(&want);
  plain_free(&got);
}

/* A value of one device is used on another, and the other way round; each has memory of its own. */
TEST(cuda_several_devices_pass_values_to_each_other) {
  if (!has_gpu()) return;
  if (!weft_device_text(2)) { test_skip("there is one device"); return; }
  weft_scope *s = weft_scope_open();
  float want[3000], got[3000];
  weft_array *x = drawn_floats(WEFT_DIMS(30, 100), 4), *on_host = weft_cumsum(weft_softmax(weft_exp(x), -1), 0);
  EXPECT_OK(weft_read(on_host, WEFT_F32, want, sizeof want));
  for (int round = 0; round < 4; round++) {
    int first = 1 + round % 2;
    weft_array *a = weft_softmax(weft_exp(weft_to(x, first)), -1), *b = weft_cumsum(weft_to(a, 3 - first), 0);
    EXPECT_OK(weft_eval_async(1, &b));
    EXPECT_OK(weft_read(b, WEFT_F32, got, sizeof got));
    EXPECT_INT(memcmp(got, want, sizeof got), 0);
    int where = -1;
    EXPECT_INT(weft_state_of(b, &where), WEFT_READY);
    EXPECT_INT(where, 3 - first);
  }
  EXPECT(!weft_device_text(99));
  weft_array *nowhere = weft_to(x, 99);
  EXPECT_INT(weft_eval(1, &nowhere), WEFT_ERR_DEVICE);
  weft_scope_discard(s);
}

/* Products that a library multiplies, on each of them: its handles are of one device. */
TEST(cuda_several_devices_multiply_by_the_library) {
  if (!has_gpu()) return;
  if (!weft_device_text(2)) { test_skip("there is one device"); return; }
  weft_scope *s = weft_scope_open();
  enum { N = 64 };
  static float got[3][N * N];
  for (int device = 1; device <= 2; device++) {
    weft_array *x = weft_to(weft_cast(drawn_floats(WEFT_DIMS(N, N), 4), WEFT_BF16), device), *y = weft_matmul(x, x);
    EXPECT_OK(weft_eval(1, &y));
    EXPECT_OK(weft_read(weft_cast(y, WEFT_F32), WEFT_F32, got[device], sizeof got[device]));
    const char *plan = weft_show(1, (weft_array *[]){ weft_matmul(x, weft_add(x, weft_scalar(1))) }, "plan");
    if (getenv("WEFT_CUBLASLT") && strcmp(getenv("WEFT_CUBLASLT"), "0")) EXPECT(strstr(plan, "by cublasLt"));
  }
  EXPECT_INT(memcmp(got[1], got[2], sizeof got[1]), 0);
  weft_scope_discard(s);
}

/* Memory of others is theirs from the first byte to the last: two blocks with something else between are not one. */
TEST(cuda_memory_of_others_is_of_the_device_all_along) {
  if (!has_gpu()) return;
  if (!is_interpreted()) { test_skip("where a driver puts its blocks is its own concern"); return; }
  int (*take)(uint64_t *, size_t), (*give)(uint64_t);
  void *lib = dlopen("libcuda.so.1", RTLD_NOW), *of[2] = { dlsym(lib, "cuMemAlloc_v2"), dlsym(lib, "cuMemFree_v2") };
  memcpy(&take, &of[0], sizeof take), memcpy(&give, &of[1], sizeof give);
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, 1);
  EXPECT(sum_of_three() > 0); /* in the context of the device */
  enum { BYTES = 4096 };
  uint64_t at[3], from, to;
  for (int i = 0; i < 3; i++) EXPECT_INT(take(&at[i], BYTES), 0);
  from = at[0] < at[2] ? at[0] : at[2], to = at[0] < at[2] ? at[2] : at[0];
  EXPECT_INT(give(at[1]), 0); /* which may have been all that was between */
  const int64_t one = 1, all = BYTES / 4, both = (int64_t)(to - from + BYTES) / 4, two = 2, apart = (int64_t)(to - from) / 4;
  const struct { const int64_t *n, *stride; uint64_t at; weft_status status; } tries[] = {
    { &all, &one, from, WEFT_OK }, { &both, &one, from, WEFT_ERR_DEVICE }, { &two, &apart, from, WEFT_ERR_DEVICE },
    { &two, &(int64_t){ -apart }, to, WEFT_ERR_DEVICE }, { &all, &one, to + 4, WEFT_ERR_DEVICE }, { &all, &two, from, WEFT_ERR_DEVICE },
    { &all, &(int64_t){ -1 }, from + BYTES - 4, WEFT_OK }, { &all, &(int64_t){ 0 }, from + BYTES - 4, WEFT_OK } };
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    weft_block b = { (void *)(uintptr_t)tries[i].at, 1, WEFT_F32, 1, tries[i].n, tries[i].stride };
    weft_status status = weft_check(weft_external(&b, NULL, NULL));
    if (status != tries[i].status) test_fail(__FILE__, __LINE__, "try %d: status %d", (int)i, (int)status);
  }
  for (int i = 0; i < 3; i += 2) EXPECT_INT(give(at[i]), 0);
  weft_block gone = { (void *)(uintptr_t)from, 1, WEFT_F32, 1, &all, &one };
  EXPECT_INT(weft_check(weft_external(&gone, NULL, NULL)), WEFT_ERR_DEVICE);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

TEST(cuda_device_says_what_it_is) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *y[MOST];
  printf("%s\n", weft_device_text(1));
  weft_set(WEFT_DEVICE, 0);
  EXPECT_INT(weft_set(WEFT_DEVICE, 1), 0);
  EXPECT_INT(weft_get(WEFT_DEVICE), 1);
  EXPECT(weft_get(WEFT_BYTES_LIMIT) > 1 << 30);
  weft_set(WEFT_BYTES_PEAK, 0);
  softmax(y);
  EXPECT_OK(weft_eval(1, y));
  int64_t bytes = many(2000) * 1500 * 4;
  EXPECT(weft_get(WEFT_BYTES_PEAK) >= 2 * bytes);
  EXPECT(weft_get(WEFT_BYTES_USED) >= bytes); /* the value lives there */
  weft_scope_discard(s);
  EXPECT_INT(weft_get(WEFT_BYTES_USED), 0);
  EXPECT(weft_get(WEFT_BYTES_CACHED) > 0);
  EXPECT(weft_set(WEFT_BYTES_CACHE, 0) >= 0);
  EXPECT_INT(weft_get(WEFT_BYTES_CACHED), 0);
}

/* ---- without a device: what the scheduler writes is printed, and ptxas takes it ---- */

struct printing { struct assembling to; int n_refused; };

static void refuse(struct printing *f, const struct kir_kernel *k, const char *why) {
  static const char *const known[] = { "private copies of a narrow dtype", "a plain store through a loaded index: which of several lanes is last" };
  f->n_refused++;
  if (strcmp(why, known[0]) && strcmp(why, known[1])) test_fail(__FILE__, __LINE__, "%s: %s", k->name, why);
}

/* For a device of this capability: an old one with any strides, one with wgmma with neighbours along the last axes. */
static void print_kernel(struct printing *f, struct kir_kernel *k, int capability) {
  struct text out = { 0 };
  struct ptx_plan plan;
  struct shape_class shape;
  const char *why = "";
  memset(&shape, 0, sizeof shape);
  memset(shape.stride, STRIDE_ANY, sizeof shape.stride);
  for (int b = 0; b < k->n_bufs && capability == 90; b++)
    if (k->bufs[b].rank) shape.stride[b][k->bufs[b].rank - 1] = STRIDE_1;
  if (!ptx_print(k, &shape, capability, &out, &plan, &why)) refuse(f, k, why);
  else {
    bool looks = plan.halves[0] || plan.floats[0] || plan.streamed_entry || plan.merges_early;
    if (capability == 80 || looks) /* others are the same */
      assembling_add(&f->to, k->name, text_of(&out), (int)strlen(text_of(&out)));
    ptx_plan_free(&plan);
  }
  text_free(&out);
}

static void add_kernel(struct printing *f, struct kir_kernel *k) {
  if (kir_verify(k) || !kir_legalise(k)) test_fail(__FILE__, __LINE__, "%s is not well formed", k->name);
  else print_kernel(f, k, 80), print_kernel(f, k, 90);
  kir_free(k);
}

static void add_program(struct printing *f, int p) {
  weft_scope *s = weft_scope_open();
  weft_array *y[MOST];
  struct kir_kernel *k[32];
  struct text why = { 0 };
  int n = kir_parse(weft_show(programs[p].make(y), y, "kernels"), k, 32, &why);
  if (n < 1) test_fail(__FILE__, __LINE__, "%s: %s", programs[p].name, text_of(&why));
  for (int i = 0; i < n; i++) add_kernel(f, k[i]);
  text_free(&why);
  weft_scope_discard(s);
}

TEST(ptx_of_scheduled_programs_is_assembled) {
  struct printing f = { 0 };
  test_watchdog(120);
  if (!assembling_begin(&f.to)) return;
  for (int p = 0; p < PROGRAMS; p++)
    if (programs[p].make != until) add_program(&f, p); /* its size must be computed first */
  assembling_end(&f.to, "-O1 -arch=sm_90a");
  printf("%d texts of %d programs: %d refused, the others taken by ptxas\n", f.to.n_texts, PROGRAMS - 1, f.n_refused);
}

TEST(ptx_is_shown_with_and_without_a_device) {
  weft_scope *s = weft_scope_open();
  weft_array *y[MOST];
  weft_set(WEFT_DEVICE, 0); /* on the host it is one kernel, .. */
  softmax(y);
  EXPECT(strstr(weft_show(1, y, "ptx"), ".visible .entry"));
  put_set(y);
  EXPECT(strstr(weft_show(1, y, "ptx"), "no PTX: a plain store through a loaded index"));
  if (cuda_device(0)) {
    weft_set(WEFT_DEVICE, 1); /* .. on a device as many as it takes */
    put_set(y);
    EXPECT(!strstr(weft_show(1, y, "ptx"), "no PTX") && strstr(weft_show(1, y, "ptx"), ".visible .entry"));
  }
  weft_scope_discard(s);
}
