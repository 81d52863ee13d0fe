"""Counts between edges and of integers, beside NumPy's: every option, and what is no ordinary input."""
import numpy as np
import pytest
import weft

RNG = np.random.default_rng(19)
SAMPLES = {
    "normal": RNG.standard_normal(5000),
    "float32": RNG.standard_normal(5000).astype(np.float32),
    "many": RNG.uniform(-1, 1, 300_000).astype(np.float32),
    "integers": RNG.integers(-5, 40, (30, 20)),
    "bytes": RNG.integers(0, 256, 4000).astype(np.uint8),
    "one": np.array([3.5]),
    "same": np.full(7, 2.0),
    "none": np.zeros(0),
    "backwards": RNG.standard_normal(1000)[::-3],
}


def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6 if got.dtype == np.float32 else 1e-12, atol=1e-12)  # NumPy takes differences of running sums


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("options", [{}, {"bins": 1}, {"bins": 37}, {"bins": [-2, -1.5, 0, 0, 0.1, 3]}, {"range": (-1, 1.5)}, {"range": (0.25, 0.25)},
                                     {"bins": 5, "density": True}, {"bins": np.linspace(-3, 3, 400)}, {"bins": "sturges"}])
def test_histogram_is_numpys(name, options):
    x = SAMPLES[name]
    if x.size == 0 and options.get("density"):
        return  # 0 / 0, of which NumPy warns
    counts, edges = weft.histogram(x, **options)
    want, want_edges = np.histogram(x, **options)
    same(counts, want)
    same(edges, want_edges)
    same(weft.histogram_bin_edges(x, *([options["bins"]] if "bins" in options else []), range=options.get("range")),
         np.histogram_bin_edges(x, *([options["bins"]] if "bins" in options else []), range=options.get("range")))
    if not options.get("density") and not isinstance(options.get("bins"), str):  # NumPy has no rules for weights
        weights = RNG.standard_normal(x.shape)
        same(weft.histogram(x, weights=weights, **options)[0], np.histogram(x, weights=weights, **options)[0])


def test_what_is_outside_or_nan_counts_for_nothing():
    x = np.array([0.0, 1.0, 2.0, np.nan, np.inf, -np.inf, 5.0])
    same(weft.histogram(x, [0.0, 1.0, 2.0])[0], np.histogram(x, [0.0, 1.0, 2.0])[0])
    same(weft.histogram(x, [-np.inf, 1.0, np.inf])[0], np.histogram(x, [-np.inf, 1.0, np.inf])[0])


@pytest.mark.parametrize("call", [
    lambda m: m.histogram(np.array([1.0, np.nan])), lambda m: m.histogram(np.array([1.0, np.inf])), lambda m: m.histogram(np.ones(3), 0),
    lambda m: m.histogram(np.ones(3), [2.0, 1.0]), lambda m: m.histogram(np.ones(3), 3, (2.0, 1.0)), lambda m: m.histogram(np.ones(3), 3, (np.nan, 1.0)),
    lambda m: m.histogram(np.ones(3), weights=np.ones(2)), lambda m: m.histogram(np.ones(3), "nonsense"),
    lambda m: m.bincount(np.array([1, -1])), lambda m: m.bincount(np.array([1, 2]), minlength=-1), lambda m: m.bincount(np.array([1, 2]), np.ones(3)),
    lambda m: m.bincount(np.array([1.5])), lambda m: m.digitize(np.ones(2), np.array([1.0, 3.0, 2.0])), lambda m: m.histogramdd(np.ones((3, 2)), (2, 3, 4)),
])
def test_what_numpy_refuses_is_refused(call):
    with pytest.raises((ValueError, TypeError)):
        call(np)
    with pytest.raises((ValueError, TypeError, IndexError)):
        weft.eval(*(y for y in [call(weft)] if isinstance(y, weft.array)), *(y for y in [call(weft)] if isinstance(y, tuple)))


@pytest.mark.parametrize("x", [np.array([0, 3, 3, 1]), np.zeros(0, np.int64), RNG.integers(0, 1000, 200_000), np.array([True, False, True]),
                               RNG.integers(0, 255, 1000).astype(np.uint8)])
@pytest.mark.parametrize("minlength", [0, 7, 2000])
def test_bincount_is_numpys(x, minlength):
    same(weft.bincount(x, minlength=minlength), np.bincount(x, minlength=minlength))
    weights = RNG.standard_normal(x.shape)
    got, want = np.asarray(weft.bincount(x, weights, minlength)), np.bincount(x, weights, minlength)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    n = max(minlength, x.max(initial=0) + 1)
    same(weft.bincount(x, length=int(n)), np.bincount(x, minlength=int(n)))


def test_bincount_of_a_traced_length_and_of_rows_of_a_map():
    f = weft.compile(lambda x: weft.bincount(x, minlength=2))
    for n in (0, 1, 5, 9):
        x = RNG.integers(0, 6, n).astype(np.int32)
        same(f(weft.array(x)), np.bincount(x, minlength=2))
    rows = RNG.integers(0, 4, (6, 50))
    same(weft.vmap(lambda r: weft.bincount(r, length=4))(weft.array(rows)), np.stack([np.bincount(r, minlength=4) for r in rows]))
    weights = weft.array(RNG.standard_normal(50))
    same(weft.grad(lambda w: (weft.bincount(rows[0], w, length=4) * weft.array(np.arange(4.0))).sum())(weights), rows[0].astype(float))


@pytest.mark.parametrize("call", [
    lambda x, b: weft.digitize(x, b), lambda x, b: weft.compile(weft.digitize)(x, b),
    lambda x, b: weft.compile(lambda x, b: weft.digitize(x + 1, b[::-1]) + 1)(x, b),
    lambda x, b: weft.vmap(weft.digitize, in_axes=(None, 0))(x, weft.array([[0.0, 1.0, 2.0]] * 2 + [b])),
    lambda x, b: weft.vmap(weft.digitize, in_axes=(0, None))(weft.array([x, x]), weft.array(b)),
])
def test_bins_in_no_order_are_numpys_error_whenever_they_are_seen(call):
    x, bins = np.array([0.5, 1.5]), np.array([0.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="^digitize: the bins neither ascend nor descend"):
        weft.eval(call(weft.array(x), weft.array(bins)))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [1.0], [1.0, 1.0], [], [0.0, 1.0, np.nan], [np.nan, 1.0, 0.0], [np.nan]])
def test_digitize_is_numpys(bins, right):
    x = np.array([[-1.0, 0.0, 0.5], [1.0, 2.0, 9.0]])
    same(weft.digitize(x, bins, right), np.digitize(x, np.array(bins, np.float64), right))


@pytest.mark.parametrize("options", [{}, {"bins": (3, 4)}, {"bins": ([-1.0, 0.0, 2.0], 5)}, {"range": ((-1, 1), (0, 2))}, {"density": True}])
def test_points_in_boxes_are_numpys(options):
    x, y = RNG.standard_normal((2, 4000))
    counts, edges = weft.histogramdd((x, y), **options)
    want, want_edges = np.histogramdd((x, y), **options)
    same(counts, want)
    for a, b in zip(edges, want_edges):
        same(a, b)
    same(weft.histogramdd(np.stack([x, y], 1), **options)[0], want)
    two = weft.histogram2d(x, y, **options)
    for a, b in zip(two, np.histogram2d(x, y, **options)):
        same(a, b)
    same(weft.histogram2d(x, y, [-1.0, 0.0, 1.0])[0], np.histogram2d(x, y, [-1.0, 0.0, 1.0])[0])
    weights = RNG.standard_normal(4000)
    same(weft.histogramdd((x, y), weights=weights, **options)[0], np.histogramdd((x, y), weights=weights, **options)[0])


def test_a_range_and_edges_may_be_arrays():
    x = weft.arange(8.0)
    for of_list, of_array in [(weft.histogram(x, 4, [2.0, 6.0]), weft.histogram(x, 4, weft.array([2.0, 6.0]))),
                              (weft.histogram2d(x, x, 3, [[2.0, 6.0], [1.0, 5.0]]), weft.histogram2d(x, x, 3, weft.array([[2.0, 6.0], [1.0, 5.0]]))),
                              (weft.histogram2d(x, x, [[2.0, 6.0, 7.0], [1.0, 5.0, 8.0]]),
                               weft.histogram2d(x, x, weft.array([[2.0, 6.0, 7.0], [1.0, 5.0, 8.0]])))]:
        assert [y.tolist() for y in of_list] == [y.tolist() for y in of_array]
    with pytest.raises(ValueError, match="^histogram: the range is an array, not of two numbers"):
        weft.histogram(x, 4, weft.zeros((2, 3)))
