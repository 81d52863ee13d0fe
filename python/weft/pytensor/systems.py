"""Systems of linear equations: factors, solutions, inverses, determinants.

All rows take batches. Where a matrix does not allow it the whole result is nan, as PyTensor has it; an inverse raises.
"""
import numpy as np
import weft
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.lu import LU, LUFactor, PivotToPermutations
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.products import Expm
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.linalg.summary import Det, SLogDet
from weft import linalg

from .indexing import diagonal
from .row import row
from .value import array, shape, shape_if_known, sizes


def matrices(node, values):
    """The operands in the dtype of the last result; a right side that is a vector as a matrix of one column."""
    dtype = node.outputs[-1].type.dtype
    a, *rest = (array(v, dtype) for v in values)
    return [a, *(weft.expand_dims(b, -1) if node.op.b_ndim == 1 else b for b in rest)]


def solution(node, x):
    return weft.squeeze(x, -1) if node.op.b_ndim == 1 else x


def mirrored(a):
    """The same matrices, their axes exchanged."""
    return weft.swapaxes(a, -1, -2)


def adjoint(a):
    return weft.conj(mirrored(a)) if is_complex(a) else mirrored(a)


def is_complex(a):
    return a.dtype.name.startswith("complex")


def factor(a, lower):
    """Of a positive definite matrix, of which one triangle is read."""
    c = linalg.cholesky(a if lower else adjoint(a))
    c = weft.where(weft.any(weft.isnan(c), (-2, -1), keepdims=True), np.nan, c)
    return c if lower else adjoint(c)


def factored_solve(c, b, lower):
    """x of c c' x = b, or of c' c x = b where c is upper."""
    first, second = (c, adjoint(c)) if lower else (adjoint(c), c)
    return linalg.solve_triangular(second, linalg.solve_triangular(first, b, lower=True), lower=False)


@row(Cholesky, batched=True)
def cholesky(node, values, trace):
    [a] = matrices(node, values)
    return factor(a, node.op.lower)


@row(CholeskySolve, batched=True)
def cholesky_solve(node, values, trace):
    c, b = matrices(node, values)
    return solution(node, factored_solve(c, b, node.op.lower))


@row(SolveTriangular, batched=True)
def solve_triangular(node, values, trace):
    op, (a, b) = node.op, matrices(node, values)
    return solution(node, linalg.solve_triangular(a, b, lower=op.lower, unit_diagonal=op.unit_diagonal))


@row(Solve, batched=True)
def solve(node, values, trace):
    op, (a, b) = node.op, matrices(node, values)
    if op.assume_a == "pos":
        return solution(node, factored_solve(factor(a, op.lower), b, op.lower))
    a = what_is_read(a, op.assume_a, op.lower)
    return solution(node, linalg.solve(a, b))


def what_is_read(a, kind, lower):
    """The matrix that the elements of a which an Op reads stand for."""
    if kind in ("sym", "her"):
        turned = adjoint if kind == "her" else mirrored
        return weft.tril(a) + turned(weft.tril(a, -1)) if lower else weft.triu(a) + turned(weft.triu(a, 1))
    return weft.triu(weft.tril(a, 1), -1) if kind == "tridiagonal" else a


@row(MatrixInverse, batched=True)
def inverse(node, values, trace):
    [a] = matrices(node, values)
    there = shape_if_known(a)
    if there and there[-1] != there[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    is_regular = weft.logical_or(linalg.inv_status(a) == 0, weft.any(~weft.isfinite(a), (-2, -1)))  # LAPACK divides by inf - inf too
    return trace.check(linalg.inv(a), is_regular, np.linalg.LinAlgError, "Singular matrix")


# Padé's approximant of e^x of degree 13 in the numerator and the denominator: the coefficients of x^0 .. x^13; of f64 it holds up to 5.37.
PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
        670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)
PADE_MOST = 5.371920351148152


@row(Expm, batched=True)
def exponential(node, values, trace):
    """Of a / 2^s, s the least for which the approximant holds, squared s times."""
    [a] = matrices(node, values)
    if 0 in (shape_if_known(a) or ()):
        return a
    norm = weft.max(weft.sum(weft.abs(a), -2), -1)
    s = weft.where(weft.isfinite(norm), weft.maximum(weft.ceil(weft.log2(norm / PADE_MOST)), 0.0), 0.0)
    s = weft.expand_dims(s, (-2, -1))
    r = approximant(a * weft.exp2(-s))
    most = weft.max(s)
    begin = weft.zeros((), dtype=norm.dtype), r
    return weft.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, weft.where(c[0] < s, weft.matmul(c[1], c[1]), c[1])), begin)[1]


def approximant(a):
    even = weft.matmul(a, a)
    fourth = weft.matmul(even, even)
    sixth, one = weft.matmul(fourth, even), array(weft.eye(sizes(a)[-1]), a.dtype.name)
    c = PADE
    odd = weft.matmul(sixth, c[13] * sixth + c[11] * fourth + c[9] * even) + c[7] * sixth + c[5] * fourth + c[3] * even + c[1] * one
    u = weft.matmul(a, odd)
    v = weft.matmul(sixth, c[12] * sixth + c[10] * fourth + c[8] * even) + c[6] * sixth + c[4] * fourth + c[2] * even + c[0] * one
    return linalg.solve(v - u, v + u)


@row(Det, batched=True)
def determinant(node, values, trace):
    return linalg.det(*matrices(node, values))


@row(SLogDet, batched=True)
def log_determinant(node, values, trace):
    return list(linalg.slogdet(array(values[0], node.outputs[0].type.dtype)))


@row(LU, batched=True)
def lu(node, values, trace):
    op = node.op
    p, lower, upper = linalg.lu(*matrices(node, values))
    if op.p_indices:
        return [array(p, "int32"), lower, upper]
    if op.permute_l:
        return [weft.take_along_axis(lower, weft.broadcast_to(weft.expand_dims(p, -1), sizes(lower)), -2), upper]
    places = weft.expand_dims(p, -1) == weft.arange(sizes(lower)[-2])  # square, whatever the matrix is
    return [array(places, node.outputs[0].type.dtype), lower, upper]


@row(LUFactor, batched=True)
def lu_factor(node, values, trace):
    """All of it is nan where a pivot is 0."""
    factors, pivots = linalg.lu_factor(array(values[0], node.outputs[0].type.dtype))
    is_singular = weft.any(diagonal(factors) == 0, -1, keepdims=True)
    return [weft.where(weft.expand_dims(is_singular, -1), np.nan, factors), array(pivots, "int32")]


@row(PivotToPermutations)
def permutation(node, values, trace):
    """The order of rows after all exchanges, or the order that undoes it."""
    pivots = array(values[0], "int64")
    rows = np.arange(shape(pivots)[0])

    def exchange(order, pivot):
        k, other = pivot
        return order[weft.where(rows == k, other, weft.where(rows == other, k, rows))], None

    order, _ = weft.scan(exchange, weft.asarray(rows), (weft.asarray(rows), pivots))
    return order if node.op.inverse else weft.argsort(order, 0)
