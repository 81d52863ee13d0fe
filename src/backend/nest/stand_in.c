/* stand_in.c -- ifs and divisions for which another statement stands in their run: with three operands, where an encoder has a way
 * of its own for them (x86/aside.c, x86/guess.c). */
#include <string.h>
#include "backend/nest/nest.h"

/* ---- Which ifs ---- */

const struct kir_stmt *nest_aside_of(const struct nest *g, const struct kir_stmt *s) {
  const struct kir_stmt *y = s->kind == KIR_IF ? s->body.last : NULL;
  return y && y->kind == KIR_YIELD ? g->vals[y->out[0]].stand_in : NULL;
}

/* The only value of outside that the instructions take, or -1. */
static int subject(struct nest *g, const struct kir_stmt *s) {
  int val = -1;
  for (const struct kir_stmt *x = s->body.first; x != s->body.last; x = x->next) {
    if (x->kind != KIR_OP) return -1;
    for (int i = 0; i < x->n_in; i++) {
      if (nest_is_literal(g, x->in[i]) || g->vals[x->in[i]].in_aside || x->in[i] == val) continue;
      if (val >= 0) return -1;
      val = x->in[i];
    }
    g->vals[x->out[0]].in_aside = true;
  }
  return val;
}

static bool is_of_lanes(const struct nest *g, int val) { return g->vals[val].lane && !nest_is_literal(g, val); }

static struct kir_stmt *stand_in_for(struct nest *g, const struct kir_stmt *s, const int in[3]) {
  struct kir_stmt *a = arena_take(g->arena, sizeof *a + 3 * sizeof *in);
  if (!a) return g->no_memory = true, NULL;
  *a = *s;
  a->n_in = 3;
  a->in = memcpy(a + 1, in, 3 * sizeof *in);
  return a;
}

bool nest_note_aside(struct nest *g, const struct kir_stmt *s) {
  const struct kir_stmt *y = s->body.last;
  if (!y || y->kind != KIR_YIELD || g->vals[y->out[0]].dtype == WEFT_BOOL) return false;
  int in[3] = { s->in[0], y->in[1], subject(g, s) };
  if (in[2] < 0 || g->vals[in[2]].dtype == WEFT_BOOL) return false;
  if (!is_of_lanes(g, in[0]) || !is_of_lanes(g, in[1]) || !is_of_lanes(g, in[2])) return false;
  struct kir_stmt *a = stand_in_for(g, s, in);
  if (!a) return false;
  a->n_out = 1;
  a->out = y->out;
  g->vals[y->out[0]].stand_in = a;
  return true;
}

/* ---- Which divisions ---- */

static bool is_arg(const struct nest *g, int val) { return g->k->vals[val].kind == KIR_ARG; }

/* A division by a root has the number under it as a third operand. */
const struct kir_stmt *nest_note_guess(struct nest *g, const struct kir_stmt *s) {
  struct gen_value *y = &g->vals[s->out[0]];
  if (s->op == KIR_SQRT) y->square = s->in[0] + 1;
  if (s->op != KIR_DIV) return s;
  struct gen_value *divisor = &g->vals[s->in[1]];
  if (is_arg(g, s->in[1])) divisor->divides = true;
  else if (divisor->square && y->dtype == WEFT_F32)
    y->stand_in = stand_in_for(g, s, (int[]){ s->in[0], s->in[1], divisor->square - 1 });
  return y->stand_in ? y->stand_in : s;
}
