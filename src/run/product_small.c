/* product_small.c -- products whose operands are at most 256 KiB each: both are read where they are, a by broadcasts from any
 * stride, b by its rows.
 *
 * Best while the caches hold them, as packing costs as much as it saves and threads would have to meet once more before they
 * multiply: where b was packed first, 256^3 took 297 us on one thread and 171 on two, now 289 and 145; 128^3 25, now 20.5;
 * 120x256 by 256^2 86, now 69; 160^3 of f64 89, now 73. A cell is as much of y as the first cache holds, not one patch: a kernel
 * that goes on with 64^3 is launched once instead of five times (from Python 6.81 us, then 5.82). */
#include "run/product.h"

enum {
  COLUMNS = 512,            /* of a cell, at most: as in panels */
  CELL_BYTES = 1 << 15,     /* of a cell: what the first cache holds */
  MANY_PARTS = 8, FEW_ROWS = 8, /* so many patches of so few rows that b is packed though it is small, if .. */
  APART_BYTES = 1 << 11     /* .. its rows are further apart: patches of AVX2, 6 rows, gain by it then, those of AVX-512 do not */
};

static bool is_read_often(const struct product *p) {
  return p->cut.n_parts >= MANY_PARTS && p->cut.part_rows < FEW_ROWS && llabs(p->b.row) > APART_BYTES;
}

static void choose(struct product *p) {
  bool b = p->b.dtype != p->reg || p->b.column != p->size || p->b.maker || is_read_often(p);
  p->packs = (struct packing){ .a = p->a.dtype != p->reg || p->a.maker, .b = b, .together = 1, .chunk = KIR_PRODUCT_BLOCK };
  bool in_chunks = product_is_flat(p) && !product_is_kept(p);
  p->packs.held = in_chunks ? least(p->k, p->packs.chunk) : p->k;
  p->packs.shares_b = p->packs.b && !in_chunks && product_may_share(p);
  int64_t columns = least(p->cut.n_strips * p->cut.width, round_up(COLUMNS, p->cut.width));
  product_cut_cells(p, COLUMNS, product_parts_in(p, columns, CELL_BYTES));
}

const struct strategy strategy_small = { "small", RIGHT_IN_ONE, product_is_small, choose, product_by_patches };
