/* gpu_streamed.c -- long rows that bulk copies bring to shared memory while others are computed: a further entry for kernels with
 * aligned rows of 4096 to 16384 elements, for compute capability 9.0 and later.
 *
 * A block of threads goes from row to row. It has room for two to four that are on their way: one thread asks for a row of each
 * array that the first loop loads, and the hardware copies it and says so at a barrier in shared memory. When a row is here each
 * thread takes its elements into registers, where they stay as those of shorter rows do (gpu_rows.c), and the row that comes as
 * many turns later is asked for. What is folded in order is left in a place of its own.
 *
 * A processor has registers for 16384 elements with one kept value each. */
#include "backend/cuda/gpu_wide.h"
#include "base/least.h"

enum { STREAM_LENGTH = 4096 };                      /* rows of up to so many have entries of their own */
enum { BARRIER_BYTES = 8 * PTX_STREAMS, LEAST_STREAMS = 2 };

/* ---- Which kernels -------------------------------------------------------------------------------------------------------- */

static bool is_streamed(const struct survey *s, const struct shape_class *shape, const struct kir_stmt *x,
                        const struct kir_stmt *par, const struct kir_stmt *lane) {
  bool moves = false;
  if (x->kind != KIR_LOAD || s->k->bufs[x->buf].kind != KIR_IN || !survey_is_known_ahead(s->k, x)) return false;
  for (int d = 0; d < x->n_at; d++) moves |= survey_mentions(x->at[d], par->var);
  return moves && ptx_axis_along(shape, x, lane->var) >= 0 && kir_width((weft_dtype)s->k->bufs[x->buf].dtype) >= 2;
}

void ptx_find_streamed(const struct survey *s, const struct ptx_plan *plan, const struct shape_class *shape,
                       const struct ptx_wide *w, struct ptx_streamed *x) {
  const struct kir_stmt *par = s->k->body.first, *lane = NULL;
  *x = (struct ptx_streamed){ 0 };
  if (plan->capability < 90 || !w->is_rows || !s->is_dealt || !w->n_folds || ptx_kept_words(plan) > 1) return;
  if (par->kind != KIR_PAR || par->extent != KIR_N || par->next || par->body.last->kind == KIR_PAR) return;
  for (lane = par->body.first; lane && lane->kind != KIR_LANE; lane = lane->next) {}
  for (const struct kir_stmt *l = lane ? lane->body.first : NULL; l && x->n_loads < PTX_STREAMS; l = l->next) {
    if (!is_streamed(s, shape, l, par, lane)) continue;
    x->load[x->n_loads++] = l;
    x->bytes += kir_width((weft_dtype)s->k->bufs[l->buf].dtype);
  }
}

/* ---- Printing ------------------------------------------------------------------------------------------------------------- */

static const struct kir_stmt *row_of(struct printer *p) { return p->k->body.first; }
static int width_of(struct printer *p, int i) { return kir_width((weft_dtype)p->k->bufs[p->plan->streamed.load[i]->buf].dtype); }

static void place_of(struct printer *p, const char *to, const char *stage, const char *n) {
  const char *bytes = ptx_own(p, OWN_LONG), *far = ptx_own(p, OWN_LONG);
  ptx_line(p, "mul.lo.s64 %s, %s, %d", bytes, n, p->plan->streamed.bytes);
  ptx_line(p, "cvt.u64.u32 %s, %s", far, stage);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", to, far, bytes, p->stream.bars);
  ptx_line(p, "add.s64 %s, %s, %d", to, to, BARRIER_BYTES);
}

static const char *barrier_of(struct printer *p, const char *stage) {
  const char *bar = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.wide.u32 %s, %s, 8, %s", bar, stage, p->stream.bars);
  return bar;
}

/* Where the row begins that a load goes along. */
static const char *address_of(struct printer *p, const struct kir_stmt *load, const char *row) {
  const struct kir_stmt *par = row_of(p);
  int axis = 0;
  for (const struct kir_stmt *s = par->body.first; s; s = s->next)
    if (s->kind == KIR_LANE && (axis = ptx_axis_along(p->shape, load, s->var)) >= 0) break;
  int lane = load->at[axis].term[0].val[0];
  const char *own_row = p->reg[par->var], *own_lane = p->reg[lane];
  p->reg[par->var] = row, p->reg[lane] = "0";
  const char *at = ptx_address(p, load->buf, load->at);
  p->reg[par->var] = own_row, p->reg[lane] = own_lane;
  return at;
}

/* The first thread asks for a row, unless it is behind the last. */
static void ask(struct printer *p, const char *row, const char *stage, const char *n) {
  const struct ptx_streamed *x = &p->plan->streamed;
  const char *is = ptx_own(p, OWN_PRED), *skip = ptx_label(p, "asked"), *few = ptx_own(p, OWN_WORD), *all = ptx_own(p, OWN_WORD);
  const char *to = ptx_own(p, OWN_LONG);
  p->uses_first = true;
  ptx_line(p, "setp.lt.and.s64 %s, %s, %s, $first", is, row, ptx_lin(p, row_of(p)->at[0]));
  ptx_line(p, "@!%s bra %s", is, skip);
  const char *bar = barrier_of(p, stage);
  place_of(p, to, stage, n);
  ptx_line(p, "cvt.u32.u64 %s, %s", few, n);
  ptx_line(p, "mul.lo.u32 %s, %s, %d", all, few, x->bytes);
  ptx_line(p, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], %s", bar, all);
  for (int i = 0; i < x->n_loads; i++) {
    const char *own = ptx_own(p, OWN_WORD), *from = address_of(p, x->load[i], row);
    ptx_line(p, "mul.lo.u32 %s, %s, %d", own, few, width_of(p, i));
    ptx_line(p, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%s], %s, [%s]", to, from, own, bar);
    if (i + 1 < x->n_loads) ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", to, n, width_of(p, i), to);
  }
  ptx_place(p, skip);
}

static const char *row_length(struct printer *p) {
  const struct kir_stmt *s = row_of(p)->body.first;
  while (s->kind != KIR_LANE) s = s->next;
  return ptx_lin(p, s->at[0]);
}

void ptx_stream_begin(struct printer *p) {
  struct ptx_stream *x = &p->stream;
  const char *all = ptx_own(p, OWN_LONG), *row = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "ask");
  *x = (struct ptx_stream){ ptx_own(p, OWN_WORD), ptx_own(p, OWN_LONG), ptx_own(p, OWN_WORD), ptx_own(p, OWN_WORD),
                            ptx_own(p, OWN_LONG), ptx_own(p, OWN_LONG) };
  p->uses_first = p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "mov.u64 %s, streamed", x->bars);
  ptx_line(p, "ld.param.u64 %s, [q_streams]", all);
  ptx_line(p, "cvt.u32.u64 %s, %s", x->n, all);
  for (int i = 0; i < PTX_STREAMS; i++) ptx_line(p, "@$first mbarrier.init.shared::cta.b64 [%s+%d], 1", x->bars, 8 * i);
  ptx_line(p, "fence.proxy.async.shared::cta");
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.u32 %s, 0", x->turn);
  ptx_line(p, "mov.u32 %s, 0", x->stage);
  ptx_line(p, "mov.s64 %s, $row", row);
  ptx_place_loop(p, again);
  ask(p, row, x->stage, row_length(p));
  ptx_line(p, "add.s64 %s, %s, $rows", row, row);
  ptx_line(p, "add.u32 %s, %s, 1", x->stage, x->stage);
  ptx_line(p, "setp.lt.u32 %s, %s, %s", is, x->stage, x->n);
  ptx_line(p, "@%s bra %s", is, again);
  place_of(p, x->left, x->n, row_length(p));
  ptx_line(p, "mov.u32 %s, 0", x->stage);
}

void ptx_stream_await(struct printer *p, const char *n) {
  const struct ptx_stream *x = &p->stream;
  const char *bar = barrier_of(p, x->stage), *is = ptx_own(p, OWN_PRED), *again = ptx_label(p, "await");
  place_of(p, x->at, x->stage, n);
  ptx_place_loop(p, again);
  ptx_line(p, "mbarrier.try_wait.parity.shared::cta.b64 %s, [%s], %s", is, bar, x->turn);
  ptx_line(p, "@!%s bra %s", is, again);
}

bool ptx_stream_load(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *load, const char *n, int e, int each) {
  const struct ptx_streamed *x = &p->plan->streamed;
  int element[PTX_WIDE], i = 0, before = 0;
  for (; i < x->n_loads && x->load[i] != load; i++) before += width_of(p, i);
  if (i == x->n_loads) return false;
  const char *at = ptx_own(p, OWN_LONG);
  for (int k = 0; k < each; k++) element[k] = e + k;
  p->reg = p->wide[e];
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, before, p->stream.at);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, p->wide[e][loop->var], width_of(p, i), at);
  ptx_load_each(p, load, ".shared", at, each, element);
  return true;
}

void ptx_stream_on(struct printer *p, const char *n) {
  const struct ptx_stream *x = &p->stream;
  const char *next = ptx_own(p, OWN_LONG), *far = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  p->uses_thread[PTX_ROWS] = true;
  ptx_line(p, "cvt.u64.u32 %s, %s", far, x->n);
  ptx_line(p, "mad.lo.s64 %s, %s, $rows, %s", next, far, ptx_val(p, row_of(p)->var));
  ask(p, next, x->stage, n);
  ptx_line(p, "add.u32 %s, %s, 1", x->stage, x->stage);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is, x->stage, x->n);
  ptx_line(p, "@%s mov.u32 %s, 0", is, x->stage);
  ptx_line(p, "@%s xor.b32 %s, %s, 1", is, x->turn, x->turn);
}

/* ---- Launching ------------------------------------------------------------------------------------------------------------ */

/* Worth while for rows of at most 5120 elements, and from 13313 on. On an H200, ms before and so, 32M elements: softmax of 5120
 * 0.106 and 0.079, of 7000 0.086 and 0.088, of 8192 0.078 and 0.079, of 10000 0.092 and 0.099, of 12288 0.084 and 0.084, of 16384
 * 0.088 and 0.081; RMS norms of 5120 0.089 and 0.077, of 8192 0.073 and 0.077, of 16384 0.0795 and 0.081; layer norms of 8192 0.075
 * and 0.080, of 16384 0.084 and 0.080, of bf16 0.073 and 0.065 (softmax of bf16 0.069 and 0.071). */
enum { LEAST_BUSY = PTX_STREAM_THREADS * 27 / 32 };

bool ptx_streamed_shape(const struct ptx_plan *p, const struct ptx_machine *m, int64_t n, struct ptx_shape *s) {
  int64_t threads = (n + 32 * PTX_STREAM_EACH - 1) / (32 * PTX_STREAM_EACH) * 32, streams = 0;
  int64_t bytes = n * p->streamed.bytes, left = n * p->wide.n_folds * p->wide.fold_bytes + BARRIER_BYTES;
  if (!p->streamed_entry || n <= STREAM_LENGTH || threads > PTX_STREAM_THREADS) return false;
  int64_t blocks = PTX_STREAM_THREADS / threads, all = (int64_t)m->shared_bytes + PTX_RESERVED_BYTES;
  if (blocks == 2 || blocks * threads < LEAST_BUSY) return false;
  for (blocks++; streams < LEAST_STREAMS && --blocks;)
    streams = (all / blocks - PTX_RESERVED_BYTES - (int64_t)p->partial_bytes - left) / bytes;
  if (streams < LEAST_STREAMS) return false;
  s->streams = (int)least(streams, PTX_STREAMS);
  s->block[0] = (unsigned)threads, s->grid[0] = (unsigned)least(s->grid[0], blocks * m->n_processors);
  s->shared_bytes = (size_t)(left + s->streams * bytes);
  s->row_bytes = s->scratch_bytes = 0;
  return s->is_streamed = true;
}
