"""Linear algebra, as far as it is there."""
from ... import _core
from .._missing import add_missing

_mlx = _core._mlx


def _axes(a, axis):
    return None if axis is None else [axis] if isinstance(axis, int) else list(axis)


def norm(a, /, ord=None, axis=None, keepdims=False, *, stream=None):
    """The norm of vectors, or of matrices, along one axis or two."""
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
    """The product of vectors in three dimensions, or two."""
    a, b = _mlx.moveaxis(a, axis, -1), _mlx.moveaxis(b, axis, -1)
    for x in (a, b):
        if x.shape[-1] not in (2, 3):
            raise ValueError(f"cross: vectors of {x.shape[-1]} elements")
    flat = a.shape[-1] == 2 and b.shape[-1] == 2
    a, b = (x if x.shape[-1] == 3 else _mlx.concatenate([x, _mlx.zeros_like(x[..., :1])], -1) for x in (a, b))
    (a0, a1, a2), (b0, b1, b2) = ([x[..., k] for k in range(3)] for x in (a, b))
    if flat:
        return a0 * b1 - a1 * b0
    return _mlx.moveaxis(_mlx.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1), -1, axis)


add_missing(globals(), "mlx.core.linalg", [
    "cholesky", "cholesky_inv", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "lu_factor", "pinv", "qr", "slogdet",
    "solve", "solve_triangular", "svd", "tri_inv"])
