/* guess.c -- quotients that the next instructions need not wait for.
 *
 * In a loop over numbers each operation waits for the one before, and a division is the longest of them. Its quotient is guessed
 * by products that take less time; the machine goes on with the guess, while it divides and compares, as long as its prediction
 * that the two are equal, bit by bit, holds. Where they differ the quotient stands. So the guess is right or slow, never wrong:
 * infinities, zeros, NaN and what underflows on the way need no care. */
#include "backend/x86/gen.h"

/* ---- The guess, and whether it holds ---- */

/* guess = quotient, unless it is. spare: a register */
static void settle(struct gen *g, int dtype, int guess, int quotient, int spare) {
  struct encoder *e = enc(g);
  int same = label_new(e);
  vec(e, (enum insn)(I_PCMPEQD + (lane_bytes(dtype) == 8)), 16, spare, guess, rm_reg(quotient));
  bool_test(g, spare);
  jump_if(e, CC_NE, same);
  move_vector(g, width_of(g, dtype), guess, quotient);
  label_here(e, same);
}

/* 1 / x is r + s, to twice the digits: what is divided times both. They stand behind the number they are of. */
static void by_number(struct gen *g, const struct kir_stmt *s, int dtype) {
  struct encoder *e = enc(g);
  int wide = lane_bytes(dtype) == 8, bytes = width_of(g, dtype), x = in_reg(g, s->in[0], 0), at = g->vals[s->in[1]].home;
  int guess = fresh_reg(g), quotient = temp(g), spare = temp(g);
  vec(e, (enum insn)(I_MULPS + wide), bytes, guess, x, in_frame(at + 2 * g->vector_bytes));
  vec(e, (enum insn)(I_FMA231PS + wide), bytes, guess, x, in_frame(at + g->vector_bytes));
  vec(e, (enum insn)(I_DIVPS + wide), bytes, quotient, x, in_frame(at));
  settle(g, dtype, guess, quotient, spare);
  release(g);
  define(g, guess);
}

/* The number is in register 0. */
void guess_reciprocal(struct gen *g, int val) {
  struct encoder *e = enc(g);
  const struct gen_value *v = &g->vals[val];
  int wide = lane_bytes(v->dtype) == 8, bytes = width_of(g, v->dtype);
  struct rm minus_one = constant(g, v->dtype, wide ? UINT64_C(0xBFF) << 52 : 0xBF800000u);
  vec(e, I_MOVUPS, bytes, 1, 0, minus_one);
  vec(e, (enum insn)(I_DIVPS + wide), bytes, 2, 1, rm_reg(0)); /* -r */
  vec(e, (enum insn)(I_MULPS + wide), bytes, 3, 2, rm_reg(1));
  vec(e, I_MOVUPS_TO, bytes, 3, 0, in_frame(v->home + g->vector_bytes));
  vec(e, (enum insn)(I_FMA231PS + wide), bytes, 1, 3, rm_reg(0)); /* r x - 1 */
  vec(e, (enum insn)(I_MULPS + wide), bytes, 1, 1, rm_reg(2));
  vec(e, I_MOVUPS_TO, bytes, 1, 0, in_frame(v->home + 2 * g->vector_bytes));
}

/* a / sqrt(x): while the root is taken, y = 1 / sqrt(x) and q = a y come close by one step of Newton's; one more makes the
 * quotient, q + (a - q sqrt(x)) y. */
static void by_root(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int a = in_reg(g, s->in[0], 0), root = in_reg(g, s->in[1], 0), x = in_reg(g, s->in[2], 0), bytes = width_of(g, WEFT_F32);
  int q = fresh_reg(g), y = temp(g), t = temp(g);
  vec(e, I_RSQRTPS, bytes, y, 0, rm_reg(x));
  vec(e, I_MULPS, bytes, t, x, constant(g, WEFT_F32, 0xBF000000u));
  vec(e, I_MULPS, bytes, t, t, rm_reg(y));
  vec(e, I_FMA213PS, bytes, t, y, constant(g, WEFT_F32, 0x3FC00000u)); /* 1.5 - x y^2 / 2 */
  vec(e, I_MULPS, bytes, q, a, rm_reg(y));
  vec(e, I_MULPS, bytes, q, q, rm_reg(t));
  vec(e, I_MULPS, bytes, y, y, rm_reg(t));
  move_vector(g, bytes, t, a);
  vec(e, I_FNMA231PS, bytes, t, q, rm_reg(root));
  vec(e, I_FMA231PS, bytes, q, t, rm_reg(y));
  vec(e, I_DIVPS, bytes, y, a, rm_reg(root));
  settle(g, WEFT_F32, q, y, t);
  release(g);
  define(g, q);
}

bool guess_quotient(struct gen *g, const struct kir_stmt *s, int dtype) {
  bool of_root = s->n_in == 3;
  if (s->op != KIR_DIV || (!of_root && !g->vals[s->in[1]].divides)) return false;
  if (of_root) by_root(g, s);
  else by_number(g, s, dtype);
  return true;
}
