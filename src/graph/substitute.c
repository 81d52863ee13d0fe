/* substitute.c -- the graph again with other leaves, other sizes. */
#include "base/mem.h"
#include "graph/copy.h"
#include "op/op.h"

static bool replace_walls(struct copy *c, int n, struct node *const to[]) {
  for (int i = 0; i < n; i++) {
    int at = c->g.wall[i];
    if (at >= 0 && !c->now[at] && to[i] != c->g.node[at]) c->now[at] = node_retain(to[i]);
  }
  return true;
}

static bool is_wall(const struct copy *c, int n, int i) {
  for (int k = 0; k < n; k++)
    if (c->g.wall[k] == i) return true;
  return false;
}

/* Counters that take the place of others are as long as a loop of the copy may be, which has got another symbol meanwhile. */
static bool resize_walls(struct copy *c, int n) {
  for (int i = 0; i < n && c->sizes.n; i++) {
    int at = c->g.wall[i];
    struct node *now = at >= 0 ? c->now[at] : NULL;
    dim dims[WEFT_RANK_MAX];
    bool differs = false;
    if (!now || now->op->kind != OP_IOTA) continue;
    for (int k = 0; k < now->rank; k++) differs |= (dims[k] = dim_in(&c->sizes, now->dims[k])) != now->dims[k];
    if (!differs) continue;
    struct node *other = node_make(now->op, (weft_dtype)now->dtype, now->rank, dims, 0, NULL, now->attr, now->attr_bytes);
    if (!other) return copy_fail(c, fail(WEFT_ERR_MEMORY, 0, "weft: out of memory"));
    other->copy_of = now->copy_of, other->origin = now->origin;
    node_release(now);
    c->now[at] = other;
  }
  return true;
}

static bool is_replaced(const struct copy *c, int i) { return c->now[i] || copy_is_forced(c, i); }

/* Walls have no operands in the snapshot: only those of them that were replaced by themselves need the longer look. */
static bool copy_all(struct copy *c, int n_walls) {
  for (int i = 0; i < c->g.n; i++) {
    bool is_done = c->now[i] || (subgraph_arity(&c->g, i) == 0 && is_wall(c, n_walls, i));
    if (!is_done && !copy_node(c, i)) return false;
  }
  return true;
}

/* Nothing older is another one in the copy. What becomes an older node, as a copy becomes what it is of, stands among other copies
 * that were made before it and have the lengths of the same loops. */
static uint64_t oldest_replaced(int n, struct node *const from[], struct node *const to[]) {
  uint64_t a = oldest_of(n, from), b = oldest_of(n, to);
  return a < b ? a : b;
}

static bool specialise(enum copy_kind kind, uint64_t oldest, int n_from, struct node *const from[], struct node *const to[],
                       int n_symbols, const dim symbol[], const dim value[], int n, struct node *const target[], struct node *out[],
                       struct failure **failure) {
  struct copy c;
  bool ok = copy_begin(&c, n, target, n_from, from, n_symbols ? 0 : oldest);
  c.kind = kind;
  for (int i = 0; ok && i < n_symbols; i++)
    if (symbol[i] != value[i] && !dim_table_add(&c.sizes, symbol[i], value[i]))
      ok = copy_fail(&c, fail(WEFT_ERR_MEMORY, 0, "weft: out of memory"));
  if (ok) ok = replace_walls(&c, n_from, to) && copy_renew(&c, is_replaced) && resize_walls(&c, n_from) && copy_all(&c, n_from);
  return copy_end(&c, n, out, failure);
}

bool graph_specialise(bool is_applied, int n_from, struct node *const from[], struct node *const to[], int n_symbols,
                      const dim symbol[], const dim value[], int n, struct node *const target[], struct node *out[],
                      struct failure **failure) {
  return specialise(is_applied ? COPY_APPLIED : COPY_OTHER, oldest_replaced(n_from, from, to), n_from, from, to, n_symbols, symbol,
                    value, n, target, out, failure);
}

bool graph_substitute(int n_from, struct node *const from[], struct node *const to[], int n, struct node *const target[],
                      struct node *out[], struct failure **failure) {
  return specialise(COPY_OTHER, oldest_replaced(n_from, from, to), n_from, from, to, 0, NULL, NULL, n, target, out, failure);
}

/* What has the same value has the same sizes, by other names if loops tell them: what mentions one mentions the other in the copy.
 * false: out of memory. */
static bool find_names(int n, struct node *const from[], struct node *const to[], struct dim_table *t) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < from[i]->rank; k++) {
      dim old = from[i]->dims[k], now = to[i]->dims[k];
      if (old != now && dim_is_symbol(old) && dim_in(t, old) == old && !dim_table_add(t, old, now)) return false;
    }
  return true;
}

bool graph_repeat(int n_from, struct node *const from[], struct node *const to[], int n, struct node *const target[],
                  struct node *out[], struct failure **failure) {
  struct dim_table t = { 0 };
  uint64_t oldest = oldest_replaced(n_from, from, to);
  bool ok = find_names(n_from, from, to, &t);
  if (!ok) *failure = fail(WEFT_ERR_MEMORY, 0, "weft: out of memory");
  else ok = specialise(COPY_SAME, oldest, n_from, from, to, t.n, t.symbol, t.value, n, target, out, failure);
  dim_table_free(&t);
  return ok;
}

bool graph_repeat_body(int n_vars, struct node *const var[], int n_from, struct node *const from[], struct node *const to[], int n,
                       struct node *const target[], struct node *out[], struct failure **failure) {
  uint64_t oldest = oldest_replaced(n_from, from, to), first = oldest_of(n_vars, var);
  return specialise(COPY_BODY, first < oldest ? first : oldest, n_from, from, to, 0, NULL, NULL, n, target, out, failure);
}
