"""Transforms with MLX's arguments and conventions, on those of weft: complex cotangents come in and go out conjugated, lists of
arrays in place of trees for vjp and jvp, state that compiled functions capture."""
import functools

from .. import _core, _run, _transform
from .._tree import arrays

_mlx = _core._mlx
array = _core.array


def _tree(f, tree):
    if isinstance(tree, array):
        return f(tree)
    if isinstance(tree, dict):
        return {key: _tree(f, item) for key, item in tree.items()}
    if isinstance(tree, (tuple, list)):
        items = [_tree(f, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


def _conjugate(x):
    return _mlx.conj(x) if x.dtype.name.startswith("complex") else x


def eval(*trees):
    """Computes the arrays in the trees."""
    _core.eval(*trees)


def async_eval(*trees):
    """Starts to compute the arrays in the trees."""
    _run.async_eval(*trees)


def _check(argnums, argnames):
    numbers = [argnums] if isinstance(argnums, int) else list(argnums or [])
    if any(k < 0 for k in numbers):
        raise ValueError(f"value_and_grad: argnums {argnums} are counted from 0")
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"value_and_grad: argnums {argnums} name an argument twice")
    names = [argnames] if isinstance(argnames, str) else list(argnames or [])
    if len(set(names)) != len(names):
        raise ValueError(f"value_and_grad: argnames {argnames} name an argument twice")


def value_and_grad(fun, argnums=None, argnames=()):
    """A function that gives fun's value and its gradient by the arguments named, the first by default."""
    _check(argnums, argnames)
    argnames = [argnames] if isinstance(argnames, str) else list(argnames or [])
    both = _transform.value_and_grad(fun, argnums, argnames)

    @functools.wraps(fun)
    def transformed(*args, **kwargs):
        for name in argnames:
            if name not in kwargs:
                raise ValueError(f"value_and_grad: there is no keyword argument {name!r}")
        value, gradient = both(*args, **kwargs)
        return value, _tree(_conjugate, gradient)

    return transformed


def grad(fun, argnums=None, argnames=()):
    """A function that gives fun's gradient by the arguments named, the first by default."""
    both = value_and_grad(fun, argnums, argnames)

    @functools.wraps(fun)
    def transformed(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        if not isinstance(value, array):
            raise ValueError(f"grad: the function gave a {type(value).__name__}, not one array")
        return gradient

    return transformed


def _arrays_only(what, values):
    values = list(values)
    for value in values:
        if not isinstance(value, array):
            raise ValueError(f"{what}: a list of arrays is expected, not {type(value).__name__}")
    return values


def vjp(fun, primals, cotangents):
    """(fun's outputs, the products of the cotangents with its Jacobian), lists of arrays."""
    primals = _arrays_only("vjp", primals)
    conjugate = [_conjugate(x) for x in _arrays_only("vjp", cotangents)]

    def flat(*args):
        outputs = _list(fun(*args))
        if len(outputs) != len(conjugate):
            raise ValueError(f"vjp: {len(conjugate)} cotangents for {len(outputs)} outputs")
        for y, dy in zip(outputs, conjugate):
            if y.shape != dy.shape:
                raise ValueError(f"vjp: a cotangent of shape {dy.shape} for an output of shape {y.shape}")
        return outputs

    outputs, gradients = _transform.vjp(flat, primals, conjugate)
    return outputs, [_conjugate(x) for x in gradients]


def jvp(fun, primals, tangents):
    """(fun's outputs, the products of its Jacobian with the tangents), lists of arrays."""
    primals, tangents = _arrays_only("jvp", primals), _arrays_only("jvp", tangents)
    if len(primals) != len(tangents):
        raise ValueError(f"jvp: {len(tangents)} tangents for {len(primals)} primals")
    for x, dx in zip(primals, tangents):
        if x.shape != dx.shape:
            raise ValueError(f"jvp: a tangent of shape {dx.shape} for a primal of shape {x.shape}")
    return _transform.jvp(lambda *args: _list(fun(*args)), primals, tangents)


def _list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def vmap(fun, in_axes=0, out_axes=0):
    """fun over an axis of its arguments. None is not mapped."""
    return _transform.vmap(fun, in_axes, out_axes)


checkpoint = _transform.checkpoint
custom_function = _transform.custom_function

_is_enabled = [True]


def disable_compile():
    """From here on compile gives functions as they are."""
    _is_enabled[0] = False


def enable_compile():
    """From here on compile compiles."""
    _is_enabled[0] = True


def _check_leaves(tree):
    if isinstance(tree, (list, tuple)):
        for item in tree:
            _check_leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            _check_leaves(item)
    elif not (tree is None or isinstance(tree, (array, str, int, float))):
        raise ValueError(f"compile: an argument is a {type(tree).__name__}; arrays, texts, numbers and None can be passed")


def compile(fun, inputs=None, outputs=None, shapeless=False):
    """fun as one program, traced for every set of shapes and dtypes (shapeless ones too: new lengths need no new kernels).
    inputs and outputs are trees of arrays that it reads and changes besides its arguments."""
    compiled = _transform.compile(fun, inputs=inputs, outputs=outputs)
    if inputs is not None or outputs is not None:
        arrays(inputs, outputs)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if not _is_enabled[0]:
            return fun(*args, **kwargs)
        _check_leaves(args)
        _check_leaves(kwargs)
        return compiled(*args, **kwargs)

    return call
