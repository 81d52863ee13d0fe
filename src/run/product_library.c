/* product_library.c -- steps that are products by a CBLAS, where WEFT_BLAS asks for one: f32 and f64, dense rows or columns, and
 * large enough that a call does not matter (schedule/contraction.c says which). A step is of this kind when it is planned, and the
 * setting is part of the plan's key. Its bits are the library's. What follows goes on with some rows at a time, which caches hold.
 *
 * Best where the library beats patches. Weft's time over that of OpenBLAS, in turns on one thread: 1.06 at 64^3, 1.01 at 256^3,
 * 0.88 at 1024^3, 0.77 for 8 rows by 4096^2, but 1.17 at 1024^3 of f64. */
#include "run/product.h"
#include "backend/blas.h"
#include "backend/float_mode.h"
#include "run/memory.h"
#include "run/pool.h"
#include "run/show.h"

enum { BLAS_BYTES = 8 << 20 }; /* of rows that a kernel goes on with: a call for fewer is slower, the last cache holds no more */

/* The call for all rows of a batch, but for its addresses. */
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

static size_t bytes_of(const struct product *p) { return p->c->y.store >= 0 ? 0 : padded(blas_rows(p) * p->n * p->size); }

struct going_on { const struct worker *w; int64_t each; int failed; };

/* The kernel goes on with some rows of the cell. */
static void go_on_part(void *ctx, int i) {
  struct going_on *g = ctx;
  struct worker w = *g->w;
  w.cell.row += i * g->each, w.y += i * g->each * w.p->cut.cell_row;
  w.cell.rows = least(g->each, g->w->cell.rows - i * g->each);
  uint64_t mode = float_mode_enter();
  if (cell_go_on(&w)) __atomic_store_n(&g->failed, 1, __ATOMIC_RELAXED);
  float_mode_leave(mode);
}

static void blas_rows_of(struct worker *w, int threads) {
  struct product *p = (struct product *)w->p;
  struct blas_product b = blas_shape(p);
  for (int64_t row = 0; row < p->m && !p->failed && !product_is_cancelled(p); row += w->cell.rows) {
    w->cell.row = row, w->cell.rows = least(blas_rows(p), p->m - row);
    b.m = w->cell.rows, b.a = operand_corner(w, &p->a, row, 0), b.b = operand_corner(w, &p->b, 0, 0);
    b.c = w->y ? w->y : (uint8_t *)operand_corner(w, &p->y, row, 0);
    blas_run(&b, threads);
    struct going_on g = { w, divide_up(w->cell.rows, (int64_t)threads * CELLS_A_THREAD), 0 };
    if (p->next->code && !product_is_cancelled(p)) pool_run((int)divide_up(w->cell.rows, g.each), threads, go_on_part, &g);
    p->failed |= g.failed;
  }
}

static struct failure *multiply(struct product *p, struct run *r) {
  size_t bytes = bytes_of(p);
  const char *why = blas_load();
  if (why) return fail(WEFT_ERR_FILE, 0, "weft_eval: WEFT_BLAS asks for a library that is not there: %s", why);
  struct worker w = { .p = p, .y = bytes ? memory_take(bytes) : NULL, .cell = { .columns = p->n } };
  p->failed = bytes && !w.y;
  p->cut.cell_row = p->n * p->size;
  for (double i = 0; i < product_batches(p) && !p->failed && !product_is_cancelled(p); i++) {
    int64_t rest = (int64_t)i;
    for (int k = p->c->n_batch - 1; k >= 0; k--) w.cell.batch[k] = rest % p->c->batch[k], rest /= p->c->batch[k];
    blas_rows_of(&w, r->threads);
  }
  if (w.y) memory_give(w.y, bytes);
  return p->failed ? product_no_room(bytes) : product_outcome(p);
}

/* ---- the kind ---- */

static struct failure *run(const struct plan *plan, int i, struct run *r, uint8_t *const base[]) {
  struct product_kernels kernels;
  struct product p;
  if (product_is_empty(plan->schedule->step[i].contraction)) return NULL;
  product_at(&p, plan, i, r, base, &kernels);
  return multiply(&p, r);
}

static int64_t scratch(const struct plan *plan, int i, int threads) {
  struct product p;
  (void)threads;
  product_of(&p, plan->schedule->step[i].contraction);
  return (int64_t)bytes_of(&p);
}

static int library_calls(const struct plan *plan, int i) { return !product_is_empty(plan->schedule->step[i].contraction); }

static void show(const struct plan *p, int i, struct text *t) { product_show(p, i, blas_load() ? "no library" : blas_name(), t); }

const struct step_kind step_library_product = {
  .name = "library", .where = STEP_ON_HOST, .stores = product_stores, .may_overwrite = product_may_overwrite, .drop = kernel_drop,
  .compile = product_compile, .run = run, .scratch = scratch, .library_calls = library_calls, .show = show,
};
