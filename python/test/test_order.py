"""Sorting and searching: a total order, in which -0 comes before 0 and nan last."""
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
