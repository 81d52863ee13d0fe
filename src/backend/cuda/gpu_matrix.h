/* gpu_matrix.h -- factors of matrices and systems with them on a GPU: what op/linear_steps.c does on the host, in f64, with its
 * bits.
 *
 *   gpu_matrix.c      in and out, products that are taken off, triangular systems
 *   gpu_cholesky.c    Cholesky
 *   gpu_lu.c          LU, inverses, determinants, adjugates
 *   gpu_cofactors.c   derivatives of adjugates, which share the texts below */
#ifndef WEFT_CUDA_GPU_MATRIX_H
#define WEFT_CUDA_GPU_MATRIX_H
#include "backend/cuda/routine.h"

enum { MATRIX_SMALL = 16, MATRIX_BLOCK = 32 }; /* as in op/matrix.h: bits depend on them */
enum { FEW_THREADS = 32 };                     /* of a block that has a small matrix */

/* The matrices of a call, [n, n] each, and what works on them. */
struct matrices {
  struct gpu *g;
  struct routine_room room;
  struct routine_module *common, *own; /* kernels of gpu_matrix.c, and those of the text that it began with */
  int64_t problems, n;
  weft_dtype dtype;
};
int matrices_begin(struct matrices *, struct gpu *, const struct routine_call *, const char *text); /* NULL: no own kernels */
int matrices_finish(struct matrices *, int how);    /* gives memory back, and passes `how` on */
int matrices_threads(int64_t n);                    /* of a block that has a matrix of n rows */
uint64_t matrices_doubles(uint64_t at, int64_t n);  /* the address n doubles further */
/* Matrices [n, m] to doubles in memory of their own, and back; order: 0, or where the rows of each stand. */
int matrices_load(struct matrices *, uint64_t from, uint64_t order, int64_t m, uint64_t *to);
int matrices_store(struct matrices *, uint64_t from, uint64_t to, uint64_t order, uint64_t status, int64_t m);

/* c -= a b, [m, k] x [k, n]; is_lower: only what is below the diagonal is wanted. Where an operand stands in each matrix: */
struct standing { uint64_t at; int64_t each, row, column; };
int matrices_take(struct matrices *, struct standing c, struct standing a, struct standing b, int64_t m, int64_t n, int64_t k,
                  bool is_lower);

/* Systems with a triangle: b [n, m] becomes what solves it, and rows from .. to - 1 of it as far as they depend on each other. */
struct triangle { uint64_t a; bool is_turned, is_upper, is_unit; };
int matrices_solve(struct matrices *, struct triangle, uint64_t b, int64_t m);
int matrices_solve_rows(struct matrices *, const struct triangle *, struct standing a, struct standing b, int64_t m, int64_t from,
                        int64_t to);
/* A routine: systems by n triangles, one after the other, all of the first operand. */
int matrices_triangles(struct gpu *, const struct routine_call *, bool only_asks, int n, const struct triangle[]);

#define QUIET_NAN WRITTEN(                                                      \
  T nan = 0;                                                                    \
  if (WIDE) { nan = as_f64(0x7ff8000000000000); } else { nan = as_f32(0x7fc00000); })


/* Of what each thread has found, the size `best` at the place `at`: the place of the largest, and of equal ones the first, as
 * `largest`. In shared memory size_of and place_of have room for a block. */
#define LARGEST_OF_BLOCK WRITTEN(    \
    size_of[tid] = best;             \
    place_of[tid] = at;              \
    bar;                             \
    u32 half = threads / 2;          \
    while (half > 0) {               \
      if (tid < half) {              \
        u64 other = size_of[tid + half];                                                                \
        u64 its_place = place_of[tid + half];                                                           \
        bool is_better = other > size_of[tid] || (other == size_of[tid] && its_place < place_of[tid]);  \
        if (is_better) { size_of[tid] = other; place_of[tid] = its_place; }                             \
      }                              \
      bar;                           \
      half = half / 2;               \
    }                                \
    u64 largest = place_of[0];       \
    bar;)

/* The largest that is left of a [n, n] f64, of the rows and columns from k on, becomes a[k][k]; a nan that is there already stays.
 * Its row and column change places with those at k, and so do `row` and `column`, which say whose they were; `sign` turns with
 * each. */
#define LARGEST_LEFT_IS_PIVOT(k) WRITTEN( \
    u64 left = n - k;                                                                                                  \
    u64 best = 0;                                                                                                      \
    u64 at = k * n + k;                                                                                                \
    i = u64(tid);                                                                                                      \
    while (i < left * left) {                                                                                          \
      u64 here = (k + i / left) * n + k + i % left;                                                                    \
      u64 bits = as_u64(a[here]) & 0x7fffffffffffffff;                                                                 \
      bits = bits > 0x7ff0000000000000 && i != 0 ? u64(0) : bits;                                                      \
      at = bits > best ? here : at;                                                                                    \
      best = max(bits, best);                                                                                          \
      i = i + u64(threads);                                                                                            \
    }                                                                                                                  \
  ) LARGEST_OF_BLOCK WRITTEN(                                                                                          \
    u64 r = largest / n;                                                                                               \
    u64 c = largest % n;                                                                                               \
    if (r != k) {                                                                                                      \
      i = u64(tid);                                                                                                    \
      while (i < n) { f64 was = a[r * n + i]; a[r * n + i] = a[k * n + i]; a[k * n + i] = was; i = i + u64(threads); } \
      sign = -sign;                                                                                                    \
    }                                                                                                                  \
    bar;                                                                                                               \
    if (c != k) {                                                                                                      \
      i = u64(tid);                                                                                                    \
      while (i < n) { f64 was = a[i * n + c]; a[i * n + c] = a[i * n + k]; a[i * n + k] = was; i = i + u64(threads); } \
      sign = -sign;                                                                                                    \
    }                                                                                                                  \
    if (tid == 0) {                                                                                                    \
      f64 was = row[r]; row[r] = row[k]; row[k] = was;                                                                 \
      was = column[c]; column[c] = column[k]; column[k] = was;                                                         \
    }                                                                                                                  \
    bar;)

#endif
