/* gpu_stencils.c -- elements and their neighbours in one array, on the GPU against the host: the same bits for every dtype, size and
 * rank, of which arrays that are read have rows in common. Their blocks of threads are several rows high (gpu_tall.c), and threads
 * ask for what all copies of a body load (nest_copies.c). */
#include <string.h>
#include "gpu.h"

/* x without `margin` elements at each end of its axes, moved by so many along one of them. */
static weft_array *moved(weft_array *x, int64_t margin, int axis, int64_t by) {
  for (int d = 0; d < weft_rank(x); d++) {
    int64_t at = margin + (d == axis ? by : 0), n = weft_dim(x, d) - 2 * margin;
    x = weft_slice(x, d, at, at + n, 1);
  }
  return x;
}

static weft_array *laplacian(weft_array *x) {
  weft_array *sum = NULL;
  for (int d = 0; d < weft_rank(x); d++) {
    weft_array *two = weft_add(moved(x, 1, d, -1), moved(x, 1, d, 1));
    sum = sum ? weft_add(sum, two) : two;
  }
  return weft_sub(sum, weft_mul(weft_scalar(2 * weft_rank(x)), moved(x, 1, 0, 0)));
}

static weft_array *difference(weft_array *x, int axis) {
  return weft_sub(weft_slice(x, axis, 1, weft_dim(x, axis), 1), weft_slice(x, axis, 0, weft_dim(x, axis) - 1, 1));
}

static weft_array *gradient(weft_array *x) {
  weft_array *y = laplacian(x), *d = weft_mul(y, y);
  return weft_grad(d, 1, &x, &x), x;
}

enum { PROGRAMS = 8 };
static weft_array *made(int which, weft_array *x) {
  weft_array *y;
  switch (which) {
    case 0: return laplacian(x);
    case 1: return difference(x, weft_rank(x) - 1);
    case 2: return difference(x, 0);
    case 3: return gradient(x);
    case 4: return weft_add(moved(x, 1, 0, 0), weft_div(laplacian(x), weft_add(weft_abs(moved(x, 1, 0, 1)), weft_scalar(1)))); /* calls */
    case 5: y = weft_mul(moved(x, 2, 0, 0), weft_scalar(3)); /* more loads than are asked for ahead */
      for (int d = 0; d < weft_rank(x); d++)
        for (int by = -2; by <= 2; by++) y = weft_sub(weft_mul(moved(x, 2, d, by), weft_scalar(0.1 * by + 0.7)), y);
      return y;
    case 6: return weft_where(weft_gt(moved(x, 1, 0, -1), moved(x, 1, 0, 1)), laplacian(x), moved(x, 1, 0, 0));
    default: return weft_sub(laplacian(x), moved(weft_flip(x, 0), 1, 0, 0)); /* whose rows go the other way */
  }
}

static void expect_same(int which, weft_dtype t, int rank, const int64_t dims[], bool is_turned) {
  weft_scope *s = weft_scope_open();
  weft_array *x = numbers(t, rank, dims);
  void *got[2];
  size_t bytes = 0;
  if (is_turned) x = weft_flip(x, 0);
  for (int device = 0; device < 2; device++) {
    weft_scope *one = weft_scope_open();
    weft_set(WEFT_DEVICE, device);
    got[device] = bits_of(made(which, x), &bytes);
    weft_scope_discard(one);
  }
  weft_set(WEFT_DEVICE, 0);
  if (memcmp(got[0], got[1], bytes))
    test_fail(__FILE__, __LINE__, "program %d of %s [.., %lld, %lld]%s", which, weft_dtype_name(t), rank > 1 ? (long long)dims[rank - 2] : 1,
              (long long)dims[rank - 1], is_turned ? ", turned around" : "");
  free(got[0]), free(got[1]);
  weft_scope_discard(s);
}

TEST(cuda_stencils_of_planes_have_the_bits_of_the_host) {
  static const int64_t sizes[][2] = { { 4, 4 }, { 5, 130 }, { 12, 33 }, { 67, 66 }, { 130, 131 }, { 9, 1030 }, { 300, 64 }, { 100, 260 }, { 1031, 5 } };
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_F16, WEFT_F32 };
  if (!has_gpu()) return;
  for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
    for (int which = 0; which < PROGRAMS; which++) expect_same(which, dtypes[(i + which) % 5], 2, sizes[i], (i + which) % 3 == 1);
  expect_same(0, WEFT_I32, 2, sizes[4], false);
  expect_same(1, WEFT_U8, 2, sizes[4], false);
}

TEST(cuda_stencils_of_rows_and_of_volumes_have_the_bits_of_the_host) {
  static const int64_t lengths[] = { 5, 63, 130, 1025, 5000, 20011 }, sides[][3] = { { 5, 5, 5 }, { 6, 33, 70 }, { 20, 18, 67 }, { 7, 6, 300 } };
  if (!has_gpu()) return;
  for (int i = 0; i < 6; i++)
    for (int which = 0; which < PROGRAMS; which++) expect_same(which, which % 2 ? WEFT_F32 : i % 2 ? WEFT_BF16 : WEFT_F64, 1, &lengths[i], which % 3 == 2);
  for (int i = 0; i < 4; i++)
    for (int which = 0; which < PROGRAMS; which++) expect_same(which, (i + which) % 3 ? WEFT_F32 : WEFT_F16, 3, sides[i], which % 4 == 1);
}

/* So many elements that a thread has several of them, and loads those of all together. */
TEST(cuda_stencils_of_many_elements_have_the_bits_of_the_host) {
  static const int64_t planes[][2] = { { 300, 701 }, { 290, 702 } }, volume[] = { 40, 41, 131 }, row = 230001;
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F64, WEFT_F16 };
  test_watchdog(200);
  if (!has_gpu()) return;
  for (int which = 0; which < PROGRAMS; which++) expect_same(which, dtypes[which % 4], 2, planes[which % 2], which % 3 == 1);
  for (int which = 0; which < 2; which++) expect_same(which, dtypes[which], 1, &row, false), expect_same(3 * which, dtypes[which], 3, volume, which);
  expect_same(0, WEFT_I32, 2, planes[0], false);
}

/* One kernel, of arrays that have rows in common and of others: how the first was launched is remembered. */
TEST(cuda_rows_in_common_and_others_go_by_one_kernel) {
  static const int64_t rows[] = { 0, 1, 1, 200, 1, 0, 3, 150, 0 };
  if (!has_gpu()) return;
  weft_scope *s = weft_scope_open();
  weft_array *x = matrix(WEFT_F32, 400, 301);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t bytes = 0;
    void *got[2];
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      weft_array *a = weft_slice(weft_slice(x, 0, 0, 190, 1), 1, 0, 300, 1), *b = weft_slice(weft_slice(x, 0, rows[i], 190 + rows[i], 1), 1, 1, 301, 1);
      got[device] = bits_of(weft_sub(weft_mul(a, b), a), &bytes);
    }
    weft_set(WEFT_DEVICE, 0);
    if (memcmp(got[0], got[1], bytes)) test_fail(__FILE__, __LINE__, "rows %lld apart", (long long)rows[i]);
    free(got[0]), free(got[1]);
  }
  weft_scope_discard(s);
}

/* Where rows are read again they stay an axis, so that blocks of threads may be several rows high; short ones, and those that are far
 * apart, are one with the axis around, as on the host. */
TEST(cuda_rows_that_are_read_again_are_an_axis_of_their_own) {
  static const struct { int64_t n, apart; bool is_axis; } cases[] = { { 2048, 1, true }, { 2049, 8, true }, { 500, 1, false }, { 2048, 9, false } };
  if (!has_gpu()) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = matrix(WEFT_F32, 100, cases[i].n);
    weft_array *y = weft_sub(weft_slice(x, 0, cases[i].apart, 100, 1), weft_slice(x, 0, 0, 100 - cases[i].apart, 1));
    for (int device = 0; device < 2; device++) {
      weft_set(WEFT_DEVICE, device);
      EXPECT_INT(strstr(weft_show(1, &y, "kernels"), "par ") != NULL, device && cases[i].is_axis);
    }
    weft_set(WEFT_DEVICE, 0);
    weft_scope_discard(s);
  }
}
