"""Arrays as text and as something to pickle, the way MLX does both."""
from .. import _core

_HEAD = 3


class PrintOptions:
    """How numbers are shown: so many digits after the point, or -1: six in all."""

    def __init__(self, precision=-1):
        self.precision = precision


_options = [PrintOptions()]


def set_printoptions(precision=-1):
    """How numbers are shown from here on.

    >>> mx.set_printoptions(precision=-1)
    """
    _options[-1] = PrintOptions(precision)


def get_printoptions():
    """How numbers are shown.

    >>> mx.get_printoptions().precision
    -1
    """
    return _options[-1]


class printoptions:
    """with printoptions(precision=3): .."""

    def __init__(self, precision=-1):
        self._inside = PrintOptions(precision)

    def __enter__(self):
        _options.append(self._inside)
        return self._inside

    def __exit__(self, *why):
        _options.pop()


def represent(a):
    return f"array({_body(_shown(a), 1)}, dtype={a.dtype.name})"


def _shown(a):
    """Nested lists of what is shown; None where something is left out."""
    cut = [axis for axis, n in enumerate(a.shape) if n > 2 * _HEAD]
    if a.size:
        for axis in cut:
            before = (slice(None),) * axis
            a = _core._mlx.concatenate([a[before + (slice(0, _HEAD),)], a[before + (slice(-_HEAD, None),)]], axis)
    return _mark(a.tolist(), cut, 0)


def _mark(values, cut, axis):
    if not isinstance(values, list):
        return values
    values = [_mark(value, cut, axis + 1) for value in values]
    return values[:_HEAD] + [None] + values[_HEAD:] if axis in cut and values else values


def _body(values, depth):
    if values is None:
        return "..."
    if isinstance(values, complex):
        imag = _number(values.imag)
        return f"{_number(values.real)}{'' if imag.startswith('-') else '+'}{imag}j"
    if isinstance(values, float):
        return _number(values)
    if not isinstance(values, list):
        return str(values)
    nested = any(isinstance(value, list) for value in values)
    return "[" + (",\n" + " " * (6 + depth) if nested else ", ").join(_body(value, depth + 1) for value in values) + "]"


def _number(x):
    precision = _options[-1].precision
    return f"{x:.6g}" if precision < 0 else f"{x:.{precision}f}"


def reduce(a):
    if a.dtype.name == "bfloat16":
        return rebuild, (_core._mlx.as_weft(a).astype("float32").__array__(), a.dtype.name)
    try:
        return rebuild, (a.__array__(), a.dtype.name)
    except ImportError:  # there is no NumPy
        return rebuild, (a.tolist(), a.dtype.name)


def rebuild(values, dtype):
    return _core._mlx.array(values, dtype=getattr(_core._mlx, "bool_" if dtype == "bool" else dtype))


def namespace(api_version=None):
    if api_version is not None:
        raise ValueError(f"__array_namespace__: there is no version {api_version!r}")
    from . import core
    return core
