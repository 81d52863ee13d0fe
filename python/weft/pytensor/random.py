"""Random generators and what is drawn of them.

A generator is four words while a graph runs: 128 bits that name a stream. They are drawn from a copy of NumPy's generator, which
does not advance, so equal states give equal draws; they leave as Generator(Philox(words)). A draw and the next generator are
children of the words. The distributions are NumPy's, the streams are weft's.
"""
import numpy as np
import pytensor.tensor.random.basic as pr
import weft
from numpy.random import Generator, Philox
from pytensor.tensor.random.op import RandomVariable
from weft import linalg, random as wr

from .row import row
from .value import DTYPE, array, integer, integers, is_expression, known, shape

WORDS = 4


def words_of(generator):
    """Of a generator, which stays as it is."""
    bits = generator.bit_generator
    before = bits.state
    words = generator.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    bits.state = before
    return words


def generator_of(words):
    return Generator(Philox(key=np.ascontiguousarray(words, np.uint32).view(np.uint64)))


def children(words):
    """A key to draw with, and the words of the next generator. All 128 bits have a say in both."""
    first = wr.split(words[:2], 2)
    three = wr.split(weft.bitwise_xor(first[0], words[2:]), 3)
    return three[0], weft.concatenate([three[1], weft.bitwise_xor(three[2], first[1])], 0)


def integers_between(key, low, high, shape, dtype):
    """Every number of a range is drawn, however wide; the remainder favours none by more than 2^-64 of its width."""
    low, high = weft.broadcast_to(array(low, "int64"), shape), weft.broadcast_to(array(high, "int64"), shape)
    width = array(high - low, "uint64")
    return (array(weft.remainder(wr.bits(key, shape=shape, dtype=weft.uint64), width), "int64") + low).astype(dtype)


def categorical(key, p, shape, dtype):
    return wr.categorical(key, weft.log(weft.broadcast_to(p, (*shape, p.shape[-1]))), shape=shape).astype(dtype)


FAR = 37  # standard deviations, up to which the normal distribution function is a normal number of float64


def truncated_normal(key, mean, sd, low, high, shape, dtype):
    """By the inverse of the distribution function, on the left, where it is small and so exact. Beyond FAR the density is taken
    for x exp(-x^2 / 2), from which it differs by a part in FAR^2."""
    mean, sd, low, high = (array(p, "float64") for p in (mean, sd, low, high))
    a, b = (low - mean) / sd, (high - mean) / sd
    is_right = a > 0
    a, b = weft.where(is_right, -b, a), weft.where(is_right, -a, b)
    u = wr.uniform(key, shape=shape, dtype=weft.float64)
    near = weft.ndtri(weft.ndtr(a) + u * (weft.ndtr(b) - weft.ndtr(a)))
    far = -weft.sqrt(b * b - 2 * weft.log1p(u * weft.expm1((b * b - a * a) / 2)))
    z = weft.where(b < -FAR, far, near)
    return weft.clip(weft.where(is_right, -z, z) * sd + mean, low, high).astype(dtype)


# Draws of a shape, by parameters: a row a distribution. Their order is that of the Op. Ops of PyMC are there by name.
DRAWN = {
    pr.UniformRV: wr.uniform, pr.TriangularRV: wr.triangular, pr.BetaRV: wr.beta, pr.NormalRV: wr.normal,
    pr.HalfNormalRV: wr.halfnormal, pr.LogNormalRV: wr.lognormal, pr.GammaRV: wr.gamma, pr.ParetoRV: wr.pareto,
    pr.GumbelRV: wr.gumbel, pr.ExponentialRV: wr.exponential, pr.WeibullRV: wr.weibull, pr.LogisticRV: wr.logistic,
    pr.VonMisesRV: wr.vonmises, pr.PoissonRV: wr.poisson, pr.GeometricRV: wr.geometric,
    pr.HyperGeometricRV: wr.hypergeometric, pr.CauchyRV: wr.cauchy, pr.HalfCauchyRV: wr.halfcauchy,
    pr.InvGammaRV: wr.invgamma, pr.WaldRV: wr.wald, pr.TruncExponentialRV: wr.truncexpon, pr.StudentTRV: wr.studentt,
    pr.BernoulliRV: wr.bernoulli, pr.LaplaceRV: wr.laplace, pr.BinomialRV: wr.binomial, pr.NegBinomialRV: wr.negative_binomial,
    pr.BetaBinomialRV: wr.betabinomial, pr.GenGammaRV: wr.gengamma, pr.IntegersRV: integers_between,
    pr.CategoricalRV: categorical, pr.DirichletRV: wr.dirichlet, pr.MultinomialRV: wr.multinomial,
    "pymc.distributions.continuous.TruncatedNormalRV": truncated_normal,
}
WHOLE = (pr.DirichletRV, pr.MultinomialRV)  # their shape says the last axis too


def holds(condition, what, error=ValueError):
    """A requirement on parameters: what is raised where the condition does not hold of all of them."""
    return lambda *p: (condition(*p), error, what)


def not_negative(k, name):
    return holds(lambda *p: (p[k] >= 0) | (p[k] != p[k]), f"{name} < 0")


def positive(k, name):
    return holds(lambda *p: p[k] > 0, f"{name} <= 0")


def probability(k, name):
    return holds(lambda *p: (p[k] >= 0) & (p[k] <= 1), f"{name} < 0, {name} > 1 or {name} is NaN")


# What NumPy and SciPy require of parameters.
REQUIRED = {
    pr.UniformRV: [holds(lambda low, high: abs(high - low) < np.inf, "Range exceeds valid bounds", OverflowError),
                   holds(lambda low, high: low <= high, "high - low < 0")],
    pr.TriangularRV: [holds(lambda left, mode, right: (left <= mode) & (mode <= right) & (left < right), "not left <= mode <= right")],
    pr.BetaRV: [positive(0, "a"), positive(1, "b")], pr.NormalRV: [not_negative(1, "scale")],
    pr.HalfNormalRV: [not_negative(1, "scale")], pr.LogNormalRV: [not_negative(1, "sigma")],
    pr.GammaRV: [not_negative(0, "shape"), not_negative(1, "scale")], pr.ParetoRV: [positive(0, "b"), not_negative(1, "scale")],
    pr.GumbelRV: [not_negative(1, "scale")], pr.ExponentialRV: [not_negative(0, "scale")], pr.WeibullRV: [not_negative(0, "a")],
    pr.LogisticRV: [not_negative(1, "scale")], pr.VonMisesRV: [not_negative(1, "kappa")],
    pr.PoissonRV: [holds(lambda lam: lam >= 0, "lam < 0 or lam is NaN")],
    pr.GeometricRV: [holds(lambda p: (p > 0) & (p <= 1), "p <= 0, p > 1 or p contains NaNs")],
    pr.HyperGeometricRV: [not_negative(0, "ngood"), not_negative(1, "nbad"), not_negative(2, "nsample"),
                          holds(lambda good, bad, n: good + bad >= n, "ngood + nbad < nsample")],
    pr.CauchyRV: [not_negative(1, "scale")], pr.HalfCauchyRV: [not_negative(1, "scale")],
    pr.InvGammaRV: [not_negative(0, "shape"), not_negative(1, "scale")], pr.WaldRV: [positive(0, "mean"), positive(1, "scale")],
    pr.TruncExponentialRV: [positive(0, "b"), not_negative(2, "scale")],
    pr.StudentTRV: [positive(0, "df"), not_negative(2, "scale")], pr.BernoulliRV: [probability(0, "p")],
    pr.LaplaceRV: [not_negative(1, "scale")], pr.BinomialRV: [not_negative(0, "n"), probability(1, "p")],
    pr.NegBinomialRV: [positive(0, "n"), holds(lambda n, p: (p > 0) & (p <= 1), "p <= 0, p > 1 or p is NaN")],
    pr.BetaBinomialRV: [not_negative(0, "n"), positive(1, "a"), positive(2, "b")],
    pr.GenGammaRV: [positive(0, "alpha"), not_negative(2, "lambd")],
    pr.IntegersRV: [holds(lambda low, high: low < high, "low >= high")],
    "pymc.distributions.continuous.TruncatedNormalRV": [
        holds(lambda mean, sd, low, high: (sd > 0) & (low < high), "Domain error in arguments: not sigma > 0 and lower < upper")],
    pr.DirichletRV: [not_negative(0, "alpha")], pr.MultinomialRV: [not_negative(0, "n"), probability(1, "p")],
}


def kind_of(op):
    """The distribution that is drawn from, or None: that of its class, or of one that it is derived from and draws as."""
    for kind in type(op).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind in DRAWN or name in DRAWN:
            return kind if kind in DRAWN else name
        if "rng_fn" in vars(kind) or "perform" in vars(kind):
            return None


def required(op, words, parameters, trace):
    """The words of the generator, if the parameters are such that there is something to draw."""
    if any(is_expression(p) for p in parameters):
        parameters = [array(p) for p in parameters]
    for requirement in REQUIRED.get(kind_of(op), ()):
        condition, error, what = requirement(*parameters)
        words = trace.check(words, condition, error, f"{op.name}: {what}")
    return words


def batch_shape(op, size, parameters):
    """The shape of independent draws: the size that was asked for, or that of the parameters."""
    batches = [shape(p)[:len(shape(p)) - n] for p, n in zip(parameters, op.ndims_params)]
    if size is None:
        return np.broadcast_shapes(*batches)
    size = integers(known(size))
    if np.broadcast_shapes(size, *batches) != size:
        raise ValueError(f"the size {size} is incompatible with parameters of the shapes {batches}")
    return size


@row(RandomVariable)
def draw(node, values, trace):
    op, (words, size, *parameters) = node.op, values
    drawn = batch_shape(op, size, parameters)
    key, following = children(array(required(op, words, parameters, trace)))
    if kind_of(op) in WHOLE:
        drawn = (*drawn, shape(parameters[-1])[-1])
    parameters = [array(p) for p in parameters]
    dtype = DTYPE[node.outputs[1].type.dtype]
    if dtype in (weft.float32, weft.float64):
        parameters = [p.astype(dtype) for p in parameters]
    return [following, array(DRAWN[kind_of(op)](key, *parameters, shape=drawn, dtype=dtype))]


draw.takes = lambda node: kind_of(node.op) is not None


@row(pr.MvNormalRV)
def several_normal(node, values, trace):
    """mean + C z, where C C' is the covariance."""
    op, (words, size, mean, covariance) = node.op, values
    drawn, dtype = batch_shape(op, size, (mean, covariance)), node.outputs[1].type.dtype
    c = linalg.cholesky(array(covariance, dtype))
    words = trace.check(array(words), ~weft.any(weft.isnan(c)), np.linalg.LinAlgError, "Matrix is not positive definite")
    key, following = children(words)
    mean = array(mean, dtype)
    z = wr.normal(key, shape=(*drawn, shape(mean)[-1]), dtype=DTYPE[dtype])
    return [following, mean + weft.sum(c * weft.expand_dims(z, -2), -1)]


several_normal.takes = lambda node: node.op.method == "cholesky"


def shuffled(key, n):
    """The numbers below n in random order."""
    return weft.argsort(wr.bits(key, shape=(n,), dtype=weft.uint64), 0)


@row(pr.PermutationRV)
def permutation(node, values, trace):
    words, _, x = values
    key, following = children(array(words))
    if node.inputs[2].type.ndim == 0:
        return [following, array(shuffled(key, max(integer(x), 0)), node.outputs[1].type.dtype)]
    x = array(x)
    return [following, weft.take(x, shuffled(key, shape(x)[0]), 0)]


permutation.takes = lambda node: node.op.batch_ndim(node) == 0


@row(pr.ChoiceWithoutReplacement)
def choice(node, values, trace):
    """The first of all in random order; with probabilities p, in the order of log p + Gumbel noise."""
    op, (words, _, a, *p, sizes) = node.op, values
    key, following = children(array(words))
    sizes, n = integers(np.ravel(known(sizes))), integer(a) if op.ndims_params[0] == 0 else shape(a)[0]
    count = int(np.prod(sizes))
    if count > n:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if p:
        order = weft.argsort(-(weft.log(array(p[0], "float64")) + wr.gumbel(key, shape=(n,), dtype=weft.float64)), 0)
    else:
        order = shuffled(key, n)
    which = order[:count].reshape(sizes)
    return [following, array(which if op.ndims_params[0] == 0 else array(a)[which], node.outputs[1].type.dtype)]


choice.takes = lambda node: node.op.batch_ndim(node) == 0 and node.inputs[-1].type.ndim == 1
