/* printer.h -- the state of one printing, and what the files of the PTX writer ask of each other.
 *
 * The body is printed first; what it turned out to use (registers, parameters, indices of the thread) is declared in
 * front of it afterwards. Registers are called as in the kernel, %name or %1; the printer's own are $w1 (32 bits), $d1
 * (64), $h1 (16), $p1 (predicates). */
#ifndef WEFT_PRINTER_H
#define WEFT_PRINTER_H
#include "backend/cuda/survey.h"
#include "kernel/relay.h"

enum { PTX_TUPLE = 8 }; /* values that a fold or prefix may combine at once */
enum own { OWN_PRED, OWN_HALF, OWN_WORD, OWN_LONG, OWN_KINDS };

/* What an ordered fold or prefix has beside its results. */
struct ptx_counter {
  const char *count;               /* of blocks, a word; its bits say which ranks have an entry */
  const char *inside[PTX_TUPLE], *before[PTX_TUPLE], *has; /* of a prefix: in its block, before it, whether anything was before.
                                      inside, of a fold along lanes: the entries, of rank k in lane k */
  int offset;                      /* of a fold along a serial loop: where its entries begin in the stack */
};

/* An access of a serial loop that goes forward by the same bytes in each step (ptx_walk.c). */
struct ptx_walk {
  const struct kir_stmt *s;
  const char *at, *step;           /* registers: its address in this step, and how far it is to the next; .. */
  int64_t bytes;                   /* .. or, step NULL: so far, and `passed` bytes were not added to the address yet */
  int64_t passed;
  bool is_fetched;                 /* loaded `depth` steps ahead: .. */
  const char *ahead, **fetched;    /* .. the address of the next that is asked for, and registers, one a copy of the body */
  int n_row;                       /* of a store: so many stores from this one on are neighbours in memory, together at most 16
                                      bytes, which copies that have a turn store at once */
};
struct ptx_walks {
  struct ptx_walks *before;        /* of the loop around */
  const struct kir_stmt *loop;
  int n, depth, turn;              /* depth: steps fetched ahead, 0: none; turn: the copy of the body that is printed, -1: one that
                                      loads for itself */
  bool is_ahead;                   /* the walks are at the first step behind the copies that are printed */
  struct ptx_walk *walk;
};

/* Loads of a loop that were printed ahead of all copies of its body (nest_copies.c, nest_words.c, ptx_walk.c, gpu_turned.c). */
enum { PTX_EARLY = 4, PTX_MOST_EARLY = 8, PTX_EARLY_COPIES = 64 };
struct ptx_words {                 /* of a load whose registers are words with the elements of `parts` copies, of so many bytes: */
  int parts, width;                /* parts 0: they are elements */
  const char *at, *select[2];      /* where the word of a lane stands, and how lanes exchange parts of them */
};
struct ptx_early {
  int n, turn;                     /* turn: the copy that is printed; -1: one that loads for itself */
  const struct kir_stmt *s[PTX_MOST_EARLY];
  const char *reg[PTX_MOST_EARLY][PTX_EARLY_COPIES];
  struct ptx_words words[PTX_EARLY];
};

/* What a serial loop in a lane of a loop over time loads in its first steps, and finds in every step of time: a column of a matrix,
 * in registers (ptx_walk.c). */
enum { PTX_NEXT = 4, PTX_SWINGS = 8 };
struct ptx_held {
  const struct kir_stmt *loop, *load, *lane; /* NULL: there is none; the loop stands in the lane */
  const char *all;                 /* whether this launch holds it: there are as many steps, and a thread for every lane; .. */
  const char *is;                  /* .. and this thread has a lane */
  const char *reg[PTX_EARLY_COPIES];
  bool is_straight, is_elsewhere;  /* what is printed is for launches that hold it, or for the others alone */
  /* Accesses of the lane at another address in each step of time, by the same bytes: what is loaded, into a register, is asked
   * for a step ahead. */
  struct { const struct kir_stmt *s; const char *reg, *at, *by; } moving[PTX_NEXT];
  int n_moving;
  const char *time, *last, *more;  /* of straight steps: the step, where this piece of time ends, whether it has another one */
  /* Accesses of locals at at + by times a number that a step knows, such as which of two states is the last one. */
  struct { const struct kir_stmt *s; const char *at, *by; int number; } swing[PTX_SWINGS];
  int n_swings;
};

/* What the steps of a chain leave for the lanes that store it: as many as are 16 bytes (gpu_chain.c). */
enum { PTX_CHAINED = 4 };
struct ptx_chain {
  int n_stores;
  const struct kir_stmt *store[PTX_CHAINED];
  const char *kept[PTX_CHAINED][4];
};

/* What the copies of a body combine into a private output by exchanges: all of them at once, behind the last (nest_copies.c,
 * copies.c). */
enum { PTX_MEETING = 16 };
struct ptx_meeting {
  const struct kir_stmt *store;    /* NULL: there is none */
  int n;
  const char *at[PTX_MEETING], *v[PTX_MEETING], *is[PTX_MEETING]; /* is: whether the lane has come there, and not failed a check; at
                                      is an address of its copy in any case */
};

/* Loads of the first loop of a long row whose place in shared memory is free in its last loop: there the next row is asked for
 * (gpu_next_row.c). */
enum { PTX_ASKED = 4 };
struct ptx_asked {
  const struct kir_stmt *load, *last; /* last: the loop that needs the place for the last time */
  int row;                         /* where it is kept */
  const char *length;              /* elements of the row that were asked for, from the first whole 16 bytes on */
  const char *end;                 /* of the row that is loaded: where these end */
  const char *from;                /* of the next row: where they begin in memory */
  const char *is_rest;             /* whether the part of it that is loaded goes beyond that */
};

/* Rows that bulk copies bring (gpu_streamed.c). Registers: */
struct ptx_stream {
  const char *n;                   /* how many there is room for, a word; NULL: none are streamed */
  const char *bars;                /* where the barriers stand at which they arrive */
  const char *stage, *turn;        /* the place of this row, from 0 on, and the turn of its barrier, 0 or 1; words */
  const char *at;                  /* where this row stands */
  const char *left;                /* where values that are folded in order are left */
};

struct where;
struct printer {
  const struct kir_kernel *k;
  const struct shape_class *shape;
  const struct ptx_plan *plan;
  struct survey survey;
  struct arena *arena;
  struct text body;
  const char **reg;          /* by value: its register, or the number itself */
  const char **base;         /* by buffer: the register of its address */
  bool *is_used;             /* by value */
  bool *base_used;           /* by buffer */
  uint16_t *stride_used;     /* by buffer: a bit an axis */
  const char *(*carry)[PTX_TUPLE]; /* by first result of a prefix over lanes: what came before this tile */
  struct ptx_counter *counter; /* by first result */
  const struct kir_stmt *looking; /* the serial loop whose steps look whether they are to end; NULL: none */
  const char *unlooked;      /* .. in a register of this name: how many may still go by before it does */
  bool uses_stop;
  struct ptx_walks *walks;   /* of the innermost serial loop; NULL: none */
  struct ptx_early early;
  struct ptx_held held;
  struct ptx_meeting meeting;
  const struct ptx_chain *chain; /* NULL: none is printed */
  uint8_t *narrow;           /* by value: the dtype it was loaded as or cast to; what is an f16 or bf16 need not be rounded again */
  bool *made;                /* by value: arithmetic made it, so that nobody counts on the pattern of a NaN */
  int stack_bytes;           /* local memory of a thread */
  int n_own[OWN_KINDS], n_labels, n_checks;
  int contended;             /* 1 + the buffer of products that meet in memory; 0: there is none */
  bool uses_first, uses_bool[2], uses_thread[PTX_AXES];
  int groups;                  /* of neighbours that a thread has at a time: see struct ptx_wide */
  const char **wide[PTX_WIDE]; /* gpu_elements.c: registers by value, of each element that a thread has at a time; n_wide of them */
  int n_wide;
  int each;                  /* gpu_wide.h: neighbours that are loaded and stored together */
  const char *const *tile;   /* gpu_turned.c: by turned load, where this row of the tile begins; NULL: none are printed */
  int tile_column;           /* .. and columns from there */
  struct { const char *by, *head, *end; } shift; /* gpu_long_rows.c: elements by which kept rows begin later; and of the row, where
                                whole 16 bytes begin and end. NULL: none are shifted */
  struct ptx_asked asked[PTX_ASKED];
  int n_asked;
  struct ptx_stream stream;
  bool is_shifted;           /* gpu_spread.c: rows are not aligned, but all alike */
  bool rows_are_shared;      /* rows lie in shared memory for sure, and are addressed there */
  bool has_groups;           /* wgmma: see gpu_group.c */
  int threads, blocks;       /* most that a block has, 0: what is usual; how many of them a processor is to have room for, 0: any */
  const struct ptx_share *share; /* gpu_short_rows.c: how lanes share a row; whether this thread has one; the first of its lanes; */
  const char *has_row, *first_lane, *active[PTX_WIDE]; /* .. by the first of neighbours, whether they are of the row, NULL: they are
                                if there is a row */
  const char *guard;         /* NULL, or a predicate under which memory is touched */
  void (*lane_loop)(struct printer *, const struct kir_stmt *, const char *n, struct where); /* NULL: those of nest_lanes.c */
  const char *why;           /* NULL: all is well so far; "": out of memory */
};

void ptx_line(struct printer *, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *ptx_textf(struct printer *, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *ptx_own(struct printer *, enum own);        /* a new register of the printer's own */
static inline const char *ptx_word(struct printer *p) { return ptx_own(p, OWN_WORD); }
static inline const char *ptx_long(struct printer *p) { return ptx_own(p, OWN_LONG); }
static inline const char *ptx_pred(struct printer *p) { return ptx_own(p, OWN_PRED); }
const char *ptx_own_of(struct printer *, weft_dtype);   /* the same, for a value of the dtype */
const char *ptx_label(struct printer *, const char *);  /* a new label */
void ptx_place(struct printer *, const char *label);    /* the label, here */
void ptx_place_loop(struct printer *, const char *label); /* .. of a loop that the compiler is not to write several times */
static inline weft_dtype ptx_dtype(const struct printer *p, int value) { return (weft_dtype)p->k->vals[value].dtype; }
const char *ptx_val(struct printer *, int value);       /* what stands for the value in an instruction */
void ptx_refuse(struct printer *, const char *why);     /* the first one counts */

/* instruction.c: on registers. Dtypes are register dtypes; dst and in are registers, in may be numbers. */
const char *ptx_type(weft_dtype);                       /* "f32", "s64", .. */
const char *ptx_bits(weft_dtype);                       /* "b32", "b64" */
const char *ptx_number(struct printer *, weft_dtype, uint64_t bits);
void ptx_mov(struct printer *, weft_dtype, const char *dst, const char *src);
void ptx_instruction(struct printer *, enum kir_op, weft_dtype, const char *dst, const char *const in[]);
void ptx_cast(struct printer *, weft_dtype from, weft_dtype to, const char *dst, const char *src, bool is_made);
/* is_made: the pattern of a NaN does not matter. */
void ptx_to_bf16(struct printer *, weft_dtype from, const char *dst, const char *src, bool is_made); /* an f32 that is one */
const char *ptx_to_f16(struct printer *, weft_dtype from, const char *src, bool is_made); /* the pattern, in a 16-bit register */
void ptx_from_f16(struct printer *, const char *dst, const char *src, bool is_made);      /* the f32 of such a pattern */
const char *ptx_in_register(struct printer *, weft_dtype, int value);        /* a register even for a literal */

/* ptx_quotient.c: several q = a / b of f32 at once. is_of_number: a need not be looked at. */
struct ptx_quotient { const char *a, *b, *q; bool is_of_number; int power; }; /* power: that of a, see ptx_power */
bool ptx_is_of_number(const struct printer *, const struct kir_stmt *);
int ptx_power(const struct printer *, const struct kir_stmt *);
void ptx_quotients(struct printer *, int n, const struct ptx_quotient[]);

/* ptx_access.c: memory. */
static inline const char *ptx_row_space(const struct printer *p) { return p->rows_are_shared ? ".shared" : ""; }
const char *ptx_lin(struct printer *, struct kir_lin);  /* a register or a number, i64 */
const char *ptx_address(struct printer *, int buf, const struct kir_lin at[]);
const char *ptx_space(struct printer *, int buf);       /* ".global", or "" where it may be shared memory */
void ptx_load(struct printer *, const char *space, weft_dtype memory, const char *dst, const char *address);
static inline bool ptx_is_narrow(const struct printer *p, int value, weft_dtype d) {
  return (d == WEFT_F16 || d == WEFT_BF16) && p->narrow[value] == d;
}
void ptx_store(struct printer *, const char *space, weft_dtype memory, const char *address, const char *src);
void ptx_store_value(struct printer *, const char *space, weft_dtype memory, const char *address, int value);
void ptx_load_value(struct printer *, const char *space, weft_dtype memory, int value, const char *address);
/* The same in two: a register for what is in memory, of values of that dtype; its bytes, which nobody waits for; and the value. */
const char *ptx_carrier(struct printer *, weft_dtype memory, weft_dtype value);
void ptx_load_bytes(struct printer *, const char *space, weft_dtype memory, const char *carrier, const char *address);
void ptx_take_bytes(struct printer *, weft_dtype memory, int value, const char *carrier);
bool ptx_is_made(const struct printer *, int value);    /* the pattern of a NaN is nobody's concern */
void ptx_note_made(struct printer *, const struct kir_stmt *instruction); /* .. of what it gives */
bool ptx_pattern_matters(const struct printer *, int value); /* somebody moves it as it is */
void ptx_combine(struct printer *, const char *space, enum kir_op, weft_dtype, const char *address, const char *src);
const char *ptx_stride(struct printer *, int buf, int axis);

void ptx_load_plain(struct printer *, int buf, int value, const char *address); /* as an input, or whatever it is */

struct where;
/* ptx_walk.c: around a serial loop whose variable is its first index; turns for copies that take what was fetched. */
struct ptx_walks ptx_walks_begin(struct printer *, const struct kir_stmt *loop, int depth, bool in_lane);
/* Jumps to `others` where what is to be stored at once does not stand at multiples of as many bytes. */
void ptx_walks_part(struct printer *, const struct ptx_walks *, const char *others);
bool ptx_walk_store(struct printer *, const struct kir_stmt *);     /* false: it is no part of a row, and was not printed */
void ptx_walks_fetch(struct printer *, struct ptx_walks *);          /* what the first `depth` steps load */
void ptx_walks_step(struct printer *, struct ptx_walks *);           /* on to the next step */
/* Loads of so many steps, as `early`, or what is held of them (NULL: nothing); false: it is no loop for that. */
bool ptx_walks_ahead(struct printer *, struct ptx_walks *, int copies, const struct ptx_held *);
/* Before a loop over time, around `lane`, which has the serial loop: what of the latter can be held. */
void ptx_hold(struct printer *, const struct kir_stmt *time, const struct kir_stmt *lane, const struct kir_stmt *loop, int steps);
void ptx_step_held(struct printer *, const char *more);                     /* more = there is another step in this piece of time */
void ptx_fetch_held(struct printer *);                                      /* what the next step loads */
bool ptx_load_held(struct printer *, const struct kir_stmt *load);          /* false: it is not asked for ahead */
const char *ptx_swing(struct printer *, const struct kir_stmt *);           /* its address; NULL: it is none of a local */
const char *ptx_store_held(struct printer *, const struct kir_stmt *store); /* its address; NULL: it does not move on */
void ptx_move_held(struct printer *, const struct kir_stmt *store);         /* behind it */
void ptx_walks_settle(struct printer *, struct ptx_walks *);         /* before a jump: all addresses are those of the step */
const char *ptx_walk_address(struct printer *, const struct kir_stmt *); /* NULL: it does not walk */
void ptx_ask_ahead(struct printer *, const struct kir_stmt *load, const struct where *); /* of a lane, for later steps */
bool ptx_walk_load(struct printer *, const struct kir_stmt *);       /* false: it does not walk, and was not printed */

/* ptx_reduce.h: folds and prefixes. */
bool ptx_has_fold(const struct kir_stmt *loop);                         /* not in blocks inside */
void ptx_start(struct printer *, const struct kir_stmt *fold);          /* the results are empty */
void ptx_accumulate(struct printer *, const struct kir_stmt *fold);     /* results = results o values, in this thread */
/* Folds and prefixes of a serial loop: before it, at an element's position, counted from 0, and behind it. */
void ptx_serial_start(struct printer *, const struct kir_stmt *);
void ptx_serial_block(struct printer *, const struct kir_stmt *fold);   /* where a block of 128 begins that is not the first */
void ptx_serial_step(struct printer *, const struct kir_stmt *, const char *position);
void ptx_serial_end(struct printer *, const struct kir_stmt *);
void ptx_inline(struct printer *, int fn, const char *const in[], const char *const out[]);
/* how: "down", "up" or "idx"; by: a distance or a lane; among: the mask of the lanes that take part */
const char *ptx_shuffle(struct printer *, weft_dtype, const char *how, const char *src, const char *by, const char *among);
void ptx_meet(struct printer *, const struct kir_stmt *lane_loop);      /* its folds, over all threads of the block */
/* The same where values are left in rows: at an element, for a tile of n elements, and behind the loop. All threads take part. */
void ptx_deal_start(struct printer *, const struct kir_stmt *lane_loop);
void ptx_deal(struct printer *, const struct kir_stmt *lane_loop, const struct kir_stmt *fold, const char *position);
void ptx_deal_add(struct printer *, const struct kir_stmt *lane_loop, const char *tile, const char *lo, const char *n);
void ptx_deal_end(struct printer *, const struct kir_stmt *lane_loop);
/* The same where all that is folded is kept, behind the loop and a barrier: blocks of 4096 elements, one warp after the other. */
void ptx_add_kept(struct printer *, const struct kir_stmt *lane_loop, const char *lo, const char *hi);
/* A lane loop whose folds have an order: blocks of 4096 elements, from .. to, for one warp after the other. */
struct ptx_blocks { const char *lane, *warp, *n_warps, *n, *shift, *at, *end, *from, *to, *again, *leave; };
struct ptx_blocks ptx_blocks_open(struct printer *, const struct kir_stmt *lane_loop, const char *lo, const char *hi);
void ptx_blocks_turn(struct printer *, const struct kir_stmt *lane_loop, const struct ptx_blocks *, const char *by);
                                                          /* results of lane l become those of lane l + by, modulo 32 */
void ptx_blocks_close(struct printer *, const struct kir_stmt *lane_loop, const struct ptx_blocks *);
void ptx_blocks_meet(struct printer *, const struct kir_stmt *lane_loop, const struct ptx_blocks *); /* instead of ptx_meet */
void ptx_add_left(struct printer *, const struct kir_stmt *lane_loop, const char *n); /* folds of n <= 4096 values in `folds` */
/* The same of any n, values from that address on: blocks of 4096 elements, one warp after the other. */
void ptx_add_left_blocks(struct printer *, const struct kir_stmt *lane_loop, const char *from, const char *n);
void ptx_scan_start(struct printer *, const struct kir_stmt *prefix);   /* a prefix over lanes: before its loop, */
void ptx_scan(struct printer *, const struct kir_stmt *prefix,           /* for a tile of lanes, all threads at once, */
              const char *position, const char *n);                     /* .. whose first has that position, n of them, */
void ptx_scan_end(struct printer *, const struct kir_stmt *prefix);     /* and behind the loop */

/* The same by one thread in blocks of 4096: before the loop, where a block begins, and at an element, maybe the last so far. Behind
 * the loop ptx_scan_end. */
void ptx_running_start(struct printer *, const struct kir_stmt *prefix);
void ptx_running_block(struct printer *, const struct kir_stmt *prefix);
void ptx_running_step(struct printer *, const struct kir_stmt *prefix, bool is_last);

/* ptx_nest.h: statements and loops. */
struct where {               /* where in the nest a statement stands */
  const struct kir_stmt *lane;   /* the lane loop around it, NULL: uniform */
  int pars;                  /* par loops around it */
  const char *rest;          /* lanes that fail a check go here: the end of the block */
  const char *alone;         /* NULL, or where they go instead, to begin again step by step, and tell what they find there */
  const char *leave;         /* behind the innermost serial loop */
  const char *lo;            /* lane: its first index */
  const char *tile;          /* lane: values to fold are left in rows, which begin with this index; NULL: they are not */
  const struct kir_stmt *serial; /* the innermost serial loop around it, and its first index */
  const char *serial_lo;
  const struct kir_stmt *time;   /* the innermost serial loop around the lane loop, and where it ends; NULL: none */
  const char *time_end;
  const char *active;        /* inside a scanned lane loop: which lanes take part */
};
int ptx_kept_row(struct printer *, int value);
struct ptx_range { const char *lo, *hi; }; /* of a loop, 64 bits */
struct ptx_range ptx_range_of(struct printer *, const struct kir_stmt *loop);
/* Subscripts are made of what is known before the body, and of the variable of the loop at most once a product: an address that
 * goes forward by the same bytes. */
bool ptx_is_steady(const struct kir_stmt *loop, const struct kir_stmt *load);
void ptx_block(struct printer *, const struct kir_block *, struct where);
/* The place in the par loop of what has this number, and in its stead the number of what is left for the loops around it;
 * are_words: all numbers have 32 bits (nest_loop.c). */
void ptx_take_place(struct printer *, const struct kir_stmt *par, const char *number, const char *are_words);

/* gpu_product.c: the body of the entry that computes by tiles, and what they take of shared memory. */
void ptx_product(struct printer *);
size_t ptx_tile_bytes(weft_dtype);
int ptx_log_2(int n);        /* of a power of two */
/* Sets row0 and column0 to where the tile of this block begins in a matrix of so many rows and columns. */
void ptx_find_tile(struct printer *, const char *rows, const char *columns, int tile_rows, int tile_columns, const char *row0,
                   const char *column0);
const char *ptx_plus(struct printer *, const char *a, const char *b);  /* a + b, 64 bits, in a register of its own */
const char *ptx_minus(struct printer *, const char *a, const char *b);
/* Of the element of an operand at this step of its loop and of k. They are linear in both: steps between them are differences. */
const char *ptx_product_address(struct printer *, const struct survey_product *, const struct kir_stmt *load,
                                const struct kir_stmt *loop, const char *index, const char *k);
const char *ptx_product_length(struct printer *, const struct survey_product *); /* how many products are added, 64 bits */
void ptx_statements(struct printer *, const struct kir_stmt *from, const struct kir_stmt *to, struct where); /* without `to` */
void ptx_finish_product(struct printer *, const struct survey_product *, struct where); /* all but the sum, of one element */
struct ptx_results {         /* the sums of a tile, in shared memory */
  const struct survey_product *x;
  weft_dtype d;
  int tile_rows, tile_columns, pitch, threads; /* columns: a power of two; pitch: elements from a row to the next */
  const char *tid, *base;    /* base: where they stand */
  const char *row0, *column0, *rows, *columns; /* where the tile begins, and how long the matrix is; 64 bits */
};
void ptx_finish_tile(struct printer *, const struct ptx_results *);
void ptx_along_batch(struct printer *, const struct survey_product *, void (*tiles)(struct printer *, void *of), void *of);
                                                          /* for every matrix of the batch */

/* gpu_columns.c: loops in lanes, of which a thread has neighbours. */
bool ptx_find_columns(const struct survey *, const struct shape_class *, const struct kir_stmt *serial,
                      const struct kir_stmt *lane);
void ptx_columns(struct printer *, const struct kir_stmt *serial, const struct kir_stmt *lane, int each, struct where);

/* gpu_streamed.c: long rows that bulk copies bring. */
enum { PTX_STREAM_EACH = 32, PTX_STREAM_THREADS = 512 };  /* elements of a thread, threads of a block */
void ptx_find_streamed(const struct survey *, const struct ptx_plan *, const struct shape_class *, const struct ptx_wide *,
                       struct ptx_streamed *);
void ptx_stream_begin(struct printer *);                  /* before the first row */
void ptx_stream_await(struct printer *, const char *n);   /* before the first loop of a row of n elements */
bool ptx_stream_load(struct printer *, const struct kir_stmt *loop, const struct kir_stmt *load, const char *n, int e, int each);
                                                          /* false: it is not streamed, and was not printed */
void ptx_stream_on(struct printer *, const char *n);      /* behind a barrier since all threads have loaded */
bool ptx_streamed_shape(const struct ptx_plan *, const struct ptx_machine *, int64_t n, struct ptx_shape *);

/* gpu_chain.c: one serial loop, in all lanes of a warp. */
const struct kir_stmt *ptx_find_chain(const struct survey *);
size_t ptx_chain_bytes(const struct kir_stmt *loop); /* of shared memory */
bool ptx_chain_store(struct printer *, const struct kir_stmt *);
void ptx_chain_steps(struct printer *, const struct kir_stmt *loop, const char *end, struct where,
                     void (*look)(struct printer *, const struct kir_stmt *, int steps),
                     void (*one)(struct printer *, const struct kir_stmt *, const char *step, struct where));

/* gpu_pairs.c: a thread has two elements that draw from the same random words. */
bool ptx_find_pairs(const struct survey *, struct ptx_pairs *);
void ptx_pairs_body(struct printer *);

/* gpu_running.c: a thread goes through a row with running combines. */
bool ptx_find_nest(const struct kir_kernel *, struct ptx_nest *);
/* The par loops are one: their indices of row q, a word, or of the last. Returns how many rows there are. */
const char *ptx_nest_indices(struct printer *, const struct ptx_nest *, const char *q);
void ptx_nest_before(struct printer *, const struct ptx_nest *, struct where); /* what stands before the lane loop */
bool ptx_find_running(const struct survey *, const struct shape_class *, struct ptx_running *);
void ptx_running_body(struct printer *);

/* gpu_warp_rows.c: a warp has a row that is not aligned. */
const struct kir_stmt *ptx_find_warp_rows(const struct survey *); /* the first lane loop; NULL: there is no such entry */
void ptx_warp_rows_body(struct printer *);

/* gpu_turned.c: a block of threads takes a tile of rows and lanes. */
bool ptx_find_turned(const struct survey *, const struct shape_class *, struct ptx_turned *);
void ptx_turned_body(struct printer *);
bool ptx_turned_load(struct printer *, const struct kir_stmt *); /* false: it is no such load, and was not printed */

/* gpu_halves.c: the same by tensor cores. */
bool ptx_has_halves(const struct survey *, const struct shape_class *, struct ptx_plan *); /* and says of the plan which */
void ptx_halves(struct printer *, int form);

/* gpu_floats.c: the same of f32 and f64. */
bool ptx_has_floats(const struct survey *);
bool ptx_has_floats_form(weft_dtype, int form);
void ptx_floats(struct printer *, int form);

/* gpu_thin.c: products of few rows. */
/* Whether there is such a form; noted in the plan. */
bool ptx_has_thin(const struct survey *, const struct shape_class *, int form, struct ptx_plan *);
void ptx_thin(struct printer *, int form);

/* gpu_group.c: wgmma. */
enum { PTX_PIECE_ROW = 128, PTX_ATOM = 8 * PTX_PIECE_ROW }; /* bytes: of a row of a piece, of eight rows */
struct ptx_group {           /* sums, 64 rows of so many columns (+)= a b, 16 steps of k */
  const char *type;          /* "bf16", "f16" */
  int columns;
  bool adds, a_in_registers, a_is_turned, b_is_turned;
  const char *adds_if;       /* NULL, or a predicate: it adds where that is true */
  const char *sums, *a, *b;  /* sums: the registers; a: what is told of it, or registers in braces */
};
const char *ptx_group_told(struct printer *, const char *address, int piece_bytes);
const char *ptx_group_at(struct printer *, const char *told, const char *bytes, int more); /* bytes, or NULL, and `more` further */
const char *ptx_group_list(struct printer *, const char *const (*x)[4], int n);            /* 4 n registers */
void ptx_group_begin(struct printer *);             /* what registers hold is there for what follows */
void ptx_group_multiply(struct printer *, const struct ptx_group *);
void ptx_group_end(struct printer *);
void ptx_group_wait(struct printer *, int n_behind); /* for all but the last n_behind of such ends */

/* gpu_attention.c: the entries of a kernel that is attention. */
void ptx_attention(struct printer *);
void ptx_attention_aligned(struct printer *);

/* copies.c: private outputs. */
void ptx_copies_begin(struct printer *);  /* a neutral copy of each, where the launch gave it room */
void ptx_copies_end(struct printer *);    /* combines the copies into the outputs */
void ptx_combine_copy(struct printer *, int buf, enum kir_op, const char *address, const char *src); /* into one of those */
void ptx_combine_meeting(struct printer *); /* what the copies of a body have left */
void ptx_empty_outputs(struct printer *); /* the body of the entry that comes before */
void ptx_copy_of(struct printer *, const struct kir_stmt *private_loop); /* in order: neutral copies of this iteration */
void ptx_combine_own(struct printer *, int buf, enum kir_op, const char *address, const char *src); /* in such a copy */
const char *ptx_copy_at(struct printer *, int buf, const char *q); /* in order: where that of iteration q begins */
void ptx_merge_copies(struct printer *);  /* the body of the entry that comes behind */
const char *ptx_n_blocks(struct printer *, const struct kir_stmt *loop); /* nest_loop.c: iterations of a loop over blocks */

#endif
