/* product_patch.c -- the patches of a cell: which code multiplies them, where each reads and where its sums begin and end, and what
 * it fetches meanwhile for those who come later. */
#include "run/product.h"

/* Code for the four patches there can be. */
int product_find_code(struct product *p) {
  int lanes = p->unit->lanes(p->reg), edge = (int)(p->n % p->cut.width);
  for (int higher = 0; higher < 2; higher++)
    for (int is_edge = 0; is_edge < 1 + (edge > 0); is_edge++) {
      int rows = p->windows ? p->cut.patch_rows : (int)p->cut.part_rows + higher, columns = is_edge ? edge : p->cut.width;
      bool is_used = higher ? p->cut.n_higher > 0 : p->cut.n_higher < p->cut.n_parts, is_forbidden;
      if (!is_used) continue;
      p->code[higher][is_edge] = p->unit->code(p->packs.together > 1 ? p->a.dtype : p->reg, rows,
                                               (columns - 1) / lanes + 1, columns % lanes, &is_forbidden);
      if (!p->code[higher][is_edge]) return is_forbidden ? 2 : 1;
      if (product_has_starts(p))
        p->row_code[is_edge] = p->unit->code(p->a.dtype, 1, (columns - 1) / lanes + 1, columns % lanes, &is_forbidden);
      if (product_has_starts(p) && !p->row_code[is_edge]) return is_forbidden ? 2 : 1;
    }
  return 0;
}

/* The upper left corner of a cell: what is multiplied there, and where its sums begin and end: a block that is cut goes through
 * `sums`. */
struct upper_left { const uint8_t *a, *start; uint8_t *c; int64_t a_row; };

static void place_sums(const struct worker *w, bool begins, bool ends, struct upper_left *u, struct patch *t) {
  const struct product *p = w->p;
  u->start = begins ? NULL : w->sums;
  t->start_row = t->c_row = p->cut.cell_row;
  if (!ends) u->c = w->sums;
  else if (!p->y.at) u->c = w->y;
  else u->c = (uint8_t *)operand_corner(w, &p->y, w->cell.row, w->cell.column), t->c_row = p->y.row;
}

/* ---- fetching ---- */

/* A matrix that the kernel which goes on with a large product reads, its columns side by side. */
void product_find_read(struct product *p) {
  const struct kir_kernel *k = p->next->code ? p->next->code->kernel : NULL;
  int row = product_row_axis(p), column = product_column_axis(p);
  p->fetch.read = NULL;
  if (!k || product_is_small(p) || row < 0 || column < 0) return;
  for (int i = 0; i < k->n_bufs && !p->fetch.read; i++) {
    if (k->bufs[i].kind != KIR_IN || i == p->c->cell) continue;
    piece_strides(p->next, i, p->fetch.read_stride);
    if (p->fetch.read_stride[row] && p->fetch.read_stride[column] == p->size) p->fetch.read = p->next->bound[i].data;
  }
}

/* What the kernel will read of the cell, a strip of it. */
static void fetch_read(const struct worker *w, int64_t strip, struct patch *t) {
  const struct product *p = w->p;
  int64_t from[AXES], extent[AXES];
  cell_axes(w, from, extent);
  from[product_column_axis(p)] += strip * p->cut.width;
  const uint8_t *at = p->fetch.read;
  for (int a = 0; a < p->c->n_axes; a++) at += from[a] * p->fetch.read_stride[a];
  t->fetch = at, t->fetch_k = p->fetch.read_stride[product_row_axis(p)], t->fetch_n = least(w->cell.rows, t->k);
}

/* Fetches a part of what the next batch reads into the cache, beside each patch of this one. */
static void fetch_batch(const struct worker *w, int64_t patch, struct patch *t) {
  const struct product *p = w->p;
  int64_t wide = divide_up(p->cut.width * p->size, CACHE_LINE), line = patch * t->k * wide;
  int64_t after_a = line - round_up(p->fetch.a_lines, t->k * wide);
  if (after_a >= p->fetch.b_lines) return;
  const struct matrix *x = line < p->fetch.a_lines ? &p->a : &p->b;
  t->fetch = operand_corner(w, x, 0, 0) + x->batch[0] + (line < p->fetch.a_lines ? line : after_a) * CACHE_LINE;
  t->fetch_k = wide * CACHE_LINE, t->fetch_n = t->k;
}

/* While a patch multiplies, lines that are read later come nearer. */
static void fetch_lines(const struct worker *w, int64_t column, int64_t part, struct patch *t) {
  const struct product *p = w->p;
  int64_t patches = divide_up(w->cell.columns, p->cut.width) * w->cell.parts;
  int64_t done = column / p->cut.width * w->cell.parts + part, after = patches - 1 - done;
  t->fetch_n = 0;
  if (!p->fetch.read) fetch_batch(w, done, t);
  else if (after * p->cut.width < w->cell.columns) fetch_read(w, after, t);
}

/* ---- multiplying ---- */

/* A strip of the cell from column j on; t has what is the same for all of its patches. */
static void multiply_strip(const struct worker *w, int64_t j, struct upper_left u, bool fetches, struct patch *t) {
  const struct product *p = w->p;
  for (int64_t i = 0, row = 0; i < w->cell.parts; i++, row += t->rows) {
    int64_t part = w->cell.part + i;
    t->rows = rows_of_part(p, part);
    t->a = u.a + (p->unit->high ? i * p->unit->high : row) * u.a_row;
    if (p->packs.a) t->a_k = t->rows * p->size;
    t->c = u.c + row * t->c_row + j * p->size;
    t->start = u.start ? u.start + row * t->start_row + j * p->size : NULL;
    if (fetches) fetch_lines(w, j, i, t);
    p->code[part < p->cut.n_higher][t->columns < p->cut.width](t);
  }
}

void product_by_patches(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  bool begins = !k || k % p->block == 0, ends = k + n == w->k || (k + n) % p->block == 0;
  bool fetches = p->fetch.read ? k + n == w->k : w->batch + 1 < w->end && p->fetch.a_lines + p->fetch.b_lines;
  struct matrix room;
  const struct matrix *a = product_operand(p, true, k, &room);
  struct patch t = { .a_row = p->packs.a ? p->size : a->row, .a_k = a->column, .k = panel_rows(p, n),
                     .adds = ends && k >= p->block };
  struct upper_left u = { .a = p->packs.a ? w->a : left_corner(w, a, w->cell.row, term_of(p, k)),
                          .a_row = p->packs.a ? t.k * p->size : a->row };
  struct operand_block b = { 0 };
  place_sums(w, begins, ends, &u, &t);
  if (!p->packs.b) b = right_block(w, k, w->cell.column, n, w->cell.columns);
  t.b_k = p->packs.b ? p->cut.width * p->size : b.row;
  for (int64_t j = 0; j < w->cell.columns && !product_is_cancelled(p); j += p->cut.width) {
    t.columns = strip_columns(w, j);
    if (t.columns < p->cut.width) t.mask = mask_of(p, t.columns);
    t.b = p->packs.b ? strip_at(w, j) + panel_rows(p, k - w->b_k) * p->cut.width * p->size : b.at + j * b.column;
    if (product_has_starts(p)) u.start = (uint8_t *)start_of(w, k - w->b_k, 0), t.start_row = 0;
    multiply_strip(w, j, u, fetches, &t);
  }
}
