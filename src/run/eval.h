/* eval.h -- evaluation: from nodes that somebody wants to values.
 *
 * One path for everything: a walk, a key, a plan (found or made), a run. Ready nodes are leaves. What fails leaves the
 * graph as it was; what was started in the background and fails makes its nodes failed. */
#ifndef WEFT_EVAL_H
#define WEFT_EVAL_H
#include "graph/scope.h"
#include "run/plan.h"

struct eval_options {
  bool in_background;       /* return once it is started */
  bool only_targets;        /* store nothing else, even if somebody holds it (a scope that closes) */
  const bool *forgets;      /* by target: its history may go once it has a value; NULL: none */
};
weft_status eval_nodes(int n, struct node *const target[], const struct eval_options *, struct failure **);
weft_status eval_wait(int n, struct node *const target[], double seconds, struct failure **); /* TIMEOUT has no failure */

/* Copies a ready node's elements, row by row. */
weft_status value_copy(const struct node *, void *dst, struct failure **);

/* This thread's settings. */
struct eval_settings { const volatile int *cancel; int threads, device; bool exact, is_known; };
struct eval_settings *eval_settings(void);

/* Jobs in the background, one after the other, on a thread of weft's own (async.c). */
struct job { void (*run)(struct job *); struct job *next; };
bool job_start(struct job *);       /* false: no thread to be had; nothing happened */
void job_stop(void);                /* waits until none is left and ends the thread */

/* The plan of a graph whose leaves are ready; leaf not NULL: those, with references, in the order the plan knows.
 * with_held: as weft_eval would, storing also what somebody holds and would have to compute again. */
struct plan *eval_plan_leaves(int n, struct node *const target[], bool stable, bool with_held, int *n_leaves, struct node ***leaf,
                              struct failure **);
/* Runs a plan whose leaves are known for nodes nobody has claimed yet; does nothing if somebody has. */
struct failure *eval_claimed(int n, struct node *const item[], struct plan *, int n_leaves, struct node *const leaf[]);
struct failure *eval_call(int n, struct node *const item[]); /* call.c: items of one call */

#endif
