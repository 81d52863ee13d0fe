"""Systems of linear equations, of the matrices on the last two axes; those in front are a batch, and broadcast.

    x = weft.linalg.solve(a, b)

float32 is computed in float64 inside and rounded once. A matrix that is singular, or not positive definite, gives nan;
cholesky_status and inv_status say where: 0, or the number, from 1, of the pivot that is 0, or of the leading minor that is not
positive. All of it has derivatives.
"""
from . import _core
from ._core import matmul, matrix_power, outer, tensordot
from ._standard import matrix_transpose, vecdot

__all__ = [row["name"] for row in _core._linalg.names]
globals().update((name, getattr(_core._linalg, name)) for name in __all__)
__all__ += ["cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer", "tensordot", "trace", "vecdot",
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
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: vectors of {x1.shape[axis]} and {x2.shape[axis]} elements, not of 3")
    (a, b, c), (d, e, f) = ([_core.take(x, i, axis) for i in range(3)] for x in (x1, x2))
    return _core.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """(sum |x|^ord)^(1 / ord) over axes, all by default; inf: the largest, -inf: the smallest, 0: how many are not 0."""
    size = _core.abs(x)
    if ord == float("inf"):
        return _core.max(size, axis=axis, keepdims=keepdims)
    if ord == -float("inf"):
        return _core.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return _core.sum(_core.not_equal(x, 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return _core.sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return _core.sqrt(_core.sum(size * size, axis=axis, keepdims=keepdims))
    return _core.sum(size ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of the matrices on the last two axes: "fro", 1 or inf, or these with a minus: the smallest sum."""
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise NotImplementedError(f"matrix_norm: ord={ord!r} wants singular values, which weft does not have yet")
    sums = _core.sum(_core.abs(x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    most = (_core.max if ord > 0 else _core.min)(sums, axis=(-2, -1), keepdims=True)
    return most if keepdims else _core.squeeze(most, (-2, -1))
