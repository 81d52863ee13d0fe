/* expansion.c -- the words that expansions are written with. */
#include <stddef.h>
#include "kernel/expansion.h"

int number(struct here h, double d) { /* d is a number of dtype f, exactly */
  float s = (float)d;
  uint32_t narrow;
  uint64_t wide;
  memcpy(&narrow, &s, sizeof s);
  memcpy(&wide, &d, sizeof d);
  return kir_lit(h.b->k, h.f, h.f == WEFT_F32 ? narrow : wide);
}

int integer(struct here h, uint64_t bits) { return kir_lit(h.b->k, h.i, bits); }
int as_bits(struct here h, int x) { return kir_bits(h.b, h.i, x); }
int as_float(struct here h, int x) { return kir_bits(h.b, h.f, x); }
int op(struct here h, enum kir_op o, int x, int y) { return kir_op2(h.b, o, x, y); }
int add(struct here h, int x, int y) { return op(h, KIR_ADD, x, y); }
int sub(struct here h, int x, int y) { return op(h, KIR_SUB, x, y); }
int mul(struct here h, int x, int y) { return op(h, KIR_MUL, x, y); }
int quotient(struct here h, int x, int y) { return op(h, KIR_DIV, x, y); }
int muladd(struct here h, int x, int y, int z) { return kir_op3(h.b, KIR_FMA, x, y, z); }
int negative(struct here h, int x) { return kir_op1(h.b, KIR_NEG, x); }
int size_of(struct here h, int x) { return kir_op1(h.b, KIR_ABS, x); }
int root(struct here h, int x) { return kir_op1(h.b, KIR_SQRT, x); }
int less(struct here h, int x, int y) { return op(h, KIR_LT, x, y); }
int either(struct here h, int cond, int x, int y) { return kir_op3(h.b, KIR_SELECT, cond, x, y); }
int mulsub(struct here h, int y, int z, int x) { return muladd(h, negative(h, y), z, x); }

/* Open blocks but the first are those of loops and ifs. */
bool in_lanes(struct here h) {
  for (int i = 1; i < h.b->depth; i++)
    if (((const struct kir_stmt *)((const char *)h.b->open[i] - offsetof(struct kir_stmt, body)))->kind == KIR_LANE) return true;
  return false;
}

void rarely(struct here h, int cond) {
  if (in_lanes(h)) kir_if(h.b, cond);
}

int usually(struct here h, int cond, int x, int y) {
  if (!in_lanes(h)) return either(h, cond, x, y);
  int r = kir_yield(h.b, x, y);
  kir_end(h.b);
  return r;
}

void rounds(struct here h, int n) { kir_loop(h.b, KIR_SERIAL, "k", kir_lin_const(h.b->k, n)); }

int with_sign(struct here h, int x, int s) {
  int sign = op(h, KIR_AND, as_bits(h, s), integer(h, sign_bit(h)));
  return as_float(h, op(h, KIR_OR, as_bits(h, x), sign));
}

int polynomial(struct here h, int x, int n, const double c[]) {
  int r = number(h, c[0]);
  for (int i = 1; i < n; i++) r = muladd(h, r, x, number(h, c[i]));
  return r;
}

struct two sum(struct here h, int x, int y) {
  int s = add(h, x, y);
  return (struct two){ s, sub(h, y, sub(h, s, x)) };
}

struct two product(struct here h, int x, int y) {
  int p = mul(h, x, y);
  return (struct two){ p, muladd(h, x, y, negative(h, p)) };
}

struct two root_of(struct here h, struct two x, double least) {
  int s = root(h, x.high), rest = add(h, mulsub(h, s, s, x.high), x.low);
  int half = quotient(h, number(h, 0.5), op(h, KIR_MAX, s, number(h, least)));
  return (struct two){ s, mul(h, rest, half) };
}
