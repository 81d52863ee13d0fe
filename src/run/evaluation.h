/* evaluation.h -- an evaluation under way, as the files that carry it out see it; others see eval.h.
 *
 * eval.c goes from what was asked for to a plan that can run, past what is in the way (obstacle.c): what somebody else computes,
 * calls, moves, and loops whose sizes only a run can tell (length.c). program.c finds or makes the plan, claim.c says who computes
 * what, and publishes results; ahead.c plans without running. */
#ifndef WEFT_EVALUATION_H
#define WEFT_EVALUATION_H
#include <stdatomic.h>
#include "op/loop.h"
#include "run/eval.h"

/* What a node's attribute owns, held by the op's own rule: another thread may compute the node and end what it was made of. Not a
 * reference to a node, which would be somebody who may ask for its operands (donate.h). */
struct lent { const struct op *op; void *attr; };

/* An evaluation under way. */
struct eval {
  struct job job;                 /* first: in the background it is one */
  int n, n_leaves, n_asked;       /* targets; those of them that were asked for come first */
  bool had_ready;                 /* something that was asked for was there already */
  struct node **target;           /* with references */
  bool *forgets;
  struct node **leaf;             /* in the order of the plan, with references */
  const bool *is_constant;        /* by leaf: the same in every run; NULL: none is known to be */
  struct plan *plan;
  int n_lent;                     /* what nodes own that the plan calls while it runs: functions of the host, here and in loops */
  struct lent *lent;
  dim length;                     /* the last target tells it, and is nobody else's; 0: none does */
  struct eval_settings settings;
  bool in_background, only_targets, is_asked; /* by a user */
  bool has_names;                 /* in open scopes, by which somebody may ask how things were made */
  int n_heirs;
  struct heir *heir;
  struct node *call;              /* the one the targets are results of, held by whoever evaluates them; NULL: it does not matter */
  bool *dies;                     /* by leaf: nobody will ask for it; NULL: none of them */
  bool *hides;                    /* by target: its history is hidden; NULL: of none */
  struct eval *older, **link;     /* among those under way: graph lock */
  const void *thread;             /* whose evaluation it is: the address of its settings */
};

static inline struct failure *eval_no_memory(void) { return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory"); }

bool eval_captures_names(struct weft_function *); /* captured.c; it may have. Lock held; marks of a walk are gone */

static inline enum node_state node_state_of(const struct node *n) { return atomic_load_explicit(&n->state, memory_order_acquire); }
static inline bool node_has_value(const struct node *n) { return node_state_of(n) == NODE_READY || n->op == &op_scalar; }
/* Nobody computes it, nor will before this thread is done. */
static inline bool node_is_free(const struct node *n) {
  enum node_state s = node_state_of(n);
  return s == NODE_LAZY || (s == NODE_QUEUED && job_is_here());
}
/* A size that is known needs no array: it may be that of a name, mapped over or called with another array since. But one that was
 * taken on trust does, until somebody has looked. */
static inline bool is_known_size(const struct node *n) {
  return n->op->kind == OP_SIZE && dim_is_known(dim_resolve(((const struct size_attr *)n->attr)->size)) &&
         !(n->n_in && node_is_trusting(n->in[0]));
}

/* eval.c */
bool eval_begin(struct eval *, int n, struct node *const target[], const struct eval_options *); /* false: out of memory */
struct failure *eval_await_change(const struct eval_settings *); /* until somebody has computed, failed or given up something; lock
                                                held, but not meanwhile */

/* obstacle.c; graph lock held */
enum obstacle { CLEAR, BLOCKED, WAITS, CALLS, UNSIZED, MOVES, UNWRITTEN };
/* The call or loop that is in the way, which is run for all of its results that are wanted; NULL: something else is, or nothing. */
static inline struct node *obstacle_many(enum obstacle found, struct node *which) {
  return found == CALLS ? which : found == UNSIZED ? which->in[0] : NULL;
}
static inline bool is_wanted_of(const struct node *n, const struct node *many) {
  return n->op->kind == OP_ITEM && !node_has_value(n) && n->in[0] == many;
}
void eval_settle_sizes(struct node *);       /* of the node itself: those that have been told */
bool eval_settle(const struct node_list *);  /* sizes that have become known since the nodes were made. false: out of memory */
bool eval_walk(struct node_list *, int n, struct node *const target[]); /* all that the targets need, with the sizes that are known
                                                by now: who plans walks so. false: out of memory */
enum obstacle eval_find_obstacle(const struct node_list *, struct failure **, struct node **which);

/* program.c; graph lock held */
bool eval_add_held(struct eval *, const struct node_list *, bool only_looks); /* what somebody will want again joins the targets */
bool eval_take_leaves(struct eval *, const struct node_list *);
struct failure *eval_find_plan(struct eval *, const struct node_list *, enum rule_tag); /* and what it calls while it runs; unlocked
                                                while a plan is made */

/* claim.c */
bool eval_claim(struct eval *);              /* the targets, all or none; lock held */
void eval_unclaim(struct eval *);            /* they are as before: a job has still to compute its own; lock held */
struct failure *eval_circle(int n, struct node *const[]); /* a function of the host asks for what waits for it; lock held */
bool eval_may_forget(const struct eval *, int target);
bool eval_may_donate(const struct eval *);
void eval_donate(struct eval *), eval_end_donation(struct eval *, bool is_done); /* lock held */
void eval_leaves(const struct eval *, struct leaf[]);
struct failure *eval_run(struct eval *);     /* the plan, on targets that are claimed; they get their values */
void eval_give_up(struct eval *, struct failure *);
struct failure *eval_run_or_give_up(struct eval *);
void eval_drop_plan(struct eval *), eval_free(struct eval *);

/* length.c */
/* Runs the loop of these items, or finds how often it runs. */
struct failure *eval_size_loop(struct node *loop, int n, struct node *const item[]);
struct failure *eval_integer(struct node *, int64_t *);      /* its value, once it is computed: 0-d */
struct failure *eval_tell_length(struct node *, dim length); /* the node is the length of a loop that has run */

#endif
