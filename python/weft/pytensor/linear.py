"""Products of matrices."""
import weft
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.math import Dot

from .row import row
from .value import array, is_open, sizes


@row(BatchedDot)
def batched_dot(node, values, trace):
    there = [sizes(v) for v in values]
    if not any(is_open(s[0]) for s in there) and there[0][0] != there[1][0]:
        raise TypeError(f"batched_dot: the batches differ in length: {there[0]} x {there[1]}")
    return dot(node, values, trace)


@row(Dot, batched=True)
def dot(node, values, trace):
    dtype = node.outputs[0].type.dtype
    return weft.matmul(*(array(v, dtype) for v in values))


@row(Einsum)
def einsum(node, values, trace):
    dtype = node.outputs[0].type.dtype
    return weft.einsum(node.op.subscripts, *(array(v, dtype) for v in values))
