/* logic.c -- questions about one number, truth of two, shifts. */
#include <math.h>
#include "op/complex.h"
#include "op/element.h"

static int below_inf(struct kir_builder *b, const struct node *n, int x) {
  return kir_op2(b, KIR_LT, kir_op1(b, KIR_ABS, x), lower_number(b, operand_dtype(n), INFINITY));
}

LOWER(isfinite) { return on_float(n) ? below_inf(b, n, in[0]) : kir_lit(b->k, WEFT_BOOL, 1); }
LOWER(isinf) {
  if (!on_float(n)) return kir_lit(b->k, WEFT_BOOL, 0);
  return kir_op2(b, KIR_EQ, kir_op1(b, KIR_ABS, in[0]), lower_number(b, operand_dtype(n), INFINITY));
}
ONE_INSTRUCTION(logical_not, KIR_NOT)
ONE_INSTRUCTION(logical_and, KIR_AND)
ONE_INSTRUCTION(logical_or, KIR_OR)
ONE_INSTRUCTION(logical_xor, KIR_XOR)

/* Narrow integers stand in 32 bits, where what is shifted beyond them is cut by the caller. */
ONE_INSTRUCTION(shl, KIR_SHL)
ONE_INSTRUCTION(shr, KIR_SHR)

UNARY(isinf, TEST, true, TESTS_PARTS)
UNARY(isfinite, TEST, true, TESTS_PARTS)
UNARY(logical_not, LOGICAL, true, NONE)
BINARY(logical_and, LOGICAL, true, NONE)
BINARY(logical_or, LOGICAL, true, NONE)
BINARY(logical_xor, LOGICAL, true, NONE)
BINARY(shl, INTEGER, true, NONE)
BINARY(shr, INTEGER, true, NONE)
