/* product_flat.c -- products of at most two patches of rows by a matrix that the caches do not hold: b is used hardly more than
 * once, so its memory is read in long runs.
 *
 * Where the columns of b are neighbours, 16 rows of it at a time are multiplied over 1024 columns as they stand, and the sums wait
 * in the first cache between visits: 8 x 4096 by 4096^2 is 56 GFLOP/s and reads 14 GB/s. Where it lies along k, strips of two
 * vectors are packed, transposed 8 x 8 in registers: 40 GFLOP/s and 10 GB/s. Packing all of b would write and read it once more. */
#include "run/product.h"

enum {
  SHORT_CHUNK = 16,         /* rows of b between two visits of a patch: as many runs of memory as a processor follows */
  RUN_COLUMNS = 1024,       /* of a cell in runs: the sums of 8 rows are the first cache's 32 KiB; .. */
  MADE_COLUMNS = 4096,      /* .. of b that is made: its kernel is called once for them */
  PARTS = 8                 /* of a cell, at most: there are no more than two */
};

static bool applies(const struct product *p) { return product_is_flat(p) && !product_is_kept(p); }

static void choose(struct product *p) {
  bool in_runs = !product_lies_along_k(p);
  bool is_made = p->b.maker && !(in_runs && p->b.column_axis >= 0); /* else its pieces are read where they are */
  p->packs = (struct packing){ .a = p->a.dtype != p->reg || p->a.maker,
                               .b = p->b.dtype != p->reg || p->b.column != p->size || !in_runs || is_made,
                               .together = 1, .chunk = in_runs ? SHORT_CHUNK : KIR_PRODUCT_BLOCK };
  p->packs.held = least(p->k, p->packs.chunk);
  product_cut_cells(p, !in_runs ? p->cut.width : p->b.maker ? MADE_COLUMNS : RUN_COLUMNS, PARTS);
}

const struct strategy strategy_flat = { "flat", RIGHT_IN_ONE, applies, choose, product_by_patches };
