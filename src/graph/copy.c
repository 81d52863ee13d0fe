/* copy.c -- copies of subgraphs in which some nodes are others: see copy.h.
 *
 * A node is copied if an operand has become another one, or if its sizes mention a symbol that became something else; all
 * others stay as they are and are shared. Where the operands have the sizes they should have after the replacement of
 * symbols, the copy is the node with its sizes replaced; elsewhere the op infers it again. */
#include "graph/copy.h"
#include <string.h>
#include "base/mem.h"
#include "graph/recall.h"
#include "op/op.h"

bool dim_table_add(struct dim_table *t, dim symbol, dim value) {
  if (t->n == t->room) {
    int room = t->room ? 2 * t->room : 8;
    dim *both = mem_alloc(2 * (size_t)room * sizeof *both);
    if (!both) return false;
    if (t->n) {
      memcpy(both, t->symbol, (size_t)t->n * sizeof *both);
      memcpy(both + room, t->value, (size_t)t->n * sizeof *both);
    }
    mem_free(t->own);
    *t = (struct dim_table){ t->n, room, both, both + room, both };
  }
  t->symbol[t->n] = symbol;
  t->value[t->n++] = value;
  return true;
}

void dim_table_free(struct dim_table *t) {
  mem_free(t->own);
  *t = (struct dim_table){ 0 };
}

bool copy_fail(struct copy *c, struct failure *f) {
  if (c->failure) failure_release(f);
  else c->failure = f;
  return false;
}

static bool no_memory(struct copy *c) { return copy_fail(c, fail(WEFT_ERR_MEMORY, 0, "weft: out of memory")); }

static bool begun(struct copy *c, bool ok) {
  c->now = ok ? mem_alloc((size_t)c->g.n * sizeof *c->now) : NULL;
  return c->now ? true : no_memory(c);
}

bool copy_begin(struct copy *c, int n, struct node *const target[], int n_walls, struct node *const wall[],
                uint64_t oldest) {
  *c = (struct copy){ 0 };
  return begun(c, subgraph_take(&c->g, n, target, n_walls, wall, oldest));
}

struct node *copy_of(const struct copy *c, int i) { return c->now[i] ? c->now[i] : c->g.node[i]; }

/* ---- One node ---- */

static struct node *operand(const struct copy *c, int i, int k) {
  return copy_of(c, c->g.operand[c->g.first[i] + k]);
}

static bool operands_changed(const struct copy *c, int i) {
  for (int at = c->g.first[i]; at < c->g.first[i + 1]; at++)
    if (c->now[c->g.operand[at]]) return true;
  return false;
}

static bool resize(const struct copy *c, const struct node *n, dim dims[]) {
  bool differs = false;
  for (int k = 0; k < n->rank; k++) differs |= (dims[k] = dim_in(&c->sizes, n->dims[k])) != n->dims[k];
  return differs;
}

/* Whether operand k is what it was but for symbols replaced, and for those whose number has been told since. */
static bool fits(const struct copy *c, int i, int k) {
  const struct node *old = c->g.node[c->g.operand[c->g.first[i] + k]], *now = operand(c, i, k);
  if (old == now) return true;
  if (old->rank != now->rank || old->dtype != now->dtype) return false;
  for (int d = 0; d < old->rank; d++)
    if (!dim_same(dim_in(&c->sizes, old->dims[d]), now->dims[d])) return false;
  return true;
}

static bool all_fit(const struct copy *c, int i) {
  for (int k = 0; k < subgraph_arity(&c->g, i); k++)
    if (!fits(c, i, k)) return false;
  return true;
}

/* What n is, by another name. Takes over the reference. */
static struct node *alias(struct node *n) {
  struct node *y = node_make(&op_alias, (weft_dtype)n->dtype, n->rank, n->dims, 1, &n, NULL, 0);
  node_release(n);
  return y;
}

bool copy_replace(struct copy *c, int i, struct node *n) {
  const struct node *of = c->g.node[i];
  bool is_new = n && atomic_load(&n->refs) == 1;
  if (n && !is_new && copies_same(c)) n = alias(n), is_new = true;
  if (!n) return no_memory(c);
  if (is_new && c->kind != COPY_APPLIED) n->copy_of = node_first(of);
  if (is_new && copies_same(c)) n->same_as = node_same(of), atomic_store_explicit(&copies_some, true, memory_order_relaxed);
  n->weak = of->weak;
  n->origin = of->origin;
  c->now[i] = n;
  struct failure *f = n->op->agree ? n->op->agree(n) : NULL;
  return f ? copy_fail(c, f) : true;
}

static bool infer(struct copy *c, int i, struct node *const in[]) {
  const struct node *n = c->g.node[i];
  if (!n->op->again)
    return copy_fail(c, fail(WEFT_ERR_INTERNAL, n->origin, "weft_%s: no rule for other sizes of its operands", n->op->name));
  struct failure *f = NULL;
  struct node *now = n->op->again(n, in, &f);
  if (!now && f) return copy_fail(c, f);
  if (now && n->op == &op_loop) loop_rename(now, ((const struct loop_attr *)n->attr)->loop, &c->sizes);
  return copy_replace(c, i, now);
}

/* Sizes that cannot be: below 0, or of more parts than an expression has room for. */
static struct failure *no_size(const struct node *n, const dim dims[]) {
  for (int k = 0; k < n->rank; k++)
    if (dims[k] == DIM_BAD)
      return fail(WEFT_ERR_SHAPE, n->origin, "weft_%s: with the sizes it is given now, that of axis %d is below 0 or too long an "
                  "expression", n->op->name, k);
  return NULL;
}

/* attr is a copy; where the op has a resize rule, it holds references until it is dropped here. */
static bool remake(struct copy *c, int i, const dim dims[], struct node *const in[], void *attr, bool is_changed) {
  const struct node *n = c->g.node[i];
  bool has_rule = n->op->resize;
  if (has_rule) {
    struct failure *f = NULL;
    if (!n->op->resize(n, in, attr, &c->sizes, is_changed, &f)) return f ? copy_fail(c, f) : no_memory(c);
    is_changed |= memcmp(attr, n->attr, n->attr_bytes) != 0;
  }
  struct failure *why = is_changed ? no_size(n, dims) : NULL;
  bool ok = why ? copy_fail(c, why) : true;
  if (is_changed && ok)
    ok = copy_replace(c, i, node_make(n->op, n->dtype, n->rank, dims, subgraph_arity(&c->g, i), in, attr, n->attr_bytes));
  if (has_rule && n->op->drop) n->op->drop(attr);
  return ok;
}

/* Whether n, which will have these sizes, is a result of a loop that has told a length since n was made, and whose copy in `in` has
 * one of its own that is not told yet. */
static bool forgets_length(const struct node *n, struct node *const in[], const dim dims[]) {
  dim now[WEFT_RANK_MAX];
  int rank = 0;
  bool is_of_loop = n->op == &op_item && n->rank && in[0]->op == &op_loop;
  if (is_of_loop) in[0]->op->many->type(in[0], ((const struct item_attr *)n->attr)->k, &rank, now);
  for (int k = 0; k < rank; k++) if (dim_is_known(dims[k]) && !dim_is_known(dim_resolve(now[k]))) return true;
  return false;
}

/* Whether n, which will have these sizes, is a result of a node with several whose copy in `in` has results of others. Not of a
 * loop: its lengths are renamed. */
static bool outgrows(const struct node *n, struct node *const in[], const dim dims[]) {
  dim now[2 * WEFT_RANK_MAX];
  int rank = 0;
  if (n->op == &op_item && in[0]->op != &op_loop)
    in[0]->op->many->type(in[0], ((const struct item_attr *)n->attr)->k, &rank, now);
  for (int k = 0; k < rank; k++) if (!dim_same(dims[k], now[k])) return true;
  return false;
}

static bool copy_with(struct copy *c, int i, struct node **in, void *attr) {
  const struct node *n = c->g.node[i];
  dim dims[WEFT_RANK_MAX];
  bool is_resized = resize(c, n, dims), is_changed = operands_changed(c, i) || is_resized || copy_is_forced(c, i);
  for (int k = 0; k < subgraph_arity(&c->g, i); k++) in[k] = operand(c, i, k);
  bool is_other = n->op->kind == OP_LATER || !all_fit(c, i) || forgets_length(n, in, dims) || outgrows(n, in, dims);
  if (is_changed && is_other) return infer(c, i, in);
  if (n->attr_bytes) memcpy(attr, n->attr, n->attr_bytes);
  return remake(c, i, dims, in, attr, is_changed);
}

bool attr_mentions(const struct node *n, int n_in, struct node *const in[], struct dim_table *t) {
  uint64_t attr[2 + 2 * WEFT_RANK_MAX];
  struct failure *why = NULL;
  if (!n->op->resize || !t->n || n->n_in > n_in) return false; /* taken without its operands, it stays */
  if (n->op == &op_loop) return loop_mentions(((const struct loop_attr *)n->attr)->loop, t);
  if (n->attr_bytes > sizeof attr) return true;
  memcpy(attr, n->attr, n->attr_bytes);
  bool ok = n->op->resize(n, in, attr, t, false, &why);
  failure_release(why);
  bool mentions = !ok || memcmp(attr, n->attr, n->attr_bytes);
  if (ok && n->op->drop) n->op->drop(attr);
  return mentions;
}

bool subgraph_mentions(const struct subgraph *g, int i, struct dim_table *t) {
  enum { MOST = 8 };
  struct node *in[MOST];
  const struct node *n = g->node[i];
  int n_in = subgraph_arity(g, i);
  if (g->is_end[i] || !t->n) return false;
  for (int k = 0; k < n->rank; k++) if (dim_in(t, n->dims[k]) != n->dims[k]) return true;
  if (n_in > MOST && n->op != &op_loop) return n->op->resize;
  for (int k = 0; k < n_in && k < MOST; k++) in[k] = g->node[g->operand[g->first[i] + k]];
  return attr_mentions(n, n_in, in, t);
}

bool copy_is_forced(const struct copy *c, int i) {
  return c->kind == COPY_BODY && c->g.node[i]->op == &op_size && !c->g.is_end[i];
}

/* Where the snapshot ends nothing is replaced below, and no size of a node is one of the loops above that are renewed. */
static bool stays(const struct copy *c, int i) {
  const struct node *n = c->g.node[i];
  dim dims[WEFT_RANK_MAX];
  return c->g.is_end[i] ||
         (!operands_changed(c, i) && !copy_is_forced(c, i) && !resize(c, n, dims) && !(n->op->resize && c->sizes.n));
}

/* The number of steps of a loop, if it is computed, is another one where what says it has changed. */
int loop_renews(const struct subgraph *g, int i, const bool moves[], dim symbol[2]) {
  if (g->node[i]->op != &op_loop || !moves[i]) return 0;
  const struct loop *l = ((const struct loop_attr *)g->node[i]->attr)->loop;
  int n = 0;
  if (l->owns_steps && subgraph_arity(g, i) && moves[g->operand[g->first[i]]]) symbol[n++] = l->steps;
  if (l->until) symbol[n++] = l->length;
  return n;
}

static bool renew(struct copy *c, dim symbol) {
  dim told = c->kind == COPY_OTHER ? symbol : dim_resolve(symbol);
  if (dim_is_known(symbol)) return true; /* a copy of a loop that had run: it was told already */
  if (dim_in(&c->sizes, symbol) != symbol) return true;
  return dim_table_add(&c->sizes, symbol, dim_is_known(told) ? told : dim_symbol()) || no_memory(c);
}

/* Loops that move get new symbols; what mentions these moves too, and perhaps other loops with it: until there is no new one. */
bool copy_renew(struct copy *c, bool (*changes)(const struct copy *, int i)) {
  bool *moves = mem_alloc((size_t)c->g.n + 1), ok = moves ? true : no_memory(c);
  for (int n_before = -1; ok && n_before < c->sizes.n;) {
    n_before = c->sizes.n;
    for (int i = 0; ok && i < c->g.n; i++) {
      int first = c->g.first[i], arity = subgraph_arity(&c->g, i);
      for (int k = 0; k < arity && !moves[i]; k++) moves[i] = moves[c->g.operand[first + k]];
      if (!moves[i]) moves[i] = changes(c, i) || subgraph_mentions(&c->g, i, &c->sizes);
      dim symbol[2];
      int n_new = ok ? loop_renews(&c->g, i, moves, symbol) : 0;
      for (int k = 0; ok && k < n_new; k++) ok = renew(c, symbol[k]);
    }
  }
  mem_free(moves);
  return ok;
}

bool copy_node(struct copy *c, int i) {
  if (stays(c, i)) return true;
  const struct node *n = c->g.node[i];
  enum { SMALL_IN = 8, SMALL_ATTR = 64 };
  struct node *some[SMALL_IN], **in = some;
  uint64_t few[SMALL_ATTR / 8], *attr = few;
  int n_in = subgraph_arity(&c->g, i);
  if (n_in > SMALL_IN) in = mem_alloc((size_t)n_in * sizeof *in);
  if (n->attr_bytes > SMALL_ATTR) attr = mem_alloc(n->attr_bytes);
  bool ok = in && attr ? copy_with(c, i, in, attr) : no_memory(c);
  if (in != some) mem_free(in);
  if (attr != few) mem_free(attr);
  return ok;
}

bool copy_end(struct copy *c, int n, struct node *out[], struct failure **failure) {
  bool ok = !c->failure;
  for (int i = 0; ok && i < n; i++) out[i] = node_retain(copy_of(c, c->g.target[i]));
  for (int i = 0; c->now && i < c->g.n; i++) node_release(c->now[i]);
  mem_free(c->now);
  subgraph_free(&c->g);
  dim_table_free(&c->sizes);
  if (!ok) *failure = c->failure;
  return ok;
}
