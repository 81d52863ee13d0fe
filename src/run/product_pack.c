/* product_pack.c -- what a product works in: panels of its operands, pieces of those that are made, and the one block of memory in
 * which all of it stands, so that it is counted and refused as a whole.
 *
 * A piece is the part of an operand that its kernel makes at a time. Where lanes run along k it is some parts over all of k, or a
 * strip; else all of the cell, some of k at a time. */
#include "run/product.h"
#include <string.h>
#include "base/hard.h"

enum {
  PACKED_ROWS = 16,         /* of b that are packed at a time, so that memory is read in runs and not a vector a row */
  LEAST_ROOM = 1 << 12,     /* bytes */
  PIECE = 1 << 14,          /* elements of an operand that are made at a time: they stay in the first two caches */
  TURNED_ROWS = 256         /* of an operand in runs that are packed in the order of memory, before each goes to its place. 49 rows
                               by 4608 x 512 on one thread: 3.9 ms with 128, 3.6 with 256 */
};

/* ---- how large pieces and panels are ---- */

static size_t starts_of(const struct product *p, int64_t columns) {
  return product_has_starts(p) ? padded(divide_up(p->packs.held, p->packs.chunk) * columns * p->size) : 0;
}

static size_t panels_of(const struct product *p, int64_t columns) {
  return p->packs.b ? padded(panel_rows(p, p->packs.held) * columns * p->size) : 0;
}

static bool made_along_k(const struct matrix *a) { return llabs(a->column) < llabs(a->row); } /* of the left one */

static int64_t most_rows(const struct product *p) { /* of a cell */
  return p->cut.cell_parts * (p->cut.part_rows + (p->cut.n_higher > 0));
}

static int64_t most_products(const struct product *p) { return least(p->k, p->packs.chunk); } /* that are packed at a time */

/* Parts of the left operand that are packed from one piece: as many where the last products are fewer, so that it has room. */
static int64_t piece_parts(const struct product *p) {
  if (!p->a.maker || !made_along_k(&p->a)) return p->cut.cell_parts;
  int64_t most = PIECE / ((p->cut.part_rows + 1) * most_products(p));
  return most < 1 ? 1 : least(most, p->cut.cell_parts);
}

/* Products of which a piece of the left operand is made, of n. */
static int64_t piece_products(const struct product *p, int64_t n) {
  if (!p->a.maker || made_along_k(&p->a)) return n;
  return least(n, round_up(divide_up(PIECE, most_rows(p)), PACKED_ROWS * p->packs.together));
}

/* Rows of the right operand that are packed from one piece: of all strips or, if it lies along k, of one. */
static int64_t piece_rows(const struct product *p, int64_t n) {
  if (!product_lies_along_k(p)) return PACKED_ROWS * p->packs.together;
  return p->b.maker ? least(n, round_up(divide_up(PIECE, p->cut.width), PACKED_ROWS * p->packs.together)) : n;
}

static size_t measure_pieces(const struct product *p) {
  int64_t a = 0, b = 0, gap = PRODUCT_ALIGN;
  if (p->a.maker) {
    int64_t high = least(most_rows(p), piece_parts(p) * (p->cut.part_rows + 1)), wide = piece_products(p, most_products(p));
    a = made_along_k(&p->a) ? high * (wide * p->size + gap) : wide * (high * p->size + gap);
  }
  if (p->b.maker) {
    int64_t high = piece_rows(p, p->packs.held), wide = product_lies_along_k(p) ? p->cut.width : p->cut.cell_columns;
    b = product_lies_along_k(p) ? wide * (high * p->size + gap) : high * (wide * p->size + gap);
  }
  if (p->run) b = TURNED_ROWS * p->cut.width * p->size + PANEL_SLACK;
  return padded(a > b ? a : b);
}

/* Room for a row of a product that feeds another is the next power of two: keys that become more, token by token, take the same
 * room again, and the same block of memory. */
static size_t room_of_rows(const struct product *p, int64_t rows, int64_t row) {
  size_t bytes = padded(rows * row), room = LEAST_ROOM;
  if (!p->then || rows > 1) return bytes;
  while (room < bytes) room *= 2;
  return room;
}

void product_measure(struct product *p) {
  int64_t rows = most_rows(p), high = p->unit->high ? p->unit->high * p->cut.cell_parts : rows;
  p->bytes.a = p->packs.a ? padded(high * panel_rows(p, most_products(p)) * p->size + PANEL_SLACK) : 0;
  p->bytes.b = p->packs.shares_b ? 0 : panels_of(p, p->cut.cell_columns);
  p->bytes.sums = p->k > p->packs.chunk && p->packs.chunk < KIR_PRODUCT_BLOCK ? padded(rows * p->cut.cell_row) : 0;
  if (p->windows) p->bytes.sums = padded((p->cut.patch_rows + 1) * p->cut.width * p->size); /* of a patch, and of zeros */
  p->bytes.cell = p->c->y.store >= 0 ? 0 : room_of_rows(p, rows, p->cut.cell_row);
  p->bytes.starts = p->packs.shares_b ? 0 : starts_of(p, p->cut.cell_columns);
  p->bytes.fed = p->then ? room_of_rows(p, rows, p->fed_row) : 0;
  p->bytes.piece = measure_pieces(p);
  p->bytes.blocks = p->cut.n_blocks > 1 ? (size_t)p->cut.n_blocks * padded(p->n * p->size) : 0;
}

/* ---- where they stand ---- */

size_t product_own_bytes(const struct product *p) {
  return p->bytes.a + p->bytes.b + p->bytes.cell + p->bytes.sums + p->bytes.starts + p->bytes.fed + p->bytes.piece;
}

/* Leaves the cell as it is: small products are done before so much memory is cleared. */
void worker_begin(struct worker *w, const struct product *p, uint8_t *room) {
  w->p = p, w->a = room, w->b = room + p->bytes.a;
  w->y = w->b + p->bytes.b, w->sums = w->y + p->bytes.cell, w->fed = w->sums + p->bytes.sums;
  w->piece = w->fed + p->bytes.fed;
  w->starts = (int32_t *)(void *)(w->piece + p->bytes.piece);
  if (p->packs.shares_b) w->b = p->shared_b, w->starts = p->shared_starts;
  w->b_batch = w->finite_batch = -1;
  w->end = 0;
  w->b_column = w->b_columns = w->b_k = 0;
  w->then = NULL, w->left = NULL, w->failed = false;
}

/* Memory that each thread has for itself, also for the product that this one feeds. */
static size_t own_bytes(const struct product *p) { return product_own_bytes(p) + (p->then ? product_own_bytes(p->then) : 0); }

size_t product_shared_bytes(const struct product *p) {
  int64_t columns = p->cut.n_strips * p->cut.width;
  return p->packs.shares_b ? panels_of(p, columns) + starts_of(p, columns) : 0;
}

size_t product_total_bytes(const struct product *p) {
  return product_shared_bytes(p) + p->bytes.blocks + own_bytes(p) * (size_t)p->threads;
}

uint8_t *product_room(const struct product *p, int i) {
  return p->scratch + (p->kept ? 0 : product_shared_bytes(p)) + p->bytes.blocks + own_bytes(p) * (size_t)i;
}

void product_place_shared(struct product *p) {
  p->shared_b = p->kept ? p->kept->at : p->scratch;
  p->blocks = p->scratch + (p->kept ? 0 : product_shared_bytes(p));
  if (p->packs.shares_b) p->shared_starts = (int32_t *)(void *)(p->shared_b + panels_of(p, p->cut.n_strips * p->cut.width));
}

/* ---- packing ---- */

/* Computed into scratch, rows or columns side by side. */
static struct operand_block made(struct worker *w, const struct matrix *x, int64_t row, int64_t column, int64_t rows,
                                 int64_t columns) {
  const struct maker *m = x->maker;
  bool is_by_rows = llabs(x->column) < llabs(x->row);
  int64_t from[AXES], extent[AXES];
  int64_t size = kir_width(x->dtype), next = round_up((is_by_rows ? columns : rows) * size, PRODUCT_ALIGN);
  struct piece_buffer own = { .buf = m->piece, .data = w->piece };
  int r = x->row_axis, c = x->column_axis;
  INVARIANT((size_t)(next * (is_by_rows ? rows : columns)) <= w->p->bytes.piece);
  struct operand_block b = { w->piece, r < 0 ? 0 : is_by_rows ? next : size, c < 0 ? 0 : is_by_rows ? size : next };
  for (int i = 0; i < w->p->c->n_batch; i++)
    if (m->batch_axis[i] >= 0) from[m->batch_axis[i]] = w->cell.batch[i], extent[m->batch_axis[i]] = 1;
  if (r >= 0) from[r] = row, extent[r] = rows, own.stride[r] = b.row;
  if (c >= 0) from[c] = column, extent[c] = columns, own.stride[c] = b.column;
  if (piece_run(x->kernel, from, extent, 1, &own, w->p->cancel)) w->failed = true;
  return b;
}

/* A block of the right operand, where it stands or as its maker makes it. */
struct operand_block right_block(struct worker *w, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  struct matrix room;
  const struct matrix *b = product_operand(w->p, false, row, &room);
  if (b->maker) return made(w, &w->p->b, row, column, rows, columns);
  return (struct operand_block){ operand_corner(w, b, term_of(w->p, row), column), b->row, b->column };
}

static void pack(const struct product *p, const struct panel *x, bool is_left) {
  if (p->packs.together > 1) p->unit->pack_together(x, is_left);
  else p->unit->pack(x);
}

/* -128 times the sums of columns, over n rows that are packed, of the strips from column `first` on. */
static void begin_fours(struct worker *w, int64_t first, int64_t n) {
  static const uint32_t ones = FOURS_SHIFT;
  const struct product *p = w->p;
  for (int64_t i = 0; i < n; i += p->packs.chunk)
    for (int64_t j = first; j < w->cell.columns; j += p->cut.width) {
      int32_t *start = start_of(w, i, j);
      int64_t row = p->cut.width * p->size, columns = strip_columns(w, j);
      struct patch t = { .a = &ones, .b = strip_at(w, j) + panel_rows(p, i) * row, .b_k = row, .c = start,
                         .k = panel_rows(p, least(p->packs.chunk, n - i)), .rows = 1, .columns = columns,
                         .mask = mask_of(p, columns) };
      p->row_code[t.columns < p->cut.width](&t);
      for (int64_t c = 0; c < t.columns; c++) start[c] = (int32_t)(0 - 128u * (uint32_t)start[c]);
    }
}

/* n rows of the right operand, i of those that are packed, in the strips of some columns of the cell. */
static void pack_block(struct worker *w, int64_t from, int64_t i, int64_t n, int64_t column, int64_t columns) {
  const struct product *p = w->p;
  struct operand_block b = right_block(w, from + i, w->cell.column + column, n, columns);
  for (int64_t j = column; j < column + columns; j += p->cut.width)
    pack(p, &(struct panel){ b.at + (j - column) * b.column, strip_at(w, j) + panel_rows(p, i) * p->cut.width * p->size,
                             b.row, b.column, n, strip_columns(w, j), p->cut.width, p->b.dtype }, false);
}

/* Asks for the next n rows, which lie along k: columns are far apart, and no processor foresees where each goes on. */
static void ask_for(const struct product *p, const uint8_t *from, int64_t n, int64_t columns) {
  for (int64_t c = 0; c < columns; c++)
    for (int64_t at = 0; at < n * p->size; at += CACHE_LINE) __builtin_prefetch(from + c * p->b.column + at, 0, 2);
}

/* All rows of the strip at column j of a right operand in runs. They are read as they stand, channel by channel with its places
 * side by side, and row i there is row i % places * run + i / places here. */
static void pack_runs(struct worker *w, int64_t j) {
  const struct product *p = w->p;
  int64_t places = p->k / p->run, row = p->cut.width * p->size, n;
  const uint8_t *from = operand_corner(w, &p->b, 0, w->cell.column + j);
  uint8_t *to = strip_at(w, j);
  for (int64_t i = 0, channel = 0, place = 0; i < p->k; i += n) {
    n = least(TURNED_ROWS, p->k - i);
    ask_for(p, from + (i + n) * p->size, least(TURNED_ROWS, p->k - i - n), strip_columns(w, j));
    pack(p, &(struct panel){ from + i * p->size, w->piece, p->size, p->b.column, n, strip_columns(w, j), p->cut.width, p->b.dtype },
         false);
    for (int64_t r = 0; r < n; r++) {
      memcpy(to + (place * p->run + channel) * row, w->piece + r * row, (size_t)row);
      if (++place == places) place = 0, channel++;
    }
  }
}

/* The rows i .. end of those of b that are packed from `from` on, of some columns of the cell: some rows of all of them, so that
 * memory is read in runs. Of products that are added the rows of each by themselves. */
static void pack_rows(struct worker *w, int64_t from, int64_t i, int64_t end, int64_t column, int64_t columns) {
  const struct product *p = w->p;
  int64_t run = piece_rows(p, end - i), rows;
  for (; i < end; i += rows) {
    rows = least(run, end - i);
    if (p->c->n_more) rows = least(rows, p->block - (from + i) % p->block);
    pack_block(w, from, i, rows, column, columns);
  }
}

/* n rows of b from `from` on, of the strips of the cell from column `first` on. */
static void pack_strips(struct worker *w, int64_t from, int64_t n, int64_t first) {
  const struct product *p = w->p;
  int64_t all = p->b.maker ? p->cut.cell_columns : w->cell.columns,
          wide = product_lies_along_k(p) ? p->cut.width : all;
  for (int64_t j = first; j < w->cell.columns; j += wide) {
    if (p->run) pack_runs(w, j); /* it lies along k: this is one strip */
    else pack_rows(w, from, 0, n, j, least(wide, w->cell.columns - j));
  }
  if (product_has_starts(p)) begin_fours(w, first, n);
}

/* ---- packing b together: turns, which threads take ---- */

/* A turn is some rows of all columns, so that memory is read in runs; of an operand that lies along k or is made, and where sums
 * of columns are wanted, some strips over all of k. */
static bool packs_by_rows(const struct product *p) { return !product_lies_along_k(p) && !p->b.maker && !product_has_starts(p); }

/* Rows or strips of a turn. */
static int64_t turn_length(const struct product *p) {
  int64_t turns = (int64_t)p->threads * CELLS_A_THREAD;
  if (!packs_by_rows(p)) return divide_up(p->cut.n_strips, turns);
  return round_up(divide_up(p->k, turns), PACKED_ROWS * p->packs.together);
}

int64_t product_pack_turns(const struct product *p) {
  return divide_up(packs_by_rows(p) ? p->k : p->cut.n_strips, turn_length(p));
}

void product_pack_turn(struct worker *w, int64_t i) {
  const struct product *p = w->p;
  int64_t n = turn_length(p);
  w->cell.column = packs_by_rows(p) ? 0 : i * n * p->cut.width;
  w->cell.columns = packs_by_rows(p) ? p->n : least(p->n, (i + 1) * n * p->cut.width) - w->cell.column;
  if (packs_by_rows(p)) pack_rows(w, 0, i * n, least(p->k, (i + 1) * n), 0, p->n);
  else pack_strips(w, 0, p->k, 0);
}

void product_pack_right(struct worker *w, int64_t k) {
  const struct product *p = w->p;
  int64_t from = p->packs.held < p->k ? k : 0;
  bool is_there = w->b_batch == w->batch || (w->b_batch >= 0 && !p->b.maker && product_has_one_right(p));
  bool is_same = is_there && w->b_column == w->cell.column && w->b_k == from;
  int64_t first = is_same ? w->b_columns : 0;
  if (first >= w->cell.columns) return;
  w->b_batch = w->batch, w->b_column = w->cell.column, w->b_columns = w->cell.columns, w->b_k = from;
  pack_strips(w, from, least(p->packs.held, p->k - from), first);
}

/* The panel of a part, of n products. */
static uint8_t *part_at(const struct worker *w, int64_t part, int64_t n) {
  int64_t row = w->p->unit->high ? (part - w->cell.part) * w->p->unit->high : first_row(w->p, part) - w->cell.row;
  return w->a + row * panel_rows(w->p, n) * w->p->size;
}

/* Rows of a panel of a. */
static int64_t panel_height(const struct product *p, int64_t part) { return p->unit->high ? p->unit->high : rows_of_part(p, part); }

/* Parts from `part` on over n products, from k + i on of those that are packed. */
static void pack_parts(struct worker *w, int64_t part, int64_t parts, int64_t k, int64_t all, int64_t i, int64_t n) {
  const struct product *p = w->p;
  int64_t row = first_row(p, part), rows = first_row(p, part + parts) - row;
  struct operand_block a = { left_corner(w, &p->a, row, k + i), p->a.row, p->a.column };
  if (p->a.maker) a = made(w, &p->a, row, k + i, rows, n);
  for (int64_t j = part; j < part + parts; j++)
    pack(p, &(struct panel){ a.at + (first_row(p, j) - row) * a.row,
                             part_at(w, j, all) + panel_rows(p, i) * panel_height(p, j) * p->size,
                             a.column, a.row, n, rows_of_part(p, j), rows_of_part(p, j), p->a.dtype }, true);
}

void product_pack_left(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  int64_t parts = piece_parts(p), run = piece_products(p, n), end = w->cell.part + w->cell.parts;
  for (int64_t j = w->cell.part; j < end; j += parts)
    for (int64_t i = 0; i < n; i += run) pack_parts(w, j, least(parts, end - j), k, n, i, least(run, n - i));
}
