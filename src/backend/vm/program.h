/* program.h -- a kernel as the interpreter runs it: a flat list of steps over registers.
 *
 * A register is one value (uniform) or a tile of lanes. Registers are addressed through a table of pointers, so that a
 * load of dense memory is a pointer, a carried value moves by exchanging pointers, and a result may be born in the
 * output. Masks are registers of bools with a count of lanes that are on; register -1 as a mask: all lanes are.
 *
 * uniform.c decides what is one value, translate.c writes the steps, slots.c gives tiles their places, vm_run.c binds a
 * launch and steps through. */
#ifndef WEFT_VM_PROGRAM_H
#define WEFT_VM_PROGRAM_H
#include "backend/backend.h"
#include "backend/vm/vm_order.h"
#include "backend/vm/tile.h"

enum { VM_TILE = 512, VM_PARTS = 8, VM_DEPTH = 60 }; /* lanes; values of a tuple fold; nesting of blocks */

enum vm_reg_kind {
  VM_ONE,   /* one value */
  VM_OWN,   /* a tile with its own memory */
  VM_REF,   /* a tile that may be elsewhere: its defining step sets the pointer */
  VM_ROW    /* a part of a kept row; the lane loop sets the pointer */
};
struct vm_reg {
  uint8_t kind, width;
  int slot;          /* ONE: index of the value. OWN, REF: among the tiles of its width. ROW: index of the row */
  int loop;          /* ROW: the lane loop that defines its length */
  int first, last;   /* steps between which it lives */
  uint64_t bits;     /* ONE: its value at the start of a launch */
};

/* A term of an index or extent: coef * product of values [* stride of an axis]. What is known when a launch begins is
 * multiplied once, into frame.mult. */
struct vm_term {
  int64_t coef;
  int buf;                 /* whose stride, -1: none */
  int8_t axis;
  uint8_t n_fixed, n_moving;
  int reg[KIR_FACTORS];    /* fixed first */
  int tile;                /* a gathered index, or -1 */
};
struct vm_lin { int first, n; }; /* terms */

struct vm_access {
  int buf, addr;           /* addr: register of the part of the offset that was hoisted out of the loop, or -1 */
  uint8_t reg_dtype;
  bool is_lane;            /* the place depends on the lane */
  struct vm_lin base, own, lane, gather; /* fixed terms; uniform terms; factors of the lane variable; loaded indices */
  int sum;                 /* several gathered terms: a tile for their sum, else -1 */
};

struct vm_loop {
  uint8_t kind, extent;
  bool is_outer;           /* launch->lo and hi apply */
  int var, of;             /* register; KIR_BLOCK: loop of the par variable */
  int live;                /* mask of lanes that have not left (until), or -1 */
  struct vm_lin n, b;
  int first_row, n_rows;   /* registers (in code->list) that are parts of rows here */
  int begin, end;          /* steps */
};

/* A fold or prefix. Its lanes beside: those of the tile, or one. */
struct vm_fold {
  int op, fn;              /* fn: >= 0 if op is KIR_CALL */
  int n_parts, loop;
  bool is_prefix, in_lane, is_row, is_tile; /* in_lane: over the lane axis. is_tile: one fold a lane */
  uint8_t dtype[VM_PARTS];
  int start[VM_PARTS];     /* registers (one value each, or tiles) */
  int in[VM_PARTS], out[VM_PARTS], last[VM_PARTS]; /* out: result, or running value; last: of a prefix, after its loop */
  int scratch[VM_PARTS];   /* tiles for masked combines; -1: none needed */
};
struct vm_fn { int begin, end, n_param, n_result; int param[2 * VM_PARTS], result[VM_PARTS]; };

enum vm_code {
  VM_STOP, VM_OP, VM_OP_ONE, VM_IOTA, VM_ONES, VM_ADDR, VM_WITHIN,
  VM_LOAD, VM_LOAD_ONE, VM_STORE, VM_STORE_ONE, VM_OP_STORE, VM_BEGIN, VM_LANE, VM_END, VM_JUMP,
  VM_UNLESS,   /* jump unless one value */
  VM_MASK,     /* out = mask & a; jump if empty */
  VM_CHECK, VM_CHECK_ONE, VM_UNTIL, VM_UNTIL_ONE, VM_NEXT,
  VM_FOLD_OPEN, VM_FOLD, VM_FOLD_CLOSE, VM_CODES
};

struct vm_step {
  uint8_t code;
  uint8_t op;         /* stores: combiner or KIR_SET */
  bool by_ref;        /* LOAD: dense memory may be used in place. NEXT: pointers rotate */
  int out, in[3], mask;
  int access;         /* LOAD, STORE, OP_STORE; loops and folds: their index; CHECK: its site */
  int jump;           /* a label while translating, then a step */
  struct vm_lin lane; /* CHECK: factors of the lane variable in its place */
  struct vm_lin lin;  /* ADDR. CHECK: the rest of its place. NEXT: in code->list, entries (to, from, saved or -1,
                         unused), or pairs (to, from) to rotate */
  tile_op *run;
};

struct code {
  const struct tile_table *tiles;
  const struct kir_kernel *kernel; /* while translating only */
  int n_bufs, n_sizes, n_args, tile, outer;
  int n_steps, n_regs, n_terms, n_access, n_loops, n_folds, n_fns, n_list, n_labels, n_ones;
  int room_steps, room_regs, room_terms, room_access, room_loops, room_folds, room_fns, room_list, room_labels;
  struct vm_step *steps;
  struct vm_reg *regs;
  struct vm_term *terms;
  struct vm_access *access;
  struct vm_loop *loops;
  struct vm_fold *folds;
  struct vm_fn *fns;
  int *list, *labels;
  int *size_reg, *arg_reg;
  uint8_t *arg_dtype;
  uint64_t *ones;          /* values at the start of a launch: literals in place */
  struct vm_buf { uint8_t kind, dtype; int rank; int n_data; struct vm_lin dims[BACKEND_RANK]; void *data; } *bufs;
  int n_tiles[9];          /* by width */
  int n_rows;
  uint8_t *row_width;
};

/* uniform.c: marks the values that differ between lanes, by value. False: out of memory. */
bool vm_varying(const struct kir_kernel *, uint8_t *varying, uint8_t *kept);
/* Does some lane leave this loop body while others stay? */
bool vm_leaves_by_lane(const uint8_t *varying, struct kir_block);
/* translate.c: fills the code. NULL: done; "" out of memory; else what cannot be translated. */
const char *vm_translate(struct code *, const struct kir_kernel *, const uint8_t *varying, const uint8_t *kept);
/* slots.c: lifetimes, places, and the decisions that depend on them. False: out of memory. */
bool vm_place(struct code *);
/* vm_run.c */
int vm_run(const struct code *, const struct launch *);
bool vm_borrows(const struct code *, const struct launch *);

#endif
