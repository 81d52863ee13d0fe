/* call_rules.c -- derivatives and maps of calls: those of the function's body on the same inputs. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/function.h"
#include "transform/transform.h"

static struct weft_function *function_of(const struct node *n) { return ((const struct call_attr *)n->attr)->function; }
static int count(const struct node *n) { return ((const struct call_attr *)n->attr)->n_out; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  struct weft_function *f = function_of(n);
  const struct node *out = f->out[k];
  struct dim_table bound = { 0 };
  struct failure *why = NULL;
  bool ok = function_bind(f, "weft_call", n->in, &bound, &why);
  for (int d = 0; d < out->rank; d++) dims[d] = ok ? dim_in(&bound, out->dims[d]) : out->dims[d];
  dim_table_free(&bound);
  if (!ok) failure_release(why);
  *rank = out->rank;
  return (weft_dtype)out->dtype;
}

/* The inputs and the body in terms of them, in one list: n_in borrowed nodes, then n_out with references. NULL: *why. */
static struct node **expanded(const struct rule *r, int n_in, int n_out, struct failure **why) {
  struct node **list = node_list_new(n_in + n_out);
  if (!list) return *why = no_memory(), NULL;
  for (int k = 0; k < n_in; k++) list[k] = r->in[k]->node;
  if (function_expand(function_of(r->node), list, list + n_in, why)) return list;
  mem_free(list);
  return NULL;
}

static void drop(struct node **list, int n_in, int n_out) {
  if (list) nodes_release(n_out, list + n_in);
  mem_free(list);
}

static struct node **nodes_of(int n, weft_array *const a[]) {
  struct node **list = node_list_new(n);
  for (int k = 0; list && k < n; k++) list[k] = a[k] ? a[k]->node : NULL;
  return list;
}

static void handles_of(int n, struct node *const node[], weft_array *out[]) {
  for (int k = 0; k < n; k++) out[k] = node[k] ? handle_of(node[k]) : NULL;
}

/* Moves the nodes of n that count to the front, and returns how many they are. The others may be older than what the function has
 * captured: among x they would be asked how that was made. */
static int gather(int n, const bool counts[], struct node *const node[], struct node *few[]) {
  int m = 0;
  for (int k = 0; k < n; k++) if (counts[k]) few[m++] = node[k];
  return m;
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  struct failure *why = NULL;
  int n_in = function_of(r->node)->n_in, n_out = count(r->node), n = 0;
  struct node **list = expanded(r, n_in, n_out, &why), **seeds = nodes_of(n_out, dy), **d = node_list_new(2 * n_in);
  bool ok = list && seeds && d;
  if (ok) n = gather(n_in, is_wanted, list, d + n_in);
  ok = ok && pull(n_out, list + n_in, seeds, n, d + n_in, true, d, NULL, &why);
  for (int k = 0, at = 0; ok && k < n_in; k++) dx[k] = is_wanted[k] && d[at++] ? handle_of(d[at - 1]) : NULL;
  if (!ok) all_bad(n_in, dx, why ? why : no_memory());
  drop(list, n_in, n_out);
  mem_free(seeds);
  node_list_drop(ok ? n : 0, d);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  struct failure *why = NULL;
  int n_in = function_of(r->node)->n_in, n_out = count(r->node), n = 0;
  struct node **list = expanded(r, n_in, n_out, &why), **few = node_list_new(2 * n_in), **d = node_list_new(n_out);
  bool ok = list && few && d;
  for (int k = 0; ok && k < n_in; k++) if (dx[k]) few[n] = list[k], few[n_in + n++] = dx[k]->node;
  ok = ok && push(n, few, few + n_in, n_out, list + n_in, d, &why);
  if (ok) handles_of(n_out, d, dy);
  else all_bad(n_out, dy, why ? why : no_memory());
  drop(list, n_in, n_out);
  mem_free(few);
  node_list_drop(n_out, d);
}

/* The body on the inputs as they were, then mapped: the mapped ones have an axis more than the function expects. */
static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct failure *why = NULL;
  struct weft_function *f = function_of(r->node);
  struct node **xs = node_list_new(f->n_in), **list = node_list_new(f->n_in + f->n_out), **d = node_list_new(f->n_out);
  dim rows = 0;
  bool ok = xs && list && d;
  for (int k = 0; ok && k < f->n_in; k++) {
    list[k] = r->node->in[k];
    xs[k] = is_mapped[k] ? r->in[k]->node : NULL;
    if (is_mapped[k]) rows = xs[k]->dims[0];
  }
  ok = ok && function_expand(f, list, list + f->n_in, &why) &&
       spread(rows, r->active ? r->active->node : NULL, f->n_in, list, xs, f->n_out, list + f->n_in, d, &why);
  for (int k = 0; k < f->n_out; k++) is_mapped_out[k] = !ok || d[k];
  if (ok) handles_of(f->n_out, d, ys);
  else all_bad(f->n_out, ys, why ? why : no_memory());
  mem_free(xs);
  drop(list, f->n_in, f->n_out);
  node_list_drop(f->n_out, d);
}

const struct many call_many = { count, type, vjp, jvp, batch };
