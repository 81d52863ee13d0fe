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
#include "backend/nest/emission.h"
#include "backend/x86/encode.h"

enum {
  VECTORS = 32, MASKS = 8,
  MASK_BASE = VECTORS, /* register number of k0 in the allocator */
  LEVELS = 40,         /* of the tree of blocks: 2^40 are more than memory holds */
  COMBINE_TEMPS = 3,   /* vector registers that `combine` takes at most */
  INVARIANTS = 12,     /* values of a lane loop that all its lanes share, in registers */
  NEXT_ROWS = 4,       /* inputs of the row after this one that are fetched */
  POINTERS = 8,        /* addresses that an innermost loop keeps in general registers */
  FETCH_AHEAD = 64,    /* elements between an index that is read ahead and the one of the moment */
  TURN_COPIES = 2      /* most copies of lanes around a loop with turned sequences */
};

enum { CMP_EQ = 0, CMP_LT = 17, CMP_LE = 18, CMP_NE = 4, CMP_UNORD = 3, CMP_ORD = 7, CMP_GE = 29, CMP_NLT = 21,
       CMP_NE_ORDERED = 12 }; /* quiet */

struct mark { uint32_t at; const struct kir_stmt *stmt; }; /* for the listing */

struct gen {
  struct emission;           /* what is known of the kernel, and what is being emitted: its members are of struct gen too. First */
  struct encoder e;
  bool has_range;            /* vrange is there, even if masks are vectors */
  bool no_pins;              /* nothing lasts in registers: second attempt */
  bool is_whole, wants_whole; /* vectors of 64 bytes even if rows have 8 elements: these turned out to be of 64 bits */

  int n_vregs;

  int32_t tail_buffer;       /* two vector slots: elements on their way, and where they go */
  int32_t scratch, saved;    /* 8 bytes for moves between domains; general registers */
  int32_t pins_at;           /* registers that last, while squares are transposed; 0: never */
  int32_t turn_rows, turn_copies, turn_squares, turn_end; /* slots: lanes that are there, if not all; copies to go; squares
                                of a copy; the step behind them */

  /* Emission */
  int loop_cursor;
  bool is_fetching;          /* the body being emitted looks ahead */
  bool is_streaming;         /* the body being emitted stores around the caches where it can */
  bool has_streams;          /* some body does */
  int leave;                 /* label behind the serial loop being emitted */
  int finish;                /* label of the epilogue */
  int rest;                  /* label at the end of the block being emitted */
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
static inline struct emission *emission_of(struct gen *g) { return (struct emission *)g; }
static inline const struct emission *emission_seen(const struct gen *g) { return (const struct emission *)g; }
static inline struct nest *nest_of(struct gen *g) { return (struct nest *)g; }
static inline const struct nest *nest_seen(const struct gen *g) { return (const struct nest *)g; }
static inline bool is_literal(const struct gen *g, int val) { return nest_is_literal(nest_seen(g), val); }
static inline bool is_read_as_given(const struct gen *g, int val) { return nest_reads_as_given(nest_seen(g), val); }
static inline void gen_cannot(struct gen *g, const char *why) { nest_cannot(nest_of(g), why); }
static inline bool gen_grow(struct gen *g, void **array, int *room, int n, size_t size) {
  return nest_grow(nest_of(g), array, room, n, size);
}
static inline int32_t slot_scalar(struct gen *g) { return nest_slot_scalar(nest_of(g)); }
static inline int32_t slot_vector(struct gen *g, int n) { return nest_slot_vector(nest_of(g), n); }
static inline int32_t slot_spare(struct gen *g) { return nest_slot_spare(nest_of(g)); }
static inline void slot_release(struct gen *g, int32_t at) { nest_slot_release(nest_of(g), at); }
static inline int stride_class(const struct gen *g, int buf, int axis) { return nest_stride_class(nest_seen(g), buf, axis); }
static inline bool term_varies(const struct gen *g, const struct kir_term *t) { return nest_term_varies(nest_seen(g), t); }
static inline void prefixes_view(struct gen *g, int lane_loop) { nest_view_prefixes(nest_of(g), lane_loop); }
static inline const struct kir_stmt *aside_of(const struct gen *g, const struct kir_stmt *s) {
  return nest_aside_of(nest_seen(g), s);
}
static inline int width_of(const struct gen *g, int dtype) { return g->lanes * lane_bytes(dtype); } /* bytes of a vector of it */
static inline int id_of(const struct gen *g, int val, int copy) { return value_id(emission_seen(g), val, copy); }

static inline struct rm in_frame(int32_t at) { return rm_at(RBX, at); }

/* gen.c */
void analyse(struct gen *);      /* what nest.h knows, and what the encoder makes of it */

/* nest/next_use.c by the words that emission uses */
static inline int take_register(struct gen *g, bool mask) { return registers_take(emission_of(g), mask ? IN_MASKS : IN_VECTORS); }
static inline int temp(struct gen *g) { return registers_temp(emission_of(g), IN_VECTORS); } /* until the statement ends */
static inline int temp_mask(struct gen *g) { return registers_temp(emission_of(g), IN_MASKS) - MASK_BASE; }
static inline int lock_register(struct gen *g, int reg) { return registers_lock(emission_of(g), reg); }
static inline int in_reg(struct gen *g, int val, int copy) { return registers_hold(emission_of(g), val, copy); }
static inline bool is_dying(const struct gen *g, int operand) { return registers_operand_dies(emission_seen(g), operand); }
static inline void release(struct gen *g) { registers_release(emission_of(g)); }
static inline int out_reg(struct gen *g) { return registers_result(emission_of(g)); }
static inline int fresh_reg(struct gen *g) { return registers_fresh(emission_of(g)); }
static inline bool is_packed(const struct gen *g, int val) { return value_is_packed(emission_seen(g), val); }
static inline int active_new(struct gen *g) { return active_value(emission_of(g)); }
static inline void pin(struct gen *g, int reg) { g->pinned |= (uint64_t)1 << reg; }
static inline void unpin(struct gen *g, int reg) { g->pinned &= ~((uint64_t)1 << reg); }

/* registers.c */
extern const struct machine avx2_machine, avx512_machine;
void reserve(struct gen *);                    /* registers that `combine` may take: in code that may be skipped or repeated */
struct rm in_rm(struct gen *, int val, int copy); /* register or memory: to be used by the very next instruction */
void define(struct gen *, int reg);            /* the current statement's result is there */
void define_value(struct gen *, int val, int copy, int reg);
void keep_value(struct gen *, int val);          /* stores all copies to the value's row */
void move_vector(struct gen *, int bytes, int dst, int src);
struct rm in_memory(struct gen *, int val, int copy); /* where the value is in memory */
void fill_register(struct gen *, int val, int copy, int reg, struct rm);
struct rm home_of(struct gen *, int val, int copy);

/* scalar.c */
void scalar_load(struct gen *, int reg, int val);
void lin_eval(struct gen *, int reg, const struct kir_lin *);
void lin_of_lane(struct gen *, const struct kir_lin *, int var); /* RDX + RCX * var. Uses RAX */
bool scalar_op(struct gen *, const struct kir_stmt *); /* false: no operand or result is scalar */
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
void aside_op(struct gen *, const struct kir_stmt *);
void asides_emit(struct gen *);                 /* their instructions */

/* guess.c */
void guess_reciprocal(struct gen *, int arg);
bool guess_quotient(struct gen *, const struct kir_stmt *, int dtype); /* false: it is nothing to be guessed */

/* cast.c */
void cast_op(struct gen *, const struct kir_stmt *);
int cast_value(struct gen *, const struct kir_stmt *); /* a cast of more than one instruction; its register, a temporary */

/* x86_integer.c */
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
void active_first(struct gen *, int val, int copy); /* RCX lanes are there: one copy of the mask */
int active_and(struct gen *, int cond, int skip); /* g->active and cond; jumps to skip if no lane is left */
void active_copy(struct gen *, int val, int from);    /* val = from, -1: all lanes */
void active_drop(struct gen *, int val, int stop, int under); /* val loses the lanes of `under` where stop holds */
void check_lanes(struct gen *, const struct kir_stmt *, int site, int mask, int mask_after);
void check_place(struct gen *, const struct kir_stmt *); /* RDX = the place of a check outside lanes. Uses RAX */
void check_all(struct gen *, const struct kir_stmt *); /* jumps to g->careful unless it holds for all lanes */
void check_report(struct gen *, int site);      /* the place is in RDX, what it is of in RAX */
void jump_if_none(struct gen *, int val, int label);

/* x86_memory.c */
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

/* x86_prefix.c */
void prefixes_place(struct gen *, struct gen_loop *);     /* slots */
void prefixes_start(struct gen *, struct gen_loop *);
void prefixes_last(struct gen *, struct gen_loop *);      /* along lanes: the values after the loop */
void prefix_step(struct gen *, const struct kir_stmt *, int mask);

/* across.c */
void across_place(struct gen *, struct gen_loop *);
void across_start(struct gen *, struct gen_loop *);
void across_end(struct gen *, struct gen_loop *);
void across_step(struct gen *, const struct kir_stmt *, int mask);

/* x86_fold.c: accumulators, their tree, and the counter of blocks */
void fold_step(struct gen *, const struct kir_stmt *);
void fold_by_fn(struct gen *, const struct kir_stmt *, int mask);
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

/* x86_tile.c */
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
void row_spread(struct gen *, int row, int d, int packed); /* d = that part in all lanes */

/* loops.h */
void body_of(struct gen *, int loop);
void poll_cancel(struct gen *);
void enter_accesses(struct gen *, const struct gen_loop *);
void iterate(struct gen *, int loop);                 /* one pass from var to limit */
void loop_limit(struct gen *, const struct gen_loop *, int block); /* limit = min(var + block, last); 0: last */
void emit_kernel(struct gen *);
void emit_loop(struct gen *, const struct kir_stmt *);
int pin_run(struct gen *, int n, int leave_free);     /* n registers in a row, pinned; -1: not enough */

/* block.c: runs of statements between loops */
void run_emit(struct gen *, int n);
void assign_home(struct gen *, int val, int copy, int reg, int mask); /* where the lanes of the mask act; -1: all */
void emit_block(struct gen *, const struct kir_block *);
void emit_row(struct gen *, const struct kir_block *, bool fixed); /* short rows: the block and its lane loops, as one run;
                                                   what is the same in all rows, or the rest */
void emit_hoisted(struct gen *, struct gen_loop *);       /* what a flat lane loop computes once; extent = 0 if a check fails */

#endif
