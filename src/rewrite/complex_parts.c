/* complex_parts.c -- complex nodes become pairs of real ones, before anything else is done to a graph.
 *
 * Afterwards the only complex nodes are leaves, views of leaves, and pairs that targets are stored in. What works on
 * elements without computing with them (views, takes, puts, concatenations ..) works on each part; so do sums, which are
 * linear. Elementwise rows have rules of their own (op/complex.c). Loops get two variables for each complex one, in a body
 * that is copied. Graphs without complex numbers are left as they are. */
#include <string.h>
#include "graph/dtype.h"
#include "graph/subgraph.h"
#include "op/parts.h"
#include "rewrite/rewriting.h"

/* A node as it is now. whole: the complex leaf, or view of one, that re and im are views of; NULL: none. */
struct split_node { struct parts part; struct node *whole; };

static bool is_complex(const struct node *n) { return dtype_is_complex((weft_dtype)n->dtype); }
static struct loop *loop_of(const struct node *n) { return ((const struct loop_attr *)n->attr)->loop; }

/* ---- Loops that compute with complex numbers ---- */

static int n_variables(const struct loop *l) { return l->n_seq + l->n_carry + l->n_const; }
static struct node *variable(const struct loop *l, int k) {
  if (k < l->n_seq) return l->seq_var[k];
  return k < l->n_seq + l->n_carry ? l->carry_var[k - l->n_seq] : l->const_var[k - l->n_seq - l->n_carry];
}

static bool take_body(struct arena *a, const struct loop *l, struct subgraph *g) {
  int n = 0, m = n_variables(l);
  struct node **body = arena_take(a, sizeof *body * (size_t)(l->n_carry + l->n_all + 1));
  struct node **wall = arena_take(a, sizeof *wall * (size_t)(m + 1));
  if (!body || !wall) return false;
  for (int k = 0; k < l->n_carry; k++) body[n++] = l->next[k];
  for (int k = 0; k < l->n_all; k++) body[n++] = l->all[k];
  if (l->until) body[n++] = l->until;
  for (int k = 0; k < m; k++) wall[k] = variable(l, k);
  return subgraph_take(g, n, body, m, wall, 0);
}

/* Whether some node of the body, or of a loop inside, is complex. false with no_memory: not known. */
static bool has_complex(struct splitting *s, const struct loop *l) {
  struct subgraph g;
  bool found = false;
  for (int k = 0; k < n_variables(l); k++) found |= is_complex(variable(l, k));
  if (found) return true;
  if (!take_body(s->arena, l, &g)) return s->no_memory = true, false;
  for (int i = 0; i < g.n && !found && !s->no_memory; i++)
    found = is_complex(g.node[i]) || (g.node[i]->op->kind == OP_LOOP && has_complex(s, loop_of(g.node[i])));
  subgraph_free(&g);
  return found;
}

/* ---- One node ---- */

struct pass {
  struct splitting s;
  struct split_node *now;          /* by slot of the node in the old list */
};

static struct split_node real_of(struct node *n) { return (struct split_node){ { n, NULL }, NULL }; }

static struct node *added(struct pass *p, const struct op *op, weft_dtype d, const struct node *like, int n,
                          struct node *const in[], const void *attr, size_t bytes) {
  for (int k = 0; k < n; k++)
    if (!in[k]) return NULL;
  struct node *x = node_local(p->s.arena, op, d, like->rank, like->dims, n, in, attr, bytes);
  if (x) x->origin = like->origin;
  return split_add(&p->s, x);
}

static struct node *part_of(struct pass *p, struct node *whole, int64_t k) {
  return added(p, &op_part, dtype_part((weft_dtype)whole->dtype), whole, 1, &whole, &(struct part_attr){ k },
              sizeof(struct part_attr));
}

static struct split_node split_whole(struct pass *p, struct node *n) {
  return split_add(&p->s, n) ? (struct split_node){ { part_of(p, n, 0), part_of(p, n, 1) }, n } : (struct split_node){ 0 };
}

static struct split_node *operand(struct pass *p, const struct node *n, int k) { return &p->now[n->in[k]->slot]; }

/* The same node on one part of each complex operand. */
static struct node *on_part(struct pass *p, const struct node *n, int part) {
  struct node **in = arena_take(p->s.arena, sizeof *in * (size_t)(n->n_in + 1));
  if (!in) return p->s.no_memory = true, NULL;
  for (int k = 0; k < n->n_in; k++) {
    const struct parts *x = &operand(p, n, k)->part;
    in[k] = part && x->im ? x->im : x->re;
  }
  return added(p, n->op, dtype_part((weft_dtype)n->dtype), n, n->n_in, in, n->attr, n->attr_bytes);
}

static struct split_node on_parts(struct pass *p, const struct node *n) {
  struct node *re = on_part(p, n, 0);
  return (struct split_node){ { re, re ? on_part(p, n, 1) : NULL }, NULL };
}

static struct split_node split_view(struct pass *p, struct node *n) {
  struct node *whole = operand(p, n, 0)->whole;
  if (!whole) return on_parts(p, n);
  n->in[0] = whole;
  return split_whole(p, n);
}

static struct split_node split_element(struct pass *p, const struct node *n) {
  struct parts in[ELEMENT_MOST];
  for (int k = 0; k < n->n_in; k++) in[k] = operand(p, n, k)->part;
  p->s.like = n;
  return (struct split_node){ n->op->parts(&p->s, n, in), NULL };
}

/* (a + ib)(c + id) = ac - bd + i(ad + bc), with matrices. */
static struct split_node split_contract(struct pass *p, const struct node *n) {
  const struct parts *x = &operand(p, n, 0)->part, *y = &operand(p, n, 1)->part;
  weft_dtype d = dtype_part((weft_dtype)n->dtype);
  struct node *left[] = { x->re, x->im, x->re, x->im }, *right[] = { y->re, y->im, y->im, y->re }, *product[4];
  for (int i = 0; i < 4; i++)
    product[i] = added(p, n->op, d, n, 2, (struct node *[]){ left[i], right[i] }, n->attr, n->attr_bytes);
  struct node *re = added(p, &op_sub, d, n, 2, product, NULL, 0), *im = added(p, &op_add, d, n, 2, product + 2, NULL, 0);
  return (struct split_node){ { re, im }, NULL };
}

static struct split_node split_iota(struct pass *p, const struct node *n) {
  p->s.like = n;
  struct node *re = on_part(p, n, 0);
  return (struct split_node){ { re, split_number(&p->s, dtype_part((weft_dtype)n->dtype), 0) }, NULL };
}

/* What an identity passes on; its item k is its operand k. A barrier stays, on both parts. */
static struct split_node split_identity(struct pass *p, struct node *n) {
  if (n->op == &op_barrier && operand(p, n, 0)->part.im) return on_parts(p, n);
  if (n->op != &op_barrier) return n->op->many ? (struct split_node){ 0 } : *operand(p, n, 0);
  n->in[0] = operand(p, n, 0)->part.re;
  return real_of(split_add(&p->s, n));
}

/* ---- Loops ---- */

static bool split_list(struct pass *, int n, struct node *const list[]);

static struct node **room(struct pass *p, int n) {
  struct node **x = arena_take(p->s.arena, sizeof *x * (size_t)(n + 1));
  if (!x) p->s.no_memory = true;
  return x;
}

/* Local nodes of a body refer to each other; walks over bodies count references, so each has one that nobody drops. */
static struct node *body_node(struct pass *p, const struct op *op, weft_dtype d, const struct node *like, int n,
                              struct node *const in[]) {
  struct node *x = node_local(p->s.arena, op, d, like->rank, like->dims, n, in, like->attr, like->attr_bytes);
  if (!x) return p->s.no_memory = true, NULL;
  atomic_store(&x->refs, 1);
  x->origin = like->origin;
  x->weak = like->weak;
  atomic_store(&x->state, op == &op_scalar ? NODE_READY : NODE_LAZY);
  return x;
}

/* Two variables for a complex one. */
static void split_variables(struct pass *p, int n, struct node *const var[], int *n_out, struct node *out[]) {
  for (int k = 0; k < n; k++) {
    int many = 1 + is_complex(var[k]);
    weft_dtype d = dtype_part((weft_dtype)var[k]->dtype);
    for (int i = 0; i < many; i++) out[(*n_out)++] = body_node(p, &op_loop_var, d, var[k], 0, NULL);
  }
}

/* Copies of the body's nodes, with the new variables for the old. */
static struct node **copy_body(struct pass *p, const struct loop *l, const struct subgraph *g, struct pass *inner,
                               struct node *const var[]) {
  struct node **copy = room(p, g->n);
  inner->now = arena_take(p->s.arena, sizeof *inner->now * (size_t)(g->n + 1));
  if (!copy || !inner->now) return p->s.no_memory = true, NULL;
  for (int i = 0; i < g->n; i++) {
    const struct node *n = g->node[i];
    int n_in = n->op->kind == OP_SIZE ? 0 : subgraph_arity(g, i);
    struct node **in = room(p, n_in);
    for (int k = 0; in && k < n_in; k++) in[k] = copy[g->operand[g->first[i] + k]];
    if (!in || !(copy[i] = body_node(p, n->op, (weft_dtype)n->dtype, n, n_in, in))) return NULL;
    copy[i]->slot = i;
  }
  for (int k = 0, at = 0; k < n_variables(l); k++) {
    struct node *v = variable(l, k);
    struct split_node *to = g->wall[k] < 0 ? NULL : &inner->now[g->wall[k]];
    if (to) *to = (struct split_node){ { var[at], is_complex(v) ? var[at + 1] : NULL }, NULL };
    at += 1 + is_complex(v);
  }
  return copy;
}

static int put_parts(const struct split_node *x, struct node *out[]) {
  out[0] = x->part.re;
  if (x->part.im) out[1] = x->part.im;
  return x->part.im ? 2 : 1;
}

/* The body of l, split, as a loop in the arena. NULL: out of memory. */
static struct loop *split_body(struct pass *p, const struct loop *l, const struct subgraph *g) {
  struct pass inner = { .s = { .arena = p->s.arena } };
  struct loop *to = arena_take(p->s.arena, sizeof *to);
  struct node **var = room(p, 2 * n_variables(l));
  if (!to || !var) return NULL;
  *to = (struct loop){ .refs = 1, .has_steps = l->has_steps, .is_backward = l->is_backward, .steps = l->steps,
                       .owns_steps = l->owns_steps, .length = l->length };
  split_variables(p, l->n_seq, l->seq_var, &to->n_seq, to->seq_var = var);
  split_variables(p, l->n_carry, l->carry_var, &to->n_carry, to->carry_var = to->seq_var + to->n_seq);
  split_variables(p, l->n_const, l->const_var, &to->n_const, to->const_var = to->carry_var + to->n_carry);
  struct node **copy = p->s.no_memory ? NULL : copy_body(p, l, g, &inner, var);
  if (!copy || !split_list(&inner, g->n, copy)) return NULL;
  for (int i = 0; i < inner.s.list.n; i++) atomic_store(&inner.s.list.node[i]->refs, 1);
  to->next = room(p, 2 * l->n_carry), to->all = room(p, 2 * l->n_all);
  if (!to->next || !to->all) return NULL;
  int n = 0;
  for (int k = 0; k < l->n_carry; k++) n += put_parts(&inner.now[g->target[k]], to->next + n);
  for (int k = 0; k < l->n_all; k++) to->n_all += put_parts(&inner.now[g->target[l->n_carry + k]], to->all + to->n_all);
  if (l->until) to->until = inner.now[g->target[l->n_carry + l->n_all]].part.re;
  return to;
}

/* The node refers to the old loop until its items are split: they ask it where their parts are. */
static struct split_node split_loop(struct pass *p, struct node *n) {
  const struct loop *l = loop_of(n);
  struct subgraph g;
  struct node **in = room(p, 2 * n->n_in);
  int n_in = 0;
  if (!in || !take_body(p->s.arena, l, &g)) return p->s.no_memory = true, (struct split_node){ 0 };
  struct loop_attr attr = { split_body(p, l, &g) };
  subgraph_free(&g);
  if (!attr.loop) return p->s.no_memory = true, (struct split_node){ 0 };
  for (int k = 0; k < n->n_in; k++) n_in += put_parts(operand(p, n, k), in + n_in);
  return real_of(added(p, &op_loop, (weft_dtype)n->dtype, n, n_in, in, &attr, sizeof attr));
}

/* Where result k of the old loop is among those of the new. */
static int result_at(const struct loop *l, int k) {
  int at = 0;
  for (int i = 0; i < k; i++)
    at += 1 + (i < l->n_all ? is_complex(l->all[i]) : i < l->n_all + l->n_carry && is_complex(l->carry_var[i - l->n_all]));
  return at;
}

/* ---- Library steps: complex arrays stay whole ---- */

static struct node *whole_of(struct pass *p, const struct split_node *x, const struct node *like) {
  struct node *part[] = { x->part.re, x->part.im };
  if (x->whole || !x->part.im) return x->whole ? x->whole : x->part.re;
  return added(p, &op_pair, (weft_dtype)like->dtype, like, 2, part, NULL, 0);
}

static struct split_node split_library(struct pass *p, struct node *n) {
  for (int k = 0; k < n->n_in; k++)
    if (!(n->in[k] = whole_of(p, operand(p, n, k), n->in[k]))) return (struct split_node){ 0 };
  return real_of(split_add(&p->s, n));
}

static struct split_node split_result(struct pass *p, const struct node *item, struct node *many) {
  struct node *whole = added(p, item->op, (weft_dtype)item->dtype, item, 1, &many, item->attr, item->attr_bytes);
  if (!is_complex(item)) return real_of(whole);
  return (struct split_node){ { part_of(p, whole, 0), part_of(p, whole, 1) }, whole };
}

static struct split_node split_item(struct pass *p, const struct node *n) {
  int k = ((const struct item_attr *)n->attr)->k;
  struct node *from = n->in[0], *many = operand(p, n, 0)->part.re, *item[2] = { NULL, NULL };
  if (from->op->kind == OP_IDENTITY) return p->now[from->in[k]->slot];
  if (from->op->kind == OP_LIBRARY) return split_result(p, n, many);
  int at = from->op->kind == OP_LOOP ? result_at(loop_of(from), k) : k;
  for (int i = 0; i < 1 + is_complex(n); i++)
    item[i] = added(p, n->op, dtype_part((weft_dtype)n->dtype), n, 1, &many,
                    &(struct item_attr){ at + i }, sizeof(struct item_attr));
  return (struct split_node){ { item[0], item[1] }, NULL };
}

/* ---- The graph ---- */

static bool is_touched(struct pass *p, const struct node *n) {
  bool found = is_complex(n);
  for (int k = 0; k < n->n_in && !found; k++) found = operand(p, n, k)->part.im;
  return found || (n->op->kind == OP_LOOP && has_complex(&p->s, loop_of(n)));
}

static struct split_node as_it_is(struct pass *p, struct node *n) {
  for (int k = 0; k < n->n_in; k++) n->in[k] = operand(p, n, k)->part.re;
  return real_of(split_add(&p->s, n));
}

static struct split_node split_node_of(struct pass *p, struct node *n) {
  if (n->op->kind == OP_IDENTITY) return split_identity(p, n);
  if (n->op->kind == OP_ITEM) return split_item(p, n);
  if (!is_touched(p, n)) return as_it_is(p, n);
  switch (n->op->kind) {
    case OP_LEAF: return split_whole(p, n);
    case OP_VIEW: return split_view(p, n);
    case OP_ELEMENT: return split_element(p, n);
    case OP_CONTRACT: return split_contract(p, n);
    case OP_IOTA: return split_iota(p, n);
    case OP_LOOP: return split_loop(p, n);
    case OP_LIBRARY: return split_library(p, n);
    case OP_SIZE: case OP_REDUCE: case OP_PREFIX: case OP_TAKE: case OP_PUT: case OP_SCATTER: case OP_CONCAT: case OP_PAIR:
    case OP_PAD: case OP_IDENTITY: case OP_CALL: case OP_LATER: case OP_ITEM: break;
  }
  return on_parts(p, n);
}

/* list: inputs before users, slots in order; what has a place in p->now already is not split again. */
static bool split_list(struct pass *p, int n, struct node *const list[]) {
  for (int i = 0; i < n && !p->s.no_memory; i++)
    if (!p->now[i].part.re) p->now[i] = split_node_of(p, list[i]);
  return !p->s.no_memory;
}

static bool needs_splitting(struct splitting *s, const struct node_list *l) {
  for (int i = 0; i < l->n; i++)
    if (is_complex(l->node[i]) || (l->node[i]->op->kind == OP_LOOP && has_complex(s, loop_of(l->node[i])))) return true;
  return false;
}

static bool is_computed_view(const struct pass *p, const struct node *n, int slot, const struct op *op) {
  return n->op == op && p->now[slot].part.im && !p->now[slot].whole;
}

/* What target n, of that slot, is stored in. What shows all of a pair, in another shape and then in another order, is a view of
 * the pair, as it is of real numbers: reshapes of the parts would be copied where no strides express them, and once more into
 * the pair. */
static struct node *stored(struct pass *p, struct node *n, int slot) {
  int depth = 0, at = slot;
  struct node *base = n;
  for (; is_computed_view(p, base, at, &op_transpose); depth++) base = base->in[0], at = base->slot;
  for (; is_computed_view(p, base, at, &op_reshape); depth++) base = base->in[0], at = base->slot;
  const struct split_node *x = &p->now[at];
  struct node *part[] = { x->part.re, x->part.im }, **view = room(p, depth);
  if (!view) return NULL;
  for (int k = 0; k < depth; k++) view[k] = n, n = n->in[0];
  struct node *y = x->part.im && !x->whole ? added(p, &op_pair, (weft_dtype)base->dtype, base, 2, part, NULL, 0)
                                           : x->whole ? x->whole : x->part.re;
  while (y && depth--)
    y = added(p, view[depth]->op, (weft_dtype)base->dtype, view[depth], 1, &y, view[depth]->attr, view[depth]->attr_bytes);
  return y;
}

bool split_complex(struct arena *a, struct node_list *list, int n, struct node *target[]) {
  struct pass p = { .s = { .arena = a } };
  if (!needs_splitting(&p.s, list)) return !p.s.no_memory;
  p.now = arena_take(a, sizeof *p.now * (size_t)(list->n + 1));
  if (!p.now) return false;
  for (int i = 0; i < list->n; i++) list->node[i]->slot = i;
  int *slot = arena_take(a, sizeof *slot * (size_t)(n + 1));
  if (!slot) return false;
  for (int t = 0; t < n; t++) slot[t] = target[t]->slot;
  if (!split_list(&p, list->n, list->node)) return false;
  for (int t = 0; t < n; t++) target[t] = stored(&p, list->node[slot[t]], slot[t]);
  *list = p.s.list;
  return !p.s.no_memory;
}
