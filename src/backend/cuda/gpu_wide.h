/* gpu_wide.h -- lane loops of which a thread takes several neighbours at once: further entries of kernels that go through memory.
 *
 * A warp is fastest when each of its threads moves 16 bytes at a time and has many loads under way. The entries here print the
 * statements of the main entry once for each element that a thread has, on registers of their own: value v of element e is called
 * as in the kernel, with $e behind it; what is the same for all elements is printed once.
 *
 *   entry     file              which launches                                            a thread has
 *   wide      gpu_spread.c      elements that need nothing of each other                  16 bytes of each array
 *   wide      gpu_rows.c        rows of up to 4096 elements, folded and used again        16 elements, in registers to the end
 *   streamed  gpu_rows.c        aligned rows of up to 16384 (with gpu_streamed.c)         32 elements, in registers to the end
 *   long      gpu_long_rows.c   longer rows                                               16 at a time; the row in shared memory
 *   shifted   gpu_long_rows.c   .. none of them aligned, but all alike                    the same, but for the ends of the row
 *   loose     gpu_long_rows.c   .. aligned in no way                                      the same, element by element
 *   short     gpu_short_rows.c  very many rows of up to 256                               a row, or shares it with few lanes
 *   of_warps  gpu_warp_rows.c   many rows of up to 4096, aligned in no way, folded twice  element after element, its warp the row
 *
 * gpu_wide.c says which kernels have such entries, gpu_wide_shape.c which of them a launch takes: printed code trusts that
 * neighbours are aligned. Folds that have an order keep it, bit by bit (gpu_ordered.c). */
#ifndef WEFT_CUDA_GPU_WIDE_H
#define WEFT_CUDA_GPU_WIDE_H
#include "backend/cuda/printer.h"

/* Elements of a row that a thread has at a time, and threads of a block that has a long row to itself. */
enum { PTX_ROW_EACH = 16, PTX_LONG_THREADS = 512 };
/* Statements that are printed at most, of spread kernels and of rows: a driver takes about 0.1 ms for each. */
enum { PTX_MOST_WIDE = 700, PTX_MOST_ROWS = 3200 };

/* gpu_wide.c: which kernels. Gives the first lane loop; NULL: the kernel is none that goes so. */
const struct kir_stmt *ptx_find_wide(const struct survey *, const struct ptx_plan *, const struct shape_class *, struct ptx_wide *);
const struct kir_stmt *ptx_first_lane_loop(const struct printer *); /* what stands before it in a row is uniform */

/* gpu_neighbours.c: accesses of which lanes are neighbours in memory. */
static inline weft_dtype ptx_memory_of(const struct printer *p, const struct kir_stmt *s) {
  return (weft_dtype)p->k->bufs[s->buf].dtype;
}
static inline bool ptx_is_in_memory(const struct kir_kernel *k, int buf) { return k->bufs[buf].kind <= KIR_INOUT; }
bool ptx_is_only(struct kir_lin, int value); /* it is just this value */
/* The axis of an access along which lanes are neighbours; no other axis moves with them. -1: there is none. */
int ptx_axis_along(const struct shape_class *, const struct kir_stmt *, int lane);
bool ptx_is_neighbours(const struct printer *, const struct kir_stmt *, const struct kir_stmt *lane);
/* Stores of a lane loop, one behind the other, whose elements stand by turns: y[n a], y[n a + 1] .. y[n a + n - 1] for lane a. The
 * first of them: n; 0: it is none. `axis`: along which they are neighbours. */
int ptx_is_woven(const struct kir_kernel *, const struct shape_class *, const struct kir_stmt *, int lane, int *axis);
/* n registers of `width` bytes, 4 or 8, loaded from or stored to that address and what follows, 16 bytes at a time. */
void ptx_access_pieces(struct printer *, bool is_load, const char *space, const char *at, int n, int width, const char *const r[]);
/* dst = part i of the word, of a dtype of 1 or 2 bytes. is_made: the pattern of a NaN does not matter. */
void ptx_unpack(struct printer *, weft_dtype, const char *dst, const char *word, int i, bool is_made);
/* The pattern of a value of 1 or 2 bytes, in a word with nothing above it; that of a bf16 stands in the upper half. */
const char *ptx_small_pattern(struct printer *, weft_dtype, int value, const char *src);
/* n neighbours that are loaded, as they stand in memory, into registers of 4 or 8 bytes; and from there into those elements. */
void ptx_load_raw(struct printer *, const struct kir_stmt *, const char *space, const char *at, int n, const char *raw[]);
void ptx_take_raw(struct printer *, const struct kir_stmt *, int n, const int element[], const char *const raw[]);
/* Elements of a load or store that are neighbours in memory: n of them from that address on, in this order. */
void ptx_load_each(struct printer *, const struct kir_stmt *, const char *space, const char *at, int n, const int element[]);
void ptx_store_each(struct printer *, const struct kir_stmt *, const char *space, const char *at, int n, const int element[]);
void ptx_load_neighbours(struct printer *, const struct kir_stmt *, int e, int each); /* elements e .. e + each - 1 */
void ptx_store_neighbours(struct printer *, const struct kir_stmt *, int e, int each);
void ptx_store_woven(struct printer *, const struct kir_stmt *first, int n, int e, int each);

/* gpu_elements.c: statements on the elements of a thread. */
bool ptx_name_elements(struct printer *, int n); /* registers for n elements of each value of lane loops. False: refused */
bool ptx_name_nest(struct printer *, int n, const struct ptx_nest *); /* of all its loops, and of what is computed once a row */
bool ptx_is_same_for_all(struct printer *, const struct kir_stmt *); /* its results are, so that it is printed once */
bool ptx_is_early(const struct printer *, const struct kir_stmt *, const struct kir_stmt *lane); /* a load that waits for nothing */
/* A statement of the lane loop, or of a loop in it, on elements e .. e + each - 1. */
void ptx_wide_statement(struct printer *, const struct kir_stmt *, const struct kir_stmt *lane, int e, int each, struct where);
/* Of a lane loop, on elements e .. e + each - 1: the indices behind that of e, the early loads, and all else but folds. */
void ptx_number_elements(struct printer *, const struct kir_stmt *loop, int e, int each);
void ptx_early_loads(struct printer *, const struct kir_stmt *loop, int e, int each);
void ptx_element_body(struct printer *, const struct kir_stmt *loop, int e, int each, struct where);

/* gpu_ordered.c: folds of rows that have an order. */
int ptx_ordered_folds(const struct kir_kernel *, const struct kir_stmt *loop); /* folds of a loop if one has an order, else 0 */
int ptx_most_folds(const struct kir_kernel *, const struct kir_block *);       /* .. of any loop in there */
int ptx_fold_bytes(const struct kir_kernel *, const struct kir_block *);       /* of the widest value that is folded */
bool ptx_is_crossed(const struct printer *, int width); /* every other 128 bytes of what ptx_add_left adds are */
void ptx_leave_values(struct printer *, const struct kir_stmt *loop, const struct kir_stmt *fold, int slot, const char *n, int e,
                      int each);
/* A loop with a fold in order of what is not kept: it is folded once more, behind the loop, from what is kept by then. */
bool ptx_folds_again(const struct kir_kernel *, const struct kir_stmt *loop);
int ptx_most_again(const struct kir_kernel *, const struct ptx_plan *, const struct kir_block *);
bool ptx_can_fold_again(const struct kir_kernel *, const struct ptx_plan *, const struct kir_stmt *loop);
void ptx_fold_again(struct printer *, const struct kir_stmt *loop, const char *n, struct where);

/* gpu_rows.c: what rows of any length share. */
int ptx_kept_words(const struct ptx_plan *); /* registers of 4 bytes that an element of a row keeps from loop to loop */
void ptx_start_folds(struct printer *, const struct kir_stmt *loop);
void ptx_accumulate_elements(struct printer *, const struct kir_stmt *fold, int e, int each);
void ptx_number_chunks(struct printer *, const struct kir_stmt *loop, const char *first, const char *n, const char *active[]);

/* gpu_next_row.c: long rows that are asked for while the row before is stored. */
void ptx_find_asked(struct printer *);    /* before all: which loads */
void ptx_await_asked(struct printer *);   /* before the first loop of a row: what was asked for is there */
bool ptx_begin_asking(struct printer *, const struct kir_stmt *loop, const char *n); /* before any loop; false: it never asks */
void ptx_ask(struct printer *, const struct ptx_asked *, const struct kir_stmt *loop, int e, int each); /* elements e .. */
struct ptx_asked *ptx_asked_for(struct printer *, const struct kir_stmt *load);  /* NULL: it is not */
const struct ptx_asked *ptx_asked_in(const struct printer *, int row);           /* what comes to that kept row; NULL: nothing */

/* gpu_long_rows.c */
void ptx_row_pieces(struct printer *, const struct kir_stmt *loop, int row, bool is_load, int e, int each);
void ptx_long_body(struct printer *);
void ptx_shifted_body(struct printer *);
void ptx_loose_body(struct printer *);

void ptx_spread_body(struct printer *);   /* gpu_spread.c */
void ptx_shifted_spread_body(struct printer *);
void ptx_rows_body(struct printer *);     /* gpu_rows.c */
void ptx_streamed_body(struct printer *); /* gpu_rows.c */
void ptx_wide_body(struct printer *);     /* gpu_wide.c: of spread kernels, or of rows */

/* gpu_wide_shape.c: whether an array begins with a whole piece of what a thread moves at a time, `each` elements, and so does
 * every row of it along that axis. */
bool ptx_is_aligned(const struct ptx_buf *, const struct bound *, int axis, int each, const int64_t sizes[], const uint64_t args[]);

/* gpu_tall.c: rows that are read more than once. */
void ptx_find_tall(const struct survey *, const struct shape_class *, struct ptx_tall *);

/* gpu_short_rows.c */
bool ptx_find_short(const struct survey *, const struct shape_class *, struct ptx_shorts *);
void ptx_short_body(struct printer *);
void ptx_short_loose_body(struct printer *);
bool ptx_short_shape(const struct ptx_plan *, const int64_t sizes[], const uint64_t args[], const struct bound bufs[],
                     struct ptx_shape *);

/* gpu_flat.c */
bool ptx_find_flat(const struct survey *, struct ptx_flat *);
void ptx_flat_body(struct printer *);

/* gpu_relay.c: rows that warps hand on, and sums along columns beside. */
bool ptx_find_relay(const struct survey *, const struct ptx_plan *, const struct shape_class *, struct ptx_relay *);
void ptx_relay_body(struct printer *);

#endif
