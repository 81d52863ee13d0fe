/* translate.h -- the state of a translation, shared by translate.c (statements) and address.c (indices). */
#ifndef WEFT_VM_TRANSLATE_H
#define WEFT_VM_TRANSLATE_H
#include "backend/vm/program.h"

struct pending { int addr; uint64_t done; }; /* an access still to come: what of its address is already summed */

struct translator {
  struct code *c;
  const struct kir_kernel *k;
  const uint8_t *varying, *kept;
  int *reg, *row;             /* by value: its register, -1: not defined (yet, or any more); inside lanes, its kept row */
  int *loop_of, *uses;        /* by value */
  struct pending *pending;
  int next_access, n_sites, lane, lane_var;
  int last_value;             /* the value that the step emitted last defines, or -1 */
  struct kir_facts facts;
  const char *why;            /* NULL so far; "": out of memory */
};

/* Growing lists: after a failure the last element is written over, and the translation is given up at its end. */
int translator_add(struct translator *, void *list, int *n, int *room, size_t bytes);
#define ADD(t, what) translator_add(t, &(t)->c->what, &(t)->c->n_##what, &(t)->c->room_##what, sizeof *(t)->c->what)

void translator_refuse(struct translator *, const char *why);
int translator_reg(struct translator *, int kind, int width);       /* a new register */
struct vm_step *translator_emit(struct translator *, int code);
int translator_find(const struct translator *, int val);            /* the register that holds a value here, or -1 */
int translator_use(struct translator *, int val);                   /* the same; refuses if there is none */
bool translator_is_one(const struct translator *, int reg);
bool translator_is_fixed(const struct translator *, int val);       /* known when a launch begins */

/* address.c */
struct vm_lin address_extent(struct translator *, struct kir_lin);
void address_place(struct translator *, const struct kir_stmt *check, struct vm_step *); /* what a check says it is about */
int address_access(struct translator *, const struct kir_stmt *, struct pending);
/* Before a loop opens: sums the terms of accesses inside it that are known by now. `at` counts accesses in text order. */
void address_hoist(struct translator *, struct kir_block, int *at, int depth);

#endif
