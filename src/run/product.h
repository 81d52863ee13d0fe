/* product.h -- a product of matrices that is run: [m,k] x [k,n] -> [m,n] for each of a batch.
 *
 * y is cut into cells; a thread takes one cell after the other, copies of the operands what is better copied, multiplies patch by
 * patch and hands the finished cell to the kernel that goes on with it. How the operands are read is a strategy, one file each:
 *
 *   product_dots.c     one row, and the matrix as it lies: no patches
 *   product_windows.c  a left operand that is windows of an array, as convolutions have it
 *   product_added.c    several products that are added
 *   product_small.c    operands that the caches hold: read where they are
 *   product_flat.c     few rows: the matrix is used hardly more than once, and read in long runs
 *   product_panels.c   the rest: both operands are copied to panels
 *   product_tiles.c    the same where the processor multiplies tiles: of bytes, and of bf16 if that is allowed
 *   product_fed.c      two products that run together, the rows of one being the left operand of the other; each reads its
 *                      operands by one of the above
 *   product_library.c  a CBLAS that was asked for: a kind of step of its own
 *
 * They share how y is cut (product_cut.c, for many threads product_tracts.c), panels, pieces and scratch (product_pack.c), patches
 * (product_patch.c), and cells and threads (product_cells.c). product.c is the step. No choice made in any of them changes a bit,
 * but a library's. */
#ifndef WEFT_RUN_PRODUCT_H
#define WEFT_RUN_PRODUCT_H
#include <stdlib.h>
#include "backend/patch.h"
#include "base/least.h"
#include "run/panels.h"
#include "run/piece.h"
#include "run/plan.h"

enum {
  PRODUCT_ALIGN = 64,       /* bytes: what threads write stands in lines of its own */
  ROW_GAP = 64,             /* bytes between rows of a cell or of what is fed, lest they share the sets of a cache */
  CELLS_A_THREAD = 4,       /* at least: slow ones even out */
  LONG_RUN = 8192,          /* bytes: a thread that reads as many of each row of a matrix fetches little of what others read */
  NEAR = 8                  /* threads; more are far apart */
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

/* How y is cut. Rows go in parts, one patch high; the first n_higher of them have one row more. Columns go in strips, as wide as a
 * patch. A cell is some parts by some strips. */
struct cut {
  int64_t n_parts, part_rows, n_higher;
  int patch_rows;               /* at most: of windows a part may be several patches */
  int width;                    /* columns of a patch */
  int64_t n_strips;
  int64_t cell_parts, cell_columns; /* of a cell, at most */
  int64_t cell_row;             /* bytes from row to row of a cell */
  int64_t n_blocks;             /* of k, if each is a cell of its own, whose sums are added at the end; else 1 */
  int64_t n_row_cells, n_column_cells, n_cells;
  int64_t turn;                 /* cells that a thread takes at a time */
  int64_t n_tracts;             /* product_tracts.c: of the columns; then cells are what threads take of their rows. 0: none */
};

/* What is copied before it is multiplied. */
struct packing {
  bool a, b, shares_b;          /* shares: all of b, once for all threads, or once for all runs */
  int together;                 /* products at a time: 2 or 4 if it multiplies pairs or fours */
  int64_t chunk;                /* products between two visits of a patch */
  int64_t held;                 /* rows of b that are packed at once */
};

/* Scratch of a thread, in the order in which it stands: panels, the cell, sums of blocks that are cut, rows for the next
 * product, a piece of an operand, where sums of fours begin. */
struct product_bytes { size_t a, b, cell, sums, fed, piece, starts; size_t blocks; /* shared: the sums of all blocks */ };

/* What is fetched while a patch multiplies: of an operand that the next batch reads where it is, or of a matrix that the kernel
 * which goes on with the cell reads. */
struct fetching {
  int64_t a_lines, b_lines;     /* of the cache, of one batch; then a cell is a batch. 0: nothing */
  const uint8_t *read;          /* as large as the product; NULL: none */
  int64_t read_stride[AXES];    /* bytes, by axis of the kernel */
};

struct worker;
struct product;

/* How the right operand stands: in one place, as b_run or as b_first says (schedule/step.h). */
enum right_form { RIGHT_IN_ONE = 1, RIGHT_IN_RUNS = 2, RIGHT_IN_TWO = 4 };

/* A way to read the operands. */
struct strategy {
  const char *name;
  int reads;                                      /* forms of the right operand */
  bool (*applies)(const struct product *);        /* parts and strips are cut */
  void (*choose)(struct product *);               /* what is packed, and cells: calls product_cut_cells */
  void (*multiply)(struct worker *, int64_t k, int64_t n); /* n products from k on, for all of the worker's cell */
};
extern const struct strategy strategy_windows, strategy_added, strategy_dots, strategy_tiles, strategy_small, strategy_flat,
  strategy_panels; /* in this order */

/* If it is turned, the rows here are the columns there: y' = b' a'. */
struct product {
  const struct contraction *c;
  const struct contractor *unit;
  const struct strategy *strategy;
  weft_dtype reg;               /* dtype of sums, and of what is packed */
  int size;                     /* bytes of an element of it */
  int64_t m, n, k;
  int64_t block;                /* terms of one; of products that are added those of each, and k those of all */
  uint8_t *const *base;         /* of stores: where the operands of the others are */
  struct matrix a, b, y;        /* y.at NULL: cells go to the kernel */
  const struct windows *windows; /* of a: where its rows and terms are, instead of strides; NULL: it has these */
  struct matrix rest;           /* where rows or columns of b from `first` on stand, see b_first in schedule/step.h; then it goes by
                                   dots */
  int64_t first;                /* 0: all stand in b */
  int64_t run;                  /* rows of a run of b, see b_run in schedule/step.h; then it is packed by all, in one piece. 0: it
                                   has none */
  struct buffer *constant;      /* what b is in, if that is the same in every run, and its panels may be kept; NULL: else */
  int64_t constant_offset;      /* bytes: where b begins there */
  int wanted;                   /* threads, if there were cells for all; */
  int threads;                  /* those there are cells for */
  struct cut cut;
  struct packing packs;
  struct product_bytes bytes;
  struct fetching fetch;
  patch_code *code[2][2];       /* part_rows or one more; a whole patch or the columns at the right edge */
  patch_code *row_code[2];      /* fours: of one row */
  dots_code *dots;              /* strategy_dots: instead of patches */
  struct panels *kept;          /* those of b; NULL: they are scratch */
  uint8_t *scratch;             /* first what is shared and not kept, then that of each thread */
  uint8_t *shared_b;            /* all strips of b, and where their sums start */
  int32_t *shared_starts;
  uint8_t *blocks;              /* sums of blocks that are cells: rows of all columns, in the order of k */
  int64_t next_cell, next_turn; /* atomic: what nobody has taken yet begins there */
  struct product *then;         /* what the rows of the kernel's result are the left operand of */
  int64_t fed_row;              /* bytes from row to row of those */
  struct piece_kernel *next;    /* goes on with a cell; its code may be NULL: there is none */
  struct cancel *cancel;
  int failed;                   /* atomic: out of memory for scratch */
};

struct cell {
  int64_t batch[AXES];
  int64_t part, parts, row, rows, column, columns; /* of the product: first, how many */
  int64_t k;                    /* its first product */
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
  int64_t k;                    /* where products that are added end: earlier than in the product where the others are with 0 */
  uint8_t *fed;                 /* rows of the kernel's result, for .. */
  struct worker *then;
  const uint8_t *left;          /* .. whose left operand they are; NULL: it stands in memory */
  int64_t finite_batch;         /* of b: all of this batch are finite; -1: not known; -2 - batch: they are not */
};

static inline int64_t divide_up(int64_t a, int64_t b) { return a ? (a - 1) / b + 1 : 0; }
static inline int64_t round_up(int64_t a, int64_t to) { return divide_up(a, to) * to; }
static inline size_t padded(int64_t bytes) { return (size_t)round_up(bytes, PRODUCT_ALIGN); }
static inline bool product_is_cancelled(const struct product *p) { return cancel_is_set(p->cancel); }

static inline int64_t first_row(const struct product *p, int64_t part) {
  return part * p->cut.part_rows + least(part, p->cut.n_higher);
}
static inline int rows_of_part(const struct product *p, int64_t part) {
  return (int)(p->cut.part_rows + (part < p->cut.n_higher));
}
static inline int64_t panel_rows(const struct product *p, int64_t k) {
  int64_t rows = p->packs.together > 1 ? divide_up(k, p->packs.together) : k;
  return p->unit->deep ? round_up(rows, p->unit->deep) : rows;
}

/* Sums of fours do not begin at 0; those of tiles do. */
static inline bool product_has_starts(const struct product *p) { return p->packs.together == 4 && !p->unit->deep; }

/* So few rows that b is used hardly more than once. */
static inline bool product_is_flat(const struct product *p) { return p->cut.n_parts <= 2; }

/* Panels of b are kept for other runs. Where few rows make reading what takes the time, only if they are as small as b. */
static inline bool product_is_kept(const struct product *p) {
  return p->constant && (p->b.dtype == p->reg || !product_is_flat(p));
}

static inline bool product_lies_along_k(const struct product *p) { return llabs(p->b.row) < llabs(p->b.column); }

static inline const uint8_t *operand_corner(const struct worker *w, const struct matrix *x, int64_t row, int64_t column) {
  const uint8_t *at = x->at + row * x->row + column * x->column;
  for (int i = 0; i < w->p->c->n_batch; i++) at += w->cell.batch[i] * x->batch[i];
  return at;
}

/* The left operand from a row of the cell and k on. */
static inline const uint8_t *left_corner(const struct worker *w, const struct matrix *a, int64_t row, int64_t k) {
  return w->left ? w->left + (row - w->cell.row) * a->row + k * a->column : operand_corner(w, a, row, k);
}

/* Of products that are added: where term k of all is in its own. */
static inline int64_t term_of(const struct product *p, int64_t k) { return p->c->n_more ? k % p->block : k; }

/* Columns of the strip that begins at column j of the cell. */
static inline int64_t strip_columns(const struct worker *w, int64_t j) { return least(w->p->cut.width, w->cell.columns - j); }

/* The panel of the strip that begins at column j. */
static inline uint8_t *strip_at(const struct worker *w, int64_t j) {
  return w->b + (w->cell.column - w->b_column + j) * panel_rows(w->p, w->p->packs.held) * w->p->size;
}

static inline uint64_t mask_of(const struct product *p, int64_t columns) {
  return ~UINT64_C(0) >> (63 - (columns - 1) % p->unit->lanes(p->reg));
}

/* Fours: where the sums of a chunk begin, from column j of the cell on. k: of the rows that are packed. */
static inline int32_t *start_of(const struct worker *w, int64_t k, int64_t j) {
  int64_t columns = w->p->packs.shares_b ? w->p->cut.n_strips * w->p->cut.width : w->p->cut.cell_columns;
  return w->starts + k / w->p->packs.chunk * columns + w->cell.column - w->b_column + j;
}

static inline int product_row_axis(const struct product *p) { return p->c->is_turned ? p->c->column_axis : p->c->row_axis; }
static inline int product_column_axis(const struct product *p) { return p->c->is_turned ? p->c->row_axis : p->c->column_axis; }

/* product_cut.c */
double product_batches(const struct product *);
int product_threads(const struct product *, int most, bool is_run);
bool product_is_small(const struct product *);      /* the caches hold its operands */
void product_cut_patches(struct product *);
void product_cut_cells(struct product *, int64_t columns, int64_t parts); /* at most these a cell; what is packed has been chosen */
int64_t product_parts_in(const struct product *, int64_t columns, int64_t bytes); /* of cells of so many columns and bytes */
bool product_may_share(const struct product *);     /* threads may pack all of b together */
bool product_has_one_right(const struct product *); /* the same b for all batches, if it is not made */

/* product_pack.c */
struct operand_block { const uint8_t *at; int64_t row, column; }; /* elements of an operand where they can be read */
struct operand_block right_block(struct worker *, int64_t row, int64_t column, int64_t rows, int64_t columns);
void product_pack_left(struct worker *, int64_t k, int64_t n);
void product_pack_right(struct worker *, int64_t k);
int64_t product_pack_turns(const struct product *); /* in which all of b is packed by all threads, .. */
void product_pack_turn(struct worker *, int64_t i); /* .. and one of them */
void product_measure(struct product *);             /* bytes */
size_t product_own_bytes(const struct product *);   /* scratch of one thread, */
size_t product_shared_bytes(const struct product *); /* of all together, */
size_t product_total_bytes(const struct product *); /* and both, with that of a product which is fed */
uint8_t *product_room(const struct product *, int thread);
void product_place_shared(struct product *);        /* in the scratch that is there now */
void worker_begin(struct worker *, const struct product *, uint8_t *room);

/* product_patch.c */
int product_find_code(struct product *);            /* 1: out of memory; 2: nobody may make code */
void product_by_patches(struct worker *, int64_t k, int64_t n); /* see struct strategy */
void product_find_read(struct product *);

/* product_tracts.c */
int64_t product_best_tracts(const struct product *); /* so many that threads pack the least */
bool product_cut_tracts(struct product *, int64_t n, int64_t parts); /* instead of product_cut_cells; parts: as there. false: it
                                                       is not cut so */
void product_run_tracts(struct product *);

/* product_cells.c */
int64_t product_share(int64_t n, int64_t i, int64_t of); /* where the i-th of so many equal shares of n begins */
int cell_run(struct worker *);                      /* multiplies, and goes on. 1: out of memory */
void cell_axes(const struct worker *, int64_t from[], int64_t extent[]);
void cell_multiply(struct worker *);
int cell_go_on(const struct worker *);              /* the kernel, on a cell. 1: out of memory */
void product_run_cells(struct product *, size_t bytes);

/* product_windows.c */
void product_cut_windows(struct product *);         /* parts and the width of patches */

/* product_panels.c */
int product_most_together(const struct product *);  /* products at a time, if all numbers allow it */
bool product_fits_tiles(const struct product *);     /* the processor multiplies tiles of it; product_tiles.c */
bool product_pairs_are_allowed(const struct product *, int threads); /* looks at them */

/* product_fed.c */
void product_chain(struct product *, struct product *next); /* rows of the first are the left operand of the next */
int fed_cell(struct worker *);                      /* the worker's cell and what it feeds. 1: out of memory */

/* product.c; the kinds step_product and step_library_product (product_library.c) share it */
struct product_kernels { struct piece_kernel next, made[2]; };
void product_of(struct product *, const struct contraction *); /* but for memory */
/* That of the product which term k is of; *room: for one that is not the first. */
const struct matrix *product_operand(const struct product *, bool is_left, int64_t k, struct matrix *room);
void product_at(struct product *, const struct plan *, int step, struct run *, uint8_t *const base[], struct product_kernels *);
bool product_is_empty(const struct contraction *);
void product_stores(struct schedule *, struct step *, store_visitor *, void *of);
bool product_may_overwrite(const struct step *, int from, int to);
bool product_compile(struct plan *, int step, struct failure **);
void product_show(const struct plan *, int step, const char *by, struct text *); /* by: a library; NULL: patches */
struct failure *product_outcome(const struct product *);
struct failure *product_no_room(size_t bytes);

#endif
