/* make.c -- leaves and what is made from nothing: values, numbers, names, sizes, counters. */
#include <limits.h>
#include <string.h>
#include "base/mem.h"
#include "op/extent.h"
#include "op/said.h"
#include "run/buffer.h"

static dim size_in(const struct node *x, int64_t axis) {
  return axis < 0 ? dim_count(x->rank, x->dims) : x->dims[axis];
}

static void hold_size(const void *attr) { dim_retain(((const struct size_attr *)attr)->size); }
static void drop_size(const void *attr) { dim_release(((const struct size_attr *)attr)->size); }

/* A number that has been told is still that of an operand which says so by a name. */
static bool resize_size(const struct node *n, struct node *const in[], void *attr, struct dim_table *t, bool is_copied,
                        struct failure **why) {
  (void)n, (void)t, (void)is_copied, (void)why;
  struct size_attr *a = attr;
  dim now = size_in(in[0], a->axis);
  if (!dim_same(now, a->size)) a->size = now;
  return a->size != DIM_BAD && (hold_size(a), true);
}

/* What turns out to be no size stays as it is: the array that has it says why. */
static bool settle_size(struct node *n) {
  struct size_attr *a = n->attr;
  dim now = dim_resolve(a->size);
  if (dim_is_known(now)) node_tell(n, n->rank, &a->size, now);
  return true;
}

static struct node *size_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  const struct size_attr *a = n->attr;
  return node_size(node_retain(in[0]), (int)a->axis, size_in(in[0], a->axis));
}

/* A mapped array has its size one axis further on; every row has the same. */
static weft_array *batch_size(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  const struct size_attr *a = r->node->attr;
  weft_array *size = weft_integer(1), *x = r->in[0];
  if (a->axis >= 0) size = weft_size(x, (int)a->axis + 1);
  else
    for (int k = 1; k < weft_rank(x); k++) size = weft_mul(size, weft_size(x, k));
  struct node *n;
  weft_array *bad;
  if (!operands("weft_size", 1, &x, &n, &bad)) return bad;
  weft_array *all = array_broadcast("weft_size", weft_cast(size, WEFT_I64), 1, n->dims);
  node_release(n);
  return all;
}

static weft_array *batch_iota(const struct rule *r, const bool is_mapped[]) {
  (void)is_mapped;
  return r->out;
}

const struct op op_value = { .name = "value", .kind = OP_LEAF };
const struct op op_scalar = { .name = "scalar", .kind = OP_LEAF };
const struct op op_input = { .name = "input", .kind = OP_LEAF };
const struct op op_iota = { .name = "iota", .kind = OP_IOTA, .batch = batch_iota };
const struct op op_size = { .name = "size", .kind = OP_SIZE, .batch = batch_size, .resize = resize_size,
                            .settle = settle_size, .again = size_again, .hold = hold_size, .drop = drop_size };

/* ---- Numbers ---- */

weft_array *weft_scalar(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return array_of(scalar_node(WEFT_F32, bits, true));
}

weft_array *weft_integer(int64_t x) {
  return array_of(scalar_node(x >= INT32_MIN && x <= INT32_MAX ? WEFT_I32 : WEFT_I64, (uint64_t)x, true));
}

weft_array *weft_full(weft_dtype dtype, int rank, const int64_t dims[], double value) {
  struct failure *why = dtype_check("weft_full", dtype);
  if (!why) why = dims_check("weft_full", rank, dims);
  if (why) return array_failed(why);
  return array_of(node_broadcast(number_node(dtype, value, 0), rank, dims));
}

weft_array *weft_full_like(weft_array *like, double value) {
  struct node *n;
  weft_array *bad;
  if (!operands("weft_full_like", 1, &like, &n, &bad)) return bad;
  weft_dtype d = (weft_dtype)n->dtype;
  struct node *y = node_broadcast(number_node(d, value, 0), n->rank, n->dims);
  node_release(n);
  return array_sized_by(array_of(y), like);
}

/* ---- Values ---- */

/* A leaf whose elements lie in buf, row by row if stride is NULL; takes over the reference to buf. */
struct node *value_node(weft_dtype dtype, int rank, const dim dims[], struct buffer *buf, int64_t offset,
                        const int64_t stride[]) {
  struct node *n = buf ? node_make(&op_value, dtype, rank, dims, 0, NULL, NULL, 0) : NULL;
  struct value *v = n ? value_make(n) : NULL;
  if (!v) {
    node_release(n);
    buffer_release(buf);
    return NULL;
  }
  v->buf = buf;
  v->offset = offset;
  int64_t row = 1;
  for (int k = rank - 1; k >= 0; row *= dims[k--]) v->stride[k] = stride ? stride[k] : row;
  n->value = v;
  atomic_store_explicit(&n->state, NODE_READY, memory_order_release);
  return n;
}

/* A bool is 0 or 1, whatever the byte was. */
static void copy_in(weft_dtype dtype, void *to, const void *from, size_t bytes) {
  if (dtype != WEFT_BOOL) memcpy(to, from, bytes);
  else
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)to)[i] = ((const uint8_t *)from)[i] != 0;
}

static struct buffer *filled(weft_dtype dtype, const void *data, size_t bytes) {
  void *to;
  struct buffer *buf = buffer_to_fill(bytes, &to);
  if (buf && bytes) copy_in(dtype, to, data, bytes);
  return buf;
}

weft_array *weft_from(weft_dtype dtype, int rank, const int64_t dims[], const void *data) {
  struct failure *why = dtype_check("weft_from", dtype);
  if (!why) why = dims_check("weft_from", rank, dims);
  if (why) return array_failed(why);
  size_t bytes = (size_t)dim_count(rank, dims) * weft_dtype_bytes(dtype);
  if (bytes && !data) return array_bad(WEFT_ERR_ARG, "weft_from: the data is NULL");
  struct node *n = value_node(dtype, rank, dims, filled(dtype, data, bytes), 0, NULL);
  if (!n) return array_bad(WEFT_ERR_MEMORY, "weft_from: no memory for %llu bytes", (unsigned long long)bytes);
  return array_of(n);
}

/* ---- Names ---- */

weft_array *weft_input(weft_dtype dtype, int rank, const int64_t dims[]) {
  dim known[WEFT_RANK_MAX], d[WEFT_RANK_MAX];
  struct failure *why = dtype_check("weft_input", dtype);
  bool is_rank = rank >= 0 && rank <= WEFT_RANK_MAX;
  for (int k = 0; is_rank && k < rank; k++) known[k] = !dims || dims[k] == WEFT_ANY ? 1 : dims[k];
  if (!why) why = dims_check("weft_input", rank, known);
  if (why) return array_failed(why);
  for (int k = 0; k < rank; k++) d[k] = !dims || dims[k] == WEFT_ANY ? dim_symbol() : dims[k];
  return array_of(node_make(&op_input, dtype, rank, d, 0, NULL, NULL, 0));
}

/* ---- Sizes and counters ---- */

weft_array *weft_size(weft_array *x, int axis) {
  struct node *n;
  weft_array *bad;
  if (!operands("weft_size", 1, &x, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_size", n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  return array_of(node_size(n, axis, n->dims[axis]));
}

weft_array *weft_iota(weft_array *like, int axis) {
  struct node *n, *iota;
  weft_array *bad;
  if (!operands("weft_iota", 1, &like, &n, &bad)) return bad;
  struct failure *why = axis_check("weft_iota", n, &axis);
  if (!why && n->dtype == WEFT_BOOL) why = fail(WEFT_ERR_DTYPE, scope_origin(), "weft_iota: an index is not a bool");
  if (why) return array_of_bad(why, 1, &n);
  iota = node_make(&op_iota, n->dtype, n->rank, n->dims, 0, NULL, &(struct axis_attr){ axis },
                   sizeof(struct axis_attr));
  node_release(n);
  return array_sized_by(array_of(iota), like);
}

/* An integer that nobody can compute yet: *rows has it for a size. */
static struct failure *later_size(weft_array *a, dim *out, weft_array **rows) {
  *rows = array_of_length(a);
  struct node *n = array_node(*rows);
  struct failure *why = n->op == &op_bad ? failure_retain(n->failure) : NULL;
  *out = why ? DIM_BAD : n->dims[0];
  node_release(n);
  return why;
}

static struct failure *size_of(weft_array *a, const struct node *n, int k, dim *out, weft_array **rows) {
  struct shape_text s;
  if (n->rank || !dtype_is_integer(n->dtype))
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_sized: size %d is %s %s, not a 0-d integer", k,
                weft_dtype_name(n->dtype), shape_show(n, &s));
  dim d = array_bound(a);
  int64_t now = 0;
  bool is_number = dim_is_integer(d, &now);
  if (is_number) d = now < 0 ? DIM_BAD : now;
  else if (d != DIM_BAD && !size_meets("weft_sized", WEFT_ERR_SHAPE, d)) d = DIM_BAD;
  else if (d == DIM_BAD) {
    weft_status status = weft_read(weft_cast(a, WEFT_I64), WEFT_I64, &now, sizeof now);
    if (status == WEFT_ERR_NO_VALUE) return later_size(a, out, rows);
    if (status) return fail(status, scope_origin(), "weft_sized: size %d: %s", k, weft_message());
    d = now < 0 ? DIM_BAD : now;
  }
  if (d == DIM_BAD)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_sized: size %d is negative: %lld", k, (long long)now);
  *out = d;
  return NULL;
}

static bool has_open_size(int rank, const dim d[]) {
  for (int k = 0; k < rank; k++)
    if (!dim_is_known(d[k])) return true;
  return false;
}

/* The inputs are there for graphs that replace what the sizes come from. */
static weft_array *sized(weft_dtype dtype, int rank, weft_array *const sizes[], struct node *const n[]) {
  dim d[WEFT_RANK_MAX];
  weft_array *on[WEFT_RANK_MAX], *y = NULL;
  struct failure *why = NULL;
  int n_sizes = 0;
  for (int k = 0; k < rank && !why; k++) {
    weft_array *rows = NULL;
    why = size_of(sizes[k], n[k], k, &d[k], &rows);
    on[k] = rows ? weft_size(rows, 0) : sizes[k];
    if (!why) dim_retain(d[k]), n_sizes++; /* computing the next may take long */
  }
  if (!why) why = count_check("weft_sized", rank, d);
  if (!why) y = array_of(node_broadcast(number_node(dtype, 0, 0), rank, d));
  if (y && has_open_size(rank, d)) y = weft_depends(y, rank, on);
  for (int k = 0; y && k < rank; k++) y = array_said_by(y, on[k]);
  for (int k = 0; k < n_sizes; k++) dim_release(d[k]);
  return why ? array_failed(why) : y;
}

weft_array *weft_sized(weft_dtype dtype, int rank, weft_array *const sizes[]) {
  struct node *n[WEFT_RANK_MAX];
  weft_array *bad;
  struct failure *why = dtype_check("weft_sized", dtype);
  if (!why && (rank < 0 || rank > WEFT_RANK_MAX))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_sized: the rank %d is not in 0..%d", rank, WEFT_RANK_MAX);
  if (why) return array_failed(why);
  if (!operands("weft_sized", rank, sizes, n, &bad)) return bad;
  weft_array *y = COMPOSED(sized(dtype, rank, sizes, n));
  nodes_release(rank, n);
  return y;
}
