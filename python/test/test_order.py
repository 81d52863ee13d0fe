"""Sorting and searching: a total order, in which -0 comes before 0 and nan last."""
import math
import numpy as np
import pytest
import weft

ODD = np.array([np.nan, 0.0, -0.0, np.inf, 1.0, -np.nan, -np.inf, -0.0, 1.0, 0.0, -0.0625])
ORDER = [6, 10, 2, 7, 1, 9, 4, 8, 3, 0, 5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_order_is_total_and_stable(dtype):
    a = weft.array(ODD).astype(dtype)
    assert a.argsort().tolist() == ORDER == weft.argsort(weft.reshape(a, (11, 1)), 0).ravel().tolist()
    got = np.asarray(a.sort().astype("float64"))
    np.testing.assert_array_equal(got, np.sort(ODD))
    np.testing.assert_array_equal(np.signbit(got)[:9], np.signbit(ODD[ORDER])[:9])  # what sign a nan has is not said
    assert weft.argsort(a, -1).dtype == "int64" and a.sort().dtype == dtype


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_many_short_rows_are_sorted_as_each_alone(dtype, rng):
    """Rows go side by side, 8 or 16 at a time, or alone: in either the order is stable, and a nan keeps its bits."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    for n in (1, 2, 3, 5, 8, 17, 31, 32, 33, 100, 257, 511, 512, 513):
        few = rng.choice(np.frombuffer(rng.bytes(8 * 40), dtype), (37, n))  # of any bits, nans among them; many equal
        few[::5].sort()
        few[3] = few[3, 0]
        if np.dtype(dtype).kind == "f":
            few[1::3, ::3] = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype), few[1::3, ::3].shape)
        for rows in (37, 16, 15, 8, 7, 1):
            x = few[:rows]
            order = np.array([sorted(range(n), key=[(v != v, v == v and v, v == 0 and math.copysign(1, v) > 0) for v in r].__getitem__) for r in x.tolist()])
            np.testing.assert_array_equal(np.asarray(weft.argsort(x)), order)
            got = np.asarray(weft.sort(x))
            np.testing.assert_array_equal(got.view(bits), np.take_along_axis(x, order, -1).view(bits))


def test_axes_and_shapes(rng):
    x = rng.integers(-4, 4, (3, 4, 5))
    for axis in (0, 1, 2, -1, -3, None):
        for y in (x, x[::-1, :, ::2], x[:, :0], x[:1], np.broadcast_to(x[:, :1], x.shape), x.T):
            np.testing.assert_array_equal(np.asarray(weft.sort(y, axis)), np.sort(y, axis))
            np.testing.assert_array_equal(np.asarray(weft.argsort(y, axis)), np.argsort(y, axis, kind="stable"))
    assert weft.sort(7, axis=None).tolist() == [7] and weft.sort([]).tolist() == []
    for call in (lambda: weft.sort(7), lambda: weft.sort(x, 3), lambda: weft.sort(x, (0, 1)), lambda: weft.sort(x, 0.5)):
        with pytest.raises((ValueError, TypeError)):
            call()


def test_derivatives_of_a_sort_go_where_the_elements_stood():
    x, v = weft.array([3.0, 1.0, 2.0, 1.0]), weft.array([10.0, 20.0, 30.0, 40.0])
    (back,), (along,) = weft.vjp(weft.sort, [x], [v])[1], weft.jvp(weft.sort, [x], [v])[1]
    assert back.tolist() == [40, 10, 30, 20] and along.tolist() == [20, 40, 30, 10]


def test_sorted_inside_of_transforms(rng):
    x = rng.standard_normal((4, 6))
    np.testing.assert_array_equal(np.asarray(weft.vmap(lambda r: weft.sort(r))(weft.array(x))), np.sort(x))
    np.testing.assert_array_equal(np.asarray(weft.compile(lambda r: -weft.sort(-r, 0))(weft.array(x))), -np.sort(-x, 0))


def test_places_in_what_is_sorted():
    a = np.sort(ODD)
    v = np.array([[np.nan, -0.0, 0.0], [-np.inf, 5.0, np.inf]])
    for side in ("left", "right"):
        for n in range(len(a) + 1):
            np.testing.assert_array_equal(np.asarray(weft.searchsorted(a[:n], v, side)), np.searchsorted(a[:n], v, side))
        assert weft.searchsorted([1, 2, 2, 5], 2, side=side).item() == np.searchsorted([1, 2, 2, 5], 2, side=side)
        assert weft.searchsorted([1.0], weft.zeros((0, 2)), side).shape == (0, 2)
        np.testing.assert_array_equal(np.asarray(weft.array([1, 2, 2, 5]).searchsorted(2.5, side)), np.searchsorted([1, 2, 2, 5], 2.5, side))
    for side in ("middle", None, 1):
        with pytest.raises(ValueError, match="'left' or 'right'"):
            weft.searchsorted([1], 1, side)


# ---- ranks ----

TIES = np.array([[3.0, 1.0, np.nan, 1.0, -0.0, 0.0], [2.0, 2.0, 2.0, 7.0, -np.inf, np.inf]])
METHODS = ["linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
           "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int32", "int64", "uint64", "bool"])
def test_the_largest_and_partitions_have_the_elements_that_a_sort_puts_there(dtype, rng):
    for shape in ((7,), (3, 50), (4, 1), (2, 3, 900)):
        x = rng.integers(0, 40, shape).astype(dtype)
        n, order = shape[-1], np.argsort(x, -1, kind="stable")
        for k in {0, 1, n // 2, n}:
            np.testing.assert_array_equal(np.asarray(weft.topk(x, k)), np.sort(x, -1)[..., n - k:][..., ::-1])
            np.testing.assert_array_equal(np.asarray(weft.argtopk(x, k)), order[..., n - k:][..., ::-1])
        for k in {0, n // 3, n - 1, -1, -n}:
            got, at = np.asarray(weft.partition(x, k)), np.asarray(weft.argpartition(x, k))
            np.testing.assert_array_equal(np.take_along_axis(x, at, -1), got)
            np.testing.assert_array_equal(got[..., k], np.sort(x, -1)[..., k])
            k %= n
            np.testing.assert_array_equal(np.sort(at[..., :k]), np.sort(order[..., :k]))
            assert (np.diff(at[..., :k]) > 0).all() and (np.diff(at[..., k + 1:]) > 0).all()


def test_ranks_along_axes_and_of_odd_values(rng):
    x = rng.standard_normal((5, 6, 7))
    for axis in (0, 1, 2, -1, -3):
        np.testing.assert_array_equal(np.asarray(weft.topk(x, 2, axis)), np.flip(np.sort(x, axis), axis).take([0, 1], axis))
        np.testing.assert_array_equal(np.asarray(weft.median(x[::-1, :, ::2], axis)), np.median(x[::-1, :, ::2], axis))
    assert weft.argtopk(TIES, 6).tolist() == [[2, 0, 3, 1, 5, 4], [5, 3, 2, 1, 0, 4]]
    np.testing.assert_array_equal(np.asarray(weft.topk(TIES[0], 3, None)), [np.nan, 3, 1])
    for call in (lambda: weft.topk(x, 8), lambda: weft.topk(x, -1), lambda: weft.partition(x, 7), lambda: weft.topk(1.0, 1), lambda: weft.partition(x, 0, 3)):
        with pytest.raises(ValueError):
            call()


@pytest.mark.filterwarnings("ignore")
def test_medians_are_numpys(rng):
    x = rng.standard_normal((4, 9, 10))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[2, 3] = np.nan
    for y in (x, x[:, :, :1], x[:1], x[:, :0], x[0, 0, 0], x.astype("float32"), np.arange(12).reshape(3, 4), np.array([True, False, True])):
        for axis in (None, *range(y.ndim), *([(0, 2), (0, 1, 2)] if y.ndim == 3 and y.size else [])):
            for keepdims in (False, True):
                np.testing.assert_array_equal(np.asarray(weft.median(y, axis, keepdims)), np.median(y, axis, keepdims=keepdims))
                if y.size:
                    np.testing.assert_allclose(np.asarray(weft.nanmedian(y, axis, keepdims)), np.nanmedian(y.astype(float), axis, keepdims=keepdims), rtol=1e-7)
    assert weft.median([1, 2]).item() == 1.5 and weft.median(weft.array([1, 2, 4]).astype("float16")).dtype == "float16"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
def test_quantiles_are_numpys(method, rng):
    for n in (1, 2, 3, 4, 7, 10, 101):
        x = rng.standard_normal((3, n))
        for q in (0, 0.1, 0.25, 0.3, 0.5, 2 / 3, 0.75, 0.9, 1, 1 / n):
            for axis in (1, 0, None, (0, 1)):
                np.testing.assert_allclose(np.asarray(weft.quantile(x, q, axis, method=method)), np.quantile(x, q, axis, method=method), rtol=1e-14, atol=1e-15)
        q = [0.0, 0.5, 1 / n]
        np.testing.assert_allclose(np.asarray(weft.quantile(x, q, 1, method=method)), np.quantile(x, q, 1, method=method), rtol=1e-14, atol=1e-15)
        i = rng.integers(-9, 9, (n, 2))
        np.testing.assert_allclose(np.asarray(weft.quantile(i, 0.3, 0, True, method=method)), np.quantile(i, 0.3, 0, keepdims=True, method=method), rtol=1e-6)
        x[rng.random(x.shape) < 0.3] = np.nan
        for q in (0, 0.3, 0.5, 1):
            np.testing.assert_array_equal(np.isnan(np.asarray(weft.quantile(x, q, 1, method=method))), np.isnan(x).any(1))
            np.testing.assert_allclose(np.asarray(weft.nanquantile(x, q, 1, method=method)), np.nanquantile(x, q, 1, method=method), rtol=1e-14, atol=1e-15)


def test_shares_have_any_shape_and_number(rng):
    x = rng.standard_normal((3, 4, 5))
    for shape in ((0,), (1,), (3,), (70,), (2, 3), (3, 1)):
        q = rng.random(shape)
        for axis in (None, 1, -1, (0, 2), (2, 0), (0, 1, 2)):
            for keepdims in (False, True):
                call = lambda x, q: weft.quantile(x, q, axis, keepdims)
                expected = np.quantile(x, q, axis, keepdims=keepdims)
                for y in (call(x, q), weft.compile(call, shapes="any")(weft.array(x), weft.array(q))):
                    assert y.shape == expected.shape
                    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-14, atol=1e-15)
    rows = weft.vmap(lambda x, q: weft.nanquantile(x, q, axis=(0, 1)), in_axes=(-1, None))(weft.array(x), weft.array([0.25, 0.5]))
    np.testing.assert_allclose(np.asarray(rows), np.nanquantile(x, [0.25, 0.5], axis=(0, 1)).T, rtol=1e-14)


def test_quantiles_refuse_and_differentiate():
    x = weft.array([3.0, 1.0, 2.0, 8.0])
    for call in (lambda: weft.quantile(x, 1.5), lambda: weft.quantile(x, 0.5, method="middle"), lambda: weft.quantile(x, 0.5, method=None)):
        with pytest.raises(ValueError):
            call()
    assert weft.grad(lambda x: weft.quantile(x, 0.25))(x).tolist() == [0, 0.25, 0.75, 0]
    assert weft.grad(weft.median)(x).tolist() == [0.5, 0, 0.5, 0]
    assert weft.grad(lambda x: weft.topk(x, 2).sum())(x).tolist() == [1, 0, 0, 1]
    m = weft.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
    assert weft.vmap(weft.median)(m).tolist() == [2, 8] and weft.compile(lambda x: weft.topk(x, 1))(m).tolist() == [[3], [9]]


def test_what_is_out_of_range_is_named_as_it_was_typed():
    with pytest.raises(ValueError, match=r"partition: k is 7, beyond axis 0 of \[3\]"):
        weft.partition(weft.ones(3), 7)
    with pytest.raises(ValueError, match=r"partition: k is -4, beyond axis 0 of \[3\]"):
        weft.partition(weft.ones(3), -4)
    with pytest.raises(ValueError, match="random.permutation: -3 numbers"):
        weft.random.permutation(weft.random.key(0), -3)
