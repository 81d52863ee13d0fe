/* device.c -- how fast a device is: works on arrays that are there already, enqueued many times, the time of one.
 *
 *   build/release/bench/device [text ..]    only works whose name contains a text; WEFT_DEVICE says which device
 *   WEFT_DEVICE=1 WEFT_EXACT=1 build/release/bench/device scatter    what the CPU's order of sums through indices costs
 *
 * Prints one line of JSON a work: median milliseconds of seven rounds of many evaluations, bytes that must move over that time, the
 * time of the first call, and how many steps ran on the host. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>
#include "base/clock.h"
#include "backend/cuda/driver.h"

static double now_ms(void) { return 1e3 * clock_seconds(); }

static void must(weft_status s) {
  if (s == WEFT_OK) return;
  fprintf(stderr, "%s\n", weft_message());
  exit(1);
}

/* Numbers between -1 and 1, or indices, in memory that stays there. */
static weft_array *noise(weft_dtype t, int rank, const int64_t dims[], double scale) {
  weft_array *like = weft_full(WEFT_F32, rank, dims, 0);
  weft_array *u = weft_random_uniform(weft_random_key(7), like, weft_scalar(-scale), weft_scalar(scale)), *r = weft_cast(u, t);
  must(weft_eval(1, &r));
  return r;
}
static weft_array *ones(int rank, const int64_t dims[]) {
  weft_array *r = weft_add(noise(WEFT_BF16, rank, dims, 0), weft_scalar(1));
  must(weft_eval(1, &r));
  return r;
}
/* One in a hundred is NaN. */
static weft_array *noise_with_nan(int rank, const int64_t dims[]) {
  weft_array *x = noise(WEFT_F32, rank, dims, 1), *r = weft_where(weft_gt(x, weft_scalar(0.98)), weft_scalar(NAN), x);
  must(weft_eval(1, &r));
  return r;
}
/* is_skewed: as words of a text, few of which are most of it: one in fifteen is the same of 50000. */
static weft_array *indices(int64_t n, int64_t below, bool is_skewed) {
  weft_array *like = weft_full(WEFT_F32, 1, &n, 0), *u = weft_random_uniform(weft_random_key(9), like, weft_scalar(0),
      weft_scalar(0.999));
  if (is_skewed) u = weft_mul(weft_mul(u, u), weft_mul(u, u));
  weft_array *r = weft_cast(weft_mul(u, weft_scalar((double)below)), WEFT_I32);
  must(weft_eval(1, &r));
  return r;
}

enum { MOST = 8 };
/* Of a round: as many evaluations as take so long, so that what its begin and its end take is a hundredth of it or less. */
enum { FEWEST = 2, REPEATS = 50, ROUND_MS = 10, HELD = 4 };
typedef int work(weft_array *const x[], weft_array *y[]);

static weft_array *c(double v) { return weft_scalar(v); }

static int copy(weft_array *const x[], weft_array *y[]) { return y[0] = weft_neg(x[0]), 1; }
static int muladd(weft_array *const x[], weft_array *y[]) { return y[0] = weft_add(weft_mul(x[0], x[1]), x[2]), 1; }
static int gelu(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_add(weft_mul(weft_gelu_approx(x[0]), x[2]), x[1]), 1;
}
static weft_array *rms(weft_array *x, weft_array *w) {
  weft_array *m = weft_mean(weft_mul(x, x), 1);
  return weft_mul(weft_mul(x, weft_rsqrt(weft_add(m, c(1e-6)))), w);
}
static int rmsnorm(weft_array *const x[], weft_array *y[]) { return y[0] = rms(x[0], x[1]), 1; }
static int rmsnorm_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *r = rms(x[0], x[1]);
  return weft_grad(weft_sum(weft_mul(r, r), WEFT_ALL), 2, x, y), 2;
}
static int softmax(weft_array *const x[], weft_array *y[]) { return y[0] = weft_softmax(x[0], -1), 1; }
static int sum_all(weft_array *const x[], weft_array *y[]) { return y[0] = weft_sum(x[0], WEFT_ALL), 1; }
static int sum_0(weft_array *const x[], weft_array *y[]) { return y[0] = weft_sum(x[0], 0), 1; }
static int sum_1(weft_array *const x[], weft_array *y[]) { return y[0] = weft_sum(x[0], 1), 1; }
static int lse_0(weft_array *const x[], weft_array *y[]) { return y[0] = weft_logsumexp(x[0], 0), 1; }
static int reversed(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(weft_flip(x[0], 0), c(2)), 1; }
static int turned(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(weft_transpose(x[0], NULL), c(2)), 1; }
static int turned_add(weft_array *const x[], weft_array *y[]) { return y[0] = weft_add(weft_transpose(x[0], NULL), x[1]), 1; }
static weft_array *every(weft_array *x, int axis, int64_t step) { return weft_slice(x, axis, 0, WEFT_END, step); }
static int strided(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(every(x[0], 0, 2), c(2)), 1; }
static int strided_columns(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(every(x[0], 1, 2), c(2)), 1; }
static int less_row(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(weft_sub(x[0], x[1]), c(2)), 1; }
/* What is inside of x, moved by so much along one axis. */
static weft_array *inside(weft_array *x, int axis, int by) {
  for (int d = 0; d < weft_rank(x); d++) {
    int at = d == axis ? 1 + by : 1;
    x = weft_slice(x, d, at, weft_dim(x, d) - 2 + at, 1);
  }
  return x;
}
static int stencil(weft_array *const x[], weft_array *y[]) {
  weft_array *sum = NULL;
  for (int d = 0; d < weft_rank(x[0]); d++) {
    weft_array *two = weft_add(inside(x[0], d, -1), inside(x[0], d, 1));
    sum = sum ? weft_add(sum, two) : two;
  }
  return y[0] = weft_sub(sum, weft_mul(c(2 * weft_rank(x[0])), inside(x[0], 0, 0))), 1;
}
static int differences(weft_array *const x[], weft_array *y[]) {
  int64_t n = weft_dim(x[0], 0);
  return y[0] = weft_sub(weft_slice(x[0], 0, 1, n, 1), weft_slice(x[0], 0, 0, n - 1, 1)), 1;
}
static int max_1(weft_array *const x[], weft_array *y[]) { return y[0] = weft_max(x[0], 1), 1; }
static int by_heads(weft_array *const x[], weft_array *y[]) { return y[0] = weft_mul(weft_moveaxis(x[0], 2, 1), c(2)), 1; }
static int widen(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cast(x[0], WEFT_F32), 1; }
static int argmax(weft_array *const x[], weft_array *y[]) { return y[0] = weft_argmax(x[0], 1), 1; }
static int joined(weft_array *const x[], weft_array *y[]) { return y[0] = weft_concat(1, 2, x), 1; }
/* p, its gradient, and the two moments. */
static int adamw(weft_array *const x[], weft_array *y[]) {
  y[1] = weft_add(weft_mul(x[2], c(0.9)), weft_mul(x[1], c(0.1)));
  y[2] = weft_add(weft_mul(x[3], c(0.999)), weft_mul(weft_mul(x[1], x[1]), c(0.001)));
  weft_array *by = weft_div(weft_mul(y[1], c(1e-3)), weft_add(weft_sqrt(weft_abs(y[2])), c(1e-8)));
  return y[0] = weft_sub(weft_mul(x[0], c(0.9999)), by), 3;
}
/* Of rows of logits the places x[1]. */
static weft_array *entropy(weft_array *const x[]) {
  weft_array *f = weft_cast(x[0], WEFT_F32), *at = weft_take_along(f, 1, weft_unsqueeze(x[1], 1));
  return weft_mean(weft_sub(weft_logsumexp(f, 1), at), WEFT_ALL);
}
static int cross_entropy(weft_array *const x[], weft_array *y[]) { return y[0] = entropy(x), 1; }
static int cross_entropy_grad(weft_array *const x[], weft_array *y[]) { return weft_grad(entropy(x), 1, x, y), 1; }
/* Of channels, x [N,C,H,W]. */
static int batch_norm(weft_array *const x[], weft_array *y[]) {
  weft_array *d = weft_sub(x[0], weft_over(weft_mean, x[0], WEFT_AXES(0, 2, 3)));
  return y[0] = weft_mul(d, weft_rsqrt(weft_add(weft_over(weft_mean, weft_mul(d, d), WEFT_AXES(0, 2, 3)), c(1e-5)))), 1;
}
/* The same, x [N,H,W,C]. */
static int batch_norm_last(weft_array *const x[], weft_array *y[]) {
  weft_array *m = weft_over(weft_mean, x[0], WEFT_AXES(0, 1, 2)), *v = weft_var_over(x[0], WEFT_AXES(0, 1, 2), 0);
  return y[0] = weft_mul(weft_sub(x[0], m), weft_rsqrt(weft_add(v, c(1e-5)))), 1;
}
/* Windows of 2 x 2, x [N,C,H,W]. */
static int max_pool(weft_array *const x[], weft_array *y[]) {
  int64_t h = weft_dim(x[0], 2) / 2, w = weft_dim(x[0], 3) / 2;
  weft_array *windows = weft_reshape(x[0], WEFT_DIMS(weft_dim(x[0], 0), weft_dim(x[0], 1), h, 2, w, 2));
  return y[0] = weft_max(weft_max(windows, 5), 3), 1;
}
static int softmax_0(weft_array *const x[], weft_array *y[]) { return y[0] = weft_softmax(x[0], 0), 1; }
static int argmax_0(weft_array *const x[], weft_array *y[]) { return y[0] = weft_argmax(x[0], 0), 1; }
/* One query of each head, of all keys, which are the values. */
static int one_query(weft_array *const x[], weft_array *y[]) {
  weft_array *scores = weft_mul(weft_matmul(x[0], weft_moveaxis(x[1], -1, -2)), c(0.125));
  return y[0] = weft_matmul(weft_softmax(scores, -1), x[1]), 1;
}
static int convolution(weft_array *const x[], weft_array *y[]) {
  weft_conv_options o = { .before = (int64_t[]){ 1, 1 }, .after = (int64_t[]){ 1, 1 } };
  return y[0] = weft_conv(x[0], x[1], &o), 1;
}
static int put(weft_array *const x[], weft_array *y[], weft_how how) {
  return y[0] = weft_put(x[0], weft_take(x[0], 1, &x[1]), x[2], how), 1;
}
static int put_add(weft_array *const x[], weft_array *y[]) { return put(x, y, WEFT_ADD); }
static int put_mul(weft_array *const x[], weft_array *y[]) { return put(x, y, WEFT_MUL); }
static int put_set(weft_array *const x[], weft_array *y[]) { return put(x, y, WEFT_SET); }
static int gather(weft_array *const x[], weft_array *y[]) { return y[0] = weft_take(x[0], 1, &x[1]), 1; }
static int cumsum(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cumsum(x[0], 0), 1; }
static int cummax(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cummax(x[0], 0), 1; }
static int cumsum_rows(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cumsum(x[0], 1), 1; }
static int sort(weft_array *const x[], weft_array *y[]) { return y[0] = weft_sort(x[0], 0), 1; }
static int order(weft_array *const x[], weft_array *y[]) { return y[0] = weft_argsort(x[0], 0), 1; }
static int sort_rows(weft_array *const x[], weft_array *y[]) { return y[0] = weft_sort(x[0], 1), 1; }
static int largest(weft_array *const x[], weft_array *y[]) { return y[0] = weft_topk(x[0], 0, 100), 1; }
static int histogram(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_histogram(x[0], weft_linspace(WEFT_F32, -1, 1, 101), NULL, 0), 1;
}
static int factor(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cholesky(x[0]), 1; }
static int solve(weft_array *const x[], weft_array *y[]) { return y[0] = weft_solve(x[0], x[1]), 1; }
static int codes(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_quantized_matmul(x[0], x[1], x[2], x[2], 1, NULL), 1;
}
static int normal(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_random_normal(weft_random_key(3), x[0], c(0), c(1)), 1;
}
static int uniform(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_random_uniform(weft_random_key(3), x[0], c(0), c(1)), 1;
}
static int product(weft_array *const x[], weft_array *y[]) { return y[0] = weft_matmul(x[0], x[1]), 1; }
static int product_gelu(weft_array *const x[], weft_array *y[]) { return y[0] = weft_gelu_approx(weft_matmul(x[0], x[1])), 1; }
static int layernorm(weft_array *const x[], weft_array *y[]) {
  weft_array *d = weft_sub(x[0], weft_mean(x[0], 1));
  return y[0] = weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), 1), c(1e-5)))), 1;
}
static int attention(weft_array *const x[], weft_array *y[]) {
  return y[0] = weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .is_causal = true }), 1;
}
static int attention_all(weft_array *const x[], weft_array *y[]) { return y[0] = weft_attention(x[0], x[1], x[2], NULL), 1; }
/* For a cotangent of the result, which is the last operand. */
static int attention_grad(weft_array *const x[], weft_array *y[]) {
  attention(x, y);
  return weft_grad(weft_sum(weft_mul(y[0], x[3]), WEFT_ALL), 3, x, y), 3;
}

/* A transformer block of 12 heads: x [8,1024,768], its weights (norm, q k v, out, norm, up, down). */
static weft_array *norm(weft_array *x, weft_array *w) {
  weft_array *f = weft_cast(x, WEFT_F32), *m = weft_mean(weft_mul(f, f), -1);
  return weft_mul(weft_cast(weft_mul(f, weft_rsqrt(weft_add(m, c(1e-6)))), weft_dtype_of(x)), w);
}
static weft_array *heads(weft_array *qkv, int which) {
  weft_array *part = weft_slice(qkv, 2, 768 * which, 768 * which + 768, 1);
  return weft_moveaxis(weft_reshape(part, 4, (int64_t[]){ 8, 1024, 12, 64 }), 2, 1);
}
static weft_array *block(weft_array *const x[]) {
  weft_array *qkv = weft_matmul(norm(x[0], x[1]), x[2]), *o;
  o = weft_attention(heads(qkv, 0), heads(qkv, 1), heads(qkv, 2), &(weft_attention_options){ .is_causal = true });
  o = weft_reshape(weft_moveaxis(o, 1, 2), 3, (int64_t[]){ 8, 1024, 768 });
  weft_array *y = weft_add(x[0], weft_matmul(o, x[3]));
  return weft_add(y, weft_matmul(weft_gelu_approx(weft_matmul(norm(y, x[4]), x[5])), x[6]));
}
static int block_of(weft_array *const x[], weft_array *y[]) { return y[0] = block(x), 1; }
static int block_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *f = weft_cast(block(x), WEFT_F32);
  return weft_grad(weft_mean(weft_mul(f, f), WEFT_ALL), 6, x + 1, y), 6;
}
static int narrow(weft_array *const x[], weft_array *y[]) { return y[0] = weft_cast(x[0], WEFT_BF16), 1; }
static int chain(weft_array *const x[], weft_array *y[]) {
  y[0] = x[0];
  for (int i = 0; i < 100; i++) y[0] = weft_mul(weft_sin(y[0]), c(1.01));
  return 1;
}
/* Running sums of each other: as many kernels. */
static int sums(weft_array *const x[], weft_array *y[], int n) {
  y[0] = x[0];
  for (int i = 0; i < n; i++) y[0] = weft_cumsum(y[0], 0);
  return 1;
}
static int sums_4(weft_array *const x[], weft_array *y[]) { return sums(x, y, 4); }
static int sums_16(weft_array *const x[], weft_array *y[]) { return sums(x, y, 16); }
static int sums_64(weft_array *const x[], weft_array *y[]) { return sums(x, y, 64); }
static weft_array *rnn_of(weft_array *const x[]) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(l, x[0]), *h = weft_loop_carry(l, x[2]), *next = weft_tanh(weft_add(weft_matmul(h, x[1]), x_t));
  weft_loop_next(l, h, next);
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  return all;
}
static int rnn(weft_array *const x[], weft_array *y[]) { return y[0] = rnn_of(x), 1; }
static int rnn_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *h = rnn_of(x);
  return weft_grad(weft_sum(weft_mul(h, h), WEFT_ALL), 1, &x[1], y), 1;
}
static weft_array *ar2_of(weft_array *e) {
  weft_array *first = weft_reshape(weft_slice(e, 0, 0, 1, 1), 1, (int64_t[]){ weft_dim(e, 1) });
  weft_loop *l = weft_loop_open(NULL);
  weft_array *e_t = weft_loop_each(l, e), *a = weft_loop_carry(l, first), *b = weft_loop_carry(l, first);
  weft_array *m = weft_add(weft_sub(weft_mul(a, c(0.5)), weft_mul(b, c(0.3))), weft_tanh(e_t));
  weft_loop_next(l, a, m);
  weft_loop_next(l, b, a);
  weft_array *all = weft_loop_all(l, m);
  weft_loop_close(l);
  return all;
}
static int ar2(weft_array *const x[], weft_array *y[]) { return y[0] = ar2_of(x[0]), 1; }
static int ar2_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *h = ar2_of(x[0]);
  return weft_grad(weft_sum(weft_mul(h, h), WEFT_ALL), 1, x, y), 1;
}
static int steps(weft_array *const x[], weft_array *y[]) {
  weft_loop *l = weft_loop_open(weft_integer(10000));
  weft_array *h = weft_loop_carry(l, x[0]);
  weft_loop_next(l, h, weft_add(weft_mul(h, c(0.999)), c(0.5)));
  y[0] = weft_loop_last(l, h);
  weft_loop_close(l);
  return 1;
}

/* A filter of 256 series at once: what is seen z [T,256,1], the state x [256,4], its covariance p [256,4,4]; f moves it. */
static int kalman(weft_array *const x[], weft_array *y[]) {
  weft_array *f = x[1], *ft = weft_transpose(f, NULL), *unit = weft_cast(weft_eq(weft_iota(f, 0), weft_iota(f, 1)), WEFT_F32);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *z = weft_loop_each(l, x[0]), *m = weft_loop_carry(l, x[2]), *p = weft_loop_carry(l, x[3]);
  weft_array *ahead = weft_matmul(m, ft), *spread = weft_add(weft_matmul(weft_matmul(f, p), ft), weft_mul(unit, c(0.1)));
  weft_array *column = weft_slice(spread, 2, 0, 1, 1), *row = weft_slice(spread, 1, 0, 1, 1);
  weft_array *s = weft_add(weft_slice(row, 2, 0, 1, 1), c(0.5)), *gain = weft_div(column, s);
  weft_array *off = weft_sub(z, weft_slice(ahead, 1, 0, 1, 1));
  weft_array *now = weft_add(ahead, weft_mul(weft_reshape(gain, 2, (int64_t[]){ 256, 4 }), off));
  weft_loop_next(l, m, now);
  weft_loop_next(l, p, weft_sub(spread, weft_mul(gain, row)));
  y[0] = weft_loop_all(l, now);
  weft_loop_close(l);
  return 1;
}

/* 96 channels, each by 7 x 7 factors of its own. */
static int depthwise(weft_array *const x[], weft_array *y[]) {
  weft_conv_options o = { .before = (int64_t[]){ 3, 3 }, .after = (int64_t[]){ 3, 3 }, .groups = 96 };
  return y[0] = weft_conv(x[0], x[1], &o), 1;
}

static const struct row {
  const char *name;
  work *make;
  double bytes;                        /* that must move */
  const char *in;                      /* of each operand: f, b, d, u (f32, bf16, f64, u32), s (small f32), w (small bf16), o (ones
                                          of bf16), p (positive definite f32), n (f32 with NaN among them) and dims; i, k: count
                                          and limit of indices, skewed ones */
} rows[] = {
  { "copy-64M-f32", copy, 8 * 0x1p26, "f 67108864" },
  { "fma-64M-f32", muladd, 16 * 0x1p26, "f 67108864|f 67108864|f 67108864" },
  { "gelu-residual-64M-f32", gelu, 12 * 0x1p26, "f 67108864|f 67108864|f 1" },
  { "gelu-residual-64M-bf16", gelu, 6 * 0x1p26, "b 67108864|b 67108864|b 1" },
  { "rmsnorm-8192x4096-f32", rmsnorm, 8 * 0x1p25, "f 8192 4096|f 4096" },
  { "rmsnorm-grad-8192x4096-f32", rmsnorm_grad, 8 * 0x1p25, "f 8192 4096|f 4096" },
  { "softmax-8192x4096-f32", softmax, 8 * 0x1p25, "f 8192 4096" },
  { "softmax-65536x512-f32", softmax, 8 * 0x1p25, "f 65536 512" },
  { "softmax-2048x16384-f32", softmax, 8 * 0x1p25, "f 2048 16384" },
  { "softmax-1x128256-f32", softmax, 0, "f 1 128256" },
  { "softmax-1024x50257-f32", softmax, 8 * 1024.0 * 50257, "f 1024 50257" },
  { "sum-all-64M-f32", sum_all, 4 * 0x1p26, "f 67108864" },
  { "sum-axis0-8192x4096", sum_0, 4 * 0x1p25, "f 8192 4096" },
  { "sum-axis1-8192x4096", sum_1, 4 * 0x1p25, "f 8192 4096" },
  { "logsumexp-axis0-8192x4096", lse_0, 4 * 0x1p25, "f 8192 4096" },
  { "reverse-mul-64M-f32", reversed, 8 * 0x1p26, "f 67108864" },
  { "transpose-8192x8192-f32", turned, 8 * 0x1p26, "f 8192 8192" },
  { "transpose-add-8192x8192-f32", turned_add, 12 * 0x1p26, "f 8192 8192|f 8192 8192" },
  { "strided-128M-f32", strided, 12 * 0x1p26, "f 134217728" },
  { "channels-4194304x3-f32", less_row, 8 * 3 * 0x1p22, "f 4194304 3|f 3" },
  { "strided-columns-8192x16384-f32", strided_columns, 12 * 0x1p26, "f 8192 16384" },
  { "stencil-8192x8192-f32", stencil, 8 * 0x1p26, "f 8192 8192" },
  { "stencil-8192x8192-bf16", stencil, 4 * 0x1p26, "b 8192 8192" },
  { "stencil-400x400x400-f32", stencil, 8 * 400. * 400 * 400, "f 400 400 400" },
  { "differences-64M-f32", differences, 8 * 0x1p26, "f 67108864" },
  { "by-heads-8x4096x16x64-bf16", by_heads, 4 * 0x1p25, "b 8 4096 16 64" },
  { "joined-8192x4096-f32", joined, 16 * 0x1p25, "f 8192 4096|f 8192 4096" },
  { "sum-axis1-8192x8192-bf16", sum_1, 2 * 0x1p26, "b 8192 8192" },
  { "sum-axis1-8192x8193-bf16", sum_1, 2 * 8192. * 8193, "b 8192 8193" },
  { "max-axis1-8192x8192-bf16", max_1, 2 * 0x1p26, "b 8192 8192" },
  { "argmax-8192x8192-f32", argmax, 4 * 0x1p26, "f 8192 8192" },
  { "batch-norm-32x64x112x112-f32", batch_norm, 12 * 32 * 64 * 112. * 112, "f 32 64 112 112" },
  { "adamw-64M-f32", adamw, 28 * 0x1p26, "f 67108864|f 67108864|f 67108864|f 67108864" },
  { "cross-entropy-8192x50257-bf16", cross_entropy, 2 * 8192 * 50257., "b 8192 50257|i 8192 50257" },
  { "cross-entropy-grad-8192x50257-bf16", cross_entropy_grad, 4 * 8192 * 50257., "b 8192 50257|i 8192 50257" },
  { "softmax-axis0-8192x4096-f32", softmax_0, 8 * 0x1p25, "f 8192 4096" },
  { "softmax-393216x64-f32", softmax, 8 * 393216 * 64., "f 393216 64" },
  { "argmax-axis0-8192x4096-f32", argmax_0, 4 * 0x1p25, "f 8192 4096" },
  { "cumsum-axis0-8192x4096-f32", cumsum, 8 * 0x1p25, "f 8192 4096" },
  { "max-pool-32x64x112x112-f32", max_pool, 5 * 32 * 64 * 112. * 112, "f 32 64 112 112" },
  { "batch-norm-32x112x112x64-f32", batch_norm_last, 12 * 32 * 64 * 112. * 112, "f 32 112 112 64" },
  { "query-8x16x1x64-of-2048-bf16", one_query, 4 * 8 * 16 * 2048 * 64., "b 8 16 1 64|b 8 16 2048 64" },
  { "matmul-65536x8x8-f32", product, 12 * 65536 * 64., "f 65536 8 8|f 65536 8 8" },
  { "scatter-add-16M-into-1024", put_add, 8 * 0x1p24, "f 1024|i 16777216 1024|f 16777216" },
  { "scatter-add-16M-nan-into-1024", put_add, 8 * 0x1p24, "f 1024|i 16777216 1024|n 16777216" },
  { "scatter-add-16M-into-1048576", put_add, 8 * 0x1p24, "f 1048576|i 16777216 1048576|f 16777216" },
  { "scatter-prod-16M-into-1024", put_mul, 8 * 0x1p24, "f 1024|i 16777216 1024|f 16777216" },
  { "scatter-prod-16M-nan-into-1024", put_mul, 8 * 0x1p24, "f 1024|i 16777216 1024|n 16777216" },
  { "scatter-prod-16M-into-1048576", put_mul, 8 * 0x1p24, "f 1048576|i 16777216 1048576|f 16777216" },
  { "scatter-set-16M-into-1048576", put_set, 8 * 0x1p24, "f 1048576|i 16777216 1048576|f 16777216" },
  { "scatter-add-65536x768-into-1000", put_add, 4 * 65536.0 * 768, "f 1000 768|i 65536 1000|f 65536 768" },
  { "scatter-add-65536x768-skewed-into-50257", put_add, 4 * 65536.0 * 768, "f 50257 768|k 65536 50257|f 65536 768" },
  { "gather-65536x768", gather, 8 * 65536.0 * 768, "f 50257 768|i 65536 50257" },
  { "gather-16M-of-1M-f32", gather, 8 * 0x1p24, "f 1048576|i 16777216 1048576" },
  { "cumsum-16M-f32", cumsum, 8 * 0x1p24, "f 16777216" },
  { "cummax-16M-f32", cummax, 8 * 0x1p24, "f 16777216" },
  { "cumsum-rows-4096x4096", cumsum_rows, 8 * 0x1p24, "f 4096 4096" },
  { "sort-16M-f32", sort, 8 * 0x1p24, "f 16777216" },
  { "argsort-16M-f32", order, 12 * 0x1p24, "f 16777216" },
  { "sort-rows-65536x256-f32", sort_rows, 8 * 0x1p24, "f 65536 256" },
  { "topk-100-of-16M-f32", largest, 4 * 0x1p24, "f 16777216" },
  { "histogram-100-of-16M-f32", histogram, 4 * 0x1p24, "f 16777216" },
  { "cholesky-2048-f32", factor, 0, "p 2048 2048" },
  { "cholesky-4096x32x32-f32", factor, 0, "p 4096 32 32" },
  { "solve-2048x64-f32", solve, 0, "p 2048 2048|f 2048 64" },
  { "codes-1x4096x4096-4bit", codes, 0.5 * 0x1p24 + 0x1p21, "f 1 4096|u 4096 512|s 4096 64" },
  { "codes-64x4096x4096-4bit", codes, 0.5 * 0x1p24 + 0x1p21, "f 64 4096|u 4096 512|s 4096 64" },
  { "uniform-64M-f32", uniform, 4 * 0x1p26, "f 67108864" },
  { "normal-64M-f32", normal, 4 * 0x1p26, "f 67108864" },
  { "chain200-1k-f32", chain, 0, "f 1024" },
  { "rnn-scan-T1000-B64-H64", rnn, 0, "f 1000 64 64|s 64 64|s 64 64" },
  { "rnn-scan-grad-T1000-B64-H64", rnn_grad, 0, "f 1000 64 64|s 64 64|s 64 64" },
  { "ar2-scan-T10000-N256", ar2, 0, "f 10000 256" },
  { "ar2-scan-grad-T10000-N256", ar2_grad, 0, "f 10000 256" },
  { "while-10000-N256", steps, 0, "f 256" },
  { "kalman-T1000-N4-B256", kalman, 0, "f 1000 256 1|s 4 4|f 256 4|s 256 4 4" },
  { "depthwise-8x56x56x96-7x7-f32", depthwise, 8 * 8 * 56 * 56 * 96., "f 8 56 56 96|s 96 7 7 1" },
  { "depthwise-1x56x56x96-7x7-f32", depthwise, 8 * 56 * 56 * 96., "f 1 56 56 96|s 96 7 7 1" },
  { "conv-32x56x56x64-3x3-f32", convolution, 0, "f 32 56 56 64|s 64 3 3 64" },
  { "conv-32x56x56x64-3x3-bf16", convolution, 0, "b 32 56 56 64|w 64 3 3 64" },
  { "matmul-1x8192x8192-bf16", product, 2 * 0x1p26, "b 1 8192|b 8192 8192" },
  { "matmul-8x8192x8192-bf16", product, 2 * 0x1p26, "b 8 8192|b 8192 8192" },
  { "matmul-8x1x4096x14336-bf16", product, 2 * 14336 * 4096., "b 8 1 4096|b 4096 14336" },
  { "matmul-8x4x1024x128-bf16", product, 0, "b 8 4 1024|b 8 1024 128" },
  { "matmul-20x1000000x20-f32", product, 8 * 2e7, "f 20 1000000|f 1000000 20" },
  { "matmul-4096x50257x768-bf16", product, 0, "b 4096 50257|b 50257 768" },
  { "matmul-1x8192x8192-f32", product, 4 * 0x1p26, "f 1 8192|f 8192 8192" },
  { "matmul-4096x64x64-f32", product, 0, "f 4096 64 64|f 4096 64 64" },
  { "matmul-4096x64x64-bf16", product, 0, "b 4096 64 64|b 4096 64 64" },
  { "matmul-256x784x32-f32", product, 0, "f 256 784|f 784 32" },
  { "matmul-100000x147x64-f32", product, 0, "f 100000 147|f 147 64" },
  { "matmul-1024-f32", product, 0, "f 1024 1024|f 1024 1024" },
  { "matmul-4096-f32", product, 0, "f 4096 4096|f 4096 4096" },
  { "matmul-1024-f64", product, 0, "d 1024 1024|d 1024 1024" },
  { "matmul-8192-f32", product, 0, "f 8192 8192|f 8192 8192" },
  { "matmul-4096-tf32", product, 0, "f 4096 4096|f 4096 4096" },
  { "matmul-8192-tf32", product, 0, "f 8192 8192|f 8192 8192" },
  { "matmul-1024-bf16", product, 0, "b 1024 1024|b 1024 1024" },
  { "matmul-4096-bf16", product, 0, "b 4096 4096|b 4096 4096" },
  { "matmul-8192-bf16", product, 0, "b 8192 8192|b 8192 8192" },
  { "matmul-gelu-4096-bf16", product_gelu, 0, "b 4096 4096|b 4096 4096" },
  { "attention-8x16x4096x64-bf16", attention_all, 0, "b 8 16 4096 64|b 8 16 4096 64|b 8 16 4096 64" },
  { "attention-causal-8x16x4096x64-bf16", attention, 0, "b 8 16 4096 64|b 8 16 4096 64|b 8 16 4096 64" },
  { "attention-grad-8x16x4096x64-bf16", attention_grad, 0,
    "b 8 16 4096 64|b 8 16 4096 64|b 8 16 4096 64|b 8 16 4096 64" },
  { "attention-causal-8x16x1024x64-f32", attention, 0, "f 8 16 1024 64|f 8 16 1024 64|f 8 16 1024 64" },
  { "block-8x1024x768-bf16", block_of, 0, "b 8 1024 768|o 768|w 768 2304|w 768 768|o 768|w 768 3072|w 3072 768" },
  { "block-grad-8x1024x768-bf16", block_grad, 0, "b 8 1024 768|o 768|w 768 2304|w 768 768|o 768|w 768 3072|w 3072 768" },
  { "layernorm-8192x4096-bf16", layernorm, 4 * 0x1p25, "b 8192 4096" },
  { "cast-64M-f32-bf16", narrow, 6 * 0x1p26, "f 67108864" },
  { "cast-64M-bf16-f32", widen, 6 * 0x1p26, "b 67108864" },
};

/* a a' + n. */
static weft_array *definite(int rank, const int64_t dims[]) {
  weft_array *a = noise(WEFT_F32, rank, dims, 1), *eye = weft_mul(weft_eye(WEFT_F32, dims[rank - 1], dims[rank - 1], 0),
      c((double)dims[rank - 1]));
  weft_array *y = weft_add(weft_matmul(a, weft_moveaxis(a, -1, -2)), eye);
  must(weft_eval(1, &y));
  return y;
}

static weft_array *operand(const char *s) {
  int64_t dims[4];
  int rank = 0;
  char *end;
  for (const char *at = s + 1; rank < 4; at = end, rank++) {
    int64_t n = strtoll(at, &end, 10);
    if (end == at) break;
    dims[rank] = n;
  }
  switch (*s) {
    case 'i': case 'k': return indices(dims[0], dims[1], *s == 'k');
    case 'b': return noise(WEFT_BF16, rank, dims, 1);
    case 'd': return noise(WEFT_F64, rank, dims, 1);
    case 's': return noise(WEFT_F32, rank, dims, 0.1);
    case 'u': return noise(WEFT_U32, rank, dims, 1e9);
    case 'n': return noise_with_nan(rank, dims);
    case 'p': return definite(rank, dims);
    case 'w': return noise(WEFT_BF16, rank, dims, 0.03);
    case 'o': return ones(rank, dims);
    default: return noise(WEFT_F32, rank, dims, 1);
  }
}

/* So many evaluations, one enqueued after the other, and all of them waited for. As in a program that has no use for old results, and
 * as the peers are measured, a result is dropped when it is there and HELD later ones are on their way: its memory serves again. The
 * driver waits for it: who waits with a limit of time sleeps between two looks, for 0.12 ms and less. */
static double round_ms(const struct row *r, weft_array *const x[], int repeats) {
  weft_array *y[REPEATS][MOST];
  double begin = now_ms();
  int n = 0;
  for (int i = 0; i < repeats + HELD; i++) {
    int old = i - HELD;
    if (i < repeats) {
      weft_scope *one = weft_scope_open();
      n = r->make(x, y[i]);
      for (int k = 0; k < n; k++) weft_own(y[i][k]);
      must(weft_eval_async(n, y[i]));
      weft_scope_discard(one);
    }
    if (old < 0 || old >= repeats) continue;
    must(weft_eval(n, y[old]));
    for (int k = 0; k < n; k++) weft_disown(y[old][k]);
  }
  return (now_ms() - begin) / repeats;
}

static int repeats_of(double ms) {
  return ms * REPEATS < ROUND_MS ? REPEATS : ms * FEWEST > ROUND_MS ? FEWEST : (int)(ROUND_MS / ms);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run(const struct row *r) {
  weft_scope *s = weft_scope_open();
  weft_array *x[MOST] = { 0 };
  int n = 0;
  weft_set(WEFT_TF32, strstr(r->name, "tf32") != NULL);
  for (const char *at = r->in; at; at = strchr(at, '|')) at += *at == '|', x[n++] = operand(at);
  int64_t on_host = weft_get(WEFT_KERNELS_HOST), kernels = weft_get(WEFT_KERNELS);
  double first = round_ms(r, x, 1), ms[7];
  kernels = weft_get(WEFT_KERNELS) - kernels;
  on_host = weft_get(WEFT_KERNELS_HOST) - on_host;
  int repeats = repeats_of(round_ms(r, x, 1));
  for (int i = 0; i < 7; i++) ms[i] = round_ms(r, x, repeats);
  qsort(ms, 7, sizeof *ms, by_size);
  const char *exact = getenv("WEFT_EXACT");
  printf("{\"work\": \"%s\", \"system\": \"%s\", \"ms\": %.4f, \"GBps\": %.0f, \"first_ms\": %.1f, \"kernels\": %d, "
         "\"on_host\": %d}\n", r->name, exact && !strcmp(exact, "1") ? "weft, exact" : "weft", ms[3], r->bytes / ms[3] / 1e6, first,
         (int)kernels, (int)on_host);
  fflush(stdout);
  weft_scope_discard(s);
}

/* A compiled function, called so often in a row from C: microseconds each, to enqueue them and until all are done. All results are
 * held until then, or each is dropped before the next call, so that it is computed where the one before was. */
static void run_calls(const char *name, work *make, const char *in, int calls, bool holds) {
  weft_scope *s = weft_scope_open();
  weft_array *x = operand(in);
  weft_scope *body = weft_scope_open();
  weft_array *y[MOST], *input = weft_input(WEFT_F32, weft_rank(x), (int64_t[]){ weft_dim(x, 0) });
  make(&input, y);
  weft_function *f = weft_compile(body, 1, &input, 1, y);
  double enqueued[7], done[7], begin;
  for (int i = 0; i < 7 + 2; i++) {
    weft_scope *round = weft_scope_open();
    weft_array *out = NULL, **all = malloc((size_t)calls * sizeof *all);
    begin = now_ms();
    for (int k = 0; k < calls; k++) {
      weft_scope *one = holds || k == calls - 1 ? NULL : weft_scope_open();
      weft_call(f, 1, &x, 1, &out), must(weft_eval_async(1, &out)), all[k] = out;
      if (one) weft_scope_discard(one);
    }
    double put = now_ms() - begin;
    must(weft_eval(1, &out));
    if (holds) must(weft_wait(calls, all, 60));
    if (i >= 2) enqueued[i - 2] = put, done[i - 2] = now_ms() - begin;
    free(all);
    weft_scope_discard(round);
  }
  qsort(enqueued, 7, sizeof *enqueued, by_size);
  qsort(done, 7, sizeof *done, by_size);
  printf("{\"work\": \"%s\", \"system\": \"weft\", \"ms\": %.5f, \"enqueue_us\": %.2f}\n", name, done[3] / calls,
         1e3 * enqueued[3] / calls);
  fflush(stdout);
  weft_scope_discard(s);
}

/* What a call of a tiny function cannot take less than on the machine: the driver's launches of a kernel as small, with as many
 * parameters, each with a result of its own, and nothing else. */
static void run_launches(const char *name, int calls) {
  static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 x, .param .u64 sx, .param .u64 y, .param .u64 sy, .param .u64 n) {\n"
    ".reg .b64 a<6>;\n.reg .b32 i<4>;\n.reg .f32 f;\nld.param.u64 a0, [x]; ld.param.u64 a1, [y];\n"
    "mov.u32 i0, %tid.x; mov.u32 i1, %ctaid.x; mov.u32 i2, %ntid.x; mad.lo.u32 i3, i1, i2, i0;\n"
    "mul.wide.u32 a3, i3, 4; add.u64 a4, a0, a3; add.u64 a5, a1, a3;\n"
    "ld.global.f32 f, [a4]; neg.f32 f, f; st.global.f32 [a5], f; ret;\n}\n";
  struct gpu *g = cuda_available() ? cuda_gpu(0) : NULL;
  handle module, f;
  uint64_t from = 0, to = 0, one = 4, n = 1024;
  double enqueued[7], done[7];
  if (!g || cuda_enter(g, "measuring") || cu.load(&module, text, 0, NULL, NULL) || cu.find(&f, module, "k")) return;
  if (cu.alloc(&from, 4096) || cu.alloc(&to, 4096 * (size_t)calls)) { fprintf(stderr, "%s: no memory\n", name); exit(1); }
  handle stream = g->queue[QUEUE_COMPUTE].stream;
  for (int i = 0; i < 7 + 2; i++) {
    double begin = now_ms(), put;
    for (int k = 0; k < calls; k++) {
      uint64_t y = to + 4096 * (uint64_t)k;
      void *params[] = { &from, &one, &y, &one, &n };
      if (cu.launch(f, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL)) { fprintf(stderr, "%s: not launched\n", name); exit(1); }
    }
    put = now_ms() - begin;
    if (cu.wait(stream)) { fprintf(stderr, "%s: failed\n", name); exit(1); }
    if (i >= 2) enqueued[i - 2] = put, done[i - 2] = now_ms() - begin;
  }
  qsort(enqueued, 7, sizeof *enqueued, by_size);
  qsort(done, 7, sizeof *done, by_size);
  printf("{\"work\": \"%s\", \"system\": \"weft\", \"ms\": %.5f, \"enqueue_us\": %.2f}\n", name, done[3] / calls,
         1e3 * enqueued[3] / calls);
  fflush(stdout);
  cu.free(from), cu.free(to), cu.unload(module);
}

/* 256 MB from the device into memory that nobody has touched yet, and there again. */
static void run_transfers(void) {
  const int64_t n = 1 << 26;
  weft_scope *s = weft_scope_open();
  weft_array *x = noise(WEFT_F32, 1, &n, 1);
  float *to = malloc((size_t)n * sizeof *to);
  double begin = now_ms();
  must(weft_read(x, WEFT_F32, to, (size_t)n * sizeof *to));
  double first = now_ms() - begin;
  begin = now_ms();
  must(weft_read(x, WEFT_F32, to, (size_t)n * sizeof *to));
  double again = now_ms() - begin;
  printf("{\"work\": \"read-256MB\", \"system\": \"weft\", \"ms\": %.2f, \"GBps\": %.1f, \"first_ms\": %.2f}\n", again,
         4 * (double)n / again / 1e6, first);
  free(to);
  weft_scope_discard(s);
}

int main(int n, char **texts) {
  if (n < 2) run_transfers();
  if (n < 2 || (n > 1 && strstr("calls", texts[1]))) {
    run_launches("tiny-calls-driver-alone-1k-f32", 1000);
    run_calls("tiny-calls-1k-f32", copy, "f 1024", 1000, true);
    run_calls("tiny-calls-dropped-1k-f32", copy, "f 1024", 1000, false);
    run_calls("chain200-calls-1k-f32", chain, "f 1024", 200, true);
    run_calls("sums4-calls-1k-f32", sums_4, "f 1024", 100, false);
    run_calls("sums16-calls-1k-f32", sums_16, "f 1024", 100, false);
    run_calls("sums64-calls-1k-f32", sums_64, "f 1024", 50, false);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is_wanted = n < 2;
    for (int k = 1; k < n; k++) is_wanted |= strstr(rows[i].name, texts[k]) != NULL;
    if (is_wanted) run(&rows[i]);
  }
  return 0;
}
