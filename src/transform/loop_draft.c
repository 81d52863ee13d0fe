/* loop_draft.c -- loops that transforms make. */
#include "base/mem.h"
#include "op/operand.h"
#include "transform/loop_rules.h"

bool nodes_add(struct nodes *l, struct node *n) {
  if (!n) return false;
  if (l->n == l->room) {
    int room = l->room ? 2 * l->room : 8;
    struct node **grown = mem_resize(l->node, (size_t)room * sizeof *grown);
    if (!grown) return node_release(n), false;
    l->node = grown;
    l->room = room;
  }
  l->node[l->n++] = n;
  return true;
}

/* They wait for sizes that a run tells; those of a variable of a body are told by its loop. */
static struct node *zeros(struct node *like) {
  struct failure *why = NULL;
  struct node *n = result_of(like->op == &op_loop_var ? zeros_of(like) : zeros_like(handle_of(like)), &why);
  if (!n) failure_release(why);
  return n;
}

bool nodes_add_zeros(struct nodes *l, struct node *like) { return nodes_add(l, zeros(like)); }

void nodes_free(struct nodes *l) {
  nodes_release(l->n, l->node);
  mem_free(l->node);
  *l = (struct nodes){ 0 };
}

bool draft_seq(struct loop_draft *d, struct node *seq, struct node *var) {
  return nodes_add(&d->seq, node_retain(seq)) && nodes_add(&d->seq_var, node_retain(var));
}

bool draft_carry(struct loop_draft *d, struct node *init, struct node *var, struct node *next) {
  return nodes_add(&d->init, node_retain(init)) && nodes_add(&d->carry_var, node_retain(var)) &&
         nodes_add(&d->next, node_retain(next));
}

bool draft_same_steps(struct loop_draft *d, struct node *n) {
  const struct loop *l = loop_of(n);
  d->parts.n_steps = dim_resolve(l->length);
  if (l->until) {
    d->parts.steps = d->length = item_make(n, loop_out_length(l));
    return d->length;
  }
  d->parts.steps = l->has_steps ? n->in[0] : NULL;
  d->parts.owns_steps = l->owns_steps;
  return true;
}

struct node *draft_make(struct loop_draft *d, struct failure **failure) {
  struct loop_parts *p = &d->parts;
  p->n_seq = d->seq.n;
  p->n_carry = d->init.n;
  p->n_all = d->all.n;
  p->seq = d->seq.node;
  p->seq_var = d->seq_var.node;
  p->init = d->init.node;
  p->carry_var = d->carry_var.node;
  p->next = d->next.node;
  p->all = d->all.node;
  return loop_make(p, failure);
}

void draft_free(struct loop_draft *d) {
  nodes_free(&d->seq);
  nodes_free(&d->seq_var);
  nodes_free(&d->init);
  nodes_free(&d->carry_var);
  nodes_free(&d->next);
  nodes_free(&d->all);
  node_release(d->length);
}

int n_bodies_of(const struct loop *l) { return l->n_carry + l->n_all + (l->until != NULL); }

void draft_branch(struct loop_draft *d, const struct loop *l) {
  if (l->is_branch) d->parts.since = node_serial() + 1;
}

/* What bodies are written on: nodes of the loop, and what stands for them. */
struct ground { struct nodes from, to; };

static bool ground_add(struct ground *g, struct node *from, struct node *to) { /* takes over the reference of to */
  return nodes_add(&g->to, to) && nodes_add(&g->from, node_retain(from));
}

/* A size that is known: asked of an array of the body it would hold on to the variables that the array is made of. */
static struct node *known_size(const struct node *n) {
  dim size = n->op->kind == OP_SIZE ? dim_resolve(((const struct size_attr *)n->attr)->size) : DIM_BAD;
  return dim_is_known(size) ? scalar_node(WEFT_I64, (uint64_t)size, false) : NULL;
}

/* Scalars, iotas and loops that read nothing again: what is made of them may come to stand outside, where no node of a body may
 * be. */
static bool add_leaves(struct ground *g, int n, struct node *const body[]) {
  struct subgraph s;
  if (!subgraph_take(&s, n, body, 0, NULL, 0)) return false;
  bool ok = true;
  for (int i = 0; ok && i < s.n; i++) {
    struct node *size = known_size(s.node[i]);
    if (size) ok = ground_add(g, s.node[i], size);
    else if (loop_is_leaf(s.node[i]) || loop_is_bare(&s, i)) ok = ground_add(g, s.node[i], loop_leaf_again(s.node[i]));
  }
  subgraph_free(&s);
  return ok;
}

struct node **bodies_of(const struct loop *l, struct node *const carry[], struct node *const constant[], struct failure **failure) {
  int n = n_bodies_of(l);
  struct node **from = node_list_new(n), **out = node_list_new(n);
  struct ground g = { 0 };
  bool ok = from && out;
  for (int k = 0; ok && k < n; k++)
    from[k] = k < l->n_carry ? l->next[k] : k < l->n_carry + l->n_all ? l->all[k - l->n_carry] : l->until;
  for (int k = 0; ok && carry && k < l->n_carry; k++) ok = ground_add(&g, l->carry_var[k], node_retain(carry[k]));
  for (int k = 0; ok && k < l->n_const; k++) ok = ground_add(&g, l->const_var[k], node_retain(constant[k]));
  ok = ok && add_leaves(&g, n, from);
  if (!ok) *failure = no_memory();
  ok = ok && graph_substitute(g.from.n, g.from.node, g.to.node, n, from, out, failure);
  nodes_free(&g.from);
  nodes_free(&g.to);
  mem_free(from);
  if (ok) return out;
  mem_free(out);
  return NULL;
}

struct node *var_like(const struct node *n) { return loop_var((weft_dtype)n->dtype, n->rank, n->dims); }
struct node *item_of(struct node *loop, int k) { return loop ? item_make(loop, k) : NULL; }
