/* ahead.c -- what would be run, and what it would cost: plans that are not run. */
#include "run/evaluation.h"
#include "base/mem.h"

/* Bytes of targets that would stand in leaves that die; lock held. */
static int64_t would_give(struct eval *e) {
  struct leaf *leaf = eval_may_donate(e) ? mem_alloc(sizeof *leaf * (size_t)(e->n_leaves + 1)) : NULL;
  int64_t bytes = 0;
  if (!leaf) return 0;
  eval_donate(e);
  eval_leaves(e, leaf);
  if (e->dies) bytes = donate_memory(e->plan, &(struct run){ .leaf = leaf }, NULL, NULL);
  eval_end_donation(e, false);
  mem_free(leaf);
  return bytes;
}

/* What is in the way of a plan, and *l, to be freed; lock held, but not while it waits until others have computed what they have
 * begun of it. BLOCKED: *failure, and there is no list. */
static enum obstacle look(int n, struct node *const target[], const struct eval_settings *s, bool waits, struct node_list *l,
                          struct failure **failure) {
  for (;;) {
    struct node *which;
    if (!eval_walk(l, n, target)) return *failure = eval_no_memory(), BLOCKED;
    enum obstacle found = eval_find_obstacle(l, failure, &which);
    bool again = found == WAITS && waits;
    if (again && !(*failure = eval_circle(l->n, l->node))) *failure = eval_await_change(s);
    if (!again && !*failure) return found;
    node_list_free(l);
    if (*failure) return BLOCKED;
  }
}

static struct failure *plan_only(struct eval *e, enum rule_tag rewrites, bool waits, int64_t *given) {
  struct node_list l;
  struct failure *f = NULL;
  graph_lock();
  enum obstacle found = look(e->n, e->target, &e->settings, waits, &l, &f);
  if (found == BLOCKED) return graph_unlock(), f;
  if (found == CLEAR) {
    bool ok = (e->only_targets || eval_add_held(e, &l, true)) && eval_take_leaves(e, &l);
    f = ok ? eval_find_plan(e, &l, rewrites) : eval_no_memory();
    if (!f && given) *given = would_give(e);
  } else f = fail(WEFT_ERR_UNSUPPORTED, 0, "weft_plan: a part must be computed before the rest can be planned");
  node_list_free(&l);
  graph_unlock();
  return f;
}

bool eval_is_clear(int n, struct node *const target[]) {
  struct node_list l;
  struct failure *f = NULL;
  graph_lock();
  enum obstacle found = look(n, target, eval_settings(), true, &l, &f);
  if (found != BLOCKED) node_list_free(&l);
  graph_unlock();
  failure_release(f);
  return found == CLEAR || found == BLOCKED; /* what fails says so when it is planned */
}

struct plan *eval_plan_leaves(int n, struct node *const target[], enum rule_tag rewrites, int *n_leaves, struct node ***leaf,
                              struct failure **failure) {
  struct eval e;
  struct plan *p = NULL;
  if (!eval_begin(&e, n, target, &(struct eval_options){ .only_targets = true })) return *failure = eval_no_memory(), NULL;
  if (!(*failure = plan_only(&e, rewrites, true, NULL))) {
    plan_retain(p = e.plan);
    if (leaf) *leaf = e.leaf, *n_leaves = e.n_leaves, e.leaf = NULL, e.n_leaves = 0;
  }
  eval_free(&e);
  return p;
}

struct plan *eval_plan_asked(int n, struct node *const target[], struct failure **failure) {
  struct eval e;
  if (!eval_begin(&e, n, target, &(struct eval_options){ 0 })) return *failure = eval_no_memory(), NULL;
  *failure = plan_only(&e, RULE_EXACT, false, NULL);
  struct plan *p = *failure ? NULL : e.plan;
  if (p) plan_retain(p);
  eval_free(&e);
  return p;
}

struct failure *eval_cost(int n, struct node *const target[], weft_cost *out) {
  struct eval e;
  int64_t given = 0;
  if (!eval_begin(&e, n, target, &(struct eval_options){ 0 })) return eval_no_memory();
  struct failure *f = plan_only(&e, RULE_EXACT, false, &given);
  if (!f) {
    const struct schedule *s = e.plan->schedule;
    *out = (weft_cost){ plan_peak(e.plan, eval_threads()) - given, s->cost.moved_bytes, s->cost.operations, s->n_steps, 0,
                        plan_scratch(e.plan, eval_threads()) };
    for (int i = 0; i < s->n_steps; i++) out->library_calls += plan_library_calls(e.plan, i);
  }
  eval_free(&e);
  return f;
}
