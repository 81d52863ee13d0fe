"""Systems of linear equations, of the matrices on the last two axes; those in front are a batch, and broadcast.

    x = weft.linalg.solve(a, b)

float32 is computed in float64 inside and rounded once. A matrix that is singular, or not positive definite, gives nan;
cholesky_status and inv_status say where: 0, or the number, from 1, of the pivot that is 0, or of the leading minor that is not
positive. All of it has derivatives.
"""
from . import _core

__all__ = [row["name"] for row in _core._linalg.names]
globals().update((name, getattr(_core._linalg, name)) for name in __all__)
