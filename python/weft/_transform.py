"""Transforms of Python functions of arrays: run the function on names, then transform the expression that came out."""
import copyreg
import functools
import sys

from . import _core
from ._core import array
from ._run import set_rewrites
from ._tree import (
    Constant, arrays, flatten, flatten_floats, flatten_memory, flatten_numbers, flatten_values, own, spread, unflatten,
    without_constants)


# ---- Derivatives


def _argnums(argnums, argnames):
    if argnums is None:
        argnums = () if argnames else (0,)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    return numbers, names


def _positions(numbers, n):
    """argnums among n arguments, counted from 0; below 0, they count from the end."""
    if any(not -n <= k < n for k in numbers):
        raise ValueError(f"grad: there is no argument {[k for k in numbers if not -n <= k < n][0]} among {n}")
    positions = [k % n for k in numbers]
    if len(set(positions)) != len(positions):
        raise ValueError(f"grad: argnums {numbers} name an argument twice")
    return positions


def _as_float(x):
    """An argument to differentiate by: an integer is meant as a float."""
    return float(x) if isinstance(x, int) and not isinstance(x, bool) else x


def _loss(value):
    """The scalar to differentiate: the value, or the first of a tuple."""
    scalar = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(scalar, array):
        raise ValueError(f"a function to differentiate returns an array, not {type(scalar).__name__}")
    if scalar.ndim:
        raise ValueError(f"a function to differentiate returns a scalar, not an array of shape {scalar.shape}")
    return scalar


def expect_function(what, fun):
    if not callable(fun):
        raise TypeError(f"{what}: a function is expected, not {type(fun).__name__}")


def value_and_grad(fun, argnums=None, argnames=()):
    """A function that returns fun's value and its gradient by the arguments named (the first by default).

    fun returns a scalar, or a tuple whose first item is one. The gradient has the structure of the argument; several
    argnums give a tuple, argnames a pair of positional gradients and a dict."""
    expect_function("value_and_grad", fun)
    numbers, names = _argnums(argnums, argnames)

    @functools.wraps(fun)
    def transformed(*args, **kwargs):
        positions = _positions(numbers, len(args))
        leaves, structure = flatten_floats(([_as_float(args[n]) for n in positions],
                                            {name: _as_float(kwargs[name]) for name in names}))
        if not leaves:
            raise ValueError("there is no array to differentiate by")
        for leaf in leaves:
            if not leaf.dtype.name.startswith(("float", "bfloat", "complex")):
                raise ValueError(f"cannot differentiate by an array of {leaf.dtype.name}")
        with _core.Scope():
            inputs = [_core.alias(leaf) for leaf in leaves]
            positional, named = own(structure, inputs)
            args = list(args)
            for n, value in zip(positions, positional):
                args[n] = value
            value = fun(*args, **{**kwargs, **named})
            loss = _loss(value)
            gradients = unflatten(structure, _core.vjp([loss], [_core.full((), 1, loss.dtype)], inputs))
        return value, _as_asked(gradients, numbers, names)

    return transformed


def _as_asked(gradients, numbers, names):
    positional = gradients[0][0] if len(numbers) == 1 else tuple(gradients[0])
    if not names:
        return positional
    return (positional if numbers else None), gradients[1]


def grad(fun, argnums=None, argnames=()):
    """A function that returns the gradient of fun by the arguments named (the first by default)."""
    expect_function("grad", fun)
    both = value_and_grad(fun, argnums, argnames)

    @functools.wraps(fun)
    def transformed(*args, **kwargs):
        return both(*args, **kwargs)[1]

    return transformed


def _list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def vjp(fun, primals, cotangents):
    """(fun's outputs, the products of the cotangents with its Jacobian): lists, with an item for each output and for each
    primal. Items may be trees; cotangents are a list with the structure of the outputs."""
    expect_function("vjp", fun)
    leaves, structure = flatten_numbers(_list(primals))
    with _core.Scope():
        inputs = [_core.alias(x) for x in leaves]
        outputs, out_structure = flatten_floats(_list(fun(*own(structure, inputs))))
        gradients = _core.vjp(outputs, _values("vjp: the cotangents", cotangents, out_structure, outputs), inputs)
        return unflatten(out_structure, outputs), unflatten(structure, gradients)


def jvp(fun, primals, tangents):
    """(fun's outputs, the products of its Jacobian with the tangents): lists, with an item for each output. Items may be
    trees; tangents are a list with the structure of the primals."""
    expect_function("jvp", fun)
    leaves, structure = flatten_numbers(_list(primals))
    with _core.Scope():
        inputs = [_core.alias(x) for x in leaves]
        outputs, out_structure = flatten_floats(_list(fun(*own(structure, inputs))))
        derivatives = _core.jvp(inputs, _values("jvp: the tangents", tangents, structure, inputs), outputs)
        return unflatten(out_structure, outputs), unflatten(out_structure, derivatives)


def _values(what, tree, structure, likes):
    """The arrays of a tree that has a structure; where that has an array, numbers and lists will do, in its dtype."""
    out = []

    def visit(tree, structure):
        if structure == "leaf":
            like = likes[len(out)]
            out.append(tree if isinstance(tree, array) else array(tree, dtype=like.dtype))
        elif not isinstance(structure, Constant):
            keys = structure[1]
            is_alike = isinstance(tree, (list, tuple)) if keys is None else isinstance(tree, dict) and tree.keys() == set(keys)
            if not is_alike or len(tree) != len(structure) - 2:
                raise ValueError(f"{what} have another structure than what they belong to")
            for item, part in zip(tree if keys is None else [tree[key] for key in keys], structure[2:]):
                visit(item, part)

    visit(_list(tree), structure)
    return out


# ---- Map


def vmap(fun, in_axes=0, out_axes=0):
    """fun over an axis of its arguments. in_axes and out_axes are numbers, or trees of them; None is not mapped. Arrays that
    are passed by keyword are mapped over their first axis."""
    expect_function("vmap", fun)

    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        leaves, structure = flatten_numbers(args)
        axes = spread(in_axes, unflatten(structure, leaves))
        named, named_structure = flatten_memory(kwargs)
        n, leaves, axes = len(leaves), leaves + named, axes + [0] * len(named)
        if all(axis is None for axis in axes):
            raise ValueError("vmap: no argument is mapped")
        rows = [None if axis is None else _core.moveaxis(leaf, axis, 0) for leaf, axis in zip(leaves, axes)]
        _check_lengths(rows)
        with _core.Scope("vmap"):
            names = [leaf if row is None else _core.input(row, 1) for leaf, row in zip(leaves, rows)]
            positional, by_name = own(structure, names[:n]), own(named_structure, names[n:])
            result, result_structure = flatten_values(fun(*positional, **by_name))
            pairs = [(name, row) for name, row in zip(names, rows) if row is not None]
            results = _core.map([name for name, _ in pairs], [row for _, row in pairs], result)
            tree = unflatten(result_structure, results)
            places = zip(results, spread(out_axes, tree))
            out = [r if axis is None else _core.moveaxis(r, 0, axis) for r, axis in places]
        return unflatten(result_structure, out)

    return mapped


def _length(row):
    try:
        return len(row)
    except _core.NoValueError:
        return None  # of an argument of any size: looked at when it is known


def _check_lengths(rows):
    lengths = {_length(row) for row in rows if row is not None} - {None}
    if len(lengths) > 1:
        raise ValueError(f"vmap: the mapped axes differ in length: {sorted(lengths)}")


# ---- Compiled functions


class _Compiled:
    """One trace: a function of weft, and the structure of what the Python function returned."""

    def __init__(self, function, structure):
        self.function, self.structure = function, structure
        self.used = 0  # the number of the last call that came through Python

    def teach(self, compiled, args):
        """Tells a function what to do with such arguments, if the result is an array or a row of them."""
        if self.structure == "leaf":
            compiled.learn(args, self.function, None, 1)
        elif isinstance(self.structure, tuple) and self.structure[0] in (tuple, list) and set(self.structure[2:]) <= {"leaf"}:
            compiled.learn(args, self.function, self.structure[0], len(self.structure) - 2)


def _trace(fun, leaves, structure, state, inputs, outputs, rewrites, shapes, check):
    """Runs fun on names in place of the arrays. Those of the state get names while it runs, and come back after it."""
    saved = [leaf.copy() for leaf in state]
    containers = _containers(inputs, outputs)
    with _core.Scope():
        with _core.Scope("compile") as body:
            names = _names(leaves, shapes) + [_core.input(leaf, 0) for leaf in state]
            try:
                for leaf, name in zip(state, names[len(leaves):]):
                    _core.become(leaf, name)
                for leaf in arrays(outputs):
                    _core.become(leaf, leaf)  # it may be changed
                args, kwargs = own(structure, names)
                result, result_structure = flatten(fun(*args, **kwargs))
                results = [_core.alias(y) for y in result + arrays(outputs)]
            finally:
                for leaf, value in zip(state, saved):
                    _core.become(leaf, value)
                for container, items in containers:
                    _restore(container, items)
            if check is not None:
                check(results, leaves)
            before = set_rewrites(rewrites)
            try:
                return _Compiled(body.compile(names, results), result_structure)
            finally:
                set_rewrites(before)


def _names(leaves, shapes):
    """Names for arguments: of their sizes, of any, or of the sizes that a list of shapes says."""
    if shapes is None or shapes == "any":
        return [_core.input(leaf, 0, _OPEN[shapes]) for leaf in leaves]
    if len(shapes) != len(leaves):
        raise ValueError(f"compile: {len(shapes)} shapes for {len(leaves)} arrays")
    return [_core.input(leaf, 0, 2, shape) for leaf, shape in zip(leaves, shapes)]


def _walk(tree, passed):
    """The containers of a tree that are not among those passed, which they join."""
    if isinstance(tree, (tuple, list, dict)) and id(tree) not in passed:
        passed.add(id(tree))
        yield tree
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _walk(item, passed)


def _containers(inputs, outputs):
    """The lists and dicts of the state that are no outputs, with their items: what fun does to them stays in its trace."""
    passed = set()
    list(_walk(outputs, passed))
    return [(tree, dict(tree) if isinstance(tree, dict) else list(tree))
            for tree in _walk(inputs, passed) if not isinstance(tree, tuple)]


def _restore(container, items):
    if isinstance(container, list):
        container[:] = items
    else:
        for key in list(container):
            del container[key]
        for key, item in items.items():
            container[key] = item


_MOST_TRACES = 512  # of a compiled function, with a plan each: some 100 KB if it is small


def _forget_half(compiled, traces):
    """The half of the traces that was called longest ago goes: whoever calls with such arguments again has one made anew."""
    last = {key: max(trace.used, compiled.used(trace.function)) for key, trace in list(traces.items())}
    for key in sorted(last, key=last.get)[:len(last) // 2]:
        trace = traces.pop(key, None)
        if trace is not None:
            compiled.forget(trace.function)


_REWRITES = {"exact": 0, "stable": 1, "fast": 2}
_OPEN = {None: 0, "any": 1}


def compile(fun=None, inputs=None, outputs=None, rewrites="stable", shapes=None):
    """fun as one program, traced once for every set of shapes, dtypes and other arguments; of more than 512 such sets those called
    longest ago are forgotten, and traced anew. Without fun, with options alone: a decorator.

    shapes="any": traced once for all sizes. Inside, sizes of arguments are values like others (weft.size(x, axis)), and x.shape
    is not known; sizes of 1, which stretch in operations, are another trace. A list of shapes, one for each array among the
    arguments, says itself which sizes are fixed: [(None, 3), (None,)], None being any.

    Arrays that fun uses but does not receive are constants with the value they have when it is traced; by one of them derivatives are
    taken, and rows mapped, as by an argument. inputs and
    outputs are trees of arrays that fun reads and changes besides its arguments: state that varies. rewrites: "exact" keeps
    every bit of fun as it is written, "stable" may compute what is better conditioned, "fast" what is faster too: x * y + z
    is rounded once, a quotient by a number is a product with its reciprocal."""
    if rewrites not in _REWRITES:
        raise ValueError(f"compile: rewrites={rewrites!r} is none of {', '.join(_REWRITES)}")
    if fun is None:
        return functools.partial(compile, inputs=inputs, outputs=outputs, rewrites=rewrites, shapes=shapes)
    expect_function("compile", fun)
    if isinstance(shapes, str) and shapes != "any":
        raise ValueError(f'compile: shapes={shapes!r} is neither "any" nor a list of shapes')
    return compile_checked(fun, inputs, outputs, rewrites, shapes, None)


def compile_checked(fun, inputs, outputs, rewrites, shapes, check):
    """The same; check(results, arguments) may refuse what was traced."""
    traces = {}
    compiled = functools.update_wrapper(_core.Compiled(), fun)
    compiled.open = _OPEN[shapes] if shapes is None or isinstance(shapes, str) else 2

    def otherwise(*args, **kwargs):
        leaves, structure = flatten_memory((args, kwargs))
        state = [] if inputs is None else _distinct(arrays(inputs))
        values = leaves + state
        key = (structure, len(leaves), _core.signature(leaves, compiled.open), _core.signature(state, 0))
        trace = traces.get(key)
        if trace is None:
            if len(traces) >= _MOST_TRACES:
                _forget_half(compiled, traces)
            trace = traces[key] = _trace(fun, leaves, structure, state, inputs, outputs, _REWRITES[rewrites], shapes, check)
            if inputs is None and outputs is None and not kwargs and all(isinstance(x, array) for x in args):
                trace.teach(compiled, args)
        trace.used = compiled.tick()
        results = trace.function(values)
        if outputs is not None:
            changed = arrays(outputs)
            for leaf, value in zip(changed, results[len(results) - len(changed):]):
                _core.become(leaf, value)
        return unflatten(trace.structure, results)

    compiled.otherwise = otherwise
    compiled.__weft_options__ = {"inputs": inputs, "outputs": outputs, "rewrites": rewrites, "shapes": shapes}
    return compiled


def _reduced(compiled):
    """How pickle tells another process of a compiled function: by the name it can be imported by, or that of what it was made of
    and the options. Traces are made there anew; there is no byte format of graphs."""
    import pickle  # whoever comes here has it; others need not wait for it

    fun, options = compiled.__wrapped__, compiled.__weft_options__
    if options["inputs"] is not None or options["outputs"] is not None:
        raise pickle.PicklingError("compile: a function with inputs or outputs of its own is state, and not pickled")
    name = getattr(fun, "__qualname__", "<no name>")
    found = sys.modules.get(getattr(fun, "__module__", None))
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is compiled:
        return name
    if found is not fun:
        raise pickle.PicklingError(f"compile: {name} cannot be imported by its name, as what is pickled must be: "
                                   "define the function in a module")
    return functools.partial(compile, **options), (fun,)


copyreg.pickle(_core.Compiled, _reduced)


def _distinct(leaves):
    """The same object twice is one input."""
    return list({id(leaf): leaf for leaf in leaves}.values())


# ---- Own rules


def checkpoint(fun):
    """fun, whose inside is computed again by reverse mode instead of kept.

    >>> weft.grad(weft.checkpoint(lambda x: weft.sum(x * x)))(weft.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    expect_function("checkpoint", fun)

    @functools.wraps(fun)
    def checkpointed(*args, **kwargs):
        leaves, structure = flatten((args, kwargs))
        with _core.Scope():
            inputs = [_core.alias(leaf) for leaf in leaves]
            args, kwargs = own(structure, inputs)
            result, result_structure = flatten(fun(*args, **kwargs))
            return unflatten(result_structure, _core.checkpoint(inputs, result))

    return checkpointed


class custom_function:
    """A function with derivatives of its own:

        @weft.custom_function
        def f(x, y): ...

        @f.vjp
        def f_vjp(primals, cotangents, outputs): ...

    Rules are vjp(primals, cotangents, outputs), jvp(primals, tangents) and vmap(inputs, axes) -> (outputs, axes). A
    single primal or output is passed as it is, several as a tuple. Arrays that the function captures are constants.

    Keywords go to the vjp rule as well, which may return gradients of positional arguments alone: then those of keywords are 0.
    The other two rules know of no keywords, and refuse them."""

    _flatten = staticmethod(flatten_numbers)  # what counts as an array among the arguments

    def __init__(self, fun):
        expect_function("custom_function", fun)
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._vjp = self._jvp = self._vmap = None

    def vjp(self, rule):
        self._vjp = rule
        return self

    def jvp(self, rule):
        self._jvp = rule
        return self

    def vmap(self, rule):
        self._vmap = rule
        return self

    def __call__(self, *args, **kwargs):
        leaves, structure = self._flatten((args, kwargs))
        with _core.Scope():
            inputs = [_core.alias(leaf) for leaf in leaves]
            args, kwargs = own(structure, inputs)
            result, result_structure = flatten(self._fun(*args, **kwargs))
            rules = _Rules(self, structure, result_structure)
            vjp, jvp, vmap = self._vjp and rules.vjp, self._jvp and rules.jvp, self._vmap and rules.vmap
            results = _core.custom(inputs, result, vjp, jvp, vmap)
        return unflatten(result_structure, results)


class _Rules:
    """The rules of one call, between flat lists and the structure of its arguments and results."""

    def __init__(self, owner, inputs, outputs):
        self.owner, self.inputs, self.outputs = owner, inputs, outputs

    def arguments(self, leaves):
        """The only positional argument, or a tuple of them, and the keywords."""
        args, kwargs = unflatten(self.inputs, leaves)
        return args[0] if len(args) == 1 else args, kwargs

    def positional(self, rule, leaves):
        args, kwargs = self.arguments(leaves)
        if kwargs:
            raise ValueError(f"custom_function: a {rule} rule knows of no keywords, and there is {', '.join(kwargs)}")
        return args

    def beside(self, leaves):
        """What belongs to each positional argument, None beside those that are no arrays."""
        args = unflatten(without_constants(self.inputs), leaves)[0]
        return args[0] if len(args) == 1 else args

    def vjp(self, x, y, dy):
        args, kwargs = self.arguments(x)
        gradients = self.owner._flatten(self.owner._vjp(args, unflatten(self.outputs, dy), unflatten(self.outputs, y), **kwargs))[0]
        if kwargs and len(gradients) == len(arrays(args)):  # keywords come last
            gradients += [_core.zeros_like(leaf) for leaf in x[len(gradients):]]
        return _like(gradients, x)

    def jvp(self, x, dx):
        tangents = self.owner._jvp(self.positional("jvp", x), self.beside(dx))
        return flatten_numbers(tangents)[0]

    def vmap(self, xs, is_mapped):
        axes = self.beside([0 if mapped else None for mapped in is_mapped])
        outputs, out_axes = self.owner._vmap(self.positional("vmap", xs), axes)
        return [_core.moveaxis(y, axis, 0) for y, axis in zip(arrays(outputs), spread(out_axes, outputs))]


def _like(gradients, x):
    """What a vjp rule returned, one array of the right shape and dtype for each input."""
    if len(gradients) != len(x):
        raise ValueError(f"a vjp rule returned {len(gradients)} gradients for {len(x)} inputs")
    return [_core.broadcast_to(g.astype(like.dtype), like.shape) for g, like in zip(gradients, x)]
