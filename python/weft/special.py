"""The special functions, by the names they have in scipy.special."""
from ._core import (
    beta, betainc, betaincinv, betaln, digamma, erf, erfc, erfcinv, erfcx, erfinv, exp2, expm1, gamma, gammainc, gammaincc,
    gammainccinv, gammaincinv, hyp2f1, i0, i0e, i1, i1e, iv, ive, j0, j1, jv, kv, kve, lgamma, log1mexp, log1p, log_ndtr, log_softmax, logit,
    logsumexp, ndtr, ndtri, owens_t, polygamma, sigmoid, sinc, softmax, softplus, trigamma, xlog1py, xlogy, zeta)

expit, gammaln, loggamma, psi, log1pexp = sigmoid, lgamma, lgamma, digamma, softplus
