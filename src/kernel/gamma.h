/* gamma.h -- parts of the gamma function that other expansions need. All of f64. */
#ifndef WEFT_KERNEL_GAMMA_H
#define WEFT_KERNEL_GAMMA_H
#include "kernel/expansion.h"

struct turns { int n, r; };                /* x = n + r, |r| <= 1/2 */
struct turns turns_of(struct here, int x);
int signed_by(struct here, int n, int x);  /* (-1)^n x */
int sine_over(struct here, int r);         /* sin(pi r) / r, |r| <= 1/2 */
int log_gamma_1u(struct here, int u);      /* log Gamma(1 + u), 0 <= u <= 1 */
int stirling(struct here, int over);       /* log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), over = 1 / x, x >= 8 */

#endif
