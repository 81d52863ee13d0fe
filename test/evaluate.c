/* evaluate.c -- what evaluation got wrong once, as small as it can be said; and random programs, for a moment. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "every_recipe.h"
#include "test.h"

/* In all ways of evaluation: the array that `make` builds has these elements. */
#define EXPECT_ALL_WAYS(make, type, weft_type, ...)                                                  \
  for (int w_ = 0; w_ < n_ways; w_++) {                                                              \
    type want_[] = { __VA_ARGS__ }, got_[sizeof want_ / sizeof *want_] = { 0 };                      \
    weft_scope *scope_ = weft_scope_open();                                                           \
    way_take(&ways[w_]);                                                                             \
    EXPECT_OK(weft_read(make(), weft_type, got_, sizeof got_));                                      \
    for (int i_ = 0; i_ < (int)(sizeof want_ / sizeof *want_); i_++)                                 \
      if (memcmp(&got_[i_], &want_[i_], sizeof *want_) && !(got_[i_] != got_[i_] && want_[i_] != want_[i_])) \
        test_fail(__FILE__, __LINE__, "%s, %s: element %d is %.17g, not %.17g", #make, ways[w_].name, i_, \
                  (double)got_[i_], (double)want_[i_]);                                              \
    weft_scope_discard(scope_);                                                                       \
    way_leave();                                                                                     \
  }

static weft_array *bool_rows(void) {
  weft_array *x = weft_from(WEFT_BOOL, WEFT_DIMS(3, 1), (bool[]){ true, false, true });
  return weft_cast(weft_broadcast(x, WEFT_DIMS(3, 4)), WEFT_I64);
}
TEST(a_64_bit_value_that_is_the_same_in_a_row_fills_the_row) {
  EXPECT_ALL_WAYS(bool_rows, int64_t, WEFT_I64, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
}

TEST(random_programs_have_the_bits_of_plain_c_in_every_way) {
  time_t end = time(NULL) + 3;
  uint64_t seed = 1;
  for (bool ok = true; ok && time(NULL) < end; seed++) {
    ok = recipe_check(seed) && (seed % 4 || recipe_check_gradient(seed));
    if (!ok) test_fail(__FILE__, __LINE__, "seed %llu: build/release/fuzz/graph 0 %llu 1", (unsigned long long)seed, (unsigned long long)seed);
  }
  EXPECT_INT(plain_off, 0);
  plain_end();
}
