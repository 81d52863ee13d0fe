"""Sorting, and searching in what is sorted."""
import weft
from pytensor.tensor.sort import ArgSortOp, SortOp

from .row import row
from .value import array, integer


@row(SortOp)
def sort(node, values, trace):
    x, axis = values
    return weft.sort(array(x), integer(axis))


@row(ArgSortOp)
def argsort(node, values, trace):
    x, axis = values
    return array(weft.argsort(array(x), integer(axis)), node.outputs[0].type.dtype)
