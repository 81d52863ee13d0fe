/* gpu_relay.c -- kernels along rows that add up along columns, too, on a GPU whose processors hand rows on (kernel/relay.h): the bits
 * of the host. */
#include <math.h>
#include <string.h>
#include "backend/cuda/cuda.h"
#include "gpu.h"

enum { MOST = 4 };

/* x, dy [R,C], w, b [C]; how many there are in y. */
typedef int making(weft_array *const x[], weft_array *y[]);

static weft_array *c(double v) { return weft_scalar(v); }
static weft_array *centred(weft_array *x) { return weft_sub(x, weft_mean(x, 1)); }

static int rms_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *m = weft_mean(weft_mul(x[0], x[0]), 1), *r = weft_mul(weft_mul(x[0], weft_rsqrt(weft_add(m, c(1e-6)))), x[2]);
  weft_array *by[] = { x[0], x[2] };
  return weft_grad(weft_sum(weft_mul(r, x[1]), WEFT_ALL), 2, by, y), 2;
}
static int norm_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *d = centred(x[0]), *s = weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), 1), c(1e-5)));
  weft_array *r = weft_add(weft_mul(weft_mul(d, s), x[2]), x[3]), *by[] = { x[0], x[2], x[3] };
  return weft_grad(weft_sum(weft_mul(r, x[1]), WEFT_ALL), 3, by, y), 3;
}
/* The row's numbers are stored, too, one of them an integer. */
static int told(weft_array *const x[], weft_array *y[]) {
  weft_array *m = weft_mean(x[0], 1), *n = weft_sum(weft_cast(weft_gt(x[0], c(1)), WEFT_I32), 1);
  y[0] = m, y[1] = n, y[2] = weft_sub(weft_mul(x[0], x[2]), m);
  return y[3] = weft_sum(y[2], 0), 4;
}
/* Folds without an order, a product along columns, and a choice that is the same for the row. */
static int chosen(weft_array *const x[], weft_array *y[]) {
  weft_array *low = weft_min(x[0], 1), *high = weft_max(x[0], 1), *m = weft_mean(x[0], 1);
  weft_array *by = weft_where(weft_gt(m, c(2)), low, weft_sub(high, low));
  y[0] = weft_mul(x[0], by);
  y[1] = weft_prod(weft_add(weft_mul(weft_sub(x[0], m), c(1e-3)), c(1)), 0);
  return y[2] = weft_sum(weft_mul(x[1], by), 0), 3;
}
/* The indices of elements are among the numbers. */
static int placed(weft_array *const x[], weft_array *y[]) {
  weft_array *place = weft_add(weft_mul(weft_cast(weft_iota(x[0], 1), weft_dtype_of(x[0])), c(0.01)),
                               weft_cast(weft_iota(x[0], 0), weft_dtype_of(x[0])));
  weft_array *v = weft_sub(x[0], place), *s = weft_sum(weft_mul(v, x[3]), 1);
  y[0] = weft_sub(v, weft_mul(s, c(1e-3)));
  return y[1] = weft_sum(weft_mul(y[0], v), 0), 2;
}
/* Read in three roles: as rows, along columns, and weighed by a vector of all rows that stands beside. */
static int twice(weft_array *const x[], weft_array *y[]) {
  weft_array *s = weft_sum(weft_mul(x[0], x[0]), 1), *d = weft_sub(weft_mul(x[0], c(2)), weft_mul(x[0], s));
  y[0] = d, y[1] = weft_sum(x[0], 0);
  return y[2] = weft_sum(weft_mul(d, weft_add(x[2], x[3])), 0), 3;
}

static const struct { const char *name; making *make; bool is_one; } all[] = { /* is_one: of f32, one kernel */
  { "the gradient of an RMS norm", rms_grad, true }, { "the gradient of a layer norm", norm_grad, true },
  { "rows and what they tell", told, true }, { "a choice", chosen, true }, { "places", placed, true }, { "twice", twice, false },
};

static weft_array *near_zero(weft_dtype t, int rank, const int64_t dims[]) {
  return weft_sub(weft_mul(numbers(t, rank, dims), c(0.5)), c(1));
}

static void operands(weft_dtype t, int64_t rows, int64_t n, weft_array *x[]) {
  x[0] = near_zero(t, 2, (int64_t[]){ rows, n }), x[1] = near_zero(t, 2, (int64_t[]){ rows, n });
  x[2] = near_zero(t, 1, &n), x[3] = weft_add(near_zero(t, 1, &n), c(0.25));
  EXPECT_OK(weft_eval(4, x));
}

/* The same bits, but for those of nans that arithmetic makes. */
static bool are_same(weft_dtype t, size_t bytes, const void *a, const void *b) {
  size_t width = weft_dtype_bytes(t);
  for (size_t i = 0; i < bytes; i += width) {
    uint64_t x = 0, y = 0, infinity = t == WEFT_F64 ? 0x7ffull << 52 : t == WEFT_F32 ? 0xffull << 23 : t == WEFT_F16 ? 0x1f << 10 : 0xff << 7;
    memcpy(&x, (const char *)a + i, width), memcpy(&y, (const char *)b + i, width);
    uint64_t sign = 1ull << (8 * width - 1);
    if (x != y && !(t != WEFT_I32 && (x & ~sign) > infinity && (y & ~sign) > infinity)) return false;
  }
  return true;
}

static void compare(const char *name, making *make, weft_array *const x[], int *kernels) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2][MOST];
  int n = 0;
  for (int device = 0; device < 2; device++) {
    weft_cost cost = { 0 };
    weft_set(WEFT_DEVICE, device);
    n = make(x, y[device]);
    EXPECT_OK(weft_plan(n, y[device], &cost));
    if (device && kernels) *kernels = cost.kernels;
    EXPECT_OK(weft_eval(n, y[device]));
  }
  weft_set(WEFT_DEVICE, 0);
  for (int i = 0; i < n; i++) {
    size_t bytes[2];
    void *host = bits_of(y[0][i], &bytes[0]), *gpu = bits_of(y[1][i], &bytes[1]);
    if (bytes[0] != bytes[1] || !are_same(weft_dtype_of(y[0][i]), bytes[0], host, gpu))
      test_fail(__FILE__, __LINE__, "%s of %s [%lld,%lld]: result %d differs", name, weft_dtype_name(weft_dtype_of(x[0])),
                (long long)weft_dim(x[0], 0), (long long)weft_dim(x[0], 1), i);
    free(host), free(gpu);
  }
  weft_scope_discard(s);
}

/* Whether processors hand rows on at all: they need bulk copies. */
static bool hands_on(void) {
  const struct device *d = cuda_device(0);
  return d && d->relays && d->relays(d, &(struct relayed){ .rows = 1 << 20, .columns = 4096 });
}

/* The machine for PTX has few processors, so that few rows are enough, and few are what it has time for. */
static bool is_slow(void) { return strstr(cuda_text(cuda_gpu(0)), "machine for PTX") != NULL; }

static void try_all(weft_dtype t, int64_t rows, int64_t n, bool is_one) {
  weft_scope *s = weft_scope_open();
  weft_array *x[4];
  operands(t, rows, n, x);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int kernels = 0;
    compare(all[i].name, all[i].make, x, &kernels);
    if (is_one && all[i].is_one && hands_on() && kernels != 1)
      test_fail(__FILE__, __LINE__, "%s [%lld,%lld] takes %d kernels", all[i].name, (long long)rows, (long long)n, kernels);
  }
  weft_scope_discard(s);
}

/* One block of 128 rows and many, the last one whole or not; rows of less than a warp's 512 columns more than a whole number of them,
 * of 4096 elements and of more, whose sums have two parts. */
TEST(cuda_rows_that_are_handed_on_have_the_bits_of_the_host) {
  static const struct { int64_t rows, n; bool is_one; } sizes[] = {
    { 300, 512, false }, { 257, 1032, false }, { 384, 2048, true }, { 260, 4096, true }, { 390, 4104, true }, { 258, 8192, false } };
  static const int64_t large[][2] = { { 5761, 1032 }, { 8192, 4096 }, { 16384, 2048 }, { 6000, 5120 }, { 70000, 1024 }, { 20001, 8192 } };
  test_watchdog(300);
  if (!has_gpu()) return;
  for (int i = 0; i < 6; i++) try_all(WEFT_F32, sizes[i].rows, sizes[i].n, is_slow() && sizes[i].is_one);
  for (int i = 0; i < (is_slow() ? 0 : getenv("WEFT_TEST_FEW") ? 1 : 6); i++) try_all(WEFT_F32, large[i][0], large[i][1], false);
}

TEST(cuda_rows_of_other_floats_that_are_handed_on_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F64, WEFT_BF16, WEFT_F16 };
  test_watchdog(300);
  if (!has_gpu()) return;
  for (int i = 0; i < 3; i++) {
    try_all(dtypes[i], 300, 520, false);
    try_all(dtypes[i], is_slow() ? 300 : 12000, 2048, false);
  }
}

/* Halves that are floats from then on, as norms of half precision are computed. */
static int cast_grad(weft_array *const x[], weft_array *y[]) {
  weft_array *f = weft_cast(x[0], WEFT_F32), *m = weft_mean(weft_mul(f, f), 1);
  weft_array *r = weft_mul(weft_cast(weft_mul(f, weft_rsqrt(weft_add(m, c(1e-6)))), weft_dtype_of(x[0])), x[2]);
  weft_array *by[] = { x[0], x[2] };
  return weft_grad(weft_sum(weft_mul(weft_cast(r, WEFT_F32), weft_cast(x[1], WEFT_F32)), WEFT_ALL), 2, by, y), 2;
}

TEST(cuda_rows_of_halves_that_are_handed_on_as_floats_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int i = 0; i < 2; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x[4];
    operands(i ? WEFT_F16 : WEFT_BF16, is_slow() ? 300 : 20000, 1024, x);
    compare("a norm of halves", cast_grad, x, NULL);
    weft_scope_discard(s);
  }
}

/* Nan, infinities, zeros of both signs, denormals: their rows and columns have what comes of them, and no others. */
TEST(cuda_rows_that_are_handed_on_may_have_special_values) {
  static const float special[] = { -0.0f, 0, 1e-40f, -1e-45f, 3e38f, -3e38f, 1e-30f };
  test_watchdog(200);
  if (!has_gpu()) return;
  int64_t rows = is_slow() ? 300 : 9000, n = 1024;
  weft_scope *s = weft_scope_open();
  weft_array *x[4];
  operands(WEFT_F32, rows, n, x);
  float *v = malloc((size_t)(rows * n) * sizeof *v);
  EXPECT_OK(weft_read(x[0], WEFT_F32, v, (size_t)(rows * n) * sizeof *v));
  for (int64_t i = 0; i < rows * n; i += 97) v[i] = special[i % 7];
  x[0] = weft_from(WEFT_F32, WEFT_DIMS(rows, n), v);
  EXPECT_OK(weft_eval(1, x));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) compare(all[i].name, all[i].make, x, NULL);
  free(v);
  weft_scope_discard(s);
}

/* What does not stand well for bulk copies goes by two kernels, or in any case right. */
TEST(cuda_views_are_handed_on_or_not_with_the_bits_of_the_host) {
  test_watchdog(300);
  if (!has_gpu()) return;
  int64_t rows = is_slow() ? 300 : 8200, n = 1024;
  weft_scope *s = weft_scope_open();
  weft_array *x[4], *wide[4];
  operands(WEFT_F32, rows, n, x);
  operands(WEFT_F32, rows, n + 16, wide);
  weft_array *views[] = { weft_flip(x[0], 0), weft_flip(x[0], 1), weft_slice(wide[0], 1, 8, n + 8, 1), weft_slice(wide[0], 1, 1, n + 1, 1),
                          weft_transpose(numbers(WEFT_F32, 2, (int64_t[]){ n, rows }), NULL),
                          weft_broadcast(weft_slice(x[0], 0, 3, 4, 1), 2, (int64_t[]){ rows, n }),
                          weft_broadcast(weft_slice(x[0], 1, 3, 4, 1), 2, (int64_t[]){ rows, n }),
                          weft_slice(numbers(WEFT_F32, 2, (int64_t[]){ 2 * rows, n }), 0, 1, 2 * rows, 2) };
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    weft_array *of[] = { views[i], x[1], x[2], x[3] }, *as_other[] = { x[0], views[i], x[2], x[3] };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
      compare(all[k].name, all[k].make, of, NULL);
      compare(all[k].name, all[k].make, as_other, NULL);
    }
  }
  weft_array *same[] = { x[0], x[0], x[2], x[2] }, *odd[4];
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) compare(all[k].name, all[k].make, same, NULL);
  weft_scope_discard(s);
  s = weft_scope_open();
  operands(WEFT_F32, rows, 1021, odd);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) compare(all[k].name, all[k].make, odd, NULL);
  weft_scope_discard(s);
}

/* A state that is updated in place by the rows it was, step after step: the plan is recorded, and handed over again. */
static void train(int device, weft_array *const first[], int steps, void *bits[], size_t bytes[]) {
  weft_scope *s = weft_scope_open();
  weft_set(WEFT_DEVICE, device);
  weft_array *x = weft_add(first[0], c(0)), *w = weft_add(first[2], c(0));
  EXPECT_OK(weft_eval(2, (weft_array *[]){ x, w }));
  for (int i = 0; i < steps; i++) {
    weft_scope *step = weft_scope_open();
    weft_array *y[MOST], *of[] = { x, first[1], w, first[3] };
    rms_grad(of, y);
    weft_update(x, weft_sub(x, weft_mul(y[0], c(0.1))));
    weft_update(w, weft_sub(w, weft_mul(y[1], c(1e-4))));
    EXPECT_OK(weft_scope_close(step));
  }
  bits[0] = bits_of(x, &bytes[0]), bits[1] = bits_of(w, &bytes[1]);
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

TEST(cuda_states_are_updated_by_rows_that_are_handed_on) {
  test_watchdog(200);
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x[4];
  void *bits[2][2];
  size_t bytes[2][2];
  bool is_few = getenv("WEFT_TEST_FEW");
  operands(WEFT_F32, is_slow() ? 300 : is_few ? 5761 : 8192, is_slow() || is_few ? 1024 : 4096, x);
  for (int device = 0; device < 2; device++) train(device, x, 4, bits[device], bytes[device]);
  for (int i = 0; i < 2; i++) {
    EXPECT(!memcmp(bits[0][i], bits[1][i], bytes[0][i]));
    free(bits[0][i]), free(bits[1][i]);
  }
  weft_scope_discard(s);
}

/* A function, of sizes that it has not seen when it was made, some of them handed on. */
TEST(cuda_functions_hand_rows_on_where_sizes_are_such) {
  static const int64_t sizes[][2] = { { 300, 1024 }, { 5, 1024 }, { 384, 1031 }, { 300, 2048 }, { 0, 1024 }, { 300, 1024 } };
  test_watchdog(200);
  if (!has_gpu()) return;
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open();
  weft_array *in[4], *y[MOST];
  for (int i = 0; i < 4; i++) in[i] = weft_input(WEFT_F32, i < 2 ? 2 : 1, (int64_t[]){ WEFT_ANY, WEFT_ANY });
  int n = norm_grad(in, y);
  weft_function *f = weft_compile(s, 4, in, n, y);
  for (int i = 0; i < 6; i++) {
    weft_scope *t = weft_scope_open();
    weft_array *x[4], *got[2][MOST];
    operands(WEFT_F32, sizes[i][0], sizes[i][1], x);
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_call(f, 4, x, n, got[device]);
      EXPECT_OK(weft_eval(n, got[device]));
    }
    weft_set(WEFT_DEVICE, 0);
    for (int k = 0; k < n; k++) {
      size_t bytes[2];
      void *host = bits_of(got[0][k], &bytes[0]), *gpu = bits_of(got[1][k], &bytes[1]);
      EXPECT(bytes[0] == bytes[1] && !memcmp(host, gpu, bytes[0]));
      free(host), free(gpu);
    }
    weft_scope_discard(t);
  }
  weft_scope_discard(outer);
}
