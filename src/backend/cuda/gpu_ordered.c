/* gpu_ordered.c -- folds of rows that have an order, as docs/kir.md section 6 says, where threads have the elements of a row
 * otherwise.
 *
 * Rows in registers leave what is folded in shared memory, where a warp adds it in order (ptx_add_left). Long rows have no room
 * for that: there what is folded is computed once more by warps that go through the row in order, from what is kept. */
#include "backend/cuda/gpu_wide.h"
#include <string.h>

/* If one fold of a loop has an order, the values of all of them are left in shared memory: how many. */
int ptx_ordered_folds(const struct kir_kernel *k, const struct kir_stmt *loop) {
  int n = 0;
  bool has_order = false;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_FOLD) n++, has_order |= ptx_is_ordered(k, s);
  return has_order ? n : 0;
}

/* The same of that loop of a block which has most of them. */
int ptx_most_folds(const struct kir_kernel *k, const struct kir_block *b) {
  int n = 0;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    int own = s->kind == KIR_LANE ? ptx_ordered_folds(k, s) : ptx_most_folds(k, &s->body);
    n = own > n ? own : n;
  }
  return n;
}

int ptx_fold_bytes(const struct kir_kernel *k, const struct kir_block *b) {
  int bytes = 4;
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    int own = s->kind == KIR_FOLD ? kir_width((weft_dtype)k->vals[s->in[0]].dtype) : ptx_fold_bytes(k, &s->body);
    bytes = own > bytes ? own : bytes;
  }
  return bytes;
}

static bool keeps_what_it_folds(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next)
    if (s->kind == KIR_FOLD && !survey_keeps(loop, s->in[0])) return false;
  return true;
}

bool ptx_folds_again(const struct kir_kernel *k, const struct kir_stmt *loop) {
  return ptx_ordered_folds(k, loop) > 0 && !keeps_what_it_folds(loop);
}

/* By value: whether folding once more needs it. Folds need what they are given, and that needs what it is made of, down to values
 * that are kept and those that are loaded. False: the loop is none that can be gone through backwards so. */
static bool needs_of_folds(const struct kir_kernel *k, const struct kir_stmt *loop, bool needs[]) {
  enum { MOST = PTX_MOST_ROWS / PTX_ROW_EACH };
  const struct kir_stmt *all[MOST + 1];
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (n == MOST || s->kind == KIR_IF) return false;
    all[n++] = s;
  }
  memset(needs, 0, (size_t)k->n_vals * sizeof *needs);
  while (n--) {
    bool is = all[n]->kind == KIR_FOLD;
    if (all[n]->kind == KIR_OP) is = needs[all[n]->out[0]] && !survey_keeps(loop, all[n]->out[0]);
    for (int i = 0; is && i < all[n]->n_in; i++) needs[all[n]->in[i]] = true;
  }
  return true;
}

/* The loop stores, and what is folded once more behind it is loaded once more: a plan may have both stand in one place, as the text
 * reads an element before it is stored. */
static bool reads_behind_stores(const struct kir_stmt *loop, const bool needs[]) {
  bool stores = false, loads = false;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    stores |= s->kind == KIR_STORE && s->op == KIR_SET;
    loads |= s->kind == KIR_LOAD && needs[s->out[0]] && !survey_keeps(loop, s->out[0]);
  }
  return stores && loads;
}

/* How many statements fold an element of a loop once more, of that loop which has most; 0: none folds again. */
int ptx_most_again(const struct kir_kernel *k, const struct ptx_plan *plan, const struct kir_block *b) {
  int most_of_all = 0;
  bool *needs = arena_take(plan->arena, (size_t)(k->n_vals + 1) * sizeof *needs);
  for (const struct kir_stmt *s = b->first; s && needs; s = s->next) {
    int n = s->kind == KIR_LANE ? 0 : ptx_most_again(k, plan, &s->body);
    bool is_again = s->kind == KIR_LANE && ptx_folds_again(k, s) && needs_of_folds(k, s, needs);
    for (const struct kir_stmt *x = s->body.first; x && is_again; x = x->next)
      n += x->kind == KIR_FOLD || (x->kind == KIR_OP && needs[x->out[0]] && !survey_keeps(s, x->out[0]));
    most_of_all = n > most_of_all ? n : most_of_all;
  }
  return most_of_all;
}

/* Folding once more reads rows that earlier loops have kept: the loop must not keep another value in the memory of one of them. */
bool ptx_can_fold_again(const struct kir_kernel *k, const struct ptx_plan *plan, const struct kir_stmt *loop) {
  bool *needs = arena_take(plan->arena, (size_t)(k->n_vals + 1) * sizeof *needs);
  if (!needs || !needs_of_folds(k, loop, needs) || reads_behind_stores(loop, needs)) return false;
  for (int r = 0; r < plan->n_rows; r++)
    for (int own = 0; own < plan->n_rows; own++) {
      const struct ptx_row *x = &plan->rows[r], *y = &plan->rows[own];
      if (x->kind != PTX_KEEP || y->kind != PTX_KEEP || !needs[x->of] || survey_keeps(loop, x->of)) continue;
      if (survey_keeps(loop, y->of) && y->shares == (x->shares >= 0 ? x->shares : r)) return false;
    }
  return true;
}

/* Eight neighbours of 4 bytes are left as two pieces of 16. In every other 128 bytes these stand the other way round: else threads
 * that are four apart would meet in a bank. */
bool ptx_is_crossed(const struct printer *p, int width) { return p->each == 8 && width == 4; }

/* What a fold is given of elements e .. e + each - 1 goes to shared memory, where fold number `slot` of the loop has n places. */
void ptx_leave_values(struct printer *p, const struct kir_stmt *loop, const struct kir_stmt *fold, int slot, const char *n,
                      int e, int each) {
  weft_dtype d = (weft_dtype)p->k->vals[fold->in[0]].dtype;
  int width = kir_width(d);
  const char *r[PTX_WIDE], *at = ptx_own(p, OWN_LONG);
  ptx_line(p, "mov.u64 %s, %s", at, p->stream.n ? p->stream.left : "folds");
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, n, p->plan->wide.fold_bytes * slot, at);
  ptx_line(p, "mad.lo.s64 %s, %s, %d, %s", at, p->wide[e][loop->var], width, at);
  for (int k = 0; k < each; k++) {
    p->reg = p->wide[e + k], r[k] = ptx_in_register(p, d, fold->in[0]);
    if (d == WEFT_BOOL) r[k] = ptx_small_pattern(p, d, fold->in[0], r[k]); /* a predicate cannot be stored */
  }
  p->reg = p->wide[0];
  if (!ptx_is_crossed(p, width)) { ptx_access_pieces(p, false, ".shared", at, each, width, r); return; }
  const char *by = ptx_own(p, OWN_LONG), *other = ptx_own(p, OWN_LONG);
  ptx_line(p, "shr.u64 %s, %s, 1", by, p->wide[e][loop->var]);
  ptx_line(p, "and.b64 %s, %s, 16", by, by);
  ptx_line(p, "sub.s64 %s, %s, %s", other, at, by);
  ptx_line(p, "add.s64 %s, %s, 16", other, other);
  ptx_line(p, "add.s64 %s, %s, %s", at, at, by);
  ptx_access_pieces(p, false, ".shared", at, 4, width, r);
  ptx_access_pieces(p, false, ".shared", other, 4, width, r + 4);
}

enum { AGAIN = 8 }; /* elements of a lane at a time */

/* One element of what is folded once more, at `var`: kept values come from their rows, all else is computed as in the loop. */
static void fold_one(struct printer *p, const struct kir_stmt *loop, const bool needs[], struct where w) {
  for (int r = 0; r < p->plan->n_rows; r++) {
    const struct ptx_row *x = &p->plan->rows[r];
    if (x->kind != PTX_KEEP || !needs[x->of] || !(survey_keeps(loop, x->of) || survey_uses(&loop->body, x->of))) continue;
    const char *at = ptx_own(p, OWN_LONG);
    ptx_line(p, "mad.lo.s64 %s, %s, %d, $row%d", at, ptx_val(p, loop->var), x->width, r);
    ptx_load(p, ptx_row_space(p), (weft_dtype)p->k->vals[x->of].dtype, ptx_val(p, x->of), at);
  }
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_FOLD) ptx_accumulate(p, s);
    else if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && needs[s->out[0]] && !survey_keeps(loop, s->out[0]))
      ptx_statements(p, s, s->next, w);
  }
  ptx_line(p, "add.s64 %s, %s, 32", ptx_val(p, loop->var), ptx_val(p, loop->var));
}

/* The folds of a loop, behind it and a barrier: a warp takes blocks of 4096 elements, lane l has accumulator l. */
void ptx_fold_again(struct printer *p, const struct kir_stmt *loop, const char *n, struct where w) {
  bool *needs = arena_take(p->arena, (size_t)(p->k->n_vals + 1) * sizeof *needs);
  if (!needs || !needs_of_folds(p->k, loop, needs)) { ptx_refuse(p, ""); return; }
  struct ptx_blocks b = ptx_blocks_open(p, loop, "0", n);
  const char *var = ptx_val(p, loop->var), *is = ptx_own(p, OWN_PRED), *far = ptx_own(p, OWN_LONG), *many = ptx_label(p, "many"),
             *few = ptx_label(p, "few"), *done = ptx_label(p, "done");
  ptx_line(p, "cvt.u64.u32 %s, %s", far, b.lane);
  ptx_line(p, "add.s64 %s, %s, %s", var, b.from, far);
  ptx_place_loop(p, many);
  ptx_line(p, "add.s64 %s, %s, %d", far, var, 32 * (AGAIN - 1));
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, far, b.to);
  ptx_line(p, "@%s bra %s", is, few);
  for (int i = 0; i < AGAIN; i++) fold_one(p, loop, needs, w);
  ptx_line(p, "bra %s", many);
  ptx_place_loop(p, few);
  ptx_line(p, "setp.ge.s64 %s, %s, %s", is, var, b.to);
  ptx_line(p, "@%s bra %s", is, done);
  fold_one(p, loop, needs, w);
  ptx_line(p, "bra %s", few);
  ptx_place(p, done);
  ptx_blocks_close(p, loop, &b);
  ptx_blocks_meet(p, loop, &b);
}
