"""PyTensor on weft: importing this package registers the linker "weft" and the mode "WEFT".

    import pytensor, weft.pytensor

    f = pytensor.function([x], y, mode="WEFT")

A graph becomes one compiled function of weft for all sizes that its types leave open; a Scan is one native loop. `fallbacks` counts,
by the name of the Op, the nodes for which there is no row: they call the Op's own `perform` as a step of that function. `lengths`
counts likewise the graphs that are traced for each set of sizes. docs/pytensor.md says what is there.
"""
from . import needs  # noqa: F401  isort: skip
from . import (  # noqa: F401
    control, convolution, elementwise, extra, indexing, joining, linear, making, optimize, order, printing, random, reductions, scan, shapes,
    systems)
from .fallback import FallbackWarning, fallbacks
from .linker import WEFT, WeftLinker
from .program import lengths, traces

__all__ = ["WEFT", "FallbackWarning", "WeftLinker", "fallbacks", "lengths", "show", "traces"]


def show(function, what="kernels"):
    """What weft made of a function of PyTensor's that was called: "graph", "plan", "kernels" or "asm", as text."""
    return function.vm.jit_fn.show(what)
