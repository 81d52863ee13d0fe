/* fetch.c -- gathers and scatters wait for memory. Where the index is an element of an array read side by side, indices
 * further on are known already: what they name is fetched into the second cache. An index may be wrong, as nothing has been
 * checked yet: fetching harms nobody. */
#include "backend/x86/gen.h"

static const struct kir_stmt *defined_by(const struct loop *l, int val) {
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next)
    if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && s->out[0] == val) return s;
  return NULL;
}

/* The load that an index comes from: widened, and counted from the end if it is negative. */
static const struct kir_stmt *index_load(const struct loop *l, int val) {
  const struct kir_stmt *s = defined_by(l, val);
  while (s && s->kind == KIR_OP && (s->op == KIR_CAST || s->op == KIR_SELECT))
    s = defined_by(l, s->in[s->op == KIR_SELECT ? 2 : 0]);
  return s && s->kind == KIR_LOAD ? s : NULL;
}

/* The array of indices of a gather or scatter: signed, in a register, side by side; NULL: none. */
static const struct access *indices_of(const struct gen *g, const struct loop *l, const struct access *a) {
  const struct kir_stmt *s = a->stmt, *from = NULL;
  int n = 0;
  if (a->cls != LANE_INDEX || a->is_guarded || a->owner == OWNER_USE || a->reg < 0) return NULL;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      if (!term_varies(g, t)) continue;
      bool is_plain = t->n == 1 && t->coef == 1 && stride_class(g, s->buf, d) == STRIDE_1;
      from = is_plain ? index_load(l, t->val[0]) : NULL;
      n++;
    }
  for (int i = l->access_first; from && n == 1 && i < l->access_end; i++) {
    const struct access *b = &g->accesses[i];
    int dtype = g->k->bufs[b->stmt->buf].dtype;
    if (b->stmt == from && b->cls == LANE_UNIT && b->reg >= 0 && (dtype == WEFT_I32 || dtype == WEFT_I64)) return b;
  }
  return NULL;
}

bool wants_fetch(const struct gen *g, const struct loop *l) {
  for (int i = l->access_first; l->is_flat && i < l->access_end; i++)
    if (indices_of(g, l, &g->accesses[i])) return true;
  return false;
}

void fetch_indexed(struct gen *g, const struct loop *l) {
  for (int i = l->access_first; i < l->access_end; i++) {
    const struct access *a = &g->accesses[i], *from = indices_of(g, l, a);
    for (int k = 0; from && k < g->copies * g->lanes; k++) {
      gpr(enc(g), from->element == 3 ? G_MOV : G_MOVSXD, RAX,
          rm_index(from->reg, R9, from->element, (FETCH_AHEAD + k) << from->element));
      prefetch_far(enc(g), rm_index(a->reg, RAX, a->element, 0));
    }
  }
}
