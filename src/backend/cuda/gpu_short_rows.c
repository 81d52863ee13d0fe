/* gpu_short_rows.c -- many short rows that are folded: one thread has a row, or a few neighbouring lanes of a warp share it.
 *
 * par .. { uniform; lane c { load a[..,c]; fold } uniform; lane c { .. } }, lane loops of one length, also in serial loops that
 * only fold, as over the rows of a window. The text is for rows of at most `most` elements, which a schedule knows: of each
 * span of lanes x each elements lane l has those from l x each on, all of them in registers from the first loop to the last,
 * as those of gpu_rows.c. A span divides 32, so that what stands at one place of spans 32 elements apart belongs to one
 * accumulator of a row (docs/kir.md section 6). Their tree goes on inside a lane where its halves are a span or more apart,
 * then from lane to lane, then inside a lane again. Threads without a row go along with their warp, and store nothing.
 *
 * It does not take kernels that check, keep locals, or combine in memory. */
#include "backend/cuda/gpu_wide.h"
#include "backend/cuda/ptx_reduce.h"
#include "base/least.h"

enum { SHORT_THREADS = 128 }; /* of a block */
enum { ACCUMULATORS = 32, FREE = 4 }; /* of a row; of a fold without an order, so that few wait for the one before */
enum { OF_ONE = 8, OF_FOUR = 32, MOST_LANES = 8 }; /* rows of so many elements that come one by one are one thread's, or four's */
enum { SECTOR = 32 }; /* bytes, what memory gives at least */

/* ---- which kernels ---- */

struct short_look { /* width: bytes of the narrowest element that lanes have side by side */
  const struct survey *s;
  const struct shape_class *shape;
  struct ptx_shorts *x;
  int n_statements, width;
  bool has_fold;
};

static bool look_at(struct short_look *l, const struct kir_stmt *s, const struct kir_stmt *lane) {
  struct ptx_shorts *x = l->x;
  if (s->kind == KIR_STORE && s->op != KIR_SET) return false;
  if (l->s->k->bufs[s->buf].kind == KIR_LOCAL || l->s->bufs[s->buf].is_shared) return false;
  int d = lane && ptx_is_in_memory(l->s->k, s->buf) ? ptx_axis_along(l->shape, s, lane->var) : -1;
  for (int i = 0; i < x->n_bufs; i++) if (x->bufs[i] == s->buf && x->axis[i] == d) return true;
  if (d < 0) return true;
  if (x->n_bufs == PTX_WIDE_BUFS) return false;
  x->bufs[x->n_bufs] = s->buf, x->axis[x->n_bufs++] = d;
  l->width = (int)least(l->width, kir_width((weft_dtype)l->s->k->bufs[s->buf].dtype));
  return true;
}

static bool look_in_lanes(struct short_look *l, const struct kir_block *b, const struct kir_stmt *lane, bool is_top) {
  for (const struct kir_stmt *s = b->first; s; s = s->next, l->n_statements++)
    switch ((enum kir_kind)s->kind) {
    case KIR_OP: case KIR_YIELD: case KIR_KEEP: break;
    case KIR_LOAD: if (!look_at(l, s, is_top ? lane : NULL)) return false; break;
    case KIR_STORE: if (!is_top || !look_at(l, s, lane)) return false; break;
    case KIR_FOLD: if (!is_top || s->n_out > PTX_TUPLE) return false; l->has_fold = true; break;
    case KIR_IF: if (!look_in_lanes(l, &s->body, lane, false)) return false; break;
    case KIR_PAR: case KIR_LANE: case KIR_SERIAL: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX:
    case KIR_LOCALS: case KIR_CHECK: case KIR_KINDS: return false;
    }
  return true;
}

static bool look_at_lanes(struct short_look *l, const struct kir_stmt *s) {
  const struct kir_stmt **first = &l->x->nest.lane;
  if (!*first) *first = s;
  if (s->extent != KIR_N || !kir_lin_equal(s->at[0], (*first)->at[0])) return false;
  return look_in_lanes(l, &s->body, s, true);
}

/* What an iteration of the par loops is, or a step of a serial loop in it. */
static bool look_in_row(struct short_look *l, const struct kir_block *b, bool in_serial) {
  for (const struct kir_stmt *s = b->first; s; s = s->next)
    switch ((enum kir_kind)s->kind) {
    case KIR_OP: break;
    case KIR_LOAD: case KIR_STORE: if (!look_at(l, s, NULL)) return false; break;
    case KIR_FOLD: if (!in_serial) return false; break;
    case KIR_LANE: if (!look_at_lanes(l, s)) return false; break;
    case KIR_SERIAL: if (in_serial || s->extent != KIR_N || !look_in_row(l, &s->body, true)) return false; break;
    case KIR_PAR: case KIR_IF: case KIR_YIELD: case KIR_CARRY: case KIR_NEXT: case KIR_UNTIL: case KIR_PREFIX: case KIR_KEEP:
    case KIR_LOCALS: case KIR_CHECK: case KIR_KINDS: return false;
    }
  return true;
}

/* Par loops, each the last of what is in it, behind uniform statements; what is in the innermost, or NULL. */
static const struct kir_block *find_pars(struct short_look *l, struct ptx_nest *r) {
  const struct kir_block *b = &l->s->k->body;
  for (; b->last && b->last->kind == KIR_PAR; b = &b->last->body) {
    if (b->last->extent != KIR_N || r->n_pars == PTX_NEST_PARS) return NULL;
    for (const struct kir_stmt *s = b->first; s != b->last; s = s->next)
      if (s->kind != KIR_OP && (s->kind != KIR_LOAD || !look_at(l, s, NULL))) return NULL;
    r->par[r->n_pars++] = b->last;
  }
  return r->n_pars ? b : NULL;
}

static struct ptx_share share_by(int lanes, int each, int most) {
  int n = (int)ptx_parts(most, lanes * each) * each;
  return (struct ptx_share){ each, lanes, n > 1 ? n : 2 };
}

static struct ptx_share loose_share(int most) {
  return share_by(most <= OF_ONE ? 1 : most <= OF_FOUR ? 4 : MOST_LANES, 1, most);
}

/* Instructions of a row, counted in those of an element: what a lane does beside its elements is some two of them (softmax, PTX),
 * and with more than 16 there are fewer lanes at a time, for want of registers. */
static int cost_of(struct ptx_share x) { return x.lanes * (x.elements + 2 + (x.elements > 16 ? (x.elements - 16) / 2 : 0)); }

/* Whole sectors at a time, or a row of fewer bytes; of elements of 1 and 2 bytes whole words. */
static bool may_share(struct ptx_share x, int width, int most) {
  return x.lanes * x.each <= ACCUMULATORS && x.elements <= PTX_WIDE && x.each * width >= 4 &&
         x.lanes * x.each * width >= least(SECTOR, most * width);
}

/* each = 1: rows of this length never are aligned. */
static struct ptx_share aligned_share(int width, int most, int most_each) {
  struct ptx_share best = { 1, 0, 0 };
  for (int each = most_each; each > 1; each /= 2)
    for (int lanes = 1; lanes <= MOST_LANES; lanes *= 2) {
      struct ptx_share x = share_by(lanes, each, most);
      if (may_share(x, width, most) && (!best.lanes || cost_of(x) < cost_of(best))) best = x;
    }
  return best;
}

/* Neighbours that all rows of the lengths of this text, or some of them, have in whole pieces. */
static int most_neighbours(int width, const struct ptx_shorts *x) {
  int each = width <= 2 ? 8 : 16 / width;
  while (each > 1 && (x->least == x->most ? x->most % each != 0 : each > (x->most - x->least + 1) / 2)) each /= 2;
  return each;
}

bool ptx_find_short(const struct survey *s, const struct shape_class *shape, struct ptx_shorts *x) {
  struct short_look l = { .s = s, .shape = shape, .x = x, .width = 16 };
  *x = (struct ptx_shorts){ .least = shape->short_row, .most = shape->short_row };
  if (!shape->short_row_is_full) x->least -= (int)step_of_short_rows(x->most) - 1;
  if (!x->most || !s->is_cooperative || s->is_single || s->is_one_warp) return false;
  if (s->owned || s->private_loop || s->n_checks || s->product.is_there) return false;
  const struct kir_block *row = find_pars(&l, &x->nest);
  if (!row || !look_in_row(&l, row, false) || !l.has_fold) return false;
  x->share[PTX_SHORT_ALIGNED] = aligned_share(l.width, x->most, x->n_bufs ? most_neighbours(l.width, x) : 1);
  x->share[PTX_SHORT_LOOSE] = loose_share(x->most);
  return x->share[PTX_SHORT_LOOSE].elements <= PTX_WIDE && l.n_statements * x->share[PTX_SHORT_LOOSE].elements <= PTX_MOST_ROWS;
}

/* ---- folds ---- */

struct row_fold { /* accumulators of this lane, by what stands at their place of 32 elements */
  const struct kir_stmt *s;
  bool is_ordered;
  int n;
  const char *r[ACCUMULATORS][PTX_TUPLE];
};

static void combine(struct printer *p, struct row_fold *f, int k, const char *const other[]) {
  const char *both[PTX_TUPLE];
  reduce_fresh(p, f->s, both);
  reduce_combine(p, f->s, f->r[k], other, both);
  for (int i = 0; i < f->s->n_out; i++) f->r[k][i] = both[i];
}

/* Accumulator k gets the values of element e of this lane, if it is of the row. */
static void take_element(struct printer *p, struct row_fold *f, int k, int e, bool is_first) {
  const char *start[PTX_TUPLE], *v[PTX_TUPLE], *both[PTX_TUPLE], *is = p->active[e - e % p->each];
  for (int i = 0; i < f->s->n_out; i++) start[i] = reduce_start(p, f->s, i);
  p->reg = p->wide[e];
  for (int i = 0; i < f->s->n_out; i++) v[i] = ptx_val(p, f->s->in[i]);
  p->reg = p->wide[0];
  if (is_first) reduce_fresh(p, f->s, f->r[k]);
  if (is_first && is) reduce_copy(p, f->s, f->r[k], start);
  if (!is) { reduce_combine(p, f->s, is_first ? start : f->r[k], v, f->r[k]); return; }
  reduce_fresh(p, f->s, both);
  reduce_combine(p, f->s, f->r[k], v, both);
  reduce_take_if(p, f->s, is, both, f->r[k]);
}

static void accumulate(struct printer *p, struct row_fold *f) {
  int n = p->share->elements, own = f->is_ordered ? ACCUMULATORS / p->share->lanes : FREE;
  f->n = (int)least(own, n);
  for (int e = 0; e < n; e++) take_element(p, f, e % own, e, e < own);
}

/* Accumulator k and that of the lane so many lanes on. */
static void meet_lane(struct printer *p, struct row_fold *f, int k, int lanes) {
  const char *other[PTX_TUPLE], *by = ptx_textf(p, "%d", lanes);
  for (int i = 0; i < f->s->n_out; i++) other[i] = reduce_shuffle(p, ptx_dtype(p, f->s->out[i]), "down", f->r[k][i], by);
  combine(p, f, k, other);
}

/* An accumulator that got nothing is what the fold starts at. To add 0 or to multiply by 1 changes no other one, as none is -0
 * that began at 0; a fn is asked. */
static void meet_start(struct printer *p, struct row_fold *f, int k) {
  const char *start[PTX_TUPLE];
  for (int i = 0; i < f->s->n_out; i++) start[i] = reduce_start(p, f->s, i);
  if (f->s->op == KIR_CALL) combine(p, f, k, start);
}

/* Halves onto halves, `apart` elements from each other: 16, 8, 4, 2, 1. */
static void tree(struct printer *p, struct row_fold *f) {
  int each = p->share->each, span = p->share->lanes * each;
  for (int apart = ACCUMULATORS / 2; apart; apart /= 2) {
    int half = apart >= span ? apart / span * each : apart < each ? apart : 0;
    for (int k = 0; k < half && k < f->n; k++)
      if (k + half < f->n) combine(p, f, k, f->r[k + half]);
      else meet_start(p, f, k);
    for (int k = 0; !half && k < each; k++) meet_lane(p, f, k, apart / each);
  }
}

/* No order is kept: all that this lane has first. */
static void melt(struct printer *p, struct row_fold *f) {
  for (int k = 1; k < f->n; k++) combine(p, f, 0, f->r[k]);
  for (int lanes = p->share->lanes / 2; lanes; lanes /= 2) meet_lane(p, f, 0, lanes);
}

static void fold(struct printer *p, const struct kir_stmt *s) {
  struct row_fold f = { .s = s, .is_ordered = ptx_is_ordered(p->k, s) };
  accumulate(p, &f);
  if (f.is_ordered) tree(p, &f);
  else melt(p, &f);
  for (int i = 0; i < s->n_out; i++) {
    weft_dtype d = ptx_dtype(p, s->out[i]);
    const char *r = f.r[0][i];
    ptx_mov(p, d, ptx_val(p, s->out[i]), p->share->lanes > 1 ? reduce_shuffle(p, d, "idx", r, p->first_lane) : r);
  }
}

/* ---- the entry ---- */

/* Before all: the indices of this lane's elements, which are those of every lane loop, and by the first of neighbours whether they
 * are of the row; NULL: they are for sure, if there is a row. */
static void number_all(struct printer *p, const struct kir_stmt *loop) {
  int span = p->share->lanes * p->each;
  const char *first = p->wide[0][loop->var], *n = ptx_lin(p, loop->at[0]);
  p->uses_thread[PTX_LANES] = true;
  ptx_val(p, loop->var);
  ptx_line(p, "mul.lo.s64 %s, $lane, %d", first, p->each);
  for (int e = 0; e < p->n_wide; e += p->each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %d", p->wide[e][loop->var], first, e / p->each * span);
    ptx_number_elements(p, loop, e, p->each);
    p->active[e] = NULL;
    if ((e / p->each + 1) * span <= p->plan->shorts.least) continue;
    ptx_line(p, "setp.lt.and.s64 %s, %s, %s, %s", p->active[e] = ptx_pred(p), p->wide[e][loop->var], n, p->has_row);
  }
}

/* The loops after the first one have its indices. */
static void share_indices(struct printer *p, const struct kir_block *b, int var) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    for (int e = 0; s->kind == KIR_LANE && e < p->n_wide; e++) p->wide[e][s->var] = p->wide[e][var];
    share_indices(p, &s->body, var);
  }
}

/* .. and are declared once. */
static void declare_once(struct printer *p, const struct kir_block *b, int var) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE && s->var != var) p->is_used[s->var] = false;
    declare_once(p, &s->body, var);
  }
}

/* Threads without a row load the last one, which is there, and store nothing. */
static void short_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each;
  (void)n;
  for (int e = 0; e < p->n_wide; e += each) p->guard = p->active[e], ptx_early_loads(p, loop, e, each);
  for (int e = 0; e < p->n_wide; e += each) {
    p->guard = p->active[e] ? p->active[e] : p->has_row;
    ptx_element_body(p, loop, e, each, w);
  }
  p->guard = NULL;
  for FOLDS(s, loop) fold(p, s);
}

/* The number of this thread's row, and whether there is one; the first lane that shares it. */
static void find_row(struct printer *p, const struct ptx_nest *r) {
  const char *q = ptx_word(p), *by = ptx_word(p), *own = ptx_word(p);
  ptx_line(p, "mov.u32 %s, %%ctaid.x", q);
  ptx_line(p, "mov.u32 %s, %%ntid.y", by);
  ptx_line(p, "mov.u32 %s, %%tid.y", own);
  ptx_line(p, "mad.lo.u32 %s, %s, %s, %s", q, q, by, own);
  p->has_row = ptx_pred(p), p->uses_first = true;
  ptx_line(p, "setp.lt.u32 %s, %s, %s", p->has_row, q, ptx_nest_indices(p, r, q));
  ptx_line(p, "and.pred $first, $first, %s", p->has_row);
  ptx_line(p, "mov.u32 %s, %%laneid", p->first_lane = ptx_word(p));
  ptx_line(p, "and.b32 %s, %s, %d", p->first_lane, p->first_lane, -p->share->lanes);
}

/* How many blocks of threads are to find room on a processor: so many that each element has a register for what is kept of it and
 * one more, or two where it has an address of its own. With fewer the compiler puts some into memory (ptxas 13.0). */
static int short_blocks(const struct printer *p, const struct ptx_share *x) {
  enum { REGISTERS = (1 << 16) / SHORT_THREADS, OF_ALL = 40, MOST_BLOCKS = 8 };
  int of_each = ptx_kept_words(p->plan) + (x->each > 1 ? 1 : 2), blocks = REGISTERS / (OF_ALL + of_each * x->elements);
  return (int)least(MOST_BLOCKS, blocks > 1 ? blocks : 1);
}

static void short_body(struct printer *p, const struct ptx_share *x) {
  const struct ptx_nest *r = &p->plan->shorts.nest;
  struct where w = { .rest = "$done" };
  p->share = x, p->each = x->each, p->threads = SHORT_THREADS, p->blocks = short_blocks(p, x), p->lane_loop = short_loop;
  if (!ptx_name_elements(p, x->elements)) return;
  find_row(p, r);
  number_all(p, r->lane);
  share_indices(p, &p->k->body, r->lane->var);
  ptx_statements(p, p->k->body.first, p->k->body.last, w);
  for (int i = 0; i < r->n_pars - 1; i++) ptx_statements(p, r->par[i]->body.first, r->par[i]->body.last, w);
  ptx_block(p, &r->par[r->n_pars - 1]->body, w);
  ptx_place(p, "$done");
  declare_once(p, &p->k->body, r->lane->var);
}

void ptx_short_body(struct printer *p) { short_body(p, &p->plan->shorts.share[PTX_SHORT_ALIGNED]); }
void ptx_short_loose_body(struct printer *p) { short_body(p, &p->plan->shorts.share[PTX_SHORT_LOOSE]); }

/* ---- launches ---- */

static bool is_aligned(const struct ptx_plan *p, int i, const struct bound bufs[], const int64_t sizes[], const uint64_t args[]) {
  const struct ptx_shorts *x = &p->shorts;
  const struct bound *at = &bufs[x->bufs[i]];
  return ptx_is_aligned(&p->bufs[x->bufs[i]], at, x->axis[i], x->share[PTX_SHORT_ALIGNED].each, sizes, args);
}

bool ptx_short_shape(const struct ptx_plan *p, const int64_t sizes[], const uint64_t args[], const struct bound bufs[],
                     struct ptx_shape *s) {
  const struct ptx_shorts *x = &p->shorts;
  if (!p->short_entry[PTX_SHORT_LOOSE]) return false;
  int64_t n = ptx_size(&x->length, sizes, args), rows = 1;
  bool aligned = p->short_entry[PTX_SHORT_ALIGNED] && n % x->share[PTX_SHORT_ALIGNED].each == 0;
  for (int i = 0; i < x->nest.n_pars; i++) {
    int64_t m = ptx_size(&x->nest.pars[i], sizes, args);
    if (m < 1 || __builtin_mul_overflow(rows, m, &rows) || rows > INT32_MAX / 2) return false;
  }
  if (n < 1 || n > x->most || n < x->least) return false;
  for (int i = 0; i < x->n_bufs; i++) aligned = aligned && is_aligned(p, i, bufs, sizes, args);
  s->short_form = aligned ? PTX_SHORT_ALIGNED : PTX_SHORT_LOOSE;
  int64_t lanes = x->share[s->short_form].lanes;
  s->block[0] = (unsigned)lanes, s->block[1] = (unsigned)(SHORT_THREADS / lanes), s->block[2] = 1;
  s->grid[0] = (unsigned)ptx_parts(rows, SHORT_THREADS / lanes), s->grid[1] = s->grid[2] = 1;
  s->shared_bytes = s->row_bytes = s->scratch_bytes = 0;
  return s->is_short = true;
}
