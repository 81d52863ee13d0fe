/* host.c -- functions of the user's that compute arrays: library steps that are called on the thread that asks for the result.
 *
 * An attribute refers to the function, which lives as long as nodes do. Plans do not keep it: a plan is found by the address,
 * and whoever runs it has the node. A function is mapped by calling it for every active row, and has no derivative of its
 * own: weft_custom gives it one.
 *
 * Sizes of results are numbers that the function came with, or those of operands behind its own, one for each result, which have no
 * element: the sizes of the result, and a last axis of 0. So such sizes are known when those are, by every rule for operands. */
#include <string.h>
#include "base/mem.h"
#include "op/operand.h"
#include "run/buffer.h"

struct host_result { weft_dtype dtype; int rank; int64_t dims[WEFT_RANK_MAX]; };

struct host {
  _Atomic int refs;
  weft_host_function f;
  struct buffer *owner;          /* runs `release` when it may be run; NULL: nothing to release */
  int n_out;
  struct host_result out[];      /* of one row */
};

struct host_attr {
  struct host *host;
  int64_t n_batch;               /* axes that map has put in front */
  int64_t has_mask;              /* the last operand says for which rows it is called; the others are 0 */
  int64_t n_sized;               /* as many operands, in front of the mask, have the sizes of the results; 0: they are numbers */
};

static const struct host_attr *attr_of(const struct node *n) { return n->attr; }

static void hold(const void *attr) {
  atomic_fetch_add_explicit(&((const struct host_attr *)attr)->host->refs, 1, memory_order_relaxed);
}

static void host_release(struct host *h) {
  if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  buffer_release(h->owner);
  mem_free(h);
}

static void drop(const void *attr) { host_release(((const struct host_attr *)attr)->host); }

/* ---- results ---- */

static int count(const struct node *n) { return attr_of(n)->host->n_out; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct host_attr *a = attr_of(n);
  const struct host_result *y = &a->host->out[k];
  const struct node *sized = a->n_sized ? n->in[n->n_in - a->has_mask - a->n_sized + k] : NULL;
  *rank = (int)a->n_batch + y->rank;
  for (int64_t d = 0; d < a->n_batch; d++) dims[d] = n->in[0]->dims[d];
  for (int d = 0; d < y->rank; d++) dims[a->n_batch + d] = sized ? sized->dims[a->n_batch + d] : y->dims[d];
  return y->dtype;
}

/* For the axes that were there, and one in front, whose active rows are r->active. before: the mask there was, or NULL. */
static weft_array *mask_of(const struct rule *r, bool has_rows, weft_array *before, bool has_rows_before) {
  int n_batch = (int)attr_of(r->node)->n_batch;
  weft_array *mask = r->active;
  for (int k = 0; k < n_batch; k++) mask = weft_unsqueeze(mask, -1);
  if (before) return weft_and(mask, has_rows_before ? before : weft_unsqueeze(before, 0));
  dim dims[WEFT_RANK_MAX + 1] = { r->active->node->dims[0] };
  for (int k = 0; k < n_batch; k++) dims[k + 1] = r->in[0]->node->dims[k + has_rows];
  return array_broadcast("weft_map", mask, n_batch + 1, dims);
}

static void batch_active(const struct rule *r, const bool is_mapped[], struct host_attr *more, weft_array *ys[],
                         bool is_mapped_out[]) {
  int n = r->n_in - (int)more->has_mask;
  weft_array **in = mem_alloc(sizeof *in * (size_t)(n + 1));
  bool *is_mapped_in = mem_alloc((size_t)(n + 1)), ok = in && is_mapped_in;
  for (int k = 0; ok && k < n; k++) in[k] = r->in[k], is_mapped_in[k] = is_mapped[k];
  if (ok) {
    in[n] = mask_of(r, is_mapped[0], more->has_mask ? r->in[n] : NULL, more->has_mask && is_mapped[n]);
    is_mapped_in[n] = true;
    more->has_mask = 1;
    library_rows(&(struct rule){ .node = r->node, .in = in, .n_in = n + 1 }, is_mapped_in, more, ys, is_mapped_out);
  }
  for (int k = 0; !ok && k < count(r->node); k++) ys[k] = array_of(NULL), is_mapped_out[k] = true;
  mem_free(in);
  mem_free(is_mapped_in);
}

static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct host_attr more = *attr_of(r->node);
  more.n_batch++;
  if (r->active) batch_active(r, is_mapped, &more, ys, is_mapped_out);
  else library_rows(r, is_mapped, &more, ys, is_mapped_out);
}

/* ---- one call ---- */

struct host_block { weft_block b; int64_t stride[WEFT_RANK_MAX]; };

/* Row p of an array, as the function sees it. */
static void show(const struct library_array *a, int64_t n_batch, int64_t p, struct host_block *x) {
  int rank = a->rank - (int)n_batch;
  int64_t stride = 1;
  for (int k = rank; k-- > 0; stride *= a->dims[n_batch + k]) x->stride[k] = stride;
  x->b = (weft_block){ .data = a->data + p * a->each, .dtype = a->dtype, .rank = rank, .dims = a->dims + n_batch,
                       .strides = x->stride };
}

/* The status of a call of weft that failed inside, with its message; anything else is the function's own. */
static struct failure *function_failed(const struct library_call *c, int status) {
  const char *why = weft_message(), *name = "weft_host: ";
  if (status > WEFT_OK && status < WEFT_ERR_INTERNAL && status != WEFT_ERR_RULE && *why)
    return fail((weft_status)status, c->origin, "%s%s", strncmp(why, name, strlen(name)) ? name : "", why);
  return fail(WEFT_ERR_RULE, c->origin, "weft_host: the function failed with %d", status);
}

static bool is_called(const struct library_call *c, int64_t p) {
  const struct library_array *mask = &c->in[c->n_in - 1];
  return !((const struct host_attr *)c->attr)->has_mask || mask->data[p * mask->each];
}

static void clear(const struct library_call *c, int64_t p) {
  for (int k = 0; k < c->n_out; k++)
    if (c->out[k].each) memset(c->out[k].data + p * c->out[k].each, 0, (size_t)c->out[k].each);
}

static struct failure *run(const struct library_call *c, int64_t from, int64_t to, void *scratch) {
  const struct host_attr *a = c->attr;
  int n = c->n_in + c->n_out;
  struct host_block *x = mem_alloc(sizeof *x * (size_t)(n + 1));
  weft_block *b = mem_alloc(sizeof *b * (size_t)(n + 1));
  struct failure *f = x && b ? NULL : fail(WEFT_ERR_MEMORY, c->origin, "weft_host: out of memory");
  (void)scratch;
  for (int64_t p = from; !f && p < to; p++) {
    if (!is_called(c, p)) {
      clear(c, p);
      continue;
    }
    for (int k = 0; k < n; k++) show(&c->in[k], a->n_batch, p, &x[k]), b[k] = x[k].b;
    int status = a->host->f.run(a->host->f.ctx, b, b + c->n_in);
    if (status) f = function_failed(c, status);
  }
  mem_free(x);
  mem_free(b);
  return f;
}

static int batch_axes(const void *attr) { return (int)((const struct host_attr *)attr)->n_batch; }
static double operations(const struct library_call *c) { return 1e6 * (double)c->n_problems; } /* nobody can say */

static const struct library steps = { .batch_axes = batch_axes, .is_callers = true, .operations = operations, .run = run };
static const struct many results = { .count = count, .type = type, .batch = batch };
const struct op op_host = { .name = "host", .kind = OP_LIBRARY, .again = library_again, .hold = hold, .drop = drop,
                            .many = &results, .library = &steps };

/* ---- the public call ---- */

static struct failure *check_results(const char *fn, int m, const weft_block like[]) {
  struct failure *why = m < 1 || !like ? fail(WEFT_ERR_ARG, scope_origin(), "%s: %d results", fn, m) : NULL;
  for (int k = 0; !why && k < m; k++)
    if (!(why = dtype_check(fn, like[k].dtype))) why = dims_check(fn, like[k].rank, like[k].dims);
  return why;
}

/* NULL: out of memory, and release has been called. */
static struct host *host_new(const weft_host_function *f, int m, const weft_block like[]) {
  struct host *h = mem_alloc(sizeof *h + sizeof *h->out * (size_t)m);
  if (h) *h = (struct host){ .refs = 1, .f = *f, .n_out = m };
  if (h && f->release) h->owner = buffer_external(NULL, 0, f->release, f->ctx);
  if (!h || (f->release && !h->owner)) {
    mem_free(h);
    if (f->release) f->release(f->ctx);
    return NULL;
  }
  for (int k = 0; k < m; k++) {
    h->out[k] = (struct host_result){ .dtype = like[k].dtype, .rank = like[k].rank };
    if (like[k].rank) memcpy(h->out[k].dims, like[k].dims, sizeof *like[k].dims * (size_t)like[k].rank);
  }
  return h;
}

/* x: what the function is called with, and the operands that have sizes. like has dtypes and ranks; dims, if there are no such
 * operands. */
static void apply(const char *fn, const weft_host_function *f, int n, weft_array *const x[], int n_sized, int m,
                  const weft_block like[], weft_array *y[]) {
  if (!has_list(fn, m, y)) {
    if (f && f->release) f->release(f->ctx);
    return;
  }
  struct failure *why = !f || !f->run || n < 0 ? fail(WEFT_ERR_ARG, scope_origin(), "%s: no function", fn)
                                               : check_results(fn, m, like);
  struct node **in = why ? NULL : mem_alloc(sizeof *in * (size_t)(n + 1));
  weft_array *bad = NULL;
  bool has_in = in && operands(fn, n, x, in, &bad);
  struct host *h = has_in ? host_new(f, m, like) : NULL;
  if (!has_in && f && f->release) f->release(f->ctx);
  if (!why && !h && !bad) why = fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
  struct host_attr attr = { .host = h, .n_sized = n_sized };
  if (h) library_apply(&op_host, n, in, &attr, sizeof attr, m, y);
  for (int k = 0; !h && k < m; k++) y[k] = bad ? bad : array_of_bad(failure_retain(why), 0, NULL);
  host_release(h);
  for (int k = 0; has_in && k < n; k++) node_release(in[k]);
  failure_release(why);
  mem_free(in);
}

void weft_host(const weft_host_function *f, int n, weft_array *const x[], int m, const weft_block like[], weft_array *y[]) {
  apply("weft_host", f, n, x, 0, m, like, y);
}

/* An array without elements that has the sizes of another, and one more axis of length 0: it tells sizes and costs nothing. */
static weft_array *sizes_alone(weft_array *like) {
  weft_array *size[WEFT_RANK_MAX];
  int rank = weft_rank(like);
  if (rank == WEFT_RANK_MAX)
    return array_bad(WEFT_ERR_SHAPE, "weft_host_like: a result of rank %d, and %d are the most", rank, WEFT_RANK_MAX - 1);
  for (int k = 0; k < rank; k++) size[k] = weft_size(like, k);
  if (rank >= 0) size[rank] = weft_integer(0);
  return rank < 0 ? like : weft_sized(WEFT_U8, rank + 1, size);
}

void weft_host_like(const weft_host_function *f, int n, weft_array *const x[], int m, weft_array *const like[], weft_array *y[]) {
  int n_all = (n > 0 ? n : 0) + (m > 0 ? m : 0);
  if ((m > 0 && !y) || (n > 0 && !x) || (m > 0 && !like)) /* apply says what is missing */
    return apply("weft_host_like", f, n, x, 0, m, NULL, y);
  static const int64_t none[WEFT_RANK_MAX];
  weft_block *said = mem_alloc(sizeof *said * (size_t)(n_all + 1));
  weft_array **all = mem_alloc(sizeof *all * (size_t)(n_all + 1));
  for (int k = 0; said && all && k < n; k++) all[k] = x[k];
  for (int k = 0; said && all && k < m; k++) {
    int rank = weft_rank(like[k]);
    said[k] = (weft_block){ .dtype = rank < 0 ? WEFT_U8 : weft_dtype_of(like[k]), .rank = rank < 0 ? 0 : rank, .dims = none };
    all[n + k] = sizes_alone(like[k]);
  }
  if (said && all) apply("weft_host_like", f, n < 0 ? n : n_all, all, m, m, m > 0 ? said : NULL, y);
  else {
    if (f && f->release) f->release(f->ctx);
    for (int k = 0; k < m; k++) y[k] = array_of(NULL);
  }
  mem_free(said);
  mem_free(all);
}
