/* straight.c -- stores through an index that come last in their body, where index and value both stand in memory side by
 * side: element by element from there, without a way through vectors. Indices from 0 on are what the array says; where
 * one of a body counts from the end, or a lane rests, the store goes the way of all others (x86_memory.c). */
#include "backend/x86/gen.h"

struct straight { const struct gen_access *to, *index, *value; };

static bool is_beside(const struct gen_access *a) { return a->cls == LANE_UNIT && a->reg >= 0; }

static bool find(const struct gen *g, const struct gen_step *t, struct straight *s) {
  const struct gen_loop *l = g->lane_loop >= 0 ? &g->loops[g->lane_loop] : NULL;
  if (t->s->kind != KIR_STORE || t->mask >= 0 || !l || !l->is_flat || g->short_loop >= 0) return false;
  int from = g->vals[t->s->in[0]].access;
  s->to = &g->accesses[t->access];
  s->index = indices_of(g, l, s->to);
  s->value = from ? &g->accesses[from - 1] : NULL;
  return s->index && s->value && s->to->element >= 2 && !s->to->narrow && is_beside(s->value) &&
         s->value->lane == g->lane_loop && s->value->element == s->to->element;
}

static struct rm element(const struct gen_access *a, int i) { return rm_index(a->reg, R9, a->element, i << a->element); }

/* Jumps if any index of the body is below 0. */
static void jump_if_negative(struct gen *g, const struct gen_access *index, int t, int k, int label) {
  struct encoder *e = enc(g);
  int wide = index->element == 3, bytes = g->lanes << index->element;
  for (int c = 0; c < g->copies; c++) vec(e, c ? I_POR : I_MOVUPS, bytes, t, c ? t : 0, element(index, c * g->lanes));
  if (e->evex) {
    vec_imm(e, (enum insn)(I_PCMPD + wide), bytes, k, t, pool_scalar(e, wide ? 8 : 4, 0), 1);
    vec(e, I_KMOV_GPR, 16, RAX, 0, rm_reg(k));
  } else {
    vec(e, I_MOVMSKPS, bytes, RAX, 0, rm_reg(t));
    if (wide) gpr_imm(e, A_AND, rm_reg(RAX), 0xAA); /* the upper halves have the signs */
  }
  gpr32(e, G_TEST, RAX, rm_reg(RAX));
  jump_if(e, CC_NE, label);
}

static void update(struct gen *g, const struct straight *s, const struct kir_stmt *store, int i, int x, int y) {
  struct encoder *e = enc(g);
  int wide = s->to->element == 3;
  struct rm slot = rm_index(s->to->reg, RAX, s->to->element, 0);
  gpr(e, s->index->element == 3 ? G_MOV : G_MOVSXD, RAX, element(s->index, i));
  vec(e, (enum insn)(I_MOVD + wide), 16, y, 0, element(s->value, i));
  if (store->op != KIR_SET) {
    vec(e, (enum insn)(I_MOVD + wide), 16, x, 0, slot);
    combine(g, store->op, g->vals[store->in[0]].dtype, 16, x, x, rm_reg(y));
  }
  vec(e, (enum insn)(I_MOVD_TO + wide), 16, store->op == KIR_SET ? y : x, 0, slot);
}

int straight_store(struct gen *g, const struct gen_step *t, bool is_last) {
  struct encoder *e = enc(g);
  struct straight s;
  if (!is_last || !find(g, t, &s)) return -1;
  int done = label_new(e), others = label_new(e), x = temp(g), y = temp(g), k = e->evex ? temp_mask(g) : 0;
  reserve(g);
  jump_if_negative(g, s.index, x, k, others);
  for (int i = 0; i < g->copies * g->lanes; i++) update(g, &s, t->s, i, x, y);
  jump_to(e, done);
  label_here(e, others);
  g->temps = 0;
  return done;
}
