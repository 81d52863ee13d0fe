"""Ops that have no row: their own perform, as a function of the host."""
import threading
import warnings
from collections import Counter

import numpy as np
import weft
from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.linalg.decomposition.eigen import Eigh
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import DenseTensorType

from .random import WORDS, generator_of, words_of
from .value import DTYPE, NoRow, extent, is_expression, is_open, known, sizes

fallbacks = Counter()
"""How many nodes of each Op were traced as calls of its perform."""


class FallbackWarning(UserWarning):
    """An Op has no row in weft.pytensor: it is computed by PyTensor's own perform."""


def name_of(op):
    """Of an Elemwise or a Blockwise: the name of what it applies."""
    inner = getattr(op, "scalar_op", None) or getattr(op, "core_op", None)
    return f"{type(op).__name__}{{{name_of(inner)}}}" if inner is not None else type(op).__name__


def note(op):
    name = name_of(op)
    if not fallbacks[name]:
        warnings.warn(f"weft has no row for {name}: its perform is called", FallbackWarning, stacklevel=2)
    fallbacks[name] += 1


class Performer:
    """Calls an Op with NumPy's arrays. Any thread may."""

    def __init__(self, node):
        self.node, self.lock = node, threading.Lock()
        self.destroyed = {k for ks in getattr(node.op, "destroy_map", {}).values() for k in ks}
        if type(node.op).make_thunk is Op.make_thunk or not hasattr(type(node.op), "make_thunk"):
            self.call = self.perform
        else:
            self.call = self.thunk()
        node.op.prepare_node(node, None, None, "py")

    def __call__(self, values):
        values = [as_host(value, v, k in self.destroyed) for k, (value, v) in enumerate(zip(values, self.node.inputs))]
        return [as_result(value, v) for value, v in zip(self.call(values), self.node.outputs)]

    def perform(self, values):
        cells = [[None] for _ in self.node.outputs]
        self.node.op.perform(self.node, values, cells)
        return [cell[0] for cell in cells]

    def thunk(self):
        """Of an Op that is more than perform: Scan, a lazy choice."""
        node = self.node
        cells = {v: [v.data if isinstance(v, Constant) else None] for v in (*node.inputs, *node.outputs)}
        is_there = {v: [True] for v in node.inputs} | {v: [False] for v in node.outputs}
        run = node.op.make_thunk(node, cells, is_there, list(node.outputs), impl="py")

        def call(values):
            with self.lock:
                for v, value in zip(node.inputs, values):
                    cells[v][0] = value
                for v in node.outputs:
                    cells[v][0], is_there[v][0] = None, False
                while run():  # which inputs a lazy one still wants: all of them are there
                    pass
                return [cells[v][0] for v in node.outputs]

        return call


def as_host(value, variable, is_changed=False):
    """As the Op expects it."""
    if isinstance(variable.type, RandomType):
        return generator_of(np.asarray(value)) if not isinstance(value, np.random.Generator) else value
    if isinstance(variable.type, ScalarType):
        return np.asarray(value)[()]
    if not isinstance(variable.type, DenseTensorType):
        return value
    value = np.asarray(value)
    return np.array(value) if is_changed or not value.flags.writeable else value


def as_result(value, variable):
    if isinstance(variable.type, RandomType):
        return words_of(value)
    if isinstance(variable.type, (DenseTensorType, ScalarType)):
        value, dtype = np.asarray(value), dtype_given(variable)
        if value.dtype.kind == "c" and not dtype.startswith("complex"):
            raise TypeError(f"{name_of(variable.owner.op)} gives {value.dtype} where the type of its result says {dtype}")
        return value.astype(dtype, copy=False)
    return value


def is_mistyped(variable):
    """Whether an Op gives complex numbers where its result is said to be real: the vectors of a Hermitian matrix."""
    node = variable.owner
    op = getattr(node.op, "core_op", node.op) if node is not None else None
    return isinstance(op, Eigh) and variable.index == 1 and any(x.type.dtype.startswith("complex") for x in node.inputs)


def dtype_given(variable):
    """That of the values of a result, or of what it is a copy of: what its type says, None if that says nothing. But running sums say
    what is added where NumPy gives what it adds up to, 64 bits of integers and bools."""
    while variable.owner is not None and isinstance(variable.owner.op, DeepCopyOp):
        [variable] = variable.owner.inputs
    if is_mistyped(variable):
        return np.result_type(*(x.type.dtype for x in variable.owner.inputs)).name
    dtype = getattr(variable.type, "dtype", None)
    if variable.owner is not None and isinstance(variable.owner.op, CumOp):
        return {"b": "int64", "i": "int64", "u": "uint64"}.get(np.dtype(dtype).kind, dtype)
    return dtype


def performer(step):
    if step.performer is None:
        step.performer = Performer(step.node)
    return step.performer


def perform(step, values):
    """The outputs, of known values."""
    return performer(step)(values)


def as_step(step, values, trace):
    """The outputs of a node as arrays that its perform computes; NoRow if nothing tells their shapes."""
    if not step.is_plain:
        raise NoRow(step.node.op)
    call = performer(step)
    results = [((WORDS,), weft.uint32) if isinstance(v.type, RandomType) else (shape, DTYPE[dtype_given(v)])
               for v, shape in zip(step.node.outputs, sizes_of(step.node, values, trace))]
    note(step.node.op)
    return hosted(call, values, results)


def hosted(call, values, results):
    """What a Performer gives, as a step of the function. results: their sizes and dtypes."""
    places = [k for k, value in enumerate(values) if is_expression(value)]
    fixed = [None if k in places else value for k, value in enumerate(values)]

    def run(*arrays):
        given = list(fixed)
        for k, x in zip(places, arrays):
            given[k] = np.asarray(x)
        out = call(given)
        return [np.ascontiguousarray(x).reshape(np.shape(x)) for x in out]

    return weft.host(run, [values[k] for k in places], results)


def sizes_of(node, values, trace):
    """The shape of each output, from the shapes of the inputs, with open sizes among them; NoRow if the Op cannot say."""
    static = [getattr(v.type, "shape", ()) for v in node.outputs]
    if all(None not in shape for shape in static):
        return static
    names = {}  # of open sizes
    try:
        said = node.op.infer_shape(node, [symbols(value, v, names) for value, v in zip(values, node.inputs)])
    except Exception:  # whatever an Op does that cannot tell its shape from those of its inputs
        raise NoRow(node.op) from None
    wanted = [[] if None not in shape else list(symbolic) for symbolic, shape in zip(said, static)]
    flat = [n for shape in wanted for n in shape]
    there = dict(zip(node.inputs, values))
    found = iter(reckoned(flat, node, values, names, trace) if names else [int(n) for n in folded(flat, there)])
    return [shape if None not in shape else tuple(next(found) for _ in some) for some, shape in zip(wanted, static)]


def symbols(value, variable, names):
    """The shape as PyTensor's variables: constants, and names for sizes that are open."""
    from pytensor.tensor.basic import constant
    from pytensor.tensor.type import lscalar
    if not isinstance(variable.type, DenseTensorType):
        return None
    shape = []
    for n in sizes(value):
        if is_open(n):
            shape.append(lscalar())
            names[shape[-1]] = n
        else:
            shape.append(constant(n, dtype="int64"))
    return tuple(shape)


def reckoned(variables, node, values, names, trace):
    """Sizes that are computed of open ones."""
    from pytensor.tensor.basic import as_tensor_variable
    inputs = dict(names)
    inputs.update((v, value) for v, value in zip(node.inputs, values) if not isinstance(v, Constant))
    graph = FunctionGraph(list(inputs), [as_tensor_variable(v) for v in variables], clone=True)
    return [extent(n) for n in trace.inner(graph, list(inputs.values()))]


def folded(variables, there):
    """Known values of the variables, where the values in `there` are."""
    from pytensor.tensor.basic import as_tensor_variable
    variables = [as_tensor_variable(v) for v in variables]
    there = dict(there)
    get = lambda v: v.data if isinstance(v, Constant) and v not in there else known(there[v])
    for node in toposort(variables, blockers=list(there)):
        if not all(v in there for v in node.outputs):
            there.update(zip(node.outputs, Performer(node)([get(v) for v in node.inputs])))
    return [get(v) for v in variables]
