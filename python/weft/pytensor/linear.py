"""Products of matrices."""
import weft
from pytensor.tensor.blas import BatchedDot, Dot22, Dot22Scalar, Gemm, Gemv
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
    """Weft counts and sums short integers in longer ones, PyTensor in their own dtype."""
    dtype = node.outputs[0].type.dtype
    return array(weft.matmul(*(array(v, dtype) for v in values)), dtype)


@row(Dot22)
def matrix_product(node, values, trace):
    return dot(node, values, trace)


@row(Dot22Scalar)
def scaled_product(node, values, trace):
    a, b, scale = values
    return dot(node, [a, b], trace) * array(scale, node.outputs[0].type.dtype)


@row(Gemm, Gemv)
def product_added(node, values, trace):
    """beta y + alpha a x"""
    y, alpha, a, x, beta = (array(v, node.outputs[0].type.dtype) for v in values)
    return beta * y + alpha * weft.matmul(a, x)


@row(Einsum)
def einsum(node, values, trace):
    dtype = node.outputs[0].type.dtype
    return array(weft.einsum(node.op.subscripts, *(array(v, dtype) for v in values)), dtype)
