"""Arrays as text, and as something to pickle; signatures of functions."""
import inspect

from . import _core

_HEAD = 3  # of an axis longer than twice this, so many elements are shown at either end
_DIGITS = {"float64": 17, "complex128": 17}  # what tells two of them apart; 6 of the others


def represent(a):
    tail = f"dtype={a.dtype.name})"
    try:
        body = _body(_values(a), 1, _DIGITS.get(a.dtype.name, 6))
    except _core.NoValueError:
        return f"array(<no value>, {_shape(a)}{tail}"
    except Exception as why:
        return f"array(<failed: {why}>, {_shape(a)}{tail}"
    return f"array({body}, {'' if a.size else _shape(a)}{tail}"


def _shape(a):
    try:
        return f"shape={a.shape}, "
    except Exception:  # it is not known yet, or never will be
        return f"ndim={a.ndim}, "


def _values(a):
    """Nested lists of what is shown; None where something is left out."""
    if not a.size:
        return []
    left_out = [i for i, n in enumerate(a.shape) if n > 2 * _HEAD and a.size > 1000]
    for axis in left_out:
        ends = [slice(0, _HEAD), slice(-_HEAD, None)]
        a = _core.concatenate([a[(slice(None),) * axis + (end,)] for end in ends], axis)
    return _mark(a.tolist(), left_out, 0)


def _mark(values, left_out, axis):
    if not isinstance(values, list):
        return values
    values = [_mark(value, left_out, axis + 1) for value in values]
    return values[:_HEAD] + [None] + values[_HEAD:] if axis in left_out else values


def _body(values, depth, digits):
    if values is None:
        return "..."
    if isinstance(values, complex):
        sign = "" if (text := _number(values.imag, digits)).startswith("-") else "+"
        return f"({_number(values.real, digits)}{sign}{text}j)"
    if isinstance(values, float):
        return _number(values, digits)
    if not isinstance(values, list):
        return str(values)
    nested = any(isinstance(value, list) for value in values)
    separator = ",\n" + " " * (6 + depth) if nested else ", "
    return "[" + separator.join(_body(value, depth + 1, digits) for value in values) + "]"


def _number(value, digits):
    """As short as possible, but so many digits."""
    if digits != 17:
        return f"{value:.{digits}g}"
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def reduce(a):
    return rebuild, (a.tolist(), a.shape, a.dtype)


def rebuild(values, shape, dtype):
    return _core.array(values, dtype=dtype).reshape(shape)


def signature(text):
    """Of "(a, /, axis=None)"; defaults may be dtypes."""
    return inspect.signature(eval(f"lambda {text[1:-1]}: None", vars(_core)))
