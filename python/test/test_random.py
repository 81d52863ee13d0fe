"""weft.random: the table of its names, streams recorded from MLX, draws of each against SciPy where it is installed (a million of
each are drawn by test/distributions.c)."""
import ast
import inspect
import pathlib
import pickle

import numpy as np
import pytest
import weft
from weft import _core, random

ROWS = {row["name"]: row for row in _core._random.names}
STUB = (pathlib.Path(weft.__file__).parent / "random.pyi").read_text()


@pytest.mark.parametrize("name", ROWS)
def test_a_name_is_what_its_row_says(name):
    row, f = ROWS[name], getattr(random, name)
    assert f.__name__ == name and f.__doc__.startswith(name + row["signature"]) and pickle.loads(pickle.dumps(f)) is f
    assert repr(eval("weft.random." + row["example"], {"weft": weft}).tolist()) == row["result"]
    stubs = {node.name: [a.arg for a in node.args.args + node.args.kwonlyargs]
             for node in ast.parse(STUB).body if isinstance(node, ast.FunctionDef)}
    assert stubs[name] == list(inspect.signature(f).parameters)
    assert set(stubs) == set(ROWS) == set(random.__all__)


def test_streams_are_those_recorded():
    assert random.key(2 ** 40 + 5).tolist() == [256, 5]
    assert random.split(random.key(7), 3).tolist() == [[276534068, 861967409], [1905761346, 1641862660], [2900896126, 1402713516]]
    u = random.uniform(random.key(11), shape=(3, 3))
    assert [x.hex() for x in u.tolist()[0]] == ["0x1.26a9de0000000p-3", "0x1.20a4820000000p-1", "0x1.bf0ad20000000p-1"]
    assert random.randint(random.key(3), -5, 10, shape=12).tolist() == [7, 3, 9, 1, 5, 8, 6, -2, 0, 2, -4, 2]
    assert random.randint(random.key(3), 0, 2 ** 40, shape=4, dtype=weft.int64).tolist()[:2] == [262274957312, 12225966080]
    assert random.bernoulli(random.key(4), 0.3, shape=16).tolist()[:6] == [True, True, True, False, True, False]
    assert random.permutation(random.key(9), 10).tolist() == [1, 4, 0, 6, 5, 8, 7, 3, 9, 2]
    rows = random.permutation(random.key(10), weft.arange(12).reshape(3, 4), axis=1)
    assert rows.tolist() == [[1, 2, 3, 0], [5, 6, 7, 4], [9, 10, 11, 8]]


def the_wheel():
    mx = pytest.importorskip("mlx.core")
    if not hasattr(mx, "__file__") or "weft" in str(mx.__file__):
        pytest.skip("this mlx is weft's")
    return mx


@pytest.mark.parametrize("seed", [0, 1, 7, 2 ** 40 + 5, 2 ** 63])
@pytest.mark.parametrize("n", [1, 2, 3, 1000, 65537])
def test_streams_are_those_of_the_wheel(seed, n):
    mx = the_wheel()
    ours, theirs = random.key(seed), mx.random.key(seed)

    def same(x, y):
        np.testing.assert_array_equal(np.asarray(x), np.array(y))
    same(random.split(ours, n), mx.random.split(theirs, n))
    same(random.uniform(ours, -2, 3, shape=n), mx.random.uniform(-2, 3, (n,), key=theirs))
    for dtype in "float16", "bfloat16":
        narrow = mx.random.uniform(shape=(n,), dtype=getattr(mx, dtype), key=theirs)
        same(random.uniform(ours, shape=n, dtype=dtype).astype("float32"), narrow.astype(mx.float32))
    for low, high, dtype in (0, 10, "int32"), (-7, 2 ** 20, "int64"), (3, 200, "uint8"):
        same(random.randint(ours, low, high, shape=n, dtype=dtype), mx.random.randint(low, high, (n,), getattr(mx, dtype), theirs))
    same(random.bernoulli(ours, 0.3, shape=n), mx.random.bernoulli(0.3, (n,), theirs))
    same(random.permutation(ours, n), mx.random.permutation(n, key=theirs))


def steps(x, y):
    """How many floats apart they are; of halves, those of their own width."""
    def place(a):
        if a.dtype == np.float16 or a.dtype == np.uint16:
            bits, least = a.view(np.int16).astype(np.int64), -2 ** 15
        else:
            bits, least = a.view(np.int32).astype(np.int64), -2 ** 31
        return np.where(bits < 0, least - bits, bits)
    return np.abs(place(x) - place(y))


@pytest.mark.parametrize("dtype, most, few", [("float32", 4, 0.0057), ("float16", 2, 0), ("bfloat16", 1, 0)])
def test_normal_draws_are_near_those_of_the_wheel(dtype, most, few):
    """Beyond 2 floats, as far as the quantile itself lies from MLX's: docs/mlx.md counts all of them."""
    mx = the_wheel()
    n, apart = 2 ** 20, []
    for seed in range(4):
        x, y = random.normal(random.key(seed), shape=n, dtype=dtype), mx.random.normal((n,), getattr(mx, dtype), key=mx.random.key(seed))
        x, y = (x.view("uint16"), y.view(mx.uint16)) if dtype == "bfloat16" else (x, y)
        apart.append(steps(np.asarray(x), np.array(y)))
    apart = np.concatenate(apart)
    assert apart.max() <= most and np.mean(apart > 2) <= few


def test_normal_draws_are_quantiles():
    special = pytest.importorskip("scipy.special")
    u = np.asarray(random.uniform(random.key(5), shape=2 ** 20))
    x = np.asarray(random.normal(random.key(5), shape=2 ** 20))
    exact = special.erfinv((2 * u + np.float32(-1 + 2.0 ** -24)).astype(float)) * np.sqrt(2)
    assert np.max(np.abs(x - exact) / np.spacing(np.abs(exact).astype(np.float32))) < 2.2


def test_shape_dtype_and_like():
    key = random.key(0)
    x = weft.zeros((2, 3), weft.float64)
    assert random.normal(key).shape == () and random.normal(key).dtype == weft.float32
    assert random.normal(key, shape=4).shape == (4,)
    assert random.normal(key, like=x).shape == (2, 3) and random.normal(key, like=x, dtype=weft.float16).dtype == weft.float16
    assert random.normal(key, np.zeros(5), np.ones((3, 1))).shape == (3, 5)
    assert random.normal(key, np.zeros(5)).dtype == weft.float64
    assert random.normal(key, np.zeros(5), dtype=weft.float32).dtype == weft.float32
    assert random.poisson(key, 3.0, shape=2).dtype == weft.int32 and random.poisson(key, 3.0, shape=2, dtype=weft.int64).dtype == weft.int64
    assert random.bits(key, shape=3).dtype == weft.uint32 and random.bits(key, shape=3, dtype=weft.uint8).dtype == weft.uint8
    with pytest.raises(TypeError):
        random.normal(key, shape=3, like=x)


def test_numbers_and_arrays_draw_the_same():
    """Numbers are looked at when a draw is written, arrays where it is computed."""
    key = random.key(3)
    for name, numbers in (("binomial", (7, 0.3)), ("binomial", (1000, 0.3)), ("binomial", (1000.5, 0.9)), ("poisson", (3.0,)), ("poisson", (99.0,)),
                          ("hypergeometric", (3, 4, 7)), ("hypergeometric", (30.5, 40, 11)), ("triangular", (-1.0, 0.0, 2.0)),
                          ("truncated_normal", (-1.0, 2.0)), ("betabinomial", (20, 2.0, 3.0)), ("negative_binomial", (5, 0.25))):
        f = getattr(random, name)
        dtype = weft.float64 if name in ("triangular", "truncated_normal") else weft.int64
        arrays = [np.full(500, float(x)) for x in numbers]
        assert f(key, *numbers, shape=500, dtype=dtype).tolist() == f(key, *arrays, dtype=dtype).tolist(), name


def test_nonsense_is_named():
    key = random.key(0)
    for call, text in ((lambda: random.normal(key, 0, -1, shape=3), "sd is -1, not at least 0"),
                       (lambda: random.bernoulli(key, 1.5), "p is 1.5, not in"),
                       (lambda: random.triangular(key, 3, 1, 2, shape=3), "random.triangular: left is 3, above mode, which is 1"),
                       (lambda: random.triangular(key, 0, 3, 2), "mode is 3, above right, which is 2"),
                       (lambda: random.triangular(key, 2.0), "left is 2, above mode, which is 0.5"),
                       (lambda: random.truncated_normal(key, 2, 1.5), "random.truncated_normal: low is 2, above high, which is 1.5"),
                       (lambda: random.hypergeometric(key, 3, 4, 8), "random.hypergeometric: 8 taken of 3 good and 4 bad"),
                       (lambda: random.normal(weft.zeros(2)), "a key is uint32"),
                       (lambda: random.gamma(key, None), "a is NULL"),
                       (lambda: random.split(key, -1), "negative"),
                       (lambda: random.normal(key, shape=3, dtype=weft.int32), "not of int32")):
        with pytest.raises((ValueError, TypeError), match=text):
            call().tolist()
    assert np.isnan(random.normal(key, 0.0, np.array([-1.0])).tolist()[0])


def test_keys_under_vmap_and_in_compiled_functions():
    keys = random.split(random.key(1), 4)
    x = np.arange(5, dtype=np.float32)

    def noisy(key, x):
        return x + random.normal(key, like=x) * random.gamma(key, weft.exp(x))

    rows = weft.vmap(noisy, in_axes=(0, None))(keys, x)
    whole = weft.compile(noisy)
    for i in range(4):
        assert rows[i].tolist() == noisy(keys[i], x).tolist()
        np.testing.assert_allclose(np.array(whole(keys[i], x)), np.array(rows[i]), rtol=1e-6)


def test_gradients_go_through_draws():
    key = random.key(2)
    like = weft.zeros(20000, weft.float64)
    slope = weft.grad(lambda a: random.gamma(key, a, like=like, dtype=weft.float64).mean())(weft.array(2.5, dtype=weft.float64))
    assert abs(float(slope) - 1) < 0.02
    assert float(weft.grad(lambda s: random.normal(key, 0.0, s, like=like, dtype=weft.float64).sum())(weft.array(2.0, dtype=weft.float64))) == \
        pytest.approx(float(random.normal(key, like=like, dtype=weft.float64).sum()))


REAL = {"uniform": ("uniform", (-1.0, 2.0), (-1, 3)), "normal": ("norm", (1.0, 2.0), (1, 2)),
        "truncated_normal": ("truncnorm", (4.0, 6.0), (4, 6)), "lognormal": ("lognorm", (0.0, 0.5), (0.5,)),
        "halfnormal": ("halfnorm", (1.0, 2.0), (1, 2)), "exponential": ("expon", (3.0,), (0, 3)),
        "truncexpon": ("truncexpon", (2.0, 1.0, 3.0), (2, 1, 3)), "laplace": ("laplace", (1.0, 2.0), (1, 2)),
        "logistic": ("logistic", (1.0, 2.0), (1, 2)), "gumbel": ("gumbel_r", (1.0, 2.0), (1, 2)), "cauchy": ("cauchy", (1.0, 2.0), (1, 2)),
        "halfcauchy": ("halfcauchy", (1.0, 2.0), (1, 2)), "rayleigh": ("rayleigh", (2.0,), (0, 2)),
        "weibull": ("weibull_min", (1.7, 2.0), (1.7, 0, 2)), "pareto": ("pareto", (2.5, 2.0), (2.5, 0, 2)),
        "triangular": ("triang", (1.0, 2.0, 5.0), (0.25, 1, 4)), "wald": ("invgauss", (50.0, 0.2), (250, 0, 0.2)),
        "gamma": ("gamma", (0.5, 2.0), (0.5, 0, 2)), "invgamma": ("invgamma", (3.0, 2.0), (3, 0, 2)),
        "gengamma": ("gengamma", (3.0, 2.0, 3.0), (1.5, 2, 0, 3)), "chisquare": ("chi2", (3.0,), (3,)), "beta": ("beta", (2.0, 0.5), (2, 0.5)),
        "studentt": ("t", (2.5, 1.0, 2.0), (2.5, 1, 2)), "f": ("f", (3.0, 7.0), (3, 7)), "vonmises": ("vonmises", (0.0, 4.0), (4,))}
WHOLE = {"poisson": ("poisson", (50.0,), (50,)), "binomial": ("binom", (1000, 0.9), (1000, 0.9)), "geometric": ("geom", (0.05,), (0.05,)),
         "negative_binomial": ("nbinom", (3.5, 0.2), (3.5, 0.2)), "betabinomial": ("betabinom", (20, 2.0, 3.0), (20, 2, 3)),
         "hypergeometric": ("hypergeom", (50, 20, 30), (70, 50, 30))}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REAL)
def test_draws_follow_their_distribution(name, dtype):
    stats = pytest.importorskip("scipy.stats")
    scipy_name, given, frozen = REAL[name]
    x = np.array(getattr(random, name)(random.key(99), *given, shape=100000, dtype=dtype), np.float64)
    assert stats.kstest(x, getattr(stats, scipy_name)(*frozen).cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", WHOLE)
def test_whole_draws_follow_their_distribution(name):
    stats = pytest.importorskip("scipy.stats")
    scipy_name, given, frozen = WHOLE[name]
    x = np.array(getattr(random, name)(random.key(99), *given, shape=100000))
    law = getattr(stats, scipy_name)(*frozen)
    edges = np.unique(law.ppf(np.linspace(0, 1, 41)[1:-1]))
    want = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * len(x)
    got = np.histogram(x, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    assert stats.chisquare(got, want).pvalue > 1e-4


def test_permutations_and_choices(rng):
    key = weft.random.key(7)
    for n in (0, 1, 2, 9, 1000):
        bits = np.asarray(weft.random.bits(key, shape=n))
        np.testing.assert_array_equal(np.asarray(weft.random.permutation(key, n)), np.argsort(bits, kind="stable"))
    x = np.arange(24).reshape(4, 6)
    for axis in (0, 1, -1):
        order = np.asarray(weft.random.permutation(key, x.shape[axis]))
        np.testing.assert_array_equal(np.asarray(weft.random.permutation(key, x, axis)), np.take(x, order, axis))
        got = np.asarray(weft.random.shuffle(key, x, axis))
        np.testing.assert_array_equal(np.sort(got, axis), x)
        assert (got != x).any()
    assert weft.random.permutation(weft.random.key(0), 10).tolist() == [3, 6, 7, 4, 0, 2, 5, 1, 9, 8]  # recorded from MLX
    assert weft.random.permutation(weft.random.key(5), 13).tolist() == [2, 4, 5, 1, 0, 7, 6, 12, 9, 10, 8, 11, 3]
    with pytest.raises(ValueError):
        weft.random.permutation(key, -1)


def test_choices_have_their_chances():
    key, n = weft.random.key(3), 200000
    p = np.array([0.1, 0.0, 0.4, 0.5])
    for chances in (None, p, 3 * p):
        got = np.bincount(np.asarray(weft.random.choice(key, 4, (n,), p=chances)), minlength=4) / n
        np.testing.assert_allclose(got, [0.25] * 4 if chances is None else p, atol=0.005)
    rows = np.asarray(weft.random.choice(key, weft.array([[1, 2], [3, 4]]), (5, 3)))
    assert rows.shape == (5, 3, 2) and set(map(tuple, rows.reshape(-1, 2))) <= {(1, 2), (3, 4)}
    assert sorted(weft.random.choice(key, 10, 10, replace=False).tolist()) == list(range(10))
    # The second of two without replacement: P(1st = i) P(2nd = j | i), of exact weights.
    keys = weft.random.split(key, 20000)
    pairs = np.asarray(weft.vmap(lambda k: weft.random.choice(k, 3, 2, replace=False, p=[0.2, 0.3, 0.5]))(keys))
    assert (pairs[:, 0] != pairs[:, 1]).all()
    np.testing.assert_allclose((pairs[:, 0] == 2).mean(), 0.5, atol=0.015)
    np.testing.assert_allclose(((pairs[:, 0] == 2) & (pairs[:, 1] == 1)).mean(), 0.5 * 0.3 / 0.5, atol=0.015)
    for call in (lambda: weft.random.choice(key, 3, 4, replace=False), lambda: weft.random.choice(key, 0), lambda: weft.random.choice(key, 3, p=[0.5, 0.5])):
        with pytest.raises(ValueError):
            call()
    draw = lambda p, replace=True: weft.random.choice(key, 3, 2, replace, p)
    for p, replace, text in (([0.0, 0, 0], True, "no p is above 0"), ([1.0, -1, 1], True, "p has a number below 0"), ([1.0, np.nan, 1], True, "p has a number below 0, a nan"),
                             ([0.0, 1, 0], False, "fewer p are above 0 than different rows are drawn")):
        rows = weft.array([[0.2, 0.3, 0.5], p])
        for call in (lambda: draw(p, replace), lambda: weft.compile(lambda p: draw(p, replace), shapes="any")(weft.array(p)),
                     lambda: weft.vmap(lambda p: draw(p, replace))(rows), lambda: weft.scan(lambda c, p: (c, draw(p, replace)), 0, rows)[1]):
            with pytest.raises(ValueError, match=f"^random.choice: {text}"):
                weft.eval(call())


def test_ends_that_the_dtype_does_not_have_are_refused():
    for low, high, dtype in [(0, 300, weft.uint8), (-5, 3, weft.uint16), (0, 2 ** 31 + 1, weft.int32)]:
        with pytest.raises(ValueError, match=f"randint: from {low} to below {high} is beyond"):
            random.randint(random.key(1), low, high, shape=4, dtype=dtype)
    for low, high, dtype in [(0, 256, weft.uint8), (-128, 128, weft.int8), (0, 2 ** 32, weft.uint32)]:
        x = random.randint(random.key(1), low, high, shape=4096, dtype=dtype)
        assert np.ptp(np.asarray(x, np.float64)) > 0.9 * (high - low)


def test_a_seed_has_64_bits():
    assert random.key(2 ** 64 - 1).tolist() == random.key(-1).tolist() == [2 ** 32 - 1] * 2
    for seed in (2 ** 64, -2 ** 63 - 1, 10 ** 40):
        with pytest.raises(ValueError, match=f"key: {seed} has more than 64 bits"):
            random.key(seed)
