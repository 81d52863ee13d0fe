"""Functions that NumPy has, by NumPy's values: every name of weft._composed has at least one row."""
import numpy as np
import pytest
import weft
from weft import _composed

R = np.random.default_rng(7)
X, Y = R.standard_normal((3, 4)), R.standard_normal((3, 4))
Z = X + 1j * Y
V, W = R.standard_normal(7), R.standard_normal(3)
N, M = R.integers(-5, 6, (3, 4)), R.integers(0, 4, 9)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 1e-30, -1e30])
B = V > 0

ROWS = [
    ("angle", (X,)), ("angle", (Z,)), ("angle", (Z, True)), ("append", (X, Y)), ("append", (X, Y, 0)), ("append", ([], 1.0)),
    ("argwhere", (N,)), ("argwhere", (N > 100,)), ("array_equiv", (X, X)), ("array_equiv", (X, Y)), ("array_equiv", ([1, 1], 1)),
    ("array_equiv", (X, V)), ("array_split", (V, 3)), ("array_split", (X, [1, 3], 1)), ("array_split", (V, 9)), ("atleast_1d", (3.0,)),
    ("atleast_1d", (X, 2.0)), ("atleast_2d", (V,)), ("atleast_2d", (5,)), ("atleast_3d", (X,)), ("atleast_3d", (V,)), ("atleast_3d", (1,)),
    ("average", (X,)), ("average", (X, 1)), ("average", (X, 1, V[:4])), ("average", (X, None, Y * Y)), ("average", (X, 0, W * W)),
    ("bartlett", (9,)), ("bartlett", (0,)), ("blackman", (9,)), ("block", ([[X, Y], [Y, X]],)), ("block", ([V, W],)),
    ("block", ([[np.ones((2, 2)), np.zeros((2, 1))], [np.zeros((1, 2)), np.ones((1, 1))]],)), ("cbrt", (X,)), ("cbrt", (ODD,)),
    ("column_stack", ([V, V],)), ("column_stack", ([X, Y],)), ("compress", (B, V)), ("compress", ([True, False, True], X, 0)),
    ("corrcoef", (X,)), ("corrcoef", (X, Y)), ("corrcoef", (X, None, False)), ("cov", (X,)), ("cov", (V,)), ("cov", (X, Y, False)),
    ("cov", (X, None, True, True)), ("cross", (X[:, :3], Y[:, :3])), ("delete", (V, 2)), ("delete", (X, [0, -1], 1)),
    ("delete", (X, slice(0, 2), 0)), ("delete", (X, 3)), ("diag_indices", (4,)), ("diag_indices", (3, 3)), ("diagflat", (X,)),
    ("diagflat", (W, 1)), ("dsplit", (np.ones((2, 3, 4)), 2)), ("dstack", ([X, Y],)), ("dstack", ([V, V],)), ("extract", (X > 0, X)),
    ("fliplr", (X,)), ("flipud", (X,)), ("float_power", (X * X, 0.5)), ("float_power", ([1, 2], -2)), ("fmax", (ODD, 0.5)),
    ("fmax", (N, M[:4])), ("fmin", (ODD, np.nan)), ("fmin", (X, Y)), ("geomspace", (1, 1000, 7)), ("geomspace", (-8, -1, 4)),
    ("gradient", (V,)), ("gradient", (X,)), ("gradient", (V, 0.5)), ("gradient", (V, np.cumsum(np.abs(V) + 0.1))), ("gradient", (X, 2.0, 3.0)),
    ("hamming", (8,)), ("hanning", (7,)), ("hanning", (1,)), ("heaviside", (ODD, 0.5)), ("hsplit", (V[:6], 3)), ("hsplit", (X, [1])),
    ("hstack", ([V, W],)), ("hstack", ([X, Y],)), ("indices", ((2, 3),)), ("indices", ((2, 0),)), ("insert", (V, 2, 9.0)),
    ("insert", (V, [1, 3], [8.0, 9.0])), ("insert", (X, 1, 5.0, 1)), ("insert", (X, 1, V[:4], 0)), ("insert", (V, 1, W)),
    ("insert", (X, [0, 2], 7.0, 1)), ("insert", (V, -1, 4.0)), ("insert", (V, 7, 4.0)),
    ("intersect1d", (M, N)), ("iscomplex", (Z,)), ("isneginf", (ODD,)), ("isposinf", (ODD,)), ("isreal", (Z,)), ("kaiser", (9, 8.6)),
    ("ldexp", (X, N)), ("ldexp", (np.float32(1), 127)), ("lexsort", ((M[:7], V),)), ("lexsort", ((V, M[:7]),)), ("lexsort", ((N, N),)),
    ("logaddexp2", (X, Y)), ("logaddexp2", (-np.inf, -np.inf)), ("logspace", (0, 3, 7)), ("logspace", (0, 3, 4, False, 2.0)),
    ("matvec", (X, V[:4])), ("modf", (X * 3,)), ("modf", (ODD,)), ("nanpercentile", (np.where(X > 1, np.nan, X), 30.0)),
    ("ndim", (X,)), ("percentile", (X, 30.0)), ("percentile", (X, [10.0, 90.0], 1)), ("polyadd", (V, W)), ("polyder", (V,)),
    ("polyder", (V, 2)), ("polyint", (V,)), ("polyint", (V, 2, 3.0)), ("polymul", (V, W)), ("polysub", (W, V)), ("polyval", (W, X)),
    ("ptp", (X,)), ("ptp", (N, 1)), ("ravel_multi_index", (([1, 2], [3, 0]), (3, 4))), ("rint", (X * 4,)), ("rint", (ODD,)),
    ("rollaxis", (np.ones((2, 3, 4)), 2)), ("rollaxis", (np.ones((2, 3, 4)), 0, 3)), ("select", ([X > 1, X > 0], [X, Y])),
    ("select", ([X > 1, X > 0], [X, Y], 7.0)), ("setdiff1d", (N, M)), ("setxor1d", (M, N)), ("shape", (X,)),
    ("tril_indices", (4,)), ("tril_indices", (3, 1, 5)), ("trim_zeros", ([0, 0, 1, 0, 2, 0],)), ("trim_zeros", ([0, 1, 0], "f")),
    ("trim_zeros", ([0.0, 0.0],)), ("triu_indices", (4, -1)), ("triu_indices", (3, 0, 5)), ("union1d", (M, N)),
    ("unravel_index", ([7, 3], (3, 4))), ("unwrap", (V * 4,)), ("unwrap", (np.cumsum(X * 3, 1),)), ("vander", (W,)), ("vander", (W, 4, True)),
    ("vdot", (Z, Z)), ("vecmat", (W, X)), ("vsplit", (X, 3)), ("vstack", ([V, V],)), ("vstack", ([X, Y],)),
]
OWN = [n for n in dir(_composed) if not n.startswith("_") and callable(getattr(_composed, n))]


def close(got, want):
    if isinstance(want, (tuple, list)) and not isinstance(got, weft.array):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            close(g, w)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype.kind == want.dtype.kind or {got.dtype.kind, want.dtype.kind} <= set("iu")
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("at", range(len(ROWS)), ids=[f"{name}-{i}" for i, (name, _) in enumerate(ROWS)])
def test_values_are_numpys(at):
    name, args = ROWS[at]
    with np.errstate(all="ignore"):
        want = getattr(np, name)(*args)
    close(getattr(weft, name)(*args), want)


def test_every_function_has_a_row():
    assert set(OWN) - {name for name, _ in ROWS} == {"piecewise"}
    assert all(getattr(weft, name) is getattr(_composed, name) for name in OWN)


def test_pieces_of_a_function():
    conditions = [X < -0.5, X > 0.5]
    want = np.piecewise(X, conditions, [lambda x: -x, 2.0, lambda x: x * x])
    got = weft.piecewise(X, [weft.array(c) for c in conditions], [lambda x: -x, 2.0, lambda x: x * x])
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    with pytest.raises(ValueError, match="1 conditions and 3 functions"):
        weft.piecewise(X, [weft.array(X > 0)], [1, 2, 3])


def test_they_are_differentiated_and_compiled():
    x = weft.array(V.astype(np.float32))
    g = weft.grad(lambda x: weft.sum(weft.gradient(x) ** 2) + weft.polyval(weft.array([2.0, 1.0]), weft.average(x)))(x)
    step, at = 1e-3, V.astype(np.float64)
    def f(v): return (np.gradient(v) ** 2).sum() + np.polyval([2.0, 1.0], v.mean())
    want = [(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(7)]
    np.testing.assert_allclose(np.asarray(g), want, rtol=1e-3, atol=1e-4)
    close(weft.compile(weft.hstack)([x, x]), np.hstack([V, V]).astype(np.float32))


@pytest.mark.parametrize("call, error", [
    (lambda: weft.delete([1, 2], 5), IndexError), (lambda: weft.insert([1, 2], 9, 1), IndexError), (lambda: weft.array_split([1, 2], 0), ValueError),
    (lambda: weft.geomspace(-1, 1), ValueError), (lambda: weft.rollaxis(weft.ones(3), 2), weft.AxisError), (lambda: weft.select([X > 0], []), ValueError),
    (lambda: weft.gradient([1.0]), ValueError), (lambda: weft.gradient(X, 1.0, 2.0, 3.0), TypeError), (lambda: weft.average(X, 0, V), ValueError)])
def test_mistakes_are_named(call, error):
    with pytest.raises(error):
        call()


def test_huge_numbers_of_times_end_at_once():
    x = weft.array([1.0, 2.0, 3.0])
    assert weft.polyder(x, 10**18).shape == (0,) and weft.polyder(x, 3).shape == (0,) and weft.polyder(x, 2).tolist() == [2]
    assert weft.diff(x, 2**40).shape == (0,)
    for wrong in (lambda: weft.polyder(x, -1), lambda: weft.polyint(x, 10**18), lambda: weft.array_split(x, 10**18),
                  lambda: weft.vander(weft.ones((2, 2)), 3)):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises((ValueError, MemoryError)):
        weft.eval(weft.vander(x, 10**15))
    with pytest.raises(NotImplementedError, match="diff: 1000000000000 times along a size that is not known yet"):
        weft.compile(lambda y: weft.diff(y, 10**12), shapes="any")(x)
    assert weft.vander(weft.array([2, 3], dtype=weft.int32), 4).tolist() == [[8, 4, 2, 1], [27, 9, 3, 1]]
    assert weft.vander(x[:0], 3).shape == (0, 3) and weft.vander(x, 1).tolist() == [[1], [1], [1]]


@pytest.mark.parametrize("dtype, eps", [("float64", 1e-15), ("float32", 4e-7), ("float16", 6e-4), ("bfloat16", 5e-3),
                                        ("float8_e4m3fn", 7e-2), ("float8_e5m2", 0.13)])
def test_cube_roots_of_the_largest_and_the_least(dtype, eps):
    d = getattr(weft, dtype)
    most = float(weft.finfo(d).max)
    x = weft.array([most, -most, most / 3, float(weft.finfo(d).smallest_normal), 27.0, -0.125, 0.0, -0.0]).astype(d)
    x = weft.concatenate([x, weft.array([5e-324, 7e-320, -3e-310], dtype=d)]) if dtype == "float64" else x
    x = weft.concatenate([x, weft.array([1.5e-45, 7e-42, -3e-40], dtype=d)]) if dtype == "float32" else x
    wide = np.asarray(x.astype(weft.float64))
    got = np.asarray(weft.cbrt(x).astype(weft.float64))
    np.testing.assert_allclose(got, np.cbrt(wide), rtol=eps)
    assert (np.signbit(got) == np.signbit(wide)).all()


def test_powers_of_two_of_every_size_and_dtype():
    x, n = np.array([1.0, 1.5, -1.0, np.inf, 0.0, -0.0, 5e-324, 1e300, np.nan]), np.array([600, -600, 3, -5, 2000, 5000, 2097, -1900, 1])
    got = np.asarray(weft.ldexp(weft.array(x), weft.array(n)))
    np.testing.assert_array_equal(got, np.ldexp(x, n))
    assert (np.signbit(got) == np.signbit(np.ldexp(x, n))).all()
    for d in (weft.float32, weft.float16, weft.bfloat16, weft.float8_e5m2):
        y = weft.ldexp(weft.array([1.5, -3.0, 0.0]).astype(d), weft.array([3, -1, 4000]))
        assert y.dtype == d and y.tolist() == [12.0, -1.5, 0.0]
    for d in (weft.bool_, weft.int8, weft.uint8, weft.int16, weft.uint16, weft.int32, weft.uint32, weft.int64, weft.uint64):
        assert weft.ldexp(weft.array([1.5, 3.0]), weft.array([1, 0]).astype(d)).tolist() == [3.0, 3.0]
    assert weft.ldexp(weft.array([1.0, 0.0]), weft.array([2**64 - 1] * 2, dtype=weft.uint64)).tolist() == [np.inf, 0.0]
    with pytest.raises(TypeError, match="ldexp: powers of float32: integers"):
        weft.ldexp(weft.array([1.0]), weft.array([0.5]))


def test_functions_of_real_numbers_name_themselves():
    z = weft.array([1j])
    calls = {"cbrt": (z,), "ldexp": (z, 1), "logaddexp2": (z, z), "signbit": (z,), "copysign": (z, z), "nextafter": (z, z)}
    for name, given in calls.items():
        with pytest.raises(TypeError, match=f"^{name}: not of complex64"):
            getattr(weft, name)(*given)


def test_what_is_composed_keeps_imaginary_parts_and_the_digits_of_halves():
    z = np.array([1 + 2j, -0.5j])
    np.testing.assert_allclose(np.asarray(weft.float_power(weft.array(z), 2)), np.float_power(z, 2), rtol=1e-14)
    np.testing.assert_allclose(np.asarray(weft.float_power(2, weft.array(z))), np.float_power(2, z), rtol=1e-14)
    a, b = weft.array([-1.0, 100.0]).astype(weft.bfloat16), weft.array([-0.99609375, 448.0]).astype(weft.bfloat16)
    wide = np.logaddexp2(*(np.asarray(x.astype(weft.float64)) for x in (a, b)))
    np.testing.assert_allclose(np.asarray(weft.logaddexp2(a, b).astype(weft.float64)), wide, rtol=4e-3)
    e4m3 = weft.array([-52.0, 448.0]).astype(weft.float8_e4m3fn)
    assert weft.logaddexp2(e4m3, e4m3[::-1]).tolist() == [448.0, 448.0]


def test_integers_next_to_a_number_are_floats():
    got = weft.nextafter(weft.array([1, -2, 0], dtype=weft.int8), weft.array([9, 9, -9], dtype=weft.int8))
    assert got.dtype == weft.float32
    np.testing.assert_array_equal(np.asarray(got), np.nextafter(np.array([1, -2, 0], "f"), np.array([9, 9, -9], "f")))


def test_functions_of_the_standard_take_lists_and_numbers():
    assert weft.signbit([-1.0, 0.0]).tolist() == [True, False] and weft.copysign(1.0, -2.0).item() == -1.0
    assert weft.vecdot([1, 2], [3, 4]).item() == 11 and weft.cumulative_sum([1, 2]).tolist() == [1, 3]
    assert weft.unique_counts([1, 2, 1]).counts.tolist() == [2, 1] and weft.unique_inverse((3, 1)).inverse_indices.tolist() == [1, 0]
    assert weft.linalg.cross([1.0, 0, 0], [0, 1.0, 0]).tolist() == [0, 0, 1] and weft.matrix_transpose([[1, 2]]).tolist() == [[1], [2]]
    assert weft.empty_like([1, 2]).shape == (2,) and [x.tolist() for x in weft.broadcast_arrays([1, 2], 3)] == [[1, 2], [3, 3]]
    assert weft.isin([1, 2], [2]).tolist() == [False, True] and weft.nextafter(1.0, 2.0).item() > 1


def test_percentiles_have_all_the_digits_of_doubles(rng):
    x = rng.standard_normal(1001)
    for q in (33.3, 99.9, [10.1, 99.9], np.array([10.1, 99.9])):
        np.testing.assert_allclose(np.asarray(weft.percentile(weft.array(x), q)), np.percentile(x, q), rtol=1e-14)
    for q in (-1, 101, float("nan")):
        with pytest.raises(ValueError, match="percentile"):
            weft.percentile(weft.array(x), q)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cube_root_is_infinitely_steep_at_0(dtype):
    x = weft.array(np.array([0.0, -0.0, 8.0, -8.0, np.inf], dtype))
    y, slope = weft.cbrt(x), weft.grad(lambda x: weft.cbrt(x).sum())(x)
    assert np.signbit(np.asarray(y)).tolist() == [False, True, False, True, False]
    np.testing.assert_allclose(np.asarray(slope), [np.inf, np.inf, 1 / 12, 1 / 12, 0], rtol=1e-6)
    compiled = weft.compile(lambda x: weft.jvp(weft.cbrt, [x], [weft.ones_like(x)])[1][0])
    np.testing.assert_allclose(np.asarray(compiled(x)), [np.inf, np.inf, 1 / 12, 1 / 12, 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "uint64"])
def test_places_beyond_the_dtype_of_their_indices(dtype):
    at, dims = (np.array([99, 7], dtype), np.array([100, 3], dtype)), (100000, 100000)
    places = weft.ravel_multi_index([weft.array(i) for i in at], dims)
    assert places.tolist() == np.ravel_multi_index([i.astype(int) for i in at], dims).tolist() == [9900100, 700003]
    assert weft.ravel_multi_index(([99999], [5]), dims).tolist() == [9999900005]
    assert [i.tolist() for i in weft.unravel_index(weft.array(at[0]), (2, 300))] == [[0, 0], [99, 7]]
    with pytest.raises(ValueError, match="ravel_multi_index: 3 indices for 2 axes"):
        weft.ravel_multi_index(([1], [1], [1]), dims)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "bool", "float32", "complex64"])
def test_vdot_is_inner_of_all_elements(dtype):
    a, b = np.array([[100, 3], [7, 1]]).astype(dtype), np.array([[101, 50], [-3 if dtype[0] in "ifc" else 3, 1]]).astype(dtype)
    assert weft.vdot(weft.array(a), weft.array(b)).item() == weft.inner(weft.array(a).reshape(-1), weft.array(b).reshape(-1)).item()
    if dtype != "bool":
        assert weft.vdot(weft.array(a), weft.array(b)).item() == (a.astype(complex) * b).sum()
    with pytest.raises(ValueError, match="vdot: 4 and 1 elements"):
        weft.vdot(weft.array(a), weft.array([2]))
