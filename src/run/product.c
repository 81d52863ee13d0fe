/* product.c -- steps that are products of matrices: cuts a product into cells, copies what is better copied, multiplies patch by
 * patch, and gives each finished cell to the kernel that goes on with it. No choice made here changes a bit. */
#include "run/plan.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "backend/blas.h"
#include "backend/patch.h"
#include "backend/float_mode.h"
#include "base/least.h"
#include "base/mem.h"
#include "run/eval.h"
#include "run/memory.h"
#include "run/pattern.h"
#include "run/piece.h"
#include "run/pool.h"
#include "run/show.h"

enum {
  SMALL_BYTES = 1 << 18,    /* operands of at most this size are read where they are */
  SMALL_CELL = 1 << 15,     /* bytes of a cell of theirs */
  HELD_BYTES = 4 << 20,     /* of a block of columns of b over all of k, by one thread; */
  SHARED_BYTES = 32 << 20,  /* of all of b, by all of them */
  SHORT_CHUNK = 16, LONG_CHUNK = 1 << 14,
  FAR_BYTES = 1 << 20,      /* of a matrix that caches hardly hold */
  PACKED_ROWS = 16,
  FEW_STRIPS = 2, CLOSE_BYTES = 1024,
  MANY_PARTS = 8, FEW_ROWS = 8, /* so many patches of so few rows that b is packed though it is small, if .. */
  APART_BYTES = 1 << 11,    /* .. its rows are further apart */
  UNEVEN_PARTS = 16,        /* more than so many a thread are as good as equally many for all */
  ROWS_BYTES = 1 << 17,     /* of a cell that has whole rows */
  GAP = 64,                 /* bytes between its rows, lest they share the sets of a cache */
  GRAIN = 1 << 19,          /* products; less is not worth to wake a thread, */
  FINE_GRAIN = 1 << 15,     /* nor less to share them with one that is awake */
  READING = 4,              /* products that take as long as to read an element of b */
  CELLS = 4,                /* cells a thread, at least: slow ones even out */
  TURNS = 16,               /* of a thread, about: each takes some cells */
  PIECE = 1 << 14,          /* elements of an operand that are made at a time */
  APART = 1 << 30,          /* a stride that says: neighbours are those of the other axis */
  ALIGN = 64
};

/* Strides in bytes. An operand that is made has no address: its strides say along which axis its pieces lie. */
struct matrix {
  uint8_t *at;
  weft_dtype dtype;
  int64_t row, column, batch[AXES];
  const struct maker *maker;     /* NULL: it stands in memory */
  struct piece_kernel *kernel;   /* the maker's, with its axes: */
  int row_axis, column_axis;
};

/* One contraction that is run. If it is turned, the rows here are the columns there: c' = b' a'. */
struct product {
  const struct contraction *c;
  const struct contractor *unit;
  weft_dtype reg;               /* dtype of sums, and of what is packed */
  int size;                     /* bytes of an element of it */
  int64_t m, n, k;
  struct matrix a, b, y;        /* y.at NULL: cells go to the kernel */
  int wanted;                   /* threads, if there were cells for all; */
  int threads;                  /* those there are cells for */
  int64_t n_parts;              /* rows go in parts, one patch high; */
  int64_t part_rows, n_higher;  /* the first n_higher of them have one row more */
  int vectors, width;           /* of a patch; its columns */
  int64_t n_strips;             /* columns go in strips of that width */
  int together;                 /* products at a time: 2 or 4 if it multiplies pairs or fours */
  dots_code *dots;              /* instead of patches: one row, and b lies along k */
  bool packs_a, packs_b, shares_b;
  int64_t chunk;                /* products between two visits of a patch */
  int64_t held;                 /* rows of b that are packed at once */
  int64_t cell_row;             /* bytes from row to row of a cell */
  int64_t cell_parts, cell_columns; /* of a cell, at most */
  int64_t n_row_cells, n_column_cells, n_cells;
  int64_t a_turn;               /* cells that a thread takes at a time */
  int64_t a_lines, b_lines;     /* of the cache, that a batch reads where they are, one after the other; a cell is a batch */
  int64_t next_cell, next_strip; /* atomic: what nobody has taken yet begins there */
  patch_code *code[2][2];       /* part_rows or one more; a whole patch or the columns at the right edge */
  patch_code *row_code[2];      /* fours: of one row */
  size_t a_bytes, b_bytes, cell_bytes, sums_bytes, starts_bytes, fed_bytes, piece_bytes;
  uint8_t *scratch;             /* first what is shared, then that of each thread */
  uint8_t *shared_b;            /* all strips of b, and where their sums start */
  int32_t *shared_starts;
  struct product *then;         /* what the rows of the kernel's result are the left operand of */
  int64_t fed_row;              /* bytes from row to row of those */
  struct piece_kernel *next;    /* goes on with a cell; its code may be NULL: there is none */
  const uint8_t *read;          /* a matrix as large as the product that it reads; NULL: none. Bytes, by axis: */
  int64_t read_stride[AXES];
  const volatile int *cancel;
  int failed;                   /* atomic: out of memory for scratch */
};

static void swap(int64_t *a, int64_t *b) {
  int64_t t = *a;
  *a = *b, *b = t;
}
static int64_t divide_up(int64_t a, int64_t b) { return a ? (a - 1) / b + 1 : 0; }
static int64_t up(int64_t a, int64_t to) { return divide_up(a, to) * to; }
static bool is_cancelled(const struct product *p) { return flag_is_set(p->cancel); }
static size_t padded(int64_t bytes) { return (size_t)up(bytes, ALIGN); }

/* ---- choosing ---- */

static int64_t first_row(const struct product *p, int64_t part) { return part * p->part_rows + least(part, p->n_higher); }
static int rows_of(const struct product *p, int64_t part) { return (int)(p->part_rows + (part < p->n_higher)); }

/* So few rows that b is used hardly more than once: its memory is read in long runs. */
static bool is_flat(const struct product *p) { return p->n_parts <= 2; }
static bool lies_along_k(const struct product *p) { return llabs(p->b.row) < llabs(p->b.column); }

static double n_batches(const struct product *p) {
  double n = 1;
  for (int i = 0; i < p->c->n_batch; i++) n *= (double)p->c->batch[i];
  return n;
}

/* Work of a few microseconds is shared with a thread that need not be woken. To be asked once a run: now and then one is woken. */
static int threads_for(const struct product *p, int most, bool is_run) {
  double products = (double)(p->m + READING) * (double)p->n * (double)(p->k + 1) * n_batches(p), grains = products / GRAIN;
  bool is_shared = grains >= 2 || (most > 1 && products >= 2 * FINE_GRAIN && (!is_run || pool_is_awake()));
  return !is_shared || p->c->has_still ? 1 : grains < 2 ? 2 : grains < most ? (int)grains : most;
}

/* Rows go in as few parts as patches allow, but equally many for each thread. */
static int64_t count_parts(const struct product *p) {
  int64_t n = divide_up(p->m, p->unit->rows());
  return n > p->wanted && n < (int64_t)p->wanted * UNEVEN_PARTS ? least(up(n, p->wanted), p->m) : n;
}

static void choose_patch(struct product *p) {
  int lanes = p->unit->lanes(p->reg);
  p->n_parts = count_parts(p);
  p->part_rows = p->m / p->n_parts;
  p->n_higher = p->m % p->n_parts;
  p->vectors = (int)least(p->unit->vectors(p->reg, (int)p->part_rows + (p->n_higher > 0)), divide_up(p->n, lanes));
  if (is_flat(p) && lies_along_k(p)) p->vectors = (int)least(p->vectors, 2);
  p->width = p->vectors * lanes;
  p->n_strips = divide_up(p->n, p->width);
}

static bool is_small(const struct product *p) {
  int64_t most = SMALL_BYTES / p->size / (p->k ? p->k : 1);
  return p->m <= most && p->n <= most;
}

static int64_t panel_rows(const struct product *p, int64_t k) { return divide_up(k, p->together); }

static int64_t parts_in(const struct product *p, int64_t bytes) {
  int64_t n = bytes / (p->cell_columns * p->size * (p->part_rows + 1));
  return n < 1 ? 1 : least(n, 8);
}

static void take_whole_rows(struct product *p) {
  p->cell_columns = p->n_strips * p->width;
  p->cell_parts = parts_in(p, ROWS_BYTES);
}

static bool may_share(const struct product *p) {
  for (int i = 0; i < p->c->n_batch; i++) if (p->b.batch[i]) return false;
  return p->threads > 1 && !p->then && !p->c->is_fed && panel_rows(p, p->k) <= SHARED_BYTES / p->size / (p->n_strips * p->width);
}

/* Rows of a that stand close together and that few patches read: they are as good where they are. */
static bool is_close(const struct product *p) {
  return p->n_strips <= FEW_STRIPS && p->a.column == p->size && llabs(p->a.row) <= CLOSE_BYTES;
}

static void choose_packing(struct product *p, bool small, bool in_runs) {
  p->packs_b = !p->dots && (p->b.dtype != p->reg || p->b.column != p->size || (!small && !in_runs) ||
                              (p->n_parts >= MANY_PARTS && p->part_rows < FEW_ROWS && llabs(p->b.row) > APART_BYTES));
  p->packs_b |= p->b.maker && !(in_runs && p->b.column_axis >= 0); /* else pieces are read where they are */
  p->packs_a = p->a.dtype != p->reg || p->a.maker || (!small && !is_flat(p) && !is_close(p) && !p->c->is_fed);
  p->shares_b = p->packs_b && !is_flat(p) && may_share(p);
  p->chunk = in_runs ? SHORT_CHUNK : KIR_PRODUCT_BLOCK * (kir_is_float(p->reg) ? 1 : p->together); /* integers have no order */
  p->held = is_flat(p) ? least(p->k, p->chunk) : p->k;
}

static int64_t count_cells(const struct product *p) {
  int64_t n = p->n_row_cells * p->n_column_cells;
  for (int i = 0; i < p->c->n_batch; i++) n *= p->c->batch[i];
  return n;
}

/* More cells, so that there are as many as wanted. */
static void cut_rows(struct product *p, int64_t wanted) {
  int64_t n = count_cells(p);
  if (n < wanted) p->n_row_cells = least(p->n_parts, p->n_row_cells * divide_up(wanted, n));
}

static void cut_columns(struct product *p, int64_t wanted) {
  int64_t n = count_cells(p);
  if (n < wanted) p->n_column_cells = least(p->n_strips, p->n_column_cells * divide_up(wanted, n));
}

/* More cells than those that fit the caches, so that all threads have some. Those that copy a, and those that a kernel goes on
 * with, have all columns they can. */
static void cut_for_threads(struct product *p) {
  int64_t wanted = (int64_t)p->threads * (p->threads == 1 || is_flat(p) ? 1 : CELLS);
  if (p->packs_a || p->c->y.store < 0) cut_rows(p, wanted);
  if (p->c->y.store < 0 && count_cells(p) >= 2 * p->threads) wanted = 0; /* each run of the kernel has its price */
  if (!p->packs_a && !p->c->has_whole_rows) cut_columns(p, wanted);
  cut_rows(p, wanted);
  p->cell_parts = divide_up(p->n_parts, p->n_row_cells);
  p->cell_columns = divide_up(p->n_strips, p->n_column_cells) * p->width;
}

/* Lines of the cache of one batch of an operand; 0: its elements are not all neighbours, or other batches read the same. */
static int64_t lines_of(const struct product *p, const struct matrix *x, int64_t rows, int64_t columns) {
  int64_t size = kir_width(x->dtype), by_rows = x->column == size && x->row == columns * size,
          by_columns = x->row == size && x->column == rows * size;
  if (p->c->n_batch != 1 || p->n_cells != p->c->batch[0] || !x->batch[0] || x->maker) return 0;
  return by_rows || by_columns ? divide_up(rows * columns * size, CACHE_LINE) : 0;
}

static void choose_fetching(struct product *p) {
  p->a_lines = p->packs_a || p->c->is_fed ? 0 : lines_of(p, &p->a, p->m, p->k);
  p->b_lines = p->packs_b ? 0 : lines_of(p, &p->b, p->k, p->n);
}

static void choose_cells(struct product *p) {
  bool small = is_small(p), flat = is_flat(p), in_runs = flat && !small && !lies_along_k(p);
  int64_t most = !flat || small ? 512 * p->together : in_runs ? (p->b.maker ? 4096 : 1024) : p->width;
  bool along_k = p->b.row == kir_width(p->b.dtype),
       across = !small && p->b.column == kir_width(p->b.dtype) && !p->c->has_whole_rows;
  p->dots = p->m == 1 && !p->b.maker && (along_k || across) ? p->unit->dots(p->b.dtype, along_k) : NULL;
  if (p->dots) most = along_k ? 128 : DOTS_COLUMNS / p->width * p->width, in_runs = false;
  choose_packing(p, small, in_runs);
  if (p->dots && along_k) p->chunk = LONG_CHUNK;
  p->cell_columns = least(p->n_strips * p->width, up(most, p->width));
  p->cell_parts = small ? parts_in(p, SMALL_CELL) : 8;
  if (p->packs_b && !p->shares_b && panel_rows(p, p->held) > HELD_BYTES / p->size / p->cell_columns)
    p->held = least(p->k, p->chunk), p->cell_parts = 32;
  if (p->c->has_whole_rows) take_whole_rows(p);
  p->n_row_cells = divide_up(p->n_parts, p->cell_parts);
  p->n_column_cells = divide_up(p->n, p->cell_columns);
  cut_for_threads(p);
  p->n_cells = count_cells(p);
  p->threads = (int)least(p->threads, p->n_cells);
  p->a_turn = p->threads == 1 ? p->n_cells : divide_up(p->n_cells, (int64_t)p->threads * TURNS);
  p->cell_row = p->cell_columns * p->size + (p->c->has_whole_rows ? GAP : 0);
  choose_fetching(p);
}

static size_t starts_of(const struct product *p, int64_t columns) {
  return p->together == 4 ? padded(divide_up(p->held, p->chunk) * columns * p->size) : 0;
}
static size_t panels_of(const struct product *p, int64_t columns) {
  return p->packs_b ? padded(panel_rows(p, p->held) * columns * p->size) : 0;
}

/* ---- pieces: where lanes run along k, some parts over all of k or a strip; else all of the cell, some of k at a time ---- */

static bool made_along_k(const struct matrix *a) { return llabs(a->column) < llabs(a->row); } /* of the left one */

static int64_t most_rows(const struct product *p) { return p->cell_parts * (p->part_rows + (p->n_higher > 0)); } /* of a cell */

/* Parts of the left operand that are packed from one piece, and products: as many in smaller cells, so that it has room. */
static int64_t piece_parts(const struct product *p, int64_t n) {
  if (!p->a.maker || !made_along_k(&p->a)) return p->cell_parts;
  int64_t most = PIECE / ((p->part_rows + 1) * n);
  return most < 1 ? 1 : least(most, p->cell_parts);
}
static int64_t piece_products(const struct product *p, int64_t n) {
  if (!p->a.maker || made_along_k(&p->a)) return n;
  return least(n, up(divide_up(PIECE, most_rows(p)), PACKED_ROWS));
}

/* Rows of the right operand that are packed from one piece: of all strips or, if it lies along k, of one. */
static int64_t piece_rows(const struct product *p, int64_t n) {
  if (!lies_along_k(p)) return PACKED_ROWS * p->together;
  return p->b.maker ? least(n, up(divide_up(PIECE, p->width), PACKED_ROWS)) : n;
}

static size_t measure_pieces(const struct product *p) {
  int64_t n = least(p->k, p->chunk), a = 0, b = 0, gap = ALIGN;
  if (p->a.maker) {
    int64_t high = least(most_rows(p), piece_parts(p, n) * (p->part_rows + 1)), wide = piece_products(p, n);
    a = made_along_k(&p->a) ? high * (wide * p->size + gap) : wide * (high * p->size + gap);
  }
  if (p->b.maker) {
    int64_t high = piece_rows(p, p->held), wide = lies_along_k(p) ? p->width : p->cell_columns;
    b = lies_along_k(p) ? wide * (high * p->size + gap) : high * (wide * p->size + gap);
  }
  return padded(a > b ? a : b);
}

static void measure_scratch(struct product *p) {
  int64_t rows = most_rows(p);
  p->a_bytes = p->packs_a ? padded(rows * panel_rows(p, least(p->k, p->chunk)) * p->size + PANEL_SLACK) : 0;
  p->b_bytes = p->shares_b ? 0 : panels_of(p, p->cell_columns);
  p->sums_bytes = p->k > p->chunk && p->chunk < KIR_PRODUCT_BLOCK ? padded(rows * p->cell_row) : 0;
  p->cell_bytes = p->c->y.store >= 0 ? 0 : padded(rows * p->cell_row);
  p->starts_bytes = p->shares_b ? 0 : starts_of(p, p->cell_columns);
  p->fed_bytes = p->then ? padded(rows * p->fed_row) : 0;
  p->piece_bytes = measure_pieces(p);
}

/* Code for the four patches there can be. 1: out of memory; 2: nobody may make code. */
static int find_code(struct product *p) {
  int lanes = p->unit->lanes(p->reg), edge = (int)(p->n % p->width);
  for (int higher = 0; higher < 2; higher++)
    for (int is_edge = 0; is_edge < 1 + (edge > 0); is_edge++) {
      int rows = (int)p->part_rows + higher, columns = is_edge ? edge : p->width;
      bool is_used = higher ? p->n_higher > 0 : p->n_higher < p->n_parts, is_forbidden;
      if (!is_used) continue;
      p->code[higher][is_edge] = p->unit->code(p->together > 1 ? p->a.dtype : p->reg, rows,
                                               (columns - 1) / lanes + 1, columns % lanes, &is_forbidden);
      if (!p->code[higher][is_edge]) return is_forbidden ? 2 : 1;
      if (p->together == 4)
        p->row_code[is_edge] = p->unit->code(p->a.dtype, 1, (columns - 1) / lanes + 1, columns % lanes, &is_forbidden);
      if (p->together == 4 && !p->row_code[is_edge]) return is_forbidden ? 2 : 1;
    }
  return 0;
}

/* ---- pairs ---- */

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
  if (llabs(x->row) < llabs(x->column)) swap(&y.row, &y.column), swap(&rows, &columns);
  struct looking l = { p, &y, rows, columns, divide_up(rows, (int64_t)threads * CELLS), 0 };
  pool_run((int)divide_up(rows, l.each), threads, look, &l);
  return !l.found;
}

/* Products at a time, if all numbers allow it. */
static int most_together(const struct product *p) {
  if (p->c->is_fed || p->a.dtype != p->b.dtype || is_flat(p) || is_small(p)) return 1;
  return p->unit->together(p->a.dtype);
}

static bool are_allowed(const struct product *p, int threads) {
  return allows_pairs(p, &p->a, p->m, p->k, threads) && allows_pairs(p, &p->b, p->k, p->n, threads);
}

static void choose_sizes(struct product *p) {
  p->threads = p->wanted;
  choose_cells(p);
  measure_scratch(p);
}

/* is_run: its operands may be looked at, and its code is wanted. 1, 2: see find_code. */
static int choose(struct product *p, int wanted, bool is_run) {
  p->wanted = wanted;
  choose_patch(p);
  p->together = most_together(p);
  if (is_run && p->together > 1 && !are_allowed(p, wanted)) p->together = 1;
  int how = is_run ? find_code(p) : 0;
  if (!how) choose_sizes(p);
  return how;
}

/* ---- multiplying ---- */

struct cell {
  int64_t batch[AXES];
  int64_t part, parts, row, rows, column, columns; /* of the product: first, how many */
};

struct worker {
  const struct product *p;
  uint8_t *a, *b, *y, *sums;    /* scratch; sums: of blocks that are cut */
  uint8_t *piece;
  bool failed;                  /* out of memory */
  int32_t *starts;              /* fours: where sums begin, by chunk and column */
  int64_t b_batch, b_column, b_columns, b_k; /* what of b is packed, from b on; batch -1: nothing */
  struct cell cell;
  int64_t batch;                /* of the cell, as one number */
  int64_t end;                  /* cells from here on are others' */
  int64_t k;                    /* products to be added: fewer than there are where the others are with 0 */
  uint8_t *fed;                 /* rows of the kernel's result, for .. */
  struct worker *then;
  const uint8_t *left;          /* .. whose left operand they are; NULL: it stands in memory */
  int64_t finite_batch;         /* of b: all of this batch are finite; -1: not known; -2 - batch: they are not */
};

static const uint8_t *corner(const struct worker *w, const struct matrix *x, int64_t row, int64_t column) {
  const uint8_t *at = x->at + row * x->row + column * x->column;
  for (int i = 0; i < w->p->c->n_batch; i++) at += w->cell.batch[i] * x->batch[i];
  return at;
}

/* The left operand from a row of the cell and k on. */
static const uint8_t *left_at(const struct worker *w, int64_t row, int64_t k) {
  return w->left ? w->left + (row - w->cell.row) * w->p->a.row + k * w->p->a.column : corner(w, &w->p->a, row, k);
}

/* Elements of an operand where they can be read. */
struct operand_block { const uint8_t *at; int64_t row, column; };

/* Computed into scratch, rows or columns side by side. */
static struct operand_block made(struct worker *w, const struct matrix *x, int64_t row, int64_t column, int64_t rows,
                                 int64_t columns) {
  const struct maker *m = x->maker;
  bool is_by_rows = llabs(x->column) < llabs(x->row);
  int64_t size = kir_width(x->dtype), next = up((is_by_rows ? columns : rows) * size, ALIGN), from[AXES], extent[AXES];
  struct piece_buffer own = { .buf = m->piece, .data = w->piece };
  int r = x->row_axis, c = x->column_axis;
  struct operand_block b = { w->piece, r < 0 ? 0 : is_by_rows ? next : size, c < 0 ? 0 : is_by_rows ? size : next };
  for (int i = 0; i < w->p->c->n_batch; i++)
    if (m->batch_axis[i] >= 0) from[m->batch_axis[i]] = w->cell.batch[i], extent[m->batch_axis[i]] = 1;
  if (r >= 0) from[r] = row, extent[r] = rows, own.stride[r] = b.row;
  if (c >= 0) from[c] = column, extent[c] = columns, own.stride[c] = b.column;
  if (piece_run(x->kernel, from, extent, 1, &own, w->p->cancel)) w->failed = true;
  return b;
}

/* Of the right operand. */
static struct operand_block block_of(struct worker *w, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const struct matrix *b = &w->p->b;
  if (b->maker) return made(w, b, row, column, rows, columns);
  return (struct operand_block){ corner(w, b, row, column), b->row, b->column };
}

/* Where the i-th of `of` equal shares of n begins. */
static int64_t share(int64_t n, int64_t i, int64_t of) { return of == 1 ? i * n : n / of * i + least(i, n % of); }

static void find_cell(struct worker *w, int64_t i) {
  const struct product *p = w->p;
  struct cell *c = &w->cell;
  int64_t row = i % p->n_row_cells, column = i / p->n_row_cells % p->n_column_cells;
  i /= p->n_row_cells * p->n_column_cells;
  c->part = share(p->n_parts, row, p->n_row_cells);
  c->column = share(p->n_strips, column, p->n_column_cells) * p->width;
  w->batch = i;
  for (int k = p->c->n_batch - 1; k >= 0; k--) c->batch[k] = i % p->c->batch[k], i /= p->c->batch[k];
  c->parts = share(p->n_parts, row + 1, p->n_row_cells) - c->part;
  c->row = first_row(p, c->part);
  c->rows = first_row(p, c->part + c->parts) - c->row;
  c->columns = least(p->n, share(p->n_strips, column + 1, p->n_column_cells) * p->width) - c->column;
}

/* Columns of the strip that begins at column j of the cell. */
static int64_t strip(const struct worker *w, int64_t j) { return least(w->p->width, w->cell.columns - j); }

static void pack(const struct product *p, const struct panel *x, bool is_left) {
  if (p->together > 1) p->unit->pack_together(x, is_left);
  else p->unit->pack(x);
}

/* The panel of the strip that begins at column j. */
static uint8_t *strip_at(const struct worker *w, int64_t j) {
  return w->b + (w->cell.column - w->b_column + j) * panel_rows(w->p, w->p->held) * w->p->size;
}

static uint64_t mask_of(const struct product *p, int64_t columns) {
  return ~UINT64_C(0) >> (63 - (columns - 1) % p->unit->lanes(p->reg));
}

/* Fours: where the sums of a chunk begin, from column j of the cell on. k: of the rows that are packed. */
static int32_t *start_of(const struct worker *w, int64_t k, int64_t j) {
  int64_t columns = w->p->shares_b ? w->p->n_strips * w->p->width : w->p->cell_columns;
  return w->starts + k / w->p->chunk * columns + w->cell.column - w->b_column + j;
}

/* -128 times the sums of columns, over n rows that are packed, of the strips from column `first` on. */
static void begin_fours(struct worker *w, int64_t first, int64_t n) {
  static const uint32_t ones = FOURS_SHIFT;
  const struct product *p = w->p;
  for (int64_t i = 0; i < n; i += p->chunk)
    for (int64_t j = first; j < w->cell.columns; j += p->width) {
      int32_t *start = start_of(w, i, j);
      struct patch t = { .a = &ones, .b = strip_at(w, j) + panel_rows(p, i) * p->width * p->size, .b_k = p->width * p->size,
                         .c = start, .k = panel_rows(p, least(p->chunk, n - i)), .rows = 1, .columns = strip(w, j),
                         .mask = mask_of(p, strip(w, j)) };
      p->row_code[t.columns < p->width](&t);
      for (int64_t c = 0; c < t.columns; c++) start[c] = (int32_t)(0 - 128u * (uint32_t)start[c]);
    }
}

/* n rows of the right operand, i of those that are packed, in the strips of some columns of the cell. */
static void pack_block(struct worker *w, int64_t from, int64_t i, int64_t n, int64_t column, int64_t columns) {
  const struct product *p = w->p;
  struct operand_block b = block_of(w, from + i, w->cell.column + column, n, columns);
  for (int64_t j = column; j < column + columns; j += p->width)
    pack(p, &(struct panel){ b.at + (j - column) * b.column, strip_at(w, j) + panel_rows(p, i) * p->width * p->size,
                             b.row, b.column, n, strip(w, j), p->width, p->b.dtype }, false);
}

/* n rows of b from `from` on, of the strips of the cell from column `first` on. */
static void pack_strips(struct worker *w, int64_t from, int64_t n, int64_t first) {
  const struct product *p = w->p;
  int64_t run = piece_rows(p, n), wide = lies_along_k(p) ? p->width : p->b.maker ? p->cell_columns : w->cell.columns;
  for (int64_t j = first; j < w->cell.columns; j += wide)
    for (int64_t i = 0; i < n; i += run) /* some rows of all strips: memory is read in runs */
      pack_block(w, from, i, least(run, n - i), j, least(wide, w->cell.columns - j));
  if (p->together == 4) begin_fours(w, first, n);
}

static void pack_b(struct worker *w, int64_t k) {
  const struct product *p = w->p;
  int64_t from = p->held < p->k ? k : 0;
  bool is_same = w->b_batch == w->batch && w->b_column == w->cell.column && w->b_k == from;
  int64_t first = is_same ? w->b_columns : 0;
  if (first >= w->cell.columns) return;
  w->b_batch = w->batch, w->b_column = w->cell.column, w->b_columns = w->cell.columns, w->b_k = from;
  pack_strips(w, from, least(p->held, p->k - from), first);
}

/* The panel of a part, of n products. */
static uint8_t *part_at(const struct worker *w, int64_t part, int64_t n) {
  return w->a + (first_row(w->p, part) - w->cell.row) * panel_rows(w->p, n) * w->p->size;
}

/* Parts from `part` on over n products, from k + i on of those that are packed. */
static void pack_parts(struct worker *w, int64_t part, int64_t parts, int64_t k, int64_t all, int64_t i, int64_t n) {
  const struct product *p = w->p;
  int64_t row = first_row(p, part), rows = first_row(p, part + parts) - row;
  struct operand_block a = { left_at(w, row, k + i), p->a.row, p->a.column };
  if (p->a.maker) a = made(w, &p->a, row, k + i, rows, n);
  for (int64_t j = part; j < part + parts; j++)
    pack(p, &(struct panel){ a.at + (first_row(p, j) - row) * a.row,
                             part_at(w, j, all) + panel_rows(p, i) * rows_of(p, j) * p->size,
                             a.column, a.row, n, rows_of(p, j), rows_of(p, j), p->a.dtype }, true);
}

static void pack_a(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  int64_t parts = piece_parts(p, n), run = piece_products(p, n), end = w->cell.part + w->cell.parts;
  for (int64_t j = w->cell.part; j < end; j += parts)
    for (int64_t i = 0; i < n; i += run) pack_parts(w, j, least(parts, end - j), k, n, i, least(run, n - i));
}

/* The upper left corner of a cell: what is multiplied there, and where its sums begin and end: a block that is cut goes through
 * `sums`. */
struct upper_left { const uint8_t *a, *start; uint8_t *c; int64_t a_row; };

static void place_sums(const struct worker *w, bool begins, bool ends, struct upper_left *u, struct patch *t) {
  const struct product *p = w->p;
  u->start = begins ? NULL : w->sums;
  t->start_row = t->c_row = p->cell_row;
  if (!ends) u->c = w->sums;
  else if (!p->y.at) u->c = w->y;
  else u->c = (uint8_t *)corner(w, &p->y, w->cell.row, w->cell.column), t->c_row = p->y.row;
}

/* More of b than a cache holds, and rows of neighbours or columns one after the other. */
static bool is_far(const struct product *p) {
  int64_t size = kir_width(p->b.dtype);
  bool follows = p->b.row != size || (p->b.column == p->k * size && p->k <= LONG_CHUNK);
  return follows && p->k > FAR_BYTES / size / p->n;
}

static void multiply_row(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  struct dots d = { .b = corner(w, &p->b, k, w->cell.column), .b_k = p->b.row, .b_column = p->b.column,
                    .k = n, .columns = w->cell.columns, .adds = k > 0 };
  d.a = p->packs_a ? w->a : left_at(w, 0, k);
  d.a_k = p->packs_a ? p->size : p->a.column;
  d.c = p->y.at ? (void *)corner(w, &p->y, 0, w->cell.column) : w->y;
  d.is_far = is_far(p);
  p->dots(&d);
}

static int row_axis(const struct product *p) { return p->c->is_turned ? p->c->column_axis : p->c->row_axis; }
static int column_axis(const struct product *p) { return p->c->is_turned ? p->c->row_axis : p->c->column_axis; }

/* By axis of the kernel: where the cell begins, and its extent. */
static void cell_axes(const struct worker *w, int64_t from[], int64_t extent[]) {
  const struct contraction *c = w->p->c;
  const struct cell *x = &w->cell;
  for (int i = 0; i < c->n_batch; i++) from[i] = x->batch[i], extent[i] = 1;
  int row = row_axis(w->p), column = column_axis(w->p);
  if (row >= 0) from[row] = x->row, extent[row] = x->rows;
  if (column >= 0) from[column] = x->column, extent[column] = x->columns;
}

/* What the kernel will read of the cell, a strip of it. */
static void fetch_read(const struct worker *w, int64_t strip, struct patch *t) {
  const struct product *p = w->p;
  int64_t from[AXES], extent[AXES];
  cell_axes(w, from, extent);
  from[column_axis(p)] += strip * p->width;
  const uint8_t *at = p->read;
  for (int a = 0; a < p->c->n_axes; a++) at += from[a] * p->read_stride[a];
  t->fetch = at, t->fetch_k = p->read_stride[row_axis(p)], t->fetch_n = least(w->cell.rows, t->k);
}

/* Of what the next batch reads. */
static void fetch_batch(const struct worker *w, int64_t patch, struct patch *t) {
  const struct product *p = w->p;
  int64_t wide = divide_up(p->width * p->size, CACHE_LINE), line = patch * t->k * wide;
  int64_t after_a = line - up(p->a_lines, t->k * wide);
  if (after_a >= p->b_lines) return;
  const struct matrix *x = line < p->a_lines ? &p->a : &p->b;
  t->fetch = corner(w, x, 0, 0) + x->batch[0] + (line < p->a_lines ? line : after_a) * CACHE_LINE;
  t->fetch_k = wide * CACHE_LINE, t->fetch_n = t->k;
}

/* While a patch multiplies, lines that are read later come nearer. */
static void fetch_lines(const struct worker *w, int64_t column, int64_t part, struct patch *t) {
  const struct product *p = w->p;
  int64_t done = column / p->width * w->cell.parts + part, after = divide_up(w->cell.columns, p->width) * w->cell.parts - 1 - done;
  t->fetch_n = 0;
  if (!p->read) fetch_batch(w, done, t);
  else if (after * p->width < w->cell.columns) fetch_read(w, after, t);
}

/* A strip of the cell from column j on; t has what is the same for all of its patches. */
static void multiply_strip(const struct worker *w, int64_t j, struct upper_left u, bool fetches, struct patch *t) {
  const struct product *p = w->p;
  for (int64_t i = 0, row = 0; i < w->cell.parts; i++, row += t->rows) {
    int64_t part = w->cell.part + i;
    t->rows = rows_of(p, part);
    t->a = u.a + row * u.a_row;
    if (p->packs_a) t->a_k = t->rows * p->size;
    t->c = u.c + row * t->c_row + j * p->size;
    t->start = u.start ? u.start + row * t->start_row + j * p->size : NULL;
    if (fetches) fetch_lines(w, j, i, t);
    p->code[part < p->n_higher][t->columns < p->width](t);
  }
}

/* The patches of a cell over n products from k on. */
static void multiply(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  bool begins = k % KIR_PRODUCT_BLOCK == 0, ends = (k + n) % KIR_PRODUCT_BLOCK == 0 || k + n == w->k;
  bool fetches = p->read ? k + n == w->k : w->batch + 1 < w->end && p->a_lines + p->b_lines;
  struct patch t = { .a_row = p->packs_a ? p->size : p->a.row, .a_k = p->a.column, .k = panel_rows(p, n),
                     .adds = ends && k >= KIR_PRODUCT_BLOCK };
  struct upper_left u = { .a = p->packs_a ? w->a : left_at(w, w->cell.row, k), .a_row = p->packs_a ? t.k * p->size : p->a.row };
  struct operand_block b = { 0 };
  place_sums(w, begins, ends, &u, &t);
  if (!p->packs_b) b = block_of(w, k, w->cell.column, n, w->cell.columns);
  t.b_k = p->packs_b ? p->width * p->size : b.row;
  for (int64_t j = 0; j < w->cell.columns && !is_cancelled(p); j += p->width) {
    t.columns = strip(w, j);
    if (t.columns < p->width) t.mask = mask_of(p, t.columns);
    t.b = p->packs_b ? strip_at(w, j) + panel_rows(p, k - w->b_k) * p->width * p->size : b.at + j * b.column;
    if (p->together == 4) u.start = (uint8_t *)start_of(w, k - w->b_k, 0), t.start_row = 0;
    multiply_strip(w, j, u, fetches, &t);
  }
}

/* ---- the kernel that goes on with a cell ---- */

/* Rows of scratch as a buffer of the kernel. */
static struct piece_buffer rows_of_cell(const struct product *p, int buf, uint8_t *data, int64_t row) {
  struct piece_buffer b = { .buf = buf, .data = data };
  int64_t size = (int64_t)weft_dtype_bytes((weft_dtype)p->next->code->kernel->bufs[buf].dtype);
  if (p->c->row_axis >= 0) b.stride[p->c->row_axis] = p->c->is_turned ? size : row;
  if (p->c->column_axis >= 0) b.stride[p->c->column_axis] = p->c->is_turned ? row : size;
  return b;
}

static int go_on(const struct worker *w) {
  const struct product *p = w->p;
  int64_t from[AXES], extent[AXES];
  cell_axes(w, from, extent);
  struct piece_buffer own[2] = { rows_of_cell(p, p->c->cell, w->y, p->cell_row) };
  if (p->then) own[1] = rows_of_cell(p, p->c->fed, w->fed, p->fed_row);
  return piece_run(p->next, from, extent, p->then ? 2 : 1, own, p->cancel);
}

/* ---- cells and tasks ---- */

static void multiply_cell(struct worker *w) {
  const struct product *p = w->p;
  int64_t k = 0;
  do {
    int64_t n = least(w->k - k, p->chunk);
    if (p->packs_b && !p->shares_b) pack_b(w, k);
    if (p->packs_a) pack_a(w, k, n);
    (p->dots ? multiply_row : multiply)(w, k, n);
    k += n;
  } while (k < w->k && !w->failed && !is_cancelled(p));
}

/* ---- rows that go on to another product ---- */

/* Whether a patch of the cell has given -0, which +0 times something would have made +0. */
static bool has_minus_zero(const struct worker *w) {
  const struct product *p = w->p;
  for (int64_t i = 0; i < w->cell.rows; i++) {
    const uint8_t *at = p->y.at ? corner(w, &p->y, w->cell.row + i, w->cell.column) : w->y + i * p->cell_row;
    if (p->size == 4 ? pattern_any_32(at, w->cell.columns, ~0u, 1u << 31)
                     : pattern_any_64(at, w->cell.columns, ~UINT64_C(0), UINT64_C(1) << 63))
      return true;
  }
  return false;
}

/* The cells of the second product that the rows of this one are the left operand of. 1: out of memory; 2: they must be
 * whole rows. */
static int feed(struct worker *w) {
  struct worker *t = w->then;
  const struct product *p = t->p;
  t->cell = w->cell, t->batch = w->batch, t->k = w->cell.columns;
  for (int64_t j = 0; j < p->n && !is_cancelled(p); j += p->cell_columns) {
    t->cell.column = j, t->cell.columns = least(p->cell_columns, p->n - j);
    multiply_cell(t);
    if (t->k < p->k && has_minus_zero(t)) return 2;
    if (p->next->code && !is_cancelled(p) && go_on(t)) return 1;
  }
  return 0;
}

/* n neighbours in memory. */
static bool are_finite(const uint8_t *at, int64_t n, weft_dtype t) {
  switch (t) {
    case WEFT_F16: return !pattern_any_16(at, n, 0x7C00, 0x7C00);
    case WEFT_BF16: return !pattern_any_16(at, n, 0x7F80, 0x7F80);
    case WEFT_F32: return !pattern_any_32(at, n, 0x7F800000, 0x7F800000);
    default: return !pattern_any_64(at, n, UINT64_C(0x7FF) << 52, UINT64_C(0x7FF) << 52);
  }
}

/* Whether the right operand of the second product is finite in this batch: then 0 times it is 0. */
static bool is_finite(struct worker *t, int64_t batch) {
  if (t->finite_batch == batch || t->finite_batch == -2 - batch) return t->finite_batch == batch;
  const struct product *p = t->p;
  int64_t run = p->b.column == kir_width(p->b.dtype) ? p->n : 1;
  bool good = true;
  for (int64_t i = 0; i < p->k && good; i++)
    for (int64_t j = 0; j < p->n && good; j += run) good = are_finite(corner(t, &p->b, i, j), run, p->b.dtype);
  t->finite_batch = good ? batch : -2 - batch;
  return good;
}

/* Columns of the cell beyond which the kernel gives zeros that need not be multiplied. */
static int64_t band_of(struct worker *w) {
  const struct product *p = w->p;
  int64_t columns = w->cell.row + w->cell.rows + p->c->band;
  if (!p->c->is_banded || columns >= p->n) return p->n;
  w->then->cell = w->cell, w->then->batch = w->batch;
  return is_finite(w->then, w->batch) ? least(p->n, up(columns < 1 ? 1 : columns, p->width)) : p->n;
}

static int run_cell(struct worker *w, int64_t i) {
  const struct product *p = w->p;
  int how = 2;
  find_cell(w, i);
  w->k = p->k;
  if (p->then) w->cell.columns = band_of(w);
  for (; how == 2; w->cell.columns = p->n) { /* the second time with whole rows */
    multiply_cell(w);
    how = w->failed || (p->next->code && !is_cancelled(p) && go_on(w));
    if (!how && p->then && !is_cancelled(p)) how = feed(w);
  }
  return how;
}

static size_t scratch_of(const struct product *p) {
  return p->a_bytes + p->b_bytes + p->cell_bytes + p->sums_bytes + p->starts_bytes + p->fed_bytes + p->piece_bytes;
}

/* Leaves the cell as it is: small products are done before so much memory is cleared. */
static void worker_begin(struct worker *w, const struct product *p, uint8_t *room) {
  w->p = p, w->a = room, w->b = room + p->a_bytes;
  w->y = w->b + p->b_bytes, w->sums = w->y + p->cell_bytes, w->fed = w->sums + p->sums_bytes;
  w->piece = w->fed + p->fed_bytes;
  w->starts = (int32_t *)(void *)(w->piece + p->piece_bytes);
  if (p->shares_b) w->b = p->shared_b, w->starts = p->shared_starts;
  w->b_batch = w->finite_batch = -1;
  w->end = 0;
  w->b_column = w->b_columns = w->b_k = 0;
  w->then = NULL, w->left = NULL, w->failed = false;
}

/* ---- scratch: of all threads at once, so that it is counted and refused as a whole ---- */

static size_t own_bytes(const struct product *p) { return scratch_of(p) + (p->then ? scratch_of(p->then) : 0); }
static size_t shared_bytes(const struct product *p) {
  int64_t columns = p->n_strips * p->width;
  return p->shares_b ? panels_of(p, columns) + starts_of(p, columns) : 0;
}
static size_t total_bytes(const struct product *p) { return shared_bytes(p) + own_bytes(p) * (size_t)p->threads; }
static uint8_t *room_at(const struct product *p, int i) { return p->scratch + shared_bytes(p) + own_bytes(p) * (size_t)i; }

/* The next `turn` of things that threads share; `next` is theirs too. */
static int64_t take(const struct product *p, int64_t *next, int64_t turn) {
  int64_t first = p->threads == 1 ? *next : __atomic_fetch_add(next, turn, __ATOMIC_RELAXED);
  if (p->threads == 1) *next += turn;
  return first;
}

/* Cells, by thread i. */
static void work(void *ctx, int i) {
  struct product *p = ctx;
  uint8_t *room = room_at(p, i);
  struct worker w, then;
  worker_begin(&w, p, room);
  if (p->then) worker_begin(&then, p->then, room + scratch_of(p)), then.left = w.fed, w.then = &then;
  bool failed = false;
  uint64_t mode = float_mode_enter();
  for (int64_t c; !failed && !is_cancelled(p) && (c = take(p, &p->next_cell, p->a_turn)) < p->n_cells;)
    for (w.end = least(c + p->a_turn, p->n_cells); c < w.end && !failed && !is_cancelled(p); c++) failed = run_cell(&w, c);
  float_mode_leave(mode);
  if (failed) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

/* Strips of b for all, by thread i. */
static void pack_shared(void *ctx, int i) {
  struct product *p = ctx;
  int64_t turn = divide_up(p->n_strips, (int64_t)p->threads * CELLS);
  struct worker w;
  worker_begin(&w, p, room_at(p, i));
  memset(&w.cell, 0, sizeof w.cell), w.batch = 0;
  uint64_t mode = float_mode_enter();
  for (int64_t c; !w.failed && !is_cancelled(p) && (c = take(p, &p->next_strip, turn)) < p->n_strips;) {
    w.cell.column = c * p->width;
    w.cell.columns = least(p->n, (c + turn) * p->width) - w.cell.column;
    pack_strips(&w, 0, p->k, 0);
  }
  float_mode_leave(mode);
  if (w.failed) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

static void run_cells(struct product *p, size_t bytes) {
  p->scratch = bytes ? memory_take(bytes) : NULL;
  p->failed = bytes && !p->scratch;
  p->shared_b = p->scratch;
  if (p->shares_b) p->shared_starts = (int32_t *)(void *)(p->shared_b + panels_of(p, p->n_strips * p->width));
  if (p->shares_b && !p->failed) pool_run(p->threads, p->threads, pack_shared, p);
  if (!p->failed) pool_run(p->threads, p->threads, work, p);
  if (p->scratch) memory_give(p->scratch, bytes);
}

/* ---- the step ---- */

static void find_matrix(struct matrix *x, const struct contraction *c, const struct binding *b, weft_dtype t) {
  int size = kir_width(t);
  x->dtype = t, x->row = b->stride[c->n_batch] * size, x->column = b->stride[c->n_batch + 1] * size;
  for (int i = 0; i < c->n_batch; i++) x->batch[i] = b->stride[i] * size;
}

static void turn(struct product *p) {
  struct matrix a = p->a;
  p->a = p->b, p->b = a;
  swap(&p->a.row, &p->a.column);
  swap(&p->b.row, &p->b.column);
  swap(&p->y.row, &p->y.column);
  swap(&p->m, &p->n);
  for (int i = 0; i < 2; i++) {
    struct matrix *x = i ? &p->b : &p->a;
    int axis = x->row_axis;
    x->row_axis = x->column_axis, x->column_axis = axis;
  }
}

/* An operand that is made: its strides say only where neighbours are. */
static void find_made(struct matrix *x, const struct maker *m) {
  if (!(x->maker = m)) return;
  int size = kir_width(x->dtype);
  x->row_axis = m->row_axis, x->column_axis = m->column_axis;
  x->row = m->is_by_rows ? APART : size, x->column = m->is_by_rows ? size : APART;
  for (int i = 0; i < AXES; i++) x->batch[i] = m->batch_axis[i] >= 0 ? APART : 0;
}

static void find_product(struct product *p, const struct contraction *c) {
  *p = (struct product){ .c = c, .reg = kir_register_of(c->a_dtype), .m = c->m, .n = c->n, .k = c->k };
  p->size = kir_width(p->reg);
  find_matrix(&p->a, c, &c->a, c->a_dtype);
  find_matrix(&p->b, c, &c->b, c->b_dtype);
  find_matrix(&p->y, c, &c->y, p->reg);
  find_made(&p->a, c->maker[0]);
  find_made(&p->b, c->maker[1]);
  if (c->is_turned) turn(p);
}

static void place(struct matrix *x, const struct binding *b, uint8_t *const base[]) {
  if (b->store >= 0) x->at = base[b->store] + b->offset * kir_width(x->dtype);
}

static void place_product(struct product *p, uint8_t *const base[]) {
  const struct contraction *c = p->c;
  place(&p->a, c->is_turned ? &c->b : &c->a, base);
  place(&p->b, c->is_turned ? &c->a : &c->b, base);
  place(&p->y, &c->y, base);
}

static bool is_empty(const struct contraction *c) {
  for (int i = 0; i < c->n_batch; i++) if (!c->batch[i]) return true;
  return !c->m || !c->n;
}

static struct failure *outcome(const struct product *p) {
  if (is_cancelled(p)) return fail(WEFT_ERR_CANCELLED, 0, "weft_eval: cancelled");
  struct failure *f = p->a.maker ? piece_outcome(p->a.kernel) : NULL;
  if (!f && p->b.maker) f = piece_outcome(p->b.kernel);
  return f ? f : piece_outcome(p->next);
}

struct kernels { struct piece_kernel next, made[2]; };

/* Of large products; its columns side by side. */
static void find_read(struct product *p) {
  const struct kir_kernel *k = p->next->code ? p->next->code->kernel : NULL;
  int row = row_axis(p), column = column_axis(p);
  p->read = NULL;
  if (!k || is_small(p) || row < 0 || column < 0) return;
  for (int i = 0; i < k->n_bufs && !p->read; i++) {
    if (k->bufs[i].kind != KIR_IN || i == p->c->cell) continue;
    piece_strides(p->next, i, p->read_stride);
    if (p->read_stride[row] && p->read_stride[column] == p->size) p->read = p->next->bound[i].data;
  }
}

/* To memory, and to the kernel that goes on with it. */
static void bind(struct product *p, const struct plan *plan, int i, const struct run *r, uint8_t *const base[],
                 struct piece_kernel *next) {
  place_product(p, base);
  piece_kernel_of(next, plan, i, p->c->n_axes, p->c->start, base);
  p->next = next, p->cancel = r->cancel;
  find_read(p);
}

/* The product of step i, with the kernels that make its operands and go on with it. */
static void product_at(struct product *p, const struct plan *plan, int i, struct run *r, uint8_t *const base[], struct kernels *k) {
  const struct contraction *c = plan->schedule->step[i].contraction;
  find_product(p, c);
  for (int j = 0; j < 2; j++) {
    struct matrix *x = j ? &p->b : &p->a;
    if (x->maker) piece_kernel_of(x->kernel = &k->made[j], plan, x->maker->step, x->maker->n_axes, x->maker->start, base);
  }
  bind(p, plan, i, r, base, &k->next);
}

/* Rows of p are the left operand of the next, one after the other in scratch. */
static void chain(struct product *p, struct product *next) {
  int size = kir_width(next->a.dtype);
  p->then = next;
  p->fed_row = up(p->n * size, ALIGN) + GAP;
  next->a = (struct matrix){ .dtype = next->a.dtype, .row = p->fed_row, .column = size };
}

static int choose_both(struct product *p, int wanted, const struct contractor *unit, bool is_run) {
  struct product *next = p->then;
  p->unit = unit->lanes(p->reg) ? unit : &contractor_vm;
  if (next) next->unit = unit->lanes(p->reg) && unit->lanes(next->reg) ? unit : &contractor_vm, p->unit = next->unit;
  int how = choose(p, wanted, is_run);
  if (how || !next) return how;
  how = choose(next, wanted, is_run); /* its parts are those of p, .. */
  if (!how) next->cell_parts = p->cell_parts, measure_scratch(next); /* .. its cells rows that it is given */
  return how;
}

/* Of a product that has been chosen; where it might have gone one by one or in pairs, depending on its numbers, the larger. */
static size_t bytes_of(const struct product *p) {
  int together = p->together > 1 ? 1 : most_together(p);
  size_t bytes = total_bytes(p);
  if (!kir_is_float(p->reg) || together == p->together) return bytes;
  struct product other = *p;
  other.together = together;
  choose_sizes(&other);
  return total_bytes(&other) > bytes ? total_bytes(&other) : bytes;
}

static struct failure *no_room(size_t bytes) {
  return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory: a product needs %lld bytes to work in", (long long)bytes);
}

/* ---- by a library ---- */

enum { LEAST_FOR_BLAS = 1 << 15, BLAS_BYTES = 8 << 20 }; /* products; of rows that a kernel goes on with */

/* Of all rows of a batch, but for addresses. */
static struct blas_product blas_shape(const struct product *p) {
  int64_t size = p->size;
  return (struct blas_product){ .dtype = p->reg, .m = p->m, .n = p->n, .k = p->k, .a_row = p->a.row / size,
                                .a_column = p->a.column / size, .b_row = p->b.row / size, .b_column = p->b.column / size,
                                .c_row = p->c->y.store >= 0 ? p->y.row / size : p->n };
}

static int64_t blas_rows(const struct product *p) {
  int64_t rows = BLAS_BYTES / (p->n * p->size);
  return p->c->y.store >= 0 ? p->m : least(p->m, rows < 1 ? 1 : rows);
}

/* Asked for, and such as a library reads. */
static bool is_for_blas(const struct product *p) {
  if (!eval_settings()->blas || p->then || p->c->is_fed || p->a.maker || p->b.maker) return false;
  if (p->a.dtype != p->reg || p->b.dtype != p->reg || (double)p->m * (double)p->n * (double)p->k < LEAST_FOR_BLAS) return false;
  struct blas_product b = blas_shape(p);
  return blas_takes(&b) && (p->c->y.store < 0 || p->y.column == p->size || p->n == 1);
}

static size_t blas_bytes(const struct product *p) { return p->c->y.store >= 0 ? 0 : padded(blas_rows(p) * p->n * p->size); }

struct going_on { const struct worker *w; int64_t each; int failed; };

/* The kernel goes on with some rows of the cell. */
static void go_on_part(void *ctx, int i) {
  struct going_on *g = ctx;
  struct worker w = *g->w;
  w.cell.row += i * g->each, w.y += i * g->each * w.p->cell_row;
  w.cell.rows = least(g->each, g->w->cell.rows - i * g->each);
  uint64_t mode = float_mode_enter();
  if (go_on(&w)) __atomic_store_n(&g->failed, 1, __ATOMIC_RELAXED);
  float_mode_leave(mode);
}

static void blas_rows_of(struct worker *w, int threads) {
  struct product *p = (struct product *)w->p;
  struct blas_product b = blas_shape(p);
  for (int64_t row = 0; row < p->m && !p->failed && !is_cancelled(p); row += w->cell.rows) {
    w->cell.row = row, w->cell.rows = least(blas_rows(p), p->m - row);
    b.m = w->cell.rows, b.a = corner(w, &p->a, row, 0), b.b = corner(w, &p->b, 0, 0);
    b.c = w->y ? w->y : (uint8_t *)corner(w, &p->y, row, 0);
    blas_run(&b, threads);
    struct going_on g = { w, divide_up(w->cell.rows, (int64_t)threads * CELLS), 0 };
    if (p->next->code && !is_cancelled(p)) pool_run((int)divide_up(w->cell.rows, g.each), threads, go_on_part, &g);
    p->failed |= g.failed;
  }
}

static struct failure *run_blas(struct product *p, struct run *r) {
  size_t bytes = blas_bytes(p);
  const char *why = blas_load();
  if (why) return fail(WEFT_ERR_FILE, 0, "weft_eval: WEFT_BLAS asks for a library that is not there: %s", why);
  struct worker w = { .p = p, .y = bytes ? memory_take(bytes) : NULL, .cell = { .columns = p->n } };
  p->failed = bytes && !w.y;
  p->cell_row = p->n * p->size;
  for (double i = 0; i < n_batches(p) && !p->failed && !is_cancelled(p); i++) {
    int64_t rest = (int64_t)i;
    for (int k = p->c->n_batch - 1; k >= 0; k--) w.cell.batch[k] = rest % p->c->batch[k], rest /= p->c->batch[k];
    blas_rows_of(&w, r->threads);
  }
  if (w.y) memory_give(w.y, bytes);
  return p->failed ? no_room(bytes) : outcome(p);
}

static struct failure *run_chosen(struct product *p, size_t bytes) {
  run_cells(p, bytes);
  if (p->failed) return no_room(bytes);
  struct failure *f = outcome(p);
  return f || !p->then ? f : outcome(p->then);
}

static struct failure *run_both(struct product *p, struct run *r, int wanted) {
  if (is_for_blas(p)) return run_blas(p, r);
  if (!wanted) wanted = threads_for(p, r->threads, true);
  int how = choose_both(p, wanted, compiled_contractor(), true);
  if (how == 2) how = choose_both(p, wanted, &contractor_vm, true);
  if (how) return fail(WEFT_ERR_MEMORY, 0, "weft_eval: out of memory while compiling a product");
  return run_chosen(p, bytes_of(p));
}

/* ---- choices that are kept in the plan: of products that depend on no numbers, by one thread and by several ---- */

static const struct contractor *unit_for(const struct product *p) {
  const struct contractor *unit = compiled_contractor();
  return unit->lanes(p->reg) ? unit : &contractor_vm;
}

/* wanted: threads; 0: it has not been asked how many. */
static const struct product *recall(const struct plan *plan, int i, int most, int *wanted) {
  *wanted = 0;
  if (eval_settings()->blas) return NULL;
  const struct product *one = atomic_load_explicit(&plan->product[2 * i], memory_order_acquire),
                       *many = atomic_load_explicit(&plan->product[2 * i + 1], memory_order_acquire), *any = one ? one : many;
  if (!any || any->unit != unit_for(any)) return NULL;
  *wanted = threads_for(any, most, true);
  const struct product *p = *wanted > 1 ? many : one;
  return p && p->wanted == *wanted && p->unit == any->unit ? p : NULL;
}

static void keep(const struct plan *plan, int i, const struct product *p) {
  if (p->c->is_fed || p->a.maker || p->b.maker || !p->threads || p->unit != unit_for(p) || most_together(p) > 1) return;
  struct product *kept = mem_alloc(sizeof *kept), *none = NULL;
  if (!kept) return; /* it will be chosen again */
  *kept = *p;
  kept->next_cell = kept->next_strip = 0;
  if (!atomic_compare_exchange_strong(&plan->product[2 * i + (p->wanted > 1)], &none, kept)) mem_free(kept);
}

static struct failure *run(const struct plan *plan, int i, struct run *r, uint8_t *const base[]) {
  const struct step *s = &plan->schedule->step[i];
  if (s->contraction->feeds || is_empty(s->contraction)) return NULL; /* the step it feeds runs both */
  struct kernels kernels[2];
  struct product p, first;
  int wanted;
  const struct product *known = recall(plan, i, r->threads, &wanted);
  if (known) {
    p = *known;
    bind(&p, plan, i, r, base, &kernels[0].next);
    return run_chosen(&p, total_bytes(&p));
  }
  product_at(&p, plan, i, r, base, &kernels[0]);
  if (!s->contraction->is_fed) {
    struct failure *f = run_both(&p, r, wanted);
    keep(plan, i, &p);
    return f;
  }
  product_at(&first, plan, i - 1, r, base, &kernels[1]);
  chain(&first, &p);
  return run_both(&first, r, 0);
}

static int64_t scratch(const struct plan *plan, int i, int threads) {
  const struct step *s = &plan->schedule->step[i];
  struct product p, first;
  if (is_empty(s->contraction) || s->contraction->feeds) return 0;
  find_product(&p, s->contraction);
  if (s->contraction->is_fed) find_product(&first, s[-1].contraction), chain(&first, &p);
  struct product *both = s->contraction->is_fed ? &first : &p;
  if (is_for_blas(both)) return (int64_t)blas_bytes(both);
  choose_both(both, threads_for(both, threads, false), compiled_contractor(), false);
  return (int64_t)bytes_of(both);
}

/* ---- the kind ---- */

static void stores(struct schedule *s, struct step *p, store_visitor *v, void *of) {
  struct contraction *c = p->contraction;
  kernel_stores(s, p, v, of);
  see_store(&c->a.store, STORE_READ, v, of);
  see_store(&c->b.store, STORE_READ, v, of);
  see_store(&c->y.store, STORE_WRITTEN, v, of);
  for (int k = 0; k < 2; k++) if (c->maker[k]) kernel_stores(s, &s->step[c->maker[k]->step], v, of);
  if (c->is_fed) stores(s, p - 1, v, of); /* they run together */
}

/* Not where makers, or the other one of two that run together, may read it later. */
static bool may_overwrite(const struct step *p, int from, int to) {
  const struct contraction *c = p->contraction;
  if (c->is_fed || c->feeds || c->maker[0] || c->maker[1]) return false;
  bool is_operand = c->a.store == from || c->b.store == from || c->a.store == to || c->b.store == to;
  return !is_operand && p->kernel && kernel_may_overwrite(p, from, to);
}

static bool compile(struct plan *p, int i, struct failure **failure) {
  return !p->schedule->step[i].kernel || kernel_compile(p, i, NULL, failure);
}

static void show_operand(const struct schedule *s, const struct maker *m, const struct binding *b, struct text *t) {
  if (m) text_addf(t, "pieces of step %d", m->step);
  else store_show(s, b->store, t);
}

static void show_contraction(const struct schedule *s, const struct contraction *c, struct text *t) {
  text_addf(t, "product(%s", weft_dtype_name(c->a_dtype));
  if (c->b_dtype != c->a_dtype) text_addf(t, " x %s", weft_dtype_name(c->b_dtype));
  for (int i = 0; i < c->n_batch; i++) text_addf(t, ", batch=%lld", (long long)c->batch[i]);
  text_addf(t, ", M=%lld, N=%lld, K=%lld, a=", (long long)c->m, (long long)c->n, (long long)c->k);
  if (c->is_fed) text_add(t, "rows of the step before");
  else show_operand(s, c->maker[0], &c->a, t);
  text_add(t, ", b=");
  show_operand(s, c->maker[1], &c->b, t);
  if (c->y.store >= 0) text_add(t, ", y="), store_show(s, c->y.store, t);
  text_add(t, ")");
}

/* As this thread's WEFT_BLAS is set. */
static int library_calls(const struct plan *plan, int i) {
  const struct contraction *c = plan->schedule->step[i].contraction;
  struct product p;
  if (c->feeds || is_empty(c)) return 0;
  find_product(&p, c);
  return is_for_blas(&p);
}

static const char *cell_or_rows(const struct step *s, int buf) {
  const struct contraction *c = s->contraction;
  return c->feeds && buf == c->fed ? "rows" : s->bufs[buf].store < 0 ? "cell" : NULL;
}

static void show(const struct plan *p, int i, struct text *t) {
  text_addf(t, "%d: ", i);
  show_contraction(p->schedule, p->schedule->step[i].contraction, t);
  text_add(t, p->code[i] ? ", cell by cell:\n  " : "\n");
  if (p->code[i]) kernel_show(p, i, cell_or_rows, t);
}

const struct step_kind step_product = {
  .name = "product", .where = STEP_ON_HOST, .stores = stores, .may_overwrite = may_overwrite, .drop = kernel_drop,
  .compile = compile, .run = run, .scratch = scratch, .library_calls = library_calls,
  .show = show,
};
