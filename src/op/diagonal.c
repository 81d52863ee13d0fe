/* diagonal.c -- where the column is the row + k: matrices with something there, triangles, and what stands there. */
#include "base/least.h"
#include "op/operand.h"

/* Beyond this no diagonal meets an array; sums with sizes do not overflow. */
static int64_t cut(int64_t k) {
  int64_t far = (int64_t)1 << 61;
  return k < -far ? -far : k > far ? far : k;
}

/* compare(column, row + k) for every element of an n x m matrix. */
static weft_array *mask(weft_array *compare(weft_array *, weft_array *), dim n, dim m, int64_t k) {
  struct node like = { .dtype = WEFT_I64, .rank = 2, .dims = (dim[]){ n, m } };
  weft_array *zeros = zeros_of(&like);
  return compare(weft_iota(zeros, 1), weft_add(weft_iota(zeros, 0), weft_integer(cut(k))));
}

static weft_array *marked(const char *fn, weft_dtype dtype, weft_array *compare(weft_array *, weft_array *), int64_t n,
                          int64_t m, int64_t k) {
  struct failure *why = dtype_check(fn, dtype);
  if (!why) why = dims_check(fn, 2, (int64_t[]){ n, m });
  return why ? array_failed(why) : weft_cast(mask(compare, n, m, k), dtype);
}

weft_array *weft_eye(weft_dtype dtype, int64_t n, int64_t m, int64_t k) {
  return marked("weft_eye", dtype, weft_eq, n, m, k);
}
weft_array *weft_tri(weft_dtype dtype, int64_t n, int64_t m, int64_t k) {
  return marked("weft_tri", dtype, weft_le, n, m, k);
}

/* ---- Triangles of an array ---- */

static weft_array *triangle(const char *fn, weft_array *x, int64_t k, bool is_upper) {
  struct node *n;
  weft_array *bad;
  struct shape_text s;
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = n->rank < 2 ? fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s is no matrix", fn, shape_show(n, &s))
                                    : NULL;
  if (why) return array_of_bad(why, 1, &n);
  weft_array *below = mask(weft_le, n->dims[n->rank - 2], n->dims[n->rank - 1], is_upper ? cut(k) - 1 : k);
  weft_array *a = array_of(n), *zero = number_like(a, 0);
  return is_upper ? weft_where(below, zero, a) : weft_where(below, a, zero);
}

weft_array *weft_tril(weft_array *x, int64_t k) { return triangle("weft_tril", x, k, false); }
weft_array *weft_triu(weft_array *x, int64_t k) { return triangle("weft_triu", x, k, true); }

/* ---- The diagonal of an array ---- */

static int64_t above_0(int64_t a) { return a > 0 ? a : 0; }

/* How many elements diagonal k of n x m has. */
static dim length(dim n, dim m, int64_t k) {
  return n == m && k == 0 ? n : dim_min(dim_above(n, above_0(-k)), dim_above(m, above_0(k)));
}

/* first, first + 1, .. of n integers; x tells n, where that is not known yet. */
static weft_array *counted_from(int64_t first, dim n, weft_array *x) {
  struct node like = { .dtype = WEFT_I64, .rank = 1, .dims = &n };
  return weft_add(weft_iota(array_sized_by(zeros_of(&like), x), 0), weft_integer(first));
}

/* The two axes in front, in this order. */
static weft_array *in_front(struct node *n, int a, int b) {
  int axes[WEFT_RANK_MAX] = { a, b }, at = 2;
  for (int k = 0; k < n->rank; k++)
    if (k != a && k != b) axes[at++] = k;
  return weft_transpose(array_of(n), axes);
}

weft_array *weft_diagonal(weft_array *x, int64_t k, int axis1, int axis2) {
  struct node *n;
  weft_array *bad;
  int axes[2];
  if (!operands("weft_diagonal", 1, &x, &n, &bad)) return bad;
  struct failure *why = axes_check("weft_diagonal", n, 2, (int[]){ axis1, axis2 }, axes);
  if (why) return array_of_bad(why, 1, &n);
  dim many = length(n->dims[axes[0]], n->dims[axes[1]], k = cut(k));
  if (many == 0) k = 0;
  weft_array *index[] = { counted_from(above_0(-k), many, x), counted_from(above_0(k), many, x) };
  return weft_moveaxis(weft_take(in_front(n, axes[0], axes[1]), 2, index), 0, -1);
}

/* Element i of x stands in row i + above_0(-k). */
static weft_array *matrix_of(struct node *n, int64_t k) {
  dim side = dim_add(n->dims[0], above_0(k) + above_0(-k));
  struct failure *why = count_check("weft_diag", 2, (dim[]){ side, side });
  if (why) return array_of_bad(why, 1, &n);
  weft_array *x = array_of(n), *zero = number_like(x, 0), *column = weft_pad(x, 0, above_0(-k), above_0(k), zero);
  return weft_where(mask(weft_eq, side, side, k), weft_unsqueeze(column, 1), zero);
}

weft_array *weft_diag(weft_array *x, int64_t k) {
  struct node *n;
  weft_array *bad;
  struct shape_text s;
  if (!operands("weft_diag", 1, &x, &n, &bad)) return bad;
  if (n->rank == 1) return matrix_of(n, cut(k));
  struct failure *why =
      n->rank == 2 ? NULL
                   : fail(WEFT_ERR_SHAPE, scope_origin(), "weft_diag: of a vector or a matrix, not of %s", shape_show(n, &s));
  return why ? array_of_bad(why, 1, &n) : weft_diagonal(array_of(n), k, 0, 1);
}
