"""Sizes as values, and arrays in other shapes."""
import numpy as np
import weft
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from .row import row
from .value import array, extent, extents, is_expression, is_open, rank, shape_if_known, sizes


def size(value, axis):
    """A size: known, or an expression where only a run tells it."""
    sizes = shape_if_known(value)
    return np.asarray(sizes[axis], "int64") if sizes is not None else weft.size(value, axis)


@row(Shape)
def sizes_of(node, values, trace):
    sizes = shape_if_known(values[0])
    if sizes is not None:
        return np.array(sizes, "int64")
    return weft.stack([array(size(values[0], axis)) for axis in range(rank(values[0]))], 0)


@row(Shape_i)
def size_of(node, values, trace):
    return size(values[0], node.op.i)


@row(Reshape)
def reshape(node, values, trace):
    wanted = tuple(n if is_open(n) else max(n, -1) for n in extents(values[1]))
    there, is_number = shape_if_known(values[0]), not any(is_open(n) for n in wanted)
    if there is not None and is_number:
        check_reshape(int(np.prod(there)), wanted)
    if not is_expression(values[0]) and node.outputs[0].type.dtype == "int64" and is_number:
        return np.reshape(values[0], wanted)
    return array(values[0]).reshape(wanted)


def check_reshape(n, wanted):
    """That n elements have this shape, in the words of NumPy."""
    rest = int(np.prod([m for m in wanted if m >= 0]))
    if wanted.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if (rest == 0 or n % rest) if -1 in wanted else n != rest:
        raise ValueError(f"cannot reshape array of size {n} into shape {wanted}")


@row(SpecifyShape)
def specify_shape(node, values, trace):
    x, *wanted = values
    wanted = [None if n is None else extent(n) for n in wanted]
    there = sizes(x)
    pairs = [(n, m) for n, m in zip(wanted, there) if n is not None and n is not m]
    if any(is_open(n) or is_open(m) for n, m in pairs):  # taken to be so, and looked at by the call
        for axis, n in enumerate(wanted):  # also where there are no elements, which have many shapes
            if isinstance(n, int) and is_open(there[axis]):
                x = trace.check(x, weft.size(x, axis) == n, AssertionError, f"SpecifyShape: expected {tuple(wanted)}.")
        if not trace.is_open and all(n is None or isinstance(n, int) for n in wanted):
            return x
        return array(x).reshape([m if n is None else n for n, m in zip(wanted, there)])
    if any(n != m for n, m in pairs):
        raise AssertionError(f"SpecifyShape: Got shape {there}, expected {tuple(wanted)}.")
    return x
