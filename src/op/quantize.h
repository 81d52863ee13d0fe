/* quantize.h -- arrays of codes as operands: what quantize.c and code_product.c share. */
#ifndef WEFT_OP_QUANTIZE_H
#define WEFT_OP_QUANTIZE_H
#include "op/codes.h"
#include "op/composed.h"

/* The attribute of op_dequantize, and of op_code_product, which alone reads the last three. */
struct code_attr {
  int64_t group, bits, mode;      /* weft_code_mode */
  int64_t is_transposed, is_gathered;
  int64_t batch;                  /* axes in front of matrices */
};

void code_numbers(const struct library_call *, int64_t number[]); /* its attr, for a device */

struct coded { weft_array *words, *scales, *biases; struct code_attr a; }; /* [.., rows, n]; biases NULL: there are none */

/* What a public function got, checked: NULL, or why not. */
struct failure *coded_of(const char *fn, weft_array *words, weft_array *scales, weft_array *biases, const weft_code_form *,
                         struct coded *);
dim coded_length(const struct coded *);  /* of a row */
weft_array *coded_values(const struct coded *, weft_dtype); /* f32 or f64; it has checked sizes */

static inline bool code_is_whole(const struct code_attr *a) { return a->mode == WEFT_CODES_AFFINE; }
static inline int code_operands(const struct code_attr *a) { return code_is_whole(a) ? 3 : 2; } /* words, scales, biases */

/* Matrices of problem i of a call whose operands of codes begin at in[first]. */
struct codes codes_of_call(const struct library_call *, const struct code_attr *, int first, int64_t i);

/* Cotangents of scales and biases, if they are wanted, by that of what codes stand for. is_wanted and dx: of words, scales and
 * biases. */
void codes_vjp(const struct code_attr *, weft_array *const in[], weft_array *dw, const bool is_wanted[], weft_array *dx[]);

#endif
