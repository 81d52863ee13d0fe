"""Scan as one native loop."""
import weft
from pytensor.scan.op import Scan
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from weft import taps

from .buffers import most_rows
from .row import row
from .value import DTYPE, FAILURES, array, extent, is_array, is_open, is_tensor, sizes


def info_of(op):
    """The kinds as weft.taps names them. What stays the same in all steps is passed by the inner function instead."""
    i = op.info
    return taps.ScanInfo(i.n_seqs, i.mit_mot_in_slices, i.mit_mot_out_slices, i.mit_sot_in_slices, i.sit_sot_in_slices,
                         i.n_nit_sot, i.n_untraced_sit_sot, 0, i.as_while)


@row(Scan)
def scan(node, values, trace):
    op, i = node.op, node.op.info
    values, initial = values[:len(node.inputs)], values[len(node.inputs):]
    n_outer = len(values) - i.n_non_seqs
    lengths = range(n_outer - i.n_nit_sot, n_outer)
    outer = [extent(v) if k == 0 or k in lengths else typed(v, node.inputs[k]) for k, v in enumerate(values[:n_outer])]
    capped = [outer[k] if is_open(outer[k]) and most_rows(node.inputs[k]) else None for k in lengths]
    for k, length in zip(lengths, capped):  # a buffer of a few rows, whatever the number of steps
        outer[k] = outer[k] if length is None else most_rows(node.inputs[k])
    if not is_open(outer[0]) and outer[0] < 0:
        raise IndexError(f"Scan was asked to run for negative number of step {outer[0]}")
    for (_, m), first in zip(states(node), initial):
        look_for_rows(first, m, outer[0])
    constants, body, inner_outputs = values[n_outer:], trace.body(), op.fgraph.outputs

    def step(*state):
        results = body.inner(op.fgraph, [*state, *constants])
        return [typed(value, variable) for value, variable in zip(results, inner_outputs)]

    n_buffers = i.n_mit_mot + i.n_mit_sot + i.n_sit_sot
    try:
        results = taps.scan(info_of(op), step, outer)
        rows = slice(n_buffers, n_buffers + i.n_nit_sot)
        results[rows] = [rows_of_steps(x, length, outer[0]) for x, length in zip(results[rows], capped)]
        return results
    except weft.NoValueError:
        raise
    except FAILURES:
        if is_open(outer[0]) or outer[0]:
            raise
        return of_no_step(node, outer)  # of which what fails in a step is no part


def states(node):
    """For each state that is made of rows: the variable of the rows it begins with, or of their number, and how many its taps want.
    PyTensor writes these rows to the front of an empty buffer that is longer by their number, which does not tell whether they are
    enough. What has an axis less, and one row, as rewrites leave of rows that are alike, is stretched over as many as are written to."""
    i = node.op.info
    places = range(1 + i.n_seqs + i.n_mit_mot, 1 + i.n_seqs + i.n_mit_mot + i.n_mit_sot + i.n_sit_sot)
    for k, taps_in in zip(places, (*i.mit_sot_in_slices, *i.sit_sot_in_slices)):
        made = node.inputs[k].owner
        while made is not None and isinstance(made.op, Subtensor) and is_front(made.op):  # PyTensor's rewrite has shortened the buffer
            made = made.inputs[0].owner
        if made is not None and isinstance(made.op, IncSubtensor) and made.op.set_instead_of_inc and is_front(made.op) \
                and made.inputs[0].owner is not None and isinstance(made.inputs[0].owner.op, AllocEmpty):
            empty, first, n_rows = made.inputs
            has_rows = first.type.ndim == empty.type.ndim and first.type.shape[0] != 1
            yield first if has_rows else n_rows, -min(taps_in)


def is_front(op):
    """Whether it is about the first rows, their number an operand."""
    return len(op.idx_list) == 1 and isinstance(op.idx_list[0], slice) and op.idx_list[0].start is None \
        and op.idx_list[0].stop is not None and op.idx_list[0].step is None


def look_for_rows(first, m, n_steps):
    """ValueError if there are not m of them, unless no step reads them; of an open number the call looks, as at an index."""
    is_number = not getattr(first, "ndim", 0)
    n = extent(first) if is_number else sizes(first)[0]
    if is_open(n):
        (weft.zeros(n) if is_number else first)[m - 1]
    elif n < m and (is_open(n_steps) or n_steps):
        raise ValueError(f"Scan: a state whose taps go back {m} steps begins with {n} rows")


def rows_of_steps(rows, length, n_steps):
    """As many of them as the length tells, if it is open and they have a length of their own; none of no steps, as PyTensor has it."""
    if not is_open(n_steps) and n_steps == 0:
        return rows[:0]
    return rows if length is None else rows[:length]


def of_no_step(node, outer):
    """The results of a Scan of no step, whose body is not looked at: what only it tells, sizes of rows that are not, is 0."""
    i = node.op.info
    first, n_buffers = 1 + i.n_seqs, i.n_mit_mot + i.n_mit_sot + i.n_sit_sot
    untraced = first + n_buffers
    lengths = untraced + i.n_untraced_sit_sot
    rows = [weft.zeros((0, *(size or 0 for size in v.type.shape[1:])), dtype=DTYPE[v.type.dtype])
            for v in node.outputs[n_buffers:n_buffers + i.n_nit_sot]]
    return [*outer[first:untraced], *rows, *outer[untraced:lengths]]


def typed(value, variable):
    return array(value, variable.type.dtype if is_tensor(variable) else None)


scan.takes = lambda node: all(is_array(v) for v in (*node.inputs, *node.outputs))
scan.looks_at = lambda node: [first for first, _ in states(node)]
