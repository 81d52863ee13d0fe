"""Random stories of calls: functions of PyTensor's in mode WEFT beside the same by PyTensor's own `perform`.

    PYTHONPATH=build/release/python python python/test/pytensor_calls.py [--count 1000] [--seed 1]

A graph of pytensor_graphs.py, to which draws that can only come out one way are added (a normal number of scale 0, an integer below 1),
loops of such draws, choices in loops and graphs in graphs, becomes a function with random options: givens, In and Out with borrow,
mutable, strict, allow_downcast, names, defaults and updates, generators that are updated or not. It is made twice from one seed, each
with shared variables of its own, and both are told the same story: calls with the arguments in place and by name, of other sizes, of wrong
dtypes and ranks, lists and numbers, some missing; shared variables set and borrowed; copies and pickles; results held and written to.
Both have to give the same values, dtypes, shapes and classes of exceptions; what was held does not change later; what failed has
changed nothing. PyTensor's graph is rewritten little (FAST_COMPILE); where the stories differ, it is told once more to one with all rewrites.
"""
import argparse
import logging
import pickle
import signal
import sys
import traceback
import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor_graphs as graphs
import weft.pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.io import In, Out
from pytensor.scan.utils import until
from pytensor_graphs import REWRITTEN, Unfit, ifelse

PLAIN = "FAST_COMPILE"


# ---- What is added to the graphs

def generator(g):
    """A shared generator; half of them are advanced by the function."""
    if not g.generators or g.chance(0.3):
        g.generators.append(pytensor.shared(np.random.default_rng(int(g.rng.integers(1000))), name=f"rng{len(g.generators)}"))
        g.there[g.generators[-1]] = g.generators[-1].get_value()
    return g.pick(g.generators)


def certain(g, rng, like, is_larger=False):
    """(the next generator, a draw that can only be so): of the shape of `like`, or with an axis more."""
    x = pt.cast(like, "float64")
    size = (g.pick([0, 1, 2, 3]), *tuple(x.shape)) if is_larger else None
    return g.pick([
        lambda: pt.random.normal(x, 0.0, size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.uniform(pt.zeros_like(x), 0.0, size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.integers(pt.zeros_like(x, dtype="int64") + 3, 4, size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.bernoulli(pt.ones_like(x), size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.poisson(pt.zeros_like(x), size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.binomial(pt.zeros_like(x, dtype="int64") + 5, 1.0, size=size, rng=rng, return_next_rng=True),
        lambda: pt.random.laplace(x, 0.0, size=size, rng=rng, return_next_rng=True),
    ])()


def draw(g):
    rng = generator(g)
    following, x = certain(g, g.advanced.get(rng, rng), finite(g.floats()), g.chance(0.4))
    if g.chance(0.6):
        g.advanced[rng] = following
    return g.add(x)


def finite(x):
    """NumPy refuses what is infinite as a bound."""
    return pt.switch(pt.isinf(x) | pt.isnan(x), 0.5, x)


def drawn_loop(g):
    """A loop that draws in each step, its generator a state that is not kept."""
    rng, x = generator(g), finite(g.floats((0, 1)))
    n = g.number(g.pick([0, 1, 2, 4]))
    ends = g.chance(0.3)

    def step(state, rng):
        following, d = certain(Steady(g), rng, state)
        state = pt.tanh(state) + pt.cast(d, "float64") * 0.5
        return ([state, following], until(pt.any(state > 0.6))) if ends else [state, following]

    states, following = pytensor.scan(step, outputs_info=[pt.cast(x, "float64"), g.advanced.get(rng, rng)], n_steps=n, return_updates=False)
    if g.chance(0.7):
        g.advanced[rng] = following
    return g.add(states[-1] if g.chance(0.4) else states)


class Steady:
    """Draws that are the same every time PyTensor calls the body."""

    def __init__(self, g):
        self.rng = np.random.default_rng(g.seed)

    chance, pick = graphs.Grown.chance, graphs.Grown.pick


def chosen_loop(g):
    """A loop whose step chooses, in which a graph stands, and which may end in the middle."""
    x = g.floats((1, 2))
    y = g.floats((0,)) if g.chance(0.3) else g.add(finite(x).sum(), is_pooled=False)
    a, b = pt.dscalar("a"), pt.dscalar("b")
    mixed = OpFromGraph([a, b], [pt.tanh(a) * b + 0.3, a - b], inline=g.chance(0.3))
    ends, taps = g.chance(0.4), g.pick([[-1], [-2, -1], [-3, -1], [-2]])
    first = pt.stack([pt.cast(y, "float64") * (k + 1) for k in range(-min(taps))]) if min(taps) < -1 else pt.cast(y, "float64")

    def step(row, *states):
        old, new = states[0], states[-1]
        one, other = mixed(pt.cast(row.sum(), "float64"), new)
        state = ifelse(old > 0.1, one * 0.5, other * 0.25)
        made = [state, row * state]
        return (made, until(state > 0.4)) if ends else made

    outs = pytensor.scan(step, sequences=[x], outputs_info=[dict(initial=first, taps=taps), None], go_backwards=g.chance(0.2), return_updates=False)
    for out in outs:
        made = g.add(g.pick([lambda: out, lambda: out, lambda: out[-1], lambda: out[::2]])())
    return made


def nested_graph(g):
    """A graph in a graph, a loop inside, and its derivative."""
    x = g.floats((1,))
    a, b = x.type("a"), x.type("b")
    inner = OpFromGraph([a], [pt.sqr(a) * 0.5, a.sum()])
    first, total = inner(b)
    loop = pytensor.scan(lambda h: h * 0.5 + first.sum() * 0.1, outputs_info=[pt.cast(total, "float64")], n_steps=3, return_updates=False)
    outer = OpFromGraph([b], [first + pt.cast(loop[-1], b.type.dtype), loop], inline=g.chance(0.3))
    one, rows = outer(x)
    g.add(rows)
    if g.chance(0.5):
        return g.add(pytensor.grad(one.sum(), x))
    return g.add(one)


BUILDERS = graphs.BUILDERS | dict(draw=draw, drawn_loop=drawn_loop, chosen_loop=chosen_loop, nested_graph=nested_graph)
WEIGHTS = dict(draw=2, drawn_loop=1, chosen_loop=1, nested_graph=1, unary=1, binary=2, reduce=1, subtensor=1, scan=1, inc_subtensor=1,
               choice=1, from_graph=1, reshape=1, join=1)


class Drawing(graphs.Grown):
    """A graph with generators, and those that follow them after a call."""

    def __init__(self, seed):
        super().__init__([seed, 0])
        self.generators, self.advanced, self.seed = [], {}, seed


# ---- A function, and what it is told

class Story:
    """The function of a seed in a mode, and what happened to it so far."""

    def __init__(self, seed, mode):
        self.g, outputs = graphs.grown(Drawing(seed), BUILDERS, WEIGHTS)
        g, self.rng = self.g, np.random.default_rng([seed, 5])
        self.held, self.inputs, self.arguments, self.others = [], [], [], []
        givens = {}
        for v, a, b in zip(g.inputs, g.arguments, g.other_arguments):
            instead = self.instead(v, a)
            if instead is not None:
                givens[v] = instead
                continue
            self.arguments.append(a)
            self.others.append(b)
            self.inputs.append(self.option(v, a))
        outs = [Out(v, borrow=self.chance(0.3)) if self.chance(0.5) else v for v in outputs]
        updates = [*g.updates.items(), *g.advanced.items()]
        self.f = pytensor.function(self.inputs, outs, updates=updates, givens=givens, mode=mode, on_unused_input="ignore",
                                   allow_input_downcast=self.pick([None, None, True, False]))
        self.names = [i.name for i in self.inputs]
        self.resting = [(rng, rng.get_value().bit_generator.state) for rng in g.generators if rng not in g.advanced]

    chance, pick = graphs.Grown.chance, graphs.Grown.pick

    def instead(self, v, value):
        """What is given for an input: a constant, an expression of another input, a shared variable; None: nothing is."""
        if self.chance(0.85):
            return None
        if self.chance(0.5):
            given = pytensor.shared(np.array(value), name=f"given{v.name}", shape=v.type.shape)
            self.g.shared.append((given, np.array(value)))
            return given
        return v.type.filter_variable(pt.as_tensor_variable(np.array(value)))

    def option(self, v, value):
        way = int(self.rng.integers(8))
        if way < 3:
            return v
        if way == 3:
            return In(v, borrow=True)
        if way == 4:
            return In(v, strict=True)
        if way == 5:
            return In(v, allow_downcast=self.pick([True, False, None]))
        if way == 6:
            return In(v, value=np.array(value), name=v.name)
        return In(v, mutable=False, borrow=self.chance(0.5), name=f"named_{v.name}")

    def state(self):
        return [np.array(s.get_value(borrow=True)) for s, _ in self.g.shared]


def changed(r, a):
    """An argument as somebody might give it who does not look at its type."""
    a = np.asarray(a)
    way = int(r.integers(12))
    if way == 0:
        return a.tolist()
    if way == 1:
        return a.astype("float32") if a.dtype.kind in "fiub" else a
    if way == 2:
        return a.astype("float64") if a.dtype.kind in "fiub" else a
    if way == 3:
        return np.nan_to_num(a).astype("int64") if a.dtype.kind in "fiub" else a
    if way == 4:
        return a[None]
    if way == 5 and a.ndim:
        return a[0] if a.shape[0] else a
    if way == 6:
        return a.astype(">f8") if a.dtype == np.float64 else a
    if way == 7:
        return None
    if way == 8:
        return "text"
    if way == 9 and a.dtype.kind == "f":
        return a.astype(complex)
    if way == 10:
        b = a.copy()
        b.flags.writeable = False
        return b
    return a.tolist() if a.ndim == 0 else a


def told(story, step):
    """What comes of one step of a story: (results, exception)."""
    r = np.random.default_rng([step, int(story.rng.integers(2 ** 31))])
    f, g = story.f, story.g
    arguments = list(story.arguments if r.random() < 0.6 else story.others)
    way = int(r.integers(12))
    named = {}
    if way == 0 and arguments:
        k = int(r.integers(len(arguments)))
        arguments[k] = changed(r, arguments[k])
    elif way == 1 and arguments:
        k = int(r.integers(len(arguments)))
        named = {story.names[k]: arguments[k]}
        arguments = arguments[:k] if r.random() < 0.5 else arguments[:k] + arguments[k + 1:]
    elif way == 2 and arguments:
        arguments = arguments[:-1]
    elif way == 3:
        arguments = [*arguments, np.zeros(2)]
    elif way == 4 and g.shared:
        s, value = g.shared[int(r.integers(len(g.shared)))]
        value = np.array(value) * r.integers(0, 3) if value.dtype != bool else ~value
        s.set_value(value.astype(s.type.dtype), borrow=bool(r.random() < 0.5))
    elif way == 5 and g.shared:
        s, _ = g.shared[int(r.integers(len(g.shared)))]
        kept = s.get_value(borrow=bool(r.random() < 0.5))
        story.held.append((kept, np.array(kept), not np.shares_memory(kept, s.get_value(borrow=True))))
    elif way == 6:
        f = f.copy(share_memory=bool(r.random() < 0.5))
    elif way == 7 and not g.shared and not g.generators:
        try:
            f = story.f = pickle.loads(pickle.dumps(f))
        except (AttributeError, pickle.PicklingError):  # PyTensor's own: derivatives of graphs in graphs hold a function without a name
            pass
    elif way == 8:
        f = f.copy(delete_updates=True)
    try:
        results = f(*arguments, **named)
    except Exception as error:
        return None, error
    results = results if isinstance(results, list) else [results]
    kept = [(x, np.array(x)) for x in results]
    if r.random() < 0.3:  # somebody writes to what is theirs
        for x, out in zip(results, story.f.maker.outputs):
            if not out.borrow and isinstance(x, np.ndarray) and x.flags.writeable and x.size:
                x[...] = 1
        return [v for _, v in kept], None
    story.held.extend((x, v, not out.borrow) for (x, v), out in zip(kept, story.f.maker.outputs) if isinstance(x, np.ndarray))
    return [v for _, v in kept], None


def excused(error):
    """Complex numbers where NumPy has no such function."""
    return isinstance(error, TypeError) and "not supported for the input types" in str(error)


def tried(seed, steps=8):
    """None, or what is wrong with the story; a tuple: classes of exceptions that differ."""
    return beside(seed, PLAIN, steps) and beside(seed, REWRITTEN, steps)


def beside(seed, other, steps):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = []
        for mode in ("WEFT", other):
            try:
                made.append((Story(seed, mode), None))
            except Exception as error:
                made.append((None, error))
        (ours, error), (theirs, their_error) = made
        if ours is None or theirs is None:
            if (ours is None) != (theirs is None) and not isinstance(error or their_error, Unfit):
                return f"made: {graphs.mentioned(error or their_error)} in {'WEFT' if error else other} alone"
            return None
        for step in range(steps):
            (got, raised), (want, wanted) = (told(story, step) for story in (ours, theirs))
            wrong = differs(got, raised, want, wanted)
            if isinstance(wrong, tuple):
                return wrong
            if wrong is None and raised is None:
                pairs = zip(ours.state(), theirs.state())
                wrong = next((f"shared {k}: {w}" for k, w in enumerate(graphs.close(a, b) for a, b in pairs) if w), None)
            if wrong is None and any(rng.get_value().bit_generator.state != state for rng, state in ours.resting):
                wrong = "a generator that is not updated has advanced"
            if wrong is None:
                wrong = next((f"what was held is {x}, was {was}" for x, was, is_own in ours.held if is_own and not np.array_equal(
                    x, was, equal_nan=x.dtype.kind in "fc")), None)
            if wrong:
                return f"step {step}: {wrong}"
            if raised is not None and (wanted is None or excused(wanted)):
                return None  # from here on they may differ
    return None


def close(a, b):
    """As of graphs; NumPy computes functions of bools and narrow integers in float16, whatever the type of the result says."""
    wrong = graphs.close(a, b)
    if wrong and a.dtype.kind == "f" and a.shape == b.shape and np.array_equal(a.astype("float16"), b.astype("float16"), equal_nan=True):
        return None if np.array_equal(b, b.astype("float16"), equal_nan=True) else wrong
    return wrong


def differs(got, raised, want, wanted):
    if raised is None and wanted is None:
        return next((f"value {k}: {w}" for k, w in enumerate(close(a, b) for a, b in zip(got, want)) if w), None)
    if raised is not None and wanted is not None:
        return None if isinstance(raised, type(wanted)) else ("class", graphs.mentioned(raised), graphs.mentioned(wanted))
    if raised is None:
        return ("gives", str([np.shape(x) for x in got]), graphs.mentioned(wanted))
    return f"raises {graphs.mentioned(raised)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # PyTensor prints each rewrite that fails
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("120 s")))
    counts = {}
    for seed in range(options.seed, options.seed + options.count):
        signal.alarm(120)
        try:
            wrong = tried(seed)
        except Exception as error:
            wrong = f"the harness: {''.join(traceback.format_exception(error)[-3:])}"
        finally:
            signal.alarm(0)
        kind = "same" if wrong is None else wrong[0] if isinstance(wrong, tuple) else "differs"
        counts[kind] = counts.get(kind, 0) + 1
        if wrong is not None:
            print(f"{seed}: {wrong}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())), "| fallbacks:", dict(weft.pytensor.fallbacks))
    sys.exit(1 if counts.get("differs") else 0)


if __name__ == "__main__":
    main()
