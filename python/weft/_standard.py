"""Functions of the Python array API standard that are composed of weft's own, and what the standard asks of a namespace."""
import builtins
import collections
import functools

from . import _core, _run
from ._size import sizes as _sizes

_array = _core.asarray

# ---- Dtypes

_DIGITS = {"float16": (5, 10), "bfloat16": (8, 7), "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2), "float32": (8, 23), "float64": (11, 52),
           "complex64": (8, 23), "complex128": (11, 52)}
_PART = {"complex64": _core.float32, "complex128": _core.float64}


def _kind(dtype):
    name = dtype.name
    for kind in ("bool", "uint", "int", "complex"):
        if name.startswith(kind):
            return kind
    return "float"


_KINDS = {"bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",), "integral": ("int", "uint"),
          "real floating": ("float",), "complex floating": ("complex",), "numeric": ("int", "uint", "float", "complex")}


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: another dtype, a name such as "integral" or "real floating", or one of several.

    >>> weft.isdtype(weft.int8, ("bool", "integral"))
    True
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, _core.Dtype):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype: {kind!r} is none of {', '.join(_KINDS)}")
    return _kind(dtype) in _KINDS[kind]


def can_cast(from_, to, /):
    """Whether promotion takes an array or a dtype to a dtype.

    >>> weft.can_cast(weft.int8, weft.int32)
    True
    """
    return _core.result_type(_dtype_of(from_), to) == to


def _dtype_of(x):
    if not isinstance(x, _core.Dtype) and not hasattr(x, "dtype"):
        raise TypeError(f"{_core.called()}: a dtype or an array is expected, not {type(x).__name__}")
    return x if isinstance(x, _core.Dtype) else x.dtype


class finfo:
    """finfo(dtype): the numbers a floating dtype has: bits, min, max, eps, smallest_normal.

    >>> weft.finfo(weft.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type, /):
        dtype = _dtype_of(type)
        if dtype.name not in _DIGITS:
            raise ValueError(f"finfo: {dtype.name} is no floating dtype")
        exponent, digits = _DIGITS[dtype.name]
        bias = 2 ** (exponent - 1) - 1
        self.dtype, self.bits = _PART.get(dtype.name, dtype), 1 + exponent + digits
        self.max, self.eps, self.smallest_normal = (2 - 2.0 ** -digits) * 2.0 ** bias, 2.0 ** -digits, 2.0 ** (1 - bias)
        if dtype.name == "float8_e4m3fn":  # without infinities: the largest exponent has numbers too
            self.max = 448.0
        self.min = -self.max

    def __repr__(self):
        return f"finfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype.name})"


class iinfo:
    """iinfo(dtype): the numbers an integer dtype has: bits, min, max.

    >>> weft.iinfo(weft.uint8).max
    255
    """

    def __init__(self, type, /):
        dtype = _dtype_of(type)
        if _kind(dtype) not in ("int", "uint"):
            raise ValueError(f"iinfo: {dtype.name} is no integer dtype")
        is_signed = _kind(dtype) == "int"
        self.dtype, self.bits = dtype, 8 * dtype.size
        self.min, self.max = -(1 << self.bits - 1) if is_signed else 0, (1 << self.bits - is_signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


# ---- Making and shaping


def empty(shape, *, dtype=None, device=None):
    """An array of this shape; its elements are 0, but that is not promised.

    >>> weft.empty((2, 3)).shape
    (2, 3)
    """
    return _placed(_core.zeros(shape, _core.float32 if dtype is None else dtype), device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array of the shape and, unless one is given, the dtype of x.

    >>> weft.empty_like(weft.ones(3)).shape
    (3,)
    """
    x = _array(x)
    return empty(_sizes(x), dtype=x.dtype if dtype is None else dtype, device=device)


def _placed(x, device):
    return x if device is None else _core.to_device(x, device)


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to.

    >>> weft.broadcast_shapes((3, 1), (1, 4))
    (3, 4)
    """
    rank = builtins.max((len(shape) for shape in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if n != 1 and out[i] not in (1, n):
                raise ValueError(f"{_core.called()}: {', '.join(map(str, shapes))} do not broadcast")
            out[i] = out[i] if n == 1 else n
    return tuple(out)


def broadcast_arrays(*arrays):
    """The arrays in the shape that they broadcast to.

    >>> [x.shape for x in weft.broadcast_arrays(weft.ones((3, 1)), weft.ones(4))]
    [(3, 4), (3, 4)]
    """
    arrays = [_array(x) for x in arrays]
    shapes = [_sizes(x) for x in arrays]
    if all(type(n) is int for shape in shapes for n in shape):
        shape = broadcast_shapes(*shapes)
    else:  # where sizes are open, what broadcasts tells them
        shape = _sizes(functools.reduce(_core.logical_or, (_core.zeros_like(x, _core.bool_) for x in arrays)))
    return [_core.broadcast_to(x, shape) for x in arrays]


def unstack(x, /, *, axis=0):
    """The arrays that stand along an axis.

    >>> [part.tolist() for part in weft.unstack(weft.array([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    parts = _core.moveaxis(x, axis, 0)
    n = _sizes(parts)[0]
    if type(n) is not int:
        raise _core.NoValueError("unstack: how many arrays that is is not known yet: go through the axis by weft.scan or weft.vmap")
    return tuple(parts[i] for i in range(n))


def permute_dims(x, /, axes):
    """With the axes in another order.

    >>> weft.permute_dims(weft.array([[1, 2]]), (1, 0)).tolist()
    [[1], [2]]
    """
    return _core.transpose(x, axes)


def matrix_transpose(x, /):
    """With the last two axes exchanged.

    >>> weft.matrix_transpose(weft.array([[1, 2]])).tolist()
    [[1], [2]]
    """
    x = _array(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: an array of {x.ndim} axes")
    return _core.swapaxes(x, -1, -2)


# ---- Elements


def copysign(x1, x2, /):
    """The size of x1 with the sign of x2.

    >>> weft.copysign(weft.array(2.0), weft.array(-0.0)).item()
    -2.0
    """
    size, sign = _meet(x1, x2)
    _expect_real(size)
    size = _core.abs(size)
    return _core.where(signbit(sign), -size, size)


def _meet(x1, x2):
    """Both in the dtype that their sum has: numbers take that of their partner, lists have their own."""
    one, other = (x if isinstance(x, (bool, int, float, complex)) else _array(x) for x in (x1, x2))
    if not isinstance(one, _core.array) and not isinstance(other, _core.array):
        one = _array(one)
    dtype = _core.result_type(one, other)
    return _in_dtype(one, dtype), _in_dtype(other, dtype)


def _in_dtype(x, dtype):
    if isinstance(x, int) and isdtype(dtype, "integral") and not iinfo(dtype).min <= x <= iinfo(dtype).max:
        raise ValueError(f"{_core.called()}: {x} does not fit {dtype.name}")
    return x.astype(dtype) if isinstance(x, _core.array) else _core.array(x, dtype)


def _expect_real(x):
    if isdtype(x.dtype, "complex floating"):
        raise TypeError(f"{_core.called()}: not of {x.dtype.name}: complex numbers have no order")


_WORDS = {1: _core.int8, 2: _core.int16, 4: _core.int32, 8: _core.int64}


def signbit(x, /):
    """Where the sign is minus, of 0 and nan too.

    >>> weft.signbit(weft.array([-0.0, 1.0])).tolist()
    [True, False]
    """
    x = _array(x)
    _expect_real(x)
    if not isdtype(x.dtype, "real floating"):
        return x < 0
    return _core.view(x, _WORDS[x.dtype.size]) < 0


def nextafter(x1, x2, /):
    """The number next to x1 on the way to x2.

    >>> weft.nextafter(weft.array(1.0), weft.array(2.0)).item()
    1.0000001192092896
    """
    x, to = _meet(x1, x2)
    _expect_real(x)
    if not isdtype(x.dtype, "real floating"):
        x, to = x.astype(_core.float32), to.astype(_core.float32)
    words = _WORDS[x.dtype.size]
    one = _core.array(1, words)
    at = _core.view(x, words)
    smallest = _core.view(_core.where(signbit(to), _core.array(iinfo(words).min, words) + one, one), x.dtype)
    outwards = (to > x) == (x > 0)  # farther from 0 is the next integer, of either sign
    stepped = _core.view(_core.where(outwards, at + one, at - one), x.dtype)
    stepped = _core.where(x == 0, smallest, stepped)
    return _core.where(_core.isnan(x) | _core.isnan(to), x + to, _core.where(x == to, to, stepped))


def isin(x1, x2, /, *, invert=False):
    """Where an element of x1 is among those of x2.

    >>> weft.isin(weft.array([1, 2, 3]), weft.array([2, 5])).tolist()
    [False, True, False]
    """
    x1, x2 = _meet(*(_array(x) if isinstance(x, int) else x for x in (x1, x2)))  # 300 is in no uint8
    found = _core.any(_core.equal(_core.expand_dims(x1, -1), _core.ravel(x2)), axis=-1)
    return ~found if invert else found


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many are not 0.

    >>> weft.count_nonzero(weft.array([0, 3, 4])).item()
    2
    """
    return _core.sum(_core.not_equal(x, 0).astype(_core.int64), axis=axis, keepdims=keepdims)


# ---- Sums and products


def _so_far(fold, first, x, axis, dtype, include_initial):
    x = _array(x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{_core.called()}: an axis of the {x.ndim} has to be named: axis=")
        axis = 0
    x = fold(x, axis=axis) if dtype is None else fold(x, axis=axis, dtype=dtype)
    if not include_initial:
        return x
    shape = list(_sizes(x))
    shape[axis] = 1
    return _core.concatenate([_core.full(shape, first, x.dtype), x], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sum so far along an axis; include_initial: with 0 in front.

    >>> weft.cumulative_sum(weft.array([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _so_far(_core.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The product so far along an axis; include_initial: with 1 in front.

    >>> weft.cumulative_prod(weft.array([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _so_far(_core.cumprod, 1, x, axis, dtype, include_initial)


def vecdot(x1, x2, /, *, axis=-1):
    """The sum of conj(x1) x2 along an axis.

    >>> weft.vecdot(weft.array([1, 2]), weft.array([3, 4])).item()
    11
    """
    x1, x2 = _array(x1), _array(x2)
    if not -builtins.min(x1.ndim, x2.ndim) <= axis < 0:
        raise ValueError(f"vecdot: the axis {axis} is not among the last of both")
    n, m = _sizes(x1)[axis], _sizes(x2)[axis]
    if type(n) is int and type(m) is int and n != m:
        raise ValueError(f"vecdot: {n} and {m} elements")
    x1, x2 = _meet(x1, x2)
    return _core.sum(_core.conj(x1) * x2, axis=axis).astype(x1.dtype)


# ---- Sets

_All = collections.namedtuple("unique_all", "values indices inverse_indices counts")
_Counts = collections.namedtuple("unique_counts", "values counts")
_Inverse = collections.namedtuple("unique_inverse", "values inverse_indices")


def unique_all(x, /):
    """(values, indices, inverse_indices, counts): the different elements in order, and where each stands first, which each element
    is, how often each occurs.

    >>> weft.unique_all(weft.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    return _All(*_core.unique(_array(x), True, True, True))


def unique_counts(x, /):
    """(values, counts): the different elements in order, and how often each occurs.

    >>> weft.unique_counts(weft.array([3, 1, 3])).values.tolist()
    [1, 3]
    """
    every = unique_all(x)
    return _Counts(every.values, every.counts)


def unique_inverse(x, /):
    """(values, inverse_indices): the different elements in order, and which each element is.

    >>> weft.unique_inverse(weft.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    every = unique_all(x)
    return _Inverse(every.values, every.inverse_indices)


def unique_values(x, /):
    """The different elements in order.

    >>> weft.unique_values(weft.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return _core.unique(x)


# ---- The namespace

_DTYPES = {name: getattr(_core, name + "_" if name == "bool" else name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128")}


class _Info:
    """What the namespace can do."""

    def capabilities(self):
        """{"boolean indexing", "data-dependent shapes", "max dimensions"}"""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self):
        """0, the CPU."""
        return 0

    def devices(self):
        """The numbers of all devices."""
        return list(range(_run.device_count()))

    def default_dtypes(self, *, device=None):
        """The dtypes of numbers that come without one, and of indices."""
        return {"real floating": _core.float32, "complex floating": _core.complex64, "integral": _core.int32, "indexing": _core.int64}

    def dtypes(self, *, device=None, kind=None):
        """The dtypes of a kind, by name."""
        return {name: dtype for name, dtype in _DTYPES.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__():
    """What the Python array API standard asks for: capabilities, devices and dtypes."""
    return _Info()


_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(x, /, *, api_version=None):
    """The module weft: an array's __array_namespace__."""
    if api_version not in (None, *_VERSIONS):
        raise ValueError(f"__array_namespace__: the version {api_version!r} is none of {', '.join(_VERSIONS)}")
    import weft
    return weft


def device_of(x):
    """Where this thread's work runs: 0 is the CPU."""
    return _core.get(0)
