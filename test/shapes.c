/* shapes.c -- what operations infer without computing: shapes, dtypes, symbolic sizes, which node comes out. */
#include "values.h"
#include "graph/shape.h"
#include "op/op.h"
#include "weft.h"

static weft_array *input(weft_dtype d, int rank, const int64_t dims[]) { return weft_input(d, rank, dims); }
#define F32(...) input(WEFT_F32, WEFT_DIMS(__VA_ARGS__))

static const char *shape(weft_array *a) {
  static struct shape_text text[4];
  static int next;
  if (weft_check(a)) return weft_message();
  return shape_show(a->node, &text[next++ % 4]);
}

TEST(operands_broadcast_from_the_right_and_only_ones_stretch) {
  weft_scope *s = weft_scope_open();
  EXPECT_TEXT(shape(weft_add(F32(3, 1, 5), F32(4, 5))), "[3,4,5]");
  EXPECT_TEXT(shape(weft_add(F32(3, 0), F32(1))), "[3,0]");
  EXPECT_TEXT(shape(weft_where(F32(1), F32(2, 1), F32(1, 3))), "[2,3]");
  EXPECT_TEXT(shape(weft_mul(weft_input(WEFT_F32, 0, NULL), weft_scalar(1))), "[]");
  weft_array *y = weft_add(F32(3, 1), F32(3, 4));
  EXPECT_TEXT(weft_op(y), "add");
  EXPECT(y->node->in[0]->op == &op_broadcast && y->node->in[1]->op == &op_input);
  weft_scope_discard(s);
}

TEST(sizes_that_meet_are_taken_to_be_equal_and_a_number_wins) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(WEFT_ANY, 4), *y = F32(WEFT_ANY, 4);
  EXPECT_OK(weft_check(weft_add(x, x)));
  EXPECT_OK(weft_check(weft_add(x, F32(1, 4))));
  EXPECT_OK(weft_check(weft_add(x, weft_sum(x, 0))));
  EXPECT(weft_add(x, y)->node->dims[0] == x->node->dims[0]);
  EXPECT_INT(weft_dim(weft_add(x, F32(3, 4)), 0), 3);
  EXPECT_INT(weft_dim(weft_add(F32(3, 4), x), 0), 3);
  EXPECT_INT(weft_check(weft_add(x, F32(WEFT_ANY, 5))), WEFT_ERR_SHAPE);
  EXPECT_INT(weft_dim(x, 0), -1);
  EXPECT_INT(weft_dim(x, -1), 4);
  weft_scope_discard(s);
}

/* Row and column by the order of weft_dtype. MLX has no c128: there f64 with c64 gives c64, here nothing is lost. Nor has it floats
 * of 8 bits: the other float has the bits of both, and two of different kinds meet in f32, as f16 and bf16 do. */
TEST(promotion_is_that_of_mlx) {
  enum { B, U8, U16, U32, U64, I8, I16, I32, I64, F16, F32, F64, BF, E4, E5, C64, C128, N };
  static const uint8_t table[N][N] = {
    /*        bool  u8    u16   u32   u64   i8    i16   i32   i64   f16   f32   f64   bf16  e4m3  e5m2  c64   c128 */
    [B]    = { B,    U8,   U16,  U32,  U64,  I8,   I16,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [U8]   = { U8,   U8,   U16,  U32,  U64,  I16,  I16,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [U16]  = { U16,  U16,  U16,  U32,  U64,  I32,  I32,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [U32]  = { U32,  U32,  U32,  U32,  U64,  I64,  I64,  I64,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [U64]  = { U64,  U64,  U64,  U64,  U64,  F32,  F32,  F32,  F32,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [I8]   = { I8,   I16,  I32,  I64,  F32,  I8,   I16,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [I16]  = { I16,  I16,  I32,  I64,  F32,  I16,  I16,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [I32]  = { I32,  I32,  I32,  I64,  F32,  I32,  I32,  I32,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [I64]  = { I64,  I64,  I64,  I64,  F32,  I64,  I64,  I64,  I64,  F16,  F32,  F64,  BF,   E4,   E5,   C64,  C128 },
    [F16]  = { F16,  F16,  F16,  F16,  F16,  F16,  F16,  F16,  F16,  F16,  F32,  F64,  F32,  F16,  F16,  C64,  C128 },
    [F32]  = { F32,  F32,  F32,  F32,  F32,  F32,  F32,  F32,  F32,  F32,  F32,  F64,  F32,  F32,  F32,  C64,  C128 },
    [F64]  = { F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  F64,  C128, C128 },
    [BF]   = { BF,   BF,   BF,   BF,   BF,   BF,   BF,   BF,   BF,   F32,  F32,  F64,  BF,   BF,   BF,   C64,  C128 },
    [E4]   = { E4,   E4,   E4,   E4,   E4,   E4,   E4,   E4,   E4,   F16,  F32,  F64,  BF,   E4,   F32,  C64,  C128 },
    [E5]   = { E5,   E5,   E5,   E5,   E5,   E5,   E5,   E5,   E5,   F16,  F32,  F64,  BF,   F32,  E5,   C64,  C128 },
    [C64]  = { C64,  C64,  C64,  C64,  C64,  C64,  C64,  C64,  C64,  C64,  C64,  C128, C64,  C64,  C64,  C64,  C128 },
    [C128] = { C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128 },
  };
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++) {
      weft_scope *s = weft_scope_open();
      weft_array *x = weft_full((weft_dtype)a, WEFT_DIMS(2), 1), *y = weft_full((weft_dtype)b, WEFT_DIMS(2), 1);
      if ((int)weft_dtype_promote((weft_dtype)a, (weft_dtype)b) != table[a][b])
        test_fail(__FILE__, __LINE__, "%s with %s gives %s", weft_dtype_name((weft_dtype)a), weft_dtype_name((weft_dtype)b),
                  weft_dtype_name(weft_dtype_promote((weft_dtype)a, (weft_dtype)b)));
      EXPECT_INT(weft_dtype_of(weft_mul(x, y)), table[a][b]);
      EXPECT_INT(weft_dtype_of(weft_where(x, y, x)), table[a][b]);
      EXPECT_INT(weft_dtype_of(weft_concat(0, WEFT_ARRAYS(x, y))), table[a][b]);
      weft_scope_discard(s);
    }
}

/* 2, 2.5 and 1i take the dtype of their partner, unless it is of a lower class. */
TEST(numbers_of_every_kind_meet_every_dtype) {
  for (int d = WEFT_BOOL; d <= WEFT_C128; d++) {
    weft_scope *s = weft_scope_open();
    weft_array *x = weft_full((weft_dtype)d, WEFT_DIMS(2), 1), *i = weft_complex(weft_scalar(0), weft_integer(1));
    EXPECT_INT(weft_dtype_of(weft_mul(x, weft_integer(2))), d == WEFT_BOOL ? WEFT_I32 : d);
    EXPECT_INT(weft_dtype_of(weft_mul(weft_scalar(2.5), x)), d < WEFT_F16 ? WEFT_F32 : d);
    EXPECT_INT(weft_dtype_of(weft_mul(x, i)), d == WEFT_F64 || d == WEFT_C128 ? WEFT_C128 : WEFT_C64);
    EXPECT_INT(weft_dtype_of(weft_mul(i, weft_scalar(2.5))), WEFT_C64);
    EXPECT_INT(weft_dtype_of(weft_where(x, i, x)), d == WEFT_F64 || d == WEFT_C128 ? WEFT_C128 : WEFT_C64);
    weft_scope_discard(s);
  }
}

static weft_dtype with(weft_dtype d, weft_array *number) {
  return weft_dtype_of(weft_add(weft_input(d, WEFT_DIMS(2)), number));
}

TEST(numbers_take_the_dtype_of_their_partner) {
  weft_scope *s = weft_scope_open();
  EXPECT_INT(with(WEFT_BF16, weft_scalar(0.1)), WEFT_BF16);
  EXPECT_INT(with(WEFT_F64, weft_scalar(0.1)), WEFT_F64);
  EXPECT_INT(with(WEFT_I8, weft_scalar(0.5)), WEFT_F32);
  EXPECT_INT(with(WEFT_BOOL, weft_scalar(0.5)), WEFT_F32);
  EXPECT_INT(with(WEFT_U8, weft_integer(200)), WEFT_U8);
  EXPECT_INT(with(WEFT_BOOL, weft_integer(2)), WEFT_I32);
  EXPECT_INT(with(WEFT_BOOL, weft_integer((int64_t)1 << 40)), WEFT_I64);
  EXPECT_INT(with(WEFT_F16, weft_integer(2)), WEFT_F16);
  EXPECT_INT(weft_dtype_of(weft_add(weft_scalar(1), weft_integer(1))), WEFT_F32);
  EXPECT_INT(weft_dtype_of(weft_add(weft_integer(1), weft_integer(1))), WEFT_I32);
  EXPECT_INT(weft_dtype_of(weft_scalar(1)), WEFT_F32);
  weft_array *y = weft_mul(weft_input(WEFT_F64, WEFT_DIMS(2)), weft_scalar(0.1));
  double kept;
  memcpy(&kept, y->node->in[1]->in[0]->attr, sizeof kept);
  EXPECT(kept == 0.1);
  EXPECT_INT(weft_check(weft_add(weft_input(WEFT_U8, WEFT_DIMS(2)), weft_integer(300))), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_add: 300 does not fit u8");
  weft_scope_discard(s);
}

TEST(result_dtypes_follow_the_class_of_the_operation) {
  weft_scope *s = weft_scope_open();
  weft_array *i = weft_input(WEFT_I16, WEFT_DIMS(4)), *b = weft_input(WEFT_BOOL, WEFT_DIMS(4)),
             *h = weft_input(WEFT_BF16, WEFT_DIMS(4));
  EXPECT_INT(weft_dtype_of(weft_div(i, i)), WEFT_F32);
  EXPECT_INT(weft_dtype_of(weft_exp(b)), WEFT_F32);
  EXPECT_INT(weft_dtype_of(weft_exp(h)), WEFT_BF16);
  EXPECT_INT(weft_dtype_of(weft_lt(i, h)), WEFT_BOOL);
  EXPECT_INT(weft_dtype_of(weft_sum(b, 0)), WEFT_I32);
  EXPECT_INT(weft_dtype_of(weft_sum(i, 0)), WEFT_I32);
  EXPECT_INT(weft_dtype_of(weft_sum(h, 0)), WEFT_BF16);
  EXPECT_INT(weft_dtype_of(weft_mean(i, 0)), WEFT_F32);
  EXPECT_INT(weft_dtype_of(weft_mean(h, 0)), WEFT_BF16);
  EXPECT_INT(weft_dtype_of(weft_softmax(h, 0)), WEFT_BF16);
  EXPECT_INT(weft_dtype_of(weft_argmax(h, 0)), WEFT_I64);
  EXPECT_INT(weft_dtype_of(weft_all(h, 0)), WEFT_BOOL);
  EXPECT_INT(weft_dtype_of(weft_max(b, 0)), WEFT_BOOL);
  EXPECT_INT(weft_dtype_of(weft_cummax(b, 0)), WEFT_BOOL);
  EXPECT_INT(weft_dtype_of(weft_not(i)), WEFT_I16);
  EXPECT_INT(weft_dtype_of(weft_isnan(i)), WEFT_BOOL);
  EXPECT_INT(weft_dtype_of(weft_logsumexp(i, 0)), WEFT_F32);
  EXPECT_INT(weft_dtype_of(weft_matmul(h, h)), WEFT_BF16);
  weft_scope_discard(s);
}

TEST(reductions_keep_their_axis_and_all_gives_a_scalar) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(2, 3, 4);
  EXPECT_TEXT(shape(weft_sum(x, 1)), "[2,1,4]");
  EXPECT_TEXT(shape(weft_max(x, -1)), "[2,3,1]");
  EXPECT_TEXT(shape(weft_mean(x, WEFT_ALL)), "[]");
  EXPECT_TEXT(shape(weft_argmax(x, WEFT_ALL)), "[]");
  EXPECT_TEXT(shape(weft_cumsum(x, 0)), "[2,3,4]");
  EXPECT_TEXT(shape(weft_sum(F32(0), 0)), "[1]");
  weft_array *all = weft_sum(x, WEFT_ALL), *last = NULL;
  while (weft_operands(all, 1, &last) && weft_op(last)[0] == 's') all = last;
  EXPECT_INT(((struct axis_attr *)all->node->attr)->axis, 2);
  weft_scope_discard(s);
}

TEST(mean_divides_by_the_size_and_not_by_a_constant) {
  weft_scope *s = weft_scope_open();
  weft_array *y = weft_mean(F32(WEFT_ANY, 5), 0);
  const struct node *n = y->node->in[1];
  while (n->op != &op_size && n->n_in) n = n->in[0];
  EXPECT(n->op == &op_size);
  EXPECT(!dim_is_known(((struct size_attr *)n->attr)->size));
  weft_scope_discard(s);
}

TEST(views_infer_their_shapes_also_of_unknown_sizes) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(2, 3, 4), *u = F32(WEFT_ANY, WEFT_ANY, 12);
  struct shape_text a;
  EXPECT_TEXT(shape(weft_reshape(x, WEFT_DIMS(6, WEFT_ANY))), "[6,4]");
  EXPECT_TEXT(shape(weft_reshape(x, WEFT_DIMS(WEFT_SAME, 12))), "[2,12]");
  EXPECT_TEXT(shape(weft_reshape(x, 0, NULL)), "weft_reshape: [2,3,4] cannot become []: other numbers of elements");
  EXPECT_TEXT(shape(weft_transpose(x, NULL)), "[4,3,2]");
  EXPECT_TEXT(shape(weft_transpose(x, (int[]){ 1, -1, 0 })), "[3,4,2]");
  EXPECT_TEXT(shape(weft_moveaxis(x, 0, -1)), "[3,4,2]");
  EXPECT_TEXT(shape(weft_moveaxis(x, 2, 0)), "[4,2,3]");
  EXPECT_TEXT(shape(weft_unsqueeze(x, -1)), "[2,3,4,1]");
  EXPECT_TEXT(shape(weft_squeeze(weft_unsqueeze(x, 1), 1)), "[2,3,4]");
  EXPECT_TEXT(shape(weft_broadcast(F32(3, 1), WEFT_DIMS(2, WEFT_SAME, 5))), "[2,3,5]");
  weft_array *split = weft_reshape(u, WEFT_DIMS(WEFT_SAME, WEFT_SAME, 3, 4)),
             *back = weft_reshape(split, WEFT_DIMS(WEFT_SAME, WEFT_SAME, WEFT_ANY));
  EXPECT_TEXT(shape(back), shape_show(u->node, &a));
  weft_array *flat = weft_reshape(u, WEFT_DIMS(WEFT_ANY, 6));
  EXPECT_OK(weft_check(flat));
  EXPECT_OK(weft_check(weft_add(flat, weft_reshape(weft_exp(u), WEFT_DIMS(WEFT_ANY, 6)))));
  EXPECT_OK(weft_check(weft_reshape_like(flat, u)));
  weft_scope_discard(s);
}

TEST(slices_are_cut_as_in_python) {
  static const struct { int64_t start, stop, step, n, first;
  } rows[] = {
    { 0, WEFT_END, 1, 10, 0 }, { 2, 5, 1, 3, 2 },
    { -3, WEFT_END, 1, 3, 7 }, { 0, -1, 3, 3, 0 },
    { 5, 2, 1, 0, 0 },         { 100, 200, 1, 0, 0 },
    { -100, 3, 1, 3, 0 },      { WEFT_END, WEFT_BEGIN, -1, 10, 9 },
    { 8, 2, -2, 3, 8 },        { -1, WEFT_BEGIN, -4, 3, 9 },
    { 3, -100, -1, 4, 3 },     { 4, 5, INT64_MIN, 0, 0 },
    { 9, 0, INT64_MAX, 0, 0 }, { 1, WEFT_END, INT64_MAX, 1, 1 },
  };
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(10);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    weft_array *y = weft_slice(x, 0, rows[i].start, rows[i].stop, rows[i].step);
    EXPECT_INT(weft_dim(y, 0), rows[i].n);
    if (y->node->op == &op_slice) EXPECT_INT(((struct slice_attr *)y->node->attr)->start, rows[i].first);
  }
  EXPECT_INT(weft_dim(weft_flip(F32(0), 0), 0), 0);
  weft_array *u = F32(WEFT_ANY), *rest = weft_slice(u, 0, 1, WEFT_END, 1);
  EXPECT_OK(weft_check(weft_sub(rest, weft_slice(u, 0, 0, -1, 1))));
  EXPECT_OK(weft_check(weft_add(u, weft_flip(u, 0))));
  weft_scope_discard(s);
}

TEST(indexing_infers_the_shape_of_the_indices_and_the_rest) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(5, 6, 7), *i = weft_input(WEFT_I32, WEFT_DIMS(3, 1)), *j = weft_input(WEFT_U8, WEFT_DIMS(2)),
             *k = weft_input(WEFT_I64, 0, NULL);
  EXPECT_TEXT(shape(weft_take(x, 1, &j)), "[2,6,7]");
  EXPECT_TEXT(shape(weft_take(x, WEFT_ARRAYS(i, j))), "[3,2,7]");
  EXPECT_TEXT(shape(weft_at(x, 1, weft_integer(-1))), "[5,7]");
  EXPECT_TEXT(shape(weft_at(x, -1, k)), "[5,6]");
  EXPECT_TEXT(shape(weft_window(x, 1, k, 4)), "[5,4,7]");
  EXPECT_TEXT(shape(weft_window(x, 1, weft_integer(2), 4)), "[5,4,7]");
  EXPECT_TEXT(weft_op(weft_at(x, 0, weft_integer(2))), "reshape");
  weft_scope_discard(s);
}

TEST(a_put_finds_its_way_from_the_part_to_x) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(4, 5, 6), *i = weft_input(WEFT_I64, WEFT_DIMS(3)), *zero = weft_scalar(0);
  weft_array *part = weft_moveaxis(weft_flip(weft_slice(x, 1, 1, 4, 2), 1), 0, 2);
  weft_array *y = weft_put(x, part, F32(2, 6, 4), WEFT_SET);
  EXPECT_TEXT(weft_op(y), "put");
  EXPECT_TEXT(shape(y), "[4,5,6]");
  const struct put_attr *a = y->node->attr;
  EXPECT_INT(a->start[1], 3);
  EXPECT_INT(a->step[1], -2);
  EXPECT_INT(y->node->in[1]->dims[1], 2);
  EXPECT_TEXT(weft_op(weft_put(x, weft_at(x, 2, weft_integer(3)), zero, WEFT_ADD)), "put");
  EXPECT_TEXT(weft_op(weft_put(x, x, zero, WEFT_MUL)), "put");
  EXPECT_TEXT(weft_op(weft_put(x, weft_take(x, 1, &i), zero, WEFT_MAX)), "scatter");
  EXPECT_TEXT(weft_op(weft_put(x, weft_take(weft_moveaxis(x, 1, 0), 1, &i), zero, WEFT_MAX)), "transpose");
  EXPECT_TEXT(weft_op(weft_put(x, weft_slice(weft_take(x, 1, &i), 0, 0, 2, 1), zero, WEFT_SET)), "reshape");
  EXPECT_TEXT(shape(weft_put(x, weft_broadcast(weft_slice(x, 0, 0, 1, 1), WEFT_DIMS(2, 5, 6)), zero, WEFT_ADD)),
              "[4,5,6]");
  EXPECT_INT(weft_check(weft_put(x, weft_exp(x), zero, WEFT_SET)), WEFT_ERR_ARG);
  EXPECT_TEXT(weft_message(), "weft_put: the part was not made from x by views and indexing");
  weft_scope_discard(s);
}

TEST(matrix_products_treat_vectors_and_batches_as_numpy_does) {
  weft_scope *s = weft_scope_open();
  EXPECT_TEXT(shape(weft_matmul(F32(2, 3), F32(3, 4))), "[2,4]");
  EXPECT_TEXT(shape(weft_matmul(F32(3), F32(3, 4))), "[4]");
  EXPECT_TEXT(shape(weft_matmul(F32(2, 3), F32(3))), "[2]");
  EXPECT_TEXT(shape(weft_matmul(F32(3), F32(3))), "[]");
  EXPECT_TEXT(shape(weft_matmul(F32(5, 1, 2, 3), F32(7, 3, 4))), "[5,7,2,4]");
  EXPECT_TEXT(shape(weft_matmul(F32(3), F32(7, 3, 4))), "[7,4]");
  weft_array *x = F32(WEFT_ANY, 3);
  EXPECT_INT(weft_rank(weft_matmul(x, weft_moveaxis(x, 0, 1))), 2);
  weft_scope_discard(s);
}

TEST(sizes_travel_as_arrays) {
  weft_scope *s = weft_scope_open();
  weft_array *x = F32(WEFT_ANY, 4), *n = weft_size(x, 0);
  EXPECT_INT(weft_rank(n), 0);
  EXPECT_INT(weft_dtype_of(n), WEFT_I64);
  weft_array *z = weft_sized(WEFT_F32, WEFT_ARRAYS(n, weft_integer(4)));
  EXPECT_OK(weft_check(weft_add(x, z)));
  weft_array *longer = weft_sized(WEFT_F32, WEFT_ARRAYS(weft_add(n, weft_integer(1)), weft_integer(4)));
  EXPECT_OK(weft_check(weft_add(longer, weft_pad(x, 0, 1, 0, weft_scalar(0)))));
  EXPECT_OK(weft_check(weft_add(longer, weft_concat(0, WEFT_ARRAYS(x, F32(1, 4))))));
  EXPECT_INT(weft_check(weft_add(x, longer)), WEFT_ERR_SHAPE);
  weft_scope_discard(s);
}

TEST(same_is_refused_on_an_axis_that_the_array_does_not_have) {
  weft_scope *s = weft_scope_open();
  weft_array *refused[] = { weft_reshape(F32(4), WEFT_DIMS(4, WEFT_SAME)), weft_broadcast(F32(3), WEFT_DIMS(WEFT_SAME, 3)),
                            weft_broadcast(F32(3), WEFT_DIMS(WEFT_SAME, WEFT_SAME)) };
  for (int i = 0; i < 3; i++) {
    EXPECT_INT(weft_check(refused[i]), WEFT_ERR_SHAPE);
    EXPECT(strstr(weft_message(), "WEFT_SAME on axis"));
  }
  weft_scope_discard(s);
}
