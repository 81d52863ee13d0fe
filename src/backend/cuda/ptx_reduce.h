/* ptx_reduce.h -- folds and prefixes: in one thread, and over the threads of a block, in the order of docs/kir.md section 6.
 *
 * Along lanes a warp takes 4096 elements at a time, lane l those of accumulator l; their tree goes down by shuffles. The blocks
 * of a warp are an aligned power of two, so that they are a node of the tree of blocks: the warp counts them, entry k of its
 * counter in lane k. What the warps have found meets in shared memory, and every warp combines it again in the same order, so
 * that all threads hold the same bits and may branch on them. Along a serial loop each thread has a counter of its own, in
 * local memory. Where no order can be seen (integers, min, max) elements are dealt to all threads and nothing is counted.
 *
 *   ptx_reduce.c   how values combine; what threads have found meets
 *   ptx_serial.c   in one thread, along a serial loop or a row of its own
 *   ptx_blocks.c   along lanes, in order: blocks of 4096 elements, a warp each
 *   ptx_left.c     the same of values that all threads have left in a row
 *   ptx_scan.c     prefixes over lanes
 *
 * What the rest of the writer calls is in printer.h; these are what the five files ask of each other. */
#ifndef WEFT_CUDA_PTX_REDUCE_H
#define WEFT_CUDA_PTX_REDUCE_H
#include "backend/cuda/printer.h"

/* ptx_reduce.c. s is a fold or a prefix, of one value or of several at once; arrays have a register for each of them. */
void reduce_combine(struct printer *, const struct kir_stmt *s, const char *const a[], const char *const b[],
                    const char *const out[]);                              /* out = a o b */
bool reduce_fits(struct printer *, const struct kir_stmt *s);              /* it has few enough values; else it is refused */
void reduce_results(struct printer *, const struct kir_stmt *s, const char *r[PTX_TUPLE]);
const char *reduce_start(struct printer *, const struct kir_stmt *s, int i); /* what value i of nothing is */
void reduce_fresh(struct printer *, const struct kir_stmt *s, const char *r[PTX_TUPLE]); /* new registers */
void reduce_copy(struct printer *, const struct kir_stmt *s, const char *const to[], const char *const from[]);
void reduce_take_if(struct printer *, const struct kir_stmt *s, const char *if_, const char *const from[], const char *const to[]);
const char *reduce_shuffle(struct printer *, weft_dtype, const char *how, const char *src, const char *by); /* of all lanes */

struct ptx_thread { const char *lane, *warp, *n_warps, *partial; }; /* words; partial: address of this warp's place */
struct ptx_thread reduce_thread(struct printer *);
const char *reduce_place(struct printer *, const char *at);                /* the address of place `at`, a word, in `partials` */
void reduce_put(struct printer *, weft_dtype, const char *if_, const char *at, int slot, const char *src);
void reduce_get(struct printer *, weft_dtype, const char *if_, const char *at, int slot, const char *dst);

/* for FOLDS(s, loop): s is each fold of a lane loop. */
const struct kir_stmt *reduce_next_fold(const struct kir_stmt *s);         /* from s on; NULL: there is none */
#define FOLDS(s, loop) (const struct kir_stmt *s = reduce_next_fold((loop)->body.first); s; s = reduce_next_fold(s->next))
void reduce_fold_warp(struct printer *, const struct kir_stmt *loop);      /* lane 0 has the fold of its warp */
void reduce_fold_tree(struct printer *, const struct kir_stmt *fold);      /* the same of one, printed out (ptx_left.c) */
void reduce_get_all(struct printer *, const struct kir_stmt *loop, const char *if_, const char *at);
void reduce_meet_warps(struct printer *, const struct kir_stmt *loop, const struct ptx_thread *, const char *n); /* of n warps */

/* ptx_serial.c */
struct ptx_counter *reduce_counter_of(struct printer *, const struct kir_stmt *s);
void reduce_begins(struct printer *, const char *position, const char *is); /* is = the position begins a block of 4096 */

/* ptx_blocks.c: the counter of a warp, entry k in lane k. */
void reduce_from_lane(struct printer *, const struct kir_stmt *s, const char *const of[], const char *lane, const char *to[]);
void reduce_push_warp(struct printer *, const struct kir_stmt *s, const char *lane); /* the results join it */
void reduce_total_warp(struct printer *, const struct kir_stmt *s);                  /* the results of all of it */

#endif
