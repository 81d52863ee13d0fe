/* relay.c -- finds kernels whose rows can be handed on, and what of a row folds and stores need. It does not say whether that is
 * faster: who has the processors does (struct device, backend/backend.h). */
#include "kernel/relay.h"
#include <string.h>
#include "base/arena.h"

static bool is_only(struct kir_lin l, int v) {
  return l.n == 1 && l.term[0].coef == 1 && l.term[0].n == 1 && l.term[0].val[0] == v;
}

/* An instruction that a back end has as such: others may become loops, or conditions that lanes do not share. */
static bool is_core(const struct kir_stmt *s) {
  return s->kind == KIR_OP && s->op != KIR_CALL && s->op != KIR_OWNS && (s->op >= KIR_CAST || kir_rows[s->op].level == 'C');
}

int kir_relay_read(const struct kir_relay *x, int buf) {
  for (int i = 0; i < x->n_reads; i++) if (x->read[i].buf == buf) return i;
  return -1;
}

/* x[r,c], x[c,r] or w[c] of an input. */
static bool note_read(struct kir_relay *x, const struct kir_stmt *s, int lane) {
  struct kir_relayed own = { .buf = s->buf, .axis = -1 };
  int i = kir_relay_read(x, s->buf);
  if (x->k->bufs[s->buf].kind != KIR_IN || s->n_at > 2) return false;
  for (int d = 0; d < s->n_at; d++) {
    if (is_only(s->at[d], lane) && own.axis < 0) own.axis = d;
    else if (is_only(s->at[d], x->rows->var) && !own.is_row) own.is_row = true;
    else return false;
  }
  if (own.axis < 0 || (i < 0 && x->n_reads == KIR_RELAY_READS)) return false;
  if (i < 0) x->read[x->n_reads++] = own;
  return i < 0 || (x->read[i].axis == own.axis && x->read[i].is_row == own.is_row);
}

/* Sums and products of floats, whose order can be seen. */
static bool is_private(const struct kir_relay *x, int buf, int op) {
  if ((op != KIR_ADD && op != KIR_MUL) || !kir_is_float(kir_register_of((weft_dtype)x->k->bufs[buf].dtype))) return false;
  for (int i = 0; i < x->blocks->n_private; i++) if (x->blocks->private[i].buf == buf) return x->blocks->private[i].op == op;
  return false;
}

/* y[r,c] = v, or sums[c] add= v, once a row. */
static bool note_store(struct kir_relay *x, const struct kir_stmt *s, int lane) {
  bool has_row = false, has_lane = false;
  for (int d = 0; d < s->n_at; d++) {
    if (is_only(s->at[d], lane) && !has_lane) has_lane = true;
    else if (is_only(s->at[d], x->rows->var) && !has_row) has_row = true;
    else return false;
  }
  if (!has_lane || x->k->bufs[s->buf].kind != KIR_OUT) return false;
  if (s->op == KIR_SET) return has_row;
  if (has_row || !is_private(x, s->buf, s->op) || x->n_sums == KIR_RELAY_SUMS) return false;
  for (int i = 0; i < x->n_sums; i++) if (x->sum[i]->buf == s->buf) return false;
  x->sum[x->n_sums++] = s;
  return true;
}

static bool lane_loop(struct kir_relay *x, const struct kir_stmt *loop) {
  if (loop->extent != KIR_N || x->n_loops == KIR_RELAY_LOOPS) return false;
  if (x->n_loops && !kir_lin_equal(x->loop[0]->at[0], loop->at[0])) return false;
  x->loop[x->n_loops++] = loop;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) {
    if (s->kind == KIR_LOAD ? !note_read(x, s, loop->var) : s->kind == KIR_STORE ? !note_store(x, s, loop->var)
        : s->kind == KIR_FOLD ? s->n_out != 1 || s->op == KIR_CALL || s->order == KIR_COL : s->kind != KIR_KEEP && !is_core(s))
      return false;
  }
  return true;
}

/* What stands between lane loops, or in a condition there. */
static bool is_uniform(const struct kir_relay *x, const struct kir_stmt *s) {
  if (s->kind == KIR_LOAD) return x->k->bufs[s->buf].kind == KIR_IN;
  for (const struct kir_stmt *in = s->body.first; in; in = in->next) if (!is_uniform(x, in)) return false;
  return s->kind == KIR_OP || s->kind == KIR_YIELD || s->kind == KIR_IF;
}

static bool statement(struct kir_relay *x, const struct kir_stmt *s) {
  if (s->kind == KIR_LANE) return lane_loop(x, s);
  return s->kind == KIR_STORE ? s->op == KIR_SET && x->k->bufs[s->buf].kind == KIR_OUT : is_uniform(x, s);
}

/* The loops around; false: it has others. */
static bool around(struct kir_relay *x) {
  const struct kir_stmt *par = x->k->body.last;
  if (!par || par->kind != KIR_PAR || par->extent != KIR_BLOCKS || !par->n_private) return false;
  for (const struct kir_stmt *s = x->k->body.first; s != par; s = s->next) if (s->kind != KIR_OP) return false;
  const struct kir_stmt *rows = par->body.first;
  if (!rows || rows->next || rows->kind != KIR_SERIAL || rows->extent != KIR_BLOCK || rows->block_of != par->var) return false;
  x->blocks = par, x->rows = rows;
  return true;
}

static bool has_fold(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_FOLD) return true;
  return false;
}

bool kir_relay_stores(const struct kir_stmt *loop) {
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) if (s->kind == KIR_STORE) return true;
  return false;
}

static bool note_slots(struct kir_relay *x, int n, const int out[], const bool needs[]) {
  for (int i = 0; i < n; i++) {
    if (!needs[out[i]]) continue;
    if (x->n_slots == KIR_RELAY_SLOTS) return false;
    x->slot[x->n_slots++] = out[i];
  }
  return true;
}

/* Values that conditions yield, results of folds, and others that stand between lane loops. */
static bool find_slots(struct kir_relay *x, const struct kir_block *b, const bool needs[]) {
  for (const struct kir_stmt *s = b->first; s; s = s->next) {
    if (s->kind == KIR_LANE) {
      for (const struct kir_stmt *f = s->body.first; f; f = f->next)
        if (f->kind == KIR_FOLD && !note_slots(x, f->n_out, f->out, needs)) return false;
    } else if (!note_slots(x, s->n_out, s->out, needs) || !find_slots(x, &s->body, needs)) {
      return false;
    }
  }
  return true;
}

bool kir_find_relay(const struct kir_kernel *k, struct kir_relay *x) {
  bool folds = false, stores = false, *needs;
  *x = (struct kir_relay){ .k = k };
  if (k->attention || !around(x)) return false;
  for (const struct kir_stmt *s = x->rows->body.first; s; s = s->next) if (!statement(x, s)) return false;
  for (int i = 0; i < x->n_loops; i++) folds |= has_fold(x->loop[i]), stores |= kir_relay_stores(x->loop[i]);
  if (!folds || !stores || x->n_sums != x->blocks->n_private) return false;
  if (!(needs = arena_take(k->arena, (size_t)k->n_vals))) return false;
  kir_relay_needs(x, NULL, needs);
  return find_slots(x, &x->rows->body, needs);
}

/* needs what s reads; false: that was known. */
static bool need(const struct kir_stmt *s, bool needs[]) {
  bool any = false;
  for (int i = 0; i < s->n_in; i++) any |= !needs[s->in[i]], needs[s->in[i]] = true;
  return any;
}

void kir_relay_needs(const struct kir_relay *x, const struct kir_stmt *loop, bool needs[]) {
  int last = x->n_loops - 1;
  bool more = true;
  memset(needs, 0, (size_t)x->k->n_vals);
  while (loop && x->loop[last] != loop) last--;
  for (int i = 0; i <= last; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next)
      if (loop ? s->kind == KIR_FOLD && i == last : s->kind == KIR_STORE) need(s, needs);
  while (more) {
    more = false;
    for (int i = 0; i <= last; i++)
      for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next)
        if (s->kind == KIR_OP && needs[s->out[0]]) more |= need(s, needs);
  }
}

static int weight(const struct kir_stmt *s) {
  return 1 + (s->kind == KIR_OP && s->op == KIR_CAST && kir_width((weft_dtype)s->dtype) < 4);
}

static int work_of(const struct kir_relay *x, const bool needs[]) {
  int n = 0;
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next)
      if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && needs[s->out[0]]) n += weight(s);
  return n;
}

void kir_relay_work(const struct kir_relay *x, bool needs[], int *to_fold, int *to_store) {
  *to_fold = 0;
  for (int i = 0; i < x->n_loops; i++) {
    int folds = 0;
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) folds += s->kind == KIR_FOLD;
    if (!folds) continue;
    kir_relay_needs(x, x->loop[i], needs);
    *to_fold += folds + work_of(x, needs);
  }
  kir_relay_needs(x, NULL, needs);
  *to_store = work_of(x, needs);
  for (int i = 0; i < x->n_loops; i++)
    for (const struct kir_stmt *s = x->loop[i]->body.first; s; s = s->next) *to_store += s->kind == KIR_STORE;
}
