/* repeat.c -- the same elements again, along axes, and turned round. */
#include <string.h>
#include "op/operand.h"

/* Axis k of x, times[k] times: each element (is_inner) or all of it. In between it is two axes, one of them standing
 * still; an axis that stays as it is is not split, for the rank is bounded. dims: of the result. Takes over x. */
static weft_array *again(const char *fn, struct node *x, const int64_t times[], bool is_inner, const dim dims[]) {
  dim thin[2 * WEFT_RANK_MAX], wide[2 * WEFT_RANK_MAX];
  int rank = 0, n = x->rank;
  for (int k = 0; k < n; k++) {
    bool is_split = times[k] != 1;
    if (is_split && !is_inner) thin[rank] = 1, wide[rank++] = times[k];
    thin[rank] = wide[rank] = x->dims[k];
    rank++;
    if (is_split && is_inner) thin[rank] = 1, wide[rank++] = times[k];
  }
  struct failure *why =
      rank > WEFT_RANK_MAX ? fail(WEFT_ERR_SHAPE, scope_origin(), "%s: too many axes: %d", fn, rank) : NULL;
  if (why) return array_of_bad(why, 1, &x);
  return array_reshape(fn, array_broadcast(fn, array_reshape(fn, array_of(x), rank, thin), rank, wide), n, dims);
}

static struct failure *times_check(const char *fn, const struct node *x, const int64_t times[], dim dims[]) {
  for (int k = 0; k < x->rank; k++) {
    if (times[k] < 0)
      return fail(WEFT_ERR_ARG, scope_origin(), "%s: %lld times along axis %d", fn, (long long)times[k], k);
    dims[k] = dim_mul(x->dims[k], times[k]);
    if (dims[k] == DIM_BAD && !dim_is_known(x->dims[k]))
      return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
    if (dims[k] == DIM_BAD)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld times along axis %d are too many elements", fn,
                  (long long)times[k], k);
  }
  return count_check(fn, x->rank, dims);
}

enum { FEW = 8, LONG = 16 };

/* A kernel whose innermost axis has few elements goes through them slowly: neighbours that are few are put beside each other,
 * one copy each. Takes over x. */
static weft_array *beside_each_other(struct node *x, int64_t n, const dim dims[]) {
  weft_array *all[FEW], *one = array_of(x);
  for (int i = 0; i < n; i++) all[i] = one;
  return array_reshape("weft_repeat", weft_stack(-1, (int)n, all), weft_rank(one), dims);
}

weft_array *weft_repeat(weft_array *x, int axis, int64_t n) {
  struct node *node;
  weft_array *bad;
  int64_t times[WEFT_RANK_MAX];
  dim dims[WEFT_RANK_MAX];
  if (!operands("weft_repeat", 1, &x, &node, &bad)) return bad;
  struct failure *why = axis_check("weft_repeat", node, &axis);
  for (int k = 0; k < node->rank; k++) times[k] = k == axis ? n : 1;
  if (!why) why = times_check("weft_repeat", node, times, dims);
  if (why) return array_of_bad(why, 1, &node);
  bool is_last = axis == node->rank - 1 && dim_is_known(node->dims[axis]) && node->dims[axis] >= LONG;
  if (is_last && n > 1 && n <= FEW && node->rank < WEFT_RANK_MAX) return COMPOSED(beside_each_other(node, n, dims));
  return array_apart_from(x, again("weft_repeat", node, times, true, dims));
}

/* Both counted from the last axis, with ones in front. */
weft_array *weft_tile(weft_array *x, int rank, const int64_t times[]) {
  struct node *n;
  weft_array *bad;
  int64_t all[WEFT_RANK_MAX];
  dim dims[WEFT_RANK_MAX];
  if (!operands("weft_tile", 1, &x, &n, &bad)) return bad;
  struct failure *why = rank < 0 || rank > WEFT_RANK_MAX || (rank && !times)
                            ? fail(WEFT_ERR_ARG, scope_origin(), "weft_tile: along %d axes", rank)
                            : NULL;
  if (why) return array_of_bad(why, 1, &n);
  int most = rank > n->rank ? rank : n->rank, at = most - n->rank;
  for (int k = 0; k < most; k++) {
    all[k] = k < most - rank ? 1 : times[k - (most - rank)];
    dims[k] = k < at ? 1 : n->dims[k - at];
  }
  if (!(n = node_reshape(n, most, dims))) return array_of(NULL);
  why = times_check("weft_tile", n, all, dims);
  return why ? array_of_bad(why, 1, &n) : array_apart_from(x, again("weft_tile", n, all, false, dims));
}

/* The last `shift` elements come first. */
static weft_array *turned(weft_array *x, int axis, int64_t size, int64_t shift) {
  shift = size ? ((shift % size) + size) % size : 0;
  if (shift == 0) return array_apart(x);
  weft_array *front = array_slice(x, axis, size - shift, shift, 1);
  return weft_concat(axis, 2, (weft_array *[]){ front, array_slice(x, axis, 0, size - shift, 1) });
}

/* Of a size that may turn out to be 0, or less than the shift: y[i] = x[(i - shift) mod size]. */
static weft_array *turned_later(weft_array *x, int axis, int64_t shift) {
  weft_array *size = weft_size(x, axis), *places = weft_iota(weft_sized(WEFT_I64, 1, &size), 0);
  weft_array *from = weft_remainder(weft_sub(places, weft_remainder(weft_integer(shift), size)), size);
  return weft_moveaxis(weft_take(weft_moveaxis(x, axis, 0), 1, &from), 0, axis);
}

weft_array *weft_roll(weft_array *x, int axis, int64_t shift) {
  struct node *n;
  weft_array *bad;
  if (!operands("weft_roll", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_roll", n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  dim size = n->dims[axis];
  weft_array *y = array_of(n);
  return dim_is_known(size) ? turned(y, axis, size, shift) : turned_later(y, axis, shift);
}

/* Turns by quarters of a circle, from the first axis towards the second: two flips, or a transpose and one. */
weft_array *weft_rot90(weft_array *x, int64_t quarters, int axis1, int axis2) {
  struct node *n;
  weft_array *bad;
  int axes[2], order[WEFT_RANK_MAX];
  if (!operands("weft_rot90", 1, &x, &n, &bad)) return bad;
  struct failure *why = axes_check("weft_rot90", n, 2, (int[]){ axis1, axis2 }, axes);
  if (why) return array_of_bad(why, 1, &n);
  for (int k = 0; k < n->rank; k++) order[k] = k == axes[0] ? axes[1] : k == axes[1] ? axes[0] : k;
  weft_array *y = array_of(n);
  quarters = (quarters % 4 + 4) % 4;
  if (quarters == 0) return array_apart(y);
  if (quarters == 2) return weft_flip(weft_flip(y, axes[0]), axes[1]);
  return quarters == 1 ? weft_flip(weft_transpose(y, order), axes[0]) : weft_transpose(weft_flip(y, axes[0]), order);
}

/* ---- Every element of one with every element of others ---- */

/* All of x along one axis of many. */
static weft_array *along_one(struct node *x, int rank, int axis) {
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; k < rank; k++) dims[k] = k == axis ? dim_count(x->rank, x->dims) : 1;
  return array_of(node_reshape(x, rank, dims));
}

static struct failure *mesh_check(int n, struct node *const x[], bool swaps, dim dims[]) {
  for (int k = 0; k < n; k++) dims[swaps && k < 2 ? 1 - k : k] = dim_count(x[k]->rank, x[k]->dims);
  return count_check("weft_meshgrid", n, dims);
}

void weft_meshgrid(int n, weft_array *const x[], int is_xy, weft_array *y[]) {
  struct node *node[WEFT_RANK_MAX];
  weft_array *bad = NULL;
  dim dims[WEFT_RANK_MAX];
  bool swaps = is_xy && n > 1;
  if (!has_list("weft_meshgrid", n, y)) return;
  if (n < 0 || n > WEFT_RANK_MAX) bad = array_bad(WEFT_ERR_ARG, "weft_meshgrid: of %d arrays", n);
  else if (operands("weft_meshgrid", n, x, node, &bad)) {
    struct failure *why = mesh_check(n, node, swaps, dims);
    if (why) bad = array_of_bad(why, n, node);
  }
  weft_array *all[WEFT_RANK_MAX]; /* y may be x */
  for (int k = 0; !bad && k < n; k++) all[k] = x[k];
  for (int k = 0; k < n; k++) {
    y[k] = bad ? bad : array_broadcast("weft_meshgrid", along_one(node[k], n, swaps && k < 2 ? 1 - k : k), n, dims);
    for (int j = 0; !bad && j < n; j++) if (j != k) y[k] = array_sized_by(y[k], all[j]);
  }
}

/* Both with the same rank, ones in front: axis k of the result is axis k of a, and within it that of b. */
weft_array *weft_kron(weft_array *a, weft_array *b) {
  struct node *n[2];
  weft_array *bad, *x[2];
  dim split[2 * WEFT_RANK_MAX], joined[WEFT_RANK_MAX];
  if (!operands("weft_kron", 2, (weft_array *[]){ a, b }, n, &bad)) return bad;
  int rank = n[0]->rank > n[1]->rank ? n[0]->rank : n[1]->rank;
  struct failure *why = NULL;
  if (2 * rank > WEFT_RANK_MAX) why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_kron: %d axes are too many", rank);
  for (int k = 0; k < rank; k++) joined[k] = 1;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < n[i]->rank; k++) joined[rank - n[i]->rank + k] = dim_mul(joined[rank - n[i]->rank + k], n[i]->dims[k]);
  if (!why) why = count_check("weft_kron", rank, joined);
  if (why) return array_of_bad(why, 2, n);
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2 * rank; k++) split[k] = 1;
    for (int k = 0; k < n[i]->rank; k++) split[2 * (rank - n[i]->rank + k) + i] = n[i]->dims[k];
    x[i] = array_of(node_reshape(n[i], 2 * rank, split));
  }
  return array_reshape("weft_kron", weft_mul(x[0], x[1]), rank, joined);
}
