/* library.h -- ops that are code of our own or of a library on dense arrays: what such an op says, and how its nodes are made. */
#ifndef WEFT_OP_LIBRARY_H
#define WEFT_OP_LIBRARY_H
#include "graph/node.h"

struct rule;

/* What OP_LIBRARY runs: on arrays that stand dense, row by row; never fused. The last `core` axes of the first operand are one
 * problem. The axes before are the batch, the same for all operands and results; so map is one axis more (library.c). */
struct library_array {
  weft_dtype dtype;
  int rank;
  const dim *dims;
  int64_t each;      /* bytes a problem */
  bool is_wanted;    /* of a result: somebody reads it. Those that nobody wants have memory too */
  uint8_t *data;
};
struct library_call {
  const void *attr;
  int n_in, n_out;
  const struct library_array *in, *out;
  int64_t n_problems;
  int64_t n_ranges;                      /* that the parts of all problems are run in; 0: one */
  int round;                             /* of `rounds` */
  void *shared;                          /* what the ranges of all rounds share: 64-byte aligned */
  bool is_by_blas;                       /* WEFT_BLAS asks for a library (backend/blas.h) .. */
  int threads;                           /* .. which may use so many; set when it runs */
  uint64_t origin;                       /* for failures */
};
/* What `run` would say of what a check on a device has found: a place, and what is there. */
typedef struct failure *library_tell(const struct library_call *, int64_t place, int64_t value);

/* Inside a kernel in which every element is a value (schedule/small.c): about how many operations it is, of operands of at most 256
 * elements; and its results, row by row, from its operands. They have the bits of `run`. */
struct kir_builder;
struct library_values {
  int64_t (*cost)(const struct node *);
  void (*write)(struct kir_builder *, const struct node *, const int *const in[], int *const out[]);
};

struct library {
  int core;
  int (*batch_axes)(const void *attr);                 /* instead of core: how many are in front of a problem's own */
  bool is_callers;                                     /* one problem after the other, on the thread that asks (host_step.c) */
  int64_t (*parts)(const struct library_call *);       /* a problem is so many, each done for itself: `run` gets a range of the
                                                          parts of all problems. NULL: problems are not cut */
  int (*rounds)(const struct library_call *);          /* ranges are run so often, in a round each when all of the one before are
                                                          done. NULL: once */
  size_t (*shared)(const struct library_call *);       /* bytes that they share; NULL: none */
  double (*operations)(const struct library_call *);   /* of all problems, about; data is NULL */
  size_t (*scratch)(const struct library_call *);      /* bytes that one thread works in; NULL: none */
  /* Problems from .. to - 1, on any thread, several ranges at once. NULL: done. */
  struct failure *(*run)(const struct library_call *, int64_t from, int64_t to, void *scratch);
  const char *routine;                                 /* by which name a device may know it (backend/backend.h), and .. */
  void (*numbers)(const struct library_call *, int64_t number[]); /* .. what that is told beside the arrays; NULL: nothing */
  int n_checks;                                        /* what a device may find wrong, which `run` tells of itself: .. */
  library_tell *const *tell;                           /* .. by check, in the order in which that writes to their words */
  const char *(*by)(const struct library_call *);      /* the library that was loaded for it; NULL: it is our own code */
  const struct library_values *values;                 /* NULL: it is always a step */
};

/* A node of OP_LIBRARY, and its results (library.c). */
void library_apply(const struct op *, int n, struct node *const in[], const void *attr, size_t attr_bytes, int n_out,
                   weft_array *out[]);
enum { LIBRARY_MOST = 8 }; /* operands and results for library_one */
weft_array *library_one(const struct op *, int n, weft_array *const x[], const void *attr, size_t attr_bytes, int n_out, int which);
                           /* result `which` of n_out; out of memory, or a bad operand: a bad array */
struct node *library_again(const struct node *, struct node *const in[], struct failure **); /* for struct op of every one */
void library_batch(const struct rule *, const bool is_mapped[], weft_array *ys[], bool is_mapped_out[]); /* for struct many */
void library_rows(const struct rule *, const bool is_mapped[], const void *attr, weft_array *ys[], bool is_mapped_out[]);
                  /* the same with another attr, of as many bytes */

#endif
