"""Sorting, and searching in what is sorted."""
import weft
from pytensor.tensor.extra_ops import SearchsortedOp
from pytensor.tensor.sort import ArgSortOp, SortOp

from .row import row
from .value import array, integer


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
        x = x[array(values[2])]
    common = weft.result_type(x, v)
    return array(weft.searchsorted(x.astype(common), v.astype(common), side=node.op.side), node.outputs[0].type.dtype)
