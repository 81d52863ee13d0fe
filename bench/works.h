/* works.h -- the works both programs measure: the same memory for weft and for the kernel by hand. */
#ifndef BENCH_WORKS_H
#define BENCH_WORKS_H
#include "hand/hand.h"
#include "measure.h"
#include "weft.h"

struct work {
  const char *name;
  const char *in;           /* a letter an input: m matrix, p positive matrix, r row, f all as one axis, c cube
                               [rows,cols,cols], s square, i indices of one axis into all, b indices into cols */
  int n_out;
  void (*build)(weft_array *const in[], weft_array *out[]);
  int reads, write_every;   /* what has to be moved: streams of rows x cols that are read; a third of one written: 3; 0: less */
  double tolerance;         /* of results, relative to 1 + |result| */
};

/* A work at a size, on memory of its own. */
struct bench {
  const struct work *work;
  struct task task;
  weft_array *arg[TASK_INS];
  double bytes;             /* that have to be moved */
};

const struct work *work_find(const char *name); /* ends the program if there is none */
/* Memory is shared by all benches, so only the last one made is valid. The scope is open until bench_end. */
void bench_begin(struct bench *, const char *work, int64_t rows, int64_t cols);
void bench_end(void);

/* A function for it, planned on the back end: "vm", "x86", "avx2". */
weft_function *bench_function(const struct bench *, const char *backend);
/* What can be timed. */
struct weft_run { const struct bench *bench; weft_function *function; int threads; };
struct hand_run { const struct bench *bench; const struct hand *hand; int threads; };
struct stream_run { struct stream stream; int threads; };
void run_weft(void *), run_hand(void *), run_stream(void *);
struct stream_run bench_stream(const struct bench *, int threads);

/* The largest difference of weft's results from those by hand, relative to 1 + |result|. */
double bench_difference(const struct bench *, struct weft_run *, struct hand_run *);

#endif
