"""The mode WEFT of PyTensor. PyTensor's own tests are run by `make pytensor-suite`; here is what they do not look at."""
import gc
import io
import threading
import warnings
import weakref

import numpy as np
import pytest
import weft

pytest.importorskip("pytensor", reason="PyTensor is not installed", exc_type=ImportError)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402
from pytensor.graph.basic import Apply  # noqa: E402
from pytensor.graph.op import Op  # noqa: E402
from pytensor.ifelse import ifelse  # noqa: E402
from pytensor.raise_op import Assert, CheckAndRaise  # noqa: E402
from pytensor.scan.utils import until  # noqa: E402

import weft.pytensor  # noqa: E402


def function(inputs, outputs, **options):
    return pytensor.function(inputs, outputs, mode="WEFT", **options)


def program_of(f):
    return f.vm.jit_fn.program


def agrees(inputs, outputs, *values, rtol=1e-12):
    """With PyTensor's own evaluation by NumPy."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    wanted = pytensor.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")(*values)
    got = function(inputs, outputs, on_unused_input="ignore")(*values)
    for a, b in zip(got, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol)


@pytest.fixture(autouse=True)
def without_fallbacks(request):
    before = weft.pytensor.fallbacks.total()
    yield
    if "fallback" not in request.node.name:
        assert weft.pytensor.fallbacks.total() == before


def test_the_mode_is_there_by_name():
    assert pytensor.compile.mode.get_mode("WEFT") is weft.pytensor.WEFT


def test_a_value_and_its_gradient(rng):
    x, w = pt.dmatrix("x"), pt.dvector("w")
    loss = pt.log1p(pt.exp(-(x @ w))).sum()
    agrees([x, w], [loss, *pytensor.grad(loss, [x, w])], rng.standard_normal((5, 3)), rng.standard_normal(3))


@pytest.mark.parametrize("layout", ["plain", "reversed", "strided", "readonly", "swapped", "empty", "fortran"])
def test_arguments_of_any_layout(layout, rng):
    a = rng.standard_normal((6, 4))
    a = {"plain": a, "reversed": a[::-1, ::-1], "strided": a[::2, 1:], "swapped": a.astype(">f8"), "empty": a[:0],
         "fortran": np.asfortranarray(a), "readonly": a}[layout]
    a.flags.writeable = layout != "readonly"
    x = pt.dmatrix("x")
    f = function([x], [x * 2, x.sum(0)], trust_input=True)
    twice, sums = f(a)
    np.testing.assert_array_equal(twice, a * 2)
    np.testing.assert_allclose(sums, a.sum(0), rtol=1e-14)
    c = pt.as_tensor(a.astype("=f8"))
    np.testing.assert_array_equal(function([], c + 1)(), a + 1)


def test_sizes_come_from_arguments_and_from_what_is_computed(rng):
    x, n = pt.dvector("x"), pt.iscalar("n")
    m = pt.cast(pt.abs(x).max(), "int64")
    y = [pt.zeros(n) + 1, x[:n], x[n::2], x[-n:], pt.arange(m), pt.zeros((m, 2)), x[::-n]]
    f = function([x, n], y)
    for size, k in ((7, 3), (4, 1), (9, 2)):
        a = rng.standard_normal(size) * 5
        got, top = f(a, k), int(abs(a).max())
        want = [np.ones(k), a[:k], a[k::2], a[-k:], np.arange(top), np.zeros((top, 2)), a[::-k]]
        for g, w in zip(got, want):
            np.testing.assert_array_equal(g, w)


def test_masks(rng):
    x = pt.dvector("x")
    y = x[x > 0]
    f = function([x], [y, pt.cumsum(y), (x > 0).sum()])
    for _ in range(3):
        a = rng.standard_normal(10)
        for got, want in zip(f(a), (a[a > 0], np.cumsum(a[a > 0]), (a > 0).sum())):
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_scans_are_native_loops(rng):
    x, a, b = pt.dvector("x"), pt.dscalar("a"), pt.dscalar("b")
    y = pytensor.scan(lambda e, y2, y1, a, b: a * y1 + b * y2 + e, sequences=x, non_sequences=[a, b], return_updates=False,
                      outputs_info=dict(initial=pt.as_tensor(np.zeros(2)), taps=[-2, -1]))
    loss = (y ** 2).sum()
    agrees([x, a, b], [y, *pytensor.grad(loss, [x, a, b])], rng.standard_normal(9), 0.5, -0.2)
    agrees([x, a, b], [y], np.zeros(0), 0.5, -0.2)


def test_a_scan_that_ends_itself(rng):
    x = pt.dscalar("x")
    y = pytensor.scan(lambda v: (v * 2, until(v > 50)), outputs_info=x, n_steps=100, return_updates=False)
    agrees([x], [y, y[-1], y.shape[0]], 1.0)
    agrees([x], [y[-1]], 60.0)


def test_scans_inside_scans_and_gradients_of_gradients(rng):
    x = pt.dmatrix("x")
    row = lambda r, s: s + pytensor.scan(lambda e, p: pt.tanh(p + e), sequences=r, outputs_info=pt.as_tensor(np.float64(0.1)), return_updates=False)[-1]
    y = pytensor.scan(row, sequences=x, outputs_info=pt.as_tensor(np.float64(0)), return_updates=False)[-1]
    g = pytensor.grad(y, x)
    agrees([x], [y, g, pytensor.grad((g ** 2).sum(), x)], rng.standard_normal((3, 4)), rtol=1e-10)


def test_a_choice_computes_one_side():
    x, p = pt.dvector("x"), pt.bscalar("p")
    checked = Assert("there is a negative one")(x, pt.all(x >= 0))
    f = function([x, p], ifelse(p, pt.sqrt(checked).sum(), x.sum()))
    assert f(np.array([-1.0, 2]), 0) == 1 and f(np.array([4.0, 9]), 1) == 5
    with pytest.raises(AssertionError, match="there is a negative one"):
        f(np.array([-1.0, 2]), 1)
    assert f(np.array([4.0, 9]), 1) == 5


def test_sides_of_different_sizes():
    x, p = pt.dvector("x"), pt.bscalar("p")
    f = function([x, p], ifelse(p, x[1:], x))
    assert f(np.arange(3.0), 1).tolist() == [1, 2] and f(np.arange(3.0), 0).tolist() == [0, 1, 2]


SHARED_BY_CHOICES = {
    "same": lambda choose, x, y, p, q: [choose(p, y, x), choose(p, lambda: y() + 1, x)],
    "two": lambda choose, x, y, p, q: [choose(p, y, x), choose(q, x, lambda: y() * 2)],
    "nested": lambda choose, x, y, p, q: [choose(p, lambda: choose(q, y, x), x), choose(q, lambda: y() * 2, x)],
    "twice": lambda choose, x, y, p, q: [choose(p, lambda: choose(q, y, x), lambda: choose(q, x, y))],
}


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("name", SHARED_BY_CHOICES)
@pytest.mark.parametrize("share", ["check", "index", "sizes"])
def test_what_sides_of_several_choices_need_is_computed_if_one_is_taken(name, share, is_inside):
    """Otherwise it does not fail either: a check, an index, sizes that do not fit. Inside: at each step of a loop."""
    x, p, q = pt.dvector("x"), pt.bscalar("p"), pt.bscalar("q")
    shared = {"check": lambda x, exp: Assert("not of these")(exp(x), pt.all(x > 0)), "index": lambda x, exp: exp(x)[x.astype("int64")],
              "sizes": lambda x, exp: exp(x)[:2] + exp(x)}[share]

    def built(x):
        y = shared(x, pt.exp)
        return SHARED_BY_CHOICES[name](lambda c, a, b: ifelse(c, a(), b()), lambda: x, lambda: y, p, q)

    outs = built(x) if not is_inside else [o[-1] for o in pytensor.scan(
        lambda k: built(x + k), sequences=pt.arange(1.0), outputs_info=[None] * len(built(x)), return_list=True, return_updates=False)]
    f = function([x, p, q], outs, on_unused_input="ignore")

    def right(a):
        if share == "check" and not (a > 0).all():
            raise AssertionError
        return np.exp(a) if share == "check" else shared(a, np.exp)

    for a in (np.array([1.0, 0.5]), np.array([-1.0, 5]), np.array([1.0, 2, 0])):
        for chosen in ((0, 0), (0, 1), (1, 0), (1, 1)):
            try:
                wanted = SHARED_BY_CHOICES[name](lambda c, a, b: a() if c else b(), lambda: a, lambda: right(a), *chosen)
            except (AssertionError, IndexError, ValueError) as error:
                with pytest.raises(type(error)):
                    f(a, *chosen)
                continue
            for got, want in zip(f(a, *chosen), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12)


def test_one_of_several_results_that_sizes_depend_on_is_computed_first(rng):
    """The shape of the IfElse is an IfElse with two results; the loop's length is one of them. It was traced again and again."""
    a, b, p = pt.dmatrix("a"), pt.dmatrix("b"), pt.lscalar("p")
    rows = pytensor.map(lambda row: pt.tanh(row), ifelse(p, b * 2, pt.concatenate([b, a])), return_updates=False)
    for k in range(2):
        agrees([a, b, p], [rows, *pytensor.grad(rows.sum(), [a, b])], rng.standard_normal((3, 4)), rng.standard_normal((2, 4)), k)


def test_checks_raise_what_they_say_also_in_a_scan():
    x = pt.dvector("x")
    f = function([x], Assert("positive, please")(x, pt.all(x > 0)) * 2)
    assert f(np.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="positive, please"):
        f(np.array([1.0, -1]))
    y = pytensor.scan(lambda v: Assert("inside")(v, v > 0) * 2, sequences=x, return_updates=False)
    f = function([x], y)
    assert f(np.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="inside"):
        f(np.array([1.0, 1, -1]))
    assert f(np.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("make, values, error", [
    (lambda x, i: x[i], (np.ones(3), 7), IndexError), (lambda x, i: x + pt.arange(i), (np.ones(3), 4), ValueError),
    (lambda x, i: pt.specify_shape(x, (i,)), (np.ones(3), 4), AssertionError),
    (lambda x, i: pytensor.scan(lambda v: v + 1, outputs_info=x, n_steps=i, return_updates=False), (np.ones(3), -2), (ValueError, IndexError)),
    (lambda x, i: x.reshape((i, 2)), (np.ones(3), 2), ValueError),
    (lambda x, i: x[0] + pt.arange(0, 4, i), (np.ones(3), 0), ZeroDivisionError)])
def test_what_does_not_fit_is_the_error_that_pytensor_raises(make, values, error):
    x, i, state = pt.dvector("x"), pt.lscalar("i"), pytensor.shared(np.zeros(2))
    f = function([x, i], make(x, i), updates={state: state + 1})
    with pytest.raises(error):
        f(*values)
    assert state.get_value().tolist() == [0, 0]


def test_shared_variables_are_updated(rng):
    w, x = pytensor.shared(np.zeros(3), name="w"), pt.dvector("x")
    f = function([x], (w ** 2).sum(), updates={w: w - 0.1 * (w - x)})
    a, want = rng.standard_normal(3), np.zeros(3)
    for _ in range(4):
        assert f(a) == pytest.approx((want ** 2).sum(), rel=1e-13)
        want = want - 0.1 * (want - a)
    np.testing.assert_allclose(w.get_value(), want, rtol=1e-13)
    kept = w.get_value(borrow=True)
    f(a)
    np.testing.assert_allclose(kept, want, rtol=1e-13)
    w.set_value(np.ones(3))
    assert f(a) == 3


def test_results_are_the_callers_own():
    x = pt.dvector("x")
    f = function([x], [x, x[::-1], pt.as_tensor(np.arange(3.0))])
    a = np.arange(3.0)
    for result in f(a):
        result[:] = 7
    assert a.tolist() == [0, 1, 2]
    assert [r.tolist() for r in f(a)] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


class Doubled(Op):
    """An Op that weft knows nothing of."""
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2

    def infer_shape(self, node, shapes):
        return shapes


class Positive(Op):
    """Likewise, with a result whose size only it can tell."""
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][inputs[0] > 0]


def test_fallback_to_perform_is_a_step_with_one_warning_and_a_count(rng):
    x = pt.dvector("x")
    weft.pytensor.fallbacks.pop("Doubled", None)
    f = function([x], Doubled()(x + 1) - 1)
    with pytest.warns(weft.pytensor.FallbackWarning, match="Doubled"):
        assert f(np.arange(3.0)).tolist() == [1, 3, 5]
    assert f(np.arange(4.0)).tolist() == [1, 3, 5, 7]
    assert weft.pytensor.fallbacks["Doubled"] == 1
    y = pytensor.scan(lambda v, s: Doubled()(s + v), sequences=x, outputs_info=pt.as_tensor(np.zeros(2)), return_updates=False)
    assert function([x], y)(np.arange(1.0, 4)).tolist() == [[2, 2], [8, 8], [22, 22]]


@pytest.mark.filterwarnings("ignore::weft.pytensor.FallbackWarning")
def test_fallback_is_a_step_of_the_one_function_for_all_sizes(rng):
    x, traces = pt.dmatrix("x"), dict(weft.pytensor.traces)
    rows = pytensor.scan(lambda v, s: Doubled()(s + v), sequences=x, outputs_info=pt.zeros(x.shape[1]), return_updates=False)
    f = function([x], [Doubled()(x.T)[::-1].sum(0), rows])
    for shape in ((3, 2), (1, 4), (4, 1), (0, 3), (5, 3)):
        a, state = rng.standard_normal(shape), np.zeros(shape[1])
        total, got = f(a)
        np.testing.assert_allclose(total, 2 * a.sum(1), rtol=1e-12)
        for row, value in zip(got, a):
            state = 2 * (state + value)
            np.testing.assert_allclose(row, state, rtol=1e-12)
    assert weft.pytensor.traces["open"] == traces.get("open", 0) + 1 and weft.pytensor.traces["closed"] == traces.get("closed", 0)
    assert not program_of(f).cuts


@pytest.mark.filterwarnings("ignore::weft.pytensor.FallbackWarning")
def test_fallback_of_unknown_size_is_computed_first(rng):
    x = pt.dvector("x")
    f = function([x], [Positive()(x * 2) + 1, Positive()(x).sum()])
    for _ in range(3):
        a = rng.standard_normal(6)
        got, total = f(a)
        np.testing.assert_allclose(got, (2 * a)[a > 0] + 1, rtol=1e-14)
        assert total == pytest.approx(a[a > 0].sum(), rel=1e-13)


def test_threads_call_copies_of_a_function():
    """One function has one cell for each argument, PyTensor's own, and is for one call at a time."""
    x, k = pt.dvector("x"), pt.lscalar("k")
    total = pytensor.shared(0.0)
    f = function([x, k], [pt.exp(Assert("no")(x, k < 3)).sum() * k, total])
    wrong = []

    def call(n, f):
        for k in range(60):
            a = np.full(n + k % 3, 0.5 * n)
            try:
                got = f(a, k % 4)[0]
            except AssertionError:
                got = None
            if (got is None) != (k % 4 == 3) or (got is not None and not np.allclose(got, np.exp(a).sum() * (k % 4))):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(n, f.copy())) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_threads_share_what_a_function_was_linked_to(rng):
    x = pt.dvector("x")
    f = function([x], pt.exp(x).sum())
    wrong = []

    def call(n):
        linked = f.vm.jit_fn
        for k in range(30):
            a = np.full(n + k % 3, 0.5 * n)
            if not np.allclose(linked(a)[0], np.exp(a).sum()):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_functions_can_be_pickled_and_copied(rng):
    import pickle
    x = pt.dvector("x")
    f = function([x], pt.tanh(x).sum())
    a = rng.standard_normal(5)
    for g in (pickle.loads(pickle.dumps(f)), f.copy()):
        assert g(a) == f(a)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_and_special_values_are_numpys(dtype):
    x = pt.vector("x", dtype=dtype)
    a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5], dtype)
    with np.errstate(all="ignore"):
        agrees([x], [x + 1, pt.maximum(x, 0), pt.switch(x > 0, x, -1), pt.max(x), pt.isnan(x), pt.round(x), pt.sgn(x), x // 2, x % 2,
                     pt.cast(x, "float32") + pt.cast(1, "int64"), pt.clip(x, -1, 1)], a)


def test_integers_promote_as_in_numpy():
    i, u = pt.vector("i", dtype="int64"), pt.vector("u", dtype="uint8")
    agrees([i, u], [i / u, i // u, i % u, i + u, pt.exp(i), u < i, i ** 2, ~u, i.mean(), u.sum(), i.prod()],
           np.array([7, -8, 2**53 + 1]), np.array([2, 3, 255], "uint8"))


def generator(seed):
    return np.random.default_rng(seed)


def test_equal_generators_give_equal_draws_and_stay_as_they_are():
    rng = pt.random.type.random_generator_type("rng")
    following, x = pt.random.normal(0, 1, size=(4,), rng=rng, return_next_rng=True)
    f = function([rng], [following, x])
    given = generator(3)
    (after, a), (_, b), (_, c) = f(given), f(generator(3)), f(generator(4))
    assert given.bit_generator.state == generator(3).bit_generator.state
    assert a.tolist() == b.tolist() != c.tolist()
    assert f(after)[1].tolist() != a.tolist() and f(after)[1].tolist() == f(after)[1].tolist()


def test_a_shared_generator_is_updated_also_through_a_scan():
    def draws(seed):
        rng = pytensor.shared(generator(seed))

        def step(rng):
            return pt.random.normal(size=(2,), rng=rng, return_next_rng=True)

        last, xs = pytensor.scan(step, outputs_info=[rng, None], n_steps=4, return_updates=False)
        f = function([], xs, updates={rng: last})
        return [f(), f()]

    (a, b), (c, d) = draws(5), draws(5)
    assert a.tolist() == c.tolist() and b.tolist() == d.tolist() and len(np.unique([a, b])) == 16


@pytest.mark.parametrize("name, parameters, mean, sd", [
    ("normal", (1.0, 2.0), 1, 2), ("uniform", (-1.0, 3.0), 1, 4 / 12 ** 0.5), ("gamma", (3.0,), 3, 3 ** 0.5),
    ("beta", (2.0, 3.0), 0.4, 0.2), ("poisson", (4.0,), 4, 2), ("binomial", (10, 0.3), 3, 2.1 ** 0.5),
    ("bernoulli", (0.25,), 0.25, 0.1875 ** 0.5), ("exponential", (2.0,), 2, 2), ("integers", (0, 1 << 40), 2.0 ** 39, 2.0 ** 40 / 12 ** 0.5),
    ("categorical", (np.array([0.2, 0.3, 0.5]),), 1.3, 0.61 ** 0.5), ("invgamma", (5.0, 2.0), 0.5, 1 / 12 ** 0.5),
    ("geometric", (0.25,), 4, 12 ** 0.5), ("laplace", (1.0, 1.0), 1, 2 ** 0.5), ("pareto", (5.0, 2.0), 2.5, (25 / 60) ** 0.5)])
def test_draws_have_the_mean_and_the_spread_of_their_distribution(name, parameters, mean, sd):
    draw = getattr(pt.random, name)
    options = {"scale": 1.0} if name == "gamma" else {}
    _, x = draw(*parameters, size=(20000,), rng=pytensor.shared(generator(11)), return_next_rng=True, **options)
    x = function([], x)()
    assert abs(x.mean() - mean) < 5 * sd / len(x) ** 0.5 and abs(x.std() / sd - 1) < 0.06


class TruncatedNormalRV(pt.random.op.RandomVariable):
    """PyMC's, as far as the mode can tell."""
    name, signature, dtype, __module__ = "truncated_normal", "(),(),(),()->()", "floatX", "pymc.distributions.continuous"

    @classmethod
    def rng_fn(cls, rng, mu, sigma, lower, upper, size):
        raise NotImplementedError


@pytest.mark.parametrize("mu, sigma, low, high", [(1, 2, -1, 2), (0, 1, 10, np.inf), (0, 1, -np.inf, -10), (0, 2, 6, 6.2), (5, 0.1, -np.inf, np.inf),
                                                  (0, 1, -40, -36), (0, 1, 60, np.inf), (0, 1, -60.01, -60), (2, 1, -30, 50)])
def test_truncated_normals_of_pymc_are_drawn_far_out_too(mu, sigma, low, high):
    stats = pytest.importorskip("scipy.stats")
    _, x = TruncatedNormalRV()(mu, sigma, low, high, size=(20000,), rng=pytensor.shared(generator(12)), return_next_rng=True)
    x = function([], x)()
    assert x.min() >= low and x.max() <= high
    assert stats.kstest(x, stats.truncnorm((low - mu) / sigma, (high - mu) / sigma, mu, sigma).cdf).pvalue > 1e-3


def test_truncated_normals_have_parameters_that_pymc_takes():
    low = pt.dscalar("low")
    _, x = TruncatedNormalRV()(0.0, [1.0, 2.0], low, 3.0, rng=pytensor.shared(generator(12)), return_next_rng=True)
    f = function([low], x)
    assert f(2.5).shape == (2,) and (f(2.5) >= 2.5).all()
    with pytest.raises(ValueError, match="Domain error"):
        f(3.0)


def test_permutations_and_choices_take_everything_once():
    rng = pytensor.shared(generator(2))
    x, k = pt.lvector("x"), pt.as_tensor(np.array([0.1, 0.2, 0.3, 0.2, 0.2]))
    outputs = [pt.random.permutation(x, rng=rng, return_next_rng=True)[1],
               pt.random.choice(x, size=(3,), replace=False, rng=rng, return_next_rng=True)[1],
               pt.random.choice(x, size=(5,), replace=False, p=k, rng=rng, return_next_rng=True)[1]]
    shuffled, three, five = function([x], outputs)(np.arange(10, 15))
    assert sorted(shuffled) == sorted(five) == [10, 11, 12, 13, 14] and len(set(three)) == 3


def test_flat_indices_and_diagonals(rng):
    i, x, k = pt.lvector("i"), pt.dmatrix("x"), pt.lscalar("k")
    at = pt.unravel_index(i, (3, 4))
    f = function([i, x, k], [*at, pt.ravel_multi_index(at, (3, 4)), pt.fill_diagonal(x, 7.0), pt.fill_diagonal_offset(x, 5.0, k)])
    a = rng.standard_normal((3, 4))
    for offset in (-1, 0, 2):
        rows, columns, flat, filled, shifted = f(np.array([0, 5, 11]), a, offset)
        assert rows.tolist() == [0, 1, 2] and columns.tolist() == [0, 1, 3] and flat.tolist() == [0, 5, 11]
        np.testing.assert_array_equal(filled, np.where(np.eye(3, 4), 7, a))
        np.testing.assert_array_equal(shifted, np.where(np.eye(3, 4, offset), 5, a))
    with pytest.raises(ValueError, match="out of bounds"):
        f(np.array([12]), a, 0)


# ---- What users of other back ends met ----

def test_a_scan_that_another_back_end_has_no_dispatcher_for():
    """An AR(1) likelihood: it could not be compiled at all."""
    y, rho = pt.dvector("y"), pt.dscalar("rho")
    errors = pytensor.scan(lambda now, before, rho: now - rho * before, sequences=[y[1:], y[:-1]], non_sequences=[rho], return_updates=False)
    density = -0.5 * (errors ** 2).sum()
    agrees([y, rho], [density, pytensor.grad(density, rho)], np.array([0.1, 0.5, -0.3, 0.8]), 0.7)


def test_a_nan_that_a_rewrite_makes_is_a_number():
    """sqr(sqrt(z)) becomes switch(z >= 0, z, nan): the nan went into a kernel's text and ended the process."""
    z = pt.dvector("z")
    y = pt.sqr(pt.sqrt(z))
    assert np.array_equal(function([z], y)(np.array([4.0, -1.0, 0.0])), [4, np.nan, 0], equal_nan=True)
    x, gain = pt.dmatrix("x"), pt.dvector("gain")
    normed = x / pt.sqrt(pt.sqr(x).mean(axis=1, keepdims=True) + 1e-5) * gain
    agrees([x, gain], pytensor.grad((normed ** 3).sum(), [x, gain]), np.arange(6.0).reshape(2, 3), np.ones(3))


def test_steps_of_all_kinds_that_are_known_when_it_runs(rng):
    """A scan by tracing every step needs their number, and a condition it cannot have."""
    x0, n, x = pt.dscalar("x0"), pt.lscalar("n"), pt.dvector("x")
    f = function([x0, n], pytensor.scan(lambda v: v * 1.5, outputs_info=x0, n_steps=n, return_updates=False))
    for steps in (1, 4, 9):
        np.testing.assert_allclose(f(2.0, steps), 2 * 1.5 ** np.arange(1, steps + 1), rtol=1e-14)
    back = pytensor.scan(lambda e, s: (s * 0.5 + e, e ** 2), sequences=x, outputs_info=[pt.as_tensor(np.float64(0)), None],
                         go_backwards=True, return_updates=False)
    agrees([x], [*back, pytensor.grad(back[0][-1], x)], rng.standard_normal(6))


def test_a_reversed_view_into_a_compiled_kernel(rng):
    """Only the first row was right."""
    x = pt.dmatrix("x")
    a = rng.standard_normal((5, 3))
    np.testing.assert_array_equal(function([x], 2 * x[::-1])(a), 2 * a[::-1])
    np.testing.assert_array_equal(function([x], x[::-2, ::-1] + 1)(a), a[::-2, ::-1] + 1)
    np.testing.assert_allclose(function([x], x[::-1].sum(1))(a), a[::-1].sum(1), rtol=1e-14)


# ---- Sizes ----

def test_a_new_length_is_no_new_trace(rng):
    x, w, b = pt.dmatrix("x"), pt.dvector("w"), pt.dscalar("b")
    eta = x @ w + b
    loss = pt.softplus(eta).sum() + (pt.zeros_like(w) + 1).sum() + pt.mean(x[::-1, 0] * pt.exp(x).sum(1))
    g = function([x, w, b], [loss, *pytensor.grad(loss, [x, w, b])])
    reference = pytensor.function([x, w, b], [loss, *pytensor.grad(loss, [x, w, b])], mode="FAST_COMPILE")
    for n, d in ((4, 3), (7, 2), (1, 1), (2, 5), (9, 1), (1, 4)):
        point = rng.standard_normal((n, d)), rng.standard_normal(d), 0.3
        for got, want in zip(g(*point), reference(*point)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)
            assert got.shape == want.shape
    assert len(program_of(g).traces) == 1 and program_of(g).is_open
    with pytest.raises(ValueError):
        g(np.ones((3, 2)), np.ones(3), 0.0)
    with pytest.raises(ValueError):
        g(np.ones((3, 2)), np.ones(1), 0.0)
    assert g(np.zeros((2, 1)), np.zeros(1), 0.0)[0] == pytest.approx(2 * np.log(2) + 1)


def test_lengths_that_have_to_be_numbers_are_traced_each(rng):
    x = pt.dvector("x")
    f = function([x], pytensor.scan(lambda e, s: s + e, sequences=x, outputs_info=pt.as_tensor(np.float64(0)), return_updates=False))
    for n in (3, 5, 1, 8):
        a = rng.standard_normal(n)
        np.testing.assert_allclose(f(a), np.cumsum(a), rtol=1e-13)


# ---- Systems of linear equations, convolutions, choices ----

def definite(rng, *batch, n=4):
    a = rng.standard_normal((*batch, n, n))
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
@pytest.mark.parametrize("lower", [True, False])
def test_factors_read_one_triangle(lower, batch, dtype, rng):
    x = pt.tensor("x", shape=(None,) * (len(batch) + 2), dtype=dtype)
    a = definite(rng, *batch).round().astype(dtype)
    a[(..., 0, -1) if lower else (..., -1, 0)] = 77
    agrees([x], pt.linalg.cholesky(x, lower=lower), a, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_a_factor_of_what_is_not_definite_is_nan_as_a_whole():
    x = pt.dtensor3("x")
    f = function([x], [pt.linalg.cholesky(x), pt.linalg.cholesky(x, lower=False)])
    for c in f(np.array([np.eye(2), [[1, 2], [2, 1]], [[np.nan, 0], [0, 1]]])):
        assert np.isnan(c[1:]).all() and (c[0] == np.eye(2)).all()
    assert f(np.zeros((2, 0, 0)))[0].shape == (2, 0, 0)


@pytest.mark.parametrize("b_ndim", [1, 2])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_systems(lower, unit, trans, b_ndim, rng):
    a, b = pt.dtensor3("a"), pt.tensor("b", shape=(None,) * (b_ndim + 1), dtype="float64")
    x = pt.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit, trans=trans, b_ndim=b_ndim)
    values = rng.standard_normal((3, 4, 4)) + 4 * np.eye(4), rng.standard_normal((3, 4, 2)[:b_ndim + 1])
    agrees([a, b], [x, *pytensor.grad((x ** 2).sum(), [a, b])], *values, rtol=1e-8)


def test_a_singular_triangle_gives_nan_as_a_whole():
    a, b = pt.dmatrix("a"), pt.dvector("b")
    f = function([a, b], pt.linalg.solve_triangular(a, b))
    assert np.isnan(f(np.array([[0.0, 1], [0, 1]]), np.ones(2))).all()
    np.testing.assert_array_equal(f(np.array([[1.0, 1], [0, 1]]), np.ones(2)), [0, 1])


@pytest.mark.parametrize("kind", ["gen", "sym", "her", "pos", "tridiagonal", "banded"])
@pytest.mark.parametrize("b_ndim", [1, 2])
@pytest.mark.parametrize("lower", [True, False])
def test_systems_read_what_they_assume(lower, b_ndim, kind, rng):
    a, b = pt.dtensor3("a"), pt.tensor("b", shape=(None,) * (b_ndim + 1), dtype="float64")
    x = pt.linalg.solve(a, b, assume_a=kind, lower=lower, b_ndim=b_ndim)
    value = definite(rng, 3)
    if kind in ("sym", "her") or (kind == "pos" and lower):  # PyTensor's rewrite of "pos" reads the lower triangle always
        value[(..., 0, -1) if lower else (..., -1, 0)] = 77
    elif kind in ("gen", "banded"):
        value[..., 0, 1] = 3
    agrees([a, b], x, value, rng.standard_normal((3, 4, 2)[:b_ndim + 1]), rtol=1e-9)


@pytest.mark.parametrize("lower", [True, False])
def test_systems_by_their_factor(lower, rng):
    c, b = pt.dmatrix("c"), pt.dmatrix("b")
    x = pt.linalg.cho_solve((c, lower), b)
    agrees([c, b], [x, *pytensor.grad(x.sum(), [c, b])], rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.standard_normal((3, 2)), rtol=1e-8)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_inverses_and_determinants(batch, rng):
    a = pt.tensor("a", shape=(None,) * (len(batch) + 2), dtype="float64")
    inverse, determinant = pt.linalg.inv(a), pt.linalg.det(a)
    sign, log = pt.linalg.slogdet(a)
    values = rng.standard_normal((*batch, 4, 4))
    agrees([a], [inverse, determinant, sign, log, pytensor.grad(log.sum() + (inverse ** 2).sum(), a)], values, rtol=1e-6)


def test_a_singular_inverse_raises_and_the_function_stays_usable():
    a = pt.dmatrix("a")
    f = function([a], pt.linalg.inv(a))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        f(np.ones((2, 2)))
    np.testing.assert_array_equal(f(2 * np.eye(2)), np.eye(2) / 2)
    with pytest.raises(ValueError):
        f(np.ones((2, 3)))


def test_systems_in_a_scan_and_of_several_sizes(rng):
    a, b = pt.dmatrix("a"), pt.dmatrix("b")
    states = pytensor.scan(lambda e, s: pt.linalg.solve(a, s + e), sequences=b, outputs_info=pt.zeros_like(b[0]), return_updates=False)
    f = function([a, b], [states, pytensor.grad(states.sum(), a)])
    for n, steps in ((3, 5), (2, 4), (1, 2)):
        value, x = definite(rng, n=n), rng.standard_normal((steps, n))
        state, want = np.zeros(n), []
        for e in x:
            state = np.linalg.solve(value, state + e)
            want.append(state)
        np.testing.assert_allclose(f(value, x)[0], want, rtol=1e-11)
    agrees([a, b], pytensor.grad(states.sum(), a), value, x, rtol=1e-9)


def test_a_log_density_of_several_sizes_is_no_new_trace(rng):
    a, x = pt.dmatrix("a"), pt.dvector("x")
    c = pt.linalg.cholesky(a)
    z = pt.linalg.solve_triangular(c, x, lower=True)
    density = -(z ** 2).sum() / 2 - pt.log(pt.diagonal(c)).sum()
    f = function([a, x], density)
    for n in (4, 3, 1, 6):
        value, point = definite(rng, n=n), rng.standard_normal(n)
        want = -point @ np.linalg.inv(value) @ point / 2 - np.linalg.slogdet(value)[1] / 2
        assert f(value, point) == pytest.approx(want, rel=1e-11)
    assert len(program_of(f).traces) == 1 and program_of(f).is_open


COMPLEX = {
    "solve": lambda a, b, lower: pt.linalg.solve(a, b), "of a vector": lambda a, b, lower: pt.linalg.solve(a, b[:, 0], b_ndim=1),
    "hermitian": lambda a, b, lower: pt.linalg.solve(a, b, assume_a="her", lower=lower),
    "symmetric": lambda a, b, lower: pt.linalg.solve(a, b, assume_a="sym", lower=lower),
    "definite": lambda a, b, lower: pt.linalg.solve(a, b, assume_a="pos", lower=lower),
    "triangular": lambda a, b, lower: pt.linalg.solve_triangular(a, b, lower=lower),
    "unit triangle": lambda a, b, lower: pt.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=True),
    "factor": lambda a, b, lower: pt.linalg.cholesky(a, lower=lower), "inverse": lambda a, b, lower: pt.linalg.inv(a)}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_systems_do_not_fall_back(name, lower, rng):
    a, b = pt.zmatrix("a"), pt.zmatrix("b")
    before = sum(weft.pytensor.fallbacks.values())
    f, g = (pytensor.function([a, b], COMPLEX[name](a, b, lower), mode=mode, on_unused_input="ignore") for mode in ("WEFT", Mode("py", None)))
    for n in (3, 5, 1):
        x, y = (rng.standard_normal((n, m)) + 1j * rng.standard_normal((n, m)) for m in (n, 2))
        definite = x @ x.conj().T + n * np.eye(n)
        x = {"hermitian": definite, "definite": definite, "factor": definite}.get(name, x)
        np.testing.assert_allclose(f(x, y), g(x, y), rtol=1e-9, atol=1e-12)
    assert sum(weft.pytensor.fallbacks.values()) == before


def test_complex_matrices_without_a_factor_or_an_inverse(rng):
    a = pt.zmatrix("a")
    assert np.isnan(pytensor.function([a], pt.linalg.cholesky(a), mode="WEFT")(-np.eye(2) * (1 + 0j))).all()
    with pytest.raises(np.linalg.LinAlgError):
        pytensor.function([a], pt.linalg.inv(a), mode="WEFT")(np.zeros((2, 2), complex))


def test_determinants_of_complex_matrices(rng):
    a = pt.zmatrix("a")
    agrees([a], pt.linalg.det(a), rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3)), rtol=1e-10)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("sizes", [((7,), (3,)), ((3,), (7,)), ((4,), (4,)), ((2, 7), (2, 3)), ((2, 1, 5), (3, 2)), ((5,), (2, 3))])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_convolutions_of_vectors(dtype, sizes, mode, rng):
    x, w = (pt.tensor(name, shape=[1 if n == 1 else None for n in s], dtype=dtype) for name, s in zip("xw", sizes))
    y = pt.signal.convolve1d(x, w, mode=mode)
    values = [(9 * rng.standard_normal(s)).astype(dtype) for s in sizes]
    gradients = pytensor.grad((y ** 2).sum(), [x, w]) if dtype == "float64" else []
    agrees([x, w], [y, *gradients], *values, rtol=1e-9)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_convolutions_of_matrices(batch, mode, rng):
    x, w = pt.tensor("x", shape=(None,) * (len(batch) + 2)), pt.dmatrix("w")
    y = pt.signal.convolve2d(x, w, mode=mode, method="direct")
    agrees([x, w], [y, *pytensor.grad((y ** 2).sum(), [x, w])], rng.standard_normal((*batch, 5, 6)), rng.standard_normal((2, 3)), rtol=1e-9)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_choices_by_element(mode, rng):
    a, choices = pt.lmatrix("a"), pt.dtensor3("choices")
    y = pt.choose(a, choices, mode=mode)
    which = np.array([[0, 1, 2], [2, 1, 0]]) if mode == "raise" else np.array([[-5, 1, 2], [7, 1, -1]])
    agrees([a, choices], y, which, rng.standard_normal((3, 1, 3)))
    if mode == "raise":
        with pytest.raises(ValueError):
            function([a, choices], y)(which + 1, np.zeros((3, 2, 3)))


# ---- Sizes that only a run tells ----

def test_what_a_mask_leaves_is_one_function(rng):
    x = pt.dvector("x")
    kept = x[x > 0]
    f = function([x], [kept, kept.sum(), pt.exp(kept) + 1, kept.shape[0], pt.max(kept), pytensor.grad((kept ** 2).sum(), x)])
    for n in (6, 6, 9, 1):
        a = rng.standard_normal(n)
        a[0] = 1
        b = a[a > 0]
        for got, want in zip(f(a), (b, b.sum(), np.exp(b) + 1, len(b), b.max(), np.where(a > 0, 2 * a, 0))):
            assert np.shape(got) == np.shape(want)
            np.testing.assert_allclose(got, want, rtol=1e-13)


def test_who_needs_numbers_has_masked_sizes_computed_first(rng):
    x = pt.dvector("x")
    kept = x[x > 0]
    sums = pytensor.scan(lambda e, s: s + e, sequences=kept, outputs_info=pt.as_tensor(np.float64(0)), return_updates=False)
    f = function([x], [sums, pt.outer(kept, kept), pt.concatenate([kept, x]), kept[::-1], kept.reshape((-1, 1))])
    for n in (7, 7, 4):
        a = rng.standard_normal(n)
        a[0] = 1
        b = a[a > 0]
        for got, want in zip(f(a), (np.cumsum(b), np.outer(b, b), np.concatenate([b, a]), b[::-1], b[:, None])):
            np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_places_that_are_not_zero(dtype, rng):
    x = pt.tensor("x", shape=(None, None), dtype=dtype)
    agrees([x], [*pt.nonzero(x), pt.flatnonzero(x), pt.nonzero_values(x)], rng.integers(0, 2, (4, 5)).astype(dtype))
    agrees([x], [*pt.nonzero(x), pt.flatnonzero(x)], np.zeros((3, 2), dtype))


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_what_is_there_once(dtype, rng):
    x = pt.tensor("x", shape=(None, None), dtype=dtype)
    agrees([x], pt.unique(x, return_index=True, return_inverse=True, return_counts=True), rng.integers(0, 4, (4, 5)).astype(dtype))
    agrees([x], pt.unique(x) * 2, rng.integers(0, 4, (4, 5)).astype(dtype))


def test_masks_are_written_to(rng):
    x, y = pt.dmatrix("x"), pt.dvector("y")
    a = rng.standard_normal((4, 3))
    agrees([x], [x[x > 0].set(5.0), x[x > 0].inc(5.0), x[x[:, 0] > 0].set(5.0)], a)
    agrees([x, y], [x[x > 0].set(y), x[x > 0].inc(y)], a, rng.standard_normal((a > 0).sum()))
    agrees([x], [x[x[:, 0] > 0], x[x[:, 0] > 0, 1]], a)


def test_what_masks_are_given_is_counted_as_it_is_written(rng):
    """Nothing is asked for on the way: one function for all masks, and a Scan that writes through its own mask is a loop."""
    x, y, m = pt.dvector("x"), pt.dvector("y"), pt.tensor("m", shape=(None,), dtype="bool")
    f = function([x, y, m], [x[m].set(y), x[m].inc(y), x[m].set(x[m] * 2), x[x > 0].inc(-x[x > 0])])
    g = pytensor.function([x, y, m], [x[m].set(y), x[m].inc(y), x[m].set(x[m] * 2), x[x > 0].inc(-x[x > 0])], mode="FAST_COMPILE")
    a = rng.standard_normal(5)
    a[1] = -0.0
    traces = sum(weft.pytensor.traces.values())
    for mask, n in (([1, 0, 1, 1, 0], 3), ([0, 0, 0, 0, 1], 1), ([1, 1, 0, 1, 0], 1), ([0] * 5, 0), ([1] * 5, 5), ([0] * 5, 1)):
        values = a, rng.standard_normal(n), np.array(mask, bool)
        for got, want in zip(f(*values), g(*values)):
            assert got.dtype == want.dtype and got.tobytes() == want.tobytes()
    assert sum(weft.pytensor.traces.values()) - traces == 1
    for values in ((a, np.ones(2), np.array([1, 0, 1, 1, 0], bool)), (a, np.ones(2), np.zeros(5, bool))):
        with pytest.raises(ValueError):
            f(*values)
    with pytest.raises(IndexError, match="boolean index"):
        f(a, np.ones(3), np.ones(3, bool))


def test_a_scan_that_writes_through_its_own_mask_is_a_loop():
    x = pt.dvector("x")

    def step(x, m):
        y = x[m].set(x[m] * 0.5)
        return [y, y > 1], until(~pt.any(y > 1))

    halved, _ = pytensor.scan(step, outputs_info=[x, pt.ones_like(x, dtype="bool")], n_steps=50, return_updates=False)
    f, before = function([x], halved[-1]), weft.pytensor.fallbacks["Scan"]
    np.testing.assert_array_equal(f(np.array([1.0, 5, 9])), [0.5, 0.625, 0.5625])
    np.testing.assert_array_equal(f(np.array([3.0, 1.0])), [0.75, 0.5])
    assert weft.pytensor.fallbacks["Scan"] == before


def test_masked_operands_that_differ_in_length_raise():
    x, y = pt.dvector("x"), pt.dvector("y")
    f = function([x, y], x[x > 0] + y)
    with pytest.raises(ValueError):
        f(np.array([1.0, -1, 2]), np.ones(3))
    np.testing.assert_array_equal(f(np.array([1.0, -1, 2]), np.ones(2)), [2, 3])


def test_rows_that_a_state_begins_with_may_all_be_one():
    """PyTensor's rewrites leave one of rows that are alike, and stretch it over the front of the buffer."""
    x, n, k = pt.dvector("x"), pt.lscalar("n"), pt.lscalar("k")

    def last(first, back=3):
        taps = list(range(-back, 0))
        return pytensor.scan(lambda *a: sum(v * (0.5 + i) for i, v in enumerate(a)) + 0.1, n_steps=k, return_updates=False,
                             outputs_info=[dict(initial=first, taps=taps)])[-1]

    def looped(row, k, back=3):
        rows = [row] * back
        for _ in range(k):
            rows.append(sum(v * (0.5 + i) for i, v in enumerate(rows[-back:])) + 0.1)
        return rows[-1]

    a = np.array([0.25, -1.5])
    for first, row in ((pt.zeros((3, x.shape[0])), a * 0), (pt.alloc(x, 3, x.shape[0]), a), (pt.zeros((n, x.shape[0])), a * 0),
                       (pt.alloc(x[0], n), a[0])):
        f = pytensor.function([x, n, k], last(first), mode="WEFT", on_unused_input="ignore")
        for steps in (4, 1, 2):
            np.testing.assert_allclose(f(a, 3, steps), looped(row, steps), rtol=1e-13)
    for first in (pt.zeros((n, x.shape[0])), pt.alloc(x, n, x.shape[0]), x[None]):  # too few
        f = pytensor.function([x, n, k], last(first), mode="WEFT", on_unused_input="ignore")
        with pytest.raises((ValueError, IndexError)):
            f(a, 1, 4)


def test_a_recurrence_over_a_vector_of_any_length():
    """The log density that a MLX user could not compile: each step's output is what the next begins with."""
    y, rho = pt.vector("y", dtype="float32"), pt.scalar("rho", dtype="float32")
    hs = pytensor.scan(fn=lambda y_t, h_prev, rho: pt.tanh(rho * h_prev + y_t), sequences=[y],
                       outputs_info=[pt.zeros((), dtype="float32")], non_sequences=[rho], return_updates=False)
    f, before = function([y, rho], [hs.sum(), pytensor.grad(hs.sum(), rho)]), dict(weft.pytensor.fallbacks)
    for n in (100, 7, 1):
        ys, h, dh, total, d_total = np.sin(np.arange(n, dtype="float32")), 0.0, 0.0, 0.0, 0.0
        for y_t in ys:
            before_h, h = h, np.tanh(0.5 * h + y_t)
            dh = (1 - h * h) * (before_h + 0.5 * dh)
            total, d_total = total + h, d_total + dh
        np.testing.assert_allclose(f(ys, np.float32(0.5)), [total, d_total], rtol=1e-5, atol=1e-6)
    assert dict(weft.pytensor.fallbacks) == before


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_the_gradient_of_a_normalisation_by_its_input(norm):
    """A rewrite brings a nan as a constant into it."""
    x, w = pt.matrix("x", dtype="float32"), pt.vector("w", dtype="float32")
    z = x if norm == "rms" else x - x.mean(axis=-1, keepdims=True)
    out = z / pt.sqrt((z * z).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * w
    rng = np.random.default_rng(0)
    agrees([x, w], pt.grad((out * out).sum(), x), rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=4).astype("float32"),
           rtol=2e-3)


@pytest.mark.parametrize("cut", [slice(None, None, -1), slice(3, 0, -2), slice(None, None, -3), slice(-2, None, -1)])
def test_reversed_parts_are_read_and_written_inside_of_kernels(cut):
    x, a = pt.matrix("x", dtype="float32"), np.arange(15, dtype="float32").reshape(5, 3)
    zeros = pt.zeros_like(x)
    agrees([x], [2 * x[cut], pt.exp(x[:, ::-1])[cut].sum(0), pt.inc_subtensor(zeros[cut], 2 * x[cut]),
                 pt.set_subtensor(zeros[cut], pt.exp(-x[cut])), pt.grad((x[cut] ** 3).sum(), x)], a, rtol=1e-6)


def test_a_scan_of_every_kind_of_state():
    """Sequences with taps, states with one and several taps, outputs without one, a state that is not kept, and the gradient."""
    x, a = pt.dvector("x"), pt.dscalar("a")

    def step(now, ahead, two_ago, one_ago, state, a):
        new = a * two_ago + 0.5 * one_ago + pt.tanh(now * ahead)
        return new, state * a + new, new * state

    first, second, third = pytensor.scan(
        step, sequences=[dict(input=x, taps=[0, 1])], non_sequences=[a], return_updates=False,
        outputs_info=[dict(initial=pt.as_tensor(np.array([0.1, 0.2])), taps=[-2, -1]), pt.as_tensor(np.array(1.0)), None])
    cost = (first * third).sum() + second[-1]
    for n in (9, 4):
        agrees([x, a], [first, second[-1], third, *pytensor.grad(cost, [x, a])], np.cos(np.arange(n)), np.array(0.3), rtol=1e-10)


@pytest.mark.parametrize("kind", [ValueError, KeyError, np.linalg.LinAlgError])
def test_a_check_raises_its_own_class_in_and_outside_of_loops(kind):
    x, s = pt.dvector("x"), pytensor.shared(np.zeros(2))
    one = CheckAndRaise(kind, "from outside")(x.sum(), pt.all(x < 9))
    rows = pytensor.scan(lambda v: CheckAndRaise(kind, "from inside")(v, v > 0) * 2, sequences=x, return_updates=False)
    f = function([x], [one, rows], updates={s: s + 1})
    for _ in range(2):
        assert f(np.array([1.0, 2]))[1].tolist() == [2, 4]
        with pytest.raises(kind, match="from inside"):
            f(np.array([1.0, -2]))
        with pytest.raises(kind, match="from outside"):
            f(np.array([1.0, 12]))
        with pytest.raises(kind, match="from outside"):
            g = function([x], CheckAndRaise(kind, "from outside")(x, pt.eq(x.shape[0], 1)))
            g(np.ones(0))
    assert s.get_value().tolist() == [2, 2]


def test_a_check_of_sizes_is_a_step_of_the_function_where_an_output_has_elements():
    """PyMC's densities of data in pm.Data check their lengths: their calls need no Python, and data stay on a device."""
    x, s = pt.dvector("x"), pytensor.shared(np.ones(3))
    n = Assert("lengths")(x.shape[0], pt.eq(x.shape[0], s.shape[0]))
    f = function([x], [pt.alloc(x.sum(), n), x.sum()], updates={s: s + x[0]})
    for _ in range(2):
        rows, total = f(np.ones(3))
        assert rows.tolist() == [3, 3, 3] and total == 3
        for wrong in (2, 4, 0):
            with pytest.raises((AssertionError, IndexError), match="lengths|[Ii]ndex"):
                f(np.ones(wrong))
    assert [traced.is_straight for traced in program_of(f).traces.values()][0]
    assert s.get_value().tolist() == [3, 3, 3]


def test_calls_of_other_shapes_find_their_function_again():
    x, y = pt.dvector("x"), pt.dvector("y")
    f = function([x, y], x * 2 + y)
    f.trust_input = True
    for n in (3, 1, 3, 0, 5, 3, 1):
        assert f(np.ones(n), np.ones(n)).tolist() == [3.0] * n
        with pytest.raises(ValueError):
            f(np.ones(n + 1), np.ones(n + 3))


@pytest.mark.parametrize("make, good, bad, error, says", [
    (lambda x, i: (x * 2)[i] + 1, 1, 7, IndexError, "Subtensor"),
    (lambda x, i: x + pt.arange(i), 3, 4, ValueError, "Add|add"),
    (lambda x, i: x[pt.stack([i, i])] * 2, 1, 9, IndexError, r"AdvancedSubtensor.*\(x"),
    (lambda x, i: pt.dot(x, pt.ones((i, 2))), 3, 4, ValueError, "Dot|dot"),
    (lambda x, i: pytensor.scan(lambda v: x[v], sequences=pt.stack([i, i]), return_updates=False) * 2, 1, 5, IndexError, "Subtensor"),
    (lambda x, i: ifelse(pt.gt(i, 0), (pt.outer(x, x) @ x)[i], x[0]), 1, 5, IndexError, r"axis of 3 \(Subtensor"),
    (lambda x, i: ifelse(pt.gt(i, 0), x[i], x[0]), 1, 5, IndexError, r"axis of 3 \(Subtensor.*\(x"),
    (lambda x, i: pt.eye(i, 2) * x[0], 1, -5, ValueError, "-5 .*negative"),
    (lambda x, i: pt.eye(2, i) * x[0], 1, -5, ValueError, "-5 .*negative")])
def test_an_error_names_the_node_its_variables_and_the_line(make, good, bad, error, says):
    x, i, state = pt.dvector("x"), pt.lscalar("i"), pytensor.shared(np.zeros(2))
    f = function([x, i], make(x, i), updates={state: state + 1})
    for n in range(2):
        with pytest.raises(error, match=says) as caught:
            f(np.ones(3), bad)
        assert "test_pytensor.py:" in str(caught.value)
        assert any("HINT" in note for note in caught.value.__notes__)
        assert state.get_value().tolist() == [n, n]
        f(np.ones(3), good)
    del caught


def test_wrong_arguments_are_refused_as_pytensor_refuses_them():
    x = pt.dvector("x")
    f = function([x], x + 1)
    for value in (np.ones((2, 2)), "text", [1j]):
        with pytest.raises((TypeError, ValueError), match="index 0"):
            f(value)
    assert f([1.0]).tolist() == [2]
    with pytest.raises(TypeError):
        f()


def test_kernels_are_shown_and_profiled():
    x = pt.dvector("x")
    f = function([x], pt.tanh(x) * 2, profile=True)
    f(np.ones(3))
    assert "tanh" in weft.pytensor.show(f) and "kernel" in weft.pytensor.show(f)
    assert f.profile.fct_callcount == 1 and "tanh" in f.profile.weft + weft.pytensor.show(f, "graph")
    assert sum(f.profile.apply_time.values()) > 0


def test_special_functions_of_several_numbers_have_rows():
    a, b, p = pt.dvector("a"), pt.dvector("b"), pt.dvector("p")
    before = dict(weft.pytensor.fallbacks)
    agrees([a, b, p], [pt.gammaincinv(a, p), pt.gammainccinv(a, p), pt.betaincinv(a, b, p), pt.ive(a, b), pt.kve(a, b), pt.jv(a, b),
                       pt.owens_t(a, b)], np.array([0.5, 2.0, 7.25]), np.array([1.5, 0.3, 4.0]), np.array([0.1, 0.5, 0.93]), rtol=1e-9)
    assert dict(weft.pytensor.fallbacks) == before


def test_running_sums_of_bools_and_narrow_integers_count_as_numpys_do():
    x = pt.dvector("x")
    assert pytensor.function([x], pt.gt(x, 0).cumsum(), mode="WEFT")([1.0, 1.0, -1.0, 1.0]).tolist() == [1, 2, 2, 3]
    assert pytensor.function([x], pt.gt(x, 0).cumsum().astype("float64") * 1.5, mode="WEFT")([1.0, 1.0]).tolist() == [1.5, 3.0]
    n = pt.vector("n", dtype="int8")
    assert pytensor.function([n], n.cumsum(), mode="WEFT")(np.array([100, 100, 3], "int8")).tolist() == [100, 200, 203]
    for fixed in (np.array([True, True, False, True]), np.array([100, 100, 3], "int8"), np.array([200, 200], "uint8")):  # PyTensor does not fold
        got, copied, summed = pytensor.function([], [pt.cumsum(fixed), pt.cumsum(fixed).copy(), pt.cumsum(fixed) * 2.0], mode="WEFT")()
        want = np.cumsum(fixed)
        assert got.dtype == copied.dtype == want.dtype and got.tolist() == copied.tolist() == want.tolist()
        assert summed.tolist() == (want * 2.0).tolist()


# ---- What bad input gets: the classes that PyTensor's own evaluation raises ----

def vectors(*names):
    return [pt.dvector(name) for name in names]


def masked(x):
    return x[x > 2]


WRONG = {
    "masked beside one": (lambda x, y: masked(x) + y, [np.arange(6.0), np.ones(1)], ValueError),
    "one masked beside several": (lambda x, y: masked(x) * y, [np.arange(4.0), np.ones(3)], ValueError),
    "runtime broadcasting": (lambda x, y: x + y, [np.ones(3), np.ones(1)], ValueError),
    "last of nothing": (lambda x, y: x[-1], [np.ones(0), np.ones(1)], IndexError),
    "last of masked nothing": (lambda x, y: masked(x)[-1], [np.ones(3), np.ones(1)], IndexError),
    "third of two masked": (lambda x, y: masked(x)[2], [np.arange(5.0), np.ones(1)], IndexError),
    "mask of another length": (lambda x, y: x[y > 0], [np.ones(3), np.ones(2)], IndexError),
    "constant mask": (lambda x, y: x[np.array([True, False])], [np.ones(3), np.ones(2)], IndexError),
    "written by a mask of another length": (lambda x, y: x[y > 0].set(1.0), [np.ones(3), np.ones(2)], IndexError),
    "places of two lengths": (lambda x, y: pt.as_tensor(np.eye(3))[pt.cast(x, "int64"), pt.cast(y, "int64")], [np.ones(3), np.ones(2)], IndexError),
    "a place out of nothing": (lambda x, y: x[np.array([2, -3])].set(1.0), [np.ones(0), np.ones(2)], IndexError),
    "reshape": (lambda x, y: x.reshape((2, 2)), [np.ones(3), np.ones(1)], ValueError),
    "reshape of what is left": (lambda x, y: x.reshape((-1, 2)), [np.ones(3), np.ones(1)], ValueError),
    "sorter of another length": (lambda x, y: pt.searchsorted(x, y, sorter=np.array([0, 1])), [np.ones(3), np.ones(1)], ValueError),
    "inverse": (lambda x, y: pt.linalg.inv(pt.outer(x, y)), [np.ones(3), np.ones(2)], np.linalg.LinAlgError),
    "negative powers": (lambda x, y: pt.cast(x, "int64") ** pt.cast(y, "int64"), [np.ones(2), -np.ones(2)], ValueError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_what_pytensor_raises(name):
    make, values, error = WRONG[name]
    x, y = vectors("x", "y")
    out = make(x, y)
    for mode in ("FAST_COMPILE", "WEFT"):
        with pytest.raises(error) as raised:
            pytensor.function([x, y], out, mode=mode, on_unused_input="ignore")(*values)
        assert "WEFT_" not in str(raised.value)


def test_a_mask_of_another_length_is_refused_where_sizes_are_open():
    x = pt.dmatrix("x")
    f = function([x], x[np.array([True, False])] * 2)
    assert f(np.ones((2, 3))).shape == (1, 3) and f(np.ones((2, 4))).shape == (1, 4)
    with pytest.raises(IndexError, match="boolean index"):
        f(np.ones((3, 4)))


@pytest.mark.parametrize("draw, error", [
    (lambda r, s: r.integers(3, pt.cast(s, "int64"), size=4), ValueError), (lambda r, s: r.normal(0, s, size=4), ValueError),
    (lambda r, s: r.uniform(1, s, size=4), ValueError), (lambda r, s: r.uniform(1, -s * np.inf, size=4), OverflowError),
    (lambda r, s: r.beta(s, 1, size=4), ValueError), (lambda r, s: r.binomial(5, s, size=4), ValueError),
    (lambda r, s: r.bernoulli(2 - s, size=4), ValueError), (lambda r, s: r.poisson(s, size=4), ValueError),
    (lambda r, s: r.geometric(s, size=4), ValueError), (lambda r, s: r.t(s, 0, 1, size=4), ValueError),
    (lambda r, s: r.dirichlet(pt.stack([s, 1.0]), size=4), ValueError), (lambda r, s: r.integers(3, 2, size=4), ValueError)])
def test_draws_refuse_the_parameters_that_numpy_refuses(draw, error):
    s, stream = pt.dscalar("s"), pt.random.RandomStream(1)
    out = draw(stream, s)
    for mode in ("FAST_COMPILE", "WEFT"):
        f = pytensor.function([s], out, mode=mode, on_unused_input="ignore")
        with pytest.raises(error):
            f(-1.0)


def test_integers_without_a_remainder():
    k, d = pt.lvector("k"), pt.lvector("d")
    agrees([k, d], [k % d, k // d], np.array([5, -5, 0, 7]), np.array([0, 0, 0, -3]))


def test_extrema_with_an_initial_value_are_of_nothing_too(rng):
    x, m = pt.dvector("x"), pt.dmatrix("m")
    agrees([x], [pt.logsumexp(x), pt.logsumexp(masked(x))], np.zeros(0))
    agrees([m], [pt.logsumexp(m, axis=1), pt.max(m, axis=0, initial=-np.inf)], np.zeros((0, 3)))
    f = function([x], pt.logsumexp(x))
    assert f(np.zeros(2)) == np.log(2) and f(np.zeros(3)) == np.log(3) and f(np.zeros(0)) == -np.inf


def test_an_inverse_of_infinities_is_that_of_numpy():
    x = pt.dmatrix("x")
    f = function([x], pt.linalg.inv(x))
    for value in ([[np.inf, np.inf], [np.inf, np.inf]], [[np.inf, 1], [1, 1]], [[1, np.inf], [2, 3]], [[-np.inf, 1], [1, 2]], [[1, 2], [2, np.inf]]):
        np.testing.assert_array_equal(f(np.array(value, float)), np.linalg.inv(value))


def test_an_inverse_of_nan_is_nan():
    m = pt.dmatrix("m")
    assert np.isnan(function([m], pt.linalg.inv(m))(np.full((2, 2), np.nan))).all()


def test_a_function_without_outputs():
    x = pt.dvector("x")
    assert function([x], [], on_unused_input="ignore")(np.ones(3)) == []


def test_sparse_matrices_fallback_and_are_those_of_the_call(rng):
    sparse, scipy_sparse = pytest.importorskip("pytensor.sparse"), pytest.importorskip("scipy.sparse")
    q, x = sparse.csr_matrix("q", dtype="float64"), pt.dmatrix("x")
    f = function([q, x], [sparse.dot(q, x), sparse.dense_from_sparse(sparse.add(q, q)).sum(), q])
    for k in (1.0, 2.0, 3.0):
        a, b, c = f(scipy_sparse.csr_matrix(np.eye(2) * k), np.ones((2, 2)))
        assert a.tolist() == [[k, k], [k, k]] and b == 4 * k and c[0, 0] == k


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0])
@pytest.mark.parametrize("where", [0, 1])
def test_what_is_not_finite_stays_in_a_convolution_where_it_is(value, where, rng):
    x, y = pt.dvector("x"), pt.dvector("y")
    args = [rng.standard_normal(5), rng.standard_normal(3)]
    args[where][1] = value
    agrees([x, y], pt.signal.convolve1d(x, y), *args)


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (2, 5, 3), (4, 4)])
def test_factors_of_matrices_that_are_not_square(sizes, rng):
    """The permutation is one of rows: as many columns as the matrix has rows."""
    a = pt.tensor("a", shape=(None,) * len(sizes), dtype="float64")
    lu = pt.linalg.lu
    agrees([a], [*lu(a), *lu(a, p_indices=True), *lu(a, permute_l=True)], rng.standard_normal(sizes), rtol=1e-9)
    p, lower, upper = function([a], list(lu(a)))(rng.standard_normal(sizes))
    assert p.shape == (*sizes[:-1], sizes[-2])


@pytest.mark.parametrize("sizes", [(4, 4), (2, 3, 3)])
def test_factors_with_rows_exchanged(sizes, rng):
    a = pt.tensor("a", shape=(None,) * len(sizes), dtype="float64")
    lu, lu_factor = pt.linalg.lu, pt.linalg.lu_factor
    factors, pivots = lu_factor(a)
    outs = [*lu(a), *lu(a, p_indices=True), *lu(a, permute_l=True), factors, pivots]
    if len(sizes) == 2:
        outs += [pt.linalg.pivot_to_permutation(pivots), pt.linalg.pivot_to_permutation(pivots, inverse=True), pytensor.grad((factors ** 2).sum(), a)]
    agrees([a], outs, rng.standard_normal(sizes), rtol=1e-9)


def test_shapes_that_are_specified_are_checked_where_sizes_are_open():
    x = pt.dmatrix("x")
    f = function([x], pt.specify_shape(x, (2, None)) * 2)
    assert f(np.ones((2, 3))).shape == (2, 3) and f(np.ones((2, 4))).shape == (2, 4) and f(np.ones((2, 0))).shape == (2, 0)
    for wrong in (np.ones((3, 4)), np.ones((0, 4)), np.ones((1, 0))):
        with pytest.raises(AssertionError, match="SpecifyShape"):
            f(wrong)
    y = pt.dvector("y")
    f = function([y], pt.specify_shape(masked(y), (2,)) + 1)
    assert f(np.arange(5.0)).tolist() == [4, 5]
    with pytest.raises(AssertionError, match="SpecifyShape"):
        f(np.arange(6.0))


def test_sizes_of_parts_that_are_open_are_not_negative():
    x, y = pt.dvector("x"), pt.dvector("y")
    first, second = pt.split(x, [y.shape[0] - 4, 3], n_splits=2, axis=0)
    for out in (first, second, second.sum()):
        f = function([x, y], out)
        np.testing.assert_allclose(f(np.arange(5.0), np.ones(6)), [0, 1] if out is first else [2, 3, 4] if out is second else 9)
        np.testing.assert_allclose(np.sum(f(np.arange(3.0), np.ones(4))), 0 if out is first else 3)
        with pytest.raises(ValueError, match="negative"):
            f(np.arange(2.0), np.ones(3))
        with pytest.raises(ValueError):
            f(np.arange(4.0), np.ones(4))
        assert np.size(f(np.arange(5.0), np.ones(6)))


def test_arrays_without_elements():
    x, m = pt.dvector("x"), pt.dmatrix("m")
    a = pt.dvector("a")
    rows = pytensor.graph.replace.vectorize_graph(pt.sort(a), {a: m})
    agrees([m], rows, np.ones((4, 0)))
    agrees([x], pytensor.grad(pt.gammainc(x, x + 1).sum(), x), np.ones(0))
    nothing = np.zeros(0, "int64")
    agrees([m], [m[nothing, np.array([0])], m[nothing]], np.ones((2, 0)))


def layouts(a):
    """The same elements, otherwise in memory; the last two of other types."""
    wide = np.zeros((2 * a.shape[0], 3 * a.shape[1]), a.dtype)
    wide[::2, ::3] = a
    bytes_ = np.zeros(a.nbytes + 1, "u1")
    unaligned = bytes_[1:].view(a.dtype).reshape(a.shape)
    unaligned[...] = a
    read_only = a.copy()
    read_only.flags.writeable = False
    return [a, np.asfortranarray(a), a[::-1, ::-1].copy()[::-1, ::-1], wide[::2, ::3], unaligned, read_only, a.astype(a.dtype.newbyteorder()),
            np.broadcast_to(a[:1], a.shape), a.view(np.memmap)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint16", "bool", "complex128"])
def test_arguments_of_any_layout_are_taken_as_they_are(dtype, rng):
    """Small ones, large ones and empty ones, in calls of shapes that were seen and of those that were not."""
    x = pt.matrix("x", dtype=dtype)
    f = function([x], [x[1:, :2] * 3, x.sum(axis=0), x.T])
    f.trust_input = True
    for shape in ((3, 4), (64, 70), (1, 1), (5, 0), (0, 3)):
        for a in layouts((rng.standard_normal(shape) * 50).astype(dtype)):
            for _ in range(2):
                got, plain = f(a), np.array(a, dtype=dtype)
                for g, want in zip(got, (plain[1:, :2] * np.array(3, "int8"), plain.sum(axis=0), plain.T)):
                    assert type(g) is np.ndarray and g.flags.writeable
                    np.testing.assert_allclose(g, want, rtol=1e-5)
                np.testing.assert_array_equal(a, plain)


def test_results_that_show_one_memory_are_apart(rng):
    x = pt.dvector("x")
    f = function([x], [x + 1, x + 1, (x + 1)[::2], pt.zeros(3), pt.zeros(3)])
    for n in (4, 4, 5000, 5000):
        a = rng.standard_normal(n)
        results = f(a)
        for k, r in enumerate(results):
            r[...] = k
        for k, r in enumerate(results):
            assert (r == k).all()


def falls_back():
    """A context in which nothing may."""
    before = dict(weft.pytensor.fallbacks)
    return lambda: dict(weft.pytensor.fallbacks) != before


def test_normal_vectors_have_their_mean_and_covariance():
    a = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.4], [0.0, -0.4, 0.5]])
    rng, mean, cov = pytensor.shared(np.random.default_rng(3)), pt.dvector("mean"), pt.dmatrix("cov")
    next_rng, x = pt.random.multivariate_normal(mean, cov, size=(20000,), rng=rng).owner.outputs
    fell = falls_back()
    f = function([mean, cov], x, updates={rng: next_rng})
    drawn = f(np.array([1.0, -2.0, 0.5]), a)
    assert not fell() and drawn.shape == (20000, 3)
    np.testing.assert_allclose(drawn.mean(0), [1, -2, 0.5], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), a, atol=0.06)
    assert not np.array_equal(drawn, f(np.zeros(3), a))
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros(3), -a)
    batch = function([mean], pt.random.multivariate_normal(mean, np.stack([a, 4 * a])))(np.zeros(3))
    assert batch.shape == (2, 3)


def test_the_normal_quantile_of_an_exponent_is_scipys():
    special = pytest.importorskip("scipy.special")
    x = pt.dvector("x")
    if not hasattr(pt, "ndtri_exp"):
        pytest.skip("this PyTensor has it not")
    a = np.concatenate([-np.logspace(-300, 300, 400), -np.linspace(0, 5, 200), [0.0, -np.inf, 1.0, np.nan]])
    fell = falls_back()
    got = function([x], pt.ndtri_exp(x))(a)
    assert not fell()
    np.testing.assert_allclose(got, special.ndtri_exp(a), rtol=2e-12)  # of which SciPy has 6e-13 at -2e5


def test_blocks_on_a_diagonal_are_there_for_all_sizes(rng):
    a, b, c = pt.dmatrix("a"), pt.fmatrix("b"), pt.dtensor3("c")
    fell = falls_back()
    for n in (2, 3):
        values = rng.standard_normal((n, 2)), rng.standard_normal((1, n)).astype("f4"), rng.standard_normal((2, n, 1))
        agrees([a, b], pt.linalg.block_diag(a, b, a), *values[:2])
        agrees([a, c], pt.linalg.block_diag(c, a), values[0], values[2])
    assert not fell()


def test_gauss_function_and_its_gradient_do_not_fall_back():
    """The derivatives by a, b and c are PyTensor's own loop over scalars."""
    special = pytest.importorskip("scipy.special")
    inputs, rng, fell = pt.dvectors("a", "b", "c", "z"), np.random.default_rng(1), falls_back()
    values = [*rng.uniform(0.1, 10, (3, 6)), rng.uniform(-0.8, 0.8, 6)]
    h = pt.hyp2f1(*inputs)
    outputs = [h, *pytensor.grad(h.sum(), inputs)]
    got = function(inputs, outputs)(*values)
    assert not fell()
    np.testing.assert_allclose(got[0], special.hyp2f1(*values), rtol=1e-12)
    for slope, want in zip(got[1:], unrewritten(inputs, outputs[1:], *values)):
        np.testing.assert_allclose(slope, want, rtol=1e-9)


def test_a_scan_of_a_batch_is_one_loop_for_all_rows(rng):
    start, k, starts = pt.dscalar("start"), pt.dvector("k"), pt.dvector("starts")
    out = pytensor.scan(lambda s, h: h * s + 1, sequences=[k], outputs_info=[start], return_updates=False)
    rows = pytensor.graph.replace.vectorize_graph(out, {start: starts})
    fell, f = falls_back(), function([starts, k], rows)
    for n in (4, 6):
        a, b = rng.standard_normal(3), rng.standard_normal(n)
        np.testing.assert_allclose(f(a, b), np.stack([function([start, k], out)(x, b) for x in a]), rtol=1e-13)
    assert not fell()


def test_what_pytensor_prints_of_a_function_has_wefts_kernels(capsys):
    x = pt.dvector("x")
    f = function([x], (x + 1).sum(), profile=True)
    assert "not called yet" in pytensor.dprint(f, file="str")
    f(np.ones(5))
    text = pytensor.dprint(f, file="str")
    assert "Sum" in text and "weft, plan:" in text and "on x86" in text or "on vm" in text
    assert "kernel" in f.dprint(file="str", print_op_info=True)
    pytensor.dprint([f, x])
    assert capsys.readouterr().out.count("weft, plan:") == 1
    assert "weft" not in pytensor.dprint(x + 1, file="str")
    file = io.StringIO()
    f.profile.summary(file=file)
    assert "weft, plan:" in file.getvalue()


# ---- Shared cells ----

def test_a_shared_cell_that_somebody_looks_at_is_not_overwritten(rng):
    """Its value, a view of it and what a call returned stay what they were."""
    s = pytensor.shared(rng.standard_normal(1000), name="s")
    f = function([], s * 2, updates={s: s + 1})
    for _ in range(3):
        inside = s.get_value(borrow=True, return_internal_type=True)
        view, before = inside[::2], inside.copy()
        result = f()
        np.testing.assert_array_equal(inside, before)
        np.testing.assert_array_equal(view, before[::2])
        np.testing.assert_array_equal(s.get_value(), before + 1)
        np.testing.assert_array_equal(result, before * 2)
        result[:] = 0
        np.testing.assert_array_equal(s.get_value(), before + 1)


def test_what_is_set_is_copied_unless_it_is_lent(rng):
    s, a = pytensor.shared(np.zeros(4)), rng.standard_normal(4)
    f = function([], s.sum(), updates={s: s * 2})
    s.set_value(a)
    kept = a.copy()
    f()
    np.testing.assert_array_equal(a, kept)
    s.set_value(a, borrow=True)
    assert f() == pytest.approx(kept.sum())
    np.testing.assert_array_equal(a, kept)
    np.testing.assert_array_equal(s.get_value(), kept * 2)
    value = s.get_value()
    value[:] = 0
    np.testing.assert_array_equal(s.get_value(), kept * 2)


def test_a_copy_of_a_function_has_cells_of_its_own_or_shares_them():
    s, t = pytensor.shared(np.zeros(3)), pytensor.shared(np.full(3, 5.0))
    f = function([], s.sum(), updates={s: s + 1})
    shared, apart = f.copy(share_memory=True), f.copy(swap={s: t})
    f(), shared()
    assert s.get_value().tolist() == [2, 2, 2]
    assert apart() == 15 and t.get_value().tolist() == [6, 6, 6] and s.get_value().tolist() == [2, 2, 2]


def address(shared):
    return shared.container.storage[0].__array_interface__["data"][0]


def test_a_shared_cell_is_updated_in_place_iff_nobody_else_refers_to_its_array(rng):
    s, x = pytensor.shared(np.zeros(5000), name="s"), pt.dscalar("x")
    f = function([x], s[:3] * 2, updates={s: s + x})
    f(1.0)  # the first array is PyTensor's own
    where = address(s)
    for _ in range(3):
        f(1.0)
        assert address(s) == where and type(s.container.storage[0]) is np.ndarray
    for look in (lambda a: a, lambda a: a[::2], lambda a: memoryview(a), lambda a: a.base, lambda a: a.reshape(50, 100)):
        where, seen = address(s), look(s.get_value(borrow=True))
        before = np.array(seen, copy=True)
        f(1.0)
        assert address(s) != where
        np.testing.assert_array_equal(np.asarray(seen), before)
        where, seen = address(s), None
        f(1.0)
        assert address(s) == where
    assert s.get_value()[7] == 14 and f(0.0).tolist() == [28, 28, 28]


def test_an_array_of_a_cell_that_was_given_another_shape_is_taken_as_it_is_now():
    s = pytensor.shared(np.arange(6000.0).reshape(60, 100), shape=(None, None))
    f = function([], [], updates={s: s + 1})
    f()
    s.get_value(borrow=True).shape = (100, 60)
    f()
    np.testing.assert_array_equal(s.get_value(), np.arange(6000.0).reshape(100, 60) + 2)
    f()
    np.testing.assert_array_equal(s.get_value(), np.arange(6000.0).reshape(100, 60) + 3)


def test_cells_that_change_places_or_sizes_are_right():
    a, b = pytensor.shared(np.arange(5000.0)), pytensor.shared(-np.arange(5000.0))
    swap, grow = function([], [], updates={a: b, b: a}), function([], [], updates={a: pt.concatenate([a, a])})
    turn = function([], a.sum(), updates={a: a[::-1] + b[0]})
    for _ in range(3):
        swap()
    np.testing.assert_array_equal(a.get_value(), -np.arange(5000.0))
    turn(), turn()
    np.testing.assert_array_equal(a.get_value(), -np.arange(5000.0))
    grow(), grow()
    assert a.get_value().shape == (20000,) and b.get_value().shape == (5000,)


def test_a_call_that_fails_leaves_its_cells_as_they_were():
    s, x, i = pytensor.shared(np.zeros(5000)), pt.dvector("x"), pt.lscalar("i")
    f = function([x, i], s[i], updates={s: s + x})
    f(np.ones(5000), 3)
    for values, error in (((np.ones(4999), 3), ValueError), ((np.ones(5000), 5000), IndexError)):
        with pytest.raises(error):
            f(*values)
        assert type(s.container.storage[0]) is np.ndarray and s.get_value().tolist() == [1.0] * 5000
    assert f(np.ones(5000), 2) == 1 and s.get_value()[0] == 2


def test_threads_that_update_and_read_a_cell_see_whole_values():
    s = pytensor.shared(np.zeros(200000))
    add, look = function([], [], updates={s: s + 1}), function([], [s.min(), s.max()])
    seen = []

    def read():
        for _ in range(100):
            seen.append(look.copy()() if len(seen) % 50 == 0 else look())
            value = s.get_value()
            seen.append((value.min(), value.max()))

    reader = threading.Thread(target=read)
    add()
    reader.start()
    for _ in range(200):
        add()
    reader.join()
    assert all(low == high for low, high in seen) and s.get_value()[0] == 201


def test_updates_leave_no_memory_behind():
    s = pytensor.shared(np.zeros(100000))
    f = function([], [], updates={s: s + 1})
    for _ in range(5):
        f()
    before = weft.get_active_memory()
    for _ in range(200):
        f()
    assert s.get_value()[0] == 205 and weft.get_active_memory() == before


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ends = lambda dtype: np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 3, np.iinfo(dtype).max // 2 + 2], dtype)
unrewritten = lambda inputs, output, *values: pytensor.function(inputs, output, mode=pytensor.compile.mode.Mode("py", None))(*values)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_integers_are_computed_in_the_dtype_of_the_result(dtype):
    """With variables and with constants, whatever PyTensor rewrites them to."""
    x, a = pt.vector("x", dtype=dtype), np.array([True, False, True, False]) if dtype == "bool" else ends(dtype)
    others = {d: pt.vector(d, dtype=d) for d in INTEGERS}
    b = {d: ends(d)[[2, 0, 3, 2]] for d in INTEGERS}
    small = {d: np.array([2, 3, 1, 0], d) for d in INTEGERS}
    inputs, outputs, values = [x, *others.values()], [x * x, pt.sqr(x)], [a, *b.values()]
    for y in others.values():
        outputs += [x + y, x - y, x * y, x // y, x % y, pt.cast(x, y.dtype) ** 2, pt.cast(x, y.dtype) ** 3, pt.cast(pt.sqr(x), y.dtype)]
    outputs += [y for k in (0, 1, 2, 3, 5, 7) for y in (x + k, x * k, x ** k)] + [y for k in (2, 3) for y in (x // k, x % k)]
    powers = [x ** y for y in others.values()]
    with np.errstate(all="ignore"):
        wanted = [unrewritten(inputs, outputs, *values), unrewritten(inputs, powers, a, *small.values())]
    got = [function(inputs, outputs)(*values), function(inputs, powers)(a, *small.values())]
    for of, found, right in zip([*outputs, *powers], sum(got, []), sum(wanted, [])):
        assert found.dtype == right.dtype, of
        np.testing.assert_array_equal(found, right, err_msg=str(of.owner))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_negative_of_integers(dtype):
    x = pt.vector("x", dtype=dtype)
    with pytensor.config.change_flags(on_opt_error="ignore"):  # PyTensor's own of unsigned ones does not get far, and says so
        f = function([x], -x)
    np.testing.assert_array_equal(f(ends(dtype)), -ends(dtype))


@pytest.mark.parametrize("exponent", [-1, -2, -3])
def test_an_integer_to_a_negative_constant_is_refused(exponent):
    x = pt.vector("x", dtype="int32")
    with pytest.raises(ValueError, match="negative integer powers"):
        function([x], x ** exponent)(np.array([1, 2], "int32"))


def test_powers_inside_a_scan_are_of_the_dtype_of_the_result():
    x = pt.vector("x", dtype="uint16")
    y = pytensor.scan(lambda a: a ** 2, sequences=[x], return_updates=False)
    a = np.array([65535, 256, 3], "uint16")
    np.testing.assert_array_equal(function([x], y)(a), a.astype("int32") ** 2)


@pytest.mark.parametrize("exponents", [(2, 3), (100, 100), (64, 64), (-100, -100), (2, -3), (2.5, 100)])
def test_products_and_quotients_of_powers_of_one_base(exponents):
    x, (k, n) = pt.dvector("x"), exponents
    a = np.array([1.01, 0.9, 2.0])
    got = function([x], [x ** k * x ** n, x ** k / x ** n])(a)
    np.testing.assert_allclose(got[0], a ** float(k) * a ** float(n), rtol=1e-12)
    np.testing.assert_allclose(got[1], a ** float(k) / a ** float(n), rtol=1e-12)


def test_exponents_of_few_bits_that_are_not_constants():
    x, i = pt.dvector("x"), pt.vector("i", dtype="int8")
    a, exponents = np.array([1.01, 0.9, 2.0]), np.array([100, 3, -128], "int8")
    got = function([x, i], x ** i * x ** i)(a, exponents)
    np.testing.assert_allclose(got, (a ** exponents.astype(float)) ** 2, rtol=1e-12)


def test_quotients_of_powers_of_one_integer():
    x, a = pt.vector("x", dtype="uint16"), np.array([65535, 3, 2], "uint16")
    np.testing.assert_array_equal(function([x], x ** 2 / x ** 3)(a[1:]), a[1:].astype(float) ** 2 / a[1:].astype(float) ** 3)


def scan_of(x, y):
    return pytensor.scan(lambda a, b: pt.tanh(a + b), outputs_info=[x], non_sequences=[y], n_steps=2, return_updates=False)[-1]


@pytest.mark.parametrize("side", [lambda x, y: x + y, lambda x, y: x[7] * y, lambda x, y: pt.outer(x, y) @ x, scan_of],
                         ids=["sum", "index", "product", "loop"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_side_that_is_not_chosen_may_be_impossible(side, is_first):
    x, y, p = pt.dvector("x"), pt.dvector("y"), pt.bscalar("p")
    f = function([x, y, p], ifelse(p, side(x, y), x) if is_first else ifelse(p, x, side(x, y)))
    a, b = np.arange(3.0), np.ones(4)
    for _ in range(2):
        np.testing.assert_array_equal(f(a, b, not is_first), a)
        with pytest.raises((ValueError, IndexError)):
            f(a, b, is_first)


def test_a_side_that_is_not_chosen_does_not_run_its_fallback():
    class Seen(Op):
        __props__ = ()
        calls = 0

        def make_node(self, x):
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            Seen.calls += 1
            outputs[0][0] = inputs[0] * 5

        def infer_shape(self, fgraph, node, shapes):
            return shapes

    x, p = pt.dvector("x"), pt.bscalar("p")
    f = function([x, p], ifelse(p, Seen()(x), x))
    np.testing.assert_array_equal(f(np.ones(2), 0), [1, 1])
    assert Seen.calls == 0
    np.testing.assert_array_equal(f(np.ones(2), 1), [5, 5])
    assert Seen.calls == 1


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_fallback_that_a_side_has_needed_once_does_not_run_for_the_other_side(is_shared, is_made):
    """One whose sizes nothing tells, so that it is computed before the rest is traced."""
    class Twice(Op):
        __props__ = ()
        calls = 0

        def make_node(self, x):
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            Twice.calls += 1
            outputs[0][0] = np.repeat(inputs[0], 2)

    x, p, q = pt.dvector("x"), pt.lscalar("p"), pt.lscalar("q")
    chosen, y = [pt.gt(c, 0) if is_made else c for c in (p, q)], Twice()(x * 2)
    outs = [ifelse(chosen[0], y.sum(), x.sum())] + ([ifelse(chosen[1], y[0], x[0])] if is_shared else [])
    f = function([x, p, q], outs, on_unused_input="ignore")
    for a, b in ((0, 0), (1, 0), (0, 0), (0, 1), (1, 1), (0, 0)):
        Twice.calls = 0
        wanted = [12.0 if a else 3.0, 2.0 if b else 1.0]
        assert [float(r) for r in f(np.array([1.0, 2]), a, b)] == wanted[:len(outs)]
        assert Twice.calls == (1 if a or (b and is_shared) else 0)


@pytest.mark.parametrize("change", [lambda part, y: part.inc(y), lambda part, y: part.set(y)], ids=["inc", "set"])
@pytest.mark.parametrize("size", [None, 3])
def test_one_row_that_a_mask_leaves_is_stretched_over_the_part_it_is_written_to(size, change):
    x, k = pt.vector("x", shape=(size,), dtype="float64"), pt.iscalar("k")
    y = x[x > 0]
    for out in (change(x[k:], y), change(y[k:], y)):
        f = function([x, k], out)
        wanted = pytensor.function([x, k], out, mode="FAST_COMPILE")
        for a, n in (([1.0, -2, -3], 0), ([1.0, -2, -3], 1), ([1.0, 2, 3], 0), ([1.0, -2, -3], 3), ([1.0, 2, -3], 1)):
            try:
                want = wanted(np.array(a), n)
            except ValueError:
                with pytest.raises(ValueError):
                    f(np.array(a), n)
                continue
            np.testing.assert_array_equal(f(np.array(a), n), want)


def test_two_masks_in_one_index_stretch_as_numpys(rng):
    """A mask that chooses one element is broadcast to what the other chooses, nothing included."""
    x, m, n = pt.dmatrix("x"), pt.bvector("m"), pt.bvector("n")
    value, rows, columns = rng.standard_normal((3, 4)), np.eye(3, dtype=np.int8)[1], np.eye(4, dtype=np.int8)
    f = function([x, m, n], [x[m > 0, n > 0], x[m > 0, n > 0].sum(), pt.set_subtensor(x[m > 0, n > 0], 7.0)])
    for n_value in (columns[2], columns[1] + columns[3], np.ones(4, np.int8), np.zeros(4, np.int8)):
        chosen, total, put = f(value, rows, n_value)
        wanted = value.copy()
        wanted[rows > 0, n_value > 0] = 7.0
        np.testing.assert_array_equal(chosen, value[rows > 0, n_value > 0])
        np.testing.assert_array_equal(put, wanted)
        assert np.isclose(total, chosen.sum())
    with pytest.raises(IndexError):
        f(value, np.array([1, 1, 1], np.int8), columns[0] + columns[2])
    np.testing.assert_array_equal(f(value, rows, columns[2])[0], value[1, 2:3])


@pytest.mark.parametrize("is_last", [True, False])
def test_vectors_of_hermitian_matrices_are_complex_by_their_fallback(is_last, rng):
    """PyTensor says that they are real, and returns complex ones."""
    a = pt.zmatrix("a")
    w, v = pt.linalg.eigh(a)
    value = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    value = value + value.conj().T
    if is_last:
        found_w, found_v = function([a], [w, v])(value)
        np.testing.assert_allclose(value @ found_v, found_w * found_v, rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_allclose(function([a], pt.abs(v))(value), np.abs(np.linalg.eigh(value)[1]), rtol=1e-9)


def test_a_function_that_holds_itself_is_collected():
    x = pt.dvector("x")
    f = function([x], x * 2)
    f(np.ones(3))
    f.vm.itself = f.vm
    f.vm.found = token = threading.Event()
    gone = weakref.ref(token)
    del f, token
    gc.collect()
    assert gone() is None


def test_what_calls_a_function_takes_nothing_and_has_attributes():
    x = pt.dvector("x")
    f = function([x], x * 2)
    with pytest.raises(TypeError):
        f.vm(1)
    assert f.vm.allow_gc in (True, False) and f.vm.jit_fn.last == [None]
    f(np.ones(3))
    assert f.vm.jit_fn.last != [None] and f.vm.outputs is not None
    with pytest.raises(TypeError):
        weft._core.Thunk([None], [], (), None, None, None, None)


def test_a_thunk_whose_cells_are_none_says_so():
    thunk = weft._core.Thunk([None], [[1.0]], [[1.0], []], np.asarray, np.array, None, lambda: None)
    with pytest.raises(TypeError, match="cells"):
        thunk()
    stopped = weft._core.Thunk([None], [], [], np.asarray, np.array, None, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stopped()


def test_a_choice_between_compiled_graphs_computes_one_of_them(rng):
    """As PyTensor's rewrites for JAX and Numba make it since 3.3.6."""
    op = pytest.importorskip("pytensor.conditional.op")
    from pytensor.compile.builders import OpFromGraph
    p, x = pt.iscalar("p"), pt.dvector("x")
    sides = [OpFromGraph([x], [pt.exp(x) * 2]), OpFromGraph([x], [Assert("not here")(x, pt.all(x > 0)) + 1])]
    f = function([p, x], op.LazyIfElse(*sides, [x.type])(p, x))
    value = -np.abs(rng.standard_normal(5))
    np.testing.assert_allclose(f(1, value), 2 * np.exp(value))
    with pytest.raises(AssertionError, match="not here"):
        f(0, value)
    np.testing.assert_allclose(f(0, -value), 1 - value)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_products_of_short_integers_are_such(rng, dtype):
    """Of bool whether there is one, of others wrapped, also where the result goes on inside the function."""
    a, b = pt.TensorType(dtype, (None, None))("a"), pt.TensorType(dtype, (None, None))("b")
    stacked = pt.TensorType(dtype, (None, None, None))("stacked")
    square = pytensor.scan(lambda row, m: pt.dot(m, row).astype("int64") * 3, sequences=[a], non_sequences=[b.T], return_updates=False)
    f = function([a, b, stacked], [a @ b, (a @ b).astype("int64") ** 2, (a @ b).astype("float32") / 2, square,
                                   pt.dot(a[0], b[:, 0]).astype("int32") + 1, (stacked @ b).astype("int64") * 2,
                                   pt.einsum("ij,jk->ik", a, b).astype("int64") + 1])
    for n in (1, 3, 40):
        x, y, z = ((rng.random(shape) < 0.7) if dtype == "bool" else rng.integers(0, 100, shape).astype(dtype)
                   for shape in ((4, n), (n, 5), (2, 3, n)))
        product = x @ y
        want = (product, product.astype("int64") ** 2, product.astype("float32") / 2, product.astype("int64") * 3,
                np.dot(x[0], y[:, 0]).astype("int32") + 1, (z @ y).astype("int64") * 2, product.astype("int64") + 1)
        for got, right in zip(f(x, y, z), want, strict=True):
            np.testing.assert_array_equal(got, right)
            assert got.dtype == right.dtype


def test_products_as_blas_names_them(rng):
    from pytensor.tensor import blas
    a, b, c, x, y = pt.dmatrix("a"), pt.dmatrix("b"), pt.dmatrix("c"), pt.dvector("x"), pt.dvector("y")
    two, half = np.float64(2.0), np.float64(0.5)
    outputs = [blas.gemm_no_inplace(c, two, a, b, half), blas.gemv_no_inplace(y, two, a, x, half),
               blas._dot22(a, b), blas._dot22scalar(a, b, pt.constant(1.5, dtype="float64"))]
    values = [rng.standard_normal(n) for n in ((3, 4), (4, 5), (3, 5), 4, 3)]
    agrees([a, b, c, x, y], outputs, *values)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0, 500.0])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_the_exponential_of_a_matrix_and_its_gradient(size, batch, rng):
    linalg = pytest.importorskip("scipy.linalg")
    a = pt.tensor("a", dtype="float64", shape=(None,) * (len(batch) + 2))
    f = function([a], [pt.linalg.expm(a), pytensor.grad(pt.linalg.expm(a).sum(), a)])
    for n in (1, 2, 5):
        value = size * rng.standard_normal((*batch, n, n)) / n
        value -= size * np.eye(n)  # so that nothing overflows
        got, slope = f(value)
        want = linalg.expm(value)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12 * np.abs(want).max())
        wanted = pytensor.function([a], pytensor.grad(pt.linalg.expm(a).sum(), a), mode="FAST_COMPILE")(value)
        np.testing.assert_allclose(slope, wanted, rtol=1e-8, atol=1e-11 * np.abs(wanted).max())


def test_the_exponential_of_what_is_not_finite_is_nan():
    a = pt.dmatrix("a")
    f = function([a], pt.linalg.expm(a))
    assert np.isnan(f(np.array([[np.nan, 1], [0, 1]]))).any()
    assert f(np.zeros((0, 0))).shape == (0, 0)
    np.testing.assert_array_equal(f(np.zeros((2, 2))), np.eye(2))


# ---- rows of a Scan that ends itself

ROOT_ROWS = {"from the second": lambda x: x[1:], "from the third": lambda x: x[2:], "the second": lambda x: x[1], "up to the last": lambda x: x[:-1],
             "the last three": lambda x: x[-3:], "the last": lambda x: x[-1], "between": lambda x: x[1:3], "but the ends": lambda x: x[1:-1],
             "backwards": lambda x: x[::-1], "every other": lambda x: x[::2], "the last but one": lambda x: x[-2]}


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("name", ROOT_ROWS)
def test_rows_that_are_read_of_a_scan_that_ends_itself_are_counted_from_its_first(name, is_inside):
    """PyTensor's own rewrite counts them from the end of as many rows as there could be."""
    a = pt.dvector("a")

    def root(a):
        x = pytensor.scan(lambda x, a: (0.5 * (x + a / x), until(abs(x * x - a) < 1e-9)), outputs_info=[pt.ones(())],
                          non_sequences=[a], n_steps=30, return_updates=False)
        return pt.sum(ROOT_ROWS[name](x) ** 2)

    y = pytensor.scan(root, sequences=[a], return_updates=False) if is_inside else pt.stack([root(a[0]), root(a[1])])
    value = [y, pytensor.grad(y.sum(), a)]
    f, g = pytensor.function([a], value, mode="WEFT"), pytensor.function([a], value, mode=Mode("py", None))
    alone = pytensor.function([a], y, mode="WEFT")  # without a gradient, which wants all rows
    for point in ([2.0, 900.0], [0.3, 5.0]):
        for got, want in zip(f(np.array(point)), g(np.array(point))):
            np.testing.assert_allclose(got, want, rtol=1e-10)
        np.testing.assert_allclose(alone(np.array(point)), g(np.array(point))[0], rtol=1e-10)


INNER_ROWS = {
    "rows beside the state": lambda a: pt.sum(roots(a)[1]) + roots(a)[0][-1],
    "a sum of rows": lambda a: pt.sum(roots(a)[0][1:] ** 2),
    "how many there are": lambda a: roots(a)[0].shape[0] * a,
}


def roots(a):
    step = lambda x, a: ((0.5 * (x + a / x), x * a), until(abs(x * x - a) < 1e-9))
    return pytensor.scan(step, outputs_info=[pt.ones(()), None], non_sequences=[a], n_steps=30, return_updates=False)


@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("name", INNER_ROWS)
def test_a_scan_that_ends_itself_inside_of_another_is_differentiated_without_a_fallback(name, has_state):
    a, before = pt.dvector("a"), sum(weft.pytensor.fallbacks.values())
    one = np.float64(1)
    step = (lambda a, c: INNER_ROWS[name](a + 0.1 * c)) if has_state else INNER_ROWS[name]
    y = pytensor.scan(step, sequences=[a], outputs_info=[pt.as_tensor(one)] if has_state else None, return_updates=False)
    value = [y, pytensor.grad(y.sum(), a)]
    f, g = pytensor.function([a], value, mode="WEFT"), pytensor.function([a], value, mode=Mode("py", None))
    for point in ([2.0, 3.0, 900.0], [0.3, 5.0]):
        for got, want in zip(f(np.array(point)), g(np.array(point))):
            np.testing.assert_allclose(got, want, rtol=1e-9)
    assert sum(weft.pytensor.fallbacks.values()) == before


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_what_is_there_once_along_an_axis(axis, dtype, rng):
    x, before = pt.tensor("x", shape=(None, None, None), dtype=dtype), sum(weft.pytensor.fallbacks.values())
    results = [*pt.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis), pt.unique(x, axis=axis)]
    f = pytensor.function([x], results, mode="WEFT")
    for sizes in ((5, 3, 2), (2, 6, 1), (1, 1, 4), (0, 0, 3)):
        value = rng.integers(0, 2, sizes).astype(dtype)
        if 0 in sizes:
            value = value.reshape((0, 3, 2) if axis == 0 else (2, 0, 3) if axis == 1 else (2, 3, 0))
        want = [*np.unique(value, True, True, True, axis=axis), np.unique(value, axis=axis)]
        for got, expected in zip(f(value), want):
            np.testing.assert_array_equal(got, expected.reshape(got.shape))
    assert sum(weft.pytensor.fallbacks.values()) == before


def test_a_scalar_op_of_somebody_elses_that_names_a_function_of_scipys_does_not_fall_back():
    from pytensor.scalar.basic import UnaryScalarOp, upgrade_to_float
    from pytensor.tensor.elemwise import Elemwise

    class ScaledBessel(UnaryScalarOp):
        nfunc_spec = ("scipy.special.i0e", 1, 1)

        def impl(self, x):
            raise AssertionError("it is not called")

    x, before = pt.dvector("x"), sum(weft.pytensor.fallbacks.values())
    f = pytensor.function([x], Elemwise(ScaledBessel(upgrade_to_float, name="scaled"))(x), mode="WEFT")
    value = np.linspace(-3, 30, 7)
    np.testing.assert_allclose(f(value), pytest.importorskip("scipy.special").i0e(value), rtol=1e-14)
    assert sum(weft.pytensor.fallbacks.values()) == before


class Days(pt.random.basic.IntegersRV):
    """A user's name for draws that are PyTensor's: as pymc.Minibatch has it."""

    _print_name = ("days", "days")


class Sevens(pt.random.basic.IntegersRV):
    """Draws of a user's own."""

    @classmethod
    def rng_fn(cls, rng, *parameters):
        return np.full(4, 7)


def test_draws_of_a_class_derived_from_pytensors_do_not_fall_back():
    f = function([], Days()(3, 9, size=(4000,), rng=pytensor.shared(np.random.default_rng(1))))
    assert set(f().tolist()) == set(range(3, 9))


def test_draws_of_a_class_that_draws_otherwise_fallback():
    f = function([], Sevens()(3, 9, size=(4,), rng=pytensor.shared(np.random.default_rng(1))))
    with pytest.warns(weft.pytensor.FallbackWarning):
        assert f().tolist() == [7] * 4


@pytest.mark.parametrize("n_rows", [0, 1, 2])
@pytest.mark.parametrize("view", [lambda o: o, lambda o: o[-1], lambda o: o[-2:], lambda o: o.sum()], ids=["all", "last", "two", "sum"])
def test_a_state_that_begins_with_too_few_rows_is_an_error(view, n_rows):
    """PyTensor's buffer is longer by the rows there are, so that those missing were read as zeros."""
    h, n = pt.dvector("h"), pt.lscalar("n")
    out = pytensor.scan(lambda a, b: a * 0.5 + b, outputs_info=[dict(initial=h, taps=[-3, -1])], n_steps=n, return_updates=False)
    f = function([h, n], view(out))
    want = [3.5, 4.5, 6.0, 7.75]
    assert np.allclose(f(np.arange(1.0, 4), 4), view(np.array(want)))
    for n_steps in (1, 4, 9):
        with pytest.raises(ValueError, match="rows"):
            f(np.arange(1.0, n_rows + 1), n_steps)
    assert np.allclose(f(np.arange(1.0, 4), 4), view(np.array(want)))


def test_a_scan_of_no_step_does_not_look_into_its_body():
    x, s = pt.dvector("x"), pt.dvector("s")
    out = pytensor.scan(lambda a, h: (h + s, s * h), sequences=[x], outputs_info=[pt.zeros(x.shape), None], return_updates=False)
    f = function([x, s], out)
    for n, m in ((3, 3), (0, 4), (0, 0), (2, 2)):
        state, rows = f(np.ones(n), np.ones(m))
        assert state.shape == (n, n) and rows.shape[0] == n
    with pytest.raises(ValueError):
        f(np.ones(3), np.ones(4))


def test_a_scan_that_ends_itself_is_read_at_rows_that_are_arguments():
    """The rewrite that shortens buffers failed on a row that is no constant."""
    x, k = pt.dscalar("x"), pt.lscalar("k")
    out = pytensor.scan(lambda h: (h * 2, until(h > 9)), outputs_info=[x], n_steps=20, return_updates=False)
    with pytensor.config.change_flags(on_opt_error="raise"):
        f = function([x, k], [out[k], out[k:], out[-k]])
    for got, want in zip(f(1.0, 2), (8.0, [8.0, 16.0, 32.0], 16.0)):
        assert np.array_equal(got, want)


def test_rows_that_no_step_wrote_are_not_there():
    """PyTensor shortens a buffer to the rows that are read of it; of fewer steps than that the others were zeros."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    for steps in (n, None):
        _, rows = pytensor.scan(lambda a, h: (h * a + 1, pt.tanh(h) + a), sequences=[x], n_steps=steps, outputs_info=[pt.zeros(()), None],
                                return_updates=False)
        f, last = function([x, n], [rows[-2:], rows[-3::2].sum()], on_unused_input="ignore"), function([x, n], rows[-1], on_unused_input="ignore")
        for k in (3, 2, 1, 0, 3):
            kept, added = f(np.arange(1.0, k + 1), k)
            assert kept.shape == (min(k, 2),) and np.isfinite(added)
            if k:
                assert last(np.arange(1.0, k + 1), k) == kept[-1]
            else:
                assert added == 0
                with pytest.raises(IndexError):
                    last(np.zeros(0), 0)


def test_whatever_fails_says_at_which_node_and_line():
    """Also what a row finds while it is traced, and a check that fails when it runs."""
    x, y, n = pt.dvector("x"), pt.dvector("y"), pt.lscalar("n")
    scanned = pytensor.scan(lambda a, h: h + a, sequences=[x], outputs_info=[pt.zeros(())], n_steps=n, return_updates=False)
    failing = [
        (x + y, np.ones(1), np.ones(4), 1, ValueError, r"Add\(x, y\)"),
        (x.reshape((n, 2)), np.ones(5), np.ones(1), 2, ValueError, r"Reshape\{2\}\(x"),
        (Assert("x is positive")(x, (x > 0).all()) * 2, -np.ones(3), np.ones(3), 1, AssertionError, r"^x is positive \(Assert"),
        (pt.specify_shape(x, 3) * 2, np.ones(4), np.ones(4), 1, AssertionError, "SpecifyShape"),
        (pt.split(x, [n, 2], n_splits=2)[0], np.ones(5), np.ones(1), 2, ValueError, r"Split"),
        (x[y > 0], np.ones(3), np.ones(4), 1, IndexError, r"Subtensor"),
        (scanned, np.ones(3), np.ones(3), 5, ValueError, r"rows.*Scan"),
    ]
    for out, a, b, steps, kind, node in failing:
        with pytest.raises(kind, match=node) as caught:
            function([x, y, n], out, on_unused_input="ignore")(a, b, steps)
        assert "test_pytensor.py:" in str(caught.value)


@pytest.mark.parametrize("side", ["rows", "some", "scanned", "state"])
def test_rows_of_a_scan_stand_in_a_side_whose_condition_is_of_that_scan(side):
    x = pt.dvector("x")

    def step(row, old, new):
        state = pt.tanh(row + new) * 0.5 + old * 0.1
        return [state, row * state], until(state > 0.4)

    first = pt.stack([x.sum(), x.sum() * 2])
    a, b = pytensor.scan(step, sequences=[x], outputs_info=[dict(initial=first, taps=[-2, -1]), None], return_updates=False)
    scanned = lambda start: pytensor.scan(lambda h: pt.tanh(h) + pt.sqr(a).sum() * 0.1, outputs_info=[start], n_steps=3, return_updates=False)
    sides = {"rows": lambda: a, "some": lambda: a[::2] * 2, "scanned": lambda: scanned(a.sum()), "state": lambda: scanned(a)[-1]}
    out = ifelse(b[-1] > 0, sides[side](), x + 1)
    for value in ([0.3], [-0.3, 0.2], [0.1, -2, 0.3]):
        agrees([x], out, np.array(value))
    last = scanned(ifelse(b[-1] > 0, sides[side](), x + 1))[-1]
    agrees([x], [last, pytensor.grad(last.sum(), x)], np.array([0.3, 0.1]), rtol=1e-10)


def optimised(name, x, a, c):
    from pytensor.tensor import optimize
    cost = pt.sum((x - a) ** 2) * c + pt.sum(x ** 4)
    if name == "minimize":
        return optimize.minimize(cost, x, method="BFGS")
    if name == "with a Hessian":
        return optimize.minimize(cost, x, method="Newton-CG", hess=True)
    if name == "without a gradient":
        return optimize.minimize(cost, x, method="Nelder-Mead", jac=False, optimizer_kwargs={"tol": 1e-10})
    return optimize.root(c * (x - a) + x ** 3, x, method="hybr")


@pytest.mark.parametrize("name, dtype", [("minimize", "float64"), ("with a Hessian", "float64"), ("without a gradient", "float64"),
                                         ("root", "float64"), ("with a Hessian", "float32"), ("root", "float32")])
def test_what_scipy_minimises_is_a_function_of_weft(name, dtype, rng):
    x, a, c = pt.vector("x", dtype=dtype), pt.vector("a", dtype=dtype), pt.scalar("c", dtype=dtype)
    solution, found = optimised(name, x, a, c)
    inner = weft.pytensor.traces.total()
    f = function([x, a, c], [solution, found, *pytensor.grad(solution.sum(), [a, c])])
    g = pytensor.function([x, a, c], [solution, found, *pytensor.grad(solution.sum(), [a, c])], mode="FAST_COMPILE")
    for n in (3, 1, 5):  # one trace for all lengths, of the function and of that inside
        values = [np.zeros(n, dtype), rng.standard_normal(n).astype(dtype), np.array(2.0, dtype)]
        (point, met, *slopes), want = f(*values), g(*values)
        assert met.dtype == want[1].dtype and (met == want[1] or dtype == "float32")  # whose last digits decide
        for u, v in zip((point, *slopes), (want[0], *want[2:])):
            assert u.dtype == v.dtype and u.shape == v.shape
            np.testing.assert_allclose(u, v, rtol=1e-5 if dtype == "float64" else 2e-3, atol=1e-6 if dtype == "float64" else 1e-3)
    assert weft.pytensor.traces.total() == inner + 2
    values[1][0] = np.nan
    np.testing.assert_array_equal(f(*values)[0], g(*values)[0])


def test_numbers_that_scipy_finds_are_found_by_functions_of_weft():
    from pytensor.tensor.optimize import minimize_scalar, root_scalar
    x, a = pt.dscalar("x"), pt.dscalar("a")
    least, ok = minimize_scalar((x - a) ** 2 + pt.cosh(x), x)
    zero, met = root_scalar(x ** 3 - a, x, method="newton", jac=True)
    outs = [least, ok, zero, met, *pytensor.grad(least + zero, [a])]
    f = function([x, a], outs)
    for value in (2.0, 0.3):
        want = pytensor.function([x, a], outs, mode="FAST_COMPILE")(1.0, value)
        for u, v in zip(f(1.0, value), want):
            np.testing.assert_allclose(u, v, rtol=1e-6)


def test_minimisations_in_loops_batches_choices_and_threads(rng):
    from pytensor.graph.replace import vectorize_graph
    from pytensor.tensor.optimize import minimize
    x, a = pt.dvector("x"), pt.dvector("a")
    solution, _ = minimize(((x - pt.tanh(a)) ** 2).sum() + (x ** 4).sum(), x, method="BFGS")
    rows = pt.dmatrix("rows")
    inside = pytensor.scan(lambda r, s: graph_replace_in(solution, {a: r, x: s}), sequences=[rows], outputs_info=[pt.zeros(3)],
                           return_updates=False)
    chosen = ifelse(pt.gt(rows.sum(), 0), solution.sum(), pt.constant(0.0, dtype="float64"))
    batch = vectorize_graph(solution, {a: rows})
    value = rng.standard_normal((4, 3))
    want = pytensor.function([rows], inside, mode="FAST_COMPILE")(value)
    f = function([rows], inside)
    np.testing.assert_allclose(f(value), want, atol=1e-6)
    np.testing.assert_allclose(function([rows, x], batch)(value, np.zeros(3)), want, atol=1e-4)
    h = function([rows, x, a], chosen)
    for sign in (1, -1):
        wanted = pytensor.function([rows, x, a], chosen, mode="FAST_COMPILE")(sign * np.abs(value), np.zeros(3), value[0])
        np.testing.assert_allclose(h(sign * np.abs(value), np.zeros(3), value[0]), wanted, atol=1e-6)
    results = [None] * 4
    threads = [threading.Thread(target=lambda k=k: results.__setitem__(k, f(value))) for k in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    for r in results:
        np.testing.assert_allclose(r, want, atol=1e-6)


def graph_replace_in(variable, replace):
    from pytensor.graph.replace import graph_replace
    return graph_replace(variable, replace)


def test_an_objective_that_fails_raises_what_it_raises_and_the_function_stays_usable():
    from pytensor.tensor.optimize import minimize
    x, a = pt.dvector("x"), pt.dvector("a")
    solution, _ = minimize(Assert("positive")(((x - a) ** 2).sum(), pt.all(a > 0)), x, method="BFGS")
    s = pytensor.shared(np.zeros(2))
    f = function([x, a], solution, updates={s: s + 1})
    for _ in range(2):
        np.testing.assert_allclose(f(np.zeros(2), np.array([1.0, 2])), [1, 2], atol=1e-5)
        with pytest.raises(AssertionError, match="positive"):
            f(np.zeros(2), np.array([-1.0, 2]))
    assert s.get_value().tolist() == [2, 2]
