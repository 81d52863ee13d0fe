/* errors.c -- what bad input gets: a bad array or a status, and a message that names the function and shows the input. */
#include <pthread.h>
#include <stdlib.h>
#include "test.h"
#include "op/op.h"
#include "weft.h"

#define F32(...) weft_input(WEFT_F32, WEFT_DIMS(__VA_ARGS__))

/* Bad, with this status and this message; NULL: any. */
#define EXPECT_BAD(array, status, message)              \
  do {                                                  \
    EXPECT_INT(weft_check(array), status);              \
    if (message) EXPECT_TEXT(weft_message(), message);  \
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
  EXPECT_BAD(weft_max(F32(3, 0), 1), WEFT_ERR_SHAPE, "weft_max: nothing to choose from in [3,0] along axis 1");
  EXPECT_BAD(weft_argmax(F32(0), WEFT_ALL), WEFT_ERR_SHAPE, "weft_argmax: nothing to choose from in [0]");
  EXPECT_BAD(weft_rms_norm(weft_scalar(1), NULL, 1e-5), WEFT_ERR_SHAPE, "weft_rms_norm: a 0-d array has no last axis");
  EXPECT_BAD(weft_rms_norm(x, F32(4), 1e-5), WEFT_ERR_SHAPE, "weft_rms_norm: [4] does not broadcast to [8,3]");
  EXPECT_BAD(weft_layer_norm(x, NULL, F32(2, 8, 3), 1e-5), WEFT_ERR_SHAPE,
             "weft_layer_norm: [2,8,3] does not broadcast to [8,3]");
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

TEST(axes_that_are_not_there_or_listed_twice_are_refused) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(8, 3);
  EXPECT_BAD(weft_over(weft_sum, x, WEFT_AXES(0, -2)), WEFT_ERR_SHAPE, "weft_over: axis 0 of [8,3] is listed twice");
  EXPECT_BAD(weft_over(weft_sum, x, WEFT_AXES(0, 2)), WEFT_ERR_SHAPE, "weft_over: there is no axis 2 in [8,3]");
  EXPECT_BAD(weft_over(weft_max, F32(8, 0), WEFT_AXES(0, 1)), WEFT_ERR_SHAPE, "weft_max: nothing to choose from in [8,0] along axis 1");
  EXPECT_BAD(weft_over(weft_argmax, F32(2, 0), WEFT_AXES(0, 1)), WEFT_ERR_SHAPE, "weft_argmax: nothing to choose from in [0]");
  EXPECT_BAD(weft_over(NULL, x, WEFT_AXES(0)), WEFT_ERR_ARG, "weft_over: the reduction is NULL");
  EXPECT_BAD(weft_over(weft_sum, x, 2, NULL), WEFT_ERR_ARG, "weft_over: 2 axes");
  EXPECT_BAD(weft_over(weft_sum, x, 33, (int[]){ 0 }), WEFT_ERR_ARG, "weft_over: 33 axes");
  EXPECT_BAD(weft_tensordot(x, x, 1, NULL, (int[]){ 0 }), WEFT_ERR_ARG, "weft_tensordot: 1 axes");
  EXPECT_BAD(weft_tensordot(x, x, 1, (int[]){ 0 }, NULL), WEFT_ERR_ARG, "weft_tensordot: 1 axes");
  EXPECT_BAD(weft_tensordot(x, x, -1, NULL, NULL), WEFT_ERR_ARG, "weft_tensordot: -1 axes");
  EXPECT_BAD(weft_tensordot(x, x, 33, (int[33]){ 0 }, (int[33]){ 0 }), WEFT_ERR_ARG, "weft_tensordot: 33 axes");
  EXPECT_BAD(weft_einsum(NULL, 1, &x), WEFT_ERR_ARG, "weft_einsum: the subscripts are NULL");
  EXPECT_BAD(weft_diagonal(x, 0, 1, -1), WEFT_ERR_SHAPE, "weft_diagonal: axis 1 of [8,3] is listed twice");
  EXPECT_BAD(weft_flatten(x, 1, 0), WEFT_ERR_SHAPE, "weft_flatten: axis 1 comes after axis 0 in [8,3]");
  EXPECT_BAD(weft_flatten(x, 0, 2), WEFT_ERR_SHAPE, "weft_flatten: there is no axis 2 in [8,3]");
  EXPECT_BAD(weft_stack(3, WEFT_ARRAYS(x, x)), WEFT_ERR_SHAPE, "weft_stack: no axis 3 in a stack of [8,3]");
  EXPECT_BAD(weft_stack(0, WEFT_ARRAYS(x, F32(8))), WEFT_ERR_SHAPE, "weft_stack: [8,3] and [8] differ");
  EXPECT_BAD(weft_stack(0, 0, NULL), WEFT_ERR_ARG, "weft_stack: of 0 arrays");
  EXPECT_BAD(weft_stack(0, 2, NULL), WEFT_ERR_ARG, "weft_stack: the list of 2 arrays is NULL");
  EXPECT_BAD(weft_roll(x, 2, 1), WEFT_ERR_SHAPE, "weft_roll: there is no axis 2 in [8,3]");
  EXPECT_BAD(weft_repeat(x, -3, 1), WEFT_ERR_SHAPE, "weft_repeat: there is no axis -3 in [8,3]");
  EXPECT_BAD(weft_var(x, 2, 0), WEFT_ERR_SHAPE, "weft_var: there is no axis 2 in [8,3]");
  EXPECT_BAD(weft_std(x, 0, -1), WEFT_ERR_ARG, "weft_std: ddof is -1");
  EXPECT_BAD(weft_var_over(x, WEFT_AXES(0, -2), 0), WEFT_ERR_SHAPE, "weft_var_over: axis 0 of [8,3] is listed twice");
  EXPECT_BAD(weft_std_over(x, WEFT_AXES(0, 1), -1), WEFT_ERR_ARG, "weft_std_over: ddof is -1");
  EXPECT_BAD(weft_log_softmax(x, WEFT_ALL), WEFT_ERR_SHAPE, "weft_log_softmax: along one axis, not all");
  EXPECT_BAD(weft_tril(F32(3), 0), WEFT_ERR_SHAPE, "weft_tril: [3] is no matrix");
  EXPECT_BAD(weft_diag(F32(3, 3, 3), 0), WEFT_ERR_SHAPE, "weft_diag: of a vector or a matrix, not of [3,3,3]");
  weft_scope_discard(s);
}

TEST(arrangements_beyond_bounds_or_memory_are_refused) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(8, 3), *i = weft_input(WEFT_I32, WEFT_DIMS(4, 1)), *part[3];
  const int64_t one[] = { 1, 1 }, far[] = { INT64_MAX, INT64_MAX };
  EXPECT_BAD(weft_as_strided(x, WEFT_DIMS(25), one, 0), WEFT_ERR_SHAPE, "weft_as_strided: element 24 is behind [8,3]");
  EXPECT_BAD(weft_as_strided(x, WEFT_DIMS(2), one, -1), WEFT_ERR_SHAPE, "weft_as_strided: element -1 is before [8,3]");
  EXPECT_BAD(weft_as_strided(x, WEFT_DIMS(9, 9), far, 0), WEFT_ERR_SHAPE,
             "weft_as_strided: element beyond 9223372036854775807 is behind [8,3]");
  EXPECT_BAD(weft_as_strided(F32(0), 0, NULL, NULL, 0), WEFT_ERR_SHAPE, "weft_as_strided: element 0 is behind [0]");
  EXPECT_BAD(weft_as_strided(x, WEFT_DIMS(2), NULL, 0), WEFT_ERR_ARG, "weft_as_strided: strides is NULL");
  EXPECT_BAD(weft_as_strided(x, WEFT_DIMS(-2), one, 0), WEFT_ERR_SHAPE, "weft_as_strided: the size -2 on axis 0 is negative");
  EXPECT_BAD(weft_as_strided(F32(WEFT_ANY), WEFT_DIMS(2), one, -1), WEFT_ERR_SHAPE, NULL);
  EXPECT_BAD(weft_take_along(x, 0, F32(2, 3)), WEFT_ERR_DTYPE, "weft_take_along: index 0 is f32, not an integer");
  EXPECT_BAD(weft_take_along(x, 1, i), WEFT_ERR_SHAPE, "weft_take_along: indices [4,1] do not fit beside axis 1 of [8,3]");
  EXPECT_BAD(weft_take_along(F32(8), 0, i), WEFT_ERR_SHAPE, "weft_take_along: indices [4,1] do not fit beside axis 0 of [8]");
  EXPECT_BAD(weft_repeat(x, 0, -1), WEFT_ERR_ARG, "weft_repeat: -1 times along axis 0");
  EXPECT_BAD(weft_repeat(x, 0, INT64_MAX), WEFT_ERR_SHAPE, "weft_repeat: 9223372036854775807 times along axis 0 are too many elements");
  EXPECT_BAD(weft_tile(x, 1, NULL), WEFT_ERR_ARG, "weft_tile: along 1 axes");
  EXPECT_BAD(weft_diag(F32(3), INT64_MAX), WEFT_ERR_SHAPE, NULL);
  weft_split(x, 0, 3, part);
  EXPECT_BAD(part[2], WEFT_ERR_SHAPE, "weft_split: axis 0 of [8,3] is not 3 equal parts");
  EXPECT_BAD(weft_arange(WEFT_F32, 0, 1, 0), WEFT_ERR_ARG, "weft_arange: the step is 0");
  EXPECT_BAD(weft_arange(WEFT_F32, 0, 1.0 / 0.0, 1), WEFT_ERR_ARG, "weft_arange: from 0 to inf in steps of 1");
  EXPECT_BAD(weft_arange(WEFT_F32, 0, 1e300, 1), WEFT_ERR_SHAPE, "weft_arange: from 0 to 1e+300 in steps of 1 are too many elements");
  EXPECT_BAD(weft_arange(WEFT_BOOL, 0, 2, 1), WEFT_ERR_DTYPE, "weft_arange: of numbers, not of bool");
  EXPECT_BAD(weft_linspace(WEFT_F32, 0, 1, -1), WEFT_ERR_SHAPE, "weft_linspace: the size -1 on axis 0 is negative");
  EXPECT_BAD(weft_eye(WEFT_F32, 3, -1, 0), WEFT_ERR_SHAPE, "weft_eye: the size -1 on axis 1 is negative");
  EXPECT_BAD(weft_tri((weft_dtype)99, 1, 1, 0), WEFT_ERR_DTYPE, "weft_tri: there is no dtype 99");
  EXPECT_BAD(weft_clip(x, NULL, F32(4)), WEFT_ERR_SHAPE, "weft_clip: shapes [8,3] and [4] do not broadcast");
  weft_scope_discard(s);
}

TEST(a_split_without_a_place_for_its_parts_is_told_to_the_scope) {
  weft_scope *s = weft_scope_open();
  weft_split(F32(4), 0, 2, NULL);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_split: the list of 2 parts is NULL");
  s = weft_scope_open();
  weft_split(F32(4), 0, 0, NULL);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
}

TEST(indices_that_are_known_to_be_out_of_range_are_refused_at_once) {
  weft_scope *s = weft_scope_open();
  EXPECT_BAD(weft_at(F32(4, 2), 0, weft_integer(4)), WEFT_ERR_INDEX,
             "weft_at: index 4 is out of range for axis 0 of [4,2]");
  EXPECT_BAD(weft_at(F32(4, 2), 0, weft_integer(-5)), WEFT_ERR_INDEX,
             "weft_at: index -5 is out of range for axis 0 of [4,2]");
  EXPECT_BAD(weft_at(F32(4), 0, weft_integer(INT64_MIN)), WEFT_ERR_INDEX,
             "weft_at: index -9223372036854775808 is out of range for axis 0 of [4]");
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
  EXPECT_BAD(weft_concat(0, 2, NULL), WEFT_ERR_ARG, "weft_concat: the list of 2 arrays is NULL");
  EXPECT_BAD(weft_take(x, 1, NULL), WEFT_ERR_ARG, "weft_take: the list of 1 indices is NULL");
  EXPECT_BAD(weft_sized(WEFT_F32, 1, NULL), WEFT_ERR_ARG, "weft_sized: the list of 1 arrays is NULL");
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
  EXPECT_INT(weft_describe(NULL, &(weft_dtype){ 0 }, (int64_t[WEFT_RANK_MAX]){ 0 }), -1);
  EXPECT_TEXT(weft_op(NULL), "bad");
  EXPECT(weft_own(NULL) == NULL);
  weft_update(NULL, x);
  weft_fetch(NULL, WEFT_F32, NULL, 0);
  weft_scope_discard(NULL);
  EXPECT_TEXT(weft_message(), "weft_scope_discard: the scope is NULL: there was no memory for it");
  weft_scope_discard(s);
}

/* Calls with several results, given lists that are not there: results are bad where there is a place for them. */
TEST(lists_that_are_null_or_of_negative_length_are_noticed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3), 2), *y = weft_exp(x), *out;
  weft_rules none = { 0 };
  weft_cost cost;
  weft_grad(y, 1, NULL, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_grad: the list of 1 arrays is NULL");
  weft_vjp(1, NULL, &y, 1, &x, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_vjp: the list of 1 arrays is NULL");
  weft_vjp(1, &y, NULL, 1, &x, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_vjp: the list of 1 arrays is NULL");
  weft_vjp(-2, &y, &y, 1, &x, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_vjp: -2 arrays");
  weft_jvp(1, &x, NULL, 1, &y, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_jvp: the list of 1 arrays is NULL");
  weft_jvp(1, &x, &x, 1, NULL, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_jvp: the list of 1 arrays is NULL");
  weft_map(1, NULL, &x, 1, &y, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_map: the list of 1 arrays is NULL");
  weft_map(-1, &x, &x, 1, &y, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_map: -1 arrays");
  out = y;
  weft_checkpoint(1, NULL, 1, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_checkpoint: the list of 1 arrays is NULL");
  out = y;
  weft_custom(1, NULL, 1, &out, &none);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_custom: the list of 1 arrays is NULL");
  EXPECT_INT(weft_plan(1, NULL, &cost), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_show(1, NULL, "graph"), "weft_show: the list of 1 arrays is NULL");
  EXPECT_INT(weft_operands(y, 1, NULL), 1);
  weft_scope_discard(s);
}

static int run_nothing(void *ctx, const weft_block in[], const weft_block out[]) { return (void)ctx, (void)in, (void)out, 0; }

TEST(functions_of_several_results_notice_where_there_is_no_place_for_one) {
  weft_scope *outer = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(2, 2), 2), *out;
  weft_host_function f = { .run = run_nothing };
  weft_code_form form = { 0 };
  for (int k = 0; k < 8; k++) {
    weft_scope *s = weft_scope_open();
    if (k == 7) weft_meshgrid(1, &x, 0, NULL);
    if (k == 0) weft_slogdet(x, NULL, NULL);
    if (k == 1) weft_quantize(x, &form, NULL, NULL, NULL);
    if (k == 2) weft_nonzero(x, NULL);
    if (k == 3) weft_host(&f, 1, &x, 1, &(weft_block){ .dtype = WEFT_F32 }, NULL);
    if (k == 4) weft_host_like(&f, 1, &x, 1, &x, NULL);
    if (k == 5) weft_host_like(&f, 1, NULL, 1, &x, &out);
    if (k == 6) weft_host_like(&f, 1, &x, 1, NULL, &out);
    EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  }
  weft_scope *s = weft_scope_open();
  weft_slogdet(x, NULL, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_slogdet: the place of a result is NULL");
  weft_quantize(x, NULL, &out, NULL, NULL);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_quantize: the place of a result is NULL");
  EXPECT_BAD(weft_histogramdd(1, &x, NULL, NULL, 0), WEFT_ERR_ARG, "weft_histogramdd: the list of 1 arrays is NULL");
  weft_scope_discard(s);
  weft_scope_discard(outer);
}

TEST(without_a_place_for_results_the_scope_is_told) {
  weft_scope *outer = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3), 2);
  for (int k = 0; k < 6; k++) {
    weft_scope *s = weft_scope_open();
    if (k == 0) weft_grad(x, 1, &x, NULL);
    if (k == 1) weft_vjp(1, &x, &x, 1, &x, NULL);
    if (k == 2) weft_jvp(1, &x, &x, 1, &x, NULL);
    if (k == 3) weft_map(1, &x, &x, 1, &x, NULL);
    if (k == 4) weft_checkpoint(1, &x, 1, NULL);
    if (k == 5) weft_custom(1, &x, -1, &x, NULL);
    EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  }
  weft_scope_discard(outer);
}

TEST(functions_take_and_give_lists_that_are_there) {
  weft_scope *outer = weft_scope_open(), *s = weft_scope_open(), *body = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3), 2), *out;
  weft_call(weft_compile(body, 1, NULL, 1, &x), 1, &x, 1, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_compile: the list of 1 arrays is NULL");
  body = weft_scope_open();
  weft_array *in = F32(3), *y = weft_exp(in);
  weft_function *f = weft_compile(body, 1, &in, 1, &y);
  weft_call(f, 1, NULL, 1, &out);
  EXPECT_BAD(out, WEFT_ERR_ARG, "weft_call: the list of 1 arrays is NULL");
  weft_call(f, 1, &x, 1, NULL);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_call: the list for 1 results is NULL");
  weft_call(f, 1, &x, 1, &out);
  EXPECT_BAD(out, WEFT_ERR_SCOPE, "weft_call: the function is used after the end of its scope");
  weft_function_disown(f);
  int n = -1;
  weft_function_arity(f, &n, NULL);
  EXPECT_INT(n, 0);
  weft_scope_discard(outer);
}

TEST(a_loop_that_was_closed_and_a_file_whose_scope_has_ended_are_noticed) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3), 2);
  weft_loop *loop = weft_loop_open(weft_integer(2));
  weft_loop_close(loop);
  weft_loop_close(loop);
  EXPECT_BAD(weft_loop_carry(loop, x), WEFT_ERR_SCOPE, "weft_loop_carry: the loop has been closed");
  EXPECT_BAD(weft_loop_each(loop, x), WEFT_ERR_SCOPE, "weft_loop_each: the loop has been closed");
  EXPECT_BAD(weft_loop_all(loop, x), WEFT_ERR_SCOPE, "weft_loop_all: the loop has been closed");
  EXPECT_BAD(weft_loop_last(loop, x), WEFT_ERR_SCOPE, "weft_loop_last: the loop has been closed");
  weft_loop_next(loop, x, x);
  weft_loop_until(loop, x);
  weft_file *file = weft_file_open("/dev/null/x.npy");
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_SCOPE);
  EXPECT_INT(weft_file_count(file), -1);
  EXPECT_TEXT(weft_message(), "weft_file_count: the file is used after the end of its scope");
}

TEST(an_index_out_of_range_names_the_function_that_was_called) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(4, 2), 1), *i = weft_from(WEFT_I32, 0, NULL, &(int32_t){ 4 });
  weft_array *bad[] = { weft_at(x, 0, i), weft_window(x, 0, i, 1), weft_take(x, 1, &i) };
  const char *says[] = { "weft_at: the index 4 at place 0 is out of range for an axis of 4",
                         "weft_window: the index 4 at place 0 is out of range for an axis of 4",
                         "weft_take: the index 4 at place 0 is out of range for an axis of 4" };
  for (int k = 0; k < 3; k++) {
    EXPECT_INT(weft_eval(1, &bad[k]), WEFT_ERR_INDEX);
    EXPECT_TEXT(weft_message(), says[k]);
  }
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
  EXPECT_TEXT(weft_message(), "weft_update: no scope is open that could be closed");
  weft_fetch(x, WEFT_F32, NULL, 12);
  EXPECT_TEXT(weft_message(), "weft_fetch: no scope is open that could be closed");
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
  EXPECT_INT(weft_check(weft_external(&b, NULL, NULL)), WEFT_ERR_DEVICE);
  EXPECT(strstr(weft_message(), "weft_external: there is no device 3: ") == weft_message());
  b.device = 0;
  b.data = (char *)x + 1;
  EXPECT_BAD(weft_external(&b, NULL, NULL), WEFT_ERR_ARG, "weft_external: the data is not aligned for f32");
  weft_scope_discard(s);
}

/* ---- The calls that compute, look or name: NULL, stale, bad, of another scope ---- */

static weft_array *stale_array(void) {
  weft_scope *s = weft_scope_open();
  weft_array *a = weft_full(WEFT_F32, WEFT_DIMS(3), 1);
  weft_scope_discard(s);
  return a;
}

static void refuse_everything(weft_array *a, weft_status status) {
  float x[3];
  weft_block block;
  weft_cost cost;
  weft_array *out[2] = { NULL, NULL };
  EXPECT_INT(weft_check(a), status);
  EXPECT_INT(weft_eval(1, &a), status);
  EXPECT_INT(weft_eval_async(1, &a), status);
  EXPECT_INT(weft_wait(1, &a, 0), status);
  EXPECT_INT(weft_read(a, WEFT_F32, x, sizeof x), status);
  EXPECT_INT(weft_pin(a, 0, &block), status);
  EXPECT_INT(weft_plan(1, &a, &cost), status);
  EXPECT_INT(weft_save("/tmp/weft-never-written.npy", 1, NULL, &a, NULL), status);
  EXPECT_INT(weft_state_of(a, NULL), WEFT_FAILED);
  EXPECT_INT(weft_rank(a), -1);
  EXPECT_INT(weft_dim(a, 0), -1);
  EXPECT_INT(weft_check(weft_size(a, 0)), status);
  EXPECT_TEXT(weft_show(1, &a, "value"), weft_message());
  EXPECT_TEXT(weft_show(1, &a, "plan"), weft_message());
  EXPECT_INT(weft_check(weft_alias(a)), status);
  EXPECT_INT(weft_check(weft_depends(a, 1, &a)), status);
  EXPECT_INT(weft_check(weft_stop_gradient(a)), status);
  EXPECT_INT(weft_operands(a, 1, out), 0);
  (void)weft_id(a);
  weft_unpin(a);
  weft_grad(a, 1, &a, out);
  EXPECT_INT(weft_check(out[0]), status);
  weft_jvp(1, &a, &a, 1, &a, out);
  EXPECT_INT(weft_check(out[0]), status);
  weft_map(1, &a, &a, 1, &a, out);
  EXPECT_INT(weft_check(out[0]), status);
  out[0] = a;
  weft_checkpoint(1, &a, 1, out);
  EXPECT_INT(weft_check(out[0]), status);
  weft_scope *s = weft_scope_open();
  weft_update(a, a);
  weft_fetch(a, WEFT_F32, x, sizeof x);
  weft_status closed = weft_scope_close(s);
  EXPECT(closed == status || closed == WEFT_OK); /* OK: it has been looked at before */
}

TEST(no_call_takes_an_array_that_is_none) {
  weft_scope *s = weft_scope_open();
  refuse_everything(NULL, WEFT_ERR_ARG);
  refuse_everything(stale_array(), WEFT_ERR_SCOPE);
  refuse_everything(weft_add(F32(2), F32(3)), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

TEST(lists_that_are_none_are_refused) {
  weft_scope *s = weft_scope_open();
  weft_cost cost;
  weft_array *x = F32(3), *out[1];
  EXPECT_INT(weft_eval(2, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_eval(-1, &x), WEFT_ERR_ARG);
  EXPECT_INT(weft_eval_async(2, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_wait(2, NULL, 0), WEFT_ERR_ARG);
  EXPECT_INT(weft_wait(-3, &x, 0), WEFT_ERR_ARG);
  EXPECT_INT(weft_plan(2, NULL, &cost), WEFT_ERR_ARG);
  EXPECT_INT(weft_plan(-7, &x, &cost), WEFT_ERR_ARG);
  EXPECT_INT(weft_plan(1, &x, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_save(NULL, 1, NULL, &x, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_save("/tmp/weft-never-written.npy", 1, NULL, NULL, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_save("/tmp/weft-never-written.npy", -1, NULL, &x, NULL), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_show(1, NULL, "graph"), weft_message());
  EXPECT_TEXT(weft_show(-2, &x, "graph"), "weft_show: nothing to show");
  EXPECT_TEXT(weft_show(1, &x, NULL), "weft_show: nothing to show");
  EXPECT_TEXT(weft_show(1, &x, "colour"), "weft_show: \"colour\" is none of value, graph, dot, plan, kernels, asm, ptx, sass, caches");
  EXPECT_BAD(weft_depends(x, 1, NULL), WEFT_ERR_ARG, weft_message());
  EXPECT_INT(weft_operands(x, 1, NULL), 0);
  weft_grad(x, 1, NULL, out);
  weft_grad(x, -1, &x, out);
  weft_call(NULL, 1, &x, 1, out);
  EXPECT_INT(weft_check(out[0]), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_function_show(NULL, "graph"), "weft_function_show: the function is NULL");
  int n = 7, m = 7;
  weft_function_arity(NULL, &n, &m);
  EXPECT_INT(n, 0);
  weft_function_disown(NULL);
  EXPECT(weft_function_own(NULL) == NULL);
  weft_disown(NULL);
  weft_scope_discard(s);
}

TEST(a_file_that_is_none_is_refused) {
  weft_scope *s = weft_scope_open();
  const char *key, *value;
  weft_file *f[] = { NULL, weft_file_open(NULL), weft_file_open("/nowhere/at/all.npy") };
  for (int i = 0; i < 3; i++) {
    weft_status status = i < 2 ? WEFT_ERR_ARG : WEFT_ERR_FILE;
    EXPECT_INT(weft_file_count(f[i]), -1);
    EXPECT(weft_file_name(f[i], 0) == NULL);
    EXPECT_INT(weft_file_meta(f[i], 0, &key, &value), 0);
    EXPECT_INT(weft_check(weft_file_get(f[i], NULL)), status);
    EXPECT_INT(weft_check(weft_file_get(f[i], "w")), status);
  }
  weft_scope_discard(s);
}

TEST(settings_that_make_no_sense_are_refused) {
  EXPECT_INT(weft_get((weft_setting)99), -1);
  EXPECT_INT(weft_set((weft_setting)-1, 1), -1);
  EXPECT_INT(weft_set(WEFT_DEVICE, 1000), -1);
  EXPECT_INT(weft_set(WEFT_DEVICE, -1), -1);
  EXPECT(strstr(weft_message(), "weft_set: there is no device -1: "));
  EXPECT_INT(weft_set(WEFT_THREADS, 0), -1);
  EXPECT_TEXT(weft_message(), "weft_set: 1 to 1024 threads, not 0");
  EXPECT_INT(weft_set(WEFT_THREADS, INT64_MAX), -1);
  EXPECT_INT(weft_set(WEFT_NODES, 0), -1);
  EXPECT_INT(weft_set(WEFT_BYTES_USED, 0), -1);
  EXPECT(!strncmp(weft_device_text(0), "CPU, ", 5) && strstr(weft_device_text(0), "MiB"));
  EXPECT(!strncmp(weft_version_text(), "weft 0.1.0 (", 12) && strstr(weft_version_text(), "kernels by the "));
  EXPECT(strstr(weft_version_text(), weft_device_text(0)) != NULL);
  EXPECT(weft_device_text(-1) == NULL);
  EXPECT(weft_device_text(1000) == NULL);
}

TEST(loops_misused_are_bad_arrays) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_full(WEFT_F32, WEFT_DIMS(3), 1);
  EXPECT_INT(weft_check(weft_loop_each(NULL, x)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_loop_carry(NULL, x)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_loop_all(NULL, x)), WEFT_ERR_ARG);
  EXPECT_INT(weft_check(weft_loop_last(NULL, x)), WEFT_ERR_ARG);
  weft_loop_next(NULL, x, x);
  weft_loop_until(NULL, x);
  weft_loop_close(NULL);
  weft_loop *l = weft_loop_open(x);
  weft_array *y = weft_loop_last(l, weft_loop_carry(l, x));
  weft_loop_close(l);
  EXPECT(weft_check(y) != WEFT_OK); /* steps of 3 numbers */
  l = weft_loop_open(weft_integer(-5));
  y = weft_loop_last(l, weft_loop_carry(l, x));
  weft_loop_close(l);
  EXPECT(weft_eval(1, &y) != WEFT_OK);
  l = weft_loop_open(weft_integer(2));
  weft_array *c = weft_loop_carry(l, x);
  weft_loop_next(l, x, x);
  weft_loop_next(l, NULL, c);
  weft_loop_until(l, x);
  EXPECT(weft_check(weft_loop_each(l, NULL)) != WEFT_OK);
  weft_loop_close(l);
  weft_scope_discard(s);
}

TEST(an_unpin_without_a_pin_does_nothing) {
  weft_scope *s = weft_scope_open();
  weft_block block;
  float one[3] = { 1, 1, 1 };
  weft_array *x = weft_from(WEFT_F32, WEFT_DIMS(3), one), *same = weft_alias(x);
  EXPECT_OK(weft_eval(1, &x));
  for (int i = 0; i < 3; i++) weft_unpin(x);
  EXPECT_OK(weft_pin(x, 0, &block));
  for (int i = 0; i < 3; i++) weft_unpin(same);
  EXPECT_INT(weft_check(x), WEFT_OK);
  EXPECT(((float *)block.data)[2] == 1);
  weft_scope *step = weft_scope_open(); /* what is pinned stays, whatever the array is now */
  weft_update(x, weft_add(x, x));
  EXPECT_OK(weft_scope_close(step));
  EXPECT(((float *)block.data)[2] == 1);
  for (int i = 0; i < 3; i++) weft_unpin(x);
  EXPECT_INT(weft_pin(x, 7, &block), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_pin(x, -1, &block), WEFT_ERR_DEVICE);
  EXPECT_INT(weft_pin(x, 0, NULL), WEFT_ERR_ARG);
  EXPECT_INT(weft_pin(weft_scalar(1), 0, &block), WEFT_ERR_UNSUPPORTED);
  weft_scope_discard(s);
}

TEST(reading_with_the_wrong_type_or_length_is_refused) {
  weft_scope *s = weft_scope_open();
  float x[3];
  weft_array *a = weft_full(WEFT_F32, WEFT_DIMS(3), 1);
  EXPECT_INT(weft_read(a, (weft_dtype)99, x, sizeof x), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_read(a, WEFT_F64, x, sizeof x), WEFT_ERR_DTYPE);
  EXPECT_INT(weft_read(a, WEFT_F32, x, 4), WEFT_ERR_ARG);
  EXPECT_INT(weft_read(a, WEFT_F32, x, SIZE_MAX), WEFT_ERR_ARG);
  EXPECT_INT(weft_read(a, WEFT_F32, NULL, sizeof x), WEFT_ERR_ARG);
  EXPECT_OK(weft_read(weft_full(WEFT_F32, WEFT_DIMS(0), 1), WEFT_F32, NULL, 0));
  weft_scope_discard(s);
}

/* ---- Too large ---- */

TEST(what_does_not_fit_into_memory_is_an_error_and_the_next_thing_works) {
  if (weft_get(WEFT_DEVICE)) return test_skip("the limit is that of the host");
  weft_scope *s = weft_scope_open();
  int64_t n = INT64_C(1) << 60;
  weft_array *x = weft_full(WEFT_BOOL, WEFT_DIMS(n), 1), *i = weft_iota(weft_full(WEFT_I64, WEFT_DIMS(n), 0), 0);
  weft_array *many[] = { weft_not(x), weft_add(i, i), weft_cumsum(i, 0), weft_flip(weft_cast(i, WEFT_U8), 0),
                         weft_matmul(weft_full(WEFT_F32, WEFT_DIMS(1 << 30, 1), 1), weft_full(WEFT_F32, WEFT_DIMS(1, 1 << 30), 1)),
                         weft_concat(0, WEFT_ARRAYS(i, i)), weft_pad(i, 0, 1, 1, weft_integer(0)), weft_mul(weft_reshape(i, WEFT_DIMS(1 << 30, 1 << 30)), i) };
  for (int k = 0; k < (int)(sizeof many / sizeof *many); k++) {
    weft_status status = weft_eval(1, &many[k]);
    if (status != WEFT_ERR_MEMORY && status != WEFT_ERR_SHAPE)
      test_fail(__FILE__, __LINE__, "case %d: status %d: %s", k, status, weft_message());
    weft_status before = weft_check(many[k]); /* it fails in the background at once */
    EXPECT_INT(weft_eval_async(1, &many[k]), before);
    EXPECT(weft_wait(1, &many[k], -1) != WEFT_OK);
  }
  (void)!weft_wait(0, NULL, -1);
  float y = 0;
  EXPECT_OK(weft_read(weft_add(weft_scalar(1), weft_scalar(2)), WEFT_F32, &y, 4));
  EXPECT(y == 3);
  weft_scope_discard(s);
}

TEST(a_function_composed_of_others_says_itself_what_is_wrong) {
  float zeros[12] = { 0 };
  weft_scope *s = weft_scope_open();
  weft_array *v3 = weft_from(WEFT_F32, WEFT_DIMS(3), zeros), *v2 = weft_from(WEFT_F32, WEFT_DIMS(2), zeros);
  weft_array *m = weft_from(WEFT_F32, WEFT_DIMS(3, 4), zeros), *none = weft_from(WEFT_F32, WEFT_DIMS(0), zeros), *key = weft_random_key(1);
  const struct { weft_array *y; const char *message; } calls[] = {
    { weft_addmm(v2, m, weft_reshape(m, 2, (int64_t[]){ 4, 3 }), 1, 1), "weft_addmm: shapes [2] and [3,3] do not broadcast" },
    { weft_inner(weft_cast(v2, WEFT_C64), m), "weft_inner: the last axes differ: [2] and [3,4]" },
    { weft_nanmax(none, 0), "weft_nanmax: nothing to choose from in [0]" },
    { weft_nanargmin(none, 0), "weft_nanargmin: nothing to choose from in [0]" },
    { weft_nan_to_num(v3, v2, NULL, NULL), "weft_nan_to_num: shapes [3], [2] and [3] do not broadcast" },
    { weft_hyp2f1(v2, v3, v2, v2), "weft_hyp2f1: shapes [2] and [3] do not broadcast" },
    { weft_random_shuffle(v2, v3, 0), "weft_random_shuffle: a key is u32 [2], not f32 [2]; see weft_random_key" },
    { weft_random_multivariate_normal(key, NULL, weft_cast(v3, WEFT_C64), weft_from(WEFT_F32, WEFT_DIMS(3, 3), zeros)),
      "weft_random_multivariate_normal: not of c64" },
    { weft_add(v2, v3), "weft_add: shapes [2] and [3] do not broadcast" }, /* after them it has its own name */
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    EXPECT(weft_check(calls[i].y) != WEFT_OK);
    EXPECT_TEXT(weft_message(), calls[i].message);
  }
  weft_scope_discard(s);
}

TEST(an_evaluation_that_fails_names_the_function_that_was_called) {
  static const char said[] = ": a weft_input f32 [2] is a name, not a value: call the function";
  weft_scope *s = weft_scope_open(), *step = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(2)), *y = weft_exp(x);
  float values[2];
  weft_block block;
  EXPECT_INT(weft_eval(1, &y), WEFT_ERR_NO_VALUE);
  EXPECT(!strncmp(weft_message(), "weft_eval", 9) && !strcmp(weft_message() + 9, said));
  EXPECT_INT(weft_read(y, WEFT_F32, values, sizeof values), WEFT_ERR_NO_VALUE);
  EXPECT(!strncmp(weft_message(), "weft_read", 9) && !strcmp(weft_message() + 9, said));
  EXPECT(!strncmp(weft_show(1, &y, "value"), "weft_show", 9));
  EXPECT_INT(weft_pin(y, 0, &block), WEFT_ERR_NO_VALUE);
  EXPECT(!strncmp(weft_message(), "weft_pin", 8) && !strcmp(weft_message() + 8, said));
  EXPECT_INT(weft_save("/tmp/weft-never-written.npy", 1, NULL, &y, NULL), WEFT_ERR_NO_VALUE);
  EXPECT(!strncmp(weft_message(), "weft_save", 9) && !strcmp(weft_message() + 9, said));
  weft_fetch(y, WEFT_F32, values, sizeof values);
  EXPECT_INT(weft_scope_close(step), WEFT_ERR_NO_VALUE);
  EXPECT(!strncmp(weft_message(), "weft_scope_close", 16) && !strcmp(weft_message() + 16, said));
  weft_scope_discard(s);
}

TEST(what_nobody_asked_for_is_not_stored_beyond_the_limit) {
  if (weft_get(WEFT_DEVICE)) return test_skip("the limit is that of the host");
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_exp(weft_mul(weft_arange(WEFT_F32, 0, 1 << 20, 1), weft_scalar(1e-6))), *y[3];
  for (int i = 0; i < 3; i++) y[i] = weft_sum(weft_add(x, weft_scalar(i)), WEFT_ALL);
  int64_t before = weft_set(WEFT_BYTES_LIMIT, weft_get(WEFT_BYTES_USED) + (1 << 20));
  float sum;
  EXPECT_INT(weft_eval(1, &x), WEFT_ERR_MEMORY);
  for (int i = 0; i < 2; i++) EXPECT_OK(weft_read(y[i], WEFT_F32, &sum, sizeof sum)); /* x would be stored for the next */
  EXPECT_INT(weft_state_of(x, NULL), WEFT_LAZY);
  EXPECT_OK(weft_eval_async(1, &y[2]));
  EXPECT_OK(weft_wait(1, &y[2], -1));
  weft_set(WEFT_BYTES_LIMIT, before);
  EXPECT_OK(weft_eval(1, &x));
  weft_scope_discard(s);
}

TEST(beyond_the_limit_is_an_error_and_below_it_works) {
  if (weft_get(WEFT_DEVICE)) return test_skip("the limit is that of the host");
  weft_scope *s = weft_scope_open();
  int64_t before = weft_set(WEFT_BYTES_LIMIT, 1 << 20);
  float y[4];
  weft_array *large = weft_exp(weft_full(WEFT_F32, WEFT_DIMS(1 << 20), 0)), *small = weft_exp(weft_full(WEFT_F32, WEFT_DIMS(4), 0));
  EXPECT_INT(weft_eval(1, &large), WEFT_ERR_MEMORY);
  EXPECT_OK(weft_check(large));
  EXPECT_INT(weft_check(weft_from(WEFT_U8, WEFT_DIMS(2 << 20), large)), WEFT_ERR_MEMORY);
  EXPECT_OK(weft_read(small, WEFT_F32, y, sizeof y));
  EXPECT(y[3] == 1);
  weft_set(WEFT_BYTES_LIMIT, 0);
  weft_array *next = weft_add(small, small);
  EXPECT_INT(weft_eval(1, &next), WEFT_ERR_MEMORY);
  weft_set(WEFT_BYTES_LIMIT, before);
  EXPECT_OK(weft_eval(WEFT_ARRAYS(large, next)));
  weft_scope_discard(s);
}

/* What a scope is for happens as a whole: an update that could not be declared is not left out because its cause was looked at. */
TEST(a_scope_whose_update_is_bad_is_not_closed_although_the_error_was_seen) {
  weft_scope *s = weft_scope_open();
  float one[2] = { 1, 2 }, got[2] = { 0 };
  weft_array *a = weft_from(WEFT_F32, WEFT_DIMS(2), one), *b = weft_from(WEFT_F32, WEFT_DIMS(2), one);
  weft_array *bad = weft_add(a, weft_from(WEFT_F32, WEFT_DIMS(1, 3), (float[]){ 1, 2, 3 }));
  EXPECT_INT(weft_check(weft_matmul(bad, a)), WEFT_ERR_SHAPE);
  for (int how = 0; how < 4; how++) {
    weft_scope *step = weft_scope_open();
    weft_update(a, weft_add(a, weft_scalar(1)));
    if (how < 2) weft_update(b, weft_reshape(bad, WEFT_DIMS(2)));
    else weft_fetch(weft_reshape(bad, WEFT_DIMS(2)), WEFT_F32, got, sizeof got);
    EXPECT(how % 2 ? weft_scope_close_async(step) : weft_scope_close(step));
  }
  EXPECT_OK(weft_read(a, WEFT_F32, got, sizeof got));
  EXPECT(got[0] == 1 && got[1] == 2);
  weft_scope_discard(s);
}

static void *said_of_environment(void *said) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_add(weft_from(WEFT_F32, WEFT_DIMS(2), (float[]){ 1, 2 }), weft_scalar(1));
  snprintf(said, 200, "%s", weft_eval(1, &y) == WEFT_ERR_ARG ? weft_message() : "");
  weft_scope_discard(s);
  return NULL;
}

/* What the first evaluation of a thread says where the variable is this; "" if it runs. */
static const char *environment_says(const char *variable, const char *value) {
  static char said[200];
  pthread_t t;
  char *before = getenv(variable) ? strdup(getenv(variable)) : NULL;
  setenv(variable, value, 1);
  EXPECT_INT(pthread_create(&t, NULL, said_of_environment, said), 0);
  pthread_join(t, NULL);
  if (before) setenv(variable, before, 1);
  else unsetenv(variable);
  free(before);
  return said;
}

/* A slip of the pen must not run on all cores, by machine code, unchecked or silently. */
TEST(a_variable_of_the_environment_that_is_not_understood_is_an_error) {
  EXPECT_TEXT(environment_says("WEFT_THREADS", "abc"),
              "weft_eval: the environment variable WEFT_THREADS is \"abc\": it takes a number of threads, 1 or more");
  EXPECT_TEXT(environment_says("WEFT_JIT", "off"), "weft_eval: the environment variable WEFT_JIT is \"off\": it takes one of 0, 1, avx2");
  EXPECT_TEXT(environment_says("WEFT_SHOW", "plan,kernel"),
              "weft_eval: the environment variable WEFT_SHOW is \"plan,kernel\": it takes any of plan, kernels, asm, ptx, sass");
  static const char *const wrong[][2] = { { "WEFT_THREADS", "0" }, { "WEFT_THREADS", "-2" }, { "WEFT_THREADS", "2x" }, { "WEFT_THREADS", " 2" },
    { "WEFT_FUSE", "no" }, { "WEFT_CHECK", "NaN" }, { "WEFT_CHECK", "nan,inf" }, { "WEFT_CHECK", "na" }, { "WEFT_READ", "read" },
    { "WEFT_SHOW", "plan," }, { "WEFT_SHOW", "graph" }, { "WEFT_JIT", "avx" }, { "WEFT_JIT", ", " } };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) EXPECT(strstr(environment_says(wrong[i][0], wrong[i][1]), wrong[i][0]));
  static const char *const right[][2] = { { "WEFT_THREADS", "2" }, { "WEFT_THREADS", "100000" }, { "WEFT_THREADS", "" }, { "WEFT_JIT", "1" },
    { "WEFT_JIT", "avx2" }, { "WEFT_FUSE", "1" }, { "WEFT_CHECK", "inf" }, { "WEFT_CHECK", "0" }, { "WEFT_READ", "pread" } };
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) EXPECT_TEXT(environment_says(right[i][0], right[i][1]), "");
}

/* weft_sized computes a size that nobody knows: what goes wrong there is the status, and not that there is no value yet. */
TEST(a_size_that_cannot_be_computed_says_why) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_from(WEFT_I64, WEFT_DIMS(3), (int64_t[]){ 1, 2, 9 });
  weft_array *n = weft_at(x, 0, weft_at(x, 0, weft_integer(2)));
  EXPECT_BAD(weft_sized(WEFT_F32, 1, &n), WEFT_ERR_INDEX, "weft_sized: size 0: weft_at: the index 9 at place 0 is out of range for an axis of 3");
  n = weft_assert(weft_at(x, 0, weft_integer(1)), weft_lt(weft_sum(x, WEFT_ALL), weft_integer(10)), "too many");
  EXPECT_BAD(weft_sized(WEFT_F32, 1, &n), WEFT_ERR_ASSERT, "weft_sized: size 0: too many");
  volatile int stop = 1;
  weft_cancel_when(&stop);
  n = weft_sum(x, WEFT_ALL);
  EXPECT_BAD(weft_sized(WEFT_F32, 1, &n), WEFT_ERR_CANCELLED, "weft_sized: size 0: weft_read: cancelled");
  weft_cancel_when(NULL);
  EXPECT_INT(weft_dim(weft_sized(WEFT_F32, 1, &n), 0), 12);
  weft_scope_discard(s);
}
