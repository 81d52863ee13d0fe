/* strided.c -- any walk over the elements of an array, row by row, by strides: overlapping windows and whatever other
 * views cannot say. A view where the number of elements is known, which is then checked at once; else a take. */
#include <string.h>
#include "op/index.h"

struct strides { int rank; dim dims[WEFT_RANK_MAX + 1]; struct strided_attr at; };

/* ---- Bounds ---- */

/* The lowest and the highest place the walk comes to. Known sizes only. */
static void reach(const struct strides *w, __int128 *low, __int128 *high) {
  *low = *high = w->at.offset;
  for (int k = 0; k < w->rank; k++) {
    __int128 far = (__int128)(w->dims[k] - 1) * w->at.stride[k];
    *(far < 0 ? low : high) += far;
  }
}

static struct failure *bounds_check(const struct node *x, const struct strides *w) {
  __int128 low, high;
  struct shape_text s;
  dim count = dim_count(x->rank, x->dims);
  if (dim_count(w->rank, w->dims) == 0) return NULL;
  reach(w, &low, &high);
  if (low >= 0 && (!dim_is_known(count) || high < count)) return NULL;
  bool is_low = low < 0;
  __int128 at = is_low ? low : high;
  bool is_far = at < INT64_MIN || at > INT64_MAX;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_as_strided: element %s%lld is %s %s", is_far ? "beyond " : "",
              (long long)(is_far ? (at < 0 ? INT64_MIN : INT64_MAX) : at), is_low ? "before" : "behind",
              shape_show(x, &s));
}

/* ---- Making nodes ---- */

static struct node *strided_node(struct node *x, const struct strides *w) {
  size_t bytes = sizeof w->at.offset + (size_t)w->rank * sizeof *w->at.stride;
  struct node *y = node_make(&op_as_strided, (weft_dtype)x->dtype, w->rank, w->dims, 1, &x, &w->at, bytes);
  node_release(x);
  return y;
}

/* The number of each element that the walk shows. */
static weft_array *places(const struct strides *w) {
  struct node like = { .dtype = WEFT_I64, .rank = (uint8_t)w->rank, .dims = (dim *)w->dims };
  weft_array *zeros = zeros_of(&like), *at = weft_add(zeros, weft_integer(w->at.offset));
  for (int k = 0; k < w->rank; k++)
    at = weft_add(at, weft_mul(weft_iota(zeros, k), weft_integer(w->at.stride[k])));
  return at;
}

static weft_array *flat(weft_array *x) {
  dim count = dim_count(x->node->rank, x->node->dims);
  return array_reshape("weft_as_strided", x, 1, &count);
}

static weft_array *by_index(weft_array *x, const struct strides *w) {
  weft_array *index = places(w);
  return array_take(flat(x), 1, &index, BY_STRIDES);
}

static struct strides walk_of(const struct node *n) {
  struct strides w = { .rank = n->rank };
  memcpy(&w.at, n->attr, n->attr_bytes);
  if (n->rank) memcpy(w.dims, n->dims, n->rank * sizeof *w.dims);
  return w;
}

/* ---- Rules ---- */

static weft_array *strided_vjp(const struct rule *r, int k, weft_array *dy) {
  (void)k;
  struct strides w = walk_of(r->node);
  const struct node *x = r->in[0]->node;
  weft_array *index = places(&w), *dx = array_scatter(flat(zeros_like(r->in[0])), dy, 1, &index, WEFT_ADD, BY_STRIDES);
  return array_reshape("weft_as_strided", dx, x->rank, x->dims);
}

static weft_array *strided_jvp(const struct rule *r, int k, weft_array *dx) {
  (void)k;
  struct strides w = walk_of(r->node);
  struct node *n = array_good_node(dx);
  return n ? array_of(strided_node(n, &w)) : dx;
}

/* Every row begins behind the one before. */
static weft_array *strided_batch(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  struct strides w = walk_of(r->node);
  const struct node *x = r->in[0]->node;
  dim rows = x->dims[0], count = dim_count(x->rank - 1, x->dims + 1);
  if (w.rank == WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "weft_map: the rank would be %d", w.rank + 1);
  if (!dim_is_known(count)) {
    weft_array *index = places(&w), *by_row = array_reshape("weft_map", r->in[0], 2, (dim[]){ rows, count });
    return weft_moveaxis(array_take(weft_moveaxis(by_row, 0, 1), 1, &index, BY_STRIDES), -1, 0);
  }
  memmove(w.dims + 1, w.dims, (size_t)w.rank * sizeof *w.dims);
  memmove(w.at.stride + 1, w.at.stride, (size_t)w.rank * sizeof *w.at.stride);
  w.dims[0] = rows;
  w.at.stride[0] = count;
  w.rank++;
  return array_of(strided_node(array_node(r->in[0]), &w));
}

const struct op op_as_strided = { .name = "as_strided", .kind = OP_VIEW, .chooses = true, .vjp = strided_vjp, .jvp = strided_jvp,
                                  .batch = strided_batch };

/* ---- weft_as_strided ---- */

weft_array *weft_as_strided(weft_array *x, int rank, const int64_t dims[], const int64_t strides[], int64_t offset) {
  struct node *n;
  weft_array *bad;
  struct strides w = { .rank = rank, .at.offset = offset };
  if (!operands("weft_as_strided", 1, &x, &n, &bad)) return bad;
  struct failure *why = dims_check("weft_as_strided", rank, dims);
  if (!why && rank && !strides) why = fail(WEFT_ERR_ARG, scope_origin(), "weft_as_strided: strides is NULL");
  for (int k = 0; k < rank && !why; k++) w.dims[k] = dims[k], w.at.stride[k] = dims[k] > 1 ? strides[k] : 0;
  if (!why) why = bounds_check(n, &w);
  if (why) return array_of_bad(why, 1, &n);
  if (dim_count(rank, dims) == 0) w.at = (struct strided_attr){ 0 };
  if (dim_is_known(dim_count(n->rank, n->dims))) return array_of(strided_node(n, &w));
  return by_index(array_of(n), &w);
}
