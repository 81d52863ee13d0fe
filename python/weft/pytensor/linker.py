"""The linker "weft" and the mode "WEFT"."""
from numpy import array as copy, asarray
from pytensor.compile import rewriting
from pytensor.compile.mode import Mode, predefined_linkers, register_linker, register_mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import JITLinker
from pytensor.link.jax.linker import JAXLinker
from pytensor.scan.rewriting.inner_graph import rewrite_scan_inner_graph
from pytensor.tensor import optimize
from weft._core import Thunk

from . import buffers, cells, powers  # noqa: F401
from .program import Linked


class WeftLinker(JITLinker):
    """Links a graph as one compiled function of weft for each set of sizes."""

    required_rewrites = ("minimum_compile", powers.TAG, buffers.TAG)
    incompatible_rewrites = (
        *powers.REPLACED, *buffers.REPLACED,
        "cxx_only", "BlasOpt", "local_careduce_fusion", "inplace",
        # These take the factor that several systems share out as an LU, which has no row: each system is factored instead.
        "reuse_decomposition_multiple_solves", "scan_split_non_sequence_decomposition_and_solve")

    def fgraph_convert(self, fgraph, input_storage, storage_map, **kwargs):
        return Linked(fgraph)

    def jit_compile(self, fn):
        return fn

    def create_thunk_inputs(self, storage_map):
        return [storage_map[v] for v in self.fgraph.inputs]

    def create_jitable_thunk(self, compute_map, order, input_storage, output_storage, storage_map):
        """As its base has it, but that a call whose shapes are those of the last one goes from cells to cells without Python."""
        thunks, nodes, linked = super().create_jitable_thunk(compute_map, order, input_storage, output_storage, storage_map)
        [otherwise] = thunks
        ins, outs = otherwise.inputs, otherwise.outputs
        updates = tuple(k for pair in (self.fgraph.update_mapping or {}).items() for k in pair) or None

        def nothing():  # is asked for
            return []

        def update_profile(profile):
            """All of the time is the one function's; its kernels are in profile.weft."""
            if nodes:
                key = (self.fgraph, nodes[0])
                profile.apply_time[key] = profile.vm_call_time
                profile.apply_callcount[key] = profile.fct_callcount
                profile.apply_cimpl[nodes[0]] = True
            profile.weft = linked.show("plan")

        thunk = Thunk(linked.last, ins, outs, asarray, copy, updates, otherwise) if outs else nothing
        thunk.update_profile = update_profile
        vars(thunk).update(vars(otherwise))
        return [thunk], nodes, linked


# Graphs inside are rewritten as for the other linkers that change nothing in place.
for dispatch in (rewrite_scan_inner_graph, rewriting.rewrite_ofg_inner_graph, getattr(optimize, "rewrite_optimize_inner_graph", None)):
    if dispatch is not None:
        dispatch.register(WeftLinker, dispatch.dispatch(JAXLinker))

# Fusing is weft's own work.
WEFT = Mode(WeftLinker(), RewriteDatabaseQuery(include=["fast_run"], exclude=["fusion"]))
if "weft" not in predefined_linkers:
    register_linker("weft", WeftLinker())
    register_mode("WEFT", WEFT)
