/* parts.h -- how rules on the parts of complex numbers are written: RULE(conj) { return .. REAL(neg, in[0].im) .. } */
#ifndef WEFT_PARTS_H
#define WEFT_PARTS_H
#include "op/operand.h"

/* A node with the dims of s->like, put into the list. NULL among the operands passes through: out of memory. */
struct node *split_node(struct splitting *s, const struct op *, weft_dtype, int n, struct node *const in[]);
struct node *split_number(struct splitting *s, weft_dtype, double); /* in those dims */
struct node *split_add(struct splitting *s, struct node *);         /* into the list; returns it, NULL: out of memory */

/* How rules are written: REAL(add, a, b) is a node of the dtype of a part, BOOL(lt, a, b) one of bools. */
#define NODE(dtype, op, ...) \
  split_node(s, &op_##op, dtype, sizeof((struct node *[]){ __VA_ARGS__ }) / sizeof(struct node *), (struct node *[]){ __VA_ARGS__ })
#define REAL(op, ...) NODE(dtype_part((weft_dtype)n->in[n->n_in - 1]->dtype), op, __VA_ARGS__) /* in the dtype of a part */
#define BOOL(op, ...) NODE(WEFT_BOOL, op, __VA_ARGS__)
#define NUMBER(x) split_number(s, dtype_part((weft_dtype)n->in[n->n_in - 1]->dtype), x)
#define RULE(name) struct parts parts_##name(struct splitting *s, const struct node *n, const struct parts in[])
extern const struct op op_abs, op_eq, op_ne, op_lt, op_isnan, op_isinf, op_isfinite, op_hypot;

#endif
