/* logsumexp.c -- log sum e^x of more than a few: at once, and in groups; which of these it is depends on lengths alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "every_plain.h"
#include "every_recipe.h"
#include "test.h"

static uint32_t seed;
static double next(double from, double to) {
  seed = seed * 1664525u + 1013904223u;
  return from + (to - from) * (double)(seed >> 8) / (1 << 24);
}

/* Infinities and nans in some lines, and lines of nothing but -inf. */
static struct plain numbers(weft_dtype t, int rank, const int64_t dims[], int axis) {
  struct plain x = plain_new(t, rank, dims);
  int64_t at[PLAIN_RANK];
  for (int64_t i = 0; i < x.count; i++) {
    plain_index(&x, i, at);
    int64_t line = axis ? at[0] : at[rank - 1], j = at[axis];
    double v = next(-4, 4);
    if (line == 1) v = -INFINITY;
    if (line == 2 && j % 50 == 7) v = j % 100 == 7 ? -INFINITY : INFINITY;
    if (line == 3 && j == dims[axis] - 1) v = NAN;
    if (line == 4) v *= 2e4;
    plain_set_f(&x, i, v);
  }
  return x;
}

static const struct { weft_dtype dtype; int rank; int64_t dims[3]; int axis; } cases[] = {
  { WEFT_F32, 2, { 65, 7 }, 0 },   { WEFT_F32, 2, { 6, 65 }, 1 },    { WEFT_F32, 2, { 513, 6 }, 0 },  { WEFT_F32, 2, { 640, 70 }, 0 },
  { WEFT_F64, 2, { 601, 6 }, 0 },  { WEFT_F16, 2, { 577, 6 }, 0 },   { WEFT_BF16, 2, { 5, 200 }, 1 }, { WEFT_F32, 3, { 5, 530, 3 }, 1 },
  { WEFT_F64, 2, { 5, 300 }, 1 },  { WEFT_F32, 2, { 5, 16500 }, 1 }, { WEFT_F32, 1, { 20483 }, 0 },   { WEFT_F32, 2, { 33000, 2 }, 0 },
  { WEFT_F32, 2, { 32771, 2 }, 0 },
};
enum { CASES = sizeof cases / sizeof *cases };

static void expect_bits(int i, const struct plain *x, const struct plain *want, const char *way) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_logsumexp(weft_from(x->dtype, x->rank, x->dims, x->data), cases[i].axis);
  struct plain got = plain_new(want->dtype, want->rank, want->dims);
  bool ok = !weft_read(y, want->dtype, got.data, (size_t)want->count * weft_dtype_bytes(want->dtype));
  int64_t at = ok ? plain_differs(want, got.data) : -1;
  if (!ok || at >= 0)
    test_fail(__FILE__, __LINE__, "case %d, %s: %s, not %s", i, way, ok ? plain_text(&got, at) : weft_message(), ok ? plain_text(want, at) : "");
  plain_free(&got);
  weft_scope_discard(s);
}

TEST(logsumexp_of_many_has_the_bits_of_its_groups_on_every_back_end) {
  seed = 5;
  for (int i = 0; i < CASES; i++) {
    struct plain x = numbers(cases[i].dtype, cases[i].rank, cases[i].dims, cases[i].axis);
    struct plain want = plain_reduce("logsumexp", cases[i].dtype, &x, cases[i].axis);
    for (int w = 0; w < n_ways; w++) {
      way_take(&ways[w]);
      expect_bits(i, &x, &want, ways[w].name);
    }
    plain_free(&x);
    plain_free(&want);
  }
  way_leave();
  plain_end();
}

/* a - log sum e^a and its gradient are what softmax says. */
TEST(logsumexp_in_groups_fuses_and_has_the_gradient_of_softmax) {
  enum { R = 700, C = 5 };
  static double x[R * C], y[R * C], z[R * C];
  seed = 9;
  for (int i = 0; i < R * C; i++) x[i] = next(-3, 3);
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_from(WEFT_F64, WEFT_DIMS(R, C), x), *two = weft_add(a, a), *g;
  weft_array *l = weft_logsumexp(two, 0);
  EXPECT_OK(weft_read(weft_sub(two, l), WEFT_F64, y, sizeof y));
  EXPECT_OK(weft_read(weft_log_softmax(two, 0), WEFT_F64, z, sizeof z));
  for (int i = 0; i < R * C; i++) EXPECT(fabs(y[i] - z[i]) < 1e-13);
  weft_grad(weft_sum(l, WEFT_ALL), 1, &a, &g);
  EXPECT_OK(weft_read(g, WEFT_F64, y, sizeof y));
  EXPECT_OK(weft_read(weft_softmax(two, 0), WEFT_F64, z, sizeof z));
  for (int i = 0; i < R * C; i++) EXPECT(fabs(y[i] - 2 * z[i]) < 1e-13);
  weft_scope_discard(s);
}
