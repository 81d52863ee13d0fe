"""Functions of mlx.core that are composed of others."""
import builtins
import math
import operator

from .. import _at, _core, _standard, _tree

_mlx = _core._mlx
array = _mlx.array


def _as_array(a):
    return a if isinstance(a, _core.array) else array(a)


def _expect(what, *arrays):
    for a in arrays:
        if not isinstance(a, _core.array):
            raise TypeError(f"{what}: an array is expected, not {type(a).__name__}")


# ---- Making


def arange(*args, start=None, stop=None, step=None, dtype=None, stream=None):
    """arange(stop), arange(start, stop, step=None, dtype=None): start, start + step, .. below stop.

    >>> mx.arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    given = dict(zip(("start", "stop", "step", "dtype"), args))
    for name, value in (("start", start), ("stop", stop), ("step", step), ("dtype", dtype)):
        if value is not None:
            if given.get(name) is not None:
                raise TypeError(f"arange: {name} is given twice")
            given[name] = value
    first, last, by, dtype = (given.get(name) for name in ("start", "stop", "step", "dtype"))
    for x in (first, last, by):
        if getattr(x, "size", 1) != 1:
            raise TypeError(f"arange: numbers are expected, not an array of {x.size}")
    if last is None:
        if start is not None or first is None:
            raise TypeError("arange: there is no stop")
        first, last = 0, first
    first, last, by = (x.item() if isinstance(x, _core.array) else x for x in (0 if first is None else first, last, 1 if by is None else by))
    if any(isinstance(x, float) and math.isnan(x) for x in (first, last, by)) or math.isinf(first) or math.isinf(last):
        raise ValueError(f"arange: from {first} to {last} by {by}")
    if by == 0:
        raise ValueError("arange: the step is 0")
    if dtype is None and all(isinstance(x, int) for x in (first, last, by)):
        dtype = _mlx.int32 if all(-2 ** 31 <= x < 2 ** 31 for x in (first, last, by)) else _mlx.int64
    if dtype is not None and dtype == _mlx.bool_:
        raise ValueError("arange: of bools")
    if math.isinf(by):
        return _mlx.full((1 if (last - first) * by > 0 else 0,), first, dtype or _mlx.float32)
    if (last - first) / by >= 2 ** 31:
        raise ValueError(f"arange: {(last - first) / by:.0f} elements are too many")
    return _mlx._arange(first, last, by, dtype)


def asarray(a, dtype=None, *, copy=None):
    """An array of a. copy=False is refused, as MLX refuses it without Metal; weft.asarray shares memory.

    >>> mx.asarray([1, 2]).tolist()
    [1, 2]
    """
    if copy is False:
        raise ValueError("asarray: copy=False cannot be met; weft.asarray shares memory")
    if isinstance(a, array) and not copy and (dtype is None or a.dtype == dtype):
        return a
    return array(a, dtype)


def from_dlpack(x, /, *, copy=None):
    """An array of the memory of x, which is shared unless copy is true or doubles have to be narrowed.

    >>> mx.from_dlpack(mx.array([1, 2])).tolist()
    [1, 2]
    """
    if copy:
        return array(x)
    try:
        shared = _mlx.as_mlx(_core.from_dlpack(x))
    except BufferError:
        if not hasattr(x, "__array_interface__"):
            raise
        shared = _mlx.as_mlx(_core.asarray(x))
    except TypeError as why:  # of a dtype that weft has not
        raise ValueError(str(why)) from why
    if any(n < 0 for n in getattr(x, "strides", ())):
        raise ValueError("from_dlpack: a stride is negative")
    narrow = {"float64": _mlx.float32, "complex128": _mlx.complex64}.get(shared.dtype.name)
    return shared if narrow is None else shared.astype(narrow)


def _window(n, numbers):
    n = operator.index(n)
    if n < 1:
        return _mlx.zeros((0,))
    if n == 1:
        return _mlx.ones((1,))
    angle = _mlx._arange(0, n, 1, _mlx.float32) * (2 * math.pi / (n - 1))
    return builtins.sum((c * _mlx.cos(k * angle) for k, c in enumerate(numbers[1:], 1)), _mlx.full((n,), numbers[0]))


def hanning(M, *, stream=None):
    """Hann's window of M.

    >>> mx.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window(M, (0.5, -0.5))


def hamming(M, *, stream=None):
    """Hamming's window of M.

    >>> mx.hamming(1).tolist()
    [1.0]
    """
    return _window(M, (0.54, -0.46))


def blackman(M, *, stream=None):
    """Blackman's window of M.

    >>> mx.blackman(1).tolist()
    [1.0]
    """
    return _window(M, (0.42, -0.5, 0.08))


def bartlett(M, *, stream=None):
    """Bartlett's window of M: a triangle.

    >>> mx.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    M = operator.index(M)
    if M < 1:
        return _mlx.zeros((0,))
    if M == 1:
        return _mlx.ones((1,))
    return 1 - _mlx.abs(_mlx._arange(0, M, 1, _mlx.float32) * (2 / (M - 1)) - 1)


def meshgrid(*arrays, sparse=False, indexing="xy", stream=None):
    """Coordinates of a grid, one array for each axis.

    >>> [a.tolist() for a in mx.meshgrid(mx.array([1, 2]), mx.array([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r} is neither 'xy' nor 'ij'")
    _expect("meshgrid", *arrays)
    n = len(arrays)
    out = [a.reshape([-1 if k == i else 1 for k in range(n)]) for i, a in enumerate(arrays)]
    if indexing == "xy" and n > 1:
        out = [_mlx.swapaxes(a, 0, 1) for a in out]
    return tuple(out if sparse else broadcast_arrays(*out))


# ---- Shapes


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to.

    >>> mx.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    if not shapes:
        raise ValueError("broadcast_shapes: there are no shapes")
    for shape in shapes:
        if not isinstance(shape, (list, tuple, range)):
            raise ValueError(f"broadcast_shapes: a shape is a list or a tuple of ints, not {type(shape).__name__}")
    return _standard.broadcast_shapes(*(tuple(map(operator.index, shape)) for shape in shapes))


def broadcast_arrays(*arrays, stream=None):
    """The arrays in the shape that they broadcast to.

    >>> [a.tolist() for a in mx.broadcast_arrays(mx.array([1, 2]), mx.array(3))]
    [[1, 2], [3, 3]]
    """
    if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)):
        arrays = arrays[0]
    _expect("broadcast_arrays", *arrays)
    shape = broadcast_shapes(*(a.shape for a in arrays)) if arrays else ()
    return [_mlx.broadcast_to(a, shape) for a in arrays]


def matrix_transpose(a, /, *, stream=None):
    """The transposes of the matrices of the last two axes.

    >>> mx.matrix_transpose(mx.ones((2, 3, 4))).shape
    (2, 4, 3)
    """
    _expect("matrix_transpose", a)
    if a.ndim < 2:
        raise ValueError(f"matrix_transpose: of an array of {a.ndim} axes")
    return _mlx.swapaxes(a, -1, -2)


def _at_least(rank, place):
    def function(*arys, stream=None):
        if len(arys) == 1 and isinstance(arys[0], (list, tuple)):
            arys = arys[0]
        out = [place(_as_array(a)) for a in arys]
        return out[0] if len(out) == 1 else out

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = (f"The arrays with {rank} axes at least.\n\n"
                        f"    >>> mx.atleast_{rank}d(mx.array(1)).tolist()\n    {'[' * rank}1{']' * rank}\n")
    return function


atleast_1d = _at_least(1, lambda a: a if a.ndim else a.reshape((1,)))
atleast_2d = _at_least(2, lambda a: a if a.ndim > 1 else a.reshape((1, -1)))
atleast_3d = _at_least(3, lambda a: a if a.ndim > 2 else _mlx.expand_dims(a, 2) if a.ndim == 2 else a.reshape((1, -1, 1)))


def unflatten(a, /, axis, shape, *, stream=None):
    """One axis as several.

    >>> mx.unflatten(mx.arange(4), 0, (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    a, shape = _as_array(a), tuple(shape)
    if not shape:
        raise ValueError("unflatten: the shape is empty")
    axis = _check_axis("unflatten", a, axis) % a.ndim
    if -1 in shape:
        rest = math.prod(n for n in shape if n != -1)
        shape = tuple(a.shape[axis] // builtins.max(rest, 1) if n == -1 else n for n in shape)
    if math.prod(shape) != a.shape[axis]:
        raise ValueError(f"unflatten: an axis of {a.shape[axis]} is not {shape}")
    return a.reshape(a.shape[:axis] + shape + a.shape[axis + 1:])


def unstack(x, /, *, axis=0, stream=None):
    """The arrays that stand along an axis.

    >>> [a.tolist() for a in mx.unstack(mx.array([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    _expect("unstack", x)
    if not x.ndim:
        raise ValueError("unstack: the array has no axes")
    parts = _mlx.moveaxis(x, axis, 0)
    return tuple(parts[i] for i in range(parts.shape[0]))


def contiguous(a, /, allow_col_major=False, *, stream=None):
    """The same array: how it lies in memory is weft's matter.

    >>> mx.contiguous(mx.array([[1, 2], [3, 4]]).T).tolist()
    [[1, 3], [2, 4]]
    """
    return _as_array(a)


def get_array_buffer_size(*args):
    """Bytes of the elements of all arrays in these trees, each array once: all that a program can rely on.

    >>> mx.get_array_buffer_size([mx.zeros(4), mx.zeros(1)])
    20
    """
    return builtins.sum({id(a): a.nbytes for a in _tree.flatten(args)[0]}.values())


def view(a, dtype, stream=None):
    """The bits of a as numbers of another dtype.

    >>> mx.view(mx.array([1.0]), mx.int32).tolist()
    [1065353216]
    """
    a = _as_array(a)
    if not isinstance(dtype, _mlx.Dtype):
        raise TypeError(f"view: a dtype is expected, not {type(dtype).__name__}")
    if dtype == a.dtype:
        return a
    if not a.ndim and dtype.size != a.dtype.size:
        raise ValueError(f"view: a 0-d array of {a.dtype.name} is not one of {dtype.name}")
    if a.ndim and a.shape[-1] * a.dtype.size % dtype.size:
        raise ValueError(f"view: the last axis, {a.shape[-1]} of {a.dtype.name}, is no multiple of {dtype.name}")
    return _mlx._view(a, dtype)


def trace(a, /, offset=0, axis1=0, axis2=1, dtype=None, *, stream=None):
    """The sum along a diagonal.

    >>> mx.trace(mx.array([[1, 2], [3, 4]])).item()
    5
    """
    diagonal = _mlx.diagonal(a, offset, axis1, axis2)
    return _mlx.sum(diagonal if dtype is None else diagonal.astype(dtype), -1)


def depends(inputs, dependencies):
    """The inputs, computed after the dependencies.

    >>> mx.depends(mx.array(1), mx.array(2)).item()
    1
    """
    many = isinstance(inputs, (list, tuple))
    on = list(dependencies) if isinstance(dependencies, (list, tuple)) else [dependencies]
    out = [_mlx._depends(a, on) for a in (inputs if many else [inputs])]
    return out if many else out[0]


# ---- Elements


def isposinf(a, stream=None):
    """Where a is inf.

    >>> mx.isposinf(mx.array([mx.inf, -mx.inf, 1])).tolist()
    [True, False, False]
    """
    a = _real_of(_as_array(a))
    return a == math.inf if _is_float(a) else _mlx.zeros(a.shape, _mlx.bool_)


def _real_of(a):
    return _mlx.real(a) if a.dtype.name.startswith("complex") else a


def isneginf(a, stream=None):
    """Where a is -inf.

    >>> mx.isneginf(mx.array([mx.inf, -mx.inf, 1])).tolist()
    [False, True, False]
    """
    a = _real_of(_as_array(a))
    return a == -math.inf if _is_float(a) else _mlx.zeros(a.shape, _mlx.bool_)


def _is_float(a):
    return a.dtype.name.startswith(("float", "bfloat"))


def nan_to_num(a, nan=0, posinf=None, neginf=None, *, stream=None):
    """a with numbers in the place of nan and infinities, the largest and smallest by default.

    >>> mx.nan_to_num(mx.array([mx.nan, 1])).tolist()
    [0.0, 1.0]
    """
    from ._dtype import finfo
    a = _as_array(a)
    if not _is_float(a):
        return a
    most = finfo(a.dtype)
    number = lambda x: array(x, a.dtype)
    a = _mlx.where(_mlx.isnan(a), number(nan), a)
    a = _mlx.where(isposinf(a), number(most.max if posinf is None else posinf), a)
    return _mlx.where(isneginf(a), number(most.min if neginf is None else neginf), a)


def divmod(a, b, stream=None):
    """[the quotient rounded down, the rest]

    >>> [a.tolist() for a in mx.divmod(mx.array([7, -7]), 2)]
    [[3, -4], [1, 1]]
    """
    return [_mlx.stop_gradient(_mlx.floor_divide(a, b)), _mlx.stop_gradient(_mlx.remainder(a, b))]


def count_nonzero(a, /, *, axis=None, keepdims=False, stream=None):
    """How many are not 0.

    >>> mx.count_nonzero(mx.array([0, 3, 4])).item()
    2
    """
    return _mlx.sum(_mlx.not_equal(a, 0).astype(_mlx.int32), axis, keepdims)


def diff(a, /, n=1, axis=-1, *, stream=None):
    """Differences of neighbours along an axis, n times.

    >>> mx.diff(mx.array([1, 4, 9])).tolist()
    [3, 5]
    """
    a, n, axis = _as_array(a), operator.index(n), operator.index(axis)
    if n < 0:
        raise ValueError(f"diff: n is {n}")
    axis = _check_axis("diff", a, axis)
    for _ in range(builtins.min(n, a.shape[axis])):
        length = a.shape[axis]
        before = (builtins.slice(None),) * (axis % a.ndim)
        later, earlier = a[before + (builtins.slice(1, None),)], a[before + (builtins.slice(0, builtins.max(length - 1, 0)),)]
        a = _mlx.not_equal(later, earlier) if a.dtype == _mlx.bool_ else later - earlier
    return a


def _check_axis(what, a, axis):
    """The axis as an int."""
    axis = operator.index(axis)
    if not -a.ndim <= axis < a.ndim:
        raise _core.AxisError(f"{what}: there is no axis {axis} among {a.ndim}")
    return axis


# ---- Order


def minmax(a, /, axis=None, keepdims=False, *, stream=None):
    """(the smallest, the largest)

    >>> [a.item() for a in mx.minmax(mx.array([3, 1, 2]))]
    [1, 3]
    """
    return _mlx.min(a, axis, keepdims), _mlx.max(a, axis, keepdims)


def unique(a, /, size, return_index=False, return_inverse=False, return_counts=False, fill_value=None, *, stream=None):
    """The different elements in order, as many as size says: the smallest ones, with fill_value, or the first again, behind them. With
    them, if asked for, where each stood first, which of them each element is, and how often each is there.

    >>> mx.unique(mx.array([3, 1, 3]), size=2).tolist()
    [1, 3]
    """
    a = _as_array(a)
    flat = a.flatten()
    if not flat.size:
        raise ValueError("unique: of no elements")
    order = _mlx.argsort(flat)
    ordered = flat[order]
    is_new = _mlx.concatenate([_mlx.ones((1,), _mlx.bool_), ordered[1:] != ordered[:-1]])
    number = _mlx.cumsum(is_new.astype(_mlx.int32)) - 1
    place = _mlx.minimum(number, size)  # what is too many goes behind the end, and is cut off
    if size < 0:
        raise ValueError(f"unique: {size} elements")
    fill = ordered[0] if fill_value is None else _as_array(fill_value).astype(a.dtype)
    firsts = _mlx.where(is_new, place, size)
    put = lambda start, values: _core.put(_mlx.broadcast_to(start, (size + 1,)), firsts, values, 0)[:size]
    found = [put(fill, ordered)]
    if return_index:
        found.append(put(order[0], order))
    if return_inverse:
        inverse = _core.put(_mlx.zeros(flat.shape, _mlx.uint32), order, _mlx.minimum(number, builtins.max(size - 1, 0)), 0)
        found.append(inverse.reshape(a.shape))
    if return_counts:
        counts = _core.put(_mlx.zeros((size + 1,), _mlx.int32), place, _mlx.ones_like(place), 1)
        found.append(counts[:size])
    return found[0] if len(found) == 1 else tuple(found)


def take_along_axis(a, /, indices, axis=-1, *, stream=None):
    """a[.., indices[.., i, ..], ..], i along the axis.

    >>> mx.take_along_axis(mx.array([[1, 2], [3, 4]]), mx.array([[1], [0]]), axis=1).tolist()
    [[2], [3]]
    """
    a, indices = _as_array(a), _as_array(indices)
    if axis is None:
        return _mlx._take_along(a.flatten(), indices.flatten(), 0)
    if a.ndim != indices.ndim:
        raise ValueError(f"take_along_axis: indices of {indices.ndim} axes for an array of {a.ndim}")
    return _mlx._take_along(a, indices, axis)


def put_along_axis(a, /, indices, values, axis=None, *, stream=None):
    """A new a, with a[.., indices[.., i, ..], ..] set to the values.

    >>> mx.put_along_axis(mx.array([1, 2, 3]), mx.array([1]), mx.array([9]), axis=0).tolist()
    [1, 9, 3]
    """
    a, indices = _as_array(a), _as_array(indices)
    if not indices.size:
        return a
    if axis is None:
        flat = _mlx._put_along(a.flatten(), indices.flatten(), _mlx.broadcast_to(_as_array(values), indices.shape).flatten(), 0)
        return flat.reshape(a.shape)
    if a.ndim != indices.ndim:
        raise ValueError(f"put_along_axis: indices of {indices.ndim} axes for an array of {a.ndim}")
    return _mlx._put_along(a, indices, values, axis)


def _window_of(a, start_indices, axes, sizes):
    for axis in axes:
        _check_axis("slice", a, axis)
    axes = [k % a.ndim for k in axes]
    if len(set(axes)) != len(axes):
        raise ValueError("slice: an axis is named twice")
    given = _as_array(start_indices)
    starts = given.reshape((-1,))
    if starts.size != len(axes):
        raise ValueError(f"slice: {starts.size} starts for {len(axes)} axes")
    for i, axis in enumerate(axes):
        if not 0 <= sizes[axis] <= a.shape[axis]:
            raise ValueError(f"slice: {sizes[axis]} elements of an axis of {a.shape[axis]}")
    if _core.state(given) == "ready":  # known: a part like any other, which needs no indices
        known = dict(zip(axes, starts.tolist()))
        begins = [min(max(known.get(axis, 0), 0), a.shape[axis] - sizes[axis]) for axis in range(a.ndim)]
        return a[tuple(builtins.slice(at, at + n) for at, n in zip(begins, sizes))]
    part = a
    for axis in range(a.ndim):
        if axis in axes:
            at = starts[axes.index(axis)].astype(_mlx.int32)
            part = _mlx._window(part, _mlx.clip(at, 0, a.shape[axis] - sizes[axis]), sizes[axis], axis)
        elif sizes[axis] != a.shape[axis]:
            part = part[(builtins.slice(None),) * axis + (builtins.slice(0, sizes[axis]),)]
    return part


def slice(a, start_indices, axes, slice_size, *, stream=None):
    """slice_size elements from start_indices on, which may be computed, along these axes.

    >>> mx.slice(mx.arange(5), mx.array([2]), (0,), (2,)).tolist()
    [2, 3]
    """
    a = _as_array(a)
    if len(slice_size) != a.ndim:
        raise ValueError(f"slice: {len(slice_size)} sizes for {a.ndim} axes")
    return _window_of(a, start_indices, axes, list(slice_size))


def slice_update(a, update, start_indices, axes, *, stream=None):
    """a with the elements from start_indices on set to the update.

    >>> mx.slice_update(mx.zeros(4), mx.ones(2), mx.array([1]), (0,)).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    a, update = _as_array(a), _as_array(update)
    while update.ndim < a.ndim:
        update = _mlx.expand_dims(update, 0)
    if update.ndim > a.ndim:
        raise ValueError(f"slice_update: {update.ndim} axes for an array of {a.ndim}")
    return _mlx._put(a, _window_of(a, start_indices, axes, list(update.shape)), update)


# ---- Products


def inner(a, b, /, *, stream=None):
    """The sum of products over the last axes.

    >>> mx.inner(mx.array([1, 2]), mx.array([3, 4])).item()
    11
    """
    a, b = _as_array(a), _as_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    return _mlx.tensordot(a, b, [[a.ndim - 1], [b.ndim - 1]])


def vecdot(a, b, /, *, axis=-1, stream=None):
    """The sum of conj(a) b along an axis.

    >>> mx.vecdot(mx.array([1, 2]), mx.array([3, 4])).item()
    11
    """
    a, b = _as_array(a), _as_array(b)
    axis = _check_axis("vecdot", a, axis)
    _check_axis("vecdot", b, axis)
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: {a.shape[axis]} and {b.shape[axis]} elements")
    return _mlx.sum(_mlx.conj(a) * b, axis)


def kron(a, b, *, stream=None):
    """Every element of a times b, as blocks.

    >>> mx.kron(mx.array([1, 2]), mx.array([1, 10])).tolist()
    [1, 10, 2, 20]
    """
    a, b = _as_array(a), _as_array(b)
    if not a.size or not b.size:
        raise ValueError("kron: an array is empty")
    rank = builtins.max(a.ndim, b.ndim)
    a, b = a.reshape((1,) * (rank - a.ndim) + a.shape), b.reshape((1,) * (rank - b.ndim) + b.shape)
    left = [n for size in a.shape for n in (size, 1)]
    right = [n for size in b.shape for n in (1, size)]
    return (a.reshape(left) * b.reshape(right)).reshape([x * y for x, y in zip(a.shape, b.shape)])


def _blocks(mask, size, shape):
    mask = _mlx.repeat(_mlx.repeat(mask, size, -1), size, -2)
    return mask[..., :shape[-2], :shape[-1]]


def block_masked_mm(a, b, /, block_size=64, mask_out=None, mask_lhs=None, mask_rhs=None, *, stream=None):
    """a b, with blocks of a, b and the product masked.

    >>> mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 32)), 32, mx.array([[False]])).max().item()
    0.0
    """
    _expect("block_masked_mm", a, b)
    if block_size not in (32, 64):
        raise ValueError(f"block_masked_mm: blocks are of 32 or 64, not {block_size}")
    masked = lambda x, mask: x if mask is None else _mask(x, _blocks(mask, block_size, x.shape))
    product = _mlx.matmul(masked(a, mask_lhs), masked(b, mask_rhs))
    return masked(product, mask_out)


def _mask(x, mask):
    return _mlx.where(mask, x, array(0, x.dtype)) if mask.dtype == _mlx.bool_ else x * mask


def gather_mm(a, b, /, lhs_indices=None, rhs_indices=None, *, sorted_indices=False, stream=None):
    """Products of the matrices that indices choose.

    >>> mx.gather_mm(mx.ones((1, 2)), mx.ones((3, 2, 1)), None, mx.array([2])).tolist()
    [[[2.0]]]
    """
    _expect("gather_mm", a, b)
    if lhs_indices is None and rhs_indices is None:
        return _mlx.matmul(a, b)
    if not _is_float(a) and not a.dtype.name.startswith("complex"):
        raise ValueError(f"gather_mm: only floating types are supported, not {a.dtype.name}")
    from ._transform import _check_indices
    _check_indices("gather_mm", lhs_indices, rhs_indices)
    chosen = lambda x, at: x if at is None else x.reshape((-1,) + x.shape[-2:])[at]
    every = lambda x: _mlx._arange(0, math.prod(x.shape[:-2]), 1, _mlx.uint32).reshape(x.shape[:-2])
    lhs = every(a) if lhs_indices is None else lhs_indices
    rhs = every(b) if rhs_indices is None else rhs_indices
    lhs, rhs = broadcast_arrays(lhs, rhs)
    return _mlx.matmul(chosen(a, lhs), chosen(b, rhs))


def segmented_mm(a, b, /, segments, *, stream=None):
    """Products over parts of the inner axis, from segments[.., 0] to segments[.., 1].

    >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
    [[[1.0]], [[3.0]]]
    """
    _expect("segmented_mm", a, b, segments)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError("segmented_mm: matrices are expected")
    at = _mlx._arange(0, a.shape[1], 1, _mlx.uint32)
    ends = _mlx.expand_dims(segments, -1)
    inside = ((at >= ends[..., 0, :]) & (at < ends[..., 1, :])).astype(a.dtype)
    return _mlx.matmul(a * _mlx.expand_dims(inside, -2), b)


def hadamard_transform(a, scale=None, stream=None):
    """The product of the last axis with Hadamard's matrix, times 1 / sqrt(n) unless a scale is given.

    >>> mx.hadamard_transform(mx.array([1.0, 2.0]), 1.0).tolist()
    [3.0, -1.0]
    """
    a = _as_array(a)
    if a.dtype.name.startswith("complex"):
        return hadamard_transform(_mlx.real(a), scale) + 1j * hadamard_transform(_mlx.imag(a), scale)
    if not _is_float(a):
        a = a.astype(_mlx.float32)
    return _mlx._hadamard(a, scale) if scale != 0 else _mlx.zeros_like(a)


def _is_one(x):
    """Whether it is an integer: Python's, NumPy's, a 0-d array."""
    return hasattr(type(x), "__index__") and not getattr(x, "ndim", 0)


def _pair(x, n):
    return [operator.index(x)] * n if _is_one(x) else list(x)


def conv_general(input, weight, /, stride=1, padding=0, kernel_dilation=1, input_dilation=1, groups=1, flip=False, *, stream=None):
    """Convolution over any number of axes; channels are last.

    >>> mx.conv_general(mx.ones((1, 3, 1)), mx.ones((1, 2, 1))).tolist()
    [[[2.0], [2.0]]]
    """
    _expect("conv", input, weight)
    n = input.ndim - 2
    if n < 1:
        raise ValueError(f"conv: an input of {input.ndim} axes")
    if weight.ndim != input.ndim:
        raise ValueError(f"conv: weights of {weight.ndim} axes for an input of {input.ndim}")
    if not _is_one(padding) and len(padding) == 2 and not _is_one(padding[0]):
        padding = list(zip(_pair(padding[0], n), _pair(padding[1], n)))
    else:
        padding = [(p, p) for p in _pair(padding, n)]
    return _mlx._conv(input, weight, _pair(stride, n), padding, _pair(kernel_dilation, n), groups, flip, _pair(input_dilation, n))


def _example(rank, name):
    return (f"\n\n    >>> mx.{name}{rank}d(mx.ones({(1,) + (2,) * rank + (3,)}), mx.ones({(4,) + (1,) * rank + (3,)})).shape\n"
            f"    {(1,) + (2,) * rank + (4,)}\n")


def _check_each(what, rank, **given):
    """One integer, or one for each axis: others are no arguments of the function, as there."""
    for name, x in given.items():
        if not _is_one(x) and (not hasattr(x, "__len__") or len(x) != rank):
            raise TypeError(f"{what}: {name} is an integer, or one for each of {rank} axes, not {x!r}")


def _conv(rank):
    def function(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None):
        _check_each(f"conv{rank}d", rank, stride=stride, padding=padding, dilation=dilation)
        return conv_general(input, weight, stride, padding, dilation, 1, groups)

    function.__name__ = function.__qualname__ = f"conv{rank}d"
    function.__doc__ = f"Convolution over {rank} axes; channels are last.{_example(rank, 'conv')}"
    return function


def _conv_transpose(rank):
    def function(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, stream=None):
        _expect(f"conv_transpose{rank}d", input, weight)
        if input.ndim != rank + 2 or weight.ndim != rank + 2:
            raise ValueError(f"conv_transpose{rank}d: an input and weights of {rank + 2} axes, not {input.ndim} and {weight.ndim}")
        _check_each(f"conv_transpose{rank}d", rank, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding)
        stride, padding, dilation, more = (_pair(x, rank) for x in (stride, padding, dilation, output_padding))
        full = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[1:-1], padding)]
        around = [full, [p + extra for p, extra in zip(full, more)]]
        return conv_general(input, weight, 1, around, dilation, stride, groups, True)

    function.__name__ = function.__qualname__ = f"conv_transpose{rank}d"
    function.__doc__ = f"The transpose of a convolution over {rank} axes; channels are last.{_example(rank, 'conv_transpose')}"
    return function


conv1d, conv2d, conv3d = _conv(1), _conv(2), _conv(3)
conv_transpose1d, conv_transpose2d, conv_transpose3d = _conv_transpose(1), _conv_transpose(2), _conv_transpose(3)


def convolve(a, v, /, mode="full", *, stream=None):
    """Convolution of two sequences.

    >>> mx.convolve(mx.array([1.0, 2.0]), mx.array([1.0, 10.0])).tolist()
    [1.0, 12.0, 20.0]
    """
    a, v = _as_array(a), _as_array(v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError("convolve: sequences of one axis are expected")
    if not a.size or not v.size:
        raise ValueError("convolve: a sequence is empty")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolve: mode={mode!r} is none of full, same, valid")
    a, v = (v, a) if a.size < v.size else (a, v)
    n = v.size
    around = {"full": (n - 1, n - 1), "valid": (0, 0), "same": (n // 2, n - 1 - n // 2)}[mode]
    return conv_general(a.reshape((1, -1, 1)), v[::-1].reshape((1, -1, 1)), 1, ([around[0]], [around[1]])).reshape((-1,))


# ---- Methods that the array has of these


class _Updates(_at.Updates):
    def _put(self, value, how):
        device = _mlx._place(None)
        if device >= 0:
            return _mlx._run_at(device, lambda x, value: _Updates(x, self._index)._put(value, how), (self._x, value), {})
        try:
            return super()._put(value, how)
        except _core.RangeError:
            raise
        except (IndexError, TypeError) as error:  # as of x[index] = value
            raise (TypeError if value is None else ValueError)(str(error)) from error

    def divide(self, value):  # by what the array can hold, as there
        whole = self._x.dtype.name in _at._WHOLE and not isinstance(value, (int, bool))
        return super().divide(_as_array(value).astype(self._x.dtype) if whole else value)


class ArrayAt(_at.At):
    """x.at, to be indexed."""

    def __getitem__(self, index):
        return _Updates(self._x, index)

    def _refuse(self, value):
        raise ValueError("at: an index comes first, x.at[i].add(v)")

    add = subtract = multiply = divide = maximum = minimum = _refuse


def _values(x):
    if isinstance(x, _core.array):
        return x.__array__()
    if isinstance(x, (list, tuple)):
        return type(x)(map(_values, x))
    return {key: _values(item) for key, item in x.items()} if type(x) is dict else x


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """NumPy's functions give NumPy's arrays, as they do of MLX's."""
    return getattr(ufunc, method)(*_values(inputs), **_values(kwargs))


def _array_function(self, func, types, args, kwargs):
    return func(*_values(args), **_values(kwargs))


_mlx._add_method("__array_ufunc__", _array_ufunc)
_mlx._add_method("__array_function__", _array_function)
_mlx._add_method("at", property(ArrayAt))
_mlx._add_method("view", view)
_mlx._add_method("mT", property(lambda a: matrix_transpose(a)))
_mlx._add_method("__div__", array.__truediv__)
_mlx._add_method("__rdiv__", array.__rtruediv__)
