"""Arrays from sizes and numbers."""
import numpy as np
import weft
from pytensor.tensor.basic import AllocDiag, AllocEmpty, Alloc, ARange, Eye, MakeVector

from .row import row
from .value import DTYPE, Shaped, array, integers, is_expression, known, shape


@row(Alloc)
def alloc(node, values, trace):
    value, *sizes = values
    if trace.is_open and any(is_expression(n) for n in sizes):
        return like(array(value, node.outputs[0].type.dtype), sizes)
    sizes = integers(sizes)
    Alloc._check_runtime_broadcast(node, Shaped(shape(value)), sizes)
    return weft.broadcast_to(array(value, node.outputs[0].type.dtype), sizes)


def like(value, sizes):
    """Of sizes that are not known yet."""
    return weft.where(True, value, weft.sized([array(n, "int64") for n in sizes], value.dtype))


@row(AllocEmpty)
def alloc_empty(node, values, trace):
    if trace.is_open and any(is_expression(n) for n in values):
        return weft.sized([array(n, "int64") for n in values], DTYPE[node.op.dtype])
    return weft.zeros(integers(values), DTYPE[node.op.dtype])


@row(ARange)
def arange(node, values, trace):
    return np.arange(*(np.asarray(known(v)).item() for v in values), dtype=node.op.dtype)


@row(Eye)
def eye(node, values, trace):
    n, m, k = integers(values)
    return weft.eye(n, m, k, dtype=DTYPE[node.op.dtype])


@row(MakeVector)
def make_vector(node, values, trace):
    if not any(is_expression(v) for v in values):
        return np.array([np.asarray(v).item() for v in values], dtype=node.op.dtype)
    return weft.stack([array(v, node.op.dtype) for v in values], 0)


@row(AllocDiag)
def alloc_diag(node, values, trace):
    op, x = node.op, array(values[0])
    n, k = shape(x)[-1], abs(op.offset)
    rows, columns = np.arange(n) + max(0, -op.offset), np.arange(n) + max(0, op.offset)
    out = weft.zeros((*shape(x)[:-1], n + k, n + k), x.dtype).at[(Ellipsis, rows, columns)].set(x)
    first, second = sorted((op.axis1, op.axis2))
    if op.axis1 > op.axis2:
        out = weft.swapaxes(out, -1, -2)
    return weft.moveaxis(weft.moveaxis(out, -2, first), -1, second)
