/* loop_rules.h -- what the derivatives and the map of loops share. */
#ifndef WEFT_LOOP_RULES_H
#define WEFT_LOOP_RULES_H
#include "op/loop.h"
#include "transform/transform.h"

/* Lists of nodes in the making of a loop. Each holds references to all it contains. */
struct nodes { struct node **node; int n, room; };
bool nodes_add(struct nodes *, struct node *);       /* takes over the reference; NULL, or no memory: false */
bool nodes_add_zeros(struct nodes *, struct node *like);
void nodes_free(struct nodes *);

/* A loop in the making: lists for loop_parts. */
struct loop_draft {
  struct nodes seq, seq_var, init, carry_var, next, all;
  struct loop_parts parts;           /* steps, n_steps, owns_steps, is_backward, until: borrowed */
  struct node *length;               /* reference: the item that says how many steps were executed; NULL: not needed */
};
bool draft_seq(struct loop_draft *, struct node *seq, struct node *var);    /* both stay the caller's */
bool draft_carry(struct loop_draft *, struct node *init, struct node *var, struct node *next);
struct node *draft_make(struct loop_draft *, struct failure **);            /* the loop node */
void draft_free(struct loop_draft *);
void draft_branch(struct loop_draft *, const struct loop *); /* of a branch another one: what is made from now on is its own */
/* Steps of another loop over the rows that n, a loop on these inputs, has executed. */
bool draft_same_steps(struct loop_draft *, struct node *n);

/* The bodies of a loop in terms of its variables and these nodes for its constants, and for its carries if these are given:
 * next, all, then until if there is one. References; NULL: *failure. */
struct node **bodies_of(const struct loop *, struct node *const carry[], struct node *const constant[], struct failure **);
int n_bodies_of(const struct loop *);

struct node *var_like(const struct node *);
struct node *item_of(struct node *loop, int k);      /* as item_make; NULL loop: NULL */

/* Why it, a loop with another number of steps in every row, cannot be mapped once it has run. */
struct failure *loop_has_run(const struct node *loop);

void loop_batch(const struct rule *, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]);

#endif
