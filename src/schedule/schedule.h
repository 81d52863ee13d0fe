/* schedule.h -- from a graph of local nodes to a list of kernels on bound memory.
 *
 * prepare.c makes the graph easier (views sink towards leaves, updates become sets), group.c decides which nodes share a
 * kernel, place.c where values stand in memory, emit.c writes the kernel of a group, contraction.c, blocks.c, chain.c and
 * maker.c products of matrices, copy.c, scatter.c, prefix.c and loop.c (with body.c, lane.c, scan.c, loop_rows.c, small.c) those
 * of their ops, draft.c is what they write on, memory.c which values may share memory. What comes out (struct schedule)
 * refers to no nodes: a plan keeps it, binds leaves to it and runs it as often as it likes. */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H
#include "backend/backend.h"
#include "base/arena.h"
#include "op/op.h"
#include "rewrite/rewrite.h"

enum { AXES = BACKEND_RANK };

/* Memory that steps read or write: a leaf of the graph, or allocated by the plan. */
struct store {
  int leaf;          /* index among the leaves, or -1: allocated by the plan */
  int64_t bytes;     /* of an allocated one; of a leaf that stands dense, row by row, its elements; else 0 */
  int64_t offset;    /* allocated and no output: its place in the plan's block of memory */
  bool is_output;    /* becomes the buffer of targets: allocated on its own */
  int first, last;   /* steps between which it is alive */
};

/* Where an array stands: element i at offset + sum i_k stride[k] of a store, in elements. store -1: nowhere. */
struct place { int store; int64_t offset; int64_t stride[WEFT_RANK_MAX]; };

struct binding { int store; int64_t offset; int64_t stride[AXES]; }; /* of one kernel buffer, in elements */

struct site { const char *text; uint64_t origin; int64_t bound; };   /* of a check: what failed, whose, the size */

/* A kernel that computes an operand of a product, piece by piece while it is packed; as a whole that stands nowhere. The first
 * n_axes of the kernel's sizes are the extents of the piece; -1: the operand does not move along an axis. */
struct maker {
  int step;                      /* whose kernel it is: it runs as part of the product */
  int piece;                     /* the buffer that is the piece */
  bool is_by_rows;               /* elements of a row of the operand are neighbours in a piece, else those of a column */
  int n_axes, row_axis, column_axis, batch_axis[AXES]; /* axes of the kernel */
  int start[AXES];               /* by axis of the kernel: the size that is the index where a piece begins; -1: not asked for */
};

/* A product of matrices that is no kernel in KIR: y[..,i,j] = sum over k of a[..,i,k] b[..,k,j], by patches of a back end
 * (backend/patch.h). If the step has a kernel, that goes on with y: it runs over one cell of it after the other, and y
 * as a whole stands nowhere. */
struct contraction {
  weft_dtype a_dtype, b_dtype;   /* sums are of their register dtype, which is the same */
  bool is_turned;                /* y' = b' a' is computed: few columns */
  int n_batch;
  int64_t batch[AXES], m, n, k;
  struct binding a, b, y;        /* strides: of the batch axes, then of the matrix. y.store -1: for the kernel only */
  const struct maker *maker[2];  /* of a, of b; NULL: it stands in memory */
  bool has_whole_rows;           /* a cell has all columns: the kernel folds rows */
  bool has_still;                /* the kernel stores something that is the same for several cells: each writes it, one by one */
  bool feeds, is_fed;            /* the kernel's one result is, row by row, the left operand of the next step, which runs both:
                                    a whole it stands nowhere */
  int fed;                       /* feeds: the buffer that is this result */
  bool is_banded;                /* feeds: what it gives is 0 beyond column i + band of row i, whatever y is there */
  int64_t band;
  /* Of the kernel: the first n_axes of its sizes are the extents of batch axes, rows, columns, without those that are 1. */
  int n_axes, row_axis, column_axis; /* -1: length 1 */
  int cell;                      /* the buffer that is y */
  int start[AXES];               /* by axis: the size that is the index where a cell begins; -1: not asked for */
};

struct step {
  struct kir_kernel *kernel;     /* verified and legalised by whoever compiles it; lives in its own arena */
  struct shape_class shape;
  int n_sites;
  int64_t *sizes;
  uint64_t *args;                /* numbers, as patterns of their register dtypes */
  struct binding *bufs;
  struct site *site;
  struct replay *replay;         /* not NULL: no kernel, a loop run step by step */
  struct contraction *contraction; /* not NULL: a product, and the kernel, if any, goes on with it */
  int64_t parts;                 /* so many steps write one array together; 0: it is not so */
  bool is_copy;                  /* moves elements and does nothing else */
  bool is_maker;                 /* runs as part of the product whose operand it computes */
};

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
  int64_t moved_bytes;           /* read and written by the kernels if nothing stays in a cache */
  int64_t operations;
  int64_t by_patches;            /* of the operations: those of products, many at a time */
};

/* A loop that is run step by step on the schedule of its body. Leaves of the body: sequences, carries, constants;
 * targets: next carries, stacked outputs, until. Carries go to and fro between two stores each, which begin with the
 * initial value in the first. */
struct replay {
  struct schedule *body;
  int n_seq, n_carry, n_const, n_all;
  bool has_until;
  int64_t steps;                 /* at most */
  struct binding count;          /* store >= 0: as many as stands there */
  weft_dtype count_dtype;
  struct binding *in;            /* by leaf; stride[0] of sequences: from step to step */
  int64_t *leaf_size, *all_size; /* bytes of an element */
  int64_t *carry_bytes;
  struct binding *all, *last;    /* stacked outputs (stride[0] from step to step), final carries; store -1: not wanted */
  struct binding length;         /* store -1: not wanted */
  int *ping;                     /* two stores a carry */
  int body_block, spare;         /* memory of the body's own; of until */
};

/* list: rewritten local nodes, inputs before users; leaves have their number in `serial`, and stand at leaf_place.
 * NULL: *failure says why (the caller's), or there is no memory. */
struct schedule_options {
  bool fuse;                     /* false: one op a kernel */
  bool by_patches;               /* false: products of matrices are kernels in KIR too */
  enum rule_tag rewrites;        /* of the bodies of loops */
};
struct schedule *schedule_make(struct arena *, struct node_list *list, int n_targets, struct node *const target[],
                               int n_leaves, const struct place leaf_place[], const struct schedule_options *,
                               struct failure **);
void schedule_drop_kernels(struct schedule *); /* of its steps, those in bodies of loops too; NULL: nothing */

/* Arrays of fewer bytes are not worth a gift. For tests: 0: all are; INT64_MAX: none is, in schedules made from now on. */
int64_t gift_least(void);
void gift_set_least(int64_t bytes);

#endif
