/* gpu_long_rows.c -- rows too long for registers: a thread goes through the row by PTX_ROW_EACH elements, and kept values lie
 * in shared memory, as those of the main entry.
 *
 * Of shifted rows the first and the last elements, which are no whole 16 bytes, go one by one, and kept rows begin so much
 * later that their pieces are aligned with those in memory. What is folded in order is folded behind the loop (gpu_ordered.c),
 * and the next row may be asked for meanwhile (gpu_next_row.c). */
#include "backend/cuda/gpu_wide.h"

/* Blocks of threads that ask for their next row, as many as registers leave room for on a processor. */
enum { ASKING_BLOCKS = 2 };

/* Loads or stores the value that is kept in a row, of elements e .. e + each - 1. */
void ptx_row_pieces(struct printer *p, const struct kir_stmt *loop, int row, bool is_load, int e, int each) {
  int v = p->plan->rows[row].of, width = p->plan->rows[row].width;
  const char *r[PTX_WIDE], *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, p->wide[e][loop->var], width, row);
  for (int k = 0; k < each; k++) p->reg = p->wide[e + k], r[k] = ptx_val(p, v);
  ptx_access_pieces(p, is_load, ptx_row_space(p), at, each, width, r);
  p->reg = p->wide[0];
}

/* Kept values of elements e .. e + each - 1, from the rows of earlier loops or to those of this one. */
static void kept_pieces(struct printer *p, const struct kir_stmt *loop, bool is_load, int e, int each) {
  for (int row = 0; row < p->plan->n_rows; row++) {
    int v = p->plan->rows[row].of;
    if (p->plan->rows[row].kind != PTX_KEEP || survey_keeps(loop, v) == is_load) continue;
    if (is_load && (!survey_uses(&loop->body, v) || p->wide[1][v] == p->wide[0][v])) continue;
    const struct ptx_asked *a = each > 1 && !is_load ? ptx_asked_in(p, row) : NULL;
    const char *there = a ? ptx_label(p, "there") : NULL;
    if (a) ptx_line(p, "@!%s bra %s", a->is_rest, there);
    ptx_row_pieces(p, loop, row, is_load, e, each);
    if (a) ptx_place(p, there);
  }
}

/* What a lane loop does with elements e .. e + each - 1, whose early loads are printed already. */
static void long_part(struct printer *p, const struct kir_stmt *loop, int e, int each, struct where w) {
  bool has_order = ptx_ordered_folds(p->k, loop) > 0;
  kept_pieces(p, loop, true, e, each);
  ptx_element_body(p, loop, e, each, w);
  kept_pieces(p, loop, false, e, each);
  for (const struct kir_stmt *s = loop->body.first; s && !has_order; s = s->next)
    if (s->kind == KIR_FOLD) ptx_accumulate_elements(p, s, e, each);
  for (int i = 0; i < p->n_asked && each > 1; i++) if (p->asked[i].last == loop) ptx_ask(p, &p->asked[i], loop, e, each);
}

/* Before the first loop of a row: how many elements stand before the first whole 16 bytes, and where the last ones begin. Kept rows
 * move so that these are whole there, too; other threads may still be reading those of the row before. */
static void shift_rows(struct printer *p, const char *n) {
  const struct kir_stmt *s = p->plan->wide.along;
  int width = kir_width((weft_dtype)p->k->bufs[s->buf].dtype), axis = p->plan->wide.axis[0];
  const char *low = ptx_own(p, OWN_LONG), *to = ptx_own(p, OWN_LONG), *by = ptx_own(p, OWN_LONG);
  ptx_line(p, "bar.sync 0");
  ptx_line(p, "mov.s64 %s, 0", ptx_val(p, s->at[axis].term[0].val[0]));
  ptx_line(p, "and.b64 %s, %s, 15", low, ptx_address(p, s->buf, s->at));
  ptx_line(p, "shr.u64 %s, %s, %d", to, low, width == 8 ? 3 : width == 4 ? 2 : 1);
  ptx_line(p, "sub.s64 %s, %s, %s", by, to, p->shift.by);
  ptx_line(p, "mov.s64 %s, %s", p->shift.by, to);
  for (int row = 0; row < p->plan->n_rows; row++)
    if (p->plan->rows[row].kind == PTX_KEEP)
      ptx_line(p, "mad.lo.s64 $row%d, %s, %d, $row%d", row, by, p->plan->rows[row].width, row);
  ptx_line(p, "sub.s64 %s, %d, %s", p->shift.head, 16 / width, to); /* so that pieces of all rows have the same places */
  ptx_line(p, "sub.s64 %s, %s, %s", p->shift.end, n, p->shift.head);
  ptx_line(p, "and.b64 %s, %s, %d", p->shift.end, p->shift.end, -(16 / width));
  ptx_line(p, "add.s64 %s, %s, %s", p->shift.end, p->shift.end, p->shift.head);
}

/* The elements before the first whole 16 bytes of a row and those behind the last. They are fewer than the threads: each has
 * one. */
static void edges(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  const char *var = ptx_val(p, loop->var), *far = ptx_own(p, OWN_LONG), *is = ptx_own(p, OWN_PRED);
  ptx_line(p, "setp.lt.s64 %s, $lane, %s", is, p->shift.head);
  ptx_line(p, "sub.s64 %s, $lane, %s", far, p->shift.head);
  ptx_line(p, "add.s64 %s, %s, %s", far, far, p->shift.end);
  ptx_line(p, "selp.s64 %s, $lane, %s, %s", var, far, is);
  ptx_line(p, "setp.lt.s64 %s, %s, %s", is, var, n);
  p->guard = is;
  ptx_early_loads(p, loop, 0, 1);
  long_part(p, loop, 0, 1, w);
  p->guard = NULL;
}

/* The early loads of a part of the row. What was asked for, while the row before was stored, stands in its place if that is all of
 * the part; else it is loaded once more. */
static void part_loads(struct printer *p, const struct kir_stmt *loop, const char *until, const char *const active[]) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (!ptx_is_early(p, s, loop)) continue;
    struct ptx_asked *a = ptx_asked_for(p, s);
    const char *there = a ? ptx_label(p, "there") : NULL, *met = a ? ptx_label(p, "met") : NULL;
    if (a) ptx_line(p, "setp.gt.s64 %s, %s, %s", a->is_rest = ptx_own(p, OWN_PRED), until, a->end);
    if (a) ptx_line(p, "@!%s bra %s", a->is_rest, there);
    for (int e = 0; e < PTX_ROW_EACH; e += p->each) p->guard = active[e], ptx_load_neighbours(p, s, e, p->each);
    if (!a) continue;
    ptx_line(p, "bra %s", met);
    ptx_place(p, there);
    for (int e = 0; e < PTX_ROW_EACH; e += p->each) p->guard = active[e], ptx_row_pieces(p, loop, a->row, true, e, p->each);
    ptx_place(p, met);
  }
  p->reg = p->wide[0];
}

/* All elements of the row: in every turn each thread takes PTX_ROW_EACH of them. */
static void go_through(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  int each = p->each;
  const char *active[PTX_WIDE], *first = ptx_own(p, OWN_LONG), *is_over = ptx_own(p, OWN_PRED), *step = ptx_own(p, OWN_LONG);
  const char *again = ptx_label(p, "part"), *leave = ptx_label(p, "leave"), *end = n, *until = ptx_own(p, OWN_LONG);
  bool is_shifted = p->shift.by;
  p->uses_thread[PTX_LANES] = true;
  ptx_line(p, "mul.lo.s64 %s, $lanes, %d", step, PTX_ROW_EACH);
  ptx_line(p, "mov.s64 %s, %s", first, is_shifted ? p->shift.head : "0");
  if (is_shifted) edges(p, loop, n, w), end = p->shift.end;
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is_over, first, end);
  ptx_line(p, "@%s bra %s", is_over, leave);
  ptx_number_chunks(p, loop, first, end, active);
  ptx_line(p, "add.s64 %s, %s, %s", first, first, step);
  ptx_line(p, "min.s64 %s, %s, %s", until, first, end);
  part_loads(p, loop, until, active);
  for (int e = 0; e < PTX_ROW_EACH; e += each) p->guard = active[e], long_part(p, loop, e, each, w);
  p->guard = NULL;
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static bool does_more_than_fold(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_KEEP || s->kind == KIR_STORE) return true;
  return false;
}

static void long_loop(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  bool has_order = ptx_ordered_folds(p->k, loop) > 0, is_again = ptx_folds_again(p->k, loop);
  bool is_first = ptx_first_lane_loop(p) == loop;
  if (p->shift.by && is_first) shift_rows(p, n);
  if (is_first) ptx_await_asked(p);
  bool asks = ptx_begin_asking(p, loop, n);
  if (!has_order) ptx_start_folds(p, loop);
  if (!is_again || does_more_than_fold(loop)) go_through(p, loop, n, w);
  if (asks) ptx_line(p, "cp.async.commit_group");
  if (has_order) ptx_line(p, "bar.sync 0");
  if (is_again) ptx_fold_again(p, loop, n, w);
  else if (has_order) ptx_add_kept(p, loop, "0", n);
  else if (ptx_has_fold(loop)) ptx_meet(p, loop);
}

static void long_rows(struct printer *p, int each) {
  if (!ptx_name_elements(p, PTX_ROW_EACH)) return;
  p->threads = PTX_LONG_THREADS, p->each = each;
  p->rows_are_shared = true; /* else this entry is not launched */
  ptx_find_asked(p);
  if (p->n_asked) p->blocks = ASKING_BLOCKS;
  p->lane_loop = long_loop;
  ptx_block(p, &p->k->body, (struct where){ .rest = "$done" });
  ptx_place(p, "$done");
}

void ptx_long_body(struct printer *p) { long_rows(p, p->plan->wide.each); }
void ptx_loose_body(struct printer *p) { long_rows(p, 1); }

void ptx_shifted_body(struct printer *p) {
  p->shift.by = ptx_own(p, OWN_LONG), p->shift.head = ptx_own(p, OWN_LONG), p->shift.end = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.s64 %s, 0", p->shift.by);
  long_rows(p, p->plan->wide.each);
}
