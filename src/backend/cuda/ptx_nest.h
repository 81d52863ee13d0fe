/* ptx_nest.h -- the nest of a kernel as PTX: statements and loops, as the main entry runs them.
 *
 * A uniform statement, one outside lane loops, is computed by every thread that passes it, which costs nothing; what it stores is
 * stored by the first of them. In a cooperative kernel all threads of a block take the same way through uniform statements, so
 * barriers may stand there: around each lane loop or uniform access of a buffer in which threads meet.
 *
 *   nest.c          statements, and the blocks they stand in
 *   nest_loop.c     extents, and par loops
 *   nest_serial.c   serial loops
 *   nest_lanes.c    lane loops
 *   nest_copies.c   the body of either, several copies at a time
 *   nest_words.c    .. of lanes that load narrow elements by words
 *
 * What other entries call is in printer.h. */
#ifndef WEFT_CUDA_PTX_NEST_H
#define WEFT_CUDA_PTX_NEST_H
#include "backend/cuda/printer.h"

/* nest.c */
void nest_statement(struct printer *, const struct kir_stmt *, struct where);
bool nest_meets_others(struct printer *, int buf);            /* threads of a block meet in it */
void nest_load_kept(struct printer *, const struct kir_stmt *lane_loop, const char *lo); /* values that earlier loops have kept */

/* nest_loop.c */
struct ptx_range nest_block_range(struct printer *, int q);   /* of block q of a loop over blocks */
void nest_par_loop(struct printer *, const struct kir_stmt *, struct where);
void nest_swept_loop(struct printer *, const struct kir_stmt *, struct where); /* over updates, whose owners vanish (survey.h) */

/* nest_serial.c */
void nest_serial_loop(struct printer *, const struct kir_stmt *, struct where);
bool nest_has_ordered_fold(struct printer *, const struct kir_stmt *loop);
void nest_look(struct printer *, const struct kir_stmt *loop, int steps); /* before so many steps: is the kernel to end? */

/* nest_lanes.c */
void nest_lane_loop(struct printer *, const struct kir_stmt *, struct where);

/* nest_copies.c */
enum { NEST_SHORT = 40 };         /* statements of a body that counts as short */
/* Copies of a term of a sum of products in each step of a loop over time, where nothing else is done meanwhile: while 16 of
 * them wait for each other (64 cycles) the loads of the next come, instead of 60 cycles later. */
enum { NEST_UNROLLED_IN_TIME = 64 };
/* Statements of all copies of a step, unless it has more by itself: beyond some 32 KB of machine code a warp waits for
 * instructions. A step of Kalman's, of 232 statements, took 0.19 us on an H200 with four or six copies, 0.20 with one or two,
 * 0.29 with eight. */
enum { NEST_MOST_COPIED = 1500 };
int nest_length(const struct kir_block *);                    /* statements, loops counted as many */
bool nest_is_sum_in_time(const struct kir_stmt *serial, const struct where *);
/* The body once, and on to the next step; and for var, var + step, .. below `end`. */
void nest_one_copy(struct printer *, const struct kir_stmt *loop, const char *step, struct where);
void nest_repeat(struct printer *, const struct kir_stmt *loop, const char *end, const char *step, struct where);

/* nest_words.c */
/* As many steps of a block as whole words of its elements allow, before nest_repeat; lane: the lane's number, 64 bits. By how many
 * lanes its accumulators are further than they belong; NULL: they are not, nothing was printed. */
const char *nest_by_words(struct printer *, const struct kir_stmt *loop, const struct ptx_blocks *, const char *lane, struct where);
void nest_take_word(struct printer *, int early); /* the value of an early load, of words, for this copy of the body */

#endif
