"""The mode WEFT of PyTensor: a new length is no new trace."""
import warnings

import numpy as np
import pytest
import weft

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.scan.utils import until  # noqa: E402

import weft.pytensor  # noqa: E402

LENGTHS = (0, 1, 2, 3, 17, 1000)


def values(n, seed=0):
    return np.random.default_rng([n, seed]).uniform(-1, 1, n)


def scan(step, **options):
    return pytensor.scan(step, return_updates=False, **options)


def agrees_for_all(inputs, outputs, arguments, rtol=1e-10, n_traces=1):
    """With PyTensor's own evaluation by NumPy, for each list of arguments, by so many traces, none of them for one set of sizes."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    plain = pytensor.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    f = pytensor.function(inputs, outputs, mode="WEFT", on_unused_input="ignore")
    traces, fallbacks = dict(weft.pytensor.traces), weft.pytensor.fallbacks.total()
    for given in arguments:
        for got, want in zip(f(*given), plain(*given)):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)
    assert weft.pytensor.fallbacks.total() == fallbacks
    assert weft.pytensor.traces["closed"] == traces.get("closed", 0)
    assert weft.pytensor.traces["open"] == traces.get("open", 0) + n_traces


def with_gradient(y, *wrt):
    return [y, *pytensor.grad(y.sum(), list(wrt))]


X, Y, A = pt.dvector("x"), pt.dvector("y"), pt.dscalar("a")


def running(x, a):
    return scan(lambda e, c, a: a * c + e, sequences=[x], outputs_info=[pt.zeros(())], non_sequences=[a])


def two_taps(x, a):
    before = dict(initial=pt.as_tensor([0.5, -1.0]), taps=[-1, -2])
    return scan(lambda e, c1, c2, a: a * c1 - 0.5 * c2 + e, sequences=[x], outputs_info=[before], non_sequences=[a])


def neighbours(x, a):
    padded = pt.concatenate([x, pt.zeros(2)])
    return scan(lambda before, here, a: a * before * here + here, sequences=[dict(input=padded, taps=[-1, 0])], non_sequences=[a])


def backwards(x, a):
    return scan(lambda e, c, a: pt.tanh(a * c + e), sequences=[x], outputs_info=[pt.ones(())], non_sequences=[a], go_backwards=True)


def last_only(x, a):
    return running(x, a)[-1:]


def several(x, a):
    c, d, e = scan(lambda x, c, d, a: (c + x, d * a + c, c * d), sequences=[x], outputs_info=[pt.zeros(()), pt.ones(()), None],
                   non_sequences=[a])
    return pt.concatenate([c, d[::-1], e])


def nested(x, a):
    inner = lambda e, a: scan(lambda z, s, a: s + z * a, sequences=[x], outputs_info=[e], non_sequences=[a])
    return scan(lambda e, a: inner(e, a).sum(), sequences=[x], non_sequences=[a])


def truncated(x, a):
    return scan(lambda e, c, a: a * c + e, sequences=[x], outputs_info=[pt.zeros(())], non_sequences=[a], truncate_gradient=3)


SCANS = {f.__name__: f for f in (running, two_taps, neighbours, backwards, last_only, several, nested, truncated)}


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_has_one_trace_for_all_lengths(name):
    least = 1 if name in ("last_only",) else 0
    longest = 17 if name == "nested" else 1000
    y = SCANS[name](X, A)
    agrees_for_all([X, A], with_gradient(y, X, A), [(values(n), np.array(0.7)) for n in LENGTHS if least <= n <= longest])


@pytest.mark.parametrize("name", [name for name in SCANS if name not in ("nested", "truncated")])
def test_gradients_of_its_gradient_have_one(name):
    least = 1 if name in ("last_only",) else 0
    gradient = pytensor.grad((SCANS[name](X, A) ** 2).sum(), X)
    agrees_for_all([X, A], with_gradient(gradient ** 2, X, A), [(values(n), np.array(0.7)) for n in (0, 1, 2, 3, 17) if n >= least],
                   n_traces=4 if name == "several" else 1)  # of integers that are too long to be told some are computed first


def test_a_number_of_steps_at_run_time_is_no_new_trace():
    n = pt.lscalar("n")
    y = scan(lambda c, a: a * c + 1.0, outputs_info=[A], non_sequences=[A], n_steps=n)
    agrees_for_all([A, n], with_gradient(y, A), [(np.array(0.9), k) for k in (1, 2, 3, 17, 200, 2)])


def test_steps_fewer_than_there_are_rows():
    n = pt.lscalar("n")
    y = scan(lambda e, c, a: a * c + e, sequences=[X], outputs_info=[A], non_sequences=[A], n_steps=n)
    agrees_for_all([X, A, n], with_gradient(y, X, A), [(values(17), np.array(0.9), k) for k in (1, 2, 16, 17)])


def test_a_scan_that_ends_itself():
    y = scan(lambda e, c: (c + abs(e), until(c > 3.0)), sequences=[X], outputs_info=[pt.zeros(())])
    agrees_for_all([X], [y, y.sum()], [(values(n),) for n in (1, 2, 3, 17, 1000)])


SHAPES = {
    "slices": lambda x, y: x[1:y.shape[0]] * 2,
    "slices from the end": lambda x, y: x[:-1] + x[1:],
    "strides": lambda x, y: x[x.shape[0] - 1::-2],
    "reshape": lambda x, y: pt.concatenate([x, x]).reshape((2, x.shape[0])).T.reshape((-1,)),
    "reshape of what is left": lambda x, y: pt.outer(x, y).reshape((-1, y.shape[0])).sum(0),
    "alloc": lambda x, y: pt.alloc(x[:1].sum(), x.shape[0], 2),
    "arange": lambda x, y: pt.arange(x.shape[0]) * x,
    "join": lambda x, y: pt.concatenate([x, y[::-1], x]),
    "stacked": lambda x, y: pt.stack([x, x * 2, x ** 2]).sum(1),
    "places": lambda x, y: x[pt.arange(x.shape[0]) // 2],
    "written to": lambda x, y: x[1:x.shape[0] // 2 + 1].inc(1.0),
    "sorted": lambda x, y: pt.sort(x)[::-1],
    "diagonal": lambda x, y: pt.diag(pt.outer(x, x)),
    "onto a diagonal": lambda x, y: pt.diag(x).sum(0),
    "eye": lambda x, y: (pt.eye(x.shape[0]) * x).sum(1),
    "split": lambda x, y: pt.split(pt.concatenate([x, y]), [x.shape[0], y.shape[0]], n_splits=2)[1],
    "repeated": lambda x, y: pt.repeat(x, 3),
    "tiled": lambda x, y: pt.tile(x, 2),
    "running sums": lambda x, y: pt.cumsum(x),
    "norms": lambda x, y: x / pt.sqrt((x ** 2).sum() + 1),
    "products": lambda x, y: pt.outer(x, y) @ y,
    "halves": lambda x, y: x[:x.shape[0] // 2].sum() - x[x.shape[0] // 2:].sum() + x[:0].sum(),
    "squeezed": lambda x, y: x[:, None][:, 0],
    "padded": lambda x, y: pt.concatenate([pt.zeros(x.shape[0] // 3), x]),
    "batches, some": lambda x, y: pt.linalg.cholesky(pt.eye(2) * (1 + x[:, None, None] ** 2)).sum((1, 2)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_have_one_trace_for_all_lengths(name):
    y = SHAPES[name](X, Y)
    wanted = [y, *pytensor.grad(y.sum(), [X, Y], disconnected_inputs="ignore", return_disconnected="zero")]
    pairs = ((1, 2), (2, 2), (3, 1), (17, 5), (100, 100), (0, 3))
    agrees_for_all([X, Y], wanted, [(values(n), values(m, 1)) for n, m in pairs if n or "some" not in name],
                   n_traces=3 if name == "split" else 1)  # its parts are a vector, which is computed first


def test_shared_variables_change_their_length():
    x = pytensor.shared(values(5), "x")
    f = pytensor.function([A], with_gradient(running(x, A), A), mode="WEFT")
    before = dict(weft.pytensor.traces)
    for n in (5, 7, 1000, 5):
        x.set_value(values(n))
        y, da = f(0.5)
        assert y.shape == (n,)
        c, d, want = 0.0, 0.0, 0.0
        for e in values(n):
            c, d = 0.5 * c + e, c + 0.5 * d
            want += d
        np.testing.assert_allclose(da, want, rtol=1e-9)
    assert weft.pytensor.traces["open"] == before.get("open", 0) + 1


def test_what_needs_numbers_is_counted():
    before = dict(weft.pytensor.lengths)
    f = pytensor.function([X], pt.signal.convolve1d(X, pt.as_tensor(np.array([1.0, 2.0]))), mode="WEFT")
    for n in (3, 4):
        np.testing.assert_allclose(f(values(n)), np.convolve(values(n), [1.0, 2.0]), rtol=1e-12)
    assert weft.pytensor.lengths["Convolve1d"] == before.get("Convolve1d", 0) + 1
