/* loop.h -- a loop while it is scheduled. */
#ifndef WEFT_SCHEDULE_LOOP_H
#define WEFT_SCHEDULE_LOOP_H
#include "schedule/work.h"

struct body {
  struct work *w;
  struct node *node;             /* the op_loop node */
  struct loop *loop;
  int64_t steps;                 /* at most */
  struct node_list list;         /* local nodes; variables are op_value leaves, serial: seq.., carry.., const.. */
  struct node **target;          /* next.., all.., until */
  int n_targets;
  struct node **in_node;         /* by variable: the node outside, and where it stands */
  struct place *in;
  const struct place **all, **last, *length; /* where results go; NULL: nobody wants it */
};

/* One kernel, lanes beside the time loop, if every value of the body has one shape. *done: it was. false: failed. */
bool scan(struct body *, bool *done);
/* One kernel, a row of the batch at a time, if the body only contracts its rows with constant matrices (rows.c). */
bool scan_rows(struct body *, bool *done);

#endif
