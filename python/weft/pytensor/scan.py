"""Scan as one native loop."""
from pytensor.scan.op import Scan
from weft import taps

from .row import row
from .value import array, extent, is_array, is_open, is_tensor


def info_of(op):
    """The kinds as weft.taps names them. What stays the same in all steps is passed by the inner function instead."""
    i = op.info
    return taps.ScanInfo(i.n_seqs, i.mit_mot_in_slices, i.mit_mot_out_slices, i.mit_sot_in_slices, i.sit_sot_in_slices,
                         i.n_nit_sot, i.n_untraced_sit_sot, 0, i.as_while)


@row(Scan)
def scan(node, values, trace):
    op, i = node.op, node.op.info
    n_outer = len(values) - i.n_non_seqs
    lengths = range(n_outer - i.n_nit_sot, n_outer)
    outer = [extent(v) if k == 0 or k in lengths else typed(v, node.inputs[k]) for k, v in enumerate(values[:n_outer])]
    if not is_open(outer[0]) and outer[0] < 0:
        raise IndexError(f"Scan was asked to run for negative number of step {outer[0]}")
    constants, body, inner_outputs = values[n_outer:], trace.body(), op.fgraph.outputs

    def step(*state):
        results = body.inner(op.fgraph, [*state, *constants])
        return [typed(value, variable) for value, variable in zip(results, inner_outputs)]

    return taps.scan(info_of(op), step, outer)


def typed(value, variable):
    return array(value, variable.type.dtype if is_tensor(variable) else None)


scan.takes = lambda node: all(is_array(v) for v in (*node.inputs, *node.outputs))
