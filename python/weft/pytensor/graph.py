"""A FunctionGraph as numbered slots and steps, and which of its steps are to be traced where.

A step inside a side of an IfElse is one that nothing else needs: it is traced inside that side, so that it is computed, and may
fail, only where that side is chosen. One that sides of several IfElse need, and nothing else, is computed where one of them is chosen.
"""
import os

import pytensor
from pytensor.graph.basic import Constant
from pytensor.ifelse import IfElse

from .row import find
from .value import is_array, is_tensor

FOLDED_DTYPES = ("int", "uint", "bool")
PYTENSOR = os.path.dirname(pytensor.__file__) + os.sep
CONTAINERS = ("Scan", "OpFromGraph", "IfElse", "CheckAndRaise", "RandomVariable")


class Step:
    """A node: its row, and the slots it reads and writes."""

    __slots__ = ("node", "rule", "ins", "outs", "folds", "is_plain", "is_container", "performer")

    def __init__(self, node, ins, outs):
        self.node, self.ins, self.outs, self.performer = node, ins, outs, None
        self.is_plain = all(is_array(v) for v in (*node.inputs, *node.outputs) if not isinstance(v, Constant))
        self.rule = find(node) if self.is_plain else None
        self.is_container = any(kind.__name__ in CONTAINERS for kind in type(node.op).__mro__)
        self.folds = self.is_plain and all(is_small(v) for v in node.outputs) and not self.is_container

    def line(self):
        """The user's line that made the node, or something inside of it, as its file and number; None: rewrites do not know it."""
        inside = getattr(self.node.op, "fgraph", None)
        if inside is None:
            return line_of(self.node)
        before = (v.owner for v in self.node.inputs if v.owner is not None)  # of a Scan that rewrites made: where its buffers were made
        return next(filter(None, map(line_of, (self.node, *inside.toposort(), *before))), None)

    def text(self):
        """The node with the names of its variables."""
        return f"{self.node.op}({', '.join(map(called, self.node.inputs))})"

    @property
    def is_choice(self):
        return isinstance(self.node.op, IfElse) and self.is_plain


def line_of(node):
    """That of the innermost call that is none of PyTensor's own."""
    frames = [frame for trace in getattr(node.outputs[0].tag, "trace", ()) for frame in trace]
    own = [frame for frame in frames if not frame[0].startswith(PYTENSOR)] or frames
    return (own[-1][0], own[-1][1]) if own else None


def looked_at(node):
    """What its row looks at beyond the node's inputs."""
    return getattr(find(node), "looks_at", no_others)(node)


def no_others(node):
    return ()


def called(variable):
    """By its name, or by what made it."""
    if variable.name or variable.owner is None:
        return variable.name or str(variable.type)
    return f"{type(variable.owner.op).__name__}.{variable.index}"


def is_small(variable):
    """Whether what is computed of known values is known too: sizes, shapes, numbers."""
    return is_tensor(variable) and (getattr(variable.type, "ndim", 0) == 0 or (
        variable.type.ndim == 1 and variable.type.dtype.startswith(FOLDED_DTYPES)))


class Graph:
    def __init__(self, fgraph):
        self.fgraph, self.slots, self.constants, self.steps = fgraph, {}, {}, []
        self.inputs = [self.slot(v) for v in fgraph.inputs]
        for node in fgraph.toposort():
            ins = [self.slot(v) for v in (*node.inputs, *looked_at(node))]
            self.steps.append(Step(node, ins, [self.slot(v) for v in node.outputs]))
        self.outputs = [self.slot(v) for v in fgraph.outputs]
        self.variables = list(self.slots)
        self._all = None

    def slot(self, variable):
        k = self.slots.get(variable)
        if k is None:
            k = self.slots[variable] = len(self.slots)
            if isinstance(variable, Constant):
                self.constants[k] = variable.data
        return k

    def all_steps(self):
        """Those that its outputs need."""
        if self._all is None:
            self._all = Arranged(needed(self.steps, self.outputs, self.constants), self.outputs)
        return self._all


def needed(steps, outputs, given):
    """The steps that the outputs need, if the slots in `given` are there already."""
    wanted, kept = {k for k in outputs if k not in given}, []
    for step in reversed(steps):
        if any(k in wanted for k in step.outs) and not all(k in given for k in step.outs):
            kept.append(step)
            wanted.update(k for k in step.ins if k not in given)
    return kept[::-1]


class Arranged:
    """Steps in order: those of the graph itself, and for each choice those of its two sides.

    What sides of several choices need, and nothing else, stands where these choices do and is *guarded*: it is computed, and may fail,
    only if one of the sides is chosen. A side is a path of pairs, a choice and 0 or 1, from the outermost choice to the one it is of."""

    def __init__(self, steps, outputs):
        self.makers = {k: step for step in steps for k in step.outs}
        self.choices = {id(step): step for step in steps if step.is_choice}
        if not self.arrange(steps, outputs, len(self.choices) > 1):
            self.arrange(steps, outputs, False)

    def arrange(self, steps, outputs, guarding):
        """Finds the home of each step. False: guarded steps and conditions need each other."""
        self.homes, self.guards, self.sides, uses, ancestors = {}, {}, {}, {}, None
        for step in reversed(steps):
            paths = fewest({path for k in step.outs for path in uses.get(k, ())} | {() for k in step.outs if k in outputs})
            at = self.homes[id(step)] = common(list(paths))
            if guarding and len(paths) > 1:
                ancestors = ancestors or ancestors_of(steps, self.makers)
                asked = {self.choices[which].ins[0] for path in paths for which, _ in path[len(at):]}
                if not any(ancestors[id(self.makers[k])] & ancestors[id(step), "alone"] for k in asked if k in self.makers):
                    self.guards[id(step)] = frozenset(paths)
            paths = paths if id(step) in self.guards else {at}
            for place, k in enumerate(step.ins):
                is_side = step.is_choice and place
                uses.setdefault(k, set()).update({(*at, (id(step), side_of(step, place)))} if is_side else paths)
        conditions = {which: {k for side in self.told(guard, self.homes[which]) for k, _ in side} for which, guard in self.guards.items()}
        ordered = with_these_first(steps, self.makers, conditions) if conditions else steps
        for step in ordered or ():
            self.sides.setdefault(self.homes[id(step)], []).append(step)
        return ordered is not None

    def told(self, guard, at):
        """For each side of a guard the conditions on the way to it from where the guard stands, as slots, with 0 or 1 for the side of
        each: those that are computed there whatever is chosen."""
        return [[(self.choices[which].ins[0], k) for which, k in path[len(at):] if self.is_outside(self.choices[which].ins[0], at)]
                for path in guard]

    def ways(self, step):
        """For each side that alone reads a step the conditions on the way to it, as slots, with 0 or 1 for the side of each; None: it is
        read whatever is chosen."""
        paths = self.guards.get(id(step)) or {self.homes.get(id(step), ())}
        return None if () in paths else [[(self.choices[which].ins[0], k) for which, k in path] for path in paths]

    def is_outside(self, slot, at):
        """Whether it is made where a path stands, or further out."""
        return slot not in self.makers or common([self.homes[id(self.makers[slot])], at]) == self.homes[id(self.makers[slot])]

    def steps(self, at=()):
        return self.sides.get(at, ())


def fewest(paths):
    """The same places by as few paths: none that is inside of another, and both sides of a choice are where the choice is."""
    paths = set(paths)
    for path in sorted(paths, key=len, reverse=True):
        if path and path in paths and (*path[:-1], (path[-1][0], 1 - path[-1][1])) in paths:
            paths.add(path[:-1])
    return {path for path in paths if not any(path[:n] in paths for n in range(len(path)))}


def ancestors_of(steps, makers):
    """For each step a number whose bits are the steps that it is made of, and itself; with "alone" the bit of the step."""
    found = {}
    for n, step in enumerate(steps):
        found[id(step)] = found[id(step), "alone"] = 1 << n
        for k in step.ins:
            if k in makers:
                found[id(step)] |= found[id(makers[k])]
    return found


def with_these_first(steps, makers, wanted):
    """The steps in an order in which the slots that some of them want besides what they read are made before; None: there is none."""
    ordered, state, todo = [], {}, list(reversed(steps))
    while todo:
        step = todo[-1]
        if state.get(id(step)) is None:
            state[id(step)] = "begun"
            before = [makers[k] for k in (*step.ins, *wanted.get(id(step), ())) if k in makers]
            if any(state.get(id(b)) == "begun" for b in before):
                return None
            todo.extend(b for b in reversed(before) if id(b) not in state)
            continue
        todo.pop()
        if state[id(step)] == "begun":
            state[id(step)] = "done"
            ordered.append(step)
    return ordered


def side_of(step, place):
    return int(place > step.node.op.n_outs)


def common(paths):
    """The longest path that all of them begin with."""
    first, *rest = paths or [()]
    n = len(first)
    for path in rest:
        n = next((k for k in range(min(n, len(path))) if path[k] != first[k]), min(n, len(path)))
    return first[:n]
