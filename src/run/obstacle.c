/* obstacle.c -- what is in the way of a plan: a node that fails, one that somebody else computes, a call, a copy to another device,
 * a size that only a loop which runs can tell; and sizes that have become known. */
#include "run/evaluation.h"
#include "base/hard.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "op/later.h"
#include "run/device.h"
#include "run/verdict.h"

bool eval_stops(const struct node *n) { return node_has_value(n) || n->op->kind == OP_LEAF || is_known_size(n); }

/* All that a loop computes in a step. */
static bool walk_bodies(struct node_list *list, const struct loop *l) {
  int n = 0;
  struct node **body = mem_alloc(sizeof *body * (size_t)(l->n_carry + l->n_all + 1));
  if (!body) return false;
  for (int k = 0; k < l->n_carry; k++) body[n++] = l->next[k];
  for (int k = 0; k < l->n_all; k++) body[n++] = l->all[k];
  if (l->until) body[n++] = l->until;
  bool ok = walk(list, n, body, NULL);
  mem_free(body);
  return ok;
}

/* Sizes inside a loop that disagree, of those that are known before it runs; the others are looked at when it does. */
static struct failure *disagreement_inside(const struct loop *l) {
  struct node_list list = { 0 };
  if (!l->is_settled) return NULL;
  struct failure *why = walk_bodies(&list, l) ? disagreement_in(&list) : eval_no_memory();
  node_list_free(&list);
  return why;
}

static struct failure *unusable(const struct node *n) {
  struct shape_text t;
  const char *dtype = weft_dtype_name((weft_dtype)n->dtype);
  if (n->op == &op_bad || node_state_of(n) == NODE_FAILED) return failure_retain(n->failure);
  if (node_state_of(n) == NODE_READY) return n->value ? verdict_known(n->value->verdict) : NULL;
  if (n->op == &op_input)
    return fail(WEFT_ERR_NO_VALUE, n->origin, "weft_eval: a weft_input %s %s is a name, not a value: call the function", dtype,
                shape_show(n, &t));
  if (n->op == &op_loop_var)
    return fail(WEFT_ERR_NO_VALUE, n->origin, "weft_eval: a loop variable %s %s has no value outside its loop", dtype,
                shape_show(n, &t));
  if (n->op == &op_loop && node_is_trusting(n)) return disagreement_inside(((const struct loop_attr *)n->attr)->loop);
  return n->op->agree && n->n_in ? n->op->agree(n) : NULL;
}

/* A result of a loop whose number of steps, or executed length, is to be known before anything is planned: sizes depend on
 * it, and kernels. Not so that of a branch, or of a loop that only computes its carries: rows are stored for the most steps there
 * can be, though another loop may have told how many they are. And one of a loop in whose body sizes are to be known in each
 * step. */
static bool is_unsized(const struct node *item) {
  if (item->in[0]->op->kind != OP_LOOP) return false;
  const struct node *loop = item->in[0];
  const struct loop *l = ((const struct loop_attr *)loop->attr)->loop;
  bool has_rows = ((const struct item_attr *)item->attr)->k < l->n_all;
  bool runs_blind = l->is_branch || (!has_rows && loop_runs_blind(l, l->has_steps && loop->n_in ? loop->in[0] : NULL));
  return loop_is_by_steps(l) || !node_is_known(item) || (!runs_blind && !dim_is_known(dim_resolve(l->steps)));
}

/* The length of a loop that must have run before n: before a loop in whose body sizes depend on it, or before what waits for it.
 * NULL: none is unknown. */
static struct node *unknown_length(const struct node *waits) {
  bool is_loop = waits->op->kind == OP_LOOP;
  if (is_loop ? !((const struct loop_attr *)waits->attr)->loop->needs_length : waits->op != &op_depends) return NULL;
  for (int k = !is_loop; k < waits->n_in; k++) {
    struct node *n = waits->in[k];
    if (loop_is_length(n) && !dim_is_known(dim_resolve(((const struct loop_attr *)n->in[0]->attr)->loop->length))) return n;
  }
  return NULL;
}

void eval_settle_sizes(struct node *n) {
  for (int k = 0; k < n->rank; k++) {
    dim d = n->dims[k], now = dim_is_known(d) ? d : dim_resolve(d);
    if (now == d || !dim_is_known(now)) continue;
    node_tell(n, k, &n->dims[k], now);
    node_set_told(n, true);
  }
}

static bool settle_node(struct node *n) {
  if (n->op->settle && !n->op->settle(n)) return false;
  eval_settle_sizes(n);
  return true;
}

/* Nodes trust no longer where sizes have turned out to be as they were taken to be; inputs come before users. */
static void look(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) {
    struct node *n = l->node[i];
    if (!node_is_trusting(n) || node_trusts(n)) continue;
    struct failure *why = n->op->agree && n->n_in ? n->op->agree(n) : NULL;
    if (!why) atomic_store_explicit(&n->is_trusting, false, memory_order_relaxed);
    failure_release(why);
  }
}

/* What a body has captured may have had no size when the loop was made. A body whose sizes are all known is not looked at
 * again; sizes that differ from step to step are found in each. */
static bool settle_bodies(struct loop *l) {
  if (l->is_settled || loop_is_by_steps(l)) return true;
  struct node_list list = { 0 };
  bool ok = walk_bodies(&list, l) && eval_settle(&list), is_known = true;
  int n_vars = l->n_seq + l->n_carry + l->n_const; /* carries and constants stand behind sequences */
  for (int k = 0; ok && k < n_vars; k++) ok = settle_node(l->seq_var[k]);
  for (int k = 0; ok && k < list.n; k++) is_known &= node_is_known(list.node[k]);
  l->is_settled = ok && is_known;
  if (l->is_settled) look(&list);
  node_list_free(&list);
  return ok;
}

bool eval_settle(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) {
    if (!settle_node(l->node[i])) return false;
    if (l->node[i]->op == &op_loop && !settle_bodies(((const struct loop_attr *)l->node[i]->attr)->loop)) return false;
  }
  return true;
}

/* Bodies share no node with the graph around them: a walk inside one leaves the places of that graph's nodes as they are. */
__attribute__((unused)) static bool is_in_place(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) if (l->node[i]->slot != i) return false;
  return true;
}

/* Whether somebody asks for a size alone, of what need not be computed after all. */
static bool goes_too_far(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) if (l->node[i]->n_in && is_known_size(l->node[i]) && !node_has_value(l->node[i])) return true;
  return false;
}

static bool walk_settled(struct node_list *l, int n, struct node *const target[], bool *is_trusting) {
  if (!walk(l, n, target, eval_stops)) return false;
  *is_trusting = false;
  for (int i = 0; i < l->n && !*is_trusting; i++) *is_trusting = node_is_trusting(l->node[i]);
  if (!eval_settle(l)) return node_list_free(l), false;
  INVARIANT(is_in_place(l));
  return true;
}

bool eval_walk(struct node_list *l, int n, struct node *const target[]) {
  bool is_trusting;
  if (!walk_settled(l, n, target, &is_trusting)) return false;
  if (!is_trusting) return true;
  look(l);
  if (!goes_too_far(l)) return true;
  node_list_free(l);
  return walk_settled(l, n, target, &is_trusting);
}

/* Looks through the list: a node that fails, one somebody else is computing, a call, a size only a loop can tell. */
enum obstacle eval_find_obstacle(const struct node_list *l, struct failure **failure, struct node **which) {
  enum obstacle found = CLEAR;
  for (int i = 0; i < l->n; i++) {
    struct node *n = l->node[i];
    if ((*failure = unusable(n))) return BLOCKED;
    const struct node *many = obstacle_many(found, *which);
    bool is_others = !node_has_value(n) && !node_is_free(n);
    if (is_others && (found == CLEAR || (many && is_wanted_of(n, many)))) found = WAITS;
    else if (found == CLEAR && n->op == &op_to && eval_moves(n)) found = MOVES, *which = n;
    else if (found == CLEAR && n->op->kind == OP_CALL && !node_has_value(n)) found = CALLS, *which = n;
    else if (found == CLEAR && n->op->kind == OP_ITEM && !node_has_value(n) && is_unsized(n)) found = UNSIZED, *which = n;
    else if (found == CLEAR && n->op == &op_later && !node_has_value(n) && later_is_sized(n)) found = UNWRITTEN, *which = n;
    else if (found == CLEAR && !node_has_value(n) && unknown_length(n)) found = UNSIZED, *which = unknown_length(n);
  }
  return found;
}
