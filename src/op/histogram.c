/* histogram.c -- how often numbers occur, composed of two steps (bins.c): one that counts, and one that says in which bin each
 * element is, where weights are to be added, which a scatter does with its order and its derivatives. */
#include <math.h>
#include "op/bins.h"
#include "op/composed.h"
#include "op/extent.h"
#include "op/index.h"

static weft_array *flat(weft_array *x) { return weft_reshape(x, 1, (int64_t[]){ WEFT_ANY }); }

/* Weights as long as x; NULL: none, or *bad is why not. */
static weft_array *weights_of(const char *fn, weft_array *x, weft_array *weights, weft_array **bad) {
  *bad = NULL;
  if (!weights || !arrays_ok(fn, 1, &weights, bad)) return NULL;
  struct node *n = array_node(x);
  weights = array_broadcast(fn, weft_cast(weights, dtype_of_sum(weft_dtype_of(weights))), n->rank, n->dims);
  node_release(n);
  return flat(weights);
}

/* The sum of the weights in each of the slots, which are as many as zeros has elements. */
static weft_array *added(weft_array *zeros, weft_array *slot, weft_array *weights) {
  return weft_put(zeros, weft_take(zeros, 1, &slot), weights, WEFT_ADD);
}

/* ---- bincount ---- */

/* As many bins as the largest of x needs, or n: u8 [bins]. Of x that may be empty, an element that counts for nothing is added.
 * What is below 0 needs one, which finds it wrong; what is beyond all memory needs no more than that. */
static weft_array *open_ruler(weft_array *x, int64_t n) {
  weft_array *least = weft_cast(weft_integer(n), WEFT_I64);
  dim length = dim_resolve(x->node->dims[0]);
  if (!length) return weft_full(WEFT_U8, 1, &n, 0);
  if (!dim_is_known(length)) x = weft_pad(x, 0, 0, 1, weft_integer(0));
  const int64_t beyond = (int64_t)1 << 56;
  weft_array *largest = weft_maximum(weft_cast(weft_max(x, WEFT_ALL), WEFT_I64), weft_cast(weft_integer(0), WEFT_I64));
  largest = weft_minimum(largest, weft_cast(weft_integer(beyond), WEFT_I64));
  weft_array *needed = weft_add(largest, weft_cast(weft_integer(1), WEFT_I64));
  if (!dim_is_known(length)) needed = weft_where(weft_gt(weft_size(x, 0), weft_integer(1)), needed, least);
  return array_of_length(weft_maximum(needed, least));
}

static weft_array *bincount(weft_array *x, weft_array *weights, int64_t n, int is_open) {
  static const char fn[] = "weft_bincount";
  weft_array *bad;
  if (!arrays_ok(fn, 1, &x, &bad)) return bad;
  weft_dtype d = weft_dtype_of(x);
  if (!dtype_is_integer(d) && d != WEFT_BOOL)
    return array_bad(WEFT_ERR_DTYPE, "%s: of integers, not of %s", fn, weft_dtype_name(d));
  if (n < 0) return array_bad(WEFT_ERR_ARG, "%s: %lld bins", fn, (long long)n);
  struct failure *why = dims_check(fn, 1, &n);
  if (why) return array_failed(why);
  if (d == WEFT_BOOL) x = weft_cast(x, WEFT_U8);
  weights = weights_of(fn, x, weights, &bad);
  if (bad) return bad;
  x = flat(x);
  if (weft_check(x)) return x;
  weft_array *ruler = is_open ? open_ruler(x, n) : weft_full(WEFT_U8, 1, &n, 0);
  if (!weights) return array_tally(x, ruler, BINS_OF_INTEGERS);
  return added(weft_cast(zeros_like(ruler), weft_dtype_of(weights)), array_bins(x, ruler, BINS_OF_INTEGERS), weights);
}

weft_array *weft_bincount(weft_array *x, weft_array *weights, int64_t n, int is_open) {
  return COMPOSED(bincount(x, weights, n, is_open));
}

/* ---- edges ---- */

/* What x is compared with edges in. Integers are exact in f64 up to 2^53. */
static weft_dtype compared(weft_dtype x, weft_dtype edges) {
  weft_dtype d = dtype_is_float(x) ? dtype_float(weft_dtype_promote(x, edges)) : WEFT_F64;
  return dtype_is_narrow_float(d) ? WEFT_F32 : d;
}

static weft_array *a_number(const char *fn, weft_array *x, const char *what, weft_dtype d) {
  weft_array *bad;
  struct shape_text s;
  if (!is_ordered(fn, x, &bad)) return bad;
  if (weft_rank(x)) return array_bad(WEFT_ERR_SHAPE, "%s: the %s end is %s, not a number", fn, what, shape_show(x->node, &s));
  return weft_cast(x, d);
}

/* An extremum of x, or what is more extreme than any number where there is none. */
static weft_array *extremum(weft_array *x, weft_array *of(weft_array *, int), double none) {
  dim length = dim_resolve(x->node->dims[0]);
  if (!length) return number_like(x, none);
  return of(dim_is_known(length) ? x : weft_pad(x, 0, 0, 1, number_like(x, none)), WEFT_ALL);
}

static weft_array *histogram_edges(weft_array *x, int64_t n, weft_array *low, weft_array *high) {
  static const char fn[] = "weft_histogram_edges";
  weft_array *bad;
  if (!is_ordered(fn, x, &bad)) return bad;
  if (n < 1) return array_bad(WEFT_ERR_ARG, "%s: %lld bins", fn, (long long)n);
  int64_t n_edges = n == INT64_MAX ? n : n + 1;
  struct failure *why = dims_check(fn, 1, &n_edges);
  if (why) return array_failed(why);
  weft_dtype d = compared(weft_dtype_of(x), weft_dtype_of(x));
  x = flat(weft_cast(x, d));
  if (weft_check(x)) return x;
  low = low ? a_number(fn, low, "lower", d) : extremum(x, weft_min, INFINITY);
  high = high ? a_number(fn, high, "upper", d) : extremum(x, weft_max, -INFINITY);
  weft_array *is_none = weft_lt(high, low), *is_one = weft_eq(low, high), *half = number_like(x, 0.5);
  is_none = weft_and(is_none, weft_eq(low, number_like(x, INFINITY)));
  low = weft_where(is_none, number_like(x, 0), weft_where(is_one, weft_sub(low, half), low));
  high = weft_where(is_none, number_like(x, 1), weft_where(is_one, weft_add(high, half), high));
  weft_array *i = weft_iota(weft_full(d, 1, &n_edges, 0), 0), *width = weft_div(weft_sub(high, low), number_like(x, (double)n));
  return weft_where(weft_eq(i, number_like(x, (double)n)), high, weft_add(weft_mul(i, width), low));
}

weft_array *weft_histogram_edges(weft_array *x, int64_t n, weft_array *low, weft_array *high) {
  return COMPOSED(histogram_edges(x, n, low, high));
}

/* ---- histogram ---- */

/* x and the edges as the steps want them. False: *bad. */
static bool measured(const char *fn, weft_array **x, weft_array **edges, weft_array **bad) {
  struct shape_text s;
  if (!is_ordered(fn, *x, bad) || !is_ordered(fn, *edges, bad)) return false;
  struct node *e = array_node(*edges);
  dim n = e->rank == 1 ? dim_resolve(e->dims[0]) : 0;
  struct failure *why = dim_is_known(n) && n < 2 ? fail(WEFT_ERR_SHAPE, scope_origin(),
                                                        "%s: the edges are %s, not a vector of two or more", fn, shape_show(e, &s))
                                                 : NULL;
  node_release(e);
  if (why) return *bad = array_failed(why), false;
  weft_dtype d = compared(weft_dtype_of(*x), weft_dtype_of(*edges));
  *edges = weft_cast(*edges, d);
  *x = flat(dtype_is_float(weft_dtype_of(*x)) ? weft_cast(*x, d) : *x);
  *bad = weft_check(*x) ? *x : *edges;
  return !weft_check(*bad);
}

/* counts / widths / their sum, in the dtype of the widths. */
static weft_array *density(weft_array *counts, weft_array *edges, int axis) {
  weft_array *width = weft_diff(edges, 1, 0);
  for (int k = axis + 1; k < weft_rank(counts); k++) width = weft_unsqueeze(width, -1);
  return weft_div(weft_cast(counts, dtype_float(weft_dtype_promote(weft_dtype_of(edges), weft_dtype_of(counts)))), width);
}

static weft_array *over_sum(weft_array *density, weft_array *counts) {
  return weft_div(density, weft_cast(weft_sum(counts, WEFT_ALL), weft_dtype_of(density)));
}

static weft_array *histogram(weft_array *x, weft_array *edges, weft_array *weights, int is_density) {
  static const char fn[] = "weft_histogram";
  weft_array *bad, *counts;
  if (!arrays_ok(fn, 1, &x, &bad)) return bad;
  weights = weights_of(fn, x, weights, &bad);
  if (bad || !measured(fn, &x, &edges, &bad)) return bad;
  if (!weights) counts = array_tally(x, edges, BINS_OF_EDGES);
  else {
    weft_array *zeros = weft_cast(zeros_like(edges), weft_dtype_of(weights)), *bins = array_bins(x, edges, BINS_OF_EDGES);
    counts = weft_slice(added(zeros, bins, weights), 0, 0, -1, 1); /* the last slot is what is in no bin */
  }
  return is_density ? over_sum(density(counts, edges, 0), counts) : counts;
}

weft_array *weft_histogram(weft_array *x, weft_array *edges, weft_array *weights, int is_density) {
  return COMPOSED(histogram(x, edges, weights, is_density));
}

/* ---- of several coordinates ---- */

static struct failure *coordinates_wrong(const char *fn, int n, weft_array *const x[]) {
  struct shape_text s, t;
  for (int k = 1; k < n; k++) {
    const struct node *a = x[0]->node, *b = x[k]->node;
    bool meet = a->rank == b->rank;
    for (int j = 0; j < a->rank && meet; j++) meet = sizes_meet(fn, a->dims[j], b->dims[j]);
    if (!meet) return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: coordinates %s and %s", fn, shape_show(a, &s), shape_show(b, &t));
  }
  return NULL;
}

static weft_array *histogramdd(int n, weft_array *const x[], weft_array *const edges[], weft_array *weights, int is_density) {
  static const char fn[] = "weft_histogramdd";
  weft_array *bad, *e[WEFT_RANK_MAX], *slot = NULL, *is_in = NULL;
  dim dims[WEFT_RANK_MAX];
  if (n < 1 || n > WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "%s: %d coordinates", fn, n);
  if (!arrays_ok(fn, n, x, &bad) || !arrays_ok(fn, n, edges, &bad)) return bad;
  struct failure *why = coordinates_wrong(fn, n, x);
  if (why) return array_failed(why);
  weights = weights_of(fn, x[0], weights, &bad);
  if (bad) return bad;
  for (int k = 0; k < n; k++) {
    weft_array *coordinate = x[k];
    e[k] = edges[k];
    if (!measured(fn, &coordinate, &e[k], &bad)) return bad;
    weft_array *bin = array_bins(coordinate, e[k], BINS_OF_EDGES);
    weft_array *bins = weft_sub(weft_size(e[k], 0), weft_cast(weft_integer(1), WEFT_I64)), *is_here = weft_lt(bin, bins);
    slot = k ? weft_add(weft_mul(slot, bins), bin) : bin;
    is_in = k ? weft_and(is_in, is_here) : is_here;
    dims[k] = dim_above(dim_resolve(e[k]->node->dims[0]), 1);
  }
  /* One slot more than bins, for what is in none of them. */
  struct node slots = { .dtype = WEFT_U8, .rank = n, .dims = dims };
  weft_array *ruler = weft_pad(flat(zeros_of(&slots)), 0, 0, 1, weft_integer(0));
  weft_array *last = weft_sub(weft_size(ruler, 0), weft_cast(weft_integer(1), WEFT_I64));
  slot = weft_where(is_in, slot, last);
  weft_array *counts = weights ? added(weft_cast(zeros_like(ruler), weft_dtype_of(weights)), slot, weights)
                               : array_tally(slot, ruler, BINS_OF_INTEGERS);
  counts = array_reshape(fn, weft_slice(counts, 0, 0, -1, 1), n, dims);
  if (!is_density) return counts;
  weft_array *y = counts;
  for (int k = 0; k < n; k++) y = density(y, e[k], k);
  return over_sum(y, counts);
}

weft_array *weft_histogramdd(int n, weft_array *const x[], weft_array *const edges[], weft_array *weights, int is_density) {
  return COMPOSED(histogramdd(n, x, edges, weights, is_density));
}

/* ---- digitize ---- */

static weft_array *digitize(weft_array *x, weft_array *bins, int is_right) {
  static const char fn[] = "weft_digitize";
  weft_array *bad;
  struct shape_text s;
  if (!is_ordered(fn, x, &bad) || !is_ordered(fn, bins, &bad)) return bad;
  if (weft_rank(bins) != 1) return array_bad(WEFT_ERR_SHAPE, "%s: the bins are %s, not a vector", fn, shape_show(bins->node, &s));
  weft_array *first = weft_slice(bins, 0, 0, 1, 1), *last = weft_slice(bins, 0, -1, WEFT_END, 1);
  weft_array *is_down = weft_any(array_before(last, first), WEFT_ALL), *row = weft_where(is_down, weft_flip(bins, 0), bins);
  weft_array *falls = array_before(weft_slice(row, 0, 1, WEFT_END, 1), weft_slice(row, 0, 0, -1, 1));
  row = array_assert(row, weft_not(falls), WEFT_ERR_ARG, "weft_digitize: the bins neither ascend nor descend");
  weft_array *below = weft_searchsorted(row, x, !is_right);
  return weft_where(is_down, weft_sub(weft_size(bins, 0), below), below);
}

weft_array *weft_digitize(weft_array *x, weft_array *bins, int is_right) { return COMPOSED(digitize(x, bins, is_right)); }
