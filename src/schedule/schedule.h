/* schedule.h -- from a graph of local nodes to a list of kernels on bound memory.
 *
 * prepare.c (with unmerged.c and spelled.c) makes the graph easier (views sink towards leaves, updates become sets), group.c
 * decides which nodes share a kernel, place.c where values stand in memory, emit.c writes the kernel of a group, contraction.c,
 * blocks.c, chain.c and maker.c and summed.c products of matrices, attention_find.c and attention_step.c attention on devices,
 * copy_kernel.c, scatter.c (with scatter_runs.c), prefix_kernel.c and loop_step.c (with body.c, lane.c, scan.c, loop_rows.c,
 * small.c) those of their ops, draft.c is what they write on, memory_plan.c which values may share memory. What comes out
 * (struct schedule) is steps (step.h) and refers to no nodes: a plan keeps it, binds leaves to it and runs it as often as it
 * likes. */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H
#include "base/arena.h"
#include "op/op.h"
#include "rewrite/rewrite.h"
#include "schedule/step.h"

/* Memory that steps read or write: a leaf of the graph, or allocated by the plan. */
struct store {
  int leaf;          /* index among the leaves, or -1: allocated by the plan */
  int64_t bytes;     /* of an allocated one; of a leaf that stands dense, row by row, its elements; else 0 */
  int64_t offset;    /* allocated and no output: its place in the plan's block of memory */
  bool is_output;    /* becomes the buffer of targets: allocated on its own */
  int target;        /* an output: the last of them */
  int first, last;   /* steps between which it is alive */
};

/* Where an array stands: element i at offset + sum i_k stride[k] of a store, in elements. store -1: nowhere. */
struct place { int store; int64_t offset; int64_t stride[WEFT_RANK_MAX]; };

/* An output may stand in the memory of a leaf that nobody needs any more: no step from `step` on, which is the first to
 * change it, reads what the leaf held, but where it writes. */
struct gift { int from, to, step; }; /* stores; in order of `to` */

struct output { struct place place; bool is_number; uint64_t bits; }; /* of a target; a number: its pattern, broadcast */

struct schedule {
  int n_steps, n_stores, n_leaves, n_targets;
  struct step *step;
  struct store *store;
  struct output *output;         /* by target */
  int64_t block_bytes;           /* allocated stores that are no outputs, together */
  int n_gifts;
  struct gift *gift;
  struct step_cost cost;         /* of all steps */
};

/* list: rewritten local nodes, inputs before users; leaves have their number in `serial`, and stand at leaf_place.
 * NULL: *failure says why (the caller's), or there is no memory. */
struct schedule_options {
  bool fuse;                     /* false: one op a kernel */
  bool by_patches;               /* false: products of matrices are kernels in KIR too */
  bool by_library;               /* those that a CBLAS can read are its */
  bool is_loose;                 /* sums of products of halves may be in the machine's order */
  bool tf32;                     /* .. and of f32, whose factors are rounded first: on a device */
  enum rule_tag rewrites;        /* of the bodies of loops */
  const struct device *device;   /* NULL: the host */
};
struct schedule *schedule_make(struct arena *, struct node_list *list, int n_targets, struct node *const target[],
                               int n_leaves, const struct place leaf_place[], const struct schedule_options *,
                               struct failure **);
void schedule_drop_kernels(struct schedule *); /* of its steps, those in bodies of loops too; NULL: nothing */

/* Arrays of fewer bytes are not worth a gift. For tests: 0: all are; INT64_MAX: none is, in schedules made from now on. */
int64_t gift_least(void);
void gift_set_least(int64_t bytes);

#endif
