"""Sizes that are computed: inside a function that is traced once, for all of them."""
import itertools

import numpy as np
import pytest
import weft

X = np.arange(1.0, 7.0)


def same(got, want):
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slices_by_arrays_are_those_of_numpy(step):
    f = weft.compile(lambda x, i, j, k: (x[i:j:k], x[i:], x[:j], x[::k], x.at[i:j:k].add(10)), shapes="any")
    g = weft.compile(weft.grad(lambda x, i, j: (x[i:j] ** 2).sum()), shapes="any")
    for n, i, j in itertools.product((0, 2, 6), (-9, -2, 0, 1, 3, 9), (-9, -1, 0, 2, 9)):
        x, at = X[:n], slice(i, j, step)
        a, b, c, d, e = f(weft.array(x), weft.array(i), weft.array(j), weft.array(step))
        for got, want in ((a, x[at]), (b, x[i:]), (c, x[:j]), (d, x[::step])):
            same(got, want)
        added = x.copy()
        added[at] += 10
        same(e, added)
        slope = np.zeros(n)
        slope[i:j] = 2 * x[i:j]
        same(g(weft.array(x), weft.array(i), weft.array(j)), slope)


def test_bounds_of_a_slice_may_be_mixed_and_wrong():
    x = weft.array(X)
    f = weft.compile(lambda n: (x[n:-1], x[1:n:2], x[None, n:].sum(1), weft.array(X.reshape(2, 3))[:, n:]))
    for n in (0, 1, 5):
        for got, want in zip(f(weft.array(n)), (X[n:-1], X[1:n:2], X[None, n:].sum(1), X.reshape(2, 3)[:, n:])):
            same(got, want)
    with pytest.raises(ValueError):
        weft.eval(weft.compile(lambda n: x[::n])(weft.array(0)))
    for wrong in (weft.array(1.5), weft.array([1, 2])):
        with pytest.raises((ValueError, TypeError)):
            weft.compile(lambda n: x[n:])(wrong)


def test_shapes_name_arrays():
    def f(x, n, m):
        total = n * m
        return (weft.zeros((n, 2)), weft.ones((m,), weft.int32), weft.full((2, n), 7), weft.arange(n), weft.arange(n, m, 2),
                weft.broadcast_to(x[0], (n, m)), weft.reshape(weft.arange(total), (n, m)), weft.arange(total).reshape(-1, n))

    compiled = weft.compile(f, shapes="any")
    for n, m in ((1, 1), (2, 3), (4, 2), (3, 5)):
        got = compiled(weft.array(X), weft.array(n), weft.array(m))
        want = (np.zeros((n, 2)), np.ones(m), np.full((2, n), 7), np.arange(n), np.arange(n, m, 2), np.full((n, m), X[0]),
                np.arange(n * m).reshape(n, m), np.arange(n * m).reshape(-1, n))
        for g, w in zip(got, want):
            same(g, w)
    with pytest.raises(ValueError):
        weft.eval(compiled(weft.array(X), weft.array(-1), weft.array(2)))
    same(weft.zeros((weft.array(2), 3)), np.zeros((2, 3)))  # outside of functions too
    same(weft.arange(weft.array(4), dtype=weft.float64), np.arange(4.0))


def test_masks_choose_inside_of_functions():
    f = weft.compile(lambda x: (x[x > 2], x[x > 2].sum(), weft.flatnonzero(x > 2), (x > 2).nonzero()[0]), shapes="any")
    g = weft.compile(weft.grad(lambda x: (x[x > 2] ** 2).sum()), shapes="any")
    for n in (0, 1, 3, 6):
        x = X[:n]
        chosen, total, places, index = f(weft.array(x))
        same(chosen, x[x > 2])
        assert total.item() == x[x > 2].sum()
        same(places, np.flatnonzero(x > 2))
        same(index, np.flatnonzero(x > 2))
        same(g(weft.array(x)), np.where(x > 2, 2 * x, 0))

    @weft.compile
    def written(x):
        y = x * 1
        y[x > 2] = 0
        y[x > 4] = -x[x > 4]
        return y, x[:, 0][x[:, 1] > 3], x[x[:, 0] > 2, 1]

    x = X.reshape(3, 2)
    y = np.where(x > 4, -x, np.where(x > 2, 0, x))
    for got, want in zip(written(weft.array(x)), (y, x[:, 0][x[:, 1] > 3], x[x[:, 0] > 2, 1])):
        same(got, want)
    with pytest.raises((ValueError, IndexError)):
        weft.compile(lambda x, m: x[m > 0])(weft.array(x), weft.array([1.0, 2.0]))
    with pytest.raises((ValueError, NotImplementedError)):  # rows of different lengths
        weft.eval(weft.vmap(lambda r: r[r > 2])(weft.array(x)))


def test_unique_inside_of_functions():
    f = weft.compile(lambda x: weft.unique(x, True, True, True), shapes="any")
    for values in ([], [2.0], [3, 1, 3, 2, 1, 3], [np.nan, 1, np.nan]):
        x = np.array(values, dtype=float)
        for got, want in zip(f(weft.array(x)), np.unique(x, True, True, True)):
            same(got, want)


def test_loops_have_a_size_of_their_own_in_every_step():
    x = weft.array(X)

    def step(carry, t):
        return carry + x[:t].sum() + x[x > t.astype(weft.float64)].sum(), None

    total, _ = weft.scan(step, weft.array(0.0, weft.float64), weft.arange(6))
    assert total.item() == sum(X[:t].sum() + X[X > t].sum() for t in range(6))


@pytest.mark.parametrize("m, n", [(3, 2), (1, 1), (3, 0), (0, 2)])
def test_segments_of_matrices_of_any_size(m, n):
    pairs = [[0, 2], [2, 6], [3, 3], [0, 6]]
    a, b = np.arange(6.0 * m).reshape(m, 6), np.arange(6.0 * n).reshape(6, n) - 4
    want = np.stack([a[:, i:j] @ b[i:j] for i, j in pairs])
    f = lambda a, b: weft.segmented_mm(a, b, weft.array(pairs))
    same(f(weft.array(a), weft.array(b)), want)
    for shapes in ("any", [(None, 6), (6, None)], [(m, 6), (6, None)], [(m, None), (None, n)]):
        same(weft.compile(f, shapes=shapes)(weft.array(a), weft.array(b)), want)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_complex_determinants_of_any_size(n):
    r = np.random.default_rng(n)
    a = r.normal(size=(2, n, n)) + 1j * r.normal(size=(2, n, n))
    f = lambda a: (weft.linalg.det(a), *weft.linalg.slogdet(a))
    for got in (f(weft.array(a)), weft.compile(f, shapes="any")(weft.array(a))):
        np.testing.assert_allclose(np.asarray(got[0]), np.linalg.det(a), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(got[1]), np.linalg.slogdet(a)[0], rtol=1e-12)
        np.testing.assert_allclose(np.asarray(got[2]), np.linalg.slogdet(a)[1], rtol=1e-11, atol=1e-14)


# Functions of arrays of any size: what they are called with, which sizes they get, and the sizes of later calls of the same function.
OF_ANY_SIZE = {
    "diagonal": (lambda x: (weft.diagonal(x), weft.diagonal(x, -1), weft.trace(x, 2)), [(3, 4)], [(5, 2)], [(0, 3)], [(2, 9)]),
    "einsum": (lambda x: (weft.einsum("ii", x), weft.einsum("ii->i", x)), [(3, 3)], [(5, 5)], [(0, 0)]),
    "block_masked_mm": (lambda a, b, m: weft.block_masked_mm(a, b, 32, m, None, m), [(40, 40), (40, 40), (2, 2)], [(70, 70), (70, 70), (3, 3)]),
    "segmented_mm": (lambda a, b, s: weft.segmented_mm(a, b, weft.astype(s * s, weft.int32)), [(2, 3), (3, 2), (2, 2)], [(4, 5), (5, 3), (3, 2)]),
    "view": (lambda x: weft.view(weft.view(x, weft.int64), weft.float64), [(2, 4)], [(3, 8)], [(0, 2)]),
    "resize": (lambda x: (weft.resize(x, 1.5, 0, "linear"), weft.resize(x, 0.5, 0, "cubic"), weft.resize(x, 2.5, 0)), [(4, 3)], [(7, 2)]),
    **{f"{name} {mode}": (lambda a, v, f=getattr(weft, name), mode=mode: f(a, v, mode), [(6,), (3,)], [(3,), (6,)], [(4,), (4,)], [(2,), (9,)])
       for name in ("convolve", "correlate") for mode in ("full", "same", "valid")},
    "atleast": (lambda x: (weft.atleast_2d(x), weft.atleast_3d(x), weft.column_stack([x, x]), weft.vstack([x, x])), [(3,)], [(5,)]),
    "average": (lambda x, v: weft.average(x, 1, v * v), [(3, 4), (4,)], [(2, 5), (5,)]),
    "average of all": (lambda x, v: weft.average(x, weights=v * v), [(3, 4), (3, 4)], [(2, 5), (2, 5)]),
    "block": (lambda a, b: weft.block([[a, b], [b, a]]), [(3, 4), (3, 4)], [(2, 5), (2, 5)]),
    "broadcast_arrays": (lambda a, b: weft.broadcast_arrays(a, b), [(3, 4), (4,)], [(2, 5), (5,)]),
    "cov": (lambda x: (weft.cov(x), weft.cov(x, rowvar=False), weft.cov(x, x), weft.corrcoef(x)), [(3, 5)], [(4, 4)]),
    "cross": (lambda a, b: weft.cross(a, b), [(4, 3), (4, 3)], [(2, 3), (2, 3)]),
    "empty_like": (lambda x: weft.empty_like(x) * 0, [(3, 4)], [(0, 4)]),
    "gradient": (lambda x: weft.gradient(x), [(5, 4)], [(3, 7)]),
    "isin": (lambda x, y: (weft.isin(weft.round(x), weft.round(y)), weft.setdiff1d(weft.round(x), weft.round(y))), [(9,), (5,)], [(4,), (2,)], [(4,), (0,)]),
    "lu": (lambda x: weft.linalg.lu(x), [(4, 4)], [(3, 5)], [(5, 3)]),
    "piecewise": (lambda x: weft.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 2.0]), [(5,)], [(7,)]),
    "polynomials": (lambda p, q: (weft.polyadd(p, q), weft.polysub(q, p), weft.polymul(p, q), weft.polyval(p, q), weft.polyder(p), weft.polyint(q, 2)),
                    [(3,), (5,)], [(4,), (2,)]),
    "unique": (lambda x: weft.unique_all(weft.round(x)), [(3, 4)], [(5, 2)]),
    "unwrap": (lambda x: weft.unwrap(9 * x), [(3, 6)], [(2, 9)]),
    "vander": (lambda x: (weft.vander(x), weft.vander(x, 3)), [(4,)], [(6,)]),
    "vecdot": (lambda a, b: weft.vecdot(a, b), [(3, 4), (3, 4)], [(2, 5), (2, 5)]),
}


@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_a_function_of_arrays_of_any_size(name, rng):
    f, *calls = OF_ANY_SIZE[name]
    of_any = weft.compile(f, shapes="any")
    for shapes in calls:
        x = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        got, want = of_any(*map(weft.array, x)), f(*map(weft.array, x))
        for a, b in zip(*(y if isinstance(y, (tuple, list)) else [y] for y in (got, want)), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
