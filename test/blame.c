/* blame.c -- whose fault an error is: the tag of the node that failed, not of one like it that was planned before. */
#include "test.h"
#include "weft.h"

static weft_status take_beyond(uint64_t tag) {
  weft_scope *s = weft_scope_open();
  int64_t at = 7;
  float got;
  weft_origin(tag);
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 1, 2, 3 }), *i = weft_from(WEFT_I64, WEFT_DIMS(1), &at);
  weft_status status = weft_read(weft_take(x, 1, &i), WEFT_F32, &got, sizeof got);
  weft_origin(0);
  weft_scope_discard(s);
  return status;
}

TEST(an_index_out_of_range_blames_its_own_line_though_the_plan_is_known) {
  EXPECT_INT(take_beyond(11), WEFT_ERR_INDEX);
  EXPECT_INT(weft_blame(), 11);
  EXPECT_INT(take_beyond(22), WEFT_ERR_INDEX);
  EXPECT_INT(weft_blame(), 22);
}

TEST(looking_at_a_failed_array_makes_nothing) {
  weft_scope *s = weft_scope_open();
  weft_array *bad = weft_add(weft_full(WEFT_F32, WEFT_DIMS(2), 1), weft_full(WEFT_F32, WEFT_DIMS(3), 1));
  int64_t before = weft_get(WEFT_NODES);
  for (int k = 0; k < 100; k++) {
    float x[2];
    EXPECT_INT(weft_eval(1, &bad), WEFT_ERR_SHAPE);
    EXPECT_INT(weft_read(bad, WEFT_F32, x, sizeof x), WEFT_ERR_SHAPE);
    EXPECT_INT(weft_wait(1, &bad, 0), WEFT_ERR_SHAPE);
    EXPECT_INT(weft_state_of(bad, NULL), WEFT_FAILED);
  }
  EXPECT_INT(weft_get(WEFT_NODES), before);
  weft_scope_discard(s);
}
