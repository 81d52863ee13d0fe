/* product_cut.c -- how y is cut: rows into parts, columns into strips, both into cells that fit a cache and that threads share.
 * By shapes and threads alone. */
#include "run/product.h"
#include "run/pool.h"

enum {
  SMALL_BYTES = 1 << 18,    /* operands of at most this size are read where they are; see product_small.c */
  HELD_BYTES = 4 << 20,     /* of a block of columns of b over all of k, packed by one thread; if it is more, b is packed chunk by
                               chunk, and .. */
  TALL_CELL = 32,           /* .. a cell has so many parts, each of which uses it */
  SHARED_BYTES = 32 << 20,  /* of all of b, packed by all threads: 32 MiB is the last cache of eight cores of Zen 4 */
  ROWS_BYTES = 1 << 17,     /* of a cell that has whole rows: it stays in the second cache while a kernel folds it */
  UNEVEN_PARTS = 16,        /* more than so many a thread are as good as equally many for all */
  GRAIN = 1 << 19,          /* products; less is not worth to wake a thread, */
  SHARE = 1 << 17,          /* of those who come the least: a step of a decoder takes 2.0 ms on 16 cores if it is GRAIN, then 1.4 */
  FINE_GRAIN = 1 << 15,     /* nor less to share them with one that is awake: 64^3 takes 5.4 us by one, 3.6 by two; .. */
  FAR_GRAIN = 1 << 18,      /* .. where there are more than NEAR, not less than that: on 16 cores of a Sapphire Rapids 64^3 takes
                               9.1 us by one, 10 by two (from Python), but a vector by 384^2 is better shared */
  READING = 4,              /* products that take as long as to read an element of b: a vector by 512^2 takes 6.8 us on two
                               threads, 12.2 if what is read does not count */
  TURNS = 16,               /* of a thread, about: each takes some cells */
  CELL_PARTS = 8,           /* of a cell, at most; .. */
  CELL_ROWS = 112,          /* .. where patches have a shape of their own, about so many rows */
  LEAST_SUMS = 8,           /* of a patch, to be added to at the rate of two fma a cycle */
  FEW_ROWS = 6,             /* of a patch: with fewer, what it reads of b comes .. */
  STRIP_BYTES = 40 << 10,   /* .. from the first cache; */
  NEAR_ROWS = 2048          /* bytes from row to row of b: not each in a page of its own */
};

double product_batches(const struct product *p) {
  double n = 1;
  for (int i = 0; i < p->c->n_batch; i++) n *= (double)p->c->batch[i];
  return n;
}

/* Work of a few microseconds is shared with a thread that need not be woken. To be asked once a run: now and then one is woken. */
int product_threads(const struct product *p, int most, bool is_run) {
  double products = (double)(p->m + READING) * (double)p->n * (double)(p->k + 1) * product_batches(p), grains = products / GRAIN;
  double fine = 2 * (most > NEAR ? FAR_GRAIN : FINE_GRAIN);
  bool is_shared = grains >= 2 || (most > 1 && products >= fine && (!is_run || pool_is_awake()));
  if (is_run && is_shared && most > 1) is_shared = pool_pays(products / 2); /* two are as long as another operation */
  double shares = products / SHARE;
  return !is_shared || p->c->has_still ? 1 : shares < 2 ? 2 : shares < most ? (int)shares : most;
}

/* ---- patches ---- */

/* Rows go in as few parts as patches of so many allow, but equally many for each thread. */
static int64_t count_parts(const struct product *p, int rows) {
  int64_t n = divide_up(p->m, rows);
  return n > p->wanted && n < (int64_t)p->wanted * UNEVEN_PARTS ? least(round_up(n, p->wanted), p->m) : n;
}

static int patch_vectors(const struct product *p, int rows) {
  int most = p->unit->vectors(p->reg, rows);
  return p->unit->deep ? most : (int)least(most, divide_up(p->n, p->unit->lanes(p->reg))); /* tiles are whole */
}

/* Instructions of a step of k: fma, what they read, and what counts. Few sums are waited for. */
static int64_t step_cost(int64_t rows, int64_t vectors) {
  int64_t sums = rows * vectors, reads = vectors == 1 ? 1 : rows + vectors, counts = 3 + (rows > 5) + (rows > 10);
  return (sums < LEAST_SUMS ? LEAST_SUMS : sums) + reads + counts;
}

/* The patches of y, if they have at most so many rows. */
struct patches { int64_t parts, low, n_higher; int vectors; };

static struct patches patches_of(const struct product *p, int rows) {
  int64_t parts = count_parts(p, rows), low = p->m / parts, higher = p->m % parts;
  return (struct patches){ parts, low, higher, patch_vectors(p, (int)low + (higher > 0)) };
}

static int64_t strip_cost(const struct patches *t, int64_t vectors) {
  return t->n_higher * step_cost(t->low + 1, vectors) + (t->parts - t->n_higher) * step_cost(t->low, vectors);
}

static int64_t cost_of(const struct product *p, const struct patches *t) {
  int64_t wide = divide_up(p->n, p->unit->lanes(p->reg)), edge = wide % t->vectors;
  return wide / t->vectors * strip_cost(t, t->vectors) + (edge ? strip_cost(t, edge) : 0);
}

/* Both operands are read where they are, and the caches hold them. Then patches that are rather square, and divide the columns
 * evenly, take fewer instructions: 14 x 2 vectors 49 for 28 fma, 6 x 4 38 for 24. */
static bool has_own_shape(const struct product *p) {
  bool is_read = p->b.dtype == p->reg && p->b.column == p->size && llabs(p->b.row) <= NEAR_ROWS && !p->b.maker;
  bool is_alone = !p->then && !p->c->is_fed && !p->c->feeds && !p->c->n_more && !product_is_kept(p);
  bool has_shapes = kir_is_float(p->reg) && !p->unit->deep && p->unit->rows() > FEW_ROWS;
  return is_read && is_alone && has_shapes && p->m > 2 * p->unit->rows() && product_is_small(p);
}

/* What is read of b again for each part comes from the first cache, or not too often. */
static bool is_near(const struct product *p, const struct patches *t) {
  return t->low >= FEW_ROWS || p->k * t->vectors * p->unit->lanes(p->reg) * p->size <= STRIP_BYTES;
}

static struct patches best_patches(const struct product *p) {
  struct patches best = patches_of(p, p->unit->rows());
  bool is_chosen = has_own_shape(p);
  for (int rows = p->unit->rows() - 1; is_chosen && rows >= 3; rows--) {
    struct patches t = patches_of(p, rows);
    if (is_near(p, &t) && cost_of(p, &t) < cost_of(p, &best)) best = t;
  }
  return best;
}

void product_cut_patches(struct product *p) {
  p->cut.n_blocks = 1;
  if (p->windows) { product_cut_windows(p); return; }
  struct patches best = best_patches(p);
  p->cut.n_parts = best.parts, p->cut.part_rows = best.low, p->cut.n_higher = best.n_higher;
  p->cut.patch_rows = (int)best.low + (best.n_higher > 0);
  bool turns = product_is_flat(p) && product_lies_along_k(p) && !product_is_kept(p);
  if (turns) best.vectors = (int)least(best.vectors, 2); /* they are transposed in registers */
  p->cut.width = best.vectors * p->unit->lanes(p->reg);
  p->cut.n_strips = divide_up(p->n, p->cut.width);
}

bool product_is_small(const struct product *p) {
  int64_t most = SMALL_BYTES / p->size / (p->k ? p->k : 1);
  return p->m <= most && p->n <= most;
}

int64_t product_parts_in(const struct product *p, int64_t columns, int64_t bytes) {
  int64_t n = bytes / (columns * p->size * (p->cut.part_rows + 1));
  return n < 1 ? 1 : least(n, has_own_shape(p) ? divide_up(CELL_ROWS, p->cut.part_rows) : CELL_PARTS);
}

bool product_has_one_right(const struct product *p) {
  for (int i = 0; i < p->c->n_batch; i++) {
    if (p->b.batch[i]) return false;
    for (int j = 0; j < p->c->n_more; j++) if (p->c->more[j].b.stride[i]) return false;
  }
  return true;
}

bool product_may_share(const struct product *p) {
  if (p->run) return true;
  if (!product_has_one_right(p)) return false;
  if ((p->threads == 1 && !product_is_kept(p)) || p->then || p->c->is_fed) return false;
  return product_is_kept(p) || panel_rows(p, p->k) <= SHARED_BYTES / p->size / (p->cut.n_strips * p->cut.width);
}

static int64_t count_cells(const struct product *p) {
  int64_t n = p->cut.n_row_cells * p->cut.n_column_cells * p->cut.n_blocks;
  for (int i = 0; i < p->c->n_batch; i++) n *= p->c->batch[i];
  return n;
}

/* More cells, so that there are as many as wanted. */
static void cut_rows(struct product *p, int64_t wanted) {
  int64_t n = count_cells(p);
  if (n < wanted) p->cut.n_row_cells = least(p->cut.n_parts, p->cut.n_row_cells * divide_up(wanted, n));
}

static void cut_columns(struct product *p, int64_t wanted) {
  int64_t n = count_cells(p);
  if (n < wanted) p->cut.n_column_cells = least(p->cut.n_strips, p->cut.n_column_cells * divide_up(wanted, n));
}

/* Tiles are multiplied faster than other cores' panels of b are read: cells are cut both ways until each thread has two, so that a
 * thread reads little of b, and what it has read serves several parts. 1024^3 of bf16 on 16 cores of a Sapphire Rapids, with all
 * columns in a cell 1.25 ms, so 0.87. */
static void cut_both(struct product *p) {
  int64_t wanted = 2 * (int64_t)p->threads;
  while (count_cells(p) < wanted) {
    int64_t *rows = &p->cut.n_row_cells, *columns = &p->cut.n_column_cells;
    bool is_wide = !p->c->has_whole_rows && *columns < p->cut.n_strips, is_high = *rows < p->cut.n_parts;
    if (!is_wide && !is_high) return;
    bool is_wider = p->cut.n_strips / *columns > p->cut.n_parts / *rows;
    if (is_wide && (!is_high || is_wider)) *columns = least(p->cut.n_strips, 2 * *columns);
    else *rows = least(p->cut.n_parts, 2 * *rows);
  }
}

/* Each cell packs its own part of a right operand that is larger than the left one: cells of the same columns would pack it over
 * and over, those of the same rows the smaller one. Of 49 x 4608 x 512 in blocks, 16 threads packed for 1.6 ms of processors, and
 * do for 0.95 so. */
static bool is_cut_by_columns(const struct product *p) {
  return p->packs.b && !p->packs.shares_b && p->n > p->m && p->c->y.store >= 0 && !p->c->has_whole_rows;
}

/* The image that many threads make anew in each run is better read by few of them: what all have read takes long to write. Eight
 * images of 128 channels of 28^2 to 256, by 3x3, on 16 cores: 284 us for the image with cells of some columns, 115 with all. */
static bool is_cut_by_rows(const struct product *p) {
  return p->threads > NEAR && p->packs.shares_b && !p->packs.a && (p->windows || p->c->n_more);
}

/* More cells than those that fit the caches, so that all threads have some. Those that copy a, and those that a kernel goes on
 * with, have all columns they can. */
static void cut_for_threads(struct product *p) {
  int64_t wanted = (int64_t)p->threads * (p->threads == 1 || product_is_flat(p) ? 1 : CELLS_A_THREAD);
  if (p->unit->deep && p->threads > 1) wanted = 0, cut_both(p);
  if (p->windows && !p->packs.shares_b) wanted = p->threads; /* its cells are whole strips, which are packed once */
  if (is_cut_by_rows(p)) cut_rows(p, 2 * wanted);
  if (is_cut_by_columns(p)) cut_columns(p, wanted);
  if (p->packs.a || p->c->y.store < 0) cut_rows(p, wanted);
  if (p->c->y.store < 0 && count_cells(p) >= 2 * p->threads) wanted = 0; /* each run of the kernel has its price */
  if (!p->packs.a && !p->c->has_whole_rows) cut_columns(p, wanted);
  cut_rows(p, wanted);
  if (p->c->y.store >= 0 && !p->c->has_whole_rows) cut_columns(p, p->threads); /* 49 rows are five parts, whoever waits */
  p->cut.cell_parts = divide_up(p->cut.n_parts, p->cut.n_row_cells);
  p->cut.cell_columns = divide_up(p->cut.n_strips, p->cut.n_column_cells) * p->cut.width;
}

/* Lines of the cache of one batch of an operand; 0: its elements are not all neighbours, or other batches read the same. */
static int64_t lines_of(const struct product *p, const struct matrix *x, int64_t rows, int64_t columns) {
  int64_t size = kir_width(x->dtype), by_rows = x->column == size && x->row == columns * size,
          by_columns = x->row == size && x->column == rows * size;
  if (p->c->n_batch != 1 || p->c->n_more || p->cut.n_cells != p->c->batch[0] || !x->batch[0] || x->maker) return 0;
  return by_rows || by_columns ? divide_up(rows * columns * size, CACHE_LINE) : 0;
}

static void choose_fetching(struct product *p) {
  p->fetch.a_lines = p->packs.a || p->c->is_fed ? 0 : lines_of(p, &p->a, p->m, p->k);
  p->fetch.b_lines = p->packs.b ? 0 : lines_of(p, &p->b, p->k, p->n);
}

void product_cut_cells(struct product *p, int64_t columns, int64_t parts) {
  p->cut.cell_columns = least(p->cut.n_strips * p->cut.width, round_up(columns, p->cut.width));
  p->cut.cell_parts = parts, p->cut.n_tracts = 0;
  if (p->packs.b && !p->packs.shares_b && panel_rows(p, p->packs.held) > HELD_BYTES / p->size / p->cut.cell_columns)
    p->packs.held = least(p->k, p->packs.chunk), p->cut.cell_parts = TALL_CELL;
  if (p->c->has_whole_rows)
    p->cut.cell_columns = p->cut.n_strips * p->cut.width, p->cut.cell_parts = product_parts_in(p, p->cut.cell_columns, ROWS_BYTES);
  p->cut.n_row_cells = divide_up(p->cut.n_parts, p->cut.cell_parts);
  p->cut.n_column_cells = divide_up(p->n, p->cut.cell_columns);
  cut_for_threads(p);
  p->cut.n_cells = count_cells(p);
  p->threads = (int)least(p->threads, p->cut.n_cells);
  p->cut.turn = p->threads == 1 ? p->cut.n_cells : divide_up(p->cut.n_cells, (int64_t)p->threads * TURNS);
  p->cut.cell_row = p->cut.cell_columns * p->size + (p->c->has_whole_rows ? ROW_GAP : 0);
  choose_fetching(p);
}
