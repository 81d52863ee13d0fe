"""Ops of PyTensor's extra_ops: repeats, diagonals to fill, flat indices."""
import numpy as np
import weft
from pytensor.tensor.basic import PermuteRowElements
from pytensor.tensor.extra_ops import (
    Bartlett, CpuContiguous, FillDiagonal, FillDiagonalOffset, RavelMultiIndex, Repeat, UnravelIndex)

from .row import row
from .value import array, extent, integer, integers, is_open, known, shape, sizes


@row(CpuContiguous)
def contiguous(node, values, trace):
    return values[0]


@row(Repeat)
def repeat(node, values, trace):
    x, axis = array(values[0]), node.op.axis
    n = sizes(x)[axis]
    if node.inputs[1].type.ndim == 0:
        times = extent(values[1])
        which = weft.arange(n * times) // times if is_open(times) or times else np.arange(0)
    else:
        which = np.repeat(np.arange(shape(x)[axis]), np.asarray(known(values[1])))
    return x[(slice(None),) * axis + (which,)]


@row(Bartlett)
def bartlett(node, values, trace):
    return np.bartlett(integer(values[0]))


@row(FillDiagonal)
def fill_diagonal(node, values, trace):
    x = array(values[0])
    each = np.arange(min(shape(x)))
    return x.at[(each,) * x.ndim].set(array(values[1], x.dtype.name))


@row(FillDiagonalOffset)
def fill_diagonal_offset(node, values, trace):
    x, offset = array(values[0]), integer(values[2])
    return x.at[diagonal(shape(x), offset)].set(array(values[1], x.dtype.name))


def diagonal(sizes, offset):
    first_row, first_column = max(0, -offset), max(0, offset)
    each = np.arange(max(0, min(sizes[0] - first_row, sizes[1] - first_column)))
    return each + first_row, each + first_column


def strides(sizes, order):
    """How many elements one step along each axis is."""
    sizes = sizes if order == "F" else sizes[::-1]
    found = np.concatenate([[1], np.cumprod(sizes)[:-1]]).astype("int64")
    return found if order == "F" else found[::-1]


@row(UnravelIndex)
def unravel_index(node, values, trace):
    sizes = integers(known(values[1]))
    i = trace.require(array(values[0], "int64"), lambda i: weft.logical_and(i >= 0, i < int(np.prod(sizes))),
                      ValueError, f"an index is out of bounds for an array of shape {sizes}")
    return [weft.remainder(weft.floor_divide(i, int(step)), size) for step, size in zip(strides(sizes, node.op.order), sizes)]


@row(RavelMultiIndex)
def ravel_multi_index(node, values, trace):
    *places, sizes = values
    sizes, flat = integers(known(sizes)), None
    for i, size, step in zip(places, sizes, strides(sizes, node.op.order)):
        i = array(i, "int64")
        if node.op.mode == "raise":
            i = trace.require(i, lambda i: weft.logical_and(i >= 0, i < size), ValueError, "invalid entry in coordinates array")
        i = weft.remainder(i, size) if node.op.mode == "wrap" else weft.clip(i, 0, size - 1)
        flat = i * int(step) if flat is None else flat + i * int(step)
    return flat


@row(PermuteRowElements)
def permute_row_elements(node, values, trace):
    x, order = array(values[0]), array(values[1], "int64")
    sizes = np.broadcast_shapes(shape(x), shape(order))
    x, order = weft.broadcast_to(x, sizes), weft.broadcast_to(order, sizes)
    return weft.take_along_axis(x, weft.argsort(order, -1) if node.op.inverse else order, -1)
