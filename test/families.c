/* families.c -- functions composed of others, in families: what is left when nan is left out, running the other way, values at
 * points, whole numbers, turned and crossed arrays, sameness. Python compares them with NumPy; here are the edges, the messages and
 * sizes that are known only later. */
#include <math.h>
#include "values.h"

#define VECTOR(...) f64s((int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), (double[]){ __VA_ARGS__ })
static weft_array *matrix(void) { return weft_reshape(VECTOR(1, 2, 3, 4, 5, 6), WEFT_DIMS(2, 3)); }
static weft_array *wide(weft_array *x) { return weft_cast(x, WEFT_F64); }

static void expect_bad(int line, weft_array *x, weft_status status, const char *text) {
  if (weft_check(x) != status) test_fail(__FILE__, line, "status %d, not %d", weft_check(x), status);
  else if (!strstr(weft_message(), text)) test_fail(__FILE__, line, "\"%s\" is not in \"%s\"", text, weft_message());
}
#define EXPECT_BAD(x, status, text) expect_bad(__LINE__, x, status, text)

TEST(what_is_nan_is_left_out) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(3, NAN, -1, 4), *none = VECTOR(NAN, NAN);
  EXPECT_F64(weft_nansum(x, 0), 6);
  EXPECT_F64(weft_nanprod(x, WEFT_ALL), -12);
  EXPECT_F64(weft_nanmean(x, 0), 2);
  EXPECT_F64(weft_nanmax(x, -1), 4);
  EXPECT_F64(weft_nanmin(x, 0), -1);
  EXPECT_F64(wide(weft_nanargmax(x, 0)), 3);
  EXPECT_F64(wide(weft_nanargmin(x, 0)), 2);
  EXPECT_F64(weft_nanvar(x, 0, 1), 7);
  EXPECT_F64(weft_nanstd(VECTOR(NAN, 1, 5), 0, 0), 2);
  EXPECT_F64(weft_nancumsum(x, 0), 3, 3, 2, 6);
  EXPECT_F64(weft_nancumprod(x, 0), 3, 3, -3, -12);
  EXPECT_F64(weft_nansum(none, 0), 0);
  EXPECT_F64(wide(weft_isnan(weft_nanmax(none, 0))), 1);
  EXPECT_F64(wide(weft_nanargmax(none, 0)), -1);
  EXPECT_F64(wide(weft_isnan(weft_nanvar(VECTOR(1, NAN), 0, 1))), 1);
  EXPECT_F64(weft_nan_to_num(VECTOR(NAN, INFINITY, -INFINITY, 2), weft_scalar(7), weft_scalar(8), NULL), 7, 8, -1.7976931348623157e308, 2);
  EXPECT_BAD(weft_nanmax(weft_complex(x, x), 0), WEFT_ERR_DTYPE, "weft_nanmax");
  EXPECT_BAD(weft_nansum(x, 1), WEFT_ERR_SHAPE, "weft_nansum");
  EXPECT_BAD(weft_nancumsum(x, WEFT_ALL), WEFT_ERR_SHAPE, "weft_nancumsum");
  EXPECT_BAD(weft_nanvar(x, 0, -1), WEFT_ERR_ARG, "weft_nanvar: ddof is -1");
  weft_scope_discard(s);
}

/* Infinities as -9 and 9. */
static weft_array *within_nine(weft_array *x) { return weft_clip(x, weft_scalar(-9), weft_scalar(9)); }
static weft_array *sums_before(weft_array *x) { return weft_before(weft_cumsum, x, 0); }
static weft_array *sums_after(weft_array *x) { return weft_backwards(weft_cumsum, x, 0); }
TEST(running_functions_go_backwards_and_stop_before) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, 2, 4);
  EXPECT_F64(sums_before(x), 0, 1, 3);
  EXPECT_F64(called_open(sums_before, x), 0, 1, 3);
  EXPECT_F64(called_open(sums_after, x), 7, 6, 4);
  EXPECT_INT(weft_dim(called_open(sums_before, weft_full(WEFT_F64, WEFT_DIMS(0), 0)), 0), 0);
  EXPECT_F64(within_nine(weft_before(weft_cummax, x, 0)), -9, 1, 2);
  EXPECT_F64(wide(weft_before(weft_cummin, weft_cast(x, WEFT_U8), 0)), 255, 1, 1);
  EXPECT_F64(within_nine(weft_logcumsumexp(VECTOR(-INFINITY, 0, INFINITY), 0)), -9, 0, 9);
  EXPECT_F64(within_nine(weft_before(weft_logcumsumexp, VECTOR(3, -INFINITY), 0)), -9, 3);
  weft_array *no_inf = weft_cast(x, WEFT_E4M3); /* of none: nan, which is in none of the others */
  EXPECT_F64(wide(weft_slice(weft_before(weft_cummax, no_inf, 0), 0, 1, 3, 1)), 1, 2);
  EXPECT_F64(wide(weft_slice(weft_before(weft_cummin, no_inf, 0), 0, 1, 3, 1)), 1, 1);
  EXPECT_F64(wide(weft_slice(weft_before(weft_logcumsumexp, no_inf, 0), 0, 1, 3, 1)), 1, 2.25);
  EXPECT_F64(wide(weft_before(weft_cumsum, no_inf, 0)), 0, 1, 3);
  EXPECT_BAD(weft_before(weft_flip, x, 0), WEFT_ERR_ARG, "weft_before");
  EXPECT_BAD(weft_backwards(NULL, x, 0), WEFT_ERR_ARG, "weft_backwards");
  EXPECT_BAD(weft_logcumsumexp(x, 2), WEFT_ERR_SHAPE, "weft_logcumsumexp");
  weft_scope_discard(s);
}

static weft_array *differences(weft_array *x) { return weft_diff(x, 1, 0); }
static weft_array *integral(weft_array *x) { return weft_trapezoid(x, NULL, 1, 0); }
static weft_array *between(weft_array *x) { return weft_interp(VECTOR(1.5, 9), x, weft_mul(x, x), NULL, weft_scalar(-1)); }
static weft_array *with_two(weft_array *x) { return weft_convolve(x, VECTOR(1, 10), WEFT_REACH_FULL); }
TEST(values_at_points_have_differences_integrals_and_lines_between) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, 2, 4), *empty = weft_full(WEFT_F64, WEFT_DIMS(0), 0);
  EXPECT_F64(weft_ediff(VECTOR(1, 4, 9), weft_integer(7), VECTOR(8, 0)), 7, 3, 5, 8, 0);
  EXPECT_F64(weft_ediff(weft_reshape(VECTOR(1, 4, 9, 9), WEFT_DIMS(2, 2)), NULL, NULL), 3, 5, 0);
  EXPECT_F64(weft_diff(x, 2, 0), 1);
  EXPECT_F64(called_open(differences, x), 1, 2);
  EXPECT_INT(weft_dim(weft_diff(empty, 1, 0), 0), 0);
  EXPECT_F64(wide(weft_diff(weft_lt(x, weft_scalar(3)), 1, 0)), 0, 1);
  EXPECT_F64(called_open(integral, x), 4.5);
  EXPECT_F64(weft_trapezoid(matrix(), VECTOR(0, 10), 1, 0), 25, 35, 45);
  EXPECT_F64(called_open(between, x), 2.5, -1);
  EXPECT_F64(weft_convolve(x, VECTOR(1, 10), WEFT_REACH_SAME), 1, 12, 24);
  EXPECT_F64(weft_correlate(x, VECTOR(1, 10), WEFT_REACH_VALID), 21, 42);
  EXPECT_F64(called_open(with_two, x), 1, 12, 24, 40);
  EXPECT_BAD(weft_diff(x, -1, 0), WEFT_ERR_ARG, "weft_diff: -1 times");
  EXPECT_BAD(weft_trapezoid(matrix(), VECTOR(0, 10), 1, 1), WEFT_ERR_SHAPE, "weft_trapezoid");
  EXPECT_BAD(weft_interp(x, empty, empty, NULL, NULL), WEFT_ERR_SHAPE, "weft_interp: there are no points");
  EXPECT_BAD(weft_interp(x, x, matrix(), NULL, NULL), WEFT_ERR_SHAPE, "weft_interp");
  EXPECT_BAD(weft_convolve(x, empty, WEFT_REACH_FULL), WEFT_ERR_SHAPE, "weft_convolve");
  EXPECT_BAD(weft_correlate(x, matrix(), WEFT_REACH_FULL), WEFT_ERR_SHAPE, "weft_correlate");
  EXPECT_BAD(weft_convolve(x, x, (weft_reach)7), WEFT_ERR_ARG, "weft_convolve: there is no reach 7");
  weft_scope_discard(s);
}

static weft_array *by_six(weft_array *x) { return weft_gcd(x, weft_integer(6)); }
TEST(whole_numbers_have_divisors_and_bits) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_cast(VECTOR(0, 4, -9, 35), WEFT_I32), *lowest = weft_full(WEFT_I8, 0, NULL, -128);
  EXPECT_F64(wide(by_six(x)), 6, 2, 3, 1);
  EXPECT_F64(wide(called_open(by_six, x)), 6, 2, 3, 1);
  EXPECT_F64(wide(weft_lcm(x, weft_integer(6))), 0, 12, 18, 210);
  EXPECT_F64(wide(weft_gcd(lowest, weft_cast(weft_integer(96), WEFT_I8))), 32);
  EXPECT_F64(wide(weft_bit_count(x)), 0, 1, 2, 3);
  EXPECT_INT(weft_dtype_of(weft_bit_count(x)), WEFT_U8);
  EXPECT_BAD(weft_gcd(x, weft_scalar(1.5)), WEFT_ERR_DTYPE, "weft_gcd");
  EXPECT_BAD(weft_bit_count(matrix()), WEFT_ERR_DTYPE, "weft_bit_count");
  weft_scope_discard(s);
}

static weft_array *turned(weft_array *x) { return weft_rot90(x, 1, 0, 1); }
static weft_array *crossed(weft_array *x) { return weft_kron(x, VECTOR(1, 10)); }
static weft_array *grid(weft_array *x) {
  weft_array *y[2];
  weft_meshgrid(2, (weft_array *[]){ x, VECTOR(7, 8) }, 1, y);
  return weft_add(weft_mul(y[0], weft_scalar(10)), y[1]);
}
TEST(arrays_are_turned_and_crossed) {
  weft_scope *s = weft_scope_open();
  weft_array *y[2], *x = VECTOR(1, 2);
  EXPECT_F64(turned(matrix()), 3, 6, 2, 5, 1, 4);
  EXPECT_F64(called_open(turned, matrix()), 3, 6, 2, 5, 1, 4);
  EXPECT_F64(weft_rot90(matrix(), -2, 0, 1), 6, 5, 4, 3, 2, 1);
  EXPECT_F64(called_open(crossed, x), 1, 10, 2, 20);
  EXPECT_F64(called_open(grid, x), 17, 27, 18, 28);
  weft_meshgrid(2, (weft_array *[]){ x, weft_slice(x, 0, 0, 1, 1) }, 0, y);
  EXPECT_F64(y[0], 1, 2);
  EXPECT_F64(y[1], 1, 1);
  EXPECT_BAD(weft_rot90(x, 1, 0, 1), WEFT_ERR_SHAPE, "weft_rot90");
  weft_meshgrid(2, (weft_array *[]){ x, weft_rot90(x, 1, 0, 1) }, 0, y);
  EXPECT_BAD(y[0], WEFT_ERR_SHAPE, "weft_rot90");
  weft_scope_discard(s);
}

TEST(arrays_are_alike_if_shape_and_elements_are) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, NAN, INFINITY), *beside = weft_add(x, weft_scalar(1e-9));
  EXPECT_F64(wide(weft_isclose(x, beside, 1e-5, 1e-8, 0)), 1, 0, 1);
  EXPECT_F64(wide(weft_allclose(x, beside, 1e-5, 1e-8, 1)), 1);
  EXPECT_F64(wide(weft_array_equal(x, x, 0)), 0);
  EXPECT_F64(wide(weft_array_equal(x, x, 1)), 1);
  EXPECT_F64(wide(weft_array_equal(x, matrix(), 1)), 0);
  EXPECT_BAD(weft_allclose(x, VECTOR(1, 2), 1, 1, 0), WEFT_ERR_SHAPE, "weft_allclose");
  weft_scope_discard(s);
}

static weft_array *squared(weft_array *x) { return weft_matrix_power(x, 2); }
TEST(products_of_vectors_powers_and_chosen_matrices) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, 2), *m = weft_reshape(VECTOR(1, 2, 3, 4), WEFT_DIMS(2, 2)), *two = weft_stack(0, WEFT_ARRAYS(m, weft_neg(m)));
  EXPECT_F64(weft_inner(m, x), 5, 11);
  EXPECT_F64(weft_outer(x, VECTOR(10, 20, 30)), 10, 20, 30, 20, 40, 60);
  EXPECT_F64(weft_addmm(x, m, m, 2, -1), 13, 18, 29, 42);
  EXPECT_F64(called_open(squared, m), 7, 10, 15, 22);
  EXPECT_F64(weft_matrix_power(m, 0), 1, 0, 0, 1);
  EXPECT_F64(weft_matrix_power(weft_reshape(VECTOR(2, 0, 0, 4), WEFT_DIMS(2, 2)), -2), 0.25, 0, 0, 0.0625);
  EXPECT_F64(weft_gather_mm(two, m, weft_full(WEFT_I32, WEFT_DIMS(1), 1), NULL), -7, -10, -15, -22);
  EXPECT_F64(weft_block_masked_mm(m, m, 1, NULL, weft_from(WEFT_BOOL, WEFT_DIMS(2, 2), (uint8_t[]){ 1, 0, 0, 0 }), NULL), 1, 2, 0, 0);
  EXPECT_F64(weft_segmented_mm(m, m, weft_from(WEFT_I32, WEFT_DIMS(2, 2), (int32_t[]){ 1, 2, 1, 1 })), 6, 8, 12, 16, 0, 0, 0, 0);
  EXPECT_F64(weft_hadamard(VECTOR(1, 2, 3, 4), 1), 10, -2, -4, 0);
  EXPECT_BAD(weft_inner(x, VECTOR(1, 2, 3)), WEFT_ERR_SHAPE, "weft_inner");
  EXPECT_BAD(weft_matrix_power(matrix(), 2), WEFT_ERR_SHAPE, "weft_matrix_power");
  EXPECT_BAD(weft_gather_mm(x, m, NULL, NULL), WEFT_ERR_SHAPE, "weft_gather_mm");
  EXPECT_BAD(weft_block_masked_mm(m, m, 0, NULL, NULL, NULL), WEFT_ERR_ARG, "weft_block_masked_mm");
  EXPECT_BAD(weft_segmented_mm(m, m, x), WEFT_ERR_SHAPE, "weft_segmented_mm");
  EXPECT_BAD(weft_hadamard(VECTOR(1, 2, 3), 1), WEFT_ERR_SHAPE, "weft_hadamard");
  weft_scope_discard(s);
}

static weft_array *edge(weft_array *x) { return weft_pad_with(x, 0, 1, 2, WEFT_PAD_EDGE, NULL); }
static weft_array *twice(weft_array *x) { return weft_resize(x, 0, 2, WEFT_RESIZE_LINEAR, 0); }
TEST(axes_are_continued_resized_and_pooled) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, 3, 2), *line = weft_reshape(x, WEFT_DIMS(1, 3, 1));
  EXPECT_F64(called_open(edge, x), 1, 1, 3, 2, 2, 2);
  EXPECT_F64(weft_pad_with(x, 0, 2, 0, WEFT_PAD_REFLECT, NULL), 2, 3, 1, 3, 2);
  EXPECT_F64(weft_pad_with(x, 0, 2, 0, WEFT_PAD_SYMMETRIC, NULL), 3, 1, 1, 3, 2);
  EXPECT_F64(weft_pad_with(x, 0, 1, 1, WEFT_PAD_WRAP, NULL), 2, 1, 3, 2, 1);
  EXPECT_F64(weft_pad_with(x, 0, 2, 1, WEFT_PAD_RAMP, weft_scalar(5)), 5, 3, 1, 3, 2, 5);
  EXPECT_F64(weft_pad_with(x, 0, 1, 0, WEFT_PAD_MEAN, NULL), 2, 1, 3, 2);
  EXPECT_F64(weft_pad_with(x, 0, 1, 0, WEFT_PAD_MAX, NULL), 3, 1, 3, 2);
  EXPECT_F64(weft_pad_with(x, 0, 0, 1, WEFT_PAD_MIN, NULL), 1, 3, 2, 1);
  EXPECT_F64(called_open(twice, VECTOR(1, 3)), 1, 1.5, 2.5, 3);
  EXPECT_F64(weft_resize(x, 0, 1.4, WEFT_RESIZE_NEAREST, 0), 1, 3, 3, 2);
  weft_pool_options two = { .size = (int64_t[]){ 2 }, .stride = (int64_t[]){ 1 }, .after = (int64_t[]){ 1 } };
  EXPECT_F64(weft_max_pool(line, &two), 3, 3, 2);
  EXPECT_F64(weft_mean_pool(line, &two), 2, 2.5, 1);
  two.without_padding = 1;
  EXPECT_F64(weft_mean_pool(line, &two), 2, 2.5, 2);
  EXPECT_BAD(weft_max_pool(line, NULL), WEFT_ERR_ARG, "weft_max_pool");
  EXPECT_BAD(weft_mean_pool(x, &two), WEFT_ERR_SHAPE, "weft_mean_pool");
  EXPECT_BAD(weft_pad_with(x, 0, -1, 0, WEFT_PAD_EDGE, NULL), WEFT_ERR_ARG, "weft_pad_with");
  EXPECT_BAD(weft_pad_with(weft_slice(x, 0, 0, 0, 1), 0, 1, 0, WEFT_PAD_WRAP, NULL), WEFT_ERR_SHAPE, "weft_pad_with");
  EXPECT_BAD(weft_resize(x, 0, -1, WEFT_RESIZE_CUBIC, 0), WEFT_ERR_ARG, "weft_resize");
  weft_scope_discard(s);
}

TEST(exponentials_of_what_counts_and_pairs_that_turn) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(0, 0, 5), *mask = weft_from(WEFT_BOOL, WEFT_DIMS(3), (uint8_t[]){ 1, 1, 0 }), *none = weft_full(WEFT_BOOL, 0, NULL, 0);
  EXPECT_F64(weft_softmax_where(x, mask, 0), 0.5, 0.5, 0);
  EXPECT_F64(weft_softmax_where(x, none, 0), 0, 0, 0);
  EXPECT_F64(weft_exp(weft_log_softmax_where(x, mask, 0)), 0.5, 0.5, 0);
  EXPECT_F64(weft_exp(weft_logsumexp_where(x, mask, 0)), 2);
  EXPECT_F64(weft_exp(weft_logsumexp_where(x, none, WEFT_ALL)), 0);
  weft_array *moves = VECTOR(1, 1, 1), *lse[] = { weft_logsumexp_where(x, mask, 0), weft_logsumexp_where(x, none, 0) }, *d[2];
  weft_jvp(1, &x, &moves, 2, lse, d);
  EXPECT_F64(d[0], 1);
  EXPECT_F64(d[1], 0); /* as in reverse mode */
  EXPECT_BAD(weft_softmax_where(x, mask, 1), WEFT_ERR_SHAPE, "weft_softmax_where");
  EXPECT_BAD(weft_logsumexp_where(x, VECTOR(1, 2), 0), WEFT_ERR_SHAPE, "weft_logsumexp_where");
  weft_rope_options quarter = { .dims = 2, .scale = 1.5707963267948966, .offset = weft_integer(1) }; /* turns by 90 degrees a place */
  EXPECT_F64(weft_round(weft_rope(weft_reshape(VECTOR(1, 2, 7, 3, 4, 8), WEFT_DIMS(2, 3)), &quarter)), -2, 1, 7, -3, -4, 8);
  EXPECT_BAD(weft_rope(x, NULL), WEFT_ERR_SHAPE, "weft_rope");
  weft_scope_discard(s);
}

/* At place 123457 pair 1 of f64 turns by 123457 / 100, of which f32 has seven digits. */
TEST(angles_of_rotary_positions_are_of_the_dtype_that_turns) {
  weft_scope *s = weft_scope_open();
  weft_array *x = weft_reshape(VECTOR(1, 1, 0, 0), WEFT_DIMS(1, 4)), *told = VECTOR(1, 100);
  weft_array *right = VECTOR(cos(123457), cos(1234.57), sin(123457), sin(1234.57));
  weft_rope_options far[] = { { .offset = weft_integer(123457) }, { .offset = weft_integer(123457), .periods = told } };
  for (int i = 0; i < 2; i++) {
    weft_array *miss = weft_abs(weft_sub(weft_reshape(weft_rope(x, &far[i]), WEFT_DIMS(4)), right));
    EXPECT_F64(weft_cast(weft_lt(weft_max(miss, 0), weft_scalar(1e-12)), WEFT_F64), 1);
  }
  weft_scope_discard(s);
}

static weft_array *bytes_of(weft_array *x) { return weft_view(x, WEFT_U8); }
static weft_array *there_and_back(weft_array *x) { return weft_view(weft_view(x, WEFT_U8), WEFT_F64); }
TEST(bytes_are_seen_as_another_dtype) {
  weft_scope *s = weft_scope_open();
  weft_array *x = VECTOR(1, -2), *half = weft_cast(VECTOR(1, -0.0, 65504, 0x1p-24), WEFT_F16);
  EXPECT_F64(wide(called_open(bytes_of, weft_cast(x, WEFT_F32))), 0, 0, 128, 63, 0, 0, 0, 192);
  EXPECT_F64(there_and_back(x), 1, -2);
  EXPECT_F64(wide(weft_view(half, WEFT_U16)), 0x3C00, 0x8000, 0x7BFF, 1);
  EXPECT_F64(wide(weft_view(weft_view(half, WEFT_I64), WEFT_F16)), 1, 0, 65504, 0x1p-24);
  EXPECT_F64(wide(weft_view(weft_cast(x, WEFT_BF16), WEFT_I16)), 0x3F80, 0xC000 - 65536);
  EXPECT_F64(weft_real(weft_view(VECTOR(3, 4), WEFT_C128)), 3);
  EXPECT_F64(weft_view(weft_complex(VECTOR(3), VECTOR(4)), WEFT_F64), 3, 4);
  EXPECT_F64(wide(weft_view(weft_full(WEFT_F32, 0, NULL, 1), WEFT_U32)), 0x3F800000);
  weft_array *y = weft_view(weft_view(weft_cast(x, WEFT_F32), WEFT_U32), WEFT_F32), *d;
  weft_array *f = weft_cast(x, WEFT_F32), *g = weft_view(weft_view(f, WEFT_U32), WEFT_F32);
  weft_grad(g, 1, &f, &d);
  EXPECT_F64(wide(y), 1, -2);
  EXPECT_F64(wide(d), 0, 0);
  EXPECT_BAD(weft_view(weft_cast(VECTOR(1, 2, 3), WEFT_F32), WEFT_F64), WEFT_ERR_SHAPE, "weft_view: the last axis of [3] of f32 is no whole number of f64");
  EXPECT_BAD(weft_view(weft_full(WEFT_F32, 0, NULL, 1), WEFT_U8), WEFT_ERR_SHAPE, "weft_view");
  weft_scope_discard(s);
}

/* Every float of 8 bits, against its definition: sign, exponent, fraction. */
TEST(floats_of_8_bits_are_read_and_rounded) {
  weft_scope *s = weft_scope_open();
  static const struct { weft_dtype kind; int digits, bias; } of[] = { { WEFT_E4M3, 3, 7 }, { WEFT_E5M2, 2, 15 } };
  uint8_t code[256], back[256];
  float value[256];
  for (int i = 0; i < 256; i++) code[i] = (uint8_t)i;
  for (int k = 0; k < 2; k++) {
    weft_array *c = weft_from(WEFT_U8, WEFT_DIMS(256), code), *x = weft_from_f8(c, of[k].kind, WEFT_F32);
    EXPECT_OK(weft_read(x, WEFT_F32, value, sizeof value));
    EXPECT_OK(weft_read(weft_to_f8(x, of[k].kind), WEFT_U8, back, sizeof back));
    for (int i = 0; i < 256; i++) {
      int m = i & 127, e = m >> of[k].digits, f = m & ((1 << of[k].digits) - 1);
      double size = ldexp(e ? (1 << of[k].digits) + f : f, (e ? e : 1) - of[k].bias - of[k].digits), want = i < 128 ? size : -size;
      bool is_nan = k ? m > 0x7C : m == 0x7F, is_inf = k && m == 0x7C;
      if (is_nan ? !isnan(value[i]) : is_inf ? !isinf(value[i]) : value[i] != want || !!signbit(value[i]) != (i > 127))
        test_fail(__FILE__, __LINE__, "%d of kind %d is %g, not %g", i, k, (double)value[i], want);
      if (!is_nan && back[i] != i) test_fail(__FILE__, __LINE__, "%g of kind %d is %d, not %d", (double)value[i], k, back[i], i);
      if (is_nan && back[i] != i) test_fail(__FILE__, __LINE__, "nan %d of kind %d is %d", i, k, back[i]);
    }
  }
  EXPECT_F64(wide(weft_to_f8(VECTOR(1e9, 448, 464, 465, -1e-9, 17, 19), WEFT_E4M3)), 126, 126, 126, 126, 128, 0x58, 0x5A);
  EXPECT_F64(wide(weft_to_f8(VECTOR(1e9, 57344, 61439, 61440, 0x1p-17, 0x1.8p-16), WEFT_E5M2)), 124, 123, 123, 124, 0, 2);
  EXPECT_BAD(weft_from_f8(VECTOR(1), WEFT_E4M3, WEFT_F32), WEFT_ERR_DTYPE, "weft_from_f8");
  EXPECT_BAD(weft_to_f8(VECTOR(1), WEFT_F16), WEFT_ERR_DTYPE, "weft_to_f8");
  weft_scope_discard(s);
}
