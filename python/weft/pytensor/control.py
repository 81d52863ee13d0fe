"""Graphs inside of graphs, choices, checks, batches."""
import numpy as np
import weft
from pytensor.compile.builders import OpFromGraph
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise

from .row import find, is_batched, row
from .value import NoRow, array, shape, shaped


@row(OpFromGraph)
def inner_graph(node, values, trace):
    return trace.inner(node.op.fgraph, values)


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
    batch = np.broadcast_shapes(*(shape(v)[:n] for v in values))
    if 0 in batch:
        raise NoRow(op)
    rows = [weft.broadcast_to(v, (*batch, *v.shape[n:])).reshape((-1, *v.shape[n:])) for v in map(array, values)]
    results = weft.vmap(lambda *row: tuple(array(r) for r in as_list(rule(core, list(row), trace.body()))))(*rows)
    return [r.reshape((*batch, *r.shape[1:])) for r in results]


def as_list(results):
    return results if isinstance(results, (list, tuple)) else [results]


blockwise.takes = lambda node: find(node.op._create_dummy_core_node(node.inputs)) is not None
