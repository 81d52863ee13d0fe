"""The table of Ops: how each is written with functions of weft.

A row is a function (node, values, trace) that gives the value of the node's output, or a list of them. It is found by the class
of the Op, then by the classes it is derived from. A row that is `batched` takes values with more axes in front, which it treats
as the rows of a batch: Blockwise calls it once for all of them. A row that `looks_at` more variables than the node's inputs, which
that function of the node lists, gets their values behind those of the inputs.
"""
ROWS = {}
BATCHED = set()


def row(*ops, batched=False):
    def add(function):
        for op in ops:
            ROWS[op] = function
            if batched:
                BATCHED.add(op)
        return function
    return add


def find(node):
    """The row of a node; None: there is none. A row may have a condition (`takes`) on the node."""
    for kind in type(node.op).__mro__:
        function = ROWS.get(kind)
        if function is not None:
            takes = getattr(function, "takes", None)
            return function if takes is None or takes(node) else None
    return None


def is_batched(op):
    return any(kind in BATCHED for kind in type(op).__mro__)
