"""Functions written with others."""
import math
import operator

from . import _core
from ._core import array, asarray


def _shape(shape):
    return (shape,) if hasattr(shape, "__index__") else tuple(shape)


# ---- Making


def full(shape, value, dtype=None):
    """An array of this shape, with value (which may be an array that broadcasts) everywhere."""
    return _core.full(shape, value, dtype)


def zeros(shape, dtype=_core.float32):
    return _core.full(shape, 0, dtype)


def ones(shape, dtype=_core.float32):
    return _core.full(shape, 1, dtype)


def full_like(a, value, dtype=None):
    return _core.full(a.shape, value, dtype or a.dtype)


def zeros_like(a, dtype=None):
    return full_like(a, 0, dtype)


def ones_like(a, dtype=None):
    return full_like(a, 1, dtype)


def arange(start, stop=None, step=None, dtype=None):
    """start, start + step, .. below stop; arange(stop) starts at 0. Integers give int32 or int64, else float32."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("arange: the step is 0")
    n = max(0, math.ceil((stop - start) / step))
    if dtype is None:
        whole = all(isinstance(x, int) for x in (start, stop, step))
        large = whole and max(abs(start), abs(stop)) >= 2**31
        dtype = _core.int64 if large else _core.int32 if whole else _core.float32
    return _core.range(_number(start), _number(step), n, dtype)


def _number(x):
    try:
        return operator.index(x)
    except TypeError:
        return float(x)


def linspace(start, stop, num=50, endpoint=True, dtype=_core.float32):
    """num values from start to stop, evenly spaced."""
    if num < 2:
        return full((num,), start, dtype)
    parts = num - 1 if endpoint else num
    values = _core.range(0.0, 1.0, num, _core.float64) / float(parts) * (float(stop) - float(start)) + float(start)
    if endpoint:
        values[-1] = float(stop)
    return values.astype(dtype)


def eye(n, m=None, k=0, dtype=_core.float32):
    """Ones on the k-th diagonal of an n x m array, else zeros."""
    m = n if m is None else m
    return ((arange(n)[:, None] + k) == arange(m)[None, :]).astype(dtype)


def identity(n, dtype=_core.float32):
    return eye(n, dtype=dtype)


def tri(n, m=None, k=0, dtype=_core.float32):
    """Ones on and below the k-th diagonal, else zeros."""
    m = n if m is None else m
    return ((arange(n)[:, None] + k) >= arange(m)[None, :]).astype(dtype)


def tril(x, k=0):
    """x on and below the k-th diagonal, else zeros."""
    return _core.where(tri(x.shape[-2], x.shape[-1], k, _core.bool_), x, zeros((), x.dtype))


def triu(x, k=0):
    """x on and above the k-th diagonal, else zeros."""
    return _core.where(tri(x.shape[-2], x.shape[-1], k - 1, _core.bool_), zeros((), x.dtype), x)


# ---- Elements


def clip(a, a_min=None, a_max=None):
    """a, but not below a_min nor above a_max."""
    if a_min is not None:
        a = _core.maximum(a, a_min)
    return asarray(a if a_max is None else _core.minimum(a, a_max))


def degrees(a):
    return _core.multiply(a, 180 / math.pi)


def radians(a):
    return _core.multiply(a, math.pi / 180)


def round(a, decimals=0):
    """To so many decimals, halves to the even one."""
    if decimals == 0:
        return _core.round(a)
    scale = 10.0**decimals
    return _core.round(_core.multiply(a, scale)) / scale


def array_equal(a, b, equal_nan=False):
    """Whether the shapes and all elements are equal, as a 0-d array."""
    a, b = asarray(a), asarray(b)
    if a.shape != b.shape:
        return array(False)
    same = a == b
    return (same | (_core.isnan(a) & _core.isnan(b)) if equal_nan else same).all()


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether |a - b| <= atol + rtol |b|."""
    a, b = asarray(a), asarray(b)
    close = ((a - b).abs() <= atol + rtol * b.abs()) & _core.isfinite(b) | (a == b)
    return close | (_core.isnan(a) & _core.isnan(b)) if equal_nan else close


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return isclose(a, b, rtol, atol, equal_nan).all()


# ---- Along axes


def var(a, axis=None, keepdims=False, ddof=0):
    """The mean of the squared distances from the mean; divided by n - ddof instead of n."""
    a = asarray(a)
    squares = _core.square(a - a.mean(axis, keepdims=True)).sum(axis, keepdims)
    return squares / (a.size // max(1, squares.size) - ddof)


def std(a, axis=None, keepdims=False, ddof=0):
    return _core.sqrt(var(a, axis, keepdims, ddof))


def take(a, indices, axis=None):
    """The elements at these indices along the axis, or of all of them in order."""
    a = asarray(a)
    return _core.take_axis(a.flatten(), indices, 0) if axis is None else _core.take_axis(a, indices, axis)


def take_along_axis(a, indices, axis):
    """a[.., indices[.., i, ..], ..] with i along the axis; the other axes broadcast."""
    return _core.take_along(a, indices, axis)


def put_along_axis(a, indices, values, axis):
    """a with a[.., indices[.., i, ..], ..] set to the values, i along the axis."""
    return _core.put_along(a, indices, values, axis)


def as_strided(a, shape=None, strides=None, offset=0):
    """A view of the elements of a, row by row: element (i, j, ..) is number offset + i strides[0] + j strides[1] + .."""
    a = asarray(a)
    shape = a.shape if shape is None else _shape(shape)
    if strides is None:
        strides = [math.prod(shape[k + 1:]) for k in range(len(shape))]
    return _core.strided(a, shape, _shape(strides), offset)


def diagonal(a, offset=0, axis1=0, axis2=1):
    """a[i, i + offset] of these two axes, i as the last axis."""
    a = asarray(a)
    if axis1 % a.ndim == axis2 % a.ndim:
        raise ValueError("diagonal: the two axes are the same")
    first, second = axis1 % a.ndim, axis2 % a.ndim
    rest = [k for k in range(a.ndim) if k not in (first, second)]
    n = max(0, min(a.shape[first] - max(0, -offset), a.shape[second] - max(0, offset)))
    i = arange(n)
    return a.transpose(first, second, *rest)[i + max(0, -offset), i + max(0, offset)].moveaxis(0, -1)


def diag(a, k=0):
    """A matrix with the vector a on its k-th diagonal, or that diagonal of the matrix a."""
    a = asarray(a)
    if a.ndim == 2:
        return diagonal(a, k)
    if a.ndim != 1:
        raise ValueError(f"diag: of a vector or a matrix, not of {a.ndim} axes")
    column = pad(a, [(max(0, -k), max(0, k))])[:, None]
    return _core.where(eye(column.shape[0], k=k, dtype=_core.bool_), column, zeros((), a.dtype))


def trace(a, offset=0, axis1=0, axis2=1):
    """The sum along a diagonal."""
    return diagonal(a, offset, axis1, axis2).sum(-1)


def split(a, indices_or_sections, axis=0):
    """A list of parts: so many of equal length, or cut before each of these indices."""
    a = asarray(a)
    axis = axis % a.ndim
    n = a.shape[axis]
    if isinstance(indices_or_sections, int):
        if n % indices_or_sections:
            raise ValueError(f"split: {n} elements are not {indices_or_sections} equal parts")
        cuts = range(0, n + 1, n // indices_or_sections) if n else [0] * (indices_or_sections + 1)
    else:
        cuts = [0, *indices_or_sections, n]
    cuts = list(cuts)
    return [a[(slice(None),) * axis + (slice(b, e),)] for b, e in zip(cuts, cuts[1:])]


def pad(a, pad_width, constant_values=0):
    """a with so many constants before and after each axis: a number, a pair, or a pair for each axis."""
    a = asarray(a)
    if isinstance(pad_width, int):
        pad_width = (pad_width, pad_width)
    if all(isinstance(n, int) for n in pad_width):
        pad_width = [tuple(pad_width) * (2 if len(pad_width) == 1 else 1)] * a.ndim
    if len(pad_width) != a.ndim:
        raise ValueError(f"pad: {len(pad_width)} pairs for {a.ndim} axes")
    for axis, (before, after) in enumerate(pad_width):
        if before or after:
            a = _core.pad_axis(a, axis, before, after, constant_values)
    return a


def repeat(a, repeats, axis=None):
    """Every element so many times."""
    a = asarray(a)
    if axis is None:
        a, axis = a.flatten(), 0
    axis = axis % a.ndim
    shape = a.shape
    wide = _core.broadcast_to(_core.expand_dims(a, axis + 1), shape[:axis + 1] + (repeats,) + shape[axis + 1:])
    return wide.reshape(shape[:axis] + (shape[axis] * repeats,) + shape[axis + 1:])


def tile(a, reps):
    """a so many times along each axis."""
    a, reps = asarray(a), _shape(reps)
    rank = max(a.ndim, len(reps))
    shape = (1,) * (rank - a.ndim) + a.shape
    reps = (1,) * (rank - len(reps)) + reps
    wide = a.reshape(tuple(n for dim in shape for n in (1, dim)))
    wide = _core.broadcast_to(wide, tuple(n for dim, rep in zip(shape, reps) for n in (rep, dim)))
    return wide.reshape(tuple(dim * rep for dim, rep in zip(shape, reps)))


def roll(a, shift, axis=None):
    """a, turned round by shift along the axis."""
    a = asarray(a)
    if axis is None:
        return roll(a.flatten(), shift, 0).reshape(a.shape)
    axis = axis % a.ndim
    n = a.shape[axis]
    if not n or not shift % n:
        return a
    before = (slice(None),) * axis
    cut = n - shift % n
    return _core.concatenate([a[before + (slice(cut, None),)], a[before + (slice(0, cut),)]], axis)


def outer(a, b):
    """a_i b_j, of flattened arrays."""
    return asarray(a).flatten()[:, None] * asarray(b).flatten()[None, :]


def tensordot(a, b, axes=2):
    """Products summed over axes: the last of a with the first of b, or those of two sequences."""
    a, b = asarray(a), asarray(b)
    if isinstance(axes, int):
        axes = range(a.ndim - axes, a.ndim), range(axes)
    left, right = ((x,) if isinstance(x, int) else tuple(x) for x in axes)
    return _core.tensordot_axes(a, b, left, right)


def result_type(*arrays_and_dtypes):
    """The dtype in which these arrays and dtypes meet."""
    dtypes = [x.dtype if isinstance(x, array) else x for x in arrays_and_dtypes]
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _core.promote(result, dtype)
    return result
