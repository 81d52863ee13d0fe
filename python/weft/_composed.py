"""Functions that NumPy has, composed of weft's own: nothing here computes by itself, so all of it is differentiated, mapped and fused
as what it is made of. Results have NumPy's values; floats are float32 where NumPy's would be made of nothing or of integers."""
import builtins
import math

from . import _core
from ._size import sizes as _sizes

_array, _where = _core.asarray, _core.where

_MOST_TIMES = 1 << 16  # parts, or steps, that are written one by one


def _floats(x):
    x = _array(x)
    return x if x.dtype.name.startswith(("float", "bfloat", "complex")) else _core.astype(x, _core.float32)


def _reals(x):
    x = _floats(x)
    if x.dtype.name.startswith("complex"):
        raise TypeError(f"{_core.called()}: not of {x.dtype.name}")
    return x


def _raised(x):
    """Where functions of a few steps are computed: float32 for what has fewer bits."""
    return _core.astype(x, _core.float32) if x.dtype.size < 4 else x


def _differ(a, b):
    """Whether sizes are known to differ; those that are open are taken to be equal."""
    return any(type(m) is int and type(n) is int and m != n for m, n in zip(a, b))


def _axis(x, axis):
    if not hasattr(axis, "__index__"):
        raise TypeError(f"{_core.called()}: an axis is an integer, not {type(axis).__name__}")
    axis = axis.__index__()
    if not -x.ndim <= axis < x.ndim:
        raise _core.AxisError(f"{_core.called()}: axis {axis} of an array of {x.ndim}")
    return axis % x.ndim


# ---- element by element


def angle(z, deg=False):
    """The angle of a complex number, in radians or degrees.

    >>> weft.angle([1.0, -1.0], deg=True).tolist()
    [0.0, 180.0]
    """
    z = _floats(z)
    y = _core.arctan2(_core.imag(z), _core.real(z)) if z.dtype.name.startswith("complex") else _core.arctan2(_core.zeros_like(z), z)
    return _core.degrees(y) if deg else y


def cbrt(x, /):
    """The cube root, of negative numbers too.

    >>> weft.cbrt([-8.0, 27.0]).tolist()
    [-2.0, 3.0]
    """
    x = _reals(x)
    size = _core.abs(x)
    fits = (size > 0) & _core.isfinite(x)
    safe = _raised(_where(fits, size, 1))
    y = _core.exp2(_core.log2(safe) / 3)
    y = y - (y - safe / (y * y)) / 3  # a step of Newton's makes good what the logarithm of a large number lost
    steep = _core.sqrt(_where(x == 0, x + 0.0, 1))  # 0 where x is: its slope is inf there too
    return _where(fits, _core.astype(_where(x < 0, -y, y), x.dtype), _where(x == 0, x - (0.0 - steep), _core.stop_gradient(x)))


def float_power(x1, x2, /):
    """x1 to the power x2, as float64, or complex128 where one is complex.

    >>> weft.float_power(2, -1).tolist()
    0.5
    """
    x1, x2 = _array(x1), _array(x2)
    is_complex = any(x.dtype.name.startswith("complex") for x in (x1, x2))
    dtype = _core.complex128 if is_complex else _core.float64
    return _core.power(_core.astype(x1, dtype), _core.astype(x2, dtype))


def _the_other(pick, x1, x2):
    x1, x2 = _array(x1), _array(x2)
    y = pick(x1, x2)
    if _core.result_type(x1, x2).name.startswith(("int", "uint", "bool")):
        return y
    return _where(_core.isnan(x1), x2, _where(_core.isnan(x2), x1, y))


def fmax(x1, x2, /):
    """The larger one; of a nan and a number the number.

    >>> weft.fmax([1.0, float("nan")], 2.0).tolist()
    [2.0, 2.0]
    """
    return _the_other(_core.maximum, x1, x2)


def fmin(x1, x2, /):
    """The smaller one; of a nan and a number the number.

    >>> weft.fmin([1.0, float("nan")], 2.0).tolist()
    [1.0, 2.0]
    """
    return _the_other(_core.minimum, x1, x2)


def heaviside(x1, x2, /):
    """0 where x1 is negative, 1 where it is positive, x2 where it is 0.

    >>> weft.heaviside([-1.0, 0.0, 3.0], 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    x1, x2 = _floats(x1), _floats(x2)
    return _where(_core.isnan(x1), x1, _where(x1 == 0, x2, _where(x1 < 0, 0.0, 1.0)))


def isneginf(x, /):
    """Whether it is minus infinity.

    >>> weft.isneginf([1.0, float("-inf")]).tolist()
    [False, True]
    """
    return _array(x) == -math.inf


def isposinf(x, /):
    """Whether it is plus infinity.

    >>> weft.isposinf([1.0, float("inf")]).tolist()
    [False, True]
    """
    return _array(x) == math.inf


def iscomplex(x):
    """Whether its imaginary part is not 0.

    >>> weft.iscomplex([1 + 1j, 2 + 0j]).tolist()
    [True, False]
    """
    return _core.imag(_array(x)) != 0


def isreal(x):
    """Whether its imaginary part is 0.

    >>> weft.isreal([1 + 1j, 2 + 0j]).tolist()
    [False, True]
    """
    return _core.imag(_array(x)) == 0


def ldexp(x1, x2, /):
    """x1 times 2 to the power x2, which are integers; exact where the result is no denormal number.

    >>> weft.ldexp(0.75, 2).tolist()
    3.0
    """
    x1, n = _reals(x1), _array(x2)
    if not n.dtype.name.startswith(("int", "uint", "bool")):
        raise TypeError(f"ldexp: powers of {n.dtype.name}: integers are expected")
    n = _core.minimum(n, 4096) if n.dtype == _core.uint64 else n
    y = _raised(x1)
    most = 300 if y.dtype.size == 4 else 2200  # more than there is between the least number and the largest
    n = _core.clip(_core.astype(n, _core.int64), -most, most)
    part = n // 4  # 2 ** n itself may be too large or too small
    once, rest = (_core.exp2(_core.astype(k, y.dtype)) for k in (part, n - 3 * part))
    return _core.astype(y * once * once * once * rest, x1.dtype)


def logaddexp2(x1, x2, /):
    """The logarithm to base 2 of 2 ** x1 + 2 ** x2.

    >>> weft.logaddexp2(1.0, 1.0).tolist()
    2.0
    """
    x1, x2 = _reals(x1), _reals(x2)
    dtype, x1, x2 = _core.result_type(x1, x2), _raised(x1), _raised(x2)
    most, far = _core.maximum(x1, x2), -_core.abs(x1 - x2)
    y = _where(_core.isnan(far) & (x1 == x2), most, most + _core.log1p(_core.exp2(far)) * math.log2(math.e))
    return _core.astype(y, dtype)


def modf(x, /):
    """The parts behind and before the point, both with the sign of x.

    >>> [part.tolist() for part in weft.modf(-2.5)]
    [-0.5, -2.0]
    """
    x = _floats(x)
    whole = _core.trunc(x)
    return _where(_core.isinf(x), _where(x < 0, -0.0, 0.0), _where(x < 0, -_core.abs(x - whole), x - whole)), whole


def rint(x, /):
    """The nearest whole number, of two the even one.

    >>> weft.rint([0.5, 1.5]).tolist()
    [0.0, 2.0]
    """
    return _core.round(_floats(x))


def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """Angles without jumps: steps of more than half a period are taken to the other side.

    >>> weft.unwrap([0.0, 6.0], period=6.0).tolist()
    [0.0, 0.0]
    """
    p = _array(p)
    axis = _axis(p, axis)
    p = p if period == int(period) and not p.dtype.name.startswith("float") else _floats(p)
    step = _core.diff(p, axis=axis)
    half = period / 2
    low = _core.remainder(step + half, period) - half
    low = _where((low == -half) & (step > 0), half, low)
    fixed = _where(_core.abs(step) < builtins.max(half, discont or half), 0, low - step)
    along = (slice(None),) * axis
    first, rest = p[along + (slice(None, 1),)], p[along + (slice(1, None),)]
    return _core.concatenate([first, rest + _core.cumsum(fixed, axis)], axis)


# ---- shapes


def ndim(a):
    """How many axes it has.

    >>> weft.ndim([[1, 2]])
    2
    """
    return _array(a).ndim


def shape(a):
    """The lengths of its axes.

    >>> weft.shape([[1, 2]])
    (1, 2)
    """
    return _array(a).shape


def _at_least(arrays, form):
    out = [form(_array(x)) for x in arrays]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_1d(*arrays):
    """With at least one axis.

    >>> weft.atleast_1d(3).shape
    (1,)
    """
    return _at_least(arrays, lambda x: x if x.ndim else x.reshape(1))


def atleast_2d(*arrays):
    """With at least two axes; new ones come first.

    >>> weft.atleast_2d([3, 4]).shape
    (1, 2)
    """
    return _at_least(arrays, lambda x: x if x.ndim > 1 else x[None] if x.ndim else x.reshape(1, 1))


def atleast_3d(*arrays):
    """With at least three axes.

    >>> weft.atleast_3d([3, 4]).shape
    (1, 2, 1)
    """
    return _at_least(arrays, lambda x: x if x.ndim > 2 else atleast_2d(x)[..., None])


def fliplr(m):
    """The second axis reversed.

    >>> weft.fliplr([[1, 2]]).tolist()
    [[2, 1]]
    """
    return _core.flip(_array(m), 1)


def flipud(m):
    """The first axis reversed.

    >>> weft.flipud([1, 2]).tolist()
    [2, 1]
    """
    return _core.flip(_array(m), 0)


def rollaxis(a, axis, start=0):
    """The axis moved to stand before another.

    >>> weft.rollaxis(weft.ones((1, 2, 3)), 2).shape
    (3, 1, 2)
    """
    a = _array(a)
    axis = _axis(a, axis)
    start = start + a.ndim if start < 0 else start
    return _core.moveaxis(a, axis, start - (axis < start))


# ---- joining and cutting


def append(arr, values, axis=None):
    """values behind arr along an axis; without one, of both flattened.

    >>> weft.append([1, 2], [[3], [4]]).tolist()
    [1, 2, 3, 4]
    """
    arr, values = _array(arr), _array(values)
    if axis is None:
        return _core.concatenate([_core.ravel(arr), _core.ravel(values)])
    return _core.concatenate([arr, values], axis)


def vstack(arrays):
    """Arrays below each other.

    >>> weft.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return _core.concatenate([atleast_2d(x) for x in arrays], 0)


def hstack(arrays):
    """Arrays beside each other.

    >>> weft.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    arrays = [atleast_1d(x) for x in arrays]
    return _core.concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


def dstack(arrays):
    """Arrays behind each other along a third axis.

    >>> weft.dstack([[1, 2], [3, 4]]).shape
    (1, 2, 2)
    """
    return _core.concatenate([atleast_3d(x) for x in arrays], 2)


def column_stack(arrays):
    """Arrays as the columns of a matrix.

    >>> weft.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    as_columns = lambda x: x if x.ndim > 1 else atleast_1d(x)[:, None]
    return _core.concatenate([as_columns(_array(x)) for x in arrays], 1)


def block(arrays):
    """Arrays in nested lists joined: the innermost along the last axis, those around along the one before.

    >>> weft.block([[[1.0], [2.0]], [[3.0], [4.0]]]).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    def depth(x):
        return 1 + builtins.max((depth(y) for y in x), default=0) if isinstance(x, list) else 0
    rank = builtins.max([depth(arrays)] + [_array(x).ndim for x in _leaves(arrays)])
    levels = depth(arrays)
    raised = lambda x: x[(None,) * (rank - x.ndim)] if x.ndim < rank else x
    join = lambda x, level: _core.concatenate([join(y, level - 1) for y in x], -level) if isinstance(x, list) else raised(_array(x))
    return join(arrays, levels)


def _leaves(x):
    return [z for y in x for z in _leaves(y)] if isinstance(x, list) else [x]


def array_split(ary, indices_or_sections, axis=0):
    """In as many parts, which need not be equally long, or at these places.

    >>> [part.tolist() for part in weft.array_split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    ary = _array(ary)
    axis = _axis(ary, axis)
    places = indices_or_sections
    if isinstance(places, int):
        if places < 1 or places > _MOST_TIMES:
            raise ValueError(f"array_split: {places} parts")
        n, parts = _sizes(ary)[axis], []
        for i in range(places - 1):  # what is left gets shorter, so that the sizes of all parts are seen to be n together
            length = (n + (places - 1 - i)) // places
            parts.append(_along(ary, axis, None, length))
            ary = _along(ary, axis, length)
        return parts + [ary]
    ends = [0, *places, None]
    return [_along(ary, axis, a, b) for a, b in zip(ends, ends[1:])]


def hsplit(ary, indices_or_sections):
    """Cut along the second axis, of one axis along that.

    >>> [part.tolist() for part in weft.hsplit([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    ary = _array(ary)
    return list(_core.split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0))


def vsplit(ary, indices_or_sections):
    """Cut along the first axis.

    >>> [part.tolist() for part in weft.vsplit([[1], [2]], 2)]
    [[[1]], [[2]]]
    """
    return list(_core.split(_array(ary), indices_or_sections, 0))


def dsplit(ary, indices_or_sections):
    """Cut along the third axis.

    >>> len(weft.dsplit(weft.ones((1, 1, 4)), 2))
    2
    """
    return list(_core.split(_array(ary), indices_or_sections, 2))


def _kept(n, obj):
    if isinstance(obj, slice):
        gone = range(n)[obj]
    else:
        gone = [obj] if isinstance(obj, int) else [int(i) for i in obj]
    for i in gone:
        if not -n <= i < n:
            raise IndexError(f"{_core.called()}: index {i} of an axis of {n}")
    gone = {i % n for i in gone}
    return [i for i in range(n) if i not in gone]


def _along(x, axis, start, stop=None):
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _places_in(n, places, more):
    """Places of an axis of n elements, which is not known yet, counted from the front; and n, which fails if one is not among these
    and `more`: an array would not, where it has no elements."""
    size = n
    for i in places:
        size = _core.assert_(size, n + more > i if i >= 0 else n >= -i, f"{_core.called()}: index {i} is outside of the axis")
    return [i if i >= 0 else n + i for i in places], size


def _side_by_side(integers):
    return _core.stack([_array(i, dtype=_core.int64) for i in integers]) if integers else _core.zeros((0,), _core.int64)


def _delete_open(arr, n, obj, axis):
    if isinstance(obj, slice):
        gone, size = _core.arange(n)[obj], n
    else:
        gone, size = _places_in(n, [obj] if isinstance(obj, int) else [int(i) for i in obj], 0)
    if isinstance(obj, int):
        return _core.concatenate([_along(arr, axis, None, gone[0]), _along(arr, axis, gone[0] + 1, size)], axis)
    from ._standard import isin
    gone = gone if isinstance(obj, slice) else _side_by_side(gone)
    return compress(~isin(_core.arange(size), gone), arr, axis)


def _insert_open(arr, n, obj, values, axis):
    if isinstance(obj, slice):
        raise ValueError("insert: before the elements of a slice, of an axis whose size is not known yet: give their places")
    is_one = isinstance(obj, int)
    places, size = _places_in(n, [obj] if is_one else [int(i) for i in obj], 1)
    if is_one and values.ndim == arr.ndim - 1:
        values = _core.expand_dims(values, axis)
    room = list(_sizes(arr))
    room[axis] = _sizes(values)[axis] if is_one and values.ndim == arr.ndim else len(places)
    values = _core.broadcast_to(values, room)
    if is_one:
        return _core.concatenate([_along(arr, axis, None, places[0]), values, _along(arr, axis, places[0], size)], axis)
    order = _core.argsort(_core.concatenate([2 * _core.arange(size) + 1, 2 * _side_by_side(places)]))
    return _core.take(_core.concatenate([arr, values], axis), order, axis)


def delete(arr, obj, axis=None):
    """Without what stands at an index, at indices or in a slice along the axis.

    >>> weft.delete([1, 2, 3], 1).tolist()
    [1, 3]
    """
    arr = _array(arr)
    arr, axis = (_core.ravel(arr), 0) if axis is None else (arr, _axis(arr, axis))
    n = _sizes(arr)[axis]
    if type(n) is not int:
        return _delete_open(arr, n, obj, axis)
    return _core.take(arr, _core.array(_kept(n, obj), dtype=_core.int32), axis)


def insert(arr, obj, values, axis=None):
    """With values before an index, or before each of some indices, of the axis.

    >>> weft.insert([1, 2, 3], 1, 5).tolist()
    [1, 5, 2, 3]
    """
    arr = _array(arr)
    arr, axis = (_core.ravel(arr), 0) if axis is None else (arr, _axis(arr, axis))
    n, values = _sizes(arr)[axis], _core.astype(_array(values), arr.dtype)
    if type(n) is not int or any(type(size) is not int for size in _sizes(values)):
        return _insert_open(arr, n, obj, values, axis)
    is_one = isinstance(obj, int)
    places = [obj] if is_one else list(range(n))[obj] if isinstance(obj, slice) else [int(i) for i in obj]
    for i in places:
        if not -n <= i <= n:
            raise IndexError(f"insert: index {i} of an axis of {n}")
    if is_one and values.ndim == arr.ndim:
        count = values.shape[axis]
    else:
        if is_one and values.ndim == arr.ndim - 1:
            values = _core.expand_dims(values, axis)
        count = builtins.max(1, values.shape[0]) if is_one and arr.ndim == 1 and values.ndim else len(places)
    sizes = _sizes(arr)
    values = _core.broadcast_to(values, sizes[:axis] + (count,) + sizes[axis + 1:])
    places = [places[0] % (n + 1) if places[0] >= 0 else places[0] + n] * count if is_one else [i if i >= 0 else i + n for i in places]
    order = sorted([(i, 1, i) for i in range(n)] + [(p, 0, n + k) for k, p in enumerate(places)])
    both = _core.concatenate([arr, values], axis)
    return _core.take(both, _core.array([i for _, _, i in order], dtype=_core.int32), axis)


def compress(condition, a, axis=None):
    """What stands along the axis where the condition holds.

    >>> weft.compress([True, False, True], [1, 2, 3]).tolist()
    [1, 3]
    """
    a = _array(a)
    a, axis = (_core.ravel(a), 0) if axis is None else (a, _axis(a, axis))
    return _core.take(a, _core.flatnonzero(_array(condition)), axis)


def extract(condition, arr):
    """The elements at which the condition holds.

    >>> weft.extract([True, False], [5, 6]).tolist()
    [5]
    """
    return compress(_core.ravel(_array(condition)), arr)


def trim_zeros(filt, trim="fb"):
    """A row without the zeros at its front ("f"), back ("b"), or both.

    >>> weft.trim_zeros([0, 1, 0, 2, 0]).tolist()
    [1, 0, 2]
    """
    filt = _array(filt)
    found = [int(i) for i in _core.flatnonzero(filt).tolist()]
    if not found:
        return filt[:0]
    return filt[found[0] if "f" in trim.lower() else 0:found[-1] + 1 if "b" in trim.lower() else filt.size]


# ---- indices


def argwhere(a):
    """The indices of the elements that are not 0, a row each.

    >>> weft.argwhere([[0, 5], [6, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    a = _array(a)
    if a.ndim == 0:
        return _core.zeros((int(bool(a.item())), 0), _core.int64)
    return _core.stack(_core.nonzero(a), 1)


def indices(dimensions, dtype=_core.int64):
    """For every place of an array of these dimensions, its index along each axis.

    >>> weft.indices((1, 2)).tolist()
    [[[0, 0]], [[0, 1]]]
    """
    n = tuple(dimensions)
    one = lambda k: _core.arange(n[k], dtype=dtype).reshape((1,) * k + (n[k],) + (1,) * (len(n) - k - 1))
    if not n:
        return _core.zeros((0,), dtype)
    return _core.stack([_core.broadcast_to(one(k), n) for k in range(len(n))], 0)


def diag_indices(n, ndim=2):
    """The indices of the diagonal of an array of n along each axis.

    >>> [i.tolist() for i in weft.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return (_core.arange(n),) * ndim


def tril_indices(n, k=0, m=None):
    """Rows and columns of the lower triangle of [n, m].

    >>> [i.tolist() for i in weft.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _core.nonzero(_core.tri(n, n if m is None else m, k) != 0)


def triu_indices(n, k=0, m=None):
    """Rows and columns of the upper triangle of [n, m].

    >>> [i.tolist() for i in weft.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _core.nonzero(_core.tri(n, n if m is None else m, k - 1) == 0)


def unravel_index(indices, shape):
    """Places in an array of this shape, row by row, as an index along each axis, int64. They are not checked.

    >>> [i.tolist() for i in weft.unravel_index([3], (2, 2))]
    [[1], [1]]
    """
    rest, out = _array(indices).astype(_core.int64), []
    for n in reversed((shape,) if isinstance(shape, int) else tuple(shape)):
        out.append(rest % n)
        rest = rest // n
    return tuple(reversed(out))


def ravel_multi_index(multi_index, dims):
    """The opposite of unravel_index: an index along each axis as places in an array of this shape, int64. They are not checked.

    >>> weft.ravel_multi_index(([1], [1]), (2, 2)).tolist()
    [3]
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"ravel_multi_index: {len(multi_index)} indices for {len(dims)} axes")
    out = 0
    for i, n in zip(multi_index, dims):
        out = out * n + _array(i).astype(_core.int64)
    return out


# ---- sets, order and choice


def union1d(ar1, ar2):
    """What is in either of them, sorted, each once.

    >>> weft.union1d([2, 1], [3, 1]).tolist()
    [1, 2, 3]
    """
    return _core.unique(append(ar1, ar2))


def intersect1d(ar1, ar2):
    """What is in both, sorted, each once.

    >>> weft.intersect1d([2, 1, 3], [3, 1]).tolist()
    [1, 3]
    """
    values, counts = _core.unique(append(_core.unique(_array(ar1)), _core.unique(_array(ar2))), return_counts=True)
    return compress(counts == 2, values)


def setxor1d(ar1, ar2):
    """What is in one of them alone, sorted, each once.

    >>> weft.setxor1d([2, 1, 3], [3, 1]).tolist()
    [2]
    """
    values, counts = _core.unique(append(_core.unique(_array(ar1)), _core.unique(_array(ar2))), return_counts=True)
    return compress(counts == 1, values)


def setdiff1d(ar1, ar2):
    """What is in the first and not in the second, sorted, each once.

    >>> weft.setdiff1d([2, 1, 3], [3, 1]).tolist()
    [2]
    """
    from ._standard import isin
    values = _core.unique(_array(ar1))
    return compress(_core.logical_not(isin(values, _array(ar2))), values)


def lexsort(keys, axis=-1):
    """The order that sorts by the last key, then the one before it, and so on.

    >>> weft.lexsort(([1, 0, 0], [2, 1, 2])).tolist()
    [1, 2, 0]
    """
    keys, order = [_array(k) for k in keys], None
    for key in keys:
        if order is None:
            order = _core.argsort(key, axis)
        else:
            order = _core.take_along_axis(order, _core.argsort(_core.take_along_axis(key, order, axis), axis), axis)
    return order


def select(condlist, choicelist, default=0):
    """Where the first of the conditions that holds says what is taken.

    >>> weft.select([[True, False], [True, True]], [1, 2]).tolist()
    [1, 2]
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: {len(condlist)} conditions and {len(choicelist)} choices")
    out = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        out = _where(_array(condition), choice, out)
    return out


def piecewise(x, condlist, funclist):
    """Functions of x, or numbers, each where its condition holds; one more is for what is left, which is 0 without it.

    >>> weft.piecewise([-1.0, 2.0], [weft.array([True, False])], [0.0, lambda x: x * x]).tolist()
    [0.0, 4.0]
    """
    x = _array(x)
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist]
    value = lambda f: f(x) if callable(f) else f
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise ValueError(f"piecewise: {len(condlist)} conditions and {len(funclist)} functions")
    out = _core.zeros_like(x) if len(funclist) == len(condlist) else value(funclist[-1])
    for condition, f in zip(condlist, funclist):
        out = _where(_array(condition), value(f), out)
    return _core.astype(_core.broadcast_to(_array(out), _sizes(x)), x.dtype)


# ---- statistics


def ptp(a, axis=None, keepdims=False):
    """The largest less the smallest.

    >>> weft.ptp([1, 5, 3]).tolist()
    4
    """
    a = _array(a)
    return _core.max(a, axis, keepdims) - _core.min(a, axis, keepdims)


def _hundredths(q):
    """q / 100 with all its digits: float32 has 7."""
    if isinstance(q, (int, float)):
        if not 0 <= q <= 100:
            raise ValueError(f"{_core.called()}: q is {q}, not in [0, 100]")
        return q / 100
    return [_hundredths(x) for x in q] if isinstance(q, (list, tuple)) else _core.astype(_array(q), _core.float64) / 100


def percentile(a, q, axis=None, method="linear", keepdims=False):
    """Below which q hundredths lie: see quantile.

    >>> weft.percentile([1.0, 2.0, 3.0], 50).tolist()
    2.0
    """
    return _core.quantile(a, _hundredths(q), axis, method=method, keepdims=keepdims)


def nanpercentile(a, q, axis=None, method="linear", keepdims=False):
    """percentile without the nans.

    >>> weft.nanpercentile([1.0, float("nan"), 3.0], 50).tolist()
    2.0
    """
    return _core.nanquantile(a, _hundredths(q), axis, method=method, keepdims=keepdims)


def average(a, axis=None, weights=None, keepdims=False):
    """The mean, of elements with weights.

    >>> weft.average([1.0, 4.0], weights=[2.0, 1.0]).tolist()
    2.0
    """
    a = _floats(a)
    if weights is None:
        return _core.mean(a, axis, keepdims)
    weights = _floats(weights)
    sizes, given = _sizes(a), _sizes(weights)
    if len(given) != len(sizes) or _differ(given, sizes):
        if not isinstance(axis, int) or len(given) != 1 or _differ(given, sizes[_axis(a, axis):][:1]):
            raise ValueError(f"average: weights {given} of an array {sizes} along {axis}")
        weights = weights[(slice(None),) + (None,) * (a.ndim - 1 - _axis(a, axis))]
    weights = _core.broadcast_to(weights, sizes)
    return _core.sum(a * weights, axis, keepdims) / _core.sum(weights, axis, keepdims)


def _is_one(n):
    """Of an open size: it is not 1, as functions for 1 are others."""
    return type(n) is int and n == 1


def cov(m, y=None, rowvar=True, bias=False, ddof=None):
    """Covariances of variables, a row each, or a column each.

    >>> weft.cov([[1.0, 3.0], [2.0, 4.0]]).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    as_rows = lambda x: atleast_2d(x) if rowvar or x.ndim < 2 else _core.transpose(x)
    m = _floats(m)
    is_vector, m = y is None and m.ndim < 2, as_rows(m)
    if m.ndim > 2:
        raise ValueError(f"{_core.called()}: of one or two axes, not of {m.ndim}")
    if y is not None:
        m = _core.concatenate([m, as_rows(_floats(y))], 0)
    n = _sizes(m)[1] - ((not bias) if ddof is None else ddof)
    d = m - _core.mean(m, 1, True)
    n = builtins.max(n, 0) if isinstance(n, (int, float)) else _core.astype(_core.maximum(n, 0), _core.real(d).dtype)
    c = _core.matmul(d, _core.conj(_core.transpose(d))) / n
    return c.reshape(()) if is_vector or _is_one(_sizes(m)[0]) else c


def corrcoef(x, y=None, rowvar=True):
    """Correlations of variables: see cov.

    >>> weft.corrcoef([[1.0, 3.0], [2.0, 4.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    d = _core.sqrt(_core.real(_core.diagonal(c)))
    return _core.clip(c / d[:, None] / d[None, :], -1, 1) if not c.dtype.name.startswith("complex") else c / d[:, None] / d[None, :]


def gradient(f, *varargs, axis=None, edge_order=1):
    """Differences in the middle, one-sided at the ends, along each axis; for spacings of 1, a number each, or places.

    >>> weft.gradient([1.0, 2.0, 4.0]).tolist()
    [1.0, 1.5, 2.0]
    """
    f = _floats(f)
    axes = range(f.ndim) if axis is None else [_axis(f, k) for k in ((axis,) if isinstance(axis, int) else axis)]
    apart = list(varargs) * (len(axes) if len(varargs) == 1 else 1) if varargs else [1.0] * len(axes)
    if len(apart) != len(axes):
        raise TypeError(f"gradient: {len(apart)} spacings of {len(axes)} axes")
    out = [_slopes(f, k, h, edge_order) for k, h in zip(axes, apart)]
    return out[0] if len(out) == 1 else tuple(out)


def _slopes(f, axis, h, edge_order):
    f, n = _core.moveaxis(f, axis, -1), _sizes(f)[axis]
    if type(n) is int and n <= edge_order:
        raise ValueError(f"gradient: an axis of {n} with edge_order {edge_order}")
    if type(n) is not int:
        n = _core.assert_(n, n > edge_order, f"gradient: the axis is too short for edge_order {edge_order}")
    h = _array(h)
    places = _core.arange(n, dtype=f.dtype) * h if h.ndim == 0 else _core.astype(h, f.dtype)
    step, rise = _core.diff(places), _core.diff(f, axis=-1)
    a, b = step[:-1], step[1:]
    middle = (rise[..., 1:] * (a / b) + rise[..., :-1] * (b / a)) / (a + b)
    first, last = rise[..., :1] / step[:1], rise[..., -1:] / step[-1:]
    if edge_order == 2:
        first, last = _end(f[..., :3], step[:2]), -_end(_core.flip(f[..., -3:], -1), _core.flip(step[-2:], 0))
    return _core.moveaxis(_core.concatenate([first, middle, last], -1), -1, axis)


def _end(f, step):
    a, b = step[0], step[1]
    return (f[..., 1:2] * ((a + b) / (a * b)) - f[..., :1] * ((2 * a + b) / (a * (a + b))) - f[..., 2:3] * (a / (b * (a + b))))


# ---- rows of numbers


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None):
    """base to powers that lie evenly.

    >>> weft.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    y = _core.power(_core.array(float(base)), _core.linspace(start, stop, num, endpoint=endpoint))
    return y if dtype is None else _core.astype(y, dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None):
    """Numbers each of which is the same multiple of the one before.

    >>> weft.geomspace(1, 4, 3).tolist()
    [1.0, 2.0, 4.0]
    """
    if start == 0 or stop == 0 or (start < 0) != (stop < 0):
        raise ValueError(f"geomspace: from {start} to {stop}")
    sign = -1 if start < 0 else 1
    y = sign * _core.exp2(_core.linspace(math.log2(abs(start)), math.log2(abs(stop)), num, endpoint=endpoint))
    return y if dtype is None else _core.astype(y, dtype)


def _window(n, *weights):
    """The sum of weights[k] cos(2 pi k i / (n - 1))."""
    if n < 2:
        return _core.ones((builtins.max(n, 0),))
    i = _core.arange(n, dtype=_core.float32) * (2 * math.pi / (n - 1))
    return builtins.sum((w * _core.cos(k * i) for k, w in enumerate(weights)), _core.zeros((n,)))


def hanning(M):
    """Hann's window.

    >>> weft.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window(M, 0.5, -0.5)


def hamming(M):
    """Hamming's window.

    >>> weft.hamming(1).tolist()
    [1.0]
    """
    return _window(M, 0.54, -0.46)


def blackman(M):
    """Blackman's window.

    >>> weft.blackman(1).tolist()
    [1.0]
    """
    return _window(M, 0.42, -0.5, 0.08)


def bartlett(M):
    """Bartlett's window, a triangle.

    >>> weft.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    if M < 2:
        return _core.ones((builtins.max(M, 0),))
    return 1 - _core.abs(_core.arange(M, dtype=_core.float32) * (2 / (M - 1)) - 1)


def kaiser(M, beta):
    """Kaiser's window.

    >>> weft.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    if M < 2:
        return _core.ones((builtins.max(M, 0),))
    x = _core.arange(M, dtype=_core.float32) * (2 / (M - 1)) - 1
    return _core.i0(beta * _core.sqrt(_core.maximum(1 - x * x, 0.0))) / _core.i0(_core.array(float(beta)))


def vander(x, N=None, increasing=False):
    """Powers of x, a column each.

    >>> weft.vander([2.0, 3.0], 3).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    x = _array(x)
    if x.ndim != 1:
        raise ValueError(f"vander: x is a vector, not of shape {x.shape}")
    size, = _sizes(x)
    n = size if N is None else N
    if type(n) is int and n == 0:
        return _core.zeros((size, 0), x.dtype)
    powers = _core.cumprod(_core.broadcast_to(x, (n - 1 if type(n) is int else _core.maximum(n - 1, 0), size)), 0)
    y = _core.transpose(_core.concatenate([_core.ones_like(x)[None], powers], 0)[:n])
    return y if increasing else _core.flip(y, 1)


# ---- polynomials, the highest power first


def _polynomial(p):
    """Its coefficients, a vector of them; a number is one of degree 0."""
    p = atleast_1d(p)
    if p.ndim != 1:
        raise ValueError(f"{_core.called()}: the coefficients of a polynomial are a vector, not of shape {p.shape}")
    return p


def polyval(p, x):
    """The polynomial's values at x.

    >>> weft.polyval([1.0, 0.0, 2.0], 3.0).tolist()
    11.0
    """
    p, x = _polynomial(p), _array(x)
    n, y = _sizes(p)[0], _core.zeros_like(x)
    if type(n) is not int:
        from ._loop import scan
        y = _core.astype(y, _core.result_type(p, x))
        return scan(lambda y, c: (_core.astype(y * x + c, y.dtype), None), y, p)[0]
    for i in range(n):
        y = y * x + p[i]
    return y


def polyadd(a1, a2):
    """Their sum.

    >>> weft.polyadd([1, 2], [3]).tolist()
    [1, 5]
    """
    a1, a2 = _polynomial(a1), _polynomial(a2)
    (n1,), (n2,) = _sizes(a1), _sizes(a2)
    n = builtins.max(n1, n2) if type(n1) is int and type(n2) is int else _core.maximum(n1, n2)
    longer = lambda a, size: _core.concatenate([_core.zeros((n - size,), a.dtype), a])
    return longer(a1, n1) + longer(a2, n2)


def polysub(a1, a2):
    """Their difference.

    >>> weft.polysub([1, 2], [3]).tolist()
    [1, -1]
    """
    return polyadd(a1, -_polynomial(a2))


def polymul(a1, a2):
    """Their product.

    >>> weft.polymul([1, 1], [1, -1]).tolist()
    [1, 0, -1]
    """
    return _core.convolve(_polynomial(a1), _polynomial(a2))


def polyder(p, m=1):
    """The m-th derivative.

    >>> weft.polyder([1, 2, 3]).tolist()
    [2, 2]
    """
    p = _polynomial(p)
    if m < 0:
        raise ValueError(f"polyder: m={m} is negative")
    size, = _sizes(p)
    for k in range(builtins.min(m, size) if type(size) is int else m):
        p = p[:-1] * _core.arange(_sizes(p)[0] - 1, 0, -1)
    return p


def polyint(p, m=1, k=0):
    """The m-th integral; k: what is added each time.

    >>> weft.polyint([2.0, 2.0]).tolist()
    [1.0, 2.0, 0.0]
    """
    p = _floats(_polynomial(p))
    if m < 0 or m > _MOST_TIMES:
        raise ValueError(f"polyint: m={m} is not in 0..{_MOST_TIMES}")
    for _ in range(m):
        p = _core.concatenate([p / _core.arange(_sizes(p)[0], 0, -1), _core.full((1,), k, p.dtype)])
    return p


# ---- products


def cross(a, b, axis=-1):
    """The vector product of vectors of 3 along an axis.

    >>> weft.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    from .linalg import cross
    return cross(_array(a), _array(b), axis=axis)


def vdot(a, b, /):
    """The sum of products of all elements, those of a conjugated.

    >>> weft.vdot([1, 2], [3, 4]).tolist()
    11
    """
    a, b = _core.ravel(_array(a)), _core.ravel(_array(b))
    n, m = _sizes(a)[0], _sizes(b)[0]
    if type(n) is int and type(m) is int and n != m:
        raise ValueError(f"vdot: {n} and {m} elements")
    return _core.inner(_core.conj(a), b)


def matvec(x1, x2, /):
    """Matrices by vectors.

    >>> weft.matvec([[1, 2]], [3, 4]).tolist()
    [11]
    """
    return _core.matmul(_array(x1), _array(x2)[..., None])[..., 0]


def vecmat(x1, x2, /):
    """Vectors, conjugated, by matrices.

    >>> weft.vecmat([1, 2], [[3], [4]]).tolist()
    [11]
    """
    return _core.matmul(_core.conj(_array(x1))[..., None, :], _array(x2))[..., 0, :]


def array_equiv(a1, a2):
    """Whether one broadcasts to the other and all are equal.

    >>> weft.array_equiv([1, 1], 1)
    True
    """
    from ._standard import broadcast_shapes
    a1, a2 = _array(a1), _array(a2)
    try:
        broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return bool(_core.all(a1 == a2).item())


def diagflat(v, k=0):
    """A matrix with the elements of v on a diagonal.

    >>> weft.diagflat([1, 2]).tolist()
    [[1, 0], [0, 2]]
    """
    return _core.diag(_core.ravel(_array(v)), k)
