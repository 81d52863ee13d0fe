"""Elemwise, numbers outside of tensors, and what passes a value on."""
import weft
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from . import scalar
from .row import row
from .value import array, known_sizes, shape_if_known, shaped


@row(Elemwise)
def elemwise(node, values, trace):
    shapes = shaped(values)
    if shapes:
        Elemwise._check_runtime_broadcast(node, shapes)
    else:
        values = stretching_nothing(node, values, trace)
    return scalar.apply(node.op.scalar_op, node, scalar.checked(node.op.scalar_op, node, values, trace))


def stretching_nothing(node, values, trace):
    """The operands, where only a run tells some of the sizes. A size that happens to be 1 does not stretch, unless the type says
    that it is 1: so those beside it have to be 1 too."""
    sizes, values = [known_sizes(value) for value in values], list(values)
    for axis in range(node.outputs[0].type.ndim):
        meeting = [k for k, v in enumerate(node.inputs) if not v.type.broadcastable[axis]]
        if any(sizes[k][axis] == 1 for k in meeting):
            for k in (k for k in meeting if sizes[k][axis] is None):
                values[k] = trace.check(values[k], weft.size(values[k], axis) == 1, ValueError,
                                        f"Runtime broadcasting not allowed: a size of axis {axis} is 1, that of another operand is not")
    return values


@row(ScalarOp)
def scalars(node, values, trace):
    return scalar.apply(node.op, node, scalar.checked(node.op, node, values, trace))


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
