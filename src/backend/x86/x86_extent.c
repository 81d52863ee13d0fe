/* x86_extent.c -- where loops begin and end, and addresses that go along with them: evaluated when a loop is entered, stepped
 * with it after that. */
#include "backend/x86/loops.h"

bool may_start_late(const struct gen_loop *l) { return l->is_outer || l->stmt->extent == KIR_BLOCK; }

/* RAX = ceil(n / b) with n in RAX, b in RCX > 0. */
static void divide_up(struct gen *g) {
  static const uint8_t cqo[] = { 0x48, 0x99 };
  gpr(enc(g), G_LEA, RAX, rm_index(RAX, RCX, 0, -1));
  code_bytes(enc(g), cqo, 2);
  gpr_unary(enc(g), 7, RCX);
}

static void block_bounds(struct gen *g, const struct gen_loop *l) { /* q*b and min(n, q*b + b) */
  struct encoder *e = enc(g);
  const struct gen_loop *q = &g->loops[g->vals[l->stmt->block_of].loop];
  gpr(e, G_MOV, RAX, in_frame(q->var));
  gpr(e, G_IMUL, RAX, in_frame(q->block));
  gpr(e, G_STORE, RAX, in_frame(l->var));
  gpr(e, G_ADD, RAX, in_frame(q->block));
  gpr(e, G_MOV, RCX, in_frame(q->extent));
  gpr(e, G_CMP, RAX, rm_reg(RCX));
  gpr(e, G_CMOV | CC_G, RAX, rm_reg(RCX));
  gpr(e, G_STORE, RAX, in_frame(l->last));
}

/* var = first, last = one behind the last. */
void loop_bounds(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  const struct kir_stmt *s = l->stmt;
  if (s->extent == KIR_BLOCK) { block_bounds(g, l); return; }
  lin_eval(g, RDX, &s->at[0]);
  if (s->extent == KIR_BLOCKS) {
    gpr(e, G_STORE, RDX, in_frame(l->extent));
    lin_eval(g, RCX, &s->at[1]);
    gpr(e, G_STORE, RCX, in_frame(l->block));
    gpr(e, G_MOV, RAX, rm_reg(RDX));
    divide_up(g);
    gpr(e, G_MOV, RDX, rm_reg(RAX));
  }
  gpr_const(e, RAX, 0);
  if (l->is_outer) {
    gpr(e, G_MOV, RAX, in_frame(FRAME_LO));
    gpr(e, G_MOV, RCX, in_frame(FRAME_HI)); /* a launcher that does not know the extent gives the largest number */
    gpr(e, G_CMP, RDX, rm_reg(RCX));
    gpr(e, G_CMOV | CC_G, RDX, rm_reg(RCX));
  }
  gpr(e, G_STORE, RAX, in_frame(l->var));
  gpr(e, G_STORE, RDX, in_frame(l->last));
}

/* Does the distance the address moves with val depend on sizes and args alone? Then it is computed once. */
bool step_is_fixed(const struct gen *g, const struct gen_access *a, int val) {
  const struct kir_stmt *s = a->stmt;
  for (int d = 0; d < s->n_at; d++)
    for (int i = 0; i < s->at[d].n; i++) {
      const struct kir_term *t = &s->at[d].term[i];
      bool has = false, fixed = true;
      for (int j = 0; j < t->n; j++) {
        has |= t->val[j] == val;
        fixed &= t->val[j] == val || g->vals[t->val[j]].loop == -2;
      }
      if (has && !fixed) return false;
    }
  return true;
}

void eval_step(struct gen *g, const struct gen_access *a, int val, int32_t slot) {
  address_step(g, a, val);
  gpr(enc(g), G_STORE, RDX, in_frame(slot));
}

void eval_pointer(struct gen *g, const struct gen_access *a, int skip) {
  address_eval(g, a, skip);
  gpr(enc(g), G_STORE, RDX, in_frame(a->pointer));
}

/* The lane variable if it is left out of the pointer. */
int flat_axis(const struct gen *g, const struct gen_access *a) {
  return a->lane >= 0 && g->loops[a->lane].is_flat ? g->loops[a->lane].stmt->var : -1;
}

void enter_accesses(struct gen *g, const struct gen_loop *l) {
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    eval_pointer(g, a, flat_axis(g, a));
    if (!step_is_fixed(g, a, l->stmt->var)) eval_step(g, a, l->stmt->var, a->step);
  }
}

void step_accesses(struct gen *g, const struct gen_loop *l) {
  struct encoder *e = enc(g);
  for (int i = l->accesses; i >= 0; i = g->accesses[i].next) {
    const struct gen_access *a = &g->accesses[i];
    if (a->reg >= 0) {
      gpr(e, G_ADD, a->reg, in_frame(a->step));
    } else {
      gpr(e, G_MOV, RAX, in_frame(a->step));
      gpr(e, G_ADD_TO, RAX, in_frame(a->pointer));
    }
  }
}
