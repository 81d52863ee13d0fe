/* product_windows.c -- products whose left operand is windows of an array, as a convolution of few places multiplies them: they are
 * read where they are, a row of an image at a time, and nothing is copied side by side.
 *
 * A part is a row of an image: its windows begin equally far from one another, so a patch reads them by one stride. Terms come in
 * runs, of a row of the window each; where a block of the sum goes on in the next run, sums wait in scratch.
 *
 * Around an image there are zeros, and rows of the operand that are 0 in all terms of a block have the same sum: it is computed
 * once for a strip and added to each of them. So it is right whatever they are multiplied by, inf and nan among it. 512 channels of
 * 7^2 by 3x3 have a fifth of such rows: eight images on one thread of Zen 4 took 19.7 ms with windows copied, and take 15.5.
 *
 * Where there are columns enough, each cell is a strip of all rows: who multiplies by it packs it, and nobody waits for others. If
 * there are no more strips than threads they are tracts (product_tracts.c). */
#include "run/product.h"

enum {
  STRIP_BYTES = 2 << 20,    /* of a strip over all of k that stays in the second cache while all rows pass by */
  FEW_ROWS = 2,             /* times the columns: then cells are strips. Of more rows they are some of them, with all columns: the
                               caches do not hold all rows for one strip after the other. 512 channels of 7^2, one thread, by strips
                               and by rows: 8 images 17.3 ms, 18.4, 32 87.6, 71.9; 32 of 256 channels of 14^2 103 and 71 */
  CELL_ROWS = 112,          /* of other cells: as many as panels have */
};

static int64_t image_row(const struct product *p) { return p->windows->rows[p->windows->n_rows - 1]; }
static int64_t run_of(const struct product *p) { return p->windows->terms[p->windows->n_terms - 1]; }

/* ---- how it is cut ---- */

/* Cells are strips, each packed by who multiplies by it. */
static bool goes_by_strips(const struct product *p, int width) {
  bool is_free = p->c->y.store >= 0 && !p->c->has_whole_rows && !product_is_kept(p);
  return is_free && p->m <= FEW_ROWS * p->n && p->n >= (int64_t)p->wanted * p->unit->lanes(p->reg) &&
         p->k <= STRIP_BYTES / p->size / width;
}

/* Vectors of a patch: of as many strips as keep all threads busy to the end. */
static int choose_vectors(const struct product *p, int most) {
  int lanes = p->unit->lanes(p->reg), best = most;
  if (p->wanted == 1 || !goes_by_strips(p, most * lanes)) return most;
  for (int v = most - 1; v > 1; v--)
    if (divide_up(divide_up(p->n, v * lanes), p->wanted) * v < divide_up(divide_up(p->n, best * lanes), p->wanted) * best) best = v;
  return best;
}

void product_cut_windows(struct product *p) {
  int64_t wide = image_row(p);
  int lanes = p->unit->lanes(p->reg);
  p->cut.n_parts = p->m / wide, p->cut.part_rows = wide, p->cut.n_higher = 0;
  p->cut.patch_rows = (int)divide_up(wide, divide_up(wide, p->unit->rows()));
  int most = (int)least(p->unit->vectors(p->reg, p->cut.patch_rows), divide_up(p->n, lanes));
  p->cut.width = choose_vectors(p, most) * lanes;
  p->cut.n_strips = divide_up(p->n, p->cut.width);
}

static bool applies(const struct product *p) { return p->windows; }

static void choose(struct product *p) {
  bool by_strips = goes_by_strips(p, p->cut.width);
  int64_t parts = divide_up(CELL_ROWS, p->cut.part_rows);
  p->packs = (struct packing){ .b = true, .together = 1, .chunk = KIR_PRODUCT_BLOCK, .held = p->k };
  if (by_strips && p->cut.n_strips <= p->threads && product_cut_tracts(p, p->cut.n_strips, p->cut.n_parts)) return;
  p->packs.shares_b = !by_strips && product_may_share(p);
  product_cut_cells(p, by_strips ? p->cut.width : p->n, by_strips ? p->cut.n_parts : parts);
}

/* ---- multiplying ---- */

/* A block of terms of one strip. */
struct window_block {
  struct worker *w;
  int64_t k, n;                 /* terms: the first, how many */
  const uint8_t *b;             /* the panel */
  int64_t columns, c_row;
  uint8_t *c;                   /* the strip of the cell */
  uint8_t *zeros;               /* sums of a row of zeros; NULL: not computed yet */
};

static int64_t counted_to(int n, const int64_t length[], const int64_t stride[], int64_t i) {
  int64_t at = 0;
  for (; n-- > 0; i /= length[n]) at += i % length[n] * stride[n];
  return at;
}

/* From the beginning of a row to term k of it, in bytes. */
static int64_t term_at(const struct product *p, int64_t k) {
  const struct windows *x = p->windows;
  return counted_to(x->n_terms, x->terms, x->term, k) * p->size;
}

/* Terms from k on, of n, that are neighbours. */
static int64_t side_by_side(const struct product *p, int64_t k, int64_t n) { return least(n, run_of(p) - k % run_of(p)); }

static void run_patch(const struct window_block *s, struct patch *t) {
  const struct product *p = s->w->p;
  int lanes = p->unit->lanes(p->reg);
  bool is_forbidden;
  t->columns = s->columns, t->b_k = p->cut.width * p->size;
  if (t->columns % lanes) t->mask = mask_of(p, t->columns);
  patch_code *code = p->unit->code(p->reg, (int)t->rows, (int)divide_up(t->columns, lanes), t->columns % lanes, &is_forbidden);
  if (code) code(t);
  else s->w->failed = true; /* out of memory: of other heights there is some, so nobody forbids it */
}

/* rows of the operand from `a` on, by all terms of the block: run by run, the sums waiting in scratch. */
static void multiply_rows(const struct window_block *s, const uint8_t *a, uint8_t *c, int64_t rows) {
  const struct product *p = s->w->p;
  int64_t row = p->cut.width * p->size, stride = p->windows->row[p->windows->n_rows - 1] * p->size;
  for (int64_t i = 0, n; i < s->n; i += n) {
    n = side_by_side(p, s->k + i, s->n - i);
    bool ends = i + n == s->n;
    struct patch t = { .a = a + term_at(p, s->k + i), .a_row = stride, .a_k = p->size, .b = s->b + i * row, .k = n, .rows = rows,
                       .start = i ? s->w->sums : NULL, .start_row = row, .c = ends ? c : s->w->sums,
                       .c_row = ends ? s->c_row : row, .adds = ends && s->k };
    run_patch(s, &t);
  }
}

/* Rows of zeros: what the block adds is the same for all of them. */
static void add_zeros(struct window_block *s, uint8_t *c, int64_t rows) {
  static const double zero;
  const struct product *p = s->w->p;
  int64_t row = p->cut.width * p->size;
  if (!s->zeros) {
    s->zeros = s->w->sums + p->cut.patch_rows * row;
    run_patch(s, &(struct patch){ .a = &zero, .b = s->b, .k = s->n, .rows = 1, .c = s->zeros });
  }
  run_patch(s, &(struct patch){ .a = &zero, .b = s->b, .start = s->zeros, .c = c, .c_row = s->c_row, .adds = s->k != 0,
                                .rows = rows });
}

/* Whether a row of the operand is padding in all terms of the block. */
static bool is_zero(const struct window_block *s, int64_t row) {
  const struct windows *x = s->w->p->windows;
  int64_t blocks = divide_up(s->w->p->k, KIR_PRODUCT_BLOCK);
  return x->is_zero && x->is_zero[row % x->period * blocks + s->k / KIR_PRODUCT_BLOCK];
}

/* n rows, all of zeros or none, in as many patches as they need, of about the same height. */
static void multiply_stretch(struct window_block *s, const uint8_t *a, int64_t a_row, uint8_t *c, int64_t n, bool are_zero) {
  for (int64_t patches = divide_up(n, s->w->p->cut.patch_rows), rows; patches; patches--, n -= rows) {
    rows = divide_up(n, patches);
    if (are_zero) add_zeros(s, c, rows);
    else multiply_rows(s, a, c, rows);
    a += rows * a_row, c += rows * s->c_row;
  }
}

/* A row of an image. */
static void multiply_part(struct window_block *s, int64_t part) {
  const struct product *p = s->w->p;
  const struct windows *x = p->windows;
  int64_t first = first_row(p, part), a_row = x->row[x->n_rows - 1] * p->size;
  const uint8_t *a = p->a.at + counted_to(x->n_rows, x->rows, x->row, first) * p->size;
  uint8_t *c = s->c + (first - s->w->cell.row) * s->c_row;
  for (int64_t i = 0, n; i < p->cut.part_rows; i += n) {
    bool are_zero = is_zero(s, first + i);
    for (n = 1; i + n < p->cut.part_rows && is_zero(s, first + i + n) == are_zero;) n++;
    multiply_stretch(s, a + i * a_row, a_row, c + i * s->c_row, n, are_zero);
  }
}

static void multiply(struct worker *w, int64_t k, int64_t n) {
  const struct product *p = w->p;
  struct window_block s = { .w = w, .k = k, .n = n, .c_row = p->y.at ? p->y.row : p->cut.cell_row };
  uint8_t *c = p->y.at ? (uint8_t *)operand_corner(w, &p->y, w->cell.row, w->cell.column) : w->y;
  for (int64_t j = 0; j < w->cell.columns && !w->failed && !product_is_cancelled(p); j += p->cut.width) {
    s.columns = strip_columns(w, j), s.c = c + j * p->size, s.zeros = NULL;
    s.b = strip_at(w, j) + panel_rows(p, k - w->b_k) * p->cut.width * p->size;
    for (int64_t i = 0; i < w->cell.parts; i++) multiply_part(&s, w->cell.part + i);
  }
}

const struct strategy strategy_windows = { "windows", RIGHT_IN_ONE | RIGHT_IN_RUNS, applies, choose, multiply };
