/* draft.c -- loops that transforms make. */
#include "base/mem.h"
#include "op/operand.h"
#include "transform/loop.h"

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

static struct node *zeros(const struct node *like) {
  struct failure *why = NULL;
  struct node *n = result_of(zeros_of(like), &why);
  if (!n) failure_release(why);
  return n;
}

bool nodes_add_zeros(struct nodes *l, const struct node *like) { return nodes_add(l, zeros(like)); }

void nodes_free(struct nodes *l) {
  nodes_release(l->n, l->node);
  mem_free(l->node);
  *l = (struct nodes){ 0 };
}

bool draft_seq(struct draft *d, struct node *seq, struct node *var) {
  return nodes_add(&d->seq, node_retain(seq)) && nodes_add(&d->seq_var, node_retain(var));
}

bool draft_carry(struct draft *d, struct node *init, struct node *var, struct node *next) {
  return nodes_add(&d->init, node_retain(init)) && nodes_add(&d->carry_var, node_retain(var)) && nodes_add(&d->next, node_retain(next));
}

bool draft_same_steps(struct draft *d, struct node *n) {
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

struct node *draft_make(struct draft *d, struct failure **failure) {
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

void draft_free(struct draft *d) {
  nodes_free(&d->seq);
  nodes_free(&d->seq_var);
  nodes_free(&d->init);
  nodes_free(&d->carry_var);
  nodes_free(&d->next);
  nodes_free(&d->all);
  node_release(d->length);
}

int n_bodies_of(const struct loop *l) { return l->n_carry + l->n_all + (l->until != NULL); }

struct node **bodies_of(const struct loop *l, struct node *const constant[], struct failure **failure) {
  int n = n_bodies_of(l);
  struct node **from = node_list_new(n), **out = node_list_new(n);
  bool ok = from && out;
  for (int k = 0; ok && k < n; k++) from[k] = k < l->n_carry ? l->next[k] : k < l->n_carry + l->n_all ? l->all[k - l->n_carry] : l->until;
  if (!ok) *failure = no_memory();
  ok = ok && graph_substitute(l->n_const, l->const_var, constant, n, from, out, failure);
  mem_free(from);
  if (ok) return out;
  mem_free(out);
  return NULL;
}

struct node *var_like(const struct node *n) { return loop_var((weft_dtype)n->dtype, n->rank, n->dims); }
struct node *item_of(struct node *loop, int k) { return loop ? item_make(loop, k) : NULL; }
