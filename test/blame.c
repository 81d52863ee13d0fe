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

static weft_status put_beyond(uint64_t tag, weft_dtype t, weft_how how) {
  weft_scope *s = weft_scope_open();
  int64_t at = 7;
  weft_origin(tag);
  weft_array *x = weft_cast(weft_from(WEFT_F32, WEFT_DIMS(3), (float[]){ 1, 2, 3 }), t);
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(1), &at), *y = weft_put(x, weft_take(x, 1, &i), weft_scalar(1), how);
  weft_status status = weft_eval(1, &y);
  weft_origin(0);
  weft_scope_discard(s);
  return status;
}

/* Narrow numbers are combined as wide ones, by a scatter that is made for it. */
TEST(an_index_out_of_range_blames_its_own_line_whatever_is_put) {
  static const weft_dtype dtypes[] = { WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_E4M3, WEFT_I8, WEFT_U16, WEFT_I64, WEFT_BOOL, WEFT_C64 };
  static const weft_how hows[] = { WEFT_SET, WEFT_ADD, WEFT_MUL };
  for (uint64_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
    for (uint64_t j = 0; j < sizeof hows / sizeof *hows; j++) {
      EXPECT_INT(put_beyond(11 + 3 * k + j, dtypes[k], hows[j]), WEFT_ERR_INDEX);
      EXPECT_INT(weft_blame(), 11 + 3 * k + j);
    }
}

/* Step by step: a product is no kernel of a loop. at[k]: the index of step k. */
static weft_status take_beyond_in_steps(uint64_t tag) {
  weft_scope *s = weft_scope_open();
  weft_loop *l = weft_loop_open(NULL);
  weft_array *i = weft_loop_each(l, weft_from(WEFT_I64, WEFT_DIMS(3, 1), (int64_t[]){ 0, 1, 70 }));
  weft_array *c = weft_loop_carry(l, weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01));
  weft_origin(tag);
  weft_array *row = weft_take(c, 1, &i);
  weft_origin(0);
  weft_loop_next(l, c, weft_add(weft_matmul(c, c), row));
  weft_array *y = weft_loop_last(l, c);
  weft_loop_close(l);
  weft_status status = weft_eval(1, &y);
  weft_scope_discard(s);
  return status;
}

TEST(an_index_out_of_range_in_a_step_blames_its_own_line) {
  EXPECT_INT(take_beyond_in_steps(11), WEFT_ERR_INDEX);
  EXPECT_TEXT(weft_message(), "weft_take: the index 70 at place 0 is out of range for an axis of 64 (step 2 of the loop)");
  EXPECT_INT(weft_blame(), 11);
  EXPECT_INT(take_beyond_in_steps(22), WEFT_ERR_INDEX);
  EXPECT_INT(weft_blame(), 22);
}

/* A side with a product or without, known when planned or not. */
static weft_status take_beyond_in_a_choice(uint64_t tag, bool is_heavy) {
  weft_scope *s = weft_scope_open();
  int64_t at = 70;
  weft_array *p = weft_from(WEFT_BOOL, WEFT_DIMS(1), (bool[]){ true }), *x = weft_full(WEFT_F32, WEFT_DIMS(64, 64), 0.01);
  weft_array *i = weft_from(WEFT_I64, WEFT_DIMS(1), &at);
  weft_cond *c = weft_cond_open(weft_all(p, WEFT_ALL));
  weft_origin(tag);
  weft_array *row = weft_take(x, 1, &i);
  weft_origin(0);
  weft_array *y = weft_cond_value(c, is_heavy ? weft_add(weft_matmul(x, x), row) : weft_add(x, row), x);
  weft_cond_close(c);
  weft_status status = weft_eval(1, &y);
  weft_scope_discard(s);
  return status;
}

TEST(an_index_out_of_range_in_a_choice_blames_its_own_line_and_no_step) {
  for (int is_heavy = 0; is_heavy < 2; is_heavy++)
    for (uint64_t tag = 11; tag < 13; tag++) {
      EXPECT_INT(take_beyond_in_a_choice(tag, is_heavy), WEFT_ERR_INDEX);
      EXPECT_TEXT(weft_message(), "weft_take: the index 70 at place 0 is out of range for an axis of 64");
      EXPECT_INT(weft_blame(), tag);
    }
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
