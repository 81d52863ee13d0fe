"""What PyTensor prints of a function, with what weft made of it: pytensor.dprint(f), f.dprint(), f.profile.summary().

The steps of its plans follow, those of the calls so far: kernels by name with their sizes, products, library steps. With print_op_info
the kernels follow too, as text of the kernel language.
"""
import sys
from functools import wraps

import pytensor
from pytensor import printing
from pytensor.compile.debug.profiling import ProfileStats

from .program import Linked


def linked_of(function):
    """What a function of mode WEFT calls; None: it is of another mode, or no function."""
    linked = getattr(getattr(function, "vm", None), "jit_fn", None)
    return linked if isinstance(linked, Linked) else None


def made_of(graphs, what):
    texts = [linked.show(what) or "not called yet" for linked in map(linked_of, graphs) if linked is not None]
    return "".join(f"\nweft, {what}:\n\n{text.strip()}\n" for text in texts)


def with_kernels(print_graph):
    @wraps(print_graph)
    def debugprint(graph_like, *args, **options):
        printed = print_graph(graph_like, *args, **options)
        graphs = graph_like if isinstance(graph_like, (list, tuple)) else [graph_like]
        text = "".join(made_of(graphs, what) for what in ("plan", *(["kernels"] if options.get("print_op_info") else [])))
        file = options.get("file", args[3] if len(args) > 3 else None)
        if isinstance(printed, str):
            return printed + text
        if text and file != "rich":
            print(text, end="", file=file or sys.stdout)
        return printed

    debugprint.of_weft = True
    return debugprint


def with_plan(print_profile):
    @wraps(print_profile)
    def summary(profile, file=sys.stderr, *args, **options):
        print_profile(profile, file, *args, **options)
        if getattr(profile, "weft", None):
            print(f"weft, plan:\n\n{profile.weft.strip()}\n", file=file)

    summary.of_weft = True
    return summary


if not hasattr(printing.debugprint, "of_weft"):
    pytensor.dprint = printing.debugprint = with_kernels(printing.debugprint)
    ProfileStats.summary = with_plan(ProfileStats.summary)
