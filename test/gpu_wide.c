/* gpu_wide.c -- kernels whose threads take neighbours together, and rows that stay in registers, on the GPU against the host: the
 * same bits for every dtype, for lengths around what fits, and for views that are not aligned. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "backend/cuda/cuda.h"
#include "gpu.h"

/* Views of [rows, columns], of which only the first stands aligned for sure. */
static weft_array *view(int which, weft_dtype t, int64_t rows, int64_t columns) {
  switch (which) {
    case 0: return matrix(t, rows, columns);
    case 1: return weft_slice(matrix(t, rows, columns + 1), 1, 1, columns + 1, 1);
    case 2: return weft_flip(matrix(t, rows, columns), 1);
    case 3: return weft_slice(matrix(t, rows, columns + 16), 1, 8, columns + 8, 1);
    default: return weft_transpose(matrix(t, columns, rows), NULL);
  }
}

static weft_array *made(int which, weft_array *x) {
  weft_array *d;
  switch (which) {
    case 0: return weft_add(weft_mul(x, x), x);
    case 1: return weft_cast(x, WEFT_F32);
    case 2: return weft_cast(weft_gt(x, weft_scalar(0)), weft_dtype_of(x));
    case 3: return weft_softmax(weft_cast(x, weft_dtype_of(x) == WEFT_F64 ? WEFT_F64 : WEFT_F32), 1);
    case 4: return weft_softmax(weft_cast(x, WEFT_BF16), 1);
    case 5: return weft_mul(x, weft_sum(x, 0));
    case 7: /* sums whose last bits show the order */
      d = weft_mul(weft_cast(x, WEFT_F32), weft_scalar(0.1));
      return weft_add(weft_mul(d, weft_scalar(1e-9)), weft_sum(d, 1));
    case 8: return weft_mul(x, weft_rsqrt(weft_add(weft_mean(weft_mul(x, x), 1), weft_scalar(1e-5))));
    case 9: return weft_logsumexp(x, 1);
    case 10:
      d = weft_mul(x, weft_rsqrt(weft_add(weft_mean(weft_mul(x, x), 1), weft_scalar(1e-5))));
      return weft_grad(weft_sum(weft_mul(weft_mul(d, d), d), WEFT_ALL), 1, &x, &x), x;
    case 11: return weft_var(x, 1, 0);
    case 12: /* truths beside a sum in order: all hold, none does */
      d = weft_mul(x, weft_scalar(0.1));
      d = weft_where(weft_all(weft_lt(d, weft_scalar(1e4)), 1), weft_sum(d, 1), weft_scalar(-1));
      return weft_where(weft_any(weft_gt(x, weft_scalar(1e4)), 1), weft_scalar(-2), d);
    case 13: /* numbers of 1 byte beside one, and truths that a later loop wants again */
      d = weft_add(weft_max(weft_cast(weft_abs(x), WEFT_I8), 1), weft_min(weft_cast(weft_abs(x), WEFT_U8), 1));
      x = weft_sub(x, weft_mean(x, 1)), d = weft_add(weft_sum(weft_abs(x), 1), d);
      return weft_where(weft_gt(x, weft_scalar(0)), weft_div(x, d), d);
    default:
      d = weft_sub(x, weft_mean(x, 1));
      return weft_cast(weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), 1), weft_scalar(1e-5)))), WEFT_F16);
  }
}

static void expect_same(weft_dtype t, int64_t rows, int64_t columns, int what, int seen) {
  weft_scope *s = weft_scope_open();
  weft_array *x = view(seen, t, rows, columns);
  size_t bytes = 0;
  void *got[2];
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(made(what, x), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld], program %d of view %d", weft_dtype_name(t), (long long)rows, (long long)columns, what, seen);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_neighbours_and_rows_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64, WEFT_U8, WEFT_I8, WEFT_I16, WEFT_I64, WEFT_BOOL };
  static const int64_t lengths[] = { 1, 3, 4, 8, 13, 64, 100, 513, 1040 };
  test_watchdog(200);
  int n = 0;
  for (size_t t = 0; has_gpu() && t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
      for (int seen = 0; seen < 5; seen++, n++)
        expect_same(dtypes[t], 1 + n % 3, lengths[l], dtypes[t] < WEFT_F16 ? (n + n / 7) % 4 : (n + n / 7) % 7, seen);
}

TEST(cuda_rows_that_fold_truths_beside_sums_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 3, 4, 64, 1000, 4096, 5000, 20000 };
  test_watchdog(200);
  for (size_t l = 0; has_gpu() && l < sizeof lengths / sizeof *lengths; l++)
    for (int seen = 0; seen < 4; seen += 3)
      expect_same(WEFT_F32, 2, lengths[l], 12, seen), expect_same(WEFT_F64, 3, lengths[l], 12, seen);
}

/* A thread has eight elements of 2 bytes, and what it leaves of them for a fold may have 1. */
TEST(cuda_rows_of_halves_fold_truths_and_bytes_beside_sums) {
  static const int64_t lengths[] = { 8, 1000, 4104, 9000 };
  for (size_t l = 0; has_gpu() && l < sizeof lengths / sizeof *lengths; l++)
    for (int what = 12; what < 14; what++) expect_same(WEFT_BF16, 2, lengths[l], what, 0), expect_same(WEFT_F16, 2, lengths[l], what, 3);
}

/* All programs of rows. */
static void expect_same_rows(weft_dtype t, int64_t rows, int64_t columns, int seen) {
  test_watchdog(200);
  for (int what = 3; what < 7; what++) expect_same(t, rows, columns, what, seen);
}

TEST(cuda_long_rows_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  expect_same_rows(WEFT_F32, 2, 4096, 0);
  expect_same_rows(WEFT_BF16, 2, 4096, 0);
  expect_same_rows(WEFT_F32, 2, 4100, 0);
  expect_same_rows(WEFT_F32, 2, 2044, 3);
}

/* Of eight elements of 2 bytes a thread leaves two pieces of 16 for a sum, that stand crossed in every other 128 bytes. */
TEST(cuda_rows_of_halves_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 8, 24, 32, 40, 72, 504, 520, 1000, 2056, 4088 };
  for (size_t l = 0; has_gpu() && l < sizeof lengths / sizeof *lengths; l++)
    for (int what = 6; what < 8; what++) {
      expect_same(WEFT_BF16, 9, lengths[l], what, 0);
      expect_same(WEFT_F16, 2, lengths[l], what, 3);
    }
}

/* Of a matrix rows, of a row elements: by indices of which number `at` of n is `index`, the others any. */
static weft_array *gathered(bool is_rows, int64_t n, int64_t at, int32_t index) {
  weft_array *x = is_rows ? matrix(WEFT_F32, 37, 24) : weft_reshape(matrix(WEFT_F32, 1, 37), 1, (int64_t[]){ 37 });
  int32_t *i = calloc((size_t)n + 1, sizeof *i);
  for (int64_t k = 0; k < n; k++) i[k] = (int32_t)(k * 11 % 74 - 37);
  if (at < n) i[at] = index;
  weft_array *which = weft_from(WEFT_I32, 1, &n, i);
  free(i);
  return weft_take(x, 1, &which);
}

TEST(cuda_neighbours_that_are_gathered_check_their_indices) {
  static const struct { int64_t n, at; int32_t index; } cases[] = {
    { 1, 1, 0 }, { 40, 40, 0 }, { 39, 38, 36 }, { 40, 5, 37 }, { 40, 39, -38 }, { 43, 42, 37 }, { 40, 0, INT32_MIN },
  };
  for (size_t k = 0; has_gpu() && k < 2 * sizeof cases / sizeof *cases; k++) {
    weft_scope *s = weft_scope_open();
    char said[2][400];
    weft_status status[2];
    float got[2][43 * 24] = { { 0 } };
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_array *y = gathered(k % 2, cases[k / 2].n, cases[k / 2].at, cases[k / 2].index);
      status[device] = weft_eval(1, &y);
      snprintf(said[device], sizeof said[device], "%s", status[device] ? weft_message() : "");
      if (!status[device]) EXPECT_OK(weft_read(y, WEFT_F32, got[device], (size_t)cases[k / 2].n * (k % 2 ? 24 : 1) * sizeof(float)));
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT_INT(status[1], status[0]);
    EXPECT_TEXT(said[1], said[0]);
    EXPECT(!memcmp(got[0], got[1], sizeof got[0]));
    weft_scope_discard(s);
  }
}

/* Rows that are longer than what registers have room for, or not aligned: kept in shared memory, or beyond it. */
TEST(cuda_rows_in_shared_memory_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  expect_same_rows(WEFT_F32, 2, 5003, 0);
  expect_same_rows(WEFT_F64, 1, 4099, 0);
  expect_same_rows(WEFT_F32, 2, 16400, 0); /* aligned: by neighbours */
  expect_same_rows(WEFT_BF16, 1, 20488, 0);
  expect_same_rows(WEFT_F32, 1, 33001, 0); /* nine blocks of 4096 for eight warps and more */
  expect_same_rows(WEFT_F32, 2, 50257, 0); /* the longest that there is room for, or not: 4 bytes an element */
  expect_same_rows(WEFT_F64, 1, 26001, 0);
  expect_same_rows(WEFT_F64, 1, 27000, 0);
  expect_same_rows(WEFT_F32, 1, 60000, 0);
}

/* Long rows of which a processor has room for some: more than that, so that a block of threads has several. */
TEST(cuda_rows_after_rows_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (!has_gpu()) return;
  bool is_slow = strstr(cuda_text(cuda_gpu(0)), "machine for PTX");
  for (int what = 3; what < 8; what++)
    if (what != 4 && what != 5) expect_same(WEFT_F32, is_slow ? 13 : 500, 16384, what, 0);
  expect_same(WEFT_F32, is_slow ? 12 : 396, 15360, 3, 3);
  expect_same(WEFT_F64, is_slow ? 14 : 401, 9000, 3, 0);
  expect_same(WEFT_F32, is_slow ? 15 : 401, 18000, 3, 0);
}

/* Rows of which a processor has room for one: what a thread has read of it for the last time makes room for the next. */
TEST(cuda_rows_that_take_the_place_of_others_have_the_bits_of_the_host) {
  test_watchdog(200);
  if (!has_gpu()) return;
  int64_t rows = strstr(cuda_text(cuda_gpu(0)), "machine for PTX") ? 9 : 300;
  for (int what = 3; what < 8; what++) {
    if (what == 4 || what == 5) continue;
    expect_same(WEFT_F32, rows, 32000, what, 0);
    expect_same(WEFT_F32, rows, 30001, what, 0);
  }
  expect_same(WEFT_F32, rows, 50257, 3, 0);
  expect_same(WEFT_F32, rows, 30002, 3, 1);
  expect_same(WEFT_F32, rows, 29999, 3, 3);
}

/* Sums of what is not kept: of squares, of exponentials, in a gradient. */
TEST(cuda_long_rows_that_are_folded_again_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 4100, 5003, 16384, 20001, 33000 };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int what = 8; what < 12; what++)
    for (int l = 0; l < 5; l++) expect_same(WEFT_F32, 2 + l, lengths[l], what, (what + l) % 2 ? 0 : 3);
  expect_same(WEFT_F32, 13, 16384, 8, 0);
  expect_same(WEFT_F32, 9, 30001, 10, 0);
  expect_same(WEFT_BF16, 3, 8200, 8, 0);
  expect_same(WEFT_F64, 3, 5002, 8, 0);
}

/* ---- rows that bulk copies bring, on compute capability 9.0 and later ---- */

/* Numbers that are not finite in some rows: a NaN, both infinities, nothing but an infinity, nothing but zeros of both signs. */
/* Of such rows one result may stand where an operand stood that is folded in the same loop. */
TEST(cuda_long_rows_that_overwrite_what_they_fold_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 129, 5120 }, { 129, 4104 }, { 129, 8192 }, { 130, 4101 } };
  test_watchdog(120);
  if (!has_gpu()) return;
  for (int i = 0; i < 4; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = matrix(WEFT_F32, sizes[i][0], sizes[i][1]), *y = weft_add(matrix(WEFT_F32, sizes[i][0], sizes[i][1]), weft_scalar(1));
    void *bits[2][4];
    size_t bytes[4];
    EXPECT_OK(weft_eval(1, &y));
    for (int device = 0; device < 2; device++) {
      weft_array *r = weft_rsqrt(weft_add(weft_over(weft_mean, weft_mul(x, x), WEFT_AXES(1)), weft_scalar(1e-4))),
                 *z = weft_add(x, weft_mul(y, weft_scalar(0.5))),
                 *all[] = { weft_sum(x, 0), weft_sum(weft_mul(weft_mul(x, r), y), 0), z, weft_sum(z, 0) };
      weft_set(WEFT_DEVICE, device);
      EXPECT_OK(weft_eval(4, all));
      for (int k = 0; k < 4; k++) bits[device][k] = bits_of(all[k], &bytes[k]);
    }
    weft_set(WEFT_DEVICE, 0);
    for (int k = 0; k < 4; k++) {
      EXPECT(!memcmp(bits[0][k], bits[1][k], bytes[k]));
      free(bits[0][k]), free(bits[1][k]);
    }
    weft_scope_discard(s);
  }
}

static weft_array *with_others(int64_t rows, int64_t columns) {
  float *x = drawn(WEFT_F32, rows * columns);
  for (int64_t r = 0; r < rows; r++) {
    float *row = x + r * columns;
    if (r % 6 == 1) row[columns - 1] = NAN;
    if (r % 6 == 2) row[0] = INFINITY, row[columns - 1] = -INFINITY;
    for (int64_t c = 0; c < columns && (r % 6 == 3 || r % 6 == 4); c++) row[c] = r % 6 == 3 ? -INFINITY : c % 3 ? 0 : -0.0f;
  }
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(rows, columns), x);
  free(x);
  return a;
}

static weft_array *streamed(int which, weft_array *x, weft_array *other, weft_array *weight) {
  weft_array *d;
  switch (which) {
    case 0: return weft_softmax(x, 1);
    case 1: return weft_log_softmax(x, 1);
    case 2: /* an RMS norm of a sum, with a weight */
      d = weft_add(x, other);
      return weft_mul(weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), 1), weft_scalar(1e-5)))), weight);
    case 3: /* a layer norm, with what comes before and behind */
      x = weft_mul(x, weft_sigmoid(x));
      d = weft_sub(x, weft_mean(x, 1));
      return weft_add(weft_mul(weft_mul(d, weft_rsqrt(weft_add(weft_mean(weft_mul(d, d), 1), weft_scalar(1e-5)))), weight), other);
    case 4: return weft_softmax(weft_where(weft_gt(other, weft_scalar(0)), x, weft_scalar(-1e9)), 1);
    case 5: /* two sums at once */
      d = weft_mul(x, weft_scalar(0.1));
      return weft_add(weft_mul(d, weft_sum(d, 1)), weft_sum(weft_mul(d, d), 1));
    default: /* nothing is kept but the row, which the last loop stores as it came */
      return weft_add(x, weft_mul(weft_sum(weft_mul(x, weight), 1), weft_scalar(1e-6)));
  }
}

/* A NaN is one, whatever its bits. */
static bool are_same(const void *a, const void *b, size_t bytes, weft_dtype t) {
  if (!memcmp(a, b, bytes)) return true;
  for (size_t i = 0; i < bytes / 4; i++)
    if (t != WEFT_F32 || (memcmp((const float *)a + i, (const float *)b + i, 4) && !(isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]))))
      return false;
  return t == WEFT_F32;
}

static void expect_streamed(weft_dtype t, int64_t rows, int64_t columns, int which, int seen, bool has_others) {
  weft_scope *s = weft_scope_open();
  weft_array *x = view(seen, t, rows, columns), *other = weft_mul(view(0, t, rows, columns), weft_scalar(0.3));
  weft_array *weight = weft_add(weft_slice(view(0, t, 2, columns), 0, 1, 2, 1), weft_cast(weft_scalar(0.7), t)), *all[2] = { other, weight };
  if (has_others) x = with_others(rows, columns);
  EXPECT_OK(weft_eval(1, &x));
  EXPECT_OK(weft_eval(2, all));
  size_t bytes = 0;
  void *got[2];
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(streamed(which, x, other, weight), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  if (!are_same(got[0], got[1], bytes, t))
    test_fail(__FILE__, __LINE__, "%s [%lld,%lld], program %d of view %d", weft_dtype_name(t), (long long)rows, (long long)columns, which, seen);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

/* Lengths for one and three blocks of threads on a processor, with and without elements for all threads; fewer rows than blocks
 * of threads, and so many that each has several more than are on their way. */
TEST(cuda_rows_that_bulk_copies_bring_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 4100, 5000, 5120, 14000, 16380, 16384, 16388 };
  test_watchdog(400);
  if (!has_gpu()) return;
  int64_t many = strstr(cuda_text(cuda_gpu(0)), "machine for PTX") ? 19 : getenv("WEFT_TEST_FEW") ? 600 : 1999;
  for (int l = 0; l < 7; l++)
    for (int which = 0; which < 7; which++)
      expect_streamed(WEFT_F32, (l + which) % 3 ? 1 + (l + which) % 5 : many, lengths[l], which, (l + which) % 4 == 3 ? 3 : 0, false);
  for (int which = 0; which < 7; which++) {
    expect_streamed(WEFT_BF16, 2 + which, which % 2 ? 4104 : 16000 + 8 * which, which, 0, false);
    expect_streamed(WEFT_F16, 3, 5008, which, 0, false);
    expect_streamed(WEFT_F64, 5, 4098 + 2 * which, which, 0, false);
  }
  expect_streamed(WEFT_BF16, many, 16384, 0, 0, false);
  expect_streamed(WEFT_F64, many, 8192, 0, 0, false);
}

TEST(cuda_rows_that_bulk_copies_bring_may_have_nans_and_infinities) {
  test_watchdog(400);
  if (!has_gpu()) return;
  for (int which = 0; which < 7; which++) {
    expect_streamed(WEFT_F32, 17, 4104, which, 0, true);
    expect_streamed(WEFT_F32, 9, 16384, which, 0, true);
  }
}

/* Powers of one array and their sums, all wanted: the rows of each would have to stay until they are folded. */
static void expect_many_folds(weft_dtype t, int n) {
  enum { MOST = 16, ROWS = 5, COLUMNS = 4096 };
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(t, ROWS, COLUMNS), *y[MOST];
  static uint8_t got[2][MOST][ROWS * 8];
  size_t bytes = ROWS * (size_t)weft_dtype_bytes(t);
  EXPECT_OK(weft_eval(1, &x));
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_array *power = weft_mul(x, weft_scalar(0.01));
    weft_set(WEFT_DEVICE, device);
    for (int i = 0; i < n; i++) y[i] = weft_sum(power, 1), power = weft_mul(power, x);
    EXPECT_OK(weft_eval(n, y));
    for (int i = 0; i < n; i++) EXPECT_OK(weft_read(y[i], t, got[device][i], bytes));
    weft_scope_discard(one);
  }
  for (int i = 0; i < n; i++) EXPECT(!memcmp(got[0][i], got[1][i], bytes));
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* From three to more than any device has shared memory for. */
TEST(cuda_rows_of_many_folds_have_the_bits_of_the_host) {
  for (int n = 3; n <= 15 && has_gpu(); n += 4) expect_many_folds(WEFT_F64, n), expect_many_folds(WEFT_F32, n);
  if (has_gpu()) expect_many_folds(WEFT_F32, 16);
}

struct own_length { int64_t columns; int n_wrong; };

static void *soften_often(void *of) {
  struct own_length *o = of;
  weft_set(WEFT_DEVICE, 1);
  for (int k = 0; k < 20; k++) {
    weft_scope *s = weft_scope_open();
    float got[3] = { 0 };
    weft_array *x = weft_mul(weft_full(WEFT_F32, WEFT_DIMS(3, o->columns), 2), weft_scalar(k + 1));
    weft_array *y = weft_sum(weft_softmax(weft_add(x, weft_arange(WEFT_F32, 0, (double)o->columns, 1)), 1), 1);
    bool is_wrong = weft_eval(1, &x) || weft_read(weft_squeeze(y, 1), WEFT_F32, got, sizeof got) || !(got[0] > 0.999f && got[0] < 1.001f);
    if (is_wrong) o->n_wrong++;
    weft_scope_discard(s);
  }
  return NULL;
}

/* Rows that stay in shared memory, of lengths that want different amounts of it, by one kernel from two threads. */
TEST(cuda_rows_of_two_lengths_go_at_the_same_time) {
  struct own_length o[2] = { { 20000, 0 }, { 16000, 0 } };
  pthread_t other;
  if (!has_gpu()) return;
  EXPECT(!pthread_create(&other, NULL, soften_often, &o[1]));
  soften_often(&o[0]);
  pthread_join(other, NULL);
  EXPECT_INT(o[0].n_wrong + o[1].n_wrong, 0);
  weft_set(WEFT_DEVICE, 0);
}

/* One kernel on views that begin anywhere, of sizes that come again: how the first was launched is remembered, and not for all. */
TEST(cuda_launches_like_the_first_and_others_have_the_bits_of_the_host) {
  static const int64_t from[] = { 0, 0, 1, 4, 3, 0, 2, 8, 1, 0 }, n[] = { 1024, 1024, 1024, 1024, 1023, 1024, 7, 1024, 1024, 1025 };
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_reshape(matrix(WEFT_F32, 1, 1100), 1, (int64_t[]){ 1100 });
  EXPECT_OK(weft_eval(1, &x));
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    size_t bytes = 0;
    void *got[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      got[device] = bits_of(made(0, weft_slice(x, 0, from[i], from[i] + n[i], 1)), &bytes);
    }
    weft_set(WEFT_DEVICE, 0);
    EXPECT_INT(bytes, (size_t)n[i] * sizeof(float));
    if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "%lld elements from %lld on", (long long)n[i], (long long)from[i]);
    free(got[0]), free(got[1]);
  }
  weft_scope_discard(s);
}

/* Rows of odd lengths, all of which begin as far from 16 bytes as what is made of them, or not. */
TEST(cuda_rows_that_are_shifted_have_the_bits_of_the_host) {
  if (!has_gpu()) return;
  expect_same_rows(WEFT_F32, 5, 1025, 0);
  expect_same_rows(WEFT_F32, 4, 1026, 0);
  expect_same_rows(WEFT_F32, 3, 2047, 0);
  expect_same_rows(WEFT_F64, 3, 1025, 0);
  for (int k = 0; k < 8; k++) expect_same_rows(WEFT_BF16, 2, 1027 + k, 0), expect_same(WEFT_F16, 3, 1030 + k, 6, k % 3);
  expect_same_rows(WEFT_BF16, 3, 4099, 0);
  expect_same(WEFT_BF16, 3, 20001, 4, 0); /* five blocks of 4096 */
  expect_same(WEFT_BF16, 3, 50257, 4, 1);
  for (int k = 0; k < 3; k++) expect_same(k ? WEFT_BF16 : WEFT_F32, 3, k > 1 ? 4099 : 4095, 9, 0), expect_same(WEFT_BF16, 2, 2043 + k, 8, 0);
  for (int seen = 1; seen < 4; seen++) expect_same_rows(WEFT_F32, 2, 1024 + seen, seen);
}

/* Every other element, or fewer, forwards and backwards; and results that stand so. */
TEST(cuda_lanes_that_are_apart_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_U8 };
  for (int k = 0; has_gpu() && k < 24; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = matrix(dtypes[k % 4], 3, 1200);
    int64_t step = (int64_t[]){ 2, -2, 3, 4, 7, -16 }[k / 4];
    size_t bytes = 0;
    void *got[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_array *a = weft_slice(x, 1, step < 0 ? -1 : 0, WEFT_END, step), *b = weft_slice(weft_flip(x, 0), 1, step < 0 ? -1 : 0, WEFT_END, step);
      got[device] = bits_of(weft_add(weft_mul(a, b), a), &bytes);
    }
    weft_set(WEFT_DEVICE, 0);
    if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "%s by %lld", weft_dtype_name(dtypes[k % 4]), (long long)step);
    free(got[0]), free(got[1]);
    weft_scope_discard(s);
  }
}

/* ---- arrays that stand by turns ---- */

static weft_array *by_turns(int which, weft_array *x) {
  weft_array *y = weft_cast(weft_add(weft_cast(x, WEFT_F32), weft_scalar(1)), weft_dtype_of(x)), *few = weft_slice(x, 0, 0, 1, 1);
  if (which <= 8) return which < 2 ? x : weft_repeat(x, 1, which);
  switch (which) {
    case 9: return weft_stack(-1, WEFT_ARRAYS(x, y));
    case 10: return weft_stack(-1, WEFT_ARRAYS(x, y, x));
    case 11: return weft_stack(-1, WEFT_ARRAYS(weft_flip(x, 1), x, weft_broadcast_like(few, x), y));
    case 12: return weft_stack(-1, WEFT_ARRAYS(weft_cast(weft_all(weft_eq(x, x), 1), WEFT_F32), weft_cast(weft_any(x, 1), WEFT_F32)));
    default: return weft_repeat(weft_repeat(x, 0, 2), 1, 2);
  }
}

static void expect_same_turns(weft_dtype t, int64_t rows, int64_t columns, int which, int seen) {
  weft_scope *s = weft_scope_open();
  weft_array *x = view(seen, t, rows, columns);
  size_t bytes = 0;
  void *got[2];
  for (int device = 0; device < 2; device++) {
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(by_turns(which, x), &bytes);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "turns %d of %s [%lld,%lld], view %d", which, weft_dtype_name(t), (long long)rows, (long long)columns, seen);
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_arrays_that_stand_by_turns_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_U8, WEFT_F16, WEFT_I64, WEFT_E4M3, WEFT_I16 };
  static const int64_t columns[] = { 16, 64, 1001, 17, 4096, 1, 0, 30 };
  test_watchdog(200);
  for (int k = 0; has_gpu() && k < 13 * 8; k++)
    expect_same_turns(dtypes[k % 8], 1 + k % 3, columns[(k + k / 8) % 8], 2 + k % 12, k % 5);
}

TEST(cuda_stacks_along_the_last_axis_and_repeats_are_one_kernel) {
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(WEFT_F32, 4, 100), *z = matrix(WEFT_F32, 4, 100);
  EXPECT_OK(weft_eval(2, (weft_array *[]){ x, z }));
  weft_set(WEFT_DEVICE, 1);
  weft_array *y[] = { weft_repeat(x, 1, 2), weft_stack(-1, WEFT_ARRAYS(x, z, x)) };
  for (int k = 0; k < 2; k++) {
    const char *plan = weft_show(1, &y[k], "plan");
    EXPECT(plan && strstr(plan, "1 steps") && strstr(plan, "0: weave on "));
  }
  weft_set(WEFT_DEVICE, 0);
  weft_scope_discard(s);
}

/* Numbers over numbers, 16 bytes of them at a time: denominators of all sizes, of which one in a group takes the long way for all. */
TEST(cuda_quotients_of_numbers_have_the_bits_of_the_host) {
  static const float ends[] = { 0, -0.0f, 1, -1, 0x1p-149f, 0x1p-126f, 0x1p-60f, 0x1.fffffep-61f, 0x1p60f, 0x1.000002p60f, 0x1.fffffep127f,
                                -0x1p127f, 0x1.fffffep0f, 0x1.000002p0f, 3, 1e-30f };
  enum { N = 12291 }; /* beyond what is fetched ahead where there is one processor */
  float x[N], got[2][3][N];
  uint32_t seed = 3;
  if (!has_gpu()) return;
  for (int i = 0; i < N; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t bits = i % 97 == 5 ? seed : (seed & 0x807fffff) | (100 + seed % 50) << 23; /* most are near 1 */
    memcpy(&x[i], &bits, sizeof *x);
  }
  memcpy(x + 8, ends, sizeof ends);
  x[100] = INFINITY, x[101] = -INFINITY, x[102] = NAN;
  for (int device = 0; device < 2; device++) {
    weft_scope *s = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(N), x), *y[] = { weft_div(weft_scalar(1), a), weft_sigmoid(a), weft_div(weft_scalar(-7.3), a) };
    for (int k = 0; k < 3; k++) EXPECT_OK(weft_read(y[k], WEFT_F32, got[device][k], sizeof got[0][0]));
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 0);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < N; i++)
      if (memcmp(&got[0][k][i], &got[1][k][i], sizeof(float)) && !(isnan(got[0][k][i]) && isnan(got[1][k][i])))
        test_fail(__FILE__, __LINE__, "quotient %d of %a: %a on the host, %a there", k, (double)x[i], (double)got[0][k][i],
                  (double)got[1][k][i]);
}

/* What elements of rows become beside numbers of their row: arrays whose rows begin alike, and some whose rows do not. */
static weft_array *beside_rows(int which, weft_array *x, weft_array *rows, int64_t n) {
  weft_array *y = weft_sub(weft_mul(x, weft_cast(rows, weft_dtype_of(x))), weft_cast(rows, weft_dtype_of(x)));
  switch (which) {
    case 0: return y;
    case 1: return weft_where(weft_eq(weft_iota(x, 1), weft_cast(rows, WEFT_I64)), y, x);
    case 2: return weft_add(y, weft_slice(weft_pad(x, 1, 1, 0, weft_scalar(3)), 1, 0, n, 1)); /* a column before */
    case 3: return weft_cast(y, WEFT_F32);
    default: return weft_div(y, weft_add(weft_mul(x, x), weft_cast(weft_scalar(1), weft_dtype_of(x))));
  }
}

TEST(cuda_elements_of_rows_of_odd_lengths_have_the_bits_of_the_host) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64, WEFT_I16, WEFT_I8, WEFT_I32 };
  test_watchdog(400);
  if (!has_gpu()) return;
  for (int i = 0; i < 140; i++) {
    weft_scope *s = weft_scope_open();
    weft_dtype t = dtypes[i % 7];
    int64_t n = i % 4 ? 255 + i % 11 : 1000 + i, count = 3 + i % 5;
    weft_array *x = view(i / 7 % 4, t, count, n), *rows = matrix(WEFT_F32, count, 1);
    void *got[2];
    size_t bytes = 0;
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      got[device] = bits_of(beside_rows(i / 7 % 5, x, rows, n), &bytes);
    }
    weft_set(WEFT_DEVICE, 0);
    if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "%s [%lld,%lld], %d", weft_dtype_name(t), (long long)count, (long long)n, i);
    free(got[0]), free(got[1]);
    weft_scope_discard(s);
  }
  weft_set(WEFT_DEVICE, 1);
  weft_scope *s = weft_scope_open();
  weft_array *y = beside_rows(0, matrix(WEFT_BF16, 4, 301), matrix(WEFT_F32, 4, 1), 301);
  EXPECT(strstr(weft_show(1, &y, "ptx"), "_wide_shifted("));
  weft_scope_discard(s);
  weft_set(WEFT_DEVICE, 0);
}
