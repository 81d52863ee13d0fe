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


@pytest.mark.parametrize("name", ["prod", "nanprod", "cumprod"])
def test_products_of_any_size_that_turns_out_to_be_0_have_derivatives(name):
    f = lambda x: getattr(weft, name)(x, axis=0).sum()
    for transform in (weft.grad(f), lambda x: weft.jvp(f, [x], [x])[1][0], weft.grad(lambda x: weft.grad(f)(x).sum())):
        g = weft.compile(transform, shapes="any")
        for n in (0, 1, 3, 2):
            x = np.arange(1.0, 2 * n + 1).reshape(n, 2)
            same(g(weft.array(x)), np.asarray(transform(weft.array(x))))


@pytest.mark.parametrize("name", ["median", "nanmedian", "sort", "cummax", "logsumexp"])
def test_what_has_a_value_of_an_axis_that_turns_out_to_be_0_has_a_tangent(name):
    f = lambda x: getattr(weft, name)(x, axis=0)
    tangent = lambda x: weft.jvp(f, [x], [x])[1][0]
    for n in (0, 1, 4):
        x = weft.array(np.arange(2.0 * n).reshape(n, 2))
        np.testing.assert_array_equal(np.asarray(weft.compile(tangent, shapes="any")(x)), np.asarray(tangent(x)))


def test_an_axis_of_any_size_that_turns_out_to_be_0_is_not_continued():
    none = weft.zeros((0, 3), weft.float64)
    for mode in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean"):
        for how in (lambda f: weft.compile(f, shapes="any"), lambda f: weft.compile(lambda x: weft.vmap(f, in_axes=1)(x), shapes="any")):
            widths = ((1, 0), (0, 0)) if how(lambda x: x)(none).shape == none.shape else ((1, 0),)
            with pytest.raises((ValueError, IndexError), match="^pad: "):
                weft.eval(how(lambda x: weft.pad(x, widths, mode))(none))


def test_one_of_integers_is_chosen_by_a_share_of_something():
    choose = lambda x, q: weft.quantile(x, q, 0, method="lower")
    x = weft.array([3, 1, 2])
    for f in (choose, weft.compile(choose, shapes="any")):
        assert f(x, weft.array([0.0, 1.0])).tolist() == [1, 3]
        for q in (1.5, -1.0, np.nan):
            with pytest.raises(ValueError, match=r"^quantile: a q is not in \[0, 1\], and no integer is nan"):
                weft.eval(f(x, weft.array([0.5, q])))
        with pytest.raises(ValueError, match="^quantile: nothing to choose from"):
            weft.eval(f(x[:0], weft.array([0.5, 0.1])))


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
    "cov": (lambda x: (weft.cov(x), weft.cov(x, rowvar=False), weft.cov(x, x), weft.corrcoef(x)), [(3, 5)], [(4, 4)], [(1, 4)]),
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


# ---- What is another expression for other sizes: against NumPy, and bit by bit against the same of known sizes


def np_hadamard(x):
    h = np.ones((1, 1))
    while len(h) < x.shape[-1]:
        h = np.kron(h, [[1, 1], [1, -1]])
    return x @ h.T / np.sqrt(x.shape[-1])


def np_rope(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    u, v = x[..., :half], x[..., half:]
    return np.concatenate([u * np.cos(angle) - v * np.sin(angle), u * np.sin(angle) + v * np.cos(angle)], -1)


def np_conv(x, w, stride=1, padding=0, groups=1):
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    rows, columns = ((x.shape[k] - w.shape[k]) // stride + 1 for k in (1, 2))
    y = np.zeros((len(x), rows, columns, len(w)))
    for o in range(len(w)):
        first = o // (len(w) // groups) * w.shape[3]
        for i in range(rows):
            for j in range(columns):
                part = x[:, i * stride:i * stride + w.shape[1], j * stride:j * stride + w.shape[2], first:first + w.shape[3]]
                y[:, i, j, o] = (part * w[o]).sum((1, 2, 3))
    return y


def np_attention(q, k, v):
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


WRITTEN_LATER = {
    "hadamard": (weft.hadamard_transform, np_hadamard, [(3, 4)], [(2, 64)], [(0, 8)], [(5, 1)], [(2, 256)]),
    "rope": (weft.rope, np_rope, [(2, 3, 4)], [(1, 5, 8)], [(2, 0, 6)], [(3, 1, 2)]),
    "conv": (lambda x, w: weft.conv(x, w, 2, 1), lambda x, w: np_conv(x, w, 2, 1),
             [(2, 6, 7, 3), (4, 3, 3, 3)], [(1, 9, 8, 16), (2, 2, 4, 16)], [(0, 4, 4, 1), (1, 1, 1, 1)], [(1, 1, 1, 2), (3, 3, 2, 2)]),
    "conv in groups": (lambda x, w: weft.conv(x, w, groups=2), lambda x, w: np_conv(x, w, groups=2),
                       [(2, 6, 7, 4), (6, 3, 3, 2)], [(1, 5, 5, 2), (2, 2, 1, 1)], [(1, 9, 3, 32), (4, 3, 3, 16)]),
    "attention": (weft.attention, np_attention, [(2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)], [(1, 6, 2, 8), (1, 3, 4, 8), (1, 3, 4, 8)],
                  [(2, 3, 4, 2), (2, 3, 4, 2), (2, 3, 4, 2)]),
    "convolve": (lambda a, v: weft.convolve(a, v, "same"), lambda a, v: np.convolve(a, v, "same"), [(6,), (3,)], [(3,), (7,)], [(1,), (1,)]),
    "split": (lambda x: tuple(weft.split(x, 2, 1)), lambda x: np.split(x, 2, 1), [(3, 4)], [(2, 6)], [(2, 0)]),
    "array_split": (lambda x: tuple(weft.array_split(x, 3)), lambda x: np.array_split(x, 3), [(7,)], [(3,)], [(2,)], [(0,)]),
    "delete": (lambda x: (weft.delete(x, 1), weft.delete(x, -1), weft.delete(x, [0, -1, 0]), weft.delete(x, slice(None, None, 2))),
               lambda x: (np.delete(x, 1), np.delete(x, -1), np.delete(x, [0, -1, 0]), np.delete(x, slice(None, None, 2))), [(5,)], [(2, 3)]),
    "delete rows": (lambda x: weft.delete(x, 1, 0), lambda x: np.delete(x, 1, 0), [(5, 2)], [(2, 3)]),
    "delete the only row": (lambda x: weft.delete(x, 0, 0), lambda x: np.delete(x, 0, 0), [(1, 2)], [(1, 3)], [(2, 4)]),
    "insert": (lambda x: (weft.insert(x, 1, 5.0), weft.insert(x, -1, [1.0, 2.0]), weft.insert(x, [2, 0, -1], 7.0)),
               lambda x: (np.insert(x, 1, 5.0), np.insert(x, -1, [1.0, 2.0]), np.insert(x, [2, 0, -1], 7.0)), [(5,)], [(2, 3)], [(3,)]),
    "insert rows": (lambda x, v: weft.insert(x, 1, v, 0), lambda x, v: np.insert(x, 1, v, 0), [(5, 2), (2,)], [(2, 3), (3,)], [(1, 4), (4,)]),
    "delete and insert in a map": (lambda x: weft.vmap(lambda row: weft.insert(weft.delete(row, 1), -1, 2.0))(x),
                                   lambda x: np.insert(np.delete(x, 1, 1), -1, 2.0, 1), [(5, 2)], [(2, 3)], [(3, 7)]),
    "histogramdd": (lambda x: weft.histogramdd(x, 3, [[-2, 2], [-2, 2]])[0], lambda x: np.histogramdd(x, 3, [[-2, 2], [-2, 2]])[0],
                    [(9, 2)], [(1, 2)], [(0, 2)]),
}


@pytest.mark.parametrize("name", WRITTEN_LATER)
def test_what_is_written_when_sizes_are_known(name, rng):
    f, wanted, *calls = WRITTEN_LATER[name]
    of_any = weft.compile(f, shapes="any")
    for shapes in calls:
        x = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        got, known, want = of_any(*map(weft.array, x)), f(*map(weft.array, x)), wanted(*x)
        for a, b, c in zip(*(y if isinstance(y, (tuple, list)) else [y] for y in (got, known, want)), strict=True):
            assert a.shape == b.shape == c.shape and a.dtype == b.dtype
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
            np.testing.assert_allclose(np.asarray(a), c, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["hadamard", "rope", "conv", "attention", "convolve"])
def test_derivatives_of_what_is_written_when_sizes_are_known(name, rng):
    f, wanted, *calls = WRITTEN_LATER[name]
    loss = lambda *x: weft.sum(weft.cos(f(*(weft.sin(y) for y in x))))
    slope = lambda *x: weft.grad(loss, tuple(range(len(x))))(*x)
    of_any = weft.compile(slope, shapes="any")
    for shapes in calls:
        x = [rng.standard_normal(s) for s in shapes]
        slopes = of_any(*(weft.array(y) for y in x))
        for k, d in enumerate(slopes if isinstance(slopes, (tuple, list)) else [slopes]):
            step = rng.standard_normal(x[k].shape)
            at = lambda h: np.cos(wanted(*(np.sin(y + h * step) if i == k else np.sin(y) for i, y in enumerate(x)))).sum()
            difference = (at(1e-5) - at(-1e-5)) / 2e-5
            np.testing.assert_allclose((np.asarray(d) * step).sum(), difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "mxfp8", "nvfp4"])
def test_codes_of_any_size(mode, rng):
    codes = lambda w: weft.quantize(w, mode=mode)
    back = lambda w: weft.dequantize(*codes(w), mode=mode)
    product = lambda x, w: weft.quantized_matmul(x, *codes(w), mode=mode)
    open_codes, open_back, open_product = (weft.compile(f, shapes="any") for f in (codes, back, product))
    for m, n in (4, 64), (3, 192), (0, 64), (2, 0), (7, 128):
        w, x = (weft.array(rng.standard_normal(s).astype(np.float32)) for s in ((m, n), (5, n)))
        for a, b in zip(open_codes(w), codes(w), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        np.testing.assert_array_equal(np.asarray(open_back(w)), np.asarray(back(w)))
        np.testing.assert_array_equal(np.asarray(open_product(x, w)), np.asarray(product(x, w)))
        np.testing.assert_allclose(np.asarray(open_product(x, w)), np.asarray(x) @ np.asarray(back(w)).T, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"quantize: the last axis of \[2,40\] in parts of"):
        weft.eval(open_codes(weft.ones((2, 40))))


def test_what_has_no_size_says_so():
    x = weft.ones((3, 4))
    for f, text in ((weft.unstack, "unstack: how many arrays"), (weft.squeeze, "squeeze: which axes"),
                    (lambda x: weft.histogramdd(x, 3), "histogramdd: how many columns"), (lambda x: weft.insert(x, slice(2), 1.0), "insert: before")):
        with pytest.raises((ValueError, weft.NoValueError), match=text):
            weft.compile(f, shapes="any")(x)
    with pytest.raises(AssertionError, match="insert: index 4 is outside"):
        weft.eval(weft.compile(lambda x: weft.insert(x, 4, 1.0), shapes="any")(weft.ones((3,))))
    with pytest.raises(ValueError, match="split: axis 0 of"):
        weft.eval(weft.compile(lambda x: weft.split(x, 2), shapes="any")(x))


MANY_AXES = {
    "flattened": lambda x: x.reshape(-1), "joined": lambda x: weft.concatenate([x, x], 2), "padded": lambda x: weft.pad(x, 1),
    "repeated": lambda x: weft.repeat(x, 2, 1), "largest": lambda x: x.argmax(), "ordered": lambda x: weft.unique(x),
    "drawn": lambda x: weft.random.normal(weft.random.key(1), like=x), "put": lambda x: x.at[0].add(1), "rolled": lambda x: weft.roll(x, 1),
    "summed": lambda x: weft.grad(lambda x: (weft.cumsum(x) * x.reshape(-1)).mean())(x),
}


@pytest.mark.parametrize("name", MANY_AXES)
def test_the_number_of_elements_of_many_open_axes(name):
    """It is a product of more factors than are written out."""
    f = MANY_AXES[name]
    any_size = weft.compile(f, shapes="any")
    for shape in ((2,) * 8, (1, 2, 3, 1, 2, 1, 3, 2)):
        x = weft.arange(2.0 * np.prod(shape)).reshape(2, -1)[1].reshape(shape) / 7
        assert np.array_equal(np.asarray(any_size(x)), np.asarray(f(x)))
