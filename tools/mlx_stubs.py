#!/usr/bin/env python3
"""Type stubs of weft.mlx.core, from the signatures it has: PYTHONPATH=build/release/python tools/mlx_stubs.py > python/weft/mlx/core/__init__.pyi

A parameter's type follows from its name, or from its default; python/test/test_mlx_stubs.py says if the file is not what this prints."""
import enum
import inspect
import types

import weft.mlx.core as mx

HEAD = '''# Type stubs of weft.mlx.core, written by tools/mlx_stubs.py.
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from weft import _core

from . import cuda as cuda, distributed as distributed, fast as fast, fft as fft, linalg as linalg, metal as metal, random as random

ArrayLike = Any
_Axis = Union[None, int, Sequence[int]]
_Shape = Union[int, Sequence[int]]
'''
TYPES = {"axis": "_Axis", "axes": "Any", "shape": "_Shape", "dtype": "Optional[Dtype]", "stream": "Any", "keepdims": "bool",
         "fun": "Callable[..., Any]", "a": "ArrayLike", "b": "ArrayLike", "x": "ArrayLike", "y": "ArrayLike", "c": "ArrayLike"}
WHOLE = {"k", "n", "m", "num", "decimals", "ddof", "offset", "axis1", "axis2", "start_axis", "end_axis", "groups", "block_size"}
LISTS = {"split", "broadcast_arrays", "unstack", "divmod"}
OTHER = {"eval": "None", "async_eval": "None", "synchronize": "None", "save": "None", "savez": "None", "save_safetensors": "None",
         "save_gguf": "None", "savez_compressed": "None", "reset_peak_memory": "None", "disable_compile": "None", "enable_compile": "None",
         "clear_streams": "None", "export_to_dot": "None", "device_info": "Dict[str, Any]", "stream": "Any", "device_count": "int",
         "einsum_path": "Any",
         "grad": "Callable[..., Any]", "value_and_grad": "Callable[..., Any]", "vmap": "Callable[..., Any]", "clear_cache": "None",
         "compile": "Callable[..., Any]", "checkpoint": "Callable[..., Any]", "broadcast_shapes": "Tuple[int, ...]", "load": "Any",
         "issubdtype": "bool", "isdtype": "bool", "can_cast": "bool", "is_available": "bool", "result_type": "Dtype", "meshgrid": "Tuple[array, ...]",
         "vjp": "Tuple[List[array], List[array]]", "jvp": "Tuple[List[array], List[array]]", "default_device": "Device", "quantize": "List[array]",
         "minmax": "Tuple[array, array]", "atleast_1d": "Any", "atleast_2d": "Any", "atleast_3d": "Any", "unique": "Any", "depends": "Any"}
SPECIAL = ["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__",
           "__mod__", "__rmod__", "__pow__", "__rpow__", "__matmul__", "__rmatmul__", "__and__", "__rand__", "__or__", "__ror__", "__xor__",
           "__rxor__", "__lshift__", "__rlshift__", "__rshift__", "__rrshift__", "__iadd__", "__isub__", "__imul__", "__itruediv__",
           "__ifloordiv__", "__imod__", "__ipow__", "__lt__", "__le__", "__gt__", "__ge__"]


def default(p):
    if p.default is p.empty:
        return ""
    return f" = {p.default!r}" if isinstance(p.default, (int, float, str, bool, type(None))) and repr(p.default) not in ("inf", "nan") else " = ..."


def type_of(p):
    known = TYPES.get(p.name)
    if known:
        return known if p.default is not None or known.startswith(("Any", "Optional", "_Axis", "ArrayLike")) else f"Optional[{known}]"
    if isinstance(p.default, int) and not isinstance(p.default, bool) and p.name not in WHOLE:
        return "Any"  # one number for all axes, or one for each
    return type(p.default).__name__ if isinstance(p.default, (bool, int, float, str)) else "Any"


def parameters(signature, first=()):
    out, last = list(first), None
    for p in signature.parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            out.append("/")
        if p.kind is p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            out.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        out.append(f"{star}{p.name}: {type_of(p)}{default(p)}")
        last = p.kind
    if last is inspect.Parameter.POSITIONAL_ONLY:
        out.append("/")
    return ", ".join(out)


def returned(name, given):
    if name in OTHER or name in LISTS:
        return OTHER.get(name, "List[array]")
    return "int" if name.startswith("get_") and name.endswith("memory") else "Any" if name.startswith(("set_", "new_", "get_", "default_")) else given


def function(name, f, indent="", first=(), given="array"):
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return f"{indent}def {name}({', '.join([*first, '*args: Any', '**kwargs: Any'])}) -> Any: ..."
    if first:
        rest = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=[p for p in rest])
    return f"{indent}def {name}({parameters(signature, first)}) -> {returned(name, given)}: ..."


def array_class():
    yield "class array(_core.array):"
    yield "    def __new__(cls, val: ArrayLike, dtype: Optional[Dtype] = None) -> array: ..."
    for name in ("T", "mT", "real", "imag"):
        yield f"    @property\n    def {name}(self) -> array: ..."
    yield "    @property\n    def dtype(self) -> Dtype: ..."
    yield "    @property\n    def at(self) -> Any: ..."
    yield "    def __getitem__(self, index: Any) -> array: ..."
    yield "    def __setitem__(self, index: Any, value: ArrayLike) -> None: ..."
    yield "    def __len__(self) -> int: ..."
    yield "    def __iter__(self) -> Iterator[array]: ..."
    yield "    def __eq__(self, other: object) -> Any: ...\n    def __ne__(self, other: object) -> Any: ..."
    yield "    def __neg__(self) -> array: ...\n    def __invert__(self) -> array: ...\n    def __abs__(self) -> array: ..."
    for name in SPECIAL:
        yield f"    def {name}(self, other: Any) -> array: ..."
    known = {"T", "mT", "real", "imag", "dtype", "at", "item", "tolist", "shape", "ndim", "size", "nbytes", "itemsize", "device"}
    for name in sorted(n for n in dir(mx.array) if not n.startswith("_") and n not in known):
        yield function(name, getattr(mx.array, name), "    ", ("self",))


def lines():
    yield HEAD
    yield "Dtype = _core.Dtype\n"
    yield "\n".join(array_class()) + "\n"
    for name in sorted(n for n in dir(mx) if not n.startswith("_")):
        x = getattr(mx, name)
        if isinstance(x, types.ModuleType) or name in ("array", "Dtype", "ArrayLike"):
            continue
        if isinstance(x, type):
            yield f"class {name}:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n    def __getattr__(self, name: str) -> Any: ..."
            if issubclass(x, enum.Enum):
                yield "\n".join(f"    {m.name}: {name}" for m in x)
            elif hasattr(x, "__call__") or hasattr(x, "__enter__"):
                yield "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n    def __enter__(self) -> Any: ...\n    def __exit__(self, *why: Any) -> None: ..."
        elif isinstance(x, mx.Dtype):
            yield f"{name}: Dtype"
        elif callable(x):
            yield function(name, x)
        else:
            yield f"{name}: {'None' if x is None else type(x).__name__}"
    yield "__version__: str"


if __name__ == "__main__":
    print("\n".join(lines()))
