/* loop_form.h -- a loop as a value: its body, written once, and what it is run on. */
#ifndef WEFT_OP_LOOP_FORM_H
#define WEFT_OP_LOOP_FORM_H
#include "graph/node.h"

/* ---- Loops: the one form. Results: all[0..n_all), last[0..n_carry), then the executed length (0-d i64). ---------------
 * Inputs of the node: steps (if has_steps, a 0-d integer), sequences (exactly `steps` rows each), initial carries,
 * constants. Bodies refer to the loop's own variables, scalars and iotas only, and share no node with the graph around.
 * The last n_carry of `all` (but for branches, and loops that only until ends) are the values of the carries before each
 * step: what a gradient needs. A result without an item is not wanted, and costs nothing (rewrite/ takes it out). The
 * node itself is 0-d i64 and has no value of its own. */
struct loop_attr {
  struct loop *loop; /* counted by nodes that refer to it, through the op's hold and drop */
};
enum { LOOP_CONSTANT = -1 };
struct loop {
  _Atomic int refs;
  int n_seq, n_carry, n_const, n_all;
  bool has_steps;
  bool is_branch;                                  /* of 0 or 1 steps, and nothing of its body is computed before it; it
                                                      keeps no carries: they are the initial ones */
  bool is_backward;                                /* runs from the last row of sequences and stacked outputs to the first */
  bool is_settled;                                 /* graph lock: all sizes in its bodies are numbers */
  bool is_uneven;                                  /* sizes in its body differ from step to step: those of loops inside */
  bool is_late;                                    /* something in its body is written when sizes are known (later.h) */
  bool needs_length;                               /* a loop inside makes as many steps as one outside, or a node inside is as
                                                      large or begins there: that one has to run before */
  struct node **seq_var, **carry_var, **const_var; /* op_loop_var leaves of the body; seq_var has the dims of one element */
  int *factor;                                     /* while it is scheduled: by sequence, the constant that its elements are
                                                      multiplied by where the body reads them, or -1; NULL: none */
  struct node **next;                              /* n_carry: bodies */
  struct node **all;                               /* n_all: bodies of stacked outputs */
  struct node *until;                              /* 0-d bool body, evaluated after the step; NULL: none */
  dim steps;                                       /* at most so many: a number or a symbol (bound to the value of the
                                                      steps input). INT64_MAX: only until ends it; then n_all is 0 */
  bool owns_steps;                                 /* steps is a symbol made for this loop */
  int64_t truncate;                                /* reverse mode goes through so many steps, the last; 0: all;
                                                      LOOP_CONSTANT: none */
  dim length;                                      /* rows of stacked outputs. Without until it is steps; with it, a symbol
                                                      of this loop's own, bound to the executed length */
};
void loop_retain(struct loop *), loop_release(struct loop *);
static inline bool loop_is_by_steps(const struct loop *l) { /* it is planned step by step: run/uneven.c */
  return l->is_uneven || l->is_late;
}
bool loop_has_told(const struct loop *);             /* it has run, and its number of steps is that of the run */
struct dim_table;
bool loop_mentions(const struct loop *, struct dim_table *); /* whether its steps or sizes in its bodies are among these symbols */
void loop_rename(struct node *loop, const struct loop *was, const struct dim_table *); /* a node just made again: its steps and
                                                      length have the names that these symbols have become */

#endif
