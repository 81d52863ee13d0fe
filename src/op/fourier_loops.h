/* fourier_loops.h -- the passes of fourier.c for vectors of LANES floats and half as many doubles: included once for each
 * instruction set (lanes.h). What vectors leave of the elements side by side goes by vectors of 16 bytes, and one by one. */
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double NAME(doubles) __attribute__((vector_size(4 * LANES), aligned(8), may_alias));
#define REAL float
#define T NAME(floats)
#define WIDTH LANES
#define OF(x) NAME(x##_floats)
#include "op/fourier_pass.h"
#undef WIDTH
#if LANES > 4
typedef float NAME(few_floats) __attribute__((vector_size(16), aligned(4), may_alias));
typedef double NAME(few_doubles) __attribute__((vector_size(16), aligned(8), may_alias));
#define T NAME(few_floats)
#define WIDTH 4
#define OF(x) NAME(x##_few_floats)
#include "op/fourier_pass.h"
#undef WIDTH
#endif
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
#if LANES > 4
#define T NAME(few_doubles)
#define WIDTH 2
#define OF(x) NAME(x##_few_doubles)
#include "op/fourier_pass.h"
#undef WIDTH
#endif
#define T double
#define WIDTH 1
#define OF(x) NAME(x##_double)
#include "op/fourier_pass.h"
#undef REAL
#undef WIDTH

static IN_VECTORS void NAME(pass)(const struct fourier_pass *p, bool is_wide) {
  int64_t n = is_wide ? LANES / 2 : LANES, done = p->run / n * n;
  if (done && is_wide) NAME(pass_doubles)(p, 0);
  if (done && !is_wide) NAME(pass_floats)(p, 0);
#if LANES > 4
  int64_t few = is_wide ? 2 : 4;
  if (done + few <= p->run) {
    is_wide ? NAME(pass_few_doubles)(p, done) : NAME(pass_few_floats)(p, done);
    done = p->run / few * few;
  }
#endif
  if (done < p->run && is_wide) NAME(pass_double)(p, done);
  if (done < p->run && !is_wide) NAME(pass_float)(p, done);
}
