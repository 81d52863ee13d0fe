"""Random graphs of PyTensor's, in mode WEFT beside PyTensor itself.

    PYTHONPATH=build/release/python python python/test/pytensor_graphs.py [--count 1000] [--seed 1] [--theme scans]

A graph grows node by node; each new node is computed at once by its Op's own `perform`, so that what follows can fit, or purposely not
fit, the shapes that are there. Then it is compiled once in mode WEFT and called with the values it grew with, with others of other
sizes, and again with the first. What PyTensor's unrewritten graph gives is right: values, dtypes, shapes; where it raises WEFT has to
raise that class, and leave shared variables as they were. Where PyTensor's own rewrites make a failing graph succeed, either is right.
"""
import argparse
import logging
import signal
import sys
import traceback
import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt
import weft.pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import toposort
try:
    from pytensor.conditional.op import ifelse  # since 3.3.6
except ImportError:
    from pytensor.ifelse import ifelse
from pytensor.raise_op import Assert
from pytensor.scan.utils import until

PLAIN, REWRITTEN = Mode("py", None), Mode("py", "fast_run")
FLOATS, INTEGERS = ("float64", "float64", "float32"), ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32")
MOST_ELEMENTS = 4000


class Unfit(Exception):
    """What was drawn cannot be built here; something else is drawn."""


class Failing(Exception):
    """The graph raises this with the values it grew with: nothing more is built."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def compute(outputs, there):
    """Values of the outputs by each Op's own perform, unrewritten; `there`: those of variables that are known, which grows."""
    for node in toposort(outputs, blockers=list(there)):
        if all(v in there for v in node.outputs):
            continue
        cells = {v: [there[v] if v in there else v.data] for v in node.inputs}
        cells.update((v, [None]) for v in node.outputs)
        done = {v: [v not in node.outputs] for v in cells}
        try:
            run = node.op.make_thunk(node, cells, done, [], impl="py")
        except Exception as error:
            raise Unfit from error  # a graph inside that PyTensor cannot compile
        while run():
            pass
        for v in node.outputs:
            there[v] = np.array(cells[v][0]) if hasattr(v.type, "dtype") else cells[v][0]
    return [there[v] if v in there else v.data for v in outputs]


class Grown:
    """A graph: its inputs with a value for each call, shared variables, and what is there to build on."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.shared, self.pool, self.there, self.updates = [], [], [], {}, {}
        self.lengths = [int(n) for n in self.rng.choice([0, 1, 2, 3, 4, 5, 7], size=3, p=[.06, .14, .2, .2, .2, .1, .1])]
        self.others = [int(n) for n in self.rng.choice([0, 1, 2, 3, 4, 6, 9], size=3)]
        self.arguments, self.other_arguments = [], []

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def draw(self, dtype, shape):
        r = self.rng
        if dtype == "bool":
            return r.random(shape) < 0.5
        if dtype.startswith("complex"):
            return np.asarray(r.uniform(-2, 2, shape) + 1j * r.uniform(-2, 2, shape)).astype(dtype)
        if dtype.startswith("float"):
            x = np.asarray(r.uniform(-2, 2, shape)).astype(dtype)
            if self.chance(0.1) and x.size:
                x.flat[int(r.integers(x.size))] = self.pick([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
            return x
        low = 0 if dtype.startswith("u") else -5
        return np.asarray(r.integers(low, 6, shape)).astype(dtype)

    def leaf(self, dtype=None, ndim=None, kind=None):
        r = self.rng
        dtype = dtype or self.pick([*FLOATS, *FLOATS, self.pick(INTEGERS), self.pick(INTEGERS), "bool", self.pick(["complex64", "complex128", "float64"])])
        ndim = int(r.choice([0, 1, 2, 3], p=[.15, .45, .3, .1])) if ndim is None else ndim
        names = [int(r.integers(3)) for _ in range(ndim)]
        static = [self.pick([None, None, None, "fixed", 1]) for _ in range(ndim)]
        sizes = [1 if s == 1 else self.lengths[n] for s, n in zip(static, names)]
        other = [size if s is not None else self.others[n] for s, size, n in zip(static, sizes, names)]
        shape = tuple(None if s is None else size for s, size in zip(static, sizes))
        value = self.draw(dtype, sizes)
        kind = kind or self.pick(["input"] * 6 + ["shared", "constant"])
        if kind == "constant":
            v = pt.as_tensor_variable(layout(self, value))
        elif kind == "shared":
            v = pt.as_tensor_variable(pytensor.shared(np.array(value), shape=shape, name=f"s{len(self.shared)}"))
            self.shared.append((v, value.copy()))
        else:
            v = pt.tensor(f"x{len(self.inputs)}", dtype=dtype, shape=shape)
            self.inputs.append(v)
            self.arguments.append(layout(self, value))
            self.other_arguments.append(layout(self, self.draw(dtype, other)))
        self.there[v] = value
        self.pool.append(v)
        return v

    def number(self, n):
        """An integer that bounds something: a constant, an input, or computed."""
        n, way = int(n), int(self.rng.integers(6))
        if way < 3:
            return n
        if way == 3:
            v = pt.tensor(f"x{len(self.inputs)}", dtype=self.pick(["int64", "int64", "int32", "int8"]), shape=())
            self.inputs.append(v)
            value = np.array(n, dtype=v.type.dtype)
            self.arguments.append(value)
            self.other_arguments.append(np.array(n + int(self.rng.integers(-1, 2)), dtype=v.type.dtype))
            self.there[v] = value
            return v
        sized = [v for v in self.pool if v.type.ndim]
        if way == 4 and sized:
            v = self.pick(sized)
            axis = int(self.rng.integers(v.type.ndim))
            return self.add(v.shape[axis] + (n - self.value(v).shape[axis]), is_pooled=False)
        return self.add(pt.as_tensor_variable(np.int64(n)) + 0, is_pooled=False)

    def value(self, v):
        return self.there[v] if v in self.there else v.data

    def of(self, test):
        """One that is there and of which test holds; Unfit if there is none."""
        found = [v for v in self.pool if test(v)]
        if not found:
            raise Unfit
        return self.pick(found[-8:]) if self.chance(0.6) else self.pick(found)

    def floats(self, ndim=None):
        return self.of(lambda v: v.type.dtype.startswith("float") and (ndim is None or v.type.ndim in ndim))

    def anything(self, ndim=None):
        return self.of(lambda v: ndim is None or v.type.ndim in ndim)

    def fits(self, v, shape):
        """One of the same dtype family that broadcasts to the shape, as the types see it."""
        return self.of(lambda w: w.type.ndim <= len(shape) and all(
            n == m for n, m in zip(self.value(w).shape[::-1], shape[::-1])))

    def add(self, v, is_pooled=True):
        if not hasattr(v, "type") or not hasattr(v.type, "dtype"):
            raise Unfit
        try:
            value, = compute([v], self.there)
        except Unfit:
            raise
        except Exception as error:
            self.failing = v
            raise Failing(error) from error
        if value.size > MOST_ELEMENTS or v.type.ndim > 4:
            raise Unfit
        if is_pooled and not isinstance(v, Constant):
            self.pool.append(v)
        return v


def layout(g, value):
    """The same elements as they may lie in memory."""
    way = int(g.rng.integers(8))
    if value.ndim == 0 or way < 4:
        return value
    if way == 4:
        return np.asfortranarray(value)
    if way == 5:
        return np.repeat(value, 2, axis=-1)[..., ::2]
    if way == 6:
        return value[::-1].copy()[::-1]
    return np.ascontiguousarray(value.T).T


# Each builder adds something to the graph, or raises Unfit. BUILDERS: by name, with the weight in a theme.

UNARY = ["neg", "abs", "exp", "tanh", "sigmoid", "sqr", "log1p", "sqrt", "floor", "sign", "cos", "erf", "softplus", "ceil", "trunc",
         "isnan", "round", "invert", "reciprocal", "real", "imag", "conjugate", "angle", "expm1", "arctan", "gammaln", "logit", "log", "sinh", "cosh"]
BINARY = ["add", "sub", "mul", "true_div", "int_div", "mod", "maximum", "minimum", "pow", "lt", "ge", "eq", "neq", "and_", "or_", "xor",
          "arctan2", "logaddexp", "switch", "clip", "bitwise_left_shift"]


def unary(g):
    x, name = g.anything(), g.pick(UNARY)
    if name in ("real", "imag", "conjugate", "angle") and not x.type.dtype.startswith("complex"):
        raise Unfit
    if name == "round":
        return g.add(pt.round(x, mode="half_to_even"))
    return g.add(getattr(pt, name)(x))


def binary(g):
    x = g.anything()
    y = g.pick([g.anything, lambda: g.fits(x, g.value(x).shape), lambda: g.fits(x, g.value(x).shape), lambda: pt.as_tensor_variable(g.pick([0, 1, 2, -1, 0.5, 3]))])()
    if g.chance(0.5):
        x, y = y, x
    name = g.pick(BINARY)
    if name == "switch":
        return g.add(pt.switch(x > 0 if not x.type.dtype.startswith("complex") else pt.eq(x, 0), x, y))
    if name == "clip":
        return g.add(pt.clip(x, pt.minimum(y, 1), pt.maximum(y, 1)))
    if name == "pow":
        y = pt.as_tensor_variable(g.pick([2, 3, 0.5, -1.0, 0, 1]))
    if name == "bitwise_left_shift":
        return g.add(pt.left_shift(x, 1)) if x.type.dtype.startswith(("int", "uint")) else unary(g)
    return g.add(getattr(pt, name)(x, y))


def cast(g):
    x = g.anything()
    if x.type.dtype.startswith("complex"):
        return g.add(pt.cast(x, g.pick(["complex64", "complex128"])))
    # Numbers with a fraction that no integer holds, and nan, become what the machine likes.
    dtype = g.pick([*FLOATS, "complex128", *(("bool", *INTEGERS) if not x.type.dtype.startswith("float") else ())])
    return g.add(pt.cast(x, dtype))


def reduce(g):
    x = g.anything()
    axes = [None, *range(-x.type.ndim, x.type.ndim)]
    axis = g.pick(axes) if g.chance(0.8) or x.type.ndim < 2 else (0, x.type.ndim - 1)
    name = g.pick(["sum", "prod", "max", "min", "mean", "argmax", "argmin", "all", "any", "var", "std", "cumsum", "cumprod", "logsumexp", "softmax", "median", "sort", "argsort", "ptp", "log_softmax"])
    if name in ("argsort", "sort", "median", "max", "min", "argmax", "argmin") and x.type.dtype.startswith("complex"):
        raise Unfit
    if name in ("argsort", "argmax", "argmin", "median"):
        return g.add(getattr(pt, name)(x, axis=axis if isinstance(axis, int) else (-1 if x.type.ndim else None)))
    if name in ("cumsum", "cumprod"):
        return g.add(getattr(pt, name)(x, axis=axis if isinstance(axis, int) else None))
    if name in ("softmax", "log_softmax"):
        return g.add(getattr(pt.special, name)(x, axis=axis if isinstance(axis, int) else None))
    if name == "sort":
        return g.add(pt.sort(x, axis=axis if isinstance(axis, int) else -1))
    if name == "ptp":
        return g.add(pt.ptp(x, axis=axis if isinstance(axis, int) else None))
    return g.add(getattr(pt, name)(x, axis=axis, keepdims=g.chance(0.3)))


def bound(g, size):
    return None if g.chance(0.35) else g.number(int(g.rng.integers(-size - 2, size + 3)))


def one_index(g, size, is_array_allowed=True):
    r, way = g.rng, int(g.rng.integers(10))
    if way < 5:
        step = g.pick([None, None, None, 1, 2, -1, -2, -1, 3])
        return slice(bound(g, size), bound(g, size), step if step is None or g.chance(0.6) else g.number(step))
    high = size + (1 if g.chance(0.06) else 0)
    if way < 7 or not is_array_allowed:
        return g.number(r.integers(-size, high)) if high else slice(None)
    if way == 7 and size:
        mask = pt.as_tensor_variable(r.random(size) < 0.5)
        return mask
    dtype = g.pick(["int64", "int32", "uint8", "int8"])
    if not high:
        return pt.as_tensor_variable(np.zeros(0, "int64"))
    value = r.integers(0 if dtype == "uint8" else -size, high, g.pick([(), 1, 2, 3, (2, 2), 0])).astype(dtype)
    if g.chance(0.5):
        return pt.as_tensor_variable(value)
    v = pt.tensor(f"x{len(g.inputs)}", dtype=dtype, shape=(None,) * value.ndim)
    g.inputs.append(v)
    g.arguments.append(value)
    g.other_arguments.append(value if g.chance(0.5) else (value * 0).astype(dtype))
    g.there[v] = value
    return v


def an_index(g, x):
    shape = g.value(x).shape
    n = int(g.rng.integers(1, len(shape) + 1))
    index = [one_index(g, size) for size in shape[:n]]
    if g.chance(0.15):
        index.insert(int(g.rng.integers(len(index) + 1)), None)
    return tuple(index)


def subtensor(g):
    x = g.anything((1, 2, 3))
    if g.chance(0.08) and x.type.ndim:  # a mask of the whole, computed
        return g.add(x[x.real > 0 if x.type.dtype.startswith("complex") else x > 0])
    return g.add(x[an_index(g, x)])


def inc_subtensor(g):
    x = g.anything((1, 2, 3))
    index = an_index(g, x)
    part = x[index]
    try:
        value, = compute([part], dict(g.there))
    except Exception as error:
        y = pt.as_tensor_variable(np.asarray(1, dtype=x.type.dtype))
    else:
        options = [lambda: pt.as_tensor_variable(np.asarray(1, dtype=x.type.dtype)), lambda: g.fits(x, value.shape), lambda: part * 2,
                   lambda: pt.ones(tuple(part.shape), dtype=x.type.dtype) if part.type.ndim else part, lambda: g.anything((1, 2))]
        y = g.pick(options)()
    if np.result_type(y.type.dtype, x.type.dtype) != np.dtype(x.type.dtype):
        raise Unfit
    way = g.pick(["set", "inc", "inc", "ignore"])
    if way == "ignore":
        return g.add(pt.subtensor.inc_subtensor(part, y, ignore_duplicates=True))
    return g.add(pt.set_subtensor(part, y) if way == "set" else pt.inc_subtensor(part, y))


def reshape(g):
    x = g.anything()
    shape, n = g.value(x).shape, x.type.ndim
    way = int(g.rng.integers(9))
    if way == 0:
        return g.add(x.reshape((-1,)))
    if way == 1:
        return g.add(x.reshape((g.number(x.data.size if isinstance(x, Constant) else g.value(x).size), 1)))
    if way == 2 and n >= 2:
        return g.add(x.reshape((x.shape[0] * x.shape[1], *[x.shape[k] for k in range(2, n)])))
    if way == 3:
        return g.add(x.dimshuffle(*g.rng.permutation(n).tolist(), "x"))
    if way == 4 and n:
        return g.add(x[None] if g.chance(0.5) else pt.expand_dims(x, int(g.rng.integers(n + 1))))
    if way == 5 and n:
        axis = g.pick([k for k in range(n) if shape[k] == 1] or [0])
        if shape[axis] != 1 and 0 in shape:
            raise Unfit  # perform does not look
        return g.add(pt.squeeze(x, axis=axis))
    if way == 6 and n:
        return g.add(x[(slice(None, None, -1),) * n])
    if way == 7:
        return g.add(pt.flatten(x))
    if n < 2:
        raise Unfit
    return g.add(x.swapaxes(0, n - 1))


def join(g):
    x = g.anything((1, 2, 3))
    y = g.of(lambda v: v.type.ndim == x.type.ndim)
    axis = int(g.rng.integers(x.type.ndim))
    if g.chance(0.3):
        return g.add(pt.stack([x, x * 2 if x.type.dtype != "bool" else x], axis=axis))
    if g.chance(0.15):
        return g.add(pt.join(g.number(axis), x, y))
    return g.add(pt.concatenate([x, y] if g.chance(0.8) else [y, x, y], axis=axis))


def split(g):
    x = g.anything((1, 2))
    axis = int(g.rng.integers(x.type.ndim))
    size = g.value(x).shape[axis]
    k = int(g.rng.integers(0, size + 1))
    parts = pt.split(x, [g.number(k), g.number(size - k + (1 if g.chance(0.05) else 0))], n_splits=2, axis=axis)
    g.add(parts[0])
    return g.add(parts[1])


def alloc(g):
    x = g.anything((0, 1, 2))
    extra = g.pick([0, 1, 2, 3])
    way = int(g.rng.integers(6))
    if way == 0:
        return g.add(pt.alloc(x, g.number(extra), *(x.shape[k] for k in range(x.type.ndim))))
    if way == 1:
        return g.add(pt.broadcast_to(x, (g.number(extra), *tuple(x.shape))))
    if way == 2:
        return g.add(pt.zeros_like(x) + pt.ones(tuple(x.shape), dtype=x.type.dtype))
    if way == 3:
        return g.add(pt.arange(g.number(g.pick([-2, 0, 1, 3, 5])), g.number(g.pick([0, 3, 5, -3])), g.pick([1, 2, -1, 3])))
    if way == 4:
        return g.add(pt.eye(g.number(extra), g.number(g.pick([0, 2, 3])), int(g.rng.integers(-1, 2)), dtype=g.pick(["float64", "int32"])))
    return g.add(pt.full((g.number(extra), g.number(2)), g.anything((0,))))


def extra(g):
    x = g.anything()
    way, n = int(g.rng.integers(19)), x.type.ndim
    if way == 0:
        return g.add(pt.repeat(x, g.number(int(g.rng.integers(0, 3))), axis=0 if n else None))
    if way == 1:
        return g.add(pt.tile(x, (2,) * max(n, 1)))
    if way == 2 and n:
        return g.add(pt.roll(x, g.number(int(g.rng.integers(-2, 3))), axis=0))
    if way == 3 and n:
        return g.add(pt.diff(x, n=g.pick([1, 2]), axis=-1)) if x.type.dtype != "bool" else None
    if way == 4 and n == 1:
        return g.add(pt.searchsorted(pt.sort(x), x, side=g.pick(["left", "right"]))) if not x.type.dtype.startswith("complex") else None
    if way == 5 and n == 1 and x.type.dtype in ("uint8", "uint16"):
        return g.add(pt.bincount(x, minlength=2))
    if way == 6 and n == 1:
        return g.add(pt.outer(x, x))
    if way == 7 and n == 2:
        return g.add(pt.dot(x, x.T))
    if way == 8 and n in (1, 2, 3):
        y = g.of(lambda v: v.type.ndim in (1, 2, 3))
        return g.add(pt.matmul(x, y))
    if way == 9 and n:
        return g.add(pt.tri(x.shape[0], dtype="float32"))
    if way == 10 and n == 2:
        return g.add(g.pick([pt.tril, pt.triu])(x, int(g.rng.integers(-1, 2))))
    if way == 11 and n in (1, 2):
        return g.add(pt.diag(x, int(g.rng.integers(-1, 2))) if n == 1 else pt.diagonal(x, int(g.rng.integers(-1, 2))))
    if way == 12:
        return g.add(pt.where(x.real > 0 if x.type.dtype.startswith("complex") else x > 0, x, pt.zeros_like(x)))
    if way == 13 and n:
        return g.add(pt.nonzero(x)[0])
    if way == 14 and n == 1 and not x.type.dtype.startswith("complex"):
        return g.add(pt.unique(x))
    if way == 15 and n:
        return g.add(pt.take(x, pt.as_tensor_variable(g.rng.integers(-1, 2, 3)), axis=g.pick([0, None, -1]), mode=g.pick(["raise", "wrap", "clip"])))
    if way == 16 and n:
        return g.add(pt.pad(x, 1, mode=g.pick(["constant", "edge", "wrap", "reflect", "symmetric"])))
    if way == 17 and n == 1:
        return g.add(pt.linspace(0, x.sum() if x.type.dtype.startswith("float") else 1.0, g.number(4)))
    if way == 18 and n:
        return g.add(pt.take_along_axis(x, pt.argsort(x, axis=-1), axis=-1)) if not x.type.dtype.startswith("complex") else None
    raise Unfit


def choice(g):
    x = g.floats()
    y = g.of(lambda v: v.type.ndim == x.type.ndim and v.type.dtype == x.type.dtype)
    p = g.anything((0,)) if g.chance(0.5) else x.sum() > 0
    if p.type.dtype.startswith("complex"):
        raise Unfit
    if x.type.shape != y.type.shape:
        x, y = (pt.specify_shape(z + 0, None) if False else loosened(z) for z in (x, y))
    return g.add(ifelse(p, x * 2, y + 1))


def loosened(x):
    """The same with a type that knows no sizes."""
    return pt.as_tensor_variable(x).reshape(tuple(x.shape + 0)) if x.type.ndim else x


def checked(g):
    x = g.anything()
    holds = pt.all(pt.ge(x.shape.sum() if x.type.ndim else pt.as_tensor_variable(1), 0))
    if g.chance(0.1):
        holds = pt.lt(x.size, 0)
    return g.add(Assert("never less than nothing")(x, holds))


def specified(g):
    x = g.anything((1, 2, 3))
    shape = [g.pick([None, size]) for size in g.value(x).shape]
    if g.chance(0.1):
        shape[0] = (shape[0] or 0) + 1
    return g.add(pt.specify_shape(x, shape))


def from_graph(g):
    x, y = g.floats(), g.floats()
    a, b = x.type("a"), y.type("b")
    outs = [pt.tanh(a) * 2, (b * b).sum(), a.sum() + b.sum()]
    op = OpFromGraph([a, b], outs[:int(g.rng.integers(1, 4))] if g.chance(0.5) else outs, inline=g.chance(0.3))
    results = op(x, y)
    return g.add(g.pick(results if isinstance(results, list) else [results]))


def system(g):
    x = g.floats((2, 3))
    a = x @ x.swapaxes(-1, -2) + 3 * pt.eye(x.shape[-2])
    if not np.all(np.isfinite(g.value(x))) or g.value(x).shape[-1] == 0 or g.value(x).shape[-2] == 0:
        raise Unfit
    g.add(a, is_pooled=False)
    b = a.sum(-1) if x.type.ndim == 2 else a.sum(-1, keepdims=True)
    return g.add(g.pick([lambda: pt.linalg.cholesky(a), lambda: pt.linalg.solve(a, b), lambda: pt.linalg.inv(a), lambda: pt.linalg.det(a),
                         lambda: pt.linalg.slogdet(a)[1], lambda: pt.linalg.solve_triangular(a, b, lower=g.chance(0.5)) if x.type.ndim == 2 else a])())


def gradient(g):
    y = g.floats()
    sources = [v for v in g.inputs + [s for s, _ in g.shared] if v.type.dtype.startswith("float")]
    if not sources:
        raise Unfit
    wrt = g.pick(sources)
    dy = pytensor.grad(y.sum(), wrt, disconnected_inputs="ignore")
    return g.add(dy)


def vectorized(g):
    x = g.floats((2,))
    a = x[0].type("a") if x.type.ndim else None
    core = g.pick([lambda a: a - a.mean(), lambda a: pt.cumsum(a)[::-1], lambda a: a[1:] * a[:-1], lambda a: pt.sort(a), lambda a: pt.outer(a, a)])(a)
    return g.add(pytensor.graph.replace.vectorize_graph(core, {a: x}))


SCALARS = ["tanh", "half", "sum", "product", "switch", "plus", "square"]


def body_of(g, terms, like, depth=0):
    """An expression of the terms of a step, of the type of `like`: its ndim and dtype."""
    value, n = None, int(g.rng.integers(1, 4))
    terms = [t for t in terms if t.type.ndim <= like.ndim and not t.type.dtype.startswith("complex")]
    for _ in range(n):
        if not terms:
            break
        t = g.pick(terms)
        t = {0: lambda: pt.tanh(t), 1: lambda: t * 0.5, 2: lambda: pt.switch(t > 0.2, t, -t), 3: lambda: pt.sqr(t) * 0.3,
             4: lambda: t + 0.1, 5: lambda: t.sum() if t.type.ndim else t, 6: lambda: t[::-1] if t.type.ndim else t}[int(g.rng.integers(7))]()
        value = t if value is None else (value + t if g.chance(0.6) else value * pt.tanh(t))
    value = pt.as_tensor_variable(0.25) if value is None else value
    if like.zero is not None and like.ndim:
        value = value + like.zero  # NumPy stretches what is written to a row of a state; a state of weft's keeps its sizes
    for _ in range(like.ndim - value.type.ndim):
        value = value.dimshuffle("x")
    return pt.cast(value, like.dtype)


class Like:
    def __init__(self, ndim, dtype, zero=None):
        self.ndim, self.dtype, self.zero = ndim, dtype, zero


def scan(g, depth=0):
    r = g.rng
    seqs = [g.of(lambda v: v.type.ndim in (1, 2) and not v.type.dtype.startswith("complex")) for _ in range(int(r.integers(0, 3)))]
    lengths = [g.value(v).shape[0] for v in seqs]
    sequences, taps = [], []
    for v in seqs:
        chosen = g.pick([None, None, None, [0], [0, 1], [-1, 0], [0, 2], [1]])
        sequences.append(v if chosen is None else dict(input=v, taps=chosen))
        taps.append(chosen or [0])
    shortest = min([n - (max(max(t), 0) - min(min(t), 0)) for n, t in zip(lengths, taps)], default=None)
    if shortest is not None and shortest < 0 and g.chance(0.9):
        raise Unfit
    n_steps = None
    if shortest is None or g.chance(0.4):
        n_steps = g.number(int(r.choice([0, 1, 2, 3, 5])) if shortest is None else int(r.integers(0, max(shortest, 0) + 1)) if g.chance(0.9) else shortest + 1)
        if g.chance(0.02):
            n_steps = g.number(-1)
    infos, likes = [], []
    for _ in range(int(r.integers(0 if seqs else 1, 4))):
        kind = int(r.integers(5))
        if kind == 0 and (seqs or infos):
            infos.append(None)
            likes.append(None)
            continue
        m = int(r.choice([1, 1, 2, 3]))
        state = g.of(lambda v: v.type.ndim in (0, 1, 2) and v.type.dtype.startswith(("float", "int64")))
        if m > 1 or g.chance(0.3):
            rows = [state * (k + 1) for k in range(m)]
            initial = pt.stack(rows) if g.chance(0.8) else pt.stack(rows)[::-1]
            chosen = {1: [-1], 2: g.pick([[-2, -1], [-2]]), 3: g.pick([[-3, -1], [-3, -2, -1], [-3]])}[m]
            infos.append(dict(initial=initial if m > 1 else state, taps=chosen if m > 1 else [-1]))
        else:
            infos.append(state)
        likes.append(Like(state.type.ndim, (infos[-1]["initial"] if isinstance(infos[-1], dict) else state).type.dtype))
    others = [g.floats((0, 1)) for _ in range(int(r.integers(0, 2)))]
    is_while, backwards = g.chance(0.2), g.chance(0.15)
    nested = depth == 0 and g.chance(0.15)
    script = int(r.integers(2 ** 31))

    def step(*terms):
        g2 = Sub(g, script)
        results, place = [], sum(len(t) for t in taps)
        for info, like in zip(infos, likes):
            if info is None:
                results.append(body_of(g2, terms, Like(g2.pick([0, 1]), "float64")))
                continue
            zero = terms[place] * 0
            n_taps = len(info["taps"]) if isinstance(info, dict) else 1
            place += n_taps
            results.append(body_of(g2, terms, Like(like.ndim, like.dtype, zero)))
        if nested and results:
            k, base = 0, results[0]
            inner = pytensor.scan(lambda h: h * 0.5 + 0.1, outputs_info=[pt.cast(base, base.type.dtype) * 1.0], n_steps=g2.pick([0, 1, 2, 3]) + 1, return_updates=False)
            results[0] = pt.cast(inner[-1], base.type.dtype)
        if not results:
            results = [body_of(g2, terms, Like(0, "float64"))]
        if is_while:
            return results, until(terms[0].sum() > 0.9)
        return results

    outs = pytensor.scan(step, sequences=sequences, outputs_info=infos, non_sequences=others, n_steps=n_steps, go_backwards=backwards,
                         truncate_gradient=g.pick([-1, -1, -1, 1, 2]), return_updates=False)
    outs = outs if isinstance(outs, (list, tuple)) else [outs]
    made = None
    for out in outs:
        way = int(r.integers(7))
        out = {0: lambda: out[-1], 1: lambda: out[-2:], 2: lambda: out[1:], 3: lambda: out[::-1], 4: lambda: out[g.number(0)]}.get(way, lambda: out)()
        made = g.add(out)
    return made


class Sub:
    """Draws of a body: the same every time PyTensor calls its function."""

    def __init__(self, g, seed):
        self.rng = np.random.default_rng(seed)

    chance, pick = Grown.chance, Grown.pick


BUILDERS = dict(unary=unary, binary=binary, cast=cast, reduce=reduce, subtensor=subtensor, inc_subtensor=inc_subtensor, reshape=reshape,
                join=join, split=split, alloc=alloc, extra=extra, choice=choice, checked=checked, specified=specified, from_graph=from_graph,
                system=system, gradient=gradient, vectorized=vectorized, scan=scan)
THEMES = {
    "all": {name: 1 for name in BUILDERS} | dict(unary=2, binary=3, subtensor=3, inc_subtensor=2, scan=2),
    "indices": dict(subtensor=5, inc_subtensor=5, binary=1, reshape=1, alloc=1, gradient=0.5),
    "scans": dict(scan=5, unary=1, binary=1, gradient=2, subtensor=1),
    "shapes": dict(reshape=3, join=2, split=2, alloc=3, extra=3, reduce=2, specified=1, choice=1, subtensor=1),
    "numbers": dict(unary=3, binary=5, cast=3, reduce=3),
}


def grow(seed, theme):
    """A graph of a theme, and its outputs."""
    return grown(Grown([seed, sorted(THEMES).index(theme)]), BUILDERS, THEMES[theme])


def grown(g, builders, weights):
    g.failing = None
    for _ in range(int(g.rng.integers(2, 5))):
        g.leaf()
    g.leaf("float64", 1, "input")
    names, weights = zip(*weights.items())
    weights = np.array(weights) / sum(weights)
    outputs, tries = [], 0
    for _ in range(int(g.rng.integers(1, 7))):
        for _ in range(20):
            try:
                made = builders[str(g.rng.choice(names, p=weights))](g)
                if made is not None:
                    outputs.append(made)
                    break
            except Unfit:
                pass
            except Failing:
                return g, [*outputs[-1:], g.failing]
            except Exception:
                pass  # PyTensor builds no such graph
    outputs = outputs or [g.add(g.pool[0] * 1 if g.pool[0].type.dtype != "bool" else ~g.pool[0])]
    chosen = [outputs[-1], *(v for v in outputs[:-1] if g.chance(0.4))]
    if g.chance(0.1):
        chosen.append(chosen[0])
    if g.chance(0.1):
        chosen.append(g.inputs[0])
    for s, _ in g.shared:
        found = [v for v in g.pool if v.type.dtype == s.type.dtype and v.type.ndim == s.type.ndim and s.type.is_super(v.type)]
        if found and g.chance(0.6):
            g.updates[s] = g.pick(found)
    return g, chosen


def outcome(outputs, updates, inputs, arguments, shared):
    """What PyTensor gives: outputs and new values of shared variables; or its exception."""
    there = dict(zip(inputs, (np.array(a) for a in arguments))) | shared
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compute([*outputs, *updates.values()], there), None
        except Exception as error:
            return None, error


def close(a, b):
    """Whether a result of weft agrees."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == b.dtype and a.size == b.size == 0 and a.ndim == b.ndim and set(b.shape) == {0}:
        return None  # PyTensor's rows of a Scan of no step have no sizes
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    if a.dtype.kind in "biu":
        return None if np.array_equal(a, b) else f"{a}, not {b}"
    tolerance = 2e-3 if a.dtype in (np.float32, np.complex64) else 1e-6
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
        if np.allclose(a, b, rtol=tolerance, atol=tolerance * scale * 1e-3, equal_nan=True):
            return None
    return f"{a}, not {b}"


def mentioned(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


def compare(f, g, outputs, arguments, held):
    """One call beside PyTensor; None, or what is wrong. held: values of shared variables as they should be now."""
    want, error = outcome(outputs, g.updates, g.inputs, arguments, held)
    if isinstance(error, Unfit):
        return None
    is_beyond = isinstance(error, TypeError) and "not supported for the input types" in str(error)  # of complex numbers
    copies = [np.array(a) for a in arguments]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, raised = f(*arguments), None
    except Exception as caught:
        got, raised = None, caught
    for a, b in zip(arguments, copies):
        if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            return "an argument was changed"
    if error is None and raised is None:
        before = dict(held)
        held.update(zip(g.updates, want[len(outputs):]))
        got = [*got, *(s.get_value(borrow=True) for s in held)]
        wrong = [close(a, b) for a, b in zip(got, [*want[:len(outputs)], *held.values()])]
        if any(wrong):  # as PyTensor's own rewrites have it, of x * 0 or x / x, is right too
            want = rewritten(g, outputs, arguments, before)
            held.update((s, s.get_value(borrow=False)) for s in held)
            wrong = [w and close(a, b) for w, a, b in zip(wrong, got, want)] if isinstance(want, list) else wrong
        return next((f"value {k}: {w}" for k, w in enumerate(wrong) if w), None)
    for s, v in held.items():
        if raised is not None and close(s.get_value(), v):
            return f"{s} is {s.get_value()} after {mentioned(raised)}, not {v}"
    if error is not None and raised is not None:
        return None if isinstance(raised, type(error)) else ("class", mentioned(raised), mentioned(error))
    again = rewritten(g, outputs, arguments, held)
    if error is None:
        return f"raises {mentioned(raised)}" if isinstance(again, list) else ("either", mentioned(raised), mentioned(again))
    if isinstance(again, list) or is_beyond:  # PyTensor's own rewrites do without what fails
        held.update((s, s.get_value(borrow=False)) for s in held)
        return None
    got = [*got, *(s.get_value(borrow=True) for s in g.updates)]
    if all(is_of(a, v, g, arguments, held) for a, v in zip(got, (*outputs, *g.updates.values()))):
        held.update((s, s.get_value(borrow=False)) for s in held)
        return None
    return f"gives {got[:2]} where PyTensor raises {mentioned(error)}"


def is_of(got, output, g, arguments, held):
    """Whether one of several outputs is right; one that fails may be empty: an index of which no element comes is not looked at."""
    want, error = outcome([output], {}, g.inputs, arguments, held)
    return np.size(got) == 0 if error is not None else not close(got, want[0])


def rewritten(g, outputs, arguments, held):
    """What PyTensor's rewritten graph gives, outputs and all shared variables; or its exception."""
    instead = {s: s.type() for s in held}
    updates = [g.updates.get(s, s) for s in held]
    try:
        f = pytensor.function([*g.inputs, *instead.values()], [*outputs, *updates], mode=REWRITTEN, on_unused_input="ignore", givens=instead)
        return f(*(np.array(a) for a in (*arguments, *held.values())))
    except Exception as error:
        return error


def tried(seed, theme):
    """One graph; None, or what is wrong with it. "class": raised another class."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g, outputs = grow(seed, theme)
        options = {}
        try:
            f = pytensor.function(g.inputs, outputs, updates=g.updates, mode="WEFT", on_unused_input="ignore", **options)
        except Exception as error:
            try:
                pytensor.function(g.inputs, outputs, updates=g.updates, mode=REWRITTEN, on_unused_input="ignore")
            except Exception:
                return None, g, outputs
            return f"does not compile: {mentioned(error)}", g, outputs
        held = {s: v for s, v in g.shared}
        for k, arguments in enumerate((g.arguments, g.other_arguments, g.arguments)):
            wrong = compare(f, g, outputs, arguments, held)
            if wrong:
                return (wrong if isinstance(wrong, tuple) else f"call {k}: {wrong}"), g, outputs
    return None, g, outputs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--theme", default="", choices=["", *THEMES])
    parser.add_argument("--show", action="store_true", help="the graphs that differ")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # PyTensor prints each rewrite that fails
    counts, classes = {}, {}
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("60 s")))
    for seed in range(options.seed, options.seed + options.count):
        theme = options.theme or sorted(THEMES)[seed % len(THEMES)]
        signal.alarm(60)
        try:
            wrong, g, outputs = tried(seed, theme)
        except Exception as error:
            wrong, outputs = f"the harness: {''.join(traceback.format_exception(error)[-3:])}", None
        finally:
            signal.alarm(0)
        kind = "same" if wrong is None else wrong[0] if isinstance(wrong, tuple) else "differs"
        counts[kind] = counts.get(kind, 0) + 1
        if isinstance(wrong, tuple):
            key = (wrong[0], wrong[1].split(":")[0], wrong[2].split(":")[0])
            classes.setdefault(key, []).append((seed, theme, *wrong[1:]))
        elif wrong:
            print(f"{theme} {seed}: {wrong}", flush=True)
            if options.show and outputs:
                pytensor.dprint(outputs, print_type=True)
    for key, found in sorted(classes.items()):
        print(f"{key}: {len(found)}, as {found[0]}")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())), "| fallbacks:", dict(weft.pytensor.fallbacks))
    sys.exit(1 if counts.get("differs") else 0)


if __name__ == "__main__":
    main()
