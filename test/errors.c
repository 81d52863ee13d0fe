/* errors.c -- what bad input gets: a bad array or a status, and a message that names the function and shows the input. */
#include "test.h"
#include "op/op.h"
#include "weft.h"

#define F32(...) weft_input(WEFT_F32, WEFT_DIMS(__VA_ARGS__))

/* Bad, with this status and this message. */
#define EXPECT_BAD(array, status, message)              \
  do {                                                  \
    EXPECT_INT(weft_check(array), status);              \
    EXPECT_TEXT(weft_message(), message);               \
  } while (0)

TEST(shapes_that_do_not_fit_are_shown) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(8, 3);
  EXPECT_BAD(weft_add(x, F32(4)), WEFT_ERR_SHAPE, "weft_add: shapes [8,3] and [4] do not broadcast");
  EXPECT_BAD(weft_gt(x, F32(4)), WEFT_ERR_SHAPE, "weft_gt: shapes [8,3] and [4] do not broadcast");
  EXPECT_BAD(weft_where(x, F32(8, 1), F32(2)), WEFT_ERR_SHAPE,
             "weft_where: shapes [8,3], [8,1] and [2] do not broadcast");
  EXPECT_BAD(weft_matmul(x, F32(4, 16)), WEFT_ERR_SHAPE, "weft_matmul: inner lengths differ: [8,3] x [4,16]");
  EXPECT_BAD(weft_matmul(F32(2, 8, 3), F32(5, 3, 1)), WEFT_ERR_SHAPE,
             "weft_matmul: batches do not broadcast: [2,8,3] x [5,3,1]");
  EXPECT_BAD(weft_matmul(x, weft_scalar(1)), WEFT_ERR_SHAPE, "weft_matmul: a 0-d operand: [8,3] x []");
  EXPECT_BAD(weft_sum(x, 2), WEFT_ERR_SHAPE, "weft_sum: there is no axis 2 in [8,3]");
  EXPECT_BAD(weft_mean(x, -3), WEFT_ERR_SHAPE, "weft_mean: there is no axis -3 in [8,3]");
  EXPECT_BAD(weft_cumsum(x, WEFT_ALL), WEFT_ERR_SHAPE, "weft_cumsum: there is no axis -1000 in [8,3]");
  EXPECT_BAD(weft_reshape(x, WEFT_DIMS(5, 5)), WEFT_ERR_SHAPE,
             "weft_reshape: [8,3] cannot become [5,5]: other numbers of elements");
  EXPECT_BAD(weft_reshape(x, WEFT_DIMS(5, WEFT_ANY)), WEFT_ERR_SHAPE,
             "weft_reshape: no size fits for WEFT_ANY on axis 1 of [8,3]");
  EXPECT_BAD(weft_reshape(x, WEFT_DIMS(WEFT_ANY, WEFT_ANY)), WEFT_ERR_SHAPE, "weft_reshape: more than one WEFT_ANY");
  EXPECT_BAD(weft_broadcast(x, WEFT_DIMS(8, 4)), WEFT_ERR_SHAPE, "weft_broadcast: [8,3] does not broadcast to [8,4]");
  EXPECT_BAD(weft_transpose(x, (int[]){ 1, 1 }), WEFT_ERR_SHAPE, "weft_transpose: axis 1 of [8,3] is listed twice");
  EXPECT_BAD(weft_squeeze(x, 1), WEFT_ERR_SHAPE, "weft_squeeze: axis 1 of [8,3] is not of length 1");
  EXPECT_BAD(weft_concat(0, WEFT_ARRAYS(x, F32(8, 4))), WEFT_ERR_SHAPE,
             "weft_concat: [8,3] and [8,4] do not fit beside axis 0");
  EXPECT_BAD(weft_put(x, weft_slice(x, 0, 0, 2, 1), F32(4, 3), WEFT_SET), WEFT_ERR_SHAPE,
             "weft_put: [4,3] does not broadcast to the part, [2,3]");
  EXPECT_BAD(weft_max(F32(3, 0), 1), WEFT_ERR_SHAPE, "weft_max: nothing to choose from in [3,0]");
  EXPECT_BAD(weft_argmax(F32(0), WEFT_ALL), WEFT_ERR_SHAPE, "weft_argmax: nothing to choose from in [0]");
  EXPECT_BAD(weft_rms_norm(weft_scalar(1), NULL, 1e-5), WEFT_ERR_SHAPE, "weft_rms_norm: a 0-d array has no last axis");
  EXPECT_BAD(weft_pad(x, 0, 1, 1, F32(2)), WEFT_ERR_SHAPE, "weft_pad: the value is [2], not 0-d");
  weft_scope_discard(s);
}

TEST(dtypes_without_such_an_operation_are_named) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(3), *b = weft_input(WEFT_BOOL, WEFT_DIMS(3));
  EXPECT_BAD(weft_and(x, b), WEFT_ERR_DTYPE, "weft_and: of bools or integers, not of f32");
  EXPECT_BAD(weft_not(x), WEFT_ERR_DTYPE, "weft_not: of bools or integers, not of f32");
  EXPECT_BAD(weft_neg(b), WEFT_ERR_DTYPE, "weft_neg: not of bool; see weft_not");
  EXPECT_BAD(weft_take(x, 1, &x), WEFT_ERR_DTYPE, "weft_take: index 0 is f32, not an integer");
  EXPECT_BAD(weft_take(x, 1, &b), WEFT_ERR_DTYPE, "weft_take: index 0 is bool, not an integer");
  EXPECT_BAD(weft_iota(b, 0), WEFT_ERR_DTYPE, "weft_iota: an index is not a bool");
  EXPECT_BAD(weft_cast(x, (weft_dtype)77), WEFT_ERR_DTYPE, "weft_cast: there is no dtype 77");
  EXPECT_BAD(weft_cast(x, WEFT_C64), WEFT_ERR_UNSUPPORTED, "weft_cast: arrays of c64 are not written yet");
  EXPECT_BAD(weft_from((weft_dtype)-1, 0, NULL, "x"), WEFT_ERR_DTYPE, "weft_from: there is no dtype -1");
  weft_scope_discard(s);
}

TEST(sizes_that_make_no_sense_are_refused) {
  weft_scope *s = weft_scope_open();
  float x = 1;
  EXPECT_BAD(weft_from(WEFT_F32, WEFT_DIMS(3, -2), &x), WEFT_ERR_SHAPE, "weft_from: the size -2 on axis 1 is negative");
  EXPECT_BAD(weft_full(WEFT_F32, WEFT_DIMS(INT64_MAX, 2), 0), WEFT_ERR_SHAPE,
             "weft_full: [9223372036854775807,2] has too many elements");
  EXPECT_BAD(weft_full(WEFT_F32, WEFT_DIMS(INT64_MIN), 0), WEFT_ERR_SHAPE,
             "weft_full: the size -9223372036854775808 on axis 0 is negative");
  EXPECT_BAD(weft_full(WEFT_F32, 33, NULL, 0), WEFT_ERR_SHAPE, "weft_full: the rank 33 is not in 0..32");
  EXPECT_BAD(weft_full(WEFT_F32, -1, NULL, 0), WEFT_ERR_SHAPE, "weft_full: the rank -1 is not in 0..32");
  EXPECT_BAD(weft_input(WEFT_F32, WEFT_DIMS(4, -7)), WEFT_ERR_SHAPE, "weft_input: the size -7 on axis 1 is negative");
  EXPECT_BAD(weft_input(WEFT_F32, 40, NULL), WEFT_ERR_SHAPE, "weft_input: the rank 40 is not in 0..32");
  EXPECT_BAD(weft_reshape(F32(4), WEFT_DIMS(-5)), WEFT_ERR_SHAPE, "weft_reshape: the size -5 on axis 0 is negative");
  EXPECT_BAD(weft_reshape(F32(4), 99, (int64_t[]){ 1 }), WEFT_ERR_SHAPE, "weft_reshape: the rank 99 is not in 0..32");
  EXPECT_BAD(weft_pad(F32(4), 0, INT64_MAX, INT64_MAX, weft_scalar(0)), WEFT_ERR_SHAPE,
             "weft_pad: 9223372036854775807 before and 9223372036854775807 after are too many");
  EXPECT_BAD(weft_pad(F32(4), 0, -1, 0, weft_scalar(0)), WEFT_ERR_ARG,
             "weft_pad: -1 before and 0 after; see weft_slice");
  EXPECT_BAD(weft_window(F32(4), 0, weft_integer(0), -1), WEFT_ERR_ARG, "weft_window: the length -1 is negative");
  EXPECT_BAD(weft_slice(F32(4), 0, 0, 4, 0), WEFT_ERR_ARG, "weft_slice: the step is 0");
  weft_scope_discard(s);
}

TEST(indices_that_are_known_to_be_out_of_range_are_refused_at_once) {
  weft_scope *s = weft_scope_open();
  EXPECT_BAD(weft_at(F32(4, 2), 0, weft_integer(4)), WEFT_ERR_INDEX,
             "weft_at: 1 elements at index 4 of axis 0 do not lie in [4,2]");
  EXPECT_BAD(weft_at(F32(4, 2), 0, weft_integer(-5)), WEFT_ERR_INDEX,
             "weft_at: 1 elements at index -5 of axis 0 do not lie in [4,2]");
  EXPECT_BAD(weft_at(F32(4), 0, weft_integer(INT64_MIN)), WEFT_ERR_INDEX,
             "weft_at: 1 elements at index -9223372036854775808 of axis 0 do not lie in [4]");
  EXPECT_BAD(weft_window(F32(4), 0, weft_integer(2), 3), WEFT_ERR_INDEX,
             "weft_window: 3 elements at index 2 of axis 0 do not lie in [4]");
  EXPECT_BAD(weft_at(F32(4), 0, F32(2)), WEFT_ERR_DTYPE, "weft_at: index 0 is f32, not an integer");
  EXPECT_BAD(weft_take(F32(4), WEFT_ARRAYS(weft_integer(0), weft_integer(1))), WEFT_ERR_SHAPE,
             "weft_take: 2 indices into [4]");
  weft_scope_discard(s);
}

TEST(null_is_noticed_and_told_which_argument_it_was) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(3);
  EXPECT_BAD(weft_exp(NULL), WEFT_ERR_ARG, "weft_exp: the array is NULL");
  EXPECT_BAD(weft_add(x, NULL), WEFT_ERR_ARG, "weft_add: argument 2 is NULL");
  EXPECT_BAD(weft_where(NULL, x, x), WEFT_ERR_ARG, "weft_where: argument 1 is NULL");
  EXPECT_BAD(weft_concat(0, 2, (weft_array *[]){ x, NULL }), WEFT_ERR_ARG, "weft_concat: argument 2 is NULL");
  EXPECT_BAD(weft_concat(0, 0, NULL), WEFT_ERR_ARG, "weft_concat: of 0 arrays");
  EXPECT_BAD(weft_concat(0, 2, NULL), WEFT_ERR_ARG, "weft_concat: of 2 arrays");
  EXPECT_BAD(weft_take(x, 0, NULL), WEFT_ERR_ARG, "weft_take: with 0 indices");
  EXPECT_BAD(weft_from(WEFT_F32, WEFT_DIMS(3), NULL), WEFT_ERR_ARG, "weft_from: the data is NULL");
  EXPECT_OK(weft_check(weft_from(WEFT_F32, WEFT_DIMS(0), NULL)));
  EXPECT_BAD(weft_full(WEFT_F32, 2, NULL, 0), WEFT_ERR_ARG, "weft_full: dims is NULL");
  EXPECT_BAD(weft_reshape(x, 2, NULL), WEFT_ERR_ARG, "weft_reshape: dims is NULL");
  EXPECT_BAD(weft_keep(NULL), WEFT_ERR_ARG, "weft_keep: the array is NULL");
  EXPECT_BAD(weft_rms_norm(NULL, x, 1e-5), WEFT_ERR_ARG, "weft_rms_norm: the array is NULL");
  EXPECT_BAD(weft_softmax(NULL, 0), WEFT_ERR_ARG, "weft_softmax: the array is NULL");
  EXPECT_BAD(weft_max(NULL, 0), WEFT_ERR_ARG, "weft_max: the array is NULL");
  EXPECT_BAD(weft_put(x, NULL, x, WEFT_SET), WEFT_ERR_ARG, "weft_put: argument 2 is NULL");
  EXPECT_BAD(weft_external(NULL, NULL, NULL), WEFT_ERR_ARG, "weft_external: the block is NULL");
  EXPECT_INT(weft_check(NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_rank(NULL), -1);
  EXPECT_INT(weft_dim(NULL, 0), -1);
  EXPECT_TEXT(weft_op(NULL), "bad");
  EXPECT(weft_own(NULL) == NULL);
  weft_update(NULL, x);
  weft_fetch(NULL, WEFT_F32, NULL, 0);
  weft_scope_discard(NULL);
  EXPECT_TEXT(weft_message(), "weft_scope_discard: the scope is NULL: there was no memory for it");
  weft_scope_discard(s);
}

TEST(the_first_cause_travels_through_an_expression) {
  weft_scope *s = weft_scope_open();
  weft_array *bad = weft_add(F32(2), F32(3));
  weft_array *y = weft_softmax(weft_matmul(weft_reshape(weft_sum(weft_exp(bad), 5), WEFT_DIMS(99)), NULL), 7);
  EXPECT_BAD(y, WEFT_ERR_SHAPE, "weft_add: shapes [2] and [3] do not broadcast");
  EXPECT_BAD(weft_layer_norm(F32(4), bad, NULL, 0), WEFT_ERR_SHAPE, "weft_add: shapes [2] and [3] do not broadcast");
  EXPECT_BAD(weft_layer_norm(F32(4), NULL, bad, 0), WEFT_ERR_SHAPE, "weft_add: shapes [2] and [3] do not broadcast");
  EXPECT_INT(weft_dtype_of(bad), WEFT_BOOL);
  EXPECT_INT(weft_rank(bad), -1);
  weft_scope_discard(s);
}

TEST(updates_outside_any_scope_are_an_error_that_says_so) {
  weft_array *x = F32(3);
  weft_update(x, x);
  weft_fetch(x, WEFT_F32, NULL, 12);
  struct weft_scope *root = scope_current();
  EXPECT_TEXT(failure_message(root->failure), "weft_update: no scope is open that could be closed");
  scope_leave();
}

TEST(strides_that_leave_the_address_space_are_refused) {
  weft_scope *s = weft_scope_open();
  float x[4];
  int64_t dims[] = { 4, 4 }, strides[] = { INT64_MAX / 2, 1 };
  weft_block b = { x, 0, WEFT_F32, 2, dims, strides };
  EXPECT_BAD(weft_external(&b, NULL, NULL), WEFT_ERR_ARG, "weft_external: strides that reach beyond memory");
  b.strides = NULL;
  EXPECT_BAD(weft_external(&b, NULL, NULL), WEFT_ERR_ARG, "weft_external: strides is NULL");
  b.strides = dims;
  b.device = 3;
  EXPECT_BAD(weft_external(&b, NULL, NULL), WEFT_ERR_DEVICE, "weft_external: there is no device 3");
  b.device = 0;
  b.data = (char *)x + 1;
  EXPECT_BAD(weft_external(&b, NULL, NULL), WEFT_ERR_ARG, "weft_external: the data is not aligned for f32");
  weft_scope_discard(s);
}
