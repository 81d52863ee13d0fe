/* access.h -- the loads and stores of a kernel, with the loops around them, and when two of them can meet. */
#ifndef WEFT_KERNEL_ACCESS_H
#define WEFT_KERNEL_ACCESS_H
#include "kernel/kir.h"

struct frame { const struct frame *up; const struct kir_stmt *s; }; /* a loop or if around; NULL: kernel level */
struct access {
  const struct kir_stmt *s;
  const struct frame *in;
  const struct kir_stmt *lane; /* the lane loop around */
  bool is_ordered;             /* a store whose lanes may meet: acts as if in lane order */
};

/* Facts of a value, from one walk. A value belongs to a loop if it was born while the loop was open. */
struct origin {
  int born, gone;              /* gone: of a loop variable, when its loop ended */
  const struct kir_stmt *loop; /* the loop, if this is its variable */
  const struct kir_stmt *lane; /* the lane loop it was born in */
  bool leaves;                 /* a fold or prefix of that lane loop: uniform once it is over */
  const struct kir_stmt *by;   /* the statement that gives it */
};

struct accesses {
  struct arena *arena;
  const struct kir_kernel *k;
  struct origin *of; /* by value */
  int n, room, clock;
  struct access *list;
  bool failed;
};

bool accesses_find(struct accesses *, const struct kir_kernel *); /* false: out of memory */
void accesses_free(struct accesses *);

const struct kir_stmt *frame_lane(const struct frame *);                   /* the lane loop around, NULL: none */
const struct kir_private *frame_private(const struct frame *, int buf);    /* how buf is private here, NULL: not */

/* Why the accesses of the kernel may race; NULL: they cannot. The text belongs to the accesses. */
const char *accesses_race(struct accesses *);
bool accesses_same_place(const struct accesses *, const struct access *, const struct access *); /* where axes are used */

#endif
