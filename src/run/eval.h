/* eval.h -- evaluation: from nodes that somebody wants to values.
 *
 * One path for everything: a walk, a key, a plan (found or made), a run. Ready nodes are leaves. What fails leaves the
 * graph as it was; what was started in the background and fails makes its nodes failed, unless it was cancelled. */
#ifndef WEFT_EVAL_H
#define WEFT_EVAL_H
#include "graph/scope.h"
#include "run/donate.h"
#include "run/plan.h"

/* Targets that a user has asked for (fn is set, or only_targets is not) forget their history once they have a value, if
 * somebody's owner keeps them after their scope: nobody but a trace can ask for it. */
struct eval_options {
  const char *fn;           /* what the user has called; NULL: weft_eval */
  bool in_background;       /* return once it is started */
  bool only_targets;        /* store nothing else, even if somebody holds it (a scope that closes) */
  bool has_names;           /* of scopes, whatever thread this is (see struct eval) */
  int n_heirs;              /* updates the targets are for (donate.h): they may be done when this returns */
  struct heir *heir;
};
weft_status eval_nodes(int n, struct node *const target[], const struct eval_options *, struct failure **);
bool eval_has_names(int n, struct node *const target[]); /* whoever asks for them, or another thread, has arrays in open scopes,
                                   which may show how these were made. What is loose is in none */
bool eval_stops(const struct node *); /* an evaluation does not look below it: it has a value, or is a leaf */
/* Until none of them is queued or running. TIMEOUT has no failure. */
weft_status eval_wait(int n, struct node *const target[], double seconds, struct failure **);
struct failure *eval_look(int n, struct node *const target[]); /* why they cannot be computed, as far as one can see now */

/* nan_origin.c: a nan in one of these, which have been computed, as a failure that says where it arose. NULL: there is none, as far
 * as this thread's WEFT_CHECK cares. */
struct failure *nan_find(int n, struct node *const target[]);

/* Until what is enqueued on devices for those that are ready is done. */
weft_status values_await(int n, struct node *const[], double seconds, struct failure **); /* below 0: without end. Or until this
                                   thread's work is cancelled. TIMEOUT has no failure; what is enqueued goes on */
/* Copies a ready node's elements, row by row; waits for them. */
weft_status value_copy(const struct node *, void *dst, struct failure **);

/* This thread's settings. */
struct eval_settings {
  const volatile int *cancel;
  int threads, device, check;
  int strange;              /* of the environment: one that is not understood (environment.c); 0: none */
  int place;                /* 1 + the device of the call that is being evaluated; 0: none is placed */
  enum rule_tag rewrites;
  enum { HALVES_IN_ORDER, HALVES_LOOSE, HALVES_AS_USUAL } halves; /* WEFT_HALVES */
  bool blas, tf32, is_known; /* WEFT_BLAS, WEFT_TF32 */
};
extern _Thread_local struct eval_settings own_settings;
struct eval_settings *eval_settings_begin(void); /* as the environment says */
int environment_strange(void);                   /* environment.c: the first of its variables that is not understood; 0: none */
struct failure *environment_failure(int strange);
static inline struct eval_settings *eval_settings(void) {
  struct eval_settings *s = &own_settings;
  return s->is_known ? s : eval_settings_begin();
}
/* A number for the settings that say how products are computed, below 16: plans differ by it. */
static inline int eval_products(const struct eval_settings *s) { return 4 * (int)s->halves + 2 * s->tf32 + s->blas; }
/* Whether sums of products of halves may be in the order of the machine; device NULL: the CPU. */
static inline bool eval_is_loose(const struct eval_settings *s, const struct device *device) {
  return s->halves == HALVES_AS_USUAL ? device != NULL : s->halves == HALVES_LOOSE;
}
/* Where it is to be computed: where it is placed, or where this thread says. */
static inline int device_for(const struct node *n, const struct eval_settings *s) {
  return n->place ? n->place - 1 : s->place ? s->place - 1 : s->device;
}
static inline int eval_device(const struct node *n) { return device_for(n, eval_settings()); }
int eval_threads(void);      /* the most for work started by this thread */
bool eval_is_to_tell(void);  /* somebody wants to know before work of more than a moment begins */
void eval_before_long(void); /* calls whom weft_before_long named on this thread */

/* Jobs in the background, one after the other, on a thread of weft's own (async.c). */
struct job {
  struct failure *(*run)(struct job *); /* with the settings of the thread that started it; why it failed */
  void (*end)(struct job *);            /* releases what it holds; its own block, from mem_alloc, goes afterwards */
  struct eval_settings settings;
  uint64_t thread;                      /* the caller that started it; 0: it has ended */
  int n;                                /* arrays that it was started for; an update or a fetch is none */
  uint64_t *serial;                     /* of their nodes, in the job's own block: it holds them no longer once it has ended */
  struct failure *failure;
  struct verdict *verdict;              /* of what it has enqueued; NULL: nothing is open */
  bool needs_caller;                    /* it has been put off: whoever waits runs it */
  bool tells_anyway;                    /* of its failure, though it was seen elsewhere: a fetch failed that says so nowhere */
  struct job *next;
};
void job_start(struct job *);           /* takes it over. If no thread is to be had it runs here and now */
void jobs_watch_forks(void);            /* before any other call of these */
bool job_is_here(void);                 /* this thread is running one */
bool job_put_off(void);                 /* true: it runs in the background and must not; it is given up, and begun again by
                                           whoever waits for it */
bool job_is_put_off(void);              /* the one that this thread is running */
bool job_wait(double seconds);          /* until none that this thread started is left; false: timed out */
struct failure *job_failure(void);      /* of the first job of this thread that failed unnoticed; with a reference, or NULL */
struct failure *job_failure_of(const struct node *); /* the same of those that were started for it; the others are told later */
bool job_is_stuck(void);                /* after a fork: there are jobs, and nobody who does them */
void job_resume(void);                  /* they go on, if need be here and now; graph lock not held */

/* The plan of a graph whose leaves are ready; leaf not NULL: those, with references, in the order the plan knows. */
struct plan *eval_plan_leaves(int n, struct node *const target[], enum rule_tag rewrites,
                              int *n_leaves, struct node ***leaf, struct failure **);
/* What weft_eval would do, storing also what somebody holds and would have to compute again; and what that costs. */
struct plan *eval_plan_asked(int n, struct node *const target[], struct failure **);
struct failure *eval_cost(int n, struct node *const target[], weft_cost *);
/* Runs a plan whose leaves are known for nodes nobody has claimed yet; does nothing if somebody has. All of them are held by
 * the caller meanwhile. The heirs are the updates that the nodes are for, with the call whose results they are, which the caller
 * holds too; forgets: by node, whether it will have no history, so that arguments which nobody else holds go with the call. NULL:
 * neither. is_constant: by leaf, or NULL; see struct leaf. */
struct heirs { int n; struct heir *heir; struct node *call; const bool *forgets; };
struct failure *eval_claimed(int n, struct node *item[], struct plan *, int n_leaves, struct node *leaf[], const bool *is_constant,
                             const struct heirs *);
bool eval_is_clear(int n, struct node *const target[]); /* nothing must be computed before they can be planned; waits for
                                                           what others compute of them */
bool eval_moves(const struct node *); /* move.c: it is to be brought to its place before the rest is planned */
struct failure *eval_move(struct node *, struct node *x); /* the same: it is; x: its operand, which the caller holds */
bool eval_is_one_place(int n, struct node *const target[]);
weft_status eval_by_place(int n, struct node *const target[], const struct eval_options *, struct failure **);
/* Results of one call that are computed together: those that are wanted, then those that are held beside them (siblings.c). */
struct results {
  int n, n_wanted;
  bool some_forget;
  bool *forgets;
  struct node **item;
  void *room;
  struct node *few[16];
  bool few_forget[16];
};
bool results_begin(struct results *, const struct node *call, int n); /* room for n, and those beside. false: out of memory */
void results_want(struct results *, struct node *item, bool forgets); /* borrowed */
void results_add_held(struct results *, const struct node *call, bool has_names); /* when all that are wanted are there; has_names:
                                             somebody may ask for the history of what no owner has. Lock held; the caller has a
                                             reference to the call */
void results_forget(const struct results *); /* the history of those that are held, once they are computed */
void results_end(struct results *);
/* call_plans.c: the results get their values, or at least those that are wanted. */
struct failure *eval_call(struct node *call, const struct results *, int n_heirs, struct heir heir[]);
struct failure *eval_uneven(struct node *loop, int n, struct node *item[]); /* uneven.c: items of one loop, whose steps are a known
                                             number, and which the caller holds */
struct failure *eval_bind(dim symbol, int64_t number); /* length.c: a size that a run has told; the lock is not held */
/* Results that have their values: the items, which nobody has claimed yet, get those. */
struct failure *eval_hand_over(int n, struct node *item[], struct node *const result[]);
/* A short cut: if the targets are the items of one call whose arguments have their values they are computed without a walk;
 * else nothing happens. Either way eval_nodes does what is left. Arguments that are updated by them give them their memory. */
struct failure *eval_ready_call(int n, struct node *target[], int n_heirs, struct heir heir[]);
/* The same in the background, on a device: if it takes no more than to enqueue some kernels, that is done here and now. False:
 * nothing has happened, and a job is to do it. */
bool eval_enqueue_call(int n, struct node *target[]);
void eval_after_fork(void);             /* in the child, graph lock held: what others were computing nobody does */

#endif
