/* body.h -- the body of a loop while it is scheduled: its nodes brought into the plan's arena, and where everything it
 * reads and gives stands outside. */
#ifndef WEFT_SCHEDULE_BODY_H
#define WEFT_SCHEDULE_BODY_H
#include "schedule/work.h"

enum { STEPS_AT_RUN = -1 };

struct body {
  struct work *w;
  struct node *node;             /* the op_loop node */
  struct loop *loop;
  int64_t steps;                 /* at most; STEPS_AT_RUN: as many as is computed before it */
  struct place count;            /* STEPS_AT_RUN: where that number stands */
  struct node_list list;         /* local nodes; variables are op_value leaves, serial: seq.., carry.., const.. */
  struct node **target;          /* next.., all.., until */
  int n_targets;
  struct node **in_node;         /* by variable: the node outside, and where it stands; store -1: a number */
  struct place *in;
  const struct place **all, **last, *length; /* where results go; NULL: nobody wants it */
  bool is_once;                  /* no loop: its constants are read and its outputs stored once (problems.c) */
  int64_t rows;                  /* of `all`: fewer than steps where it is known already after how many until ends it */
  struct work inside;            /* knows where the variables stand in the first step, so that place_of finds views of them */
};

bool body_take(struct body *, struct work *, struct node *loop); /* false: failed */
bool body_nodes(struct body *); /* its list and targets; w, loop and node are there. false: out of memory */
int body_variables(const struct loop *);

/* The body as one of so many lanes sees it, which the first axis tells apart; its targets are replaced in place. *fits =
 * false: they meet, and the body is no good any more. false: out of memory (lane.c). */
bool body_lane(struct body *, int64_t lanes, bool *fits);
bool lane_keeps(const struct node *, int64_t lanes); /* whether lanes stay apart in it */

bool body_is_carry(const struct body *, const struct node *);
bool body_is_constant(const struct body *, const struct node *);
const struct node *body_number(const struct body *, const struct node *); /* the number that an operand is, or NULL */
bool body_reads(const struct body *, const struct node *); /* a view of a sequence's element or of a constant, no number */

struct draft;
int body_count(const struct body *, struct draft *); /* STEPS_AT_RUN: the buffer of a kernel that is the number of steps */

/* Something that stands at `at` in the first step that is run, and `time` elements further in each next one. */
struct moving { struct place at; int64_t time; };
bool body_place(struct body *, const struct node *, struct moving *); /* of what body_reads; false: it has none */
struct moving body_stack(const struct body *, const struct place *stacked);

/* One kernel, lanes beside the time loop, if every value of the body has one shape. *done: it was. false: failed. */
bool scan(struct body *, bool *done);
/* One kernel, a row of the batch at a time, if the body only contracts its rows with constant matrices (loop_rows.c). */
bool scan_rows(struct body *, bool *done);
bool rows_fit(const struct body *); /* whether it is so; only its nodes and inputs need be there */
/* One kernel in which every element is a value of its own, if there are few (small.c). */
bool scan_small(struct body *, bool *done);
bool small_lanes(struct body *, int64_t lanes, bool *done); /* of what is_once: by so many lanes */
enum { SMALL_ELEMENTS = 256 };                              /* of a value of such, at most */
int64_t small_cost(struct work *, const struct node *, int64_t lanes); /* operations of a node in one of so many lanes;
                                                                          -1: it cannot be there */

/* Library ops on many small problems as one node, with what is around them: its attr, and what it stands for (problems.c). */
struct problems { struct node_list body; struct node **target; int n_targets; int64_t lanes; };
struct problems_attr { struct problems *of; };

#endif
