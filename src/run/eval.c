/* eval.c -- from what was asked for to a plan that runs: one loop, which takes one obstacle after the other out of the way. See
 * evaluation.h. */
#include "run/evaluation.h"
#include "base/clock.h"
#include "base/mem.h"
#include "graph/function.h"
#include "op/later.h"
#include "run/device.h"
#include "run/held.h"
#include "run/tape.h"
#include "run/verdict.h"

static bool is_asked(const struct eval_options *o) { return o->fn || !o->only_targets; }

bool eval_has_names(int n, struct node *const target[]) {
  for (int i = 0; i < n; i++) if (!node_is_loose(target[i])) return true;
  return scope_has_names();
}

bool eval_begin(struct eval *e, int n, struct node *const target[], const struct eval_options *o) {
  const struct eval_settings *s = eval_settings();
  *e = (struct eval){ .n = n, .n_asked = n, .settings = *s, .in_background = o->in_background,
                      .only_targets = o->only_targets, .is_asked = is_asked(o), .n_heirs = o->n_heirs, .heir = o->heir };
  bool is_of_user = is_asked(o) && !o->only_targets; /* what a scope that closes computes is its own */
  e->has_names = o->has_names || (is_of_user ? eval_has_names(n, target) : scope_has_names());
  if (n) e->settings.device = device_for(target[0], s);
  e->target = mem_alloc(sizeof *e->target * (size_t)(n + 1));
  e->forgets = mem_alloc((size_t)n + 1);
  if (!e->target || !e->forgets) {
    mem_free(e->target);
    mem_free(e->forgets);
    return false;
  }
  for (int i = 0; i < n; i++) {
    e->target[i] = node_retain(target[i]);
    e->forgets[i] = is_asked(o) && node_is_loose(target[i]);
  }
  return true;
}

/* Leaves out what is there already: since long, or as the result of a call or loop that came first. */
static void drop_ready(struct eval *e) {
  int n = 0, asked = 0;
  for (int i = 0; i < e->n; i++) {
    if (node_state_of(e->target[i]) == NODE_READY) {
      if (eval_may_forget(e, i)) node_forget(e->target[i]);
      node_release(e->target[i]), e->had_ready = true;
      continue;
    }
    e->forgets[n] = e->forgets[i];
    e->target[n++] = e->target[i];
    asked += i < e->n_asked;
  }
  e->n = n;
  e->n_asked = asked;
}

/* The results of a call or loop that the list wants, with references. -1: out of memory. */
static int items_of(const struct node_list *l, const struct node *many, struct node ***item) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += is_wanted_of(l->node[i], many);
  if (!(*item = mem_alloc(sizeof **item * (size_t)(n + 1)))) return -1;
  n = 0;
  for (int i = 0; i < l->n; i++) if (is_wanted_of(l->node[i], many)) (*item)[n++] = node_retain(l->node[i]);
  return n;
}

/* Whether it was asked for and will have no history: whatever it is made of goes, if nobody else holds it. `at`: where to look
 * first, as results are asked for in a row. */
static bool item_forgets(const struct eval *e, const struct node *item, int *at) {
  for (int tries = 0; tries < e->n; tries++, *at = (*at + 1) % e->n)
    if (e->target[*at] == item) return eval_may_forget(e, *at);
  return false;
}

/* The results of a call that the list wants, and those that are held beside. The caller has references to the former. */
static bool take_results(struct results *r, const struct eval *e, const struct node *call, int n, struct node *const item[]) {
  if (!results_begin(r, call, n)) return false;
  for (int i = 0, at = 0; i < n; i++) results_want(r, item[i], item_forgets(e, item[i], &at));
  results_add_held(r, call, e->has_names);
  return true;
}

/* Whether jobs lay idle, and have been made to go on; lock held, but not meanwhile. */
static bool resumed(void) {
  if (!job_is_stuck()) return false;
  graph_unlock();
  job_resume();
  graph_lock();
  return true;
}

struct failure *eval_await_change(const struct eval_settings *s) {
  eval_before_long();
  if (!resumed()) graph_wait(s->cancel ? 0.02 : -1);
  return plan_stopped(s->cancel);
}

/* Sizes that nobody tells. A result of a loop is in the way once or twice, for the number of steps and for the length; and again
 * if somebody else had begun it and gave up. One that is in the way again and again has run, and what waits for its size does
 * not hear of it. */
struct patience { uint64_t serial; int n_met; }; /* which one, and how often in a row */
enum { MOST_MET = 64 };

static struct failure *met_again(struct patience *p, const struct node *which) {
  p->n_met = p->serial == which->serial ? p->n_met + 1 : 1;
  p->serial = which->serial;
  if (p->n_met <= MOST_MET) return NULL;
  return fail(WEFT_ERR_INTERNAL, which->origin, "weft_eval: a loop has run, and nothing tells the size that waits for it");
}

/* Nothing is in the way: the plan is found and the targets are claimed. *again: while a plan was made somebody computed or claimed
 * one of them. Ends the list, and unlocks. */
static struct failure *plan_and_claim(struct eval *e, struct node_list *l, bool *again) {
  bool ok = (!e->is_asked || held_forget(l, e->n, e->target, e->forgets, e->has_names)) &&
            (e->only_targets || eval_add_held(e, l, false)) && eval_take_leaves(e, l);
  struct failure *f = ok ? eval_find_plan(e, l, RULE_EXACT) : eval_no_memory();
  *again = !f && !eval_claim(e);
  if (!f && !*again && eval_may_donate(e)) eval_donate(e);
  node_list_free(l);
  graph_unlock();
  if (*again) eval_drop_plan(e);
  return f;
}

/* The operands of an op_later, with references; NULL: out of memory. */
static struct node **operands_of(const struct node *n) {
  struct node **in = mem_alloc(sizeof *in * (size_t)(n->n_in + 1));
  for (int k = 0; in && k < n->n_in; k++) in[k] = node_retain(n->in[k]);
  return in;
}

/* Writes an op_later, now that sizes are known, and computes it. Ends the list of its operands. */
static struct failure *run_written(struct node *n, struct node **in) {
  struct failure *f = in ? NULL : eval_no_memory();
  tape_spoil();
  struct node *y = in ? later_written(n, in, &f) : NULL;
  if (y && y->op == &op_later) f = fail(WEFT_ERR_INTERNAL, n->origin, "weft_eval: sizes are known, and nothing is written of them");
  if (!f && !eval_nodes(1, &y, &(struct eval_options){ .only_targets = true }, &f)) f = eval_hand_over(1, &n, &y);
  node_release(y);
  if (in) nodes_release(n->n_made, in);
  mem_free(in);
  return f;
}

/* Runs what must run first, with the lock given up. Others may drop what leads to it, and give it a value and drop what it is made
 * of, from then on: what is needed is held. f: that of the obstacle itself. Ends the list, and unlocks. */
static struct failure *run_first(struct eval *e, struct node_list *l, enum obstacle what, struct node *which, struct failure *f) {
  struct node **item = NULL;
  const struct node *many = obstacle_many(what, which);
  int n_items = many ? items_of(l, many, &item) : 0;
  struct results r;
  dim length = what == UNSIZED ? ((const struct loop_attr *)many->attr)->loop->length : 0;
  which = what >= CALLS ? node_retain(which) : NULL;
  struct node *operand = what == MOVES || what == UNSIZED ? node_retain(which->in[0]) : NULL;
  struct node **operand_list = what == UNWRITTEN ? operands_of(which) : NULL;
  bool has_room = n_items >= 0 && (what != CALLS || take_results(&r, e, which, n_items, item));
  node_list_free(l);
  graph_unlock();
  if (!has_room) f = eval_no_memory();
  else if (what == MOVES) f = eval_move(which, operand);
  else if (what == CALLS) f = eval_call(which, &r, 0, NULL), results_end(&r);
  else if (what == UNWRITTEN) f = run_written(which, operand_list);
  else if (what == UNSIZED) f = n_items ? eval_size_loop(operand, n_items, item) : eval_tell_length(which, length);
  node_release(operand);
  node_release(which);
  if (item) nodes_release(n_items, item);
  mem_free(item);
  return f;
}

/* Up to the point where a plan can run: e->plan is set and the targets are claimed, or nothing is left to do. */
static struct failure *approach(struct eval *e) {
  struct failure *f = NULL;
  struct patience patience = { 0 };
  for (bool again = true; again && !f;) {
    struct node_list l;
    struct node *which = NULL;
    graph_lock();
    drop_ready(e);
    if (!e->n) return graph_unlock(), NULL;
    if (!eval_walk(&l, e->n, e->target)) return graph_unlock(), eval_no_memory();
    enum obstacle in_the_way = eval_find_obstacle(&l, &f, &which);
    if (in_the_way == CLEAR) { f = plan_and_claim(e, &l, &again); continue; }
    if (in_the_way == WAITS) patience.n_met = 0;
    if (in_the_way == WAITS && !(f = eval_circle(l.n, l.node))) f = eval_await_change(&e->settings);
    if (in_the_way == UNSIZED && (f = met_again(&patience, which))) in_the_way = BLOCKED;
    f = run_first(e, &l, in_the_way, which, f);
  }
  return f;
}

static struct failure *attempt(struct eval *e) {
  eval_drop_plan(e); /* there is one if a child of fork begins a job again */
  struct failure *f = approach(e);
  return !f && e->plan ? eval_run(e) : f;
}

/* What nobody has asked for is stored only if there is room for it. */
static bool asks_for_less(struct eval *e, const struct failure *f) {
  if (failure_status(f) != WEFT_ERR_MEMORY || e->n == e->n_asked) return false;
  graph_lock();
  if (e->link) eval_unclaim(e);
  graph_unlock();
  nodes_release(e->n - e->n_asked, e->target + e->n_asked);
  e->n = e->n_asked;
  return e->only_targets = true;
}

static struct failure *compute(struct eval *e) {
  struct failure *f = attempt(e);
  if (f && asks_for_less(e, f)) failure_release(f), f = attempt(e);
  if (f) eval_give_up(e, f);
  return f;
}

/* Drops the history of what was asked for, once it has its value and, if need be, was checked. */
static inline void forget(int n, struct node *const asked[]) {
  bool some = false;
  for (int i = 0; i < n; i++) some |= node_is_loose(asked[i]) && node_has_history(asked[i]);
  if (!some) return;
  graph_lock();
  for (int i = 0; i < n; i++)
    if (node_is_loose(asked[i]) && node_state_of(asked[i]) == NODE_READY) node_forget(asked[i]);
  graph_unlock();
}

/* The same, and if it is to be checked a nan in the targets is a failure; their values stay. A job keeps their verdict, so that
 * whoever waits for all that his thread has started hears of it. */
static struct failure *compute_checked(struct eval *e) {
  int n = e->n;
  struct node **asked = mem_alloc(sizeof *asked * (size_t)(n + 1));
  for (int i = 0; asked && i < n; i++) asked[i] = node_retain(e->target[i]);
  struct failure *f = asked ? compute(e) : eval_no_memory();
  if (!asked) eval_give_up(e, f);
  if (!f && e->settings.check) f = nan_find(n, asked);
  if (!f && e->settings.check) forget(n, asked);
  if (!f && e->in_background) verdict_release(e->job.verdict), f = verdict_join(n, asked, &e->job.verdict);
  nodes_release(asked ? n : 0, asked);
  mem_free(asked);
  return f;
}

static struct failure *run_job(struct job *j) { return compute_checked((struct eval *)j); }

static void end_job(struct job *j) { eval_free((struct eval *)j); }

/* Whether a result of a call may read a name that its function has captured. */
static bool may_read_names(const struct node_list *l) {
  bool may = false;
  if (!atomic_load_explicit(&calls_some, memory_order_relaxed)) return false;
  for (int i = 0; i < l->n && !may; i++)
    if (l->node[i]->op == &op_call) may = eval_captures_names(((const struct call_attr *)l->node[i]->attr)->function);
  return may;
}

/* What can be seen to fail does so at once, and nothing has happened. If `reads_names` is given, what may read a name is not looked
 * at, and said to be so. Lock held. */
static struct failure *look_ahead(int n, struct node *const target[], bool *reads_names) {
  struct node_list l;
  struct node *which;
  struct failure *f = NULL;
  if (!eval_walk(&l, n, target)) return eval_no_memory();
  if (reads_names) *reads_names = may_read_names(&l);
  if (!(reads_names && *reads_names) && eval_find_obstacle(&l, &f, &which) == CLEAR) f = unsized_in(&l);
  node_list_free(&l);
  return f;
}

struct failure *eval_look(int n, struct node *const target[]) {
  graph_lock();
  struct failure *f = look_ahead(n, target, NULL);
  graph_unlock();
  return f;
}

/* In the background; false: at once instead. A name that may be read is told at once, as of any other name, so no job is started:
 * what reads a name does not fail, as it is still to be used where the name is one of something. */
static bool start(int n, struct node *const target[], const struct eval_options *o, struct failure **failure) {
  bool reads_names = false;
  struct eval *e = mem_alloc(sizeof *e + (size_t)n * sizeof *e->job.serial);
  if (!e || !eval_begin(e, n, target, o)) return mem_free(e), *failure = eval_no_memory(), true;
  graph_lock();
  struct failure *f = look_ahead(n, target, o->n_heirs ? NULL : &reads_names);
  bool is_started = !f && !reads_names;
  for (int i = 0; is_started && i < n; i++) if (node_state_of(target[i]) == NODE_LAZY) node_set_state(target[i], NODE_QUEUED);
  graph_unlock();
  for (int i = 0; is_started && i < n; i++) if (eval_device(target[i])) device_started();
  e->job.run = run_job;
  e->job.end = end_job;
  e->job.n = n, e->job.serial = (uint64_t *)(e + 1);
  for (int i = 0; i < n; i++) e->job.serial[i] = target[i]->serial;
  if (is_started) return job_start(&e->job), true;
  eval_free(e);
  mem_free(e);
  *failure = f;
  return !reads_names;
}

/* Apart from eval_nodes: what has its values needs none of the room that an evaluation takes. */
static __attribute__((noinline)) weft_status evaluate(int n, struct node *const target[], const struct eval_options *o, bool checks,
                                                      struct failure **failure) {
  struct eval e;
  struct eval_options at_once = *o;
  at_once.in_background = false;
  if (!eval_is_one_place(n, target)) return eval_by_place(n, target, o, failure);
  bool is_started = o->in_background && start(n, target, o, failure);
  if (!is_started && !eval_begin(&e, n, target, &at_once)) *failure = eval_no_memory();
  else if (!is_started) {
    *failure = checks ? compute_checked(&e) : compute(&e);
    eval_free(&e);
  }
  if (*failure && o->fn) *failure = failure_for(*failure, o->fn);
  return *failure ? failure_status(*failure) : WEFT_OK;
}

weft_status eval_nodes(int n, struct node *const target[], const struct eval_options *o, struct failure **failure) {
  bool there = true, checks = is_asked(o) && eval_settings()->check;
  *failure = NULL;
  for (int i = 0; i < n; i++) there &= node_state_of(target[i]) == NODE_READY;
  if (!there || checks) return evaluate(n, target, o, checks, failure);
  if (is_asked(o)) forget(n, target);
  return WEFT_OK;
}

static bool is_awaited(const struct node *n) { return node_state_of(n) == NODE_QUEUED || node_state_of(n) == NODE_RUNNING; }

weft_status eval_wait(int n, struct node *const target[], double seconds, struct failure **failure) {
  weft_status status = WEFT_OK;
  double end = clock_seconds() + seconds;
  graph_lock();
  *failure = eval_circle(n, target);
  if (*failure) status = failure_status(*failure);
  for (int i = 0; i < n && !status; i++) {
    bool is_started = is_awaited(target[i]);
    while (!status && is_awaited(target[i]))
      if (!resumed() && !graph_wait(clock_left(seconds, end)) && is_awaited(target[i])) status = WEFT_ERR_TIMEOUT;
    if (!status && node_state_of(target[i]) == NODE_FAILED) *failure = failure_retain(target[i]->failure);
    if (!status && is_started && node_state_of(target[i]) == NODE_LAZY)
      *failure = fail(WEFT_ERR_CANCELLED, target[i]->origin, "weft_wait: whoever computed it gave up");
    if (*failure) status = failure_status(*failure);
  }
  graph_unlock();
  return status;
}
