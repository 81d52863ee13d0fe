/* every_plain.h -- arrays in plain C, and every operation on them as the documentation says it: loops over indices, one
 * element at a time, sums in the order of docs/kir.md. It shares nothing with the library but the expansions of exp, log,
 * log1p and tanh, which it takes from the vm and holds against libm. */
#ifndef WEFT_TEST_EVERY_PLAIN_H
#define WEFT_TEST_EVERY_PLAIN_H
#include <stdbool.h>
#include <stdint.h>
#include "weft.h"

enum { PLAIN_RANK = 12 };
struct plain { weft_dtype dtype; int rank; int64_t dims[PLAIN_RANK], count; uint8_t *data; }; /* dense, row by row */

struct plain plain_new(weft_dtype, int rank, const int64_t dims[]); /* zeros */
void plain_free(struct plain *);
bool plain_is_float(weft_dtype);
double plain_f(const struct plain *, int64_t i);         /* of floats */
int64_t plain_i(const struct plain *, int64_t i);        /* of integers (u64: the pattern) and bools */
void plain_set_f(struct plain *, int64_t i, long double); /* rounds once to a float dtype; saturates to an integer */
void plain_set_i(struct plain *, int64_t i, int64_t);    /* integers wrap; bool: not 0 */

/* The first element where the two differ, NaN being equal to NaN; -1: none. b: dense elements of a's dtype. */
int64_t plain_differs(const struct plain *a, const void *b);
void plain_index(const struct plain *, int64_t i, int64_t index[]); /* of element i */
int64_t plain_at(const struct plain *, const int64_t index[]);
const char *plain_text(const struct plain *, int64_t i);            /* static, two at a time */

/* Operands are cast and broadcast as needed; `out` is the dtype of the result. */
struct plain plain_cast(const struct plain *, weft_dtype);
struct plain plain_broadcast(const struct plain *, int rank, const int64_t dims[]);
bool plain_common(int n, const struct plain *const x[], int *rank, int64_t dims[]); /* the shape they broadcast to */
struct plain plain_element(const char *op, weft_dtype out, int n, const struct plain *const x[]);
struct plain plain_reduce(const char *op, weft_dtype out, const struct plain *, int axis); /* axis stays with length 1 */
struct plain plain_prefix(const char *op, weft_dtype out, const struct plain *, int axis);
struct plain plain_sort(const struct plain *, int axis, bool is_order); /* or where the elements stood */
struct plain plain_reshape(const struct plain *, int rank, const int64_t dims[]);
struct plain plain_transpose(const struct plain *, const int axes[]);
struct plain plain_slice(const struct plain *, int axis, int64_t start, int64_t length, int64_t step);
struct plain plain_take(const struct plain *, int n, const struct plain *const index[]); /* indices of one shape */
struct plain plain_put(const struct plain *x, const struct plain *number, const struct plain *v, weft_how);
                               /* number: the elements of x, counted row by row, that those of v (same shape) go to */
struct plain plain_concat(int axis, int n, const struct plain *const x[]);
struct plain plain_pad(const struct plain *, int axis, int64_t before, int64_t after, const struct plain *value);
struct plain plain_matmul(const struct plain *a, const struct plain *b, weft_dtype out); /* equal batches, rank >= 2 */
struct plain plain_iota(weft_dtype, int rank, const int64_t dims[], int axis);

/* Complex numbers (every_plain_complex.c): the functions above come here with them. */
bool plain_is_complex(weft_dtype);
weft_dtype plain_part_dtype(weft_dtype);                                     /* of other dtypes: themselves */
struct plain plain_parts(const struct plain *);                              /* the same memory as real numbers */
struct plain plain_part(const struct plain *, int k);                        /* 0: real, 1: imaginary */
struct plain plain_pair(const struct plain *re, const struct plain *im);
struct plain plain_complex_cast(const struct plain *, weft_dtype);
bool plain_is_complex_element(const char *op, int n, const struct plain *const x[]);
struct plain plain_complex_element(const char *op, weft_dtype out, int n, const struct plain *const x[]);
struct plain plain_complex_reduce(const char *op, weft_dtype out, const struct plain *, int axis);
struct plain plain_complex_prefix(const char *op, const struct plain *, int axis);
struct plain plain_complex_put(const struct plain *x, const struct plain *number, const struct plain *v, weft_how);
struct plain plain_complex_matmul(const struct plain *a, const struct plain *b);

void plain_threefry(uint32_t k0, uint32_t k1, uint32_t x[2]); /* x: the counter, then the two words */

/* Whether this file has it: a missing row is told by name. */
bool plain_has_element(const char *op), plain_has_fold(const char *op);
extern const char *plain_missing; /* the last op that was asked for and has no row: its value is nan or 0 */

void plain_end(void);     /* gives back what exp and its like have compiled */
extern bool plain_asks_truths; /* whether those functions are held against truths, some of which take long; at first they are */
extern char plain_off_text[200]; /* the last of them */
extern int64_t plain_off; /* results of mathematical functions beyond their bound (docs/special.md, docs/accuracy.md), and wrong remainders, so far */
struct select_attr;
struct plain plain_ranks(const struct plain *sorted, int axis, const struct select_attr *); /* of what is sorted along the axis */

#endif
