/* routine.h -- library steps on a GPU: kernels written by hand (written.h), in the compute queue, on dense arrays.
 *
 * A routine is found by its name. Asked with `only_asks` it says whether it can do what the call describes, and compiles
 * what it needs, which stays loaded; addresses are not looked at then. */
#ifndef WEFT_CUDA_ROUTINE_H
#define WEFT_CUDA_ROUTINE_H
#include "backend/cuda/driver.h"
#include "backend/cuda/written.h"

typedef int routine_run(struct gpu *, const struct routine_call *, bool only_asks); /* CUDA_OK, DEVICE_CANNOT .. */
routine_run sort_there; /* gpu_sort.c */
routine_run select_there; /* gpu_select.c */
routine_run triangle_there; /* gpu_matrix.c */
routine_run cholesky_there, cholesky_solve_there; /* gpu_cholesky.c */
routine_run lu_there, solve_there, inverse_there, determinant_there, adjugate_there; /* gpu_lu.c */
routine_run tally_there, bins_there; /* gpu_bins.c */
routine_run dequantize_there, code_product_there; /* gpu_codes.c */
routine_run stencil_there; /* gpu_stencil.c */
routine_run cofactors_there; /* gpu_cofactors.c */
routine_run fourier_there; /* gpu_fourier.c */

int cuda_routine(struct gpu *, const struct routine_call *, bool only_asks);

/* What is loaded on this thread from now on is shown instead, and nothing is compiled. NULL: no more. */
typedef void routine_reader(void *of, const char *ptx);
void routine_show(routine_reader *, void *of);

/* A text with what its names stand for, as a module: compiled once, and kept. */
struct routine_module;
int routine_load(struct gpu *, const char *text, const struct written_name[], struct routine_module **);

/* Enqueues an entry, blocks of so many threads. Parameters are slots of 8 bytes in their order. */
int routine_launch(struct gpu *, struct routine_module *, const char *entry, int64_t blocks, int threads, int n, const uint64_t[]);
#define LAUNCH(gpu, module, entry, blocks, threads, ...)                                                          \
  routine_launch(gpu, module, entry, blocks, threads, (int)(sizeof(uint64_t[]){ __VA_ARGS__ } / sizeof(uint64_t)), \
                 (const uint64_t[]){ __VA_ARGS__ })

/* Memory to work in, for the time of a call: taken in pieces, given back together. */
enum { ROUTINE_PIECES = 8 };
struct routine_room { struct gpu *gpu; int n; uint64_t at[ROUTINE_PIECES]; size_t bytes[ROUTINE_PIECES]; };
int room_take(struct routine_room *, size_t bytes, uint64_t *at);
void room_give(struct routine_room *);

/* How many pieces of `by` elements n of them are, the last one perhaps not whole. */
static inline int64_t routine_parts(int64_t n, int64_t by) { return n > 0 ? (n - 1) / by + 1 : 0; }

static inline int64_t routine_last(const struct routine_array *a, int from_end) { return a->dims[a->rank - from_end]; }

#endif
