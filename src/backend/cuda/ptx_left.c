/* ptx_left.c -- folds of values that were left in a row: all threads of a block compute the elements and leave what is folded,
 * in shared memory or in scratch; behind a barrier a warp adds it up in order, as if it had computed it.
 *
 * ptx_deal* go tile by tile while a lane loop runs, ptx_add_kept reads rows that are kept anyway, ptx_add_left* what rows in
 * registers have left (gpu_ordered.c). */
#include "backend/cuda/ptx_reduce.h"
#include "backend/cuda/gpu_wide.h"

/* The row that value i of a fold is left in: the one it is kept in, where it is. */
static int fold_row(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *fold, int i) {
  int slot = i;
  if (survey_keeps(loop, fold->in[i])) return ptx_kept_row(p, fold->in[i]);
  for FOLDS(s, loop) {
    if (s == fold) break;
    slot += s->n_out;
  }
  for (int r = 0; r < p->plan->n_rows; r++)
    if (p->plan->rows[r].kind == PTX_FOLD && p->plan->rows[r].of == slot) return r;
  return -1;
}

static const char *row_element(struct printer *p, int row, const char *position) {
  const char *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, position, p->plan->rows[row].width, row);
  return at;
}

void ptx_deal_start(struct printer *p, const struct kir_stmt *loop) {
  for FOLDS(s, loop) {
    struct ptx_counter *c = reduce_counter_of(p, s);
    if (!reduce_fits(p, s)) return;
    reduce_fresh(p, s, c->inside);
    ptx_line(p, "mov.u32 %s, 0", c->count = ptx_own(p, OWN_WORD));
  }
}

void ptx_deal(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *position) {
  for (int i = 0; i < s->n_out && reduce_fits(p, s); i++) {
    weft_dtype d = ptx_dtype(p, s->in[i]);
    if (survey_keeps(loop, s->in[i])) continue;
    ptx_store(p, "", d, row_element(p, fold_row(p, loop, s, i), position), ptx_in_register(p, d, s->in[i]));
  }
}

struct dealt { const char *at[PTX_TUPLE]; int width[PTX_TUPLE]; }; /* where a lane reads, in each row */

/* acc = acc o what stands 32 `ahead` elements from there */
static void add_next(struct printer *p, const struct kir_stmt *s, const struct dealt *x, int ahead) {
  const char *r[PTX_TUPLE], *v[PTX_TUPLE];
  reduce_results(p, s, r);
  reduce_fresh(p, s, v);
  for (int i = 0; i < s->n_out; i++)
    ptx_load(p, ptx_row_space(p), ptx_dtype(p, s->out[i]), v[i], ptx_textf(p, "%s+%d", x->at[i], 32 * ahead * x->width[i]));
  reduce_combine(p, s, r, v, r);
}

static void go_on(struct printer *p, const struct kir_stmt *s, const struct dealt *x, const char *left, int elements) {
  for (int i = 0; i < s->n_out; i++) ptx_line(p, "add.s64 %s, %s, %d", x->at[i], x->at[i], elements * x->width[i]);
  ptx_line(p, "sub.s32 %s, %s, %d", left, left, elements);
}

/* The n elements of the tile by one warp, lane l those of accumulator l. Kept rows begin with lo, others with the tile. */
static void add_tile(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *s, const char *tile, const char *lo,
                     const char *lane, const char *n) {
  struct dealt x;
  const char *wide = ptx_own(p, OWN_LONG), *whole = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED);
  const char *many = ptx_label(p, "many"), *few = ptx_label(p, "few"), *done = ptx_label(p, "done");
  ptx_start(p, s);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, lane);
  ptx_line(p, "sub.s64 %s, %s, %s", whole, tile, lo);
  ptx_line(p, "add.s64 %s, %s, %s", whole, whole, wide);
  for (int i = 0; i < s->n_out; i++) {
    int row = fold_row(p, loop, s, i);
    x.width[i] = p->plan->rows[row].width;
    x.at[i] = row_element(p, row, p->plan->rows[row].kind == PTX_KEEP ? whole : wide);
  }
  ptx_line(p, "sub.s32 %s, %s, %s", left, n, lane); /* of this lane: while more than 0, in steps of 32 */
  ptx_place(p, many);
  ptx_line(p, "setp.le.s32 %s, %s, %d", is, left, 32 * 7);
  ptx_line(p, "@%s bra %s", is, few);
  for (int k = 0; k < 8; k++) add_next(p, s, &x, k);
  go_on(p, s, &x, left, 256);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.le.s32 %s, %s, 0", is, left);
  ptx_line(p, "@%s bra %s", is, done);
  add_next(p, s, &x, 0);
  go_on(p, s, &x, left, 32);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
}

void reduce_fold_tree(struct printer *p, const struct kir_stmt *s) {
  const char *r[PTX_TUPLE], *other[PTX_TUPLE];
  reduce_results(p, s, r);
  for (int by = 16; by; by /= 2) {
    for (int i = 0; i < s->n_out; i++) other[i] = reduce_shuffle(p, ptx_dtype(p, s->out[i]), "down", r[i], ptx_textf(p, "%d", by));
    reduce_combine(p, s, r, other, r);
  }
}

/* Fold i is one warp's, counted round from another one in each block of threads: a processor has four parts, to which warps are
 * dealt by number, and blocks that are some 128 apart share one. */
static const char *unless_owner(struct printer *p, const struct ptx_thread *t, int i) {
  const char *owner = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED), *skip = ptx_label(p, "others"), *far = ptx_own(p, OWN_WORD);
  const char *last = ptx_own(p, OWN_WORD);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", owner);
  ptx_line(p, "shr.u32 %s, %s, 7", far, owner);
  ptx_line(p, "add.u32 %s, %s, %s", owner, owner, far);
  if (i) ptx_line(p, "add.u32 %s, %s, %d", owner, owner, i);
  ptx_line(p, "sub.u32 %s, %s, 1", last, t->n_warps);
  ptx_line(p, "and.b32 %s, %s, %s", owner, owner, last);
  ptx_line(p, "setp.ne.u32 %s, %s, %s", is, owner, t->warp);
  ptx_line(p, "@%s bra %s", is, skip);
  return skip;
}

void ptx_deal_add(struct printer *p, const struct kir_stmt *loop, const char *tile, const char *lo, const char *n) {
  struct ptx_thread t = reduce_thread(p);
  int i = 0;
  for FOLDS(s, loop) {
    if (!reduce_fits(p, s)) return;
    const char *skip = unless_owner(p, &t, i++);
    add_tile(p, loop, s, tile, lo, t.lane, n);
    reduce_fold_tree(p, s);
    reduce_push_warp(p, s, t.lane);
    ptx_place(p, skip);
  }
}

void ptx_add_kept(struct printer *p, const struct kir_stmt *loop, const char *lo, const char *hi) {
  struct ptx_blocks b = ptx_blocks_open(p, loop, lo, hi);
  const char *n = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_WORD);
  ptx_line(p, "sub.s64 %s, %s, %s", n, b.to, b.from);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  for FOLDS(s, loop) add_tile(p, loop, s, b.from, lo, b.lane, few);
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}

void ptx_deal_end(struct printer *p, const struct kir_stmt *loop) {
  struct ptx_thread t = reduce_thread(p);
  const char *first = reduce_place(p, "0"), *is_first = ptx_own(p, OWN_PRED);
  int i = 0, slot = 0;
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t.lane);
  for FOLDS(s, loop) {
    if (!reduce_fits(p, s)) return;
    const char *skip = unless_owner(p, &t, i++);
    reduce_total_warp(p, s);
    for (int k = 0; k < s->n_out; k++) reduce_put(p, ptx_dtype(p, s->out[k]), is_first, first, slot + k, ptx_val(p, s->out[k]));
    ptx_place(p, skip);
    slot += s->n_out;
  }
  ptx_line(p, "bar.sync 0");
  reduce_get_all(p, loop, NULL, first);
  ptx_line(p, "bar.sync 0");
}

enum { VALUES = 16, MOST_VALUES = 32 }; /* of a lane at a time */

/* acc = acc o value, n values of a lane at a time, as long as there are as many */
static void add_together(struct printer *p, const struct kir_stmt *s, const char *at, const char *odd, const char *left, int n) {
  weft_dtype d = ptx_dtype(p, s->out[0]);
  int width = kir_width(d);
  const char *v[MOST_VALUES], *r[PTX_TUPLE], *is = ptx_own(p, OWN_PRED), *many = ptx_label(p, "many"), *few = ptx_label(p, "few");
  reduce_results(p, s, r);
  for (int i = 0; i < n; i++) v[i] = ptx_own_of(p, d);
  ptx_place(p, many);
  ptx_line(p, "setp.le.s32 %s, %s, %d", is, left, 32 * (n - 1));
  ptx_line(p, "@%s bra %s", is, few);
  for (int i = 0; i < n; i++) ptx_load(p, ".shared", d, v[i], ptx_textf(p, "%s+%d", i % 2 ? odd : at, 32 * i * width));
  for (int i = 0; i < n; i++) reduce_combine(p, s, r, &v[i], r);
  ptx_line(p, "add.s64 %s, %s, %d", at, at, 32 * n * width);
  if (odd != at) ptx_line(p, "add.s64 %s, %s, %d", odd, odd, 32 * n * width);
  ptx_line(p, "sub.s32 %s, %s, %d", left, left, 32 * n);
  ptx_line(p, "bra %s", many);
  ptx_place(p, few);
}

/* The same, and then one by one; `left` of them, in steps of 32, every other one at `odd`. Where rows are streamed nobody else
 * computes meanwhile, and there are registers for more. */
static void add_values(struct printer *p, const struct kir_stmt *s, const char *at, const char *odd, const char *left) {
  weft_dtype d = ptx_dtype(p, s->out[0]);
  int width = kir_width(d);
  const char *v[1] = { ptx_own_of(p, d) }, *r[PTX_TUPLE], *is = ptx_own(p, OWN_PRED), *few = ptx_label(p, "one"),
             *done = ptx_label(p, "done"), *next = ptx_own(p, OWN_LONG);
  reduce_results(p, s, r);
  if (p->stream.n) add_together(p, s, at, odd, left, MOST_VALUES);
  add_together(p, s, at, odd, left, VALUES);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.le.s32 %s, %s, 0", is, left);
  ptx_line(p, "@%s bra %s", is, done);
  ptx_load(p, ".shared", d, v[0], at);
  reduce_combine(p, s, r, v, r);
  ptx_line(p, "add.s64 %s, %s, %d", next, odd, 32 * width);
  if (odd != at) ptx_line(p, "add.s64 %s, %s, %d", odd, at, 32 * width);
  ptx_line(p, "mov.s64 %s, %s", at, next);
  ptx_line(p, "sub.s32 %s, %s, 32", left, left);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
}

/* at + what a lane reads elsewhere in 128 bytes whose pieces are crossed: the lane four away */
static const char *crossed(struct printer *p, const struct ptx_thread *t, const char *at, int width) {
  const char *bit = ptx_own(p, OWN_WORD), *by = ptx_own(p, OWN_LONG), *r = ptx_own(p, OWN_LONG);
  ptx_line(p, "and.b32 %s, %s, 4", bit, t->lane);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", by, bit, 2 * width);
  ptx_line(p, "sub.s64 %s, %s, %s", r, at, by);
  ptx_line(p, "add.s64 %s, %s, %d", r, r, 4 * width);
  return r;
}

/* The values of fold i, one value each, begin at folds + fold_bytes i n. What is found goes to a place of its own, behind those of
 * the eight warps that a block has here: it is written anew only behind another barrier, and ptx_meet does not touch it. */
void ptx_add_left(struct printer *p, const struct kir_stmt *loop, const char *n) {
  struct ptx_thread t = reduce_thread(p);
  const char *first = reduce_place(p, "16"), *is_first = ptx_own(p, OWN_PRED), *few = ptx_own(p, OWN_WORD);
  int i = 0;
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, t.lane);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  ptx_line(p, "bar.sync 0");
  for FOLDS(s, loop) {
    weft_dtype d = ptx_dtype(p, s->out[0]);
    const char *skip = unless_owner(p, &t, i), *at = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD);
    ptx_line(p, "mov.u64 %s, folds", at);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * i, at);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", at, t.lane, kir_width(d), at);
    ptx_line(p, "sub.s32 %s, %s, %s", left, few, t.lane);
    ptx_start(p, s);
    add_values(p, s, at, ptx_is_crossed(p, kir_width(d)) ? crossed(p, &t, at, kir_width(d)) : at, left);
    reduce_fold_tree(p, s);
    reduce_put(p, d, is_first, first, i, ptx_val(p, s->out[0]));
    ptx_place(p, skip);
    i++;
  }
  ptx_line(p, "bar.sync 0");
  reduce_get_all(p, loop, NULL, first);
}

void ptx_add_left_blocks(struct printer *p, const struct kir_stmt *loop, const char *from, const char *n) {
  ptx_line(p, "bar.sync 0");
  struct ptx_blocks b = ptx_blocks_open(p, loop, "0", n);
  struct ptx_thread t = { .lane = b.lane };
  const char *first = ptx_own(p, OWN_LONG), *few = ptx_own(p, OWN_LONG);
  int i = 0;
  ptx_line(p, "cvt.u64.u32 %s, %s", first, b.lane);
  ptx_line(p, "add.s64 %s, %s, %s", first, first, b.from);
  ptx_line(p, "sub.s64 %s, %s, %s", few, b.to, first);
  for FOLDS(s, loop) {
    int width = kir_width(ptx_dtype(p, s->out[0]));
    const char *at = ptx_own(p, OWN_LONG), *left = ptx_own(p, OWN_WORD);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * i++, from);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, first, width, at);
    ptx_line(p, "cvt.u32.u64 %s, %s", left, few);
    add_values(p, s, at, ptx_is_crossed(p, width) ? crossed(p, &t, at, width) : at, left);
  }
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}
