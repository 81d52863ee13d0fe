/* product_panels.c -- large products: both operands are copied to panels, in which what a patch reads stands side by side; of b a
 * block of columns over all of k, of a the rows of a cell in blocks of 512 products.
 *
 * Best where each element is used by many patches: 1024^3 and 2048^3 reach 88 and 89 % of the peak of fma (bench/contract). Threads
 * pack all of b together first where that is at most 32 MiB: each for itself they packed it up to eight times over. Narrow numbers
 * are multiplied two or four at a time, which wants them packed so: 1024^3 of i8 10.6 ms one by one, 5.35 by fours. */
#include "run/product.h"
#include "run/pool.h"

enum {
  COLUMNS = 512,            /* of a cell, times what is multiplied together, so that a is packed once for as many products */
  PARTS = 8,                /* of a cell: 512 products of its 112 rows, 224 KiB, stay in the second cache as strips pass by; .. */
  MANY_PARTS = 16,          /* .. by many threads, whose second caches are larger, if it is not read again: 2048^3 on 16 cores 11.1
                               ms with 8, 10.8 with 16 */
  FEW_PARTS = 16,           /* 112 rows by 384^2 took 400 us on one thread with b packed, 335 without; by 384x1536 1430, then
                               1320; .. */
  MEETING_BYTES = 4096,     /* .. but 42 rows by 1024^2 1240, then 1390, and 112 by 4000x1000, whose rows are not aligned, 10.6 ms,
                               then 12.7 */
  CLOSE_BYTES = 2048        /* rows of a that stand this close are as good where they are: the products of a recurrent network,
                               [64000,64] by 64^2, took 14.7 ms of all of it, then 12.8; an encoder of 64 x 84 tokens, 384 wide,
                               1233 ms of a processor, then 1205 */
};

static bool applies(const struct product *p) { return (void)p, true; }

/* So few patches read b that to copy it takes longer than it saves, if its rows begin at lines of the cache and do not meet in the
 * same sets of it. */
static bool is_read_in_place(const struct product *p) {
  int64_t row = llabs(p->b.row);
  return p->cut.n_parts <= FEW_PARTS && p->packs.together == 1 && p->b.column == p->size && p->b.dtype == p->reg && !p->b.maker &&
         row % CACHE_LINE == 0 && row % MEETING_BYTES;
}

static bool is_close(const struct product *p) { return p->a.column == p->size && llabs(p->a.row) <= CLOSE_BYTES; }

static void choose(struct product *p) {
  bool a = p->a.dtype != p->reg || p->a.maker || (!is_close(p) && !p->c->is_fed);
  int64_t chunk = KIR_PRODUCT_BLOCK * (kir_is_float(p->reg) ? 1 : p->packs.together); /* integers have no order */
  bool b = product_is_kept(p) || !is_read_in_place(p);
  p->packs = (struct packing){ .a = a, .b = b, .together = p->packs.together, .chunk = chunk, .held = p->k };
  int64_t parts = p->c->y.store >= 0 ? MANY_PARTS : PARTS;
  if (p->threads > NEAR && !p->run && product_cut_tracts(p, product_best_tracts(p), parts)) return;
  p->packs.shares_b = p->packs.b && product_may_share(p);
  product_cut_cells(p, COLUMNS * p->packs.together, PARTS);
}

/* ---- pairs and fours ---- */

struct looking { const struct product *p; const struct matrix *x; int64_t rows, columns, each; int found; };

/* Looks at some rows of an operand in each of its batches. */
static void look(void *ctx, int i) {
  struct looking *l = ctx;
  const struct contraction *c = l->p->c;
  int64_t n = 1, rows = least(l->each, l->rows - i * l->each);
  for (int k = 0; k < c->n_batch; k++) if (l->x->batch[k]) n *= c->batch[k];
  for (int64_t b = 0; b < n && !__atomic_load_n(&l->found, __ATOMIC_RELAXED); b++) {
    const uint8_t *at = l->x->at + i * l->each * l->x->row;
    for (int64_t k = c->n_batch - 1, rest = b; k >= 0; k--)
      if (l->x->batch[k]) at += rest % c->batch[k] * l->x->batch[k], rest /= c->batch[k];
    struct panel all = { .from = at, .k_stride = l->x->row, .stride = l->x->column,
                         .k = rows, .n = l->columns, .dtype = l->x->dtype };
    if (!l->p->unit->pairs_are_exact(&all)) __atomic_store_n(&l->found, 1, __ATOMIC_RELAXED);
  }
}

/* All numbers of an operand may be multiplied in pairs. What is made cannot be looked at before. */
static bool allows_pairs(const struct product *p, const struct matrix *x, int64_t rows, int64_t columns, int threads) {
  struct matrix y = *x;
  if (x->maker) return !kir_is_float(p->reg);
  if (llabs(x->row) < llabs(x->column)) {
    y.row = x->column, y.column = x->row;
    return allows_pairs(p, &y, columns, rows, threads);
  }
  struct looking l = { p, &y, rows, columns, divide_up(rows, (int64_t)threads * CELLS_A_THREAD), 0 };
  pool_run((int)divide_up(rows, l.each), threads, look, &l);
  return !l.found;
}

int product_most_together(const struct product *p) {
  if (p->strategy == &strategy_tiles) return p->unit->together(p->a.dtype);
  if (p->strategy != &strategy_panels || p->c->is_fed || p->a.dtype != p->b.dtype) return 1;
  return p->unit->together(p->a.dtype);
}

bool product_pairs_are_allowed(const struct product *p, int threads) {
  return allows_pairs(p, &p->a, p->m, p->k, threads) && allows_pairs(p, &p->b, p->k, p->n, threads);
}

const struct strategy strategy_panels = { "panels", RIGHT_IN_ONE | RIGHT_IN_RUNS, applies, choose, product_by_patches };
