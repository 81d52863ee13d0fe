/* cublas_lt.h -- NVIDIA's library for products of matrices, if it is there: for f16 and bf16, whose sums have no order to
 * keep, for f32 where it may be rounded to tf32, and for f32 and f64 where that was asked for (WEFT_BLAS).
 *
 * Nothing is linked and nothing required: without the library every call says no, and products are weft's own. */
#ifndef WEFT_CUBLAS_LT_H
#define WEFT_CUBLAS_LT_H
#include "backend/cuda/cuda.h"

/* y[b,i,j] = sum over k of a[b,i,k] b[b,k,j]: of each operand the step between rows or columns of memory, in elements, those
 * between matrices of the batch, and whether the operand is turned: a's neighbours are along i, b's along k. y's are along j. */
struct lt_product {
  weft_dtype dtype, y_dtype; /* f16, bf16, f32, f64; y may also be f32 */
  bool by_tensor_cores;      /* f32 is rounded to tf32 */
  int64_t m, n, k, n_batch;
  int64_t a_step, b_step, y_step, a_batch, b_batch, y_batch;
  bool a_is_turned, b_is_turned;
};

const char *lt_name(void); /* loads it when first asked; NULL: it is not there, or not wanted */
/* Enqueues the product. DEVICE_CANNOT: the library has nothing for such operands. */
int lt_run(struct gpu *, const struct lt_product *, uint64_t a, uint64_t b, uint64_t y);
bool lt_can(struct gpu *, const struct lt_product *, int alignment); /* of all addresses, in bytes */

#endif
