/* program_rows.h -- the rows of operations that random programs are made of, and what the files that choose and build them share:
 * make_.. chooses operands and parameters of a step, build_.. makes its array. */
#ifndef WEFT_TEST_PROGRAM_ROWS_H
#define WEFT_TEST_PROGRAM_ROWS_H
#include "program_kinds.h"
#include <string.h>

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))
#define MAKE(name) bool make_##name(struct program *p, const struct kind *kind)
#define BUILD(name) weft_array *build_##name(__attribute__((unused)) weft_array *const in[], __attribute__((unused)) const struct step *s)

static inline const struct form *form(const struct program *p, int i) { return &p->step[i].form; }
static inline int any_axis(struct program *p, int i) { return (int)any(p, (uint32_t)form(p, i)->rank); }
static inline int64_t signed_axis(struct program *p, int i, int axis) { return once_in(p, 3) ? axis - form(p, i)->rank : axis; }
static inline bool ok(int i) { return i >= 0; }

static inline bool is_in(const char *name, const char *const list[]) {
  for (int k = 0; list[k]; k++) if (!strcmp(name, list[k])) return true;
  return false;
}

/* name, weight, is_smooth, how it is chosen */
#define ROWS(X)                                                                                                              \
  X(choose, 3, true, choose) X(where, 4, true, where) X(fma, 3, true, fma) X(hyp2f1, 1, false, hyp2f1) X(clip, 2, false, clip) X(cast, 5, false, cast) X(complex, 2, false, complex)  \
  X(nan_to_num, 2, true, nan_to_num) X(isclose, 1, false, alike) X(allclose, 1, false, alike) X(array_equal, 1, false, alike)       \
  X(gcd, 1, false, whole) X(lcm, 1, false, whole) X(bit_count, 1, false, whole) X(nanvar, 1, true, var) X(nanstd, 1, true, var)       \
  X(backwards, 2, true, run) X(before, 2, true, run) X(diff, 2, true, diff) X(ediff, 1, true, diff) X(trapezoid, 2, true, trapezoid)                         \
  X(interp, 1, false, interp) X(convolve, 1, true, convolve) X(correlate, 1, true, convolve)                                         \
  X(pad_with, 2, true, pad_with) X(resize, 2, true, resize) X(max_pool, 1, true, pool) X(mean_pool, 1, true, pool) X(rope, 1, true, rope) \
  X(softmax_where, 1, false, where_counts) X(log_softmax_where, 1, false, where_counts) X(logsumexp_where, 1, false, where_counts)    \
  X(view, 2, false, view) X(to_f8, 1, false, view) X(from_f8, 1, false, view)                                                        \
  X(inner, 1, true, small_product) X(outer, 1, true, small_product) X(addmm, 1, true, small_product) X(matrix_power, 1, true, small_product) \
  X(hadamard, 1, true, small_product) X(gather_mm, 1, true, small_product) X(block_masked_mm, 1, true, small_product)                 \
  X(segmented_mm, 1, true, small_product) X(fft, 2, true, fft) X(irfft, 1, true, irfft)                                                                   \
  X(rot90, 2, true, rot90) X(meshgrid, 2, true, kron) X(kron, 2, true, kron)                                                         \
  X(sort, 3, false, sort) X(argsort, 1, false, sort) X(searchsorted, 1, false, search) X(topk, 1, false, rank) X(argtopk, 1, false, rank) \
  X(partition, 1, false, rank) X(argpartition, 1, false, rank) X(quantile, 1, false, quantile) X(nanquantile, 1, false, quantile)                                        \
  X(bincount, 1, false, bins) X(histogram, 1, false, bins) X(histogram_edges, 1, false, bins) X(histogramdd, 1, false, bins) X(digitize, 1, false, bins) \
  X(var, 2, true, var) X(std, 1, true, var) X(over, 3, true, over) X(var_over, 1, true, var_over) X(std_over, 1, true, var_over)                                                            \
  X(reshape, 5, true, reshape) X(reshape_like, 2, true, like) X(broadcast, 5, true, broadcast)                                \
  X(broadcast_like, 2, true, like) X(transpose, 5, true, transpose) X(moveaxis, 2, true, two_axes)                            \
  X(unsqueeze, 2, true, unsqueeze) X(squeeze, 4, true, squeeze) X(flatten, 2, true, two_axes)                                 \
  X(as_strided, 3, true, as_strided)                                                                                          \
  X(cut, 2, true, chosen) X(compress, 1, true, chosen) X(flatnonzero, 1, false, chosen) X(nonzero, 1, false, chosen) X(unique, 1, false, chosen)              \
  X(slice, 9, true, slice) X(window, 3, true, window) X(at, 4, true, window) X(take, 4, true, take)                           \
  X(take_along, 2, true, take_along) X(diagonal, 2, true, diagonal) X(put, 9, true, put)                                      \
  X(concat, 4, true, join) X(stack, 3, true, join) X(split, 3, true, split) X(pad, 3, true, pad)                              \
  X(repeat, 2, true, by_number) X(tile, 2, true, tile) X(roll, 3, true, by_number) X(diag, 2, true, diag)                     \
  X(tril, 2, true, diag) X(triu, 2, true, diag)                                                                               \
  X(matmul, 8, true, matmul) X(tensordot, 2, true, tensordot) X(einsum, 3, true, einsum)                                      \
  X(rms_norm, 2, true, norm) X(layer_norm, 2, true, norm) X(attention, 2, true, attention)                                    \
  X(full, 2, true, full) X(full_like, 2, true, full_like) X(iota, 2, false, iota) X(size, 2, false, iota)                     \
  X(sized, 2, true, sized) X(arange, 1, true, series) X(linspace, 1, true, series) X(eye, 1, true, series) X(tri, 1, true, series) \
  X(windows, 3, true, windows) X(conv, 3, true, conv) X(conv_channels, 1, false, conv_channels) X(random_split, 1, false, random_split)                                \
  X(random_bits, 2, false, random) X(random_randint, 1, false, random)                                                       \
  X(random_categorical, 1, false, random_axis) X(random_permutation, 1, false, random_axis) X(random_shuffle, 1, false, random_axis) X(random_choice, 1, false, random_axis) \
  X(random_dirichlet, 1, false, random_axis) X(random_multinomial, 1, false, random_axis) \
  X(cholesky, 1, false, linear) X(cholesky_status, 1, false, linear) X(cholesky_solve, 1, false, linear) X(solve, 1, false, linear) X(solve_triangular, 1, false, linear) \
  X(solve_triangular_status, 1, false, linear) \
  X(inverse, 1, false, linear) X(inverse_status, 1, false, linear) X(det, 1, false, linear) X(slogdet, 1, false, linear) X(random_multivariate_normal, 1, false, linear) \
  X(quantize, 1, false, quantized) X(dequantize, 1, false, quantized) X(quantized_matmul, 1, false, quantized) X(gather_qmm, 1, false, quantized)                                                 \
  X(host, 1, false, host) X(host_like, 1, false, host_like) X(stop_gradient, 1, true, same) X(alias, 1, true, same) X(to, 1, true, same) X(assert, 1, true, same) X(depends, 1, true, same)
#define X(name_, weight, smooth, how) MAKE(how); BUILD(name_);
ROWS(X)
#undef X
/* Of rows that come by themselves from the lists of weft.h, and of those that have no row above. */
MAKE(unary); MAKE(binary); MAKE(ternary); MAKE(along); MAKE(random); MAKE(random_key); MAKE(with_number); MAKE(dots);
BUILD(unary); BUILD(binary); BUILD(ternary); BUILD(along); BUILD(random1); BUILD(random2); BUILD(random3); BUILD(random_key); BUILD(with_number);

#endif
