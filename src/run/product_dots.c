/* product_dots.c -- one row by a matrix that is read as it lies, without patches: whole columns where it lies along k, 2048 columns
 * at a time, eight rows side by side, where its columns are neighbours.
 *
 * Best for a vector by a matrix (and, turned, a matrix by a vector): each element is used once, so time is that of reading.
 * One thread, 4096^2: by patches of packed panels 52 ms; by dots along k 4 ms, with sixteen columns over all of k, the next ones
 * asked for before they are needed, 2.6 ms; across, with sums that wait in the first cache, 2.3 to 2.6 ms instead of 3.1
 * (a sum of as many numbers: 2.1). Operands that are made have no address, so they go by flat. Where panels of a constant are kept,
 * they are quicker than dots along k (a row through an encoder of 42 MB 1.71 ms, then 1.52) and no quicker than across (1.48). A
 * matrix that stands in two places, keys or values that are held and those of one token more, always goes this way. */
#include "run/product.h"

enum {
  COLUMNS_ALONG_K = 128,    /* of a cell, at most, where each is a run of its own */
  TURN_BYTES = 1 << 16,     /* of b in a cell, at least, if threads share columns that lie along k, .. */
  TURNS_A_THREAD = 16,      /* .. and about so many cells of a thread */
  BLOCKS_BYTES = 1 << 20,   /* of the sums of all blocks of k, if they are cells */
  LONG_CHUNK = 1 << 14,     /* products: sixteen columns are read to their ends; 2 KiB at a time no prefetcher follows (3.9 ms) */
  FAR_BYTES = 1 << 20       /* of a matrix that caches hardly hold: what is next is asked for. One in the second cache is slower so,
                               384^2 takes 9.5 us then and 7.9 else */
};

static bool along_k(const struct product *p) {
  return p->first ? !p->c->b_splits_rows : p->b.row == kir_width(p->b.dtype);
}

/* Where the caches hold it, a matrix whose columns are neighbours is as quick by a patch. */
static bool across(const struct product *p) {
  return p->first || (!product_is_small(p) && p->b.column == kir_width(p->b.dtype) && !p->c->has_whole_rows);
}

static dots_code *code_of(const struct product *p) {
  bool is_vector = p->m == 1 && !p->b.maker && ((along_k(p) && !product_is_kept(p)) || across(p));
  return is_vector ? p->unit->dots(p->b.dtype, along_k(p)) : NULL;
}

static bool applies(const struct product *p) { return code_of(p); }

/* Threads share a matrix whose columns are neighbours. If each had so few columns that it reads a little of every row, processors
 * would fetch what others read, too. So it takes blocks of k, whose sums are added in order, as they are anyway, and of them parts
 * of rows that are not too short; if there are fewer of these than threads, some have none. Two threads of Zen 4, 1536 x 384 from
 * memory: halves of columns 90 us, blocks 62, one alone 76. 16 of a Sapphire Rapids: 42 us, then 21. */
static int64_t share_rows(struct product *p) {
  int64_t size = kir_width(p->b.dtype), row = p->n * size, blocks = divide_up(p->k, KIR_PRODUCT_BLOCK), line = CACHE_LINE / size;
  bool takes_blocks = blocks > 1 && row < p->threads * LONG_RUN && blocks * p->n * p->size <= BLOCKS_BYTES;
  if (takes_blocks) p->cut.n_blocks = blocks;
  int64_t wanted = takes_blocks ? divide_up((int64_t)p->threads * CELLS_A_THREAD, blocks) : p->threads;
  int64_t most = row / p->unit->least_run(), parts = most > wanted ? wanted : most > p->threads ? p->threads : most;
  p->cut.width = (int)least(round_up(divide_up(p->n, parts ? parts : 1), line), DOTS_COLUMNS);
  p->cut.n_strips = divide_up(p->n, p->cut.width);
  return p->cut.width;
}

/* Threads share columns that lie along k, and all of them end together if the last cells are small: 4096^2 on 16 cores of a
 * Sapphire Rapids takes 293 us by 128 columns, 243 by 64, 216 by 16. */
static int64_t share_columns(struct product *p) {
  int64_t fair = p->n / (p->threads * TURNS_A_THREAD), long_enough = TURN_BYTES / (p->k * kir_width(p->b.dtype) + 1);
  int64_t width = p->unit->turn_columns(), columns = fair > long_enough ? fair : long_enough;
  p->cut.width = (int)least(round_up(columns > width ? columns : width, 16), COLUMNS_ALONG_K);
  p->cut.n_strips = divide_up(p->n, p->cut.width);
  return p->cut.width;
}

/* One product, of which nothing is somewhere else. */
static bool is_whole(const struct product *p) { return !p->first && !p->then && !p->c->is_fed && product_batches(p) == 1; }

static void choose(struct product *p) {
  bool runs_along = along_k(p), shares = p->threads > 1 && is_whole(p);
  int64_t columns = runs_along ? COLUMNS_ALONG_K : DOTS_COLUMNS / p->cut.width * p->cut.width;
  if (shares) columns = runs_along ? share_columns(p) : share_rows(p);
  p->dots = code_of(p);
  p->packs = (struct packing){ .a = p->a.dtype != p->reg || p->a.maker, .together = 1,
                               .chunk = runs_along ? LONG_CHUNK : KIR_PRODUCT_BLOCK, .held = least(p->k, KIR_PRODUCT_BLOCK) };
  product_cut_cells(p, columns, 1);
}

/* More of b than a cache holds, or than it holds beside those of other products, and rows of neighbours or columns one after the
 * other. */
static bool is_far(const struct product *p) {
  int64_t size = kir_width(p->b.dtype);
  bool follows = p->b.row != size || (p->b.column == p->k * size && p->k <= LONG_CHUNK);
  return follows && (p->c->is_far || p->k > FAR_BYTES / size / p->n);
}

/* Some columns, from `column` of the product and `at` of x on. */
static void multiply_columns(const struct worker *w, const struct matrix *x, int64_t at, int64_t column, int64_t columns, int64_t k,
                             struct dots d) {
  const struct product *p = w->p;
  int64_t before = column - w->cell.column;
  d.b = operand_corner(w, x, k, at), d.b_k = x->row, d.b_column = x->column, d.columns = columns;
  d.c = p->y.at ? (uint8_t *)operand_corner(w, &p->y, 0, column) : w->y + before * p->size;
  if (p->cut.n_blocks > 1) d.c = p->blocks + k / KIR_PRODUCT_BLOCK * (int64_t)padded(p->n * p->size) + column * p->size;
  p->dots(&d);
}

static void multiply_row(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  struct dots d = { .k = n, .first = n, .adds = k > w->cell.k, .is_far = is_far(p) };
  int64_t column = w->cell.column, columns = w->cell.columns, of_b = columns;
  d.a = p->packs.a ? w->a : left_corner(w, &p->a, 0, k);
  d.a_k = p->packs.a ? p->size : p->a.column;
  if (p->first && p->c->b_splits_rows) {
    d.first = p->first > k ? p->first - k : 0, d.rest_k = p->rest.row;
    d.rest = operand_corner(w, &p->rest, k + d.first - p->first, column);
  } else if (p->first) of_b = p->first > column ? least(columns, p->first - column) : 0;
  if (of_b) multiply_columns(w, &p->b, column, column, of_b, k, d);
  if (of_b < columns) multiply_columns(w, &p->rest, column + of_b - p->first, column + of_b, columns - of_b, k, d);
}

const struct strategy strategy_dots = { "dots", RIGHT_IN_ONE | RIGHT_IN_TWO, applies, choose, multiply_row };
