"""Systems of linear equations, of the matrices on the last two axes; those in front are a batch, and broadcast.

    x = weft.linalg.solve(a, b)

float32 is computed in float64 inside and rounded once. A matrix that is singular, or not positive definite, gives nan;
cholesky_status, inv_status and solve_triangular_status say where: 0, or the number, from 1, of the pivot that is 0 or nan, or of the
leading minor that is not positive. All of it has derivatives.
"""
from . import _core
from ._core import matmul, matrix_power, outer, tensordot
from ._loop import scan as _scan
from ._size import settled as _settled, sizes as _sizes
from ._standard import matrix_transpose, vecdot

__all__ = [row["name"] for row in _core._linalg.names]
globals().update((name, getattr(_core._linalg, name)) for name in __all__)
__all__ += ["cross", "diagonal", "lu", "lu_factor", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer", "tensordot", "trace", "vecdot",
            "vector_norm"]


def diagonal(x, /, *, offset=0):
    """The diagonals of the matrices on the last two axes."""
    return _core.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """The sums of the diagonals of the matrices on the last two axes."""
    terms = diagonal(x, offset=offset)
    return _core.sum(terms if dtype is None else terms.astype(dtype), axis=-1)


def cross(x1, x2, /, *, axis=-1):
    """The product of vectors of three elements, which stand along an axis."""
    x1, x2 = _core.asarray(x1), _core.asarray(x2)
    if not all(-x.ndim <= axis < x.ndim for x in (x1, x2)):
        raise _core.AxisError(f"cross: axis {axis} of arrays of {x1.ndim} and {x2.ndim}")
    n, m = _sizes(x1)[axis], _sizes(x2)[axis]
    if any(type(k) is int and k != 3 for k in (n, m)):
        raise ValueError(f"cross: vectors of {n} and {m} elements, not of 3")
    (a, b, c), (d, e, f) = ([_core.take(x, i, axis) for i in range(3)] for x in (x1, x2))
    return _core.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def _within(fold, x):
    """fold(|x|) in float32 at least, whatever the dtype: squares of integers and halves may not fit theirs."""
    size = _core.abs(x)
    dtype = size.dtype if size.dtype.name.startswith(("float", "bfloat")) else _core.float32
    wide = size.astype(_core.float32) if size.dtype.size < 4 or dtype != size.dtype else size
    return fold(wide).astype(dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """(sum |x|^ord)^(1 / ord) over axes, all by default; inf: the largest, -inf: the smallest, 0: how many are not 0."""
    def norm(size):
        if ord == float("inf"):
            return _core.max(size, axis=axis, keepdims=keepdims)
        if ord == -float("inf"):
            return _core.min(size, axis=axis, keepdims=keepdims)
        if ord == 0:
            return _core.sum(_core.not_equal(size, 0).astype(size.dtype), axis=axis, keepdims=keepdims)
        if ord == 1:
            return _core.sum(size, axis=axis, keepdims=keepdims)
        if ord == 2:
            return _core.sqrt(_core.sum(size * size, axis=axis, keepdims=keepdims))
        return _core.sum(_core.power(size, ord), axis=axis, keepdims=keepdims) ** (1 / ord)

    return _within(norm, x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of the matrices on the last two axes: "fro", 1 or inf, or these with a minus: the smallest sum."""
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise NotImplementedError(f"matrix_norm: ord={ord!r} wants singular values, which weft does not have yet")

    def norm(size):
        sums = _core.sum(size, axis=-2 if abs(ord) == 1 else -1, keepdims=True)
        most = (_core.max if ord > 0 else _core.min)(sums, axis=(-2, -1), keepdims=True)
        return most if keepdims else _core.squeeze(most, (-2, -1))

    return _within(norm, x)


def _less(m, n):
    """The smaller one of two sizes, which may be open."""
    return min(m, n) if type(m) is int and type(n) is int else _settled(_core.minimum(m, n))


def _factored(a):
    """Factors, pivots and order, a[order] = L U: step k exchanges row k with that of the largest element below, and takes its
    multiples from those below. The size of a complex element is |re| + |im| here, as LAPACK has it."""
    a = _core.asarray(a)
    is_complex = a.dtype in (_core.complex64, _core.complex128)
    if a.ndim < 2 or not (is_complex or a.dtype in (_core.float32, _core.float64)):
        raise (ValueError if a.ndim < 2 else TypeError)(f"{_core.called()}: of {a.dtype} {a.shape}, not of matrices of floats")
    size_of = (lambda z: _core.abs(_core.real(z)) + _core.abs(_core.imag(z))) if is_complex else _core.abs
    m, n = _sizes(a)[-2:]
    rows, columns = _core.arange(m), _core.arange(n)
    one_more = [(0, 0)] * (a.ndim - 2) + [(0, 1)]  # of no rows no step is made, but there is something to choose from

    def step(carry, k):
        a, order = carry
        size = _core.where(rows >= k, size_of(_core.take(a, k, -1)), -1)
        pivot = _core.argmax(_core.pad(size, one_more, constant_values=-2) if type(m) is not int else size, -1)
        other = _core.expand_dims(pivot, -1)
        exchanged = _core.where(rows == k, other, _core.where(rows == other, k, rows))
        a = _core.take_along_axis(a, _core.broadcast_to(_core.expand_dims(exchanged, -1), _sizes(a)), -2)
        top, column = _core.take(a, k, -2), _core.take(a, k, -1)
        corner = _core.expand_dims(_core.take(top, k, -1), -1)
        factor = _core.where((rows > k) & (corner != 0), column / _core.where(corner == 0, 1, corner), 0)
        rest = a - _core.expand_dims(factor, -1) * _core.expand_dims(_core.where(columns > k, top, 0), -2)
        below = _core.expand_dims(rows > k, -1) & (columns == k)
        return (_core.where(below, _core.expand_dims(factor, -1), rest), _core.take_along_axis(order, exchanged, -1)), pivot

    least, before = _less(m, n), _sizes(a)[:-1]
    start = (a.astype(_core.complex128 if is_complex else _core.float64), _core.broadcast_to(rows, before) + 0)
    if type(least) is int and not least:
        return a, _core.zeros((*before[:-1], 0), _core.int64), start[1]
    (factors, order), pivots = _scan(step, start, _core.arange(least))
    return factors.astype(a.dtype), _core.moveaxis(pivots, 0, -1), order


def lu_factor(a, /):
    """factors, pivots: L and U in one array, L below the diagonal (on it, it is 1), of a with its rows exchanged: row k with row
    pivots[k], in order."""
    return _factored(a)[:2]


def lu(a, /):
    """p, L, U with a = L[p] U, where L has ones on its diagonal and zeros above, U zeros below."""
    factors, _, order = _factored(a)
    k = _less(*_sizes(factors)[-2:])
    lower = _core.tril(factors[..., :k], -1)
    diagonal = _core.expand_dims(_core.arange(_sizes(lower)[-2]), -1) == _core.arange(_sizes(lower)[-1])
    lower = _core.where(diagonal, 1, lower)
    return _core.argsort(order, -1), lower, _core.triu(factors[..., :k, :])
