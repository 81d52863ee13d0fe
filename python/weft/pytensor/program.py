"""A graph as something to call: a compiled function of weft, traced once for all sizes that its types leave open.

An integer that bounds something and is no size enters as one: it is an input, or computed first by a program of its own (a *cut*), and
an array of so many rows stands for it, so that the function is for all of its values too. Other values that sizes depend on are known
when the rest is traced, and so part of what a function is for. What only a perform tells the sizes of is computed first.

Where a step wants sizes as numbers, the graph is traced for each set of them; `lengths` counts these graphs, by the name of the Op.
"""
from collections import Counter

import numpy as np
import weft
from numpy import asarray
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.type import DenseTensorType
from weft import _core

from . import fallback
from .graph import Arranged, Graph, needed
from .random import WORDS, generator_of, words_of
from .trace import Demand, Trace
from .value import NotOpen, array, is_array, is_expression, is_tensor, shape_if_known, sharing_constants

MOST_TRACES = 64  # kept of a program; a loop over more shapes than that traces again

lengths = Counter()
"""How many graphs are traced for each set of sizes, by the Op that wants sizes as numbers; "sizes": how many sets of sizes had a
trace of their own, as the one for all failed."""
traces = Counter()
"""How many traces there were: "open" ones, for all sizes, and "closed" ones, for a set of them."""


class Cut:
    """What is computed before the rest is traced. fill puts it among the values. `sides`: those of choices that alone read it, each the
    conditions on the way to it; where none of them is chosen nobody reads it, and something empty stands for it."""

    def __init__(self, program, slots, step=None, sides=None):
        self.program, self.slots, self.step, self.sides = program, slots, step, sides

    def is_read(self, values):
        there = self.program.graph.constants
        return self.sides is None or any(
            all(bool(values[slot] if slot in values else there[slot]) != bool(k) for slot, k in side) for side in self.sides)

    def fill(self, values):
        if self.program is None:  # an input
            return
        if not self.is_read(values):
            values.update((k, empty(self.program.graph.variables[k])) for k in self.slots)
            return
        found = self.program.run(values)
        if self.step is not None:
            fallback.note(self.step.node.op)
            found = fallback.perform(self.step, found)
        for k, value in zip(self.slots, found):
            values[k] = value


class Program:
    """Slots `outputs` of a graph, from its inputs and the slots `given`; `known`: those of them that are known."""

    def __init__(self, graph, outputs, graphs, given=(), known=(), extents=()):
        self.graph, self.outputs, self.graphs = graph, outputs, graphs
        self.given, self.known, self.extents, self.cuts = set(given) | set(graph.inputs), set(known), set(extents), []
        self.is_open = True
        self.arrange()

    def arrange(self):
        """Which steps are to be traced, and what enters them."""
        there = self.given | set(self.graph.constants)
        steps = needed(self.graph.steps, self.outputs, there)
        made = {k for step in steps for k in step.outs} - self.given  # of several results some may have been computed first
        read = {k for step in steps for k in step.ins} | set(self.outputs)
        enters = sorted(k for k in read - made if k not in self.graph.constants)
        self.arranged, self.traces = Arranged(steps, self.outputs), {}
        self.entering = [k for k in enters if k not in self.known and is_array(self.graph.variables[k])]
        self.entering, self.bounds = [k for k in self.entering if k not in self.extents], [k for k in enters if k in self.extents]
        self.fixed = [k for k in enters if k in self.known]
        self.is_plain = not self.cuts and not self.fixed and not self.bounds and all(
            isinstance(self.graph.variables[k].type, DenseTensorType) for k in (*self.entering, *self.outputs))

    def roots(self, slot):
        """The integers among what is given that an integer is computed of, if it is of these and of sizes alone; else None."""
        found, todo, makers = set(), [slot], {k: step for step in self.graph.steps for k in step.outs}
        while todo:
            k = todo.pop()
            step, is_given = makers.get(k), k in self.given
            if k in self.graph.constants or (step is not None and not is_given and isinstance(step.node.op, Shape_i)):
                continue
            if not is_whole_number(self.graph.variables[k]) and getattr(self.graph.variables[k].type, "dtype", None) != "bool":
                return None
            if is_given:
                found.add(k)
            else:
                todo.extend(step.ins)
        return found - self.extents

    def cut(self, demand):
        """Has what was demanded computed first, from now on."""
        roots = self.roots(demand.slot) if demand.slot is not None and not demand.is_sizes else None
        if roots:  # all that is computed of these is told with them
            self.cuts.extend(Cut(None, [k]) for k in roots)
            self.extents |= roots
            return self.arrange()
        if demand.step is None:
            slots, step, wanted = [demand.slot], None, [demand.slot]
        else:
            slots, step, wanted = demand.step.outs, demand.step, demand.step.ins
        is_input = step is None and slots[0] in self.given
        sides = None if is_input else self.arranged.ways(step or self.arranged.makers.get(slots[0]))
        for slot in {slot for side in sides or () for slot, _ in side} - self.given - set(self.graph.constants):
            self.cuts.append(Cut(Program(self.graph, [slot], self.graphs, self.given, self.known, self.extents), [slot]))
            self.given.add(slot)
            self.known.add(slot)
        program = None if is_input else Program(self.graph, wanted, self.graphs, self.given, self.known, self.extents)
        self.cuts.append(Cut(program, slots, step, sides))
        self.given.update(slots)
        self.is_open |= demand.is_sizes  # of what is computed first all sizes will do
        if step is None and not demand.is_sizes:
            is_extent = slots[0] not in self.extents and is_whole_number(self.graph.variables[slots[0]])
            (self.extents if is_extent else self.known).update(slots)
            self.extents -= self.known
        self.arrange()

    def run(self, values):
        """values: those of the inputs and of what is given, by slot, as NumPy's arrays; the outputs likewise."""
        done = 0
        while True:
            for cut in self.cuts[done:]:
                cut.fill(values)
            done = len(self.cuts)
            for k in self.entering:
                values[k] = words_of(values[k]) if isinstance(values[k], np.random.Generator) else as_memory(values[k])
            known = [np.asarray(values[k]).tobytes() for k in self.fixed]
            key = (*[values[k].shape for k in self.entering], *known, *[np.asarray(values[k]).tobytes() for k in self.bounds])
            try:
                if self.is_open and key not in self.traces:
                    return self.traced(("open", *known), values, True)(values)
            except Demand as demand:
                self.cut(demand)
                continue
            except NotOpen as error:
                self.close(fallback.name_of(error.step.node.op))
            except Exception:
                pass  # the function for these sizes alone says what is wrong, or does what is not there for all
            is_new = key not in self.traces
            try:
                function = self.traced(key, values, False)
            except Demand as demand:
                self.cut(demand)
                continue
            results = function(values)
            if self.is_open and is_new:  # it did what the function for all sizes did not
                lengths["sizes"] += 1
            return results

    def shown(self, what):
        for cut in self.cuts:
            if cut.program is not None:
                yield from cut.program.shown(what)
        for traced in self.traces.values():
            if traced.function is not None:
                yield traced.function.show(what)

    def traced(self, key, values, is_open):
        """The function for a set of sizes and known values, or for all sizes; Demand, or another exception, if it cannot be traced."""
        function = self.traces.get(key)
        if function is None:
            function = self.traces[key] = Traced(self, values, is_open)
            if len(self.traces) > MOST_TRACES:
                del self.traces[next(iter(self.traces))]
        return function

    def close(self, name):
        """From now on a trace is for one set of sizes."""
        self.is_open = False
        lengths[name] += 1


class Traced:
    """A function of weft for one set of shapes and known values, its results among the values, and what it checks. If it is open it is
    for all sizes that the types of the graph leave open: none of them stretches, as PyTensor has it."""

    def __init__(self, program, values, is_open=False):
        graph, self.entering, self.bounds = program.graph, program.entering, program.bounds if is_open else []
        arrays = [weft.asarray(values[k]) for k in self.entering] + [weft.asarray(rows_for(values[k])) for k in self.bounds]
        with sharing_constants(), _core.Scope(), _core.Scope() as body:
            shapes = [shape_of(graph.variables[k]) for k in self.entering] + [(None, None)] * len(self.bounds)
            names = [_core.input(x, 0, 2, shape) if is_open else _core.input(x, 0) for x, shape in zip(arrays, shapes)]
            there = dict(graph.constants)
            there.update((k, values[k]) for k in (*program.fixed, *(() if is_open else program.bounds)))
            there.update((k, weft.size(x, 0) - weft.size(x, 1)) for k, x in zip(self.bounds, names[len(self.entering):]))
            there.update((k, values[k]) for k in program.given if k in values and k not in there and not is_array(graph.variables[k]))
            there.update(zip(self.entering, names))
            checks, self.told = [], []
            Trace(program.graphs, checks, self.told, is_open).outermost(program.arranged, there)
            results = [there[k] for k in program.outputs]
            variables = [graph.variables[k] for k in program.outputs]
            self.known = [source(k, r, v) for k, r, v in zip(program.outputs, results, variables)]
            outs = [array(r, fallback.dtype_given(v)) for r, v, known in zip(results, variables, self.known) if known is None]
            checks = self.attached(checks, outs)
            outs += [holds for _, _, holds in checks]
            self.checks = [(kind, message) for kind, message, _ in checks]
            self.function = body.compile(names, [_core.alias(r) for r in outs]) if outs else None
            traces["open" if is_open else "closed"] += 1
            self.is_straight = self.function is not None and not self.checks and not any(self.known)

    def attached(self, checks, outs):
        """Makes what is left to check a step before an output that has elements whatever the sizes are; the checks if there is none."""
        at = next((k for k, x in enumerate(outs) if has_elements(x)), None)
        if at is None:
            return checks
        for kind, message, holds in checks:
            self.told.append((kind, message))
            outs[at] = weft.assert_(outs[at], holds, str(len(self.told) - 1))
        return []

    def __call__(self, values):
        results = [] if self.function is None else self.run(*[values[k] for k in self.entering], *[rows_for(values[k]) for k in self.bounds])
        n = len(results) - len(self.checks)
        for (kind, message), holds in zip(self.checks, results[n:]):
            if not holds.item():
                raise kind(message)
        found = iter(results)
        return [as_own(next(found)) if known is None else known(values) for known in self.known]

    def run(self, *arrays):
        """The function; a check that fails raises what it was told to."""
        try:
            return self.function.run(*arrays)
        except AssertionError as error:
            number = str(error)
            if not (number.isdigit() and int(number) < len(self.told)):
                raise
            kind, message = self.told[int(number)]
        raise kind(message)


def has_elements(x):
    """Whether that is known before it runs."""
    sizes = shape_if_known(x)
    return sizes is not None and 0 not in sizes


def is_whole_number(variable):
    return getattr(variable.type, "ndim", None) == 0 and variable.type.dtype.startswith(("int", "uint"))


def rows_for(n):
    """What stands for an integer that bounds something: an empty array with so many rows, or columns if it is below 0."""
    n = int(n)
    return np.empty((n, 0) if n >= 0 else (0, -n), np.uint8)


def empty(variable):
    """Stands for a value that nobody reads."""
    if isinstance(variable.type, RandomType):
        return np.zeros(WORDS, np.uint32)
    return np.zeros([n or 0 for n in shape_of(variable)], variable.type.dtype) if is_tensor(variable) else None


def shape_of(variable):
    """The sizes that its type says, None for those it leaves open."""
    return (WORDS,) if isinstance(variable.type, RandomType) else getattr(variable.type, "shape", ())


def as_own(result):
    """As an array of NumPy's that may be written to: over the same memory if nobody else can see it."""
    memory = asarray(result)
    return memory if memory.flags.writeable else memory.copy()


def as_memory(value):
    """Something of NumPy's that weft can share, in the byte order of the machine; or an array of weft's, as it is."""
    if type(value) is weft.array:
        return value
    value = value if type(value) is np.ndarray else np.asarray(value)
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def source(slot, result, variable):
    """Where an output comes from, of the values of a call; None: the function computes it. What is no array, as a sparse matrix,
    passes through."""
    if not is_array(variable):
        return lambda values: values.get(slot, result)  # result: of a constant
    if is_expression(result):
        return None
    return lambda values: np.array(result, dtype=fallback.dtype_given(variable)) if is_tensor(variable) else result


class Linked:
    """What the linker's thunk calls: the values of the inputs in order, then those of the outputs.

    Calls of shapes that were seen before go straight to their function, where nothing but tensors enters and leaves."""

    def __init__(self, fgraph):
        self.graph = Graph(fgraph)
        self.program = Program(self.graph, self.graph.outputs, {})
        self.leave = [leaver(v) for v in fgraph.outputs]
        self.straight, self.last = {}, [None]  # last: the function that was called last

    def __call__(self, *inputs):
        try:
            function = self.straight[tuple([x.shape for x in inputs])]
        except (KeyError, AttributeError):
            return self.otherwise(inputs)
        try:
            results = [as_own(x) for x in function.run(*inputs)]
            self.last[0] = function
            return results
        except Exception:
            return self.otherwise(inputs)  # which may do otherwise, or says what is wrong

    def show(self, what="kernels"):
        """The functions of weft that calls have made so far."""
        return "\n".join(text for text in self.program.shown(what) if text)

    def otherwise(self, inputs):
        program = self.program
        results = self.program.run(dict(zip(self.graph.inputs, inputs)))
        if program.is_plain and program.entering == self.graph.inputs and len(self.straight) < MOST_TRACES:
            shapes = tuple(np.shape(x) for x in inputs)
            traced = program.traces.get(("open",) if program.is_open else shapes)
            if traced and traced.is_straight:
                self.straight[shapes] = traced.function
                self.last[0] = traced.function
        return [value if leave is None else leave(value) for leave, value in zip(self.leave, results)]


def leaver(variable):
    """What makes a result what PyTensor expects; None: it is that already."""
    if isinstance(variable.type, RandomType):
        return lambda words: generator_of(words) if not isinstance(words, np.random.Generator) else words
    return (lambda x: x[()]) if isinstance(variable.type, ScalarType) else None
