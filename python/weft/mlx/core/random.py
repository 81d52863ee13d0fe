"""Random numbers with a global key, which every draw without a key of its own splits."""
import time

from ... import _core
from .._array import _expect, _is_one
from .._device import _place_all

_mlx, _random = _core._mlx, _core._random


class _RandomState(list):
    """[the key]: what a compiled function that draws has among its inputs and outputs."""


def key(seed):
    """A key: uint32 [2].

    >>> mx.random.key(7).tolist()
    [0, 7]
    """
    return _mlx.as_mlx(_random.key(seed))


state = _RandomState([key(time.time_ns() // 1000)])


def seed(seed):
    """Makes draws begin anew.

    >>> mx.random.seed(7)
    """
    state[0] = key(seed)


def _next(key):
    if key is not None:
        _expect("random", key)
        return key
    both = split(state[0])
    try:
        _core.eval(both)  # else the keys of a thousand draws are a chain of a thousand splits
    except _core.NoValueError:
        pass  # inside of a function that is being traced
    state[0] = both[0]
    return both[1]


def split(key, num=2, stream=None):
    """num new keys, uint32 [num, 2].

    >>> mx.random.split(mx.random.key(0)).shape
    (2, 2)
    """
    return _mlx.as_mlx(_random.split(key, num))


def _shape(shape):
    return [shape] if _is_one(shape) else list(shape)


def _dtype(name, dtype, default):
    if dtype is not None and not isinstance(dtype, _mlx.Dtype):
        raise TypeError(f"random.{name}: a dtype is expected, not {type(dtype).__name__}")
    return default if dtype is None else dtype


def _number(x, dtype=None):
    return x if isinstance(x, _core.array) else _mlx.array(x) if dtype is None else _mlx.array(x, dtype)


def _floating(name, dtype):
    if not dtype.name.startswith(("float", "bfloat")):
        raise ValueError(f"random.{name}: draws are of floating dtypes, not {dtype.name}")


def _drawn_narrow(draw, key, shape, dtype):
    """Doubles are the draws of float32, as there."""
    drawn = draw(_next(key), shape=_shape(shape), dtype=_mlx.float32 if dtype == _mlx.float64 else dtype)
    return _mlx.as_mlx(drawn).astype(dtype)


def uniform(low=0, high=1, shape=(), dtype=None, key=None, stream=None):
    """low <= x < high.

    >>> mx.random.uniform(shape=(2, 3)).shape
    (2, 3)
    """
    dtype = _dtype("uniform", dtype, _mlx.float32)
    _floating("uniform", dtype)
    low, high = _number(low, dtype).astype(dtype), _number(high, dtype).astype(dtype)
    return _mlx.as_mlx(_random.uniform(_next(key), low, high, shape=_shape(shape), dtype=dtype))


def normal(shape=(), dtype=None, loc=None, scale=None, key=None, stream=None):
    """Normal, of mean loc and standard deviation scale.

    >>> mx.random.normal((2, 3)).shape
    (2, 3)
    """
    dtype = _dtype("normal", dtype, _mlx.float32)
    if dtype == _mlx.complex64:
        both = _mlx.as_mlx(_random.normal(_next(key), shape=_shape(shape) + [2], dtype=_mlx.float32)) * (0.5 ** 0.5)
        drawn = both[..., 0] + 1j * both[..., 1]
    else:
        _floating("normal", dtype)
        drawn = _drawn_narrow(_random.normal, key, shape, dtype)
    if scale is not None:
        drawn = drawn * (scale.astype(dtype) if isinstance(scale, _core.array) else scale)
    if loc is not None:
        drawn = drawn + (loc.astype(dtype) if isinstance(loc, _core.array) else loc)
    return drawn


def _whole(x):
    x = _number(x)
    return x.astype(_mlx.int32) if x.dtype.name.startswith(("float", "bfloat")) else x


def randint(low, high, shape=(), dtype=None, key=None, stream=None):
    """low <= x < high, whole numbers.

    >>> mx.random.randint(3, 4, (2,)).tolist()
    [3, 3]
    """
    dtype = _dtype("randint", dtype, _mlx.int32)
    if dtype == _mlx.bool_:
        return randint(low, high, shape, _mlx.int32, key).astype(dtype)
    if not dtype.name.startswith(("int", "uint")):
        raise ValueError(f"random.randint: draws are of integer dtypes, not {dtype.name}")
    return _mlx.as_mlx(_random.randint(_next(key), _whole(low), _whole(high), shape=_shape(shape), dtype=dtype))


def bernoulli(p=0.5, shape=None, key=None, stream=None):
    """True with probability p.

    >>> mx.random.bernoulli(mx.array([0.0, 1.0])).tolist()
    [False, True]
    """
    p = _number(p)
    if not p.dtype.name.startswith(("float", "bfloat")):
        raise ValueError(f"random.bernoulli: a probability is a float, not {p.dtype.name}")
    p = _mlx.clip(p, 0, 1)
    return _mlx.as_mlx(_random.bernoulli(_next(key), p, shape=list(p.shape) if shape is None else _shape(shape)))


def truncated_normal(lower, upper, shape=None, dtype=None, key=None, stream=None):
    """Normal of mean 0 and standard deviation 1, between lower and upper.

    >>> mx.random.truncated_normal(2, 2).item()
    2.0
    """
    dtype = _dtype("truncated_normal", dtype, _mlx.float32)
    _floating("truncated_normal", dtype)
    lower, upper = _number(lower).astype(dtype), _number(upper).astype(dtype)
    if shape is None:
        from .._array import broadcast_shapes
        shape = broadcast_shapes(lower.shape, upper.shape)
    most = _mlx.maximum(lower, upper)
    drawn = _mlx.as_mlx(_random.truncated_normal(_next(key), lower, most, shape=_shape(shape), dtype=dtype))
    return _mlx.where(lower >= upper, lower, drawn)


def gumbel(shape=(), dtype=None, key=None, stream=None):
    """Distribution e^-e^-x.

    >>> mx.random.gumbel((2, 3)).shape
    (2, 3)
    """
    dtype = _dtype("gumbel", dtype, _mlx.float32)
    if dtype.size == 2:  # step by step in halves
        return -_mlx.log(-_mlx.log(uniform(shape=shape, dtype=dtype, key=key)))
    return _mlx.as_mlx(_random.gumbel(_next(key), shape=_shape(shape), dtype=dtype))


def laplace(shape=(), dtype=None, loc=0.0, scale=1.0, key=None, stream=None):
    """Density e^-|x| / 2.

    >>> mx.random.laplace((2, 3)).shape
    (2, 3)
    """
    dtype = _dtype("laplace", dtype, _mlx.float32)
    _floating("laplace", dtype)
    drawn = _drawn_narrow(_random.laplace, key, shape, dtype)
    return drawn * scale + loc


def _by_sums(logits, shape, key):
    """Of one distribution: how many sums of probabilities a uniform number reaches."""
    x = logits.reshape((-1,)).astype(_mlx.result_type(logits.dtype, _mlx.float32))
    most = _mlx.max(x)
    weight = _mlx.where(_mlx.isinf(most), (x == most).astype(x.dtype), _mlx.exp(x - most))
    u = uniform(shape=shape, key=key) * _mlx.sum(weight)
    return _mlx.searchsorted(_mlx.cumsum(weight, 0, inclusive=False), u, side="right") - 1


def categorical(logits, axis=-1, shape=None, num_samples=None, key=None, stream=None):
    """An index along the axis, with probability softmax(logits).

    >>> mx.random.categorical(mx.array([0.0, -mx.inf]), shape=(2,)).tolist()
    [0, 0]
    """
    if shape is not None and num_samples is not None:
        raise ValueError("random.categorical: either shape or num_samples, not both")
    logits = _number(logits)
    if not logits.ndim:
        raise _core.AxisError("random.categorical: the logits have no axes")
    if not -logits.ndim <= axis < logits.ndim:
        raise _core.AxisError(f"random.categorical: there is no axis {axis} among {logits.ndim}")
    axis %= logits.ndim
    batch = [n for i, n in enumerate(logits.shape) if i != axis]
    key = _next(key)
    drawn = list(shape) if shape is not None else batch + ([] if num_samples is None else [num_samples])
    if logits.size and logits.size == logits.shape[axis] and drawn:
        _check_drawn(shape, batch, logits)
        return _by_sums(logits, drawn, key)
    if logits.shape[axis] == 0:
        raise ValueError(f"random.categorical: there is nothing to choose from along axis {axis} of {tuple(logits.shape)}")
    _check_drawn(shape, batch, logits)
    if num_samples is not None:
        logits = _mlx.expand_dims(logits, -1)
    at = axis + len(drawn) + 1 - logits.ndim
    return _mlx.argmax(gumbel(drawn[:at] + [logits.shape[axis]] + drawn[at:], key=key) + logits, at)


def _check_drawn(shape, batch, logits):
    from .._array import broadcast_shapes
    if shape is not None and list(broadcast_shapes(shape, batch)) != list(shape):
        raise ValueError(f"random.categorical: a shape {tuple(shape)} for logits of {tuple(logits.shape)}")


def permutation(x, axis=0, key=None, stream=None):
    """x in another order along the axis; of a number, 0 .. x - 1 in another order.

    >>> mx.sort(mx.random.permutation(4)).tolist()
    [0, 1, 2, 3]
    """
    if not isinstance(x, int):
        _expect("random.permutation", x)
    else:
        return permutation(_mlx._arange(0, x, 1, _mlx.uint32), 0, key)
    if not -x.ndim <= axis < x.ndim:
        raise _core.AxisError(f"random.permutation: there is no axis {axis} among {x.ndim}")
    return _mlx.as_mlx(_random.permutation(_next(key), x, axis))


def multivariate_normal(mean, cov, shape=(), dtype=None, key=None, stream=None):
    """mean + L z, where L L' is cov, which must be positive definite (else nan), and the elements of z are normal.

    >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2)).shape
    (2,)
    """
    from .._array import broadcast_shapes
    fn, dtype = "random.multivariate_normal", _dtype("multivariate_normal", dtype, _mlx.float32)
    _expect(fn, mean, cov)
    if dtype != _mlx.float32:
        raise ValueError(f"{fn}: draws are of float32, not {dtype.name}")
    mean, cov = _number(mean).astype(dtype), _number(cov).astype(dtype)
    if not mean.ndim or cov.ndim < 2 or not mean.shape[-1] == cov.shape[-1] == cov.shape[-2]:
        raise ValueError(f"{fn}: a mean of shape {mean.shape} and a covariance of {cov.shape}")
    try:
        drawn = list(broadcast_shapes(mean.shape[:-1], cov.shape[:-2], _shape(shape)))
    except ValueError:
        drawn = None
    if drawn is None or (_shape(shape) and drawn != _shape(shape)):
        raise ValueError(f"{fn}: draws of shape {tuple(_shape(shape))}, a mean of {mean.shape} and a covariance of {cov.shape}")
    z = normal(drawn + [mean.shape[-1], 1], key=key)
    return mean + (_mlx.as_mlx(_core._linalg.cholesky(cov)) @ z)[..., 0]
_place_all(globals())
