"""Buffers of a Scan of which only the last rows are read: they become short, as PyTensor rewrites them, where that keeps their rows."""
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.scan.op import Scan
from pytensor.scan.rewriting import scan_reduce_trace_no_prealloc
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
    return scan_reduce_trace_no_prealloc.transform(fgraph, node)


optdb.register("weft_short_buffers", dfs_rewriter(short_buffers, ignore_newtrees=True), TAG, use_db_name_as_tag=False, position=1.612)
