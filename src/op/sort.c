/* sort.c -- sorting along an axis: a library step with two results, the sorted elements and where each stood.
 *
 * Every dtype is sorted by the same code. An element has a key, a u64 whose order is that of the elements: NaN is the largest,
 * whatever its sign and payload, and -0 comes before 0. Keys and places are merged, so equal elements stay in order and the
 * result is one, whatever computes it. */
#include <string.h>
#include "op/operand.h"

/* ---- keys ---- */

/* The lowest pattern, without its sign, that is a NaN. */
static uint64_t least_nan(weft_dtype d) {
  return d == WEFT_F16 ? 0x7c01 : d == WEFT_BF16 ? 0x7f81 : d == WEFT_F32 ? 0x7f800001 : 0x7ff0000000000001;
}

static uint64_t key_of(weft_dtype d, uint64_t bits) {
  uint64_t sign = (uint64_t)1 << (8 * weft_dtype_bytes(d) - 1), size = bits & ~sign;
  if (dtype_is_signed(d)) return bits ^ sign;
  if (!dtype_is_float(d)) return bits;
  if (size >= least_nan(d)) return UINT64_MAX;
  return bits & sign ? sign - 1 - size : sign | size;
}

/* ---- merging ---- */

struct sort_entry { uint64_t key; int64_t at; };

enum { RUN = 12 }; /* so many are put in order one by one: fewer merges, and all in one or two lines of the cache */

static void insert_all(struct sort_entry e[], int64_t n) {
  for (int64_t i = 1, j; i < n; i++) {
    struct sort_entry x = e[i];
    for (j = i; j > 0 && e[j - 1].key > x.key; j--) e[j] = e[j - 1];
    e[j] = x;
  }
}

/* Of two that are equal the one from a comes first. */
static void merge(const struct sort_entry a[], int64_t n_a, const struct sort_entry b[], int64_t n_b, struct sort_entry to[]) {
  while (n_a && n_b) {
    if (b->key < a->key) *to++ = *b++, n_b--;
    else *to++ = *a++, n_a--;
  }
  memcpy(to, n_a ? a : b, sizeof *to * (size_t)(n_a + n_b));
}

/* e in order, there or in `other`: where it is returned. */
static struct sort_entry *merge_sort(struct sort_entry *e, struct sort_entry *other, int64_t n) {
  for (int64_t i = 0; i < n; i += RUN) insert_all(e + i, n - i < RUN ? n - i : RUN);
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t left = n - i < run ? n - i : run, right = n - i - left < run ? n - i - left : run;
      merge(e + i, left, e + i + left, right, other + i);
    }
    struct sort_entry *t = e;
    e = other, other = t;
  }
  return e;
}

/* ---- the step: in x[.., n]; out y[.., n], order[.., n] ---- */

static int64_t length(const struct library_call *c) { return c->in[0].dims[c->in[0].rank - 1]; }

static void sort_row(const struct library_array *x, const uint8_t *from, int64_t n, struct sort_entry *e, uint8_t *y,
                     int64_t *order) {
  size_t size = weft_dtype_bytes(x->dtype);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, from + (size_t)i * size, size);
    e[i] = (struct sort_entry){ key_of(x->dtype, bits), i };
  }
  e = merge_sort(e, e + n, n);
  for (int64_t i = 0; i < n; i++) {
    memcpy(y + (size_t)i * size, from + (size_t)e[i].at * size, size);
    order[i] = e[i].at;
  }
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  const struct library_array *x = &c->in[0], *y = &c->out[0], *order = &c->out[1];
  for (int64_t i = from; i < to; i++)
    sort_row(x, x->data + i * x->each, length(c), scratch, y->data + i * y->each,
             (int64_t *)(void *)(order->data + i * order->each));
  return NULL;
}

static size_t scratch(const struct library_call *c) { return sizeof(struct sort_entry) * 2 * (size_t)length(c); }

static double operations(const struct library_call *c) {
  double per_element = 1;
  for (int64_t n = length(c); n > 1; n /= 2) per_element++;
  return (double)c->n_problems * (double)length(c) * per_element;
}

static const struct library steps = { .core = 1, .operations = operations, .scratch = scratch, .run = run };

/* ---- rules ---- */

static int count(const struct node *n) { return (void)n, 2; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  return k ? WEFT_I64 : (weft_dtype)x->dtype;
}

/* y = x[order]: dx[order] = dy. */
static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  weft_array *zero = weft_full_like(r->in[0], 0), *order = weft_argsort(r->in[0], -1);
  if (is_wanted[0] && dy[0]) dx[0] = weft_put(zero, weft_take_along(zero, -1, order), dy[0], WEFT_SET);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  if (dx[0]) dy[0] = weft_take_along(dx[0], -1, weft_argsort(r->in[0], -1));
}

static const struct many results = { count, type, vjp, jvp, library_batch };
const struct op op_sort = { .name = "sort", .kind = OP_LIBRARY, .many = &results, .library = &steps };

/* ---- the public calls ---- */

static weft_array *sorted(const char *fn, weft_array *x, int axis, int which) {
  struct node *n;
  weft_array *bad, *out[2];
  if (!operands(fn, 1, &x, &n, &bad)) return bad;
  struct failure *why = dtype_is_complex(n->dtype) ? not_of(fn, (weft_dtype)n->dtype) : axis_check(fn, n, &axis);
  if (why) return array_of_bad(why, 1, &n);
  weft_array *last = weft_moveaxis(array_of(n), axis, -1);
  if (!(n = array_good_node(last))) return last;
  library_apply(&op_sort, 1, &n, NULL, 0, 2, out);
  node_release(n);
  return weft_moveaxis(out[which], -1, axis);
}

weft_array *weft_sort(weft_array *x, int axis) { return sorted("weft_sort", x, axis, 0); }
weft_array *weft_argsort(weft_array *x, int axis) { return sorted("weft_argsort", x, axis, 1); }
