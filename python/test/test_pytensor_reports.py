"""What users of PyTensor's back end for MLX have reported, as programs in mode WEFT: Scan (issue 2097, pull request 2258), a nan among
the constants of the gradient of a norm (2239), reversed slices in what is compiled (2259, 2240). Their numbers are those of NumPy's, or
of PyTensor's own evaluation."""
import warnings

import numpy as np
import pytest
import weft

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.raise_op import Assert  # noqa: E402

import weft.pytensor  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_falls_back():
    before = dict(weft.pytensor.fallbacks)
    yield
    assert dict(weft.pytensor.fallbacks) == before


def compiled(inputs, outputs):
    return pytensor.function(inputs, outputs, mode="WEFT")


def own(inputs, outputs):
    return pytensor.function(inputs, outputs, mode=pytensor.compile.mode.Mode("py", None))


def test_a_state_that_feeds_itself_is_scanned_in_float32():
    """2097: h = tanh(rho h + y) over a vector of any length, begun with zeros, summed; and its gradients."""
    y, rho = pt.vector("y", dtype="float32"), pt.scalar("rho", dtype="float32")
    states, _ = pytensor.scan(fn=lambda y_t, h, rho: pt.tanh(rho * h + y_t), sequences=[y],
                              outputs_info=[pt.zeros((), dtype="float32")], non_sequences=[rho])
    total = states.sum()
    f, g = compiled([y, rho], total), compiled([y, rho], pytensor.grad(total, [y, rho]))
    for n in (100, 1, 7):
        a, r, h, want = np.linspace(-1, 1, n, dtype="float32"), np.float32(0.7), np.float32(0), 0.0
        for element in a:
            h = np.tanh(r * h + element)
            want += h
        assert f(a, r).dtype == np.float32 and f(a, r) == pytest.approx(want, rel=1e-5, abs=1e-5)
        for got, expected in zip(g(a, r), own([y, rho], pytensor.grad(total, [y, rho]))(a, r)):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def test_every_kind_of_state_is_scanned_in_one_loop():
    """2258: sequences, one tap and several, outputs without a state, values of all steps alike; a number of steps known only when run."""
    x, w, n = pt.fmatrix("x"), pt.fmatrix("w"), pt.iscalar("n")
    first, several, half, tenth = pt.fvector("first"), pt.fmatrix("several"), np.float32(0.5), np.float32(0.1)

    def step(x_t, before, t1, t3, w):
        state = pt.tanh(before @ w + x_t)
        return state, half * t1 - tenth * t3 + state, (state ** 2).sum()

    outs, _ = pytensor.scan(step, sequences=[x], non_sequences=[w], n_steps=n,
                            outputs_info=[first, dict(initial=several, taps=[-1, -3]), None])
    cost = outs[0].sum() + outs[1][-1].sum() + outs[2].sum()
    inputs = [x, w, n, first, several]
    both = [*outs, *pytensor.grad(cost, [x, w, first, several])]
    f, g = compiled(inputs, both), own(inputs, both)
    rng = np.random.default_rng(0)
    for steps in (6, 1, 4):
        values = [0.3 * rng.standard_normal(s).astype("f4") for s in ((6, 3), (3, 3), (3,), (3, 3))]
        values.insert(2, np.int32(steps))
        for got, want in zip(f(*values), g(*values)):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_norm_has_a_nan_among_its_constants_and_no_trouble():
    """2239: RMSNorm, differentiated by its input; a rewrite makes switch(z >= 0, z, nan) of the square of a root."""
    x, w = pt.matrix("x", dtype="float32"), pt.vector("w", dtype="float32")
    out = x / pt.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * w
    slope = pt.grad((out * out).sum(), x)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((5, 16)).astype("f4"), rng.standard_normal(16).astype("f4")
    np.testing.assert_allclose(compiled([x, w], slope)(a, b), own([x, w], slope)(a, b), rtol=1e-3, atol=1e-5)
    z = pt.vector("z", dtype="float32")
    rooted = compiled([z], pt.sqr(pt.sqrt(z)))(np.array([-1, 0, 4, np.nan, np.inf], "f4"))
    np.testing.assert_allclose(rooted, np.array([np.nan, 0, 4, np.nan, np.inf], "f4"), rtol=1e-6)


@pytest.mark.parametrize("step", [-1, -2, 2])
def test_a_reversed_slice_in_what_is_compiled_has_all_its_rows(step):
    """2259: 2 x[::-1]; and 2240: what is added to or put into such a slice, and gradients of one."""
    x = pt.matrix("x", dtype="float32")
    base = pt.zeros_like(x)
    part = 2.0 * x[::step]
    outputs = [part, pt.inc_subtensor(base[::step], part), pt.set_subtensor(base[::step, ::-1], part), pt.grad((part ** 2).sum(), x),
               pt.grad((x[1:3, ::step] ** 2).sum(), x)]
    a = np.arange(15, dtype="float32").reshape(5, 3)
    got = compiled([x], outputs)(a)
    np.testing.assert_array_equal(got[0], 2 * a[::step])
    for g, want in zip(got, own([x], outputs)(a)):
        np.testing.assert_array_equal(g, want)


def test_what_fails_in_a_scan_that_rewrites_made_anew_names_the_line_of_the_scan():
    x, A = pt.vector("x"), pt.matrix("A")
    rows = pytensor.scan(lambda a, h, A: pt.dot(A, h) + a, sequences=[x], outputs_info=[pt.ones(3)], non_sequences=[A], return_updates=False)
    f = pytensor.function([x, A], rows, mode="WEFT")
    with pytest.raises(ValueError, match=r"inner lengths differ: \[2,2\] x \[3,1\] \(Dot.*test_pytensor_reports.py:\d+\)"):
        f(np.ones(3), np.ones((2, 2)))


def test_a_failure_names_a_function_of_weft_and_none_of_the_linker():
    x, k = pt.dvector("x"), pt.lscalar("k")
    f = pytensor.function([x, k], x[k:].inc(x), mode="WEFT")
    with pytest.raises(ValueError, match=r"^add: \[3\] does not broadcast to the part, \[2\] \(IncSubtensor"):
        f(np.ones(3), 1)


def test_a_check_that_fails_while_it_is_traced_names_its_node_once():
    x = pt.dvector("x")
    checked = Assert("two, please")(x, pt.eq(x.shape[0], 2))
    del checked.tag.trace  # as of what a rewrite makes
    f = pytensor.function([x], pt.repeat(checked, [1, 2]), mode="WEFT")  # repeats want sizes as numbers
    with pytest.raises(AssertionError, match=r"^two, please \(Assert[^()]*\(x, [^()]*\)\)\n"):
        f(np.ones(3))
