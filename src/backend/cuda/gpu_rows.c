/* gpu_rows.c -- rows that a block of threads holds in registers from the first lane loop to the last.
 *
 * par .. { uniform; lane c { load a[..,c]; fold } uniform; lane c { .. } }: all lane loops go along one row. A thread has
 * PTX_ROW_EACH elements of it, in chunks of `each` neighbours, and values kept between the loops are the registers themselves.
 * Chunks beyond the end of the row are printed like the others, under a predicate. */
#include "backend/cuda/gpu_wide.h"

/* Blocks of threads that are to find room on a processor, as row_blocks says. */
enum { ROW_BLOCKS = 4 };

/* result = result o value for elements e .. e + each - 1, where the guard says that they are of the row. */
void ptx_accumulate_elements(struct printer *p, const struct kir_stmt *fold, int e, int each) {
  weft_dtype d = (weft_dtype)p->k->vals[fold->in[0]].dtype;
  for (int k = 0; k < each; k++) {
    p->reg = p->wide[e + k];
    const char *result = ptx_val(p, fold->out[0]), *all = ptx_own_of(p, d);
    ptx_instruction(p, (enum kir_op)fold->op, d, all, (const char *[]){ result, ptx_val(p, fold->in[0]) });
    ptx_line(p, "@%s mov.%s %s, %s", p->guard, d == WEFT_BOOL ? "pred" : ptx_bits(d), result, all);
  }
  p->reg = p->wide[0];
}

void ptx_start_folds(struct printer *p, const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_FOLD) ptx_start(p, s);
}

/* Elements from `first` on, n of the row in all, a multiple of `each`: chunk i of this thread begins with element
 * (i threads + thread) each of these. active: by the first element of a chunk, whether it is of the row. */
void ptx_number_chunks(struct printer *p, const struct kir_stmt *loop, const char *first, const char *n, const char *active[]) {
  int each = p->each;
  const char *step = ptx_own(p, OWN_LONG), *var = ptx_val(p, loop->var);
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, each);
  for (int e = 0; e < p->n_wide; e += each) {
    if (e) ptx_line(p, "add.s64 %s, %s, %s", p->wide[e][loop->var], p->wide[e - each][loop->var], step);
    else if (first) ptx_line(p, "mad.lo.s64 %s, $lane, %d, %s", var, each, first);
    else ptx_line(p, "mul.lo.s64 %s, $lane, %d", var, each);
    ptx_number_elements(p, loop, e, each);
    ptx_line(p, "setp.lt.s64 %s, %s, %s", active[e] = ptx_own(p, OWN_PRED), p->wide[e][loop->var], n);
  }
}

/* The row that comes next on this processor is brought to the cache: that of the block of threads that is as many blocks away as
 * processors have room for. Worth while for halves, which wait for arithmetic (a layer norm of bf16, 8192 rows of 4096 on an H200:
 * 0.049 ms, 0.053 without); rows of f32 wait for memory and take longer so. */
static void fetch_row(struct printer *p, const struct kir_stmt *loop, const char *const active[]) {
  const struct kir_stmt *par = p->k->body.first;
  if (par->kind != KIR_PAR || par->extent != KIR_N || par->body.first->kind == KIR_PAR || ptx_first_lane_loop(p) != loop) return;
  const char *ahead = ptx_own(p, OWN_LONG), *away = ptx_own(p, OWN_WORD), *is = ptx_own(p, OWN_PRED), *both = ptx_own(p, OWN_PRED);
  const char *row = ptx_val(p, par->var), *n = ptx_lin(p, par->at[0]);
  ptx_line(p, "mov.u32 %s, %%nsmid", away);
  ptx_line(p, "mul.wide.u32 %s, %s, %d", ahead, away, p->blocks);
  ptx_line(p, "add.s64 %s, %s, %s", ahead, ahead, row);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, ahead, n);
  for (int e = 0; e < PTX_ROW_EACH; e += p->each)
    for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
      if (!ptx_is_early(p, s, loop)) continue;
      p->reg = p->wide[e];
      p->reg[par->var] = ahead;
      const char *at = ptx_address(p, s->buf, s->at);
      p->reg[par->var] = row;
      ptx_line(p, "and.pred %s, %s, %s", both, is, active[e]);
      ptx_line(p, "@%s prefetch.global.L2 [%s]", both, at);
    }
  p->reg = p->wide[0];
}

/* The early loads of the first loop of a row that is streamed: each thread takes its elements. */
static void streamed_loads(struct printer *p, const struct kir_stmt *loop, const char *n, const char *const active[]) {
  ptx_stream_await(p, n);
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    for (int e = 0; e < p->n_wide && ptx_is_early(p, s, loop); e += p->each) {
      p->guard = active[e];
      if (!ptx_stream_load(p, loop, s, n, e, p->each)) ptx_load_neighbours(p, s, e, p->each);
    }
  p->reg = p->wide[0];
}

/* A lane loop over a row of n elements, all of which the threads of a block have at once. */
static void row_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each, slot = 0;
  const char *active[PTX_WIDE];
  bool has_order = ptx_ordered_folds(p->k, loop) > 0, has_fold = ptx_has_fold(loop);
  bool is_taken = p->stream.n && ptx_first_lane_loop(p) == loop;
  ptx_number_chunks(p, loop, NULL, n, active);
  if (!has_order) ptx_start_folds(p, loop);
  if (is_taken) streamed_loads(p, loop, n, active);
  else for (int e = 0; e < p->n_wide; e += each) p->guard = active[e], ptx_early_loads(p, loop, e, each);
  p->guard = NULL;
  if (each == 8 && !p->stream.n) fetch_row(p, loop, active);
  for (int e = 0; e < p->n_wide; e += each) {
    p->guard = active[e];
    ptx_element_body(p, loop, e, each, w);
    slot = 0;
    for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
      if (s->kind != KIR_FOLD) continue;
      if (has_order) ptx_leave_values(p, loop, s, slot++, n, e, each);
      else ptx_accumulate_elements(p, s, e, each);
    }
  }
  p->guard = NULL;
  if (has_order && p->stream.n) ptx_add_left_blocks(p, loop, p->stream.left, n);
  else if (has_order) ptx_add_left(p, loop, n);
  else if (has_fold) ptx_meet(p, loop);
  if (is_taken && !has_fold) ptx_line(p, "bar.sync 0");
  if (is_taken) ptx_stream_on(p, n);
}

int ptx_kept_words(const struct ptx_plan *plan) {
  int kept = 0;
  for (int r = 0; r < plan->n_rows; r++)
    if (plan->rows[r].kind == PTX_KEEP && plan->rows[r].shares < 0) kept += plan->rows[r].width > 4 ? 2 : 1;
  return kept;
}

/* Whether a lane loop behind the first one loads along the row as well. */
static bool loads_later(struct printer *p) {
  const struct kir_stmt *next, *first = NULL;
  for (const struct kir_stmt *s = p->k->body.first; s; s = next) {
    next = s->kind == KIR_PAR ? s->body.first : s->next;
    for (const struct kir_stmt *x = first && s->kind == KIR_LANE ? s->body.first : NULL; x; x = x->next)
      if (x->kind == KIR_LOAD && ptx_is_neighbours(p, x, s)) return true;
    if (s->kind == KIR_LANE && !first) first = s;
  }
  return false;
}

/* How many blocks of threads, each with a row, are to find room on a processor, so that some load while others wait at a barrier:
 * six where elements are loaded as halves, five where a row is but kept, four where two values, or one of 8 bytes, are kept side
 * by side, or more is loaded along the row later; three where more is kept. With one more the compiler puts registers into memory
 * and back, or asks for one load after the other. On an H200, 8192 rows of 4096, ms with 4, 5 and 6: softmax 0.082, 0.073, 0.083;
 * RMS norm 0.073, 0.074, 0.079; its gradient 0.148, 0.170, 0.230 (3: 0.154); a layer norm of bf16 0.059, 0.057, 0.052. */
static int row_blocks(struct printer *p) {
  int kept = ptx_kept_words(p->plan);
  if (kept > 1) return kept > 2 ? ROW_BLOCKS - 1 : ROW_BLOCKS;
  if (p->each == 8) return ROW_BLOCKS + 2;
  return loads_later(p) ? ROW_BLOCKS : ROW_BLOCKS + 1;
}

void ptx_rows_body(struct printer *p) {
  p->each = p->plan->wide.each, p->groups = 1;
  p->blocks = row_blocks(p);
  if (!ptx_name_elements(p, PTX_ROW_EACH)) return;
  p->lane_loop = row_loop;
  if (p->plan->merges_early) ptx_line(p, "griddepcontrol.launch_dependents");
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

void ptx_streamed_body(struct printer *p) {
  p->each = p->plan->wide.each, p->threads = PTX_STREAM_THREADS, p->blocks = 1;
  if (!ptx_name_elements(p, PTX_STREAM_EACH)) return;
  ptx_stream_begin(p);
  p->lane_loop = row_loop;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}
