"""Sorting, searching in what is sorted, and what is there once."""
from math import prod

import weft
from pytensor.tensor.extra_ops import SearchsortedOp, Unique
from pytensor.tensor.sort import ArgSortOp, SortOp

from .row import row
from .value import array, integer, is_open, shape, sizes


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


def unique_rows(x, axis):
    """What is there once along an axis, in order, where each is found first, which of them each was, and how often it is there.

    Sorting by the last element first, each time stably, puts rows in order and equal ones in the order in which they were."""
    rows = weft.moveaxis(x, axis, 0)
    flat = rows.reshape(sizes(rows)[0], prod(sizes(rows)[1:]))
    n, columns = sizes(flat)[0], weft.swapaxes(flat, 0, 1)
    by_column = lambda order, column: (order[weft.argsort(column[order], 0)], None)
    order, _ = weft.scan(by_column, weft.arange(n, dtype=weft.int64), columns[::-1])
    ordered = flat[order]
    differs = weft.any(ordered[1:] != ordered[:-1], 1)
    is_new = weft.concatenate([weft.ones(weft.minimum(n, 1) if is_open(n) else min(n, 1), dtype=weft.bool_), differs], 0)
    [begins] = weft.nonzero(is_new)
    ends = weft.concatenate([begins, array(n, "int64").reshape(1)], 0)[1:]
    which = weft.zeros(n, dtype=weft.int64).at[order].set(weft.cumsum(is_new.astype(weft.int64), 0) - 1)
    return weft.moveaxis(rows[order[begins]], 0, axis), order[begins], which, ends - begins


@row(Unique)
def unique(node, values, trace):
    op = node.op
    if op.axis is not None and node.inputs[0].type.ndim > 1:
        results = unique_rows(array(values[0]), op.axis % node.inputs[0].type.ndim)
        wanted = (True, op.return_index, op.return_inverse, op.return_counts)
        return [array(r, v.type.dtype) for r, v in zip((r for r, is_wanted in zip(results, wanted) if is_wanted), node.outputs)]
    results = weft.unique(array(values[0]), op.return_index, op.return_inverse, op.return_counts)
    results = list(results) if isinstance(results, tuple) else [results]
    return [array(weft.flatten(r) if r.ndim != 1 else r, v.type.dtype) for r, v in zip(results, node.outputs)]
