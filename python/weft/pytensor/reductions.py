"""Reductions over axes, and cumulative ones."""
import numpy as np
import pytensor.scalar.basic as ps
import weft
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, MulWithoutZeros

from . import fallback
from .row import row
from .value import array, known_sizes, shape, shape_if_known, sizes

REDUCED = {ps.Add: weft.sum, ps.Mul: weft.prod, ps.Maximum: weft.max, ps.Minimum: weft.min, ps.AND: weft.all, ps.OR: weft.any,
           MulWithoutZeros: lambda x, axis: weft.prod(weft.where(x == 0, weft.ones_like(x), x), axis)}
ADDING = (ps.Add, ps.Mul, MulWithoutZeros)
# Bit by bit: what joins two rows, and what changes nothing.
BITS = {ps.AND: (weft.bitwise_and, -1), ps.OR: (weft.bitwise_or, 0), ps.XOR: (weft.bitwise_xor, 0)}


@row(CAReduce)
def reduction(node, values, trace):
    op, dtype, kind = node.op, node.outputs[0].type.dtype, type(node.op.scalar_op)
    x = array(values[0], (getattr(op, "acc_dtype", None) or dtype) if kind in ADDING else None)
    axes = tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)
    if axes and getattr(op, "initial", False):
        least, sizes = op.initial_value(node.inputs[0].type.dtype), shape_if_known(x)
        if sizes is not None and 0 in (sizes[axis] for axis in axes):
            return weft.full([n for axis, n in enumerate(sizes) if axis not in axes], least, x.dtype)
        x = x if sizes is not None or trace.is_open else never_empty(x, axes[0], least)
    if is_bitwise(node):
        return array(bitwise(x, axes, kind), dtype)
    return array(REDUCED[kind](x, axes) if axes else x, dtype)


def is_bitwise(node):
    """Whether it joins bits: of bools `and` and `or` are all and any."""
    kind = type(node.op.scalar_op)
    return kind in BITS and (kind is ps.XOR or node.inputs[0].type.dtype != "bool")


def bitwise(x, axes, kind):
    """Row by row, axis by axis."""
    join, neutral = BITS[kind]
    for axis in sorted(axes, reverse=True):
        first = weft.moveaxis(x, axis, 0)
        rest = weft.full(sizes(first)[1:], neutral, weft.int64).astype(x.dtype)
        x, _ = weft.scan(lambda carry, row: (join(carry, row), None), rest, first)
    return x


def never_empty(x, axis, least):
    """With one more element along the axis, which is an extremum of nothing alone. In a function for all sizes there is none: where
    nothing is reduced it fails, and that shape gets a function of its own."""
    one = list(known_sizes(x))
    one[axis] = 1
    if None in one:
        shape(x)  # which says that it is not known
    return weft.concatenate([x, weft.full(one, least, x.dtype)], axis)


def is_reduced(node):
    return type(node.op.scalar_op) in REDUCED or is_bitwise(node)


reduction.takes = is_reduced


@row(Argmax)
def argmax(node, values, trace):
    x, axis = array(values[0]), node.op.axis
    axes = tuple(range(x.ndim)) if axis is None else tuple(axis)
    rest = [k for k in range(x.ndim) if k not in axes]
    if not axes:
        return weft.zeros_like(x, dtype=weft.int64)
    if len(axes) > 1:  # the axes become one, the last
        x = weft.transpose(x, [*rest, *axes])
        x, axes = x.reshape(*sizes(x)[:len(rest)], -1), (len(rest),)
    return array(weft.argmax(x, axes[0]), "int64")


@row(CumOp)
def cumulative(node, values, trace):
    """Bools and narrow integers add up in 64 bits, as NumPy's do and so PyTensor's, whatever the type of the result says."""
    op, dtype = node.op, fallback.dtype_given(node.outputs[0])
    x = array(values[0], dtype)
    x = x.flatten() if op.axis is None else x
    return array((weft.cumsum if op.mode == "add" else weft.cumprod)(x, op.axis or 0), dtype)
