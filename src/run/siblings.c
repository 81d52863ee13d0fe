/* siblings.c -- results of one call, and who computes them: those that are wanted, and with them those that somebody holds, in one
 * plan. What is held and not computed would keep the call, and so its arguments, for as long as it is held: `losses.append(loss)`
 * of a step whose state alone is asked for would keep all states. What nobody holds is not computed. */
#include "run/evaluation.h"
#include "base/mem.h"

bool results_begin(struct results *r, const struct node *call, int n) {
  int most = n + ((const struct call_attr *)call->attr)->n_out;
  r->n = r->n_wanted = 0, r->some_forget = false, r->item = r->few, r->forgets = r->few_forget, r->room = NULL;
  if (most <= (int)(sizeof r->few / sizeof *r->few)) return true;
  r->room = r->item = mem_alloc((sizeof *r->item + sizeof *r->forgets) * (size_t)most);
  r->forgets = (bool *)(r->item + most);
  return r->room;
}

void results_end(struct results *r) {
  nodes_release(r->n - r->n_wanted, r->item + r->n_wanted);
  mem_free(r->room);
}

static void add(struct results *r, struct node *item, bool forgets) {
  r->forgets[r->n] = forgets;
  r->some_forget |= forgets;
  r->item[r->n++] = item;
}

void results_want(struct results *r, struct node *item, bool forgets) {
  add(r, item, forgets);
  r->n_wanted = r->n;
}

static int refs_of(const struct node *n) { return atomic_load_explicit(&n->refs, memory_order_relaxed); }

struct beside { uint64_t wanted; bool has_names; }; /* wanted: the mark of those that are */

/* A name of an open scope alone does not hold it: all results of a call have one, and it goes with the scope. */
static bool is_held(const struct node *n, bool has_names) {
  return !has_names || node_is_owned(n) || refs_of(n) > 1;
}

/* What has no owner is held by expressions, which have owners if no scope has a name. */
static bool may_forget(const struct node *n, bool has_names) { return !has_names || node_is_loose(n); }

/* Neither wanted already nor another's to compute. */
static bool is_beside(struct node *n, const void *ctx) {
  const struct beside *b = ctx;
  if (n->mark == b->wanted || node_state_of(n) != NODE_LAZY || !is_held(n, b->has_names)) return false;
  eval_settle_sizes(n);
  return node_is_known(n);
}

void results_add_held(struct results *r, const struct node *call, bool has_names) {
  const struct call_attr *a = call->attr;
  int n_out = a->n_out, n_different = 0;
  if (n_out < 2 || eval_captures_names(a->function)) return; /* what reads a name has no value here */
  struct beside b = { graph_epoch(), has_names };
  for (int i = 0; i < r->n; i++) n_different += r->item[i]->mark != b.wanted, r->item[i]->mark = b.wanted;
  if (refs_of(call) <= n_different + 1) return; /* each of them has a reference, and the caller */
  for (int k = 0; k < n_out; k++) {
    struct node *n = item_living(call, k, is_beside, &b);
    if (n) add(r, n, may_forget(n, has_names));
  }
}

/* Where a call is run part by part nobody else does. */
void results_forget(const struct results *r) {
  bool some = false;
  for (int i = r->n_wanted; i < r->n; i++) some |= r->forgets[i];
  if (!some) return;
  graph_lock();
  for (int i = r->n_wanted; i < r->n; i++)
    if (r->forgets[i] && node_state_of(r->item[i]) == NODE_READY) node_forget(r->item[i]);
  graph_unlock();
}
