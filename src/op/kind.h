/* kind.h -- the kinds of ops, and what is true of all ops of a kind. Stages look at kinds and never at ops. */
#ifndef WEFT_OP_KIND_H
#define WEFT_OP_KIND_H
#include <stdbool.h>

enum op_kind {
  OP_LEAF,     /* value, scalar, input, bad, loop variables: no inputs */
  OP_ELEMENT,  /* inputs all have the dims of the node; lower computes one element */
  OP_IOTA,     /* in: none (dims given); attr: struct axis_attr; the index along the axis in the dtype */
  OP_SIZE,     /* 0-d i64: a dim as a value; in[0]: an array that has it; attr: struct size_attr */
  OP_REDUCE,   /* attr: struct axis_attr; the axis stays with size 1; fold says how */
  OP_PREFIX,   /* attr: struct axis_attr; running combine, fold.op says how */
  OP_VIEW,     /* moves no data; see the attrs below: reshape, broadcast, transpose, slice, as_strided, windows */
  OP_TAKE,     /* in: x, index..; attr: struct take_attr */
  OP_PUT,      /* in: x, v; attr: struct put_attr: x with an affine part set or combined */
  OP_SCATTER,  /* in: x, v, index..; attr: struct scatter_attr */
  OP_CONTRACT, /* matmul: in a[..,m,k], b[..,k,n], batch dims and register dtypes equal; in a plan more of
                  these, see schedule/added.c */
  OP_CONCAT,   /* attr: struct axis_attr */
  OP_PAIR,     /* in: re, im; one complex array of them. In plans only: see struct parts */
  OP_PAD,      /* in: x, value (0-d); attr: struct pad_attr */
  OP_IDENTITY, /* alias, stop_gradient, depends, to, checkpoint, custom: in[0] moved through; gone before scheduling */
  OP_LOOP,     /* attr: struct loop_attr; several results, taken by OP_ITEM */
  OP_CALL,     /* attr: struct call_attr; several results; expanded before scheduling */
  OP_LATER,    /* an expression that is written when the sizes of its operands are known, before scheduling: op/later.h */
  OP_ITEM,     /* in: a node with several results; attr: struct item_attr */
  OP_LIBRARY   /* code of our own or of a library on dense arrays: struct library; results by OP_ITEM */
};
enum { ELEMENT_MOST = 4 }; /* operands of an ELEMENT node */
enum { N_OP_KINDS = OP_LIBRARY + 1 };

/* What is true of a kind (kinds.c: a row each). What a stage does with each kind is a switch there, without a default: a new
 * kind does not compile until everybody has said what it is. */
struct kind_facts {
  const char *name;
  enum {
    READS_BY_ELEMENT,   /* element i of the result is made of element i of the operands, or folds such */
    READS_FIRST_WHOLE,  /* the first operand by index: it stands in memory; the others by element */
    READS_WHOLE         /* all operands stand in memory */
  } reads;
  bool joins_groups;    /* may share a kernel with others */
  bool is_own_step;     /* is no kernel of a group: emit_own (schedule/schedule.c) writes its steps */
  bool is_several;      /* its results are items; it has no value of its own */
  bool is_gone;         /* expanded or passed through before anything is scheduled */
  bool is_heavy;        /* if somebody holds it, it is stored the first time; others the second time */
  bool may_be_made;     /* may be computed while an operand of a product is packed; .. */
  int element_cost;     /* .. then this is what an element costs, unless its op is cheap */
  bool may_be_blamed;   /* may fail when it runs: a plan is for the lines of the user's that it blames */
};
extern const struct kind_facts kind_facts[];

#endif
