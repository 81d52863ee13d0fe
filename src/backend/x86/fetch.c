/* fetch.c -- what memory is waited for.
 *
 * Gathers and scatters. Where the index is an element of an array read side by side, indices
 * further on are known already: what they name is fetched into the second cache. An index may be out of range, as nothing has
 * been checked yet: fetching harms nobody. That it is the element, unless that is negative, stores rely on too (straight.c). */
#include "backend/x86/gen.h"

static const struct kir_stmt *defined_by(const struct gen_loop *l, int val) {
  for (const struct kir_stmt *s = l->stmt->body.first; s; s = s->next)
    if ((s->kind == KIR_OP || s->kind == KIR_LOAD) && s->out[0] == val) return s;
  return NULL;
}

/* select(x < 0, .., x) */
static bool counts_from_the_end(const struct gen *g, const struct gen_loop *l, const struct kir_stmt *s) {
  const struct kir_stmt *c = s->op == KIR_SELECT ? defined_by(l, s->in[0]) : NULL;
  return c && c->kind == KIR_OP && c->op == KIR_LT && c->in[0] == s->in[2] && is_literal(g, c->in[1]) &&
         !g->k->vals[c->in[1]].bits;
}

static bool widens(const struct gen *g, const struct kir_stmt *s) {
  return s->op == KIR_CAST && g->k->vals[s->out[0]].dtype == WEFT_I64;
}

/* The load that an index comes from: widened, and counted from the end if it is negative. */
static const struct kir_stmt *index_load(const struct gen *g, const struct gen_loop *l, int val) {
  const struct kir_stmt *s = defined_by(l, val);
  while (s && s->kind == KIR_OP && (widens(g, s) || counts_from_the_end(g, l, s)))
    s = defined_by(l, s->in[s->op == KIR_SELECT ? 2 : 0]);
  return s && s->kind == KIR_LOAD ? s : NULL;
}

const struct gen_access *indices_of(const struct gen *g, const struct gen_loop *l, const struct gen_access *a) {
  const struct kir_stmt *s = a->stmt, *from = NULL;
  int n = 0;
  if (a->cls != LANE_INDEX || a->is_guarded || a->owner == OWNER_USE || a->reg < 0) return NULL;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      if (!term_varies(g, t)) continue;
      bool is_plain = t->n == 1 && t->coef == 1 && stride_class(g, s->buf, d) == STRIDE_1;
      from = is_plain ? index_load(g, l, t->val[0]) : NULL;
      n++;
    }
  for (int i = l->access_first; from && n == 1 && i < l->access_end; i++) {
    const struct gen_access *b = &g->accesses[i];
    int dtype = g->k->bufs[b->stmt->buf].dtype;
    if (b->stmt == from && b->cls == LANE_UNIT && b->reg >= 0 && (dtype == WEFT_I32 || dtype == WEFT_I64)) return b;
  }
  return NULL;
}

/* What is private is small enough to be near. */
static const struct gen_access *fetched_by(const struct gen *g, const struct gen_loop *l, const struct gen_access *a) {
  return g->is_private[a->stmt->buf] ? NULL : indices_of(g, l, a);
}

bool wants_fetch(const struct gen *g, const struct gen_loop *l) {
  for (int i = l->access_first; l->is_flat && i < l->access_end; i++)
    if (fetched_by(g, l, &g->accesses[i])) return true;
  return false;
}

void fetch_indexed(struct gen *g, const struct gen_loop *l) {
  for (int i = l->access_first; i < l->access_end; i++) {
    const struct gen_access *a = &g->accesses[i], *from = fetched_by(g, l, a);
    for (int k = 0; from && k < g->copies * g->lanes; k++) {
      gpr(enc(g), from->element == 3 ? G_MOV : G_MOVSXD, RAX,
          rm_index(from->reg, R9, from->element, (FETCH_AHEAD + k) << from->element));
      prefetch_far(enc(g), rm_index(a->reg, RAX, a->element, 0));
    }
  }
}

/* ---- Steps ----
 * A serial loop around several others takes its time for a step, and goes from page to page: nothing but the loop knows what
 * the next step reads and writes. */

static int inner_loops(const struct kir_stmt *loop) {
  int n = 0;
  for (const struct kir_stmt *s = loop->body.first; s; s = s->next) n += s->kind == KIR_SERIAL || s->kind == KIR_LANE;
  return n;
}

/* The outermost serial loop around a flat lane loop, if it is such a one. */
static const struct kir_stmt *steps_around(const struct gen *g, const struct gen_loop *l) {
  const struct kir_stmt *steps = NULL;
  for (int i = l->parent; l->is_flat && i >= 0; i = g->loops[i].parent)
    if (g->loops[i].stmt->kind == KIR_SERIAL) steps = g->loops[i].stmt;
  return steps && inner_loops(steps) > 1 ? steps : NULL;
}

/* Which axis of what is read or written moves with the steps; -1: none. */
static int axis_of_steps(const struct gen *g, const struct gen_access *a) {
  const struct kir_stmt *steps = steps_around(g, &g->loops[g->loop]), *s = a->stmt;
  if (!steps || g->short_loop >= 0 || a->cls != LANE_UNIT || a->reg < 0 || g->k->bufs[s->buf].kind == KIR_LOCAL) return -1;
  for (int d = 0; d < s->n_at; d++)
    if (s->at[d].n == 1 && s->at[d].term[0].n == 1 && s->at[d].term[0].coef == 1 && s->at[d].term[0].val[0] == steps->var) return d;
  return -1;
}

void fetch_next_step(struct gen *g, const struct gen_access *a, int copy) {
  int axis = axis_of_steps(g, a), at = copy * g->lanes << a->element;
  if (axis < 0) return;
  if (!copy) {
    gpr(enc(g), G_MOV, RAX, in_frame(g->data_at[a->stmt->buf] + 8 + 8 * axis));
    gpr(enc(g), G_ADD, RAX, rm_reg(a->reg));
  }
  if (at % 64 == 0) prefetch_far(enc(g), rm_index(RAX, R9, a->element, at));
}
