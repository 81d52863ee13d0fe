/* gpu_tall.c -- launches whose rows are read more than once, as by a stencil: blocks of threads that are several rows high.
 *
 * The operands x[:-2, 1:-1], x[1:-1, 1:-1], x[2:, 1:-1] of a kernel are buffers of their own, whose addresses are a row apart: row
 * r of the last is row r + 2 of the first. Where a block of threads has one row of the result, all three come from the cache that
 * processors share; a block that is 8 rows high brings 10 for its 8, and finds the others in the cache of its processor.
 *
 * Which buffers they may be is known with the kernel, how far they are apart with a launch. Nothing but the grid depends on it. */
#include "backend/cuda/gpu_wide.h"

enum { NEAR = 8, TALL_WIDTH = 32 }; /* rows that are this far apart; threads along a row, of 256 */

static int row_axis(const struct kir_stmt *load, const struct kir_stmt *row) {
  for (int d = 0; d < load->n_at; d++) if (ptx_is_only(load->at[d], row->var)) return d;
  return -1;
}

static bool has(const struct ptx_tall *t, int buf) {
  for (int i = 0; i < t->n; i++) if (t->bufs[i] == buf) return true;
  return false;
}

void ptx_find_tall(const struct survey *s, const struct shape_class *shape, struct ptx_tall *t) {
  struct ptx_nest nest = { 0 };
  if (s->is_cooperative || !ptx_find_nest(s->k, &nest)) return;
  for (const struct kir_stmt *x = nest.lane->body.first; x && t->n < PTX_TALL; x = x->next) {
    if (x->kind != KIR_LOAD || s->k->bufs[x->buf].kind != KIR_IN || has(t, x->buf)) continue;
    int row = row_axis(x, nest.par[nest.n_pars - 1]);
    if (row >= 0 && ptx_axis_along(shape, x, nest.lane->var) >= 0) t->bufs[t->n] = x->buf, t->row[t->n++] = row;
  }
}

/* Both show one array, and rows of one are rows of the other. */
static bool meet(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], const struct bound bufs[], int i, int j) {
  const struct ptx_buf *a = &p->bufs[p->tall.bufs[i]], *b = &p->bufs[p->tall.bufs[j]];
  const struct bound *x = &bufs[p->tall.bufs[i]], *y = &bufs[p->tall.bufs[j]];
  int64_t row = x->stride[p->tall.row[i]] * kir_width((weft_dtype)a->dtype);
  int64_t apart = (int64_t)((uintptr_t)x->data - (uintptr_t)y->data);
  if (a->dtype != b->dtype || a->rank != b->rank || p->tall.row[i] != p->tall.row[j]) return false;
  for (int d = 0; d < a->rank; d++) if (x->stride[d] != y->stride[d]) return false;
  row = row < 0 ? -row : row, apart = apart < 0 ? -apart : apart;
  int64_t rows = row ? (apart + row / 2) / row : 0;
  return rows && rows <= NEAR && rows < ptx_size(&a->dims[p->tall.row[i]], sizes, args);
}

bool ptx_rows_meet(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], const struct bound bufs[]) {
  for (int i = 0; i < p->tall.n; i++)
    for (int j = 0; j < i; j++) if (meet(p, sizes, args, bufs, i, j)) return true;
  return false;
}

bool ptx_tall_shape(const struct ptx_plan *p, const struct ptx_machine *m, const int64_t sizes[], const uint64_t args[],
                    const struct bound bufs[], struct ptx_shape *s) {
  if (s->is_product || !ptx_rows_meet(p, sizes, args, bufs)) return false;
  ptx_spread_shape(p, m, sizes, args, s->most_across = TALL_WIDTH, s);
  return true;
}
