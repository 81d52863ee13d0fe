/* product_added.c -- several products that are added: a b + a1 b1 + .., each of at most one block of terms, as the rows of a
 * convolution's kernel are. The left operands are read where they are, the right ones packed one below the other, and what is added
 * stays in the first cache: one cell is finished before the next.
 *
 * 8 images of 64 channels, 56^2 by 3x3, on one thread of Zen 4: with two of three products stored first 22.3 ms, so 19.9. */
#include "run/product.h"

enum {
  COLUMNS = 512,            /* of a cell, at most: as in panels */
  CELL_BYTES = 1 << 15      /* of a cell: what the first cache holds */
};

static bool applies(const struct product *p) { return p->c->n_more; }

static void choose(struct product *p) {
  int64_t columns = least(p->cut.n_strips * p->cut.width, round_up(COLUMNS, p->cut.width));
  p->packs = (struct packing){ .b = true, .together = 1, .chunk = p->block, .held = p->k };
  p->packs.shares_b = product_may_share(p);
  product_cut_cells(p, COLUMNS, product_parts_in(p, columns, CELL_BYTES));
}

const struct strategy strategy_added = { "added", RIGHT_IN_ONE, applies, choose, product_by_patches };
