"""Kinds of dtypes, and what their numbers can be."""
import enum

from .. import _core

_mlx = _core._mlx
Dtype = _mlx.Dtype


class DtypeCategory(enum.Enum):
    """What issubdtype knows besides dtypes."""

    complexfloating = "complexfloating"
    floating = "floating"
    inexact = "inexact"
    signedinteger = "signedinteger"
    unsignedinteger = "unsignedinteger"
    integer = "integer"
    number = "number"
    generic = "generic"


_above = {"complexfloating": "inexact", "floating": "inexact", "signedinteger": "integer", "unsignedinteger": "integer",
          "integer": "number", "inexact": "number", "number": "generic", "generic": None}
_kinds = {"bool": "generic", "complex64": "complexfloating", "complex128": "complexfloating", "bfloat16": "floating"}


def _kind(dtype):
    name = dtype.name
    if name in _kinds:
        return _kinds[name]
    return "unsignedinteger" if name.startswith("uint") else "signedinteger" if name.startswith("int") else "floating"


def _is_below(kind, other):
    while kind is not None and kind != other:
        kind = _above[kind]
    return kind is not None


def issubdtype(arg1, arg2):
    """Whether a dtype or category is one of another.

    >>> mx.issubdtype(mx.int8, mx.integer)
    True
    """
    if isinstance(arg2, Dtype):
        return isinstance(arg1, Dtype) and arg1 == arg2
    if not isinstance(arg2, DtypeCategory) or not isinstance(arg1, (Dtype, DtypeCategory)):
        raise ValueError("issubdtype: dtypes or categories are expected")
    return _is_below(_kind(arg1) if isinstance(arg1, Dtype) else arg1.value, arg2.value)


_strings = {"bool": ("generic",), "signed integer": ("signedinteger",), "unsigned integer": ("unsignedinteger",),
            "integral": ("signedinteger", "unsignedinteger"), "real floating": ("floating",),
            "complex floating": ("complexfloating",), "numeric": ("signedinteger", "unsignedinteger", "floating", "complexfloating")}


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: another dtype, one of the array API's names of kinds, or one of several.

    >>> mx.isdtype(mx.int8, 'integral')
    True
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(f"isdtype: a dtype is expected, not {type(dtype).__name__}")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, Dtype):
        return dtype == kind
    if kind is None:
        raise TypeError("isdtype: a kind is a dtype, a string or a tuple of them, not None")
    if not isinstance(kind, str) or kind not in _strings:
        raise ValueError(f"isdtype: {kind!r} is no kind of dtypes")
    return _kind(dtype) in _strings[kind]


def can_cast(from_, to):
    """Whether promotion takes the one to the other.

    >>> mx.can_cast(mx.int8, mx.int16)
    True
    """
    dtype = from_ if isinstance(from_, Dtype) else getattr(from_, "dtype", None)
    if not isinstance(to, Dtype):
        raise TypeError(f"can_cast: to is a dtype, not {to!r}")
    if not isinstance(dtype, Dtype):
        raise (TypeError if from_ is None else ValueError)(f"can_cast: from_ is an array or a dtype, not {from_!r}")
    return _mlx.result_type(dtype, to) == to


class finfo:
    """The numbers a floating dtype has: bits, min, max, eps, smallest_normal."""

    def __init__(self, dtype):
        digits = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52), "complex64": (8, 23),
                  "complex128": (11, 52)}
        if not isinstance(dtype, Dtype):
            raise TypeError(f"finfo: a dtype is expected, not {type(dtype).__name__}")
        if dtype.name not in digits:
            raise ValueError(f"finfo: {dtype} is not a floating dtype")
        exponent, mantissa = digits[dtype.name]
        bias = 2 ** (exponent - 1) - 1
        self.dtype = {"complex64": _mlx.float32, "complex128": _mlx.float64}.get(dtype.name, dtype)
        self.bits = 1 + exponent + mantissa
        self.max = float((2 - 2.0 ** -mantissa) * 2.0 ** bias)
        self.min = -self.max
        self.eps = 2.0 ** -mantissa
        self.smallest_normal = 2.0 ** (1 - bias)

    def __repr__(self):
        return f"finfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype.name})"


class iinfo:
    """The numbers an integer dtype has: min and max."""

    def __init__(self, dtype):
        if not isinstance(dtype, Dtype):
            raise TypeError(f"iinfo: a dtype is expected, not {type(dtype).__name__}")
        if not dtype.name.startswith(("int", "uint")):
            raise ValueError(f"iinfo: {dtype} is not an integer dtype")
        bits = 8 * dtype.size
        is_signed = dtype.name.startswith("int")
        self.dtype, self.min, self.max = dtype, -(1 << bits - 1) if is_signed else 0, (1 << bits - is_signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"
