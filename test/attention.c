/* attention.c -- products that feed each other have the bits of one op at a time, on every back end and number of threads,
 * whatever is in the operands, and never store what is between them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "backend/patch.h"
#include "every_recipe.h"
#include "run/compiled.h"
#include "run/plan.h"
#include "test.h"
#include "values.h"
#include "weft.h"

enum { HEADS = 3, ROWS = 300, COLUMNS = 333, WIDTH = 40, VALUES = 24 };

static uint32_t seed;
static float number(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)(int32_t)(seed ^ seed >> 15) / 1073741824.0f;
}

static weft_array *numbers(weft_dtype t, int rank, const int64_t dims[]) {
  size_t n = 1;
  for (int k = 0; k < rank; k++) n *= (size_t)dims[k];
  float *x = malloc(sizeof *x * (n + 1));
  for (size_t i = 0; i < n; i++) x[i] = number();
  weft_array *y = weft_cast(weft_from(WEFT_F32, rank, dims, x), t);
  free(x);
  return y;
}

/* ---- programs of q, k, v ---- */

typedef weft_array *program(weft_array *q, weft_array *k, weft_array *v);

static weft_array *turned(weft_array *x) { return weft_moveaxis(x, -1, -2); }
static weft_array *scores(weft_array *q, weft_array *k) { return weft_mul(weft_matmul(q, turned(k)), weft_scalar(0.3)); }
static weft_array *plain(weft_array *q, weft_array *k, weft_array *v) { return weft_matmul(weft_softmax(scores(q, k), -1), v); }
static weft_array *causal(weft_array *q, weft_array *k, weft_array *v) {
  return weft_attention(q, k, v, &(weft_attention_options){ .is_causal = 1 });
}
static weft_array *before(weft_array *q, weft_array *k, weft_array *v) { /* a strict mask of its own, for all heads */
  weft_array *like = weft_full(WEFT_I64, WEFT_DIMS(ROWS, COLUMNS), 0);
  weft_array *mask = weft_lt(weft_sub(weft_iota(like, 1), weft_integer(7)), weft_iota(like, 0));
  return weft_matmul(weft_softmax(weft_where(mask, scores(q, k), weft_scalar(-INFINITY)), -1), v);
}
static weft_array *window(weft_array *q, weft_array *k, weft_array *v) { /* masked on both sides */
  weft_array *like = weft_cast(scores(q, k), WEFT_I32), *i = weft_iota(like, 1), *j = weft_iota(like, 2);
  weft_array *mask = weft_and(weft_le(j, i), weft_lt(weft_sub(i, weft_integer(20)), j));
  return weft_matmul(weft_softmax(weft_where(mask, scores(q, k), weft_scalar(-INFINITY)), -1), v);
}
static weft_array *after(weft_array *q, weft_array *k, weft_array *v) { /* the other side: rows end, or begin, masked */
  weft_array *like = weft_cast(scores(q, k), WEFT_I32);
  weft_array *mask = weft_le(weft_iota(like, 1), weft_iota(like, 2));
  return weft_matmul(weft_softmax(weft_where(mask, scores(q, k), weft_scalar(-INFINITY)), -1), v);
}
static weft_array *none_above(weft_array *q, weft_array *k, weft_array *v) { /* rows of which nothing is left */
  weft_array *like = weft_cast(scores(q, k), WEFT_I32);
  weft_array *mask = weft_le(weft_add(weft_iota(like, 2), weft_integer(50)), weft_iota(like, 1));
  return weft_matmul(weft_softmax(weft_where(mask, scores(q, k), weft_scalar(-INFINITY)), -1), v);
}
static weft_array *layers(weft_array *q, weft_array *k, weft_array *v) {
  return weft_add(weft_tanh(weft_matmul(weft_tanh(weft_matmul(q, turned(k))), v)), weft_scalar(1));
}
static weft_array *norm(weft_array *q, weft_array *k, weft_array *v) {
  return (void)v, weft_layer_norm(weft_matmul(q, turned(k)), NULL, NULL, 1e-5);
}
static weft_array *largest(weft_array *q, weft_array *k, weft_array *v) {
  return (void)v, weft_cast(weft_argmax(weft_matmul(q, turned(k)), -1), WEFT_F32);
}
static weft_array *running(weft_array *q, weft_array *k, weft_array *v) { return (void)v, weft_cumsum(weft_matmul(q, turned(k)), -1); }

static weft_array *updated(weft_array *q, weft_array *k, weft_array *v) { /* into part of another array */
  weft_array *all = weft_concat(-2, 2, (weft_array *[]){ weft_slice(q, 2, 0, VALUES, 1), weft_slice(q, 2, 0, VALUES, 1) });
  return weft_put(all, weft_slice(all, 1, 50, 50 + ROWS, 1), plain(q, k, v), WEFT_SET);
}

static const struct { const char *name; program *f; } programs[] = {
  { "plain", plain }, { "causal", causal }, { "before", before }, { "window", window }, { "after", after },
  { "none above", none_above }, { "layers", layers }, { "norm", norm }, { "largest", largest }, { "running", running },
  { "updated", updated },
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* ---- operands ---- */

enum what { ORDINARY, INFINITE, MINUS_ZERO, NARROW, WHATS };

static float *filled(size_t n) {
  float *x = malloc(sizeof *x * n);
  for (size_t i = 0; i < n; i++) x[i] = number();
  return x;
}

/* Sums of row i are -0 up to what is masked, and +0 with it. */
static void make_minus_zero(float *q, float *k, float *v) {
  for (size_t i = 0; i < (size_t)HEADS * ROWS * WIDTH; i++) q[i] = i % WIDTH ? 0 : 10;
  for (size_t i = 0; i < (size_t)HEADS * COLUMNS * WIDTH; i++) k[i] = i % (COLUMNS * WIDTH) ? 0 : -10;
  for (size_t i = 0; i < (size_t)HEADS * COLUMNS * VALUES; i++) {
    size_t row = i / VALUES % COLUMNS;
    v[i] = row == 0 ? -1e-40f : row < 200 ? -0.0f : 1;
  }
}

static void operands(enum what what, weft_array *out[3]) {
  float *x[3] = { filled(HEADS * ROWS * WIDTH), filled(HEADS * COLUMNS * WIDTH), filled(HEADS * COLUMNS * VALUES) };
  if (what == INFINITE) x[2][(COLUMNS + 200) * VALUES + 3] = INFINITY, x[1][(2 * COLUMNS + 290) * WIDTH] = NAN;
  if (what == MINUS_ZERO) make_minus_zero(x[0], x[1], x[2]);
  weft_array *y[3] = { weft_from(WEFT_F32, WEFT_DIMS(HEADS, ROWS, WIDTH), x[0]), weft_from(WEFT_F32, WEFT_DIMS(HEADS, COLUMNS, WIDTH), x[1]),
                       weft_from(WEFT_F32, WEFT_DIMS(HEADS, COLUMNS, VALUES), x[2]) };
  for (int i = 0; i < 3; i++) {
    out[i] = what == NARROW ? weft_cast(y[i], WEFT_BF16) : y[i];
    free(x[i]);
  }
  EXPECT_OK(weft_eval(3, out));
}

/* ---- running ---- */

static weft_function *function_of(program *f, weft_dtype t) {
  weft_scope *body = weft_scope_open();
  weft_array *in[3] = { weft_input(t, WEFT_DIMS(HEADS, ROWS, WIDTH)), weft_input(t, WEFT_DIMS(HEADS, COLUMNS, WIDTH)),
                        weft_input(t, WEFT_DIMS(HEADS, COLUMNS, VALUES)) };
  weft_array *y = f(in[0], in[1], in[2]);
  return weft_compile(body, 3, in, 1, &y);
}

static size_t count_of(weft_array *y) {
  size_t n = 1;
  for (int k = 0; k < weft_rank(y); k++) n *= (size_t)weft_dim(y, k);
  return n;
}

static float *run(program *f, weft_array *const in[3], size_t *n) {
  weft_scope *s = weft_scope_open();
  weft_array *y;
  weft_call(function_of(f, weft_dtype_of(in[0])), 3, in, 1, &y);
  *n = count_of(y);
  float *out = malloc(sizeof *out * *n);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F32), WEFT_F32, out, sizeof *out * *n));
  weft_scope_discard(s);
  return out;
}

static void use(const char *backend, bool fuses, int threads) { way_take(&(struct way){ "", backend, fuses, threads }); }

static void expect_same(const char *name, const char *where, const float *a, const float *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!memcmp(&a[i], &b[i], sizeof *a) || (isnan(a[i]) && isnan(b[i]))) continue;
    test_fail(__FILE__, __LINE__, "%s on %s: element %zu is %a, not %a", name, where, i, (double)b[i], (double)a[i]);
    return;
  }
}

static void check_bits(enum what what) {
  int64_t threads = weft_get(WEFT_THREADS);
  weft_scope *s = weft_scope_open();
  weft_array *in[3];
  seed = 11;
  operands(what, in);
  for (int i = 0; i < PROGRAMS; i++) {
    size_t n, m;
    use("vm", false, 1);
    float *want = run(programs[i].f, in, &n);
    for (int k = 0; k < FUSED_WAYS; k++) {
      if (k == 1 && !contractor_avx2.available()) continue;
      way_take(&fused_ways[k]);
      float *got = run(programs[i].f, in, &m);
      EXPECT_INT((int64_t)m, (int64_t)n);
      expect_same(programs[i].name, fused_ways[k].name, want, got, n);
      free(got);
    }
    free(want);
  }
  use(NULL, true, (int)threads);
  weft_scope_discard(s);
}

TEST(products_that_feed_each_other_have_the_bits_of_one_op_at_a_time) { check_bits(ORDINARY); }
TEST(nothing_beyond_a_mask_is_left_out_that_would_be_nan) { check_bits(INFINITE); }
TEST(nothing_beyond_a_mask_is_left_out_that_would_make_a_zero_positive) { check_bits(MINUS_ZERO); }
TEST(attention_of_narrow_numbers_has_the_bits_of_one_op_at_a_time) { check_bits(NARROW); }

/* The second product is small, and a kernel goes on with all rows that the first hands over at once. */
TEST(a_small_product_has_room_for_all_rows_that_it_is_fed) {
  enum { N = 64, MANY = 32 };
  weft_scope *s = weft_scope_open();
  seed = 3;
  weft_array *q = numbers(WEFT_F32, WEFT_DIMS(MANY, N, N)), *v = numbers(WEFT_F32, WEFT_DIMS(MANY, N, N)), *in[] = { q, v };
  EXPECT_OK(weft_eval(2, in));
  float *got[2];
  for (int fuses = 0; fuses < 2; fuses++) {
    use(NULL, fuses, 2);
    weft_array *y = layers(q, q, v);
    got[fuses] = malloc(sizeof **got * MANY * N * N);
    EXPECT_OK(weft_read(y, WEFT_F32, got[fuses], sizeof **got * MANY * N * N));
  }
  expect_same("small layers", "the best", got[0], got[1], MANY * N * N);
  free(got[0]), free(got[1]);
  use(NULL, true, 0);
  weft_scope_discard(s);
}

TEST(attention_stores_its_result_and_no_scores) {
  weft_scope *s = weft_scope_open();
  weft_array *q = numbers(WEFT_F32, WEFT_DIMS(2, 512, 64)), *k = numbers(WEFT_F32, WEFT_DIMS(2, 512, 64)), *in[] = { q, k };
  EXPECT_OK(weft_eval(2, in));
  weft_array *y = causal(q, k, k);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT_INT(cost.peak_bytes - cost.scratch_bytes, 2 * 512 * 64 * 4);
  EXPECT(strstr(weft_show(1, &y, "plan"), "a=rows of the step before"));
  weft_scope_discard(s);
}

/* ---- one query, as a decoder asks ---- */

static weft_array *asked(int which, weft_array *q, weft_array *k, weft_array *v) {
  weft_array *x = weft_mul(weft_matmul(q, turned(k)), weft_scalar(0.125));
  if (which == 1) x = weft_where(weft_lt(x, weft_scalar(0.5)), x, weft_scalar(-INFINITY));
  return which == 2 ? weft_matmul(weft_tanh(x), v) : weft_matmul(weft_softmax(x, -1), v);
}

/* By a function, so that nobody holds what is in between. */
static weft_array *answered(int which, weft_array *const in[3]) {
  weft_scope *body = weft_scope_open();
  weft_array *arg[3], *y;
  for (int k = 0; k < 3; k++) {
    int64_t dims[4];
    for (int i = 0; i < 4; i++) dims[i] = weft_dim(in[k], i);
    arg[k] = weft_input(weft_dtype_of(in[k]), 4, dims);
  }
  y = asked(which, arg[0], arg[1], arg[2]);
  weft_call(weft_compile(body, 3, arg, 1, &y), 3, in, 1, &y);
  return y;
}

static float *answer(int which, weft_array *const in[3], size_t *n) {
  weft_array *y = answered(which, in);
  *n = count_of(y);
  float *out = malloc(sizeof *out * *n);
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F32), WEFT_F32, out, sizeof *out * *n));
  return out;
}

TEST(one_query_has_the_bits_of_one_op_at_a_time_of_any_number_of_keys) {
  static const int64_t keys[] = { 1, 2, 17, 100, 1030, 2100 };
  int64_t threads = weft_get(WEFT_THREADS);
  test_watchdog(120);
  for (int i = 0; i < 36; i++) {
    int64_t n = keys[i / 6];
    weft_dtype t = i % 2 ? WEFT_BF16 : WEFT_F32;
    int which = i / 2 % 3;
    weft_scope *s = weft_scope_open();
    seed = 7;
    weft_array *in[3] = { numbers(t, WEFT_DIMS(4, 2, 1, 64)), numbers(t, WEFT_DIMS(4, 1, n, 64)), numbers(t, WEFT_DIMS(4, 1, n, 48)) };
    if (n > 2 && which == 0) in[2] = weft_put(in[2], weft_slice(in[2], 2, 1, 2, 1), weft_scalar(INFINITY), WEFT_SET);
    EXPECT_OK(weft_eval(3, in));
    size_t count, m;
    use("vm", false, 1);
    float *want = answer(which, in, &count);
    for (int k = 0; k < FUSED_WAYS; k++) {
      if (k == 1 && !contractor_avx2.available()) continue;
      way_take(&fused_ways[k]);
      float *got = answer(which, in, &m);
      EXPECT_INT((int64_t)m, (int64_t)count);
      expect_same("one query", fused_ways[k].name, want, got, count);
      free(got);
    }
    free(want);
    use(NULL, true, (int)threads);
    weft_scope_discard(s);
  }
}

static int64_t bytes_of_keys(int64_t n) {
  weft_scope *s = weft_scope_open();
  weft_array *in[3] = { numbers(WEFT_F32, WEFT_DIMS(4, 2, 1, 64)), numbers(WEFT_F32, WEFT_DIMS(4, 1, n, 64)), numbers(WEFT_F32, WEFT_DIMS(4, 1, n, 64)) };
  EXPECT_OK(weft_eval(3, in));
  weft_array *y = weft_attention(in[0], in[1], in[2], NULL);
  weft_cost cost;
  EXPECT_OK(weft_plan(1, &y, &cost));
  EXPECT(strstr(weft_show(1, &y, "plan"), "a=rows of the step before"));
  int64_t used = weft_get(WEFT_BYTES_USED);
  weft_set(WEFT_BYTES_PEAK, 0);
  EXPECT_OK(weft_eval(1, &y));
  EXPECT_INT(weft_get(WEFT_BYTES_PEAK) - used, cost.peak_bytes);
  weft_scope_discard(s);
  return cost.peak_bytes;
}

TEST(one_query_takes_as_much_memory_of_a_few_keys_as_of_many) {
  int64_t threads = weft_get(WEFT_THREADS);
  use(NULL, true, 1);
  int64_t few = bytes_of_keys(20);
  for (int64_t n = 100; n <= 900; n += 200) EXPECT_INT(bytes_of_keys(n), few);
  EXPECT(bytes_of_keys(16000) <= few + 4 * 16384 * 4); /* two rows, of twice their size at most */
  use(NULL, true, (int)threads);
}

/* ---- what it is ---- */

static double *read_all(weft_array *y) {
  size_t n = count_of(y);
  double *x = malloc(sizeof *x * (n + 1));
  EXPECT_OK(weft_read(weft_cast(y, WEFT_F64), WEFT_F64, x, sizeof *x * n));
  return x;
}

static void expect_close(weft_array *a, weft_array *b, double most) {
  size_t n = count_of(a);
  EXPECT_INT((int64_t)n, (int64_t)count_of(b));
  double *x = read_all(a), *y = read_all(b);
  for (size_t i = 0; i < n; i++) if (!(fabs(x[i] - y[i]) <= most)) { EXPECT(fabs(x[i] - y[i]) <= most); break; }
  free(x), free(y);
}

TEST(attention_is_what_its_formula_says) {
  weft_scope *s = weft_scope_open();
  seed = 5;
  weft_array *q = numbers(WEFT_F64, WEFT_DIMS(2, 7, 4)), *k = numbers(WEFT_F64, WEFT_DIMS(2, 9, 4)), *v = numbers(WEFT_F64, WEFT_DIMS(2, 9, 5));
  weft_array *more = numbers(WEFT_F64, WEFT_DIMS(7, 9)), *mask = weft_lt(more, weft_scalar(1));
  weft_array *dots = weft_mul(weft_matmul(q, turned(k)), weft_scalar(0.5));
  expect_close(weft_attention(q, k, v, NULL), weft_matmul(weft_softmax(dots, -1), v), 1e-12);
  expect_close(weft_attention(q, k, v, &(weft_attention_options){ .mask = more, .scale = 0.5 }), weft_matmul(weft_softmax(weft_add(dots, more), -1), v), 1e-12);
  weft_array *hidden = weft_where(mask, dots, weft_scalar(-INFINITY));
  expect_close(weft_attention(q, k, v, &(weft_attention_options){ .mask = mask }), weft_matmul(weft_softmax(hidden, -1), v), 1e-12);
  weft_array *seen = weft_where(weft_cast(weft_tri(WEFT_I32, 7, 9, 2), WEFT_BOOL), dots, weft_scalar(-INFINITY));
  expect_close(causal(q, k, v), weft_matmul(weft_softmax(seen, -1), v), 1e-12);
  weft_scope_discard(s);
}

TEST(heads_of_queries_share_heads_of_keys) {
  weft_scope *s = weft_scope_open();
  seed = 6;
  weft_array *q = numbers(WEFT_F32, WEFT_DIMS(2, 6, 40, 16)), *k = numbers(WEFT_F32, WEFT_DIMS(2, 3, 50, 16)), *v = numbers(WEFT_F32, WEFT_DIMS(2, 3, 50, 8));
  weft_array *mask = numbers(WEFT_F32, WEFT_DIMS(6, 40, 50));
  weft_attention_options how = { .mask = mask, .is_causal = 1 };
  weft_array *all = weft_attention(q, weft_repeat(k, 1, 2), weft_repeat(v, 1, 2), &how);
  EXPECT_INT(weft_rank(all), 4);
  expect_close(weft_attention(q, k, v, &how), all, 0);
  weft_scope_discard(s);
}

TEST(the_gradient_of_attention_is_that_of_its_formula) {
  weft_scope *s = weft_scope_open();
  seed = 7;
  weft_array *x[] = { numbers(WEFT_F32, WEFT_DIMS(2, 300, 32)), numbers(WEFT_F32, WEFT_DIMS(2, 300, 32)), numbers(WEFT_F32, WEFT_DIMS(2, 300, 16)) };
  weft_array *wide[3], *d[3], *want[3];
  EXPECT_OK(weft_eval(3, x));
  for (int i = 0; i < 3; i++) wide[i] = weft_cast(x[i], WEFT_F64);
  EXPECT_OK(weft_eval(3, wide));
  weft_grad(weft_sum(weft_square(causal(x[0], x[1], x[2])), WEFT_ALL), 3, x, d);
  weft_grad(weft_sum(weft_square(causal(wide[0], wide[1], wide[2])), WEFT_ALL), 3, wide, want);
  for (int i = 0; i < 3; i++) expect_close(d[i], want[i], 1e-4);
  weft_scope_discard(s);
}

/* The scale is a number where the size is known, else computed from it. */
TEST(attention_of_an_unknown_size_is_scaled_as_one_of_a_known_size) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_sin(weft_reshape(weft_arange(WEFT_F64, 0, 15, 1), WEFT_DIMS(5, 3))), *y = weft_attention(x, x, x, NULL), *z;
  weft_scope *body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY)), *out = weft_attention(in, in, in, NULL);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_call(f, 1, &x, 1, &z);
  double known[15], unknown[15];
  read_f64(y, 15, known), read_f64(z, 15, unknown);
  for (int i = 0; i < 15; i++) EXPECT_NEAR(unknown[i], known[i], 1e-15);
  weft_scope_discard(s);
}

TEST(attention_of_nonsense_says_so) {
  weft_scope *s = weft_scope_open();
  weft_array *x = numbers(WEFT_F32, WEFT_DIMS(4, 3)), *y = numbers(WEFT_F32, WEFT_DIMS(5, 2));
  EXPECT_INT(weft_check(weft_attention(x, y, y, NULL)), WEFT_ERR_SHAPE);
  EXPECT_TEXT(weft_message(), "weft_attention: q, k, v must be [..,T,d], [..,S,d], [..,S,e], not [4,3], [5,2], [5,2]");
  EXPECT_INT(weft_check(weft_attention(x, x, weft_cast(x, WEFT_C64), NULL)), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_check(weft_attention(x, x, x, &(weft_attention_options){ .mask = y })), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

TEST(the_scale_of_attention_is_the_same_number_where_sizes_are_open) {
  double q[15], got[2][15];
  weft_scope *s = weft_scope_open(), *body;
  for (int i = 0; i < 15; i++) q[i] = (i * 7 % 11) / 5.0 - 1;
  weft_array *x = weft_from(WEFT_F64, WEFT_DIMS(3, 5), q), *y;
  EXPECT_OK(weft_read(weft_attention(x, x, x, NULL), WEFT_F64, got[0], sizeof got[0]));
  weft_set(WEFT_REWRITES, 0);
  body = weft_scope_open();
  weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY, WEFT_ANY)), *out = weft_attention(in, in, in, NULL);
  weft_function *f = weft_compile(body, 1, &in, 1, &out);
  weft_set(WEFT_REWRITES, 1);
  weft_call(f, 1, &x, 1, &y);
  EXPECT_OK(weft_read(y, WEFT_F64, got[1], sizeof got[1]));
  EXPECT(!memcmp(got[0], got[1], sizeof got[0]));
  weft_scope_discard(s);
}
