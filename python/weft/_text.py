"""Arrays as text, and as something to pickle."""
from . import _core

_HEAD = 3  # of an axis longer than twice this, so many elements are shown at either end


def represent(a):
    tail = f"dtype={a.dtype.name})"
    try:
        body = _body(_values(a), 1)
    except ValueError:
        return f"array(<no value>, shape={a.shape}, {tail}"
    return f"array({body}, {tail}"


def _values(a):
    """Nested lists of what is shown; None where something is left out."""
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


def _body(values, depth):
    if values is None:
        return "..."
    if not isinstance(values, list):
        return f"{values:.6g}" if isinstance(values, float) else str(values)
    nested = any(isinstance(value, list) for value in values)
    separator = ",\n" + " " * (6 + depth) if nested else ", "
    return "[" + separator.join(_body(value, depth + 1) for value in values) + "]"


def reduce(a):
    return rebuild, (a.astype(_core.float32).tolist() if a.dtype is _core.bfloat16 else a.tolist(), a.shape, a.dtype)


def rebuild(values, shape, dtype):
    return _core.array(values, dtype=dtype).reshape(shape)
