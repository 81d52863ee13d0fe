/* hand.h -- works written by hand, as a careful person would for this machine: what weft's kernels are measured against.
 *
 * The files of this folder are compiled twice, for AVX2 and for AVX-512, against the vectors of vec.h; hand_find and
 * hand_stream choose at run time. Rows are multiples of a vector long; memory is aligned to 64 bytes. */
#ifndef BENCH_HAND_H
#define BENCH_HAND_H
#include <stdbool.h>
#include <stdint.h>

enum { TASK_INS = 4, TASK_OUTS = 3 };

/* A work on given memory. */
struct task {
  int64_t rows, cols;
  const float *in[TASK_INS];
  const int32_t *index;
  float *out[TASK_OUTS];
  float *room;              /* of at least the size of the first input, and of 1 MB */
  bool is_large;            /* the result does not fit the caches: it is stored past them */
};

typedef void hand_part(const struct task *, int part, int parts);
struct hand {
  const char *work;
  hand_part *phase[2];                               /* each runs in parts, on threads; the second may be NULL */
  void (*finish)(const struct task *, int parts);    /* on one; may be NULL */
};

const struct hand *hand_find(const char *work, int64_t cols); /* NULL: nobody has written it */
const char *hand_tier(void);

/* The machine's own bandwidth: reads n floats of each input, and writes every write_every-th vector; 0: none. */
struct stream {
  const float *in[3];
  int n_in, write_every;
  float *out;
  int64_t n;
  bool is_large;
};
void hand_stream(const struct stream *, int part, int parts);

#endif
