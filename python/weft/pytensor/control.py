"""Graphs inside of graphs, choices, checks, batches."""
from math import prod

import numpy as np
import weft
from pytensor.compile.builders import OpFromGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise

from .row import find, is_batched, row
from .value import NoRow, array, is_expression, is_open, shape, shaped, sizes


@row(OpFromGraph)
def inner_graph(node, values, trace):
    return trace.inner(node.op.fgraph, values)


try:
    from pytensor.conditional.op import LazyIfElse  # since 3.3.6
except ImportError:
    LazyIfElse = None


def lazy_choice(node, values, trace):
    """A choice between two graphs: what only one of them needs is computed if that one is taken (weft.choose)."""
    p, *rest = values
    sides = [node.op.true_branch.fgraph, node.op.false_branch.fgraph]
    if not is_expression(p):
        return trace.inner(sides[0 if p else 1], rest)
    found = [trace.body().inner(side, rest) for side in sides]
    typed = [[array(x, v.type.dtype) for x, v in zip(side, node.outputs)] for side in found]
    return [weft.choose(array(p) != 0, a, b) for a, b in zip(*typed)]


if LazyIfElse is not None:
    row(LazyIfElse)(lazy_choice)


@row(CheckAndRaise)
def check(node, values, trace):
    x, *conditions = values
    for condition in conditions:
        x = trace.check(x, condition, node.op.exc_type, node.op.msg)
    return x


@row(Blockwise)
def blockwise(node, values, trace):
    op, core, n = node.op, node.op._create_dummy_core_node(node.inputs), node.op.batch_ndim(node)
    rule = find(core)
    if rule is None:
        raise NoRow(op.core_op)
    shapes = shaped(values)
    if shapes:
        op._check_runtime_broadcast(node, shapes)
    if n == 0 or is_batched(op.core_op):
        return rule(core, values, trace)
    batch = tuple(batch_size(axis, node, values) for axis in range(n)) if shapes is None else np.broadcast_shapes(
        *(shape(v)[:n] for v in values))
    if 0 in [size for size in batch if not is_open(size)]:
        raise NoRow(op)
    same = {k: core_of(v, n) for k, (v, variable) in enumerate(zip(values, node.inputs)) if is_one_for_all(variable, n)}
    if len(same) == len(values):
        same.pop(0)
    cores = [(v, sizes(v)[n:]) for k, v in enumerate(map(array, values)) if k not in same]
    rows = [weft.broadcast_to(v, (*batch, *core_sizes)).reshape((prod(batch), *core_sizes)) for v, core_sizes in cores]

    def one(*row):
        rest = iter(row)
        operands = [same[k] if k in same else next(rest) for k in range(len(values))]
        return tuple(array(r) for r in as_list(rule(core, operands, trace.body())))

    results = weft.vmap(one)(*rows)
    return [r.reshape((*batch, *sizes(r)[1:])) for r in results]


def is_one_for_all(variable, n):
    """Whether an operand is the same in all rows of the batch, as its type says: it need not vary, and what bounds something must not."""
    return all(size == 1 for size in variable.type.shape[:n])


def core_of(value, n):
    """Of an operand with n axes of size 1 in front."""
    return weft.squeeze(value, tuple(range(n))) if is_expression(value) else np.asarray(value).reshape(np.shape(value)[n:])


def batch_size(axis, node, values):
    """That of the first operand whose type does not say 1: nothing else stretches."""
    return next((sizes(v)[axis] for v, variable in zip(values, node.inputs) if variable.type.shape[axis] != 1), 1)


def as_list(results):
    return results if isinstance(results, (list, tuple)) else [results]


blockwise.takes = lambda node: find(node.op._create_dummy_core_node(node.inputs)) is not None
