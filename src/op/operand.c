/* operand.c -- see operand.h. */
#include "op/operand.h"
#include <string.h>

bool has_places(const char *fn, int n, weft_array **const place[]) {
  int n_there = 0;
  for (int k = 0; k < n; k++) n_there += place[k] != NULL;
  if (n_there == n) return true;
  struct failure *f = fail(WEFT_ERR_ARG, scope_origin(), "%s: the place of a result is NULL", fn);
  for (int k = 0; k < n; k++) if (place[k]) *place[k] = array_failed(failure_retain(f));
  if (n_there) failure_release(f);
  else scope_blame(f);
  return false;
}

bool has_list(const char *fn, int n, weft_array *results[]) {
  if (results || n < 1) return true;
  scope_blame(fail(WEFT_ERR_ARG, scope_origin(), "%s: the list for %d results is NULL", fn, n));
  return false;
}

weft_array *array_of_bad(struct failure *why, int n, struct node *const node[]) {
  nodes_release(n, node);
  return array_failed(why);
}

bool operands(const char *fn, int n, weft_array *const a[], struct node *node[], weft_array **bad) {
  if (!arrays_nodes(fn, n, a, node, bad)) return false;
  bool ok = true;
  for (int i = 0; i < n; i++)
    if (node[i]->weak) ok &= (node[i] = node_cast(node[i], node[i]->dtype)) != NULL;
  if (ok) return true;
  nodes_release(n, node);
  *bad = array_of(NULL);
  return false;
}

/* ---- Axes and sizes ---- */

struct failure *axis_check(const char *fn, const struct node *n, int *axis) {
  struct shape_text s;
  int k = *axis < 0 ? *axis + n->rank : *axis;
  if (k < 0 || k >= n->rank)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: there is no axis %d in %s", fn, *axis, shape_show(n, &s));
  *axis = k;
  return NULL;
}

struct failure *axes_check(const char *fn, const struct node *x, int n, const int given[], int axes[]) {
  uint64_t seen = 0;
  struct shape_text s;
  if (n < 0 || n > WEFT_RANK_MAX || (n && !given)) return fail(WEFT_ERR_ARG, scope_origin(), "%s: %d axes", fn, n);
  for (int k = 0; k < n; k++) {
    axes[k] = given[k];
    struct failure *why = axis_check(fn, x, &axes[k]);
    if (why) return why;
    if (seen >> axes[k] & 1)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: axis %d of %s is listed twice", fn, axes[k], shape_show(x, &s));
    seen |= (uint64_t)1 << axes[k];
  }
  return NULL;
}

struct failure *dtype_check(const char *fn, weft_dtype d) {
  if (!dtype_is_valid(d)) return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: there is no dtype %d", fn, (int)d);
  return NULL;
}

struct failure *dims_check(const char *fn, int rank, const int64_t dims[]) {
  if (rank < 0 || rank > WEFT_RANK_MAX)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the rank %d is not in 0..%d", fn, rank, WEFT_RANK_MAX);
  if (rank && !dims) return fail(WEFT_ERR_ARG, scope_origin(), "%s: dims is NULL", fn);
  for (int i = 0; i < rank; i++)
    if (dims[i] < 0)
      return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the size %lld on axis %d is negative", fn, (long long)dims[i],
                  i);
  return count_check(fn, rank, dims);
}

/* Products of symbols fail for want of memory, or of terms; those of numbers because they overflow. */
struct failure *count_check(const char *fn, int rank, const dim dims[]) {
  struct shape_text s;
  bool is_known = true;
  if (dim_count(rank, dims) != DIM_BAD) return NULL;
  for (int k = 0; k < rank; k++) is_known &= dim_is_known(dims[k]);
  if (!is_known) return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory for the number of elements", fn);
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %s has too many elements", fn, dims_show(rank, dims, &s));
}

/* ---- Dtypes ---- */

static bool is_weak_float(const struct node *n) { return dtype_is_float(n->dtype); }
static bool is_weak_complex(const struct node *n) { return dtype_is_complex(n->dtype); }
static int64_t weak_integer(const struct node *n) { return (int64_t)((const struct scalar_attr *)n->attr)->bits; }

static double weak_double(const struct node *n) {
  double x;
  memcpy(&x, n->attr, sizeof x);
  return x;
}

uint64_t scalar_bits(const struct node *n, weft_dtype as) {
  uint64_t bits = ((const struct scalar_attr *)n->attr)->bits;
  if (n->weak) return is_weak_float(n) ? dtype_encode(as, weak_double(n)) : dtype_encode_integer(as, weak_integer(n));
  if (as == n->dtype) return bits;
  if (dtype_is_integer(n->dtype))
    return dtype_encode_integer(
        as, n->dtype == WEFT_I64 || n->dtype == WEFT_U64 ? (int64_t)bits : (int64_t)dtype_decode(n->dtype, bits));
  return dtype_encode(as, dtype_decode(n->dtype, bits));
}

/* The partner decides, unless it is of a lower class: 1.5 with integers gives f32, 2 with bools an integer. */
static weft_dtype meet_weak(weft_dtype strong, const struct node *weak) {
  if (is_weak_complex(weak)) return dtype_complex(strong);
  if (dtype_is_complex(strong)) return strong;
  bool yields = is_weak_float(weak) ? dtype_is_float(strong) : strong != WEFT_BOOL;
  return yields ? strong : weak->dtype;
}

struct failure *common_dtype(const char *fn, int n, struct node *const node[], weft_dtype *out) {
  weft_dtype d = WEFT_BOOL;
  bool any = false;
  for (int i = 0; i < n; i++)
    if (!node[i]->weak) d = any ? weft_dtype_promote(d, node[i]->dtype) : (weft_dtype)node[i]->dtype, any = true;
  weft_dtype strong = d;
  for (int i = 0; i < n; i++)
    if (node[i]->weak) d = any ? meet_weak(d, node[i]) : (weft_dtype)node[i]->dtype, any = true;
  for (int i = 0; i < n; i++)
    if (node[i]->weak && dtype_is_integer(node[i]->dtype) && dtype_is_integer(d) && !dtype_fits(d, weak_integer(node[i])))
      return fail(WEFT_ERR_ARG, scope_origin(), "%s: %lld does not fit %s", fn, (long long)weak_integer(node[i]),
                  weft_dtype_name(strong));
  *out = d;
  return NULL;
}

struct node *scalar_node(weft_dtype d, uint64_t bits, bool weak) {
  struct node *n = node_make(&op_scalar, d, 0, NULL, 0, NULL, &(struct scalar_attr){ bits }, sizeof bits);
  if (!n) return NULL;
  n->weak = weak;
  atomic_store_explicit(&n->state, NODE_READY, memory_order_relaxed);
  return n;
}

/* No scalar is complex: a complex number is made of two. */
struct node *number_node(weft_dtype d, double re, double im) {
  if (!dtype_is_complex(d)) return scalar_node(d, dtype_encode(d, re), false);
  weft_dtype part = dtype_part(d);
  struct node *in[] = { scalar_node(part, dtype_encode(part, re), false), scalar_node(part, dtype_encode(part, im), false) };
  struct node *n = in[0] && in[1] ? node_make(&op_complex, d, 0, NULL, 2, in, NULL, 0) : NULL;
  nodes_release(2, in);
  return n;
}

/* A weak number in a dtype. */
static struct node *number_as(const struct node *x, weft_dtype d) {
  const struct complex_attr *c = x->attr;
  if (is_weak_complex(x)) return d == WEFT_BOOL ? scalar_node(d, c->re != 0 || c->im != 0, false) : number_node(d, c->re, c->im);
  if (!dtype_is_complex(d)) return scalar_node(d, scalar_bits(x, d), false);
  return number_node(d, is_weak_float(x) ? weak_double(x) : (double)weak_integer(x), 0);
}

struct node *node_cast(struct node *x, weft_dtype d) {
  if (!x || (x->dtype == d && !x->weak)) return x;
  if (!x->weak) return node_take(&op_cast, d, x->rank, x->dims, 1, &x, NULL, 0);
  struct node *n = number_as(x, d);
  node_release(x);
  return n;
}

/* ---- Shapes ---- */

static struct failure *no_broadcast(const char *fn, int n, struct node *const node[]) {
  struct text t = { 0 };
  struct shape_text s;
  for (int i = 0; i < n; i++) text_addf(&t, "%s%s", i == 0 ? "" : i == n - 1 ? " and " : ", ", shape_show(node[i], &s));
  struct failure *f = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: shapes %s do not broadcast", fn, text_of(&t));
  text_free(&t);
  return f;
}

/* Sizes that may be equal are taken to be; the number, if one of them is one, is what they are. */
struct failure *common_dims(const char *fn, int n, struct node *const node[], int *rank, dim dims[]) {
  *rank = 0;
  for (int i = 0; i < n; i++)
    if (node[i]->rank > *rank) *rank = node[i]->rank;
  for (int k = 0; k < *rank; k++) dims[k] = 1;
  for (int i = 0; i < n; i++)
    for (int k = 0, at = *rank - node[i]->rank; k < node[i]->rank; k++) {
      dim have = dims[at + k], want = dim_resolve(node[i]->dims[k]);
      if (want == 1 || want == have) continue;
      if (have != 1 && !sizes_meet(fn, have, want)) return no_broadcast(fn, n, node);
      if (have == 1 || dim_is_known(want)) dims[at + k] = want;
    }
  return NULL;
}

bool dims_meet(const char *fn, int n, struct node *const node[], int but, dim dims[]) {
  for (int k = 0; k < node[0]->rank; k++) dims[k] = dim_resolve(node[0]->dims[k]);
  for (int i = 1; i < n; i++) {
    if (node[i]->rank != node[0]->rank) return false;
    for (int k = 0; k < node[0]->rank; k++) {
      dim want = dim_resolve(node[i]->dims[k]);
      if (k == but || want == dims[k]) continue;
      if (!sizes_meet(fn, dims[k], want)) return false;
      if (dim_is_known(want)) dims[k] = want;
    }
  }
  return true;
}

bool shapes_meet(const char *fn, const struct node *a, const struct node *b) {
  bool meet = a->rank == b->rank;
  for (int k = 0; meet && k < a->rank; k++) meet = sizes_meet(fn, dim_resolve(a->dims[k]), dim_resolve(b->dims[k]));
  return meet;
}

struct node *node_agree(struct node *x, int but, const dim dims[]) {
  dim d[WEFT_RANK_MAX];
  for (int k = 0; x && k < x->rank; k++) d[k] = k == but ? x->dims[k] : dims[k];
  return x ? node_reshape(x, x->rank, d) : NULL;
}

/* x with its sizes replaced by those they were taken to equal: a reshape, which fails if they turn out to differ. */
static struct node *agreed(struct node *x, int rank, const dim dims[]) {
  dim d[WEFT_RANK_MAX];
  for (int k = 0; k < x->rank; k++) d[k] = dim_resolve(x->dims[k]) == 1 ? 1 : dims[rank - x->rank + k];
  return node_reshape(x, x->rank, d);
}

struct node *node_broadcast(struct node *x, int rank, const dim dims[]) {
  if (!x || dims_equal(x->rank, x->dims, rank, dims)) return x;
  if (!(x = agreed(x, rank, dims)) || dims_equal(x->rank, x->dims, rank, dims)) return x;
  return node_take(&op_broadcast, x->dtype, rank, dims, 1, &x, NULL, 0);
}

struct node *node_reshape(struct node *x, int rank, const dim dims[]) {
  if (!x || dims_equal(x->rank, x->dims, rank, dims)) return x;
  return node_take(&op_reshape, x->dtype, rank, dims, 1, &x, NULL, 0);
}

struct node *node_size(struct node *x, int axis, dim size) {
  if (!x) return NULL;
  return node_take(&op_size, WEFT_I64, 0, NULL, 1, &x, &(struct size_attr){ size, axis }, sizeof(struct size_attr));
}

/* ---- For rules ---- */

struct node *array_good_node(weft_array *a) {
  struct node *n = array_node(a);
  if (n->op != &op_bad) return n;
  node_release(n);
  return NULL;
}

weft_array *number_like(weft_array *like, double x) { return weft_cast(weft_scalar(x), weft_dtype_of(like)); }

weft_array *array_row_full(weft_array *xs, double value) {
  struct node *n = array_good_node(xs);
  if (!n) return xs;
  weft_array *row = array_broadcast("weft_loop_each", number_like(xs, value), n->rank - 1, n->dims + 1);
  node_release(n);
  return array_sized_by(row, xs);
}

weft_array *zeros_of(const struct node *like) {
  return array_of(node_broadcast(number_node(like->dtype, 0, 0), like->rank, like->dims));
}
weft_array *zeros_like(weft_array *x) { return array_sized_by(zeros_of(x->node), x); }

struct failure *square_check(const char *fn, const struct node *n) {
  struct shape_text s;
  if (n->rank >= 2 && sizes_meet(fn, n->dims[n->rank - 2], n->dims[n->rank - 1])) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: a square matrix, not %s", fn, shape_show(n, &s));
}
