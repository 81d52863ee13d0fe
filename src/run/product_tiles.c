/* product_tiles.c -- products of bytes, and of bf16 where the machine's order of sums is allowed, on processors that multiply
 * tiles: as in product_panels.c, both operands are copied to panels, but those of whole tiles.
 *
 * Best from about one tile on: the code by fours takes 16 times the instructions. */
#include "run/product.h"

enum {
  LEAST = 16,               /* rows, columns and, along k, twice as many: less leaves most of a tile empty */
  COLUMNS = 2048, PARTS = 8, /* of a cell: 2048 products of its 256 rows of bytes, 512 KiB, stay in the second cache */
  CHUNK_BYTES = 1024        /* along k, of a strip of 32 columns: 32 KiB stay in the first cache while parts pass by. 1024^3 of
                               bf16 on 16 cores took 0.96 ms with twice as many, so 0.87 */
};

bool product_fits_tiles(const struct product *p) {
  const struct contractor *t = p->unit->tiles;
  if (!t || p->m < LEAST || p->n < LEAST || p->k < 2 * LEAST || p->then || p->c->is_fed || p->a.dtype != p->b.dtype) return false;
  return t->together(p->a.dtype) > 1 && (!kir_is_float(p->reg) || p->c->is_loose) && t->available();
}

static bool applies(const struct product *p) { return p->unit->deep; }

static void choose(struct product *p) {
  int together = p->unit->together(p->a.dtype);
  p->packs = (struct packing){ .a = true, .b = true, .together = together, .chunk = CHUNK_BYTES / 4 * together, .held = p->k };
  if (p->threads > NEAR && product_cut_tracts(p, product_best_tracts(p), PARTS)) return;
  p->packs.shares_b = product_may_share(p);
  product_cut_cells(p, COLUMNS, PARTS);
}

const struct strategy strategy_tiles = { "tiles", RIGHT_IN_ONE, applies, choose, product_by_patches };
