/* gamma.h -- parts of the gamma function, complete and incomplete, that other expansions need. All of f64. */
#ifndef WEFT_KERNEL_GAMMA_H
#define WEFT_KERNEL_GAMMA_H
#include "kernel/expansion.h"

static inline int both(struct here h, int p, int q) { return op(h, KIR_AND, p, q); }
static inline int one_of(struct here h, int p, int q) { return op(h, KIR_OR, p, q); }
static inline int none(struct here h, int p) { return kir_op1(h.b, KIR_NOT, p); }
static inline int is_nan(struct here h, int x) { return op(h, KIR_NE, x, x); }
static inline int log_of(struct here h, int x) { return expand_log(h, &x); }
static inline int log1p_of(struct here h, int x) { return expand_log1p(h, &x); }
static inline int exp_plain(struct here h, int x) { return expand_exp(h, &x); }
static inline int gamma_of(struct here h, int x) { return expand_gamma(h, &x); }

struct turns { int n, r; };                /* x = n + r, |r| <= 1/2 */
struct turns turns_of(struct here, int x);
int signed_by(struct here, int n, int x);  /* (-1)^n x */
int sine_over(struct here, int r);         /* sin(pi r) / r, |r| <= 1/2 */
int log_gamma_1u(struct here, int u);      /* log Gamma(1 + u), 0 <= u <= 1 */
int stirling(struct here, int over);       /* log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), over = 1 / x, x >= 8 */

int gamma_factor(struct here, int a, int x);                       /* x^a e^-x / Gamma(a + 1), a >= 0 */
int gamma_incomplete(struct here, int a, int x, bool is_upper);    /* gammainc, or gammaincc */
int beta_factor(struct here, int a, int b, int x, int y);          /* x^a y^b / B(a, b), x + y = 1 */
int beta_inside(struct here, int a, int b, int x, int y);          /* betainc(a, b, x) where a, b, x, y > 0 and x + y = 1 */

#endif
