/* product_dots.c -- one row by a matrix that is read as it lies, without patches: whole columns where it lies along k, 2048 columns
 * at a time, eight rows side by side, where its columns are neighbours.
 *
 * Best for a vector by a matrix (and, turned, a matrix by a vector): each element is used once, so time is that of reading.
 * One thread, 4096^2: by patches of packed panels 52 ms; by dots along k 4 ms, with sixteen columns over all of k, the next ones
 * asked for before they are needed, 2.6 ms; across, with sums that wait in the first cache, 2.3 to 2.6 ms instead of 3.1
 * (a sum of as many numbers: 2.1). Operands that are made have no address, so they go by flat. Where panels of a constant are kept,
 * they are quicker than dots along k (a row through an encoder of 42 MB 1.71 ms, then 1.52) and no quicker than across (1.48). */
#include "run/product.h"

enum {
  COLUMNS_ALONG_K = 128,    /* of a cell, where each is a run of its own */
  LONG_CHUNK = 1 << 14,     /* products: sixteen columns are read to their ends; 2 KiB at a time no prefetcher follows (3.9 ms) */
  FAR_BYTES = 1 << 20       /* of a matrix that caches hardly hold: what is next is asked for */
};

static bool along_k(const struct product *p) { return p->b.row == kir_width(p->b.dtype); }

/* Where the caches hold it, a matrix whose columns are neighbours is as quick by a patch. */
static bool across(const struct product *p) {
  return !product_is_small(p) && p->b.column == kir_width(p->b.dtype) && !p->c->has_whole_rows;
}

static dots_code *code_of(const struct product *p) {
  bool is_vector = p->m == 1 && !p->b.maker && ((along_k(p) && !product_is_kept(p)) || across(p));
  return is_vector ? p->unit->dots(p->b.dtype, along_k(p)) : NULL;
}

static bool applies(const struct product *p) { return code_of(p); }

static void choose(struct product *p) {
  bool runs_along = along_k(p);
  p->dots = code_of(p);
  p->packs = (struct packing){ .a = p->a.dtype != p->reg || p->a.maker, .together = 1,
                               .chunk = runs_along ? LONG_CHUNK : KIR_PRODUCT_BLOCK, .held = least(p->k, KIR_PRODUCT_BLOCK) };
  product_cut_cells(p, runs_along ? COLUMNS_ALONG_K : DOTS_COLUMNS / p->cut.width * p->cut.width, 1);
}

/* More of b than a cache holds, and rows of neighbours or columns one after the other. */
static bool is_far(const struct product *p) {
  int64_t size = kir_width(p->b.dtype);
  bool follows = p->b.row != size || (p->b.column == p->k * size && p->k <= LONG_CHUNK);
  return follows && p->k > FAR_BYTES / size / p->n;
}

static void multiply_row(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  struct dots d = { .b = operand_corner(w, &p->b, k, w->cell.column), .b_k = p->b.row, .b_column = p->b.column,
                    .k = n, .columns = w->cell.columns, .adds = k > 0 };
  d.a = p->packs.a ? w->a : left_corner(w, 0, k);
  d.a_k = p->packs.a ? p->size : p->a.column;
  d.c = p->y.at ? (void *)operand_corner(w, &p->y, 0, w->cell.column) : w->y;
  d.is_far = is_far(p);
  p->dots(&d);
}

const struct strategy strategy_dots = { "dots", applies, choose, multiply_row };
