/* address.c -- from subscripts to terms: which are known at launch, which move with the lanes, which are gathered, and
 * which can be summed before a loop instead of in it. */
#include "backend/vm/translate.h"

enum term_class { TERM_BASE, TERM_OWN, TERM_LANE, TERM_GATHER, TERM_UNKNOWN };
static enum term_class classify(const struct translator *t, const struct kir_term *term) {
  enum term_class c = TERM_BASE;
  for (int i = 0; i < term->n; i++) {
    int v = term->val[i];
    if (v == t->lane_var && t->lane >= 0) c = TERM_LANE;
    else if (translator_find(t, v) < 0) return TERM_UNKNOWN;
    else if (!translator_is_one(t, translator_find(t, v))) return TERM_GATHER;
    else if (!translator_is_fixed(t, v) && c == TERM_BASE) c = TERM_OWN;
  }
  return c;
}

static void term_add(struct translator *t, const struct kir_term *from, int buf, int axis) {
  int i = ADD(t, terms);
  struct vm_term term = {.coef = from->coef, .buf = buf, .axis = (int8_t)axis, .tile = -1};
  for (int pass = 0, n = 0; pass < 2; pass++)
    for (int f = 0; f < from->n; f++) {
      int v = from->val[f];
      if (v == t->lane_var && t->lane >= 0) continue;
      if (!translator_is_one(t, translator_use(t, v))) { term.tile = translator_use(t, v); continue; }
      if (translator_is_fixed(t, v) != (pass == 0)) continue;
      term.reg[n++] = translator_use(t, v);
      if (pass == 0) term.n_fixed++; else term.n_moving++;
    }
  t->c->terms[i] = term;
}

struct vm_lin address_extent(struct translator *t, struct kir_lin lin) {
  struct vm_lin r = {t->c->n_terms, lin.n};
  for (int i = 0; i < lin.n; i++) term_add(t, &lin.term[i], -1, -1);
  return r;
}

/* The terms of one class of a statement's subscripts, but those already summed. */
static struct vm_lin access_terms(struct translator *t, const struct kir_stmt *s, enum term_class want, uint64_t done) {
  struct vm_lin r = {t->c->n_terms, 0};
  for (int a = 0, bit = 0; a < s->n_at; a++)
    for (int i = 0; i < s->at[a].n; i++, bit++) {
      if (bit < 64 && done >> bit & 1) continue;
      if (classify(t, &s->at[a].term[i]) == want) term_add(t, &s->at[a].term[i], s->buf, a), r.n++;
    }
  return r;
}

void address_place(struct translator *t, const struct kir_stmt *check, struct vm_step *step) {
  for (int of_lane = 0; of_lane < 2; of_lane++) {
    struct vm_lin *l = of_lane ? &step->lane : &step->lin;
    l->first = t->c->n_terms;
    for (int i = 0; i < check->at[0].n; i++) {
      const struct kir_term *x = &check->at[0].term[i];
      enum term_class c = classify(t, x);
      if (c == TERM_GATHER || c == TERM_UNKNOWN) translator_refuse(t, "a place of a check is not of axes and sizes");
      else if ((c == TERM_LANE) == of_lane) term_add(t, x, -1, -1), l->n++;
    }
  }
}

int address_access(struct translator *t, const struct kir_stmt *s, struct pending pending) {
  int i = ADD(t, access);
  struct vm_access a = {.buf = s->buf, .addr = pending.addr, .sum = -1};
  a.reg_dtype = (uint8_t)kir_register_of(t->k->bufs[s->buf].dtype);
  a.base = access_terms(t, s, TERM_BASE, pending.done);
  a.own = access_terms(t, s, TERM_OWN, pending.done);
  a.lane = access_terms(t, s, TERM_LANE, pending.done);
  a.gather = access_terms(t, s, TERM_GATHER, pending.done);
  a.is_lane = a.lane.n || a.gather.n;
  if (a.gather.n > 1) a.sum = translator_reg(t, VM_OWN, 8);
  t->c->access[i] = a;
  return i;
}

void address_hoist(struct translator *t, struct kir_block b, int *at, int depth) {
  if (depth > VM_DEPTH) return;
  for (const struct kir_stmt *s = b.first; s; s = s->next) {
    address_hoist(t, s->body, at, depth + 1);
    if (s->kind != KIR_LOAD && s->kind != KIR_STORE) continue;
    struct pending *p = &t->pending[(*at)++];
    struct vm_lin lin = {t->c->n_terms, 0};
    for (int a = 0, bit = 0; a < s->n_at; a++)
      for (int i = 0; i < s->at[a].n && bit < 64; i++, bit++)
        if (!(p->done >> bit & 1) && classify(t, &s->at[a].term[i]) == TERM_OWN)
          term_add(t, &s->at[a].term[i], s->buf, a), lin.n++, p->done |= 1ull << bit;
    if (!lin.n) continue;
    int out = translator_reg(t, VM_ONE, 8);
    struct vm_step *step = translator_emit(t, VM_ADDR);
    step->out = out, step->in[0] = p->addr, step->lin = lin;
    p->addr = out;
  }
}
