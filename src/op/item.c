/* item.c -- one result of an op that has several. */
#include "op/loop.h"

struct node *item_make(struct node *many, int k) {
  dim dims[WEFT_RANK_MAX];
  int rank;
  weft_dtype dtype = many->op->many->type(many, k, &rank, dims);
  struct node *n = node_make(&op_item, dtype, rank, dims, 1, &many, &(struct item_attr){ k }, sizeof(struct item_attr));
  if (n && many->op == &op_loop && loop_has_told(loop_of(many))) node_set_told(n, true);
  return n;
}

static struct node *again(const struct node *n, struct node *const in[], struct failure **failure) {
  (void)failure;
  return item_make(in[0], ((const struct item_attr *)n->attr)->k);
}

const struct op op_item = { .name = "item", .kind = OP_ITEM, .again = again };
