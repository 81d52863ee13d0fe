"""A graph told to weft once: its steps in order, each by its row."""
import re
from collections import ChainMap
from sys import intern

import numpy as np
import weft
from weft._core import built_from

from . import fallback
from .graph import Graph
from .value import FAILURES, NeedsValue, NoRow, NotOpen, array, is_expression, shape_if_known

LOCATED = re.compile(r", .*:\d+\)")  # what ends a message that says where it comes from


class Demand(Exception):
    """What has to be computed before the rest can be traced: the value of a slot, or only its sizes, or a whole step."""

    def __init__(self, slot=None, step=None, is_sizes=False):
        super().__init__(slot, step, is_sizes)
        self.slot, self.step, self.is_sizes = slot, step, is_sizes


class Trace:
    """One tracing of the graph of a program. A check is a step of the function; its message there is the number of what it raises in
    `told`. Outside of bodies (of a loop, a map, a choice) one whose array may be empty, and which nobody would make then, is an
    output that whoever calls looks at. Open: sizes of arguments are not known."""

    def __init__(self, graphs, checks, told, is_open=False, line=("no line", 0), node="no node"):
        self.graphs, self.checks, self.told, self.is_open = graphs, checks, told, is_open
        self.line = line  # the user's, of the step that is traced, or of the one it is inside of
        self.node = node  # of that step, as text

    @property
    def is_body(self):
        return self.checks is None

    def body(self):
        return Trace(self.graphs, None, self.told, self.is_open, self.line, self.node)

    def graph(self, fgraph):
        found = self.graphs.get(id(fgraph))
        if found is None:
            found = self.graphs[id(fgraph)] = Graph(fgraph)
        return found

    def inner(self, fgraph, values):
        """The outputs of a graph inside."""
        graph = self.graph(fgraph)
        there = dict(graph.constants)
        there.update(zip(graph.inputs, values))
        self.run(graph.all_steps(), there)
        return [there[k] for k in graph.outputs]

    def outermost(self, arranged, there):
        """The steps of the graph of a program. Demand: something is to be computed first."""
        self.run(arranged, there, is_outermost=True)

    def run(self, arranged, there, at=(), is_outermost=False):
        needs, within = {None: True}, {}  # by guard: whether it is to be computed, and what its own steps read of each other
        for step in arranged.steps(at):
            guard = arranged.guards.get(id(step))
            if guard not in needs:
                needs[guard], within[guard] = need(arranged.told(guard, at), there), {}
            if needs[guard] is False:
                continue
            if needs[guard] is True:
                results = self.traced(arranged, step, there, at, is_outermost)
            else:
                results = self.guarded(arranged, step, there, at, is_outermost, needs[guard], within[guard])
            for k, value in zip(step.outs, results):
                there.setdefault(k, value)  # one of several may have been computed first, and stays what it was

    def traced(self, arranged, step, there, at, is_outermost):
        if step.is_choice:
            return self.choice(arranged, step, there, at, is_outermost)
        return self.step(step, [read(there, k) for k in step.ins], there if is_outermost else None)

    def guarded(self, arranged, step, there, at, is_outermost, need, within):
        """The results of a step that only sides of choices read: 0 where none of these is chosen. What cannot be is an error of whoever
        reads it."""
        try:
            results = self.body().traced(arranged, step, ChainMap(within, there), at, is_outermost)
        except (Demand, NeedsValue, weft.NoValueError):
            told = arranged.told(arranged.guards[id(step)], at)
            slot = next((k for side in told for k, _ in side if is_expression(there[k])), None) if is_outermost else None
            if slot is None:
                raise
            raise Demand(slot=slot) from None  # a condition first: once all are known it is traced, or nobody reads it
        except FAILURES as error:
            results = [Failed(error)] * len(step.outs)
        within.update(zip(step.outs, results))
        return [weft.choose(need, x, weft.zeros_like(x)) if is_expression(x) else x for x in results]

    def step(self, step, values, there):
        """The results of one step; what fails in it, now or when it runs, names its node and the user's line."""
        outside = self.line, self.node
        self.line, self.node = step.line() or self.line, step.text()
        file, number = self.line
        before = built_from(intern(f"{self.node}, {file}"), number)
        try:
            return self.results(step, values, there)
        except FAILURES as error:
            if not isinstance(error, weft.NoValueError) and len(error.args) == 1 and self.is_silent_of_lines(error.args[0]):
                error.args = (self.located(error.args[0]),)
            raise
        finally:
            built_from(None, before)
            self.line, self.node = outside

    def located(self, message):
        """With the node that is traced, its variables and the user's line, as weft's own failures have it."""
        file, number = self.line
        return f"{message} ({self.node}, {file}:{number})" if number else f"{message} ({self.node})"

    def is_silent_of_lines(self, message):
        """Whether nobody has said yet where it happened: neither weft nor the step of a graph inside."""
        return isinstance(message, str) and not LOCATED.search(message) and not message.endswith(f"({self.node})")

    def results(self, step, values, there):
        """`there`: what an outermost step may ask the program for, else None."""
        try:
            if step.folds and not any(is_expression(v) for v in values):
                return fallback.perform(step, values)
            if step.rule is None:
                raise NoRow(step.node.op)
            try:
                results = step.rule(step.node, values, self)
            except TypeError:
                if not is_complex(step.node) or step.is_container:
                    raise
                raise NoRow(step.node.op) from None  # weft has it not of complex numbers
            return results if isinstance(results, (list, tuple)) else [results]
        except (NeedsValue, NoRow, NotImplementedError, weft.NoValueError) as error:
            slot = None if there is None else slot_of(getattr(error, "value", None), there)
            if slot is not None:
                raise Demand(slot=slot) from None
            if self.is_open and step.rule is not None and isinstance(error, (NeedsValue, weft.NoValueError)):
                if there is None and isinstance(error, NeedsValue):
                    raise  # of a graph inside: it may be a value of the one outside
                raise NotOpen(step) from error
            if there is not None and isinstance(error, (NeedsValue, weft.NoValueError)):
                self.demand_sizes(step, there)
            if isinstance(error, NeedsValue) and there is None:
                raise
        try:
            return fallback.as_step(step, values, self)
        except (NoRow, NeedsValue) as error:
            if there is None:
                raise
            self.demand_sizes(step, there)
            slot = slot_of(getattr(error, "value", None), there)
            raise Demand(slot=slot, step=step if slot is None else None) from None

    def demand_sizes(self, step, there):
        """Of the first array the step reads whose sizes only a run tells. Where those of arguments are open that is not asked for."""
        slot = next((k for k in step.ins if is_expression(there[k]) and shape_if_known(there[k]) is None), None)
        if slot is not None and not self.is_open:
            raise Demand(slot=slot, is_sizes=True) from None

    def choice(self, arranged, step, there, at, is_outermost):
        """One of two sides: what only one of them needs is computed, and fails, only if it is chosen (weft.choose)."""
        n, p = step.node.op.n_outs, read(there, step.ins[0])
        sides = [(*at, (id(step), k)) for k in range(2)]
        pick = lambda k: [read(there, slot) for slot in step.ins[1 + k * n:1 + (k + 1) * n]]
        if not is_expression(p):
            side = 0 if p else 1
            self.run(arranged, there, sides[side], is_outermost)
            return pick(side)
        chosen, found, failed = array(p) != 0, [None, None], [None, None]
        for k in range(2):
            try:
                self.body().run(arranged, there, sides[k], is_outermost)
                found[k] = [array(a, dtype_of(v)) for a, v in zip(pick(k), step.node.outputs)]
            except (Demand, NeedsValue, weft.NoValueError):
                if is_outermost and slot_of(p, there) is not None:
                    raise Demand(slot=slot_of(p, there)) from None  # the condition first: then one side is traced, and computed
                raise
            except FAILURES as error:
                failed[k] = error
        if failed[0] is not None and failed[1] is not None:
            raise failed[0]
        for k in range(2):  # a side that cannot be is an error of whoever takes it
            if failed[k] is not None:
                is_other = ~chosen if k == 0 else chosen
                found[k] = [self.body().check(x, is_other, type(failed[k]), str(failed[k]), is_located=True) for x in found[1 - k]]
        return [weft.choose(chosen, a, b) for a, b in zip(*found)]

    def check(self, x, condition, kind, message, is_located=False):
        """x, if the condition holds; else the exception, which says where it comes from."""
        message = message if is_located else self.located(message)
        if not is_expression(condition):
            if not np.all(condition):
                raise kind(message)
            return x
        x, holds = array(x), weft.all(array(condition) != 0)
        if self.checks is not None and 0 in (shape_if_known(x) or (0,)):
            self.checks.append((kind, message, holds))
            return x
        self.told.append((kind, message))
        return weft.assert_(x, holds, str(len(self.told) - 1))

    def require(self, x, holds, kind, message):
        """x, if holds(x) is true of all its elements."""
        return self.check(x, holds(x), kind, message)


class Failed:
    """What could not be traced, in the place of its value: whoever reads it raises its error."""

    def __init__(self, error):
        self.error = error


def read(there, slot):
    value = there[slot]
    if isinstance(value, Failed):
        raise value.error
    return value


def need(told, there):
    """Whether one of the sides is chosen that a guard is for, of which it is told the conditions: known, or an expression."""
    needed = False
    for side in told:
        chosen = True
        for slot, k in side:
            p = read(there, slot)
            chosen = both(chosen, (array(p) == 0 if k else array(p) != 0) if is_expression(p) else bool(p) != bool(k))
        needed = either(needed, chosen)
    return needed


def both(p, q):
    if is_expression(p) and is_expression(q):
        return weft.logical_and(p, q)
    return (q if p else False) if not is_expression(p) else p if q else False


def either(p, q):
    if is_expression(p) and is_expression(q):
        return weft.logical_or(p, q)
    return (True if p else q) if not is_expression(p) else True if q else p


def is_complex(node):
    return any(str(dtype_of(v)).startswith("complex") for v in (*node.inputs, *node.outputs))


def dtype_of(variable):
    return getattr(variable.type, "dtype", None)


def slot_of(value, there):
    return None if value is None else next((k for k, v in there.items() if v is value), None)
