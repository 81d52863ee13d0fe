/* aside.c -- what few lanes need: an if of instructions about one value, with one result, such as the reduction of a huge angle.
 *
 * It is a statement of its run, whose operands are the condition, the value of lanes without it, and the value that the rest is
 * about; nothing goes to memory for its sake. Each copy of the lanes looks for a lane that has the condition, and calls the
 * instructions if there is one. They stand at the end of the function, once, and leave all registers as they were. */
#include <string.h>
#include "backend/x86/gen.h"

/* ---- Where it stands ---- */

/* Flags: zero if no lane of the bool is true. */
static void any_lane(struct gen *g, int reg) {
  struct encoder *e = enc(g);
  if (e->evex) {
    vec(e, I_KORTEST, 16, reg - MASK_BASE, 0, rm_reg(reg - MASK_BASE));
  } else {
    vec(e, I_MOVMSKPS, width_of(g, WEFT_BOOL), RAX, 0, rm_reg(reg));
    gpr32(e, G_TEST, RAX, rm_reg(RAX));
  }
}

/* d = what the call has left, where the bool is true. wide: AVX2: a register for a mask of 64 bits a lane, if it takes one */
static void take_over(struct gen *g, int dtype, int d, int cond, int wide) {
  struct encoder *e = enc(g);
  struct rm from = in_frame(g->aside_at);
  int is_64 = lane_bytes(dtype) == 8, bytes = width_of(g, dtype);
  if (e->evex) {
    vec_mask(e, is_64 ? I_MOVUPD : I_MOVUPS, bytes, cond - MASK_BASE, false, d, 0, from, 0);
    return;
  }
  if (is_64) vec(e, I_PMOVSXDQ, 32, wide, 0, rm_reg(cond));
  vec_imm(e, (enum insn)(I_BLENDVPS + is_64), bytes, d, d, from, (is_64 ? wide : cond) << 4);
}

static int label_of(struct gen *g, const struct kir_stmt *s) {
  struct gen_value *y = &g->vals[s->out[0]];
  if (y->aside_label) return y->aside_label - 1;
  if (!gen_grow(g, (void **)&g->asides, &g->aside_room, g->n_asides + 1, sizeof *g->asides)) return 0;
  g->asides[g->n_asides++] = s;
  if (!g->aside_at) g->aside_at = slot_vector(g, 1);
  y->aside_label = label_new(enc(g)) + 1;
  return y->aside_label - 1;
}

/* What is in a register must not depend on whether the call is made: all is fetched before. */
void aside_op(struct gen *g, const struct kir_stmt *s) {
  struct encoder *e = enc(g);
  int body = label_of(g, s), skip = label_new(e), dtype = g->vals[s->out[0]].dtype, c = g->now_copy;
  int cond = in_reg(g, s->in[0], c), other = in_reg(g, s->in[1], c), subject = in_reg(g, s->in[2], c);
  int wide = !e->evex && lane_bytes(dtype) == 8 ? temp(g) : -1, d = is_dying(g, 1) ? other : fresh_reg(g);
  move_vector(g, width_of(g, dtype), d, other);
  any_lane(g, cond);
  jump_if(e, CC_E, skip);
  vec(e, I_MOVUPS_TO, width_of(g, g->vals[s->in[2]].dtype), subject, 0, in_frame(g->aside_at));
  call_to(e, body);
  take_over(g, dtype, d, cond, wide);
  label_here(e, skip);
  release(g);
  define(g, d);
}

/* ---- What it does ---- */

enum { BORROWED = 16 }; /* vector registers that the instructions use */

static void each_register(struct gen *g, int32_t at, bool is_saved) {
  for (int r = 0; r < BORROWED; r++)
    vec(enc(g), is_saved ? I_MOVUPS_TO : I_MOVUPS, g->e.evex ? 64 : 32, r, 0, in_frame(at + 64 * r));
  for (int k = 1; g->e.evex && k < MASKS; k++)
    vec(enc(g), is_saved ? I_KMOV_TO : I_KMOV, 16, k, 0, in_frame(at + 64 * BORROWED + 8 * k));
}

static void emit_body(struct gen *g, const struct kir_stmt *s, int32_t saved) {
  static const uint8_t ret[] = { 0xC3 };
  struct gen_value *x = &g->vals[s->in[2]];
  int val = s->body.last->in[0], n = steps_collect_fn(emission_of(g), &(struct kir_fn){ .body = s->body }, 0);
  x->home = g->aside_at;
  x->row = -1;
  label_here(enc(g), label_of(g, s));
  each_register(g, saved, true);
  run_emit(g, n - 1);
  vec(enc(g), I_MOVUPS_TO, width_of(g, g->vals[val].dtype), in_reg(g, val, 0), 0, in_frame(g->aside_at));
  each_register(g, saved, false);
  code_bytes(enc(g), ret, 1);
  registers_clear(emission_of(g));
}

void asides_emit(struct gen *g) {
  int32_t saved = g->n_asides ? slot_vector(g, 64 * (BORROWED + 1) / g->vector_bytes) : 0;
  registers_clear(emission_of(g));
  g->pinned = (UINT64_C(1) << VECTORS) - (UINT64_C(1) << BORROWED);
  g->called = g->e.n;
  for (int i = 0; i < g->n_asides && !g->why && !g->no_memory; i++) emit_body(g, g->asides[i], saved);
  g->called_end = g->e.n;
}
