"""Models that PyTensor's users write, in mode WEFT: value and gradients beside PyTensor's own evaluation by NumPy, then the same
function pickled, copied, called by threads and with other lengths."""
import copy
import pickle
import threading
import warnings

import numpy as np
import pytest
import weft

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.compile.builders import OpFromGraph  # noqa: E402
from pytensor.graph.basic import Apply  # noqa: E402
from pytensor.graph.op import Op  # noqa: E402
from pytensor.ifelse import ifelse  # noqa: E402
from pytensor.scan.utils import until  # noqa: E402

import weft.pytensor  # noqa: E402


def scan(step, **options):
    return pytensor.scan(step, return_updates=False, **options)


def draws(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


class Cube(Op):
    """An Op of a user's, with perform and a gradient alone."""

    __props__ = ()

    def make_node(self, x):
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] ** 3)

    def infer_shape(self, fgraph, node, shapes):
        return shapes

    def pullback(self, inputs, outputs, cotangents):
        return [3 * inputs[0] ** 2 * cotangents[0]]

    grad = lambda self, inputs, cotangents: self.pullback(inputs, None, cotangents)


def normal(x, mu, s):
    return -0.5 * ((x - mu) / s) ** 2 - pt.log(s) - 0.5 * np.log(2 * np.pi)


MODELS = {}


def model(f):
    MODELS[f.__name__] = f
    return f


@model
def garch_in_mean():
    r, a, b, c, d = pt.dvector("r"), *(pt.dscalar(n) for n in "abcd")

    def step(r, h, e, a, b, c, d):
        h = a + b * e ** 2 + c * h
        return h, r - d * pt.sqrt(h)

    h, e = scan(step, sequences=[r], outputs_info=[a / (1 - b - c), pt.zeros(())], non_sequences=[a, b, c, d])
    return [r, a, b, c, d], normal(e, 0, pt.sqrt(h)).sum(), [draws(50), 0.1, 0.2, 0.6, 0.3], [draws(7), 0.1, 0.3, 0.5, 0.1]


@model
def hidden_markov_forward_with_scaling():
    y, p, mu = pt.dvector("y"), pt.dmatrix("p"), pt.dvector("mu")
    rows = pt.special.softmax(p, axis=-1)
    like = pt.exp(normal(y[:, None], mu[None, :], 0.8))

    def step(b, a, m):
        a = (a @ m) * b
        total = a.sum()
        return a / total, pt.log(total)

    _, logs = scan(step, sequences=[like], outputs_info=[pt.ones_like(mu) / mu.shape[0], None], non_sequences=[rows])
    return [y, p, mu], logs.sum(), [draws(30), draws(3, 3), draws(3)], [draws(11), draws(5, 5), draws(5)]


@model
def hidden_markov_best_path():
    """The Viterbi recursion, and the way back by a scan that goes backwards."""
    e, m = pt.dmatrix("e"), pt.dmatrix("m")

    def step(e, d, m):
        each = d[:, None] + m
        return each.max(axis=0) + e, each.argmax(axis=0)

    best, back = scan(step, sequences=[e[1:]], outputs_info=[e[0], None], non_sequences=[m])
    last = best[-1].argmax()
    path = scan(lambda b, k: b[k], sequences=[back], outputs_info=[last], go_backwards=True)
    return [e, m], best[-1].max() + 0 * path.sum() + path[0].astype("float64") * 0, [draws(20, 4), draws(4, 4)], [draws(3, 2), draws(2, 2)]


@model
def gaussian_process_with_prediction():
    x, y, z, scale, noise = pt.dvector("x"), pt.dvector("y"), pt.dvector("z"), pt.dscalar("scale"), pt.dscalar("noise")
    k = lambda a, b: pt.exp(-0.5 * ((a[:, None] - b[None, :]) / scale) ** 2)
    c = pt.linalg.cholesky(k(x, x) + (noise ** 2 + 1e-6) * pt.eye(x.shape[0]))
    r = pt.linalg.solve_triangular(c, y, lower=True)
    v = pt.linalg.solve_triangular(c, k(x, z), lower=True)
    mean, variance = v.T @ r, 1 - (v ** 2).sum(0)
    density = -0.5 * (r ** 2).sum() - pt.log(pt.diag(c)).sum() + mean.sum() + pt.log(variance + 0.1).sum()
    return [x, y, z, scale, noise], density, [draws(12), draws(12), draws(4), 0.7, 0.3], [draws(5), draws(5), draws(1), 1.1, 0.2]


@model
def multivariate_normal_by_lkj():
    """A covariance packed as a triangle, as PyMC's LKJCholeskyCov has it."""
    packed, y, mu = pt.dvector("packed"), pt.dmatrix("y"), pt.dvector("mu")
    rows, columns = np.tril_indices(3)
    c = pt.set_subtensor(pt.zeros((3, 3))[rows, columns], packed)
    c = pt.set_subtensor(c[np.arange(3), np.arange(3)], pt.exp(pt.diag(c)))
    z = pt.linalg.solve_triangular(c, (y - mu).T, lower=True)
    return [packed, y, mu], -0.5 * (z ** 2).sum() - y.shape[0] * pt.log(pt.diag(c)).sum(), [draws(6), draws(9, 3), draws(3)], [
        draws(6, seed=1), draws(2, 3), draws(3)]


@model
def ordinal():
    eta, cuts, y = pt.dvector("eta"), pt.dvector("cuts"), pt.lvector("y")
    ordered = pt.concatenate([cuts[:1], cuts[0] + pt.cumsum(pt.exp(cuts[1:]))])
    cumulative = pt.sigmoid(ordered[None, :] - eta[:, None])
    n = eta.shape[0]
    edges = pt.concatenate([pt.zeros((n, 1)), cumulative, pt.ones((n, 1))], axis=1)
    p = edges[:, 1:] - edges[:, :-1]
    return [eta, cuts, y], pt.log(p[pt.arange(n), y]).sum(), [draws(10), draws(3), np.arange(10) % 4], [draws(3), draws(2), np.array([0, 2, 1])]


@model
def mixture_with_ordered_means():
    x, w, mu = pt.dvector("x"), pt.dvector("w"), pt.dvector("mu")
    each = pt.log_softmax(w) if hasattr(pt, "log_softmax") else pt.special.log_softmax(w)
    return [x, w, mu], pt.logsumexp(each + normal(x[:, None], pt.sort(mu), 0.7), axis=-1).sum(), [draws(20), draws(4), draws(4)], [
        draws(3), draws(2), draws(2)]


@model
def differential_equation_with_events():
    """Runge and Kutta inside a scan over observations: a scan in a scan whose inner steps differ, by a while."""
    t, p = pt.dvector("t"), pt.dvector("p")

    def fine(z, now, end, p):
        h = pt.minimum(end - now, 0.05)
        f = lambda z: pt.stack([p[0] * z[0] - p[1] * z[0] * z[1], p[2] * z[0] * z[1] - p[3] * z[1]])
        k = f(z + 0.5 * h * f(z))
        return (z + h * k, now + h), until(pt.ge(now + h, end - 1e-9))

    def coarse(end, z, now, p):
        z, now = scan(fine, outputs_info=[z, now], non_sequences=[end, p], n_steps=1000)
        return z[-1], now[-1]

    z, _ = scan(coarse, sequences=[t], outputs_info=[pt.ones(2), pt.zeros(())], non_sequences=[p])
    return [t, p], (z ** 2).sum(), [np.cumsum(np.abs(draws(6)) * 0.2), np.array([0.5, 0.4, 0.3, 0.2])], [
        np.array([0.3]), np.array([0.5, 0.1, 0.3, 0.2])]


@model
def hierarchy_with_indices():
    """Groups, and an index that is data, as coords give it."""
    y, group, mu, log_s, z = pt.dvector("y"), pt.lvector("group"), pt.dscalar("mu"), pt.dscalar("log_s"), pt.dvector("z")
    level = mu + pt.exp(log_s) * z
    return [y, group, mu, log_s, z], normal(y, level[group], 1.0).sum() + normal(z, 0, 1.0).sum(), [
        draws(30), np.arange(30) % 5, 0.2, -0.3, draws(5)], [draws(4), np.array([0, 0, 1, 0]), 0.1, 0.3, draws(2)]


@model
def censored():
    y, high, mu, log_s = pt.dvector("y"), pt.dscalar("high"), pt.dscalar("mu"), pt.dscalar("log_s")
    s = pt.exp(log_s)
    above = pt.log(0.5 * pt.erfc((high - mu) / (s * np.sqrt(2))))
    return [y, high, mu, log_s], pt.switch(pt.ge(y, high), above, normal(y, mu, s)).sum(), [np.minimum(draws(40), 0.5), 0.5, 0.1, 0.2], [
        np.minimum(draws(3), 0.1), 0.1, 0.3, 0.1]


@model
def truncated_and_binomial():
    n, k, p, a = pt.lvector("n"), pt.lvector("k"), pt.dscalar("p"), pt.dscalar("a")
    choose = pt.gammaln(n + 1.0) - pt.gammaln(k + 1.0) - pt.gammaln(n - k + 1.0)
    q = pt.sigmoid(p)
    beta = pt.betainc(k + a, n - k + 1.0, q)
    return [n, k, p, a], (choose + k * pt.log(q) + (n - k) * pt.log1p(-q) + pt.log(beta)).sum(), [
        np.array([5, 9, 12]), np.array([2, 3, 7]), 0.2, 0.8], [np.array([4]), np.array([4]), -0.2, 0.3]


@model
def zero_inflated():
    y, eta, logit = pt.lvector("y"), pt.dvector("eta"), pt.dscalar("logit")
    poisson = y * eta - pt.exp(eta) - pt.gammaln(y + 1.0)
    both = pt.logaddexp(pt.log(pt.sigmoid(logit)), pt.log(pt.sigmoid(-logit)) + poisson)
    return [y, eta, logit], pt.switch(pt.eq(y, 0), both, pt.log(pt.sigmoid(-logit)) + poisson).sum(), [
        np.arange(12) % 4, draws(12), 0.3], [np.array([0, 2]), draws(2), -0.5]


@model
def own_op_in_a_model():
    x, a = pt.dvector("x"), pt.dscalar("a")
    return [x, a], (Cube()(a * x) + pt.tanh(x)).sum(), [draws(8), 0.7], [draws(3), 1.1]


@model
def own_op_in_a_scan():
    x, a = pt.dvector("x"), pt.dscalar("a")
    y = scan(lambda x, y, a: Cube()(0.3 * y) + a * x, sequences=[x], outputs_info=[pt.zeros(())], non_sequences=[a])
    return [x, a], (y ** 2).sum(), [draws(8), 0.7], [draws(3), 1.1]


@model
def graph_as_an_op():
    u, v = pt.dvector("u"), pt.dscalar("v")
    soft = OpFromGraph([u, v], [pt.softplus(u * v) / v])
    x, s = pt.dvector("x"), pt.dscalar("s")
    y = scan(lambda x, h, s: soft(pt.stack([x, h]), s).sum(), sequences=[x], outputs_info=[pt.zeros(())], non_sequences=[s])
    return [x, s], soft(x, s).sum() + (y ** 2).sum(), [draws(8), 0.7], [draws(3), 1.1]


@model
def choice_inside_a_scan():
    x, a = pt.dvector("x"), pt.dscalar("a")
    y = scan(lambda x, h, a: ifelse(pt.gt(x, 0), pt.sin(h) + a * x, pt.linalg.solve(pt.eye(2) * (1 + x ** 2), pt.stack([h, a]))[0]),
             sequences=[x], outputs_info=[pt.ones(())], non_sequences=[a])
    return [x, a], (y ** 2).sum(), [draws(9), 0.7], [draws(2), 1.1]


@model
def moving_average_with_taps():
    """ARMA(2, 2): taps into the past of a sequence and of two states."""
    y, phi, theta = pt.dvector("y"), pt.dvector("phi"), pt.dvector("theta")
    step = lambda y0, y1, y2, e1, e2, p, q: y0 - p[0] * y1 - p[1] * y2 - q[0] * e1 - q[1] * e2
    e = scan(step, sequences=[dict(input=y, taps=[0, -1, -2])], outputs_info=[dict(initial=pt.zeros(2), taps=[-1, -2])],
             non_sequences=[phi, theta])
    return [y, phi, theta], normal(e, 0, 1.3).sum(), [draws(40), np.array([0.3, 0.1]), np.array([0.2, -0.1])], [
        draws(4), np.array([0.1, 0.2]), np.array([0.3, 0.1])]


@model
def kalman_with_missing_observations():
    y, a, q, r = pt.dvector("y"), pt.dmatrix("a"), pt.dscalar("q"), pt.dscalar("r")

    def step(y, m, p, a, q, r):
        m, p = a @ m, a @ p @ a.T + q * pt.eye(2)
        gone = pt.isnan(y)
        s, v = p[0, 0] + r, pt.switch(gone, 0.0, y - m[0])
        k = pt.switch(gone, pt.zeros(2), p[:, 0] / s)
        return m + k * v, p - pt.outer(k, p[0]), pt.switch(gone, 0.0, -0.5 * (pt.log(2 * np.pi * s) + v * v / s))

    _, _, each = scan(step, sequences=[y], outputs_info=[pt.zeros(2), pt.eye(2), None], non_sequences=[a, q, r])
    gaps = draws(25)
    gaps[3:7] = np.nan
    return [y, a, q, r], each.sum(), [gaps, np.array([[0.9, 0.1], [0.0, 0.8]]), 0.1, 0.5], [draws(3), np.eye(2) * 0.5, 0.2, 0.3]


@model
def stick_breaking_and_dirichlet():
    v, w = pt.dvector("v"), pt.dmatrix("w")
    b = pt.sigmoid(v)
    p = pt.concatenate([b, [1.0]]) * pt.concatenate([[1.0], pt.cumprod(1 - b)])
    each = pt.logsumexp(pt.log(p) + w, axis=1)
    return [v, w], each.sum() + pt.gammaln(p.sum() * 3) - pt.gammaln(3 * p).sum(), [draws(3), draws(6, 4)], [draws(1), draws(2, 2)]


@model
def spline_by_search():
    x, knots, values = pt.dvector("x"), pt.dvector("knots"), pt.dvector("values")
    k = pt.clip(pt.searchsorted(knots, x), 1, knots.shape[0] - 1)
    f = (x - knots[k - 1]) / (knots[k] - knots[k - 1])
    return [x, knots, values], ((1 - f) * values[k - 1] + f * values[k]).sum(), [draws(15), np.linspace(-2, 2, 6), draws(6)], [
        draws(2), np.array([-1.0, 1]), draws(2)]


@model
def padded_windows():
    x, w = pt.dvector("x"), pt.dvector("w")
    padded = pt.pad(x, (1, 1), mode="constant")
    y = pt.stack([padded[:-2], padded[1:-1], padded[2:]], axis=-1) @ w
    return [x, w], pt.sum(y ** 2) + pt.einsum("i,i->", x, x) + pt.max(x) + pt.sqrt(pt.var(x) + 1), [draws(9), draws(3)], [draws(2), draws(3)]


@model
def complex_signal():
    """By the real and the imaginary part of what rotates."""
    x, w = pt.dvector("x"), pt.dscalar("w")
    t = pt.arange(x.shape[0])
    re, im = (x * pt.cos(w * t)).sum(), (x * pt.sin(w * t)).sum()
    return [x, w], pt.log1p(re ** 2 + im ** 2) + pt.arctan2(im, re), [draws(12), 0.4], [draws(3), 1.4]


@model
def scan_over_matrices_with_checkpoints():
    x, w = pt.dmatrix("x"), pt.dmatrix("w")
    h = scan(lambda x, h, w: pt.tanh(x + h @ w), sequences=[x], outputs_info=[pt.zeros(3)], non_sequences=[w])
    return [x, w], (h[-1] ** 2).sum() + h[::2].sum() + h[-3:].prod(), [draws(10, 3), draws(3, 3)], [draws(4, 3), draws(3, 3)]


def built(name):
    """Inputs, outputs (the density and its gradients), two points."""
    inputs, density, *points = MODELS[name]()
    by = [x for x in inputs if x.type.dtype == "float64"]
    points = [[np.asarray(v, x.type.dtype) for v, x in zip(point, inputs)] for point in points]
    return inputs, [density, *pytensor.grad(density, by, disconnected_inputs="ignore")], points


def compare(got, wanted, rtol=1e-9):
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


def again(f):
    """Pickled and back; where PyTensor's own objects refuse it (the gradient of an OpFromGraph does, in all modes), as PyMC does it."""
    try:
        return pickle.loads(pickle.dumps(f))
    except (AttributeError, pickle.PicklingError):
        cloudpickle = pytest.importorskip("cloudpickle")
        return pickle.loads(cloudpickle.dumps(f))


MAY_FALL_BACK = {"own_op_in_a_model": {"Cube"}, "own_op_in_a_scan": {"Cube"}, "differential_equation_with_events": {"Scan"}}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_gradients_are_those_of_numpy(name):
    inputs, outputs, points = built(name)
    wanted = pytensor.function(inputs, outputs, mode="FAST_COMPILE")
    wanted = [wanted(*point) for point in points]
    inputs, outputs, _ = built(name)
    f = pytensor.function(inputs, outputs, mode="WEFT")
    before = weft.pytensor.fallbacks.copy()
    for point, values in zip(points, wanted):
        compare(f(*point), values)
    assert not set(weft.pytensor.fallbacks - before) - MAY_FALL_BACK.get(name, set())
    for other in (again(f), f.copy(), copy.copy(f)):
        for point, values in zip(points[::-1], wanted[::-1]):
            compare(other(*point), values)


@pytest.mark.parametrize("name", ["kalman_with_missing_observations", "own_op_in_a_scan", "differential_equation_with_events"])
def test_threads_share_the_function_of_a_model(name):
    inputs, outputs, points = built(name)
    f, found = pytensor.function(inputs, outputs, mode="WEFT"), [None] * 4
    wanted = [[np.array(x) for x in f(*point)] for point in points]

    def work(k):
        found[k] = [[np.array(x) for x in f(*points[(k + i) % 2])] for i in range(6)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        for i in range(6):
            compare(found[k][i], wanted[(k + i) % 2], rtol=0)
