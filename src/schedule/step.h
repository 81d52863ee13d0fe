/* step.h -- a step of a schedule, and the kinds of steps there are.
 *
 * A step refers to stores by number, and to no nodes. What it is, its kind says: which stores it touches, how it is compiled,
 * run and shown, whether it may fail. The memory plan, donation, devices and checks ask the kind; nobody looks whether a step
 * is a product or a loop but the file of that kind. */
#ifndef WEFT_SCHEDULE_STEP_H
#define WEFT_SCHEDULE_STEP_H
#include <string.h>
#include "backend/backend.h"
#include "graph/fail.h"
#include "op/op.h"

enum { AXES = BACKEND_RANK, STEPS_ABREAST = 8 };

enum store_use { STORE_READ = 1, STORE_WRITTEN = 2, STORE_BOTH = 3 };

/* An array as a step reads or writes it, in elements; of a kernel's buffer. */
struct binding { int store; enum store_use use; int64_t offset; int64_t stride[AXES]; };

static inline bool binding_is_same(const struct binding *a, const struct binding *b) { /* but for the store */
  return a->offset == b->offset && !memcmp(a->stride, b->stride, sizeof a->stride);
}

struct site {                    /* of a check: */
  const char *text;              /* what failed, .. */
  uint64_t origin;               /* .. whose, .. */
  int64_t bound, a_step;         /* .. the size; in a loop of the kernel's: so many indices a step, counted through. 0: in none */
  bool is_backward;              /* .. and the loop goes back through another */
  bool is_window;                /* an index may be less than it was given by WINDOW_FAR */
  bool is_told;                  /* the text is all there is to say, with that status */
  weft_status status;
};

struct schedule;
struct step;
struct plan;
struct run;
struct text;
typedef void store_visitor(void *of, int *store, enum store_use);

/* What is true of all steps of one kind. A kind is a file of run/, which ends with its struct. */
struct step_kind {
  const char *name;
  enum {
    STEP_WHERE_COMPILED,         /* on the device, if its kernel could be compiled for it, or a routine is there for it */
    STEP_WHERE_ITS_BODY,         /* on the device, if all of its body is there */
    STEP_ON_HOST,                /* on memory of the host, whatever the plan is for */
    STEP_BY_CALLER               /* the same, and on the thread that asks for the result, not in the background */
  } where;
  /* Every store that the step reads or writes, itself or through what runs as part of it. A kind that touches a store and does
   * not say so here gets memory that others use. Stores that are -1 are not shown; the visitor may put another number in their
   * place. */
  void (*stores)(struct schedule *, struct step *, store_visitor *, void *of);
  bool (*may_overwrite)(const struct step *, int from, int to); /* reads store `from` just where it writes `to`, and before;
                                    while the kernel is not compiled. NULL: never */
  void (*drop)(struct step *);   /* frees what it owns beside its schedule's arena; NULL: nothing */
  bool (*compile)(struct plan *, int step, struct failure **); /* once, before it runs. NULL: nothing to do; false: out of
                                    memory, or *failure says what else */
  struct failure *(*run)(const struct plan *, int step, struct run *, uint8_t *const base[]); /* base: of stores, where it
                                    runs. NULL: it runs as part of another */
  /* How many steps from this one on are better run at the same time, each by one thread, where no memory of leaves is given to
   * outputs; at most STEPS_ABREAST. NULL: it is run alone. */
  int (*abreast)(const struct plan *, int step, int threads);
  int64_t (*scratch)(const struct plan *, int step, int threads); /* bytes it takes to work in, at most; NULL: none */
  int (*checks)(const struct plan *, int step); /* so many, on a device; NULL: one a site */
  struct failure *(*found)(const struct plan *, int step, int check, const struct finding_words *); /* what their words say; NULL:
                                    that of its site */
  bool (*looks)(const struct plan *, int step); /* on a device: it waits for values, to look at them; NULL: it does not */
  bool (*may_fail)(const struct plan *, int step); /* for want of memory, by a check, or stopped; NULL: it may */
  int (*library_calls)(const struct plan *, int step); /* of somebody else's code, as this thread's settings are; NULL: none */
  void (*show)(const struct plan *, int step, struct text *);
  void (*show_code)(const struct plan *, int step, bool is_machine_code, struct text *); /* on a device, PTX otherwise; NULL: it
                                              has none but its kernel's */
};
extern const struct step_kind step_kernel, step_product, step_library_product, step_maker, step_replay, step_library,
  step_host; /* run/ */

struct step_cost {
  int64_t moved_bytes;           /* read and written if nothing stays in a cache */
  int64_t operations;
  int64_t effort;                /* the same in units of time: those that go many at a time count less */
};

struct step {
  const struct step_kind *kind;
  uint64_t origin;               /* of the last node that it computes, for failures; 0: nobody's */
  struct step_cost cost;         /* where several steps are one node's: all of it with the last */
  /* Of kernels, those of products among them: */
  struct kir_kernel *kernel;     /* verified and legalised by whoever compiles it, and NULL from then on; lives in its own arena */
  struct shape_class shape;
  int n_bufs, n_sites;           /* n_bufs: those that stand in memory; they are the kernel's first */
  int64_t *sizes;
  uint64_t *args;                /* numbers, as patterns of their register dtypes */
  struct binding *bufs;
  struct site *site;
  int64_t parts;                 /* so many steps write one array together; 0: it is not so */
  bool is_copy;                  /* moves elements and does nothing else */
  bool is_for_device;            /* threads of a device run it, whose loads and stores have no order but that of each thread */
  union {
    struct contraction *contraction; /* of a product; the kernel, if any, goes on with it */
    struct replay *replay;
    struct library_step *library;
  };
};

/* step.c: steps, whatever kind they are */
void step_stores(struct schedule *, int step, store_visitor *, void *of); /* what the kind says */
bool step_writes(struct schedule *, int step, int store);
void steps_behind(struct schedule *, int store, bool is_store[], bool is_step[]); /* what a store is made of and by, itself among
                                    them; steps that write no store are behind all */
static inline bool step_is_product(const struct step *s) { return s->kind == &step_product || s->kind == &step_library_product; }
static inline void see_store(int *store, enum store_use use, store_visitor *v, void *of) { if (*store >= 0) v(of, store, use); }
bool step_may_overwrite(const struct step *, int from, int to);  /* see struct step_kind */
bool step_is_copy_within(const struct step *, int from, int to); /* would move nothing if both were the same memory */

/* ---- Of products ---- */

/* A kernel that computes an operand of a product, piece by piece while it is packed; as a whole that stands nowhere. The first
 * n_axes of the kernel's sizes are the extents of the piece; -1: the operand does not move along an axis. */
struct maker {
  int step;                      /* whose kernel it is: it runs as part of the product */
  int piece;                     /* the buffer that is the piece */
  bool is_by_rows;               /* elements of a row of the operand are neighbours in a piece, else those of a column */
  int n_axes, row_axis, column_axis, batch_axis[AXES]; /* axes of the kernel */
  int start[AXES];               /* by axis of the kernel: the size that is the index where a piece begins; -1: not asked for */
};

/* The left operand of a product as it stands in an array of more axes: windows of it overlap, so no two strides say where rows and
 * terms are. Row i is at the i-th place of the axes of rows, counted through with the last one fastest, and so is term k. In
 * elements. */
enum { WINDOW_AXES = 4 };
struct windows {
  int n_rows, n_terms;           /* axes */
  int64_t rows[WINDOW_AXES], row[WINDOW_AXES];   /* lengths, and how far it is from one to the next */
  int64_t terms[WINDOW_AXES], term[WINDOW_AXES]; /* the last ones are neighbours */
  const uint8_t *is_zero;        /* by row and block of terms (KIR_PRODUCT_BLOCK): whether all of it is padding of zeros, */
  int64_t period;                /* .. which is the same after so many rows; NULL: there is no such block */
};

/* One more product of the same shape, whose sums are added to those before it. */
struct addend { struct binding a, b; };

/* A product of matrices that is no kernel in KIR: y[..,i,j] = sum over k of a[..,i,k] b[..,k,j], by patches of a back end
 * (backend/patch.h). If the step has a kernel, that goes on with y: it runs over one cell of it after the other, and y
 * as a whole stands nowhere. */
struct contraction {
  weft_dtype a_dtype, b_dtype;   /* sums are of their register dtype, which is the same */
  bool is_turned;                /* y' = b' a' is computed: few columns */
  int n_batch;
  int64_t batch[AXES], m, n, k;
  struct binding a, b, y;        /* strides: of the batch axes, then of the matrix. y.store -1: for the kernel only */
  int n_more;
  struct addend *more;             /* y = a b + a1 b1 + .., in this order, each of at most a block of terms */
  const struct maker *maker[2];  /* of a, of b; NULL: it stands in memory */
  const struct windows *windows; /* of a, instead of its strides; NULL: it has these */
  int64_t b_run;                 /* rows i b_run .. of b stand one element behind those of i - 1: [k, n] is read from
                                    [n, b_run, k / b_run], whose last two axes are neighbours and change places. 0: rows are as
                                    far apart as b says */
  int64_t b_first;               /* b stands in two places: its rows, if b_splits_rows, or columns from this one on are `rest`.
                                    0: in one */
  bool b_splits_rows;
  struct binding rest;           /* store -1: there is none */
  bool is_far;                   /* b is one of so many matrices that no cache holds it from run to run */
  int n_abreast;                 /* so many steps from this one on may run at the same time (abreast.c); 0: not known of it */
  bool is_loose;                 /* of halves: sums may be in the machine's order */
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

/* ---- Of library steps ---- */

struct library_step {
  const struct op *op;           /* whose struct library it is */
  struct library_call call;      /* but for data */
  int *store;                    /* of its operands, then of its results; .. */
  int64_t *offset;               /* .. and where in it they begin, in bytes. They stand dense */
};

/* ---- Of replays ---- */

/* A loop that is run step by step on the schedule of its body. Leaves of the body: sequences, carries, constants;
 * targets: next carries, stacked outputs, until. Carries go to and fro between two stores each, which begin with the
 * initial value in the first. */
struct replay {
  struct schedule *body;
  int n_seq, n_carry, n_const, n_all;
  bool has_until, is_branch, is_backward; /* is_backward: it begins with the last row of all that moves */
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

#endif
