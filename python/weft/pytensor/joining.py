"""Arrays put together and taken apart."""
from itertools import accumulate

import numpy as np
import weft
from pytensor.tensor.basic import Join, Split
from pytensor.tensor.linalg.constructors import BlockDiagonal

from .row import row
from .value import array, extents, is_expression, is_open, sizes


@row(Join)
def join(node, values, trace):
    dtype, axis = node.outputs[0].type.dtype, node.op.axis
    if not any(is_expression(v) for v in values) and dtype.startswith("int"):
        return np.concatenate(values, axis).astype(dtype)
    return weft.concatenate([array(v, dtype) for v in values], axis)


@row(Split)
def split(node, values, trace):
    x, parts, axis = array(values[0]), extents(values[1]), node.op.axis
    if len(parts) != node.op.len_splits:
        raise ValueError("In Split.perform(), len(splits) != len_splits.")
    there, total = sizes(x), sum(parts)
    if is_open(total) or is_open(there[axis]):  # taken to be so, and looked at by the call
        x = x.reshape((*there[:axis], total, *there[axis + 1:]))
    elif total != there[axis]:
        raise ValueError(f"Split sizes sum to {total}; expected {there[axis]}")
    for n in parts:
        x = trace.check(x, n >= 0, ValueError, "Split sizes cannot be negative")
    ends = list(accumulate(parts))
    return [x[(slice(None),) * axis + (slice(end - n, end),)] for end, n in zip(ends, parts)]


@row(BlockDiagonal)
def block_diagonal(node, values, trace):
    dtype = node.outputs[0].type.dtype
    blocks = [array(v, dtype) for v in values]
    rows = []
    for k, block in enumerate(blocks):
        beside = lambda others: [weft.zeros((sizes(block)[0], sizes(x)[1]), dtype=block.dtype) for x in others]
        rows.append(weft.concatenate([*beside(blocks[:k]), block, *beside(blocks[k + 1:])], 1))
    return weft.concatenate(rows, 0)
