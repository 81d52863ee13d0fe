/* bins.c -- two library steps: how many elements there are in each bin, and in which one each is; see bins.h.
 *
 * Counts are integers, so parts of a row are counted apart, by any thread, and added by whoever reads them: there are as many as
 * keep the counts few beside the elements. Where edges are even the bin is guessed by a product and held to the edges, so that the
 * result is what the edges say, however they were made; else it is searched for. */
#include "op/bins.h"
#include "op/index.h"
#include "op/order.h"

struct bins_attr { enum bins_of of; };

/* ---- with edges ---- */

static struct failure *not_above(int64_t edge, uint64_t origin) {
  return fail(WEFT_ERR_ARG, origin, "weft_histogram: edges ascend: edge %lld is nan, or below the one before", (long long)edge);
}

#define NUMBER float
#define NAME(x) x##_f32
#include "op/bins_loops.h"
#undef NUMBER
#undef NAME
#define NUMBER double
#define NAME(x) x##_f64
#include "op/bins_loops.h"
#undef NUMBER
#undef NAME

/* What is wanted of elements from .. to - 1 of a row: counts[n], or bins[N]. */
struct binned {
  const void *x;
  int64_t from, to, n;
  int64_t *counts, *bins;
};

/* Finds the bin of each element. The limits are copied first, so that the compiler need not read them again after each count. */
#define FOR_EACH(T, BIN) do {                                                                   \
    const T *x = e->x;                                                                          \
    int64_t from = e->from, to = e->to, n = e->n, *counts = e->counts, *bins = e->bins;         \
    if (bins) for (int64_t i = from; i < to; i++) bins[i] = BIN(x[i]);                          \
    else for (int64_t i = from; i < to; i++) {                                                  \
      int64_t bin = BIN(x[i]);                                                                  \
      if (bin < n) counts[bin]++;                                                               \
    }                                                                                           \
  } while (0)

ORDER_INLINE void between_f32(const struct binned *e, struct ruler_f32 r, bool is_even) {
#define BIN(x) bin_f32(&r, x, is_even)
  FOR_EACH(float, BIN);
#undef BIN
}

/* DO(dtype, type in C) of those that are compared in f64. */
#define BY_NUMBER(dtype, DO)                                                                    \
  switch (dtype) {                                                                              \
    case WEFT_BOOL: case WEFT_U8: DO(uint8_t); break;                                           \
    case WEFT_U16: DO(uint16_t); break;                                                         \
    case WEFT_U32: DO(uint32_t); break;                                                         \
    case WEFT_U64: DO(uint64_t); break;                                                         \
    case WEFT_I8: DO(int8_t); break;                                                            \
    case WEFT_I16: DO(int16_t); break;                                                          \
    case WEFT_I32: DO(int32_t); break;                                                          \
    case WEFT_I64: DO(int64_t); break;                                                          \
    case WEFT_F16: case WEFT_F32: case WEFT_F64: case WEFT_BF16: case WEFT_E4M3: case WEFT_E5M2: case WEFT_C64:  \
    case WEFT_C128: DO(double); break;                                                          \
  }

ORDER_INLINE void between_f64(const struct binned *e, weft_dtype d, struct ruler_f64 r, bool is_even) {
#define BIN(x) bin_f64(&r, (double)(x), is_even)
#define DO(T) FOR_EACH(T, BIN)
  BY_NUMBER(d, DO)
#undef DO
#undef BIN
}

static struct failure *between(const struct library_call *c, const struct binned *e, const void *edges) {
  struct failure *why;
  if (c->in[1].dtype == WEFT_F32) {
    struct ruler_f32 r;
    if ((why = ruler_set_f32(&r, edges, e->n, e->to - e->from, c->origin))) return why;
    if (r.is_even) between_f32(e, r, true);
    else between_f32(e, r, false);
    return NULL;
  }
  struct ruler_f64 r;
  if ((why = ruler_set_f64(&r, edges, e->n, e->to - e->from, c->origin))) return why;
  if (r.is_even) between_f64(e, c->in[0].dtype, r, true);
  else between_f64(e, c->in[0].dtype, r, false);
  return NULL;
}

/* ---- of integers ---- */

static struct failure *not_a_bin(const struct library_call *c, int64_t i, int64_t x, int64_t n) {
  bool is_beyond = x >= 0 || c->in[0].dtype == WEFT_U64;
  if (is_beyond)
    return fail(WEFT_ERR_INDEX, c->origin, "weft_bincount: element %lld is %llu, and there are %lld bins", (long long)i,
                (unsigned long long)x, (long long)n);
  return fail(WEFT_ERR_INDEX, c->origin, "weft_bincount: element %lld is %lld: below 0", (long long)i, (long long)x);
}

#define COUNT(T) {                                                                              \
    const T *x = e->x;                                                                          \
    int64_t from = e->from, to = e->to, *counts = e->counts, *bins = e->bins;                   \
    uint64_t n = (uint64_t)e->n;                                                                \
    for (int64_t i = from; i < to; i++) {                                                       \
      if ((uint64_t)(int64_t)x[i] >= n) return not_a_bin(c, i, (int64_t)x[i], e->n);            \
      if (bins) bins[i] = (int64_t)x[i];                                                        \
      else counts[(int64_t)x[i]]++;                                                             \
    }                                                                                           \
  }

static struct failure *by_itself(const struct library_call *c, const struct binned *e) {
  BY_NUMBER(c->in[0].dtype, COUNT)
  return NULL;
}

/* ---- the steps: in x[.., N], ruler[.., n or n+1]; out counts[.., parts, n] or bins[.., N] ---- */

static enum bins_of of(const struct library_call *c) { return ((const struct bins_attr *)c->attr)->of; }
static int64_t last_dim(const struct library_array *a) { return a->dims[a->rank - 1]; }
static int64_t n_bins(const struct library_call *c) {
  int64_t n = last_dim(&c->in[1]) - (of(c) == BINS_OF_EDGES);
  return n > 0 ? n : 0;
}
static double operations(const struct library_call *c) { return 4.0 * (double)c->n_problems * (double)last_dim(&c->in[0]); }

/* Part k of n_parts of a problem. */
static struct failure *run_part(const struct library_call *c, int64_t problem, int64_t k, int64_t n_parts) {
  const struct library_array *x = &c->in[0], *ruler = &c->in[1], *y = &c->out[0];
  int64_t length = last_dim(x), each = length / n_parts, n = n_bins(c);
  struct binned e = { x->data + problem * x->each, k * each, k == n_parts - 1 ? length : (k + 1) * each, n, NULL, NULL };
  int64_t *out = (int64_t *)(void *)(y->data + problem * y->each);
  if (y->rank == x->rank) e.bins = out;
  else e.counts = memset(out + k * n, 0, sizeof *out * (size_t)n);
  return of(c) == BINS_OF_EDGES ? between(c, &e, ruler->data + problem * ruler->each) : by_itself(c, &e);
}

static struct failure *run_parts(const struct library_call *c, int64_t n_parts, int64_t from, int64_t to) {
  struct failure *why = NULL;
  for (int64_t i = from; !why && i < to; i++) why = run_part(c, i / n_parts, i % n_parts, n_parts);
  return why;
}

/* ---- counts ---- */

static int64_t tally_parts(const struct library_call *c) { return c->out[0].dims[c->out[0].rank - 2]; }

static struct failure *tally_run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  return (void)scratch, run_parts(c, tally_parts(c), from, to);
}

static int one(const struct node *n) { return (void)n, 1; }

static dim bins_dim(const struct node *n) {
  const struct bins_attr *a = n->attr;
  dim size = n->in[1]->dims[n->in[1]->rank - 1];
  return a->of == BINS_OF_EDGES ? dim_above(size, 1) : size;
}

/* At most 64 parts, of 2^16 elements at least, and of 8 for every bin. */
static weft_dtype tally_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  dim bins = bins_dim(n);
  (void)k;
  *rank = x->rank + 1;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] = dim_add(1, dim_min(63, dim_quotient(x->dims[x->rank - 1], dim_max(1 << 16, dim_mul(8, bins)))));
  dims[x->rank] = bins;
  return WEFT_I64;
}

static void no_vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  (void)r, (void)is_wanted, (void)dy, (void)dx;
}
static void no_jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) { (void)r, (void)dx, (void)dy; }

/* Rows that are not active have 0 for elements and for edges, with which nothing can be wrong. */
static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct rule active = *r;
  weft_array *in[2];
  array_active_indices(r, 0, is_mapped, in);
  active.in = in;
  library_batch(&active, is_mapped, ys, is_mapped_out);
}

/* What a device may find. */
static struct failure *tell_bin(const struct library_call *c, int64_t place, int64_t value) {
  return not_a_bin(c, place % last_dim(&c->in[0]), value, n_bins(c));
}
static struct failure *tell_edge(const struct library_call *c, int64_t place, int64_t value) {
  return (void)value, not_above(place % last_dim(&c->in[1]), c->origin);
}
static library_tell *const tell[] = { tell_bin, tell_edge };

static void numbers(const struct library_call *c, int64_t number[]) { number[0] = of(c) == BINS_OF_EDGES, number[1] = n_bins(c); }

static const struct library tally_steps = { .core = 1, .parts = tally_parts, .operations = operations, .run = tally_run,
                                            .routine = "tally", .numbers = numbers, .n_checks = 2, .tell = tell };
static const struct many tally_results = { one, tally_type, no_vjp, no_jvp, batch };
const struct op op_tally = { .name = "tally", .kind = OP_LIBRARY, .again = library_again,
                             .many = &tally_results, .library = &tally_steps };

/* ---- bins ---- */

static int64_t bins_parts(const struct library_call *c) { return 1 + last_dim(&c->in[0]) / (1 << 16); }

static struct failure *bins_run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  return (void)scratch, run_parts(c, bins_parts(c), from, to);
}

static weft_dtype bins_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *x = n->in[0];
  (void)k;
  *rank = x->rank;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  return WEFT_I64;
}

static const struct library bins_steps = { .core = 1, .parts = bins_parts, .operations = operations, .run = bins_run,
                                           .routine = "bins", .numbers = numbers, .n_checks = 2, .tell = tell };
static const struct many bins_results = { one, bins_type, no_vjp, no_jvp, batch };
const struct op op_bins = { .name = "bins", .kind = OP_LIBRARY, .again = library_again,
                            .many = &bins_results, .library = &bins_steps };

/* ---- nodes of them ---- */

static weft_array *apply(const struct op *op, weft_array *x, weft_array *ruler, enum bins_of of) {
  struct bins_attr attr = { of };
  weft_array *y, *bad;
  struct node *n[2];
  if (!operands("weft_histogram", 2, (weft_array *[]){ x, ruler }, n, &bad)) return bad;
  library_apply(op, 2, n, &attr, sizeof attr, 1, &y);
  nodes_release(2, n);
  return y;
}

weft_array *array_tally(weft_array *x, weft_array *ruler, enum bins_of of) {
  return weft_squeeze(weft_sum(apply(&op_tally, x, ruler, of), -2), -2);
}

weft_array *array_bins(weft_array *x, weft_array *ruler, enum bins_of of) { return apply(&op_bins, x, ruler, of); }
