/* legalise.c -- a kernel in core instructions only: math functions expanded, calls inlined, floats of 8 bits made u8, in place.
 *
 * Blocks are taken apart and put together again in order. A value whose statement went away is replaced, from there on,
 * by the value that now holds it. A fn comes before those that call it, so what is inlined is already legal; the fns
 * that folds and prefixes name stay, legal too. */
#include <string.h>
#include "base/arena.h"
#include "kernel/eighth.h"
#include "kernel/kir.h"
#include "kernel/math.h"

/* The pattern of a value that is a float of 8 bits, seen in the block where it was made and in those inside. */
struct eighth_seen { int value, pattern; weft_dtype dtype; const struct kir_block *block; };

struct legaliser {
  struct kir_builder b;
  int *to, room; /* by value: 1 + what replaces it; 0: nothing does (value 0 is the literal 0) */
  struct eighth_seen recent[8]; /* stores come soon after what they store */
  int n_recent;
};

static int now(const struct legaliser *l, int v) { return v < l->room && l->to[v] ? l->to[v] - 1 : v; }

static void replace(struct legaliser *l, int v, int by) {
  struct kir_kernel *k = l->b.k;
  if (v >= l->room) {
    int room = 2 * k->n_vals;
    int *to = arena_grow(k->arena, l->to, (size_t)l->room * sizeof *to, (size_t)room * sizeof *to);
    if (!to) {
      k->failed = true;
      return;
    }
    l->to = to;
    l->room = room;
  }
  l->to[v] = by + 1;
}

/* ---- Operands ------------------------------------------------------------------------------------------------------- */

static void renew(const struct legaliser *l, int n, int v[]) {
  for (int i = 0; i < n; i++) v[i] = now(l, v[i]);
}

static bool is_stale(const struct legaliser *l, const struct kir_lin *x) {
  for (int i = 0; i < x->n; i++)
    for (int j = 0; j < x->term[i].n; j++)
      if (now(l, x->term[i].val[j]) != x->term[i].val[j]) return true;
  return false;
}

static struct kir_lin renewed(const struct legaliser *l, struct kir_lin x) {
  struct kir_kernel *k = l->b.k;
  struct kir_lin sum = { 0 };
  for (int i = 0; i < x.n; i++) {
    struct kir_lin t = kir_lin_const(k, x.term[i].coef);
    for (int j = 0; j < x.term[i].n; j++) t = kir_lin_mul(k, t, kir_lin_val(k, now(l, x.term[i].val[j])));
    sum = kir_lin_add(k, sum, t);
  }
  return sum;
}

static void renew_operands(const struct legaliser *l, struct kir_stmt *s) {
  renew(l, s->n_in, s->in);
  renew(l, s->n_from, s->from);
  for (int i = 0; i < s->n_at; i++)
    if (is_stale(l, &s->at[i])) s->at[i] = renewed(l, s->at[i]);
}

/* ---- Statements ----------------------------------------------------------------------------------------------------- */

static void append(struct legaliser *l, struct kir_stmt *s) {
  struct kir_block *block = l->b.open[l->b.depth - 1];
  *(block->last ? &block->last->next : &block->first) = s;
  block->last = s;
}

/* v is now what old was; it takes over the name if it has none of its own. */
static void stand_in(struct legaliser *l, int old, int v) {
  struct kir_val *vals = l->b.k->vals;
  replace(l, old, v);
  if (vals[v].kind == KIR_RESULT && !vals[v].name) vals[v].name = vals[old].name;
}

static struct kir_stmt *copy_of(struct legaliser *l, const struct kir_stmt *s) {
  struct kir_kernel *k = l->b.k;
  size_t n = (size_t)(s->n_out + s->n_in);
  struct kir_stmt *c = arena_take(k->arena, sizeof *c + (size_t)s->n_at * sizeof *c->at + n * sizeof(int));
  if (!c) return k->failed = true, NULL;
  *c = *s;
  c->next = NULL;
  c->at = (struct kir_lin *)(c + 1);
  c->out = (int *)(c->at + s->n_at);
  c->in = c->out + s->n_out;
  if (s->n_at) memcpy(c->at, s->at, (size_t)s->n_at * sizeof *c->at);
  memcpy(c->out, s->out, (size_t)s->n_out * sizeof(int));
  memcpy(c->in, s->in, (size_t)s->n_in * sizeof(int));
  return c;
}

static void inline_call(struct legaliser *l, const struct kir_stmt *call) {
  const struct kir_fn *f = &l->b.k->fns[call->fn];
  for (int i = 0; i < f->n_param; i++) replace(l, f->param[i], call->in[i]);
  for (const struct kir_stmt *s = f->body.first; s && !l->b.k->failed; s = s->next) {
    struct kir_stmt *c = copy_of(l, s);
    if (!c) return;
    renew_operands(l, c);
    for (int i = 0; i < c->n_out; i++) {
      c->out[i] = kir_temp(l->b.k, (weft_dtype)l->b.k->vals[s->out[i]].dtype);
      replace(l, s->out[i], c->out[i]);
    }
    append(l, c);
  }
  for (int i = 0; i < f->n_result; i++) stand_in(l, call->out[i], now(l, f->result[i]));
}

/* ---- Floats of 8 bits ------------------------------------------------------------------------------------------------ */

static bool is_f8_cast(const struct kir_stmt *s) {
  return s->kind == KIR_OP && s->op == KIR_CAST && kir_is_f8((weft_dtype)s->dtype);
}
static bool is_f8_access(const struct kir_kernel *k, const struct kir_stmt *s) {
  return (s->kind == KIR_LOAD || s->kind == KIR_STORE) && kir_is_f8((weft_dtype)k->bufs[s->buf].dtype);
}

static void remember(struct legaliser *l, weft_dtype d, int value, int pattern) {
  l->recent[l->n_recent++ % 8] = (struct eighth_seen){ value, pattern, d, l->b.open[l->b.depth - 1] };
}

static int pattern_of(struct legaliser *l, weft_dtype d, int value) {
  for (int i = 0; i < 8 && i < l->n_recent; i++) {
    const struct eighth_seen *r = &l->recent[i];
    if (r->value != value || r->dtype != d) continue;
    for (int at = 0; at < l->b.depth; at++) if (l->b.open[at] == r->block) return r->pattern;
  }
  return eighth_pattern(&l->b, d, value);
}

static void legalise_f8(struct legaliser *l, struct kir_stmt *s) {
  weft_dtype d = (weft_dtype)(s->kind == KIR_OP ? s->dtype : l->b.k->bufs[s->buf].dtype);
  int pattern, value, old = s->kind == KIR_STORE ? 0 : s->out[0];
  if (s->kind == KIR_STORE) {
    s->in[0] = pattern_of(l, d, s->in[0]);
    append(l, s);
    return;
  }
  if (s->kind == KIR_LOAD) {
    s->out[0] = pattern = kir_temp(l->b.k, WEFT_I32);
    append(l, s);
    value = eighth_value(&l->b, d, pattern);
  } else {
    value = eighth_rounded(&l->b, d, s->in[0], &pattern);
  }
  stand_in(l, old, value);
  remember(l, d, value, pattern);
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------------- */

static void legalise_block(struct legaliser *l, struct kir_block *block);

static bool is_call(const struct kir_stmt *s) { return s->kind == KIR_OP && s->op == KIR_CALL; }
static bool is_math(const struct kir_stmt *s) { return s->kind == KIR_OP && kir_rows[s->op].level == 'E'; }

static void legalise(struct legaliser *l, struct kir_stmt *s) {
  renew_operands(l, s);
  if (is_call(s)) inline_call(l, s);
  else if (is_math(s)) stand_in(l, s->out[0], math_expand(&l->b, (enum kir_op)s->op, s->in));
  else if (is_f8_cast(s) || is_f8_access(l->b.k, s)) legalise_f8(l, s);
  else append(l, s);
  if (s->body.first) legalise_block(l, &s->body);
}

static void legalise_block(struct legaliser *l, struct kir_block *block) {
  struct kir_stmt *s = block->first, *next;
  *block = (struct kir_block){ 0 };
  l->b.open[l->b.depth++] = block;
  for (; s && !l->b.k->failed; s = next) {
    next = s->next;
    s->next = NULL;
    legalise(l, s);
  }
  l->b.depth--;
}

static bool needs_work(const struct kir_kernel *k, const struct kir_block *block) {
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    if (is_call(s) || is_math(s) || is_f8_cast(s) || is_f8_access(k, s)) return true;
    if (s->body.first && needs_work(k, &s->body)) return true;
  }
  return false;
}

bool kir_legalise(struct kir_kernel *k) {
  struct legaliser l = { .b = { .k = k } };
  for (int i = 0; i < k->n_fns && !k->failed; i++) {
    if (needs_work(k, &k->fns[i].body)) legalise_block(&l, &k->fns[i].body);
    renew(&l, k->fns[i].n_result, k->fns[i].result);
  }
  if (!k->failed && needs_work(k, &k->body)) legalise_block(&l, &k->body);
  for (int i = 0; i < k->n_bufs; i++) if (kir_is_f8((weft_dtype)k->bufs[i].dtype)) k->bufs[i].dtype = WEFT_U8;
  return !k->failed;
}
