/* emission.h -- what is being written: a run of statements between loops, copy by copy of the lanes, and which register holds what
 * meanwhile. It knows registers by their numbers and no instruction: an encoder's state begins with a struct emission, and what it
 * has to write for it, it does in the functions of struct machine.
 *
 * Of a value there are COPIES copies at most: an id is value * COPIES + copy. Positions are those of statements in the run. */
#ifndef WEFT_EMISSION_H
#define WEFT_EMISSION_H
#include "backend/nest/nest.h"

enum {
  MAX_ACTIVE = 72,           /* masks of blocks inside each other */
  REGISTERS_MOST = 64        /* of all kinds together: sets of them are 64 bits */
};

/* Vectors, and masks where they have registers of their own; where they have none, a mask is held in a vector. */
enum register_kind { IN_VECTORS, IN_MASKS, REGISTER_KINDS };

struct emission;

/* What the allocation must know of a processor. */
struct machine {
  uint64_t registers[REGISTER_KINDS];                            /* those that may be given out; the others are fixed */
  void (*store)(struct emission *, int dtype, int reg, int32_t slot); /* all lanes of a register, to a slot of the frame */
  void (*load)(struct emission *, int val, int copy, int reg);        /* from wherever it is in memory, or a literal */
  void (*spread)(struct emission *, int row, int reg, int packed);    /* short rows: a row's part of a packed value, in all lanes */
};

struct emission {
  struct nest;               /* what is known of the kernel: its members are those of struct emission too. First */
  const struct machine *machine;

  /* Where in the kernel */
  int memory_cursor, check_cursor;
  int loop;                  /* innermost being emitted, -1: none */
  int lane_loop;             /* being emitted, -1: none */
  int copies;                /* of the body being emitted */
  int active;                /* value: the lanes that act, -1: all */
  int tail;                  /* of the lane body being emitted: those of its lanes that are there, -1: all */
  int active_at_loop;        /* when an iteration of the innermost loop begins */
  int n_active;              /* masks in use: values from kernel->n_vals on */
  int careful;               /* label of the body that looks lane by lane who may go on; others expect all to. -1: all look */
  int short_loop;            /* whose rows are being emitted, -1: none; rows side by side, vectors of a row, its lanes: */
  int group, vectors, row_mask;

  /* The run, and the statement being emitted */
  struct gen_step *steps;
  int step_room;
  int32_t *upcoming;         /* by value, while next uses are looked for */
  const struct gen_step *now;
  int now_copy, now_copies, now_at;
  int want;                  /* register its result should go to, -1: any */

  /* Registers */
  uint64_t pinned, locked, temps; /* last; hold operands of this statement; hold what it needs on the way */
  int32_t holder[REGISTERS_MOST]; /* id, or -1 */
  int8_t *where;             /* by id: register or -1 */
  int32_t *spill, *next;     /* by id: slot or -1; position of its next use */
  int *spilled;              /* what has a spill slot, or had one, in this run */
  int n_spilled, spilled_room;
  int32_t freed[8];          /* slots that the statement read for the last time: free once it is emitted */
  int n_freed;
  bool is_crowded;           /* a statement found too few registers */
};

static inline struct nest *nest_in(struct emission *r) { return (struct nest *)r; }
static inline const struct nest *nest_seen_in(const struct emission *r) { return (const struct nest *)r; }
static inline int value_id(const struct emission *r, int val, int copy) {
  const struct gen_value *v = &r->vals[val];
  return val * COPIES + (!v->lane ? 0 : v->repeats && r->short_loop >= 0 ? copy % r->vectors : copy);
}

/* steps.c: which statements there are, under which mask they act, and where their operands and results are used next */
bool emission_open(struct emission *);                         /* what is kept by value and id; false: memory */
bool has_result(const struct kir_stmt *);
bool reads_memory(const struct kir_stmt *);
bool is_apart(const struct emission *, const struct kir_stmt *);   /* takes turns with itself: no statement of a run */
bool ends_run(const struct emission *, const struct kir_stmt *);   /* a loop, a branch, or what is apart */
int mask_for(const struct emission *, const struct kir_stmt *, int active); /* that a statement acts under; -1: all lanes */
int steps_collect(struct emission *, const struct kir_stmt *first, bool hoisted); /* up to where it ends: the number of steps */
int steps_collect_fn(struct emission *, const struct kir_fn *, int memory); /* the steps of a fn, with their next uses */
int steps_collect_row(struct emission *, const struct kir_block *, int n, bool in_lanes, bool fixed); /* short rows */
void steps_find_next_uses(struct emission *, int n);
void steps_lend_carries(struct emission *, int n, const struct kir_stmt *next, bool on);
int step_copies(const struct emission *, const struct gen_step *);  /* how often a statement is emitted */
bool value_is_packed(const struct emission *, int val);     /* short rows: the current statement's lanes want a row's part of it */
int active_value(struct emission *);                      /* a mask without value yet; also counts in n_active */

/* next_use.c: see there */
enum register_kind register_kind(const struct emission *, int val);
bool comes_from_row(const struct emission *, int val);    /* a lane loop before this one has kept it */
void registers_clear(struct emission *);                  /* a run begins or ends: only what is pinned is held */
void registers_forget(struct emission *, int id);         /* what is in registers is old */
int registers_take(struct emission *, enum register_kind);
int registers_lock(struct emission *, int reg);           /* it is a temporary now */
int registers_temp(struct emission *, enum register_kind); /* until the statement ends */
int registers_hold(struct emission *, int val, int copy); /* a register that holds the value; locked until `registers_release` */
bool registers_operand_dies(const struct emission *, int operand); /* of the current statement, in a register nobody needs later */
void registers_release(struct emission *);                /* operands of the current statement are read */
int registers_result(struct emission *);                  /* for the result; may be the register of a released operand */
int registers_fresh(struct emission *);                   /* for the result; unlike any operand */
void registers_put(struct emission *, int id, int reg);   /* it is there now */
void registers_defined(struct emission *, int reg);       /* the current statement's result is there, and stored where it must be */
void registers_end(struct emission *);                    /* gives back what only the current statement needed */

#endif
