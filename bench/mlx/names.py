"""What mlx.core has and weft.mlx.core has not: names, names of classes, and arguments of functions. Needs MLX.

    PYTHONPATH=build/release/python python bench/mlx/names.py"""
import inspect
import re
import types

import mlx.core
import weft.mlx.core

ATTRIBUTES = {"Device", "Stream", "ThreadLocalStream", "PrintOptions", "finfo", "iinfo"}  # whose members are set when they are made


def arguments(text):
    """The names in "f(a: array, /, axis: int | None = None) -> array"; None: it says nothing."""
    found = re.match(r"\w+\((.*)\)", text.strip().split("\n")[0].split("->")[0].strip())
    if not found:
        return None
    depth, names = 0, [""]
    for c in found[1]:
        depth += (c in "[(") - (c in "])")
        names = names + [""] if c == "," and not depth else names[:-1] + [names[-1] + c]
    return [n.split(":")[0].split("=")[0].strip(" *") for n in names if n.strip(" */")]


def compare(theirs, ours, path):
    for name in sorted(dir(theirs)):
        if name.startswith("_") and not isinstance(theirs, type):
            continue
        theirs_, ours_ = getattr(theirs, name), getattr(ours, name, None)
        where = f"{path}.{name}"
        if ours_ is None and not hasattr(ours, name):
            yield where, "is not there"
        elif isinstance(theirs_, (types.ModuleType, type)) and (isinstance(theirs_, types.ModuleType) or name not in ATTRIBUTES):
            yield from compare(theirs_, ours_, where) if not name.startswith("_") else ()
        elif "Not there" in (getattr(ours_, "__doc__", None) or ""):
            yield where, "raises NotImplementedError"
        elif callable(theirs_) and not isinstance(theirs_, type) and not isinstance(theirs, type):
            wanted = arguments(theirs_.__doc__ or "") or []
            has = inspect.signature(ours_).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in has.values()):
                for argument in wanted:
                    if argument not in has and argument not in ("args", "kwargs"):
                        yield where, f"has no argument {argument}"


if __name__ == "__main__":
    for where, what in compare(mlx.core, weft.mlx.core, "mlx.core"):
        print(where, what)
