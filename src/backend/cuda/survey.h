/* survey.h -- what a kernel needs from the threads that run it, read off its text before any of it is printed. */
#ifndef WEFT_SURVEY_H
#define WEFT_SURVEY_H
#include "backend/cuda/ptx.h"

struct survey_buf {
  bool is_loaded, is_stored;
  bool is_shared;                /* accesses of different threads meet in it, in an order that counts: needs barriers */
  uint8_t private_op;            /* KIR_OPS: not private */
};

/* A kernel that is a product of matrices, and what else it does with each element. */
struct survey_product {
  bool is_there;                                 /* of two matrices; .. */
  bool is_of_vector;                             /* .. or of a vector and a matrix for each place of the batch: row is NULL */
  const struct kir_stmt *batch[PTX_NEST_PARS];   /* loops around them, outermost first */
  int n_batch;
  const struct kir_stmt *row, *lane;             /* its innermost loops */
  const struct kir_stmt *of_row;                 /* what is computed once a row, up to the lane loop: again for every element */
  const struct kir_stmt *before, *sum, *between, *last, *rest; /* what comes before the sum; its loops, the last two of long sums
                                                    only; what follows */
  const struct kir_stmt *a, *b;                  /* the loads of the first loop */
  int step, total;                               /* values: its variable, and the sum of all */
};

struct survey {
  const struct kir_kernel *k;
  bool is_cooperative, is_single;
  bool has_lane, has_private;
  bool is_recurrent;             /* a lane loop stands in a serial one */
  int grid_depth;                /* outer par loops that the grid may run */
  int n_together;                /* of these, outermost first, one axis of the grid runs all as one. 0: each has an axis of its own,
                                    and those that find none are loops of a thread */
  struct survey_buf *bufs;
  int n_checks, n_partials;      /* folded values that cross a block of threads, at most, in one lane loop */
  int n_prefixes;                /* along lanes */
  const struct kir_stmt *owned;  /* a par loop over owners that becomes combining in memory: it vanishes ... */
  const struct kir_stmt *swept;  /* ... and this loop inside it, over the updates, is spread over threads */
  const struct kir_stmt *private_loop;
  bool is_ordered;               /* some fold or prefix along lanes has an order: warps take blocks of `a_warp` elements, 4096 .. */
  int a_warp;                    /* .. or fewer where no order asks for them, so that few rows have more warps; .. */
  bool is_one_warp;              /* .. and where there is a prefix, one warp all of them; .. */
  bool is_dealt;                 /* .. but where rows are kept all threads compute, and a warp adds up what they left in a row */
  bool is_exact;                 /* the environment variable WEFT_EXACT: products of halves have the order of the text too */
  bool in_order;                 /* private copies are those of iterations, in memory, and combine in the order of the language */
  bool leaves;                   /* blocks of threads leave their copies in memory, and an entry behind combines them: products,
                                    which no instruction combines there */
  bool is_once;                  /* in_order, and every place of a copy is stored just once: nothing need be there before */
  bool may_reblock;              /* the length of its blocks is nobody else's concern */
  struct survey_product product;
  const char *why;
};

/* False: cannot, s->why says what is missing ("": out of memory). */
bool survey_nothing(struct survey *, const struct kir_kernel *,
    struct arena *); /* of a kernel whose text is not printed. false: out of memory */
bool survey_make(struct survey *, const struct kir_kernel *, struct arena *);
bool ptx_is_ordered(const struct kir_kernel *, const struct kir_stmt *fold_or_prefix); /* ptx_reduce.c: its order can be seen */
void survey_find_product(struct survey *);              /* gpu_product.c */
bool survey_uses(const struct kir_block *, int value);  /* is the value read in there? */
static inline bool survey_is_own(const struct survey *s, int buf) { /* its copies are those of iterations */
  return s->in_order && s->bufs[buf].private_op != KIR_OPS;
}
bool survey_is_long(const struct kir_stmt *serial); /* steps that depend on each other, as many as a launch says */
bool survey_keeps(const struct kir_stmt *lane_loop, int value); /* it has a row of its own */
bool survey_mentions(struct kir_lin, int value);
bool survey_is_known_ahead(const struct kir_kernel *, const struct kir_stmt *access); /* subscripts of loops, sizes, arguments */
const struct kir_stmt *survey_blocks_of(const struct kir_kernel *, int axis); /* the loop over blocks with this variable */

#endif
