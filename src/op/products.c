/* products.c -- products written with weft_matmul: of chosen matrices, of parts of them, with themselves, with signs. */
#include <math.h>
#include "op/composed.h"
#include "op/index.h"
#include "op/later.h"

static dim size_of(weft_array *x, int axis) {
  struct node *n = array_node(x);
  dim d = n->dims[axis < 0 ? n->rank + axis : axis];
  node_release(n);
  return d;
}

/* ---- Vectors ---- */

static weft_array *inner(weft_array *a, weft_array *b) {
  struct node *n[2];
  weft_array *bad;
  struct shape_text s, t;
  if (!operands("weft_inner", 2, (weft_array *[]){ a, b }, n, &bad)) return bad;
  int i = n[0]->rank - 1, j = n[1]->rank - 1;
  dim m = i < 0 ? 1 : n[0]->dims[i], k = j < 0 ? m : n[1]->dims[j];
  if (i >= 0 && m != k && dim_is_known(m) && dim_is_known(k))
    return array_of_bad(fail(WEFT_ERR_SHAPE, scope_origin(), "weft_inner: the last axes differ: %s and %s", shape_show(n[0], &s),
                             shape_show(n[1], &t)), 2, n);
  nodes_release(2, n);
  return i < 0 || j < 0 ? weft_mul(a, b) : weft_tensordot(a, b, 1, &i, &j);
}

weft_array *weft_inner(weft_array *a, weft_array *b) { return COMPOSED(inner(a, b)); }

weft_array *weft_outer(weft_array *a, weft_array *b) {
  weft_array *bad;
  if (!arrays_ok("weft_outer", 2, (weft_array *[]){ a, b }, &bad)) return bad;
  return weft_mul(weft_reshape(a, 2, (int64_t[]){ WEFT_ANY, 1 }), weft_reshape(b, 2, (int64_t[]){ 1, WEFT_ANY }));
}

/* ---- Matrices ---- */

static weft_array *scaled(weft_array *x, double by) { return by == 1 ? x : weft_mul(x, weft_scalar(by)); }

static weft_array *addmm(weft_array *c, weft_array *a, weft_array *b, double alpha, double beta) {
  static const char fn[] = "weft_addmm";
  weft_array *bad;
  if (!arrays_ok(fn, 3, (weft_array *[]){ c, a, b }, &bad)) return bad;
  weft_dtype d = weft_dtype_of(c);
  bool is_wider = alpha != 1 && d == weft_dtype_of(a) && d == weft_dtype_of(b) && dtype_is_narrow_float(d);
  if (is_wider) { /* a product beyond the largest half may be brought back by alpha */
    c = weft_cast(c, WEFT_F32), a = weft_cast(a, WEFT_F32), b = weft_cast(b, WEFT_F32);
    return weft_cast(weft_add(scaled(c, beta), scaled(array_matmul(fn, a, b), alpha)), d);
  }
  return weft_add(scaled(c, beta), scaled(array_matmul(fn, a, b), alpha));
}

weft_array *weft_addmm(weft_array *c, weft_array *a, weft_array *b, double alpha, double beta) {
  return COMPOSED(addmm(c, a, b, alpha, beta));
}

/* Powers by squaring: x^0 is the identity, and x^-n the power n of the inverse. */
weft_array *weft_matrix_power(weft_array *x, int64_t n) {
  struct node *node;
  weft_array *bad, *y = NULL;
  if (!operands("weft_matrix_power", 1, &x, &node, &bad)) return bad;
  struct failure *why = square_check("weft_matrix_power", node);
  if (why) return array_of_bad(why, 1, &node);
  dim rows = node->dims[node->rank - 2];
  x = array_with_size(array_of(node), -1, rows);
  if (n < 0) x = weft_inverse(x);
  uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
  if (!left) return identity_like(x);
  for (;; x = weft_matmul(x, x)) {
    if (left & 1) y = y ? weft_matmul(y, x) : x;
    if (!(left >>= 1)) return y == x ? array_apart(y) : y;
  }
}

/* ---- Chosen matrices ---- */

/* [.., m, k] as [batch, m, k] */
static weft_array *in_a_row(weft_array *x) {
  return weft_rank(x) == 2 ? weft_unsqueeze(x, 0) : weft_rank(x) == 3 ? x : weft_flatten(x, 0, -3);
}

/* The matrices at these places of the batch, counted row by row; without places all of them as they stand. */
static weft_array *chosen(weft_array *x, weft_array *at) {
  return at ? array_take(in_a_row(x), 1, &at, BY_GATHER_MM) : x;
}

weft_array *weft_gather_mm(weft_array *a, weft_array *b, weft_array *at_a, weft_array *at_b) {
  static const char fn[] = "weft_gather_mm";
  weft_array *bad, *given[] = { a, b, at_a ? at_a : a, at_b ? at_b : b };
  if (!arrays_ok(fn, 4, given, &bad)) return bad;
  if (weft_rank(a) < 2 || weft_rank(b) < 2)
    return array_bad(WEFT_ERR_SHAPE, "%s: of matrices, not of arrays of %d and %d axes", fn, weft_rank(a), weft_rank(b));
  if ((at_a && !dtype_is_integer(weft_dtype_of(at_a))) || (at_b && !dtype_is_integer(weft_dtype_of(at_b))))
    return array_bad(WEFT_ERR_DTYPE, "%s: the places are integers", fn);
  return array_matmul(fn, chosen(a, at_a), chosen(b, at_b));
}

/* ---- Parts of matrices ---- */

static dim blocks_of(dim n, int64_t block) { return dim_quotient(dim_add(n, block - 1), block); }

/* Every element of the mask for a block of so many rows and columns; the last ones may be cut. */
static weft_array *in_blocks(weft_array *mask, weft_array *x, int64_t block) {
  for (int axis = -2; axis < 0; axis++) {
    int from_0 = weft_rank(mask) + axis;
    dim n = size_of(x, axis);
    mask = array_with_size(mask, from_0, blocks_of(n, block));
    mask = array_cut("weft_block_masked_mm", weft_repeat(mask, from_0, block), from_0, NULL, &n, 1);
  }
  return mask;
}

/* x where the mask is; a mask of numbers multiplies. */
static weft_array *masked(weft_array *x, weft_array *mask, int64_t block) {
  if (!mask) return x;
  weft_array *all = in_blocks(mask, x, block);
  return weft_dtype_of(mask) == WEFT_BOOL ? weft_where(all, x, number_like(x, 0)) : weft_mul(x, weft_cast(all, weft_dtype_of(x)));
}

static struct failure *mask_check(weft_array *x, weft_array *mask, int64_t block) {
  static const char fn[] = "weft_block_masked_mm";
  if (!mask) return NULL;
  if (weft_rank(mask) < 2) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: a mask of %d axes", fn, weft_rank(mask));
  for (int axis = -2; axis < 0; axis++) {
    dim n = size_of(x, axis), m = size_of(mask, axis);
    if (!sizes_meet(fn, m, blocks_of(n, block)))
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld blocks of %lld in the mask, for %lld elements", fn, (long long)m,
                  (long long)block, (long long)n);
  }
  return NULL;
}

weft_array *weft_block_masked_mm(weft_array *a, weft_array *b, int64_t block, weft_array *mask_out, weft_array *mask_a,
                                 weft_array *mask_b) {
  static const char fn[] = "weft_block_masked_mm";
  weft_array *bad, *given[] = { a, b, mask_out ? mask_out : a, mask_a ? mask_a : a, mask_b ? mask_b : b };
  if (!arrays_ok(fn, 5, given, &bad)) return bad;
  if (block < 1) return array_bad(WEFT_ERR_ARG, "%s: blocks of %lld", fn, (long long)block);
  if (weft_rank(a) < 2 || weft_rank(b) < 2)
    return array_bad(WEFT_ERR_SHAPE, "%s: of matrices, not of arrays of %d and %d axes", fn, weft_rank(a), weft_rank(b));
  struct failure *why = mask_check(a, mask_a, block);
  if (!why) why = mask_check(b, mask_b, block);
  if (why) return array_failed(why);
  weft_array *y = array_matmul(fn, masked(a, mask_a, block), masked(b, mask_b, block));
  if (mask_out && weft_check(y)) return y;
  why = mask_check(y, mask_out, block);
  return why ? array_failed(why) : masked(y, mask_out, block);
}

/* x where its place along an axis is in the segment, else 0. */
static weft_array *in_segment(weft_array *x, int axis, weft_array *from, weft_array *to) {
  weft_array *k = weft_iota(weft_cast(weft_full_like(x, 0), WEFT_I64), axis);
  return weft_where(weft_and(weft_ge(k, from), weft_lt(k, to)), x, number_like(x, 0));
}

/* One segment a step: what is outside of it counts as 0, on both sides. */
static weft_array *of_segment(weft_array *a, weft_array *b, weft_array *from, weft_array *to) {
  return array_matmul("weft_segmented_mm", in_segment(a, -1, from, to), in_segment(b, -2, from, to));
}

/* y[.., m, n] = sum over s_0 <= k < s_1 of a[m, k] b[k, n], for every pair of the segments. */
weft_array *weft_segmented_mm(weft_array *a, weft_array *b, weft_array *segments) {
  static const char fn[] = "weft_segmented_mm";
  struct node *n[3];
  weft_array *bad;
  struct shape_text s;
  if (!operands(fn, 3, (weft_array *[]){ a, b, segments }, n, &bad)) return bad;
  struct failure *why = NULL;
  if (n[0]->rank != 2 || n[1]->rank != 2)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: of two matrices, not of arrays of %d and %d axes", fn, n[0]->rank,
               n[1]->rank);
  else if (n[2]->rank < 1 || !dtype_is_integer((weft_dtype)n[2]->dtype) || !sizes_meet(fn, n[2]->dims[n[2]->rank - 1], 2))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the segments are pairs of integers [..,2], not %s", fn, shape_show(n[2], &s));
  if (why) return array_of_bad(why, 3, n);
  dim out[WEFT_RANK_MAX];
  int rank = n[2]->rank + 1;
  for (int k = 0; k + 1 < n[2]->rank; k++) out[k] = n[2]->dims[k];
  out[rank - 2] = n[0]->dims[0], out[rank - 1] = n[1]->dims[1];
  nodes_release(3, n);
  segments = array_with_size(segments, rank - 2, 2);
  weft_array *pairs = weft_cast(weft_reshape(segments, 2, (int64_t[]){ WEFT_ANY, 2 }), WEFT_I64);
  weft_array *is_inside = weft_and(weft_ge(pairs, weft_integer(0)), weft_le(pairs, weft_size(a, 1)));
  pairs = array_assert(pairs, is_inside, WEFT_ERR_INDEX, "weft_segmented_mm: a segment begins or ends outside of the inner axis");
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *pair = weft_loop_each(loop, pairs);
  weft_array *y = of_segment(a, b, weft_at(pair, 0, weft_integer(0)), weft_at(pair, 0, weft_integer(1)));
  weft_array *all = weft_loop_all(loop, y);
  weft_loop_close(loop);
  return array_reshape(fn, all, rank, out);
}

/* ---- Signs ---- */

enum { SIGNS_MOST = 64 };

/* Sylvester's matrix: -1 to the number of bits that i and j share. */
static weft_array *signs(weft_dtype d, int64_t n) {
  weft_array *zeros = weft_full(WEFT_U32, 2, (int64_t[]){ n, n }, 0);
  weft_array *shared = weft_bit_count(weft_and(weft_iota(zeros, 0), weft_iota(zeros, 1)));
  return weft_sub(weft_cast(weft_integer(1), d), weft_mul(weft_cast(weft_and(shared, weft_integer(1)), d), weft_integer(2)));
}

static weft_array *number(int64_t n) { return weft_cast(weft_integer(n), WEFT_I32); }
static weft_array *quotient(weft_array *x, int n) { return weft_floor_divide(x, number(n)); }
static weft_array *rest(weft_array *x, int n) { return weft_remainder(x, number(n)); }
static weft_array *bit(weft_array *of, weft_array *at) { return weft_and(weft_shr(of, at), number(1)); }

/* Paley's of order 12: (C + I) x [+ +; + -] with the diagonal [+ -; - -], C the squares mod 5 with a border. 1: below 0. */
static weft_array *paley(weft_array *i, weft_array *j) {
  weft_array *a = quotient(i, 2), *b = quotient(j, 2), *odd_i = rest(i, 2), *odd_j = rest(j, 2), *zero = number(0);
  weft_array *square = bit(number(1 << 1 | 1 << 4), rest(weft_sub(a, b), 5));
  weft_array *is_edge = weft_logical_or(weft_eq(a, zero), weft_eq(b, zero)), *is_below = weft_and(odd_i, odd_j);
  weft_array *beside = weft_where(is_edge, is_below, weft_xor(is_below, weft_sub(number(1), square)));
  return weft_where(weft_eq(a, b), weft_or(odd_i, odd_j), beside);
}

/* Williamson's of order 4 n: [A B C D; -B A -D C; -C D A -B; -D -C B A], of matrices whose rows are their first one, turned. Bit k
 * of first[m]: element k of matrix m is below 0. 1: below 0. */
static weft_array *williamson(const int first[4], int n, weft_array *i, weft_array *j) {
  const int is_negated = 1 << 4 | 1 << 6 | 1 << 8 | 1 << 11 | 1 << 12 | 1 << 13; /* by block, row by row; the matrix is i ^ j */
  weft_array *row = quotient(i, n), *column = quotient(j, n), *at = rest(weft_sub(rest(j, n), rest(i, n)), n);
  weft_array *which = weft_xor(row, column), *below = bit(number(first[0]), at);
  for (int m = 1; m < 4; m++) below = weft_where(weft_eq(which, number(m)), bit(number(first[m]), at), below);
  return weft_xor(below, bit(number(is_negated), weft_add(weft_mul(row, number(4)), column)));
}

/* The matrices of signs of order 12, 20, 28. */
static weft_array *odd_signs(weft_dtype d, int n) {
  static const int five[] = { 0x1e, 0x1e, 0x0c, 0x12 }, seven[] = { 0x7e, 0x3c, 0x5a, 0x66 };
  weft_array *zeros = weft_full(WEFT_I32, 2, (int64_t[]){ n, n }, 0), *i = weft_iota(zeros, 0), *j = weft_iota(zeros, 1);
  weft_array *below = n == 12 ? paley(i, j) : williamson(n == 20 ? five : seven, n / 4, i, j);
  return weft_cast(weft_sub(number(1), weft_mul(below, number(2))), d);
}

/* m 2^k with m 1, 12, 20 or 28: m, and 2^k. false: it is no such number. */
static bool orders(dim n, int64_t *m, int64_t *rest) {
  static const int64_t of[] = { 1, 12, 20, 28 };
  for (int k = 0; k < 4; k++) {
    *m = of[k], *rest = n / of[k];
    if (n % of[k] == 0 && *rest > 0 && !(*rest & (*rest - 1))) return true;
  }
  return false;
}

static weft_array *write_hadamard(const void *scale, weft_array *const in[]) {
  return weft_hadamard(in[0], *(const double *)scale);
}

static weft_array *hadamard_later(weft_array *x, double scale) {
  struct node *n = array_node(x);
  weft_array *y = array_later(write_hadamard, &scale, sizeof scale, 1, &x, dtype_float((weft_dtype)n->dtype), n->rank, n->dims);
  return node_release(n), y;
}

/* The matrix of n = p q is that of p for the rows and that of q for the columns of x as [.., p, q]: products with at most 64. */
weft_array *weft_hadamard(weft_array *x, double scale) {
  static const char fn[] = "weft_hadamard";
  weft_array *bad;
  int axis = -1;
  if (!is_ordered(fn, x, &bad) || !has_axis(fn, x, &axis, &bad)) return bad;
  dim n = dim_resolve(size_of(x, -1));
  int64_t odd, power;
  if (!dim_is_known(n)) return hadamard_later(x, scale);
  if (!orders(n, &odd, &power))
    return array_bad(WEFT_ERR_SHAPE, "%s: the last axis is %lld, not m 2^k with m 1, 12, 20 or 28", fn, (long long)n);
  weft_array *y = raised(x);
  struct node *like = array_node(x);
  int rank = like->rank;
  dim dims[WEFT_RANK_MAX + 3];
  for (int k = 0; k < rank; k++) dims[k] = like->dims[k];
  node_release(like);
  if (rank + 1 > WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "%s: too many axes: %d", fn, rank);
  for (int64_t done = 1, m; done < n; done *= m) { /* [.., n/m, m] turned: what comes next is last */
    int64_t left = power / done;
    m = left <= 0 || done >= power ? odd : left < SIGNS_MOST ? left : SIGNS_MOST;
    dims[rank - 1] = n / m, dims[rank] = m;
    weft_dtype d = weft_dtype_of(y);
    weft_array *h = done >= power ? weft_transpose(odd_signs(d, (int)m), NULL) : signs(d, m);
    weft_array *part = weft_moveaxis(weft_matmul(array_reshape(fn, y, rank + 1, dims), h), -1, -2);
    dims[rank - 1] = n;
    y = array_reshape(fn, part, rank, dims);
  }
  return lowered(weft_mul(y, weft_scalar(scale == 0 ? 1 / sqrt((double)n) : scale)), x);
}
