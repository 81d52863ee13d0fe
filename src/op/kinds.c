/* kinds.c -- what is true of all ops of a kind, a row each. What depends on the node besides is asked where it matters: a
 * running sum that goes in blocks is a step of its own (schedule/prefix_kernel.c), a copy for its own sake joins no group. */
#include "graph/shape.h"
#include "op/op.h"

/* Vector instructions for as many elements as a vector has: of a function that is not cheap, of a gather, of a guarded load. */
enum { DEAR = 24, GATHER = 4, GUARDED = 4, PLAIN = 1 };

#define ROW(id, title, ...) [id] = { .name = title, __VA_ARGS__ }

const struct kind_facts kind_facts[] = {
  ROW(OP_LEAF,     "leaf",     .reads = READS_WHOLE, .element_cost = PLAIN),
  ROW(OP_ELEMENT,  "element",  .reads = READS_BY_ELEMENT, .joins_groups = true, .may_be_made = true, .element_cost = DEAR),
  ROW(OP_IOTA,     "iota",     .reads = READS_WHOLE, .may_be_made = true, .element_cost = PLAIN),
  ROW(OP_SIZE,     "size",     .reads = READS_WHOLE, .may_be_made = true, .element_cost = PLAIN),
  ROW(OP_REDUCE,   "reduce",   .reads = READS_BY_ELEMENT, .joins_groups = true, .is_heavy = true, .element_cost = PLAIN),
  ROW(OP_PREFIX,   "prefix",   .reads = READS_BY_ELEMENT, .joins_groups = true, .is_heavy = true, .element_cost = PLAIN),
  ROW(OP_VIEW,     "view",     .reads = READS_WHOLE, .element_cost = PLAIN),
  ROW(OP_TAKE,     "take",     .reads = READS_FIRST_WHOLE, .joins_groups = true, .may_be_made = true, .element_cost = GATHER,
                               .may_be_blamed = true),
  ROW(OP_PUT,      "put",      .reads = READS_WHOLE, .is_own_step = true, .element_cost = PLAIN),
  ROW(OP_SCATTER,  "scatter",  .reads = READS_WHOLE, .is_own_step = true, .is_heavy = true, .element_cost = PLAIN,
                               .may_be_blamed = true),
  ROW(OP_CONTRACT, "contract", .reads = READS_WHOLE, .is_heavy = true, .element_cost = PLAIN),
  ROW(OP_CONCAT,   "concat",   .reads = READS_WHOLE, .is_own_step = true, .element_cost = PLAIN),
  ROW(OP_PAIR,     "pair",     .reads = READS_WHOLE, .is_own_step = true, .element_cost = PLAIN),
  ROW(OP_PAD,      "pad",      .reads = READS_FIRST_WHOLE, .joins_groups = true, .may_be_made = true, .element_cost = GUARDED),
  ROW(OP_IDENTITY, "identity", .reads = READS_WHOLE, .is_gone = true, .element_cost = PLAIN),
  ROW(OP_LOOP,     "loop",     .reads = READS_WHOLE, .is_own_step = true, .is_several = true, .element_cost = PLAIN),
  ROW(OP_CALL,     "call",     .reads = READS_WHOLE, .is_several = true, .is_gone = true, .element_cost = PLAIN),
  ROW(OP_LATER,    "later",    .reads = READS_WHOLE, .is_gone = true, .element_cost = PLAIN),
  ROW(OP_ITEM,     "item",     .reads = READS_WHOLE, .is_own_step = true, .is_heavy = true, .element_cost = PLAIN),
  ROW(OP_LIBRARY,  "library",  .reads = READS_WHOLE, .is_own_step = true, .is_several = true, .element_cost = PLAIN,
                               .may_be_blamed = true),
};
_Static_assert(sizeof kind_facts / sizeof *kind_facts == N_OP_KINDS, "a row for each kind");

/* ---- What cannot be planned ---- */

static const struct node *first_unsized(const struct node_list *l) {
  for (int i = 0; i < l->n; i++) {
    const struct node *x = l->node[i];
    if (!node_is_known(x) || (x->op->is_open && x->op->is_open(x))) return x;
  }
  return NULL;
}

struct failure *disagreement_in(const struct node_list *l) {
  struct failure *why = NULL;
  for (int i = 0; i < l->n && !why; i++)
    if (l->node[i]->op->agree && l->node[i]->n_in) why = l->node[i]->op->agree(l->node[i]);
  return why;
}

struct failure *unsized_in(const struct node_list *l) {
  const struct node *x = first_unsized(l);
  struct shape_text t;
  if (!x) return NULL;
  return fail(WEFT_ERR_NO_VALUE, x->origin, "weft_eval: nothing tells the size of a %s %s: one of a weft_input is told by a call",
              x->op->name, shape_show(x, &t));
}
