"""Products of matrices."""
import weft
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.math import Dot

from .row import row
from .value import array


@row(Dot, BatchedDot, batched=True)
def dot(node, values, trace):
    dtype = node.outputs[0].type.dtype
    return weft.matmul(*(array(v, dtype) for v in values))
