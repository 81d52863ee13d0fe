"""Subtensors, and arrays with some elements changed."""
import numpy as np
import weft
from pytensor.tensor.basic import Choose, ExtractDiag, Nonzero
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor, indices_from_subtensor)

from .row import row
from .value import array, extent, is_expression, known, known_sizes, rank, shape, shape_if_known, shaped, sizes


def index(op, values):
    """The index as weft takes it. Bounds of slices are known or open; integers, arrays of them, and masks need not be."""
    return tuple(entry(i) for i in indices_from_subtensor(values, op.idx_list))


def entry(i):
    if isinstance(i, slice):
        return slice(*(None if bound is None else extent(bound) for bound in (i.start, i.stop, i.step)))
    if is_expression(i):
        return i
    i = np.asarray(i)
    return int(i) if i.ndim == 0 and i.dtype.kind in "iu" else i


def masks_known(i, trace):
    """The index, of which masks beside other arrays stretch as one of these does: where the function for all sizes, which takes what
    they choose to be as long as the others, has failed, they are asked for."""
    beside = [e for e in i if isinstance(e, np.ndarray) or is_expression(e)]
    if trace.is_open or len(beside) < 2:
        return i
    return tuple(known(e) if is_mask(e) else e for e in i)


def fitting(x, i, trace):
    """x and the index, if it is one of x; IndexError, where NumPy has it, instead of what weft says of shapes."""
    sizes, at, places, there = known_sizes(x), 0, [], []
    for k, e in enumerate(i):
        if e is None or isinstance(e, slice):
            at += e is not None
            continue
        if isinstance(e, int):
            if sizes[at] is None and not trace.is_open:  # an index that the run checks
                i = (*i[:k], array(np.asarray(e)), *i[k + 1:])
            elif sizes[at] is None and not trace.is_body:  # who writes there reads it too, so that the call looks whether it is there
                x[(slice(None),) * at + (e,)]
            at += 1
            continue
        mask = shape_if_known(e) if is_bool(e) else None
        for size in mask or ():
            x = same_size(x, at, size, sizes[at], trace)
            at += 1
        if mask is not None and not is_expression(e):
            places.append((np.count_nonzero(e),))
        if mask is None:
            there.append((e, sizes[at], at))
            at += 1
        if mask is None and shape_if_known(e) is not None:
            places.append(shape(e))
    try:
        is_empty = 0 in np.broadcast_shapes(*places)
    except ValueError:
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {places}") from None
    for e, size, axis in there if not is_empty else ():
        check_bounds(x, e, size, axis)
    return x, i


def same_size(x, axis, wanted, size, trace):
    """x, if a mask of this size fits."""
    what = f"boolean index did not match indexed array along axis {axis}; size of corresponding boolean axis is {wanted}"
    holds = size == wanted if size is not None else weft.size(x, axis) == wanted
    return trace.check(x, holds, IndexError, what)


def check_bounds(x, e, size, axis):
    """Of an index that is known: also where there is nothing to read or to write. Who reads an element of an open size has the call
    look whether there is one."""
    if is_expression(e) or not np.size(e):
        return
    if size is None:
        for furthest in {int(np.min(e)), int(np.max(e))}:
            x[(slice(None),) * axis + (furthest,)]
        return
    wrong = [n for n in np.ravel(e) if not -size <= n < size]
    if wrong:
        raise IndexError(f"index {wrong[0]} is out of bounds for axis {axis} with size {size}")


def is_bool(e):
    return is_mask(e) or getattr(e, "dtype", None) == np.bool_


def is_mask(i):
    return is_expression(i) and i.dtype == weft.bool_


@row(Nonzero)
def nonzero(node, values, trace):
    return list(weft.nonzero(array(values[0])))


@row(Subtensor, AdvancedSubtensor)
def subtensor(node, values, trace):
    x, *rest = values
    i = masks_known(index(node.op, rest), trace)
    if not is_expression(x) and not any(is_expression(e) for e in i) and node.outputs[0].type.dtype.startswith("int"):
        return np.asarray(np.asarray(x)[i])
    x, i = fitting(array(x), i, trace)
    return x[i]


def of_mask(x, mask, trace):
    """x, if it has the sizes of the mask."""
    for axis, (n, wanted) in enumerate(zip(known_sizes(x), known_sizes(mask))):
        if n is None or wanted is None:
            holds, wanted = weft.size(x, axis) == weft.size(mask, axis), "another"
        else:
            holds = n == wanted
        x = trace.check(x, holds, IndexError, f"boolean index did not match indexed array along axis {axis}; size of corresponding boolean "
                                              f"axis is {wanted}")
    return x


def rows_at(mask, y, trace):
    """What stands in y for each element of the mask: the k-th of y for the k-th that is true, so that nobody asks how many there are.
    One of y stands for all."""
    before, n = weft.cumsum(weft.reshape(mask, (-1,)).astype("int64")), weft.size(y, 0)
    y = trace.check(y, weft.logical_or(n == 1, n == weft.sum(mask)), ValueError,
                    "there are not as many values as the mask has places to write them to")
    some = weft.concatenate([y, weft.zeros((1,), y.dtype)])  # of no rows there is something to read
    return weft.take(some, weft.clip(before - 1, 0, weft.maximum(n - 1, 0))).reshape(sizes(mask))


@row(IncSubtensor, AdvancedIncSubtensor)
def inc_subtensor(node, values, trace):
    op, (x, y, *rest) = node.op, values
    x = array(x, node.outputs[0].type.dtype)
    y, i = array(y, x.dtype.name), index(op, rest)
    if len(i) == 1 and is_mask(i[0]) and rank(y) == 1 and rank(i[0]) == rank(x):
        mask = i[0]
        x = of_mask(x, mask, trace)
        new = rows_at(mask, y, trace)
        return weft.where(mask, new if op.set_instead_of_inc else x + new, x)
    x, i = fitting(x, masks_known(tuple(known(e) if is_mask(e) and rank(y) else e for e in i), trace), trace)
    if not trace.is_open and not trace.is_body:
        shape(y)  # a size that only a run tells is asked for: the function for all sizes, which does not stretch one of 1, has failed
    if isinstance(op, AdvancedIncSubtensor):
        shapes = shaped((x, y, rest[0]))
        if shapes:
            op._check_runtime_broadcast_of_vector_index(node, *shapes)
    if op.set_instead_of_inc:
        return x.at[i].set(y)
    if getattr(op, "ignore_duplicates", False):
        return x.at[i].set(x[i] + y)
    return x.at[i].add(y)


@row(ExtractDiag)
def extract_diag(node, values, trace):
    op = node.op
    return diagonal(array(values[0]), op.offset, op.axis1, op.axis2)


def diagonal(x, offset=0, axis1=-2, axis2=-1):
    if shape_if_known(x) is not None:
        return weft.diagonal(x, offset, axis1, axis2)
    axis1, axis2 = axis1 % x.ndim, axis2 % x.ndim
    x = weft.transpose(x, [*(k for k in range(x.ndim) if k not in (axis1, axis2)), axis1, axis2])
    row, column = max(0, -offset), max(0, offset)
    each = weft.arange(weft.maximum(weft.minimum(weft.size(x, x.ndim - 2) - row, weft.size(x, x.ndim - 1) - column), 0))
    return x[..., each + row, each + column]


@row(Choose)
def choose(node, values, trace):
    """Row a of the choices, element by element."""
    a, choices, n = array(values[0], "int64"), array(values[1]), shape(values[1])[0]
    if node.op.mode == "raise":
        a = trace.require(a, lambda a: weft.logical_and(a >= 0, a < n), ValueError, "invalid entry in choice array")
    a = weft.remainder(a, n) if node.op.mode == "wrap" else weft.clip(a, 0, n - 1)
    sizes = np.broadcast_shapes(shape(a), shape(choices)[1:])
    aligned = choices.reshape((n, *(1,) * (len(sizes) + 1 - choices.ndim), *shape(choices)[1:]))
    found = weft.take_along_axis(weft.broadcast_to(aligned, (n, *sizes)), weft.broadcast_to(a, (1, *sizes)), 0)
    return weft.squeeze(found, 0)
