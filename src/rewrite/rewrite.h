/* rewrite.h -- graph to graph: fewer, cheaper, better conditioned nodes.
 *
 * Works on local nodes (graph/node.h) in a plan's arena. Rules are rows: a pattern, a replacement, a condition, and a
 * tag: exact (the same bits) or stable (better conditioned, may change rounding; inside functions only). */
#ifndef WEFT_REWRITE_H
#define WEFT_REWRITE_H
#include "graph/node.h"

/* list: local nodes, inputs before users, the targets among them. Replaces target[i] where a rule says so and leaves in
 * list exactly the nodes the targets still need, again in order. Leaves (op->kind OP_LEAF) are kept as they are.
 * Numbers are folded by the lowering of their op, run on the vm, never by libm. false: out of memory. */
bool rewrite(struct arena *, struct node_list *list, int n, struct node *target[], bool stable);

#endif
