/* held.h -- what an evaluation stores besides what was asked for, because somebody holds it and will want it again.
 *
 * Held is a node that has references from outside the graph that is evaluated: names, owners, other expressions. Heavy ones
 * are stored. Of others, only those that a path from a target meets first (what lies behind would be computed again at a
 * distance of at most 64 operations), and only
 *   - the second time they are needed, or
 *   - if the evaluation computes all of their elements anyway, an owner has them and they have at most 64 KiB, or
 *   - if more than 64 operations lie between them and values that are stored, and all of their elements are computed or they have
 *     at most 64 KiB.
 * Behind those, where no scope has names, what owners have or expressions wait for, as the parameters of a training of which losses
 * alone are asked for: if more than 64 operations lie between them and what is stored, or will be.
 * So whoever goes on step by step computes at most 64 operations of earlier steps again, however large the arrays are, and an
 * evaluation stores at most one array more for each path to what was asked for, and for each 64 operations that owners look
 * at, not one for every node. */
#ifndef WEFT_HELD_H
#define WEFT_HELD_H
#include "graph/node.h"

struct held {
  int n;
  struct node **node;  /* borrowed */
  bool *forgets;       /* by node: only owners hold it, without a scope: nobody will ask how it was made */
};

/* Among the nodes of a list that begins at what has a value; graph lock held. Marks what is needed now, unless only_looks.
 * has_names: of scopes of the thread that asked, whose expressions may lead to what is stored.
 * false: out of memory, and there is nothing to free. */
bool held_find(struct held *, const struct node_list *, int n, struct node *const target[], bool only_looks, bool has_names);
void held_free(struct held *);

/* Values in the list forget how they were made, unless a scope can get at them: by a name, or through an expression of them.
 * forgets: by target, whether it will. Graph lock held. false: out of memory. */
bool held_forget(const struct node_list *, int n, struct node *const target[], const bool forgets[],
                 bool has_names);

#endif
