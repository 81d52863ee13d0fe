"""Sorting, searching in what is sorted, and what is there once."""
import weft
from pytensor.tensor.extra_ops import SearchsortedOp, Unique
from pytensor.tensor.sort import ArgSortOp, SortOp

from .row import row
from .value import NoRow, array, integer, shape


def axis_of(node, values):
    """A property of the Op; in PyTensor before 3.3.4 an operand."""
    return integer(values[1]) if len(values) > 1 else node.op.axis


@row(SortOp)
def sort(node, values, trace):
    return weft.sort(array(values[0]), axis_of(node, values))


@row(ArgSortOp)
def argsort(node, values, trace):
    return array(weft.argsort(array(values[0]), axis_of(node, values)), node.outputs[0].type.dtype)


@row(SearchsortedOp)
def searchsorted(node, values, trace):
    x, v = (array(value) for value in values[:2])
    if len(values) > 2:
        if shape(values[2]) != shape(x):
            raise ValueError("sorter.size must be equal to a.size")
        x = x[array(values[2])]
    common = weft.result_type(x, v)
    return array(weft.searchsorted(x.astype(common), v.astype(common), side=node.op.side), node.outputs[0].type.dtype)


@row(Unique)
def unique(node, values, trace):
    op = node.op
    if op.axis is not None and node.inputs[0].type.ndim > 1:
        raise NoRow(op)
    results = weft.unique(array(values[0]), op.return_index, op.return_inverse, op.return_counts)
    results = list(results) if isinstance(results, tuple) else [results]
    return [array(weft.flatten(r) if r.ndim > 1 else r, v.type.dtype) for r, v in zip(results, node.outputs)]
