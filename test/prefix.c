/* prefix.c -- running sums of rows that go piece by piece through the caches: the bits of one loop in blocks of 4096. */
#include <stdlib.h>
#include "every_plain.h"
#include "every_recipe.h"
#include "test.h"

enum { BLOCK = 4096, N = 530 * BLOCK + 123 }; /* three pieces and a rest */

static struct plain numbers(void) {
  struct plain x = plain_new(WEFT_F32, 1, (int64_t[]){ N });
  for (int64_t i = 0; i < N; i++) plain_set_f(&x, i, (double)(i * 7919 % 1009) / 97 - 5);
  return x;
}

static void expect_bits(weft_array *y, const struct plain *want, const char *way) {
  float *got = malloc(sizeof *got * N);
  EXPECT_OK(weft_read(y, WEFT_F32, got, sizeof *got * N));
  int64_t at = plain_differs(want, got);
  if (at >= 0) test_fail(__FILE__, __LINE__, "%s: element %lld is %a, not %s", way, (long long)at, (double)got[at], plain_text(want, at));
  free(got);
}

TEST(a_long_row_in_pieces_has_the_running_sums_of_one_loop) {
  struct plain x = numbers(), want = plain_prefix("cumsum", WEFT_F32, &x, 0), most = plain_prefix("cummax", WEFT_F32, &x, 0);
  for (int w = 0; w < n_ways; w++) {
    way_take(&ways[w]);
    weft_scope *s = weft_scope_open();
    weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(N), x.data), *back = weft_flip(weft_cast(weft_flip(a, 0), WEFT_F32), 0);
    expect_bits(weft_cumsum(a, 0), &want, ways[w].name);
    expect_bits(weft_cumsum(back, 0), &want, ways[w].name);
    expect_bits(weft_cummax(a, 0), &most, ways[w].name);
    weft_scope_discard(s);
  }
  way_take(&(struct way){ "16 threads", "x86", true, 16 });
  weft_scope *s = weft_scope_open();
  expect_bits(weft_cumsum(weft_from(WEFT_F32, WEFT_DIMS(N), x.data), 0), &want, "16 threads");
  weft_scope_discard(s);
  way_leave();
  plain_free(&x);
  plain_free(&want);
  plain_free(&most);
}

/* Sizes come with the call: 0, 1 and 4. Tangents 2^i and cotangents 8^i are carried by hand. */
TEST(running_extrema_of_open_size_have_derivatives_of_no_elements_too) {
  static const double x[] = { 1, 3, 3, 2 };
  static const double forward[2][4] = { { 1, 2, 2, 2 }, { 1, 1, 1, 1 } };
  static const double back[2][2][4] = { { { 1 }, { 1, 584, 0, 0 } }, { { 1 }, { 585, 0, 0, 0 } } };
  for (int is_min = 0; is_min < 2; is_min++) {
    weft_scope *s = weft_scope_open(), *body = weft_scope_open();
    weft_array *in = weft_input(WEFT_F64, WEFT_DIMS(WEFT_ANY)), *i_ = weft_iota(in, 0), *out[2];
    weft_array *dx = weft_exp2(i_), *dy = weft_exp2(weft_mul(i_, weft_scalar(3)));
    weft_array *y = is_min ? weft_cummin(in, 0) : weft_cummax(in, 0);
    weft_jvp(1, &in, &dx, 1, &y, &out[0]);
    weft_vjp(1, &y, &dy, 1, &in, &out[1]);
    weft_function *f = weft_compile(body, 1, &in, 2, out);
    for (int64_t n = 0; n <= 4; n += n ? 3 : 1) {
      double got[4];
      weft_array *now = weft_from(WEFT_F64, WEFT_DIMS(n), x), *res[2];
      weft_call(f, 1, &now, 2, res);
      EXPECT_OK(weft_read(res[0], WEFT_F64, got, sizeof *got * (size_t)n));
      for (int i = 0; i < n; i++) EXPECT(got[i] == forward[is_min][i]);
      EXPECT_OK(weft_read(res[1], WEFT_F64, got, sizeof *got * (size_t)n));
      for (int i = 0; i < n; i++) EXPECT(got[i] == back[is_min][n > 1][i]);
    }
    weft_scope_discard(s);
  }
}
