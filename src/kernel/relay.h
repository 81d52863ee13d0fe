/* relay.h -- kernels whose rows can be handed on, from who folds them to who writes what comes of them.
 *
 *   par q in blocks(R, b) private sums add .. {
 *     serial r in block q { uniform statements, and lane loops of one length C that load x[r,c] and w[c] } }
 *
 * They go several times through every row, with folds between, and once along all columns: the gradient of a norm with that of its
 * weights. What lanes compute for folds and what they compute for stores can be told apart, and either computed anew of what is
 * loaded, with the same bits. */
#ifndef WEFT_KERNEL_RELAY_H
#define WEFT_KERNEL_RELAY_H
#include "kernel/kir.h"

enum { KIR_RELAY_LOOPS = 8, KIR_RELAY_READS = 8, KIR_RELAY_SUMS = 4, KIR_RELAY_SLOTS = 16 };

struct kir_relay {
  const struct kir_kernel *k;
  const struct kir_stmt *blocks, *rows;        /* the two loops around */
  int n_loops, n_reads, n_sums, n_slots;
  const struct kir_stmt *loop[KIR_RELAY_LOOPS]; /* in lanes */
  struct kir_relayed { int buf, axis; bool is_row; } read[KIR_RELAY_READS]; /* what lanes load: x[r,c], or w[c]; axis: of c */
  const struct kir_stmt *sum[KIR_RELAY_SUMS];  /* stores that combine, one a private buffer */
  int slot[KIR_RELAY_SLOTS];                   /* values of a row, the same for all lanes, that what is stored is made of */
};

bool kir_find_relay(const struct kir_kernel *, struct kir_relay *); /* false: it is none */

/* By value, of k->n_vals: what the folds of a lane loop are made of, loop NULL: what lanes store; down to what is loaded, and to
 * values that are the same for all lanes. */
void kir_relay_needs(const struct kir_relay *, const struct kir_stmt *loop, bool needs[]);
int kir_relay_read(const struct kir_relay *, int buf);           /* which of read; -1: none */
bool kir_relay_stores(const struct kir_stmt *lane_loop);

/* Statements an element: for all folds (loop after loop), and for what is stored. A rounding to a half counts twice. */
void kir_relay_work(const struct kir_relay *, bool needs[], int *to_fold, int *to_store);

#endif
