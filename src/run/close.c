/* close.c -- the end of a scope that is for something: its program runs, and all of it is committed, or nothing.
 *
 * Without waiting, the arrays to be updated become promises at once: leaves without a value yet, that later expressions
 * can use. A job keeps them all, or breaks them all. */
#include <string.h>
#include "base/mem.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/eval.h"

/* What a scope is for, in nodes: it outlives the scope. */
struct closing {
  struct job job;              /* first: without waiting it is one */
  int n_updates, n_fetches;
  struct node **node;          /* values of the updates, then of the fetches; with references */
  struct node **promise;       /* by update, with references; NULL: none is made */
  struct fetch *fetches;
};

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_scope_close: out of memory"); }

static struct failure *unseen(const struct weft_scope *s) {
  return s->failure && !failure_seen(s->failure, false) ? failure_retain(s->failure) : NULL;
}

static void free_parts(struct closing *c) {
  if (c->node) nodes_release(c->n_updates + c->n_fetches, c->node);
  for (int i = 0; c->promise && i < c->n_updates; i++) node_release(c->promise[i]);
  mem_free(c->node);
  mem_free(c->promise);
  mem_free(c->fetches);
}

static struct failure *gather(struct closing *c, const char *fn, const struct weft_scope *s) {
  int n = s->n_updates + s->n_fetches;
  weft_array **a = mem_alloc(sizeof *a * (size_t)(n + 1)), *bad;
  struct node **node = mem_alloc(sizeof *node * (size_t)(n + 1));
  c->fetches = mem_alloc(sizeof *c->fetches * (size_t)(s->n_fetches + 1));
  struct failure *f = a && node && c->fetches ? NULL : no_memory();
  for (int i = 0; !f && i < s->n_updates; i++) a[i] = s->updates[i].value;
  for (int i = 0; !f && i < s->n_fetches; i++) a[s->n_updates + i] = s->fetches[i].from;
  if (!f && !arrays_nodes(fn, n, a, node, &bad)) f = array_failure(fn, 0, bad);
  mem_free(a);
  if (f) return mem_free(node), f;
  c->node = node;
  c->n_updates = s->n_updates;
  c->n_fetches = s->n_fetches;
  if (c->n_fetches) memcpy(c->fetches, s->fetches, sizeof *c->fetches * (size_t)c->n_fetches);
  return NULL;
}

/* ---- The program ---- */

static struct failure *misfetch(const struct closing *c) {
  for (int i = 0; i < c->n_fetches; i++) {
    const struct node *n = c->node[c->n_updates + i];
    uint64_t bytes = (uint64_t)dim_count(n->rank, n->dims) * weft_dtype_bytes((weft_dtype)n->dtype);
    if (bytes != c->fetches[i].bytes)
      return fail(WEFT_ERR_ARG, n->origin, "weft_fetch: the array has %llu bytes, the destination %llu",
                  (unsigned long long)bytes, (unsigned long long)c->fetches[i].bytes);
  }
  return NULL;
}

static struct failure *fetch_all(const struct closing *c) {
  struct failure *f = NULL;
  for (int i = 0; !f && i < c->n_fetches; i++) value_copy(c->node[c->n_updates + i], c->fetches[i].dst, &f);
  return f;
}

static struct failure *compute(const struct closing *c) {
  struct failure *f = NULL;
  eval_nodes(c->n_updates + c->n_fetches, c->node, &(struct eval_options){ .only_targets = true }, &f);
  return f ? f : misfetch(c);
}

/* ---- Waiting for it ---- */

/* A leaf with the value of a ready node: an update has no history. */
static struct node *leaf_of(struct node *n) {
  if (n->op == &op_scalar || n->op == &op_value) return node_retain(n);
  return value_node((weft_dtype)n->dtype, n->rank, n->dims, buffer_retain(n->value->buf), n->value->offset, n->value->stride);
}

/* Everything that can fail comes first; then all of it happens. */
static struct failure *commit(const struct closing *c, const struct update updates[]) {
  struct node **leaf = mem_alloc(sizeof *leaf * (size_t)(c->n_updates + 1));
  struct failure *f = leaf ? NULL : no_memory();
  int n = 0;
  while (!f && n < c->n_updates)
    if ((leaf[n] = leaf_of(c->node[n]))) n++;
    else f = no_memory();
  if (!f) f = fetch_all(c);
  for (int i = 0; i < n; i++) node_release(f ? leaf[i] : array_swap(updates[i].outer, leaf[i]));
  mem_free(leaf);
  return f;
}

static weft_status report_all(struct failure *f) {
  weft_status status = f ? failure_report(f) : WEFT_OK;
  failure_release(f);
  buffer_callbacks();
  return status;
}

weft_status weft_scope_close(weft_scope *s) {
  struct closing c = { 0 };
  weft_status status = scope_check("weft_scope_close", s);
  if (status) return status;
  struct failure *f = unseen(s);
  if (!f) f = gather(&c, "weft_scope_close", s);
  if (!f) f = compute(&c);
  if (!f) f = commit(&c, s->updates);
  free_parts(&c);
  scope_end(s);
  return report_all(f);
}

/* ---- Not waiting ---- */

/* A leaf like n whose value comes later. Sizes that only a run can tell are waited for. */
static struct node *promise_of(struct node *n, struct failure **f) {
  if (!node_is_known(n) && eval_nodes(1, &n, &(struct eval_options){ .only_targets = true }, f)) return NULL;
  struct node *p = node_make(&op_value, (weft_dtype)n->dtype, n->rank, n->dims, 0, NULL, NULL, 0);
  if (p) atomic_store_explicit(&p->state, NODE_RUNNING, memory_order_relaxed);
  else *f = no_memory();
  return p;
}

static struct failure *promise_all(struct closing *c) {
  struct failure *f = NULL;
  if (!(c->promise = mem_alloc(sizeof *c->promise * (size_t)(c->n_updates + 1)))) return no_memory();
  for (int i = 0; !f && i < c->n_updates; i++) c->promise[i] = promise_of(c->node[i], &f);
  return f;
}

/* A number has no memory of its own. */
static struct buffer *number_buffer(const struct node *n) {
  uint64_t bits = scalar_bits(n, (weft_dtype)n->dtype);
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  struct buffer *b = buffer_new(size);
  void *data;
  if (!b) return NULL;
  buffer_hold(b, &data, NULL);
  memcpy(data, &bits, size);
  buffer_drop(b);
  return b;
}

static struct value *value_like(const struct node *n) {
  struct buffer *b = n->op == &op_scalar ? number_buffer(n) : buffer_retain(n->value->buf);
  struct value *v = b ? mem_alloc(sizeof *v + sizeof *v->stride * (size_t)n->rank) : NULL;
  if (!v) return buffer_release(b), NULL;
  v->buf = b;
  v->offset = n->value ? n->value->offset : 0;
  if (n->rank) memcpy(v->stride, n->value->stride, sizeof *v->stride * (size_t)n->rank);
  return v;
}

/* Values for all promises, or none. */
static struct failure *values_of(const struct closing *c, struct value *v[]) {
  for (int i = 0; i < c->n_updates; i++) {
    if ((v[i] = value_like(c->node[i]))) continue;
    for (int k = 0; k < i; k++) buffer_release(v[k]->buf), mem_free(v[k]);
    return no_memory();
  }
  return NULL;
}

static void settle_promises(const struct closing *c, struct value *const v[], struct failure *f) {
  graph_lock();
  for (int i = 0; i < c->n_updates; i++) {
    struct node *p = c->promise[i];
    if (f) p->failure = failure_retain(f);
    else p->value = v[i];
    atomic_store_explicit(&p->state, f ? NODE_FAILED : NODE_READY, memory_order_release);
  }
  graph_changed();
  graph_unlock();
}

static bool is_settled(const struct closing *c) {
  return c->n_updates && atomic_load(&c->promise[0]->state) != NODE_RUNNING;
}

static struct failure *run_job(struct job *j) {
  struct closing *c = (struct closing *)j;
  if (is_settled(c)) return NULL; /* a child of fork that begins it again */
  struct value **v = mem_alloc(sizeof *v * (size_t)(c->n_updates + 1));
  struct failure *f = v ? compute(c) : no_memory();
  if (!f) f = fetch_all(c);
  if (!f) f = values_of(c, v);
  settle_promises(c, v, f);
  mem_free(v);
  return f;
}

static void end_job(struct job *j) { free_parts((struct closing *)j); }

static struct failure *start(struct closing *c, const char *fn, struct weft_scope *s) {
  struct failure *f = unseen(s);
  if (!f) f = gather(c, fn, s);
  if (!f) f = eval_look(c->n_updates + c->n_fetches, c->node);
  return f ? f : promise_all(c);
}

static struct node **copy_of(struct node *const node[], int n) {
  struct node **copy = mem_alloc(sizeof *copy * (size_t)(n + 1));
  for (int i = 0; copy && i < n; i++) copy[i] = node_retain(node[i]);
  return copy;
}

weft_status weft_scope_close_async(weft_scope *s) {
  const char *fn = "weft_scope_close_async";
  weft_status status = scope_check(fn, s);
  if (status) return status;
  struct closing *c = mem_alloc(sizeof *c);
  struct failure *f = c ? start(c, fn, s) : no_memory();
  struct node **promise = f ? NULL : copy_of(c->promise, c->n_updates);
  if (!f && !promise) f = no_memory();
  if (!f) {
    c->job.run = run_job;
    c->job.end = end_job;
    job_start(&c->job); /* before anybody can see a promise: whoever builds on one comes later */
    for (int i = 0; i < s->n_updates; i++) node_release(array_swap(s->updates[i].outer, promise[i]));
  } else if (c) {
    free_parts(c);
    mem_free(c);
  }
  mem_free(promise);
  scope_end(s);
  return report_all(f);
}
