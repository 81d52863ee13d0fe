/* truth.h -- special functions in long double, by sums and recurrences as they stand in textbooks: slow, plain, and without a
 * line in common with the library. Good to a few units of the last place of a double where the tests ask. */
#ifndef WEFT_TEST_TRUTH_H
#define WEFT_TEST_TRUTH_H
#include <stdbool.h>

#define TRUTH_ONE(X)                                                                              \
  X(lgamma) X(gamma) X(digamma) X(trigamma) X(erfcx) X(erfcinv) X(ndtr) X(ndtri) X(log_ndtr)      \
  X(log1mexp) X(logit) X(sinc) X(i0) X(i0e) X(i1) X(i1e) X(j0) X(j1)
#define TRUTH_TWO(X)                                                                              \
  X(xlogy) X(xlog1py) X(zeta) X(polygamma) X(beta) X(betaln) X(gammainc) X(gammaincc) X(gammainc_da)   \
  X(gammaincinv) X(gammainccinv) X(iv) X(ive) X(jv) X(kv) X(kve) X(owens_t)
#define TRUTH_THREE(X) X(betainc) X(betainc_da) X(betaincinv)

#define TRUTH_DECLARE_(name) double truth_##name(double);
TRUTH_ONE(TRUTH_DECLARE_)
#undef TRUTH_DECLARE_
#define TRUTH_DECLARE_(name) double truth_##name(double, double);
TRUTH_TWO(TRUTH_DECLARE_)
#undef TRUTH_DECLARE_

#define TRUTH_DECLARE_(name) double truth_##name(double, double, double);
TRUTH_THREE(TRUTH_DECLARE_)
#undef TRUTH_DECLARE_

#define TRUTH_UNKNOWN 0x1.bad0bad0badp1000 /* where it cannot say */

bool truth(const char *op, const double x[], double *y); /* false: none of them */
double truth_least(const char *op);                      /* |x f'| next to its zeros, whose last place is good enough there */
bool truth_is_bounded(const char *op, const double x[]); /* whether anything is said about its accuracy there */
double truth_units(const char *op);                      /* of the last place it may be off */

#endif
