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
