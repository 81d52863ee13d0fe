/* call.c -- a function applied: lazy, with as many results as the function has. Derivatives and maps are those of the
 * body (transform/call_rules.c); before scheduling, the body takes the place of the call. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/dtype.h"
#include "graph/function.h"
#include "graph/shape.h"
#include "op/operand.h"

/* A copy of a call has its own results. */
static void hold(const void *attr) {
  struct call_attr *call = (struct call_attr *)(uintptr_t)attr;
  atomic_init(&call->items, NULL);
  function_retain(call->function);
}

static void drop(const void *attr) {
  const struct call_attr *call = attr;
  if (call->items) mem_free(call->items);
  function_release(call->function);
}

static bool trusts(const struct node *n) { return ((const struct call_attr *)n->attr)->is_trusting; }

/* A size of an argument itself, as most sizes of results are. */
static bool is_bound(dim d, const struct dim_table *bound) {
  for (int s = 0; s < bound->n; s++) if (bound->symbol[s] == d) return true;
  return false;
}

/* Whether an output has a size that only the inside of the function knows, such as the length of a loop. Each call would
 * need a symbol of its own for it, so such a function is expanded where it is called. */
static bool has_inner_size(const struct weft_function *f, const struct dim_table *bound) {
  for (int i = 0; i < f->n_out; i++)
    for (int k = 0; k < f->out[i]->rank; k++) {
      dim d = f->out[i]->dims[k];
      if (!dim_is_known(d) && !is_bound(d, bound) && !dim_mentions_only(d, bound->n, bound->symbol)) return true;
    }
  return false;
}

/* Takes over a reference to the call. */
static struct node *lazy_item(struct node *call, const struct node *out, const struct dim_table *bound, int k) {
  dim dims[WEFT_RANK_MAX];
  for (int d = 0; d < out->rank; d++) dims[d] = dim_in(bound, out->dims[d]);
  return node_take(&op_item, out->dtype, out->rank, dims, 1, &call, &(struct item_attr){ k }, sizeof(struct item_attr));
}

static void call_lazily(struct weft_function *f, struct node *const in[], const struct dim_table *bound, weft_array *out[]) {
  struct call_attr attr = { f, f->n_out, trusts_are_open(&f->trusts, bound), NULL };
  struct node *call = node_take(&op_call, WEFT_I64, 0, NULL, f->n_in, in, &attr, sizeof attr);
  atomic_store_explicit(&calls_some, true, memory_order_relaxed);
  for (int k = 0; k < f->n_out; k++) {
    if (call && k + 1 < f->n_out) node_retain(call);
    out[k] = array_of(call ? lazy_item(call, f->out[k], bound, k) : NULL);
  }
  if (!f->n_out) node_release(call);
}

static void fail_all(int m, weft_array *out[], struct failure *f) {
  for (int k = 0; k < m; k++) out[k] = array_failed(failure_retain(f));
  if (!m) scope_blame(f);
  else failure_release(f);
}

/* A result is an array of its own, even if it is an argument or stands twice among them. Takes over the reference. */
static struct node *named(struct node *y) {
  if (atomic_load(&y->refs) == 1) return y;
  struct node *n = node_make(&op_alias, (weft_dtype)y->dtype, y->rank, y->dims, 1, &y, NULL, 0);
  node_release(y);
  return n;
}

static void call_at_once(struct weft_function *f, struct node *const in[], weft_array *out[]) {
  struct node **made = mem_alloc((size_t)f->n_out * sizeof *made);
  struct failure *why = NULL;
  if (made && function_expand(f, in, made, &why))
    for (int k = 0; k < f->n_out; k++) out[k] = array_of(named(made[k]));
  else fail_all(f->n_out, out, why ? why : fail(WEFT_ERR_MEMORY, scope_origin(), "weft_call: out of memory"));
  mem_free(made);
  nodes_release(f->n_in, in);
}

/* Numbers without dtype of their own take that of the input. */
static bool fit_dtype(const struct weft_function *f, int i, struct node **in, struct failure **why) {
  const struct node *want = f->in[i];
  if ((*in)->dtype == want->dtype) return true;
  if (!(*in)->weak) {
    *why = fail(WEFT_ERR_DTYPE, scope_origin(), "weft_call: argument %d is %s, the function wants %s", i + 1,
                weft_dtype_name((*in)->dtype), weft_dtype_name(want->dtype));
    return false;
  }
  struct node *cast = array_node(weft_cast(array_of(*in), want->dtype));
  *in = cast;
  if (cast->op != &op_bad) return true;
  *why = failure_retain(cast->failure);
  return false;
}

/* A size that is not known yet is taken to be the one that the function wants. */
static bool take_sizes(const struct weft_function *f, int i, struct node **in, struct failure **why) {
  const struct node *want = f->in[i], *got = *in;
  dim dims[WEFT_RANK_MAX];
  if (want->rank != got->rank) return true; /* that they differ is told where sizes are bound */
  for (int k = 0; k < got->rank; k++) {
    dim now = dim_resolve(got->dims[k]);
    bool is_taken = dim_is_known(want->dims[k]) && !dim_is_known(now) && sizes_meet("weft_call", now, want->dims[k]);
    dims[k] = is_taken ? want->dims[k] : got->dims[k];
  }
  if ((*in = node_agree(*in, -1, dims))) return true;
  return *why = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_call: out of memory"), false;
}

/* What is computed has its sizes, as most arguments have. */
static inline bool fit_sizes(const struct weft_function *f, int i, struct node **in, struct failure **why) {
  return atomic_load_explicit(&(*in)->state, memory_order_relaxed) == NODE_READY || take_sizes(f, i, in, why);
}

/* On operands of other sizes: a loop that they are made of was copied, say, and tells its length anew. */
static struct node *again(const struct node *n, struct node *const in[], struct failure **why) {
  struct call_attr attr = *(const struct call_attr *)n->attr;
  struct node **now = mem_alloc((size_t)(n->n_in + 1) * sizeof *now), *call = NULL;
  struct dim_table bound = { 0 };
  bool ok = now;
  for (int i = 0; now && i < n->n_in; i++) now[i] = node_retain(in[i]);
  for (int i = 0; ok && i < n->n_in; i++) ok = fit_sizes(attr.function, i, &now[i], why);
  if (ok && function_bind(attr.function, "weft_call", now, &bound, why)) {
    attr.is_trusting = trusts_are_open(&attr.function->trusts, &bound);
    call = node_make(&op_call, WEFT_I64, 0, NULL, n->n_in, now, &attr, sizeof attr);
  }
  nodes_release(now ? n->n_in : 0, now);
  mem_free(now);
  dim_table_free(&bound);
  return call;
}

const struct op op_call = { .name = "call", .kind = OP_CALL, .again = again, .hold = hold, .drop = drop, .trusts = trusts,
                            .many = &call_many };

/* Takes over the references to the arguments. */
static void call(struct weft_function *f, struct node **in, weft_array *out[]) {
  struct failure *why = NULL;
  dim few[16];
  struct dim_table bound = DIM_TABLE_IN(few);
  bool ok = true;
  for (int i = 0; ok && i < f->n_in; i++) ok = fit_dtype(f, i, &in[i], &why) && fit_sizes(f, i, &in[i], &why);
  ok = ok && function_bind(f, "weft_call", in, &bound, &why);
  if (!ok) nodes_release(f->n_in, in), fail_all(f->n_out, out, why);
  else if (has_inner_size(f, &bound)) call_at_once(f, in, out);
  else call_lazily(f, in, &bound, out);
  dim_table_free(&bound);
}

static struct failure *refused(struct weft_function *f, int n, int m, weft_array *out[]) {
  struct failure *ended = function_ended("weft_call", f);
  if (ended) return ended;
  if (m > 0 && !out) return fail(WEFT_ERR_ARG, scope_origin(), "weft_call: the list for %d results is NULL", m);
  if (f->failure) return failure_retain(f->failure);
  if (n != f->n_in || m != f->n_out)
    return fail(WEFT_ERR_ARG, scope_origin(), "weft_call: %d arguments and %d results; the function has %d and %d", n, m,
                f->n_in, f->n_out);
  return NULL;
}

void weft_call(weft_function *f, int n, weft_array *const in[], int m, weft_array *out[]) {
  struct failure *why = refused(f, n, m, out);
  if (why) return fail_all(m > 0 && out ? m : 0, out, why);
  struct node *few[16], **node = n <= 16 ? few : mem_alloc((size_t)n * sizeof *node);
  if (!node) return fail_all(m, out, fail(WEFT_ERR_MEMORY, scope_origin(), "weft_call: out of memory"));
  weft_array *bad;
  if (arrays_nodes("weft_call", n, in, node, &bad)) call(f, node, out);
  else for (int k = 0; k < m; k++) out[k] = bad;
  if (node != few) mem_free(node);
}
