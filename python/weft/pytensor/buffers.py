"""Buffers of a Scan of which only the last rows are read: they become short, as PyTensor rewrites them, where that keeps their rows."""
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.scalar.basic import Minimum
from pytensor.scan.op import Scan
from pytensor.scan.rewriting import scan_reduce_trace_no_prealloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import minimum
from pytensor.tensor.subtensor import Subtensor, get_idx_list

# PyTensor's own counts rows from the end of as many as there are steps at most: of a Scan that ends itself sooner, x[2:] gets others.
REPLACED = ("scan_reduce_trace_prealloc", "scan_reduce_trace_no_prealloc")
TAG = "weft_buffers"


def number(bound):
    """A constant as an integer; None: it is none, or there is no bound."""
    bound = bound.data if isinstance(bound, Constant) else bound
    return None if bound is None or isinstance(bound, Variable) else int(bound)


def is_from_the_end(client):
    """Whether it reads rows that are counted from the last one there is."""
    if not isinstance(client.op, Subtensor):
        return True  # which keeps all rows
    first = get_idx_list(client.inputs, client.op.idx_list)[0]
    if not isinstance(first, slice):
        at = number(first)
        return at is not None and at < 0
    start, step = number(first.start), 1 if first.step is None else number(first.step)
    stop = -1 if first.stop is None else number(first.stop)
    return None not in (start, step, stop) and start < 0 < step and stop < 0


@node_rewriter([Scan])
def short_buffers(fgraph, node):
    """As PyTensor's own; of a Scan that ends itself, if all that is read is counted from the end."""
    rows = node.outputs[node.op.info.n_mit_mot:]
    if node.op.info.as_while and not all(is_from_the_end(client) for out in rows for client, _ in fgraph.clients[out]):
        return None
    replacements = scan_reduce_trace_no_prealloc.transform(fgraph, node)
    if replacements:
        cap(next(new for new in map(scan_under, replacements.values()) if new is not None), node)
    return replacements


def scan_under(variable):
    """The Scan whose result a replacement is, or a part of."""
    made = getattr(variable, "owner", None)
    while made is not None and not isinstance(made.op, Scan):
        made = made.inputs[0].owner
    return made


def cap(new, old):
    """Rows that every step writes one of are shortened to those that are read of them, but there are no more than steps."""
    i = old.op.info
    for k in range(len(old.inputs) - i.n_non_seqs - i.n_nit_sot, len(old.inputs) - i.n_non_seqs):
        if new.inputs[k] is not old.inputs[k]:
            new.inputs[k] = minimum(new.inputs[k], new.inputs[0])


def most_rows(length):
    """What a length is capped from, as an integer; None: it is no such length."""
    made = length.owner
    is_capped = made is not None and isinstance(made.op, Elemwise) and isinstance(made.op.scalar_op, Minimum)
    return next((int(x.data.item()) for x in made.inputs if isinstance(x, Constant)), None) if is_capped else None


optdb.register("weft_short_buffers", dfs_rewriter(short_buffers, ignore_newtrees=True), TAG, use_db_name_as_tag=False, position=1.612)
