/* nest.h -- what an encoder of machine code wants to know of a kernel before it writes: its values and which of them cross a loop,
 * its loads and stores and how their addresses move, its loops, the regions between them, folds, rows that are kept, and where
 * all that is in memory stands in one block, the frame. It knows vectors of some number of lanes, and no instruction.
 *
 * A value lives in one of three domains. Scalar: i64 and u64 that are the same in all lanes. Vector: all else; a value that is the
 * same in all lanes fills them all. Bool: a mask. Whoever encodes says how each is held in registers. */
#ifndef WEFT_NEST_H
#define WEFT_NEST_H
#include "backend/backend.h"
#include "base/arena.h"

enum {
  COPIES = 8,          /* most copies of a lane body */
  NEVER = 1 << 30,     /* position of the next use of a value that has none */
  PARTS = 8, MAX_DEPTH = 16, MAX_NEXTS = 64
};

/* The head of the frame; what follows depends on the kernel. */
enum { FRAME_LO = 0, FRAME_HI = 8, FRAME_CANCEL = 16, FRAME_CHECKS = 24, FRAME_STREAMS = 32, FRAME_VALUES = 40 };

enum domain { SCALAR, VECTOR, BOOL };
struct gen_value {
  uint8_t domain, dtype;
  bool lane;         /* differs between lanes: a register a copy */
  bool crosses;      /* used outside the run of statements that defines it: stored to its home when defined */
  bool is_fixed;     /* short rows: the same in all of them, computed before */
  bool repeats;      /* short rows: the same in all rows, a register a vector */
  bool is_operand;   /* axes: used as a value, not only in subscripts */
  bool hoisted;      /* of a lane loop, the same in all its lanes: computed before it */
  bool moves;        /* goes on as it is: stored, selected, kept, carried .. */
  bool is_quiet;     /* made by arithmetic: no signalling NaN */
  bool is_counted;   /* computed and not yet read for the last time, while these are counted */
  bool of_loop;      /* or a fold's result: defined by a loop, not by a statement of a run */
  bool in_aside;     /* of an instruction in an if */
  bool is_magnitude; /* of abs */
  bool divides;      /* an arg that numbers of a loop are divided by: its reciprocal is behind it */
  int square;        /* of a root: the value it is of + 1, 0: it is none */
  const struct kir_stmt *stand_in; /* of aside.c or guess.c, in its run for the one it is the result of; NULL: none */
  int aside_label;   /* of its instructions + 1, 0: none yet */
  int region, loop;  /* where it is defined; -2: always there */
  int32_t home;      /* frame offset, -1: none */
  int row;           /* kept row, -1: none */
  int access;        /* of the load it comes from + 1, 0: none */
  int pin;           /* carries: first register, -1: in its home */
  int want;          /* register of the carry it is the next value of, -1: none */
  int32_t pool;      /* literals: offset in the pool + 1, 0: not there yet */
};

enum lane_class { LANE_NONE, LANE_UNIT, LANE_BACK, LANE_ANY, LANE_ZERO, LANE_INDEX }; /* INDEX: as values of the lanes say */
enum { OWNER_START = -1, OWNER_USE = -2, OWNER_FN = -3 };
struct gen_access {
  const struct kir_stmt *stmt;
  int owner;             /* loop at whose entry the address is computed and along which it steps */
  int lane;              /* enclosing lane loop, -1: none */
  enum lane_class cls;
  int element;           /* log2 of bytes */
  bool narrow;           /* stored in fewer bits than the register dtype */
  bool is_guarded;       /* in an if of its lane loop */
  int32_t tile;          /* slots of a tile, or of T steps, in its place; 0: none */
  int32_t pointer, step, lane_step, entry; /* slots */
  int8_t step_reg, steps_reg; /* short rows: hold the step, and three steps */
  int8_t reg;            /* general register that holds it inside an innermost loop, -1: none */
  int next;              /* of the same owner */
};

/* A fold or a prefix: slots by part, of which one combined by a fn has as many as that takes pairs of. */
struct gen_fold {
  const struct kir_stmt *stmt;
  int n, first;              /* parts; which of the loop's is the first */
  int pin;                   /* fold: first register of its accumulators, -1: in memory */
  bool is_apart;             /* its accumulators are not the home of its result */
  int32_t acc[PARTS];        /* accumulators; prefix: so far in this block */
  int32_t total[PARTS], result[PARTS], elements[PARTS]; /* prefix: of the blocks before; so far; lanes on their way */
  int32_t filled, has_total; /* prefix by a fn: slots: whether there is anything in acc, in total */
  int32_t home[PARTS], after[PARTS];     /* prefix along lanes: homes inside its loop and outside */
};

struct gen_loop {
  const struct kir_stmt *stmt;
  int parent, depth, end;  /* end: first loop behind its body, in preorder */
  int lane;                /* the lane loop it is or stands in, -1: none */
  bool has_inner, is_outer, in_lane, is_flat; /* flat: a lane loop without loops inside */
  int accesses;            /* owned, a list */
  int first_memory, first_check; /* first load or store, check in it, in text order */
  int access_first, access_end; /* lane loops: the accesses inside */
  uint64_t rows;           /* lane loops: kept rows read or written */
  int hoist_region, n_hoisted; /* flat lane loops: what is computed before */
  bool has_effects, has_check; /* flat lane loops: a store, fold, keep or check of lanes was seen; a check is hoisted */
  bool has_lane_check, has_until; /* in it; in its body */
  bool has_turns;          /* serial: sequences that lie along it */
  int32_t var, last, extent, block, count, j, limit; /* slots */
  int32_t first;           /* slot: where a loop with prefixes began */
  struct gen_fold *folds, *prefixes;
  struct across *across;   /* folds in the order of the other kind of loop */
  int n_folds, n_prefixes, n_across, fold_room, prefix_room, across_room;
  int n_parts;             /* of all folds */
  int32_t counter;
  int n_tiles;             /* accesses of the lane loop inside that read tiles; slots of the tile being gone through: */
  int32_t tile_first, tile_from, tile_to, tile_extent; /* its first row, lanes from, to; all lanes */
  int group;               /* short rows: how many side by side; 0: its rows are not short */
  int copies;              /* lane loops with folds: most copies of the body */
  bool in_one;             /* the row being emitted fits one vector: one accumulator a fold */
};

struct across { struct gen_fold fold; struct gen_loop blocks; };

/* A kept row: its slot, its extent is loop's. One in place is the input it was loaded from, read again. */
struct kept_row { int value, loop, bytes; int32_t pointer; bool in_place; };

/* One statement of a run, the mask it acts under, and the positions of the next uses of what it reads and writes. */
enum { MASK_USE = 3, SAVED_LOOP = 16 }; /* g->saved: two registers while lanes are gone through, and two around that */
struct gen_step {
  const struct kir_stmt *s;
  int access, site;      /* of a load or store, a check */
  int mask, mask_after;  /* values, -1: all lanes act. A check or until changes it */
  bool is_dead, in_lanes; /* short rows: it is done for each copy */
  int32_t next_in[MASK_USE + 1], next_out;
};

struct nest {
  const struct kir_kernel *k;
  const struct shape_class *shape;
  struct arena *arena;
  const char *why;           /* set: cannot */
  bool no_memory;
  const struct kir_stmt *outer;
  bool wide;                 /* a vector value has 64-bit elements */
  bool is_latent;            /* no lanes: what counts is when a number is there */
  bool reads_args;           /* an argument is read where the launch has put it, once for all lanes */
  int lanes, vector_bytes;   /* G; bytes of a vector slot */
  struct gen_value *vals;
  struct gen_access *accesses;
  int n_accesses, access_room;
  int *access_of;            /* by load or store in text order */
  int n_memory, memory_room;
  int *fn_memory;            /* by fn: its first load in access_of */
  int first_memory;          /* the first one of the kernel itself */
  bool *hoisted_check;       /* by check in text order */
  int n_checks, check_room;
  struct gen_loop *loops;
  int n_loops, loop_room;
  struct kept_row *rows;
  int n_rows, row_room;
  int n_regions;

  int32_t frame, scalar_at, scalar_end;
  bool is_private[32];
  int32_t *data_at;          /* by buffer: slot of its address; strides in bytes follow */
  int32_t *spare;            /* free vector slots */
  int n_spare, spare_room;
};

static inline bool nest_is_literal(const struct nest *n, int val) {
  return val < n->k->n_vals && n->k->vals[val].kind == KIR_LIT;
}
static inline bool nest_reads_as_given(const struct nest *n, int val) {
  return n->reads_args && val < n->k->n_vals && n->k->vals[val].kind == KIR_ARG && n->vals[val].domain == VECTOR;
}
int dtype_bytes(int dtype);     /* of an element in memory */
int lane_bytes(int dtype);      /* of an element in a vector register: 4 or 8 */
uint8_t domain_of(int dtype, bool lane);

/* frame.c */
void nest_cannot(struct nest *, const char *why);
bool nest_grow(struct nest *, void **array, int *room, int n, size_t size);
int32_t nest_slot_scalar(struct nest *);
int32_t nest_slot_vector(struct nest *, int n);
int32_t nest_slot_spare(struct nest *);
void nest_slot_release(struct nest *, int32_t);

/* analyse.c */
void nest_find(struct nest *);                  /* all of it but homes of values */
void nest_place_homes(struct nest *);           /* once the number of lanes is known */
int nest_stride_class(const struct nest *, int buf, int axis);
bool nest_term_varies(const struct nest *, const struct kir_term *); /* between lanes */
bool fold_is_across(const struct gen_loop *, const struct kir_stmt *);
void nest_view_prefixes(struct nest *, int lane_loop); /* what prefixes along lanes are there; -1: outside */

/* stand_in.c: ifs and divisions that another statement stands for in their run */
bool nest_note_aside(struct nest *, const struct kir_stmt *);  /* whether this if is a statement of its run */
const struct kir_stmt *nest_aside_of(const struct nest *, const struct kir_stmt *); /* as such a statement; NULL: it is none */
const struct kir_stmt *nest_note_guess(struct nest *, const struct kir_stmt *); /* that statement, or one that stands for it */

#endif
