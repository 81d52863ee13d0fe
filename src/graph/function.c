/* function.c -- functions: made from a scope, counted, applied to other inputs. */
#include "graph/function.h"
#include "base/mem.h"
#include "base/spare.h"
#include "graph/copy.h"
#include "graph/recall.h"
#include "graph/shape.h"
#include "op/op.h"

void function_retain(struct weft_function *f) { atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed); }

bool function_has_input(const struct weft_function *f, const struct node *n) {
  for (int k = 0; k < f->n_in; k++) if (f->in[k] == n) return true;
  return false;
}

static struct spare spares;

void function_release(struct weft_function *f) {
  if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
  plan_set_free(atomic_load(&f->plans));
  nodes_release(f->in ? f->n_in : 0, f->in);
  nodes_release(f->out ? f->n_out : 0, f->out);
  mem_free(f->in);
  mem_free(f->out);
  trusts_free(&f->trusts);
  failure_release(f->failure);
  spare_give(&spares, f, sizeof *f);
}

struct failure *function_ended(const char *fn, const struct weft_function *f) {
  if (!f) return fail(WEFT_ERR_ARG, scope_origin(), "%s: the function is NULL", fn);
  if (atomic_load(&f->refs) > 0) return NULL;
  return fail(WEFT_ERR_SCOPE, scope_origin(), "%s: the function is used after the end of its scope", fn);
}

/* ---- Making ---- */

/* What there is when there is no memory for a function; refs never reach 0. */
static struct weft_function no_memory = { .refs = 1 };

static struct weft_function *no_memory_function(void) {
  graph_lock();
  if (!no_memory.failure) no_memory.failure = fail(WEFT_ERR_MEMORY, 0, "weft_compile: out of memory");
  graph_unlock();
  return &no_memory;
}

static struct failure *not_compilable(const struct weft_scope *s, int n, int m) {
  if (n < 0 || m < 0) return fail(WEFT_ERR_ARG, scope_origin(), "weft_compile: %d inputs, %d outputs", n, m);
  if (s->construct)
    return fail(WEFT_ERR_SCOPE, scope_origin(), "weft_compile: the scope is the body of a %s", s->construct->name);
  if (s->n_updates || s->n_fetches)
    return fail(WEFT_ERR_SCOPE, scope_origin(), "weft_compile: a function is pure, but the scope has %d updates and %d fetches",
                s->n_updates, s->n_fetches);
  if (s->missed) return failure_retain(s->missed);
  if (s->failure && !failure_seen(s->failure, false)) return failure_retain(s->failure);
  return NULL;
}

/* The nodes of a list of arrays with references. NULL: *why. */
static struct node **nodes_of(int n, weft_array *const a[], struct failure **why) {
  struct node **node = mem_alloc((size_t)(n ? n : 1) * sizeof *node);
  weft_array *bad;
  if (!node) return *why = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_compile: out of memory"), NULL;
  if (arrays_nodes("weft_compile", n, a, node, &bad)) return node;
  *why = array_failure("weft_compile", 0, bad);
  mem_free(node);
  return NULL;
}

/* An input by which the body does not know what it reads: a number, or what a loop or choice has copied. NULL: none. */
static struct failure *not_inputs(const struct weft_function *f) {
  for (int k = 0; k < f->n_in; k++)
    if (f->in[k]->weak)
      return fail(WEFT_ERR_ARG, scope_origin(),
                  "weft_compile: input %d is a number, which no expression remembers; use weft_cast or weft_full", k + 1);
  int lost = recall_lost(f->n_in, f->in, NULL, f->n_out, f->out, 0, NULL);
  if (lost == -2) return fail(WEFT_ERR_MEMORY, scope_origin(), "weft_compile: out of memory");
  return lost < 0 ? NULL : copied_inside("weft_compile", "input", lost);
}

/* Bodies contain no calls, so that expanding one is one step. Inputs may be any arrays, of which outputs may have copies. */
static void expand_outputs(struct weft_function *f) {
  f->failure = expand_calls_since(oldest_of(f->n_in, f->in), f->n_out, f->out);
  if (!f->failure) f->failure = recall(f->n_in, f->in, f->n_out, f->out);
  if (!f->failure) f->failure = not_inputs(f);
  if (!f->failure) f->failure = choose_sink(oldest_of(f->n_in, f->in), f->n_in, f->in, f->n_out, f->out);
}

static void fill(struct weft_function *f, int n, weft_array *const in[], int m, weft_array *const out[]) {
  f->in = nodes_of(n, in, &f->failure);
  if (f->in) f->n_in = n;
  f->out = f->in ? nodes_of(m, out, &f->failure) : NULL;
  if (f->out) f->n_out = m;
  f->rewrites = (int)weft_get(WEFT_REWRITES);
}

static void inherit_trusts(struct weft_function *f, const struct weft_scope *s) {
  trusts_add(&f->trusts, &s->trusts);
  if (f->trusts.is_lost) f->failure = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_compile: out of memory");
}

weft_function *weft_compile(weft_scope *s, int n, weft_array *const in[], int m, weft_array *const out[]) {
  weft_status status = scope_check("weft_compile", s);
  struct weft_function *f = spare_take(&spares, sizeof *f);
  if (!f) {
    if (status == WEFT_OK) scope_end(s);
    return no_memory_function();
  }
  atomic_init(&f->refs, 1);
  f->failure = status == WEFT_OK ? not_compilable(s, n, m) : fail(status, scope_origin(), "%s", weft_message());
  if (!f->failure) fill(f, n, in, m, out);
  if (!f->failure) expand_outputs(f);
  if (!f->failure) inherit_trusts(f, s);
  if (status == WEFT_OK) scope_end(s);
  struct weft_scope *outside = scope_current();
  if (!outside) return function_release(f), no_memory_function();
  f->scope = outside;
  f->next = outside->functions;
  outside->functions = f;
  if (f->failure) scope_blame(failure_retain(f->failure));
  return f;
}

void weft_function_arity(weft_function *f, int *n, int *m) {
  if (n) *n = f ? f->n_in : 0;
  if (m) *m = f ? f->n_out : 0;
}

weft_function *weft_function_own(weft_function *f) {
  if (f && f != &no_memory && atomic_load(&f->refs) > 0) function_retain(f);
  return f;
}

void weft_function_disown(weft_function *f) {
  if (f && f != &no_memory && atomic_load(&f->refs) > 0) function_release(f);
}

/* ---- Sizes ---- */

static const dim *bound_to(const struct dim_table *t, dim symbol) {
  for (int i = 0; i < t->n; i++)
    if (t->symbol[i] == symbol) return &t->value[i];
  return NULL;
}

static struct failure *misfit(const char *fn, const struct node *want, const struct node *got, int i) {
  struct shape_text a, b;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: argument %d is %s, the function wants %s", fn, i + 1, shape_show(got, &a),
              shape_show(want, &b));
}

static struct failure *conflict(const char *fn, dim symbol, dim before, dim now, int i) {
  struct shape_text s, a, b;
  return fail(WEFT_ERR_SHAPE, scope_origin(), "%s: the size %s is %s, but %s in argument %d", fn, dims_show(1, &symbol, &s),
              dims_show(1, &before, &a), dims_show(1, &now, &b), i + 1);
}

static struct failure *bind_one(const char *fn, const struct node *want, const struct node *got, int i, struct dim_table *t) {
  if (want->rank != got->rank) return misfit(fn, want, got, i);
  for (int k = 0; k < want->rank; k++) {
    dim d = want->dims[k], now = got->dims[k];
    if (dim_is_known(d) && d != now) return misfit(fn, want, got, i);
    if (!dim_is_symbol(d)) continue;
    const dim *before = bound_to(t, d);
    if (before && *before != now) return conflict(fn, d, *before, now, i);
    if (!before && !dim_table_add(t, d, now)) return fail(WEFT_ERR_MEMORY, scope_origin(), "%s: out of memory", fn);
  }
  return NULL;
}

/* Sizes that are sums or products of symbols, once these are known; the others have been compared. */
static struct failure *check_composed(const char *fn, const struct node *want, const struct node *got, int i,
                                      const struct dim_table *t) {
  for (int k = 0; k < want->rank; k++)
    if (!dim_is_known(want->dims[k]) && dim_in(t, want->dims[k]) != got->dims[k]) return misfit(fn, want, got, i);
  return NULL;
}

bool function_bind(struct weft_function *f, const char *fn, struct node *const in[], struct dim_table *t,
                   struct failure **failure) {
  struct failure *why = NULL;
  for (int i = 0; !why && i < f->n_in; i++) why = bind_one(fn, f->in[i], in[i], i, t);
  for (int i = 0; !why && i < f->n_in; i++) why = check_composed(fn, f->in[i], in[i], i, t);
  if (!why) why = trusts_check(&f->trusts, t);
  if (why) *failure = why;
  return !why;
}

/* The results, where sizes of arguments were taken to be those that the function wants: nothing else may read them. */
static bool beside_arguments(const struct weft_function *f, struct node *const in[], struct node *out[]) {
  for (int i = 0; i < f->n_in; i++) {
    if (!in[i]->rank || !node_is_trusting(in[i]) || !node_is_known(f->in[i])) continue;
    for (int k = 0; k < f->n_out; k++) {
      struct node *size = node_make(&op_size, WEFT_I64, 0, NULL, 1, &in[i], &(struct size_attr){ in[i]->dims[0], 0 },
                                    sizeof(struct size_attr));
      struct node *y = size ? node_make(&op_depends, (weft_dtype)out[k]->dtype, out[k]->rank, out[k]->dims, 2,
                                        (struct node *[]){ out[k], size }, NULL, 0) : NULL;
      node_release(size);
      if (!y) return false;
      node_release(out[k]);
      out[k] = y;
    }
  }
  return true;
}

/* A loop of the body that has run depends on no value of an input: it is as long in every call. */
bool function_expand(struct weft_function *f, struct node *const in[], struct node *out[], struct failure **failure) {
  struct dim_table t = { 0 };
  bool ok = function_bind(f, "weft_call", in, &t, failure) &&
            graph_specialise(true, f->n_in, f->in, in, t.n, t.symbol, t.value, f->n_out, f->out, out, failure);
  if (ok && !beside_arguments(f, in, out)) {
    for (int k = 0; k < f->n_out; k++) node_release(out[k]), out[k] = NULL;
    *failure = fail(WEFT_ERR_MEMORY, scope_origin(), "weft_call: out of memory");
    ok = false;
  }
  dim_table_free(&t);
  return ok;
}
