"""Elemwise, numbers outside of tensors, and what passes a value on."""
import weft
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from . import scalar
from .row import row
from .value import array, shape_if_known, shaped


@row(Elemwise)
def elemwise(node, values, trace):
    shapes = shaped(values)
    if shapes:
        Elemwise._check_runtime_broadcast(node, shapes)
    return scalar.apply(node.op.scalar_op, node, values)


@row(ScalarOp)
def scalars(node, values, trace):
    return scalar.apply(node.op, node, values)


elemwise.takes = lambda node: scalar.has_row(node.op.scalar_op)
scalars.takes = lambda node: scalar.has_row(node.op)


@row(DeepCopyOp, TypeCastingOp, ScalarFromTensor, TensorFromScalar)
def itself(node, values, trace):
    return values[0]


@row(DimShuffle)
def dimshuffle(node, values, trace):
    op, x = node.op, array(values[0])
    sizes = shape_if_known(x) if op.drop else None
    if sizes and any(sizes[axis] != 1 for axis in op.drop):
        raise ValueError(f"DimShuffle: an axis that is to go is not of size 1: {sizes}")
    order = [*op.shuffle, *op.drop]
    if order != sorted(order):
        x = weft.transpose(x, order)
    if op.drop:
        x = weft.squeeze(x, tuple(range(len(op.shuffle), len(order))))
    for axis in op.augment:
        x = weft.expand_dims(x, axis)
    return x
