/* gen.h -- the state of one compilation: what is known of the kernel's values, memory accesses and loops, where things
 * live in the frame, and which register holds what.
 *
 * A kernel becomes one function of one argument, the frame: a block of memory that holds everything the code needs
 * (part, sizes, args, buffer addresses and strides in bytes, rows) and every slot it uses. RBX points to it.
 *
 * A value lives in one of three domains. Scalar: i64 and u64 that are the same in all lanes, in 8-byte slots, computed
 * in general registers. Vector: all else, G lanes in one register; a value that is the same in all lanes fills them
 * all. Bool: a vector of masks of 32 bits (AVX2), a mask register (AVX-512). G is chosen once a kernel, so that the
 * widest lane value fills a register; narrower ones then fill a part of one.
 *
 * A lane loop is emitted three times: U interleaved copies of G lanes, one copy, and one copy under a mask. Which lanes
 * act is a bool value of the encoder's own: in the last body of a lane loop, in an if, after a check or an until. */
#ifndef WEFT_X86_GEN_H
#define WEFT_X86_GEN_H
#include "backend/backend.h"
#include "backend/x86/encode.h"
#include "base/arena.h"

enum {
  COPIES = 8,          /* most copies of a lane body */
  VECTORS = 32, MASKS = 8, REGISTERS = VECTORS + MASKS,
  MASK_BASE = VECTORS, /* register number of k0 in the allocator */
  NEVER = 1 << 30,     /* position of the next use of a value that has none */
  LEVELS = 40,         /* of the tree of blocks: 2^40 are more than memory holds */
  PARTS = 8, MAX_DEPTH = 16, MAX_NEXTS = 64,
  COMBINE_TEMPS = 3,   /* vector registers that `combine` takes at most */
  MAX_ACTIVE = 72,     /* masks of blocks inside each other */
  INVARIANTS = 12,     /* values of a lane loop that all its lanes share, in registers */
  NEXT_ROWS = 4,       /* inputs of the row after this one that are fetched */
  POINTERS = 8,        /* addresses that an innermost loop keeps in general registers */
  FETCH_AHEAD = 64,    /* elements between an index that is read ahead and the one of the moment */
  TURN_COPIES = 2      /* most copies of lanes around a loop with turned sequences */
};

/* The head of the frame; what follows depends on the kernel. */
enum { FRAME_LO = 0, FRAME_HI = 8, FRAME_CANCEL = 16, FRAME_CHECKS = 24, FRAME_STREAMS = 32, FRAME_VALUES = 40 };

enum { CMP_EQ = 0, CMP_LT = 17, CMP_LE = 18, CMP_NE = 4, CMP_UNORD = 3, CMP_ORD = 7, CMP_GE = 29, CMP_NLT = 21,
       CMP_NE_ORDERED = 12 }; /* quiet */

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

struct mark { uint32_t at; const struct kir_stmt *stmt; }; /* for the listing */

/* One statement of a run, the mask it acts under, and the positions of the next uses of what it reads and writes. */
enum { MASK_USE = 3, SAVED_LOOP = 16 }; /* g->saved: two registers while lanes are gone through, and two around that */
struct gen_step {
  const struct kir_stmt *s;
  int access, site;      /* of a load or store, a check */
  int mask, mask_after;  /* values, -1: all lanes act. A check or until changes it */
  bool is_dead, in_lanes; /* short rows: it is done for each copy */
  int32_t next_in[MASK_USE + 1], next_out;
};

struct gen {
  struct encoder e;
  bool has_range;            /* vrange is there, even if masks are vectors */
  bool is_latent;            /* no lanes, masks are vectors: what counts is when a number is there */
  const struct kir_kernel *k;
  const struct shape_class *shape;
  struct arena *arena;
  const char *why;           /* set: cannot */
  bool is_crowded;           /* a statement found too few registers */
  bool no_pins;              /* nothing lasts in registers: second attempt */
  bool no_memory;
  bool is_whole, wants_whole; /* vectors of 64 bytes even if rows have 8 elements: these turned out to be of 64 bits */
  const struct kir_stmt *outer;

  int lanes, vector_bytes;   /* G; bytes of a vector slot */
  int n_vregs;
  bool wide;                 /* a vector value has 64-bit elements */

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
  int32_t tail_buffer;       /* two vector slots: elements on their way, and where they go */
  int32_t scratch, saved;    /* 8 bytes for moves between domains; general registers */
  int32_t pins_at;           /* registers that last, while squares are transposed; 0: never */
  int32_t turn_rows, turn_copies, turn_squares, turn_end; /* slots: lanes that are there, if not all; copies to go; squares
                                of a copy; the step behind them */

  /* Emission */
  int loop_cursor, memory_cursor, check_cursor;
  int copies;                /* of the body being emitted */
  int active;                /* value: the lanes that act, -1: all */
  int tail;                  /* of the lane body being emitted: those of its lanes that are there, -1: all */
  int active_at_loop;        /* when an iteration of the innermost loop begins */
  int n_active;              /* masks in use: values from kernel->n_vals on */
  bool is_fetching;          /* the body being emitted looks ahead */
  int careful;               /* label of the body that looks lane by lane who may go on; others expect all to. -1: all look */
  int short_loop;            /* whose rows are being emitted, -1: none; rows side by side, vectors of a row, its lanes: */
  int group, vectors, row_mask;
  bool is_streaming;         /* the body being emitted stores around the caches where it can */
  bool has_streams;          /* some body does */
  int lane_loop;             /* being emitted, -1: none */
  int loop;                  /* innermost being emitted, -1: none */
  int leave;                 /* label behind the serial loop being emitted */
  int finish;                /* label of the epilogue */
  int rest;                  /* label at the end of the block being emitted */
  uint64_t pinned, locked, temps;
  int32_t holder[REGISTERS]; /* value * COPIES + copy, or -1 */
  int8_t *where;             /* by value * COPIES + copy: register or -1 */
  int32_t *spill, *next;
  int *spilled;              /* what has a spill slot, or had one, in this run */
  int n_spilled, spilled_room;
  int32_t *upcoming;         /* by value */
  struct gen_step *steps;
  int step_room;
  const struct gen_step *now;    /* statement being emitted */
  int now_copy, now_copies, now_at;
  int want;                  /* register its result should go to, -1: any */
  int32_t freed[8];          /* slots it read for the last time: free once it is emitted */
  int n_freed;
  int invariants[INVARIANTS], n_invariants; /* pinned while a lane loop runs */
  struct { int8_t reg, element; } next_row[NEXT_ROWS]; /* inputs of the next row, fetched while the lane loop runs */
  int n_next_rows;
  const struct kir_stmt **asides; /* ifs that were called */
  int n_asides, aside_room;
  int32_t aside_at;          /* slot: what they are about, and then their value */
  size_t called, called_end; /* their code */
  int8_t *row_reg;           /* by row: general register, -1: none */
  struct mark *marks;
  int n_marks, mark_room;
};

static inline struct encoder *enc(struct gen *g) { return &g->e; }
static inline bool is_literal(const struct gen *g, int val) {
  return val < g->k->n_vals && g->k->vals[val].kind == KIR_LIT;
}
/* AVX-512 reads an argument where the launch has put it, once for all lanes. */
static inline bool is_read_as_given(const struct gen *g, int val) {
  return g->e.evex && val < g->k->n_vals && g->k->vals[val].kind == KIR_ARG && g->vals[val].domain == VECTOR;
}
static inline int id_of(const struct gen *g, int val, int copy) {
  const struct gen_value *v = &g->vals[val];
  return val * COPIES + (!v->lane ? 0 : v->repeats && g->short_loop >= 0 ? copy % g->vectors : copy);
}

/* gen.c */
void gen_cannot(struct gen *, const char *why);
bool gen_grow(struct gen *, void **array, int *room, int n, size_t size);
int dtype_bytes(int dtype);     /* of an element in memory */
int lane_bytes(int dtype);      /* of an element in a vector register: 4 or 8 */
int width_of(const struct gen *, int dtype); /* bytes of a vector of it */
int32_t slot_scalar(struct gen *);
int32_t slot_vector(struct gen *, int n);
int32_t slot_spare(struct gen *);
void slot_release(struct gen *, int32_t);
static inline struct rm in_frame(int32_t at) { return rm_at(RBX, at); }

/* analyse.c */
void analyse(struct gen *);
uint8_t domain_of(int dtype, bool lane);
int stride_class(const struct gen *, int buf, int axis);

/* registers.c */
void registers_clear(struct gen *);
int take_register(struct gen *, bool mask);
int temp(struct gen *);                        /* a vector register until the statement ends */
int temp_mask(struct gen *);
int lock_register(struct gen *, int reg);      /* it is a temporary now */
void reserve(struct gen *);                    /* registers that `combine` may take: in code that may be skipped or repeated */
int in_reg(struct gen *, int val, int copy);   /* a register that holds the value; locked until `release` */
struct rm in_rm(struct gen *, int val, int copy); /* register or memory: to be used by the very next instruction */
bool is_dying(struct gen *, int operand);      /* operand of the current statement, in a register nobody needs later */
void release(struct gen *);                    /* operands of the current statement are read */
int out_reg(struct gen *);                     /* for the result; may be the register of a released operand */
int fresh_reg(struct gen *);                   /* for the result; unlike any operand */
void statement_end(struct gen *);               /* gives back what only the current statement needed */
void define(struct gen *, int reg);            /* the current statement's result is there */
void define_value(struct gen *, int val, int copy, int reg);
void keep_value(struct gen *, int val);          /* stores all copies to the value's row */
void move_vector(struct gen *, int bytes, int dst, int src);
struct rm in_memory(struct gen *, int val, int copy); /* where the value is in memory */
void fill_register(struct gen *, int val, int copy, int reg, struct rm);
struct rm home_of(struct gen *, int val, int copy);
void pin(struct gen *, int reg);
void unpin(struct gen *, int reg);

/* scalar.c */
void scalar_load(struct gen *, int reg, int val);
void lin_eval(struct gen *, int reg, const struct kir_lin *);
bool scalar_op(struct gen *, const struct kir_stmt *); /* false: no operand or result is scalar */
bool term_varies(const struct gen *, const struct kir_term *); /* between lanes */
void scalar_combine(struct gen *, int op, bool is_signed);     /* RAX = op(RAX, RCX) */
void address_eval(struct gen *, const struct gen_access *, int skip); /* RDX = the address, without terms of value skip */
void address_step(struct gen *, const struct gen_access *, int val);  /* RDX = bytes it moves when val grows by 1 */
bool lin_has(const struct kir_lin *, int val);
void bool_test(struct gen *, int reg);          /* flags: zero if lane 0 is false */

/* vector.c */
void vector_op(struct gen *, const struct kir_stmt *);
void unary_op(struct gen *, enum insn, int dtype, int val, int imm); /* the current statement is this instruction on val */
void move_op(struct gen *, int val);            /* the current statement's result is val, bit by bit */
struct rm constant(struct gen *, int dtype, uint64_t bits);
void narrow_mask(struct gen *, int dtype, int reg); /* AVX2: masks as wide as the dtype become masks of 32 bits */
void compare_int_avx2(struct gen *, int imm, int dtype, int d, int a, int b); /* imm 0 eq, 1 lt, 2 le, 4 ne */
void combine(struct gen *, int op, int dtype, int bytes, int dst, int a, struct rm b); /* dst = op(a, b) */

/* aside.c: ifs that are statements of their run */
bool aside_note(struct gen *, const struct kir_stmt *);  /* whether this one is */
const struct kir_stmt *aside_of(const struct gen *, const struct kir_stmt *); /* as such a statement; NULL: it is none */
struct kir_stmt *stand_in_for(struct gen *, const struct kir_stmt *, const int in[3]); /* with these operands */
void aside_op(struct gen *, const struct kir_stmt *);
void asides_emit(struct gen *);                 /* their instructions */

/* guess.c */
const struct kir_stmt *guess_note(struct gen *, const struct kir_stmt *); /* a statement of a loop, or one that stands for it */
void guess_reciprocal(struct gen *, int arg);
bool guess_quotient(struct gen *, const struct kir_stmt *, int dtype); /* false: it is nothing to be guessed */

/* cast.c */
void cast_op(struct gen *, const struct kir_stmt *);
int cast_value(struct gen *, const struct kir_stmt *); /* a cast of more than one instruction; its register, a temporary */

/* integer.c */
bool integer_is_long(const struct gen *, int op, int dtype); /* no single instruction does it */
void integer_long(struct gen *, int op, int dtype, int bytes, int d, int a, int b);
void divide_scalar(struct gen *, bool is_remainder, bool is_signed); /* RAX by RCX; changes RDX */

/* half.c: f16 and bf16; dst is not a. Words: one in the low half of each lane (bf16), or side by side (f16) */
void bf16_widen(struct gen *, int dst, struct rm, int k); /* k: AVX-512: which lanes are loaded; 0: all */
void bf16_narrow(struct gen *, int dst, int a, bool exact);
void f16_widen(struct gen *, int dst, struct rm, bool exact, int k);
void f16_narrow(struct gen *, int dst, int a, bool exact);
void cast_f32_to_bf16(struct gen *, int dst, int a, int to); /* the value rounded, as f32 */
void cast_f32_to_f16(struct gen *, int dst, int a, int to);

/* active.c: the lanes that act */
int active_new(struct gen *);                   /* a mask without value yet; also counts in g->n_active */
void active_first(struct gen *, int val, int copy); /* RCX lanes are there: one copy of the mask */
int active_and(struct gen *, int cond, int skip); /* g->active and cond; jumps to skip if no lane is left */
void active_copy(struct gen *, int val, int from);    /* val = from, -1: all lanes */
void active_drop(struct gen *, int val, int stop, int under); /* val loses the lanes of `under` where stop holds */
void check_lanes(struct gen *, const struct kir_stmt *, int site, int mask, int mask_after);
void check_all(struct gen *, const struct kir_stmt *); /* jumps to g->careful unless it holds for all lanes */
void check_report(struct gen *, int site);      /* the index is in RDX */
void jump_if_none(struct gen *, int val, int label);

/* memory.c */
typedef void lane_code(struct gen *, int lane, void *ctx); /* lane -1: its number is in RSI */
void each_lane(struct gen *, int mask, int copy, int saved, bool is_long, lane_code *, void *ctx); /* for those that act,
                                                   in order; a long body is emitted once, not once a lane */
struct rm lane_at(int lane, int scale, int32_t at);        /* its element of a vector in the frame */
void load_masked(struct gen *, int dtype, int mask, int copy, int d, struct rm); /* 4 or 8 bytes an element */
void blend(struct gen *, int dtype, int mask, int copy, int dst, int src); /* dst = src where the mask is set */
bool may_stream(const struct gen *, const struct gen_access *); /* stores whole vectors of what nobody reads here */
void load_op(struct gen *, const struct kir_stmt *, struct gen_access *);
void store_op(struct gen *, const struct kir_stmt *, struct gen_access *);
void axis_value(struct gen *, int loop, int copy); /* the lane axis as a value */

/* merge.c: older o newer. One side of it is parts in memory, or values of the kernel */
struct fold_side { struct rm at[PARTS]; const int *vals; };
int part_dtype(const struct gen *, const struct gen_fold *, int part);
int part_bytes(const struct gen *, const struct gen_fold *, int part); /* of a vector */
int lanes_of(struct gen *, int reg);            /* a vector register; of a mask, a temporary */
void fill_start(struct gen *, const struct gen_fold *, int part, int copy, int reg);
void store_start(struct gen *, const struct gen_fold *, int copy, const struct fold_side *);
void merge(struct gen *, const struct gen_fold *, const struct fold_side *left, const struct fold_side *right, int copy, int bytes,
           int out[PARTS]);                     /* out: registers; bytes: of a vector, if it is no fn */
void merge_store(struct gen *, const struct gen_fold *, const int out[PARTS], const struct fold_side *, int mask, int copy,
                 int bytes);                    /* bytes 0: whole vectors */

/* prefix.c */
void prefixes_place(struct gen *, struct gen_loop *);     /* slots */
void prefixes_view(struct gen *, int lane_loop);      /* what prefixes along lanes are there; -1: outside */
void prefixes_start(struct gen *, struct gen_loop *);
void prefixes_last(struct gen *, struct gen_loop *);      /* along lanes: the values after the loop */
void prefix_step(struct gen *, const struct kir_stmt *, int mask);

/* across.c */
void across_place(struct gen *, struct gen_loop *);
void across_start(struct gen *, struct gen_loop *);
void across_end(struct gen *, struct gen_loop *);
void across_step(struct gen *, const struct kir_stmt *, int mask);

/* fold.c: accumulators, their tree, and the counter of blocks */
void fold_step(struct gen *, const struct kir_stmt *);
void fold_by_fn(struct gen *, const struct kir_stmt *, int mask);
bool fold_is_across(const struct gen_loop *, const struct kir_stmt *);
void folds_place(struct gen *, struct gen_loop *);        /* slots */
void folds_start(struct gen *, struct gen_loop *);        /* all accumulators at the start value, where they are now */
void folds_to_memory(struct gen *, struct gen_loop *);
void folds_from_memory(struct gen *, struct gen_loop *);
void folds_tree(struct gen *, struct gen_loop *);         /* lane loops: 32 accumulators to one value, in memory */
void folds_push(struct gen *, struct gen_loop *);         /* one block is done, another follows */
void folds_total(struct gen *, struct gen_loop *);        /* the last block is done: the results */
void folds_results(struct gen *, struct gen_loop *);      /* from the accumulators, which are in memory */
void folds_of_one(struct gen *, struct gen_loop *);       /* rows of one vector: the results, from registers */
int fold_copies(const struct gen *, const struct gen_loop *, const struct gen_fold *); /* its accumulator vectors */

/* tile.c */
void tiles_find(struct gen *);
bool moves_by_one(const struct gen *, const struct kir_stmt *, int var); /* the address, with var, by an element and nothing else */
typedef void row_store(struct gen *, enum insn, int row, int reg);
void transpose(struct gen *, enum insn, row_store *); /* the first T registers are rows; their columns are stored. Changes all */
void tiles_run(struct gen *, int loop);               /* the rows of a loop with tiles */

/* fetch.c */
bool wants_fetch(const struct gen *, const struct gen_loop *);
void fetch_indexed(struct gen *, const struct gen_loop *);  /* for one body: what gathers will read FETCH_AHEAD elements on */
/* Fetches what it reads or writes in the next step of a long loop. */
void fetch_next_step(struct gen *, const struct gen_access *, int copy);
/* The array of indices of a gather or scatter: signed, in a register, side by side; NULL: none. */
const struct gen_access *indices_of(const struct gen *, const struct gen_loop *, const struct gen_access *);

/* straight.c */
int straight_store(struct gen *, const struct gen_step *, bool is_last); /* label behind it all: jumped to if the store is done
                                                   already; what follows is for other indices. -1: not such a store */

/* turn.c */
void turns_find(struct gen *);
void turns_run(struct gen *, int loop);               /* one pass from var to limit, where the loop has turns */

/* short_rows.c */
void short_rows_find(struct gen *);
void short_rows_run(struct gen *, int loop);
void short_rows_fold(struct gen *, const struct kir_stmt *);
void short_rows_store(struct gen *, const struct gen_access *, int reg);
struct rm short_row_at(struct gen *, const struct gen_access *, int row, int32_t disp);
bool is_packed(const struct gen *, int val);          /* the current statement's lanes want a row's part of it */
void row_spread(struct gen *, int row, int d, int packed); /* d = that part in all lanes */

/* loops.c */
void body_of(struct gen *, int loop);
void poll_cancel(struct gen *);
void enter_accesses(struct gen *, const struct gen_loop *);
void iterate(struct gen *, int loop);                 /* one pass from var to limit */
void loop_limit(struct gen *, const struct gen_loop *, int block); /* limit = min(var + block, last); 0: last */
void emit_kernel(struct gen *);
void emit_loop(struct gen *, const struct kir_stmt *);
int pin_run(struct gen *, int n, int leave_free);     /* n registers in a row, pinned; -1: not enough */

/* block.c: runs of statements between loops */
int run_prepare(struct gen *, const struct kir_fn *, int memory); /* its steps, as many as returned */
void run_emit(struct gen *, int n);
void assign_home(struct gen *, int val, int copy, int reg, int mask); /* where the lanes of the mask act; -1: all */
void emit_block(struct gen *, const struct kir_block *);
void emit_row(struct gen *, const struct kir_block *, bool fixed); /* short rows: the block and its lane loops, as one run;
                                                   what is the same in all rows, or the rest */
void emit_hoisted(struct gen *, struct gen_loop *);       /* what a flat lane loop computes once; extent = 0 if a check fails */

#endif
