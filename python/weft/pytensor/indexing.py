"""Subtensors, and arrays with some elements changed."""
import numpy as np
import weft
from pytensor.tensor.basic import ExtractDiag
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor, indices_from_subtensor)

from .row import row
from .value import Shaped, array, integer, is_expression, known, shape


def index(op, values):
    """The index as weft takes it. Slices have to be known; integers and arrays of them need not."""
    return tuple(entry(i) for i in indices_from_subtensor(values, op.idx_list))


def entry(i):
    if isinstance(i, slice):
        return slice(*(None if bound is None else integer(bound) for bound in (i.start, i.stop, i.step)))
    if is_expression(i):
        return known(i) if i.dtype == weft.bool_ else i
    i = np.asarray(i)
    return int(i) if i.ndim == 0 and i.dtype.kind in "iu" else i


@row(Subtensor, AdvancedSubtensor)
def subtensor(node, values, trace):
    x, *rest = values
    i = index(node.op, rest)
    if not is_expression(x) and not any(is_expression(e) for e in i) and node.outputs[0].type.dtype.startswith("int"):
        return np.asarray(np.asarray(x)[i])
    return array(x)[i]


@row(IncSubtensor, AdvancedIncSubtensor)
def inc_subtensor(node, values, trace):
    op, (x, y, *rest) = node.op, values
    x = array(x, node.outputs[0].type.dtype)
    y, i = array(y, x.dtype.name), index(op, rest)
    if isinstance(op, AdvancedIncSubtensor):
        op._check_runtime_broadcast_of_vector_index(node, Shaped(shape(x)), Shaped(shape(y)), Shaped(shape(rest[0])))
    if op.set_instead_of_inc:
        return x.at[i].set(y)
    if getattr(op, "ignore_duplicates", False):
        return x.at[i].set(x[i] + y)
    return x.at[i].add(y)


@row(ExtractDiag)
def extract_diag(node, values, trace):
    op = node.op
    return weft.diagonal(array(values[0]), op.offset, op.axis1, op.axis2)
