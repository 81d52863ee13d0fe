/* rounding.c -- numbers to whole numbers near them, and to their sign. Integers are whole already. */
#include "op/element.h"

#define TO_WHOLE(name, instruction) LOWER(name) { return on_float(n) ? kir_op1(b, instruction, in[0]) : in[0]; }
TO_WHOLE(floor, KIR_FLOOR)
TO_WHOLE(ceil, KIR_CEIL)
TO_WHOLE(trunc, KIR_TRUNC)
TO_WHOLE(round, KIR_RINT)

/* 0, -0 and nan are their own sign. */
LOWER(sign) {
  if (on_bool(n)) return in[0];
  int y = kir_op3(b, KIR_SELECT, kir_op2(b, KIR_LT, zero(b, n), in[0]), one(b, n), in[0]);
  if (!on_float(n) && !on_signed(n)) return y;
  return kir_op3(b, KIR_SELECT, kir_op2(b, KIR_LT, in[0], zero(b, n)), lower_number(b, operand_dtype(n), -1), y);
}

UNARY(floor, NUMBER, true, NONE)
UNARY(ceil, NUMBER, true, NONE)
UNARY(trunc, NUMBER, true, NONE)
UNARY(round, NUMBER, true, NONE)
UNARY(sign, NUMBER, true, NONE)
