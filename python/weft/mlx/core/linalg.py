"""Linear algebra, as far as it is there."""
from ... import _core, linalg as _composed
from .._array import _expect, _is_one
from .._missing import add_missing as _add_missing
from .._device import _place_all

_mlx, _linalg = _core._mlx, _core._linalg


def _axes(a, axis):
    return None if axis is None else [axis] if _is_one(axis) else list(axis)


def norm(a, /, ord=None, axis=None, keepdims=False, *, stream=None):
    """The norm of vectors, or of matrices, along one axis or two.

    >>> mx.linalg.norm(mx.array([3.0, 4.0])).item()
    5.0
    """
    _expect("norm", a)
    axes = _axes(a, axis)
    if not a.dtype.name.startswith(("float", "bfloat", "complex")):
        a = a.astype(_mlx.float32)
    if ord is None:
        return _mlx.sqrt(_mlx.sum(_mlx.square(_mlx.abs(a)), axes, keepdims))
    if axes is None:
        axes = list(range(a.ndim))
    if len(axes) == 1:
        return _vector_norm(a, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, ord, [k % a.ndim for k in axes], keepdims)
    raise ValueError(f"norm: {len(axes)} axes, of one or two")


def _vector_norm(a, ord, axis, keepdims):
    if isinstance(ord, str):
        raise ValueError(f"norm: ord={ord!r} is for matrices")
    size = _mlx.abs(a)
    if ord == float("inf"):
        return _mlx.max(size, axis, keepdims)
    if ord == -float("inf"):
        return _mlx.min(size, axis, keepdims)
    if ord == 0:
        return _mlx.sum(_mlx.not_equal(a, 0), axis, keepdims).astype(size.dtype)
    if ord == 1:
        return _mlx.sum(size, axis, keepdims)
    if ord == 2:
        return _mlx.sqrt(_mlx.sum(_mlx.square(size), axis, keepdims))
    return _mlx.power(_mlx.sum(_mlx.power(size, ord), axis, keepdims), 1 / ord)


def _matrix_norm(a, ord, axes, keepdims):
    rows, columns = axes
    if ord in ("fro", "f"):
        return _mlx.sqrt(_mlx.sum(_mlx.square(_mlx.abs(a)), axes, keepdims))
    if ord in (1, -1, float("inf"), -float("inf")):
        summed, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = _mlx.sum(_mlx.abs(a), summed, True)
        most = (_mlx.max if ord > 0 else _mlx.min)(sums, rest, True)
        return most if keepdims else _mlx.squeeze(most, axes)
    if ord in ("nuc", 2, -2):
        raise NotImplementedError(f"mlx.core.linalg.norm: weft does not have ord={ord!r} yet")
    raise ValueError(f"norm: there is no norm {ord!r} of matrices")


def cross(a, b, axis=-1, *, stream=None):
    """The product of vectors in three dimensions; of two in the plane it stands upright on it.

    >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    _expect("cross", a, b)
    a, b = _mlx.moveaxis(a, axis, -1), _mlx.moveaxis(b, axis, -1)
    for x in (a, b):
        if x.shape[-1] not in (2, 3):
            raise ValueError(f"cross: vectors of {x.shape[-1]} elements")
    in_plane = a.shape[-1] == 2 and b.shape[-1] == 2
    a, b = (x if x.shape[-1] == 3 else _mlx.concatenate([x, _mlx.zeros_like(x[..., :1])], -1) for x in (a, b))
    (a0, a1, a2), (b0, b1, b2) = ([x[..., k] for k in range(3)] for x in (a, b))
    upright = a0 * b1 - a1 * b0
    flat = [_mlx.zeros_like(upright)] * 2 if in_plane else [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2]
    return _mlx.moveaxis(_mlx.stack([*flat, upright], -1), -1, axis)


def _square(what, a):
    _expect(what, a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{what}: a square matrix is expected, not an array of shape {a.shape}")
    if not a.dtype.name.startswith("float"):
        raise ValueError(f"{what}: of {a.dtype.name}")
    return a


def _transposed(a):
    return _mlx.swapaxes(a, -1, -2)


def _of_regular(what, result, a, is_regular):
    """The result, of the matrices a; of those that are not regular an error when it is computed."""
    axes = -1 if result.ndim < a.ndim else (-2, -1)
    return _core.assert_(result, _mlx.expand_dims(is_regular, axes), f"{what}: the matrix is singular")


def _has_pivots(a):
    """Whether no pivot is 0. NaN is no error, but NaN, as LAPACK has it."""
    return _mlx.logical_or(_linalg.inv_status(a) == 0, _mlx.any(_mlx.isnan(a), (-2, -1)))


def _has_diagonal(a):
    """The same of a triangle, whose pivots are its diagonal: nothing else says whether it is singular."""
    return _mlx.all(_mlx.diagonal(a, 0, -2, -1) != 0, -1)


def inv(a, *, stream=None):
    """The inverse. There is none of a singular matrix: an error when it is computed.

    >>> mx.linalg.inv(mx.array([[2.0]])).tolist()
    [[0.5]]
    """
    return _of_regular("inv", _linalg.inv(_square("inv", a)), a, _has_pivots(a))


def _inverse_of_triangle(what, a, upper):
    _square(what, a)
    one = _mlx.broadcast_to(_mlx.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inverse = (_mlx.triu if upper else _mlx.tril)(_linalg.solve_triangular(a, one, lower=not upper))
    return _of_regular(what, inverse, a, _has_diagonal(a))


def tri_inv(a, upper=False, *, stream=None):
    """The inverse of a triangle of a, which is all that is read. One with 0 on its diagonal is singular, as in inv.

    >>> mx.linalg.tri_inv(mx.array([[2.0]])).tolist()
    [[0.5]]
    """
    return _inverse_of_triangle("tri_inv", a, upper)


def cholesky(a, upper=False, *, stream=None):
    """L with L L' = a, or its transpose; the lower triangle of a is read, or the upper one.

    >>> mx.linalg.cholesky(mx.array([[4.0]])).tolist()
    [[2.0]]
    """
    factor = _linalg.cholesky(_transposed(_square("cholesky", a)) if upper else _square("cholesky", a))
    return _transposed(factor) if upper else factor


def cholesky_inv(a, upper=False, *, stream=None):
    """The inverse of a a', or of a' a.

    >>> mx.linalg.cholesky_inv(mx.array([[2.0]])).tolist()
    [[0.25]]
    """
    inverse = _inverse_of_triangle("cholesky_inv", a, upper)
    return inverse @ _transposed(inverse) if upper else _transposed(inverse) @ inverse


def solve(a, b, *, stream=None):
    """x with a x = b. A singular matrix is an error when it is computed.

    >>> mx.linalg.solve(mx.array([[2.0]]), mx.array([4.0])).tolist()
    [2.0]
    """
    return _of_regular("solve", _linalg.solve(_square("solve", a), b), a, _has_pivots(a))


def solve_triangular(a, b, *, upper=False, stream=None):
    """x with t x = b, for a triangle t of a. One with 0 on its diagonal is singular, as in solve.

    >>> mx.linalg.solve_triangular(mx.array([[2.0]]), mx.array([4.0])).tolist()
    [2.0]
    """
    x = _linalg.solve_triangular(_square("solve_triangular", a), b, lower=not upper)
    return _of_regular("solve_triangular", x, a, _has_diagonal(a))


def det(a, *, stream=None):
    """The determinant.

    >>> mx.linalg.det(mx.array([[2.0]])).item()
    2.0
    """
    _expect("det", a)
    return _linalg.det(_square("det", a.astype(_mlx.float32) if a.dtype.name.startswith(("int", "uint")) else a))


def slogdet(a, *, stream=None):
    """The sign of the determinant, and the logarithm of its size.

    >>> [a.item() for a in mx.linalg.slogdet(mx.array([[1.0]]))]
    [1.0, 0.0]
    """
    _expect("slogdet", a)
    if a.dtype.name.startswith(("int", "uint", "bool")):
        a = a.astype(_mlx.float32)
    return tuple(_linalg.slogdet(_square("slogdet", a)))


def lu_factor(a, *, stream=None):
    """L and U in one array, and the pivots: row k was exchanged with that row.

    >>> [a.tolist() for a in mx.linalg.lu_factor(mx.array([[1.0, 2.0], [2.0, 2.0]]))]
    [[[2.0, 2.0], [0.5, 1.0]], [1, 1]]
    """
    factors, pivots = map(_mlx.as_mlx, _composed.lu_factor(_matrices("lu_factor", a)))
    return factors, pivots.astype(_mlx.uint32)


def lu(a, *, stream=None):
    """P, L, U with a = L[P] U.

    >>> [a.tolist() for a in mx.linalg.lu(mx.array([[1.0, 2.0], [2.0, 2.0]]))]
    [[1, 0], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]]]
    """
    order, lower, upper = map(_mlx.as_mlx, _composed.lu(_matrices("lu", a)))
    return order.astype(_mlx.uint32), lower, upper


def _matrices(what, a):
    _expect(what, a)
    if a.ndim < 2 or a.dtype.name not in ("float32", "float64"):
        raise ValueError(f"{what}: of {a.dtype.name} {a.shape}, not of matrices of floats")
    return _core.array(a)


_add_missing(globals(), "mlx.core.linalg", ["eig", "eigh", "eigvals", "eigvalsh", "pinv", "qr", "svd"])
_place_all(globals())
