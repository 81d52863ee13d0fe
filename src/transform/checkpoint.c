/* checkpoint.c -- a region of the graph whose insides reverse mode computes again instead of keeping them.
 *
 * The node passes the y of the region on. Its inputs are y, then x, then whatever else the region uses that does not
 * depend on x, so that derivatives by these are found as well. What a side of a choice is made of belongs to the region, whether
 * it depends on x or not: as an input it would be computed where the other side is taken. So does what has a size that a loop of
 * the region tells. The gradient is taken of a copy of the region whose x stand behind barriers: identities that merging of common
 * expressions does not see through. It ends at the other inputs, which may be made of what the x have become since: of rows, or of
 * an argument. Where a derivative by an array inside the region is asked for, reverse mode goes through y instead (grad.c).
 *
 * What calls of functions inside have captured is found by expanding them. That makes other nodes, and y is what users have made of
 * theirs: the expanded y come last among the inputs, nobody computes them, and the region is what they are made of. */
#include "base/mem.h"
#include "graph/copy.h"
#include "graph/function.h"
#include "op/operand.h"
#include "transform/transform.h"

struct checkpoint_attr { int n_y, n_x, n_expanded; }; /* n_expanded: n_y, or 0 if nothing had to be */

static const struct checkpoint_attr *attr_of(const struct node *n) { return n->attr; }
static int count(const struct node *n) { return attr_of(n)->n_y; }
int checkpoint_expanded(const struct node *n) { return attr_of(n)->n_expanded; }

static weft_dtype type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct node *y = n->in[k];
  *rank = y->rank;
  for (int d = 0; d < y->rank; d++) dims[d] = y->dims[d];
  return (weft_dtype)y->dtype;
}

/* ---- Barriers ---- */

static struct node *barrier(struct node *x) {
  return node_make(&op_barrier, (weft_dtype)x->dtype, x->rank, x->dims, 1, &x, NULL, 0);
}

static weft_array *pass(const struct rule *r, int k, weft_array *d) { return (void)r, (void)k, d; }
static weft_array *batch_barrier(const struct rule *r, const bool is_mapped[]) {
  return (void)is_mapped, array_of(barrier(r->in[0]->node));
}
static struct node *again_barrier(const struct node *n, struct node *const in[], struct failure **why) {
  return (void)n, (void)why, barrier(in[0]);
}

const struct op op_barrier = { .name = "barrier", .kind = OP_IDENTITY, .vjp = pass, .jvp = pass, .batch = batch_barrier,
                               .again = again_barrier };

/* ---- Rules ---- */

/* in: borrowed, with the expanded y, if there are any, in the place of y; fresh: y again, then x. */
struct region { int n_y, n_x, n_in; struct node **in, **fresh, **dx, **seeds; };

/* Cotangents of y as those of y computed again: loops in the copy have lengths of their own, which will turn out to be the same. */
static bool seeds_fit(struct region *g, weft_array *const dy[], struct failure **why) {
  for (int k = 0; k < g->n_y; k++) {
    if (!dy[k]) continue;
    if (!(g->seeds[k] = result_of(array_agrees(dy[k], handle_of(g->fresh[k])), why))) return false;
  }
  return true;
}

static bool region_open(struct region *g, const struct rule *r, weft_array *const dy[], struct failure **why) {
  const struct checkpoint_attr *a = attr_of(r->node);
  *g = (struct region){ .n_y = a->n_y, .n_x = a->n_x, .n_in = r->node->n_in - a->n_expanded };
  g->in = node_list_new(g->n_in);
  g->fresh = node_list_new(g->n_in);
  g->dx = node_list_new(g->n_in);
  g->seeds = node_list_new(g->n_y);
  if (!g->in || !g->fresh || !g->dx || !g->seeds) return false;
  for (int k = 0; k < g->n_in; k++) g->in[k] = r->in[k]->node;
  for (int k = 0; k < a->n_expanded; k++) g->in[k] = r->in[g->n_in + k]->node;
  for (int k = g->n_y; k < g->n_in; k++) {
    bool is_x = k < g->n_y + g->n_x;
    if (!(g->fresh[k] = is_x ? barrier(g->in[k]) : node_retain(g->in[k]))) return false;
  }
  return graph_repeat(g->n_in - g->n_y, g->in + g->n_y, g->fresh + g->n_y, g->n_y, g->in, g->fresh, why) && seeds_fit(g, dy, why);
}

static void region_close(struct region *g) {
  mem_free(g->in);
  node_list_drop(g->n_y, g->seeds);
  node_list_drop(g->n_in, g->fresh);
  node_list_drop(g->n_in, g->dx);
}

static void vjp(const struct rule *r, const bool is_wanted[], weft_array *const dy[], weft_array *dx[]) {
  (void)is_wanted;
  struct region g;
  struct failure *why = NULL;
  int n_y = attr_of(r->node)->n_y;
  bool ok = region_open(&g, r, dy, &why) &&
            pull(n_y, g.fresh, g.seeds, g.n_in - n_y, g.fresh + n_y, true, g.dx + n_y, NULL, &why);
  for (int k = 0; ok && k < g.n_in; k++) dx[k] = g.dx[k] ? handle_of(g.dx[k]) : NULL;
  if (!ok) all_bad(r->node->n_in, dx, why ? why : no_memory());
  region_close(&g);
}

static void jvp(const struct rule *r, weft_array *const dx[], weft_array *dy[]) {
  for (int k = 0; k < count(r->node); k++) dy[k] = dx[k];
}

/* The same region with more axes: y and x are mapped alike. */
static void batch(const struct rule *r, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]) {
  struct node **in = node_list_new(r->node->n_in), *n = NULL;
  for (int k = 0; in && k < r->node->n_in; k++) in[k] = r->in[k]->node;
  if (in) n = node_make(&op_checkpoint, WEFT_I64, 0, NULL, r->node->n_in, in, r->node->attr, r->node->attr_bytes);
  for (int k = 0; k < count(r->node); k++) {
    ys[k] = array_of(n ? item_make(n, k) : NULL);
    is_mapped_out[k] = is_mapped[k];
  }
  node_release(n);
  mem_free(in);
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **why) {
  return (void)why, node_make(n->op, WEFT_I64, 0, NULL, n->n_in, in, n->attr, n->attr_bytes);
}

const struct many checkpoint_many = { count, type, vjp, jvp, batch };
const struct op op_checkpoint = { .name = "checkpoint", .kind = OP_IDENTITY, .again = again, .many = &checkpoint_many };

/* ---- The public call ---- */

static bool is_choice(const struct subgraph *g, int i) { return g->node[i]->op == &op_choose && subgraph_arity(g, i) == 3; }

static bool has_choice(const struct subgraph *g) {
  for (int i = 0; i < g->n; i++) if (is_choice(g, i)) return true;
  return false;
}

/* Takes into the region what sides of its choices are made of, down to what is there already: is_of_side is room. */
static void take_sides(const struct subgraph *g, bool is_inside[], bool is_of_side[]) {
  for (int i = g->n; i-- > 0;)
    for (int k = 0; k < subgraph_arity(g, i); k++) {
      int in = g->operand[g->first[i] + k];
      bool is_side = is_of_side[i] || (is_choice(g, i) && is_inside[i] && k);
      is_of_side[in] |= is_side && subgraph_arity(g, in);
    }
  for (int i = 0; i < g->n; i++) is_inside[i] |= is_of_side[i], is_of_side[i] = false;
}

/* What is made of what is inside, and what has a size that a loop of the region tells, which is another one where it is computed
 * again: as an input it would wait for the first one. false: out of memory. */
static bool take_inside(const struct subgraph *g, bool is_inside[]) {
  struct dim_table told = { 0 };
  bool ok = true;
  for (int n_before = -1; ok && n_before < told.n;) {
    n_before = told.n;
    for (int i = 0; ok && i < g->n; i++) {
      dim symbol[2];
      for (int at = g->first[i]; at < g->first[i + 1]; at++) is_inside[i] |= is_inside[g->operand[at]];
      is_inside[i] |= subgraph_mentions(g, i, &told);
      int n = loop_renews(g, i, is_inside, symbol);
      for (int k = 0; ok && k < n; k++)
        if (!dim_is_known(symbol[k]) && dim_in(&told, symbol[k]) == symbol[k]) ok = dim_table_add(&told, symbol[k], dim_symbol());
    }
  }
  dim_table_free(&told);
  return ok;
}

/* Marks, in a snapshot of m y with walls x, the nodes of the region, and those that are none of it but used by one, or a y. false:
 * out of memory. */
static bool find_edge(const struct subgraph *g, int m, int n_x, bool is_inside[], bool is_edge[]) {
  for (int j = 0; j < n_x; j++)
    if (g->wall[j] >= 0) is_inside[g->wall[j]] = true;
  if (!take_inside(g, is_inside)) return false;
  take_sides(g, is_inside, is_edge);
  for (int i = 0; i < g->n; i++)
    for (int at = g->first[i]; is_inside[i] && at < g->first[i + 1]; at++) is_edge[g->operand[at]] |= !is_inside[g->operand[at]];
  for (int k = 0; k < m; k++) is_edge[g->target[k]] |= !is_inside[g->target[k]];
  return true;
}

/* Whether a derivative by it can be asked for: numbers have no name, and a number spread over sizes that are told elsewhere has
 * the name of what waits for these. */
static bool may_be_asked(const struct node *n) {
  return is_differentiable(n) && n->op != &op_scalar && (n->op != &op_broadcast || node_is_known(n));
}

/* y, x, the edge and n_expanded of expanded, borrowed. NULL: out of memory. */
static struct node **inputs(const struct subgraph *g, int m, struct node *const y[], int n, struct node *const x[], int n_expanded,
                            struct node *const expanded[], int *n_in) {
  bool *is_inside = mem_alloc(2 * (size_t)g->n + 1), *is_edge = is_inside ? is_inside + g->n : NULL;
  struct node **in = node_list_new(m + n + g->n + n_expanded);
  bool ok = is_inside && in && find_edge(g, m, n, is_inside, is_edge);
  if (ok) {
    int at = 0;
    for (int k = 0; k < m; k++) in[at++] = y[k];
    for (int k = 0; k < n; k++) in[at++] = x[k];
    for (int i = 0; i < g->n; i++)
      if (is_edge[i] && may_be_asked(g->node[i])) in[at++] = g->node[i];
    for (int k = 0; k < n_expanded; k++) in[at++] = expanded[k];
    *n_in = at;
  }
  mem_free(is_inside);
  if (ok) return in;
  mem_free(in);
  return NULL;
}

/* is: y with calls expanded, or y. */
static struct node *checkpoint(int n, struct node *const x[], int m, struct node *const y[], struct node *const is[]) {
  struct subgraph g;
  if (!subgraph_take(&g, m, is, n, x, oldest_of(n, x))) return NULL;
  if (has_choice(&g)) { /* sides may be made of what is older than x */
    subgraph_free(&g);
    if (!subgraph_take(&g, m, is, n, x, 0)) return NULL;
  }
  int n_in = 0, n_expanded = 0;
  for (int k = 0; k < m; k++) if (is[k] != y[k]) n_expanded = m;
  struct node **in = inputs(&g, m, y, n, x, n_expanded, is, &n_in), *c = NULL;
  struct checkpoint_attr attr = { m, n, n_expanded };
  if (in) c = node_make(&op_checkpoint, WEFT_I64, 0, NULL, n_in, in, &attr, sizeof attr);
  mem_free(in);
  subgraph_free(&g);
  return c;
}

void weft_checkpoint(int n, weft_array *const x[], int m, weft_array *y[]) {
  if (!has_place("weft_checkpoint", n, m, y)) return;
  struct node **list = node_list_new(n + 2 * m), **expanded = list ? list + n + m : NULL;
  weft_array *bad = NULL;
  if (!list) return all_bad(m, y, no_memory());
  bool has_x = operands("weft_checkpoint", n, x, list, &bad), has_y = has_x && operands("weft_checkpoint", m, y, list + n, &bad);
  for (int k = 0; has_y && k < m; k++) expanded[k] = node_retain(list[n + k]);
  struct failure *why = has_y ? expand_captors_between(n, list, m, expanded) : NULL;
  if (why) all_bad(m, y, why);
  else if (has_y) {
    struct node *c = checkpoint(n, list, m, list + n, expanded);
    for (int k = 0; k < m; k++) y[k] = array_of(c ? item_make(c, k) : NULL);
    node_release(c);
  }
  for (int k = 0; bad && k < m; k++) y[k] = bad;
  nodes_release(has_x ? n : 0, list);
  nodes_release(has_y ? 2 * m : 0, list + n);
  mem_free(list);
}
