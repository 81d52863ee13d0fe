"""Views by strides, diagonals and updates along an axis: the same as NumPy's."""
import numpy as np
import pytest

import weft

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), b)


def test_as_strided_shows_windows():
    x = weft.array(X)
    same(weft.as_strided(x, (5, 3), (2, 1), 1), [[1 + 2 * i + j for j in range(3)] for i in range(5)])
    same(weft.as_strided(x, (2, 2), (-1, -4), 23), [[23, 19], [22, 18]])
    same(weft.as_strided(x.transpose(2, 1, 0), (3,), (1,)), X.transpose(2, 1, 0).ravel()[:3])
    same(weft.grad(lambda a: (weft.as_strided(a, (3, 2), (1, 1)) ** 2).sum())(weft.array([1.0, 2.0, 3.0, 4.0])), [2, 8, 12, 8])
    with pytest.raises(ValueError):
        weft.as_strided(x, (25,), (1,))
    with pytest.raises(ValueError):
        weft.as_strided(x, (2, 2), (1,))


@pytest.mark.parametrize("offset", [-4, -1, 0, 2, 5])
def test_diagonals_are_numpys(offset):
    for a, b in [(0, 1), (2, 0), (-1, 1)]:
        same(weft.diagonal(weft.array(X), offset, a, b), np.diagonal(X, offset, a, b))
        same(weft.trace(weft.array(X), offset, a, b), np.trace(X, offset, a, b))
    same(weft.diag(weft.array(X[0, 0]), offset), np.diag(X[0, 0], offset))
    same(weft.diag(weft.array(X[0]), offset), np.diag(X[0], offset))
    with pytest.raises(ValueError):
        weft.diagonal(weft.array(X), 0, 1, -2)


def test_put_along_axis_sets_one_place_a_row():
    i = X.argmax(2, keepdims=True)
    want = X.copy()
    np.put_along_axis(want, i, 7, 2)
    same(weft.put_along_axis(weft.array(X), weft.array(i), 7.0, 2), want)


def test_reductions_take_several_axes():
    for name in ["sum", "mean", "max", "min"]:
        same(getattr(weft.array(X), name)((0, 2)), getattr(X, name)((0, 2)))
        same(getattr(weft.array(X), name)((2, 1), keepdims=True), getattr(X, name)((2, 1), keepdims=True))
    with pytest.raises(ValueError):
        weft.array(X).sum((0, 0))
    with pytest.raises(ValueError):
        weft.array(X).sum((0, 3))


@pytest.mark.parametrize("times", [[1, 0, 3, 2], [0, 0, 0, 0], [2], 3])
def test_repetitions_that_are_traced(times):
    x = np.arange(12.).reshape(4, 3)
    f = weft.compile(lambda x, n: weft.repeat(x, n, axis=0))
    same(f(weft.array(x), weft.array(times)), np.repeat(x, times, 0))
    slope = weft.compile(lambda x, n: weft.grad(lambda x: weft.sum(weft.repeat(x, n, axis=0) ** 2))(x))
    same(slope(weft.array(x), weft.array(times)), 2 * x * np.broadcast_to(times, 4)[:, None])
    some = weft.compile(lambda x, n: weft.repeat(x[x > 4], n))
    if np.size(times) == 1:
        same(some(weft.array(x), weft.array(times)), np.repeat(x[x > 4], times))


def test_repetitions_that_are_traced_and_wrong_are_named():
    f = weft.compile(lambda x, n: weft.repeat(x, n))
    with pytest.raises(AssertionError, match="^repeat: a number is below 0"):
        np.asarray(f(weft.zeros(3), weft.array([1, -1, 2])))
    with pytest.raises(ValueError, match="^repeat: 2 numbers for an axis of 3"):
        f(weft.zeros(3), weft.array([1, 1]))
    with pytest.raises(ValueError, match="^repeat: "):
        f(weft.zeros((3, 3)), weft.zeros((3, 3), dtype=weft.int32) + 1)
