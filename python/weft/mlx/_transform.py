"""Transforms with MLX's arguments and conventions, on those of weft: complex cotangents come in and go out conjugated, lists of
arrays in place of trees for vjp and jvp, state that compiled functions capture."""
import contextlib
import functools
import operator
import threading

from .. import _core, _transform, _tree
from . import _device

_mlx = _core._mlx
array = _core.array


def _conjugate(x):
    return _mlx.conj(x) if x.dtype.name.startswith("complex") else x


def eval(*trees):
    """Computes the arrays in the trees, and those that were written into.

    >>> mx.eval(mx.ones(2))
    """
    changed = _mlx._changed()
    if not changed or _tracing.depth:
        return _core.eval(*trees)
    try:
        _core.eval(trees, changed)
    except Exception:
        _core.eval(*trees)  # what was asked for, or why there is none


def async_eval(*trees):
    """Starts to compute the arrays in the trees.

    >>> mx.async_eval(mx.ones(2))
    """
    if _tracing.depth:
        raise ValueError("async_eval: inside of a function that is being transformed")
    started = _core.arrays(trees, _mlx._changed())
    _core.async_eval(started)
    _device._note_started(started)


class _Tracing(threading.local):
    """How many functions this thread is transforming, and what it differentiates by."""

    depth, sources = 0, ()

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *why):
        self.depth -= 1


_tracing = _Tracing()


@contextlib.contextmanager
def _by(sources):
    before, _tracing.sources = _tracing.sources, (*_tracing.sources, *sources)
    try:
        yield
    finally:
        _tracing.sources = before


def _check_indices(what, *indices):
    """Indices that are computed from what is differentiated by have no derivative: as there, the program has to say so."""
    indices = [x for x in indices if isinstance(x, array)]
    if _tracing.sources and indices and _core.reaches(indices, list(_tracing.sources)):
        raise ValueError(f"{what}: no derivative by indices; use stop_gradient on them")


def _check(what, argnums, argnames):
    numbers = [0] if argnums is None and not argnames else [argnums] if hasattr(type(argnums), "__index__") and not getattr(argnums, "ndim", 0) else [] if argnums is None else list(argnums)
    if not all(hasattr(type(k), "__index__") for k in numbers):
        raise TypeError(f"{what}: argnums {argnums} are numbers")
    numbers = [operator.index(k) for k in numbers]
    if not numbers and not argnames:
        raise ValueError(f"{what}: no argument is named")
    if any(k < 0 for k in numbers):
        raise ValueError(f"{what}: argnums {argnums} are counted from 0")
    names = [argnames] if isinstance(argnames, str) else list(argnames or [])
    for which, list_ in (("argnums", numbers), ("argnames", names)):
        if len(set(list_)) != len(list_):
            raise ValueError(f"{what}: {which} {list_} name an argument twice")
    return numbers, names


class _Inputs:
    """Arrays in the places of others, in lists and dicts that a function is given: what it does to these stays, but for the
    arrays that it has left where they were, in whose place the old ones come back."""

    def __init__(self, what):
        self.what, self.arrays, self.dtypes, self.places = what, [], [], []

    def enter(self, tree):
        if isinstance(tree, array):
            self.dtypes.append(tree.dtype)
            self.arrays.append(_core.alias(tree if _is_number(tree.dtype) else tree.astype(_mlx.float32)))
            return self.arrays[-1].copy()  # the function may give its own another value
        if isinstance(tree, (list, dict)):
            for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
                old = tree[key]
                new = self.enter(old)
                if new is not old:
                    self.places.append((tree, key, old, new))
                    tree[key] = new
            return tree
        if isinstance(tree, tuple):
            items = [self.enter(item) for item in tree]
            return _tree.sequence(type(tree), items)
        raise ValueError(f"{self.what}: an argument to differentiate by holds {type(tree).__name__}, not an array")

    def leave(self):
        for tree, key, old, new in self.places:
            if (key in tree if isinstance(tree, dict) else key < len(tree)) and tree[key] is new:
                tree[key] = old


def _scalar(what, value):
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(first, array):
        raise ValueError(f"{what}: the function gave {type(first).__name__} in place of an array")
    if first.ndim:
        raise ValueError(f"{what}: the function gave an array of shape {first.shape} in place of a scalar")
    return first


def _fill(tree, values):
    """The tree with values in the places of its arrays."""
    if isinstance(tree, array):
        return next(values)
    if isinstance(tree, dict):
        return {key: _fill(item, values) for key, item in tree.items()}
    items = [_fill(item, values) for item in tree]
    return _tree.sequence(type(tree), items)


def _value_and_gradients(fun, numbers, names, args, kwargs, has_value=True):
    what = "value_and_grad" if has_value else "grad"
    if numbers and max(numbers) >= len(args):
        raise ValueError(f"{what}: there is no argument {max(numbers)} among {len(args)}")
    for name in names:
        if name not in kwargs:
            raise ValueError(f"{what}: there is no keyword argument {name!r}")
    inputs, new_args, new_kwargs = _Inputs(what), list(args), dict(kwargs)
    with _core.Scope(), _tracing:
        try:
            for n in numbers:
                new_args[n] = inputs.enter(args[n])
            for name in names:
                new_kwargs[name] = inputs.enter(kwargs[name])
            with _by(inputs.arrays):
                value = fun(*new_args, **new_kwargs)
        finally:
            inputs.leave()
        if not inputs.arrays:
            raise ValueError(f"{what}: there is no array to differentiate by")
        scalar = _scalar(what, value)
        if not _is_number(scalar.dtype):
            gradients = [_mlx.zeros_like(x) for x in inputs.arrays]
        else:
            gradients = _core.vjp([scalar], [_core.full((), 1, scalar.dtype)], inputs.arrays)
    gradients = iter([_conjugate(x).astype(dtype) for x, dtype in zip(gradients, inputs.dtypes)])
    positional = tuple(_fill(args[n], gradients) for n in numbers)
    named = {name: _fill(kwargs[name], gradients) for name in names}
    positional = positional[0] if len(positional) == 1 else positional or None
    if has_value and not any(map(_is_number, inputs.dtypes)):  # it is that of the integers, whose derivative is one of floats
        value = fun(*args, **kwargs)
    return value, (positional, named) if names else positional


def value_and_grad(fun, argnums=None, argnames=()):
    """A function that gives fun's value and its gradient by the arguments named, the first by default.

    >>> [a.item() for a in mx.value_and_grad(lambda x: x * x)(mx.array(3.0))]
    [9.0, 6.0]
    """
    _transform.expect_function("value_and_grad", fun)
    numbers, names = _check("value_and_grad", argnums, argnames)

    @functools.wraps(fun, assigned=_NAMES)
    def transformed(*args, **kwargs):
        return _value_and_gradients(fun, numbers, names, args, kwargs)

    return transformed


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def grad(fun, argnums=None, argnames=()):
    """A function that gives fun's gradient by the arguments named, the first by default.

    >>> mx.grad(lambda x: x * x)(mx.array(3.0)).item()
    6.0
    """
    _transform.expect_function("grad", fun)
    numbers, names = _check("grad", argnums, argnames)

    @functools.wraps(fun, assigned=_NAMES)
    def transformed(*args, **kwargs):
        value, gradient = _value_and_gradients(fun, numbers, names, args, kwargs, False)
        if not isinstance(value, array):
            raise ValueError(f"grad: the function gave {type(value).__name__}, not one array")
        return gradient

    return transformed


def _arrays_only(what, values, wrong=TypeError):
    values = list(values)
    for value in values:
        if not isinstance(value, array):
            raise wrong(f"{what}: a list of arrays is expected, not {type(value).__name__}")
    return values


def _as_floats(what, fun, primals):
    """Integers are differentiated by as if they were numbers; fun is told apart from what it does with an index."""
    if all(_is_inexact(x) for x in primals):
        return fun, primals
    floats = [x if _is_inexact(x) else x.astype(_mlx.float32) for x in primals]

    def called(*args):
        try:
            return fun(*args)
        except (ValueError, TypeError, IndexError) as why:
            fun(*primals)  # what fails of the integers too is the function's own affair
            raise ValueError(f"{what}: by an integer that is no number here; use stop_gradient on indices ({why})") from why

    return called, floats


def _is_number(dtype):
    return dtype.name.startswith(("float", "bfloat", "complex"))


def _is_inexact(x):
    return _is_number(x.dtype)


def _values_of(what, fun, primals, outputs):
    """The outputs; of integers alone, those of a call of their own, as the derivative was taken by floats in their places."""
    return outputs if any(map(_is_inexact, primals)) else _arrays_only(what, _list(fun(*primals)), ValueError)


def vjp(fun, primals, cotangents):
    """(fun's outputs, the products of the cotangents with its Jacobian), lists of arrays.

    >>> mx.vjp(lambda x: x * x, [mx.array(3.0)], [mx.array(1.0)])[1][0].item()
    6.0
    """
    _transform.expect_function("vjp", fun)
    primals = _arrays_only("vjp", primals)
    of, given, dtypes = fun, primals, [x.dtype for x in primals]
    fun, primals = _as_floats("vjp", fun, primals)
    cotangents = [_conjugate(x) for x in _arrays_only("vjp", cotangents)]
    with _core.Scope(), _tracing:
        inputs = [_core.alias(x) for x in primals]
        outputs = _arrays_only("vjp", _list(fun(*(x.copy() for x in inputs))), ValueError)
        if len(outputs) != len(cotangents):
            raise ValueError(f"vjp: {len(cotangents)} cotangents for {len(outputs)} outputs")
        for y, dy in zip(outputs, cotangents):
            if y.shape != dy.shape:
                raise ValueError(f"vjp: a cotangent of shape {dy.shape} for an output of shape {y.shape}")
        pairs = [(y, dy.astype(y.dtype)) for y, dy in zip(outputs, cotangents) if _is_inexact(y)]
        gradients = _core.vjp([y for y, _ in pairs], [dy for _, dy in pairs], inputs)
    return _values_of("vjp", of, given, outputs), [_conjugate(x).astype(dtype) for x, dtype in zip(gradients, dtypes)]


def jvp(fun, primals, tangents):
    """(fun's outputs, the products of its Jacobian with the tangents), lists of arrays.

    >>> mx.jvp(lambda x: x * x, [mx.array(3.0)], [mx.array(1.0)])[1][0].item()
    6.0
    """
    _transform.expect_function("jvp", fun)
    primals, tangents = _arrays_only("jvp", primals), _arrays_only("jvp", tangents)
    if len(primals) != len(tangents):
        raise ValueError(f"jvp: {len(tangents)} tangents for {len(primals)} primals")
    for x, dx in zip(primals, tangents):
        if x.shape != dx.shape:
            raise ValueError(f"jvp: a tangent of shape {dx.shape} for a primal of shape {x.shape}")
    of, given = fun, primals
    fun, primals = _as_floats("jvp", fun, primals)
    with _core.Scope(), _tracing:
        inputs = [_core.alias(x) for x in primals]
        outputs = _arrays_only("jvp", _list(fun(*(x.copy() for x in inputs))), ValueError)
        floats = [y for y in outputs if _is_inexact(y)]
        found = iter(_core.jvp(inputs, [dx.astype(x.dtype) for x, dx in zip(inputs, tangents)], floats))
        derivatives = [next(found) if _is_inexact(y) else _mlx.zeros(y.shape) for y in outputs]
    return _values_of("jvp", of, given, outputs), derivatives


def _list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _check_axes(axes):
    if isinstance(axes, (list, tuple)):
        for axis in axes:
            _check_axes(axis)
    elif isinstance(axes, dict):
        _check_axes(list(axes.values()))
    elif axes is not None and not isinstance(axes, int):
        raise ValueError(f"vmap: {axes!r} is no axis")


def vmap(fun, in_axes=0, out_axes=0):
    """fun over an axis of its arguments. None is not mapped.

    >>> mx.vmap(lambda x: x.sum())(mx.array([[1, 2], [3, 4]])).tolist()
    [3, 7]
    """
    _transform.expect_function("vmap", fun)
    if in_axes is None:
        raise TypeError("vmap: in_axes is an axis, or a tree of axes and None, not None alone")
    _check_axes(in_axes)
    _check_axes(out_axes)

    @functools.wraps(fun, assigned=_NAMES)
    def mapped(*args):
        alone = [False]

        def traced(*args):
            with _tracing:
                result = fun(*args)
            alone[0] = isinstance(result, array)
            return (result,) if alone[0] else result

        axes = (in_axes,) if isinstance(in_axes, dict) and len(args) == 1 else in_axes
        try:
            result = _transform.vmap(traced, axes, out_axes)(*args)
        except KeyError as why:
            raise ValueError(f"vmap: the axes have another structure than the values ({why})") from why
        return result[0] if alone[0] else result

    return mapped


checkpoint = _transform.checkpoint


class custom_function(_transform.custom_function):
    __doc__ = _transform.custom_function.__doc__.replace("weft.", "mx.")
    _flatten = staticmethod(_tree.flatten)  # numbers are what they are: a function may take an axis, or count by one

_is_enabled = [True]


def disable_compile():
    """From here on compile gives functions as they are.

    >>> mx.disable_compile()
    """
    _is_enabled[0] = False


def enable_compile():
    """From here on compile compiles.

    >>> mx.enable_compile()
    """
    _is_enabled[0] = True


def _check_leaves(tree):
    if isinstance(tree, (list, tuple)):
        for item in tree:
            _check_leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            _check_leaves(item)
    elif not (tree is None or isinstance(tree, (array, str, int, float))):
        raise ValueError(f"compile: an argument is {type(tree).__name__}; arrays, texts, numbers and None can be passed")


def _refuse_captured(results, arguments):
    """An argument that is used by another name too, computed or not, would be a constant under that one; there it is refused."""
    lazy = [] if _tracing.depth else [x for x in arguments if _core.state(x) == "lazy"]
    if lazy and _core.reaches(results, lazy):
        raise ValueError("compile: the function uses an array that is, or is computed from, one of its arguments: "
                         "pass it, or name it in inputs")


def compile(fun, inputs=None, outputs=None, shapeless=False):
    """fun as one program, traced for every set of shapes and dtypes; a shapeless one for every number of axes, unless it looks at a
    size. inputs and outputs are trees of arrays that it reads and changes besides its arguments. A shapeless function is a small
    one, an activation say: of arguments that are not computed yet it is the expression it is, to be fused with them.

    >>> mx.compile(lambda x: x + 1)(mx.array(1)).item()
    2
    """
    _transform.expect_function("compile", fun)
    compiled = _transform.compile_checked(fun, inputs, outputs, "stable", None, _refuse_captured)
    is_stateful = inputs is not None or outputs is not None
    of_any_size = [_transform.compile_checked(fun, inputs, outputs, "stable", "any", _refuse_captured)] if shapeless else []

    @functools.wraps(fun, assigned=_NAMES)
    def call(*args, **kwargs):
        if not _is_enabled[0]:
            return fun(*args, **kwargs)
        _check_leaves(args)
        _check_leaves(kwargs)
        if shapeless and not is_stateful and _core.are_expressions(_core.arrays(args, kwargs)):
            return fun(*args, **kwargs)
        if of_any_size:
            try:
                return of_any_size[0](*args, **kwargs)
            except _core.NoValueError:  # it looks at a size
                of_any_size.clear()
        return compiled(*args, **kwargs)

    return call
