/* map.c -- y for every row of xs: each node that depends on a mapped x gets one more axis, its first. Nodes that do not are
 * shared as they are. Elementwise nodes need no rule: their operands are broadcast along the new axis. */
#include <string.h>
#include "base/mem.h"
#include "graph/function.h"
#include "graph/recall.h"
#include "graph/shape.h"
#include "op/operand.h"
#include "transform/images.h"
#include "transform/loop_rules.h"

struct mapping {
  struct images of;        /* with the new axis */
  dim rows;
  struct node *active;     /* NULL: all rows are */
};

static bool failed(struct mapping *m, struct failure *why) { return images_fail(&m->of, why); }

/* ---- One node ---- */

static void more_dims(const struct mapping *m, const struct node *n, dim dims[]) {
  dims[0] = m->rows;
  if (n->rank) memcpy(dims + 1, n->dims, n->rank * sizeof *dims);
}

static bool apply_element(struct mapping *m, int i) {
  struct node *n = m->of.g.node[i], *in[8];
  dim dims[WEFT_RANK_MAX];
  int n_in = subgraph_arity(&m->of.g, i);
  if (n_in > 8) return failed(m, fail(WEFT_ERR_INTERNAL, n->origin, "weft_map: %s has %d operands", n->op->name, n_in));
  more_dims(m, n, dims);
  bool ok = true;
  for (int k = 0; k < n_in; k++) {
    int j = images_operand(&m->of, i, k);
    in[k] = m->of.image[j] ? node_retain(m->of.image[j]) : node_broadcast(node_retain(m->of.g.node[j]), n->rank + 1, dims);
    ok &= in[k] != NULL;
  }
  m->of.image[i] = ok ? node_make(n->op, (weft_dtype)n->dtype, n->rank + 1, dims, n_in, in, n->attr, n->attr_bytes) : NULL;
  nodes_release(n_in, in);
  return m->of.image[i] ? true : failed(m, no_memory());
}

static bool has_expected_shape(struct mapping *m, const struct node *n, const struct node *now) {
  dim dims[WEFT_RANK_MAX];
  struct shape_text a, b;
  more_dims(m, n, dims);
  if (dims_equal(now->rank, now->dims, n->rank + 1, dims)) return true;
  return failed(m, fail(WEFT_ERR_INTERNAL, n->origin, "weft_map: %s gave %s, not %s", n->op->name, shape_show(now, &a),
                        dims_show(n->rank + 1, dims, &b)));
}

static bool apply_one(struct mapping *m, int i, struct applied *a, const bool is_mapped[]) {
  struct node *n = m->of.g.node[i];
  struct failure *why = NULL;
  if (!n->op->batch) return failed(m, fail(WEFT_ERR_UNSUPPORTED, n->origin, "weft_map: no rule for weft_%s", n->op->name));
  a->rule.out = handle_of(n);
  m->of.image[i] = result_of(n->op->batch(&a->rule, is_mapped), &why);
  return m->of.image[i] ? has_expected_shape(m, n, m->of.image[i]) : failed(m, why);
}

/* A bad result is kept too: it matters only if somebody uses it. */
static void keep_results(struct mapping *m, int i, int n_out, weft_array *const ys[], const bool is_mapped_out[]) {
  for (int k = 0; k < n_out; k++)
    if (ys[k] && is_mapped_out[k]) m->of.results[i][k] = array_node(ys[k]);
}

static bool apply_many(struct mapping *m, int i, struct applied *a, const bool is_mapped[]) {
  const struct many *many = m->of.g.node[i]->op->many;
  int n_out = many->count(m->of.g.node[i]);
  weft_array **ys = mem_alloc((size_t)(n_out + 1) * sizeof *ys);
  bool *is_mapped_out = mem_alloc((size_t)n_out + 1);
  m->of.results[i] = node_list_new(n_out);
  bool ok = ys && is_mapped_out && m->of.results[i] ? true : failed(m, no_memory());
  if (ok) {
    many->batch(&a->rule, is_mapped, ys, is_mapped_out);
    keep_results(m, i, n_out, ys, is_mapped_out);
  }
  mem_free(ys);
  mem_free(is_mapped_out);
  return ok;
}

static bool apply_rule(struct mapping *m, int i) {
  struct applied a;
  int n_in = subgraph_arity(&m->of.g, i);
  struct node **in = node_list_new(n_in);
  bool *is_mapped = mem_alloc((size_t)n_in + 1), ok = in && is_mapped;
  for (int k = 0; ok && k < n_in; k++) {
    int j = images_operand(&m->of, i, k);
    is_mapped[k] = m->of.image[j];
    in[k] = m->of.image[j] ? m->of.image[j] : m->of.g.node[j];
  }
  ok = ok && rule_open(&a, m->of.g.node[i], n_in, in);
  mem_free(in);
  if (!ok) failed(m, no_memory());
  else {
    a.rule.active = m->active ? handle_of(m->active) : NULL;
    ok = m->of.g.node[i]->op->many ? apply_many(m, i, &a, is_mapped) : apply_one(m, i, &a, is_mapped);
    rule_close(&a);
  }
  mem_free(is_mapped);
  return ok;
}

static bool take_item(struct mapping *m, int i) {
  struct node *y = images_item(&m->of, i);
  if (y && y->op == &op_bad) return failed(m, failure_retain(y->failure));
  m->of.image[i] = y ? node_retain(y) : NULL;
  return true;
}

/* A size is the same in every row. */
static bool visit(struct mapping *m, int i, uint64_t oldest) {
  const struct node *n = m->of.g.node[i];
  if (m->of.is_given[i]) return true;
  if (n->serial > oldest && subgraph_is_dropped(&m->of.g, i)) return failed(m, no_history("weft_map", n));
  if (n->op->kind == OP_SIZE || !images_move(&m->of, i)) return true;
  if (n->op == &op_item) return take_item(m, i);
  if (n->rank == WEFT_RANK_MAX)
    return failed(m, fail(WEFT_ERR_SHAPE, n->origin, "weft_map: %s has rank %d already", n->op->name, n->rank));
  return n->op->kind == OP_ELEMENT ? apply_element(m, i) : apply_rule(m, i);
}

/* xs: what have so many rows, though nobody reads them, or NULL. */
static weft_array *in_every_row(struct node *y, dim rows, int n, struct node *const xs[]) {
  dim dims[WEFT_RANK_MAX];
  if (y->rank == WEFT_RANK_MAX) return array_bad(WEFT_ERR_SHAPE, "weft_map: y has rank %d already", y->rank);
  dims[0] = rows;
  if (y->rank) memcpy(dims + 1, y->dims, y->rank * sizeof *dims);
  weft_array *ys = array_of(node_broadcast(node_retain(y), y->rank + 1, dims));
  for (int j = 0; j < n; j++) if (xs[j]) ys = array_sized_by(ys, handle_of(xs[j]));
  return ys;
}

/* ---- Names that are left ----
 * A result that does not depend on x, of a node that does (a carry beside those of a loop over x), is an expression of x all
 * the same, and so may be what the rows use: the steps that such a loop has made. Where x is a name, nobody will give it a
 * value: the result is that for zeros. Rules map parts of what they are given by themselves, on operands that are no names but
 * made of them, so that whoever has the names looks at all of it. */

struct mapped_names { int n; struct node **from, **to, **target, **now; };

/* Mapped names become zeros; what they were mapped to stays, though it may be an expression of them. */
static bool list_names(struct mapping *m, struct mapped_names *l, int n, struct node *const x[], struct node *const xs[]) {
  for (int j = 0; j < n; j++) {
    if (!xs[j]) continue;
    l->from[l->n] = node_retain(xs[j]), l->to[l->n++] = node_retain(xs[j]);
    if (!is_name(x[j])) continue;
    l->from[l->n] = node_retain(x[j]), l->to[l->n] = result_of(zeros_of(x[j]), &m->of.failure);
    if (!l->to[l->n++]) return false;
  }
  return true;
}

static bool take_now(struct mapping *m, const struct mapped_names *l, int k, int n, struct node *const xs[], struct node **ys) {
  struct node *now = l->now[k];
  if (now == l->target[k]) return true;
  if (!*ys) return (*ys = result_of(in_every_row(now, m->rows, n, xs), &m->of.failure)) != NULL;
  node_release(*ys);
  *ys = node_retain(now);
  return true;
}

static bool has_names(int n, struct node *const x[], struct node *const xs[]) {
  for (int j = 0; j < n; j++) if (xs[j] && is_name(x[j])) return true;
  return false;
}

static bool settle_names(struct mapping *m, int n, struct node *const x[], struct node *const xs[], int n_y,
                         struct node *const y[], struct node *ys[]) {
  struct mapped_names l = { 0, node_list_new(2 * n), node_list_new(2 * n), node_list_new(n_y), node_list_new(n_y) };
  bool ok = l.from && l.to && l.target && l.now ? list_names(m, &l, n, x, xs) : failed(m, no_memory());
  for (int k = 0; ok && k < n_y; k++) l.target[k] = node_retain(ys[k] ? ys[k] : y[k]);
  ok = ok && graph_substitute(l.n, l.from, l.to, n_y, l.target, l.now, &m->of.failure);
  for (int k = 0; ok && k < n_y; k++) ok = take_now(m, &l, k, n, xs, &ys[k]);
  node_list_drop(2 * n, l.from);
  node_list_drop(2 * n, l.to);
  node_list_drop(n_y, l.target);
  node_list_drop(n_y, l.now);
  return ok;
}

/* One axis more for every node. */
static bool spread_nodes(dim rows, struct node *active, int n, struct node *const x[], struct node *const xs[], int n_y,
                         struct node *const y[], struct node *ys[], struct failure **failure) {
  for (int j = 0; j < n_y; j++) ys[j] = NULL;
  if (!n || !n_y) return true;
  struct mapping m = { .rows = rows, .active = active };
  bool ok = images_begin(&m.of, n, x, xs, n_y, y);
  uint64_t oldest = oldest_with_value(n, x, xs);
  for (int i = 0; ok && i < m.of.g.n; i++) ok = visit(&m, i, oldest);
  for (int j = 0; ok && j < n_y; j++) {
    struct node *now = m.of.image[m.of.g.target[j]];
    ys[j] = now ? node_retain(now) : NULL;
  }
  images_end(&m.of);
  if (ok && has_names(n, x, xs)) ok = settle_names(&m, n, x, xs, n_y, y, ys);
  for (int j = 0; !ok && j < n_y; j++) {
    node_release(ys[j]);
    ys[j] = NULL;
  }
  *failure = m.of.failure;
  return ok;
}

/* ---- A row at a time ----
 * Where rows are of different lengths on the way, as are the steps that a loop keeps which ends in each row where it likes,
 * no node can have one axis more: a loop over the rows computes them one after the other. */

static bool draft_rows(struct loop_draft *d, int n, struct node *const x[], struct node *const xs[], struct nodes *from) {
  bool ok = true;
  for (int j = 0; ok && j < n; j++) {
    if (!xs[j]) continue;
    ok = nodes_add(&d->seq, node_retain(xs[j])) && nodes_add(&d->seq_var, var_like(x[j])) && nodes_add(from, node_retain(x[j]));
  }
  return ok;
}

/* Whether a loop in the bodies of l had run when they were written. Out of memory: false, as whoever goes on will notice. */
static bool had_run_inside(const struct loop *l) {
  struct subgraph g;
  bool found = false;
  for (int part = 0; !found && part < 1 + (l->until != NULL); part++) {
    if (!subgraph_take(&g, part ? 1 : l->n_carry + l->n_all, part ? &l->until : l->next, 0, NULL, 0)) return false;
    for (int i = 0; !found && i < g.n; i++) {
      const struct loop *inner = g.node[i]->op == &op_loop ? loop_of(g.node[i]) : NULL;
      found = inner && (loop_has_told(inner) || had_run_inside(inner));
    }
    subgraph_free(&g);
  }
  return found;
}

/* Whether n is a loop whose number of steps is that of a run, or in which one is. says_steps: what says the number depends on x. */
static bool has_run(const struct node *n, bool says_steps) {
  const struct loop *l = n->op == &op_loop ? loop_of(n) : NULL;
  if (l && had_run_inside(l)) return true;
  return l && (loop_has_told(l) || (l->has_steps && says_steps && !l->is_branch && dim_is_known(dim_resolve(l->steps))));
}

/* What has been made of a loop that has run has its number of steps for good: no copy of it could make another in every row. The
 * first such loop that depends on x is an error. NULL: there is none, or no memory, which whoever goes on will notice. */
static struct failure *why_not_again(int n, struct node *const x[], int n_y, struct node *const y[]) {
  struct subgraph g;
  struct failure *why = NULL;
  bool ok = subgraph_take(&g, n_y, y, n, x, oldest_of(n, x)), *depends = ok ? mem_alloc((size_t)g.n + 1) : NULL;
  for (int j = 0; depends && j < n; j++) if (g.wall[j] >= 0) depends[g.wall[j]] = true;
  for (int i = 0; depends && !why && i < g.n; i++) {
    bool says_steps = subgraph_arity(&g, i) && depends[g.operand[g.first[i]]];
    for (int at = g.first[i]; at < g.first[i + 1] && g.node[i]->op->kind != OP_SIZE; at++) depends[i] |= depends[g.operand[at]];
    if (depends[i] && has_run(g.node[i], says_steps)) why = loop_has_run(g.node[i]);
  }
  mem_free(depends);
  subgraph_free(&g);
  return why;
}

static bool spread_by_loop(dim rows, int n, struct node *const x[], struct node *const xs[], int n_y, struct node *const y[],
                           struct node *ys[], struct failure **failure) {
  struct loop_draft d = { .parts.n_steps = rows };
  struct nodes from = { 0 };
  if ((*failure = why_not_again(n, x, n_y, y))) return false;
  struct node **now = node_list_new(n_y), *loop = NULL;
  bool ok = now && draft_rows(&d, n, x, xs, &from);
  ok = ok && graph_substitute(from.n, from.node, d.seq_var.node, n_y, y, now, failure);
  for (int j = 0; ok && j < n_y; j++)
    if (now[j] != y[j]) ok = nodes_add(&d.all, node_retain(now[j]));
  ok = ok && (loop = draft_make(&d, failure));
  for (int j = 0, at = 0; ok && j < n_y; j++)
    if (now[j] != y[j]) ok = (ys[j] = item_make(loop, at++));
  for (int j = 0; !ok && j < n_y; j++) node_release(ys[j]), ys[j] = NULL;
  if (!ok && !*failure) *failure = no_memory();
  node_release(loop);
  node_list_drop(n_y, now);
  nodes_free(&from);
  draft_free(&d);
  return ok;
}

/* Where only some rows are active, whoever maps all of them goes through them one by one. */
bool spread(dim rows, struct node *active, int n, struct node *const x[], struct node *const xs[], int n_y, struct node *const y[],
            struct node *ys[], struct failure **failure) {
  if (spread_nodes(rows, active, n, x, xs, n_y, y, ys, failure)) return true;
  if (active || failure_status(*failure) != WEFT_ERR_UNSUPPORTED) return false;
  failure_release(*failure);
  *failure = NULL;
  return spread_by_loop(rows, n, x, xs, n_y, y, ys, failure);
}

/* ---- The public call ---- */

static struct failure *not_rows(const struct node *x, const struct node *xs, dim rows, int j) {
  struct shape_text a, b;
  if (x->weak)
    return fail(WEFT_ERR_ARG, scope_origin(),
                "weft_map: x %d is a number, which no expression remembers; use weft_cast or weft_full", j + 1);
  if (x->dtype != xs->dtype)
    return fail(WEFT_ERR_DTYPE, scope_origin(), "weft_map: x %d is %s, xs %s",
                j + 1, weft_dtype_name(x->dtype), weft_dtype_name(xs->dtype));
  bool is_row = xs->rank == x->rank + 1;
  for (int k = 0; is_row && k < x->rank; k++)
    is_row = sizes_meet("weft_map", dim_resolve(x->dims[k]), dim_resolve(xs->dims[k + 1]));
  if (!is_row)
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_map: x %d is %s, so xs must be that with one axis in front, not %s", j + 1,
                shape_show(x, &a), shape_show(xs, &b));
  if (!dim_same(xs->dims[0], rows) && !sizes_meet("weft_map", dim_resolve(xs->dims[0]), dim_resolve(rows)))
    return fail(WEFT_ERR_SHAPE, scope_origin(), "weft_map: xs %d is %s, but the first has other rows", j + 1, shape_show(xs, &b));
  return NULL;
}

/* Sizes that are not known yet are taken to be equal: xs with the length of the first, which it waits for, and rows like x. NULL:
 * out of memory. */
static struct node *with_rows(struct node *xs, dim rows, const struct node *x, struct node *first) {
  dim dims[WEFT_RANK_MAX];
  if (x->rank) memcpy(dims + 1, x->dims, x->rank * sizeof *dims);
  dims[0] = rows;
  struct node *same = node_reshape(node_retain(xs), xs->rank, dims);
  if (!same || dim_is_known(rows) || dim_resolve(xs->dims[0]) == rows) return same;
  weft_array *size = weft_size(handle_of(first), 0);
  return array_good_node(weft_depends(array_of(same), 1, &size));
}

/* The length that all have: a number, if one of them is one. */
static dim rows_of(int n, struct node *const xs[]) {
  dim rows = dim_resolve(xs[0]->dims[0]);
  for (int j = 1; j < n && !dim_is_known(rows); j++)
    if (xs[j]->rank && dim_is_known(dim_resolve(xs[j]->dims[0]))) rows = dim_resolve(xs[j]->dims[0]);
  return rows;
}

/* A name of open sizes has those of the rows that it is mapped to: nothing else will tell them. The name as it is then, or x. */
static struct node *name_with_sizes(struct node *x, const struct node *xs) {
  dim dims[WEFT_RANK_MAX];
  bool is_open = x->op == &op_input && !node_is_known(x) && xs->rank == x->rank + 1;
  if (!is_open) return node_retain(x);
  for (int k = 0; k < x->rank; k++) {
    dim known = dim_resolve(x->dims[k]);
    dims[k] = dim_is_known(known) ? known : dim_resolve(xs->dims[k + 1]);
  }
  if (dims_equal(x->rank, x->dims, x->rank, dims)) return node_retain(x);
  return node_make(&op_input, (weft_dtype)x->dtype, x->rank, dims, 0, NULL, NULL, 0);
}

/* Symbols of the names, and what they are in the rows. */
struct name_sizes { int n; dim *symbol, *value; };

static void tell(struct name_sizes *t, const struct node *x, const struct node *now) {
  for (int k = 0; k < x->rank; k++)
    if (x->dims[k] != now->dims[k]) t->symbol[t->n] = x->dims[k], t->value[t->n++] = now->dims[k];
}

static struct failure *size_names(int n, struct node *x[], struct node *const xs[], int m, struct node *y[]) {
  struct node **now = node_list_new(n), **ys = node_list_new(m);
  size_t most = 0;
  for (int j = 0; j < n; j++) most += x[j]->rank;
  struct name_sizes t = { .symbol = mem_alloc((2 * most + 1) * sizeof *t.symbol) };
  struct failure *why = NULL;
  bool ok = now && ys && t.symbol;
  if (ok) t.value = t.symbol + most;
  for (int j = 0; ok && j < n; j++) if ((ok = (now[j] = name_with_sizes(x[j], xs[j])))) tell(&t, x[j], now[j]);
  if (ok && t.n) ok = graph_specialise(true, n, x, now, t.n, t.symbol, t.value, m, y, ys, &why);
  if (!ok && !why) why = no_memory();
  for (int j = 0; ok && t.n && j < n; j++) node_release(x[j]), x[j] = node_retain(now[j]);
  for (int k = 0; ok && t.n && k < m; k++) node_release(y[k]), y[k] = ys[k], ys[k] = NULL;
  node_list_drop(n, now);
  node_list_drop(m, ys);
  mem_free(t.symbol);
  return why;
}

/* A result of a call that no row changes is what the body says of it, not the call on an x that the rows replace. */
static void map_all(int n, struct node *x[], struct node *xs[], int m, struct node *y[], weft_array *out[]) {
  struct failure *why = NULL;
  if (n && !xs[0]->rank) why = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_map: xs 1 is 0-d and has no rows");
  if (!n && m) why = fail(WEFT_ERR_ARG, scope_origin(), "weft_map: nothing to map over");
  dim rows = n && !why ? rows_of(n, xs) : 0;
  for (int j = 0; !why && j < n; j++) why = not_rows(x[j], xs[j], rows, j);
  if (!why) why = size_names(n, x, xs, m, y);
  for (int j = 0; !why && j < n; j++) {
    struct node *same = with_rows(xs[j], rows, x[j], xs[0]);
    if (!same) why = no_memory();
    else node_release(xs[j]), xs[j] = same;
  }
  struct node **ys = node_list_new(m);
  if (!why && !ys) why = no_memory();
  if (!why) why = expand_calls_of(n, x, m, y);
  if (!why && spread(rows, NULL, n, x, xs, m, y, ys, &why))
    for (int j = 0; j < m; j++) out[j] = ys[j] ? handle_of(ys[j]) : in_every_row(y[j], rows, n, xs);
  if (why) all_bad(m, out, why);
  node_list_drop(m, ys);
}

static struct failure *not_remembered(int n, struct node *const x[], int m, struct node *const y[]) {
  int lost = recall_lost(n, x, NULL, m, y, 0, NULL);
  return lost >= 0 ? copied_inside("weft_map", "x", lost) : lost == -1 ? NULL : no_memory();
}

void weft_map(int n, weft_array *const x[], weft_array *const xs[], int m, weft_array *const y[], weft_array *ys[]) {
  struct given g;
  if (!has_place("weft_map", n, m, ys)) return;
  if (given_take(&g, "weft_map", 3, (int[]){ n, n, m }, (weft_array *const *const[]){ x, xs, y }, m, ys)) {
    struct failure *why = transform_ready(n, g.of[0], m, g.of[2]);
    if (!why) why = not_remembered(n, g.of[0], m, g.of[2]);
    if (why) all_bad(m, ys, why);
    else map_all(n, g.of[0], g.of[1], m, g.of[2], ys);
  }
  given_drop(&g);
}
