"""Arrays from sizes and numbers."""
import numpy as np
import weft
from pytensor.tensor.basic import AllocDiag, AllocEmpty, Alloc, ARange, Eye, MakeVector

from .row import row
from .value import DTYPE, Shaped, array, bounds, extents, is_expression, is_open, known, shape_if_known, sizes


@row(Alloc)
def alloc(node, values, trace):
    value, *wanted = values
    wanted, there = bounds(wanted, trace), shape_if_known(value)
    if there is not None and not any(is_open(n) for n in wanted):
        Alloc._check_runtime_broadcast(node, Shaped(there), wanted)
    return weft.broadcast_to(array(value, node.outputs[0].type.dtype), wanted)


@row(AllocEmpty)
def alloc_empty(node, values, trace):
    return weft.zeros(bounds(values, trace), DTYPE[node.op.dtype])


@row(ARange)
def arange(node, values, trace):
    if any(is_expression(v) for v in values) and all(v.type.dtype.startswith(("int", "uint")) for v in node.inputs):
        start, stop, step = extents(values)
        found = weft.arange(start, stop, step, dtype=DTYPE[node.op.dtype])
        return trace.check(found, step != 0, ZeroDivisionError, "division by zero") if is_open(step) else found
    return np.arange(*(np.asarray(known(v)).item() for v in values), dtype=node.op.dtype)


@row(Eye)
def eye(node, values, trace):
    n, m, k = extents(values)
    if any(is_open(size) for size in (n, m, k)):
        is_one = weft.expand_dims(weft.arange(n), 1) + k == weft.arange(m)
        return array(weft.broadcast_to(is_one, (n, m)), node.op.dtype)  # which refuses what is below 0
    return weft.eye(n, m, k, dtype=DTYPE[node.op.dtype])


@row(MakeVector)
def make_vector(node, values, trace):
    if not any(is_expression(v) for v in values):
        return np.array([np.asarray(v).item() for v in values], dtype=node.op.dtype)
    return weft.stack([array(v, node.op.dtype) for v in values], 0)


@row(AllocDiag)
def alloc_diag(node, values, trace):
    op, x = node.op, array(values[0])
    n, k = sizes(x)[-1], abs(op.offset)
    rows, columns = weft.arange(n) + max(0, -op.offset), weft.arange(n) + max(0, op.offset)
    out = weft.zeros((*sizes(x)[:-1], n + k, n + k), x.dtype).at[(Ellipsis, rows, columns)].set(x)
    first, second = sorted((op.axis1, op.axis2))
    if op.axis1 > op.axis2:
        out = weft.swapaxes(out, -1, -2)
    return weft.moveaxis(weft.moveaxis(out, -2, first), -1, second)
