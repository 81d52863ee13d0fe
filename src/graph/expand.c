/* expand.c -- calls replaced by the bodies of their functions. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/function.h"
#include "op/op.h"

static bool no_memory(struct copy *c) { return copy_fail(c, fail(WEFT_ERR_MEMORY, 0, "weft: out of memory")); }

/* results[i]: what the call at i has become, a reference each. */
static bool expand(struct copy *c, int i, struct node **results[]) {
  const struct call_attr *call = c->g.node[i]->attr;
  int n_in = subgraph_arity(&c->g, i);
  struct node **in = mem_alloc((size_t)(n_in ? n_in : 1) * sizeof *in);
  results[i] = mem_alloc((size_t)(call->n_out ? call->n_out : 1) * sizeof **results);
  bool ok = in && results[i] ? true : no_memory(c);
  for (int k = 0; ok && k < n_in; k++) in[k] = copy_of(c, c->g.operand[c->g.first[i] + k]);
  struct failure *why = NULL;
  if (ok && !function_expand(call->function, in, results[i], &why)) ok = copy_fail(c, why);
  mem_free(in);
  return ok;
}

/* A call that is older than what was asked for is there without its operands. */
static bool is_whole(const struct subgraph *g, int i) {
  return subgraph_arity(g, i) == ((const struct call_attr *)g->node[i]->attr)->function->n_in;
}

/* An item of a call whose inputs are not in the snapshot (it has a value) stays what it is. */
static bool expand_at(struct copy *c, int i, struct node **results[]) {
  const struct node *n = c->g.node[i];
  if (n->op == &op_call) return is_whole(&c->g, i) ? expand(c, i, results) : true;
  if (n->op != &op_item || !subgraph_arity(&c->g, i)) return copy_node(c, i);
  struct node **made = results[c->g.operand[c->g.first[i]]];
  if (!made) return copy_node(c, i);
  c->now[i] = node_retain(made[((const struct item_attr *)n->attr)->k]);
  return true;
}

static bool has_call(const struct subgraph *g) {
  for (int i = 0; i < g->n; i++)
    if (g->node[i]->op == &op_call) return true;
  return false;
}

static void free_results(const struct subgraph *g, struct node **results[]) {
  for (int i = 0; i < g->n; i++) {
    if (!results[i]) continue;
    nodes_release(((const struct call_attr *)g->node[i]->attr)->n_out, results[i]);
    mem_free(results[i]);
  }
  mem_free(results);
}

static bool is_call(const struct copy *c, int i) { return c->g.node[i]->op == &op_call; }

static bool expand_all(struct copy *c) {
  if (!has_call(&c->g)) return true;
  if (!copy_renew(c, is_call)) return false;
  struct node ***results = mem_alloc((size_t)c->g.n * sizeof *results);
  bool ok = results ? true : no_memory(c);
  for (int i = 0; ok && i < c->g.n; i++) ok = expand_at(c, i, results);
  if (results) free_results(&c->g, results);
  return ok;
}

bool expand_calls(int n, struct node *const target[], struct node *out[], struct failure **failure) {
  struct copy c;
  if (copy_begin_lazy(&c, n, target)) expand_all(&c);
  return copy_end(&c, n, out, failure);
}

bool expand_calls_since(uint64_t oldest, int n, struct node *const target[], struct node *out[], struct failure **failure) {
  struct copy c;
  if (copy_begin(&c, n, target, 0, NULL, oldest)) expand_all(&c);
  return copy_end(&c, n, out, failure);
}
