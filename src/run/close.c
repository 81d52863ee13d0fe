/* close.c -- the end of a scope that is for something: its program runs, and all of it is committed, or nothing.
 *
 * Without waiting, the arrays to be updated become promises at once: leaves without a value yet, that later expressions
 * can use. A job keeps them all, or breaks them all. */
#include <string.h>
#include "base/mem.h"
#include "op/op.h"
#include "run/buffer.h"
#include "run/device.h"
#include "run/eval.h"
#include "run/verdict.h"

/* What a scope is for, in nodes: it outlives the scope. */
struct closing {
  struct job job;              /* first: without waiting it is one */
  int n_updates, n_fetches;
  struct node **node;          /* values of the updates, then of the fetches; with references */
  struct node **promise;       /* by update, with references; NULL: none is made */
  struct fetch *fetches;
  bool has_names;              /* of scopes further out: a job has a thread without any */
  int n_heirs;                 /* 0, or as many as updates */
  struct heir *heir;
};

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_scope_close: out of memory"); }

static struct failure *unseen(const struct weft_scope *s) {
  if (s->missed) return failure_retain(s->missed);
  return s->failure && !failure_seen(s->failure, false) ? failure_retain(s->failure) : NULL;
}

static void drop_heirs(struct closing *c) {
  for (int i = 0; i < c->n_heirs; i++) node_release(c->heir[i].was);
  mem_free(c->heir);
  c->heir = NULL, c->n_heirs = 0;
}

static void free_parts(struct closing *c) {
  if (c->node) nodes_release(c->n_updates + c->n_fetches, c->node);
  for (int i = 0; c->promise && i < c->n_updates; i++) node_release(c->promise[i]);
  mem_free(c->node);
  mem_free(c->promise);
  mem_free(c->fetches);
  drop_heirs(c);
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

/* A fetch that does not fit is found before anything runs, where the sizes are known. A job waits for the device only if it
 * fetches: what it fills cannot be taken back, so nothing may be left that fails. */
static struct failure *compute(const struct closing *c) {
  struct eval_options o = { .fn = "weft_scope_close", .only_targets = true, .has_names = c->has_names, .n_heirs = c->n_heirs,
                            .heir = c->heir };
  struct failure *f = c->n_heirs ? misfetch(c) : NULL;
  if (!f && c->n_heirs) f = eval_ready_call(c->n_updates + c->n_fetches, c->node, c->n_heirs, c->heir);
  if (!f) eval_nodes(c->n_updates + c->n_fetches, c->node, &o, &f);
  if (!f && (c->n_fetches || !job_is_here())) values_await(c->n_updates + c->n_fetches, c->node, -1, &f);
  return f ? f : misfetch(c);
}

/* ---- What updated arrays will name ---- */

/* A number has no memory of its own. */
static struct buffer *number_buffer(const struct node *n) {
  uint64_t bits = scalar_bits(n, (weft_dtype)n->dtype);
  size_t size = weft_dtype_bytes((weft_dtype)n->dtype);
  void *data;
  struct buffer *b = buffer_to_fill(size, &data);
  if (b) memcpy(data, &bits, size);
  return b;
}

/* A leaf like n whose value comes later, with room for it: an update has no history. */
static struct node *promise_of(const struct node *n) {
  struct node *p = node_make(&op_value, (weft_dtype)n->dtype, n->rank, n->dims, 0, NULL, NULL, 0);
  if (!p) return NULL;
  p->place = n->place;
  p->value = value_make(p);
  bool ok = p->value && (n->op != &op_scalar || (p->value->buf = number_buffer(n)));
  atomic_store_explicit(&p->state, NODE_RUNNING, memory_order_relaxed);
  return ok ? p : (node_release(p), NULL);
}

static void keep_promise(struct node *p, const struct node *n) {
  if (n->value) heir_fill(p, n);
  else node_set_state(p, NODE_READY);
}

/* ---- Waiting for it ---- */

/* Promises for what has its sizes; the others are made when they have them. Also for what is a leaf already: two names of one leaf
 * would be one array to derivatives, maps and functions. */
static struct failure *promise_known(struct closing *c) {
  if (!c->promise && !(c->promise = mem_alloc(sizeof *c->promise * (size_t)(c->n_updates + 1)))) return no_memory();
  for (int i = 0; i < c->n_updates; i++) {
    struct node *n = c->node[i];
    if (c->promise[i] || !node_is_known(n)) continue;
    if (!(c->promise[i] = promise_of(n))) return no_memory();
  }
  return NULL;
}

/* Numbers and values: what names one takes over no memory, and is named when all is done. */
static bool is_leaf(const struct node *n) { return n->op == &op_scalar || n->op == &op_value; }

/* Updates of arrays that may be overwritten, if nothing can fail once they are computed. */
static void find_heirs(struct closing *c, struct weft_scope *s) {
  bool is_known = true, some = false;
  for (int i = 0; i < c->n_updates + c->n_fetches; i++) is_known &= node_is_known(c->node[i]);
  if (!c->n_updates || !is_known || !(c->heir = mem_alloc(sizeof *c->heir * (size_t)c->n_updates))) return;
  for (; c->n_heirs < c->n_updates; c->n_heirs++) {
    int i = c->n_heirs;
    struct node *n = c->node[i], *was = array_node(s->updates[i].outer);
    c->heir[i] = (struct heir){ .outer = s->updates[i].outer, .value = n, .was = was, .leaf = is_leaf(n) ? NULL : c->promise[i] };
    some |= donate_may(was);
  }
  if (some) scope_forget(s); /* so that whoever refers to them now will afterwards */
  else drop_heirs(c);
}

/* Everything that can fail comes first; then all of it happens, if it has not yet. */
static struct failure *commit(struct closing *c, const struct update updates[]) {
  struct failure *f = promise_known(c);
  if (!f) f = fetch_all(c);
  if (f) return f;
  graph_lock();
  for (int i = 0; i < c->n_updates; i++) {
    bool is_done = c->heir && c->heir[i].is_done;
    if (!is_done) keep_promise(c->promise[i], c->node[i]);
  }
  graph_unlock();
  for (int i = 0; i < c->n_updates; i++)
    if (!c->heir || !c->heir[i].is_done) node_release(array_swap(updates[i].outer, node_retain(c->promise[i])));
  return NULL;
}

static weft_status report_all(struct failure *f) {
  weft_status status = failure_tell(f);
  buffer_callbacks();
  return status;
}

static struct failure *carry_out(struct weft_scope *s) {
  struct closing c = { 0 };
  struct failure *f = gather(&c, "weft_scope_close", s);
  if (!f) f = promise_known(&c);
  if (!f) find_heirs(&c, s);
  if (!f) f = compute(&c);
  if (!f) f = commit(&c, s->updates);
  free_parts(&c);
  return f;
}

weft_status weft_scope_close(weft_scope *s) {
  weft_status status = scope_check("weft_scope_close", s);
  if (status) return status;
  struct failure *f = unseen(s);
  if (!f && s->n_updates + s->n_fetches) f = carry_out(s);
  scope_end(s);
  return report_all(f);
}

/* ---- Not waiting ---- */

/* Sizes that only a run can tell are waited for. */
static struct failure *promise_all(struct closing *c) {
  struct failure *f = NULL;
  if (!(c->promise = mem_alloc(sizeof *c->promise * (size_t)(c->n_updates + 1)))) return no_memory();
  for (int i = 0; !f && i < c->n_updates; i++) {
    struct node *n = c->node[i];
    if (!node_is_known(n) && eval_nodes(1, &n, &(struct eval_options){ .only_targets = true }, &f)) return f;
    if (!(c->promise[i] = promise_of(n))) f = no_memory();
  }
  return f;
}

/* What one of them depends on concerns all: each gets the verdict on all. */
static void settle_promises(const struct closing *c, struct failure *f) {
  graph_lock();
  for (int i = 0; i < c->n_updates; i++) {
    struct node *p = c->promise[i];
    if (!f) {
      p->value->verdict = verdict_retain(c->job.verdict);
      keep_promise(p, c->node[i]);
      continue;
    }
    p->failure = failure_retain(f);
    node_set_state(p, NODE_FAILED);
  }
  graph_unlock();
}

static bool is_settled(const struct closing *c) {
  return c->n_updates && atomic_load(&c->promise[0]->state) != NODE_RUNNING;
}

static struct failure *run_job(struct job *j) {
  struct closing *c = (struct closing *)j;
  if (is_settled(c)) return NULL; /* a child of fork that begins it again */
  struct failure *f = compute(c);
  if (f && job_is_put_off()) return f; /* promises are kept by whoever begins it again */
  if (!f) f = fetch_all(c);
  if (!f) f = verdict_join(c->n_updates + c->n_fetches, c->node, &c->job.verdict);
  settle_promises(c, f);
  return f;
}

static void end_job(struct job *j) { free_parts((struct closing *)j); }

static struct failure *start(struct closing *c, const char *fn, struct weft_scope *s) {
  struct failure *f = unseen(s);
  if (!f) f = gather(c, fn, s);
  c->has_names = scope_has_names_beyond(s);
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
    c->job.tells_anyway = c->n_fetches;
    c->job.end = end_job;
    for (int i = 0; i < c->n_updates; i++) if (eval_device(c->promise[i])) device_started();
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
