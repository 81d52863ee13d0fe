/* product_tracts.c -- products by many threads that wait for nobody: y's columns are cut into tracts, each the place of a few
 * threads. Of b each thread packs its tract for itself, and then they take rows of it, many at first and fewer towards the end; who
 * finds none left helps in the other tracts, where he reads what one of their threads has packed.
 *
 * Threads of a machine with many are not equally fast, so all of them end together only if the last rows are few. And what all
 * read is dear to write again: packed together, 1024^3 of f32 on 16 cores of a Xeon took 456 us of each thread for its sixteenth of
 * b, as the others still had those lines of the run before; a quarter of b for itself alone takes 155. In all it took 1.95 ms and
 * takes 1.33, where a loop of nothing but fma takes 1.16; of i8 0.32 and 0.18. */
#include "run/product.h"
#include <string.h>
#include "backend/float_mode.h"
#include "run/pool.h"

enum {
  TRACTS = 64,              /* at most */
  TRACT_BYTES = 4 << 20,    /* of b that a thread packs */
  TURNS_A_THREAD = 16       /* about, unless cells are small: in each it takes some parts */
};

struct tract {
  _Alignas(PRODUCT_ALIGN) int64_t next; /* atomic: parts from here on nobody has taken */
  int packer;                           /* atomic: this thread, counted from 1, has packed its columns of b; 0: nobody yet */
};

struct shared { struct product *p; struct tract tract[TRACTS]; };

/* ---- how y is cut ---- */

int64_t product_best_tracts(const struct product *p) {
  int64_t best = 1;
  double least_packed = 0;
  for (int64_t n = 1; n <= least(TRACTS, least(p->threads, p->cut.n_strips)); n++) {
    double packed = (double)p->n / (double)n + (double)p->m * (double)n / p->threads; /* columns of b and rows of a, by a thread */
    if (n == 1 || packed < least_packed) best = n, least_packed = packed;
  }
  return best;
}

static bool may_have_tracts(const struct product *p) {
  bool is_plain = !p->a.maker && !p->b.maker && !p->then && !p->c->is_fed && !p->c->n_more && !p->c->has_whole_rows;
  return is_plain && p->packs.b && !product_is_kept(p) && p->threads > 1 && product_batches(p) == 1;
}

bool product_cut_tracts(struct product *p, int64_t n, int64_t parts) {
  int64_t columns = divide_up(p->cut.n_strips, n) * p->cut.width;
  if (!may_have_tracts(p) || n > least(TRACTS, p->threads)) return false;
  if (panel_rows(p, p->k) > TRACT_BYTES / p->size / columns) return false;
  p->packs.held = p->k, p->packs.shares_b = false;
  p->cut.n_tracts = p->cut.n_column_cells = n, p->cut.cell_columns = columns;
  p->cut.cell_parts = least(parts, p->cut.n_parts);
  p->cut.n_row_cells = divide_up(p->cut.n_parts, p->cut.cell_parts);
  p->cut.n_cells = p->cut.n_row_cells * n, p->cut.turn = 1;
  p->threads = (int)least(p->threads, p->cut.n_parts * n);
  p->cut.cell_row = columns * p->size;
  p->fetch.a_lines = p->fetch.b_lines = 0;
  return true;
}

/* ---- rows of a tract ---- */

/* Takes so many parts that all threads of the tract have as many left for twice, but no more than a cell has room for; false: there
 * are none. */
static bool take_parts(struct worker *w, struct tract *t) {
  const struct product *p = w->p;
  int64_t threads = divide_up(p->threads, p->cut.n_tracts), left = p->cut.n_parts - __atomic_load_n(&t->next, __ATOMIC_RELAXED);
  int64_t fewest = divide_up(p->cut.n_parts, threads * TURNS_A_THREAD), n = left / (2 * threads);
  if (left <= 0) return false;
  n = least(n < fewest ? fewest : n, p->cut.cell_parts);
  w->cell.part = __atomic_fetch_add(&t->next, n, __ATOMIC_RELAXED);
  if (w->cell.part >= p->cut.n_parts) return false;
  w->cell.parts = least(n, p->cut.n_parts - w->cell.part);
  w->cell.row = first_row(p, w->cell.part);
  w->cell.rows = first_row(p, w->cell.part + w->cell.parts) - w->cell.row;
  return true;
}

static void find_columns(struct worker *w, int64_t tract) {
  const struct product *p = w->p;
  w->cell.column = product_share(p->cut.n_strips, tract, p->cut.n_tracts) * p->cut.width;
  w->cell.columns = least(p->n, product_share(p->cut.n_strips, tract + 1, p->cut.n_tracts) * p->cut.width) - w->cell.column;
}

static void multiply_rows_of(struct worker *w, struct tract *t) {
  while (!w->failed && !product_is_cancelled(w->p) && take_parts(w, t)) w->failed = cell_run(w);
}

/* ---- threads ---- */

static void work_at_home(struct worker *w, struct tract *t, int64_t tract, int thread) {
  if (__atomic_load_n(&t->next, __ATOMIC_RELAXED) >= w->p->cut.n_parts) return; /* others were faster */
  find_columns(w, tract);
  product_pack_right(w, 0);
  __atomic_store_n(&t->packer, thread + 1, __ATOMIC_RELEASE);
  multiply_rows_of(w, t);
}

/* In a tract that somebody has packed. Who has not does all of its rows when he comes. */
static void help(struct worker *w, struct tract *t, int64_t tract) {
  int packer = __atomic_load_n(&t->packer, __ATOMIC_ACQUIRE);
  struct worker his;
  if (!packer) return;
  worker_begin(&his, w->p, product_room(w->p, packer - 1));
  find_columns(w, tract);
  w->b = his.b, w->starts = his.starts;
  w->b_batch = 0, w->b_k = 0, w->b_column = w->cell.column, w->b_columns = w->cell.columns;
  multiply_rows_of(w, t);
}

static void work(void *ctx, int i) {
  struct shared *s = ctx;
  struct product *p = s->p;
  struct worker w;
  int64_t n = p->cut.n_tracts, home = i * n / p->threads;
  worker_begin(&w, p, product_room(p, i));
  memset(&w.cell, 0, sizeof w.cell), w.batch = 0;
  uint64_t mode = float_mode_enter();
  if (p->unit->enter) p->unit->enter();
  work_at_home(&w, &s->tract[home], home, i);
  for (int64_t k = 1; k < n; k++) help(&w, &s->tract[(home + k) % n], (home + k) % n);
  if (p->unit->leave) p->unit->leave();
  float_mode_leave(mode);
  if (w.failed) __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
}

void product_run_tracts(struct product *p) {
  struct shared s = { .p = p };
  pool_run(p->threads, p->threads, work, &s);
}
