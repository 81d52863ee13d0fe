/* index.c -- reading elements at indices that are themselves arrays. Bounds are checked when it runs. */
#include <string.h>
#include "base/mem.h"
#include "op/index.h"

/* ---- Rules of take ---- */

static int n_index(const struct rule *r) { return r->n_in - 1; }
static int by_of(const struct rule *r) { return (int)((const struct take_attr *)r->node->attr)->by; }

/* Another take by the same call of the user's. */
static weft_array *taken_too(const struct rule *r, weft_array *x, int n, weft_array *const index[]) {
  return array_take(x, n, index, by_of(r));
}

static weft_array *take_vjp(const struct rule *r, int k, weft_array *dy) {
  return k ? NULL : array_scatter(zeros_like(r->in[0]), dy, n_index(r), r->in + 1, WEFT_ADD, by_of(r));
}

static weft_array *take_jvp(const struct rule *r, int k, weft_array *dx) {
  return k ? NULL : taken_too(r, dx, n_index(r), r->in + 1);
}

static bool any_mapped(int n, const bool is_mapped[]) {
  for (int k = 0; k < n; k++)
    if (is_mapped[k]) return true;
  return false;
}

weft_array *array_spread(weft_array *x, dim rows) {
  dim d[WEFT_RANK_MAX + 1] = { rows };
  const struct node *n = x->node;
  if (n->rank) memcpy(d + 1, n->dims, n->rank * sizeof *d);
  return array_broadcast("weft_map", x, n->rank + 1, d);
}

/* 0 1 2 .. rows-1 in the shape [rows,1,..,1], to stand beside indices of that rank. */
static weft_array *row_index(dim rows, int rank) {
  dim d[WEFT_RANK_MAX + 1] = { rows };
  for (int k = 1; k < rank; k++) d[k] = 1;
  struct node like = { .dtype = WEFT_I64, .rank = 1, .dims = &rows };
  return array_reshape("weft_map", weft_iota(zeros_of(&like), 0), rank, d);
}

/* Indices of every row, with the row itself in front. */
void array_row_indices(dim rows, int n, weft_array *const index[], const bool is_mapped[], weft_array *out[]) {
  weft_array *bad = NULL;
  for (int k = 0; k < n; k++) {
    out[k + 1] = is_mapped[k] ? index[k] : weft_unsqueeze(index[k], 0);
    if (weft_rank(out[k + 1]) < 1) bad = out[k + 1]; /* whose failure is the one to tell */
  }
  out[0] = bad ? bad : row_index(rows, weft_rank(out[n]));
}

void array_active_indices(const struct rule *r, int first, const bool is_mapped[], weft_array *out[]) {
  for (int k = first; k < r->n_in; k++) {
    weft_array *index = r->in[k], *active = r->active;
    for (int d = 1; active && d < weft_rank(index); d++) active = weft_unsqueeze(active, -1);
    out[k - first] = active && is_mapped[k] ? weft_where(active, index, weft_integer(0)) : index;
  }
}

/* Only x is mapped: its rows stand behind the indexed axes and come to the front again. */
static weft_array *take_rows(const struct rule *r) {
  int n = n_index(r), rank_of_index = weft_rank(r->in[1]);
  return weft_moveaxis(taken_too(r, weft_moveaxis(r->in[0], 0, n), n, r->in + 1), rank_of_index, 0);
}

static weft_array *take_batch(const struct rule *r, const bool is_mapped[]) {
  int n = n_index(r);
  weft_array *active[WEFT_RANK_MAX], *index[WEFT_RANK_MAX + 1];
  if (!any_mapped(n, is_mapped + 1)) return take_rows(r);
  array_active_indices(r, 1, is_mapped, active);
  if (!is_mapped[0]) return taken_too(r, r->in[0], n, active);
  array_row_indices(r->in[0]->node->dims[0], n, active, is_mapped + 1, index);
  return taken_too(r, r->in[0], n + 1, index);
}

static struct node *take_node(struct node *x, int n, struct node *const index[], int by) {
  dim d[2 * WEFT_RANK_MAX];
  struct node *in[WEFT_RANK_MAX + 1] = { x };
  int rank = index[0]->rank, rest = x->rank - n;
  if (rank) memcpy(d, index[0]->dims, (size_t)rank * sizeof *d);
  if (rest) memcpy(d + rank, x->dims + n, (size_t)rest * sizeof *d);
  memcpy(in + 1, index, (size_t)n * sizeof *in);
  return node_make(&op_take, (weft_dtype)x->dtype, rank + rest, d, n + 1, in, &(struct take_attr){ n, by },
                   sizeof(struct take_attr));
}

static struct node *take_again(const struct node *n, struct node *const in[], struct failure **why) {
  (void)why;
  return take_node(in[0], n->n_made - 1, in + 1, (int)((const struct take_attr *)n->attr)->by);
}

const struct op op_take = { .name = "take", .kind = OP_TAKE, .chooses = true, .vjp = take_vjp, .jvp = take_jvp, .batch = take_batch,
                            .again = take_again };

/* ---- Making nodes ---- */

static struct failure *index_check(const char *fn, const struct node *i, int k) {
  if (dtype_is_integer((weft_dtype)i->dtype)) return NULL;
  return fail(WEFT_ERR_DTYPE, scope_origin(), "%s: index %d is %s, not an integer", fn, k, weft_dtype_name(i->dtype));
}

/* As i64; what is beyond it stays out of range. */
static struct node *as_i64(struct node *i) {
  if (!i || i->dtype != WEFT_U64) return node_cast(i, WEFT_I64);
  return array_good_node(weft_cast(weft_minimum(array_of(i), weft_integer(INT64_MAX)), WEFT_I64));
}

struct failure *indices_join(const char *fn, int n, struct node *index[]) {
  dim d[WEFT_RANK_MAX];
  int rank;
  struct failure *why = NULL;
  for (int k = 0; k < n && !why; k++) why = index_check(fn, index[k], k);
  if (!why) why = common_dims(fn, n, index, &rank, d);
  for (int k = 0; k < n && !why; k++)
    if (!(index[k] = node_broadcast(as_i64(index[k]), rank, d)))
      why = fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
  return why;
}

static struct failure *take_check(const struct node *x, int n, const struct node *index) {
  struct shape_text s;
  if (n > x->rank) return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_take: %d indices into %s", n, shape_show(x, &s));
  if (index->rank + x->rank - n > WEFT_RANK_MAX)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_take: the rank would be %d", index->rank + x->rank - n);
  return NULL;
}

weft_array *array_take(weft_array *x, int n, weft_array *const index[], int by) {
  struct node *node[WEFT_RANK_MAX + 2];
  weft_array *all[WEFT_RANK_MAX + 2] = { x }, *bad;
  if (n < 1 || n > WEFT_RANK_MAX) return array_bad(WEFT_ERR_ARG, "weft_take: with %d indices", n);
  if (!index) return array_bad(WEFT_ERR_ARG, "weft_take: the list of %d indices is NULL", n);
  memcpy(all + 1, index, (size_t)n * sizeof *all);
  if (!operands("weft_take", n + 1, all, node, &bad)) return bad;
  struct failure *why = indices_join("weft_take", n, node + 1);
  if (!why) why = take_check(node[0], n, node[1]);
  if (why) return array_of_bad(why, n + 1, node);
  struct node *y = take_node(node[0], n, node + 1, by);
  nodes_release(n + 1, node);
  return array_of(y);
}

weft_array *weft_take(weft_array *x, int n, weft_array *const index[]) { return array_take(x, n, index, BY_TAKE); }

bool known_integer(weft_array *i, int64_t *value) {
  struct node *n = array_node(i);
  bool is_known = n->op == &op_scalar && dtype_is_integer((weft_dtype)n->dtype) && n->dtype != WEFT_U64;
  if (is_known) *value = (int64_t)scalar_bits(n, WEFT_I64);
  node_release(n);
  return is_known;
}

static struct failure *place_check(const char *fn, weft_array *x, int *axis, weft_array *at) {
  struct node *n = array_node(x), *i = array_node(at);
  struct shape_text s;
  struct failure *why = axis_check(fn, n, axis);
  if (!why) why = index_check(fn, i, 0);
  if (!why && i->rank)
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the index is %s, not 0-d", fn, shape_show(i, &s));
  node_release(n);
  node_release(i);
  return why;
}

/* Turns [i, i+length) into a slice, if it is known to fit. is_one: of weft_at. */
static weft_array *known_window(bool is_one, weft_array *x, int axis, int64_t i, int64_t length) {
  struct node *n = array_node(x);
  dim size = n->dims[axis], start = i >= 0 ? i : i == INT64_MIN ? DIM_BAD : dim_sub(size, -i);
  struct shape_text s;
  bool fits = start != DIM_BAD && (!dim_is_known(size) || (start <= size && length <= size - start)) &&
              slice_meets(is_one ? "weft_at" : "weft_window", WEFT_ERR_INDEX, size, start, length, 1);
  struct failure *why = NULL;
  if (!fits && is_one)
    why = fail(WEFT_ERR_INDEX, scope_origin(), "weft_at: index %lld is out of range for axis %d of %s", (long long)i, axis,
               shape_show(n, &s));
  else if (!fits)
    why = fail(WEFT_ERR_INDEX, scope_origin(), "weft_window: %lld elements at index %lld of axis %d do not lie in %s",
               (long long)length, (long long)i, axis, shape_show(n, &s));
  node_release(n);
  return why ? array_failed(why) : array_slice(x, axis, start, length, 1);
}

weft_array *weft_at(weft_array *x, int axis, weft_array *i) {
  weft_array *bad;
  int64_t known;
  if (!arrays_ok("weft_at", 2, (weft_array *[]){ x, i }, &bad)) return bad;
  struct failure *why = place_check("weft_at", x, &axis, i);
  if (why) return array_failed(why);
  if (known_integer(i, &known)) return weft_squeeze(known_window(true, x, axis, known, 1), axis);
  return array_take(weft_moveaxis(x, axis, 0), 1, &i, BY_AT);
}

/* The start counted from the front. One before the beginning must not be counted from the end once more: it goes far away,
 * from where it is brought back for a message. */
static weft_array *from_front(weft_array *at, weft_array *size) {
  weft_array *i = weft_cast(at, WEFT_I64), *shifted = weft_add(i, size), *zero = weft_integer(0);
  return weft_where(weft_lt(i, zero), weft_where(weft_lt(shifted, zero), weft_sub(i, weft_integer(WINDOW_FAR)), shifted), i);
}

weft_array *weft_window(weft_array *x, int axis, weft_array *at, int64_t n) {
  weft_array *bad;
  int64_t known;
  if (!arrays_ok("weft_window", 2, (weft_array *[]){ x, at }, &bad)) return bad;
  struct failure *why = place_check("weft_window", x, &axis, at);
  if (!why && n < 0) why = fail(WEFT_ERR_ARG, scope_origin(), "weft_window: the length %lld is negative", (long long)n);
  if (why) return array_failed(why);
  if (known_integer(at, &known)) return array_apart_from(x, known_window(false, x, axis, known, n));
  weft_array *steps = weft_iota(weft_full(WEFT_I64, 1, &n, 0), 0);
  weft_array *index = weft_add(from_front(at, weft_size(x, axis)), steps);
  return weft_moveaxis(array_take(weft_moveaxis(x, axis, 0), 1, &index, BY_WINDOW), 0, axis);
}

/* ---- One index for every place ---- */

/* The shape of the result: that of the index, its other axes broadcast with those of x. */
static struct failure *along_dims(const struct node *x, const struct node *i, int *axis, dim dims[]) {
  struct shape_text a, b;
  struct failure *why = axis_check("weft_take_along", x, axis);
  if (!why) why = index_check("weft_take_along", i, 0);
  if (why) return why;
  bool fits = i->rank == x->rank;
  for (int k = 0; fits && k < x->rank; k++) {
    fits = k == *axis || i->dims[k] == 1 || x->dims[k] == 1 ||
           sizes_meet("weft_take_along", dim_resolve(i->dims[k]), dim_resolve(x->dims[k]));
    dims[k] = k == *axis || x->dims[k] == 1 ? i->dims[k] : x->dims[k];
  }
  if (fits) return NULL;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_take_along: indices %s do not fit beside axis %d of %s",
              shape_show(i, &a), *axis, shape_show(x, &b));
}

/* 0 1 2 .. along an axis, the same along all others: where it is to be memory, it is one row. */
static weft_array *along_axis(int rank, const dim dims[], int axis) {
  dim row[WEFT_RANK_MAX], n = dims[axis];
  struct node like = { .dtype = WEFT_I64, .rank = 1, .dims = &n };
  for (int k = 0; k < rank; k++) row[k] = k == axis ? n : 1;
  weft_array *steps = array_reshape("weft_take_along", weft_iota(zeros_of(&like), 0), rank, row);
  return array_broadcast("weft_take_along", steps, rank, dims);
}

/* x[0.., .., i, .., 0..]: along the other axes each element stays where it is. Takes over the nodes. */
static weft_array *along(struct node *x, int axis, struct node *i, const dim dims[]) {
  weft_array *index[WEFT_RANK_MAX];
  dim wide[WEFT_RANK_MAX];
  int rank = x->rank;
  for (int k = 0; k < rank; k++) {
    wide[k] = k == axis ? x->dims[k] : dims[k];
    index[k] = k == axis ? array_of(node_broadcast(node_retain(i), rank, dims)) : along_axis(rank, dims, k);
  }
  node_release(i);
  return array_take(array_of(node_broadcast(x, rank, wide)), rank, index, BY_ALONG);
}

/* The axes before one, itself with n elements, and the axes behind it. */
static void merge(int rank, const dim dims[], int axis, dim n, dim to[3]) {
  to[0] = dim_count(axis, dims), to[1] = n, to[2] = dim_count(rank - axis - 1, dims + axis + 1);
}

/* The same where there are more axes than a kernel takes indices: those before and behind are one each. */
static weft_array *along_merged(struct node *x, int axis, struct node *i, const dim dims[]) {
  dim wide[WEFT_RANK_MAX], three[2][3];
  int rank = x->rank;
  memcpy(wide, dims, (size_t)rank * sizeof *wide);
  wide[axis] = x->dims[axis];
  merge(rank, dims, axis, wide[axis], three[0]), merge(rank, dims, axis, dims[axis], three[1]);
  struct node *a = node_reshape(node_broadcast(x, rank, wide), 3, three[0]);
  struct node *at = node_reshape(node_broadcast(i, rank, dims), 3, three[1]);
  if (!a || !at) return node_release(a), node_release(at), array_of(NULL);
  weft_array *y = along(a, 1, at, three[1]);
  struct node *n = array_good_node(y);
  return n ? array_of(node_reshape(n, rank, dims)) : y;
}

enum { MOST_INDICES = 8 }; /* of a take: schedule/emit.h */

weft_array *weft_take_along(weft_array *x, int axis, weft_array *i) {
  struct node *n[2];
  weft_array *bad;
  dim dims[WEFT_RANK_MAX];
  if (!operands("weft_take_along", 2, (weft_array *[]){ x, i }, n, &bad)) return bad;
  struct failure *why = along_dims(n[0], n[1], &axis, dims);
  if (why) return array_of_bad(why, 2, n);
  return (n[0]->rank > MOST_INDICES ? along_merged : along)(n[0], axis, n[1], dims);
}
