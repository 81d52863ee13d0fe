/* loop.c -- the loop as a node: its memory, its bodies, its sizes. */
#include "op/loop.h"
#include <string.h>
#include "base/mem.h"
#include "graph/caller.h"
#include "graph/copy.h"
#include "graph/dtype.h"
#include "graph/function.h"
#include "graph/shape.h"

const struct op op_loop_var = { .name = "loop_var", .kind = OP_LEAF };

struct node *loop_var(weft_dtype dtype, int rank, const dim dims[]) {
  return node_make(&op_loop_var, dtype, rank, dims, 0, NULL, NULL, 0);
}

struct node *loop_cut(struct node *xs, dim n) {
  n = dim_resolve(n);
  if (dim_resolve(xs->dims[0]) == n) return node_retain(xs);
  dim dims[WEFT_RANK_MAX];
  for (int k = 0; k < xs->rank; k++) dims[k] = k ? xs->dims[k] : n;
  struct slice_attr attr;
  memset(&attr, 0, sizeof attr); /* attrs are compared as bytes */
  attr.step = 1;
  return node_make(&op_slice, (weft_dtype)xs->dtype, xs->rank, dims, 1, &xs, &attr, sizeof attr);
}

static struct failure *no_memory(void) { return fail(WEFT_ERR_MEMORY, scope_origin(), "weft: out of memory"); }

/* ---- Memory ----
 * All lists of a loop are one block: variables first, then bodies (until, which counts as one, stands beside). */

static int n_vars(const struct loop *l) { return l->n_seq + l->n_carry + l->n_const; }
static int n_bodies(const struct loop *l) { return l->n_carry + l->n_all + 1; }

static struct loop *loop_new(int n_seq, int n_carry, int n_const, int n_all) {
  struct loop *l = mem_alloc(sizeof *l);
  if (!l) return NULL;
  *l = (struct loop){ .refs = 1, .n_seq = n_seq, .n_carry = n_carry, .n_const = n_const, .n_all = n_all };
  l->seq_var = mem_alloc((size_t)(n_vars(l) + n_bodies(l)) * sizeof *l->seq_var);
  if (!l->seq_var) return mem_free(l), NULL;
  l->carry_var = l->seq_var + n_seq;
  l->const_var = l->carry_var + n_carry;
  l->next = l->const_var + n_const;
  l->all = l->next + n_carry;
  return l;
}

static struct loop *with_sizes(struct loop *l, dim steps, bool owns_steps, dim length) {
  l->steps = steps;
  l->owns_steps = owns_steps;
  l->length = length;
  dim_retain(steps);
  dim_retain(length);
  return l;
}

void loop_retain(struct loop *l) { atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed); }

void loop_release(struct loop *l) {
  if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  nodes_release(n_vars(l) + n_bodies(l) - 1, l->seq_var);
  node_release(l->until);
  dim_release(l->steps);
  dim_release(l->length);
  mem_free(l->seq_var);
  mem_free(l);
}

static void hold(const void *attr) { loop_retain(((const struct loop_attr *)attr)->loop); }
static void drop(const void *attr) { loop_release(((const struct loop_attr *)attr)->loop); }

static struct node *node_of(struct loop *l, int n_in, struct node *const in[]) {
  return node_make(&op_loop, WEFT_I64, 0, NULL, n_in, in, &(struct loop_attr){ l }, sizeof(struct loop_attr));
}

static bool is_later(const struct node *n) { return n->op->kind == OP_LATER || (n->op == &op_loop && loop_of(n)->is_late); }

/* Whether a body has something that is not written yet. Out of memory: true. */
static bool has_later(int n, struct node *const body[]) {
  struct subgraph g;
  bool found = false;
  if (!subgraph_take(&g, n, body, 0, NULL, 0)) return true;
  for (int i = 0; i < g.n && !found; i++) found = is_later(g.node[i]);
  return subgraph_free(&g), found;
}

/* Bodies of l on the variables of `to`, which has as many of everything. */
static bool fill_bodies(struct loop *to, const struct loop *l, const struct dim_table *t, struct failure **failure) {
  int n = n_bodies(l) - !l->until;
  struct node **from = mem_alloc((size_t)n * 2 * sizeof *from), **out = from ? from + n : NULL;
  if (!from) return *failure = no_memory(), false;
  memcpy(from, l->next, (size_t)(n_bodies(l) - 1) * sizeof *from);
  if (l->until) from[n - 1] = l->until;
  caller()->n_bodies++;
  bool ok = graph_specialise(false, n_vars(l), l->seq_var, to->seq_var, t->n, t->symbol, t->value, n, from, out, failure);
  caller()->n_bodies--;
  if (ok) {
    memcpy(to->next, out, (size_t)(n_bodies(l) - 1) * sizeof *out);
    if (l->until) to->until = out[n - 1];
    to->is_late = l->is_late && has_later(n, out);
  }
  mem_free(from);
  return ok;
}

/* Those of a branch are the size of nothing. */
bool loop_has_told(const struct loop *l) {
  return !l->is_branch && ((l->until && dim_is_known(dim_resolve(l->length))) ||
                           (l->owns_steps && dim_is_known(dim_resolve(l->steps))));
}

/* ---- Results ---- */

bool loop_items(struct node *loop, int n_all, int n_carry, struct node *out[]) {
  bool ok = true;
  for (int i = 0; ok && i < n_all; i++) ok = (out[i] = item_make(loop, i));
  for (int i = 0; ok && i < n_carry; i++) ok = (out[n_all + i] = item_make(loop, loop_out_last(loop_of(loop), i)));
  return ok;
}

int loop_count(const struct node *n) { return loop_out_length(loop_of(n)) + 1; }

weft_dtype loop_type(const struct node *n, int k, int *rank, dim dims[]) {
  const struct loop *l = loop_of(n);
  *rank = 0;
  if (k == loop_out_length(l)) return WEFT_I64;
  bool is_stacked = k < l->n_all;
  const struct node *body = is_stacked ? l->all[k] : l->carry_var[k - l->n_all];
  *rank = body->rank + is_stacked;
  if (is_stacked) dims[0] = dim_resolve(l->length);
  if (body->rank) memcpy(dims + is_stacked, body->dims, body->rank * sizeof *dims);
  return body->dtype;
}

/* ---- Other sizes ---- */

static bool mentions(const struct dim_table *t, const struct node *n) {
  for (int k = 0; k < n->rank; k++)
    if (dim_in(t, n->dims[k]) != n->dims[k]) return true;
  return false;
}

/* The operands of node i of a snapshot, as far as there is room. Returns how many there are. */
static int operands_in(const struct subgraph *g, int i, int most, struct node *in[]) {
  int n = subgraph_arity(g, i);
  for (int k = 0; k < n && k < most; k++) in[k] = g->node[g->operand[g->first[i] + k]];
  return n;
}

/* Sizes of a body come from its variables, its scalars' broadcasts and iotas, so all of it is looked at. Out of memory: true. */
bool loop_mentions(const struct loop *l, struct dim_table *t) {
  enum { MOST_IN = 8 };
  struct node *in[MOST_IN];
  struct subgraph g;
  bool found = dim_in(t, l->steps) != l->steps || dim_in(t, l->length) != l->length;
  for (int i = 0; !found && i < n_vars(l); i++) found = mentions(t, l->seq_var[i]);
  for (int part = 0; !found && part < 2; part++) {
    if (part && !l->until) break;
    if (!subgraph_take(&g, part ? 1 : n_bodies(l) - 1, part ? &l->until : l->next, 0, NULL, 0)) return true;
    for (int i = 0; !found && i < g.n; i++) {
      int n_in = operands_in(&g, i, MOST_IN, in);
      bool is_large = n_in > MOST_IN && g.node[i]->op->resize && g.node[i]->op != &op_loop;
      found = mentions(t, g.node[i]) || is_large || attr_mentions(g.node[i], n_in, in, t);
    }
    subgraph_free(&g);
  }
  return found;
}

static bool fresh(struct dim_table *t, dim old, dim *now) {
  if (dim_in(t, old) != old) return *now = dim_in(t, old), true;
  *now = dim_symbol();
  return dim_table_add(t, old, *now);
}

static bool resized_vars(struct loop *to, const struct loop *l, const struct dim_table *t) {
  for (int i = 0; i < n_vars(l); i++) {
    const struct node *v = l->seq_var[i];
    dim dims[WEFT_RANK_MAX];
    for (int k = 0; k < v->rank; k++) dims[k] = dim_in(t, v->dims[k]);
    if (!(to->seq_var[i] = loop_var(v->dtype, v->rank, dims))) return false;
  }
  return true;
}

static void share_bodies(struct loop *to, const struct loop *l) {
  for (int i = 0; i < n_vars(l) + n_bodies(l) - 1; i++) to->seq_var[i] = node_retain(l->seq_var[i]);
  to->until = l->until ? node_retain(l->until) : NULL;
}

static struct loop *same_shape(const struct loop *l) {
  struct loop *to = loop_new(l->n_seq, l->n_carry, l->n_const, l->n_all);
  if (!to) return NULL;
  to->has_steps = l->has_steps, to->is_branch = l->is_branch, to->is_backward = l->is_backward;
  to->is_uneven = l->is_uneven, to->is_late = l->is_late, to->needs_length = l->needs_length, to->truncate = l->truncate;
  return to;
}

/* The loop with symbols replaced. The executed length of a copy is another one, and so is the number of steps if what
 * says it has become another node; a number, which was told before the loop became part of a body, stays. */
static struct loop *resized(const struct loop *l, bool is_new_steps, bool is_deep, struct dim_table *t, struct failure **failure) {
  struct loop *to = same_shape(l);
  if (!to) return NULL;
  dim steps = dim_in(t, l->steps), length = dim_in(t, l->length);
  bool ok = true;
  if (l->owns_steps && is_new_steps && (l->is_branch || !dim_is_known(steps))) ok = fresh(t, l->steps, &steps);
  if (ok && l->until && !dim_is_known(length)) ok = fresh(t, l->length, &length);
  with_sizes(to, steps, l->owns_steps, l->until ? length : steps);
  if (ok && !is_deep) share_bodies(to, l);
  if (ok && is_deep) ok = resized_vars(to, l, t) && fill_bodies(to, l, t, failure);
  if (ok) return to;
  loop_release(to);
  return NULL;
}

static bool resize(const struct node *n, struct node *const in[], void *attr, struct dim_table *t, bool is_copied,
                   struct failure **failure) {
  struct loop_attr *a = attr;
  struct loop *l = a->loop;
  bool is_deep = t->n && loop_mentions(l, t);
  bool is_new_steps = l->has_steps && in[0] != n->in[0];
  if (is_deep || (is_copied && (l->until || is_new_steps))) return (a->loop = resized(l, is_new_steps, is_deep, t, failure));
  loop_retain(l);
  return true;
}

static void rename(dim *at, dim now) {
  if (*at == now) return;
  dim_retain(now);
  dim_release(*at);
  *at = now;
}

void loop_rename(struct node *n, const struct loop *was, const struct dim_table *t) {
  struct loop *l = loop_of(n);
  if (!l->n_seq) rename(&l->steps, dim_in(t, was->steps));
  if (!l->until) rename(&l->length, l->steps);
  else if (dim_is_symbol(dim_in(t, was->length))) rename(&l->length, dim_in(t, was->length));
}

/* ---- The node again on inputs of other sizes ---- */

static bool vars_for(struct loop *to, const struct loop *l, struct node *const in[]) {
  for (int i = 0; i < n_vars(l); i++) {
    const struct node *x = in[l->has_steps + i];
    int cut = i < l->n_seq;
    if (!(to->seq_var[i] = loop_var(x->dtype, x->rank - cut, x->dims + cut))) return false;
  }
  return true;
}

static bool carries_fit(const struct loop *l, struct failure **failure) {
  for (int i = 0; i < l->n_carry; i++) {
    struct shape_text a, b;
    if (shape_equal(l->carry_var[i], l->next[i]) && l->carry_var[i]->dtype == l->next[i]->dtype) continue;
    *failure = fail(WEFT_ERR_SHAPE, l->next[i]->origin, "weft_loop_next: the carry is %s %s, the value %s %s",
                    weft_dtype_name(l->carry_var[i]->dtype), shape_show(l->carry_var[i], &a),
                    weft_dtype_name(l->next[i]->dtype), shape_show(l->next[i], &b));
    return false;
  }
  return true;
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **failure) {
  const struct loop *l = loop_of(n);
  struct loop *to = same_shape(l);
  struct node *now = NULL;
  if (to) {
    dim steps = l->n_seq ? in[l->has_steps]->dims[0] : l->steps; /* whoever copies gives it the name it has there */
    with_sizes(to, steps, l->owns_steps, !l->until ? steps : dim_is_known(l->length) ? l->length : dim_symbol());
    if (vars_for(to, l, in) && fill_bodies(to, l, &(struct dim_table){ 0 }, failure) && carries_fit(to, failure))
      now = node_of(to, n->n_in, in);
    loop_release(to);
  }
  return now;
}

static bool trusts(const struct node *n) {
  const struct loop *l = loop_of(n);
  bool is_trusting = l->until && node_is_trusting(l->until);
  for (int k = 0; k < l->n_carry && !is_trusting; k++) is_trusting = node_is_trusting(l->next[k]);
  for (int k = 0; k < l->n_all && !is_trusting; k++) is_trusting = node_is_trusting(l->all[k]);
  return is_trusting;
}

const struct op op_loop = { .name = "loop", .kind = OP_LOOP, .again = again, .hold = hold, .drop = drop, .resize = resize,
                            .trusts = trusts, .many = &loop_many };

/* ---- Making one from parts ----
 * A node of the bodies depends on a variable, or is invariant. Invariant nodes that dependent ones use are captured: the
 * node becomes a constant, a variable takes its place. Scalars, iotas and views of them are copied into the body, and so
 * are broadcasts, of which only the operand is captured. A body shares no node with the graph around it. */

struct making {
  const struct loop_parts *parts;
  int n_bodies, n_vars, n_captured, n_leaves;
  struct node **body;        /* next, all, carry variables to keep, until; references */
  struct node **var;         /* sequences, then carries; borrowed */
  struct subgraph g;
  bool *depends, *is_free, *is_fixed, *is_inside; /* fixed: made of scalars and iotas alone */
  struct node **captured, **const_var; /* captured: borrowed from g. Scalars and iotas, and copies of them, behind */
};

static int n_kept(const struct loop_parts *p) { return p->n_steps == INT64_MAX || p->since ? 0 : p->n_carry; }

/* Nothing older is part of the body. */
static uint64_t oldest_inside(const struct making *m) {
  uint64_t oldest = oldest_of(m->n_vars, m->var);
  return m->parts->since && m->parts->since < oldest ? m->parts->since : oldest;
}

static bool collect(struct making *m, struct failure **failure) {
  const struct loop_parts *p = m->parts;
  m->n_vars = p->n_seq + p->n_carry;
  m->n_bodies = p->n_carry + p->n_all + n_kept(p) + (p->until != NULL);
  m->var = mem_alloc((size_t)(m->n_vars + 1) * sizeof *m->var);
  m->body = mem_alloc((size_t)(m->n_bodies + 1) * sizeof *m->body);
  bool ok = m->var && m->body;
  if (ok) {
    for (int i = 0; i < p->n_seq; i++) m->var[i] = p->seq_var[i];
    for (int i = 0; i < p->n_carry; i++) m->var[p->n_seq + i] = p->carry_var[i];
    int at = 0;
    for (int i = 0; i < p->n_carry; i++) m->body[at++] = node_retain(p->next[i]);
    for (int i = 0; i < p->n_all; i++) m->body[at++] = node_retain(p->all[i]);
    for (int i = 0; i < n_kept(p); i++) m->body[at++] = node_retain(p->carry_var[i]);
    if (p->until) m->body[at++] = node_retain(p->until);
    if (!p->own) *failure = expand_calls_since(oldest_inside(m), m->n_bodies, m->body); /* weft_choose has done both */
    if (!*failure && !p->own) *failure = choose_sink(oldest_inside(m), m->n_vars, m->var, m->n_bodies, m->body);
  }
  return ok && !*failure;
}

static bool operands_all(const struct making *m, int i, const bool is[]) {
  for (int at = m->g.first[i]; at < m->g.first[i + 1]; at++)
    if (!is[m->g.operand[at]]) return false;
  return true;
}

static bool operands_any(const struct making *m, int i, const bool is[]) {
  for (int at = m->g.first[i]; at < m->g.first[i + 1]; at++)
    if (is[m->g.operand[at]]) return true;
  return false;
}

bool loop_is_leaf(const struct node *n) { return n->op == &op_scalar || (n->op->kind == OP_IOTA && !n->n_in); }

static bool is_free(const struct making *m, int i) {
  const struct node *n = m->g.node[i];
  int arity = subgraph_arity(&m->g, i);
  if (loop_is_leaf(n)) return true;
  return n->op->kind == OP_VIEW && arity && operands_all(m, i, m->is_free);
}

bool loop_is_bare(const struct subgraph *g, int i) {
  return facts_of(g->node[i])->is_several && !subgraph_arity(g, i) && !g->is_end[i];
}
static bool is_bare(const struct making *m, int i) { return loop_is_bare(&m->g, i); }

static void enter(struct making *m, int i) {
  for (int at = m->g.first[i]; at < m->g.first[i + 1]; at++) m->is_inside[m->g.operand[at]] = true;
}

/* Whether it is one of these, which are in order. */
static bool is_among(int n, const struct serials own[], uint64_t serial) {
  int lo = 0;
  while (lo < n) {
    int mid = lo + (n - lo) / 2;
    if (own[mid].to <= serial) lo = mid + 1;
    else n = mid;
  }
  return own[lo].from <= serial && serial < own[lo].to;
}

/* What was evaluated while the branch was written stays outside. */
static bool is_there(const struct making *m, int i) {
  return atomic_load_explicit(&m->g.node[i]->state, memory_order_acquire) == NODE_READY;
}

/* Computed in a branch although it depends on no variable. What is fixed is not, so that all nodes of a body depend on
 * something that can be replaced. */
static bool is_branch_own(const struct making *m, int i) {
  return m->parts->since && m->g.node[i]->serial >= m->parts->since && subgraph_arity(&m->g, i) && !m->is_fixed[i] &&
         !is_there(m, i) && (!m->parts->own || is_among(m->parts->n_own, m->parts->own, m->g.node[i]->serial));
}

/* A size that stays outside of a side of weft_choose: it is told there, though the array that has it is computed in the side. */
static bool is_size_outside(const struct making *m, int i) {
  const struct loop_parts *p = m->parts;
  return p->own && m->g.node[i]->op->kind == OP_SIZE && !is_among(p->n_own, p->own, m->g.node[i]->serial);
}

static bool is_made_of(dim d, dim symbol) { return !dim_is_known(d) && dim_substitute(d, 1, &symbol, &(dim){ 1 }) != d; }

static bool has_size(const struct node *n, dim symbol) {
  for (int k = 0; k < n->rank; k++)
    if (is_made_of(n->dims[k], symbol)) return true;
  return false;
}

/* The loop at i, if its length is one of its own. */
static const struct loop *own_length(const struct making *m, int i) {
  const struct loop *l = m->g.node[i]->op == &op_loop ? loop_of(m->g.node[i]) : NULL;
  return l && !l->is_branch && (l->until || l->owns_steps) ? l : NULL;
}

static bool has_size_of(const struct node *n, const struct loop *l) {
  return has_size(n, l->length) || (l->owns_steps && has_size(n, l->steps));
}

/* Whether n is a loop of as many steps as l, which none of its inputs need say. */
static bool runs_as_long(const struct node *n, const struct loop *l) {
  const struct loop *other = n->op == &op_loop ? loop_of(n) : NULL;
  return other && other != l && (is_made_of(other->steps, l->length) || (l->owns_steps && is_made_of(other->steps, l->steps)));
}

/* Whether node i begins or ends at a place that this symbol tells. */
static bool begins_at(const struct making *m, int i, dim symbol) {
  enum { MOST_IN = 2 };
  struct node *in[MOST_IN];
  dim room[2], more = dim_is_known(symbol) ? 0 : dim_add(symbol, 1);
  struct dim_table t = DIM_TABLE_IN(room);
  if (!m->g.node[i]->op->settle || dim_is_known(symbol)) return false;
  int n_in = operands_in(&m->g, i, MOST_IN, in);
  return n_in > MOST_IN || !dim_table_add(&t, symbol, more) || attr_mentions(m->g.node[i], n_in, in, &t);
}

/* Nodes that a loop inside tells the size, or where they begin: a constant cut to its steps. */
static bool find_sized(struct making *m) {
  bool is_new = false;
  for (int i = 0; i < m->g.n; i++) {
    const struct loop *l = m->depends[i] ? own_length(m, i) : NULL;
    for (int k = 0; l && k < m->g.n; k++) {
      const struct node *n = m->g.node[k];
      if (m->depends[k] || (!subgraph_arity(&m->g, k) && (m->g.is_end[k] || n->op != &op_loop))) continue;
      m->depends[k] = has_size_of(n, l) || runs_as_long(n, l) || begins_at(m, k, l->length) || begins_at(m, k, l->steps);
      is_new |= m->depends[k];
    }
  }
  return is_new;
}

static void find_captured(struct making *m) {
  for (int i = 0; i < m->n_vars; i++)
    if (m->g.wall[i] >= 0) m->depends[m->g.wall[i]] = true;
  do
    for (int i = 0; i < m->g.n; i++) {
      m->is_free[i] = is_free(m, i);
      m->is_fixed[i] = m->is_free[i] || (subgraph_arity(&m->g, i) && operands_all(m, i, m->is_fixed));
      m->depends[i] |= (operands_any(m, i, m->depends) && !is_size_outside(m, i)) || is_branch_own(m, i);
    }
  while (find_sized(m));
  for (int i = 0; i < m->n_bodies; i++) m->is_inside[m->g.target[i]] = true;
  for (int i = m->g.n - 1; i >= 0; i--) {
    if (!m->is_inside[i]) continue;
    bool has_operands = subgraph_arity(&m->g, i);
    bool stays = m->depends[i] || m->is_free[i] || is_bare(m, i) || (m->g.node[i]->op == &op_broadcast && has_operands);
    if (stays) enter(m, i);
    else m->captured[m->n_captured++] = m->g.node[i];
  }
  for (int i = 0; i < m->g.n; i++)
    if (m->is_inside[i] && !subgraph_arity(&m->g, i) && (m->is_free[i] || is_bare(m, i)))
      m->captured[m->n_captured + m->n_leaves++] = m->g.node[i];
}

struct node *loop_leaf_again(const struct node *n) {
  struct node *c = node_make(n->op, (weft_dtype)n->dtype, n->rank, n->dims, 0, NULL, n->attr, n->attr_bytes);
  if (!c) return NULL;
  c->weak = n->weak;
  c->copy_of = node_first(n);
  atomic_store(&c->state, n->op == &op_scalar ? NODE_READY : NODE_LAZY);
  return c;
}

/* Whether something is captured that has the size of a loop inside: older than the variables, as what a transform has left as it
 * was, it stood at an end of the snapshot. */
static bool captures_inner_size(const struct making *m) {
  for (int i = 0; i < m->g.n; i++) {
    const struct loop *l = m->is_inside[i] ? own_length(m, i) : NULL;
    for (int k = 0; l && k < m->n_captured; k++)
      if (has_size_of(m->captured[k], l)) return true;
  }
  return false;
}

static bool look(struct making *m, uint64_t oldest) {
  if (!subgraph_take(&m->g, m->n_bodies, m->body, m->n_vars, m->var, oldest)) return false;
  size_t n = (size_t)m->g.n + 1;
  m->depends = mem_alloc(4 * n);
  m->captured = mem_alloc(2 * n * sizeof *m->captured);
  if (!m->depends || !m->captured) return false;
  m->is_free = m->depends + n;
  m->is_fixed = m->is_free + n;
  m->is_inside = m->is_fixed + n;
  m->const_var = m->captured + n;
  find_captured(m);
  return true;
}

static bool look_deeper(struct making *m) {
  subgraph_free(&m->g);
  mem_free(m->depends);
  mem_free(m->captured);
  m->depends = NULL, m->captured = m->const_var = NULL;
  m->n_captured = m->n_leaves = 0;
  return look(m, 0);
}

static bool capture(struct making *m) {
  if (!look(m, oldest_inside(m)) || (captures_inner_size(m) && !look_deeper(m))) return false;
  for (int i = 0; i < m->n_captured; i++) {
    const struct node *c = m->captured[i];
    if (!(m->const_var[i] = loop_var(c->dtype, c->rank, c->dims))) return false;
  }
  for (int i = m->n_captured; i < m->n_captured + m->n_leaves; i++)
    if (!(m->const_var[i] = loop_leaf_again(m->captured[i]))) return false;
  return true;
}

/* Sequences that no body reads are left out, but for the first where nothing else tells how many steps there are. */
static bool is_read(const struct making *m, int i) { return m->g.wall[i] >= 0; }
static bool is_sequence(const struct making *m, int i) {
  const struct loop_parts *p = m->parts;
  if (is_read(m, i) || i || p->steps || dim_is_known(p->n_steps)) return is_read(m, i);
  for (int k = 0; k < p->n_seq; k++)
    if (is_read(m, k)) return false;
  return true;
}

static int n_seq_used(const struct making *m) {
  int n = 0;
  for (int i = 0; i < m->parts->n_seq; i++) n += is_sequence(m, i);
  return n;
}

static bool bodies_into(struct making *m, struct loop *l, struct failure **failure) {
  struct node **out = mem_alloc((size_t)(m->n_bodies + 1) * sizeof *out);
  if (!out) return false;
  bool ok = graph_repeat_body(m->n_vars, m->var, m->n_captured + m->n_leaves, m->captured, m->const_var, m->n_bodies, m->body, out,
                              failure);
  if (ok) {
    memcpy(l->next, out, (size_t)(l->n_carry + l->n_all) * sizeof *out);
    if (m->parts->until) l->until = out[m->n_bodies - 1];
  }
  mem_free(out);
  return ok;
}

/* n - min(n, k) */
static bool is_rest(const struct node *n) {
  const struct node *less = n->op == &op_sub && n->n_in == 2 ? n->in[1] : NULL;
  return less && less->op == &op_minimum && less->n_in == 2 && less->in[0] == n->in[0] && n->dtype == WEFT_I64;
}

/* 0-d integers that are not negative: numbers, bools, sizes, lengths, and what is chosen among these. */
static bool is_not_negative(const struct node *n, int depth) {
  bool widens = n->op == &op_cast && n->dtype == WEFT_I64 && n->n_in && n->in[0]->dtype != WEFT_U64;
  if (n->op->kind == OP_VIEW || widens) return n->n_in && depth && is_not_negative(n->in[0], depth - 1);
  if (n->op == &op_where && n->n_in == 3)
    return depth && is_not_negative(n->in[1], depth - 1) && is_not_negative(n->in[2], depth - 1);
  if (n->op == &op_scalar && !dtype_is_float((weft_dtype)n->dtype))
    return dtype_decode((weft_dtype)n->dtype, scalar_bits(n, (weft_dtype)n->dtype)) >= 0;
  if (n->op == &op_minimum && n->n_in == 2)
    return depth && is_not_negative(n->in[0], depth - 1) && is_not_negative(n->in[1], depth - 1);
  return n->dtype == WEFT_BOOL || n->op->kind == OP_SIZE || loop_is_length(n) || is_rest(n);
}

bool loop_runs_blind(const struct loop *l, const struct node *steps) {
  enum { DEEP = 8 };
  return !l->n_seq && l->owns_steps && steps && is_not_negative(steps, DEEP);
}

/* ---- Loops inside with a length of their own in each step ---- */

/* The steps that a loop has made. */
bool loop_is_length(const struct node *n) {
  const struct node *of = n->op == &op_item && n->n_in ? n->in[0] : NULL;
  return of && of->op == &op_loop && ((const struct item_attr *)n->attr)->k == loop_out_length(loop_of(of));
}

/* Whether sizes in the body are the steps that loop i inside makes, of which there are as many as another has made: in each
 * step one of the body (is_own), or one outside. */
static bool has_steps_of(const struct making *m, int i, bool is_own) {
  const struct loop *l = m->is_inside[i] && m->g.node[i]->op == &op_loop ? loop_of(m->g.node[i]) : NULL;
  bool has_sizes = l && l->needs_length, is_said = false;
  if (!l || (!l->needs_length && dim_is_known(dim_resolve(l->steps)))) return false;
  for (int k = 0; k < m->g.n && !has_sizes; k++) has_sizes = m->is_inside[k] && has_size(m->g.node[k], l->steps);
  for (int at = m->g.first[i]; at < m->g.first[i + 1]; at++) {
    int k = m->g.operand[at];
    is_said |= m->depends[k] == is_own && loop_is_length(m->g.node[k]);
  }
  return has_sizes && is_said;
}

/* Whether nodes inside are as large as a loop outside has made steps, or begin there, and captured is this number of steps. */
static bool is_sized_by(const struct making *m, const struct node *captured) {
  dim length = loop_is_length(captured) ? dim_resolve(loop_of(captured->in[0])->length) : 0;
  for (int i = 0; i < m->g.n && !dim_is_known(length); i++)
    if (m->is_inside[i] && (has_size(m->g.node[i], length) || begins_at(m, i, length))) return true;
  return false;
}

static bool needs_length(const struct making *m) {
  for (int i = 0; i < m->g.n; i++) if (has_steps_of(m, i, false)) return true;
  for (int i = 0; i < m->n_captured; i++) if (is_sized_by(m, m->captured[i])) return true;
  return false;
}

/* Whether a node inside has such a size. */
static bool is_uneven(const struct making *m) {
  for (int i = 0; i < m->g.n; i++) {
    if (m->is_inside[i] && m->g.node[i]->op == &op_loop && loop_of(m->g.node[i])->is_uneven) return true;
    if (has_steps_of(m, i, true)) return true;
    const struct loop *l = m->is_inside[i] ? own_length(m, i) : NULL;
    for (int k = 0; l && k < m->g.n; k++)
      if (m->is_inside[k] && has_size_of(m->g.node[k], l)) return true;
  }
  return false;
}

static bool is_late(const struct making *m) {
  for (int i = 0; i < m->g.n; i++) if (m->is_inside[i] && is_later(m->g.node[i])) return true;
  return false;
}

/* What comes out of every step must be as large in all of them. */
static bool sizes_stay(const struct making *m, struct failure **failure) {
  for (int i = 0; i < m->g.n; i++) {
    const struct loop *l = m->is_inside[i] ? own_length(m, i) : NULL;
    for (int k = 0; l && k < m->n_bodies; k++) {
      if (!has_size_of(m->body[k], l)) continue;
      struct shape_text t;
      const char *is_chosen = "weft_choose: %s has as many rows as a loop makes steps, which only that side tells: in a "
                              "function, choose what is computed from the rows";
      const char *is_looped = "weft_loop_close: %s has as many rows as a loop inside has steps, which may be others in the next "
                              "step: it cannot be carried or stacked";
      *failure = fail(WEFT_ERR_SHAPE, m->body[k]->origin, m->parts->own ? is_chosen : is_looped, shape_show(m->body[k], &t));
      return false;
    }
  }
  return true;
}

static struct loop *assemble(struct making *m, struct failure **failure) {
  const struct loop_parts *p = m->parts;
  struct loop *l = loop_new(n_seq_used(m), p->n_carry, m->n_captured, p->n_all + n_kept(p));
  if (!l) return NULL;
  l->has_steps = p->steps != NULL;
  l->is_branch = p->since != 0;
  l->is_backward = p->is_backward;
  l->is_uneven = is_uneven(m);
  l->is_late = is_late(m);
  l->needs_length = needs_length(m);
  l->truncate = p->truncate;
  with_sizes(l, p->n_steps, p->owns_steps, p->until ? dim_symbol() : p->n_steps);
  for (int i = 0, k = 0; i < p->n_seq; i++)
    if (is_sequence(m, i)) l->seq_var[k++] = node_retain(p->seq_var[i]);
  for (int i = 0; i < p->n_carry; i++) l->carry_var[i] = node_retain(p->carry_var[i]);
  for (int i = 0; i < m->n_captured; i++) l->const_var[i] = node_retain(m->const_var[i]);
  if (bodies_into(m, l, failure)) return l;
  loop_release(l);
  return NULL;
}

static struct node *connect(const struct making *m, struct loop *l) {
  const struct loop_parts *p = m->parts;
  struct node **in = mem_alloc((size_t)(1 + n_vars(l)) * sizeof *in);
  if (!in) return NULL;
  int at = 0;
  if (p->steps) in[at++] = p->steps;
  for (int i = 0; i < p->n_seq; i++)
    if (is_sequence(m, i)) in[at++] = p->seq[i];
  for (int i = 0; i < p->n_carry; i++) in[at++] = p->init[i];
  for (int i = 0; i < m->n_captured; i++) in[at++] = m->captured[i];
  struct node *n = node_of(l, at, in);
  mem_free(in);
  return n;
}

static bool ranks_fit(const struct making *m, struct failure **failure) {
  for (int i = 0; i < m->n_bodies; i++) {
    if (m->body[i]->rank < WEFT_RANK_MAX) continue;
    *failure = fail(WEFT_ERR_SHAPE, scope_origin(), "weft_loop_all: an array of rank %d cannot be stacked", m->body[i]->rank);
    return false;
  }
  return true;
}

struct node *loop_make(const struct loop_parts *p, struct failure **failure) {
  struct making m = { .parts = p };
  struct node *n = NULL;
  *failure = NULL;
  if (collect(&m, failure) && ranks_fit(&m, failure) && capture(&m) && sizes_stay(&m, failure)) {
    struct loop *l = assemble(&m, failure);
    n = l ? connect(&m, l) : NULL;
    loop_release(l);
  }
  if (!n && !*failure) *failure = no_memory();
  if (m.const_var) nodes_release(m.n_captured + m.n_leaves, m.const_var);
  subgraph_free(&m.g);
  if (m.body) nodes_release(m.n_bodies, m.body);
  mem_free(m.var);
  mem_free(m.body);
  mem_free(m.depends);
  mem_free(m.captured);
  return n;
}
