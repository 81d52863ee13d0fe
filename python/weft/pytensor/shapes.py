"""Sizes as values, and arrays in other shapes."""
import numpy as np
import weft
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from .row import row
from .value import array, integer, integers, is_expression, known, rank, shape, shape_if_known


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
    wanted = tuple(max(n, -1) for n in integers(known(values[1])))
    sizes = shape_if_known(values[0])
    if sizes is not None:
        check_reshape(int(np.prod(sizes)), wanted)
    if not is_expression(values[0]) and node.outputs[0].type.dtype == "int64":
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
    wanted = [None if n is None else integer(n) for n in wanted]
    sizes = shape(x)
    if any(n is not None and n != m for n, m in zip(wanted, sizes)):
        raise AssertionError(f"SpecifyShape: Got shape {sizes}, expected {tuple(wanted)}.")
    return x
