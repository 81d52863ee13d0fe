"""What SciPy minimises or finds the root of: its routine as a step of the function, which calls another function of weft's."""
from copy import copy

import weft
from pytensor.graph.basic import Apply
from pytensor.tensor.optimize import ScipyWrapperOp

from .fallback import DTYPE, Performer, dtype_given, hosted
from .row import row
from .value import sizes


def linked(node):
    """The node with an Op of its own, whose inner function is linked by weft. PyTensor has rewritten its graph already."""
    from pytensor.compile.inner_function import link_only_mode
    from .linker import WeftLinker
    op = copy(node.op)
    op._fn = op._fn_wrapped = None
    op._fn = op.compile_fn(link_only_mode(WeftLinker()))
    return Apply(op, list(node.inputs), [v.clone() for v in node.outputs])


@row(ScipyWrapperOp)
def solved(node, values, trace):
    """The point, of the sizes of the one it begins with, and whether it was found."""
    x, found = node.outputs
    return hosted(Performer(linked(node)), values, [(sizes(values[0]), DTYPE[dtype_given(x)]), ((), weft.bool_)])


solved.takes = lambda node: hasattr(node.op, "compile_fn")  # which versions before that had not: they link it by themselves
