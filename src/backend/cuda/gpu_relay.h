/* gpu_relay.h -- rows that are handed on (kernel/relay.h): an entry for compute capability 9.0 and later.
 *
 * A block of threads goes through a block of rows in order, so that sums along columns are in registers from its first row to
 * its last. Its warps have work of their own, and none waits for all others:
 *
 *   gpu_relay_write.c  writers: 16 elements a thread, what lanes store, and sums along columns, row after row
 *   gpu_relay_fold.c   adders: each asks for a row, which bulk copies bring, and folds it in the order of accumulators, of which
 *                      lane l has number l
 *   gpu_relay.c        the entry, and what both share
 *   gpu_relay_shape.c  which kernels have it, how it is launched, and whether two kernels are faster
 *
 * An adder has a place in shared memory for its row, and beside it one for the values that its folds tell. Three barriers in shared
 * memory go round with the place: the row is here (the copies arrive), it is folded (the adder does), it may be overwritten (every
 * writer does). Vectors, which are the same for all rows, stand in front of the first place.
 *
 * The gradient of an RMS norm, 8192 rows of 4096 on an H200: 0.089 ms, 0.122 by a kernel along rows and one along columns. Two
 * processors that share rows, half of each, and pass accumulators on through each other's shared memory are no faster. */
#ifndef WEFT_CUDA_GPU_RELAY_H
#define WEFT_CUDA_GPU_RELAY_H
#include "backend/cuda/gpu_wide.h"

enum { RELAY_EACH = 16, RELAY_WRITERS = 512 };          /* elements of a writer; threads */
enum { RELAY_ADDERS = 12, RELAY_LEAST_ADDERS = 4 };      /* warps; three take 2.2 times as long as two kernels, or more */
enum { RELAY_THREADS = 736 };  /* 12 adders of 256 writers, 7 of 512; each thread may have 80 registers */
enum { RELAY_HERE, RELAY_FOLDED, RELAY_FREE, RELAY_BARRIERS }; /* of a place */
enum { RELAY_HEAD = 512 };     /* bytes of the barriers: one for the vectors, and those of all places */

struct relaying {
  const struct kir_relay *x;
  bool *needs, *is_known;      /* by value; needs: for what is being printed; is_known: before the first row */
  int each;                    /* neighbours that a writer moves at a time */
  /* Registers. Addresses in shared memory; elements of a row, and bytes of a place; the first row of this block of threads: */
  const char *head, *slots, *vectors, *places, *n, *place_bytes, *first;
  const char *count, *n_places, *warp, *lane; /* words: how many rows and places there are; this thread */
};

/* gpu_relay.c */
int relay_width(const struct printer *, int buf);
int relay_bytes(const struct printer *, const struct kir_relay *, bool of_rows); /* an element: of all rows, or of all vectors */
const char *relay_barrier(struct printer *, const struct relaying *, const char *place, int which); /* place: its number, a word */
void relay_await(struct printer *, const char *barrier, const char *turn);
void relay_arrive(struct printer *, const char *barrier, const char *is); /* where the predicate is true */
const char *relay_begin(struct printer *, const struct relaying *, int read, const char *place); /* where it stands; place: where
                                  that of the row begins, whatever of vectors */
const char *relay_slot(struct printer *, const struct relaying *, const char *place); /* where its values stand */
void relay_ask(struct printer *, const struct relaying *, bool of_rows, const char *place, const char *barrier);
void relay_set_row(struct printer *, const struct relaying *, const char *i); /* it is row i of the block that is printed for */
bool relay_is_known(const struct relaying *, const struct kir_stmt *);
bool relay_needs_index(const struct relaying *);  /* what is printed computes with indices of elements */
/* The indices of elements e .. e + n - 1, `step` apart, in all lane loops; that of e is there, in the first loop. */
void relay_number(struct printer *, const struct relaying *, int e, int n, int step);

void relay_adders(struct printer *, struct relaying *, const char *own, struct where);
void relay_writers(struct printer *, struct relaying *, struct where);

#endif
