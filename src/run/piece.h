/* piece.h -- a kernel of a schedule run on part of its axes, as part of a product: what goes on with a cell of it, and what
 * makes a piece of an operand. The first sizes of such a kernel are the extents of its axes; memory is bound from where the
 * part begins. */
#ifndef WEFT_RUN_PIECE_H
#define WEFT_RUN_PIECE_H
#include "run/kernel_step.h"
#include "schedule/draft.h"

struct piece_kernel {
  const struct compiled *code;   /* NULL: there is none */
  const struct step *step;
  int n_axes;
  const int *start;              /* by axis: the size that is the index where a part begins; -1: not asked for */
  struct bound bound[DRAFT_BUFFERS];
  struct finding checks[DRAFT_SITES]; /* of all threads */
  int joins;                     /* a lock, of checks */
};

/* A buffer in scratch instead of the memory that is bound; strides by axis, in bytes. */
struct piece_buffer { int buf; void *data; int64_t stride[AXES]; };

void piece_kernel_of(struct piece_kernel *, const struct plan *, int step, int n_axes, const int start[], uint8_t *const base[]);
/* From `from` on, `extent` elements along each axis. 0: done; 1: out of memory. */
int piece_run(struct piece_kernel *, const int64_t from[], const int64_t extent[], int n, const struct piece_buffer own[],
              struct cancel *);
/* Bytes from element to element of a buffer of memory, by axis. */
void piece_strides(const struct piece_kernel *, int buf, int64_t stride[]);
struct failure *piece_outcome(const struct piece_kernel *); /* of its checks; NULL: all is well */

#endif
