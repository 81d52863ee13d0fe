"""PyTensor on weft: importing this package registers the linker "weft" and the mode "WEFT".

    import pytensor, weft.pytensor

    f = pytensor.function([x], y, mode="WEFT")

A graph becomes one compiled function of weft for each set of sizes; a Scan is one native loop. `fallbacks` counts, by the name
of the Op, the nodes for which there is no row: they call the Op's own `perform` as a step of that function. docs/pytensor.md
says what is there.
"""
from . import (  # noqa: F401
    control, convolution, elementwise, extra, indexing, joining, linear, making, order, random, reductions, scan, shapes, systems)
from .fallback import FallbackWarning, fallbacks
from .linker import WEFT, WeftLinker

__all__ = ["WEFT", "FallbackWarning", "WeftLinker", "fallbacks", "show"]


def show(function, what="kernels"):
    """What weft made of a function of PyTensor's that was called: "graph", "plan", "kernels" or "asm", as text."""
    return function.vm.jit_fn.show(what)
