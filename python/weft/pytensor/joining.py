"""Arrays put together and taken apart."""
import numpy as np
import weft
from pytensor.tensor.basic import Join, Split

from .row import row
from .value import array, integers, is_expression, known, shape


@row(Join)
def join(node, values, trace):
    dtype, axis = node.outputs[0].type.dtype, node.op.axis
    if not any(is_expression(v) for v in values) and dtype.startswith("int"):
        return np.concatenate(values, axis).astype(dtype)
    return weft.concatenate([array(v, dtype) for v in values], axis)


@row(Split)
def split(node, values, trace):
    x, sizes, axis = array(values[0]), integers(known(values[1])), node.op.axis
    if len(sizes) != node.op.len_splits:
        raise ValueError("In Split.perform(), len(splits) != len_splits.")
    if sum(sizes) != shape(x)[axis]:
        raise ValueError(f"Split sizes sum to {sum(sizes)}; expected {shape(x)[axis]}")
    if any(n < 0 for n in sizes):
        raise ValueError("Split sizes cannot be negative")
    ends = np.cumsum(sizes)
    return [x[(slice(None),) * axis + (slice(int(end) - n, int(end)),)] for end, n in zip(ends, sizes)]
