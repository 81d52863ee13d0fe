/* fourier_loops.h -- the passes of fourier.c for vectors of LANES floats and half as many doubles: included once for each
 * instruction set (lanes.h). What vectors leave of the elements side by side goes one by one. */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double NAME(doubles) __attribute__((vector_size(4 * LANES), aligned(8), may_alias));
#define REAL float
#define T NAME(floats)
#define WIDTH LANES
#define OF(x) NAME(x##_floats)
#include "op/fourier_pass.h"
#undef WIDTH
#define T float
#define WIDTH 1
#define OF(x) NAME(x##_float)
#include "op/fourier_pass.h"
#undef REAL
#undef WIDTH
#define REAL double
#define T NAME(doubles)
#define WIDTH (LANES / 2)
#define OF(x) NAME(x##_doubles)
#include "op/fourier_pass.h"
#undef WIDTH
#define T double
#define WIDTH 1
#define OF(x) NAME(x##_double)
#include "op/fourier_pass.h"
#undef REAL
#undef WIDTH

static IN_VECTORS void NAME(pass)(const struct fourier_pass *p, bool is_wide) {
  int64_t n = is_wide ? LANES / 2 : LANES, first = p->run / n * n;
  if (first && is_wide) NAME(pass_doubles)(p, 0);
  if (first && !is_wide) NAME(pass_floats)(p, 0);
  if (first < p->run && is_wide) NAME(pass_double)(p, first);
  if (first < p->run && !is_wide) NAME(pass_float)(p, first);
}
