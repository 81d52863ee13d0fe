"""`import mlx.core` is weft."""
import importlib.util
import sys
import types


def as_mlx():
    """From here on `import mlx.core` is weft.mlx.core. mlx.nn, mlx.optimizers and mlx.utils are those of the mlx package that is
    installed, which needs no native part. Returns weft.mlx.core."""
    from . import core

    before = sys.modules.get("mlx.core")
    if before is core:
        return core
    if before is not None:
        raise ImportError("as_mlx: mlx.core is imported already; call it before the first import of mlx")
    if importlib.util.find_spec("mlx") is None:
        package = types.ModuleType("mlx")
        package.__path__ = []
        sys.modules["mlx"] = package
    import mlx

    sys.modules["mlx.core"] = mlx.core = core
    for name in ("random", "linalg", "fft", "fast", "distributed", "metal", "cuda"):
        sys.modules["mlx.core." + name] = getattr(core, name)
    return core
