/* recall.h -- copies of arrays that somebody asks for. Before derivatives are taken calls are expanded and choices sunk, and
 * checkpoints compute regions again: what comes of it is made of copies of arrays that users have. A copy remembers of which node
 * it has the value (same_as); where one is asked for, as an x of a transform or an input of a function, its copies become it. */
#ifndef WEFT_RECALL_H
#define WEFT_RECALL_H
#include "graph/node.h"

extern _Atomic bool copies_some; /* there has been a copy that has the value of its node, ever: only then is one looked for */

/* Copies of x in the graphs of y, and of x themselves, become x. Both lists are replaced, with their references. NULL: done. */
struct failure *recall(int n, struct node *x[], int m, struct node *y[]);

/* Copies of one of x that cannot become it: in the body of a loop or choice, or such a body on other variables. is_one: whether
 * x[j] is to be looked for; NULL: all. Which x it is; -1: none; -2: out of memory. */
int recall_lost(int n, struct node *const x[], bool (*is_one)(const struct node *), int m, struct node *const y[], int n_walls,
                struct node *const wall[]);
struct failure *copied_inside(const char *fn, const char *what, int which); /* "x", 0: the first x */

#endif
