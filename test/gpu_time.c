/* gpu_time.c -- loops over time whose steps are products with a constant matrix, on the GPU against the host: of as many terms as
 * threads hold in registers, fewer and more, and of more lanes than a block has threads. */
#include <math.h>
#include <string.h>
#include "gpu.h"

/* h = tanh(h w + x_t), and the derivative of the sum of all h by w. */
static weft_array *steps_of(weft_array *x, weft_array *w, weft_array *h0) {
  weft_loop *l = weft_loop_open(NULL);
  weft_array *x_t = weft_loop_each(l, x), *h = weft_loop_carry(l, h0), *next = weft_tanh(weft_add(weft_matmul(h, w), x_t));
  weft_loop_next(l, h, next);
  weft_array *all = weft_loop_all(l, next);
  weft_loop_close(l);
  return all;
}

static void expect_same(weft_dtype t, int64_t times, int64_t batch, int64_t width) {
  void *got[2][2];
  size_t bytes[2];
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x = weft_mul(numbers(t, 3, (int64_t[]){ times, batch, width }), weft_scalar(0.1));
    weft_array *w = weft_mul(numbers(t, 2, (int64_t[]){ width, width }), weft_scalar(0.02)), *y[2];
    y[0] = steps_of(x, w, numbers(t, 2, (int64_t[]){ batch, width }));
    weft_grad(weft_sum(y[0], WEFT_ALL), 1, &w, &y[1]);
    for (int k = 0; k < 2; k++) got[device][k] = bits_of(y[k], &bytes[k]);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < 2; k++) {
    if (memcmp(got[0][k], got[1][k], bytes[k]))
      test_fail(__FILE__, __LINE__, "%s, %lld wide: %s", weft_dtype_name(t), (long long)width, k ? "the derivative" : "the steps");
    free(got[0][k]), free(got[1][k]);
  }
}

TEST(cuda_products_in_time_have_the_bits_of_the_host) {
  static const int64_t widths[] = { 1, 15, 16, 63, 64, 65, 81, 130 };
  test_watchdog(300);
  for (size_t k = 0; has_gpu() && k < sizeof widths / sizeof *widths; k++) expect_same(WEFT_F32, 3, 2, widths[k]);
}

TEST(cuda_products_in_time_of_doubles_have_the_bits_of_the_host) {
  test_watchdog(300);
  for (int64_t width = 63; has_gpu() && width < 66; width++) expect_same(WEFT_F64, 2, 2, width);
}

/* Two products a step, one of what the other gives, from the last row of x on; the last state too, and the derivative by it. */
static void expect_gates(int64_t times, int64_t batch, int64_t width) {
  void *got[2][3];
  size_t bytes[3];
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x = weft_mul(numbers(WEFT_F32, 3, (int64_t[]){ times + 1, batch, width }), weft_scalar(0.1)), *y[3];
    weft_array *w = weft_mul(numbers(WEFT_F32, 2, (int64_t[]){ width, width }), weft_scalar(0.02)), *u = weft_transpose(w, NULL);
    weft_array *h0 = numbers(WEFT_F32, 2, (int64_t[]){ batch, width });
    weft_loop *l = weft_loop_open(NULL);
    weft_array *x_t = weft_loop_each(l, weft_flip(weft_slice(x, 0, 0, times, 1), 0)), *h = weft_loop_carry(l, h0);
    weft_array *z = weft_sigmoid(weft_add(weft_matmul(h, w), x_t)), *c = weft_tanh(weft_add(weft_matmul(weft_mul(z, h), u), x_t));
    weft_array *next = weft_add(weft_mul(z, h), weft_mul(weft_sub(weft_scalar(1), z), c));
    weft_loop_next(l, h, next);
    y[0] = weft_loop_all(l, c), y[1] = weft_loop_last(l, h);
    weft_loop_close(l);
    weft_grad(weft_add(weft_sum(y[0], WEFT_ALL), weft_sum(y[1], WEFT_ALL)), 1, &h0, &y[2]);
    for (int k = 0; k < 3; k++) got[device][k] = bits_of(y[k], &bytes[k]);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < 3; k++) {
    if (memcmp(got[0][k], got[1][k], bytes[k]))
      test_fail(__FILE__, __LINE__, "%lld steps, %lld wide: result %d", (long long)times, (long long)width, k);
    free(got[0][k]), free(got[1][k]);
  }
}

TEST(cuda_gates_in_time_have_the_bits_of_the_host) {
  test_watchdog(300);
  for (int64_t times = 0; has_gpu() && times < 4; times++) expect_gates(times, 2, 64);
  if (has_gpu()) expect_gates(3, 1, 70), expect_gates(2, 3, 20);
}

/* The steps alone: pieces of time between two looks have 512, and what the next one loads is asked for a step ahead. Where the
 * sums are zeros, infinities or NaN, quotients go the long way. */
static void expect_long_time(int64_t times, int64_t width, double odd) {
  void *got[2];
  size_t bytes;
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x = weft_mul(numbers(WEFT_F32, 3, (int64_t[]){ times, 1, width }), weft_scalar(0.1));
    if (odd != 1) x = weft_where(weft_gt(x, weft_scalar(0.2)), weft_mul(x, weft_scalar(odd)), weft_mul(x, weft_scalar(0)));
    weft_array *w = weft_mul(numbers(WEFT_F32, 2, (int64_t[]){ width, width }), weft_scalar(odd == 1 ? 0.02 : 0));
    got[device] = bits_of(steps_of(x, w, numbers(WEFT_F32, 2, (int64_t[]){ 1, width })), &bytes);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "%lld steps, %lld wide, %g", (long long)times, (long long)width, odd);
  free(got[0]), free(got[1]);
}

TEST(cuda_products_in_time_go_on_from_look_to_look) {
  static const int64_t times[] = { 0, 1, 2, 511, 512, 513, 1025 };
  test_watchdog(300);
  for (size_t k = 0; has_gpu() && k < sizeof times / sizeof *times; k++) expect_long_time(times[k], 64, 1);
  if (has_gpu()) expect_long_time(2, 530, 1), expect_long_time(514, 70, 1), expect_long_time(9, 64, 0), expect_long_time(9, 64, INFINITY), expect_long_time(9, 64, 1e-44);
}

/* Steps of n products of matrices of four rows, of 64 statements each, in each lane: the longer, the fewer of them are printed side by
 * side. */
static void expect_long_steps(int64_t times, int n) {
  void *got[2];
  size_t bytes;
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x = numbers(WEFT_F32, 4, (int64_t[]){ times, 5, 4, 4 }), *f = numbers(WEFT_F32, 2, (int64_t[]){ 4, 4 });
    weft_loop *l = weft_loop_open(NULL);
    weft_array *x_t = weft_loop_each(l, x), *h = weft_loop_carry(l, numbers(WEFT_F32, 3, (int64_t[]){ 5, 4, 4 })), *next = h;
    for (int k = 0; k < n; k++) next = weft_mul(weft_matmul(f, next), weft_scalar(0.1));
    weft_loop_next(l, h, weft_add(next, x_t));
    weft_array *all = weft_loop_all(l, next);
    weft_loop_close(l);
    const char *plan = weft_show(1, &all, "plan");
    EXPECT(plan && strstr(plan, "scan_small"));
    got[device] = bits_of(all, &bytes);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "%lld steps of %d products", (long long)times, n);
  free(got[0]), free(got[1]);
}

TEST(cuda_long_steps_have_the_bits_of_the_host) {
  test_watchdog(300);
  for (int n = 2; has_gpu() && n <= 14; n += 4) expect_long_steps(3, n), expect_long_steps(11, n);
}

/* A state of n numbers for each of some lanes: all of it is a row of the result, which stands alone, or beside another column, so
 * that its rows begin anywhere. */
static void expect_rows(weft_dtype t, int64_t times, int64_t n, bool is_beside) {
  void *got[2];
  size_t bytes;
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *x = numbers(t, 3, (int64_t[]){ times, 37, 1 }), *f = weft_mul(numbers(t, 2, (int64_t[]){ n, n }), weft_scalar(0.05));
    weft_loop *l = weft_loop_open(NULL);
    weft_array *x_t = weft_loop_each(l, x), *h = weft_loop_carry(l, numbers(t, 2, (int64_t[]){ 37, n }));
    weft_array *next = weft_add(weft_matmul(h, f), x_t);
    weft_loop_next(l, h, next);
    weft_array *all = weft_loop_all(l, next);
    weft_loop_close(l);
    got[device] = bits_of(is_beside ? weft_concat(2, 2, (weft_array *[]){ x, all }) : all, &bytes);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s, %lld steps of %lld%s", weft_dtype_name(t), (long long)times, (long long)n, is_beside ? ", beside" : "");
  free(got[0]), free(got[1]);
}

TEST(cuda_small_states_are_stored_by_rows) {
  static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16 };
  test_watchdog(300);
  for (size_t k = 0; has_gpu() && k < sizeof types / sizeof *types; k++)
    for (int64_t n = 2; n < 9; n++)
      for (int beside = 0; beside < 2; beside++) expect_rows(types[k], 21, n, beside);
  if (has_gpu()) expect_rows(WEFT_F32, 0, 4, false), expect_rows(WEFT_F32, 3, 4, false), expect_rows(WEFT_F32, 40, 4, true);
}

/* Four quotients by one number in every step: of numbers of all sizes, zeros and infinities among them. */
TEST(cuda_quotients_by_one_number_have_the_bits_of_the_host) {
  enum { T = 6, B = 64 };
  static const float some[] = { 1, 0, -0.0f, 0x1p-149f, 0x1p-61f, 0x1p60f, 0x1.8p61f, -3, 0x1.fffffep0f, 1e38f, -1e-38f, 7, 0.1f };
  float x[T * B], m[B * 4], got[2][T * B * 4];
  if (!has_gpu()) return;
  for (int i = 0; i < T * B; i++) x[i] = some[i * 7 % 13];
  for (int i = 0; i < B * 4; i++) m[i] = i < B ? some[(i * 5 + i / 13) % 13] : 1 + (float)(i % 37);
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_loop *l = weft_loop_open(NULL);
    weft_array *x_t = weft_loop_each(l, weft_from(WEFT_F32, WEFT_DIMS(T, B, 1), x));
    weft_array *h = weft_loop_carry(l, weft_from(WEFT_F32, WEFT_DIMS(B, 4), m));
    weft_array *next = weft_div(h, weft_add(weft_slice(h, 1, 0, 1, 1), x_t));
    weft_loop_next(l, h, next);
    weft_array *all = weft_loop_all(l, next);
    weft_loop_close(l);
    EXPECT_OK(weft_read(all, WEFT_F32, got[device], sizeof got[0]));
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int i = 0; i < T * B * 4; i++)
    if (memcmp(&got[0][i], &got[1][i], sizeof(float)) && !(isnan(got[0][i]) && isnan(got[1][i])))
      test_fail(__FILE__, __LINE__, "element %d: %a on the host, %a there", i, (double)got[0][i], (double)got[1][i]);
}

/* A filter of lanes at once: the state m [lanes,4], its covariance [lanes,4,4], and two rows of numbers that change places in every
 * step. All that a step has, what was last, and an input of which every step is overwritten by what it gives. */
static int filter(int64_t times, int64_t lanes, weft_array *y[]) {
  weft_array *f = weft_mul(numbers(WEFT_F32, 2, (int64_t[]){ 4, 4 }), weft_scalar(0.1)), *ft = weft_transpose(f, NULL);
  weft_loop *l = weft_loop_open(NULL);
  weft_array *z = weft_loop_each(l, weft_add(numbers(WEFT_F32, 3, (int64_t[]){ times, lanes, 4 }), weft_scalar(0.25)));
  weft_array *m = weft_loop_carry(l, numbers(WEFT_F32, 2, (int64_t[]){ lanes, 4 }));
  weft_array *p = weft_loop_carry(l, numbers(WEFT_F32, 3, (int64_t[]){ lanes, 4, 4 }));
  weft_array *a = weft_loop_carry(l, numbers(WEFT_I32, 2, (int64_t[]){ lanes, 4 }));
  weft_array *b = weft_loop_carry(l, weft_add(numbers(WEFT_I32, 2, (int64_t[]){ lanes, 4 }), weft_integer(3)));
  weft_array *ahead = weft_matmul(m, ft), *spread = weft_add(weft_matmul(weft_matmul(f, p), ft), weft_scalar(0.1));
  weft_array *column = weft_slice(spread, 2, 0, 1, 1), *row = weft_slice(spread, 1, 0, 1, 1);
  weft_array *gain = weft_div(column, weft_add(weft_slice(row, 2, 0, 1, 1), weft_scalar(40)));
  weft_array *off = weft_sub(weft_add(z, weft_slice(z, 1, 0, 1, 1)), weft_slice(ahead, 1, 0, 1, 1));
  weft_array *now = weft_add(ahead, weft_mul(weft_reshape(gain, 2, (int64_t[]){ lanes, 4 }), off));
  weft_array *by_first = weft_mul(now, weft_slice(now, 1, 0, 1, 1)); /* of the first by itself */
  weft_loop_next(l, m, now);
  weft_loop_next(l, p, weft_sub(spread, weft_mul(gain, row)));
  weft_loop_next(l, a, b);
  weft_loop_next(l, b, a);
  y[0] = weft_loop_all(l, now), y[1] = weft_loop_all(l, weft_add(by_first, weft_mul(off, weft_cast(a, WEFT_F32))));
  y[2] = weft_loop_last(l, p), y[3] = weft_loop_last(l, b);
  weft_loop_close(l);
  return 4;
}

static void expect_filter(int64_t times, int64_t lanes) {
  void *got[2][4];
  size_t bytes[4];
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_array *y[4];
    weft_set(WEFT_DEVICE, device);
    int n = filter(times, lanes, y);
    const char *plan = weft_show(n, y, "plan");
    EXPECT(plan && strstr(plan, "scan_small"));
    EXPECT_OK(weft_eval(n, y));
    for (int i = 0; i < n; i++) got[device][i] = bits_of(y[i], &bytes[i]);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int i = 0; i < 4; i++) {
    if (memcmp(got[0][i], got[1][i], bytes[i]))
      test_fail(__FILE__, __LINE__, "%lld steps of %lld lanes: result %d", (long long)times, (long long)lanes, i);
    free(got[0][i]), free(got[1][i]);
  }
}

TEST(cuda_filters_have_the_bits_of_the_host) {
  static const struct { int64_t times, lanes; } of[] = { { 0, 3 }, { 1, 3 }, { 7, 1 }, { 8, 70 }, { 9, 40 }, { 21, 300 },
                                                         { 530, 2 }, { 3, 9000 } };
  test_watchdog(300);
  for (size_t k = 0; has_gpu() && k < sizeof of / sizeof *of; k++) expect_filter(of[k].times, of[k].lanes);
}
