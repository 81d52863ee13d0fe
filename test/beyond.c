/* beyond.c -- the ends of what functions take: the last count, rank, axis, size or option that is taken, and the first that is
 * not, on both sides and for each part of a condition alone. Whether results are right is for others to say. */
#include <math.h>
#include "values.h"

enum { MOST = WEFT_RANK_MAX };

/* Who refuses is the function that was called, by its name as typed, not one that it is made of. */
static bool is_named(const char *call) {
  size_t n = strcspn(call, "(");
  return strncmp(call, "weft_", 5) || (!strncmp(weft_message(), call, n) && weft_message()[n] == ':');
}
static void refused(int line, const char *call, weft_array *y, const char *says) {
  if (!weft_check(y)) test_fail(__FILE__, line, "%s: not refused", call);
  else if (!strstr(weft_message(), says) || !is_named(call))
    test_fail(__FILE__, line, "%s: says \"%s\", not \"%s\" in its own name", call, weft_message(), says);
}
static void taken(int line, const char *call, weft_array *y) {
  if (weft_check(y)) test_fail(__FILE__, line, "%s: %s", call, weft_message());
}
#define REFUSED(says, call) refused(__LINE__, #call, call, says)
#define TAKEN(call) taken(__LINE__, #call, call)

#define ONES(...) weft_full(WEFT_F32, WEFT_DIMS(__VA_ARGS__), 1)
#define OF(dtype, ...) weft_full(dtype, WEFT_DIMS(__VA_ARGS__), 1)
static weft_array *number(void) { return weft_full(WEFT_F32, 0, NULL, 1); }
static weft_array *complex_one(void) { return weft_full(WEFT_C64, WEFT_DIMS(2, 3), 1); }
static int64_t ones[MOST + 1];
static weft_array *of_rank(int rank) {
  for (int k = 0; k <= MOST; k++) ones[k] = 1;
  return weft_full(WEFT_F32, rank, ones, 1);
}
static weft_array *first_of(int n, weft_array *const x[]) { return n ? x[0] : NULL; }

SCOPED(ranks_and_axes_are_taken_up_to_both_ends) {
  weft_array *x = ONES(2, 3), *zero = weft_integer(0), *many[MOST + 64], *full = of_rank(MOST);
  int axes[MOST + 1] = { 0 };
  for (int k = 0; k < MOST + 64; k++) many[k] = zero;
  EXPECT_INT(weft_rank(full), MOST);
  for (int end = 0; end < 2; end++) {
    int rank = end ? MOST + 1 : -1, axis = end ? 2 : -3, last = end ? 1 : -2, new_axis = end ? 3 : -4, new_last = end ? 2 : -3;
    REFUSED("rank", weft_full(WEFT_F32, rank, ones, 1));
    REFUSED("rank", weft_from(WEFT_F32, rank, ones, (float[]){ 1 }));
    REFUSED("rank", weft_input(WEFT_F32, rank, ones));
    REFUSED("rank", weft_sized(WEFT_F32, rank, many));
    REFUSED("rank", weft_reshape(x, rank, ones));
    REFUSED("rank", weft_broadcast(x, rank, ones));
    REFUSED("rank", weft_as_strided(x, rank, ones, ones, 0));
    REFUSED("weft_tile", weft_tile(x, rank, ones));
    REFUSED("weft_einsum", weft_einsum("ij->ij", end ? 33 : 0, many));
    REFUSED("weft_take: with", weft_take(x, end ? MOST + 1 : 0, many));
    REFUSED("axes", weft_tensordot(x, x, rank, axes, axes));
    REFUSED("weft_over", weft_over(weft_sum, x, rank, axes));
    REFUSED("no axis", weft_unsqueeze(x, new_axis));
    TAKEN(weft_unsqueeze(x, new_last));
    REFUSED("no axis", weft_stack(new_axis, 1, &x));
    TAKEN(weft_stack(new_last, 1, &x));
#define ALONG(call) do { int at = axis; REFUSED("axis", call); at = last; TAKEN(call); } while (0)
    ALONG(weft_sum(x, at));
    ALONG(weft_flip(x, at));
    ALONG(weft_cumsum(x, at));
    ALONG(weft_softmax(x, at));
    ALONG(weft_var(x, at, 0));
    ALONG(weft_iota(x, at));
    ALONG(weft_size(x, at));
    ALONG(weft_moveaxis(x, at, 0));
    ALONG(weft_moveaxis(x, 0, at));
    ALONG(weft_flatten(x, at, at));
    ALONG(weft_squeeze(ONES(1, 1), at));
    ALONG(weft_windows(x, at, 1, 1, 1));
    ALONG(weft_slice(x, at, 0, 1, 1));
    ALONG(weft_cut(x, at, zero, NULL, NULL));
    ALONG(weft_window(x, at, zero, 1));
    ALONG(weft_at(x, at, zero));
    ALONG(weft_take_along(x, at, weft_full(WEFT_I32, WEFT_DIMS(2, 3), 0)));
    ALONG(weft_concat(at, 1, &x));
    ALONG(weft_pad(x, at, 1, 1, zero));
    ALONG(weft_pad_with(x, at, 1, 1, WEFT_PAD_EDGE, NULL));
    ALONG(weft_repeat(x, at, 2));
    ALONG(weft_roll(x, at, 2));
    ALONG(weft_rot90(x, 1, at, end ? 0 : 1));
    ALONG(weft_diagonal(x, 0, at, end ? 0 : 1));
    ALONG(weft_sort(x, at));
    ALONG(weft_argsort(x, at));
    ALONG(weft_topk(x, at, 1));
    ALONG(weft_partition(x, at, 1));
    ALONG(weft_quantile(x, weft_scalar(0.5), at, WEFT_LINEAR));
    ALONG(weft_median(x, at));
    ALONG(weft_diff(x, 1, at));
    ALONG(weft_trapezoid(x, NULL, 1, at));
    ALONG(weft_backwards(weft_cumsum, x, at));
    ALONG(weft_before(weft_cumsum, x, at));
    ALONG(weft_softmax_where(x, x, at));
    ALONG(weft_random_categorical(weft_random_key(1), NULL, x, at));
    ALONG(weft_random_permutation(weft_random_key(1), x, at));
    ALONG(weft_resize(x, at, 2, WEFT_RESIZE_LINEAR, 0));
#undef ALONG
  }
  REFUSED("rank", weft_unsqueeze(full, 0));
  REFUSED("axis", weft_stack(0, 1, &full));
  REFUSED("rank", weft_windows(full, 0, 1, 1, 1));
  TAKEN(weft_unsqueeze(of_rank(MOST - 1), 0));
  TAKEN(weft_reshape(number(), MOST, ones));
  TAKEN(weft_broadcast(number(), MOST, ones));
  REFUSED("WEFT_SAME", weft_reshape(x, WEFT_DIMS(2, 3, WEFT_SAME)));
  REFUSED("WEFT_SAME", weft_broadcast(x, WEFT_DIMS(WEFT_SAME, 2, 3)));
}

SCOPED(sizes_steps_and_counts_are_taken_from_the_first_that_makes_sense) {
  weft_array *x = ONES(2, 3), *zero = weft_integer(0);
  REFUSED("length 0", weft_windows(x, 1, 0, 1, 1));
  REFUSED("step 0", weft_windows(x, 1, 1, 0, 1));
  REFUSED("dilation 0", weft_windows(x, 1, 1, 1, 0));
  REFUSED("longer", weft_windows(x, 1, 4, 1, 1));
  REFUSED("longer", weft_windows(x, 1, 2, 1, 3));
  TAKEN(weft_windows(x, 1, 3, 1, 1));
  TAKEN(weft_windows(x, 1, 2, 1, 2));
  REFUSED("weft_pad: -1 before", weft_pad(x, 0, -1, 0, zero));
  REFUSED("-1 after", weft_pad(x, 0, 0, -1, zero));
  REFUSED("not 0-d", weft_pad(x, 0, 1, 1, x));
  TAKEN(weft_pad(x, 0, 0, 0, zero));
  REFUSED("-1 before", weft_pad_with(x, 0, -1, 0, WEFT_PAD_EDGE, NULL));
  REFUSED("-1 after", weft_pad_with(x, 0, 0, -1, WEFT_PAD_EDGE, NULL));
  REFUSED("no way", weft_pad_with(x, 0, 1, 1, (weft_padding)(WEFT_PAD_MEAN + 1), NULL));
  REFUSED("no number", weft_pad_with(x, 0, 1, 1, WEFT_PAD_RAMP, x));
  REFUSED("empty", weft_pad_with(ONES(0, 3), 0, 1, 0, WEFT_PAD_EDGE, NULL));
  REFUSED("empty", weft_pad_with(ONES(0, 3), 0, 0, 1, WEFT_PAD_EDGE, NULL));
  REFUSED("not of", weft_pad_with(complex_one(), 0, 1, 0, WEFT_PAD_MAX, NULL));
  REFUSED("not of", weft_pad_with(complex_one(), 0, 1, 0, WEFT_PAD_MIN, NULL));
  TAKEN(weft_pad_with(complex_one(), 0, 1, 0, WEFT_PAD_MEAN, NULL));
  TAKEN(weft_pad_with(ONES(0, 3), 0, 0, 0, WEFT_PAD_EDGE, NULL));
  REFUSED("weft_repeat", weft_repeat(x, 0, -1));
  TAKEN(weft_repeat(x, 0, 0));
  REFUSED("weft_diff", weft_diff(x, -1, 0));
  TAKEN(weft_diff(x, 0, 0));
  for (int k = 0; k < 2; k++) {
    weft_array *(*of)(weft_array *, int, int64_t) = k ? weft_argtopk : weft_topk;
    REFUSED("topk", of(x, 1, -1));
    REFUSED("topk", of(x, 1, 4));
    TAKEN(of(x, 1, 0));
    TAKEN(of(x, 1, 3));
    of = k ? weft_argpartition : weft_partition;
    REFUSED("partition", of(x, 1, 3));
    REFUSED("partition", of(x, 1, -4));
    TAKEN(of(x, 1, 2));
    TAKEN(of(x, 1, -3));
  }
  REFUSED("weft_quantile", weft_quantile(x, number(), 0, (weft_quantile_method)(WEFT_NORMAL_UNBIASED + 1)));
  REFUSED("weft_quantile", weft_quantile(x, number(), 0, (weft_quantile_method)-1));
  REFUSED("weft_resize", weft_resize(x, 0, 0, WEFT_RESIZE_LINEAR, 0));
  REFUSED("weft_resize", weft_resize(x, 0, NAN, WEFT_RESIZE_LINEAR, 0));
  REFUSED("weft_resize", weft_resize(x, 0, 2, (weft_resizing)(WEFT_RESIZE_CUBIC + 1), 0));
  REFUSED("weft_matrix_power", weft_matrix_power(x, 2));
  REFUSED("weft_matrix_power", weft_matrix_power(ONES(3), 2));
  REFUSED("weft_convolve", weft_convolve(ONES(3), ONES(2), (weft_reach)(WEFT_REACH_VALID + 1)));
  REFUSED("weft_convolve", weft_convolve(x, ONES(2), WEFT_REACH_FULL));
  REFUSED("weft_convolve", weft_convolve(ONES(2), x, WEFT_REACH_FULL));
  REFUSED("empty", weft_convolve(ONES(0), ONES(2), WEFT_REACH_FULL));
  REFUSED("empty", weft_correlate(ONES(2), ONES(0), WEFT_REACH_FULL));
  REFUSED("weft_interp", weft_interp(x, ONES(2, 1), ONES(2), NULL, NULL));
  REFUSED("weft_interp", weft_interp(x, ONES(2), ONES(2, 1), NULL, NULL));
  REFUSED("weft_interp", weft_interp(x, ONES(2), ONES(3), NULL, NULL));
  REFUSED("not of", weft_searchsorted(OF(WEFT_C64, 3), x, 0));
  REFUSED("not of", weft_searchsorted(ONES(3), complex_one(), 0));
  REFUSED("weft_searchsorted", weft_searchsorted(x, x, 0));
  for (int k = 0; k < 3; k++) {
    double v[] = { 0, 1, 1 };
    v[k] = INFINITY;
    REFUSED("weft_arange", weft_arange(WEFT_F32, v[0], v[1], v[2]));
  }
  REFUSED("weft_arange", weft_arange(WEFT_F32, 0, 1, 0));
  REFUSED("weft_linspace", weft_linspace(WEFT_F32, 0, 1, -1));
  REFUSED("weft_eye", weft_eye(WEFT_F32, -1, 1, 0));
  REFUSED("weft_eye", weft_eye(WEFT_F32, 1, -1, 0));
  TAKEN(weft_eye(WEFT_F32, 0, 0, 0));
  REFUSED("weft_tri", weft_tri(WEFT_F32, -1, 1, 0));
  REFUSED("weft_diag", weft_diag(ONES(1, 1, 1), 0));
  REFUSED("weft_diag", weft_diag(number(), 0));
  REFUSED("weft_tril", weft_tril(ONES(3), 0));
  REFUSED("weft_triu", weft_triu(ONES(3), 0));
  REFUSED("weft_rot90", weft_rot90(x, 1, 1, 1));
  REFUSED("weft_diagonal", weft_diagonal(x, 0, 1, 1));
  REFUSED("squeeze", weft_squeeze(x, 0));
}

SCOPED(arguments_that_are_0_d_integers_or_bools_are_nothing_else) {
  weft_array *x = ONES(4, 3), *two = ONES(2), *pair = weft_full(WEFT_I32, WEFT_DIMS(2), 1), *half = number();
  REFUSED("weft_at", weft_at(x, 0, half));
  REFUSED("weft_at", weft_at(x, 0, pair));
  REFUSED("weft_window", weft_window(x, 0, half, 1));
  REFUSED("weft_window", weft_window(x, 0, pair, 1));
  REFUSED("weft_window", weft_window(x, 0, weft_integer(0), 5));
  REFUSED("weft_window", weft_window(x, 0, weft_integer(0), -1));
  TAKEN(weft_window(x, 0, weft_integer(0), 4));
  TAKEN(weft_window(x, 0, weft_integer(0), 0));
  for (int k = 0; k < 3; k++) {
    weft_array *at[3] = { 0 }, *wrong[] = { half, pair, weft_full(WEFT_BOOL, 0, NULL, 1) };
    for (int w = 0; w < 3; w++) {
      at[k] = wrong[w];
      REFUSED("weft_cut", weft_cut(x, 0, at[0], at[1], at[2]));
    }
  }
  REFUSED("weft_sized", weft_sized(WEFT_F32, 1, &half));
  REFUSED("weft_sized", weft_sized(WEFT_F32, 1, &pair));
  REFUSED("weft_take", weft_take(x, 1, &two));
  REFUSED("weft_take_along", weft_take_along(x, 0, x));
  for (int k = 0; k < 3; k++) {
    weft_array *wrong[] = { half, pair, weft_full(WEFT_BOOL, 0, NULL, 1) };
    weft_loop *l = weft_loop_open(wrong[k]);
    weft_array *c = weft_loop_carry(l, half);
    weft_loop_next(l, c, c);
    weft_array *y = weft_loop_last(l, c);
    weft_loop_close(l);
    if (k < 2) REFUSED("weft_loop_open", y);
  }
  for (int k = 0; k < 2; k++) {
    weft_array *wrong = k ? weft_full(WEFT_BOOL, WEFT_DIMS(2), 1) : half;
    weft_loop *l = weft_loop_open(weft_integer(2));
    weft_array *c = weft_loop_carry(l, half);
    weft_loop_next(l, c, c);
    weft_loop_until(l, wrong);
    weft_array *y = weft_loop_last(l, c);
    weft_loop_close(l);
    REFUSED("weft_loop_until", y);
    weft_cond *p = weft_cond_open(wrong);
    y = weft_cond_value(p, half, half);
    weft_cond_close(p);
    REFUSED("weft_cond_open", y);
  }
}

SCOPED(lists_are_taken_from_none_to_the_most) {
  weft_array *x = ONES(2), *y[MOST + 1] = { 0 }, *many[MOST + 1];
  for (int k = 0; k <= MOST; k++) many[k] = x;
  REFUSED("on -1", weft_depends(x, -1, many));
  REFUSED("weft_depends", weft_depends(x, 1, NULL));
  TAKEN(weft_depends(x, 0, NULL));
  REFUSED("weft_concat", weft_concat(0, 0, many));
  REFUSED("weft_concat", weft_concat(0, -1, many));
  REFUSED("weft_stack", weft_stack(0, 0, many));
  y[0] = x;
  weft_meshgrid(MOST + 1, many, 0, y);
  REFUSED("weft_meshgrid", first_of(1, y));
  weft_array *four[4];
  weft_meshgrid(4, many, 1, four);
  TAKEN(four[3]);
  for (int k = 0; k < 2; k++) {
    weft_scope *s = weft_scope_open();
    weft_array *in = weft_input(WEFT_F32, WEFT_DIMS(2)), *out = weft_exp(in), *got = NULL;
    weft_function *f = weft_compile(s, k ? 1 : -1, &in, k ? -1 : 1, &out);
    weft_call(f, 1, &x, 1, &got);
    REFUSED(k ? "1 inputs, -1 outputs" : "-1 inputs, 1 outputs", got);
    s = weft_scope_open();
    in = weft_input(WEFT_F32, WEFT_DIMS(2)), out = weft_exp(in);
    f = weft_compile(s, 1, &in, 1, &out);
    weft_array *pair[2] = { x, x }, *gets[2] = { 0 };
    weft_call(f, k ? 1 : 2, pair, k ? 2 : 1, gets);
    REFUSED("weft_call", gets[0]);
  }
  weft_scope *s = weft_scope_open();
  weft_split(x, 0, 0, y);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  s = weft_scope_open();
  weft_split(x, 0, 2, NULL);
  EXPECT_INT(weft_scope_close(s), WEFT_ERR_ARG);
  weft_split(x, 0, 3, y);
  REFUSED("weft_split", y[0]);
  weft_split(x, 0, 2, y);
  TAKEN(y[1]);
}

SCOPED(convolutions_and_pools_take_options_from_the_first_that_makes_sense) {
  weft_array *x = ONES(1, 5, 4), *w = ONES(6, 3, 4);
  int64_t zero = 0, one = 1, two = 2, less = -1;
  TAKEN(weft_conv(x, w, NULL));
  REFUSED("stride 0", weft_conv(x, w, &(weft_conv_options){ .stride = &zero }));
  REFUSED("dilation 0", weft_conv(x, w, &(weft_conv_options){ .dilation = &zero }));
  REFUSED("spread 0", weft_conv(x, w, &(weft_conv_options){ .spread = &zero }));
  REFUSED("groups", weft_conv(x, w, &(weft_conv_options){ .groups = -1 }));
  REFUSED("groups", weft_conv(x, ONES(6, 3, 2), &(weft_conv_options){ .groups = 3 }));
  REFUSED("groups", weft_conv(x, ONES(5, 3, 2), &(weft_conv_options){ .groups = 2 }));
  TAKEN(weft_conv(x, ONES(6, 3, 2), &(weft_conv_options){ .groups = 2 }));
  REFUSED("channels", weft_conv(x, ONES(6, 3, 3), NULL));
  REFUSED("longer", weft_conv(x, ONES(6, 6, 4), NULL));
  REFUSED("longer", weft_conv(x, w, &(weft_conv_options){ .dilation = (int64_t[]){ 3 } }));
  REFUSED("longer", weft_conv(ONES(1, 1, 4), ONES(6, 1, 4), &(weft_conv_options){ .before = &less }));
  TAKEN(weft_conv(x, ONES(6, 5, 4), NULL));
  TAKEN(weft_conv(x, w, &(weft_conv_options){ .dilation = &two, .stride = &one }));
  REFUSED("no size", weft_conv(x, ONES(6, 0, 4), NULL));
  REFUSED("x is [N", weft_conv(x, ONES(6, 4), NULL));
  REFUSED("x is [N", weft_conv(ONES(5, 4), ONES(6, 4), NULL));
  REFUSED("x is [N", weft_conv(ONES(1, 5, 5, 4), w, NULL));
  for (int k = 0; k < 2; k++) {
    weft_array *(*pool)(weft_array *, const weft_pool_options *) = k ? weft_mean_pool : weft_max_pool;
    REFUSED("not given", pool(x, NULL));
    REFUSED("not given", pool(x, &(weft_pool_options){ 0 }));
    REFUSED("x is [N", pool(ONES(5, 4), &(weft_pool_options){ .size = &two }));
    REFUSED("size 0", pool(x, &(weft_pool_options){ .size = &zero, .stride = &one }));
    REFUSED("stride 0", pool(x, &(weft_pool_options){ .size = &one, .stride = &zero }));
    REFUSED("dilation 0", pool(x, &(weft_pool_options){ .size = &one, .dilation = &zero }));
    REFUSED("-1 and 0", pool(x, &(weft_pool_options){ .size = &one, .before = &less }));
    REFUSED("0 and -1", pool(x, &(weft_pool_options){ .size = &one, .after = &less }));
    REFUSED("longer", pool(x, &(weft_pool_options){ .size = (int64_t[]){ 6 } }));
    REFUSED("longer", pool(x, &(weft_pool_options){ .size = (int64_t[]){ 3 }, .dilation = (int64_t[]){ 3 } }));
    TAKEN(pool(x, &(weft_pool_options){ .size = (int64_t[]){ 5 } }));
    TAKEN(pool(x, &(weft_pool_options){ .size = (int64_t[]){ 6 }, .after = &one }));
  }
  REFUSED("not of", weft_max_pool(OF(WEFT_C64, 1, 5, 4), &(weft_pool_options){ .size = &two }));
}

SCOPED(products_name_the_operand_that_does_not_fit) {
  weft_array *x = ONES(2, 3), *square = ONES(3, 3), *row = ONES(3), *at = weft_full(WEFT_I32, WEFT_DIMS(1), 0);
  REFUSED("weft_gather_mm", weft_gather_mm(row, square, NULL, NULL));
  REFUSED("weft_gather_mm", weft_gather_mm(x, row, NULL, NULL));
  REFUSED("weft_gather_mm", weft_gather_mm(ONES(1, 2, 3), ONES(1, 3, 3), row, at));
  REFUSED("weft_gather_mm", weft_gather_mm(ONES(1, 2, 3), ONES(1, 3, 3), at, row));
  TAKEN(weft_gather_mm(ONES(1, 2, 3), ONES(1, 3, 3), at, at));
  REFUSED("weft_block_masked_mm", weft_block_masked_mm(row, square, 32, NULL, NULL, NULL));
  REFUSED("weft_block_masked_mm", weft_block_masked_mm(x, row, 32, NULL, NULL, NULL));
  REFUSED("weft_segmented_mm", weft_segmented_mm(row, square, weft_full(WEFT_U32, WEFT_DIMS(2), 0)));
  REFUSED("weft_segmented_mm", weft_segmented_mm(x, row, weft_full(WEFT_U32, WEFT_DIMS(2), 0)));
  REFUSED("pairs", weft_segmented_mm(x, square, weft_full(WEFT_U32, 0, NULL, 0)));
  REFUSED("pairs", weft_segmented_mm(x, square, weft_full(WEFT_U32, WEFT_DIMS(3), 0)));
  REFUSED("pairs", weft_segmented_mm(x, square, weft_full(WEFT_F32, WEFT_DIMS(2), 0)));
  TAKEN(weft_segmented_mm(x, square, weft_full(WEFT_U32, WEFT_DIMS(2), 0)));
  REFUSED("last axis is 3", weft_hadamard(row, 1));
  REFUSED("weft_hadamard", weft_hadamard(OF(WEFT_C64, 4), 1));
  REFUSED("weft_hadamard", weft_hadamard(number(), 1));
  for (int n = 1; n < 64; n *= 2) TAKEN(weft_hadamard(ONES(n), 1));
  TAKEN(weft_hadamard(ONES(12), 1));
  TAKEN(weft_hadamard(ONES(40), 1));
  TAKEN(weft_hadamard(ONES(28), 1));
  REFUSED("inner lengths", weft_matmul(x, x));
  REFUSED("weft_matmul", weft_matmul(number(), x));
  REFUSED("weft_matmul", weft_matmul(x, number()));
  REFUSED("weft_inner", weft_inner(x, ONES(2)));
  weft_array *systems[] = { weft_cholesky(x), weft_cholesky(row), weft_inverse(x), weft_inverse(row), weft_det(x), weft_det(row),
                            weft_solve(x, row), weft_solve(row, row), weft_solve(square, ONES(2)),
                            weft_solve_triangular(x, row, 0, 0), weft_solve_triangular(square, ONES(2, 2), 0, 0),
                            weft_cholesky_solve(x, row), weft_cholesky_solve(square, ONES(4)) };
  for (int i = 0; i < (int)(sizeof systems / sizeof *systems); i++) REFUSED("weft_", systems[i]);
  TAKEN(weft_solve(square, row));
  TAKEN(weft_solve(square, ONES(3, 1)));
  weft_array *q = ONES(2, 4);
  REFUSED("weft_attention", weft_attention(ONES(4), q, q, NULL));
  REFUSED("weft_attention", weft_attention(q, ONES(4), q, NULL));
  REFUSED("weft_attention", weft_attention(q, q, ONES(4), NULL));
  REFUSED("weft_attention", weft_attention(q, ONES(2, 5), q, NULL));
  REFUSED("weft_attention", weft_attention(q, q, ONES(3, 4), NULL));
  REFUSED("not of", weft_attention(q, q, q, &(weft_attention_options){ .mask = OF(WEFT_C64, 2, 2) }));
  REFUSED("not of", weft_attention(q, q, OF(WEFT_C64, 2, 4), NULL));
}

SCOPED(rotary_positions_and_codes_are_taken_in_the_forms_there_are) {
  weft_array *x = ONES(3, 8), *words, *scales, *biases;
#define ROPE(...) weft_rope(x, &(weft_rope_options){ __VA_ARGS__ })
  TAKEN(weft_rope(x, NULL));
  REFUSED("x is", weft_rope(ONES(8), NULL));
  REFUSED("pairs", ROPE(.dims = 10));
  REFUSED("pairs", ROPE(.dims = 3));
  REFUSED("pairs", ROPE(.dims = -2));
  REFUSED("pairs", weft_rope(ONES(3, 1), NULL));
  TAKEN(ROPE(.dims = 8));
  TAKEN(ROPE(.dims = 2));
  REFUSED("offset", ROPE(.offset = ONES(1, 1)));
  REFUSED("period", ROPE(.periods = ONES(3)));
  REFUSED("period", ROPE(.periods = ONES(4, 1)));
  TAKEN(ROPE(.periods = ONES(4)));
  REFUSED("not of", weft_rope(OF(WEFT_I32, 3, 8), NULL));
#undef ROPE
  static const int bits[] = { 1, 7, 9 }, groups[] = { 16, 33, 256 };
  weft_array *w = ONES(2, 128);
  for (int k = 0; k < 3; k++) {
    weft_quantize(w, &(weft_code_form){ WEFT_CODES_AFFINE, 32, bits[k], NULL }, &words, &scales, &biases);
    REFUSED("bits", words);
    weft_quantize(w, &(weft_code_form){ WEFT_CODES_AFFINE, groups[k], 4, NULL }, &words, &scales, &biases);
    REFUSED("groups", words);
  }
  for (int b = 2; b <= 8; b += 1 + (b == 6)) {
    weft_quantize(w, &(weft_code_form){ WEFT_CODES_AFFINE, 64, b, NULL }, &words, &scales, &biases);
    TAKEN(words);
    TAKEN(weft_dequantize(words, scales, biases, &(weft_code_form){ WEFT_CODES_AFFINE, 64, b, NULL }, WEFT_F32));
  }
  weft_quantize(ONES(2, 96), &(weft_code_form){ WEFT_CODES_AFFINE, 64, 4, NULL }, &words, &scales, &biases);
  REFUSED("last axis", words);
  weft_quantize(number(), &(weft_code_form){ WEFT_CODES_AFFINE, 64, 4, NULL }, &words, &scales, &biases);
  REFUSED("last axis", words);
}

SCOPED(draws_are_refused_by_their_keys_shapes_and_dtypes) {
  weft_array *key = weft_random_key(1), *p = ONES(3), *like = ONES(3), *z = OF(WEFT_C64, 3), *full = of_rank(MOST);
  REFUSED("a key is", weft_random_bits(OF(WEFT_I32, 2), weft_full(WEFT_U32, WEFT_DIMS(3), 0)));
  REFUSED("a key is", weft_random_bits(OF(WEFT_U32, 3), weft_full(WEFT_U32, WEFT_DIMS(3), 0)));
  REFUSED("a key is", weft_random_bits(OF(WEFT_U32, 1, 2), weft_full(WEFT_U32, WEFT_DIMS(3), 0)));
  REFUSED("a key is", weft_random_bits(weft_full(WEFT_U32, 0, NULL, 0), weft_full(WEFT_U32, WEFT_DIMS(3), 0)));
  REFUSED("complex", weft_random_multinomial(key, NULL, z, p));
  REFUSED("complex", weft_random_multinomial(key, NULL, weft_integer(3), z));
  REFUSED("complex", weft_random_multinomial(key, z, weft_integer(3), p));
  TAKEN(weft_random_multinomial(key, like, weft_integer(3), p));
  REFUSED("weft_random_multinomial", weft_random_multinomial(key, NULL, weft_integer(3), number()));
  REFUSED("weft_random_multinomial", weft_random_multinomial(key, number(), weft_integer(3), p));
  REFUSED("weft_random_categorical", weft_random_categorical(key, full, p, 0));
  REFUSED("weft_random_categorical", weft_random_categorical(key, ONES(2), ONES(3, 2, 3), 0));
  REFUSED("no rows", weft_random_choice(key, like, number(), NULL, 0));
  REFUSED("weft_random_choice", weft_random_choice(key, like, ONES(4), ONES(3), 0));
  REFUSED("weft_random_choice", weft_random_choice(key, like, ONES(4), ONES(4, 1), 0));
  REFUSED("not of", weft_random_choice(key, like, ONES(3), z, 0));
  REFUSED("nothing to choose", weft_random_choice(key, like, ONES(0), NULL, 0));
  REFUSED("different rows", weft_random_choice(key, like, ONES(2), NULL, 1));
  TAKEN(weft_random_choice(key, like, ONES(3), NULL, 1));
  TAKEN(weft_random_choice(key, ONES(0), ONES(0), NULL, 0));
  REFUSED("weft_random_split", weft_random_split(key, -1));
  TAKEN(weft_random_split(key, 0));
}
