"""Families of functions against NumPy: dtypes, special values, axes, empty and 0-d arrays; gradients, maps, unknown sizes."""
import numpy as np
import pytest
import weft

nan, inf = np.nan, np.inf
FLOATS = (np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)


def same(got, expected, rtol=1e-6, atol=0):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    if got.dtype.kind in "fc":
        rtol = max(rtol, {2: 2e-3, 4: 2e-6}.get(got.dtype.itemsize, 0)) if got.dtype.kind == "f" else rtol
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)


def open_too(function, *arrays, rtol=1e-6, atol=0):
    """The same of a function that was compiled for any sizes."""
    same(weft.compile(function, shapes="any")(*[weft.array(a) for a in arrays]), function(*[weft.array(a) for a in arrays]), rtol, atol)


def slopes(f, x, h=1e-6):
    """Differences of NumPy's function, summed with weights."""
    weights = np.cos(np.arange(np.size(f(x)))).reshape(np.shape(f(x)))
    d = np.zeros(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        step = step.reshape(x.shape)
        d[i] = ((f(x + step) - f(x - step)) * weights).sum() / (2 * h)
    return d.reshape(x.shape)


def differentiates(mine, theirs, x, rtol=1e-5, atol=1e-6):
    """Reverse and forward mode, and a map over rows."""
    x = np.asarray(x, np.float64)
    y = mine(weft.array(x))
    weights = weft.array(np.cos(np.arange(np.asarray(y).size)).reshape(np.shape(y)))
    expected = slopes(theirs, x)
    dx = weft.grad(lambda v: (mine(v) * weights).sum())(weft.array(x))
    np.testing.assert_allclose(np.asarray(dx), expected, rtol, atol)
    v = np.sin(np.arange(x.size)).reshape(x.shape)
    dy = weft.jvp(mine, (weft.array(x),), (weft.array(v),))[1]
    dy = dy[0] if isinstance(dy, (list, tuple)) else dy
    np.testing.assert_allclose(float((dy * weights).sum()), (expected * v).sum(), rtol, atol)
    rows = np.stack([x, x * 0.9, x + 0.01])
    np.testing.assert_allclose(np.asarray(weft.vmap(mine)(weft.array(rows))), np.stack([np.asarray(mine(weft.array(r))) for r in rows]), rtol=1e-12)


# ---- without nan

HOLES = np.array([[1, nan, -2, 0.5], [nan, nan, nan, nan], [inf, nan, -inf, 0], [-0.0, 0.0, nan, 3], [nan, -inf, nan, -inf]])
NAN_FUNCTIONS = ("nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAN_FUNCTIONS)
@pytest.mark.parametrize("dtype", FLOATS + (np.float16,))
def test_nan_is_left_out(name, dtype):
    x = HOLES.astype(dtype)
    for axis in (None, 0, 1, -1, (0, 1)):
        for keepdims in (False, True):
            same(getattr(weft, name)(weft.array(x), axis, keepdims), getattr(np, name)(x, axis, keepdims=keepdims))
    same(getattr(weft, name)(weft.array(x[0, 1])), getattr(np, name)(x[0, 1]))
    open_too(lambda v: getattr(weft, name)(v, axis=1), x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAN_FUNCTIONS)
def test_nan_functions_of_other_dtypes_and_derivatives(name, rng):
    for dtype in (np.int32, np.uint8, np.bool_):
        x = rng.integers(0, 2, (3, 4)).astype(dtype)
        if not (dtype == np.bool_ and name in ("nanmax", "nanmin")):
            same(getattr(weft, name)(weft.array(x), 1), getattr(np, name)(x, axis=1))
    x = rng.standard_normal((3, 4))
    x[0, 1] = x[2, 3] = nan
    dx = np.asarray(weft.grad(lambda v: getattr(weft, name)(v, 1).sum())(weft.array(x)))
    assert (dx[np.isnan(x)] == 0).all(), "a nan has no part in it"
    h = 1e-6
    for i in np.ndindex(3, 4):
        if not np.isnan(x[i]):
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            d = (getattr(np, name)(up, axis=1) - getattr(np, name)(down, axis=1)).sum() / (2 * h)
            np.testing.assert_allclose(dx[i], d, rtol=1e-5, atol=1e-7)


def test_nan_of_nothing_and_of_complex_numbers():
    empty = np.zeros((0, 3))
    same(weft.nansum(empty, 0), np.zeros(3))
    same(weft.nanprod(empty, 0), np.ones(3))
    z = np.array([1 + 2j, complex(nan, 1), 3 - 1j])
    same(weft.nansum(z), np.nansum(z))
    same(weft.nanmean(z), np.nanmean(z))
    same(weft.nanvar(z), np.nanvar(z))
    with pytest.raises(TypeError, match="nanmax"):
        weft.nanmax(z)
    with pytest.raises(ValueError, match="there is no axis 2"):
        weft.nansum(np.zeros((2, 2)), 2)
    same(weft.nanvar([1.0, nan, 5.0], ddof=2), nan)
    same(weft.nanvar([1.0, nan, 5.0], ddof=1), 8.0)


def test_places_of_extrema_without_nan():
    rows = HOLES[[0, 2, 3]]
    for name in ("nanargmax", "nanargmin"):
        same(getattr(weft, name)(rows, 1), getattr(np, name)(rows, 1))
        same(getattr(weft, name)(rows), getattr(np, name)(rows))
    assert weft.nanargmax(HOLES[1]).item() == -1 == weft.nanargmin(HOLES[1]).item()
    assert weft.nanargmin([3, 1, 1]).item() == 1
    assert weft.nanargmax(HOLES[4]).item() == 1, "not the nan, which NumPy takes for -inf"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_running_without_nan(name):
    same(getattr(weft, name)(HOLES, 1), getattr(np, name)(HOLES, 1))
    same(getattr(weft, name)(HOLES[:, :2]), getattr(np, name)(HOLES[:, :2]))


def test_numbers_instead_of_nan():
    x = np.array([nan, inf, -inf, -0.0, 1.5])
    for dtype in FLOATS + (np.float16,):
        same(weft.nan_to_num(x.astype(dtype)), np.nan_to_num(x.astype(dtype)))
        same(weft.nan_to_num(x.astype(dtype), 2, 3, -4), np.nan_to_num(x.astype(dtype), nan=2, posinf=3, neginf=-4))
    assert np.signbit(np.asarray(weft.nan_to_num(x)))[3]
    assert weft.nan_to_num(weft.array([3, 4])).dtype == weft.int32 and weft.nan_to_num(weft.array([True])).tolist() == [True]
    z = np.array([complex(nan, inf), 1 + 2j])
    same(weft.nan_to_num(z), np.nan_to_num(z))
    same(weft.grad(lambda v: weft.nan_to_num(v).sum())(weft.array(x)), [0, 0, 0, 1, 1])
    assert weft.nan_to_num(np.zeros((0, 2))).shape == (0, 2) and weft.nan_to_num(weft.array(nan)).item() == 0


# ---- running

@pytest.mark.parametrize("name, accumulate", [("cumsum", np.add), ("cumprod", np.multiply), ("cummax", np.maximum), ("cummin", np.minimum), ("logcumsumexp", np.logaddexp)])
def test_running_backwards_and_before(name, accumulate, rng):
    f = getattr(weft, name)
    for x in (rng.standard_normal((3, 5)), rng.standard_normal((3, 1)), rng.standard_normal((2, 0)), rng.integers(-5, 5, (4, 2)).astype(np.int32)):
        if name == "logcumsumexp":
            x = x.astype(np.float64)
        for axis in (0, 1, -2):
            forth = accumulate.accumulate(x, axis) if x.size else x
            same(f(x, axis), forth, atol=1e-14)
            back = np.flip(accumulate.accumulate(np.flip(x, axis), axis), axis) if x.size else x
            same(f(x, axis, reverse=True), back, atol=1e-14)
            if x.dtype.kind == "f":
                none = {"cumsum": 0, "cumprod": 1, "cummax": -inf, "cummin": inf, "logcumsumexp": -inf}[name]
            else:
                none = {"cumsum": 0, "cumprod": 1, "cummax": -2**31, "cummin": 2**31 - 1}[name]
            first = np.full_like(np.take(x, [], axis) if not x.size else np.take(x, [0], axis), none)
            same(f(x, axis, inclusive=False), np.concatenate([first, np.delete(forth, -1, axis)] if x.size else [forth], axis), atol=1e-14)
            same(f(x, axis, inclusive=False, reverse=True), np.concatenate([np.delete(back, 0, axis), first] if x.size else [back], axis), atol=1e-14)
    open_too(lambda v: f(v, 1, inclusive=False), rng.standard_normal((2, 4)))
    open_too(lambda v: f(v, 1, inclusive=False, reverse=True), rng.standard_normal((2, 3)).astype(np.float32))
    same(weft.compile(lambda v: f(v, 0, inclusive=False), shapes=[(None,)])(weft.array(np.zeros(0))), np.zeros(0))


@pytest.mark.filterwarnings("ignore")
def test_logarithms_of_running_sums(rng):
    for x in ([-inf, -inf, 3.0], [inf, 1.0, -inf], [nan, 1.0], [1000.0, 1000.0], [-1000.0, 0.0, 1000.0]):
        same(weft.logcumsumexp(np.array(x)), np.logaddexp.accumulate(x))
    assert weft.logcumsumexp(weft.array([1, 2])).dtype == weft.float32 and weft.logcumsumexp(weft.array([1.0]).astype(weft.float16)).dtype == weft.float16
    assert weft.cummax(weft.array([False, True]), inclusive=False).tolist() == [False, False]
    assert weft.cummin(weft.array([False, True]), inclusive=False).tolist() == [True, False]
    differentiates(lambda v: weft.logcumsumexp(v, 0), lambda v: np.logaddexp.accumulate(v, 0), rng.standard_normal((4, 2)))
    differentiates(lambda v: weft.cumsum(v, 0, inclusive=False), lambda v: np.cumsum(v, 0) - v, rng.standard_normal(5))
    assert np.asarray(weft.grad(lambda v: weft.logcumsumexp(v)[-1])(weft.array([-inf, 1.0, 2.0]))).sum() == pytest.approx(1)
    with pytest.raises(TypeError, match="logcumsumexp"):
        weft.logcumsumexp(np.array([1j]))
    with pytest.raises(ValueError, match="no axis"):
        weft.logcumsumexp(np.zeros(3), 1)


# ---- values at points

def test_differences(rng):
    for dtype in FLOATS + (np.int32, np.uint8, np.bool_, np.complex64, np.float16):
        x = rng.integers(0, 2 if dtype == np.bool_ else 9, (3, 4)).astype(dtype)
        for n in (0, 1, 2, 3, 5):
            for axis in (0, 1, -1):
                same(weft.diff(x, n, axis), np.diff(x, n, axis))
    x = rng.standard_normal((3, 4))
    for more in ({"prepend": 0}, {"append": 2.5}, {"prepend": np.ones((3, 2)), "append": 1}):
        same(weft.diff(x, **more), np.diff(x, **more))
    same(weft.diff(np.zeros((2, 0))), np.diff(np.zeros((2, 0))))
    same(weft.ediff1d(x), np.ediff1d(x))
    same(weft.ediff1d(x, -1, [3, 4]), np.ediff1d(x, -1, [3, 4]))
    same(weft.ediff1d(np.zeros(1)), np.ediff1d(np.zeros(1)))
    differentiates(lambda v: weft.diff(v, 2), lambda v: np.diff(v, 2), x)
    open_too(lambda v: weft.diff(v, 2, 0), x)
    for call, text in ((lambda: weft.diff(x, -1), "diff: -1 times"), (lambda: weft.diff(x, axis=2), "no axis 2"), (lambda: weft.diff(weft.array(1.0)), "no axis")):
        with pytest.raises(ValueError, match=text):
            call()


def test_integrals(rng):
    y, at = rng.standard_normal((3, 4)), np.sort(rng.standard_normal(4))
    same(weft.trapezoid(y), np.trapezoid(y))
    same(weft.trapezoid(y, dx=0.5, axis=0), np.trapezoid(y, dx=0.5, axis=0))
    same(weft.trapezoid(y, at), np.trapezoid(y, at))
    same(weft.trapezoid(y, at[:3], axis=0), np.trapezoid(y, at[:3], axis=0))
    same(weft.trapezoid(y, np.cumsum(y * y, 1)), np.trapezoid(y, np.cumsum(y * y, 1)))
    same(weft.trapezoid(np.arange(5)), np.trapezoid(np.arange(5)))
    same(weft.trapezoid(np.arange(5), np.arange(5)[::-1]), np.trapezoid(np.arange(5), np.arange(5)[::-1]))
    same(weft.trapezoid(y[:, :1]), np.trapezoid(y[:, :1]))
    same(weft.trapezoid(y.astype(np.float16) * 1000), np.trapezoid(y.astype(np.float16).astype(np.float64) * 1000))
    same(weft.trapezoid(y + 1j), np.trapezoid(y + 1j))
    differentiates(lambda v: weft.trapezoid(v, weft.array(at)), lambda v: np.trapezoid(v, at), y)
    differentiates(lambda v: weft.trapezoid(weft.array(y), v), lambda v: np.trapezoid(y, v), at)
    open_too(lambda v: weft.trapezoid(v, axis=0), y)
    with pytest.raises(ValueError, match=r"trapezoid: the points are \[3\], for axis 1 of \[3,4\]"):
        weft.trapezoid(y, np.zeros(3))


@pytest.mark.filterwarnings("ignore")
def test_lines_between_points(rng):
    xp, fp = np.array([-1.0, 0.0, 0.5, 3.0]), np.array([2.0, -1.0, 4.0, 4.0])
    x = np.array([[-5, -1, -0.5, 0], [0.25, 0.5, 3, 7], [nan, inf, -inf, 2.999]])
    for more in ({}, {"left": -9.0}, {"right": 8.0, "left": nan}, {"period": 2.5}, {"period": -0.7}):
        same(weft.interp(x, xp, fp, **more), np.interp(x, xp, fp, **more))
    same(weft.interp(x, xp[:1], fp[:1]), np.where(np.isnan(x), nan, fp[0]))
    same(weft.interp(0.25, xp, fp), np.interp(0.25, xp, fp))
    same(weft.interp(np.zeros((0, 2)), xp, fp), np.zeros((0, 2)))
    same(weft.interp(x, xp, fp + 1j), np.interp(x, xp, fp + 1j))
    same(weft.interp(np.arange(5), np.arange(5), np.arange(5) ** 2), np.arange(5) ** 2)
    same(weft.interp([0.5, 1.5], [0.0, 1, 2], [inf, inf, 1]), np.interp([0.5, 1.5], [0.0, 1, 2], [inf, inf, 1]))
    same(weft.interp([1.0, 1.5], [0.0, 1, 1, 2], [0.0, 1, 5, 6]), np.interp([1.0, 1.5], [0.0, 1, 1, 2], [0.0, 1, 5, 6]))
    inside = np.array([-0.7, 0.2, 1.1, 9.0, -3.0])
    differentiates(lambda v: weft.interp(v, weft.array(xp), weft.array(fp)), lambda v: np.interp(v, xp, fp), inside)
    differentiates(lambda v: weft.interp(weft.array(inside), weft.array(xp), v), lambda v: np.interp(inside, xp, v), fp)
    differentiates(lambda v: weft.interp(weft.array(inside), v, weft.array(fp)), lambda v: np.interp(inside, v, fp), xp)
    open_too(lambda v, a, b: weft.interp(v, a, b), x, xp, fp)
    for call, text in ((lambda: weft.interp(x, [], []), "interp: there are no points"), (lambda: weft.interp(x, xp, fp[:3]), "no two vectors"),
                       (lambda: weft.interp(x, xp[None], fp), "no two vectors"), (lambda: weft.interp(x, xp, fp, period=0), "the period is 0")):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sums_of_products_with_what_is_moved_along(name, rng):
    mine, theirs = getattr(weft, name), getattr(np, name)
    for dtype in (np.float64, np.float32, np.int32, np.complex128, np.uint8):
        for n in (1, 2, 3, 4, 7):
            for m in (1, 2, 3, 4, 7):
                a, v = (rng.integers(-4 if np.dtype(dtype).kind != "u" else 0, 5, k).astype(dtype) for k in (n, m))
                if dtype == np.complex128:
                    a, v = a + 1j * rng.standard_normal(n), v + 1j * rng.standard_normal(m)
                for mode in ("full", "same", "valid"):
                    same(mine(a, v, mode), theirs(a, v, mode), atol=1e-12)
    a, v = rng.standard_normal(6), rng.standard_normal(3)
    differentiates(lambda x: mine(x, weft.array(v), "same"), lambda x: theirs(x, v, "same"), a)
    differentiates(lambda x: mine(weft.array(a), x, "full"), lambda x: theirs(a, x, "full"), v)
    for mode in ("full", "valid"):
        got = weft.compile(lambda x: mine(x, weft.array(v), mode), shapes=[(None,)])(weft.array(a))
        same(got, theirs(a, v, mode))
    for call, text in ((lambda: mine(a, v, "odd"), f"{name}: the mode is 'full', 'same' or 'valid', not 'odd'"), (lambda: mine(a, []), f"{name}: a vector is empty"),
                       (lambda: mine(a, [[1.0]]), f"{name}: of two vectors")):
        with pytest.raises(ValueError, match=text):
            call()


# ---- whole numbers

@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_multiples_and_bits(dtype, rng):
    lo, hi = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.concatenate([rng.integers(lo, hi, 200, dtype=dtype, endpoint=True), np.array([0, 0, hi, lo, 1, hi], dtype)])
    b = np.concatenate([rng.integers(max(lo, -50), 50, 200).astype(dtype), np.array([0, 5, 0, 0, hi, hi - 1], dtype)])
    same(weft.gcd(a, b), np.gcd(a, b))
    same(weft.gcd(a, np.roll(a, 1)), np.gcd(a, np.roll(a, 1)))
    small = (a % 11).astype(dtype)
    same(weft.lcm(small, (b % 11).astype(dtype)), np.lcm(small, (b % 11).astype(dtype)))
    same(weft.bitwise_count(a), np.bitwise_count(a))
    assert weft.bitwise_count(a).dtype == weft.uint8 and weft.gcd(a, b).dtype == np.dtype(dtype).name


def test_whole_numbers_in_other_shapes():
    same(weft.gcd(np.arange(12).reshape(3, 4), np.array([[6], [4], [9]])), np.gcd(np.arange(12).reshape(3, 4), np.array([[6], [4], [9]])))
    assert weft.gcd(12, 18).item() == 6 and weft.lcm(4, weft.array([6, 10])).tolist() == [12, 20] and weft.gcd(np.zeros((0, 2), int), 3).shape == (0, 2)
    assert weft.gcd(weft.array([2**62], dtype="int64"), 2**61).tolist() == [2**61]
    fibonacci = [1, 1]
    while len(fibonacci) < 92:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])  # the longest way
    assert weft.gcd(np.array(fibonacci[1:]), np.array(fibonacci[:-1])).tolist() == [1] * 91
    same(weft.vmap(lambda x: weft.gcd(x, 12))(weft.array(np.arange(20).reshape(4, 5))), np.gcd(np.arange(20).reshape(4, 5), 12))
    open_too(lambda x: weft.lcm(x, 6), np.arange(1, 7))
    assert weft.bitwise_count(weft.array([True, False])).tolist() == [1, 0] and weft.bitwise_count(weft.array(-(2**63), dtype="int64")).item() == 1
    for f in (weft.gcd, weft.lcm):
        with pytest.raises(TypeError):
            f(1.5, 2)
    with pytest.raises(TypeError, match="bitwise_count"):
        weft.bitwise_count(1.5)
    q, r = weft.divmod(np.array([7, -7, 8]), 3)
    assert q.tolist() == [2, -3, 2] and r.tolist() == [1, 2, 2] and divmod(weft.array(7), 2)[0].item() == 3


# ---- arrangements

def test_turns(rng):
    x = rng.standard_normal((2, 3, 4))
    for k in range(-5, 6):
        for axes in ((0, 1), (1, 0), (2, 0), (-1, 1)):
            same(weft.rot90(x, k, axes), np.rot90(x, k, axes))
    differentiates(lambda v: weft.rot90(v, 1, (2, 1)), lambda v: np.rot90(v, 1, (2, 1)), x)
    open_too(lambda v: weft.rot90(v, 3, (0, 2)), x)
    for call, text in ((lambda: weft.rot90(x, 1, (0, 0)), "rot90"), (lambda: weft.rot90(x, 1, (0, 3)), "rot90"), (lambda: weft.rot90(x, 1, (0,)), "two axes"), (lambda: weft.rot90([1, 2]), "rot90")):
        with pytest.raises(ValueError, match=text):
            call()


def test_grids(rng):
    parts = [np.arange(3), rng.standard_normal(2), np.array(5.0), np.arange(4)[::-1]]
    for n in range(5):
        for indexing in ("xy", "ij"):
            for sparse in (False, True):
                got, expected = weft.meshgrid(*parts[:n], indexing=indexing, sparse=sparse), np.meshgrid(*parts[:n], indexing=indexing, sparse=sparse)
                assert len(got) == len(expected)
                for a, b in zip(got, expected):
                    same(a, b)
    assert [g.shape for g in weft.meshgrid(np.zeros(0), np.zeros(2))] == [(2, 0)] * 2
    differentiates(lambda v: weft.meshgrid(v, weft.ones(3))[0], lambda v: np.meshgrid(v, np.ones(3))[0], rng.standard_normal(4))
    open_too(lambda a, b: weft.meshgrid(a, b)[1], np.arange(3.0), np.arange(2.0))
    with pytest.raises(ValueError, match="meshgrid: the indexing"):
        weft.meshgrid([1], indexing="zz")


def test_kron(rng):
    for a, b in (((2, 3), (4, 1)), ((3,), (2,)), ((), (2, 2)), ((2, 2), (3,)), ((2, 1, 3), (2, 2)), ((0, 2), (3, 3))):
        x, y = rng.standard_normal(a), rng.standard_normal(b)
        same(weft.kron(x, y), np.kron(x, y))
    same(weft.kron(np.arange(3), np.arange(4) + 1j), np.kron(np.arange(3), np.arange(4) + 1j))
    y = rng.standard_normal((2, 2))
    differentiates(lambda v: weft.kron(v, weft.array(y)), lambda v: np.kron(v, y), rng.standard_normal((3, 2)))
    open_too(lambda a, b: weft.kron(a, b), rng.standard_normal((3, 2)), y)


def test_sameness():
    x = np.array([1.0, nan, inf, -inf, 1e-9])
    for a, b in ((x, x), (x, x[::-1]), (x, x + 1e-9), (np.array([1, 2]), np.array([1, 3])), (np.array([True]), np.array([True])), (x[:0], x[:0])):
        for equal_nan in (False, True):
            same(weft.isclose(a, b, equal_nan=equal_nan), np.isclose(a, b, equal_nan=equal_nan))
            assert weft.allclose(a, b, equal_nan=equal_nan).item() == np.allclose(a, b, equal_nan=equal_nan)
            assert weft.array_equal(a, b, equal_nan=equal_nan).item() == np.array_equal(a, b, equal_nan=equal_nan)
    assert not weft.array_equal(np.zeros((2, 3)), np.zeros((3, 2))).item() and not weft.array_equal(1, [1]).item()
    with pytest.raises(ValueError, match="allclose"):
        weft.allclose(np.zeros(2), np.zeros(3))


# ---- products

def test_products_of_chosen_matrices_and_parts(rng):
    a, b = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((6, 5, 2))
    i, j = rng.integers(0, 6, (4, 1)), rng.integers(-6, 6, (4, 2))
    flat = a.reshape(6, 4, 5)
    same(weft.gather_mm(a, b, i, j), flat[i] @ b[j])
    same(weft.gather_mm(a, b[0]), a @ b[0])
    same(weft.gather_mm(a[0, 0], b, None, j), a[0, 0] @ b[j])
    differentiates(lambda v: weft.gather_mm(v, weft.array(b), weft.array(i), weft.array(j)), lambda v: v.reshape(6, 4, 5)[i] @ b[j], a)
    with pytest.raises(IndexError):
        weft.eval(weft.gather_mm(a, b, [6]))
    with pytest.raises(TypeError, match="the places are integers"):
        weft.gather_mm(a, b, [0.5])
    with pytest.raises(ValueError, match="gather_mm: of matrices"):
        weft.gather_mm(a, b[0, 0])

    def blocks(mask, n, m, size):
        return np.kron(mask, np.ones((size, size)))[..., :n, :m]
    x, y = rng.standard_normal((2, 5, 7)), rng.standard_normal((7, 4))
    for size in (1, 2, 3, 8):
        masks = [rng.random((-(-n // size), -(-m // size))) < 0.6 for n, m in ((5, 4), (5, 7), (7, 4))]
        expected = (x * blocks(masks[1], 5, 7, size)) @ (y * blocks(masks[2], 7, 4, size)) * blocks(masks[0], 5, 4, size)
        same(weft.block_masked_mm(x, y, size, *masks), expected, atol=1e-12)
        same(weft.block_masked_mm(x, y, size, None, masks[1] * 0.5), (x * 0.5 * blocks(masks[1], 5, 7, size)) @ y, atol=1e-12)
    mask = np.array([[True, False]])
    differentiates(lambda v: weft.block_masked_mm(v, weft.array(y), 6, mask_lhs=weft.array(mask)), lambda v: (v * blocks(mask, 5, 7, 6)) @ y, x)
    for call, text in ((lambda: weft.block_masked_mm(x, y, 0), "blocks of 0"), (lambda: weft.block_masked_mm(x, y, 2, masks[0]), "in the mask"),
                       (lambda: weft.block_masked_mm(x, y, 2, None, [True]), "a mask of 1 axes")):
        with pytest.raises(ValueError, match=text):
            call()

    segments = np.array([[[0, 2], [2, 2]], [[1, 7], [0, 7]]])
    theirs = lambda v: np.stack([[v[:, i:j] @ y[i:j] for i, j in row] for row in segments])
    same(weft.segmented_mm(x[0], y, segments), theirs(x[0]), atol=1e-12)
    differentiates(lambda v: weft.segmented_mm(v, weft.array(y), weft.array(segments)), theirs, x[0])
    holes = y.copy()
    holes[0] = nan
    assert not np.isnan(np.asarray(weft.segmented_mm(x[0], holes, [[1, 7]]))).any()
    with pytest.raises(ValueError, match="segmented_mm: the segments"):
        weft.segmented_mm(x[0], y, [[0.0, 1.0]])
    for ends in ([0, 8], [9, 12], [-1, 7], [2, -3]):
        for call in (weft.segmented_mm, weft.compile(weft.segmented_mm, shapes="any")):
            with pytest.raises(IndexError, match="^segmented_mm: a segment begins or ends outside of the inner axis"):
                weft.eval(call(weft.array(x[0]), weft.array(y), weft.array([[0, 2], ends])))
    assert not np.asarray(weft.segmented_mm(x[0], y, [[5, 2]])).any()


def test_powers_inner_products_and_signs(rng):
    x = rng.standard_normal((2, 3, 3))
    for n in (0, 1, 2, 3, 7, 8, -1, -2, -5):
        same(weft.matrix_power(x, n), np.linalg.matrix_power(x, n), rtol=1e-10)
    same(weft.matrix_power(np.array([[1, 1], [1, 0]]), 30), np.linalg.matrix_power(np.array([[1, 1], [1, 0]]), 30))
    differentiates(lambda v: weft.matrix_power(v, 3), lambda v: np.linalg.matrix_power(v, 3), x)
    open_too(lambda v: weft.matrix_power(v, 3), x)
    open_too(lambda v: weft.matrix_power(v, 0), x)
    differentiates(lambda v: weft.matrix_power(v, -2), lambda v: np.linalg.matrix_power(v, -2), x)
    open_too(lambda v: weft.matrix_power(v, -2), x)
    same(weft.matrix_power(np.array([[1, 1], [1, 0]]), -3), np.linalg.matrix_power(np.array([[1, 1], [1, 0]]), -3))
    with pytest.raises(ValueError, match="matrix_power: a square matrix, not"):
        weft.matrix_power(np.zeros((2, 3)), 2)
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 5, 3)), ((), (2, 2)), ((2,), ())):
        u, v = rng.standard_normal(a), rng.standard_normal(b)
        same(weft.inner(u, v), np.inner(u, v))
    with pytest.raises(ValueError, match=r"inner: the last axes differ: \[2\] and \[3\]"):
        weft.inner(np.zeros(2), np.zeros(3))
    same(weft.addmm(np.ones(3), x[0], x[1], 0.5, -2), -2 + 0.5 * x[0] @ x[1])

    def signs(n):
        return np.ones((1, 1)) if n == 1 else np.kron([[1, 1], [1, -1]], signs(n // 2))
    for n in (1, 2, 8, 64, 128, 1024):
        y = rng.standard_normal((3, n))
        same(weft.hadamard_transform(y), y @ signs(n) / np.sqrt(n), atol=1e-12)
        same(weft.hadamard_transform(weft.hadamard_transform(y)), y, atol=1e-12)
    same(weft.hadamard_transform(y[0].astype(np.float16), 1.0 / 1024), (y[0].astype(np.float16).astype(float) @ signs(n)) / 1024, atol=1e-3)
    for m in (12, 20, 28):
        h = np.asarray(weft.hadamard_transform(np.eye(m), 1.0)).T
        np.testing.assert_array_equal(h @ h.T, m * np.eye(m))
        assert set(np.unique(h)) == {-1, 1} and (h[0, 0], h[0, 1], h[m - 1, m - 1]) == (1, -1, -1 if m == 12 else 1)
        for k in (2, 4, 128):
            y = rng.standard_normal((2, m * k))
            same(weft.hadamard_transform(y, 1.0), y @ np.kron(h, signs(k)).T, atol=1e-11)
    differentiates(lambda v: weft.hadamard_transform(v), lambda v: v @ signs(8) / np.sqrt(8), rng.standard_normal((2, 8)))
    with pytest.raises(ValueError, match="hadamard_transform: the last axis is 3, not m 2"):
        weft.hadamard_transform(np.zeros(3))


# ---- windows, other sizes, edges

def pool(x, fold, size, stride, padding, dilation, none, counts=True):
    """By hand, a place at a time."""
    n = x.ndim - 2
    size, stride, dilation = ([v] * n if isinstance(v, int) else v for v in (size, stride if stride is not None else size, dilation))
    padding = [(p, p) if isinstance(p, int) else p for p in ([padding] * n if isinstance(padding, int) else padding)]
    whole = np.pad(x.astype(float), [(0, 0), *padding, (0, 0)], constant_values=none)
    out = [(whole.shape[k + 1] - (size[k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(n)]
    y = np.zeros([x.shape[0], *out, x.shape[-1]])
    for at in np.ndindex(*out):
        cut = (slice(None), *[slice(at[k] * stride[k], at[k] * stride[k] + (size[k] - 1) * dilation[k] + 1, dilation[k]) for k in range(n)])
        y[(slice(None), *at)] = fold(whole[cut], tuple(range(1, n + 1)))
    return y


POOLS = [((2, 7, 3), 2, None, 0, 1), ((2, 7, 3), 3, 1, 1, 2), ((1, 5, 6, 2), (2, 3), (1, 2), (1, (0, 2)), 1), ((1, 4, 5, 4, 1), 2, 1, 0, 1), ((1, 3, 3, 1), 3, 1, 1, 1)]


@pytest.mark.parametrize("case", POOLS)
def test_pooling(case, rng):
    shape, size, stride, padding, dilation = case
    x = rng.standard_normal(shape)
    same(weft.max_pool(x, size, stride, padding, dilation), pool(x, np.max, size, stride, padding, dilation, -inf))
    same(weft.mean_pool(x, size, stride, padding, dilation), pool(x, np.mean, size, stride, padding, dilation, 0), atol=1e-14)
    alone = pool(x, np.nanmean, size, stride, padding, dilation, nan)
    same(weft.mean_pool(x, size, stride, padding, dilation, count_include_pad=False), alone, atol=1e-14)
    whole = rng.integers(-9, 9, shape).astype(np.int32)
    got = weft.max_pool(whole, size, stride, padding, dilation)
    assert got.dtype == weft.int32
    same(got, pool(whole, np.max, size, stride, padding, dilation, -inf))
    differentiates(lambda v: weft.max_pool(v, size, stride, padding, dilation), lambda v: pool(v, np.max, size, stride, padding, dilation, -inf), x)
    differentiates(lambda v: weft.mean_pool(v, size, stride, padding, dilation), lambda v: pool(v, np.mean, size, stride, padding, dilation, 0), x)
    holes = x.copy()
    holes[0, 1] = nan
    with np.errstate(all="ignore"):
        same(weft.max_pool(holes, size, stride, padding, dilation), pool(holes, np.max, size, stride, padding, dilation, -inf))


def test_what_cannot_be_pooled():
    x = weft.zeros((1, 4, 1))
    for call, text in ((lambda: weft.max_pool(x, 5), "max_pool: on axis 1 a window of 5 is longer"), (lambda: weft.mean_pool(x, 0), "mean_pool: size 0"),
                       (lambda: weft.max_pool(x, (2, 2)), "max_pool: the size is one number, or one for each of 1 axes"), (lambda: weft.max_pool(weft.zeros((2, 2)), 1), r"max_pool: x is \[N, s.., C\]")):
        with pytest.raises(ValueError, match=text):
            call()
    open_too(lambda v: weft.max_pool(v, 2, 1), np.random.default_rng(0).standard_normal((2, 5, 3)))
    assert weft.mean_pool(weft.ones((1, 2, 1)).astype(weft.float16), 2).dtype == weft.float16


def resized(x, scale, mode, aligned):
    """One axis, in plain Python."""
    n = len(x)
    m = int(scale * n)
    y = np.zeros((m,) + x.shape[1:])
    inside = lambda i: x[min(max(int(i), 0), n - 1)]
    for k in range(m):
        if mode == "nearest":
            y[k] = inside(np.round((k + 0.5) * n / m - 0.5) if m > n else k * n // m)
            continue
        p = k * (n - 1) / max(m - 1, 1) if aligned else k / scale - ((m - 1) / scale - n + 1) / 2
        if mode == "linear":
            p = min(max(p, 0), n - 1)
            low = np.floor(p)
            y[k] = inside(low) * (1 - (p - low)) + inside(np.ceil(p)) * (p - low)
        else:
            low, a = np.floor(p), -0.75
            for i in range(-1, 3):
                t = abs(p - low - i)
                w = (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
                y[k] += w * inside(low + i)
    return y


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_sizes(mode, rng):
    x = rng.standard_normal((6, 4))
    for scale in (1, 2, 3, 0.5, 1.7, 2.5, 0.34):
        for aligned in (False, True):
            same(weft.resize(x, scale, 0, mode, aligned), resized(x, scale, mode, aligned), atol=1e-12)
    both = resized(resized(x, 2, mode, False).T, 2, mode, False).T
    same(weft.resize(x, 2, (0, 1), mode), both, atol=1e-12)
    same(weft.resize(x[:1], 3, 0, mode, True), resized(x[:1], 3, mode, True), atol=1e-12)
    differentiates(lambda v: weft.resize(v, 2.5, 0, mode), lambda v: resized(v, 2.5, mode, False), x)
    open_too(lambda v: weft.resize(v, 2, 0, mode), x, atol=1e-12)
    assert weft.resize(x.astype(np.float16), 2, 0, mode).dtype == weft.float16 and weft.resize(np.zeros((0, 2)), 2, 0, mode).shape == (0, 2)
    for call, text in ((lambda: weft.resize(x, 0, 0, mode), "resize: by 0"), (lambda: weft.resize(x, nan, 0, mode), "resize: by"), (lambda: weft.resize(x, 2, 0, "odd"), "resize: the mode"),
                       (lambda: weft.resize(x, 2, 2, mode), "no axis 2")):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean"])
def test_edges(mode, rng):
    for dtype in (np.float64, np.float32, np.int32, np.uint8):
        for shape, width in (((3, 4), ((1, 2), (3, 0))), ((5,), 3), ((2,), (7, 5)), ((1, 3), (2, 9)), ((3, 1), [(1, 1)]), ((2, 3, 2), 1)):
            x = (rng.standard_normal(shape) * 9 if np.dtype(dtype).kind == "f" else rng.integers(0, 99, shape)).astype(dtype)
            more = {"end_values": 7} if mode == "linear_ramp" else {}
            same(weft.pad(x, width, mode, **more), np.pad(x, width, mode, **more), atol=1e-6 if dtype == np.float32 else 1e-12)
    x = rng.standard_normal((3, 4))
    differentiates(lambda v: weft.pad(v, 2, mode), lambda v: np.pad(v, 2, mode), x)
    open_too(lambda v: weft.pad(v, ((2, 3), (1, 0)), mode), x, atol=1e-12)
    with pytest.raises(ValueError, match="is empty"):
        weft.pad(np.zeros((0, 2)), ((1, 1), (0, 0)), mode)
    with pytest.raises(ValueError, match="negative"):
        weft.pad(x, -1, mode)


# ---- masks and places

def test_exponentials_of_what_counts(rng):
    x, mask = rng.standard_normal((4, 5)), rng.random((4, 5)) < 0.5
    mask[1], mask[2] = False, True
    e = np.where(mask, np.exp(x), 0)
    with np.errstate(all="ignore"):
        p = np.where(mask, e / e.sum(1, keepdims=True), 0)
        same(weft.softmax(x, 1, where=mask), p)
        same(weft.log_softmax(x, 1, where=mask), np.where(mask, np.log(p), -inf))
        same(weft.logsumexp(x, 1, where=mask), np.log(e.sum(1)))
        same(weft.logsumexp(x, where=mask, keepdims=True), np.log(e.sum(keepdims=True)))
    same(weft.softmax(x, 0, where=mask[:, :1]), np.where(mask[:, :1], np.exp(x) / np.where(mask[:, :1], np.exp(x), 0).sum(0), 0))
    slope = np.asarray(weft.grad(lambda v: (weft.softmax(v, 1, where=weft.array(mask)) * weft.array(np.cos(x))).sum())(weft.array(x)))
    expected = p * (np.cos(x) - (p * np.cos(x)).sum(1, keepdims=True))
    np.testing.assert_allclose(slope, expected, atol=1e-12)
    over_all = e / e.sum()
    same(weft.softmax(x, where=mask), over_all)
    same(weft.log_softmax(x, (1, 0), where=mask[:, :1]), np.where(mask[:, :1], x - np.log(np.where(mask[:, :1], np.exp(x), 0).sum()), -inf))
    same(weft.logsumexp(x, (0, -1), True, where=mask), np.log(e.sum(keepdims=True)))
    slope = weft.grad(lambda v: (weft.softmax(v, where=weft.array(mask)) * weft.array(np.cos(x))).sum())(weft.array(x))
    np.testing.assert_allclose(np.asarray(slope), over_all * (np.cos(x) - (over_all * np.cos(x)).sum()), atol=1e-12)
    none = weft.zeros((4, 5), weft.bool_)
    assert not np.asarray(weft.softmax(x, where=none)).any() and weft.logsumexp(x, (0, 1), where=none).item() == -inf
    assert not np.asarray(weft.grad(lambda v: weft.softmax(v, where=none).sum())(weft.array(x))).any()
    with pytest.raises(ValueError):
        weft.softmax(x, 1, where=np.ones(3, bool))


def test_rotary_positions(rng):
    def turned(x, dims=None, traditional=False, base=10000.0, scale=1.0, offset=0, freqs=None):
        dims = dims or x.shape[-1]
        half = dims // 2
        speed = 1 / np.asarray(freqs) if freqs is not None else base ** (-np.arange(half) / half)
        place = np.arange(x.shape[-2]) + np.reshape(offset, (-1,) + (1,) * (x.ndim - 2)) if np.ndim(offset) else np.arange(x.shape[-2]) + offset
        angle = (place * scale)[..., None] * speed
        y = x.copy()
        first, second = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, half), slice(half, dims))
        u, v = x[..., first], x[..., second]
        y[..., first], y[..., second] = u * np.cos(angle) - v * np.sin(angle), u * np.sin(angle) + v * np.cos(angle)
        return y
    x = rng.standard_normal((2, 3, 5, 8))
    for how in ({}, {"dims": 6}, {"traditional": True}, {"traditional": True, "dims": 4}, {"base": 100.0, "scale": 0.5}, {"offset": 7}, {"offset": np.array([3, 9])},
                {"freqs": np.array([1.0, 2.0, 5.0, 9.0])}):
        same(weft.rope(x, **how), turned(x, **how), rtol=2e-5, atol=2e-5)
    differentiates(lambda v: weft.rope(v, 6), lambda v: np.asarray(weft.rope(weft.array(v), 6)), x[0])
    assert weft.rope(x.astype(np.float16)).dtype == weft.float16
    same(weft.compile(lambda v: weft.rope(v), shapes=[(None, None, 8)])(weft.array(x[0])), weft.rope(x[0]))
    for call, text in ((lambda: weft.rope(x, 7), "rope: 7 elements of"), (lambda: weft.rope(x, 10), "rope: 10"), (lambda: weft.rope(x[0, 0, 0]), "rope: x is"), (lambda: weft.rope(x, freqs=[1.0]), "a period for each")):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="rope"):
        weft.rope(np.zeros((2, 2), int))


# ---- bytes

def test_bytes_as_other_dtypes(rng):
    dtypes = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128]
    raw = rng.integers(0, 256, (3, 64), dtype=np.uint8)
    raw[:, :32] = np.array([1.5, -0.0, 2**-24, 65504, np.inf, 2**-14, 3, 2**-15] * 2, np.float16).view(np.uint8)
    for one in dtypes:
        for two in dtypes:
            source = (raw & 1 if one == np.bool_ else raw & 0x3B).view(one)  # no pattern of a nan
            if two == np.bool_:
                source = (raw & 1).view(one)
            got = np.asarray(weft.view(source, np.dtype(two).name if two != np.bool_ else weft.bool_))
            expected = source.view(two)
            np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8), err_msg=f"{one} {two}")
    halves = np.arange(65536, dtype=np.uint16)
    finite = halves[(halves & 0x7C00) != 0x7C00]
    np.testing.assert_array_equal(np.asarray(weft.view(finite, weft.float16)), finite.view(np.float16))
    np.testing.assert_array_equal(np.asarray(weft.view(finite.view(np.float16), weft.uint16)), finite)
    infinite = np.array([inf, -inf, 1], np.float16)
    np.testing.assert_array_equal(np.asarray(weft.view(infinite, "uint16")), infinite.view(np.uint16))
    same(weft.vmap(lambda v: weft.view(v, weft.int32))(weft.array(np.ones((2, 3), np.float32))), np.ones((2, 3), np.float32).view(np.int32))
    open_too(lambda v: weft.view(v, weft.uint8), np.ones((2, 3), np.float32))
    assert weft.view(np.zeros((2, 0), np.float32), weft.uint8).shape == (2, 0) and weft.array(1.0).view(weft.uint32).item() == 0x3F800000
    with pytest.raises(ValueError, match="view: the last axis of .* of float32 is no whole number of float64|view: the last axis of .* is no whole number"):
        weft.view(np.zeros(3, np.float32), weft.float64)


@pytest.mark.parametrize("format, digits, bias, most", [("e4m3", 3, 7, 448.0), ("e5m2", 2, 15, 57344.0)])
def test_floats_of_8_bits(format, digits, bias, most, rng):
    codes = np.arange(256, dtype=np.uint8)
    values = np.asarray(weft.from_f8(codes, weft.float64, format))
    finite = codes[np.isfinite(values)]
    table = values[np.isfinite(values)]
    x = np.concatenate([rng.standard_normal(500) * 10.0 ** rng.uniform(-8, 3, 500), (table[:-1] + table[1:]) / 2, table]).astype(np.float32)
    x = x[np.abs(x) <= most]
    got = np.asarray(weft.to_f8(x, format))
    distance = np.abs(x[:, None].astype(float) - table[None])
    nearest = distance.min(1)
    np.testing.assert_array_equal(np.abs(values[got] - x), nearest)
    tie = (distance == nearest[:, None]).sum(1) > 1
    assert ((got[tie & (x != 0)] & 1) == 0).all() and (np.signbit(x) == (got > 127)).all()
    assert len(finite) == (254 if format == "e4m3" else 248)
    with pytest.raises(ValueError, match="to_f8: the format"):
        weft.to_f8(x, "e3m4")
