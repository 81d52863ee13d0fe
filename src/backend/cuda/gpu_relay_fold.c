/* gpu_relay_fold.c -- adders, of rows that are handed on: see gpu_relay.h.
 *
 * A warp goes through a row as often as there are lane loops with folds, and computes what each folds from what is loaded. */
#include "backend/cuda/gpu_relay.h"
#include "backend/cuda/ptx_reduce.h"

enum { FEW = 12, SOME = 30 }; /* statements of an element that a lane folds 16 and 8 of at a time, else 4; f64 counts twice */

/* Where a lane is in a row: by read, where its element stands, or NULL; how many elements of this block are left from there on. */
struct folding { const char *at[KIR_RELAY_READS], *left; bool needs_index; };

/* Elements c, c + 32, .. of what a loop folds. */
static void fold_elements(struct printer *p, const struct relaying *r, const struct kir_stmt *loop, int n,
                          const struct folding *f, struct where w) {
  const struct kir_relay *x = r->x;
  if (f->needs_index) relay_number(p, r, 0, n, 32);
  for (int i = 0; i < x->n_loops; i++) {
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) {
      if ((s->kind != KIR_OP && s->kind != KIR_LOAD) || !r->needs[s->out[0]]) continue;
      if (s->kind == KIR_OP) { ptx_wide_statement(p, s, loop, 0, n, w); continue; }
      const char *at = f->at[kir_relay_read(x, s->buf)];
      p->narrow[s->out[0]] = p->k->bufs[s->buf].dtype;
      for (int e = 0; e < n; e++) {
        const char *element = ptx_textf(p, "%s+%d", at, 32 * e * relay_width(p, s->buf));
        p->reg = p->wide[e];
        ptx_load_value(p, ".shared", (weft_dtype)p->k->bufs[s->buf].dtype, s->out[0], element);
      }
      p->reg = p->wide[0];
    }
    if (x->loop[i] == loop) break;
  }
  for FOLDS(s, loop) for (int e = 0; e < n; e++) p->reg = p->wide[e], ptx_accumulate(p, s);
  p->reg = p->wide[0];
}

static void go_on(struct printer *p, const struct relaying *r, int n, const struct folding *f) {
  const char *index = p->wide[0][r->x->loop[0]->var];
  if (f->needs_index) ptx_line(p, "add.s64 %s, %s, %d", index, index, 32 * n);
  ptx_line(p, "sub.s32 %s, %s, %d", f->left, f->left, 32 * n);
  for (int i = 0; i < r->x->n_reads; i++)
    if (f->at[i]) ptx_line(p, "add.s64 %s, %s, %d", f->at[i], f->at[i], 32 * n * relay_width(p, r->x->read[i].buf));
}

/* n at a time, while there are as many. */
static void fold_together(struct printer *p, const struct relaying *r, const struct kir_stmt *loop, int n,
                          const struct folding *f, struct where w) {
  const char *is = ptx_pred(p), *again = ptx_label(p, "many"), *leave = ptx_label(p, "few");
  ptx_place_loop(p, again);
  ptx_line(p, "setp.le.s32 %s, %s, %d", is, f->left, 32 * (n - 1));
  ptx_line(p, "@%s bra %s", is, leave);
  fold_elements(p, r, loop, n, f, w);
  go_on(p, r, n, f);
  ptx_line(p, "bra %s", again);
  ptx_place(p, leave);
}

static int statements_of(struct printer *p, const struct relaying *r, const struct kir_stmt *loop) {
  int n = 0;
  for (int i = 0; i < r->x->n_loops; i++) {
    for (const struct kir_stmt *s = r->x->loop[i]->body.first; s; s = s->next)
      if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && r->needs[s->out[0]]) n += kir_width(ptx_dtype(p, s->out[0])) > 4 ? 2 : 1;
    if (r->x->loop[i] == loop) break;
  }
  return n;
}

static bool is_needed(const struct relaying *r, int buf) {
  for (int i = 0; i < r->x->n_loops; i++)
    for (const struct kir_stmt *s = r->x->loop[i]->body.first; s; s = s->next)
      if (s->kind == KIR_LOAD && s->buf == buf && r->needs[s->out[0]]) return true;
  return false;
}

/* At the beginning of a row. */
static struct folding begin_folding(struct printer *p, const struct relaying *r, const char *place) {
  struct folding f = { .left = ptx_word(p), .needs_index = relay_needs_index(r) };
  for (int i = 0; i < r->x->n_reads; i++) {
    int buf = r->x->read[i].buf;
    if (!is_needed(r, buf)) continue;
    f.at[i] = ptx_long(p);
    ptx_line(p, "mad.wide.u32 %s, %s, %d, %s", f.at[i], r->lane, relay_width(p, buf), relay_begin(p, r, i, place));
  }
  if (f.needs_index) ptx_line(p, "cvt.u64.u32 %s, %s", p->wide[0][r->x->loop[0]->var], r->lane);
  return f;
}

/* What the lanes of a warp have found is a block's; of a row of one block it is the row's. */
static void end_block(struct printer *p, const struct relaying *r, const struct kir_stmt *loop, const char *again,
                      const char *whole) {
  const char *is = ptx_pred(p);
  for FOLDS(s, loop) reduce_fold_tree(p, s);
  ptx_line(p, "setp.le.s64 %s, %s, %d", is, r->n, KIR_ROW_BLOCK);
  ptx_line(p, "@%s bra %s", is, whole);
  for FOLDS(s, loop) reduce_push_warp(p, s, r->lane);
  ptx_line(p, "bra %s", again);
}

/* Every lane has what the first one has found. */
static void tell_lanes(struct printer *p, const struct kir_stmt *loop) {
  for FOLDS(s, loop) {
    weft_dtype d = ptx_dtype(p, s->out[0]);
    const char *result = ptx_val(p, s->out[0]);
    ptx_mov(p, d, result, reduce_shuffle(p, d, "idx", result, "0"));
  }
}

/* All folds of a lane loop: blocks of 4096 elements, which the warp counts. */
static void fold_row(struct printer *p, struct relaying *r, const struct kir_stmt *loop, const char *place, struct where w) {
  const char *rest = ptx_word(p), *is = ptx_pred(p), *again = ptx_label(p, "block"), *leave = ptx_label(p, "blocks");
  const char *whole = ptx_label(p, "whole"), *done = ptx_label(p, "folded");
  kir_relay_needs(r->x, loop, r->needs);
  int n = statements_of(p, r, loop);
  struct folding f = begin_folding(p, r, place);
  for FOLDS(s, loop) {
    struct ptx_counter *c = reduce_counter_of(p, s);
    reduce_fresh(p, s, c->inside);
    ptx_line(p, "mov.u32 %s, 0", c->count = ptx_word(p));
  }
  ptx_line(p, "cvt.u32.u64 %s, %s", rest, r->n);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.le.s32 %s, %s, 0", is, rest);
  ptx_line(p, "@%s bra %s", is, leave);
  ptx_line(p, "min.s32 %s, %s, %d", f.left, rest, KIR_ROW_BLOCK);
  ptx_line(p, "sub.s32 %s, %s, %s", f.left, f.left, r->lane);
  ptx_line(p, "sub.s32 %s, %s, %d", rest, rest, KIR_ROW_BLOCK);
  for FOLDS(s, loop) ptx_start(p, s);
  fold_together(p, r, loop, n <= FEW ? 16 : n <= SOME ? 8 : 4, &f, w);
  fold_together(p, r, loop, 1, &f, w);
  end_block(p, r, loop, again, whole);
  ptx_place(p, leave);
  for FOLDS(s, loop) reduce_total_warp(p, s);
  ptx_line(p, "bra %s", done);
  ptx_place(p, whole);
  tell_lanes(p, loop);
  ptx_place(p, done);
}

/* Once for all lanes; what is stored may stand where they have just loaded something. */
static void store_uniform(struct printer *p, const struct kir_stmt *s, const char *is_first) {
  ptx_line(p, "bar.warp.sync -1");
  p->guard = is_first;
  ptx_store_value(p, ptx_space(p, s->buf), (weft_dtype)p->k->bufs[s->buf].dtype, ptx_address(p, s->buf, s->at), s->in[0]);
  p->guard = NULL;
}

static void leave_slots(struct printer *p, const struct relaying *r, const char *at, const char *is_first) {
  p->guard = is_first;
  for (int i = 0; i < r->x->n_slots; i++) {
    int v = r->x->slot[i];
    weft_dtype d = ptx_dtype(p, v);
    if (!r->is_known[v]) ptx_store(p, ".shared", d, ptx_textf(p, "%s+%d", at, 8 * i), ptx_in_register(p, d, v));
  }
  p->guard = NULL;
}

/* All that is to be known of a row before it is written. */
static void fold_all(struct printer *p, struct relaying *r, const char *place, const char *is_first, struct where w) {
  for (const struct kir_stmt *s = r->x->rows->body.first; s; s = s->next) {
    if (s->kind == KIR_STORE) store_uniform(p, s, is_first);
    else if (s->kind != KIR_LANE && !relay_is_known(r, s)) ptx_statements(p, s, s->next, w);
    else if (s->kind == KIR_LANE && ptx_has_fold(s)) fold_row(p, r, s, place, w);
  }
}

/* Adder `own` has the place of this number, and every row that comes there. Its first lane asks for the row, as soon as all writers
 * and the other lanes of this warp have left the one before. */
void relay_adders(struct printer *p, struct relaying *r, const char *own, struct where w) {
  const char *is_first = ptx_pred(p), *is_over = ptx_pred(p), *i = ptx_word(p), *turn = ptx_word(p), *wide = ptx_long(p);
  const char *here = relay_barrier(p, r, own, RELAY_HERE), *folded = relay_barrier(p, r, own, RELAY_FOLDED),
             *is_free = relay_barrier(p, r, own, RELAY_FREE), *slot = relay_slot(p, r, own), *place = ptx_long(p);
  const char *again = ptx_label(p, "row"), *asked = ptx_label(p, "asked"), *free = ptx_label(p, "free");
  ptx_line(p, "setp.eq.u32 %s, %s, 0", is_first, r->lane);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide, own);
  ptx_line(p, "mad.lo.s64 %s, %s, %s, %s", place, wide, r->place_bytes, r->places);
  ptx_line(p, "mov.u32 %s, %s", i, own);
  ptx_line(p, "mov.u32 %s, 1", turn);
  ptx_place_loop(p, again);
  ptx_line(p, "setp.ge.u32 %s, %s, %s", is_over, i, r->count);
  ptx_line(p, "@%s bra %s", is_over, w.rest);
  relay_set_row(p, r, i);
  ptx_line(p, "bar.warp.sync -1");
  ptx_line(p, "@!%s bra %s", is_first, asked);
  ptx_line(p, "setp.eq.u32 %s, %s, %s", is_over, i, own);
  ptx_line(p, "@%s bra %s", is_over, free);
  relay_await(p, is_free, turn);
  ptx_place(p, free);
  relay_ask(p, r, true, place, here);
  ptx_place(p, asked);
  ptx_line(p, "xor.b32 %s, %s, 1", turn, turn);
  relay_await(p, here, turn);
  fold_all(p, r, place, is_first, w);
  leave_slots(p, r, slot, is_first);
  relay_arrive(p, folded, is_first);
  ptx_line(p, "add.u32 %s, %s, %s", i, i, r->n_places);
  ptx_line(p, "bra %s", again);
}
