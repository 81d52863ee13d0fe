/* rewrite.h -- graph to graph: fewer, cheaper, better conditioned nodes.
 *
 * Works on local nodes (graph/node.h) in a plan's arena. Rules are rows: a pattern, a replacement, a condition, a tag. */
#ifndef WEFT_REWRITE_H
#define WEFT_REWRITE_H
#include "graph/node.h"

enum rule_tag {
  RULE_EXACT,  /* the same bits, but for the payload of a nan */
  RULE_STABLE, /* better conditioned; may change rounding or the sign of zero. Inside functions only */
  RULE_FAST    /* fewer operations or a shorter chain of them; rounds otherwise, and what overflows on the way may differ.
                  Inside functions of those who ask for it */
};

/* list: local nodes, inputs before users, the targets among them. Replaces target[i] where a rule says so and leaves in
 * list exactly the nodes the targets still need, again in order. Leaves (op->kind OP_LEAF) are kept as they are.
 * Numbers are folded by the lowering of their op, run on the vm, never by libm. Rules with a tag beyond `most` are left
 * out. false: out of memory. */
bool rewrite(struct arena *, struct node_list *list, int n, struct node *target[], enum rule_tag most);

#endif
