/* loop_trim.c -- loops without what nobody needs: stacked outputs that are not taken, carries that only feed themselves or such
 * outputs, and the sequences and constants these alone read. The node and its items are changed in place; the loop they
 * refer to afterwards lives in the plan's arena and borrows the bodies. */
#include "base/mem.h"
#include "graph/subgraph.h"
#include "rewrite/rewriting.h"

struct shrinking {
  const struct loop *l;
  struct subgraph g;       /* of all bodies; walls: the variables */
  bool *is_needed;         /* by index in g */
  bool *all, *carry;       /* stacked outputs, carries that stay */
};

static int n_vars(const struct loop *l) { return l->n_seq + l->n_carry + l->n_const; }
static struct loop *loop_of(const struct node *n) { return ((const struct loop_attr *)n->attr)->loop; }
static int *result_of(struct node *item) { return &((struct item_attr *)item->attr)->k; }

/* next, all, until, in this order. */
static bool take_bodies(struct shrinking *s, struct rewriting *w) {
  const struct loop *l = s->l;
  int n = 0;
  struct node **body = arena_take(w->arena, (size_t)(l->n_carry + l->n_all + 1) * sizeof *body);
  struct node **var = arena_take(w->arena, (size_t)(n_vars(l) + 1) * sizeof *var);
  if (!body || !var) return false;
  for (int k = 0; k < l->n_carry; k++) body[n++] = l->next[k];
  for (int k = 0; k < l->n_all; k++) body[n++] = l->all[k];
  if (l->until) body[n++] = l->until;
  for (int k = 0; k < l->n_seq; k++) var[k] = l->seq_var[k];
  for (int k = 0; k < l->n_carry; k++) var[l->n_seq + k] = l->carry_var[k];
  for (int k = 0; k < l->n_const; k++) var[l->n_seq + l->n_carry + k] = l->const_var[k];
  return subgraph_take(&s->g, n, body, n_vars(l), var, 0);
}

static bool var_needed(const struct shrinking *s, int k) { return s->g.wall[k] >= 0 && s->is_needed[s->g.wall[k]]; }

static void need_below(struct shrinking *s) {
  const struct loop *l = s->l;
  for (int k = 0; k < l->n_carry; k++)
    if (s->carry[k]) s->is_needed[s->g.target[k]] = true;
  for (int k = 0; k < l->n_all; k++)
    if (s->all[k]) s->is_needed[s->g.target[l->n_carry + k]] = true;
  if (l->until) s->is_needed[s->g.target[l->n_carry + l->n_all]] = true;
  for (int i = s->g.n - 1; i >= 0; i--)
    for (int at = s->g.first[i]; s->is_needed[i] && at < s->g.first[i + 1]; at++) s->is_needed[s->g.operand[at]] = true;
}

/* A carry that is read needs its next. */
static void settle(struct shrinking *s) {
  for (bool changes = true; changes;) {
    changes = false;
    need_below(s);
    for (int k = 0; k < s->l->n_carry; k++) {
      if (s->carry[k] || !var_needed(s, s->l->n_seq + k)) continue;
      s->carry[k] = changes = true;
    }
  }
}

static struct node **taken(struct rewriting *w, int n) { return arena_take(w->arena, (size_t)(n + 1) * sizeof(struct node *)); }

/* The loop with what stays. NULL: out of memory. */
static struct loop *smaller(struct rewriting *w, const struct shrinking *s) {
  const struct loop *l = s->l;
  struct loop *to = arena_take(w->arena, sizeof *to);
  if (!to) return NULL;
  *to = (struct loop){ .refs = 1, .has_steps = l->has_steps, .is_branch = l->is_branch, .is_backward = l->is_backward,
                       .until = l->until, .steps = l->steps, .owns_steps = l->owns_steps, .length = l->length };
  to->seq_var = taken(w, l->n_seq), to->carry_var = taken(w, l->n_carry), to->const_var = taken(w, l->n_const);
  to->next = taken(w, l->n_carry), to->all = taken(w, l->n_all);
  if (!to->seq_var || !to->carry_var || !to->const_var || !to->next || !to->all) return NULL;
  for (int k = 0; k < l->n_seq; k++)
    if (var_needed(s, k)) to->seq_var[to->n_seq++] = l->seq_var[k];
  for (int k = 0; k < l->n_carry; k++)
    if (s->carry[k]) to->next[to->n_carry] = l->next[k], to->carry_var[to->n_carry++] = l->carry_var[k];
  for (int k = 0; k < l->n_const; k++)
    if (var_needed(s, l->n_seq + l->n_carry + k)) to->const_var[to->n_const++] = l->const_var[k];
  for (int k = 0; k < l->n_all; k++)
    if (s->all[k]) to->all[to->n_all++] = l->all[k];
  return to;
}

static void drop_inputs(const struct shrinking *s, struct node *n) {
  const struct loop *l = s->l;
  int to = l->has_steps;
  for (int k = 0; k < n_vars(l); k++) {
    bool stays = k >= l->n_seq && k < l->n_seq + l->n_carry ? s->carry[k - l->n_seq] : var_needed(s, k);
    if (stays) n->in[to++] = n->in[l->has_steps + k];
  }
  n->n_in = to;
}

static int count_before(const bool is[], int k) {
  int n = 0;
  for (int i = 0; i < k; i++) n += is[i];
  return n;
}

static int renumbered(const struct shrinking *s, const struct loop *to, int k) {
  if (k < s->l->n_all) return count_before(s->all, k);
  if (k < s->l->n_all + s->l->n_carry) return to->n_all + count_before(s->carry, k - s->l->n_all);
  return to->n_all + to->n_carry;
}

static bool is_item_of(const struct node *item, const struct node *loop) { return item->op == &op_item && item->in[0] == loop; }

static bool shrink(struct rewriting *w, struct node *n, int n_nodes, struct node *const node[]) {
  struct shrinking s = { .l = loop_of(n) };
  const struct loop *l = s.l;
  s.all = arena_take(w->arena, (size_t)l->n_all + 1);
  s.carry = arena_take(w->arena, (size_t)l->n_carry + 1);
  if (!s.all || !s.carry) return false;
  for (int i = 0; i < n_nodes; i++) {
    int k = is_item_of(node[i], n) ? *result_of(node[i]) : -1;
    if (k >= 0 && k < l->n_all) s.all[k] = true;
    if (k >= l->n_all && k < l->n_all + l->n_carry) s.carry[k - l->n_all] = true;
  }
  if (!take_bodies(&s, w)) return false;
  s.is_needed = arena_take(w->arena, (size_t)s.g.n + 1);
  struct loop *to = NULL;
  if (s.is_needed) settle(&s), to = smaller(w, &s);
  if (to) {
    drop_inputs(&s, n);
    for (int i = 0; i < n_nodes; i++)
      if (is_item_of(node[i], n)) *result_of(node[i]) = renumbered(&s, to, *result_of(node[i]));
    ((struct loop_attr *)n->attr)->loop = to;
  }
  subgraph_free(&s.g);
  return to;
}

bool shrink_loops(struct rewriting *w, int n, struct node *const node[]) {
  for (int i = 0; i < n; i++)
    if (node[i]->op == &op_loop && !shrink(w, node[i], n, node)) return !(w->no_memory = true);
  return true;
}
