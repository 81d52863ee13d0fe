/* element.h -- how rows of elementwise operations are written: kernel code, derivative, row.
 *
 *   UNARY(tanh, FLOAT, false, DERIVATIVE)    operand class; whether it is cheap; what it has: DERIVATIVE (partial_tanh),
 *                                            MOVES (move_maximum, forward and backward), NONE: zero
 * A row defines the op and the public function; weft.h declares it. */
#ifndef WEFT_ELEMENT_H
#define WEFT_ELEMENT_H
#include "op/operand.h"

/* ---- Kernel code: lower_name, one element in register values ---- */

static inline weft_dtype operand_dtype(const struct node *n) { return (weft_dtype)n->in[0]->dtype; }
static inline bool on_bool(const struct node *n) { return operand_dtype(n) == WEFT_BOOL; }
static inline bool on_float(const struct node *n) { return dtype_is_float(operand_dtype(n)); }
static inline bool on_signed(const struct node *n) { return dtype_is_signed(operand_dtype(n)); }
static inline int one(struct kir_builder *b, const struct node *n) { return lower_number(b, operand_dtype(n), 1); }
static inline int zero(struct kir_builder *b, const struct node *n) { return lower_number(b, operand_dtype(n), 0); }
static inline int negated(struct kir_builder *b, int x) { return kir_op1(b, KIR_NOT, x); }

#define LOWER(name)                                                                               \
  static int lower_##name(struct kir_builder *b, __attribute__((unused)) const struct node *n, const int in[])
#define ONE_INSTRUCTION(name, instruction) LOWER(name) { return kir_apply(b, instruction, n->n_in, in); }

/* ---- Derivatives: partial_name, with the public functions. X is the operand, Y the result ---- */

#define PARTIAL(name) static weft_array *partial_##name(const struct rule *r, int k)
#define X (r->in[0])
#define Y (r->out)

/* ---- Rows ---- */

#define DERIVATIVE(id) .partial = partial_##id
#define MOVES(id) .vjp = move_##id, .jvp = move_##id, .chooses = true
#define NONE(id) .partial = NULL
/* Rows that take complex numbers too; a holomorphic one has the derivative of the real one. */
#define HOLOMORPHIC(id) .partial = partial_##id, .parts = parts_##id
#define MOVES_PARTS(id) .vjp = move_##id, .jvp = move_##id, .chooses = true, .parts = parts_##id
#define TESTS_PARTS(id) .parts = parts_##id
#define TURNS_PARTS(id) .vjp = back_##id, .jvp = forth_##id, .parts = parts_##id
#define ROW(id, cheap, derivative)                                                                \
  const struct op op_##id = { .name = #id, .kind = OP_ELEMENT, .is_cheap = cheap, .lower = lower_##id, derivative(id), \
                              .again = element_again };
#define UNARY(id, cls, cheap, derivative)                                                         \
  ROW(id, cheap, derivative)                                                                      \
  weft_array *weft_##id(weft_array *x) { return element("weft_" #id, &op_##id, cls, 1, &x); }
#define BINARY(id, cls, cheap, derivative)                                                        \
  ROW(id, cheap, derivative)                                                                      \
  weft_array *weft_##id(weft_array *a, weft_array *b) {                                           \
    return element("weft_" #id, &op_##id, cls, 2, (weft_array *[]){ a, b });                      \
  }
#define TERNARY(id, cls, cheap, derivative)                                                       \
  ROW(id, cheap, derivative)                                                                      \
  weft_array *weft_##id(weft_array *a, weft_array *b, weft_array *c) {                            \
    return element("weft_" #id, &op_##id, cls, 3, (weft_array *[]){ a, b, c });                   \
  }

#endif
