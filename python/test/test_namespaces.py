"""Every function of weft.linalg, weft.special and weft.random beside NumPy's or SciPy's: a new one wants a row here.

Bounds are for float64, on numbers where the function is tame; edges are in the tests of each family."""
import numpy as np
import pytest

import weft

linalg = pytest.importorskip("scipy.linalg", reason="SciPy is not there: nothing was compared with it")
special = pytest.importorskip("scipy.special")
stats = pytest.importorskip("scipy.stats")

random = np.random.default_rng(7)
A = random.standard_normal((3, 4, 4)) + 4 * np.eye(4)
S = A @ A.swapaxes(1, 2)
L = np.linalg.cholesky(S)
B = random.standard_normal((3, 4, 2))
X, Y = random.standard_normal((5, 3)), random.standard_normal((5, 3))


def functions(module):
    return {n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))}


def close(ours, theirs, tolerance=1e-11):
    ours, theirs = (x if isinstance(x, (tuple, list)) else [x] for x in (ours, theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def of_each(f, *x):
    return [np.stack(y) for y in zip(*(f(*one) for one in zip(*x)))]


# ---- weft.linalg

LINALG = {
    "cholesky": (lambda m: (m.cholesky(S), m.cholesky(S, upper=True)), lambda: (L, L.swapaxes(1, 2))),
    "cholesky_solve": (lambda m: m.cholesky_solve(L, B), lambda: np.linalg.solve(S, B)),
    "cholesky_status": (lambda m: m.cholesky_status(np.stack([S[0], -S[0]])), lambda: np.array([0, 1])),
    "cross": (lambda m: m.cross(X, Y), lambda: np.cross(X, Y)),
    "det": (lambda m: m.det(A), lambda: np.linalg.det(A)),
    "diagonal": (lambda m: m.diagonal(A, offset=1), lambda: A.diagonal(1, 1, 2)),
    "inv": (lambda m: m.inv(A), lambda: np.linalg.inv(A)),
    "inv_status": (lambda m: m.inv_status(np.stack([A[0], 0 * A[0]])), lambda: np.array([0, 1])),
    "lu": (lambda m: m.lu(A), lambda: of_each(lambda a: linalg.lu(a, p_indices=True), A)),
    "lu_factor": (lambda m: m.lu_factor(A), lambda: of_each(linalg.lu_factor, A)),
    "matmul": (lambda m: m.matmul(A, B), lambda: A @ B),
    "matrix_norm": (lambda m: m.matrix_norm(A), lambda: np.linalg.norm(A, axis=(1, 2))),
    "matrix_power": (lambda m: m.matrix_power(A, 3), lambda: np.linalg.matrix_power(A, 3)),
    "matrix_transpose": (lambda m: m.matrix_transpose(A), lambda: A.swapaxes(1, 2)),
    "outer": (lambda m: m.outer(X[0], Y[1]), lambda: np.outer(X[0], Y[1])),
    "slogdet": (lambda m: m.slogdet(A), lambda: tuple(np.linalg.slogdet(A))),
    "solve": (lambda m: m.solve(A, B), lambda: np.linalg.solve(A, B)),
    "solve_triangular": (lambda m: (m.solve_triangular(L, B, lower=True), m.solve_triangular(L.swapaxes(1, 2), B)),
                         lambda: (np.linalg.solve(L, B), np.linalg.solve(L.swapaxes(1, 2), B))),
    "solve_triangular_status": (lambda m: m.solve_triangular_status(np.stack([L[0], 0 * L[0]])), lambda: np.array([0, 1])),
    "tensordot": (lambda m: m.tensordot(X, Y, axes=([0], [0])), lambda: np.tensordot(X, Y, axes=([0], [0]))),
    "trace": (lambda m: m.trace(A, offset=-1), lambda: np.trace(A, -1, 1, 2)),
    "vecdot": (lambda m: m.vecdot(X, Y), lambda: (X * Y).sum(-1)),
    "vector_norm": (lambda m: (m.vector_norm(X, axis=1), m.vector_norm(X, axis=0, ord=1), m.vector_norm(X, axis=0, ord=np.inf)),
                    lambda: (np.linalg.norm(X, axis=1), np.abs(X).sum(0), np.abs(X).max(0))),
}


def test_every_function_of_linalg_has_a_row():
    assert functions(weft.linalg) == set(LINALG)


@pytest.mark.parametrize("name", sorted(LINALG))
def test_linalg(name):
    ours, theirs = LINALG[name]
    close(ours(weft.linalg), theirs(), 1e-10)


# ---- weft.special

U = np.linspace(0.02, 0.98, 49)      # chances
P = np.linspace(0.3, 9.0, 49)        # positive numbers
Q = np.linspace(5.0, 0.7, 49)
R = np.linspace(-3.0, 3.0, 49)       # any
ARGUMENTS = {
    "beta": (P, Q), "betainc": (P, Q, U), "betaincinv": (P, Q, U), "betaln": (P, Q), "digamma": (P,), "erf": (R,), "erfc": (R,),
    "erfcinv": (2 * U,), "erfcx": (R,), "erfinv": (2 * U - 1,), "exp2": (R,), "expit": (R,), "expm1": (R,), "gamma": (P,),
    "gammainc": (P, Q), "gammaincc": (P, Q), "gammainccinv": (P, U), "gammaincinv": (P, U), "gammaln": (P,),
    "hyp2f1": (P / 3, Q / 3, P + 1, U / 2), "i0": (R,), "i0e": (R,), "i1": (R,), "i1e": (R,), "iv": (P, Q), "ive": (P, Q), "j0": (R,),
    "j1": (R,), "jv": (P, Q), "kv": (P, Q), "kve": (P, Q), "lgamma": (P,), "log1mexp": (-P,), "log1p": (P,), "log1pexp": (R,),
    "log_ndtr": (R,), "log_softmax": (R,), "loggamma": (P,), "logit": (U,), "logsumexp": (R,), "ndtr": (R,), "ndtri": (U,),
    "owens_t": (R, Q), "polygamma": (np.round(Q), P), "psi": (P,), "sigmoid": (R,), "sinc": (R,), "softmax": (R,), "softplus": (R,),
    "trigamma": (P,), "xlog1py": (P, Q), "xlogy": (P, Q), "zeta": (P + 1.1, Q),
}
REFERENCE = {
    "lgamma": special.gammaln, "log1mexp": lambda x: np.log(-np.expm1(x)), "log1pexp": lambda x: np.logaddexp(0, x),
    "sigmoid": special.expit, "softplus": lambda x: np.logaddexp(0, x), "trigamma": lambda x: special.polygamma(1, x),
}
LOOSE = {"betaincinv": 1e-9, "gammaincinv": 1e-9, "gammainccinv": 1e-9, "hyp2f1": 1e-10, "owens_t": 1e-10}


def test_every_special_function_has_a_row():
    assert functions(weft.special) == set(ARGUMENTS)


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_special(name):
    x = ARGUMENTS[name]
    theirs = (REFERENCE.get(name) or getattr(special, name))(*x)
    np.testing.assert_allclose(np.asarray(getattr(weft.special, name)(*x)), theirs, rtol=LOOSE.get(name, 2e-12), atol=1e-13)


# ---- weft.random

KEY = weft.random.key(11)
DRAWS = {  # parameters, and the mean and the variance that SciPy says; None: it has none
    "bernoulli": ((0.3,), stats.bernoulli(0.3)), "beta": ((2.0, 3.0), stats.beta(2, 3)),
    "betabinomial": ((9, 2.0, 3.0), stats.betabinom(9, 2, 3)), "binomial": ((9, 0.3), stats.binom(9, 0.3)), "cauchy": ((), None),
    "chisquare": ((5.0,), stats.chi2(5)), "exponential": ((2.0,), stats.expon(scale=2)), "f": ((5.0, 12.0), stats.f(5, 12)),
    "gamma": ((3.0, 2.0), stats.gamma(3, scale=2)), "gengamma": ((3.0, 2.0), stats.gengamma(1.5, 2.0)),
    "geometric": ((0.3,), stats.geom(0.3)), "gumbel": ((), stats.gumbel_r()), "halfcauchy": ((), None),
    "halfnormal": ((), stats.halfnorm()), "hypergeometric": ((9, 7, 6), stats.hypergeom(16, 9, 6)),
    "invgamma": ((5.0, 2.0), stats.invgamma(5, scale=2)), "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "logistic": ((1.0, 2.0), stats.logistic(1, 2)), "lognormal": ((0.1, 0.4), stats.lognorm(0.4, scale=np.exp(0.1))),
    "negative_binomial": ((5, 0.4), stats.nbinom(5, 0.4)), "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "pareto": ((6.0, 2.0), stats.pareto(6, scale=2)), "poisson": ((3.5,), stats.poisson(3.5)), "randint": ((2, 9), stats.randint(2, 9)),
    "rayleigh": ((2.0,), stats.rayleigh(scale=2)), "studentt": ((9.0,), stats.t(9)),
    "triangular": ((1.0, 2.0, 5.0), stats.triang(0.25, 1, 4)), "truncated_normal": ((-1.0, 2.0), stats.truncnorm(-1, 2)),
    "truncexpon": ((3.0,), stats.truncexpon(3)), "uniform": ((2.0, 5.0), stats.uniform(2, 3)), "vonmises": ((0.0, 3.0), stats.vonmises(3)),
    "wald": ((2.0, 3.0), stats.invgauss(2 / 3, scale=3)), "weibull": ((1.5, 2.0), stats.weibull_min(1.5, scale=2)),
}
VECTORS = {  # drawn as vectors: mean and variance of each
    "dirichlet": (([2.0, 3.0, 5.0],), np.array([0.2, 0.3, 0.5]), np.array([0.2 * 0.8, 0.3 * 0.7, 0.25]) / 11),
    "multinomial": ((20, [0.2, 0.3, 0.5]), np.array([4, 6, 10.0]), 20 * np.array([0.16, 0.21, 0.25])),
    "multivariate_normal": (([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, 2.0]), np.array([2.0, 1.0])),
}
OF_OTHER_KINDS = {"bits", "categorical", "choice", "key", "permutation", "shuffle", "split"}  # in test_random.py
N = 200000


def test_every_distribution_has_a_row():
    assert functions(weft.random) == set(DRAWS) | set(VECTORS) | OF_OTHER_KINDS


def meets(x, mean, variance):
    assert np.all(np.isfinite(x))
    assert np.all(np.abs(x.mean(0) - mean) < 6 * np.sqrt(variance / N) + 1e-6)
    assert np.all(np.abs(x.var(0) - variance) < 0.06 * variance)


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_draws(name):
    parameters, reference = DRAWS[name]
    x = np.asarray(getattr(weft.random, name)(KEY, *parameters, shape=(N,)), np.float64)
    if reference is not None:
        meets(x, reference.mean(), reference.var())
    else:
        assert abs(np.median(np.abs(x)) - 1) < 0.02


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_vectors(name):
    parameters, mean, variance = VECTORS[name]
    meets(np.asarray(getattr(weft.random, name)(KEY, *parameters, shape=(N, len(mean))), np.float64), mean, variance)
