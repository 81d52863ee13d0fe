#!/usr/bin/env python3
"""A million draws of every function of weft.random against SciPy's distributions, by fixed keys.

    PYTHONPATH=build/release/python test/distributions.py [name ..]

Wants SciPy. Continuous draws, of f32 and f64, by Kolmogorov and Smirnov's test; whole numbers and orders by chi-square, cells of
fewer than 20 expected joined. Prints the chance of each, and fails below 10^-4, and if a function of weft.random has no row here."""
import itertools
import sys
import zlib

import numpy as np
import scipy.stats as stats
import weft

N, LEAST = 1_000_000, 1e-4
R = weft.random


def key_of(name):
    return R.key(zlib.crc32(name.encode()))


def continuous(distribution, *arguments):
    """Draws by name and arguments; what they are to follow."""
    def chances(name):
        for dtype in ("float32", "float64"):
            key = key_of(f"{name} {arguments} {dtype}")
            x = getattr(R, name)(key, *arguments, shape=N, dtype=getattr(weft, dtype))
            yield f"{arguments or ''} {dtype}", stats.kstest(np.asarray(x, np.float64), distribution.cdf, method="asymp").pvalue
    return chances


def counted(cells, expected):
    """Chi-square of counts; cells of few are one."""
    cells, expected = np.asarray(cells, float), np.asarray(expected, float)
    few = expected < 20
    if few.any():
        cells, expected = np.append(cells[~few], cells[few].sum()), np.append(expected[~few], expected[few].sum())
    if expected[-1] < 1e-9:
        assert cells[-1] == 0, "draws that cannot be"
        cells, expected = cells[:-1], expected[:-1]
    return stats.chi2.sf(((cells - expected) ** 2 / expected).sum(), len(cells) - 1)


def whole(distribution, *arguments, low=0, cells=300):
    def chances(name):
        x = np.asarray(getattr(R, name)(key_of(f"{name} {arguments}"), *arguments, shape=N)).astype(np.int64)
        at = np.arange(low, low + cells)
        got = np.append(np.bincount(np.clip(x - low, -1, cells) + 1, minlength=cells + 2)[1:-1], ((x < low) | (x >= low + cells)).sum())
        probability = distribution.pmf(at)
        yield f"{arguments}", counted(got, N * np.append(probability, max(0, 1 - probability.sum())))
    return chances


def uniform_words(name, words):
    for byte in range(4):
        yield f"byte {byte}", counted(np.bincount(words >> (8 * byte) & 255, minlength=256), np.full(256, len(words) / 256))
    ones = np.array([(words >> k & 1).sum() for k in range(32)])
    z = (ones - len(words) / 2) / np.sqrt(len(words) / 4)
    yield "bits one by one", stats.chi2.sf((z ** 2).sum(), 32)


def bits(name):
    yield from uniform_words(name, np.asarray(R.bits(key_of(name), shape=N)))


def split(name):
    yield from uniform_words(name, np.asarray(R.split(key_of(name), N // 2)).ravel())


def of_orders(name, rows):
    """Rows of the numbers 0 .. 3: all 24 orders are as likely."""
    number = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    codes = {sum(v << 2 * k for k, v in enumerate(order)): i for order, i in number.items()}
    code = (rows << 2 * np.arange(4)).sum(1)
    table = np.full(256, -1)
    for c, i in codes.items():
        table[c] = i
    assert (table[code] >= 0).all(), "a row is no permutation"
    return counted(np.bincount(table[code], minlength=24), np.full(24, len(rows) / 24))


def permutation(name):
    keys = R.split(key_of(name), N)
    yield "of 4", of_orders(name, np.asarray(weft.vmap(lambda k: R.permutation(k, 4))(keys)).astype(np.int64))
    x = np.asarray(R.permutation(key_of(name + "long"), N))
    assert (np.bincount(x, minlength=N) == 1).all()
    yield "of 10^6, neighbours", stats.norm.sf(abs(np.corrcoef(x[1:], x[:-1])[0, 1]) * np.sqrt(N)) * 2


def shuffle(name):
    yield "rows of 4", of_orders(name, np.asarray(R.shuffle(key_of(name), weft.array(np.tile(np.arange(4), (N, 1))))).astype(np.int64))


P = np.array([0.1, 0.25, 0.05, 0.6])


def categorical(name):
    x = np.asarray(R.categorical(key_of(name), weft.array(np.log(P)), shape=N))
    yield "of 4", counted(np.bincount(x, minlength=4), N * P)


def choice(name):
    yield "with p", counted(np.bincount(np.asarray(R.choice(key_of(name), 4, shape=N, p=weft.array(P))), minlength=4), N * P)
    yield "of 100", counted(np.bincount(np.asarray(R.choice(key_of(name + "even"), 100, shape=N)), minlength=100), np.full(100, N / 100))
    keys = R.split(key_of(name + "pairs"), N)
    pairs = np.asarray(weft.vmap(lambda k: R.choice(k, 4, shape=2, replace=False, p=weft.array(P)))(keys)).astype(np.int64)
    want = np.outer(P, P) / (1 - P)[:, None] * (1 - np.eye(4))  # the second among those that are left
    yield "two of 4, none twice", counted(np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16), N * want.ravel())


def multinomial(name):
    x = np.asarray(R.multinomial(key_of(name), 9, weft.array(P), shape=(N, 4))).astype(np.int64)
    assert (x.sum(1) == 9).all()
    places = np.array(list(itertools.product(range(10), repeat=3)))
    places = places[places.sum(1) <= 9]
    want = stats.multinomial.pmf(np.column_stack([places, 9 - places.sum(1)]), 9, P)
    got = np.bincount(x[:, :3] @ [100, 10, 1], minlength=1000)[places @ [100, 10, 1]]
    yield "9 of 4 kinds", counted(got, N * want)


def multivariate_normal(name):
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
    x = np.asarray(R.multivariate_normal(key_of(name), weft.array(mean), weft.array(cov), shape=(N, 3), dtype=weft.float64))
    z = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
    for k in range(3):
        yield f"part {k}", stats.kstest(z[k], stats.norm.cdf, method="asymp").pvalue
    yield "lengths", stats.kstest((z ** 2).sum(0), stats.chi2(3).cdf, method="asymp").pvalue
    yield "angles", stats.kstest(np.arctan2(z[0], z[1]), stats.uniform(-np.pi, 2 * np.pi).cdf, method="asymp").pvalue


def dirichlet(name):
    alpha = np.array([0.5, 2.0, 3.5])
    x = np.asarray(R.dirichlet(key_of(name), weft.array(alpha), shape=(N, 3), dtype=weft.float64))
    for k in range(3):
        yield f"part {k}", stats.kstest(x[:, k], stats.beta(alpha[k], alpha.sum() - alpha[k]).cdf, method="asymp").pvalue
    yield "first of two", stats.kstest(x[:, 0] / (x[:, 0] + x[:, 1]), stats.beta(0.5, 2.0).cdf, method="asymp").pvalue


ROWS = {
    "uniform": [continuous(stats.uniform), continuous(stats.uniform(-2, 5), -2.0, 3.0)],
    "normal": [continuous(stats.norm), continuous(stats.norm(1, 3), 1.0, 3.0)],
    "truncated_normal": [continuous(stats.truncnorm(-1, 2), -1.0, 2.0), continuous(stats.truncnorm(3, 5), 3.0, 5.0)],
    "gumbel": [continuous(stats.gumbel_r), continuous(stats.gumbel_r(1, 2), 1.0, 2.0)],
    "laplace": [continuous(stats.laplace), continuous(stats.laplace(1, 2), 1.0, 2.0)],
    "logistic": [continuous(stats.logistic), continuous(stats.logistic(1, 2), 1.0, 2.0)],
    "exponential": [continuous(stats.expon), continuous(stats.expon(0, 3), 3.0)],
    "cauchy": [continuous(stats.cauchy), continuous(stats.cauchy(1, 2), 1.0, 2.0)],
    "gamma": [continuous(stats.gamma(a), a) for a in (0.3, 1.0, 7.5)] + [continuous(stats.gamma(2, scale=3), 2.0, 3.0)],
    "beta": [continuous(stats.beta(a, b), a, b) for a, b in ((0.5, 0.5), (2.0, 5.0))],
    "chisquare": [continuous(stats.chi2(a), a) for a in (1.0, 5.0)],
    "studentt": [continuous(stats.t(3), 3.0), continuous(stats.t(10, 1, 2), 10.0, 1.0, 2.0)],
    "f": [continuous(stats.f(4, 7), 4.0, 7.0)],
    "gengamma": [continuous(stats.gengamma(2 / 1.5, 1.5, scale=2), 2.0, 1.5, 2.0)],
    "halfcauchy": [continuous(stats.halfcauchy(1, 2), 1.0, 2.0)],
    "halfnormal": [continuous(stats.halfnorm(1, 2), 1.0, 2.0)],
    "invgamma": [continuous(stats.invgamma(3, scale=2), 3.0, 2.0)],
    "lognormal": [continuous(stats.lognorm(0.7, scale=np.exp(0.5)), 0.5, 0.7)],
    "pareto": [continuous(stats.pareto(3, scale=2), 3.0, 2.0)],
    "rayleigh": [continuous(stats.rayleigh(scale=2), 2.0)],
    "triangular": [continuous(stats.triang(0.25, -1, 4), -1.0, 0.0, 3.0)],
    "truncexpon": [continuous(stats.truncexpon(2, 1, 3), 2.0, 1.0, 3.0)],
    "vonmises": [continuous(stats.vonmises(k), 0.0, k) for k in (0.5, 4.0)],
    "wald": [continuous(stats.invgauss(2 / 3, scale=3), 2.0, 3.0)],
    "weibull": [continuous(stats.weibull_min(1.5, scale=2), 1.5, 2.0)],
    "bernoulli": [whole(stats.bernoulli(0.3), 0.3)],
    "randint": [whole(stats.randint(-5, 10), -5, 10, low=-6, cells=17)],
    "poisson": [whole(stats.poisson(m), m) for m in (0.4, 6.0, 90.0)],
    "binomial": [whole(stats.binom(n, p), n, p) for n, p in ((5, 0.5), (40, 0.1), (200, 0.7))],
    "betabinomial": [whole(stats.betabinom(20, 2, 3), 20, 2.0, 3.0)],
    "geometric": [whole(stats.geom(0.2), 0.2)],
    "negative_binomial": [whole(stats.nbinom(2.5, 0.3), 2.5, 0.3)],
    "hypergeometric": [whole(stats.hypergeom(30, 12, 9), 12, 18, 9)],
    "bits": [bits], "split": [split], "permutation": [permutation], "shuffle": [shuffle], "categorical": [categorical],
    "choice": [choice], "multinomial": [multinomial], "multivariate_normal": [multivariate_normal], "dirichlet": [dirichlet],
}
NOT_DRAWN = {"key"}


def main(names):
    public = {n for n in dir(R) if not n.startswith("_") and callable(getattr(R, n))} - NOT_DRAWN
    wrong = [f"{n}: no row here" for n in sorted(public - set(ROWS))]
    n_tests, least = 0, 1.0
    for name in names or ROWS:
        for row in ROWS[name]:
            for what, chance in row(name):
                n_tests, least = n_tests + 1, min(least, chance)
                print(f"{name:22}{what:32}{chance:12.2g}", flush=True)
                if not chance > LEAST:
                    wrong.append(f"{name} {what}: {chance:.2g}")
    print(f"{n_tests} tests of {len(names or ROWS)} functions, {N} draws each, least chance {least:.2g}, {len(wrong)} failed")
    for line in wrong:
        print(line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
