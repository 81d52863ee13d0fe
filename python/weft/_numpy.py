"""Arrays in the hands of NumPy's functions: weft's function of the same name takes them; what weft has not is computed by NumPy of
the values, and so is what writes into NumPy's memory."""
from . import _core
from ._core import array

_OWN = {row["name"] for row in _core.names} - {"put_along_axis", "size"}  # NumPy's changes its argument, gives an int
_ATTRIBUTES = {"ndim": lambda a: a.ndim, "shape": lambda a: a.shape, "size": lambda a: a.size}
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
_RENAMED = {"absolute": "abs", "conjugate": "conj", "invert": "bitwise_invert", "true_divide": "divide", "mod": "remainder",
            "amax": "max", "amin": "min", "round_": "round"}
_ANY_WAY = {"sort": ("kind", "stable"), "argsort": ("kind", "stable")}  # weft's order is the stable one, whatever these ask for


def _own(name):
    name = _RENAMED.get(name, name)
    return getattr(_core, name) if name in _OWN else None


def _values(x):
    """x with NumPy arrays in place of ours."""
    if isinstance(x, array):
        return x.__array__()
    if type(x) in (list, tuple):
        return type(x)(map(_values, x))
    return {key: _values(item) for key, item in x.items()} if type(x) is dict else x


def array_function(func, types, args, kwargs):
    is_numpys = func.__module__ == "numpy"
    if is_numpys and func.__name__ in _ATTRIBUTES and not kwargs and len(args) == 1 and isinstance(args[0], array):
        return _ATTRIBUTES[func.__name__](args[0])
    own = _own(func.__name__) if is_numpys else None
    if func.__name__ in ("put", "put_along_axis"):
        raise TypeError(f"numpy.{func.__name__} writes into its argument, and arrays of weft are values: "
                        "use a[..] = v or weft.put_along_axis")
    if own is None:
        return func(*_values(args), **_values(kwargs))
    return own(*args, **{key: kwargs[key] for key in kwargs if key not in _ANY_WAY.get(func.__name__, ())})


def array_ufunc(args, kwargs):
    ufunc, method, *inputs = args
    kwargs = kwargs or {}
    name = {"__call__": ufunc.__name__, "reduce": _REDUCTIONS.get(ufunc.__name__)}.get(method)
    own = _own(name) if name else None
    if own is None or kwargs.get("out") is not None:
        out = kwargs.get("out") or ()
        if any(isinstance(x, array) for x in out):
            raise TypeError(f"numpy.{ufunc.__name__}: out= is an array of weft, which is a value and cannot be written into")
        return getattr(ufunc, method)(*_values(inputs), **_values(kwargs))
    if method == "reduce" and "axis" not in kwargs and len(inputs) == 1:
        kwargs = {"axis": 0, **kwargs}  # as NumPy has it
    return own(*inputs, **kwargs)
