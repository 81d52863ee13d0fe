/* product_fed.c -- f(a b) c, two products that run together: rows of f(a b) stand in scratch of a thread and are at once the left
 * operand of the second product. As a whole f(a b) stands nowhere. Each of the two reads its operands by a strategy of its own.
 *
 * Best where f(a b) is large and read once, as the weights of attention: 8 heads of 1024x64, causal, on one thread took 38 ms
 * with the weights stored and take 14.3, not causal 26.9 and 24.5. Which products these are schedule/chain.c says.
 *
 * If f gives 0 beyond a diagonal, what is beyond is not multiplied. That changes no bit as long as the right operand is finite
 * there, as 0 times it is then 0, and no sum is -0, which +0 times something would have made +0: that is looked at afterwards, and
 * such rows are computed again as a whole. */
#include "run/product.h"
#include "run/pattern.h"

void product_chain(struct product *p, struct product *next) {
  int size = kir_width(next->a.dtype);
  p->then = next;
  p->fed_row = round_up(p->n * size, PRODUCT_ALIGN) + ROW_GAP;
  next->a = (struct matrix){ .dtype = next->a.dtype, .row = p->fed_row, .column = size };
}

static bool has_minus_zero(const struct worker *w) {
  const struct product *p = w->p;
  for (int64_t i = 0; i < w->cell.rows; i++) {
    const uint8_t *at = p->y.at ? operand_corner(w, &p->y, w->cell.row + i, w->cell.column) : w->y + i * p->cut.cell_row;
    if (p->size == 4 ? pattern_any_32(at, w->cell.columns, ~0u, 1u << 31)
                     : pattern_any_64(at, w->cell.columns, ~UINT64_C(0), UINT64_C(1) << 63))
      return true;
  }
  return false;
}

/* The cells of the second product that the rows of this one are the left operand of. 1: out of memory; 2: the rows must be
 * whole. */
static int feed(struct worker *w) {
  struct worker *t = w->then;
  const struct product *p = t->p;
  t->cell = w->cell, t->batch = w->batch, t->k = w->cell.columns;
  for (int64_t j = 0; j < p->n && !product_is_cancelled(p); j += p->cut.cell_columns) {
    t->cell.column = j, t->cell.columns = least(p->cut.cell_columns, p->n - j);
    cell_multiply(t);
    if (t->k < p->k && has_minus_zero(t)) return 2;
    if (p->next->code && !product_is_cancelled(p) && cell_go_on(t)) return 1;
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

/* Whether the right operand of the second product is finite in this batch: then 0 times it is 0. One that stands in two places is
 * multiplied by one row, and not looked at. */
static bool is_finite(struct worker *t, int64_t batch) {
  if (t->finite_batch == batch || t->finite_batch == -2 - batch) return t->finite_batch == batch;
  const struct product *p = t->p;
  int64_t run = p->b.column == kir_width(p->b.dtype) ? p->n : 1;
  bool good = !p->first;
  for (int64_t i = 0; i < p->k && good; i++)
    for (int64_t j = 0; j < p->n && good; j += run) good = are_finite(operand_corner(t, &p->b, i, j), run, p->b.dtype);
  t->finite_batch = good ? batch : -2 - batch;
  return good;
}

/* Columns of the cell beyond which the kernel gives zeros that need not be multiplied. */
static int64_t band_of(struct worker *w) {
  const struct product *p = w->p;
  int64_t columns = w->cell.row + w->cell.rows + p->c->band;
  if (!p->c->is_banded || columns >= p->n) return p->n;
  w->then->cell = w->cell, w->then->batch = w->batch;
  return is_finite(w->then, w->batch) ? least(p->n, round_up(columns < 1 ? 1 : columns, p->cut.width)) : p->n;
}

int fed_cell(struct worker *w) {
  const struct product *p = w->p;
  int how = 2;
  w->cell.columns = band_of(w);
  for (; how == 2; w->cell.columns = p->n) { /* the second time with whole rows */
    cell_multiply(w);
    how = w->failed || (p->next->code && !product_is_cancelled(p) && cell_go_on(w));
    if (!how && !product_is_cancelled(p)) how = feed(w);
  }
  return how;
}
