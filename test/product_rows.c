/* product_rows.c -- products of matrices whose leading axes only the left operand has: they are rows of one product, and every bit
 * is that of each batch multiplied for itself, whatever goes on with the product and however the operands lie. */
#include <math.h>
#include "test.h"
#include "values.h"

enum { B = 5, M = 9, K = 40, N = 33 };

static float numbers[B * M * K * 4];

static weft_array *drawn(uint32_t seed, int rank, const int64_t dims[]) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    numbers[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  return weft_from(WEFT_F32, rank, dims, numbers);
}

static weft_array *batch(weft_array *x, int b) { return weft_at(x, 0, weft_integer(b)); }

/* f(x w, ..) as one expression, and of each batch alone. others: what broadcasts with it; those of rank 3 have a batch of their own. */
typedef weft_array *follow(weft_array *y, int b, weft_array *const others[]);

static weft_array *other_of(weft_array *x, int b) { return b < 0 || weft_rank(x) < 3 || weft_dim(x, 0) == 1 ? x : batch(x, b); }

static weft_array *bare(weft_array *y, int b, weft_array *const o[]) { return (void)b, (void)o, y; }
static weft_array *biased(weft_array *y, int b, weft_array *const o[]) { return (void)b, weft_tanh(weft_add(y, o[0])); }
static weft_array *residual(weft_array *y, int b, weft_array *const o[]) { return weft_add(weft_add(y, o[0]), other_of(o[1], b)); }
static weft_array *scaled(weft_array *y, int b, weft_array *const o[]) { return weft_mul(y, other_of(o[2], b)); } /* [B,1,N] */
static weft_array *placed(weft_array *y, int b, weft_array *const o[]) { return (void)b, weft_add(y, o[3]); } /* [M,N] for all */
static weft_array *normed(weft_array *y, int b, weft_array *const o[]) { return weft_layer_norm(residual(y, b, o), o[0], o[0], 1e-5); }
static weft_array *shares(weft_array *y, int b, weft_array *const o[]) { return (void)b, (void)o, weft_softmax(y, -1); }
static weft_array *down(weft_array *y, int b, weft_array *const o[]) { return (void)b, (void)o, weft_sum(weft_exp(y), -2); }
static weft_array *twice(weft_array *y, int b, weft_array *const o[]) { return weft_matmul(biased(y, b, o), o[4]); }
static weft_array *numbered(weft_array *y, int b, weft_array *const o[]) {
  return (void)b, (void)o, weft_add(y, weft_iota(y, -2));
}
static weft_array *parted(weft_array *y, int b, weft_array *const o[]) {
  y = biased(y, b, o);
  int rank = weft_rank(y);
  return weft_mul(weft_reshape(y, rank + 1, (int64_t[]){ WEFT_SAME, rank == 3 ? WEFT_SAME : 3, rank == 3 ? 3 : 11, 11 }), weft_scalar(3));
}

static const struct { const char *name; follow *f; } follows[] = {
  { "bare", bare }, { "biased", biased }, { "residual", residual }, { "scaled", scaled }, { "placed", placed }, { "normed", normed },
  { "shares", shares }, { "down", down }, { "twice", twice }, { "numbered", numbered }, { "parted", parted },
};

static void expect_rows(weft_array *x, weft_array *w, const char *how) {
  weft_array *o[] = { drawn(3, WEFT_DIMS(N)), drawn(4, WEFT_DIMS(B, M, N)), drawn(5, WEFT_DIMS(B, 1, N)), drawn(6, WEFT_DIMS(M, N)), drawn(7, WEFT_DIMS(N, K)) };
  for (size_t i = 0; i < sizeof follows / sizeof *follows; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *y = follows[i].f(weft_matmul(x, w), -1, o);
    static float got[B * M * N * 2], want[M * N * 2];
    int64_t n = 1;
    for (int k = 0; k < weft_rank(y); k++) n *= weft_dim(y, k);
    EXPECT_OK(weft_read(y, WEFT_F32, got, (size_t)n * sizeof *got));
    for (int b = 0; b < B; b++) {
      weft_array *one = follows[i].f(weft_matmul(batch(x, b), w), b, o);
      EXPECT_OK(weft_read(one, WEFT_F32, want, (size_t)(n / B) * sizeof *want));
      if (memcmp(want, got + b * (n / B), (size_t)(n / B) * sizeof *want)) test_fail(__FILE__, __LINE__, "%s, %s: batch %d differs", how, follows[i].name, b);
    }
    weft_scope_discard(s);
  }
}

SCOPED(rows_of_several_axes_have_the_bits_of_each_batch_alone) {
  weft_array *x = drawn(1, WEFT_DIMS(B, M, K)), *w = drawn(2, WEFT_DIMS(K, N));
  expect_rows(x, w, "dense");
  expect_rows(weft_mul(x, weft_scalar(0.5)), weft_tanh(w), "computed");
  expect_rows(x, weft_moveaxis(drawn(2, WEFT_DIMS(N, K)), 0, 1), "w transposed");
  expect_rows(x, weft_flip(w, 0), "w backwards");
  expect_rows(x, weft_unsqueeze(w, 0), "w with an axis of 1");
  expect_rows(weft_slice(drawn(8, WEFT_DIMS(B, 2 * M, K)), 1, 0, M, 1), w, "a part of rows");
  expect_rows(weft_slice(drawn(8, WEFT_DIMS(B, 2 * M, K)), 1, 0, WEFT_END, 2), w, "every other row");
  expect_rows(weft_flip(x, 0), w, "batches backwards");
  expect_rows(weft_transpose(drawn(9, WEFT_DIMS(M, B, K)), (int[]){ 1, 0, 2 }), w, "batches inside");
  expect_rows(weft_transpose(drawn(9, WEFT_DIMS(K, B, M)), (int[]){ 1, 2, 0 }), w, "columns");
  expect_rows(weft_broadcast(drawn(9, WEFT_DIMS(M, K)), WEFT_DIMS(B, M, K)), w, "the same in all batches");
  expect_rows(weft_add(x, drawn(9, WEFT_DIMS(M, K))), w, "a sum with the same in all batches");
}

static const char *plan_of(weft_array *y) { return weft_show(1, &y, "plan"); }

SCOPED(one_product_is_planned_and_what_follows_is_its_kernel) {
  weft_array *x = drawn(1, WEFT_DIMS(B, M, K)), *w = drawn(2, WEFT_DIMS(K, N)), *bias = drawn(3, WEFT_DIMS(N));
  const char *plan = plan_of(weft_relu(weft_add(weft_matmul(x, w), bias)));
  EXPECT(strstr(plan, "M=45, N=33, K=40") != NULL && strstr(plan, "batch") == NULL && strstr(plan, "1: ") == NULL);
  plan = plan_of(weft_reshape(weft_relu(weft_add(weft_matmul(x, w), bias)), WEFT_DIMS(B, M, 3, 11)));
  EXPECT(strstr(plan, "M=45") != NULL && strstr(plan, "cell by cell") != NULL && strstr(plan, "1: ") == NULL);
  plan = plan_of(weft_matmul(weft_relu(weft_matmul(x, w)), drawn(7, WEFT_DIMS(N, K))));
  EXPECT(strstr(plan, "M=45, N=33") != NULL && strstr(plan, "M=45, N=40") != NULL && strstr(plan, "batch") == NULL);
  plan = plan_of(weft_matmul(weft_slice(drawn(8, WEFT_DIMS(B, 2 * M, K)), 1, 0, M, 1), w)); /* nothing is copied for it */
  EXPECT(strstr(plan, "batch=5") != NULL && strstr(plan, "1: ") == NULL);
}

SCOPED(gradients_of_products_with_rows_of_several_axes_agree_with_those_of_two_axes) {
  weft_array *x = drawn(1, WEFT_DIMS(B, M, K)), *w = drawn(2, WEFT_DIMS(K, N)), *d[2], *e[2];
  weft_array *flat = weft_reshape(x, WEFT_DIMS(B * M, K));
  weft_grad(weft_sum(weft_tanh(weft_matmul(x, w)), WEFT_ALL), 2, (weft_array *[]){ x, w }, d);
  weft_grad(weft_sum(weft_tanh(weft_matmul(flat, w)), WEFT_ALL), 2, (weft_array *[]){ flat, w }, e);
  static float got[B * M * K], want[B * M * K];
  for (int i = 0; i < 2; i++) {
    size_t n = i ? K * N : B * M * K;
    EXPECT_OK(weft_read(d[i], WEFT_F32, got, n * sizeof *got));
    EXPECT_OK(weft_read(e[i], WEFT_F32, want, n * sizeof *want));
    for (size_t k = 0; k < n; k++)
      if (!(fabsf(got[k] - want[k]) <= 1e-4f)) return test_fail(__FILE__, __LINE__, "by operand %d: element %zu is %g, not %g", i, k, got[k], want[k]);
  }
}
