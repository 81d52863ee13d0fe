import numpy as np
import pytest
import weft

AXES = [None, 0, 1, 2, -1, -3, (0, 1), (0, 2), (1, 2), (0, 1, 2), ()]


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "all", "any"])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_those_of_numpy(name, axis, keepdims, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    if name in ("all", "any"):
        x = x > 0.5
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    for a in [getattr(weft, name)(weft.array(x), axis, keepdims), getattr(weft.array(x), name)(axis=axis, keepdims=keepdims)]:
        assert a.shape == expected.shape
        np.testing.assert_allclose(np.array(a), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_the_first_extreme_is_found_and_nan_is_one(name, axis, rng):
    x = rng.integers(0, 3, (4, 5)).astype(np.float32)
    assert np.array_equal(np.array(getattr(weft, name)(weft.array(x), axis)), getattr(np, name)(x, axis))
    x[2, 3] = np.nan
    assert np.array_equal(np.array(getattr(weft.array(x), name)(axis)), getattr(np, name)(x, axis))
    assert getattr(weft.array(x), name)(0, keepdims=True).shape == (1, 5)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_running_folds(name, axis, rng):
    x = rng.random((4, 5)).astype(np.float32)
    np.testing.assert_allclose(np.array(getattr(weft, name)(weft.array(x), axis)), getattr(np, name)(x, axis), rtol=1e-5)
    back = getattr(np, name)(x.ravel()[::-1])[::-1] if axis is None else np.flip(getattr(np, name)(np.flip(x, axis), axis), axis)
    np.testing.assert_allclose(np.array(getattr(weft.array(x), name)(axis, reverse=True)), back, rtol=1e-5)


def test_cumulative_extremes():
    x = np.array([1.0, 3.0, 2.0, np.nan, 5.0], dtype=np.float32)
    assert np.array_equal(np.array(weft.cummax(x)), np.maximum.accumulate(x), equal_nan=True)
    assert np.array_equal(np.array(weft.cummin(x)), np.minimum.accumulate(x), equal_nan=True)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax_and_logsumexp(axis, rng):
    x = (rng.standard_normal((3, 4)) * 50).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(np.array(weft.softmax(x, axis)), e / e.sum(axis, keepdims=True), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.array(weft.logsumexp(x, axis)), np.log(e.sum(axis)) + x.max(), rtol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
@pytest.mark.parametrize("axis", [None, -1, (0, -1)])
def test_softmax_and_logsumexp_of_no_elements(shape, axis):
    if isinstance(axis, tuple) and len(shape) < 2:
        axis = (0,)
    x = np.zeros(shape, np.float32)
    for f in (weft.softmax, weft.log_softmax):
        y = f(x, axis)
        assert y.shape == shape and np.array(y).shape == shape
        assert weft.grad(lambda a: f(a, axis).sum())(weft.array(x)).shape == shape
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(x).sum(axis))
    assert np.array_equal(np.array(weft.logsumexp(x, axis)), expected)


def test_softmax_over_several_axes_of_sizes_that_a_call_tells(rng):
    f = weft.compile(lambda x: weft.softmax(x, (0, 2)), shapes=[(None, None, None)])
    for shape in [(2, 3, 4), (0, 3, 4), (2, 0, 4), (1, 1, 1)]:
        x = rng.standard_normal(shape).astype(np.float32)
        e = np.exp(x)
        np.testing.assert_allclose(np.array(f(weft.array(x))), e / e.sum((0, 2), keepdims=True), rtol=1e-5)


def test_dtypes_of_sums():
    assert weft.sum(weft.ones(3, dtype=weft.bool_)).dtype is weft.int32
    assert weft.sum(weft.ones(3, dtype=weft.int64)).dtype is weft.int64
    assert weft.sum(weft.ones(3, dtype=weft.bfloat16)).dtype is weft.bfloat16
    assert weft.mean(weft.ones(3, dtype=weft.int32)).dtype is weft.float32
    assert weft.sum(weft.full((1000,), 1, weft.bfloat16)).item() == 1000


def test_wrong_axes_are_refused():
    a = weft.zeros((2, 3))
    for axis in [2, -3, (0, 0), (0, 1, 2)]:
        with pytest.raises(ValueError):
            a.sum(axis)
    with pytest.raises(TypeError):
        a.sum("x")
    with pytest.raises(ValueError):
        a.argmax((0, 1))
    with pytest.raises(ValueError):
        weft.max(weft.zeros((0,)))


def test_empty_sums_are_neutral():
    assert weft.zeros((0, 3)).sum(0).tolist() == [0, 0, 0]
    assert weft.zeros((2, 0)).prod(1).tolist() == [1, 1]
    assert weft.zeros((0,)).sum().item() == 0


def test_norms(rng):
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in [(4, 6), 6, 6])
    rms = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(np.array(weft.rms_norm(x, w)), rms * w, rtol=1e-5)
    np.testing.assert_allclose(np.array(weft.rms_norm(x, None, 1e-5)), rms, rtol=1e-5)
    centred = x - x.mean(-1, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(np.array(weft.layer_norm(x, w, b)), layer * w + b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(weft.layer_norm(x)), layer, rtol=1e-4, atol=1e-5)


def test_variance(rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    for axis in [None, 1, (0, 2)]:
        np.testing.assert_allclose(np.array(weft.var(x, axis, ddof=1)), x.var(axis, ddof=1), rtol=1e-5)
        np.testing.assert_allclose(np.array(weft.std(x, axis, keepdims=True)), x.std(axis, keepdims=True), rtol=1e-5)


def test_views(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    a = weft.array(x)

    def same(y, z):
        assert np.array_equal(np.array(y), z) and y.shape == z.shape

    same(a.reshape(6, 4), x.reshape(6, 4))
    same(a.reshape((4, -1)), x.reshape(4, -1))
    same(weft.reshape(a, (24,)), x.reshape(24))
    same(a.transpose(), x.transpose())
    same(a.transpose(1, 2, 0), x.transpose(1, 2, 0))
    same(weft.transpose(a, (2, 0, 1)), x.transpose(2, 0, 1))
    same(a.T.reshape(-1), x.T.reshape(-1))
    same(weft.moveaxis(a, 0, -1), np.moveaxis(x, 0, -1))
    same(a.swapaxes(0, -1), x.swapaxes(0, -1))
    same(weft.expand_dims(a, (0, -1)), np.expand_dims(x, (0, -1)))
    same(weft.squeeze(weft.expand_dims(a, (0, 2))), x)
    same(weft.expand_dims(a, 1).squeeze(1), x)
    same(a.flatten(), x.ravel())
    same(a.flatten(1), x.reshape(2, 12))
    same(a.flatten(0, 1), x.reshape(6, 4))
    same(weft.flip(a), np.flip(x))
    same(weft.flip(a, (0, 2)), np.flip(x, (0, 2)))
    same(weft.broadcast_to(a, (5, 2, 3, 4)), np.broadcast_to(x, (5, 2, 3, 4)))
    same(weft.repeat(a, 3, 1), np.repeat(x, 3, 1))
    same(weft.tile(a, (2, 1, 2)), np.tile(x, (2, 1, 2)))
    same(weft.roll(a, -3, 2), np.roll(x, -3, 2))
    same(weft.roll(a, 5), np.roll(x, 5))
    for part, expected in zip(weft.split(a, [1, 3], 2), np.split(x, [1, 3], 2)):
        same(part, expected)
    for wrong in [lambda: a.reshape(5, 5), lambda: a.reshape(-1, -1), lambda: a.transpose(0, 1), lambda: a.squeeze(0),
                  lambda: weft.broadcast_to(a, (3, 3)), lambda: a.reshape(-2, 3)]:
        with pytest.raises(ValueError):
            wrong()


def test_joins(rng):
    x, y = (rng.standard_normal(s).astype(np.float32) for s in [(2, 3), (4, 3)])
    assert np.array_equal(np.array(weft.concatenate([x, y])), np.concatenate([x, y]))
    assert np.array_equal(np.array(weft.concatenate([weft.array(x)[:, ::-1], y], axis=0)), np.concatenate([x[:, ::-1], y]))
    assert np.array_equal(np.array(weft.stack([x, x * 2], axis=1)), np.stack([x, x * 2], 1))
    assert np.array_equal(np.array(weft.stack([x, x], axis=-1)), np.stack([x, x], -1))
    assert np.array_equal(np.array(weft.pad(weft.array(x), ((1, 2), (0, 1)), constant_values=7)), np.pad(x, ((1, 2), (0, 1)), constant_values=7))
    assert np.array_equal(np.array(weft.pad(x, 1)), np.pad(x, 1))
    assert weft.concatenate([weft.array([1]), weft.array([1.5])]).dtype is weft.float32
    for wrong in [lambda: weft.concatenate([x, y], axis=1), lambda: weft.concatenate([]), lambda: weft.stack([x, y])]:
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("source", ["float32", "float64", "int32", "bool_", "bfloat16"])
@pytest.mark.parametrize("target", ["float32", "float64", "int32", "int8", "uint8", "bool_", "bfloat16"])
def test_casts_saturate(source, target):
    values = [0, 1] if source == "bool_" else [0.0, 1.0, -3.0, 300.0, -70000.0]
    a = weft.array(values, dtype=getattr(weft, source)).astype(getattr(weft, target))
    assert a.dtype is getattr(weft, target)
    x = np.array(weft.array(values, dtype=getattr(weft, source)).astype(weft.float64))
    if target in ("int32", "int8", "uint8") and source != "int32":
        info = np.iinfo(target)
        assert a.tolist() == np.clip(np.trunc(x), info.min, info.max).astype(target).tolist()
    elif target == "bool_":
        assert a.tolist() == (x != 0).tolist()
    elif source != "int32" and target != "bfloat16":
        assert a.tolist() == x.astype(target).tolist()
    assert weft.array([np.nan], dtype=weft.float32).astype(weft.int32).tolist() == [0]


def test_both_sides_of_an_array_of_as_many_axes_as_a_kernel_has_are_padded():
    a = np.arange(4 * 2**11, dtype=np.float32).reshape((4,) + (2,) * 11)
    for axis in (0, 11):
        width = [(0, 0)] * 12
        width[axis] = (2, 2)
        np.testing.assert_array_equal(np.array(weft.pad(weft.array(a), width, constant_values=3.0)), np.pad(a, width, constant_values=3.0))
