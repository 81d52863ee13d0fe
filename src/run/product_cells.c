/* product_cells.c -- threads take cells: each is multiplied by the product's strategy and handed to the kernel that
 * goes on with it. */
#include "run/product.h"
#include <string.h>
#include "backend/float_mode.h"
#include "run/memory.h"
#include "run/pool.h"

int64_t product_share(int64_t n, int64_t i, int64_t of) { return of == 1 ? i * n : n / of * i + least(i, n % of); }

/* i % of, and *i becomes i / of: most are 1 of small products, which would wait for the divisions. */
static inline int64_t digit(int64_t *i, int64_t of) {
  if (of == 1) return 0;
  int64_t r = *i % of;
  *i /= of;
  return r;
}

static void find_cell(struct worker *w, int64_t i) {
  const struct product *p = w->p;
  struct cell *c = &w->cell;
  int64_t row = digit(&i, p->cut.n_row_cells), column = digit(&i, p->cut.n_column_cells);
  c->k = digit(&i, p->cut.n_blocks) * p->block;
  c->part = product_share(p->cut.n_parts, row, p->cut.n_row_cells);
  c->column = product_share(p->cut.n_strips, column, p->cut.n_column_cells) * p->cut.width;
  w->batch = i;
  for (int k = p->c->n_batch - 1; k >= 0; k--) c->batch[k] = digit(&i, p->c->batch[k]);
  c->parts = product_share(p->cut.n_parts, row + 1, p->cut.n_row_cells) - c->part;
  c->row = first_row(p, c->part);
  c->rows = first_row(p, c->part + c->parts) - c->row;
  c->columns = least(p->n, product_share(p->cut.n_strips, column + 1, p->cut.n_column_cells) * p->cut.width) - c->column;
}

/* Where the cell begins along each axis of the kernel that goes on with it, and how far it goes. */
void cell_axes(const struct worker *w, int64_t from[], int64_t extent[]) {
  const struct contraction *c = w->p->c;
  const struct cell *x = &w->cell;
  for (int i = 0; i < c->n_batch; i++) from[i] = x->batch[i], extent[i] = 1;
  int row = product_row_axis(w->p), column = product_column_axis(w->p);
  if (row >= 0) from[row] = x->row, extent[row] = x->rows;
  if (column >= 0) from[column] = x->column, extent[column] = x->columns;
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

int cell_go_on(const struct worker *w) {
  const struct product *p = w->p;
  int64_t from[AXES], extent[AXES];
  cell_axes(w, from, extent);
  struct piece_buffer own[2] = { rows_of_cell(p, p->c->cell, w->y, p->cut.cell_row) };
  if (p->then) own[1] = rows_of_cell(p, p->c->fed, w->fed, p->fed_row);
  return piece_run(p->next, from, extent, p->then ? 2 : 1, own, p->cancel);
}

/* ---- one cell ---- */

void cell_multiply(struct worker *w) {
  const struct product *p = w->p;
  int64_t k = w->cell.k;
  do {
    int64_t n = least(w->k - k, p->packs.chunk);
    if (p->packs.b && !p->packs.shares_b) product_pack_right(w, k);
    if (p->packs.a) product_pack_left(w, k, n);
    p->strategy->multiply(w, k, n);
    k += n;
  } while (k < w->k && !w->failed && !product_is_cancelled(p));
}

int cell_run(struct worker *w) {
  const struct product *p = w->p;
  w->k = p->cut.n_blocks > 1 ? least(p->k, w->cell.k + p->block) : p->k;
  if (p->then) return fed_cell(w);
  cell_multiply(w);
  if (p->cut.n_blocks > 1) return w->failed;
  return w->failed || (p->next->code && !product_is_cancelled(p) && cell_go_on(w));
}

/* ---- threads ---- */

/* The next `turn` of things that threads share; `next` is theirs too. */
static int64_t take(const struct product *p, int64_t *next, int64_t turn) {
  int64_t first = p->threads == 1 ? *next : __atomic_fetch_add(next, turn, __ATOMIC_RELAXED);
  if (p->threads == 1) *next += turn;
  return first;
}

/* Cells, by thread i. */
static void work(void *ctx, int i) {
  struct product *p = ctx;
  uint8_t *room = product_room(p, i);
  struct worker w, then;
  worker_begin(&w, p, room);
  if (p->then) worker_begin(&then, p->then, room + product_own_bytes(p)), then.left = w.fed, w.then = &then;
  bool failed = false;
  uint64_t mode = float_mode_enter();
  if (p->unit->enter) p->unit->enter();
  for (int64_t c; !failed && !product_is_cancelled(p) && (c = take(p, &p->next_cell, p->cut.turn)) < p->cut.n_cells;)
    for (w.end = least(c + p->cut.turn, p->cut.n_cells); c < w.end && !failed && !product_is_cancelled(p); c++)
      find_cell(&w, c), failed = cell_run(&w);
  if (p->unit->leave) p->unit->leave();
  float_mode_leave(mode);
  if (failed) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

/* The sums of blocks that were cells become one row, in the order of k, and the kernel goes on with it. 1: out of memory */
static int add_blocks(struct product *p) {
  size_t row = padded(p->n * p->size) / sizeof(float);
  float *sum = (float *)(void *)p->blocks;
  struct worker w;
  worker_begin(&w, p, product_room(p, 0));
  find_cell(&w, 0);
  w.cell.columns = p->n, w.y = p->blocks;
  uint64_t mode = float_mode_enter();
  for (int64_t i = 1; i < p->cut.n_blocks; i++)
    for (int64_t j = 0; j < p->n; j++) sum[j] += sum[(size_t)i * row + (size_t)j];
  if (p->y.at) memcpy(p->y.at, sum, (size_t)(p->n * p->size));
  int failed = p->next->code && cell_go_on(&w);
  float_mode_leave(mode);
  return failed;
}

/* Turns of b for all, by thread i. */
static void pack_shared(void *ctx, int i) {
  struct product *p = ctx;
  int64_t turns = product_pack_turns(p);
  struct worker w;
  worker_begin(&w, p, product_room(p, i));
  memset(&w.cell, 0, sizeof w.cell), w.batch = 0;
  uint64_t mode = float_mode_enter();
  for (int64_t c; !w.failed && !product_is_cancelled(p) && (c = take(p, &p->next_turn, 1)) < turns;)
    product_pack_turn(&w, c);
  float_mode_leave(mode);
  if (w.failed) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

/* The panels of a constant, or room for them. NULL: they are scratch. */
static struct panels *hold_constant(const struct product *p) {
  if (!product_is_kept(p) || !p->packs.shares_b) return NULL;
  struct panels_form form = { .offset = p->constant_offset, .row = p->b.row, .column = p->b.column, .run = p->run, .k = p->k,
                              .n = p->n, .dtype = p->b.dtype, .width = p->cut.width, .together = p->packs.together,
                              .unit = (int64_t)(intptr_t)p->unit };
  return panels_hold(p->constant, &form, product_shared_bytes(p));
}

/* Strips are packed, unless they are there. */
static void pack_all(struct product *p) {
  if (p->kept && p->kept->is_packed) return;
  pool_run(p->threads, p->threads, pack_shared, p);
  if (p->kept && !p->failed && !product_is_cancelled(p)) panels_keep(p->kept);
}

void product_run_cells(struct product *p, size_t bytes) {
  p->kept = hold_constant(p);
  if (p->kept) bytes -= product_shared_bytes(p);
  p->scratch = bytes ? memory_take(bytes) : NULL;
  p->failed = bytes && !p->scratch;
  product_place_shared(p);
  if (p->packs.shares_b && !p->failed) pack_all(p);
  if (!p->failed && p->cut.n_tracts) product_run_tracts(p);
  else if (!p->failed) pool_run(p->threads, p->threads, work, p);
  if (p->cut.n_blocks > 1 && !p->failed && !product_is_cancelled(p)) p->failed = add_blocks(p);
  if (p->scratch) memory_give(p->scratch, bytes);
  panels_let_go(p->kept);
}
