/* adam.h -- Adam's rule of descent, as expressions: for a step that a scope updates, or one that a loop carries. */
#ifndef ADAM_H
#define ADAM_H
#include <weft_sugar.h>

/* p, and the means m of its gradients and v of their squares, after step t = 1, 2, ..; t and rate are 0-d. */
static inline void adam(weft_array **p, weft_array **m, weft_array **v, weft_array *g, weft_array *t, double rate) {
  *m = weft_add(weft_mul(*m, 0.9), weft_mul(g, 0.1));
  *v = weft_add(weft_mul(*v, 0.99), weft_mul(weft_square(g), 0.01));
  weft_array *slope = weft_div(*m, weft_sub(1, weft_pow(0.9, t))), *size = weft_div(*v, weft_sub(1, weft_pow(0.99, t)));
  *p = weft_sub(*p, weft_mul(rate, weft_div(slope, weft_add(weft_sqrt(size), 1e-8))));
}
#endif
