/* subgraph.h -- a snapshot of the nodes that some targets need, with operands as indices.
 *
 * Taken under the graph lock in one go, so that what other threads do to the nodes afterwards (values arrive, histories
 * are dropped) does not matter: the snapshot holds a reference to every node and its own list of operands. */
#ifndef WEFT_SUBGRAPH_H
#define WEFT_SUBGRAPH_H
#include "graph/node.h"

struct subgraph {
  int n;
  struct node **node; /* inputs before users, each once; a reference each */
  int *first;         /* n + 1: the operands of node i are operand[first[i]] .. operand[first[i + 1] - 1] */
  int *operand;       /* indices into node */
  bool *is_end;       /* it has operands, or had, and is taken without them */
  int *target, *wall; /* where the targets and walls stand; -1: a wall no target needs */
};

/* Walls are taken without their operands, and so are nodes older than `oldest` (by serial), which cannot depend on
 * anything of that age or younger. false: out of memory, and there is nothing to free. */
bool subgraph_take(struct subgraph *, int n, struct node *const target[], int n_walls, struct node *const wall[],
                   uint64_t oldest);
void subgraph_free(struct subgraph *);
static inline int subgraph_arity(const struct subgraph *g, int i) { return g->first[i + 1] - g->first[i]; }

/* Whether its history was gone when the snapshot was taken; what is dropped since then is still here. */
static inline bool subgraph_is_dropped(const struct subgraph *g, int i) {
  return !subgraph_arity(g, i) && g->node[i]->history_dropped;
}

/* The smallest serial; UINT64_MAX for none. */
uint64_t oldest_of(int n, struct node *const node[]);

#endif
