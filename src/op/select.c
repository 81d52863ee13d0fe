/* select.c -- the elements of some ranks along an axis, without sorting the others: a library step with two results, the elements
 * in order and where each stood. What is composed of it: the largest k, and partitions.
 *
 * In front of the first rank stands what is certain to come before it. What may have one of the ranks is narrowed down: the range
 * from the least key to the largest is cut into equal parts, their elements are counted, and only those parts stay in which ranks
 * lie. A row is read three times, what stays is soon in the cache, and is sorted when it is little more than what was asked for. */
#include "op/select.h"
#include "op/order.h"

/* ---- narrowing down ---- */

enum {
  PART_BITS = 11, PARTS = 1 << PART_BITS,
  LITTLE = 512      /* so many are sorted rather than narrowed down */
};

/* The ranks first .. last among n elements that are left. */
struct ranks { int64_t n, first, last; };
struct extent { uint64_t least, most; };
struct parts_kept { int shift; uint64_t from, to; };

ORDER_INLINE void extend(struct extent *x, uint64_t key) {
  x->least = key < x->least ? key : x->least;
  x->most = key > x->most ? key : x->most;
}

/* How far keys are shifted so that the extent has PARTS parts at most. */
static int shift_of(const struct extent *x) {
  int shift = 0;
  while ((x->most - x->least) >> shift >= PARTS) shift++;
  return shift;
}

/* Which parts hold the ranks, and what they are among the elements of those. */
static struct parts_kept keep(const int64_t count[PARTS], int shift, struct ranks *r) {
  struct parts_kept k = { .shift = shift };
  int64_t before = 0, n = 0;
  while (before + count[k.from] <= r->first) before += count[k.from++];
  for (k.to = k.from, n = count[k.to]; before + n <= r->last;) n += count[++k.to];
  *r = (struct ranks){ n, r->first - before, r->last - before };
  return k;
}

ORDER_INLINE bool is_kept(const struct parts_kept *k, const struct extent *x, uint64_t key) {
  uint64_t part = (key - x->least) >> k->shift;
  return part >= k->from && part <= k->to;
}

/* The elements of a row that may have the ranks, as entries. */
ORDER_INLINE void narrow_row(const uint8_t *from, weft_dtype d, int bytes, struct ranks *r, struct order_entry *e,
                             int64_t count[]) {
  struct extent x = { UINT64_MAX, 0 };
  int64_t n = r->n, m = 0;
  for (int64_t i = 0; i < n; i++) extend(&x, order_key(d, bytes, order_load(from, i, bytes)));
  int shift = shift_of(&x);
  memset(count, 0, sizeof *count * PARTS);
  for (int64_t i = 0; i < n; i++) count[(order_key(d, bytes, order_load(from, i, bytes)) - x.least) >> shift]++;
  struct parts_kept k = keep(count, shift, r);
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = order_key(d, bytes, order_load(from, i, bytes));
    e[m] = (struct order_entry){ key, i };
    m += is_kept(&k, &x, key);
  }
}

/* The same of entries, in place. False: they are all equal, and stand in order. */
static bool narrow(struct order_entry e[], struct ranks *r, int64_t count[]) {
  struct extent x = { UINT64_MAX, 0 };
  int64_t n = r->n, m = 0;
  for (int64_t i = 0; i < n; i++) extend(&x, e[i].key);
  if (x.least == x.most) return false;
  int shift = shift_of(&x);
  memset(count, 0, sizeof *count * PARTS);
  for (int64_t i = 0; i < n; i++) count[(e[i].key - x.least) >> shift]++;
  struct parts_kept k = keep(count, shift, r);
  for (int64_t i = 0; i < n; i++) {
    e[m] = e[i];
    m += is_kept(&k, &x, e[i].key);
  }
  return true;
}

static bool is_little(const struct ranks *r) { return r->n <= LITTLE || r->n / 4 <= r->last - r->first + 1; }

/* Of a row of r.n elements, the entries of the ranks in order. e and other: room for n + 1 each. */
static const struct order_entry *selected(const uint8_t *from, weft_dtype dtype, struct ranks r, struct order_entry *e,
                                          struct order_entry *other, int64_t count[]) {
#define NARROW(d, bytes) narrow_row(from, d, bytes, &r, e, count)
  ORDER_BY_DTYPE(dtype, NARROW)
#undef NARROW
  for (int64_t n = 0; !is_little(&r) && r.n != n;) { /* two ranks in the first part and the last may keep all of them */
    n = r.n;
    if (!narrow(e, &r, count)) return e + r.first;
  }
  return order_sort(e, other, r.n, count) + r.first;
}

/* ---- the step: in x[.., n]; out y[.., count], order[.., count] ---- */

static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }
static size_t entries_bytes(const struct library_call *c) { return sizeof(struct order_entry) * (size_t)(length(c) + 1); }
static size_t scratch(const struct library_call *c) { return 2 * entries_bytes(c) + sizeof(int64_t[ORDER_COUNTS]); }
static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static void select_row(const struct library_call *c, int64_t i, struct order_entry *e, struct order_entry *other, int64_t count[]) {
  const struct select_attr *a = c->attr;
  const struct library_array *x = &c->in[0];
  int64_t n = length(c), first = inside(select_first(a, n), n), last = inside(select_first(a, n) + a->count - 1, n);
  size_t bytes = weft_dtype_bytes(x->dtype);
  uint8_t *from = x->data + i * x->each, *y = c->out[0].data + i * c->out[0].each;
  int64_t *order = (int64_t *)(void *)(c->out[1].data + i * c->out[1].each);
  const struct order_entry *found = selected(from, x->dtype, (struct ranks){ n, first, last }, e, other, count);
  for (int64_t k = 0; k < a->count; k++) {
    order[k] = found[inside(select_first(a, n) + k, n) - first].at;
    memcpy(y + (size_t)k * bytes, from + (size_t)order[k] * bytes, bytes);
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  uint8_t *room = scratch;
  struct order_entry *e = scratch, *other = (void *)(room + entries_bytes(c));
  int64_t *count = (void *)(room + 2 * entries_bytes(c));
  if (!c->out[1].each) return NULL;
  if (!length(c)) /* as in weft_max of nothing: the public functions refuse what they can see */
    for (int k = 0; k < 2; k++) memset(c->out[k].data + from * c->out[k].each, 0, (size_t)((to - from) * c->out[k].each));
  else for (int64_t i = from; i < to; i++) select_row(c, i, e, other, count);
  return NULL;
}

static double operations(const struct library_call *c) { return 8.0 * (double)c->n_problems * (double)length(c); }

/* The first rank, which may be beyond an end, and how many there are. */
static void numbers(const struct library_call *c, int64_t number[]) {
  const struct select_attr *a = c->attr;
  number[0] = select_first(a, length(c)), number[1] = a->count;
}

static const struct library steps = { .core = 1, .operations = operations, .scratch = scratch, .run = run, .routine = "select",
                                      .numbers = numbers };

/* ---- rules ---- */

static int n_results(const struct node *n) { return (void)n, 2; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] = ((const struct select_attr *)n->attr)->count;
  return k ? WEFT_I64 : (weft_dtype)x->dtype;
}

static weft_array *order_of(const struct rule *r) {
  weft_array *out[2];
  library_apply(&op_select, 1, &r->in[0]->node, r->node->attr, r->node->attr_bytes, 2, out);
  return out[1];
}

/* y = x[order]; where ranks beyond an end are the same element, their cotangents meet. */
static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *zero = weft_full_like(r->in[0], 0);
  if (is_wanted[0] && dy[0]) dx[0] = weft_put(zero, weft_take_along(zero, -1, order_of(r)), dy[0], WEFT_ADD);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[0]) dy[0] = weft_take_along(dx[0], -1, order_of(r));
}

static const struct many results = { n_results, type, vjp, jvp, library_batch };
const struct op op_select = { .name = "select", .kind = OP_LIBRARY, .again = library_again, .many = &results, .library = &steps };

void array_select(weft_array *x, const struct select_attr *a, weft_array *y[2]) {
  struct node *n = array_good_node(x);
  if (!n) y[0] = y[1] = x;
  else if (dtype_is_complex(n->dtype)) y[0] = y[1] = array_failed(not_of("weft_select", (weft_dtype)n->dtype));
  else library_apply(&op_select, 1, &n, a, sizeof *a, 2, y);
  node_release(n);
}

/* ---- the public calls ---- */

/* x with the axis last, once it is known that there are k ranks; typed: what messages say of it. NULL: *bad. */
static weft_array *turned(const char *fn, weft_array *x, int *axis, int64_t k, int64_t typed, weft_array **bad) {
  struct node *n;
  struct shape_text s;
  if (!operands(fn, 1, &x, &n, bad)) return NULL;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : axis_check(fn, n, axis);
  if (!why && k < 0) why = fail(WEFT_ERR_ARG, scope_origin(), "%s: k is %lld", fn, (long long)typed);
  if (!why && !slice_meets(fn, WEFT_ERR_SHAPE, n->dims[*axis], 0, k, 1))
    why = fail(WEFT_ERR_SHAPE, scope_origin(), "%s: %lld along axis %d of %s", fn, (long long)typed, *axis, shape_show(n, &s));
  if (why) return *bad = array_of_bad(why, 1, &n), NULL;
  return weft_moveaxis(array_of(n), *axis, -1);
}

/* The k last in order, the last first. */
static weft_array *largest(const char *fn, weft_array *x, int axis, int64_t k, int which) {
  weft_array *bad, *last = turned(fn, x, &axis, k, k, &bad), *y[2];
  if (!last) return bad;
  array_select(last, &(struct select_attr){ .times = 1, .plus = -k, .over = 1, .count = k }, y);
  return weft_moveaxis(weft_flip(y[which], -1), -1, axis);
}

weft_array *weft_topk(weft_array *x, int axis, int64_t k) { return COMPOSED(largest("weft_topk", x, axis, k, 0)); }
weft_array *weft_argtopk(weft_array *x, int axis, int64_t k) { return COMPOSED(largest("weft_argtopk", x, axis, k, 1)); }

/* Where a is -0: 1 / a tells. */
static weft_array *is_minus_0(weft_array *a) {
  weft_array *zero = number_like(a, 0);
  return weft_and(weft_eq(a, zero), weft_lt(weft_reciprocal(a), zero));
}

/* a comes before b; is_first: it stands before it. */
static weft_array *precedes(weft_array *a, weft_array *b, weft_array *is_first) {
  weft_array *less = weft_lt(a, b), *same = weft_eq(a, b);
  if (dtype_is_float(weft_dtype_of(a))) {
    weft_array *a_nan = weft_isnan(a), *b_nan = weft_isnan(b), *a_low = is_minus_0(a), *b_low = is_minus_0(b);
    less = weft_or(weft_or(less, weft_and(b_nan, weft_not(a_nan))), weft_and(same, weft_and(a_low, weft_not(b_low))));
    same = weft_or(weft_and(same, weft_eq(a_low, b_low)), weft_and(a_nan, b_nan));
  }
  return weft_or(less, weft_and(same, is_first));
}

/* Where what comes before the element of rank k stands, then that element, then the others, each as they stood: the order of
 * x's elements by which of the three they are. */
static weft_array *parted(weft_array *last, int64_t k) {
  weft_array *y[2];
  array_select(last, &(struct select_attr){ .times = k < 0, .plus = k, .over = 1, .count = 1 }, y);
  weft_array *x = weft_dtype_of(last) == WEFT_BOOL ? weft_cast(last, WEFT_U8) : last;
  weft_array *it = weft_dtype_of(last) == WEFT_BOOL ? weft_cast(y[0], WEFT_U8) : y[0];
  weft_array *place = weft_iota(weft_cast(last, WEFT_I64), -1);
  weft_array *class = weft_where(precedes(x, it, weft_lt(place, y[1])), weft_integer(0),
                                 weft_where(weft_eq(place, y[1]), weft_integer(1), weft_integer(2)));
  return weft_argsort(weft_cast(class, WEFT_U8), -1);
}

static weft_array *partitioned(const char *fn, weft_array *x, int axis, int64_t k, bool is_order) {
  weft_array *bad, *last = turned(fn, x, &axis, k < 0 ? -k : k + 1, k, &bad);
  if (!last) return bad;
  weft_array *order = parted(last, k);
  return weft_moveaxis(is_order ? order : weft_take_along(last, -1, order), -1, axis);
}

weft_array *weft_partition(weft_array *x, int axis, int64_t k) {
  return COMPOSED(partitioned("weft_partition", x, axis, k, false));
}
weft_array *weft_argpartition(weft_array *x, int axis, int64_t k) {
  return COMPOSED(partitioned("weft_argpartition", x, axis, k, true));
}
