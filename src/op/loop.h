/* loop.h -- making loops: from parts whose bodies may refer to anything, or step by step through the public calls. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H
#include "op/op.h"

struct subgraph;

struct serials { uint64_t from, to; };       /* of nodes: those from .. to - 1 */

/* Nothing here is counted: the maker keeps what he needs. */
struct loop_parts {
  struct node *steps;                        /* 0-d integer that says how many, or NULL: n_steps says it */
  dim n_steps;                               /* all sequences have exactly so many rows; INT64_MAX: only until ends it */
  bool owns_steps;                           /* n_steps is a symbol made for this loop, bound to the value of steps */
  bool is_backward;
  uint64_t since;                            /* not 0: a branch, whose nodes since that serial are computed inside; .. */
  int n_own;
  const struct serials *own;                 /* .. if they are among these, in order; NULL: all */
  int64_t truncate;                          /* as in struct loop */
  int n_seq, n_carry, n_all;
  struct node *const *seq, *const *seq_var;  /* [n_steps, d..] and a variable of [d..] */
  struct node *const *init, *const *carry_var, *const *next;
  struct node *const *all;
  struct node *until;                        /* NULL: none */
};

/* The loop node, with a reference. Whatever the bodies use that does not depend on a variable becomes a constant of the
 * loop: computed once, before it, but for what a branch computes itself. NULL: *failure says why. */
struct node *loop_make(const struct loop_parts *, struct failure **);

/* p ? a : b for each of n results, as two loops of 0 or 1 steps (cond.c). The second, with a reference, whose last carries are the
 * results; NULL: *failure. Sides have one dtype and shape. */
struct side { struct node *a, *b; };
struct choice {
  struct node *p;                            /* 0-d bool */
  int n;
  const struct side *side;
  uint64_t since;                            /* as in loop_parts, and own[0] of a, own[1] of b */
  int n_own[2];
  const struct serials *own[2];
};
struct node *choice_make(const struct choice *, struct failure **failure);

/* Whether its steps need not be known before it runs: no size depends on them, and they are not below 0 whatever they are. */
bool loop_runs_blind(const struct loop *, const struct node *steps);

struct node *loop_var(weft_dtype, int rank, const dim dims[]); /* NULL: out of memory */
static inline struct loop *loop_of(const struct node *n) { return ((const struct loop_attr *)n->attr)->loop; }

/* The loop without the products that depend on sequences alone: these are sequences (loop_hoist.c). parts is what is left,
 * to be used before hoist_free, which is due in any case. false: *failure. */
struct hoist {
  struct loop_parts parts;
  int n, n_bodies;
  struct node **from, **var, **seq, **body; /* what was taken out, what stands for it, all steps of it; new bodies. References */
  struct node **all_seq, **all_var;
};
bool loop_hoist(const struct loop_parts *, struct hoist *, struct failure **);
void hoist_free(struct hoist *);

/* How many steps an array says there are, as arithmetic of the first sequence's size; DIM_BAD: that is not known to tell it. */
dim loop_steps_told(const struct loop_parts *, struct node *count);

/* The same results, n_all stacked ones and n_carry last ones, by a loop over segments of k steps, whose gradient keeps the
 * carries before each segment only. count: how many steps there are, as an array, and sequences may have more rows; NULL: their
 * number is known and at least k. No until ends it. References; false: *failure, and those that are there are the caller's. */
bool loop_in_segments(const struct loop_parts *, int64_t k, struct node *count, struct node *out[], struct failure **);

/* How many steps until lets it make, by a loop that has no other result: an array with a reference. NULL: *failure, or
 * there is no memory. */
struct node *loop_count_until(const struct loop_parts *, struct failure **);

/* The same results, but of stacked output i only the last tail[i] steps (0: of all), by loops one after the other
 * (loop_stretches.c). count: how many steps there are, as an array; NULL: the number is known, or until says it. every: as k
 * above, 0: carries are all kept. Sequences may have more rows. */
bool loop_in_stretches(const struct loop_parts *, const int64_t tail[], int64_t every, struct node *count, struct node *out[],
                    struct failure **);

/* Scalars and iotas are leaves of bodies; each body has its own. So has it of what has several results and no inputs, as a loop
 * that reads nothing: that has no value which could be captured, and nothing leads to it that a copy of the body replaces. */
bool loop_is_leaf(const struct node *);
bool loop_is_bare(const struct subgraph *, int i);
struct node *loop_leaf_again(const struct node *);             /* NULL: out of memory */

struct node *loop_cut(struct node *xs, dim n);                 /* its first n rows, with a reference; NULL: out of memory */
bool loop_items(struct node *loop, int n_all, int n_carry, struct node *out[]); /* stacked results, then the last of every
                                                                                   carry: references. false: no memory */
int loop_count(const struct node *);   /* of results */
weft_dtype loop_type(const struct node *, int k, int *rank, dim dims[]); /* of result k; returns its dtype */

/* Where things stand among the inputs and results of a loop node. */
static inline int loop_in_seq(const struct loop *l, int k) { return l->has_steps + k; }
static inline int loop_in_carry(const struct loop *l, int k) { return l->has_steps + l->n_seq + k; }
static inline int loop_in_const(const struct loop *l, int k) { return l->has_steps + l->n_seq + l->n_carry + k; }
static inline int loop_out_last(const struct loop *l, int k) { return l->n_all + k; }
bool loop_is_length(const struct node *); /* of a loop: how many steps it has made */
static inline int loop_out_length(const struct loop *l) { return l->n_all + l->n_carry; }
static inline int loop_out_kept(const struct loop *l, int k) { return l->n_all - l->n_carry + k; } /* carries before steps */

#endif
