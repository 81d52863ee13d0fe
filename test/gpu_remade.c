/* gpu_remade.c -- what kernels of a GPU make again instead of reading it (schedule/remake.c): the bits of the host, in less memory. */
#include <stdio.h>
#include <string.h>
#include "gpu.h"

/* sum(r^2) of a norm r of rows, by both of its operands; and what comes of a GELU between two products. */
static int norm_gradient(weft_array *const x[], weft_array *y[]) {
  weft_array *m = weft_mean(weft_mul(x[0], x[0]), 1);
  weft_array *r = weft_mul(weft_mul(x[0], weft_rsqrt(weft_add(m, weft_scalar(1e-6)))), x[1]);
  return weft_grad(weft_sum(weft_mul(r, r), WEFT_ALL), 2, x, y), 2;
}
static int gelu_gradient(weft_array *const x[], weft_array *y[]) {
  weft_array *z = weft_matmul(weft_gelu_approx(weft_matmul(x[0], x[2])), weft_transpose(x[2], NULL));
  return weft_grad(weft_sum(weft_mul(z, z), WEFT_ALL), 1, &x[2], y), 1;
}

/* Bits are the host's, and the plan has room for its results, and for so much in all. */
static void expect_remade(int (*make)(weft_array *const[], weft_array *[]), weft_array *const x[], long long most) {
  weft_array *y[2][2];
  long long steps = 0, bytes = 0;
  int n = 0;
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    n = make(x, y[device]);
    if (device) EXPECT_INT(sscanf(weft_show(n, y[1], "plan"), "%lld steps, %lld bytes", &steps, &bytes), 2);
    EXPECT_OK(weft_eval(n, y[device]));
  }
  weft_set(WEFT_DEVICE, 0);
  if (bytes > most) test_fail(__FILE__, __LINE__, "%lld bytes, at most %lld wanted", bytes, most);
  for (int k = 0; k < n; k++) {
    size_t size = 0;
    void *a = bits_of(y[0][k], &size), *b = bits_of(y[1][k], &size);
    EXPECT(!memcmp(a, b, size));
    free(a), free(b);
  }
}

TEST(cuda_programs_give_no_room_to_what_is_made_again) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  const long long rows = 96, columns = 64, all = 4 * rows * columns;
  weft_array *x[] = { matrix(WEFT_F32, rows, columns), weft_reshape(matrix(WEFT_F32, 1, columns), 1, &(int64_t){ columns }),
                      weft_mul(matrix(WEFT_F32, columns, 2 * columns), weft_scalar(0.01)) };
  EXPECT_OK(weft_eval(3, x));
  expect_remade(norm_gradient, x, all + all / 4);  /* a gradient of all, and numbers of rows and columns */
  expect_remade(gelu_gradient, x, 12 * all);       /* products and results: eight; each f32 that GELU kept would be two */
  weft_scope_discard(s);
}
