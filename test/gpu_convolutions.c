/* gpu_convolutions.c -- products of many matrices on the GPU, whose batch has axes that are no single one in memory, and convolutions,
 * which are such products: against the bits of the host, of halves against sums of doubles. */
#include <math.h>
#include <string.h>
#include "gpu.h"

/* y, computed here and there, has the same bits; it is made anew, so that neither is read for the other. */
static void expect_same(const char *what, weft_array *(*make)(weft_array *const x[]), weft_array *const x[]) {
  size_t bytes[2];
  void *bits[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    bits[device] = bits_of(make(x), &bytes[device]);
  }
  weft_set(WEFT_DEVICE, 0);
  EXPECT_INT(bytes[0], bytes[1]);
  if (memcmp(bits[0], bits[1], bytes[0])) test_fail(__FILE__, __LINE__, "%s: other bits", what);
  free(bits[0]), free(bits[1]);
}

/* ---- Many matrices ---- */

static weft_array *by_heads(weft_array *const x[]) { /* [B, T, H, D] and [B, S, H, D] -> [B, H, T, S] */
  return weft_matmul(weft_moveaxis(x[0], 2, 1), weft_moveaxis(weft_moveaxis(x[1], 2, 1), -1, -2));
}
static weft_array *by_heads_and_more(weft_array *const x[]) { /* every second one of the batch, backwards, and what follows the sum */
  weft_array *some[] = { weft_slice(x[0], 0, -1, WEFT_END, -2), weft_slice(x[1], 0, -1, WEFT_END, -2) };
  return weft_maximum(weft_add(by_heads(some), weft_scalar(1)), weft_scalar(0));
}
static weft_array *by_blocks(weft_array *const x[]) { /* three axes of a batch, none of which goes on where another ends */
  weft_array *a = weft_transpose(weft_reshape(x[0], WEFT_DIMS(weft_dim(x[0], 0), 2, weft_dim(x[0], 1) / 2, weft_dim(x[0], 2), weft_dim(x[0], 3))),
                                 (const int[]){ 3, 1, 0, 2, 4 });
  return weft_matmul(a, weft_moveaxis(a, -1, -2));
}

TEST(cuda_products_of_many_matrices_have_the_bits_of_the_host) {
  static const int64_t sizes[][5] = { /* B, T, S, H, D */
    { 3, 64, 40, 5, 33 }, { 2, 34, 66, 3, 64 }, { 4, 32, 32, 2, 600 }, { 1, 70, 38, 4, 8 }, { 2, 36, 33, 7, 0 }, { 0, 34, 34, 3, 16 } };
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_BF16 };
  test_watchdog(240);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t *n = sizes[i];
    weft_scope *s = weft_scope_open();
    weft_array *x[] = { numbers(dtypes[i % 4], 4, (int64_t[]){ n[0], n[1], n[3], n[4] }), numbers(dtypes[i % 4], 4, (int64_t[]){ n[0], n[2], n[3], n[4] }) };
    expect_same("heads", by_heads, x);
    expect_same("heads and more", by_heads_and_more, x);
    expect_same("blocks", by_blocks, x);
    weft_scope_discard(s);
  }
}

/* ---- Convolutions ---- */

static weft_conv_options options;
static weft_array *convolved(weft_array *const x[]) { return weft_conv(x[0], x[1], &options); }
static weft_array *activated(weft_array *const x[]) { return weft_maximum(weft_add(convolved(x), weft_scalar(0.5)), weft_scalar(0)); }
static weft_array *derived(weft_array *const x[], int k) {
  weft_array *y = convolved(x), *dx[2];
  weft_grad(weft_sum(weft_mul(y, weft_sin(y)), WEFT_ALL), 2, x, dx);
  return dx[k];
}
static weft_array *by_image(weft_array *const x[]) { return derived(x, 0); }
static weft_array *by_kernel(weft_array *const x[]) { return derived(x, 1); }

static const struct case_of { int64_t n, h, w, c, o, kh, kw, pad, stride, dilation, groups; } cases[] = {
  { 2, 9, 40, 32, 33, 3, 3, 1, 1, 1, 1 }, { 3, 7, 33, 16, 32, 3, 5, 2, 1, 1, 1 }, { 2, 12, 70, 8, 40, 3, 3, 1, 2, 1, 1 },
  { 2, 14, 14, 32, 32, 3, 3, 1, 1, 1, 1 }, { 2, 9, 36, 24, 32, 1, 1, 0, 1, 1, 1 }, { 2, 10, 34, 32, 64, 3, 3, 2, 1, 2, 2 },
  { 1, 5, 40, 3, 32, 2, 3, 0, 1, 1, 1 }, { 2, 40, 40, 48, 3, 3, 3, 1, 1, 1, 1 }, { 2, 34, 36, 32, 64, 3, 3, 1, 1, 1, 4 },
  { 2, 34, 36, 22, 20, 3, 3, 1, 1, 1, 1 },
};

static weft_array **images(weft_dtype t, const struct case_of *c, weft_array *x[2]) {
  static int64_t pad[2], stride[2], dilation[2];
  for (int k = 0; k < 2; k++) pad[k] = c->pad, stride[k] = c->stride, dilation[k] = c->dilation;
  options = (weft_conv_options){ .before = pad, .after = pad, .stride = stride, .dilation = dilation, .groups = (int)c->groups };
  x[0] = numbers(t, 4, (int64_t[]){ c->n, c->h, c->w, c->c }), x[1] = numbers(t, 4, (int64_t[]){ c->o, c->kh, c->kw, c->c / c->groups });
  return x;
}

TEST(cuda_convolutions_have_the_bits_of_the_host) {
  test_watchdog(240);
  if (!has_gpu()) return;
  setenv("WEFT_EXACT", "1", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x[2];
    images(i % 3 == 2 ? WEFT_BF16 : i % 3 ? WEFT_F64 : WEFT_F32, &cases[i], x);
    expect_same("a convolution", convolved, x);
    expect_same("what follows a convolution", activated, x);
    expect_same("its derivative by the image", by_image, x);
    expect_same("its derivative by the kernel", by_kernel, x);
    weft_scope_discard(s);
  }
}

/* Halves: near what doubles of the same numbers come to. The size of a sum bounds its error, and the result is rounded once. */
TEST(cuda_convolutions_of_halves_are_near_those_of_doubles) {
  test_watchdog(240);
  if (!has_gpu()) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_dtype t = i % 2 ? WEFT_F16 : WEFT_BF16;
    double unit = t == WEFT_F16 ? 0x1p-11 : 0x1p-8;
    weft_scope *s = weft_scope_open();
    weft_array *x[2], *wide[2], *sizes[2];
    images(t, &cases[i], x);
    for (int k = 0; k < 2; k++) wide[k] = weft_cast(x[k], WEFT_F64), sizes[k] = weft_abs(wide[k]);
    size_t bytes[3];
    double *want = bits_of(convolved(wide), &bytes[0]), *size = bits_of(convolved(sizes), &bytes[1]);
    weft_set(WEFT_DEVICE, 1);
    float *got = bits_of(weft_cast(convolved(x), WEFT_F32), &bytes[2]);
    weft_set(WEFT_DEVICE, 0);
    int n_far = 0;
    for (size_t k = 0; k < bytes[0] / sizeof *want; k++) n_far += !(fabs(got[k] - want[k]) <= unit * fabs(want[k]) + 0x1p-20 * size[k]);
    EXPECT_INT(n_far, 0);
    free(want), free(size), free(got);
    weft_scope_discard(s);
  }
}

/* A kernel with two sums finds no tiles: one of 3 x 3 was twenty times slower so. Zeros are put around halves, not around floats. */
TEST(cuda_convolutions_are_a_product_a_kernel) {
  if (!has_gpu()) return;
  static const struct case_of large = { 4, 40, 40, 32, 64, 3, 3, 1, 1, 1, 1 };
  weft_scope *s = weft_scope_open();
  weft_array *x[2], *y;
  y = activated(images(WEFT_BF16, &large, x));
  weft_set(WEFT_DEVICE, 1);
  const char *text = weft_show(1, &y, "kernels");
  EXPECT_INT(n_times(text, "kernel matmul"), 3);
  EXPECT_INT(n_times(text, "fma("), 3);
  EXPECT_INT(n_times(text, "out y0:bf16[A,B,C]"), 2);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}
