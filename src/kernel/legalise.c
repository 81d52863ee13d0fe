/* legalise.c -- a kernel in core instructions only: math functions expanded, calls inlined, in place.
 *
 * Blocks are taken apart and put together again in order. A value whose statement went away is replaced, from there on,
 * by the value that now holds it. A fn comes before those that call it, so what is inlined is already legal; the fns
 * that folds and prefixes name stay, legal too. */
#include <string.h>
#include "base/arena.h"
#include "kernel/kir.h"
#include "kernel/math.h"

struct legaliser {
  struct kir_builder b;
  int *to, room; /* by value: 1 + what replaces it; 0: nothing does (value 0 is the literal 0) */
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

static void legalise_block(struct legaliser *l, struct kir_block *block);

static bool is_call(const struct kir_stmt *s) { return s->kind == KIR_OP && s->op == KIR_CALL; }
static bool is_math(const struct kir_stmt *s) { return s->kind == KIR_OP && kir_rows[s->op].level == 'E'; }

static void legalise(struct legaliser *l, struct kir_stmt *s) {
  renew_operands(l, s);
  if (is_call(s)) inline_call(l, s);
  else if (is_math(s)) stand_in(l, s->out[0], math_expand(&l->b, (enum kir_op)s->op, s->in));
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

static bool needs_work(const struct kir_block *block) {
  for (const struct kir_stmt *s = block->first; s; s = s->next) {
    if (is_call(s) || is_math(s)) return true;
    if (s->body.first && needs_work(&s->body)) return true;
  }
  return false;
}

bool kir_legalise(struct kir_kernel *k) {
  struct legaliser l = { .b = { .k = k } };
  for (int i = 0; i < k->n_fns && !k->failed; i++) {
    if (needs_work(&k->fns[i].body)) legalise_block(&l, &k->fns[i].body);
    renew(&l, k->fns[i].n_result, k->fns[i].result);
  }
  if (!k->failed && needs_work(&k->body)) legalise_block(&l, &k->body);
  return !k->failed;
}
